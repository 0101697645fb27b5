"""The parts of a page's chapters: lists of sentences, tables and figures under a title."""

from dataclasses import dataclass

from scarless.report.figures import Figure
from scarless.report.tables import Table


@dataclass(frozen=True)
class Point:
    """One entry of a list, which may begin with bold words (`lead`); text between backticks is code."""

    text: str
    lead: str = ""


@dataclass(frozen=True)
class Points:
    """A list of entries under a title, which may be empty."""

    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Chapter:
    """A section of the page; `anchor` is its name in links, `name` its name in the menu.

    The tables in `details` are folded: the page shows their titles, and a reader opens them.
    """

    anchor: str
    name: str
    title: str
    note: str = ""
    lists: tuple[Points, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    details: tuple[tuple[str, Table], ...] = ()
    before_figures: bool = False  # else it comes at the end of the page
