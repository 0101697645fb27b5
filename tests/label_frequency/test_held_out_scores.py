"""Out-of-fold scores: never of training rows, reproducible with one seed, from any classifier."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.helpers import fit_to_scores, gaussian_mixture
from threadpoolctl import threadpool_info, threadpool_limits

from scarless.checks.estimators import seeded_clone
from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, held_out_scores
from scarless.label_frequency.held_out_scores import default_classifier, log_odds, out_of_fold_scores

ESTIMATORS = [ElkanNoto, DEDPUL, BestBinEstimator]
ALL = pytest.mark.parametrize("kind", ESTIMATORS)
RNG = np.random.default_rng(0)
Y = RNG.random(240) < 0.5
S = (Y * (RNG.random(240) < 0.6)).astype(int)
X = RNG.normal(size=(240, 3)) + 2.5 * Y[:, None]
PROBABILITY = "predict_proba"


class Memory(ClassifierMixin, BaseEstimator):
    """Memorises the labels of its training rows, and records its inputs."""

    recorded_fits: ClassVar[list] = []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.known_ = {tuple(row): label for row, label in zip(X, y, strict=True)}
        self.recorded_fits.append((X.shape[0], int(y.sum())))
        return self

    def predict_proba(self, X):
        p = np.array([self.known_.get(tuple(row), 0.5) for row in X], dtype=float)
        return np.column_stack([1 - p, p])


class Fixed(Memory):
    """Returns the first attribute as score, whatever it was fitted on."""

    def predict_proba(self, X):
        return np.column_stack([expit(-X[:, 0]), expit(X[:, 0])])


@pytest.fixture(autouse=True)
def _no_recorded_fits():
    Memory.recorded_fits.clear()


def test_no_row_is_scored_by_a_model_that_saw_it():
    scores = out_of_fold_scores(Memory(), PROBABILITY, X, S.astype(float), np.ones(S.size), 5, np.random.default_rng(0))
    np.testing.assert_array_equal(scores, 0.5)
    # Scores of training rows would equal the labels.
    assert set(Memory().fit(X, S).predict_proba(X)[:, 1]) == {0.0, 1.0}


@ALL
def test_only_elkan_noto_refits_the_classifier_for_half_samples(kind):
    kind(Fixed(), cv=4, n_resamples=20, random_state=0).fit(X, S)
    again = 20 if kind is ElkanNoto else 0  # ElkanNoto computes new scores for each half-sample.
    assert len(Memory.recorded_fits) == 4 * (1 + again)
    assert {n for n, _ in Memory.recorded_fits} == ({180, 90} if again else {180})


@pytest.mark.parametrize(("n_labelled", "n_folds"), [(2, 2), (3, 3), (5, 5), (40, 5)])
def test_no_more_folds_than_rows_of_either_kind(n_labelled, n_folds):
    for labels in (np.arange(60) < n_labelled, np.arange(60) >= n_labelled):
        Memory.recorded_fits.clear()
        s = labels.astype(float)
        out_of_fold_scores(Memory(), PROBABILITY, X[:60], s, np.ones(60), 5, np.random.default_rng(0))
        assert len(Memory.recorded_fits) == n_folds
        assert all(0 < labelled < n for n, labelled in Memory.recorded_fits)


@ALL
@pytest.mark.parametrize("n_labelled", [1, 5])
def test_fewer_than_two_of_a_kind(kind, n_labelled):
    s = (np.arange(6) < n_labelled).astype(int)
    with pytest.raises(
        ValueError, match=f"at least 2 labelled and 2 unlabelled rows; there are {n_labelled} labelled and"
    ):
        kind().fit(X[:6], s)


@ALL
@pytest.mark.parametrize(
    "classifier",
    [None, LogisticRegression(), RandomForestClassifier(5), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["default", "logistic", "forest", "pipeline"],
)
def test_one_seed_fixes_everything_in_any_order_of_rows(kind, classifier):
    first = kind(classifier, cv=2, n_resamples=20, random_state=3).fit(X, S)
    order = np.random.default_rng(1).permutation(S.size)
    second = kind(classifier, cv=2, n_resamples=20, random_state=3).fit(X[order], S[order])
    assert second.class_prior_ == first.class_prior_
    assert second.label_frequency_ == first.label_frequency_
    assert second.class_prior_interval() == first.class_prior_interval()


def test_another_seed_gives_other_folds():
    priors = {ElkanNoto(LogisticRegression(), random_state=seed).fit(X, S).class_prior_ for seed in range(3)}
    assert len(priors) == 3


def test_seeds_reach_nested_parameters_that_are_none():
    forest = RandomForestClassifier(random_state=None)
    copy = seeded_clone(make_pipeline(StandardScaler(), forest), np.random.default_rng(0))
    assert copy.get_params()["randomforestclassifier__random_state"] is not None
    assert forest.random_state is None
    assert seeded_clone(RandomForestClassifier(random_state=7), np.random.default_rng(0)).random_state == 7


@ALL
def test_classifier_given_is_left_unfitted(kind):
    classifier = LogisticRegression()
    kind(classifier, random_state=0).fit(X, S)
    assert not hasattr(classifier, "coef_")


@ALL
def test_sparse_table_goes_to_the_logistic_model(kind):
    table = sparse.csr_array(X)
    default = kind(random_state=0).fit(table, S)
    named = kind(LogisticRegression(max_iter=1000), random_state=0).fit(table, S)
    assert default.class_prior_ == named.class_prior_
    assert default.n_features_in_ == 3


def test_default_boosting_stops_early_for_many_rows():
    few, many = default_classifier(np.zeros((10_000, 1))), default_classifier(np.zeros((10_001, 1)))
    assert (few.learning_rate, few.max_leaf_nodes, few.early_stopping) == (0.05, 8, "auto")
    assert many.get_params() == HistGradientBoostingClassifier(early_stopping=True).get_params()


class Watcher(Fixed):
    seen: ClassVar[set] = set()

    def fit(self, X, y):
        self.seen.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return super().fit(X, y)


def test_default_boosting_of_few_rows_uses_one_thread(monkeypatch):
    monkeypatch.setattr(held_out_scores, "default_classifier", lambda X: Watcher())
    with threadpool_limits(limits=2, user_api="openmp"):
        DEDPUL().fit(X, S)
        assert Watcher.seen == {1}
        DEDPUL(Watcher()).fit(X, S)
    assert Watcher.seen == {1, 2}


@ALL
def test_frame_float32_and_labels_of_another_coding(kind):
    model = kind(LogisticRegression(), random_state=0)
    plain = clone(model).fit(X.astype(np.float32), S)
    frame = pd.DataFrame(X.astype(np.float32), columns=list("abc"))
    named = model.fit(frame, np.where(S == 1, 1, -1))
    assert named.class_prior_ == plain.class_prior_
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    assert 0 < named.label_frequency_ <= 1


@ALL
def test_text_columns_through_a_pipeline(kind):
    frame = pd.DataFrame({"kind": np.where(X[:, 0] > 1, "much", "little"), "more": np.where(X[:, 1] > 1, "yes", "no")})
    model = kind(make_pipeline(OneHotEncoder(), LogisticRegression()), random_state=0).fit(frame, S)
    assert S.mean() <= model.class_prior_ <= 1


@ALL
def test_missing_values_need_a_classifier_that_accepts_them(kind):
    table = X.copy()
    table[::7, 0] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN at row 0, column 0"):
        kind().fit(table, S)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        kind(LogisticRegression()).fit(table, S)
    model = kind(HistGradientBoostingClassifier(max_bins=16), random_state=0).fit(table, S)
    assert S.mean() <= model.class_prior_ <= 1


@pytest.mark.parametrize("kind", [DEDPUL, BestBinEstimator])
def test_decision_function_is_used_if_there_are_no_probabilities(kind):
    model = kind(LinearSVC(), random_state=0).fit(X, S)
    assert model.class_prior_ == pytest.approx(Y.mean(), abs=0.15)


def test_elkan_noto_needs_probabilities():
    with pytest.raises(ValueError, match=r"LinearSVC has no predict_proba, which ElkanNoto needs.*wrap this one"):
        ElkanNoto(LinearSVC()).fit(X, S)


@ALL
def test_invalid_options_are_refused(kind):
    for wrong in ("lr", LogisticRegression, 3):
        with pytest.raises(ValueError, match="must be None, 'precomputed' or an instance of a scikit-learn classifier"):
            kind(wrong).fit(X, S)
    with pytest.raises(ValueError, match=r"LinearRegression has no predict_proba.*pass your own scores"):
        kind(LinearRegression()).fit(X, S)
    with pytest.raises(ValueError, match="cv must be a whole number of at least 2; got 1"):
        kind(cv=1).fit(X, S)


class Broken(Memory):
    def predict_proba(self, X):
        return np.full((X.shape[0], 2), np.nan)


@ALL
def test_scores_must_be_finite(kind):
    with pytest.raises(ValueError, match="estimator=Broken: 240 of 240 scores are NaN or infinite"):
        kind(Broken()).fit(X, S)


@ALL
def test_precomputed_scores_are_one_column(kind):
    with pytest.raises(ValueError, match="one column of out-of-fold scores; it has 3 columns"):
        kind("precomputed").fit(X, S)


@ALL
def test_precomputed_scores_replace_the_classifier(kind):
    from_classifier = kind(Fixed(), random_state=0).fit(X, S)
    scores = expit(X[:, :1])
    for column in (scores, sparse.csr_array(scores), pd.DataFrame(scores)):
        model = kind("precomputed").fit(column, S)
        assert model.class_prior_ == pytest.approx(from_classifier.class_prior_, rel=1e-9)


# --- Elkan and Noto


VARIANTS = pytest.mark.parametrize("variant", ["e1", "e2", "e3"])
G = np.array([0.75, 0.5, 0.5, 0.25, 0.0, 0.0])
ELKAN_NOTO_S = np.array([1, 1, 0, 0, 0, 0])


def fitted(variant, g=G, s=ELKAN_NOTO_S, **options):
    return fit_to_scores(ElkanNoto, g, s, variant=variant, **options)


@pytest.mark.parametrize(("variant", "c"), [("e1", 1.25 / 2), ("e2", 1.25 / 2.0), ("e3", 0.75)])
def test_by_hand(variant, c):
    model = fitted(variant)
    assert model.label_frequency_ == pytest.approx(c, rel=1e-12)
    assert model.class_prior_ == pytest.approx(ELKAN_NOTO_S.mean() / c, rel=1e-12)


@VARIANTS
def test_rows_twice_change_nothing(variant):
    assert fitted(variant, np.repeat(G, 2), np.repeat(ELKAN_NOTO_S, 2)).class_prior_ == pytest.approx(
        fitted(variant).class_prior_, rel=1e-14
    )


@VARIANTS
def test_order_of_rows_changes_nothing(variant):
    order = np.array([3, 0, 5, 1, 4, 2])
    assert fitted(variant, G[order], ELKAN_NOTO_S[order]).class_prior_ == fitted(variant).class_prior_


def mixture(n, c, distance, seed=0):
    """Two Gaussians with prior 0.4, their exact Pr(s=1|x), and labels completely at random."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    x = rng.normal(distance * y)
    s = (y & (rng.random(n) < c)).astype(int)
    return c * positive(x, distance), s


def positive(x, distance):
    return expit(np.log(0.4 / 0.6) + distance * x - distance**2 / 2)


@pytest.mark.parametrize("variant", ["e1", "e2"])
@pytest.mark.parametrize("distance", [1.0, 3.0, 8.0])
def test_limit_is_the_frequency_times_the_mean_posterior_of_positives(variant, distance):
    overlap = quad(lambda x: norm.pdf(x, distance) * positive(x, distance), -5, 15)[0]
    g, s = mixture(200_000, 0.5, distance)
    assert fitted(variant, g, s).label_frequency_ == pytest.approx(0.5 * overlap, rel=0.01)


def test_largest_score_allows_for_overlap_but_not_for_noise():
    g, s = mixture(100_000, 0.5, 1.5)
    assert fitted("e3", g, s).label_frequency_ == pytest.approx(0.5, rel=0.01)
    noisy = np.clip(g + np.random.default_rng(1).normal(scale=0.05, size=g.size), 0, 1)
    assert fitted("e3", noisy, s).label_frequency_ > 0.6
    assert fitted("e1", noisy, s).label_frequency_ == pytest.approx(fitted("e1", g, s).label_frequency_, rel=0.02)


@VARIANTS
def test_all_positives_labelled(variant):
    s = np.repeat([1, 0], [30, 50])
    model = fitted(variant, s.astype(float) * (1 - 1e-12), s)  # slightly below 1, so that X does not equal the labels
    assert model.label_frequency_ == pytest.approx(1, abs=1e-9)
    assert model.class_prior_ == pytest.approx(s.mean(), rel=1e-9)


@VARIANTS
def test_one_label_in_a_thousand_positives(variant):
    y, s = np.arange(4000) < 2000, (np.arange(4000) % 1000 == 0).astype(int) * (np.arange(4000) < 2000)
    model = fitted(variant, 0.001 * y, s)
    assert model.label_frequency_ == pytest.approx(0.001, rel=1e-9)
    assert model.class_prior_ == pytest.approx(0.5, rel=1e-9)


@VARIANTS
def test_scores_without_information_make_all_rows_positive(variant):
    for score in (0.0, 0.25 - 1e-9):
        found = f"ElkanNoto estimates a label frequency of {score:.3g}. .* every row would be positive"
        with pytest.warns(UserWarning, match=found):
            model = fitted(variant, np.full(8, score), np.repeat([1, 0], [2, 6]))
        assert model.class_prior_ == pytest.approx(7 / 8)


def test_interval_covers_the_class_prior():
    # scores of positives scatter around c and are 0 for negatives: the mean over labelled rows has the limit c
    covered, n_tables = 0, 100
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        y = rng.random(400) < 0.4
        s = (y & (rng.random(400) < 0.5)).astype(int)
        g = np.where(y, rng.beta(4, 4, size=400), 0.0)
        low, high = fitted("e1", g, s, n_resamples=100, random_state=seed).class_prior_interval()
        covered += low <= 0.4 <= high
    assert 0.88 < covered / n_tables < 1


def test_errors():
    with pytest.raises(ValueError, match=r"variant must be one of 'e1', 'e2', 'e3'; got 'e4'"):
        fitted("e4")
    with pytest.raises(ValueError, match=r"between 0 and 1; 2 of 6 scores are outside this range, for example 1\.5\."):
        fitted("e1", np.array([1.5, 0.5, 0.5, 1.5, 0.0, 0.0]))


# These warnings are expected: the checks fit strings without pos_label, and columns without information.
@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:.* estimates a (class prior|label frequency) of:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([ElkanNoto(cv=2), ElkanNoto(LogisticRegression(), variant="e2")])
def test_scikit_learns_checks(estimator, check):
    if "sample_weight_equivalence" in str(check):
        pytest.skip(
            "its table has one unlabelled row, which cannot be in two folds; test_weights.py tests weights instead"
        )
    check(estimator)


# --- Best bin


def test_by_hand_of_best_bin():
    # 20 labelled rows score 2; so do 30 of 80 unlabelled ones: these and no others are positive
    scores, s = np.repeat([2, 2, 1], [20, 30, 50]), np.repeat([1, 0, 0], [20, 30, 50])
    model = fit_to_scores(BestBinEstimator, scores, s)
    assert model.class_prior_ == pytest.approx(0.5, rel=1e-12)
    assert model.label_frequency_ == pytest.approx(0.4, rel=1e-12)
    assert model.threshold_ == 2
    slack = np.sqrt(np.log(40) / 160) + np.sqrt(np.log(40) / 40)
    assert model.upper_bound_ == pytest.approx(30 / 80 + 1.01 * slack, rel=1e-12)


@pytest.mark.parametrize("c", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("distance", [3.0, 5.0])
def test_known_mixture(c, distance):
    z, s, prior = gaussian_mixture(20_000, c, distance)
    model = fit_to_scores(BestBinEstimator, z, s)
    assert model.class_prior_ == pytest.approx(prior, abs=0.03)
    assert model.class_prior_ == pytest.approx(prior_above(z, s, model.threshold_), rel=1e-12)


def prior_above(z, s, threshold):
    pi = np.mean(z[s == 0] >= threshold) / np.mean(z[s == 1] >= threshold)
    return s.mean() + pi * (1 - s.mean())


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_only_ranks_matter(seed):
    z, s, _ = gaussian_mixture(200, 0.5, 2.0, seed)
    z = np.round(z, 1)  # ties
    plain, bent = fit_to_scores(BestBinEstimator, z, s), fit_to_scores(BestBinEstimator, expit(z / 4), s)
    assert bent.class_prior_ == plain.class_prior_
    assert bent.upper_bound_ == plain.upper_bound_
    assert bent.threshold_ == expit(plain.threshold_ / 4)


def test_order_of_rows_changes_nothing_of_best_bin():
    z, s, _ = gaussian_mixture(300, 0.5, 2.0)
    order = np.random.default_rng(1).permutation(300)
    first = fit_to_scores(BestBinEstimator, z, s, n_resamples=20, random_state=0)
    second = fit_to_scores(BestBinEstimator, z[order], s[order], n_resamples=20, random_state=0)
    assert first.class_prior_ == second.class_prior_
    assert first.class_prior_interval() == second.class_prior_interval()
    assert first.label_frequency_interval() == second.label_frequency_interval()


@pytest.mark.parametrize("seed", range(5))
def test_rows_twice_change_no_more_than_the_bound_allows(seed):
    # Each threshold is the best of its own bound, so neither estimate can exceed the other by more than the other's
    # confidence term there.
    z, s, _ = gaussian_mixture(300, 0.5, 2.0, seed)
    once, twice = (
        fit_to_scores(BestBinEstimator, z, s),
        fit_to_scores(BestBinEstimator, np.repeat(z, 2), np.repeat(s, 2)),
    )
    n_labelled, n_unlabelled = s.sum(), (1 - s).sum()
    slack = 1.01 * np.sqrt(np.log(40) / 2) * (n_labelled**-0.5 + n_unlabelled**-0.5)
    kept = {model: np.mean(z[s == 1] >= model.threshold_) for model in (once, twice)}
    share = n_unlabelled / s.size
    assert twice.class_prior_ - once.class_prior_ <= share * slack / np.sqrt(2) / kept[once] + 1e-12
    assert once.class_prior_ - twice.class_prior_ <= share * slack / kept[twice] + 1e-12
    assert twice.upper_bound_ < once.upper_bound_


def test_all_positives_labelled_of_best_bin():
    s = np.repeat([1, 0], [50, 80])
    model = fit_to_scores(BestBinEstimator, np.linspace(9, 0, 130), s)
    assert model.label_frequency_ == 1
    assert model.class_prior_ == s.mean()


def test_scores_without_information_make_all_rows_positive_of_best_bin():
    with pytest.warns(UserWarning, match="BestBinEstimator estimates a label frequency of .* every row would be"):
        model = fit_to_scores(BestBinEstimator, np.zeros(40), np.repeat([1, 0], [10, 30]))
    assert model.class_prior_ == pytest.approx(39 / 40)


def test_boosting_on_overlapping_clusters():
    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.4
    X = rng.normal(size=(1500, 3)) + 2.0 * y[:, None]
    s = (y & (rng.random(1500) < 0.5)).astype(int)
    model = BestBinEstimator(random_state=0).fit(X, s)
    assert model.class_prior_ == pytest.approx(y.mean(), abs=0.05)


def test_errors_of_best_bin():
    z, s, _ = gaussian_mixture(50, 0.5, 2.0)
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1; got 1"):
        fit_to_scores(BestBinEstimator, z, s, delta=1)
    with pytest.raises(ValueError, match="gamma must be a number above 0; got 0"):
        fit_to_scores(BestBinEstimator, z, s, gamma=0)


# These warnings are expected: the checks fit strings without pos_label, and columns without information.
@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:.* estimates a (class prior|label frequency) of:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([BestBinEstimator(cv=2), BestBinEstimator(LogisticRegression())])
def test_scikit_learns_checks_of_best_bin(estimator, check):
    if "sample_weight_equivalence" in str(check):
        pytest.skip(
            "its table has one unlabelled row, which cannot be in two folds; test_weights.py tests weights instead"
        )
    check(estimator)


def test_options_of_low_precision_are_used_in_double_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    s = (X[:, 0] > 0) & (np.arange(80) % 2 == 0)
    low, plain = (BestBinEstimator(delta=delta, gamma=1e18, random_state=0) for delta in (np.float16(0.25), 0.25))
    assert low.fit(X, s).label_frequency_ == plain.fit(X, s).label_frequency_


# --- DEDPUL


@pytest.mark.parametrize("c", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("distance", [2.0, 3.0, 5.0])
def test_known_mixture_of_dedpul(c, distance):
    z, s, prior = gaussian_mixture(10_000, c, distance)
    assert fit_to_scores(DEDPUL, z, s).class_prior_ == pytest.approx(prior, abs=0.05)


def test_exact_probability_of_a_label_as_score():
    # the classifier's limit: Pr(s=1|x) = c Pr(y=1|x)
    z, s, prior = gaussian_mixture(10_000, 0.5, 3.0)
    assert fit_to_scores(DEDPUL, 0.5 * expit(z), s).class_prior_ == pytest.approx(prior, abs=0.03)


def test_many_equal_scores():
    # labelled rows score 2; so do 150 of 400 unlabelled ones, and no negative does
    scores, s = np.repeat([2, 2, -1], [100, 150, 250]), np.repeat([1, 0, 0], [100, 150, 250])
    model = fit_to_scores(DEDPUL, scores, s)
    assert model.class_prior_ == pytest.approx(0.5, abs=0.002)
    assert model.label_frequency_ == pytest.approx(0.4, abs=0.002)


def test_probabilities_and_their_log_odds_give_the_same_estimate():
    z, s, _ = gaussian_mixture(500, 0.5, 3.0)
    by_odds, by_probability = fit_to_scores(DEDPUL, z, s), fit_to_scores(DEDPUL, expit(z), s)
    assert by_probability.class_prior_ == pytest.approx(by_odds.class_prior_, abs=1e-6)
    assert by_probability.converged_ == by_odds.converged_


def test_order_of_rows_changes_nothing_of_dedpul():
    z, s, _ = gaussian_mixture(300, 0.5, 2.0)
    order = np.random.default_rng(1).permutation(300)
    first = fit_to_scores(DEDPUL, z, s, n_resamples=20, random_state=0)
    second = fit_to_scores(DEDPUL, z[order], s[order], n_resamples=20, random_state=0)
    assert first.class_prior_ == second.class_prior_
    assert first.class_prior_interval() == second.class_prior_interval()


@pytest.mark.parametrize("seed", range(5))
def test_rows_twice_change_little(seed):
    # densities stay the same but for n - 1 in the variance; the median over 11 neighbours smooths half as far
    z, s, _ = gaussian_mixture(1000, 0.5, 3.0, seed)
    twice = fit_to_scores(DEDPUL, np.repeat(z, 2), np.repeat(s, 2))
    assert twice.class_prior_ == pytest.approx(fit_to_scores(DEDPUL, z, s).class_prior_, abs=0.02)


def test_log_odds_keep_certainty_finite():
    np.testing.assert_allclose(log_odds(np.array([0.0, 0.2, 0.9, 1.0])), logit([0.05, 0.2, 0.9, 0.95]), rtol=1e-12)
    np.testing.assert_allclose(log_odds(np.array([0.0, 1.0, 1.0])), logit([0.25, 0.75, 0.75]), rtol=1e-12)
    inside = np.array([1e-300, 0.5])
    np.testing.assert_array_equal(log_odds(inside), logit(inside))


def test_all_positives_labelled_of_dedpul():
    s = np.repeat([1, 0], [50, 80])
    model = fit_to_scores(DEDPUL, np.append(np.linspace(3, 4, 50), np.linspace(-4, -3, 80)), s)
    assert model.label_frequency_ == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("scores", [np.zeros(40), np.ones(40), np.full(40, 0.3), np.full(40, -7.1)])
def test_scores_without_information_make_all_rows_positive_of_dedpul(scores):
    with pytest.warns(UserWarning, match="DEDPUL estimates a label frequency of .* every row would be positive"):
        model = fit_to_scores(DEDPUL, scores, np.repeat([1, 0], [10, 30]))
    assert model.class_prior_ == pytest.approx(39 / 40)
    assert model.converged_


@pytest.mark.parametrize("n_labelled", [1, 2, 4])
def test_very_few_labelled_rows(n_labelled):
    rng = np.random.default_rng(n_labelled)
    z, s = np.sort(rng.normal(size=60))[::-1], (np.arange(60) < n_labelled).astype(int)
    model = fit_to_scores(DEDPUL, z, s)
    assert s.mean() <= model.class_prior_ <= 1


def test_boosting_on_overlapping_clusters_of_dedpul():
    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.4
    X = rng.normal(size=(1500, 3)) + 2.0 * y[:, None]
    s = (y & (rng.random(1500) < 0.5)).astype(int)
    model = DEDPUL(random_state=0).fit(X, s)
    assert model.class_prior_ == pytest.approx(y.mean(), abs=0.05)
    assert isinstance(model.converged_, bool)


# These warnings are expected: the checks fit strings without pos_label, and columns without information.
@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:.* estimates a (class prior|label frequency) of:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([DEDPUL(cv=2), DEDPUL(LogisticRegression())])
def test_scikit_learns_checks_of_dedpul(estimator, check):
    if "sample_weight_equivalence" in str(check):
        pytest.skip(
            "its table has one unlabelled row, which cannot be in two folds; test_weights.py tests weights instead"
        )
    check(estimator)
