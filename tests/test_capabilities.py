"""The page of supported combinations agrees with a trial of each combination."""

import importlib.util
import re
from pathlib import Path

import pytest

pytest.importorskip("dask.dataframe", reason="dask is an optional dependency")
pytest.importorskip("scipy", minversion="1.14", reason="array API dispatch of scikit-learn needs SciPy 1.14")
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
def page_cells(tool):
    """Return the reason that the page gives for each cell, or None if the combination is supported."""
    lines = tool.PAGE.read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    reasons = dict(re.findall(r"^(\d+)\. (.*)$", "\n".join(lines), flags=re.MULTILINE))
    found = {}
    for column, *cells in table[2:]:
        for name, cell in zip(table[0][1:], cells, strict=True):
            found[name, column] = None if cell == "yes" else reasons[re.fullmatch(r"no \((\d+)\)", cell)[1]]
    return found


def test_the_page_has_every_cell_and_its_reason(tool, page_cells):
    assert set(page_cells) == {(name, column) for name in NAMES for column in tool.COLUMNS}
    assert [row.name for row in tool.rows(20)] == NAMES
    assert all(reason is None or reason == tool.reason_of(*cell) for cell, reason in page_cells.items())
    assert tool.written(page_cells) == tool.PAGE.read_text(encoding="utf-8"), "run python tools/capabilities.py"


@pytest.mark.parametrize("slow", [False, True], ids=["quick", "slow"])
@pytest.mark.parametrize("name", NAMES)
def test_each_cell_is_as_the_page_says(tool, page_cells, name, slow):
    row = next(row for row in tool.rows() if row.name == name)
    columns = [column for column in tool.COLUMNS if (column in tool.SLOW_COLUMNS) == slow]
    assert {column: tool.refusal(row, column) is None for column in columns} == {
        column: page_cells[name, column] is None for column in columns
    }
