"""What an experiment is: entries, checked -> the list of its runs, each with a seed of its own."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import Field, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from itertools import product
from typing import Any, Self, get_args, get_origin

import numpy as np

SETTINGS = ("all", "original")
ADDED = "added"  # the mechanism that labels by attributes added to a dataset, in the settings
KINDS = {str: "text", int: "whole number", float: "number"}


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

MOST_RUNS = 1_000_000  # at a second each, they take twelve days


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
        f"{MOST_RUNS:,} are accepted: lower them"
    ] = n_runs <= MOST_RUNS
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
        described = f"a list of {KINDS[kind]}s" if many else f"a {KINDS[kind]}"
        raise ValueError(f"{where}: {entry.name} must be {described}; it is {value!r}.")
    return tuple(kind(each) for each in entries) if many else kind(value)


def _is_a_set(names: tuple[Any, ...]) -> bool:
    return len(names) > 0 and len(set(names)) == len(names)
