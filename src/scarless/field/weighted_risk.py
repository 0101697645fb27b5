r"""Methods that minimise an estimate of the supervised risk from labelled and unlabelled rows: uPU and PUe.

All rows are *one sample* of the population, and some of its positives are labelled (the single-training-set scenario).
With costs :math:`\delta_1(z)` and :math:`\delta_0(z) = \delta_1(-z)` of a positive and of a negative row, a class prior
:math:`\pi`, and weights :math:`w_i` of the labelled rows whose sum is 1, the risk is

.. math:: \pi\sum_{s_i=1} w_i\,\delta_1(z_i) + \frac1n\sum_i \delta_0(z_i) - \pi\sum_{s_i=1} w_i\,\delta_0(z_i).

The second mean is over *all* rows, because it must be a mean of the population. The papers assume two samples (case
control), in which the unlabelled rows alone are a sample of the population. In one sample the unlabelled rows have too
few positives. With their mean, and labels that are selected completely at random with label frequency :math:`c`, the
minimum would be at :math:`f\,\frac{1-c\pi}{1-cf}` instead of :math:`f`.

As a mean over rows, the risk is :math:`\frac1n\sum_i t_i\,\delta_1(z_i) + (1-t_i)\,\delta_0(z_i)` with the targets
:math:`t_i = n\pi w_i` for labelled rows and 0 for others. With the log loss and a logistic model this is the convex
problem of `PropensityWeightedClassifier` with the propensities :math:`1/t_i`.
"""

from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.special import log_expit

from scarless.checks.estimators import final_step, seeded_clone
from scarless.checks.options import check_positive, check_random_stream, check_share, shown
from scarless.checks.tables import check_numeric
from scarless.field._base import FieldProbabilityClassifier, fit_inner
from scarless.label_frequency.names import as_label_frequency_estimator, fit_label_frequency, narrow_tags
from scarless.models.messages import warn_unless_converged
from scarless.models.propensity_weighted import implied_prior, negative_weight_problem, warn_if_few_effective
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.outside.notices import warn_user
from scarless.pair.learners import CopiesLearner, Learner, LogisticLearner, as_learner, check_weighted_classifier
from scarless.pair.logistic import Training, engine_of

#: Estimator of the class prior if none is given. Evidence: Teisseyre et al. (2025) use KM2 for PUe and PUSB.
DEFAULT_PRIOR_ESTIMATOR = "km2"


class UPUClassifier(FieldProbabilityClassifier):
    r"""Unbiased risk with the log loss, if labels are selected completely at random (convex uPU).

    **Assumption.** Labels are selected completely at random (SCAR), and the class prior :math:`\pi` is right. All rows
    are one sample of the population.

    **Formula.** The risk, with the mean over *all* rows in the middle, is

    .. math:: \pi\,\overline{\delta_1(z)}^{\,P} + \overline{\delta_0(z)} - \pi\,\overline{\delta_0(z)}^{\,P},
        \qquad \delta_1(z) = \log(1 + e^{-z}), \quad \delta_0(z) = \log(1 + e^z),

    where `P` marks means over the labelled rows. It is the risk of `PropensityWeightedClassifier` with the constant
    propensity :math:`c = \Pr(s=1)/\pi`. For the logistic model it is convex, and the mean class probability of the
    training rows equals :math:`\pi`. With one binary attribute, the minimum is at :math:`f(x) = \Pr(s=1|x)/c`.

    **If the assumption fails.** Under biased labels the positives that are labelled more often count too much, and the
    ranking is close to the ranking by :math:`\Pr(s=1|x)`. A wrong class prior moves all probabilities up or down. A
    flexible `estimator` can make the risk negative without limit: it learns that exactly the labelled rows are
    positive. See `NNPUBoostingClassifier`.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Class model; logistic regression by default. Trees, forests and LightGBM are fitted to :math:`s/c` as
        regressors. Other classifiers must support negative weights, which a trial fit checks.
    class_prior : float, str or estimator, optional
        Class prior :math:`\pi = \Pr(y=1)` of all rows, or its estimator: "tice", "km1", "km2", "elkan-noto", "dedpul",
        "best-bin", or an object such as those of `scarless.label_frequency`. None means "km2".
    C : float, default=1.0
        Inverse regularisation strength of the logistic regression.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for every `random_state` of the estimator that is None.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    cut_ : float
        1/2: a row is positive if its class probability is above this.
    class_prior_, label_frequency_ : float
        The class prior of the risk, given or estimated, and the share of positives that are labelled.
    class_prior_estimator_ : fitted estimator
        The estimator of the class prior. Absent if `class_prior` is a number.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic model. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The class model, if `estimator` is given.
    classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    See Also
    --------
    scarless.SCARClassifier : The same fit, for a label frequency, with standard errors and several methods.

    References
    ----------
    du Plessis, Niu and Sugiyama, "Convex formulation for learning from positive and unlabeled data", ICML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.field import UPUClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(1 - 3 * X[:, 0]))
    >>> s = y & (rng.random(4000) < 0.3)
    >>> model = UPUClassifier(class_prior=0.38).fit(X, s)
    >>> model.knows, UPUClassifier().knows
    ('prior', 'nothing')
    >>> print(f"{y.mean():.2f} positive, mean probability {model.predict_proba(X)[:, 1].mean():.2f}")
    0.39 positive, mean probability 0.38
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        class_prior: Any = None,
        C: float = 1.0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.class_prior = class_prior

    @property
    def knows(self) -> str:  # type: ignore[override]
        """What the method is told besides the rows: "prior" or "nothing"."""
        return told(self.class_prior)

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the class prior if it is not given, and minimise the risk.

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
        given = check_class_prior(self.class_prior)
        check_positive(self.C, "C")
        training = self._read(X, y, sample_weight)
        prior = find_class_prior(self, given, training, weighted=sample_weight is not None)
        targets = risk_targets(training, np.zeros(training.s.size), prior)
        fit_risk(self, training, targets, check_random_stream(self.random_state))
        self.cut_ = 0.5
        return self

    def _propensity(self, table: Any) -> Vector:
        """Return the label frequency, the same for all rows."""
        return np.full(table.shape[0], self.label_frequency_)

    def _class_probability(self, table: Any) -> Vector:
        return np.asarray(self._learner.probability(table))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        narrow_tags(tags, used_estimator(self.class_prior))
        return tags


class PUeClassifier(FieldProbabilityClassifier):
    r"""Unbiased risk with labelled rows weighted by the inverse probability of a label (PUe), as two convex fits.

    **Assumption.** The probability of a label :math:`\sigma(x) = \Pr(s=1|x) = f(x)\,e(x)` is proportional to the
    propensity :math:`e(x)` among the labelled rows. This holds if the classes do not overlap: then :math:`f = 1`, and
    :math:`\sigma = e`, for every labelled row. The class prior :math:`\pi` is right. All rows are one sample.

    **Formula.** A classifier of labelled against unlabelled rows estimates :math:`\sigma`. The labelled rows get the
    weights :math:`w_i = \sigma_i^{-1} / \sum_{s_j=1}\sigma_j^{-1}`, whose sum is 1, and the class model minimises

    .. math:: \pi\sum_{s_i=1} w_i\,\delta_1(z_i) + \frac1n\sum_i \delta_0(z_i) - \pi\sum_{s_i=1} w_i\,\delta_0(z_i)

    with the log loss. For logistic models both problems are convex, and this class solves them exactly. The second is
    `PropensityWeightedClassifier` with the propensities :math:`1/(n\pi w_i)`.

    **If the assumption fails.** If classes overlap, :math:`\sigma = fe` is small where `f` is small, even if all
    positives are labelled alike. The weights then undo the class model as well as the labelling: the expectation of
    :math:`\frac{s}{\sigma}g(x)` is the mean of :math:`g` over *all* rows, not over positives. The better :math:`\sigma`
    is estimated, the closer all class probabilities are to :math:`\pi`: with a right model of :math:`\sigma` they
    are equal to it, and the ranking is noise. The mean of :math:`s/\sigma` shows this. It is an estimate of the class
    prior if the assumption holds, and 1 if the weights undo everything. The fit warns if it is nearer to 1 than to the
    class prior. A small `propensity_C` makes all weights equal, which is `UPUClassifier`.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Class model; logistic regression by default, as in `UPUClassifier`.
    propensity_estimator : scikit-learn classifier, optional
        Classifier of labelled against unlabelled rows, with `predict_proba`; logistic regression by default.
    class_prior : float, str or estimator, optional
        Class prior :math:`\Pr(y=1)` of all rows, or its estimator, as in `UPUClassifier`. None means "km2", which
        assumes SCAR.
    C, propensity_C : float, default=1.0
        Inverse regularisation strength of each logistic regression.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for every `random_state` of the estimators that is None.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    cut_ : float
        1/2: a row is positive if its class probability is above this.
    class_prior_, label_frequency_ : float
        The class prior of the risk, given or estimated, and the share of positives that are labelled.
    implied_class_prior_ : float
        Mean of :math:`s/\sigma` over the training rows; see above.
    class_prior_estimator_ : fitted estimator
        The estimator of the class prior. Absent if `class_prior` is a number.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic class model. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The class model, if `estimator` is given.
    classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    Notes
    -----
    The paper adds the penalty :math:`\alpha\,|\sum_i\sigma_i - n_P|` to the loss of the classifier of labels, with
    :math:`\alpha = 15` and :math:`n_P` labelled rows. It has no effect here, so there is no such parameter. A logistic
    model with an intercept that is not penalised has :math:`\sum_i\sigma_i = n_P` at its optimum, where the penalty is
    therefore 0 for every :math:`\alpha`. A common factor of all :math:`\sigma` also cancels in the weights.

    The numbers that Teisseyre et al. (2025) print for PUe are of a network after 20 steps of its optimiser.

    References
    ----------
    Wang, Chen, Guo and Wang, "PUe: Biased positive-unlabeled learning enhancement by causal inference", NeurIPS 2023.

    Examples
    --------
    Classes that do not overlap, with labels that favour one kind of positives:

    >>> import warnings
    >>> import numpy as np
    >>> from scarless.field import PUeClassifier, UPUClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = X.sum(axis=1) > 0.5
    >>> s = y & (rng.random(4000) < np.where(X[:, 1] > 0, 0.8, 0.2))
    >>> for model in (UPUClassifier(class_prior=y.mean()), PUeClassifier(class_prior=y.mean())):
    ...     print(f"accuracy {(model.fit(X, s).predict(X) == y).mean():.2f}")
    accuracy 0.92
    accuracy 0.97

    Classes that overlap, with labels that are selected completely at random. The class probabilities of PUe are all
    near the class prior, 0.3:

    >>> f = 1 / (1 + np.exp(1 - X[:, 0]))
    >>> s = (rng.random(4000) < f) & (rng.random(4000) < 0.3)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # a warning says so
    ...     p = PUeClassifier(class_prior=f.mean()).fit(X, s).predict_proba(X)[:, 1]
    >>> print(f"{p.min():.2f} to {p.max():.2f}, true {f.min():.2f} to {f.max():.2f}")
    0.26 to 0.34, true 0.01 to 0.89
    """

    def __init__(
        self,
        estimator: Any = None,
        propensity_estimator: Any = None,
        *,
        class_prior: Any = None,
        C: float = 1.0,
        propensity_C: float = 1.0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        super().__init__(estimator, C=C, random_state=random_state, pos_label=pos_label)
        self.propensity_estimator = propensity_estimator
        self.class_prior = class_prior
        self.propensity_C = propensity_C

    @property
    def knows(self) -> str:  # type: ignore[override]
        """What the method is told besides the rows: "prior" or "nothing"."""
        return told(self.class_prior)

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier of labels, weight the labelled rows, and minimise the risk.

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
        given = check_class_prior(self.class_prior)
        check_positive(self.C, "C")
        check_positive(self.propensity_C, "propensity_C")
        if self.propensity_estimator is not None:
            check_weighted_classifier(self.propensity_estimator, "propensity_estimator")
        training = self._read(X, y, sample_weight)
        prior = find_class_prior(self, given, training, weighted=sample_weight is not None)
        rng, (table, s, w) = check_random_stream(self.random_state), training
        self._naive = fit_inner(
            self.propensity_estimator, table, s, w, rng, C=self.propensity_C, name=type(self).__name__
        )
        log_label = self._log_label_probability(table)
        targets = risk_targets(training, log_label, prior)
        fit_risk(self, training, targets, rng)
        self._warn(training, log_label, targets)
        self.cut_ = 0.5
        return self

    def _warn(self, training: Training, log_label: Vector, targets: Vector) -> None:
        """Compare the mean of s/sigma with the class prior; count the labelled rows that have most of the weight."""
        _, s, w = training
        labelled = (w > 0) & (s == 1)
        with np.errstate(over="ignore"):
            self.implied_class_prior_ = float(w[labelled] @ np.exp(-log_label[labelled]) / w.sum())
        if self.implied_class_prior_ > 0.5 * (1.0 + self.class_prior_):
            warn_user(
                f"{type(self).__name__}: the mean of s/sigma is {self.implied_class_prior_:.2f}, where sigma is the "
                f"estimated probability of a label. It should be near the class prior, {self.class_prior_:.2f}, and is "
                "nearer to 1. The classes overlap, so the weights make the labelled rows similar to all rows instead "
                "of to the positives, and the ranking is unreliable. Use another method, such as SAREMClassifier or "
                "UPUClassifier.",
                UserWarning,
            )
        e = 1.0 / np.where(labelled, targets, 1.0)
        weighted = implied_prior(engine_of(np.empty((s.size, 0)), s=s * labelled, e=e, w=w))
        warn_if_few_effective(weighted, type(self).__name__, remedy="Lower propensity_C, which makes weights equal.")

    def _propensity(self, table: Any) -> Vector:
        """Return the probability of a label, scaled to the class prior, at most 1."""
        log_label = self._log_label_probability(table)
        return np.minimum(1.0, self.implied_class_prior_ / self.class_prior_ * np.exp(log_label))

    def _log_label_probability(self, table: Any) -> Vector:
        """Return the logarithm of the probability of a label; the logistic model needs a table of numbers."""
        logistic = isinstance(self._naive.model, LogisticLearner)
        return np.asarray(log_expit(self._naive.logits(check_numeric(table) if logistic else table)))

    def _class_probability(self, table: Any) -> Vector:
        return np.asarray(self._learner.probability(table))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        narrow_tags(tags, used_estimator(self.class_prior))
        return tags


# --- the class prior


def told(class_prior: Any) -> str:
    """Return what a class prior tells a method: "prior" if it is a number, "nothing" if it is estimated."""
    return "prior" if isinstance(class_prior, Real) else "nothing"


def used_estimator(class_prior: Any) -> Any:
    """Return the name or the estimator of the class prior; a number is returned unchanged."""
    return DEFAULT_PRIOR_ESTIMATOR if class_prior is None else class_prior


def check_class_prior(value: Any) -> Any:
    """Return the class prior as a number, or the unfitted estimator that will estimate it."""
    if isinstance(value, Real):
        return check_share(value, "class_prior")
    if value is None or isinstance(value, str) or hasattr(value, "fit"):
        return as_label_frequency_estimator(used_estimator(value), "class_prior")
    raise ValueError(
        "class_prior must be a number between 0 and 1, the name of an estimator, such as 'km2', or an estimator of "
        f"scarless.label_frequency; got {shown(value)}."
    )


def find_class_prior(model: Any, given: Any, training: Training, *, weighted: bool) -> float:
    """Return the class prior of all rows, given or estimated; store it with the label frequency that it implies."""
    table, s, w = training
    share = float(w @ s / w.sum())
    if isinstance(given, float):
        if given < share:
            raise ValueError(
                f"class_prior={given:g} is below the share of labelled rows, {share:.3g}, but all labelled rows are "
                "positive. Pass the class prior of all rows, labelled and unlabelled."
            )
        prior = given
    else:
        prior = share / fit_label_frequency(given, table, s, w if weighted else None, name="class_prior")
        model.class_prior_estimator_ = given
    model.class_prior_, model.label_frequency_ = prior, share / prior
    return prior


# --- the risk


def risk_targets(training: Training, log_label: Vector, prior: float) -> Vector:
    r"""Return the targets :math:`t` of the risk: 0 for unlabelled rows; for labelled rows :math:`n\pi` times a weight.

    The weights are proportional to :math:`1/\sigma`, where `log_label` is :math:`\log\sigma`, and add up to 1. The mean
    of the targets over all rows is the class prior. Row weights count rows.

    Examples
    --------
    >>> rows = Training(np.empty((4, 0)), np.array([1.0, 1.0, 0.0, 0.0]), np.ones(4))
    >>> risk_targets(rows, np.log([0.2, 0.6, 0.5, 0.5]), prior=0.6)
    array([1.8, 0.6, 0. , 0. ])
    """
    _, s, w = training
    labelled = (s == 1) & (w > 0)
    inverse = np.zeros(s.size)
    inverse[labelled] = np.exp(log_label[labelled].min() - log_label[labelled])  # at most 1, so no sum overflows
    return np.asarray(inverse * (w.sum() * prior / (w @ inverse)))


def fit_risk(model: Any, training: Training, targets: Vector, rng: np.random.Generator) -> None:
    """Fit the class model to the targets, and store it."""
    table, _, w = training
    estimator = None if model.estimator is None else seeded_clone(model.estimator, rng)
    learner: Learner = as_learner(estimator, name="estimator", C=model.C)
    if isinstance(learner, CopiesLearner) and (targets > 1.0).any():
        trouble = negative_weight_problem(final_step(learner.model))
        if trouble is not None:
            raise ValueError(
                f"estimator: the unbiased risk needs negative row weights, and {type(final_step(estimator)).__name__} "
                f"does not support them: {trouble}. Use estimator=None (logistic, exact), or a classifier that "
                "supports them, such as RandomForestClassifier or HistGradientBoostingClassifier."
            )
    learner.fit(table, targets, w)
    model._learner = learner
    if isinstance(learner, LogisticLearner):
        assert learner.beta is not None
        assert learner.solution is not None
        model.coef_, model.intercept_ = learner.beta[None, :-1].copy(), learner.beta[-1:].copy()
        warn_unless_converged(learner.solution, type(model).__name__, total_weight=float(w.sum()), tol=learner.tol)
    else:
        model.estimator_ = learner.model
