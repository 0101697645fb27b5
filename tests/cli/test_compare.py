"""`scarless compare` with a method and a table of the user, as in the example."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from scarless.cli import main
from scarless.experiments import Store
from scarless.experiments.store import RECORDS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "compare"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("spec.toml", "my_method.py", "tumours.csv"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    return tmp_path


def test_the_example_runs_and_its_page_has_title_and_questions(here, capsys):
    assert main(["compare", "spec.toml", "--quick", "--out", "found", "--jobs", "1"]) == 0
    assert capsys.readouterr().out == "Report: found/report.html\n"
    records = Store("found").records()
    assert len(records) == 2 * 5
    assert not [record for record in records if "error" in record]
    page = (here / "found" / "report.html").read_text(encoding="utf-8")
    for text in (
        "<h1>Tumours of which not all are diagnosed</h1>",
        "Are neighbours more accurate than treating unlabelled rows as negative?",
        "Does SAR-EM rank better than neighbours?",
        "my_method:ScaledNeighbours(n_neighbors=30)",
        "attributes: the datasets&#39; own propensity attributes, propensity from 0.2 to 0.8",
        "tumours: tumours.csv, class diagnosis, positive malignant, labels depend on mean texture and mean smoothness",
    ):
        assert text in page, text
    assert page.count('class="verdict"') == 2


def test_an_interrupted_run_ends_with_the_same_bytes(here):
    command = ["compare", "spec.toml", "--quick", "--out", "found", "--jobs", "1"]
    assert main(command) == 0
    path = here / "found" / RECORDS
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    assert main(command) == 0
    assert path.read_bytes() == whole


def test_a_specification_of_three_lines_runs(here, capsys):
    (here / "three.toml").write_text('[datasets.tumours]\nfile = "tumours.csv"\nclass = "diagnosis"\n')
    assert main(["compare", "three.toml", "--quick", "--jobs", "1"]) == 1
    told = (
        "the class 'diagnosis' has the values 'benign', 'malignant'. Set `positive` to the value of the positive class."
    )
    assert f"scarless: The dataset 'tumours': {told}\n" in capsys.readouterr().err
    table = pd.read_csv("tumours.csv")[::3].assign(diagnosis=lambda each: each["diagnosis"] == "malignant")
    table.to_parquet("tumours.parquet")
    (here / "three.toml").write_text('[datasets.tumours]\nfile = "tumours.parquet"\nclass = "diagnosis"\n')
    assert main(["compare", "three.toml", "--quick", "--jobs", "1"]) == 0
    assert len(Store(here / "results" / "three-quick").records()) == 2 * 4


def test_the_page_lists_a_method_that_fails(here, capsys):
    (here / "my_method.py").write_text(
        (here / "my_method.py").read_text()
        + "\n    def fit(self, X, s):\n        raise ZeroDivisionError('<u>oh</u>')\n"
    )
    assert main(["compare", "spec.toml", "--quick", "--out", "found", "--jobs", "1"]) == 0
    page = (here / "found" / "report.html").read_text(encoding="utf-8")
    assert "2 runs failed and are left out of all means" in page
    assert "ZeroDivisionError: &lt;u&gt;oh&lt;/u&gt;" in page
    assert "8 finished of 10, 2 failed" in page


def test_an_error_is_one_line(here, capsys):
    (here / "my_method.py").unlink()
    assert main(["compare", "spec.toml", "--out", "found", "--jobs", "1"]) == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("scarless: 'my_method:ScaledNeighbours' cannot be imported: `import my_method` raised")
    assert error.endswith(f"(searched {here} and the installed packages).")
    assert "\n" not in error
    assert not (here / "found").exists()


def test_the_table_of_the_example_is_small_and_matches_scikit_learns_data():
    path = EXAMPLE / "tumours.csv"
    assert path.stat().st_size < 100_000
    table, data = pd.read_csv(path), load_breast_cancer()
    assert (table.pop("diagnosis") == "malignant").tolist() == (data.target == 0).tolist()
    assert table.to_numpy().tolist() == data.data[:, :10].tolist()
