"""What a run was asked to do: checked once, kept with the model, and written down so that it can be repeated."""

import tomllib
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scarless.analysis.information import (
    as_rate,
    as_values,
    as_visits,
    rates_of,
    refuse_odd_information,
    with_frequencies,
)

MODELS = ("search", "stack", "logistic", "boosted")
ALL = "all"
ENOUGH_AUDITS = 50  # to tell class and labelling apart
_NAMES = ("propensity", "class_attributes", "exclude", "looks", "number", "text")  # that hold names of columns


@dataclass(frozen=True)
class Settings:
    """The choices of one analysis.

    Attributes
    ----------
    label : str
        Column that says which rows are labelled; empty with `looks`.
    propensity : tuple of str
        Columns that the labelling may depend on; ``("all",)`` for every column. Empty with `scar` or
        `known_propensity`.
    class_attributes : tuple of str
        Columns that the class may depend on; empty for all.
    model : {"search", "stack", "logistic", "boosted"}
        How both are learned.
    scar : bool
        Whether every positive is as likely to be labelled as any other.
    known_propensity : str
        Column with known propensities, empty for none.
    weights, id : str
        Columns with row weights, and with names of rows; empty for none.
    exclude : tuple of str
        Columns that are left out.
    positive : tuple of str
        The values that mark a labelled row; empty where that is clear.
    seed : int
        Seed of everything that is drawn.
    level : float
        Nominal probability that an interval covers.
    looks : tuple of str
        Columns of labels, one for each look, in place of `label`; an empty cell is a look that did not take place.
    visits : dict
        Attributes of looks: a name, and a column for each look.
    audit : str
        Column with the class of rows that someone checked; empty for none.
    audit_labels : {"keep", "drop", "undo"}
        What labels of audited rows mean: see `SAREMClassifier`.
    prevalence, prevalence_se : float
        A share of positives that is known from elsewhere, and its standard error; None for none.
    label_frequency, label_frequency_se : dict
        The share of positives that a look labels, where it is known from elsewhere, and its standard error, by the
        columns of labels.
    propensity_bounds : tuple of float
        The least and the largest propensity there may be; empty for none.
    false_positives : float or "estimate", or a tuple of them
        How often a look labels a negative row; of all looks, or of each.
    own_propensities : bool
        Whether each look has coefficients of its own.
    group : str
        Column with what each row belongs to, as a patient with several rows; empty where each row is its own.
    number, text : tuple of str
        Columns that are numbers, with missing cells where there is none, or text, where their cells leave it open.
    """

    label: str = ""
    propensity: tuple[str, ...] = ()
    class_attributes: tuple[str, ...] = ()
    model: str = "search"
    scar: bool = False
    known_propensity: str = ""
    weights: str = ""
    id: str = ""
    exclude: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    seed: int = 0
    level: float = 0.95
    looks: tuple[str, ...] = ()
    visits: dict[str, tuple[str, ...]] = field(default_factory=dict)
    audit: str = ""
    audit_labels: str = "keep"
    prevalence: float | None = None
    prevalence_se: float | None = None
    false_positives: Any = 0.0
    own_propensities: bool = False
    label_frequency: dict[str, float] = field(default_factory=dict)
    label_frequency_se: dict[str, float] = field(default_factory=dict)
    propensity_bounds: tuple[float, ...] = ()
    group: str = ""
    number: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "positive", as_values(self.positive, "the settings"))
        if self.model not in MODELS:
            raise ValueError(f"The model must be one of {', '.join(MODELS)}; got {self.model!r}.")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"The level must lie between 0 and 1; got {self.level:g}.")
        self._refuse_contradictions()
        refuse_odd_information(self)

    def _refuse_contradictions(self) -> None:
        ways = [name for name, given in self._ways() if given]
        if not ways and not self.visits:  # what looks depend on is something that the labelling depends on
            raise ValueError(
                "What does the labelling depend on? Name the columns (--propensity visits insurance); --scar if every "
                "positive is as likely to be labelled as any other; --known-propensity COLUMN if you know it. If you "
                f"can name none, look up the class of some {ENOUGH_AUDITS} rows drawn at random (--audit COLUMN "
                "--propensity all): without such rows labels cannot say which rows are positive."
            )
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} contradict each other: take one.")
        if self.group and self.takes_no_groups:
            raise ValueError(
                "--group goes with one label column and --propensity; it does not go with --scar, --known-propensity, "
                "--look, --audit, --prevalence, --label-frequency, --false-positives, --propensity-bounds or --model "
                "boosted."
            )
        both = [name for name in self.number if name in self.text]
        if both:
            raise ValueError(f"Column {both[0]!r} is named by --number and by --text: it is one or the other.")
        if self.model not in ("search", "logistic") and (self.scar or self.known_propensity):
            raise ValueError(f"--model {self.model} learns what the labelling depends on; it cannot go with {ways[0]}.")

    def _ways(self) -> list[tuple[str, bool]]:
        return [
            ("--propensity", bool(self.propensity)),
            ("--scar", self.scar),
            ("--known-propensity", bool(self.known_propensity)),
        ]

    @property
    def takes_no_groups(self) -> bool:
        """Whether the fit does not take rows in groups."""
        return bool(self.scar or self.known_propensity or self.informed or self.model == "boosted")

    @property
    def informed(self) -> bool:
        """Whether there is more to go by than one label of each row."""
        known = self.prevalence is not None or bool(self.label_frequency)
        return bool(self.looks or self.audit or known or self.may_be_wrong or self.propensity_bounds)

    @property
    def may_be_wrong(self) -> bool:
        """Whether a negative may have a label."""
        return any(rate != 0 for rate in rates_of(self))

    @property
    def estimates_rates(self) -> bool:
        """Whether how often that is so is to be estimated."""
        return any(isinstance(rate, str) for rate in rates_of(self))

    def tells_apart(self, n_audits: int) -> bool:
        """Whether rows say which model is the class, also where both see the same columns."""
        return len(self.looks) > 1 or n_audits >= ENOUGH_AUDITS

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of labels: one, or one for each look."""
        return self.looks or (self.label,)

    @property
    def visit_columns(self) -> tuple[str, ...]:
        """All columns that belong to single looks."""
        return tuple(name for names in self.visits.values() for name in names)

    @property
    def aside(self) -> tuple[str, ...]:
        """Columns that no model may see."""
        given = (*self.labels, self.audit, self.known_propensity, self.weights, self.id, self.group, *self.exclude)
        return tuple(dict.fromkeys(name for name in given if name))

    def check_columns(self, columns: list[str]) -> None:
        """Raise where a column that is named is not there, or has two roles."""
        for role, names in self._roles():
            for name in names:
                if name not in columns:
                    raise ValueError(f"There is no column {name!r} ({role}).{nearest_column(name, columns)}")
        if self.group and self.group in (*self.labels, self.audit):
            role = "label" if self.group in self.labels else "audit"
            raise ValueError(
                f"Column {self.group!r} is named by --group, but it is the {role}: "
                "name the column that says which patient or thing a row belongs to."
            )
        seen = [("--propensity", name) for name in self.propensity if name != ALL]
        seen += [("--class-attributes", name) for name in self.class_attributes]
        seen += [("--visit", name) for name in self.visit_columns]
        seen += [("--number", name) for name in self.number] + [("--text", name) for name in self.text]
        for option, name in seen:
            if option in ("--propensity", "--class-attributes") and name in self.visit_columns:
                raise ValueError(
                    f"Column {name!r} is named by {option}, but it belongs to a single look (--visit): the propensity "
                    "of that look sees it, and no other model."
                )
            if name in self.aside:
                raise ValueError(
                    f"Column {name!r} is named by {option}, but it is not for the models to see: it is the "
                    f"{self._role_of(name)}."
                )

    def features(self, columns: list[str]) -> list[str]:
        """Return the columns that models may see, in the table's order."""
        left = [name for name in columns if name not in self.aside]
        if not left:
            raise ValueError("No column is left for the models to see.")
        if not self.class_attributes:
            return left
        wanted = {*self.class_attributes, *self.propensity, *self.visit_columns}
        return left if ALL in wanted else [name for name in left if name in wanted]

    def _roles(self) -> list[tuple[str, tuple[str, ...]]]:
        propensity = () if self.propensity == (ALL,) else self.propensity
        return [
            ("the label column", (self.label,) if self.label else ()),
            ("--look", self.looks),
            ("--audit", (self.audit,) if self.audit else ()),
            ("--visit", self.visit_columns),
            ("--propensity", propensity),
            ("--class-attributes", self.class_attributes),
            ("--known-propensity", (self.known_propensity,) if self.known_propensity else ()),
            ("--weights", (self.weights,) if self.weights else ()),
            ("--id", (self.id,) if self.id else ()),
            ("--group", (self.group,) if self.group else ()),
            ("--exclude", self.exclude),
            ("--number", self.number),
            ("--text", self.text),
        ]

    def _role_of(self, name: str) -> str:
        roles = {
            self.label: "label column",
            **dict.fromkeys(self.looks, "label column of a look"),
            self.audit: "column of audits",
            self.weights: "column of weights",
            self.group: "group of rows",
            self.id: "id",
            self.known_propensity: "column of known propensities",
        }
        return roles.get(name, "column to exclude")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without those that say nothing."""
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        plain["visits"] = {name: list(columns) for name, columns in self.visits.items()}
        if self.false_positives == 0:
            del plain["false_positives"]
        if self.audit_labels == "keep":
            del plain["audit_labels"]
        return {
            name: value
            for name, value in plain.items()
            if value is not None and not (isinstance(value, str | list | bool | dict) and not value)
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, source: str = "the settings") -> "Settings":
        """Build settings from plain values, or say which key is wrong."""
        kinds = {field.name: field.type for field in fields(cls)}
        for key in values:
            if key not in kinds:
                raise ValueError(f"{source}: there is no setting {key!r}.{nearest_column(key, list(kinds))}")
        made: dict[str, Any] = {
            key: _as_names(key, value, source) if key in _NAMES else value for key, value in values.items()
        }
        made["positive"] = as_values(made.get("positive"), source)
        if "visits" in made:
            made["visits"] = as_visits(made["visits"], source)
        if "false_positives" in made:
            made["false_positives"] = as_rate(made["false_positives"], source)
        if isinstance(made.get("propensity_bounds"), list):
            made["propensity_bounds"] = tuple(made["propensity_bounds"])
        made = with_frequencies(made, source)
        for key, value in made.items():
            _check_kind(key, value, source)
        if not made.get("label") and not made.get("looks"):
            raise ValueError(f'{source}: which column is the label? Set label = "..." (--label).')
        return cls(**made)


def _as_names(key: str, value: Any, source: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{source}: {key} must be a list of column names, got {value!r}.")
    return tuple(dict.fromkeys(names))


_KINDS: dict[str, tuple[Any, str]] = {
    "scar": (bool, "true or false"),
    "seed": (int, "a whole number"),
    "level": ((int, float), "a number"),
    "own_propensities": (bool, "true or false"),
    "prevalence": ((int, float), "a number"),
    "prevalence_se": ((int, float), "a number"),
    "false_positives": ((int, float, str, tuple), "a number or 'estimate', or one for each look"),
    "label_frequency": (dict, "a table of numbers"),
    "label_frequency_se": (dict, "a table of numbers"),
    "propensity_bounds": (tuple, "two numbers"),
    "positive": (tuple, "a value or a list of values"),
    "visits": (dict, "a table of lists of columns"),
}
_MAY_BE_NOTHING = ("prevalence", "prevalence_se")


def _check_kind(key: str, value: Any, source: str) -> None:
    kind, words = _KINDS.get(key, (str, "text")) if key not in _NAMES else (tuple, "a list")
    if value is None and key in _MAY_BE_NOTHING:
        return
    if key == "propensity_bounds" and not all(type(each) in (int, float) for each in value or ()):
        raise ValueError(f"{source}: {key} must be {words}, got {value!r}.")
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{source}: {key} must be {words}, got {value!r}.")


def nearest_column(name: str, known: list[str]) -> str:
    """Return a sentence that names the nearest of known names, or the known ones."""
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    lower = [each for each in known if each.casefold() == name.casefold()]
    best = lower or near
    if best:
        return f" Did you mean {best[0]!r}?"
    return f" There are: {', '.join(map(repr, known[:12]))}{', ...' if len(known) > 12 else ''}."


def read_run(path: str | Path) -> dict[str, Any]:
    """Read a ``run.toml``."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from error


def write_toml(values: dict[str, Any]) -> str:
    """Return plain values and tables of them as TOML."""
    lines = [f"{_key(key)} = {_toml(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, table in values.items():
        if isinstance(table, dict):
            lines += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_toml(value)}" for name, value in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _key(key: str) -> str:
    plain = key.replace("_", "").replace("-", "").isalnum() and key.isascii()
    return key if plain else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return '"' + "".join(_escaped(character) for character in str(value)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"
