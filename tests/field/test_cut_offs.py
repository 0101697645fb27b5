"""Cut-offs against brute force, PGlin against its formulas, and weights as numbers of rows."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.special import digamma, expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from tests.helpers import simulate

from scarless import NaiveClassifier
from scarless.field import PGlinClassifier, ThresholdedNaiveClassifier
from scarless.field.cut_offs import (
    cut_at_share,
    first_useful_cut,
    mutual_information,
    mutual_information_cut,
    weighted_quantile,
)

DATA = simulate(400, seed=1)
X, S = DATA.X, DATA.s
CUTS = ("mutual-information", "median", "max-quarter")


class FirstColumn(ClassifierMixin, BaseEstimator):
    """Returns the first attribute as the probability of a label, whatever it was fitted to."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


# --- mutual information


def enumerated_information(z, t, k):
    """The estimate of Ross (2014), with neighbours of *every* row found by sorting all distances."""
    side, terms = z > t, []
    for i in range(z.size):
        distance = np.delete(np.abs(z - z[i]), i)
        radius = np.sort(distance[np.delete(side, i) == side[i]])[k - 1]
        own = np.count_nonzero(side == side[i])
        terms.append(digamma(np.count_nonzero(distance <= radius)) + digamma(own))
    return digamma(z.size) + digamma(k) - np.mean(terms)


@given(st.integers(12, 40), st.integers(1, 4), st.integers(0, 10**6))
def test_the_mutual_information_is_that_of_enumerated_neighbours(n, k, seed):
    rng = np.random.default_rng(seed)
    z = np.sort(rng.normal(size=n) + 3 * (rng.random(n) < 0.3))
    for below in range(k + 1, n - k):
        t = 0.5 * (z[below - 1] + z[below])
        assert mutual_information(z, t, k) == pytest.approx(enumerated_information(z, t, k), abs=1e-12)


def test_a_side_with_too_few_rows_has_no_mutual_information():
    z = np.arange(10.0)
    assert np.isnan(mutual_information(z, 2.5, 3))
    assert np.isfinite(mutual_information(z, 3.5, 3))
    assert np.isnan(mutual_information(z, 6.5, 3))


@given(st.integers(8, 30), st.integers(0, 10**6))
@example(14, 106797)  # with a score of 43, above the log-odds of the largest probability below 1
def test_the_cut_off_is_the_best_of_all_that_are_tried(n, seed):
    z = np.random.default_rng(seed).standard_t(2, size=n)
    ordered, first = np.sort(z), first_useful_cut(n, 3)
    tried = np.linspace(ordered[first], ordered[min(n - first, n - 1)], 20)
    values = [enumerated_information(ordered, t, 3) if 3 < (z > t).sum() < n - 3 else -np.inf for t in tried]
    best = mutual_information_cut(z, 20)
    if best is None:
        assert max(values) == -np.inf
    else:
        assert mutual_information(ordered, best) == pytest.approx(max(values), abs=1e-12)


@given(st.integers(8, 200), st.integers(0, 10**6))
def test_no_cut_off_outside_the_useful_range_is_better(n, seed):
    """The range comes from an upper bound of the mutual information, so no cut-off outside it can be the best."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.normal(size=n) + 5 * (rng.random(n) < rng.random()))
    first = first_useful_cut(n, 3)
    values = {below: mutual_information(z, z[below - 1], 3) for below in range(4, n - 3)}
    inside = [value for below, value in values.items() if first <= below <= n - first]
    assert max(inside) == max(values.values())


def test_two_groups_attract_the_cut_off_only_if_they_are_equally_large():
    """Even a gap of 20 standard deviations is not found if the median is elsewhere: the entropy decides."""
    rng = np.random.default_rng(0)
    for n, inside_the_gap in ((500, True), (700, False)):
        z = np.concatenate([rng.normal(size=n), 20 + rng.normal(size=1000 - n)])
        found = mutual_information_cut(z, 100)
        assert np.array_equal(z > found, z > 10) == inside_the_gap
        assert abs((z > found).mean() - 0.5) < 0.06


def test_without_groups_the_cut_off_is_near_the_median_and_the_ceiling_of_balanced_accuracy_holds():
    """A perfect ranking with class prior 0.1 and a median cut has the balanced accuracy 1/2 + 1/(4 * 0.9)."""
    z = np.sort(np.random.default_rng(0).normal(size=2000))
    y = np.arange(2000) >= 1800
    above = z > mutual_information_cut(z, 100)
    assert abs(above.mean() - 0.5) < 0.06
    above = z > cut_at_share(z, np.ones(2000), 0.5)
    assert above.sum() == 1000
    assert 0.5 * (above[y].mean() + (~above)[~y].mean()) == pytest.approx(0.5 + 0.25 / 0.9, abs=1e-12)


@pytest.mark.parametrize("z", [[1.0, 2.0], [1.0] * 50], ids=["two rows", "equal scores"])
def test_a_cut_off_that_cannot_be_estimated_is_none(z):
    assert mutual_information_cut(np.array(z), 100) is None


def test_the_classifier_then_warns_and_uses_the_median():
    model = ThresholdedNaiveClassifier(DummyClassifier())
    with pytest.warns(UserWarning, match="no cut-off has enough unlabelled rows with different scores"):
        model.fit(X, S)
    assert model.share_positive_ == 0.0


def test_probabilities_of_0_and_1_do_not_stretch_the_range_of_cut_offs():
    p = np.linspace(0.1, 0.9, 60)[:, None]
    ends = np.repeat([[0.0], [1.0]], 30, axis=0)
    s = np.append(np.zeros(120), 1)
    model = ThresholdedNaiveClassifier(FirstColumn()).fit(np.concatenate([ends, p, [[0.5]]]), s)
    assert abs(expit(model.cut_) - 0.5) < 0.05
    only = ThresholdedNaiveClassifier(FirstColumn()).fit(np.concatenate([ends, [[0.5]]]), s[60:])
    np.testing.assert_array_equal(only.predict([[0.0], [1.0]]), [0, 1])


# --- a given share, and quantiles


def enumerated_cut(z, w, share):
    values = np.unique(z)
    cuts = 0.5 * (values[1:] + values[:-1])
    gaps = [abs(w @ (z > t) / w.sum() - share) for t in cuts]
    return max(t for t, gap in zip(cuts, gaps, strict=True) if gap <= min(gaps) + 1e-12)


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=20), st.floats(0.01, 0.99), st.integers(0, 10**6))
@example([0, 1], 0.5, 0)
def test_a_share_is_reached_as_nearly_as_ties_allow(scores, share, seed):
    z = np.array(scores, dtype=float)
    assume(np.unique(z).size > 1)
    w = np.random.default_rng(seed).integers(1, 4, size=z.size).astype(float)
    assert cut_at_share(z, w, share) == enumerated_cut(z, w, share)
    assert cut_at_share(np.repeat(z, w.astype(int)), np.ones(int(w.sum())), share) == cut_at_share(z, w, share)


def test_equal_scores_are_all_on_one_side():
    z = np.zeros(5)
    assert not (z > cut_at_share(z, np.ones(5), 0.4)).any()
    assert (z > cut_at_share(z, np.ones(5), 0.6)).all()
    rounded = np.array([1.0, np.nextafter(1.0, 2.0), 3.0])  # The first two differ by a rounding error.
    assert cut_at_share(rounded, np.ones(3), 0.5) == 0.5 * (rounded[1] + 3.0)
    assert not (rounded[:2] > cut_at_share(rounded[:2], np.ones(2), 0.5)).any()


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.floats(0.01, 1.0), st.integers(0, 10**6))
def test_a_weighted_quantile_is_the_quantile_of_repeated_rows(values, level, seed):
    w = np.random.default_rng(seed).integers(0, 4, size=len(values)).astype(float)
    w[0] = 1.0
    repeated = np.sort(np.repeat(values, w.astype(int)))
    expected = repeated[int(np.ceil(level * repeated.size * (1 - 1e-12))) - 1]
    assert weighted_quantile(np.array(values), w, level) == expected


# --- ThresholdedNaiveClassifier


def test_all_cut_offs_have_one_ranking_that_of_the_naive_classifier():
    sigma = NaiveClassifier(tol=1e-14).fit(X, S).predict_proba(X)[:, 1]
    for cut in CUTS:
        model = ThresholdedNaiveClassifier(cut=cut).fit(X, S)
        np.testing.assert_allclose(expit(model.decision_function(X) + model.cut_), sigma, atol=1e-6)
        assert model.share_positive_ == model.predict(X).mean()


def test_each_cut_off_is_the_published_rule():
    naive = NaiveClassifier(tol=1e-14).fit(X, S).predict_proba(X)[:, 1]
    quarter = ThresholdedNaiveClassifier(cut="max-quarter").fit(X, S)
    np.testing.assert_array_equal(quarter.predict(X), naive > naive.max() / 4)
    half = ThresholdedNaiveClassifier(cut="median").fit(X, S)
    np.testing.assert_array_equal(half.predict(X), naive > np.median(naive[S == 0]))
    prior = ThresholdedNaiveClassifier(cut="prior", class_prior=0.45).fit(X, S)
    assert prior.predict(X).sum() == round(0.45 * S.size)
    z = np.log(naive / (1 - naive))[S == 0]
    mutual = ThresholdedNaiveClassifier().fit(X, S)
    assert mutual.cut_ == pytest.approx(mutual_information_cut(z, 100), abs=1e-5)


def test_pglins_decision_is_the_cut_off_at_a_quarter_of_the_maximum():
    quarter = ThresholdedNaiveClassifier(cut="max-quarter").fit(X, S)
    np.testing.assert_array_equal(PGlinClassifier().fit(X, S).predict(X), quarter.predict(X))


@pytest.mark.parametrize("cut", [*CUTS, "prior"])
def test_a_weight_is_a_number_of_rows(cut):
    w = np.random.default_rng(0).integers(0, 4, size=S.size)
    model = ThresholdedNaiveClassifier(cut=cut, class_prior=0.7 if cut == "prior" else None)
    weighted = model.fit(X, S, sample_weight=w).cut_
    share = model.share_positive_
    again = model.fit(np.repeat(X, w, axis=0), np.repeat(S, w))
    assert again.cut_ == pytest.approx(weighted, abs=1e-6)
    assert again.share_positive_ == share


def test_probabilities_of_0_and_1_have_finite_scores():
    p = np.array([[0.0], [0.0], [0.2], [0.3], [0.5], [0.6], [0.7], [0.9], [1.0], [1.0]])
    s = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    for cut in CUTS:
        model = ThresholdedNaiveClassifier(FirstColumn(), cut=cut).fit(p, s)
        assert np.isfinite(model.decision_function(p)).all()
        assert (np.diff(model.decision_function(p)) >= 0).all()
    np.testing.assert_array_equal(model.predict(p), p[:, 0] > 0.25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut": "mean"}, "cut must be one of 'mutual-information', 'prior', 'median', 'max-quarter'; got 'mean'"),
        ({"cut": "prior"}, "class_prior must be given for cut='prior': the share of positives among all rows"),
        ({"class_prior": 0.5}, "class_prior=0.5 is used for cut='prior' only; cut is 'mutual-information'"),
        ({"cut": "prior", "class_prior": 1.5}, "class_prior must lie strictly between 0 and 1; got 1.5"),
        ({"cut": "prior", "class_prior": 0.01}, "class_prior=0.01 is below the share of labelled rows, 0.2"),
        ({"n_cuts": 1}, "n_cuts must be a whole number of at least 2; got 1"),
        ({"random_state": -1}, "random_state must be None, a whole number of at least 0"),
    ],
    ids=["unknown cut", "no prior", "prior without use", "prior above 1", "prior too low", "one cut", "bad seed"],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ThresholdedNaiveClassifier(**options).fit(X, S)


def test_mutual_information_needs_whole_weights():
    w = np.where(np.arange(S.size) == 7, 1.5, 1.0)
    with pytest.raises(ValueError, match=r"sample_weight must contain whole numbers.*sample_weight\[7\] = 1.5"):
        ThresholdedNaiveClassifier().fit(X, S, sample_weight=w)
    assert ThresholdedNaiveClassifier(cut="median").fit(X, S, sample_weight=w).share_positive_ > 0


# --- PGlin


def test_pglin_is_its_formula():
    model = PGlinClassifier().fit(X, S)
    sigma = NaiveClassifier(tol=1e-14).fit(X, S).predict_proba(X)[:, 1]
    m = sigma.max()
    f = np.sqrt(sigma / m)
    assert model.max_label_probability_ == pytest.approx(m, abs=1e-6)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], f, atol=1e-6)
    np.testing.assert_allclose(model.predict_propensity(X), np.sqrt(sigma * m), atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1] * model.predict_propensity(X), sigma, atol=1e-6)
    assert model.class_prior_ == pytest.approx(f.mean(), abs=1e-6)
    assert model.cut_ == 0.5


def test_pglin_recovers_both_probabilities_if_its_assumption_holds():
    """With the exact probability k f^2 of a label, and a row with f = 1, both results are exact."""
    f = np.linspace(0.05, 1.0, 20)
    sigma = (0.3 * f**2)[:, None]
    model = PGlinClassifier(FirstColumn()).fit(sigma, np.arange(20) > 15)
    np.testing.assert_allclose(model.predict_proba(sigma)[:, 1], f, rtol=1e-12)
    np.testing.assert_allclose(model.predict_propensity(sigma), 0.3 * f, rtol=1e-12)
    assert model.max_label_probability_ == pytest.approx(0.3, rel=1e-12)


def test_pglin_under_scar_gives_the_square_root():
    """If labels are selected completely at random, the label probability is c f, and the result is sqrt(f)."""
    f = np.linspace(0.05, 1.0, 20)
    model = PGlinClassifier(FirstColumn()).fit(0.3 * f[:, None], np.arange(20) > 15)
    np.testing.assert_allclose(model.predict_proba(0.3 * f[:, None])[:, 1], np.sqrt(f), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(0.3 * f[:, None]), f > 0.25)


def test_rows_above_the_quantile_are_certainly_positive():
    sigma = np.array([[0.1], [0.2], [0.4], [0.8]])
    model = PGlinClassifier(FirstColumn(), quantile=0.75).fit(sigma, [0, 0, 0, 1])
    assert model.max_label_probability_ == 0.4
    np.testing.assert_allclose(model.predict_proba(sigma)[:, 1], [0.5, np.sqrt(0.5), 1.0, 1.0])
    np.testing.assert_allclose(model.predict_propensity([[0.9]]), [0.6])


@pytest.mark.parametrize("quantile", [0, 1.01, -0.5, "a", None, True])
def test_a_wrong_quantile_is_refused(quantile):
    with pytest.raises(ValueError, match=r"quantile must lie in \(0, 1\]; got"):
        PGlinClassifier(quantile=quantile).fit(X, S)


def test_pglin_cannot_divide_by_zero():
    with pytest.raises(ValueError, match=r"The 0\.5 quantile of the probability of a label is 0"):
        PGlinClassifier(FirstColumn(), quantile=0.5).fit([[0.0], [0.0], [0.0], [0.8]], [0, 0, 0, 1])


def test_weights_of_pglin_are_numbers_of_rows():
    w = np.random.default_rng(0).integers(0, 4, size=S.size)
    weighted = PGlinClassifier(quantile=0.9).fit(X, S, sample_weight=w)
    repeated = PGlinClassifier(quantile=0.9).fit(np.repeat(X, w, axis=0), np.repeat(S, w))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-7)
    assert weighted.class_prior_ == pytest.approx(repeated.class_prior_, abs=1e-8)
