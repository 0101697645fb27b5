"""Cheaper fits for the tests of models; tests/pair tests the parts of a fit that are reduced here."""

import pytest

from scarless.pair import recalibrated, starts


@pytest.fixture(scope="package", autouse=True)
def short_fits():
    """Use fewer trial fits for starts, and end the grid of class priors of a recalibrated fit earlier."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "TRIAL_FITS", 3)
        patch.setattr(recalibrated, "_GRID_DEPTH", 12.0)
        yield
