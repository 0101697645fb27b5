"""A fixture that makes fits cheaper; the conftest.py of a folder imports it if the folder does not test these steps.

tests/pair tests the search for starts with all trial fits, and the whole grid of class priors.
"""

import pytest

from scarless.pair import recalibrated, starts


@pytest.fixture(scope="module", autouse=True)
def short_fits():
    """Use fewer trial fits for starts, and end the grid of class priors of a recalibrated fit earlier."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starts, "TRIAL_FITS", 3)
        patch.setattr(recalibrated, "_GRID_DEPTH", 12.0)
        yield
