"""Theorems about the mechanisms that have a formula, and the errors of their parameters."""

import pickle
from dataclasses import FrozenInstanceError
from itertools import product
from math import prod

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit

from scarless.labelling import (
    SCAR,
    ClassProbabilityCurve,
    GeometricMeanSAR,
    LogisticSAR,
    ProbabilisticGap,
    StepSAR,
    StratifiedSAR,
)
from scarless.labelling.mechanisms import NAMED_CURVES

K = 3
unit = st.floats(0, 1).map(lambda value: round(value, 6))
unit_rows = st.integers(1, 12).flatmap(lambda n: arrays(np.float64, (n, K), elements=unit))
ranges_of_e = st.tuples(st.floats(0.01, 0.49), st.floats(0.51, 1.0))
all_signs = st.tuples(*[st.sampled_from([-1, 1])] * K)
UNIT_RANGES = ((0.0, 1.0),) * K


EVERY_MECHANISM = [
    SCAR(0.3),
    GeometricMeanSAR([0, 1], signs=[1, -1], ranges=[(0, 1), (0, 1)]),
    LogisticSAR([0, 1], [1.0, -2.0], 0.5),
    ProbabilisticGap(power=2.0),
    ClassProbabilityCurve.named("S4"),
    StratifiedSAR([0], {0.0: 0.2, 0.5: 0.3, 1.0: 0.4}),
    StepSAR(1, [0.5], [0.2, 0.6]),
]


# Every mechanism


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM, ids=lambda m: type(m).__name__)
def test_a_mechanism_is_a_frozen_value(mechanism):
    copy = pickle.loads(pickle.dumps(mechanism))
    assert copy == mechanism
    assert hash(copy) == hash(mechanism)
    assert type(mechanism).__name__ in repr(mechanism)
    with pytest.raises(FrozenInstanceError):
        mechanism.low = 0.1


@pytest.mark.parametrize("mechanism", EVERY_MECHANISM, ids=lambda m: type(m).__name__)
def test_rows_do_not_influence_each_other(mechanism):
    X = np.array([[0.0, 0.2], [0.5, 0.4], [1.0, 0.9], [0.5, 0.5]])
    p = np.array([0.1, 0.9, 0.4, 0.6])
    e = mechanism.fitted(X).propensity(X, class_probability=p)
    assert e.dtype == np.float64
    order = [2, 0, 3, 1]
    np.testing.assert_array_equal(mechanism.fitted(X).propensity(X[order], class_probability=p[order]), e[order])
    one_by_one = [mechanism.fitted(X).propensity(X[[i]], class_probability=p[[i]])[0] for i in range(4)]
    np.testing.assert_array_equal(one_by_one, e)


@pytest.mark.parametrize(
    ("mechanism", "assumption"),
    [
        (SCAR(0.3), "SCAR"),
        (GeometricMeanSAR([0]), "SAR"),
        (LogisticSAR([0], [1.0]), "SAR"),
        (StratifiedSAR([0], {0: 0.5}), "SAR"),
        (StepSAR(0, [], [0.5]), "SAR"),
        (ProbabilisticGap(), "SNAR"),
        (ClassProbabilityCurve(), "SNAR"),
    ],
)
def test_assumption(mechanism, assumption):
    assert mechanism.assumption == assumption


def test_only_a_snar_mechanism_changes_with_the_class_probability():
    X = np.array([[0.0, 0.2], [1.0, 0.9]])
    for mechanism in EVERY_MECHANISM:
        e = [mechanism.propensity(X, class_probability=p) for p in ([0.1, 0.2], [0.8, 0.9])]
        assert (mechanism.assumption == "SNAR") == (e[0] != e[1]).any()


def test_class_probability_errors():
    with pytest.raises(ValueError, match="class_probability has 3 values for 2 rows"):
        SCAR(0.5).propensity([[0], [1]], class_probability=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match=r"class_probability must contain probabilities in \[0, 1\]"):
        SCAR(0.5).propensity([[0], [1]], class_probability=[0.1, 1.2])


def test_a_vector_is_not_a_table():
    with pytest.raises(ValueError, match=r"X must be a table with rows and columns; its shape is \(3,\)"):
        SCAR(0.5).propensity([0.0, 1.0, 2.0])


# SCAR


@given(st.floats(0, 1, exclude_min=True), st.integers(0, 5))
def test_scar_is_constant(c, n):
    np.testing.assert_array_equal(SCAR(c).propensity(np.zeros((n, 2))), np.full(n, c))


@pytest.mark.parametrize("c", [0.0, -0.1, 1.5])
def test_scar_out_of_range(c):
    with pytest.raises(ValueError, match=r"label_frequency must lie in \(0, 1\]; it is"):
        SCAR(c)


@pytest.mark.parametrize("c", [np.nan, "0.3", True, None, [0.3]])
def test_scar_wants_a_number(c):
    with pytest.raises(ValueError, match="label_frequency must be a finite number; it is"):
        SCAR(c)


# GeometricMeanSAR


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("coding", [(0, 1), (-1, 1), (20.0, 60.0)])
def test_the_papers_formula_on_all_binary_rows(k, coding):
    rows = list(product([0, 1], repeat=k))
    expected = [prod((0.2 ** (1 - x) * 0.8**x) ** (1 / k) for x in row) for row in rows]
    X = np.array([[coding[x] for x in row] for row in rows])
    np.testing.assert_allclose(GeometricMeanSAR(range(k)).propensity(X), expected, rtol=1e-14)


@given(unit_rows, ranges_of_e, all_signs)
def test_geometric_mean_formula_and_range(X, low_high, signs):
    low, high = low_high
    e = GeometricMeanSAR(range(K), low, high, signs, ranges=UNIT_RANGES).propensity(X)
    expected = [
        prod(
            (low ** (1 - x) * high**x) ** (1 / K)
            for x in (value if sign > 0 else 1 - value for value, sign in zip(row, signs, strict=True))
        )
        for row in X
    ]
    np.testing.assert_allclose(e, expected, rtol=1e-12)
    assert ((e >= low) & (e <= high)).all()


@given(unit_rows, ranges_of_e, all_signs, st.integers(0, K - 1), st.floats(0, 1))
def test_geometric_mean_moves_with_the_sign(X, low_high, signs, i, step):
    mechanism = GeometricMeanSAR(range(K), *low_high, signs, ranges=UNIT_RANGES)
    more = X.copy()
    more[:, i] += step * (1 - more[:, i])
    change = signs[i] * (mechanism.propensity(more) - mechanism.propensity(X))
    assert (change >= -1e-15).all()


@given(unit_rows, all_signs)
def test_a_sign_is_a_mirror_of_its_attribute(X, signs):
    mirrored = np.where(np.array(signs) > 0, X, 1 - X)
    flipped = GeometricMeanSAR(range(K), signs=signs, ranges=UNIT_RANGES).propensity(X)
    plain = GeometricMeanSAR(range(K), ranges=UNIT_RANGES).propensity(mirrored)
    np.testing.assert_allclose(flipped, plain, rtol=1e-12)


@given(unit_rows, all_signs)
def test_opposite_signs_multiply_to_low_times_high(X, signs):
    one = GeometricMeanSAR(range(K), signs=signs, ranges=UNIT_RANGES).propensity(X)
    other = GeometricMeanSAR(range(K), signs=[-sign for sign in signs], ranges=UNIT_RANGES).propensity(X)
    np.testing.assert_allclose(one * other, 0.2 * 0.8, rtol=1e-12)


def test_geometric_mean_does_not_depend_on_units_or_column_order():
    X = np.random.default_rng(3).normal(size=(50, 3))
    e = GeometricMeanSAR([0, 2], signs=[1, -1]).propensity(X)
    np.testing.assert_allclose(GeometricMeanSAR([0, 2], signs=[1, -1]).propensity(32 + 1.8 * X), e, rtol=1e-12)
    np.testing.assert_allclose(GeometricMeanSAR([2, 0], signs=[-1, 1]).propensity(X), e, rtol=1e-12)


def test_fitted_gives_training_and_test_rows_one_scale():
    train = np.array([[0.0], [10.0], [5.0]])
    test = train[[2]]
    mechanism = GeometricMeanSAR([0])
    assert mechanism.ranges is None
    fixed = mechanism.fitted(train)
    assert fixed == GeometricMeanSAR([0], ranges=[(0, 10)])
    np.testing.assert_array_equal(fixed.propensity(test), fixed.propensity(train)[[2]])
    np.testing.assert_array_equal(mechanism.propensity(train), fixed.propensity(train))
    assert mechanism.ranges is None


def test_values_outside_the_range():
    X = [[5.0], [12.0], [-3.0]]
    with pytest.raises(
        ValueError,
        match=r"attribute 0 has 2 of 3 values outside its range \[0, 10\] \(first: row 1 = 12; rows are counted.*clip",
    ):
        GeometricMeanSAR([0], ranges=[(0, 10)]).propensity(X)
    clipped = GeometricMeanSAR([0], ranges=[(0, 10)], outside="clip").propensity(X)
    np.testing.assert_allclose(clipped, [0.4, 0.8, 0.2])


def test_constant_attribute():
    X = np.array([[1.0, 3.0], [2.0, 3.0]])
    message = r"attribute 1 is 3 in every row, so it cannot be scaled to \[0, 1\]"
    with pytest.raises(ValueError, match=message):
        GeometricMeanSAR([0, 1]).propensity(X)
    with pytest.raises(ValueError, match=message):
        GeometricMeanSAR([0, 1]).fitted(X)
    assert GeometricMeanSAR([1], ranges=[(0, 3)]).propensity(X).tolist() == [0.8, 0.8]


def test_no_rows():
    with pytest.raises(ValueError, match="X has no rows, so the attributes have no minimum and maximum"):
        GeometricMeanSAR([0]).propensity(np.empty((0, 1)))
    assert GeometricMeanSAR([0], ranges=[(0, 1)]).propensity(np.empty((0, 1))).shape == (0,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 0.0}, r"low must lie in \(0, 1\]; it is 0"),
        ({"low": -0.2}, r"low must lie in \(0, 1\]; it is -0.2"),
        ({"high": 1.1}, r"high must lie in \(0, 1\]; it is 1.1"),
        ({"high": np.nan}, "high must be a finite number; it is nan"),
        (
            {"low": 0.8, "high": 0.2},
            "low must be below high; low is 0.8 and high is 0.2.*set the entry of signs for the attribute to -1",
        ),
        ({"low": 0.5, "high": 0.5}, r"For a constant propensity, use SCAR\(0.5\)"),
        ({"signs": [1]}, "signs must have one value for each attribute.*: 2; number of values: 1"),
        ({"signs": [1, 0]}, r"signs must be \+1 or -1; signs\[1\] is 0"),
        ({"signs": [1, 0.5]}, r"signs must be \+1 or -1; signs\[1\] is 0.5"),
        ({"signs": [True, True]}, r"signs must be \+1 or -1; signs\[0\] is True"),
        ({"signs": [1, None]}, r"signs must be \+1 or -1; signs\[1\] is None"),
        (
            {"ranges": [(0, 1)]},
            "ranges must have one value for each attribute.*: 2; number of values: 1",
        ),
        ({"ranges": [(0, 1), (1, 1)]}, r"ranges\[1\] must have a minimum below its maximum.* \(1, 1\)"),
        ({"ranges": [(0, 1), 7]}, r"ranges\[1\] must be a pair \(minimum, maximum\); it is 7"),
        (
            {"ranges": [(0, np.inf), (0, 1)]},
            r"ranges\[0\]\[1\] must be a finite number; it is inf",
        ),
        ({"outside": "ignore"}, "outside must be one of 'raise', 'clip'; got 'ignore'"),
        ({"outside": pd.DataFrame({"a": [1]})}, "outside must be one of 'raise', 'clip'; got a DataFrame of shape"),
    ],
)
def test_geometric_mean_parameter_errors(options, message):
    with pytest.raises(ValueError, match=message):
        GeometricMeanSAR(["a", "b"], **options)


# LogisticSAR


@given(unit_rows, st.tuples(*[st.floats(-5, 5)] * K), st.floats(-5, 5), ranges_of_e)
def test_logistic_closed_form(X, coefficients, intercept, low_high):
    low, high = low_high
    logit = [intercept + sum(w * x for w, x in zip(coefficients, row, strict=True)) for row in X]
    plain = LogisticSAR(range(K), coefficients, intercept).propensity(X)
    np.testing.assert_allclose(plain, expit(logit), rtol=1e-12)
    e = LogisticSAR(range(K), coefficients, intercept, low=low, high=high).propensity(X)
    np.testing.assert_allclose(e, low + (high - low) * expit(logit), rtol=1e-12)
    assert ((e >= low) & (e <= high)).all()


def test_turning_all_logits_around_mirrors_the_curve():
    X = np.random.default_rng(0).normal(size=(20, 2))
    e = LogisticSAR([0, 1], [1.5, -2.0], 0.3).propensity(X)
    np.testing.assert_allclose(LogisticSAR([0, 1], [-1.5, 2.0], -0.3).propensity(X), 1 - e, rtol=1e-12)


def test_logistic_does_not_scale_attributes():
    X = np.array([[1.0, 7.0], [1.0, 8.0]])
    np.testing.assert_allclose(LogisticSAR([0], [2.0]).propensity(X), expit(2.0))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (
            ([0, 1], [1.0]),
            {},
            "coefficients must have one value for each attribute.*: 2; number of values: 1",
        ),
        (([0], [np.inf]), {}, r"coefficients\[0\] must be a finite number; it is inf"),
        (([0], [1.0], "x"), {}, "intercept must be a finite number; it is 'x'"),
        (([0], [1.0]), {"low": -0.1}, r"low must lie in \(0, 1\]"),
        (([0], [1.0]), {"high": 0.0}, r"high must lie in \(0, 1\]"),
        (([0], [1.0]), {"low": 0.6, "high": 0.5}, "low must be below high"),
    ],
)
def test_logistic_parameter_errors(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        LogisticSAR(*arguments, **options)


def test_logistic_that_underflows_to_zero():
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]\. Invalid values: 1 of 2"):
        LogisticSAR([0], [1.0]).propensity([[0.0], [-1000.0]])


# ProbabilisticGap


probabilities = st.lists(unit, min_size=2, max_size=10)
powers = st.sampled_from([0.5, 1.0, 3.0])


@given(probabilities, ranges_of_e, powers, st.booleans())
def test_gap_closed_form(p, low_high, power, absolute):
    low, high = low_high
    X, p = np.zeros((len(p), 1)), np.array(p)
    gap = p - (1 - p)
    share = np.abs(gap) if absolute else (1 + gap) / 2
    for direction, t in [("increasing", share), ("decreasing", 1 - share)]:
        mechanism = ProbabilisticGap(low, high, power=power, direction=direction, absolute=absolute)
        e = mechanism.propensity(X, class_probability=p)
        np.testing.assert_allclose(e, low + (high - low) * t**power, rtol=1e-6)
        assert ((e >= low) & (e <= high)).all()


@given(probabilities, powers)
def test_gap_direction(p, power):
    p = np.sort(p)
    X = np.zeros((len(p), 1))
    falling = ProbabilisticGap(power=power, direction="decreasing").propensity(X, class_probability=p)
    rising = ProbabilisticGap(power=power).propensity(X, class_probability=p)
    assert (np.diff(falling) <= 0).all()
    assert (np.diff(rising) >= 0).all()


def test_the_absolute_gap_treats_both_classes_alike():
    p = np.linspace(0, 1, 9)
    e = ProbabilisticGap(absolute=True, direction="decreasing").propensity(np.zeros((9, 1)), class_probability=p)
    np.testing.assert_allclose(e, e[::-1])
    assert e.argmax() == 4


@pytest.mark.parametrize("direction", ["decreasing", "increasing"])
def test_with_separable_classes_every_positive_has_the_same_propensity(direction):
    y = np.array([0, 1, 1, 0, 1])
    e = ProbabilisticGap(direction=direction).propensity(np.zeros((5, 1)), class_probability=y)
    assert len(set(e[y == 1])) == 1


def test_gap_needs_the_class_probability():
    with pytest.raises(ValueError, match=r"ProbabilisticGap needs the true class probability .*class_probability=p"):
        ProbabilisticGap().propensity([[0.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 0}, r"low must lie in \(0, 1\]"),
        ({"low": 0.9}, "low must be below high"),
        ({"power": 0}, "power must be positive; it is 0"),
        ({"power": "1"}, "power must be a finite number"),
        ({"direction": "down"}, "direction must be 'decreasing' or 'increasing'; it is 'down'"),
    ],
)
def test_gap_parameter_errors(options, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticGap(**options)


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_integers_too_large_for_floats_are_refused_as_parameters(number):
    with pytest.raises(ValueError, match="high must be a finite number; it is an integer of 1329 bits"):
        ProbabilisticGap(high=number)
    with pytest.raises(ValueError, match=r"coefficients\[0\] must be a finite number; it is an integer of 1329 bits"):
        LogisticSAR([0], [number])


@pytest.mark.parametrize("ranges", [0.5, False, -np.inf, 10**400, "ab"])
def test_ranges_are_a_list_of_pairs(ranges):
    with pytest.raises(
        ValueError, match=r"ranges must be a list with one pair \(minimum, maximum\) for each attribute"
    ):
        GeometricMeanSAR([0], ranges=ranges)


@pytest.mark.parametrize("value", [np.array([True, False]), pd.NA, "a", None])
def test_flags_and_directions_are_checked_at_once(value):
    with pytest.raises(ValueError, match="absolute must be True or False; got "):
        ProbabilisticGap(absolute=value)
    with pytest.raises(ValueError, match="direction must be 'decreasing' or 'increasing'; it is "):
        ProbabilisticGap(direction=value)


def test_products_that_overflow_to_both_infinities_are_refused():
    X = np.array([[1e10, -1e10], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"overflow to both \+inf and -inf"):
        LogisticSAR([0, 1], [1e300, 1e300]).propensity(X)
    np.testing.assert_array_equal(LogisticSAR([0], [1e300], low=0.2, high=0.8).propensity(X[:1]), [0.8])


# ClassProbabilityCurve

CURVES = {  # formulas of the publications
    "S1": lambda p: 0.1 + 0.0 * p,
    "S2": lambda p: 0.1 * p,
    "S3": lambda p: 1 / (1 + np.exp(0.5 * p + 1.5)),
    "S4": lambda p: 0.5 / (1 + np.exp(0.5 * np.log(p / (1 - p)))),
    "LBE-A": lambda p: p**10,
    "LBE-B": lambda p: ((1.5 - p) / 1.5) ** 10,
    "PUSB": lambda p: p**20,
    "logistic": lambda p: p,
    "Cauchy": lambda p: 0.5 + np.arctan(np.log(p / (1 - p))) / np.pi,
    "steep": lambda p: p**10,
}


def test_every_named_curve_has_a_formula_here():
    assert set(CURVES) == set(NAMED_CURVES)
    assert all(name in ClassProbabilityCurve.__doc__ for name in CURVES)


@pytest.mark.parametrize("name", CURVES)
def test_named_curves_are_the_published_formulas(name):
    p = np.linspace(0.01, 0.99, 99)
    e = ClassProbabilityCurve.named(name).propensity(np.zeros((99, 1)), class_probability=p)
    np.testing.assert_allclose(e, np.maximum(CURVES[name](p), 1e-12), rtol=1e-10)


@pytest.mark.parametrize("name", CURVES)
def test_curves_have_propensities_for_certain_classes(name):
    e = ClassProbabilityCurve.named(name).propensity(np.zeros((2, 1)), class_probability=[0.0, 1.0])
    assert ((e > 0) & (e <= 1)).all()


def test_a_curve_needs_the_class_probability():
    with pytest.raises(ValueError, match=r"ClassProbabilityCurve needs the true class probability"):
        ClassProbabilityCurve().propensity([[0.0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "probit"}, "link must be 'identity' or 'logistic' or 'cauchy'; it is 'probit'"),
        ({"of": "odds"}, "of must be 'probability' or 'logit'; it is 'odds'"),
        ({"slope": np.nan}, "slope must be a finite number"),
        ({"power": 0}, "power must be positive; it is 0"),
        ({"scale": -1}, "scale must be positive; it is -1"),
    ],
)
def test_invalid_curves(options, message):
    with pytest.raises(ValueError, match=message):
        ClassProbabilityCurve(**options)


def test_an_unknown_curve():
    with pytest.raises(ValueError, match=r"There is no curve 'S5'\. The curves are S1, S2, "):
        ClassProbabilityCurve.named("S5")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_huge_power_of_a_curve_gives_propensities_of_nearly_0_or_1():
    curve = ClassProbabilityCurve(intercept=1.0, slope=1.0, power=3e38)
    np.testing.assert_array_equal(curve.propensity(np.zeros((2, 1)), class_probability=[0.2, 0.9]), [1.0, 1.0])
    curve = ClassProbabilityCurve(power=3e38)
    assert (curve.propensity(np.zeros((2, 1)), class_probability=[0.2, 0.9]) < 1e-9).all()
