"""What an analysis has to go by beside one label of each row: how it is said, and what does not go together."""

from typing import Any

import numpy as np

ESTIMATE = "estimate"
LARGEST_RATE = 0.5


def as_rate(value: Any, source: str) -> Any:
    """Return a false-positive rate as a number, or the word "estimate"; of several looks, one for each.

    Examples
    --------
    >>> as_rate("0.01", "here"), as_rate(["0.01", "estimate"], "here"), as_rate(["0.01"], "here")
    (0.01, (0.01, 'estimate'), 0.01)
    """
    if isinstance(value, list | tuple) and value:
        rates = tuple(as_rate(each, source) for each in value)
        return rates if len(rates) > 1 else rates[0]
    if not isinstance(value, str) or value == ESTIMATE:
        return value
    try:
        return float(value)
    except ValueError:
        raise ValueError(
            f"{source}: false_positives must be a number, the share of negatives that a look labels, or 'estimate'; "
            f"got {value!r}."
        ) from None


def as_values(value: Any, source: str) -> tuple[str, ...]:
    """Return the values that mark a label as texts: of one, or of several; none where that is not said.

    Examples
    --------
    >>> as_values("yes", "here"), as_values(["yes", 1.0], "here"), as_values(None, "here")
    (('yes',), ('yes', '1'), ())
    """
    given = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(each, dict | list | tuple | set) for each in given):
        raise ValueError(f"{source}: positive must be a value of the label column, or a list of them; got {value!r}.")
    known = [each for each in given if each is not None and each != ""]
    plain = [f"{each:g}" if type(each) in (int, float) else str(each) for each in known]
    return tuple(dict.fromkeys(plain))


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


def as_shares(value: Any, key: str, labels: Any, source: str) -> dict[str, float]:
    """Return shares by the columns of labels; ``seen_1=0.8`` is read, and a bare number where there is one look.

    Examples
    --------
    >>> as_shares(["seen_1=0.8", "seen_2=0.7"], "label_frequency", ("seen_1", "seen_2"), "here")
    {'seen_1': 0.8, 'seen_2': 0.7}
    >>> as_shares(0.8, "label_frequency", ("diagnosed",), "here")
    {'diagnosed': 0.8}
    """
    option = f"--{key.replace('_', '-')}"
    if not isinstance(value, dict):
        given = value if isinstance(value, list | tuple) else [value]
        pairs = [str(each).rpartition("=") for each in given]
        names = [name.strip() for name, _, _ in pairs]
        bare = len(pairs) == 1 and not names[0]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or ("" in names and not (bare and len(labels) == 1)):
            raise ValueError(
                f"{source}: {option} says of which look each share is, once for each: {option} "
                f"{' '.join(f'{name}=0.8' for name in labels[:2])}; got {' '.join(map(str, given))}."
            )
        value = {labels[0] if bare else name: number for name, (_, _, number) in zip(names, pairs, strict=True)}
    try:
        return {str(name): float(number) for name, number in value.items()}
    except (TypeError, ValueError):
        raise ValueError(f"{source}: {key} must hold numbers, as {labels[0]}=0.8; got {value!r}.") from None


def with_frequencies(values: dict[str, Any], source: str) -> dict[str, Any]:
    """Return settings whose label frequencies, and their standard errors, are by the columns of labels."""
    labels = values.get("looks") or (values.get("label", ""),)
    found = dict(values)
    for key in ("label_frequency", "label_frequency_se"):
        given = found.pop(key, None)
        if given is None or given in ((), [], {}):
            continue
        alone = [given] if isinstance(given, str) else given
        bare = not isinstance(given, dict) and (not isinstance(alone, list | tuple) or len(alone) == 1)
        known = found.get("label_frequency")
        if bare and key == "label_frequency_se" and known and "=" not in str(np.ravel(alone)[0]):
            error = as_shares(given, key, ("",), source)[""]
            found[key] = dict.fromkeys(known, error)  # of all that are known
        else:
            found[key] = as_shares(given, key, labels, source)
    return found


def rates_of(settings: Any) -> tuple[Any, ...]:
    """Return the false-positive rates of settings, one by one."""
    rates = settings.false_positives
    return rates if isinstance(rates, tuple) else (rates,)


def refuse_odd_information(settings: Any) -> None:
    """Raise where settings contradict each other, or name what is not to be had."""
    _refuse_odd_labels(settings)
    _refuse_odd_numbers(settings)
    _refuse_odd_rates(settings)
    _refuse_odd_frequencies(settings)
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
    from scarless.checks.looks import AUDIT_LABELS  # noqa: PLC0415 (imports scikit-learn, which --help does not need)

    if settings.audit_labels not in AUDIT_LABELS:
        raise ValueError(f"--audit-labels must be one of {', '.join(AUDIT_LABELS)}; got {settings.audit_labels!r}.")
    if settings.audit_labels != "keep" and not settings.audit:
        raise ValueError("--audit-labels says what labels of audited rows mean; name the column of audits (--audit).")
    for name, columns in settings.visits.items():
        if len(columns) != len(settings.labels) or not settings.looks:
            have = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            looks = "is 1 look" if len(settings.looks) == 1 else f"are {len(settings.looks) or 'no'} looks"
            raise ValueError(
                f"--visit {name} has {have}, and there {looks} (--look): name one for each look, in their order."
            )
    if settings.own_propensities and len(settings.looks) < 2:
        raise ValueError("--own-propensities is for several looks: name two columns or more by --look.")


def _refuse_odd_numbers(settings: Any) -> None:
    share, error, bounds = settings.prevalence, settings.prevalence_se, settings.propensity_bounds
    if share is not None and not 0.0 < share < 1.0:
        raise ValueError(f"The prevalence is a share of rows and must lie between 0 and 1; got {share:g}.")
    if error is not None and share is None:
        raise ValueError("--prevalence-se is the standard error of --prevalence, which is not there.")
    if error is not None and not 0.0 <= error < 0.5:
        raise ValueError(f"The standard error of the prevalence must be at least 0 and below 0.5; got {error:g}.")
    if bounds and not (len(bounds) == 2 and 0.0 <= bounds[0] < bounds[1] <= 1.0):
        raise ValueError(
            "--propensity-bounds are the least and the largest propensity there may be, as 0.2 1; got "
            f"{' '.join(f'{each:g}' for each in bounds)}."
        )
    if bounds and settings.model != "logistic" and not settings.scar:
        raise ValueError(f"--propensity-bounds go with --model logistic; got --model {settings.model}.")


def _refuse_odd_rates(settings: Any) -> None:
    rates = rates_of(settings)
    for rate in rates:
        if not isinstance(rate, str) and not 0.0 <= rate < LARGEST_RATE:
            raise ValueError(
                f"The false-positive rate must be at least 0 and below {LARGEST_RATE}: the share of negatives that a "
                f"look labels; got {rate:g}."
            )
    if len(rates) not in (1, len(settings.labels)):
        raise ValueError(
            f"--false-positives has {len(rates)} rates, and there are {len(settings.labels)} looks (--look): give one, "
            "or one for each look, in their order."
        )
    if len(set(rates)) > 1 and not settings.own_propensities and not settings.visits:
        raise ValueError(
            "--false-positives differ between looks that share one propensity: let each have its own, too "
            "(--own-propensities)."
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


def told_of(settings: Any) -> list[str]:
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
