"""Grouped records of an experiment, and comparisons of two methods."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.experiments.spec import ADDED
from scarless.experiments.statistics import Comparison, MeanInterval, compare_methods, mean_interval, mean_of_finite
from scarless.experiments.store import comparable_timings
from scarless.outside.notices import listed
from scarless.report.names import KNOWS, LABELS, METHOD_NAMES, SCORES, MethodName, in_order

# With fewer runs on a dataset, no method is marked as the best: the 95% interval of a mean of two runs reaches 12.7
# standard errors to each side, of three runs 4.3, of four runs 3.2.
MIN_RUNS = 4
# With more rows (dataset, condition, method), the page shows means over datasets; by judgement. The page of 8 datasets,
# 4 conditions and 12 methods has 0.5 MB; with 25,000 rows it would have 30 MB.
MAX_ROWS_ON_PAGE = 1000
LABEL_FREQUENCY_SUFFIX = "-c"  # in the name of a setting, between the mechanism and its label frequency

Record = dict[str, Any]
Run = tuple[int, int]  # split, labelling


class Condition(NamedTuple):
    """A setting of the experiment, and the number of attributes that drive the labelling."""

    setting: str
    k: int

    @property
    def label(self) -> str:
        """A short name; if `k` is 0, the name of the labelling mechanism."""
        return self.setting if self.k == 0 else f"{self.setting}, k\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{self.k}"


class Row(NamedTuple):
    """A combination of dataset, condition and method; means are taken over its runs."""

    dataset: str
    setting: str
    k: int
    method: str


@dataclass(frozen=True)
class Results:
    """The records of an experiment, by row and run; failed runs are separate."""

    spec: Record
    runs: dict[Row, dict[Run, Record]]
    failed: dict[Row, list[Record]]
    seconds: dict[Row, list[float]]
    method_names: Mapping[str, MethodName]
    contests: Mapping[str, tuple[str, ...]]  # methods that are ranked against each other
    levels: Mapping[str, Mapping[Condition, int]] = field(default_factory=dict)  # method -> condition -> index of KNOWS
    _intervals: dict[tuple[Row, str], MeanInterval] = field(default_factory=dict)
    _comparisons: dict[tuple[Condition | None, str, tuple[str, ...]], Comparison] = field(default_factory=dict)
    _cubes: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @cached_property
    def datasets(self) -> tuple[str, ...]:
        """The datasets of the specification that have results."""
        there = {row.dataset for row in self.runs}
        return tuple(name for name in self.spec["datasets"] if name in there)

    @cached_property
    def missing_datasets(self) -> tuple[str, ...]:
        """The datasets of the specification without any record, finished or failed."""
        there = {row.dataset for row in (*self.runs, *self.failed)}
        return tuple(name for name in self.spec["datasets"] if name not in there)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods of the specification, sorted by role."""
        return tuple(in_order(self.spec["methods"], self.method_names))

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """All settings with all numbers of added propensity attributes, then all other labelling mechanisms.

        A mechanism with several label frequencies has a condition for each of them, named like ``S4-c0.1``.
        """
        mechanisms = self.spec.get("mechanisms", [ADDED])
        pairs = product(self.spec["settings"], self.spec["n_propensity_attributes"]) if ADDED in mechanisms else ()
        there = {row.setting for row in (*self.runs, *self.failed)}
        parts = there - set(mechanisms)
        others = [(each, 0) for name in mechanisms if name != ADDED for each in _expanded(name, parts | {name} & there)]
        return tuple(Condition(*pair) for pair in (*pairs, *others))

    @cached_property
    def counts(self) -> dict[str, tuple[int, ...]]:
        """The numbers of added propensity attributes of each setting; 0 for other mechanisms."""
        settings = dict.fromkeys(condition.setting for condition in self.conditions)
        return {name: tuple(each.k for each in self.conditions if each.setting == name) for name in settings}

    @cached_property
    def runs_per_row(self) -> int:
        """The number of runs of a complete row."""
        return int(self.spec["n_splits"] * self.spec["n_labellings"])

    @cached_property
    def n_expected(self) -> int:
        """The number of records of a complete experiment."""
        return len(self.spec["datasets"]) * len(self.methods) * len(self.conditions) * self.runs_per_row

    @cached_property
    def n_finished(self) -> int:
        """The number of records without an error."""
        return sum(map(len, self.runs.values()))

    @cached_property
    def n_failed(self) -> int:
        """The number of records with an error."""
        return sum(map(len, self.failed.values()))

    @cached_property
    def large(self) -> bool:
        """Whether there are too many rows to show each of them on the page."""
        return len(self.datasets) * len(self.conditions) * len(self.methods) > MAX_ROWS_ON_PAGE

    def rows(self) -> list[Row]:
        """Return all rows of a complete experiment, in the order of the specification."""
        return [
            Row(dataset, *condition, method)
            for dataset, condition, method in product(self.spec["datasets"], self.conditions, self.methods)
        ]

    def label(self, method: str) -> str:
        """Return the short name of a method."""
        return self.method_names[method].label

    def scores(self, among: Iterable[str] = SCORES) -> list[str]:
        """Return the scores that have results."""
        return [name for name in among if name in self._entries]

    @cached_property
    def _entries(self) -> set[str]:
        return {name for runs in self.runs.values() for run in runs.values() for name in run}

    def has(self, *methods: str) -> bool:
        """Whether the specification has all these methods."""
        return set(methods) <= set(self.methods)

    def interval(self, row: Row, score: str) -> MeanInterval:
        """Return the mean of a score over the runs of a row, with its interval; NaN without runs."""
        if (row, score) not in self._intervals:
            values = [run.get(score, np.nan) for run in self.runs.get(row, {}).values()]
            self._intervals[row, score] = mean_interval(values)
        return self._intervals[row, score]

    @cached_property
    def _places(self) -> list[tuple[tuple[int, ...], Record]]:
        """The records of finished runs, with their positions in a cube."""
        datasets, conditions, methods = (
            {name: i for i, name in enumerate(names)} for names in (self.datasets, self.conditions, self.methods)
        )
        found: list[tuple[tuple[int, ...], Record]] = []
        for row, runs in self.runs.items():
            condition = Condition(row.setting, row.k)
            if row.dataset in datasets and condition in conditions and row.method in methods:
                place = datasets[row.dataset], conditions[condition], methods[row.method]
                found += [((*place, self._run_numbers[run]), record) for run, record in runs.items()]
        return found

    @cached_property
    def _run_numbers(self) -> dict[Run, int]:
        return {run: i for i, run in enumerate(sorted({run for runs in self.runs.values() for run in runs}))}

    def cube(self, score: str) -> NDArray[np.float64]:
        """Return a score as an array with an axis for datasets, conditions, methods and runs; NaN without a value."""
        if score not in self._cubes:
            shape = len(self.datasets), len(self.conditions), len(self.methods), len(self._run_numbers)
            cube = np.full(shape, np.nan)
            for place, record in self._places:
                value = record.get(score)
                cube[place] = np.nan if value is None else value
            self._cubes[score] = cube
        return self._cubes[score]

    def case_means(self, score: str) -> NDArray[np.float64]:
        """Return the mean over runs for each dataset, condition and method; of absolute values for signed errors."""
        cube = self.cube(score)
        return mean_of_finite(np.abs(cube) if SCORES[score].signed else cube, axis=3)

    @cached_property
    def says_what_methods_know(self) -> bool:
        """Whether the records say what each method knows."""
        return bool(self.levels)

    def level(self, method: str, condition: Condition | None = None) -> int | None:
        """Return what a method knows, as an index of `KNOWS`; without a condition, the most over all conditions.

        None means that the method is not compared with others: it uses true classes, or its records do not say what it
        knows. If no record of the experiment says it, all methods that use labels only have the same level.
        """
        if not self.says_what_methods_know:
            return 0 if self.method_names[method].in_contest else None
        found = self.levels.get(method, {})
        level = max(found.values(), default=None) if condition is None else found.get(condition)
        return None if level == KNOWS.index("classes") else level

    def order_of(self, method: str) -> int:
        """Return the place of a method in lists that are sorted by what methods know; unknown comes last."""
        return max(self.levels.get(method, {}).values(), default=len(KNOWS))

    def knows(self, method: str) -> str:
        """Return what a method knows in words; "nothing or names" if it differs between conditions."""
        levels = sorted(set(self.levels.get(method, {}).values()))
        return " or ".join(KNOWS[level] for level in levels)

    def gain(self, one: Row, other: Row, score: str) -> MeanInterval:
        """Return how much better one row scores than another on the same runs; positive is better.

        The score must not be a signed error.
        """
        mine, theirs = self.runs.get(one, {}), self.runs.get(other, {})
        sign = -1.0 if SCORES[score].lower_is_better else 1.0
        both = [run for run in mine if run in theirs]
        return mean_interval([sign * (mine[run].get(score, np.nan) - theirs[run].get(score, np.nan)) for run in both])

    def compare(self, condition: Condition | None, score: str, methods: Sequence[str]) -> Comparison:
        """Rank the methods over the datasets by a score; methods without the score are left out.

        Without a condition, the mean over all conditions in which all these methods have the score is ranked.
        """
        there = tuple(method for method in methods if method in self.methods)
        if (condition, score, there) not in self._comparisons:
            if condition is None:
                table, ranked = self._over_conditions(score, there)
            else:
                means = [
                    [self.interval(Row(dataset, *condition, method), score).mean for method in there]
                    for dataset in self.datasets
                ]
                table = np.reshape(means, (-1, len(there)))
                # A dataset is ranked only if all methods have the score, so methods without any score are left out.
                scored = np.flatnonzero(np.isfinite(table).any(axis=0))
                ranked = tuple(there[i] for i in scored)
                if ranked:
                    table = table[:, scored]
            lower = bool(SCORES[score].lower_is_better) or (condition is None and SCORES[score].signed)
            self._comparisons[condition, score, there] = compare_methods(table, ranked or there, lower_is_better=lower)
        return self._comparisons[condition, score, there]

    def _over_conditions(self, score: str, methods: Sequence[str]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
        """Return the mean of each dataset and method over the conditions that all methods have, and these methods."""
        means = self.case_means(score)
        ranked = tuple(each for each in methods if np.isfinite(means[:, :, self.methods.index(each)]).any())
        chosen = means[:, :, [self.methods.index(each) for each in ranked or methods]]
        common = np.isfinite(chosen).all(axis=2, keepdims=True)
        return mean_of_finite(np.where(common, chosen, np.nan), axis=1), ranked


def _expanded(mechanism: str, there: set[str]) -> list[str]:
    """Return the settings of a mechanism: its name, or a setting for each of its label frequencies."""
    found = {}
    for name in there - {mechanism}:
        base, _, frequency = name.rpartition(LABEL_FREQUENCY_SUFFIX)
        if base == mechanism and _is_number(frequency):
            found[name] = float(frequency)
    return [mechanism] if mechanism in there or not found else sorted(found, key=found.__getitem__)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def group(
    records: Sequence[Record],
    timings: Sequence[Record],
    manifest: Record,
    *,
    method_names: Mapping[str, MethodName] = METHOD_NAMES,
    contests: Mapping[str, tuple[str, ...]] | None = None,
) -> Results:
    """Return records and timings grouped by row; failed runs are counted but left out of means and times.

    A method without a display name is shown under its name in the specification. By default, all methods that use
    labels only are ranked against each other. If the records say what each method knows, there is instead a contest for
    each level of knowledge, with all methods that know as much or less.
    """
    runs: dict[Row, dict[Run, Record]] = {}
    failed: dict[Row, list[Record]] = {}
    good: set[tuple[Row, Run]] = set()
    for record in records:
        row, run = _row(record), _run(record)
        if "error" in record:
            failed.setdefault(row, []).append(record)
        else:
            runs.setdefault(row, {})[run] = record
            good.add((row, run))
    seconds: dict[Row, list[float]] = {}
    for timing in comparable_timings(timings):
        if (_row(timing), _run(timing)) in good:
            seconds.setdefault(_row(timing), []).append(timing["seconds"])
    methods = manifest["spec"]["methods"]
    names = {method: MethodName(method, LABELS, "") for method in (*methods, *(row.method for row in (*runs, *failed)))}
    names |= method_names
    levels = _levels(records)
    if contests is None and levels:
        contests = _contests_by_level(methods, levels)
    if contests is None:
        contests = {"methods that use labels only": tuple(name for name in methods if names[name].role == LABELS)}
    return Results(manifest["spec"], runs, failed, seconds, names, contests, levels)


def _levels(records: Iterable[Record]) -> dict[str, dict[Condition, int]]:
    """Return what each method knows in each condition; runs of one condition should agree, else the most counts."""
    found: dict[str, dict[Condition, int]] = {}
    for record in records:
        if (knows := record.get("knows")) is None:
            continue
        if knows not in KNOWS:
            raise ValueError(
                f"The record of {record['method']} on {record['dataset']} has knows = {knows!r}, but it must be one of "
                f"{listed(list(KNOWS))}. Correct what the method says that it knows, and run it again."
            )
        of_method = found.setdefault(record["method"], {})
        condition = Condition(record["setting"], record["k"])
        of_method[condition] = max(of_method.get(condition, 0), KNOWS.index(knows))
    return found


def _contests_by_level(
    methods: Sequence[str], levels: Mapping[str, Mapping[Condition, int]]
) -> dict[str, tuple[str, ...]]:
    """Return a contest for each level of knowledge, unless it adds no method to the contest before it."""
    contests: dict[str, tuple[str, ...]] = {}
    words = ("nothing", "names or less", "the prior or less", "the propensity or less")
    for level, name in enumerate(words):
        found = tuple(each for each in methods if each in levels and max(levels[each].values()) <= level)
        if len(found) > 1 and found not in contests.values():
            contests[f"methods that know {name}"] = found
    return contests


def _row(record: Record) -> Row:
    return Row(record["dataset"], record["setting"], record["k"], record["method"])


def _run(record: Record) -> Run:
    return record["split"], record["labelling"]


# --- comparisons of two methods


@dataclass(frozen=True)
class Duel:
    """A comparison of two methods in one condition: the gain on each dataset; positive means that `one` is better."""

    one: str
    other: str
    score: str
    condition: Condition
    gains: dict[str, MeanInterval]
    comparison: Comparison

    @property
    def better(self) -> list[str]:
        """The datasets on which the mean is better."""
        return [dataset for dataset, gain in self.gains.items() if gain.mean > 0]

    @property
    def clearly_better(self) -> list[str]:
        """The datasets on which the interval of the gain lies above zero."""
        return [dataset for dataset in self.better if self.gains[dataset].clear]

    @property
    def clearly_worse(self) -> list[str]:
        """The datasets on which the interval of the gain lies below zero."""
        return [dataset for dataset, gain in self.gains.items() if gain.mean < 0 and gain.clear]

    @property
    def mean_gain(self) -> float:
        """The mean gain over the datasets."""
        return sum(gain.mean for gain in self.gains.values()) / len(self.gains) if self.gains else nan

    @property
    def ranks_better(self) -> bool:
        """Whether the average rank is better."""
        return self.comparison.rank(self.one) < self.comparison.rank(self.other)

    @property
    def ranks_worse(self) -> bool:
        """Whether the average rank is worse."""
        return self.comparison.rank(self.one) > self.comparison.rank(self.other)

    @property
    def significant(self) -> bool:
        """Whether the ranks of the two methods differ significantly."""
        return self.comparison.significant(self.one, self.other)


def duel(results: Results, one: str, other: str, score: str, condition: Condition) -> Duel:
    """Compare two methods in one condition; their ranks are those in a contest that has both methods."""
    gains = {
        dataset: results.gain(Row(dataset, *condition, one), Row(dataset, *condition, other), score)
        for dataset in results.datasets
    }
    gains = {dataset: gain for dataset, gain in gains.items() if isfinite(gain.mean)}
    contest = next((methods for methods in results.contests.values() if {one, other} <= set(methods)), (one, other))
    return Duel(one, other, score, condition, gains, results.compare(condition, score, contest))


def duels(results: Results, one: str, others: Sequence[str], score: str) -> list[Duel]:
    """Compare a method with others in all conditions; comparisons without results are left out."""
    found = [
        duel(results, one, other, score, condition)
        for condition in results.conditions
        for other in others
        if results.has(one, other)
    ]
    return [item for item in found if item.gains]


def fewest_runs(found: Sequence[Duel]) -> int:
    """Return the smallest number of runs that both methods have on a dataset."""
    return min(gain.n for item in found for gain in item.gains.values())
