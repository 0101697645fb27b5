"""What a fit to several looks and audits doubts of itself, in words."""

from scipy.stats import norm

from scarless.numerics.interval import Interval
from scarless.pair.look_doubts import (
    AuditGap,
    BoundGap,
    EnteredFindings,
    LookGap,
    OffsetGap,
    OtherChoice,
    PairGap,
    UnsaidRate,
)

_APART = 3.3  # standard errors between audits and models: 1 in 1,000 by chance
_LOOKS_APART, _SHARE_APART = 4.0, 0.1  # of a look that shares a propensity: surely, and by enough to matter
_BY_CHANCE = 0.001  # how often independent looks are said to depend on each other
_CLAIM_APART = 3.0  # standard errors between rows and bounds, or a coefficient of 1: 3 in 1,000 by chance
_LOG_GAIN = 3.5  # log-likelihood: the logarithm of the right offset gains as much in fewer than 3 of 100 cases
_FEWEST_FINDINGS = 5  # audited positives with a label, and labels of rows that were not audited
_MISSING = 2.0  # standard errors: positives without a label that audits should have found
_UNLABELLED_SHARE = 0.1  # of audited positives: at most, where findings seem to be entered as labels
_CHOICE_GAIN = 3.0  # log-likelihood, odds of 20: the wrong choice of rows is ahead by it in fewer than 1 of 100 cases
_ON_BOUND = 0.5  # share of positives from which on a bound decides, and not the rows
_OUTSIDE = 0.1  # share of positives: bounds that rows contradict
_NEAR = 0.02  # class priors that are the same for whoever uses them


def told_of_audits(gap: AuditGap | None) -> list[str]:
    """Return that audits found more positives, or fewer, than labels and models allow."""
    if gap is None or abs(gap.apart) < _APART:
        return []
    return [
        f"audits found {gap.found:,.0f} positives where labels and models expect {gap.expected:,.0f}, "
        f"{abs(gap.apart):.1f} standard errors apart. Either the models are of the wrong form, or audits were not "
        "chosen blindly: by what the check would find, or written down only if it found. If chance chose them, "
        "audited_class_prior is right."
    ]


def told_of_findings(found: EnteredFindings | None, gap: AuditGap | None) -> list[str]:
    """Return that the labels of audited rows seem to come from their audits."""
    if found is None or min(found.labelled, found.others) < _FEWEST_FINDINGS or found.missing < _MISSING:
        return []
    few = found.positives - found.labelled <= _UNLABELLED_SHARE * found.positives
    if not few or not (found.apart > _APART or (gap is not None and gap.apart < -_APART)):
        return []
    return [
        f"{found.labelled:,.0f} of the {found.positives:,.0f} audited positives have a label, and audited rows have "
        f"{found.labels:,.0f} labels where {found.expected:,.0f} are expected of such rows. If findings of the audit "
        "were entered as labels, the class prior is too low: use audit_labels='drop' (--audit-labels drop), or 'undo' "
        "where only rows without a label were audited."
    ]


_CHOSEN = {
    "drop": "rows were audited whether or not they had a label",
    "undo": "only rows without a label were audited",
}


def told_of_choice(other: OtherChoice | None, audit_labels: str) -> list[str]:
    """Return that rows seem to be chosen for audits in another way than `audit_labels` says."""
    if other is None or other.gained < _CHOICE_GAIN:
        return []
    instead = _other_of(audit_labels)
    return [
        f"audit_labels={audit_labels!r} says that {_CHOSEN[audit_labels]}, and the rows contradict it: that "
        f"{_CHOSEN[instead]} fits better (log-likelihood higher by {other.gained:.1f}, if the chance to be audited is "
        f"logistic in the attributes). If it was so, use audit_labels={instead!r}; the class prior is then "
        f"{other.class_prior:.2f}."
    ]


def choice_remark(other: OtherChoice | None, audit_labels: str) -> str:
    """Return what `audit_labels` takes for granted of audits, and what the answer would be if it were otherwise."""
    told = f"audit_labels={audit_labels!r} takes for granted that {_CHOSEN[audit_labels]}."
    if other is None:
        return f"{told} If not, the class prior is wrong."
    instead = _other_of(audit_labels)
    if other.gained >= _CHOICE_GAIN:
        shown = "The rows contradict this"
    else:
        shown = (
            "The rows agree with this" if other.gained <= -_CHOICE_GAIN else "The rows do not show whether it was so"
        )
    return f"{told} {shown}. If it was not so, {instead!r} is right, and the class prior is {other.class_prior:.2f}."


def _other_of(audit_labels: str) -> str:
    return "drop" if audit_labels == "undo" else "undo"


def told_of_pairs(gaps: list[PairGap], names: tuple[str, ...]) -> list[str]:
    """Return that two looks depend on each other, by the pair that does most."""
    worst = max(gaps, key=lambda gap: abs(gap.apart), default=None)
    if worst is None or abs(worst.apart) < norm.isf(0.5 * _BY_CHANCE / len(gaps)):
        return []
    one, other = (names[look] for look in worst.looks)
    if worst.apart > 0:
        return [
            f"{one} and {other} agree more often than independent looks would, by {worst.apart:.1f} standard errors. "
            "Either one is partly a copy of the other (leave it out), or rows differ in ways that no attribute "
            "explains, or the models are of the wrong form. In the first two cases the class prior is too low. Audits "
            "of rows without a label tell."
        ]
    return [
        f"{one} and {other} agree less often than independent looks would, by {-worst.apart:.1f} standard errors. If "
        "no second look was made after a label, code it as NaN and not as 0; else the models are of the wrong form."
    ]


def told_of_bounds(gap: BoundGap | None) -> list[str]:
    """Return that propensities sit on a bound, or that rows speak for others outside of the bounds."""
    if gap is None:
        return []
    if gap.apart > _CLAIM_APART and gap.outside > _OUTSIDE:
        return [
            f"rows contradict the bounds: without them the fit is better by {gap.apart:.1f} standard errors, and "
            f"{gap.outside:.0%} of positives have a propensity outside of them. The class prior is wrong if the "
            "bounds are: leave them out, or widen them."
        ]
    if gap.on_bound >= _ON_BOUND:
        return [
            f"the propensity of {gap.on_bound:.0%} of positives sits on the bound {gap.bound:g} that was given, "
            "so that the bound decides the class prior, and not the rows. Check where the bound comes from, or widen "
            "it."
        ]
    return []


def told_of_offset(gap: OffsetGap | None) -> list[str]:
    """Return that rows speak for a coefficient of the offset other than 1."""
    if gap is None or (gap.apart < _CLAIM_APART and gap.by_log < _LOG_GAIN):
        return []
    remedy = (
        "The offset is added to the logit as it is: give the logarithm of an effort, not the effort. Or name the "
        "column among propensity_attributes, which estimates its coefficient."
    )
    if gap.by_log >= _LOG_GAIN:
        return [
            f"the logarithm of the offset fits better than the offset itself (log-likelihood higher by "
            f"{gap.by_log:.1f}). {remedy}"
        ]
    return [
        f"the coefficient of the offset is taken for 1, and {gap.coefficient:.2g} fits better, "
        f"{gap.apart:.1f} standard errors apart. {remedy}"
    ]


def told_of_looks(gaps: list[LookGap], names: tuple[str, ...]) -> list[str]:
    """Return that looks which share one propensity differ, by the look that differs most."""
    worst = max(gaps, key=lambda gap: abs(gap.apart))
    if abs(worst.apart) < _LOOKS_APART or abs(worst.found - worst.expected) < _SHARE_APART * worst.expected:
        return []
    return [
        f"{names[worst.look]} found {worst.found:,.0f} labels, and {worst.expected:,.0f} are expected if all looks "
        f"share one propensity ({abs(worst.apart):.1f} standard errors): they differ. Use Labelling(shared=False), or "
        "visit_attributes for what differs."
    ]


def told_of_rate(found: UnsaidRate | None) -> list[str]:
    """Return that rows speak for another rate of false positives than the one that was given."""
    if found is None or found.apart < _APART:
        return []
    said = "without false positives" if found.given == 0 else f"with a false-positive rate of {found.given:.3g}"
    return [
        f"labels do not fit {said}: a rate of {found.rate:.3f} fits better, {found.apart:.1f} standard errors apart. "
        "Either it is so, and false_positive_rate='estimate' takes care of it, or the models are of the wrong form."
    ]


def told_of_rivals(rivals: list[tuple[float, float]], interval: Interval) -> list[str]:
    """Return that another optimum, whose class prior is outside of the interval, is about as likely."""
    low, high = interval
    outside = [each for each in rivals if not low - _NEAR <= each[0] <= high + _NEAR]
    if not outside:
        return []
    prior, behind = min(outside, key=lambda each: each[1])
    return [
        f"models with a class prior of {prior:.2f} fit these rows about as well (log-likelihood lower by "
        f"{behind:.1f}), and no interval knows of them. More audits of rows without a label, or more rows with "
        "several looks, tell which are right."
    ]
