"""Label frequency estimators as parameters of models: creation by name, fitting, and checks of the result."""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from scarless.checks.estimators import final_step, fit_weighted, takes_weights
from scarless.checks.rows import RowTotals
from scarless.checks.tables import check_numeric
from scarless.label_frequency._base import n_copies, possible_label_frequency
from scarless.label_frequency.held_out_scores import DEDPUL, BestBinEstimator, ElkanNoto
from scarless.label_frequency.kernel_mean import KernelMean
from scarless.label_frequency.tice import TIcE
from scarless.numerics.arrays import Vector

# A fixed seed makes the result of a named estimator reproducible.
_NAMED: dict[str, Callable[[], Any]] = {
    "tice": lambda: TIcE(random_state=0),
    "km1": lambda: KernelMean("km1", random_state=0),
    "km2": lambda: KernelMean("km2", random_state=0),
    "elkan-noto": lambda: ElkanNoto(random_state=0),
    "dedpul": lambda: DEDPUL(random_state=0),
    "best-bin": lambda: BestBinEstimator(random_state=0),
}
NAMES = tuple(_NAMED)


def as_label_frequency_estimator(value: Any, name: str) -> Any:
    """Return an unfitted estimator: for a name, the estimator of this name; for an estimator, its clone.

    A named estimator has ``random_state=0``. A ``pos_label`` of the clone is set to None, because the models always
    code labels as 0 and 1.

    Parameters
    ----------
    value : str or estimator
        One of ``NAMES``, or an estimator whose ``fit(X, s)`` sets ``label_frequency_``, or a pipeline that ends in one.
    name : str
        Name of the parameter, for error messages.

    Examples
    --------
    >>> as_label_frequency_estimator("km1", "label_frequency")
    KernelMean(random_state=0, variant='km1')
    >>> as_label_frequency_estimator("KM 1", "label_frequency")
    Traceback (most recent call last):
    ...
    ValueError: label_frequency='KM 1' is not the name of an estimator. Names are 'tice', ... Did you mean 'km1'?
    """
    if isinstance(value, str):
        if value not in NAMES:
            raise ValueError(f"{name}={value!r} is not the name of an estimator. {_choices(value)}")
        return _NAMED[value]()
    if isinstance(value, type) or not callable(getattr(value, "fit", None)):
        advice = f"Pass an instance: {value.__name__}()." if isinstance(value, type) else _choices()
        raise ValueError(
            f"{name} must be the name of an estimator, or an estimator whose fit(X, s) sets label_frequency_ "
            f"(SCARClassifier also accepts a number in (0, 1]); got {value!r}. {advice}"
        )
    estimator = clone(value, safe=False)
    last = final_step(estimator)
    if hasattr(last, "get_params") and "pos_label" in last.get_params(deep=False):
        last.set_params(pos_label=None)
    return estimator


def fit_label_frequency(
    estimator: Any, X: Any, s: Vector, sample_weight: Vector | None = None, *, name: str = "label_frequency"
) -> float:
    """Fit an estimator in place and return its label frequency, or the nearest possible value.

    `name` is the name of the parameter of the model, for error messages.
    """
    last = final_step(estimator)
    kind = type(last).__name__
    if sample_weight is not None and not takes_weights(estimator):
        raise ValueError(
            f"sample_weight: {kind}, the estimator of the label frequency, does not accept weights in fit. Repeat rows "
            "instead of weighting them, or use an estimator that accepts weights, such as TIcE. SCARClassifier also "
            "accepts label_frequency as a number."
        )
    try:
        if sample_weight is None:
            estimator.fit(X, s.astype(np.int64))
        else:
            fit_weighted(estimator, X, s.astype(np.int64), sample_weight)
    except ValueError as error:
        if isinstance(estimator, Pipeline) or _is_numeric(X):
            raise
        raise ValueError(
            f"{name}: {kind} could not be fitted. {str(error).rstrip('.')}. {kind} is fitted to the original "
            "table, without the preprocessing steps of other estimators. To encode text or impute missing values for "
            f"{kind}, pass a pipeline: {name}=make_pipeline(encoder, {kind}())."
        ) from error
    try:
        c = float(last.label_frequency_)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: after fit, the attribute label_frequency_ of {kind} must be a number: {error}. Use an "
            "estimator of scarless.label_frequency, such as TIcE."
        ) from error
    w = np.ones(s.size) if sample_weight is None else sample_weight[sample_weight > 0]
    share = float(s.mean()) if sample_weight is None else float(sample_weight @ s / w.sum())
    return possible_label_frequency(c, share, n_copies(w), kind)


def possible_frequency_of(estimator: Any, c: float, totals: RowTotals) -> float:
    """Return the label frequency `c` that was estimated on a sample of the rows.

    If `c` is impossible given the share of labelled rows among all rows, return the nearest possible value.
    """
    n_rows = max(totals.weight, totals.n_rows)
    return possible_label_frequency(c, totals.labelled_share, n_rows, type(final_step(estimator)).__name__)


def narrow_tags(tags: Any, value: Any) -> None:
    """Restrict the tags of a model to inputs that its label frequency estimator can read too."""
    estimator = _NAMED[value]() if isinstance(value, str) and value in NAMES else value
    if hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type):
        inner = get_tags(estimator).input_tags
        tags.input_tags.sparse &= inner.sparse
        tags.input_tags.allow_nan &= inner.allow_nan


def _is_numeric(X: Any) -> bool:
    """Return whether a table has only finite numbers."""
    try:
        check_numeric(X)
    except (TypeError, ValueError):
        return False
    return True


def _choices(value: str = "") -> str:
    names = f"Names are {', '.join(map(repr, NAMES))}."
    nearest = get_close_matches(value.lower(), NAMES, n=1)
    return f"{names} Did you mean {nearest[0]!r}?" if nearest else names
