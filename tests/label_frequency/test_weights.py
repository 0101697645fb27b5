"""Weights are counts: weight 2 is the row twice, weight 0 is no row; all copies of a row are in the same fold."""

from collections import Counter
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import SCARClassifier, StratifiedSCARClassifier
from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE, held_out_scores
from scarless.label_frequency._base import random_half
from scarless.label_frequency.held_out_scores import PROBABILITY, copies, out_of_fold_scores
from scarless.label_frequency.tice import cut_into_ranges

RNG = np.random.default_rng(5)
N = 300
Y = RNG.random(N) < 0.5
X = RNG.normal(size=(N, 2)) + 3.0 * Y[:, None]
S = (Y & (RNG.random(N) < 0.5)).astype(int)
SCORES = RNG.uniform(0.0, 0.5, size=(N, 1)) + 0.4 * Y[:, None]
W = RNG.integers(0, 4, size=N)
ROWS = np.repeat(np.arange(N), W)

ONE_SAMPLE = [  # no folds are drawn
    (ElkanNoto("precomputed"), SCORES),
    (ElkanNoto("precomputed", variant="e2"), SCORES),
    (ElkanNoto("precomputed", variant="e3"), SCORES),
    (DEDPUL("precomputed"), SCORES),
    (BestBinEstimator("precomputed"), SCORES),
    (KernelMean("km1"), X),
    (KernelMean("km2"), X),
]
FOLDS = [
    (TIcE(random_state=0), X),
    (ElkanNoto(LogisticRegression(), cv=2, random_state=0), X),
    (DEDPUL(make_pipeline(StandardScaler(), LogisticRegression()), cv=2, random_state=0), X),
    (BestBinEstimator(cv=2, random_state=0), X),
]


def name_of(value):
    return "" if isinstance(value, np.ndarray) else str(value)


EVERY = pytest.mark.parametrize(("estimator", "table"), ONE_SAMPLE + FOLDS, ids=name_of)


def answers(model):
    return model.label_frequency_, model.class_prior_, model.class_prior_interval(), model.label_frequency_interval()


@pytest.mark.parametrize(("estimator", "table"), ONE_SAMPLE, ids=name_of)
def test_whole_weights_are_copies(estimator, table):
    weighted = clone(estimator).fit(table, S, sample_weight=W)
    copied = clone(estimator).fit(table[ROWS], S[ROWS])
    assert weighted.label_frequency_ == pytest.approx(copied.label_frequency_, rel=1e-9)
    assert weighted.class_prior_ == pytest.approx(copied.class_prior_, rel=1e-9)
    assert weighted.class_prior_ != pytest.approx(clone(estimator).fit(table, S).class_prior_, rel=1e-4)


@EVERY
def test_a_row_of_weight_0_is_not_there(estimator, table):
    model = clone(estimator).set_params(n_resamples=20, random_state=3)
    there = W > 0
    assert answers(clone(model).fit(table, S, W > 0)) == answers(clone(model).fit(table[there], S[there]))


@EVERY
def test_weights_of_1_are_none(estimator, table):
    model = clone(estimator).set_params(n_resamples=20, random_state=3)
    assert answers(clone(model).fit(table, S, np.ones(N))) == answers(clone(model).fit(table, S))


@EVERY
def test_the_order_of_weighted_rows_changes_nothing(estimator, table):
    twice, s, w = np.concatenate([table, table]), np.append(S, S), np.append(W, 0.5 + np.arange(N) % 3)
    order = np.random.default_rng(0).permutation(2 * N)
    one = clone(estimator).fit(twice, s, w).label_frequency_
    assert clone(estimator).fit(twice[order], s[order], w[order]).label_frequency_ == pytest.approx(one, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_tice_counts_copies_in_the_same_fold(seed):
    rng = np.random.default_rng(seed)
    codes, s, folds = rng.integers(0, 3, size=(150, 4)), rng.random(150) < 0.4, np.arange(150) % 3
    codes[:2] = [[0] * 4, [2] * 4]  # the full range, also in the copies
    w = rng.integers(1, 5, size=150)
    rows = np.repeat(np.arange(150), w)
    options = {"n_iterations": 2, "max_splits": 50, "min_rows": 3, "max_bepp": 5.0, "delta": None}
    weighted, copied = (
        TIcE(**options)._bounds(cut_into_ranges(c.astype(float), 3), labels.astype(float), f, weight)
        for c, labels, f, weight in ((codes, s, folds, w.astype(float)), (codes[rows], s[rows], folds[rows], None))
    )
    for found, expected in zip(chain(*weighted), chain(*copied), strict=True):
        assert found.bound == pytest.approx(expected.bound, rel=1e-12)
        assert (found.subset.path, found.n_splits) == (expected.subset.path, expected.n_splits)
        assert (found.subset.n_rows, found.subset.n_labelled) == (expected.subset.n_rows, expected.subset.n_labelled)


def test_rounding_errors_do_not_make_a_column_cut_a_subset():
    codes = np.zeros((60, 2))
    codes[:, 0] = np.arange(60) % 2
    codes[0, 1] = 1.0
    w = np.full(60, 0.1)
    w[0] = 1e-12  # All other rows are in one range of the second column.
    options = {"n_iterations": 1, "max_splits": 500, "min_rows": 1, "max_bepp": 5.0, "delta": 0.5}
    found = TIcE(**options)._bounds(cut_into_ranges(codes, 2), codes[:, 0], np.arange(60) % 3, w)
    assert max(best.n_splits for best in found[0]) <= 1


def test_scores_are_those_of_copies_in_the_same_fold(monkeypatch):
    w = np.maximum(W, 1)
    rows, fold = np.repeat(np.arange(N), w), np.arange(N) % 3
    folds = {N: fold, rows.size: fold[rows]}

    class Given:
        def __init__(self, *_, **__):
            pass

        def split(self, X, _):
            return [(np.flatnonzero(folds[len(X)] != k), np.flatnonzero(folds[len(X)] == k)) for k in range(3)]

    monkeypatch.setattr(held_out_scores, "StratifiedKFold", Given)
    model, rng = LogisticRegression(tol=1e-10), np.random.default_rng(0)
    weighted = out_of_fold_scores(model, PROBABILITY, X, S, w.astype(float), 3, rng)
    copied = out_of_fold_scores(model, PROBABILITY, X[rows], S[rows], np.ones(rows.size), 3, rng)
    np.testing.assert_allclose(weighted[rows], copied, atol=1e-7)


# --- halves for intervals


def test_half_samples_of_weighted_rows_are_distributed_like_those_of_copies():
    w, rng = np.array([2.0, 1.0, 3.0]), np.random.default_rng(0)
    expected = Counter(tuple(np.bincount(half, minlength=3)) for half in combinations([0, 0, 1, 2, 2, 2], 3))
    drawn = Counter(tuple(random_half(w, rng).astype(int)) for _ in range(4000))
    assert set(drawn) == set(expected)
    for half, ways in expected.items():
        p = ways / 20
        assert drawn[half] / 4000 == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 4000))


def test_a_row_of_weight_two_and_a_half_is_two_rows_and_half_a_row():
    w, rng = np.array([2.5, 1.0, 0.25, 4.0]), np.random.default_rng(0)
    halves = np.array([random_half(w, rng) for _ in range(4000)])
    assert set(halves[:, 0]) == {0.0, 0.5, 1.0, 1.5, 2.0, 2.5}
    assert set(halves[:, 2]) == {0.0, 0.25}
    pieces = np.floor(halves).sum(axis=1) + (halves % 1 > 0).sum(axis=1)
    assert set(pieces) == {4.0}  # half of nine, rounded down
    np.testing.assert_allclose(halves.mean(axis=0), w * 4 / 9, rtol=0.06)


def test_the_interval_of_weighted_rows_is_close_to_that_of_copies():
    model = ElkanNoto("precomputed", n_resamples=400, random_state=0)
    weighted = clone(model).fit(SCORES, S, W).class_prior_interval()
    copied = clone(model).fit(SCORES[ROWS], S[ROWS]).class_prior_interval()
    assert weighted.high - weighted.low == pytest.approx(copied.high - copied.low, rel=0.2)
    plain = clone(model).fit(SCORES, S).class_prior_interval()
    assert weighted.high - weighted.low < 0.9 * (plain.high - plain.low)  # about 450 rows in place of 300


@pytest.mark.filterwarnings("ignore:ElkanNoto. because of their weights:UserWarning")
def test_too_many_copies_for_half_samples():
    model = ElkanNoto("precomputed", n_resamples=20)
    with pytest.raises(
        ValueError, match=r"sample_weight: the weights represent .*e\+10 rows\. .* fewer than 1e\+09 rows"
    ):
        model.fit(SCORES, S, np.full(N, 1e8))
    model.set_params(n_resamples=0).fit(SCORES, S, np.full(N, 1e8))


# --- weights that are no counts


@settings(max_examples=50, deadline=None)
@given(weights=st.lists(st.floats(0.01, 20.0), min_size=2, max_size=12))
def test_copies_of_scores_are_in_proportion(weights):
    w, scores = np.array(weights), np.arange(float(len(weights)))
    made = copies(scores, w)
    counts = np.array([np.count_nonzero(made == score) for score in scores])
    assert made.size == counts.sum() >= w.size
    np.testing.assert_allclose(np.cumsum(counts) / made.size, np.cumsum(w) / w.sum(), atol=0.51 / made.size)


@pytest.mark.parametrize("estimator", [ElkanNoto("precomputed"), ElkanNoto("precomputed", variant="e2")])
def test_ratios_of_sums_do_not_depend_on_the_unit_of_weights(estimator):
    one, other = (clone(estimator).fit(SCORES, S, unit * W).label_frequency_ for unit in (1.0, 0.01))
    assert other == pytest.approx(one, rel=1e-12)


# --- errors


def test_a_classifier_that_does_not_accept_weights():
    model = ElkanNoto(KNeighborsClassifier())
    message = "sample_weight: estimator=KNeighborsClassifier does not accept weights in fit. Use another classifier"
    with pytest.raises(ValueError, match=message):
        model.fit(X, S, W)
    model.fit(X, S)


@pytest.mark.parametrize(("value", "kind"), [(1, "labelled"), (0, "unlabelled")])
def test_no_weight_for_one_kind_of_row(value, kind):
    with pytest.raises(ValueError, match=f"sample_weight is 0 for every {kind} row"):
        TIcE().fit(X, S, np.where(value == S, 0.0, 1.0))


def test_a_negative_weight():
    with pytest.raises(ValueError, match="sample_weight must be finite and at least 0"):
        TIcE().fit(X, S, np.where(np.arange(N) == 7, -1.0, 1.0))


# --- models pass weights on


@pytest.mark.parametrize("given", [TIcE(random_state=0), make_pipeline(StandardScaler(), KernelMean(random_state=0))])
def test_the_label_frequency_of_a_model_is_that_of_the_weighted_rows(given):
    model = SCARClassifier(given).fit(X, S, sample_weight=W)
    if isinstance(given, TIcE):
        alone = clone(given).fit(X, S, sample_weight=W)
    else:
        alone = clone(given).fit(X, S, kernelmean__sample_weight=W)[-1]
    assert model.label_frequency_ == alone.label_frequency_
    assert model.label_frequency_ != SCARClassifier(given).fit(X, S).label_frequency_


def test_every_stratum_gets_its_weights():
    stratum = np.arange(N) % 2
    table = np.column_stack([X, stratum])
    model = StratifiedSCARClassifier([2], label_frequency="km2", min_rows=10).fit(table, S, sample_weight=W)
    for value, found in enumerate(model.strata_):
        rows = stratum == value
        alone = KernelMean(random_state=0).fit(X[rows], S[rows], W[rows])
        assert found.label_frequency == alone.label_frequency_
        assert found.n_rows == W[rows].sum()
