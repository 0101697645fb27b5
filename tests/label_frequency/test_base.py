"""The base class of label frequency estimators, tested with a trivial subclass."""

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from scarless.label_frequency._base import (
    FrequencyEstimate,
    LabelFrequencyEstimator,
    half_sample_interval,
    possible_label_frequency,
)


class Fixed(LabelFrequencyEstimator):
    """Returns the same class prior for every sample, and records its inputs."""

    def __init__(self, prior=0.5, *, n_resamples=0, random_state=None, pos_label=None):
        self.prior = prior
        self.n_resamples = n_resamples
        self.random_state = random_state
        self.pos_label = pos_label

    def _check_options(self):
        if self.prior == "wrong":
            raise ValueError("prior is wrong")

    def _prepare(self, X, s, w, rng):
        self.table_, self.labels_, self.weights_, self.drawn_ = X, s, w, rng.random()
        return X, s, w

    def _estimate(self, sample, s, w, rng):
        return FrequencyEstimate(self.prior)


class Above(Fixed):
    """Estimates the class prior by the share of rows whose first attribute is above 0, which is a mean."""

    def _estimate(self, sample, s, w, rng):
        return FrequencyEstimate(np.average(sample[:, 0] > 0, weights=w), {"largest": sample[:, 0].max()})


def table(n=200, seed=0, positives=0.5, c=0.5):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < positives
    X = np.where(y, 1.0, -1.0)[:, None] * rng.exponential(size=(n, 2))
    return X, (y & (rng.random(n) < c)).astype(int)


# --- the fit


def test_class_prior_times_label_frequency_is_the_share_of_labelled_rows():
    X, s = table()
    model = Fixed(0.6).fit(X, s)
    assert model.class_prior_ == pytest.approx(0.6)
    assert model.label_frequency_ == pytest.approx(s.mean() / 0.6)
    assert model.label_frequency_ * model.class_prior_ == pytest.approx(s.mean())
    with pytest.raises(
        ValueError, match=r"This Fixed has no interval, because it was fitted with n_resamples=0\. Set n_resamples"
    ):
        model.label_frequency_interval()
    assert model.n_features_in_ == 2


def test_further_results_are_stored_with_an_underscore():
    X, s = table()
    assert Above().fit(X, s).largest_ == X[:, 0].max()


def test_the_order_of_rows_changes_neither_results_nor_drawn_rows():
    X, s = table()
    order = np.random.default_rng(1).permutation(s.size)
    one = Above(n_resamples=20, random_state=3).fit(X, s)
    other = Above(n_resamples=20, random_state=3).fit(X[order], s[order])
    np.testing.assert_array_equal(one.table_, other.table_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert one.drawn_ == other.drawn_
    assert one.label_frequency_ == other.label_frequency_
    assert one.label_frequency_interval() == other.label_frequency_interval()


def test_rows_keep_their_labels():
    X, s = table()
    model = Fixed().fit(X, s)
    rows = [(*row, label) for row, label in zip(X.tolist(), s, strict=True)]
    kept = [(*row, label) for row, label in zip(model.table_.tolist(), model.labels_, strict=True)]
    assert sorted(rows) == sorted(kept)
    assert rows != kept


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, sparse.csr_array, np.float32, np.asfortranarray])
def test_tables_of_any_kind_become_arrays(convert):
    X, s = table()
    X = X if convert in (np.float32, np.asfortranarray) else np.round(X, 3)
    given = convert(X) if convert is not pd.DataFrame else pd.DataFrame(X, columns=["a", "b"])
    model = Fixed(0.6).fit(given, s)
    assert model.label_frequency_ == pytest.approx(s.mean() / 0.6)
    assert sparse.issparse(model.table_) or isinstance(model.table_, np.ndarray)
    assert hasattr(model, "feature_names_in_") == (convert in (pd.DataFrame, pl.DataFrame))


def test_labels_of_other_codings():
    X, s = table()
    for labels, pos_label in ((2 * s - 1, None), (s == 1, None), (np.where(s == 1, "a", "b"), "a")):
        model = Fixed(0.6, pos_label=pos_label).fit(X, labels)
        np.testing.assert_array_equal(np.sort(model.labels_), np.sort(s))
    with pytest.warns(UserWarning, match="pos_label is not given.* The last value in sorted order, 'b'"):
        Fixed(0.9).fit(X, np.where(s == 1, "b", "a"))


def test_a_second_fit_forgets_the_first():
    X, s = table()
    model = Above(n_resamples=20, random_state=0).fit(X, s)
    model.set_params(n_resamples=0).fit(X, s)
    for interval in (model.label_frequency_interval, model.class_prior_interval):
        with pytest.raises(ValueError, match="it was fitted with n_resamples=0"):
            interval()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": -1}, "n_resamples must be a whole number of at least 0; got -1"),
        ({"n_resamples": 1.5}, "n_resamples must be a whole number of at least 0; got 1.5"),
        ({"prior": "wrong"}, "prior is wrong"),
        ({"prior": np.nan}, r"Fixed estimated a label frequency of NaN from 200 rows"),
    ],
)
def test_a_failed_fit_leaves_no_half_fitted_estimator(options, message):
    X, s = table()
    model = Fixed(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, s)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


def test_options_are_checked_before_the_table():
    with pytest.raises(ValueError, match="n_resamples"):
        Fixed(n_resamples=-1).fit(None, None)
    with pytest.raises(ValueError, match="requires y to be passed"):
        Fixed().fit([[1.0], [2.0]], None)


@pytest.mark.parametrize(
    ("prior", "expected"), [(0.0, 1.0), (1e-3, 1.0), (1.0, None), (7.0, None), (np.inf, None)], ids=str
)
def test_impossible_priors_are_clipped_with_a_warning(prior, expected):
    X, s = table()
    with pytest.warns(UserWarning, match="Fixed estimates a (class prior|label frequency) of") as record:
        model = Fixed(prior).fit(X, s)
    assert len(record) == 1
    assert record[0].filename == __file__
    least = s.mean() / (1 - 1 / s.size)
    assert model.label_frequency_ == pytest.approx(least if expected is None else expected)
    assert model.class_prior_ == pytest.approx(s.mean() / model.label_frequency_)


def test_tags_allow_the_tables_that_the_inner_estimator_accepts():
    class Reading(Fixed):
        def _inner(self):
            return self.prior

    tags = [get_tags(Reading(inner)).input_tags for inner in (None, HistGradientBoostingClassifier(), dict)]
    assert [(tag.sparse, tag.allow_nan) for tag in tags] == [(True, False), (False, True), (True, False)]
    assert get_tags(Fixed()).target_tags.required
    assert not get_tags(Fixed()).classifier_tags.multi_class


def test_the_base_class_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        LabelFrequencyEstimator()


# These warnings are expected: the checks label more rows than a class prior of 0.5 allows.
@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:Fixed estimates:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([Fixed()])
def test_a_subclass_passes_scikit_learns_checks(estimator, check):
    check(estimator)


# --- intervals of a fit


def test_intervals_are_about_the_estimates():
    X, s = table(n=400)
    model = Above(n_resamples=400, random_state=0).fit(X, s)
    low, high = model.class_prior_interval()
    assert s.mean() < low < model.class_prior_ < high < 1
    p = model.class_prior_  # the mean of 400 zeros and ones
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(p * (1 - p) / 400), rel=0.15)
    low, high = model.label_frequency_interval()
    c = model.label_frequency_  # the mean of the labels of the positive rows
    assert low < c < high
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(c * (1 - c) / (400 * p)), rel=0.15)


def test_a_lower_level_is_a_shorter_interval():
    X, s = table(n=400)
    lengths = []
    for level in (0.5, 0.9, 0.99):
        low, high = Above(n_resamples=100, random_state=0).fit(X, s).class_prior_interval(level=level)
        lengths.append(high - low)
    with pytest.raises(ValueError, match=r"level must lie strictly between 0 and 1; got 1\.0"):
        Above(n_resamples=20).fit(X, s).class_prior_interval(level=1.0)
    assert lengths == sorted(lengths)
    assert lengths[0] < 0.6 * lengths[2]


def test_with_a_constant_class_prior_only_the_share_of_labels_varies():
    X, s = table()
    model = Fixed(0.6, n_resamples=400, random_state=0).fit(X, s)
    assert model.class_prior_interval() == pytest.approx((0.6, 0.6))
    share = s.mean()
    spread = 1.96 * np.sqrt(share * (1 - share) / s.size) / 0.6
    expected = (share / 0.6 - spread, share / 0.6 + spread)
    assert model.label_frequency_interval() == pytest.approx(expected, abs=0.2 * spread)


@pytest.mark.parametrize(("positives", "c"), [(0.9, 0.97), (0.97, 0.5), (0.5, 1.0)])
def test_intervals_stay_possible(positives, c):
    X, s = table(positives=positives, c=c)
    model = Above(n_resamples=50, random_state=0).fit(X, s)
    for low, high in (model.class_prior_interval(), model.label_frequency_interval()):
        assert s.mean() <= low <= high <= 1


def test_halves_are_distinct_rows_in_their_order():
    class Remembering(Fixed):
        def _prepare(self, X, s, w, rng):
            self.samples_ = []
            return np.column_stack([np.arange(s.size), s]), s, w

        def _estimate(self, sample, s, w, rng):
            np.testing.assert_array_equal(sample[:, 1], s)
            self.samples_.append(sample[:, 0].astype(int))
            return FrequencyEstimate(0.9)

    X, s = table(n=101)
    whole, *halves = Remembering(n_resamples=40, random_state=0).fit(X, s).samples_
    np.testing.assert_array_equal(whole, np.arange(101))
    assert [rows.size for rows in halves] == [50] * 40
    assert all((np.diff(rows) > 0).all() for rows in halves)
    assert len({tuple(rows) for rows in halves}) == 40
    assert set(np.concatenate(halves)) == set(range(101))


def test_warnings_of_an_estimate_are_given_once():
    class Rough(Fixed):
        def _estimate(self, sample, s, w, rng):
            return FrequencyEstimate(0.6, {}, (("a rough estimate", RuntimeWarning),))

    X, s = table()
    with pytest.warns(RuntimeWarning, match="a rough estimate") as record:
        Rough(n_resamples=20).fit(X, s)
    assert len(record) == 1
    assert record[0].filename == __file__


@pytest.mark.parametrize("labelled", [19, 81])
def test_an_interval_needs_rows_of_both_kinds(labelled):
    s = np.arange(100) < labelled
    message = (
        "n_resamples=50: an interval needs at least 20 labelled and 20 unlabelled rows; "
        f"{labelled} and {100 - labelled} are used. Use more rows, or set n_resamples=0 for no interval."
    )
    model = Fixed(0.9, n_resamples=50)
    with pytest.raises(ValueError, match=message):
        model.fit(np.arange(200.0).reshape(100, 2), s)
    model.set_params(n_resamples=0).fit(np.arange(200.0).reshape(100, 2), s)


# --- half samples


def test_quantiles_by_hand():
    low, high = half_sample_interval(7.0, np.random.default_rng(0).permutation(np.arange(101.0)), 0.9)
    assert (low, high) == pytest.approx((7.0 - 45.0, 7.0 + 45.0))


def test_the_interval_of_a_skewed_estimate_is_mirrored():
    # If some half-samples are far above the estimate, the true value may be far below it.
    low, high = half_sample_interval(0.5, np.repeat([0.0, 1.0], [90, 10]), 0.9)
    assert (low, high) == pytest.approx((0.5 - 0.9, 0.5 + 0.1))


@settings(max_examples=50, deadline=None)
@given(
    shift=st.floats(-10, 10),
    scale=st.floats(0.1, 10),
    seed=st.integers(0, 100),
    level=st.sampled_from([0.5, 0.9, 0.99]),
)
def test_an_interval_stretches_with_the_halves_and_moves_with_the_estimate(shift, scale, seed, level):
    halves = np.random.default_rng(seed).normal(size=25)
    low, high = half_sample_interval(0.0, halves, level)
    moved = half_sample_interval(shift, scale * halves + 3.0, level)
    assert moved == pytest.approx([shift + scale * low, shift + scale * high], abs=1e-9)


def test_means_of_half_samples_have_the_variance_of_the_mean():
    """The identity behind the interval, by enumeration: half-sample means have the variance of the mean."""
    values = np.array([0.3, -1.2, 2.2, 0.7, 5.0, -0.4, 0.0, 1.1])
    means = [values[list(rows)].mean() for rows in combinations(range(8), 4)]
    assert np.var(means) == pytest.approx(values.var(ddof=1) / 8)


def test_an_interval_of_a_mean_has_its_nominal_coverage():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(200):
        values = rng.normal(size=60)
        halves = np.array([values[rng.permutation(60)[:30]].mean() for _ in range(200)])
        low, high = half_sample_interval(values.mean(), halves, 0.9)
        covered.append(low < 0 < high)
    assert np.mean(covered) == pytest.approx(0.9, abs=0.064)  # three standard errors


# --- possible label frequencies


@pytest.mark.parametrize("c", [0.25 / (1 - 1 / 8), 0.3, 0.999, 1.0])
def test_possible_frequencies_are_returned_without_a_warning(c):
    assert possible_label_frequency(c, 0.25, 8, "Name") == c


@pytest.mark.parametrize(
    ("c", "used", "message"),
    [
        (
            1.25,
            1.0,
            r"Name estimates a class prior of 0.2, but the share of labelled rows is 0.25, and labelled rows are "
            r"positive\. The label frequency is set to 1, which means that every positive is labelled\.",
        ),
        (np.inf, 1.0, "Name estimates a class prior of 0, but"),
        (0.25, 2 / 7, r"Name estimates a label frequency of 0.25\. .* be positive, because the share of .* is 0.25\. "),
        (0.0, 2 / 7, r"label frequency of 0\. .* is set to 0.286, so that one row is negative"),
        (-1.0, 2 / 7, "label frequency of -1"),
        (-np.inf, 2 / 7, "label frequency of -inf"),
    ],
)
def test_impossible_frequencies_are_replaced_by_the_nearest_possible_value(c, used, message):
    with pytest.warns(UserWarning, match=message) as record:
        assert possible_label_frequency(c, 0.25, 8, "Name") == pytest.approx(used)
    assert record[0].filename == __file__


def test_nan_is_an_error():
    with pytest.raises(ValueError, match=r"Name estimated a label frequency of NaN from 8 rows"):
        possible_label_frequency(np.nan, 0.25, 8, "Name")


@pytest.mark.filterwarnings("ignore:Name estimates:UserWarning")
@settings(max_examples=200, deadline=None)
@given(labelled=st.integers(1, 500), unlabelled=st.integers(1, 500), c=st.floats(allow_nan=False))
def test_the_result_is_possible_and_is_not_changed_again(labelled, unlabelled, c):
    s = np.repeat([1.0, 0.0], [labelled, unlabelled])
    possible = possible_label_frequency(c, s.mean(), s.size, "Name")
    assert s.mean() < possible <= 1
    assert s.sum() / possible <= s.size - 1 + 1e-9  # at least one row is negative
    assert possible_label_frequency(possible, s.mean(), s.size, "Name") == possible
