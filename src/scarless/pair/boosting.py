r"""Gradient boosting on the observed likelihood itself: trees for the classifier's logit, labels as they are.

A round of boosting fits a tree to the gradient :math:`\partial\ell/\partial u` with a curvature, the propensity given.
The libraries differ in how they take a gradient; nothing else here knows them apart.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import Pipeline

from scarless.checks.pipelines import final_step
from scarless.numerics.arrays import Vector

Gradient = Callable[[Vector], tuple[Vector, Vector]]  # logits -> gradient to climb, and curvature

ROUNDS = 5  # a stage: the propensity is fitted anew after so many
_FLATTEST = 1e-6  # curvature of a row


class Booster(Protocol):
    """Boosts logits in stages; knows its training rows."""

    importances: Vector | None

    def forget(self) -> None:
        """Let go of the training rows: nothing more will be grown."""
        ...

    def advance(self, gradient: Gradient) -> None:
        """Grow the trees of one stage."""
        ...

    def ready(self, X: Any) -> Any:
        """Return rows as `last` reads them."""
        ...

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of rows that are `ready`."""
        ...

    def logits(self, X: Any, n_stages: int) -> Vector:
        """Return the logits of rows after some stages, the base not included."""
        ...


def booster_kind(estimator: Any) -> Any:
    """Return the class that boosts as an estimator would, or None where its library does not allow it."""
    final = final_step(estimator)
    library = type(final).__module__.split(".")[0]
    if type(final) is HistGradientBoostingClassifier:
        return HistogramBooster if final.class_weight is None else None
    if library == "lightgbm":
        plain = final.get_params().get("boosting_type") in ("gbdt", None) and final.class_weight is None
        return LightGBMBooster if plain else None
    if library == "xgboost":
        return XGBoostBooster if final.get_params().get("booster") in ("gbtree", None) else None
    return None


def most_rounds(estimator: Any) -> int:
    """Return how many rounds an estimator would boost at most."""
    params = final_step(estimator).get_params()
    return int(params.get("max_iter") or params.get("n_estimators") or 100)


def rounds_of_stage(estimator: Any) -> int:
    """Return how many rounds a stage has: no more than the estimator would boost in all."""
    return min(ROUNDS, most_rounds(estimator))


class _Prepared:
    """What a pipeline does to rows before they are boosted, fitted once."""

    def __init__(self, estimator: Any, X: Any, s: Vector) -> None:
        self.steps = clone(estimator[:-1]).fit(X, s) if isinstance(estimator, Pipeline) else None

    def __call__(self, X: Any) -> Any:
        return X if self.steps is None else self.steps.transform(X)


class _Stepped:
    """Numbers -> the number of their quantile, gaps kept: what trees on histograms see of them, found once.

    A stage would otherwise find the histograms of its own weights, which takes longer than its trees.
    """

    def __init__(self, prepare: _Prepared, X: Any, n_steps: int) -> None:
        self.prepare, self.edges = prepare, None
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
            self.edges = [_edges(column[np.isfinite(column)], n_steps) for column in X.T.astype(np.float64)]

    def __call__(self, X: Any) -> Any:
        X = self.prepare(X)
        if self.edges is None:
            return X
        X = np.asarray(X, dtype=np.float64)
        steps = np.column_stack([np.searchsorted(edges, x) for edges, x in zip(self.edges, X.T, strict=True)])
        return np.where(np.isnan(X), np.nan, steps)


def _edges(column: Vector, n_steps: int) -> Vector:
    """Return where each step ends but the last. With few different values each is a step, however rare, as it would be
    for scikit-learn, and a value that was not seen goes to the nearest.
    """
    different = np.unique(column)
    if different.size <= n_steps:
        return np.asarray(0.5 * different[:-1] + 0.5 * different[1:])
    return np.unique(np.quantile(column, np.linspace(0.0, 1.0, n_steps + 1)[1:-1], method="lower"))


class _BinnedOnce(HistGradientBoostingRegressor):
    """scikit-learn's boosting that takes the bins of an earlier fit to the same rows, and remembers its predictions.

    Binning takes longer than the few trees of a stage, and the trees' predictions are known when they are grown. A
    scikit-learn that does these things elsewhere never calls the methods below: then every stage bins and predicts
    for itself, more slowly and with the same trees.
    """

    bins: Any = None  # the bin mapper and the binned rows
    fitted: Any = None  # what the trees say of the training rows
    _bin_mapper: Any
    _loss: Any

    def _bin_data(self, *args: Any, **kwargs: Any) -> Any:
        if self.bins is None:
            codes = super()._bin_data(*args, **kwargs)
            self.bins = self._bin_mapper, codes
        self._bin_mapper, codes = self.bins
        return codes

    def _get_loss(self, *args: Any, **kwargs: Any) -> Any:
        loss = super()._get_loss(*args, **kwargs)
        gradients = loss.gradient_hessian

        def watched(*args: Any, **kwargs: Any) -> Any:
            self.fitted = kwargs.get("raw_prediction")  # each tree is added in place
            return gradients(*args, **kwargs)

        loss.gradient_hessian = watched
        return loss

    def plain(self) -> tuple[HistGradientBoostingRegressor, Any, Vector | None]:
        """Return the fit as one of scikit-learn's own class, which model files may hold; the bins; the predictions."""
        bins, fitted = self.__dict__.pop("bins", None), self.__dict__.pop("fitted", None)
        vars(getattr(self, "_loss", self)).pop("gradient_hessian", None)
        self.__class__ = HistGradientBoostingRegressor
        return self, bins, None if fitted is None else np.ravel(fitted)


class HistogramBooster:
    """scikit-learn's histogram boosting: each stage is a small regression on Newton steps."""

    def __init__(self, estimator: Any, X: Any, s: Vector) -> None:
        params, prepare = final_step(estimator).get_params(deep=False), _Prepared(estimator, X, s)
        by_name = params["categorical_features"] is None or isinstance(params["categorical_features"], str)
        self.prepare = _Stepped(prepare, prepare(X) if by_name else None, int(params["max_bins"]))
        self.X, self.z = self.prepare(X), np.zeros(s.size)
        allowed = HistGradientBoostingRegressor().get_params()
        self.params = {name: value for name, value in params.items() if name in allowed and name != "loss"}
        self.params |= {"max_iter": rounds_of_stage(estimator), "early_stopping": False, "warm_start": False}
        self.models: list[Any] = []
        self.bins: Any = None
        self.importances: Vector | None = None

    def forget(self) -> None:
        """Let go of the training rows."""
        self.X, self.z, self.bins = None, np.empty(0), None

    def advance(self, gradient: Gradient) -> None:
        """Fit the trees of one stage to Newton steps, weighted by the curvature."""
        climb, curvature = gradient(self.z)
        weight = np.maximum(curvature, _FLATTEST)
        growing = _BinnedOnce(**self.params)
        growing.bins = self.bins
        model, self.bins, fitted = growing.fit(self.X, climb / weight, sample_weight=weight).plain()
        self.models.append(model)
        self.z += model.predict(self.X) if fitted is None else fitted

    def ready(self, X: Any) -> Any:
        """Return rows as `last` reads them."""
        return self.prepare(X)

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of rows that are `ready`."""
        return np.asarray(self.models[-1].predict(rows), dtype=np.float64)

    def logits(self, X: Any, n_stages: int) -> Vector:
        """Return the logits of rows after some stages."""
        X = self.ready(X)
        return np.asarray(sum((model.predict(X) for model in self.models[:n_stages]), np.zeros(X.shape[0])))


class _RoundBooster:
    """A library that takes gradients round by round, and predicts from some rounds to others."""

    def __init__(self, estimator: Any, X: Any, s: Vector) -> None:
        self.prepare = _Prepared(estimator, X, s)
        self.rounds = rounds_of_stage(estimator)
        self.ends = [0]  # rounds after each stage; a stage ends early where no leaf can be split
        self._begin(final_step(estimator).get_params(), self.prepare(X), s)

    def ready(self, X: Any) -> Any:
        """Return rows as `last` reads them."""
        return self.prepare(X)

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of rows that are `ready`."""
        return self._between(rows, self.ends[-2], self.ends[-1])

    def logits(self, X: Any, n_stages: int) -> Vector:
        """Return the logits of rows after some stages."""
        return self._between(self.ready(X), 0, self.ends[n_stages])

    def _between(self, rows: Any, start: int, end: int) -> Vector:
        return np.zeros(_count(rows)) if end == start else np.asarray(self._predict(rows, start, end), dtype=np.float64)

    def _begin(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        raise NotImplementedError

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        raise NotImplementedError


def _count(rows: Any) -> int:
    return int(rows.num_row() if hasattr(rows, "num_row") else rows.shape[0])


class LightGBMBooster(_RoundBooster):
    """LightGBM with its objective replaced."""

    _RENAMED: ClassVar = {
        "n_jobs": "num_threads",
        "random_state": "seed",
        "boosting_type": "boosting",
        "verbose": "verbosity",
    }
    _DROPPED: ClassVar = {"n_estimators", "class_weight", "objective", "importance_type"}

    @property
    def importances(self) -> Vector | None:
        """Gain of each column."""
        return np.asarray(self.model.feature_importance("gain"), dtype=np.float64)

    def advance(self, gradient: Gradient) -> None:
        """Boost the rounds of one stage."""

        def objective(z: Vector, _: Any) -> tuple[Vector, Vector]:
            climb, curvature = gradient(np.asarray(z, dtype=np.float64))
            return -climb, np.maximum(curvature, _FLATTEST)

        for _ in range(self.rounds):
            if self.model.update(fobj=objective):
                break
        self.ends.append(self.model.current_iteration())

    def forget(self) -> None:
        """Let go of the training rows."""
        self.model.free_dataset()

    def _begin(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        from lightgbm import Booster, Dataset  # noqa: PLC0415  an extra

        given = {self._RENAMED.get(k, k): v for k, v in params.items() if k not in self._DROPPED and v is not None}
        options = {"verbosity": -1, **given, "objective": "none"}
        self.model = Booster(params=options, train_set=Dataset(X, label=s, params=options, free_raw_data=False))

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        return self.model.predict(rows, start_iteration=start, num_iteration=end - start, raw_score=True)


class XGBoostBooster(_RoundBooster):
    """XGBoost with its objective replaced."""

    data: Any

    _DROPPED: ClassVar = {
        "n_estimators", "objective", "importance_type", "early_stopping_rounds", "callbacks", "eval_metric", "missing",
        "enable_categorical", "feature_types", "base_score", "scale_pos_weight",
    }  # fmt: skip

    @property
    def importances(self) -> Vector | None:
        """Gain of each column."""
        gain = self.model.get_score(importance_type="gain")
        names = self.model.feature_names or [f"f{j}" for j in range(self.model.num_features())]
        return np.array([gain.get(name, 0.0) for name in names])

    def advance(self, gradient: Gradient) -> None:
        """Boost the rounds of one stage."""

        def objective(z: Vector, _: Any) -> tuple[Vector, Vector]:
            climb, curvature = gradient(np.asarray(z, dtype=np.float64))
            return -climb, np.maximum(curvature, _FLATTEST)

        for number in range(self.ends[-1], self.ends[-1] + self.rounds):
            self.model.update(self.data, number, fobj=objective)
        self.ends.append(self.model.num_boosted_rounds())

    def forget(self) -> None:
        """Let go of the training rows, which cannot be pickled either."""
        self.data = None

    def _begin(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        from xgboost import Booster  # noqa: PLC0415  an extra

        given = {name: value for name, value in params.items() if name not in self._DROPPED and value is not None}
        options = {"verbosity": 0, **given, "base_score": 0.0, "disable_default_eval_metric": 1}
        self.options = {name: params.get(name) for name in ("enable_categorical", "feature_types", "missing")}
        self.data = self._matrix(X, label=s)
        self.model = Booster(options, [self.data])

    def ready(self, X: Any) -> Any:
        """Return rows as `last` reads them, in the library's own form, made once."""
        return self._matrix(self.prepare(X))

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        return self.model.predict(rows, output_margin=True, iteration_range=(start, end))

    def _matrix(self, X: Any, **options: Any) -> Any:
        from xgboost import DMatrix  # noqa: PLC0415  an extra

        return DMatrix(X, **options, **{name: value for name, value in self.options.items() if value is not None})
