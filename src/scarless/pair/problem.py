"""The definition of a fit of two models: rows, likelihood, columns of each model, penalties and constraints.

Every function that fits a pair accepts a `PairProblem`. Fits to one label for each row and fits to several looks differ
only in the `objective` of the problem.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from scarless.checks.rows import RowTotals, row_totals
from scarless.engines import Engine, Rows
from scarless.numerics.arrays import Columns, Vector
from scarless.numerics.linear import Design, transposed_product
from scarless.numerics.objectives import LogisticPair, PairObjective
from scarless.numerics.uncertainty import PairSums
from scarless.pair.constraints import Constraint
from scarless.pair.logistic import ridge_of
from scarless.pair.solving import Addition, PenalisedProblem, Pull

RATE_AT_START = 0.01  # false positive rate at the start of a fit
# Total weight of a labelled and an unlabelled negative that are added to the likelihood for each estimated false
# positive rate. They keep the rate away from 0 and hardly change the fit.
PSEUDO_FALSE_LABEL_WEIGHT = 1e-4


class PseudoPositives(NamedTuple):
    """Pseudo-observations: positives at the mean of the propensity attributes, half of them labelled.

    They keep the label frequency away from 0 and 1; see `PseudoObservations`.
    """

    weight: float
    point: Vector  # mean of the propensity attributes, then 1

    def pull(self, before: int, after: int = 0) -> Pull:
        """Return the penalty of all parameters.

        `before` and `after` are the numbers of parameters before and after the parameters of the propensity.
        """
        return Pull(self.weight, np.concatenate([np.zeros(before), self.point, np.zeros(after)]))


class ObservationSummary(NamedTuple):
    """Summary of audits and looks."""

    n_audited: float = 0.0  # informative audits: without false positives, only audits of unlabelled rows
    mean_looks: float = 1.0  # mean number of looks of a row
    has_second_looks: bool = False  # whether any row had more than one look


class PairProblem(NamedTuple):
    """A fit to be made: rows with observations and weights ``w``, likelihood of both models, penalties, constraints."""

    engine: Engine
    totals: RowTotals
    objective: PairObjective  # minus the observed log-likelihood
    C: float = 1.0
    propensity_C: float = 1.0
    pseudo_observations: PseudoPositives | None = None
    constraints: tuple[Constraint, ...] = ()
    observations: ObservationSummary = ObservationSummary()

    @classmethod
    def of(
        cls,
        engine: Engine,
        f: Design,
        e: Design,
        C: float = 1.0,
        propensity_C: float = 1.0,
        *,
        totals: RowTotals | None = None,
        pseudo_observations: PseudoPositives | None = None,
    ) -> "PairProblem":
        """Return the problem with one label for each row."""
        totals = row_totals(engine) if totals is None else totals
        return cls(engine, totals, LogisticPair(f, e), C, propensity_C, pseudo_observations)

    @property
    def f(self) -> Design:
        """Columns of the classifier."""
        return self.objective.f

    @property
    def e(self) -> Design:
        """Columns of the first propensity model at its first look."""
        return self.objective.e

    @property
    def n_parameters(self) -> int:
        """Number of parameters of all models together."""
        return self.objective.n_parameters

    @property
    def weight(self) -> float:
        """Sum of the weights of all rows."""
        return float(self.totals.weight)

    @property
    def labelled_share(self) -> float:
        """Share of rows with a label. Without false positives, the class prior is at least as high."""
        return self.totals.labelled_share

    @property
    def is_unpenalised(self) -> bool:
        """Whether some model has no penalty, so that the optimum may be at infinity."""
        return math.isinf(self.C) or math.isinf(self.propensity_C)

    @property
    def ridge(self) -> Vector:
        """Ridge penalty of each parameter; false positive rates have none."""
        designs, n_models = self.objective.designs, 1 + len(self.objective.models)
        penalties = [self.C, *[self.propensity_C] * (n_models - 1), *[math.inf] * (len(designs) - n_models)]
        return np.concatenate([ridge_of(design, C) for design, C in zip(designs, penalties, strict=True)])

    @property
    def pulls(self) -> tuple[Pull, ...]:
        """Penalties from pseudo-observations: of positives, and for false positive rates."""
        n, n_models = self.n_parameters, 1 + len(self.objective.models)
        rates = tuple(
            Pull(PSEUDO_FALSE_LABEL_WEIGHT, np.eye(n)[place.start]) for place in self.objective.places[n_models:]
        )
        if self.pseudo_observations is None:
            return rates
        places = self.objective.places[1:n_models]
        return (*(self.pseudo_observations.pull(place.start, n - place.stop) for place in places), *rates)

    def penalised(self, constraints: tuple[Constraint, ...] | None = None) -> PenalisedProblem:
        """Return the function that a solver minimises. If given, `constraints` replace those of the problem."""
        additions: tuple[Addition, ...] = (*self.pulls, *(self.constraints if constraints is None else constraints))
        return PenalisedProblem(self.engine, self.objective, self.ridge, additions)

    def sums(self, parameters: Vector) -> PairSums:
        """Return the sums of the fitted models over all rows, in one pass."""
        return self.engine.total(self.objective.totals, parameters)

    @property
    def swappable(self) -> bool:
        """Whether only the paper's start determines which of the two models is the classifier.

        True if both models use the same columns, no row has a second look, and there are no informative audits. A known
        share makes no difference, because either of the two models can satisfy it.
        """
        return (
            not self.observations.has_second_looks and not self.observations.n_audited and same_columns(self.f, self.e)
        )

    @property
    def has_extra_information(self) -> bool:
        """Whether there is more information than one label for each row. The highest optimum is then chosen.

        Such information is several looks, audits, constraints, offsets, bounds or false positives.
        """
        return not isinstance(self.objective, LogisticPair)

    @property
    def class_prior_is_identified(self) -> bool:
        """Whether second looks, audits or constraints identify the class prior. Otherwise only the form does."""
        return self.has_extra_information and (
            self.observations.has_second_looks or self.observations.n_audited > 0 or bool(self.constraints)
        )

    @property
    def with_swapped_penalties(self) -> "PairProblem":
        """The problem with the penalties of the two models swapped."""
        return self._replace(C=self.propensity_C, propensity_C=self.C)

    def swapped(self, parameters: Vector) -> Vector:
        """Return the parameters after the two models, which must use the same columns, are swapped."""
        first, second = self.objective.places[:2]
        return swap(parameters[first], parameters[second], self.f, self.e)

    @property
    def one_look(self) -> "PairProblem":
        """The problem in which all looks of a row count as one look, which labels the row if any of them did."""
        if not self.has_extra_information:
            return self
        return self._replace(objective=LogisticPair(self.f, self.e), constraints=(), observations=ObservationSummary())

    def to_all_looks(self, parameters: Vector, *, rate: float = RATE_AT_START) -> Vector:
        """Convert parameters of `one_look` to parameters of all looks, with the given false positive rate."""
        if not self.has_extra_information:
            return parameters
        objective, (beta_f, beta_e) = self.objective, self.one_look.objective.split(parameters)
        found = float(np.clip(expit(beta_e[-1]), 1e-6, 1.0 - 1e-6))
        once = -math.expm1(math.log1p(-found) / max(self.observations.mean_looks, 1.0))
        beta_e = np.append(beta_e[:-1], logit(np.clip(once, 1e-6, 1.0 - 1e-6)))
        return np.concatenate([beta_f, *[beta_e] * len(objective.models), np.full(objective.n_rates, logit(rate))])

    def with_class_design(self, f: Design) -> "PairProblem":
        """Return the problem with other columns of the classifier."""
        return self.with_objective(changed(self.objective, f=f))

    def with_propensity_columns(self, before: Columns, now: Columns) -> "PairProblem":
        """Return the problem with other propensity attributes; visit attributes stay."""
        if isinstance(self.objective, LogisticPair):
            return self.with_objective(changed(self.objective, e=Design.of(now)))
        models = tuple(
            tuple(Design.of(np.append(now, design.indices[before.size :]).astype(np.intp)) for design in model)
            for model in self.objective.models
        )
        return self.with_objective(changed(self.objective, models=models))

    def with_objective(self, objective: PairObjective) -> "PairProblem":
        """Return the problem with another likelihood of the same rows."""
        constraints = tuple(replace(constraint, objective=objective) for constraint in self.constraints)
        return self._replace(objective=objective, constraints=constraints)

    def with_pseudo_observations(self, weight: float) -> "PairProblem":
        """Return the problem with pseudo-observations of this weight."""
        return self._replace(pseudo_observations=add_pseudo_observations(self.engine, self.e, weight))

    def on(self, engine: Engine) -> "PairProblem":
        """Return the problem on other rows. Pseudo-observations move to the mean of these rows."""
        other = self._moved(engine, row_totals(engine))
        return (
            other
            if self.pseudo_observations is None
            else other.with_pseudo_observations(self.pseudo_observations.weight)
        )

    def _moved(self, engine: Engine, totals: RowTotals) -> "PairProblem":
        constraints = tuple(replace(constraint, engine=engine) for constraint in self.constraints)
        return self._replace(engine=engine, totals=totals, constraints=constraints)

    def thinned(self, n_rows: int) -> "PairProblem":
        """Return the problem on every k-th row, or on all rows of a small table.

        The result has at least `n_rows` rows, if the table has that many, and fewer than twice `n_rows`.
        """
        engine = self.engine.every(max(1, self.engine.n_rows // n_rows))
        return self._moved(engine, row_totals(engine))

    def part(self, n_rows: int, *, first: int = 0) -> "PairProblem":
        """Return the problem on at least `n_rows` rows, with weights scaled up to the total weight of all rows.

        The penalties then have the same strength, relative to the likelihood, as for all rows. Parts with different
        `first` have different rows if the table has at least twice `n_rows` rows.
        """
        step = max(1, self.engine.n_rows // n_rows)
        engine = self.engine.every(step, first % step)
        totals = row_totals(engine)
        if not float(totals.weight) > 0:
            return self
        times = self.weight / float(totals.weight)
        return self._moved(
            engine.derive(_weighted, times), RowTotals(totals.n_rows, *(each * times for each in totals[1:]))
        )


def changed(objective: PairObjective, **fields: Any) -> PairObjective:
    """Return the likelihood with other fields."""
    made: Any = objective
    return replace(made, **fields)


def same_columns(f: Design, e: Design) -> bool:
    """Whether two models use the same columns, so that they can be swapped."""
    return f.n_columns > 0 and np.array_equal(np.sort(f.indices), np.sort(e.indices))


def swap(beta_f: Vector, beta_e: Vector, f: Design, e: Design) -> Vector:
    """Return the parameters after two models, which must use the same columns, are swapped."""
    of_f, of_e = np.argsort(f.indices), np.argsort(e.indices)
    coef_f, coef_e = np.empty(of_f.size), np.empty(of_e.size)
    coef_f[of_f], coef_e[of_e] = beta_e[:-1][of_e], beta_f[:-1][of_f]
    return np.concatenate([coef_f, beta_e[-1:], coef_e, beta_f[-1:]])


def add_pseudo_observations(
    engine: Engine, e: Design, weight: float, *, swappable: bool = False
) -> PseudoPositives | None:
    """Return pseudo-observations of this weight at the mean of the rows; None for a weight of 0.

    The result is also None for swappable models: if all positives are labelled, pseudo-observations would swap the two
    models.
    """
    if weight == 0 or swappable:
        return None
    (sums,) = engine.total(_block_sums, e)
    return PseudoPositives(weight, sums / sums[-1])


def summarise_observations(engine: Engine, objective: PairObjective) -> ObservationSummary:
    """Return the number of informative audits, the mean number of looks, and whether any row has a second look.

    Without false positives, audits of labelled rows are not informative. Rows of weight 0 do not count.
    """
    audits, twice, weight, looks = engine.total(_block_seen, objective.false_positives is None)
    return ObservationSummary(float(audits), float(looks) / float(weight), float(twice) > 0)


def _weighted(X: Any, rows: Rows, times: float) -> dict[str, Any]:
    return {"w": rows["w"] * times}


def _block_sums(X: Any, rows: Any, design: Design) -> tuple[Vector]:
    return (transposed_product(design.take(X), rows["w"]),)


def _block_seen(X: Any, rows: Rows, labelled_are_positive: bool) -> tuple[Any, ...]:
    w, looks = rows["w"], np.sum(rows["looks"], axis=1, dtype=np.float64)
    audited = (w > 0) & (rows["audit"] >= 0)
    if labelled_are_positive:
        audited = audited & (np.sum(rows["labels"], axis=1) == 0)
    twice = (w > 0) & (looks > 1)
    counts = (np.count_nonzero(each) * 1.0 for each in (audited, twice))
    return tuple(np.asarray(each) for each in (*counts, w.sum(), w @ looks))
