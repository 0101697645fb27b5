"""The problem of two models: rows, what each model sees, penalties. The one argument of every fit of a pair."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.rows import RowTotals, row_totals
from scarless.engines import Engine, Rows
from scarless.engines.problem import PenalisedProblem, Pull
from scarless.numerics.arrays import Vector
from scarless.numerics.linear import Design, transposed_product
from scarless.numerics.objectives import LogisticPair
from scarless.numerics.uncertainty import PairSums
from scarless.pair.logistic import ridge_of


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


class PairProblem(NamedTuple):
    """The rows, with labels ``s`` and weights ``w``; the columns that each model sees; the penalties."""

    engine: Engine
    totals: RowTotals
    f: Design
    e: Design
    C: float = 1.0
    propensity_C: float = 1.0
    audits: Audits | None = None

    @classmethod
    def of(cls, engine: Engine, f: Design, e: Design, C: float = 1.0, propensity_C: float = 1.0) -> "PairProblem":
        """Build a problem on the rows of an engine."""
        return cls(engine, row_totals(engine), f, e, C, propensity_C)

    @property
    def n_parameters(self) -> int:
        """Of both models together."""
        return self.f.n_parameters + self.e.n_parameters

    @property
    def weight(self) -> float:
        """All rows together."""
        return float(self.totals.weight)

    @property
    def labelled_share(self) -> float:
        """Share of rows that are labelled: no class prior is below it."""
        return self.totals.labelled_share

    @property
    def objective(self) -> LogisticPair:
        """Minus the observed log-likelihood."""
        return LogisticPair(self.f, self.e)

    @property
    def ridge(self) -> Vector:
        """The penalty's weight on the square of each parameter."""
        return np.concatenate([ridge_of(self.f, self.C), ridge_of(self.e, self.propensity_C)])

    @property
    def pulls(self) -> tuple[Pull, ...]:
        """What imaginary audits add to the penalty."""
        return () if self.audits is None else (self.audits.pull(self.f.n_parameters),)

    @property
    def penalised(self) -> PenalisedProblem:
        """What a solver minimises."""
        return PenalisedProblem(self.engine, self.objective, self.ridge, self.pulls)

    def sums(self, beta_f: Vector, beta_e: Vector) -> PairSums:
        """Return what fitted models say of all rows together, in one pass."""
        return self.engine.total(self.objective.totals, np.concatenate([beta_f, beta_e]))

    @property
    def exchangeable(self) -> bool:
        """Whether both models see the same attributes."""
        return see_the_same(self.f, self.e)

    @property
    def mirrored(self) -> "PairProblem":
        """The problem with each model's penalty on the other."""
        return self._replace(C=self.propensity_C, propensity_C=self.C)

    def exchanged(self, parameters: Vector) -> Vector:
        """Return parameters of models that see the same columns with each in the other's place."""
        return exchange(*self.objective.split(parameters), self.f, self.e)

    def with_audits(self, weight: float) -> "PairProblem":
        """Return the problem with that many imaginary audits."""
        return self._replace(audits=imagine_audits(self.engine, self.e, weight))

    def on(self, engine: Engine) -> "PairProblem":
        """Return the problem on other rows, with as many imaginary audits at their mean."""
        other = self._replace(engine=engine, totals=row_totals(engine))
        return other if self.audits is None else other.with_audits(self.audits.weight)

    def thinned(self, n_rows: int) -> "PairProblem":
        """Return the problem on every so many-th row: about `n_rows` of them, and no fewer."""
        return self._every(max(1, self.engine.n_rows // n_rows))

    def part(self, n_rows: int, *, first: int = 0) -> "PairProblem":
        """Return the problem on about `n_rows` rows that weigh as much as all: penalties count as they do there.

        Parts with another `first` have other rows, as long as there are enough.
        """
        step = max(1, self.engine.n_rows // n_rows)
        part = self._every(step, first % step)
        if not part.weight > 0:
            return self
        times = self.weight / part.weight
        return part._replace(
            engine=part.engine.derive(_weighted, times),
            totals=RowTotals(part.totals.n_rows, *(each * times for each in part.totals[1:])),
        )

    def _every(self, step: int, first: int = 0) -> "PairProblem":
        engine = self.engine.every(step, first)
        return self._replace(engine=engine, totals=row_totals(engine))


def _weighted(X: Any, rows: Rows, times: float) -> dict[str, Any]:
    return {"w": rows["w"] * times}


def see_the_same(f: Design, e: Design) -> bool:
    """Whether two models see the same columns, so that they can be exchanged."""
    return f.n_columns > 0 and np.array_equal(np.sort(f.indices), np.sort(e.indices))


def exchange(beta_f: Vector, beta_e: Vector, f: Design, e: Design) -> Vector:
    """Return the parameters of two models that see the same columns with each model in the other's place."""
    of_f, of_e = np.argsort(f.indices), np.argsort(e.indices)
    coef_f, coef_e = np.empty(of_f.size), np.empty(of_e.size)
    coef_f[of_f], coef_e[of_e] = beta_e[:-1][of_e], beta_f[:-1][of_f]
    return np.concatenate([coef_f, beta_e[-1:], coef_e, beta_f[-1:]])


def imagine_audits(engine: Engine, e: Design, weight: float, *, exchangeable: bool = False) -> Audits | None:
    """Return that many imaginary audits for the rows of an engine; None for none.

    Models that can be exchanged get none: where all positives are labelled, audits would have them change places.
    """
    if weight == 0 or exchangeable:
        return None
    (sums,) = engine.total(_block_sums, e)
    return Audits(weight, sums / sums[-1])


def _block_sums(X: Any, rows: Any, design: Design) -> tuple[Vector]:
    return (transposed_product(design.take(X), rows["w"]),)
