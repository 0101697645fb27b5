"""The best-bin estimator of the class prior."""

from typing import Any

import numpy as np

from scarless.checks.options import check_positive, check_share
from scarless.label_frequency._base import Estimate
from scarless.label_frequency.held_out_scores import ScoreEstimator
from scarless.numerics.arrays import Vector
from scarless.numerics.scores import best_bin, prior_of_all


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
        n_folds: int = 5,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.delta = delta
        self.gamma = gamma
        self.n_folds = n_folds
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
