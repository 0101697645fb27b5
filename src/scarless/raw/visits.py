"""Visit attributes of a raw table: columns that describe one look each. They bypass the preparation.

The propensity has one coefficient for all columns of a visit attribute. If a preparation standardised each column
separately, an hour at the first visit and an hour at the second visit would silently have different units.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scarless.checks.attributes import check_attributes
from scarless.checks.looks import check_looks, is_names
from scarless.checks.options import shown
from scarless.engines.base import LabelColumns
from scarless.numerics.arrays import Mask, Matrix
from scarless.pair.constraints import labelling_of
from scarless.raw.origins import Origin
from scarless.raw.tables import replaced


class VisitColumns(NamedTuple):
    """The columns of each visit attribute, one for each look, with the shift and scale that they share."""

    columns: dict[str, list[str]]
    shift: dict[str, float]
    scale: dict[str, float]
    places: dict[str, list[int]]  # positions among the prepared columns; empty until these are known

    @classmethod
    def of(cls, given: Any, X: Any, names: Any, y: Any, pos_label: Any) -> "VisitColumns | None":
        """Check `visit_attributes`, and return its columns with shift and scale; None if there are none."""
        if not given:
            return None
        if not isinstance(given, dict):
            raise ValueError(
                "visit_attributes must be a dict of names and columns, one column for each look, such as {'effort': "
                f"['effort_1', 'effort_2']}}; got {shown(given)}."
            )
        if names is None or not hasattr(X, "columns"):
            raise ValueError(
                "X must be a data frame with named columns if there are visit_attributes; got "
                f"{type(X).__name__}. Pass a data frame, or use preparation='passthrough'."
            )
        columns = {str(name): _named(name, those, X, names) for name, those in given.items()}
        visits = cls(columns, dict.fromkeys(columns, 0.0), dict.fromkeys(columns, 1.0), {})
        seen = check_looks(y, pos_label=pos_label).labels >= 0
        for name, those in columns.items():
            if len(those) != seen.shape[1]:
                have = "1 column" if len(those) == 1 else f"{len(those)} columns"
                raise ValueError(
                    f"visit_attributes[{name!r}] has {have}, but the labels have "
                    f"{'1 look' if seen.shape[1] == 1 else f'{seen.shape[1]} looks'}. Name one column for each look, "
                    "in the order of the looks."
                )
        visits.refuse_gaps(X, seen)
        for name, values in visits._values(X).items():
            known = values[seen]
            spread = float(known.std())
            visits.shift[name] = float(known.mean())
            visits.scale[name] = spread if spread > 0 else 1.0
        return visits

    @property
    def names(self) -> list[str]:
        """The raw columns of all visit attributes."""
        return [column for columns in self.columns.values() for column in columns]

    def others(self, names: Any) -> list[Any]:
        """Return the columns that are not visit attributes."""
        taken = set(self.names)
        return [name for name in names if str(name) not in taken]

    def placed(self, first: int) -> "VisitColumns":
        """Return a copy with positions that start at `first`."""
        places, start = {}, first
        for name, columns in self.columns.items():
            places[name] = list(range(start, start + len(columns)))
            start += len(columns)
        return self._replace(places=places)

    def origins(self) -> list[Origin]:
        """Return the origins of the columns."""
        return [Origin(column, unit=self.scale[name]) for name, columns in self.columns.items() for column in columns]

    def appended(self, prepared: Any, X: Any) -> Any:
        """Return a prepared table with the scaled columns appended; missing values become the mean."""
        scaled = [
            np.nan_to_num((values - self.shift[name]) / self.scale[name], nan=0.0, posinf=np.inf, neginf=-np.inf)
            for name, values in self._values(X).items()
        ]
        added = np.column_stack(scaled)
        if sparse.issparse(prepared):
            return sparse.hstack([prepared, sparse.csr_array(added)], format="csr")
        if not hasattr(prepared, "columns"):
            return np.column_stack([np.asarray(prepared), added])
        taken = {str(name) for name in prepared.columns}
        names = [name if name not in taken else f"{name} (of a look)" for name in self.names]
        return replaced(prepared, {name: added[:, j] for j, name in enumerate(names)})

    def refuse_gaps(self, X: Any, seen: Mask) -> None:
        """Raise if a visit attribute is missing at a look that took place."""
        for name, values in self._values(X).items():
            if values.shape != seen.shape:
                continue  # the estimator raises a better error
            gaps = np.isnan(values) & seen
            if gaps.any():
                row, look = (int(place[0]) for place in np.nonzero(gaps))
                column = self.columns[name][look]
                raise ValueError(
                    f"Column {column!r} (visit attribute {name!r}) must have a value if its look took place. Rows "
                    f"without a value: {int(gaps[:, look].sum())} (first: row {row}, counted from 0). Fill in the "
                    "values. If the look did not take place, leave its label missing too."
                )

    def _values(self, X: Any) -> dict[str, Matrix]:
        return {
            name: np.column_stack([_numbers(X, column, name) for column in columns])
            for name, columns in self.columns.items()
        }


def _named(name: Any, given: Any, X: Any, names: Any) -> list[str]:
    """Return the raw columns of one attribute, in the order of looks."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ValueError(
            f"visit_attributes[{name!r}] must be a list of columns, one for each look; got {shown(given)}."
        )
    found = []
    for each in given:
        place = check_attributes([each], X, n_columns=len(names), names=names, parameter="visit_attributes")
        if place.size != 1:
            raise ValueError(
                f"visit_attributes[{name!r}]: {shown(each)} selects {place.size} columns. Name one column for each "
                "look."
            )
        found.append(str(names[int(place[0])]))
    return found


def _numbers(X: Any, column: str, name: str) -> Any:
    """Return a column as numbers; missing values are NaN."""
    values = X[next(each for each in X.columns if str(each) == column)]
    try:
        if hasattr(values, "cast"):
            return values.cast(float).to_numpy()
        return values.astype("float64").to_numpy()
    except Exception as error:  # pandas and polars raise different exceptions
        kind = getattr(values, "dtype", type(values).__name__)
        raise ValueError(
            f"Column {column!r} (visit attribute {name!r}) must hold numbers, because all looks share one coefficient; "
            f"its type is {kind}. Encode it as a number, such as hours, or 1 and 0."
        ) from error


def refuse_raw_columns(estimator: Any) -> None:
    """Raise if the estimator has an offset, or a class prior of some rows, because both use raw columns."""
    if labelling_of(estimator).offset is not None:
        raise ValueError(
            "TableClassifier does not support the offset of Labelling, because a preparation may change the column of "
            "the offset. Prepare the table yourself, and fit SAREMClassifier to it."
        )
    if any(getattr(claim, "where", None) for claim in getattr(estimator, "known", None) or ()):
        raise ValueError(
            "TableClassifier does not support ClassPrior(..., where=...) in known, because a preparation may change "
            "the columns that select the rows. Either give the class prior of all rows (without where=), or use "
            "SAREMClassifier on a table that you have prepared yourself."
        )


def columns_in_files(y: Any, audit: Any, estimator: Any, preparation: Any) -> str | LabelColumns:
    """Return the columns of labels and audits of a table in files; raise if an argument needs a table in memory."""
    if not isinstance(y, str) and not is_names(y):
        raise TypeError(
            "y must name columns if the table is in files, such as fit(X, 'diagnosed') or fit(X, ['visit_1', "
            f"'visit_2']); got {type(y).__name__}."
        )
    if audit is not None and not isinstance(audit, str):
        raise TypeError(
            f"audit must name a column if the table is in files, such as audit='checked'; got {type(audit).__name__}."
        )
    if not isinstance(preparation, str) and labelling_of(estimator).visit_attributes:
        raise ValueError(
            "visit_attributes need a table in memory: the columns of one visit attribute must be scaled together, "
            "but for a table in files each column is scaled separately. Read the table into memory, or prepare it "
            "first and use preparation='passthrough'."
        )
    looks = (y,) if isinstance(y, str) else tuple(y)
    return y if isinstance(y, str) and audit is None else LabelColumns((*looks, *([] if audit is None else [audit])))
