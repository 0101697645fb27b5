"""What audits are worth: the difference estimator on real tables, plans that come true, and tests of fit.

``python -m benchmarks.information_audits`` runs all (about 20 minutes on one core); ``coverage``, ``plan`` or
``goodness`` one of them, ``coverage:adult`` one table. Rows are appended to ``benchmarks/results/``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.datasets import load
from benchmarks.runner import Row, run
from scarless import SAREMClassifier, audited_class_prior, goodness_of_fit, plan_audit
from scarless.numerics.uncertainty import find_root

RUNS = 50
N, D, FREQUENCY = 5000, 10, 0.3
TABLES = ("adult", "covtype", "diabetes")
AUDITS, PILOT = 200, 50
RESAMPLES = 39  # that reach .05 twice


def coverage(tables: tuple[str, ...] = TABLES, runs: int = RUNS) -> Iterator[Row]:
    """How often the interval of `audited_class_prior` holds the class prior of the whole table: 200 random audits.

    The model has one label column, and is wrong: both of its parts see all attributes, and the class is no logistic
    function of them.
    """
    for name in tables:
        X, y, _ = load(name)
        found = np.array([_covered(X, y, seed) for seed in range(runs)])
        yield {
            "part": "coverage",
            "dataset": name,
            "runs": runs,
            "coverage": float(found[:, 0].mean()),
            "error": float(found[:, 1].mean()),
            "model_error": float(found[:, 2].mean()),
            "width": float(found[:, 3].mean()),
        }


def _covered(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, ...]:
    rng = np.random.default_rng([seed, 14])
    rows = rng.choice(len(y), size=min(N, len(y)), replace=False)
    truth, X, y = float(y.mean()), X[rows], y[rows] == 1
    s = y & (rng.random(y.size) < labelling(X, y, rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A climb may take hundreds of steps along a ridge here; the estimator has to be right for any model.
        model = SAREMClassifier(propensity_attributes="all", tol=1e-6, max_iter=30).fit(X, s)
    found = audited_class_prior(model, X, s, audits(y, AUDITS, rng))
    low, high = found.interval
    return low <= truth <= high, abs(found.value - truth), abs(found.model_value - truth), high - low


def labelling(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return propensities that are logistic in three attributes, and label three positives in ten."""
    spread = X.std(axis=0)
    columns = rng.choice(np.flatnonzero(spread > 0), size=3, replace=False)
    v = ((X[:, columns] - X[:, columns].mean(axis=0)) / spread[columns]) @ rng.normal(size=3)
    level = find_root(lambda b: float(expit(v[y] + b).mean()) - FREQUENCY, -30.0, 30.0)
    return np.asarray(expit(v + level))


def audits(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the class of `n` random rows, NaN elsewhere."""
    audit, rows = np.full(y.size, np.nan), rng.choice(y.size, size=n, replace=False)
    audit[rows] = y[rows]
    return audit


def draw(seed: int, n_looks: int, spread: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return attributes that both models see, the class, and labels; `spread` is what no attribute explains."""
    rng = np.random.default_rng([seed, 15])
    X, f, e = rng.normal(size=(N, D)), rng.normal(size=D), rng.normal(size=D)
    y = rng.random(N) < expit(X @ f * (2.0 / np.linalg.norm(f)) - 0.8)
    v = X @ e / np.linalg.norm(e) + spread * rng.normal(size=N)
    level = find_root(lambda b: float(expit(v[y] + b).mean()) - FREQUENCY, -30.0, 30.0)
    return X, y, y[:, None] & (rng.random((N, n_looks)) < expit(v + level)[:, None])


def plan(runs: int = RUNS) -> Iterator[Row]:
    """How often the expected width, after a pilot of 50 audits, is within 25% of that after 200 more."""
    ratios = np.array([_planned(seed) for seed in range(runs)])
    within = np.abs(ratios - 1.0) <= 0.25
    yield {
        "part": "plan",
        "runs": runs,
        "within": float(within[:, 0].mean()),
        "within_difference": float(within[:, 1].mean()),
        "ratio": float(ratios[:, 0].mean()),
        "ratio_sd": float(ratios[:, 0].std()),
        "ratio_difference": float(ratios[:, 1].mean()),
    }


def _planned(seed: int) -> tuple[float, float]:
    X, y, s = draw(seed, 1)
    rng = np.random.default_rng([seed, 16])
    pilot = audits(y, PILOT, rng)
    model = SAREMClassifier(propensity_attributes="all").fit(X, s, audit=pilot)
    planned = plan_audit(model, X, s, AUDITS, pilot=pilot, random_state=rng)
    audit = pilot.copy()
    audit[planned.rows] = y[planned.rows]
    low, high = SAREMClassifier(propensity_attributes="all").fit(X, s, audit=audit).class_prior_interval()
    other = audited_class_prior(model, X, s, audit, planned.probability).interval
    by_difference = planned.width_at(AUDITS, difference=True) / (other.high - other.low)
    return planned.width_at(AUDITS) / (high - low), by_difference


def goodness(runs: int = RUNS) -> Iterator[Row]:
    """Power of the test of fit against differences of 1 in the logit, and its size; three looks."""
    for spread in (1.0, 0.0):
        found = [_tested(seed, spread) for seed in range(runs)]
        yield {
            "part": "goodness",
            "spread": spread,
            "runs": runs,
            "heterogeneity": float(np.mean([each.p_heterogeneity <= 0.05 for each in found])),
            "histories": float(np.mean([each.p_chi_square <= 0.05 for each in found])),
            "normal": float(np.mean([each.heterogeneity > 1.645 for each in found])),
            "c_hat": float(np.mean([each.c_hat for each in found])),
        }


def _tested(seed: int, spread: float) -> Any:
    X, _, s = draw(seed, 3, spread)
    model = SAREMClassifier(propensity_attributes="all").fit(X, s)
    return goodness_of_fit(model, X, s, n_resamples=RESAMPLES, random_state=seed)


if __name__ == "__main__":
    run("information_audits", {"coverage": coverage, "plan": plan, "goodness": goodness}, sys.argv[1:])
