"""Elkan and Noto's three estimators of the label frequency."""

from typing import Any

import numpy as np

from scarless.checks.options import check_choice
from scarless.label_frequency._base import Estimate
from scarless.label_frequency.held_out_scores import PROBABILITY, ScoreEstimator
from scarless.numerics.arrays import Vector
from scarless.numerics.scores import labelled_share_of_scores, largest_score, mean_labelled_score

_VARIANTS = {"e1": mean_labelled_score, "e2": labelled_share_of_scores, "e3": largest_score}


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
    n_folds : int, default=5
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
        n_folds: int = 5,
        n_resamples: int = 0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.variant = variant
        self.n_folds = n_folds
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
