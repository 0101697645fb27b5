"""What is to be said of an experiment beyond its numbers: whose it is, what it asks, and what its readers must know."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scarless.report.names import MAIN_SCORES, METHOD_NAMES
from scarless.report.results import Results
from scarless.report.tables import Table


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
