"""Expected number of positives among the rows that rank highest, and its interval."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import fit_quietly

from scarless import NaiveClassifier, SAREMClassifier, SAREMClassifierCV, SARStackingClassifier
from scarless.diagnostics import YieldCurveDisplay, profile_class_prior, yield_curve
from scarless.diagnostics.audits import yields
from scarless.diagnostics.audits._reading import AuditRows
from scarless.scale import ParquetRows

TREE = DecisionTreeClassifier(max_depth=3)


def made(n=1500, seed=0, level=-1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (rng.random(n) < expit(level + 2 * X[:, 0] - X[:, 1])).astype(int)
    s = y * (rng.random(n) < expit(1.5 * X[:, 2]))
    return X, y, s


def test_intervals_of_correct_models_cover_the_truth():
    covered, errors = [], []
    for seed in range(20):
        X, y, s = made(seed=seed)
        found = yield_curve(fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s), X, s, n=[20, 100, 300])
        truth = np.array([y[found.order[:n]].sum() for n in found.n])
        covered.append((found.low <= truth) & (truth <= found.high))
        errors.append(found.expected - truth)
        assert (found.low <= found.expected).all()
        assert (found.expected <= found.high).all()
    assert np.mean(covered) >= 0.9
    assert (np.abs(np.mean(errors, axis=0)) < [1.5, 4, 8]).all()


def test_held_out_labels_move_the_interval_to_the_truth():
    # The class probability is low again for high values of its attribute. A logistic model cannot fit this, but the
    # labels of these rows show it.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    f = np.where(X[:, 0] > 2, 0.2, expit(2 * X[:, 0] - 1))
    y = (rng.random(6000) < f).astype(int)
    s = y * (rng.random(6000) < expit(0.5 + 0.5 * X[:, 1]))
    model = fit_quietly(SAREMClassifier(propensity_attributes=[1]), X, s)
    found = yield_curve(model, X, s, n=50)
    posterior, truth = model.predict_posterior(X, s)[found.order].sum(), y[found.order].sum()
    assert found.recalibrated
    assert found.expected[0] == found.high[0] < 0.8 * posterior
    assert found.low[0] <= truth <= found.high[0]
    assert truth < 0.5 * posterior


def test_out_of_fold_logits_equal_those_of_a_fit_without_the_row():
    X, _, s = made(300)
    model = SAREMClassifier(propensity_attributes=[2], C=10.0, tol=1e-12)
    u, v = fit_quietly(model, X, s).out_of_fold_logits(X, s)
    own = logit(model.predict_proba(X)[:, 1])
    for row in range(0, 300, 30):
        rest = np.delete(np.arange(300), row)
        again = fit_quietly(SAREMClassifier(propensity_attributes=[2], C=10.0, tol=1e-12), X[rest], s[rest])
        moved = logit(again.predict_proba(X[[row]])[0, 1]) - own[row]
        assert u[row] - own[row] == pytest.approx(moved, abs=0.03 + 0.25 * abs(moved))
        assert v[row] == pytest.approx(logit(again.predict_propensity(X[[row]])[0]), abs=0.1)


def test_draws_of_two_logistic_models_have_the_variance_of_the_delta_method():
    X, _, s = made(4000)
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
    rows = np.flatnonzero(s == 0)[:40]
    drawn = model.draw_posteriors(X[rows], s[rows], n_draws=4000)
    assert drawn.shape == (4000, 40)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    ends = model.predict_posterior_interval(X[rows], s[rows])
    np.testing.assert_allclose(np.column_stack([low, high]), ends, atol=0.03)
    labelled = np.flatnonzero(s == 1)[:3]
    assert (model.draw_posteriors(X[labelled], s[labelled], n_draws=5) == 1).all()


@pytest.mark.parametrize(
    "model",
    [
        SAREMClassifierCV(Cs=2, propensity_Cs=2, propensity_attributes=[2], cv=3),
        SARStackingClassifier([("logistic", None), ("tree", TREE)], propensity_attributes=[2], cv=3),
        SAREMClassifier(RandomForestClassifier(10, random_state=0), propensity_attributes=[2], cv=3, max_iter=4),
    ],
    ids=["search", "stack", "cross-fitted"],
)
def test_draws_of_recalibrated_models_have_the_class_priors_of_their_interval(model):
    X, y, s = made(900)
    fit_quietly(model.set_params(random_state=0), X, s)
    drawn = model.draw_posteriors(X, s, n_draws=300)
    shares = drawn.mean(axis=1)
    low, high = model.class_prior_interval()
    assert np.quantile(shares, 0.05) > low - 0.03
    assert np.quantile(shares, 0.95) < high + 0.03
    assert np.ptp(np.quantile(shares, [0.025, 0.975])) > 0.4 * (high - low)
    found = yield_curve(model, X, s, n=50)
    assert found.recalibrated
    assert found.low[0] <= y[found.order].sum() <= found.high[0]
    assert np.array_equal(drawn, model.draw_posteriors(X, s, n_draws=300))


def test_audited_rows_are_not_ranked():
    X, y, s = made()
    rng = np.random.default_rng(1)
    audit = np.where(rng.random(y.size) < 0.2, y, np.nan)
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s, audit=audit)
    found = yield_curve(model, X, s, n=50, audit=audit)
    assert not np.isfinite(audit[found.order]).any()
    assert not found.recalibrated
    assert found.low[0] <= y[found.order].sum() <= found.high[0]
    drawn = model.draw_posteriors(X, s, audit=audit, n_draws=10)
    known = np.isfinite(audit)
    np.testing.assert_array_equal(drawn[:, known], np.tile(audit[known], (10, 1)))


def test_rows_of_weight_0_are_not_ranked():
    X, _, s = made()
    weight = np.ones(s.size)
    weight[X[:, 0] > 0] = 0
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s, sample_weight=weight)
    found = yield_curve(model, X, s, sample_weight=weight)
    assert (X[found.order, 0] <= 0).all()
    there = weight > 0
    alone = yield_curve(model, X[there], s[there])
    assert (found.expected, found.low, found.high) == (alone.expected, alone.low, alone.high)


@pytest.mark.parametrize("kind", ["stack", "cross-fitted"])
def test_held_out_logits_are_not_used_for_other_rows(kind):
    X, _, s = made(600)
    model = {
        "stack": SARStackingClassifier([("logistic", None)], propensity_attributes=[2], cv=3, random_state=0),
        "cross-fitted": SAREMClassifier(TREE, propensity_attributes=[2], cv=3, max_iter=3, random_state=0),
    }[kind]
    fit_quietly(model, X, s)
    assert yield_curve(model, X, s).recalibrated
    order = np.random.default_rng(0).permutation(600)
    assert not yield_curve(model, X[order], s[order]).recalibrated
    rows, _, labels = made(600, seed=1)
    assert not yield_curve(model, rows, labels).recalibrated
    swapped = np.arange(600)
    swapped[np.flatnonzero(s == 0)[:2]] = np.flatnonzero(s == 0)[[1, 0]]  # the order of the labels does not change
    assert not yield_curve(model, X[swapped], s).recalibrated
    with pytest.raises(ValueError, match=r"must be the .* training rows of the fit, in the same order"):
        model.out_of_fold_logits(X[order], s[order])


def test_the_unit_of_survey_weights_changes_nothing():
    """With groups="rows", weights count relative to each other, in the fit and in all that follows from it."""
    X, _, s = made(400)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=400)
    logits, curves, intervals = [], [], []
    for unit in (1.0, 1000.0):
        w = unit * weight
        model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s, sample_weight=w, groups="rows")
        logits.append(np.concatenate(model.out_of_fold_logits(X, s, sample_weight=w)))
        curves.append(yield_curve(model, X, s, n=30, sample_weight=w).expected)
        intervals.append(profile_class_prior(model, X, s, sample_weight=w).interval)
    np.testing.assert_allclose(logits[1], logits[0], rtol=1e-6)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-6)
    np.testing.assert_allclose(intervals[1], intervals[0], atol=1e-5)


def test_a_row_is_left_out_with_all_of_its_weight():
    X, _, s = made(300)
    weight = np.ones(300)
    weight[7] = 4
    copied = np.append(np.arange(300), [7, 7, 7])
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s, sample_weight=weight)
    own = logit(model.predict_proba(X)[:, 1])
    moved = model.out_of_fold_logits(X, s, sample_weight=weight)[0] - own
    once = (
        fit_quietly(SAREMClassifier(propensity_attributes=[2]), X[copied], s[copied]).out_of_fold_logits(X, s)[0] - own
    )
    np.testing.assert_allclose(moved[7], 4 * once[7], rtol=1e-3)
    np.testing.assert_allclose(np.delete(moved, 7), np.delete(once, 7), rtol=1e-3, atol=1e-9)


def test_a_fit_with_all_positives_labelled_has_no_estimate():
    X, _, s = made()
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
    model.label_frequency_ = 1.0  # the result of a fit in which all positives are labelled
    found = yield_curve(model, X, s, n=40)
    assert not found.informative
    assert found.high[0] == 40
    assert str(found) == "This fit cannot estimate how many of the 40 rows that rank highest are positive."


def test_it_prints_a_sentence_for_each_number():
    X, _, s = made()
    found = yield_curve(fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s), X, s, n=[10, 5000])
    first, second, third = str(found).splitlines()
    one = yield_curve(fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s), X, s, n=1)
    assert str(one).startswith("If you can check 1 row, expect 1 positive (95% interval ")
    assert first.startswith("If you can check 10 rows, expect ")
    assert second.startswith(f"If you can check {(s == 0).sum():,} rows, expect ")
    assert third == found.comparison()


@pytest.fixture(scope="module")
def logistic():
    X, y, s = made(1500, seed=3)
    return fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s), X, y, s


def test_the_naive_order_is_that_of_the_label_probability(logistic):
    model, X, y, s = logistic
    found = yield_curve(model, X, s, n=[30, 200])
    p = NaiveClassifier().fit(X, s).predict_proba(X)[:, 1]
    open_ = np.flatnonzero(s == 0)
    np.testing.assert_array_equal(found.naive_order, open_[np.argsort(-p[open_], kind="stable")][:200])
    q = model.predict_posterior(X, s)
    sums = np.array([q[found.naive_order[:n]].sum() for n in (30, 200)])
    np.testing.assert_allclose(found.naive, sums, rtol=0.03)  # the mean over draws is near the posteriors of the fit
    np.testing.assert_allclose(found.random, np.array([30, 200]) * q[open_].mean(), rtol=0.05)
    truth = np.array([y[found.naive_order[:n]].sum() for n in (30, 200)])
    assert (found.naive_low <= truth).all()
    assert (truth <= found.naive_high).all()
    assert found.naive[1] < found.expected[1]


def test_all_orders_find_the_same_positives_if_all_rows_are_checked(logistic):
    model, X, _, s = logistic
    found = yield_curve(model, X, s, n=s.size, n_draws=100)
    assert (found.naive[0], found.random[0]) == pytest.approx((found.expected[0], found.expected[0]))
    assert found.expected[0] == pytest.approx(model.predict_posterior(X, s)[s == 0].sum(), rel=0.05)
    assert sorted(found.naive_order) == sorted(found.order)


def test_the_result_for_a_number_does_not_depend_on_the_other_numbers(logistic):
    model, X, _, s = logistic
    many = yield_curve(model, X, s, n=[200, 10, 50])
    one = yield_curve(model, X, s, n=50, compare=False)
    assert (one.expected[0], one.low[0], one.high[0]) == (many.expected[2], many.low[2], many.high[2])
    assert one.naive is None
    assert one.why_no_naive == ""


def test_the_likelihood_of_shifts_and_limits_equals_the_sum_over_all_rows():
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 60)) * 2
    labelled = rng.random(60) < expit(u) * expit(v)
    rows = np.arange(5, 50)
    p = np.array([[cap * expit(u[rows] + shift) * expit(v[rows]) for shift in yields._SHIFT_VALUES]
                  for cap in yields._CAP_VALUES])  # fmt: skip
    each = np.where(labelled[rows], np.log(p), np.log1p(-p)).sum(axis=2).ravel()
    found = yields._log_likelihood(u, v, labelled, rows)
    np.testing.assert_allclose(found - found.max(), each - each.max(), atol=1e-9)
    np.testing.assert_array_equal(yields._CAPS, np.repeat(yields._CAP_VALUES, yields._SHIFT_VALUES.size))
    np.testing.assert_array_equal(yields._SHIFTS, np.tile(yields._SHIFT_VALUES, yields._CAP_VALUES.size))


def test_the_sentences(logistic):
    model, X, _, s = logistic
    found = yield_curve(model, X, s, n=[1, 200])
    e, low, high, naive, naive_low, naive_high, random = (
        f"{getattr(found, name)[1]:.0f}"
        for name in ("expected", "low", "high", "naive", "naive_low", "naive_high", "random")
    )
    assert found.sentence() == f"If you can check 200 rows, expect {e} positives (95% interval {low} to {high})."
    assert found.sentence(0) == "If you can check 1 row, expect 1 positive (95% interval 0 to 1)."
    assert found.comparison() == (
        f"Ranked by the probability of a label instead (naive), 200 rows would have about {naive} positives (95% "
        f"interval {naive_low} to {naive_high}); in random order, about {random}."
    )
    alone = yield_curve(model, X, s, n=200, compare=False)
    assert alone.comparison() == f"In random order, 200 rows would have about {random}."


def test_a_comparison_that_fails_is_left_out_with_its_reason(logistic, monkeypatch):
    model, X, _, s = logistic

    def refuse(*_, **__):
        raise ValueError("no room for it")

    monkeypatch.setattr(NaiveClassifier, "fit", refuse)
    found = yield_curve(model, X, s)
    assert found.naive is None
    assert found.why_no_naive == "The order by label probability was not computed. no room for it"
    assert str(found).splitlines()[-1] == found.why_no_naive


def test_the_table_of_numbers(logistic):
    model, X, _, s = logistic
    found = yield_curve(model, X, s, n=[10, 40])
    table = found.to_frame()
    assert table.index.tolist() == [10, 40]
    assert table.columns.tolist() == ["expected", "low", "high", "random", "naive", "naive_low", "naive_high"]
    np.testing.assert_array_equal(table["naive_high"], found.naive_high)
    assert "naive" not in yield_curve(model, X, s, compare=False).to_frame()


def test_the_display_draws_three_orders_and_the_interval(logistic):
    model, X, _, s = logistic
    found = yield_curve(model, X, s, n=[40, 10])
    ax = YieldCurveDisplay(found).plot().ax_
    ours, naive, random = ax.lines
    np.testing.assert_allclose(ours.get_xdata(), [0, 10, 40])
    np.testing.assert_allclose(ours.get_ydata(), [0, found.expected[1], found.expected[0]])
    np.testing.assert_allclose(naive.get_ydata(), [0, found.naive[1], found.naive[0]])
    np.testing.assert_allclose(random.get_ydata(), [0, found.random[1], found.random[0]])
    assert ax.collections[0].get_label() == "95% interval"
    drawn = YieldCurveDisplay.from_estimator(model, X, s, compare=False, n_draws=20)
    assert drawn.result.n.tolist() == [10, 20, 50, 100, 200, 500]
    assert len(drawn.ax_.lines) == 2
    with pytest.raises(TypeError, match="result must be a YieldCurve, as returned by yield_curve; got int"):
        YieldCurveDisplay(3)


def test_a_fit_without_information_is_not_compared(logistic):
    _, X, _, s = logistic
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
    model.label_frequency_ = 1.0
    found = yield_curve(model, X, s, n=[1, 40])
    assert found.naive is None
    assert found.comparison() == ""
    assert found.sentence(0) == "This fit cannot estimate whether the row that ranks highest is positive."
    ax = YieldCurveDisplay(found).plot().ax_
    assert ax.get_title() == "This fit cannot estimate how many of the rows are positive"
    assert not ax.lines


def test_tables_in_files_are_refused(logistic, tmp_path):
    import pandas as pd

    model, X, _, s = logistic
    pd.DataFrame(X, columns=list("abcd")).assign(s=s).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"yield_curve needs all rows in memory, but X is a ParquetRows\. Pass"):
        yield_curve(model, ParquetRows(tmp_path / "rows.parquet"), "s")


def test_invalid_arguments_are_refused():
    X, _, s = made()
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
    with pytest.raises(TypeError, match=r"NaiveClassifier does not estimate the uncertainty of its probabilities. Fit"):
        yield_curve(NaiveClassifier().fit(X, s), X, s)
    with pytest.raises(ValueError, match="all rows with a positive weight are labelled or audited, so no row is left"):
        yield_curve(model, X[s == 1], s[s == 1])
    with pytest.raises(ValueError, match="n must be"):
        yield_curve(model, X, s, n=0)
    with pytest.raises(ValueError, match="compare must be True or False; got 'yes'"):
        yield_curve(model, X, s, compare="yes")
    with pytest.raises(ValueError, match=r"n is empty\. Pass the number of rows to audit"):
        yield_curve(model, X, s, n=[])
    audit = np.where(np.arange(s.size) % 9 == 0, s, np.nan)
    audited = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s, audit=audit)
    with pytest.raises(ValueError, match="out_of_fold_logits is only for fits to one label for each row"):
        audited.out_of_fold_logits(X, s)
    stack = SARStackingClassifier([("logistic", None)], propensity_attributes=[2], cv=3, random_state=0)
    with pytest.raises(
        ValueError, match="must be the 1500 training rows of the fit, in the same order; the given 100 rows differ"
    ):
        fit_quietly(stack, X, s).out_of_fold_logits(X[:100], s[:100])


def rare_positives(seed):
    """Return a table with about 5% positives of a weak class; a named attribute drives the labelling."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < expit(-3.4 + 1.2 * X[:, 0])).astype(int)
    s = y * (rng.random(2000) < expit(X[:, 2] - 0.5))
    return X, y, s


def test_numbers_of_rare_positives_are_calibrated():
    """The sum of the posteriors of these rows is not: most class priors of the interval are too high."""
    expected, sums, truth, covered = [], [], [], []
    for seed in range(5):
        X, y, s = rare_positives(seed)
        model = SARStackingClassifier([("logistic", None)], propensity_attributes=[2], cv=3, random_state=0)
        found = yield_curve(fit_quietly(model, X, s), X, s, n=50, compare=False)
        expected.append(found.expected[0] / 50)
        sums.append(model.predict_posterior(X, s)[found.order].mean())
        truth.append(y[found.order].mean())
        covered.append(found.low[0] <= 50 * truth[-1] <= found.high[0])
    assert abs(np.mean(expected) - np.mean(truth)) < 0.1
    assert abs(np.mean(expected) - np.mean(truth)) < 0.75 * abs(np.mean(sums) - np.mean(truth))
    assert np.sum(covered) >= 4


def audited_at_the_top(n_audited, positive_share):
    """Return a fit with audits of the rows that rank highest, a given share of which is positive, and its forecast."""
    X, _, s = made()
    before = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
    top = yield_curve(before, X, s, n=n_audited, compare=False).order
    audit = np.full(s.size, np.nan)
    audit[top] = np.arange(n_audited) < positive_share * n_audited
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s, audit=audit)
    found = yield_curve(model, X, s, n=30, audit=audit, compare=False)
    return found, model.predict_posterior(X, s)[found.order].sum()


def test_audits_of_the_top_lower_the_forecast_of_the_next_rows():
    disappointing, of_model = audited_at_the_top(40, 0.25)
    assert disappointing.expected[0] < 0.7 * of_model
    assert disappointing.low[0] <= 0.25 * 30 <= disappointing.high[0]
    as_expected, of_model = audited_at_the_top(40, 1.0)
    assert as_expected.expected[0] == pytest.approx(of_model, rel=0.1)


def test_fewer_than_20_audited_rows_of_the_top_leave_the_forecast_to_the_model():
    found, of_model = audited_at_the_top(19, 0.25)
    assert found.expected[0] == pytest.approx(np.clip(of_model, found.low[0], found.high[0]))
    found, of_model = audited_at_the_top(20, 0.25)
    assert found.expected[0] < 0.95 * of_model


def test_audits_have_the_likelihood_of_their_classes():
    """An audited row is positive with its posterior, shifted and limited like that of the rows of the forecast."""
    q = np.array([0.9, 0.8, 0.3, 0.6])
    audit = np.array([1, 0, 1, -1])
    data = AuditRows(None, None, q, np.zeros((4, 1), dtype=np.int8), audit)
    evidence = yields._audit_evidence(data)
    found = yields._log_likelihood(evidence.u, evidence.v, evidence.labelled, np.flatnonzero(evidence.rows))
    p = yields._CAPS * expit(logit(q[:3, None]) + yields._SHIFTS)
    likelihood = p[0] * (1 - p[1]) * p[2]
    np.testing.assert_allclose(found - found.max(), np.log(likelihood) - np.log(likelihood.max()), atol=1e-9)
    shifted = yields._with_errors(q[None, 3:], evidence.v[3:], np.array([-1.0]), np.array([0.5]))
    np.testing.assert_allclose(shifted, 0.5 * expit(logit(q[3]) - 1.0))


def test_a_forecast_without_named_columns_says_what_it_rests_on():
    X, _, s = made(400)
    model = SARStackingClassifier([("logistic", None)], cv=3, find_attributes=False, random_state=0)
    found = yield_curve(fit_quietly(model, X, s), X, s, n=[10, 20])
    assert found.sentence().endswith(f"). {yields.ASSUMES_FREQUENCY}")
    assert str(found).count(yields.ASSUMES_FREQUENCY) == 1
    named = model.set_params(propensity_attributes=[2])
    found = yield_curve(fit_quietly(named, X, s), X, s)
    assert found.assumption == ""
    assert found.sentence().endswith(").")
