"""The class prior that known propensities imply by themselves, beside the one that a classifier found."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.rows import row_totals
from scarless.engines import Engine, Rows
from scarless.numerics.arrays import Vector
from scarless.numerics.namespace import at_least, at_most
from scarless.outside.notices import warn_user

# Effective labelled rows below which the propensity-weighted risk is not to be trusted: with 8 to 26 its ranking was
# below the naive model's in 8 of 8 runs, by up to .13 in AUC; with 64 to 77 by .02 at most; with 270 in none of 8.
MIN_EFFECTIVE_ROWS = 50
_SMALLEST = 1e-290  # propensity whose inverse can be summed
_SQUARED = 1e50  # share whose square can be summed
_MARGIN, _ERRORS = 0.1, 3.0  # by which two class priors must differ, also in standard errors, to be told of
_NEARLY_ALL, _MOSTLY = 0.95, 0.6  # rows that are positive, though not even so many are labelled

ADVICE = {
    "memorised": (
        "Estimators that memorise labels, as fully grown trees do, or that weight classes come out so; so do wrong "
        "propensities. Limit max_depth or raise min_samples_leaf, leave class_weight out, or use "
        "PropensityWeightedClassifier(estimator, method='likelihood'), which judges rows by models that have not seen "
        "them (cv=5)."
    ),
    "crossed": (
        "It is cross-fitted, so that labels learned by heart do not explain this. Check the propensities; if they are "
        "right, use an estimator that fits the labels better."
    ),
    "logistic": (
        "The propensities are wrong, the class is not logistic in the columns of X, or one of these gives the label "
        "away. Check both."
    ),
}


class ImpliedPrior(NamedTuple):
    r"""The weighted mean of :math:`s/e`, unbiased for the class prior where the propensities are right."""

    mean: float
    error: float  # standard error, with a weight as so many rows
    labelled: float  # labelled rows
    effective: float  # rows of equal weight that would tell as much as these with weights of s/e

    @property
    def possible(self) -> float:
        """The mean, or 1 where it means more positives than rows."""
        return min(self.mean, 1.0)


def shares(s: Vector, e: Vector) -> Vector:
    """Return ``s/e``; an estimated `e` may be 0 where there are no labels."""
    return s / at_least(e, _SMALLEST)


def implied_prior(engine: Engine) -> ImpliedPrior:
    """Return the class prior by propensities and labels alone. Rows: ``s``, ``e``, ``w``."""
    totals = row_totals(engine)
    weight = totals.weight
    mean, near = (float(each) for each in engine.total(_block_shares, weight))
    variance = float(engine.total(_block_variance, weight, near)[0])
    squares = variance + near**2
    effective = weight * near**2 / squares if squares > 0 else 0.0
    return ImpliedPrior(mean, float(np.sqrt(variance / weight)), float(totals.labelled), effective)


def _block_shares(X: Any, rows: Rows, weight: float) -> tuple[Any, Any]:
    share, part = shares(rows["s"], rows["e"]), rows["w"] / weight
    return part @ share, part @ at_most(share, _SQUARED)


def _block_variance(X: Any, rows: Rows, weight: float, mean: float) -> tuple[Any]:
    near = at_most(shares(rows["s"], rows["e"]), _SQUARED)
    return (rows["w"] / weight @ (near - mean) ** 2,)


def warn_of_prior(found: float, implied: ImpliedPrior, labelled_share: float, name: str, *, model: str) -> None:
    """Warn where a fit finds another class prior than the propensities imply, or these imply what cannot be."""
    excess = implied.mean - 1.0
    if excess > _ERRORS * implied.error or (excess > 0 and found > _NEARLY_ALL and labelled_share < _MOSTLY):
        warn_user(
            f"{name}: the propensities imply a class prior of {implied.mean:.3f}, the mean of s/e (standard error "
            f"{implied.error:.3f}): more positives than rows. They are too low for these labels, and the class prior "
            f"that was found with them, {found:.3f}, is too high. Check the propensities, or use SAREMClassifier to "
            "estimate them.",
            UserWarning,
        )
    elif abs(found - implied.possible) > max(_MARGIN, _ERRORS * implied.error):
        warn_user(
            f"{name}: the mean probability that its classifier gives the training rows is {found:.3f}, which is then "
            f"the class prior; the propensities imply {implied.possible:.3f}, the mean of s/e (standard error "
            f"{implied.error:.3f}). {ADVICE[model]}",
            UserWarning,
        )


def warn_of_few_effective(implied: ImpliedPrior, name: str, *, remedy: str) -> None:
    """Warn where a few labelled rows with small propensities decide a propensity-weighted risk."""
    if implied.effective < MIN_EFFECTIVE_ROWS and implied.effective < implied.labelled / 2:
        warn_user(
            f"{name}: small propensities give a few labelled rows most of the weight. The {implied.labelled:g} "
            f"labelled rows tell as much as {implied.effective:.0f} of equal weight; with fewer than "
            f"{MIN_EFFECTIVE_ROWS} class prior and ranking depend on chance. {remedy}",
            UserWarning,
        )
