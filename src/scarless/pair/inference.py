"""What a fitted pair of logistic models knows about its own uncertainty."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from scarless.engines import Engine, Rows
from scarless.numerics import likelihood, uncertainty
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.interval import Interval, quantile
from scarless.numerics.linear import Design, logits
from scarless.numerics.namespace import in_numpy
from scarless.numerics.newton import WIDEST_MATRIX
from scarless.numerics.objectives import Curvature
from scarless.numerics.sigmoid import softplus
from scarless.numerics.uncertainty import Functional, PairSums, Precision
from scarless.pair.logistic import ridge_of
from scarless.pair.problem import Audits, PairProblem, exchange, see_the_same
from scarless.pair.relaxed import Relaxation
from scarless.pair.rows import all_labelled
from scarless.pair.solving import Pull

# Relative error of the sums over rows that make the information matrix.
NOISE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}

_LEAST_MEAT = 1e-9  # of the information
_DENSE_ROWS = 1024  # of sparse tables, that are made dense at a time


@dataclass(frozen=True, eq=False)
class PairInference:
    """Two logistic models at their optimum, with the sums over rows that their uncertainty needs.

    Holds no rows: its size is that of the information matrix, which is None where the models are too wide for one.
    """

    f: Design
    e: Design
    beta_f: Vector
    beta_e: Vector
    C: float
    propensity_C: float
    n_rows: int  # that count at all
    sums: PairSums
    information: Matrix | None  # of the likelihood alone
    expected: bool  # whether that is the expected information, the observed one being of no use here
    noise: float
    audits: Audits | None = None  # imaginary ones, part of the penalty
    meat: Matrix | None = None  # where rows belong to groups: cross product of the groups' scores
    row_variances: tuple[float, ...] = ()  # of class prior and label frequency, from drawing the groups
    n_groups: int = 0  # that rows belong to

    @property
    def log_likelihood(self) -> float:
        """Observed log-likelihood of the rows, penalties not included."""
        return float(self.sums.log_likelihood)

    @property
    def positives(self) -> float:
        """Expected number of positive rows."""
        return float(self.sums.positives)

    @property
    def labelled_positives(self) -> float:
        """Expected number of labelled rows."""
        return float(self.sums.labelled_positives)

    @property
    def parameters(self) -> Vector:
        """Coefficients and intercept of the classifier, then of the propensity model."""
        return np.concatenate([self.beta_f, self.beta_e])

    @property
    def ridge(self) -> Vector:
        """The penalty's weight on the square of each parameter."""
        return pair_ridge(self.f, self.e, self.C, self.propensity_C)

    @property
    def pulls(self) -> tuple[Pull, ...]:
        """What imaginary audits add to the penalty."""
        return () if self.audits is None else (self.audits.pull(self.f.n_parameters),)

    @cached_property
    def precision(self) -> Precision:
        """The penalised information, taken apart; with groups, the inverse of the covariance that counts them."""
        penalised = self.needed_information() + np.diag(self.ridge)
        if self.meat is not None:
            least = _LEAST_MEAT * np.diagonal(penalised)  # of what no group tells: fewer groups than parameters
            middle = self.meat + np.diag(self.ridge + np.maximum(least, np.finfo(np.float64).tiny))
            penalised = penalised @ np.linalg.solve(middle, penalised)
            penalised = 0.5 * (penalised + penalised.T)
        return uncertainty.precision(penalised, noise=self.noise)

    @property
    def class_prior(self) -> Functional:
        """The mean of `f`, with what its variance needs."""
        return self._drawn(uncertainty.class_prior(self.sums), 0)

    @property
    def label_frequency(self) -> Functional:
        """The mean of `e` over positives, with what its variance needs."""
        return self._drawn(uncertainty.label_frequency(self.sums), 1)

    def _drawn(self, functional: Functional, place: int) -> Functional:
        return functional._replace(row_variance=self.row_variances[place]) if self.row_variances else functional

    @property
    def mean_propensity(self) -> float:
        """The mean of `e` over all rows: the class prior if `e` were the classifier."""
        return float(self.sums.propensities / self.sums.weight)

    @property
    def exchangeable(self) -> bool:
        """Whether both models see the same columns."""
        return see_the_same(self.f, self.e)

    @property
    def exchanged(self) -> Vector:
        """The parameters of exchangeable models with each in the other's place: the same likelihood."""
        return exchange(self.beta_f, self.beta_e, self.f, self.e)

    def needed_information(self) -> Matrix:
        """Return the information matrix, or say why there is none."""
        if self.information is None:
            raise ValueError(
                f"The two models have {self.parameters.size} parameters; above {WIDEST_MATRIX} their information "
                "matrix is not formed, so there are no standard errors. Give the models fewer columns, or use "
                "scarless.diagnostics.bootstrap_intervals."
            )
        return self.information

    def collinear(self) -> tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]]:
        """Return, for each model, the sets of its columns that a linear combination makes constant."""
        n_f, information = self.f.n_parameters, self.needed_information()
        f, e = (
            uncertainty.collinear_columns(information[part, part], self.sums.columns[part], noise=self.noise)
            for part in (slice(0, n_f), slice(n_f, None))
        )
        return f, e

    def parameter_errors(self) -> Vector:
        """Return the standard error of each parameter."""
        return self.precision.errors(np.eye(self.parameters.size))

    def quantile(self, level: float) -> float:
        """Return how many standard errors an interval reaches to each side; with groups, by Student's distribution."""
        return quantile(level, max(self.n_groups - 1, 1) if self.n_groups else np.inf)

    def error_of(self, functional: Functional) -> float:
        """Return the standard error of a functional, for a population that the rows are a sample of."""
        (error,) = self.precision.errors(functional.gradient[None])
        return float(np.hypot(error, np.sqrt(functional.row_variance)))

    def class_prior_interval(self, level: float) -> Interval:
        """Return an interval for the class prior; open above where all positives seem to be labelled.

        There the likelihood has its end, not a top: its slopes tell nothing of how many positives may be missing.
        """
        low, high = self.interval_of(self.class_prior, level)
        return Interval(low, 1.0 if all_labelled(self.label_frequency.value) else high)

    def interval_of(self, functional: Functional, level: float) -> Interval:
        """Return an interval that is symmetric in the logit."""
        value, error = functional.value, self.error_of(functional)
        slope = value * (1.0 - value)
        error = error / slope if slope > 0 else np.inf  # at 0 and at 1 the logit tells nothing
        centre = np.asarray(logit(value))
        return Interval(*map(float, uncertainty.logit_interval(centre, np.asarray(error), self.quantile(level))))

    def row_intervals(self, engine: Engine, level: float, *, of: str, relaxation: Relaxation | None = None) -> Matrix:
        r"""Return the ends of each row's interval for the "class", the "propensity" or the "posterior" of no label.

        From checked rows, symmetric in the logit. That of the posterior is :math:`u - \mathrm{softplus}(v)`, with the
        gradient :math:`[x, 1]` and :math:`-e\,[z, 1]` by the parameters. What a relaxed fit does not know of its level
        is added.
        """
        place = (self.f, self.e, self.beta_f, self.beta_e, self.precision)
        return np.asarray(engine.collect(_block_intervals, *place, self.quantile(level), of, relaxation))

    def parameter_draws(self, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Draw how far the parameters may be off, one line for each draw; what nothing tells is left out."""
        root = self.precision.root
        draws = np.asarray(rng.standard_normal((n_draws, root.shape[1])) @ root.T)
        if self.n_groups:  # Student's distribution
            freedom = max(self.n_groups - 1, 1)
            draws *= np.sqrt(freedom / rng.chisquare(freedom, size=(n_draws, 1)))
        return draws

    def left_out_logits(self, engine: Engine) -> Matrix:
        r"""Return both logits of each row as the fit without that row has them, to first order.

        The fit without a row moves by :math:`-A^{-1} g`, with `g` the row's score and `A` the penalised information.
        The rows have ``s`` and ``w``.
        """
        place = (self.f, self.e, self.beta_f, self.beta_e)
        return np.asarray(engine.collect(_block_left_out, *place, replace(self, meat=None).precision.root))

    def draw_posteriors(
        self, engine: Engine, n_draws: int, rng: np.random.Generator, relaxation: Any = None, priors: Any = None
    ) -> Matrix:
        """Draw each row's chance to be positive without a label, from what the labels leave possible.

        Rows of the result are those of the table. With class priors drawn for a relaxed fit, the parameters' noise
        keeps class prior and label frequency to first order, since both are drawn already.
        """
        noise = self.parameter_draws(n_draws, rng)
        if priors is not None:
            n_f = self.f.n_parameters
            for functional, at in ((self.class_prior, n_f - 1), (self.label_frequency, -1)):
                if functional.gradient[at]:
                    noise[:, at] -= noise @ functional.gradient / functional.gradient[at]
        place = (self.f, self.e, self.beta_f, self.beta_e)
        return np.asarray(engine.collect(_block_draws, *place, noise, relaxation, priors))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what was given, not what was computed from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def pair_inference(
    problem: PairProblem,
    beta_f: Vector,
    beta_e: Vector,
    *,
    information: Matrix | None = None,
    sums: PairSums | None = None,
) -> PairInference:
    """Collect what the uncertainty of a fitted pair needs, in one light pass over the rows.

    `sums` are the problem's at these parameters, and `information` that of the likelihood, where they are known
    already. Otherwise, and where
    it is not positive definite together with the penalty, one more pass computes it, unless the models are too wide.
    """
    engine, f, e = problem.engine, problem.f, problem.e
    sums = problem.sums(beta_f, beta_e) if sums is None else sums
    noise, expected = NOISE[np.dtype(engine.dtype)], False
    if problem.n_parameters > WIDEST_MATRIX:
        information = None
    else:
        beta, pair, ridge = np.concatenate([beta_f, beta_e]), problem.objective, np.diag(problem.ridge)
        # Solvers take the expected information in place of an observed one that is singular: not to be mixed up here.
        if information is None or not uncertainty.is_definite(information + ridge, noise=noise):
            information = engine.total(pair.sums, beta, Curvature.OBSERVED).curvature
            if expected := not uncertainty.is_semi_definite(information + ridge, noise=noise):
                information = engine.total(pair.sums, beta, Curvature.EXPECTED).curvature
    n_rows, penalties = int(problem.totals.n_rows), (problem.C, problem.propensity_C)
    return PairInference(f, e, beta_f, beta_e, *penalties, n_rows, sums, information, expected, noise, problem.audits)


def _block_intervals(
    X: Any,
    rows: Rows,
    f: Design,
    e: Design,
    beta_f: Vector,
    beta_e: Vector,
    precision: Precision,
    z: float,
    of: str,
    relaxation: Relaxation | None,
) -> Matrix:
    X = X if sparse.issparse(X) else in_numpy(X)
    X_f, X_e = (design.take(X).astype(np.float64) for design in (f, e))
    u, v = logits(X_f, beta_f), logits(X_e, beta_e)
    if of == "class":
        centre, error = u, precision.logit_errors(X_f, slice(0, f.n_parameters))
    elif of == "propensity":
        centre, error = v, precision.logit_errors(X_e, slice(f.n_parameters, None))
    else:
        centre, error = u - softplus(v), _posterior_errors(X_f, X_e, v, precision)
    if relaxation is not None:
        error = np.hypot(error, relaxation.level_errors(u, v, of))
    return np.column_stack(uncertainty.logit_interval(centre, error, z))


def _block_left_out(X: Any, rows: Rows, f: Design, e: Design, beta_f: Vector, beta_e: Vector, root: Matrix) -> Matrix:
    X, s = X if sparse.issparse(X) else in_numpy(X), np.asarray(in_numpy(rows["s"]), dtype=np.float64)
    X_f, X_e = (design.take(X).astype(np.float64) for design in (f, e))
    u, v = logits(X_f, beta_f), logits(X_e, beta_e)
    by_u, by_v = (in_numpy(rows["w"]) * each for each in likelihood.score(s, likelihood.pair_terms(u, v)))
    along_f = np.asarray(X_f @ root[: f.n_parameters - 1]) + root[f.n_parameters - 1]
    along_e = np.asarray(X_e @ root[f.n_parameters : -1]) + root[-1]
    moved = by_u[:, None] * along_f + by_v[:, None] * along_e
    return np.column_stack([u - (along_f * moved).sum(axis=1), v - (along_e * moved).sum(axis=1)])


def _block_draws(
    X: Any,
    rows: Rows,
    f: Design,
    e: Design,
    beta_f: Vector,
    beta_e: Vector,
    noise: Matrix,
    relaxation: Relaxation | None,
    priors: Vector | None,
) -> Matrix:
    X = X if sparse.issparse(X) else in_numpy(X)
    X_f, X_e = (design.take(X).astype(np.float64) for design in (f, e))
    u, v = logits(X_f, beta_f), logits(X_e, beta_e)
    u_noise, v_noise = (
        np.asarray(block @ part[:, :-1].T) + part[:, -1]
        for block, part in ((X_f, noise[:, : f.n_parameters]), (X_e, noise[:, f.n_parameters :]))
    )
    if relaxation is None or priors is None:
        return np.asarray(expit(u[:, None] + u_noise - softplus(v[:, None] + v_noise)))
    at = relaxation.posterior_logits(relaxation.undone(u), v, priors)
    moved = softplus(v[:, None] + v_noise) - softplus(v)[:, None]
    return np.asarray(expit(at + u_noise - moved))


def _posterior_errors(X_f: Any, X_e: Any, v: Vector, precision: Precision) -> Vector:
    errors = np.empty(v.size)
    for start in range(0, v.size, _DENSE_ROWS):
        part = slice(start, start + _DENSE_ROWS)
        of_f, of_e = with_ones(X_f[part]), with_ones(X_e[part])
        errors[part] = precision.errors(np.hstack([of_f, -expit(v[part])[:, None] * of_e]))
    return errors


def with_ones(X: Any) -> Matrix:
    """Return a block of rows, dense, with a column of ones behind it."""
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return np.column_stack([dense, np.ones(dense.shape[0])])


def pair_ridge(f: Design, e: Design, C: float, propensity_C: float) -> Vector:
    """Return the penalty's weight on the square of each parameter of both models."""
    return np.concatenate([ridge_of(f, C), ridge_of(e, propensity_C)])
