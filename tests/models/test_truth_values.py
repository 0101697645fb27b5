"""Numeric parameters refuse booleans, such as ``C=True`` or ``max_iter=False``."""

import inspect

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import scarless
from scarless.diagnostics import Sensitivity, class_calibration
from scarless.labelling import simulate_labels
from scarless.metrics import paper_bound, propensity_weighted_risk, risk_interval

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
F = 1 / (1 + np.exp(-2 * X[:, 0]))
S = (RNG.random(80) < F) & (RNG.random(80) < 0.5)
# Numeric parameters whose default is None or a string.
OTHERS = {"tol", "weight", "label_frequency", "cv", "n_jobs", "Cs", "propensity_Cs"}


def _is_number(parameter):
    plain = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
    return plain or parameter.name in OTHERS | {"delta"}


PUBLIC = [getattr(scarless, name) for name in scarless.__all__]
ESTIMATORS = [value for value in PUBLIC if inspect.isclass(value) and not issubclass(value, Warning)]
CASES = [(cls, p.name) for cls in ESTIMATORS for p in inspect.signature(cls).parameters.values() if _is_number(p)]


@pytest.mark.parametrize("value", [True, False, np.True_])
@pytest.mark.parametrize(("cls", "name"), CASES, ids=[f"{cls.__name__}-{name}" for cls, name in CASES])
def test_numeric_parameters_of_estimators_refuse_booleans(cls, name, value):
    known = inspect.signature(cls).parameters
    options = {"propensity_attributes": [2]} if "propensity_attributes" in known else {}
    if cls in (scarless.ClassPrior, scarless.LabelFrequency):
        options["value"] = 0.5
    if name == "cv" and "estimator" in known:
        options["estimator"] = GaussianNB()
    given = {"propensity": np.full(S.size, 0.5)} if cls is scarless.PropensityWeightedClassifier else {}
    options = {**options, name: value}
    if cls is scarless.BalancedDraws:
        cls, options = scarless.SAREMClassifier, {"estimator": cls(GaussianNB(), **options)}
    if cls is scarless.Labelling:
        cls, options = scarless.SAREMClassifier, {"labelling": cls(**options)}
    with pytest.raises(ValueError, match=rf"{name}\b.*(True|False)"):
        cls(**options).fit(X, S, **given)


def test_cases_are_found():
    assert {"C", "tol", "max_iter", "n_starts", "gamma", "cv"} <= {name for _, name in CASES}


CALLS = {
    "level must": lambda value: class_calibration(S, F, propensity=0.5, level=value),
    "n_bins must": lambda value: class_calibration(S, F, propensity=0.5, n_bins=value),
    "propensity must": lambda value: propensity_weighted_risk(S, F, propensity=value),
    "sample_weight must": lambda value: propensity_weighted_risk(S, F, propensity=0.5, sample_weight=value),
    "n_resamples must": lambda value: risk_interval(S, F, propensity=0.5, n_resamples=value),
    "delta_max must": lambda value: paper_bound(10, delta_max=value),
    "n must": lambda value: paper_bound(value, delta_max=1.0),
    "gamma must be one number": lambda value: Sensitivity(0.5 * F, 0.5).at(value),
    "lower must": lambda value: Sensitivity(0.5 * F, 0.5).within(value),
    "propensity .*must": lambda value: simulate_labels(S, value),
    "random_state must": lambda value: simulate_labels(S, 0.5, random_state=value),
}


@pytest.mark.parametrize("value", [True, False, np.True_])
@pytest.mark.parametrize("message", CALLS)
def test_numeric_parameters_of_functions_refuse_booleans(message, value):
    with pytest.raises(ValueError, match=rf"{message}.*got .*(True|False)"):
        CALLS[message](value)
