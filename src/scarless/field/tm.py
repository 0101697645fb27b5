"""TM, the method of two models, and JERM: the propensity model is fitted to rows that look positive."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from scarless.checks.options import check_choice
from scarless.checks.tables import check_numeric
from scarless.field._base import FieldProbabilityClassifier
from scarless.field._two_models import (
    Alternation,
    Probabilities,
    alternate,
    check_alternation,
    seeded_learner,
    store_alternation,
    warn_if_stopped,
)
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.likelihood import posterior
from scarless.outside.notices import warn_user
from scarless.pair.learners import ConstantLearner, Learner, LogisticLearner
from scarless.pair.logistic import Training

#: If fewer unlabelled rows than this look more positive than the spies, the rows with the largest f are selected
#: instead. Evidence: the authors' program of JERM uses 10.
MIN_UNLABELLED_ROWS = 10
# A labelled row with propensity 0 is impossible. Trees can predict 0, so JERM's likelihood uses at least this value.
_MIN_PROPENSITY = 1e-6
_MEANING = (
    "The published method always runs 100 iterations and does not check convergence. Raise n_iter, or name the number "
    "of iterations in a comparison."
)
_ALTERNATES = (
    "The rows that look positive change back and forth, so more iterations need not help. Compare fits with n_iter and "
    "n_iter + 1: the difference between them is arbitrary."
)


class TMClassifier(FieldProbabilityClassifier):
    r"""TM, the method of two models, and JERM: rows that look positive take the place of the positives.

    **Assumption.** Unlabelled positives can be recognised by their class probability: the classes hardly overlap.
    Labelled rows and the unlabelled rows that look positive are then the positives, and their labels show the
    propensity. No propensity attributes need to be named.

    **Formula.** Let :math:`\sigma(x) = \Pr(s=1|x)` come from a classifier of the labels, and start with
    :math:`e = (1 + \sigma)/2`, the middle of its possible range :math:`[\sigma, 1]`. Each iteration

    1. fits :math:`f` to labelled rows with target 1, and to unlabelled rows with target

       .. math:: w = \Pr(y=1|x, s=0) = \frac{1-e}{e}\,\frac{\sigma}{1-\sigma};

    2. selects rows that look positive: the labelled rows, and unlabelled rows above a bound (`positives`);
    3. fits :math:`e` to the labels of the selected rows, sets :math:`e = \max(e, \sigma)`, so that :math:`w \le 1`,
       and :math:`\sigma = f e`.

    Step 1 is an iteration of EM. The last :math:`f` is fitted once more. JERM (``method="likelihood"``,
    ``positives="spies"``) maximises the likelihood of the observed labels,
    :math:`\sum_i s_i \log(f_i e_i) + (1-s_i) \log(1-f_i e_i)`, in step 1, with :math:`e` as it is, and has no
    maximum in step 3.

    **If the assumption fails.** If the classes overlap, negatives are among the selected rows. The propensity is then
    too small and the class prior too large. "spies" is more sensitive: if one spy is negative, nearly every row can be
    selected. "quantile" also has an error in the other direction, even if the classes do not overlap. It keeps all
    labelled rows, but leaves out unlabelled positives below the quantile, a share :math:`\bar s`. Under SCAR, with
    label frequency :math:`c`, the propensity becomes :math:`c / (1 - (1-c)\,\bar s)`, and the class prior is too
    small. If no unlabelled row is selected, the propensity is 1, `f` is a classifier of the labels, and there is a
    warning.

    Parameters
    ----------
    estimator, propensity_estimator : scikit-learn classifiers, optional
        Class model and propensity model, with ``sample_weight`` and ``predict_proba``; logistic regression by default.
    positives : {"quantile", "spies"}, default="quantile"
        Which unlabelled rows look positive. "quantile" (TM): `f` is above its quantile among the labelled rows, at the
        level of the share of labelled rows. "spies" (JERM): :math:`\Pr(y=1|x,s=0)` is above its smallest value among
        the spies, which are the nearest unlabelled neighbours of labelled rows. Distances depend on the units of the
        columns, so standardise them.
    method : {"weights", "likelihood"}, default="weights"
        How `f` is fitted: to targets (TM), or by the likelihood of the observed labels (JERM; logistic only).
    n_iter : int, default=100
        Number of iterations, as in the authors' programs. 0: one fit of `f` at :math:`e = (1+\sigma)/2`, which the
        authors call "TM simple".
    change_tol : float, default=1e-6
        Stop early if an iteration changes no class probability and no propensity by more than this.
    C, propensity_C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`, of each logistic model. The classifier of the
        labels has `C`. The authors' JERM has no penalty for `f`: ``C=numpy.inf``.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, Generator or None, default=None
        Seed of classifiers that have no seed of their own. The logistic models need none.

    Attributes
    ----------
    cut_ : float
        1/2: a row is positive if its class probability is above this.
    coef_, intercept_, propensity_coef_, propensity_intercept_ : arrays
        Logistic models, where no estimator is given.
    estimator_, propensity_estimator_ : fitted estimators
        Given classifiers. Trees, forests and LightGBM are fitted to the targets of `f` as regressors.
    selected_ : bool array of shape (n_rows,)
        Rows of the fit that the last propensity model was fitted to. Absent if `n_iter` is 0.
    class_prior_, label_frequency_ : float
        Mean class probability of the training rows, and share of positives that are labelled.
    log_likelihood_ : float
        Log-likelihood of the observed labels.
    n_iter_, converged_
        Number of iterations, and whether they ended because of `change_tol`.
    history_ : dict of arrays
        "log_likelihood" at the start and after each iteration. It can fall, because the rows of the propensity model
        change.
    classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    Notes
    -----
    Step 1 by weights and step 1 by the likelihood have the same fixed points, because both are zeros of the gradient of
    the likelihood at a given :math:`e`. Weights need many more iterations.

    The maximum of step 3 uses the values of earlier iterations, which exist for training rows only.
    `predict_propensity` returns the propensity model without it.

    Sample weights are not supported, because the quantile and the spies are defined by counts of rows.

    References
    ----------
    Furmanczyk, Mielniczuk, Rejchel and Teisseyre, "Double Logistic Regression Approach to Biased Positive-Unlabeled
    Data", ECAI 2023. Rejchel, Teisseyre and Mielniczuk, "Joint empirical risk minimization for instance-dependent
    positive-unlabeled data", Knowledge-Based Systems, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.field import TMClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2000) < 0.4
    >>> X = rng.normal(size=(2000, 3)) + 4.0 * y[:, None] * [1, 1, 0]
    >>> s = y & (rng.random(2000) < 1 / (1 + np.exp(-X[:, 2])))
    >>> jerm = TMClassifier(positives="spies", method="likelihood").fit(X, s)
    >>> quantile = TMClassifier(method="likelihood").fit(X, s)
    >>> print(f"{y.mean():.2f} true, {jerm.class_prior_:.2f} by spies, {quantile.class_prior_:.2f} by the quantile")
    0.41 true, 0.41 by spies, 0.34 by the quantile
    """

    def __init__(
        self,
        estimator: Any = None,
        propensity_estimator: Any = None,
        *,
        positives: str = "quantile",
        method: str = "weights",
        n_iter: int = 100,
        change_tol: float = 1e-6,
        C: float = 1.0,
        propensity_C: float = 1.0,
        pos_label: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.propensity_estimator = propensity_estimator
        self.positives = positives
        self.method = method
        self.n_iter = n_iter
        self.change_tol = change_tol
        self.propensity_C = propensity_C

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Fit both models in turn.

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
        check_alternation(self, least=0)
        positives = check_choice(self.positives, "positives", ("quantile", "spies"))
        method = check_choice(self.method, "method", ("weights", "likelihood"))
        if method == "likelihood" and self.estimator is not None:
            raise ValueError(
                "method='likelihood' (JERM) has a logistic class model: leave estimator out, or use method='weights'. "
                "propensity_estimator can be any classifier."
            )
        training, rng = self._begin(X, y)
        X, s, w = training
        naive = seeded_learner(self, "", rng, plain_labels=True)
        f = seeded_learner(self, "", rng)
        e = seeded_learner(self, "propensity_", rng, plain_labels=True)
        naive.fit(X, s, w)
        spies = nearest_unlabelled(X, s) if positives == "spies" else None
        found, turn = fit_two_models(
            training,
            naive.probability(X),
            f,
            e,
            spies,
            by_likelihood=method == "likelihood",
            n_iter=self.n_iter,
            tol=self.change_tol,
        )
        self._learned = f, turn.propensity or HalfwayLearner(naive)
        store_alternation(self, found, self._learned, training)
        if turn.selected is not None:
            self.selected_ = turn.selected
            warn_if_stopped(self, found, meaning=_ALTERNATES if turn.alternates else _MEANING)
            _warn_if_none_looks_positive(self, s)
        return self

    def _class_probability(self, table: Any) -> Vector:
        return self._learned[0].probability(table)

    def _propensity(self, table: Any) -> Vector:
        return self._learned[1].probability(table)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.positives == "spies":
            tags.input_tags.allow_nan = False  # distances to neighbours need every value
        return tags


# --- which rows look positive


def above_quantile(f: Vector, s: Vector) -> NDArray[np.bool_]:
    """Return the labelled rows, and the rows whose `f` is above its quantile among the labelled rows (TM's rule).

    The level of the quantile is the share of labelled rows. The published program calls it the label frequency, which
    it is not.

    Examples
    --------
    >>> f, s = np.array([0.9, 0.4, 0.8, 0.3, 0.7, 0.2]), np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    >>> above_quantile(f, s)  # the quantile of 0.4 and 0.9 at level 1/3 is 0.57
    array([ True,  True,  True, False,  True, False])
    """
    labelled = s == 1
    return np.asarray(labelled | (f > np.quantile(f[labelled], float(s.mean()))))


def above_spies(f: Vector, e: Vector, s: Vector, spies: NDArray[np.intp]) -> NDArray[np.bool_]:
    r"""Return the labelled rows, and the unlabelled rows that look more positive than the least of the spies (JERM).

    Rows are compared by :math:`\Pr(y=1|x,s=0)`. If fewer than `MIN_UNLABELLED_ROWS` rows are above the bound, and there
    are more unlabelled rows than that, those with the largest `f` are selected instead.

    Examples
    --------
    >>> f, s = np.array([0.9, 0.8, 0.6, 0.1]), np.array([1.0, 0.0, 0.0, 0.0])
    >>> above_spies(f, np.full(4, 0.5), s, np.array([2]))
    array([ True,  True, False, False])
    """
    q = posterior(f, e, np.zeros(s.size))
    labelled = s == 1
    chosen = ~labelled & (q > q[spies].min())
    unlabelled = np.flatnonzero(~labelled)
    if chosen.sum() < MIN_UNLABELLED_ROWS < unlabelled.size:
        chosen[:] = False
        chosen[unlabelled[np.argsort(-f[unlabelled], kind="stable")[:MIN_UNLABELLED_ROWS]]] = True
    return labelled | chosen


def nearest_unlabelled(X: Any, s: Vector) -> NDArray[np.intp]:
    """Return the spies: the nearest unlabelled row of each labelled row, by Euclidean distance.

    Examples
    --------
    >>> nearest_unlabelled(np.array([[0.0], [5.0], [1.0], [7.0]]), np.array([1.0, 0.0, 0.0, 1.0]))
    array([1, 2])
    """
    X = check_numeric(X)
    unlabelled = np.flatnonzero(s == 0)
    near = NearestNeighbors(n_neighbors=1).fit(X[unlabelled])
    return np.unique(unlabelled[near.kneighbors(X[s == 1], return_distance=False)[:, 0]])


# --- both models in turn


class Turn:
    """One iteration of TM or JERM: a fit of the class model, a selection of rows, and a fit of the propensity model."""

    def __init__(
        self, training: Training, naive: Vector, f: Learner, e: Learner, spies: NDArray[np.intp] | None
    ) -> None:
        self.training, self.f, self.e, self.spies = training, f, e, spies
        self.product = naive  # f e, the probability of a label
        self.propensity: Learner | None = None  # None after no iteration
        self.propensities = np.arange(0.0)  # of all rows, by this model
        self.selected: NDArray[np.bool_] | None = None
        self.earlier = list[bytes]()  # the selections of all iterations

    def by_weights(self, p_f: Vector, p_e: Vector) -> Probabilities:
        """Fit `f` to targets (TM)."""
        p_f = self.fit_class(p_f, p_e)
        p_e = np.maximum(self.fit_propensity(p_f, p_e), self.product)
        self.product = p_e * p_f
        return p_f, p_e

    def by_likelihood(self, p_f: Vector, p_e: Vector) -> Probabilities:
        """Fit `f` by the likelihood of the labels (JERM)."""
        p_f = self.fit_class_by_likelihood(p_e)
        return p_f, self.fit_propensity(p_f, p_e)

    def fit_class(self, p_f: Vector, p_e: Vector) -> Vector:
        """Fit the class model to its targets, and return its probabilities."""
        X, s, w = self.training
        self.f.fit(X, posterior(p_f, p_e, s), w)
        return self.f.probability(X)

    def fit_class_by_likelihood(self, p_e: Vector) -> Vector:
        """Fit the class model at given propensities, and return its probabilities."""
        X, s, w = self.training
        assert isinstance(self.f, LogisticLearner)
        self.f.fit_with_propensity(X, s, np.maximum(p_e, _MIN_PROPENSITY), w)
        return self.f.probability(X)

    def fit_propensity(self, p_f: Vector, p_e: Vector) -> Vector:
        """Fit the propensity model to the rows that look positive, and return the propensities of all rows."""
        X, s, w = self.training
        self.selected = above_quantile(p_f, s) if self.spies is None else above_spies(p_f, p_e, s, self.spies)
        self.earlier.append(np.packbits(self.selected).tobytes())
        if self.earlier[-2:-1] != self.earlier[-1:]:  # The same rows as before would give the same model.
            # The propensity is constant if all selected rows are labelled. Rows of weight 0 have no influence.
            self.propensity = self.e if (s[self.selected] == 0).any() else ConstantLearner()
            self.propensity.fit(X, s, w * self.selected)
            self.propensities = self.propensity.probability(X)
        return self.propensities

    @property
    def alternates(self) -> bool:
        """Whether the last selection is an earlier one, but not that of the iteration before."""
        earlier = self.earlier
        return len(earlier) > 2 and earlier[-1] != earlier[-2] and earlier[-1] in earlier[:-2]


def fit_two_models(
    training: Training,
    naive: Vector,
    f: Learner,
    e: Learner,
    spies: NDArray[np.intp] | None,
    *,
    by_likelihood: bool,
    n_iter: int,
    tol: float,
) -> tuple[Alternation, Turn]:
    r"""Fit a class model and a propensity model in turn, from the probabilities `naive` of a label.

    The targets of TM are the posteriors of EM: with :math:`\sigma = f e`, the formula of the paper is
    :math:`f(1-e)/(1-fe)`.
    """
    turn = Turn(training, naive, f, e, spies)
    halfway = (1.0 + naive) / 2.0
    step = turn.by_likelihood if by_likelihood else turn.by_weights
    found = alternate(training, (f, e), (naive / halfway, halfway), step, n_iter=n_iter, tol=tol)
    if not by_likelihood:
        found = found._replace(f=turn.fit_class(found.f, found.e))
    elif turn.selected is None:
        found = found._replace(f=turn.fit_class_by_likelihood(found.e))
    return found, turn


def _warn_if_none_looks_positive(model: TMClassifier, s: Vector) -> None:
    if (s[model.selected_] == 1).all():
        warn_user(
            f"{type(model).__name__}: no unlabelled row looks positive, so the propensity is 1 and the result is a "
            "classifier of the labels. If positives are unlabelled, use another method, or an estimator that "
            "overfits less.",
            UserWarning,
        )


class HalfwayLearner:
    r"""The first propensity of TM: :math:`(1 + \sigma)/2`, where :math:`\sigma` is the probability of a label."""

    def __init__(self, naive: Learner) -> None:
        self.model: Any = None
        self.naive = naive

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Fit the classifier of the labels."""
        self.naive.fit(X, t, w)

    def probability(self, X: Any) -> Vector:
        """Return the middle of the possible range of each propensity."""
        return (1.0 + self.naive.probability(X)) / 2.0
