"""Whether new labels arrive as often as predicted, and how many positives to expect among new rows."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, logit

from scarless.diagnostics.grouping import Grouping, group_rows
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT
from scarless.numerics import two_samples
from scarless.numerics.arrays import Integers, Matrix, Vector
from scarless.numerics.label_tests import holm
from scarless.numerics.uncertainty import quantile
from scarless.numerics.weighted_scores import equal_counts
from scarless.pair.predictive import ProbabilityDraws

#: Labels differ from the predictions if they do by more than chance, and in some group by at least a tenth of the
#: predicted number. No model is exactly right, so smaller differences are significant in large tables. The expected
#: number of positives changed if it did by as much, and beyond its interval. By judgement.
LABEL_DIFFERENCE = 0.1
#: Gain in log-likelihood from which one explanation of a change is preferred to the other: a likelihood ratio of 20.
#: By judgement; `python -m benchmarks drift` measures how often the preference is wrong.
PREFERRED_GAIN = 3.0
N_PREFERENCE_DRAWS = 60  # draws of the parameters, 95% of which must prefer the same explanation
MIN_EXPECTED = 5.0  # expected labels of a group; smaller groups are merged, as usual for chi-square tests
MAX_COLUMNS_OF_GROUPS = 100  # columns whose groups are tested
N_PERIODS = 6
MAX_ROWS_DRAWN = 1_000  # the class of each row is drawn; a normal distribution is accurate for more rows
_N_BINS = 5
_LARGEST_LOGIT = 30.0
# Names of groups of numbers and dates, such as "40 or less", "above 1.5 to 2" and "after 2024-05-01".
MAX_CATEGORIES_NAMED = 6  # in the name of merged groups
_RANGE = re.compile(
    r"(?P<above>above |after )?(?P<start>[-+.\de]*\d)(?: to (?P<end>[-+.\de]*\d))?"
    r"(?: (?P<least>or less|or earlier))?(?P<most> or more)?"
)


class NewRows(NamedTuple):
    """Predictions for new rows, and their labels."""

    f: Vector  # class probability
    e: Vector  # probability of any label if positive
    h: Vector  # probability of any label if negative
    s: Vector | None  # 1 for rows with a label; None without labels
    w: Vector  # weights
    draws: ProbabilityDraws | None
    errors: Matrix  # draws of the estimation error of the probability of a label, one column each
    scale: float = 1.0  # number of all new rows for each of these rows

    @property
    def p(self) -> Vector:
        """Probability of a label."""
        return np.asarray(self.f * self.e + (1.0 - self.f) * self.h)


class LabelGroups(NamedTuple):
    """Observed and predicted labels in groups of rows.

    For all rows together, the p-value tests whether labels are as frequent as predicted. For several groups, it tests
    whether observed and predicted labels have the same ratio in all groups: all groups together, and each alone.
    """

    by: str
    names: tuple[str, ...]
    n_rows: Integers
    observed: Vector
    predicted: Vector
    low: Vector  # range of observed labels if nothing changed
    high: Vector
    p_value: float
    p_adjusted: float  # adjusted for all comparisons

    @property
    def scaled(self) -> Vector:
        """Predicted labels; for several groups, multiplied by a factor so that their total is right."""
        factor = self.observed.sum() / max(self.predicted.sum(), 1e-300) if len(self.names) > 1 else 1.0
        return np.asarray(factor * self.predicted)

    @property
    def differs(self) -> bool:
        """Whether labels differ from the predictions by more than chance and by an amount that matters."""
        off = np.abs(self.observed - self.scaled)
        large = off >= LABEL_DIFFERENCE * self.scaled
        return self.p_adjusted < SIGNIFICANT and bool((large & (off > 0.5 * self._width())).any())

    def worst(self) -> int:
        """Return the position of the group that differs most from the predictions, in standard errors."""
        return int(np.argmax(np.abs(self.observed - self.predicted) / np.maximum(self.high - self.low, 1e-12)))

    def _width(self) -> Vector:
        """Width of the range, with the same factor as `scaled`."""
        return np.asarray((self.high - self.low) * np.sqrt(self.scaled / np.maximum(self.predicted, 1e-300)))


class Explanation(NamedTuple):
    """A change of the class probabilities, or of the labelling, that explains the new labels best."""

    of: str  # "class" or "labelling"
    by: str  # column of the groups that changed; "" for one change of all rows
    names: tuple[str, ...]  # groups that changed
    odds: tuple[float, ...]  # factor of the odds in each of them
    gain: float  # log-likelihood gain, less a penalty for each factor (BIC)


@dataclass(frozen=True, eq=False)
class LabelCheck:
    """Observed and predicted labels of new rows, and two explanations of a difference."""

    total: LabelGroups
    bins: LabelGroups  # in bins of the predicted probability
    time: LabelGroups | None
    columns: tuple[LabelGroups, ...]  # in groups of each column, the smallest p-value first
    p_value: float  # of all these comparisons together
    detectable: float  # relative change of the number of labels that is detected with a probability of 80%
    of_class: Explanation
    of_labelling: Explanation
    all_or_none: str  # "all" if all rows have a label, "none" if no row has one; otherwise ""
    preferred: str  # "class" or "labelling", if the labels support one explanation clearly more; otherwise ""
    limited: LabelGroups | None  # column to some of whose values the change is limited; None if to no column

    @property
    def best(self) -> Explanation:
        """The explanation that fits the labels better."""
        return self.of_class if self.preference > 0 else self.of_labelling

    @property
    def preference(self) -> float:
        """By how much the log-likelihood of a changed class exceeds that of changed labelling, less penalties."""
        return self.of_class.gain - self.of_labelling.gain

    @property
    def groups(self) -> list[LabelGroups]:
        """All comparisons: in total, by predicted probability, by time and by column."""
        return [self.total, self.bins, *([] if self.time is None else [self.time]), *self.columns]

    @property
    def differing(self) -> list[LabelGroups]:
        """The comparisons in which labels differ from the predictions."""
        return [each for each in self.groups if each.differs]


def check_labels(
    rows: NewRows,
    X: Any,
    columns: Sequence[Any],
    time: tuple[str, Any] | None,
    level: float,
    roles: Mapping[str, str] | None = None,
) -> tuple[LabelCheck, list[str]]:
    """Compare observed with predicted labels, in total and in groups; also return notes.

    `roles` says which columns the user named for the labelling ("labelling"), and which only the class uses ("class").
    """
    notes: list[str] = []
    one = Grouping("all rows", ("all rows",), np.zeros(rows.f.size, dtype=np.intp))
    total, bins = _compare(rows, one, level), _compare(rows, _merged(_probability_bins(rows), rows), level)
    when = _time_groups(rows, X, time, notes)
    by_time = None if when is None else _compare(rows, when, level)
    groupings = {each.by: each for each in _column_groups(rows, X, columns)}
    by_column = [_compare(rows, each, level) for each in groupings.values()]
    adjusted = holm(np.array([each.p_value for each in by_column]))
    by_column = [each._replace(p_adjusted=float(p)) for each, p in zip(by_column, adjusted, strict=True)]
    by_column.sort(key=lambda each: each.p_value)
    families = 2 + (by_time is not None) + bool(by_column)  # Each gets an equal share of the significance level.
    total, bins, *others = (
        each._replace(p_adjusted=min(families * each.p_adjusted, 1.0))
        for each in (total, bins, *([] if by_time is None else [by_time]), *by_column)
    )
    by_time, by_column = (None, others) if by_time is None else (others[0], others[1:])
    spread = float(_spread(*_uncertainty(rows, one))[0])
    p_value = min(each.p_adjusted for each in (total, bins, *others))
    # The explanations matter only if labels differ, and take most of the time.
    suspects = [groupings[each.by] for each in by_column if each.differs][:1]
    explained = rows if p_value < SIGNIFICANT else rows._replace(draws=None)
    assert rows.s is not None
    every = "all" if rows.s.all() else "" if rows.s.any() else "none"
    of_class, of_labelling = (_explain(of, explained, [one, *suspects]) for of in ("class", "labelling"))
    preferred = "" if every else _preferred(of_class, of_labelling)
    uneven = next((each for each in by_column if each.differs and not every), None)
    role = "" if uneven is None else (roles or {}).get(uneven.by, "")
    # A change of the class prior is uneven too, but most in a column of the class.
    everywhere = bool(preferred) and role != "labelling" and not max(of_class[0], of_labelling[0], key=_gain).by
    limited = None if everywhere else uneven
    check = LabelCheck(
        total=total,
        bins=bins,
        time=by_time,
        columns=tuple(by_column),
        p_value=p_value,
        detectable=float((quantile(0.95) + quantile(0.6)) * spread / max(float(total.predicted[0]), 1e-12)),
        of_class=of_class[0],
        of_labelling=of_labelling[0],
        all_or_none=every,
        preferred=preferred if limited is None else role,
        limited=limited,
    )
    return check, notes


def _compare(rows: NewRows, groups: Grouping, level: float) -> LabelGroups:
    """Compare observed with predicted labels in groups."""
    assert rows.s is not None
    n, p, w, codes = len(groups.names), rows.p, rows.w, groups.codes
    observed, predicted = (two_samples.bin_sums(codes, w * each, n) for each in (rows.s, p))
    variance, errors = _uncertainty(rows, groups)
    whole = bool((w == 1).all())
    if n > 1:
        ratio = observed.sum() / max(predicted.sum(), 1e-300)
        scaled = np.minimum(p * ratio, 1.0)
        uneven = np.maximum(two_samples.bin_sums(codes, np.square(w) * scaled * (1.0 - scaled), n), 1e-12)
        p_value = two_samples.uneven_p_value(observed, predicted, uneven, errors)
        if n > 2:  # A change of one group of many is hardly visible in the test of all groups together.
            shares = predicted / max(predicted.sum(), 1e-300)
            own = ratio * (errors - errors.sum(axis=1, keepdims=True) * shares)
            single = [
                _p_value(observed[[j]], ratio * predicted[[j]], uneven[[j]], own[:, [j]], whole) for j in range(n)
            ]
            p_value = min(2.0 * min(p_value, n * min(single)), 1.0)
    else:
        p_value = _p_value(observed, predicted, variance, errors, whole)
    spread = quantile(level) * _spread(variance, errors)
    low, high = np.maximum(predicted - spread, 0.0), np.minimum(predicted + spread, two_samples.bin_sums(codes, w, n))
    n_rows = np.bincount(codes, minlength=n)
    return LabelGroups(groups.by, groups.names, n_rows, observed, predicted, low, high, p_value, p_value)


def _p_value(observed: Vector, predicted: Vector, variance: Vector, errors: Matrix, whole: bool) -> float:
    """Return the p-value of the number of labels of one group, which is a whole number if all weights are 1."""
    if not whole:
        return two_samples.residual_p_value(observed - predicted, variance, errors)
    mean = np.maximum(predicted[0] + errors[:, 0], 1e-9)
    return two_samples.count_p_value(float(observed[0]), mean, np.full(mean.size, variance[0]))


def _uncertainty(rows: NewRows, groups: Grouping) -> tuple[Vector, Any]:
    """Return the variance of the labels in each group, and the errors of the predicted labels in each draw."""
    n, p, w = len(groups.names), rows.p, rows.w
    variance = np.maximum(two_samples.bin_sums(groups.codes, np.square(w) * p * (1.0 - p), n), 1e-12)
    member = sparse.csr_array((w, (groups.codes, np.arange(w.size))), shape=(n, w.size))
    return variance, np.asarray(member @ rows.errors).T


def _spread(variance: Vector, errors: Any) -> Vector:
    """Return the standard deviation of observed labels around the predictions if nothing changed."""
    return np.asarray(np.sqrt(variance + np.square(errors).mean(axis=0)))


# --- groups


def _probability_bins(rows: NewRows) -> Grouping:
    p = rows.p
    codes = np.asarray(equal_counts(p, _N_BINS))
    ends = [f"{p[codes == j].min():.2g} to {p[codes == j].max():.2g}" for j in range(int(codes.max()) + 1)]
    return Grouping("predicted probability", tuple(ends), codes)


def _merged(groups: Grouping, rows: NewRows) -> Grouping:
    """Merge neighbouring groups until labels and rows without labels are expected in each."""
    n, p = len(groups.names), rows.p
    with_label, without = (two_samples.bin_sums(groups.codes, each, n) for each in (p, 1.0 - p))
    place, start = np.zeros(n, dtype=np.intp), 0
    members: list[tuple[str, ...]] = []
    for j in range(n):
        place[j] = len(members)
        enough = min(with_label[start : j + 1].sum(), without[start : j + 1].sum()) >= MIN_EXPECTED
        if enough or j == n - 1:
            these = groups.names[start : j + 1]
            if not enough and members:  # The last group joins the group before it.
                place[start:] = len(members) - 1
                members[-1] += these
            else:
                members.append(these)
            start = j + 1
    return Grouping(groups.by, tuple(map(joined, members)), place[groups.codes], groups.pooled)


def joined(names: Sequence[str]) -> str:
    """Return the name of neighbouring groups that are merged; ranges of numbers and dates become one range.

    Examples
    --------
    >>> joined(["40 or less", "41 to 50"]), joined(["above 1.5 to 2", "above 2"]), joined(["city", "rural", "sea"])
    ('50 or less', 'above 1.5', 'city, rural, sea')
    """
    if len(names) == 1:
        return names[0]
    ranges = [_RANGE.fullmatch(name) for name in names]
    low, high = ranges[0], ranges[-1]
    if low is None or high is None or not _ascend([each and each["start"] for each in ranges]):
        shown = names if len(names) <= MAX_CATEGORIES_NAMED else names[: MAX_CATEGORIES_NAMED - 1]
        more = len(names) - len(shown)
        return ", ".join(shown) + (f" and {more} more" if more else "")
    if low["least"]:
        return f"{high['end'] or high['start']} {low['least']}"
    if high["end"] or not (high["above"] or high["most"]):
        return f"{low['above'] or ''}{low['start']} to {high['end'] or high['start']}"
    return f"{low['above'] or ''}{low['start']}{high['most'] or ''}"


def _ascend(starts: list[str | None]) -> bool:
    """Return whether the starts of ranges increase; the categories "10" and "7", sorted as text, do not."""
    try:
        values = [float(start) for start in starts if start is not None]
    except ValueError:  # dates
        return None not in starts
    return len(values) == len(starts) and values == sorted(values)


def _column_groups(rows: NewRows, X: Any, columns: Sequence[Any]) -> list[Grouping]:
    """Return the groups of each column that has at least two groups; identifiers and free texts have too many."""
    found = []
    for column in columns[:MAX_COLUMNS_OF_GROUPS]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that a column has one group only
                [groups] = group_rows(X, column)
        except (TypeError, ValueError):  # too many groups
            continue
        groups = _merged(groups, rows)
        if len(groups.names) > 1:
            found.append(groups)
    return found


def _time_groups(rows: NewRows, X: Any, time: tuple[str, Any] | None, notes: list[str]) -> Grouping | None:
    if time is None:
        return None
    name, days = time
    there = np.isfinite(days)
    if not there.any():
        notes.append(f"Column {name!r} has no dates that can be read, so labels are not compared by time.")
        return None
    dates = np.full(days.size, np.datetime64("NaT"), dtype="datetime64[D]")
    dates[there] = np.floor(days[there]).astype(np.int64).astype("datetime64[D]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        [groups] = group_rows(X, dates, n_bins=N_PERIODS)
    groups = _merged(groups._replace(by=name), rows)
    if len(groups.names) > 1:
        return groups
    notes.append(
        f"Labels are not compared by time: all dates in {name!r} are the same, or too few labels are predicted "
        f"(fewer than {2 * MIN_EXPECTED:.0f})."
    )
    return None


# --- explanations and positives


def _logits(p: Any) -> Any:
    return np.clip(logit(np.clip(p, 0.0, 1.0)), -_LARGEST_LOGIT, _LARGEST_LOGIT)


def _gain(explanation: Explanation) -> float:
    return explanation.gain


def _explain(of: str, rows: NewRows, groupings: list[Grouping]) -> tuple[Explanation, Vector]:
    """Return the change of the class, or of the labelling, that explains the labels best, and the gains of draws.

    The logits of all rows change by one shift, or those of some groups of a column by their own shifts. Every shift
    costs half the logarithm of the number of labels, as in the Bayesian information criterion, and that of a group also
    the logarithm of the number of groups among which it was selected. The gains are those of the best explanation for
    each draw of the parameters.
    """
    assert rows.s is not None
    f, e = rows.f[:, None], rows.e[:, None]
    if rows.draws is not None:  # The first column is the fit itself.
        f = np.column_stack([f, rows.draws.f[:, :N_PREFERENCE_DRAWS]])
        e = np.column_stack([e, rows.draws.e[:, :N_PREFERENCE_DRAWS]])
    h = rows.h[:, None]
    wrong = (1.0 - f) * h
    moving, other, wrong = (_logits(f), e, h) if of == "class" else (_logits(e), f + wrong, wrong)
    one_shift = 0.5 * np.log(max(float(rows.s.sum()), float(rows.p.sum()), 2.0))
    found, gains = [], []
    for groups in groupings:
        names, odds, gain = [], [], np.zeros(f.shape[1])
        penalty = one_shift + np.log(len(groups.names))
        for j, name in enumerate(groups.names):
            here = groups.codes == j
            one = two_samples.fit_shift(moving[here], other[here], wrong[here], rows.s[here], rows.w[here])
            if one.gain[0] > penalty or len(groups.names) == 1:
                names.append(name)
                odds.append(float(np.exp(one.shift[0])))
                gain += one.gain - penalty
        if names:
            by = groups.by if len(groups.names) > 1 else ""
            found.append(Explanation(of, by, tuple(names), tuple(odds), float(gain[0])))
            gains.append(gain[1:])
    return max(found, key=_gain), np.max(gains, axis=0)


def _preferred(of_class: tuple[Explanation, Vector], of_labelling: tuple[Explanation, Vector]) -> str:
    """Return which explanation the labels prefer; "" if the fit or nearly all draws of it do not agree on one."""
    difference, drawn = of_class[0].gain - of_labelling[0].gain, of_class[1] - of_labelling[1]
    if drawn.size and difference >= PREFERRED_GAIN and np.quantile(drawn, 0.05) > 0:
        return "class"
    return "labelling" if drawn.size and difference <= -PREFERRED_GAIN and np.quantile(drawn, 0.95) < 0 else ""


class Estimate(NamedTuple):
    """An estimate with its interval; ends are NaN if the model has no uncertainty."""

    value: float
    low: float
    high: float

    def differs(self, other: float) -> bool:
        """Whether another number lies outside the interval, and differs by an amount that matters."""
        large = abs(other - self.value) >= LABEL_DIFFERENCE * max(self.value, other)
        return large and not self.low <= other <= self.high


class Extrapolation(NamedTuple):
    """What would be expected if the columns with many rows far outside the range of the fit were cut off at the range.

    The predictions depend on these columns outside the range if these numbers are others than those without a cut-off.
    """

    columns: tuple[str, ...]
    positives: float
    labels: float  # NaN without labels


def count_positives(rows: NewRows, level: float, rng: np.random.Generator) -> Estimate:
    """Return the number of positives if nothing changed: the sum of class probabilities, with its interval."""
    value = float(rows.w @ rows.f)
    if rows.draws is None:
        return _scaled(value, None, rows, level)
    drawn = _realised(rows.draws.f, rows.w, rng)
    return _scaled(value, drawn, rows, level)


def count_positives_after_shift(rows: NewRows, level: float, rng: np.random.Generator) -> Estimate:
    """Return the number of positives if the class prior changed and the labelling did not.

    The class logits are shifted to fit the labels; the propensity is held. Each draw of the parameters has its own
    shift.
    """
    assert rows.s is not None
    h = rows.h[:, None]
    found = two_samples.fit_shift(_logits(rows.f)[:, None], rows.e[:, None], h, rows.s, rows.w)
    q = _posterior(expit(_logits(rows.f)[:, None] + found.shift), rows.e[:, None], h, rows.s)
    value = float(rows.w @ q[:, 0])
    if rows.draws is None:
        return _scaled(value, None, rows, level)
    u, e = _logits(rows.draws.f), rows.draws.e
    found = two_samples.fit_shift(u, e, h, rows.s, rows.w)
    noise = rng.standard_normal(u.shape[1]) / np.sqrt(np.maximum(found.information, 1e-3))
    q = _posterior(expit(u + found.shift + noise), e, h, rows.s)
    drawn = _realised(q, rows.w, rng)
    return _scaled(value, drawn, rows, level)


def _realised(q: Matrix, w: Vector, rng: np.random.Generator) -> Vector:
    """Draw the number of positives for each column of probabilities; with many rows, from a normal distribution."""
    if w.size <= MAX_ROWS_DRAWN:
        return np.asarray(w @ (rng.random(q.shape) < q))
    return np.asarray(w @ q + rng.standard_normal(q.shape[1]) * np.sqrt(np.square(w) @ (q * (1.0 - q))))


def _posterior(f: Matrix, e: Matrix, h: Matrix, s: Vector) -> Matrix:
    """Return the probability that a row is positive, given whether it has any label."""
    with_label, without = f * e, f * (1.0 - e)
    others = (1.0 - f) * h, (1.0 - f) * (1.0 - h)
    labelled = with_label / np.maximum(with_label + others[0], 1e-300)
    return np.where(s[:, None] == 1, labelled, without / np.maximum(without + others[1], 1e-300))


def _scaled(value: float, drawn: Vector | None, rows: NewRows, level: float) -> Estimate:
    most = float(rows.w.sum()) * rows.scale
    if drawn is None:
        return Estimate(value * rows.scale, np.nan, np.nan)
    low, high = np.quantile(drawn * rows.scale, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    value *= rows.scale
    return Estimate(value, float(np.clip(min(low, value), 0.0, most)), float(np.clip(max(high, value), 0.0, most)))
