"""The experiments of papers: for each paper, its specification, methods, questions and texts."""

from pathlib import Path

from scarless.experiments import Store, methods
from scarless.papers import bekker2019
from scarless.report import Story, names, render_report
from scarless.report.story import story_of_spec

__all__ = ["METHODS", "PLAIN", "render_results", "story_of"]

METHODS = {**methods.METHODS, **bekker2019.METHODS}
PLAIN = Story(method_names={**names.METHOD_NAMES, **bekker2019.METHOD_NAMES})


def story_of(digest: str) -> Story:
    """Return the story of the paper whose experiment has this digest, or a plain story for any other experiment.

    The digest does not depend on the datasets, so a run on some of a paper's datasets still has the paper's story. Any
    other change of the specification gives another digest.

    Examples
    --------
    >>> story_of(bekker2019.specification().digest).whose
    'The experiment of the paper'
    >>> story_of("0123456789ab").whose
    'An experiment'
    """
    of_paper = {bekker2019.specification(quick=quick).digest for quick in (False, True)}
    return bekker2019.STORY if digest in of_paper else PLAIN


def render_results(folder: str | Path) -> Path:
    """Write the page of an experiment's results, and return its path.

    The page of a paper's experiment has the story of the paper; other pages have the questions of the specification.
    """
    manifest = Store(folder).manifest()
    return render_report(folder, story=story_of_spec(manifest["spec"], story_of(manifest["digest"])))
