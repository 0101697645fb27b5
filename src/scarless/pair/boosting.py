r"""Gradient boosting on the observed likelihood itself: trees for the classifier's logit, labels as they are.

A round of boosting fits a tree to the gradient :math:`\partial\ell/\partial u` with a curvature, the propensity given.
The libraries differ in how they take a gradient; nothing else here knows them apart.
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

Gradient = Callable[[Vector], tuple[Vector, Vector]]  # logits -> gradient to climb, and curvature

#: Rounds of boosting between two fits of the propensity: at first, and after so many rounds. By judgement.
ROUNDS_AT_FIRST, ROUNDS_LATER, FIRST_ROUNDS = 5, 10, 50
MIN_CURVATURE = 1e-6  # of a row, to divide by


class Booster(Protocol):
    """Boosts logits in stages; knows its training rows."""

    importances: Vector | None

    def begin_again(self) -> None:
        """Forget all trees, but not the training rows."""
        ...

    def keep(self, n_stages: int) -> None:
        """Keep the trees of the first stages, and let go of the training rows: nothing more will be grown."""
        ...

    def advance(self, gradient: Gradient, rounds: int) -> None:
        """Grow the trees of one stage of so many rounds."""
        ...

    def ready(self, X: Any) -> Any:
        """Return rows as `last` reads them."""
        ...

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of rows that are `ready`."""
        ...

    def logits(self, X: Any) -> Vector:
        """Return the logits of rows, the base not included."""
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


def rounds_of_stages(most: int) -> list[int]:
    """Return how many rounds each stage has. Their sum is at most `most`, and less than 5 below it.

    Examples
    --------
    >>> rounds_of_stages(12), rounds_of_stages(3)
    ([5, 5], [3])
    >>> rounds_of_stages(75)
    [5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 10, 10, 5]
    """
    if most < ROUNDS_AT_FIRST:
        return [most]
    early = min(most, FIRST_ROUNDS) // ROUNDS_AT_FIRST
    later, rest = divmod(max(most - FIRST_ROUNDS, 0), ROUNDS_LATER)
    return [ROUNDS_AT_FIRST] * early + [ROUNDS_LATER] * later + [ROUNDS_AT_FIRST] * (rest // ROUNDS_AT_FIRST)


def boosters_of(estimator: Any, X: Any, s: Vector, folds: list[Fold]) -> tuple[list["Booster"], list[Any]]:
    """Return a booster for the training rows of each fold, and the rows that it holds out as `last` reads them.

    The histograms of a table of numbers are found once for all folds, unless a pipeline comes before: it may look at
    labels.
    """
    kind = booster_kind(estimator)
    if kind is HistogramBooster and not isinstance(estimator, Pipeline):
        steps = HistogramBooster.steps(estimator, X, s)
        if steps.edges is not None:
            X = steps(X)
            boosters: list[Booster] = [
                HistogramBooster(estimator, take_rows(X, train), s[train], steps) for train, _ in folds
            ]
            return boosters, [take_rows(X, test) for _, test in folds]
    others = [kind(estimator, take_rows(X, train), s[train]) for train, _ in folds]
    return others, [booster.ready(take_rows(X, test)) for booster, (_, test) in zip(others, folds, strict=True)]


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
    """scikit-learn's histogram boosting: each stage is a small regression on Newton steps.

    If `steps` are given, the rows are in steps already.
    """

    def __init__(self, estimator: Any, X: Any, s: Vector, steps: _Stepped | None = None) -> None:
        self.prepare = self.steps(estimator, X, s) if steps is None else steps
        self.X, self.z = self.prepare(X) if steps is None else X, np.zeros(s.size)
        allowed = set(HistGradientBoostingRegressor().get_params()) - {"loss", "max_iter", "random_state"}
        params = final_step(estimator).get_params(deep=False)
        self.params = {name: value for name, value in params.items() if name in allowed}
        self.params |= {"early_stopping": False, "warm_start": False}
        self.seed = _seed_of(params["random_state"])
        self.models: list[Any] = []
        self.bins: Any = None
        self.importances: Vector | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state with all trees in a few arrays: hundreds of trees are slow to store one by one."""
        models = [copy(model) for model in self.models]
        trees = [_packed(model.__dict__.pop("_predictors")) for model in models]
        return {**self.__dict__, "models": models, "trees": trees}

    def __setstate__(self, state: dict[str, Any]) -> None:
        trees = state.pop("trees")
        self.__dict__.update(state)
        for model, packed in zip(self.models, trees, strict=True):
            model._predictors = _unpacked(*packed)

    @staticmethod
    def steps(estimator: Any, X: Any, s: Vector) -> _Stepped:
        """Return how rows become steps."""
        params, prepare = final_step(estimator).get_params(deep=False), _Prepared(estimator, X, s)
        by_name = params["categorical_features"] is None or isinstance(params["categorical_features"], str)
        return _Stepped(prepare, prepare(X) if by_name else None, int(params["max_bins"]))

    def begin_again(self) -> None:
        """Forget all trees, but not the training rows."""
        self.models, self.z = [], np.zeros(self.z.size)

    def keep(self, n_stages: int) -> None:
        """Keep the trees of the first stages as one model, which is checked and stored once; let go of the rows."""
        self.X, self.z, self.bins = None, np.empty(0), None
        whole, *others = self.models[:n_stages]
        for other in others:
            whole._predictors += other._predictors
            whole._baseline_prediction = whole._baseline_prediction + other._baseline_prediction
        self.models = [whole.set_params(max_iter=len(whole._predictors))]

    def advance(self, gradient: Gradient, rounds: int) -> None:
        """Fit the trees of one stage to Newton steps, weighted by the curvature."""
        climb, curvature = gradient(self.z)
        weight = np.maximum(curvature, MIN_CURVATURE)
        seed = (self.seed + len(self.models)) % 2**31
        growing = _BinnedOnce(**self.params, max_iter=rounds, random_state=seed)
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

    def logits(self, X: Any) -> Vector:
        """Return the logits of rows."""
        X = self.ready(X)
        return np.asarray(sum((model.predict(X) for model in self.models), np.zeros(X.shape[0])))


_TREE = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")  # what scikit-learn's predictor is made of


def _packed(predictors: list[list[Any]]) -> tuple[list[Any], Any]:
    """Return the parts of all trees end to end, and how long each is: one tree a round, since this is regression."""
    trees = [tree for (tree,) in predictors]
    parts = [[getattr(tree, name) for tree in trees] for name in _TREE]
    return [np.concatenate(each) for each in parts], np.array([[len(part) for part in each] for each in parts])


def _unpacked(parts: list[Any], lengths: Any) -> list[list[Any]]:
    ends = np.cumsum(lengths, axis=1)[:, :-1]
    columns = [np.split(part, end) for part, end in zip(parts, ends, strict=True)]
    return [[TreePredictor(*tree)] for tree in zip(*columns, strict=True)]


def _seed_of(random_state: Any) -> int:
    """Return a seed that is drawn now, not in threads whose order nobody knows."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


class _RoundBooster:
    """A library that takes gradients round by round, and predicts from some rounds to others."""

    params: dict[str, Any]
    data: Any  # the training rows in the library's own form

    def __init__(self, estimator: Any, X: Any, s: Vector) -> None:
        self.prepare = _Prepared(estimator, X, s)
        self._read(final_step(estimator).get_params(), self.prepare(X), s)
        self.begin_again()

    def begin_again(self) -> None:
        """Forget all trees, but not the training rows."""
        self.ends = [0]  # rounds after each stage; a stage ends early where no leaf can be split
        self.model = self._empty()

    def advance(self, gradient: Gradient, rounds: int) -> None:
        """Boost the rounds of one stage."""

        def objective(z: Vector, _: Any) -> tuple[Vector, Vector]:
            climb, curvature = gradient(np.asarray(z, dtype=np.float64))
            return -climb, np.maximum(curvature, MIN_CURVATURE)

        for _ in range(rounds):
            if self._ends_with(objective):
                break
        self.ends.append(self._rounds_so_far())

    def ready(self, X: Any) -> Any:
        """Return rows as `last` reads them."""
        return self.prepare(X)

    def last(self, rows: Any) -> Vector:
        """Return what the last stage adds to the logits of rows that are `ready`."""
        return self._between(rows, self.ends[-2], self.ends[-1])

    def logits(self, X: Any) -> Vector:
        """Return the logits of rows."""
        return self._between(self.ready(X), 0, self.ends[-1])

    def keep(self, n_stages: int) -> None:
        """Use the trees of the first stages alone; let go of the training rows, which cannot be pickled either."""
        self.ends, self.data = self.ends[: n_stages + 1], None

    def _between(self, rows: Any, start: int, end: int) -> Vector:
        return np.zeros(_count(rows)) if end == start else np.asarray(self._predict(rows, start, end), dtype=np.float64)

    def _read(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        """Keep parameters and rows in the library's own form."""
        raise NotImplementedError

    def _empty(self) -> Any:
        """Return the library's booster without trees."""
        raise NotImplementedError

    def _ends_with(self, objective: Any) -> bool:
        """Boost one round; return whether no leaf can be split any more."""
        raise NotImplementedError

    def _rounds_so_far(self) -> int:
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
        if not self.ends[-1]:
            return np.zeros(self.model.num_feature())
        return np.asarray(self.model.feature_importance("gain", iteration=self.ends[-1]), dtype=np.float64)

    def keep(self, n_stages: int) -> None:
        """Use the trees of the first stages alone, and let go of the training rows."""
        super().keep(n_stages)
        self.model.free_dataset()

    def _read(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        from lightgbm import Dataset  # noqa: PLC0415  an extra

        given = {self._RENAMED.get(k, k): v for k, v in params.items() if k not in self._DROPPED and v is not None}
        self.params = {"verbosity": -1, **given, "objective": "none"}
        self.data = Dataset(X, label=s, params=self.params, free_raw_data=False)

    def _empty(self) -> Any:
        from lightgbm import Booster  # noqa: PLC0415  an extra

        return Booster(params=self.params, train_set=self.data)

    def _ends_with(self, objective: Any) -> bool:
        return bool(self.model.update(fobj=objective))

    def _rounds_so_far(self) -> int:
        return int(self.model.current_iteration())

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        return self.model.predict(rows, start_iteration=start, num_iteration=end - start, raw_score=True)


class XGBoostBooster(_RoundBooster):
    """XGBoost with its objective replaced."""

    _DROPPED: ClassVar = {
        "n_estimators", "objective", "importance_type", "early_stopping_rounds", "callbacks", "eval_metric", "missing",
        "enable_categorical", "feature_types", "base_score", "scale_pos_weight",
    }  # fmt: skip

    @property
    def importances(self) -> Vector | None:
        """Gain of each column."""
        gain = self.model[: self.ends[-1]].get_score(importance_type="gain") if self.ends[-1] else {}
        names = self.model.feature_names or [f"f{j}" for j in range(self.model.num_features())]
        return np.array([gain.get(name, 0.0) for name in names])

    def _read(self, params: dict[str, Any], X: Any, s: Vector) -> None:
        given = {name: value for name, value in params.items() if name not in self._DROPPED and value is not None}
        self.params = {"verbosity": 0, **given, "base_score": 0.0, "disable_default_eval_metric": 1}
        self.options = {name: params.get(name) for name in ("enable_categorical", "feature_types", "missing")}
        self.data = self._matrix(X, label=s)

    def _empty(self) -> Any:
        from xgboost import Booster  # noqa: PLC0415  an extra

        return Booster(self.params, [self.data])

    def _ends_with(self, objective: Any) -> bool:
        self.model.update(self.data, self._rounds_so_far(), fobj=objective)
        return False

    def _rounds_so_far(self) -> int:
        return int(self.model.num_boosted_rounds())

    def ready(self, X: Any) -> Any:
        """Return rows as `last` reads them, in the library's own form, made once."""
        return self._matrix(self.prepare(X))

    def _predict(self, rows: Any, start: int, end: int) -> Any:
        return self.model.predict(rows, output_margin=True, iteration_range=(start, end))

    def _matrix(self, X: Any, **options: Any) -> Any:
        from xgboost import DMatrix  # noqa: PLC0415  an extra

        return DMatrix(X, **options, **{name: value for name, value in self.options.items() if value is not None})
