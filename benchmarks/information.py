"""What a little more information is worth: second looks, audits, false positives, known shares. By simulation.

``python -m benchmarks.information`` runs all parts; ``python -m benchmarks.information looks`` runs one. Rows are
appended, as JSON lines, to ``benchmarks/results/information.jsonl``, and what is there already is skipped.
``python -m benchmarks.information table`` prints the Markdown rows. All cells have 60 runs with seeds that were fixed
before looking. The class prior is compared with the population's, MSE of `f` with the true probabilities.

`looks`: class and labelling see the same ten attributes; one label column, a second one, audits. `traps`: what goes
wrong where an assumption does not hold. `sources`: three sources with coefficients of their own, a visit attribute, 30%
of looks missing. `speed`: against a supervised logistic regression.
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
from benchmarks.runner import Row, newest, print_rows, read_rows, run
from scarless import ClassPrior, Labelling, SAREMClassifier

RUNS = 60
N, D = 5000, 10
PRIOR, FREQUENCY = 0.35, 0.3


class World:
    """Two logistic models that see the same attributes: class prior .35, label frequency .3 at every look."""

    def __init__(self, seed: int, *, n: int = N, d: int = D) -> None:
        self.rng = rng = np.random.default_rng([seed, 14])
        self.b_f, self.b_e = rng.normal(size=(2, d))
        self.b_f *= 2.0 / np.linalg.norm(self.b_f)
        self.b_e *= 1.0 / np.linalg.norm(self.b_e)
        far = np.random.default_rng([seed, 15]).normal(size=(200_000, d))
        u, v = far @ self.b_f, far @ self.b_e
        self.a_f = brentq(lambda a: expit(u + a).mean() - PRIOR, -20, 20)
        f = expit(u + self.a_f)
        self.a_e = brentq(lambda a: f @ expit(v + a) / f.sum() - FREQUENCY, -20, 20)
        self.X = rng.normal(size=(n, d))
        self.f, self.e = expit(self.X @ self.b_f + self.a_f), expit(self.X @ self.b_e + self.a_e)
        self.y = rng.random(n) < self.f

    def looks(self, k: int, *, spread: float = 0.0, rate: float = 0.0) -> np.ndarray:
        """Return labels at looks; `spread` is what rows differ by that no attribute knows, `rate` false positives."""
        n = self.y.size
        v = self.X @ self.b_e + self.a_e + spread * self.rng.normal(size=n)
        labelled = self.rng.random((n, k)) < expit(v)[:, None]
        wrong = self.rng.random((n, k)) < rate
        return np.where(self.y[:, None], labelled, wrong).astype(float)

    def audit(self, n_rows: int, *, odds: float = 1.0) -> np.ndarray:
        """Return the class of some rows; `odds` says how much more likely positives are to be checked."""
        weight = np.where(self.y, odds, 1.0)
        chosen = self.rng.choice(self.y.size, n_rows, replace=False, p=weight / weight.sum())
        found = np.full(self.y.size, np.nan)
        found[chosen] = self.y[chosen]
        return found


def _model(**options: Any) -> SAREMClassifier:
    return SAREMClassifier(propensity_attributes="all", **options)


def _one_look(world: World) -> SAREMClassifier:
    return _model(n_starts=5).fit(world.X, world.looks(1)[:, 0])


def _audited(n_rows: int, *, odds: float = 1.0) -> Callable[[World], SAREMClassifier]:
    def fit(world: World) -> SAREMClassifier:
        s = world.looks(1)[:, 0]
        return _model().fit(world.X, s, audit=world.audit(n_rows, odds=odds))

    return fit


def _only_positive_findings(world: World) -> SAREMClassifier:
    s, audit = world.looks(1)[:, 0], world.audit(200)
    return _model().fit(world.X, s, audit=np.where(audit == 1, 1.0, np.nan))


def _several(k: int, *, spread: float = 0.0, rate: float = 0.0, **options: Any) -> Callable[[World], SAREMClassifier]:
    return lambda world: _model(**options).fit(world.X, world.looks(k, spread=spread, rate=rate))


def _spread_but_audited(world: World) -> SAREMClassifier:
    return _model().fit(world.X, world.looks(2, spread=1.0), audit=world.audit(200))


def _known_prior(value: float, se: float) -> Callable[[World], SAREMClassifier]:
    return lambda world: _model(known=[ClassPrior(value, se=se)]).fit(world.X, world.looks(1)[:, 0])


CELLS: dict[str, dict[str, Callable[[World], SAREMClassifier]]] = {
    "looks": {
        "one label column": _one_look,
        "K = 2": _several(2),
        "K = 3": _several(3),
        "50 random audits": _audited(50),
        "100 random audits": _audited(100),
        "200 random audits": _audited(200),
        "known prior, se .02": _known_prior(PRIOR, 0.02),
        "known prior, se 0": _known_prior(PRIOR, 0.0),
    },
    "traps": {
        "200 audits, odds of 1.5 for positives": _audited(200, odds=1.5),
        "200 audits, odds of 2 for positives": _audited(200, odds=2.0),
        "200 audits, only positive findings reported": _only_positive_findings,
        "K = 2, rows differ by sd 1 that nobody sees": _several(2, spread=1.0),
        "K = 5, rows differ by sd 1 that nobody sees": _several(5, spread=1.0),
        "K = 2, rows differ by sd 1, 200 audits": _spread_but_audited,
        "K = 2, 2% false positives ignored": _several(2, rate=0.02),
        "K = 2, 2% false positives estimated": _several(2, rate=0.02, false_positive_rate="estimate"),
        "wrong prior: .40 with se .01": _known_prior(0.40, 0.01),
        "K = 3, wrong prior: .40 with se .01": _several(3, known=[ClassPrior(0.40, se=0.01)]),
    },
}


def _answer(model: SAREMClassifier, world: World, prior: float) -> dict[str, float]:
    f = model.predict_proba(world.X)[:, 1]
    interval = model.class_prior_interval()
    mse, swapped = np.mean((f - world.f) ** 2), np.mean((f - world.e) ** 2)
    return {
        "prior": model.class_prior_,
        "error": abs(model.class_prior_ - prior),
        "covers": float(interval.low <= prior <= interval.high),
        "width": interval.high - interval.low,
        "mse_f": float(mse),
        "swapped": float(swapped < mse),
    }


def _tells(message: str) -> bool:
    """Whether a fit says that something is wrong, and not only that both models see the same attributes."""
    return message.startswith("SAREMClassifier: ") and "both models see the same" not in message


def _cell(part: str, name: str) -> dict[str, Any]:
    found = []
    told = 0
    for seed in range(RUNS):
        world = World(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.append(_answer(CELLS[part][name](world), world, PRIOR))
        told += any(_tells(str(each.message)) for each in caught)
    mean = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
    return {**mean, "bias": mean["prior"] - PRIOR, "told": told, "runs": RUNS, "swapped": mean["swapped"] * RUNS}


def _sources() -> dict[str, Any]:
    """Three sources with coefficients of their own, one visit attribute, 30% of looks missing."""
    found = []
    for seed in range(RUNS):
        world = World(seed)
        rng, n = world.rng, N
        effort = rng.normal(size=(n, 3))
        own = rng.normal(size=(3, D)) / np.sqrt(D)
        e = expit(world.X @ own.T + 0.8 * effort + np.array([-1.0, -0.7, -1.3]))
        S = (world.y[:, None] & (rng.random((n, 3)) < e)).astype(float)
        S[rng.random((n, 3)) < 0.3] = np.nan
        table = np.hstack([world.X, effort])
        model = SAREMClassifier(
            propensity_attributes=list(range(D)),
            labelling=Labelling(visit_attributes={"effort": [D, D + 1, D + 2]}, shared=False),
        ).fit(table, S)
        interval = model.class_prior_interval()
        f = model.predict_proba(table)[:, 1]
        found.append(
            {
                "prior": model.class_prior_,
                "error": abs(model.class_prior_ - PRIOR),
                "covers": float(interval.low <= PRIOR <= interval.high),
                "width": interval.high - interval.low,
                "mse_f": float(np.mean((f - world.f) ** 2)),
            }
        )
    mean = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
    return {**mean, "bias": mean["prior"] - PRIOR, "runs": RUNS}


def _speed() -> dict[str, Any]:
    """CPU time of a fit to three looks, in supervised logistic fits of the same table: the median of seven pairs.

    Both on one thread of BLAS: a supervised fit would otherwise pay for threads that wait.
    """
    ratios, wall = [], []
    with threadpool_limits(1):
        for seed in range(7):
            world = World(seed, n=100_000, d=20)
            S = world.looks(3)
            timed = []
            for fit in (
                lambda world=world: LogisticRegression(tol=1e-6).fit(world.X, world.y),
                lambda world=world, S=S: _model().fit(world.X, S),
            ):
                cpu, clock = time.process_time(), time.perf_counter()
                fit()
                timed.append((time.process_time() - cpu, time.perf_counter() - clock))
            ratios.append(timed[1][0] / timed[0][0])
            wall.append(timed[1][1] / timed[0][1])
    return {
        "cpu_ratio": float(np.median(ratios)),
        "wall_ratio": float(np.median(wall)),
        "passes": passes(_model(), world.X, S),
        "runs": 7,
    }


def _measure(part: str, cells: dict[str, Callable[[], Row]], names: tuple[str, ...]) -> Iterator[Row]:
    measured = {row["dataset"] for row in read_rows("information") if row["part"] == part}
    for name, compute in cells.items():
        if name in names or (not names and name not in measured):
            yield {"part": part, "dataset": name, **compute()}


def looks(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """Class and labelling see the same attributes."""
    yield from _measure("looks", {name: partial(_cell, "looks", name) for name in CELLS["looks"]}, names)


def traps(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """Where an assumption does not hold."""
    yield from _measure("traps", {name: partial(_cell, "traps", name) for name in CELLS["traps"]}, names)


def sources(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """Looks with coefficients of their own."""
    yield from _measure("sources", {"three sources, a visit attribute, 30% of looks missing": _sources}, names)


def speed(names: tuple[str, ...] = ()) -> Iterator[Row]:
    """Against supervised logistic regression."""
    yield from _measure("speed", {"n = 100,000, d = 20, K = 3": _speed}, names)


PARTS = {"looks": looks, "traps": traps, "sources": sources, "speed": speed}


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        print_rows(newest("information"))
        return
    run("information", PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
