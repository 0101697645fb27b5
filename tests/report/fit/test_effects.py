"""Odds ratios, compared with values computed by hand: per unit, per standard deviation, and of categories."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, QuantileTransformer, StandardScaler

from scarless import SAREMClassifier, SCARClassifier
from scarless.report import model_report
from scarless.report.fit.parts import _unclear

Z = norm.ppf(0.95)


def ends(estimate):
    return estimate.value, estimate.low, estimate.high


def by_label(effects):
    return {each.label: each for each in effects.effects}


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
def test_ratios_are_per_raw_unit_and_per_standard_deviation(small, scaler):
    _, X, s = small
    pair = SAREMClassifier(propensity_attributes=[2], classification_attributes=[0, 1], C=100.0, propensity_C=100.0)
    model = make_pipeline(scaler, pair).set_output(transform="pandas").fit(X, s)
    last, errors = model[-1], model[-1].standard_errors()
    unit = scaler.scale_ if isinstance(scaler, StandardScaler) else 1 / scaler.scale_
    labelling, of_class = (
        by_label(part) for part in reversed(model_report(model, X, s, level=0.9, n_ranked=0).effects)
    )
    for j, name in enumerate("ab"):
        coef, half = last.coef_[0, j] / unit[j], Z * errors.coef[0, j] / unit[j]
        found = of_class[name]
        assert ends(found.per_unit) == pytest.approx(np.exp([coef, coef - half, coef + half]))
        sd = X[name].std(ddof=0)
        assert found.sd == pytest.approx(sd)
        assert ends(found.per_sd) == pytest.approx(np.exp(sd * np.array([coef, coef - half, coef + half])))
        assert found.coef == last.coef_[0, j]
    coef, half = last.propensity_coef_[0, 2] / unit[2], Z * errors.propensity_coef[0, 2] / unit[2]
    assert list(labelling) == ["z"]
    assert ends(labelling["z"].per_unit) == pytest.approx(np.exp([coef, coef - half, coef + half]))


def test_effects_are_sorted_by_strength_and_have_only_columns_of_the_model(small):
    of_class, labelling = model_report(*small, n_ranked=0).effects
    strengths = [abs(np.log(each.per_sd.value)) for each in of_class.effects]
    assert strengths == sorted(strengths, reverse=True)
    assert set(by_label(of_class)) == {"a", "b"}
    assert of_class.verdict.startswith("Whether a row is positive depends most on a")
    assert labelling.verdict == "Whether a positive gets a label depends most on z."


@pytest.fixture(scope="module")
def levels():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"kind": rng.choice(["p", "q"], 1500, p=[0.3, 0.7]), "a": rng.normal(size=1500)})
    f = 1 / (1 + np.exp(0.5 - 2 * X["a"] - 1.2 * (X["kind"] == "p")))
    return X, (rng.random(1500) < 0.6 * f).astype(int)


def encoded(**options):
    return make_column_transformer((OneHotEncoder(sparse_output=False, **options), ["kind"]), remainder="passthrough")


@pytest.mark.parametrize("scale", [[], [StandardScaler()]])
def test_each_category_is_compared_with_the_others(levels, scale):
    """Two columns that add up to 1 give the same ratio and interval as one of them, although they are collinear."""
    X, s = levels
    one = make_pipeline(encoded(drop="first"), SCARClassifier(C=1e8)).fit(X, s)
    both = make_pipeline(encoded(), *scale, SCARClassifier(C=1e8)).fit(X, s)
    alone, found = (by_label(model_report(model, X, s, n_ranked=0).effects[0]) for model in (one, both))
    assert ends(found["kind = q"].per_unit) == pytest.approx(ends(alone["kind = q"].per_unit), rel=1e-4)
    assert ends(found["kind = q"].per_sd) == pytest.approx(ends(alone["kind = q"].per_sd), rel=1e-4)
    value, low, high = ends(found["kind = q"].per_unit)
    assert ends(found["kind = p"].per_unit) == pytest.approx((1 / value, 1 / high, 1 / low), rel=1e-4)
    assert found["kind = p"].sd == pytest.approx((X["kind"] == "p").std(ddof=0))
    assert both[-1].standard_errors().coef[0, 0] > 3 * one[-1].standard_errors().coef[0, 0]


def test_three_categories_by_hand():
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"kind": rng.choice(["p", "q", "r"], 900, p=[0.2, 0.3, 0.5]), "a": rng.normal(size=900)})
    s = (rng.random(900) < 0.4 / (1 + np.exp(-X["a"] - (X["kind"] == "r")))).astype(int)
    model = make_pipeline(encoded(), SCARClassifier(0.5)).fit(X, s)
    b, share = model[-1].coef_[0, :3], X["kind"].value_counts(normalize=True)[["p", "q", "r"]].to_numpy()
    found = by_label(model_report(model, X, s, n_ranked=0).effects[0])
    for j, level in enumerate("pqr"):
        others = np.delete(np.arange(3), j)
        expected = b[j] - share[others] @ b[others] / share[others].sum()
        assert found[f"kind = {level}"].per_unit.value == pytest.approx(np.exp(expected))
        assert found[f"kind = {level}"].per_unit.low is None


def test_a_column_without_a_unit_has_no_ratio_per_unit(small):
    _, X, s = small
    change = QuantileTransformer(n_quantiles=50)
    pair = SAREMClassifier(propensity_attributes=[2], classification_attributes=[0, 1], C=100.0, propensity_C=100.0)
    model = make_pipeline(change, pair).fit(X, s)
    part = model_report(model, X, s, n_ranked=0).effects[0]
    assert all(each.per_unit.value is None and each.sd is None for each in part.effects)
    assert all(each.per_sd.low < each.per_sd.value < each.per_sd.high for each in part.effects)
    assert any("no natural unit" in note for note in part.notes)


def test_models_without_standard_errors_state_why_there_are_no_intervals(reported):
    part = reported("SCARClassifier, known").effects[0]
    assert all(each.per_unit.low is None for each in part.effects)
    assert "This model has no standard errors" in part.notes[-1]
    assert "This model has no standard errors" in reported("NaiveClassifier").effects[0].notes[-1]


def test_a_model_without_coefficients_shows_mean_changes(small):
    from sklearn.ensemble import HistGradientBoostingClassifier

    _, X, s = small
    trees = HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=4, max_bins=16)
    options = {"propensity_attributes": ["z"], "classification_attributes": ["a", "b"]}
    model = SAREMClassifier(trees, cv=2, random_state=0, **options).fit(X, s)
    part = model_report(model, X, s, n_ranked=0).effects[0]
    change = {each.column: each.mean_change for each in part.strengths}
    assert part.effects == ()
    assert change["z"] == pytest.approx(0.0, abs=1e-9)  # The class model does not use z.
    assert min(change["a"], change["b"]) > 0.05
    assert "no odds ratios" in part.notes[0]


def test_verdicts_on_the_labelling_state_its_assumption(reported):
    assert reported("SCARClassifier").effects[1].verdict.startswith("No column: this model assumes")
    assert reported("NaiveClassifier").effects[1].verdict.startswith("This model has no labelling")
    assert (
        reported("PropensityWeightedClassifier")
        .effects[1]
        .verdict.startswith("Not available: this model has no coefficients for the labelling")
    )


def shared_out(seed, slope):
    """Return a table with three almost equal columns and one column that drives the labelling, and labels."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(1500, 4)), columns=["a", "b", "c", "z"])
    X["b"], X["c"] = X["a"] + 0.1 * X["b"], X["a"] + 0.1 * X["c"]
    f, e = 1 / (1 + np.exp(0.5 - slope * X["a"])), 1 / (1 + np.exp(-1.5 * X["z"]))
    return X, ((rng.random(1500) < f) & (rng.random(1500) < e)).astype(int).to_numpy()


@pytest.mark.parametrize("seed", range(3))
def test_columns_are_tested_jointly_first(seed):
    """The almost equal columns are significant together, but every single interval contains 1."""
    pair = SAREMClassifier(propensity_attributes=["z"], classification_attributes=["a", "b", "c"])
    X, s = shared_out(seed, 1.0)
    of_class, labelling = model_report(pair.fit(X, s), X, s, n_ranked=0).effects
    assert all(each.per_sd.low < 1 < each.per_sd.high for each in of_class.effects)
    assert of_class.verdict.startswith(
        "Whether a row is positive depends on the columns (all columns together: p < 0.001), but it is not clear on "
        "which columns."
    )
    assert labelling.verdict == "Whether a positive gets a label depends most on z."
    X, s = shared_out(seed, 0.0)
    of_class, labelling = model_report(pair.fit(X, s), X, s, n_ranked=0).effects
    assert of_class.verdict.startswith(
        "Whether a row is positive does not detectably depend on any column (all columns together: p = "
    )


@pytest.mark.parametrize("seed", [0, 3, 8])
def test_single_significant_columns_of_noise_may_be_due_to_chance(seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(1500, 30)), columns=[f"x{j}" for j in range(30)])
    s = (rng.random(1500) < 0.3).astype(int)
    of_class = model_report(SCARClassifier().fit(X, s), X, s, n_ranked=0).effects[0]
    assert any(each.per_sd.low > 1 or each.per_sd.high < 1 for each in of_class.effects)
    assert "but with so many columns, this may be due to chance (all columns together: p = 0." in of_class.verdict


@pytest.mark.filterwarnings("ignore:SCARClassifier finds that all positives")
def test_one_column_among_many_is_found():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 30)), columns=[f"x{j}" for j in range(30)])
    s = (rng.random(1500) < 0.6 / (1 + np.exp(-0.45 * X["x3"]))).astype(int).to_numpy()
    of_class = model_report(SCARClassifier().fit(X, s), X, s, n_ranked=0).effects[0]
    assert of_class.verdict.startswith("Whether a row is positive depends most on x3")


def one_driver(seed, slope):
    """Return a table and labels: the class depends on a, and the logit of the propensity is `slope` times z."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(1500, 3)), columns=["a", "b", "z"])
    f, e = 1 / (1 + np.exp(0.5 - 1.5 * X["a"])), 1 / (1 + np.exp(-slope * X["z"]))
    return X, ((rng.random(1500) < f) & (rng.random(1500) < e)).astype(int).to_numpy()


@pytest.mark.parametrize("seed", range(3))
def test_an_effect_on_the_class_is_not_mistaken_for_an_effect_on_the_labelling(seed):
    """Here the labels depend on a only through the class."""
    X, s = one_driver(seed, 0.0)
    pair = SAREMClassifier(propensity_attributes=["a"])
    labelling = model_report(pair.fit(X, s), X, s, n_ranked=0).effects[1]
    (only,) = labelling.effects
    assert only.per_sd.low < 1 < only.per_sd.high
    assert labelling.verdict.startswith("Whether a positive gets a label does not detectably depend on any column")


@pytest.mark.parametrize("seed", range(2))
def test_survey_weights_do_not_change_p_values(seed):
    """The tests treat weights of 50 as survey weights, so that results equal those of weights of 1."""
    X, s = one_driver(seed, 0.0)
    pair, weight = SAREMClassifier(propensity_attributes=["a"]), np.full(len(s), 50.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair.fit(X, s, sample_weight=weight, groups="rows")
        report = model_report(pair, X, s, sample_weight=weight, n_ranked=0)
        plain = model_report(SAREMClassifier(propensity_attributes=["a"]).fit(X, s), X, s, n_ranked=0)
    assert report.effects[1].verdict.startswith(
        "Whether a positive gets a label does not detectably depend on any column"
    )
    checks = [{check.key: check.status for check in each.checks} for each in (report, plain)]
    assert checks[0]["calibration"] == checks[1]["calibration"]
    assert checks[0]["scar"] == checks[1]["scar"]


@pytest.mark.parametrize("seed", range(3))
def test_an_effect_on_the_labelling_is_found_if_the_class_model_has_the_column_too(seed):
    X, s = one_driver(seed, 1.2)
    labelling = model_report(SAREMClassifier(propensity_attributes=["z"]).fit(X, s), X, s, n_ranked=0).effects[1]
    assert labelling.verdict == "Whether a positive gets a label depends most on z."


def test_verdict_on_one_column_of_unclear_strength():
    assert (
        _unclear(["z"], " (all columns together: p < 0.001)")
        == "depends on z (p < 0.001), but it is not clear how strongly."
    )


def test_models_that_may_be_swapped_have_the_same_verdict(small):
    _, X, s = small
    report = model_report(SAREMClassifier(propensity_attributes="all").fit(X, s), X, s, n_ranked=0)
    told = "The labels depend on the columns (p < 0.001), but the labels do not show whether the columns affect the "
    assert all(part.verdict.startswith(told) for part in report.effects)
