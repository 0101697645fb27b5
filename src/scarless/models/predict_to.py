"""Predictions into files: what a fitted classifier sends to where the rows are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.looks import looks_of
from scarless.checks.options import check_choice
from scarless.checks.tables import LARGEST, in_files
from scarless.checks.vectors import check_propensity
from scarless.models._judged import LooksFrameScorer, LooksGiven, LooksScorer
from scarless.scale.plan import Plan
from scarless.scale.predictions import Asked, Written, check_target, refuse_inputs, write_predictions
from scarless.scale.scorers import FrameScorer, LogisticScorer, Scorer


class PredictToMixin:
    """Predict tables in files into files."""

    _propensity_is_fact = False  # whether an unlabelled row of propensity 1 is surely negative
    _one_propensity = False  # whether it is the label frequency for every row

    def predict_to(
        self,
        X: Any,
        folder: str | Path,
        *,
        label: str | Sequence[str] | None = None,
        audit: str | None = None,
        keep: Sequence[str] = (),
        propensity: str | float | None = None,
        dtype: str = "float64",
        force: bool = False,
    ) -> Written:
        r"""Write the predictions of a table in files into a folder: a Parquet file for each partition of the table.

        Columns are those of `keep`, then ``probability``, :math:`\Pr(y=1|x)`; ``propensity``, :math:`\Pr(s=1|y=1,x)`;
        and ``posterior``, the probability of the class given that the row is not labelled, or given its `label`. Of a
        model that knows no propensities and is not given any, the first only. Of one that was fitted to several looks,
        visit attributes, or labels that may be wrong, without its columns of labels the first only as well: with them
        ``propensity`` is that of a label at any look that took place, and ``posterior`` goes by labels and audits.

        Rows are in the input's order, and a file's name is that of its input with the numbers of its first and last row
        group.

        No file is seen under its name before it is whole. A call that was stopped is repeated as it was, and does what
        is missing: a file is done where its metadata name this model, this input as it is now, and these options.

        Parameters
        ----------
        X : ParquetRows
            Walked by its `scheduler`, each partition decoded where that works and kept nowhere. On a cluster, the
            folder must be one that all workers see.
        folder : path
            Made where it is not there; holds predictions of one model only.
        label : str or list of str, optional
            Column with the observed labels, coded as in `fit`; of several looks one for each.
        audit : str, optional
            Column with the class of rows that somebody checked, for a model of looks or audits.
        keep : list of str, optional
            Columns of the input to copy, such as names of rows.
        propensity : str or float, optional
            Column with known propensities, or one for all, for a classifier that does not learn them.
        dtype : {"float64", "float32"}, default="float64"
            Of the predictions. In float32 files are half as large, and probabilities right to seven digits.
        force : bool, default=False
            Replace predictions of another model, or with other columns, that are in the folder.

        Returns
        -------
        Written
            The `folder`, its `files` in the order of rows, `n_rows`, and `n_new`, how many files were written now.
        """
        check_is_fitted(self)
        check_choice(dtype, "dtype", ("float64", "float32"))
        if not in_files(X):
            raise TypeError(
                f"predict_to takes a table in files, scarless.scale.ParquetRows(folder), got {type(X).__name__}. For "
                "one in memory: predict_proba, predict_propensity, predict_posterior."
            )
        looks = self._looks_given(label, audit)
        label = looks_label(label)
        has_own = self._check_known(propensity)
        refuse_inputs(check_target(folder), getattr(X, "files", ()))
        table, scorer = self._table_and_scorer(X, label, has_own=has_own, judged=is_looked(self, looks))
        coding = self.label_coding_  # type: ignore[attr-defined]
        classes = coding.classes.tolist()
        asked = Asked(
            scorer=scorer,
            keep=tuple([keep] if isinstance(keep, str) else keep),
            label=label,
            classes=(classes[1 - coding.positive], classes[coding.positive]),
            propensity=propensity,
            known=self._propensity_is_fact,
            dtype=dtype,
            condition=getattr(X, "condition", ""),
            looks=looks,
        )
        return write_predictions(table, folder, asked, force=force)

    def _looks_given(self, label: Any, audit: str | None) -> LooksGiven | None:
        """Return the columns of looks and audits; None where one label of each row says all, or nothing is said."""
        looks, several = looks_of(self), label is not None and not isinstance(label, str)
        if looks is None and (several or audit is not None):
            raise ValueError(
                f"{type(self).__name__} was fitted to one label of each row: label is the name of one column, and "
                "audit does not go with it."
            )
        if audit is not None and label is None:
            raise ValueError("audit goes with label: name the columns of the labels, too.")
        if label is None or looks is None or (looks.plain and audit is None and not several):
            return None
        names = tuple(label) if several else (label,)
        if len(names) != looks.n_looks:
            raise ValueError(
                f"label names {len(names)} columns; the model was fitted to {looks.n_looks} looks: name one for each "
                "of them, in their order."
            )
        coding = self.label_coding_  # type: ignore[attr-defined]
        return LooksGiven(names, audit, coding, sure=looks.objective.false_positives is None)

    def _check_known(self, propensity: Any) -> bool:
        """Return whether the model has a propensity of its own; raise where another is given."""
        has_own = hasattr(self, "predict_propensity")
        if propensity is not None:
            if has_own or not hasattr(self, "predict_posterior"):
                what = "has one of its own" if has_own else "has no use for it"
                raise ValueError(f"propensity is given, but {type(self).__name__} {what}.")
            if not isinstance(propensity, str):
                check_propensity(propensity, n_rows=1)
        return has_own

    def _table_and_scorer(
        self, X: Any, label: str | None, *, has_own: bool, judged: bool = False
    ) -> tuple[Any, Scorer]:
        """Return the table with the columns of the fit, and what predicts them."""
        return table_and_scorer(self, X, label, has_own=has_own, judged=judged)


def table_and_scorer(
    model: Any, X: Any, label: str | None, *, has_own: bool, judged: bool = False
) -> tuple[Any, Scorer]:
    """Return a table in files with the columns of a classifier's fit, and what predicts its rows."""
    table, plan = with_columns(model, X, label)
    if judged:
        inference = getattr(model, "_inference", None)
        if inference is None:
            return frame_scorer(model, X, label, has_own=has_own, judged=True)
        objective, found = inference.likelihood, inference.parameters
        told = joblib.hash((objective, found, type(model).__name__, list(plan.names), getattr(X, "token", "")))
        return table, LooksScorer(objective, found, LARGEST[np.dtype(plan.dtype)], told)
    linear = _linear_scorer(model, np.dtype(plan.dtype), getattr(X, "token", ""), has_own=has_own)
    return frame_scorer(model, X, label, has_own=has_own) if linear is None else (table, linear)


def propensity_is_fact(model: Any) -> bool:
    """Whether an unlabelled row of propensity 1 is surely negative: the propensity was given, not estimated."""
    return bool(model._propensity_is_fact)


def _linear_scorer(model: Any, dtype: Any, token: str, *, has_own: bool) -> Scorer | None:
    """Return both logistic models in one; None where the model is of another kind."""
    if model._inner() is not None or not hasattr(model, "coef_"):
        return None
    prefixes, constant = [""], None
    if has_own and model._one_propensity:
        constant = float(model.label_frequency_)
    elif has_own:
        prefixes.append("propensity_")
    if not all(hasattr(model, f"{prefix}coef_") for prefix in prefixes):
        return None
    coef, intercept = (
        np.concatenate([getattr(model, f"{prefix}{name}") for prefix in prefixes]) for name in ("coef_", "intercept_")
    )
    names = getattr(model, "feature_names_in_", ())
    classes = model.classes_.tolist(), model.label_coding_.positive
    told = repr((type(model).__name__, list(names), classes, token))
    return LogisticScorer(coef, intercept, LARGEST[dtype], constant, told)


def with_columns(model: Any, X: Any, label: str | None) -> tuple[Any, Plan]:
    """Return a table in files with the columns of a fit, and its plan, or raise."""
    known = getattr(model, "feature_names_in_", None)
    table = X.select(list(known)) if known is not None and hasattr(X, "select") else X
    plan = table.plan(label, raw=True)
    if len(plan.names) != model.n_features_in_ or (known is not None and list(known) != list(plan.names)):
        raise ValueError(
            f"X has the columns {_few(plan.names)}, and {type(model).__name__} was fitted to {model.n_features_in_} "
            f"columns{'' if known is None else f', {_few(known)}'}. Say which: ParquetRows(folder, columns=[...])."
        )
    return table, plan


def is_looked(model: Any, looks: LooksGiven | None) -> bool:
    """Whether one label of each row would not say what a model knows of it."""
    known = looks_of(model)
    return looks is not None or (known is not None and not known.plain)


def looks_label(label: Any) -> str | None:
    """Return a column of labels that is the only one."""
    return label if isinstance(label, str) else None


def frame_scorer(model: Any, X: Any, label: str | None, *, has_own: bool, judged: bool = False) -> tuple[Any, Scorer]:
    """Return a table in files with the columns of a fit, and the model itself to be asked about parts of it."""
    table, plan = with_columns(model, X, label)
    nameless = not hasattr(model, "feature_names_in_")
    positive, kind = model.label_coding_.positive, LooksFrameScorer if judged else FrameScorer
    # Who was looked at is not known to a scorer that is not asked to judge: there is no propensity then.
    own = has_own and not judged
    return table, kind(model, tuple(plan.names), positive, joblib.hash(model), own, as_array=nameless)


def _few(names: Any) -> str:
    return f"{', '.join(map(str, names[:5]))}{', ...' if len(names) > 5 else ''}"
