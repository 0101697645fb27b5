"""Rows to look at, what drives both models, and the columns of the table: results of diagnostics as data of a page."""

from typing import Any

import numpy as np

from scarless.diagnostics.fit.effects import (
    ColumnEffect,
    ModelEffects,
    class_effects,
    class_strengths,
    labelling_effects,
)
from scarless.diagnostics.fit.rows import CLASS, LABEL, POSTERIOR, TopRows, is_text, top_rows
from scarless.diagnostics.fit.rows import Reason as Lift
from scarless.diagnostics.fit.subject import Subject, column_facts
from scarless.models import NaiveClassifier, SCARClassifier
from scarless.models.explaining import has_coefficients
from scarless.outside.notices import listed
from scarless.raw.origins import Origin
from scarless.report.fit.data import Column, Effect, Effects, Estimate, Ranked, RankedRow, Reason, Strength
from scarless.report.words import cell, number, p_sentence, text
from scarless.scale.raw_columns import MISSING

NAMED = 3  # columns in a verdict
NAMED_LEVELS, NAMED_PARTS = 12, 6  # levels of a column, and parts of a date, that are named
SIGNIFICANT = 0.05
NO_EFFECT = "Nothing, by assumption: every positive is as likely to be labelled as any other."

# --- rows

MEASURES = {
    LABEL: "chance of a label",
    POSTERIOR: "chance to be positive",
    CLASS: "chance to be positive, label or no label",
}
BY_LABELS = (
    "Ranked by the chance to have a label, which is all that the naive model knows. It is not the chance to be "
    "positive: rows that are seldom labelled come last although they may be positive."
)
BY_CLASS = (
    "Ranked by the chance to be positive by attributes alone: that a row has no label makes it less, by how much "
    "only its propensity tells. Give it as propensity=, one value per row."
)
CHECKED = "Rows that were checked are not listed: their class is known."


def make_ranked(subject: Subject, n_ranked: int, row_names: Any) -> Ranked:
    """Return the unlabelled rows that are most probably positive, and why."""
    top = top_rows(subject, n_ranked)
    names = row_names if row_names is not None else subject.row_names
    rows = tuple(
        RankedRow(
            rank=i + 1,
            position=int(at),
            name=None if names is None else text(_name(names[at])),
            probability=Estimate(
                number(top.value[i]), *((None, None) if top.ends is None else map(number, top.ends[i]))
            ),
            propensity=None if subject.e is None else number(subject.e[at]),
            reasons=tuple(map(_reason, top.reasons[i])) if top.reasons else (),
        )
        for i, at in enumerate(top.rows)
    )
    notes = [{LABEL: BY_LABELS, CLASS: BY_CLASS}.get(top.by, ""), top.why_no_ends, *_on_reasons(subject, top)]
    if top.by == POSTERIOR and subject.audited.any():
        notes.insert(0, CHECKED)
    return Ranked(MEASURES[top.by], top.n_open, rows, tuple(note for note in notes if note), *_positives(top))


def _positives(top: TopRows) -> tuple[Estimate | None, str]:
    """Return how many of the ranked rows are positive, and a sentence."""
    found = top.positives
    if found is None:
        return None, top.why_no_positives
    ends = (number(part[0]) for part in (found.expected, found.low, found.high))
    return Estimate(*ends) if found.told else None, found.sentence(listed=True)


def _reason(lift: Lift) -> Reason:
    words = isinstance(lift.value, tuple)
    value = ", ".join(f"'{text(word, 20)}'" for word in lift.value) if words else cell(lift.value)
    return Reason(text(lift.column), value, lift.contribution)


def _on_reasons(subject: Subject, top: TopRows) -> list[str]:
    if not top.rows.size:
        return []
    columns = list(subject.groups)
    if not top.reasons:
        return [f"No reasons: with {len(columns)} columns, and a model without coefficients, they take long."]
    how = (
        "coefficient times distance from the mean, over all that was made of the column"
        if has_coefficients(subject.inner)
        else "how far it falls if what was made of the column is put to its mean"
    )
    has_text = any(is_text(subject, column) for column in columns)
    shortened = " Of a longer text, only the words that lift them most are shown." if has_text else ""
    return [
        "Reasons: the columns that lift a row's log-odds of the class most above those of the average row. The number "
        f"in brackets is by how much: {how}. The model uses these columns; they need not be causes.{shortened}"
    ]


def _name(name: Any) -> str:
    return " / ".join(map(str, name)) if isinstance(name, tuple) else cell(name) if isinstance(name, float) else name


# --- what drives the class, and what the labelling


def make_effects(subject: Subject, rng: np.random.Generator) -> tuple[Effects, ...]:
    """Return both models' effects."""
    return _of_class(subject, rng), *_of_labelling(subject, labelling_effects(subject, rng))


def _of_class(subject: Subject, rng: np.random.Generator) -> Effects:
    naive = isinstance(subject.inner, NaiveClassifier)
    what, title = ("Having a label", "What drives the label") if naive else ("The class", "What drives the class")
    found = class_effects(subject, rng)
    if found is None:
        return _strengths(subject, rng, what, title)
    verdict = _verdict(found, what)
    if subject.silent:
        verdict += " In this fit the class is the same as having a label."
    elif subject.either_way:
        verdict = _swapped(verdict, found)
    return Effects("class", title, verdict, _shown(found), (), _notes(found))


def _strengths(subject: Subject, rng: np.random.Generator, what: str, title: str) -> Effects:
    """Return by how much columns move the class, of a model without coefficients."""
    found = class_strengths(subject, rng)
    if found is None:
        told = "This model has no coefficients, and too many columns to try one by one."
        return Effects("class", title, told, (), (), ())
    changes, n_rows = found
    note = (
        "This model has no coefficients, and so no odds ratios. Shown is by how much the log-odds of the class change, "
        f"on average over {n_rows} rows, if what was made of a column is put to its mean."
    )
    strengths = tuple(Strength(text(name), change) for name, change in changes.items())
    strongest = [each.column for each in strengths[:NAMED] if each.mean_change > 0]
    verdict = f"{what} depends most on {listed(strongest)}." if strongest else f"{what} depends on no column."
    return Effects("class", title, verdict, (), strengths, (note,))


def _of_labelling(subject: Subject, found: list[ModelEffects]) -> list[Effects]:
    """Return the effects of the propensity model: of one, or of one for each look."""
    title, what, inner = "What drives the labelling", "Whether a positive gets its label", subject.inner
    if subject.looks is not None:
        names = [f" at {text(name)}" for name in subject.looks.names] if len(found) > 1 else [""]
        return [
            Effects("labelling" if k == 0 else f"labelling-{k}", f"{title}{of}",
                    _verdict(each, f"{what}{of}") if each.columns else NO_EFFECT, _shown(each), (),
                    _notes(each) if each.columns else ())
            for k, (of, each) in enumerate(zip(names, found, strict=True))
        ]  # fmt: skip
    if found:
        (one,) = found
        verdict = _verdict(one, what)
        if subject.silent:
            verdict = "Not to be said: this fit takes every positive to have a label, whatever its columns hold."
        elif subject.either_way:
            verdict = _swapped(verdict, one)
        return [Effects("labelling", title, verdict, _shown(one), (), _notes(one))]
    if isinstance(inner, NaiveClassifier):
        verdict = "This model has no labelling: it takes every row without a label for negative."
    elif isinstance(inner, SCARClassifier) or hasattr(inner, "propensity_coef_"):
        verdict = NO_EFFECT
    elif subject.propensity is not None:
        verdict = "The propensity of each row was given, not estimated."
    else:
        verdict = "This model does not tell what the labelling depends on."
    return [Effects("labelling", title, verdict, (), (), ())]


def _shown(found: ModelEffects) -> tuple[Effect, ...]:
    return tuple(
        Effect(
            column=text(each.origin.column),
            piece=text(each.origin.piece),
            coef=each.coef,
            per_unit=Estimate(*each.per_unit),
            per_sd=Estimate(*each.per_sd),
            sd=number(each.sd),
            words=each.origin.words,
        )
        for each in found.columns
    )


def _verdict(found: ModelEffects, what: str) -> str:
    """Say what a model depends on: whether on anything, by a test of all columns together, and then on which.

    Without such a test by the clearest single column, adjusted for their number.
    """
    if not found.columns:
        return f"{what} depends on no column."
    joint = found.p_joint
    strongest, clear_ones = _names(found.columns), _names([each for each in found.columns if each.clear])
    clear = (found.p_single if joint is None else joint) < SIGNIFICANT
    if found.columns[0].per_sd.low is None or (clear_ones and clear):
        return f"{what} depends most on {listed((clear_ones or strongest)[:NAMED])}."
    how = "" if joint is None else f" (all columns together: {p_sentence(joint)})"
    if clear:
        return f"{what} {_unclear(strongest, how)}"
    if not clear_ones:
        return f"{what} depends on no column beyond what chance could make{how}."
    chance = f"{'among so many columns ' if len(strongest) > 1 else ''}chance could make that"
    but = "labels are explained about as well without" if found.rival and found.p_single < SIGNIFICANT else chance
    return f"{what} may depend on {listed(clear_ones[:NAMED])}, but {but}{how}."


def _names(effects: list[ColumnEffect]) -> list[str]:
    return list(dict.fromkeys(text(each.origin.column) for each in effects))


def _unclear(strongest: list[str], how: str) -> str:
    """Say that a model depends on columns of which none is clear by itself."""
    if len(strongest) == 1:
        return f"depends on {strongest[0]}{how.replace('all columns together: ', '')}, but how strongly is not clear."
    return (
        f"depends on the columns{how}, but it is not clear on which of them. The strongest are "
        f"{listed(strongest[:NAMED])}."
    )


def _swapped(verdict: str, found: ModelEffects) -> str:
    """Return a verdict on one of two models that see the same columns: labels do not say which of them it is."""
    joint = found.p_joint
    if joint is not None and joint >= SIGNIFICANT:
        return f"Labels depend on no column beyond what chance could make (all columns together: {p_sentence(joint)})."
    if not found.columns:
        return verdict
    how = "" if joint is None else f" ({p_sentence(joint)})"
    return (
        f"Labels depend on the columns{how}, but whether by the class or by the labelling they cannot say. In this "
        f"model the strongest are {listed(_names(found.columns)[:NAMED])}."
    )


def _notes(found: ModelEffects) -> tuple[str, ...]:
    notes = [
        "An odds ratio of 2 says that the odds double when the column grows by one unit, or by one standard deviation, "
        "with all other columns as they are; of a level, that they are twice those of the column's other levels. 1 is "
        "no effect."
    ]
    if any(each.per_unit.value is None for each in found.columns):
        notes.append("Where there is no ratio per unit, the column was made in a way that has no unit of its own.")
    if found.why:
        notes.append(found.why)
    return tuple(notes)


# --- columns


def make_columns(subject: Subject) -> tuple[Column, ...]:
    """Return each raw column with what became of it, in words."""
    followed = subject.model.origins_ is not None
    return tuple(
        Column(
            name=text(each.name),
            kind=text(each.kind),
            n_missing=each.n_missing,
            became=_became(each.pieces, each.kind) if followed else "cannot be followed",
            n_made=len(each.pieces),
            left_out=each.left_out,
            used_for=listed(["class"] * each.for_class + ["labelling"] * each.for_labelling) or "nothing",
        )
        for each in column_facts(subject)
    )


def _became(pieces: list[Origin], kind: str) -> str:
    """Return what was made of a column."""
    if not pieces:
        return "left out"
    told = []
    itself = [each for each in pieces if not each.piece]
    indicator = any(each.piece == MISSING for each in pieces) and kind == "number"
    levels = [each.piece for each in pieces if each.piece and not (indicator and each.piece == MISSING)]
    if itself:
        told.append(f"itself{_scaling(itself[0])}")
    if kind == "date" and levels:
        told.append(f"its {listed([text(each.replace('_', ' ')) for each in levels], NAMED_PARTS)}")
    elif kind == "text, many values" and levels:
        told.append(f"{len(levels)} columns by the parts of words in it")
    elif levels:
        told.append(f"a column for {listed([text(each, 40) for each in levels], NAMED_LEVELS)}")
    if indicator:
        told.append("a column that says whether it is missing, the gap filled")
    return "; ".join(told)


def _scaling(origin: Origin) -> str:
    if np.isnan(origin.unit):
        return ", changed by the preparation"
    return "" if origin.unit == 1.0 else f", in units of {origin.unit:.4g}"
