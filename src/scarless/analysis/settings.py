"""The settings of an analysis. Each setting is declared once, in `Settings`: its kind, default, help and flag.

The flags of the command line, the keys of `run.toml` and the checks of `analyse` are derived from these declarations. A
test compares the docstrings of `analyse`, `Labelling` and `ColumnRoles` with the declarations.
"""

import shutil
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scarless.analysis.values import (
    ESTIMATE,
    Kind,
    as_rate,
    as_shares,
    as_values,
    as_visits,
    column_name,
    of_type,
    read_bounds,
    read_label,
    read_names,
    read_share,
    refuse_contradictions,
)
from scarless.outside.files import check_place, replacing

ALL = "all"
ANALYSE = "analyse"
# Names of earlier versions: `run.toml` files and models that were saved with them can still be read.
OLD_KEYS = {
    "propensity": "propensity_attributes", "class_attributes": "classification_attributes", "looks": "label",
    "visits": "visit_attributes", "false_positives": "false_positive_rate", "propensity_bounds": "bounds",
    "weights": "sample_weight", "group": "groups", "positive": "pos_label",
}  # fmt: skip
OLD_FLAGS = {
    "--class-attributes": "--classification-attributes", "--false-positives": "--false-positive-rate",
    "--own-propensities": "--not-shared", "--propensity-bounds": "--bounds", "--weights": "--sample-weight",
    "--positive": "--pos-label",
}  # fmt: skip
# Columns of ranked rows, among which the id column must have a name of its own.
RANKED_COLUMNS = frozenset(
    {"rank", "row", "labelled", "looks", "checked", "label_probability"}
    | {f"{name}{end}" for name in ("probability", "propensity", "posterior") for end in ("", "_low", "_high")}
)
_ALWAYS_WRITTEN = ("model", "seed", "level")


_COLUMN = Kind(of_type(str, "text"), {"metavar": "COLUMN", "type": column_name}, names_columns=True)
_COLUMNS = Kind(read_names, {"nargs": "+", "metavar": "COLUMN", "type": column_name}, names_columns=True)
_TRUTH = Kind(of_type(bool, "true or false"), {"action": "store_true", "default": None})
_SHARES = {"nargs": "+"}


# --- the declarations


@dataclass(frozen=True)
class Declared:
    """Kind, help, flags and role of a setting."""

    kind: Kind
    help: str
    flags: tuple[str, ...]  # flags of the command line; messages use the first
    of: str  # parameter of `analyse` that contains the setting; empty if the parameter has the name of the setting
    aside: str  # role of a column that no model may use, such as "the label column"; empty if models may use the column
    options: dict[str, Any]  # options of argparse, which override those of the kind


def _setting(default: Any, kind: Kind, help: str, *flags: str, of: str = "", aside: str = "", **options: Any) -> Any:
    declared = Declared(kind, help, flags, of, aside, {**kind.options, **options})
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={"declared": declared})
    return field(default=default, metadata={"declared": declared})


@dataclass(frozen=True)
class Settings:
    """The settings of one analysis."""

    label: str | tuple[str, ...] = _setting(
        "", Kind(read_label, {"metavar": "COLUMN", "type": column_name}, names_columns=True),
        "column that marks the labelled rows", "--label", aside="the label column",
    )  # fmt: skip
    propensity_attributes: tuple[str, ...] = _setting(
        (), _COLUMNS,
        "columns that drive the labelling. If you do not know them, use `all`, preferably together with --audit or "
        "--looks; with one look, a stack then treats it like no names",
        "--propensity", "--propensity-attributes",
    )  # fmt: skip
    classification_attributes: tuple[str, ...] = _setting(
        (), _COLUMNS, "columns that the class depends on (default: all columns)", "--classification-attributes"
    )
    model: str = _setting(
        "auto", Kind(of_type(str, "text")),
        "auto (default): stack if it probably takes less than a minute, otherwise search; stack: a logistic model, "
        "gradient boosting and a forest for the class, averaged, with the best probabilities; search: logistic models, "
        "with penalties chosen by cross-validation; boosted: gradient boosting for the class; logistic: one logistic "
        "model for the class, fastest, but its confidence interval is too short",
        "--model",
        choices=("auto", "stack", "search", "logistic", "boosted"),
    )  # fmt: skip
    scar: bool = _setting(False, _TRUTH, "assume that all positives are equally likely to be labelled", "--scar")
    known_propensity: str = _setting(
        "", _COLUMN,
        "column with the known propensity of each row, which is the probability that the row is labelled if it is "
        "positive",
        "--known-propensity", aside="the column of known propensities",
    )  # fmt: skip
    audit: str = _setting(
        "", _COLUMN,
        "column with the true class (yes or no) of rows that were checked (audited), and empty cells for all other "
        "rows; or, with --config, a worksheet of `scarless audit` with answers",
        "--audit", aside="the audit column",
    )  # fmt: skip
    visit_attributes: dict[str, tuple[str, ...]] = _setting(  # noqa: RUF009 (it returns a field)
        {}, Kind(as_visits, {"action": "append", "metavar": "NAME=COLUMN,..."}, names_columns=True),
        "attribute that differs between looks, with one numeric column for each look, for example "
        "effort=effort_1,effort_2; can be repeated",
        "--visit-attributes", of="labelling",
    )  # fmt: skip
    bounds: tuple[float, ...] = _setting(
        (), Kind(read_bounds, {"nargs": 2, "type": float, "metavar": ("LOW", "HIGH")}),
        "lowest and highest possible probability that a positive is labelled, for example 0.2 1; needs --model "
        "logistic or --scar",
        "--bounds", of="labelling",
    )  # fmt: skip
    shared: bool = _setting(
        True, Kind(of_type(bool, "true or false"), {"action": "store_false", "default": None}),
        "fit separate labelling coefficients for each look (default: all looks have the same coefficients)",
        "--not-shared", of="labelling",
    )  # fmt: skip
    false_positive_rate: Any = _setting(  # noqa: RUF009 (as above)
        0.0, Kind(as_rate, {"nargs": "+", "metavar": "RATE"}),
        "share of negatives that get a label, or `estimate` to estimate this share (default: 0); with --not-shared, "
        "you can give one value for each look",
        "--false-positive-rate", of="labelling",
    )  # fmt: skip
    audit_labels: str = _setting(
        "keep", Kind(of_type(str, "text"), {"metavar": "HOW"}),
        "what to do with the labels of audited rows. keep (default): use them. If findings of audits were entered as "
        "labels, choose undo (set them to no label) if only rows without a label were audited, and drop (treat them as "
        "missing) otherwise",
        "--audit-labels", of="labelling",
    )  # fmt: skip
    prevalence: float | None = _setting(
        None, Kind(read_share, {"type": float, "metavar": "P"}),
        "known share of positives, for example from a survey", "--prevalence", of="known",
    )  # fmt: skip
    prevalence_se: float | None = _setting(
        None, Kind(read_share, {"type": float, "metavar": "SE"}),
        "standard error of --prevalence (default: 0, which treats it as exact)", "--prevalence-se", of="known",
    )  # fmt: skip
    label_frequency: dict[str, float] = _setting(  # noqa: RUF009 (as above)
        {}, Kind(of_type(dict, "a table of numbers"), {**_SHARES, "metavar": "[LOOK=]P"}),
        "known share of positives that get a label, for example 0.8; with several looks, name the label column of each "
        "value, for example visit_1=0.8 visit_2=0.7",
        "--label-frequency", of="known",
    )  # fmt: skip
    label_frequency_se: dict[str, float] = _setting(  # noqa: RUF009 (as above)
        {}, Kind(of_type(dict, "a table of numbers"), {**_SHARES, "metavar": "[LOOK=]SE"}),
        "standard error of --label-frequency (default: 0, which treats it as exact)",
        "--label-frequency-se", of="known",
    )  # fmt: skip
    id: str = _setting("", _COLUMN, "column that identifies the rows", "--id", of="columns", aside="the id column")
    sample_weight: str = _setting(
        "", _COLUMN, "column with the weight of each row", "--sample-weight", of="columns", aside="the weight column"
    )
    groups: str = _setting(
        "", _COLUMN, "column with the group of each row, for example the patient", "--groups", of="columns",
        aside="the group column",
    )  # fmt: skip
    exclude: tuple[str, ...] = _setting(
        (), _COLUMNS, "columns that the models must not use", "--exclude", of="columns", aside="an excluded column"
    )
    number: tuple[str, ...] = _setting(
        (), _COLUMNS, "columns to read as numbers; cells in them that are not numbers become missing values",
        "--number", of="columns",
    )  # fmt: skip
    text: tuple[str, ...] = _setting(
        (), _COLUMNS, "columns to read as text, even if most of their cells are numbers", "--text", of="columns"
    )
    pos_label: tuple[str, ...] = _setting(
        (), Kind(as_values, {"action": "append", "metavar": "VALUE"}),
        "value of the label column that marks a labelled row, or `any` if every non-empty cell marks a labelled row; "
        "can be repeated. Case is ignored, except for single letters that do not mean yes or no",
        "--pos-label",
    )  # fmt: skip
    by: tuple[str, ...] = _setting(
        (), _COLUMNS, "columns whose groups the report compares: who is overlooked (default: the columns of the "
        "labelling, and columns with at most 12 categories)", "--by", of="columns",
    )  # fmt: skip
    seed: int = _setting(
        0, Kind(of_type(int, "a whole number"), {"type": int, "metavar": "N"}),
        "seed of the random numbers (default: 0)", "--seed", of="random_state",
    )  # fmt: skip
    level: float = _setting(
        0.95, Kind(of_type(int | float, "a number"), {"type": float, "metavar": "P"}),
        "confidence level of the intervals (default: 0.95)", "--level",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name, declared in declarations():
            object.__setattr__(self, name, declared.kind.read(getattr(self, name), name, "the settings"))
        described = self.propensity_attributes or self.visit_attributes or self.scar or self.known_propensity
        if self.model == "stack" and not described:
            object.__setattr__(self, "propensity_attributes", (ALL,))  # A stack needs no names.
        refuse_contradictions(self, MODELS)

    # --- derived values

    @property
    def looks(self) -> tuple[str, ...]:
        """The label columns if they are looks (--looks); empty with a single label column (--label)."""
        return self.label if isinstance(self.label, tuple) else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The label columns: one, or one for each look."""
        return self.label if isinstance(self.label, tuple) else (self.label,)

    @property
    def rates(self) -> tuple[Any, ...]:
        """The false-positive rates as a tuple."""
        rates = self.false_positive_rate
        return rates if isinstance(rates, tuple) else (rates,)

    @property
    def informed(self) -> bool:
        """Whether there are looks, audits, known values, false positives or bounds besides the labels."""
        known = self.prevalence is not None or bool(self.label_frequency)
        return bool(self.looks or self.audit or known or self.may_be_wrong or self.bounds)

    @property
    def may_be_wrong(self) -> bool:
        """Whether labels can be false positives."""
        return any(rate != 0 for rate in self.rates)

    @property
    def estimates_rates(self) -> bool:
        """Whether a false-positive rate is estimated."""
        return ESTIMATE in self.rates

    @property
    def takes_no_groups(self) -> bool:
        """Whether the model of these settings does not support groups."""
        return bool(self.known_propensity or (self.scar and not self.informed))

    @property
    def visit_columns(self) -> tuple[str, ...]:
        """All columns of visit attributes."""
        return tuple(name for names in self.visit_attributes.values() for name in names)

    @property
    def aside(self) -> tuple[str, ...]:
        """The columns that no model may use."""
        given = (name for key, declared in declarations() if declared.aside for name in self._columns(key))
        return tuple(dict.fromkeys(given))

    def _columns(self, key: str) -> tuple[str, ...]:
        """Return the columns that a setting names."""
        value = self.visit_columns if key == "visit_attributes" else getattr(self, key)
        names = (value,) if isinstance(value, str) else value
        return tuple(name for name in names if name and not (key == "propensity_attributes" and name == ALL))

    def features(self, columns: list[str]) -> list[str]:
        """Return the columns that models may use, in the order of the table."""
        left = [name for name in columns if name not in self.aside]
        if not left:
            raise ValueError(
                "No column is left for the models: every column has another role, such as label or id, or is excluded. "
                "Add columns, or exclude fewer columns (--exclude)."
            )
        if not self.classification_attributes:
            return left
        wanted = {*self.classification_attributes, *self.propensity_attributes, *self.visit_columns}
        return left if ALL in wanted else [name for name in left if name in wanted]

    def check_columns(self, columns: list[str]) -> None:
        """Raise if a named column does not exist or has two roles."""
        for key in _NAME_COLUMNS:
            for name in self._columns(key):
                if name not in columns:
                    raise ValueError(f"There is no column {name!r} ({self._role(key)}).{nearest(name, columns)}")
        if self.id in RANKED_COLUMNS:
            raise ValueError(
                f"Column {self.id!r} (--id) has the name of a column of the ranked rows, so its values would be lost. "
                f"Rename it in the table, for example to '{self.id}_id'."
            )
        if self.groups and self.groups in (*self.labels, self.audit):
            role = "label" if self.groups in self.labels else "audit"
            raise ValueError(
                f"Column {self.groups!r} (--groups) is also the {role} column. With --groups, name the column that "
                "contains the group of each row, for example the patient."
            )
        for name in self.by:
            if name in (*self.labels, self.audit, self.id):
                role = "label" if name in self.labels else "audit" if name == self.audit else "id"
                raise ValueError(
                    f"Column {name!r} (--by) is also the {role} column, so its groups do not show who is overlooked. "
                    "Remove it from --by."
                )
        for key in _SEEN_BY_MODELS:
            for name in self._columns(key):
                self._refuse_second_role(name, key)

    def _refuse_second_role(self, name: str, key: str) -> None:
        flag = flag_of(key)
        if key in ("propensity_attributes", "classification_attributes") and name in self.visit_columns:
            raise ValueError(
                f"Column {name!r} ({flag}) is also a visit attribute of one look (--visit-attributes). Only the "
                f"propensity of that look can use this column. Remove it from {flag}."
            )
        if name in self.aside:
            role, other = next(
                (role, each.aside) for role, each in declarations() if each.aside and name in self._columns(role)
            )
            also = "the label column of a look (--looks)" if name in self.looks else f"{other} ({flag_of(role)})"
            or_from = f" or from {flag_of(role)}" if role == "exclude" else ""
            raise ValueError(
                f"Column {name!r} ({flag}) is also {also}. The models must not use it. Remove it from {flag}{or_from}."
            )

    def _role(self, key: str) -> str:
        if key == "label":
            return "--looks" if self.looks else "the label column"
        return flag_of(key)

    # --- as plain values

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, without those that have their default, except model, seed and level."""
        found = {}
        for each in fields(self):
            value, usual = getattr(self, each.name), _default(each)
            if value != usual or each.name in _ALWAYS_WRITTEN:
                found[each.name] = _plain(value)
        return found

    def to_flags(self) -> list[str]:
        """Return the words of a command line that has these settings; settings with their default are left out.

        Examples
        --------
        >>> Settings("diagnosed", ("visits", "insurance"), id="patient").to_flags()
        ['--label', 'diagnosed', '--propensity', 'visits', 'insurance', '--id', 'patient']
        """
        words: list[str] = []
        defaults = {each.name: _default(each) for each in fields(self)}
        for name, declared in declarations():
            value = getattr(self, name)
            flag = "--looks" if name == "label" and self.looks else declared.flags[0]
            if value == defaults[name]:
                continue
            if isinstance(value, bool):
                words.append(flag)
            elif name == "visit_attributes":
                words += [word for key, columns in value.items() for word in (flag, f"{key}={','.join(columns)}")]
            elif isinstance(value, dict):
                words += [flag, *(f"{key}={number}" for key, number in value.items())]
            elif name == "pos_label":
                words += [word for each in value for word in (flag, each)]
            else:
                words += [flag, *map(str, value if isinstance(value, tuple) else (value,))]
        return words

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, source: str = "the settings") -> "Settings":
        """Build settings from plain values; raise an error that names a wrong key."""
        declared = dict(declarations())
        made = _with_frequencies(renamed(values, source=source), source)
        for key in made:
            if key not in declared:
                raise ValueError(f"{source}: there is no setting {key!r}.{nearest(key, list(declared))}")
        read = {key: declared[key].kind.read(value, key, source) for key, value in made.items()}
        if not read.get("label"):
            raise ValueError(
                f'{source}: no label column is given. Name it, for example label="diagnosed" (--label diagnosed).'
            )
        return cls(**read)

    @classmethod
    def of_call(cls, labelling: Any = None, known: Any = (), columns: Any = None, **values: Any) -> "Settings":
        """Build settings from the parameters of `analyse`."""
        values["seed"] = values.pop("random_state")
        _check_names_of_label(values["label"], ANALYSE)
        values |= _of_labelling(labelling) | _of_known(known, values["label"]) | _of_columns(columns)
        return cls.from_dict({key: value for key, value in values.items() if value is not None}, source=ANALYSE)


def declarations() -> Iterator[tuple[str, Declared]]:
    """Return the name and the declaration of each setting."""
    for each in fields(Settings):
        yield each.name, each.metadata["declared"]


def flag_of(key: str) -> str:
    """Return the flag of a setting that messages use."""
    return str(dict(declarations())[key].flags[0])


def _default(each: Field[Any]) -> Any:
    return each.default if each.default is not MISSING else {}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _description(declared: Declared) -> str:
    """Return the help of a setting for the docstring of `Settings`; a flag such as --not-shared sets False."""
    words = declared.help
    return f"False: {words}" if declared.options.get("action") == "store_false" else f"{words[0].upper()}{words[1:]}"


MODELS = dict(declarations())["model"].options["choices"]
_NAME_COLUMNS = tuple(name for name, each in declarations() if each.kind.names_columns)
# `by` may name any column: groups of the report need not be groups of a column that a model uses.
_SEEN_BY_MODELS = tuple(
    name for name, each in declarations() if each.kind.names_columns and not each.aside and name != "by"
)
Settings.__doc__ = "\n".join(
    [
        "The settings of one analysis, as in `run.toml`.\n\n    Attributes\n    ----------",
        *(f"    {name}\n        {_description(each)}." for name, each in declarations()),
        "    ",
    ]
)


# --- settings from Python objects, and from earlier versions


@dataclass(frozen=True)
class ColumnRoles:
    """Columns with a special role, and columns to read as numbers or as text.

    Parameters
    ----------
    id : str, optional
        Column that identifies the rows.
    sample_weight : str, optional
        Column with the weight of each row.
    groups : str, optional
        Column with the group of each row, for example the patient. Cross-validation keeps a group in one fold, and
        intervals allow for dependence within groups.
    exclude : list of str, optional
        Columns that the models must not use.
    number, text : list of str, optional
        Columns to read as numbers, and columns to read as text. If most cells of a column are numbers but more than 1%
        are not, an error asks you to name the column in one of the two. Up to 1% of such cells become missing values,
        with a note.
    by : list of str, optional
        Columns whose groups the report compares in the section "Who is overlooked?". By default, the propensity
        attributes and the columns with at most 12 categories.

    Examples
    --------
    >>> from scarless.analysis import ColumnRoles
    >>> ColumnRoles(id="patient", exclude=["ward"]).exclude
    ['ward']
    """

    id: str = ""
    sample_weight: str = ""
    groups: str = ""
    exclude: Any = ()
    number: Any = ()
    text: Any = ()
    by: Any = ()


def _of_columns(columns: Any) -> dict[str, Any]:
    if columns is None:
        return {}
    if not isinstance(columns, ColumnRoles):
        raise TypeError(
            f"{ANALYSE}: columns must be a ColumnRoles object, for example ColumnRoles(id='patient'); got {columns!r}."
        )
    return {each.name: getattr(columns, each.name) for each in fields(columns)}


def _of_labelling(labelling: Any) -> dict[str, Any]:
    if labelling is None:
        return {}
    if not hasattr(labelling, "get_params"):
        raise TypeError(
            f"{ANALYSE}: labelling must be a Labelling object, for example Labelling(shared=False); got {labelling!r}."
        )
    given = dict(labelling.get_params(deep=False))
    if given.pop("offset", None) is not None:
        raise ValueError(
            f"{ANALYSE}: the offset of Labelling is not supported for raw tables. Name its column in "
            "propensity_attributes instead, or encode the table yourself and fit SAREMClassifier."
        )
    return given


def _check_names_of_label(label: Any, source: str) -> None:
    """Raise if the label is not named, but given as values."""
    if not isinstance(label, str | list | tuple | None):
        raise TypeError(
            f"{source}: label must be the name of a column, such as 'diagnosed', or a list of names for several looks; "
            f"got {type(label).__name__}. If you have the labels as values, add them to the table as a column."
        )


def _of_known(known: Any, label: Any) -> dict[str, Any]:
    """Return known values as settings such as `prevalence` and `label_frequency`."""
    from scarless.pair.constraints import ClassPrior, LabelFrequency  # noqa: PLC0415 (SciPy: --help does not need it)

    if not isinstance(known, list | tuple | None):
        raise TypeError(f"{ANALYSE}: known must be a list, for example [ClassPrior(0.35, se=0.02)]; got {known!r}.")
    found: dict[str, Any] = {}
    shares: dict[str, float] = {}
    errors: dict[str, float] = {}
    columns = [label] if isinstance(label, str) else list(label or ())
    for claim in known or ():
        if isinstance(claim, ClassPrior) and claim.where is None and "prevalence" not in found:
            found |= {"prevalence": claim.value, "prevalence_se": claim.se or None}
        elif isinstance(claim, LabelFrequency) and claim.look < len(columns) and columns[claim.look] not in shares:
            shares[columns[claim.look]] = claim.value
            errors |= {columns[claim.look]: claim.se} if claim.se else {}
        else:
            raise ValueError(
                f"{ANALYSE}: known may contain one ClassPrior of all rows (where=None) and one LabelFrequency for each "
                f"look (look=0 is the first look). Remove or correct {claim!r}."
            )
    return found | ({"label_frequency": shares, "label_frequency_se": errors} if shares else {})


def renamed(values: dict[str, Any], *, source: str) -> dict[str, Any]:
    """Return settings in which names of earlier versions are replaced by the current names."""
    _check_names_of_label(values.get("label"), source)
    if values.get("label") and values.get("looks"):
        raise ValueError("--label and --looks cannot be combined. Name all label columns with --looks.")
    found = {key: value for key, value in values.items() if key not in OLD_KEYS and key != "own_propensities"}
    for key, value in values.items():
        if key == "own_propensities":
            found["shared"] = not of_type(bool, "true or false")(value, key, source)
        elif key in OLD_KEYS and not (key == "looks" and not value):
            found[OLD_KEYS[key]] = tuple(value) if key == "looks" and isinstance(value, list | tuple) else value
    return found


def _with_frequencies(values: dict[str, Any], source: str) -> dict[str, Any]:
    """Return settings in which label frequencies and their standard errors are dicts with label columns as keys."""
    label = values.get("label", "")
    labels = (label,) if isinstance(label, str) else tuple(label)
    found = dict(values)
    for key in ("label_frequency", "label_frequency_se"):
        given = found.pop(key, None)
        if given is None or given in ((), [], {}):
            continue
        alone = given if isinstance(given, list | tuple) else [given]
        known = found.get("label_frequency")
        bare = not isinstance(given, dict) and len(alone) == 1 and "=" not in str(alone[0])
        if bare and key == "label_frequency_se" and known:
            # A single standard error applies to all known label frequencies.
            found[key] = dict.fromkeys(known, as_shares(given, key, ("",), source)[""])
        else:
            found[key] = as_shares(given, key, labels, source)
    return found


def nearest(name: str, known: list[str]) -> str:
    """Return the sentence "Did you mean ...?" with the most similar known name, or a list of the known names."""
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    lower = [each for each in known if each.casefold() == name.casefold()]
    best = lower or near
    if best:
        return f" Did you mean {best[0]!r}?"
    return f" Available names: {', '.join(map(repr, known[:12]))}{', ...' if len(known) > 12 else ''}."


# --- the folder of results, and `run.toml`

MODEL, REPORT, SUMMARY, RUN = "model.skops", "report.html", "summary.json", "run.toml"
SCORED = "scored"  # folder of predictions for a folder of Parquet files


def check_name(name: str) -> str:
    """Return the file name for the ranked rows; raise if it contains a folder."""
    if Path(name).name != name:
        raise ValueError(
            f"--ranked must be a file name without a folder; got {name!r}. Choose the folder of results with --out."
        )
    return name


def check_folder(folder: str | Path, *, force: bool) -> Path:
    """Return the folder of results as a path; raise if it cannot be written.

    An existing folder must be empty. With `force`, it can also contain results, which will be replaced.
    """
    path = check_place(folder)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return path
    if not path.is_dir():
        raise FileExistsError(f"{folder} is a file. Choose another folder (--out).")
    if not (path / RUN).exists():
        raise FileExistsError(
            f"{folder} exists, and it is not a folder of results: it contains no {RUN}. Choose another folder (--out)."
        )
    if not force:
        raise FileExistsError(f"{folder} exists. Choose another folder (--out), or replace it with --force.")
    return path


def move_into_place(aside: Path, folder: Path) -> None:
    """Move a finished folder of results to its place, and delete the folder that was there."""
    aside.chmod(0o755)
    if not folder.exists():
        aside.rename(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    before = old / "before"
    try:
        with replacing(folder):
            folder.rename(before)
            aside.rename(folder)
    finally:
        if before.exists() and not folder.exists():  # The second step failed: restore the earlier results.
            before.rename(folder)
        shutil.rmtree(old, ignore_errors=True)


def read_run(path: str | Path) -> dict[str, Any]:
    """Return the contents of a `run.toml` file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}. Name the {RUN} of an earlier fit.") from error


def write_toml(values: dict[str, Any]) -> str:
    """Return plain values, and tables of plain values, as TOML."""
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
