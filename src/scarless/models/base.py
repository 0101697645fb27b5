"""Base class of all classifiers, which are fitted to observed labels and predict the true class."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import is_fitted_for_a_score, warn_if_fitted_to_labels, warn_if_scored_by_labels
from scarless.checks.labels import LabelCoding
from scarless.checks.options import (
    check_counts,
    check_positive,
    check_vector,
    check_weight,
    check_whole,
    decision_threshold,
    shown,
)
from scarless.checks.rows import (
    LabelledRows,
    check_label_weights,
    check_labelled_rows,
    check_labelled_table,
    check_rows,
    count_rows,
    forget_fit,
    named_values,
    warn_about_row_order,
)
from scarless.checks.tables import refuse_lazy_query, refuse_own_engine
from scarless.engines import Engine
from scarless.engines.base import known_rows, on_device
from scarless.models.explaining import (
    average_row,
    column_names,
    contributions,
    explanation,
    grouped,
    refuse_unless_in_memory,
)
from scarless.models.predict_to import predict_to
from scarless.numerics.arrays import Array, Columns, Matrix, Vector, in_float64, namespace_of
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior, posterior_known, sigmoid
from scarless.numerics.linear import Design, logits
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.pair.logistic import Training


class PUClassifier(ClassifierMixin, BaseEstimator):
    """Base class of classifiers that are fitted to observed labels and predict the true class."""

    pos_label: Any
    class_prior_: float
    _coding: LabelCoding
    _corrects = True  # whether the model corrects for missing labels; it then warns about tools that undo this
    _propensity_is_known = False  # whether the propensity is exact; unlabelled rows with propensity 1 are then negative
    _one_propensity = False  # whether the propensity of every row is the label frequency
    _runs_checks = True  # whether a fit checks its result and warns; False for fits to resamples
    predict_to = predict_to

    @property
    def _checks_fit(self) -> bool:
        """Whether a fit checks its result. A search keeps only the score of a fit, and repeats the best fit at its end.

        The checks of a doubtful fit take up to 20 times as long as the fit.
        """
        return self._runs_checks and not is_fitted_for_a_score()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        inner = self._inner()
        readable = hasattr(inner, "__sklearn_tags__") and not isinstance(inner, type)
        inner_tags = get_tags(inner).input_tags if readable else None
        tags.input_tags.sparse = inner_tags is None or inner_tags.sparse
        tags.input_tags.allow_nan = inner_tags is not None and inner_tags.allow_nan
        return tags

    @property
    def label_coding_(self) -> LabelCoding:
        """The two label values of the fit, and which of them marks a labelled row."""
        return self._coding

    def _inner(self) -> Any:
        """Return the estimator of the user that the table is passed to, or None."""
        return getattr(self, "estimator", None)

    def predict_proba(self, X: Any) -> Matrix:
        """Return the probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.

        Returns
        -------
        array of shape (n_rows, 2)
        """
        check_is_fitted(self)
        if self._corrects:
            warn_if_scored_by_labels(self)
        return as_given(X, self._coding.columns(self._class_probability(X)))

    def predict(self, X: Any, *, decision: Any = "accuracy") -> Array:
        r"""Return the class of each row: positive if :math:`f(x)` is above a threshold.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        decision : {"accuracy", "balanced"} or pair of numbers, default="accuracy"
            The threshold. "accuracy": 1/2, which makes the fewest errors. "balanced": the class prior ``class_prior_``,
            which maximises the mean of sensitivity and specificity. A pair of costs ``(false positive, false
            negative)``: :math:`c_{fp} / (c_{fp} + c_{fn})`, which minimises the expected cost. All three assume
            that :math:`f` is calibrated. If a fit does not know the number of positives, "accuracy" may call no row
            positive; it then warns, and "balanced" is the better choice.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        if self._corrects:
            warn_if_scored_by_labels(self)
        positive = self._class_probability(X) > decision_threshold(decision, self.class_prior_)
        if isinstance(decision, str) and decision == "accuracy":
            _warn_if_decision_contradicts_fit(self, positive)
        return as_given(X, self._coding.decode(positive))

    def _class_probability(self, X: Any) -> Vector:
        raise NotImplementedError

    def _posterior(self, X: Any, s: Any, propensity: Vector, *, known: bool) -> Vector:
        f = self._class_probability(X)
        coded = check_vector(self._coding.encode(named_values(X, s, labels=True), "s"), "s", n_rows=f.size)
        warn_about_row_order(X, s=s)
        return posterior_known(f, propensity, coded) if known else posterior(f, propensity, coded)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        r"""Return the mean log-likelihood of the observed labels; no true classes are needed.

        .. math:: \frac{1}{\sum w}\sum_i w_i [s_i \log(f_i e_i) + (1-s_i)\log(1 - f_i e_i)]

        Higher is better. The score is not the accuracy, because accuracy against observed labels rewards a classifier
        that predicts every unlabelled row to be negative.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        float
        """
        X = known_rows(X)
        return self._mean_log_likelihood(X, y, self._assumed_propensity(X), sample_weight)

    def _mean_log_likelihood(self, X: Any, y: Any, e: Vector, sample_weight: Any) -> float:
        f = self._class_probability(X)
        s = check_vector(self._coding.encode(named_values(X, y, labels=True)), "y", n_rows=f.size)
        w = check_weight(named_values(X, sample_weight), n_rows=f.size)
        warn_about_row_order(X, y=y, sample_weight=sample_weight)
        counted = w > 0
        return float(w[counted] @ log_likelihood_of_probabilities(f, e, s)[counted]) / float(w.sum())

    def explain(self, X: Any, background: Any, *, n_reasons: int | None = 3) -> Any:
        r"""Return the columns that contribute most to the log-odds of each row, compared with an average row.

        The contribution of a column to a linear model is :math:`\beta_j (x_j - \bar x_j)`. For other models it is the
        log-odds of the row minus its log-odds with the column set to its mean. Contributions describe the model. They
        are not causes.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_columns)
            Rows to explain.
        background : array or data frame of shape (n_other_rows, n_columns)
            Rows that define the average row, usually the rows of the fit.
        n_reasons : int or None, default=3
            Number of columns to return for each row, largest absolute contribution first. None: all columns.

        Returns
        -------
        pandas DataFrame
            One line for each row and returned column: ``row`` (index of the row, or its number counted from 0),
            ``column``, ``value`` and ``contribution``.
        """
        refuse_unless_in_memory(X, background)
        for table in (X, background):
            self.predict_proba(table)  # raises if columns or values are wrong
        tables = [table if hasattr(table, "shape") else np.asarray(table) for table in (X, background)]
        mean, groups = average_row(tables[1]), grouped(column_names(tables[0]))
        if mean is None:
            raise ValueError(
                "background: explain needs numeric columns, and at least one is not numeric. Encode it, or wrap the "
                "estimator in TableClassifier."
            )
        return explanation(tables[0], groups, contributions(self, tables[0], mean, list(groups.values())), n_reasons)

    def _assumed_propensity(self, X: Any) -> Vector:
        """Return the propensity that `score` uses for each row; 1 for models that do not estimate it."""
        check_is_fitted(self)
        refuse_lazy_query(X, "X")
        return np.ones(count_rows(X))

    def _check_training(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """Check the table, labels and weights of a fit."""
        if self._corrects:
            warn_if_fitted_to_labels(self)
        refuse_own_engine(X, f"{type(self).__name__} with these parameters")
        forget_fit(self)
        self._reader = self._inner()
        table, s, self._coding = check_labelled_table(self, X, y, inner=self._reader, pos_label=self.pos_label)
        self.classes_ = self._coding.classes
        weight = check_counts(sample_weight, n_rows=s.size)
        warn_about_row_order(X, sample_weight=sample_weight)
        check_label_weights(s, weight, corrects=self._corrects)
        return Training(table, s, weight)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> LabelledRows:
        """Check the rows, labels and weights of a fit of logistic models; the rows need not be in memory."""
        if self._corrects:
            warn_if_fitted_to_labels(self)
        forget_fit(self)
        self._reader = None
        rows = check_labelled_rows(self, X, y, sample_weight, pos_label=self.pos_label, corrects=self._corrects)
        self._coding = rows.coding
        self.classes_ = self._coding.classes
        return rows

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        """Fit logistic models to checked rows; parameters name columns of the user's table `X`."""
        raise NotImplementedError

    def _can_fit_from_engine(self) -> bool:
        """Return whether the model can be fitted from the rows of an engine alone."""
        return False

    def _model_for_files(self, X: Any) -> tuple[Any, Any]:
        """Return the model that predicts a table in files, and the table in the form that this model reads."""
        return self, X

    def _store_linear(self, beta: Vector, design: Design, prefix: str = "") -> None:
        """Store a linear model with a coefficient for each column, 0 for columns that it does not use."""
        coef = np.zeros((1, self.n_features_in_))
        coef[0, design.columns] = beta[:-1]
        setattr(self, f"{prefix}coef_", coef)
        setattr(self, f"{prefix}intercept_", beta[-1:].copy())

    def _linear_probability(self, X: Any, prefix: str = "") -> Vector:
        return self._row_probability(check_rows(self, X), prefix)

    def _row_probability(self, engine: Engine, prefix: str = "") -> Vector:
        coef = getattr(self, f"{prefix}coef_")[0]
        return np.asarray(engine.collect(block_probability, coef, float(getattr(self, f"{prefix}intercept_")[0])))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "class_prior_")  # every fit stores this attribute last


def block_probability(X: Any, rows: Any, coef: Vector, intercept: float) -> Vector:
    """Return probabilities in float64, because coefficients of a float64 fit can exceed the range of float32."""
    if namespace_of(X) is not np:
        return sigmoid(logits(in_float64(X), np.append(coef, intercept)))
    return np.asarray(expit(np.asarray(in_double(X) @ coef, dtype=np.float64) + intercept))


def as_given(X: Any, values: Any) -> Any:
    """Return values as an array of the same library, and on the same device, as the table `X`."""
    if not on_device(X) or np.asarray(values).dtype.kind not in "fiub":
        return values
    return namespace_of(X).asarray(values, device=X.device)


def in_double(X: Any) -> Any:
    """Return a block in float64; sparse blocks are returned unchanged, because their products are in float64."""
    return X if sparse.issparse(X) or X.dtype == np.float64 else X.astype(np.float64)


def need_labels(s: Any, call: str) -> None:
    """Raise if the labels that a posterior needs are missing."""
    if s is None:
        raise TypeError(
            f"s must be the observed labels of the rows; got None. Call {call}. For probabilities without labels use "
            "predict_proba(X)."
        )


def check_solver_options(estimator: Any) -> None:
    """Check the parameters that all solvers share."""
    check_positive(estimator.C, "C")
    check_whole(estimator.max_iter, "max_iter", at_least=1)
    if estimator.tol is not None:
        check_positive(estimator.tol, "tol")


def fit_again(model: Any, rows: LabelledRows, X: Any) -> Any:
    """Clone a fitted model, and fit the clone to the same rows with other weights, without copying the rows."""
    again = clone_without_checks(model)
    for name in ("n_features_in_", "feature_names_in_", "classes_", "_coding", "_reader"):
        if hasattr(model, name):
            setattr(again, name, getattr(model, name))
    again._fit_on(rows, X)
    return again


def can_fit_from_engine(model: Any) -> bool:
    """Return whether a model can be fitted from the rows of an engine alone."""
    return bool(getattr(model, "_can_fit_from_engine", bool)())


def class_probability(model: Any, X: Any) -> Vector:
    """Return the probability of the positive class for each row, independent of the order of the classes."""
    return cast(Vector, model._class_probability(X))


def clone_without_checks(model: Any) -> Any:
    """Return a clone whose `fit` does not check its result, for example by comparison with other starts."""
    again = clone(model)
    again._runs_checks = False
    return again


def fit_quietly(model: Any, X: Any, s: Any, **given: Any) -> Any:
    """Fit a model without warnings and without comparison with other starts."""
    model._runs_checks = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, s, **given)


def _warn_if_decision_contradicts_fit(model: Any, positive: Any) -> None:
    """Warn if `predict` calls fewer rows positive than the interval of an uncertain class prior allows."""
    interval = getattr(model, "_uncertain_class_prior", None)
    called = int(np.count_nonzero(positive))
    if interval is None or called >= interval[0] * len(positive):
        return
    warn_user(
        f"predict() calls a row positive if its probability is above 1/2, which holds for {called} of "
        f"{len(positive)} rows. The fit does not know the number of positives: the interval of the class prior is "
        f"{interval[0]:.2f} to {interval[1]:.2f}. predict(X, decision='balanced') cuts at the estimated class prior, "
        f"{model.class_prior_:.2f}, and depends less on it.",
        ClassPriorWarning,
    )


SET_WITHOUT_PROPENSITY_ATTRIBUTES = "all but the propensity attributes"


def check_attribute_sets(
    given: Any, e_columns: Columns, n_columns: int, columns_of: Callable[[Any], Columns]
) -> dict[str, Columns]:
    """Return the columns of each attribute set.

    "auto" gives two sets: all columns, and all columns except the propensity attributes. The second set is left out if
    it is empty or has all columns.
    """
    if isinstance(given, str) and given == "auto":
        everything = np.arange(n_columns)
        without = np.setdiff1d(everything, e_columns)
        others = {SET_WITHOUT_PROPENSITY_ATTRIBUTES: without} if 0 < without.size < n_columns else {}
        return {"all": everything} | others
    named = _named_sets(given)
    sets = {name: columns_of(chosen) for name, chosen in named}
    if len(sets) < len(named):
        names = ", ".join(repr(name) for name, _ in named)
        raise ValueError(
            f"attribute_sets: each set needs a different name; got {names}. "
            "Remove duplicate sets, or pass a dict with different names."
        )
    return sets


def _named_sets(given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        named = [(str(name), chosen) for name, chosen in given.items()]
    else:
        each = [] if isinstance(given, str) or not np.iterable(given) else list(given)
        named = [(_name(i, chosen), chosen) for i, chosen in enumerate(each)]
    if not named:
        raise ValueError(
            "attribute_sets must be 'auto', or a list or dict of column selectors, for example [['age', 'sex'], None]; "
            f"None selects all columns. Got {shown(given)}."
        )
    return named


def _name(i: int, chosen: Any) -> str:
    if chosen is None:
        return "all"
    plain = isinstance(chosen, str) or (np.iterable(chosen) and all(isinstance(part, str) for part in chosen))
    return (chosen if isinstance(chosen, str) else ", ".join(chosen)) if plain else f"set {i + 1}"
