"""The paper's specification is what the paper ran, and what our results are of."""

import csv
from dataclasses import asdict
from itertools import product
from pathlib import Path

import scarless
from scarless.experiments import Cell, read_spec
from scarless.papers import METHODS
from scarless.papers.bekker2019 import PATH, specification

RESULTS = Path(__file__).parents[3] / "papers" / "bekker2019"


def test_the_papers_specification_is_the_papers():
    spec, quick = specification(), specification(quick=True)
    assert len(spec.datasets) == 8
    assert (spec.n_splits, spec.n_labellings, spec.n_propensity_attributes) == (5, 5, (2, 4))
    assert (spec.added_attributes, spec.clusters, spec.low, spec.high) == (4, 5, 0.2, 0.8)
    assert (spec.test_share, spec.C) == (0.2, 1.0)
    changed = {name for name in asdict(spec) if getattr(spec, name) != getattr(quick, name)}
    assert changed == {"datasets", "n_splits", "n_labellings"}


def test_the_papers_cells_are_eight_by_two_by_two_by_twenty_five():
    spec = specification()
    cells = list(spec.cells())
    assert len(cells) == len(set(cells)) == len({cell.key for cell in cells}) == 8 * 2 * 2 * 25
    parts = product(spec.datasets, spec.settings, (2, 4), range(5), range(5))
    assert set(cells) == {Cell(*part) for part in parts}


def test_it_names_every_method():
    assert set(specification().methods) == set(METHODS)


def test_it_is_a_file_of_the_package_and_there_is_no_other():
    assert PATH.is_relative_to(Path(scarless.__file__).parent)
    assert read_spec(PATH) == specification()
    assert list(RESULTS.glob("*.toml")) == []


def test_results_of_earlier_runs_are_still_of_it():
    """A digest decides whether a folder of results can be gone on with; those of earlier runs must stay."""
    assert specification().digest == "729def6dc265"
    assert specification(quick=True).digest == "6e75f5ce4c26"
    assert "bekker2019, 729def6dc265, seed 2019" in (RESULTS / "report.html").read_text(encoding="utf-8")


def test_the_committed_results_are_those_of_the_specification():
    spec = specification()
    with (RESULTS / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    expected = product(spec.datasets, spec.settings, map(str, spec.n_propensity_attributes), spec.methods)
    assert sorted((row["dataset"], row["setting"], row["k"], row["method"]) for row in rows) == sorted(expected)
    assert {row["n_runs"] for row in rows} == {str(spec.n_splits * spec.n_labellings)}
    assert {row["n_failed"] for row in rows} == {"0"}
