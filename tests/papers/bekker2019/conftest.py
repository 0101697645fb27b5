"""Made-up results of the paper's experiment."""

import pytest

from scarless.papers.bekker2019 import STORY, specification
from scarless.report.results import group


@pytest.fixture(scope="session")
def make(make):
    """Return the class that makes results of the paper's experiment."""

    class OfPaper(make):
        base = specification()

        @property
        def results(self):
            return group(*self.everything, method_names=STORY.method_names, contests=STORY.contests)

    return OfPaper


@pytest.fixture(scope="session")
def full(make):
    """Return results of the whole specification, with the same order of methods on every dataset."""
    return make(n_splits=5, n_labellings=5)
