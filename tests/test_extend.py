"""The examples of docs/extend.md work exactly as they are printed there."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from scarless import SAREMClassifier
from scarless.datasets import load_simulated
from scarless.engines import open_rows
from scarless.experiments import read_spec, run_experiment

PAGE = (Path(__file__).parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
MAX_LINES = 40


def blocks(start: str, language: str = "python") -> list[str]:
    """Return the code blocks of the section whose title begins with `start`."""
    (text,) = [text for title, text in SECTIONS.items() if title.startswith(start)]
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(start: str) -> dict:
    (code,) = blocks(start)
    names = {"__name__": f"extend_{start.split()[1]}"}
    exec(compile(code, f"docs/extend.md, {start}", "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def data():
    found = load_simulated(600, random_state=1)
    s = np.where(np.arange(600) % 3 > 0, found.y, 0).astype(int)
    return found.X, s


@pytest.mark.parametrize("title", SECTIONS)
def test_an_example_is_short(title):
    (code,) = blocks(title)
    assert 5 < len([line for line in code.splitlines() if line.strip()]) <= MAX_LINES


def test_the_engine_of_the_page_gives_the_fit_in_memory(data, tmp_path):
    X, s = data
    paths = [tmp_path / f"{i}.npy" for i in range(3)]
    for path, rows in zip(paths, (slice(0, 100), slice(100, 350), slice(350, 600)), strict=True):
        np.save(path, X[rows])
    names = [f"column {j}" for j in range(X.shape[1])]
    table = run("An engine")["NpyFiles"](paths, names)
    model = SAREMClassifier(propensity_attributes=["column 0"]).fit(table, s)
    same = SAREMClassifier(propensity_attributes=[0]).fit(X, s)
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9, atol=1e-9)
    assert list(model.feature_names_in_) == names
    np.testing.assert_allclose(model.predict_proba(table), same.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize(("step", "first"), [(1, 0), (3, 0), (7, 5), (2, 130), (101, 100)])
def test_the_engine_of_the_page_selects_every_kth_row(tmp_path, step, first):
    X = np.arange(600.0).reshape(300, 2)
    paths = [tmp_path / f"{i}.npy" for i in range(2)]
    np.save(paths[0], X[:131])
    np.save(paths[1], X[131:])
    engine = open_rows(run("An engine")["NpyFiles"](paths, ["a", "b"]), np.arange(300)).every(step, first)
    assert engine.n_rows == len(X[first::step])
    np.testing.assert_array_equal(engine.collect(lambda X, rows: X[:, 0]), X[first::step, 0])
    np.testing.assert_array_equal(engine.collect(lambda X, rows: rows["y"]), np.arange(300)[first::step])
    np.testing.assert_array_equal(engine.collect(lambda X, rows: rows.number), np.arange(300)[first::step])


def test_the_mechanism_of_the_page_simulates_labels():
    found = run("A labelling mechanism")
    e, s = found["e"], found["s"]
    assert e.max() == 0.9
    assert found["HalvingSAR"]([0]).assumption == "SAR"
    assert set(s) == {0, 1}
    assert found["HalvingSAR"]([0]).propensity([[0.0], [1.0], [3.0]]).tolist() == [0.9, 0.45, 0.1125]


def test_the_method_and_the_mechanism_of_the_page_run_in_compare(tmp_path):
    (tmp_path / "my_method.py").write_text(blocks("A method")[0], encoding="utf-8")
    (tmp_path / "my_mechanism.py").write_text(blocks("A labelling")[0], encoding="utf-8")
    (spec,) = blocks("A method", "toml")
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    records = run_experiment(read_spec(tmp_path / "spec.toml", quick=True), tmp_path / "found").records()
    assert {record["method"] for record in records} == {"naive", "sar-em", "halves"}
    assert {record["setting"] for record in records} == {"far"}
    assert [record for record in records if "error" in record] == []
    (mine,) = [record for record in records if record["method"] == "halves"][:1]
    assert {"mse_f", "mse_e", "auc_f"} <= mine.keys()


def test_the_diagnostic_of_the_page_draws_its_figure(data):
    pytest.importorskip("matplotlib").use("Agg")
    X, s = data
    groups = np.where(X[:, 1] > 0, "high", "low")
    model = SAREMClassifier(propensity_attributes=[0]).fit(X, s)
    found = run("A diagnostic")
    shares = found["labelled_shares"](model, X, s, groups)
    assert shares.groups.tolist() == ["high", "low"]
    np.testing.assert_allclose(shares.observed, [s[groups == name].mean() for name in ("high", "low")])
    display = found["LabelledSharesDisplay"].from_estimator(model, X, s, groups)
    assert [each.get_text() for each in display.ax_.get_xticklabels()] == ["high", "low"]
    assert display.figure_ is display.ax_.figure
    sys.modules["matplotlib.pyplot"].close(display.figure_)


def test_a_display_without_draw_raises_an_error():
    pytest.importorskip("matplotlib").use("Agg")
    from scarless.diagnostics import Display

    class Empty(Display):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define draw\(ax\)"):
        Empty().plot()
    sys.modules["matplotlib.pyplot"].close("all")
