"""Trees from a file: compiled code follows their indices without looking, so they are looked at here.

Every index must lead to a node further on (so that a walk ends) and to a column that there is. A tree must stand where
scikit-learn puts one: there the number of columns is compared with the table's before anybody predicts.
"""

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

_HISTOGRAMS = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
_GRADIENTS = (GradientBoostingClassifier, GradientBoostingRegressor)
_BARE = ("Tree", "TreePredictor")


def objects_in(model: Any) -> Iterator[Any]:
    """Yield a model and every object that it holds once, but for plain numbers and texts."""
    waiting, seen = [model], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | None):
            continue
        seen.add(id(value))
        yield value
        waiting.extend(_inside(value))


def check_trees(model: Any) -> None:
    """Raise ValueError where a tree in a model leads out of bounds, or stands where nobody checks its columns."""
    for value in objects_in(model):
        if type(value).__name__ in _BARE and type(value).__module__.startswith("sklearn."):
            raise ValueError("a tree stands where none belongs")
        if isinstance(value, BaseDecisionTree):
            _check_tree(value)
        elif isinstance(value, _HISTOGRAMS):
            _check_histograms(value)
        elif isinstance(value, _GRADIENTS):
            _check_columns(value)


def _inside(value: Any) -> list[Any]:
    """Return what an object holds; the trees that were checked with it are left out."""
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
        raise ValueError("a tree was grown on another number of columns")
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
    """Gradient boosting hands its table to the trees' nodes directly."""
    trees = np.asarray(getattr(owner, "estimators_", np.empty(0, dtype=object)))
    for tree in trees.flat:
        if not isinstance(tree, BaseDecisionTree) or _n_columns(tree) != _n_columns(owner):
            raise ValueError("a tree was grown on another number of columns")


def _check_nodes(inner: Mask, left: Integers, right: Integers, column: Integers, owner: Any) -> None:
    if inner.ndim != 1 or inner.size == 0:
        raise ValueError("a tree has no nodes")
    here = np.flatnonzero(inner)
    for child in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if (child <= here).any() or (child >= inner.size).any():
            raise ValueError("a tree's branches lead out of bounds, or back")
    if (column[inner] < 0).any() or (column[inner] >= _n_columns(owner)).any():
        raise ValueError("a tree asks for a column that is not there")


def _check_numbers(thresholds: Vector, leaves: Vector) -> None:
    """Refuse NaN; a threshold may be infinite, where a tree sets missing values apart from all others."""
    if np.isnan(thresholds).any() or not np.isfinite(leaves).all():
        raise ValueError("a tree's thresholds or leaves hold NaN or infinity")


def _n_columns(owner: Any) -> int:
    n_columns = owner.n_features_in_
    if not isinstance(n_columns, Integral):
        raise ValueError("a tree's number of columns is no number")
    return int(n_columns)
