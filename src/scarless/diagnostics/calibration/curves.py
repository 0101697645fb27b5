r"""Calibration: are predicted probabilities right, as far as labels can tell?

Ask on rows that the model was not fitted on: on its own training rows it looks better calibrated than it is.

The test is of the very numbers predicted, and the error of estimating them counts. With as many rows as the model was
fitted on, or more, even a model of the right form is rejected more often than the level says, and with many more nearly
always. Whether it matters is told by `error`, less what chance alone makes of it.
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
    """Predicted and observed shares by bin, and one test of all.

    Attributes
    ----------
    predicted, observed : arrays of shape (n_bins,)
        Mean prediction and observed share of each bin that has rows, lowest prediction first.
    low, high : arrays of shape (n_bins,)
        Ends of each bin's interval of the share.
    n_rows : array of shape (n_bins,)
        Rows in each bin; with `sample_weight` the sum of their weights.
    level : float
        Nominal probability that one bin's interval covers.
    error : float
        Calibration error: the mean distance of predicted and observed share, bins weighted by their rows.
    expected_error : float
        The calibration error that chance alone makes on average, were the predictions right: it is never 0.
    statistic, degrees_of_freedom, p_value : float, int, float
        Chi-square test that the predictions are right: the statistic has the degrees of freedom as its mean if they
        are. A small p-value speaks against these very numbers, and so it finds a fit's own estimation error, too, once
        there are about as many rows as in the fit: judge how wrong they are by `error` minus `expected_error`.
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
        """Return the bins as a pandas data frame, one row each."""
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

    The label is seen, so this can be tested without any assumption: among rows of like prediction, do labels come as
    often as predicted? It cannot show a wrong split of a right product, such as an `f` twice too large with an `e`
    twice too small; nor that rows of one bin differ more than their predictions do (one constant prediction of the
    right mean is calibrated): for that compare `observed_log_likelihood`.

    Intervals are Wilson's. The test adds up squared standardised differences of the bins, with the variance
    :math:`\sum P(1-P)` that the predictions imply; bins that expect less than one labelled or unlabelled row are joined
    with their neighbours for it, and its p-value allows for few labels a bin. It does not allow for the estimation
    error of a fit: see `Calibration`.

    Parameters
    ----------
    s : array-like of shape (n,)
        1 for labelled rows, 0 for the others.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class, `f`.
    propensity : float or array-like of shape (n,)
        Predicted propensity `e`, in (0, 1].
    sample_weight : array-like of shape (n,), optional
        How often each row counts, as in the models' `fit`: a weight of 2 is two equal rows, for bins, intervals and the
        test alike. Weights that are no counts, such as one over the chance to be in the sample, leave the means right
        but not the test; divide them by ``sum(w**2) / sum(w)``, so that they add up to the rows they are worth.
    n_bins : int, default=10
        Bins of predictions; those without rows are left out.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal counts, or of equal width from the lowest prediction to the highest.
    level : float in (0, 1), default=0.95
        Of the intervals.

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
    labels, f, e, w = check_answers(s, y_pred, propensity, sample_weight)
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

    Right under the propensity that is given: :math:`\mathrm E[s/e \mid x] = f(x)` if :math:`e` is right. Where both
    come from one model, errors of `f` and `e` that cancel in the product stay unseen; a known propensity shows them.

    The interval of a bin holds the shares :math:`p` with :math:`(\bar h - p)^2 \le z^2 p(v-p)/n`, where :math:`\bar h`
    is the bin's mean of :math:`s/e` and :math:`v` the mean of :math:`1/e` over its positives: Wilson's where
    :math:`e=1`. Shares and intervals may exceed 1.

    Parameters
    ----------
    s, y_pred, propensity, sample_weight, n_bins, strategy, level
        As in `label_calibration`.

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
    labels, f, e, w = check_answers(s, y_pred, propensity, sample_weight)
    return _calibration(f, e, labels, w, n_bins, strategy, level)


class Rows(NamedTuple):
    """Clean labels, predictions, propensities and weights of rows that count; no weights where none were given."""

    s: Vector
    f: Vector
    e: Vector
    w: Vector | None


def check_answers(
    s: ArrayLike, y_pred: ArrayLike, propensity: ArrayLike, sample_weight: ArrayLike | None = None
) -> Rows:
    """Return clean labels, predictions and propensities of at least one row; rows of weight 0 are left out."""
    labels, f = check_scored(s, y_pred)
    if f.size == 0:
        raise ValueError("y_pred has no rows; calibration needs at least one.")
    e = check_propensity(propensity, n_rows=f.size)
    if sample_weight is None:
        return Rows(labels, f, e, None)
    w = check_counts(sample_weight, n_rows=f.size)
    counted = w > 0
    return Rows(labels[counted], f[counted], e[counted], w[counted])


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
