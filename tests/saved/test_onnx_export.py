"""Logistic models as ONNX graphs: ONNX Runtime gives the predictions of the model."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.helpers import simulate
from tests.saved.asking import ask, assert_same, ours, stamp_of

import scarless
from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.saved import ModelFileError

onnx = pytest.importorskip("onnx", reason="onnx is an extra")
IN = {"propensity_attributes": [2]}
PAIRS = {
    "newton": lambda: SAREMClassifier(**IN),
    "em": lambda: PublishedEMClassifier(**IN),
    "refit": lambda: PublishedEMClassifier(**IN, refit=True),
    "constant propensity": SAREMClassifier,
    "search": lambda: SAREMClassifierCV(**IN, Cs=[0.1, 1.0], cv=2, random_state=0),
    "search, not recalibrated": lambda: SAREMClassifierCV(**IN, Cs=[1.0], cv=2, recalibrate=False, random_state=0),
    "scar": SCARClassifier,
    "scar, known": lambda: SCARClassifier(0.6),
    "scar, all labelled": lambda: SCARClassifier(1.0),
}
ONE = {"naive": NaiveClassifier, "weighted": PropensityWeightedClassifier}


@pytest.fixture(scope="module")
def pair():
    pu = simulate()
    return SAREMClassifier(**IN).fit(pu.X, pu.s)


@pytest.mark.parametrize("name", PAIRS)
def test_graph_and_pair_give_the_same_predictions(name):
    seed = list(PAIRS).index(name) % 2
    pu, new = simulate(seed=seed), simulate(n=2000, seed=seed + 10)
    model = PAIRS[name]().fit(pu.X, pu.s)
    assert_same(ask(scarless.to_onnx(model), {"X": 3 * new.X}), ours(model, 3 * new.X), 1e-12)


@pytest.mark.parametrize("name", ONE)
def test_a_model_without_a_propensity_has_fewer_outputs(name):
    pu = simulate()
    known = {"propensity": pu.e} if name == "weighted" else {}
    model = ONE[name]().fit(pu.X, pu.s, **known)
    found, p = ask(scarless.to_onnx(model), {"X": pu.X}), model.predict_proba(pu.X)[:, 1]
    assert_same(found, {"label": model.predict(pu.X), "probability": p}, 1e-12)


@pytest.mark.parametrize(
    ("code", "pos_label", "kind"),
    [
        (np.array([0, 1], dtype=np.int8), None, "tensor(int64)"),
        (np.array([-1, 1]), None, "tensor(int64)"),
        (np.array([False, True]), None, "tensor(bool)"),
        (np.array([0.0, 1.0]), None, "tensor(double)"),
        (np.array(["no", "yes"]), "yes", "tensor(string)"),
        (np.array(["yes", "no"]), "no", "tensor(string)"),  # the positive class is not the last
    ],
)
def test_labels_are_the_classes_of_the_fit(code, pos_label, kind):
    pu = simulate()
    model = SAREMClassifier(**IN, pos_label=pos_label).fit(pu.X, code[pu.s.astype(int)])
    graph = scarless.to_onnx(model)
    found = ask(graph, {"X": pu.X})
    assert found["label"].tolist() == model.predict(pu.X).tolist()
    place = model.classes_.tolist().index(code[1].item())
    np.testing.assert_allclose(found["probability"], model.predict_proba(pu.X)[:, place], rtol=0, atol=1e-12)
    assert kind == f"tensor({onnx.TensorProto.DataType.Name(graph.graph.output[0].type.tensor_type.elem_type).lower()})"
    assert stamp_of(graph)["classes"] == code.tolist()


@pytest.mark.parametrize("size", [1e3, 1e6, 1e12, 1e98])
def test_extreme_rows_have_finite_predictions(pair, size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, pair.n_features_in_)) * size * rng.choice([1e-6, 1e-3, 1.0], size=(3000, 1))
    found, expected = ask(scarless.to_onnx(pair), {"X": X}), ours(pair, X)
    f, e = expected["probability"], expected["propensity"]
    assert ((f == 1) & (e == 1)).any()
    assert (f == 0).any()
    for name in ("probability", "propensity", "posterior_unlabelled"):
        assert np.all((found[name] >= 0) & (found[name] <= 1)), name
    np.testing.assert_allclose(found["probability"], f, rtol=0, atol=1e-9)
    # The expected values come from logits, so they are accurate even if probabilities round to 1.
    np.testing.assert_allclose(found["posterior_unlabelled"], expected["posterior_unlabelled"], rtol=0, atol=1e-6)


def test_where_all_positives_are_labelled_an_unlabelled_row_is_negative():
    pu = simulate()
    model, X = SCARClassifier(1.0).fit(pu.X, pu.s), 1e6 * pu.X
    found, expected = ask(scarless.to_onnx(model), {"X": X}), ours(model, X)
    assert (expected["probability"] == 1).any()
    assert not expected["posterior_unlabelled"].any()
    assert_same(found, expected, 0)


def test_small_probabilities_keep_their_digits(pair):
    X = -np.outer(np.linspace(1, 200, 50), pair.coef_[0] / (pair.coef_[0] @ pair.coef_[0]))
    found, p = ask(scarless.to_onnx(pair), {"X": X})["probability"], pair.predict_proba(X)[:, 1]
    assert p.min() < 1e-80
    np.testing.assert_allclose(found, p, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.1e100])
@pytest.mark.parametrize("make", [lambda: SAREMClassifier(**IN), lambda: SCARClassifier(1.0)])
def test_rows_that_the_model_refuses_have_probability_nan(make, bad):
    pu = simulate()
    X = pu.X[:3].copy()
    X[1, 0] = bad
    found = ask(scarless.to_onnx(make().fit(pu.X, pu.s)), {"X": X})
    assert np.isnan(found["probability"]).tolist() == [False, True, False]
    assert np.isnan(found["posterior_unlabelled"]).tolist() == [False, True, False]


@pytest.mark.parametrize("n", [0, 1, 7])
def test_any_number_of_rows(pair, n):
    X = simulate(n=10).X[:n]
    found = ask(scarless.to_onnx(pair), {"X": X})
    assert {name: each.shape for name, each in found.items()} == dict.fromkeys(found, (n,))


def test_a_table_without_preparation_and_names(pair):
    pu = simulate()
    frame = pd.DataFrame(pu.X).rename(columns=str)
    names = [f"column {name}" for name in frame]
    frame.columns = names
    model = TableClassifier(SAREMClassifier(propensity_attributes=names[2:3]), preparation="passthrough")
    graph = scarless.to_onnx(model.fit(frame, pu.s))
    assert stamp_of(graph)["inputs"][0]["columns"] == names
    assert stamp_of(scarless.to_onnx(pair))["inputs"][0]["columns"] == [f"x{j}" for j in range(len(names))]
    assert_same(ask(graph, {"X": pu.X}), ours(model, frame), 1e-12)


def test_the_graph_has_metadata(pair):
    model = scarless.to_onnx(pair)
    onnx.checker.check_model(model, full_check=True)
    assert (model.producer_name, model.producer_version) == ("scarless", scarless.__version__)
    assert "SAREMClassifier of scarless" in model.doc_string
    stamp = stamp_of(model)
    assert (stamp["scarless"], stamp["model"], stamp["preparation"]) == (scarless.__version__, "SAREMClassifier", [])
    assert list(stamp["outputs"]) == ["label", "probability", "propensity", "posterior_unlabelled"]
    assert "probability that the row is positive if it is unlabelled" in stamp["outputs"]["posterior_unlabelled"]
    assert [each.doc_string for each in model.graph.output] == list(stamp["outputs"].values())
    assert [each.doc_string for each in model.graph.input] == [each["how"] for each in stamp["inputs"]]


def test_the_same_model_makes_the_same_bytes_also_from_a_file(pair, tmp_path):
    pytest.importorskip("skops", reason="skops is an extra")
    scarless.save(pair, tmp_path / "model.skops")
    scarless.save_onnx(pair, tmp_path / "one.onnx")
    scarless.save_onnx(scarless.load(tmp_path / "model.skops"), tmp_path / "other.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()
    assert onnx.load(tmp_path / "one.onnx") == scarless.to_onnx(pair)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SARStackingClassifier([("a", None)], **IN, cv=2, random_state=0),
            "SARStackingClassifier does not consist of logistic models. Fit one of these classifiers, or store this",
        ),
        (lambda: StratifiedSCARClassifier(**IN), "StratifiedSCARClassifier does not consist of logistic models"),
        (
            lambda: SAREMClassifier(LogisticRegression(), **IN, cv=2, random_state=0),
            "SAREMClassifier with estimator=LogisticRegression cannot be written as ONNX, because only logistic "
            "models can. "
            "Leave estimator out and fit again, or store this model with scarless.save.",
        ),
        (
            lambda: SAREMClassifier(propensity_estimator=LogisticRegression(), **IN, cv=2, random_state=0),
            "SAREMClassifier with propensity_estimator=LogisticRegression cannot be written as ONNX",
        ),
        (lambda: NaiveClassifier(LogisticRegression()), "NaiveClassifier with estimator=LogisticRegression cannot"),
        (
            LogisticRegression,
            "Only logistic classifiers can be written as ONNX (SAREMClassifier, SAREMClassifierCV, "
            "PublishedEMClassifier, "
            "SCARClassifier, PropensityWeightedClassifier, NaiveClassifier, alone, in a Pipeline or a "
            "TableClassifier); LogisticRegression is not one of these. Fit one of these classifiers, or store",
        ),
        (lambda: make_pipeline(StandardScaler(), LogisticRegression()), "LogisticRegression is not one of these"),
    ],
)
def test_other_models_are_refused_by_name(make, message, tmp_path):
    pu = simulate(n=300)
    X = np.column_stack([pu.X[:, :2], pu.X[:, 2] > 0]) if "Stratified" in message else pu.X
    model = make().fit(X, pu.s)
    with pytest.raises(ModelFileError) as error:
        scarless.save_onnx(model, tmp_path / "model.onnx")
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_unfitted_models_and_other_objects_are_refused():
    with pytest.raises(NotFittedError, match="This SAREMClassifier is not fitted, so there is nothing to save"):
        scarless.to_onnx(SAREMClassifier())
    with pytest.raises(ModelFileError, match="estimator must be a fitted model; got the class SAREMClassifier"):
        scarless.to_onnx(SAREMClassifier)
    with pytest.raises(ModelFileError, match="NoneType is not one of these"):
        scarless.to_onnx(None)


def test_paths_are_checked_before_anything_is_written(pair, tmp_path):
    with pytest.raises(ModelFileError, match=r"must end in .onnx; got .*model.skops'. For example: .*model.onnx'"):
        scarless.save_onnx(pair, tmp_path / "model.skops")
    with pytest.raises(
        ModelFileError,
        match=r"The folder .*nowhere' for model.onnx does not exist. Create it "
        r"first.",
    ):
        scarless.save_onnx(pair, tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(ModelFileError, match=r"path must be the path of a file, as text or pathlib.Path; got 3"):
        scarless.save_onnx(pair, 3)


def test_without_onnx_the_extra_is_named(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'Writing a model as ONNX needs onnx: pip install "scarless\[onnx\]"'):
        scarless.to_onnx(pair)
