"""What was done to the raw columns."""

from typing import Any

import numpy as np
from scipy import sparse

from scarless.raw.origins import Origin
from scarless.report.fit.data import Column
from scarless.report.fit.subject import Subject
from scarless.report.fit.words import listed, text
from scarless.scale.raw_columns import MISSING

_KINDS = {
    "numeric": "number",
    "low_cardinality": "text, few values",
    "high_cardinality": "text, many values",
    "datetime": "date",
    "specific": "",
}
_FEW = 12  # pieces that are named
STRANGER = "not a column of the fit"


def make_columns(subject: Subject) -> tuple[Column, ...]:
    """Return each raw column with what became of it."""
    class_columns, found = _columns_of_class(subject), []
    labelling = [*subject.labelling_columns, *(j for columns in subject.visit_columns.values() for j in columns)]
    known = {str(name) for name in getattr(subject.model, "feature_names_in_", subject.raw_names)}
    X = sparse.csc_array(subject.X) if sparse.issparse(subject.X) else subject.X
    for j, name in enumerate(subject.raw_names):
        values = _values(X, j)
        made = subject.groups.get(str(name), []) if subject.model.origins_ is not None else []
        pieces = [subject.origins[i] for i in made]
        n_missing = _n_missing(values)
        gone = not made and subject.model.origins_ is not None and str(name) in known
        kind = _KINDS.get(subject.kinds.get(str(name), ""), "") or _kind(values)
        found.append(
            Column(
                name=text(name),
                kind=kind,
                n_missing=n_missing,
                became=_became(pieces, kind) if subject.model.origins_ is not None else "cannot be followed",
                n_made=len(made),
                left_out=_why(values, n_missing, subject.n_rows) if gone else "" if str(name) in known else STRANGER,
                used_for=_used(made, class_columns, labelling),
            )
        )
    return tuple(found)


def _columns_of_class(subject: Subject) -> set[int]:
    coef = getattr(subject.inner, "coef_", None)
    return set(range(len(subject.origins)) if coef is None else np.flatnonzero(np.ravel(coef)).tolist())


def _values(X: Any, j: int) -> Any:
    """Return one column."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j]
    if hasattr(X, "get_column"):
        return X.get_column(X.columns[j])
    return X[:, [j]] if sparse.issparse(X) else X[:, j]


def _n_missing(values: Any) -> int | None:
    if hasattr(values, "isna"):
        return int(values.isna().sum())
    if hasattr(values, "null_count"):
        nan = values.is_nan().sum() if values.dtype.is_float() else 0
        return int(values.null_count()) + int(nan or 0)
    if sparse.issparse(values):
        return int(np.isnan(values.data).sum()) if values.dtype.kind == "f" else 0
    if values.dtype.kind == "O":
        return int(sum(each is None or each != each for each in values))  # noqa: PLR0124 (NaN)
    return int(np.isnan(values).sum()) if values.dtype.kind == "f" else 0


def _kind(values: Any) -> str:
    """Return what a column holds, by its type."""
    kind = str(values.dtype).lower()
    for words, told in (
        (("bool",), "yes or no"),
        (("int", "float", "decimal", "double"), "number"),
        (("date", "time"), "date"),
        (("categor", "enum"), "categories"),
        (("object", "str", "utf", "<u"), "text"),
    ):
        if kind.startswith(words) or (told == "number" and kind.startswith("uint")):
            return told
    return text(kind)


def _became(pieces: list[Origin], kind: str) -> str:
    """Return what was made of a column, in words."""
    if not pieces:
        return "left out"
    told = []
    itself = [each for each in pieces if not each.piece]
    indicator = any(each.piece == MISSING for each in pieces) and kind == "number"
    levels = [each.piece for each in pieces if each.piece and not (indicator and each.piece == MISSING)]
    if itself:
        told.append(f"itself{_scaling(itself[0])}")
    if kind == "date" and levels:
        told.append(f"its {listed([text(each.replace('_', ' ')) for each in levels])}")
    elif kind == "text, many values" and levels:
        told.append(f"{len(levels)} columns by the parts of words in it")
    elif levels:
        told.append(f"a column for {listed([text(each, 40) for each in levels], _FEW)}")
    if indicator:
        told.append("a column that says whether it is missing, the gap filled")
    return "; ".join(told)


def _scaling(origin: Origin) -> str:
    if np.isnan(origin.unit):
        return ", changed by the preparation"
    return "" if origin.unit == 1.0 else f", in units of {origin.unit:.4g}"


def _why(values: Any, n_missing: int | None, n_rows: int) -> str:
    """Return why nothing was made of a column."""
    if n_missing == n_rows:
        return "empty"
    if _is_constant(values):
        return "constant"
    return "left out by the preparation"


def _is_constant(values: Any) -> bool:
    if hasattr(values, "dropna"):
        return bool(values.dropna().nunique() <= 1)
    if hasattr(values, "drop_nulls"):
        return bool(values.drop_nulls().n_unique() <= 1)
    return not sparse.issparse(values) and len(set(values.tolist())) <= 1


def _used(made: list[int], class_columns: set[int], labelling: list[int]) -> str:
    parts = [
        word
        for word, seen in (("class", class_columns), ("labelling", set(labelling)))
        if seen & set(made)
    ]  # fmt: skip
    return " and ".join(parts) if parts else "nothing"
