"""There is one `Interval`, and whatever has two ends of one number returns it."""

import ast
from pathlib import Path

import numpy as np

import scarless
from scarless import BestBinEstimator, SAREMClassifier
from scarless.diagnostics import Sensitivity
from scarless.metrics import propensity_weighted_recall, risk_interval
from scarless.numerics.interval import Interval

SOURCE = Path(scarless.__file__).parent


def _defined():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "class Interval" in text or "Interval =" in text else ():
            named = [node.name] if isinstance(node, ast.ClassDef) else []
            named += [t.id for t in node.targets if isinstance(t, ast.Name)] if isinstance(node, ast.Assign) else []
            if "Interval" in named:
                yield path.relative_to(SOURCE).as_posix()


def test_it_is_defined_once():
    assert list(_defined()) == ["numerics/interval.py"]
    assert scarless.models.Interval is scarless.metrics.Interval is Interval


def test_everything_with_two_ends_returns_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    f = 1 / (1 + np.exp(-2 * X[:, 0]))
    s = (rng.random(300) < f) & (rng.random(300) < 0.5)
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, s)
    estimate = BestBinEstimator(n_resamples=20, random_state=0).fit(X, s)
    for found in (
        model.class_prior_interval(),
        model.label_frequency_interval(),
        estimate.class_prior_interval(),
        estimate.label_frequency_interval(),
        propensity_weighted_recall(s, f, propensity=0.5).interval,
        risk_interval(s, f, propensity=0.5, method="normal").interval,
        Sensitivity(0.5 * f, 0.5).at(1.5).class_prior,
    ):
        assert type(found) is Interval
        assert found.low < found.high
