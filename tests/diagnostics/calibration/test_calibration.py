"""Calibration: bins, intervals, the test, and the diagrams."""

import math
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import NaiveClassifier, SAREMClassifier
from scarless.diagnostics.calibration.curves import class_calibration, label_calibration
from scarless.diagnostics.calibration.display import ClassCalibrationDisplay, LabelCalibrationDisplay
from scarless.numerics.weighted_scores import (
    BinnedRows,
    binned,
    calibration_error,
    chi_square,
    equal_counts,
    equal_widths,
    score_interval,
)

F = np.array([0.9, 0.2, 0.6, 0.5])
E = np.array([0.5, 0.8, 0.3, 1.0])
ONE_BIN = np.zeros(4, dtype=np.intp)
DISPLAYS = pytest.mark.parametrize("display", [LabelCalibrationDisplay, ClassCalibrationDisplay])


def labellings(probability):
    """Return all labellings of the rows, and their probabilities."""
    draws = np.array(list(product([0.0, 1.0], repeat=probability.size)))
    return draws, np.where(draws == 1, probability, 1 - probability).prod(axis=1)


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f, e = expit(2 * X[:, 0] - 0.5), 0.2 + 0.7 * expit(2 * X[:, 2] + X[:, 0])
    return X, f, e, (rng.random(n) < f * e).astype(int)


@pytest.fixture(scope="module")
def fitted():
    X, _, _, s = simulate(4000, seed=0)
    model = SAREMClassifier(propensity_attributes=[2], classification_attributes=[0, 1])
    return model.fit(X[:2000], s[:2000]), X[2000:], s[2000:]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


# Bins.


@given(values=st.lists(st.floats(0, 1), min_size=1, max_size=40), n_bins=st.integers(1, 12))
def test_bins_are_numbered_in_order_without_gaps_and_equal_values_stay_together(values, n_bins):
    values = np.array(values)
    for assign in (equal_counts, equal_widths):
        bins = assign(values, n_bins)
        assert np.unique(bins).tolist() == list(range(bins.max() + 1))
        assert bins.max() < n_bins
        order = np.argsort(values, kind="stable")
        assert (np.diff(bins[order]) >= 0).all()
        assert (np.diff(bins[order])[np.diff(values[order]) == 0] == 0).all()


def test_bins_of_equal_counts_and_of_equal_width():
    values = np.linspace(0, 1, 1000) ** 3
    assert np.bincount(equal_counts(values, 10)).tolist() == [100] * 10
    assert (np.bincount(equal_widths(values, 2)) == [np.sum(values < 0.5), np.sum(values >= 0.5)]).all()


def test_mean_and_variance_of_a_bin_over_all_labellings():
    draws, chance = labellings(F * E)
    means = np.array([binned(F, E, s, ONE_BIN).observed[0] for s in draws])
    rows = binned(F, E, draws[0], ONE_BIN)
    assert chance @ means == pytest.approx(rows.predicted[0], abs=1e-14)
    assert chance @ (means - F.mean()) ** 2 == pytest.approx(rows.variance[0], abs=1e-14)


# Intervals.


@pytest.mark.parametrize("n_labelled", [0, 1, 7, 20])
def test_with_propensity_one_the_interval_is_wilsons(n_labelled):
    s = np.repeat([1.0, 0.0], [n_labelled, 20 - n_labelled])
    rows = binned(np.full(20, 0.3), np.ones(20), s, np.zeros(20, dtype=np.intp))
    low, high = score_interval(rows, stats.norm.ppf(0.975))
    expected = stats.binomtest(n_labelled, 20).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx(tuple(expected), abs=1e-12)


@given(n=st.integers(1, 500), observed=st.floats(0, 1), excess=st.floats(0, 50), z=st.floats(0.5, 4))
def test_the_ends_of_the_interval_are_z_standard_errors_away(n, observed, excess, z):
    v = max(1.0, observed) + excess
    rows = BinnedRows(*(np.array([value]) for value in (float(n), 0.5, observed, 0.1, v)))
    for end in score_interval(rows, z):
        assert (observed - end[0]) ** 2 == pytest.approx(z**2 * end[0] * (v - end[0]) / n, rel=1e-6, abs=1e-9)


def test_the_intervals_of_class_calibration_cover_the_share_of_positives():
    covered = []
    for seed in range(60):
        _, f, e, s = simulate(3000, seed=seed)
        found = class_calibration(s, f, propensity=e)
        covered.append((found.low <= found.predicted) & (found.predicted <= found.high))
    assert 0.935 < np.mean(covered) < 0.975


# The error and the test.


def test_the_calibration_error_by_hand_and_its_expected_value():
    found = label_calibration([0, 0, 1, 1], [0.2, 0.2, 0.9, 0.9], propensity=1.0, n_bins=2)
    assert found.error == pytest.approx(0.15)
    _, f, e, _ = simulate(2000, seed=1)
    rng = np.random.default_rng(2)
    bins = equal_counts(f, 10)
    draws = [binned(f, e, (rng.random(f.size) < f * e).astype(float), bins) for _ in range(300)]
    errors = [calibration_error(rows)[0] for rows in draws]
    assert np.mean(errors) == pytest.approx(calibration_error(draws[0])[1], rel=0.03)


def test_mean_and_variance_of_the_statistic_over_all_labellings():
    bins = np.array([0, 0, 1, 1])
    draws, chance = labellings(F * E)
    found = [chi_square(F, E, s, bins, at_least=0.0) for s in draws]
    statistics = np.array([test.statistic for test in found])
    assert {test.freedom for test in found} == {2}
    assert chance @ statistics == pytest.approx(2.0, abs=1e-12)
    assert chance @ (statistics - 2.0) ** 2 == pytest.approx(found[0].variance, abs=1e-12)


def test_with_constant_predictions_the_statistic_is_pearsons():
    f, s = np.repeat([0.2, 0.7], 50), np.zeros(100)
    s[:14] = s[50:80] = 1.0
    found = label_calibration(s, f, propensity=1.0, n_bins=2)
    pearson = stats.chisquare([14, 36], [10, 40]).statistic + stats.chisquare([30, 20], [35, 15]).statistic
    assert found.statistic == pytest.approx(pearson, rel=1e-12)
    assert found.p_value == pytest.approx(stats.chi2.sf(pearson, 2), abs=0.002)


def test_the_p_value_is_correct_with_few_labels():
    """Exact probability of a rejection, over all numbers of labels in two bins with 1 and 5 expected labels."""
    f, bins = np.repeat([0.02, 0.1], 50), np.repeat([0, 1], 50)
    size, plain = dict.fromkeys([0.05, 0.01], 0.0), dict.fromkeys([0.05, 0.01], 0.0)
    for first, second in product(range(12), range(22)):
        s = np.zeros(100)
        s[:first] = s[50 : 50 + second] = 1.0
        test = chi_square(f, np.ones(100), s, bins)
        chance = stats.binom.pmf(first, 50, 0.02) * stats.binom.pmf(second, 50, 0.1)
        for level in size:
            size[level] += chance * (test.p_value < level)
            plain[level] += chance * (stats.chi2.sf(test.statistic, test.freedom) < level)
    assert 0.04 < size[0.05] < 0.05
    assert 0.009 < size[0.01] < 0.011
    assert plain[0.01] > 0.019  # a plain chi-square test rejects too often


def test_bins_with_fewer_than_one_expected_label_are_merged():
    f = np.repeat([0.001, 0.002, 0.5, 0.6], 100)  # 0.1, 0.2, 50 and 60 expected labels
    s = np.tile([1.0, 0.0], 200)
    assert label_calibration(s, f, propensity=1.0, n_bins=4).degrees_of_freedom == 2
    assert label_calibration(s, f[::-1], propensity=1.0, n_bins=4).degrees_of_freedom == 2
    assert label_calibration(s, 1 - f, propensity=1.0, n_bins=4).degrees_of_freedom == 2
    assert label_calibration(s[:100], f[:100], propensity=1.0).degrees_of_freedom == 1


def test_the_p_value_is_correct_with_small_propensities():
    """With 1/e of up to 100, a plain chi-square test rejects correct predictions twice as often as it should."""
    rng = np.random.default_rng(8)
    p_values, plain = [], []
    for _ in range(400):
        f, e = expit(2 * rng.normal(size=500) - 1), 0.01 + 0.29 * rng.random(500) ** 3
        found = class_calibration(rng.random(500) < f * e, f, propensity=e)
        p_values.append(found.p_value)
        plain.append(stats.chi2.sf(found.statistic, found.degrees_of_freedom))
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.075
    assert np.mean(np.array(plain) < 0.05) > 0.09


@pytest.mark.parametrize("calibration", [label_calibration, class_calibration])
def test_correct_predictions_are_rejected_at_the_significance_level(calibration):
    p_values = []
    for seed in range(300):
        _, f, e, s = simulate(1000, seed=100 + seed)
        p_values.append(calibration(s, f, propensity=e).p_value)
    rejected = np.mean(np.array(p_values) < 0.05)
    assert 0.02 < rejected < 0.08  # 0.05, plus or minus 2.4 standard errors
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


@pytest.mark.parametrize("calibration", [label_calibration, class_calibration])
def test_wrong_predictions_are_rejected(calibration):
    _, f, e, s = simulate(4000, seed=3)
    assert calibration(s, f**2, propensity=e).p_value < 1e-6
    assert calibration(s, f, propensity=e).p_value > 0.01


def test_errors_that_cancel_in_the_product_are_not_detected():
    """Half the class probability with twice the propensity fits as well; only a known propensity shows the error."""
    _, f, e, s = simulate(4000, seed=4)
    e = e / 2
    s = (np.random.default_rng(5).random(4000) < f * e).astype(int)
    right, wrong = label_calibration(s, f, propensity=e), label_calibration(s, f / 2, propensity=2 * e)
    assert wrong.observed == pytest.approx(right.observed)
    assert wrong.p_value == pytest.approx(right.p_value)
    assert class_calibration(s, f / 2, propensity=2 * e).p_value > 0.01
    assert class_calibration(s, f / 2, propensity=e).p_value < 1e-6


def test_with_propensity_one_both_calibrations_are_equal():
    _, f, _, s = simulate(500, seed=6)
    label, class_ = label_calibration(s, f, propensity=1.0), class_calibration(s, f, propensity=1.0)
    pd.testing.assert_frame_equal(label.to_frame(), class_.to_frame())
    assert str(label) == str(class_)


def test_predictions_of_exactly_0_and_1():
    certain = label_calibration([0, 0, 1], [0.0, 0.0, 1.0], propensity=1.0)
    assert certain.error == certain.expected_error == 0.0
    assert certain.degrees_of_freedom == 0
    assert math.isnan(certain.p_value)
    refuted = label_calibration([0, 0, 1], [0.0, 0.0, 0.0], propensity=1.0)
    assert (refuted.statistic, refuted.p_value) == (math.inf, 0.0)


@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(1e-6, 1)), min_size=1, max_size=30),
    n_bins=st.integers(1, 12),
    strategy=st.sampled_from(["quantile", "uniform"]),
)
def test_any_rows_have_a_calibration(rows, n_bins, strategy):
    f, s, e = np.array(rows).T
    for calibration in (label_calibration, class_calibration):
        found = calibration(s, f, propensity=e, n_bins=n_bins, strategy=strategy)
        assert found.n_rows.sum() == f.size
        assert found.n_rows @ found.predicted == pytest.approx((f * e if calibration is label_calibration else f).sum())
        assert (found.low <= found.observed + 1e-9).all()
        assert (found.high >= found.observed - 1e-9).all()
        assert (found.low >= 0).all()
        assert found.error >= 0


# Weights are counts.

CALIBRATIONS = pytest.mark.parametrize("calibration", [label_calibration, class_calibration])


@CALIBRATIONS
@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 8), st.booleans(), st.sampled_from([0.2, 0.5, 1.0]), st.integers(0, 4)),
        min_size=1,
        max_size=25,
    ),
    n_bins=st.integers(1, 6),
    strategy=st.sampled_from(["quantile", "uniform"]),
)
def test_weights_equal_copies_of_rows(calibration, rows, n_bins, strategy):
    f, s, e, times = np.array(rows, dtype=float).T
    f, times = f / 8, times.astype(int)
    times[0] += 1  # at least one row
    options = {"n_bins": n_bins, "strategy": strategy}
    found = calibration(s, f, propensity=e, sample_weight=times, **options)
    s, f, e = (np.repeat(each, times) for each in (s, f, e))
    copies = calibration(s, f, propensity=e, **options)
    for name in vars(copies):
        np.testing.assert_allclose(getattr(found, name), getattr(copies, name), rtol=1e-9, atol=1e-12, err_msg=name)


@given(
    values=st.lists(st.floats(0, 1), min_size=1, max_size=20),
    times=st.lists(st.integers(1, 5), min_size=20, max_size=20),
    n_bins=st.integers(1, 12),
)
def test_weighted_bins_equal_bins_of_copies(values, times, n_bins):
    values, times = np.array(values), np.array(times[: len(values)])
    weighted = equal_counts(values, n_bins, times.astype(float))
    assert np.repeat(weighted, times).tolist() == equal_counts(np.repeat(values, times), n_bins).tolist()


def test_bins_do_not_depend_on_the_scale_of_weights():
    values = np.random.default_rng(0).random(200)
    for scale in (1.0, 0.1, 1e-9):
        assert np.bincount(equal_counts(values, 10, np.full(200, scale))).tolist() == [20] * 10


def test_a_weight_of_one_half_halves_the_statistic():
    """The number of rows in all variances is the sum of the weights."""
    f, s = np.full(40, 0.5), np.repeat([1.0, 0.0], [28, 12])
    whole, half = (label_calibration(s, f, propensity=1.0, sample_weight=np.full(40, w)) for w in (1.0, 0.5))
    assert half.observed == pytest.approx(whole.observed)
    assert half.statistic == pytest.approx(0.5 * whole.statistic)
    assert (half.high - half.low > whole.high - whole.low).all()


def test_impossible_labels_are_detected_in_any_bin():
    """A certain label that is missing does not cancel an impossible label in the same bin."""
    found = label_calibration([1, 0], [0.0, 1.0], propensity=1.0, n_bins=1)
    assert found.p_value == 0.0


@DISPLAYS
def test_plots_with_weights(display, fitted):
    model, X, s = fitted
    weight = np.arange(len(s)) % 3
    drawn = display.from_estimator(model, X, s, sample_weight=weight)
    assert drawn.calibration.n_rows.sum() == weight.sum()
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    same = display.from_predictions(s, f, propensity=e, sample_weight=weight)
    pd.testing.assert_frame_equal(drawn.calibration.to_frame(), same.calibration.to_frame())
    (strip,) = drawn.ax_.child_axes
    assert sum(bar.get_height() for bar in strip.patches) == weight.sum()


# The result and the plots.


def test_the_result_as_a_table_and_as_text():
    _, f, e, s = simulate(1000, seed=7)
    found = label_calibration(s, f, propensity=e, n_bins=5)
    table = found.to_frame()
    assert list(table) == ["predicted", "observed", "low", "high", "n_rows"]
    assert table["n_rows"].tolist() == [200] * 5
    assert f"p = {found.p_value:.3g}" in str(found)


@DISPLAYS
def test_from_estimator_equals_from_predictions(display, fitted):
    model, X, s = fitted
    figure, ax = plt.subplots()
    drawn = display.from_estimator(model, X, s, n_bins=8, ax=ax)
    same = display.from_predictions(s, model.predict_proba(X)[:, 1], propensity=model.predict_propensity(X), n_bins=8)
    assert (drawn.ax_, drawn.figure_) == (ax, figure)
    assert same.ax_ is not ax
    pd.testing.assert_frame_equal(drawn.calibration.to_frame(), same.calibration.to_frame())
    points = ax.lines[1]
    assert points.get_xdata() == pytest.approx(drawn.calibration.predicted)
    assert points.get_ydata() == pytest.approx(drawn.calibration.observed)


@DISPLAYS
def test_the_histogram_counts_all_rows(display, fitted):
    model, X, s = fitted
    ax = display.from_estimator(model, X, s).ax_
    (strip,) = ax.child_axes
    assert sum(bar.get_height() for bar in strip.patches) == len(s)
    assert strip.get_ylabel() == "rows"
    assert strip.get_xlim() == ax.get_xlim()


def test_labels_and_titles_of_the_diagram(fitted):
    model, X, s = fitted
    label = LabelCalibrationDisplay.from_estimator(model, X, s)
    assert label.ax_.get_ylabel() == "Share of labelled rows"
    assert label.ax_.child_axes[0].get_xlabel() == r"Predicted $\Pr(s=1\,|\,x) = f(x)\,e(x)$"
    assert label.ax_.get_title().startswith("No evidence against the predicted probabilities of a label (p = 0.")
    own = ClassCalibrationDisplay.from_estimator(model, X, s)
    assert own.ax_.get_ylabel() == "Mean of $s/e(x)$ with the model's propensity"
    assert own.ax_.get_title().startswith(
        "No evidence against the predicted probabilities of the class,\nif the model's propensity is right (p = 0."
    )
    wrong = ClassCalibrationDisplay.from_estimator(model, X, s, propensity=0.9)
    assert wrong.ax_.get_ylabel() == "Mean of $s/e(x)$ with the given propensity"
    assert wrong.ax_.get_title().startswith(
        "Positives are not as frequent as predicted,\nif the given propensity is right (p < 0.001)\ncalibration error"
    )
    figure = own.figure_
    figure.canvas.draw()


def test_a_display_can_be_drawn_again(fitted):
    model, X, s = fitted
    display = ClassCalibrationDisplay.from_estimator(model, X, s)
    _, ax = plt.subplots()
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert len(ax.lines[1].get_xdata()) == 10


def test_models_of_other_libraries(fitted):
    _, X, s = fitted
    e = 0.5
    words = np.where(s == 1, "case", "unknown")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    plain = LabelCalibrationDisplay.from_estimator(LogisticRegression().fit(X, s), X, s, propensity=e)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, words)
    named = LabelCalibrationDisplay.from_estimator(pipeline, frame, words, propensity=e, pos_label="case")
    assert named.calibration.observed.sum() == pytest.approx(plain.calibration.observed.sum(), rel=0.05)
    pair = SAREMClassifier(propensity_attributes=["c"], classification_attributes=["a", "b"])
    table = pl.DataFrame(X, schema=["a", "b", "c"])
    inside = make_pipeline(StandardScaler().set_output(transform="polars"), pair).fit(table, pl.Series(s))
    assert ClassCalibrationDisplay.from_estimator(inside, table, pl.Series(s)).calibration.p_value > 0.001


# Errors.


def test_a_model_without_a_propensity_needs_one(fitted):
    _, X, s = fitted
    naive = NaiveClassifier().fit(X, s)
    with pytest.raises(ValueError, match=r"^LabelCalibrationDisplay needs the propensity .* NaiveClassifier has no"):
        LabelCalibrationDisplay.from_estimator(naive, X, s)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins must be a whole number of at least 1; got 0"),
        ({"strategy": "deciles"}, "strategy must be one of 'quantile', 'uniform'; got 'deciles'"),
        ({"level": 1.0}, "level must lie strictly between 0 and 1; got 1.0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    for calibration in (label_calibration, class_calibration):
        with pytest.raises(ValueError, match=message):
            calibration([1, 0, 1, 0], F, propensity=E, **options)


def test_wrong_rows_are_refused():
    with pytest.raises(ValueError, match=r"y_pred has no rows\. Pass at least one prediction"):
        label_calibration([], [], propensity=[])
    with pytest.raises(ValueError, match=r"y_pred must contain probabilities in \[0, 1\]"):
        label_calibration([1, 0, 1, 0], 2 * F, propensity=E)
    with pytest.raises(ValueError, match="s has 2 values for 4 rows"):
        class_calibration([1, 0], F, propensity=E)
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]"):
        class_calibration([1, 0, 1, 0], F, propensity=0.0)
    with pytest.raises(ValueError, match="sample_weight must be finite and at least 0"):
        class_calibration([1, 0, 1, 0], F, propensity=E, sample_weight=[1, 1, 1, -1])
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        label_calibration([1, 0, 1, 0], F, propensity=E, sample_weight=np.zeros(4))


@pytest.mark.parametrize("s", [[1, 0, 1, 0], [1, 1, 0, 1]])
def test_propensities_that_are_too_small_to_divide_by(s):
    e = np.array([0.5, 0.8, 5e-324, 0.4])
    with pytest.raises(ValueError, match=r"smallest propensity is 4\.94e-324\. With it, shares of positives cannot be"):
        class_calibration(s, F, propensity=e, n_bins=2)
    assert np.isfinite(label_calibration(s, F, propensity=e, n_bins=2).high).all()


def test_intervals_are_finite_for_levels_close_to_1():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    found = label_calibration((rng.random(300) < 0.5 * p).astype(int), p, propensity=0.5, level=np.nextafter(1.0, 0.0))
    assert np.isfinite(found.low).all()
    assert np.isfinite(found.high).all()
