"""A fitted pair: what a fit leaves behind, and all that it answers about rows.

The class's logit may be linear in the columns of the table, or come from models of the user's that were fitted in
folds, or from a stack of those. Each gives a table of its own for any rows (the class's logit first, then what the
propensities see), and one likelihood reads that table. So probability, propensity, posterior, likelihood and
intervals are computed here, once, and estimators hold a fitted pair and ask it.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from scarless.checks.looks import Codes, counts_of
from scarless.engines import Engine, Rows, open_rows
from scarless.numerics import linear
from scarless.numerics.arrays import Array, Columns, Integers, Matrix, Vector, in_float64
from scarless.numerics.likelihood import sigmoid
from scarless.numerics.looks_objective import detection_curve
from scarless.numerics.objectives import PairObjective
from scarless.numerics.order import exact_keys
from scarless.numerics.recalibrated import columns_of_propensities, moved_to_logits
from scarless.numerics.uncertainty import Interval
from scarless.pair.crossed import dense, numeric_columns
from scarless.pair.groups import clustered, variance_ratio, widened, widened_recalibration
from scarless.pair.inference import PairInference
from scarless.pair.recalibrated import ClassPriorGrid, Recalibration, draw_class_priors, grid_interval
from scarless.pair.stack import Member, draw_posteriors, mean_logits, row_intervals


class NoOutOfFoldLogits(ValueError):
    """There are no logits of rows by models that have not seen their labels."""


class NoRowIntervals(ValueError):
    """A fit does not know how far its answers about single rows may be off."""


class StandardErrors(NamedTuple):
    """Standard errors in the shapes of what they belong to; NaN for columns that a model does not see."""

    coef: Vector
    intercept: Vector
    propensity_coef: Vector
    propensity_intercept: Vector
    class_prior: float
    label_frequency: float
    visit_coef: Vector | None = None  # of fits to several looks
    false_positive_rate: Any = None  # where it is estimated


class LookModels(NamedTuple):
    """What a fit remembers of looks, audits and facts: more than one label of each row."""

    n_looks: int
    names: tuple[str, ...]
    kinds: NDArray[np.intp]  # of each look
    visits: dict[str, NDArray[np.intp]]  # the columns of each visit attribute, one for each look
    objective: PairObjective
    n_audited: int

    @property
    def taken(self) -> NDArray[np.intp]:
        """The columns that belong to single looks."""
        return np.concatenate([np.arange(0), *self.visits.values(), self.objective.offsets or ()]).astype(np.intp)

    @property
    def plain(self) -> bool:
        """Whether labels mean what one label of each row does: one look, and none of a negative."""
        usual = self.objective.offsets is None and self.objective.bounds is None and not self.visits
        return usual and self.n_looks == 1 and self.objective.false_positives is None

    @property
    def told(self) -> str:
        """What the fit had to go by beside one label of each row, in words."""
        parts = [f"{self.n_looks} looks"] if self.n_looks > 1 else []
        parts += ["visit_attributes"] if self.visits else []
        parts += ["an offset"] if self.objective.offsets is not None else []
        parts += ["bounds"] if self.objective.bounds is not None else []
        parts += ["false positives"] if self.objective.false_positives is not None else []
        parts += [f"{self.n_audited} audits"] if self.n_audited else []
        return " and ".join(parts) if parts else "facts from elsewhere, or looks that did not take place"

    def counts(self, labels: Codes) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Return how many labels, and how many looks, each row has of each kind."""
        return counts_of(labels, self.objective.n_kinds)


class Source(Protocol):
    """Where a pair's logits come from, if they are not linear in the columns of the table."""

    def table(self, X: Any) -> Matrix:
        """Return what the likelihood reads of checked rows: the class's logit first."""
        ...

    def members(self, table: Matrix) -> list[tuple[Vector, Recalibration]]:
        """Return the logits of each classifier, not recalibrated, and how it was recalibrated; none where none was."""
        ...

    def held_out(self) -> Vector | None:
        """Return the class's logits of the rows of the fit, by models that have not seen their labels."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedPair:
    """A class model and a propensity model, with all that the fit knows of them. Holds no rows."""

    objective: PairObjective  # of the table that `rows` gives
    parameters: Vector
    e_columns: Columns  # the attributes of rows that the propensity sees
    weight: float  # of all rows
    labelled: float  # of the rows with a label
    looks: LookModels | None = None  # None: one label of each row and nothing more
    source: Source | None = None  # None: both models are linear in the columns of the table
    inference: PairInference | None = None  # of two logistic models
    recalibration: Recalibration | None = None
    grids: tuple[ClassPriorGrid, ...] = ()  # of recalibrated fits: how likely each class prior is
    judged: float = 0.0  # weight of the rows that some fold held out
    digest: int = 0  # of the rows of a fit in folds
    n_groups: int = 0  # of rows that belong together, where the fit was told
    shares: PairInference | None = None  # of class prior and label frequency alone

    def rows(self, checked: Any) -> Engine:
        """Return the rows that the likelihood reads: an engine's own, or those that the models make of a table."""
        return checked if self.source is None else open_rows(self.source.table(checked))

    def probability(self, rows: Engine) -> Vector:
        """Return the probability of the class of each row."""
        return np.asarray(rows.collect(_block_class, self.objective, self.parameters))

    def propensity(self, rows: Engine, kind: int = 0) -> Vector:
        """Return the propensity of each row at a kind of look."""
        return np.asarray(rows.collect(_block_propensity, self.objective, self.parameters, kind))

    def posterior(self, rows: Engine) -> Vector:
        """Return the probability of the class of each row, given all that was observed of it."""
        return np.asarray(rows.collect(_block_posterior, self.objective, self.parameters))

    def log_likelihood(self, rows: Engine) -> Vector:
        """Return the log-likelihood of what was observed of each row."""
        return np.asarray(rows.collect(_block_log_likelihood, self.objective, self.parameters))

    def chances(self, rows: Engine) -> tuple[Vector, Vector]:
        """Return the probability of the class of each row, and that of any label if it is positive."""
        f, d = np.asarray(rows.collect(_block_chances, self.objective, self.parameters)).T
        return f, d

    def detection(self, rows: Engine, order: Integers) -> Vector:
        """Return the share of positives that have a label after the first of some kinds of looks, the second, ..."""
        found, positives = rows.total(detection_curve, self.objective, self.parameters, order)
        return np.asarray(found / float(positives))

    def share_interval(self, share: str, level: float, kind: str) -> Interval:
        """Return an interval of the "class_prior" or the "label_frequency", by "grid" or by the "model"."""
        if kind == "grid":
            return grid_interval(self.grids, share, level)
        inference = self.inference if self.shares is None else self.shares
        assert inference is not None
        if share == "class_prior":
            return inference.class_prior_interval(level)
        return inference.interval_of(inference.label_frequency, level)

    def row_intervals(self, rows: Engine, level: float, *, of: str, kind: int = 0) -> Matrix:
        """Return the ends of each row's interval for the "class", the "propensity", or the "posterior"."""
        if self.inference is not None:
            return self.inference.row_intervals(rows, level, of=of, kind=kind, recalibration=self.recalibration)
        members = self._members(rows)
        if not members or of == "propensity" or (of == "posterior" and self.looks is not None):
            raise NoRowIntervals
        u, recalibrations = zip(*members, strict=True)
        if of == "class":
            return row_intervals(list(u), list(recalibrations), level)
        ends = row_intervals(list(u), list(recalibrations), level, v=self._propensity_logits(rows))
        ends[rows.collect(_labelled) == 1] = 1.0
        return ends

    def draw_posteriors(self, rows: Engine, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Draw each row's chance to be positive, given all that was observed of it, from what the rows leave possible.

        A line for each row. Where classifiers of any kind were recalibrated, the noise of their directions is not in it.
        """
        priors = draw_class_priors(self.grids, n_draws, rng) if self.grids else None
        if self.inference is not None:
            return self.inference.draw_posteriors(rows, n_draws, rng, self.recalibration, priors)
        members = self._members(rows)
        if not members or priors is None or self.looks is not None:
            raise NoRowIntervals
        u, recalibrations = zip(*members, strict=True)
        drawn = draw_posteriors(list(u), list(recalibrations), self._propensity_logits(rows), priors, rng)
        drawn[rows.collect(_labelled) == 1] = 1.0
        return drawn

    def out_of_fold_logits(self, rows: Engine, X: Any, s: Vector) -> tuple[Vector, Vector]:
        """Return the logits of class and propensity of the rows of the fit, as models without each row have them.

        Of two logistic models to first order, from rows with labels and weights; else by the folds of the fit, whose
        rows `X` with labels `s` are compared with these.
        """
        if self.looks is not None:
            raise NoOutOfFoldLogits(
                "out_of_fold_logits is for fits to one label of each row, without audits and facts."
            )
        if self.inference is not None:
            u, v = self.inference.out_of_fold_logits(rows).T
            return u, v
        held = None if self.source is None else self.source.held_out()
        if held is None:
            raise NoOutOfFoldLogits(
                "out_of_fold_logits is for two logistic models, and for models that were fitted in folds."
            )
        if held.size != s.size or self.digest != digest_of(X, s):
            raise NoOutOfFoldLogits(
                f"X has {s.size} rows, and the fit has held-out logits of {held.size} rows of its own: give the rows "
                "of the fit with their labels, in their order."
            )
        return held, self._propensity_logits(rows)

    def with_groups(self, groups: Integers, rows: Engine) -> "FittedPair":
        """Return the pair of two logistic models with intervals that count the groups of the rows of the fit."""
        if self.inference is None:
            return self
        by_groups = clustered(self.inference, rows, groups)
        grown = variance_ratio(self.inference, by_groups) if self.grids else 1.0
        found = replace(self, inference=by_groups, n_groups=int(groups.max()) + 1)
        if not self.grids or self.recalibration is None:
            return found
        return replace(
            found, grids=widened(self.grids, grown), recalibration=widened_recalibration(self.recalibration, grown)
        )

    def standard_errors(self, n_columns: int) -> StandardErrors:
        """Return the standard errors of all that two logistic models estimate, for a table of so many columns."""
        inference = self.inference
        assert inference is not None
        errors, objective = inference.parameter_errors(), inference.objective
        of_f, *of_e = (errors[place] for place in objective.places[: 1 + len(objective.models)])
        coef = np.full((1, n_columns), np.nan)
        coef[0, objective.f.columns] = of_f[:-1]
        propensity = np.full((len(of_e), n_columns), np.nan)
        for line, own in zip(propensity, of_e, strict=True):
            line[self.e_columns] = own[: self.e_columns.size]
        return StandardErrors(
            coef,
            of_f[-1:],
            propensity,
            np.array([own[-1] for own in of_e]),
            class_prior=inference.error_of(inference.class_prior),
            label_frequency=inference.error_of(inference.label_frequency),
            visit_coef=None if self.looks is None else np.array([own[self.e_columns.size : -1] for own in of_e]),
            false_positive_rate=_rate_errors(inference, errors),
        )

    def rate_intervals(self, level: float) -> list[tuple[float, Interval]]:
        """Return the rates of false positives that two logistic models estimate, each with its interval."""
        inference = self.inference
        assert inference is not None
        errors, z = inference.parameter_errors(), inference.quantile(level)
        found = []
        for place in inference.objective.places[1 + len(inference.objective.models) :]:
            centre, error = float(inference.parameters[place.start]), float(errors[place.start])
            low, high = expit([centre - z * error, centre + z * error])
            found.append((float(expit(centre)), Interval(float(low), float(high))))
        return found

    def _members(self, rows: Engine) -> list[tuple[Vector, Recalibration]]:
        return [] if self.source is None else self.source.members(np.asarray(rows.collect(_table)))

    def _propensity_logits(self, rows: Engine) -> Vector:
        return np.asarray(rows.collect(_block_logits, self.objective, self.parameters))[:, 1]


def digest_of(X: Any, s: Vector) -> int:
    """Return a number that rows with their labels have in common with the same rows in the same order."""
    labels = np.ascontiguousarray(s, dtype=np.float64)
    return zlib.crc32(exact_keys(X).tobytes(), zlib.crc32(labels.tobytes()))


def _rate_errors(inference: PairInference, errors: Vector) -> Any:
    """Return the standard errors of rates that were estimated; None where none was."""
    objective = inference.objective
    places = objective.places[1 + len(objective.models) :]
    if not places:
        return None
    rates = expit([inference.parameters[place.start] for place in places])
    found = np.array([errors[place.start] for place in places]) * rates * (1.0 - rates)
    return float(found[0]) if found.size == 1 else found


def _block_class(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Array:
    of_f = objective.logits[0]
    return sigmoid(linear.logits(of_f.design.take(in_double(X)), beta[of_f.place]))


def _block_propensity(X: Any, rows: Rows, objective: PairObjective, beta: Vector, kind: int) -> Array:
    return objective.propensity(objective.logit_values(in_double(X), beta)[1 + kind])


def _block_posterior(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Array:
    return objective.row_posterior(in_double(X), rows, beta)


def _block_log_likelihood(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Array:
    return objective.row_log_likelihood(in_double(X), rows, beta)


def _block_chances(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Matrix:
    return np.stack(objective.row_answers(in_double(X), rows, beta)[1:], axis=1)


def _block_logits(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Matrix:
    return np.stack([np.asarray(each) for each in objective.logit_values(in_double(X), beta)], axis=1)


def _table(X: Any, rows: Rows) -> Matrix:
    return np.asarray(X)


def _labelled(X: Any, rows: Rows) -> Vector:
    return np.asarray(rows["s"])


def in_double(X: Any) -> Any:
    """Return a block in float64: coefficients of a fit may be beyond float32, or need more digits."""
    return X.astype(np.float64, copy=False) if sparse.issparse(X) else in_float64(X)


@dataclass(frozen=True)
class StackSource:
    """The mean of a stack's members; what its propensities see; and behind that the members' own logits."""

    stacked: tuple[Member, ...]
    recalibration: Recalibration  # of the mean
    e_columns: Columns  # what propensities see
    objective: PairObjective  # of the table
    parameters: Vector

    @classmethod
    def of(cls, stacked: Sequence[Member], recalibration: Recalibration, template: PairObjective) -> "StackSource":
        """Build it for propensities as in a likelihood of the table's own columns."""
        columns = columns_of_propensities(template)
        objective, parameters = recalibration.on_table_of_logits(moved_to_logits(template, columns, 0))
        return cls(tuple(stacked), recalibration, columns, objective, parameters)

    def table(self, X: Any) -> Matrix:
        """Return the class's logit before it is recalibrated, then what propensities see, then each member's logit."""
        logits = [member.logits(X) for member in self.stacked]
        seen = dense(numeric_columns(X, self.e_columns))
        return np.column_stack([mean_logits(self.stacked, logits), seen, *logits])

    def members(self, table: Matrix) -> list[tuple[Vector, Recalibration]]:
        """Return the logits of each member that counts, and of all together."""
        logits = table[:, 1 + self.e_columns.size :].T
        parts = [(u, each.recalibration) for u, each in zip(logits, self.stacked, strict=True) if each.weight]
        return [*parts, (table[:, 0], self.recalibration)]

    def held_out(self) -> Vector:
        """Return the class's logits of the rows of the fit, recalibrated."""
        return self.recalibration(mean_logits(self.stacked))
