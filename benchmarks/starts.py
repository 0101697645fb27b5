"""How often the climbs of a fit miss the best optimum that can be found: random small problems.

``python -m benchmarks.starts`` measures 200 problems with one start, with five, and with `REFERENCE` starts of another
kind (about ten minutes on one core); rows go to ``benchmarks/results/starts.jsonl``. A fit is *below* where the best of
its ``optima_`` is worse than the best that anyone found by more than 1e-6, relative and absolute together. What a fit
then chooses among its optima is another question: of those that labels cannot tell apart, not always the best.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from benchmarks.runner import Row, newest, print_rows, run, timed
from scarless import SAREMClassifier
from scarless.numerics.linear import Design
from scarless.pair.logistic import engine_of
from scarless.pair.optima import climb_all
from scarless.pair.problem import PairProblem
from scarless.pair.starts import Start

Array = np.ndarray
PENALTIES = (0.1, 1.0, 10.0, 100.0)
REFERENCE = 20


class SmallProblem(NamedTuple):
    """A table, its labels, and the parameters of a fit to them."""

    X: Array
    s: Array
    options: dict[str, Any]

    @property
    def pair(self) -> PairProblem:
        """The problem as the climbs see it."""
        f, e = self.options["classification_attributes"], self.options["propensity_attributes"]
        C, propensity_C = self.options["C"], self.options["propensity_C"]
        s = self.s.astype(float)
        f, e = Design.of(np.array(f)), Design.of(np.array(e))
        return PairProblem.of(engine_of(self.X, s=s, w=np.ones(s.size)), f, e, C, propensity_C)


def small_problem(seed: int) -> SmallProblem:
    """Return a random problem: 40 to 400 rows, 1 to 6 columns, attributes that overlap or not, any penalties."""
    rng = np.random.default_rng([seed, 10])
    while True:
        n, d = int(np.exp(rng.uniform(np.log(40), np.log(400)))), int(rng.integers(1, 7))
        binary = rng.random(d) < 0.5
        X = np.where(binary, rng.random((n, d)) < rng.uniform(0.2, 0.8, d), rng.normal(size=(n, d)))
        f_columns, e_columns = (np.sort(rng.permutation(d)[: rng.integers(1, d + 1)]) for _ in range(2))
        size = rng.uniform(0.5, 3.0, 2)
        u, v = (
            X[:, columns] @ rng.normal(size=columns.size) * scale + rng.normal()
            for columns, scale in zip((f_columns, e_columns), size, strict=True)
        )
        s = (rng.random(n) < expit(u) * expit(v)).astype(int)
        if 5 <= s.sum() <= n - 5:
            break
    C, propensity_C = (float(value) for value in rng.choice(PENALTIES, 2))
    options = {"classification_attributes": f_columns.tolist(), "propensity_attributes": e_columns.tolist()}
    return SmallProblem(X.astype(float), s, {**options, "C": C, "propensity_C": propensity_C})


def best_objective(problem: SmallProblem, n_starts: int) -> tuple[float, str]:
    """Return the best objective among a fit's optima, and what the fit says of its choice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SAREMClassifier(n_starts=n_starts, random_state=0, **problem.options).fit(problem.X, problem.s)
    return min(optimum.objective for optimum in model.optima_), str(model.selection_)


def reference(problem: SmallProblem, n_starts: int = REFERENCE, seed: int = 0) -> float:
    """Return the best objective from starts of all sizes, directions and class priors."""
    rng = np.random.default_rng([seed, 11])
    pair = problem.pair
    starts = [Start(f"reference {i}", _anywhere(problem, rng)) for i in range(n_starts)]
    return min(climb.optimum.objective for climb in climb_all(pair, starts, tol=1e-10, max_iter=500))


def _anywhere(problem: SmallProblem, rng: np.random.Generator) -> Array:
    models = []
    share = problem.s.mean()
    prior = rng.uniform(share, 1.0)
    names = ("classification_attributes", "propensity_attributes")
    for name, mean in zip(names, (prior, share / prior), strict=True):
        width = len(problem.options[name])
        size = np.exp(rng.uniform(np.log(0.1), np.log(5.0)))
        models.append(np.append(rng.normal(size=width) * size, logit(np.clip(mean, 1e-3, 1 - 1e-3))))
    return np.concatenate(models)


def below(objective: float, best: float) -> bool:
    """Whether an objective is worse than the best by more than rounding."""
    return objective - best > 1e-6 * (1.0 + abs(best))


def missed(n_problems: int = 200) -> Iterator[Row]:
    """How many of the problems end below the best with one start and with five."""
    count = {1: 0, 5: 0}
    seconds = {1: 0.0, 5: 0.0}
    seeds: dict[int, list[int]] = {1: [], 5: []}
    for seed in range(n_problems):
        problem = small_problem(seed)
        found = {}
        for n_starts in count:
            spent, (found[n_starts], _) = timed(lambda p=problem, n=n_starts: best_objective(p, n))
            seconds[n_starts] += spent
        best = min(*found.values(), reference(problem))
        for n_starts, objective in found.items():
            if below(objective, best):
                count[n_starts] += 1
                seeds[n_starts].append(seed)
    for n_starts, number in count.items():
        yield {
            "part": "missed",
            "method": f"n_starts={n_starts}",
            "problems": n_problems,
            "below": number,
            "seconds": seconds[n_starts],
            "seeds": seeds[n_starts],
        }


PARTS = {"missed": missed}


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        print_rows(newest("starts"))
        return
    run("starts", PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
