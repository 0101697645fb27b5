"""Inputs of networks: checks and scales of tables and of arrays of any shape, labels, and held-out rows."""

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
MIN_RELATIVE_DEVIATION = 1e-5  # standard deviation / root mean square, below which a column is nearly constant


@dataclass(frozen=True)
class InputScale:
    """Shift and scale of each column, or of all pixels together."""

    shift: Array
    unit: Array

    @classmethod
    def of(cls, values: Array, use: bool) -> "InputScale":
        """Return the scale that standardises columns of tables, or all pixels together; if not `use`, the identity.

        A nearly constant column is shifted but not scaled. Otherwise a small difference in new rows would become huge.
        """
        if not use or not values.size:
            return cls(np.zeros(1), np.ones(1))
        axis = 0 if values.ndim == 2 else None
        shift, unit = values.mean(axis=axis, dtype=np.float64), values.std(axis=axis, dtype=np.float64)
        flat = unit <= MIN_RELATIVE_DEVIATION * np.hypot(shift, unit)
        return cls(np.asarray(shift), np.where(flat, 1.0, unit))

    def __call__(self, values: Array) -> Array:
        """Return the scaled values, in float64."""
        return np.asarray((values - self.shift) / self.unit)


def plain(X: Any) -> Any:
    """Return a tensor as an array; other objects are returned unchanged."""
    return X.detach().cpu().numpy() if hasattr(X, "detach") and hasattr(X, "cpu") else X


def is_table(X: Any) -> bool:
    """Return whether X is a table; images have more dimensions."""
    return hasattr(X, "columns") or not hasattr(X, "ndim") or X.ndim <= 2


def read_training(estimator: Any, X: Any, y: Any) -> tuple[Array, Vector, LabelCoding]:
    """Check rows and labels; set ``n_features_in_`` and, for data frames, ``feature_names_in_``."""
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
    """Check new rows, which must have the shape of the rows of the fit."""
    X = plain(X)
    if len(shape) == 1:
        _refuse_sparse(X, type(estimator).__name__)
        return np.asarray(check_table(estimator, X, reset=False))
    rows = check_images(X, "X")
    if rows.shape[1:] != shape:
        raise ValueError(f"X must have rows of shape {shape}, as in the fit; they have shape {rows.shape[1:]}.")
    return rows


def check_images(X: Any, name: str) -> Array:
    """Return an array of numbers with any number of dimensions; the first axis is the rows."""
    return np.asarray(check_array(X, allow_nd=True, ensure_2d=False, dtype=[np.float64, np.float32], input_name=name))


def check_integers(rows: Array) -> None:
    """Raise an error if a value is not a non-negative integer."""
    bad = np.argwhere((rows != np.floor(rows)) | (rows < 0))
    if bad.size:
        index = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"X must hold non-negative integers, such as token ids, if integers=True; {len(bad)} of {rows.size} values "
            f"are not (first: X[{', '.join(map(str, index))}] = {rows[index]:g}). Use integers=False for other numbers."
        )


def check_features(given: Any, n_rows: int) -> Array:
    """Return propensity features as an array with one row for each row of X."""
    values = np.asarray(plain(given))
    values = values[:, None] if values.ndim == 1 else values
    values = check_images(values, "propensity_features")
    if values.shape[0] != n_rows:
        raise ValueError(
            f"propensity_features must have one row for each of the {n_rows} rows of X; it has {values.shape[0]}."
        )
    return values


def attribute_columns(estimator: Any, X: Any, rows: Array) -> NDArray[np.intp]:
    """Return the columns of the propensity attributes; empty if `propensity_attributes` is None."""
    attributes = estimator.propensity_attributes
    if attributes is None:
        return np.arange(0)
    if rows.ndim != 2:
        raise ValueError(
            f"propensity_attributes need columns, but X has rows of shape {rows.shape[1:]}. Instead, pass a "
            "function, propensity_features=lambda X: X.mean(axis=(1, 2)), or an array, fit(X, y, "
            "propensity_features=Z)."
        )
    if isinstance(attributes, str) and attributes == "all":
        return np.arange(rows.shape[1])
    names = getattr(estimator, "feature_names_in_", None)
    return check_attributes(
        attributes, plain(X), n_columns=rows.shape[1], names=names, parameter="propensity_attributes"
    )


def held_out_rows(s: Vector, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which rows are held out: a share of labelled and of unlabelled rows; none if there are too few."""
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
            f"validation_share={share:g}: {int(s.sum())} labelled and {int((1 - s).sum())} unlabelled rows are too few "
            "to have both kinds among the training rows and among the held-out rows. No rows are held out: all rows "
            "are used for training, and the logits are not recalibrated. Use more rows, or another validation_share.",
            UserWarning,
        )
        held[:] = False
    return held


def _refuse_sparse(X: Any, name: str) -> None:
    if hasattr(X, "tocsr"):
        raise TypeError(
            f"X must be dense for {name}; got a sparse matrix. Use X.toarray() if it fits into memory, or "
            "SAREMClassifier, which accepts sparse matrices."
        )
