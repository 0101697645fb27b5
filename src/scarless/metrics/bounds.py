"""How far the propensity-weighted risk can be from the true one: the paper's bound and a corrected one.

In both, rows and classes are fixed and only the labels are random.
"""

import math

import numpy as np

from scarless.checks.options import real_number, shown
from scarless.checks.vectors import check_indicator, check_propensity
from scarless.metrics._rows import check_fraction, check_predictions
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.costs import Cost
from scarless.numerics.risk import over_propensity, times


def paper_bound(n: int, *, delta_max: float, eta: float = 0.05, n_hypotheses: int | None = None) -> float:
    r"""Deviation bound as printed in the paper. **It is too tight**; see `corrected_bound`.

    .. math:: |R - \hat R| \le \sqrt{\frac{\delta_{\max}^2 \ln(2/\eta)}{2n}}
              \quad\text{(Proposition 1)}, \qquad
              R \le \hat R + \sqrt{\frac{\delta_{\max}^2 \ln(|H|/\eta)}{2n}}
              \quad\text{(Proposition 2)}

    The paper claims each with probability at least ``1 - eta`` over the labels. The claim needs every row's
    weighted cost to stay within a range of ``delta_max``, but that of a positive row jumps by
    ``|d1 - d0| / e`` between no label and a label. The argument as printed needs
    ``|d1 - d0| <= e delta_max`` on every positive row; the bound itself is safe where the sum over positives of
    ``((d1 - d0) / e)^2`` is at most ``n delta_max^2``. With small ``e`` and not too few positives it fails far more
    often than ``eta``. Shipped for comparison.

    Parameters
    ----------
    n : int
        Number of rows.
    delta_max : float
        The largest cost, e.g. ``get_cost("squared").max_cost()``; finite or infinite.
    eta : float in (0, 1)
        Probability with which the bound may fail.
    n_hypotheses : int, optional
        Size of a finite hypothesis class: gives the one-sided bound of Proposition 2, for all at once.
        Without it, the two-sided bound of Proposition 1 for one fixed predictor.

    Returns
    -------
    float

    References
    ----------
    Bekker, Robberechts and Davis (2019), ECML-PKDD, Propositions 1 and 2; Hoeffding (1963), JASA 58.

    Examples
    --------
    >>> round(paper_bound(1000, delta_max=1.0), 4)
    0.0429
    """
    rows, largest = real_number(n), real_number(delta_max)
    if not 1 <= rows < math.inf:
        raise ValueError(f"n must be a finite number of rows, at least 1 row; got {shown(n)}.")
    if not largest >= 0:
        raise ValueError(f"delta_max must be a number that is at least 0; got {shown(delta_max)}.")
    return largest * math.sqrt(_log_inverse(eta, n_hypotheses) / (2 * rows))


def corrected_bound(
    y_pred: ArrayLike,
    *,
    propensity: ArrayLike,
    y: ArrayLike | None = None,
    cost: str | Cost = "log",
    eta: float = 0.05,
    n_hypotheses: int | None = None,
) -> float:
    r"""Deviation of the propensity-weighted risk from the true risk that labels exceed with probability eta at most.

    .. math:: \sqrt{\frac{\ln(2/\eta)}{2 n^2} \sum_{i:\,y_i=1}
              \Bigl(\frac{\delta_1(\hat y_i) - \delta_0(\hat y_i)}{e_i}\Bigr)^2}

    Hoeffding's inequality with the right range: between no label and a label, the weighted cost of a positive
    row jumps by ``|d1 - d0| / e``; that of a negative row does not move. Holds for fixed rows and classes,
    labels drawn independently with the true propensity, and predictions that do not depend on these labels.
    Without `y` every row may be positive and the sum runs over all rows. (Rows with ``e = 1`` have no
    randomness; their terms are kept, which is safe.)

    Parameters
    ----------
    y_pred : array-like of shape (n,)
        Predicted probability of the positive class.
    propensity : float or array-like of shape (n,)
        ``e(x)`` in (0, 1].
    y : array-like of shape (n,), optional
        True class, where it is known; without it the bound is the worst case over classes.
    cost : {"log", "squared", "absolute"} or Cost
        What a prediction costs. The bound is infinite for a log loss with a prediction of exactly 0 or 1.
    eta : float in (0, 1)
        Probability with which the bound may fail.
    n_hypotheses : int, optional
        Size of a finite class of predictors: ``ln(2/eta)`` becomes ``ln(n_hypotheses/eta)``, and
        ``R <= R^ + bound`` holds for all of them at once, each with its own bound (union bound, one side).

    Returns
    -------
    float

    References
    ----------
    Hoeffding (1963), "Probability Inequalities for Sums of Bounded Random Variables", JASA 58, Theorem 2.

    Examples
    --------
    >>> y_pred = [0.9, 0.8, 0.2, 0.1] * 250
    >>> round(corrected_bound(y_pred, propensity=0.2, cost="squared"), 4)
    0.1518
    >>> round(corrected_bound(y_pred, propensity=0.2, y=[1, 1, 0, 0] * 250, cost="squared"), 4)
    0.1074
    """
    p, cost_pos, cost_neg = check_predictions(y_pred, cost)
    e = check_propensity(propensity, n_rows=p.size)
    positive = np.ones(p.size) if y is None else check_indicator(y, "y", n_rows=p.size)
    jump = np.abs(over_propensity(times(positive, cost_pos - cost_neg), e))
    return _length(jump) / p.size * math.sqrt(_log_inverse(eta, n_hypotheses) / 2)


def _length(jump: Vector) -> float:
    """Return the Euclidean length of a vector whose squares may leave the range of numbers."""
    largest = float(jump.max())
    return largest * float(np.linalg.norm(jump / largest)) if 0.0 < largest < math.inf else largest


def _log_inverse(eta: float, n_hypotheses: int | None) -> float:
    """Return ``ln(2/eta)``, or ``ln(n_hypotheses/eta)`` where a number of hypotheses is given."""
    check_fraction(eta, "eta")
    count = 2.0 if n_hypotheses is None else real_number(n_hypotheses)
    if not 1 <= count < math.inf:
        raise ValueError(f"n_hypotheses must be a finite number that is at least 1; got {shown(n_hypotheses)}.")
    return math.log(count) - math.log(eta)
