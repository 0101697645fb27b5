"""What an analysis has to go by beside one label of each row: how it is said, and what does not go together."""

from typing import Any

ESTIMATE = "estimate"
LARGEST_RATE = 0.5


def as_rate(value: Any, source: str) -> Any:
    """Return a false-positive rate as a number, or the word "estimate"."""
    if not isinstance(value, str) or value == ESTIMATE:
        return value
    try:
        return float(value)
    except ValueError:
        raise ValueError(
            f"{source}: false_positives must be a number, the share of negatives that a look labels, or 'estimate'; "
            f"got {value!r}."
        ) from None


def as_visits(value: Any, source: str) -> dict[str, tuple[str, ...]]:
    """Return visit attributes: a name each, and a column for each look; lines as `effort=effort_1,effort_2` are read.

    Examples
    --------
    >>> as_visits(["effort=effort_1,effort_2"], "here")
    {'effort': ('effort_1', 'effort_2')}
    """
    if isinstance(value, list | tuple):
        lines = [str(line).partition("=") for line in value]
        odd = [f"{name}{sign}{columns}" for name, sign, columns in lines if not (name.strip() and sign and columns)]
        if odd:
            raise ValueError(
                f"{source}: --visit names an attribute and its columns, one for each look, as "
                f"effort=effort_1,effort_2,effort_3; got {odd[0]!r}."
            )
        twice = sorted({name for name, _, _ in lines if [other for other, _, _ in lines].count(name) > 1})
        if twice:
            raise ValueError(f"{source}: --visit names {twice[0]!r} twice; give all of its columns at once.")
        value = {name.strip(): [each.strip() for each in columns.split(",")] for name, _, columns in lines}
    if not isinstance(value, dict):
        raise ValueError(f"{source}: visits must be a table of lists of columns, got {value!r}.")
    for name, columns in value.items():
        if not isinstance(columns, list | tuple) or not all(isinstance(each, str) and each for each in columns):
            raise ValueError(f"{source}: visits: {name} must be a list of column names, got {columns!r}.")
    return {str(name): tuple(columns) for name, columns in value.items()}


def refuse_odd_information(settings: Any) -> None:
    """Raise where settings contradict each other, or name what is not to be had."""
    _refuse_odd_labels(settings)
    _refuse_odd_numbers(settings)
    if not settings.informed:
        return
    if settings.model not in ("search", "logistic"):
        raise ValueError(
            f"--model {settings.model} knows one label of each row only: with --audit, --look, --prevalence or "
            "--false-positives take --model search or --model logistic."
        )
    if settings.known_propensity:
        raise ValueError(
            "--known-propensity takes the labelling for known; it does not go with --audit, --look, --prevalence or "
            "--false-positives. Name what the labelling depends on (--propensity), or --scar."
        )


def _refuse_odd_labels(settings: Any) -> None:
    if settings.label and settings.looks:
        raise ValueError("--label and --look contradict each other: name all columns of labels by --look.")
    if not settings.label and not settings.looks:
        raise ValueError("Which column is the label? Say so: --label COLUMN; of several looks --look COLUMN COLUMN.")
    if settings.audit and settings.audit in settings.labels:
        raise ValueError(
            f"Column {settings.audit!r} cannot be the label and the audit: a label is what was noticed, an audit what "
            "somebody found who went to see."
        )
    for name, columns in settings.visits.items():
        if len(columns) != len(settings.labels) or not settings.looks:
            raise ValueError(
                f"--visit {name} has {len(columns)} columns, and there are {len(settings.looks)} looks (--look): name "
                "one for each look, in their order."
            )
    if settings.own_propensities and len(settings.looks) < 2:
        raise ValueError("--own-propensities is for several looks: name two columns or more by --look.")


def _refuse_odd_numbers(settings: Any) -> None:
    share, error, rate = settings.prevalence, settings.prevalence_se, settings.false_positives
    if share is not None and not 0.0 < share < 1.0:
        raise ValueError(f"The prevalence is a share of rows and must lie between 0 and 1; got {share:g}.")
    if error is not None and share is None:
        raise ValueError("--prevalence-se is the standard error of --prevalence, which is not there.")
    if error is not None and not 0.0 <= error < 0.5:
        raise ValueError(f"The standard error of the prevalence must be at least 0 and below 0.5; got {error:g}.")
    if not isinstance(rate, str) and not 0.0 <= rate < LARGEST_RATE:
        raise ValueError(
            f"The false-positive rate must be at least 0 and below {LARGEST_RATE}: the share of negatives that a look "
            f"labels; got {rate:g}."
        )


def told_of(settings: Any) -> list[str]:
    """Return what to say of settings themselves."""
    notes = []
    if settings.prevalence is not None and not settings.prevalence_se:
        notes.append(
            f"The prevalence {settings.prevalence:g} is taken for exact, which no survey is: a wrong one moves "
            "everything, and intervals do not show it. Give its standard error (--prevalence-se)."
        )
    return notes
