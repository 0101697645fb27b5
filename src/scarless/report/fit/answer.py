"""The estimated number of positives in words, with the reasons to doubt it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logit

from scarless.diagnostics.audits.changes import AuditChanges
from scarless.diagnostics.fit.subject import NEARLY_ALL_LABELLED, WIDE_INTERVAL, Subject
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
from scarless.outside.plain_words import OTHER_MODEL, plain
from scarless.raw.leaks import Leak, advice, notes_on_never_labelled
from scarless.report.fit.data import Check, FitAnswer, IntervalEstimate, find
from scarless.report.fit.looks import cautions
from scarless.report.words import about, count, number, share, share_range, text

# An interval that covers more than this part of the possible class priors is reported as uninformative. By judgement.
UNINFORMATIVE_PART = 0.75
NEARLY_ALL_POSITIVE = 0.95  # class prior above which the report warns
FLAT_LOGITS = 0.2  # distance between the 5% and 95% quantiles of logits, below which the ranking means little
# The report warns if more than this share of rows is unlabelled and has a probability above `CERTAIN_PROBABILITY`.
CERTAIN_PROBABILITY, MAX_CERTAIN_SHARE = 0.999, 0.05
_LOGIT_MARGIN = 1e-12  # distance of probabilities from 0 and 1 before the logit is taken
NO_ESTIMATE = (
    "this fit cannot estimate how many rows without a label are positive, because according to it every positive has a "
    "label"
)
MAX_LABELLED_SHARE_CHANGE = 0.25  # largest relative difference of labelled shares between the fit and these rows
MAX_NAMES = 6  # names in a sentence
NOT_CONVERGED = (
    "The fit did not converge: the optimiser stopped before it reached an optimum, so the number of positives is not "
    f"reliable. {OTHER_MODEL}"
)
_MAX_VALUES_NAMED = 2  # values without labels in a sentence


def make_answer(
    subject: Subject, identifiability: Any, checks: tuple[Check, ...], changes: AuditChanges | None = None
) -> FitAnswer:
    """Return the estimated number of positives, with cautions; `identifiability` is None if it could not be computed.

    If the fit cannot estimate the positives without a label (`subject.is_uninformative`), all estimates are None.
    """
    n, labelled = float(subject.weight.sum()), float(subject.weight @ subject.s)
    right = subject.labelled_positives
    known = labelled / n if subject.has_no_false_positives else 0.0
    naive = isinstance(subject.inner, NaiveClassifier)  # its class prior is the share of labelled rows
    prior, frequency = None if naive else number(subject.model.class_prior_), number(subject.model.label_frequency_)
    interval, why_none = subject.interval_of("class_prior_interval")
    found = IntervalEstimate(None if prior is None else max(prior, known))
    if interval is not None:
        found = IntervalEstimate(found.value, *subject.prior_interval())
    reasons = (*_cautions(subject, found, frequency, identifiability), *_label_cautions(checks))
    frequencies, _ = subject.interval_of("label_frequency_interval")
    labelled_share = IntervalEstimate(frequency, *((None, None) if frequencies is None else map(number, frequencies)))
    if subject.is_uninformative:
        found, labelled_share = IntervalEstimate(None), IntervalEstimate(None)
    missing = _scaled(found, n, right)
    return FitAnswer(
        n_rows=subject.n_rows,
        weight=n,
        labelled=labelled,
        share=found,
        positives=_scaled(found, n, 0.0),
        missing=missing,
        label_frequency=labelled_share,
        cautions=(*cautions(subject), *reasons),
        sentence=_sentence(subject, n, labelled, found, missing, reservation(subject, changes)),
        notes=tuple(_notes(subject, why_none)),
        wrong=labelled - right,
    )


def _scaled(found: IntervalEstimate, n: float, less: float) -> IntervalEstimate:
    return IntervalEstimate(
        *(None if value is None else max(value * n - less, 0.0) for value in (found.value, found.low, found.high))
    )


def _sentence(
    subject: Subject, n: float, labelled: float, found: IntervalEstimate, missing: IntervalEstimate, doubt: str
) -> str:
    rows = f"{count(n)} rows" if n == subject.n_rows else f"{count(n)} rows (counted by their weights)"
    start = f"{count(labelled)} of {rows} {'has' if labelled == 1 else 'have'} a label"
    if not subject.has_no_false_positives:
        start += f", about {about(max(labelled - subject.labelled_positives, 0.0))} of them by mistake"
    if isinstance(subject.inner, NaiveClassifier):
        return (
            f"{start}. This model treats all other rows as negative, so it cannot estimate how many positives have no "
            "label."
        )
    if subject.is_uninformative:
        return f"{start}. {NO_ESTIMATE[0].upper()}{NO_ESTIMATE[1:]}."
    if found.value is None:
        return f"{start}. This model does not estimate the number of positives."
    return f"{start}. {estimate_sentences(found, found.value * n, missing, subject.level, doubt)}"


def estimate_sentences(
    share_: IntervalEstimate, positives: float, missing: IntervalEstimate, level: float, doubt: str
) -> str:
    """Return the estimated share and number of positives, how many of them have no label, and the doubt, if any."""
    interval = "no confidence interval"
    if share_.low is not None and share_.high is not None:
        interval = f"{share(level)} interval {share_range(share_.low, share_.high)}"
    number_, left, most = about(positives), about(missing.value or 0.0), about(missing.high or 0.0)
    rows = f"about {number_} {'row' if number_ == '1' else 'rows'} ({share(share_.value)}; {interval})"
    if left != "0":
        rest = f", so about {left} {'positive has' if left == '1' else 'positives have'} no label"
    elif most != "0":
        rest = f", and that up to {most} {'positive has' if most == '1' else 'positives have'} no label"
    else:
        rest = ", so all positives have a label"
    reserved = f" This estimate is {doubt}." if doubt else ""
    return f"We estimate that {rows} {'is' if number_ == '1' else 'are'} positive{rest}.{reserved}"


def reservation(subject: Subject, changes: AuditChanges | None = None) -> str:
    """Return "not reliable", with a condition if there is one, or "" if there is no reason for such a doubt.

    `changes` are what the answers of worksheets changed.
    """
    known = subject.models_are_separated or (subject.looks is not None and bool(subject.looks.known_values))
    few = int(subject.s.sum()) < FEW_LABELS and not known
    contradicted = subject.is_contradicted or (changes is not None and changes.leaves_doubt)
    conditions = []
    if subject.leaks:
        conditions.append(f"if {recorded(subject.leaks)} recorded because of the label")
    if subject.never_labelled:
        rows = [f"rows {each.rows}" for each in subject.never_labelled]
        conditions.append(f"if positives among {listed(rows, _MAX_VALUES_NAMED)} are never labelled")
    stopped = not getattr(subject.inner, "converged_", True)
    if subject.may_be_swapped or contradicted or few or stopped:
        return f"not reliable, least of all {', or '.join(conditions)}" if conditions else "not reliable"
    return f"not reliable {', or '.join(conditions)}" if conditions else ""


def recorded(leaks: Sequence[Leak]) -> str:
    """Return the names of leaking columns with the verb "is" or "are"."""
    return f"{listed([text(leak.column) for leak in leaks], MAX_NAMES)} {'is' if len(leaks) == 1 else 'are'}"


def _notes(subject: Subject, why_none: str) -> list[str]:
    notes = []
    if why_none and not isinstance(subject.inner, NaiveClassifier):
        notes.append(f"No interval: {why_none}")
    elif not why_none and not subject.is_uninformative:
        notes.append(f"The confidence level of the intervals is {share(subject.level)}.{_limits_of_intervals(subject)}")
    if subject.weights is not None:
        notes.append("Rows are counted by their weights.")
    if subject.grouped:
        notes.append(
            f"Rows belong to {count(subject.n_groups)} groups. The intervals allow for dependence within a group; the "
            "tests below do not."
        )
    if subject.audited.any():
        found = float(subject.weight @ ((subject.audit == 1) & (subject.s == 0)))
        notes.append(f"Audits found {count(found)} of the positives without a label.")
    return notes


def _limits_of_intervals(subject: Subject) -> str:
    """Return what the intervals of a model do not allow for; "" if tests have shown that they cover as they should."""
    inner = subject.inner
    if subject.looks is not None or not isinstance(inner, SAREMClassifier | SAREMClassifierCV | SARStackingClassifier):
        return ""
    if subject.may_be_swapped:
        return " The intervals do not allow for swapped models."
    if isinstance(inner, SAREMClassifier) and not hasattr(inner, "recalibration_"):
        return (
            " In 260 tests on tables where the positives are known, such 95% intervals contained the true share in "
            "only 64 to 77% of the tests, so the interval is probably too short. It assumes that the class model is "
            "linear and that its penalty on large coefficients is right. --model search and --model stack make weaker "
            "assumptions."
        )
    return ""


def _cautions(subject: Subject, found: IntervalEstimate, frequency: float | None, identifiability: Any) -> list[str]:
    """Return the reasons to doubt the estimate, the most serious first."""
    inner = subject.inner
    reasons = [] if not isinstance(inner, NaiveClassifier) else [
        "This model treats every row without a label as negative. It predicts which rows get a label, not which rows "
        "are positive."
    ]  # fmt: skip
    reasons += [f"Column {text(leak.column)} {leak.remark}. {advice()}" for leak in subject.leaks]
    reasons += [plain(note) for note in notes_on_never_labelled(subject.never_labelled, [])]
    reasons += _fit_cautions(inner, frequency, found)
    reasons += _data_cautions(found, identifiability, subject)
    reasons += _ranking_cautions(subject)
    labelled = int(subject.s.sum())
    if labelled == subject.n_rows:
        reasons.append("Every row has a label, so there are no rows without a label to rank.")
    elif labelled < FEW_LABELS:
        reasons.insert(
            0,
            f"Only {labelled} {'row has' if labelled == 1 else 'rows have'} a label. Rely on the order of the rows, "
            "not on the number of positives. To improve the estimate, name the columns that drive the labelling "
            "(--propensity), or audit about 30 rows without a label (--audit).",
        )
    if isinstance(inner, SARStackingClassifier) and not subject.labelling_columns:
        reasons.append(
            "No columns were named that drive the labelling (--propensity). The estimate assumes that rows with a "
            "higher probability of being positive are labelled more often. The labels cannot confirm this."
        )
    elif (
        _assumes_one_propensity(subject) and not isinstance(inner, NaiveClassifier) and not subject.models_are_separated
    ):
        reasons.append(
            "The estimate assumes that all positives are equally likely to be labelled. If some kinds of positives are "
            "labelled more often, the estimate is wrong, and no check in this report detects it."
        )
    reasons += _other_rows_cautions(subject, frequency)
    return list(dict.fromkeys(reasons))


def _fit_cautions(inner: Any, frequency: float | None, found: IntervalEstimate) -> list[str]:
    reasons = []
    if not getattr(inner, "converged_", True):
        reasons.append(NOT_CONVERGED)
    higher = getattr(inner, "higher_optimum_", None)
    if higher is not None:
        reasons.append(
            "The fit is a local optimum: another start of the optimiser finds a better fit, with "
            f"{share(number(higher.class_prior))} positives. Fit again from several starts (n_starts=5 in Python)."
        )
    if frequency is not None and frequency > NEARLY_ALL_LABELLED and not isinstance(inner, NaiveClassifier):
        reasons.append(
            "In this fit, all positives already have a label. A fit also ends like this if the data do not determine "
            "how many positives have a label. It is then no better than a model that treats every row without a label "
            "as negative."
        )
    if found.value is not None and found.value > NEARLY_ALL_POSITIVE:
        reasons.append(
            "In this fit, nearly every row is positive, and only the labelling model explains which rows have a label. "
            "This is rarely true. Name fewer columns for the labelling (--propensity)."
        )
    return reasons


def _data_cautions(found: IntervalEstimate, identifiability: Any, subject: Subject) -> list[str]:
    reasons = []
    known = subject.labelled_share
    if found.low is not None and found.high is not None:
        width = found.high - found.low
        if width > WIDE_INTERVAL or width > UNINFORMATIVE_PART * (1.0 - known):
            reasons.append(
                "The data hardly determine the number of positives: all shares of positives from "
                f"{share_range(found.low, found.high)} are compatible with the labels."
            )
    if identifiability is not None and identifiability.swapped is not None:
        reasons.append(
            "The class model and the labelling model use the same columns, so the two models may be swapped. Swapped, "
            f"they fit the labels equally well, with {share(number(identifiability.swapped))} positives. To prevent "
            "this, name the columns that drive the labelling (--propensity)."
        )
    elif identifiability is not None and identifiability.verdict == "not identified":
        reasons.append(
            "The labels alone do not determine the number of positives. The estimate depends on the assumption that "
            "the log-odds of being positive, and of getting a label, are linear in the columns."
        )
    elif identifiability is not None and identifiability.verdict == CONTRADICTED:
        reasons.append(
            "The labels contradict the assumption that the log-odds are linear in the columns, and the number of "
            "positives depends on this assumption. --model stack does not assume that the class model is linear."
        )
    elif subject.may_be_swapped:
        reasons.append(
            "Every column may drive the class, the labelling or both, and the data cannot always separate these "
            "effects. To get a much more certain estimate, name the columns that drive the labelling (--propensity)."
        )
    selection = getattr(subject.inner, "selection_", None)
    if selection is not None and selection.wide:
        reasons.append(
            "Models that fit the labels equally well find "
            f"{share_range(float(selection.class_priors.low), float(selection.class_priors.high))} positives."
        )
    return reasons


def _label_cautions(checks: tuple[Check, ...]) -> list[str]:
    """Return a caution if the model does not fit the observed labels."""
    if find(checks, "calibration").status != "bad":
        return []
    return [
        "The model does not fit the labels: in some groups of rows, labels are more or less frequent than predicted. "
        "The probabilities of rows without a label are therefore not reliable either."
    ]


def _ranking_cautions(subject: Subject) -> list[str]:
    """Return a caution if probabilities hardly differ between rows, or are close to 1 in too many rows."""
    certain = int(np.count_nonzero((subject.f > CERTAIN_PROBABILITY) & (subject.s == 0) & (subject.weight > 0)))
    if certain > MAX_CERTAIN_SHARE * subject.n_rows:
        return [
            f"The model gives {count(certain)} rows without a label a probability of more than 99.9% of being "
            "positive. Such a model is usually overfitted. Do not rely on the estimate."
        ]
    low, high = np.clip(np.quantile(subject.f[subject.weight > 0], [0.05, 0.95]), _LOGIT_MARGIN, 1.0 - _LOGIT_MARGIN)
    if logit(high) - logit(low) > FLAT_LOGITS:
        return []
    return [
        "The model gives nearly every row the same probability of being positive: no column separates positives from "
        "negatives, and the order of the rows below means little."
    ]


def _assumes_one_propensity(subject: Subject) -> bool:
    inner = subject.inner
    return isinstance(inner, SCARClassifier) or (
        hasattr(inner, "propensity_coef_") and not subject.labelling_columns and hasattr(inner, "propensity_attributes")
    )


def _other_rows_cautions(subject: Subject, frequency: float | None) -> list[str]:
    """Return a caution if the share of labelled rows shows that the model was fitted to other rows."""
    prior = number(subject.model.class_prior_)
    if prior is None or frequency is None or not hasattr(subject.inner, "propensity_coef_"):
        return []
    if subject.looks is not None and not subject.looks.plain:
        return []  # With false positives, the product below is not the share of labelled rows.
    then, now = prior * frequency, subject.labelled_share
    if abs(now - then) <= MAX_LABELLED_SHARE_CHANGE * max(now, then):
        return []
    return [
        f"The model was probably fitted to other rows than these: {share(now)} of these rows have a label, compared "
        f"with {share(then)} of the rows of the fit. The share of positives is that of the rows of the fit."
    ]
