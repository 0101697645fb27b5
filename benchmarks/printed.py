"""Numbers as other programs printed them, and the examples that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Number:
    """A number as printed, with ``decimals`` decimals of which the exact maximum confirms ``confirmed``."""

    value: float
    decimals: int
    confirmed: int

    @classmethod
    def parse(cls, text: str) -> Number:
        """Read ``0.4826``, or ``0.4826/3`` if only three of the four decimals are those of the maximum."""
        number, _, confirmed = text.partition("/")
        decimals = len(number.partition(".")[2])
        return cls(float(number), decimals, int(confirmed or decimals))

    def agrees(self, exact: float) -> bool:
        """Whether the value at the maximum is the printed one, up to rounding of the last decimal confirmed."""
        return abs(exact - self.value) <= 0.5 * 10.0**-self.confirmed

    def is_printed_of(self, value: float) -> bool:
        """Whether a value prints like this, to all decimals."""
        return abs(value - self.value) <= 0.5 * 10.0**-self.decimals


@dataclass(frozen=True)
class Estimate:
    """One coefficient of the model f, e or h; ``look`` if it is the intercept of one look only."""

    model: str
    term: str
    look: int | None
    value: Number
    se: Number | None


@dataclass(frozen=True)
class Example:
    """Data of a published example, its model and what was printed.

    Attributes
    ----------
    X : DataFrame
        One row a site: its own attributes and one column per look of every visit attribute.
    S : array of shape (n, K)
        1 seen, 0 not seen, NaN not looked.
    class_attributes, propensity_attributes : columns of X that f and e see, beside an intercept.
    visit_attributes : name -> one column of X per look, with one coefficient for all looks.
    intercept_per_look : each look has an intercept of e of its own.
    start : where the program began, if not at zero.
    printed_by : "unmarked" or "PRESENCE", for the estimates.
    false_positive_looks : looks that can be wrong, with one rate h for all of them; none if empty.
    aic, posterior, fit_statistic : None if not printed. The posterior is the probability of class 1 of a site that was
        looked at every time and never labelled; the statistic is MacKenzie and Bailey's chi-square of the data.
    """

    name: str
    printed_in: str
    formula: str
    X: pd.DataFrame
    S: np.ndarray
    estimates: tuple[Estimate, ...]
    class_attributes: tuple[str, ...] = ()
    propensity_attributes: tuple[str, ...] = ()
    visit_attributes: dict[str, list[str]] | None = None
    intercept_per_look: bool = False
    false_positive_looks: tuple[int, ...] = ()
    aic: Number | None = None
    posterior: Number | None = None
    fit_statistic: Number | None = None
    start: tuple[float, ...] | None = None
    printed_by: str = "unmarked"


def estimates(*lines: str) -> tuple[Estimate, ...]:
    """Read lines ``model term value [se]``; ``term@2`` is the coefficient of the third look only."""
    return tuple(_estimate(*line.split()) for line in lines)


def _estimate(model: str, term: str, value: str, se: str = "") -> Estimate:
    name, _, look = term.partition("@")
    error = Number.parse(se) if se else None
    return Estimate(model, name, int(look) if look else None, Number.parse(value), error)
