"""A table and its label column, as every `fit` here gets them."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.labels import LabelCoding, check_labels, check_observed, need_labels
from scarless.checks.row_names import warn_of_row_order
from scarless.checks.rows import warn_of_leak
from scarless.checks.tables import check_foreign_table, check_table
from scarless.engines import attach, open_rows
from scarless.numerics.arrays import Vector


class LabelledTable(NamedTuple):
    """Checked attributes, the observed labels as 0 and 1, and what they looked like."""

    X: Any
    s: Vector
    coding: LabelCoding


def check_labelled_table(estimator: Any, X: Any, y: Any, *, inner: Any = None, pos_label: Any = None) -> LabelledTable:
    """Check what a fit gets. `inner` is the user's estimator that will read the table, where there is one.

    Sets ``n_features_in_`` and ``feature_names_in_`` of the estimator.
    """
    need_labels(y, type(estimator).__name__)
    observed = check_observed(y)
    if inner is None:
        table, labels = check_table(estimator, X, observed, reset=True)
    else:
        table, labels = check_foreign_table(estimator, X, observed, inner=inner, reset=True)
    coding = check_labels(labels, pos_label=pos_label)
    s = coding.encode(labels)
    warn_of_row_order(X, y=y)
    if isinstance(table, np.ndarray) and table.dtype.kind in "fiub":
        warn_of_leak(attach(open_rows(table), s=s), getattr(estimator, "feature_names_in_", None))
    return LabelledTable(table, s, coding)


def forget_fit(estimator: Any) -> None:
    """Drop the results of an earlier fit: one with other parameters need not overwrite them all."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
