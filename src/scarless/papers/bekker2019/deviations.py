"""Where this reproduction differs from the paper, and why: DEVIATIONS.md, as a chapter of the page."""

import re
from importlib.resources import files

from scarless.report.story import Chapter, Point, Points


def deviations() -> Chapter:
    """Return the document beside this module, which is the only place where deviations are written."""
    return read_chapter(files(__package__).joinpath("DEVIATIONS.md").read_text(encoding="utf-8"))


def read_chapter(text: str) -> Chapter:
    r"""Read a title, a paragraph, and sections of points of which each begins with words in bold.

    Examples
    --------
    >>> chapter = read_chapter("# Why\n\nA note\nof two lines.\n\n## One\n\n- **This.** Since\n  that.\n")
    >>> chapter.note, chapter.lists
    ('A note of two lines.', (Points(title='One', points=(Point(text='Since that.', lead='This.'),)),))
    """
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, note = head.removeprefix("# ").partition("\n")
    lists = tuple(_points(section) for section in sections)
    return Chapter("deviations", "Differences from the paper", title, " ".join(note.split()), lists)


def _points(section: str) -> Points:
    title, _, body = section.partition("\n")
    entries = [" ".join(entry.split()) for entry in re.split(r"^- ", body, flags=re.MULTILINE)[1:]]
    return Points(title, tuple(Point(rest, lead) for lead, rest in map(_split_lead, entries)))


def _split_lead(entry: str) -> tuple[str, str]:
    lead, _, rest = entry.removeprefix("**").partition("**")
    return lead, rest.strip()
