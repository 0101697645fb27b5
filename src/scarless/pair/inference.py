"""Standard errors and intervals of two fitted logistic models, by the delta method."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from scarless.checks.rows import row_totals
from scarless.engines import Engine, Rows
from scarless.numerics import uncertainty
from scarless.numerics.arrays import Matrix, Vector, in_numpy
from scarless.numerics.likelihood import softplus
from scarless.numerics.linear import Design
from scarless.numerics.newton import MAX_MATRIX_PARAMETERS
from scarless.numerics.objectives import Curvature, LogisticPair, PairObjective
from scarless.numerics.uncertainty import Functional, Interval, PairSums, Precision, quantile
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.logistic import all_labelled
from scarless.pair.problem import PairProblem, PseudoPositives, swap
from scarless.pair.recalibrated import Recalibration
from scarless.pair.solving import Pull

# Relative rounding error of the information matrix.
INFORMATION_ROUNDING = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}

# Added to the diagonal of the middle matrix of the sandwich formula, relative to the diagonal of the information.
_MIN_RELATIVE_MEAT = 1e-9
_ROWS_PER_CHUNK = 1024  # rows whose gradients are held in memory at a time
MAX_WEIGHT_ROUNDING = 1e-9  # relative difference of two sums of the same weights
_TEST_TOL = 1e-8  # tolerance per row of fits for likelihood ratios


@dataclass(frozen=True, eq=False)
class PairInference:
    """Fitted models, and the sums over rows that standard errors need.

    The rows themselves are not stored. The information matrix is None if the models have too many parameters.
    """

    objective: PairObjective
    parameters: Vector  # of the classifier, then of each propensity model, then false positive rates
    C: float
    propensity_C: float
    n_rows: int  # rows with a positive weight
    sums: PairSums
    information: Matrix | None  # of the likelihood, without penalties and constraints
    added: Matrix | None  # information added by penalties and constraints, without pseudo-observations
    # Whether `information` is the expected information, because the observed information is not semi-definite.
    expected: bool
    noise: float  # relative rounding error of the information
    swappable: bool  # whether only the paper's start determines which model is the classifier
    ridge: Vector  # ridge penalty of each parameter
    pulls: tuple[Pull, ...] = ()  # penalties from pseudo-observations: of positives, and for false positive rates
    pseudo_observations: PseudoPositives | None = None
    meat: Matrix | None = None  # with groups: cross product of the groups' scores, the middle of the sandwich formula
    row_variances: tuple[float, ...] = ()  # with groups: sampling variances of class prior and label frequency
    n_groups: int = 0  # 0 without groups

    @property
    def f(self) -> Design:
        """Columns of the classifier."""
        return self.objective.f

    @property
    def e(self) -> Design:
        """Columns of the first propensity model at its first look."""
        return self.objective.e

    @property
    def beta_f(self) -> Vector:
        """The classifier's parameters."""
        return self.objective.split(self.parameters)[0]

    @property
    def beta_e(self) -> Vector:
        """Parameters of the propensity models, then false positive rates."""
        return self.objective.split(self.parameters)[1]

    @property
    def log_likelihood(self) -> float:
        """Observed log-likelihood of the rows, without penalties."""
        return float(self.sums.log_likelihood)

    @property
    def positives(self) -> float:
        """Expected number of positive rows."""
        return float(self.sums.positives)

    @property
    def labelled_positives(self) -> float:
        """Expected number of positive rows with a label."""
        return float(self.sums.labelled_positives)

    @cached_property
    def precision(self) -> Precision:
        """The inverse covariance of the parameters, decomposed.

        It is the penalised information or, with groups, the inverse of the cluster-robust covariance.
        """
        penalised, added = self.penalised_information(), self.added
        if self.meat is not None and added is not None:
            # With fewer groups than parameters, the middle matrix is singular without this small addition.
            least = _MIN_RELATIVE_MEAT * np.diagonal(penalised)
            middle = self.meat + added + np.diag(np.maximum(least, np.finfo(np.float64).tiny))
            penalised = penalised @ np.linalg.solve(middle, penalised)
            penalised = 0.5 * (penalised + penalised.T)
        return uncertainty.precision(penalised, noise=self.noise)

    @property
    def class_prior(self) -> Functional:
        """The class prior (mean of `f`), with its gradient and sampling variance."""
        return self._with_row_variance(uncertainty.class_prior(self.sums), 0)

    @property
    def label_frequency(self) -> Functional:
        """The share of positives with any label, with its gradient and sampling variance."""
        return self._with_row_variance(uncertainty.label_frequency(self.sums), 1)

    def label_frequency_of(self, kind: int) -> Functional:
        """Return the label frequency of a kind of look, with its gradient and sampling variance."""
        return uncertainty.label_frequency_of_look(self.sums, kind)

    def _with_row_variance(self, functional: Functional, place: int) -> Functional:
        return functional._replace(row_variance=self.row_variances[place]) if self.row_variances else functional

    @property
    def mean_propensity(self) -> float:
        """The mean of `e` over all rows. This is the class prior of the swapped models."""
        return float(self.sums.propensities / self.sums.weight)

    @property
    def swapped(self) -> Vector:
        """The parameters after the models are swapped. Their likelihood is the same."""
        return swap(self.beta_f, self.beta_e, self.f, self.e)

    def needed_information(self) -> Matrix:
        """Return the information matrix; raise an error if the models have too many parameters."""
        if self.information is None:
            raise ValueError(
                f"There are no standard errors: they are computed for models with at most {MAX_MATRIX_PARAMETERS} "
                f"parameters together, but these models have {self.parameters.size}. Give the models fewer columns, or "
                "use scarless.diagnostics.bootstrap_intervals."
            )
        return self.information

    def penalised_information(self) -> Matrix:
        """Return the sum of the information of the likelihood, of penalties and of constraints."""
        return np.asarray(self.needed_information() + (0.0 if self.added is None else self.added))

    def collinear(self) -> tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]]:
        """Return the sets of collinear columns of the classifier, and those of the first propensity model."""
        information = self.needed_information()
        f, e = (
            uncertainty.collinear_columns(information[part, part], self.sums.columns[part], noise=self.noise)
            for part in self.objective.places[:2]
        )
        return f, e

    def parameter_errors(self) -> Vector:
        """Return the standard error of each parameter."""
        return self.precision.errors(np.eye(self.parameters.size))

    def quantile(self, level: float) -> float:
        """Return the quantile for intervals: of the normal distribution or, with groups, of Student's."""
        return quantile(level, max(self.n_groups - 1, 1) if self.n_groups else np.inf)

    def error_of(self, functional: Functional) -> float:
        """Return the standard error of a functional. It includes the error of sampling rows from a population."""
        (error,) = self.precision.errors(functional.gradient[None])
        return float(np.hypot(error, np.sqrt(functional.row_variance)))

    def class_prior_interval(self, level: float) -> Interval:
        """Return the interval of the class prior.

        With one label for each row and a label frequency of 1, the interval ends at 1. The optimum is then at the
        boundary, and derivatives say nothing about the number of unlabelled positives.
        """
        low, high = self.interval_of(self.class_prior, level)
        at_boundary = not self.has_extra_information and all_labelled(self.label_frequency.value)
        return Interval(low, 1.0 if at_boundary else high)

    @property
    def has_extra_information(self) -> bool:
        """Whether there is more information than one label for each row."""
        return not isinstance(self.objective, LogisticPair)

    def interval_of(self, functional: Functional, level: float) -> Interval:
        """Return the interval of a functional, which is symmetric on the logit scale."""
        value, error = functional.value, self.error_of(functional)
        slope = value * (1.0 - value)
        error = error / slope if slope > 0 else np.inf  # at 0 and 1 the logit is infinite
        centre = np.asarray(logit(value))
        return Interval(*map(float, uncertainty.logit_interval(centre, np.asarray(error), self.quantile(level))))

    def row_intervals(
        self, engine: Engine, level: float, *, of: str, kind: int = 0, recalibration: Recalibration | None = None
    ) -> Matrix:
        """Return the interval of each row for the "class", the "propensity" of a kind of look, or the "posterior".

        The delta method gives intervals that are symmetric on the logit scale. If the class of a row is known, both
        ends of its posterior's interval are equal. With a `recalibration`, intervals include the uncertainty of the
        class prior.
        """
        place = (self.objective, self.parameters, self.precision, self.quantile(level))
        return np.asarray(engine.collect(_block_intervals, *place, of, kind, recalibration))

    def parameter_draws(self, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Draw estimation errors of the parameters, one row for each draw.

        The error is 0 in directions about which there is no information.
        """
        root = self.precision.root
        draws = np.asarray(rng.standard_normal((n_draws, root.shape[1])) @ root.T)
        if self.n_groups:  # dividing normal draws by a chi-squared root gives Student's distribution
            freedom = max(self.n_groups - 1, 1)
            draws *= np.sqrt(freedom / rng.chisquare(freedom, size=(n_draws, 1)))
        return draws

    def draws_at(self, priors: Vector, rng: np.random.Generator) -> Matrix:
        r"""Draw parameters, given the class prior of each draw.

        Estimation errors :math:`d` are normal with covariance `V`. If `g` is the gradient of the class prior, the draws
        are conditioned on :math:`g'd = p - \hat p`, to first order, by adding a multiple of :math:`V g`.
        """
        noise, root, gradient = self.parameter_draws(priors.size, rng), self.precision.root, self.class_prior.gradient
        along = root @ (root.T @ gradient)
        variance = float(gradient @ along)
        if variance > 0:
            noise += np.outer((priors - self.class_prior.value - noise @ gradient) / variance, along)
        return np.asarray(self.parameters + noise)

    def out_of_fold_logits(self, engine: Engine) -> Matrix:
        r"""Return the logits that a fit without the row would give to each row, to first order.

        The result has one column for each logit. If a row is left out, the parameters change by :math:`-A^{-1} g`,
        where `g` is the row's score and `A` the penalised information.
        """
        root, engine = replace(self, meat=None).precision.root, self.with_weights_of_fit(engine)
        return np.asarray(engine.collect(_block_out_of_fold, self.objective, self.parameters, root))

    def with_weights_of_fit(self, engine: Engine) -> Engine:
        """Return the rows of the fit with the weights of the fit: with groups="rows", their sum is the number of rows.

        Weights that are already in this unit, or belong to a fit without this scaling, stay as they are.
        """
        totals, fitted = row_totals(engine), float(self.sums.weight)
        total, n_rows = float(totals.weight), float(totals.n_rows)
        if abs(fitted - n_rows) > MAX_WEIGHT_ROUNDING * n_rows or abs(fitted - total) <= MAX_WEIGHT_ROUNDING * total:
            return engine
        return engine.derive(_scaled_weights, fitted / total, keep=True)

    def posterior_draws(
        self, n_draws: int, rng: np.random.Generator, recalibration: Any = None, priors: Any = None
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return the block function that draws posteriors from the distribution of the parameters, and its parameters.

        The function returns one row for each row of a block, and one column for each draw. For a recalibrated fit,
        `priors` are class priors that were drawn before. They also determine the label frequency, so the drawn
        parameters are adjusted to leave class prior and label frequency unchanged, to first order.
        """
        noise = self.parameter_draws(n_draws, rng)
        place = (self.objective, self.parameters)
        if recalibration is None or priors is None:
            return _block_draws, (*place, self.parameters + noise)
        return _block_recalibrated_draws, (*place, self.at_given_shares(noise), recalibration, priors)

    def at_given_shares(self, noise: Matrix) -> Matrix:
        """Change drawn errors so that, to first order, they leave class prior and label frequency unchanged."""
        first, second = self.objective.places[:2]
        for functional, at in ((self.class_prior, first.stop - 1), (self.label_frequency, second.stop - 1)):
            if functional.gradient[at]:
                noise[:, at] -= noise @ functional.gradient / functional.gradient[at]
        return noise

    def widened(self, times: float, n_groups: int) -> "PairInference":
        """Return the inference with variances multiplied by `times`, for rows in `n_groups` groups."""
        if self.information is None:
            return self
        variances = tuple(times * each.row_variance for each in (self.class_prior, self.label_frequency))
        return replace(self, meat=times * self.information, row_variances=variances, n_groups=n_groups)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without cached properties."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def pair_inference(
    problem: PairProblem, fit: PairFit | Vector, *, information: Matrix | None = None, sums: PairSums | None = None
) -> PairInference:
    """Return the `PairInference` of a fitted pair.

    `fit` may be the parameters alone. `sums` and `information` are computed if they are not passed. The information is
    also computed again if its sum with the penalties is not positive definite. It is None if the models have too many
    parameters.
    """
    constraints = fit.constraints if isinstance(fit, PairFit) else ()
    beta = fit.parameters if isinstance(fit, PairFit) else fit
    engine, objective, ridge = problem.engine, problem.objective, problem.ridge
    sums = problem.sums(beta) if sums is None else sums
    noise, expected, added = INFORMATION_ROUNDING[np.dtype(engine.dtype)], False, None
    if problem.n_parameters > MAX_MATRIX_PARAMETERS:
        information = None
    else:
        pseudo = problem._replace(pseudo_observations=None).pulls
        added = np.diag(ridge) + sum(pull.sums(beta).curvature for pull in pseudo)
        added = added + sum(constraint.information(beta) for constraint in constraints)
        # The given information may be the expected one, because the solver uses it if the observed one is singular.
        # The observed information is therefore computed first.
        if information is None or not uncertainty.is_definite(information + added, noise=noise):
            information = engine.total(objective.sums, beta, Curvature.OBSERVED).curvature
            if expected := not uncertainty.is_semi_definite(information + added, noise=noise):
                information = engine.total(objective.sums, beta, Curvature.EXPECTED).curvature
    return PairInference(
        objective,
        beta,
        problem.C,
        problem.propensity_C,
        int(problem.totals.n_rows),
        sums,
        information,
        added,
        expected,
        noise,
        problem.swappable,
        ridge,
        problem.pulls,
        problem.pseudo_observations,
    )


def disagreements(problem: PairProblem, fit: PairFit, *, max_iter: int) -> list[tuple[str, float]]:
    """Return, for each constraint, its description and its disagreement with the rows in standard errors.

    The disagreement is the square root of the likelihood ratio statistic. This statistic is twice the log-likelihood
    gain if the constraint is dropped.
    """
    if not problem.constraints:
        return []
    held, found = penalised_loss(problem, fit.parameters), []
    for k, constraint in enumerate(problem.constraints):
        others = problem._replace(constraints=problem.constraints[:k] + problem.constraints[k + 1 :])
        free = fit_pair(others, fit.parameters, FitOptions(_TEST_TOL, max_iter))
        found.append(
            (constraint.description, float(np.sqrt(2.0 * max(held - penalised_loss(others, free.parameters), 0.0))))
        )
    return found


def penalised_loss(problem: PairProblem, beta: Vector) -> float:
    """Return minus the penalised log-likelihood. Exact constraints add nothing, because they hold."""
    constraints = tuple(constraint for constraint in problem.constraints if constraint.variance > 0)
    return float(problem.penalised(constraints).evaluate(beta, Curvature.NONE).value)


def _block_intervals(
    X: Any,
    rows: Rows,
    objective: PairObjective,
    beta: Vector,
    precision: Precision,
    z: float,
    of: str,
    kind: int,
    recalibration: Recalibration | None,
) -> Matrix:
    X, rows, sure = _in_double(X), rows_in_numpy(rows), None
    place, (low, high) = {"class": 0, "propensity": 1 + kind}.get(of), (0.0, 1.0)
    if place is not None:
        at, seen = objective.logits[place], objective.logits[place].design.take(X)
        centre, error = objective.logit_values(X, beta)[place], precision.logit_errors(seen, at.place)
        low, high = (0.0, 1.0) if place == 0 or objective.bounds is None else objective.bounds
    else:
        centre = np.asarray(objective.row_posterior_logit(X, rows, beta))
        error = precision_errors(X, objective, np.asarray(objective.posterior_slopes(X, rows, beta)), precision)
        sure = ~np.isfinite(centre)
    if recalibration is not None:
        u, v = objective.logit_values(X, beta)[:2]
        error = np.hypot(error, recalibration.grid_errors(u, v, of))
    ends = low + (high - low) * np.column_stack(uncertainty.logit_interval(centre, error, z))
    if of == "propensity" and objective.heterogeneity:
        ends = np.column_stack([objective.propensity(centre + side * error) for side in (-z, z)])
    if sure is not None:
        ends[sure] = expit(centre[sure])[:, None]
    return ends


def precision_errors(X: Any, objective: PairObjective, along: Matrix, precision: Precision) -> Vector:
    """Return the standard error of a quantity of each row.

    `along` contains the derivatives of the quantity with respect to the logits of the row.
    """
    errors = np.empty(len(along))
    for start in range(0, errors.size, _ROWS_PER_CHUNK):
        part = slice(start, start + _ROWS_PER_CHUNK)
        gradients = np.zeros((len(along[part]), objective.n_parameters))
        for j, at in enumerate(objective.logits):
            gradients[:, at.place] += along[part, j, None] * with_ones(at.design.take(X)[part])
        errors[part] = precision.errors(gradients)
    return errors


def _scaled_weights(X: Any, rows: Rows, factor: float) -> dict[str, Any]:
    return {"w": factor * rows["w"]}


def _block_out_of_fold(X: Any, rows: Rows, objective: PairObjective, beta: Vector, root: Matrix) -> Matrix:
    X, rows = _in_double(X), rows_in_numpy(rows)
    scores, w = np.asarray(objective.row_scores(X, rows, beta)), rows["w"]
    along = []
    for at in objective.logits:
        part = root[at.place]
        along.append(np.asarray(at.design.take(X) @ part[:-1]) + part[-1])
    moved = sum((w * scores[:, j])[:, None] * each for j, each in enumerate(along))
    values = objective.logit_values(X, beta)
    return np.column_stack([value - (each * moved).sum(axis=1) for value, each in zip(values, along, strict=True)])


def _block_draws(X: Any, rows: Rows, objective: PairObjective, beta: Vector, draws: Matrix) -> Matrix:
    X, rows = _in_double(X), rows_in_numpy(rows)
    return np.column_stack([objective.row_posterior(X, rows, each) for each in draws])


def _block_recalibrated_draws(
    X: Any,
    rows: Rows,
    objective: PairObjective,
    beta: Vector,
    noise: Matrix,
    recalibration: Recalibration,
    priors: Vector,
) -> Matrix:
    """Return drawn posteriors of a recalibrated fit to one label for each row; each draw has its own class prior."""
    X = _in_double(X)
    u, v = objective.logit_values(X, beta)[:2]
    u_noise, v_noise = (
        np.asarray(at.design.take(X) @ noise[:, at.place][:, :-1].T) + noise[:, at.place][:, -1]
        for at in objective.logits[:2]
    )
    posterior = recalibration.posterior_logits(recalibration.invert(u), v, priors)
    moved = softplus(v[:, None] + v_noise) - softplus(v)[:, None]
    drawn = np.asarray(expit(posterior + u_noise - moved))
    drawn[in_numpy(rows["s"]) == 1] = 1.0
    return drawn


def rows_in_numpy(rows: Rows) -> Any:
    """Return row values as NumPy arrays."""
    return {name: np.asarray(in_numpy(values)) for name, values in rows.items()}


def _in_double(X: Any) -> Any:
    """Return a block of rows in float64, dense or sparse, because rounding to float32 would be visible in intervals."""
    return (X if sparse.issparse(X) else in_numpy(X)).astype(np.float64, copy=False)


def with_ones(X: Any) -> Matrix:
    """Return a dense block of rows with a column of ones appended."""
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return np.column_stack([dense, np.ones(dense.shape[0])])
