"""The answer in words, and what stands in its way: said first."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logit

from scarless.diagnostics.fit.subject import NEARLY_ALL_LABELLED, WIDE_INTERVAL, Subject
from scarless.diagnostics.leaks import Leak, advice
from scarless.diagnostics.uncertainty.identifiability import CONTRADICTED
from scarless.models import (
    NaiveClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
)
from scarless.models.summary import FEW_LABELS
from scarless.outside.notices import listed
from scarless.report.fit.data import Answer, Check, Estimate, find
from scarless.report.fit.looks import cautions
from scarless.report.words import about, count, number, share, share_range, text

WIDE = WIDE_INTERVAL
MOST_OF_POSSIBLE = 0.75  # share of what was possible, from which an interval says next to nothing
# How often nominal 95% intervals of the class prior covered (benchmarks/README.md, "elsewhere"), columns named.
COVERED: dict[type, str] = {SARStackingClassifier: "96%", SAREMClassifierCV: "83%", SAREMClassifier: "83%"}
COVERED_NAMELESS: dict[type, str] = {SARStackingClassifier: "96%"}  # of other models it was not measured
NEARLY_ALL_POSITIVE = 0.95  # class prior
FLAT_LOGITS = 0.2  # distance of most rows' logits below which they are as good as one
CERTAIN, TOO_MANY = 0.999, 0.05  # a chance, and the share of rows that may have it without a label
_NEAREST = 1e-12  # to 0 and 1
SILENT = "how many more are positive, this fit does not tell: it takes every positive to have a label already"
OTHER_ROWS = 0.25  # by which the share of labelled rows may differ from that of the fit
MOST_NAMED = 6  # names in a sentence


def make_answer(subject: Subject, identifiability: Any, checks: tuple[Check, ...]) -> Answer:
    """Return how many positives there are, with what to know first; `identifiability` is None where none is known.

    Where the fit says nothing of positives without a label, there is no number.
    """
    n, labelled = float(subject.weight.sum()), float(subject.weight @ subject.s)
    right, leaks = subject.right_labels, subject.leaks
    known = labelled / n if subject.rates_are_none else 0.0
    naive = isinstance(subject.inner, NaiveClassifier)  # whose class prior is a share of labels
    prior, frequency = None if naive else number(subject.model.class_prior_), number(subject.model.label_frequency_)
    interval, why_none = subject.interval_of("class_prior_interval")
    found = Estimate(None if prior is None else max(prior, known))
    if interval is not None:
        found = Estimate(found.value, *subject.prior_interval())
    told = (*_cautions(subject, found, frequency, identifiability), *_of_the_labels(checks))
    frequencies, _ = subject.interval_of("label_frequency_interval")
    labelled_share = Estimate(frequency, *((None, None) if frequencies is None else map(number, frequencies)))
    nothing = subject.silent
    if nothing:
        found, labelled_share = Estimate(None), Estimate(None)
    missing = _scaled(found, n, right)
    return Answer(
        n_rows=subject.n_rows,
        weight=n,
        labelled=labelled,
        share=found,
        positives=_scaled(found, n, 0.0),
        missing=missing,
        label_frequency=labelled_share,
        cautions=(*cautions(subject), *told),
        sentence=_sentence(subject, n, labelled, found, missing, reservation(subject.either_way, leaks)),
        notes=tuple(_notes(subject, why_none, nothing=nothing)),
        wrong=labelled - right,
    )


def _scaled(found: Estimate, n: float, less: float) -> Estimate:
    return Estimate(
        *(None if value is None else max(value * n - less, 0.0) for value in (found.value, found.low, found.high))
    )


def _sentence(subject: Subject, n: float, labelled: float, found: Estimate, missing: Estimate, reserved: str) -> str:
    rows = f"{count(n)} rows" if n == subject.n_rows else f"{count(n)} (rows counted by their weights)"
    start = f"{count(labelled)} of {rows} {'has' if labelled == 1 else 'have'} a label"
    if not subject.rates_are_none:
        start += f", about {about(max(labelled - subject.right_labels, 0.0))} of them a wrong one"
    if isinstance(subject.inner, NaiveClassifier):
        return f"{start}; this model takes all others for negative, and so says nothing of what is missing."
    if subject.silent:
        return f"{start}; {SILENT}."
    if found.value is None:
        return f"{start}; how many are positive, this model does not say."
    if found.low is None or found.high is None:
        range_ = f"{share(found.value)} of rows; how sure that is, is not known"
    else:
        range_ = f"{share_range(found.low, found.high)} of rows"
    return f"{start}; we estimate {about(found.value * n)} positives ({range_}){reserved}; {_rest(missing)}."


def _rest(missing: Estimate) -> str:
    """Say how many positives have no label; where the estimate is none at all, how many there may be."""
    left = about(missing.value or 0.0)
    if left != "0":
        return f"about {left} {'is' if left == '1' else 'are'} missing"
    most = about(missing.high or 0.0)
    return f"up to {most} may be missing" if most != "0" else "no label is missing"


def reservation(either_way: bool, leaks: Sequence[Leak]) -> str:
    """Return what follows a number that stands only if something is so that no label shows; mostly nothing."""
    if either_way:
        return ", not to be relied on"
    if not leaks:
        return ""
    return f", not to be relied on if {recorded(leaks)} recorded because of the label"


def recorded(leaks: Sequence[Leak]) -> str:
    """Return the names of leaks with a verb."""
    return f"{listed([text(leak.column) for leak in leaks], MOST_NAMED)} {'is' if len(leaks) == 1 else 'are'}"


def _notes(subject: Subject, why_none: str, *, nothing: bool) -> list[str]:
    notes = []
    if why_none and not isinstance(subject.inner, NaiveClassifier):
        notes.append(f"No interval: {why_none}")
    elif not why_none and not nothing:
        notes.append(f"Intervals are meant to cover with a probability of {share(subject.level)}.{_measured(subject)}")
    if subject.weights is not None:
        notes.append("Rows are counted by their weights.")
    if subject.grouped:
        notes.append(
            f"Rows belong to {count(subject.n_groups)} groups. Intervals account for rows of a group that depend on "
            "each other; the tests below do not."
        )
    if subject.audited.any():
        found = float(subject.weight @ ((subject.audit == 1) & (subject.s == 0)))
        notes.append(f"{count(found)} of the positives without a label are known by name: audits found them.")
    return notes


def _measured(subject: Subject) -> str:
    """Say how often intervals of this kind covered where the truth was known, and what a plain fit's leave out."""
    inner = subject.inner
    if subject.looks is not None or subject.level != 0.95 or isinstance(inner, SCARClassifier):
        return ""
    kind = next((kind for kind in COVERED if type(inner) is kind), None)
    if kind is None:
        return ""
    if subject.either_way:
        return " It does not allow for models that have changed places."
    if getattr(inner, "propensity_attributes", None) is None:
        covered = COVERED_NAMELESS.get(kind, "")
        told = f" In 260 tests on tables with known classes and no column named, such intervals covered in {covered}."
        return told if covered else " How often such intervals cover where no column is named was not measured."
    plain = kind is SAREMClassifier and not hasattr(inner, "recalibration_")
    covered = "64 to 77%" if plain else COVERED[kind]
    told = f" In 260 tests on tables with known classes and named columns, such intervals covered in {covered}."
    if plain:
        told += (
            " This one leaves out that the class may not be linear and that the penalty was not chosen: --model search "
            "and --model stack allow for both."
        )
    return told


def _cautions(subject: Subject, found: Estimate, frequency: float | None, identifiability: Any) -> list[str]:
    """Return why the number may not be believed, in plain words; the gravest first."""
    inner = subject.inner
    told = [] if not isinstance(inner, NaiveClassifier) else [
        "This model takes every row without a label for negative. It tells who gets a label, not who is positive."
    ]  # fmt: skip
    told += [f"Column {text(leak.column)} {leak.remark}. {advice()}" for leak in subject.leaks]
    told += _of_the_fit(inner, frequency, found)
    told += _of_the_data(found, identifiability, subject)
    told += _of_the_ranking(subject)
    labelled = int(subject.s.sum())
    if labelled == subject.n_rows:
        told.append("Every row has a label: there is nothing left to estimate.")
    elif labelled < FEW_LABELS:
        told.insert(
            0,
            f"Only {labelled} rows have a label. Rely on the order of the rows, not on the number of positives. "
            "What would help: name the columns that drive the labelling, or check about 30 rows without "
            "a label.",
        )
    if isinstance(inner, SARStackingClassifier) and not subject.labelling_columns:
        told.append(
            "No column is named that drives the labelling. The number assumes that surer positives are labelled more "
            "often, which the labels cannot confirm."
        )
    elif _assumes_one_propensity(subject) and not isinstance(inner, NaiveClassifier) and not subject.told_apart:
        told.append(
            "The number assumes that every positive is as likely to be labelled as any other. If some kinds of "
            "positives are labelled more often, it is wrong, and nothing here would show it."
        )
    told += _of_other_rows(subject, frequency)
    return list(dict.fromkeys(told))


def _of_the_fit(inner: Any, frequency: float | None, found: Estimate) -> list[str]:
    told = []
    if not getattr(inner, "converged_", True):
        told.append("The fit did not converge: the numbers are those of a search that was broken off.")
    higher = getattr(inner, "higher_optimum_", None)
    if higher is not None:
        told.append(
            "The fit is stuck below the best one: another start leads higher, to "
            f"{share(number(higher.class_prior))} positives. Fit again from several starts (n_starts=5 in Python)."
        )
    if frequency is not None and frequency > NEARLY_ALL_LABELLED and not isinstance(inner, NaiveClassifier):
        told.append(
            "The model finds that all positives have a label already. That is also what a model says when it cannot "
            "tell; then it is no better than one that takes every unlabelled row for negative."
        )
    if found.value is not None and found.value > NEARLY_ALL_POSITIVE:
        told.append(
            "The model finds that nearly every row is positive: the labelling explains the labels by itself. That is "
            "rarely true; fewer columns for the labelling may help."
        )
    return told


def _of_the_data(found: Estimate, identifiability: Any, subject: Subject) -> list[str]:
    told = []
    known = subject.labelled_share
    if found.low is not None and found.high is not None:
        width = found.high - found.low
        if width > WIDE or width > MOST_OF_POSSIBLE * (1.0 - known):
            told.append(
                "The data hardly tell how many positives there are: any share of "
                f"{share_range(found.low, found.high)} of rows would fit the labels about as well."
            )
    if identifiability is not None and identifiability.swapped is not None:
        told.append(
            "Class and labelling are explained by the same columns, so that the two could be swapped: the labels "
            f"would fit as well with {share(number(identifiability.swapped))} positives. Say which columns drive the "
            "labelling."
        )
    elif identifiability is not None and identifiability.verdict == "not identified":
        told.append("The data do not settle how many positives there are: the number rests on the form of the models.")
    elif identifiability is not None and identifiability.verdict == CONTRADICTED:
        told.append(
            "The labels contradict the form of the models, on which the number of positives rests. --model stack does "
            "not need the class to be linear."
        )
    elif subject.either_way:
        told.append(
            "Every column may drive the labelling as well as the class; which of the two it is, is partly a matter of "
            "form. The number is much less sure than with the right columns named."
        )
    selection = getattr(subject.inner, "selection_", None)
    if selection is not None and selection.wide:
        told.append(
            "The labels cannot tell apart models that find "
            f"{share_range(float(selection.class_priors.low), float(selection.class_priors.high))} positives."
        )
    return told


def _of_the_labels(checks: tuple[Check, ...]) -> list[str]:
    """Say that the model does not even predict the labels, which one can see."""
    if find(checks, "calibration").status != "bad":
        return []
    return [
        "The model does not fit the labels: they come more, or less, often than it predicts. What it says of rows "
        "without a label deserves no more trust."
    ]


def _of_the_ranking(subject: Subject) -> list[str]:
    """Say that the model tells no row from another, or is too sure of too many."""
    certain = int(np.count_nonzero((subject.f > CERTAIN) & (subject.s == 0) & (subject.weight > 0)))
    if certain > TOO_MANY * subject.n_rows:
        return [
            f"The model is certain that {count(certain)} rows without a label are positive. So certain a model has "
            "usually learned its table by heart; do not count on the number."
        ]
    low, high = np.clip(np.quantile(subject.f[subject.weight > 0], [0.05, 0.95]), _NEAREST, 1.0 - _NEAREST)
    if logit(high) - logit(low) > FLAT_LOGITS:
        return []
    return [
        "The model gives nearly every row the same chance to be positive: it has found nothing that tells positives "
        "from others, and the order of the rows below means little."
    ]


def _assumes_one_propensity(subject: Subject) -> bool:
    inner = subject.inner
    return isinstance(inner, SCARClassifier) or (
        hasattr(inner, "propensity_coef_") and not subject.labelling_columns and hasattr(inner, "propensity_attributes")
    )


def _of_other_rows(subject: Subject, frequency: float | None) -> list[str]:
    """Say that these rows are hardly those of the fit: the number of positives was estimated there."""
    prior = number(subject.model.class_prior_)
    if prior is None or frequency is None or not hasattr(subject.inner, "propensity_coef_"):
        return []
    if subject.looks is not None and not subject.looks.plain:
        return []  # labels that may be wrong: the product is not their share
    then, now = prior * frequency, subject.labelled_share
    if abs(now - then) <= OTHER_ROWS * max(now, then):
        return []
    return [
        f"These are hardly the rows that the model was fitted to: {share(now)} of them have a label, there it was "
        f"{share(then)}. The number of positives is that of the fit, carried over."
    ]
