"""DEDPUL: the class prior from the ratio of two densities of scores."""

from typing import Any

import numpy as np
from scipy.special import logit

from scarless.label_frequency._base import Estimate
from scarless.label_frequency.held_out_scores import PRECOMPUTED, PROBABILITY, ScoreEstimator
from scarless.numerics.arrays import Vector
from scarless.numerics.density_ratio import negative_share, smoothed_ratio
from scarless.numerics.scores import prior_of_all

MOST_COPIES = 10**6


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
    n_folds : int, default=5
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
        n_folds: int = 5,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.n_folds = n_folds
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
    n = max(min(round(float(ends[-1])), MOST_COPIES), w.size)
    places = (np.arange(n) + 0.5) * (ends[-1] / n)
    return scores[order][np.searchsorted(ends, places)]


def log_odds(probability: Vector) -> Vector:
    """Return log-odds, with 0 and 1 half as far from the ends as the nearest other score."""
    inside = probability[(probability > 0) & (probability < 1)]
    nearest = min(inside.min(), (1.0 - inside).min()) / 2 if inside.size else 0.25
    return np.asarray(logit(np.clip(probability, nearest, 1.0 - nearest)))
