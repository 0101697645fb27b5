"""What is to be said of an experiment beyond its numbers: whose it is, what it asks, and what its readers must know.

A specification may tell its own story: what its methods are, and whether one is better than others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from scarless.outside.notices import listed
from scarless.report.names import LABELS, MAIN_SCORES, METHOD_NAMES, SCORES, MethodName
from scarless.report.results import FEWEST_RUNS, Duel, Record, Results, duels, fewest_runs
from scarless.report.tables import Table, duel_table

TITLE = "Answers to the questions"
NOTE = (
    "The words follow from the numbers by fixed rules. A case is a dataset, a condition and a method to be compared "
    "with. A difference is clear if its 95% interval over the runs of a dataset, paired by split and labelling, leaves "
    "out zero. Gains are positive where the first method is better. Ranks and tests take the mean of a dataset's runs "
    "as one observation."
)


@dataclass(frozen=True)
class Answer:
    """A question, a verdict of a few words, and what it rests on."""

    question: str
    verdict: str
    paragraphs: tuple[str, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Questions:
    """What an experiment asks: `answers` computes the answers from its results."""

    title: str
    note: str
    answers: Callable[[Results], tuple[Answer, ...]]


@dataclass(frozen=True)
class Point:
    """One entry of a list, which may begin with words that stand out; what is between backticks is code."""

    text: str
    lead: str = ""


@dataclass(frozen=True)
class Points:
    """Entries under a title; without one if it is empty."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Chapter:
    """A part of the page after the tables: a note, lists, tables. `anchor` is its name in links, `name` in the menu."""

    anchor: str
    name: str
    title: str
    note: str = ""
    lists: tuple[Points, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Story:
    """What a page adds to the numbers of an experiment; by default nothing, which suits any experiment.

    `whose` is what the experiment is called above the title, `citation` stands behind that, `figures` are the scores
    that are drawn, `contests` the methods that are ranked against each other and `ranked` the sentence that says which
    these are; by default all that see labels only.
    """

    whose: str = "An experiment"
    citation: str = ""
    method_names: dict[str, Any] = field(default_factory=lambda: dict(METHOD_NAMES))  # to `MethodName`
    contests: dict[str, Any] | None = None  # to names of methods
    ranked: str = "Ranked are the methods that see labels only."
    figures: tuple[str, ...] = MAIN_SCORES
    figures_title: str = "Figures"
    questions: Questions | None = None
    chapters: Any = None  # a function of the results that returns the page's chapters


# --- the story of a specification


def story_of_spec(spec: Record, base: Story) -> Story:
    """Return a story with the names of a specification's own methods, and with its questions."""
    own = {name: _method_name(name, said) for name, said in spec.get("own_methods", {}).items()}
    asked = spec.get("questions", {})
    questions = Questions(TITLE, NOTE, partial(answers, asked)) if asked else base.questions
    return replace(base, method_names={**base.method_names, **own}, questions=questions)


def _method_name(name: str, said: Mapping[str, Any]) -> MethodName:
    parameters = ", ".join(f"{key}={value!r}" for key, value in said.get("parameters", {}).items())
    return MethodName(name, LABELS, f"{said.get('estimator')}({parameters})")


def answers(asked: Mapping[str, Any], results: Results) -> tuple[Answer, ...]:
    """Return the answers to questions of the form: is one method better than others, by a score?"""
    return tuple(_answer(results, text, **question) for text, question in asked.items())


def _answer(results: Results, text: str, *, better: str, than: Sequence[str], by: str) -> Answer:
    found = duels(results, better, than, by)
    if not found:
        return Answer(text, "Cannot be answered", (f"There are no results of both {better} and {listed(than)}.",))
    counted = _counts(found)
    sentences = (_in_words(results, found, counted), *_too_few(found), _tested(found))
    return Answer(text, verdict(found), sentences, (duel_table(results, found),))


def _too_few(found: Sequence[Duel]) -> tuple[str, ...]:
    """Return a sentence where there are too few runs for a verdict."""
    n = fewest_runs(found)
    said = f"It rests on {n} run{'s' * (n > 1)} of each method; a verdict needs at least {FEWEST_RUNS} (n_splits)."
    return (said,) if n < FEWEST_RUNS else ()


def _counts(found: Sequence[Duel]) -> tuple[int, int, int, int]:
    """Return the number of cases; of those in which one is better, clearly better and clearly worse."""
    return (
        sum(len(item.gains) for item in found),
        sum(len(item.better) for item in found),
        sum(len(item.clearly_better) for item in found),
        sum(len(item.clearly_worse) for item in found),
    )


def verdict(found: Sequence[Duel]) -> str:
    """Return the answer in few words: by clear differences, and by the tests of ranks where there are any."""
    n, _, won, lost = _counts(found)
    if fewest_runs(found) < FEWEST_RUNS:
        return "Too few runs for a verdict"
    tested = [item for item in found if not item.comparison.problem]
    if won == n:
        doubt = any(not item.significant for item in tested)
        return "Yes in every case, but not by the test of ranks" if doubt else "Yes"
    if lost == n:
        return "No, the other way round"
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
        return f"There is no test of ranks: {found[0].comparison.problem}."
    sure = sum(item.significant for item in tested)
    return (
        f"Ranks over datasets differ significantly (Friedman, then Nemenyi at 5%) in {sure} of {len(tested)} contests."
    )
