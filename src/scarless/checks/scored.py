"""Labels and predictions of the same rows, in scikit-learn's order: labels first."""

from collections.abc import Callable

import numpy as np

from scarless.checks.vectors import check_indicator, check_probability, check_vector
from scarless.numerics.arrays import ArrayLike, Vector


def check_scored(
    labels: ArrayLike,
    y_pred: ArrayLike,
    *,
    name: str = "s",
    check_predictions: Callable[..., Vector] = check_probability,
) -> tuple[Vector, Vector]:
    """Return labels as 0 and 1, and the predictions of as many rows; where the two are swapped, say so.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Two-valued: observed labels, or the true class.
    y_pred : array-like of shape (n,)
        Predictions.
    name : str
        What errors call the labels.
    check_predictions : callable
        Check of the predictions, called with them and ``name="y_pred"``.

    Examples
    --------
    >>> check_scored([1, 0], [0.9, 0.2])
    (array([1., 0.]), array([0.9, 0.2]))
    >>> check_scored([0.9, 0.2], [1, 0])
    Traceback (most recent call last):
    ...
    ValueError: s must be binary, ...; its values are 0.2, 0.9. Labels come first and predictions second: ...
    """
    values = check_vector(labels, name)
    try:
        s = check_indicator(values, name)
    except ValueError as error:
        if np.isnan(values).any() or not _two_valued(y_pred):
            raise
        raise ValueError(
            f"{error} Labels come first and predictions second: y_pred is binary here, as labels are, so the two may "
            "be the wrong way round."
        ) from error
    p = check_predictions(y_pred, name="y_pred")
    return check_vector(s, name, n_rows=p.size), p


def _two_valued(values: ArrayLike) -> bool:
    try:
        check_indicator(values, "y_pred")
    except ValueError:
        return False
    return True
