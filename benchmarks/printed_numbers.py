"""Numbers that other programs printed, and published examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Number:
    """A printed number with ``decimals`` decimals; the first ``confirmed`` of them agree with the exact maximum."""

    value: float
    decimals: int
    confirmed: int

    @classmethod
    def parse(cls, text: str) -> Number:
        """Read ``0.4826``, or ``0.4826/3`` if only three of the four decimals agree with the exact maximum."""
        number, _, confirmed = text.partition("/")
        decimals = len(number.partition(".")[2])
        return cls(float(number), decimals, int(confirmed or decimals))

    def agrees(self, exact: float) -> bool:
        """Return whether an exact value agrees with the printed one in all confirmed decimals."""
        return abs(exact - self.value) <= 0.5 * 10.0**-self.confirmed

    def is_printed_of(self, value: float) -> bool:
        """Return whether a value agrees with the printed one in all decimals."""
        return abs(value - self.value) <= 0.5 * 10.0**-self.decimals


@dataclass(frozen=True)
class Estimate:
    """A coefficient of the model f, e or h; ``look`` is set if the coefficient belongs to one look only."""

    model: str
    term: str
    look: int | None
    value: Number
    se: Number | None


@dataclass(frozen=True)
class Example:
    """Data of a published example, its model, and the printed estimates.

    Attributes
    ----------
    X : DataFrame
        Attributes of the sites, and one column for each look of every visit attribute.
    S : array of shape (n, K)
        1 for seen, 0 for not seen, NaN for a visit that did not take place.
    class_attributes, propensity_attributes : tuple of str
        Columns of X in the models f and e, which also have intercepts.
    visit_attributes : dict
        For each visit attribute, its columns of X, one for each look. The attribute has one coefficient for all looks.
    intercept_per_look : bool
        Whether each look has its own intercept of e.
    start : tuple of float
        Start of the program's optimisation; zero if None.
    printed_by : str
        Program that printed the estimates: "unmarked" or "PRESENCE".
    false_positive_looks : tuple of int
        Looks with false positives; they have a common rate h.
    aic, posterior, fit_statistic : Number
        None if not printed. The posterior is that of a site that was visited every time and never labelled; the
        statistic is MacKenzie and Bailey's chi-square.
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
    """Parse lines ``model term value [se]``; ``term@2`` is the coefficient of the third look only."""
    return tuple(_estimate(*line.split()) for line in lines)


def _estimate(model: str, term: str, value: str, se: str = "") -> Estimate:
    name, _, look = term.partition("@")
    error = Number.parse(se) if se else None
    return Estimate(model, name, int(look) if look else None, Number.parse(value), error)
