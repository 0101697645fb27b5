"""A fixture that makes fits cheaper; the conftest.py of a folder imports it if the folder does not test these steps.

tests/pair tests the search for starts with all trial fits, and the whole grid of class priors.
"""

from contextlib import contextmanager

import pytest

from scarless.pair import optima, recalibrated, starts


@pytest.fixture(scope="module", autouse=True)
def short_fits():
    """Use fewer trial fits for starts, and end the grid of class priors of a recalibrated fit earlier."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "TRIAL_FITS", 3)
        patch.setattr(recalibrated, "_GRID_DEPTH", 12.0)
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
