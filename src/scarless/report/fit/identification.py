"""Sentences on whether the data determine the share of positives, for readers who do not use Python.

`IdentifiabilityReport.sentences` has the same results with the names of parameters, for users of Python.
"""

from collections.abc import Sequence

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
    "The estimate assumes that some rows are almost certainly positive. If even these rows are positive with a "
    "probability of only 80%, for example, the estimate is too high by a factor of up to 1.25 (1 / 0.8). The labels "
    "cannot show this. To check it, audit some of the rows with the highest class probability."
)
_MODELS = {CLASSIFIER: "class model", PROPENSITY: "labelling model"}


def identification_sentences(report: IdentifiabilityReport, labelled: float) -> list[str]:
    """Return what the data determine, and what they leave open; `labelled` is the number of labelled rows."""
    sentences = [_estimate(report), *map(_direction, report.directions), *_shared(report), *_collinear(report)]
    n = len(report.parameters)
    if labelled < MIN_LABELLED_PER_PARAMETER * n:
        sentences.append(
            f"There are {count(labelled)} labelled rows for {n} coefficients. With fewer than "
            f"{MIN_LABELLED_PER_PARAMETER:g} labelled rows for each coefficient, the intervals tend to be too short."
        )
    return [*sentences, CERTAIN_ROWS] if REACHES_ONE in report.notes else sentences


def _estimate(report: IdentifiabilityReport) -> str:
    own = f"{share(report.class_prior)} ({share_range(*report.class_prior_interval)})"
    if report.higher is not None:
        return (
            f"This fit is a local optimum, with {own} positives. Another start of the optimiser finds a better fit, "
            f"with {share(report.higher)} positives. All results of this report are for the first fit."
        )
    if report.swapped is not None:
        return (
            "The class model and the labelling model use the same columns. If the two models are swapped, the labels "
            f"fit equally well, and {share(report.swapped)} of rows are positive instead of {own}. To prevent a swap, "
            "name the columns that drive the labelling (--propensity)."
        )
    if report.verdict == "not identified":
        return (
            f"The estimate, {own}, depends on the functional form of the models and on the penalty on large "
            f"coefficients. The data alone are compatible with {share_range(*report.data_interval)} positives."
        )
    if report.verdict == CONTRADICTED:
        return (
            "The data determine the share of positives only if two assumptions hold: the log-odds of the class are "
            "linear in the columns, and the labelling depends only on the columns named for it. The labels contradict "
            f"these assumptions, so the estimate, {own}, may be far off."
        )
    return (
        f"The estimated share of positives is {own}. The models penalise large coefficients; without this penalty, the "
        f"interval would be about {share_range(*report.data_interval)}."
    )


def _direction(direction: Direction) -> str:
    """Return a sentence on a combination of coefficients that changes the share of positives."""
    effect = (
        "Only the penalty on large coefficients limits the share of positives here."
        if direction.class_prior_error >= 1.0
        else "This uncertainty alone gives the share of positives a standard error of "
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
        fewer = ", of which a smaller share is labelled," if direction.lowers_label_frequency else ""
        fits = "equally well" if none else "almost as well" if hardly else "only slightly worse"
        others = [each for each in direction.parts if not each.is_intercept]
        also = f" if the effects of {_named(others)} change accordingly" if others else ""
        return f"A model with more positives{fewer} fits the labels {fits}{also}."
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


def _collinear(report: IdentifiabilityReport) -> list[str]:
    """Return sentences on coefficients without information, on which no prediction depends."""
    sentences = []
    for direction in report.harmless[:MAX_SETS_SHOWN]:
        names = _named(direction.parts)
        if len(direction.parts) == 1:
            sentences.append(f"{_capital(names)} is probably constant. Predictions do not depend on it.")
        else:
            sentences.append(
                f"{_capital(names)} are collinear, so the data do not determine their single effects. Predictions "
                "are not affected."
            )
    more = len(report.harmless) - MAX_SETS_SHOWN
    return [*sentences, f"There are {more} more sets of collinear or constant columns."] if more > 0 else sentences


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
