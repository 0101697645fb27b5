"""Estimates from audits: coverage of audited_class_prior, plans of plan_audit, and goodness_of_fit.

Data: samples of 5,000 rows of Adult, Cover Type and Diabetes, from ../shared/data or the folder in the environment
variable SCARLESS_DATA; and simulated tables.
Time: about 20 minutes on one core.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.datasets import load
from benchmarks.runner import Row, run_parts
from scarless import SAREMClassifier, audited_class_prior, goodness_of_fit, plan_audit
from scarless.numerics.uncertainty import find_root

N_RUNS = 50
N_ROWS, N_COLUMNS, LABEL_FREQUENCY = 5000, 10, 0.3
TABLES = ("adult", "covtype", "diabetes")
N_AUDITS, N_PILOT_AUDITS = 200, 50
N_RESAMPLES = 39  # The smallest possible p-values are 1/40 and 2/40, so the test can reject at the level 0.05.


def coverage(tables: tuple[str, ...] = TABLES, runs: int = N_RUNS) -> Iterator[Row]:
    """Coverage of the interval of `audited_class_prior` with 200 random audits, on real tables.

    The model is wrong: the class is not a logistic function of the attributes. Class model and propensity model use all
    attributes.
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
    rows = rng.choice(len(y), size=min(N_ROWS, len(y)), replace=False)
    truth, X, y = float(y.mean()), X[rows], y[rows] == 1
    s = y & (rng.random(y.size) < labelling(X, y, rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The estimate of audited_class_prior must be valid for any model, so the fit need not converge.
        model = SAREMClassifier(propensity_attributes="all", tol=1e-6, max_iter=30).fit(X, s)
    found = audited_class_prior(model, X, s, audits(y, N_AUDITS, rng))
    low, high = found.interval
    return low <= truth <= high, abs(found.value - truth), abs(found.model_value - truth), high - low


def labelling(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return propensities that are logistic in three attributes, with a label frequency of 0.3."""
    spread = X.std(axis=0)
    columns = rng.choice(np.flatnonzero(spread > 0), size=3, replace=False)
    v = ((X[:, columns] - X[:, columns].mean(axis=0)) / spread[columns]) @ rng.normal(size=3)
    intercept = find_root(lambda b: float(expit(v[y] + b).mean()) - LABEL_FREQUENCY, -30.0, 30.0)
    return np.asarray(expit(v + intercept))


def audits(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the class of `n` random rows, and NaN for the other rows."""
    audit, rows = np.full(y.size, np.nan), rng.choice(y.size, size=n, replace=False)
    audit[rows] = y[rows]
    return audit


def draw(seed: int, n_looks: int, spread: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return attributes, classes and labels.

    `spread` is the standard deviation of unobserved differences between rows in the logit of the propensity.
    """
    rng = np.random.default_rng([seed, 15])
    X, f, e = rng.normal(size=(N_ROWS, N_COLUMNS)), rng.normal(size=N_COLUMNS), rng.normal(size=N_COLUMNS)
    y = rng.random(N_ROWS) < expit(X @ f * (2.0 / np.linalg.norm(f)) - 0.8)
    v = X @ e / np.linalg.norm(e) + spread * rng.normal(size=N_ROWS)
    intercept = find_root(lambda b: float(expit(v[y] + b).mean()) - LABEL_FREQUENCY, -30.0, 30.0)
    return X, y, y[:, None] & (rng.random((N_ROWS, n_looks)) < expit(v + intercept)[:, None])


def plan(runs: int = N_RUNS) -> Iterator[Row]:
    """Share of plans, made after 50 audits, that predict the interval width after 200 more audits to within 25%."""
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
    pilot = audits(y, N_PILOT_AUDITS, rng)
    model = SAREMClassifier(propensity_attributes="all").fit(X, s, audit=pilot)
    planned = plan_audit(model, X, s, N_AUDITS, pilot=pilot, random_state=rng)
    audit = pilot.copy()
    audit[planned.rows] = y[planned.rows]
    low, high = SAREMClassifier(propensity_attributes="all").fit(X, s, audit=audit).class_prior_interval()
    other = audited_class_prior(model, X, s, audit, planned.probability).interval
    by_difference = planned.width_at(N_AUDITS, difference=True) / (other.high - other.low)
    return planned.width_at(N_AUDITS) / (high - low), by_difference


def goodness(runs: int = N_RUNS) -> Iterator[Row]:
    """Power (against unobserved differences of standard deviation 1) and size of goodness_of_fit, with three looks."""
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Fits to heterogeneous rows warn about the misfit that is tested here.
        model = SAREMClassifier(propensity_attributes="all").fit(X, s)
    return goodness_of_fit(model, X, s, n_resamples=N_RESAMPLES, random_state=seed)


def main(arguments: list[str]) -> None:
    run_parts("audits", __doc__, {"coverage": coverage, "plan": plan, "goodness": goodness}, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
