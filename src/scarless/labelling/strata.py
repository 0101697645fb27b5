"""Labelling mechanisms that are constant within strata: a table of values, or steps along one attribute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan
from typing import Any

import numpy as np

from scarless.labelling.attributes import (
    Attribute,
    attribute_columns,
    attribute_matrix,
    check_attributes,
    describe,
)
from scarless.labelling.base import Assumption, LabellingMechanism, check_number, check_one_propensity
from scarless.numerics.arrays import Vector

Stratum = tuple[Any, ...]


@dataclass(frozen=True)
class StratifiedSAR(LabellingMechanism):
    r"""A propensity for each combination of attribute values: SCAR within each stratum.

    .. math:: e(x_e) = c_{x_e}

    SAR. Values need not be numbers; they are compared as Python compares them: 1, 1.0 and True are one value.

    Parameters
    ----------
    attributes : names or positions
        The attributes that make the strata.
    table : mapping
        From the values of the attributes, a tuple in their order (or one bare value for one attribute), to
        the propensity in (0, 1]. A stratum of X that is not in the table is an error.

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

    attributes: Sequence[Attribute]
    table: Mapping[Any, float] = field(hash=False)

    def __post_init__(self) -> None:
        attributes = check_attributes(self.attributes)
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "table", _check_table(self.table, attributes))

    @property
    def assumption(self) -> Assumption:
        """``"SAR"``."""
        return "SAR"

    def _propensity(self, X: Any, p: Vector | None) -> Vector:
        columns = [values.tolist() for values in attribute_columns(X, self.attributes)]
        for attribute, column in zip(self.attributes, columns, strict=True):
            _check_nothing_missing(column, describe(attribute))
        strata = list(zip(*columns, strict=True))
        _check_known(strata, self.table, self.attributes)
        return np.array([self.table[stratum] for stratum in strata], dtype=np.float64)


@dataclass(frozen=True)
class StepSAR(LabellingMechanism):
    r"""A propensity that steps up or down at thresholds of one attribute.

    .. math:: e(x_e) = c_j \quad\text{where}\quad t_j \le x_e < t_{j+1},
              \qquad t_0 = -\infty,\; t_{m+1} = \infty

    SAR. A value on a threshold belongs to the step above it.

    Parameters
    ----------
    attribute : name or position
        The attribute that has the steps.
    thresholds : sequence of float
        :math:`t_1 < ... < t_m`.
    propensities : sequence of float
        :math:`c_0, ..., c_m`, one more than there are thresholds, each in (0, 1].

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019 (reducing SAR to SCAR by strata).

    Examples
    --------
    >>> StepSAR(0, thresholds=[18, 65], propensities=[0.9, 0.3, 0.6]).propensity([[17], [18], [64.9], [80]])
    array([0.9, 0.3, 0.3, 0.6])
    """

    attribute: Attribute
    thresholds: Sequence[float]
    propensities: Sequence[float]

    def __post_init__(self) -> None:
        chosen = check_attributes(self.attribute)
        if len(chosen) != 1:
            raise ValueError(f"StepSAR has steps along one attribute; {len(chosen)} are given. See StratifiedSAR.")
        thresholds = tuple(
            check_number(t, f"thresholds[{i}]") for i, t in enumerate(np.ravel(self.thresholds).tolist())
        )
        propensities = tuple(
            check_one_propensity(c, f"propensities[{i}]") for i, c in enumerate(np.ravel(self.propensities).tolist())
        )
        if any(right <= left for left, right in pairwise(thresholds)):
            raise ValueError(f"thresholds must increase; they are {thresholds}.")
        if len(propensities) != len(thresholds) + 1:
            raise ValueError(
                f"{len(thresholds)} thresholds make {len(thresholds) + 1} steps; "
                f"propensities has {len(propensities)} values. Give one per step."
            )
        object.__setattr__(self, "attribute", chosen[0])
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "propensities", propensities)

    @property
    def assumption(self) -> Assumption:
        """``"SAR"``."""
        return "SAR"

    def _propensity(self, X: Any, p: Vector | None) -> Vector:
        x = attribute_matrix(X, [self.attribute])[:, 0]
        step = np.searchsorted(np.asarray(self.thresholds, dtype=np.float64), x, side="right")
        return np.asarray(self.propensities)[step]


def _check_table(table: Mapping[Any, float], attributes: Sequence[Attribute]) -> dict[Stratum, float]:
    if not isinstance(table, Mapping) or not table:
        raise ValueError("table must map each stratum to its propensity, e.g. {('north', 1): 0.4, ...}.")
    checked: dict[Stratum, float] = {}
    for key, value in table.items():
        stratum = key if isinstance(key, tuple) else (key,)
        if len(stratum) != len(attributes):
            raise ValueError(
                f"the stratum {key!r} has {len(stratum)} values for {len(attributes)} attributes; "
                "give one per attribute, in their order."
            )
        if stratum in checked:
            raise ValueError(f"the stratum {stratum!r} is in the table twice.")
        checked[stratum] = check_one_propensity(value, f"the propensity of the stratum {key!r}")
    return checked


def _check_nothing_missing(column: list[Any], name: str) -> None:
    bad = [row for row, value in enumerate(column) if _is_missing(value)]
    if bad:
        raise ValueError(
            f"{name} has {len(bad)} missing values of {len(column)} (first: row {bad[0]}). "
            "Give missing values a value of their own, or drop these rows."
        )


def _is_missing(value: Any) -> bool:
    # pandas.NA and NaT are known by their type's name: pandas is optional, and NA == NA is not a boolean.
    return value is None or (isinstance(value, float) and isnan(value)) or type(value).__name__ in ("NAType", "NaTType")


def _check_known(strata: list[Stratum], table: Mapping[Any, float], attributes: Sequence[Attribute]) -> None:
    bad = [row for row, stratum in enumerate(strata) if stratum not in table]
    if bad:
        pairs = zip(attributes, strata[bad[0]], strict=True)
        named = ", ".join(f"{describe(attribute)} = {value!r}" for attribute, value in pairs)
        raise ValueError(
            f"the stratum with {named} (row {bad[0]}) is not in the table. "
            f"{len(bad)} of {len(strata)} rows are in strata without a propensity, "
            f"{len({strata[row] for row in bad})} strata in all; add them."
        )
