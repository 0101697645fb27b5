"""Published numbers beside ours: a TOML file of numbers with their sources, and the chapter that compares them.

Each table ``[[anchor]]`` of the file has one number, or a grid of numbers for one method:

.. code-block:: toml

    tolerance = 0.01  # optional: default of all anchors

    [source]
    somebody2025 = "Somebody et al. (2025), table 6"

    [[anchor]]
    method = "naive"
    table = "adult"
    mechanism = "S1"
    metric = "balanced_accuracy"
    value = 0.712
    source = "somebody2025"

    [[anchor]]
    method = "sar-em"
    mechanism = ["S1", "S2"]
    metric = "balanced_accuracy"
    source = "somebody2025"
    tolerance = 0.02
    values = { adult = [0.731, 0.725], splice = [0.812, 0.790] }

In a grid, each list has a number for each mechanism; one number instead of a list holds for all mechanisms. The entry
``k`` is the number of added propensity attributes, and 0 for other mechanisms.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from scarless.experiments.entries import did_you_mean
from scarless.experiments.statistics import MeanInterval
from scarless.outside.notices import listed
from scarless.report.chapters import Chapter, Point, Points
from scarless.report.names import SCORES, dataset_label
from scarless.report.results import Condition, Results, Row
from scarless.report.tables import Table, TableCell, section
from scarless.report.words import plain, signed, with_half

TOP_KEYS = ("source", "tolerance", "anchor")
KEYS = ("method", "table", "mechanism", "k", "metric", "value", "values", "source", "tolerance")
ROUNDING = 1e-12  # A difference of exactly the tolerance is within it.
NOTE = (
    "Each number is compared with our mean over runs. A difference is ours minus the published number. The tolerance "
    "was set in the file of published numbers, and the verdict compares the largest difference with it."
)


@dataclass(frozen=True)
class PublishedNumber:
    """A published score of a method on a dataset in a condition; `source` is the text to cite."""

    method: str
    dataset: str
    condition: Condition
    score: str
    value: float
    source: str
    tolerance: float | None = None


def read_anchors(path: str | Path) -> tuple[PublishedNumber, ...]:
    """Read and check a TOML file of published numbers.

    Parameters
    ----------
    path : path
        The file. The documentation of this module has an example.

    Returns
    -------
    tuple of PublishedNumber

    Raises
    ------
    ValueError
        If the file does not exist, is not valid TOML, or has a wrong entry. The message names the entry.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(
            f"The file of published numbers {path} does not exist. Correct the entry anchors of the specification, or "
            "remove it."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}.") from error
    return check_anchors(table, str(path))


def check_anchors(table: Any, where: str) -> tuple[PublishedNumber, ...]:
    """Return the published numbers of a table with the entries of the file; errors begin with `where`.

    Parameters
    ----------
    table : dict
        The content of a TOML file of published numbers.
    where : str
        Name of the table in error messages.

    Returns
    -------
    tuple of PublishedNumber

    Examples
    --------
    >>> grid = {"method": "naive", "mechanism": ["S1", "S2"], "metric": "f1", "source": "a", "values": {"adult": 0.5}}
    >>> found = check_anchors({"source": {"a": "A. Author (2025)"}, "anchor": [grid]}, "here")
    >>> [(each.dataset, each.condition.setting, each.value, each.source) for each in found]
    [('adult', 'S1', 0.5, 'A. Author (2025)'), ('adult', 'S2', 0.5, 'A. Author (2025)')]
    """
    if not isinstance(table, dict):
        raise ValueError(f"{where} must be a table; it is {table!r}.")
    _refuse_unknown(table, TOP_KEYS, where)
    sources = table.get("source", {})
    if not isinstance(sources, dict) or not all(isinstance(text, str) and text.strip() for text in sources.values()):
        raise ValueError(f'{where}: [source] must be a table of texts, such as a2025 = "A. Author (2025), table 6".')
    entries = table.get("anchor", [])
    if not isinstance(entries, list) or not entries:
        raise ValueError(f"{where} has no published number. Add at least one table [[anchor]].")
    usual = _tolerance(table, where)
    found: list[PublishedNumber] = []
    for number, entry in enumerate(entries, start=1):
        found += _numbers(entry, sources, usual, f"{where}, anchor {number}")
    seen: set[tuple[Any, ...]] = set()
    for each in found:
        key = each.method, each.dataset, each.condition, each.score, each.source
        if key in seen:
            raise ValueError(
                f"{where} has {each.score} of {each.method} on {each.dataset} in {each.condition.label} twice from one "
                "source. Remove one of the two numbers."
            )
        seen.add(key)
    return tuple(found)


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"The known entries are {', '.join(known)}."
            raise ValueError(f"{where} has an unknown entry {key}. {hint}")


def _numbers(entry: Any, sources: Mapping[str, str], usual: float | None, where: str) -> list[PublishedNumber]:
    """Return the numbers of one table [[anchor]]."""
    if not isinstance(entry, dict):
        raise ValueError(f"{where} must be a table; it is {entry!r}.")
    _refuse_unknown(entry, KEYS, where)
    grid = "values" in entry
    needed = ("method", "mechanism", "metric", "source", *(("values",) if grid else ("table", "value")))
    if lacking := [name for name in needed if name not in entry]:
        raise ValueError(f"{where} lacks {listed(lacking)}. Add what is missing.")
    if grid and (twice := [name for name in ("table", "value") if name in entry]):
        raise ValueError(f"{where} has values and also {listed(twice)}. Write one number, or a grid of values.")
    for name in ("method", "metric", "source", *(() if grid else ("table",))):
        if not isinstance(entry[name], str) or not entry[name]:
            raise ValueError(f"{where}: {name} must be a text; it is {entry[name]!r}.")
    if entry["metric"] not in SCORES:
        hint = did_you_mean(entry["metric"], SCORES) or f"The scores are {', '.join(SCORES)}."
        raise ValueError(f"{where}: there is no score {entry['metric']!r}. {hint}")
    if entry["source"] not in sources:
        hint = did_you_mean(entry["source"], sources) or "Add its text to the table [source]."
        raise ValueError(f"{where}: there is no source {entry['source']!r}. {hint}")
    conditions = _conditions(entry, where)
    tolerance = _tolerance(entry, where)
    values = entry["values"] if grid else {entry["table"]: entry["value"]}
    if not isinstance(values, dict) or not values:
        raise ValueError(f"{where}: values must be a table with the numbers of each dataset; it is {values!r}.")
    return [
        PublishedNumber(
            entry["method"], dataset, condition, entry["metric"], value, sources[entry["source"]],
            usual if tolerance is None else tolerance,
        )
        for dataset, given in values.items()
        for condition, value in zip(conditions, _values(given, len(conditions), f"{where}, {dataset}"), strict=True)
    ]  # fmt: skip


def _conditions(entry: Mapping[str, Any], where: str) -> list[Condition]:
    given, k = entry["mechanism"], entry.get("k", 0)
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ValueError(f"{where}: mechanism must be a name, or a list of different names; it is {given!r}.")
    if not isinstance(k, int) or isinstance(k, bool) or k < 0:
        raise ValueError(f"{where}: k must be a whole number of at least 0; it is {k!r}.")
    return [Condition(name, k) for name in names]


def _values(given: Any, n: int, where: str) -> list[float]:
    """Return a number for each mechanism."""
    values = given if isinstance(given, list) else [given] * n
    if len(values) != n:
        raise ValueError(f"{where} has {len(values)} numbers, but there are {n} mechanisms. Write one for each.")
    for value in values:
        if not _is_finite(value):
            raise ValueError(f"{where}: a published number must be a finite number; it is {value!r}.")
    return [float(value) for value in values]


def _tolerance(table: Mapping[str, Any], where: str) -> float | None:
    found = table.get("tolerance")
    if found is not None and not (_is_finite(found) and found > 0):
        raise ValueError(f"{where}: tolerance must be a number above 0; it is {found!r}.")
    return None if found is None else float(found)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


# --- the chapter


@dataclass(frozen=True)
class Compared:
    """A published number with our mean over runs; some of them may not be finished."""

    published: PublishedNumber
    ours: MeanInterval
    complete: bool = True

    @property
    def difference(self) -> float:
        """Ours minus the published number."""
        return self.ours.mean - self.published.value

    @property
    def within(self) -> bool | None:
        """Whether the difference is within the tolerance; None without a tolerance."""
        tolerance = self.published.tolerance
        return None if tolerance is None else abs(self.difference) <= tolerance + ROUNDING


def compare_anchors(results: Results, anchors: Sequence[PublishedNumber]) -> list[Compared]:
    """Return the published numbers for which there are results, with our means.

    Parameters
    ----------
    results : Results
        Results of the experiment.
    anchors : sequence of PublishedNumber
        Published numbers, from `read_anchors`.

    Returns
    -------
    list of Compared
    """
    rows = [(each, Row(each.dataset, *each.condition, each.method)) for each in anchors]
    found = [Compared(each, results.interval(row, each.score), _is_complete(results, row)) for each, row in rows]
    return [each for each in found if isfinite(each.ours.mean)]


def _is_complete(results: Results, row: Row) -> bool:
    """Whether all runs of a row have ended."""
    return len(results.runs.get(row, {})) + len(results.failed.get(row, [])) >= results.runs_per_row


def anchors_chapter(results: Results, anchors: Sequence[PublishedNumber]) -> Chapter:
    """Return the chapter with published numbers beside ours, the largest differences and verdicts.

    Parameters
    ----------
    results : Results
        Results of the experiment.
    anchors : sequence of PublishedNumber
        Published numbers, from `read_anchors`.

    Returns
    -------
    Chapter
    """
    compared = compare_anchors(results, anchors)
    groups: dict[tuple[str, str, str], list[Compared]] = {}
    for each in compared:
        groups.setdefault((each.published.method, each.published.score, each.published.source), []).append(each)
    asked = {key: sum(_group_of(each) == key for each in anchors) for key in groups}
    sources = dict.fromkeys(key[2] for key in groups)
    sections = tuple(
        section(source, [_verdict_row(results, key, groups[key], asked[key]) for key in groups if key[2] == source])
        for source in sources
    )
    head = ("method", "score", "verdict", "numbers", "mean distance", "largest difference", "where")
    caption = "Ours compared with published numbers. Bold: not within the tolerance"
    tables = (Table(caption, head, sections, (0, 1, 2, 6)),) if sections else ()
    details = tuple(
        (f"{_label(results, key[0])}, {SCORES[key[1]].label}: all numbers", _number_table(key, found))
        for key, found in groups.items()
    )
    points = [*_in_words(results, groups, asked), *_not_compared(results, anchors, compared)]
    others = [source for source in dict.fromkeys(each.source for each in anchors) if source not in sources]
    lists = (("", points), ("Sources without any result here", others))
    return Chapter(
        "published",
        "Published numbers",
        "Published numbers beside ours",
        NOTE,
        tuple(Points(title, tuple(map(Point, texts))) for title, texts in lists if texts),
        tables,
        (),
        details,
    )


def _group_of(each: PublishedNumber) -> tuple[str, str, str]:
    return each.method, each.score, each.source


def _largest(found: Sequence[Compared]) -> Compared:
    return max(found, key=lambda each: abs(each.difference))


def _verdict(found: Sequence[Compared], asked: int) -> str:
    """Return whether all differences are within their tolerances, and if some numbers have no results yet."""
    judged = [each for each in found if each.within is not None]
    so_far = "" if all(each.complete for each in found) else ", so far (some runs are missing)"
    so_far = so_far if len(found) == asked else f", so far ({len(found)} of {asked} numbers)"
    if not judged:
        return f"no tolerance given{so_far}"
    outside = sum(not each.within for each in judged)
    tolerances = {each.published.tolerance for each in judged}
    limit = f"{tolerances.pop():g}" if len(tolerances) == 1 else "the tolerances"
    return (f"not within {limit}: {outside} of {len(judged)}" if outside else f"within {limit}") + so_far


def _verdict_row(
    results: Results, key: tuple[str, str, str], found: Sequence[Compared], asked: int
) -> list[str | TableCell]:
    method, score, _ = key
    largest, decimals = _largest(found), SCORES[score].decimals
    outside = any(each.within is False for each in found)
    return [
        _label(results, method),
        SCORES[score].label,
        TableCell(_verdict(found, asked), strong=outside),
        str(len(found)),
        plain(sum(abs(each.difference) for each in found) / len(found), decimals),
        TableCell(signed(largest.difference, decimals), strong=largest.within is False),
        f"{dataset_label(largest.published.dataset)}, {largest.published.condition.label}",
    ]


def _number_table(key: tuple[str, str, str], found: Sequence[Compared]) -> Table:
    _, score, source = key
    decimals = SCORES[score].decimals
    published = max(len(f"{each.published.value:g}".partition(".")[2]) for each in found)
    rows: list[list[str | TableCell]] = [
        [
            dataset_label(each.published.dataset),
            each.published.condition.label,
            with_half(each.ours, decimals),
            plain(each.published.value, published),
            TableCell(signed(each.difference, decimals), strong=each.within is False),
        ]
        for each in found
    ]
    head = ("dataset", "condition", "ours", "published", "difference")
    caption = f"Published: {source}. Ours: mean ± half-width of the 95% interval over runs"
    return Table(caption, head, (section("", rows),), (0, 1))


def _label(results: Results, method: str) -> str:
    return results.label(method) if method in results.method_names else method


def _in_words(
    results: Results,
    groups: Mapping[tuple[str, str, str], Sequence[Compared]],
    asked: Mapping[tuple[str, str, str], int],
) -> list[str]:
    """Return a sentence about the methods whose numbers are all within the tolerance, and one about the others."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for key, found in groups.items():
        judged = [each.within for each in found if each.within is not None]
        if judged:
            names[all(judged)].append(_label(results, key[0]))
    good, bad = (list(dict.fromkeys(names[each])) for each in (True, False))
    partly = any(len(found) < asked[key] for key, found in groups.items())
    unfinished = not all(each.complete for found in groups.values() for each in found)
    so_far = " so far, because some runs are missing" if unfinished else ""
    so_far = " so far, because some numbers have no results yet" if partly else so_far
    sentences = [f"Within the tolerance{so_far}: {listed(good)}."] if good else []
    return [*sentences, *([f"Not within the tolerance{so_far}: {listed(bad)}."] if bad else [])]


def _not_compared(results: Results, anchors: Sequence[PublishedNumber], compared: Sequence[Compared]) -> list[str]:
    """Return a sentence about published numbers without results, which names what the experiment lacks."""
    missing = len(anchors) - len(compared)
    if not missing:
        return []
    lacking = {
        "methods": [each.method for each in anchors if each.method not in results.methods],
        "datasets": [each.dataset for each in anchors if each.dataset not in results.datasets],
        "conditions": [each.condition.label for each in anchors if each.condition not in results.conditions],
    }
    named = [f"{what} {listed(list(dict.fromkeys(names)), most=8)}" for what, names in lacking.items() if names]
    why = f" The experiment has no results for the {'; the '.join(named)}." if named else ""
    return [f"{missing:,} of {len(anchors):,} published numbers have no result here and are not compared.{why}"]
