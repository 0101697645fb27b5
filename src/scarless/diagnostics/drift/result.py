"""The result of a check for drift: columns, labels, positives and a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from scarless.checks.options import check_choice
from scarless.diagnostics.drift.columns import MOVED_DISTANCE, ColumnShift, ColumnShifts
from scarless.diagnostics.drift.labels import Estimate, Explanation, Extrapolation, LabelCheck, LabelGroups
from scarless.diagnostics.scar._pair_tests import p_text
from scarless.diagnostics.scar.attribute_tests import aligned
from scarless.outside.extras import need
from scarless.outside.notices import counted, listed

FINE, REFIT, LABELLING, UNKNOWN = "fine", "refit", "look at the labelling", "unknown"
MIN_ROWS = 50  # with fewer new rows, and no change found, the verdict is unknown
MAX_DETECTABLE = 0.5  # a check of labels that detects only larger relative changes does not support "fine"
WRONG_COLUMNS = "rests on columns that must be corrected first"
COLUMNS_SHOWN, GROUPS_SHOWN, NAMES_SHOWN = 10, 3, 5


@dataclass(frozen=True, eq=False, repr=False)
class Drift:
    """Whether new rows still follow a fitted model; prints as text.

    Attributes
    ----------
    columns : ColumnShifts or None
        Comparison of the columns with the rows of the fit; None if the model has no reference rows.
    labels : LabelCheck or None
        Comparison of the labels with their predicted number; None without labels.
    positives : Estimate or None
        Expected number of positives among the new rows if nothing changed, with its interval. None if the fit cannot
        estimate it.
    positives_if_prior_changed : Estimate or None
        The same if the class prior changed and the labelling did not, estimated from the new labels.
    positives_in_fit : float or None
        Expected number of positives in as many rows of the fit.
    extrapolation : Extrapolation or None
        What would be expected without the values far outside the range of the fit; None if there are few.
    n_rows, n_labelled : int
        Number of new rows, and of new rows with a label (0 without labels).
    level : float
        Confidence level.
    notes : tuple of str
        What to keep in mind, such as columns of another type.
    """

    columns: ColumnShifts | None
    labels: LabelCheck | None
    positives: Estimate | None
    positives_if_prior_changed: Estimate | None
    positives_in_fit: float | None
    extrapolation: Extrapolation | None
    n_rows: int
    n_labelled: int
    level: float
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """What to do: "fine", "refit", "look at the labelling", or "unknown".

        "unknown": there are too few rows or labels to tell, or a column has another type or unit than in the fit.
        """
        return self._judgement[0]

    @property
    def reason(self) -> str:
        """The reason for the verdict."""
        return self._judgement[1]

    @cached_property
    def _judgement(self) -> tuple[str, str]:
        return judge(self)

    @property
    def must_be_corrected(self) -> bool:
        """Whether columns have values of another type or unit, so that predictions mean nothing."""
        return self.columns is not None and bool(self.columns.wrong_types or self.columns.other_units)

    def sentences(self) -> list[str]:
        """Return the findings as sentences, the verdict first."""
        return [
            f"Is the model still right? {self.headline}",
            self.finding_on_columns(),
            *self.findings_on_labels(),
            self.finding_on_positives(),
            *self.notes,
        ]

    @property
    def headline(self) -> str:
        """The verdict and its reason."""
        words = {
            FINE: "No sign against it.",
            REFIT: "Refit it.",
            LABELLING: "Look at the labelling.",
            UNKNOWN: "This cannot be said.",
        }
        return f"{words[self.verdict]} {self.reason}"

    def finding_on_columns(self) -> str:
        """Return a sentence on the columns that moved."""
        found = self.columns
        if found is None:
            return "Columns: not compared."
        moved = [f"{each.name} ({each.change})" for each in found.moved]
        if not moved:
            return f"Columns: none of {len(found.columns)} moved."
        far = [
            f"{each.outside:.0%} of the rows are far outside the range of {each.name} in the fit, {each.low:.4g} to "
            f"{each.high:.4g}"
            for each in found.far
        ]
        said = f" {listed(far, NAMES_SHOWN)}." if far else ""
        return f"Columns: {len(moved)} of {len(found.columns)} moved: {listed(moved, NAMES_SHOWN)}.{said}"

    def findings_on_labels(self) -> list[str]:
        """Return sentences on the labels, by total, and by groups in which they differ from the predictions."""
        found = self.labels
        if found is None:
            return ["Labels: there are none, so nothing shows whether they arrive as often as predicted."]
        if self.must_be_corrected:
            return [f"Labels: their predicted number {WRONG_COLUMNS}."]
        total = found.total
        lines = [
            f"Labels: {counted(total.observed[0], 'row has', 'rows have')} one; {total.predicted[0]:,.0f} were "
            f"predicted ({100 * self.level:.6g}% range {total.low[0]:,.0f} to {total.high[0]:,.0f})."
        ]
        uneven = [] if found.all_or_none else [each for each in found.differing if each is not total]
        for each in uneven[:GROUPS_SHOWN]:
            j = each.worst()
            lines.append(
                f"Where {each.by} is {each.names[j]}, {each.observed[j]:,.0f} rows have a label; "
                f"{each.predicted[j]:,.0f} were predicted ({each.low[j]:,.0f} to {each.high[j]:,.0f})."
            )
        if found.differing and not found.all_or_none:
            lines.append(self._explanation())
        return lines

    def _explanation(self) -> str:
        assert self.labels is not None
        found = self.labels
        both = (
            f"Two changes would explain this: the odds of being positive changed by a factor of "
            f"{_factors(found.of_class)}, or the odds that a positive gets a label by a factor of "
            f"{_factors(found.of_labelling)}."
        )
        if not found.preferred:
            return (
                f"{both} The labels cannot tell these apart, because they show only the product of both probabilities. "
                "Ask whether the labelling changed, or audit some rows."
            )
        better = "first" if found.preferred == "class" else "second"
        if found.limited is not None:
            return f"{both} The {better} is more plausible, because {_role(found)}. Ask or audit before you rely on it."
        return (
            f"{both} The labels fit the {better} explanation better (by {abs(found.preference):.1f} in "
            "log-likelihood). This relies on the form of the models, so ask or audit before you rely on it."
        )

    def finding_on_positives(self) -> str:
        """Return a sentence on the expected number of positives."""
        if self.positives is None:
            return "Positives: this fit cannot estimate their number."
        if self.must_be_corrected:
            return f"Positives: their number {WRONG_COLUMNS}."
        same = f"Positives: if nothing changed, expect {_count(self.positives, self.level)} of {self.n_rows:,} "
        same += "row" if self.n_rows == 1 else "rows"
        if self.positives_in_fit is not None:
            same += f" (in as many rows of the fit: {self.positives_in_fit:,.0f})"
        if self.positives_if_prior_changed is None:
            return f"{same}."
        return (
            f"{same}; if the class prior changed and the labelling did not, "
            f"{_count(self.positives_if_prior_changed, self.level)}."
        )

    def to_frame(self, part: str = "columns") -> Any:
        """Return the comparisons as a pandas DataFrame.

        Parameters
        ----------
        part : {"columns", "labels"}, default="columns"
            "columns": one row for each column of the table. "labels": one row for each group of rows.

        Returns
        -------
        pandas.DataFrame
        """
        check_choice(part, "part", ("columns", "labels"))
        pandas = need("pandas", "Drift.to_frame", extra="frames")
        if part == "columns":
            fields = [name for name in ColumnShift._fields if name != "name"]
            columns = () if self.columns is None else self.columns.columns
            rows = [{name: getattr(each, name) for name in fields} | {"moved": each.moved} for each in columns]
            index = pandas.Index([each.name for each in columns], name="column")
            return pandas.DataFrame(rows, index=index, columns=[*fields, "moved"])
        names = ("n_rows", "observed", "predicted", "low", "high")
        groups = self.label_groups()
        keys = [(each.by, name) for each in groups for name in each.names]
        index = pandas.MultiIndex.from_tuples(keys, names=["by", "group"]) if keys else None
        values = {name: np.concatenate([np.empty(0), *(getattr(each, name) for each in groups)]) for name in names}
        values |= {
            name: np.repeat([getattr(each, name) for each in groups], [len(each.names) for each in groups])
            for name in ("p_value", "p_adjusted", "differs")
        }
        return pandas.DataFrame(values, index=index)

    def label_groups(self) -> list[LabelGroups]:
        """Return all comparisons of labels: in total, by predicted probability, by time, and by column."""
        return [] if self.labels is None else self.labels.groups

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dict of plain values, for JSON; unknown numbers are None.

        Returns
        -------
        dict
        """
        found, labels = self.columns, self.labels
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "sentences": self.sentences(),
            "rows": self.n_rows,
            "labelled": None if labels is None else self.n_labelled,
            "level": self.level,
            "columns": None if found is None else [
                {name: _plain(getattr(each, name)) for name in (*ColumnShift._fields, "moved")}
                for each in found.columns
            ],
            "labels": None if labels is None else {
                "p_value": _plain(labels.p_value),
                "detectable_change": _plain(labels.detectable),
                "explanations": [_explanation_dict(each) for each in (labels.of_class, labels.of_labelling)],
                "preferred": labels.preferred,
                "groups": [_group_dict(each) for each in self.label_groups()],
            },
            "positives": None if self.positives is None else _plain(list(self.positives)),
            "positives_if_class_prior_changed": None
            if self.positives_if_prior_changed is None
            else _plain(list(self.positives_if_prior_changed)),
            "positives_in_fit": self.positives_in_fit,
            "extrapolation": None if self.extrapolation is None else {
                "columns": list(self.extrapolation.columns),
                "positives": _plain(self.extrapolation.positives),
                "labels": _plain(self.extrapolation.labels),
            },
            "notes": list(self.notes),
        }  # fmt: skip

    def column_cells(self, most: int | None = None) -> list[list[str]]:
        """Return the table of columns as texts, with a head."""
        head = ["column", "distance", "adjusted p", "missing then", "missing now", "moved", "largest change"]
        if self.columns is None:
            return [head]
        return [head] + [
            [
                each.name,
                f"{each.distance:.2f}",
                p_text(each.p_adjusted),
                f"{each.missing_old:.0%}",
                f"{each.missing_new:.0%}",
                "yes" if each.moved else "no",
                each.change,
            ]
            for each in self.columns.columns[:most]
        ]

    def label_cells(self, groups: Sequence[LabelGroups]) -> list[list[str]]:
        """Return a table of observed and predicted labels as texts, with a head."""
        head = ["group", "rows", "labelled", "predicted", "range", "adjusted p"]
        return [head] + [
            [
                name if each.by == name else f"{each.by}: {name}",
                f"{each.n_rows[j]:,}",
                f"{each.observed[j]:,.0f}",
                f"{each.predicted[j]:,.1f}",
                f"{each.low[j]:,.0f} to {each.high[j]:,.0f}",
                p_text(each.p_adjusted) if j == 0 else "",
            ]
            for each in groups
            for j, name in enumerate(each.names)
        ]

    def shown_groups(self) -> list[LabelGroups]:
        """Return the comparisons of labels to show: in total, by probability, by time, and by columns that differ."""
        every = self.label_groups()
        first = 0 if self.labels is None else len(every) - len(self.labels.columns)
        return [each for j, each in enumerate(every) if j < first or each.differs]

    def __str__(self) -> str:
        lines = self.sentences()
        if self.columns is not None and self.columns.columns:
            cells = self.column_cells(COLUMNS_SHOWN)
            lines += ["", *aligned([row[:-1] for row in cells])]
            left = len(self.columns.columns) - COLUMNS_SHOWN
            lines += [f"... and {left} more columns, in to_frame()"] if left > 0 else []
        if self.labels is not None:
            lines += ["", *aligned(self.label_cells(self.shown_groups()))]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(each)}</p>" for each in self.sentences()]
        tables = [self.column_cells(COLUMNS_SHOWN)] if self.columns is not None else []
        tables += [self.label_cells(self.shown_groups())] if self.labels is not None else []
        for head, *rows in tables:
            body = [_line(head, "th"), *(_line(row, "td") for row in rows)]
            parts.append(f"<table>{''.join(body)}</table>")
        return "".join(parts)


def _factors(found: Explanation) -> str:
    """Return the factors of an explanation in words."""
    words = [f"{each:.2f}" for each in found.odds]
    if not found.by:
        return words[0]
    each = [f"{word} where {found.by} is {name}" for word, name in zip(words, found.names, strict=True)]
    return listed(each, NAMES_SHOWN)


def _line(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _count(found: Estimate, level: float) -> str:
    if np.isnan(found.low):
        return f"about {found.value:,.0f}"
    return f"{found.value:,.0f} ({100 * level:.6g}% interval {found.low:,.0f} to {found.high:,.0f})"


def _plain(value: Any) -> Any:
    """Return a value for JSON: numbers that are not finite become None."""
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, str | bool | np.bool_):
        return value if isinstance(value, str) else bool(value)
    return float(value) if np.isfinite(value) else None


def _explanation_dict(found: Explanation) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else _plain(value) for name, value in found._asdict().items()}


def _group_dict(groups: LabelGroups) -> dict[str, Any]:
    found = {name: _plain(getattr(groups, name)) for name in ("observed", "predicted", "low", "high")}
    found |= {name: _plain(getattr(groups, name)) for name in ("p_value", "p_adjusted", "differs")}
    return {"by": groups.by, "names": list(groups.names), "rows": [int(each) for each in groups.n_rows], **found}


# --- the verdict


def judge(found: Drift) -> tuple[str, str]:
    """Return the verdict and its reason.

    A verdict needs a change that matters. Labels that differ from the predictions come first: they show that the model
    is wrong. Moved columns alone do not, because the predictions move with the columns. They matter if no labels check
    the model, and another number of positives is expected than in the fit, or this number depends on rows far outside
    the range of the fit. The verdict is then "unknown", because without labels a new fit would be no better.
    """
    columns, labels = found.columns, found.labels
    if columns is not None and found.must_be_corrected:
        return UNKNOWN, _unusable(columns)
    if labels is not None and labels.differing:
        return _judge_labels(labels)
    if _rests_on_far_rows(found):
        return UNKNOWN, _far(found)
    if _other_positives(found) and not _checked(found) and found.n_rows >= MIN_ROWS:
        return UNKNOWN, _unchecked(found)
    if found.n_rows < MIN_ROWS or (columns is None and not _checked(found)):
        few = "1 new row is" if found.n_rows == 1 else f"{found.n_rows:,} new rows are"
        why = few if found.n_rows < MIN_ROWS else "the labels and columns of these rows are"
        return UNKNOWN, f"No change was found, but {why} not enough to find one."
    return FINE, _fine(found)


def _checked(found: Drift) -> bool:
    """Return whether there are enough labels to notice a change that matters."""
    return found.labels is not None and found.labels.detectable <= MAX_DETECTABLE


def _other_positives(found: Drift) -> bool:
    """Return whether another number of positives is expected than in the fit, as far as is known."""
    if found.positives is None or found.positives_in_fit is None:
        return found.columns is not None and bool(found.columns.moved)
    return found.positives.differs(found.positives_in_fit)


def _rests_on_far_rows(found: Drift) -> bool:
    """Return whether the expected positives depend on rows far outside the range of the fit, and no labels check this.

    Labels check it if their predicted number without these values lies outside its range.
    """
    far, labels = found.extrapolation, found.labels
    if far is None or found.positives is None or not found.positives.differs(far.positives):
        return False
    return labels is None or not _checked(found) or bool(labels.total.low[0] <= far.labels <= labels.total.high[0])


def _unusable(columns: ColumnShifts) -> str:
    """Return which columns have values of another type or unit."""
    if columns.wrong_types:
        named = listed([repr(name) for name in columns.wrong_types], 3)
        return f"The values of {named} have another type than in the fit: correct them, and check again."
    words = [f"Column {each.name!r} is {each.change}: was its unit changed?" for each in columns.other_units]
    it = "it" if len(words) == 1 else "them"
    return f"{' '.join(words[:NAMES_SHOWN])} If so, correct {it}, and check again."


def _judge_labels(labels: LabelCheck) -> tuple[str, str]:
    total = labels.total
    if labels.all_or_none:
        has = "All rows have" if labels.all_or_none == "all" else "No row has"
        return LABELLING, f"{has} a label, but {total.predicted[0]:,.0f} of {total.n_rows[0]:,} rows were predicted to."
    what = _difference(labels)
    if not labels.preferred:
        return LABELLING, f"{what}, and the labels cannot tell whether the positives or the labelling changed."
    if labels.preferred == "class":
        verdict, changed, other = REFIT, "class", "labelling"
    else:
        verdict, changed, other = LABELLING, "labelling", "class prior"
    if labels.limited is None:
        cause = "class prior" if verdict == REFIT else "labelling"
        return verdict, f"{what}, in the way that a change of the {cause} would cause."
    return verdict, f"{what}. This points to the {changed} there, not to the {other}, because {_role(labels)}."


def _role(labels: LabelCheck) -> str:
    """Return which model uses the column to whose values a change of labels is limited."""
    assert labels.limited is not None
    if labels.preferred == "labelling":
        return f"{labels.limited.by} is an attribute of the labelling"
    return f"only the class model uses {labels.limited.by} (or the class model was wrong there from the start)"


def _difference(labels: LabelCheck) -> str:
    """Return how labels differ from the predictions: at some values of a column, in total, or in a group of rows."""
    uneven = [each for each in labels.columns if each.differs]
    found = labels.total if labels.total.differs and not uneven else (uneven or labels.differing)[0]
    places = [found.names.index(name) for name in labels.best.names] if labels.best.by == found.by else [found.worst()]
    observed, predicted = found.observed[places], found.predicted[places]
    rarer = "rarer than" if (observed < predicted).all() else "more frequent than"
    how = rarer if (observed < predicted).all() or (observed > predicted).all() else "not as"
    numbers = [f"{a:,.0f} instead of {b:,.0f}" for a, b in zip(observed, predicted, strict=True)]
    if found is labels.total:
        return f"Labels are {how} predicted: {numbers[0]}"
    if len(places) == 1:
        return f"Labels are {how} predicted where {found.by} is {found.names[places[0]]}: {numbers[0]}"
    named = [f"{found.names[j]} ({number})" for j, number in zip(places, numbers, strict=True)]
    return f"Labels are {how} predicted where {found.by} is {listed(named, NAMES_SHOWN)}"


def _far(found: Drift) -> str:
    assert found.extrapolation is not None
    assert found.positives is not None
    why = "there are no labels to check this" if found.labels is None else "the labels are too few to check this"
    return (
        f"Many rows are far outside the range of {listed(found.extrapolation.columns, 3)} in the fit, and the expected "
        f"number of positives depends on them ({found.positives.value:,.0f}; {found.extrapolation.positives:,.0f} if "
        f"these values were cut off at the range): {why}."
    )


def _unchecked(found: Drift) -> str:
    none = "there are no labels" if found.labels is None else "there are too few labels"
    what = f"The rows changed ({_moved_names(found.columns)})"
    if found.positives is None:
        return f"{what}, and {none} to check whether the model still holds for them."
    return (
        f"{what}, so that {found.positives.value:,.0f} positives are expected instead of "
        f"{found.positives_in_fit:,.0f}, and {none} to check this. Enter labels, or audit some rows."
    )


def _moved_names(columns: ColumnShifts | None) -> str:
    moved = [] if columns is None else columns.moved
    return listed([each.name for each in moved], 3) if moved else "several columns together"


def _fine(found: Drift) -> str:
    labels, moved = found.labels, found.columns is not None and bool(found.columns.moved)
    names = _moved_names(found.columns)
    if labels is None:
        rows = f"The rows changed ({names}), but" if moved else "The rows are like those of the fit, and"
        return (
            f"{rows} as many positives are expected as in the fit, within the error; without labels, a change of the "
            "class prior or of the labelling is not visible."
        )
    arrive = (
        f"Labels arrive as often as predicted ({labels.total.observed[0]:,.0f} and {labels.total.predicted[0]:,.0f}; "
        f"changes below about {labels.detectable:.0%} go unnoticed)"
    )
    if found.columns is None:
        return f"{arrive}; the columns were not compared."
    return f"{arrive}, {f'although the rows changed ({names})' if moved else 'and the rows are like those of the fit'}."


THRESHOLDS = (
    f"A column counts as moved if the adjusted p-value is below 0.05 and the distance at least {MOVED_DISTANCE:g}. "
    "Moved columns alone are no reason for a new fit, because the predictions move with them."
)
