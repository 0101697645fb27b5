"""Files that several tests read, and cheaper fits."""

import gc

import pytest
from tests.scale.files import make_rows, write_files
from tests.short_fits import few_trees_in_scores, one_start, short_fits

__all__ = ["few_trees_in_scores", "one_start", "short_fits"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with 3,000 rows in twelve files."""
    X, s = make_rows(3000)
    return write_files(tmp_path_factory.mktemp("twelve") / "rows", X, range(250, 3000, 250), s=s)


@pytest.fixture
def little_garbage():
    """Exclude all present objects from garbage collection, so that a test can collect its own objects fast."""
    gc.freeze()
