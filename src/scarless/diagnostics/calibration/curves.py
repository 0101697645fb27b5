r"""Calibration of predicted probabilities of the label and of the class.

Use rows that the model was not fitted on: on its training rows, a model looks better calibrated than it is.

The null hypothesis is that the predicted probabilities are exactly right, without estimation error. With as many rows
as in the fit, or more, even a model of the right form is therefore rejected too often; with many more rows, it is
nearly always rejected. To judge how large the error is, compare `error` with `expected_error`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.options import check_choice, check_counts, check_propensity, check_scored, check_share, check_whole
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.uncertainty import quantile
from scarless.numerics.weighted_scores import (
    binned,
    calibration_error,
    chi_square,
    equal_counts,
    equal_widths,
    score_interval,
)
from scarless.outside.extras import need

STRATEGIES = ("quantile", "uniform")


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """Predicted and observed shares in bins, and a test of all bins together.

    Attributes
    ----------
    predicted, observed : arrays of shape (n_bins,)
        Mean prediction and observed share of each bin that contains rows, in ascending order of prediction.
    low, high : arrays of shape (n_bins,)
        Confidence interval of the share in each bin.
    n_rows : array of shape (n_bins,)
        Number of rows in each bin, or the sum of their weights.
    level : float
        Confidence level of each interval.
    error : float
        Calibration error: the mean absolute difference between predicted and observed share, weighted by rows.
    expected_error : float
        Mean calibration error if the predictions are right. It is above 0 because observed shares are random.
    statistic, degrees_of_freedom, p_value : float, int, float
        Chi-square test that the predictions are right. A small p-value is evidence against the predictions. With about
        as many rows as in the fit, the test also detects the estimation error of the fit; judge the size of the
        error by `error` minus `expected_error`.
    """

    predicted: Vector
    observed: Vector
    low: Vector
    high: Vector
    n_rows: NDArray[np.intp] | Vector
    level: float
    error: float
    expected_error: float
    statistic: float
    degrees_of_freedom: int
    p_value: float

    def to_frame(self) -> Any:
        """Return the bins as a pandas data frame, one row for each bin."""
        names = ("predicted", "observed", "low", "high", "n_rows")
        return need("pandas", "to_frame", extra="frames").DataFrame({name: getattr(self, name) for name in names})

    def __str__(self) -> str:
        return (
            f"calibration error {self.error:.4f} ({self.expected_error:.4f} expected by chance), "
            f"chi-square {self.statistic:.1f} on {self.degrees_of_freedom} degrees of freedom, p = {self.p_value:.3g}"
        )

    __repr__ = __str__


def label_calibration(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
    level: float = 0.95,
) -> Calibration:
    r"""Compare the predicted probability of a *label*, :math:`f(x)\,e(x)`, with the share of labelled rows.

    The label is observed, so this comparison needs no assumptions. The test cannot detect errors of `f` and `e` that
    cancel in their product, such as `f` twice as large as the truth and `e` half as large. Nor can it detect that the
    rows of a bin differ more than their predictions do: a constant prediction with the right mean is calibrated. To
    detect such differences, compare `observed_log_likelihood` between models.

    Intervals are Wilson's. The test sums the squared standardised differences of the bins, with the variance
    :math:`\sum P(1-P)` that the predictions imply. If fewer than one labelled row, or fewer than one unlabelled row, is
    expected in a bin, the bin is merged with its neighbour. The p-value allows for bins with few labels.

    Parameters
    ----------
    s : array-like of shape (n,)
        Observed labels: 1 for labelled rows, 0 for unlabelled rows.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class, `f`.
    propensity : float or array-like of shape (n,)
        Predicted propensity `e` of each row, in (0, 1].
    sample_weight : array-like of shape (n,), optional
        Weight of each row; 1 by default. Weights are counts, as in `fit`: a row of weight 2 counts as two rows. Divide
        other weights, such as inverse sampling probabilities, by ``sum(w**2) / sum(w)``; without this, the p-value is
        wrong.
    n_bins : int, default=10
        Number of bins; bins without rows are left out.
    strategy : {"quantile", "uniform"}, default="quantile"
        "quantile": bins with equal numbers of rows. "uniform": bins of equal width between the lowest and the highest
        prediction.
    level : float in (0, 1), default=0.95
        Confidence level.

    Returns
    -------
    Calibration

    References
    ----------
    Wilson (1927), JASA 22. Hosmer and Lemeshow (1980), Communications in Statistics A 9. Brocker and Smith (2007),
    "Increasing the reliability of reliability diagrams", Weather and Forecasting 22.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> f, e = rng.uniform(size=(2, 5000))
    >>> s = rng.uniform(size=5000) < f * e
    >>> print(label_calibration(s, f, propensity=e))
    calibration error 0.0100 (0.0125 expected by chance), chi-square 5.2 on 10 degrees of freedom, p = 0.876
    >>> label_calibration(s, f, propensity=np.sqrt(e)).p_value < 0.001
    True
    """
    labels, f, e, w = check_calibration_rows(s, y_pred, propensity, sample_weight)
    return _calibration(f * e, np.ones_like(e), labels, w, n_bins, strategy, level)


def class_calibration(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 10,
    strategy: str = "quantile",
    level: float = 0.95,
) -> Calibration:
    r"""Compare the predicted probability of the *class*, :math:`f(x)`, with the mean of :math:`s/e` in bins of `f`.

    The comparison is valid if the propensity is right, because then :math:`\mathrm E[s/e \mid x] = f(x)`. If `f` and
    `e` come from the same model, errors that cancel in the product are not detected; they are detected if `propensity`
    is known from another source.

    The interval of a bin contains the shares :math:`p` with :math:`(\bar h - p)^2 \le z^2 p(v-p)/n`, where
    :math:`\bar h` is the mean of :math:`s/e` in the bin and :math:`v` the mean of :math:`1/e` over the positives of the
    bin. For :math:`e=1`, this is Wilson's interval. Shares and intervals can exceed 1.

    Parameters
    ----------
    s, y_pred, propensity, sample_weight, n_bins, strategy, level
        See `label_calibration`.

    Returns
    -------
    Calibration

    References
    ----------
    Horvitz and Thompson (1952), JASA 47. Wilson (1927), JASA 22.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> f, e = rng.uniform(size=5000), rng.uniform(0.2, 0.8, size=5000)
    >>> s = rng.uniform(size=5000) < f * e
    >>> class_calibration(s, f, propensity=e).p_value > 0.05
    True
    >>> class_calibration(s, np.sqrt(f), propensity=e).p_value < 0.001
    True
    """
    labels, f, e, w = check_calibration_rows(s, y_pred, propensity, sample_weight)
    return _calibration(f, e, labels, w, n_bins, strategy, level)


class CalibrationRows(NamedTuple):
    """Labels, predictions, propensities and weights of rows with a positive weight; `w` is None without weights."""

    s: Vector
    f: Vector
    e: Vector
    w: Vector | None


def check_calibration_rows(
    s: ArrayLike, y_pred: ArrayLike, propensity: ArrayLike, sample_weight: ArrayLike | None = None
) -> CalibrationRows:
    """Check labels, predictions and propensities, and return those of rows with a positive weight."""
    labels, f = check_scored(s, y_pred)
    if f.size == 0:
        raise ValueError("y_pred has no rows. Pass at least one prediction.")
    e = check_propensity(propensity, n_rows=f.size)
    if sample_weight is None:
        return CalibrationRows(labels, f, e, None)
    w = check_counts(sample_weight, n_rows=f.size, name="calibration curves")
    counted = w > 0
    return CalibrationRows(labels[counted], f[counted], e[counted], w[counted])


def _calibration(
    f: Vector, e: Vector, s: Vector, w: Vector | None, n_bins: int, strategy: str, level: float
) -> Calibration:
    by_counts = check_choice(strategy, "strategy", STRATEGIES) == "quantile"
    most = check_whole(n_bins, "n_bins", at_least=1)
    bins = equal_counts(f, most, w) if by_counts else equal_widths(f, most)
    rows = binned(f, e, s, bins, w)
    low, high = score_interval(rows, quantile(check_share(level, "level")))
    error, expected = calibration_error(rows)
    test = chi_square(f, e, s, bins, w)
    if not all(np.isfinite(each).all() for each in (rows.observed, low, high, error, expected)):
        raise ValueError(
            f"The smallest propensity is {e.min():.3g}. With it, shares of positives cannot be computed. Raise "
            "propensities that are too small, e.g. np.maximum(propensity, 0.01)."
        )
    return Calibration(
        predicted=rows.predicted,
        observed=rows.observed,
        low=low,
        high=high,
        n_rows=rows.n.astype(np.intp) if w is None else rows.n,
        level=float(level),
        error=error,
        expected_error=expected,
        statistic=test.statistic,
        degrees_of_freedom=test.freedom,
        p_value=test.p_value,
    )
