"""What a fitted pair of models knows about its own uncertainty."""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, logit

from scarless.engines import Engine, Rows
from scarless.numerics import uncertainty
from scarless.numerics.arrays import Matrix, Vector, in_numpy
from scarless.numerics.likelihood import softplus
from scarless.numerics.linear import Design
from scarless.numerics.newton import WIDEST_MATRIX
from scarless.numerics.objectives import Curvature, LogisticPair, PairObjective
from scarless.numerics.uncertainty import Functional, Interval, PairSums, Precision, quantile
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.logistic import all_labelled
from scarless.pair.problem import Audits, PairProblem, swap
from scarless.pair.recalibrated import Recalibration
from scarless.pair.solving import Pull

# Relative error of the sums over rows that make the information matrix.
NOISE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}

_LEAST_MEAT = 1e-9  # of the information
_DENSE_ROWS = 1024  # of which lines as long as the parameters are made at a time
_ENOUGH_FOR_A_TEST = 1e-8  # predicted gain per row


@dataclass(frozen=True, eq=False)
class PairInference:
    """All models at their optimum, with the sums over rows that their uncertainty needs.

    Holds no rows: its size is that of the information matrix, which is None where the models are too wide for one.
    """

    objective: PairObjective
    parameters: Vector  # of the classifier, then of each propensity model, then rates of false positives
    C: float
    propensity_C: float
    n_rows: int  # that count at all
    sums: PairSums
    information: Matrix | None  # of the likelihood alone
    added: Matrix | None  # what penalties and facts add to it; not pseudo-observations, which rule nothing out
    expected: bool  # whether that is the expected information, the observed one being of no use here
    noise: float
    swappable: bool  # whether nothing but the start says which model is the classifier
    ridge: Vector  # the penalty's weight on the square of each parameter
    pulls: tuple[Pull, ...] = ()  # what pseudo-observations and false labels add to the penalty
    audits: Audits | None = None  # imaginary ones
    meat: Matrix | None = None  # where rows belong to groups: cross product of the groups' scores
    row_variances: tuple[float, ...] = ()  # of class prior and label frequency, from drawing the groups
    n_groups: int = 0  # that rows belong to

    @property
    def f(self) -> Design:
        """What the classifier sees."""
        return self.objective.f

    @property
    def e(self) -> Design:
        """What the first propensity model sees at its first look."""
        return self.objective.e

    @property
    def beta_f(self) -> Vector:
        """The classifier's parameters."""
        return self.objective.split(self.parameters)[0]

    @property
    def beta_e(self) -> Vector:
        """All parameters but the classifier's."""
        return self.objective.split(self.parameters)[1]

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
        """Expected number of positive rows with a label."""
        return float(self.sums.labelled_positives)

    @cached_property
    def precision(self) -> Precision:
        """The penalised information, taken apart; with groups, the inverse of the covariance that counts them."""
        penalised, added = self.penalised_information(), self.added
        if self.meat is not None and added is not None:
            least = _LEAST_MEAT * np.diagonal(penalised)  # of what no group tells: fewer groups than parameters
            middle = self.meat + added + np.diag(np.maximum(least, np.finfo(np.float64).tiny))
            penalised = penalised @ np.linalg.solve(middle, penalised)
            penalised = 0.5 * (penalised + penalised.T)
        return uncertainty.precision(penalised, noise=self.noise)

    @property
    def class_prior(self) -> Functional:
        """The mean of `f`, with what its variance needs."""
        return self._drawn(uncertainty.class_prior(self.sums), 0)

    @property
    def label_frequency(self) -> Functional:
        """The share of positives with any label, with what its variance needs."""
        return self._drawn(uncertainty.label_frequency(self.sums), 1)

    def label_frequency_of(self, kind: int) -> Functional:
        """Return the share of positives that a kind of look labels, with what its variance needs."""
        return uncertainty.label_frequency_of_look(self.sums, kind)

    def _drawn(self, functional: Functional, place: int) -> Functional:
        return functional._replace(row_variance=self.row_variances[place]) if self.row_variances else functional

    @property
    def mean_propensity(self) -> float:
        """The mean of `e` over all rows: the class prior if `e` were the classifier."""
        return float(self.sums.propensities / self.sums.weight)

    @property
    def swapped(self) -> Vector:
        """The parameters of swappable models with each in the other's place: the same likelihood."""
        return swap(self.beta_f, self.beta_e, self.f, self.e)

    def needed_information(self) -> Matrix:
        """Return the information matrix, or say why there is none."""
        if self.information is None:
            raise ValueError(
                f"The two models have {self.parameters.size} parameters; above {WIDEST_MATRIX} their information "
                "matrix is not formed, so there are no standard errors. Give the models fewer columns, or use "
                "scarless.diagnostics.bootstrap_intervals."
            )
        return self.information

    def penalised_information(self) -> Matrix:
        """Return the information with what penalties and facts add to it."""
        return np.asarray(self.needed_information() + (0.0 if self.added is None else self.added))

    def collinear(self) -> tuple[list[NDArray[np.intp]], list[NDArray[np.intp]]]:
        """Return, for the classifier and the first propensity model, sets of columns that are constant together."""
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
        """Return how many standard errors an interval reaches to each side; with groups, by Student's distribution."""
        return quantile(level, max(self.n_groups - 1, 1) if self.n_groups else np.inf)

    def error_of(self, functional: Functional) -> float:
        """Return the standard error of a functional, for a population that the rows are a sample of."""
        (error,) = self.precision.errors(functional.gradient[None])
        return float(np.hypot(error, np.sqrt(functional.row_variance)))

    def class_prior_interval(self, level: float) -> Interval:
        """Return an interval for the class prior; open above where one label of each row says that all have one.

        There the likelihood has its end, not a top: its slopes tell nothing of how many positives may be missing.
        """
        low, high = self.interval_of(self.class_prior, level)
        ends = not self.told_by_height and all_labelled(self.label_frequency.value)
        return Interval(low, 1.0 if ends else high)

    @property
    def told_by_height(self) -> bool:
        """Whether there is more to go by than one label of each row."""
        return not isinstance(self.objective, LogisticPair)

    def interval_of(self, functional: Functional, level: float) -> Interval:
        """Return an interval that is symmetric in the logit."""
        value, error = functional.value, self.error_of(functional)
        slope = value * (1.0 - value)
        error = error / slope if slope > 0 else np.inf  # at 0 and at 1 the logit tells nothing
        centre = np.asarray(logit(value))
        return Interval(*map(float, uncertainty.logit_interval(centre, np.asarray(error), self.quantile(level))))

    def row_intervals(
        self, engine: Engine, level: float, *, of: str, kind: int = 0, recalibration: Recalibration | None = None
    ) -> Matrix:
        r"""Return the ends of each row's interval for the "class", the "propensity" of a kind of look, or the
        "posterior".

        From checked rows, of which the posterior needs what was observed. Symmetric in the logit, by its gradient in
        the parameters; both ends are the same where the class is known. What a recalibrated fit does not know of its level
        is added.
        """
        place = (self.objective, self.parameters, self.precision, self.quantile(level))
        return np.asarray(engine.collect(_block_intervals, *place, of, kind, recalibration))

    def parameter_draws(self, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Draw how far the parameters may be off, one line for each draw; what nothing tells is left out."""
        root = self.precision.root
        draws = np.asarray(rng.standard_normal((n_draws, root.shape[1])) @ root.T)
        if self.n_groups:  # Student's distribution
            freedom = max(self.n_groups - 1, 1)
            draws *= np.sqrt(freedom / rng.chisquare(freedom, size=(n_draws, 1)))
        return draws

    def out_of_fold_logits(self, engine: Engine) -> Matrix:
        r"""Return all logits of each row as the fit without that row has them, to first order, a column for each.

        The fit without a row moves by :math:`-A^{-1} g`, with `g` the row's score and `A` the penalised information.
        The rows have what was observed of them, and ``w``.
        """
        root = replace(self, meat=None).precision.root
        return np.asarray(engine.collect(_block_out_of_fold, self.objective, self.parameters, root))

    def draw_posteriors(
        self, engine: Engine, n_draws: int, rng: np.random.Generator, recalibration: Any = None, priors: Any = None
    ) -> Matrix:
        """Draw each row's chance to be positive, given all that was observed of it, from what the rows leave possible.

        Rows of the result are those of the table. With class priors drawn for a recalibrated fit, the parameters' noise
        keeps class prior and label frequency to first order, since both are drawn already.
        """
        noise = self.parameter_draws(n_draws, rng)
        place = (self.objective, self.parameters)
        if recalibration is None or priors is None:
            return np.asarray(engine.collect(_block_draws, *place, self.parameters + noise))
        first, second = self.objective.places[:2]
        for functional, at in ((self.class_prior, first.stop - 1), (self.label_frequency, second.stop - 1)):
            if functional.gradient[at]:
                noise[:, at] -= noise @ functional.gradient / functional.gradient[at]
        return np.asarray(engine.collect(_block_recalibrated_draws, *place, noise, recalibration, priors))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what was given, not what was computed from it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def pair_inference(
    problem: PairProblem, fit: PairFit | Vector, *, information: Matrix | None = None, sums: PairSums | None = None
) -> PairInference:
    """Collect what the uncertainty of a fitted pair needs, in one light pass over the rows.

    `fit` may be parameters alone. `sums` are the problem's there, and `information` that of the likelihood, where they
    are known already. Otherwise, and where it is not positive definite together with the penalty, one more pass
    computes it, unless the models are too wide.
    """
    facts = fit.facts if isinstance(fit, PairFit) else ()
    beta = fit.parameters if isinstance(fit, PairFit) else fit
    engine, objective, ridge = problem.engine, problem.objective, problem.ridge
    sums = problem.sums(beta) if sums is None else sums
    noise, expected, added = NOISE[np.dtype(engine.dtype)], False, None
    if problem.n_parameters > WIDEST_MATRIX:
        information = None
    else:
        pseudo = problem._replace(audits=None).pulls
        added = np.diag(ridge) + sum(pull.sums(beta).curvature for pull in pseudo)
        added = added + sum(fact.information(beta) for fact in facts)
        # Solvers take the expected information in place of an observed one that is singular: not to be mixed up here.
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
        problem.audits,
    )


def disagreements(problem: PairProblem, fit: PairFit, *, max_iter: int) -> list[tuple[str, float]]:
    r"""Return each fact, in words, with how many standard errors rows and claim are apart.

    By the likelihood ratio: the root of twice what the fit gains, all other facts kept, if it lets go of this one.
    """
    if not problem.facts:
        return []
    held, found = penalised_loss(problem, fit.parameters), []
    for k, fact in enumerate(problem.facts):
        others = problem._replace(facts=problem.facts[:k] + problem.facts[k + 1 :])
        free = fit_pair(others, fit.parameters, FitOptions(_ENOUGH_FOR_A_TEST, max_iter))
        found.append((fact.told, float(np.sqrt(2.0 * max(held - penalised_loss(others, free.parameters), 0.0)))))
    return found


def penalised_loss(problem: PairProblem, beta: Vector) -> float:
    """Return minus the penalised log-likelihood, with facts as they are; what is sure is kept to."""
    facts = tuple(fact for fact in problem.facts if fact.variance > 0)
    return float(problem.penalised(facts).evaluate(beta, Curvature.NONE).value)


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
    X, rows, sure = _in_double(X), at_home(rows), None
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
        error = np.hypot(error, recalibration.level_errors(u, v, of))
    ends = low + (high - low) * np.column_stack(uncertainty.logit_interval(centre, error, z))
    if sure is not None:
        ends[sure] = expit(centre[sure])[:, None]
    return ends


def precision_errors(X: Any, objective: PairObjective, along: Matrix, precision: Precision) -> Vector:
    """Return the standard errors of what has these derivatives by the logits of each row of a block."""
    errors = np.empty(len(along))
    for start in range(0, errors.size, _DENSE_ROWS):
        part = slice(start, start + _DENSE_ROWS)
        gradients = np.zeros((len(along[part]), objective.n_parameters))
        for j, at in enumerate(objective.logits):
            gradients[:, at.place] += along[part, j, None] * with_ones(at.design.take(X)[part])
        errors[part] = precision.errors(gradients)
    return errors


def _block_out_of_fold(X: Any, rows: Rows, objective: PairObjective, beta: Vector, root: Matrix) -> Matrix:
    X, rows = _in_double(X), at_home(rows)
    scores, w = np.asarray(objective.row_scores(X, rows, beta)), rows["w"]
    along = []
    for at in objective.logits:
        part = root[at.place]
        along.append(np.asarray(at.design.take(X) @ part[:-1]) + part[-1])
    moved = sum((w * scores[:, j])[:, None] * each for j, each in enumerate(along))
    values = objective.logit_values(X, beta)
    return np.column_stack([value - (each * moved).sum(axis=1) for value, each in zip(values, along, strict=True)])


def _block_draws(X: Any, rows: Rows, objective: PairObjective, beta: Vector, draws: Matrix) -> Matrix:
    X, rows = _in_double(X), at_home(rows)
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
    """Return draws of a recalibrated fit to one label of each row, each at its own level."""
    X = _in_double(X)
    u, v = objective.logit_values(X, beta)[:2]
    u_noise, v_noise = (
        np.asarray(at.design.take(X) @ noise[:, at.place][:, :-1].T) + noise[:, at.place][:, -1]
        for at in objective.logits[:2]
    )
    at_level = recalibration.posterior_logits(recalibration.undone(u), v, priors)
    moved = softplus(v[:, None] + v_noise) - softplus(v)[:, None]
    drawn = np.asarray(expit(at_level + u_noise - moved))
    drawn[in_numpy(rows["s"]) == 1] = 1.0
    return drawn


def at_home(rows: Rows) -> Any:
    """Return the values of rows as numpy's, wherever they are."""
    return {name: np.asarray(in_numpy(values)) for name, values in rows.items()}


def _in_double(X: Any) -> Any:
    """Return a block of rows in float64, of numpy or sparse: single precision would be felt in intervals."""
    return (X if sparse.issparse(X) else in_numpy(X)).astype(np.float64, copy=False)


def with_ones(X: Any) -> Matrix:
    """Return a block of rows, dense, with a column of ones behind it."""
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    return np.column_stack([dense, np.ones(dense.shape[0])])
