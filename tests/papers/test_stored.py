"""Stored results: pages, tables, figures and sentences are what the stored records give."""

import importlib.util
import json
from pathlib import Path

import pytest
import scipy

from scarless.experiments import Store
from scarless.experiments.store import key_of
from scarless.papers import EXPERIMENTS
from scarless.papers.teisseyre2025 import specification
from scarless.report.anchors import check_anchors, compare_anchors
from scarless.report.names import KNOWS
from scarless.report.results import group

SCRIPT = Path(__file__).parents[2] / "tools" / "stored_results.py"
SPEC = importlib.util.spec_from_file_location("stored_results", SCRIPT)
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)
STORED = [name for name in EXPERIMENTS if (tool.folder_of(name) / tool.PLACE).exists()]
old_scipy = pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 15), reason="old SciPy rounds a p-value anew"
)


@old_scipy
@pytest.mark.parametrize("name", STORED)
def test_every_file_is_what_the_stored_records_give(name):
    found = tool.files(name)
    for path, content in found.items():
        assert path.read_text(encoding="utf-8") == content, f"run python tools/stored_results.py write {name}"
    figures = tool.folder_of(name) / "figures"
    assert set(figures.iterdir()) == {path for path in found if path.parent == figures}


def test_the_table_of_the_readme_has_only_cases_in_which_attributes_are_named():
    results = group(*tool.read("field"))
    named = tool.named_conditions(results, "stack")
    told = {KNOWS[results.level(method, each)] for method in ("stack", "search") for each in named}
    assert told == {"names"}
    readme = (tool.ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Means over the {len(results.datasets) * len(named)} cases in which attributes are named." in readme
    means = tool.means(results, named)["stack"]
    assert f"attributes named | {tool._number(means['balanced_accuracy'])} | {tool._number(means['auc_f'])} |" in readme


def test_the_published_numbers_are_reproduced_in_every_cell():
    """The run's own verdict: supervised within 0.002, NTC-tMI and PGlin within 0.01, on all tables and mechanisms."""
    records, timings, manifest = tool.read("teisseyre2025")
    results = group(records, timings, manifest)
    spec = specification()
    assert len(records) == len(list(spec.cells())) * len(spec.methods)
    found = compare_anchors(results, check_anchors(spec.anchors, "anchors"))
    assert len(found) == 5 * 15 * 4
    judged = [each for each in found if each.published.tolerance is not None]
    assert len(judged) == 3 * 15 * 4
    assert [each for each in judged if not each.within] == []


def test_stored_records_are_those_of_the_run_with_five_decimals(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "papers").mkdir()
    spec = specification()
    run = Store(tmp_path / "run")
    run.open_for(spec.name, spec.digest, json.loads(json.dumps(spec.entries())))
    key = {"dataset": "teisseyre_sonar", "setting": "S1", "k": 0, "split": 3, "labelling": 0, "method": "pglin"}
    score = {"auc_f": 0.123456789, "accuracy": 1 / 3, "knows": "nothing", "n_labels": 7, "converged": True}
    run.add({**key, **score, "n_iter": 2, "warnings": ["one", "two"]}, {**key, "seconds": 0.12345, "peak_mb": 99})
    run.add({**key, "split": 4, "error": "ValueError: no"}, {**key, "split": 4, "seconds": 0.5})
    tool.store("teisseyre2025", tmp_path / "run")
    (one, failed), timings, manifest = tool.read("teisseyre2025")
    assert one == {**key, **score, "auc_f": 0.12346, "accuracy": 0.33333, "n_iter": 2, "warnings": ["one", "two"]}
    assert failed == {**key, "split": 4, "error": "ValueError: no"}
    assert [row["seconds"] for row in timings] == [0.123, 0.5]
    assert "numpy" in timings[0]["versions"]
    assert manifest["digest"] == spec.digest
    assert [row["clock"] for row in timings] == ["processor", "processor"]
    with pytest.raises(SystemExit, match=r"has results of another specification than field"):
        tool.store("field", tmp_path / "run")


def test_a_restored_folder_has_the_stored_records_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    (tmp_path / "papers").mkdir()
    spec = specification()
    key = {"dataset": "teisseyre_sonar", "setting": "S1", "k": 0, "split": 3, "labelling": 0, "method": "pglin"}
    run = Store(tmp_path / "run")
    run.open_for(spec.name, spec.digest, json.loads(json.dumps(spec.entries())))
    run.add({**key, "auc_f": 0.123456789, "warnings": ["one"]}, {**key, "seconds": 0.5})
    run.add({**key, "method": "naive", "error": "ValueError: no"}, {**key, "method": "naive", "seconds": 0.25})
    tool.store("teisseyre2025", tmp_path / "run")
    stored = {path: path.read_bytes() for path in (tmp_path / "papers" / "teisseyre2025").iterdir()}
    tool.restore("teisseyre2025", tmp_path / "again")
    again = Store(tmp_path / "again")
    assert again.open_for(spec.name, spec.digest, json.loads(json.dumps(spec.entries()))) == []
    assert [row["auc_f"] for row in again.records() if "auc_f" in row] == [0.12346]
    tool.store("teisseyre2025", tmp_path / "again")
    assert {path: path.read_bytes() for path in stored} == stored
    again.add({**key, "split": 4, "auc_f": 0.5}, {**key, "split": 4, "seconds": 1.0})
    tool.store("teisseyre2025", tmp_path / "again")
    assert [row["split"] for row in tool.read("teisseyre2025")[0]] == [3, 3, 4]
    with pytest.raises(SystemExit, match=r"again exists already. Name a new folder"):
        tool.restore("teisseyre2025", tmp_path / "again")


def test_methods_may_be_run_again_and_all_others_stay(tmp_path):
    """Two rows of one fit are left out; `scarless reproduce` then has these runs to compute, and no others."""
    stored = tool.read("teisseyre2025")[0]
    ours = ["sarem-nameless", "sarem-nameless-balanced"]
    tool.restore("teisseyre2025", tmp_path / "again", ours)
    again = Store(tmp_path / "again")
    others = [record for record in stored if record["method"] not in ours]
    assert again.records() == others
    assert {key_of(row) for row in again.timings()} == {key_of(record) for record in others}
    with pytest.raises(SystemExit, match=r"'sarem-nameles' is not a method of teisseyre2025. Did you mean"):
        tool.restore("teisseyre2025", tmp_path / "other", ["sarem-nameles"])
    assert not (tmp_path / "other").exists()


def test_a_table_is_written_between_its_marks():
    text = "Before\n<!-- field -->\nold\n<!-- end of field -->\nafter"
    new = tool.replaced(text, "field", "| new |")
    assert new == "Before\n<!-- field -->\n| new |\n<!-- end of field -->\nafter"
    assert tool.replaced(new, "field", "| new |") == new
    with pytest.raises(ValueError, match=r"The page has no place for the table: write <!-- field -->"):
        tool.replaced("no marks", "field", "")
