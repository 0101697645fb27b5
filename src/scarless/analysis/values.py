"""Values of settings: how each kind is read from Python, a file or the command line, and which do not go together."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from scarless.outside.notices import listed

ESTIMATE = "estimate"
LARGEST_RATE = 0.5  # of false positives: above it, a label would say that a row is negative
ENOUGH_AUDITS = 50  # to tell class and labelling apart
MORE = "--audit, --looks, --prevalence or --false-positive-rate"
NO_LABEL = "Which column is the label? Say so: --label COLUMN; of several looks --looks COLUMN COLUMN."
Read = Callable[[Any, str, str], Any]


@dataclass(frozen=True)
class Kind:
    """How a value is checked and brought into one form, and what argparse is told of it."""

    read: Read  # value, name of the setting, and who said it -> value, or an error
    options: dict[str, Any] = field(default_factory=dict)
    names_columns: bool = False  # whether values are names of columns


def _must_be(key: str, words: str, value: Any, source: str) -> ValueError:
    return ValueError(f"{source}: {key} must be {words}, got {value!r}.")


def of_type(kinds: Any, words: str) -> Read:
    """Return a reader of values of a type, which `words` name."""

    def read(value: Any, key: str, source: str) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise _must_be(key, words, value, source)
        return value

    return read


def read_names(value: Any, key: str, source: str) -> tuple[str, ...]:
    """Return names of columns, each once."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _must_be(key, "a list of column names", value, source)
    return tuple(dict.fromkeys(names))


def read_label(value: Any, key: str, source: str) -> str | tuple[str, ...]:
    """Return the column of labels, or the columns of several looks."""
    return value if isinstance(value, str) else read_names(value, key, source)


def read_share(value: Any, key: str, source: str) -> float | None:
    """Return a number; None where nothing is said."""
    return None if value is None else of_type(int | float, "a number")(value, key, source)


def read_bounds(value: Any, key: str, source: str) -> tuple[float, ...]:
    """Return two numbers; none where nothing is said."""
    given = () if value is None else value
    if not isinstance(given, list | tuple) or not all(type(each) in (int, float) for each in given):
        raise _must_be(key, "two numbers", value, source)
    return tuple(given)


def as_rate(value: Any, key: str, source: str) -> Any:
    """Return a false-positive rate as a number, or the word "estimate"; of several looks, one for each.

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
            f"{source}: {key} must be a number, the share of negatives that a look labels, or 'estimate'; got "
            f"{value!r}."
        ) from None


def as_values(value: Any, key: str, source: str) -> tuple[str, ...]:
    """Return the values that mark a label as texts: of one, or of several; none where that is not said.

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
    """Return visit attributes: a name each, and a column for each look; lines as `effort=effort_1,effort_2` are read.

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
                f"{source}: {flag} names an attribute and its columns, one for each look, as "
                f"effort=effort_1,effort_2,effort_3; got {odd[0]!r}."
            )
        twice = sorted({name for name, _, _ in lines if [other for other, _, _ in lines].count(name) > 1})
        if twice:
            raise ValueError(f"{source}: {flag} names {twice[0]!r} twice; give all of its columns at once.")
        value = {name.strip(): [each.strip() for each in columns.split(",")] for name, _, columns in lines}
    if not isinstance(value, dict | None):
        raise _must_be(key, "a table of lists of columns", value, source)
    for name, columns in (value or {}).items():
        if not isinstance(columns, list | tuple) or not all(isinstance(each, str) and each for each in columns):
            raise ValueError(f"{source}: {key}: {name} must be a list of column names, got {columns!r}.")
    return {str(name): tuple(columns) for name, columns in (value or {}).items()}


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


# --- what does not go together


def refuse_contradictions(settings: Any, models: Iterable[str]) -> None:
    """Raise where settings contradict each other, or hold what cannot be."""
    if settings.model not in models:
        raise ValueError(f"The model must be one of {', '.join(models)}; got {settings.model!r}.")
    if not 0.0 < settings.level < 1.0:
        raise ValueError(f"The level must lie between 0 and 1; got {settings.level:g}.")
    ways = _ways(settings)
    if settings.groups and settings.takes_no_groups:
        raise ValueError(
            "--groups does not go with --known-propensity, nor with --scar and one label column. Name the columns that "
            "the labelling depends on (--propensity)."
        )
    both = [name for name in settings.number if name in settings.text]
    if both:
        raise ValueError(f"Column {both[0]!r} is named by --number and by --text: it is one or the other.")
    if settings.model not in ("search", "logistic") and (settings.scar or settings.known_propensity):
        raise ValueError(f"--model {settings.model} learns what the labelling depends on; it cannot go with {ways[0]}.")
    for refuse in (_refuse_odd_labels, _refuse_odd_numbers, _refuse_odd_rates, _refuse_odd_frequencies):
        refuse(settings)
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
        raise ValueError(f"{listed(ways)} contradict each other: take one.")
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
