"""What a fit chose among: optima, candidates of a search, members of a stack."""

from typing import Any, NamedTuple

import numpy as np

from scarless.report.fit.data import Table
from scarless.report.fit.words import text

MOST = 12  # candidates shown


class Candidates(NamedTuple):
    """Why one was chosen, all of them as a table, and which shares of positives those have that do as well."""

    reason: str
    table: Table
    low: float
    high: float
    n: int


def candidates(inner: Any, level: float) -> Candidates | None:
    """Return what a fitted model chose among; None where there was no choice."""
    if hasattr(inner, "members_"):
        return _members(inner, level)
    if not hasattr(inner, "selection_"):
        return None
    return _searched(inner) if hasattr(inner, "cv_results_") else _optima(inner)


def _members(inner: Any, level: float) -> Candidates | None:
    members = inner.summary(level=level).members
    rows = tuple(
        (
            text(f"{each.name}, {each.attributes}" if each.attributes else each.name),
            float(each.class_prior),
            float(each.class_prior_interval.low),
            float(each.class_prior_interval.high),
            float(each.log_likelihood),
        )
        for each in members
    )
    head = ("model", "positives", "from", "to", "log-likelihood of held-out labels, per row")
    table = Table("The models that were averaged", head, ("text", "share", "share", "share", "number"), rows)
    priors = [row[1] for row in rows[:-1]]
    if len(priors) < 2:
        return None
    return Candidates("", table, min(priors), max(priors), len(priors))


def _searched(inner: Any) -> Candidates:
    results, chosen = inner.cv_results_, inner.selection_
    tied = np.flatnonzero(results["tied"])
    order = sorted(tied, key=lambda i: (i not in chosen.members, -results["mean_test_score"][i]))
    rows = tuple(
        (
            text(results["param_attributes"][i]),
            float(results["param_C"][i]),
            float(results["param_propensity_C"][i]),
            float(results["class_prior"][i]),
            float(results["mean_test_score"][i]),
            "yes" if i in chosen.members else "",
        )
        for i in order[:MOST]
    )
    head = ("classifier sees", "C", "C of the labelling", "positives", "held-out log-likelihood, per row", "taken")
    more = f"; the first {MOST} of {tied.size}" if tied.size > MOST else ""
    caption = f"Candidates that held-out labels cannot tell from the best{more}"
    table = Table(caption, head, ("text", "number", "number", "share", "number", "text"), rows)
    priors = results["class_prior"][tied]
    return Candidates(str(chosen.reason), table, float(priors.min()), float(priors.max()), int(tied.size))


def _optima(inner: Any) -> Candidates:
    chosen, basins = inner.selection_, inner.basins_
    rows = tuple(
        (
            text(", ".join(basin.starts)),
            float(basin.class_prior),
            float(basin.label_frequency),
            float(chosen.behind[i]),
            "yes" if i in chosen.members else "",
        )
        for i, basin in enumerate(basins[:MOST])
    )
    head = ("found from", "positives", "of them labelled", "behind the best, in log-likelihood", "taken")
    table = Table("The fits that were found", head, ("text", "share", "share", "number", "text"), rows)
    low, high = chosen.class_priors
    return Candidates(str(chosen.reason), table if len(rows) > 1 else Table("", (), (), ()), low, high, chosen.n_tied)
