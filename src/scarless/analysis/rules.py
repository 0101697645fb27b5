"""What settings do not go together, and what is to be said of those that do."""

from collections.abc import Iterable
from typing import Any

ESTIMATE = "estimate"
LARGEST_RATE = 0.5  # of false positives: above it, a label would say that a row is negative
ENOUGH_AUDITS = 50  # to tell class and labelling apart
MORE = "--audit, --looks, --prevalence or --false-positive-rate"
NO_LABEL = "Which column is the label? Say so: --label COLUMN; of several looks --looks COLUMN COLUMN."


def refuse_contradictions(settings: Any, models: Iterable[str]) -> None:
    """Raise where settings contradict each other, or hold what cannot be."""
    if settings.model not in models:
        raise ValueError(f"The model must be one of {', '.join(models)}; got {settings.model!r}.")
    if not 0.0 < settings.level < 1.0:
        raise ValueError(f"The level must lie between 0 and 1; got {settings.level:g}.")
    ways = _ways(settings)
    if settings.groups and settings.takes_no_groups:
        raise ValueError(
            "--groups goes with one label column and --propensity; it does not go with --scar, --known-propensity, "
            "--looks, --audit, --prevalence, --label-frequency, --false-positive-rate, --bounds or --model boosted."
        )
    both = [name for name in settings.number if name in settings.text]
    if both:
        raise ValueError(f"Column {both[0]!r} is named by --number and by --text: it is one or the other.")
    if settings.model not in ("search", "logistic") and (settings.scar or settings.known_propensity):
        raise ValueError(f"--model {settings.model} learns what the labelling depends on; it cannot go with {ways[0]}.")
    for refuse in (_refuse_odd_labels, _refuse_odd_numbers, _refuse_odd_rates, _refuse_odd_frequencies):
        refuse(settings)
    if settings.informed and settings.model not in ("search", "logistic"):
        raise ValueError(
            f"--model {settings.model} knows one label of each row only: with {MORE} take --model search or --model "
            "logistic."
        )
    if settings.informed and settings.known_propensity:
        raise ValueError(
            f"--known-propensity takes the labelling for known; it does not go with {MORE}. Name what the labelling "
            "depends on (--propensity), or --scar."
        )


def _ways(settings: Any) -> list[str]:
    """Return by which flag it is said what the labelling depends on: one of three, or visit attributes alone."""
    given = {
        "--propensity": settings.propensity_attributes,
        "--scar": settings.scar,
        "--known-propensity": settings.known_propensity,
    }
    ways = [name for name, value in given.items() if value]
    if not ways and not settings.visit_attributes:
        raise ValueError(
            "What does the labelling depend on? Name the columns (--propensity visits insurance); --scar if every "
            "positive is as likely to be labelled as any other; --known-propensity COLUMN if you know it. If you "
            f"can name none, look up the class of some {ENOUGH_AUDITS} rows drawn at random (--audit COLUMN "
            "--propensity all): without such rows labels cannot say which rows are positive."
        )
    if len(ways) > 1:
        raise ValueError(f"{' and '.join(ways)} contradict each other: take one.")
    return ways


def _refuse_odd_labels(settings: Any) -> None:
    if not settings.label:
        raise ValueError(NO_LABEL)
    if settings.audit and settings.audit in settings.labels:
        raise ValueError(
            f"Column {settings.audit!r} cannot be the label and the audit: a label is what was noticed, an audit what "
            "somebody found who went to see."
        )
    from scarless.checks.looks import AUDIT_LABELS  # noqa: PLC0415 (imports scikit-learn, which --help does not need)

    if settings.audit_labels not in AUDIT_LABELS:
        raise ValueError(f"--audit-labels must be one of {', '.join(AUDIT_LABELS)}; got {settings.audit_labels!r}.")
    if settings.audit_labels != "keep" and not settings.audit:
        raise ValueError("--audit-labels says what labels of audited rows mean; name the column of audits (--audit).")
    for name, columns in settings.visit_attributes.items():
        if len(columns) != len(settings.labels) or not settings.looks:
            have = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            looks = "is 1 look" if len(settings.looks) == 1 else f"are {len(settings.looks) or 'no'} looks"
            raise ValueError(
                f"--visit-attributes {name} has {have}, and there {looks} (--looks): name one for each look, in their "
                "order."
            )
    if not settings.shared and len(settings.looks) < 2:
        raise ValueError("--not-shared is for several looks: name two columns or more by --looks.")


def _refuse_odd_numbers(settings: Any) -> None:
    share, error, bounds = settings.prevalence, settings.prevalence_se, settings.bounds
    if share is not None and not 0.0 < share < 1.0:
        raise ValueError(f"The prevalence is a share of rows and must lie between 0 and 1; got {share:g}.")
    if error is not None and share is None:
        raise ValueError("--prevalence-se is the standard error of --prevalence, which is not there.")
    if error is not None and not 0.0 <= error < 0.5:
        raise ValueError(f"The standard error of the prevalence must be at least 0 and below 0.5; got {error:g}.")
    if bounds and not (len(bounds) == 2 and 0.0 <= bounds[0] < bounds[1] <= 1.0):
        raise ValueError(
            "--bounds are the least and the largest propensity there may be, as 0.2 1; got "
            f"{' '.join(f'{each:g}' for each in bounds)}."
        )
    if bounds and settings.model != "logistic" and not settings.scar:
        raise ValueError(f"--bounds go with --model logistic; got --model {settings.model}.")


def _refuse_odd_rates(settings: Any) -> None:
    rates = settings.rates
    for rate in rates:
        if not isinstance(rate, str) and not 0.0 <= rate < LARGEST_RATE:
            raise ValueError(
                f"The false-positive rate must be at least 0 and below {LARGEST_RATE}: the share of negatives that a "
                f"look labels; got {rate:g}."
            )
    if len(rates) not in (1, len(settings.labels)):
        raise ValueError(
            f"--false-positive-rate has {len(rates)} rates, and there are {len(settings.labels)} looks (--looks): give "
            "one, or one for each look, in their order."
        )
    if len(set(rates)) > 1 and settings.shared and not settings.visit_attributes:
        raise ValueError(
            "--false-positive-rate differs between looks that share one propensity: let each have its own, too "
            "(--not-shared)."
        )


def _refuse_odd_frequencies(settings: Any) -> None:
    known, errors = settings.label_frequency, settings.label_frequency_se
    for option, given in (("--label-frequency", known), ("--label-frequency-se", errors)):
        odd = [name for name in given if name not in settings.labels]
        if odd:
            raise ValueError(
                f"{option} is of {odd[0]!r}, which is no column of labels: these are "
                f"{', '.join(map(repr, settings.labels))}."
            )
    for name, share in known.items():
        if not 0.0 < share < 1.0:
            raise ValueError(
                f"The label frequency of {name!r} is a share of positives and must lie between 0 and 1; got {share:g}."
            )
    for name, error in errors.items():
        if name not in known:
            raise ValueError(f"--label-frequency-se of {name!r} goes with its --label-frequency, which is not there.")
        if not 0.0 <= error < 0.5:
            raise ValueError(
                f"The standard error of the label frequency of {name!r} must be at least 0 and below 0.5; got "
                f"{error:g}."
            )


def notes_on(settings: Any) -> list[str]:
    """Return what to say of settings themselves."""
    notes = []
    if settings.prevalence is not None and not settings.prevalence_se:
        notes.append(
            f"The prevalence {settings.prevalence:g} is taken for exact, which no survey is: a wrong one moves "
            "everything, and intervals do not show it. Give its standard error (--prevalence-se)."
        )
    exact = [name for name in settings.label_frequency if not settings.label_frequency_se.get(name)]
    if exact:
        notes.append(
            f"The label frequency of {', '.join(map(repr, exact))} is taken for exact, which no study is: a wrong one "
            "moves everything, and intervals do not show it. Give its standard error (--label-frequency-se)."
        )
    return notes
