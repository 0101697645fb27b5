"""Estimators based on out-of-fold scores of a classifier: Elkan and Noto, best bin estimation, DEDPUL."""

from abc import abstractmethod
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from scarless.checks.estimators import (
    final_step,
    fit_weighted,
    seeded_clone,
    takes_weights,
    warn_about_class_weights,
)
from scarless.checks.options import check_choice, check_positive, check_share, check_whole
from scarless.checks.tables import take_rows
from scarless.engines.blas import MAX_ROWS_FOR_ONE_THREAD, trees_on_one_thread
from scarless.label_frequency._base import FrequencyEstimate, LabelFrequencyEstimator
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
PROBABILITY, DECISION = "predict_proba", "decision_function"  # methods of a classifier that give scores
_VARIANTS = {"e1": mean_labelled_score, "e2": labelled_share_of_scores, "e3": largest_score}
#: Largest number of copies of scores that replace row weights in DEDPUL's densities; larger weights are scaled down.
#: By judgement.
MAX_SCORE_COPIES = 10**6


class ScoreEstimator(LabelFrequencyEstimator):
    """Base class of estimators based on scores that are higher for rows more likely to be labelled.

    A classifier of labelled against unlabelled rows is fitted once for each fold, without the rows of the fold, and
    computes the scores of these rows. Scores of training rows would reveal their labels. Except in `ElkanNoto`, the
    scores are computed once, and an interval needs no refits.
    """

    estimator: Any
    cv: int

    def _inner(self) -> Any:
        return None if self.estimator is None or _is_precomputed(self.estimator) else self.estimator

    def _check_options(self) -> None:
        check_whole(self.cv, "cv", at_least=2)
        inner = self._inner()
        if inner is not None:
            check_scorer(inner, self._score_methods(), type(self).__name__)
            if self._score_methods() == (PROBABILITY,):
                warn_about_class_weights(self)

    def _score_methods(self) -> tuple[str, ...]:
        """Return the methods of a classifier that give scores, in order of preference."""
        return PROBABILITY, DECISION

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        return self._scores(X, s, w, rng), s, w

    def _scores(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> Vector:
        if _is_precomputed(self.estimator):
            return self._converted(one_column(X), PRECOMPUTED)
        estimator = default_classifier(X) if self.estimator is None else self.estimator
        method = next(name for name in self._score_methods() if hasattr(estimator, name))
        with trees_on_one_thread(X.shape[0]) if self.estimator is None else nullcontext():
            scores = out_of_fold_scores(estimator, method, X, s, w, self.cv, rng)
        return self._converted(scores, method)

    @abstractmethod
    def _converted(self, scores: Vector, source: str) -> Vector:
        """Return the scores in the form that `_estimate` needs; raise an error if they are invalid."""


def _is_precomputed(estimator: Any) -> bool:
    return isinstance(estimator, str) and estimator == PRECOMPUTED


def check_scorer(estimator: Any, methods: tuple[str, ...], name: str) -> None:
    """Check that `estimator` is a classifier with one of the methods that give scores."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise ValueError(
            "estimator must be None, 'precomputed' or an instance of a scikit-learn classifier, such as "
            f"LogisticRegression(); got {estimator!r}."
        )
    if not any(hasattr(estimator, method) for method in methods):
        wrapped = "wrap this one: sklearn.calibration.CalibratedClassifierCV(estimator)"
        advice = wrapped if hasattr(estimator, DECISION) else "pass your own scores with estimator='precomputed'"
        needed = "which" if len(methods) == 1 else "one of which"
        raise ValueError(
            f"estimator={type(estimator).__name__} has no {' and no '.join(methods)}, {needed} {name} needs. Use "
            f"another classifier, or {advice}."
        )


def default_classifier(X: Any) -> Any:
    """Return gradient boosting for dense tables, and logistic regression for sparse tables.

    Up to 10,000 rows, the trees are smaller and the learning rate is lower than scikit-learn's defaults. On eight
    datasets of up to 4,000 rows, this gave a lower out-of-fold log loss of the labels than the defaults. On three
    datasets, both settings were equally good at 12,000 and 16,000 rows. At 50,000 rows, larger trees with early
    stopping were better on two of these three datasets.
    """
    if sparse.issparse(X):
        return LogisticRegression(max_iter=1000)
    if X.shape[0] > MAX_ROWS_FOR_ONE_THREAD:
        return HistGradientBoostingClassifier(early_stopping=True)
    return HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=8)


def one_column(X: Any) -> Vector:
    """Return the scores from a table with one column."""
    if X.shape[1] != 1:
        raise ValueError(
            f"With estimator='precomputed', X must have one column of out-of-fold scores; it has {X.shape[1]} columns. "
            "Pass scores.reshape(-1, 1), or set estimator=None to compute scores from these columns."
        )
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)[:, 0]


def out_of_fold_scores(
    estimator: Any, method: str, X: Any, s: Vector, w: Vector, cv: int, rng: np.random.Generator
) -> Vector:
    """Return the score of each row by a clone of the classifier that was fitted without the row's fold.

    Folds are stratified by label; there are at most as many folds as labelled rows or unlabelled rows. Weights are
    passed to the classifier unless all are 1.
    """
    weighted = bool((w != 1.0).any())
    if weighted and not takes_weights(estimator):
        raise ValueError(
            f"sample_weight: estimator={type(final_step(estimator)).__name__} does not accept weights in fit. Use "
            "another classifier, such as LogisticRegression or HistGradientBoostingClassifier, or repeat rows instead "
            "of weighting them."
        )
    n_rarer = int(min(s.sum(), (1.0 - s).sum()))
    if n_rarer < 2:
        raise ValueError(
            f"Out-of-fold scores need at least 2 labelled and 2 unlabelled rows; there are {s.sum():.0f} labelled and "
            f"{(1.0 - s).sum():.0f} unlabelled rows. Use more rows, or pass your own scores with "
            "estimator='precomputed'."
        )
    labels = s.astype(np.int64)
    folds = StratifiedKFold(min(cv, n_rarer), shuffle=True, random_state=_seed(rng))
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


def positive_score(model: Any, method: str, X: Any) -> Vector:
    """Return the fitted model's score of class 1 for each row."""
    scores = np.asarray(getattr(model, method)(X), dtype=np.float64)
    return scores[:, 1] if scores.ndim == 2 else scores  # The classes are sorted: 0, 1.


def _check_finite(scores: Vector, estimator: Any) -> None:
    bad = np.count_nonzero(~np.isfinite(scores))
    if bad:
        raise ValueError(
            f"estimator={type(estimator).__name__}: {bad} of {scores.size} scores are NaN or infinite. Check X and the "
            "parameters of the classifier, or use another classifier."
        )


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))


class ElkanNoto(ScoreEstimator):
    r"""Label frequency from the label probabilities of labelled rows (Elkan and Noto, 2008).

    Under SCAR, :math:`g(x) = \Pr(s=1|x) = c\,\Pr(y=1|x)`, so :math:`g = c` for rows that are certainly positive. The
    variants are:

    - ``"e1"``: the mean of :math:`g` over labelled rows. Its limit is :math:`c\,\mathrm{E}[\Pr(y=1|x) \mid y=1]`, which
      is too low if the classes overlap.
    - ``"e2"``: the sum of :math:`g` over labelled rows divided by its sum over all rows. For a calibrated classifier it
      equals ``"e1"``. A constant factor in :math:`g` cancels.
    - ``"e3"``: the largest :math:`g`. It allows overlapping classes, if at least one row is certainly positive. But the
      row with the largest :math:`g` often has a large error, so the estimate is often much too high.

    The method is simple and fast. `DEDPUL` and `BestBinEstimator` are usually much more accurate.

    Parameters
    ----------
    estimator : scikit-learn classifier or "precomputed", optional
        Classifier of labelled against unlabelled rows. It needs `predict_proba` and should be calibrated. With
        "precomputed", `X` is one column of out-of-fold probabilities of a label. By default,
        ``HistGradientBoostingClassifier`` for dense tables (``learning_rate=0.05, max_leaf_nodes=8`` up to 10,000 rows,
        ``early_stopping=True`` above) and ``LogisticRegression(max_iter=1000)`` for sparse tables; `X` must then be
        numeric without missing values.
    variant : {"e1", "e2", "e3"}, default="e1"
        Estimate of `c`, see above.
    cv : int, default=5
        Number of folds for out-of-fold scores; it is reduced if there are fewer labelled or unlabelled rows than folds.
    n_resamples : int, default=0
        Number of random half-samples for `class_prior_interval` and `label_frequency_interval`; use 100 or more for a
        95% interval. With 0, there is no interval. The classifier is refitted on each half-sample, because most of the
        variance comes from the classifier. With precomputed scores, the interval does not include this variance.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for folds, half-samples, and every `random_state` of the classifier that is None.
        Pass an int for reproducible results.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        Label frequency :math:`c = \Pr(s=1|y=1)`.
    label_frequency_rows_ : int
        Number of rows used: all rows of positive weight, or a sample if the rows are not in memory.
    class_prior_ : float
        Class prior :math:`\Pr(y=1) = \Pr(s=1)/c` of all rows, labelled and unlabelled.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the columns of `X` have names.

    References
    ----------
    C. Elkan and K. Noto, "Learning classifiers from only positive and unlabeled data", KDD 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.label_frequency import ElkanNoto
    >>> scores = np.array([[0.5], [0.5], [0.5], [0.5], [0.0], [0.0]])  # half of the positives are labelled
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

    def _score_methods(self) -> tuple[str, ...]:
        return (PROBABILITY,)

    def _converted(self, scores: Vector, source: str) -> Vector:
        bad = scores[~((scores >= 0) & (scores <= 1))]
        if bad.size:
            raise ValueError(
                f"ElkanNoto needs probabilities between 0 and 1; {bad.size} of {scores.size} scores are outside this "
                f"range, for example {bad[0]:g}. Pass the probability that a row is labelled, or use BestBinEstimator "
                "or DEDPUL, which accept any scores."
            )
        return scores

    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        return X, s, w  # Scores are recomputed for each half-sample: most of the variance comes from them.

    def _estimate(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator) -> FrequencyEstimate:
        c = _VARIANTS[self.variant](self._scores(sample, s, w, rng), s, w)
        return FrequencyEstimate(float(w @ s / w.sum()) / c if c > 0 else np.inf)


class BestBinEstimator(ScoreEstimator):
    r"""Class prior from the rows with the highest scores (best bin estimation, BBE; Garg et al., 2021).

    Let :math:`q_l(z)` and :math:`q_u(z)` be the shares of labelled and of unlabelled rows with scores of at least
    :math:`z`, and :math:`\pi_u` the share of positives among unlabelled rows. Under SCAR, positives and labelled rows
    have the same distribution of scores. Hence :math:`q_u(z) \ge \pi_u q_l(z)`, with equality if all rows above
    :math:`z` are positive. The estimate is :math:`q_u/q_l` at the threshold with the smallest upper confidence bound.

    The estimate is right if a considerable share of the positives has higher scores than all negatives. Otherwise it is
    too high, and the labels cannot reveal this. Only the ranking of the scores matters.

    Parameters
    ----------
    estimator : scikit-learn classifier or "precomputed", optional
        Classifier of labelled against unlabelled rows. Scores come from `predict_proba`, or from `decision_function` if
        the classifier has no probabilities. With "precomputed", `X` is one column of out-of-fold scores, higher for
        rows more likely to be labelled. By default, ``HistGradientBoostingClassifier`` for dense tables
        (``learning_rate=0.05, max_leaf_nodes=8`` up to 10,000 rows, ``early_stopping=True`` above) and
        ``LogisticRegression(max_iter=1000)`` for sparse tables; `X` must then be numeric without missing values.
    delta : float, default=0.1
        One minus the confidence level of the bound. With a smaller value, more rows must be above the threshold.
    gamma : float, default=0.01
        The confidence term of the bound is multiplied by ``1 + gamma``; `gamma` must be positive.
    cv : int, default=5
        Number of folds for out-of-fold scores; it is reduced if there are fewer labelled or unlabelled rows than folds.
    n_resamples : int, default=0
        Number of random half-samples for `class_prior_interval` and `label_frequency_interval`; use 100 or more for a
        95% interval. With 0, there is no interval. All half-samples use the same scores, so the interval leaves out the
        variance of the classifier.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for folds, half-samples, and every `random_state` of the classifier that is None.
        Pass an int for reproducible results.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        Label frequency :math:`c = \Pr(s=1|y=1)`.
    label_frequency_rows_ : int
        Number of rows used: all rows of positive weight, or a sample if the rows are not in memory.
    class_prior_ : float
        Class prior :math:`\Pr(y=1)` of all rows, labelled and unlabelled. The original method estimates :math:`\pi_u`
        of the :math:`n_u` unlabelled rows. With :math:`n_l` labelled rows, the class prior is
        :math:`(n_l + \pi_u n_u)/(n_l + n_u)`.
    threshold_ : float
        Score threshold of the best bin.
    upper_bound_ : float
        Upper confidence bound of :math:`\pi_u` at the threshold; a value above 1 is not informative.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the columns of `X` have names.

    References
    ----------
    S. Garg, Y. Wu, A. Smola, S. Balakrishnan and Z. Lipton, "Mixture proportion estimation and PU learning: a modern
    approach", NeurIPS 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.label_frequency import BestBinEstimator
    >>> scores = np.repeat([3.0, 3.0, 0.0], [300, 100, 600])[:, None]  # 400 positives have the score 3
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

    def _converted(self, scores: Vector, source: str) -> Vector:
        return scores

    def _estimate(self, sample: Vector, s: Vector, w: Vector, rng: np.random.Generator) -> FrequencyEstimate:
        found = best_bin(sample, s, w, delta=float(self.delta), gamma=float(self.gamma))
        prior = prior_of_all(found.unlabelled_prior, float(w @ s), float(w @ (1.0 - s)))
        return FrequencyEstimate(prior, {"threshold": found.threshold, "upper_bound": found.upper_bound})


class DEDPUL(ScoreEstimator):
    r"""Class prior from the densities of the scores of labelled and of unlabelled rows (Ivanov, 2020).

    Under SCAR, unlabelled rows are a mixture of positives, whose scores are distributed like those of labelled rows,
    and negatives: :math:`f_u = \pi_u f_l + (1-\pi_u) f_n`. The ratio :math:`r = f_l/f_u` comes from kernel density
    estimates of the log-odds. It is smoothed, and made non-decreasing for high scores. An unlabelled row is negative
    with probability :math:`\max(0, 1 - \pi_u r)`. The estimate is the largest :math:`\pi_u` for which the mean of these
    probabilities is :math:`1 - \pi_u`. If there is no such value, the estimate is the :math:`\pi_u` at which the
    difference between the mean and :math:`1 - \pi_u` has its sharpest kink.

    The estimate is right if some positives have higher scores than all negatives: then :math:`\pi_u = 1/\max r`.
    Otherwise it tends to be too high.

    Parameters
    ----------
    estimator : scikit-learn classifier or "precomputed", optional
        Classifier of labelled against unlabelled rows. Scores come from `predict_proba`, or from `decision_function`,
        whose values are used as log-odds. With "precomputed", `X` is one column of out-of-fold scores: probabilities if
        all are in [0, 1], otherwise log-odds. By default, ``HistGradientBoostingClassifier`` for dense tables
        (``learning_rate=0.05, max_leaf_nodes=8`` up to 10,000 rows, ``early_stopping=True`` above) and
        ``LogisticRegression(max_iter=1000)`` for sparse tables; `X` must then be numeric without missing values.
    cv : int, default=5
        Number of folds for out-of-fold scores; it is reduced if there are fewer labelled or unlabelled rows than folds.
    n_resamples : int, default=0
        Number of random half-samples for `class_prior_interval` and `label_frequency_interval`; use 100 or more for a
        95% interval. With 0, there is no interval. All half-samples use the same scores, so the interval leaves out the
        variance of the classifier.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for folds, half-samples, and every `random_state` of the classifier that is None.
        Pass an int for reproducible results.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    label_frequency_ : float
        Label frequency :math:`c = \Pr(s=1|y=1)`.
    label_frequency_rows_ : int
        Number of rows used: all rows of positive weight, or a sample if the rows are not in memory.
    class_prior_ : float
        Class prior :math:`\Pr(y=1)` of all rows, labelled and unlabelled. The original method estimates :math:`\pi_u`
        of the :math:`n_u` unlabelled rows. With :math:`n_l` labelled rows, the class prior is
        :math:`(n_l + \pi_u n_u)/(n_l + n_u)`.
    converged_ : bool
        Whether the mean of the probabilities above is :math:`1 - \pi_u` at some :math:`\pi_u`. If not, the estimate is
        at the sharpest kink of the difference.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the columns of `X` have names.

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

    def _converted(self, scores: Vector, source: str) -> Vector:
        if source == PROBABILITY or (source == PRECOMPUTED and scores.min() >= 0 and scores.max() <= 1):
            return log_odds(scores)
        return scores

    def _estimate(self, sample: Vector, s: Vector, w: Vector, rng: np.random.Generator) -> FrequencyEstimate:
        labelled, unlabelled = (copies(sample[s == kind], w[s == kind]) for kind in (1, 0))
        negative = negative_share(smoothed_ratio(labelled, unlabelled))
        prior = prior_of_all(1.0 - negative.value, float(w @ s), float(w @ (1.0 - s)))
        return FrequencyEstimate(prior, {"converged": negative.converged})


def copies(scores: Vector, w: Vector) -> Vector:
    """Return unweighted scores with the distribution of the weighted scores: their quantiles.

    With integer weights, each score is repeated. The number of scores is the sum of the weights, limited to a million,
    but at least the number of rows. If the limit applies, the distribution is accurate to one in a million.

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
    """Return log-odds; 0 and 1 are moved inwards by half the smallest distance of other probabilities from 0 or 1."""
    inside = probability[(probability > 0) & (probability < 1)]
    nearest = min(inside.min(), (1.0 - inside).min()) / 2 if inside.size else 0.25
    return np.asarray(logit(np.clip(probability, nearest, 1.0 - nearest)))
