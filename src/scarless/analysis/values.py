"""Values of settings: conversion from Python, a file or the command line, and checks for contradictions."""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from scarless.outside.notices import listed

ESTIMATE = "estimate"
MAX_FALSE_POSITIVE_RATE = 0.5  # Above it, most negatives would be labelled.
ENOUGH_AUDITS = 50  # audited rows that usually suffice to distinguish class and labelling
MORE_INFORMATION = "--audit, --looks, --prevalence or --false-positive-rate"
NO_LABEL = "No label column is given. Name it with --label COLUMN, or with --looks COLUMN COLUMN for several looks."
Read = Callable[[Any, str, str], Any]


@dataclass(frozen=True)
class Kind:
    """How the values of a setting are checked and converted, and the options for argparse."""

    read: Read  # function of the value, the name of the setting and the source, which returns the converted value
    options: dict[str, Any] = field(default_factory=dict)
    names_columns: bool = False  # whether values are column names


def _must_be(key: str, words: str, value: Any, source: str) -> ValueError:
    return ValueError(f"{source}: {key} must be {words}, got {value!r}.")


def of_type(kinds: Any, words: str) -> Read:
    """Return a function that checks the type of a value; `words` describe the type in errors."""

    def read(value: Any, key: str, source: str) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise _must_be(key, words, value, source)
        return value

    return read


def column_name(text: str) -> str:
    """Return the name of a column from the command line; an empty name, often of an unset variable, is an error."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name of the column is empty; name a column, or leave out the option")
    return text


def read_names(value: Any, key: str, source: str) -> tuple[str, ...]:
    """Return a tuple of column names without duplicates."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _must_be(key, "a list of column names", value, source)
    if "" in names:
        raise ValueError(f"{source}: {key} has an empty name. Name columns, or leave it out.")
    return tuple(dict.fromkeys(names))


def read_label(value: Any, key: str, source: str) -> str | tuple[str, ...]:
    """Return the label column, or the label columns of several looks."""
    return value if isinstance(value, str) else read_names(value, key, source)


def read_share(value: Any, key: str, source: str) -> float | None:
    """Return a number, or None if no value is given."""
    return None if value is None else of_type(int | float, "a number")(value, key, source)


def read_bounds(value: Any, key: str, source: str) -> tuple[float, ...]:
    """Return a pair of numbers, or an empty tuple if no value is given."""
    given = () if value is None else value
    if not isinstance(given, list | tuple) or not all(type(each) in (int, float) for each in given):
        raise _must_be(key, "two numbers", value, source)
    return tuple(given)


def as_rate(value: Any, key: str, source: str) -> Any:
    """Return a false-positive rate as a number or "estimate", or a tuple with one rate for each look.

    Examples
    --------
    >>> as_rate("0.01", "rate", "here"), as_rate(["0.01", "estimate"], "rate", "here")
    (0.01, (0.01, 'estimate'))
    """
    if isinstance(value, list | tuple) and value:
        rates = tuple(as_rate(each, key, source) for each in value)
        return rates if len(rates) > 1 else rates[0]
    try:
        return value if value == ESTIMATE or type(value) in (int, float) else float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"{source}: {key} must be the share of negatives that get a label, as a number, or 'estimate'; got "
            f"{value!r}."
        ) from None


def as_values(value: Any, key: str, source: str) -> tuple[str, ...]:
    """Return the values that mark a label as a tuple of texts, which is empty if no value is given.

    Examples
    --------
    >>> as_values("yes", "pos_label", "here"), as_values(["yes", 1.0], "pos_label", "here")
    (('yes',), ('yes', '1'))
    """
    given = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(each, dict | list | tuple | set) for each in given):
        raise _must_be(key, "a value of the label column, or a list of them", value, source)
    known = [each for each in given if each is not None and each != ""]
    plain = [f"{each:g}" if type(each) in (int, float) else str(each) for each in known]
    return tuple(dict.fromkeys(plain))


def as_visits(value: Any, key: str, source: str) -> dict[str, tuple[str, ...]]:
    """Return visit attributes as a dict of column names; also reads texts such as `effort=effort_1,effort_2`.

    Examples
    --------
    >>> as_visits(["effort=effort_1,effort_2"], "visit_attributes", "here")
    {'effort': ('effort_1', 'effort_2')}
    """
    flag = f"--{key.replace('_', '-')}"
    if isinstance(value, list | tuple):
        lines = [str(line).partition("=") for line in value]
        odd = [f"{name}{sign}{columns}" for name, sign, columns in lines if not (name.strip() and sign and columns)]
        if odd:
            raise ValueError(
                f"{source}: {flag} must name an attribute and one column for each look, for example "
                f"effort=effort_1,effort_2,effort_3; got {odd[0]!r}."
            )
        twice = sorted({name for name, _, _ in lines if [other for other, _, _ in lines].count(name) > 1})
        if twice:
            raise ValueError(f"{source}: {flag} names {twice[0]!r} twice. Name all of its columns together.")
        value = {name.strip(): [each.strip() for each in columns.split(",")] for name, _, columns in lines}
    if not isinstance(value, dict | None):
        raise _must_be(key, "a table with a list of columns for each attribute", value, source)
    for name, columns in (value or {}).items():
        if not isinstance(columns, list | tuple) or not all(isinstance(each, str) and each for each in columns):
            raise ValueError(f"{source}: {key}: {name} must be a list of column names, got {columns!r}.")
    return {str(name): tuple(columns) for name, columns in (value or {}).items()}


def as_shares(value: Any, key: str, labels: Any, source: str) -> dict[str, float]:
    """Return shares by label column; also reads texts such as ``seen_1=0.8``, and a number if there is one look.

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
                f"{source}: {option} needs the name of a label column before each value, and each name only once. "
                f"Example: {option} {' '.join(f'{name}=0.8' for name in labels[:2])}. Got "
                f"{' '.join(map(str, given))}."
            )
        value = {labels[0] if bare else name: number for name, (_, _, number) in zip(names, pairs, strict=True)}
    try:
        return {str(name): float(number) for name, number in value.items()}
    except (TypeError, ValueError):
        raise ValueError(f"{source}: {key} must be numbers, for example {labels[0]}=0.8; got {value!r}.") from None


# --- contradictions


def refuse_contradictions(settings: Any, models: Iterable[str]) -> None:
    """Raise if settings contradict each other or have impossible values."""
    if settings.model not in models:
        raise ValueError(f"--model must be one of {', '.join(models)}; got {settings.model!r}.")
    if not 0.0 < settings.level < 1.0:
        raise ValueError(f"--level must lie between 0 and 1; got {settings.level:g}.")
    if settings.seed < 0:
        raise ValueError(f"--seed must be at least 0; got {settings.seed}.")
    flags = _labelling_flags(settings)
    if settings.groups and settings.takes_no_groups:
        raise ValueError(
            f"--groups cannot be combined with {'--known-propensity' if settings.known_propensity else '--scar'}. Name "
            "the columns that drive the labelling instead (--propensity)."
        )
    both = [name for name in settings.number if name in settings.text]
    if both:
        raise ValueError(f"Column {both[0]!r} is named by both --number and --text. Choose one of them.")
    if settings.model not in ("auto", "search", "logistic") and (settings.scar or settings.known_propensity):
        raise ValueError(
            f"--model {settings.model} estimates how the labelling depends on columns, so it cannot be combined with "
            f"{flags[0]}. Remove --model or {flags[0]}."
        )
    for check in (_check_labels, _check_numbers, _check_rates, _check_frequencies):
        check(settings)
    if settings.informed and settings.known_propensity:
        raise ValueError(
            f"--known-propensity treats the labelling as known, so it cannot be combined with {MORE_INFORMATION}. "
            "Instead of --known-propensity, name the columns that drive the labelling (--propensity), or use --scar."
        )


def _labelling_flags(settings: Any) -> list[str]:
    """Return the flags that describe the labelling; raise unless there is exactly one, or visit attributes."""
    given = {
        "--propensity": settings.propensity_attributes,
        "--scar": settings.scar,
        "--known-propensity": settings.known_propensity,
    }
    flags = [name for name, value in given.items() if value]
    if not flags and not settings.visit_attributes:
        raise ValueError(
            "No columns are named that drive the labelling. Name them, for example --propensity visits insurance. If "
            "all positives are equally likely to get a label, use --scar. If a column contains the probability of a "
            "label for each positive row, use --known-propensity COLUMN. If you cannot name any column, audit about "
            f"{ENOUGH_AUDITS} rows drawn at random, and use --audit COLUMN --model stack, because labels alone cannot "
            "determine which rows are positive. To rank rows only, use --model stack without audits."
        )
    if len(flags) > 1:
        raise ValueError(f"{listed(flags)} cannot be combined. Use only one of these options.")
    return flags


def _check_labels(settings: Any) -> None:
    if not settings.label:
        raise ValueError(NO_LABEL)
    if settings.audit and settings.audit in settings.labels:
        raise ValueError(
            f"Column {settings.audit!r} cannot be both the label and the audit. A label is what was recorded; an audit "
            "is the true class, established by a check. Use separate columns."
        )
    from scarless.checks.looks import AUDIT_LABELS  # noqa: PLC0415 (imports scikit-learn, which --help does not need)

    if settings.audit_labels not in AUDIT_LABELS:
        raise ValueError(f"--audit-labels must be one of {', '.join(AUDIT_LABELS)}; got {settings.audit_labels!r}.")
    if settings.audit_labels != "keep" and not settings.audit:
        raise ValueError(
            "--audit-labels describes the labels of audited rows, so it needs audits. Name the audit column (--audit)."
        )
    for name, columns in settings.visit_attributes.items():
        if len(columns) != len(settings.labels) or not settings.looks:
            have = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
            looks = "is 1 look" if len(settings.looks) == 1 else f"are {len(settings.looks) or 'no'} looks"
            raise ValueError(
                f"--visit-attributes {name} has {have}, but there {looks} (--looks). Name one column for each look, in "
                "the order of the looks."
            )
    if not settings.shared and len(settings.looks) < 2:
        raise ValueError("--not-shared needs several looks. Name two or more columns with --looks.")


def _check_numbers(settings: Any) -> None:
    share, error, bounds = settings.prevalence, settings.prevalence_se, settings.bounds
    if share is not None and not 0.0 < share < 1.0:
        raise ValueError(f"--prevalence is a share of rows and must lie between 0 and 1; got {share:g}.")
    if error is not None and share is None:
        raise ValueError("--prevalence-se is the standard error of --prevalence, which is not given. Add --prevalence.")
    if error is not None and not 0.0 <= error < 0.5:
        raise ValueError(f"--prevalence-se must be at least 0 and below 0.5; got {error:g}.")
    if bounds and not (len(bounds) == 2 and 0.0 <= bounds[0] < bounds[1] <= 1.0):
        raise ValueError(
            "--bounds must be the lower and the upper bound of the propensity, for example 0.2 1; got "
            f"{' '.join(f'{each:g}' for each in bounds)}."
        )
    if bounds and settings.model not in ("auto", "logistic") and not settings.scar:
        raise ValueError(f"--bounds needs --model logistic; got --model {settings.model}.")


def _check_rates(settings: Any) -> None:
    rates = settings.rates
    for rate in rates:
        if not isinstance(rate, str) and not 0.0 <= rate < MAX_FALSE_POSITIVE_RATE:
            raise ValueError(
                f"--false-positive-rate, the share of negatives that get a label, must be at least 0 and below "
                f"{MAX_FALSE_POSITIVE_RATE}; got {rate:g}."
            )
    if len(rates) not in (1, len(settings.labels)):
        raise ValueError(
            f"--false-positive-rate has {len(rates)} rates, but there are {len(settings.labels)} looks (--looks). Give "
            "one rate, or one for each look, in the order of the looks."
        )
    if len(set(rates)) > 1 and settings.shared and not settings.visit_attributes:
        raise ValueError(
            "--false-positive-rate differs between looks, but the looks share one propensity. Use --not-shared to fit "
            "a separate propensity for each look, or give one rate."
        )


def _check_frequencies(settings: Any) -> None:
    known, errors = settings.label_frequency, settings.label_frequency_se
    for option, given in (("--label-frequency", known), ("--label-frequency-se", errors)):
        odd = [name for name in given if name not in settings.labels]
        if odd:
            raise ValueError(
                f"{option} names {odd[0]!r}, which is not a label column. The label columns are "
                f"{', '.join(map(repr, settings.labels))}."
            )
    for name, share in known.items():
        if not 0.0 < share < 1.0:
            raise ValueError(
                f"--label-frequency of {name!r} is a share of positives and must lie between 0 and 1; got {share:g}."
            )
    for name, error in errors.items():
        if name not in known:
            raise ValueError(
                f"--label-frequency-se of {name!r} needs the label frequency. Add --label-frequency {name}=..., for "
                f"example {name}=0.8."
            )
        if not 0.0 <= error < 0.5:
            raise ValueError(f"--label-frequency-se of {name!r} must be at least 0 and below 0.5; got {error:g}.")


def notes_on(settings: Any) -> list[str]:
    """Return notes on known values without a standard error."""
    notes = []
    if settings.prevalence is not None and not settings.prevalence_se:
        notes.append(
            f"The prevalence {settings.prevalence:g} is treated as exact. If it is wrong, all estimates are biased, "
            "and the intervals do not show it. Give its standard error (--prevalence-se)."
        )
    exact = [name for name in settings.label_frequency if not settings.label_frequency_se.get(name)]
    if exact:
        notes.append(
            f"The label frequency of {', '.join(map(repr, exact))} is treated as exact. If it is wrong, all estimates "
            "are biased, and the intervals do not show it. Give its standard error (--label-frequency-se)."
        )
    return notes
