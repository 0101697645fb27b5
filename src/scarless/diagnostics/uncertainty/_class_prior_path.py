"""Maximises the likelihood at fixed class priors; each optimisation starts from the nearest known solution."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from scarless.engines import Engine
from scarless.numerics.arrays import Vector
from scarless.numerics.constrained import (
    FixedPriorOptions,
    FixedPriorSolution,
    FixedPriorSums,
    PairWithPositives,
    minimise_at_class_prior,
)
from scarless.numerics.objectives import Curvature
from scarless.numerics.uncertainty import PairSums
from scarless.pair.inference import PairInference
from scarless.pair.problem import PairProblem
from scarless.pair.solving import Addition

# All distances are in logits of the class prior.
_MAX_STEP = 0.5  # largest step from one solution to the next
_MIN_STEP = 1e-3  # smallest step; if a shorter step is needed, the profile ends
_MAX_ABS_LOGIT = 7.0  # beyond it, a class prior is practically 0 or 1
_MAX_POINTS = 40  # largest number of points on each side of the fit
# The profile ends if the log-likelihood has dropped by this multiple of the cut, the drop that rejects a class prior.
_SHOWN_DROP = 1.5


@dataclass(frozen=True)
class PenalisedFixedPriorProblem:
    """Objective at a fixed class prior: minus the penalised log-likelihood, and the expected number of positives."""

    engine: Engine
    pair: PairWithPositives
    ridge: Vector
    additions: tuple[Addition, ...] = ()

    def evaluate(self, beta: Vector, curvature: Curvature) -> FixedPriorSums:
        """Return the sums over all rows, including the penalty."""
        sums = self.engine.total(self.pair.sums, beta, curvature)
        sums.curvature[np.diag_indices(beta.size)] += self.ridge
        value, gradient = sums.value + 0.5 * ((self.ridge * beta) @ beta), sums.gradient + self.ridge * beta
        for addition in self.additions:
            pulled = addition.sums(beta)
            value, gradient = value + pulled.value, gradient + pulled.gradient
            sums.curvature[...] += pulled.curvature
        return sums._replace(value=value, gradient=gradient)


class ProfilePath:
    """Solutions at class priors around a fit; `points` maps each class prior of the profile to its solution."""

    def __init__(self, inference: PairInference, problem: PairProblem) -> None:
        self.inference, self.engine = inference, problem.engine
        additions: tuple[Addition, ...] = (
            *problem.pulls,
            *(constraint.softened() for constraint in problem.constraints),
        )
        pair, engine = PairWithPositives(problem.objective), problem.engine
        self.problem = PenalisedFixedPriorProblem(engine, pair, problem.ridge, additions)
        self.weight = float(inference.sums.weight)
        single = engine.dtype == np.float32
        self.options = FixedPriorOptions(
            scale=self.weight, class_prior_tol=1e-6 if single else 1e-9, rounding=1e-7 if single else 1e-14
        )
        beta = inference.parameters
        penalty = 0.5 * float(problem.ridge @ beta**2) + sum(float(each.sums(beta).value) for each in additions)
        value = penalty - inference.log_likelihood
        self.fit = FixedPriorSolution(beta, 0.0, value, inference.positives, converged=True, n_iter=0)
        self.fit_alpha = inference.positives / self.weight
        self.points = {self.fit_alpha: self.fit}
        self._solved = {float(logit(self.fit_alpha)): self.fit}

    def summary(self, point: FixedPriorSolution) -> PairSums:
        """Return sums over all rows of the predictions of the models at a point."""
        return self.engine.total(self.inference.objective.totals, point.parameters)

    def follow(self, side: int, cut: float) -> tuple[float, bool]:
        """Step away from the fit until the drop in log-likelihood exceeds 1.5 times the cut.

        Return the class prior at which the drop equals the cut, and True. If the class prior becomes practically 0 or 1
        before the drop equals the cut, or if the optimisation fails, return the last class prior with a smaller drop,
        and False.
        """
        t = float(logit(self.fit_alpha))
        (error,) = self.inference.precision.errors(self.inference.class_prior.gradient[None])
        slope = self.fit_alpha * (1.0 - self.fit_alpha)
        step = float(np.clip(0.35 * error / slope if slope > 0 else np.inf, 0.01, _MAX_STEP))
        last_inside, first_outside = t, None
        for _ in range(_MAX_POINTS):
            t += side * step
            if abs(t) > _MAX_ABS_LOGIT or (drop := self._drop(t)) is None:
                break
            if drop < cut:
                last_inside, first_outside = t, None
            elif first_outside is None:
                first_outside = t
            if drop > _SHOWN_DROP * cut:
                break
            step = min(1.2 * step, _MAX_STEP)
        return self._end(last_inside, first_outside, cut)

    def visit(self, grid: Vector, side: int, cut: float) -> tuple[float, bool]:
        """Evaluate the given class priors on one side of the fit, and return the end of the interval as in `follow`."""
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
        """Return the logit at which the drop equals the cut, by the Illinois method on the square root of the drop."""

        def excess(t: float) -> float:
            solution = self._reach(t)
            drop = 0.0 if solution is None else solution.value - self.fit.value
            return float(np.sqrt(max(drop, 0.0)) - np.sqrt(cut))

        a, b, at_a, at_b = inside, outside, excess(inside), excess(outside)
        t = b
        for _ in range(12):
            t = a - at_a * (b - a) / (at_b - at_a)
            at_t = excess(t)
            if abs(at_t) < 1e-4:
                break
            if at_t * at_b < 0:
                a, at_a = b, at_b
            else:
                at_a *= 0.5
            b, at_b = t, at_t
        return t

    def _drop(self, t: float) -> float | None:
        """Add the point at a logit to `points`; return its drop below the fit, or None if there is no solution."""
        solution = self._reach(t)
        if solution is None:
            return None
        self.points[solution.positives / self.weight] = solution
        return solution.value - self.fit.value

    def _reach(self, t: float) -> FixedPriorSolution | None:
        """Solve at a logit, in steps from the nearest solution; a step that fails is shortened."""
        longest = _MAX_STEP
        while longest > _MIN_STEP:
            near = min(self._solved, key=lambda known: abs(known - t))
            if near == t:
                return self._solved[t]
            target = t if abs(t - near) <= longest else near + float(np.sign(t - near)) * longest
            start = self._solved[near]
            found = minimise_at_class_prior(
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
