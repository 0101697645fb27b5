"""Classifier for raw tables: it prepares the columns, fits a model, and reports results by raw column."""

from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from scarless.checks.attributes import check_attributes, names_of, with_text_names
from scarless.checks.labels import LabelCoding, is_missing
from scarless.checks.looks import check_looks
from scarless.checks.options import shown
from scarless.checks.tables import in_files, table_array
from scarless.models import NaiveClassifier, PUClassifier
from scarless.models.explaining import (
    average_row,
    column_names,
    contributions,
    explanation,
    grouped,
    refuse_unless_in_memory,
)
from scarless.models.pair import means_all, with_known_rows
from scarless.models.predict_to import predict_to, propensity_is_known
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.summary import Summary, attribute_names
from scarless.numerics.arrays import Array, ArrayLike, Matrix, Vector
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import warn_user
from scarless.pair.constraints import labelling_of
from scarless.raw.leaks import warn_about_columns
from scarless.raw.origins import Origin, in_raw_units, trace_origins
from scarless.raw.preparation import table_preparation
from scarless.raw.tables import (
    arranged,
    as_frame,
    numbers_again,
    read_texts,
    refuse_duplicate_names,
    refuse_huge,
    scales_of,
    warn_if_far_outside,
)
from scarless.raw.visits import VisitColumns, columns_in_files, refuse_raw_columns
from scarless.scale.preparing import FilePreparation, PreparedRows

_SELECTIONS = ("propensity_attributes", "classification_attributes")  # parameters that name columns


def _has(method: str) -> Any:
    """Return a decorator: the method exists only if the inner estimator, fitted or not, has a method of this name."""

    def check(model: "TableClassifier") -> bool:
        inner = getattr(model, "estimator_", model.estimator)
        return hasattr(SAREMClassifierCV if inner is None else inner, method)

    return available_if(check)


class TableClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier for raw tables: a preparation of the columns and a classifier of this package.

    Columns are named as in the table: ``propensity_attributes=["insurance"]`` selects all columns that the preparation
    derives from `insurance`. All methods accept raw tables.

    Parameters
    ----------
    estimator : classifier of this package, optional
        Default: ``SAREMClassifierCV()``. Its parameters name columns of the raw table. Columns of `visit_attributes`
        bypass the preparation: the columns of one attribute share a coefficient, so they must be scaled together.
    preparation : transformer or "passthrough", optional
        Transformer that turns the table into numbers, without using labels. Default: `table_preparation`, which uses
        skrub; for a table in files, `scarless.scale.FilePreparation`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier. Its methods accept prepared tables only.
    preparation_ : transformer
        The fitted preparation.
    origins_ : list of Origin, or None
        Raw column and unit of each prepared column; None if they cannot be traced through the preparation.
    feature_names_in_ : array of str
        Columns of the raw table.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from scarless import SAREMClassifier, TableClassifier
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.normal(50, 10, 2000), "insurance": rng.choice(["none", "full"], 2000)})
    >>> ill = rng.random(2000) < 1 / (1 + np.exp(-(table["age"] - 50) / 5))
    >>> seen = rng.random(2000) < np.where(table["insurance"] == "full", 0.8, 0.2)
    >>> model = TableClassifier(SAREMClassifier(propensity_attributes=["insurance"])).fit(table, ill & seen)
    >>> round(model.class_prior_, 1)
    0.5
    >>> [origin.label for origin in model.origins_]
    ['age', 'insurance = full']
    """

    # Class attributes, so that models from files of earlier versions have them.
    _visits: VisitColumns | None = None
    _mean: Vector | None = None  # means of the prepared columns in the fit
    _scales: dict[str, Any] = {}  # noqa: RUF012 (replaced, never changed) ranges of the columns of numbers in the fit
    _known: tuple[Any, Any] | None = None  # a raw table and its prepared table, see `with_prepared`

    def __init__(self, estimator: Any = None, *, preparation: Any = None) -> None:
        self.estimator = estimator
        self.preparation = preparation

    @classmethod
    def from_pipeline(cls, pipeline: Pipeline) -> Self:
        """Wrap a fitted scikit-learn pipeline that ends in a classifier of this package.

        A `Pipeline` has only `predict` and `predict_proba`. The returned model also has `predict_posterior`,
        `predict_propensity`, `summary` and intervals for raw tables.

        Parameters
        ----------
        pipeline : Pipeline
            Fitted pipeline. Its steps are shared, not copied.

        Returns
        -------
        TableClassifier
            Fitted model.

        Examples
        --------
        >>> import numpy as np
        >>> from scarless import SAREMClassifier, TableClassifier
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 2))
        >>> s = (X[:, 0] > 0) & (rng.random(1000) < 1 / (1 + np.exp(-X[:, 1])))
        >>> pipeline = make_pipeline(StandardScaler(), SAREMClassifier(propensity_attributes=[1])).fit(X, s)
        >>> hasattr(pipeline, "predict_posterior")
        False
        >>> TableClassifier.from_pipeline(pipeline).predict_posterior(X, s).shape
        (1000,)
        """
        if not isinstance(pipeline, Pipeline):
            raise TypeError(f"pipeline must be a scikit-learn Pipeline; got {type(pipeline).__name__}.")
        check_is_fitted(pipeline)
        model = cls(pipeline[-1], preparation=pipeline[:-1])
        model.estimator_, model.preparation_ = pipeline[-1], pipeline[:-1] if len(pipeline.steps) > 1 else "passthrough"
        model.classes_ = pipeline.classes_
        names = getattr(pipeline, "feature_names_in_", None)
        model._note_columns(names, getattr(pipeline[-1], "n_features_in_", None))
        return model

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit the preparation to the table, and the classifier to the prepared table.

        Parameters
        ----------
        X : data frame, array of shape (n_rows, n_columns), or ParquetRows
            Attributes of the rows, one row each. Columns may hold numbers, text, categories or dates.
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows. With ParquetRows, `y`, `sample_weight` and
            `audit` are names of columns; `y` is a list of names if there are several looks.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.
        **fit_params
            Passed to the classifier's `fit`, for example `audit`, or `propensity` for `PropensityWeightedClassifier`.

        Returns
        -------
        TableClassifier
        """
        started = self._start(X, y, sample_weight, fit_params.get("audit"))
        self._finish(started, y, sample_weight, **fit_params)
        if self.preparation is None and not in_files(X):
            self._warn_about_columns(started.X, y, fit_params.get("audit"))
        return self

    def _start(self, X: Any, y: Any, sample_weight: Any = None, audit: Any = None) -> "StartedFit":
        """Fit the preparation only."""
        estimator = self._unfitted()
        refuse_raw_columns(estimator)
        self._visits, self._scales, as_passed = None, {}, X
        if in_files(X):
            names, prepared, n_out = self._prepare_files(X, y, sample_weight, estimator, audit)
        else:
            if self.preparation is None:
                X = as_frame(X)
                refuse_duplicate_names(list(X.columns))
                X = self._read_texts(X)
            names, prepared, n_out = self._prepare_table(X, y, estimator)
        self._note_columns(names, n_out, X)
        return StartedFit(self, X, as_passed, names, prepared)

    def _finish(self, started: "StartedFit", y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the classifier to the prepared table."""
        X, estimator = started.X, self._unfitted()
        if self._visits is not None:
            labelling = clone(labelling_of(estimator)).set_params(visit_attributes=self._visits.places)
            estimator.set_params(labelling=labelling)
        self._translate(estimator, X, started.names, started.as_passed)
        if sample_weight is not None:
            fit_params["sample_weight"] = sample_weight
        self.estimator_ = estimator.fit(started.prepared, y, **fit_params)
        self.classes_ = self.estimator_.classes_
        self._mean = None if in_files(X) else average_row(started.prepared, sample_weight)
        return self

    def _unfitted(self) -> Any:
        return SAREMClassifierCV() if self.estimator is None else clone(check_own(self.estimator))

    def _warn_about_columns(self, X: Any, y: Any, audit: Any) -> None:
        """Warn about columns that may leak the label, and about values that no labelled row has.

        Several looks, and the naive model, which only predicts labels, do not warn.
        """
        coding, labels = getattr(self.estimator_, "label_coding_", None), np.asarray(y)
        if coding is None or labels.ndim > 1 or isinstance(self.estimator_, NaiveClassifier):
            return
        X = X if hasattr(X, "iloc") else X.to_pandas()
        visits = set() if self._visits is None else {name for names in self._visits.columns.values() for name in names}
        chosen = getattr(self.estimator_, "propensity_attributes", None)
        origins = self.origins_ or []
        named = [str(origins[int(j)].column) for j in ([] if chosen is None or isinstance(chosen, str) else chosen)]
        audited = None if audit is None else ~is_missing(np.asarray(audit, dtype=object).reshape(-1))
        warn_about_columns(X.drop(columns=list(visits)), coding.encode(labels) == 1, audited=audited, named=named)

    def _read_texts(self, X: Any) -> Any:
        """Read columns of numbers or dates that are written as text; store the range of each column of numbers."""
        X, messages, questions = read_texts(X)
        if questions:
            raise ValueError(questions[0])
        for message in messages:
            warn_user(message, UserWarning)
        refuse_huge(X)
        self._scales = scales_of(X)
        return X

    def _prepare_table(self, X: Any, y: Any, estimator: Any) -> tuple[Any, Any, int]:
        """Fit the preparation to a table in memory; return its column names, the prepared table and its width.

        Columns of visit attributes bypass the preparation.
        """
        names = names_of(X)
        if names is not None:
            refuse_duplicate_names(names)
        given = table_preparation() if self.preparation is None else self.preparation
        unprepared = isinstance(given, str) and given == "passthrough"
        if not unprepared and (isinstance(given, type) or not hasattr(given, "fit_transform")):
            raise ValueError(
                "preparation must be None, 'passthrough', or a transformer with fit_transform, such as "
                f"StandardScaler(); got {shown(given)}."
            )
        self.preparation_: Any = given if unprepared else clone(given)
        given_visits = None if unprepared else labelling_of(estimator).visit_attributes
        visits = VisitColumns.of(given_visits, X, names, y, getattr(estimator, "pos_label", None))
        others = X if visits is None else X[visits.others(names)]
        prepared = others if unprepared else self.preparation_.fit_transform(others)
        if visits is not None:
            self._visits = visits.placed(int(prepared.shape[1]))
            prepared = self._visits.appended(prepared, X)
        return names, prepared, int(prepared.shape[1])

    def _prepare_files(
        self, X: Any, y: Any, sample_weight: Any, estimator: Any, audit: Any = None
    ) -> tuple[Any, Any, int]:
        """Fit the preparation to a table in files, in one pass."""
        labels = columns_in_files(y, audit, estimator, self.preparation)
        given = FilePreparation() if self.preparation is None else self.preparation
        if isinstance(given, str) and given == "passthrough":
            self.preparation_, names = given, list(X.plan(labels, sample_weight).names)
            return names, X, len(names)
        if not isinstance(given, FilePreparation):
            raise TypeError(
                "preparation must be scarless.scale.FilePreparation() or 'passthrough' if the table is in files; got "
                f"{type(given).__name__}, which needs all rows in memory. Leave preparation out, or pass one of these."
            )
        self.preparation_ = clone(given).fit(X, labels, sample_weight)
        return self.preparation_.raw_names, PreparedRows(X, self.preparation_), len(self.preparation_.names)

    def prepare(self, X: Any) -> Any:
        """Return the prepared table, which is the input of the classifier.

        If a column of the fit is absent, all its values are treated as missing, with a warning. Columns that were not
        in the fit are ignored.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            Raw rows.

        Returns
        -------
        data frame or array
            ``origins_[j]`` describes column `j`. ``columns_of(name)`` returns the positions of the columns that were
            derived from the raw column `name`.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from scarless import SAREMClassifier, TableClassifier
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"age": rng.normal(50, 10, 500), "insurance": rng.choice(["none", "full"], 500)})
        >>> s = (table["age"] > 50) & (rng.random(500) < np.where(table["insurance"] == "full", 0.8, 0.2))
        >>> model = TableClassifier(SAREMClassifier(propensity_attributes=["insurance"])).fit(table, s)
        >>> seen = model.prepare(table)
        >>> list(seen.columns)
        ['age', 'insurance_full']
        >>> bool((model.estimator_.predict_proba(seen) == model.predict_proba(table)).all())
        True
        """
        check_is_fitted(self)
        if self._known is not None and X is self._known[0]:
            return self._known[1]
        if isinstance(self.preparation_, str):
            return X
        if in_files(X):
            if not isinstance(self.preparation_, FilePreparation):
                raise TypeError(
                    f"X must be a table in memory, as in the fit; got {type(X).__name__}. Use predict_to(X, folder), "
                    "which reads some rows at a time, or fit the model to rows in files."
                )
            return self.preparation_.transform(X)
        if self.preparation is None:
            X = as_frame(X)
        X, visits = self._with_all_columns(X), self._visits
        if visits is None:
            return self._transformed(X)
        return visits.appended(self._transformed(X[visits.others(X.columns)]), X)

    def _transformed(self, X: Any) -> Any:
        if self.preparation is not None:
            return self.preparation_.transform(X)
        try:
            with np.errstate(over="raise"):
                return self.preparation_.transform(X)
        except FloatingPointError as error:
            raise ValueError(
                "Values of X are so far outside the range of the fit that they cannot be scaled. Check the units of "
                "the columns."
            ) from error
        except TypeError as error:
            if "was fitted to a" not in str(error):
                raise
            raise TypeError(
                f"X is a {type(X).__module__.partition('.')[0]} data frame, but the fit had a data frame of another "
                "library. Convert X, for example with polars.from_pandas(X) or X.to_pandas()."
            ) from error

    predict_to = predict_to

    def _model_for_files(self, X: Any) -> tuple[Any, Any]:
        if isinstance(self.preparation_, str):
            return self.estimator_, X
        if isinstance(self.preparation_, FilePreparation):
            return self.estimator_, self.preparation_.transform(X)
        return self, X

    @property
    def label_coding_(self) -> LabelCoding:
        """The two values of labels in the fit, and which of them marks a labelled row."""
        coding: LabelCoding = self.estimator_.label_coding_
        return coding

    @property
    def _propensity_is_known(self) -> bool:
        return propensity_is_known(self.estimator_)

    def columns_of(self, column: str) -> NDArray[np.intp]:
        """Return the positions of the prepared columns that were derived from a raw column."""
        check_is_fitted(self)
        return np.array([j for j, each in enumerate(self.origins_ or ()) if each.column == column], dtype=np.intp)

    # --- methods of the inner classifier, on prepared rows

    def predict_proba(self, X: Any) -> Matrix:
        """Return the probability of each class for each row of a raw table, given its attributes only."""
        return np.asarray(self.fitted_estimator.predict_proba(self.prepare(X)))

    def predict(self, X: Any, *, decision: Any = "accuracy") -> Array:
        """Return the class of each row of a raw table; see `SAREMClassifier.predict` for `decision`."""
        # The last step of a pipeline may be a classifier without `decision`.
        usual = isinstance(decision, str) and decision == "accuracy"
        given = {} if usual else {"decision": decision}
        return np.asarray(self.fitted_estimator.predict(self.prepare(X), **given))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean log-likelihood of the observed labels; audits are not used."""
        return float(self.fitted_estimator.score(self.prepare(X), y, sample_weight=sample_weight))

    @_has("predict_propensity")
    def predict_propensity(self, X: Any, look: int | None = None) -> Vector:
        """Return the propensity of each row of a raw table; with several looks, the propensity at one look.

        A missing visit attribute is replaced by its mean.
        """
        given = {} if look is None else {"look": look}
        return np.asarray(self.fitted_estimator.predict_propensity(self.prepare(X), **given))

    @_has("predict_posterior")
    def predict_posterior(
        self, X: Any, s: ArrayLike, propensity: ArrayLike | None = None, audit: ArrayLike | None = None
    ) -> Vector:
        """Return the probability that each row is positive, given its attributes and its label.

        Pass `propensity` if the classifier does not estimate it. You can pass `audit` if the classifier was fitted with
        audits or several looks.
        """
        known = {} if propensity is None else {"propensity": propensity}
        if known and not isinstance(self.fitted_estimator, PropensityWeightedClassifier):
            raise ValueError(
                f"propensity was passed, but {type(self.estimator_).__name__} has estimated it. Leave propensity out."
            )
        given = known | ({} if audit is None else {"audit": audit})
        self._refuse_gaps(X, s)
        return np.asarray(self.fitted_estimator.predict_posterior(self.prepare(X), s, **given))

    @_has("predict_proba_interval")
    def predict_proba_interval(self, X: Any, *, level: float = 0.95) -> Matrix:
        """Return a confidence interval for the class probability of each row."""
        return np.asarray(self.fitted_estimator.predict_proba_interval(self.prepare(X), level=level))

    @_has("predict_propensity_interval")
    def predict_propensity_interval(self, X: Any, *, look: int | None = None, level: float = 0.95) -> Matrix:
        """Return a confidence interval for the propensity of each row; with several looks, at one look."""
        given = {} if look is None else {"look": look}
        return np.asarray(self.fitted_estimator.predict_propensity_interval(self.prepare(X), level=level, **given))

    @_has("predict_posterior_interval")
    def predict_posterior_interval(
        self, X: Any, s: ArrayLike, *, audit: ArrayLike | None = None, level: float = 0.95
    ) -> Matrix:
        """Return a confidence interval for the posterior of each row."""
        given = {} if audit is None else {"audit": audit}
        self._refuse_gaps(X, s)
        return np.asarray(self.fitted_estimator.predict_posterior_interval(self.prepare(X), s, level=level, **given))

    @_has("draw_posteriors")
    def draw_posteriors(
        self,
        X: Any,
        s: ArrayLike,
        *,
        audit: ArrayLike | None = None,
        n_draws: int = 200,
        random_state: Any = 0,
    ) -> Matrix:
        """Return draws of the posteriors that reflect the uncertainty of the parameters; one draw covers all rows."""
        given = ({} if audit is None else {"audit": audit}) | {"n_draws": n_draws, "random_state": random_state}
        self._refuse_gaps(X, s)
        return np.asarray(self.fitted_estimator.draw_posteriors(self.prepare(X), s, **given))

    @_has("out_of_fold_logits")
    def out_of_fold_logits(
        self, X: Any, s: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> tuple[Vector, Vector]:
        """Return the out-of-fold logits of class and propensity of the rows of the fit."""
        u, v = self.fitted_estimator.out_of_fold_logits(self.prepare(X), s, sample_weight=sample_weight)
        return u, v

    @_has("detection_curve")
    def detection_curve(self, X: Any, n_looks: int | None = None) -> Vector:
        """Return the share of positives that have been labelled after one look, after two looks, and so on."""
        return np.asarray(self.fitted_estimator.detection_curve(self.prepare(X), n_looks))

    @_has("class_prior_interval")
    def class_prior_interval(self, *, level: float = 0.95) -> Interval:
        """Return a confidence interval for the class prior."""
        return Interval(*self.fitted_estimator.class_prior_interval(level=level))

    @_has("label_frequency_interval")
    def label_frequency_interval(self, *, level: float = 0.95) -> Interval:
        """Return a confidence interval for the label frequency."""
        return Interval(*self.fitted_estimator.label_frequency_interval(level=level))

    @_has("summary")
    def summary(self, *, level: float = 0.95) -> Any:
        """Return the classifier's summary, with names and units of the raw columns.

        Intercepts, and coefficients of columns whose unit cannot be traced, are those of the prepared table.
        """
        found = self.fitted_estimator.summary(level=level)
        if self.origins_ is None or not isinstance(found, Summary):
            return found
        return in_raw_units(found, attribute_names(self.estimator_), self.origins_, self.visit_units)

    def explain(self, X: Any, background: Any = None, *, n_reasons: int | None = 3) -> Any:
        r"""Return the raw columns that contribute most to each row's log-odds of the class, relative to an average row.

        The report shows these columns as the main reasons for ranked rows. The contribution of a raw column includes
        all columns derived from it. For a linear model it is :math:`\sum_j \beta_j (x_j - \bar x_j)`. For any other
        model it is the drop of the log-odds when these columns are set to their means. Contributions describe the
        model, not causes.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            Raw rows.
        background : data frame or array, optional
            Raw rows whose average is the reference. Default: the rows of the fit.
        n_reasons : int or None, default=3
            Number of columns for each row, by absolute contribution; None for all.

        Returns
        -------
        pandas DataFrame
            One line for each row and column: ``row`` (index, or position from 0), ``column``, ``value`` and
            ``contribution``.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from scarless import SAREMClassifier, TableClassifier
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"age": rng.normal(50, 10, 2000), "insurance": rng.choice(["none", "full"], 2000)})
        >>> ill = rng.random(2000) < 1 / (1 + np.exp(-(table["age"] - 50) / 5))
        >>> seen = rng.random(2000) < np.where(table["insurance"] == "full", 0.8, 0.2)
        >>> model = TableClassifier(SAREMClassifier(propensity_attributes=["insurance"])).fit(table, ill & seen)
        >>> model.explain(table.loc[[7]], n_reasons=1)[["row", "column"]].to_dict("records")
        [{'row': 7, 'column': 'age'}]
        """
        refuse_unless_in_memory(X, background)
        if not hasattr(X, "shape"):
            X = table_array(X)
        prepared = self.prepare(X)
        mean = self._mean if background is None else average_row(self.prepare(background))
        if mean is None:
            raise ValueError(
                "explain compares rows with the average row of the fit, which this model does not have: it was made "
                "from a pipeline, was fitted to rows in files, or its prepared columns are not numbers. Pass the rows "
                "of the fit as background=."
                if background is None
                else "explain needs numeric columns after the preparation. Use the default preparation."
            )
        names = column_names(prepared)
        origins = [None] * len(names) if self.origins_ is None else [each.column for each in self.origins_]
        groups = grouped([name if raw is None else raw for name, raw in zip(names, origins, strict=True)])
        parts = contributions(self.fitted_estimator, prepared, mean, list(groups.values()))
        return explanation(with_text_names(X) if hasattr(X, "iloc") else X, groups, parts, n_reasons)

    def _refuse_gaps(self, X: Any, s: Any) -> None:
        """Raise if a visit attribute is missing at a look that took place."""
        check_is_fitted(self)
        if self._visits is None or s is None:
            return
        table = self._with_all_columns(as_frame(X) if self.preparation is None else X)
        self._visits.refuse_gaps(table, check_looks(s, coding=self.label_coding_, name="s").labels >= 0)

    @property
    def visit_units(self) -> dict[str, float]:
        """For each visit attribute, the number of raw units in one unit of its prepared columns."""
        return {} if self._visits is None else dict(self._visits.scale)

    @property
    def fitted_estimator(self) -> Any:
        """The fitted classifier."""
        check_is_fitted(self)
        return self.estimator_

    @property
    def class_prior_(self) -> float:
        """Class prior: the share of positives."""
        return float(self.estimator_.class_prior_)

    @property
    def label_frequency_(self) -> float:
        """Label frequency: the share of positives that are labelled."""
        return float(self.estimator_.label_frequency_)

    # --- columns

    def _note_columns(self, names: Any, n_out: int | None, X: Any = None) -> None:
        """Store the names of the raw columns and the origins of the prepared columns."""
        if names is None:
            n_in = X.shape[1] if X is not None else getattr(self.preparation_, "n_features_in_", n_out)
            self.n_features_in_ = int(n_in or 0)
            names = [f"x{j}" for j in range(self.n_features_in_)]
        else:
            self.feature_names_in_ = np.asarray([str(name) for name in names], dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        visits = self._visits
        if visits is None:
            self.origins_: list[Origin] | None = trace_origins(self.preparation_, names, n_out)
            return
        n_others = None if n_out is None else n_out - len(visits.names)
        known = trace_origins(self.preparation_, visits.others(names), n_others)
        self.origins_ = None if known is None else [*known, *visits.origins()]

    def _translate(self, estimator: Any, X: Any, names: Any, as_passed: Any) -> None:
        """Replace the estimator's selections of raw columns by selections of prepared columns.

        `as_passed` is the table as the user passed it. Its column names may be numbers that are not positions.
        """
        if isinstance(self.preparation_, str):
            return

        def moved(given: Any, parameter: str) -> Any:
            table = X if callable(given) else as_passed
            return self._prepared_columns(given, table, names, parameter)

        for parameter in _SELECTIONS:
            if hasattr(estimator, parameter):
                estimator.set_params(**{parameter: moved(getattr(estimator, parameter), parameter)})
        sets = getattr(estimator, "attribute_sets", None)
        if sets is not None and not isinstance(sets, str):
            items = sets.items() if hasattr(sets, "items") else enumerate(sets)
            prepared = {name: moved(chosen, "attribute_sets") for name, chosen in items}
            estimator.set_params(attribute_sets=prepared if hasattr(sets, "items") else list(prepared.values()))

    def _prepared_columns(self, given: Any, X: Any, names: Any, parameter: str) -> Any:
        """Return the positions of the prepared columns of a selection; None and "all" are returned unchanged."""
        if given is None or means_all(given):
            return given
        if self.origins_ is None:
            raise ValueError(
                f"{parameter} names columns of the raw table, but the columns that this preparation derives from them "
                "cannot be traced. Use the default preparation. Or use a Pipeline, not TableClassifier, and name the "
                "prepared columns."
            )
        raw = check_attributes(given, X, n_columns=self.n_features_in_, names=names, parameter=parameter)
        known = [str(name) for name in (names if names is not None else (f"x{j}" for j in range(self.n_features_in_)))]
        wanted = [known[j] for j in raw]
        dropped = [name for name in wanted if not any(each.column == name for each in self.origins_)]
        if dropped:
            raise ValueError(
                f"{parameter} selects columns that the preparation dropped: {', '.join(map(repr, dropped))}. The "
                f"default preparation drops constant and empty columns. Remove these names from {parameter}."
            )
        return [j for j, each in enumerate(self.origins_) if each.column in wanted]

    def _with_all_columns(self, X: Any) -> Any:
        """Return a table with the columns of the fit, in their order; columns of numbers are read as numbers again."""
        if self.preparation is None and hasattr(X, "columns"):
            refuse_duplicate_names(list(X.columns))
        X = self._arranged(X)
        if not self._scales or not hasattr(X, "columns"):
            return X
        X = numbers_again(X, self._scales)
        refuse_huge(X)
        warn_if_far_outside(X, self._scales)
        return X

    def _arranged(self, X: Any) -> Any:
        known, given = getattr(self, "feature_names_in_", None), names_of(X)
        given = [] if given is None and hasattr(X, "columns") and not len(X.columns) else given
        if known is None or given is None or list(map(str, given)) == list(known):
            return X
        missing = [name for name in known if name not in given]
        if len(missing) == len(known):
            here = ", ".join(map(str, given[:6])) or "no columns"
            raise ValueError(
                f"X has no column of the fit. The fit had {', '.join(map(str, known[:6]))}"
                f"{', ...' if len(known) > 6 else ''}; X has {here}. Pass a table with the columns of the fit."
            )
        if missing:
            warn_user(
                f"Column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))} of the fit "
                f"{'are not in this table. Their' if len(missing) > 1 else 'is not in this table. Its'} values are "
                "treated as missing.",
                UserWarning,
            )
        return arranged(X, list(known), missing)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(SAREMClassifierCV() if self.estimator is None else self.estimator)
        tags.classifier_tags = inner.classifier_tags
        tags.input_tags.sparse = isinstance(self.preparation, str) and inner.input_tags.sparse
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimator_")


def check_own(estimator: Any) -> Any:
    """Return the estimator; raise if it is not a classifier of this package."""
    if not isinstance(estimator, PUClassifier):
        raise TypeError(
            "estimator must be a classifier of this package, such as SAREMClassifierCV(propensity_attributes=[...]); "
            f"got {shown(estimator)}."
        )
    return estimator


class StartedFit(NamedTuple):
    """A raw table with a fitted preparation, to which several classifiers can be fitted."""

    model: TableClassifier  # without a fitted classifier
    X: Any  # the raw table, with columns of numbers and dates read
    as_passed: Any
    names: Any  # of the raw columns
    prepared: Any


def start_fit(estimator: Any, X: Any, y: Any, sample_weight: Any = None, audit: Any = None) -> StartedFit:
    """Fit the preparation of a raw table; of `estimator`, only the visit attributes and `pos_label` matter."""
    return TableClassifier(estimator)._start(X, y, sample_weight, audit)


def finish_fit(
    started: StartedFit, estimator: Any, y: Any, sample_weight: Any = None, **fit_params: Any
) -> TableClassifier:
    """Return a classifier of raw tables, fitted to a table whose preparation is fitted.

    Unlike `TableClassifier.fit`, this does not search the columns for leaks.
    """
    model = copy(started.model)
    model.estimator = estimator
    return model._finish(started, y, sample_weight, **fit_params)


def with_prepared(model: TableClassifier, X: Any, prepared: Any) -> TableClassifier:
    """Return a copy of a fitted classifier that uses `prepared` as the prepared form of `X`; `X` must not change."""
    model = copy(model)
    model._known = (X, prepared)
    model.estimator_ = with_known_rows(model.fitted_estimator, prepared)
    return model


def with_fitted_columns(model: TableClassifier, X: Any) -> Any:
    """Return a raw table with the columns of the fit, in their order; columns of numbers are read as numbers again."""
    return model._with_all_columns(as_frame(X) if model.preparation is None else X)
