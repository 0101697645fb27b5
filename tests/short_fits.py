"""Fixtures that make fits cheaper; the conftest.py of a folder imports those whose steps the folder does not test.

tests/pair tests the search for starts with all trial fits, and the whole grid of class priors. tests/label_frequency
tests the default classifier.
"""

from contextlib import contextmanager

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from scarless.label_frequency import held_out_scores
from scarless.label_frequency.held_out_scores import default_classifier
from scarless.pair import optima, recalibrated, starts

# Modules that test one of these steps.
NOT_SHORTENED = ("test_form.py", "test_higher_optimum.py", "test_optima.py", "test_recalibrated.py")


@pytest.fixture(scope="module", autouse=True)
def short_fits(request):
    """Use fewer trial fits for starts, and end the grid of class priors of a recalibrated fit earlier."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name not in NOT_SHORTENED:
            patch.setattr(starts, "TRIAL_FITS", 3)
            patch.setattr(recalibrated, "_GRID_DEPTH", 4.0)
        yield


@pytest.fixture(scope="module", autouse=True)
def few_trees_in_scores():
    """Use fewer trees, with a higher learning rate, in the default classifier of estimators of the label frequency."""

    def smaller(X):
        classifier = default_classifier(X)
        few = {"max_iter": 25, "learning_rate": 0.2}
        return classifier.set_params(**few) if isinstance(classifier, HistGradientBoostingClassifier) else classifier

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out_scores, "default_classifier", smaller)
        yield


@contextmanager
def from_one_start():
    """Optimise fits to looks, audits or known values from their first start only.

    For tests of how rows are read and of what a fit says about them: in these tests, all starts find the same optimum.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            optima, "starts_for_extra_information", lambda *given: starts.starts_for_extra_information(*given)[:1]
        )
        yield


@pytest.fixture
def one_start():
    with from_one_start():
        yield
