"""Warnings of a fit, and remarks that `summary` prints below its table.

Functions `message_about_...` return sentences; functions `warn_...` emit a warning.
"""

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
from scarless.numerics.scores import RankingGap
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.pair.constraints import labelling_of
from scarless.pair.fit import PairFit
from scarless.pair.fitted import FittedPair, LookModels
from scarless.pair.inference import disagreements
from scarless.pair.logistic import all_labelled
from scarless.pair.look_checks import (
    AuditGap,
    AuditSelectionGap,
    BoundGap,
    EnteredFindings,
    LookGap,
    OffsetGap,
    PairGap,
    PriorGap,
    RateGap,
    bound_gap,
    look_gaps,
    offset_gap,
    pair_gaps,
    prior_gap,
    rate_gap,
)
from scarless.pair.optima import describe_higher_optimum
from scarless.pair.problem import PairProblem
from scarless.pair.stack import gap_to_naive

#: Class prior above which a stack asks whether the labels are reversed. Evidence: in the 5,040 stored runs of stacks in
#: ``papers/field``, no estimate is above it.
PERHAPS_REVERSED = 0.8
ONE_SIDED_5_PERCENT = 1.645  # standard errors of a one-sided test at 5%
WIDE_INTERVAL = 0.5  # width of the 95% interval of the class prior above which a fit warns
MIN_AUC_LOSS_TO_WARN = 0.02  # area under the ROC curve of the naive model, minus that of the fit, above which it warns
CLAIM_WARNING_Z = 2.576  # standard errors between rows and a known value; exceeded by chance in 1 of 100 fits
AUDITS_DIFFER = "but labels and models predict"  # part of the message that audits contradict the models
PROBABLY_SWAPPED = "The class model and the propensity model use the same columns and are probably swapped."
_DEPENDS_ON_FORM = (
    "The class prior, its interval and the propensities depend on the functional form of the models, and the class "
    "model and the propensity model may be swapped. Check propensity_attributes, or use SARStackingClassifier, whose "
    "classifiers need not be linear."
)


def warn_if_all_labelled(model: Any) -> None:
    """Warn if the fit estimates that all positives are labelled: its classifier is then the naive model.

    A stronger penalty is no remedy: the label frequency often stays at 1, or gets there only by the penalty.
    """
    if not all_labelled(model.label_frequency_):
        return
    remedy = "use SAREMClassifier and audit some unlabelled rows"  # PublishedEMClassifier has no audits
    if hasattr(model, "known"):
        remedy = "audit some unlabelled rows: see scarless.diagnostics.plan_audit"
    elif hasattr(model, "label_frequency"):
        remedy = "pass a label frequency that you know (label_frequency=0.5, for example)"
    warn_user(
        f"{type(model).__name__} finds that all positives are labelled (label frequency "
        f"{model.label_frequency_:.6f}), so its classifier is the naive model. If this is implausible, check whether a "
        "column was filled in after the label was known, and remove that column. If there is no such column, use "
        f"fewer columns for the class model, or {remedy}.",
        UserWarning,
    )


def warn_if_all_positive(class_prior: float, labelled_share: float, name: str) -> None:
    """Warn if the fit estimates that nearly all rows are positive: the propensity alone then explains the labels."""
    if class_prior > 0.95 and labelled_share < 0.6:
        warn_user(
            f"{name} finds that nearly every row is positive (class prior {class_prior:.3f}; {labelled_share:.0%} of "
            "the rows are labelled), so the propensity alone explains the labels. If this is implausible, name "
            "fewer propensity_attributes, or audit some unlabelled rows.",
            UserWarning,
        )


def warn_if_perhaps_reversed(class_prior: float, labelled_share: float, name: str) -> None:
    """Warn if so many rows are positive that the label may mark the rows that are no cases."""
    if class_prior > PERHAPS_REVERSED:
        warn_user(
            f"{name} finds that most rows are positive (class prior {class_prior:.2f}; {labelled_share:.0%} of the "
            "rows are labelled). If cases are rare in your data, the labels are probably reversed, and so is the "
            "ranking: check that a label marks a case, and not the absence of one.",
            ClassPriorWarning,
        )


def warn_if_class_prior_is_uncertain(
    name: str,
    labelled: float,
    class_prior: float,
    interval: Interval | None,
    *,
    nameless: bool,
    swappable: bool,
    doubtful: bool = False,
) -> bool:
    """Warn if labels are few or the interval of the class prior is wide, and return whether one of them holds.

    `doubtful`: logistic models rank rows differently, and explain held-out labels better or about as well.
    """
    few, wide = labelled < FEW_LABELS, interval is not None and interval.high - interval.low > WIDE_INTERVAL
    if not (few or wide):
        return False
    rows = "is only 1 labelled row" if labelled == 1 else f"are only {labelled:g} labelled rows"
    why = f"there {rows}" if few else "the labels do not determine the class prior"
    span = "" if interval is None else f", 95% interval {interval.low:.2f} to {interval.high:.2f}"
    helps = "Name the attributes that drive the labelling, or audit" if nameless else "Audit"
    ranking = "The ranking of rows is rough with so few labels." if few else "The ranking of rows hardly depends on it."
    if doubtful:
        ranking = (
            "Nor do they determine the ranking of rows: logistic models rank them differently and explain held-out "
            "labels as well or better. Compare it with the ranking by SARStackingClassifier()."
        )
    if swappable:
        ranking = (
            "The class model and the propensity model use the same columns and may be swapped: compare the ranking of "
            "rows with the ranking by NaiveClassifier or SARStackingClassifier."
        )
    warn_user(
        f"{name}: {why}. {ranking} Do not rely on the number of positives (class prior "
        f"{class_prior:.2f}{span}), nor on predict(), which depends on the class prior. {helps} about 30 unlabelled "
        "rows: see scarless.diagnostics.plan_audit.",
        ClassPriorWarning,
    )
    return True


def warn_unless_converged(
    solution: Solution, name: str, *, total_weight: float, tol: float, penalty: str = "C"
) -> None:
    """Warn if a solver did not converge, with the reason and a remedy; `penalty` is the parameter of the penalty."""
    gain = solution.gain / total_weight
    if solution.status is Status.AT_INFINITY:
        message = (
            f"{name}: the optimum is at infinity, because there is no penalty and the classes are separable. At the "
            f"returned coefficients, one more step would gain {gain:.1e} in log-likelihood per row. Use a finite C "
            "and, if the model has it, a finite propensity_C."
        )
    elif solution.status is Status.MAX_ITER:
        message = (
            f"{name} did not converge in max_iter={solution.n_iter} iterations: one more step would gain "
            f"{gain:.1e} in log-likelihood per row, and tol is {tol:.1e}. Raise max_iter, scale the columns, or use a "
            f"stronger penalty (lower {penalty})."
        )
    elif solution.status is Status.STALLED:
        message = (
            f"{name} stopped after {solution.n_iter} iterations: no step improves the log-likelihood, although a gain "
            f"of {gain:.1e} per row was predicted (tol is {tol:.1e}). Scale the columns, use a stronger penalty (lower "
            f"{penalty}), or raise tol."
        )
    else:
        return
    warn_user(message, ConvergenceWarning)


def message_about_driver(name: str, gain: float) -> str:
    """Return the message that a column outside the propensity attributes seems to drive the labelling."""
    return (
        f"The labels contradict the propensity attributes: the log-likelihood rises by {gain:.1f} if the labelling "
        f"also depends on {name!r}. If this is plausible, add {name!r} to propensity_attributes. If not, the class "
        f"probably depends on {name!r} in a way that the class model cannot describe. In either case the class prior "
        "and its interval may be far off."
    )


def message_about_higher(model: Any) -> str:
    """Return the message about a higher optimum; empty if none was found."""
    higher = getattr(model, "higher_optimum_", None)
    if higher is None:
        return ""
    message = describe_higher_optimum(higher, model.optima_[model.selection_.index])
    return message[0].upper() + message[1:]


def message_about_drivers(model: Any) -> str:
    """Return the message about a column that seems to drive the labelling but is not named; empty if there is none."""
    if model._driver is None:
        return ""
    return message_about_driver(str(attribute_names(model)[model._driver[0]]), model._driver[1])


def message_about_form(model: Any) -> str:
    """Return the message that the labels contradict the form of the models; empty if they do not."""
    found = getattr(model, "form_test_", None)
    if found is None or not found.rejected or getattr(model, "higher_optimum_", None) is not None:
        return ""
    names = attribute_names(model)
    if found.driver >= 0:
        return f"{message_about_driver(str(names[found.driver]), found.gain)} {_DEPENDS_ON_FORM}"
    return (
        f"The labels contradict the form of the two models: the models fit clearly better with "
        f"{found.direction.describe(names)} (score test, adjusted p = {found.p_value:.1g}). Either the class is not "
        "linear in the attributes, or the labelling depends on attributes that are not named in propensity_attributes. "
        f"{_DEPENDS_ON_FORM}"
    )


def warn_about_units(units: Units | None, names: Any, name: str) -> None:
    """Warn if the solver had to centre or scale columns, because standard errors are then unreliable."""
    if units is None:
        return
    bad = np.flatnonzero((units.shift != 0) | (units.scale != 1))
    more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
    warn_user(
        f"{name}: column {names[bad[0]]!r}{more} has a mean more than 1e5 standard deviations from 0, or only values "
        "below 1e-100. The solver therefore centred or scaled it. The coefficients are correct, but standard errors "
        "and intervals are unreliable. Scale the columns first, for example with "
        "sklearn.preprocessing.StandardScaler.",
        UserWarning,
    )


def warn_if_ranked_worse(problem: PairProblem, beta_f: Vector, beta_e: Vector, name: str) -> None:
    """Warn if a fit to one label for each row ranks labelled rows worse than the naive model.

    If the class model and the propensity model use the same columns, they may be swapped, so only the class model is
    compared. Otherwise the product of both is compared, because even a good class model may rank labels worse than the
    naive model, which also learns what drives the labelling.
    """
    gap = gap_to_naive(problem, beta_f, None if problem.swappable else beta_e)
    if gap is None or not _is_worse(gap):
        return
    what = "the class model ranks" if problem.swappable else "the class model and the propensity model together rank"
    why = (
        PROBABLY_SWAPPED
        if problem.swappable
        else "The fit is probably in a poor local optimum: try SAREMClassifier with n_starts=5."
    )
    warn_user(
        f"{name}: {what} labelled rows worse than the naive model (area under the ROC curve lower by "
        f"{-gap.difference:.2f}). {why} Name the attributes that drive the labelling, or use SARStackingClassifier(), "
        "which checks its ranking against the naive model.",
        ClassPriorWarning,
    )


def ranking_is_doubtful(model: Any) -> bool:
    """Whether logistic models rank rows differently, and explain held-out labels better or about as well."""
    gain, standard_error = model._gain_of_logistic
    return bool(gain > -ONE_SIDED_5_PERCENT * standard_error)


def message_about_logistic(model: Any) -> str:
    """Return the message that logistic models explain held-out labels better than the classifier; empty otherwise."""
    gain, standard_error = model._gain_of_logistic
    if gain <= ONE_SIDED_5_PERCENT * standard_error:
        return ""
    return (
        "Logistic models explain held-out labels better than this classifier (log-likelihood higher by "
        f"{gain:.1f}, standard error {standard_error:.1f}), and rank the rows differently, so their ranking is "
        "probably better. With few labels, a flexible classifier learns them by heart. Use SARStackingClassifier(), "
        "which weights logistic models, boosting and a forest by held-out labels, or a simpler classifier, for example "
        "with fewer leaves and more rows in each leaf."
    )


def warn_if_members_rank_worse(gap: RankingGap | None, name: str) -> None:
    """Warn if the mean of the members of a stack ranks held-out labels worse than the naive model."""
    if gap is not None and _is_worse(gap):
        warn_user(
            f"{name}: its members rank held-out labels worse than the naive model (area under the ROC curve lower by "
            f"{-gap.difference:.2f}). Use other members, or the default members.",
            UserWarning,
        )


def _is_worse(gap: RankingGap) -> bool:
    return gap.is_loss and gap.difference < -MIN_AUC_LOSS_TO_WARN


# --- remarks


def remarks_on_fit(model: Any, pair: FittedPair) -> list[str]:
    """Return the remarks on a fit of two logistic models."""
    remarks = [*filter(None, [message_about_higher(model), message_about_form(model)])] if pair.looks is None else []
    if pair.n_groups:
        remarks.append(
            f"Rows belong to {pair.n_groups:,} groups. Standard errors and intervals allow for dependence within "
            "groups (sandwich formula)."
        )
    inference = pair.inference
    if pair.looks is None:
        remarks += [remark for grid in pair.grids[:1] for remark in grid.remarks()]
        remarks += few_labels_remarks(pair.labelled)
        remarks += [*filter(None, [message_about_drivers(model), message_about_logistic(model)])]
        remarks += [ONE_PROPENSITY] if pair.e_columns.size == 0 else []
    if pair.looks is None and inference is not None:
        remarks += [SWAPPABLE] if inference.swappable else []
        if all_labelled(inference.label_frequency.value):
            remarks.append(
                "According to this fit, all positives are labelled. Standard errors do not show how many unlabelled "
                "positives the data allow. Use profile_class_prior."
            )
        remarks += [] if model.converged_ else [NOT_CONVERGED]
    elif pair.looks is not None:
        remarks += remarks_on_looks(model, pair, pair.looks)
    chosen = getattr(model, "selection_", None)
    if hasattr(model, "cv_results_") and chosen is not None and chosen.n_tied > 1:
        remarks.append(f"{chosen.reason} Standard errors of coefficients ignore this choice.")
    return remarks


def remarks_on_looks(model: Any, pair: FittedPair, looks: LookModels) -> list[str]:
    """Return the remarks on a fit to several looks, audits or known values."""
    remarks = [message[0].upper() + message[1:] for message in model._looks_warnings]
    remarks += few_labels_remarks(pair.labelled)
    remarks += [] if model.converged_ else [NOT_CONVERGED]
    if looks.n_looks == 2 and not looks.n_audited:
        remarks.append(
            "With two looks and no audit, the data hardly show whether one look is partly a copy of the other. In a "
            "simulation in which 60% of rows were copies, the estimated class prior was 0.18 to 0.21 instead of 0.42. "
            "A third look, or 50 to 100 audits of unlabelled rows, would reveal copies."
        )
    if looks.n_looks == 1 and looks.objective.false_positives is not None and not looks.objective.n_rates:
        remarks.append(
            "With one look, the false-positive rate is taken as given, and the class prior depends on it. The data can "
            "only show that the rate is too high. With audits of labelled rows, or a second look, you can use "
            "false_positive_rate='estimate'."
        )
    if looks.objective.bounds is not None:
        remarks.append(
            "Propensity bounds are taken as given, and the class prior depends on them. The data can contradict them "
            "only if the models fit clearly better without bounds."
        )
    if looks.n_looks > 1:
        remarks.append(
            "Looks are assumed to be independent given the attributes. If rows differ in ways that no attribute "
            "explains, the class prior is too low and intervals are far too short. goodness_of_fit tests "
            "independence. audited_class_prior does not depend on the models."
        )
    if looks.n_audited:
        remarks += _remarks_on_audits(model, labelling_of(model).audit_labels)
    return remarks


def _remarks_on_audits(model: Any, audit_labels: str) -> list[str]:
    remarks = [
        "Rows are assumed to be chosen for audits by their attributes, by their labels or at random. If positives were "
        "more likely to be audited than similar negatives, or if positive findings were more likely to be reported "
        "than negative findings, the class prior is too high."
    ]
    if audit_labels == "keep":
        remarks.append(
            "Labels of audited rows are assumed not to come from the audits. If findings of audits were entered as "
            "labels, the class prior is too low: use audit_labels='drop' or 'undo'."
        )
    else:
        assumption = model._choice_remark or choice_remark(None, audit_labels)
        remarks.append(f"Labels of audited rows are assumed to be findings of the audits. {assumption}")
    return remarks


# --- looks, audits and known values


def misfits(problem: PairProblem, fit: PairFit, given: Given, *, shared: bool, max_iter: int) -> list[str]:
    """Return messages about assumptions that the rows contradict, such as independent looks, bounds or an offset."""
    looks, differ = given.looks, list[str]()
    assert looks is not None
    if looks.n_looks > 1 and shared:
        differ = message_about_looks(look_gaps(problem, fit.parameters, given.labels, looks.kinds), looks.names)
    found = message_about_rate(rate_gap(problem, fit, max_iter=max_iter))
    if fit.converged:
        found += message_about_bounds(bound_gap(problem, fit, max_iter=max_iter))
        found += message_about_offset(offset_gap(problem, fit, max_iter=max_iter))
        # Looks that do not fit their shared propensity model would also fail the test of independence, so this test is
        # only made if all looks fit.
        if looks.n_looks > 1 and not differ:
            found += message_about_pairs(pair_gaps(problem, fit.parameters, given.labels, looks.kinds), looks.names)
        if looks.n_looks > 1:
            gap = prior_gap(problem, fit, given.labels, looks.kinds, max_iter=max_iter)
            found += message_about_prior(gap, audited=looks.n_audited > 0)
    return [*differ, *found]


def message_about_claims(problem: PairProblem, fit: PairFit, *, max_iter: int) -> list[str]:
    """Return a message for each known value that the rows contradict."""
    return [
        f"the known {claim} and the rows disagree: they are {apart:.1f} standard errors apart. Either the known value, "
        "its standard error or the form of the models is wrong. Check them."
        for claim, apart in disagreements(problem, fit, max_iter=max_iter)
        if apart > CLAIM_WARNING_Z
    ]


def message_about_swapped(rates: Vector, frequencies: Vector) -> list[str]:
    """Return the message that negatives are labelled more often than positives; empty if they are not."""
    if not rates.max() > frequencies.min():
        return []
    return [
        "according to the fit, negatives are labelled more often than positives (false-positive rate "
        f"{rates.max():.2f}, label frequency {frequencies.min():.2f}). Either the labels say little about the class, "
        "or positives and negatives are swapped. Audit some labelled and some unlabelled rows."
    ]


# Warnings need strong evidence, because each fit makes many of these tests.
AUDIT_WARNING_Z = 3.3  # standard errors between audits and models; exceeded by chance in 1 of 1,000 fits
_LOOK_WARNING_Z = 4.0  # standard errors between the labels of a look and those that a shared propensity predicts
_MIN_LOOK_DIFFERENCE = 0.1  # difference between the labels and the expected labels of a look, relative to the latter
_DEPENDENCE_TEST_SIZE = 0.001  # probability of a warning if all looks are independent
_CONSTRAINT_WARNING_Z = 3.0  # standard errors between rows and bounds, or an offset; exceeded by chance in 0.3% of fits
_MIN_PRIOR_DIFFERENCE = 0.05  # share of the class prior; smaller differences do not matter in practice
# Log-likelihood gain by the logarithm of an offset at which the fit warns. If the offset itself is correct, fewer than
# 3% of fits gain so much.
_MIN_LOG_OFFSET_GAIN = 3.5
_MIN_FINDINGS = 5  # fewest audited positives with a label, and fewest labels of rows that were not audited
_MISSING_POSITIVES_Z = 2.0  # standard errors by which audits found fewer unlabelled positives than expected
_MAX_UNLABELLED_SHARE = 0.1  # share of audited positives without a label if findings were entered as labels
# Log-likelihood gain (odds of 20 to 1) of another assumption about audits at which the fit warns. If the assumption of
# the user is correct, fewer than 1% of fits gain so much.
_MIN_CHOICE_GAIN = 3.0
_MIN_SHARE_ON_BOUND = 0.5  # share of positives at a bound above which the bound determines the class prior
_MIN_SHARE_OUTSIDE_BOUNDS = 0.1  # share of positives whose propensity is outside the bounds in a fit without them
_SAME_PRIOR_TOLERANCE = 0.02  # distance of a class prior from the interval that does not matter in practice


def message_about_audits(gap: AuditGap | None) -> list[str]:
    """Return the message that audits found more or fewer positives than the models expect; empty if they agree."""
    if gap is None or abs(gap.z_score) < AUDIT_WARNING_Z:
        return []
    return [
        f"audits found {gap.found:,.0f} positives, {AUDITS_DIFFER} {gap.expected:,.0f} "
        f"({abs(gap.z_score):.1f} standard errors apart). Either the models are of the wrong form, or the audits are "
        "not representative: rows were chosen because of their expected result, or only some results were reported. If "
        "rows were audited at random, use audited_class_prior."
    ]


def message_about_ranking(gap: RankingGap | None, *, named: bool) -> list[str]:
    """Return the message that a fit ranks audited rows worse than the naive model; empty if it does not."""
    if gap is None or not _is_worse(gap):
        return []
    remedy = (
        "The propensity attributes are probably too many or wrong: use SARStackingClassifier() without "
        "propensity_attributes, with the same audits."
        if named
        else "Rank rows by NaiveClassifier instead."
    )
    return [
        "the class model ranks the audited rows worse than the naive model, which treats every unlabelled row as "
        f"negative (area under the ROC curve lower by {-gap.difference:.2f}), so do not rely on its ranking. {remedy} "
        "For the number of positives, use audited_class_prior."
    ]


def message_about_findings(found: EnteredFindings | None, gap: AuditGap | None) -> list[str]:
    """Return the message that labels of audited rows seem to come from their audits; empty if they do not."""
    if found is None or min(found.labelled, found.others) < _MIN_FINDINGS or found.missing < _MISSING_POSITIVES_Z:
        return []
    few = found.positives - found.labelled <= _MAX_UNLABELLED_SHARE * found.positives
    if not few or not (found.z_score > AUDIT_WARNING_Z or (gap is not None and gap.z_score < -AUDIT_WARNING_Z)):
        return []
    return [
        f"{found.labelled:,.0f} of the {found.positives:,.0f} audited positives have a label, and audited rows have "
        f"{found.labels:,.0f} labels, but {found.expected:,.0f} labels are expected. If findings of the audits were "
        "entered as labels, the class prior is too low: use audit_labels='undo' if only rows without a label were "
        "audited, and audit_labels='drop' otherwise."
    ]


_WHO_WAS_AUDITED = {
    "drop": "rows were audited whether or not they had a label",
    "undo": "only rows without a label were audited",
}


def message_about_choice(other: AuditSelectionGap | None, audit_labels: str) -> list[str]:
    """Return the message that `audit_labels` probably makes a wrong assumption; empty if it does not."""
    if other is None or other.gained < _MIN_CHOICE_GAIN:
        return []
    instead = _other_of(audit_labels)
    return [
        f"audit_labels={audit_labels!r} assumes that {_WHO_WAS_AUDITED[audit_labels]}, but the rows contradict this. "
        f"The assumption that {_WHO_WAS_AUDITED[instead]} fits better (log-likelihood higher by {other.gained:.1f}, if "
        "the probability of being audited is logistic in the attributes). If this second assumption is right, use "
        f"audit_labels={instead!r}; the class prior is then {other.class_prior:.2f}."
    ]


def choice_remark(other: AuditSelectionGap | None, audit_labels: str) -> str:
    """Return what `audit_labels` assumes about audits, and the class prior under the other assumption."""
    assumption = f"audit_labels={audit_labels!r} assumes that {_WHO_WAS_AUDITED[audit_labels]}."
    if other is None:
        return f"{assumption} If this is wrong, so is the class prior."
    instead = _other_of(audit_labels)
    if other.gained >= _MIN_CHOICE_GAIN:
        verdict = "The rows contradict this"
    else:
        agree = other.gained <= -_MIN_CHOICE_GAIN
        verdict = "The rows agree with this" if agree else "The rows do not show whether this is right"
    return (
        f"{assumption} {verdict}. If it is wrong, use audit_labels={instead!r}: the class prior is then "
        f"{other.class_prior:.2f}."
    )


def _other_of(audit_labels: str) -> str:
    return "drop" if audit_labels == "undo" else "undo"


def message_about_pairs(gaps: list[PairGap], names: tuple[str, ...]) -> list[str]:
    """Return the message about the two looks that depend on each other most; empty if all are independent."""
    worst = max(gaps, key=lambda gap: abs(gap.z_score), default=None)
    if worst is None or abs(worst.z_score) < norm.isf(0.5 * _DEPENDENCE_TEST_SIZE / len(gaps)):
        return []
    one, other = (names[look] for look in worst.looks)
    if worst.z_score > 0:
        return [
            f"{one} and {other} agree more often than independent looks would, by {worst.z_score:.1f} standard errors. "
            "Either one look is partly a copy of the other (leave one out), or rows differ in ways that no attribute "
            "explains, or the models are of the wrong form. In the first two cases the class prior is too low. To "
            "find out which case it is, audit unlabelled rows."
        ]
    return [
        f"{one} and {other} agree less often than independent looks would, by {-worst.z_score:.1f} standard errors. If "
        "rows were not examined again after a label, mark the later look as missing (NaN), not as 0. If they were "
        "examined again, the models are probably of the wrong form."
    ]


def message_about_prior(gap: PriorGap | None, *, audited: bool) -> list[str]:
    """Return the message that repeated labels imply another class prior than the fit; empty if they agree."""
    if gap is None or abs(gap.z_score) < CLAIM_WARNING_Z:
        return []
    if abs(gap.by_histories - gap.by_fit) < _MIN_PRIOR_DIFFERENCE * gap.by_fit:
        return []
    besides = ", or rows were chosen for audits because of their expected result" if audited else ""
    return [
        f"the class prior of the fit is {gap.by_fit:.3f}, but the share of labelled rows that are labelled again "
        f"implies {gap.by_histories:.3f} ({abs(gap.z_score):.1f} standard errors apart). The second estimate needs no "
        "class model. Probably the class model or the propensity model is of the wrong form or lacks an attribute"
        f"{besides}. Try another classifier, for example SAREMClassifier(HistGradientBoostingClassifier()), or audit "
        "some unlabelled rows."
    ]


def message_about_bounds(gap: BoundGap | None) -> list[str]:
    """Return the message that the rows contradict the bounds, or that a bound determines the class prior."""
    if gap is None:
        return []
    if gap.z_score > _CONSTRAINT_WARNING_Z and gap.outside > _MIN_SHARE_OUTSIDE_BOUNDS:
        return [
            f"the rows contradict the bounds: the fit without bounds is better by {gap.z_score:.1f} standard errors, "
            f"and gives {gap.outside:.0%} of positives a propensity outside the bounds. If the bounds are wrong, so is "
            "the class prior. Remove or widen the bounds."
        ]
    if gap.on_bound >= _MIN_SHARE_ON_BOUND:
        return [
            f"the propensity of {gap.on_bound:.0%} of positives is at the bound {gap.bound:g}, so the bound determines "
            "the class prior almost alone. Check the source of the bound, or widen it."
        ]
    return []


def message_about_offset(gap: OffsetGap | None) -> list[str]:
    """Return the message that the rows contradict the offset of the propensity; empty if they agree."""
    if gap is None or (gap.z_score < _CONSTRAINT_WARNING_Z and gap.by_log < _MIN_LOG_OFFSET_GAIN):
        return []
    remedy = (
        "The offset is added to the logit unchanged: give the logarithm of an effort, not the effort. Or name the "
        "column in propensity_attributes instead, so that its coefficient is estimated."
    )
    if gap.by_log >= _MIN_LOG_OFFSET_GAIN:
        return [
            f"the logarithm of the offset fits better than the offset itself (log-likelihood higher by "
            f"{gap.by_log:.1f}). {remedy}"
        ]
    return [
        f"the coefficient of an offset is 1, but {gap.coefficient:.2g} fits better ({gap.z_score:.1f} standard errors "
        f"apart). {remedy}"
    ]


def message_about_looks(gaps: list[LookGap], names: tuple[str, ...]) -> list[str]:
    """Return the message about the look that fits a shared propensity worst; empty if all looks fit."""
    worst = max(gaps, key=lambda gap: abs(gap.z_score))
    difference = abs(worst.found - worst.expected)
    if abs(worst.z_score) < _LOOK_WARNING_Z or difference < _MIN_LOOK_DIFFERENCE * worst.expected:
        return []
    return [
        f"{names[worst.look]} found {worst.found:,.0f} labels, but {worst.expected:,.0f} are expected if all looks "
        f"share one propensity ({abs(worst.z_score):.1f} standard errors apart). The looks differ: use "
        "Labelling(shared=False), or describe the difference by visit_attributes."
    ]


def message_about_rate(found: RateGap | None) -> list[str]:
    """Return the message that another false-positive rate fits better than the given one; empty if it does not."""
    if found is None or found.z_score < AUDIT_WARNING_Z:
        return []
    given = "without false positives" if found.given == 0 else f"with a false-positive rate of {found.given:.3g}"
    return [
        f"the labels do not fit a model {given}: a rate of {found.rate:.3f} fits better ({found.z_score:.1f} standard "
        "errors apart). If there may be false positives, use false_positive_rate='estimate'. Otherwise the models are "
        "of the wrong form."
    ]


def message_about_rivals(rivals: list[tuple[float, float]], interval: Interval) -> list[str]:
    """Return the message about an optimum that fits about as well but has a class prior outside the interval."""
    low, high = interval[0] - _SAME_PRIOR_TOLERANCE, interval[1] + _SAME_PRIOR_TOLERANCE
    outside = [each for each in rivals if not low <= each[0] <= high]
    if not outside:
        return []
    prior, behind = min(outside, key=lambda each: each[1])
    return [
        f"another optimum, with a class prior of {prior:.2f}, fits these rows about as well (log-likelihood lower by "
        f"{behind:.1f}), but the intervals do not include this class prior. More audits of unlabelled rows, or more "
        "rows with several looks, would show which optimum is right."
    ]
