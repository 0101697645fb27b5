"""Texts of an experiment's report besides its numbers: questions with answers, chapters, and display names.

The specification of an experiment can add method names and questions of the form "is A better than B?".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from scarless.outside.notices import listed
from scarless.report.anchors import PublishedNumber, check_anchors, read_anchors
from scarless.report.names import LABELS, MAIN_SCORES, METHOD_NAMES, SCORES, MethodName
from scarless.report.results import MIN_RUNS, Duel, Record, Results, duels, fewest_runs
from scarless.report.tables import Table, duel_table

TITLE = "Answers to the questions"
NOTE = (
    "The verdicts follow from the numbers by fixed rules. A case is a combination of dataset, condition and compared "
    "method. A difference is clear if its 95% interval over the runs of a dataset, paired by split and labelling, "
    "excludes zero. Gains are positive if the first method is better. Ranks and tests use the mean over the runs of a "
    "dataset as one observation."
)


@dataclass(frozen=True)
class Answer:
    """A question, a verdict of a few words, and the evidence."""

    question: str
    verdict: str
    paragraphs: tuple[str, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Questions:
    """The questions of an experiment; `answers` computes the answers from its results."""

    title: str
    note: str
    answers: Callable[[Results], tuple[Answer, ...]]


@dataclass(frozen=True)
class Story:
    """The texts that a page adds to the numbers of an experiment; the defaults suit any experiment.

    `whose` and `citation` are shown above the title. `figures` are the scores that are drawn. `contests` are the groups
    of methods that are ranked against each other, and `ranked` is a sentence about them; by default, all methods that
    use labels only are one contest, or there is a contest for each level of knowledge if the records have it.
    `reference` is the method from which the page shows differences. `anchors` are published numbers.
    """

    whose: str = "An experiment"
    citation: str = ""
    method_names: dict[str, Any] = field(default_factory=lambda: dict(METHOD_NAMES))  # method -> `MethodName`
    contests: dict[str, Any] | None = None  # name of the contest -> names of methods
    ranked: str = ""  # empty: a sentence about the default contests
    figures: tuple[str, ...] = MAIN_SCORES
    figures_title: str = "Figures"
    questions: Questions | None = None
    chapters: Any = None  # function that returns the page's chapters from the results
    reference: str = "naive"
    anchors: tuple[PublishedNumber, ...] = ()


# --- the story of a specification


def story_of_spec(spec: Record, base: Story) -> Story:
    """Return a story with the method names, questions and published numbers of a specification.

    The names of the story come first: a story of a publication names the methods of its specification.

    The entry `anchors` of the specification is the path of a file of published numbers, relative to its folder, or the
    content of such a file.
    """
    own = {name: _method_name(name, entry) for name, entry in spec.get("own_methods", {}).items()}
    asked = spec.get("questions", {})
    questions = Questions(TITLE, NOTE, partial(answers, asked)) if asked else base.questions
    anchors = _anchors(spec) if spec.get("anchors") else base.anchors
    return replace(base, method_names={**own, **base.method_names}, questions=questions, anchors=anchors)


def _anchors(spec: Record) -> tuple[PublishedNumber, ...]:
    given = spec["anchors"]
    return (
        read_anchors(Path(spec.get("folder", ""), given)) if isinstance(given, str) else check_anchors(given, "anchors")
    )


def _method_name(name: str, entry: Mapping[str, Any]) -> MethodName:
    parameters = ", ".join(f"{key}={value!r}" for key, value in entry.get("parameters", {}).items())
    return MethodName(name, LABELS, f"{entry.get('estimator')}({parameters})")


def answers(asked: Mapping[str, Any], results: Results) -> tuple[Answer, ...]:
    """Return the answers to questions of the form "is one method better than others by a score?"."""
    return tuple(_answer(results, text, **question) for text, question in asked.items())


def _answer(results: Results, text: str, *, better: str, than: Sequence[str], by: str) -> Answer:
    found = duels(results, better, than, by)
    if not found:
        return Answer(text, "Cannot be answered", (f"There are no results for both {better} and {listed(than)}.",))
    counted = _counts(found)
    sentences = (_in_words(results, found, counted), *_too_few(found), _tested(found))
    return Answer(text, verdict(found), sentences, (duel_table(results, found),))


def _too_few(found: Sequence[Duel]) -> tuple[str, ...]:
    """Return a sentence if there are too few runs for a verdict."""
    n = fewest_runs(found)
    sentence = f"Each method has {n} run{'s' * (n > 1)}; a verdict needs at least {MIN_RUNS} (n_splits)."
    return (sentence,) if n < MIN_RUNS else ()


def _counts(found: Sequence[Duel]) -> tuple[int, int, int, int]:
    """Return the number of cases, and in how many the method is better, clearly better and clearly worse."""
    return (
        sum(len(item.gains) for item in found),
        sum(len(item.better) for item in found),
        sum(len(item.clearly_better) for item in found),
        sum(len(item.clearly_worse) for item in found),
    )


def verdict(found: Sequence[Duel]) -> str:
    """Return the answer in a few words, from the clear differences and the rank tests."""
    n, _, won, lost = _counts(found)
    if fewest_runs(found) < MIN_RUNS:
        return "Too few runs for a verdict"
    tested = [item for item in found if not item.comparison.problem]
    if won == n:
        doubt = any(not item.significant for item in tested)
        return "Yes in every case, but the rank test is not significant" if doubt else "Yes"
    if lost == n:
        return "No, clearly worse in every case"
    if won and lost:
        return "It depends"
    if won:
        return "In part"
    return "No" if lost else "No clear difference"


def _in_words(results: Results, found: Sequence[Duel], counted: tuple[int, int, int, int]) -> str:
    n, better, won, lost = counted
    names = listed(list(dict.fromkeys(results.label(item.other) for item in found)))
    return (
        f"By {SCORES[found[0].score].label}, {results.label(found[0].one)} is better than {names} in {better} of {n} "
        f"case{'' if n == 1 else 's'}, in {won} of them clearly; it is clearly worse in {lost}."
    )


def _tested(found: Sequence[Duel]) -> str:
    tested = [item for item in found if not item.comparison.problem]
    if not tested:
        return f"There is no rank test: {found[0].comparison.problem}."
    sure = sum(item.significant for item in tested)
    return (
        f"Ranks over datasets differ significantly (Friedman, then Nemenyi at 5%) in {sure} of {len(tested)} contests."
    )
