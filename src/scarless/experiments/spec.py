"""What an experiment is: entries of a TOML file, checked -> the list of its runs, each with a seed of its own.

A specification says little by itself: it has defaults for what it does not say, and tables of datasets, methods and
mechanisms of the user's own.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import Field, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, Self, get_args, get_origin

import numpy as np

SETTINGS = ("all", "original")
ADDED = "added"  # the mechanism that labels by attributes added to a dataset, in the settings
ENTRY_KINDS = {str: "text", int: "whole number", float: "number"}
MAX_RUNS = 1_000_000  # at a second each, they take twelve days
GROUPS = ("labelling", "options")  # they group a file's entries for the eye; an experiment has no groups
BY_ATTRIBUTES = "attributes"  # the mechanism that labels by the attributes that a dataset names
BUNDLED = ["bundled_breast_cancer", "bundled_digits", "simulated"]  # nothing to download
USUAL_METHODS = ["supervised", "naive", "scar-tice", "sar-em"]
#: What a specification of `scarless compare` takes where it does not say. By judgement; propensities from 0.2 to 0.8,
#: four added attributes and five clusters are those of `scarless reproduce`.
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
QUICK = {"n_splits": 2, "n_labellings": 1}  # where a file has no [quick] of its own
USE_KEY = "use"  # beside tables of one's own: which of ours to take as well
OWN_KEYS = {  # of one's own
    "datasets": ("file", "callable", "parameters", "class", "positive", "propensity_attributes"),
    "methods": ("estimator", "parameters"),
    "mechanisms": ("mechanism", "callable", "parameters"),
}
JUDGED = ("mse_f", "auc_f", "mse_e", "mae_e", "log_loss", "average_precision", "calibration_error")
_NAME = re.compile(r"[\w-]+")


@dataclass(frozen=True, order=True)
class Cell:
    """One labelled split of one dataset in one setting; every method is run on it.

    Where labels come from another mechanism than the added attributes, its name is the setting, and `k` is 0.
    """

    dataset: str
    setting: str
    k: int
    split: int
    labelling: int

    @property
    def key(self) -> str:
        """A name for the cell.

        Examples
        --------
        >>> Cell("adult", "all", 4, 0, 3).key
        'adult/all/k4/split0/labelling3'
        """
        return f"{self.dataset}/{self.setting}/k{self.k}/split{self.split}/labelling{self.labelling}"


@dataclass(frozen=True)
class Spec:
    """An experiment, checked. Everything that changes a result is in it.

    `own_datasets`, `own_methods` and `own_mechanisms` say what names stand for that are not ours; `folder` is where
    files and modules of one's own are looked for.
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
    folder: str = field(default="", compare=False)

    def cells(self) -> Iterator[Cell]:
        """Return all cells; those that share a split are neighbours."""
        for dataset, split in product(self.datasets, range(self.n_splits)):
            if ADDED in self.mechanisms:
                rest = product(self.n_propensity_attributes, range(self.n_labellings), self.settings)
                yield from (Cell(dataset, setting, k, split, labelling) for k, labelling, setting in rest)
            others = product(range(self.n_labellings), self.other_mechanisms)
            yield from (Cell(dataset, mechanism, 0, split, labelling) for labelling, mechanism in others)

    @property
    def other_mechanisms(self) -> tuple[str, ...]:
        """Mechanisms that label by what a dataset has, without added attributes."""
        return tuple(name for name in self.mechanisms if name != ADDED)

    @property
    def n_added(self) -> int:
        """How many attributes datasets get."""
        return self.added_attributes if ADDED in self.mechanisms else 0

    def entries(self) -> dict[str, Any]:
        """Return what is to be stored of an experiment: nothing of where its files are, nor of what it does not use."""
        unused = {name for name, value in _OPTIONAL.items() if getattr(self, name) == value}
        return {name: value for name, value in asdict(self).items() if name not in {*unused, "folder"}}

    def seed_of(self, *key: str | int) -> np.random.SeedSequence:
        """Return the seed of anything that has a name: always the same one, whatever was run before it."""
        words = np.frombuffer(hashlib.sha256(json.dumps(key).encode()).digest(), dtype="<u4")
        return np.random.SeedSequence([self.seed, *words.tolist()])

    @property
    def digest(self) -> str:
        """A short hash of all that can change a record: everything but which datasets are run, and what is asked."""
        apart = {"datasets", "own_datasets", "questions"}
        content = {name: value for name, value in self.entries().items() if name not in apart}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def only(self, datasets: tuple[str, ...]) -> Self:
        """Return the same experiment on some of its datasets."""
        unknown = [name for name in datasets if name not in self.datasets]
        if unknown:
            hint = did_you_mean(unknown[0], self.datasets) or f"It has {', '.join(self.datasets)}."
            raise ValueError(f"{unknown[0]!r} is not a dataset of {self.name}. {hint}")
        return replace(self, datasets=tuple(name for name in self.datasets if name in datasets))


_OPTIONAL = {
    each.name: each.default_factory() if callable(each.default_factory) else each.default
    for each in fields(Spec)
    if each.name in {"mechanisms", "own_datasets", "own_methods", "own_mechanisms", "questions", "folder"}
}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question after the nearest name; empty where none is near.

    Examples
    --------
    >>> did_you_mean("n_split", ["n_splits", "seed"]), did_you_mean("colour", ["seed"])
    ("Did you mean 'n_splits'?", '')
    """
    words = {word.lower(): word for word in known}
    near = get_close_matches(name.lower(), words, n=1)
    return f"Did you mean {words[near[0]]!r}?" if near else ""


def check_spec(values: dict[str, Any], where: str) -> Spec:
    """Return the specification that these entries make; errors begin with `where` they are from."""
    known = {each.name for each in fields(Spec)}
    lacking, unknown = known - set(values) - set(_OPTIONAL), sorted(set(values) - known)
    if lacking:
        raise ValueError(f"{where} lacks {', '.join(sorted(lacking))}.")
    if unknown:
        hint = next((found for name in unknown if (found := did_you_mean(name, known))), "")
        raise ValueError(f"{where} has unknown {', '.join(unknown)}. {hint}".rstrip())
    spec = Spec(**{each.name: _typed(each, values[each.name], where) for each in fields(Spec) if each.name in values})
    ks, counts = spec.n_propensity_attributes, (spec.n_splits, spec.n_labellings, spec.clusters)
    rules = {
        "seed must be at least 0": spec.seed >= 0,
        "datasets must name at least one dataset, each once": _is_a_set(spec.datasets),
        "methods must name at least one method, each once": _is_a_set(spec.methods),
        "mechanisms must name at least one mechanism, each once": _is_a_set(spec.mechanisms),
        f"settings must be among {', '.join(SETTINGS)}, each once": _is_a_set(spec.settings)
        and set(spec.settings) <= set(SETTINGS),
        "n_propensity_attributes must lie between 1 and added_attributes, each once": _is_a_set(ks)
        and 1 <= min(ks) <= max(ks) <= spec.added_attributes,
        "n_splits, n_labellings and clusters must be at least 1": min(counts) >= 1,
        "test_share must lie strictly between 0 and 1": 0 < spec.test_share < 1,
        "low and high must satisfy 0 < low < high <= 1": 0 < spec.low < spec.high <= 1,
        "C must be above 0": spec.C > 0,
        "km_max_rows must be at least 10": spec.km_max_rows >= 10,
    }
    n_runs = spec.n_splits * spec.n_labellings * len(ks) * len(spec.settings) * len(spec.methods) * len(spec.datasets)
    rules[
        f"n_splits = {spec.n_splits:,} and n_labellings = {spec.n_labellings:,} make {n_runs:,} runs, and at most "
        f"{MAX_RUNS:,} are accepted: lower them"
    ] = n_runs <= MAX_RUNS
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise ValueError(f"{where}: {'; '.join(broken)}.")
    return spec


def _typed(entry: Field[Any], value: Any, where: str) -> Any:
    """Return an entry of the file as the field holds it: tuples for lists, so that equal specifications are equal."""
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
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error}.") from error
    quickly = _entries(table.pop("quick", QUICK), f"{path}, [quick]")
    values = {"name": path.stem, **DEFAULTS, **_entries(table, str(path))}
    values.setdefault("title", values["name"])
    own = _own_tables(values, str(path))
    asked = [*_listed(values["methods"]), *_listed(quickly.get("methods", []))]
    values["questions"] = _questions(values.get("questions", {}), asked, str(path))
    values |= quickly if quick else {}
    values.setdefault("mechanisms", _usual_mechanisms(values["datasets"], own["datasets"], str(path)))
    values |= {f"own_{group}": _used(values[group], tables) for group, tables in own.items()}
    return check_spec({**values, "folder": str(path.parent)}, str(path))


def _entries(table: Any, where: str) -> dict[str, Any]:
    """Return all entries of a table and of the groups in it."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    found = {key: value for key, value in table.items() if key not in GROUPS}
    for name in (name for name in GROUPS if name in table):
        group = _entries(table[name], f"{where}, [{name}]")
        if twice := sorted(group.keys() & found.keys()):
            raise ValueError(f"{where} sets {', '.join(twice)} in [{name}] and also before. Say it once.")
        found |= group
    reserved = sorted(found.keys() & {"folder", *(f"own_{group}" for group in OWN_KEYS)})
    if reserved:
        raise ValueError(f"{where} has unknown {', '.join(reserved)}. {did_you_mean(reserved[0], OWN_KEYS)}".rstrip())
    return found


def _own_tables(values: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Replace tables of one's own by lists of names; return the tables."""
    usual: dict[str, tuple[list[str], list[str]]] = {  # without tables of one's own, and beside them
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
            used = _names(given.get(USE_KEY, beside if tables else alone), f"{where}, [{group}]: {USE_KEY}")
            values[group] = [*(name for name in used if name not in tables), *tables]
        else:
            own[group] = {}
            values[group] = alone if given is None else given
    if not values["mechanisms"]:
        del values["mechanisms"]
    return own


def _check_names(group: str, names: Iterable[str], where: str) -> None:
    """Refuse names that could not be those of files, or that stand for something else."""
    taken = {"mechanisms": {ADDED, BY_ATTRIBUTES, *SETTINGS}}.get(group, set())
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{where}, [{group}]: {name!r} must be a name of letters, digits, - and _.")
        if name in taken:
            raise ValueError(f"{where}, [{group}]: {name!r} is taken. Choose another name.")


def _names(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{what} must be a list of names; it is {value!r}.")
    return value


def _listed(value: Any) -> list[Any]:
    """Return a list as it is, and what is none, which is refused later, as nothing."""
    return value if isinstance(value, list) else []


def _used(names: Any, tables: dict[str, Any]) -> dict[str, Any]:
    return {name: table for name, table in tables.items() if name in names}


def _checked(table: Any, where: str, group: str) -> dict[str, Any]:
    """Return a table of one's own whose keys are known, and whose values can be written as JSON."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    for key in table:
        if key not in OWN_KEYS[group]:
            hint = did_you_mean(key, OWN_KEYS[group]) or f"There are {', '.join(OWN_KEYS[group])}."
            raise ValueError(f"{where} has unknown {key}. {hint}")
    if not isinstance(table.get("parameters", {}), dict):
        raise ValueError(f"{where}: parameters must be a table; it is {table['parameters']!r}.")
    try:
        json.dumps(table)
    except TypeError as error:
        raise ValueError(f"{where} must hold texts, numbers, true, false, lists and tables only ({error}).") from error
    return table


def _one_of(table: dict[str, Any], keys: tuple[str, str], where: str) -> None:
    """Refuse a table that does not say exactly one of two things, in words."""
    said = [key for key in keys if key in table]
    if len(said) != 1:
        came = "both" if said else "neither"
        raise ValueError(f"{where} must have either {keys[0]} or {keys[1]}; it has {came}.")
    _text(table, said[0], where)


def _text(table: dict[str, Any], key: str, where: str) -> None:
    if not isinstance(table.get(key), str):
        came = f"it is {table[key]!r}" if key in table else "it is missing"
        raise ValueError(f"{where}: {key} must be a text; {came}.")


def _dataset(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "datasets")
    _one_of(found, ("file", "callable"), where)
    if "file" in found:
        _text(found, "class", where)
    apart = ("parameters",) if "file" in found else ("class",)
    for key in apart:
        if key in found:
            raise ValueError(f"{where}: {key} does not go with {'file' if 'file' in found else 'callable'}.")
    if isinstance(found.get("positive", ""), list | dict):
        raise ValueError(f"{where}: positive must be one value of the class; it is {found['positive']!r}.")
    attributes = found.get("propensity_attributes", ["any"])
    fitting = isinstance(attributes, list) and all(type(name) in (str, int) for name in attributes)
    if not fitting or not attributes:
        raise ValueError(f"{where}: propensity_attributes must be a list of columns; it is {attributes!r}.")
    return found


def _method(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "methods")
    _text(found, "estimator", where)
    return found


def _mechanism(table: Any, where: str) -> dict[str, Any]:
    found = _checked(table, where, "mechanisms")
    _one_of(found, ("mechanism", "callable"), where)
    return found


OWN_CHECKS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "datasets": _dataset,
    "methods": _method,
    "mechanisms": _mechanism,
}


def _usual_mechanisms(datasets: Any, own: dict[str, Any], where: str) -> list[str]:
    """Return how to label where nobody says: by the attributes that datasets name, or by added ones if none does."""
    naming = [name for name in _listed(datasets) if "propensity_attributes" in own.get(name, {})]
    others = [name for name in _listed(datasets) if name not in naming]
    if naming and others:
        raise ValueError(
            f"{where}: {naming[0]} has propensity_attributes and {others[0]} has not, so that it is not clear how to "
            f'label. Name them for each, or say mechanisms = ["{ADDED}"].'
        )
    return [BY_ATTRIBUTES] if naming else [ADDED]


def _questions(table: Any, methods: Sequence[Any], where: str) -> dict[str, Any]:
    """Return each question with who is to be better than whom, and by which score."""
    if not isinstance(table, dict):
        raise ValueError(f"{where}, [questions] must be a table; it is {table!r}.")
    return {text: _question(asked, methods, f"{where}, [questions]: {text!r}") for text, asked in table.items()}


def _question(asked: Any, methods: Sequence[Any], where: str) -> dict[str, Any]:
    pair = {"better": asked[0], "than": asked[1:]} if isinstance(asked, list) and len(asked) > 1 else asked
    found = {"by": "mse_f", **pair} if isinstance(pair, dict) else {}
    than = [found["than"]] if isinstance(found.get("than"), str) else found.get("than")
    if set(found) != {"better", "than", "by"} or not isinstance(than, list) or not than:
        raise ValueError(
            f'{where} must be a pair of methods, such as ["mine", "naive"], or a table with better, than and by; it is '
            f"{asked!r}."
        )
    for method in (found["better"], *than):
        if method not in methods:
            hint = did_you_mean(str(method), map(str, methods)) or f"There are {', '.join(map(str, methods))}."
            raise ValueError(f"{where} asks after {method!r}, which is no method of this experiment. {hint}")
    if found["by"] not in JUDGED:
        hint = did_you_mean(str(found["by"]), JUDGED) or f"There are {', '.join(JUDGED)}."
        raise ValueError(f"{where}: there is no score {found['by']!r}. {hint}")
    return {**found, "than": than}
