"""What every labelling mechanism is: a propensity for each row, and the assumption that it keeps."""

from abc import ABC, abstractmethod
from contextlib import suppress
from numbers import Real
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from scarless.checks.options import shown
from scarless.checks.vectors import check_probability, check_propensity
from scarless.labelling.attributes import count_rows
from scarless.numerics.arrays import ArrayLike, Vector

Assumption: TypeAlias = Literal["SCAR", "SAR", "SNAR"]


class LabellingMechanism(ABC):
    r"""A labelling mechanism: who among the positives gets a label.

    .. math:: e(x) = \Pr(s=1 \mid y=1, x)

    For a mechanism of your own write `compute_propensity` and set `assumption`; the page "Extend it" has a complete
    example. `scarless compare` takes such a class by its import path.

    `assumption` is the strongest of these classes that the mechanism's *form* guarantees:

    - ``"SCAR"``, selected completely at random: `e` is constant;
    - ``"SAR"``, selected at random: `e` depends on known attributes only;
    - ``"SNAR"``, selected not at random: everything else. A mechanism that is given the true class
      probability is here. ``Pr(y=1|x)`` is a function of `x` too, but an unknown one, the very function that
      a model shall learn: there are no known propensity attributes to model `e` with, apart from the class.

    Particular parameters may make a mechanism simpler than its form, such as coefficients of 0. A class that does not
    say is ``"SNAR"``.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> from scarless.labelling import SCAR, ProbabilisticGap
    >>> SCAR(0.3).assumption, ProbabilisticGap().assumption
    ('SCAR', 'SNAR')
    """

    assumption: ClassVar[Assumption] = "SNAR"

    def propensity(self, X: Any, *, class_probability: ArrayLike | None = None) -> Vector:
        """Return the propensity of each row of `X`.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_columns)
            The attributes.
        class_probability : array of shape (n_rows,), optional
            The true ``Pr(y=1|x)`` of each row. SNAR mechanisms may need it; the others do not look at it, so
            that one call serves them all.

        Returns
        -------
        propensity : array of shape (n_rows,)
            Values in (0, 1].
        """
        n_rows = count_rows(X)
        p = None
        if class_probability is not None:
            p = check_probability(class_probability, n_rows=n_rows, name="class_probability")
        return check_propensity(self.compute_propensity(X, p), n_rows=n_rows)

    @abstractmethod
    def compute_propensity(self, X: Any, class_probability: Vector | None) -> ArrayLike:
        """Compute the propensities: the one method that a mechanism must have.

        `propensity` calls it with a table of two dimensions, and checks what it returns.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_rows, n_columns)
            The attributes, as they came.
        class_probability : array of shape (n_rows,) or None
            Checked probabilities, where the caller knows them.

        Returns
        -------
        propensity : float or array of shape (n_rows,)
            Values in (0, 1]: one per row, or one for all rows.
        """

    def fitted(self, X: Any) -> Self:
        """Return the mechanism with what it takes from data fixed to `X`; most take nothing: self."""
        return self


def check_number(value: Any, name: str) -> float:
    """Return one finite real number as a float.

    Examples
    --------
    >>> check_number(np.float32(0.5), "low")
    0.5
    """
    number = np.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):  # a whole number may be too large for a float
            number = float(value)
    if not np.isfinite(number):
        raise ValueError(f"{name} must be one finite number; it is {shown(value)}.")
    return number


def check_one_propensity(value: Any, name: str) -> float:
    """Return one number in (0, 1].

    Examples
    --------
    >>> check_one_propensity(1, "label_frequency")
    1.0
    """
    number = check_number(value, name)
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{name} must lie in (0, 1]; it is {number:g}.")
    return number


def check_range(low: Any, high: Any, *, allow_zero: bool = False) -> tuple[float, float]:
    """Return the lowest and the highest propensity, ``0 < low < high <= 1``.

    Examples
    --------
    >>> check_range(0.2, 0.8)
    (0.2, 0.8)
    """
    bottom = 0.0 if allow_zero and check_number(low, "low") == 0.0 else check_one_propensity(low, "low")
    top = check_one_propensity(high, "high")
    if bottom >= top:
        raise ValueError(
            f"low must be below high; low is {bottom:g} and high is {top:g}. "
            f"A constant propensity is SCAR({top:g}); to lower the propensity with an attribute "
            "turn its sign around, not the range."
        )
    return bottom, top


def require_class_probability(p: Vector | None, who: str) -> Vector:
    """Return the class probabilities, or say how to give them."""
    if p is None:
        raise ValueError(
            f"{who} needs the true class probability Pr(y=1|x) of each row: "
            "propensity(X, class_probability=p), where p may come from a model trained on the true classes."
        )
    return p
