"""Scorers without negatives inside scikit-learn's searches and cross-validation."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, TunedThresholdClassifierCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.metadata_routing import get_routing_for_object

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier
from scarless.metrics.scorers import PUScorer, make_pu_scorer, pu_scorer_names
from scarless.metrics.scores import propensity_weighted_f1, propensity_weighted_log_loss, propensity_weighted_roc_auc

WITH_CLASSES = [name for name in pu_scorer_names() if name != "observed_log_likelihood"]
FOLDS = KFold(3, shuffle=True, random_state=0)


def pair(**options):
    """A model with its own propensity, which uses another column than the class."""
    return SAREMClassifier(propensity_attributes=[2], classification_attributes=[0, 1], **options)


class Data:
    """One simulated table."""

    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    f = expit(2 * X[:, 0] - 0.5)
    y = (rng.random(600) < f).astype(int)
    e = 0.3 + 0.6 * expit(2 * X[:, 2])
    s = y * (rng.random(600) < e)
    w = rng.uniform(0.5, 2.0, size=600)


@pytest.fixture(scope="module")
def sar():
    return pair().fit(Data.X, Data.s)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


# One call.


@pytest.mark.parametrize("name", WITH_CLASSES)
@pytest.mark.parametrize("weight", [None, Data.w], ids=["unweighted", "weighted"])
def test_with_all_positives_labelled_it_is_scikit_learns_scorer_of_that_name(name, weight):
    model = LogisticRegression().fit(Data.X, Data.y)
    found = make_pu_scorer(name)(model, Data.X, Data.y, propensity=1.0, sample_weight=weight)
    given = {} if weight is None else {"sample_weight": weight}
    assert found == pytest.approx(get_scorer(name)(model, Data.X, Data.y, **given), rel=1e-13)


def test_it_returns_what_the_score_functions_return(sar):
    p = sar.predict_proba(Data.X)[:, 1]
    scorer = make_pu_scorer("neg_log_loss", max_weight=2.0, normalised=True, class_prior=0.4)
    expected = propensity_weighted_log_loss(
        Data.s, p, propensity=Data.e, max_weight=2.0, normalised=True, class_prior=0.4, sample_weight=Data.w, level=0.9
    )
    given = {"propensity": Data.e, "sample_weight": Data.w}
    assert scorer.evaluate(sar, Data.X, Data.s, **given, level=0.9) == expected
    assert scorer(sar, Data.X, Data.s, **given) == -expected.value
    assert scorer.score(sar, Data.X, Data.s, **given) == -expected.value


@pytest.mark.parametrize("model", [pair(), SCARClassifier(0.6), NaiveClassifier()])
def test_the_observed_log_likelihood_is_the_models_own_score(model):
    model.fit(Data.X, Data.s)
    found = make_pu_scorer("observed_log_likelihood")(model, Data.X, Data.s, sample_weight=Data.w)
    assert found == pytest.approx(model.score(Data.X, Data.s, Data.w), rel=1e-13)


def test_without_a_propensity_it_is_the_models_own(sar):
    scorer = make_pu_scorer("roc_auc")
    own = sar.predict_propensity(Data.X)
    expected = float(propensity_weighted_roc_auc(Data.s, sar.predict_proba(Data.X)[:, 1], propensity=own))
    assert scorer(sar, Data.X, Data.s) == expected
    assert scorer(sar, Data.X, Data.s, propensity=Data.e) != expected


def test_a_propensity_inside_of_a_pipeline_or_a_search_is_found():
    scorer = make_pu_scorer("f1")
    alone = make_pipeline(pair()).fit(Data.X, Data.s)
    assert scorer(alone, Data.X, Data.s) == scorer(alone[-1], Data.X, Data.s)
    pipeline = make_pipeline(StandardScaler(), pair()).fit(Data.X, Data.s)
    scaled = pipeline[0].transform(Data.X)
    assert scorer(pipeline, Data.X, Data.s) == scorer(pipeline[-1], scaled, Data.s)
    search = GridSearchCV(pipeline, {"saremclassifier__C": [1.0]}, cv=2, scoring=scorer).fit(Data.X, Data.s)
    assert scorer(search, Data.X, Data.s) == pytest.approx(scorer(pipeline, Data.X, Data.s), rel=1e-12)


def test_a_model_without_probabilities_can_be_scored_by_ranks_only():
    words = np.where(Data.s == 1, "case", "unknown")  # the first class is the positive one
    for labels, pos_label in ((Data.s, None), (words, "case")):
        model = LinearSVC(random_state=0).fit(Data.X, labels)
        values = model.decision_function(Data.X) * (1 if pos_label is None else -1)
        expected = float(propensity_weighted_roc_auc(Data.s, values, propensity=Data.e))
        assert make_pu_scorer("roc_auc", pos_label=pos_label)(model, Data.X, labels, propensity=Data.e) == expected
    with pytest.raises(ValueError, match=r"LinearSVC has no predict_proba.*Use a model that has it, or a score"):
        make_pu_scorer("neg_log_loss", pos_label="case")(model, Data.X, words, propensity=Data.e)


# Other codings of labels, other types of tables.


@pytest.mark.parametrize("name", pu_scorer_names())
def test_the_names_of_the_labels_do_not_matter(name, sar):
    words = np.where(Data.s == 1, "case", "unknown")
    model = pair(pos_label="case").fit(Data.X, words)
    expected = make_pu_scorer(name)(sar, Data.X, Data.s)
    assert make_pu_scorer(name)(model, Data.X, words) == pytest.approx(expected, rel=1e-10)
    assert make_pu_scorer(name, pos_label="case")(model, Data.X, words) == pytest.approx(expected, rel=1e-10)


def test_of_unknown_names_the_last_is_positive_with_a_warning():
    words = np.where(Data.y == 1, "yes", "no")
    model = LogisticRegression().fit(Data.X, words)
    with pytest.warns(UserWarning, match="The last value in sorted order, 'yes', is assumed to mark labelled rows"):
        found = make_pu_scorer("accuracy")(model, Data.X, words, propensity=1.0)
    assert found == model.score(Data.X, words)


def test_tables_of_any_kind(sar):
    scorer = make_pu_scorer("average_precision")
    expected = scorer(sar, Data.X, Data.s, propensity=Data.e)
    names = ["a", "b", "c"]
    named = SAREMClassifier(propensity_attributes=["c"], classification_attributes=["a", "b"])
    for frame, series in (
        (pd.DataFrame(Data.X, columns=names), pd.Series),
        (pl.DataFrame(Data.X, schema=names), pl.Series),
    ):
        model = named.fit(frame, series(Data.s))
        assert scorer(model, frame, series(Data.s), propensity=series(Data.e)) == pytest.approx(expected, rel=1e-10)
    X = sparse.csr_array(Data.X)
    assert scorer(sar, X, Data.s, propensity=Data.e) == pytest.approx(expected, rel=1e-10)


# Inside scikit-learn.


def by_hand(model, scorer, **given):
    found = []
    for train, test in FOLDS.split(Data.X):
        fitted = clone(model).fit(Data.X[train], Data.s[train])
        found.append(scorer(fitted, Data.X[test], Data.s[test], **{k: v[test] for k, v in given.items()}))
    return found


@pytest.mark.usefixtures("routing")
def test_propensities_are_routed_to_the_folds_without_being_asked_for():
    model, scorer = LogisticRegression(), make_pu_scorer("roc_auc")
    found = cross_val_score(model, Data.X, Data.s, scoring=scorer, cv=FOLDS, params={"propensity": Data.e})
    assert found == pytest.approx(by_hand(model, scorer, propensity=Data.e), rel=1e-12)
    constant = cross_val_score(model, Data.X, Data.s, scoring=scorer, cv=FOLDS, params={"propensity": 0.6})
    assert constant == pytest.approx(by_hand(model, scorer, propensity=np.full(600, 0.6)), rel=1e-12)


@pytest.mark.usefixtures("routing")
def test_all_scorers_at_once():
    model = pair()
    scoring = {name: make_pu_scorer(name) for name in pu_scorer_names()}
    found = cross_validate(model, Data.X, Data.s, scoring=scoring, cv=FOLDS, params={"propensity": Data.e})
    for name, scorer in scoring.items():
        assert found[f"test_{name}"] == pytest.approx(by_hand(model, scorer, propensity=Data.e), rel=1e-12)


@pytest.mark.usefixtures("routing")
def test_a_request_can_be_withdrawn_and_renamed():
    model, scorer = pair(), make_pu_scorer("accuracy")
    own = by_hand(model, scorer)
    scorer.set_score_request(propensity=False)
    ignored = cross_val_score(model, Data.X, Data.s, scoring=scorer, cv=FOLDS)
    assert ignored == pytest.approx(own, rel=1e-12)
    scorer.set_score_request(propensity="exposure")
    renamed = cross_val_score(model, Data.X, Data.s, scoring=scorer, cv=FOLDS, params={"exposure": Data.e})
    assert renamed == pytest.approx(by_hand(model, make_pu_scorer("accuracy"), propensity=Data.e), rel=1e-12)


@pytest.mark.usefixtures("routing")
def test_weights_are_routed_where_they_are_asked_for():
    model = LogisticRegression().set_fit_request(sample_weight=False)
    scorer = make_pu_scorer("neg_brier_score")
    params = {"propensity": Data.e, "sample_weight": Data.w}
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        cross_val_score(model, Data.X, Data.s, scoring=scorer, cv=FOLDS, params=params)
    scorer.set_score_request(sample_weight=True)
    found = cross_val_score(model, Data.X, Data.s, scoring=scorer, cv=FOLDS, params=params)
    expected = by_hand(LogisticRegression(), scorer, propensity=Data.e, sample_weight=Data.w)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.usefixtures("routing")
def test_a_search_chooses_by_it_and_both_model_and_scorer_get_the_propensity():
    model = PropensityWeightedClassifier().set_fit_request(propensity=True)
    search = GridSearchCV(model, {"C": [1e-5, 1.0]}, scoring=make_pu_scorer("neg_log_loss"), cv=FOLDS)
    search.fit(Data.X, Data.s, propensity=Data.e)
    assert search.best_params_ == {"C": 1.0}
    assert search.score(Data.X, Data.s, propensity=Data.e) == pytest.approx(
        make_pu_scorer("neg_log_loss")(search.best_estimator_, Data.X, Data.s, propensity=Data.e)
    )


def test_without_routing_a_search_uses_the_models_own_propensity_and_weights():
    model = pair()
    scoring = {"auc": make_pu_scorer("roc_auc"), "likelihood": make_pu_scorer("observed_log_likelihood")}
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, scoring=scoring, refit="likelihood", cv=FOLDS)
    search.fit(Data.X, Data.s, sample_weight=Data.w)
    assert np.isfinite(search.cv_results_["mean_test_auc"]).all()
    single = GridSearchCV(model, {"C": [1.0]}, scoring=scoring["auc"], cv=FOLDS).fit(Data.X, Data.s)
    assert single.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand(model, scoring["auc"])), rel=1e-12)


@pytest.mark.usefixtures("routing")
def test_in_several_processes():
    model = pair()
    scorer = make_pu_scorer("roc_auc", normalised=True)
    found = cross_val_score(model, Data.X, Data.s, scoring=scorer, cv=FOLDS, params={"propensity": Data.e}, n_jobs=2)
    assert found == pytest.approx(by_hand(model, scorer, propensity=Data.e), rel=1e-12)


@pytest.mark.usefixtures("routing")
def test_it_can_be_cloned_pickled_and_printed():
    scorer = make_pu_scorer("roc_auc", normalised=True, max_weight=4.0).set_score_request(sample_weight=True)
    for other in (clone(scorer), pickle.loads(pickle.dumps(scorer))):
        assert other is not scorer
        assert other.get_params() == scorer.get_params()
        assert get_routing_for_object(other).score.requests == {"propensity": True, "sample_weight": True}
    assert repr(scorer) == "PUScorer(max_weight=4.0, metric='roc_auc', normalised=True)"


@pytest.mark.usefixtures("routing")
def test_a_threshold_is_tuned_by_a_scorer_of_decisions():
    """The advice of the docstring of make_pu_scorer, and of the error."""
    function = make_scorer(lambda s, d, propensity: float(propensity_weighted_f1(s, d, propensity=propensity)))
    scorer = function.set_score_request(propensity=True)
    tuned = TunedThresholdClassifierCV(LogisticRegression(), scoring=scorer).fit(Data.X, Data.s, propensity=Data.e)
    best = float(propensity_weighted_f1(Data.s, tuned.predict(Data.X), propensity=Data.e))
    assert best > float(
        propensity_weighted_f1(Data.s, LogisticRegression().fit(Data.X, Data.s).predict(Data.X), propensity=Data.e)
    )
    message = r"PUScorer\(metric='f1'\) scores a model, not predicted classes.*make_scorer\(lambda s, d, propensity"
    with pytest.raises(AttributeError, match=message):
        TunedThresholdClassifierCV(LogisticRegression(), scoring=make_pu_scorer("f1")).fit(
            Data.X, Data.s, propensity=Data.e
        )


# Errors.


def test_a_missing_propensity_is_refused():
    model = LogisticRegression().fit(Data.X, Data.s)
    message = r"LogisticRegression has no predict_propensity.*enable_metadata_routing=True.*params={'propensity': e}"
    for name in ("roc_auc", "observed_log_likelihood"):
        with pytest.raises(ValueError, match=message):
            make_pu_scorer(name)(model, Data.X, Data.s)
    naive = NaiveClassifier().fit(Data.X, Data.s)
    with pytest.raises(ValueError, match="NaiveClassifier has no predict_propensity"):
        make_pu_scorer("roc_auc")(naive, Data.X, Data.s)


def test_wrong_names_and_options_are_refused_at_once():
    with pytest.raises(ValueError, match=r"metric must be one of 'neg_log_loss', .*; got 'log_loss'"):
        make_pu_scorer("log_loss")
    with pytest.raises(ValueError, match=r"The metric 'recall' does not use normalised\. Leave out normalised"):
        make_pu_scorer("recall", normalised=True)
    with pytest.raises(ValueError, match=r"The metric 'observed_log_likelihood' does not use max_weight"):
        make_pu_scorer("observed_log_likelihood", max_weight=3.0)
    with pytest.raises(ValueError, match="metric must be one of"):
        PUScorer("auc")(None, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_prior": 0.5}, "Pass normalised=True too, or leave class_prior out"),
        ({"max_weight": 0.5}, "must be a number of at least 1"),
        ({"normalised": True, "class_prior": 2}, "class_prior must be a number in"),
    ],
)
def test_options_that_no_score_takes_are_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        make_pu_scorer("f1" if "max_weight" in options else "neg_log_loss", **options)


def test_wrong_rows_are_refused(sar):
    scorer = make_pu_scorer("accuracy")
    with pytest.raises(ValueError, match="s has 5 values for 600 rows"):
        scorer(sar, Data.X, Data.s[:5], propensity=Data.e)
    with pytest.raises(ValueError, match="The labels contain 2, but the model was fitted with the labels"):
        scorer(sar, Data.X, Data.s + 1, propensity=Data.e)
    with pytest.raises(ValueError, match="propensity has 3 values for 600 rows"):
        scorer(sar, Data.X, Data.s, propensity=Data.e[:3])
    with pytest.raises(ValueError, match=r"StandardScaler has no attribute classes_\. Pass a fitted classifier"):
        scorer(StandardScaler().fit(Data.X), Data.X, Data.s)


@pytest.mark.parametrize("flag", [np.array([True, False]), pd.DataFrame({"a": [1]}), "yes"])
def test_whether_a_scorer_normalises_is_a_flag(flag):
    with pytest.raises(ValueError, match="normalised must be True or False; got "):
        make_pu_scorer("roc_auc", normalised=flag)


@pytest.mark.parametrize("prior", [pd.DataFrame({"a": [1]}), np.array([0.5, 0.5]), 10**400])
def test_a_class_prior_that_is_not_a_number_is_refused(prior):
    with pytest.raises(ValueError, match=r"class_prior must be a number in \(0, 1\], e.g. 0.3; got "):
        make_pu_scorer("roc_auc", normalised=True, class_prior=prior)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_an_undefined_score_is_an_error_if_one_number_is_needed():
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    s = (np.arange(40) % 3 == 0).astype(int)
    model = LogisticRegression().fit(X, s)
    scorer, message = (
        make_pu_scorer("roc_auc"),
        "'roc_auc' is undefined for these rows \\(number of labelled rows: {}\\)",
    )
    with pytest.raises(ValueError, match=message.format(14) + ".*np.maximum.*evaluate returns NaN"):
        scorer.score(model, X, s, propensity=1e-300)
    with pytest.raises(ValueError, match=message.format(0)):
        scorer.score(model, X, s, propensity=0.5, sample_weight=1.0 - s)
    assert np.isnan(scorer.evaluate(model, X, s, propensity=1e-300).value)
