"""Risk of predictions, from true classes or from biased labels, and the bias and variance of the estimate."""

import numpy as np

from scarless.checks.options import check_indicator, check_propensity, check_weight
from scarless.checks.rows import warn_about_row_order
from scarless.metrics._rows import Weighting, check_labels_and_predictions, check_options, targets, weighted_mean
from scarless.numerics.arrays import ArrayLike
from scarless.numerics.risk import (
    Cost,
    expected_cost,
    labelling_variance,
    mixed_cost,
    over_propensity,
    times,
    true_cost,
)


def true_risk(
    y: ArrayLike, y_pred: ArrayLike, *, cost: str | Cost = "log", sample_weight: ArrayLike | None = None
) -> float:
    r"""Return the mean cost of the predictions if the true class is known.

    .. math:: R = \frac1n \sum_i y_i\,\delta_1(\hat y_i) + (1-y_i)\,\delta_0(\hat y_i)

    Parameters
    ----------
    y : array-like of shape (n,)
        True classes, coded 0/1, -1/+1 or boolean.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    cost : {"log", "squared", "absolute"} or Cost
        Cost of a prediction. With "log", a wrong prediction of exactly 0 or 1 makes the risk infinite.
    sample_weight : array-like of shape (n,), optional
        Weight of each row; 1 by default.

    Returns
    -------
    float

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning
    from Positive and Unlabeled Data", ECML-PKDD.

    Examples
    --------
    >>> round(true_risk([1, 0], [0.9, 0.2], cost="absolute"), 3)
    0.15
    """
    warn_about_row_order(y=y, y_pred=y_pred, sample_weight=sample_weight)
    classes, p, cost_pos, cost_neg = check_labels_and_predictions(y, y_pred, cost, name="y")
    weight = check_weight(sample_weight, n_rows=p.size)
    return weighted_mean(true_cost(cost_pos, cost_neg, classes), weight)


def propensity_weighted_risk(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    cost: str | Cost = "log",
    sample_weight: ArrayLike | None = None,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
) -> float:
    r"""Estimate the true risk from biased labels and propensities.

    .. math:: \hat R = \frac1n \sum_i t_i\,\delta_1(\hat y_i) + (1 - t_i)\,\delta_0(\hat y_i)

    ================================  =====================================================================
    option                            target of a row
    ================================  =====================================================================
    none                              ``t = s/e``. Unbiased for the true risk if `propensity` is correct.
    ``max_weight=M``                  ``t = min(s/e, M)``: less variance, but positives with ``e < 1/M`` count too
                                      little. The bias is `risk_bias` with ``max(e, 1/M)`` as estimated propensity.
    ``normalised=True``               The targets above, scaled such that their mean is `class_prior`. The mean of
                                      ``t (d1 - d0)`` is then the class prior times Hajek's ratio estimate of the mean
                                      of ``d1 - d0`` over the positives (``d1`` and ``d0`` are the costs of a row as a
                                      positive and as a negative).
                                      Biased, but consistent if nothing is clipped. Exact if ``d1 - d0`` is the same
                                      for all positives and `class_prior` is the share of positives in these rows.
    ================================  =====================================================================

    Without a `class_prior`, normalised targets have the mean ``min(1, mean(s/e))``, the class prior that the labels
    imply. Without clipping, they then differ from ``s/e`` only if ``mean(s/e)`` exceeds 1. See also
    `propensity_weighted_log_loss`.

    Parameters
    ----------
    s : array-like of shape (n,)
        Observed labels: 1 for labelled rows, 0 for unlabelled rows.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    propensity : float or array-like of shape (n,)
        Propensity of each row, in (0, 1]. One number means SCAR.
    cost : {"log", "squared", "absolute"} or Cost
        Cost of a prediction.
    sample_weight : array-like of shape (n,), optional
        Weight of each row; 1 by default.
    normalised : bool, default=False
        Scale the targets; see the table.
    max_weight : float, optional
        Largest weight ``s/e``, at least 1. The weights of labelled rows with ``propensity < 1 / max_weight`` are
        clipped. By default, weights are not clipped.
    class_prior : float in (0, 1], optional
        Known class prior. Requires ``normalised=True``.

    Returns
    -------
    float
        The estimated risk. It can be negative, because a labelled row gets a weight above 1 as a positive and below 0
        as a negative.

    Raises
    ------
    ValueError
        If an argument is invalid, or if a row costs minus infinity. With the log loss this happens if a labelled row
        with ``e < 1`` has a prediction of exactly 1.

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD. Normalised: Hajek (1971), comment in
    "Foundations of Statistical Inference"; Swaminathan and Joachims (2015), "The Self-Normalized Estimator
    for Counterfactual Learning", NeurIPS. Clipped: Ionides (2008), "Truncated Importance Sampling",
    JCGS 17(2).

    Examples
    --------
    >>> s, y_pred, e = [1, 0, 0, 0], [0.9, 0.8, 0.3, 0.1], [0.5, 0.5, 0.8, 0.8]
    >>> round(propensity_weighted_risk(s, y_pred, propensity=e, cost="absolute"), 3)
    0.125
    >>> round(propensity_weighted_risk(s, y_pred, propensity=e, cost="absolute", max_weight=1.5), 3)
    0.225
    """
    warn_about_row_order(s=s, y_pred=y_pred, propensity=propensity, sample_weight=sample_weight)
    labels, p, cost_pos, cost_neg = check_labels_and_predictions(s, y_pred, cost)
    e = check_propensity(propensity, n_rows=p.size)
    weight = check_weight(sample_weight, n_rows=p.size)
    options = Weighting(sample_weight, normalised, max_weight, class_prior)
    check_options(options)
    share = np.where(weight > 0, over_propensity(labels, e), 0.0)
    if max_weight is None and np.isinf(share).any():
        raise ValueError(
            "propensity contains values so small that the weight s/e of a labelled row is infinite. Raise small "
            "propensities, e.g. np.maximum(propensity, 0.01), or clip the weights with max_weight=."
        )
    rows = mixed_cost(targets(share, weight, options).t, cost_pos, cost_neg)
    minus = np.flatnonzero(np.isneginf(rows) & (weight > 0))
    if minus.size:
        raise ValueError(
            "y_pred: the cost of a labelled row must not be minus infinity, as for a y_pred of exactly 1 with "
            f"cost='log'. Number of such rows: {minus.size} (first: row {minus[0]}). Clip the predictions, e.g. "
            "np.clip(y_pred, 1e-6, 1 - 1e-6), or use cost='squared'."
        )
    return weighted_mean(rows, weight)


def expected_risk(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    cost: str | Cost = "log",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the risk that is expected if the predictions are correct. Biased; provided for comparison only.

    .. math:: \frac1n \sum_i q_i\,\delta_1(\hat y_i) + (1-q_i)\,\delta_0(\hat y_i), \qquad
              q_i = s_i + (1-s_i)\,\frac{\hat y_i (1-e_i)}{1 - \hat y_i e_i}

    The estimate is unbiased only if `y_pred` is the true ``Pr(y=1|x)``, but a risk should measure how far `y_pred`
    is from the truth. For example, a model that predicts 1 for all rows has an expected risk of 0 on any data.

    Parameters
    ----------
    s, y_pred, propensity, cost, sample_weight
        See `propensity_weighted_risk`.

    Returns
    -------
    float

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD.

    Examples
    --------
    >>> expected_risk([1, 0, 0], [1.0, 1.0, 1.0], propensity=0.5)
    0.0
    >>> round(propensity_weighted_risk([1, 0, 0], [1.0, 1.0, 1.0], propensity=0.5, cost="squared"), 3)
    0.333
    """
    warn_about_row_order(s=s, y_pred=y_pred, propensity=propensity, sample_weight=sample_weight)
    labels, p, cost_pos, cost_neg = check_labels_and_predictions(s, y_pred, cost)
    e = check_propensity(propensity, n_rows=p.size)
    weight = check_weight(sample_weight, n_rows=p.size)
    return weighted_mean(expected_cost(cost_pos, cost_neg, p, labels, e), weight)


def risk_bias(
    y: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    estimated_propensity: ArrayLike,
    cost: str | Cost = "log",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Return the bias of the propensity-weighted risk if a wrong propensity is used.

    .. math:: R - \mathbb E_s[\hat R] = \frac1n \sum_i y_i \Bigl(1 - \frac{e_i}{\hat e_i}\Bigr)
              \bigl(\delta_1(\hat y_i) - \delta_0(\hat y_i)\bigr)

    The sign is that of the paper: true risk *minus* expected estimate. A positive number means that the estimate is
    too low on average. Rows and classes are fixed; the expectation is over the labels.

    Parameters
    ----------
    y : array-like of shape (n,)
        True classes, coded 0/1, -1/+1 or boolean.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    propensity, estimated_propensity : float or array-like of shape (n,)
        The true propensity, and the propensity that is passed to `propensity_weighted_risk`.
    cost : {"log", "squared", "absolute"} or Cost
        Cost of a prediction.
    sample_weight : array-like of shape (n,), optional
        Weight of each row; 1 by default.

    Returns
    -------
    float

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD, Proposition 3.

    Examples
    --------
    With half the true propensity every label counts twice, and a good model looks better than it is:

    >>> round(risk_bias([1, 0], [0.9, 0.1], propensity=0.8, estimated_propensity=0.4, cost="absolute"), 3)
    0.4
    """
    warn_about_row_order(
        y=y,
        y_pred=y_pred,
        propensity=propensity,
        estimated_propensity=estimated_propensity,
        sample_weight=sample_weight,
    )
    positive, p, cost_pos, cost_neg = check_labels_and_predictions(y, y_pred, cost, name="y")
    e = check_propensity(propensity, n_rows=p.size)
    e_hat = check_propensity(estimated_propensity, n_rows=p.size, name="estimated_propensity")
    weight = check_weight(sample_weight, n_rows=p.size)
    gap, difference = times(positive, 1.0 - over_propensity(e, e_hat)), cost_pos - cost_neg
    return weighted_mean(times(np.where(difference == 0.0, 0.0, gap), difference), weight)


def risk_variance(s: ArrayLike, y_pred: ArrayLike, *, propensity: ArrayLike, cost: str | Cost = "log") -> float:
    r"""Estimate the variance of the propensity-weighted risk over labellings of the given rows.

    .. math:: \widehat{\mathrm{Var}}_s[\hat R] = \frac1{n^2} \sum_i \frac{s_i}{e_i}\,\frac{1-e_i}{e_i}
              \bigl(\delta_1(\hat y_i) - \delta_0(\hat y_i)\bigr)^2

    This is an unbiased estimate of ``1/n^2 sum_i y_i (1-e_i)/e_i (d1-d0)^2``, the variance around the true risk of
    these rows, if labels are drawn independently with the given propensity. It does not include the sampling of the
    rows; `risk_interval` does.

    Parameters
    ----------
    s, y_pred, propensity, cost
        See `propensity_weighted_risk`.

    Returns
    -------
    float

    References
    ----------
    Horvitz and Thompson (1952), "A Generalization of Sampling Without Replacement from a Finite Universe",
    JASA 47, for independent (Poisson) sampling.

    Examples
    --------
    >>> round(risk_variance([1, 0, 0, 0], [0.9, 0.8, 0.3, 0.1], propensity=0.5, cost="absolute"), 3)
    0.08
    """
    warn_about_row_order(s=s, y_pred=y_pred, propensity=propensity)
    labels, p, cost_pos, cost_neg = check_labels_and_predictions(s, y_pred, cost)
    e = check_propensity(propensity, n_rows=p.size)
    variance = over_propensity(labelling_variance(cost_pos, cost_neg, labels, e), e)
    return float(variance.sum() / p.size**2)


def effective_sample_size(s: ArrayLike, *, propensity: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    r"""Return the number of equally weighted positives with the same information as the labelled rows (Kish).

    .. math:: \frac{\bigl(\sum_i s_i/e_i\bigr)^2}{\sum_i (s_i/e_i)^2}

    It equals the number of labelled rows under SCAR. It is smaller if the propensities of the labelled rows differ,
    and 0 without labels.

    Parameters
    ----------
    s : array-like of shape (n,)
        Observed labels: 1 for labelled rows, 0 for unlabelled rows.
    propensity : float or array-like of shape (n,)
        Propensity of each row, in (0, 1].
    sample_weight : array-like of shape (n,), optional
        Weight of each row; 1 by default. It multiplies ``s/e``.

    Returns
    -------
    float

    References
    ----------
    Kish (1965), "Survey Sampling", Wiley.

    Examples
    --------
    >>> round(effective_sample_size([1, 1, 1, 0], propensity=0.3), 3)
    3.0
    >>> round(effective_sample_size([1, 1, 1, 0], propensity=[0.9, 0.9, 0.1, 0.5]), 2)
    1.46
    """
    warn_about_row_order(s=s, propensity=propensity, sample_weight=sample_weight)
    labels = check_indicator(s, "s")
    if labels.size == 0:
        raise ValueError("s has no rows. Pass one label for each row.")
    e = check_propensity(propensity, n_rows=labels.size)
    weight = check_weight(sample_weight, n_rows=labels.size)
    counted = (labels == 1) & (weight > 0)
    if not counted.any():
        return 0.0
    logs = np.log(weight[counted]) - np.log(e[counted])  # logarithms, because ratios and squares may overflow
    share = np.exp(logs - logs.max())
    return float(share.sum() ** 2 / (share**2).sum())
