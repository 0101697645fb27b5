"""Strata: rows numbered by the combination of values that they hold, and an estimate for each number."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from scarless.checks.tables import take_rows
from scarless.label_frequency.names import fit_label_frequency
from scarless.numerics.arrays import Array, Vector

Codes = NDArray[np.int64]
_NOT_A_VALUE = ("None", "nan", "NaT", "<NA>")  # how missing values look as text


def comparable(values: Array, name: str) -> Array:
    """Return one attribute as floats or, where it holds other things than numbers, as text; nothing may be missing."""
    held = np.asarray(values.tolist()) if values.dtype.kind == "O" else values
    if held.dtype.kind in "fiub":
        clean = held if held.dtype.kind == "f" else held.astype(np.float64)
        missing = np.flatnonzero(np.isnan(clean))
    else:
        clean = held.astype(str)
        suspects = np.flatnonzero(np.isin(clean, _NOT_A_VALUE))
        missing = suspects[[not isinstance(values[row], str) for row in suspects]]
    if missing.size:
        raise ValueError(
            f"propensity attribute {name} has {missing.size} missing values of {values.size} (first: row "
            f"{missing[0]}). Give missing values a value of their own, or drop these rows."
        )
    return clean


class Combinations(NamedTuple):
    """The combinations of values that occur in some columns, numbered in sorted order."""

    levels: list[Array]  # per column, its values, sorted
    keys: list[Codes]  # per column, number of the combination so far and place among the levels, as one number

    def find(self, columns: list[Array], n_rows: int) -> Codes:
        """Return the number of each row's combination, -1 where it is not among them."""
        code, known = np.zeros(n_rows, dtype=np.int64), np.ones(n_rows, dtype=bool)
        for levels, keys, column in zip(self.levels, self.keys, columns, strict=True):
            if levels.dtype != column.dtype and levels.dtype.kind == "f":  # 0.1 of float32 is 0.1 of float64
                with np.errstate(over="ignore"):
                    levels, column = levels.astype(np.float32), column.astype(np.float32)  # noqa: PLW2901
            place, is_level = _place(levels, column)
            code, is_key = _place(keys, code * levels.size + place)
            known &= is_level & is_key
        return np.where(known, code, -1)


def combine(columns: list[Array], n_rows: int) -> tuple[Combinations, Codes]:
    """Return the combinations that occur, and the number of each row's."""
    code, found = np.zeros(n_rows, dtype=np.int64), Combinations([], [])
    for column in columns:
        levels, place = np.unique(column, return_inverse=True)
        keys, code = np.unique(code * levels.size + place, return_inverse=True)
        found.levels.append(levels)
        found.keys.append(keys)
    return found, code


class Estimates(NamedTuple):
    """What an estimator found for all rows and within strata, and what it said meanwhile."""

    estimator: Any  # fitted to all rows
    pooled: float
    within: Vector  # NaN where there is no estimate
    failures: dict[int, str]  # by stratum
    notices: dict[type[Warning], dict[int | None, str]]  # by kind and stratum; None: all rows


def estimate_within(prototype: Any, X: Any, s: Vector, w: Vector | None, code: Codes, chosen: Codes) -> Estimates:
    """Estimate the label frequency of all rows together and of each chosen stratum."""
    estimator = clone(prototype, safe=False)
    notices: dict[type[Warning], dict[int | None, str]] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pooled = fit_label_frequency(estimator, X, s, w)
    _collect(notices, None, caught)
    estimates = Estimates(estimator, pooled, np.full(code.max() + 1, np.nan), {}, notices)
    order = np.argsort(code, kind="stable")
    starts, stops = (np.searchsorted(code[order], chosen, side=side) for side in ("left", "right"))
    for stratum, start, stop in zip(chosen.tolist(), starts, stops, strict=True):
        rows = order[start:stop]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                weight = None if w is None else w[rows]
                c = fit_label_frequency(clone(prototype, safe=False), take_rows(X, rows), s[rows], weight)
                estimates.within[stratum] = c
            except ValueError as error:
                estimates.failures[stratum] = str(error)
        _collect(notices, stratum, caught)
    return estimates


def _collect(notices: dict[type[Warning], dict[int | None, str]], stratum: int | None, caught: Any) -> None:
    for notice in caught:
        notices.setdefault(notice.category, {}).setdefault(stratum, str(notice.message))


def _place(ordered: Array, values: Array) -> tuple[Codes, NDArray[np.bool_]]:
    """Return where each value stands in an ordered array, and whether it is there at all."""
    place = np.minimum(np.searchsorted(ordered, values), ordered.size - 1)
    return place, ordered[place] == values
