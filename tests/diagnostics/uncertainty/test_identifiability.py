"""Identifiability reports of fits with known problems."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from tests.helpers import simulate_pair

from scarless import SAREMClassifier, SAREMClassifierCV
from scarless.diagnostics.uncertainty.directions import Direction, Parameter
from scarless.diagnostics.uncertainty.identifiability import identifiability_report
from scarless.numerics.uncertainty import with_few_entries

FREE = {"C": np.inf, "propensity_C": np.inf}


def named(n=2000, seed=0):
    X, s = simulate_pair(n, seed)
    return pd.DataFrame(X, columns=["age", "pressure", "visits"]), s


@pytest.fixture(scope="module")
def data():
    return named()


@pytest.fixture(scope="module")
def report(data):
    return identifiability_report(SAREMClassifier(propensity_attributes=["visits"]).fit(*data))


def text_of(report):
    return " ".join(str(report).split())


def test_a_good_fit_is_identified(report):
    assert report.verdict == "identified"
    assert text_of(report).startswith(
        "Identifiability =============== Given the form of both models, the data identify"
    )
    assert report.harmless == []
    assert report.data_interval.low < report.class_prior < report.data_interval.high
    assert 1 < report.penalised_condition < report.condition < 100


def test_both_intervals_have_the_given_level_and_the_verdict_does_not_depend_on_it(data):
    model = SAREMClassifier(propensity_attributes=["visits"]).fit(*data)
    usual, narrow = identifiability_report(model), identifiability_report(model, level=0.5)
    assert (usual.level, narrow.level) == (0.95, 0.5)
    assert narrow.verdict == usual.verdict
    assert narrow.class_prior_interval == model.class_prior_interval(level=0.5)
    ends = [logit(each.data_interval) for each in (usual, narrow)]
    half = [0.5 * (high - low) for low, high in ends]
    assert half[1] / half[0] == pytest.approx(norm.ppf(0.75) / norm.ppf(0.975))
    with pytest.raises(ValueError, match="level must"):
        identifiability_report(model, level=1.5)


def test_directions_add_up_to_the_class_priors_variance(data):
    """Without a penalty, the squared errors along all eigenvectors add up to the variance of the class prior."""
    model = SAREMClassifier(propensity_attributes=["visits"], **FREE).fit(*data)
    report = identifiability_report(model)
    (worst,) = report.directions
    parameters_only = model.fitted_pair_.inference.precision.errors(
        model.fitted_pair_.inference.class_prior.gradient[None]
    )[0]
    assert 0.9 * parameters_only < worst.class_prior_error <= parameters_only * (1 + 1e-9)
    assert worst.penalised_error == pytest.approx(worst.class_prior_error)
    assert sum(weight**2 for _, weight in worst.weights) == pytest.approx(1)
    assert worst.lowers_label_frequency
    low, high = report.data_interval
    assert (low, high) == pytest.approx(model.class_prior_interval(), rel=1e-6)


def test_the_penalty_share_is_the_posterior_variance_divided_by_the_prior_variance(data):
    model = SAREMClassifier(propensity_attributes=["visits"], C=0.01).fit(*data)
    frame = identifiability_report(model).to_frame()
    errors = model.standard_errors()
    np.testing.assert_allclose(frame["penalty_share"].loc["classifier"].iloc[:3], errors.coef[0] ** 2 / 0.01)
    np.testing.assert_array_equal(frame["penalty_share"].xs("intercept", level="attribute"), 0)
    np.testing.assert_allclose(frame["coef"].loc["classifier"].iloc[:3], model.coef_[0])


@pytest.mark.parametrize("shift", [2000.0, -1e4])
def test_a_shift_of_a_column_does_not_change_the_report(data, shift):
    X, s = data
    plain, moved = (
        identifiability_report(SAREMClassifier(propensity_attributes=["visits"], tol=1e-14, **FREE).fit(table, s))
        for table in (X, X.assign(age=X["age"] + shift))
    )
    assert moved.condition == pytest.approx(plain.condition, rel=1e-2)
    assert moved.directions[0].parts == plain.directions[0].parts
    assert moved.directions[0].class_prior_error == pytest.approx(plain.directions[0].class_prior_error, rel=1e-2)


def test_without_a_penalty_units_do_not_change_the_report(data):
    X, s = data
    plain, scaled = (
        identifiability_report(SAREMClassifier(propensity_attributes=["visits"], tol=1e-14, **FREE).fit(table, s))
        for table in (X, X * [1e4, 1e-3, 7.0])
    )
    assert scaled.condition == pytest.approx(plain.condition, rel=1e-3)
    assert str(scaled.directions[0]) == str(plain.directions[0])


@pytest.mark.parametrize("options", [{}, FREE], ids=["penalised", "free"])
def test_collinear_and_constant_columns_are_reported_as_harmless(data, options):
    X, s = data
    old = X["age"] > 0
    sick = X["pressure"] > 0.5
    table = X.assign(old=old, young=~old, sick=sick, well=~sick, always=4.0).astype(float)
    report = identifiability_report(SAREMClassifier(propensity_attributes=["visits"], **options).fit(table, s))
    parts = sorted(sorted(p.attribute for p in direction.parts) for direction in report.harmless)
    assert parts == [["always"], ["old", "young"], ["sick", "well"]]
    assert all(direction.class_prior_error == 0 for direction in report.harmless)
    assert report.verdict == "identified"
    assert report.condition == np.inf
    assert "The data have no information on always of the classifier. The column is probably constant" in text_of(
        report
    )
    assert "are collinear: the data determine only a combination" in text_of(report)


def test_two_constant_models_are_not_identified():
    """With a constant column only, the labels determine the product of two constants, but not the constants."""
    s = np.repeat([1, 0], [100, 300])
    model = SAREMClassifier(C=1.0).fit(np.ones((400, 1)), s)
    report = identifiability_report(model)
    assert report.verdict == "not identified"
    assert report.data_interval == pytest.approx((0.0, 1.0))
    (worst,) = report.directions
    assert worst.information < 1e-6
    assert worst.class_prior_error > 1
    assert (
        "A larger class prior with a lower label frequency fits as well after adjusting the intercepts of both models"
        in str(worst)
    )
    assert "only the penalty determines the class prior" in str(worst)
    assert "The data do not identify the class prior" in text_of(report)


@pytest.mark.filterwarnings("ignore:.*use the same:UserWarning")
@pytest.mark.filterwarnings("ignore:.*swap:UserWarning")
def test_models_with_the_same_attributes_are_reported_as_swappable(data):
    X, s = data
    report = identifiability_report(SAREMClassifier(propensity_attributes=slice(None)).fit(X, s))
    assert report.sentences()[0].startswith("Both models use the same attributes: swapping")
    assert f"a class prior of {report.swapped:.3f} instead of {report.class_prior:.3f}" in text_of(report)


@pytest.mark.filterwarnings("ignore:.*can be swapped:UserWarning")
def test_a_class_prior_that_changes_if_the_models_are_swapped_is_not_identified():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    s = rng.random(2000) < expit(2 * X[:, 0] - 1) * expit(1 + 1.5 * X[:, 1])
    report = identifiability_report(SAREMClassifier(propensity_attributes=[1, 0]).fit(X, s))
    low, high = report.data_interval
    assert high - low < 0.4
    assert not low <= report.swapped <= high
    assert report.verdict == "not identified"


def test_an_attribute_in_both_models_is_named():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(5000, 3))
    s = rng.random(5000) < expit(1.5 * X[:, 2] + X[:, 0]) * expit(1.5 * X[:, 2] + 0.5)
    table = pd.DataFrame(X, columns=["age", "pressure", "visits"])
    report = identifiability_report(SAREMClassifier(propensity_attributes=["visits"]).fit(table, s))
    assert report.correlations["visits"] < -0.85
    assert text_of(report).count("visits enters both models; the data") == 1


def test_with_few_rows_the_penalty_dominates():
    X, s = named(n=60, seed=3)
    report = identifiability_report(SAREMClassifier(propensity_attributes=["visits"], C=0.01).fit(X, s))
    assert report.verdict != "identified"
    assert "The penalty has more influence than the data on " in text_of(report)


def test_html_is_escaped(data):
    X, s = data
    table = X.rename(columns={"age": "<i>age</i>"}).assign(twin=X["age"])
    html = identifiability_report(SAREMClassifier(propensity_attributes=["visits"]).fit(table, s))._repr_html_()
    assert "&lt;i&gt;age&lt;/i&gt;" in html
    assert "<i>" not in html


def test_a_column_may_be_called_intercept(data):
    X, s = data
    table = X.rename(columns={"age": "intercept"})
    report = identifiability_report(SAREMClassifier(propensity_attributes=["visits"]).fit(table, s))
    assert len(report.to_frame()) == 6
    assert report.verdict == "identified"


def test_other_fits_have_no_report(data):
    X, s = data
    model = SAREMClassifier(LogisticRegression(), tol=0.1).fit(X[:200], s[:200])
    with pytest.raises(ValueError, match="has no standard errors"):
        identifiability_report(model)


# --- sentences


def direction(*parts, information=0.001, error=0.2):
    weights = tuple((Parameter(*part), 1.0 / len(parts) ** 0.5) for part in parts)
    return str(Direction(information, error, error, weights, lowers_label_frequency=True))


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            [("classifier", "age"), ("propensity model", "age")],
            "age enters both models; the data can hardly separate its two effects",
        ),
        (
            [("classifier", "a"), ("classifier", "b"), ("propensity model", "b"), ("propensity model", "a")],
            "a and b enter both models; the data can hardly separate their two effects",
        ),
        (
            [("classifier", "age"), ("propensity model", "visits")],
            "The data can hardly separate age of the classifier from visits of the propensity model",
        ),
        (
            [("classifier", "intercept", True), ("propensity model", "intercept", True), ("classifier", "age")],
            "A larger class prior with a lower label frequency fits almost as well after adjusting the intercepts of "
            "both models and age of the classifier",
        ),
        ([("classifier", "age")], "The data have little information on age of the classifier"),
    ],
)
def test_sentences_name_the_parameters(parts, words):
    assert words in direction(*parts)
    assert "changing these coefficients together by one standard error changes the class prior by 0.2" in direction(
        *parts
    )


def test_long_lists_of_names_are_shortened():
    parts = [("classifier", f"x{j}") for j in range(9)]
    assert "x0, x1, x2, x3, x4 and 4 more of the classifier" in direction(*parts)


def test_elimination_finds_blocks():
    """Elimination separates mixtures of two vectors with disjoint nonzero entries."""
    blocks = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0.0]]).T
    mixed = blocks @ np.array([[0.6, -0.8], [0.8, 0.6]])
    found = np.abs(with_few_entries(mixed))
    expected = blocks / np.linalg.norm(blocks, axis=0)
    order = np.argsort(-found[0])
    np.testing.assert_allclose(found[:, order], expected, atol=1e-12)


@pytest.fixture(scope="module")
def all_labelled_fit():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3))
    y = rng.random(400) < expit(X[:, 0])
    with pytest.warns(UserWarning, match="all positives are labelled"):
        return SAREMClassifier().fit(X, y & (rng.random(400) < 0.6))


def test_a_fit_with_all_positives_labelled_is_at_best_weakly_identified(all_labelled_fit):
    report = identifiability_report(all_labelled_fit)
    assert report.verdict == "weakly identified"
    assert report.class_prior_interval.high == all_labelled_fit.class_prior_interval().high == 1.0
    assert "According to this fit, all positives are labelled" in text_of(report)
    assert "According to this fit, all positives are labelled" in str(all_labelled_fit.summary()).replace("\n", " ")


def test_a_fit_that_did_not_converge_is_at_best_weakly_identified(data):
    X, s = data
    with pytest.warns(ConvergenceWarning):
        model = SAREMClassifier(propensity_attributes=["visits"], max_iter=3).fit(X, s)
    report = identifiability_report(model)
    assert report.verdict != "identified"
    assert "The solver did not converge" in text_of(report)


def test_tied_candidates_with_other_class_priors_are_at_best_weakly_identified(data):
    X, s = data
    search = SAREMClassifierCV(propensity_attributes=["visits"], Cs=[0.01, 1.0], propensity_Cs=[1.0], random_state=0)
    search.fit(X, s)
    inside = replace(search.selection_, class_priors=(search.class_prior_,) * 2, n_tied=1)
    search.selection_ = inside
    before = identifiability_report(search)
    search.selection_ = replace(inside, class_priors=(0.01, search.class_prior_), n_tied=7)
    after = identifiability_report(search)
    assert (before.verdict, after.verdict) == ("identified", "weakly identified")
    words = "Standard errors of coefficients ignore this choice."
    assert words in text_of(after)
    assert words not in text_of(before)
    assert words in " ".join(str(search.summary()).split())


def test_a_recalibrated_search_is_reported_with_its_own_interval(data):
    X, s = data
    search = SAREMClassifierCV(propensity_attributes=["visits"], Cs=[1.0], cv=3, random_state=0).fit(X, s)
    report = identifiability_report(search)
    assert report.class_prior == search.class_prior_
    assert report.class_prior_interval == search.class_prior_interval()
    np.testing.assert_array_equal(report.coef[:-2], np.append(search.coef_[0], search.intercept_))
    assert f"{report.class_prior:.3f} [{report.class_prior_interval.low:.3f}" in text_of(report)
    assert "class_prior_interval() uses a grid of all class priors" in text_of(report)
    assert "profile_class_prior" not in text_of(report)


def test_one_labelled_row_identifies_nothing():
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(400, 4)), np.zeros(400, dtype=int)
    s[5] = 1
    report = identifiability_report(SAREMClassifier(propensity_attributes=[3], **FREE).fit(X, s))
    assert report.verdict != "identified"
    assert "There are 1 labelled rows for 7 parameters" in text_of(report)
