r"""The recalibrated fit: scale and level of a classifier, and the propensities, estimated anew from held-out logits.

One label of each row says little about the class prior: a lower class prior with a higher propensity often fits almost
as well. The likelihood is therefore evaluated on a grid of grid, with all other parameters fitted anew at each. For
one label of each row the estimate is the mean class prior over the grid, weighted by the likelihood. Several looks and
audits identify the level: there the estimate is the optimum, and the grid is for intervals alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit, xlog1py, xlogy

from scarless.checks.rows import row_totals
from scarless.engines import Engine, Rows
from scarless.numerics.arrays import Columns, Matrix, Vector, at_least, at_most, namespace_of
from scarless.numerics.likelihood import softplus
from scarless.numerics.linear import Design, squared_sums, transposed_product
from scarless.numerics.newton import Solution, Status, solve_positive
from scarless.numerics.objectives import Curvature, PairObjective
from scarless.numerics.recalibrated import (
    LEVEL,
    SLOPE,
    RecalibratedPair,
    centre_sums,
    columns_of_propensities,
    moved_to_logits,
)
from scarless.numerics.uncertainty import Interval
from scarless.pair.constraints import ClassPrior, Fact, KnownShare
from scarless.pair.fit import GAIN_WITH_CONSTRAINTS, fit_with_constraints
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PSEUDO_FALSE_LABEL_WEIGHT, PairProblem
from scarless.pair.solving import Addition, PenalisedProblem, Pull

SLOPE_RIDGE = 1.0  # on the logarithm of the slope: a factor of 2.7 costs half a nat
PROPENSITY_RIDGE = 1.0  # on the propensity's coefficients, its attributes standardised
HELD_RIDGE, HELD_LEVEL = 4.0, 4.0  # on changes of a propensity that could take the classifier's place, and on the level
DOUBT = 3.0  # by which log-likelihoods are divided for intervals
FOLLOW = 0.5  # slope of the propensity's logit in the class logit, where it is assumed to follow the class
MISSING = 0.1  # share of an interval that is for an attribute that nobody named, where labels do not care
_MOST_PREFERRED = 9.0  # nats that count for it
_TOL, _MAX_ITER = 1e-10, 100
_LOWEST = 20.0  # nats below the top, where a walk ends
_MOST_STEPS = 40
_FURTHEST = 0.04  # in class prior, in one step
_LONGEST = 2.0  # in logits, in one step
_STUCK = 1e-6  # in class prior, where more of a level changes nothing
_CREEPING = 1e-3  # of the class prior's variance, in a longest step: the same
_MOVED = 0.1  # of the class prior, by pseudo-observations, that is worth a word
FAR = 10.0  # logits beyond which all are as good as sure
_SURE = 30.0  # that of a label frequency of 1, to rounding
_MANY_ROWS = 3_000  # from which on rows of nearly the same logit are merged
_GROUP = 0.01  # of the spread of logits, within such a group of up to 10,000 rows
_CORRECTIONS = 4  # of the level, until its class prior is the one that is known
_LEAST_AUDITS = 1e-3  # imaginary, that keep a level finite and weigh as good as nothing


class ClassPriorGrid(NamedTuple):
    """How likely each class prior is, with everything else as the labels like it best."""

    class_prior: Vector  # ascending
    label_frequency: Vector
    log_density: Vector  # up to a constant
    pseudo_log_density: Vector  # what pseudo-observations add to it
    shift: Vector  # of the classifier's logit there
    slope: Vector
    swapped: NDArray[np.bool_]  # where a propensity that sees all attributes tells rows further apart than the class
    known: Vector | float = 0.0  # what is known from elsewhere adds to the density
    share: float = 1.0  # in intervals, beside other models
    inflation: float = 1.0  # of variances, where rows belong to groups, and because rows are drawn

    @property
    def weight(self) -> Vector:
        """Share of each level, if the models were of the right form and have not changed places."""
        weight = self._shares(self.log_density) * ~self.swapped
        return weight / weight.sum() if weight.any() else ~self.swapped / np.sum(~self.swapped)

    @property
    def doubtful_weight(self) -> Vector:
        """Share of each level, each nat of log-likelihood worth a third: for intervals, which rule nothing else out.

        Pseudo-observations do not count: they may say what to believe, not what to rule out.
        Tables are not of the models' form, and held-out directions have noise of their own. Measured on tables that are
        not in the paper, a third makes nominal 95% cover 83% after a search (``benchmarks/README.md``).
        """
        return self._shares(
            (self.log_density - self.pseudo_log_density - self.known) / (DOUBT * self.inflation) + self.known
        )

    def told(self, facts: Sequence[KnownShare]) -> "ClassPriorGrid":
        """Return the grid with what is known from elsewhere counted, at steps small enough for it.

        A fact beyond the grid that were walked, which the labels rule out, moves them to the end that is nearest.
        """
        if not facts:
            return self
        around = [np.interp(fact.around(), *self._ascending(fact.share)) for fact in facts]
        prior = np.unique(np.concatenate([self.class_prior, *around]))
        fields = [np.interp(prior, self.class_prior, np.asarray(field, dtype=np.float64)) for field in self[1:7]]
        fine = self._replace(class_prior=prior, **dict(zip(self._fields[1:7], fields, strict=True)))
        fine = fine._replace(swapped=fine.swapped > 0.5)
        known = np.sum([fact.log_density(getattr(fine, fact.share)) for fact in facts], axis=0)
        before = np.interp(prior, self.class_prior, self.known) if np.ndim(self.known) else 0.0
        return fine._replace(log_density=fine.log_density + known, known=before + known)

    @property
    def apart(self) -> float:
        """How many standard errors labels and what is known are apart: the root of twice what letting go of it gains.

        Each nat of log-likelihood is worth a third, as for intervals.
        """
        labels = (self.log_density - self.pseudo_log_density - self.known) / (DOUBT * self.inflation)
        return float(np.sqrt(2.0 * (labels.max() - (labels + self.known).max())))

    def _ascending(self, share: str) -> tuple[Vector, Vector]:
        """Return a share of the grid in ascending order, and the class priors that go with it."""
        values = getattr(self, share)
        order = np.argsort(values, kind="stable")
        return values[order], self.class_prior[order]

    def _shares(self, log_density: Vector) -> Vector:
        """Return density times the way to the neighbours, as a factor of the class prior."""
        density = np.exp(log_density - log_density.max())
        apart = np.gradient(np.log(self.class_prior)) if density.size > 1 else np.ones(1)
        share = density * np.maximum(apart, 1e-12)
        return np.asarray(share / share.sum())

    @property
    def mean(self) -> float:
        """The mean class prior."""
        return float(self.weight @ self.class_prior)

    def remarks(self) -> list[str]:
        """Say where the mean comes from pseudo-observations more than from labels."""
        share = self._shares(self.log_density - self.pseudo_log_density) * ~self.swapped
        alone = float(share @ self.class_prior) / float(share.sum()) if share.any() else self.mean
        if abs(alone - self.mean) <= _MOVED:
            return []
        return [
            f"The labels hardly tell the class prior: it is {self.mean:.3f} with pseudo-observations, which keep the "
            f"label frequency off 0 and 1, and would be {alone:.3f} without. Its interval does not count them. A few "
            "rows whose class is looked up would settle it."
        ]

    @property
    def deviation(self) -> float:
        """Standard deviation of the class prior."""
        return float(np.sqrt(self.weight @ (self.class_prior - self.mean) ** 2))


@dataclass(frozen=True)
class Recalibration:
    r"""How a classifier's logit `u` is moved and stretched, :math:`m + a + b(u - m)`, and the propensity that goes with
    it.

    `e` holds the propensity's coefficients, then its intercept.
    """

    centre: float
    shift: float
    slope: float
    e: Vector
    class_prior: float
    label_frequency: float
    log_likelihood: float  # held-out as for the classifier, all rows together
    grid: ClassPriorGrid
    converged: bool
    follow: float = 0.0  # the slope of the propensity's logit in the recalibrated class logit

    def __call__(self, u: Vector) -> Vector:
        """Return the recalibrated logits."""
        return self.centre + self.shift + self.slope * (u - self.centre)

    def undone(self, u: Vector) -> Vector:
        """Return held-out logits from recalibrated ones."""
        return self.centre + (u - self.centre - self.shift) / self.slope if self.slope > 0 else u

    def at_levels(self, u: Vector) -> Vector:
        """Return the logits at every level, one column each."""
        return self.centre + self.grid.shift + self.grid.slope * (u[:, None] - self.centre)

    def propensity_at_levels(self, v: Vector) -> Vector:
        """Return the propensity's logits at every level, one column each: moved as that of the label frequency is."""
        at = np.clip(logit(np.append(self.grid.label_frequency, self.label_frequency)), -_SURE, _SURE)
        return v[:, None] + at[:-1] - at[-1]

    def posterior_logits(self, u: Vector, v: Vector, priors: Vector) -> Matrix:
        """Return the logits of the class of rows without a label if the class prior is each of these, one column each.

        `u` are held-out logits, not recalibrated, and `v` the propensity's. Between two grid lies what lies between them.
        """
        at = [np.interp(priors, self.grid.class_prior, field) for field in self.grid[4:6]]
        level = np.clip(logit(np.append(self.grid.label_frequency, self.label_frequency)), -_SURE, _SURE)
        moved = np.interp(priors, self.grid.class_prior, level[:-1]) - level[-1]
        return np.asarray(self.centre + at[0] + at[1] * (u[:, None] - self.centre) - softplus(v[:, None] + moved))

    def level_errors(self, u: Vector, v: Vector, of: str) -> Vector:
        """Return how far each row's logit spreads over the grid that the labels leave possible.

        `u` are recalibrated logits, `v` those of the propensity; `of` says whose spread: of the "class", the "propensity",
        or the "posterior" of no label.
        """
        at = self.at_levels(self.undone(u))
        moved = self.propensity_at_levels(v)
        values = {"class": at, "propensity": moved, "posterior": at - softplus(moved)}[of]
        weight = self.grid.doubtful_weight
        centred = values - (values @ weight)[:, None]
        return np.asarray(np.sqrt(np.square(centred) @ weight))

    def on_table_of_logits(self, template: PairObjective, *, given: bool = False) -> tuple[PairObjective, Vector]:
        """Return likelihood and parameters for a table of held-out logits and what the propensities see of another.

        `template` is a likelihood of that other table's own columns. With `given`, the second column is the logit that
        a learner gave.
        """
        columns, follow = columns_of_propensities(template), self.follow
        objective = moved_to_logits(template, columns, 1 + given, [0] * (follow != 0) + [1] * given)
        level, start = float(self(np.zeros(1))[0]), 0
        parts = [np.array([self.slope, level])]
        for place in objective.places[1 : 1 + len(objective.models)]:
            first = np.array([follow * self.slope] * (follow != 0) + [1.0] * given)
            own = self.e[start : start + place.stop - place.start - first.size].copy()
            own[-1] += follow * level
            start += own.size
            parts += [first, own]
        return objective, np.concatenate([*parts, self.e[start:]])

    def of_linear(self, beta: Vector) -> Vector:
        """Return the parameters of a recalibrated linear model; the intercept is last."""
        return np.append(self.slope * beta[:-1], self(beta[-1:]))


def recalibrate(
    problem: PairProblem,
    *,
    audits: float = 4.0,
    hold: Vector | None = None,
    follow: float = 0.0,
    given: bool = False,
    start: Vector | None = None,
    known: Sequence[KnownShare] = (),
    merge: bool = False,
) -> Recalibration:
    """Estimate scale and level of held-out logits, and the propensities, together. Rows of weight 0 do not count.

    The problem's rows have the held-out logit ``u``, and ``v`` where a learner has `given` the propensity's. Its
    classifier, totals and pseudo-observations are not read. `start` are parameters of the propensities, and rates, to
    begin with.

    With one label of each row, `audits` imaginary positives, half of them labelled, keep the label frequency off 0 and
    1: a Beta distribution for it, before the labels are seen.

    `hold` is for a propensity that sees all that the classifier sees, and could take its place: the parameters that it
    was fitted with, from which it is then held not to go far, and neither is the level. Levels at which the propensity
    tells rows further apart than the classifier are not believed, since there the two have changed places; intervals
    have them.

    `follow` is the slope of the propensity's logit in the class logit, for a propensity whose attributes nobody named.
    `known` is what is known of the class prior and the label frequency of all rows from elsewhere, in addition to the
    problem's facts. With `merge`, many rows in memory of nearly the same logit are merged, where nothing else tells
    them apart.
    """
    sees_nothing = not columns_of_propensities(problem.objective).size
    if merge and sees_nothing and hold is None and not (given or problem.facts) and problem.engine.n_rows > _MANY_ROWS:
        problem = _merged(problem)
    top, fits = _Fits.of(problem, audits, hold, follow, given=given).at_top(start)
    told = [*known, *(ClassPrior(fact.value, float(np.sqrt(fact.variance))) for fact in problem.facts if _of_all(fact))]
    # Whatever lies around it, the top is believed. With a fact about all rows it is not the best fit at its level.
    first = fits.at_level_of(top) if fits.by_height and told else top._replace(swapped=False)
    points = sorted([first, *fits.walk(first, 1.0), *fits.walk(first, -1.0)], key=lambda point: point.class_prior)
    grid = _grid_of(points)
    if fits.by_height and grid.deviation > 0:  # with one label each the doubt is so much larger that it is left out
        grid = grid._replace(inflation=1.0 + top.row_variance / (DOUBT * grid.deviation**2))
    grid = grid.told(told)
    return fits.recalibration(top if fits.by_height else fits.at_mean(points, grid, exactly=bool(known)), grid)


def recalibrate_roughly(
    problem: PairProblem, *, audits: float = 4.0, hold: Vector | None = None, start: Vector | None = None
) -> Recalibration:
    """Return the most likely recalibration, without a grid of grid: enough to compare classifiers."""
    top, fits = _Fits.of(problem, audits, hold).at_top(start)
    return fits.recalibration(top, _grid_of([top]))


def grid_beside(found: Recalibration, other: Recalibration, n_models: int = 1) -> ClassPriorGrid:
    """Return the grid of a propensity that follows the class too, as where an attribute was not named, for intervals.

    Their share is one in ten beside `n_models` others, times their likelihood over that of what was found, each nat
    worth a third.
    """
    gain = min(other.log_likelihood - found.log_likelihood, _MOST_PREFERRED)
    return other.grid._replace(share=MISSING * float(np.exp(gain / DOUBT)) * n_models)


def grid_interval(grid: Sequence[ClassPriorGrid], share: str, level: float) -> Interval:
    """Return an interval for "class_prior" or "label_frequency" over several models' grid, each with its share."""
    weights = [each.share * each.doubtful_weight for each in grid]
    return mixed_interval([getattr(each, share) for each in grid], weights, level)


def mixed_interval(parts: list[Vector], weights: list[Vector], level: float) -> Interval:
    """Return the ends of an interval of a mixture, tails alike.

    Examples
    --------
    >>> low, high = mixed_interval([np.linspace(0, 1, 101)], [np.ones(101) / 101], 0.5)
    >>> print(f"{low:.2f} {high:.2f}")
    0.25 0.75
    """
    values, weight = np.concatenate(parts), np.concatenate(weights)
    weight = weight / weight.sum()
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - 0.5 * weight[order]
    low, high = np.interp([0.5 - 0.5 * level, 0.5 + 0.5 * level], below, values[order])
    return Interval(float(low), float(high))


def draw_class_priors(grid: Sequence[ClassPriorGrid], n_draws: int, rng: np.random.Generator) -> Vector:
    """Draw class priors from what intervals leave possible, over several models' grid."""
    weight = np.concatenate([each.share * each.doubtful_weight for each in grid])
    weight = weight / weight.sum()
    values = np.concatenate([each.class_prior for each in grid])
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - 0.5 * weight[order]
    return np.interp(rng.random(n_draws), below, values[order])


class _Point(NamedTuple):
    theta: Vector
    class_prior: float
    label_frequency: float
    log_likelihood: float
    log_density: float
    pseudo_log_density: float
    known: float  # what facts about groups and looks add to the density
    pace: float  # of the class prior, as the level moves
    pivot: float  # where a change of slope changes the class prior least
    row_variance: float  # of the class prior, because rows are drawn from a population
    curvature: Matrix | None  # at the solution, where the level was held
    converged: bool
    swapped: bool  # whether the propensity tells rows further apart than the classifier


@dataclass(frozen=True)
class _Fits:
    """The rows, and the fits at one level or another."""

    engine: Engine  # rows: u (centred), v, w, and what was observed
    objective: RecalibratedPair
    weight: float
    labelled: float
    audits: float
    hold: Vector | None  # in the units of the table
    ridge: Vector
    pulls: tuple[Pull, ...]  # imaginary labels of negatives
    facts: tuple[Fact, ...]
    by_height: bool  # whether the likelihood itself tells the level

    @classmethod
    def of(
        cls, problem: PairProblem, audits: float, hold: Vector | None, follow: float = 0.0, *, given: bool = False
    ) -> "_Fits":
        template, by_height, totals = problem.objective, problem.class_prior_is_identified, row_totals(problem.engine)
        centre = problem.engine.total(centre_sums).centre
        scales = standard_scales(problem.engine, template, totals.weight)
        pair = RecalibratedPair.of(template, centre, *scales, follow=follow, given=given)
        if hold is not None:
            pair = replace(pair, hold=pair.standardised(hold))
        rows, n = problem.engine.derive(_centred, centre), pair.n_parameters
        ridge = np.full(n, PROPENSITY_RIDGE if hold is None else HELD_RIDGE)
        if by_height:
            ridge[2:] = problem.ridge[template.f.n_parameters :] / pair.parameter_units**2
        ridge[SLOPE], ridge[LEVEL] = SLOPE_RIDGE, 0.0 if hold is None else HELD_LEVEL
        ridge[pair.intercepts] = 0.0
        return cls(
            rows,
            pair,
            float(totals.weight),
            float(totals.labelled),
            0.0 if by_height else audits,
            hold,
            ridge,
            tuple(Pull(PSEUDO_FALSE_LABEL_WEIGHT, np.eye(n)[n - 1 - i]) for i in range(template.n_rates)),
            tuple(replace(fact, engine=rows, objective=pair) for fact in problem.facts),
            by_height,
        )

    def at_top(self, start: Vector | None = None) -> tuple[_Point, "_Fits"]:
        """Return the most likely level, pseudo-observations included, and the fits with facts as they were kept to there.

        `start` are parameters of the propensities, and rates, in the units of the table.
        """
        n, theta = self.objective.n_parameters, np.zeros(self.objective.n_parameters)
        if start is not None:
            theta[2:] = self.objective.standardised(start)
        # The class's level is not audited, but must not run away where the labels say nothing of it.
        of_class = Pull(_LEAST_AUDITS if self.by_height else 0.1, np.eye(n)[LEVEL], self.objective.centre)
        audits = (Pull(max(self.audits, _LEAST_AUDITS), np.eye(n)[place]) for place in self.objective.intercepts)
        pulls = (*self.pulls, of_class, *audits)

        def climb(facts: tuple[Fact, ...], at: Vector, exactly: bool) -> Solution:
            return self._solve(self.objective, at, (*pulls, *facts), tol=GAIN_WITH_CONSTRAINTS if exactly else _TOL)

        solution, facts, met = fit_with_constraints(self.facts, self.weight, theta, climb)
        kept = replace(self, facts=facts)
        top = kept._point(solution)
        top = kept.at(0.0, np.zeros(n)) if top.swapped else top
        return top._replace(converged=top.converged and met), kept

    def at(self, shift: float, theta: Vector, curvature: Matrix | None = None, pivot: float = 0.0) -> _Point:
        """Return the best fit at one level, from another, whose Hessian is perhaps known.

        The level is that of the `pivot`. Where that is far from the logits of rows whose class is open, a change of
        slope changes the class prior, and grid are not class priors any more.
        """
        theta, pair = theta.copy(), replace(self.objective, held=(LEVEL,), pivot=pivot)
        theta[LEVEL] = shift
        facts = [replace(fact, objective=pair) for fact in self.facts if not _of_all(fact)]
        solution = self._solve(pair, theta, (*self.pulls, *facts), curvature)
        return self._point(replace(solution, parameters=pair.turned(solution.parameters, 0.0)), held=True)

    def at_level_of(self, point: _Point) -> _Point:
        """Return the best fit at the level of another."""
        return self.at(self.objective.turned(point.theta, point.pivot)[LEVEL], point.theta, None, point.pivot)

    def walk(self, top: _Point, sign: float) -> Iterator[_Point]:
        """Yield fits at grid further and further from the top, until they are out of the question."""
        point, step, pace = top, self._first_step(top), np.zeros_like(top.theta)
        highest = top.log_density - top.pseudo_log_density
        for _ in range(_MOST_STEPS):
            step = min(1.3 * step, _FURTHEST / max(point.pace, 1e-6), _LONGEST)
            before = point
            # Everything else goes on as it went from the last level to this one.
            level = self.objective.turned(before.theta, before.pivot)[LEVEL]
            point = self.at(level + sign * step, before.theta + step * pace, before.curvature, before.pivot)
            point = point._replace(swapped=point.swapped or before.swapped)  # there is no way back
            pace = (point.theta - before.theta) / step
            moved, least = abs(point.class_prior - before.class_prior), _STUCK
            if step == _LONGEST:
                least = max(least, _CREEPING * point.class_prior * (1.0 - point.class_prior))
            density = point.log_density - point.pseudo_log_density
            highest = max(highest, density)
            yield point
            if moved < least:
                break
            if density < highest - _LOWEST or not 1e-4 < point.class_prior < 1.0 - 1e-4:
                break

    def at_mean(self, points: list[_Point], grid: ClassPriorGrid, *, exactly: bool) -> _Point:
        """Return the fit whose class prior is the mean over the grid; `exactly` where that is known."""
        there = min(points, key=lambda point: abs(point.class_prior - grid.mean))
        shift = float(np.interp(grid.mean, grid.class_prior, grid.shift))
        found = self.at(shift, there.theta)
        for _ in range(_CORRECTIONS if exactly else 0):
            shift += (grid.mean - found.class_prior) / max(found.pace, 1e-6)
            found = self.at(shift, found.theta)
        # With many propensity attributes a fit may jump to another optimum, whose class prior is not the mean at all.
        return there if abs(found.class_prior - grid.mean) > _FURTHEST else found

    def recalibration(self, point: _Point, grid: ClassPriorGrid) -> Recalibration:
        """Return a fit in the units of the table."""
        theta, pair = point.theta, self.objective
        e = pair.in_table_units(theta[2:])
        return Recalibration(
            pair.centre,
            shift=float(theta[LEVEL]),
            slope=float(np.exp(theta[SLOPE])),
            e=e if self.hold is None else e + self.hold,
            class_prior=point.class_prior,
            label_frequency=point.label_frequency,
            log_likelihood=point.log_likelihood,
            grid=grid,
            converged=point.converged,
            follow=pair.follow,
        )

    def _solve(
        self,
        objective: RecalibratedPair,
        start: Vector,
        additions: tuple[Addition, ...],
        curvature: Matrix | None = None,
        tol: float = _TOL,
    ) -> Solution:
        ridge = self.ridge.copy()
        if LEVEL in objective.held:
            ridge[LEVEL] = 0.0  # the likelihood holds still along it, so its ridge would move it alone
        problem = PenalisedProblem(self.engine, objective, ridge, additions)
        return problem.solve(
            start,
            total_weight=self.weight,
            tol=tol,
            max_iter=_MAX_ITER,
            damp_indefinite=True,
            curvature=curvature,
        )

    def _point(self, solution: Solution, *, held: bool = False) -> _Point:
        theta = solution.parameters
        sums, moments = self.engine.total(_block_answers, self.objective, theta, self.hold is not None)
        value, positives, labelled, variance, around, squares = map(float, sums)
        spread = moments[1] / self.weight - (moments[0] / self.weight) ** 2
        prior, frequency = positives / self.weight, labelled / positives
        audited = float(xlogy(0.5, frequency) + xlog1py(0.5, -frequency))
        pseudo_log_density = self.audits * max(audited, -1e6) if self.audits else 0.0
        facts = [(fact, float(fact.sums(theta, Curvature.NONE).value)) for fact in self.facts if not _of_all(fact)]
        density = value - 0.5 * float(self.ridge @ theta**2) + pseudo_log_density - sum(lost for _, lost in facts)
        return _Point(
            theta,
            class_prior=prior,
            label_frequency=frequency,
            log_likelihood=value,
            log_density=density,
            pseudo_log_density=pseudo_log_density,
            known=-sum(lost for fact, lost in facts if not fact.widened),  # one that is sure only limits the models
            pace=variance / self.weight,
            pivot=around / variance if self.by_height and variance > 0 else 0.0,
            row_variance=max(squares / self.weight - prior**2, 0.0) / self.weight,
            curvature=solution.curvature if held else None,
            converged=solution.status is Status.CONVERGED,
            swapped=bool(self.hold is not None and max(spread[0], 0.0) < max(spread[1], 0.0)),
        )

    def _first_step(self, top: _Point) -> float:
        """Return a step that loses little likelihood: a third of the level's standard error.

        With one label of each row it is that of as many audits as there are labels, everything else fixed.
        """
        if not self.by_height:
            return 0.3 / np.sqrt(max(self.labelled * max(top.pace, 1e-6), 1.0))
        pair, one = replace(self.objective, pivot=top.pivot), np.eye(top.theta.size)[LEVEL]
        theta = self.objective.turned(top.theta, top.pivot)
        problem = PenalisedProblem(self.engine, pair, self.ridge, self.pulls)
        variance = float(one @ solve_positive(problem.evaluate(theta, Curvature.EXPECTED).curvature, one))
        return 0.3 * float(np.sqrt(min(max(variance, 1e-12), _LONGEST**2)))


def _of_all(fact: Fact) -> bool:
    """Whether a fact is about the class prior of all rows, which grid differ in."""
    return fact.kind is None and fact.group is None


def _grid_of(points: list[_Point]) -> ClassPriorGrid:
    def each(name: str) -> Vector:
        return np.array([getattr(point, name) for point in points])

    theta, known = np.array([point.theta[:2] for point in points]), each("known")
    return ClassPriorGrid(
        class_prior=each("class_prior"),
        label_frequency=each("label_frequency"),
        log_density=each("log_density"),
        pseudo_log_density=each("pseudo_log_density"),
        shift=theta[:, LEVEL],
        slope=np.exp(theta[:, SLOPE]),
        swapped=each("swapped").astype(bool),
        known=known if known.any() else 0.0,
    )


def _merged(problem: PairProblem) -> PairProblem:
    """Merge rows of the same labels and nearly the same logit: without propensity attributes a row has nothing else.

    Groups are narrower the more rows there are, so that merging moves the log-likelihood by less than 0.1 in all.
    """
    names = ("s", *(name for name in problem.objective.observed if name != "s"))
    values = np.transpose(problem.engine.collect(_values, names))
    u, w, seen = (each[..., values[1] > 0] for each in (values[0], values[1], values[2:]))
    spread = float(np.std(np.clip(u, *np.quantile(u, [0.01, 0.99]))))
    if not spread:
        return problem
    width = _GROUP * spread * min(1.0, np.sqrt(10_000 / u.size))
    kinds, group = np.unique(np.vstack([np.floor(u / width), seen]), axis=1, return_inverse=True)
    weight, total = (np.bincount(group.ravel(), w * each).astype(np.float64) for each in (np.ones(u.size), u))
    rows, at = {"u": total / weight, "w": weight}, 1
    for name in names:
        n = problem.objective.n_kinds if name in ("labels", "looks") else 1
        rows[name], at = kinds[at : at + n].T if name in ("labels", "looks") else kinds[at], at + n
    return problem._replace(engine=engine_of(np.empty((weight.size, 0)), **rows))


def _values(X: Any, rows: Rows, names: tuple[str, ...]) -> Matrix:
    return np.column_stack([rows[name] for name in ("u", "w", *names)])


def _centred(X: Any, rows: Rows, centre: float) -> dict[str, Any]:
    return {"u": rows["u"] - centre}


def standard_scales(engine: Engine, objective: PairObjective, weight: float) -> tuple[Vector, Vector]:
    """Return mean and standard deviation of the columns that propensities see; of sparse ones 0 and root mean square.

    Columns that share a coefficient at different looks have one of each. An offset has the coefficient 1 as it is.
    """
    columns = columns_of_propensities(objective)
    sums, squares, is_sparse = engine.total(_block_moments, Design.of(columns))
    mean, square = (_pooled(each / weight, objective, columns) for each in (sums, squares))
    shift = np.zeros(columns.size) if is_sparse > 0 else mean
    variance = np.maximum(square - shift * mean, 0.0)
    flat = variance <= 1e-10 * square
    unit = np.sqrt(np.where(flat, 1.0, variance))
    offsets = np.searchsorted(columns, np.asarray(objective.offsets or (), dtype=np.intp))
    shift[offsets], unit[offsets] = 0.0, 1.0
    return shift, unit


def _pooled(values: Vector, objective: PairObjective, columns: Columns) -> Vector:
    """Return the mean of columns that the same coefficient belongs to at different looks."""
    group = np.arange(columns.size)
    for model in objective.models:
        if len(model) > 1:
            for same in np.searchsorted(columns, [design.indices for design in model]).T:
                group[np.isin(group, group[same])] = group[same].min()
    return (np.bincount(group, values, minlength=1) / np.maximum(np.bincount(group, minlength=1), 1))[group]


def _block_moments(X: Any, rows: Any, seen: Design) -> tuple[Vector, Vector, Vector]:
    X, w = seen.take(X), rows["w"]
    return transposed_product(X, w)[:-1], squared_sums(X, w)[:-1], np.asarray(float(sparse.issparse(X)))


def _block_answers(X: Any, rows: Any, pair: RecalibratedPair, theta: Vector, both: bool) -> tuple[Any, Any]:
    """Return sums of log-likelihood, f, f times the chance of a label, f (1 - f), that times the logit, and f^2.

    And those of the first two logits and of their squares, where `both` models are to be compared.
    """
    w, table, inside = rows["w"], pair.table(X, rows, theta), pair.inside(theta)
    value, f, found = pair.inner.row_answers(table, rows, inside)
    xp = namespace_of(w)
    open_class = f * (1.0 - f)
    sums = xp.stack([w @ each for each in (value, f, f * found, open_class, open_class * rows["u"], f * f)])
    if not both:
        return sums, np.zeros((2, 2))
    u, v = (at_most(at_least(each, -FAR), FAR) for each in pair.inner.logit_values(table, inside)[:2])
    return sums, xp.stack([xp.stack([w @ u, w @ v]), xp.stack([w @ u**2, w @ v**2])])
