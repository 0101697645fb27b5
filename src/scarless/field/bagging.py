"""PU bagging (Mordelet and Vert): classifiers of labelled rows against random samples of unlabelled rows."""

from typing import Any, Self

import numpy as np

from scarless.checks.options import check_whole
from scarless.checks.tables import take_rows
from scarless.field._base import FieldClassifier
from scarless.numerics.arrays import ArrayLike, Columns, Vector
from scarless.outside.notices import warn_user


class PUBaggingClassifier(FieldClassifier):
    r"""Mean score of many classifiers of labelled rows against a random sample of unlabelled rows (PU bagging).

    For :math:`t = 1, \dots, T`, draw `K` unlabelled rows :math:`U_t` without replacement, and fit a classifier
    :math:`g_t` of the labelled rows against :math:`U_t`. The score of a new row is the mean of all classifiers,
    :math:`\frac1T\sum_t g_t(x)`. The *out-of-bag* score of an unlabelled training row uses the classifiers that did not
    see the row:

    .. math:: \frac{\sum_t [i \notin U_t]\, g_t(x_i)}{\sum_t [i \notin U_t]}.

    **Assumption.** Labels are selected completely at random, so that labelled rows represent the positives. For the
    ranking it is enough that rows that are more probably positive are more probably labelled.

    **If the assumption fails.** Under biased labels the ranking is the ranking of :math:`\Pr(s=1|x)`: positives of a
    kind that is rarely labelled get low scores. The scores are no probabilities of the class in any case, because they
    depend on `K`. With `K` equal to the number of labelled rows, the score is about
    :math:`\sigma / (\sigma + (1-\sigma) c')`, where :math:`\sigma = \Pr(s=1|x)` and :math:`c'` is the odds of a label
    in the table. The cut-off 1/2 then calls positive each row that is more probably labelled than an average row.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Classifier with `predict_proba`; logistic regression by default.
    n_estimators : int, default=100
        Number of samples `T`.
    n_negatives : int, optional
        Number `K` of unlabelled rows in each sample. By default, the number of labelled rows, or half of the unlabelled
        rows if that is fewer.
    C : float, default=1.0
        Inverse regularisation strength of the logistic regression.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for the samples, and for every `random_state` of the estimator that is None.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    oob_scores_ : array of shape (n_rows,)
        Out-of-bag score of each unlabelled training row. NaN for labelled rows, which every classifier has seen, and
        for rows that are in all samples. Rank training rows by this score, not by `decision_function`.
    oob_counts_ : array of shape (n_rows,)
        Number of classifiers in the out-of-bag score.
    n_negatives_ : int
        Number `K` of unlabelled rows in each sample.
    cut_ : float
        1/2. Mordelet and Vert rank rows, and have no cut-off; public implementations use 1/2.
    classes_ : array of shape (2,)
        The two label values, sorted.
    estimators_ : list
        The fitted classifiers, if `estimator` is given.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    Notes
    -----
    `fit` has no `sample_weight`, because a weighted row is not equivalent to several rows in random samples. There is
    no `predict_proba`, because the method does not estimate the class prior.

    References
    ----------
    Mordelet and Vert, "A bagging SVM to learn from positive and unlabeled examples", Pattern Recognition Letters 37,
    2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import roc_auc_score
    >>> from scarless.field import PUBaggingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> y = rng.random(1000) < 1 / (1 + np.exp(1 - 3 * X[:, 0]))
    >>> s = y & (rng.random(1000) < 0.2)
    >>> model = PUBaggingClassifier(n_estimators=20, random_state=0).fit(X, s)
    >>> model.n_negatives_
    79
    >>> round(roc_auc_score(y[~s], model.oob_scores_[~s]), 2)
    0.91
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 100,
        n_negatives: int | None = None,
        C: float = 1.0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.n_estimators = n_estimators
        self.n_negatives = n_negatives

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit one classifier for each random sample of unlabelled rows, and compute out-of-bag scores.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.

        Returns
        -------
        self
        """
        n_estimators = check_whole(self.n_estimators, "n_estimators", at_least=1)
        if self.n_negatives is not None:
            check_whole(self.n_negatives, "n_negatives", at_least=1)
        (table, s, _), rng = self._begin(X, y)
        labelled, unlabelled = np.flatnonzero(s == 1), np.flatnonzero(s == 0)
        size = self._sample_size(labelled.size, unlabelled.size)
        self._models, sums, counts = [], np.zeros(s.size), np.zeros(s.size, dtype=np.int64)
        # All samples are drawn before the first fit, so that they do not depend on the random numbers of an estimator.
        for drawn in [rng.choice(unlabelled, size, replace=False) for _ in range(n_estimators)]:
            rows = np.sort(np.concatenate([labelled, drawn]))
            model = self._fit_inner(take_rows(table, rows), s[rows], None, rng)
            others = np.setdiff1d(unlabelled, drawn)
            if others.size:
                sums[others] += model.probability(take_rows(table, others))
                counts[others] += 1
            self._models.append(model)
        self._store_out_of_bag(sums, counts, unlabelled)
        if self.estimator is not None:
            self.estimators_ = [each.model for each in self._models]
        self.n_negatives_ = size
        self.cut_ = 0.5
        return self

    def _sample_size(self, n_labelled: int, n_unlabelled: int) -> int:
        if self.n_negatives is None:
            return min(n_labelled, max(1, n_unlabelled // 2))
        if self.n_negatives > n_unlabelled:
            raise ValueError(
                f"n_negatives={self.n_negatives}, but there are only {n_unlabelled} unlabelled rows. A sample is drawn "
                "without replacement. Use a smaller n_negatives; below the number of unlabelled rows, there are "
                "out-of-bag scores."
            )
        return int(self.n_negatives)

    def _store_out_of_bag(self, sums: Vector, counts: Columns, unlabelled: Columns) -> None:
        never = np.count_nonzero(counts[unlabelled] == 0)
        if never:
            warn_user(
                f"{type(self).__name__}: {never} of {unlabelled.size} unlabelled rows are in all "
                f"{self.n_estimators} samples, and have no out-of-bag score. Their oob_scores_ are NaN. Raise "
                "n_estimators, or use a smaller n_negatives.",
                UserWarning,
            )
        self.oob_counts_ = counts
        self.oob_scores_ = np.full(sums.size, np.nan)
        known = counts > 0
        self.oob_scores_[known] = sums[known] / counts[known]

    def _score_rows(self, table: Any) -> Vector:
        total = np.zeros(table.shape[0])
        for model in self._models:
            total += model.probability(table)
        return total / len(self._models)
