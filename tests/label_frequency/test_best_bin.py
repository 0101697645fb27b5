import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from scarless.label_frequency import BestBinEstimator


def fitted(scores, s, **options):
    return BestBinEstimator("precomputed", **options).fit(np.asarray(scores, dtype=float)[:, None], s)


def mixture(n, c, distance, seed=0):
    """Two Gaussians with prior 0.4, the log-odds of the positive class, and labels completely at random."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    z = np.log(0.4 / 0.6) + distance * rng.normal(distance * y) - distance**2 / 2
    return z, (y & (rng.random(n) < c)).astype(int), y.mean()


def test_by_hand():
    # 20 labelled rows score 2; so do 30 of 80 unlabelled ones: these and no others are positive
    scores, s = np.repeat([2, 2, 1], [20, 30, 50]), np.repeat([1, 0, 0], [20, 30, 50])
    model = fitted(scores, s)
    assert model.class_prior_ == pytest.approx(0.5, rel=1e-12)
    assert model.label_frequency_ == pytest.approx(0.4, rel=1e-12)
    assert model.threshold_ == 2
    slack = np.sqrt(np.log(40) / 160) + np.sqrt(np.log(40) / 40)
    assert model.upper_bound_ == pytest.approx(30 / 80 + 1.01 * slack, rel=1e-12)


@pytest.mark.parametrize("c", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("distance", [3.0, 5.0])
def test_known_mixture(c, distance):
    z, s, prior = mixture(20_000, c, distance)
    model = fitted(z, s)
    assert model.class_prior_ == pytest.approx(prior, abs=0.03)
    assert model.class_prior_ == pytest.approx(prior_above(z, s, model.threshold_), rel=1e-12)


def prior_above(z, s, threshold):
    pi = np.mean(z[s == 0] >= threshold) / np.mean(z[s == 1] >= threshold)
    return s.mean() + pi * (1 - s.mean())


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_only_ranks_matter(seed):
    z, s, _ = mixture(200, 0.5, 2.0, seed)
    z = np.round(z, 1)  # ties
    plain, bent = fitted(z, s), fitted(expit(z / 4), s)
    assert bent.class_prior_ == plain.class_prior_
    assert bent.upper_bound_ == plain.upper_bound_
    assert bent.threshold_ == expit(plain.threshold_ / 4)


def test_order_of_rows_changes_nothing():
    z, s, _ = mixture(300, 0.5, 2.0)
    order = np.random.default_rng(1).permutation(300)
    first = fitted(z, s, n_resamples=20, random_state=0)
    second = fitted(z[order], s[order], n_resamples=20, random_state=0)
    assert first.class_prior_ == second.class_prior_
    assert first.class_prior_interval() == second.class_prior_interval()
    assert first.label_frequency_interval() == second.label_frequency_interval()


@pytest.mark.parametrize("seed", range(5))
def test_rows_twice_change_no_more_than_the_bound_allows(seed):
    # Each threshold is the best of its own bound, so neither estimate can exceed the other by more than the other's
    # confidence term there.
    z, s, _ = mixture(300, 0.5, 2.0, seed)
    once, twice = fitted(z, s), fitted(np.repeat(z, 2), np.repeat(s, 2))
    n_labelled, n_unlabelled = s.sum(), (1 - s).sum()
    slack = 1.01 * np.sqrt(np.log(40) / 2) * (n_labelled**-0.5 + n_unlabelled**-0.5)
    kept = {model: np.mean(z[s == 1] >= model.threshold_) for model in (once, twice)}
    share = n_unlabelled / s.size
    assert twice.class_prior_ - once.class_prior_ <= share * slack / np.sqrt(2) / kept[once] + 1e-12
    assert once.class_prior_ - twice.class_prior_ <= share * slack / kept[twice] + 1e-12
    assert twice.upper_bound_ < once.upper_bound_


def test_all_positives_labelled():
    s = np.repeat([1, 0], [50, 80])
    model = fitted(np.linspace(9, 0, 130), s)
    assert model.label_frequency_ == 1
    assert model.class_prior_ == s.mean()


def test_scores_without_information_say_that_all_rows_are_positive():
    with pytest.warns(UserWarning, match="BestBinEstimator estimates a label frequency of .* every row would be"):
        model = fitted(np.zeros(40), np.repeat([1, 0], [10, 30]))
    assert model.class_prior_ == pytest.approx(39 / 40)


def test_boosting_on_overlapping_heaps():
    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.4
    X = rng.normal(size=(1500, 3)) + 2.0 * y[:, None]
    s = (y & (rng.random(1500) < 0.5)).astype(int)
    model = BestBinEstimator(random_state=0).fit(X, s)
    assert model.class_prior_ == pytest.approx(y.mean(), abs=0.05)


def test_errors():
    z, s, _ = mixture(50, 0.5, 2.0)
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1; got 1"):
        fitted(z, s, delta=1)
    with pytest.raises(ValueError, match="gamma must be a number above 0; got 0"):
        fitted(z, s, gamma=0)


# The warnings are ours and meant: the checks fit strings without pos_label and columns that say nothing.
@pytest.mark.filterwarnings("ignore:Labels are .* and pos_label is not given:UserWarning")
@pytest.mark.filterwarnings("ignore:.* estimates a (class prior|label frequency) of:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([BestBinEstimator(cv=2), BestBinEstimator(LogisticRegression())])
def test_scikit_learns_checks(estimator, check):
    if "sample_weight_equivalence" in str(check):
        pytest.skip("its table has one unlabelled row, which cannot lie in two folds; test_weights has others")
    check(estimator)


def test_numbers_of_low_precision_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    s = (X[:, 0] > 0) & (np.arange(80) % 2 == 0)
    low, plain = (BestBinEstimator(delta=delta, gamma=1e18, random_state=0) for delta in (np.float16(0.25), 0.25))
    assert low.fit(X, s).label_frequency_ == plain.fit(X, s).label_frequency_
