"""The fitted pair: the result of a fit, with all predictions for rows.

The class logit is linear in the columns, or comes from the user's cross-fitted classifier, or from a stack of
classifiers. For the user's classifier and for a stack, rows are first converted to a table of the class logit and the
columns of the propensities. The class logit is linear in this table, so all fits use the same code for probabilities,
propensities, posteriors, likelihoods and intervals. Each fitted estimator stores a fitted pair.
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
from scarless.numerics.arrays import Array, Columns, Integers, Mask, Matrix, Vector, in_float64, in_numpy
from scarless.numerics.likelihood import sigmoid
from scarless.numerics.looks_objective import detection_curve
from scarless.numerics.objectives import PairObjective
from scarless.numerics.order import exact_keys
from scarless.numerics.recalibrated import columns_of_propensities, moved_to_logits
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import listed
from scarless.pair.crossed import dense, numeric_columns
from scarless.pair.groups import clustered, variance_ratio, widened, widened_recalibration
from scarless.pair.heterogeneity import SpreadFit
from scarless.pair.heterogeneity import share_interval as spread_interval
from scarless.pair.inference import PairInference, rows_in_numpy
from scarless.pair.recalibrated import ClassPriorGrid, Recalibration, draw_class_priors, grid_interval
from scarless.pair.stack import Member, draw_posteriors, mean_logits, row_intervals


class NoOutOfFoldLogits(ValueError):
    """Error: a fit has no out-of-fold logits for the given rows."""


_ROWS_PER_DRAW = 2048  # rows whose draws are in memory at a time


class NoRowIntervals(ValueError):
    """Error: a fit has no intervals for single rows."""


class StandardErrors(NamedTuple):
    """Standard errors; each array has the shape of its estimate. They are NaN for columns that a model does not use."""

    coef: Vector
    intercept: Vector
    propensity_coef: Vector
    propensity_intercept: Vector
    class_prior: float
    label_frequency: float
    visit_coef: Vector | None = None  # of visit attributes
    false_positive_rate: Any = None  # None if the rate was not estimated


class LookModels(NamedTuple):
    """Looks, visit attributes, audits and likelihood of a fit with more information than one label for each row."""

    n_looks: int
    names: tuple[str, ...]
    kinds: NDArray[np.intp]  # kind of each look: looks of one kind share a propensity
    visits: dict[str, NDArray[np.intp]]  # columns of each visit attribute, one for each look
    objective: PairObjective
    n_audited: int

    @property
    def taken(self) -> NDArray[np.intp]:
        """Columns of visit attributes and offsets."""
        return np.concatenate([np.arange(0), *self.visits.values(), self.objective.offsets or ()]).astype(np.intp)

    @property
    def plain(self) -> bool:
        """Whether there is one look without false positives, offset, bounds or visit attributes."""
        usual = self.objective.offsets is None and self.objective.bounds is None and not self.visits
        return usual and self.n_looks == 1 and self.objective.false_positives is None

    @property
    def description(self) -> str:
        """List, for messages, of the information in addition to one label for each row."""
        parts = [f"{self.n_looks} looks"] if self.n_looks > 1 else []
        parts += ["visit_attributes"] if self.visits else []
        parts += ["an offset"] if self.objective.offsets is not None else []
        parts += ["bounds"] if self.objective.bounds is not None else []
        parts += ["false positives"] if self.objective.false_positives is not None else []
        parts += ["heterogeneity"] if self.objective.heterogeneity else []
        parts += [f"{self.n_audited} audit{'s' if self.n_audited > 1 else ''}"] if self.n_audited else []
        return listed(parts) if parts else "known values, or looks that did not take place"

    def counts(self, labels: Codes) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Return, for each row and each kind of look, the number of labels and the number of looks."""
        return counts_of(labels, self.objective.n_kinds)


class LogitSource(Protocol):
    """Source of the class logits of a pair whose class logit is not linear in the columns."""

    def table(self, X: Any) -> Matrix:
        """Return the table that the likelihood reads, with the class logit in the first column; `X` is checked."""
        ...

    def members(self, table: Matrix) -> list[tuple[Vector, Recalibration]]:
        """Return, for each classifier, its logits before recalibration and its recalibration; see `table`."""
        ...

    def held_out(self) -> Vector | None:
        """Return the out-of-fold class logits of the training rows."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedPair:
    """A fitted class model and propensity model, without the training table."""

    objective: PairObjective  # likelihood of rows in the form that the method `rows` returns
    parameters: Vector
    e_columns: Columns  # propensity attributes
    weight: float  # total weight of all rows
    labelled: float  # weight of the labelled rows
    looks: LookModels | None = None  # None if each row has just one label
    source: LogitSource | None = None  # None if both models are linear in the columns
    inference: PairInference | None = None  # None unless both models are logistic
    recalibration: Recalibration | None = None
    grids: tuple[ClassPriorGrid, ...] = ()  # grids of class priors of recalibrated fits
    held_out_weight: float = 0.0  # weight of the rows that some fold held out
    digest: int = 0  # checksum of the training rows of a cross-fit
    n_groups: int = 0  # number of groups; 0 if `groups` was not given
    spreads: tuple[SpreadFit, ...] = ()  # fits with other random shifts of propensities, for intervals of both shares
    shares: PairInference | None = None  # if given, replaces `inference` for class prior and label frequency

    def rows(self, checked: Any) -> Engine:
        """Return the rows in the form that the likelihood reads.

        This is the given engine if both models are linear in the columns, and otherwise the table made by `source`.
        """
        return checked if self.source is None else open_rows(self.source.table(checked))

    def probability(self, rows: Engine) -> Vector:
        """Return the class probability of each row."""
        return np.asarray(rows.collect(_block_class, self.objective, self.parameters))

    def propensity(self, rows: Engine, kind: int = 0) -> Vector:
        """Return the propensity of each row for a kind of look."""
        return np.asarray(rows.collect(_block_propensity, self.objective, self.parameters, kind))

    def posterior(self, rows: Engine) -> Vector:
        """Return the posterior of each row."""
        return np.asarray(rows.collect(_block_posterior, self.objective, self.parameters))

    def log_likelihood(self, rows: Engine) -> Vector:
        """Return the log-likelihood of each row."""
        return np.asarray(rows.collect(_block_log_likelihood, self.objective, self.parameters))

    def class_and_label_probabilities(self, rows: Engine) -> tuple[Vector, Vector]:
        """Return, for each row, the class probability, and the probability of any label if the row is positive."""
        f, d = np.asarray(rows.collect(_block_class_and_label, self.objective, self.parameters)).T
        return f, d

    def detection(self, rows: Engine, order: Integers) -> Vector:
        """Return, after each look in the given order, the share of positives with at least one label so far."""
        found, positives = rows.total(detection_curve, self.objective, self.parameters, order)
        return np.asarray(found / float(positives) if positives > 0 else np.zeros_like(found))

    def share_interval(self, share: str, level: float, kind: str) -> Interval:
        """Return the interval of "class_prior" or "label_frequency".

        `kind` is "grid" for quantiles over the grids of class priors, or "model" for the delta method.
        """
        if kind == "grid":
            low, high = grid_interval(self.grids, share, level)
            # Labelled rows are positive, unless there are false positives, which need looks.
            least = self.labelled / self.weight if share == "class_prior" and self.looks is None else 0.0
            return Interval(max(low, least), max(high, least))
        if self.spreads:
            return spread_interval(self.spreads, share, level)
        inference = self.inference if self.shares is None else self.shares
        assert inference is not None
        if share == "class_prior":
            return inference.class_prior_interval(level)
        return inference.interval_of(inference.label_frequency, level)

    def row_intervals(self, rows: Engine, level: float, *, of: str, kind: int = 0) -> Matrix:
        """Return the interval of each row for the "class", the "propensity" or the "posterior"."""
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
        """Draw posteriors from the distribution of the parameters.

        The result has one row for each row of the table, and one column for each draw. For cross-fitted classifiers,
        the class prior varies between draws, and with looks or audits also the recalibration and the propensities, but
        the classifier does not. For a stack, each draw uses the class logits of one member, or of the mean.
        """
        draw, given = self._posterior_draws(n_draws, rng)
        return np.asarray(rows.collect(draw, *given))

    def draw_group_sums(self, rows: Engine, n_groups: int, n_draws: int, rng: np.random.Generator) -> "GroupSums":
        """Draw the expected numbers of positives in groups of rows, from the same distribution as `draw_posteriors`.

        The rows have the values `group`, a line of group numbers for each row, and `count`, the weight of each row.
        """
        draw, given = self._posterior_draws(n_draws, rng)
        return GroupSums(*rows.total(_block_group_sums, n_groups, draw, given))

    def group_totals(self, rows: Engine, n_groups: int) -> "GroupTotals":
        """Return counts and expected numbers of positives in groups of rows, which are as in `draw_group_sums`."""
        return GroupTotals(*rows.total(_block_group_totals, n_groups, self.objective, self.parameters))

    def _posterior_draws(self, n_draws: int, rng: np.random.Generator) -> tuple[Any, tuple[Any, ...]]:
        """Return the block function that draws posteriors, and its parameters."""
        priors = draw_class_priors(self.grids, n_draws, rng) if self.grids else None
        if self.inference is not None:
            return self.inference.posterior_draws(n_draws, rng, self.recalibration, priors)
        if self.source is None or priors is None:
            raise NoRowIntervals
        pick = rng.random(n_draws)  # selects a member of a stack
        if self.looks is None:
            return _block_member_draws, (self.source, self.objective, self.parameters, priors, pick)
        # Files of earlier versions may have no `shares`, and there is no information on very many parameters.
        if self.shares is None or self.shares.information is None or self.recalibration is None:
            raise NoRowIntervals
        drawn = self.shares.draws_at(priors, rng)
        return _block_member_draws_with_looks, (self.source, self.recalibration, self.shares.objective, drawn, pick)

    def out_of_fold_logits(self, rows: Engine, X: Any, s: Vector) -> tuple[Vector, Vector]:
        """Return the out-of-fold class logits, and the propensity logits, of the training rows.

        For two logistic models, the effect of leaving a row out is computed to first order. For cross-fits, the logits
        were computed in the folds of the fit, and `X` and `s` must be the training rows.
        """
        if self.looks is not None:
            raise NoOutOfFoldLogits(
                "out_of_fold_logits is only for fits to one label for each row, without further information. This fit "
                f"used {self.looks.description}. Fit again with one label for each row, and without audit, known and "
                "labelling."
            )
        if self.inference is not None:
            u, v = self.inference.out_of_fold_logits(rows).T
            return u, v
        held = None if self.source is None else self.source.held_out()
        if held is None:
            raise NoOutOfFoldLogits(
                "out_of_fold_logits is only for two logistic models and for cross-fitted models, but this model is "
                "neither. Fit SAREMClassifier, SAREMClassifierCV or SARStackingClassifier."
            )
        if held.size != s.size or self.digest != digest_of(X, s):
            raise NoOutOfFoldLogits(
                f"X and s must be the {held.size} training rows of the fit, in the same order; the given {s.size} rows "
                "differ. Pass the X and s that you passed to fit."
            )
        return held, self._propensity_logits(rows)

    def with_groups(self, groups: Integers, rows: Engine) -> "FittedPair":
        """Return a pair whose intervals account for groups, or the same pair if `inference` is None."""
        if self.inference is None:
            return self
        by_groups = clustered(self.inference, rows, groups)
        ratio = variance_ratio(self.inference, by_groups) if self.grids else 1.0
        found = replace(self, inference=by_groups, n_groups=int(groups.max()) + 1)
        if not self.grids or self.recalibration is None:
            return found
        return replace(
            found, grids=widened(self.grids, ratio), recalibration=widened_recalibration(self.recalibration, ratio)
        )

    def standard_errors(self, n_columns: int) -> StandardErrors:
        """Return the standard errors of two logistic models, for a table with `n_columns` columns."""
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
        """Return the estimated false positive rates of two logistic models, each with its interval."""
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
    """Return a checksum of the rows and their labels, in order."""
    labels = np.ascontiguousarray(s, dtype=np.float64)
    return zlib.crc32(exact_keys(X).tobytes(), zlib.crc32(labels.tobytes()))


def _rate_errors(inference: PairInference, errors: Vector) -> Any:
    """Return the standard errors of the estimated false positive rates; None if no rate was estimated."""
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


def _block_class_and_label(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Matrix:
    return np.stack(objective.row_probabilities(in_double(X), rows, beta)[1:], axis=1)


def _block_logits(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Matrix:
    return np.stack([np.asarray(each) for each in objective.logit_values(in_double(X), beta)], axis=1)


def _block_member_draws(
    X: Any, rows: Rows, source: LogitSource, objective: PairObjective, beta: Vector, priors: Vector, pick: Vector
) -> Matrix:
    u, recalibrations = zip(*source.members(np.asarray(X)), strict=True)
    v = np.asarray(objective.logit_values(in_double(X), beta)[1])
    drawn = draw_posteriors(list(u), list(recalibrations), v, priors, (pick * len(u)).astype(np.intp))
    drawn[np.asarray(rows["s"]) == 1] = 1.0
    return drawn


def _block_member_draws_with_looks(
    X: Any,
    rows: Rows,
    source: LogitSource,
    recalibration: Recalibration,
    objective: PairObjective,
    drawn: Matrix,
    pick: Vector,
) -> Matrix:
    """Return drawn posteriors of a fit to looks or audits: each draw has parameters of its own, and one member."""
    table, observed = np.array(X, dtype=np.float64), rows_in_numpy(rows)
    # The drawn parameters recalibrate the first column, so logits that are recalibrated already are converted back.
    logits = [recalibration.invert(of_member(u)) for u, of_member in source.members(np.asarray(X))]
    out = np.empty((table.shape[0], len(drawn)))
    for j, (parameters, member) in enumerate(zip(drawn, (pick * len(logits)).astype(np.intp), strict=True)):
        table[:, 0] = logits[member]
        out[:, j] = objective.row_posterior(table, observed, parameters)
    return out


class GroupTotals(NamedTuple):
    """Sums over the rows of each group, with posteriors `q`, class probabilities `f` and label probabilities `e`."""

    rows: Vector  # number of rows with a positive weight
    labelled_rows: Vector
    audited_rows: Vector
    weight: Vector
    with_label: Vector  # sum of q over labelled rows
    without_label: Vector  # sum of q over other rows
    label: Vector  # sum of fe, the probability of a label
    label_variance: Vector  # sum of fe(1 - fe)
    label_posterior: Vector  # sum of fe times the posterior that the row has if it gets no label

    @classmethod
    def of(
        cls, add: Any, count: Vector, q: Vector, labelled: Mask, audited: Mask, f: Any = 0.0, e: Any = 0.0
    ) -> "GroupTotals":
        """Compute the totals; `add` returns the sums of each group of the columns of a matrix."""
        counted, label = count > 0, f * e
        with np.errstate(invalid="ignore", divide="ignore"):
            unseen = np.nan_to_num(label * f * (1.0 - e) / (1.0 - label))
        sums = (counted * labelled, counted * audited, count, count * q * labelled, count * q * ~labelled)
        chance = (count * label, count * label * (1.0 - label), count * unseen)
        return cls(*add(np.column_stack([counted * 1.0, *sums, *chance])).T)


def _block_group_totals(X: Any, rows: Rows, n_groups: int, objective: PairObjective, beta: Vector) -> GroupTotals:
    table, observed = in_double(X), rows_in_numpy(rows)
    _, f, e = (np.asarray(in_numpy(each)) for each in objective.row_probabilities(table, observed, beta))
    q = np.asarray(in_numpy(objective.row_posterior(table, observed, beta)))
    audited = observed["audit"] >= 0 if "audit" in observed else np.zeros(rows.size, dtype=bool)

    def add(values: Matrix) -> Matrix:
        return _in_groups(observed["group"], np.ones(rows.size), values, n_groups).T

    return GroupTotals.of(add, observed["count"].astype(np.float64), q, _any_label(observed), audited, f, e)


def _any_label(rows: Any) -> Mask:
    labels = np.asarray(in_numpy(rows["s"] if "s" in rows else rows["labels"]))
    return np.asarray((labels.reshape(len(labels), -1) > 0).any(axis=1))


class GroupSums(NamedTuple):
    """Sums over the rows of each group, one line for each draw: positives and their variance given the posteriors."""

    labelled: Matrix  # labelled positives
    unlabelled: Matrix  # positives without a label
    labelled_variance: Matrix
    unlabelled_variance: Matrix


def _block_group_sums(X: Any, rows: Rows, n_groups: int, draw: Any, given: tuple[Any, ...]) -> GroupSums:
    n_draws, sums = None, None
    for start in range(0, rows.size, _ROWS_PER_DRAW):
        part = slice(start, start + _ROWS_PER_DRAW)
        some = rows.take(part)
        q = np.asarray(draw(X[part], some, *given)).reshape(some.size, -1)
        n_draws, w = q.shape[1], np.asarray(in_numpy(some["count"]), dtype=np.float64)
        labelled = _any_label(some)
        found = np.stack([_in_groups(some["group"], each, q, n_groups) for each in (w * labelled, w * ~labelled)])
        spread = [_in_groups(some["group"], each, q * (1.0 - q), n_groups) for each in (w * labelled, w * ~labelled)]
        found = np.concatenate([found, spread])
        sums = found if sums is None else sums + found
    return GroupSums(*(np.zeros((4, n_draws or 0, n_groups)) if sums is None else sums))


def _in_groups(group: Any, w: Vector, values: Matrix, n_groups: int) -> Matrix:
    """Return the weighted sum of the values of each group, one line for each column of `values`."""
    lines, columns = group.ravel(), np.repeat(np.arange(w.size), group.shape[1])
    member = sparse.csr_array((np.repeat(w, group.shape[1]), (lines, columns)), shape=(n_groups, w.size))
    return np.asarray(member @ values).T


def _table(X: Any, rows: Rows) -> Matrix:
    return np.asarray(X)


def _labelled(X: Any, rows: Rows) -> Vector:
    return np.asarray(rows["s"])


def in_double(X: Any) -> Any:
    """Return a block in float64, because coefficients may exceed the range or the precision of float32."""
    return X.astype(np.float64, copy=False) if sparse.issparse(X) else in_float64(X)


@dataclass(frozen=True)
class StackSource:
    """Source of the class logits of a stack, which averages the class probabilities of its members."""

    stacked: tuple[Member, ...]
    recalibration: Recalibration  # of the mean of the members
    e_columns: Columns  # columns of the propensities
    objective: PairObjective  # likelihood of rows in the form that the method `table` returns
    parameters: Vector

    @classmethod
    def of(cls, stacked: Sequence[Member], recalibration: Recalibration, template: PairObjective) -> "StackSource":
        """Return the source, with the propensity models of `template`, a likelihood of the original table."""
        columns = columns_of_propensities(template)
        objective, parameters = recalibration.on_table_of_logits(moved_to_logits(template, columns, 0))
        return cls(tuple(stacked), recalibration, columns, objective, parameters)

    def table(self, X: Any) -> Matrix:
        """Return the class logit before recalibration, the columns of the propensities, and each member's logit.

        Members that were left out have no influence, so their logits are 0.
        """
        logits = [member.logits(X) if member.weight else np.zeros(X.shape[0]) for member in self.stacked]
        seen = dense(numeric_columns(X, self.e_columns))
        return np.column_stack([mean_logits(self.stacked, logits), seen, *logits])

    def members(self, table: Matrix) -> list[tuple[Vector, Recalibration]]:
        """Return the logits and the recalibration of each member with a positive weight, then those of the mean."""
        logits = table[:, 1 + self.e_columns.size :].T
        parts = [(u, each.recalibration) for u, each in zip(logits, self.stacked, strict=True) if each.weight]
        return [*parts, (table[:, 0], self.recalibration)]

    def held_out(self) -> Vector:
        """Return the recalibrated out-of-fold class logits of the training rows."""
        return self.recalibration(mean_logits(self.stacked))
