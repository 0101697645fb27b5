"""The published numbers of Teisseyre et al. (2025), and our results with their splits and labels beside them."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scarless.datasets import DatasetFileError, load_dataset
from scarless.datasets.parsers import parse_teisseyre
from scarless.datasets.registry import TEISSEYRE_TABLES
from scarless.experiments import run_experiment
from scarless.papers.teisseyre2025 import specification
from scarless.report.anchors import check_anchors, compare_anchors
from scarless.report.results import group

ANCHORED = ("supervised", "ntc-tmi", "pglin")
FACTS = {  # rows, attributes, share of positives
    "abalone": (4177, 8, 0.165), "banknote-authentication": (1372, 4, 0.445), "breast-w": (699, 9, 0.345),
    "diabetes": (768, 8, 0.349), "haberman": (306, 3, 0.265), "heart-statlog": (270, 13, 0.444),
    "ionosphere": (351, 34, 0.641), "kc1": (2109, 21, 0.155), "segment": (2310, 19, 0.143),
    "semeion": (1593, 256, 0.102), "sonar": (208, 60, 0.534), "vehicle": (846, 18, 0.258),
    "waveform-5000": (5000, 40, 0.338), "wdbc": (569, 30, 0.373), "yeast": (1484, 8, 0.312),
}  # fmt: skip


@pytest.fixture
def home():
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    found = Path(os.environ.get("SCARLESS_DATA") or beside)
    if not (found / "teisseyre2025").is_dir():
        pytest.skip("the tables are not here: set SCARLESS_DATA to a directory with the folder teisseyre2025")
    return found


def largest_differences(tables, folder, home, mechanisms=("S1", "S2", "S3", "S4")):
    """Run the anchored methods on some tables; return the differences of each from the published numbers."""
    spec = replace(specification().only(tuple(f"teisseyre_{name}" for name in tables)), methods=ANCHORED)
    spec = replace(spec, mechanisms=mechanisms)
    spec = replace(spec, own_methods={name: each for name, each in spec.own_methods.items() if name in ANCHORED})
    store = run_experiment(spec, folder, data_home=home, download=False)
    results = group(store.records(), store.timings(), store.manifest())
    found = [
        each
        for each in compare_anchors(results, check_anchors(spec.anchors, "anchors"))
        if each.published.tolerance is not None
    ]
    assert all(each.within for each in found), [(each.published, each.difference) for each in found if not each.within]
    return {name: [abs(each.difference) for each in found if each.published.method == name] for name in ANCHORED}


def test_heart_is_as_published(tmp_path, home):
    """One mechanism of SCAR and one of SAR; the next test has all four."""
    found = largest_differences(["heart-statlog"], tmp_path / "found", home, ("S1", "S3"))
    assert {name: len(differences) for name, differences in found.items()} == dict.fromkeys(ANCHORED, 2)


def test_three_tables_are_as_published(tmp_path, home):
    found = largest_differences(["banknote-authentication", "breast-w", "diabetes"], tmp_path / "found", home)
    assert max(found["supervised"]) <= 0.002
    assert max(found["ntc-tmi"]) <= 0.01
    assert max(found["pglin"]) <= 0.01
    assert {len(differences) for differences in found.values()} == {12}


@pytest.mark.parametrize("name", FACTS)
def test_rows_attributes_and_class_prior(name, home):
    data = load_dataset(f"teisseyre_{name}", data_home=home, download=False)
    assert (*data.X.shape, round(data.class_prior, 3)) == FACTS[name]
    assert np.isfinite(data.X).all()


def test_the_specification_has_every_table_and_all_published_splits():
    spec = specification()
    assert set(spec.datasets) == set(TEISSEYRE_TABLES) == {f"teisseyre_{name}" for name in FACTS}
    assert (spec.n_splits, spec.n_labellings, spec.test_share, spec.C) == (20, 1, 0.25, 1.0)
    assert spec.mechanisms == ("S1", "S2", "S3", "S4")
    assert spec.seeds == "teisseyre2025"
    assert len(list(spec.cells())) == 15 * 4 * 20


def test_every_published_number_belongs_to_a_run_of_the_specification():
    spec = specification()
    numbers = check_anchors(spec.anchors, "anchors")
    assert len(numbers) == 5 * 15 * 4
    for each in numbers:
        assert each.method in spec.methods
        assert each.dataset in spec.datasets
        assert each.condition.setting in spec.mechanisms
        assert 0.4 < each.value < 1
        assert "Teisseyre" in each.source
    assert {each.tolerance for each in numbers if each.method == "supervised"} == {0.002}
    assert {each.tolerance for each in numbers if each.method in ("ntc-tmi", "pglin")} == {0.01}
    assert {each.tolerance for each in numbers if each.method in ("lbe", "sarem-nameless")} == {None}


def test_the_most_frequent_of_several_classes_is_positive():
    X, y, names = parse_teisseyre(b"a,b,Class,BinClass\n1,2,7,0\n3,4,9,1\n5,6,9,1\n0,0,8,0\n")
    assert X.tolist() == [[1, 2], [3, 4], [5, 6], [0, 0]]
    assert y.tolist() == [0, 1, 1, 0]
    assert names == ["a", "b"]


def test_of_two_classes_the_one_called_1_is_positive():
    assert parse_teisseyre(b"a,BinClass,y\n1,0,0\n3,1,1\n5,1,0\n")[1].tolist() == [0, 1, 0]


def test_a_missing_table_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SCARLESS_CACHE", str(tmp_path))
    with pytest.raises(DatasetFileError, match=r"Sonar\.csv is not on this machine .* https://raw\.github"):
        load_dataset("teisseyre_sonar", data_home=tmp_path, download=False)
