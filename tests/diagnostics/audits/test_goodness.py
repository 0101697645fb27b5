"""Goodness of fit of models to several looks."""

import matplotlib as mpl
import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import ClassPrior, Labelling, NaiveClassifier, SAREMClassifier, goodness_of_fit
from scarless.diagnostics import GoodnessOfFitDisplay
from scarless.diagnostics.audits._reading import read_audit_rows
from scarless.diagnostics.audits.goodness import _refits

mpl.use("Agg")


def drawn(spread=0.0, n=1500, n_looks=3, missing=0.0, rate=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = rng.random(n) < expit(2 * X[:, 0])
    e = expit(X[:, [1]] - 0.5 + spread * rng.normal(size=(n, 1)))
    s = (rng.random((n, n_looks)) < np.where(y[:, None], e, rate)) * 1.0
    s[rng.random(s.shape) < missing] = np.nan
    return X, y, s


def fitted(**options):
    X, _, s = drawn(**options)
    return SAREMClassifier(propensity_attributes=[1]).fit(X, s), X, s


def test_differences_that_no_attribute_explains_are_found():
    model, X, s = fitted(spread=1.5)
    found = goodness_of_fit(model, X, s, n_resamples=19, random_state=0)
    assert found.p_value == found.p_heterogeneity == 0.05
    assert found.rejected
    assert found.heterogeneity > found.samples["heterogeneity"].max() + 1
    assert found.c_hat > 1.5
    assert "positives differ in how often they are labelled, and no attribute explains these differences" in str(found)
    assert goodness_of_fit(model, X, s, n_resamples=0).p_value < 1e-4


def test_a_correct_model_is_not_rejected():
    model, X, s = fitted(missing=0.2)
    found = goodness_of_fit(model, X, s, n_resamples=39, random_state=0)
    assert found.p_value > 0.05
    assert found.p_chi_square > 0.05
    assert 0.4 < found.c_hat < 1.6
    assert abs(found.samples["heterogeneity"].mean()) < 0.6
    assert "No evidence against the models" in str(found)
    assert found.n_not_converged == 0


def test_expected_numbers_sum_to_the_rows_and_are_those_of_the_models():
    model, X, s = fitted()
    found = goodness_of_fit(model, X, s, n_resamples=0)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X, look=0)
    names, observed, expected = found.histories
    assert expected.sum() == pytest.approx(len(X))
    assert observed.sum() == len(X)
    assert expected[names.index("0 0 0")] == pytest.approx((1 - f + f * (1 - e) ** 3).sum())
    assert expected[names.index("1 0 1")] == pytest.approx((f * e**2 * (1 - e)).sum())
    assert observed[names.index("1 0 1")] == (s == [1, 0, 1]).all(axis=1).sum()
    frame = found.to_frame()
    assert frame.loc["1 1 0", "observed"] == (s == [1, 1, 0]).all(axis=1).sum()


def test_without_resamples_the_p_value_is_a_normal_approximation():
    model, X, s = fitted()
    found = goodness_of_fit(model, X, s, n_resamples=0)
    assert found.p_value == pytest.approx(ndtr(-found.heterogeneity))
    assert np.isnan(found.p_chi_square)
    assert np.isnan(found.c_hat)
    assert "The p-value is a normal approximation" in str(found)


@pytest.mark.filterwarnings("ignore:.*agree more often than independent looks:UserWarning")  # because of spread=2.0
def test_statistic_histories_gives_the_p_value_of_histories():
    model, X, s = fitted(spread=2.0)
    found = goodness_of_fit(model, X, s, n_resamples=19, random_state=0, statistic="histories")
    assert (found.p_value, found.statistic) == (found.p_chi_square, found.chi_square)
    assert found.p_value == 0.05
    assert "check which histories are rarer or more common" in str(found)


def test_the_p_value_is_the_share_of_statistics_that_are_at_least_as_large():
    model, X, s = fitted()
    found = goodness_of_fit(model, X, s, n_resamples=25, random_state=2)
    for p, value, samples in (
        (found.p_heterogeneity, found.heterogeneity, found.samples["heterogeneity"]),
        (found.p_chi_square, found.chi_square, found.samples["histories"]),
    ):
        assert p == pytest.approx((1 + (samples >= value).sum()) / 26)
    assert found.c_hat == pytest.approx(found.chi_square / found.samples["histories"].mean())


def test_n_jobs_does_not_change_the_result():
    model, X, s = fitted(n=400)
    one, two = (goodness_of_fit(model, X, s, n_resamples=19, random_state=5, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.samples["heterogeneity"], two.samples["heterogeneity"])


def test_resamples_draw_labels_of_observed_looks_and_classes_of_audited_rows():
    X, y, s = drawn(missing=0.3, n=600)
    audit = np.where(np.arange(600) < 100, y, np.nan)
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s, audit=audit)
    refits = _refits(read_audit_rows(model, X, s, audit), s, audit)
    seen = {}
    inner = type(refits).statistics

    def statistics(self, engine, beta, labels, audit):
        seen.update(labels=labels, audit=audit)
        return inner(self, engine, beta, labels, audit)

    type(refits).statistics = statistics
    try:
        refits.drawn(0)
    finally:
        type(refits).statistics = inner
    np.testing.assert_array_equal(seen["labels"] < 0, np.isnan(s))
    np.testing.assert_array_equal(seen["audit"] >= 0, ~np.isnan(audit))
    negative = seen["audit"] == 0
    assert negative.any()
    assert not (seen["labels"][negative] == 1).any()  # without false positives


def test_expected_numbers_use_the_audited_classes():
    X, y, s = drawn()
    audit = np.where(np.arange(1500) < 300, y, np.nan)
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s, audit=audit)
    found = goodness_of_fit(model, X, s, audit=audit, n_resamples=0)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X, look=0)
    f = np.where(np.isnan(audit), f, audit)
    assert found.histories.expected[found.histories.names.index("1 1 1")] == pytest.approx((f * e**3).sum())


@pytest.mark.parametrize(
    "options",
    [
        {"labelling": Labelling(shared=False)},
        {"labelling": Labelling(false_positive_rate="estimate")},
        {"labelling": Labelling(false_positive_rate=0.02)},
        {"known": [ClassPrior(0.5, se=0.02)]},
        {"C": np.inf, "propensity_C": np.inf},
    ],
    ids=str,
)
def test_every_kind_of_fit_to_several_looks_can_be_tested(options):
    X, _, s = drawn(n=800, rate=0.02 if "false_positive_rate" in str(options) else 0.0)
    model = make_pipeline(StandardScaler(), SAREMClassifier(propensity_attributes=[1], **options)).fit(X, s)
    found = goodness_of_fit(model, X, s, n_resamples=19, random_state=0)
    assert found.p_value > 0.05
    assert np.isfinite(found.samples["histories"]).all()


def test_many_looks_are_grouped_by_their_number_of_labels():
    model, X, s = fitted(n_looks=8, n=800)
    found = goodness_of_fit(model, X, s, n_resamples=0)
    assert found.histories.names[0] == "0 of 8"
    assert found.histories.expected.sum() == pytest.approx(800)


def test_looks_with_visit_attributes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    y = rng.random(900) < expit(2 * X[:, 0])
    s = (y[:, None] & (rng.random((900, 3)) < expit(1.5 * X[:, 1:]))) * 1.0
    model = SAREMClassifier(labelling=Labelling(visit_attributes={"effort": [1, 2, 3]})).fit(X, s)
    found = goodness_of_fit(model, X, s, n_resamples=19, random_state=0)
    e = np.column_stack([model.predict_propensity(X, look=k) for k in range(3)])
    f = model.predict_proba(X)[:, 1]
    at = found.histories.names.index("0 1 1")
    assert found.histories.expected[at] == pytest.approx((f * (1 - e[:, 0]) * e[:, 1] * e[:, 2]).sum())
    assert found.p_value > 0.05


def test_the_plot():
    model, X, s = fitted(missing=0.2)
    shown = GoodnessOfFitDisplay.from_estimator(model, X, s, n_resamples=19, random_state=0)
    names, observed, expected = shown.fit.histories
    patches = [patch for patch in shown.ax_.patches if hasattr(patch, "get_width")]  # the band is none, once
    bars = sorted(patch.get_width() for patch in patches if patch.get_width() != 4.0)
    away = np.sort((observed - expected) / np.sqrt(expected))
    kept = np.sort(away[np.argsort(-np.abs(away))[:16]])
    np.testing.assert_allclose(bars, kept)
    assert f"{len(names) - 16} with smaller deviations not shown" in shown.ax_.get_ylabel()
    assert shown.ax_.get_title().startswith("No evidence against the models:\nheterogeneity, p = ")
    assert shown.fit.plot().fit is shown.fit
    with pytest.raises(TypeError, match="fit must be a GoodnessOfFit, as returned by goodness_of_fit; got str"):
        GoodnessOfFitDisplay("fit")


def test_long_tables_are_cut():
    model, X, s = fitted(missing=0.2)
    found = goodness_of_fit(model, X, s, n_resamples=0)
    assert "more, in to_frame()" in str(found)
    assert repr(found) == str(found)
    assert "<pre>" in found._repr_html_()


def test_one_look_leaves_nothing_to_test():
    X, y, s = drawn(n=300)
    told = "at least two looks. This .* was fitted to one label for each row, which leaves nothing to test"
    for model in (
        SAREMClassifier(propensity_attributes=[1]).fit(X, s[:, 0]),
        SAREMClassifier(propensity_attributes=[1]).fit(X, s[:, 0], audit=np.where(np.arange(300) < 50, y, np.nan)),
        NaiveClassifier().fit(X, s[:, 0]),
    ):
        with pytest.raises(ValueError, match=told):
            goodness_of_fit(model, X, s[:, 0])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"n_resamples": 5}, r"n_resamples must be 0 \(for the normal approximation\) or at least 19, .*; got 5"),
        ({"n_resamples": -1}, "n_resamples must be a whole number of at least 0; got -1"),
        ({"n_resamples": 0, "statistic": "histories"}, "statistic='histories' has no p-value without resamples"),
        ({"statistic": "chi"}, "statistic must be one of 'heterogeneity', 'histories'; got 'chi'"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number"),
        ({"random_state": "a"}, "random_state must be None"),
        ({"audit": np.r_[0.0, np.full(299, np.nan)]}, "audit has 1 audited rows, but the model was fitted with 0"),
    ],
)
def test_errors(options, told):
    model, X, s = fitted(n=300)
    if "audit" in options:
        s = s.copy()
        s[0] = 0.0
    with pytest.raises(ValueError, match=told):
        goodness_of_fit(model, X, s, **options)


def test_other_rows_and_weights_are_refused():
    X, _, s = drawn(n=300)
    told = "the fit must not have used sample_weight. X has 300 rows, but the sum of weights"
    for model in (
        SAREMClassifier(propensity_attributes=[1]).fit(X[:200], s[:200]),
        SAREMClassifier(propensity_attributes=[1]).fit(X, s, sample_weight=np.full(300, 2.0)),
    ):
        with pytest.raises(ValueError, match=told):
            goodness_of_fit(model, X, s)


def test_resamples_that_do_not_converge_give_a_warning():
    X, _, s = drawn(n=300)
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s)
    model.max_iter = 1
    with pytest.warns(
        UserWarning, match=r"\d+ of 19 fits to resampled labels did not converge, so p-values are approximate"
    ):
        found = goodness_of_fit(model, X, s, n_resamples=19, random_state=0)
    assert found.n_not_converged > 9
