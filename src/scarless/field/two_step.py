"""The two-step method: find unlabelled rows that are almost certainly negative, then fit an ordinary classifier."""

from typing import Any, NamedTuple, Self

import numpy as np

from scarless.checks.options import check_choice, check_share, real_number, shown
from scarless.checks.tables import take_rows
from scarless.field._base import FieldClassifier, store_inner
from scarless.numerics.arrays import ArrayLike, Columns, Vector
from scarless.outside.notices import warn_user


class TwoStepClassifier(FieldClassifier):
    r"""Classifier of labelled rows against *reliable negatives*, unlabelled rows with low scores (two-step method).

    **Step 1** finds reliable negatives.

    - ``reliable="spies"``: the share `spy_share` of the labelled rows, the spies, is hidden among the unlabelled rows.
      A classifier :math:`g` of the other labelled rows against all unlabelled rows and spies is fitted. The spies are
      known positives, so their scores show which scores unlabelled positives have. The threshold :math:`t` is the
      spy score below which the share `noise` of the spies lies. Unlabelled rows with :math:`g(x) < t` are reliable
      negatives.
    - ``reliable="quantile"``: a classifier of labelled against unlabelled rows is fitted. The share `negative_share` of
      the unlabelled rows with the lowest scores are reliable negatives.

    **Step 2** fits the classifier to all labelled rows against the reliable negatives. All other unlabelled rows are
    left out. A row is positive if its probability is above 1/2.

    **Assumption.** Labels are selected completely at random, so that spies represent the unlabelled positives, and the
    classes are so well separated that few positives have scores below :math:`t`.

    **If the assumption fails.** Under biased labels the spies are biased too: they come from the kind of positives that
    is often labelled. Positives of other kinds score below the spies, and become reliable negatives. Nothing in the
    data shows this. If the classes overlap, the rows between them are missing in step 2. The classifier is then too
    sure, and its cut-off depends on the numbers of labelled rows and reliable negatives, not on the class prior.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Classifier of both steps, with `predict_proba`; logistic regression by default.
    reliable : {"spies", "quantile"}, default="spies"
        How to find reliable negatives, see above.
    spy_share : float, default=0.15
        Share of the labelled rows that are spies; at least one row is a spy. For ``reliable="spies"`` only.
    noise : float, default=0.05
        Share of the spies that may be below the threshold: ``floor(noise * n_spies)`` spies are. 0: none. For
        ``reliable="spies"`` only.
    negative_share : float, default=0.3
        Share of the unlabelled rows that are reliable negatives, for ``reliable="quantile"``; at least one row. Also
        used, with a warning, if no unlabelled row scores below the spies.
    C : float, default=1.0
        Inverse regularisation strength of the logistic regression.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for the choice of spies, and for every `random_state` of the estimator that is None.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    spies_ : array of int
        Row numbers of the spies; empty for ``reliable="quantile"``.
    reliable_negatives_ : array of int
        Row numbers of the reliable negatives.
    reliable_cut_ : float
        The threshold of step 1: unlabelled rows with a lower score are reliable negatives.
    cut_ : float
        0, the log-odds above which a row is positive.
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic model of step 2. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The classifier of step 2, if `estimator` is given.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    Notes
    -----
    Liu et al. use naive Bayes in both steps, and EM in step 2. EM needs a model of the attributes in each class, such
    as naive Bayes. With logistic regression, the unlabelled rows agree with any current prediction, only the labelled
    rows pull, and the iterations drift towards all rows positive. Step 2 is therefore one fit here. `fit` has no
    `sample_weight`, because spies are whole rows. There is no `predict_proba`: the reliable negatives do not represent
    the negatives.

    References
    ----------
    Liu, Lee, Yu and Li, "Partially supervised classification of text documents", ICML 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.field import TwoStepClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2000) < 0.4
    >>> X = rng.normal(size=(2000, 2)) + 3 * y[:, None]
    >>> s = y & (rng.random(2000) < 0.3)
    >>> model = TwoStepClassifier(random_state=0).fit(X, s)
    >>> int(s.sum()), model.spies_.size
    (248, 37)
    >>> n_wrong = y[model.reliable_negatives_].sum()
    >>> print(f"{n_wrong} of {model.reliable_negatives_.size} reliable negatives are positive")
    36 of 1216 reliable negatives are positive
    >>> round(float(np.mean(model.predict(X) == y)), 2)
    0.98
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        reliable: str = "spies",
        spy_share: float = 0.15,
        noise: float = 0.05,
        negative_share: float = 0.3,
        C: float = 1.0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.reliable = reliable
        self.spy_share = spy_share
        self.noise = noise
        self.negative_share = negative_share

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Find reliable negatives, and fit the classifier of labelled rows against them.

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
        reliable = check_choice(self.reliable, "reliable", ("spies", "quantile"))
        check_share(self.spy_share, "spy_share")
        check_share(self.negative_share, "negative_share")
        if not 0 <= real_number(self.noise) < 1:
            raise ValueError(
                f"noise must be a number of at least 0 and below 1, the share of spies below the threshold; got "
                f"{shown(self.noise)}."
            )
        (table, s, _), rng = self._begin(X, y)
        spies = choose_spies(np.flatnonzero(s == 1), self.spy_share, rng) if reliable == "spies" else np.arange(0)
        found = self._find_negatives(table, s, spies, rng)
        rows = np.sort(np.concatenate([np.flatnonzero(s == 1), found.rows]))
        store_inner(self, self._fit_inner(take_rows(table, rows), s[rows], None, rng))
        self.spies_ = spies
        self.reliable_negatives_, self.reliable_cut_ = found
        self.cut_ = 0.0
        return self

    def _find_negatives(self, table: Any, s: Vector, spies: Columns, rng: np.random.Generator) -> "ReliableNegatives":
        """Return the reliable negatives, by the scores of a fit in which spies count as unlabelled."""
        hidden = s.copy()
        hidden[spies] = 0.0
        scores = self._fit_inner(table, hidden, None, rng).logits(table)
        unlabelled = np.flatnonzero(s == 0)
        if spies.size:
            cut = spy_threshold(scores[spies], float(self.noise))
            found = below_threshold(scores, unlabelled, cut)
            if found.rows.size:
                return found
            warn_user(
                f"{type(self).__name__}: no unlabelled row scores below the {spies.size} spies, so the spies find no "
                f"reliable negatives. The share negative_share={self.negative_share:g} of the unlabelled rows with the "
                "lowest scores is used. Use more labelled rows, a larger noise, or attributes that separate the "
                "classes better.",
                UserWarning,
            )
        return lowest_share(scores, unlabelled, float(self.negative_share))

    def _score_rows(self, table: Any) -> Vector:
        return self._inner.logits(table)


class ReliableNegatives(NamedTuple):
    """Row numbers of the reliable negatives, and the score below which an unlabelled row is one."""

    rows: Columns
    cut: float


def choose_spies(labelled: Columns, share: float, rng: np.random.Generator) -> Columns:
    """Return random labelled rows: the nearest whole number to `share` of them, at least 1, and not all."""
    if labelled.size < 2:
        raise ValueError(
            f"Spies need at least 2 labelled rows, one spy and one other; there is {labelled.size}. Use more labelled "
            "rows, or reliable='quantile'."
        )
    n_spies = min(max(1, round(share * labelled.size)), labelled.size - 1)
    return np.sort(rng.choice(labelled, n_spies, replace=False))


def spy_threshold(scores: Vector, noise: float) -> float:
    """Return the score of the spy with ``floor(noise * n)`` spies before it in sorted order, at most ``n - 1``.

    Examples
    --------
    >>> spy_threshold(np.array([3.0, 1.0, 2.0, 4.0]), 0.25)
    2.0
    """
    n_below = int(np.floor(noise * scores.size * (1.0 + 1e-12)))  # 0.29 * 100 is slightly below 29
    return float(np.sort(scores)[min(n_below, scores.size - 1)])


def below_threshold(scores: Vector, unlabelled: Columns, cut: float) -> ReliableNegatives:
    """Return the unlabelled rows with scores below the threshold."""
    return ReliableNegatives(unlabelled[scores[unlabelled] < cut], cut)


def lowest_share(scores: Vector, unlabelled: Columns, share: float) -> ReliableNegatives:
    """Return the share of unlabelled rows with the lowest scores, at least one; equal scores stay together."""
    ordered = np.sort(scores[unlabelled])
    last = ordered[max(1, round(share * ordered.size)) - 1]
    return below_threshold(scores, unlabelled, float(np.nextafter(last, np.inf)))
