"""The two-step method: spies are counted exactly, thresholds are those of sorted scores, step 2 is an ordinary fit."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from tests.field.test_cut_offs import FirstColumn
from tests.helpers import simulate

from scarless.field import TwoStepClassifier
from scarless.field.two_step import choose_spies, lowest_share, spy_threshold

DATA = simulate(400, seed=2, low=0.5, high=0.6)
X, S = DATA.X, DATA.s


class Recorder(ClassifierMixin, BaseEstimator):
    """Scores by the first attribute, and records the labels of each fit by the second attribute."""

    fits: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.fits.append(dict(zip(X[:, 1].tolist(), y.tolist(), strict=True)))
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


@pytest.fixture(autouse=True)
def _no_recorded_fits():
    Recorder.fits.clear()


def recorded(**options):
    """Fit to 20 labelled rows with high scores, and 80 others with scores 0.005, 0.015, ..."""
    p = np.concatenate([np.linspace(0.3, 0.9, 20), np.arange(0.005, 0.8, 0.01)])
    s = np.repeat([1, 0], [20, 80])
    table = np.column_stack([p, np.arange(100.0)])
    return TwoStepClassifier(Recorder(), random_state=0, **options).fit(table, s), p, s


def test_spies_are_hidden_in_step_1_and_labelled_again_in_step_2():
    model, p, _ = recorded(spy_share=0.25)
    first, second = Recorder.fits
    assert model.spies_.size == 5
    assert {row for row, label in first.items() if label == 1} == set(range(20)) - set(model.spies_.tolist())
    assert len(first) == 100
    assert {row for row, label in second.items() if label == 1} == set(range(20))
    assert {row for row, label in second.items() if label == 0} == set(model.reliable_negatives_.tolist())
    lowest_spy = p[model.spies_].min()  # floor(0.05 * 5) = 0 spies may be below
    assert set(model.reliable_negatives_.tolist()) == {20 + i for i in range(80) if p[20 + i] < lowest_spy}


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 10**6))
def test_the_number_of_spies_is_the_nearest_to_the_share(n_labelled, share, seed):
    labelled = 3 * np.arange(n_labelled)
    spies = choose_spies(labelled, share, np.random.default_rng(seed))
    assert spies.size == np.unique(spies).size == min(max(1, round(share * n_labelled)), n_labelled - 1)
    assert set(spies) <= set(labelled)
    assert (np.diff(spies) > 0).all()


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60, unique=True), st.sampled_from([0, 0.05, 0.1, 0.25, 0.5]))
@example([1, 2], 1 - 2**-53)
def test_the_share_of_spies_below_the_threshold_is_the_noise(scores, noise):
    z = np.array(scores, dtype=float)
    percent = round(100 * noise)
    assert np.count_nonzero(z < spy_threshold(z, noise)) == min(percent * z.size // 100, z.size - 1)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_the_lowest_share_keeps_ties_together(scores, share):
    z = np.array([9, *scores], dtype=float)  # row 0 is labelled
    found = lowest_share(z, np.arange(1, z.size), share)
    wanted = max(1, round(share * len(scores)))
    assert found.rows.size >= wanted
    assert 0 not in found.rows
    kept = set(z[found.rows])
    assert max(kept) == np.sort(scores)[wanted - 1]
    assert all((value in kept) == (value <= max(kept)) for value in scores)


def test_a_quantile_needs_no_spies():
    model, _, _ = recorded(reliable="quantile", negative_share=0.25)
    assert model.spies_.size == 0
    assert model.reliable_negatives_.tolist() == list(range(20, 40))  # 20 of 80, with the lowest scores


def test_step_2_is_an_ordinary_fit():
    inside = LogisticRegression(tol=1e-8)
    model = TwoStepClassifier(inside, random_state=0).fit(X, S)
    rows = np.sort(np.concatenate([np.flatnonzero(S), model.reliable_negatives_]))
    expected = LogisticRegression(tol=1e-8).fit(X[rows], S[rows])
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.cut_ == 0.0
    assert not S[model.reliable_negatives_].any()


def test_biased_labels_have_biased_spies():
    """Positives of a kind that is never labelled score below all spies, and become reliable negatives."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1, 2], [400, 200, 200])  # negatives, labelled kind, kind that is never labelled
    table = rng.normal(size=(800, 2)) + np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[kind]
    s = ((kind == 1) & (rng.random(800) < 0.5)).astype(int)
    model = TwoStepClassifier(random_state=0).fit(table, s)
    assert np.isin(np.flatnonzero(kind == 2), model.reliable_negatives_).mean() > 0.95
    assert model.predict(table[kind == 2]).mean() < 0.05
    assert model.predict(table[kind == 1]).mean() > 0.95


def test_without_a_row_below_the_spies_it_warns_and_uses_the_lowest_scores():
    p = np.concatenate([np.full(10, 0.1), np.linspace(0.2, 0.9, 20)])[:, None]
    s = np.repeat([1, 0], [10, 20])
    with pytest.warns(UserWarning, match=r"no unlabelled row scores below the 2 spies.*negative_share=0.3"):
        model = TwoStepClassifier(FirstColumn(), random_state=0).fit(p, s)
    assert model.reliable_negatives_.tolist() == list(range(10, 16))


def test_spies_need_two_labelled_rows():
    s = (np.arange(X.shape[0]) == 3).astype(int)
    with pytest.raises(ValueError, match=r"Spies need at least 2 labelled rows.*there is 1\. .*reliable='quantile'"):
        TwoStepClassifier().fit(X, s)
    assert TwoStepClassifier(reliable="quantile").fit(X, s).spies_.size == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reliable": "all"}, "reliable must be one of 'spies', 'quantile'; got 'all'"),
        ({"spy_share": 0}, "spy_share must lie strictly between 0 and 1; got 0"),
        ({"noise": 1}, "noise must be a number of at least 0 and below 1, the share of spies below .*; got 1"),
        ({"noise": np.array([0.1, 0.2])}, "noise must be a number of at least 0 and below 1"),
        ({"negative_share": 1.0}, "negative_share must lie strictly between 0 and 1; got 1.0"),
    ],
    ids=["unknown rule", "no spies", "all spies", "two noises", "all rows"],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TwoStepClassifier(**options).fit(X, S)


def test_no_noise_is_a_valid_choice():
    model, p, _ = recorded(noise=0, spy_share=0.5)
    assert p[model.reliable_negatives_].max() < p[model.spies_].min()
