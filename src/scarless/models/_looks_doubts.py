"""What a fit to several looks and audits doubts of itself, in words."""

from scarless.numerics.interval import Interval
from scarless.pair.look_doubts import AuditGap, LookGap, UnsaidRate
from scarless.pair.looks import Rival

_APART = 3.3  # standard errors between audits and models: 1 in 1,000 by chance
_LOOKS_APART, _SHARE_APART = 4.0, 0.1  # of a look that shares a propensity: surely, and by enough to matter
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


def told_of_looks(gaps: list[LookGap], names: tuple[str, ...]) -> list[str]:
    """Return that looks which share one propensity differ, by the look that differs most."""
    worst = max(gaps, key=lambda gap: abs(gap.apart))
    if abs(worst.apart) < _LOOKS_APART or abs(worst.found - worst.expected) < _SHARE_APART * worst.expected:
        return []
    return [
        f"{names[worst.look]} found {worst.found:,.0f} labels, and {worst.expected:,.0f} are expected if all looks "
        f"share one propensity ({abs(worst.apart):.1f} standard errors): they differ. Use shared_propensity=False, or "
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


def told_of_rivals(rivals: tuple[Rival, ...], interval: Interval) -> list[str]:
    """Return that another optimum, whose class prior is outside of the interval, is about as likely."""
    low, high = interval
    outside = [each for each in rivals if not low - _NEAR <= each.class_prior <= high + _NEAR]
    if not outside:
        return []
    best = min(outside, key=lambda each: each.behind)
    return [
        f"models with a class prior of {best.class_prior:.2f} fit these rows about as well (log-likelihood lower by "
        f"{best.behind:.1f}), and no interval knows of them. More audits of rows without a label, or more rows with "
        "several looks, tell which are right."
    ]
