"""What a network sees of the user's rows: tables or arrays of any shape, checked and scaled; labels; held-out rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from scarless.checks.attributes import check_attributes
from scarless.checks.labels import LabelCoding, check_labels, check_observed, need_labels
from scarless.checks.options import check_vector
from scarless.checks.rows import check_labelled_table
from scarless.checks.tables import check_table
from scarless.numerics.arrays import Vector
from scarless.outside.notices import warn_user

Array = NDArray[Any]
MIN_DEVIATION = 1e-5  # of a column's root mean square: with a smaller deviation it is taken for constant


@dataclass(frozen=True)
class Scale:
    """What is subtracted from a column, or from all pixels, and what it is divided by."""

    shift: Array
    unit: Array

    @classmethod
    def of(cls, values: Array, use: bool) -> "Scale":
        """Return that of rows: by column of tables, one for all of any other shape; or none.

        A column that hardly varies, by less than 1e-5 of its size, is moved but not stretched: new rows that differ
        from it by more than these did would come out huge.
        """
        if not use or not values.size:
            return cls(np.zeros(1), np.ones(1))
        axis = 0 if values.ndim == 2 else None
        shift, unit = values.mean(axis=axis, dtype=np.float64), values.std(axis=axis, dtype=np.float64)
        flat = unit <= MIN_DEVIATION * np.hypot(shift, unit)
        return cls(np.asarray(shift), np.where(flat, 1.0, unit))

    def __call__(self, values: Array) -> Array:
        """Return values scaled, in float64."""
        return np.asarray((values - self.shift) / self.unit)


def plain(X: Any) -> Any:
    """Return tensors as arrays, and everything else as it is."""
    return X.detach().cpu().numpy() if hasattr(X, "detach") and hasattr(X, "cpu") else X


def is_table(X: Any) -> bool:
    """Whether rows have columns; images have more dimensions."""
    return hasattr(X, "columns") or not hasattr(X, "ndim") or X.ndim <= 2


def read_training(estimator: Any, X: Any, y: Any) -> tuple[Array, Vector, LabelCoding]:
    """Check rows and labels; set ``n_features_in_`` and, of data frames, ``feature_names_in_``."""
    X, y = plain(X), plain(y)
    if is_table(X):
        _refuse_sparse(X, type(estimator).__name__)
        return check_labelled_table(estimator, X, y, pos_label=estimator.pos_label)
    need_labels(y, type(estimator).__name__)
    rows = check_images(X, "X")
    coding = check_labels(check_observed(y), pos_label=estimator.pos_label)
    s = check_vector(coding.encode(y), "y", n_rows=rows.shape[0])
    estimator.n_features_in_ = rows.shape[1]
    return rows, s, coding


def read_rows(estimator: Any, X: Any, shape: tuple[int, ...]) -> Array:
    """Check other rows: they must be like those of the fit."""
    X = plain(X)
    if len(shape) == 1:
        _refuse_sparse(X, type(estimator).__name__)
        return np.asarray(check_table(estimator, X, reset=False))
    rows = check_images(X, "X")
    if rows.shape[1:] != shape:
        raise ValueError(f"X has rows of shape {rows.shape[1:]}; {type(estimator).__name__} was fitted to {shape}.")
    return rows


def check_images(X: Any, name: str) -> Array:
    """Return an array of numbers whose first axis are rows."""
    return np.asarray(check_array(X, allow_nd=True, ensure_2d=False, dtype=[np.float64, np.float32], input_name=name))


def check_integers(rows: Array) -> None:
    """Refuse rows that are no whole numbers from 0 on, where a network takes them as integers."""
    bad = np.argwhere((rows != np.floor(rows)) | (rows < 0))
    if bad.size:
        at = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"integers=True needs whole numbers from 0 on in X, such as token ids; {len(bad)} of {rows.size} values "
            f"are not (first: X[{', '.join(map(str, at))}] = {rows[at]:g}). Use integers=False for other numbers."
        )


def check_features(given: Any, n_rows: int) -> Array:
    """Return what the propensity sees, where it was given by itself: a row for each row of X."""
    values = np.asarray(plain(given))
    values = values[:, None] if values.ndim == 1 else values
    values = check_images(values, "propensity_features")
    if values.shape[0] != n_rows:
        raise ValueError(
            f"propensity_features has {values.shape[0]} rows and X has {n_rows}; give one row for each row of X."
        )
    return values


def attribute_columns(estimator: Any, X: Any, rows: Array) -> NDArray[np.intp]:
    """Return the columns that the propensity sees; none where none are named."""
    attributes = estimator.propensity_attributes
    if attributes is None:
        return np.arange(0)
    if rows.ndim != 2:
        raise ValueError(
            f"propensity_attributes name columns, and X has rows of shape {rows.shape[1:]}. Say what labels depend on "
            "as a function, propensity_features=lambda X: X.mean(axis=(1, 2)), or as an array, "
            "fit(X, y, propensity_features=Z)."
        )
    if isinstance(attributes, str) and attributes == "all":
        return np.arange(rows.shape[1])
    names = getattr(estimator, "feature_names_in_", None)
    return check_attributes(
        attributes, plain(X), n_columns=rows.shape[1], names=names, parameter="propensity_attributes"
    )


def held_out_rows(s: Vector, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which rows are held out: a share of the labelled ones and of the others; none of too few rows."""
    held = np.zeros(s.size, dtype=bool)
    if share == 0.0:
        return held
    for label in (0.0, 1.0):
        rows = rng.permutation(np.flatnonzero(s == label))
        count = round(share * rows.size)
        held[rows[:count]] = True
    kept = [np.unique(s[part]).size for part in (held, ~held)]
    if kept != [2, 2]:
        warn_user(
            f"validation_share={share:g} of {int(s.sum())} labelled and {int((1 - s).sum())} unlabelled rows leaves "
            "none of a kind to train on, or to hold out: all rows are trained on, and nothing is held out. Give "
            "more rows.",
            UserWarning,
        )
        held[:] = False
    return held


def _refuse_sparse(X: Any, name: str) -> None:
    if hasattr(X, "tocsr"):
        raise TypeError(
            f"{name} takes dense rows, and X is a sparse matrix. Use X.toarray() where that fits into memory, or "
            "SAREMClassifier, which takes sparse tables."
        )
