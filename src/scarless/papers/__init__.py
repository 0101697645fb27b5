"""The experiments of papers, and the comparison of the field: specifications, methods, questions and texts."""

from pathlib import Path
from typing import Any

from scarless.experiments import Store, methods
from scarless.papers import bekker2019, field, teisseyre2025
from scarless.report import Story, names, render_report
from scarless.report.story import story_of_spec

__all__ = ["EXPERIMENTS", "METHODS", "PLAIN", "render_results", "story_of"]

EXPERIMENTS: dict[str, Any] = {"bekker2019": bekker2019, "teisseyre2025": teisseyre2025, "field": field}
METHODS = {**methods.METHODS, **bekker2019.METHODS, **field.METHODS}
PLAIN = Story(
    method_names={
        **names.METHOD_NAMES,
        **bekker2019.METHOD_NAMES,
        **{name: field.METHOD_NAMES[name] for name in field.METHODS},
    }
)


def story_of(digest: str) -> Story:
    """Return the story of the experiment that has this digest, or a plain story for any other experiment.

    The digest does not depend on the datasets, so a run on some of the datasets still has the story. Any other change
    of the specification gives another digest.

    Examples
    --------
    >>> story_of(bekker2019.specification().digest).whose
    'The experiment of the paper'
    >>> story_of("0123456789ab").whose
    'An experiment'
    """
    for experiment in EXPERIMENTS.values():
        if digest in {experiment.specification(quick=quick).digest for quick in (False, True)}:
            story: Story = experiment.STORY
            return story
    return PLAIN


def render_results(folder: str | Path) -> Path:
    """Write the page of an experiment's results, and return its path.

    The page of a paper's experiment has the story of the paper; other pages have the questions of the specification.
    """
    manifest = Store(folder).manifest()
    return render_report(folder, story=story_of_spec(manifest["spec"], story_of(manifest["digest"])))
