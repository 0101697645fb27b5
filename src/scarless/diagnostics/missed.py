"""Positives without a label in groups of rows: which groups does the labelling overlook?"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from scarless.checks.estimators import opened
from scarless.checks.options import (
    check_counts,
    check_flag,
    check_random_stream,
    check_share,
    check_whole,
)
from scarless.checks.rows import named_values, warn_about_row_order
from scarless.diagnostics.audits._reading import AuditRows
from scarless.diagnostics.group_sums import GroupLayout, GroupReader, ReadGroups, propensity_of
from scarless.diagnostics.grouping import Grouping, group_rows, has_columns_in_files
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, p_text
from scarless.diagnostics.scar.attribute_tests import aligned
from scarless.engines.base import known_rows
from scarless.metrics import Score, propensity_weighted_precision, propensity_weighted_recall
from scarless.models import PseudoObservations, SAREMClassifier
from scarless.models.base import SET_WITHOUT_PROPENSITY_ATTRIBUTES, PUClassifier, fit_quietly
from scarless.numerics.arrays import ArrayLike, Integers, Matrix, Vector
from scarless.numerics.label_tests import holm
from scarless.outside.extras import need
from scarless.outside.notices import listed
from scarless.pair.constraints import labelling_of
from scarless.pair.fitted import GroupTotals

MIN_LABELS_TO_RELY_ON = 50  # with fewer labels in all groups together, a note says so; by judgement
FEW_LABELS = 10  # labelled rows below which the estimates of a group rest almost only on the models
#: Inverse penalty of the two logistic models that a difference between groups is checked with. A stronger penalty would
#: shrink the effect of a column on the class, and so turn it into one on the labelling. By judgement.
WEAK_PENALTY = 100.0
_MAX_GROUPS_NAMED = 5  # in a note
_RATES = ("missed_share", "class_prior", "label_frequency")
_CONTRASTS = ("difference", "ratio")
_SCORES = ("recall", "precision", "selection_rate")


class GroupEstimates(NamedTuple):
    """An estimate for each group, with the ends of its interval."""

    value: Vector
    low: Vector
    high: Vector

    def at(self, place: int) -> tuple[float, float, float]:
        """Return the estimate and interval of one group."""
        return float(self.value[place]), float(self.low[place]), float(self.high[place])


@dataclass(frozen=True, eq=False, repr=False)
class MissedPositives:
    """Positives without a label in each group; prints as a table with sentences.

    Attributes
    ----------
    by, groups : tuple of str
        For each group, the column that defines it, and its name.
    n_rows, n_labelled : array of int
        Number of rows, and of labelled rows. Rows of weight 0 are not counted.
    positives : GroupEstimates
        Estimated number of positives in these rows (weighted, if weights were passed), with its interval.
    missed_share, class_prior, label_frequency : GroupEstimates
        Share of the positives that have no label, share of rows that are positive, and share of the positives that
        have a label.
    difference, ratio : GroupEstimates
        Share without a label minus, and divided by, that of all other rows, or of the `reference` group.
    p_value, p_adjusted : array
        p-value for no difference, and the same adjusted by Holm's method for the number of groups.
    total : dict of str to tuple
        Estimate and interval for all rows, for "positives" and the three shares.
    scores : dict of str to GroupEstimates
        Recall, precision and selection rate of the classifier in each group; empty if `scores` was False.
    reference : str
        Name of the group that differences refer to; "" if they refer to all other rows.
    if_class_too : array or None
        Share without a label according to two logistic models whose class model uses all columns. None unless a class
        model of the fit leaves out the propensity attributes without the user having said so. The p-values are then
        the larger ones of both fits, and 1 if the fits contradict each other.
    undetermined : tuple of str
        Columns whose groups differ according to the fit, but not, or not clearly, according to `if_class_too`.
    level : float
        Confidence level.
    informative : bool
        False if all positives are labelled according to the fit; it then has no information on missed positives.
    notes : tuple of str
        What to keep in mind, such as groups with few labels.
    """

    by: tuple[str, ...]
    groups: tuple[str, ...]
    n_rows: Integers
    n_labelled: Integers
    positives: GroupEstimates
    missed_share: GroupEstimates
    class_prior: GroupEstimates
    label_frequency: GroupEstimates
    difference: GroupEstimates
    ratio: GroupEstimates
    p_value: Vector
    p_adjusted: Vector
    total: dict[str, tuple[float, float, float]]
    scores: dict[str, GroupEstimates]
    reference: str
    if_class_too: Vector | None
    undetermined: tuple[str, ...]
    level: float
    informative: bool
    notes: tuple[str, ...]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row for each group.

        GroupEstimates have three columns, for example `missed_share`, `missed_share_low` and `missed_share_high`.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = need("pandas", "MissedPositives.to_frame", extra="frames")
        columns: dict[str, Any] = {"rows": self.n_rows, "labelled": self.n_labelled}
        estimates = {name: getattr(self, name) for name in ("positives", *_RATES, *_CONTRASTS)} | self.scores
        for name, found in estimates.items():
            columns |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
        columns |= {"p_value": self.p_value, "p_adjusted": self.p_adjusted}
        index = pandas.MultiIndex.from_arrays([self.by, self.groups], names=["by", "group"])
        return pandas.DataFrame(columns, index=index)

    def of(self, by: str) -> list[int]:
        """Return the positions of the groups of one column."""
        found = [j for j, each in enumerate(self.by) if each == by]
        if not found:
            raise KeyError(f"{by!r} is not one of the columns: {listed(list(dict.fromkeys(self.by)))}.")
        return found

    def sentences(self) -> list[str]:
        """Return a finding for each column, and the notes."""
        return [*(f"{by}: {self.finding(by)}" for by in dict.fromkeys(self.by)), *self.notes]

    def finding(self, by: str) -> str:
        """Return the finding for one column: the groups with the largest and the smallest share without a label."""
        places, value = self.of(by), self.missed_share.value
        known = [j for j in places if np.isfinite(value[j])]
        if not self.informative or not known:
            return "This fit cannot estimate how many positives have no label."
        if len(known) == 1:
            return f"All rows are in one group. {self._has(known[0], first=True)}."
        enough = [j for j in known if self.n_labelled[j] >= FEW_LABELS]
        known = enough if len(enough) > 1 else known
        most, least = max(known, key=lambda j: value[j]), min(known, key=lambda j: value[j])
        both = f"{self._has(most, first=True)}; {self._has(least)}"
        if not np.isfinite(self.missed_share.low[most]):
            return f"{both}. This fit has no intervals, so the difference may be due to chance."
        if by in self.undetermined and self.if_class_too is not None:
            first, second = (f"{100 * self.if_class_too[j]:.0f}% where it is {self.groups[j]}" for j in (most, least))
            return (
                f"Not determined. {both}. This rests on class models that do not use the columns of the labelling. If "
                f"the class depends on them too, the shares are {first} and {second}, and the labels do not show which "
                "is right. If you know that the class does not depend on them, say so (classification_attributes)."
            )
        if not np.nanmin(self.p_adjusted[places], initial=1.0) < SIGNIFICANT:
            return f"No clear difference between groups. {both}."
        return f"{both}."

    def _has(self, place: int, *, first: bool = False) -> str:
        value, low, high = self.missed_share.at(place)
        ends = f" ({100 * low:.0f} to {100 * high:.0f}%)" if np.isfinite(low) else ""
        what = f"{'An estimated ' if first else ''}{100 * value:.0f}%{ends}"
        return f"{what}{' of positives have no label' if first else ''} where {self.by[place]} is {self.groups[place]}"

    def _head(self) -> list[str]:
        scores = [name.replace("_", " ") for name in self.scores]
        return ["group", "rows", "labelled", "positives", "without a label", "class prior", "Holm p", *scores]

    def _cells(self, places: Sequence[int]) -> list[list[str]]:
        rows = []
        for j in places:
            scores = [_shares(*each.at(j)) for each in self.scores.values()]
            counted = f"{self.n_rows[j]:,}", f"{self.n_labelled[j]:,}", _counts(*self.positives.at(j))
            rates = _shares(*self.missed_share.at(j)), _shares(*self.class_prior.at(j))
            rows.append([self.groups[j], *counted, *rates, p_text(self.p_adjusted[j]), *scores])
        return rows

    def __str__(self) -> str:
        lines = []
        for by in dict.fromkeys(self.by):
            lines += [f"{by}: {self.finding(by)}", *aligned([self._head(), *self._cells(self.of(by))]), ""]
        return "\n".join([*lines, *self.notes]).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = []
        for by in dict.fromkeys(self.by):
            head = "".join(f"<th>{escape(each)}</th>" for each in self._head())
            body = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self._cells(self.of(by)))
            rows = "".join(f"<tr>{row}</tr>" for row in body)
            parts.append(
                f"<table><caption>{escape(f'{by}: {self.finding(by)}')}</caption><tr>{head}</tr>{rows}</table>"
            )
        return "".join([*parts, *(f"<p>{escape(note)}</p>" for note in self.notes)])


def missed_positives(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    by: Any,
    *,
    audit: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    n_bins: int = 4,
    reference: str = "",
    scores: bool = False,
    decision: Any = "accuracy",
    level: float = 0.95,
    n_draws: int = 400,
    random_state: Any = 0,
) -> MissedPositives:
    r"""Estimate the share of positives without a label in each group of rows.

    A group's positives are its labelled rows and the sum of the posteriors of its unlabelled rows,

    .. math:: P_g = \sum_{i \in g} w_i\, q_i, \qquad \text{share without a label} = 1 - \frac{\sum_{i \in g} w_i s_i
        q_i}{P_g}, \qquad q_i = \Pr(y_i = 1 \mid x_i, s_i).

    Audited rows count by their class. Intervals of numbers and shares are for the rows of the table: they are quantiles
    of draws from the uncertainty of the fit, and each draw also draws the class of each unlabelled row. Differences,
    ratios and p-values compare the labelling of groups, so they also include the chance of the labelling.

    By default, a search and a stack also use class models without the propensity attributes. Such a model counts every
    effect of these columns as one on the labelling. Two logistic models, of which the class model uses all columns, are
    then fitted too, and a difference between groups counts only if it is also clear according to them.

    If both models are right, 95% intervals of the share without a label covered it in 91 to 99% of simulated groups
    (``python -m benchmarks groups``). They do not cover if an attribute that drives the labelling is missing from the
    propensity model: see the page "After the report".

    Parameters
    ----------
    estimator : fitted classifier
        Classifier of this package with a propensity, also in a pipeline or a `TableClassifier`. Intervals need the
        standard errors of two logistic models, or the class-prior grid of a search, stack or cross-fit.
    X : array, sparse matrix, data frame or ParquetRows
        Rows of the table. For a `TableClassifier`, the raw table; groups can be formed by its raw columns.
    s : array of shape (n_rows,) or (n_rows, n_looks)
        Observed labels of these rows, coded as in `fit`.
    by : str, int, tuple, array of shape (n_rows,), or a list of these
        What defines the groups: a column of `X`, a tuple of two columns, or the group of each row (a Series keeps its
        name). A column of numbers with more than 12 different values is divided into bins. Groups of fewer than 5 rows
        are pooled.
    audit : array of shape (n_rows,), optional
        True class of audited rows, for a model that was fitted with audits.
    sample_weight : array of shape (n_rows,), optional
        Weight of each row; 1 by default. As in `fit`, a row of weight 3 counts as three rows.
    propensity : array of shape (n_rows,) or float, optional
        Propensity of each row, for a `PropensityWeightedClassifier` only.
    n_bins : int, default=4
        Number of bins for a column of numbers.
    reference : str, default=""
        Name of the group that other groups are compared with. By default, each group is compared with all other rows.
    scores : bool, default=False
        Whether to add the recall, precision and selection rate of the classifier in each group. They are
        propensity-weighted, and too good for rows that the classifier was fitted on.
    decision : str or float, default="accuracy"
        Which rows are selected for these scores; see `predict`.
    level : float in (0, 1), default=0.95
        Confidence level.
    n_draws : int, default=400
        Number of draws for the intervals.
    random_state : int, numpy generator or RandomState, default=0
        Seed of the random numbers.

    Returns
    -------
    MissedPositives

    See Also
    --------
    MissedPositivesDisplay : Plot of the shares.
    labelling_attributes : Tests which attributes drive the labelling.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.diagnostics import missed_positives
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(size=(4000, 2)), rng.integers(2, size=4000)])
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> s = y & (rng.random(4000) < np.where(X[:, 2] == 1, 0.7, 0.3))
    >>> model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> found = missed_positives(model, X, s, by=2)
    >>> found.missed_share.value.round(1)
    array([0.7, 0.3])
    """
    level, n_draws = check_share(level, "level"), check_whole(n_draws, "n_draws", at_least=20)
    rng, wanted = check_random_stream(random_state), check_flag(scores, "scores")
    X = known_rows(X) if has_columns_in_files(X) else X
    groupings = group_rows(X, by, n_bins=n_bins)
    layout = GroupLayout.of(groupings, reference)
    count = check_counts(named_values(X, sample_weight), n_rows=len(layout.codes))
    warn_about_row_order(X, sample_weight=sample_weight)
    reader = GroupReader(s, audit, layout, count, n_draws, rng)
    read = reader.read(estimator, X, propensity, each_row=wanted)
    estimates, total = _estimates(read, rng, layout=layout, level=level)
    contrasts, p = _contrasts(read, rng, layout=layout, level=level)
    alone, informative, class_too = p, read.is_informative, None
    other = _read_with_class_on_all_columns(estimator, X, reader, sample_weight)
    if other is not None:
        class_too = _compared_shares(other)
        p = _larger_p(contrasts["difference"].value, p, *_contrasts(other, rng, layout=layout, level=level))
    if not informative:
        estimates, total = ({name: _unknown(each) for name, each in found.items()} for found in (estimates, total))
        contrasts, p = {name: _unknown(each) for name, each in contrasts.items()}, np.full(p.size, np.nan)
        alone = p
    return MissedPositives(
        by=layout.by,
        groups=layout.names,
        n_rows=read.totals.rows.astype(np.intp),
        n_labelled=read.totals.labelled_rows.astype(np.intp),
        **estimates,
        **contrasts,
        p_value=p,
        p_adjusted=holm(p),
        total={name: each.at(0) for name, each in total.items()},
        scores={} if read.data is None else _scores(estimator, X, read.data, reader, decision, propensity, level),
        reference=reference,
        if_class_too=class_too,
        undetermined=_undetermined(layout, holm(alone), holm(p)),
        level=level,
        informative=informative,
        notes=_notes(estimator, read, groupings, layout, informative, is_checked=class_too is not None),
    )


# --- estimates


def _estimates(
    read: ReadGroups, rng: np.random.Generator, *, layout: GroupLayout, level: float
) -> tuple[dict[str, GroupEstimates], dict[str, GroupEstimates]]:
    """Return numbers and shares of each group, and of all rows."""
    totals, sums, drawn = read.totals, read.draws, None
    with_label, without, weight = totals.with_label[None], totals.without_label[None], totals.weight[None]
    if sums is not None:
        drawn = (
            _realised(sums.labelled, sums.labelled_variance, rng),
            _realised(sums.unlabelled, sums.unlabelled_variance, rng),
        )
    found = []
    for add in (lambda each: each, layout.total):
        point = _rates(add(with_label), add(without), add(weight))
        draws = point if drawn is None else _rates(add(drawn[0]), add(drawn[1]), add(weight))
        found.append({name: _interval(point[name], draws[name], level, known=drawn is not None) for name in point})
    return found[0], found[1]


def _rates(with_label: Matrix, without: Matrix, weight: Matrix) -> dict[str, Matrix]:
    positives = with_label + without
    with np.errstate(invalid="ignore", divide="ignore"):
        missed = without / positives
        return {
            "positives": positives,
            "missed_share": missed,
            "class_prior": positives / weight,
            "label_frequency": 1.0 - missed,
        }


def _realised(mean: Matrix, variance: Matrix, rng: np.random.Generator) -> Matrix:
    """Draw the number of positives among rows whose posteriors have this sum and this variance.

    The number is the sum of independent draws with different probabilities. It is approximated by the binomial
    distribution with the same mean and variance.
    """
    share = np.clip(1.0 - variance / np.maximum(mean, 1e-300), 1e-6, 1.0)
    n = np.maximum(np.rint(mean / share), 1.0)
    return np.where(variance > 0, rng.binomial(n.astype(np.int64), np.clip(mean / n, 0.0, 1.0)), mean)


def _contrasts(
    read: ReadGroups, rng: np.random.Generator, *, layout: GroupLayout, level: float
) -> tuple[dict[str, GroupEstimates], Vector]:
    """Return the difference and the ratio of the shares without a label, and p-values for no difference."""
    sums, with_label, without = read.draws, read.totals.with_label[None], read.totals.without_label[None]
    point = _compared(with_label, without, layout)
    if sums is None:
        unknown = np.full(with_label.shape[1], np.nan)
        return {name: _interval(point[name], point[name], level, known=False) for name in _CONTRASTS}, unknown
    change, fewer = _other_labels(read.totals, sums.labelled, rng)
    draws = _compared(sums.labelled + change, np.maximum(sums.unlabelled - fewer * change, 0.0), layout)
    log_odds = np.where(np.isfinite(draws["log_odds"]), draws["log_odds"], np.nan)
    z = np.abs(_compared(with_label + 0.5, without + 0.5, layout)["log_odds"][0])
    known = np.isfinite(log_odds).any(axis=0) & np.isfinite(point["difference"][0])
    p = np.full(z.size, np.nan)
    p[known] = 2.0 * ndtr(-z[known] / np.maximum(np.nanstd(log_odds[:, known], axis=0), 1e-12))
    return {name: _interval(point[name], draws[name], level, known=True) for name in _CONTRASTS}, p


def _other_labels(totals: GroupTotals, found: Matrix, rng: np.random.Generator) -> tuple[Matrix, Vector]:
    """Draw how many more labels each group would have if the labelling were repeated.

    Also return by how much the estimated number of positives without a label decreases for each of these labels: the
    mean posterior that labelled rows would have without their label.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(totals.label_variance / totals.label)
        fewer = totals.label_posterior / totals.label
    change = (rng.gamma(found + 0.5) - (found + 0.5)) * np.nan_to_num(spread)
    return np.maximum(change, -found), np.nan_to_num(fewer)


def _compared(with_label: Matrix, without: Matrix, layout: GroupLayout) -> dict[str, Matrix]:
    own, other = (with_label, without), (layout.others(with_label), layout.others(without))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # A ratio to almost 0 is infinite.
        missed, theirs = (b / (a + b) for a, b in (own, other))
        same = layout.reference == np.arange(layout.reference.size)
        log_odds = np.log(without / with_label) - np.log(other[1] / other[0])
        found = {"difference": missed - theirs, "ratio": missed / theirs, "log_odds": log_odds}
    return {name: np.where(same, np.nan, each) for name, each in found.items()}


def _interval(point: Matrix, draws: Matrix, level: float, *, known: bool) -> GroupEstimates:
    """Return estimates with the quantiles of their draws; the interval always contains the estimate."""
    value = point[0]
    if not known:
        return GroupEstimates(value, np.full(value.size, np.nan), np.full(value.size, np.nan))
    some = np.where(np.isfinite(draws).any(axis=0), draws, 0.0)
    ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    low, high = np.nanquantile(some, ends, axis=0, method="inverted_cdf")  # Interpolation fails for infinite ratios.
    unknown = np.isnan(value)
    return GroupEstimates(
        value, np.where(unknown, np.nan, np.minimum(low, value)), np.where(unknown, np.nan, np.maximum(high, value))
    )


def _unknown(found: GroupEstimates) -> GroupEstimates:
    return GroupEstimates(*(np.full(found.value.size, np.nan) for _ in range(3)))


# --- the fit whose class model uses all columns


def _read_with_class_on_all_columns(
    estimator: Any, X: Any, reader: GroupReader, sample_weight: Any
) -> ReadGroups | None:
    """Return the sums of each group by two logistic models whose class model uses all columns.

    None unless the fit itself has left the propensity attributes out of a class model. Such a class model counts every
    effect of these columns as one on the labelling, and the labels hardly show whether that is right.
    """
    model, prepare = opened(estimator)
    if not _leaves_attributes_out(model):
        return None
    known = [each for each in model.known or () if not isinstance(each, PseudoObservations)] or None
    pair = SAREMClassifier(
        propensity_attributes=model.fitted_pair_.e_columns.tolist(),
        labelling=model.labelling,
        known=known,
        C=WEAK_PENALTY,
        propensity_C=WEAK_PENALTY,
        pos_label=model.pos_label,
    )
    rows, given = prepare(X), {} if reader.audit is None else {"audit": reader.audit}
    try:
        fitted = fit_quietly(pair, rows, reader.s, sample_weight=sample_weight, **given)
        return reader.read(fitted, rows, None, each_row=False)
    except (ValueError, np.linalg.LinAlgError):  # for example, columns with missing values, which a forest can read
        return None


def _leaves_attributes_out(model: Any) -> bool:
    """Whether a search or a stack, and not its user, left the propensity attributes out of a class model."""
    if not (isinstance(getattr(model, "attribute_sets", None), str) and model.fitted_pair_.e_columns.size):
        return False
    if hasattr(model, "members_"):
        return any(
            member.weight and member.attributes == SET_WITHOUT_PROPENSITY_ATTRIBUTES for member in model.members_
        )
    sets = [model.cv_results_["param_attributes"][each] for each in model.selection_.members]
    return SET_WITHOUT_PROPENSITY_ATTRIBUTES in sets


def _compared_shares(read: ReadGroups) -> Vector:
    """Return the share of the positives of each group that have no label."""
    with_label, without = read.totals.with_label, read.totals.without_label
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(without / (with_label + without))


def _larger_p(difference: Vector, p: Vector, others: dict[str, GroupEstimates], p_other: Vector) -> Vector:
    """Return the larger p-value of two fits; 1 if their differences have opposite signs."""
    with np.errstate(invalid="ignore"):
        opposite = difference * others["difference"].value < 0
    return np.where(opposite & np.isfinite(p), 1.0, np.fmax(p, p_other))


def _undetermined(layout: GroupLayout, alone: Vector, both: Vector) -> tuple[str, ...]:
    """Return the columns whose groups differ by the p-values of the fit alone, but not by those of both fits."""
    by = np.array(layout.by)

    def differs(p: Vector, name: str) -> bool:
        return bool(np.nanmin(p[by == name], initial=1.0) < SIGNIFICANT)

    return tuple(name for name in dict.fromkeys(layout.by) if differs(alone, name) and not differs(both, name))


# --- scores of the classifier


def _scores(
    estimator: Any,
    X: Any,
    data: AuditRows,
    reader: GroupReader,
    decision: Any,
    propensity: Any,
    level: float,
) -> dict[str, GroupEstimates]:
    """Return recall, precision and selection rate of each group."""
    model, layout, count = data.estimator, reader.layout, reader.weight
    if not isinstance(model, PUClassifier):
        raise TypeError(
            f"scores need a classifier of this package, which knows the propensity; got {type(model).__name__}. Use "
            "scores=False."
        )
    if np.any(getattr(model, "false_positive_rate_", 0.0)):
        raise ValueError("scores: propensity-weighted scores need labels without false positives. Use scores=False.")
    chosen = np.asarray(estimator.predict(X, decision=decision)) == model.classes_[-1]
    e = (
        propensity_of(data)
        if propensity is None
        else np.broadcast_to(np.asarray(propensity, dtype=np.float64), count.shape)
    )
    if n_never := int(np.count_nonzero((e == 0) & (count > 0))):
        raise ValueError(
            f"scores: {n_never:,} rows had no look, so they could not get a label, and propensity-weighted scores do "
            "not describe them. Leave these rows out, or use scores=False."
        )
    found = {name: np.full((3, len(layout.names)), np.nan) for name in _SCORES}
    weight = layout.sums(count)
    with np.errstate(invalid="ignore", divide="ignore"):
        found["selection_rate"][:] = layout.sums(count * chosen) / weight
    for j in range(len(layout.names)):
        rows = np.flatnonzero((layout.codes == j).any(axis=1) & (count > 0))
        for name, score in (("recall", propensity_weighted_recall), ("precision", propensity_weighted_precision)):
            given = {"propensity": e[rows], "sample_weight": count[rows], "level": level}
            found[name][:, j] = _score(score, data.labelled[rows] * 1.0, chosen[rows] * 1.0, **given)
    return {name: GroupEstimates(*each) for name, each in found.items()}


def _score(score: Any, s: Any, chosen: Any, **given: Any) -> tuple[float, float, float]:
    if not s.any() or not chosen.any():
        return np.nan, np.nan, np.nan
    found: Score = score(s, chosen, **given)
    low, high = found.interval
    return float(np.clip(found.value, 0.0, 1.0)), max(low, 0.0), min(high, 1.0)


# --- notes


def _notes(
    estimator: Any,
    read: ReadGroups,
    groupings: list[Grouping],
    layout: GroupLayout,
    informative: bool,
    *,
    is_checked: bool,
) -> tuple[str, ...]:
    if not informative:
        return (
            "According to this fit every positive is labelled, so it has no information on positives without a label. "
            "Check that no column was filled in after the label was known, or audit 50 random unlabelled rows.",
        )
    notes, n_labelled = [], read.totals.labelled_rows.astype(np.intp)
    if read.n_labelled < MIN_LABELS_TO_RELY_ON and not read.has_audits:
        notes.append(
            f"There are only {read.n_labelled} labelled rows, so the intervals may be too short. Do not rely on these "
            "numbers without audits."
        )
    none = np.flatnonzero((n_labelled == 0) & (read.totals.rows > 0))
    if none.size:
        named = [f"{layout.by[j]} = {layout.names[j]}" for j in none]
        notes.append(
            f"Groups without any label: {listed(named, _MAX_GROUPS_NAMED)}. All positives of these groups have no "
            "label, so the share is 100%, however few they are. The models cannot tell a group without positives "
            "from a group that is never labelled."
        )
    few = np.flatnonzero((n_labelled < FEW_LABELS) & (n_labelled > 0))
    if few.size:
        named = [f"{layout.by[j]} = {layout.names[j]} ({n_labelled[j]})" for j in few]
        notes.append(
            f"Groups with fewer than {FEW_LABELS} labelled rows: {listed(named, _MAX_GROUPS_NAMED)}. Their estimates "
            "rest almost only on the models."
        )
    notes += [
        f"{each.by}: {each.pooled} groups of fewer than 5 rows are pooled as {each.names[-1]!r}."
        for each in groupings
        if each.pooled
    ]
    how = labelling_of(read.model).audit_labels
    if how != "keep" and read.has_audits:
        done = "Audited rows are left out" if how == "drop" else "Labels of audited rows do not count as labels"
        notes.append(f"{done}, because audit_labels={how!r} says that findings of audits were entered as labels.")
    unused = _not_in_propensity(estimator, read.model, groupings)
    if unused:
        notes.append(
            f"The propensity model does not use {listed(unused)}. Groups that are labelled more rarely than the "
            "propensity attributes explain therefore count as groups with fewer positives."
        )
    if is_checked:
        notes.append(
            "The labels separate effects of the columns of the labelling on the class from effects on the labelling by "
            "the form of the models alone. Audit some rows of each group before you act on a difference."
        )
    if read.draws is None:
        notes.append(
            f"This {type(read.model).__name__} has no standard errors, so there are no intervals. SAREMClassifier, "
            "SAREMClassifierCV and SARStackingClassifier have them, unless the models have very many columns."
        )
    return tuple(notes)


def _not_in_propensity(estimator: Any, model: Any, groupings: list[Grouping]) -> list[str]:
    """Return the columns that define groups and are not used by the propensity model, as far as that is known."""
    coef = getattr(model, "propensity_coef_", None)
    if coef is None:
        return []
    used = set(np.flatnonzero(np.atleast_2d(coef).any(axis=0)).tolist())
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    found = []
    for each in groupings:
        if hasattr(estimator, "columns_of"):
            known = each.by in {str(name) for name in getattr(estimator, "feature_names_in_", ())}
            columns = estimator.columns_of(each.by).tolist() if known else []
        else:
            columns = [names.index(each.by)] if each.by in names else []
            columns = [int(each.by[1:])] if not names and each.by[1:].isdigit() and each.by[0] == "x" else columns
        if columns and not used & set(columns):
            found.append(each.by)
    return found


# --- text


def _shares(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "unknown"
    return (
        f"{100 * value:.0f}%" if not np.isfinite(low) else f"{100 * value:.0f}% ({100 * low:.0f} to {100 * high:.0f})"
    )


def _counts(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if not np.isfinite(low) else f"{value:,.0f} ({low:,.0f} to {high:,.0f})"
