"""Posteriors, labels and audits of rows, computed with a fitted classifier."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import opened
from scarless.checks.looks import Codes, check_audit, check_looks, labels_for_likelihood
from scarless.checks.options import shown
from scarless.checks.rows import named_values, warn_about_row_order
from scarless.engines import has_own_engine
from scarless.engines.base import known_rows
from scarless.models.pair import refuse_wrapped
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.numerics.arrays import Vector
from scarless.pair.constraints import labelling_of


class AuditRows(NamedTuple):
    """A fitted classifier with the posterior, labels and audit of each row."""

    estimator: Any  # the classifier itself, without its pipeline
    X: Any  # input of that classifier
    q: Vector  # posterior Pr(y=1 | labels, x), without audits
    labels: Codes  # a column for each look
    audit: Codes

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether each row has a label."""
        return np.asarray((self.labels == 1).any(axis=1))

    @property
    def audited(self) -> NDArray[np.bool_]:
        """Whether each row was audited."""
        return np.asarray(self.audit >= 0)

    @property
    def labels_are_certain(self) -> bool:
        """Whether every labelled row is positive according to the model and the audits."""
        labelled = self.labelled
        return bool((self.q[labelled] == 1).all()) and not bool((self.audit[labelled] == 0).any())


def read_audit_rows(estimator: Any, X: Any, s: Any, audit: Any) -> AuditRows:
    """Predict the posterior of each row, and read labels and audits in the coding of the classifier."""
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise TypeError(f"estimator must be a fitted classifier of this package; got {shown(estimator)}.")
    check_is_fitted(estimator)
    refuse_wrapped(estimator)
    model, prepare = opened(estimator)
    refuse_wrapped(model)
    coding = getattr(model, "label_coding_", None)
    given = _stacked(X, s)
    checked = check_looks(given, coding=coding, name="s")
    warn_about_row_order(X, s=s, audit=audit)
    codes = check_audit(named_values(X, audit, labels=True), n_rows=len(checked.labels), coding=checked.coding)
    X, labels = known_rows(prepare(X)), checked.labels
    how = labelling_of(model).audit_labels
    if how != "keep" and (codes >= 0).any():
        labels, classes = labels_for_likelihood(labels, codes, how), checked.coding.classes.astype(object)
        words = np.where(labels == 1, classes[checked.coding.positive], classes[1 - checked.coding.positive])
        given = np.where(labels < 0, None, words)
    q = _posterior(model, X, given, (labels == 1).any(axis=1), checked.coding)
    if q.size != len(codes):
        raise ValueError(f"s has {len(codes)} rows, but X has {q.size}. Pass one row of labels for each row of X.")
    return AuditRows(model, X, q, labels, codes)


def _stacked(X: Any, s: Any) -> Any:
    """Return the labels. For a table in files, `s` names the columns with the labels."""
    if has_own_engine(X) and isinstance(s, list | tuple) and all(isinstance(name, str) for name in s):
        return np.stack([named_values(X, name, labels=True) for name in s], axis=1)
    return named_values(X, s, labels=True)


def _posterior(model: Any, X: Any, s: Any, labelled: NDArray[np.bool_], coding: Any) -> Vector:
    if hasattr(model, "predict_posterior") and not isinstance(model, PropensityWeightedClassifier):
        return np.asarray(model.predict_posterior(X, s), dtype=np.float64)
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"estimator must have predict_proba, but {type(model).__name__} does not. Pass a fitted classifier."
        )
    # Without a propensity there is no posterior: use the class probability, and 1 for labelled rows.
    f = np.asarray(model.predict_proba(X), dtype=np.float64)[:, coding.positive]
    return np.where(labelled, 1.0, f) if f.size == labelled.size else f
