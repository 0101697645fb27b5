r"""What if the propensity is wrong? Sharp bounds on what a fit says, and when they overturn it."""

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
from scarless.diagnostics.sensitivity._row_names import check_names
from scarless.diagnostics.sensitivity.results import SensitivityBounds, SensitivityCurve, TippingPoint
from scarless.diagnostics.sensitivity.rows import Rows, check_explained, fitted_values, make_quantity
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
NEARLY_CERTAIN, SHARE_TO_WARN_OF = 0.999, 0.1  # a factor of 10 on such odds moves f by 1% only


class Sensitivity:
    r"""Sharp bounds on classes, metrics and ranks when the labelling propensity may be wrong.

    The labels identify :math:`P(x) = \Pr(s=1|x) = f(x)\,e(x)`; how it splits into class probability `f` and propensity
    `e` is what a model assumes. Give up some of that: let the propensity of every row be anything whose odds are
    within a factor :math:`\Gamma \ge 1` of the fitted ones (`at`, `curve`, `tipping_point`), or anything between limits
    of your own (`within`). Then

    .. math:: f(x) \in [P(x)/u(x),\ \min(1, P(x)/l(x))],

    and everything that is computed from `f` has a smallest and a largest value. They are sharp where the propensity may
    differ from row to row in any way; if it may depend on some attributes only, they still hold but can be wide.

    :math:`\Gamma = 2` says that a propensity fitted as 0.5 lies between 0.33 and 0.67, one of 0.1 between 0.05 and
    0.18, one of 0.9 between 0.82 and 0.95. Mind the last: a propensity near 1 hardly moves, and one of exactly 1 not
    at all. Nor does a row with :math:`P = 0`: it is negative unless :math:`e` is exactly 0, which no factor makes it.
    If it is the closeness to 1 or to 0 that you doubt, use `within`; ``within(0)`` assumes nothing.

    What is *not* in these bounds is the error of `P` itself. It can be checked against the labels, as `f` and `e`
    cannot: by a reliability diagram of :math:`\Pr(s=1|x)`, `LabelCalibrationDisplay`.

    Parameters
    ----------
    label_probability : array of shape (n_rows,)
        :math:`\Pr(s=1|x)` of each row: `f e` of a fitted model, or any calibrated model of the labels.
    propensity : float or array of shape (n_rows,)
        The propensity that may be wrong, in (0, 1]; at least `label_probability`.
    s : array of shape (n_rows,), optional
        The labels of these rows. None: questions are about a population like these rows, and about new rows. Given:
        about these very rows. A labelled row is then positive for certain, and an unlabelled one has the posterior
        :math:`(f - P)/(1 - P)` in place of `f`.
    sample_weight : array of shape (n_rows,), optional
        How often each row counts.
    row_names : sequence of length n_rows, optional
        What the rows are called. None: rows go by position.

    Notes
    -----
    Values per row are taken by position. A pandas Series whose index has the rows' names in another order is refused.

    See Also
    --------
    scarless.diagnostics.sensitivity.display.SensitivityDisplay : A picture over `gamma`.

    References
    ----------
    Tan, "A distributional approach for causal inference using propensity scores", JASA 101 (2006), for the odds-ratio
    model; Rosenbaum, "Observational Studies", 2nd ed. (2002), for the question of what overturns a conclusion; Manski,
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

    How wrong would the propensity have to be for the classifier to find less than 7 of 10 positives?

    >>> found = sensitivity.tipping_point("recall", at_least=0.7, decisions=model.predict(X))
    >>> print(found)
    recall is at least 0.7 (fitted: 0.785) while the odds of the propensity are wrong by less than a factor of 1.57.
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
            raise ValueError("label_probability has no rows; give one value per row.")
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
        self._rows = Rows(check_explained(P, e, "propensity"), e, labels, weight, index)

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
        r"""Take :math:`P = f e` and `e` from a fitted model.

        Parameters
        ----------
        estimator : fitted classifier
            One with ``predict_propensity`` (`SAREMClassifier`, `SCARClassifier`, `StratifiedSCARClassifier`), or a
            `PropensityWeightedClassifier`.
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
            Rows to ask about; the index of a pandas data frame holds their names.
        s : array of shape (n_rows,), optional
            Their labels, coded as in the fit, where the question is about these very rows; see `Sensitivity`.
        propensity : float or array of shape (n_rows,), optional
            For a `PropensityWeightedClassifier` only, which cannot tell it.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts.

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
        r"""Bound everything for propensities whose odds are within a factor `gamma` of the fitted ones.

        .. math:: \frac1\Gamma \le \frac{e'(x)/(1-e'(x))}{e(x)/(1-e(x))} \le \Gamma

        Parameters
        ----------
        gamma : float, at least 1
            1: the fitted propensity. ``np.inf``: the bounds as the factor grows without limit. That assumes nothing of
            rows with :math:`P > 0` and :math:`e < 1`; other rows do not move.

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
        r"""Bound everything for propensities between limits of your own, :math:`l(x) \le e(x) \le u(x)`.

        Parameters
        ----------
        lower, upper : floats or arrays of shape (n_rows,)
            In [0, 1]. A propensity below `label_probability` is impossible, so `upper` must not be there.

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
                f"{low[crossed[0]]:g} > {high[crossed[0]]:g})."
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
        """Bound one quantity for several factors.

        Parameters
        ----------
        quantity : str
            ======================================  ===============================================================
            "class_prior", "label_frequency"        of the rows
            "precision", "recall", "f1",            of fixed `decisions`
            "accuracy"
            "roc_auc"                               of fixed `scores`
            "probability"                           that `row` is positive
            "rank"                                  of `row` among all rows, 1 for the most probable positive
            "difference"                            of the probabilities of `row` and `rival`
            ======================================  ===============================================================
        gammas : array, optional
            Factors of at least 1. None: 37 of them, from 1 to 10.
        decisions, scores : arrays of shape (n_rows,), optional
            As in `SensitivityBounds`.
        row, rival : names of rows, optional
            As in the index of the data frame, or positions.

        Returns
        -------
        SensitivityCurve
        """
        asked = make_quantity(quantity, self._rows, decisions=decisions, scores=scores, row=row, rival=rival)
        factors = _check_gammas(GAMMAS if gammas is None else gammas, 1)
        if not np.isfinite(factors).all():
            raise ValueError("gammas of a curve must be finite; the limit is at(np.inf).")
        self._warn_about_certain_labels()
        fitted = asked.bounds(self._rows.probability_within_odds(1.0))
        bounds = np.array([asked.bounds(self._rows.probability_within_odds(gamma)) for gamma in factors])
        return SensitivityCurve(asked.label, factors, bounds[:, 0], bounds[:, 1], fitted.low)

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

        Bounds widen as :math:`\Gamma` grows, so the conclusion holds for every admissible propensity up to one factor
        and for not every one beyond it; bisection finds that factor. "Row A ranks above row B" is
        ``tipping_point("difference", row="A", rival="B", at_least=0)``.

        Parameters
        ----------
        quantity : str
            As in `curve`, with `decisions`, `scores`, `row` and `rival`.
        at_least, at_most : float
            The conclusion: give one of them.
        rtol : float, default=1e-6
            Relative tolerance. The factor returned does overturn the conclusion, and exceeds the smallest one that
            does by less than this share.

        Returns
        -------
        TippingPoint
            Its `gamma` is 1 where the conclusion does not hold for the fitted propensity, and infinite where no factor
            overturns it; limits of your own may, see `within`.
        """
        asked = make_quantity(quantity, self._rows, decisions=decisions, scores=scores, row=row, rival=rival)
        threshold, is_floor = _check_conclusion(at_least, at_most)
        if not 1e-12 <= real_number(rtol) < 1:
            raise ValueError(f"rtol must lie between 1e-12 and 1; got {shown(rtol)}.")
        self._warn_about_certain_labels()

        def bound(gamma: float) -> float:
            low, high = asked.bounds(self._rows.probability_within_odds(gamma))
            return low if is_floor else high

        fitted, limit = bound(1.0), bound(np.inf)
        gamma = _first_failure(lambda at: bound(at) >= threshold if is_floor else bound(at) <= threshold, rtol)
        side = "at least" if is_floor else "at most"
        return TippingPoint(gamma, asked.label, side, threshold, fitted, limit)

    def decision_gammas(self, threshold: float | ArrayLike = 0.5) -> Vector:
        r"""Return, for each row, the smallest factor that can carry its probability across a threshold.

        .. math:: \frac{f(1-e)}{t - fe} \text{ where } f > t, \qquad \frac{t - fe}{f(1-e)} \text{ where } f \le t

        and :math:`q/t` or :math:`t/q` where `s` was given, since a factor :math:`\Gamma` leaves the posterior of an
        unlabelled row between :math:`q/\Gamma` and :math:`\min(1, \Gamma q)`.

        How robust each decision is: 1 for a row at the threshold, infinite for one that no factor carries across, such
        as a labelled row.

        Parameters
        ----------
        threshold : float or array of shape (n_rows,), default=0.5
            In (0, 1).

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
            raise ValueError("threshold must lie strictly between 0 and 1; a probability is never beyond 0 or 1.")
        self._warn_about_certain_labels()
        q, e = self._rows.q, self._rows.e
        if q is None:
            return gamma_across(self._rows.f, e, t)
        moves = (self._rows.s == 0) & (e < 1) & (q > 0)
        return np.divide(np.maximum(q, t), np.minimum(q, t), out=np.full(q.shape, np.inf), where=moves)

    def __repr__(self) -> str:
        rows = f"{self._rows.n:,} rows" + ("" if self._rows.s is None else " with their labels")
        return (
            f"Sensitivity to a wrong propensity, {rows}. Ask at(gamma) or within(lower, upper) for bounds, "
            "curve(quantity) for bounds over gamma, tipping_point(quantity, at_least=...) for what overturns a "
            "conclusion."
        )

    def _warn_about_certain_labels(self) -> None:
        """Warn where a factor on the odds is no doubt at all: bounds would look better than they are."""
        rows = self._rows
        positives, certain = rows.weight * rows.f, rows.e > NEARLY_CERTAIN
        if certain.any() and positives @ certain >= SHARE_TO_WARN_OF * positives.sum():
            warn_user(
                f"{np.count_nonzero(certain)} of {rows.n} propensities are above {NEARLY_CERTAIN}. A factor gamma on "
                "such odds hardly moves them, and 1 not at all: bounds are as if they were known. To doubt them, use "
                "within(lower, upper).",
                UserWarning,
            )


def _check_gammas(gammas: ArrayLike, n_dimensions: int) -> Vector:
    try:
        factors = np.asarray(gammas, dtype=np.float64) if np.asarray(gammas).dtype != bool else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        factors = np.empty(0)
    if factors.ndim != n_dimensions or factors.size == 0 or not (factors >= 1).all():
        wanted = "one number" if n_dimensions == 0 else "a list of numbers"
        raise ValueError(
            f"gamma is a factor on the odds of the propensity: {wanted} of at least 1; got {shown(gammas)}."
        )
    return factors


def _check_conclusion(at_least: float | None, at_most: float | None) -> tuple[float, bool]:
    """Return the threshold, and whether it is a floor."""
    if (at_least is None) == (at_most is None):
        raise ValueError("a conclusion has one threshold: give at_least= or at_most=, and not both.")
    threshold = at_least if at_least is not None else at_most
    number = real_number(threshold)
    if not np.isfinite(number):
        name = "at_most" if at_least is None else "at_least"
        raise ValueError(f"{name} must be a finite number; got {shown(threshold)}.")
    return number, at_least is not None


def _first_failure(holds: Callable[[float], bool], rtol: float) -> float:
    """Return where in [1, inf) something that fails from some point on first fails."""
    if not holds(1.0):
        return 1.0
    if holds(np.inf):
        return math.inf
    low, high = 1.0, 2.0
    while holds(high):
        if high >= LARGEST_GAMMA:  # fails in the limit only
            return math.inf
        low, high = high, min(high * high, LARGEST_GAMMA)
    while high > low * (1.0 + rtol):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high
