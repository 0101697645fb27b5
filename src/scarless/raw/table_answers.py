"""What a classifier of raw tables is asked: the table is prepared, and the inner classifier answers."""

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from scarless.checks.looks import check_looks
from scarless.models.explaining import average_row, column_names, contributions, explanation, grouped, refuse_elsewhere
from scarless.models.propensity_weighted import PropensityWeightedClassifier
from scarless.models.sar_em_cv import SAREMClassifierCV
from scarless.models.summary import Summary
from scarless.numerics.arrays import Array, ArrayLike, Matrix, Vector
from scarless.numerics.interval import Interval
from scarless.raw.frames import as_frame
from scarless.raw.origins import Origin
from scarless.raw.raw_units import in_raw_units
from scarless.raw.visits import VisitColumns


def _has(method: str) -> Any:
    """Return the check whether the inner estimator has a method; before the fit, whether one of its class would."""

    def check(model: "TableAnswers") -> bool:
        inner = getattr(model, "estimator_", model.estimator)
        return hasattr(SAREMClassifierCV if inner is None else inner, method)

    return available_if(check)


class TableAnswers:
    """The half of `TableClassifier` that answers."""

    estimator: Any
    estimator_: Any
    preparation: Any
    origins_: list[Origin] | None
    _visits: VisitColumns | None = None  # of models of other days, too
    _mean: Vector | None = None  # of the prepared columns, in the fit
    _scales: dict[str, Any] = {}  # noqa: RUF012 (replaced, never changed) columns that were numbers in the fit

    def prepare(self, X: Any) -> Any:
        """Return a table as the classifier sees it."""
        raise NotImplementedError

    def _with_all_columns(self, X: Any) -> Any:
        """Return a table with the columns of the fit."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Vector:
        """Return the probability of each class, by attributes alone, for each row of a raw table."""
        return np.asarray(self.estimator_fitted.predict_proba(self.prepare(X)))

    def predict(self, X: Any, *, decision: Any = "accuracy") -> Array:
        """Return the class of each row of a raw table; `decision` says which cut, as in `SAREMClassifier.predict`."""
        given = {} if decision == "accuracy" else {"decision": decision}  # a pipeline's last step may be a stranger's
        return np.asarray(self.estimator_fitted.predict(self.prepare(X), **given))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the mean log-likelihood of observed labels; audits are not taken."""
        return float(self.estimator_fitted.score(self.prepare(X), y, sample_weight=sample_weight))

    @_has("predict_propensity")
    def predict_propensity(self, X: Any, look: int | None = None) -> Vector:
        """Return the labelling propensity of each row of a raw table; of a look, where there are several.

        Where an attribute of a look is missing, it is that of the attribute's mean.
        """
        given = {} if look is None else {"look": look}
        return np.asarray(self.estimator_fitted.predict_propensity(self.prepare(X), **given))

    @_has("predict_posterior")
    def predict_posterior(
        self, X: Any, s: ArrayLike | None = None, propensity: ArrayLike | None = None, audit: ArrayLike | None = None
    ) -> Vector:
        """Return the probability that each row is positive, given that it was, or was not, labelled.

        `propensity` is for a classifier that does not learn it; `audit` for one that was fitted with audits, or several
        looks.
        """
        known = {} if propensity is None else {"propensity": propensity}
        if known and not isinstance(self.estimator_fitted, PropensityWeightedClassifier):
            raise ValueError(f"propensity is given, but {type(self.estimator_).__name__} has one of its own.")
        given = known | ({} if audit is None else {"audit": audit})
        self._refuse_gaps(X, s)
        return np.asarray(self.estimator_fitted.predict_posterior(self.prepare(X), s, **given))

    @_has("predict_proba_interval")
    def predict_proba_interval(self, X: Any, *, level: float = 0.95) -> Vector:
        """Return an interval for each row's probability."""
        return np.asarray(self.estimator_fitted.predict_proba_interval(self.prepare(X), level=level))

    @_has("predict_propensity_interval")
    def predict_propensity_interval(self, X: Any, *, look: int | None = None, level: float = 0.95) -> Vector:
        """Return an interval for each row's propensity; of a look, where there are several."""
        given = {} if look is None else {"look": look}
        return np.asarray(self.estimator_fitted.predict_propensity_interval(self.prepare(X), level=level, **given))

    @_has("predict_posterior_interval")
    def predict_posterior_interval(
        self, X: Any, s: ArrayLike | None = None, *, audit: ArrayLike | None = None, level: float = 0.95
    ) -> Vector:
        """Return an interval for each row's posterior."""
        given = {} if audit is None else {"audit": audit}
        self._refuse_gaps(X, s)
        return np.asarray(self.estimator_fitted.predict_posterior_interval(self.prepare(X), s, level=level, **given))

    @_has("draw_posteriors")
    def draw_posteriors(
        self,
        X: Any,
        s: ArrayLike | None = None,
        *,
        audit: ArrayLike | None = None,
        n_draws: int = 200,
        random_state: Any = 0,
    ) -> Matrix:
        """Draw each row's posterior from what the labels leave possible, all rows of a draw together."""
        given = ({} if audit is None else {"audit": audit}) | {"n_draws": n_draws, "random_state": random_state}
        self._refuse_gaps(X, s)
        return np.asarray(self.estimator_fitted.draw_posteriors(self.prepare(X), s, **given))

    @_has("left_out_logits")
    def left_out_logits(self, X: Any, s: ArrayLike, *, sample_weight: ArrayLike | None = None) -> tuple[Vector, Vector]:
        """Return the logits of class and propensity of the rows of the fit, as models without each row have them."""
        u, v = self.estimator_fitted.left_out_logits(self.prepare(X), s, sample_weight=sample_weight)
        return u, v

    @_has("detection_curve")
    def detection_curve(self, X: Any, n_looks: int | None = None) -> Vector:
        """Return the share of positives that have a label after one look, after two, and so on."""
        return np.asarray(self.estimator_fitted.detection_curve(self.prepare(X), n_looks))

    @_has("class_prior_interval")
    def class_prior_interval(self, *, level: float = 0.95) -> Interval:
        """Return an interval for the share of positives."""
        return Interval(*self.estimator_fitted.class_prior_interval(level=level))

    @_has("label_frequency_interval")
    def label_frequency_interval(self, *, level: float = 0.95) -> Interval:
        """Return an interval for the share of positives that are labelled."""
        return Interval(*self.estimator_fitted.label_frequency_interval(level=level))

    @_has("summary")
    def summary(self, *, level: float = 0.95) -> Any:
        """Return the classifier's summary, with columns named as in the raw table, and coefficients per raw unit.

        Of columns whose unit cannot be followed, and of intercepts, they are those of the prepared table.
        """
        found = self.estimator_fitted.summary(level=level)
        if self.origins_ is None or not isinstance(found, Summary):
            return found
        return in_raw_units(found, self.estimator_, self.origins_, self._visits)

    def explain(self, X: Any, background: Any = None, *, n_reasons: int | None = 3) -> Any:
        r"""Return the raw columns that move each row's log-odds of the class most, compared with an average row.

        These are the reasons that a report gives for ranked rows. A raw column counts with all columns that the
        preparation made of it. Of a linear model its contribution is :math:`\sum_j \beta_j (x_j - \bar x_j)`; of any
        other, how far the log-odds fall if these columns are put to their means. Contributions say what the model leans
        on. They are not causes.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            Raw rows.
        background : data frame or array, optional
            Raw rows whose average is the row compared with. Default: those of the fit.
        n_reasons : int or None, default=3
            How many columns of each row, the largest contributions first, positive or negative; None for all.

        Returns
        -------
        pandas DataFrame
            A line for each row and reason: ``row`` (its index, or its number from 0), ``column``, ``value`` and
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
        refuse_elsewhere(X, background)
        if not hasattr(X, "shape"):
            X = np.asarray(X)
        prepared = self.prepare(X)
        mean = self._mean if background is None else average_row(self.prepare(background))
        if mean is None:
            raise ValueError(
                "explain compares rows with the average row of the fit, and this model does not know it: it was made "
                "of a pipeline or fitted to rows in files, or its table is not one of numbers after the preparation. "
                "Give the rows of the fit as background=."
                if background is None
                else "explain needs columns of numbers after the preparation; use the default preparation."
            )
        names = column_names(prepared)
        origins = [None] * len(names) if self.origins_ is None else [each.column for each in self.origins_]
        groups = grouped([name if raw is None else raw for name, raw in zip(names, origins, strict=True)])
        parts = contributions(self.estimator_fitted, prepared, mean, list(groups.values()))
        return explanation(X, groups, parts, n_reasons)

    def _refuse_gaps(self, X: Any, s: Any) -> None:
        """Raise where a look took place, and what the propensity of that look needs is missing."""
        check_is_fitted(self)
        if self._visits is None or s is None:
            return
        table = self._with_all_columns(as_frame(X) if self.preparation is None else X)
        self._visits.refuse_gaps(table, check_looks(s, coding=self.estimator_._coding, name="s").labels >= 0)

    @property
    def visit_units(self) -> dict[str, float]:
        """How much of each visit attribute one unit of its prepared columns is."""
        return {} if self._visits is None else dict(self._visits.scale)

    @property
    def estimator_fitted(self) -> Any:
        """The classifier, once there is one."""
        check_is_fitted(self)
        return self.estimator_

    @property
    def class_prior_(self) -> float:
        """Share of positives."""
        return float(self.estimator_.class_prior_)

    @property
    def label_frequency_(self) -> float:
        """Share of positives that are labelled."""
        return float(self.estimator_.label_frequency_)
