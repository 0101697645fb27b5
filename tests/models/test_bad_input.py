"""Errors about wrong input say what was expected, what was found and what to do."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from scarless import (
    ClassPrior,
    Labelling,
    NaiveClassifier,
    PropensityWeightedClassifier,
    PseudoObservations,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
)
from scarless.label_frequency import ElkanNoto

ALL = [SAREMClassifier, SCARClassifier, NaiveClassifier, PropensityWeightedClassifier]
every_model = pytest.mark.parametrize("kind", ALL)


def fit(model, X, s, **options):
    if isinstance(model, PropensityWeightedClassifier):
        options.setdefault("propensity", 0.5)
    return model.fit(X, s, **options)


# --- labels


@every_model
def test_labels_of_one_value_are_refused(kind, pu):
    with pytest.raises(ValueError, match="there is no labelled row"):
        fit(kind(), pu.X, np.zeros(pu.s.size))
    with pytest.raises(ValueError, match="there is no unlabelled row"):
        fit(kind(), pu.X, np.ones(pu.s.size))


@every_model
def test_labels_of_three_values_are_refused(kind, pu):
    with pytest.raises(ValueError, match=r"Labels must have two values.* there are 3: 0, 1, 2"):
        fit(kind(), pu.X, np.arange(pu.s.size) % 3)


@every_model
@pytest.mark.filterwarnings("ignore:SAREMClassifier finds that all positives are labelled:UserWarning")
def test_text_labels_without_pos_label_warn_and_name_the_value(kind, pu):
    labels = np.where(pu.s == 1, "case", "other")
    options = {SCARClassifier: {"label_frequency": 1.0}}
    known = {"propensity": 1.0} if kind is PropensityWeightedClassifier else {}
    with pytest.warns(
        UserWarning, match=r"pos_label is not given.* The last value in sorted order, 'other', .* pass pos_label"
    ):
        model = kind(**options.get(kind, {})).fit(pu.X, labels, **known)
    assert model.class_prior_ > 0.5


@every_model
def test_a_word_for_no_label_is_not_assumed_to_mark_labelled_rows(kind, pu):
    with pytest.raises(ValueError, match=r"'unknown' usually means no label\. .* for example pos_label='churned'\."):
        fit(kind(), pu.X, np.where(pu.s == 1, "churned", "unknown"))


@every_model
def test_a_pos_label_that_does_not_occur_is_refused(kind, pu):
    with pytest.raises(ValueError, match=r"pos_label='yes' is not among the labels \[0, 1\]"):
        fit(kind(pos_label="yes"), pu.X, pu.s)


@every_model
def test_no_labels(kind, pu):
    with pytest.raises(ValueError, match=r"requires y to be passed.* Pass the observed labels"):
        fit(kind(), pu.X, None)


@every_model
def test_weights_must_leave_labelled_and_unlabelled_rows(kind, pu):
    with pytest.raises(ValueError, match="sample_weight is 0 for every labelled row"):
        fit(kind(), pu.X, pu.s, sample_weight=1.0 - pu.s)
    with pytest.raises(ValueError, match="sample_weight is 0 for every unlabelled row"):
        fit(kind(), pu.X, pu.s, sample_weight=pu.s)


# --- tables


@every_model
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: pd.DataFrame(X, columns=list("abcd"))])
def test_errors_about_missing_values_name_row_and_column(kind, pu, convert):
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        X = pu.X.copy()
        X[7, 2] = value
        with pytest.raises(ValueError, match=f"contains {word} at row 7, column 2"):
            fit(kind(), convert(X), pu.s)


@every_model
def test_missing_values_are_refused_at_prediction(kind, pu):
    model = fit(kind(), pu.X, pu.s)
    X = pu.X.copy()
    X[7, 2] = np.nan
    with pytest.raises(ValueError, match="contains NaN at row 7, column 2"):
        model.predict_proba(X)


@every_model
def test_text_columns(kind, pu):
    table = pd.DataFrame(pu.X, columns=list("abcd"))
    table["kind"] = "text"
    with pytest.raises(ValueError, match=r"Columns with text, categories or dates: 'kind' \(1 of 5\)"):
        fit(kind(), table, pu.s)


# --- lengths


@every_model
@pytest.mark.parametrize("inner", [False, True])
def test_different_lengths_are_refused(kind, inner, pu):
    model = kind()
    if inner:
        name = "estimator"
        model.set_params(**{name: DecisionTreeClassifier()})
    if inner and kind is SCARClassifier:
        model.set_params(label_frequency=0.5)
    with pytest.raises(
        ValueError, match=r"inconsistent numbers of samples: \[400, 399\]|400 rows and y has 399 labels"
    ):
        fit(model, pu.X, pu.s[:-1])
    with pytest.raises(ValueError, match="sample_weight has 3 values for 400 rows"):
        fit(model, pu.X, pu.s, sample_weight=np.ones(3))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
@every_model
def test_weights_out_of_range(kind, weight, pu):
    bad = np.ones(pu.s.size)
    bad[5] = weight
    with pytest.raises(
        ValueError, match=r"sample_weight must be finite and at least 0\. .* 1 of 400 .*sample_weight\[5\]"
    ):
        fit(kind(), pu.X, pu.s, sample_weight=bad)


# --- propensities


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, np.nan])
def test_propensities_out_of_range(pu, value):
    e = pu.e.copy()
    e[3] = value
    message = r"propensity must lie in \(0, 1\]\. Invalid values: 1 of 400 \(first: propensity\[3\] = "
    with pytest.raises(ValueError, match=message):
        PropensityWeightedClassifier().fit(pu.X, pu.s, propensity=e)
    with pytest.raises(ValueError, match=message):
        PropensityWeightedClassifier().fit(pu.X, pu.s, propensity=pu.e).predict_posterior(pu.X, pu.s, e)
    message = "a finite number" if np.isnan(value) else r"label_frequency must lie in \(0, 1\]"
    with pytest.raises(ValueError, match=message):
        SCARClassifier(value).fit(pu.X, pu.s)


def test_propensities_of_another_length(pu):
    with pytest.raises(ValueError, match="propensity has 7 values for 400 rows"):
        PropensityWeightedClassifier().fit(pu.X, pu.s, propensity=pu.e[:7])
    model = PropensityWeightedClassifier().fit(pu.X, pu.s, propensity=pu.e)
    with pytest.raises(ValueError, match="propensity has 7 values for 400 rows"):
        model.predict_posterior(pu.X, pu.s, pu.e[:7])


def test_no_propensity_warns(pu):
    with pytest.warns(UserWarning, match="propensity is not given: all positives are assumed to be labelled"):
        PropensityWeightedClassifier().fit(pu.X, pu.s)


# --- attributes


@pytest.mark.parametrize("parameter", ["propensity_attributes", "classification_attributes"])
@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("visit", "names 'visit', which is not a column of X. Did you mean 'visits'"),
        (["age", "zzz"], "names 'zzz', which is not a column of X. The columns are 'age', 'visits'"),
        ([], "selects no column; select at least one"),
        ([False] * 4, "selects no column"),
        (4, "selects column 4, but columns of X are numbered 0 to 3"),
        ([True, False], "is a mask of length 2, but X has 4 columns"),
        ([0, "age"], "must select each column only once"),
        ([0.5], "must be names or column numbers"),
    ],
)
def test_attributes_that_do_not_exist(pu, parameter, attributes, message):
    table = pd.DataFrame(pu.X, columns=["age", "visits", "c", "d"])
    with pytest.raises(ValueError, match=f"{parameter} {message}"):
        SAREMClassifier(**{parameter: attributes}).fit(table, pu.s)


def test_column_names_are_refused_for_a_table_without_names(pu):
    with pytest.raises(ValueError, match=r"'age', but X has no column names. Pass X as a DataFrame, or"):
        SAREMClassifier(propensity_attributes="age").fit(pu.X, pu.s)


# --- parameters


@every_model
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("C", 0, "C must be a number above 0; got 0"),
        ("C", np.nan, "C must be a number above 0; got nan"),
        ("C", "1", "C must be a number above 0; got '1'"),
        ("tol", -1.0, "tol must be a number above 0; got -1.0"),
        ("max_iter", 0, "max_iter must be a whole number of at least 1; got 0"),
        ("max_iter", 10.5, "max_iter must be a whole number of at least 1; got 10.5"),
        ("max_iter", np.inf, "max_iter must be a whole number of at least 1; got inf"),
    ],
)
def test_numbers_out_of_range(kind, pu, name, value, message):
    with pytest.raises(ValueError, match=message):
        fit(kind(**{name: value}), pu.X, pu.s)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"propensity_C": -1}, "propensity_C must be a number above 0; got -1"),
        (
            {"propensity_estimator": LogisticRegression()},
            "propensity_estimator is given, but propensity_attributes is None",
        ),
        ({"labelling": {"bounds": (0.2, 1)}}, r"labelling must be a Labelling\(...\), or None; got \{'bounds'"),
        ({"labelling": Labelling}, r"labelling must be a Labelling\(...\), or None; got <class"),
        ({"known": ClassPrior(0.5)}, r"known must be a list, such as \[ClassPrior\(0.35, se=0.02\)\]; got ClassPrior"),
        (
            {"known": [4]},
            r"known must contain only ClassPrior\(...\), LabelFrequency\(...\) and PseudoObservations\(...\); got",
        ),
        (
            {"known": [PseudoObservations(1)] * 2},
            r"known must contain PseudoObservations\(\.\.\.\) at most once; got it 2 times",
        ),
    ],
)
def test_parameters_of_sar_em(pu, options, message):
    with pytest.raises(ValueError, match=message):
        SAREMClassifier(**options).fit(pu.X, pu.s)


@pytest.mark.parametrize("kind", [PropensityWeightedClassifier, SCARClassifier])
def test_methods(kind, pu):
    with pytest.raises(ValueError, match="method must be one of 'risk', 'likelihood'; got 'mle'"):
        fit(kind(method="mle"), pu.X, pu.s)


def test_label_frequency_is_needed_with_an_estimator(pu):
    with pytest.raises(ValueError, match="label_frequency must be given if estimator is given"):
        SCARClassifier(estimator=DecisionTreeClassifier()).fit(pu.X, pu.s)


BAD_ESTIMATORS = [
    ("logistic", r"must be an instance of a scikit-learn classifier, .*; got 'logistic'"),
    (LogisticRegression, r"must be an instance of a scikit-learn classifier, .*; got <class"),
    (KNeighborsClassifier(), "=KNeighborsClassifier does not accept sample_weight in fit"),
    (make_pipeline(StandardScaler(), KNeighborsClassifier()), "=KNeighborsClassifier does not accept sample_weight in"),
    (LinearSVC(), "=LinearSVC has no predict_proba. .*CalibratedClassifierCV"),
    (Lasso(), "=Lasso has no predict_proba"),
]


@pytest.mark.parametrize(("estimator", "message"), BAD_ESTIMATORS, ids=[str(bad) for bad, _ in BAD_ESTIMATORS])
def test_unsuitable_estimators_are_refused(pu, estimator, message):
    if "sample_weight" not in message:  # such a classifier is fitted to balanced draws
        with pytest.raises(ValueError, match=f"estimator ?{message}"):
            SAREMClassifier(estimator).fit(pu.X, pu.s)
    with pytest.raises(ValueError, match=f"propensity_estimator ?{message}"):
        SAREMClassifier(None, estimator, propensity_attributes=[2]).fit(pu.X, pu.s)
    for model in (
        PropensityWeightedClassifier(estimator),
        SCARClassifier(0.5, estimator=estimator),
        NaiveClassifier(estimator),
    ):
        with pytest.raises(ValueError, match=f"estimator ?{message}"):
            fit(model, pu.X, pu.s)


# --- hard problems


@pytest.mark.parametrize(
    "model",
    [
        SAREMClassifier(C=np.inf),
        SAREMClassifier(C=np.inf, propensity_C=np.inf, propensity_attributes=[2]),
        SCARClassifier(C=np.inf),
        SCARClassifier(1.0, C=np.inf, method="likelihood"),
        NaiveClassifier(C=np.inf),
        PropensityWeightedClassifier(C=np.inf),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")
def test_separable_classes_without_a_penalty(pu, model):
    s = (pu.X[:, 0] > 0.1).astype(int)
    options = {"propensity": 1.0} if isinstance(model, PropensityWeightedClassifier) else {}
    with pytest.warns(ConvergenceWarning, match="the optimum is at infinity.* Use a finite C") as record:
        model.fit(pu.X, s, **options)
    assert np.isfinite(model.coef_).all()
    assert record[0].filename == __file__
    np.testing.assert_array_equal(model.predict(pu.X), s)


@pytest.mark.parametrize("model", [NaiveClassifier(), SAREMClassifier(propensity_attributes=[2])], ids=str)
def test_constant_columns_have_coefficient_0(pu, model):
    X = np.column_stack([pu.X, np.full(pu.s.size, 3.0), np.zeros(pu.s.size)])
    with_constants = model.fit(X, pu.s)
    assert abs(with_constants.coef_[0, 4]) < 1e-3
    assert with_constants.coef_[0, 5] == 0
    np.testing.assert_allclose(
        with_constants.predict_proba(X),
        type(model)(**model.get_params()).fit(pu.X, pu.s).predict_proba(pu.X),
        atol=1e-4,
    )


@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")
@every_model
def test_more_columns_than_rows(kind, pu):
    X = np.random.default_rng(0).normal(size=(40, 100))
    s = (X[:, 0] + X[:, 1] > 0.5).astype(int)
    model = kind(C=0.1)
    if kind is PropensityWeightedClassifier:
        model.fit(X, s, propensity=0.9)
    else:
        model.fit(X, s)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SAREMClassifier(max_iter=2), "SAREMClassifier did not converge in max_iter=2 iterations"),
        (PublishedEMClassifier(max_iter=3), "PublishedEMClassifier did not converge in max_iter=3 iterations"),
        (SCARClassifier(max_iter=2), "SCARClassifier did not converge in max_iter=2"),
        (SCARClassifier(0.7, max_iter=1), "SCARClassifier did not converge in max_iter=1"),
        (NaiveClassifier(max_iter=1), "NaiveClassifier did not converge in max_iter=1"),
        (PropensityWeightedClassifier(max_iter=1), "PropensityWeightedClassifier did not converge in max_iter=1"),
        (
            PropensityWeightedClassifier(LogisticRegression(), method="likelihood", cv=None, max_iter=4, tol=1e-9),
            r"PropensityWeightedClassifier \(EM\) did not converge in max_iter=4",
        ),
    ],
    ids=str,
)
def test_the_warning_about_too_few_iterations_points_to_the_users_line(pu, model, message):
    options = {"propensity": pu.e} if isinstance(model, PropensityWeightedClassifier) else {}
    with pytest.warns(ConvergenceWarning, match=message) as record:
        model.fit(pu.X, pu.s, **options)
    assert record[0].filename == __file__


# --- predictions


@every_model
def test_prediction_before_fit(kind, pu):
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
            getattr(kind(), method)(pu.X)
    if kind in (SAREMClassifier, SCARClassifier):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            kind().predict_propensity(pu.X)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            kind().predict_posterior(pu.X, pu.s)
    if kind is PropensityWeightedClassifier:
        with pytest.raises(NotFittedError, match="not fitted yet"):
            kind().predict_posterior(pu.X, pu.s, pu.e)


def test_wrong_labels_of_the_posterior_are_refused(pu):
    model = SAREMClassifier().fit(pu.X, pu.s)
    with pytest.raises(ValueError, match=r"The labels contain 2, but the model was fitted with the labels \[0, 1\]"):
        model.predict_posterior(pu.X, pu.s + 1)
    with pytest.raises(ValueError, match="s has 3 values for 400 rows"):
        model.predict_posterior(pu.X, pu.s[:3])


# --- what comes out of a CSV file


@pytest.mark.parametrize("blank", [np.nan, None])
@every_model
def test_blank_labels_are_refused(kind, pu, blank):
    y, numbers = pu.s.astype(object), pu.s.astype(float)
    y[[7, 9]], numbers[[7, 9]] = blank, np.nan
    for labels in (y, numbers):
        message = r"y contains NaN: 2 of 400 labels are missing \(first: row 7\).*y\.fillna\(0\)"
        with pytest.raises(ValueError, match=message):
            fit(kind(), pu.X, labels)


def test_labels_in_a_column_of_objects_are_read(pu):
    plain = NaiveClassifier().fit(pu.X, pu.s)
    for values in (pu.s.astype(object), pu.s.astype(bool).astype(object)):
        np.testing.assert_array_equal(NaiveClassifier().fit(pu.X, values).coef_, plain.coef_)


@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")
@pytest.mark.parametrize("coding", [lambda s: s, lambda s: 2 * s - 1])
def test_a_label_column_among_the_attributes_is_named(pu, coding):
    X = pd.DataFrame(pu.X, columns=list("abcd")[: pu.X.shape[1]]).assign(diagnosed=coding(pu.s))
    with pytest.warns(UserWarning, match=r"Column 'diagnosed' of X equals the label column.*Remove this column"):
        NaiveClassifier().fit(X, pu.s)
    with pytest.warns(UserWarning, match=rf"Column {pu.X.shape[1]} of X equals the label column"):
        NaiveClassifier().fit(X.to_numpy(), pu.s)


def test_a_fit_that_finds_all_positives_labelled_warns(pu):
    with pytest.warns(
        UserWarning, match=r"finds that all positives are labelled \(label frequency 1.000000\)"
    ) as record:
        SAREMClassifier().fit(pu.X, (pu.X[:, 0] > 0).astype(int))
    assert record[0].filename == __file__
    with pytest.warns(UserWarning, match="SCARClassifier finds that all positives are labelled"):
        SCARClassifier().fit(pu.X, (pu.X[:, 0] > 0).astype(int))


BY_AUDITS = "or audit some unlabelled rows: see scarless.diagnostics.plan_audit."
FITTED_BY_LIKELIHOOD = {
    "SAREMClassifier": (SAREMClassifier(propensity_attributes=[2]), BY_AUDITS),
    "cross-fit": (SAREMClassifier(LogisticRegression(), propensity_attributes=[2], cv=2, random_state=0), BY_AUDITS),
    "SAREMClassifierCV": (SAREMClassifierCV(propensity_attributes=[2], Cs=[1.0], cv=2, random_state=0), BY_AUDITS),
    "SARStackingClassifier": (
        SARStackingClassifier(
            [("logistic", None)], propensity_attributes=[2], attribute_sets=[[0, 1]], cv=2, random_state=0
        ),
        BY_AUDITS,
    ),
    "SCARClassifier": (SCARClassifier(), "or pass a label frequency that you know (label_frequency=0.5, for example)."),
    "PublishedEMClassifier": (
        PublishedEMClassifier(propensity_attributes=[2]),
        "or use SAREMClassifier and audit some unlabelled rows.",
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FITTED_BY_LIKELIHOOD)
def test_the_advice_of_a_fit_that_finds_all_positives_labelled_works(name):
    """What the warning advises lowers the label frequency. A lower C does not, in this table."""
    model, remedy = FITTED_BY_LIKELIHOOD[name]
    X = np.random.default_rng(0).normal(size=(120, 3))
    labelled, audit = X[:, 0] > 0.3, np.full(120, np.nan)
    unlabelled = np.flatnonzero(~labelled)[:12]
    audit[unlabelled] = X[unlabelled, 0] > -0.5
    with pytest.warns(UserWarning, match=rf"use fewer columns for the class model, {re.escape(remedy)}$"):
        model = clone(model).fit(X, labelled)
    assert model.label_frequency_ > 0.9999
    if hasattr(model, "label_frequency"):
        advised = model.set_params(label_frequency=0.5).fit(X, labelled)
    elif hasattr(model, "known"):
        advised = model.fit(X, labelled, audit=audit)
    else:
        advised = SAREMClassifier(propensity_attributes=[2]).fit(X, labelled, audit=audit)
    assert advised.label_frequency_ < 0.95


@pytest.mark.parametrize(
    ("model", "error"),
    [(SCARClassifier(2.0), "label_frequency"), (SAREMClassifier(propensity_attributes=["x"]), "no column names")],
    ids=str,
)
def test_a_failed_fit_leaves_no_half_fitted_model(pu, model, error):
    with pytest.raises(ValueError, match=error):
        model.fit(pu.X, pu.s)
    with pytest.raises(NotFittedError):
        model.predict(pu.X)


def test_propensity_is_keyword_only(pu):
    with pytest.raises(TypeError, match="positional"):
        PropensityWeightedClassifier().fit(pu.X, pu.s, np.ones(pu.s.size))


def test_the_error_about_lost_column_names_in_a_pipeline(pu):
    X = pd.DataFrame(pu.X).rename(columns=str)
    pipeline = make_pipeline(StandardScaler(), SAREMClassifier(propensity_attributes=["2"]))
    with pytest.raises(ValueError, match=r"pipeline\.set_output\(transform='pandas'\)"):
        pipeline.fit(X, pu.s)
    pipeline.set_output(transform="pandas").fit(X, pu.s)


@pytest.mark.parametrize("start", [1e-300, 1e-20, 1 - 1e-16])
def test_a_start_with_class_prior_0_or_1_is_refused(pu, start):
    message = r"n_starts has the class prior .*, which is too close to [01]. Give a class prior between"
    with pytest.raises(ValueError, match=message):
        SAREMClassifier(propensity_attributes=[0], n_starts=[start]).fit(pu.X, pu.s)
    assert SAREMClassifier(propensity_attributes=[0], n_starts=[1e-12]).fit(pu.X, pu.s).converged_


def test_large_whole_numbers_are_numbers(pu):
    """10**300 must not be converted to float, and 10**400 could not be."""
    none = SAREMClassifier(C=1e300, propensity_C=1e300, propensity_attributes=[0]).fit(pu.X, pu.s)
    large = SAREMClassifier(C=10**300, propensity_C=10**300, propensity_attributes=[0]).fit(pu.X, pu.s)
    np.testing.assert_array_equal(none.coef_, large.coef_)
    with pytest.raises(
        ValueError, match=r"C must be a number above 0; got an integer of \d+ bits, which is too large for a float"
    ):
        SAREMClassifier(C=10**400).fit(pu.X, pu.s)
    with pytest.raises(ValueError, match="each of Cs must be a number above 0; got an integer"):
        SAREMClassifierCV(Cs=[10**400]).fit(pu.X, pu.s)


@pytest.mark.parametrize(
    "model", [SAREMClassifier(propensity_attributes=[0]), SCARClassifier(0.5), PropensityWeightedClassifier()]
)
def test_a_posterior_needs_labels(pu, model):
    options = {"propensity": 0.5} if isinstance(model, PropensityWeightedClassifier) else {}
    fitted = model.fit(pu.X, pu.s, **options)
    with pytest.raises(
        TypeError, match=r"s must be the observed labels of the rows; got None\. Call predict_posterior\(X, s"
    ):
        fitted.predict_posterior(pu.X, None)
    if options:
        with pytest.raises(TypeError, match="propensity must be given, because this model does not estimate it"):
            fitted.predict_posterior(pu.X, pu.s)


@pytest.mark.parametrize("scale", [1e301, 1e308, 5e-324])
@pytest.mark.parametrize("model", [SAREMClassifier(), SAREMClassifierCV(), SCARClassifier(0.5), NaiveClassifier()])
def test_extremely_large_and_small_weights_are_refused(pu, model, scale):
    with pytest.raises(
        ValueError,
        match=r"sample_weight: the largest weight must lie between 1e-100 and 1e\+100, so that sums are accurate",
    ):
        model.fit(pu.X, pu.s, sample_weight=np.full(pu.s.size, scale))
    w = np.where(pu.s == 1, 5e-324, 1.0)
    with pytest.raises(
        ValueError, match="sample_weight is 0 for every labelled row, or negligible compared with the largest"
    ):
        model.fit(pu.X, pu.s, sample_weight=w)


@pytest.mark.parametrize("scale", [1e-100, 1e95])
@pytest.mark.parametrize("model", [SAREMClassifier(), SCARClassifier(0.5, method="likelihood"), NaiveClassifier()])
def test_weights_at_the_ends_of_the_range_give_finite_results(pu, model, scale):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(pu.X, pu.s, sample_weight=np.full(pu.s.size, scale))
    assert np.isfinite(model.predict_proba(pu.X)).all()
    assert 0 < model.class_prior_ <= 1
    assert np.isfinite(model.score(pu.X, pu.s, sample_weight=np.full(pu.s.size, scale)))


def small_stack(**options):
    members = [("logistic", None), ("boosting", HistGradientBoostingClassifier(max_iter=2, max_bins=16))]
    return SARStackingClassifier(members, cv=2, random_state=0, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"n_jobs": 1.5},
            "n_jobs must be None or a whole number other than 0, such as 2, or -1 for all cores; got 1.5",
        ),
        ({"cv": 0.5}, "cv must be a number of folds, a splitter"),
    ],
)
def test_options_of_the_cross_fit_are_checked(options, message):
    X, s = np.arange(20.0)[:, None], np.arange(20) % 2
    with pytest.raises(ValueError, match=message):
        SAREMClassifier(**options).fit(X, s)
    with pytest.raises(ValueError, match=message):
        PropensityWeightedClassifier(**options).fit(X, s, propensity=0.5)
    if "n_jobs" in options:
        with pytest.raises(ValueError, match=message):
            small_stack(**options).fit(X, s)


@pytest.mark.parametrize("C", [5e-324, 1e-320, 1e-300])
def test_an_extreme_penalty_gives_coefficients_of_0(C):
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(60, 2)), np.arange(60) % 3 == 0
    np.testing.assert_array_equal(NaiveClassifier(C=C).fit(X, s).predict_proba(X)[:, 1], s.mean())
    model = SAREMClassifier(propensity_attributes=[1], C=C, propensity_C=C).fit(X, s)
    assert np.abs([*model.coef_[0], *model.propensity_coef_[0]]).max() < 1e-90


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* filled in after the label was known:UserWarning")
def test_huge_tolerances_and_columns_give_finite_results():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    s = (rng.random(80) < 0.5) & (X[:, 0] > -0.5)
    NaiveClassifier(tol=np.float32(3e38)).fit(1e15 * X, s)
    for largest in (1e80, 1e99):
        X[:, 0] = np.where(s, largest, -largest)
        for C in (1.0, 2.0, np.inf):  # the weighted risk has no minimum along this column
            model = SCARClassifier(C=C, label_frequency=0.7).fit(X, s)
            assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("parameter", ["y", "sample_weight", "propensity"])
def test_a_series_in_another_order_than_the_rows_gets_a_warning(pu, parameter):
    X = pd.DataFrame(pu.X, columns=list("abcd"), index=np.random.default_rng(0).permutation(400))
    given = {"y": pu.s, "sample_weight": np.ones(400), "propensity": pu.e}
    model = PropensityWeightedClassifier().fit(X, **given)
    named = {name: pd.Series(values, index=X.index) for name, values in given.items()}
    PropensityWeightedClassifier().fit(X, **named)
    other = named | {parameter: named[parameter].sort_index()}
    told = rf"{parameter} is matched to the rows by position, .* pass {parameter}\.loc\[X\.index\]"
    with pytest.warns(UserWarning, match=told) as record:
        PropensityWeightedClassifier().fit(X, **other)
    assert len(record) == 1
    assert record[0].filename == __file__
    with pytest.warns(UserWarning, match=told):
        model.score(X, **other)


@pytest.mark.parametrize(
    "model",
    [
        SAREMClassifier(propensity_attributes=["c"]),
        SAREMClassifierCV(propensity_attributes=["c"], Cs=[1.0], cv=2, random_state=0),
        SCARClassifier(0.6),
        SCARClassifier("elkan-noto"),
        StratifiedSCARClassifier(["g"], label_frequency="elkan-noto"),
        NaiveClassifier(),
        SARStackingClassifier([("logistic", None)], propensity_attributes=["c"], cv=2, random_state=0),
        ElkanNoto(random_state=0),
    ],
    ids=str,
)
def test_every_fit_and_posterior_warns_about_labels_in_another_order(pu, model):
    X = pd.DataFrame(pu.X, columns=list("abcd"), index=np.random.default_rng(0).permutation(400))
    X, s = X.assign(g=X.index % 2), pd.Series(pu.s)
    with pytest.warns(UserWarning, match="y is matched to the rows by position"):
        model.fit(X, s)
    if hasattr(model, "predict_posterior"):
        with pytest.warns(UserWarning, match="s is matched to the rows by position"):
            model.predict_posterior(X, s)
