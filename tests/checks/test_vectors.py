import inspect
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scarless import metrics
from scarless.checks.options import (
    check_counts,
    check_indicator,
    check_probability,
    check_propensity,
    check_random_stream,
    check_scored,
    check_vector,
    check_weight,
)
from scarless.diagnostics import ClassCalibrationDisplay, class_calibration, label_calibration

finite = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        np.array([1, 2, 3], dtype=np.int8),
        np.array([[1.0], [2.0], [3.0]], dtype=np.float32),
        pd.Series([1, 2, 3], index=[7, 8, 9]),
        pd.Series([1, 2, 3], dtype="Int64"),
        pd.DataFrame({"a": [1, 2, 3]}),
        pl.Series([1, 2, 3]),
    ],
    ids=["list", "tuple", "int8", "column", "pandas", "nullable", "frame", "polars"],
)
def test_any_column_of_numbers_becomes_a_float64_vector(values):
    vector = check_vector(values, "w", n_rows=3)
    assert vector.dtype == np.float64
    np.testing.assert_array_equal(vector, [1, 2, 3])


def test_a_scalar_is_repeated_if_the_number_of_rows_is_given():
    np.testing.assert_array_equal(check_vector(2, "w", n_rows=2), [2, 2])
    assert check_vector(2, "w", n_rows=0).shape == (0,)
    with pytest.raises(ValueError, match=r"w must have one value per row; its shape is \(\)\."):
        check_vector(2, "w")


@pytest.mark.parametrize(
    "values", [["a", "b"], [1, None, {}], [[1], [1, 2]], pd.Series([1, pd.NA], dtype="Int64").astype(object)]
)
def test_vectors_without_numbers_are_refused(values):
    with pytest.raises(ValueError, match="propensity must contain only numbers: "):
        check_vector(values, "propensity")


@pytest.mark.parametrize("shape", [(2, 2), (1, 3), (2, 1, 1)])
def test_more_than_one_value_per_row_is_refused(shape):
    with pytest.raises(ValueError, match=rf"p must have one value per row; its shape is \({str(shape)[1:-1]}\)"):
        check_vector(np.zeros(shape), "p")


def test_a_wrong_length_is_refused():
    with pytest.raises(ValueError, match="e has 2 values for 3 rows; give one value per row"):
        check_vector([1, 2], "e", n_rows=3)


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.integers(0, 5), elements=st.floats(1e-300, 1)))
def test_propensities_in_range_pass_unchanged(e):
    np.testing.assert_array_equal(check_propensity(e), e)
    np.testing.assert_array_equal(check_propensity(e[:, None], n_rows=e.size), e)


@pytest.mark.parametrize(("bad", "shown"), [(0.0, "0"), (-0.1, "-0.1"), (1.5, "1.5"), (np.nan, "nan"), (np.inf, "inf")])
def test_a_propensity_out_of_range_is_named(bad, shown):
    advice = (
        r"A propensity of 0, for rows that can never be labelled, is not supported; replace it, for example by "
        r"np\.maximum\(propensity, 0\.01\)"
    )
    message = (
        rf"propensity must lie in \(0, 1\]\. Invalid values: 2 of 4 \(first: propensity\[1\] = {shown}\)\. "
        rf"{advice if bad == 0 else 'Correct these values, or drop the rows'}\."
    )
    with pytest.raises(ValueError, match=message):
        check_propensity([0.5, bad, 1.0, bad])


def test_errors_use_the_name_of_the_propensity():
    with pytest.raises(ValueError, match=r"first: label_frequency\[0\] = 0\).*np\.maximum\(label_frequency, 0\.01\)"):
        check_propensity(0.0, n_rows=3, name="label_frequency")


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.integers(0, 5), elements=st.floats(0, 1)))
def test_probabilities_in_range_pass_unchanged(p):
    np.testing.assert_array_equal(check_probability(p), p)


@pytest.mark.parametrize(("bad", "shown"), [(-1e-9, "-1e-09"), (1.25, "1.25"), (np.nan, "nan"), (-np.inf, "-inf")])
def test_a_probability_out_of_range_is_named(bad, shown):
    message = (
        r"y_pred must contain probabilities in \[0, 1\], not logits or percentages\. Invalid values: 1 of 3 "
        rf"\(first: y_pred\[2\] = {shown}\)"
    )
    with pytest.raises(ValueError, match=message):
        check_probability([0, 1, bad])


@pytest.mark.parametrize(
    ("values", "coded"),
    [
        ([0, 1, 1], [0, 1, 1]),
        ([-1, 1, -1], [0, 1, 0]),
        ([True, False], [1, 0]),
        ([0.0, 0.0], [0, 0]),
        ([1, 1], [1, 1]),
        ([-1, -1], [0, 0]),
        ([], []),
        (np.array([[0], [1]], dtype=np.uint8), [0, 1]),
    ],
)
def test_indicators_are_coded_as_zero_and_one(values, coded):
    indicator = check_indicator(values, "s")
    assert indicator.dtype == np.float64
    np.testing.assert_array_equal(indicator, coded)


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0, 1, 2], "0, 1, 2"),
        ([-1, 0, 1], "-1, 0, 1"),
        ([0.5], "0.5"),
        ([np.nan, 1], "1, nan"),
        (range(7), "0, 1, 2, 3, 4, ..."),
    ],
)
def test_what_is_not_binary_is_refused(values, shown):
    with pytest.raises(ValueError, match=rf"y must be binary, coded 0/1, -1/\+1 or boolean; its values are {shown}\."):
        check_indicator(list(values), "y")


def test_an_indicator_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="s has 2 values for 3 rows"):
        check_indicator([0, 1], "s", n_rows=3)


def test_no_weights_are_weights_of_one():
    np.testing.assert_array_equal(check_weight(None, n_rows=3), [1, 1, 1])


@settings(deadline=None)
@given(hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(0, 1e100)))
def test_weights_pass_unchanged_unless_all_are_zero(weight):
    if weight.max() >= 1e-100:
        np.testing.assert_array_equal(check_weight(weight, n_rows=weight.size), weight)
    elif not weight.any():
        with pytest.raises(
            ValueError, match=r"sample_weight is zero for every row\. Give at least one row a positive weight"
        ):
            check_weight(weight, n_rows=weight.size)


@pytest.mark.parametrize(("bad", "shown"), [(-1.0, "-1"), (np.nan, "nan"), (np.inf, "inf")])
def test_a_bad_weight_is_named(bad, shown):
    message = (
        r"sample_weight must be finite and at least 0\. Invalid values: 1 of 3 "
        rf"\(first: sample_weight\[1\] = {shown}\)"
    )
    with pytest.raises(ValueError, match=message):
        check_weight([1.0, bad, 0.0], n_rows=3)


def test_weights_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match="sample_weight has 2 values for 3 rows; give one value per row"):
        check_weight([1, 2], n_rows=3)


@settings(deadline=None)
@given(finite, st.integers(1, 5))
def test_a_scalar_weight_counts_for_every_row(weight, n_rows):
    if 1e-100 <= weight <= 1e100:
        np.testing.assert_array_equal(check_weight(weight, n_rows=n_rows), np.full(n_rows, weight))


@pytest.mark.parametrize("seed", [7, np.random.SeedSequence(7), [1, 2]])
def test_equal_seeds_give_equal_streams(seed):
    assert check_random_stream(seed).random() == check_random_stream(seed).random()


@pytest.mark.parametrize("seed", ["a", -1, 0.5, np.nan, [1, -2], object(), np.random, True, np.False_])
def test_invalid_seeds_raise(seed):
    message = (
        "random_state must be None, a whole number of at least 0, a numpy Generator, RandomState or SeedSequence; "
        f"got {re.escape(repr(seed))}"
    )
    with pytest.raises(ValueError, match=message):
        check_random_stream(seed)


def test_a_generator_is_used_and_a_random_state_seeds_one():
    generator = np.random.default_rng(0)
    assert check_random_stream(generator) is generator
    streams = [check_random_stream(np.random.RandomState(0)) for _ in range(2)]
    assert streams[0].random() == streams[1].random()
    legacy = np.random.RandomState(0)
    assert check_random_stream(legacy).random() != check_random_stream(legacy).random()
    assert check_random_stream(None).random() != check_random_stream(None).random()


@pytest.mark.parametrize("value", [1e301, 1e308, np.finfo(float).max, 1e101, 1e-101, 1e-310, 5e-324])
def test_extreme_counts_are_refused(value):
    message = r"sample_weight: the largest weight must lie between 1e-100 and 1e\+100, so that sums are accurate; got"
    with pytest.raises(ValueError, match=message):
        check_counts(np.full(3, value), n_rows=3)
    with pytest.raises(ValueError, match=r"divide by the largest .*: sample_weight / np\.max\(sample_weight\)"):
        check_counts(pd.Series([0.0, value]), n_rows=2)


@pytest.mark.parametrize("scale", [1e301, 1e307, 1e-290, 1.0])
def test_ratios_of_weights_are_kept_at_any_scale(scale):
    """Only ratios of weights matter: ratios are kept to the last digit, and sums stay finite."""
    weight = check_weight(np.array([1.0, 3.0, 0.0, 5.0]) * scale, n_rows=4)
    np.testing.assert_array_equal(weight[[0, 1, 2]] / weight[3], np.array([1.0, 3.0, 0.0]) * scale / (5.0 * scale))
    assert 0 < (weight**2).sum() < np.inf


def test_a_negligible_count_becomes_zero():
    np.testing.assert_array_equal(check_counts([5e-324, 1.0, 1e-99], n_rows=3), [0.0, 1.0, 1e-99])
    np.testing.assert_array_equal(check_counts([1e-100, 1e-100], n_rows=2), [1e-100, 1e-100])
    np.testing.assert_array_equal(check_counts(None, n_rows=2), [1.0, 1.0])
    np.testing.assert_array_equal(check_counts(3, n_rows=2), [3.0, 3.0])


def test_integers_too_large_for_floats_are_refused():
    with pytest.raises(ValueError, match="propensity must contain only numbers: int too large to convert to float"):
        check_propensity([0.5, 10**400])


# --- labels and predictions of the same rows


S = np.array([1, 0, 1, 0, 0, 0])
P = np.array([0.9, 0.2, 0.8, 0.4, 0.1, 0.6])
FUNCTIONS = {
    name: value
    for name, value in {
        **{name: getattr(metrics, name) for name in metrics.__all__},
        "label_calibration": label_calibration,
        "class_calibration": class_calibration,
        "from_predictions": ClassCalibrationDisplay.from_predictions,
    }.items()
    if inspect.isfunction(value) or inspect.ismethod(value)
}
POSITIONAL = {
    name: [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    for name, function in FUNCTIONS.items()
}
JUDGES = [name for name, words in POSITIONAL.items() if "y_pred" in words and len(words) == 2]


def test_all_metrics_have_the_same_order_of_arguments():
    assert len(JUDGES) == 18
    assert {tuple(POSITIONAL[name]) for name in JUDGES} == {("s", "y_pred"), ("y", "y_pred")}
    assert {name for name in JUDGES if POSITIONAL[name][0] == "y"} == {"true_risk", "risk_bias"}
    for name, function in FUNCTIONS.items():
        for word in ("propensity", "estimated_propensity", "sample_weight"):
            parameter = inspect.signature(function).parameters.get(word)
            assert parameter is None or parameter.kind is parameter.KEYWORD_ONLY, name


def _options(name):
    wanted = inspect.signature(FUNCTIONS[name]).parameters
    return {word: 0.5 for word in ("propensity", "estimated_propensity") if word in wanted}


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.parametrize("labels", [S, 2 * S - 1, S == 1], ids=["0/1", "-1/+1", "boolean"])
def test_swapped_arguments_raise(name, labels):
    message = "must be binary.*its values are 0.1, .*Labels come first and predictions second: y_pred is binary here"
    with pytest.raises(ValueError, match=message):
        FUNCTIONS[name](P, labels, **_options(name))


@pytest.mark.parametrize("name", JUDGES)
def test_a_propensity_by_position_is_refused(name):
    options = _options(name)
    if options:
        with pytest.raises(TypeError, match="positional argument"):
            FUNCTIONS[name](P, S, *options.values())


def test_invalid_labels_are_not_reported_as_swapped():
    for labels in ([0, 1, 2, 0, 1, 0], np.full(6, np.nan)):
        with pytest.raises(ValueError, match=r"s must be binary, coded 0/1, -1/\+1 or boolean; its values are [^L]*$"):
            check_scored(labels, P)
    with pytest.raises(ValueError, match=r"s must be binary[^L]*$"):
        check_scored([0, 1, np.nan], [0, 1, 1])
    with pytest.raises(ValueError, match="s must contain only numbers"):
        check_scored(["a", "b"], [0, 1])


def test_labels_and_predictions_must_have_equal_lengths():
    with pytest.raises(ValueError, match="y has 5 values for 6 rows"):
        check_scored(S[:5], P, name="y")
    with pytest.raises(ValueError, match="s must have one value per row"):
        check_scored(1, P)
    with pytest.raises(ValueError, match="y_pred must have one value per row"):
        check_scored(S, 0.5)
