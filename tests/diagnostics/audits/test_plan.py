"""Plans of audits: rows, probabilities and expected widths."""

import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import Labelling, NaiveClassifier, SAREMClassifier, SAREMClassifierCV, audited_class_prior, plan_audit
from scarless.diagnostics import AuditPlanDisplay
from scarless.diagnostics.audits._reading import read_audit_rows
from scarless.diagnostics.audits.design import AuditDesign, DrawnWidths, ModelWidths, PosteriorDraws
from scarless.numerics.objectives import Curvature

mpl.use("Agg")
NEYMAN = "this design prefers rows about which the model is uncertain. Intervals are then shorter if the model is right"


def drawn(seed=0, n=1500, n_looks=1, rate=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = rng.random(n) < expit(1.5 * X[:, 0] + X[:, 1] - 0.5)
    e = np.where(y[:, None], expit(X[:, [2]] - 0.5), rate)
    s = (rng.random((n, n_looks)) < e) * 1.0
    return X, y, s[:, 0] if n_looks == 1 else s


def with_audits(y, n=60, seed=1):
    audit = np.full(y.size, np.nan)
    rows = np.random.default_rng(seed).choice(y.size, n, replace=False)
    audit[rows] = y[rows]
    return audit


@pytest.fixture(scope="module")
def fitted():
    X, y, s = drawn()
    audit = with_audits(y)
    return SAREMClassifier(propensity_attributes=[2]).fit(X, s, audit=audit), X, y, s, audit


# --- information that audits add


@pytest.mark.parametrize(("n_looks", "rate"), [(1, 0.0), (3, 0.0), (2, 0.03)])
def test_an_audit_adds_the_expected_information_of_the_class(n_looks, rate):
    """Compare with the information of a row of known class, averaged over the class given the labels."""
    X, y, s = drawn(n=400, n_looks=n_looks, rate=rate)
    options = {"labelling": Labelling(false_positive_rate="estimate")} if rate else {}
    model = SAREMClassifier(propensity_attributes=[2], **options).fit(X, s, audit=with_audits(y, 40))
    data = read_audit_rows(model, X, s, with_audits(y, 40))
    widths = ModelWidths.of(data, AuditDesign.of(data, "random"), 0.95)
    objective, beta = widths.objective, widths.inference.parameters
    rows = np.random.default_rng(0).permutation(400)[:30]
    chance = np.zeros(400)
    chance[rows] = 1.0
    gained = np.zeros((beta.size, beta.size))
    labels, looks = (
        model.fitted_pair_.looks.counts(data.labels)
        if model.fitted_pair_.looks
        else ((data.labels == 1) * 1, np.ones((400, 1)))
    )
    for i in rows:
        if data.audit[i] >= 0:
            continue

        def information(audit, i=i):
            row = {"labels": labels[[i]], "looks": looks[[i]], "audit": np.array([audit]), "w": np.ones(1)}
            return objective.sums(X[[i]], row, beta, Curvature.OBSERVED).curvature

        q = data.q[i]
        known = q * information(1) if q > 0 else 0.0
        known = known + ((1 - q) * information(0) if q < 1 else 0.0)
        gained += known - information(-1)
    np.testing.assert_allclose(widths.gain(chance), gained, atol=1e-9 * np.abs(gained).max())


def test_the_current_width_is_that_of_the_fit(fitted):
    model, X, _, s, audit = fitted
    plan = plan_audit(model, X, s, 100, pilot=audit, level=0.9, random_state=0)
    low, high = model.class_prior_interval(level=0.9)
    assert plan.sizes[0] == 0
    assert plan.expected_width[0] == pytest.approx(high - low, rel=1e-9)


def test_the_current_width_of_a_fit_without_audits():
    X, _, s = drawn()
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    plan = plan_audit(model, X, s, 100)
    low, high = model.class_prior_interval()
    assert plan.expected_width[0] == pytest.approx(high - low, rel=1e-9)
    assert plan.width_at(100) < high - low


def test_audits_of_all_rows_give_complete_information():
    """If all classes are known, the classifier is an ordinary logistic model, and no information is lost."""
    X, _, s = drawn(n=400)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    data = read_audit_rows(model, X, s, None)
    widths = ModelWidths.of(data, AuditDesign.of(data, "random"), 0.95)
    information = model.fitted_pair_.inference.needed_information() + widths.gain(np.ones(400))
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    ones = np.column_stack([X, np.ones(400)])
    of_f = (ones * (f * (1 - f))[:, None]).T @ ones
    z = np.column_stack([X[:, 2], np.ones(400)])
    of_e = (z * (data.q * e * (1 - e))[:, None]).T @ z
    np.testing.assert_allclose(information[:4, :4], of_f, rtol=1e-8)
    np.testing.assert_allclose(information[4:, 4:], of_e, rtol=1e-8)
    np.testing.assert_allclose(information[:4, 4:], 0.0, atol=1e-8)


def test_widths_decrease_with_audits_and_the_curve_contains_the_requested_size(fitted):
    model, X, _, s, audit = fitted
    plan = plan_audit(model, X, s, 137, pilot=audit)
    assert 137 in plan.sizes
    for widths in (plan.expected_width, plan.expected_width_difference):
        assert (np.diff(widths) < 0).all()
    assert plan.n_pilot == 60


# --- drawing of rows


def test_random_rows_are_distinct_unlabelled_rows_without_audits(fitted):
    model, X, _, s, audit = fitted
    plan = plan_audit(model, X, s, 200, pilot=audit, random_state=3)
    assert np.unique(plan.rows).size == 200
    assert not s[plan.rows].any()
    assert np.isnan(audit[plan.rows]).all()
    again = plan_audit(model, X, s, 200, pilot=audit, random_state=3)
    np.testing.assert_array_equal(plan.rows, again.rows)


def test_probabilities_combine_pilot_and_plan(fitted):
    model, X, _, s, audit = fitted
    plan = plan_audit(model, X, s, 200, pilot=audit)
    open_ = s == 0
    before, free = (~np.isnan(audit))[open_].mean(), int((open_ & np.isnan(audit)).sum())
    assert plan.n_open == free
    np.testing.assert_allclose(plan.probability[open_], before + (1 - before) * 200 / free)
    assert (plan.probability[open_].sum() - 200) == pytest.approx((~np.isnan(audit))[open_].sum())


def test_rows_are_drawn_with_their_probabilities():
    """Count the draws over a fine grid of starting points, for two orders of the rows."""
    q = np.array([0.5, 0.02, 0.3, 0.9, 0.6])

    class Rows:
        labelled, audited, labels_are_certain = np.zeros(5, bool), np.zeros(5, bool), True

    Rows.q = q
    design = AuditDesign.of(Rows, "neyman")
    chances = design.inclusion(2)
    assert chances.sum() == pytest.approx(2)
    assert chances[1] > 0.02  # rows of which the model is certain can be drawn too

    class FixedDraw:
        def __init__(self, order, at):
            self.order, self.at = order, at

        def permutation(self, places):
            return places[self.order]

        def random(self):
            return self.at

    for order in ([0, 1, 2, 3, 4], [3, 1, 4, 0, 2]):
        steps = 20_000
        counts = np.zeros(5)
        for at in (np.arange(steps) + 0.5) / steps:
            rows = design.draw(2, FixedDraw(np.array(order), at))
            assert np.unique(rows).size == 2
            counts[rows] += 1
        np.testing.assert_allclose(counts / steps, chances, atol=2 / steps)


def test_the_two_stage_design_warns_and_works_with_the_difference_estimator(fitted):
    model, X, y, s, audit = fitted
    with pytest.warns(UserWarning, match=NEYMAN):
        plan = plan_audit(model, X, s, 300, design="two-stage", pilot=audit, random_state=0)
    assert "design='random' is safe" in str(plan)
    assert "rows, preferably rows about which the model is uncertain" in str(plan)
    checked = audit.copy()
    checked[plan.rows] = y[plan.rows]
    found = audited_class_prior(model, X, s, checked, plan.probability)
    assert found.interval.low < y.mean() < found.interval.high
    assert (plan.probability[~np.isnan(checked)] > 0).all()
    random = plan_audit(model, X, s, 300, pilot=audit)
    assert plan.width_at(300, difference=True) < random.width_at(300, difference=True)


def test_rows_are_named_by_the_index_of_the_data_frame():
    X, _, s = drawn(n=300)
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"patient {i}" for i in range(300)])
    model = make_pipeline(StandardScaler(), SAREMClassifier(propensity_attributes=[2])).fit(frame, s)
    plan = plan_audit(model, frame, s, 20, random_state=0)
    assert list(plan.rows) == [f"patient {i}" for i in plan.positions]
    counted = plan_audit(model, frame.reset_index(drop=True), s, 20, random_state=0)
    np.testing.assert_array_equal(counted.rows, plan.positions)


# --- width of the difference estimator


def test_the_width_of_the_difference_estimator_for_random_audits():
    """Variance q(1-q) of unlabelled rows with finite-population correction, plus the sampling variance of the rows."""
    X, _, s = drawn()
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    plan = plan_audit(model, X, s, 100)
    q = model.predict_posterior(X, s)
    own, share = (q * (1 - q))[s == 0], (s == 0).mean()
    variance = share**2 * own.mean() * (1 - 100 / own.size) / 100 + q.mean() * (1 - q.mean()) / 1500
    assert plan.width_at(100, difference=True) == pytest.approx(2 * 1.959963984540054 * np.sqrt(variance))
    assert plan.expected_width_difference[0] == 1.0  # without audits the estimator is undefined


def test_the_expected_width_is_close_to_the_width_after_the_audits():
    X, y, s = drawn(n=4000)
    audit = with_audits(y, 60)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s, audit=audit)
    plan = plan_audit(model, X, s, 200, pilot=audit, random_state=0)
    audit[plan.rows] = y[plan.rows]
    low, high = SAREMClassifier(propensity_attributes=[2]).fit(X, s, audit=audit).class_prior_interval()
    assert plan.width_at(200) == pytest.approx(high - low, rel=0.25)
    other = audited_class_prior(model, X, s, audit, plan.probability).interval
    assert plan.width_at(200, difference=True) == pytest.approx(other.high - other.low, rel=0.25)


# --- text and plot


def test_numbers_of_audits_are_interpolated(fitted):
    model, X, _, s, audit = fitted
    plan = plan_audit(model, X, s, 200, pilot=audit)
    for difference in (False, True):
        wanted = plan.width_at(200, difference=difference)
        assert plan.rows_needed(wanted, difference=difference) in (200, 201)
        between = plan.rows_needed(0.5 * (wanted + plan.width_at(0, difference=difference)), difference=difference)
        assert 0 < between < 200
    assert plan.rows_needed(1.0) == 0
    assert plan.rows_needed(1e-6) is None
    assert "needs more than" in str(plan) or "needs about" in str(plan)


def test_the_printed_text(fitted):
    model, X, _, s, audit = fitted
    plan = plan_audit(model, X, s, 200, pilot=audit)
    told = str(plan)
    assert told.startswith(f"Audit 200 of {plan.n_open:,} unlabelled rows, drawn at random. Labelled rows count as")
    assert f"has a width of {plan.expected_width[0]:.3f} now. " in told
    assert f"Expected width after 200 more audits: {plan.width_at(200):.3f} with a model fitted to" in told
    assert repr(plan) == told
    assert "<p>" in plan._repr_html_()
    frame = plan.to_frame()
    assert frame.index.name == "audits"
    assert list(frame.columns) == ["expected_width", "expected_width_difference"]
    np.testing.assert_array_equal(frame["expected_width"], plan.expected_width)


def test_plans_of_swappable_models_advise_a_pilot():
    X, y, s = drawn()
    model = SAREMClassifier(propensity_attributes="all").fit(X, s)
    assert "Audit a pilot of 50 random rows first, fit the model with audit=" in str(plan_audit(model, X, s, 50))
    audit = with_audits(y)
    model = SAREMClassifier(propensity_attributes="all").fit(X, s, audit=audit)
    assert "pilot of 50" not in str(plan_audit(model, X, s, 50, pilot=audit))


def test_a_fit_without_an_information_matrix_has_only_the_width_of_the_difference_estimator():
    X, _, s = drawn(n=600)
    model = NaiveClassifier().fit(X, s)
    plan = plan_audit(model, X, s, 50)
    assert np.isnan(plan.expected_width).all()
    assert np.isfinite(plan.expected_width_difference).all()
    assert "This fit has no information matrix" in str(plan)
    assert plan.rows_needed(0.05) is None
    assert plan.plot().ax_.get_legend_handles_labels()[1][0].startswith("audited_class_prior")


def test_with_false_positives_labelled_rows_can_be_drawn():
    X, y, s = drawn(n_looks=2, rate=0.03)
    model = SAREMClassifier(propensity_attributes=[2], labelling=Labelling(false_positive_rate="estimate")).fit(X, s)
    plan = plan_audit(model, X, s, 400, random_state=0)
    assert plan.n_open == y.size
    assert (s[plan.rows].sum(axis=1) > 0).any()
    assert "unlabelled" not in str(plan)


# --- the optimal design


def test_the_optimal_design_follows_the_reduction_of_the_variance(fitted):
    """To first order, one audit reduces the variance of the class prior by q(1-q) times the square of c'Vg.

    `V` is the inverse information, `g` the gradient of the class prior, and `c` the gradient of the row's logit.
    """
    model, X, _, s, audit = fitted
    data = read_audit_rows(model, X, s, audit)
    draws = PosteriorDraws.of(data, s)
    widths = ModelWidths.of(data, AuditDesign.of(data, "random"), 0.95)
    inference = widths.inference
    variance = np.linalg.inv(inference.penalised_information())
    gradient = variance @ inference.class_prior.gradient
    rows = np.flatnonzero(~data.labelled & ~data.audited)[:150]
    exact = []
    for i in rows:
        one = np.zeros(data.q.size)
        one[i] = 1.0
        exact.append(np.sqrt(gradient @ widths.gain(one) @ gradient))
    q = data.q[rows]
    found = np.abs(draws.effects()[rows]) * np.sqrt(q * (1 - q))
    assert np.corrcoef(found, exact)[0, 1] > 0.98
    assert np.median(found / exact) == pytest.approx(1.0, abs=0.15)


def test_widths_from_draws_agree_with_widths_from_the_information(fitted):
    model, X, _, s, audit = fitted
    data = read_audit_rows(model, X, s, audit)
    for design in ("random", "neyman"):
        sampling = AuditDesign.of(data, design)
        sizes = [25, 100, 400]
        exact = ModelWidths.of(data, sampling, 0.95).expected(sizes)
        drawn_widths = DrawnWidths.of(data, PosteriorDraws.of(data, s), sampling, 0.95)
        assert drawn_widths.now() == pytest.approx(ModelWidths.of(data, sampling, 0.95).now())
        np.testing.assert_allclose(drawn_widths.expected(sizes), exact, rtol=0.15)


def test_the_optimal_design_promises_shorter_intervals_than_random_rows(fitted):
    model, X, _, s, audit = fitted
    options = {"pilot": audit, "random_state": 0}
    with pytest.warns(UserWarning, match="prefers rows whose class says most about the class prior"):
        best = plan_audit(model, X, s, 100, design="optimal", **options)
    assert best.width_at(100) < plan_audit(model, X, s, 100, **options).width_at(100)
    assert "preferably rows whose class says most about the class prior" in str(best)


def test_a_search_that_averages_fits_has_expected_widths():
    X, _, s = drawn(n=800)
    model = SAREMClassifierCV(propensity_attributes=[2], Cs=[1.0], propensity_Cs=[1.0]).fit(X, s)
    plan = plan_audit(model, X, s, 50)
    low, high = model.class_prior_interval()
    assert plan.expected_width[0] == pytest.approx(high - low)
    assert (np.diff(plan.expected_width) < 0).all()


def test_the_optimal_design_needs_draws():
    X, _, s = drawn(n=300)
    model = NaiveClassifier().fit(X, s)
    with pytest.raises(
        TypeError, match="design='optimal' needs draws of the posteriors, which NaiveClassifier does not"
    ):
        plan_audit(model, X, s, 50, design="optimal")


# --- strata, earlier probabilities and eligible rows


def test_every_stratum_gets_its_minimum(fitted):
    """A group of 12 rows would get less than one of 60 rows; with strata it gets 5."""
    model, X, _, s, audit = fitted
    group = np.where(np.arange(1500) < 12, "small", "large")
    free = (s == 0) & np.isnan(audit)
    plan = plan_audit(model, X, s, 60, pilot=audit, by=group, random_state=0)
    wanted = min(5, int(free[:12].sum()))
    assert abs((plan.positions < 12).sum() - wanted) <= 1
    assert len(plan.positions) == 60
    before = audit[s == 0].size and np.isfinite(audit[s == 0]).mean()
    chance = (plan.probability - before) / (1 - before)
    assert chance[free].sum() == pytest.approx(60)
    assert chance[:12][free[:12]].sum() == pytest.approx(wanted)


@pytest.mark.parametrize("searched", [False, True], ids=["one fit", "search"])
def test_a_plan_for_rows_of_certain_classes_says_that_its_widths_mean_nothing(searched):
    X, _, s = drawn(n=400)
    small = {"Cs": [1.0], "propensity_Cs": [1.0]} if searched else {}
    model = (SAREMClassifierCV if searched else SAREMClassifier)(propensity_attributes=[2], **small).fit(X, s)
    far = X[:30] * [0.0, 0.0, 1.0] - [1e6, 0.0, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        plan = plan_audit(model, far, np.zeros(30), 10, random_state=0)
        assert "the class of every row is certain. Expected widths assume that the model is right" in str(plan)
        assert plan.width_at(7, difference=True) < 1e-6
        plan.rows_needed(0.01, difference=True)


def test_strata_are_one_grouping(fitted):
    model, X, _, s, audit = fitted
    with pytest.raises(ValueError, match=r"by must be one column, a tuple of two columns.*got a list of 2\. A tuple"):
        plan_audit(model, X, s, 60, pilot=audit, by=[0, 1])
    plan = plan_audit(model, X, s, 60, pilot=audit, by=(0, 1), random_state=0)
    assert len(plan.positions) == 60


def test_only_eligible_rows_are_drawn(fitted):
    model, X, _, s, audit = fitted
    eligible = np.arange(1500) % 2 == 0
    plan = plan_audit(model, X, s, 80, pilot=audit, eligible=eligible, random_state=0)
    assert eligible[plan.positions].all()


def test_probabilities_of_earlier_audits_are_combined(fitted):
    model, X, _, s, audit = fitted
    earlier = np.where(np.isfinite(audit), 0.3, 0.1)
    plan = plan_audit(model, X, s, 100, pilot=audit, pilot_probability=earlier, random_state=0)
    free = (s == 0) & np.isnan(audit)
    new = 100 / free.sum()
    np.testing.assert_allclose(plan.probability[s == 0], (earlier + (1 - earlier) * new)[s == 0])


def test_the_plot(fitted):
    model, X, _, s, audit = fitted
    shown = AuditPlanDisplay.from_estimator(model, X, s, 200, pilot=audit)
    curve = shown.ax_.lines[0]
    np.testing.assert_array_equal(curve.get_xdata(), shown.plan.sizes[1:])
    np.testing.assert_array_equal(curve.get_ydata(), shown.plan.expected_width[1:])
    assert shown.ax_.get_title() == "Expected uncertainty of the class prior\nafter 200 more audits"
    with pytest.raises(TypeError, match="plan must be an AuditPlan, as returned by plan_audit; got str"):
        AuditPlanDisplay("plan")


# --- errors


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"n_rows": 0}, "n_rows must be a whole number of at least 1; got 0"),
        ({"n_rows": 10_000}, "n_rows must be at most .*, the number of rows that can be audited; got 10000"),
        ({"design": "best"}, "design must be one of 'random', 'neyman', 'two-stage', 'optimal'; got 'best'"),
        (
            {"pilot_probability": np.zeros(1500)},
            r"pilot_probability must lie in \[0, 1\], and must be positive for rows",
        ),
        ({"pilot_probability": [0.5]}, "pilot_probability has 1 values for 1500 rows"),
        ({"eligible": np.ones(1500)}, "eligible must have True or False for each of the 1500 rows"),
        ({"eligible": np.zeros(1500, dtype=bool)}, "n_rows must be at most 0, the number of rows that can be audited"),
        ({"by": np.zeros(3)}, "by: an array must have one group for each of the 1,500 rows"),
        ({"level": 0}, "level must lie strictly between 0 and 1"),
        ({"random_state": "a"}, "random_state must be None"),
        (
            {"pilot": None},
            "pilot has no audits, but the model was fitted with 60. Pass the audits of the fit as pilot=",
        ),
        ({"pilot": np.r_[1.0, np.full(1499, np.nan)]}, "pilot has 1 audit, but the model was fitted with 60"),
    ],
)
def test_errors(fitted, options, told):
    model, X, _, s, audit = fitted
    with pytest.raises(ValueError, match=told):
        plan_audit(model, X, s, **{"pilot": audit, **options})


def test_the_two_stage_design_needs_a_pilot():
    X, y, s = drawn(n=300)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    with pytest.raises(
        ValueError, match=r"design='two-stage' needs the audits of the first stage\. Audit about 50 to 100"
    ):
        plan_audit(model, X, s, 50, design="two-stage")
    with pytest.raises(ValueError, match=r"but the model was fitted with none. Fit the model with audit=pilot first"):
        plan_audit(model, X, s, 50, pilot=with_audits(y, 20))


def test_invalid_widths_and_sizes_are_refused(fitted):
    model, X, _, s, audit = fitted
    plan = plan_audit(model, X, s, 50, pilot=audit)
    with pytest.raises(ValueError, match="n_rows must be at most"):
        plan.width_at(10**6)
    with pytest.raises(ValueError, match="n_rows must be a whole number of at least 0; got -1"):
        plan.width_at(-1)
    with pytest.raises(ValueError, match=r"width must lie in \(0, 1\]; got 0"):
        plan.rows_needed(0)
