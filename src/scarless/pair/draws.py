r"""Balanced draws: classifiers of labelled rows against as many unlabelled rows, averaged over random samples.

This is how a classifier whose `fit` has no row weights is fitted, and how the forest of a stack is grown. A positive is
labelled with probability :math:`e`, so labelled rows that are drawn with probability proportional to :math:`1/e`
represent all positives. The classifier of one draw separates them from an equal number of unlabelled rows. Its odds,
divided by the odds of being drawn, are the odds of the class, up to the positives among the unlabelled rows. The
recalibration of the cross-fit corrects what remains.

Each draw leaves out one fold. The mean of the draws that leave a fold out scores the rows of this fold, so no row is
scored by a classifier that saw it, or that saw a row of its group.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit, logit
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.tree import BaseDecisionTree, DecisionTreeRegressor, ExtraTreeClassifier
from sklearn.tree._tree import Tree
from sklearn.utils import get_tags

from scarless.checks.estimators import final_step, seeded_clone, takes_weights
from scarless.checks.options import check_whole
from scarless.checks.tables import take_rows
from scarless.engines.blas import predictions_on_one_thread, trees_on_one_thread
from scarless.numerics.arrays import Columns, Vector
from scarless.pair.cross_fit import (
    CrossFit,
    Evidence,
    FoldModel,
    ProgressText,
    Propensity,
    held_out,
    level_of,
    mean_of,
    out_of_fold_values,
    start_at,
)
from scarless.pair.folds import Fold
from scarless.pair.learners import (
    check_classifier,
    equivalent_regressor,
    has_equivalent_regressor,
    positive_probability,
)

#: Number of trees of the forest of a stack. Evidence: with 150, the out-of-fold scores of 70 development tasks are less
#: precise (area under the ROC curve .807, not .819), and the predictions are equally good.
FOREST_DRAWS = 300
#: Largest number of labelled rows in a draw of this forest. Evidence: on 10,000 simulated rows of three shapes, forests
#: with at most 1,000 rank slightly better alone (area under the ROC curve .790, not .781), and take half as long again;
#: the stack is the same, because with so many labels boosting has all the weight.
FOREST_MAX_LABELLED = 500
#: Largest number of labelled rows in a draw. Evidence: on 50,000 simulated rows with 12,500 labels, trees of all labels
#: follow single labels (area under the ROC curve .646; with 1,000 of them .671), and cost seven times as much.
MAX_LABELLED_PER_DRAW = 1_000
#: A labelled row with a smaller propensity is drawn as if it had this propensity, so that no single row is in most
#: places of a draw. By judgement.
MIN_PROPENSITY_OF_DRAWS = 0.02
#: The first scores, which only give the propensity, use this share of the draws. By judgement.
FIRST_SHARE_OF_DRAWS = 0.2
# Attributes of scikit-learn's trees that predictions need, and the fields of a node with the same content.
_OF_NODES = {
    "children_left": "left_child",
    "children_right": "right_child",
    "feature": "feature",
    "threshold": "threshold",
}
_LARGEST_FLOAT32 = 3e38  # scikit-learn's trees read numbers in float32


class BalancedDraws(BaseEstimator):
    r"""A classifier that is averaged over balanced draws of labelled and unlabelled rows; a member of a stack.

    In each draw, the classifier is fitted to labelled rows, drawn with probability proportional to :math:`1/e(x)`,
    against as many random unlabelled rows. `SARStackingClassifier` and `SAREMClassifier` cross-fit and recalibrate the
    mean of all draws, like any classifier. They use balanced draws for every classifier whose ``fit`` has no
    ``sample_weight``, such as nearest neighbours. Pass a ``BalancedDraws`` to choose the number of
    draws, or to use draws in place of weights.

    **Assumption.** The propensity is the logistic model of the fit. Draws correct the labelling only through it, and
    unlabelled positives count as negatives in each draw; the likelihood corrects both.

    Parameters
    ----------
    estimator : scikit-learn classifier
        Classifier with ``predict_proba``, or a pipeline that ends with one.
    n_draws : int, default=25
        Number of draws over all folds. With few labels, more draws make scores less noisy; each costs one fit.
    max_labelled : int, default=1000
        Largest number of labelled rows in a draw.

    References
    ----------
    Mordelet and Vert, "A bagging SVM to learn from positive and unlabeled examples", Pattern Recognition Letters 37,
    2014, for draws without propensities.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from scarless import BalancedDraws, SARStackingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = X[:, 0] ** 2 + X[:, 1] ** 2 < 2
    >>> s = y & (rng.random(1000) < 1 / (1 + np.exp(-X[:, 2])))
    >>> neighbours = BalancedDraws(KNeighborsClassifier(15), n_draws=50)
    >>> model = SARStackingClassifier([("neighbours", neighbours)], propensity_attributes=[2], random_state=0)
    >>> low, high = model.fit(X, s).class_prior_interval()
    >>> print(f"positives: {y.mean():.1f} true, {low:.1f} to {high:.1f} estimated, {s.mean():.1f} labelled")
    positives: 0.6 true, 0.6 to 0.7 estimated, 0.3 labelled
    """

    def __init__(self, estimator: Any, *, n_draws: int = 25, max_labelled: int = MAX_LABELLED_PER_DRAW) -> None:
        self.estimator = estimator
        self.n_draws = n_draws
        self.max_labelled = max_labelled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def default_forest() -> BalancedDraws:
    """Return the forest that is a member of a stack by default: extremely randomised trees, each on its own draw."""
    tree = ExtraTreeClassifier(min_samples_leaf=2, max_features=0.4)
    return BalancedDraws(tree, n_draws=FOREST_DRAWS, max_labelled=FOREST_MAX_LABELLED)


def draws_of(classifier: Any) -> BalancedDraws | None:
    """Return the draws by which a classifier is fitted; None if it is fitted with row weights."""
    if isinstance(classifier, BalancedDraws):
        return classifier
    return None if takes_weights(classifier) else BalancedDraws(classifier)


def check_member(classifier: Any, name: str) -> None:
    """Raise an error unless a classifier predicts probabilities; it need not accept row weights."""
    if isinstance(classifier, BalancedDraws):
        check_whole(classifier.n_draws, f"{name}: n_draws", at_least=1)
        check_whole(classifier.max_labelled, f"{name}: max_labelled", at_least=1)
        classifier = classifier.estimator
    check_classifier(classifier, name)


class Drawn(NamedTuple):
    """The classifiers of the draws that leave out one fold, and the change of their logits for the class prior."""

    classifiers: "list[Any] | GrownTrees"
    level: float

    def logits(self, X: Any) -> Vector:
        """Return the class logits of rows."""
        is_tree = isinstance(self.classifiers[0], DecisionTreeRegressor)
        return self.level + _mean_logit(self.classifiers, in_float32(X) if is_tree else X)


def fit_draws(
    draws: BalancedDraws,
    X: Any,
    evidence: Evidence,
    w: Vector,
    folds: list[Fold],
    propensity: Propensity,
    *,
    seed: int,
    n_jobs: int | None,
    progress: ProgressText,
    first: Vector | None = None,
) -> CrossFit:
    """Fit a classifier to balanced draws, and the propensity to its out-of-fold scores.

    If the propensity differs between rows and is not known, out-of-fold class logits of another classifier, `first`,
    give the propensity by which the draws are made. Without them, a few first draws treat all labelled rows alike, and
    their scores give it.
    """
    table = in_float32(X) if _is_tree(draws.estimator, X) else X
    sampler = _Sampler(draws, table, evidence.first_targets(w)[0], w, folds, seed, n_jobs)
    n_draws = max(draws.n_draws, len(folds))
    if first is not None:
        start_at(first, evidence, propensity, w)
    elif propensity.needs_scores:
        progress("first draws, which treat all labelled rows alike")
        u, _ = sampler.fit(max(round(FIRST_SHARE_OF_DRAWS * n_draws), len(folds)), np.ones(w.size))
        propensity.start(np.asarray(expit(u)))
    progress("draws by the propensity")
    e = evidence.label_probability(propensity.v)
    u, classifiers = sampler.fit(n_draws, 1.0 / np.maximum(e, MIN_PROPENSITY_OF_DRAWS))
    if first is None and not propensity.needs_scores:
        propensity.start(np.asarray(expit(u)))
    level = level_of(np.asarray(expit(u)), evidence, propensity, w)
    u = u + level
    propensity.update(u)
    held = held_out(w, folds)
    value = mean_of(evidence.value(u, propensity.v), held)
    mean_propensity = mean_of(evidence.label_probability(propensity.v), held)
    models: list[FoldModel] = [Drawn(stored(of_fold), level) for of_fold in classifiers]
    return CrossFit(u, propensity.v, held, models, [value], [mean_propensity], 0, converged=True)


class _Sampler(NamedTuple):
    """The rows of a fit by draws, and how they are drawn."""

    draws: BalancedDraws
    X: Any
    targets: Vector  # 1 for the rows that represent positives
    w: Vector
    folds: list[Fold]
    seed: int
    n_jobs: int | None

    def fit(self, n_draws: int, importance: Vector) -> tuple[Vector, list[list[Any]]]:
        """Return the out-of-fold scores as logits, and the classifiers of each fold.

        Rows with target 1 are drawn with probability proportional to their weight times their `importance`.
        """
        n_folds = len(self.folds)
        jobs = (
            delayed(self._fit_fold)(fold, n_draws // n_folds + (fold < n_draws % n_folds), importance)
            for fold in range(n_folds)
        )
        fitted = Parallel(n_jobs=self.n_jobs, prefer="threads")(jobs)
        tests = [take_rows(self.X, test) for _, test in self.folds]
        pieces = [_mean_logit(of_fold, rows) for of_fold, rows in zip(fitted, tests, strict=True)]
        return out_of_fold_values(pieces, self.folds, self.w.size), fitted

    def _fit_fold(self, fold: int, n_draws: int, importance: Vector) -> list[Any]:
        train, _ = self.folds[fold]
        train = train[self.w[train] > 0]
        positive, other = train[self.targets[train] == 1], train[self.targets[train] != 1]
        weight = self.w[positive] * importance[positive]
        size = int(np.clip(round(self.w[positive].sum()), 1, self.draws.max_labelled))
        n_others = min(size, max(round(self.w[other].sum()), 1))
        rng = np.random.default_rng([self.seed, fold, n_draws])
        classifiers: list[Any] = []
        with trees_on_one_thread(size):
            for _ in range(n_draws):
                drawn = drawn_rows(positive, weight, size, rng), drawn_rows(other, self.w[other], n_others, rng)
                with config_context(skip_parameter_validation=bool(classifiers)):  # the first draw checks them
                    classifiers.append(self._fit_draw(*drawn, rng))
        return classifiers

    def _fit_draw(self, positive: Columns, other: Columns, rng: np.random.Generator) -> Any:
        X, estimator = take_rows(self.X, np.concatenate([positive, other])), self.draws.estimator
        y = np.repeat([1.0, 0.0], [positive.size, other.size])
        if _is_tree(estimator, X):
            return grown_tree(estimator, X, y, rng)
        classifier = seeded_clone(estimator, rng)
        try:
            fitted = classifier.fit(X, y.astype(np.int64))
            fitted.predict_proba(X[:1])  # Nearest neighbours, for example, first fail when they predict.
        except ValueError as error:
            raise ValueError(
                f"{type(final_step(classifier)).__name__} cannot be fitted to a balanced draw of {positive.size} "
                f"labelled and {other.size} unlabelled rows. Choose other parameters for it, or another classifier. "
                f"Its error was: {error}"
            ) from error
        return fitted


def _is_tree(estimator: Any, X: Any) -> bool:
    """Whether an estimator is a tree of scikit-learn that `grown_tree` can grow."""
    return isinstance(estimator, BaseDecisionTree) and isinstance(X, np.ndarray) and has_equivalent_regressor(estimator)


def grown_tree(tree: Any, X: Any, y: Vector, rng: np.random.Generator) -> Any:
    """Return a regression tree that equals the classification tree.

    Its fit does not check rows and classes, which takes longer than to grow a tree of a few hundred rows.
    """
    regressor = equivalent_regressor(tree)
    if regressor.random_state is None:
        regressor.random_state = int(rng.integers(2**31 - 1))
    return regressor.fit(X, y, check_input=False)


def drawn_rows(rows: Columns, weight: Vector, size: int, rng: np.random.Generator) -> Columns:
    """Draw rows with probability proportional to their weights, by systematic sampling in a random order.

    Each row is drawn as often as expected, rounded up or down: with equal weights, `size` different rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> print(np.sort(drawn_rows(np.arange(5), np.ones(5), 5, rng)))
    [0 1 2 3 4]
    >>> print(np.bincount(drawn_rows(np.arange(2), np.array([3.0, 1.0]), 8, rng)))
    [6 2]
    """
    order = rng.permutation(rows.size)
    ends = np.cumsum(weight[order])
    places = (np.arange(size) + rng.random()) * (ends[-1] / size)
    return np.asarray(rows[order[np.minimum(np.searchsorted(ends, places, side="right"), rows.size - 1)]])


def _mean_logit(classifiers: "list[Any] | GrownTrees", X: Any) -> Vector:
    """Return the logit of the mean probability of the classifiers of a fold.

    Half a vote for each class keeps the logit finite if all of them agree.
    """
    votes = np.zeros(X.shape[0])
    with predictions_on_one_thread(X.shape[0]):
        for classifier in classifiers:
            is_tree = isinstance(classifier, DecisionTreeRegressor)
            votes += classifier.predict(X, check_input=False) if is_tree else positive_probability(classifier, X)
    return np.asarray(logit((votes + 0.5) / (len(classifiers) + 1.0)))


def in_float32(X: Any) -> Any:
    """Return numbers as float32; larger numbers are replaced by its largest numbers."""
    return np.clip(X, -_LARGEST_FLOAT32, _LARGEST_FLOAT32).astype(np.float32)


class GrownTrees(Sequence[Any]):
    """The trees of the draws of one fold, as a sequence that is stored in a few arrays.

    Model files describe each object by itself, and writing and reading hundreds of trees one by one takes seconds.
    """

    def __init__(self, trees: list[Any]) -> None:
        self.trees = trees

    def __getitem__(self, place: Any) -> Any:
        return self.trees[place]

    def __len__(self) -> int:
        return len(self.trees)

    def __getstate__(self) -> dict[str, Any]:
        """Return one tree without its nodes, and what predictions need of the nodes of all trees, concatenated."""
        plain = copy(self.trees[0])
        del plain.tree_
        grown = [tree.tree_ for tree in self.trees]
        state = {name: np.concatenate([getattr(tree, name) for tree in grown]) for name in (*_OF_NODES, "value")}
        return {"plain": plain, "sizes": np.array([[tree.node_count, tree.max_depth] for tree in grown]), **state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        plain, sizes = state["plain"], np.asarray(state["sizes"], dtype=np.intp)
        ends = np.cumsum(sizes[:, 0])
        if (sizes[:, 0] < 1).any() or any(len(state[name]) != ends[-1] for name in (*_OF_NODES, "value")):
            raise ValueError("the numbers of nodes of the trees do not add up")  # compiled code does not check this
        empty = Tree(plain.n_features_in_, np.ones(1, dtype=np.intp), 1).__getstate__()["nodes"]
        nodes = np.zeros(ends[-1], dtype=empty.dtype)
        for name, field in _OF_NODES.items():
            nodes[field] = state[name]
        self.trees = []
        for end, (count, depth) in zip(ends, sizes, strict=True):
            tree, part = copy(plain), slice(end - count, end)
            tree.tree_ = Tree(plain.n_features_in_, np.ones(1, dtype=np.intp), 1)
            of_tree = {"nodes": nodes[part], "values": state["value"][part]}
            tree.tree_.__setstate__({"max_depth": int(depth), "node_count": int(count), **of_tree})
            self.trees.append(tree)


def stored(classifiers: list[Any]) -> list[Any] | GrownTrees:
    """Return the classifiers of a fold in the form in which a model holds them: trees together."""
    return GrownTrees(classifiers) if isinstance(classifiers[0], DecisionTreeRegressor) else classifiers
