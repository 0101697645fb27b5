"""Labelling mechanisms that are constant within strata: a table of values, or steps along one attribute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from scarless.checks.attributes import check_selector, count_columns
from scarless.checks.labels import is_missing_value
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
_ONE_ATTRIBUTE = "StepSAR has steps along one attribute; {} are given. See StratifiedSAR."


@dataclass(frozen=True)
class StratifiedSAR(LabellingMechanism):
    r"""A propensity for each combination of attribute values: SCAR within each stratum.

    .. math:: e(x_e) = c_{x_e}

    SAR. Values need not be numbers; they are compared as Python compares them: 1, 1.0 and True are one value.

    Parameters
    ----------
    attributes : column selector
        The attributes that make the strata. Columns by name, position, slice, mask, callable or polars selector; the
        name of an encoded attribute stands for all of its columns.
    table : mapping
        From the values of the columns, a tuple in the order of `attributes` (the columns of an encoded attribute in the
        table's order; one bare value for one column), to the propensity in (0, 1]. A stratum of X that is not in the
        table is an error.

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
    attributes: Any = field(hash=False)  # slices and polars selectors have no hash
    table: Mapping[Any, float] = field(hash=False)

    def __post_init__(self) -> None:
        attributes = check_selector(self.attributes, "attributes")
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "table", _check_table(self.table, attributes))

    def fitted(self, X: Any) -> Self:
        """Return a copy that always means the columns of `X`."""
        return replace(self, attributes=fixed_attributes(X, self.attributes))

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula above."""
        chosen = read_attributes(X, self.attributes)
        for stratum in self.table:
            check_count(len(stratum), f"the stratum {stratum!r}", chosen.labels)
        columns = [values.tolist() for values in chosen.columns]
        for label, column in zip(chosen.labels, columns, strict=True):
            _check_nothing_missing(column, label)
        strata = list(zip(*columns, strict=True))
        _check_known(strata, self.table, chosen.labels)
        return np.array([self.table[stratum] for stratum in strata], dtype=np.float64)


@dataclass(frozen=True)
class StepSAR(LabellingMechanism):
    r"""A propensity that steps up or down at thresholds of one attribute.

    .. math:: e(x_e) = c_j \quad\text{where}\quad t_j \le x_e < t_{j+1},
              \qquad t_0 = -\infty,\; t_{m+1} = \infty

    SAR. A value on a threshold belongs to the step above it.

    Parameters
    ----------
    attribute : column selector
        The one column that has the steps. Columns by name, position, slice, mask, callable or polars selector; the name
        of an encoded attribute stands for all of its columns.
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

    assumption: ClassVar[Assumption] = "SAR"
    attribute: Any = field(hash=False)  # slices and polars selectors have no hash
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
            raise ValueError(f"thresholds must increase; they are {thresholds}.")
        if len(propensities) != len(thresholds) + 1:
            raise ValueError(
                f"{len(thresholds)} thresholds make {len(thresholds) + 1} steps; "
                f"propensities has {len(propensities)} values. Give one per step."
            )
        object.__setattr__(self, "attribute", attribute[0] if _is_alone(attribute) else attribute)
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "propensities", propensities)

    def fitted(self, X: Any) -> Self:
        """Return a copy that always means the column of `X`."""
        return replace(self, attribute=fixed_attributes(X, check_selector(self.attribute, "attribute"), "attribute"))

    def compute_propensity(self, X: Any, class_probability: Vector | None) -> Vector:
        """Compute the propensities by the formula above."""
        chosen = read_attributes(X, self.attribute, "attribute")
        if len(chosen.labels) != 1:
            raise ValueError(_ONE_ATTRIBUTE.format(f"{len(chosen.labels)} ({', '.join(chosen.labels)})"))
        x = attribute_matrix(chosen)[:, 0]
        step = np.searchsorted(np.asarray(self.thresholds, dtype=np.float64), x, side="right")
        return np.asarray(self.propensities)[step]


def _is_alone(selector: Any) -> bool:
    return isinstance(selector, tuple) and len(selector) == 1 and not isinstance(selector[0], bool)


def _check_table(table: Mapping[Any, float], attributes: Any) -> dict[Stratum, float]:
    if not isinstance(table, Mapping) or not table:
        raise ValueError("table must map each stratum to its propensity, e.g. {('north', 1): 0.4, ...}.")
    checked: dict[Stratum, float] = {}
    for key, value in table.items():
        stratum = key if isinstance(key, tuple) else (key,)
        check_known_count(len(stratum), f"the stratum {key!r}", attributes)
        if stratum in checked:
            raise ValueError(f"the stratum {stratum!r} is in the table twice.")
        checked[stratum] = check_one_propensity(value, f"the propensity of the stratum {key!r}")
    return checked


def _check_nothing_missing(column: list[Any], name: str) -> None:
    bad = [row for row, value in enumerate(column) if is_missing_value(value)]
    if bad:
        raise ValueError(
            f"{name} has {len(bad)} missing values of {len(column)} (first: row {bad[0]}). "
            "Give missing values a value of their own, or drop these rows."
        )


def _check_known(strata: list[Stratum], table: Mapping[Any, float], labels: Sequence[str]) -> None:
    bad = [row for row, stratum in enumerate(strata) if stratum not in table]
    if bad:
        named = ", ".join(f"{label} = {value!r}" for label, value in zip(labels, strata[bad[0]], strict=True))
        raise ValueError(
            f"the stratum with {named} (row {bad[0]}) is not in the table. "
            f"{len(bad)} of {len(strata)} rows are in strata without a propensity, "
            f"{len({strata[row] for row in bad})} strata in all; add them."
        )
