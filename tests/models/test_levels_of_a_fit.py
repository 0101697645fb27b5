"""Number of nested calls and of modules of the package in a fit of few rows."""

import sys

import numpy as np
from scipy.special import expit

import scarless
from scarless import SAREMClassifier

PACKAGE = scarless.__file__.removesuffix("__init__.py")


def test_a_small_fit_has_few_nested_calls_and_modules():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = rng.random(600) < expit(2 * X[:, 0])
    s = (y & (rng.random(600) < expit(X[:, 2]))).astype(int)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    modules, ours, deepest = set(), [], 0

    def follow(frame, event, _):
        nonlocal deepest
        if event == "call":
            file = frame.f_code.co_filename
            ours.append(file.startswith(PACKAGE))
            if ours[-1]:
                modules.add(file)
                deepest = max(deepest, sum(ours))
        elif event == "return" and ours:
            ours.pop()

    sys.setprofile(follow)
    try:
        model.fit(X, s)
    finally:
        sys.setprofile(None)
    assert deepest <= 20
    assert len(modules) <= 45
