"""Run graphs in ONNX Runtime, with inputs that are built from the metadata of the graph only."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import Pipeline
from tests.helpers import fit_quietly

from scarless import TableClassifier
from scarless.numerics.linear import Design
from scarless.numerics.objectives import LogisticPair

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is of the extra `test`")
pytest.importorskip("onnx", reason="onnx is an extra")


def stamp_of(graph):
    return json.loads({each.key: each.value for each in graph.metadata_props}["scarless"])


def ask(graph, feeds):
    """Return the outputs by name."""
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def feeds_of(graph, table):
    """Return the inputs of a graph for a data frame of pandas or polars."""
    return {
        each["name"]: np.array([_as_wanted(value, each) for value in table[each["name"]].to_list()],
                               dtype={"string": object}.get(each["type"], each["type"])).reshape(-1, 1)
        for each in stamp_of(graph)["inputs"]
    }  # fmt: skip


def _as_wanted(value, wanted):
    if is_missing(value):
        return {"number": np.nan, "duration": np.nan}.get(wanted["kind"], wanted["missing"])
    if wanted["kind"] == "date":
        return np.datetime64(value, "D").astype(np.int64)
    if wanted["kind"] == "duration":
        return value.total_seconds()
    return str(value) if wanted["kind"] == "text" else _number(value)


def is_missing(value):
    return value is None or (not isinstance(value, str) and str(value) in ("nan", "NaT", "<NA>"))


def _number(value):
    try:
        return float(value)
    except ValueError:
        return np.nan


def ours(model, X):
    """Return the predictions of the model, by the names of the outputs."""
    model = TableClassifier.from_pipeline(model) if isinstance(model, Pipeline) else model
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories|Column .* in the fit")
        if isinstance(model, TableClassifier):
            model, X = model.estimator_, model.prepare(X)  # prepare the table once for all predictions
        found = {"label": model.predict(X)}
        positive = 1 if model.classes_[1] in (1, True, "yes") else 0
        found["probability"] = model.predict_proba(X)[:, positive]
        if hasattr(model, "predict_propensity"):
            found["propensity"] = model.predict_propensity(X)
            unlabelled = np.full(len(X), model.classes_[1 - positive])
            found["posterior_unlabelled"] = model.predict_posterior(X, unlabelled)
    return found


def assert_same(found, expected, within):
    assert list(found) == list(expected)
    assert found["label"].tolist() == expected["label"].tolist()
    for name in list(expected)[1:]:
        assert found[name].shape == expected[name].shape
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=within, err_msg=name)


def fit_and_draw(model, X, seed=0):
    """Fit to random labels, then draw random coefficients, so that every column matters in both models."""
    rng = np.random.default_rng(seed)
    fit_quietly(model, X, rng.random(len(X)) < 0.3)  # the labels are random
    inner = getattr(model, "estimator_", None) or model[-1]
    every = Design.of(np.arange(inner.n_features_in_))
    drawn = [np.append(rng.normal(0, 0.5, inner.n_features_in_), rng.normal()) for _ in range(2)]
    inner._pair = replace(inner._pair, objective=LogisticPair(every, every), parameters=np.concatenate(drawn))
    return model
