"""The problem of two models: rows, what was observed of them, what each model sees, penalties, facts.

The one argument of every fit of a pair. One label of each row is the case of one look and nothing more; which of the
two it is, only the objective knows.
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
from scarless.pair.constraints import Fact
from scarless.pair.logistic import ridge_of
from scarless.pair.solving import Addition, PenalisedProblem, Pull

RATE_AT_START = 0.01  # of false positives, where a climb begins
# Of a negative that is labelled, and of one that is not: keeps an estimated rate off 0, and weighs as good as nothing.
PSEUDO_FALSE_LABEL_WEIGHT = 1e-4


class Audits(NamedTuple):
    """Imaginary positives at the mean of the propensity attributes, half of them labelled.

    Where labels hardly tell a label frequency of 1, or of next to nothing, from one between, the likelihood often has
    its top there; a few audits that nobody made settle it, as Laplace's rule of succession does for a share.
    """

    weight: float
    point: Vector  # mean of the propensity attributes, then 1

    def pull(self, before: int, after: int = 0) -> Pull:
        """Return the pull on a parameter vector that has others before and after the propensity's."""
        return Pull(self.weight, np.concatenate([np.zeros(before), self.point, np.zeros(after)]))


class Seen(NamedTuple):
    """What tells the class of rows beside one label each."""

    n_audited: float = 0.0  # audits that tell of a class: without false positives, of rows without a label
    looks: float = 1.0  # at a row, on average
    twice: bool = False  # whether any row was looked at more than once


class PairProblem(NamedTuple):
    """Rows with what was observed of them and weights ``w``; both models; the penalties; what is known."""

    engine: Engine
    totals: RowTotals
    objective: PairObjective  # minus the observed log-likelihood
    C: float = 1.0
    propensity_C: float = 1.0
    audits: Audits | None = None
    facts: tuple[Fact, ...] = ()
    seen: Seen = Seen()

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
        audits: Audits | None = None,
    ) -> "PairProblem":
        """Build the problem of one label for each row of an engine."""
        totals = row_totals(engine) if totals is None else totals
        return cls(engine, totals, LogisticPair(f, e), C, propensity_C, audits)

    @property
    def f(self) -> Design:
        """What the classifier sees."""
        return self.objective.f

    @property
    def e(self) -> Design:
        """What the first propensity model sees at its first look."""
        return self.objective.e

    @property
    def n_parameters(self) -> int:
        """Of all models together."""
        return self.objective.n_parameters

    @property
    def weight(self) -> float:
        """All rows together."""
        return float(self.totals.weight)

    @property
    def labelled_share(self) -> float:
        """Share of rows that have a label: without false positives no class prior is below it."""
        return self.totals.labelled_share

    @property
    def free(self) -> bool:
        """Whether some model has no penalty, so that its optimum may be at infinity."""
        return math.isinf(self.C) or math.isinf(self.propensity_C)

    @property
    def ridge(self) -> Vector:
        """The penalty's weight on the square of each parameter; rates of false positives have none."""
        designs, n_models = self.objective.designs, 1 + len(self.objective.models)
        penalties = [self.C, *[self.propensity_C] * (n_models - 1), *[math.inf] * (len(designs) - n_models)]
        return np.concatenate([ridge_of(design, C) for design, C in zip(designs, penalties, strict=True)])

    @property
    def pulls(self) -> tuple[Pull, ...]:
        """What pseudo-observations, and imaginary labels of negatives, add to the penalty."""
        n, n_models = self.n_parameters, 1 + len(self.objective.models)
        rates = tuple(
            Pull(PSEUDO_FALSE_LABEL_WEIGHT, np.eye(n)[place.start]) for place in self.objective.places[n_models:]
        )
        if self.audits is None:
            return rates
        places = self.objective.places[1:n_models]
        return (*(self.audits.pull(place.start, n - place.stop) for place in places), *rates)

    def penalised(self, facts: tuple[Fact, ...] | None = None) -> PenalisedProblem:
        """Return what a solver minimises; `facts` are those of the problem, as a climb has them at the moment."""
        additions: tuple[Addition, ...] = (*self.pulls, *(self.facts if facts is None else facts))
        return PenalisedProblem(self.engine, self.objective, self.ridge, additions)

    def sums(self, parameters: Vector) -> PairSums:
        """Return what fitted models say of all rows together, in one pass."""
        return self.engine.total(self.objective.totals, parameters)

    @property
    def swappable(self) -> bool:
        """Whether nothing but the paper's start says which of two models is the classifier.

        Both see the same attributes, no row has two looks, and none was checked. What is known of a share holds for
        either of them.
        """
        return not self.seen.twice and not self.seen.n_audited and see_the_same(self.f, self.e)

    @property
    def told_by_height(self) -> bool:
        """Whether the likelihood itself tells optima apart: there is more to go by than one label of each row."""
        return not isinstance(self.objective, LogisticPair)

    @property
    def class_prior_is_identified(self) -> bool:
        """Whether second looks, audits or facts tell how many rows are positive, and not only the form of models."""
        return self.told_by_height and (self.seen.twice or self.seen.n_audited > 0 or bool(self.facts))

    @property
    def mirrored(self) -> "PairProblem":
        """The problem with each model's penalty on the other."""
        return self._replace(C=self.propensity_C, propensity_C=self.C)

    def swapped(self, parameters: Vector) -> Vector:
        """Return parameters of models that see the same columns with each in the other's place."""
        first, second = self.objective.places[:2]
        return swap(parameters[first], parameters[second], self.f, self.e)

    @property
    def one_look(self) -> "PairProblem":
        """The problem as if each row had one look: whether any label was found."""
        if not self.told_by_height:
            return self
        return self._replace(objective=LogisticPair(self.f, self.e), facts=(), seen=Seen())

    def spread(self, parameters: Vector, *, rate: float = RATE_AT_START) -> Vector:
        """Return parameters for all looks from those of `one_look`; false positives begin at a rate."""
        if not self.told_by_height:
            return parameters
        objective, (beta_f, beta_e) = self.objective, self.one_look.objective.split(parameters)
        found = float(np.clip(expit(beta_e[-1]), 1e-6, 1.0 - 1e-6))
        once = -math.expm1(math.log1p(-found) / max(self.seen.looks, 1.0))
        beta_e = np.append(beta_e[:-1], logit(np.clip(once, 1e-6, 1.0 - 1e-6)))
        return np.concatenate([beta_f, *[beta_e] * len(objective.models), np.full(objective.n_rates, logit(rate))])

    def seeing(self, f: Design) -> "PairProblem":
        """Return the problem with a classifier that sees these columns."""
        return self.with_objective(changed(self.objective, f=f))

    def labelled_by(self, before: Columns, now: Columns) -> "PairProblem":
        """Return the problem whose propensities see other attributes of rows; what belongs to single looks stays."""
        if isinstance(self.objective, LogisticPair):
            return self.with_objective(changed(self.objective, e=Design.of(now)))
        models = tuple(
            tuple(Design.of(np.append(now, design.indices[before.size :]).astype(np.intp)) for design in model)
            for model in self.objective.models
        )
        return self.with_objective(changed(self.objective, models=models))

    def with_objective(self, objective: PairObjective) -> "PairProblem":
        """Return the problem with another likelihood of the same rows."""
        facts = tuple(replace(fact, objective=objective) for fact in self.facts)
        return self._replace(objective=objective, facts=facts)

    def with_audits(self, weight: float) -> "PairProblem":
        """Return the problem with that many pseudo-observations."""
        return self._replace(audits=add_pseudo_observations(self.engine, self.e, weight))

    def on(self, engine: Engine) -> "PairProblem":
        """Return the problem on other rows, with as many pseudo-observations at their mean."""
        other = self._moved(engine, row_totals(engine))
        return other if self.audits is None else other.with_audits(self.audits.weight)

    def _moved(self, engine: Engine, totals: RowTotals) -> "PairProblem":
        facts = tuple(replace(fact, engine=engine) for fact in self.facts)
        return self._replace(engine=engine, totals=totals, facts=facts)

    def thinned(self, n_rows: int) -> "PairProblem":
        """Return the problem on every so many-th row: about `n_rows` of them, and no fewer."""
        engine = self.engine.every(max(1, self.engine.n_rows // n_rows))
        return self._moved(engine, row_totals(engine))

    def part(self, n_rows: int, *, first: int = 0) -> "PairProblem":
        """Return the problem on about `n_rows` rows that weigh as much as all: penalties count as they do there.

        Parts with another `first` have other rows, as long as there are enough.
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
    """Return the likelihood of other models of the same rows."""
    made: Any = objective
    return replace(made, **fields)


def see_the_same(f: Design, e: Design) -> bool:
    """Whether two models see the same columns, so that they can be swapped."""
    return f.n_columns > 0 and np.array_equal(np.sort(f.indices), np.sort(e.indices))


def swap(beta_f: Vector, beta_e: Vector, f: Design, e: Design) -> Vector:
    """Return the parameters of two models that see the same columns with each model in the other's place."""
    of_f, of_e = np.argsort(f.indices), np.argsort(e.indices)
    coef_f, coef_e = np.empty(of_f.size), np.empty(of_e.size)
    coef_f[of_f], coef_e[of_e] = beta_e[:-1][of_e], beta_f[:-1][of_f]
    return np.concatenate([coef_f, beta_e[-1:], coef_e, beta_f[-1:]])


def add_pseudo_observations(engine: Engine, e: Design, weight: float, *, swappable: bool = False) -> Audits | None:
    """Return that many pseudo-observations for the rows of an engine; None for none.

    Models that can be swapped get none: where all positives are labelled, audits would have them change places.
    """
    if weight == 0 or swappable:
        return None
    (sums,) = engine.total(_block_sums, e)
    return Audits(weight, sums / sums[-1])


def what_is_seen(engine: Engine, objective: PairObjective) -> Seen:
    """Return what rows show of their class beside one label each: audits, and second looks.

    Without false positives the class of a labelled row is known, and its audit tells nothing. Nor do rows of weight 0.
    """
    audits, twice, weight, looks = engine.total(_block_seen, objective.false_positives is None)
    return Seen(float(audits), float(looks) / float(weight), float(twice) > 0)


def _weighted(X: Any, rows: Rows, times: float) -> dict[str, Any]:
    return {"w": rows["w"] * times}


def _block_sums(X: Any, rows: Any, design: Design) -> tuple[Vector]:
    return (transposed_product(design.take(X), rows["w"]),)


def _block_seen(X: Any, rows: Rows, sure: bool) -> tuple[Any, ...]:
    w, looks = rows["w"], np.sum(rows["looks"], axis=1, dtype=np.float64)
    audited = (w > 0) & (rows["audit"] >= 0)
    if sure:
        audited = audited & (np.sum(rows["labels"], axis=1) == 0)
    twice = (w > 0) & (looks > 1)
    counts = (np.count_nonzero(each) * 1.0 for each in (audited, twice))
    return tuple(np.asarray(each) for each in (*counts, w.sum(), w @ looks))
