"""How wrong the labelling would have to be for what the report says to fall."""

from typing import Any

import numpy as np

from scarless.diagnostics import Sensitivity
from scarless.report.fit.data import Picture, Table
from scarless.report.fit.subject import Subject
from scarless.report.fit.words import ratio, share, share_range

FACTORS = (1.5, 2.0, 3.0, 5.0)
GAMMAS = tuple(float(gamma) for gamma in np.geomspace(1.0, 5.0, 17))
_RTOL = 1e-3
_FIRM = 2.0  # factor within which a wrong labelling matters no more than chance, for the answer to be firm


def sensitivity(subject: Subject) -> tuple[str, str, tuple[str, ...], Picture, tuple[Table, ...]]:
    """Return status, verdict, details, a picture and a table of the share of positives."""
    rows = _of(subject)
    curve = rows.curve("class_prior", gammas=np.array(GAMMAS))
    bounds = tuple((gamma, *map(float, rows.at(gamma).class_prior)) for gamma in FACTORS)
    table = Table(
        "Share of positives, if the odds of getting a label are wrong by at most a factor",
        ("factor", "at least", "at most"),
        ("number", "share", "share"),
        bounds,
    )
    fitted = float(curve.estimate)
    factor, of_interval = _of_interval(subject, rows, fitted)
    status = "good" if factor >= _FIRM else "open"
    low, high = bounds[1][1:]
    verdict = (
        f"If the odds of getting a label are wrong by a factor of 2, {share_range(low, high)} of rows are positive."
    )
    picture = Picture(
        kind="sensitivity",
        title="Share of positives, by how wrong the labelling may be",
        description=(
            f"A band that widens from {share(fitted)} at a factor of 1 to {share_range(*bounds[-1][1:])} at a factor "
            f"of {FACTORS[-1]:g}."
        ),
        x_label="factor on the odds of getting a label",
        y_label="share of positives",
        x=GAMMAS,
        y=(fitted,) * len(GAMMAS),
        low=tuple(map(float, curve.low)),
        high=tuple(map(float, curve.high)),
    )
    details = (
        *(line for line in (of_interval, _of_labelled(rows)) if line),
        "Bounds hold whatever the labelling depends on, within that factor; a factor of 2 takes a chance of 50% to "
        "somewhere from 33 to 67%. The error of estimating the chance of a label itself is not in them.",
    )
    return status, verdict, details, picture, (table,)


def _of(subject: Subject) -> Sensitivity:
    given: dict[str, Any] = {} if subject.propensity is None else {"propensity": subject.propensity}
    return Sensitivity.from_estimator(
        subject.inner, subject.prepared, subject.labels, sample_weight=subject.weights, **given
    )


def _of_interval(subject: Subject, rows: Sensitivity, fitted: float) -> tuple[float, str]:
    """Return from which factor on a wrong labelling may matter more than chance, and a sentence."""
    try:
        low, high = subject.prior_interval()
    except (AttributeError, ValueError, TypeError):  # a model that knows no interval
        return 1.0, ""
    if not low < fitted < high:
        return 1.0, ""
    ends = [
        rows.tipping_point("class_prior", at_least=low, rtol=_RTOL).gamma,
        rows.tipping_point("class_prior", at_most=high, rtol=_RTOL).gamma,
    ]
    if not np.isfinite(min(ends)):
        return np.inf, ""
    return float(min(ends)), (
        f"From a factor of {ratio(min(ends))} on, a wrong labelling may take the share of positives out of its "
        f"interval, {share_range(low, high)}: beyond, it may matter more than chance."
    )


def _of_labelled(rows: Sensitivity) -> str:
    """Say how wrong the labelling may be before most positives have a label."""
    found = rows.tipping_point("label_frequency", at_most=0.5, rtol=_RTOL)
    if found.gamma <= 1.0:
        return ""
    most = f"Most positives have no label ({share(1.0 - found.estimate)} expected)"
    if not np.isfinite(found.gamma):
        return f"{most}, whatever the factor."
    return f"{most}, unless the odds are wrong by a factor of more than {ratio(found.gamma)}."
