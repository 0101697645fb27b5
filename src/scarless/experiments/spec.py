"""The specification of an experiment: the checked entries of a TOML file, and the list of its runs with their seeds.

Entries that are missing in the file have defaults. The file may define the user's own datasets, methods and mechanisms.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Self, get_args, get_origin

import numpy as np

from scarless.experiments.entries import (
    ADDED_ATTRIBUTES,
    DRAWN_PARAMETERS,
    OWN_CHECKS,
    OWN_KEYS,
    by_label_frequency,
    did_you_mean,
    list_or_nothing,
    names_in,
    refuse_joint_names,
)

SETTINGS = ("all", "original")
ADDED = "added"  # labelling mechanism that uses attributes added to a dataset
ENTRY_KINDS = {str: "text", int: "whole number", float: "number"}
MAX_RUNS = 1_000_000  # At one second each, a million runs take twelve days.
GROUPS = ("labelling", "options")  # tables that group the entries of a file for readability
BY_ATTRIBUTES = "attributes"  # labelling mechanism that uses the attributes that a dataset names
BUNDLED = ["bundled_breast_cancer", "bundled_digits", "simulated"]  # datasets that need no download
USUAL_METHODS = ["supervised", "naive", "scar-tice", "sar-em"]
#: Defaults of a specification of `scarless compare`. By judgement; propensities from 0.2 to 0.8, four added attributes
#: and five clusters are those of `scarless reproduce`.
DEFAULTS: dict[str, Any] = {
    "seed": 0,
    "settings": ["all"],
    "n_propensity_attributes": [2],
    "n_splits": 5,
    "n_labellings": 2,
    "test_share": 0.2,
    "added_attributes": 4,
    "clusters": 5,
    "low": 0.2,
    "high": 0.8,
    "C": 1.0,
    "km_max_rows": 2000,
}
QUICK = {"n_splits": 2, "n_labellings": 1}  # default of the [quick] table
USE_KEY = "use"  # key that lists built-in entries to use besides the user's own
SEEDS, SCALINGS = ("own", "teisseyre2025"), ("as is", "standardise")
QUESTION_SCORES = (
    "mse_f", "auc_f", "mse_e", "mae_e", "log_loss", "average_precision", "calibration_error", "accuracy",
    "balanced_accuracy", "f1", "accuracy_at_prior", "balanced_accuracy_at_prior", "f1_at_prior",
)  # fmt: skip
_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True, order=True)
class Cell:
    """One labelled split of one dataset in one setting, on which every method is run.

    For labelling mechanisms without added attributes, the setting is the name of the mechanism, and `k` is 0.
    """

    dataset: str
    setting: str
    k: int
    split: int
    labelling: int

    @property
    def key(self) -> str:
        """The name of the cell.

        Examples
        --------
        >>> Cell("adult", "all", 4, 0, 3).key
        'adult/all/k4/split0/labelling3'
        """
        return f"{self.dataset}/{self.setting}/k{self.k}/split{self.split}/labelling{self.labelling}"


@dataclass(frozen=True)
class Spec:
    """The checked specification of an experiment, with everything that its results depend on.

    `own_datasets`, `own_methods` and `own_mechanisms` are the user's own tables, by name. Their files and modules are
    looked up in `folder`. If `max_rows` is above 0, a larger dataset is replaced by a sample of its rows. Labels with
    fewer than `min_labels` labelled rows are drawn again. `seeds` selects the splits and labels of other authors.
    """

    name: str
    title: str
    seed: int
    datasets: tuple[str, ...]
    settings: tuple[str, ...]
    n_propensity_attributes: tuple[int, ...]
    n_splits: int
    n_labellings: int
    test_share: float
    methods: tuple[str, ...]
    added_attributes: int
    clusters: int
    low: float
    high: float
    C: float
    km_max_rows: int
    mechanisms: tuple[str, ...] = (ADDED,)
    own_datasets: dict[str, Any] = field(default_factory=dict, hash=False)
    own_methods: dict[str, Any] = field(default_factory=dict, hash=False)
    own_mechanisms: dict[str, Any] = field(default_factory=dict, hash=False)
    questions: dict[str, Any] = field(default_factory=dict, hash=False)
    seeds: str = "own"
    scaling: str = "as is"
    max_rows: int = 0
    min_labels: int = 0
    anchors: dict[str, Any] = field(default_factory=dict, hash=False)
    folder: str = field(default="", compare=False)

    def cells(self) -> Iterator[Cell]:
        """Return all cells: first the first split of every dataset, so that a part of the runs is balanced."""
        for split, dataset in product(range(self.n_splits), self.datasets):
            if ADDED in self.mechanisms:
                rest = product(self.n_propensity_attributes, range(self.n_labellings), self.settings)
                yield from (Cell(dataset, setting, k, split, labelling) for k, labelling, setting in rest)
            others = product(range(self.n_labellings), self.other_mechanisms)
            yield from (Cell(dataset, mechanism, 0, split, labelling) for labelling, mechanism in others)

    @property
    def other_mechanisms(self) -> tuple[str, ...]:
        """The labelling mechanisms that need no added attributes."""
        return tuple(name for name in self.mechanisms if name != ADDED)

    @property
    def table_mechanisms(self) -> tuple[str, ...]:
        """The mechanisms whose propensities are computed once for each dataset, from the whole table."""
        return tuple(name for name in self.other_mechanisms if "by" not in self.own_mechanisms.get(name, {}))

    @property
    def n_added(self) -> int:
        """The number of attributes that are added to each dataset."""
        return self.added_attributes if ADDED in self.mechanisms or self.uses(ADDED_ATTRIBUTES) else 0

    def uses(self, by: str) -> bool:
        """Whether a mechanism is drawn for each split by this kind of dependence."""
        return any(self.own_mechanisms.get(name, {}).get("by") == by for name in self.mechanisms)

    def entries(self) -> dict[str, Any]:
        """Return the entries to store, without the folder and without unused optional entries."""
        unused = {name for name, value in _OPTIONAL.items() if getattr(self, name) == value}
        return {name: value for name, value in asdict(self).items() if name not in {*unused, "folder"}}

    def seed_of(self, *key: str | int) -> np.random.SeedSequence:
        """Return the seed for a key; it does not depend on earlier runs."""
        words = np.frombuffer(hashlib.sha256(json.dumps(key).encode()).digest(), dtype="<u4")
        return np.random.SeedSequence([self.seed, *words.tolist()])

    @property
    def digest(self) -> str:
        """A short hash of all entries that can change a record: all but datasets, questions and anchors."""
        apart = {"datasets", "own_datasets", "questions", "anchors"}
        content = {name: value for name, value in self.entries().items() if name not in apart}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def only(self, datasets: tuple[str, ...]) -> Self:
        """Return the specification with only some of its datasets."""
        unknown = [name for name in datasets if name not in self.datasets]
        if unknown:
            hint = did_you_mean(unknown[0], self.datasets) or f"Its datasets are {', '.join(self.datasets)}."
            raise ValueError(f"{unknown[0]!r} is not a dataset of {self.name}. {hint}")
        return replace(self, datasets=tuple(name for name in self.datasets if name in datasets))


_OPTIONAL = {
    each.name: each.default_factory() if callable(each.default_factory) else each.default
    for each in fields(Spec)
    if each.default is not MISSING or each.default_factory is not MISSING
}


def check_spec(values: dict[str, Any], where: str) -> Spec:
    """Return the specification with these entries; raise if they are not valid. Errors begin with `where`."""
    known = {each.name for each in fields(Spec)}
    lacking, unknown = known - set(values) - set(_OPTIONAL), sorted(set(values) - known)
    if lacking:
        raise ValueError(f"{where} lacks {', '.join(sorted(lacking))}. Add what is missing.")
    if unknown:
        hint = next((found for name in unknown if (found := did_you_mean(name, known))), "")
        raise ValueError(f"{where} has unknown entries {', '.join(unknown)}. {hint}".rstrip())
    spec = Spec(**{each.name: _typed(each, values[each.name], where) for each in fields(Spec) if each.name in values})
    ks, counts = spec.n_propensity_attributes, (spec.n_splits, spec.n_labellings, spec.clusters)
    rules = {
        "seed must be at least 0": spec.seed >= 0,
        "datasets must name at least one dataset, and none twice": _is_a_set(spec.datasets),
        "methods must name at least one method, and none twice": _is_a_set(spec.methods),
        "mechanisms must name at least one mechanism, and none twice": _is_a_set(spec.mechanisms),
        f"settings must name at least one of {', '.join(SETTINGS)}, and none twice": _is_a_set(spec.settings)
        and set(spec.settings) <= set(SETTINGS),
        "n_propensity_attributes must have different numbers from 1 to added_attributes": _is_a_set(ks)
        and 1 <= min(ks) <= max(ks) <= spec.added_attributes,
        "n_splits, n_labellings and clusters must be at least 1": min(counts) >= 1,
        "test_share must lie strictly between 0 and 1": 0 < spec.test_share < 1,
        "low and high must satisfy 0 < low < high <= 1": 0 < spec.low < spec.high <= 1,
        "C must be above 0": spec.C > 0,
        "km_max_rows must be at least 10": spec.km_max_rows >= 10,
        f"seeds must be {' or '.join(map(repr, SEEDS))}": spec.seeds in SEEDS,
        f"scaling must be {' or '.join(map(repr, SCALINGS))}": spec.scaling in SCALINGS,
        "max_rows must be 0, for all rows, or at least 50": spec.max_rows == 0 or spec.max_rows >= 50,
        "min_labels must be at least 0": spec.min_labels >= 0,
        f"n_labellings must be 1 with seeds = {spec.seeds!r}, because each split has one draw of labels": (
            spec.seeds == "own" or spec.n_labellings == 1
        ),
    }
    n_conditions = len(spec.other_mechanisms) + (len(ks) * len(spec.settings) if ADDED in spec.mechanisms else 0)
    n_runs = spec.n_splits * spec.n_labellings * n_conditions * len(spec.methods) * len(spec.datasets)
    rules[
        f"n_splits = {spec.n_splits:,} and n_labellings = {spec.n_labellings:,} give {n_runs:,} runs, but at most "
        f"{MAX_RUNS:,} are allowed: lower them"
    ] = n_runs <= MAX_RUNS
    usual = DRAWN_PARAMETERS[ADDED_ATTRIBUTES]["n_attributes"]
    added = [
        table.get("parameters", {}).get("n_attributes", usual)
        for table in spec.own_mechanisms.values()
        if table.get("by") == ADDED_ATTRIBUTES
    ]
    rules["n_attributes of a mechanism by added attributes must be at most added_attributes"] = (
        max(added, default=0) <= spec.added_attributes
    )
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise ValueError(f"{where}: {'; '.join(broken)}.")
    return spec


def _typed(entry: Field[Any], value: Any, where: str) -> Any:
    """Return the value of an entry with the type of its field; lists become tuples, which are hashable."""
    if entry.name == "anchors" and isinstance(value, dict):
        return value  # The report checks the numbers of other authors.
    if get_origin(entry.type) is dict:
        if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
            raise ValueError(f"{where}: {entry.name} must be a table of tables; it is {value!r}.")
        return value
    many = get_origin(entry.type) is tuple
    kind: Any = get_args(entry.type)[0] if many else entry.type
    accepted = (int, float) if kind is float else kind
    entries = value if isinstance(value, list) else [value]
    fitting = all(isinstance(each, accepted) and not isinstance(each, bool) for each in entries)
    if not fitting or many != isinstance(value, list):
        described = f"a list of {ENTRY_KINDS[kind]}s" if many else f"a {ENTRY_KINDS[kind]}"
        raise ValueError(f"{where}: {entry.name} must be {described}; it is {value!r}.")
    return tuple(kind(each) for each in entries) if many else kind(value)


def _is_a_set(names: tuple[Any, ...]) -> bool:
    return len(names) > 0 and len(set(names)) == len(names)


def read_spec(path: str | Path, *, quick: bool = False) -> Spec:
    """Read and check a specification; `quick` applies its ``[quick]`` table."""
    path = Path(path)
    table = _read_toml(path)
    quickly = _entries(table.pop("quick", QUICK), f"{path}, [quick]")
    values = {"name": path.stem, **DEFAULTS, **_entries(table, str(path))}
    values.setdefault("title", values["name"])
    own = _own_tables(values, str(path))
    asked = [*list_or_nothing(values["methods"]), *list_or_nothing(quickly.get("methods", []))]
    for entries in (values, quickly):
        if "anchors" in entries:
            entries["anchors"] = _anchors(entries["anchors"], path)
        if "questions" in entries:
            entries["questions"] = _questions(entries["questions"], asked, str(path))
    values |= quickly if quick else {}
    values.setdefault("mechanisms", _usual_mechanisms(values["datasets"], own["datasets"], str(path)))
    refuse_joint_names(values["mechanisms"], own["mechanisms"], str(path))
    values |= {f"own_{group}": _used(values[group], tables) for group, tables in own.items()}
    return check_spec({**values, "folder": str(path.parent)}, str(path))


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}.") from error


def _entries(table: Any, where: str) -> dict[str, Any]:
    """Return all entries of a table, including those in its groups."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    found = {key: value for key, value in table.items() if key not in GROUPS}
    for name in (name for name in GROUPS if name in table):
        group = _entries(table[name], f"{where}, [{name}]")
        if twice := sorted(group.keys() & found.keys()):
            it = "it" if len(twice) == 1 else "each of them"
            raise ValueError(f"{where} sets {', '.join(twice)} twice, once in [{name}]. Set {it} only once.")
        found |= group
    reserved = sorted(found.keys() & {"folder", *(f"own_{group}" for group in OWN_KEYS)})
    if reserved:
        hint = did_you_mean(reserved[0], OWN_KEYS)
        raise ValueError(f"{where} has unknown entries {', '.join(reserved)}. {hint}".rstrip())
    return found


def _own_tables(values: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Replace the user's own tables by lists of names, and return the tables."""
    usual: dict[str, tuple[list[str], list[str]]] = {  # names to use without own tables, and with them
        "datasets": (BUNDLED, []),
        "methods": (USUAL_METHODS, USUAL_METHODS),
        "mechanisms": ([], []),
    }
    own: dict[str, dict[str, Any]] = {}
    for group, (alone, beside) in usual.items():
        given = values.pop(group, None)
        if isinstance(given, dict):
            tables = {name: table for name, table in given.items() if name != USE_KEY}
            own[group] = {
                name: OWN_CHECKS[group](table, f"{where}, [{group}.{name}]") for name, table in tables.items()
            }
            _check_names(group, tables, where)
            if group == "mechanisms":
                tables = own[group] = by_label_frequency(own[group], where)
            used = names_in(given.get(USE_KEY, beside if tables else alone), f"{where}, [{group}]: {USE_KEY}")
            values[group] = [*(name for name in used if name not in tables), *tables]
        else:
            own[group] = {}
            values[group] = alone if given is None else given
    if not values["mechanisms"]:
        del values["mechanisms"]
    return own


def _check_names(group: str, names: Iterable[str], where: str) -> None:
    """Raise if a name cannot be a file name, or is reserved."""
    taken = {"mechanisms": {ADDED, BY_ATTRIBUTES, *SETTINGS}}.get(group, set())
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{where}, [{group}]: {name!r} must consist of letters, digits, - and _.")
        if name in taken:
            raise ValueError(f"{where}, [{group}]: {name!r} is a reserved name. Choose another name.")


def _used(names: Any, tables: dict[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in tables.items() if name in names}


def _usual_mechanisms(datasets: Any, own: dict[str, Any], where: str) -> list[str]:
    """Return the default mechanism: labelling by the attributes that datasets name, or else by added attributes."""
    naming = [name for name in list_or_nothing(datasets) if "propensity_attributes" in own.get(name, {})]
    others = [name for name in list_or_nothing(datasets) if name not in naming]
    if naming and others:
        raise ValueError(
            f"{where}: {naming[0]} has propensity_attributes but {others[0]} does not, so the labelling mechanism is "
            f'not clear. Name propensity_attributes for each dataset, or set mechanisms = ["{ADDED}"].'
        )
    return [BY_ATTRIBUTES] if naming else [ADDED]


def _anchors(given: Any, path: Path) -> dict[str, Any]:
    """Return the content of the file with numbers of other authors that a specification names."""
    if given == {}:
        return {}
    if not isinstance(given, str):
        raise ValueError(f"{path}: anchors must be the name of a TOML file; it is {given!r}.")
    file = path.parent / given
    if not file.is_file():
        raise ValueError(f"{path}: anchors names {given!r}, but there is no file {file}.")
    found = _read_toml(file)
    if not found:
        raise ValueError(f"{path}: anchors names {given!r}, which is empty. Add numbers to it, or remove anchors.")
    return found


def _questions(table: Any, methods: Sequence[Any], where: str) -> dict[str, Any]:
    """Return each question with the methods to compare and the score."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}, [questions] must be a table; it is {table!r}.")
    return {text: _question(asked, methods, f"{where}, [questions]: {text!r}") for text, asked in table.items()}


def _question(asked: Any, methods: Sequence[Any], where: str) -> dict[str, Any]:
    pair = {"better": asked[0], "than": asked[1:]} if isinstance(asked, list) and len(asked) > 1 else asked
    found = {"by": "mse_f", **pair} if isinstance(pair, dict) else {}
    than = [found["than"]] if isinstance(found.get("than"), str) else found.get("than")
    if set(found) != {"better", "than", "by"} or not isinstance(than, list) or not than:
        raise ValueError(
            f'{where} must be a list of two or more methods, such as ["mine", "naive"], or a table with better, than '
            f"and, optionally, by; it is {asked!r}."
        )
    for method in (found["better"], *than):
        if method not in methods:
            hint = did_you_mean(str(method), map(str, methods)) or f"Its methods are {', '.join(map(str, methods))}."
            raise ValueError(f"{where} names {method!r}, which is not a method of this experiment. {hint}")
    if found["by"] not in QUESTION_SCORES:
        hint = did_you_mean(str(found["by"]), QUESTION_SCORES) or f"The scores are {', '.join(QUESTION_SCORES)}."
        raise ValueError(f"{where}: there is no score {found['by']!r}. {hint}")
    return {**found, "than": than}
