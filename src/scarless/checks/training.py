"""A table and its label column, as every `fit` here gets them."""

from typing import Any, NamedTuple

from scarless.checks.labels import LabelCoding, check_labels, check_observed, need_labels, warn_of_leak
from scarless.checks.row_names import warn_of_row_order
from scarless.checks.tables import check_foreign_table, check_table
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
    warn_of_leak(table, s, getattr(estimator, "feature_names_in_", None))
    return LabelledTable(table, s, coding)


def refuse_lost_class(s: Vector, weight: Vector) -> None:
    """Raise where weights leave labelled rows only, or unlabelled ones."""
    for value, kind in ((1.0, "labelled"), (0.0, "unlabelled")):
        if not weight[s == value].any():
            raise ValueError(
                f"sample_weight is 0 for every {kind} row, or lost beside the others: one class only is left to "
                "learn from."
            )


def forget_fit(estimator: Any) -> None:
    """Drop the results of an earlier fit: one with other parameters need not overwrite them all."""
    for name in [name for name in vars(estimator) if name.endswith("_")]:
        delattr(estimator, name)
