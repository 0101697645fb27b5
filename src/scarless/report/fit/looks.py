"""Report parts for audits, several looks and known values: their numbers, and whether they agree with the models."""

from typing import Any

import numpy as np

from scarless.diagnostics.audits.changes import AuditChanges, AuditComparison
from scarless.diagnostics.fit.examination import Examination, LabelCounts, compare_audits
from scarless.diagnostics.fit.subject import ENOUGH_AUDITS, Subject
from scarless.models.summary import remark_on_heterogeneity
from scarless.numerics.arrays import Vector
from scarless.outside.notices import listed
from scarless.report.fit.data import Check, Checked, Mark, NamedValue, NumberTable, Picture
from scarless.report.words import count, p_sentence, share, share_range, text

# Difference between the observed and the expected number of audited positives, in standard errors. From these values
# on, the check is "open" or "bad". By judgement.
OPEN_SURPLUS, BAD_SURPLUS = 2.0, 3.0
SIGNIFICANT, HIGHLY_SIGNIFICANT = 0.05, 0.001  # p-values
MAX_NAMES = 6  # names in a sentence

AUDIT_ASSUMPTION = (
    "The fit assumes that audited rows were chosen at random, or by their columns or labels, but not by their class. "
    "If positives are more likely to be audited, the estimated share of positives is too high. We measured this with "
    "200 audits. The estimate was too high by 3.8 percentage points if the odds of an audit were 1.5 times as high for "
    "positives, by 7.5 if the odds were twice as high, and by 38 if only positive findings were recorded."
)
LOOK_ASSUMPTION = (
    "The fit assumes that the looks at a row are independent, given its columns. If some positives are hard to find "
    "for reasons that no column shows, the estimated share of positives is too low (by 7 percentage points in our "
    "experiment), and its interval is far too short. The fit tests this assumption, and warns if the "
    "labels contradict it; in Python, scarless.diagnostics.goodness_of_fit shows the details. Estimates from "
    "audits do not need it."
)
LABEL_ASSUMPTION = (
    "The fit assumes that all labels are right. In our experiment with two looks, 2% of negatives got a label by "
    "mistake, and the estimated share of positives was too high by 12 percentage points. With several looks, or with "
    "audits of labelled rows, the rate of such mistakes can be estimated (--false-positive-rate estimate)."
)


def make_given(subject: Subject) -> tuple[NamedValue, ...]:
    """Return the audits, looks and known values of a fit, and its estimates, as names and values."""
    facts = subject.looks
    if facts is None:
        return ()
    found = []
    if subject.audit is not None:
        checked = subject.audited
        without = int((checked & (subject.s == 0)).sum())
        audits = f"{count(int(checked.sum()))} rows audited, {count(int((subject.audit == 1).sum()))} of them positive"
        found.append(NamedValue("Audits", f"{audits}; {count(without)} of the audited rows have no label"))
    if len(facts.names) > 1:
        seen = np.isfinite(subject.codes)
        names = text(listed(list(facts.names), MAX_NAMES))
        found.append(
            NamedValue(
                "Looks",
                f"{len(facts.names)} looks at each row ({names}); {count(int(seen.sum()))} of {count(seen.size)} took "
                "place",
            )
        )
    for claim in facts.known_values:
        error = f"standard error {claim.se:g}" if claim.se else "treated as exact"
        found.append(NamedValue(f"Known {_quantity(claim)}", f"{claim.value:g}, {error}"))
    found.append(NamedValue("Share of positives", _estimate(*_prior(subject))))
    for name, (value, interval) in zip(facts.names, facts.frequencies, strict=True):
        at = "" if len(facts.names) == 1 else " at each look" if facts.same_propensity else f" at {text(name)}"
        found.append(NamedValue(f"Positives that get a label{at}", _estimate(value, interval)))
        if facts.same_propensity:
            break
    found.append(NamedValue("Negatives that get a label", _rates(facts)))
    if facts.heterogeneity[0]:
        found.append(NamedValue("Differences between rows that no column measures", _spread(*facts.heterogeneity)))
    return tuple(found)


def _quantity(claim: Any) -> str:
    """Return the description of a known value in the words of the report."""
    return text(claim.description).replace("class prior", "share of positives")


def _prior(subject: Subject) -> tuple[float, Any]:
    inner = subject.inner
    try:
        return float(inner.class_prior_), inner.class_prior_interval(level=subject.level)
    except (ValueError, TypeError):  # The model has too many columns for standard errors.
        return float(inner.class_prior_), None


def _estimate(value: float, interval: Any) -> str:
    return share(value) if interval is None else f"{share(value)} ({share_range(interval.low, interval.high)})"


def _spread(value: float, interval: Any) -> str:
    known = "given" if interval is None else f"estimated, {interval.low:.1f} to {interval.high:.1f}"
    return f"standard deviation {value:.1f} of the log-odds of a label ({known})"


def _rates(facts: Any) -> str:
    if facts.rate_is == "none":
        return "none, by assumption"
    rates = listed([_estimate(value, interval) for value, interval in facts.rates], MAX_NAMES)
    words = {
        "estimated": "(estimated)",
        "estimated in part": "(rates with an interval are estimated, the others were given)",
    }
    return f"{rates} {words.get(facts.rate_is, '(given)')}"


def cautions(subject: Subject) -> list[str]:
    """Return reasons to doubt the estimate that follow from audits, looks or known values, the most serious first."""
    facts = subject.looks
    if facts is None:
        return []
    reasons = [f"{each[0].upper()}{each[1:]}" for each in facts.warnings]
    z = None if subject.audit is None else compare_audits(subject).surplus
    if z is not None and abs(z) >= BAD_SURPLUS:
        reasons.append(
            f"Audited rows are positive {'more' if z > 0 else 'less'} often than the model expects (by {abs(z):.1f} "
            f"standard errors). If {'positives' if z > 0 else 'negatives'} were more likely to be audited, or to be "
            f"recorded, the estimated share of positives is too {'high' if z > 0 else 'low'}. Otherwise the models are "
            "wrong."
        )
    return reasons


# --- audits


def make_checked(changes: AuditChanges | None) -> Checked | None:
    """Return what the answers of worksheets changed; None without worksheets."""
    if changes is None:
        return None
    rows = tuple((float(each.n_audited), each.value, each.low, each.high) for each in changes.rounds)
    head, kinds = ("checked rows", "share of positives", "from", "to"), ("count", "share", "share", "share")
    pictures = [_by_round(changes)] if all(None not in each for each in rows) else []
    pictures += [_reliability(changes.agreement)] if changes.agreement.n else []
    return Checked(
        tuple(text(each, 2000) for each in changes.sentences()),
        tuple(pictures),
        NumberTable("The estimate with more and more checked rows", head, kinds, rows),
    )


def _by_round(changes: AuditChanges) -> Picture:
    first, last = changes.rounds[0], changes.rounds[-1]
    n, value, low, high = (tuple(float(each[j] or 0.0) for each in changes.rounds) for j in range(4))
    return Picture(
        kind="rounds",
        title="Share of positives and its interval, by the number of checked rows",
        description=(
            f"With {first.n_audited} checked rows, the interval is {share_range(low[0], high[0])}; with "
            f"{last.n_audited}, it is {share_range(low[-1], high[-1])}."
        ),
        x_label="checked rows",
        y_label="share of positives",
        x=n,
        y=value,
        low=low,
        high=high,
    )


def audits(key: str, title: str, exam: Examination) -> Check:
    """Return the check that compares audited classes with the posteriors of the model."""
    found = exam.audited()
    if not found.n:
        raise ValueError("All audited rows have a label, so the audits say nothing about rows without a label.")
    z = found.surplus
    kind = "audited rows without a label" if exam.subject.has_no_false_positives else "audited rows"
    numbers = f"{count(found.found)} of {count(found.n)} {kind} are positive; the model expects {found.expected:.0f}"
    if z is None or abs(z) < OPEN_SURPLUS:
        status, verdict = "good", f"Yes: {numbers}."
    else:
        status = "bad" if abs(z) >= BAD_SURPLUS else "open"
        more = "More" if z > 0 else "Fewer"
        verdict = f"{more} positives than the model expects: {numbers}. The difference is {abs(z):.1f} standard errors."
    if found.n < ENOUGH_AUDITS and status == "good":
        status, verdict = "open", f"{verdict} A reliable check needs at least {ENOUGH_AUDITS} audits."
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (share_range(low, high), *numbers) for low, high, *numbers in found.groups
    )
    kinds = ("text", "count", "share", "share", "share", "share")
    head = ("probability of being positive", "rows", "expected positives", "found positives", "from", "to")
    which = "without a label" if exam.subject.has_no_false_positives else "with and without a label"
    caption = f"Audited rows {which}, grouped by the probability of being positive before the audit"
    table = NumberTable(caption, head, kinds, rows)
    bias = "The fit used these audits, so they agree with the model better than new audits would."
    details = (AUDIT_ASSUMPTION, bias)
    return Check(key, title, status, verdict, details, _reliability(found), (table,))


def _reliability(audited: AuditComparison) -> Picture:
    expected, found, low, high = (tuple(row[j] for row in audited.groups) for j in (3, 4, 5, 6))
    return Picture(
        kind="calibration",
        title="Expected and found share of positives among audited rows",
        description=(
            f"{len(expected)} groups of audited rows by their probability of being positive. The expected share of "
            f"positives is {share(expected[0])} in the first group and {share(expected[-1])} in the last; audits found "
            f"{share(found[0])} and {share(found[-1])}. On the diagonal, expected and found shares are equal."
        ),
        x_label="expected share of positives",
        y_label="found by audits",
        x=expected,
        y=found,
        low=low,
        high=high,
    )


# --- looks


def several_looks(key: str, title: str, exam: Examination) -> Check:
    """Return the check of several looks: their labels, the effect of more looks, and the number of labels of rows."""
    subject, facts = exam.subject, exam.subject.looks
    assert facts is not None
    curve, repeats = exam.detection(), exam.repeats()
    n, enough_audits, p_value = len(facts.names), subject.audited.sum() >= ENOUGH_AUDITS, repeats.p_value
    if p_value < SIGNIFICANT:
        status = "bad" if p_value < HIGHLY_SIGNIFICANT else "open"
        verdict = (
            f"The model does not fit the number of labels of each row ({p_sentence(p_value)}). Either the model is "
            "wrong, or rows differ in ways that no column shows."
        )
    else:
        status = "good" if enough_audits else "open"
        verdict = (
            f"If all {n} looks take place, an estimated {share(float(curve[n - 1]))} of positives get a label. The "
            "model fits the number of labels of each row."
        )
        if not enough_audits:
            verdict += f" Without {ENOUGH_AUDITS} or more audits, it is uncertain whether the looks are independent."
    details = [] if facts.heterogeneity[0] else [LOOK_ASSUMPTION]
    details += [text(remark, 2000) for remark in remark_on_heterogeneity(subject.inner.fitted_pair_)]
    if facts.rate_is == "none":
        details.append(LABEL_ASSUMPTION)
    details.append(
        f"Approximate test of whether the model fits the number of labels of each row: {p_sentence(p_value)}."
    )
    tables = (_by_look(subject), _by_number(repeats))
    return Check(key, title, status, verdict, tuple(details), _detection(curve, n), tables)


def _by_look(subject: Subject) -> NumberTable:
    facts, labels = subject.looks, subject.codes
    assert facts is not None
    rows = []
    for k, (value, interval) in enumerate(facts.frequencies):
        low, high = (None, None) if interval is None else interval
        took, found = np.isfinite(labels[:, k]), labels[:, k] == 1
        rows.append((text(facts.names[k]), float(took.sum()), float(found.sum()), value, low, high))
    head = ("look", "rows examined", "labels", "share of positives labelled", "from", "to")
    same = " (the model assumes the same probability of a label at all looks)" if facts.same_propensity else ""
    caption = f"Results of each look{same}"
    return NumberTable(caption, head, ("text", "count", "count", "share", "share", "share"), tuple(rows))


def _detection(curve: Vector, n_looks: int) -> Picture:
    steps = ", ".join(share(float(value)) for value in curve)
    return Picture(
        kind="detection",
        title="Share of positives with a label, by the number of looks",
        description=f"A rising curve. After 1, 2, ... looks, {steps} of positives have at least one label.",
        x_label="looks",
        y_label="positives with at least one label",
        x=tuple(float(k) for k in range(1, curve.size + 1)),
        y=tuple(map(float, curve)),
        marks=(Mark(float(n_looks), "so far"),) if curve.size > n_looks else (),
    )


def _by_number(repeats: LabelCounts) -> NumberTable:
    rows = tuple(
        (name, float(seen), float(np.round(wanted))) for name, seen, wanted in zip(*repeats.counted, strict=True)
    )
    head = ("labels of a row", "rows", "rows expected by the model")
    return NumberTable("Number of rows with 0, 1, 2, ... labels", head, ("text", "count", "count"), rows)


# --- known values


def known_values(key: str, title: str, exam: Examination) -> Check:
    """Return the check whether the rows agree with the known class prior and label frequencies."""
    subject, facts = exam.subject, exam.subject.looks
    assert facts is not None
    rows = tuple(
        (_quantity(claim), float(claim.value), float(claim.se), _found(subject, claim)) for claim in facts.known_values
    )
    head, kinds = ("quantity", "known value", "standard error", "estimate"), ("text", "share", "number", "share")
    contradictions = [each for each in facts.warnings if "disagree" in each or "no models" in each]
    verdict = "Yes: the rows do not contradict the known values."
    if contradictions:
        verdict = f"{contradictions[0][0].upper()}{contradictions[0][1:]}"
    details = [
        "If a known value is wrong and its standard error is small, all estimates are biased, and the intervals do not "
        "show it. In our experiment with a known value of 0.40, a standard error of 0.01 and a true value of 0.35, no "
        "interval contained the true value.",
    ]
    if any(hasattr(claim, "where") for claim in facts.known_values):
        details.append(
            "If both models use the same columns, a known share of positives does not determine which of the two "
            "models is the class model. A second look, or 50 to 100 audits, would determine this."
        )
    table = NumberTable("Known values", head, kinds, rows)
    return Check(key, title, "bad" if contradictions else "good", verdict, tuple(details), None, (table,))


def _found(subject: Subject, claim: Any) -> float | None:
    if hasattr(claim, "look"):
        return float(subject.looks.frequencies[claim.look][0])  # type: ignore[union-attr]
    return float(subject.inner.class_prior_) if claim.where is None else None
