"""What models fitted to several looks, audits and facts know about their own uncertainty."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.engines import Engine, Rows
from scarless.engines.problem import WIDEST_MATRIX
from scarless.numerics import looks, uncertainty
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.interval import Interval, quantile
from scarless.numerics.linear import logits
from scarless.numerics.looks_objective import Logit, LooksLikelihood, LooksSums
from scarless.numerics.objectives import Curvature
from scarless.numerics.uncertainty import Functional, Precision
from scarless.pair.inference import NOISE, PairInference
from scarless.pair.looks import LooksFit, LooksProblem

_DENSE_ROWS = 1024


@dataclass(frozen=True, eq=False)
class LooksInference(PairInference):
    """All models at their optimum, with the sums over rows that their uncertainty needs. Holds no rows.

    `beta_e` are all parameters but the classifier's; `e` is what the first propensity model sees at its first look.
    """

    objective: LooksLikelihood | None = None
    added: Matrix | None = None  # what penalties and facts add to the information
    either_way: bool = False  # whether nothing but the start says which model is the classifier

    @property
    def likelihood(self) -> LooksLikelihood:
        """The models."""
        assert self.objective is not None
        return self.objective

    @property
    def looks_sums(self) -> LooksSums:
        """The sums over rows."""
        sums: Any = self.sums
        return sums

    @property
    def exchangeable(self) -> bool:
        """Whether nothing but the start says which model is the classifier; several looks, and audits, do."""
        return self.either_way

    @cached_property
    def precision(self) -> Precision:
        """The information with what penalties and facts add, taken apart."""
        added = np.zeros((0, 0)) if self.added is None else self.added
        return uncertainty.precision(self.needed_information() + added, noise=self.noise)

    def label_frequency_of(self, kind: int) -> Functional:
        """Return the share of positives that a kind of look labels, with what its variance needs."""
        sums = self.looks_sums
        positives = float(sums.positives)
        value = float(sums.by_look[kind]) / positives
        gradient = (sums.by_look_gradient[kind] - value * sums.positives_gradient) / positives
        f_f, f_fe, fe_fe = float(sums.squares[0]), *(float(each) for each in sums.by_look_squares[:, kind])
        return Functional(value, gradient, max(fe_fe - 2.0 * value * f_fe + value**2 * f_f, 0.0) / positives**2)

    def collinear(self) -> tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]]:
        """Return, for the classifier and the first propensity model, sets of columns that determine each other."""
        information = self.needed_information()
        f, e = (
            uncertainty.collinear_columns(information[place, place], self.sums.columns[place], noise=self.noise)
            for place in self.likelihood.places[:2]
        )
        return f, e

    def class_prior_interval(self, level: float) -> Interval:
        """Return an interval for the class prior."""
        return self.interval_of(self.class_prior, level)

    def row_intervals(self, engine: Engine, level: float, *, of: str, relaxation: Any = None) -> Matrix:
        """Return the ends of each row's interval for the class; `looks_intervals` are those that depend on looks."""
        assert of == "class", "propensities and posteriors depend on looks"
        return np.asarray(engine.collect(_block_logit_intervals, self.likelihood.logits[0], *self._asked(level)))

    def _asked(self, level: float) -> tuple[Vector, Precision, float]:
        return self.parameters, self.precision, quantile(level)

    def looks_intervals(self, engine: Engine, level: float, *, kind: int | None = None) -> Matrix:
        """Return the ends of each row's interval for its posterior, or for the propensity of a kind of look."""
        if kind is not None:
            of = self.likelihood.logits[1 + kind]
            return np.asarray(engine.collect(_block_logit_intervals, of, *self._asked(level)))
        return np.asarray(engine.collect(_block_posterior_intervals, self.likelihood, *self._asked(level)))


def looks_inference(problem: LooksProblem, fit: LooksFit) -> LooksInference:
    """Collect what the uncertainty of a fit needs, in two passes over the rows."""
    objective, engine, beta = problem.objective, problem.engine, fit.beta
    noise, expected, information, added = NOISE[np.dtype(engine.dtype)], False, None, None
    if objective.n_parameters <= WIDEST_MATRIX:
        added = np.diag(problem.ridge) + sum(pull.sums(beta).curvature for pull in problem.pulls)
        added = added + sum(fact.information(beta) for fact in fit.facts)
        information = engine.total(objective.sums, beta, Curvature.OBSERVED).curvature
        if expected := not uncertainty.is_semi_definite(information + added, noise=noise):
            information = engine.total(objective.sums, beta, Curvature.EXPECTED).curvature
    beta_f, others = objective.split(beta)
    return LooksInference(
        objective.f,
        objective.e[0][0],
        beta_f,
        others,
        problem.C,
        problem.propensity_C,
        int(problem.totals.n_rows),
        problem.sums(beta),  # type: ignore[arg-type]
        information,
        expected,
        noise,
        objective=objective,
        added=added,
        either_way=problem.exchangeable,
    )


def disagreements(problem: LooksProblem, fit: LooksFit, inference: LooksInference) -> list[tuple[str, float]]:
    r"""Return each fact, in words, with how many standard errors rows and claim are apart.

    The multiplier :math:`\lambda` of a fact is what the likelihood would gain if it were let go of; by
    :math:`\lambda^2(\sigma^2 + V)`, with `V` the variance of the share by rows and all other facts, it is a test of
    one degree of freedom.
    """
    found: list[tuple[str, float]] = []
    if inference.information is None or inference.added is None:
        return found
    for fact in fit.facts:
        share = fact.share(fit.beta, bend=False)
        others = inference.information + inference.added - fact.information(fit.beta)
        (error,) = uncertainty.precision(others, noise=inference.noise).errors(share.gradient[None])
        multiplier = fact.multiplier if fact.widened else (share.value - fact.value) / fact.variance
        apart = abs(multiplier) * float(np.hypot(error, np.sqrt(fact.variance))) if np.isfinite(error) else 0.0
        found.append((fact.told, apart))
    return found


def _block_logit_intervals(X: Any, rows: Rows, of: Logit, beta: Vector, precision: Precision, z: float) -> Matrix:
    seen = of.design.take(X).astype(np.float64)
    centre = logits(seen, beta[of.place])
    return np.column_stack(uncertainty.logit_interval(centre, precision.logit_errors(seen, of.place), z))


def _block_posterior_intervals(
    X: Any, rows: Rows, objective: LooksLikelihood, beta: Vector, precision: Precision, z: float
) -> Matrix:
    terms = objective.terms(X, rows, beta)
    along = looks.observed_look_information(terms).along
    errors = np.empty(len(along))
    for start in range(0, len(along), _DENSE_ROWS):
        part = slice(start, start + _DENSE_ROWS)
        gradients = np.zeros((len(along[part]), beta.size))
        for j, logit in enumerate(objective.logits):
            gradients[:, logit.place] += along[part, j, None] * _with_ones(logit.design.take(X)[part])
        errors[part] = precision.errors(gradients)
    with np.errstate(divide="ignore"):
        centre = np.log(terms.q) - np.log(terms.not_q)
    ends = np.column_stack(uncertainty.logit_interval(centre, errors, z))
    sure = (terms.q == 0) | (terms.not_q == 0)
    ends[sure] = terms.q[sure, None]
    return ends


def _with_ones(X: Any) -> Matrix:
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return np.column_stack([dense, np.ones(dense.shape[0])]).astype(np.float64)
