"""Experiments of papers: each has one place for what belongs to it alone, above all that serves any experiment."""

from pathlib import Path

from scarless.experiments import Store, methods
from scarless.papers import bekker2019
from scarless.report import Story, names, render_report
from scarless.report.story import story_of_spec

__all__ = ["METHODS", "PLAIN", "render_results", "story_of"]

METHODS = {**methods.METHODS, **bekker2019.METHODS}
PLAIN = Story(method_names={**names.METHOD_NAMES, **bekker2019.METHOD_NAMES})


def story_of(digest: str) -> Story:
    """Return the story of the paper whose experiment this is the digest of; a plain one for any other experiment.

    A digest leaves out which datasets are run, so that a part of a paper's experiment is still the paper's; whatever
    else is changed makes it another experiment, of which a page claims nothing.

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
    """Write the page of an experiment's results, with the story of the paper if it is a paper's; return its path.

    Any other experiment's page has the questions of its specification.
    """
    manifest = Store(folder).manifest()
    return render_report(folder, story=story_of_spec(manifest["spec"], story_of(manifest["digest"])))
