"""Weights in tests of SCAR are counts of rows."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from scarless.diagnostics import LabellingAttributesDisplay, labelling_attributes, scar_test
from scarless.diagnostics.scar.tests import METHODS, drawn_labels
from scarless.numerics.label_tests import below_thresholds

N = 500
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4))
Y = RNG.random(N) < 1 / (1 + np.exp(-3 * X[:, 0] - X[:, 1]))
S = (Y & (RNG.random(N) < 1 / (1 + np.exp(-X[:, 2])))).astype(int)
W = RNG.integers(0, 4, size=N)
ROWS = np.repeat(np.arange(N), W)
OPTIONS = {"propensity_attributes": [2, 3], "estimator": "logistic", "random_state": 0}


@pytest.mark.parametrize("method", METHODS)
def test_integer_weights_equal_copies(method):
    options = OPTIONS | {"method": method, "n_simulations": 199}
    weighted, copied = scar_test(X, S, sample_weight=W, **options), scar_test(X[ROWS], S[ROWS], **options)
    assert weighted.statistic == pytest.approx(copied.statistic, rel=1e-6)
    assert weighted.label_frequency == pytest.approx(copied.label_frequency, rel=1e-6)
    assert (weighted.n_rows, weighted.n_labelled) == (copied.n_rows, copied.n_labelled) == (W.sum(), W @ S)
    assert weighted.degrees_of_freedom == copied.degrees_of_freedom
    # The random draws of the Kolmogorov-Smirnov test differ.
    tolerance = {"abs": 4 * np.sqrt(0.25 / 199)} if method == "kolmogorov-smirnov" else {"rel": 1e-5}
    assert weighted.p_value == pytest.approx(copied.p_value, **tolerance)
    assert scar_test(X, S, **options).statistic != pytest.approx(weighted.statistic, rel=1e-3)


@pytest.mark.parametrize("per", ["unit", "deviation"])
def test_effects_with_weights_equal_effects_of_copies(per):
    weighted = labelling_attributes(X, S, sample_weight=W, per=per, **OPTIONS)
    copied = labelling_attributes(X[ROWS], S[ROWS], per=per, **OPTIONS)
    for name in ("effect", "low", "high", "statistic", "p_value", "p_adjusted", "label_frequency"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(copied, name), rtol=1e-5)
    assert weighted.attributes == copied.attributes


@pytest.mark.parametrize(
    ("estimator", "method"),
    [(None, METHODS[0]), (LogisticRegression(), METHODS[0]), *(("logistic", method) for method in METHODS)],
    ids=str,
)
def test_weights_0_and_1_equal_a_selection_of_rows(estimator, method, monkeypatch):
    monkeypatch.setattr("scarless.diagnostics.scar._learned.TREES_PER_FOREST", 25)
    options = OPTIONS | {"estimator": estimator, "method": method, "n_simulations": 19, "cv": 2}
    there = W > 0
    assert scar_test(X, S, sample_weight=there, **options) == scar_test(X[there], S[there], **options)
    if method == "score":
        few = slice(250)
        assert scar_test(X[few], S[few], sample_weight=np.ones(250), **options) == scar_test(X[few], S[few], **options)


def test_learned_scores_use_weights(monkeypatch):
    monkeypatch.setattr("scarless.diagnostics.scar._learned.TREES_PER_FOREST", 25)
    options = OPTIONS | {"estimator": None, "cv": 2}
    weighted, plain = scar_test(X, S, sample_weight=W, **options), scar_test(X, S, **options)
    assert weighted.statistic != pytest.approx(plain.statistic, rel=1e-3)
    assert weighted.p_value < 0.001  # the bias is strong enough to be detected with and without weights
    order = np.random.default_rng(0).permutation(N)
    again = scar_test(X[order], S[order], sample_weight=W[order], **options)
    assert again.statistic == pytest.approx(weighted.statistic, rel=1e-9)


def test_half_the_weight_halves_the_statistic():
    whole, half = (scar_test(X, S, sample_weight=unit * W, **OPTIONS) for unit in (1.0, 0.5))
    assert half.statistic == pytest.approx(whole.statistic / 2, rel=1e-2)  # not exactly, because of the weak penalty
    assert half.n_rows == W.sum() / 2
    assert "rows" in str(replace(half, p_value=0.5))


def test_the_plot_uses_weights():
    pytest.importorskip("matplotlib").use("agg")
    drawn = LabellingAttributesDisplay.from_data(X, S, sample_weight=W, **OPTIONS)
    expected = labelling_attributes(X, S, sample_weight=W, per="deviation", **OPTIONS)
    np.testing.assert_array_equal(drawn.result.effect, expected.effect)


# --- simulated labels of copies


def test_labels_of_copies_are_binomial():
    rng = np.random.default_rng(0)
    drawn = drawn_labels(np.array([0.3]), np.array([3.0]), 20_000, rng)
    for k, count in Counter(drawn[:, 0]).items():
        p = binom.pmf(k, 3, 0.3)
        assert count / 20_000 == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 20_000))


def test_the_fraction_of_a_weight_is_labelled_as_one_copy():
    drawn = drawn_labels(np.full(3, 0.4), np.array([2.5, 0.5, 1.0]), 5000, np.random.default_rng(0))
    assert set(drawn[:, 0]) == {0.0, 0.5, 1.0, 1.5, 2.0, 2.5}
    assert set(drawn[:, 1]) == {0.0, 0.5}
    assert set(drawn[:, 2]) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(axis=0), 0.4 * np.array([2.5, 0.5, 1.0]), rtol=0.05)


def test_thresholds_are_quantiles_of_the_copies():
    rng = np.random.default_rng(1)
    for _ in range(50):
        z, w = rng.integers(0, 60, size=100).astype(float), rng.integers(1, 5, size=100)
        rows = np.repeat(np.arange(100), w)
        copied = below_thresholds(z[rows], np.ones(rows.size), 7)
        np.testing.assert_array_equal(below_thresholds(z, w.astype(float), 7)[rows], copied)
        lower = np.quantile(z[rows], np.arange(1, 8) / 8, method="lower")
        assert copied.shape[1] == np.unique(lower).size


# --- errors


@pytest.mark.parametrize("call", [scar_test, labelling_attributes])
@pytest.mark.parametrize(
    ("weight", "estimator", "message"),
    [
        (np.full(N, -1.0), "logistic", "sample_weight must be finite and at least 0"),
        (np.ones(N - 1), "logistic", "sample_weight"),
        (1.0 - S, "logistic", "sample_weight is 0 for every labelled row"),
        (
            np.full(N, 0.01),
            "logistic",
            "needs at least 20 labelled and 20 unlabelled rows; there are 1 labelled and 4 unl",
        ),
        (W, KNeighborsClassifier(), "estimator=KNeighborsClassifier does not accept weights in fit"),
    ],
)
def test_invalid_weights_are_refused(call, weight, estimator, message):
    with pytest.raises(ValueError, match=message):
        call(X, S, sample_weight=weight, **(OPTIONS | {"estimator": estimator}))
