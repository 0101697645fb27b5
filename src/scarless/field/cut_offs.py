r"""Methods that rank rows by the probability of a label, and differ in the cut-off only.

A classifier of labelled against unlabelled rows, the naive model, estimates :math:`\sigma(x) = \Pr(s=1|x)`. If the
propensity is a function of the class probability that does not decrease, both rank the rows alike. What is missing is a
cut-off. All methods here have the same ROC curve by construction.
"""

from bisect import bisect_right
from typing import Any, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, expit

from scarless.checks.options import check_choice, check_share, check_whole, real_number, shown
from scarless.field._base import FieldClassifier, FieldProbabilityClassifier, log_odds, store_inner
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.outside.notices import warn_user

CUTS = ("mutual-information", "prior", "median", "max-quarter")
#: Neighbours in the estimate of mutual information. Evidence: Teisseyre et al. (2025) use 3.
N_NEIGHBOURS = 3
_SCORE_ROUNDING = 1e-12  # relative difference of scores that are equal up to rounding errors


class ThresholdedNaiveClassifier(FieldClassifier):
    r"""Ranking by the probability of a label, cut at one of four published cut-offs.

    A classifier of labelled against unlabelled rows estimates :math:`\sigma(x) = \Pr(s=1|x) = f(x)\,e(x)`. The score of
    a row is its log-odds :math:`z(x) = \mathrm{logit}\,\sigma(x)`. A row is positive if :math:`z(x) > t`. The cut-off
    :math:`t` is one of these:

    - ``"mutual-information"`` (NTC-tMI): the cut-off with the largest mutual information between the score of an
      unlabelled row and the side of the cut-off that it is on, estimated from :math:`k=3` nearest neighbours,

      .. math:: \psi(n) + \psi(k) - \frac{n_0}{n}\psi(n_0) - \frac{n_1}{n}\psi(n_1) - \frac1n\sum_i\psi(r_i).

      Here :math:`n_0` and :math:`n_1` count the unlabelled rows on both sides, and :math:`r_i` counts the rows that are
      at most as far from row `i` as its `k`-th neighbour on its own side.
    - ``"prior"`` (the rule of PUSB): the share of training rows above the cut-off is the class prior, which must be
      given.
    - ``"median"``: half of the unlabelled training rows are above the cut-off.
    - ``"max-quarter"`` (the rule of PGlin): :math:`\sigma(x) > \frac14\max_i\sigma(x_i)`; see `PGlinClassifier`.

    **Assumption.** Rows that are more probably positive are more probably labelled, so that :math:`\sigma` ranks rows
    like :math:`f`. The cut-offs assume more: "mutual-information" and "median" that about half of the unlabelled rows
    are positive; "prior" that the class prior is right, and that errors are fewest with this share of positives;
    "max-quarter" that :math:`e = k f` and that some row is certainly positive.

    **If the assumption fails.** If labels favour rows that are less probably positive, the ranking is wrong, and no
    cut-off mends it. The mutual information of a score with its own side is almost the entropy of the two sides, which
    is largest at the median, even if the scores form two groups of other sizes. The share of unlabelled rows above the
    cut-off "mutual-information" is therefore about 1/2 for every class prior. With a perfect ranking and few labels,
    the balanced accuracy is then at most :math:`1/2 + 1/(4(1-\pi))` for a class prior :math:`\pi` below 1/2.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Classifier of labelled against unlabelled rows, with `predict_proba`; logistic regression by default. A
        classifier that memorises the labels has no useful scores of training rows, from which the cut-off comes.
    cut : {"mutual-information", "prior", "median", "max-quarter"}, default="mutual-information"
        The cut-off, see above.
    class_prior : float, optional
        Class prior :math:`\Pr(y=1)` of all rows, for ``cut="prior"`` only.
    n_cuts : int, default=100
        Number of cut-offs to try, for ``cut="mutual-information"`` only. They are equally spaced.
    C : float, default=1.0
        Inverse regularisation strength of the logistic regression.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for every `random_state` of the estimator that is None.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    cut_ : float
        The cut-off :math:`t`, as log-odds of a label.
    share_positive_ : float
        Share of the training rows, labelled and unlabelled, that are above the cut-off.
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic model. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The classifier, if `estimator` is given.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    Notes
    -----
    There is no `predict_proba`, because a ranking with a cut-off has no probabilities.

    References
    ----------
    Teisseyre, Martens, Bekker and Davis, "Learning from biased positive-unlabeled data via threshold calibration",
    AISTATS 2025. Kato, Teshima and Honda, "Learning from positive and unlabeled data with a selection bias", ICLR 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.field import ThresholdedNaiveClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(1 - 3 * X[:, 0]))
    >>> s = y & (rng.random(2000) < 0.2)
    >>> for cut in ("mutual-information", "median", "max-quarter"):
    ...     model = ThresholdedNaiveClassifier(cut=cut).fit(X, s)
    ...     print(f"{model.share_positive_:.2f} called positive by {cut}, {y.mean():.2f} are")
    0.53 called positive by mutual-information, 0.38 are
    0.54 called positive by median, 0.38 are
    0.18 called positive by max-quarter, 0.38 are
    >>> model = ThresholdedNaiveClassifier(cut="prior", class_prior=0.38).fit(X, s)
    >>> round(model.share_positive_, 2)
    0.38
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        cut: str = "mutual-information",
        class_prior: float | None = None,
        n_cuts: int = 100,
        C: float = 1.0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.cut = cut
        self.class_prior = class_prior
        self.n_cuts = n_cuts

    @property
    def knows(self) -> str:  # type: ignore[override]
        """What the method is told besides the rows: "prior" or "nothing"."""
        return "prior" if self.cut == "prior" else "nothing"

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier of labelled against unlabelled rows, and choose the cut-off.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default. A row of weight 2 is equivalent to two rows. For
            ``cut="mutual-information"``, whose neighbours are rows, the weights must be whole numbers.

        Returns
        -------
        self
        """
        cut = check_choice(self.cut, "cut", CUTS)
        check_whole(self.n_cuts, "n_cuts", at_least=2)
        prior = self._check_class_prior()
        (table, s, w), rng = self._begin(X, y, sample_weight)
        if prior is not None and prior < w @ s / w.sum():
            raise ValueError(
                f"class_prior={prior:g} is below the share of labelled rows, {w @ s / w.sum():.3g}, but all labelled "
                "rows are positive. Pass the class prior of all rows, labelled and unlabelled."
            )
        if cut == "mutual-information":
            refuse_fractions(w)
        inner = self._fit_inner(table, s, w, rng)
        z = inner.logits(table)
        t = self._choose(cut, z, s, w, prior)
        store_inner(self, inner)
        self.share_positive_ = float(w @ (z > t) / w.sum())
        self.cut_ = t
        return self

    def _check_class_prior(self) -> float | None:
        if self.cut == "prior":
            if self.class_prior is None:
                raise ValueError(
                    "class_prior must be given for cut='prior': the share of positives among all rows. If it is "
                    "unknown, estimate it, for example with scarless.KernelMean().fit(X, s).class_prior_, or use "
                    "another cut."
                )
            return check_share(self.class_prior, "class_prior")
        if self.class_prior is not None:
            raise ValueError(
                f"class_prior={shown(self.class_prior)} is used for cut='prior' only; cut is {shown(self.cut)}. Leave "
                "class_prior out, or set cut='prior'."
            )
        return None

    def _choose(self, cut: str, z: Vector, s: Vector, w: Vector, prior: float | None) -> float:
        """Return the cut-off from the scores of the training rows."""
        if prior is not None:
            return cut_at_share(z, w, prior)
        if cut == "max-quarter":
            return float(log_odds(np.asarray(expit(z[w > 0].max()) / 4.0)))
        z, w = z[s == 0], w[s == 0]
        if cut == "mutual-information":
            found = mutual_information_cut(np.repeat(z, w.astype(np.int64)), self.n_cuts)
            if found is not None:
                return found
            warn_user(
                f"{type(self).__name__}: no cut-off has enough unlabelled rows with different scores on both sides for "
                "an estimate of the mutual information. The median of the unlabelled rows is used. Use more rows, or "
                "a classifier whose scores differ more.",
                UserWarning,
            )
        return cut_at_share(z, w, 0.5)

    def _score_rows(self, table: Any) -> Vector:
        return self._inner.logits(table)


class PGlinClassifier(FieldProbabilityClassifier):
    r"""Class probability and propensity, if the propensity is proportional to the class probability (PGlin).

    **Assumption.** :math:`e(x) = k\,f(x)` for a constant :math:`k`, and :math:`f(x) = 1` for at least one training row.
    Then :math:`\sigma(x) = \Pr(s=1|x) = k\,f(x)^2`, and the largest :math:`\sigma`, called :math:`m`, equals :math:`k`.
    A classifier of labelled against unlabelled rows estimates :math:`\sigma`, and

    .. math:: f(x) = \min\bigl(1, \sqrt{\sigma(x)/m}\bigr), \qquad e(x) = \sqrt{\sigma(x)\,m}.

    A row is positive if :math:`f(x) > 1/2`, that is :math:`\sigma(x) > m/4`.

    **If the assumption fails.** If labels are selected completely at random, the result is :math:`\sqrt{f}` (if some
    row is certainly positive): too high for every row, and rows are called positive from :math:`f > 1/4`. If no row is
    certainly positive, all probabilities are too high, by the factor :math:`1/\max f`. The largest of many estimates
    also has the largest error, which makes all probabilities too low; a `quantile` below 1 is less sensitive to it.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Classifier of labelled against unlabelled rows, with `predict_proba`; logistic regression by default.
    quantile : float, default=1.0
        The constant :math:`m` is this quantile of :math:`\sigma` over the training rows; 1 is the maximum, as
        published.
    C : float, default=1.0
        Inverse regularisation strength of the logistic regression.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for every `random_state` of the estimator that is None.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    cut_ : float
        1/2, the class probability above which a row is positive.
    max_label_probability_ : float
        The constant :math:`m`.
    class_prior_ : float
        Mean class probability of the training rows.
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic model of the label. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The classifier of the label, if `estimator` is given.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    Notes
    -----
    New rows with :math:`\sigma > m` all have :math:`f = 1`, so `decision_function` has ties among them.

    References
    ----------
    Gerych, Hartvigsen, Buquicchio, Agu and Rundensteiner, "Recovering the propensity score from biased positive
    unlabeled data", AAAI 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from scarless.field import PGlinClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20000, 1))
    >>> f = 1 / (1 + np.exp(-4 * X[:, 0]))
    >>> s = rng.random(20000) < 0.5 * f**2  # e = 0.5 f
    >>> model = PGlinClassifier(DecisionTreeClassifier(min_samples_leaf=1000)).fit(X, s)
    >>> print(f"k = {model.max_label_probability_:.2f}, class prior {model.class_prior_:.2f}, true {f.mean():.2f}")
    k = 0.55, class prior 0.47, true 0.50

    The logistic model cannot follow :math:`k f^2`, which stays below `k`. It finds a larger `k`:

    >>> model = PGlinClassifier().fit(X, s)
    >>> print(f"k = {model.max_label_probability_:.2f}, class prior {model.class_prior_:.2f}")
    k = 0.98, class prior 0.40
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        quantile: float = 1.0,
        C: float = 1.0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.quantile = quantile

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier of labelled against unlabelled rows, and store the largest probability of a label.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default. A row of weight 2 is equivalent to two rows.

        Returns
        -------
        self
        """
        if not 0 < real_number(self.quantile) <= 1:
            raise ValueError(
                f"quantile must lie in (0, 1]; got {shown(self.quantile)}. 1 is the largest probability, 0.99 is less "
                "sensitive to a single row."
            )
        (table, s, w), rng = self._begin(X, y, sample_weight)
        inner = self._fit_inner(table, s, w, rng)
        sigma = inner.probability(table)
        largest = weighted_quantile(sigma, w, float(self.quantile))
        if not largest > 0:
            raise ValueError(
                f"The {self.quantile:g} quantile of the probability of a label is 0, so PGlin cannot divide by it. Use "
                "a larger quantile, or another estimator."
            )
        store_inner(self, inner)
        self.max_label_probability_ = largest
        self.class_prior_ = float(w @ np.minimum(1.0, np.sqrt(sigma / largest)) / w.sum())
        self.cut_ = 0.5
        return self

    def _class_probability(self, table: Any) -> Vector:
        return np.minimum(1.0, np.sqrt(self._inner.probability(table) / self.max_label_probability_))

    def _propensity(self, table: Any) -> Vector:
        return np.sqrt(self._inner.probability(table) * self.max_label_probability_)


# --- cut-offs as functions of scores


def cut_at_share(z: Vector, w: Vector, share: float) -> float:
    """Return the cut-off with the weighted share of rows above it that is nearest to `share`.

    Cut-offs are halfway between neighbouring scores. Rows whose scores are equal, or differ only by rounding errors,
    are on the same side. Of two cut-offs that are equally near, the higher one is taken.

    Examples
    --------
    >>> cut_at_share(np.array([1.0, 2.0, 4.0, 8.0]), np.ones(4), 0.25)
    6.0
    """
    order = np.argsort(z[w > 0], kind="stable")
    sorted_z, sorted_w = z[w > 0][order], w[w > 0][order]
    size = np.minimum(np.abs(sorted_z[1:]), np.abs(sorted_z[:-1]))
    first = np.append(0, 1 + np.flatnonzero(np.diff(sorted_z) > _SCORE_ROUNDING * (1.0 + size)))
    lowest, highest = sorted_z[first], sorted_z[np.append(first[1:], sorted_z.size) - 1]  # of rows with equal scores
    if first.size == 1:
        rounding = _SCORE_ROUNDING * (1.0 + abs(float(highest[0])))  # New rows with this score are on the same side.
        return float(highest[0]) + rounding if share <= 0.5 else float(lowest[0]) - rounding
    weight = np.add.reduceat(sorted_w, first)
    above = weight.sum() - np.cumsum(weight)[:-1]
    gap = np.abs(above / weight.sum() - share)
    best = int(np.flatnonzero(gap <= gap.min() + 1e-12)[-1])  # Shares that differ by rounding errors are equal.
    return float(0.5 * (highest[best] + lowest[best + 1]))


def weighted_quantile(values: Vector, w: Vector, level: float) -> float:
    """Return the smallest value with at least the share `level` of the weight at or below it.

    Examples
    --------
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0]), 0.5)
    1.0
    """
    order = np.argsort(values, kind="stable")
    order = order[w[order] > 0]
    reached = np.cumsum(w[order]) >= level * w.sum() * (1.0 - 1e-12)
    return float(values[order[int(np.argmax(reached))]])


def mutual_information_cut(z: Vector, n_cuts: int, k: int = N_NEIGHBOURS) -> float | None:
    """Return the cut-off with the largest mutual information of `n_cuts` equally spaced ones; None if there is none.

    With fewer than ``2 k + 2`` scores, `k` is reduced.
    """
    z = np.sort(z)
    k = min(k, z.size // 2 - 1)
    if k < 1:
        return None
    cuts = cuts_to_try(z, first_useful_cut(z.size, k), n_cuts)
    information = np.array([mutual_information(z, t, k) for t in cuts])
    return None if np.isnan(information).all() else float(cuts[np.nanargmax(information)])


def cuts_to_try(z: Vector, first: int, n_cuts: int) -> Vector:
    """Return equally spaced cut-offs between the sorted scores `first` and ``n - first``.

    The log-odds of the probabilities 0 and 1 are far from all others, and would stretch the range. They are left out of
    it. The lowest cut-off then separates the probability 0 from the others, and the highest the probability 1.
    """
    inside = z[first : z.size - first + 1]
    lowest, highest = log_odds(np.array([0.0, 1.0]))
    finite = inside[(inside != lowest) & (inside != highest)]  # A logistic model may have scores beyond both.
    spaced = np.linspace(finite[0], finite[-1], n_cuts) if finite.size else np.arange(0.0)
    return np.append(lowest, spaced) if (inside == lowest).any() else spaced


def mutual_information(z: Vector, t: float, k: int = N_NEIGHBOURS) -> float:
    r"""Estimate the mutual information of sorted scores and the side of the cut-off `t`, from `k` nearest neighbours.

    This is the estimate of Ross (2014) for a continuous and a discrete variable. Only the `k` rows on each side that
    are next to the cut-off can have neighbours on the other side: for all other rows :math:`r_i = k`. The result is
    NaN if a side has `k` rows or fewer.
    """
    n, below = z.size, int(np.searchsorted(z, t, side="right"))
    if min(below, n - below) <= k:
        return np.nan
    counts = [_neighbours(z, i, 0, below, k) for i in range(below - k, below)]
    counts += [_neighbours(z, i, below, n, k) for i in range(below, below + k)]
    mean = ((n - 2 * k) * digamma(k) + digamma(np.array(counts)).sum()) / n
    sides = (below * digamma(below) + (n - below) * digamma(n - below)) / n
    return float(digamma(n) + digamma(k) - sides - mean)


def _neighbours(z: Vector, i: int, first: int, end: int, k: int) -> int:
    """Count the rows that are at most as far from row `i` as its `k`-th neighbour among rows `first` to `end`."""
    near = z[max(first, i - k) : min(end, i + k + 1)]
    radius = np.sort(np.abs(near - z[i]))[k]  # The row itself is the nearest, at distance 0.
    after = bisect_right(range(i, z.size), radius, key=lambda j: z[j] - z[i])
    before = bisect_right(range(i + 1), radius, key=lambda j: z[i] - z[i - j])
    return after + before - 2  # Both counts include the row itself.


def first_useful_cut(n: int, k: int) -> int:
    r"""Return the index of the first sorted score at which a cut-off can be the best one.

    If a share `g` of `n` rows is below a cut-off, the mutual information is at most
    :math:`\psi(n) - g\psi(gn) - (1-g)\psi((1-g)n)`. With a cut-off at the median it is at least
    :math:`\psi(n) - \psi(n/2) + \frac{2k}{n}(\psi(k) - \psi(n/2+k))`. The index is :math:`gn`, where both are equal.
    """

    def surplus(g: float) -> float:
        largest = -g * digamma(g * n) - (1.0 - g) * digamma((1.0 - g) * n)
        return float(largest + digamma(n / 2) - 2.0 * k / n * (digamma(k) - digamma(n / 2 + k)))

    least = 1.0 / n  # below one row, the bound has no meaning
    if surplus(least) >= 0 or least >= 0.5:
        return 0
    return int(n * brentq(surplus, least, 0.5))


def refuse_fractions(w: Vector) -> None:
    """Raise if weights are not whole numbers, because nearest neighbours are whole rows."""
    bad = np.flatnonzero(w != np.floor(w))
    if bad.size:
        raise ValueError(
            "sample_weight must contain whole numbers for cut='mutual-information', because its nearest neighbours are "
            f"rows; sample_weight[{bad[0]}] = {w[bad[0]]:g}. Leave sample_weight out, or use cut='median'."
        )
