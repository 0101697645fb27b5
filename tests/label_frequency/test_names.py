"""Estimators of the label frequency by name or as objects, and checks of their results."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags, get_tags
from threadpoolctl import threadpool_limits

from scarless.checks.estimators import final_step
from scarless.label_frequency._base import LabelFrequencyEstimator
from scarless.label_frequency.names import (
    NAMES,
    as_label_frequency_estimator,
    fit_label_frequency,
    narrow_tags,
)


class Fixed(BaseEstimator):
    """Returns the given label frequency, possible or not."""

    def __init__(self, value=0.5):
        self.value = value

    def fit(self, X, s, sample_weight=None):
        self.s_, self.w_ = s, sample_weight
        self.label_frequency_ = self.value
        return self


X, S = np.zeros((20, 1)), np.repeat([1.0, 0.0], [4, 16])


# --- names


def test_every_name_is_an_estimator_that_gives_the_same_result_each_time():
    kinds = {name: type(as_label_frequency_estimator(name, "label_frequency")).__name__ for name in NAMES}
    assert kinds == {
        "tice": "TIcE",
        "km1": "KernelMean",
        "km2": "KernelMean",
        "elkan-noto": "ElkanNoto",
        "dedpul": "DEDPUL",
        "best-bin": "BestBinEstimator",
    }
    for name in NAMES:
        estimator = as_label_frequency_estimator(name, "label_frequency")
        assert isinstance(estimator, LabelFrequencyEstimator)
        assert estimator.random_state == 0
        assert estimator is not as_label_frequency_estimator(name, "label_frequency")


def test_km1_and_km2_are_different_variants():
    variants = [as_label_frequency_estimator(name, "label_frequency").variant for name in ("km1", "km2")]
    assert variants == ["km1", "km2"]


@pytest.mark.parametrize("name", NAMES)
def test_every_named_estimator_finds_a_label_frequency(name):
    rng = np.random.default_rng(0)
    y = rng.random(200) < 0.4
    table = rng.normal(size=(200, 2)) + 3 * y[:, None]
    s = (y & (rng.random(200) < 0.5)).astype(float)
    with threadpool_limits(1):
        c = fit_label_frequency(as_label_frequency_estimator(name, "label_frequency"), table, s)
        again = fit_label_frequency(as_label_frequency_estimator(name, "label_frequency"), table, s)
    assert c == pytest.approx(s.sum() / y.sum(), abs=0.25)
    assert c == again


@pytest.mark.parametrize(
    ("value", "nearest"),
    [("tise", "tice"), ("TIcE", "tice"), ("KM2", "km2"), ("ElkanNoto", "elkan-noto"), ("best bin", "best-bin")],
)
def test_the_error_of_an_unknown_name_suggests_the_nearest(value, nearest):
    message = (
        f"c='{value}' is not the name of an estimator. Names are 'tice', 'km1', 'km2', 'elkan-noto', 'dedpul', "
        rf"'best-bin'\. Did you mean '{nearest}'\?"
    )
    with pytest.raises(ValueError, match=message):
        as_label_frequency_estimator(value, "c")


def test_an_unknown_name_without_a_similar_one_lists_all_names():
    with pytest.raises(ValueError, match=r"Names are 'tice', .*'best-bin'\.$"):
        as_label_frequency_estimator("maximum likelihood", "label_frequency")


# --- objects


def test_an_object_is_cloned():
    given = Fixed(0.3).fit(X, S)
    taken = as_label_frequency_estimator(given, "label_frequency")
    assert taken is not given
    assert taken.value == 0.3
    assert not hasattr(taken, "label_frequency_")


class Codes(Fixed):
    """Has a `pos_label`, like the estimators of this package."""

    def __init__(self, value=0.5, pos_label=None):
        super().__init__(value)
        self.pos_label = pos_label


def test_the_clone_gets_labels_of_0_and_1_whatever_the_users_are():
    given = Codes(0.3, pos_label="yes")
    taken = as_label_frequency_estimator(given, "label_frequency")
    assert (taken.value, taken.pos_label) == (0.3, None)
    pipeline = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), given))
    assert final_step(as_label_frequency_estimator(pipeline, "label_frequency")).pos_label is None
    assert given.pos_label == "yes"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            Fixed,
            r"c must be the name of an estimator, or an estimator .* got <class .* Pass an instance: Fixed\(\)",
        ),
        (
            0.3,
            r"or an estimator whose fit\(X, s\) sets label_frequency_ \(SCARClassifier .*; got 0.3. Names are 'tice'",
        ),
        (None, "got None. Names are 'tice'"),
        ({"fit": 1}, "got {'fit': 1}. Names are 'tice'"),
    ],
)
def test_invalid_estimators(value, message):
    with pytest.raises(ValueError, match=message):
        as_label_frequency_estimator(value, "c")


def test_the_last_step_of_a_pipeline_is_read():
    inner = Fixed(0.4)
    pipeline = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), inner))
    assert final_step(pipeline) is inner
    assert final_step(inner) is inner
    assert fit_label_frequency(pipeline, X, S) == 0.4


# --- the result of a fit


def test_labels_are_integers_and_weights_are_passed_only_if_given():
    estimator = Fixed()
    assert fit_label_frequency(estimator, X, S) == 0.5
    np.testing.assert_array_equal(estimator.s_, S)
    assert estimator.s_.dtype == np.int64
    assert estimator.w_ is None


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), 1, np.array(0.5)])
def test_numbers_of_any_kind(value):
    c = fit_label_frequency(Fixed(value), X, S)
    assert type(c) is float
    assert c == value


@pytest.mark.parametrize("value", [None, "high", [0.1, 0.2], {}])
def test_invalid_label_frequencies(value):
    with pytest.raises(ValueError, match=r"the attribute label_frequency_ of Fixed must be a number: .*such as TIcE"):
        fit_label_frequency(Fixed(value), X, S)


def test_a_classifier_has_no_label_frequency():
    with pytest.raises(
        ValueError, match=r"label_frequency_ of LogisticRegression must be a number: .* no attribute 'label_frequency_'"
    ):
        fit_label_frequency(LogisticRegression(), np.arange(20.0)[:, None], S)


class Refusing(Fixed):
    def fit(self, X, s):
        raise ValueError("Not these.")


@pytest.mark.parametrize("column", [["a", "b"] * 10, pd.Categorical(["a", "b"] * 10), [np.nan, 1.0] * 10], ids=str)
def test_the_error_names_an_estimator_that_cannot_read_the_table(column):
    table = pd.DataFrame({"a": np.arange(20.0), "b": column})
    message = (
        r"label_frequency: Refusing could not be fitted\. Not these\. Refusing is fitted to the original table.*"
        r"pass a pipeline: label_frequency=make_pipeline\(encoder, Refusing\(\)\)\."
    )
    with pytest.raises(ValueError, match=message) as caught:
        fit_label_frequency(Refusing(), table, S)
    assert str(caught.value.__cause__) == "Not these."
    for estimator, readable in ((Refusing(), table[["a"]]), (make_pipeline("passthrough", Refusing()), table)):
        with pytest.raises(ValueError, match=r"^Not these\.$"):
            fit_label_frequency(estimator, readable, S)


def test_nan_is_an_error_and_impossible_values_are_clipped():
    with pytest.raises(ValueError, match=r"Fixed estimated a label frequency of NaN from 20 rows"):
        fit_label_frequency(Fixed(np.nan), X, S)
    with pytest.warns(UserWarning, match="Fixed estimates a class prior of 0.1, but the share of labelled rows is 0.2"):
        assert fit_label_frequency(Fixed(2.0), X, S) == 1.0
    with pytest.warns(
        UserWarning, match="Fixed estimates a label frequency of 0.1. .* the share of labelled rows is 0.2"
    ):
        assert fit_label_frequency(Fixed(0.1), X, S) == pytest.approx(0.2 / (1 - 1 / 20))


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e12])
def test_the_smallest_possible_frequency_depends_on_the_weights(scale):
    weight = scale * np.where(S == 1, 1.0, 9.0)
    share = 4 / (4 + 9 * 16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit_label_frequency(Fixed(1.1 * share), X, S, weight) == 1.1 * share < S.mean()
    with pytest.warns(UserWarning, match="so that one row is negative"):
        fit_label_frequency(Fixed(0.9 * share), X, S, weight)


def test_weights_are_copies_also_if_an_estimate_is_clipped():
    weight = np.r_[0.0, 2.0, 3.0, np.ones(16), 7.0]
    rows = np.repeat(np.arange(20), weight.astype(int))
    estimator = Fixed(0.0)
    with pytest.warns(UserWarning, match="so that one row is negative"):
        weighted = fit_label_frequency(estimator, X, S, weight)
    with pytest.warns(UserWarning, match="so that one row is negative"):
        assert weighted == pytest.approx(fit_label_frequency(clone(estimator), X[rows], S[rows]), rel=1e-14)
    assert estimator.w_ is weight


def test_weights_for_an_estimator_that_does_not_accept_them():
    class Plain(Fixed):
        def fit(self, X, s):
            return super().fit(X, s)

    with pytest.raises(
        ValueError,
        match="sample_weight: Plain, the estimator of the label frequency, does not accept weights in fit",
    ):
        fit_label_frequency(Plain(), X, S, np.ones(20))


# --- tags


@pytest.mark.parametrize("readable", [False, True])
def test_tags_are_narrowed_only(readable):
    def tags_of(value):
        tags = get_tags(BaseEstimator())
        tags.input_tags.sparse = tags.input_tags.allow_nan = readable
        narrow_tags(tags, value)
        return tags.input_tags.sparse, tags.input_tags.allow_nan

    assert isinstance(get_tags(BaseEstimator()), Tags)
    assert tags_of(Fixed()) == (False, False)
    assert tags_of("elkan-noto") == (readable, False)
    for untold in (None, 0.5, "no name", Fixed, object()):
        assert tags_of(untold) == (readable, readable)
