"""Checks of a model that was read from a file: numbers, shapes and trees.

The hashes in a file detect damaged or replaced arrays, but not an array that was replaced together with its hash. The
model is therefore checked as well: its shapes, its coefficients, and one prediction.

Compiled code does not check the indices of trees. Every branch must lead to a later node, so that a prediction ends,
and every split must use an existing column. A tree must be an attribute of a scikit-learn estimator, which compares the
number of columns with the table before it predicts.
"""

import warnings
from collections.abc import Iterator
from functools import partial
from numbers import Integral
from types import MethodType
from typing import Any

import numpy as np
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.tree import BaseDecisionTree

from scarless.numerics.arrays import Integers, Mask, Vector
from scarless.numerics.linear import Design
from scarless.pair.crossed import Crossed
from scarless.pair.fitted import FittedPair
from scarless.pair.inference import PairInference
from scarless.pair.stack import LinearMember

# Attributes that predictions are computed from. A fit never stores NaN or infinity in them.
_FINITE_ATTRIBUTES = (
    "coef_",
    "intercept_",
    "propensity_coef_",
    "propensity_intercept_",
    "beta",
    "parameters",
    "e",
    "tilt",
    "slope",
    "shift",
    "_frequencies",
    "_baseline_prediction",
)
_COLUMN_ATTRIBUTES = ("_e_columns", "_f_columns", "_columns", "classification_attributes_")  # indices of columns
_N_TRIED_ROWS = 2  # one row could not be distinguished from one column
_HISTOGRAMS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
_GRADIENTS = (GradientBoostingClassifier, GradientBoostingRegressor)
_TREE_CLASSES = ("Tree", "TreePredictor")


def check_values(model: Any) -> None:
    """Raise ValueError, with the name of the attribute, if a model has values that a fit does not produce."""
    check_trees(model)
    for value in objects_in(model):
        held = getattr(value, "__dict__", None)
        if type(held) is not dict:
            continue
        for name in _FINITE_ATTRIBUTES:
            if name in held and not _is_finite(held[name]):
                raise ValueError(f"{type(value).__name__}.{name} holds NaN or infinity")
        if type(value).__module__.startswith("scarless."):
            _check_shapes(value, held)
            _try_to_predict(value, held)


def _is_finite(value: Any) -> bool:
    array = np.asarray(value)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _check_shapes(value: Any, held: dict[str, Any]) -> None:
    """Compare shapes with the number of columns that a model was fitted to, and with each other."""
    for name, shape, expected in _shapes(value, held):
        if shape != expected:
            raise ValueError(f"{type(value).__name__}.{name} must have shape {expected}; it has {shape}")
    if "n_features_in_" in held:
        named = {name: held.get(name, ()) for name in _COLUMN_ATTRIBUTES}
        for name, given in (named | {"e_columns": getattr(held.get("_pair"), "e_columns", ())}).items():
            columns = np.asarray(given)
            if columns.size and (columns.ndim != 1 or columns.min() < 0 or columns.max() >= held["n_features_in_"]):
                raise ValueError(f"{type(value).__name__}.{name} names a column that does not exist")


def _shapes(value: Any, held: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of an attribute, its shape and the expected shape."""
    if "n_features_in_" in held:
        for prefix in ("", "propensity_"):
            coef, intercept = held.get(f"{prefix}coef_"), held.get(f"{prefix}intercept_")
            if coef is not None and intercept is not None:
                several = prefix and getattr(held.get("_pair"), "looks", None) is not None
                n_models = np.size(intercept) if several else 1
                yield f"{prefix}coef_", np.shape(coef), (n_models, held["n_features_in_"])
                yield f"{prefix}intercept_", np.shape(intercept), (n_models,)
    if isinstance(value, PairInference | FittedPair):
        size = value.objective.n_parameters
        yield "parameters", np.shape(value.parameters), (size,)
        if isinstance(value, PairInference) and value.information is not None:
            yield "information", np.shape(value.information), (size, size)
    if isinstance(value, Design) and not isinstance(value.columns, slice):
        yield "columns", np.shape(value.columns), (value.n_columns,)
    if isinstance(value, LinearMember):
        yield "beta", np.shape(value.beta), (np.size(value.columns) + 1,)
    if isinstance(value, Crossed):
        yield "parameters", np.shape(value.parameters), (value.objective.n_parameters,)
        constants = len(value.objective.models) * (int(value.recalibration.follow != 0) + (value.learned is not None))
        yield "recalibration.e", np.shape(value.recalibration.e), (value.objective.n_parameters - 2 - constants,)
        if value.tilt is not None:
            yield "tilt", np.shape(value.tilt), (np.size(value.e_columns) + 1,)


def _try_to_predict(value: Any, held: dict[str, Any]) -> None:
    """Raise if the predictions of a classifier for two rows of zeros are not finite.

    An exception is ignored: it does not prove damage, because the inner classifier may need text or named columns.
    """
    if not hasattr(value, "predict_proba") or "n_features_in_" not in held or "preparation_" in held:
        return  # The inner classifier of a TableClassifier is tried instead, on prepared columns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for example, that the columns have no names
        for name in ("predict_proba", "predict_propensity"):
            try:
                answer = np.asarray(getattr(value, name)(np.zeros((_N_TRIED_ROWS, held["n_features_in_"]))))
            except Exception:  # see above
                continue
            if len(answer) != _N_TRIED_ROWS or not np.isfinite(answer).all():
                raise ValueError(f"{type(value).__name__}.{name} returns NaN or infinity, or a wrong number of rows")


# --- trees


def objects_in(model: Any) -> Iterator[Any]:
    """Yield a model and every object that it holds, once, except numbers and texts."""
    waiting, seen = [model], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | None):
            continue
        seen.add(id(value))
        yield value
        waiting.extend(_inside(value))


def check_trees(model: Any) -> None:
    """Raise ValueError if a tree in a model has invalid indices, or is not an attribute of a scikit-learn estimator."""
    for value in objects_in(model):
        if type(value).__name__ in _TREE_CLASSES and type(value).__module__.startswith("sklearn."):
            raise ValueError("a tree is not part of a scikit-learn estimator")
        if isinstance(value, BaseDecisionTree):
            _check_tree(value)
        elif isinstance(value, _HISTOGRAMS):
            _check_histograms(value)
        elif isinstance(value, _GRADIENTS):
            _check_columns(value)


def _inside(value: Any) -> list[Any]:
    """Return the objects that an object holds, except trees that are checked with it."""
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set):
        return list(value)
    if isinstance(value, np.ndarray):
        return list(value.flat) if value.dtype == object else []
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values(), *vars(value).values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    checked = {"tree_"} if isinstance(value, BaseDecisionTree) else set()
    checked |= {"_predictors"} if isinstance(value, _HISTOGRAMS) else set()
    held = getattr(value, "__dict__", None)
    return [item for name, item in held.items() if name not in checked] if type(held) is dict else []


def _check_tree(owner: BaseDecisionTree) -> None:
    if not hasattr(owner, "tree_"):
        return  # not fitted
    tree = owner.tree_
    if tree.n_features != _n_columns(owner):
        raise ValueError("a tree was fitted to another number of columns")
    nodes = tree.__getstate__()["nodes"]
    inner = nodes["left_child"] != -1
    _check_nodes(inner, nodes["left_child"], nodes["right_child"], nodes["feature"], owner)
    _check_numbers(nodes["threshold"][inner], tree.value)


def _check_histograms(owner: Any) -> None:
    for predictor in (tree for stage in getattr(owner, "_predictors", ()) for tree in stage):
        nodes = predictor.nodes
        inner = nodes["is_leaf"] == 0
        _check_nodes(inner, nodes["left"], nodes["right"], nodes["feature_idx"], owner)
        split = inner & (nodes["is_categorical"] != 0)
        _check_numbers(nodes["num_threshold"][inner & ~split], nodes["value"][~inner])
        if split.any():
            sets = predictor.raw_left_cat_bitsets
            known = np.asarray(owner._bin_mapper.is_categorical_, dtype=bool)
            few = sets.ndim != 2 or sets.shape[1] != 8 or (nodes["bitset_idx"][split] >= sets.shape[0]).any()
            if few or known.size != _n_columns(owner) or not known[nodes["feature_idx"][split]].all():
                raise ValueError("a tree's categories are out of bounds")


def _check_columns(owner: Any) -> None:
    """Check the number of columns of each tree, because gradient boosting passes its table to the nodes directly."""
    trees = np.asarray(getattr(owner, "estimators_", np.empty(0, dtype=object)))
    for tree in trees.flat:
        if not isinstance(tree, BaseDecisionTree) or _n_columns(tree) != _n_columns(owner):
            raise ValueError("a tree was fitted to another number of columns")


def _check_nodes(inner: Mask, left: Integers, right: Integers, column: Integers, owner: Any) -> None:
    if inner.ndim != 1 or inner.size == 0:
        raise ValueError("a tree has no nodes")
    here = np.flatnonzero(inner)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if (child <= here).any() or (child >= inner.size).any():
            raise ValueError("a tree's branches lead out of bounds, or back")
    if (column[inner] < 0).any() or (column[inner] >= _n_columns(owner)).any():
        raise ValueError("a tree uses a column that does not exist")


def _check_numbers(thresholds: Vector, leaves: Vector) -> None:
    """Raise for NaN; a threshold may be infinite, if a split separates missing values from all others."""
    if np.isnan(thresholds).any() or not np.isfinite(leaves).all():
        raise ValueError("a tree's thresholds or leaves hold NaN or infinity")


def _n_columns(owner: Any) -> int:
    n_columns = owner.n_features_in_
    if not isinstance(n_columns, Integral):
        raise ValueError("a tree's number of columns is not an integer")
    return int(n_columns)
