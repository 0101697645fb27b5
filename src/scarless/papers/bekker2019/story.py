"""What the page of the paper's experiment says beyond its numbers."""

from dataclasses import replace

from scarless.papers.bekker2019.corrections import corrections
from scarless.papers.bekker2019.deviations import deviations
from scarless.papers.bekker2019.methods import METHOD_NAMES
from scarless.papers.bekker2019.questions import QUESTIONS
from scarless.papers.bekker2019.spec import CONTESTS, FIGURES
from scarless.report import Chapter, Story, names
from scarless.report.results import Results


def _chapters(results: Results) -> tuple[Chapter, ...]:
    return corrections(results), deviations()


HERO = replace(
    names.METHOD_NAMES["sar-em"],
    explanation="The paper's method: classifier and propensity model, learned together.",
)
STORY = Story(
    whose="The experiment of the paper",
    citation="Jessa Bekker, Pieter Robberechts and Jesse Davis; ECML PKDD 2019. These are our results, not theirs.",
    method_names={**names.METHOD_NAMES, **METHOD_NAMES, "sar-em": HERO},
    contests=CONTESTS,
    ranked="Ranked are the four methods of the paper that see labels only, as corrected and as published.",
    figures=FIGURES,
    figures_title="The paper's figures",
    questions=QUESTIONS,
    chapters=_chapters,
)
