"""Fits beside the one that the user asked for: the same rows once more, or a model to compare with."""

import warnings
from typing import Any

from sklearn.base import clone

from scarless.checks.rows import LabelledRows


def fit_again(model: Any, rows: LabelledRows, X: Any) -> Any:
    """Return a clone of a fitted model, fitted to the same rows with other weights: none of them is copied."""
    again = clone(model)
    again._looks_elsewhere = False  # the fit itself has looked
    for name in ("n_features_in_", "feature_names_in_", "classes_", "_coding", "_reader"):
        if hasattr(model, name):
            setattr(again, name, getattr(model, name))
    again._fit_on(rows, X)
    return again


def fit_quietly(model: Any, X: Any, s: Any, **given: Any) -> Any:
    """Fit a model of which nothing is shown: without warnings, and without a look from other starts."""
    model._looks_elsewhere = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, s, **given)
