"""Scores of decisions about the class, from labels and propensities only; `scores` says what they ask of the data."""

import numpy as np

from scarless.checks.vectors import check_scored
from scarless.metrics._proportions import accuracy_equation, f1_equation, precision_equation, recall_equation
from scarless.metrics._rows import check_fraction
from scarless.metrics._weighting import Weighting
from scarless.metrics.score import Measure, Score, evaluate
from scarless.numerics import weighted_scores
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.weighted_scores import Ratio


def propensity_weighted_accuracy(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
    level: float = 0.95,
) -> Score:
    r"""Share of rows whose true class is predicted.

    .. math:: \frac{1}{\sum w_i} \sum_i w_i \bigl[t_i d_i + (1 - t_i)(1 - d_i)\bigr], \qquad
              t_i = s_i/e_i, \quad d_i = 1[p_i > \text{threshold}]

    Exactly unbiased in its plain form.

    Parameters
    ----------
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class, or decisions: 0 and 1, or booleans.
    threshold : float in (0, 1), default=0.5
        Rows above it are decided positive.
    s, propensity, sample_weight, normalised, max_weight, class_prior, level
        As in `propensity_weighted_log_loss`.

    Returns
    -------
    Score

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD.

    Examples
    --------
    The label stands for two positives, since only half of them are labelled:

    >>> float(propensity_weighted_accuracy([1, 0, 0, 0], [0.9, 0.8, 0.1, 0.2], propensity=0.5))
    1.0
    """
    options = Weighting(sample_weight, normalised, max_weight, class_prior, level)
    measure = Measure("Accuracy", _accuracy, accuracy_equation)
    return evaluate(measure, *_decisions(s, y_pred, threshold), propensity, options)


def propensity_weighted_precision(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
    level: float = 0.95,
) -> Score:
    r"""Share of positives among rows that are decided positive.

    .. math:: \frac{\sum_i w_i t_i d_i}{\sum_i w_i d_i}, \qquad t_i = s_i/e_i, \quad d_i = 1[p_i > \text{threshold}]

    The bottom does not depend on labels: unbiased in its plain form, given the rows. NaN with a warning where no row is
    decided positive.

    Parameters
    ----------
    y_pred, threshold
        As in `propensity_weighted_accuracy`.
    s, propensity, sample_weight, normalised, max_weight, class_prior, level
        As in `propensity_weighted_log_loss`.

    Returns
    -------
    Score

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD.

    Examples
    --------
    >>> float(propensity_weighted_precision([1, 0, 0, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.1], propensity=0.5))
    0.5
    """
    options = Weighting(sample_weight, normalised, max_weight, class_prior, level)
    measure = Measure("Precision", weighted_scores.precision, precision_equation)
    return evaluate(measure, *_decisions(s, y_pred, threshold), propensity, options)


def propensity_weighted_recall(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    max_weight: float | None = None,
    level: float = 0.95,
) -> Score:
    r"""Share of positives that are decided positive.

    .. math:: \frac{\sum_i w_i t_i d_i}{\sum_i w_i t_i}, \qquad t_i = s_i/e_i, \quad d_i = 1[p_i > \text{threshold}]

    Top and bottom are unbiased, their ratio is consistent. It is normalised as it stands: a factor common to all
    targets cancels, so under SCAR it is the recall among labelled rows. NaN with a warning where no row is labelled.

    Parameters
    ----------
    y_pred, threshold
        As in `propensity_weighted_accuracy`.
    s, propensity, sample_weight, max_weight, level
        As in `propensity_weighted_log_loss`.

    Returns
    -------
    Score

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD. Hajek (1971).

    Examples
    --------
    >>> float(propensity_weighted_recall([1, 0, 1], [0.9, 0.8, 0.1], propensity=[0.8, 0.5, 0.2]))
    0.2
    """
    options = Weighting(sample_weight, False, max_weight, None, level)
    measure = Measure("Recall", weighted_scores.recall, recall_equation)
    return evaluate(measure, *_decisions(s, y_pred, threshold), propensity, options)


def propensity_weighted_f1(
    s: ArrayLike,
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    threshold: float = 0.5,
    sample_weight: ArrayLike | None = None,
    normalised: bool = False,
    max_weight: float | None = None,
    class_prior: float | None = None,
    level: float = 0.95,
) -> Score:
    r"""Harmonic mean of precision and recall.

    .. math:: \frac{2 \sum_i w_i t_i d_i}{\sum_i w_i t_i + \sum_i w_i d_i}, \qquad
              t_i = s_i/e_i, \quad d_i = 1[p_i > \text{threshold}]

    Top and bottom are unbiased, their ratio is consistent.

    Parameters
    ----------
    y_pred, threshold
        As in `propensity_weighted_accuracy`.
    s, propensity, sample_weight, normalised, max_weight, class_prior, level
        As in `propensity_weighted_log_loss`.

    Returns
    -------
    Score

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD. van Rijsbergen (1979), "Information Retrieval", Butterworths.

    Examples
    --------
    >>> float(propensity_weighted_f1([1, 0, 0, 0], [0.9, 0.8, 0.1, 0.1], propensity=0.5))
    1.0
    """
    options = Weighting(sample_weight, normalised, max_weight, class_prior, level)
    measure = Measure("F1", weighted_scores.f1, f1_equation)
    return evaluate(measure, *_decisions(s, y_pred, threshold), propensity, options)


def _accuracy(decision: Vector, target: Vector, weight: Vector) -> Ratio:
    return weighted_scores.mean_cost(decision, 1.0 - decision, target, weight)


def _decisions(s: ArrayLike, y_pred: ArrayLike, threshold: float) -> tuple[Vector, Vector]:
    check_fraction(threshold, "threshold")
    labels, p = check_scored(s, y_pred)
    return labels, (p > threshold).astype(np.float64)
