"""Labelling mechanisms with a formula: constant, geometric mean, logistic, and a function of the class probability."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import expit, logit

from scarless.checks.attributes import check_selector
from scarless.checks.options import check_choice, check_flag, shown
from scarless.labelling.base import (
    Assumption,
    Attributes,
    LabellingMechanism,
    attribute_matrix,
    check_count,
    check_known_count,
    check_number,
    check_one_propensity,
    check_range,
    fixed_attributes,
    read_attributes,
    require_class_probability,
)
from scarless.numerics.arrays import Vector

Range = tuple[float, float]


@dataclass(frozen=True)
class SCAR(LabellingMechanism):
    r"""Mechanism "selected completely at random": every positive has the same propensity.

    .. math:: e(x) = c

    Parameters
    ----------
    label_frequency : float
        Label frequency ``c = Pr(s=1|y=1)``, in (0, 1].

    References
    ----------
    Elkan and Noto, "Learning classifiers from only positive and unlabeled data", KDD 2008.

    Examples
    --------
    >>> SCAR(0.3).propensity([[1.0], [2.0]])
    array([0.3, 0.3])
    """

    assumption: ClassVar[Assumption] = "SCAR"
    label_frequency: float

    def __post_init__(self) -> None:
        _set(self, label_frequency=check_one_propensity(self.label_frequency, "label_frequency"))

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> float:
        """Compute the propensities by the formula of this mechanism."""
        return self.label_frequency


@dataclass(frozen=True)
class GeometricMeanSAR(LabellingMechanism):
    r"""Mechanism of Bekker, Robberechts and Davis: a geometric mean over the propensity attributes.

    .. math:: e(x_e) = \prod_{i=1}^k \bigl(low^{1-x_i}\, high^{x_i}\bigr)^{1/k}

    Each attribute is scaled to [0, 1] by its minimum and maximum. If its sign is -1, :math:`1 - x_i` replaces
    :math:`x_i`. The propensity is `low` if all these values are 0, and `high` if all are 1. The mechanism is SAR.

    Parameters
    ----------
    attributes : column selector
        Columns that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns.
    low, high : float, default=0.2 and 0.8
        Range of the propensities, ``0 < low < high <= 1``.
    signs : sequence of +1 and -1, optional
        Sign of each column, in the order of `attributes`; the columns of an encoded attribute are in the order of `X`.
        With -1, the column lowers the propensity. All +1 by default. If there is a 0/1 column for every category of an
        attribute, do not give all these columns the same sign: in every row, one of them is 1, so their mean is
        constant.
    ranges : sequence of (minimum, maximum), optional
        Minimum and maximum of each column, in the same order. By default, they are computed from the `X` passed to
        `propensity`, so the propensity of a row depends on the other rows. Use `fitted` if training and test rows need
        the same scale.
    outside : {"raise", "clip"}, default="raise"
        What to do with a value outside its range in `ranges`: raise an error, or replace it by the nearest limit.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019; the experiments use low=0.2 and high=0.8.

    Examples
    --------
    >>> X = [[0, 20.0], [1, 20.0], [1, 60.0]]
    >>> mechanism = GeometricMeanSAR([0, 1], low=0.2, high=0.8, signs=[1, -1])
    >>> mechanism.propensity(X)
    array([0.4, 0.8, 0.4])

    Use the same scale for training and test rows:

    >>> mechanism.fitted(X).ranges
    ((0.0, 1.0), (20.0, 60.0))
    >>> mechanism.fitted(X).propensity([[1, 40.0]]).round(4)
    array([0.5657])
    """

    assumption: ClassVar[Assumption] = "SAR"
    attributes: Any = field(hash=False)  # Slices and polars selectors are not hashable.
    low: float = 0.2
    high: float = 0.8
    signs: Sequence[int] | None = None
    _: KW_ONLY
    ranges: Sequence[Range] | None = None
    outside: Literal["raise", "clip"] = "raise"

    def __post_init__(self) -> None:
        attributes = check_selector(self.attributes, "attributes")
        low, high = check_range(self.low, self.high, "set the entry of signs for the attribute to -1")
        _set(
            self,
            attributes=attributes,
            low=low,
            high=high,
            signs=None if self.signs is None else _check_signs(self.signs, attributes),
            ranges=None if self.ranges is None else _check_ranges(self.ranges, attributes),
        )
        check_choice(self.outside, "outside", ("raise", "clip"))

    def fitted(self, X: Any) -> Self:
        """Return a copy with the columns of `X` fixed; without `ranges`, their minima and maxima become the ranges."""
        attributes = fixed_attributes(X, self.attributes)
        chosen = read_attributes(X, attributes)
        ranges = _find_ranges(chosen) if self.ranges is None else self.ranges
        check_count(len(ranges), "ranges", chosen.labels)
        return replace(self, attributes=attributes, ranges=ranges)

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula of this mechanism."""
        chosen = read_attributes(X, self.attributes)
        signs = self.signs or (1,) * len(chosen.labels)
        check_count(len(signs), "signs", chosen.labels)
        values = attribute_matrix(chosen)
        ranges = self.ranges or _find_ranges(chosen)
        check_count(len(ranges), "ranges", chosen.labels)
        bottom, top = np.asarray(ranges).T
        if self.outside == "raise":
            _check_inside(values, ranges, chosen.labels)
        x = (np.clip(values, bottom, top) - bottom) / (top - bottom)
        return geometric_mean(np.where(np.asarray(signs) > 0, x, 1.0 - x), self.low, self.high)


@dataclass(frozen=True)
class LogisticSAR(LabellingMechanism):
    r"""Mechanism with a logistic function of the propensity attributes, which are not scaled.

    .. math:: e(x_e) = low + (high - low)\, \frac{1}{1 + \exp(-(b + w \cdot x_e))}

    With the default range, this is the propensity model that `scarless` fits. The mechanism is SAR.

    Parameters
    ----------
    attributes : column selector
        Columns that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns.
    coefficients : sequence of float
        Coefficients `w`, one for each column, in the order of `attributes`; the columns of an encoded attribute are in
        the order of `X`.
    intercept : float, default=0.0
        Intercept `b`.
    low, high : float, default=0.0 and 1.0
        Range of the propensities, ``0 <= low < high <= 1``.

    References
    ----------
    Furmanczyk, Mielniczuk, Rejchel and Teisseyre, "Double logistic regression approach to biased
    positive-unlabeled data", arXiv:2209.07787, 2022.

    Examples
    --------
    >>> LogisticSAR([0], [2.0], -1.0).propensity([[0.5], [1.5]]).round(4)
    array([0.5   , 0.8808])
    """

    assumption: ClassVar[Assumption] = "SAR"
    attributes: Any = field(hash=False)  # Slices and polars selectors are not hashable.
    coefficients: Sequence[float]
    intercept: float = 0.0
    _: KW_ONLY
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        attributes = check_selector(self.attributes, "attributes")
        given = np.ravel(self.coefficients).tolist()
        check_known_count(len(given), "coefficients", attributes)
        low, high = check_range(self.low, self.high, "use a negative coefficient", allow_zero=True)
        _set(
            self,
            attributes=attributes,
            coefficients=tuple(check_number(w, f"coefficients[{i}]") for i, w in enumerate(given)),
            intercept=check_number(self.intercept, "intercept"),
            low=low,
            high=high,
        )

    def fitted(self, X: Any) -> Self:
        """Return a copy with the columns of `X` fixed, so that it selects the same columns in other tables."""
        return replace(self, attributes=fixed_attributes(X, self.attributes))

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula of this mechanism."""
        chosen = read_attributes(X, self.attributes)
        check_count(len(self.coefficients), "coefficients", chosen.labels)
        values = attribute_matrix(chosen)
        with np.errstate(over="ignore"):
            parts = values * np.asarray(self.coefficients)
        if ((parts == np.inf).any(axis=1) & (parts == -np.inf).any(axis=1)).any():
            raise ValueError(
                f"coefficients={shown(self.coefficients)} are so large that their products with the attributes "
                "overflow to both +inf and -inf. Use smaller coefficients, or scale the columns."
            )
        with np.errstate(over="ignore"):
            return logistic(self.intercept + parts.sum(axis=1), self.low, self.high)


@dataclass(frozen=True)
class ProbabilisticGap(LabellingMechanism):
    r"""Mechanism with a propensity that is a monotone function of the gap between the class probabilities.

    .. math:: \Delta(x) = \Pr(y=1|x) - \Pr(y=0|x) = 2 p(x) - 1

    .. math:: e(x) = low + (high - low)\, t^{power}, \qquad
              t = \frac{1 - \Delta}{2} \text{ (decreasing)}, \quad
              t = \frac{1 + \Delta}{2} \text{ (increasing)}

    With `absolute`, :math:`t` is :math:`1 - |\Delta|` (decreasing) or :math:`|\Delta|` (increasing). The mechanism is
    SNAR. It needs the true class probability, ``propensity(X, class_probability=p)``, and uses no attributes.

    With ``"increasing"``, the default, clear positives are labelled most often, as He et al. assume. With
    ``"decreasing"``, clear positives are labelled least often, for example because nobody records obvious cases. Gong
    et al. assume that labels are more frequent far from the decision boundary (``absolute=True`` with
    ``"increasing"``), or close to it (``absolute=True`` with ``"decreasing"``).

    If the classes are separable, :math:`p` is 1 for every positive, and the labels are SCAR.

    Parameters
    ----------
    low, high : float, default=0.2 and 0.8
        Range of the propensities, ``0 < low < high <= 1``.
    power : float, default=1.0
        Positive exponent; with 1 the propensity is linear in the gap.
    direction : {"increasing", "decreasing"}, default="increasing"
        Whether the propensity increases or decreases with the gap.
    absolute : bool, default=False
        Whether to use the absolute value of the gap.

    References
    ----------
    He, Liu, Webb and Tao, "Instance-Dependent PU Learning by Bayesian Optimal Relabeling",
    arXiv:1808.02180, 2018.

    Gong, Wang, Liu, Han, You, Yang and Tao, "Instance-Dependent Positive and Unlabeled Learning With Labeling
    Bias Estimation", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2022.

    Examples
    --------
    >>> X, p = [[1.0], [2.0], [3.0]], [0.1, 0.5, 1.0]
    >>> ProbabilisticGap().propensity(X, class_probability=p)
    array([0.26, 0.5 , 0.8 ])
    >>> ProbabilisticGap(direction="decreasing").propensity(X, class_probability=p)
    array([0.74, 0.5 , 0.2 ])
    """

    assumption: ClassVar[Assumption] = "SNAR"
    low: float = 0.2
    high: float = 0.8
    _: KW_ONLY
    power: float = 1.0
    direction: Literal["increasing", "decreasing"] = "increasing"
    absolute: bool = False

    def __post_init__(self) -> None:
        low, high = check_range(self.low, self.high, "set direction='decreasing'")
        power = check_number(self.power, "power")
        if power <= 0.0:
            raise ValueError(f"power must be positive; it is {power:g}. To reverse the curve, set direction.")
        if not isinstance(self.direction, str) or self.direction not in ("decreasing", "increasing"):
            raise ValueError(f"direction must be 'decreasing' or 'increasing'; it is {shown(self.direction)}.")
        _set(self, low=low, high=high, power=power, absolute=check_flag(self.absolute, "absolute"))

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula of this mechanism."""
        share = gap_share(require_class_probability(class_probability, "ProbabilisticGap"), absolute=self.absolute)
        return power_curve(share, self.low, self.high, self.power, decreasing=self.direction == "decreasing")


@dataclass(frozen=True)
class ClassProbabilityCurve(LabellingMechanism):
    r"""Mechanism with a propensity that is a curve over the class probability :math:`p(x) = \Pr(y=1|x)`.

    .. math:: e(x) = scale \cdot g(intercept + slope \cdot t)^{power}

    where :math:`t` is :math:`p` or its logit, and :math:`g` is the identity, the logistic function or the distribution
    function of the Cauchy distribution. Values are limited to [1e-12, 1]. The mechanism is SNAR. It needs the true
    class probability, ``propensity(X, class_probability=p)``, and uses no attributes.

    The mechanisms of several published comparisons have this form; `named` returns them:

    ======== ===================================== ==========================================
    name     propensity                            source
    ======== ===================================== ==========================================
    S1       .1                                    Teisseyre et al. (2025)
    S2       .1 p                                  Teisseyre et al. (2025)
    S3       logistic(-.5 p - 1.5)                 Teisseyre et al. (2025)
    S4       .5 logistic(-.5 logit p)              Teisseyre et al. (2025)
    LBE-A    p to the power of 10                  Gong et al. (2022)
    LBE-B    (1.5 - p) to the power of 10, scaled  Gong et al. (2022)
    PUSB     p to the power of 20                  Chen et al. (2026), after Kato et al. (2019)
    logistic logistic(logit p)                     Rejchel et al. (2024)
    Cauchy   Cauchy(logit p)                       Rejchel et al. (2024)
    steep    logistic(logit p) to the power of 10  Rejchel et al. (2024)
    ======== ===================================== ==========================================

    Gong et al. draw a tenth of the labels of LBE-A from all positives alike; this part is not in the curve.

    Parameters
    ----------
    link : {"identity", "logistic", "cauchy"}, default="identity"
        Function `g`.
    of : {"probability", "logit"}, default="probability"
        What :math:`t` is. For the logit, probabilities are first limited to [1e-9, 1 - 1e-9].
    slope : float, default=1.0
        Slope of the curve; negative if clear positives are labelled least often.
    intercept : float, default=0.0
        Intercept.
    power : float, default=1.0
        Positive exponent.
    scale : float, default=1.0
        Positive factor.

    References
    ----------
    Teisseyre, Martens, Bekker and Davis, "Learning from biased positive-unlabeled data via threshold calibration",
    AISTATS 2025.

    Gong, Wang, Liu, Han, You, Yang and Tao, "Instance-Dependent Positive and Unlabeled Learning With Labeling
    Bias Estimation", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2022.

    Rejchel, Teisseyre and Mielniczuk, "Joint empirical risk minimization for instance-dependent positive-unlabeled
    data", Knowledge-Based Systems, 2024.

    Examples
    --------
    >>> X, p = [[1.0], [2.0], [3.0]], [0.1, 0.5, 1.0]
    >>> ClassProbabilityCurve(power=2.0).propensity(X, class_probability=p)
    array([0.01, 0.25, 1.  ])
    >>> ClassProbabilityCurve.named("S4").propensity(X, class_probability=p).round(3)
    array([0.375, 0.25 , 0.   ])
    """

    assumption: ClassVar[Assumption] = "SNAR"
    link: Literal["identity", "logistic", "cauchy"] = "identity"
    _: KW_ONLY
    of: Literal["probability", "logit"] = "probability"
    slope: float = 1.0
    intercept: float = 0.0
    power: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, known in (("link", tuple(_LINKS)), ("of", ("probability", "logit"))):
            given = getattr(self, name)
            if not isinstance(given, str) or given not in known:
                raise ValueError(f"{name} must be {' or '.join(map(repr, known))}; it is {shown(given)}.")
        numbers = {name: check_number(getattr(self, name), name) for name in ("slope", "intercept", "power", "scale")}
        for name in ("power", "scale"):
            if numbers[name] <= 0.0:
                raise ValueError(f"{name} must be positive; it is {numbers[name]:g}.")
        _set(self, **numbers)

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the mechanism of a published comparison, by its name in the table above.

        Parameters
        ----------
        name : str
            "S1", "S2", "S3", "S4", "LBE-A", "LBE-B", "PUSB", "logistic", "Cauchy" or "steep".

        Returns
        -------
        ClassProbabilityCurve
        """
        if not isinstance(name, str) or name not in NAMED_CURVES:
            raise ValueError(f"There is no curve {shown(name)}. The curves are {', '.join(NAMED_CURVES)}.")
        return cls(**NAMED_CURVES[name])

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula of this mechanism."""
        p = require_class_probability(class_probability, "ClassProbabilityCurve")
        t = p if self.of == "probability" else logit(np.clip(p, _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY))
        curve = _LINKS[self.link](self.intercept + self.slope * t)
        with np.errstate(over="ignore"):  # A huge power of a number above 1 is infinite, and clipped to 1.
            powers = np.maximum(curve, 0.0) ** self.power
        return np.clip(self.scale * powers, _LEAST_PROPENSITY, 1.0)


# Limits of probabilities before they become logits, and of propensities, which must be positive. By judgement.
_LEAST_PROBABILITY, _LEAST_PROPENSITY = 1e-9, 1e-12
_LINKS = {"identity": lambda z: z, "logistic": expit, "cauchy": lambda z: 0.5 + np.arctan(z) / np.pi}
NAMED_CURVES: dict[str, dict[str, Any]] = {
    "S1": {"slope": 0.0, "intercept": 1.0, "scale": 0.1},
    "S2": {"scale": 0.1},
    "S3": {"link": "logistic", "slope": -0.5, "intercept": -1.5},
    "S4": {"link": "logistic", "of": "logit", "slope": -0.5, "scale": 0.5},
    "LBE-A": {"power": 10.0},
    "LBE-B": {"slope": -1.0, "intercept": 1.5, "power": 10.0, "scale": 1.5**-10},
    "PUSB": {"power": 20.0},
    "logistic": {"link": "logistic", "of": "logit"},
    "Cauchy": {"link": "cauchy", "of": "logit"},
    "steep": {"link": "logistic", "of": "logit", "power": 10.0},
}


def _set(mechanism: LabellingMechanism, **checked: Any) -> None:
    """Store checked values in a frozen dataclass; only for ``__post_init__``."""
    for name, value in checked.items():
        object.__setattr__(mechanism, name, value)


def _check_signs(signs: Sequence[int], attributes: Any) -> tuple[int, ...]:
    given = np.ravel(signs).tolist()
    check_known_count(len(given), "signs", attributes)
    for place, sign in enumerate(given):
        if not isinstance(sign, int | float) or isinstance(sign, bool) or sign not in (-1, 1):
            raise ValueError(f"signs must be +1 or -1; signs[{place}] is {sign!r}.")
    return tuple(int(sign) for sign in given)


def _check_ranges(ranges: Sequence[Range], attributes: Any) -> tuple[Range, ...]:
    if isinstance(ranges, str) or not np.iterable(ranges):
        raise ValueError(
            "ranges must be a list with one pair (minimum, maximum) for each attribute, such as [(0, 1)]; it is "
            f"{shown(ranges)}."
        )
    given = list(ranges)
    check_known_count(len(given), "ranges", attributes)
    checked = []
    for place, pair in enumerate(given):
        name = f"ranges[{place}]"
        if np.shape(pair) != (2,):
            raise ValueError(f"{name} must be a pair (minimum, maximum); it is {pair!r}.")
        bottom, top = (check_number(end, f"{name}[{i}]") for i, end in enumerate(pair))
        if bottom >= top:
            raise ValueError(f"{name} must have a minimum below its maximum; it is ({bottom:g}, {top:g}).")
        checked.append((bottom, top))
    return tuple(checked)


def _find_ranges(attributes: Attributes) -> tuple[Range, ...]:
    values = attribute_matrix(attributes)
    if not len(values):
        raise ValueError(
            "X has no rows, so the attributes have no minimum and maximum. Pass a table with rows, or set ranges and "
            "do not call fitted."
        )
    found = tuple(zip(values.min(axis=0).tolist(), values.max(axis=0).tolist(), strict=True))
    for label, (bottom, top) in zip(attributes.labels, found, strict=True):
        if bottom == top:
            raise ValueError(
                f"{label} is {bottom:g} in every row, so it cannot be scaled to [0, 1]. Leave it out of attributes, "
                "or set ranges and do not call fitted."
            )
    return found


def _check_inside(values: Vector, ranges: Sequence[Range], labels: Sequence[str]) -> None:
    for label, column, (bottom, top) in zip(labels, values.T, ranges, strict=True):
        bad = np.flatnonzero((column < bottom) | (column > top))
        if bad.size:
            raise ValueError(
                f"{label} has {bad.size} of {column.size} values outside its range "
                f"[{bottom:g}, {top:g}] (first: row {bad[0]} = {column[bad[0]]:g}; rows are counted from 0). "
                "Widen ranges, call fitted with all rows, or set outside='clip'."
            )


def geometric_mean(x: Vector, low: float, high: float) -> Vector:
    r"""Return the geometric mean over the columns of `x`, each mapped to the range from `low` (at 0) to `high` (at 1).

    .. math:: \prod_{i=1}^k \bigl(low^{1-x_i}\, high^{x_i}\bigr)^{1/k} = low^{1-m}\, high^{m},
              \qquad m = \tfrac1k \sum_i x_i

    The result depends only on the mean `m` of a row. All values of `x` must be in [0, 1].

    Examples
    --------
    >>> geometric_mean(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), 0.2, 0.8)
    array([0.2, 0.4, 0.8])
    """
    m = x.mean(axis=1)
    # The product is between low and high, up to rounding errors, which the clip removes.
    return np.clip(low ** (1.0 - m) * high**m, low, high)


def logistic(z: Vector, low: float, high: float) -> Vector:
    r"""Return the logistic function of the logit `z`, scaled to the range from `low` to `high`.

    .. math:: low + (high - low) \, \frac{1}{1 + \exp(-z)}

    Examples
    --------
    >>> logistic(np.array([0.0]), 0.2, 0.8)
    array([0.5])
    """
    return np.clip(low + (high - low) * expit(z), low, high)


def gap_share(p: Vector, *, absolute: bool) -> Vector:
    r"""Return the gap between the class probabilities, mapped to [0, 1].

    With :math:`\Delta = Pr(y=1|x) - Pr(y=0|x) = 2p - 1`, the result is :math:`(1+\Delta)/2 = p`, or :math:`|\Delta|`
    with `absolute`.

    Examples
    --------
    >>> gap_share(np.array([0.0, 0.5, 1.0]), absolute=True)
    array([1., 0., 1.])
    """
    return np.abs(2.0 * p - 1.0) if absolute else p


def power_curve(share: Vector, low: float, high: float, power: float, *, decreasing: bool) -> Vector:
    r"""Return a power of `share`, scaled to the range from `low` to `high`.

    .. math:: low + (high - low)\, t^{power}, \qquad t = share \text{ or } 1 - share

    Examples
    --------
    >>> power_curve(np.array([0.0, 0.5, 1.0]), 0.2, 0.8, 1.0, decreasing=True)
    array([0.8, 0.5, 0.2])
    """
    t = 1.0 - share if decreasing else share
    return np.clip(low + (high - low) * t**power, low, high)
