r"""Sharp bounds on the results of a fit if the propensity is wrong, and the error that overturns a conclusion."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np

from scarless.checks.options import (
    check_indicator,
    check_probability,
    check_propensity,
    check_weight,
    real_number,
    shown,
)
from scarless.checks.rows import check_row_order, index_of
from scarless.diagnostics.sensitivity.results import SensitivityBounds, SensitivityCurve, TippingPoint
from scarless.diagnostics.sensitivity.rows import (
    SensitivityRows,
    check_explained,
    check_names,
    fitted_values,
    make_quantity,
)
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.sharp_bounds import (
    Box,
    class_probability_box,
    gamma_across,
    propensities_within_odds,
)
from scarless.outside.notices import warn_user

GAMMAS = np.geomspace(1.0, 10.0, 37)
LARGEST_GAMMA = 1e300
# A warning is given if this share of the positives has propensities so near 1 that a factor of 10 on their odds changes
# `f` by at most 1%. By judgement.
NEARLY_CERTAIN, WARN_SHARE_NEARLY_CERTAIN = 0.999, 0.1


class Sensitivity:
    r"""Sharp bounds on class probabilities, metrics and ranks if the propensity may be wrong.

    The labels identify :math:`P(x) = \Pr(s=1|x) = f(x)\,e(x)`. How `P` splits into class probability `f` and propensity
    `e` is an assumption of the model. This class drops the assumption: the propensity of every row may take any value
    whose odds are within a factor :math:`\Gamma \ge 1` of the fitted odds (`at`, `curve`, `tipping_point`), or any
    value between given limits (`within`). Then

    .. math:: f(x) \in [P(x)/u(x),\ \min(1, P(x)/l(x))],

    and everything that is computed from `f` has a smallest and a largest value. These bounds are sharp if the
    propensity may differ arbitrarily between rows. If the propensity depends on some attributes only, the bounds are
    valid but may be wide.

    With :math:`\Gamma = 2`, a fitted propensity of 0.5 may be 0.33 to 0.67, a fitted propensity of 0.1 may be 0.05 to
    0.18, and a fitted propensity of 0.9 may be 0.82 to 0.95. A propensity near 1 hardly changes, and a propensity of
    exactly 1 does not change. A row with :math:`P = 0` does not change either. If such propensities may be wrong, use
    `within`; ``within(0)`` assumes nothing.

    The bounds do not include the error of `P` itself, which can be checked against the labels with
    `LabelCalibrationDisplay`.

    Parameters
    ----------
    label_probability : array of shape (n_rows,)
        :math:`\Pr(s=1|x)` of each row: `f e` of a fitted model, or the prediction of a calibrated model of the labels.
    propensity : float or array of shape (n_rows,)
        Propensity that may be wrong, in (0, 1]. It must be at least `label_probability`.
    s : array of shape (n_rows,), optional
        Observed labels: 1 for labelled rows, 0 for unlabelled rows. By default, the bounds are for the population that
        the rows come from, and for new rows. With labels, they are for these rows: labelled rows are positive, and
        unlabelled rows have the posterior :math:`(f - P)/(1 - P)` instead of `f`.
    sample_weight : array of shape (n_rows,), optional
        Weight of each row; 1 by default.
    row_names : sequence of length n_rows, optional
        Names of the rows. By default, rows are numbered.

    Notes
    -----
    Values are matched to rows by position. A pandas Series whose index has the names in another order raises an error.

    See Also
    --------
    scarless.diagnostics.sensitivity.display.SensitivityDisplay : Plot of the bounds against `gamma`.

    References
    ----------
    Tan, "A distributional approach for causal inference using propensity scores", JASA 101 (2006), for the odds-ratio
    model; Rosenbaum, "Observational Studies", 2nd ed. (2002), for conclusions that are overturned; Manski,
    "Partial Identification of Probability Distributions" (2003).

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.diagnostics.sensitivity.analysis import Sensitivity
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 3))
    >>> y = rng.random(3000) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
    >>> s = y & (rng.random(3000) < 1 / (1 + np.exp(-X[:, 2])))
    >>> model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> sensitivity = Sensitivity.from_estimator(model, X)
    >>> sensitivity.at(1.5)
    If the odds of the propensity are wrong by a factor of at most 1.5 (3,000 rows):
                           low  fitted    high
    class prior          0.406   0.486   0.571
    label frequency      0.431   0.506   0.606

    How wrong must the propensity be for the classifier to find less than 7 of 10 positives?

    >>> found = sensitivity.tipping_point("recall", at_least=0.7, decisions=model.predict(X))
    >>> print(found)
    recall is at least 0.7 (fitted: 0.785) if the odds of the propensity are wrong by less than a factor of 1.57.
    """

    def __init__(
        self,
        label_probability: ArrayLike,
        propensity: ArrayLike,
        *,
        s: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        row_names: Any = None,
    ) -> None:
        P = check_probability(label_probability, name="label_probability")
        if P.size == 0:
            raise ValueError("label_probability has no rows. Pass one value for each row.")
        index = check_names(row_names, P.size)
        for name, values in (
            ("label_probability", label_probability),
            ("propensity", propensity),
            ("s", s),
            ("sample_weight", sample_weight),
        ):
            check_row_order(values, name, index)
        e = check_propensity(propensity, n_rows=P.size)
        labels = None if s is None else check_indicator(s, "s", n_rows=P.size)
        weight = check_weight(sample_weight, n_rows=P.size)
        self._rows = SensitivityRows(check_explained(P, e, "propensity"), e, labels, weight, index)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike | None = None,
        *,
        propensity: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        r"""Create the analysis with :math:`P = f e` and `e` of a fitted model.

        Parameters
        ----------
        estimator : fitted classifier
            Classifier with ``predict_propensity`` (`SAREMClassifier`, `SCARClassifier`, `StratifiedSCARClassifier`), or
            a `PropensityWeightedClassifier`.
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each. The index of a pandas data frame holds their names.
        s : array of shape (n_rows,), optional
            Observed labels, coded as in `fit`, for bounds for these rows; see `Sensitivity`.
        propensity : float or array of shape (n_rows,), optional
            Propensity of each row, in (0, 1]. Only for a `PropensityWeightedClassifier`, which does not predict it.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        Sensitivity
        """
        index = index_of(X)
        for name, values in (("s", s), ("propensity", propensity)):
            check_row_order(values, name, index)
        f, e, coding = fitted_values(estimator, X, propensity)
        labels = None if s is None else coding.encode(s, "s")
        made = cls(f * e, e, s=labels, sample_weight=sample_weight, row_names=index)
        made._rows = replace(made._rows, coding=coding)
        return made

    def at(self, gamma: float) -> SensitivityBounds:
        r"""Return bounds for propensities whose odds are within a factor `gamma` of the fitted odds.

        .. math:: \frac1\Gamma \le \frac{e'(x)/(1-e'(x))}{e(x)/(1-e(x))} \le \Gamma

        Parameters
        ----------
        gamma : float, at least 1
            With 1, the fitted propensity is assumed to be right. ``np.inf`` gives the limit for large factors, which
            assumes nothing about rows with :math:`P > 0` and :math:`e < 1`; other rows do not change.

        Returns
        -------
        SensitivityBounds
        """
        gamma = float(_check_gammas(gamma, 0))
        if gamma > 1.0:
            self._warn_about_certain_labels()
        admissible = propensities_within_odds(self._rows.P, self._rows.e, gamma)
        return SensitivityBounds(gamma, admissible, self._rows.probability_within_odds(gamma), self._rows)

    def within(self, lower: ArrayLike, upper: ArrayLike = 1.0) -> SensitivityBounds:
        r"""Return bounds for propensities between given limits, :math:`l(x) \le e(x) \le u(x)`.

        Parameters
        ----------
        lower, upper : floats or arrays of shape (n_rows,)
            Limits in [0, 1]. `upper` must be at least `label_probability`, because smaller propensities are impossible.

        Returns
        -------
        SensitivityBounds
        """
        P = self._rows.P
        low, high = (
            check_probability(check_row_order(limit, name, self._rows.index), n_rows=P.size, name=name)
            for name, limit in (("lower", lower), ("upper", upper))
        )
        crossed = np.flatnonzero(low > high)
        if crossed.size:
            raise ValueError(
                f"lower must not exceed upper; it does in {crossed.size} of {P.size} rows (first: row {crossed[0]}, "
                f"{low[crossed[0]]:g} > {high[crossed[0]]:g}). Correct the limits of these rows."
            )
        check_explained(P, high, "upper")
        f = class_probability_box(P, low, high)
        return SensitivityBounds(None, Box(np.maximum(low, P), high), self._rows.probability(f), self._rows)

    def curve(
        self,
        quantity: str,
        *,
        gammas: ArrayLike | None = None,
        decisions: ArrayLike | None = None,
        scores: ArrayLike | None = None,
        row: Any = None,
        rival: Any = None,
    ) -> SensitivityCurve:
        """Return bounds on one quantity for several factors.

        Parameters
        ----------
        quantity : str
            ======================================  ===============================================================
            "class_prior", "label_frequency"        of the rows
            "precision", "recall", "f1",            of given `decisions`
            "accuracy"
            "roc_auc"                               of given `scores`
            "probability"                           that `row` is positive
            "rank"                                  of `row` among all rows; 1 for the most probable positive
            "difference"                            between the probabilities of `row` and `rival`
            ======================================  ===============================================================
        gammas : array, optional
            Factors of at least 1. By default, 37 values from 1 to 10.
        decisions, scores : arrays of shape (n_rows,), optional
            Predicted classes and scores of a classifier; see `SensitivityBounds`.
        row, rival : names of rows, optional
            Names in the index of the data frame, or positions.

        Returns
        -------
        SensitivityCurve
        """
        chosen = make_quantity(quantity, self._rows, decisions=decisions, scores=scores, row=row, rival=rival)
        factors = _check_gammas(GAMMAS if gammas is None else gammas, 1)
        if not np.isfinite(factors).all():
            raise ValueError("gammas must be finite; got inf. For the limit of large factors, use at(np.inf).")
        self._warn_about_certain_labels()
        fitted = chosen.bounds(self._rows.probability_within_odds(1.0))
        bounds = np.array([chosen.bounds(self._rows.probability_within_odds(gamma)) for gamma in factors])
        return SensitivityCurve(chosen.label, factors, bounds[:, 0], bounds[:, 1], fitted.low)

    def tipping_point(
        self,
        quantity: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        rtol: float = 1e-6,
        decisions: ArrayLike | None = None,
        scores: ArrayLike | None = None,
        row: Any = None,
        rival: Any = None,
    ) -> TippingPoint:
        r"""Find the smallest factor that overturns a conclusion.

        Bounds widen as :math:`\Gamma` increases. The conclusion therefore holds for all admissible propensities up to
        some factor, which is found by bisection. The conclusion "row A ranks above row B" is
        ``tipping_point("difference", row="A", rival="B", at_least=0)``.

        Parameters
        ----------
        quantity : str
            Name of the quantity; see `curve`, also for `decisions`, `scores`, `row` and `rival`.
        at_least, at_most : float
            Threshold of the conclusion. Pass one of the two.
        rtol : float, default=1e-6
            Relative tolerance. The returned factor overturns the conclusion, and exceeds the smallest such factor by
            less than this share.

        Returns
        -------
        TippingPoint
            Its `gamma` is 1 if the conclusion does not hold for the fitted propensity, and infinite if no factor
            overturns it. Limits that are passed to `within` may still overturn it.
        """
        chosen = make_quantity(quantity, self._rows, decisions=decisions, scores=scores, row=row, rival=rival)
        threshold, is_floor = _check_conclusion(at_least, at_most)
        if not 1e-12 <= real_number(rtol) < 1:
            raise ValueError(f"rtol must be at least 1e-12 and below 1; got {shown(rtol)}.")
        self._warn_about_certain_labels()

        def bound(gamma: float) -> float:
            low, high = chosen.bounds(self._rows.probability_within_odds(gamma))
            return low if is_floor else high

        fitted, limit = bound(1.0), bound(np.inf)
        gamma = _first_failure(lambda at: bound(at) >= threshold if is_floor else bound(at) <= threshold, rtol)
        side = "at least" if is_floor else "at most"
        return TippingPoint(gamma, chosen.label, side, threshold, fitted, limit)

    def decision_gammas(self, threshold: float | ArrayLike = 0.5) -> Vector:
        r"""Return, for each row, the smallest factor with which its probability can cross a threshold.

        .. math:: \frac{f(1-e)}{t - fe} \text{ if } f > t, \qquad \frac{t - fe}{f(1-e)} \text{ if } f \le t

        With labels `s`, the factors are :math:`q/t` and :math:`t/q`, because a factor :math:`\Gamma` allows posteriors
        of unlabelled rows between :math:`q/\Gamma` and :math:`\min(1, \Gamma q)`.

        The factor shows how robust each decision is. It is 1 if the probability equals the threshold, and infinite if
        no factor moves the probability across the threshold, as for a labelled row.

        Parameters
        ----------
        threshold : float or array of shape (n_rows,), default=0.5
            Threshold in (0, 1).

        Returns
        -------
        array of shape (n_rows,)

        Examples
        --------
        >>> Sensitivity([0.3, 0.1, 0.6], [0.5, 0.5, 0.8]).decision_gammas()
        array([1.5, 4. , inf])
        """
        check_row_order(threshold, "threshold", self._rows.index)
        t = check_probability(threshold, n_rows=self._rows.n, name="threshold")
        if not ((t > 0) & (t < 1)).all():
            raise ValueError(
                "threshold must lie strictly between 0 and 1, because probabilities never cross 0 or 1; got "
                f"{t[~((t > 0) & (t < 1))][0]:g}."
            )
        self._warn_about_certain_labels()
        q, e = self._rows.q, self._rows.e
        if q is None:
            return gamma_across(self._rows.f, e, t)
        moves = (self._rows.s == 0) & (e < 1) & (q > 0)
        return np.divide(np.maximum(q, t), np.minimum(q, t), out=np.full(q.shape, np.inf), where=moves)

    def __repr__(self) -> str:
        rows = f"{self._rows.n:,} rows" + ("" if self._rows.s is None else " with their labels")
        return (
            f"Sensitivity to a wrong propensity, {rows}. Use at(gamma) or within(lower, upper) for bounds, "
            "curve(quantity) for bounds against gamma, and tipping_point(quantity, at_least=...) for the factor that "
            "overturns a conclusion."
        )

    def _warn_about_certain_labels(self) -> None:
        """Warn if a factor on the odds hardly changes propensities, which makes bounds too narrow."""
        rows = self._rows
        positives, certain = rows.weight * rows.f, rows.e > NEARLY_CERTAIN
        if certain.any() and positives @ certain >= WARN_SHARE_NEARLY_CERTAIN * positives.sum():
            warn_user(
                f"{np.count_nonzero(certain)} of {rows.n} propensities are above {NEARLY_CERTAIN}. A factor gamma on "
                "their odds hardly changes them, so the bounds treat them as known. If they may be wrong, use "
                "within(lower, upper).",
                UserWarning,
            )


def _check_gammas(gammas: ArrayLike, n_dimensions: int) -> Vector:
    try:
        factors = np.asarray(gammas, dtype=np.float64) if np.asarray(gammas).dtype != bool else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        factors = np.empty(0)
    if factors.ndim != n_dimensions or factors.size == 0 or not (factors >= 1).all():
        name, wanted = ("gamma", "one number") if n_dimensions == 0 else ("gammas", "a list of numbers")
        raise ValueError(
            f"{name} must be {wanted} of at least 1 (a factor on the odds of the propensity); got {shown(gammas)}."
        )
    return factors


def _check_conclusion(at_least: float | None, at_most: float | None) -> tuple[float, bool]:
    """Return the threshold, and whether it is a lower limit."""
    if (at_least is None) == (at_most is None):
        found = "neither" if at_least is None else "both"
        raise ValueError(
            f"Exactly one of at_least and at_most must be passed, as the threshold of the conclusion; got {found}."
        )
    threshold = at_least if at_least is not None else at_most
    number = real_number(threshold)
    if not np.isfinite(number):
        name = "at_most" if at_least is None else "at_least"
        raise ValueError(f"{name} must be a finite number; got {shown(threshold)}.")
    return number, at_least is not None


def _first_failure(holds: Callable[[float], bool], rtol: float) -> float:
    """Return the smallest value, from 1 on, at which a condition fails. It must then fail at all larger values too."""
    if not holds(1.0):
        return 1.0
    if holds(np.inf):
        return math.inf
    low, high = 1.0, 2.0
    while holds(high):
        if high >= LARGEST_GAMMA:  # the condition is false only in the limit
            return math.inf
        low, high = high, min(high * high, LARGEST_GAMMA)
    while high > low * (1.0 + rtol):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high
