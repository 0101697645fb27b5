"""Balanced draws: what is drawn, who sees what, and that any classifier can be a member of a stack."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from scarless import BalancedDraws, ClassPriorWarning, SAREMClassifier, SARStackingClassifier, load, save
from scarless.labelling import simulate_labels
from scarless.pair.cross_fit import FixedPropensity, OneLabel
from scarless.pair.draws import GrownTrees, default_forest, drawn_rows, fit_draws, grown_tree

FOLDS = [(np.flatnonzero(np.arange(400) % 2 != k), np.flatnonzero(np.arange(400) % 2 == k)) for k in range(2)]


class Recorder(ClassifierMixin, BaseEstimator):
    """A classifier without row weights and without random_state, which predicts the share of positives of its rows."""

    def fit(self, X, y):
        self.classes_, self.seen_, self.y_ = np.unique(y), np.asarray(X)[:, 0].astype(int), y
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


class CellMeans(ClassifierMixin, BaseEstimator):
    """A classifier that predicts the share of positives among the training rows with the same value."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        self.share_ = [y[X[:, 0] == value].mean() if (X[:, 0] == value).any() else 0.5 for value in (0, 1)]
        return self

    def predict_proba(self, X):
        share = np.take(self.share_, X[:, 0].astype(int))
        return np.column_stack([1.0 - share, share])


def draws(classifier, X, s, e, w=None, **options):
    """Return the cross-fit of a classifier by draws with known propensities."""
    w = np.ones(s.size) if w is None else w
    return fit_draws(
        BalancedDraws(classifier, **options), X, OneLabel(s), w, FOLDS, FixedPropensity(e), seed=1, n_jobs=None,
        progress=lambda _: None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] ** 2 + X[:, 1] ** 2 < 1.5
    return X, simulate_labels(y, expit(X[:, 2]), random_state=0), y


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 60))
def test_each_row_is_drawn_as_often_as_expected_rounded_up_or_down(seed, n_rows, size):
    rng = np.random.default_rng(seed)
    weight = rng.exponential(size=n_rows)
    counts = np.bincount(drawn_rows(np.arange(n_rows), weight, size, rng), minlength=n_rows)
    assert counts.sum() == size
    assert (np.abs(counts - size * weight / weight.sum()) < 1 + 1e-9).all()


def test_a_draw_is_balanced_and_never_has_rows_of_the_fold_that_it_scores(table):
    X, s, _ = table
    numbered = np.column_stack([np.arange(400), X])
    fit = draws(Recorder(), numbered, s, np.full(400, 0.5), n_draws=6)
    for model, (train, _) in zip(fit.models, FOLDS, strict=True):
        assert len(model.classifiers) == 3
        for classifier in model.classifiers:
            assert classifier.y_.sum() == s[train].sum() == (classifier.y_ == 0).sum()
            assert np.isin(classifier.seen_, train).all()
            assert (s[classifier.seen_] == classifier.y_).all()
            assert np.unique(classifier.seen_).size == classifier.seen_.size  # the same propensity: no row twice
    others = [set(classifier.seen_[classifier.y_ == 0]) for classifier in fit.models[0].classifiers]
    assert others[0] != others[1]


def test_rows_of_weight_0_are_not_drawn_and_max_labelled_limits_a_draw(table):
    X, s, _ = table
    w = np.where(np.arange(400) < 100, 0.0, 1.0)
    fit = draws(Recorder(), np.column_stack([np.arange(400), X]), s, np.full(400, 0.5), w, n_draws=2, max_labelled=7)
    for model in fit.models:
        assert model.classifiers[0].y_.size == 14
        assert (model.classifiers[0].seen_ >= 100).all()


def test_labelled_rows_count_by_the_inverse_of_their_propensity():
    """Two kinds of rows: the mean of the draws approaches the ratio of expected counts, which has a closed form."""
    x = np.repeat([0, 1, 0, 1], [100, 100, 100, 100]).astype(float)  # the first half is labelled
    order = np.random.default_rng(0).permutation(400)
    x, s = x[order], np.repeat([1.0, 0.0], 200)[order]
    e = np.where(x == 1, 0.8, 0.2)
    fit = draws(CellMeans(), x[:, None], s, e, n_draws=400)
    for model, (train, _) in zip(fit.models, FOLDS, strict=True):
        labelled, other = train[s[train] == 1], train[s[train] == 0]
        positives = np.array([np.sum(1.0 / e[labelled[x[labelled] == value]]) for value in (0, 1)])
        positives *= labelled.size / positives.sum()
        negatives = np.array([np.sum(x[other] == value) for value in (0, 1)])
        expected = logit(positives / (positives + negatives * min(1.0, labelled.size / other.size)))
        assert np.allclose(model.logits(np.array([[0.0], [1.0]])) - model.level, expected, atol=0.02)


@pytest.mark.parametrize(
    "classifier",
    [
        KNeighborsClassifier(15),
        Recorder(),
        LinearDiscriminantAnalysis(),
        BalancedDraws(DecisionTreeClassifier(max_depth=3), n_draws=20),
    ],
    ids=["neighbours", "without random_state", "discriminant analysis", "draws of a tree"],
)
@pytest.mark.parametrize("make", [lambda c: SARStackingClassifier([("own", c)]), SAREMClassifier])
@pytest.mark.filterwarnings("ignore")
def test_a_classifier_without_weights_is_a_class_model(classifier, make, table):
    X, s, _ = table
    options = {"propensity_attributes": [2], "cv": 2, "random_state": 0}
    model, again = (make(classifier).set_params(**options).fit(X, s) for _ in range(2))
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert 0 < model.class_prior_interval().low < model.class_prior_interval().high < 1


def test_a_classifier_that_cannot_be_fitted_to_a_draw_is_named(table):
    X, s, _ = table
    stack = SARStackingClassifier([("n", KNeighborsClassifier(300))], propensity_attributes=[2], cv=2)
    with pytest.raises(ValueError, match=r"KNeighborsClassifier cannot be fitted to a balanced draw of \d+ labelled"):
        stack.fit(X, s)


@pytest.mark.parametrize(("option", "value"), [("n_draws", 0), ("max_labelled", 0), ("n_draws", 1.5)])
def test_wrong_numbers_are_refused_before_the_fit(option, value, table):
    X, s, _ = table
    stack = SARStackingClassifier([("f", BalancedDraws(DecisionTreeClassifier(), **{option: value}))])
    with pytest.raises(ValueError, match=f"f: {option} must be"):
        stack.fit(X, s)


def test_the_forest_finds_what_a_logistic_model_cannot_and_is_saved(table, tmp_path):
    X, s, y = table
    forest = SARStackingClassifier([("forest", default_forest())], propensity_attributes=[2], cv=2, random_state=0)
    forest.fit(X, s)
    assert roc_auc_score(y, forest.predict_proba(X)[:, 1]) > 0.9
    save(forest, tmp_path / "forest.skops")
    assert np.array_equal(load(tmp_path / "forest.skops").predict_proba(X), forest.predict_proba(X))
    parallel = forest.__class__(**{**forest.get_params(deep=False), "n_jobs": 2}).fit(X, s)
    assert np.array_equal(parallel.predict_proba(X), forest.predict_proba(X))


def test_huge_numbers_and_sparse_rows_do_not_stop_the_forest(table):
    X, s, _ = table
    options = {"propensity_attributes": [2], "cv": 2, "random_state": 0}
    forest = [("forest", BalancedDraws(default_forest().estimator, n_draws=10))]
    huge = X * [1e60, 1.0, 1.0]
    assert np.isfinite(SARStackingClassifier(forest, **options).fit(huge, s).predict_proba(huge)).all()
    rows = sparse.csr_array(X)
    found = SARStackingClassifier(forest, **options).fit(rows, s).predict_proba(rows)
    assert roc_auc_score(s, found[:, 1]) > 0.5


def test_few_labels_give_a_forest_and_a_sentence(table):
    X, s, y = table
    few = np.where(np.cumsum(s) <= 8, s, 0)
    model = SARStackingClassifier(cv=2, random_state=0)
    with pytest.warns(ClassPriorWarning, match="only 8 labelled rows"):
        model.fit(X, few)
    assert [member.name for member in model.members_] == ["logistic", "forest"]
    with pytest.warns(ClassPriorWarning, match=r"holds for \d+ of 400 rows.*decision='balanced'"):
        model.predict(X)
    assert 0.1 < model.predict(X, decision="balanced").mean() < 0.9
    assert y.mean() > 0.1


@pytest.mark.parametrize("inner", [LogisticRegression(C=-1), ExtraTreeClassifier(min_samples_leaf=-1)])
def test_parameters_of_the_classifier_are_checked(inner, table):
    X, s, _ = table
    with pytest.raises(ValueError, match="parameter of"):
        SARStackingClassifier([("f", BalancedDraws(inner))], cv=2).fit(X, s)


def test_trees_that_are_stored_together_predict_the_same_and_refuse_wrong_sizes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    tree = ExtraTreeClassifier(min_samples_leaf=2)
    trees = GrownTrees([grown_tree(tree, X, (X[:, k] > 0).astype(float), rng) for k in range(3)])
    again, state = GrownTrees([]), trees.__getstate__()
    again.__setstate__(state)
    assert len(again) == 3
    for one, other in zip(trees, again, strict=True):
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
    for wrong in (state["sizes"] + 1, np.array([[0, 1], *state["sizes"][1:]])):
        with pytest.raises(ValueError, match="do not add up"):
            again.__setstate__({**state, "sizes": wrong})
