"""What an experiment is: a TOML file -> the list of its runs, each with a seed of its own."""

import hashlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import Field, asdict, dataclass, fields, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, Self, get_args, get_origin

import numpy as np

SETTINGS = ("all", "original")
TABLES = ("labelling", "options")  # they group a file's entries for the eye; an experiment has no groups
KINDS = {str: "text", int: "whole number", float: "number"}


@dataclass(frozen=True, order=True)
class Cell:
    """One labelled split of one dataset in one setting; every method is run on it."""

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
    """An experiment, checked. Everything that changes a result is in it."""

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

    def cells(self) -> Iterator[Cell]:
        """Return all cells; those that share a split are neighbours."""
        for dataset, split in product(self.datasets, range(self.n_splits)):
            rest = product(self.n_propensity_attributes, range(self.n_labellings), self.settings)
            yield from (Cell(dataset, setting, k, split, labelling) for k, labelling, setting in rest)

    def seed_of(self, *key: str | int) -> np.random.SeedSequence:
        """Return the seed of anything that has a name: always the same one, whatever was run before it."""
        words = np.frombuffer(hashlib.sha256(json.dumps(key).encode()).digest(), dtype="<u4")
        return np.random.SeedSequence([self.seed, *words.tolist()])

    @property
    def digest(self) -> str:
        """A short hash of all that can change a record: everything but which datasets are run."""
        content = {name: value for name, value in asdict(self).items() if name != "datasets"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def only(self, datasets: tuple[str, ...]) -> Self:
        """Return the same experiment on some of its datasets."""
        unknown = [name for name in datasets if name not in self.datasets]
        if unknown:
            near = get_close_matches(unknown[0], self.datasets, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(self.datasets)}."
            raise ValueError(f"{unknown[0]!r} is not a dataset of {self.name}. {hint}")
        return replace(self, datasets=tuple(name for name in self.datasets if name in datasets))


def read_spec(path: str | Path, *, quick: bool = False) -> Spec:
    """Read and check a specification; `quick` applies its ``[quick]`` table."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error
    quickly = table.pop("quick", {})
    values = _entries(table, str(path)) | (_entries(quickly, f"{path}, [quick]") if quick else {})
    return check_spec(values, str(path))


def _entries(table: Any, where: str) -> dict[str, Any]:
    """Return all entries of a table and of the groups in it."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    found = {key: value for key, value in table.items() if key not in TABLES}
    for name in (name for name in TABLES if name in table):
        group = _entries(table[name], f"{where}, [{name}]")
        if twice := sorted(group.keys() & found.keys()):
            raise ValueError(f"{where} sets {', '.join(twice)} in [{name}] and also before. Say it once.")
        found |= group
    return found


def check_spec(values: dict[str, Any], where: str) -> Spec:
    """Return the specification that these entries make; errors begin with `where` they are from."""
    known = {field.name for field in fields(Spec)}
    for kind, names in (("lacks", known - set(values)), ("has unknown", set(values) - known)):
        if names:
            raise ValueError(f"{where} {kind} {', '.join(sorted(names))}.")
    spec = Spec(**{field.name: _typed(field, values[field.name], where) for field in fields(Spec)})
    ks, counts = spec.n_propensity_attributes, (spec.n_splits, spec.n_labellings, spec.clusters)
    rules = {
        "seed must be at least 0": spec.seed >= 0,
        "datasets must name at least one dataset, each once": _is_a_set(spec.datasets),
        "methods must name at least one method, each once": _is_a_set(spec.methods),
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
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise ValueError(f"{where}: {'; '.join(broken)}.")
    return spec


def _typed(field: Field[Any], value: Any, where: str) -> Any:
    """Return an entry of the file as the field holds it: tuples for lists, so that equal specifications are equal."""
    many = get_origin(field.type) is tuple
    kind: Any = get_args(field.type)[0] if many else field.type
    accepted = (int, float) if kind is float else kind
    entries = value if isinstance(value, list) else [value]
    fitting = all(isinstance(entry, accepted) and not isinstance(entry, bool) for entry in entries)
    if not fitting or many != isinstance(value, list):
        described = f"a list of {KINDS[kind]}s" if many else f"a {KINDS[kind]}"
        raise ValueError(f"{where}: {field.name} must be {described}; it is {value!r}.")
    return tuple(kind(entry) for entry in entries) if many else kind(value)


def _is_a_set(names: tuple[Any, ...]) -> bool:
    return len(names) > 0 and len(set(names)) == len(names)
