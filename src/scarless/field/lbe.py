"""LBE: a class model and a propensity model, both of all attributes, fitted by a few steps of EM."""

from typing import Any, Self

import numpy as np

from scarless.checks.options import check_choice
from scarless.field._base import FieldProbabilityClassifier
from scarless.field._two_models import (
    Alternation,
    alternate,
    check_alternation,
    seeded_learner,
    store_alternation,
    warn_if_stopped,
)
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.likelihood import posterior
from scarless.pair.learners import Learner, balanced_weights, em_step
from scarless.pair.logistic import Training

_MEANING = (
    "The published method stops after 20 iterations, and its result depends on this number. Name it in a comparison, "
    "or raise n_iter. SAREMClassifier maximises the same likelihood and reports several optima."
)


class LBEClassifier(FieldProbabilityClassifier):
    r"""LBE, labelling bias estimation: a class model and a propensity model of all attributes, fitted by 20 EM steps.

    **Assumption.** A positive is labelled with a propensity :math:`e(x)` that may depend on every attribute. Both
    models have the right form, so that :math:`\Pr(s=1|x) = f(x)\,e(x)`.

    **Formula.** Each iteration computes the probability that a row is positive,

    .. math:: q = s + (1-s)\,\frac{f(1-e)}{1-fe},

    fits :math:`f` to the targets :math:`q`, and fits :math:`e` to the labels :math:`s` *with weights* :math:`q`. The
    weights are the point of the method: only positives inform the propensity. Public versions that fit :math:`e` with
    weight 1 on unlabelled rows estimate :math:`e = \Pr(s=1|x)` instead, and their :math:`f` then drifts to 1.

    **If the assumption fails.** If the form of one model is wrong, the other model makes up for it, and both are wrong.
    Even if both forms are right, exchanging `f` and `e` gives the same likelihood, so the labels cannot say which is
    which: the start and the number of iterations decide. 20 iterations are often far from convergence, and the class
    prior then depends on the start more than on the labels (see the example).

    Parameters
    ----------
    estimator, propensity_estimator : scikit-learn classifiers, optional
        Class model and propensity model, with ``sample_weight`` and ``predict_proba``; logistic regression by default.
        A flexible classifier reproduces its training labels, and then finds that every positive is labelled.
    n_iter : int, default=20
        Number of iterations, as in the authors' program.
    start : {"balanced", "sar-em"}, default="balanced"
        First models. "balanced": the authors' start; both models separate labelled from unlabelled rows, which have
        the same total weight. "sar-em": the start of SAR-EM, in which the weights of the propensity model are
        the first class probabilities.
    change_tol : float, default=1e-6
        Stop early if an iteration changes no class probability and no propensity by more than this.
    C, propensity_C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`, of each logistic model.
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
        Given classifiers. Trees, forests and LightGBM are fitted to the targets as regressors.
    class_prior_, label_frequency_ : float
        Mean class probability of the training rows, and share of positives that are labelled.
    log_likelihood_ : float
        Log-likelihood of the observed labels.
    n_iter_, converged_
        Number of iterations, and whether they ended because of `change_tol`.
    history_ : dict of arrays
        "log_likelihood" at the start and after each iteration.
    classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    See Also
    --------
    scarless.SAREMClassifier : The maximum of the same likelihood, with named propensity attributes.
    scarless.PublishedEMClassifier : The same EM steps with the start and the stopping rule of SAR-EM.

    Notes
    -----
    The authors' program fits two small networks by 40 steps of Adam after each computation of `q`, on a random tenth of
    the rows, and leaves out the fifth of the rows with the largest loss. This class fits each model exactly.

    References
    ----------
    Gong, Wang, Liu, Han, You, Yang and Tao, "Instance-Dependent Positive and Unlabeled Learning with Labeling Bias
    Estimation", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2022.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from scarless.field import LBEClassifier
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-3 * X[:, 0] - 1))
    >>> s = y & (rng.random(4000) < 1 / (1 + np.exp(-X[:, 2])))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # 20 iterations are not enough here, and a warning says so
    ...     model = LBEClassifier().fit(X, s)
    >>> longer = LBEClassifier(n_iter=2000).fit(X, s)
    >>> model.n_iter_, model.converged_, longer.converged_
    (20, False, True)
    >>> print(f"{y.mean():.2f} true, {model.class_prior_:.2f} after 20 steps, {longer.class_prior_:.2f} at the end")
    0.62 true, 0.50 after 20 steps, 0.63 at the end
    """

    def __init__(
        self,
        estimator: Any = None,
        propensity_estimator: Any = None,
        *,
        n_iter: int = 20,
        start: str = "balanced",
        change_tol: float = 1e-6,
        C: float = 1.0,
        propensity_C: float = 1.0,
        pos_label: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.propensity_estimator = propensity_estimator
        self.n_iter = n_iter
        self.start = start
        self.change_tol = change_tol
        self.propensity_C = propensity_C

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit both models in turn.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        self
        """
        check_alternation(self, least=1)
        start = check_choice(self.start, "start", ("balanced", "sar-em"))
        training, rng = self._begin(X, y, sample_weight)
        f, e = seeded_learner(self, "", rng), seeded_learner(self, "propensity_", rng)
        found = estimate_labelling_bias(training, f, e, start=start, n_iter=self.n_iter, tol=self.change_tol)
        self._learned = f, e
        store_alternation(self, found, self._learned, training)
        warn_if_stopped(self, found, meaning=_MEANING)
        return self

    def _class_probability(self, table: Any) -> Vector:
        return self._learned[0].probability(table)

    def _propensity(self, table: Any) -> Vector:
        return self._learned[1].probability(table)


def estimate_labelling_bias(
    training: Training, f: Learner, e: Learner, *, start: str, n_iter: int, tol: float
) -> Alternation:
    """Run the EM steps of LBE with two learners, which hold the models afterwards."""
    X, s, w = training
    f.fit(X, s, balanced_weights(s, w))
    p_f = f.probability(X)
    e.fit(X, s, balanced_weights(s, w) if start == "balanced" else w * np.where(s == 1, 1.0, p_f))

    def step(p_f: Vector, p_e: Vector) -> tuple[Vector, Vector]:
        em_step(X, X, posterior(p_f, p_e, s), s, w, f, e)
        return f.probability(X), e.probability(X)

    return alternate(training, (f, e), (p_f, e.probability(X)), step, n_iter=n_iter, tol=tol)
