"""The class prior that known propensities imply by themselves, beside the one that a classifier found."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.data.notices import warn_user

Vector = NDArray[np.float64]

_SMALLEST = 1e-290  # propensity whose inverse can be summed
_SQUARED = 1e50  # share whose square can be summed
_MARGIN, _ERRORS = 0.1, 3.0  # by which two class priors must differ, also in standard errors, to be told of

_MEMORISED = (
    "Estimators that memorise labels, as fully grown trees do, or that weight classes come out so. Limit max_depth or "
    "raise min_samples_leaf, leave class_weight out, or use PropensityWeightedClassifier(estimator, "
    "method='likelihood'), which judges rows by models that have not seen them (cross_fit=5)."
)
_CONTRADICTED = (
    "It is cross-fitted, so that labels learned by heart do not explain this. Check the propensities; if they are "
    "right, use an estimator that fits the labels better."
)


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


def warn_if_contradicted(found: float, implied: ImpliedPrior, name: str, *, crossed: bool) -> None:
    """Warn that the user's estimator finds another class prior than the propensities imply."""
    if abs(found - implied.possible) > max(_MARGIN, _ERRORS * implied.error):
        warn_user(
            f"{name}: the mean probability that its estimator gives the training rows is {found:.3f}, which is then "
            f"the class prior; the propensities imply {implied.possible:.3f}, the mean of s/e (standard error "
            f"{implied.error:.3f}). {_CONTRADICTED if crossed else _MEMORISED}",
            UserWarning,
        )
