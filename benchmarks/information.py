"""How much several looks, audits, known class priors and false positive rates improve a fit.

Data: simulated tables of 5,000 rows; class and labelling depend on the same ten attributes.
Time: about an hour. Results that are already stored are not measured again.

Each line of the results is for 60 runs with fixed seeds. The class prior is compared with the class prior of the
population, and f with the true probabilities. K is the number of looks.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.core import passes
from benchmarks.runner import Row, read_rows, run_parts
from scarless import ClassPrior, Labelling, SAREMClassifier

N_RUNS = 60
N_ROWS, N_COLUMNS = 5000, 10
CLASS_PRIOR, LABEL_FREQUENCY = 0.35, 0.3


class SimulatedTable:
    """A table from two logistic models with the same attributes."""

    def __init__(self, seed: int, *, n: int = N_ROWS, d: int = N_COLUMNS) -> None:
        self.rng = rng = np.random.default_rng([seed, 14])
        self.b_f, self.b_e = rng.normal(size=(2, d))
        self.b_f *= 2.0 / np.linalg.norm(self.b_f)
        self.b_e *= 1.0 / np.linalg.norm(self.b_e)
        # The intercepts give the population the class prior and the label frequency above.
        population = np.random.default_rng([seed, 15]).normal(size=(200_000, d))
        u, v = population @ self.b_f, population @ self.b_e
        self.a_f = brentq(lambda a: expit(u + a).mean() - CLASS_PRIOR, -20, 20)
        f = expit(u + self.a_f)
        self.a_e = brentq(lambda a: f @ expit(v + a) / f.sum() - LABEL_FREQUENCY, -20, 20)
        self.X = rng.normal(size=(n, d))
        self.f, self.e = expit(self.X @ self.b_f + self.a_f), expit(self.X @ self.b_e + self.a_e)
        self.y = rng.random(n) < self.f

    def looks(self, k: int, *, spread: float = 0.0, rate: float = 0.0) -> np.ndarray:
        """Return labels at `k` looks.

        `spread` is the standard deviation of unobserved differences between rows in the logit of the propensity;
        `rate` is the false positive rate.
        """
        n = self.y.size
        v = self.X @ self.b_e + self.a_e + spread * self.rng.normal(size=n)
        labelled = self.rng.random((n, k)) < expit(v)[:, None]
        wrong = self.rng.random((n, k)) < rate
        return np.where(self.y[:, None], labelled, wrong).astype(float)

    def audit(self, n_rows: int, *, odds: float = 1.0) -> np.ndarray:
        """Return the class of audited rows; positives are drawn with `odds` relative to negatives."""
        weight = np.where(self.y, odds, 1.0)
        chosen = self.rng.choice(self.y.size, n_rows, replace=False, p=weight / weight.sum())
        found = np.full(self.y.size, np.nan)
        found[chosen] = self.y[chosen]
        return found


Fit = Callable[[SimulatedTable], SAREMClassifier]


def _model(**options: Any) -> SAREMClassifier:
    return SAREMClassifier(propensity_attributes="all", **options)


def _one_look(table: SimulatedTable) -> SAREMClassifier:
    return _model(n_starts=5).fit(table.X, table.looks(1)[:, 0])


def _audited(n_rows: int, *, odds: float = 1.0) -> Fit:
    def fit(table: SimulatedTable) -> SAREMClassifier:
        s = table.looks(1)[:, 0]
        return _model().fit(table.X, s, audit=table.audit(n_rows, odds=odds))

    return fit


def _only_positive_findings(table: SimulatedTable) -> SAREMClassifier:
    s, audit = table.looks(1)[:, 0], table.audit(200)
    return _model().fit(table.X, s, audit=np.where(audit == 1, 1.0, np.nan))


def _several(k: int, *, spread: float = 0.0, rate: float = 0.0, **options: Any) -> Fit:
    return lambda table: _model(**options).fit(table.X, table.looks(k, spread=spread, rate=rate))


def _spread_but_audited(table: SimulatedTable) -> SAREMClassifier:
    return _model().fit(table.X, table.looks(2, spread=1.0), audit=table.audit(200))


def _known_prior(value: float, se: float) -> Fit:
    return lambda table: _model(known=[ClassPrior(value, se=se)]).fit(table.X, table.looks(1)[:, 0])


CELLS: dict[str, dict[str, Fit]] = {
    "looks": {
        "one look": _one_look,
        "K = 2": _several(2),
        "K = 3": _several(3),
        "50 random audits": _audited(50),
        "100 random audits": _audited(100),
        "200 random audits": _audited(200),
        "known class prior, se 0.02": _known_prior(CLASS_PRIOR, 0.02),
        "known class prior, se 0": _known_prior(CLASS_PRIOR, 0.0),
    },
    "traps": {
        "200 audits, positives drawn with odds 1.5": _audited(200, odds=1.5),
        "200 audits, positives drawn with odds 2": _audited(200, odds=2.0),
        "200 audits, negative findings left out": _only_positive_findings,
        "K = 2, unobserved differences between rows (sd 1)": _several(2, spread=1.0),
        "K = 5, unobserved differences between rows (sd 1)": _several(5, spread=1.0),
        "K = 2, unobserved differences (sd 1), 200 audits": _spread_but_audited,
        "K = 2, 2% false positives ignored": _several(2, rate=0.02),
        "K = 2, 2% false positives estimated": _several(
            2, rate=0.02, labelling=Labelling(false_positive_rate="estimate")
        ),
        "wrong class prior: 0.40, se 0.01": _known_prior(0.40, 0.01),
        "K = 3, wrong class prior: 0.40, se 0.01": _several(3, known=[ClassPrior(0.40, se=0.01)]),
    },
}


def _answer(model: SAREMClassifier, table: SimulatedTable, prior: float) -> dict[str, float]:
    f = model.predict_proba(table.X)[:, 1]
    interval = model.class_prior_interval()
    mse, swapped = np.mean((f - table.f) ** 2), np.mean((f - table.e) ** 2)
    return {
        "prior": model.class_prior_,
        "error": abs(model.class_prior_ - prior),
        "covers": float(interval.low <= prior <= interval.high),
        "width": interval.high - interval.low,
        "mse_f": float(mse),
        "swapped": float(swapped < mse),
    }


def _is_about_misfit(message: str) -> bool:
    """Return whether a warning of a fit is about a misfit, and not about two models that use the same attributes."""
    return message.startswith("SAREMClassifier: ") and "both models use the same attributes" not in message


def _cell(part: str, name: str) -> dict[str, Any]:
    found = []
    warned = 0
    for seed in range(N_RUNS):
        table = SimulatedTable(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.append(_answer(CELLS[part][name](table), table, CLASS_PRIOR))
        warned += any(_is_about_misfit(str(each.message)) for each in caught)
    mean = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
    return {
        **mean,
        "bias": mean["prior"] - CLASS_PRIOR,
        "warned": warned,
        "runs": N_RUNS,
        "swapped": round(mean["swapped"] * N_RUNS),
    }


def _sources() -> dict[str, Any]:
    """Return the means for three sources with their own coefficients, a visit attribute, and 30% of looks missing."""
    found = []
    for seed in range(N_RUNS):
        table = SimulatedTable(seed)
        rng, n = table.rng, N_ROWS
        effort = rng.normal(size=(n, 3))
        own = rng.normal(size=(3, N_COLUMNS)) / np.sqrt(N_COLUMNS)
        e = expit(table.X @ own.T + 0.8 * effort + np.array([-1.0, -0.7, -1.3]))
        S = (table.y[:, None] & (rng.random((n, 3)) < e)).astype(float)
        S[rng.random((n, 3)) < 0.3] = np.nan
        X = np.hstack([table.X, effort])
        model = SAREMClassifier(
            propensity_attributes=list(range(N_COLUMNS)),
            labelling=Labelling(visit_attributes={"effort": [N_COLUMNS, N_COLUMNS + 1, N_COLUMNS + 2]}, shared=False),
        ).fit(X, S)
        interval = model.class_prior_interval()
        f = model.predict_proba(X)[:, 1]
        found.append(
            {
                "prior": model.class_prior_,
                "error": abs(model.class_prior_ - CLASS_PRIOR),
                "covers": float(interval.low <= CLASS_PRIOR <= interval.high),
                "width": interval.high - interval.low,
                "mse_f": float(np.mean((f - table.f) ** 2)),
            }
        )
    mean = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
    return {**mean, "bias": mean["prior"] - CLASS_PRIOR, "runs": N_RUNS}


def _speed() -> dict[str, Any]:
    """Return the CPU time of a fit to three looks, divided by that of supervised logistic regression.

    The ratio is the median of seven pairs. BLAS has one thread, because otherwise the CPU time of the supervised fit
    would include threads that wait.
    """
    ratios, wall = [], []
    with threadpool_limits(1):
        for seed in range(7):
            table = SimulatedTable(seed, n=100_000, d=20)
            S = table.looks(3)
            timed = []
            for fit in (
                lambda table=table: LogisticRegression(tol=1e-6).fit(table.X, table.y),
                lambda table=table, S=S: _model().fit(table.X, S),
            ):
                cpu, clock = time.process_time(), time.perf_counter()
                fit()
                timed.append((time.process_time() - cpu, time.perf_counter() - clock))
            ratios.append(timed[1][0] / timed[0][0])
            wall.append(timed[1][1] / timed[0][1])
    return {
        "cpu_ratio": float(np.median(ratios)),
        "wall_ratio": float(np.median(wall)),
        "passes": passes(_model(), table.X, S),
        "runs": 7,
    }


def _measure(part: str, cells: dict[str, Callable[[], Row]], names: tuple[str, ...]) -> Iterator[Row]:
    measured = {row["dataset"] for row in read_rows("information") if row["part"] == part}
    for name, compute in cells.items():
        if name in names or (not names and name not in measured):
            yield {"part": part, "dataset": name, **compute()}


def looks(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """One look, several looks, audits or a known class prior."""
    yield from _measure("looks", {name: partial(_cell, "looks", name) for name in CELLS["looks"]}, names)


def traps(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """Errors and warnings if an assumption does not hold."""
    yield from _measure("traps", {name: partial(_cell, "traps", name) for name in CELLS["traps"]}, names)


def sources(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """Three sources with their own coefficients, a visit attribute, and 30% of the looks missing."""
    yield from _measure("sources", {"three sources, a visit attribute, 30% of looks missing": _sources}, names)


def speed(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """CPU time, divided by that of supervised logistic regression."""
    yield from _measure("speed", {"n = 100,000, d = 20, K = 3": _speed}, names)


PARTS = {"looks": looks, "traps": traps, "sources": sources, "speed": speed}


def main(arguments: list[str]) -> None:
    run_parts("information", __doc__, PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
