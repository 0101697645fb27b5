"""Learning with propensities that are known."""

import warnings
from numbers import Real
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import final_step, fit_weighted
from scarless.checks.options import check_choice, check_jobs, check_propensity, shown
from scarless.checks.rows import LabelledRows, count_rows, named_values, row_totals, warn_about_row_order
from scarless.checks.tables import check_foreign_table, refuse_unread
from scarless.engines import Engine, Rows, attach
from scarless.engines.base import known_rows
from scarless.models.base import (
    PUClassifier,
    as_given,
    check_solver_options,
    need_labels,
)
from scarless.models.messages import warn_unless_converged
from scarless.numerics.arrays import Array, ArrayLike, Vector, at_least, at_most
from scarless.outside.notices import warn_user
from scarless.pair.crossed import CrossedKnown, CrossOptions, counted, cross_fit_known, model_of, warn_unless_settled
from scarless.pair.folds import check_folds, refuse_odd_cv
from scarless.pair.learners import (
    CopiesLearner,
    Learner,
    TreeLearner,
    as_learner,
    check_weighted_classifier,
    em_known_propensity,
)
from scarless.pair.logistic import (
    Training,
    all_columns,
    engine_of,
    fit_known_propensity,
    fit_targets,
    labelled_rows,
    with_probability,
)

BY_LIKELIHOOD = "Use method='likelihood', which a small propensity costs far less."
_LARGEST_PRIOR = 0.999  # to which an implied class prior of 1 or more is lowered
# Parameters that suit the user's table may forbid any split of the few rows and columns of a trial fit.
_FREE: dict[str, Any] = {"min_samples_leaf": 1, "min_samples_split": 2, "monotonic_cst": None}


def possible_shares(s: Vector, e: Vector, w: Vector, learner: Learner | None = None) -> Vector:
    """Return ``s/e`` of rows in memory, scaled down where it would mean more positives than rows.

    Trees by regression have a minimum whatever their targets, so their shares are left alone.
    """
    if isinstance(learner, TreeLearner):
        return shares(s, e)
    return shares(s, e) * _possible_part(engine_of(np.empty((s.size, 0)), s=s, e=e, w=w))


def with_shares(engine: Engine) -> Engine:
    """Return rows whose targets ``t`` are ``s/e``, scaled down where that would mean more positives than rows."""
    return engine.derive(_targets, _possible_part(engine), keep=True)


def _targets(X: Any, rows: Rows, part: float) -> dict[str, Any]:
    return {"t": shares(rows["s"], rows["e"]) * part}


def _possible_part(engine: Engine) -> float:
    """Return by what shares are to be multiplied.

    The propensity-weighted log loss of a model with a free intercept has a minimum only while the weighted mean
    of ``s/e``, its estimate of the class prior, is below 1. (With a penalty on all other coefficients that is also
    enough.)
    """
    prior = implied_prior(engine).mean
    if prior < 1.0:
        return 1.0
    warn_user(
        f"The propensities imply a class prior of {prior:.3f}, the mean of s/e: more positives than rows, and the risk "
        "has no minimum. The weights are scaled down to just below 1; nearly all rows will be called positive. "
        "Check the propensities, or use SAREMClassifier to estimate them. method='likelihood' helps only if this is "
        "chance: with propensities that are too low it calls nearly all rows positive too.",
        ConvergenceWarning,
    )
    return _LARGEST_PRIOR / prior


def refuse_unless_negative_weights(learner: Learner) -> None:
    """Raise if the learner works by copies and a trial fit shows that its estimator misreads negative weights."""
    if not isinstance(learner, CopiesLearner):
        return
    estimator = final_step(learner.model)
    trouble = negative_weight_trouble(estimator)
    if trouble is not None:
        raise ValueError(
            f"The propensity-weighted risk needs negative row weights, and {type(estimator).__name__} does not honour "
            f"them: {trouble}. Use estimator=None (logistic, exact), method='likelihood' (any estimator), or one that "
            "does: LogisticRegression(solver='lbfgs'), DecisionTreeClassifier, RandomForestClassifier, "
            "HistGradientBoostingClassifier, naive Bayes, LGBMClassifier."
        )


def negative_weight_trouble(estimator: Any) -> str | None:
    """Find out by three small fits whether negative row weights do what they should; return what is wrong.

    Two places with 600 positives and 600 negatives each; at one of them 500 negatives are taken back by weights
    of -1, at the other 500 positives. An honest learner predicts the same as from the 600 and 100 that are left
    over. One that drops rows of negative weight sees 600 against 600 instead.
    """
    place, y, weight = _probe_rows()
    X = np.column_stack([place, 1 - place]).astype(np.float64)
    kept = weight > 0
    left_over = np.where(place == y, 1.0, 1.0 / 6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            signed = _probe(estimator, X, y, weight)
        except (ValueError, TypeError, ArithmeticError) as error:
            return f"it refuses them ({str(error).splitlines()[0]})"
        honest = _probe(estimator, X[kept], y[kept], left_over[kept])
        dropped = _probe(estimator, X[kept], y[kept], weight[kept])
    if np.abs(signed - honest).max() < 0.25 * np.abs(dropped - honest).max():  # False for NaN
        return None
    return "a trial fit came out wrong, as if it dropped or misread rows of negative weight"


def _probe_rows() -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    counts = [600, 600, 500, 600, 600, 500]
    place = np.repeat([0, 0, 0, 1, 1, 1], counts)
    y = np.repeat([0, 1, 1, 1, 0, 0], counts)
    weight = np.repeat([1.0, 1.0, -1.0, 1.0, 1.0, -1.0], counts)
    return place, y, weight


def _probe(estimator: Any, X: Any, y: Array, weight: Vector) -> Vector:
    model = clone(estimator)
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in _FREE.items() if name in known})
    fit_weighted(model, X, y, weight)
    return np.asarray(model.predict_proba(np.array([[0.0, 1.0], [1.0, 0.0]])))[:, 1]


# Effective labelled rows below which the propensity-weighted risk is not to be trusted: with 8 to 26 its ranking was
# below the naive model's in 8 of 8 runs, by up to .13 in AUC; with 64 to 77 by .02 at most; with 270 in none of 8.
MIN_EFFECTIVE_ROWS = 50
_SMALLEST = 1e-290  # propensity whose inverse can be summed
_SQUARED = 1e50  # share whose square can be summed
_MARGIN, _ERRORS = 0.1, 3.0  # by which two class priors must differ, also in standard errors, to be told of
_NEARLY_ALL, _MOSTLY = 0.95, 0.6  # rows that are positive, though not even so many are labelled

ADVICE = {
    "memorised": (
        "Estimators that memorise labels, as fully grown trees do, or that weight classes come out so; so do wrong "
        "propensities. Limit max_depth or raise min_samples_leaf, leave class_weight out, or use "
        "PropensityWeightedClassifier(estimator, method='likelihood'), which judges rows by models that have not seen "
        "them (cv=5)."
    ),
    "crossed": (
        "It is cross-fitted, so that labels learned by heart do not explain this. Check the propensities; if they are "
        "right, use an estimator that fits the labels better."
    ),
    "logistic": (
        "The propensities are wrong, the class is not logistic in the columns of X, or one of these gives the label "
        "away. Check both."
    ),
}


class ImpliedPrior(NamedTuple):
    r"""The weighted mean of :math:`s/e`, unbiased for the class prior where the propensities are right."""

    mean: float
    error: float  # standard error, with a weight as so many rows
    labelled: float  # labelled rows
    effective: float  # rows of equal weight that would tell as much as these with weights of s/e

    @property
    def possible(self) -> float:
        """The mean, or 1 where it means more positives than rows."""
        return min(self.mean, 1.0)


def shares(s: Vector, e: Vector) -> Vector:
    """Return ``s/e``; an estimated `e` may be 0 where there are no labels."""
    return s / at_least(e, _SMALLEST)


def implied_prior(engine: Engine) -> ImpliedPrior:
    """Return the class prior by propensities and labels alone. Rows: ``s``, ``e``, ``w``."""
    totals = row_totals(engine)
    weight = totals.weight
    mean, near = (float(each) for each in engine.total(_block_shares, weight))
    variance = float(engine.total(_block_variance, weight, near)[0])
    squares = variance + near**2
    effective = weight * near**2 / squares if squares > 0 else 0.0
    return ImpliedPrior(mean, float(np.sqrt(variance / weight)), float(totals.labelled), effective)


def _block_shares(X: Any, rows: Rows, weight: float) -> tuple[Any, Any]:
    share, part = shares(rows["s"], rows["e"]), rows["w"] / weight
    return part @ share, part @ at_most(share, _SQUARED)


def _block_variance(X: Any, rows: Rows, weight: float, mean: float) -> tuple[Any]:
    near = at_most(shares(rows["s"], rows["e"]), _SQUARED)
    return (rows["w"] / weight @ (near - mean) ** 2,)


def warn_about_prior(found: float, implied: ImpliedPrior, labelled_share: float, name: str, *, model: str) -> None:
    """Warn where a fit finds another class prior than the propensities imply, or these imply what cannot be."""
    excess = implied.mean - 1.0
    if excess > _ERRORS * implied.error or (excess > 0 and found > _NEARLY_ALL and labelled_share < _MOSTLY):
        warn_user(
            f"{name}: the propensities imply a class prior of {implied.mean:.3f}, the mean of s/e (standard error "
            f"{implied.error:.3f}): more positives than rows. They are too low for these labels, and the class prior "
            f"that was found with them, {found:.3f}, is too high. Check the propensities, or use SAREMClassifier to "
            "estimate them.",
            UserWarning,
        )
    elif abs(found - implied.possible) > max(_MARGIN, _ERRORS * implied.error):
        warn_user(
            f"{name}: the mean probability that its classifier gives the training rows is {found:.3f}, which is then "
            f"the class prior; the propensities imply {implied.possible:.3f}, the mean of s/e (standard error "
            f"{implied.error:.3f}). {ADVICE[model]}",
            UserWarning,
        )


def warn_about_few_effective(implied: ImpliedPrior, name: str, *, remedy: str) -> None:
    """Warn where a few labelled rows with small propensities decide a propensity-weighted risk."""
    if implied.effective < MIN_EFFECTIVE_ROWS and implied.effective < implied.labelled / 2:
        warn_user(
            f"{name}: small propensities give a few labelled rows most of the weight. The {implied.labelled:g} "
            f"labelled rows tell as much as {implied.effective:.0f} of equal weight; with fewer than "
            f"{MIN_EFFECTIVE_ROWS} class prior and ranking depend on chance. {remedy}",
            UserWarning,
        )


class CrossedLearner:
    """A cross-fitted classifier as a learner that is fitted already."""

    def __init__(self, crossed: CrossedKnown) -> None:
        self.crossed = crossed
        self.model: Any = None

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Stay as it is."""

    def probability(self, X: Any) -> Vector:
        """Return the fitted probabilities."""
        return np.asarray(expit(self.crossed.logits(X)))


# The fit that all classifiers with a given propensity share, and what it stores in them.


def read_for_known(model: Any, X: Any, y: Any, sample_weight: Any) -> LabelledRows | Training:
    """Check what a fit gets: rows in memory for an estimator of the user's, else those of an engine."""
    if model.estimator is None:
        return cast(LabelledRows, model._check_rows(X, y, sample_weight))
    check_weighted_classifier(model.estimator, "estimator")
    return cast(Training, model._check_training(X, y, sample_weight))


def fit_known(
    model: Any, read: LabelledRows | Training, e: float | Vector, method: str, remedy: str = BY_LIKELIHOOD
) -> None:
    """Fit with known propensities, one for each row or one for all."""
    if isinstance(read, Training) and model.estimator is None:
        read = labelled_rows(read, model._coding)
    if isinstance(read, LabelledRows):
        rows = read.engine.derive(_constant, e) if isinstance(e, float) else attach(read.engine, e=e)
        rows = _fit_logistic(model, rows, read.totals.weight, method)
    else:
        vector = np.full(read.s.size, e) if isinstance(e, float) else e
        p = _fit_estimator(model, read, vector, method)
        rows = engine_of(np.empty((p.size, 0)), s=read.s, w=read.weight, e=vector, f=p)
    totals, implied = row_totals(rows), implied_prior(rows)
    positives, labelled = rows.total(_block_positives)
    model.label_frequency_ = float(labelled / positives)
    model.class_prior_ = float(positives) / totals.weight
    if model._corrects:
        _compare_priors(model, implied, totals.labelled_share, method)
    if method == "risk":
        warn_about_few_effective(implied, type(model).__name__, remedy=remedy)


def known_probability(model: Any, X: Any) -> Vector:
    """Return the probability of the class of each row, after a fit with known propensities."""
    check_is_fitted(model)
    if hasattr(model, "coef_"):
        return cast(Vector, model._linear_probability(X))
    table = check_foreign_table(model, X, inner=model._reader, reset=False)
    return cast(Vector, model._learner.probability(table))


def _compare_priors(model: Any, implied: ImpliedPrior, labelled_share: float, method: str) -> None:
    learner = None if model.estimator is None else model._learner
    if method == "risk" and implied.mean >= 1 and not isinstance(learner, TreeLearner):
        return  # possible_shares has told
    kind = "memorised"
    if learner is None or isinstance(learner, CrossedLearner):
        kind = "logistic" if learner is None else "crossed"
    warn_about_prior(model.class_prior_, implied, labelled_share, type(model).__name__, model=kind)


def _fit_logistic(model: Any, rows: Engine, weight: float, method: str) -> Engine:
    """Fit the logistic model; return the rows with their probability ``f``."""
    design, tol = all_columns(rows), 1e-8 if model.tol is None else model.tol
    options: dict[str, Any] = {"C": model.C, "tol": tol, "max_iter": model.max_iter}
    if method == "risk":
        solution = fit_targets(with_shares(rows), design, **options)
    else:
        solution = fit_known_propensity(rows, design, **options)
    warn_unless_converged(solution, type(model).__name__, total_weight=weight, tol=tol)
    model._store_linear(solution.parameters, design)
    model.n_iter_ = solution.n_iter
    return with_probability(rows, design, solution.parameters, "f")


def _fit_estimator(model: Any, training: Training, e: Vector, method: str) -> Vector:
    """Fit the user's estimator; return the probability of each row, in folds by models that have not seen it."""
    X, s, w = training
    if method == "likelihood" and getattr(model, "cv", None) is not None and (e[s == 1] < 1).any():
        return _fit_crossed(model, training, e)
    learner = as_learner(model.estimator, name="estimator", C=model.C, plain_labels=bool((e[s == 1] == 1).all()))
    if method == "risk":
        if (e[s == 1] < 1).any():
            refuse_unless_negative_weights(learner)
        learner.fit(X, possible_shares(s, e, w, learner), w)
        model.n_iter_ = 1
    else:
        tol = 1e-4 if model.tol is None else model.tol
        result = em_known_propensity(X, s, e, w, learner, tol=tol, window=4, max_iter=model.max_iter)
        model.n_iter_ = len(result.history) - 1
        if not result.converged:
            warn_user(
                f"{type(model).__name__} (EM) did not converge in max_iter={model.max_iter} iterations: the last 3 "
                f"gained {result.gain:.1e} in log-likelihood per row, tol is {tol:.1e}. Raise max_iter or tol.",
                ConvergenceWarning,
            )
    model._learner, model.estimator_ = learner, learner.model
    return learner.probability(X)


def _fit_crossed(model: Any, everything: Training, e: Vector) -> Vector:
    """Fit in folds: a classifier that has seen a row's label does not judge that row."""
    training = counted(everything)
    folds = check_folds(model.cv, training, everything, model.random_state, name="cv")
    tol = 1e-4 if model.tol is None else model.tol
    options = CrossOptions(
        C=model.C, propensity_C=1.0, audits=0.0, tol=tol, window=4, max_iter=model.max_iter, n_jobs=model.n_jobs
    )
    counts = everything.weight > 0
    crossed = cross_fit_known(model.estimator, training, e[counts], folds, options, lambda _: None)
    model._learner = CrossedLearner(crossed)
    model.estimators_ = [model_of(each) for each in crossed.fit.models]
    model.n_iter_ = len(crossed.fit.log_likelihood)
    warn_unless_settled(crossed.fit, type(model).__name__, max_iter=model.max_iter)
    # For the class prior: rows as judged by models that have not seen them, and their mean for rows of no fold.
    f, held = np.asarray(expit(crossed(crossed.fit.u))), crossed.fit.weight
    found = np.zeros(everything.s.size)
    found[counts] = np.where(held > 0, f, held @ f / held.sum())
    return found


def _constant(X: Any, rows: Rows, e: float) -> dict[str, Any]:
    return {"e": np.full(rows.size, e)}


def _block_positives(X: Any, rows: Rows) -> tuple[Any, Any]:
    w, f = rows["w"], rows["f"]
    return w @ f, w @ (f * rows["e"])  # the same sum where all propensities are 1


class PropensityWeightedClassifier(PUClassifier):
    r"""Learn the true class when the labelling propensity of each training row is known.

    ``method="risk"`` minimises the paper's propensity-weighted risk, an unbiased estimate of the risk on fully
    labelled data,

    .. math:: \frac1n \sum_i \frac{s_i}{e_i}\,\delta_1(p_i) + \Bigl(1 - \frac{s_i}{e_i}\Bigr)\,\delta_0(p_i).

    For the logistic model this is convex: :math:`\sum_i \mathrm{softplus}(z_i) - (s_i/e_i)\,z_i`.
    ``method="likelihood"`` maximises the likelihood of the labels,
    :math:`\sum_i s_i \log f_i + (1-s_i)\log(1-f_i e_i)`: it leans on the model being right, but a small
    propensity costs it far less variance.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        None: logistic regression. With ``method="risk"``: trees and forests by Gini's index, and LightGBM, fit the
        targets :math:`s/e` themselves, so that a leaf holds the propensity-corrected counts (``estimator_`` is then
        the regressor that does so). For all others each labelled row becomes a positive of weight :math:`1/e` and a
        negative of weight :math:`1-1/e \le 0`: the estimator must honour negative weights. Naive Bayes and gradient
        boosting do; liblinear and others do not and are refused after a trial fit. With ``method="likelihood"`` any
        classifier with ``sample_weight`` and ``predict_proba`` will do.
    method : {"risk", "likelihood"}, default="risk"
    max_weight : float, optional
        With ``method="risk"``: the largest weight :math:`1/e` that a labelled row may have, at least 1. Larger ones are
        cut to it, which lowers the variance and makes the class prior too low. There is a warning where the labelled
        rows tell no more than 50 rows of equal weight would, :math:`(\sum 1/e)^2 / \sum 1/e^2 < 50`, and than half of
        their number.
    cv : int, splitter, list of pairs or None, default=5
        With an estimator of your own and ``method="likelihood"``: folds, as in `SAREMClassifier`. Each row's class is
        judged by models that have not seen its label, and scale and level of their logits are fitted to the labels at
        the end; predictions are the mean of the folds' models. None: plain EM, in which a flexible classifier memorises
        labels.
    C : float, default=1.0
        Inverse penalty of the logistic model, as in ``LogisticRegression``; the intercept is not penalised.
    tol : float, optional
        A fit ends when it gains less than this in log-likelihood per row (or in log loss, for the risk): by Newton's
        method, where one more step is predicted to (default 1e-8); by EM (an `estimator` with
        ``method="likelihood"``), where three iterations together did (default 1e-4).
    max_iter : int, default=200
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of the folds.
    n_jobs : int, optional
        Folds that are fitted at the same time, in threads.
        None: one fold at a time; boosting of 10,000 to 200,000 rows fits as many as OpenMP has threads.

    Attributes
    ----------
    classes_ : array of shape (2,)
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Where `estimator` is None.
    estimator_ : fitted estimator
        Where `estimator` is given; of a cross-fit ``estimators_``, one for each fold.
    class_prior_, label_frequency_ : float
        Estimated :math:`\Pr(y=1)` and :math:`\Pr(s=1|y=1)` of the training rows.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    Notes
    -----
    What scikit-learn fits or chooses by `y` takes the observed labels for classes and undoes the correction:
    ``CalibratedClassifierCV`` and ``StackingClassifier`` around this classifier, ``scoring="roc_auc"`` or
    ``"accuracy"``, ``TunedThresholdClassifierCV``. There is a warning where that can be noticed. Leave `scoring` out,
    which is the likelihood of held-out labels, or use `scarless.metrics.make_pu_scorer`, which also says how to tune a
    threshold. How far probabilities are right is shown by `scarless.diagnostics.ClassCalibrationDisplay`.

    References
    ----------
    Bekker, Robberechts and Davis (2019).

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import PropensityWeightedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> e = np.where(X[:, 1] > 0, 0.8, 0.2)
    >>> s = y & (rng.random(4000) < e)
    >>> model = PropensityWeightedClassifier().fit(X, s, propensity=e)
    >>> print(f"{y.mean():.2f} true, {model.class_prior_:.2f} estimated, {s.mean():.2f} labelled")
    0.50 true, 0.50 estimated, 0.25 labelled
    """

    _propensity_is_fact = True
    _class_probability = known_probability

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "risk",
        max_weight: float | None = None,
        cv: Any = 5,
        C: float = 1.0,
        tol: float | None = None,
        max_iter: int = 200,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.max_weight = max_weight
        self.cv = cv
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        propensity: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        r"""Fit the classifier.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows.
        propensity : array of shape (n_rows,) or float
            :math:`\Pr(s=1|y=1,x)` of every row, in (0, 1]. Without it every positive is taken as labelled, with a
            warning. Can be routed as metadata: ``set_fit_request(propensity=True)``.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        self
        """
        method = check_choice(self.method, "method", ("risk", "likelihood"))
        check_solver_options(self)
        refuse_odd_cv(self.cv, "cv")
        check_jobs(self.n_jobs)
        largest = self._check_max_weight(method)
        read = read_for_known(self, X, y, sample_weight)
        if propensity is None:
            warn_user(
                "propensity is not given: every positive is taken as labelled (propensity 1), so unlabelled rows "
                "count as negative. Pass propensity=, or use SAREMClassifier to estimate it.",
                UserWarning,
            )
            propensity = 1.0
        n_rows = read.engine.n_rows if isinstance(read, LabelledRows) else read.s.size
        e = check_propensity(named_values(X, propensity), n_rows=n_rows)
        warn_about_row_order(X, propensity=propensity)
        fit_known(
            self,
            read,
            e if largest is None else np.maximum(e, 1.0 / largest),
            method,
            "Use method='likelihood', which a small propensity costs far less, or cut weights: max_weight=20.",
        )
        return self

    def _check_max_weight(self, method: str) -> float | None:
        if self.max_weight is None:
            return None
        if not isinstance(self.max_weight, Real) or isinstance(self.max_weight, bool) or not self.max_weight >= 1:
            raise ValueError(
                "max_weight, the largest weight 1/e of a labelled row, must be a number of at least 1, e.g. 20; got "
                f"{shown(self.max_weight)}."
            )
        if method != "risk":
            raise ValueError("max_weight is for method='risk'; the likelihood has no such weights. Leave it out.")
        return float(self.max_weight)

    def predict_posterior(self, X: Any, s: ArrayLike, propensity: ArrayLike | None = None) -> Vector:
        r"""Return :math:`\Pr(y=1|x,s)` of each row: its class given that it was, or was not, labelled.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        propensity : array of shape (n_rows,) or float

        Returns
        -------
        array of shape (n_rows,)
        """
        need_labels(s, "predict_posterior(X, s, propensity)")
        if propensity is None:
            raise TypeError(
                "predict_posterior needs the propensity of each row too, which this model does not know: "
                "predict_posterior(X, s, propensity)."
            )
        rows = known_rows(X)
        refuse_unread(rows, "X")
        e = check_propensity(named_values(rows, propensity), n_rows=count_rows(rows))
        warn_about_row_order(X, propensity=propensity)
        return as_given(X, self._posterior(rows, s, e, known=True))

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, propensity: ArrayLike | None = None
    ) -> float:
        r"""Return the mean observed log-likelihood of labels: what can be said of a fit without knowing the class.

        .. math:: \frac{1}{\sum w}\sum_i w_i [s_i \log(f_i e_i) + (1-s_i)\log(1 - f_i e_i)]

        Higher is better. Comparable between models only with the same propensities.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional
        propensity : array of shape (n_rows,) or float, optional
            Of these rows. Without it every positive is taken as labelled. Can be routed as metadata:
            ``set_score_request(propensity=True)``.

        Returns
        -------
        float
        """
        X = known_rows(X)
        e = self._assumed_propensity(X)
        if propensity is None:
            warn_user(
                "propensity is not given to score, which then takes every positive as labelled and prefers models that "
                "do so too. Pass propensity=; in a search or cross-validation, sklearn.set_config("
                "enable_metadata_routing=True), and on the model "
                "set_fit_request(propensity=True).set_score_request(propensity=True).",
                UserWarning,
            )
        else:
            e = check_propensity(named_values(X, propensity), n_rows=e.size)
            warn_about_row_order(X, propensity=propensity)
        return self._mean_log_likelihood(X, y, e, sample_weight)
