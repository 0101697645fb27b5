"""How often a fit misses the best optimum, with one start and with five.

Data: 200 random problems of 40 to 400 rows and 1 to 6 columns.
Time: about ten minutes on one core.

Each problem is also optimised from 20 random starts of another kind. A fit misses the best optimum if the best of its
`optima_` is worse, by more than 1e-6, than the best optimum of all fits to this problem. The program does not check
which of its optima a fit chooses: among optima with nearly the same likelihood, a fit does not always choose the best.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from benchmarks.runner import Row, run_parts, timed
from scarless import SAREMClassifier
from scarless.numerics.linear import Design
from scarless.pair.logistic import engine_of
from scarless.pair.optima import fit_from_starts
from scarless.pair.problem import PairProblem
from scarless.pair.starts import Start

Array = np.ndarray
PENALTIES = (0.1, 1.0, 10.0, 100.0)
N_REFERENCE_STARTS = 20


class SmallProblem(NamedTuple):
    """A table, its labels, and the parameters of a fit."""

    X: Array
    s: Array
    options: dict[str, Any]

    @property
    def pair(self) -> PairProblem:
        """The problem as the optimiser sees it."""
        f, e = self.options["classification_attributes"], self.options["propensity_attributes"]
        C, propensity_C = self.options["C"], self.options["propensity_C"]
        s = self.s.astype(float)
        f, e = Design.of(np.array(f)), Design.of(np.array(e))
        return PairProblem.of(engine_of(self.X, s=s, w=np.ones(s.size)), f, e, C, propensity_C)


def small_problem(seed: int) -> SmallProblem:
    """Return a random problem: 40 to 400 rows, 1 to 6 columns, random attribute sets and penalties."""
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
    """Return the best objective among a fit's optima, and the description of the chosen one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SAREMClassifier(n_starts=n_starts, random_state=0, **problem.options).fit(problem.X, problem.s)
    return min(optimum.objective for optimum in model.optima_), str(model.selection_)


def reference(problem: SmallProblem, n_starts: int = N_REFERENCE_STARTS, seed: int = 0) -> float:
    """Return the best objective from random starts of all sizes, directions and class priors."""
    rng = np.random.default_rng([seed, 11])
    pair = problem.pair
    starts = [Start(f"reference {i}", _random_start(problem, rng)) for i in range(n_starts)]
    return min(found.optimum.objective for found in fit_from_starts(pair, starts, tol=1e-10, max_iter=500))


def _random_start(problem: SmallProblem, rng: np.random.Generator) -> Array:
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
    """Return whether an objective is worse than the best one by more than rounding."""
    return objective - best > 1e-6 * (1.0 + abs(best))


def missed(n_problems: int = 200) -> Iterator[Row]:
    """Number of problems in which a fit with one start, or with five, misses the best optimum."""
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
            "seconds_per_fit": seconds[n_starts] / n_problems,
            "seeds": seeds[n_starts],
        }


PARTS = {"missed": missed}


def main(arguments: list[str]) -> None:
    run_parts("starts", __doc__, PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
