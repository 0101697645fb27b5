"""The specification of the paper's experiment, and the committed results."""

import csv
from dataclasses import asdict
from itertools import product
from pathlib import Path

import scarless
from scarless.experiments import Cell, read_spec
from scarless.papers import METHODS, field
from scarless.papers.bekker2019 import PATH, specification

RESULTS = Path(__file__).parents[3] / "papers" / "bekker2019"


def test_the_specification_has_the_numbers_of_the_paper():
    spec, quick = specification(), specification(quick=True)
    assert len(spec.datasets) == 8
    assert (spec.n_splits, spec.n_labellings, spec.n_propensity_attributes) == (5, 5, (2, 4))
    assert (spec.added_attributes, spec.clusters, spec.low, spec.high) == (4, 5, 0.2, 0.8)
    assert (spec.test_share, spec.C) == (0.2, 1.0)
    changed = {name for name in asdict(spec) if getattr(spec, name) != getattr(quick, name)}
    assert changed == {"datasets", "n_splits", "n_labellings"}


def test_the_cells_of_the_specification():
    spec = specification()
    cells = list(spec.cells())
    assert len(cells) == len(set(cells)) == len({cell.key for cell in cells}) == 8 * 2 * 2 * 25
    parts = product(spec.datasets, spec.settings, (2, 4), range(5), range(5))
    assert set(cells) == {Cell(*part) for part in parts}


def test_the_specification_has_every_method():
    assert set(specification().methods) == set(METHODS) - set(field.METHODS)


def test_the_specification_is_one_file_of_the_package():
    assert PATH.is_relative_to(Path(scarless.__file__).parent)
    assert read_spec(PATH) == specification()
    assert list(RESULTS.glob("*.toml")) == []


def test_digests_of_earlier_runs_do_not_change():
    """With another digest, earlier folders of results could not be continued."""
    assert specification().digest == "729def6dc265"
    assert specification(quick=True).digest == "6e75f5ce4c26"
    assert "bekker2019, 729def6dc265, seed 2019" in (RESULTS / "report.html").read_text(encoding="utf-8")


def test_the_committed_results_match_the_specification():
    spec = specification()
    with (RESULTS / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = product(spec.datasets, spec.settings, map(str, spec.n_propensity_attributes), spec.methods)
    assert sorted((row["dataset"], row["setting"], row["k"], row["method"]) for row in rows) == sorted(expected)
    assert {row["n_runs"] for row in rows} == {str(spec.n_splits * spec.n_labellings)}
    assert {row["n_failed"] for row in rows} == {"0"}
