"""Numbers of a model from a file: coefficients and leaves are finite, arrays have the shapes that predictions need.

The hashes of a file reveal arrays that were damaged or replaced, but not an array that was replaced together with its
hash. The model that was made of a file is therefore checked as well: shapes, coefficients, and one prediction.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from scarless.pair.crossed import Crossed
from scarless.pair.inference import PairInference
from scarless.pair.looks_crossed import LooksCrossed
from scarless.pair.members import Linear
from scarless.saved.tree_bounds import check_trees, objects_in

# Attributes that predictions are computed from: NaN or infinity in one of them is never what a fit found.
_FINITE = (
    "coef_",
    "intercept_",
    "propensity_coef_",
    "propensity_intercept_",
    "beta",
    "beta_f",
    "beta_e",
    "plain_e",
    "others",
    "plain_others",
    "slope",
    "shift",
    "_frequencies",
    "_baseline_prediction",
)
_COLUMNS = ("_e_columns", "_f_columns", "_columns", "classification_attributes_")  # indices of columns
_TRIED_ROWS = 2  # one row is told apart from one column


def check_values(model: Any) -> None:
    """Raise ValueError where an array in a model cannot be what a fit found; the sentence names its attribute."""
    check_trees(model)
    for value in objects_in(model):
        held = getattr(value, "__dict__", None)
        if type(held) is not dict:
            continue
        for name in _FINITE:
            if name in held and not _is_finite(held[name]):
                raise ValueError(f"{type(value).__name__}.{name} holds NaN or infinity")
        if type(value).__module__.startswith("scarless."):
            _check_shapes(value, held)
            _ask(value, held)


def _is_finite(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _check_shapes(value: Any, held: dict[str, Any]) -> None:
    """Compare shapes with the number of columns that a model was fitted to, and with each other."""
    for name, shape, expected in _shapes(value, held):
        if shape != expected:
            raise ValueError(f"{type(value).__name__}.{name} has shape {shape}, and {expected} belongs there")
    if "n_features_in_" in held:
        for name in _COLUMNS:
            columns = np.asarray(held.get(name, ()))
            if columns.size and (columns.ndim != 1 or columns.min() < 0 or columns.max() >= held["n_features_in_"]):
                raise ValueError(f"{type(value).__name__}.{name} names a column that is not there")


def _shapes(value: Any, held: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of an attribute, its shape and the shape that belongs there."""
    if "n_features_in_" in held:
        for prefix in ("", "propensity_"):
            coef, intercept = held.get(f"{prefix}coef_"), held.get(f"{prefix}intercept_")
            if coef is not None and intercept is not None:
                n_models = np.size(intercept) if prefix and held.get("_looks") is not None else 1
                yield f"{prefix}coef_", np.shape(coef), (n_models, held["n_features_in_"])
                yield f"{prefix}intercept_", np.shape(intercept), (n_models,)
    if type(value) is PairInference:  # those of several looks have more parameters than one propensity model
        size = value.f.n_parameters + value.e.n_parameters
        yield "beta_f", np.shape(value.beta_f), (value.f.n_parameters,)
        yield "beta_e", np.shape(value.beta_e), (value.e.n_parameters,)
        if value.information is not None:
            yield "information", np.shape(value.information), (size, size)
    if isinstance(value, Linear):
        yield "beta", np.shape(value.beta), (np.size(value.columns) + 1,)
    if isinstance(value, LooksCrossed):
        size = value.objective.n_parameters - value.objective.f.n_parameters
        yield "others", np.shape(value.others), (size,)
        yield "plain_others", np.shape(value.plain_others), (size,)
        yield "added", np.shape(value.added), (np.size(value.shared),)
    if isinstance(value, Crossed) and value.learned is None:
        yield "plain_e", np.shape(value.plain_e), (np.size(value.e_columns) + 1,)


def _ask(value: Any, held: dict[str, Any]) -> None:
    """Ask a classifier about two rows of zeros, and refuse NaN.

    An error is no proof of damage, because the classifier inside may need text or named columns: `predict` raises it.
    """
    if not hasattr(value, "predict_proba") or "n_features_in_" not in held or "preparation_" in held:
        return  # The model of a raw table is asked where it stands, behind its preparation.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # e.g. that the columns have no names
        for name in ("predict_proba", "predict_propensity"):
            try:
                answer = np.asarray(getattr(value, name)(np.zeros((_TRIED_ROWS, held["n_features_in_"]))))
            except Exception:  # see above
                continue
            if len(answer) != _TRIED_ROWS or not np.isfinite(answer).all():
                raise ValueError(f"{type(value).__name__}.{name} gives NaN, or too few rows")
