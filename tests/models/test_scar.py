"""SCARClassifier and NaiveClassifier: one label frequency, or no missing labels."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier
from scarless.label_frequency import TIcE


class RootShare(BaseEstimator):
    """Estimate the label frequency as a root of the share of labelled rows, and store the input."""

    def __init__(self, root=2):
        self.root = root

    def fit(self, X, s, sample_weight=None):
        self.X_, self.s_, self.w_ = X, s, sample_weight
        self.label_frequency_ = np.average(s, weights=sample_weight) ** (1 / self.root)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        return tags


class Unweighted(RootShare):
    def fit(self, X, s):
        return super().fit(X, s)


class Constant(BaseEstimator):
    """Return a given label frequency, which may be impossible."""

    def __init__(self, value):
        self.value = value

    def fit(self, X, s):
        self.label_frequency_ = self.value
        return self


class Duck:
    """An object with `fit`, but without the rest of scikit-learn's interface."""

    def fit(self, X, s):
        self.label_frequency_ = 0.7


@pytest.mark.parametrize("method", ["risk", "likelihood"])
@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=2, random_state=0)])
def test_a_given_label_frequency_equals_a_constant_known_propensity(pu, method, estimator):
    scar = SCARClassifier(0.6, estimator=estimator, method=method).fit(pu.X, pu.s)
    known = PropensityWeightedClassifier(estimator, method=method, cv=None).fit(pu.X, pu.s, propensity=0.6)
    np.testing.assert_array_equal(scar.predict_proba(pu.X), known.predict_proba(pu.X))
    assert scar.label_frequency_ == 0.6
    assert scar.class_prior_ == known.class_prior_
    np.testing.assert_array_equal(scar.predict_propensity(pu.X), np.full(pu.s.size, 0.6))
    np.testing.assert_allclose(scar.predict_posterior(pu.X, pu.s), known.predict_posterior(pu.X, pu.s, 0.6))


def test_estimated_frequency_is_sar_em_without_attributes(pu):
    scar = SCARClassifier(tol=1e-12).fit(pu.X, pu.s)
    sar = SAREMClassifier(tol=1e-12).fit(pu.X, pu.s)
    np.testing.assert_allclose(scar.predict_proba(pu.X), sar.predict_proba(pu.X), atol=1e-6)
    assert scar.label_frequency_ == pytest.approx(sar.label_frequency_, abs=1e-6)
    assert scar.class_prior_ == pytest.approx(sar.class_prior_, abs=1e-6)
    np.testing.assert_allclose(scar.predict_posterior(pu.X, pu.s), sar.predict_posterior(pu.X, pu.s), atol=1e-5)


def test_frequency_is_recovered_from_many_rows(simulated):
    data = simulated(n=40_000, low=0.4, high=0.4)
    model = SCARClassifier(C=np.inf).fit(data.X, data.s)
    assert model.label_frequency_ == pytest.approx(0.4, abs=0.03)
    assert model.class_prior_ == pytest.approx(data.y.mean(), abs=0.03)


def test_naive_is_logistic_regression_of_the_labels(pu):
    naive = NaiveClassifier(tol=1e-14, C=0.7).fit(pu.X, pu.s)
    plain = LogisticRegression(tol=1e-10, C=0.7, max_iter=1000).fit(pu.X, pu.s)
    np.testing.assert_allclose(naive.coef_, plain.coef_, atol=1e-5)
    assert naive.label_frequency_ == 1
    assert naive.class_prior_ == pytest.approx(pu.s.mean(), abs=1e-6)


def test_naive_hands_the_labels_to_an_estimator(pu):
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    naive = NaiveClassifier(tree).fit(pu.X, pu.s)
    np.testing.assert_allclose(naive.predict_proba(pu.X), tree.fit(pu.X, pu.s).predict_proba(pu.X))
    assert naive.estimator_ is not tree


def test_propensity_checks_its_table(pu):
    model = SCARClassifier(0.5).fit(pu.X, pu.s)
    with pytest.raises(ValueError, match="X has 2 features, but SCARClassifier is expecting 4"):
        model.predict_propensity(pu.X[:, :2])
    frame = pd.DataFrame(pu.X, columns=list("abcd"))
    with pytest.raises(ValueError, match="feature names should match"):
        SCARClassifier(0.5).fit(frame, pu.s).predict_propensity(frame[list("badc")])


# --- label frequencies from an estimator


@pytest.mark.parametrize("method", ["risk", "likelihood"])
@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=2, random_state=0)])
def test_an_estimated_frequency_is_used_like_a_given_one(pu, method, estimator):
    options = {"estimator": estimator, "method": method}
    c = np.sqrt(pu.s.mean())
    model, given = SCARClassifier(RootShare(), **options).fit(pu.X, pu.s), SCARClassifier(c, **options).fit(pu.X, pu.s)
    np.testing.assert_array_equal(model.predict_proba(pu.X), given.predict_proba(pu.X))
    np.testing.assert_array_equal(model.predict_posterior(pu.X, pu.s), given.predict_posterior(pu.X, pu.s))
    assert model.label_frequency_ == c
    assert model.class_prior_ == given.class_prior_
    assert model.score(pu.X, pu.s) == given.score(pu.X, pu.s)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_the_estimator_gets_the_users_table_and_plain_labels(pu, frame):
    table = frame({name: pu.X[:, i] for i, name in enumerate("abcd")})
    labels = np.where(pu.s == 1, "known", "open")
    model = SCARClassifier(RootShare(), pos_label="known").fit(table, labels)
    assert model.label_frequency_estimator_.X_ is table
    np.testing.assert_array_equal(model.label_frequency_estimator_.s_, pu.s)
    assert model.label_frequency_estimator_.s_.dtype.kind == "i"
    assert model.label_frequency_estimator_.w_ is None


def test_the_given_estimator_is_left_alone_and_the_fitted_one_kept(pu):
    given = RootShare()
    model = SCARClassifier(given).fit(pu.X, pu.s)
    assert not hasattr(given, "label_frequency_")
    assert model.label_frequency_estimator_.label_frequency_ == model.label_frequency_
    model.set_params(label_frequency=0.5).fit(pu.X, pu.s)
    assert not hasattr(model, "label_frequency_estimator_")


def test_any_object_with_a_fit_is_accepted(pu):
    expected = SCARClassifier(0.7).fit(pu.X, pu.s).coef_
    duck = Duck()
    np.testing.assert_array_equal(SCARClassifier(duck).fit(pu.X, pu.s).coef_, expected)
    assert not hasattr(duck, "label_frequency_")
    pipeline = make_pipeline(StandardScaler(), Constant(0.7))
    np.testing.assert_array_equal(SCARClassifier(pipeline).fit(pu.X, pu.s).coef_, expected)
    joint = SCARClassifier().fit(pu.X, pu.s)
    assert SCARClassifier(SCARClassifier()).fit(pu.X, pu.s).label_frequency_ == joint.label_frequency_


def test_a_name_is_the_estimator_with_seed_0(simulated):
    from scarless.label_frequency.held_out_scores import ElkanNoto

    data = simulated(n=200, low=0.5, high=0.5)
    named = SCARClassifier("elkan-noto").fit(data.X, data.s)
    given = SCARClassifier(ElkanNoto(random_state=0)).fit(data.X, data.s)
    assert isinstance(named.label_frequency_estimator_, ElkanNoto)
    assert named.label_frequency_ == given.label_frequency_ == named.label_frequency_estimator_.label_frequency_
    assert clone(named).fit(data.X, data.s).label_frequency_ == named.label_frequency_
    order = np.random.default_rng(0).permutation(data.s.size)
    assert clone(named).fit(data.X[order], data.s[order]).label_frequency_ == named.label_frequency_


@pytest.mark.parametrize(
    ("value", "used", "message"),
    [
        (1.5, 1.0, "Constant estimates a class prior of .*label frequency is set to 1"),
        (np.inf, 1.0, "Constant estimates a class prior of 0"),
        (0.0, None, "Constant estimates a label frequency of 0. .*so that one row is negative"),
        (-3, None, "Constant estimates a label frequency of -3"),
    ],
)
def test_impossible_estimates_are_clipped_with_one_warning(pu, value, used, message):
    with pytest.warns(UserWarning, match=message) as record:
        model = SCARClassifier(Constant(value)).fit(pu.X, pu.s)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert model.label_frequency_ == pytest.approx(pu.s.mean() / (1 - 1 / pu.s.size) if used is None else used)
    np.testing.assert_array_equal(model.predict_propensity(pu.X[:2]), np.full(2, model.label_frequency_))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Constant(np.nan), r"Constant estimated a label frequency of NaN from 400 rows"),
        (Constant(None), "after fit, the attribute label_frequency_ of Constant must be a number"),
        (Constant([0.1, 0.2]), "after fit, the attribute label_frequency_ of Constant must be a number"),
        (GaussianNB(), r"label_frequency_ of GaussianNB must be a number: .* no attribute 'label_frequency_'"),
        ("km3", r"label_frequency='km3' is not the name of an estimator\. Names are 'tice', .*Did you mean 'km[12]'"),
        (RootShare, r"got <class .*RootShare'>. Pass an instance: RootShare\(\)\."),
        (
            [0.3],
            r"label_frequency must be the name of .* a number in \(0, 1\]\); got \[0.3\]. Names are 'tice'",
        ),
        (True, "label_frequency must be a finite number; it is True"),
    ],
)
def test_estimators_without_a_label_frequency_are_refused(pu, estimator, message):
    model = SCARClassifier(estimator)
    with pytest.raises(ValueError, match=message):
        model.fit(pu.X, pu.s)
    with pytest.raises(NotFittedError):
        model.predict(pu.X)


def test_weights_reach_an_estimator_that_takes_them(pu):
    weight = np.random.default_rng(0).integers(0, 4, size=pu.s.size)
    rows = np.repeat(np.arange(pu.s.size), weight)
    model = SCARClassifier(RootShare(), tol=1e-12)
    weighted = clone(model).fit(pu.X, pu.s, sample_weight=weight)
    copied = clone(model).fit(pu.X[rows], pu.s[rows])
    assert weighted.label_frequency_ == pytest.approx(copied.label_frequency_)
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-6)
    np.testing.assert_array_equal(weighted.label_frequency_estimator_.w_, weight)


@pytest.mark.parametrize("estimator", [Unweighted(), make_pipeline(StandardScaler(), Unweighted())], ids=str)
def test_weights_are_refused_if_the_estimator_does_not_accept_them(pu, estimator):
    message = (
        "sample_weight: Unweighted, the estimator of the label frequency, does not accept weights in fit. "
        "Repeat rows instead of weighting them.*SCARClassifier also accepts label_frequency as a number"
    )
    with pytest.raises(ValueError, match=message):
        SCARClassifier(estimator).fit(pu.X, pu.s, sample_weight=np.ones(pu.s.size))
    SCARClassifier(estimator).fit(pu.X, pu.s)


@pytest.mark.parametrize("pipeline", [False, True])
def test_the_estimators_own_positive_label_is_not_used(pu, pipeline):
    given = TIcE(pos_label="yes", random_state=0)
    given = make_pipeline(StandardScaler(), given) if pipeline else given
    coded = SCARClassifier(given, pos_label="yes").fit(pu.X, np.where(pu.s == 1, "yes", "no"))
    plain = SCARClassifier(clone(given)).fit(pu.X, pu.s)
    assert coded.label_frequency_ == plain.label_frequency_
    np.testing.assert_array_equal(coded.coef_, plain.coef_)


def test_the_label_frequency_estimator_must_read_text_that_the_classifier_reads(pu):
    encode = make_column_transformer((OneHotEncoder(), ["region"]), remainder="passthrough")
    frame = pd.DataFrame(pu.X, columns=list("abcd")).assign(region=np.where(pu.X[:, 0] > 0, "north", "south"))
    model = SCARClassifier("tice", estimator=make_pipeline(encode, LogisticRegression()), method="likelihood")
    message = (
        r"label_frequency: TIcE could not be fitted\. X must contain only numbers.*'region' \(1 of 5\).*"
        r"label_frequency=make_pipeline\(encoder, TIcE\(\)\)"
    )
    with pytest.raises(ValueError, match=message):
        model.fit(frame, pu.s)
    advised = make_pipeline(encode, TIcE(random_state=0))
    assert 0 < model.set_params(label_frequency=advised).fit(frame, pu.s).label_frequency_ <= 1


def test_grid_search_reaches_the_estimator_of_the_label_frequency(pu):
    search = GridSearchCV(SCARClassifier(RootShare()), {"label_frequency__root": [2, 4, 8]}, cv=3).fit(pu.X, pu.s)
    scores = search.cv_results_["mean_test_score"]
    assert np.unique(scores).size == 3
    best = pu.s.mean() ** (1 / search.best_params_["label_frequency__root"])
    assert search.best_estimator_.label_frequency_ == pytest.approx(best)


def test_tables_must_suit_both_the_classifier_and_the_estimator(pu):
    boosting = HistGradientBoostingClassifier(max_bins=16)
    tags = [
        get_tags(SCARClassifier(label_frequency, estimator=estimator)).input_tags
        for label_frequency in (0.5, RootShare(), Constant(0.5), "elkan-noto", "no name", RootShare)
        for estimator in (None, boosting)
    ]
    sparse_ones = [tag.sparse for tag in tags]
    assert sparse_ones == [True, False, True, False, False, False, True, False, True, False, True, False]
    assert [tag.allow_nan for tag in tags] == [False, True, False, True, False, False, False, False] + [False, True] * 2


def test_a_sparse_table_reaches_the_estimator_as_it_is(pu):
    X = sparse.csc_array(pu.X)
    model = SCARClassifier(RootShare()).fit(X, pu.s)
    assert model.label_frequency_estimator_.X_ is X
    np.testing.assert_allclose(model.coef_, SCARClassifier(RootShare()).fit(pu.X, pu.s).coef_, atol=1e-8)


# These warnings of scarless are correct, because the checks label nearly all rows of tiny tables.
@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:RootShare estimates:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        SCARClassifier(RootShare(10)),
        SCARClassifier(RootShare(10), method="likelihood"),
        SCARClassifier(RootShare(10), estimator=DecisionTreeClassifier(random_state=0)),
    ]
)
def test_it_passes_scikit_learns_checks(estimator, check):
    check(estimator)
