"""What a fit had to go by beside one label of each row, and whether that agrees with the models."""

from typing import Any

import numpy as np

from scarless.diagnostics.fit.examination import Audited, Examination, Repeats, compare_audits
from scarless.diagnostics.fit.subject import ENOUGH_AUDITS, Subject
from scarless.numerics.arrays import Vector
from scarless.outside.notices import listed
from scarless.report.fit.data import Check, Fact, Mark, NumberTable, Picture
from scarless.report.words import count, p_sentence, share, share_range, text

ODD, TOO_ODD = 2.0, 3.0  # standard errors between what checks found and what was expected
SIGNIFICANT, HIGHLY_SIGNIFICANT = 0.05, 0.001
MOST_NAMED = 6  # names in a sentence

CHOSEN = (
    "Audits count as chosen by chance, by columns or by labels. If positives were likelier to be checked, with odds of "
    "1.5 the share of positives comes out 0.03 too high, with odds of 2, 0.06; if only positive findings are written "
    "down, 0.18 to 0.46."
)
DIFFERENT = (
    "Looks count as independent given the columns. Where rows differ in ways that no column tells (some are just hard "
    "to find), the share of positives comes out too low, by 0.07 where that was tried, and its interval is far too "
    "short. scarless.diagnostics.goodness_of_fit looks closer; audits are safe from this."
)
WRONG_LABELS = (
    "Labels count as right. If 2% of negatives get one all the same, the share of positives comes out about 0.09 too "
    "high. With several looks, or audits of labelled rows, the rate can be estimated (--false-positive-rate estimate)."
)


def make_given(subject: Subject) -> tuple[Fact, ...]:
    """Return what was given beside one label of each row, and what follows, as names and values."""
    facts = subject.looks
    if facts is None:
        return ()
    found = []
    if subject.audit is not None:
        checked = subject.audited
        without = int((checked & (subject.s == 0)).sum())
        told = f"{count(int(checked.sum()))} rows checked, {count(int((subject.audit == 1).sum()))} of them positive; "
        found.append(Fact("Audits", f"{told}{count(without)} of the checked rows have no label"))
    if len(facts.names) > 1:
        seen = np.isfinite(subject.codes)
        names = text(listed(list(facts.names), MOST_NAMED))
        found.append(
            Fact("Looks", f"{len(facts.names)} ({names}); {count(int(seen.sum()))} of {count(seen.size)} took place")
        )
    for claim in facts.claims:
        sure = f"standard error {claim.se:g}" if claim.se else "taken for exact"
        found.append(Fact(f"Known from elsewhere: {claim.told}", f"{claim.value:g}, {sure}"))
    found.append(Fact("Share of positives", _estimate(*_prior(subject))))
    for name, (value, interval) in zip(facts.names, facts.frequencies, strict=True):
        of = f"Positives that {text(name)} labels" if len(facts.names) > 1 else "Positives that have a label"
        found.append(Fact(of, _estimate(value, interval)))
        if facts.alike:
            break
    found.append(Fact("Negatives that get a label", _rates(facts)))
    return tuple(found)


def _prior(subject: Subject) -> tuple[float, Any]:
    inner = subject.inner
    try:
        return float(inner.class_prior_), inner.class_prior_interval(level=subject.level)
    except (ValueError, TypeError):  # of a model too wide for standard errors
        return float(inner.class_prior_), None


def _estimate(value: float, interval: Any) -> str:
    return share(value) if interval is None else f"{share(value)} ({share_range(interval.low, interval.high)})"


def _rates(facts: Any) -> str:
    if facts.rate_is == "none":
        return "none, by assumption"
    told = listed([_estimate(value, interval) for value, interval in facts.rates], MOST_NAMED)
    words = {"estimated": "estimated", "estimated in part": "as given, or estimated where there is an interval"}
    return f"{told}, {words.get(facts.rate_is, 'as given')}"


def cautions(subject: Subject) -> list[str]:
    """Return what stands in the way of believing the number, the gravest first."""
    facts = subject.looks
    if facts is None:
        return []
    told = [f"{each[0].upper()}{each[1:]}" for each in facts.told]
    z = None if subject.audit is None else compare_audits(subject).surplus
    if z is not None and abs(z) >= TOO_ODD:
        told.append(
            f"Checked rows are positive {'more' if z > 0 else 'less'} often than the model expects of such rows "
            f"({abs(z):.1f} standard errors). They may have been chosen, or reported, by what the check found; then "
            f"the number is too {'high' if z > 0 else 'low'}. Or the models are of the wrong form."
        )
    return told


# --- audits


def audits(key: str, title: str, exam: Examination) -> Check:
    """Compare what checks found with what was expected of these rows before."""
    found = exam.audited()
    if not found.n:
        raise ValueError("All rows that were checked have a label, and count as positive with or without a check.")
    z = found.surplus
    told = f"{count(found.found)} of {count(found.n)} are positive, {found.expected:.0f} were expected"
    if z is None or abs(z) < ODD:
        status, verdict = "good", f"As the model expects: {told}."
    else:
        status = "bad" if abs(z) >= TOO_ODD else "open"
        verdict = f"{'More' if z > 0 else 'Fewer'} positives than the model expects: {told} ({abs(z):.1f} errors away)."
    if found.n < ENOUGH_AUDITS and status == "good":
        status, verdict = "open", f"{verdict} So few checks settle little: {ENOUGH_AUDITS} to 100 do."
    rows: tuple[tuple[str | float, ...], ...] = tuple(
        (share_range(low, high), *numbers) for low, high, *numbers in found.groups
    )
    kinds = ("text", "count", "share", "share", "share", "share")
    head = ("chance to be positive, before the check", "rows", "expected", "found", "from", "to")
    table = NumberTable("Rows that were checked, by what the model expected of them", head, kinds, rows)
    about = "without a label" if exam.subject.rates_are_none else "with and without a label"
    details = (CHOSEN, f"Shown are checked rows {about}; the fit knows what the checks found, so that it looks better.")
    return Check(key, title, status, verdict, details, _reliability(found), (table,))


def _reliability(audited: Audited) -> Picture:
    expected, found, low, high = (tuple(row[j] for row in audited.groups) for j in (3, 4, 5, 6))
    return Picture(
        kind="calibration",
        title="Expected and found share of positives among rows that were checked",
        description=(
            f"{len(expected)} groups of checked rows by their chance to be positive: expected from "
            f"{share(expected[0])} to {share(expected[-1])}, found from {share(found[0])} to {share(found[-1])}. "
            "On the diagonal both are the same."
        ),
        x_label="expected share of positives",
        y_label="found by checks",
        x=expected,
        y=found,
        low=low,
        high=high,
    )


# --- looks


def several_looks(key: str, title: str, exam: Examination) -> Check:
    """Tell what each look found, what more looks would, and whether labels repeat as often as they should."""
    subject, facts = exam.subject, exam.subject.looks
    assert facts is not None
    curve, repeats = exam.detection(), exam.repeats()
    n, settled, p_value = len(facts.names), subject.audited.sum() >= ENOUGH_AUDITS, repeats.p_value
    reached = f"{share(float(curve[n - 1]))} of positives have a label once all {n} looks took place"
    if p_value < SIGNIFICANT:
        status = "bad" if p_value < HIGHLY_SIGNIFICANT else "open"
        verdict = f"Labels do not repeat as the model says ({p_sentence(p_value)}), or rows differ in hidden ways."
    else:
        status = "good" if settled else "open"
        verdict = f"{reached[0].upper()}{reached[1:]}; labels repeat about as often as they should."
    details = [DIFFERENT]
    if facts.rate_is == "none":
        details.append(WRONG_LABELS)
    details.append(f"Goodness of fit by the number of labels: {p_sentence(p_value)}, which is only a hint.")
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
    head = ("look", "rows looked at", "labels", "of positives labelled", "from", "to")
    caption = "What each look found" + ("; all looks have one propensity" if facts.alike else "")
    return NumberTable(caption, head, ("text", "count", "count", "share", "share", "share"), tuple(rows))


def _detection(curve: Vector, n_looks: int) -> Picture:
    steps = ", ".join(share(float(value)) for value in curve)
    return Picture(
        kind="detection",
        title="Share of positives with a label, by the number of looks",
        description=f"A rising curve: after one look, after two and so on, {steps} of positives have a label.",
        x_label="looks",
        y_label="positives with a label",
        x=tuple(float(k) for k in range(1, curve.size + 1)),
        y=tuple(map(float, curve)),
        marks=(Mark(float(n_looks), "so far"),) if curve.size > n_looks else (),
    )


def _by_number(repeats: Repeats) -> NumberTable:
    rows = tuple(
        (name, float(seen), float(np.round(wanted))) for name, seen, wanted in zip(*repeats.counted, strict=True)
    )
    head = ("labels of a row", "rows", "expected")
    return NumberTable("Rows by the number of their labels", head, ("text", "count", "count"), rows)


# --- facts


def known_facts(key: str, title: str, exam: Examination) -> Check:
    """Tell whether rows and what is known from elsewhere agree."""
    subject, facts = exam.subject, exam.subject.looks
    assert facts is not None
    rows = tuple(
        (text(claim.told), float(claim.value), float(claim.se), _found(subject, claim)) for claim in facts.claims
    )
    head, kinds = ("what", "claimed", "standard error", "found with it"), ("text", "share", "number", "share")
    odd = [each for each in facts.told if "disagree" in each or "no models" in each]
    verdict = "They agree, as far as the rows can tell." if not odd else f"{odd[0][0].upper()}{odd[0][1:]}"
    details = [
        "A wrong claim with a small standard error moves everything, and no interval shows it (0.40 with an error of "
        "0.01, where 0.35 is true: not one interval was right).",
    ]
    if any(hasattr(claim, "where") for claim in facts.claims):
        details.append(
            "A known share of positives does not say which model is the class where both see the same columns; a "
            "second look, or 50 to 100 audits, do."
        )
    table = NumberTable("What is known from elsewhere", head, kinds, rows)
    return Check(key, title, "bad" if odd else "good", verdict, tuple(details), None, (table,))


def _found(subject: Subject, claim: Any) -> float | None:
    if hasattr(claim, "look"):
        return float(subject.looks.frequencies[claim.look][0])  # type: ignore[union-attr]
    return float(subject.inner.class_prior_) if claim.where is None else None
