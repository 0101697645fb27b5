"""The class prior that known propensities imply by themselves, beside the one that a classifier found."""

from typing import NamedTuple

import numpy as np

from scarless.numerics.arrays import Vector
from scarless.outside.notices import warn_user

_SMALLEST = 1e-290  # propensity whose inverse can be summed
_SQUARED = 1e50  # share whose square can be summed
_MARGIN, _ERRORS = 0.1, 3.0  # by which two class priors must differ, also in standard errors, to be told of
_NEARLY_ALL, _MOSTLY = 0.95, 0.6  # rows that are positive, though not even so many are labelled

ADVICE = {
    "memorised": (
        "Estimators that memorise labels, as fully grown trees do, or that weight classes come out so; so do wrong "
        "propensities. Limit max_depth or raise min_samples_leaf, leave class_weight out, or use "
        "PropensityWeightedClassifier(estimator, method='likelihood'), which judges rows by models that have not seen "
        "them (cross_fit=5)."
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

    @property
    def possible(self) -> float:
        """The mean, or 1 where it means more positives than rows."""
        return min(self.mean, 1.0)


def shares(s: Vector, e: Vector) -> Vector:
    """Return ``s/e``; an estimated `e` may be 0 where there are no labels."""
    return s / np.maximum(e, _SMALLEST)


def implied_prior(s: Vector, e: Vector, w: Vector) -> ImpliedPrior:
    """Return the class prior by propensities and labels alone."""
    share, total = shares(s, e), float(w.sum())
    part, near = w / total, np.minimum(share, _SQUARED)
    variance = float(part @ (near - part @ near) ** 2)
    return ImpliedPrior(float(part @ share), float(np.sqrt(variance / total)))


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
