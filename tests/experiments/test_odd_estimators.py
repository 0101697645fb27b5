"""An estimator of the user that returns something unusual is scored correctly, or fails with a clear message."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from tests.helpers import simulated_split

from scarless.experiments import Cell
from scarless.experiments.methods import Bench, EstimatorMethod, KeptFits
from scarless.experiments.protocol import label
from scarless.experiments.run import scores_of
from scarless.papers.bekker2019 import specification

SPEC = replace(specification(), datasets=("simulated",))
TASK = label(SPEC, Cell("simulated", "all", 2, 0, 0), simulated_split(SPEC))
N_TEST = TASK.split.y_test.size


class FirstColumn:
    """Ranks rows by their first column; the attributes of `changes` replace or add members."""

    def __init__(self, changes):
        for name, value in changes.items():
            setattr(self, name, value)

    def fit(self, X, s):
        return self


def first(X):
    return np.asarray(X)[:, 0]


def probability(X):
    p = expit(first(X))
    return np.column_stack([1 - p, p])


def run(monkeypatch, **changes):
    """Run an estimator with these members, and `predict_proba` unless it has a `decision_function`."""
    usual = {} if "decision_function" in changes else {"predict_proba": probability}
    monkeypatch.setattr(f"{EstimatorMethod.__module__}.maker_of", lambda name: lambda: FirstColumn(usual | changes))
    return EstimatorMethod("mine:FirstColumn")(Bench(SPEC, TASK, KeptFits()))


@pytest.mark.parametrize(
    "predict",
    [
        lambda X: (first(X) > 0.3).astype(int),
        lambda X: (first(X) > 0.3).astype(float),
        lambda X: (first(X) > 0.3).astype(object),
        lambda X: first(X) > 0.3,
        lambda X: np.where(first(X) > 0.3, 1, -1),
    ],
    ids=["integers", "floats", "objects", "booleans", "minus one"],
)
def test_a_decision_in_any_usual_coding_is_scored(monkeypatch, predict):
    found = run(monkeypatch, predict=predict)
    np.testing.assert_array_equal(found.decision, TASK.seen_test[:, 0] > 0.3)


NO_CLASS = "predict must return 1 for positive rows, and 0 or -1 for negative rows; it returned "


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"predict": lambda X: np.where(first(X) > 0, "1", "0")}, NO_CLASS + "'0' and '1'"),
        ({"predict": lambda X: np.where(first(X) > 0, "yes", "no")}, NO_CLASS + "'no' and 'yes'"),
        ({"predict": lambda X: np.where(first(X) > 0, 2, 1)}, NO_CLASS + "1 and 2"),
        ({"predict": lambda X: np.sign(np.round(first(X)))}, NO_CLASS + r"-1\.0, 0\.0 and 1\.0"),
        ({"predict": lambda X: probability(X)[:, 1]}, NO_CLASS + r"0\.\d+, .* more"),
        ({"predict": lambda X: np.where(first(X) > 0, np.nan, 0)}, NO_CLASS + r"0\.0, nan"),
        ({"predict": lambda X: None}, f"predict must return one class for each of {N_TEST} rows; its shape is"),
        ({"decision_function": lambda X: np.full(len(X), np.nan)}, "decision_function must return finite numbers"),
        ({"decision_function": lambda X: ["high"] * len(X)}, "decision_function must return numbers; could not conv"),
        ({"classes_": np.array(["no", "yes"])}, r"classes_ must be 0 and 1, or -1 and 1, .* it is \['no', 'yes'\]"),
        ({"classes_": [0]}, r"classes_ must be 0 and 1, or -1 and 1, because labels are 0 and 1; it is \[0\]"),
        ({"class_prior_": "high"}, "class_prior_ must be a number; could not convert"),
        ({"class_prior_": [0.3, 0.7]}, r"class_prior_ must be one number; its shape is \(2,\)"),
        ({"label_frequency_": "low"}, "label_frequency_ must be a number; could not convert"),
        (
            {"predict_propensity": probability},
            rf"predict_propensity must return an array of shape \({N_TEST},\); its shape is \({N_TEST}, 2\)",
        ),
        ({"predict_propensity": lambda X: "often"}, "predict_propensity must return numbers; could not convert"),
    ],
    ids=[
        "texts of numbers", "yes and no", "1 and 2", "three values", "probabilities", "NaN", "no array", "NaN ranking",
        "text ranking", "classes as text", "one class", "prior as text", "two priors", "frequency as text",
        "two propensities", "propensity as text",
    ],
)  # fmt: skip
def test_a_wrong_result_of_an_estimator_is_refused(monkeypatch, changes, message):
    with pytest.raises(ValueError, match=message):
        run(monkeypatch, **changes)


@pytest.mark.parametrize("value", [np.nan, 7.0, -0.5])
def test_a_propensity_that_is_no_probability_is_not_scored(monkeypatch, value):
    with pytest.warns(UserWarning, match="returned values outside 0 to 1, so the propensity is not scored"):
        found = run(monkeypatch, predict_propensity=lambda X: np.full(len(X), value))
    assert "mse_e" not in scores_of(found, TASK)


def test_a_propensity_that_exceeds_one_by_rounding_is_scored(monkeypatch):
    found = run(monkeypatch, predict_propensity=lambda X: np.full(len(X), np.nextafter(1.0, 2.0)))
    assert "mse_e" in scores_of(found, TASK)


def test_a_method_that_calls_no_row_positive_has_scores(monkeypatch):
    """The label frequency is the limit of the share of labels divided by a class prior that goes to 0."""
    found = run(monkeypatch, predict_proba=lambda X: np.column_stack([np.ones(len(X)), np.zeros(len(X))]))
    assert (found.class_prior, found.label_frequency) == (0.0, 1.0)
    scores = scores_of(found, TASK)
    assert scores["balanced_accuracy"] == scores["auc_f"] == 0.5
    assert scores["f1"] == scores["share_positive"] == 0.0


def test_a_ranking_without_a_decision_has_no_scores_of_decisions(monkeypatch):
    scores = scores_of(run(monkeypatch, decision_function=first), TASK)
    assert "balanced_accuracy" not in scores
    assert "balanced_accuracy_at_prior" in scores
