"""Estimators that read a classifier's out-of-fold scores instead of the table: Elkan and Noto, best bin, DEDPUL."""

from abc import abstractmethod
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from scarless.checks.estimators import final_step, fit_weighted, takes_weights
from scarless.checks.options import check_choice, check_positive, check_share, check_whole
from scarless.checks.tables import take_rows
from scarless.engines.blas import FEW_ROWS, trees_alone
from scarless.label_frequency._base import Estimate, LabelFrequencyEstimator
from scarless.numerics.arrays import Vector
from scarless.numerics.scores import (
    best_bin,
    labelled_share_of_scores,
    largest_score,
    mean_labelled_score,
    negative_share,
    prior_of_all,
    smoothed_ratio,
)

PRECOMPUTED = "precomputed"
PROBABILITY, DECISION = "predict_proba", "decision_function"  # where scores come from, apart from PRECOMPUTED
_VARIANTS = {"e1": mean_labelled_score, "e2": labelled_share_of_scores, "e3": largest_score}
#: Most copies of scores that weights of rows become for DEDPUL's densities; larger weights are scaled down. By
#: judgement.
MAX_SCORE_COPIES = 10**6


class ScoreEstimator(LabelFrequencyEstimator):
    """Base of the estimators on scores: higher means more likely labelled.

    The classifier learns labelled against unlabelled rows, several times, each time without a fold of the rows, and
    scores that fold: scores of its own training rows would give their labels away. The scores are made once; an
    interval needs no refits.
    """

    estimator: Any
    cv: int

    def _inner(self) -> Any:
        return None if self.estimator is None or _is_precomputed(self.estimator) else self.estimator

    def _check_options(self) -> None:
        check_whole(self.cv, "cv", at_least=2)
        inner = self._inner()
        if inner is not None:
            check_scorer(inner, self._reads(), type(self).__name__)

    def _reads(self) -> tuple[str, ...]:
        """Return the methods of a classifier that give scores, best first."""
        return PROBABILITY, DECISION

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        return self._scores(X, s, w, rng), s, w

    def _scores(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> Vector:
        if _is_precomputed(self.estimator):
            return self._read(one_column(X), PRECOMPUTED)
        estimator = default_classifier(X) if self.estimator is None else self.estimator
        method = next(name for name in self._reads() if hasattr(estimator, name))
        with trees_alone(X.shape[0]) if self.estimator is None else nullcontext():
            scores = out_of_fold_scores(estimator, method, X, s, w, self.cv, rng)
        return self._read(scores, method)

    @abstractmethod
    def _read(self, scores: Vector, source: str) -> Vector:
        """Return scores in the form that `_estimate` takes, or raise where they cannot be read."""


def _is_precomputed(estimator: Any) -> bool:
    return isinstance(estimator, str) and estimator == PRECOMPUTED


def check_scorer(estimator: Any, methods: tuple[str, ...], name: str) -> None:
    """Refuse what is no classifier or has none of the methods that give scores."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            f"estimator must be None, 'precomputed' or a scikit-learn classifier (an instance); got {estimator!r}."
        )
    if not any(hasattr(estimator, method) for method in methods):
        raise ValueError(
            f"estimator={type(estimator).__name__} has no {' and no '.join(methods)}, which {name} reads. Use "
            "another classifier, or wrap it: sklearn.calibration.CalibratedClassifierCV(estimator)."
        )


def default_classifier(X: Any) -> Any:
    """Return gradient boosting for dense tables, a logistic model for sparse ones, which the former does not read.

    Up to `FEW_ROWS` the trees are smaller and the steps shorter than the library's: on eight datasets of up to four
    thousand rows that had the lower out-of-fold log loss of the labels on each (no true class enters into that). On
    three datasets the two were level at 12,000 and 16,000 rows; at 50,000 larger trees, stopped early, were better on
    two of them.
    """
    if sparse.issparse(X):
        return LogisticRegression(max_iter=1000)
    if X.shape[0] > FEW_ROWS:
        return HistGradientBoostingClassifier(early_stopping=True)
    return HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=8)


def one_column(X: Any) -> Vector:
    """Return the scores that a table of one column holds."""
    if X.shape[1] != 1:
        raise ValueError(
            f"With estimator='precomputed' X holds one column of out-of-fold scores; it has {X.shape[1]} columns. "
            "Pass scores.reshape(-1, 1), or leave estimator at None to have the scores made from these columns."
        )
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)[:, 0]


def out_of_fold_scores(
    estimator: Any, method: str, X: Any, s: Vector, w: Vector, cv: int, rng: np.random.Generator
) -> Vector:
    """Score each row by a clone of the classifier that was fitted without the row's fold.

    Folds keep the share of labelled rows; there are never more of them than rows of either kind. Weights that are not
    all 1 go to the classifier, which must take them.
    """
    weighted = bool((w != 1.0).any())
    if weighted and not takes_weights(estimator):
        raise ValueError(
            f"sample_weight is given, but estimator={type(final_step(estimator)).__name__} takes none in its fit. Use "
            "another classifier, e.g. LogisticRegression or HistGradientBoostingClassifier, or repeat rows instead."
        )
    fewest = int(min(s.sum(), (1.0 - s).sum()))
    if fewest < 2:
        raise ValueError(
            f"Out-of-fold scores need at least 2 labelled and 2 unlabelled rows; there are {s.sum():.0f} and "
            f"{(1.0 - s).sum():.0f}. Give more rows, or scores that you already have: estimator='precomputed'."
        )
    labels = s.astype(np.int64)
    folds = StratifiedKFold(min(cv, fewest), shuffle=True, random_state=_seed(rng))
    scores = np.empty(s.size)
    for others, fold in folds.split(labels, labels):
        model = seeded_clone(estimator, rng)
        if weighted:
            fit_weighted(model, take_rows(X, others), labels[others], w[others])
        else:
            model.fit(take_rows(X, others), labels[others])
        scores[fold] = positive_score(model, method, take_rows(X, fold))
    _check_finite(scores, estimator)
    return scores


def seeded_clone(estimator: Any, rng: np.random.Generator) -> Any:
    """Return an unfitted copy whose every `random_state` that was None, inside pipelines too, has a seed."""
    copy = clone(estimator)
    unset = [name for name, value in copy.get_params().items() if name.endswith("random_state") and value is None]
    return copy.set_params(**{name: _seed(rng) for name in sorted(unset)})


def positive_score(model: Any, method: str, X: Any) -> Vector:
    """Return the fitted model's score of class 1 for each row."""
    scores = np.asarray(getattr(model, method)(X), dtype=np.float64)
    return scores[:, 1] if scores.ndim == 2 else scores  # classes are sorted: 0, 1


def _check_finite(scores: Vector, estimator: Any) -> None:
    bad = np.count_nonzero(~np.isfinite(scores))
    if bad:
        raise ValueError(
            f"{type(estimator).__name__} gave {bad} of {scores.size} scores that are not finite numbers. Check its "
            "attributes and options, or use another classifier."
        )


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))


class ElkanNoto(ScoreEstimator):
    r"""Label frequency from what a classifier of the labels says about labelled rows (Elkan and Noto, 2008).

    Under SCAR :math:`g(x) = \Pr(s=1|x) = c\,\Pr(y=1|x)`, so that :math:`g = c` wherever a row is surely positive:

    - ``"e1"``: the mean of :math:`g` over labelled rows. Right only where no negative looks like a positive; its limit
      is :math:`c\,\mathrm{E}[\Pr(y=1|x) \mid y=1]`, too low wherever the classes overlap.
    - ``"e2"``: the sum of :math:`g` over labelled rows, divided by its sum over all rows. The same for a calibrated
      classifier; else a constant factor in :math:`g` drops out.
    - ``"e3"``: the largest :math:`g`. Allows for overlap, as long as one row is surely positive, but a maximum picks
      the largest error of the classifier and is often far too high.

    Simple and fast; `DEDPUL` and `BestBinEstimator` are usually much nearer.

    Parameters
    ----------
    estimator : scikit-learn classifier or "precomputed", optional
        What learns to tell labelled from unlabelled rows. It needs `predict_proba`, and should be calibrated.
        "precomputed": `X` is one column of probabilities of being labelled, out of fold. None: for a dense table
        ``HistGradientBoostingClassifier`` (``learning_rate=0.05, max_leaf_nodes=8`` up to 10,000 rows,
        ``early_stopping=True`` beyond), for a sparse one ``LogisticRegression(max_iter=1000)``; with None the table
        must hold numbers without gaps, while a classifier that you give reads what it can.
    variant : {"e1", "e2", "e3"}, default="e1"
    cv : int, default=5
        Folds for out-of-fold scores; fewer where there are fewer labelled or unlabelled rows.
    n_resamples : int, default=0
        Random half-samples for `class_prior_interval` and `label_frequency_interval`, 100 or more for one of 95%; 0:
        no interval. The classifier is fitted anew on each, for its noise is most of the noise here; precomputed scores
        leave that out.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seeds the folds, the half-samples and every `random_state` of the classifier that is None.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        :math:`c = \Pr(s=1|y=1)`, what the original method estimates.
    label_frequency_rows_ : int
        How many rows it comes from: all that count, or a sample where rows are not in memory.
    class_prior_ : float
        :math:`\Pr(y=1) = \Pr(s=1)/c` among all rows, labelled and unlabelled, of one table drawn from the population
        (the single-training-set scenario).
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    References
    ----------
    C. Elkan and K. Noto, "Learning classifiers from only positive and unlabeled data", KDD 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.label_frequency import ElkanNoto
    >>> scores = np.array([[0.5], [0.5], [0.5], [0.5], [0.0], [0.0]])  # positives look alike, half are labelled
    >>> model = ElkanNoto("precomputed").fit(scores, [1, 1, 0, 0, 0, 0])
    >>> model.label_frequency_, round(model.class_prior_, 3)
    (0.5, 0.667)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        variant: str = "e1",
        cv: int = 5,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.variant = variant
        self.cv = cv
        self.n_resamples = n_resamples
        self.random_state = random_state
        self.pos_label = pos_label

    def _check_options(self) -> None:
        check_choice(self.variant, "variant", tuple(_VARIANTS))
        super()._check_options()

    def _reads(self) -> tuple[str, ...]:
        return (PROBABILITY,)

    def _read(self, scores: Vector, source: str) -> Vector:
        bad = scores[~((scores >= 0) & (scores <= 1))]
        if bad.size:
            raise ValueError(
                f"ElkanNoto reads probabilities in [0, 1]; {bad.size} of {scores.size} scores are not (such as "
                f"{bad[0]:g}). Give probabilities of being labelled, or use BestBinEstimator or DEDPUL, which take any "
                "numbers."
            )
        return scores

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        return X, s, w  # scores are made anew for each half-sample: here they are most of the noise

    def _estimate(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator) -> Estimate:
        c = _VARIANTS[self.variant](self._scores(sample, s, w, rng), s, w)
        return Estimate(float(w @ s / w.sum()) / c if c > 0 else np.inf)


class BestBinEstimator(ScoreEstimator):
    r"""Class prior from the rows that look most like labelled ones (BBE; Garg et al., 2021).

    Let :math:`q_l(z)` and :math:`q_u(z)` be the shares of labelled and of unlabelled rows that score at least
    :math:`z`. Under SCAR positives score like labelled rows, so :math:`q_u(z) \ge \pi_u q_l(z)`, where :math:`\pi_u` is
    the share of positives among unlabelled rows, with equality where all rows above :math:`z` are positive. The
    method takes :math:`q_u/q_l` at the threshold with the least upper confidence bound.

    Right where some fair share of the positives scores above all negatives. Where negatives reach to the top of the
    ranking it is too high, and nothing in the labels shows that. Only the order of the scores matters.

    Parameters
    ----------
    estimator : scikit-learn classifier or "precomputed", optional
        What learns to tell labelled from unlabelled rows; `predict_proba` is read, or else `decision_function`.
        "precomputed": `X` is one column of out-of-fold scores, any numbers, higher for rows that are more likely
        labelled. None: for a dense table ``HistGradientBoostingClassifier`` (``learning_rate=0.05,
        max_leaf_nodes=8`` up to 10,000 rows, ``early_stopping=True`` beyond), for a sparse one
        ``LogisticRegression(max_iter=1000)``; with None the table must hold numbers without gaps, while a classifier
        that you give reads what it can.
    delta : float, default=0.1
        One minus the confidence of the bound. A smaller value asks for more rows above the threshold.
    gamma : float, default=0.01
        By how much the confidence term is inflated, above 0.
    cv : int, default=5
        Folds for out-of-fold scores; fewer where there are fewer labelled or unlabelled rows.
    n_resamples : int, default=0
        Random half-samples for `class_prior_interval` and `label_frequency_interval`, 100 or more for one of 95%; 0:
        no interval. They share one set of scores: the interval leaves out what the classifier's own training rows add
        to the noise.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seeds the folds, the half-samples and every `random_state` of the classifier that is None.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        :math:`c = \Pr(s=1|y=1)`.
    label_frequency_rows_ : int
        How many rows it comes from: all that count, or a sample where rows are not in memory.
    class_prior_ : float
        :math:`\Pr(y=1)` among all rows, labelled and unlabelled, of one table drawn from the population (the
        single-training-set scenario). The original method estimates :math:`\pi_u` among :math:`n_u` unlabelled rows;
        :math:`n_l` labelled ones are positive: :math:`(n_l + \pi_u n_u)/(n_l + n_u)`.
    threshold_ : float
        The score from which on rows were counted.
    upper_bound_ : float
        Upper confidence bound of :math:`\pi_u` at that threshold; above 1 it says nothing.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    References
    ----------
    S. Garg, Y. Wu, A. Smola, S. Balakrishnan and Z. Lipton, "Mixture proportion estimation and PU learning: a modern
    approach", NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.label_frequency import BestBinEstimator
    >>> scores = np.repeat([3.0, 3.0, 0.0], [300, 100, 600])[:, None]  # 400 positives score 3
    >>> s = np.repeat([1, 0, 0], [300, 100, 600])  # three in four are labelled
    >>> model = BestBinEstimator("precomputed").fit(scores, s)
    >>> round(model.label_frequency_, 3), round(model.class_prior_, 3), model.threshold_
    (0.75, 0.4, 3.0)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        delta: float = 0.1,
        gamma: float = 0.01,
        cv: int = 5,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.delta = delta
        self.gamma = gamma
        self.cv = cv
        self.n_resamples = n_resamples
        self.random_state = random_state
        self.pos_label = pos_label

    def _check_options(self) -> None:
        check_share(self.delta, "delta")
        check_positive(self.gamma, "gamma")
        super()._check_options()

    def _read(self, scores: Vector, source: str) -> Vector:
        return scores

    def _estimate(self, sample: Vector, s: Vector, w: Vector, rng: np.random.Generator) -> Estimate:
        found = best_bin(sample, s, w, delta=float(self.delta), gamma=float(self.gamma))
        prior = prior_of_all(found.unlabelled_prior, float(w @ s), float(w @ (1.0 - s)))
        return Estimate(prior, {"threshold": found.threshold, "upper_bound": found.upper_bound})


class DEDPUL(ScoreEstimator):
    r"""Class prior from the densities of scores among labelled and among unlabelled rows (Ivanov, 2020).

    Under SCAR unlabelled rows are a mixture of positives, whose scores are spread like those of labelled rows, and
    negatives: :math:`f_u = \pi_u f_l + (1-\pi_u) f_n`. With :math:`r = f_l/f_u`, from two kernel estimates on the
    scale of log-odds, smoothed and made to rise with the score, an unlabelled row is negative with probability
    :math:`\max(0, 1 - \pi_u r)`. The estimate is the largest :math:`\pi_u` whose mean posterior gives it back; where
    no value does, the sharpest bend of the difference is taken.

    Right where some positives score above all negatives: :math:`\pi_u` is then :math:`1/\max r`. Where negatives reach
    to the top of the ranking it tends to be too high.

    Parameters
    ----------
    estimator : scikit-learn classifier or "precomputed", optional
        What learns to tell labelled from unlabelled rows; `predict_proba` is read, or else `decision_function`, as
        log-odds. "precomputed": `X` is one column of out-of-fold scores, higher for rows that are more likely
        labelled; read as probabilities if all lie in [0, 1], else as log-odds. None: for a dense table
        ``HistGradientBoostingClassifier`` (``learning_rate=0.05, max_leaf_nodes=8`` up to 10,000 rows,
        ``early_stopping=True`` beyond), for a sparse one ``LogisticRegression(max_iter=1000)``; with None the table
        must hold numbers without gaps, while a classifier that you give reads what it can.
    cv : int, default=5
        Folds for out-of-fold scores; fewer where there are fewer labelled or unlabelled rows.
    n_resamples : int, default=0
        Random half-samples for `class_prior_interval` and `label_frequency_interval`, 100 or more for one of 95%; 0:
        no interval. They share one set of scores: the interval leaves out what the classifier's own training rows add
        to the noise.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seeds the folds, the half-samples and every `random_state` of the classifier that is None.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        :math:`c = \Pr(s=1|y=1)`.
    label_frequency_rows_ : int
        How many rows it comes from: all that count, or a sample where rows are not in memory.
    class_prior_ : float
        :math:`\Pr(y=1)` among all rows, labelled and unlabelled, of one table drawn from the population (the
        single-training-set scenario). The original method estimates :math:`\pi_u` among :math:`n_u` unlabelled rows;
        :math:`n_l` labelled ones are positive: :math:`(n_l + \pi_u n_u)/(n_l + n_u)`.
    converged_ : bool
        Whether the posteriors give the estimate back; if not, it is where their error bends most.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    References
    ----------
    D. Ivanov, "DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning", ICMLA 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.label_frequency import DEDPUL
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(2000) < 0.4).astype(int)
    >>> s = y * (rng.random(2000) < 0.5)
    >>> scores = rng.normal(4.0 * y)[:, None]
    >>> round(DEDPUL("precomputed").fit(scores, s).class_prior_, 2)
    0.41
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        cv: int = 5,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.n_resamples = n_resamples
        self.random_state = random_state
        self.pos_label = pos_label

    def _read(self, scores: Vector, source: str) -> Vector:
        if source == PROBABILITY or (source == PRECOMPUTED and scores.min() >= 0 and scores.max() <= 1):
            return log_odds(scores)
        return scores

    def _estimate(self, sample: Vector, s: Vector, w: Vector, rng: np.random.Generator) -> Estimate:
        labelled, unlabelled = (copies(sample[s == kind], w[s == kind]) for kind in (1, 0))
        negative = negative_share(smoothed_ratio(labelled, unlabelled))
        prior = prior_of_all(1.0 - negative.value, float(w @ s), float(w @ (1.0 - s)))
        return Estimate(prior, {"converged": negative.converged})


def copies(scores: Vector, w: Vector) -> Vector:
    """Return as many scores as the weights count, in their proportion: quantiles of the weighted scores.

    Whole weights are the scores repeated. Densities and medians over neighbours are then those of rows that all count
    alike. Beyond a million, shares are met to one in a million.

    Examples
    --------
    >>> copies(np.array([0.5, -1.0, 2.0]), np.array([2.0, 1.0, 3.0]))
    array([-1. ,  0.5,  0.5,  2. ,  2. ,  2. ])
    """
    if (w == 1.0).all():
        return scores
    order = np.argsort(scores, kind="stable")
    ends = np.cumsum(w[order])
    n = max(min(round(float(ends[-1])), MAX_SCORE_COPIES), w.size)
    places = (np.arange(n) + 0.5) * (ends[-1] / n)
    return scores[order][np.searchsorted(ends, places)]


def log_odds(probability: Vector) -> Vector:
    """Return log-odds, with 0 and 1 half as far from the ends as the nearest other score."""
    inside = probability[(probability > 0) & (probability < 1)]
    nearest = min(inside.min(), (1.0 - inside).min()) / 2 if inside.size else 0.25
    return np.asarray(logit(np.clip(probability, nearest, 1.0 - nearest)))
