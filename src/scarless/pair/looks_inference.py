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
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import Curvature
from scarless.numerics.uncertainty import Functional, Precision
from scarless.pair.fit import FitOptions
from scarless.pair.inference import NOISE, PairInference
from scarless.pair.looks import LooksFit, LooksProblem, climb_looks

_DENSE_ROWS = 1024
_CLOSE = 1e-8  # predicted gain per row: enough for a test


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
        sums = self.sums
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
        return np.asarray(engine.collect(_block_logit_intervals, self.likelihood, 0, *self._asked(level)))

    def _asked(self, level: float) -> tuple[Vector, Precision, float]:
        return self.parameters, self.precision, quantile(level)

    def looks_intervals(self, engine: Engine, level: float, *, kind: int | None = None) -> Matrix:
        """Return the ends of each row's interval for its posterior, or for the propensity of a kind of look."""
        if kind is not None:
            return np.asarray(engine.collect(_block_logit_intervals, self.likelihood, 1 + kind, *self._asked(level)))
        return np.asarray(engine.collect(_block_posterior_intervals, self.likelihood, *self._asked(level)))

    def draw_looks_posteriors(self, engine: Engine, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Draw each row's chance to be positive, given all that was seen of it, from what the rows leave possible."""
        draws = self.parameters + self.parameter_draws(n_draws, rng)
        return np.asarray(engine.collect(_block_posterior_draws, self.likelihood, draws))


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
        objective.e,
        beta_f,
        others,
        problem.C,
        problem.propensity_C,
        int(problem.totals.n_rows),
        problem.sums(beta),
        information,
        expected,
        noise,
        objective=objective,
        added=added,
        either_way=problem.exchangeable,
    )


def disagreements(problem: LooksProblem, fit: LooksFit, *, max_iter: int) -> list[tuple[str, float]]:
    r"""Return each fact, in words, with how many standard errors rows and claim are apart.

    By the likelihood ratio: the root of twice what the fit gains, all other facts kept, if it lets go of this one.
    """
    held = penalised_loss(problem, fit.beta)
    found = []
    for k, fact in enumerate(problem.facts):
        others = problem._replace(facts=problem.facts[:k] + problem.facts[k + 1 :])
        free = climb_looks(others, fit.beta, FitOptions(_CLOSE, max_iter), fit.start)
        found.append((fact.told, float(np.sqrt(2.0 * max(held - penalised_loss(others, free.beta), 0.0)))))
    return found


def penalised_loss(problem: LooksProblem, beta: Vector) -> float:
    """Return minus the penalised log-likelihood, with facts as they are; what is sure is kept to."""
    facts = tuple(fact for fact in problem.facts if fact.variance > 0)
    return float(problem.penalised(facts).evaluate(beta, Curvature.NONE).value)


def _block_logit_intervals(
    X: Any, rows: Rows, objective: LooksLikelihood, place: int, beta: Vector, precision: Precision, z: float
) -> Matrix:
    of = objective.logits[place]
    errors = precision.logit_errors(of.design.take(X).astype(np.float64), of.place)
    low, high = (0.0, 1.0) if place == 0 or objective.bounds is None else objective.bounds
    ends = np.column_stack(uncertainty.logit_interval(objective.logit_values(X, beta)[place], errors, z))
    return low + (high - low) * ends


def _block_posterior_intervals(
    X: Any, rows: Rows, objective: LooksLikelihood, beta: Vector, precision: Precision, z: float
) -> Matrix:
    terms = objective.terms(X, rows, beta)
    along = looks.observed_look_information(terms).along
    errors = np.empty(len(along))
    for start in range(0, len(along), _DENSE_ROWS):
        part = slice(start, start + _DENSE_ROWS)
        gradients = np.zeros((len(along[part]), beta.size))
        for logit in objective.logits:
            gradients[:, logit.place] += along[part, logit.column, None] * _with_ones(logit.design.take(X)[part])
        errors[part] = precision.errors(gradients)
    with np.errstate(divide="ignore"):
        centre = np.log(terms.q) - np.log(terms.not_q)
    ends = np.column_stack(uncertainty.logit_interval(centre, errors, z))
    sure = (terms.q == 0) | (terms.not_q == 0)
    ends[sure] = terms.q[sure, None]
    return ends


def _block_posterior_draws(X: Any, rows: Rows, objective: LooksLikelihood, draws: Matrix) -> Matrix:
    return np.column_stack([objective.terms(X, rows, beta).q for beta in draws])


def _with_ones(X: Any) -> Matrix:
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return np.column_stack([dense, np.ones(dense.shape[0])]).astype(np.float64)
