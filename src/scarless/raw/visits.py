"""Columns of a raw table that belong to single looks: taken past the preparation, all of an attribute scaled alike.

The propensity has one coefficient for all columns of a visit attribute. A preparation that standardises each column by
itself would make an hour at the first visit something else than an hour at the second, and nobody would see it.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from scarless.checks.attributes import check_attributes
from scarless.checks.looks import check_looks, is_names
from scarless.checks.options import shown
from scarless.engines.base import Several
from scarless.numerics.arrays import Mask, Matrix
from scarless.pair.constraints import labelling_of
from scarless.raw.origins import Origin


class VisitColumns(NamedTuple):
    """The columns of each visit attribute, one for each look, and the one shift and scale that they share.

    `places` are those of the attributes among the prepared columns, once these are known.
    """

    columns: dict[str, list[str]]
    shift: dict[str, float]
    scale: dict[str, float]
    places: dict[str, list[int]]

    @classmethod
    def of(cls, given: Any, X: Any, names: Any, y: Any, pos_label: Any) -> "VisitColumns | None":
        """Read what `visit_attributes` names, and find the shift and scale of each; None where there are none."""
        if not given:
            return None
        if not isinstance(given, dict):
            raise ValueError(
                "visit_attributes must be a dict of names and columns, one column for each look, as {'effort': "
                f"['effort_1', 'effort_2']}}; got {shown(given)}."
            )
        if names is None or not hasattr(X, "columns"):
            raise ValueError(
                "visit_attributes of a raw table need a data frame with named columns; X is "
                f"{type(X).__name__}. Make it one, or say preparation='passthrough'."
            )
        columns = {str(name): _named(name, those, X, names) for name, those in given.items()}
        empty = cls(columns, dict.fromkeys(columns, 0.0), dict.fromkeys(columns, 1.0), {})
        seen = check_looks(y, pos_label=pos_label).labels >= 0
        for name, those in columns.items():
            if len(those) != seen.shape[1]:
                have = "1 column" if len(those) == 1 else f"{len(those)} columns"
                raise ValueError(
                    f"visit_attributes[{name!r}] has {have}, and labels have {seen.shape[1]} looks: give one column "
                    "for each look, in their order."
                )
        empty.refuse_gaps(X, seen)
        for name, values in empty._values(X).items():
            known = values[seen]
            spread = float(known.std())
            empty.shift[name] = float(known.mean())
            empty.scale[name] = spread if spread > 0 else 1.0
        return empty

    @property
    def names(self) -> list[str]:
        """The raw columns, of one attribute after the other."""
        return [column for columns in self.columns.values() for column in columns]

    def left(self, names: Any) -> list[Any]:
        """Return the other columns, which are for the preparation."""
        taken = set(self.names)
        return [name for name in names if str(name) not in taken]

    def placed(self, first: int) -> "VisitColumns":
        """Return the same with its place behind so many prepared columns."""
        places, at = {}, first
        for name, columns in self.columns.items():
            places[name] = list(range(at, at + len(columns)))
            at += len(columns)
        return self._replace(places=places)

    def origins(self) -> list[Origin]:
        """Return where the columns come from, and their units."""
        return [Origin(column, unit=self.scale[name]) for name, columns in self.columns.items() for column in columns]

    def appended(self, prepared: Any, X: Any) -> Any:
        """Return a prepared table with the columns behind it; a gap is the attribute's mean."""
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
        if hasattr(prepared, "assign"):
            return prepared.assign(**{name: added[:, j] for j, name in enumerate(names)})
        import polars as pl  # noqa: PLC0415 (the table is one of its frames)

        return prepared.with_columns([pl.Series(name, added[:, j]) for j, name in enumerate(names)])

    def refuse_gaps(self, X: Any, seen: Mask) -> None:
        """Raise where a look took place, and an attribute of it is missing."""
        for name, values in self._values(X).items():
            if values.shape != seen.shape:
                continue  # which the estimator says in its own words
            gaps = np.isnan(values) & seen
            if gaps.any():
                row, look = (int(place[0]) for place in np.nonzero(gaps))
                column = self.columns[name][look]
                raise ValueError(
                    f"Column {column!r} ({name!r} of a look) is missing in {int(gaps[:, look].sum())} rows where that "
                    f"look took place (first: row {row}). Fill it in, or leave the label of such looks empty, which "
                    "says that they did not take place."
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
            raise ValueError(f"visit_attributes[{name!r}]: {shown(each)} is {place.size} columns; name one for a look.")
        found.append(str(names[int(place[0])]))
    return found


def _numbers(X: Any, column: str, name: str) -> Any:
    """Return a column as numbers, NaN where it is missing."""
    values = X[next(each for each in X.columns if str(each) == column)]
    try:
        if hasattr(values, "cast"):
            return values.cast(float).to_numpy()
        return values.astype("float64").to_numpy()
    except Exception as error:  # of pandas or polars: each has its own for what is no number
        kind = getattr(values, "dtype", type(values).__name__)
        raise ValueError(
            f"Column {column!r} ({name!r} of a look) must hold numbers, one coefficient being for all looks; it is of "
            f"the kind {kind}. Make it a number, such as hours, or 1 and 0."
        ) from error


def refuse_groups(estimator: Any) -> None:
    """Raise where a class prior is known of a group of rows, or an offset is a column: prepared, they are others."""
    if labelling_of(estimator).offset is not None:
        raise ValueError(
            "offset is a column that is added as it is, and a preparation changes columns. Prepare the "
            "table yourself and fit SAREMClassifier to that."
        )
    if any(getattr(claim, "where", None) for claim in getattr(estimator, "known", None) or ()):
        raise ValueError(
            "known holds ClassPrior(..., where=...): a group by columns of a raw table, which the preparation changes. "
            "Give the class prior of all rows, or prepare the table yourself and fit SAREMClassifier to that."
        )


def columns_in_files(y: Any, audit: Any, estimator: Any, preparation: Any) -> str | Several:
    """Return the columns of a table in files that are labels or audits; raise for what a raw one cannot have."""
    if not isinstance(y, str) and not is_names(y):
        raise TypeError(
            "With a table in files labels are columns of it, given by name, such as fit(X, 'diagnosed') or fit(X, "
            f"['visit_1', 'visit_2']); what came is of type {type(y).__name__}."
        )
    if audit is not None and not isinstance(audit, str):
        raise TypeError(
            "With a table in files audits are a column of it, given by name, such as audit='checked'; what came is of "
            f"type {type(audit).__name__}."
        )
    if not isinstance(preparation, str) and labelling_of(estimator).visit_attributes:
        raise ValueError(
            "visit_attributes of a raw table need it in memory: all columns of one are scaled alike, and in files each "
            "is by itself. Read it into memory, or prepare it first and say preparation='passthrough'."
        )
    looks = (y,) if isinstance(y, str) else tuple(y)
    return y if isinstance(y, str) and audit is None else Several((*looks, *([] if audit is None else [audit])))
