"""Out-of-fold scores: never of a model's own training rows, fixed by one seed, made of any classifier."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits

from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, held_out_scores
from scarless.label_frequency.held_out_scores import default_classifier, out_of_fold_scores, seeded_clone

ESTIMATORS = [ElkanNoto, DEDPUL, BestBinEstimator]
ALL = pytest.mark.parametrize("kind", ESTIMATORS)
RNG = np.random.default_rng(0)
Y = RNG.random(240) < 0.5
S = (Y * (RNG.random(240) < 0.6)).astype(int)
X = RNG.normal(size=(240, 3)) + 2.5 * Y[:, None]
PROBABILITY = "predict_proba"


class Memory(ClassifierMixin, BaseEstimator):
    """Knows the labels of its training rows and nothing else; keeps a diary of what it was given."""

    diary: ClassVar[list] = []

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.known_ = {tuple(row): label for row, label in zip(X, y, strict=True)}
        self.diary.append((X.shape[0], int(y.sum())))
        return self

    def predict_proba(self, X):
        p = np.array([self.known_.get(tuple(row), 0.5) for row in X], dtype=float)
        return np.column_stack([1 - p, p])


class Fixed(Memory):
    """Scores by the first attribute, whatever it was fitted on."""

    def predict_proba(self, X):
        return np.column_stack([expit(-X[:, 0]), expit(X[:, 0])])


@pytest.fixture(autouse=True)
def _empty_diary():
    Memory.diary.clear()


def test_no_row_is_scored_by_a_model_that_saw_it():
    scores = out_of_fold_scores(Memory(), PROBABILITY, X, S.astype(float), np.ones(S.size), 5, np.random.default_rng(0))
    np.testing.assert_array_equal(scores, 0.5)
    # and the memory would have given itself away
    assert set(Memory().fit(X, S).predict_proba(X)[:, 1]) == {0.0, 1.0}


@ALL
def test_estimators_on_scores_need_no_refits_for_resamples_but_elkan_noto(kind):
    kind(Fixed(), cv=4, n_resamples=20, random_state=0).fit(X, S)
    again = 20 if kind is ElkanNoto else 0  # whose noise is the classifier's: new scores for each half
    assert len(Memory.diary) == 4 * (1 + again)
    assert {n for n, _ in Memory.diary} == ({180, 90} if again else {180})


@pytest.mark.parametrize(("n_labelled", "n_folds"), [(2, 2), (3, 3), (5, 5), (40, 5)])
def test_no_more_folds_than_rows_of_either_kind(n_labelled, n_folds):
    for labels in (np.arange(60) < n_labelled, np.arange(60) >= n_labelled):
        Memory.diary.clear()
        s = labels.astype(float)
        out_of_fold_scores(Memory(), PROBABILITY, X[:60], s, np.ones(60), 5, np.random.default_rng(0))
        assert len(Memory.diary) == n_folds
        assert all(0 < labelled < n for n, labelled in Memory.diary)


@ALL
@pytest.mark.parametrize("n_labelled", [1, 5])
def test_fewer_than_two_of_a_kind(kind, n_labelled):
    s = (np.arange(6) < n_labelled).astype(int)
    with pytest.raises(ValueError, match=f"at least 2 labelled and 2 unlabelled rows; there are {n_labelled} and"):
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


def test_default_boosting_stops_early_where_rows_are_many():
    few, many = default_classifier(np.zeros((10_000, 1))), default_classifier(np.zeros((10_001, 1)))
    assert (few.learning_rate, few.max_leaf_nodes, few.early_stopping) == (0.05, 8, "auto")
    assert many.get_params() == HistGradientBoostingClassifier(early_stopping=True).get_params()


class Watcher(Fixed):
    seen: ClassVar[set] = set()

    def fit(self, X, y):
        self.seen.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
        return super().fit(X, y)


def test_default_boosting_of_few_rows_takes_one_thread(monkeypatch):
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
def test_gaps_are_for_classifiers_that_cope(kind):
    table = X.copy()
    table[::7, 0] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN at row 0, column 0"):
        kind().fit(table, S)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        kind(LogisticRegression()).fit(table, S)
    model = kind(HistGradientBoostingClassifier(max_bins=16), random_state=0).fit(table, S)
    assert S.mean() <= model.class_prior_ <= 1


@pytest.mark.parametrize("kind", [DEDPUL, BestBinEstimator])
def test_decision_function_serves_where_there_are_no_probabilities(kind):
    model = kind(LinearSVC(), random_state=0).fit(X, S)
    assert model.class_prior_ == pytest.approx(Y.mean(), abs=0.15)


def test_elkan_noto_needs_probabilities():
    with pytest.raises(ValueError, match="LinearSVC has no predict_proba, which ElkanNoto reads"):
        ElkanNoto(LinearSVC()).fit(X, S)


@ALL
def test_what_is_no_classifier(kind):
    for wrong in ("lr", LogisticRegression, 3):
        with pytest.raises(ValueError, match="must be None, 'precomputed' or a scikit-learn classifier"):
            kind(wrong).fit(X, S)
    with pytest.raises(ValueError, match="LinearRegression has no predict_proba"):
        kind(LinearRegression()).fit(X, S)
    with pytest.raises(ValueError, match="cv must be a whole number of at least 2; got 1"):
        kind(cv=1).fit(X, S)


class Broken(Memory):
    def predict_proba(self, X):
        return np.full((X.shape[0], 2), np.nan)


@ALL
def test_scores_that_are_no_numbers(kind):
    with pytest.raises(ValueError, match="Broken gave 240 of 240 scores that are not finite"):
        kind(Broken()).fit(X, S)


@ALL
def test_precomputed_scores_are_one_column(kind):
    with pytest.raises(ValueError, match="one column of out-of-fold scores; it has 3 columns"):
        kind("precomputed").fit(X, S)


@ALL
def test_precomputed_scores_stand_for_the_classifier(kind):
    from_classifier = kind(Fixed(), random_state=0).fit(X, S)
    scores = expit(X[:, :1])
    for column in (scores, sparse.csr_array(scores), pd.DataFrame(scores)):
        model = kind("precomputed").fit(column, S)
        assert model.class_prior_ == pytest.approx(from_classifier.class_prior_, rel=1e-9)
