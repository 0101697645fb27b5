"""Follow the best models along the class prior, each solution from its neighbour."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from scarless.engines import Engine
from scarless.numerics.arrays import Vector
from scarless.numerics.constrained import (
    LevelOptions,
    LevelSolution,
    LevelSums,
    PairWithPositives,
    minimise_on_level,
)
from scarless.numerics.objectives import Curvature
from scarless.numerics.uncertainty import PairSums
from scarless.pair.inference import PairInference
from scarless.pair.problem import PairProblem
from scarless.pair.solving import Addition

# All in logits of the class prior.
_WIDEST = 0.5  # between a solution and the one that it starts from
_NARROWEST = 1e-3  # below which a path that cannot be followed is given up
_FARTHEST = 7.0  # beyond which a class prior is 0 or 1 for all purposes
_MOST_POINTS = 40  # to each side of the fit
_PAST_THE_CUT = 1.5  # how far below the cut the profile is shown, as a multiple of it


@dataclass(frozen=True)
class PenalisedLevelProblem:
    """Minus the log-likelihood of a pair plus the penalty, with the expected number of positives."""

    engine: Engine
    pair: PairWithPositives
    ridge: Vector
    additions: tuple[Addition, ...] = ()

    def evaluate(self, beta: Vector, curvature: Curvature) -> LevelSums:
        """Return the sums over all rows, penalty included."""
        sums = self.engine.total(self.pair.sums, beta, curvature)
        sums.curvature[np.diag_indices(beta.size)] += self.ridge
        value, gradient = sums.value + 0.5 * ((self.ridge * beta) @ beta), sums.gradient + self.ridge * beta
        for addition in self.additions:
            pulled = addition.sums(beta)
            value, gradient = value + pulled.value, gradient + pulled.gradient
            sums.curvature[...] += pulled.curvature
        return sums._replace(value=value, gradient=gradient)


class ProfilePath:
    """Solutions at class priors around a fit; `points` holds those to show, by their class prior."""

    def __init__(self, inference: PairInference, problem: PairProblem) -> None:
        self.inference, self.engine = inference, problem.engine
        additions: tuple[Addition, ...] = (*problem.pulls, *(fact.softened() for fact in problem.facts))
        pair, engine = PairWithPositives(problem.objective), problem.engine
        self.problem = PenalisedLevelProblem(engine, pair, problem.ridge, additions)
        self.weight = float(inference.sums.weight)
        single = engine.dtype == np.float32
        self.options = LevelOptions(
            scale=self.weight, level_tol=1e-6 if single else 1e-9, rounding=1e-7 if single else 1e-14
        )
        beta = inference.parameters
        penalty = 0.5 * float(problem.ridge @ beta**2) + sum(float(each.sums(beta).value) for each in additions)
        value = penalty - inference.log_likelihood
        self.fit = LevelSolution(beta, 0.0, value, inference.positives, converged=True, n_iter=0)
        self.fit_alpha = inference.positives / self.weight
        self.points = {self.fit_alpha: self.fit}
        self._solved = {float(logit(self.fit_alpha)): self.fit}

    def summary(self, point: LevelSolution) -> PairSums:
        """Return what the models at a point say of all rows together."""
        return self.engine.total(self.inference.objective.totals, point.parameters)

    def walk(self, side: int, cut: float) -> tuple[float, bool]:
        """Step outwards until the log-likelihood is past the cut; return where it crosses, and whether it does.

        Where it does not, the path ended: at the far end, or since it could not be followed.
        """
        t = float(logit(self.fit_alpha))
        (error,) = self.inference.precision.errors(self.inference.class_prior.gradient[None])
        slope = self.fit_alpha * (1.0 - self.fit_alpha)
        step = float(np.clip(0.35 * error / slope if slope > 0 else np.inf, 0.01, _WIDEST))
        last_inside, first_outside = t, None
        for _ in range(_MOST_POINTS):
            t += side * step
            if abs(t) > _FARTHEST or (drop := self._drop(t)) is None:
                break
            if drop < cut:
                last_inside, first_outside = t, None
            elif first_outside is None:
                first_outside = t
            if drop > _PAST_THE_CUT * cut:
                break
            step = min(1.2 * step, _WIDEST)
        return self._end(last_inside, first_outside, cut)

    def visit(self, grid: Vector, side: int, cut: float) -> tuple[float, bool]:
        """Look at given class priors on one side of the fit; return where the cut is crossed, as `walk` does."""
        start = float(logit(self.fit_alpha))
        last_inside, first_outside = start, None
        targets = np.sort(side * (np.asarray(logit(grid)) - start))
        for distance in targets[targets > 0]:
            t = start + side * float(distance)
            if (drop := self._drop(t)) is None:
                break
            if drop < cut:
                last_inside, first_outside = t, None
            elif first_outside is None:
                first_outside = t
        return self._end(last_inside, first_outside, cut)

    def _end(self, inside: float, outside: float | None, cut: float) -> tuple[float, bool]:
        if outside is None:
            return float(expit(inside)), False
        t = self._crossing(inside, outside, cut)
        self._drop(t)
        return float(expit(t)), True

    def _crossing(self, inside: float, outside: float, cut: float) -> float:
        """Return where the drop equals the cut, by the Illinois method on its root, which is almost straight."""

        def height(t: float) -> float:
            solution = self._reach(t)
            drop = 0.0 if solution is None else solution.value - self.fit.value
            return float(np.sqrt(max(drop, 0.0)) - np.sqrt(cut))

        a, b, at_a, at_b = inside, outside, height(inside), height(outside)
        t = b
        for _ in range(12):
            t = a - at_a * (b - a) / (at_b - at_a)
            at_t = height(t)
            if abs(at_t) < 1e-4:
                break
            if at_t * at_b < 0:
                a, at_a = b, at_b
            else:
                at_a *= 0.5
            b, at_b = t, at_t
        return t

    def _drop(self, t: float) -> float | None:
        """Show the point at a logit; return how far it is below the fit, or None where it is not found."""
        solution = self._reach(t)
        if solution is None:
            return None
        self.points[solution.positives / self.weight] = solution
        return solution.value - self.fit.value

    def _reach(self, t: float) -> LevelSolution | None:
        """Solve at a logit, in steps from the nearest solution that are shortened where they fail."""
        longest = _WIDEST
        while longest > _NARROWEST:
            near = min(self._solved, key=lambda known: abs(known - t))
            if near == t:
                return self._solved[t]
            target = t if abs(t - near) <= longest else near + float(np.sign(t - near)) * longest
            start = self._solved[near]
            found = minimise_on_level(
                self.problem,
                start.parameters,
                positives=float(expit(target)) * self.weight,
                multiplier=start.multiplier,
                options=self.options,
            )
            if found.converged:
                self._solved[target] = found
            else:
                longest = abs(target - near) / 4.0
        return None
