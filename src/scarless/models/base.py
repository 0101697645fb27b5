"""What all classifiers here share: labels in, probabilities of the true class out."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import warn_if_fitted_to_labels, warn_if_scored_by_labels
from scarless.checks.labels import LabelCoding
from scarless.checks.options import check_counts, check_positive, check_vector, check_weight, check_whole, cut_of, shown
from scarless.checks.rows import (
    LabelledRows,
    check_labelled_rows,
    check_labelled_table,
    check_rows,
    count_rows,
    forget_fit,
    named_values,
    refuse_lost_class,
    warn_about_row_order,
)
from scarless.checks.tables import refuse_own_engine, refuse_unread
from scarless.engines import Engine
from scarless.engines.base import known_rows, on_device
from scarless.models.explaining import average_row, column_names, contributions, explanation, grouped, refuse_elsewhere
from scarless.models.predict_to import predict_to
from scarless.numerics.arrays import Array, Columns, Vector, in_float64, namespace_of
from scarless.numerics.likelihood import log_likelihood_of_probabilities, posterior, posterior_known, sigmoid
from scarless.numerics.linear import Design, logits
from scarless.pair.logistic import Training


class PUClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers: `fit` gets the observed labels, predictions are of the true class."""

    pos_label: Any
    class_prior_: float
    _coding: LabelCoding
    _corrects = True  # whether it tells the class from the label; tools that take one for the other are told of then
    _propensity_is_fact = False  # whether an unlabelled row of propensity 1 is surely negative
    _one_propensity = False  # whether it is the label frequency for every row
    _is_shown = True  # whether somebody sees its warnings: not where a fit is one of many resamples
    predict_to = predict_to

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
        """The two values of labels in the fit, and which of them is the positive one."""
        return self._coding

    def _inner(self) -> Any:
        """Return the user's estimator that reads the table, if there is one."""
        return getattr(self, "estimator", None)

    def predict_proba(self, X: Any) -> Vector:
        """Return the probability of each class, one column per entry of ``classes_``.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)

        Returns
        -------
        array of shape (n_rows, 2)
        """
        check_is_fitted(self)
        if self._corrects:
            warn_if_scored_by_labels(self)
        return as_given(X, self._coding.columns(self._class_probability(X)))

    def predict(self, X: Any, *, decision: Any = "accuracy") -> Array:
        r"""Return the class of each row: positive where :math:`f(x)` is above a cut.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        decision : {"accuracy", "balanced"} or pair of numbers, default="accuracy"
            Which cut. "accuracy": 1/2, the more probable class, which makes fewest errors. "balanced": the class prior
            :math:`\pi`, ``class_prior_``, which maximises the mean of sensitivity and specificity. A pair ``(cost_fp,
            cost_fn)``: :math:`c_{fp} / (c_{fp} + c_{fn})`, which minimises the expected cost of false positives and
            false negatives. Each is right as far as :math:`f` is calibrated.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        if self._corrects:
            warn_if_scored_by_labels(self)
        cut = cut_of(decision, self.class_prior_)
        return as_given(X, self._coding.decode(self._class_probability(X) > cut))

    def _class_probability(self, X: Any) -> Vector:
        raise NotImplementedError

    def _posterior(self, X: Any, s: Any, propensity: Vector, *, known: bool) -> Vector:
        f = self._class_probability(X)
        coded = check_vector(self._coding.encode(named_values(X, s, labels=True), "s"), "s", n_rows=f.size)
        warn_about_row_order(X, s=s)
        return posterior_known(f, propensity, coded) if known else posterior(f, propensity, coded)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        r"""Return the mean observed log-likelihood of labels: what can be said of a fit without knowing the class.

        .. math:: \frac{1}{\sum w}\sum_i w_i [s_i \log(f_i e_i) + (1-s_i)\log(1 - f_i e_i)]

        Higher is better. Not accuracy: against the observed labels that rewards calling every unlabelled row negative.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional

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
        r"""Return the columns that move each row's log-odds of the class most, compared with an average row.

        Of a linear model a column's contribution is :math:`\beta_j (x_j - \bar x_j)`; of any other, how far the
        log-odds fall if the column is put to its mean. Contributions say what the model leans on. They are not causes.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_attributes)
            The rows to explain.
        background : array or data frame of shape (n_other_rows, n_attributes)
            The rows whose average is the row compared with, usually those of the fit.
        n_reasons : int or None, default=3
            How many columns of each row, the largest contributions first, positive or negative; None for all.

        Returns
        -------
        pandas DataFrame
            A line for each row and reason: ``row`` (its index, or its number from 0), ``column``, ``value`` and
            ``contribution``.
        """
        refuse_elsewhere(X, background)
        for table in (X, background):
            self.predict_proba(table)  # checks columns and values, in the words of a prediction
        tables = [table if hasattr(table, "shape") else np.asarray(table) for table in (X, background)]
        mean, groups = average_row(tables[1]), grouped(column_names(tables[0]))
        if mean is None:
            raise ValueError("explain needs columns of numbers; wrap the estimator in TableClassifier for raw tables.")
        return explanation(tables[0], groups, contributions(self, tables[0], mean, list(groups.values())), n_reasons)

    def _assumed_propensity(self, X: Any) -> Vector:
        """Return the propensity that the model assumes for rows it is scored on; 1 where it assumes nothing."""
        check_is_fitted(self)
        refuse_unread(X, "X")
        return np.ones(count_rows(X))

    def _check_training(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """Check everything a fit gets."""
        if self._corrects:
            warn_if_fitted_to_labels(self)
        refuse_own_engine(X, f"{type(self).__name__} with these parameters")
        forget_fit(self)
        self._reader = self._inner()
        table, s, self._coding = check_labelled_table(self, X, y, inner=self._reader, pos_label=self.pos_label)
        self.classes_ = self._coding.classes
        weight = check_counts(sample_weight, n_rows=s.size)
        warn_about_row_order(X, sample_weight=sample_weight)
        refuse_lost_class(weight @ s, weight @ (1.0 - s))
        return Training(table, s, weight)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> LabelledRows:
        """Check everything a fit of logistic models gets, wherever its rows live."""
        if self._corrects:
            warn_if_fitted_to_labels(self)
        forget_fit(self)
        self._reader = None
        rows = check_labelled_rows(self, X, y, sample_weight, pos_label=self.pos_label)
        self._coding = rows.coding
        self.classes_ = self._coding.classes
        return rows

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        """Fit logistic models to checked rows; `X` is the table as the user gave it, for those who name columns."""
        raise NotImplementedError

    def _lives_in_engine(self) -> bool:
        """Whether a fit needs no rows but those of an engine."""
        return False

    def _asked_in_files(self, X: Any) -> tuple[Any, Any]:
        """Return the model that is asked about rows of files, and these as it takes them."""
        return self, X

    def _store_linear(self, beta: Vector, design: Design, prefix: str = "") -> None:
        """Store a linear model with coefficients for all columns, 0 where it does not look."""
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
        return hasattr(self, "class_prior_")  # what every fit stores last


def block_probability(X: Any, rows: Any, coef: Vector, intercept: float) -> Vector:
    """Return probabilities in float64: coefficients of a float64 fit may be beyond float32, or need more digits."""
    if namespace_of(X) is not np:
        return sigmoid(logits(in_float64(X), np.append(coef, intercept)))
    return np.asarray(expit(np.asarray(in_double(X) @ coef, dtype=np.float64) + intercept))


def as_given(X: Any, values: Any) -> Any:
    """Return an answer as an array of the library, and on the device, of the table that was asked about."""
    if not on_device(X) or np.asarray(values).dtype.kind not in "fiub":
        return values
    return namespace_of(X).asarray(values, device=X.device)


def in_double(X: Any) -> Any:
    """Return a block in float64; a sparse one is that in products."""
    return X if sparse.issparse(X) or X.dtype == np.float64 else X.astype(np.float64)


def need_labels(s: Any, call: str) -> None:
    """Raise where the labels are left out that a posterior is given."""
    if s is None:
        raise TypeError(
            f"predict_posterior needs the observed labels of the rows too: {call}. The probability by attributes alone "
            "is predict_proba(X)."
        )


def check_solver_options(estimator: Any) -> None:
    """Check the parameters that all solvers share."""
    check_positive(estimator.C, "C")
    check_whole(estimator.max_iter, "max_iter", at_least=1)
    if estimator.tol is not None:
        check_positive(estimator.tol, "tol")


def fit_again(model: Any, rows: LabelledRows, X: Any) -> Any:
    """Return a clone of a fitted model, fitted to the same rows with other weights: none of them is copied."""
    again = clone_unshown(model)
    for name in ("n_features_in_", "feature_names_in_", "classes_", "_coding", "_reader"):
        if hasattr(model, name):
            setattr(again, name, getattr(model, name))
    again._fit_on(rows, X)
    return again


def lives_in_engine(model: Any) -> bool:
    """Whether a fit of a model needs no rows but those of an engine."""
    return bool(getattr(model, "_lives_in_engine", bool)())


def class_probability(model: Any, X: Any) -> Vector:
    """Return the probability of the positive class of each row, whatever the order of the classes is."""
    return cast(Vector, model._class_probability(X))


def clone_unshown(model: Any) -> Any:
    """Return a clone whose fit warns of nothing that the model's own fit has warned of, nor looks from other starts."""
    again = clone(model)
    again._is_shown = False
    return again


def fit_quietly(model: Any, X: Any, s: Any, **given: Any) -> Any:
    """Fit a model of which nothing is shown: without warnings, and without a look from other starts."""
    model._is_shown = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, s, **given)


WITHOUT = "all but the propensity attributes"


def check_attribute_sets(
    given: Any, e_columns: Columns, n_columns: int, columns_of: Callable[[Any], Columns]
) -> dict[str, Columns]:
    """Return the columns of each set. "auto": all columns, and all but the propensity attributes."""
    if isinstance(given, str) and given == "auto":
        everything = np.arange(n_columns)
        without = np.setdiff1d(everything, e_columns)
        return {"all": everything} | ({WITHOUT: without} if 0 < without.size < n_columns else {})
    named = _named_sets(given)
    sets = {name: columns_of(chosen) for name, chosen in named}
    if len(sets) < len(named):
        names = ", ".join(repr(name) for name, _ in named)
        raise ValueError(f"Each of attribute_sets needs its own name; got {names}. Give a dict with other names.")
    return sets


def _named_sets(given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        named = [(str(name), chosen) for name, chosen in given.items()]
    else:
        each = [] if isinstance(given, str) or not np.iterable(given) else list(given)
        named = [(_name(i, chosen), chosen) for i, chosen in enumerate(each)]
    if not named:
        raise ValueError(
            "attribute_sets must be 'auto', or a list or dict with at least one set of attributes, each as "
            f"classification_attributes of SAREMClassifier takes them; got {shown(given)}."
        )
    return named


def _name(i: int, chosen: Any) -> str:
    if chosen is None:
        return "all"
    plain = isinstance(chosen, str) or (np.iterable(chosen) and all(isinstance(part, str) for part in chosen))
    return (chosen if isinstance(chosen, str) else ", ".join(chosen)) if plain else f"set {i + 1}"
