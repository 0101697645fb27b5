"""The ranked rows, the effects of columns, the groups of rows, and the columns of the table, as data of a report."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scarless.diagnostics.audits.yields import YieldCurve
from scarless.diagnostics.fit.effects import (
    ColumnEffect,
    ModelEffects,
    class_effects,
    class_strengths,
    labelling_effects,
)
from scarless.diagnostics.fit.rows import (
    CLASS,
    LABEL,
    POSTERIOR,
    RowReason,
    TopRows,
    is_text,
    shifted_priors,
    top_rows,
)
from scarless.diagnostics.fit.subject import Subject, describe_columns
from scarless.diagnostics.grouping import MAX_CATEGORIES, UnusableGroups
from scarless.diagnostics.missed import MissedPositives, missed_positives
from scarless.models import NaiveClassifier, SCARClassifier
from scarless.models.explaining import has_coefficients
from scarless.outside.notices import listed
from scarless.outside.plain_words import plain
from scarless.raw.origins import Origin
from scarless.raw.preparation import TableColumns
from scarless.report.fit.data import (
    Effect,
    Effects,
    GroupedShares,
    GroupShare,
    IntervalEstimate,
    Overlooked,
    PriorStep,
    Ranked,
    RankedRow,
    RankReason,
    ReportColumn,
    Strength,
    Yield,
)
from scarless.report.words import cell, number, p_sentence, text
from scarless.scale.preparing import FilePreparation
from scarless.scale.raw_columns import MISSING

MAX_COLUMNS_IN_VERDICT = 3
MAX_CATEGORIES_NAMED, MAX_DATE_PARTS_NAMED = 12, 6
SIGNIFICANT = 0.05  # p-value
NO_EFFECT = "No column: this model assumes that all positives are equally likely to get a label."

# --- rows

MEASURES = {
    LABEL: "probability of a label",
    POSTERIOR: "probability of being positive",
    CLASS: "probability of being positive, given the columns only",
}
RANKED_BY_LABEL = (
    "The rows are ranked by their probability of having a label, which is not their probability of being positive. "
    "Positives that are seldom labelled rank low."
)
RANKED_BY_CLASS = (
    "The rows are ranked by their class probability, which ignores that they have no label. A row that has no label, "
    "although positives like it usually get one, is less likely to be positive. To allow for this in Python, pass "
    "propensity= to model_report: the probability of a label for each row, if it is positive."
)
RANKED_BY_POSTERIOR = (
    "The rows are ranked by their probability of being positive, given their columns and given that they have no label."
)
EFFECTS_OF_PAIR = (
    "This section describes logistic models that were fitted beside the stack, because a stack has no coefficients. "
    "The estimates and probabilities of the other sections come from the stack."
)
REASONS_OF_PAIR = "The reasons come from logistic models that were fitted beside the stack, which ranks the rows. "
AUDITED_NOT_LISTED = "Audited rows are not listed: their class is known."


def make_ranked(subject: Subject, n_ranked: int, row_names: Any, n_listed: int = 0) -> Ranked:
    """Return the unlabelled rows with the highest probability of being positive, with the main reasons.

    `n_ranked` rows are shown; up to `n_listed` rows can be listed.
    """
    top = top_rows(subject, n_ranked, max(n_listed - n_ranked, 0))
    names = row_names if row_names is not None else subject.row_names
    rows = tuple(
        RankedRow(
            rank=i + 1,
            position=int(at),
            name=None if names is None else text(_name(names[at])),
            probability=IntervalEstimate(
                number(top.value[i]), *((None, None) if top.ends is None else map(number, top.ends[i]))
            ),
            propensity=None if subject.e is None else number(subject.e[at]),
            reasons=tuple(map(_reason, top.reasons[i])) if top.reasons else (),
        )
        for i, at in enumerate(top.rows)
    )
    ranked_by = {LABEL: RANKED_BY_LABEL, CLASS: RANKED_BY_CLASS, POSTERIOR: RANKED_BY_POSTERIOR}[top.by]
    notes = [ranked_by, _this_model(top.why_no_ends, subject)] if rows else []
    notes += _notes_on_reasons(subject, top)
    if 0 < top.n_reasons < len(rows):
        notes.append(f"Only the first {top.n_reasons} rows have main reasons: computing more would take too long.")
    if top.by == POSTERIOR and subject.audited.any():
        notes.insert(0, AUDITED_NOT_LISTED)
    positives, expected = _positives(top, n_ranked)
    can_shift = top.by == POSTERIOR and bool(rows) and (top.positives is None or top.positives.informative)
    return Ranked(
        MEASURES[top.by],
        top.n_open,
        rows[:n_ranked],
        tuple(note for note in notes if note),
        positives,
        expected,
        rows[n_ranked:],
        _curve(top, n_ranked),
        tuple(PriorStep(*each) for each in shifted_priors(subject)) if can_shift else (),
    )


def _this_model(note: str, subject: Subject) -> str:
    """Return a note with "This model" instead of the name of the Python class."""
    return note.replace(type(subject.inner).__name__, "This model", 1)


def _positives(top: TopRows, n_ranked: int) -> tuple[IntervalEstimate | None, str]:
    """Return the expected number of positives among the ranked rows, and a sentence about it."""
    found = top.positives
    if found is None:
        return None, top.why_no_positives
    at = _place(found, n_ranked)
    ends = (number(part[at]) for part in (found.expected, found.low, found.high))
    return IntervalEstimate(*ends) if found.informative else None, found.sentence(at)


def _place(found: YieldCurve, n_ranked: int) -> int:
    """Return the place of a number of rows in a yield curve; the last if there are fewer rows."""
    return int(np.flatnonzero(found.n == min(n_ranked, found.n.max()))[0])


def _curve(top: TopRows, n_ranked: int) -> Yield | None:
    """Return the positives to expect for several numbers of rows, also in other orders."""
    found = top.positives
    if found is None:
        return None
    names = ("expected", "low", "high", "random", "naive", "naive_low", "naive_high")
    values = {name: getattr(found, name) for name in names}
    return Yield(
        tuple(map(int, found.n)),
        **{name: () if value is None else tuple(map(float, value)) for name, value in values.items()},
        informative=found.informative,
        comparison=" ".join(filter(None, [found.comparison(_place(found, n_ranked)), found.why_no_naive])),
        assumption=found.assumption,
    )


def _reason(reason: RowReason) -> RankReason:
    words = isinstance(reason.value, tuple)
    value = ", ".join(f"'{text(word, 20)}'" for word in reason.value) if words else cell(reason.value)
    return RankReason(text(reason.column), value, reason.contribution)


def _notes_on_reasons(subject: Subject, top: TopRows) -> list[str]:
    if not top.rows.size:
        return []
    columns, explaining = list(subject.groups), subject.of_reasons
    if not top.reasons:
        return [
            "Reasons are not shown, because computing them would take too long: the model has no coefficients and "
            f"{len(columns)} columns."
        ]
    how = (
        "the coefficient of the column times the difference of its value from the mean. If a column was encoded as "
        "several columns, their contributions are added"
        if has_coefficients(explaining.inner)
        else "the decrease of the log-odds if the value is replaced by the mean of the column"
    )
    has_text = any(is_text(subject, column) for column in columns)
    shortened = " Of long texts, only the words with the largest effect are shown." if has_text else ""
    measure = "probability of having a label" if top.by == LABEL else "class probability"
    given = (
        " The class probability is the probability of being positive that follows from the columns alone, ignoring "
        "that the row has no label."
        if top.by == POSTERIOR
        else ""
    )
    beside = "" if explaining is subject else REASONS_OF_PAIR
    return [
        f"{beside}The main reasons are the columns that most increase the {measure} of the row, compared with the "
        f"average row.{given} The number in brackets is the contribution of the column to the log-odds: {how}. A main "
        f"reason is not necessarily a cause of being positive.{shortened}"
    ]


def _name(name: Any) -> str:
    return " / ".join(map(str, name)) if isinstance(name, tuple) else cell(name) if isinstance(name, float) else name


# --- effects of columns


def make_effects(subject: Subject, rng: np.random.Generator) -> tuple[Effects, ...]:
    """Return the effects of the class model, then those of the propensity model."""
    described = subject.of_effects
    effects = (_class_effects(described, rng), *_labelling_effects(described, labelling_effects(described, rng)))
    if described is subject:
        return effects
    return tuple(replace(each, notes=(EFFECTS_OF_PAIR, *each.notes)) for each in effects)


def _class_effects(subject: Subject, rng: np.random.Generator) -> Effects:
    naive = isinstance(subject.inner, NaiveClassifier)
    what, title = "Whether a row is positive", "What drives the class"
    if naive:
        what, title = "Whether a row has a label", "What drives the label"
    found = class_effects(subject, rng)
    if found is None:
        return _strengths(subject, rng, what, title)
    verdict = _verdict(found, what)
    if subject.is_uninformative:
        verdict += " In this fit, a row is positive exactly if it has a label."
    elif subject.may_be_swapped:
        verdict = _swappable_verdict(verdict, found)
    return Effects("class", title, verdict, _shown(found), (), _notes(found, subject))


def _strengths(subject: Subject, rng: np.random.Generator, what: str, title: str) -> Effects:
    """Return the mean change of the class logit due to each column, for a model without coefficients."""
    found = class_strengths(subject, rng)
    if found is None:
        verdict = "Not available: the model has no coefficients, and too many columns to compute the effect of each."
        return Effects("class", title, verdict, (), (), ())
    changes, n_rows = found
    note = (
        "This model has no coefficients and therefore no odds ratios. The table shows how much the log-odds of being "
        f"positive change, on average over {n_rows} rows, if the values of a column are replaced by its mean."
    )
    strengths = tuple(Strength(text(name), change) for name, change in changes.items())
    strongest = [each.column for each in strengths[:MAX_COLUMNS_IN_VERDICT] if each.mean_change > 0]
    verdict = f"{what} depends most on {listed(strongest)}." if strongest else f"{what} depends on no column."
    return Effects("class", title, verdict, (), strengths, (note,))


def _labelling_effects(subject: Subject, found: list[ModelEffects]) -> list[Effects]:
    """Return the effects of the propensity model, or of one propensity model for each look."""
    title, what, inner = "What drives the labelling", "Whether a positive gets a label", subject.inner
    if subject.looks is not None:
        names = [f" at {text(name)}" for name in subject.looks.names] if len(found) > 1 else [""]
        return [
            Effects("labelling" if k == 0 else f"labelling-{k}", f"{title}{of}",
                    _verdict(each, f"{what}{of}") if each.columns else NO_EFFECT, _shown(each), (),
                    _notes(each, subject) if each.columns else ())
            for k, (of, each) in enumerate(zip(names, found, strict=True))
        ]  # fmt: skip
    if found:
        (one,) = found
        verdict = _verdict(one, what)
        if subject.is_uninformative:
            verdict = "Not available: in this fit, every positive has a label, whatever its columns contain."
        elif subject.may_be_swapped:
            verdict = _swappable_verdict(verdict, one)
        return [Effects("labelling", title, verdict, _shown(one), (), _notes(one, subject))]
    if isinstance(inner, NaiveClassifier):
        verdict = "This model has no labelling model: it treats every row without a label as negative."
    elif isinstance(inner, SCARClassifier) or hasattr(inner, "propensity_coef_"):
        verdict = NO_EFFECT
    elif subject.propensity is not None:
        verdict = "The probability of a label for each positive row was given, not estimated."
    else:
        verdict = "Not available: this model has no coefficients for the labelling."
    return [Effects("labelling", title, verdict, (), (), ())]


def _shown(found: ModelEffects) -> tuple[Effect, ...]:
    return tuple(
        Effect(
            column=text(each.origin.column),
            piece=text(each.origin.piece),
            coef=each.coef,
            per_unit=IntervalEstimate(*each.per_unit),
            per_sd=IntervalEstimate(*each.per_sd),
            sd=number(each.sd),
            words=each.origin.words,
            date=each.origin.date,
        )
        for each in found.columns
    )


def _verdict(found: ModelEffects, what: str) -> str:
    """Return which columns a model depends on, according to a joint test of all columns.

    Without a joint test, the smallest adjusted p-value of a single column decides.
    """
    if not found.columns:
        return f"{what} depends on no column."
    joint = found.p_joint
    strongest, clear_ones = _names(found.columns), _names([each for each in found.columns if each.clear])
    clear = (found.p_single if joint is None else joint) < SIGNIFICANT
    if found.columns[0].per_sd.low is None or (clear_ones and clear):
        return f"{what} depends most on {listed((clear_ones or strongest)[:MAX_COLUMNS_IN_VERDICT])}."
    how = "" if joint is None else f" (all columns together: {p_sentence(joint)})"
    if clear:
        return f"{what} {_unclear(strongest, how)}"
    if not clear_ones:
        return f"{what} does not detectably depend on any column{how}."
    chance = f"{'with so many columns, ' if len(strongest) > 1 else ''}this may be due to chance"
    without = "a model without these columns fits about as well"
    but = without if found.rival and found.p_single < SIGNIFICANT else chance
    return f"{what} may depend on {listed(clear_ones[:MAX_COLUMNS_IN_VERDICT])}, but {but}{how}."


def _names(effects: list[ColumnEffect]) -> list[str]:
    return list(dict.fromkeys(text(each.origin.column) for each in effects))


def _unclear(strongest: list[str], how: str) -> str:
    """Return the end of a verdict on columns that are significant together but not one by one."""
    if len(strongest) == 1:
        how = how.replace("all columns together: ", "")
        return f"depends on {strongest[0]}{how}, but it is not clear how strongly."
    return (
        f"depends on the columns{how}, but it is not clear on which columns. The strongest are "
        f"{listed(strongest[:MAX_COLUMNS_IN_VERDICT])}."
    )


def _swappable_verdict(verdict: str, found: ModelEffects) -> str:
    """Return the verdict on one of two models that use the same columns and may be swapped."""
    joint = found.p_joint
    if joint is not None and joint >= SIGNIFICANT:
        return f"The labels do not detectably depend on any column (all columns together: {p_sentence(joint)})."
    if not found.columns:
        return verdict
    how = "" if joint is None else f" ({p_sentence(joint)})"
    return (
        f"The labels depend on the columns{how}, but the labels do not show whether the columns affect the class or "
        f"the labelling. In this model, the strongest columns are "
        f"{listed(_names(found.columns)[:MAX_COLUMNS_IN_VERDICT])}."
    )


def _notes(found: ModelEffects, subject: Subject) -> tuple[str, ...]:
    notes = [
        "An odds ratio of 2 means that the odds double if the column increases by one unit, or by one standard "
        "deviation, while all other columns stay the same. The odds ratio of a category compares it with the "
        "average of the other categories of the column. A ratio of 1 means no effect."
    ]
    if any(each.per_unit.value is None for each in found.columns):
        notes.append("A column without an odds ratio per unit was transformed, so it has no natural unit.")
    return (*notes, _this_model(found.why, subject)) if found.why else tuple(notes)


# --- columns


def make_columns(subject: Subject) -> tuple[ReportColumn, ...]:
    """Return each raw column with a description of how it was encoded."""
    followed = subject.model.origins_ is not None
    return tuple(
        ReportColumn(
            name=text(each.name),
            kind=text(each.kind),
            n_missing=each.n_missing,
            became=_became(each.pieces, each.kind, _replacement(subject)) if followed else "not known",
            n_made=len(each.pieces),
            left_out=each.left_out,
            used_for=listed(["class"] * each.for_class + ["labelling"] * each.for_labelling) or "nothing",
        )
        for each in describe_columns(subject)
    )


def _replacement(subject: Subject) -> str:
    """Return the words for the value that replaces missing numbers, or "" if it is unknown."""
    if any(isinstance(step, TableColumns) for step in subject.preparation_steps):
        return " by the median"
    return " by the mean" if any(isinstance(step, FilePreparation) for step in subject.preparation_steps) else ""


def _became(pieces: list[Origin], kind: str, replacement: str) -> str:
    """Return a description of how a column was encoded."""
    if not pieces:
        return "left out"
    parts = []
    unchanged = [each for each in pieces if not each.piece]
    indicator = any(each.piece == MISSING for each in pieces) and kind == "number"
    names = [each.piece for each in pieces if each.piece and not (indicator and each.piece == MISSING)]
    if unchanged:
        parts.append(f"number{_scaling(unchanged[0])}")
    if kind == "date" and names:
        parts.append(listed([text(each.replace("_", " ")) for each in names], MAX_DATE_PARTS_NAMED))
    elif kind == "text, many values" and names:
        parts.append(f"{len(names)} columns computed from the words of the text")
    elif names:
        indicators = "0/1 column for" if len(names) == 1 else "0/1 columns for"
        parts.append(f"{indicators} {listed([text(each, 40) for each in names], MAX_CATEGORIES_NAMED)}")
    if indicator:
        parts.append(f"missing values replaced{replacement}; 0/1 column for missing values")
    return "; ".join(parts)


def _scaling(origin: Origin) -> str:
    if np.isnan(origin.unit):
        return ", transformed"
    return "" if origin.unit == 1.0 else f", divided by {origin.unit:.4g}"


# --- positives without a label, in groups of rows

MAX_COLUMNS_OF_GROUPS = 8  # columns that define groups by default; a page with more is too long
MANY_ROWS, DRAWS, FEW_DRAWS = 100_000, 400, 100  # tables with many rows get few draws, for speed


class RowsInFiles(NamedTuple):
    """All rows of a fit to files, of which the report shows a sample; labels, audits and weights are column names."""

    X: Any
    s: Any
    audit: str | None
    sample_weight: str | None
    n_rows: int


def make_overlooked(subject: Subject, by: Sequence[Any], rows: RowsInFiles | None = None) -> Overlooked:
    """Return the shares of positives without a label in the groups of each column; no columns if that is not available.

    `by` has names of raw columns, or a Series with the group of each row. If it is empty, the propensity attributes and
    the columns with few categories define the groups. With `rows`, the shares are for these rows.
    """
    names = list(by) or _default_groups(subject)
    none = IntervalEstimate(None)
    if isinstance(subject.inner, NaiveClassifier) or subject.e is None:
        return Overlooked(none, (), ("Not available: this model does not estimate which positives have no label.",))
    if not names:
        return Overlooked(none, (), ("No column has few categories. Name columns with --by.",))
    found, notes = _missed(subject, names, rows)
    if found is None:
        return Overlooked(none, (), tuple(notes))
    columns = tuple(_grouped(found, name, k) for k, name in enumerate(dict.fromkeys(found.by)))
    notes += found.notes
    if rows is not None and rows.n_rows > subject.n_rows:
        notes.insert(0, f"This section is about all {rows.n_rows:,} rows of the files, not only about the sample.")
    if subject.may_be_swapped:
        notes.insert(0, "Do not rely on these shares: the class model and the labelling model may be swapped.")
    return Overlooked(_estimate(found.total["missed_share"]), columns, tuple(plain(note) for note in notes))


def _missed(subject: Subject, names: list[Any], rows: RowsInFiles | None) -> tuple[MissedPositives | None, list[str]]:
    """Return the shares, and notes on columns that were left out because their groups cannot be compared."""
    n_rows = subject.n_rows if rows is None else rows.n_rows
    notes: list[str] = []
    while names:
        given: dict[str, Any] = {"level": subject.level, "n_draws": FEW_DRAWS if n_rows > MANY_ROWS else DRAWS}
        try:
            if rows is not None:
                given |= {"audit": rows.audit, "sample_weight": rows.sample_weight}
                return missed_positives(subject.model, rows.X, rows.s, names, **given), notes
            given |= {"audit": subject.audit, "sample_weight": subject.weights, "propensity": subject.propensity}
            return missed_positives(subject.model, subject.X, subject.labels, names, **given), notes
        except UnusableGroups as error:
            notes.append(str(error).replace("by: ", "Groups are not shown: ", 1))
            names = [name for name in names if str(getattr(name, "name", name)) != error.by]
    return None, notes


def _default_groups(subject: Subject) -> list[str]:
    """Return the raw columns that define groups by default."""
    if not hasattr(subject.X, "iloc"):
        return []
    used = {subject.origins[j].column for j in subject.labelling_columns}
    found = []
    for name in dict.fromkeys(subject.raw_names):
        values = subject.X[name]
        if str(name) not in subject.groups or values.nunique(dropna=False) < 2:
            continue
        few = not _is_numeric(values) and values.nunique() <= MAX_CATEGORIES
        if (str(name) in used and (_is_numeric(values) or few)) or few:
            found.append(name)
    return sorted(found, key=lambda name: str(name) not in used)[:MAX_COLUMNS_OF_GROUPS]


def _is_numeric(values: Any) -> bool:
    return bool(values.dtype.kind in "fiu") if hasattr(values.dtype, "kind") else False


def _grouped(found: MissedPositives, by: str, k: int) -> GroupedShares:
    groups = tuple(
        GroupShare(
            name=text(found.groups[j]),
            rows=int(found.n_rows[j]),
            labelled=int(found.n_labelled[j]),
            positives=_estimate(found.positives.at(j)),
            missed=_estimate(found.missed_share.at(j)),
            differs=bool(found.p_adjusted[j] < SIGNIFICANT),
        )
        for j in found.of(by)
    )
    return GroupedShares(f"groups-{k}", text(by), text(found.finding(by), 1000), groups)


def _estimate(found: tuple[float, float, float]) -> IntervalEstimate:
    return IntervalEstimate(*map(number, found))
