"""What a fit had to go by beside one label of each row, and whether that agrees with the models."""

from typing import Any

import numpy as np
from scipy.stats import binomtest, chi2

from scarless.numerics.arrays import Matrix, Vector
from scarless.report.fit.data import Check, Fact, Mark, Picture, Table
from scarless.report.fit.subject import Subject
from scarless.report.fit.words import count, listed, share, share_range, text
from scarless.report.numbers import p_sentence

ENOUGH_AUDITS = 50
GROUPS, FEWEST = 5, 12  # groups of checked rows, and rows in each
ODD, TOO_ODD = 2.0, 3.0  # standard errors between what checks found and what was expected
SIGNIFICANT, SURE = 0.05, 0.001
MORE_LOOKS = 6  # that a curve of detection goes on to, where all looks are alike
_RARE = 5.0  # expected rows, below which a cell joins the one before

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
    "high. With several looks, or audits of labelled rows, the rate can be estimated (--false-positives estimate)."
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
        seen = np.isfinite(subject.seen_labels)
        names = text(listed(list(facts.names)))
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
    told = listed([_estimate(value, interval) for value, interval in facts.rates])
    words = {"estimated": "estimated", "estimated in part": "as given, or estimated where there is an interval"}
    return f"{told}, {words.get(facts.rate_is, 'as given')}"


def cautions(subject: Subject) -> list[str]:
    """Return what stands in the way of believing the number, the gravest first."""
    facts = subject.looks
    if facts is None:
        return []
    told = [f"{each[0].upper()}{each[1:]}" for each in facts.told]
    z = _surplus(subject)
    if z is not None and abs(z) >= TOO_ODD:
        told.append(
            f"Checked rows are positive {'more' if z > 0 else 'less'} often than the model expects of such rows "
            f"({abs(z):.1f} standard errors). They may have been chosen, or reported, by what the check found; then "
            f"the number is too {'high' if z > 0 else 'low'}. Or the models are of the wrong form."
        )
    return told


# --- audits


def audits(key: str, title: str, subject: Subject) -> Check:
    """Compare what checks found with what was expected of these rows before."""
    rows, q = _checked(subject)
    found = np.asarray(subject.audit)[rows]
    if not rows.size:
        raise ValueError("All rows that were checked have a label, and count as positive with or without a check.")
    z = _surplus(subject)
    expected, n = float(q.sum()), int(rows.size)
    told = f"{count(int(found.sum()))} of {count(n)} are positive, {expected:.0f} were expected"
    if z is None or abs(z) < ODD:
        status, verdict = "good", f"As the model expects: {told}."
    else:
        status = "bad" if abs(z) >= TOO_ODD else "open"
        verdict = f"{'More' if z > 0 else 'Fewer'} positives than the model expects: {told} ({abs(z):.1f} errors away)."
    if n < ENOUGH_AUDITS and status == "good":
        status, verdict = "open", f"{verdict} So few checks settle little: {ENOUGH_AUDITS} to 100 do."
    groups = _grouped(q, found)
    kinds = ("text", "count", "share", "share", "share", "share")
    head = ("chance to be positive, before the check", "rows", "expected", "found", "from", "to")
    table = Table("Rows that were checked, by what the model expected of them", head, kinds, groups)
    about = "without a label" if subject.rates_are_none else "with and without a label"
    details = (CHOSEN, f"Shown are checked rows {about}; the fit knows what the checks found, so that it looks better.")
    return Check(key, title, status, verdict, details, _reliability(groups), (table,))


def _checked(subject: Subject) -> tuple[Any, Vector]:
    """Return the rows whose check could tell something new, and their chance to be positive before it."""
    of_interest = subject.audited & ((subject.s == 0) if subject.rates_are_none else True) & (subject.weight > 0)
    rows = np.flatnonzero(of_interest)
    if not rows.size:
        return rows, np.zeros(0)
    part = subject.part(rows)
    return rows, np.asarray(part.inner.predict_posterior(part.prepared, part.labels))


def _surplus(subject: Subject) -> float | None:
    """Return by how many standard errors checks found more positives than expected; None where there were none."""
    if subject.audit is None:
        return None
    rows, q = _checked(subject)
    spread = float(np.sqrt(np.sum(q * (1.0 - q))))
    return float(subject.audit[rows].sum() - q.sum()) / spread if rows.size and spread > 0 else None


def _grouped(q: Vector, found: Vector) -> tuple[tuple[str | float | None, ...], ...]:
    n_groups = max(1, min(GROUPS, q.size // FEWEST))
    order, made = np.argsort(q, kind="stable"), []
    for part in np.array_split(order, n_groups):
        k, n = int(found[part].sum()), int(part.size)
        ends = binomtest(k, n).proportion_ci(method="wilson")
        between = share_range(float(q[part].min()), float(q[part].max()))
        made.append((between, float(n), float(q[part].mean()), k / n, float(ends.low), float(ends.high)))
    return tuple(made)


def _reliability(groups: Any) -> Picture:
    expected, found, low, high = (tuple(float(row[j]) for row in groups) for j in (2, 3, 4, 5))
    return Picture(
        kind="calibration",
        title="Expected and found share of positives among rows that were checked",
        description=(
            f"{len(groups)} groups of checked rows by their chance to be positive: expected from {share(expected[0])} "
            f"to {share(expected[-1])}, found from {share(found[0])} to {share(found[-1])}. On the diagonal both are "
            "the same."
        ),
        x_label="expected share of positives",
        y_label="found by checks",
        x=expected,
        y=found,
        low=low,
        high=high,
    )


# --- looks


def several_looks(key: str, title: str, subject: Subject) -> Check:
    """Tell what each look found, what more looks would, and whether labels repeat as often as they should."""
    facts = subject.looks
    assert facts is not None
    curve = _curve_of(subject)
    table, p_value = _repeats(subject)
    n, settled = len(facts.names), subject.audited.sum() >= ENOUGH_AUDITS
    reached = f"{share(float(curve[n - 1]))} of positives have a label once all {n} looks took place"
    if p_value < SIGNIFICANT:
        status = "bad" if p_value < SURE else "open"
        verdict = f"Labels do not repeat as the model says ({p_sentence(p_value)}), or rows differ in hidden ways."
    else:
        status = "good" if settled else "open"
        verdict = f"{reached[0].upper()}{reached[1:]}; labels repeat about as often as they should."
    details = [DIFFERENT]
    if facts.rate_is == "none":
        details.append(WRONG_LABELS)
    details.append(f"Goodness of fit by the number of labels: {p_sentence(p_value)}, which is only a hint.")
    return Check(key, title, status, verdict, tuple(details), _detection(curve, n), (_by_look(subject), table))


def _by_look(subject: Subject) -> Table:
    facts, labels = subject.looks, subject.seen_labels
    assert facts is not None
    rows = []
    for k, (value, interval) in enumerate(facts.frequencies):
        low, high = (None, None) if interval is None else interval
        took, found = np.isfinite(labels[:, k]), labels[:, k] == 1
        rows.append((text(facts.names[k]), float(took.sum()), float(found.sum()), value, low, high))
    head = ("look", "rows looked at", "labels", "of positives labelled", "from", "to")
    caption = "What each look found" + ("; all looks have one propensity" if facts.alike else "")
    return Table(caption, head, ("text", "count", "count", "share", "share", "share"), tuple(rows))


def _curve_of(subject: Subject) -> Vector:
    facts, inner = subject.looks, subject.inner
    assert facts is not None
    n = len(facts.names)
    return np.asarray(inner.detection_curve(subject.prepared, max(n, MORE_LOOKS) if facts.alike else n))


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


def _repeats(subject: Subject) -> tuple[Table, float]:
    """Compare how many rows have no label, one, two, ... with what the models expect."""
    labels = subject.seen_labels
    observed = np.bincount((labels == 1).sum(axis=1), weights=subject.weight, minlength=labels.shape[1] + 1)
    expected = subject.weight @ _number_of_labels(subject)
    rows = tuple((f"{j}", float(observed[j]), float(np.round(expected[j]))) for j in range(observed.size))
    cells: list[list[float]] = []
    for o, e in zip(observed, expected, strict=True):
        if cells and (e < _RARE or cells[-1][1] < _RARE):
            cells[-1][0], cells[-1][1] = cells[-1][0] + float(o), cells[-1][1] + float(e)
        else:
            cells.append([float(o), float(e)])
    statistic = sum((o - e) ** 2 / e for o, e in cells if e > 0)
    p_value = float(chi2.sf(statistic, max(len(cells) - 1, 1)))
    head = ("labels of a row", "rows", "expected")
    return Table("Rows by the number of their labels", head, ("text", "count", "count"), rows), p_value


def _number_of_labels(subject: Subject) -> Matrix:
    """Return the probability of each number of labels, for every row: over the looks that took place."""
    facts, inner = subject.looks, subject.inner
    assert facts is not None
    seen = np.isfinite(subject.seen_labels)
    n, looks = seen.shape
    rates = np.resize([value for value, _ in facts.rates], looks)
    mixed = np.zeros((n, looks + 1))
    for positive, weight in ((True, subject.f), (False, 1.0 - subject.f)):
        chances = np.zeros((n, looks + 1))
        chances[:, 0] = 1.0
        for k in range(looks):
            p = np.where(seen[:, k], inner.predict_propensity(subject.prepared, look=k) if positive else rates[k], 0.0)
            chances[:, 1:] = chances[:, 1:] * (1.0 - p)[:, None] + chances[:, :-1] * p[:, None]
            chances[:, 0] *= 1.0 - p
        mixed += weight[:, None] * chances
    return mixed


# --- facts


def known_facts(key: str, title: str, subject: Subject) -> Check:
    """Tell whether rows and what is known from elsewhere agree."""
    facts = subject.looks
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
    table = Table("What is known from elsewhere", head, kinds, rows)
    return Check(key, title, "bad" if odd else "good", verdict, tuple(details), None, (table,))


def _found(subject: Subject, claim: Any) -> float | None:
    if hasattr(claim, "look"):
        return float(subject.looks.frequencies[claim.look][0])  # type: ignore[union-attr]
    return float(subject.inner.class_prior_) if claim.where is None else None
