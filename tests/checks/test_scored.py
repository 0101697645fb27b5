"""Labels first, predictions second, propensity by keyword: in every metric, and swapped arguments are told."""

import inspect

import numpy as np
import pytest

from scarless import metrics
from scarless.checks.scored import check_scored
from scarless.diagnostics import ClassCalibrationDisplay, class_calibration, label_calibration

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


def test_the_order_is_the_same_everywhere():
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
def test_swapped_arguments_are_told(name, labels):
    message = "must be binary.*its values are 0.1, .*Labels come first and predictions second: y_pred is binary here"
    with pytest.raises(ValueError, match=message):
        FUNCTIONS[name](P, labels, **_options(name))


@pytest.mark.parametrize("name", JUDGES)
def test_a_propensity_by_position_is_refused(name):
    options = _options(name)
    if options:
        with pytest.raises(TypeError, match="positional argument"):
            FUNCTIONS[name](P, S, *options.values())


def test_labels_that_are_wrong_in_themselves_are_not_called_swapped():
    for labels in ([0, 1, 2, 0, 1, 0], np.full(6, np.nan)):
        with pytest.raises(ValueError, match=r"s must be binary, coded 0/1, -1/\+1 or boolean; its values are [^L]*$"):
            check_scored(labels, P)
    with pytest.raises(ValueError, match=r"s must be binary[^L]*$"):
        check_scored([0, 1, np.nan], [0, 1, 1])
    with pytest.raises(ValueError, match="s must hold numbers, one per row"):
        check_scored(["a", "b"], [0, 1])


def test_both_have_as_many_rows():
    with pytest.raises(ValueError, match="y has 5 values for 6 rows"):
        check_scored(S[:5], P, name="y")
    with pytest.raises(ValueError, match="s must have one value per row"):
        check_scored(1, P)
    with pytest.raises(ValueError, match="y_pred must have one value per row"):
        check_scored(S, 0.5)
