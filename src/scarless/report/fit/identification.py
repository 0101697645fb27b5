"""Sentences on whether the data determine the share of positives, for readers who do not use Python.

`IdentifiabilityReport.sentences` has the same results with the names of parameters, for users of Python.
"""

from collections.abc import Mapping, Sequence

from scarless.diagnostics.uncertainty.directions import (
    CLASSIFIER,
    PROPENSITY,
    SMALL_EIGENVALUE,
    ZERO_EIGENVALUE,
    Direction,
    Parameter,
)
from scarless.diagnostics.uncertainty.identifiability import (
    CONTRADICTED,
    MIN_LABELLED_PER_PARAMETER,
    REPORTED_CORRELATION,
    IdentifiabilityReport,
)
from scarless.models.summary import REACHES_ONE
from scarless.outside.notices import listed
from scarless.report.words import count, share, share_range

MAX_NAMES = 6  # names in a sentence
MAX_SETS_SHOWN = 5  # sets of collinear columns
CERTAIN_ROWS = (
    "The estimate assumes that some rows are almost certainly positive. Suppose that only 80% of the rows that look "
    "most certainly positive really are. Then the estimate is too high, by a factor of up to 1.25 (1 / 0.8). The "
    "labels cannot show this error. To check for it, take the rows without a label that have the highest class "
    "probability (column 'probability' of the file of ranked rows), and find out whether they are positive. If clearly "
    "fewer than all of them are, the estimate is too high."
)
_MODELS = {CLASSIFIER: "class model", PROPENSITY: "labelling model"}


def identification_sentences(
    report: IdentifiabilityReport, labelled: float, *, columns: Mapping[str, str], level: float, recalibrated: bool
) -> list[str]:
    """Return what the data determine, and what they leave open.

    `labelled` is the number of labelled rows. `columns` maps the names of encoded columns to the columns of the table.
    `level` is the confidence level of the model's interval, and `recalibrated` says whether that interval comes from a
    grid of class priors.
    """
    sentences = [_estimate(report, _exact(report, level, recalibrated)), *map(_direction, report.directions)]
    sentences += [*_shared(report), *_collinear(report, columns)]
    n = len(report.parameters)
    if labelled < MIN_LABELLED_PER_PARAMETER * n:
        sentences.append(
            f"The models have {n} coefficients, and {count(labelled)} rows have a label. With fewer than "
            f"{MIN_LABELLED_PER_PARAMETER:g} labelled rows for each coefficient, the intervals tend to be too short."
        )
    return [*sentences, CERTAIN_ROWS] if REACHES_ONE in report.notes else sentences


def _exact(report: IdentifiabilityReport, level: float, recalibrated: bool) -> str:
    """Return a sentence on the interval that exact models would have, if it is shorter than that of the fit, or ""."""
    (low, high), (data_low, data_high) = report.class_prior_interval, report.data_interval
    if not recalibrated or level != report.level or data_high - data_low >= high - low:
        return ""
    return (
        f" If the models were exactly right, the interval would be about {share_range(data_low, data_high)}. The "
        "reported interval is wider, because models are never exactly right."
    )


def _estimate(report: IdentifiabilityReport, exact: str) -> str:
    own = f"{share(report.class_prior)} ({share_range(*report.class_prior_interval)})"
    if report.higher is not None:
        return (
            f"This fit, with {own} positives, is a local optimum. From another start, the optimiser finds a better "
            f"fit, with {share(report.higher)} positives. All results of this report are for the fit with "
            f"{share(report.class_prior)} positives."
        )
    if report.swapped is not None:
        return (
            "The class model and the labelling model use the same columns. If the two models are swapped, they fit the "
            f"labels equally well, and {share(report.swapped)} of rows are positive instead of {own}. To prevent a "
            "swap, name the columns that drive the labelling (--propensity)."
        )
    if report.verdict == "not identified":
        return (
            f"The estimate, {own}, depends on two assumptions: that the log-odds are linear in the columns, and that "
            "large coefficients are unlikely (the penalty). Without the penalty, the data are compatible with "
            f"{share_range(*report.data_interval)} positives."
        )
    if report.verdict == CONTRADICTED:
        return (
            "The data determine the share of positives only if two assumptions hold: the log-odds of being positive "
            "are linear in the columns, and the labelling depends only on the columns given with --propensity. The "
            f"labels contradict at least one of these assumptions, so the estimate, {own}, may be far off."
        )
    return f"The estimated share of positives is {own}.{exact}"


def _direction(direction: Direction) -> str:
    """Return a sentence on a combination of coefficients that changes the share of positives."""
    effect = (
        "In this respect, only the penalty on large coefficients limits the share of positives."
        if direction.class_prior_error >= 1.0
        else "This alone makes the share of positives uncertain, with a standard error of "
        f"{100.0 * direction.class_prior_error:.2g} percentage points."
    )
    return f"{_uncertainty(direction)} {effect}"


def _uncertainty(direction: Direction) -> str:
    none, hardly = direction.information < ZERO_EIGENVALUE, direction.information < SMALL_EIGENVALUE
    separate = "cannot separate" if none else "can hardly separate" if hardly else "can only roughly separate"
    if direction.shared:
        return _separated(direction.shared, separate)
    sides = [[each for each in direction.parts if each.model == model] for model in (CLASSIFIER, PROPENSITY)]
    if all(any(each.is_intercept for each in side) for side in sides):
        changes = ["a smaller share of the positives had a label"] * direction.lowers_label_frequency
        fits = "equally well" if none else "almost as well" if hardly else "only slightly worse"
        others = [each for each in direction.parts if not each.is_intercept]
        if others:
            effects = "effect" if len(others) == 1 else "effects"
            changes.append(f"the {effects} of {_named(others)} {'was' if len(others) == 1 else 'were'} different")
        return f"The labels would fit {fits} if {listed(['there were more positives', *changes])}."
    if all(sides):
        return f"The data {separate} the effects of {_named(sides[0])} from the effects of {_named(sides[1])}."
    return f"The data have {'no' if none else 'little'} information on the effects of {_named(direction.parts)}."


def _separated(columns: Sequence[str], separate: str) -> str:
    are, their = ("is", "its") if len(columns) == 1 else ("are", "their")
    return (
        f"{_capital(listed(list(columns), MAX_NAMES))} {are} in both models. The data {separate} {their} effect on the "
        f"class from {their} effect on the labelling."
    )


def _shared(report: IdentifiabilityReport) -> list[str]:
    """Return a sentence on columns of both models, unless a direction names them."""
    reported = {name for direction in report.directions for name in direction.shared}
    strong = {name: r for name, r in report.correlations.items() if r < REPORTED_CORRELATION and name not in reported}
    return [_separated(sorted(strong, key=lambda name: strong[name]), "can hardly separate")] if strong else []


def _collinear(report: IdentifiabilityReport, columns: Mapping[str, str]) -> list[str]:
    """Return sentences on coefficients without information, on which no prediction depends.

    For the categories of a column, the data determine the differences between coefficients, which the tables of odds
    ratios show.
    """
    sentences, others, categories = [], [], []
    for direction in report.harmless:
        models = {part.model for part in direction.parts}
        raw = {columns.get(part.attribute) for part in direction.parts}
        if len(direction.parts) > 1 and len(models) == len(raw) == 1 and None not in raw:
            categories.append(str(raw.pop()))
        else:
            others.append(direction)
    for direction in others[:MAX_SETS_SHOWN]:
        names = _named(direction.parts)
        if len(direction.parts) == 1:
            sentences.append(f"{_capital(names)} is probably constant. No prediction depends on it.")
        else:
            sentences.append(
                f"{_capital(names)} are collinear, so the data determine only their effect together, not the effect of "
                "each. No prediction depends on the separate effects."
            )
    more = len(others) - MAX_SETS_SHOWN
    if more > 0:
        sentences.append(f"There {'is 1 more set' if more == 1 else f'are {more} more sets'} of such columns.")
    if categories:
        sentences.append(
            f"For {listed(list(dict.fromkeys(categories)), MAX_NAMES)}, the data determine only the differences "
            "between categories. The tables of odds ratios show these differences. Predictions are not affected."
        )
    return sentences


def _named(parameters: Sequence[Parameter]) -> str:
    """Return the columns of parameters, grouped by model."""
    named = []
    for model, words in _MODELS.items():
        of_model = [each for each in parameters if each.model == model]
        names = ["the intercept" if each.is_intercept else each.attribute for each in of_model]
        named += [f"{listed(names, MAX_NAMES)} in the {words}"] if names else []
    return listed(named)


def _capital(words: str) -> str:
    """Return a beginning of a sentence; names of columns keep their case."""
    return f"The{words[3:]}" if words.startswith("the ") else words
