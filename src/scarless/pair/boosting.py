r"""Gradient boosting of the class logit on the observed likelihood of the labels.

The trees are fitted to the gradient :math:`\partial\ell/\partial u` and the curvature of the log-likelihood with
respect to the class logit :math:`u`. Boosting runs in stages of a few rounds each. The propensity is fixed during a
stage and fitted again after it. The classes below adapt scikit-learn, LightGBM and XGBoost, which accept gradients in
different ways.
"""

from collections.abc import Callable
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from scarless.checks.estimators import final_step
from scarless.checks.tables import take_rows
from scarless.numerics.arrays import Vector
from scarless.pair.folds import Fold

Gradient = Callable[[Vector], tuple[Vector, Vector]]  # logits -> gradient of the log-likelihood, and curvature

#: Number of boosting rounds of an early stage and of a later stage, and total number of rounds of the early stages. The
#: propensity is fitted again after each stage. By judgement.
ROUNDS_PER_EARLY_STAGE, ROUNDS_PER_LATER_STAGE, N_EARLY_ROUNDS = 5, 10, 50
MIN_CURVATURE = 1e-6  # smallest curvature of a row, to avoid a division by 0


class Booster(Protocol):
    """A model of logits that is boosted in stages. It stores its training rows until `keep` is called."""

    importances: Vector | None

    def restart(self) -> None:
        """Remove all trees, but not the training rows."""
        ...

    def keep(self, n_stages: int) -> None:
        """Remove the trees after the first `n_stages` stages, and release the training rows."""
        ...

    def advance(self, gradient: Gradient, rounds: int) -> None:
        """Grow the trees of one stage."""
        ...

    def ready(self, X: Any) -> Any:
        """Convert rows to the form that the method `last` accepts."""
        ...

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of `rows`, which are a result of `ready`."""
        ...

    def logits(self, X: Any) -> Vector:
        """Return the sum of all trees for each row, without the constant logit that boosting starts at."""
        ...


def booster_kind(estimator: Any) -> Any:
    """Return the booster class for an estimator; None if its library or its options are not supported."""
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


def max_rounds(estimator: Any) -> int:
    """Return the maximum number of boosting rounds, from the parameters of an estimator."""
    params = final_step(estimator).get_params()
    return int(params.get("max_iter") or params.get("n_estimators") or 100)


def rounds_of_stages(most: int) -> list[int]:
    """Return the number of rounds of each stage.

    If `most` is above 5, it is rounded down to a multiple of 5. The numbers of rounds add up to `most`.

    Examples
    --------
    >>> rounds_of_stages(12), rounds_of_stages(3)
    ([5, 5], [3])
    >>> rounds_of_stages(75)
    [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 10, 10, 5]
    """
    if most < ROUNDS_PER_EARLY_STAGE:
        return [most]
    early = min(most, N_EARLY_ROUNDS) // ROUNDS_PER_EARLY_STAGE
    later, rest = divmod(max(most - N_EARLY_ROUNDS, 0), ROUNDS_PER_LATER_STAGE)
    return (
        [ROUNDS_PER_EARLY_STAGE] * early
        + [ROUNDS_PER_LATER_STAGE] * later
        + [ROUNDS_PER_EARLY_STAGE] * (rest // ROUNDS_PER_EARLY_STAGE)
    )


def boosters_of(estimator: Any, X: Any, s: Vector, folds: list[Fold]) -> tuple[list["Booster"], list[Any]]:
    """Return a booster for each fold, and the held-out rows of each fold in the form that `Booster.last` accepts.

    For scikit-learn's boosting, a table of numbers is binned once for all folds. A pipeline is fitted separately in
    each fold, because its steps may use labels.
    """
    kind = booster_kind(estimator)
    if kind is HistogramBooster and not isinstance(estimator, Pipeline):
        binning = HistogramBooster.binning_of(estimator, X, s)
        if binning.edges is not None:
            X = binning(X)
            boosters: list[Booster] = [
                HistogramBooster(estimator, take_rows(X, train), s[train], binning) for train, _ in folds
            ]
            return boosters, [take_rows(X, test) for _, test in folds]
    others = [kind(estimator, take_rows(X, train), s[train]) for train, _ in folds]
    return others, [booster.ready(take_rows(X, test)) for booster, (_, test) in zip(others, folds, strict=True)]


class _Prepared:
    """The fitted transformers of a pipeline. For other estimators, rows are returned unchanged."""

    def __init__(self, estimator: Any, X: Any, s: Vector) -> None:
        self.steps = clone(estimator[:-1]).fit(X, s) if isinstance(estimator, Pipeline) else None

    def __call__(self, X: Any) -> Any:
        return X if self.steps is None else self.steps.transform(X)


class _Stepped:
    """Binning of numbers by quantiles. Missing values stay missing.

    The bins are computed once, because computing them again in every stage would take longer than growing the trees.
    """

    def __init__(self, prepare: _Prepared, X: Any, n_bins: int) -> None:
        self.prepare, self.edges = prepare, None
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
            self.edges = [_edges(column[np.isfinite(column)], n_bins) for column in X.T.astype(np.float64)]

    def __call__(self, X: Any) -> Any:
        X = self.prepare(X)
        if self.edges is None:
            return X
        X = np.asarray(X, dtype=np.float64)
        bins = np.column_stack([np.searchsorted(edges, x) for edges, x in zip(self.edges, X.T, strict=True)])
        return np.where(np.isnan(X), np.nan, bins)


def _edges(column: Vector, n_bins: int) -> Vector:
    """Return the upper edges of all bins except the last.

    A column with at most `n_bins` different values has one bin for each value, as in scikit-learn. A new value gets the
    bin of the nearest known value.
    """
    different = np.unique(column)
    if different.size <= n_bins:
        return np.asarray(0.5 * different[:-1] + 0.5 * different[1:])
    return np.unique(np.quantile(column, np.linspace(0.0, 1.0, n_bins + 1)[1:-1], method="lower"))


class _BinnedOnce(HistGradientBoostingRegressor):
    """Scikit-learn's boosting that reuses the bins of an earlier fit to the same rows, and stores its predictions.

    This saves time: binning takes longer than growing the few trees of a stage, and scikit-learn computes predictions
    for the training rows anyway while it grows the trees. A version of scikit-learn with other internals may not call
    the methods below. Every stage then bins and predicts again: the trees are the same, but the fit is slower.
    """

    bins: Any = None  # the bin mapper and the binned rows
    fitted: Any = None  # predictions for the training rows
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
            self.fitted = kwargs.get("raw_prediction")  # scikit-learn adds each tree to this array in place
            return gradients(*args, **kwargs)

        loss.gradient_hessian = watched
        return loss

    def plain(self) -> tuple[HistGradientBoostingRegressor, Any, Vector | None]:
        """Return the fit as scikit-learn's own class, which can be saved; then the bins and the predictions."""
        bins, fitted = self.__dict__.pop("bins", None), self.__dict__.pop("fitted", None)
        vars(getattr(self, "_loss", self)).pop("gradient_hessian", None)
        self.__class__ = HistGradientBoostingRegressor
        return self, bins, None if fitted is None else np.ravel(fitted)


class HistogramBooster:
    """Scikit-learn's histogram boosting: each stage fits a few regression trees to the Newton step of each row.

    If `binning` is given, the rows `X` must already be binned.
    """

    def __init__(self, estimator: Any, X: Any, s: Vector, binning: _Stepped | None = None) -> None:
        self.prepare = self.binning_of(estimator, X, s) if binning is None else binning
        self.X, self.z = self.prepare(X) if binning is None else X, np.zeros(s.size)
        allowed = set(HistGradientBoostingRegressor().get_params()) - {"loss", "max_iter", "random_state"}
        params = final_step(estimator).get_params(deep=False)
        self.params = {name: value for name, value in params.items() if name in allowed}
        self.params |= {"early_stopping": False, "warm_start": False}
        self.seed = _seed_of(params["random_state"])
        self.models: list[Any] = []
        self.bins: Any = None
        self.importances: Vector | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with all trees in a few arrays, because storing hundreds of trees one by one is slow."""
        models = [copy(model) for model in self.models]
        trees = [_packed(model.__dict__.pop("_predictors")) for model in models]
        return {**self.__dict__, "models": models, "trees": trees}

    def __setstate__(self, state: dict[str, Any]) -> None:
        trees = state.pop("trees")
        self.__dict__.update(state)
        for model, packed in zip(self.models, trees, strict=True):
            model._predictors = _unpacked(*packed)

    @staticmethod
    def binning_of(estimator: Any, X: Any, s: Vector) -> _Stepped:
        """Return the binning of the columns.

        The binning leaves all columns unchanged if the estimator lists categorical features, or if the table is not a
        NumPy array of numbers.
        """
        params, prepare = final_step(estimator).get_params(deep=False), _Prepared(estimator, X, s)
        by_name = params["categorical_features"] is None or isinstance(params["categorical_features"], str)
        return _Stepped(prepare, prepare(X) if by_name else None, int(params["max_bins"]))

    def restart(self) -> None:
        """Remove all trees, but not the training rows."""
        self.models, self.z = [], np.zeros(self.z.size)

    def keep(self, n_stages: int) -> None:
        """Merge the trees of the first `n_stages` stages into one model, and release the training rows."""
        self.X, self.z, self.bins = None, np.empty(0), None
        whole, *others = self.models[:n_stages]
        for other in others:
            whole._predictors += other._predictors
            whole._baseline_prediction = whole._baseline_prediction + other._baseline_prediction
        self.models = [whole.set_params(max_iter=len(whole._predictors))]

    def advance(self, gradient: Gradient, rounds: int) -> None:
        """Fit the trees of one stage to the Newton step of each row, weighted by the curvature."""
        slope, curvature = gradient(self.z)
        weight = np.maximum(curvature, MIN_CURVATURE)
        seed = (self.seed + len(self.models)) % 2**31
        growing = _BinnedOnce(**self.params, max_iter=rounds, random_state=seed)
        growing.bins = self.bins
        model, self.bins, fitted = growing.fit(self.X, slope / weight, sample_weight=weight).plain()
        self.models.append(model)
        self.z += model.predict(self.X) if fitted is None else fitted

    def ready(self, X: Any) -> Any:
        """Convert rows to the form that the method `last` accepts."""
        return self.prepare(X)

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of `rows`, which are a result of `ready`."""
        return np.asarray(self.models[-1].predict(rows), dtype=np.float64)

    def logits(self, X: Any) -> Vector:
        """Return the sum of all trees for each row."""
        X = self.ready(X)
        return np.asarray(sum((model.predict(X) for model in self.models), np.zeros(X.shape[0])))


_TREE = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")  # fields of scikit-learn's TreePredictor


def _packed(predictors: list[list[Any]]) -> tuple[list[Any], Any]:
    """Return each field of all trees, concatenated, and the length of this field in each tree.

    A regression has one tree for each round.
    """
    trees = [tree for (tree,) in predictors]
    parts = [[getattr(tree, name) for tree in trees] for name in _TREE]
    return [_joined(each) for each in parts], np.array([[len(part) for part in each] for each in parts])


def _joined(parts: list[Any]) -> Any:
    """Return arrays as one array; NumPy's concatenation of records compares all fields of each pair of arrays."""
    whole = np.empty((sum(map(len, parts)), *parts[0].shape[1:]), dtype=parts[0].dtype)
    start = 0
    for part in parts:
        whole[start : start + len(part)] = part
        start += len(part)
    return whole


def _unpacked(parts: list[Any], lengths: Any) -> list[list[Any]]:
    ends = np.cumsum(lengths, axis=1)[:, :-1]
    columns = [np.split(part, end) for part, end in zip(parts, ends, strict=True)]
    return [[TreePredictor(*tree)] for tree in zip(*columns, strict=True)]


def _seed_of(random_state: Any) -> int:
    """Return an integer seed. Call this before folds run in threads, because the order of threads varies."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


class _RoundBooster:
    """Base class for libraries that accept gradients in each round and can predict with the trees of some rounds."""

    params: dict[str, Any]
    data: Any  # the training rows in the library's format

    def __init__(self, estimator: Any, X: Any, s: Vector) -> None:
        self.prepare = _Prepared(estimator, X, s)
        self._read(final_step(estimator).get_params(), self.prepare(X), s)
        self.restart()

    def restart(self) -> None:
        """Remove all trees, but not the training rows."""
        self.ends = [0]  # total number of rounds after each stage; a stage ends early if no leaf can be split
        self.model = self._empty()

    def advance(self, gradient: Gradient, rounds: int) -> None:
        """Boost the rounds of one stage."""

        def objective(z: Vector, _: Any) -> tuple[Vector, Vector]:
            slope, curvature = gradient(np.asarray(z, dtype=np.float64))
            return -slope, np.maximum(curvature, MIN_CURVATURE)

        for _ in range(rounds):
            if self._boost_round(objective):
                break
        self.ends.append(self._rounds_so_far())

    def ready(self, X: Any) -> Any:
        """Convert rows to the form that the method `last` accepts."""
        return self.prepare(X)

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of `rows`, which are a result of `ready`."""
        return self._between(rows, self.ends[-2], self.ends[-1])

    def logits(self, X: Any) -> Vector:
        """Return the sum of all trees for each row."""
        return self._between(self.ready(X), 0, self.ends[-1])

    def keep(self, n_stages: int) -> None:
        """Use only the trees of the first `n_stages` stages, and release the training rows, which cannot be pickled."""
        self.ends, self.data = self.ends[: n_stages + 1], None

    def _between(self, rows: Any, start: int, end: int) -> Vector:
        return np.zeros(_count(rows)) if end == start else np.asarray(self._predict(rows, start, end), dtype=np.float64)

    def _read(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        """Store parameters and rows in the library's format."""
        raise NotImplementedError

    def _empty(self) -> Any:
        """Return the library's booster without trees."""
        raise NotImplementedError

    def _boost_round(self, objective: Any) -> bool:
        """Boost one round; return True if no leaf can be split any more."""
        raise NotImplementedError

    def _rounds_so_far(self) -> int:
        raise NotImplementedError

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        raise NotImplementedError


def _count(rows: Any) -> int:
    return int(rows.num_row() if hasattr(rows, "num_row") else rows.shape[0])


class LightGBMBooster(_RoundBooster):
    """LightGBM, trained on the gradients of the labels' likelihood in place of its own objective."""

    _RENAMED: ClassVar = {
        "n_jobs": "num_threads",
        "random_state": "seed",
        "boosting_type": "boosting",
        "verbose": "verbosity",
    }
    _DROPPED: ClassVar = {"n_estimators", "class_weight", "objective", "importance_type"}

    @property
    def importances(self) -> Vector | None:
        """Gain of each column in the objective, by the splits on this column."""
        if not self.ends[-1]:
            return np.zeros(self.model.num_feature())
        return np.asarray(self.model.feature_importance("gain", iteration=self.ends[-1]), dtype=np.float64)

    def keep(self, n_stages: int) -> None:
        """Use only the trees of the first `n_stages` stages, and release the training rows."""
        super().keep(n_stages)
        self.model.free_dataset()

    def _read(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        from lightgbm import Dataset  # noqa: PLC0415  optional dependency

        given = {self._RENAMED.get(k, k): v for k, v in params.items() if k not in self._DROPPED and v is not None}
        self.params = {"verbosity": -1, **given, "objective": "none"}
        self.data = Dataset(X, label=s, params=self.params, free_raw_data=False)

    def _empty(self) -> Any:
        from lightgbm import Booster  # noqa: PLC0415  optional dependency

        return Booster(params=self.params, train_set=self.data)

    def _boost_round(self, objective: Any) -> bool:
        return bool(self.model.update(fobj=objective))

    def _rounds_so_far(self) -> int:
        return int(self.model.current_iteration())

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        return self.model.predict(rows, start_iteration=start, num_iteration=end - start, raw_score=True)


class XGBoostBooster(_RoundBooster):
    """XGBoost, trained on the gradients of the labels' likelihood in place of its own objective."""

    _DROPPED: ClassVar = {
        "n_estimators", "objective", "importance_type", "early_stopping_rounds", "callbacks", "eval_metric", "missing",
        "enable_categorical", "feature_types", "base_score", "scale_pos_weight",
    }  # fmt: skip

    @property
    def importances(self) -> Vector | None:
        """Gain of each column in the objective, by the splits on this column."""
        gain = self.model[: self.ends[-1]].get_score(importance_type="gain") if self.ends[-1] else {}
        names = self.model.feature_names or [f"f{j}" for j in range(self.model.num_features())]
        return np.array([gain.get(name, 0.0) for name in names])

    def _read(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        given = {name: value for name, value in params.items() if name not in self._DROPPED and value is not None}
        self.params = {"verbosity": 0, **given, "base_score": 0.0, "disable_default_eval_metric": 1}
        self.options = {name: params.get(name) for name in ("enable_categorical", "feature_types", "missing")}
        self.data = self._matrix(X, label=s)

    def _empty(self) -> Any:
        from xgboost import Booster  # noqa: PLC0415  optional dependency

        return Booster(self.params, [self.data])

    def _boost_round(self, objective: Any) -> bool:
        self.model.update(self.data, self._rounds_so_far(), fobj=objective)
        return False

    def _rounds_so_far(self) -> int:
        return int(self.model.num_boosted_rounds())

    def ready(self, X: Any) -> Any:
        """Convert rows to the library's format."""
        return self._matrix(self.prepare(X))

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        return self.model.predict(rows, output_margin=True, iteration_range=(start, end))

    def _matrix(self, X: Any, **options: Any) -> Any:
        from xgboost import DMatrix  # noqa: PLC0415  optional dependency

        return DMatrix(X, **options, **{name: value for name, value in self.options.items() if value is not None})
