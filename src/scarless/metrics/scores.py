r"""Scores of a classifier of the true class, from labels and propensities only.

Each takes ``s/e`` for the class of a row. The mean of that over labelings is the class itself, so sums that are linear
in the class are unbiased, and ratios of them consistent. What is asked of the data, everywhere: rows are independent,
the propensity ``e(x) = Pr(s=1 | y=1, x)`` is right and above 0, and the predictions were not fitted on these rows.
"""

from functools import partial
from typing import Any

import numpy as np

from scarless.checks.vectors import check_scored
from scarless.metrics._rows import check_fraction
from scarless.metrics._weighting import Weighting
from scarless.metrics.score import (
    Measure,
    Score,
    check_rows,
    evaluate,
    no_interval,
    spread,
    student_interval,
    summary,
)
from scarless.numerics import weighted_scores
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.costs import get_cost
from scarless.numerics.likelihood import log_likelihood_of_probabilities
from scarless.numerics.weighted_scores import Ratio


def propensity_weighted_log_loss(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    sample_weight: ArrayLike | None = None,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
    level: float = 0.95,
) -> Score:
    r"""Log loss of predicted probabilities of the true class, with a standard error and an interval.

    .. math:: -\frac{1}{\sum w_i} \sum_i w_i \bigl[t_i \log p_i + (1 - t_i) \log(1 - p_i)\bigr], \qquad t_i = s_i/e_i

    ================================  =====================================================================
    option                            target of a row
    ================================  =====================================================================
    neither                           ``t = s/e`` (Horvitz and Thompson): exactly unbiased if `propensity` is
                                      right.
    ``max_weight=M``                  ``t = min(s/e, M)``. Less variance; positives with ``e < 1/M`` count
                                      ``eM`` times instead of once, which biases a mean of costs by
                                      :math:`-\frac1n\sum_i y_i \max(0, 1 - e_i M)\,(\delta_1 - \delta_0)`. The
                                      clipped minus the plain score estimates that bias without bias of its own.
    ``normalised=True``               the targets above, times one factor such that their mean is `class_prior`
                                      (Hajek); without it, such that it is the mean of ``s/e``, at most 1. Then
                                      clipped weights still add up to all positives, and without clipping only
                                      labels that stand for more positives than rows are changed. Biased by
                                      order ``1/n``, and consistent if nothing is clipped and `class_prior` is
                                      right. A known prior lowers the variance where :math:`\delta_1 - \delta_0` is
                                      much alike for all positives, and raises it where it changes sign: compare
                                      the standard errors.
    ================================  =====================================================================

    Parameters
    ----------
    s : array-like of shape (n,)
        1 for labelled rows (which are positive), 0 for the others.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class. Kept one rounding error away from 0 and 1, as in
        ``sklearn.metrics.log_loss``.
    propensity : float or array-like of shape (n,)
        ``e(x)``, in (0, 1]. One number means SCAR.
    sample_weight : array-like of shape (n,), optional
        How much each row counts in the means, such as one over its chance to be in the sample. Weights are not counts:
        a row of weight 2 is one row, not two, adds none to the rows that standard errors and intervals rest on, and a
        factor common to all weights changes nothing. (In the models' `fit` they are counts.)
    normalised : bool, default=False
        See above.
    max_weight : float, optional
        Largest weight ``s/e``, at least 1.
    class_prior : float in (0, 1], optional
        ``Pr(y=1)`` where it is known; with ``normalised=True`` only.
    level : float in (0, 1), default=0.95
        Of the interval.

    Returns
    -------
    Score
        Also where few or no rows are labelled: see ``n_labelled`` and ``effective_sample_size``.

    See Also
    --------
    propensity_weighted_risk : The same mean as a plain number, for any cost.
    risk_interval : Intervals by other methods.

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD. Horvitz and Thompson (1952), JASA 47. Hajek (1971), comment in
    "Foundations of Statistical Inference". Ionides (2008), "Truncated Importance Sampling", JCGS 17(2). Standard
    errors: Jaeckel (1972), "The infinitesimal jackknife"; Efron (1982), "The Jackknife, the Bootstrap and Other
    Resampling Plans", SIAM, chapter 6.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> f = rng.uniform(size=5000)
    >>> e = np.where(rng.uniform(size=5000) < 0.5, 0.2, 0.8)
    >>> s = (rng.uniform(size=5000) < f) & (rng.uniform(size=5000) < e)
    >>> print(propensity_weighted_log_loss(s, f, propensity=e))  # the truth is 1/2
    Log loss 0.5227 (standard error 0.0257, 95% interval 0.4720 to 0.5734; 1226 labelled rows, worth 785)
    """
    labels, p = check_scored(s, y_pred)
    edge = _rounding_error(y_pred)
    options = Weighting(sample_weight, normalised, max_weight, class_prior, level)
    measure = Measure("Log loss", partial(_mean_cost, "log"))
    return evaluate(measure, labels, np.clip(p, edge, 1.0 - edge), propensity, options)


def propensity_weighted_brier_score(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    sample_weight: ArrayLike | None = None,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
    level: float = 0.95,
) -> Score:
    r"""Mean squared error of predicted probabilities of the true class.

    .. math:: \frac{1}{\sum w_i} \sum_i w_i \bigl[t_i (1 - p_i)^2 + (1 - t_i) p_i^2\bigr], \qquad t_i = s_i/e_i

    Exactly unbiased in its plain form.

    Parameters
    ----------
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    s, propensity, sample_weight, normalised, max_weight, class_prior, level
        As in `propensity_weighted_log_loss`.

    Returns
    -------
    Score

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD. Brier (1950), Monthly Weather Review 78.

    Examples
    --------
    The label stands for two positives, since only half of them are labelled:

    >>> found = propensity_weighted_brier_score([1, 0, 0, 0], [0.6, 0.6, 0.2, 0.2], propensity=0.5)
    >>> round(float(found), 3)  # (2 * 0.4**2 + 2 * 0.2**2) / 4
    0.1
    """
    labels, p = check_scored(s, y_pred)
    options = Weighting(sample_weight, normalised, max_weight, class_prior, level)
    return evaluate(Measure("Brier score", partial(_mean_cost, "squared")), labels, p, propensity, options)


def observed_log_likelihood(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> Score:
    r"""Mean log-likelihood of the labels: how well class and propensity together predict who is labelled.

    .. math:: \frac{1}{\sum w_i} \sum_i w_i \bigl[s_i \log(f_i e_i) + (1 - s_i) \log(1 - f_i e_i)\bigr]

    Higher is better. Needs no weights and no right propensity: it scores both at once, and is largest in expectation
    where the product :math:`f e` is the true :math:`\Pr(s=1|x)`. By that it cannot tell apart pairs of equal product.

    Parameters
    ----------
    s : array-like of shape (n,)
        1 for labelled rows, 0 for the others.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class, `f`.
    propensity : float or array-like of shape (n,)
        Predicted or known propensity `e`, in (0, 1].
    sample_weight : array-like of shape (n,), optional
        As in `propensity_weighted_log_loss`.
    level : float in (0, 1), default=0.95
        Of the interval.

    Returns
    -------
    Score
        Minus infinity, without a standard error, where a row is as the predictions rule out.

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD. Good (1952), "Rational decisions", JRSS B 14.

    Examples
    --------
    >>> round(float(observed_log_likelihood([1, 0], [0.9, 0.2], propensity=0.5)), 4)
    -0.4519
    """
    check_fraction(level, "level")
    rows = check_rows(*check_scored(s, y_pred), propensity, sample_weight)
    values = log_likelihood_of_probabilities(rows.prediction, rows.e, rows.s)
    share = rows.weight / rows.weight.sum()
    mean = float(share @ values)
    options = Weighting(None, False, None, None, level)
    if not np.isfinite(mean):
        impossible = no_interval("a row is as the predictions rule out")
        return summary("Observed log-likelihood", mean, np.nan, impossible, rows, options)
    error, freedom = spread(share * (values - mean), rounding=1e-12 * abs(mean) / values.size)
    answer = student_interval(mean, error, freedom, level)
    return summary("Observed log-likelihood", mean, error, answer, rows, options)


def _mean_cost(cost: str, p: Vector, target: Vector, weight: Vector) -> Ratio:
    chosen = get_cost(cost)
    return weighted_scores.mean_cost(chosen.positive(p), chosen.negative(p), target, weight)


def _rounding_error(values: Any) -> float:
    """Return the spacing of numbers below 1 in the type that the predictions came in."""
    dtype = getattr(values, "dtype", None)
    return float(np.finfo(dtype if isinstance(dtype, np.dtype) and dtype.kind == "f" else np.float64).eps)
