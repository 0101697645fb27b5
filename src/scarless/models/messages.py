"""What a fit says beside its numbers: warnings when it ends, and remarks that its summary repeats."""

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from scarless.engines.blocks import Units
from scarless.models.reading import Given
from scarless.models.summary import (
    FEW_LABELS,
    NOT_CONVERGED,
    ONE_PROPENSITY,
    SWAPPABLE,
    attribute_names,
    few_labels_remarks,
)
from scarless.numerics.arrays import Vector
from scarless.numerics.newton import Solution, Status
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.pair.constraints import labelling_of
from scarless.pair.fit import PairFit
from scarless.pair.fitted import FittedPair, LookModels
from scarless.pair.inference import disagreements
from scarless.pair.logistic import all_labelled
from scarless.pair.look_checks import (
    AuditGap,
    BoundGap,
    EnteredFindings,
    LookGap,
    OffsetGap,
    OtherChoice,
    PairGap,
    PriorGap,
    UnsaidRate,
    bound_gap,
    look_gaps,
    offset_gap,
    pair_gaps,
    prior_gap,
    unsaid_rate,
)
from scarless.pair.optima import message_about_optima
from scarless.pair.problem import PairProblem
from scarless.pair.stack import gap_to_naive

WIDE_INTERVAL = 0.5  # of the class prior's 95% interval
RANKED_WORSE = 0.02  # in the area under the ROC curve: less is no reason to worry
CLAIM_DISAGREES = 2.576  # standard errors between rows and a claim that are worth a warning: 1 in 100 by chance
_RESTS_ON_FORM = (
    "Class prior, interval and propensities rest on that form, and classifier and propensity may be swapped. Check "
    "propensity_attributes, or use SARStackingClassifier, whose classifiers need not be linear."
)


def warn_if_all_labelled(label_frequency: float, name: str) -> None:
    """Warn that a fit has no use for missing labels: it is the naive model then."""
    if all_labelled(label_frequency):
        warn_user(
            f"{name} finds that all positives are labelled (label frequency {label_frequency:.6f}): its classifier is "
            "then the naive one. If that cannot be: does a column of X follow from the label? Otherwise say more "
            "of what you know: fewer classification_attributes, or a stronger penalty (lower C).",
            UserWarning,
        )


def warn_if_all_positive(class_prior: float, labelled_share: float, name: str) -> None:
    """Warn that a fit has no use for negatives: the propensity explains the labels by itself then."""
    if class_prior > 0.95 and labelled_share < 0.6:
        warn_user(
            f"{name} finds that nearly every row is positive (class prior {class_prior:.3f}; {labelled_share:.0%} are "
            "labelled): the propensity explains the labels by itself. If that cannot be, name fewer "
            "propensity_attributes, or audit some unlabelled rows.",
            UserWarning,
        )


def warn_if_class_prior_is_uncertain(
    name: str, labelled: float, class_prior: float, interval: Interval | None, *, nameless: bool, swappable: bool
) -> None:
    """Warn where labels are few, or the interval of the class prior is wide: what to trust, what not, what to do."""
    few, wide = labelled < FEW_LABELS, interval is not None and interval.high - interval.low > WIDE_INTERVAL
    if not (few or wide):
        return
    rows = "is only 1 labelled row" if labelled == 1 else f"are only {labelled:g} labelled rows"
    why = f"there {rows}" if few else "the labels leave the class prior open"
    span = "" if interval is None else f", {interval.low:.2f} to {interval.high:.2f}"
    helps = "Name the attributes that drive the labelling, or audit" if nameless else "Audit"
    ranking = "Rely on the ranking of rows."
    if swappable:
        ranking = (
            "Class and propensity see the same columns and may be swapped: compare the ranking of rows with that of "
            "NaiveClassifier or SARStackingClassifier."
        )
    warn_user(
        f"{name}: {why}. {ranking} Do not rely on the number of positives (class prior "
        f"{class_prior:.2f}{span}), nor on predict(), which depends on it. {helps} about 30 unlabelled rows: see "
        "scarless.diagnostics.plan_audit.",
        ClassPriorWarning,
    )


def warn_unless_converged(solution: Solution, name: str, *, total_weight: float, tol: float) -> None:
    """Turn a solver's status into a warning that says what to do."""
    gain = solution.gain / total_weight
    if solution.status is Status.AT_INFINITY:
        message = (
            f"{name}: the optimum is at infinity, since there is no penalty and the classes are separable. The "
            f"coefficients returned are where one more step gains {gain:.1e} per row. Use a finite C."
        )
    elif solution.status is Status.MAX_ITER:
        message = (
            f"{name} did not converge in max_iter={solution.n_iter} iterations: one more step would gain "
            f"{gain:.1e} in log-likelihood per row, tol is {tol:.1e}. Raise max_iter, scale the columns or lower C."
        )
    elif solution.status is Status.STALLED:
        message = (
            f"{name} stopped after {solution.n_iter} iterations: no step lowers the objective although "
            f"{gain:.1e} per row was predicted, tol is {tol:.1e}. Scale the columns, lower C or raise tol."
        )
    else:
        return
    warn_user(message, ConvergenceWarning)


def message_about_driver(name: str, gain: float) -> str:
    """Say that a column which nobody named drives the labelling, by the labels."""
    return (
        f"The labels contradict the propensity attributes: the log-likelihood rises by {gain:.1f} if {name!r}, which "
        "is not named, drives the labelling. If that can be, name it; if not, the class depends on it in a way that "
        "the models do not see. Until then the class prior and its interval may be far off."
    )


def message_about_higher(model: Any) -> str:
    """Return the sentences on a higher optimum that was seen; empty where none was."""
    higher = getattr(model, "higher_optimum_", None)
    if higher is None:
        return ""
    told = message_about_optima(higher, model.optima_[model.selection_.index])
    return told[0].upper() + told[1:]


def message_about_drivers(model: Any) -> str:
    """Say that labels reject the named attributes against a column which is not among them; empty if not."""
    if model._driver is None:
        return ""
    return message_about_driver(str(attribute_names(model)[model._driver[0]]), model._driver[1])


def message_about_form(model: Any) -> str:
    """Say that the labels contradict the form of the models, and what to do; empty where they do not."""
    found = getattr(model, "form_test_", None)
    if found is None or not found.rejected or getattr(model, "higher_optimum_", None) is not None:
        return ""
    names = attribute_names(model)
    if found.driver >= 0:
        return f"{message_about_driver(str(names[found.driver]), found.gain)} {_RESTS_ON_FORM}"
    return (
        f"The labels contradict the form of the two models: they fit clearly better with "
        f"{found.direction.told(names)} (score test, adjusted p = {found.p_value:.1g}). The class is not linear in "
        f"the attributes, or the labelling depends on attributes that are not named. {_RESTS_ON_FORM}"
    )


def warn_about_units(units: Units | None, names: Any, name: str) -> None:
    """Warn that errors were computed from columns that a solver had to centre and scale."""
    if units is None:
        return
    bad = np.flatnonzero((units.shift != 0) | (units.scale != 1))
    more = f" and {bad.size - 1} more" if bad.size > 1 else ""
    warn_user(
        f"{name}: column {names[bad[0]]!r}{more} lies farther from 0 than 1e5 times its spread, or "
        "has entries below 1e-100 only. The models were fitted to centred and scaled columns and are right; their "
        "standard errors and intervals are not to be trusted. Scale the columns first, e.g. with "
        "sklearn.preprocessing.StandardScaler.",
        UserWarning,
    )


def warn_if_ranked_worse(problem: PairProblem, beta_f: Vector, beta_e: Vector, name: str) -> None:
    """Warn where a fit to one label of each row ranks labelled rows worse than the naive model.

    A classifier that sees the same columns as the propensity is compared by itself, since the two may have changed
    places. Else the product of both is compared: a good classifier alone may rank labels worse than naive.
    """
    gap = gap_to_naive(problem, beta_f, None if problem.swappable else beta_e)
    if gap is None or not gap.is_loss or gap.difference >= -RANKED_WORSE:
        return
    what = "the classifier ranks" if problem.swappable else "classifier and propensity together rank"
    why = (
        "It sees the same columns as the propensity, and the two have probably changed places."
        if problem.swappable
        else "The fit is probably in a poor local optimum: use n_starts=5."
    )
    warn_user(
        f"{name}: {what} labelled rows worse than the naive model (area under the ROC curve lower by "
        f"{-gap.difference:.2f}). {why} Name the attributes that drive the labelling, or use SARStackingClassifier(), "
        "whose ranking is compared with the naive one.",
        ClassPriorWarning,
    )


# --- remarks


def remarks_on_fit(model: Any, pair: FittedPair) -> list[str]:
    """Return what to know of a fit of two logistic models beside its numbers."""
    remarks = [*filter(None, [message_about_higher(model), message_about_form(model)])] if pair.looks is None else []
    if pair.n_groups:
        remarks.append(
            f"Rows belong to {pair.n_groups:,} groups, for which standard errors and intervals account (sandwich "
            "formula)."
        )
    inference = pair.inference
    if pair.looks is None:
        remarks += [remark for grid in pair.grids[:1] for remark in grid.remarks()]
        remarks += few_labels_remarks(pair.labelled)
        remarks += [*filter(None, [message_about_drivers(model)])]
        remarks += [ONE_PROPENSITY] if pair.e_columns.size == 0 else []
    if pair.looks is None and inference is not None:
        remarks += [SWAPPABLE] if inference.swappable else []
        if all_labelled(inference.label_frequency.value):
            remarks.append(
                "All positives are labelled in this fit. How many more the data would allow is not for standard errors "
                "to say: profile_class_prior follows the likelihood."
            )
        remarks += [] if model.converged_ else [NOT_CONVERGED]
    elif pair.looks is not None:
        remarks += remarks_on_looks(model, pair, pair.looks)
    chosen = getattr(model, "selection_", None)
    if hasattr(model, "cv_results_") and chosen is not None and chosen.n_tied > 1:
        remarks.append(f"{chosen.reason} Standard errors of coefficients do not know of this choice.")
    return remarks


def remarks_on_looks(model: Any, pair: FittedPair, looks: LookModels) -> list[str]:
    """Return what to know of a fit to several looks, audits or facts."""
    remarks = [told[0].upper() + told[1:] for told in model._told]
    remarks += few_labels_remarks(pair.labelled)
    remarks += [] if model.converged_ else [NOT_CONVERGED]
    if looks.n_looks == 2 and not looks.n_audited:
        remarks.append(
            "With two looks and no audit, rows hardly show whether one look is partly a copy of the other: only "
            "the form of the models tells. In a simulation with a copy in 60% of rows the class prior was 0.18 to "
            "0.21 instead of 0.42. A third look, or 50 to 100 audits of rows without a label, show it."
        )
    if looks.n_looks == 1 and looks.objective.false_positives is not None and not looks.objective.n_rates:
        remarks.append(
            "With one look of each row the false-positive rate is taken as given: rows show at most that it is too "
            "high. The class prior depends on it. Audits of labelled rows, or a second look, allow "
            "false_positive_rate='estimate'."
        )
    if looks.objective.bounds is not None:
        remarks.append(
            "Propensity bounds are taken as given, and the class prior depends on them. Rows contradict them only "
            "where the models fit clearly better without."
        )
    if looks.n_looks > 1:
        remarks.append(
            "Looks count as independent given the attributes. Differences between rows that no attribute explains "
            "make the class prior too low, and intervals far too short. goodness_of_fit looks for them; "
            "audited_class_prior is right whatever the models are."
        )
    if looks.n_audited:
        remarks += _remarks_on_audits(model, labelling_of(model).audit_labels)
    return remarks


def _remarks_on_audits(model: Any, audit_labels: str) -> list[str]:
    remarks = [
        "Audits count as chosen by attributes, labels or chance. If positives were more likely to be checked, "
        "or to be reported, the class prior is too high."
    ]
    if audit_labels == "keep":
        remarks.append(
            "Labels of audited rows count as labelling. If findings of audits were entered as labels, the "
            "class prior is too low: use audit_labels='drop' or 'undo'."
        )
    else:
        told = model._choice_remark or choice_remark(None, audit_labels)
        remarks.append(f"Labels of audited rows count as findings of the audits, not as labelling. {told}")
    return remarks


# --- looks, audits and facts


def misfits(problem: PairProblem, fit: PairFit, given: Given, *, shared: bool, max_iter: int) -> list[str]:
    """Return where rows contradict what the models, and the user, take for granted."""
    looks, differ = given.looks, list[str]()
    assert looks is not None
    if looks.n_looks > 1 and shared:
        differ = message_about_looks(look_gaps(problem, fit.parameters, given.labels, looks.kinds), looks.names)
    found = message_about_rate(unsaid_rate(problem, fit, max_iter=max_iter))
    if fit.converged:
        found += message_about_bounds(bound_gap(problem, fit, max_iter=max_iter))
        found += message_about_offset(offset_gap(problem, fit, max_iter=max_iter))
        # Looks that differ, and share a propensity, seem to depend on each other as well.
        if looks.n_looks > 1 and not differ:
            found += message_about_pairs(pair_gaps(problem, fit.parameters, given.labels, looks.kinds), looks.names)
        if looks.n_looks > 1:
            gap = prior_gap(problem, fit, given.labels, looks.kinds, max_iter=max_iter)
            found += message_about_prior(gap, audited=looks.n_audited > 0)
    return [*differ, *found]


def message_about_claims(problem: PairProblem, fit: PairFit, *, max_iter: int) -> list[str]:
    """Return that rows and what is known from elsewhere disagree."""
    return [
        f"what is known of the {claim} and the rows disagree: they are {apart:.1f} standard errors apart. "
        "One of them is wrong: the claim, its standard error, or the form of the models."
        for claim, apart in disagreements(problem, fit, max_iter=max_iter)
        if apart > CLAIM_DISAGREES
    ]


def message_about_swapped(rates: Vector, frequencies: Vector) -> list[str]:
    """Return that negatives are labelled as often as positives."""
    if not rates.max() > frequencies.min():
        return []
    return [
        f"negatives are found to be labelled as often as positives (false-positive rate {rates.max():.2f}, "
        f"label frequency {frequencies.min():.2f}): the looks say little, or the classes have changed places."
    ]


AUDITS_DISAGREE = 3.3  # standard errors between audits and models: 1 in 1,000 by chance
_LOOKS_APART, _SHARE_APART = 4.0, 0.1  # of a look that shares a propensity: surely, and by enough to matter
_BY_CHANCE = 0.001  # how often independent looks are said to depend on each other
_CLAIM_APART = 3.0  # standard errors between rows and bounds, or a coefficient of 1: 3 in 1,000 by chance
_PRIOR_APART = 0.05  # of the class prior: a smaller difference matters to nobody, however sure it is
_LOG_GAIN = 3.5  # log-likelihood: the logarithm of the right offset gains as much in fewer than 3 of 100 cases
_FEWEST_FINDINGS = 5  # audited positives with a label, and labels of rows that were not audited
_MISSING = 2.0  # standard errors: positives without a label that audits should have found
_UNLABELLED_SHARE = 0.1  # of audited positives: at most, where findings seem to be entered as labels
_CHOICE_GAIN = 3.0  # log-likelihood, odds of 20: the wrong choice of rows is ahead by it in fewer than 1 of 100 cases
_ON_BOUND = 0.5  # share of positives from which on a bound decides, and not the rows
_OUTSIDE = 0.1  # share of positives: bounds that rows contradict
_NEAR = 0.02  # class priors that are the same for whoever uses them


def message_about_audits(gap: AuditGap | None) -> list[str]:
    """Return that audits found more positives, or fewer, than labels and models allow."""
    if gap is None or abs(gap.apart) < AUDITS_DISAGREE:
        return []
    return [
        f"audits found {gap.found:,.0f} positives where labels and models expect {gap.expected:,.0f}, "
        f"{abs(gap.apart):.1f} standard errors apart. Either the models are of the wrong form, or audits were not "
        "chosen blindly: by what the check would find, or written down only if it found. If chance chose them, "
        "audited_class_prior is right."
    ]


def message_about_findings(found: EnteredFindings | None, gap: AuditGap | None) -> list[str]:
    """Return that the labels of audited rows seem to come from their audits."""
    if found is None or min(found.labelled, found.others) < _FEWEST_FINDINGS or found.missing < _MISSING:
        return []
    few = found.positives - found.labelled <= _UNLABELLED_SHARE * found.positives
    if not few or not (found.apart > AUDITS_DISAGREE or (gap is not None and gap.apart < -AUDITS_DISAGREE)):
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


def message_about_choice(other: OtherChoice | None, audit_labels: str) -> list[str]:
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


def message_about_pairs(gaps: list[PairGap], names: tuple[str, ...]) -> list[str]:
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


def message_about_prior(gap: PriorGap | None, *, audited: bool) -> list[str]:
    """Return that the class prior of a fit is far from one that does not depend on the class model."""
    if gap is None or abs(gap.apart) < CLAIM_DISAGREES:
        return []
    if abs(gap.by_histories - gap.by_fit) < _PRIOR_APART * gap.by_fit:
        return []
    besides = "; or audits were chosen by what the check would find" if audited else ""
    return [
        f"the class prior is {gap.by_fit:.3f}, and how often labelled rows are labelled again says "
        f"{gap.by_histories:.3f}, whatever the classifier is ({abs(gap.apart):.1f} standard errors apart). Probably "
        f"the classifier is of the wrong form, or misses an attribute; or the propensity does{besides}. Try another "
        "classifier, as SAREMClassifier(HistGradientBoostingClassifier()), or audit some rows without a label."
    ]


def message_about_bounds(gap: BoundGap | None) -> list[str]:
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


def message_about_offset(gap: OffsetGap | None) -> list[str]:
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


def message_about_looks(gaps: list[LookGap], names: tuple[str, ...]) -> list[str]:
    """Return that looks which share one propensity differ, by the look that differs most."""
    worst = max(gaps, key=lambda gap: abs(gap.apart))
    if abs(worst.apart) < _LOOKS_APART or abs(worst.found - worst.expected) < _SHARE_APART * worst.expected:
        return []
    return [
        f"{names[worst.look]} found {worst.found:,.0f} labels, and {worst.expected:,.0f} are expected if all looks "
        f"share one propensity ({abs(worst.apart):.1f} standard errors): they differ. Use Labelling(shared=False), or "
        "visit_attributes for what differs."
    ]


def message_about_rate(found: UnsaidRate | None) -> list[str]:
    """Return that rows speak for another rate of false positives than the one that was given."""
    if found is None or found.apart < AUDITS_DISAGREE:
        return []
    said = "without false positives" if found.given == 0 else f"with a false-positive rate of {found.given:.3g}"
    return [
        f"labels do not fit {said}: a rate of {found.rate:.3f} fits better, {found.apart:.1f} standard errors apart. "
        "Either it is so, and false_positive_rate='estimate' takes care of it, or the models are of the wrong form."
    ]


def message_about_rivals(rivals: list[tuple[float, float]], interval: Interval) -> list[str]:
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
