"""Texts of the page of the paper's experiment: the effect of corrections, and deviations from the paper."""

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files

from scarless.papers.bekker2019.methods import CONTESTS, FIGURES, METHOD_NAMES
from scarless.papers.bekker2019.questions import QUESTIONS
from scarless.report import Story, names
from scarless.report.chapters import Chapter, Point, Points
from scarless.report.names import SCORES, dataset_label
from scarless.report.results import Duel, Results, duels
from scarless.report.tables import Section, Table, TableCell, section
from scarless.report.words import NO_VALUE, signed, with_half

CORRECTED_AND_PUBLISHED = (
    ("known-e", "published-known-e"),
    ("scar-tice", "published-scar-tice"),
    ("scar-km2", "published-scar-km2"),
    ("sar-em", "published-sar-em"),
    ("sar-em-refit", "published-sar-em"),
)
NOTE = (
    "The code published with the paper drops rows of negative weight, returns the share of labelled rows for TIcE, and "
    "uses KM2's class prior as the label frequency. Each corrected method is compared with an emulation of that code; "
    "gains are positive if the correction helps."
)
PAPER_METHOD_NAME = replace(
    names.METHOD_NAMES["sar-em"],
    explanation="The paper's method: classifier and propensity model, fitted together.",
)


def corrections(results: Results) -> Chapter:
    """Return the chapter that compares each corrected method with the published one."""
    sentences, sections, details = [], [], []
    for one, other in CORRECTED_AND_PUBLISHED:
        by_score = {score: duels(results, one, (other,), score) for score in results.scores(FIGURES)}
        by_score = {score: found for score, found in by_score.items() if found}
        if by_score:
            heading = f"{results.label(one)} compared with {results.label(other)}"
            sections.append(section(heading, [_score_row(score, found) for score, found in by_score.items()]))
        if "mse_f" in by_score:
            sentences.append(_sentence(results, one, other, by_score))
            details.append(_by_dataset(results, heading, by_score["mse_f"]))
    if not sections:
        return _chapter((), ())
    head = ("score", "cases", "better", "clearly better", "clearly worse", "mean gain")
    first = Table("Corrected compared with published, over all datasets and conditions", head, tuple(sections))
    conditions = [condition.label for condition in results.conditions]
    second = Table("Gain in MSE of f by dataset; bold: clear differences", ("dataset", *conditions), tuple(details))
    return _chapter(sentences, (first, second) if details else (first,))


def _chapter(sentences: Sequence[str], tables: tuple[Table, ...]) -> Chapter:
    lists = (Points("", tuple(map(Point, sentences))),) if sentences else ()
    return Chapter("corrections", "Corrections", "What the corrections change", NOTE, lists, tables)


def _sentence(results: Results, one: str, other: str, by_score: dict[str, list[Duel]]) -> str:
    found = by_score["mse_f"]
    better, worse = (sum(map(len, items)) for items in _clear(found))
    gain, cases = _mean_gain(found), sum(len(item.gains) for item in found)
    lead = (
        f"{results.label(one)}, compared with {results.label(other)}: the mean MSE of f is "
        f"{'lower' if gain > 0 else 'higher'} by {abs(gain):.4f} over {cases} cases (dataset and condition)"
    )
    clear = (
        f"it is clearly lower in {better} and clearly higher in {worse}"
        if better or worse
        else "the difference is clear in none of them"
    )
    area = f" The mean ROC-AUC changes by {signed(_mean_gain(by_score['auc_f']), 3)}." if "auc_f" in by_score else ""
    return f"{lead[0].upper()}{lead[1:]}; {clear}.{area}"


def _clear(found: Sequence[Duel]) -> tuple[list[list[str]], list[list[str]]]:
    return [item.clearly_better for item in found], [item.clearly_worse for item in found]


def _mean_gain(found: Sequence[Duel]) -> float:
    gains = [gain.mean for item in found for gain in item.gains.values()]
    return sum(gains) / len(gains)


def _score_row(score: str, found: Sequence[Duel]) -> list[str]:
    gains = [gain for item in found for gain in item.gains.values()]
    if all(gain.mean == 0 and not gain.clear for gain in gains):
        return [SCORES[score].label, str(len(gains)), "the same", NO_VALUE, NO_VALUE, NO_VALUE]
    better, worse = _clear(found)
    counts = [sum(len(item.better) for item in found), sum(map(len, better)), sum(map(len, worse))]
    return [SCORES[score].label, str(len(gains)), *map(str, counts), signed(_mean_gain(found), SCORES[score].decimals)]


def _by_dataset(results: Results, heading: str, found: Sequence[Duel]) -> Section:
    by_condition = {item.condition: item.gains for item in found}
    rows = []
    for dataset in results.datasets:
        gains = [by_condition.get(condition, {}).get(dataset) for condition in results.conditions]
        cells = [
            TableCell(NO_VALUE) if gain is None else TableCell(with_half(gain, 4, sign=True), gain.clear)
            for gain in gains
        ]
        rows.append([TableCell(dataset_label(dataset)), *cells])
    return section(heading, rows)


def deviations() -> Chapter:
    """Return the chapter of deviations, which is read from DEVIATIONS.md."""
    return read_chapter(files(__package__).joinpath("DEVIATIONS.md").read_text(encoding="utf-8"))


def read_chapter(text: str) -> Chapter:
    r"""Return the chapter of a Markdown text with a title, a paragraph, and sections of points with bold beginnings.

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


def _chapters(results: Results) -> tuple[Chapter, ...]:
    return corrections(results), deviations()


STORY = Story(
    whose="The experiment of the paper",
    citation="Jessa Bekker, Pieter Robberechts and Jesse Davis; ECML PKDD 2019. These are our results, not theirs.",
    method_names={**names.METHOD_NAMES, **METHOD_NAMES, "sar-em": PAPER_METHOD_NAME},
    contests=CONTESTS,
    ranked="The ranking compares the paper's four methods that use labels only, as corrected and as published.",
    figures=FIGURES,
    figures_title="The paper's figures",
    questions=QUESTIONS,
    chapters=_chapters,
)
