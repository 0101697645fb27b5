"""Labelling mechanisms with a constant propensity within strata: combinations of values, or steps of one attribute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from scarless.checks.attributes import check_selector, count_columns
from scarless.checks.labels import is_missing_value
from scarless.checks.options import shown
from scarless.labelling.base import (
    Assumption,
    LabellingMechanism,
    attribute_matrix,
    check_count,
    check_known_count,
    check_number,
    check_one_propensity,
    fixed_attributes,
    read_attributes,
)
from scarless.numerics.arrays import Vector

Stratum = tuple[Any, ...]
_ONE_ATTRIBUTE = "attribute must select one column; it selects {}. For several columns, use StratifiedSAR."


@dataclass(frozen=True)
class StratifiedSAR(LabellingMechanism):
    r"""Mechanism with one propensity for each combination of attribute values: SCAR within each stratum.

    .. math:: e(x_e) = c_{x_e}

    The mechanism is SAR. Values need not be numbers. They are compared by Python's ``==``: 1, 1.0 and True are equal.

    Parameters
    ----------
    attributes : column selector
        Columns whose values define the strata: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns.
    table : mapping
        Propensity of each stratum, in (0, 1]. A key is the tuple of the values of the columns, in the order of
        `attributes`; the columns of an encoded attribute are in the order of `X`. For one column, the key can be the
        value itself. Every stratum of `X` must be in the table.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019 (reducing SAR to SCAR by strata).

    Examples
    --------
    >>> table = {("north", 0): 0.2, ("north", 1): 0.4, ("south", 0): 0.6, ("south", 1): 0.8}
    >>> X = np.array([["south", 1], ["north", 0]], dtype=object)
    >>> StratifiedSAR([0, 1], table).propensity(X)
    array([0.8, 0.2])
    """

    assumption: ClassVar[Assumption] = "SAR"
    attributes: Any = field(hash=False)  # Slices and polars selectors are not hashable.
    table: Mapping[Any, float] = field(hash=False)

    def __post_init__(self) -> None:
        attributes = check_selector(self.attributes, "attributes")
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "table", _check_table(self.table, attributes))

    def fitted(self, X: Any) -> Self:
        """Return a copy with the columns of `X` fixed, so that it selects the same columns in other tables."""
        return replace(self, attributes=fixed_attributes(X, self.attributes))

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula of this mechanism."""
        chosen = read_attributes(X, self.attributes)
        for stratum in self.table:
            check_count(len(stratum), f"table: the stratum {stratum!r}", chosen.labels)
        columns = [values.tolist() for values in chosen.columns]
        for label, column in zip(chosen.labels, columns, strict=True):
            _check_cells(column, label)
        strata = list(zip(*columns, strict=True))
        _check_strata_in_table(strata, self.table, chosen.labels)
        return np.array([self.table[stratum] for stratum in strata], dtype=np.float64)


@dataclass(frozen=True)
class StepSAR(LabellingMechanism):
    r"""Mechanism with a propensity that changes at thresholds of one attribute.

    .. math:: e(x_e) = c_j \quad\text{if}\quad t_j \le x_e < t_{j+1},
              \qquad t_0 = -\infty,\; t_{m+1} = \infty

    The mechanism is SAR. A value equal to a threshold belongs to the step above it.

    Parameters
    ----------
    attribute : column selector
        The column that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name
        of an encoded attribute selects all of its columns. Only one column may be selected.
    thresholds : sequence of float
        Thresholds :math:`t_1 < ... < t_m`.
    propensities : sequence of float
        Propensities :math:`c_0, ..., c_m` of the steps, in (0, 1]: one more than there are thresholds.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019 (reducing SAR to SCAR by strata).

    Examples
    --------
    >>> StepSAR(0, thresholds=[18, 65], propensities=[0.9, 0.3, 0.6]).propensity([[17], [18], [64.9], [80]])
    array([0.9, 0.3, 0.3, 0.6])
    """

    assumption: ClassVar[Assumption] = "SAR"
    attribute: Any = field(hash=False)  # Slices and polars selectors are not hashable.
    thresholds: Sequence[float]
    propensities: Sequence[float]

    def __post_init__(self) -> None:
        attribute = check_selector(self.attribute, "attribute")
        if count_columns(attribute)[0] != 1:
            raise ValueError(_ONE_ATTRIBUTE.format(count_columns(attribute)[0]))
        thresholds = tuple(
            check_number(t, f"thresholds[{i}]") for i, t in enumerate(np.ravel(self.thresholds).tolist())
        )
        propensities = tuple(
            check_one_propensity(c, f"propensities[{i}]") for i, c in enumerate(np.ravel(self.propensities).tolist())
        )
        if any(right <= left for left, right in pairwise(thresholds)):
            raise ValueError(f"thresholds must increase; they are {thresholds}. Sort them, and remove repeated values.")
        if len(propensities) != len(thresholds) + 1:
            raise ValueError(
                "propensities must have one value for each step, one more than there are thresholds. Number of steps: "
                f"{len(thresholds) + 1}; number of propensities: {len(propensities)}."
            )
        object.__setattr__(self, "attribute", attribute[0] if _is_single(attribute) else attribute)
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "propensities", propensities)

    def fitted(self, X: Any) -> Self:
        """Return a copy with the column of `X` fixed, so that it selects the same column in other tables."""
        return replace(self, attribute=fixed_attributes(X, check_selector(self.attribute, "attribute"), "attribute"))

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula of this mechanism."""
        chosen = read_attributes(X, self.attribute, "attribute")
        if len(chosen.labels) != 1:
            raise ValueError(_ONE_ATTRIBUTE.format(f"{len(chosen.labels)} ({', '.join(chosen.labels)})"))
        x = attribute_matrix(chosen)[:, 0]
        step = np.searchsorted(np.asarray(self.thresholds, dtype=np.float64), x, side="right")
        return np.asarray(self.propensities)[step]


def _is_single(selector: Any) -> bool:
    return isinstance(selector, tuple) and len(selector) == 1 and not isinstance(selector[0], bool)


def _check_table(table: Mapping[Any, float], attributes: Any) -> dict[Stratum, float]:
    if not isinstance(table, Mapping) or not table:
        raise ValueError(
            "table must be a dictionary with the propensity of each stratum, such as {('north', 1): 0.4, "
            f"('south', 1): 0.6}}; got {shown(table)}."
        )
    checked: dict[Stratum, float] = {}
    for key, value in table.items():
        stratum = key if isinstance(key, tuple) else (key,)
        check_known_count(len(stratum), f"table: the stratum {key!r}", attributes)
        if stratum in checked:
            raise ValueError(f"table has two entries for the stratum {stratum!r}. Remove one of them.")
        checked[stratum] = check_one_propensity(value, f"table: the propensity of the stratum {key!r}")
    return checked


def _check_cells(column: list[Any], name: str) -> None:
    try:
        set(column)
    except TypeError:
        raise ValueError(
            f"{name} holds lists or other values that cannot be compared. Each cell must be a single value, such as a "
            "number or a text."
        ) from None
    bad = [row for row, value in enumerate(column) if is_missing_value(value)]
    if bad:
        raise ValueError(
            f"{name} has missing values ({len(bad)} of {len(column)}; first: row {bad[0]}, counted from 0). Replace "
            "them by a category of their own, such as 'unknown', or drop these rows."
        )


def _check_strata_in_table(strata: list[Stratum], table: Mapping[Any, float], labels: Sequence[str]) -> None:
    bad = [row for row, stratum in enumerate(strata) if stratum not in table]
    if bad:
        named = ", ".join(f"{label} = {value!r}" for label, value in zip(labels, strata[bad[0]], strict=True))
        raise ValueError(
            f"table has no propensity for the stratum with {named} (row {bad[0]}, counted from 0). "
            f"Number of rows without a propensity: {len(bad)} of {len(strata)}; number of strata to add to the table: "
            f"{len({strata[row] for row in bad})}."
        )
