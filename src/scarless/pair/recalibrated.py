r"""The recalibrated fit: shift and slope of a classifier's logits, estimated together with the propensities.

Regularisation makes the out-of-fold logits of a classifier too small, and shifts their mean. The recalibrated fit
corrects both. With the out-of-fold logit :math:`u` of each row, the models are

.. math:: \operatorname{logit} f = m + a + b\,(u - m), \qquad \operatorname{logit} e = v^\top z,

with the shift `a`, the slope `b`, the centre `m` of the logits, and the propensity attributes `z`, which include a
constant. The likelihood of the labels is maximised over the parameters. The classifier is not trained again.

With one label for each row, the labels say little about the class prior: a lower class prior with a higher propensity
often fits almost as well. The estimate is therefore not the optimum. Starting at the optimum, `a` moves in small steps
in both directions. At each step, the slope and the propensities are fitted again. This gives one point of a grid: a
class prior and its log-likelihood. The estimate is the mean class prior over the grid, weighted by the likelihood.
Intervals are quantiles of the same grid. Several looks or audits identify the class prior. The estimate is then the
optimum, and the grid is used for intervals only.
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
    SHIFT,
    SLOPE,
    RecalibratedPair,
    centre_sums,
    columns_of_propensities,
    moved_to_logits,
)
from scarless.numerics.uncertainty import Interval
from scarless.pair.constraints import ClassPrior, Constraint, KnownShare
from scarless.pair.fit import GAIN_WITH_CONSTRAINTS, fit_with_constraints
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PSEUDO_FALSE_LABEL_WEIGHT, PairProblem
from scarless.pair.solving import Addition, PenalisedProblem, Pull

#: Ridge penalty on the logarithm of the slope of a recalibrated fit: a slope of 2.7 costs 0.5 of log-likelihood. By
#: judgement.
SLOPE_RIDGE = 1.0
#: Ridge penalty on the coefficients of standardised propensity attributes in a recalibrated fit. By judgement.
PROPENSITY_RIDGE = 1.0
#: Ridge penalties of a recalibrated fit if the propensity uses all columns of the classifier: on changes of the
#: propensity, and on the shift. By judgement.
HELD_PROPENSITY_RIDGE, HELD_SHIFT_RIDGE = 4.0, 4.0
#: Standard deviation of the error in the logit of the class prior that remains with any number of labels, because no
#: table follows the models exactly. It widens intervals. Evidence: on 195 development tasks, the root mean square of
#: this error is .55 for the stack with fewer than 50 labels, .57 with 50 to 200, and .58 with more.
MODEL_ERROR = 0.4
#: If looks, audits or known values tell about the class prior, log-likelihood differences are divided by this number
#: for intervals instead. By judgement.
LOG_LIKELIHOOD_DIVISOR = 3.0
#: Assumed slope of the propensity's logit in the class logit if no propensity attributes are named. Evidence: of the
#: slopes 0, 0.25, 0.5 and 1, it has the lowest errors on the other tables (``benchmarks.class_prior_weights``).
ASSUMED_FOLLOW_SLOPE = 0.5
#: Prior odds of a model in which a propensity attribute was not named, and the propensity also follows the class
#: logit. Estimates and intervals of the class prior are averaged over both models. Evidence: on 195 development tasks,
#: it lowers the mean error of the stack's class prior from .094 to .084; 0.3 gives .081, and wider intervals.
MISSING_ATTRIBUTE_ODDS = 0.2
#: A log-likelihood gain of that model by this number raises its odds by the factor e: out-of-fold logits are noisy, and
#: no table follows either model exactly. Evidence: with 3, 5 and 10, the errors differ by .001.
MISSING_ATTRIBUTE_SCALE = 5.0
#: A larger log-likelihood gain of that model does not raise its weight further. By judgement.
_MAX_GAIN_BY_FOLLOWING = 9.0
_TOL, _MAX_ITER = 1e-10, 100
# Tolerance if the Hessian is nearly known: the last step of the solver makes the fit more precise than this.
_TOL_WITH_CURVATURE = 1e-7
# The grid reaches to a log-likelihood that is lower than at the highest point by this number times the divisor.
_GRID_DEPTH = 7.0
# Beyond, it reaches further by this number of standard deviations of the models' error.
_MODEL_ERRORS_BEYOND = 2.5
_MAX_GRID_STEPS = 40  # in each direction
_POINTS_EXTRAPOLATED = 3  # number of grid points from which the start of the next fit is extrapolated
_MAX_CLASS_PRIOR_STEP = 0.06  # largest change of the class prior from one grid point to the next
_MAX_SHIFT_STEP = 2.0  # largest change of the shift, in logits
_MIN_CLASS_PRIOR_CHANGE = 1e-6  # the grid ends if a step changes the class prior by less
# The grid also ends if a step of `_MAX_SHIFT_STEP` changes the class prior p by less than this times p(1 - p).
_MIN_CHANGE_PER_VARIANCE = 1e-3
_REPORTED_PSEUDO_EFFECT = 0.1  # a remark is made if pseudo-observations change the class prior by more than this
LOGIT_CAP = 10.0  # for variances, logits are clipped to this absolute value: beyond it, probabilities hardly differ
_MAX_FREQUENCY_LOGIT = 30.0  # logit of a label frequency that rounds to 1
_MIN_ROWS_TO_MERGE = 3_000  # rows of smaller tables are not merged
_MERGE_WIDTH = 0.01  # largest difference of merged logits, in standard deviations, in tables of up to 10,000 rows
_MIN_CLASS_PRIOR = 1e-6  # class priors closer to 0 or 1 are clipped before their logits are computed
_CLASS_PRIOR_TOLERANCE = 1e-10  # of a fit at a given class prior
_MAX_CLASS_PRIOR_ERROR = 0.04  # with a larger one, the fit has ended at another optimum
_N_SHIFT_CORRECTIONS = 6  # Newton steps in the shift towards a known class prior
_MIN_PSEUDO_WEIGHT = 1e-3  # weight of pseudo-observations that keep parameters finite and hardly change the fit


class ClassPriorGrid(NamedTuple):
    """Grid of class priors, with the log-likelihood of the best fit at each class prior."""

    class_prior: Vector  # ascending
    label_frequency: Vector  # of the fit at each class prior
    log_density: Vector  # penalised log-likelihood of each fit, up to a constant
    pseudo_log_density: Vector  # part of `log_density` that comes from pseudo-observations
    shift: Vector  # shift of the classifier's logits at each class prior
    slope: Vector  # slope of the classifier's logits at each class prior
    swapped: NDArray[np.bool_]  # True if the propensity's logit varies more than the class logit
    known: Vector | float = 0.0  # part of `log_density` that comes from known values
    share: float = 1.0  # weight of this grid in an interval that uses the grids of several models
    inflation: float = 1.0  # log-likelihood differences are divided by this number for intervals
    model_error: float = 0.0  # standard deviation of the error of the models in the logit of the class prior

    @property
    def weight(self) -> Vector:
        """Weight of each class prior in the mean; 0 at points at which the models are swapped."""
        weight = self._shares(self.log_density) * ~self.swapped
        return weight / weight.sum() if weight.any() else ~self.swapped / np.sum(~self.swapped)

    @property
    def interval_weight(self) -> Vector:
        """Weight of each class prior in intervals.

        No table follows the models exactly, so the weights are smoothed by a normal error in the logit of the class
        prior. Pseudo-observations are left out of these weights, so that they do not shorten intervals.
        """
        weight = self._shares(self._log_likelihood / self.inflation + self.known)
        if not self.model_error or weight.size == 1:
            return weight
        at = logit(np.clip(self.class_prior, _MIN_CLASS_PRIOR, 1.0 - _MIN_CLASS_PRIOR))
        spacing = np.maximum(np.gradient(at), 1e-12)
        error = np.exp(-0.5 * ((at[:, None] - at) / self.model_error) ** 2) * spacing[:, None]
        return np.asarray(error / error.sum(axis=0) @ weight)

    @property
    def _log_likelihood(self) -> Vector:
        """The log-likelihood of the observations, without pseudo-observations and known values."""
        return np.asarray(self.log_density - self.pseudo_log_density - self.known)

    def with_known_values(self, known_values: Sequence[KnownShare]) -> "ClassPriorGrid":
        """Return the grid with known values included in its densities, and with more points near the known values.

        A known value outside the grid contradicts the labels. The end of the grid nearest to it then gets the largest
        weight.
        """
        if not known_values:
            return self
        nearby = [np.interp(value.nearby_values(), *self._ascending(value.share)) for value in known_values]
        prior = np.unique(np.concatenate([self.class_prior, *nearby]))
        fields = [np.interp(prior, self.class_prior, np.asarray(field, dtype=np.float64)) for field in self[1:7]]
        fine = self._replace(class_prior=prior, **dict(zip(self._fields[1:7], fields, strict=True)))
        fine = fine._replace(swapped=fine.swapped > 0.5)
        known = np.sum([value.log_density(getattr(fine, value.share)) for value in known_values], axis=0)
        before = np.interp(prior, self.class_prior, self.known) if np.ndim(self.known) else 0.0
        return fine._replace(log_density=fine.log_density + known, known=before + known)

    @property
    def disagreement(self) -> float:
        """Disagreement between the labels and the known values, in standard errors.

        This is the square root of twice the log-likelihood gain if the known values are left out.
        """
        labels = self._log_likelihood / self.inflation
        return float(np.sqrt(2.0 * (labels.max() - (labels + self.known).max())))

    def _ascending(self, share: str) -> tuple[Vector, Vector]:
        """Return "class_prior" or "label_frequency" in ascending order, with the class priors in the same order."""
        values = getattr(self, share)
        order = np.argsort(values, kind="stable")
        return values[order], self.class_prior[order]

    def _shares(self, log_density: Vector) -> Vector:
        """Return weights of the grid points, with a sum of 1.

        A weight is the density times the distance between neighbouring class priors on the log scale.
        """
        density = np.exp(log_density - log_density.max())
        spacing = np.gradient(np.log(self.class_prior)) if density.size > 1 else np.ones(1)
        share = density * np.maximum(spacing, 1e-12)
        return np.asarray(share / share.sum())

    @property
    def mean(self) -> float:
        """The mean class prior."""
        return float(self.weight @ self.class_prior)

    def remarks(self) -> list[str]:
        """Return a remark if pseudo-observations change the mean by more than 0.1."""
        share = self._shares(self.log_density - self.pseudo_log_density) * ~self.swapped
        alone = float(share @ self.class_prior) / float(share.sum()) if share.any() else self.mean
        if abs(alone - self.mean) <= _REPORTED_PSEUDO_EFFECT:
            return []
        return [
            "The labels say little about the class prior. Pseudo-observations, which keep the label frequency away "
            f"from 0 and 1, change it from {alone:.3f} to {self.mean:.3f}. The interval does not use "
            "pseudo-observations. Audit a few rows to estimate the class prior more reliably."
        ]

    @property
    def deviation(self) -> float:
        """Standard deviation of the class prior."""
        return float(np.sqrt(self.weight @ (self.class_prior - self.mean) ** 2))


@dataclass(frozen=True)
class Recalibration:
    r"""Recalibration :math:`m + a + b(u - m)` of a classifier's logit `u`, and the propensity fitted with it.

    `m` is the centre, `a` the shift and `b` the slope.
    """

    centre: float
    shift: float
    slope: float
    e: Vector  # coefficients of the propensity, then its intercept
    class_prior: float
    label_frequency: float
    log_likelihood: float  # sum over rows, with out-of-fold logits
    grid: ClassPriorGrid
    converged: bool
    follow: float = 0.0  # slope of the propensity's logit in the recalibrated class logit

    def __call__(self, u: Vector) -> Vector:
        """Return the recalibrated logits."""
        return self.centre + self.shift + self.slope * (u - self.centre)

    def invert(self, u: Vector) -> Vector:
        """Convert recalibrated logits back to logits before recalibration."""
        return self.centre + (u - self.centre - self.shift) / self.slope if self.slope > 0 else u

    def logits_on_grid(self, u: Vector) -> Vector:
        """Return the recalibrated logits at every point of the grid, one column each."""
        return self.centre + self.grid.shift + self.grid.slope * (u[:, None] - self.centre)

    def propensity_logits_on_grid(self, v: Vector) -> Vector:
        """Return the propensity's logits at every point of the grid, one column each.

        From the fit to a grid point, they change by as much as the logit of the label frequency.
        """
        frequency = self._frequency_logits()
        return v[:, None] + frequency[:-1] - frequency[-1]

    def _frequency_logits(self) -> Vector:
        """Return the logit of the label frequency at each point of the grid, then at the fit itself."""
        logits = logit(np.append(self.grid.label_frequency, self.label_frequency))
        return np.clip(logits, -_MAX_FREQUENCY_LOGIT, _MAX_FREQUENCY_LOGIT)

    def posterior_logits(self, u: Vector, v: Vector, priors: Vector) -> Matrix:
        """Return the posterior logits of unlabelled rows at the given class priors, one column each.

        `u` are class logits before recalibration, and `v` are propensity logits. Values between grid points are
        interpolated.
        """
        at, moved = self.at_priors(u, priors)
        return np.asarray(at - softplus(v[:, None] + moved))

    def at_priors(self, u: Vector, priors: Vector) -> tuple[Matrix, Vector]:
        """Return the recalibrated logits at the given class priors, and the changes of the propensity logits."""
        at = [np.interp(priors, self.grid.class_prior, field) for field in self.grid[4:6]]
        frequency = self._frequency_logits()
        moved = np.interp(priors, self.grid.class_prior, frequency[:-1]) - frequency[-1]
        return np.asarray(self.centre + at[0] + at[1] * (u[:, None] - self.centre)), np.asarray(moved)

    def grid_errors(self, u: Vector, v: Vector, of: str) -> Vector:
        """Return the standard deviation of each row's logit over the grid.

        `u` are recalibrated class logits, and `v` are propensity logits. `of` names the logit: "class", "propensity",
        or "posterior" (of an unlabelled row).
        """
        at = self.logits_on_grid(self.invert(u))
        moved = self.propensity_logits_on_grid(v)
        values = {"class": at, "propensity": moved, "posterior": at - softplus(moved)}[of]
        weight = self.grid.interval_weight
        centred = values - (values @ weight)[:, None]
        return np.asarray(np.sqrt(np.square(centred) @ weight))

    def on_table_of_logits(self, template: PairObjective, *, given: bool = False) -> tuple[PairObjective, Vector]:
        """Return the likelihood and the parameters for a table of the class logit and the columns of the propensities.

        `template` is a likelihood of the original table. With `given`, the second column of the new table is the
        propensity logit of a learner.
        """
        columns, follow = columns_of_propensities(template), self.follow
        objective = moved_to_logits(template, columns, 1 + given, [0] * (follow != 0) + [1] * given)
        intercept, start = float(self(np.zeros(1))[0]), 0
        parts = [np.array([self.slope, intercept])]
        for place in objective.places[1 : 1 + len(objective.models)]:
            first = np.array([follow * self.slope] * (follow != 0) + [1.0] * given)
            coefficients = self.e[start : start + place.stop - place.start - first.size].copy()
            coefficients[-1] += follow * intercept
            start += coefficients.size
            parts += [first, coefficients]
        return objective, np.concatenate([*parts, self.e[start:]])

    def of_linear(self, beta: Vector) -> Vector:
        """Convert the parameters of a linear model to those of the recalibrated model; the intercept is last."""
        return np.append(self.slope * beta[:-1], self(beta[-1:]))


def recalibrate(
    problem: PairProblem,
    *,
    pseudo_weight: float = 4.0,
    hold: Vector | None = None,
    follow: float = 0.0,
    given: bool = False,
    start: Vector | None = None,
    known: Sequence[KnownShare] = (),
    merge: bool = False,
    beside: ClassPriorGrid | None = None,
) -> Recalibration:
    """Fit shift and slope of out-of-fold logits together with the propensities; see the top of this module.

    Parameters
    ----------
    problem : PairProblem
        Its rows have the out-of-fold logit ``u`` and, if `given`, the propensity logit ``v`` of a learner. Its
        classifier, totals and pseudo-observations are not used. Rows of weight 0 are ignored.
    pseudo_weight : float, default=4.0
        Number of pseudo-observations. They act like a Beta prior on the label frequency, and are used only if the class
        prior is not identified.
    hold : array, optional
        Parameters of a fitted propensity. Pass them if the propensity uses all columns of the classifier, so that the
        two models could be swapped. Penalties then keep the propensity near these parameters and the shift near 0. Grid
        points at which the models are swapped are left out of the mean, but are used in intervals.
    follow : float, default=0.0
        Slope of the propensity's logit in the class logit, if no propensity attributes were named.
    given : bool, default=False
        Whether the propensity is the logit ``v`` of a learner.
    start : array, optional
        Parameters of the propensities, then of false positive rates, at which the fit starts.
    known : sequence of KnownShare
        Known values that refer to all rows, in addition to the constraints of the problem.
    merge : bool, default=False
        Whether to merge rows with the same labels and nearly the same logit, for speed. Rows are merged only if they
        are in memory and the propensity has no attributes.
    beside : ClassPriorGrid, optional
        Grid of another model, with its odds as `share`. The estimated class prior is the mean over both models.
    """
    sees_nothing = not columns_of_propensities(problem.objective).size
    alike = sees_nothing and hold is None and not (given or problem.constraints)
    if merge and alike and problem.engine.n_rows > _MIN_ROWS_TO_MERGE:
        problem = _merged(problem)
    optimum, fits = _GridFits.of(problem, pseudo_weight, hold, follow, given=given).fit_optimum(start)
    of_all_rows = [constraint for constraint in problem.constraints if _is_on_all_rows(constraint)]
    known_values = [*known, *(ClassPrior(each.value, float(np.sqrt(each.variance))) for each in of_all_rows)]
    # The optimum counts as not swapped, even if the grid points next to it are. A constraint on all rows moves the
    # optimum away from the best fit at the same shift, so the first grid point is then fitted again without it.
    refit = fits.prior_is_identified and bool(known_values)
    first = fits.refit_at_shift_of(optimum) if refit else optimum._replace(swapped=False)
    model_error = 0.0 if fits.prior_is_identified or known_values else MODEL_ERROR
    divisor = 1.0 if model_error else LOG_LIKELIHOOD_DIVISOR
    both_sides = [point for sign in (1.0, -1.0) for point in fits.grid_points(first, sign, divisor, model_error)]
    points = sorted([first, *both_sides], key=lambda point: point.class_prior)
    grid = _grid_of(points)._replace(inflation=divisor, model_error=model_error)
    # The variance from sampling rows is added only if the class prior is identified. Otherwise it is negligible.
    if fits.prior_is_identified and grid.deviation > 0:
        grid = grid._replace(inflation=divisor + optimum.row_variance / grid.deviation**2)
    grid = grid.with_known_values(known_values)
    if fits.prior_is_identified:
        return fits.recalibration(optimum, grid)
    prior = grid.mean if beside is None else (grid.mean + beside.share * beside.mean) / (1.0 + beside.share)
    exactly = bool(known) or beside is not None
    return fits.recalibration(fits.fit_at_class_prior(points, grid, prior, exactly=exactly), grid)


def recalibrate_roughly(
    problem: PairProblem,
    *,
    pseudo_weight: float = 4.0,
    hold: Vector | None = None,
    start: Vector | None = None,
    follow: float = 0.0,
) -> Recalibration:
    """Return the recalibration at the optimum, without a grid of class priors, for fast comparisons of classifiers."""
    optimum, fits = _GridFits.of(problem, pseudo_weight, hold, follow).fit_optimum(start)
    return fits.recalibration(optimum, _grid_of([optimum]))


def grid_if_propensity_follows(named: Recalibration, following: Recalibration) -> ClassPriorGrid:
    """Return the grid of a fit whose propensity follows the class logit, with its odds as `share`.

    `named` is the fit with the named propensity attributes only. The odds allow for an attribute that was not named:
    0.2, times the likelihood ratio of the two fits to the power of one fifth.
    """
    gain = min(following.log_likelihood - named.log_likelihood, _MAX_GAIN_BY_FOLLOWING)
    return following.grid._replace(share=MISSING_ATTRIBUTE_ODDS * float(np.exp(gain / MISSING_ATTRIBUTE_SCALE)))


def recalibrate_beside_missing_attribute(
    problem: PairProblem, *, pseudo_weight: float, merge: bool = False
) -> tuple[Recalibration, ClassPriorGrid]:
    """Return the recalibration whose class prior is a mean over two models, and the grid of the second model.

    In the second model, a propensity attribute was not named, and the propensity also follows the class logit.
    """
    named = recalibrate_roughly(problem, pseudo_weight=pseudo_weight)
    following = recalibrate(problem, pseudo_weight=pseudo_weight, follow=ASSUMED_FOLLOW_SLOPE, merge=merge)
    beside = grid_if_propensity_follows(named, following)
    return recalibrate(problem, pseudo_weight=pseudo_weight, merge=merge, beside=beside), beside


def as_odds_against(beside: ClassPriorGrid, n_models: int) -> ClassPriorGrid:
    """Return the grid of the other model for an interval in which `n_models` grids of weight 1 are the first model."""
    return beside._replace(share=beside.share * n_models)


def grid_interval(grid: Sequence[ClassPriorGrid], share: str, level: float) -> Interval:
    """Return the interval of "class_prior" or "label_frequency" over the grids of several models."""
    weights = [each.share * each.interval_weight for each in grid]
    return mixed_interval([getattr(each, share) for each in grid], weights, level)


def mixed_interval(parts: list[Vector], weights: list[Vector], level: float) -> Interval:
    """Return the central interval of a mixture of weighted values.

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
    """Draw class priors from the grids of several models, with the same weights as in intervals."""
    weight = np.concatenate([each.share * each.interval_weight for each in grid])
    weight = weight / weight.sum()
    values = np.concatenate([each.class_prior for each in grid])
    order = np.argsort(values)
    below = np.cumsum(weight[order]) - 0.5 * weight[order]
    return np.interp(rng.random(n_draws), below, values[order])


class _GridPoint(NamedTuple):
    """The best fit at one shift of the class logits."""

    theta: Vector  # parameters of the standardised problem
    class_prior: float
    label_frequency: float
    log_likelihood: float
    log_density: float  # penalised, with pseudo-observations and constraints
    pseudo_log_density: float  # part of `log_density` that comes from pseudo-observations
    known: float  # part of `log_density` that comes from constraints on some rows or on single looks
    prior_slope: float  # derivative of the class prior with respect to the shift
    pivot: float  # logit around which a change of slope changes the class prior least
    row_variance: float  # sampling variance of the class prior
    curvature: Matrix | None  # Hessian at the solution, if the shift was fixed
    converged: bool
    swapped: bool  # whether the propensity's logit varies more than the class logit


@dataclass(frozen=True)
class _GridFits:
    """The rows of a recalibrated fit, and methods that fit all other parameters at a given shift."""

    engine: Engine  # rows with u (centred), v, w and the observations
    objective: RecalibratedPair
    weight: float
    labelled: float
    pseudo_weight: float
    hold: Vector | None  # penalties keep the propensity near these parameters, in the units of the table
    ridge: Vector
    pulls: tuple[Pull, ...]  # pseudo-observations for false positive rates
    constraints: tuple[Constraint, ...]
    prior_is_identified: bool  # whether looks, audits or constraints identify the class prior

    @classmethod
    def of(
        cls,
        problem: PairProblem,
        pseudo_weight: float,
        hold: Vector | None,
        follow: float = 0.0,
        *,
        given: bool = False,
    ) -> "_GridFits":
        template, prior_is_identified = problem.objective, problem.class_prior_is_identified
        totals = row_totals(problem.engine)
        centre = problem.engine.total(centre_sums).centre
        scales = standard_scales(problem.engine, template, totals.weight)
        pair = RecalibratedPair.of(template, centre, *scales, follow=follow, given=given)
        if hold is not None:
            pair = replace(pair, hold=pair.standardised(hold))
        rows, n = problem.engine.derive(_centred, centre, keep=True), pair.n_parameters
        ridge = np.full(n, PROPENSITY_RIDGE if hold is None else HELD_PROPENSITY_RIDGE)
        if prior_is_identified:
            ridge[2:] = problem.ridge[template.f.n_parameters :] / pair.parameter_units**2
        ridge[SLOPE], ridge[SHIFT] = SLOPE_RIDGE, 0.0 if hold is None else HELD_SHIFT_RIDGE
        ridge[pair.intercepts] = 0.0
        return cls(
            rows,
            pair,
            float(totals.weight),
            float(totals.labelled),
            0.0 if prior_is_identified else pseudo_weight,
            hold,
            ridge,
            tuple(Pull(PSEUDO_FALSE_LABEL_WEIGHT, np.eye(n)[n - 1 - i]) for i in range(template.n_rates)),
            tuple(replace(constraint, engine=rows, objective=pair) for constraint in problem.constraints),
            prior_is_identified,
        )

    def fit_optimum(self, start: Vector | None = None) -> tuple[_GridPoint, "_GridFits"]:
        """Return the optimum over all parameters, and a copy of this object with the constraints' final multipliers.

        `start` are parameters of the propensities, then of false positive rates, in the units of the table.
        """
        n, theta = self.objective.n_parameters, np.zeros(self.objective.n_parameters)
        if start is not None:
            theta[2:] = self.objective.standardised(start)
        # A weak penalty keeps the shift finite if the labels say nothing about the shift.
        weight_of_class = _MIN_PSEUDO_WEIGHT if self.prior_is_identified else 0.1
        of_class = Pull(weight_of_class, np.eye(n)[SHIFT], self.objective.centre)
        weight = max(self.pseudo_weight, _MIN_PSEUDO_WEIGHT)
        pulls = (*self.pulls, of_class, *(Pull(weight, np.eye(n)[place]) for place in self.objective.intercepts))

        def solve(constraints: tuple[Constraint, ...], at: Vector, exactly: bool) -> Solution:
            tol = GAIN_WITH_CONSTRAINTS if exactly else _TOL
            return self._solve(self.objective, at, (*pulls, *constraints), tol=tol)

        solution, constraints, met = fit_with_constraints(self.constraints, self.weight, theta, solve)
        constrained = replace(self, constraints=constraints)
        optimum = constrained._point(solution)
        optimum = constrained.fit_at_shift(0.0, np.zeros(n)) if optimum.swapped else optimum
        return optimum._replace(converged=optimum.converged and met), constrained

    def fit_at_shift(
        self, shift: float, theta: Vector, curvature: Matrix | None = None, pivot: float = 0.0
    ) -> _GridPoint:
        """Return the best fit at one shift. The solver starts at `theta`; `curvature` is the Hessian there, if known.

        `shift` is the change of a logit that equals `pivot` before recalibration. If the pivot were far from the logits
        of rows with an uncertain class, a change of slope would change the class prior although the shift is fixed.
        """
        theta, pair = theta.copy(), replace(self.objective, held=(SHIFT,), pivot=pivot)
        theta[SHIFT] = shift
        constraints = [
            replace(constraint, objective=pair) for constraint in self.constraints if not _is_on_all_rows(constraint)
        ]
        tol = _TOL if curvature is None else _TOL_WITH_CURVATURE
        solution = self._solve(pair, theta, (*self.pulls, *constraints), curvature, tol)
        return self._point(replace(solution, parameters=pair.turned(solution.parameters, 0.0)), held=True)

    def refit_at_shift_of(self, point: _GridPoint) -> _GridPoint:
        """Return the best fit at the shift of another point."""
        shift = self.objective.turned(point.theta, point.pivot)[SHIFT]
        return self.fit_at_shift(shift, point.theta, None, point.pivot)

    def grid_points(self, optimum: _GridPoint, sign: float, divisor: float, model_error: float) -> Iterator[_GridPoint]:
        """Yield fits at shifts further and further from the optimum, until their weight in intervals is negligible.

        For intervals, log-likelihoods are divided by `divisor`, and the logit of the class prior has an error with the
        standard deviation `model_error`.
        """
        point, step, path = optimum, self._first_step(optimum), [(0.0, optimum.theta)]
        highest = optimum.log_density - optimum.pseudo_log_density
        end: float | None = None  # class logit at which the likelihood is negligible
        for _ in range(_MAX_GRID_STEPS):
            growth = 1.5 if end is None else 2.0
            step = min(growth * step, _MAX_CLASS_PRIOR_STEP / max(point.prior_slope, 1e-6), _MAX_SHIFT_STEP)
            before = point
            # The start of the other parameters is extrapolated from the last points.
            shift, at = self.objective.turned(before.theta, before.pivot)[SHIFT] + sign * step, path[-1][0] + step
            theta = _extrapolated(path[-_POINTS_EXTRAPOLATED:], at)
            point = self.fit_at_shift(shift, theta, before.curvature, before.pivot)
            # All points beyond a swapped point count as swapped.
            point = point._replace(swapped=point.swapped or before.swapped)
            path.append((at, point.theta))
            moved, least = abs(point.class_prior - before.class_prior), _MIN_CLASS_PRIOR_CHANGE
            if step == _MAX_SHIFT_STEP:
                least = max(least, _MIN_CHANGE_PER_VARIANCE * point.class_prior * (1.0 - point.class_prior))
            density = point.log_density - point.pseudo_log_density
            highest = max(highest, density)
            yield point
            if moved < least or not 1e-4 < point.class_prior < 1.0 - 1e-4:
                break
            at_prior = float(logit(point.class_prior))
            if density >= highest - _GRID_DEPTH * divisor:
                end = None
            elif end is None:
                end = at_prior
            if end is not None and abs(at_prior - end) >= _MODEL_ERRORS_BEYOND * model_error:
                break

    def fit_at_class_prior(
        self, points: list[_GridPoint], grid: ClassPriorGrid, prior: float, *, exactly: bool
    ) -> _GridPoint:
        """Return the fit with the given class prior.

        The shift of this fit is interpolated between grid points. With `exactly`, Newton steps remove the error of this
        interpolation.
        """
        nearest = min(points, key=lambda point: abs(point.class_prior - prior))
        shift = float(np.interp(prior, grid.class_prior, grid.shift))
        found = self.fit_at_shift(shift, nearest.theta, nearest.curvature)
        for _ in range(_N_SHIFT_CORRECTIONS if exactly else 0):
            if abs(prior - found.class_prior) < _CLASS_PRIOR_TOLERANCE:
                break
            shift += (prior - found.class_prior) / max(found.prior_slope, 1e-6)
            found = self.fit_at_shift(shift, found.theta, found.curvature)
        # With many propensity attributes, the fit may end at another optimum, with a very different class prior.
        return nearest if abs(found.class_prior - prior) > _MAX_CLASS_PRIOR_ERROR else found

    def recalibration(self, point: _GridPoint, grid: ClassPriorGrid) -> Recalibration:
        """Return the recalibration of a grid point, with the propensity in the units of the table."""
        theta, pair = point.theta, self.objective
        e = pair.in_table_units(theta[2:])
        return Recalibration(
            pair.centre,
            shift=float(theta[SHIFT]),
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
        if SHIFT in objective.held:
            ridge[SHIFT] = 0.0  # the objective has no derivative in a fixed shift, so the ridge alone would move it
        problem = PenalisedProblem(self.engine, objective, ridge, additions)
        return problem.solve(
            start,
            total_weight=self.weight,
            tol=tol,
            max_iter=_MAX_ITER,
            damp_indefinite=True,
            curvature=curvature,
        )

    def _point(self, solution: Solution, *, held: bool = False) -> _GridPoint:
        theta = solution.parameters
        sums, moments = self.engine.total(_block_grid_sums, self.objective, theta, self.hold is not None)
        value, positives, labelled, variance, weighted_logit, squares = map(float, sums)
        spread = moments[1] / self.weight - (moments[0] / self.weight) ** 2
        prior, frequency = positives / self.weight, labelled / positives if positives > 0 else 0.0
        per_pseudo_observation = float(xlogy(0.5, frequency) + xlog1py(0.5, -frequency))
        pseudo_log_density = self.pseudo_weight * max(per_pseudo_observation, -1e6) if self.pseudo_weight else 0.0
        others = [constraint for constraint in self.constraints if not _is_on_all_rows(constraint)]
        losses = [float(constraint.sums(theta, Curvature.NONE).value) for constraint in others]
        density = value - 0.5 * float(self.ridge @ theta**2) + pseudo_log_density - sum(losses)
        # Exact constraints are left out, because they restrict the models but are no evidence about the class prior.
        known = -sum(loss for constraint, loss in zip(others, losses, strict=True) if not constraint.widened)
        return _GridPoint(
            theta,
            class_prior=prior,
            label_frequency=frequency,
            log_likelihood=value,
            log_density=density,
            pseudo_log_density=pseudo_log_density,
            known=known,
            prior_slope=variance / self.weight,
            pivot=weighted_logit / variance if self.prior_is_identified and variance > 0 else 0.0,
            row_variance=max(squares / self.weight - prior**2, 0.0) / self.weight,
            curvature=solution.curvature if held else None,
            converged=solution.status is Status.CONVERGED,
            swapped=bool(self.hold is not None and max(spread[0], 0.0) < max(spread[1], 0.0)),
        )

    def _first_step(self, optimum: _GridPoint) -> float:
        """Return the first change of the shift: 0.3 times its standard error, so that the likelihood changes little.

        If the class prior is not identified, the standard error is computed as if labelled rows were audited rows.
        """
        if not self.prior_is_identified:
            return 0.3 / np.sqrt(max(self.labelled * max(optimum.prior_slope, 1e-6), 1.0))
        pair, one = replace(self.objective, pivot=optimum.pivot), np.eye(optimum.theta.size)[SHIFT]
        theta = self.objective.turned(optimum.theta, optimum.pivot)
        problem = PenalisedProblem(self.engine, pair, self.ridge, self.pulls)
        variance = float(one @ solve_positive(problem.evaluate(theta, Curvature.EXPECTED).curvature, one))
        return 0.3 * float(np.sqrt(min(max(variance, 1e-12), _MAX_SHIFT_STEP**2)))


def _extrapolated(path: list[tuple[float, Vector]], at: float) -> Vector:
    """Return the value at `at` of the polynomial through all points of a path."""
    places = np.array([place for place, _ in path])
    differences = places[:, None] - places + np.eye(places.size)
    weights = np.prod(at - places) / ((at - places) * differences.prod(axis=1))
    return np.asarray(sum(weight * theta for weight, (_, theta) in zip(weights, path, strict=True)))


def _is_on_all_rows(constraint: Constraint) -> bool:
    """Whether a constraint is on the class prior of all rows, which differs between grid points."""
    return constraint.kind is None and constraint.group is None


def _grid_of(points: list[_GridPoint]) -> ClassPriorGrid:
    def each(name: str) -> Vector:
        return np.array([getattr(point, name) for point in points])

    theta, known = np.array([point.theta[:2] for point in points]), each("known")
    return ClassPriorGrid(
        class_prior=each("class_prior"),
        label_frequency=each("label_frequency"),
        log_density=each("log_density"),
        pseudo_log_density=each("pseudo_log_density"),
        shift=theta[:, SHIFT],
        slope=np.exp(theta[:, SLOPE]),
        swapped=each("swapped").astype(bool),
        known=known if known.any() else 0.0,
    )


def _merged(problem: PairProblem) -> PairProblem:
    """Merge rows with the same labels and nearly the same logit.

    Without propensity attributes, the likelihood depends only on the labels and the logit of a row. The more rows there
    are, the closer merged logits must be, so that merging changes the log-likelihood by less than 0.1 in total.
    """
    names = ("s", *(name for name in problem.objective.observed if name != "s"))
    values = np.transpose(problem.engine.collect(_values, names))
    u, w, seen = (each[..., values[1] > 0] for each in (values[0], values[1], values[2:]))
    spread = float(np.std(np.clip(u, *np.quantile(u, [0.01, 0.99]))))
    if not spread:
        return problem
    width = _MERGE_WIDTH * spread * min(1.0, np.sqrt(10_000 / u.size))
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
    """Return the mean and the standard deviation of each column of the propensities.

    For sparse columns, the results are 0 and the root mean square. Columns of different looks that share a coefficient
    get the same mean and standard deviation. Offsets are not scaled.
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
    """Replace the values of columns of different looks that share a coefficient by the mean of these values."""
    group = np.arange(columns.size)
    for model in objective.models:
        if len(model) > 1:
            for same in np.searchsorted(columns, [design.indices for design in model]).T:
                group[np.isin(group, group[same])] = group[same].min()
    return (np.bincount(group, values, minlength=1) / np.maximum(np.bincount(group, minlength=1), 1))[group]


def _block_moments(X: Any, rows: Any, seen: Design) -> tuple[Vector, Vector, Vector]:
    X, w = seen.take(X), rows["w"]
    return transposed_product(X, w)[:-1], squared_sums(X, w)[:-1], np.asarray(float(sparse.issparse(X)))


def _block_grid_sums(X: Any, rows: Any, pair: RecalibratedPair, theta: Vector, both: bool) -> tuple[Any, Any]:
    """Return the sums of log-likelihood, f, f times the probability of a label, f(1 - f), f(1 - f) u, and f^2.

    With `both`, the second result contains the sums of both logits and of their squares. They show which model varies
    more.
    """
    w, table, inside = rows["w"], pair.table(X, rows, theta), pair.inside(theta)
    value, f, found = pair.inner.row_probabilities(table, rows, inside)
    xp = namespace_of(w)
    open_class = f * (1.0 - f)
    sums = xp.stack([w @ each for each in (value, f, f * found, open_class, open_class * rows["u"], f * f)])
    if not both:
        return sums, np.zeros((2, 2))
    u, v = (at_most(at_least(each, -LOGIT_CAP), LOGIT_CAP) for each in pair.inner.logit_values(table, inside)[:2])
    return sums, xp.stack([xp.stack([w @ u, w @ v]), xp.stack([w @ u**2, w @ v**2])])
