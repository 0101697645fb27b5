"""PU bagging: out-of-bag scores never use the row itself, samples have the right size, the score is the mean."""

from contextlib import nullcontext
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from tests.helpers import simulate

from scarless.field import PUBaggingClassifier


class Recorder(ClassifierMixin, BaseEstimator):
    """Records the rows of each fit, whose number is the first attribute; its score is 0 for rows that it has seen."""

    fits: ClassVar[list] = []

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.seen_ = set(X[:, 0].tolist())
        self.share_ = 0.1 * (1 + len(self.fits))
        self.fits.append((X[y == 1, 0].tolist(), X[y == 0, 0].tolist(), self.share_))
        return self

    def predict_proba(self, X):
        p = np.array([0.0 if row in self.seen_ else self.share_ for row in X[:, 0]])
        return np.column_stack([1 - p, p])


@pytest.fixture(autouse=True)
def _no_recorded_fits():
    Recorder.fits.clear()


def rows(n, n_labelled):
    return np.arange(float(n))[:, None], (np.arange(n) < n_labelled).astype(int)


def recorded(n=30, n_labelled=6, **options):
    X, s = rows(n, n_labelled)
    return PUBaggingClassifier(Recorder(), random_state=0, **options).fit(X, s), X


def test_out_of_bag_scores_are_means_of_the_models_that_did_not_see_the_row():
    model, _ = recorded(n_estimators=8)
    for row in range(6, 30):
        others = [share for _, negatives, share in Recorder.fits if row not in negatives]
        assert model.oob_counts_[row] == len(others)
        assert model.oob_scores_[row] == pytest.approx(np.mean(others), abs=1e-12)
    assert np.isnan(model.oob_scores_[:6]).all()
    assert (model.oob_counts_[:6] == 0).all()


def test_every_sample_has_all_labelled_rows_and_different_unlabelled_rows():
    recorded(n_estimators=20)
    assert len(Recorder.fits) == 20
    for positives, negatives, _ in Recorder.fits:
        assert positives == list(range(6))
        assert len(negatives) == len(set(negatives)) == 6
        assert min(negatives) >= 6
    assert len({tuple(negatives) for _, negatives, _ in Recorder.fits}) == 20
    assert {row for _, negatives, _ in Recorder.fits for row in negatives} == set(range(6, 30))


def test_the_score_of_a_new_row_is_the_mean_of_all_models():
    model, _ = recorded(n_estimators=4)
    np.testing.assert_allclose(model.decision_function([[99.0]]), 0.1 * np.mean([1, 2, 3, 4]) - 0.5)
    assert model.cut_ == 0.5
    assert len(model.estimators_) == 4


@given(st.integers(1, 8), st.integers(1, 12))
def test_the_default_sample_has_as_many_rows_as_labels_but_at_most_half_of_the_others(n_labelled, n_unlabelled):
    X, s = rows(n_labelled + n_unlabelled, n_labelled)
    with pytest.warns(UserWarning, match="1 of 1 unlabelled rows are in all") if n_unlabelled == 1 else nullcontext():
        model = PUBaggingClassifier(Recorder(), n_estimators=40, random_state=0).fit(X, s)
    assert model.n_negatives_ == min(n_labelled, max(1, n_unlabelled // 2))
    assert np.isfinite(model.oob_scores_[s == 0]).all() == (n_unlabelled > 1)


def test_rows_in_all_samples_have_no_score_and_a_warning():
    with pytest.warns(UserWarning, match="24 of 24 unlabelled rows are in all 3 samples, and have no out-of-bag score"):
        model, _ = recorded(n_estimators=3, n_negatives=24)
    assert np.isnan(model.oob_scores_).all()


def test_a_sample_cannot_be_larger_than_the_unlabelled_rows():
    with pytest.raises(ValueError, match="n_negatives=25, but there are only 24 unlabelled rows"):
        recorded(n_negatives=25)


@pytest.mark.parametrize("name", ["n_estimators", "n_negatives"])
@pytest.mark.parametrize("value", [0, 1.5, "a", True], ids=["zero", "fraction", "text", "flag"])
def test_counts_must_be_whole(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1"):
        recorded(**{name: value})


def test_with_all_unlabelled_rows_in_every_sample_it_is_one_naive_fit():
    data = simulate(200)
    inside = LogisticRegression(tol=1e-8)
    with pytest.warns(UserWarning, match="out-of-bag"):
        model = PUBaggingClassifier(inside, n_estimators=2, n_negatives=int((data.s == 0).sum())).fit(data.X, data.s)
    expected = LogisticRegression(tol=1e-8).fit(data.X, data.s).predict_proba(data.X)[:, 1]
    np.testing.assert_allclose(model.decision_function(data.X), expected - 0.5, atol=1e-12)


def test_one_seed_gives_one_result():
    data = simulate(200)
    first, again, other = (
        PUBaggingClassifier(n_estimators=20, random_state=seed).fit(data.X, data.s).oob_scores_ for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other)[data.s == 0].any()
