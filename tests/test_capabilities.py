"""The table of what goes with what is what comes of trying each cell."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("dask.dataframe", reason="dask is an extra")
pytest.importorskip("scipy", minversion="1.14", reason="scikit-learn dispatches with SciPy from 1.14 on")
SCRIPT = Path(__file__).parents[1] / "tools" / "capabilities.py"
NAMES = [
    "one label",
    "several looks",
    "looks with gaps",
    "audits",
    "false positives",
    "known share",
    "visit attributes",
    "offset",
    "bounds",
]


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("capabilities", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def told(tool):
    """Return what the page says of each cell: None, or a reason."""
    lines = tool.PAGE.read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    reasons = dict(re.findall(r"^(\d+)\. (.*)$", "\n".join(lines), flags=re.MULTILINE))
    found = {}
    for column, *cells in table[2:]:
        for name, cell in zip(table[0][1:], cells, strict=True):
            found[name, column] = None if cell == "yes" else reasons[re.fullmatch(r"no \((\d+)\)", cell)[1]]
    return found


def test_the_page_has_every_cell_and_nothing_that_is_not_said(tool, told):
    assert set(told) == {(name, column) for name in NAMES for column in tool.COLUMNS}
    assert [row.name for row in tool.rows(20)] == NAMES
    assert all(reason is None or reason == tool.reason_of(*cell) for cell, reason in told.items())
    assert tool.written(told) == tool.PAGE.read_text(encoding="utf-8"), "run python tools/capabilities.py"


@pytest.mark.parametrize("dear", [False, True], ids=["quick", "dear"])
@pytest.mark.parametrize("name", NAMES)
def test_each_cell_is_as_the_page_says(tool, told, name, dear):
    row = next(row for row in tool.rows() if row.name == name)
    columns = [column for column in tool.COLUMNS if (column in tool.DEAR) == dear]
    assert {column: tool.refusal(row, column) is None for column in columns} == {
        column: told[name, column] is None for column in columns
    }
