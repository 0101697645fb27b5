import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from scarless.label_frequency import DEDPUL
from scarless.label_frequency.held_out_scores import log_odds


def fitted(scores, s, **options):
    return DEDPUL("precomputed", **options).fit(np.asarray(scores, dtype=float)[:, None], s)


def mixture(n, c, distance, seed=0):
    """Two Gaussians with prior 0.4, the log-odds of the positive class, and labels completely at random."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    z = np.log(0.4 / 0.6) + distance * rng.normal(distance * y) - distance**2 / 2
    return z, (y & (rng.random(n) < c)).astype(int), y.mean()


@pytest.mark.parametrize("c", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("distance", [2.0, 3.0, 5.0])
def test_known_mixture(c, distance):
    z, s, prior = mixture(10_000, c, distance)
    assert fitted(z, s).class_prior_ == pytest.approx(prior, abs=0.05)


def test_exact_probability_of_a_label_as_score():
    # the classifier's limit: Pr(s=1|x) = c Pr(y=1|x)
    z, s, prior = mixture(10_000, 0.5, 3.0)
    assert fitted(0.5 * expit(z), s).class_prior_ == pytest.approx(prior, abs=0.03)


def test_heaps_of_equal_scores():
    # labelled rows score 2; so do 150 of 400 unlabelled ones, and no negative does
    scores, s = np.repeat([2, 2, -1], [100, 150, 250]), np.repeat([1, 0, 0], [100, 150, 250])
    model = fitted(scores, s)
    assert model.class_prior_ == pytest.approx(0.5, abs=0.002)
    assert model.label_frequency_ == pytest.approx(0.4, abs=0.002)


def test_probabilities_and_their_log_odds_are_one():
    z, s, _ = mixture(500, 0.5, 3.0)
    by_odds, by_probability = fitted(z, s), fitted(expit(z), s)
    assert by_probability.class_prior_ == pytest.approx(by_odds.class_prior_, abs=1e-6)
    assert by_probability.converged_ == by_odds.converged_


def test_order_of_rows_changes_nothing():
    z, s, _ = mixture(300, 0.5, 2.0)
    order = np.random.default_rng(1).permutation(300)
    first = fitted(z, s, n_resamples=20, random_state=0)
    second = fitted(z[order], s[order], n_resamples=20, random_state=0)
    assert first.class_prior_ == second.class_prior_
    assert first.class_prior_interval() == second.class_prior_interval()


@pytest.mark.parametrize("seed", range(5))
def test_rows_twice_change_little(seed):
    # densities stay the same but for n - 1 in the variance; the median over 11 neighbours smooths half as far
    z, s, _ = mixture(1000, 0.5, 3.0, seed)
    twice = fitted(np.repeat(z, 2), np.repeat(s, 2))
    assert twice.class_prior_ == pytest.approx(fitted(z, s).class_prior_, abs=0.02)


def test_log_odds_keep_certainty_finite():
    np.testing.assert_allclose(log_odds(np.array([0.0, 0.2, 0.9, 1.0])), logit([0.05, 0.2, 0.9, 0.95]), rtol=1e-12)
    np.testing.assert_allclose(log_odds(np.array([0.0, 1.0, 1.0])), logit([0.25, 0.75, 0.75]), rtol=1e-12)
    inside = np.array([1e-300, 0.5])
    np.testing.assert_array_equal(log_odds(inside), logit(inside))


def test_all_positives_labelled():
    s = np.repeat([1, 0], [50, 80])
    model = fitted(np.append(np.linspace(3, 4, 50), np.linspace(-4, -3, 80)), s)
    assert model.label_frequency_ == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("scores", [np.zeros(40), np.ones(40), np.full(40, 0.3), np.full(40, -7.1)])
def test_scores_without_information_say_that_all_rows_are_positive(scores):
    with pytest.warns(UserWarning, match="DEDPUL estimates a label frequency of .* every row would be positive"):
        model = fitted(scores, np.repeat([1, 0], [10, 30]))
    assert model.class_prior_ == pytest.approx(39 / 40)
    assert model.converged_


@pytest.mark.parametrize("n_labelled", [1, 2, 4])
def test_very_few_labelled_rows(n_labelled):
    rng = np.random.default_rng(n_labelled)
    z, s = np.sort(rng.normal(size=60))[::-1], (np.arange(60) < n_labelled).astype(int)
    model = fitted(z, s)
    assert s.mean() <= model.class_prior_ <= 1


def test_boosting_on_overlapping_heaps():
    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.4
    X = rng.normal(size=(1500, 3)) + 2.0 * y[:, None]
    s = (y & (rng.random(1500) < 0.5)).astype(int)
    model = DEDPUL(random_state=0).fit(X, s)
    assert model.class_prior_ == pytest.approx(y.mean(), abs=0.05)
    assert isinstance(model.converged_, bool)


# The warnings are ours and meant: the checks fit strings without pos_label and columns that say nothing.
@pytest.mark.filterwarnings("ignore:Labels are .* and pos_label is not given:UserWarning")
@pytest.mark.filterwarnings("ignore:.* estimates a (class prior|label frequency) of:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([DEDPUL(cv=2), DEDPUL(LogisticRegression())])
def test_scikit_learns_checks(estimator, check):
    if "sample_weight_equivalence" in str(check):
        pytest.skip("its table has one unlabelled row, which cannot lie in two folds; test_weights has others")
    check(estimator)
