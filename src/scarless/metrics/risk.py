"""Risk of predictions with the true class, with biased labels only, and how wrong the latter is."""

import numpy as np

from scarless.checks.options import check_indicator, check_propensity, check_weight
from scarless.metrics._rows import Weighting, check_judged_predictions, check_options, targets, weighted_mean
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
    r"""Mean cost of the predictions when the true class is known.

    .. math:: R = \frac1n \sum_i y_i\,\delta_1(\hat y_i) + (1-y_i)\,\delta_0(\hat y_i)

    Parameters
    ----------
    y : array-like of shape (n,)
        True class, coded 0/1, -1/+1 or boolean.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    cost : {"log", "squared", "absolute"} or Cost
        What a prediction costs. With "log", a wrong prediction of exactly 0 or 1 makes the risk infinite.
    sample_weight : array-like of shape (n,), optional
        Weight of each row in the mean.

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
    classes, p, cost_pos, cost_neg = check_judged_predictions(y, y_pred, cost, name="y")
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
    r"""Estimate the true risk from biased labels and the propensity with which positives are labelled.

    .. math:: \hat R = \frac1n \sum_i t_i\,\delta_1(\hat y_i) + (1 - t_i)\,\delta_0(\hat y_i)

    ================================  =====================================================================
    option                            target of a row
    ================================  =====================================================================
    neither                           ``t = s/e``. Unbiased for the true risk if `propensity` is right.
    ``max_weight=M``                  ``t = min(s/e, M)``, clipped. Less variance, but positives with ``e < 1/M``
                                      count too little; the bias is `risk_bias` with ``max(e, 1/M)`` as
                                      estimated propensity.
    ``normalised=True``               the targets above, times one factor such that their mean is `class_prior`:
                                      Hajek's ratio estimate of the mean of ``d1 - d0`` over the positives,
                                      times the share of positives. Consistent if nothing is clipped, not
                                      unbiased; exact where ``d1 - d0`` is the same for all positives and
                                      `class_prior` is the share of positives among these rows.
    ================================  =====================================================================

    Without a `class_prior` normalised targets have the mean ``min(1, mean(s/e))``, the prior that the labels imply:
    where nothing is clipped they then differ from plain ones only where that prior would exceed 1. The words are those
    of all scores; `propensity_weighted_log_loss` says more of them.

    Parameters
    ----------
    s : array-like of shape (n,)
        1 for labelled rows (which are positive), 0 for the others.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    propensity : float or array-like of shape (n,)
        ``e(x) = Pr(s=1 | y=1, x)``, in (0, 1]. One number means SCAR.
    cost : {"log", "squared", "absolute"} or Cost
        What a prediction costs.
    sample_weight : array-like of shape (n,), optional
        Weight of each row in the means.
    normalised : bool, default=False
        See the table.
    max_weight : float, optional
        Largest weight ``s/e``, at least 1. ``np.count_nonzero((s == 1) & (propensity < 1 / max_weight))`` rows are
        clipped.
    class_prior : float in (0, 1], optional
        ``Pr(y=1)`` where it is known; with ``normalised=True`` only.

    Returns
    -------
    float
        It may be negative: a labelled row counts more than once as a positive and less than zero times as a
        negative.

    Raises
    ------
    ValueError
        Also when a row would cost minus infinity, with the log loss and a prediction of exactly 1 on a row of
        weight above 1: no other model could then look better.

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
    labels, p, cost_pos, cost_neg = check_judged_predictions(s, y_pred, cost)
    e = check_propensity(propensity, n_rows=p.size)
    weight = check_weight(sample_weight, n_rows=p.size)
    options = Weighting(sample_weight, normalised, max_weight, class_prior)
    check_options(options)
    share = np.where(weight > 0, over_propensity(labels, e), 0.0)
    if max_weight is None and np.isinf(share).any():
        raise ValueError(
            "the weight s/e of a labelled row leaves the range of numbers, its propensity is so small. Raise small "
            "values on purpose, e.g. np.maximum(propensity, 0.01), or clip them by max_weight=."
        )
    rows = mixed_cost(targets(share, weight, options).t, cost_pos, cost_neg)
    minus = np.flatnonzero(np.isneginf(rows) & (weight > 0))
    if minus.size:
        raise ValueError(
            f"{minus.size} labelled rows with a prediction of exactly 1 cost minus infinity under this cost "
            f"(first: row {minus[0]}); the estimate would be -inf for any model that does so. Keep "
            "predictions inside on purpose, e.g. np.clip(y_pred, 1e-6, 1 - 1e-6), or use cost='squared'."
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
    r"""Risk that the predictions expect of themselves; biased, here to show why not to use it.

    .. math:: \frac1n \sum_i q_i\,\delta_1(\hat y_i) + (1-q_i)\,\delta_0(\hat y_i), \qquad
              q_i = s_i + (1-s_i)\,\frac{\hat y_i (1-e_i)}{1 - \hat y_i e_i}

    Right in expectation only if `y_pred` is the true ``Pr(y=1|x)``, which is what a risk should find out. In
    particular "everything is positive" has an expected risk of 0 on any data.

    Parameters
    ----------
    s, y_pred, propensity, cost, sample_weight
        As in `propensity_weighted_risk`.

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
    labels, p, cost_pos, cost_neg = check_judged_predictions(s, y_pred, cost)
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
    r"""Bias of the propensity-weighted risk when the propensity in use is wrong.

    .. math:: R - \mathbb E_s[\hat R] = \frac1n \sum_i y_i \Bigl(1 - \frac{e_i}{\hat e_i}\Bigr)
              \bigl(\delta_1(\hat y_i) - \delta_0(\hat y_i)\bigr)

    Note the sign, which is the paper's: true risk *minus* expected estimate. A positive number means that the
    estimate is too low on average. Rows and classes are fixed; the expectation is over the labels. Only
    positive rows matter, and the error of ``e`` counts relative to the estimate.

    Parameters
    ----------
    y : array-like of shape (n,)
        True class.
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    propensity, estimated_propensity : float or array-like of shape (n,)
        The true ``e`` that draws the labels, and the one put into `propensity_weighted_risk`.
    cost : {"log", "squared", "absolute"} or Cost
        What a prediction costs.
    sample_weight : array-like of shape (n,), optional
        Weight of each row in the mean.

    Returns
    -------
    float

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD, Proposition 3.

    Examples
    --------
    Half the true propensity doubles every label, and a good model looks better than it is:

    >>> round(risk_bias([1, 0], [0.9, 0.1], propensity=0.8, estimated_propensity=0.4, cost="absolute"), 3)
    0.4
    """
    positive, p, cost_pos, cost_neg = check_judged_predictions(y, y_pred, cost, name="y")
    e = check_propensity(propensity, n_rows=p.size)
    e_hat = check_propensity(estimated_propensity, n_rows=p.size, name="estimated_propensity")
    weight = check_weight(sample_weight, n_rows=p.size)
    gap, difference = times(positive, 1.0 - over_propensity(e, e_hat)), cost_pos - cost_neg
    return weighted_mean(times(np.where(difference == 0.0, 0.0, gap), difference), weight)


def risk_variance(s: ArrayLike, y_pred: ArrayLike, *, propensity: ArrayLike, cost: str | Cost = "log") -> float:
    r"""Estimate how much the propensity-weighted risk varies over labelings of these very rows.

    .. math:: \widehat{\mathrm{Var}}_s[\hat R] = \frac1{n^2} \sum_i \frac{s_i}{e_i}\,\frac{1-e_i}{e_i}
              \bigl(\delta_1(\hat y_i) - \delta_0(\hat y_i)\bigr)^2

    An unbiased estimate of ``1/n^2 sum_i y_i (1-e_i)/e_i (d1-d0)^2``, the variance of the estimate around the
    true risk of the rows at hand, if labels are drawn independently with the given propensity. It leaves out
    that other rows could have been drawn; `risk_interval` includes that.

    Parameters
    ----------
    s, y_pred, propensity, cost
        As in `propensity_weighted_risk`.

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
    labels, p, cost_pos, cost_neg = check_judged_predictions(s, y_pred, cost)
    e = check_propensity(propensity, n_rows=p.size)
    variance = over_propensity(labelling_variance(cost_pos, cost_neg, labels, e), e)
    return float(variance.sum() / p.size**2)


def effective_sample_size(s: ArrayLike, *, propensity: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
    r"""Return the number of equally weighted positives that the labelled rows are worth (Kish).

    .. math:: \frac{\bigl(\sum_i s_i/e_i\bigr)^2}{\sum_i (s_i/e_i)^2}

    Equal to the number of labelled rows under SCAR, smaller when the propensities of the labelled rows
    differ, and 0 without labels.

    Parameters
    ----------
    s : array-like of shape (n,)
        1 for labelled rows, 0 for the others.
    propensity : float or array-like of shape (n,)
        ``e(x)`` in (0, 1].
    sample_weight : array-like of shape (n,), optional
        Multiplies ``s/e``.

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
    labels = check_indicator(s, "s")
    if labels.size == 0:
        raise ValueError("s has no rows; give one label per row.")
    e = check_propensity(propensity, n_rows=labels.size)
    weight = check_weight(sample_weight, n_rows=labels.size)
    counted = (labels == 1) & (weight > 0)
    if not counted.any():
        return 0.0
    logs = np.log(weight[counted]) - np.log(e[counted])  # for ratios and squares may overflow
    share = np.exp(logs - logs.max())
    return float(share.sum() ** 2 / (share**2).sum())
