"""Classifier for known propensities, and the functions that it shares with other classifiers."""

import warnings
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import final_step, fit_weighted, warn_about_class_weights
from scarless.checks.options import check_choice, check_jobs, check_propensity, real_number, shown
from scarless.checks.rows import LabelledRows, RowTotals, count_rows, named_values, row_totals, warn_about_row_order
from scarless.checks.tables import check_foreign_table, refuse_lazy_query
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
from scarless.numerics.likelihood import sigmoid
from scarless.numerics.linear import Design, logits
from scarless.numerics.objectives import Curvature, TargetLogistic
from scarless.outside.notices import warn_user
from scarless.pair.crossed import (
    CrossedKnown,
    CrossOptions,
    counted,
    cross_fit_known,
    model_of,
    warn_unless_converged_in_folds,
)
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

BY_LIKELIHOOD = "Use method='likelihood', which is far less sensitive to small propensities."
_MAX_IMPLIED_PRIOR = 0.999  # value to which an implied class prior of 1 or more is scaled down
# A trial fit has few rows and columns. The user's parameters may forbid every split of such a small table, so the trial
# fit uses these parameters instead.
_TRIAL_PARAMETERS: dict[str, Any] = {"min_samples_leaf": 1, "min_samples_split": 2, "monotonic_cst": None}


def possible_shares(s: Vector, e: Vector, w: Vector, learner: Learner | None = None) -> Vector:
    """Return ``s/e`` of rows in memory, scaled down if it implies more positives than rows.

    The loss of a regression tree has a minimum for any targets, so targets of trees are not scaled.
    """
    if isinstance(learner, TreeLearner):
        return shares(s, e)
    return shares(s, e) * _possible_part(engine_of(np.empty((s.size, 0)), s=s, e=e, w=w))


def with_shares(engine: Engine) -> Engine:
    """Return rows with targets ``t`` = ``s/e``, scaled down if they imply more positives than rows."""
    return engine.derive(_targets, _possible_part(engine), keep=True)


def _targets(X: Any, rows: Rows, part: float) -> dict[str, Any]:
    return {"t": shares(rows["s"], rows["e"]) * part}


def _possible_part(engine: Engine) -> float:
    """Return the factor by which the targets ``s/e`` are multiplied; warn if it is below 1.

    The propensity-weighted log loss of a model with a free intercept has a minimum only if the weighted mean of
    ``s/e``, its estimate of the class prior, is below 1. If all other coefficients are penalised, this condition is
    also sufficient.
    """
    prior = implied_prior(engine).mean
    if prior < 1.0:
        return 1.0
    warn_user(
        f"The propensities imply a class prior of {prior:.3f} (the mean of s/e), which is more positives than rows. "
        "The risk then has no minimum. The weights are therefore scaled down, and nearly all rows will be predicted "
        "positive. Check the propensities, or use SAREMClassifier to estimate them. method='likelihood' helps only if "
        "the excess is due to chance, not if the propensities are too low.",
        ConvergenceWarning,
    )
    return _MAX_IMPLIED_PRIOR / prior


def refuse_unless_negative_weights(learner: Learner) -> None:
    """Raise if the learner uses weighted copies of rows and its estimator does not support negative weights."""
    if not isinstance(learner, CopiesLearner):
        return
    estimator = final_step(learner.model)
    trouble = negative_weight_problem(estimator)
    if trouble is not None:
        raise ValueError(
            f"estimator: the propensity-weighted risk needs negative row weights, and {type(estimator).__name__} does "
            f"not support them: {trouble}. Use estimator=None (logistic, exact), method='likelihood' (any estimator), "
            "or an estimator that supports them: LogisticRegression(solver='lbfgs'), DecisionTreeClassifier, "
            "RandomForestClassifier, HistGradientBoostingClassifier, naive Bayes, LGBMClassifier."
        )


def negative_weight_problem(estimator: Any) -> str | None:
    """Test by three small fits whether an estimator supports negative row weights; return the problem, or None.

    There are two points with 600 positives and 600 negatives each. At one of them, weights of -1 cancel 500 negatives;
    at the other, 500 positives. An estimator that supports negative weights makes the same predictions as from the
    remaining 600 and 100 rows. An estimator that drops rows of negative weight sees 600 of each class.
    """
    place, y, weight = _probe_rows()
    X = np.column_stack([place, 1 - place]).astype(np.float64)
    kept = weight > 0
    remaining = np.where(place == y, 1.0, 1.0 / 6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            signed = _probe(estimator, X, y, weight)
        except (ValueError, TypeError, ArithmeticError) as error:
            return f"it raises an error ({str(error).splitlines()[0]})"
        expected = _probe(estimator, X[kept], y[kept], remaining[kept])
        dropped = _probe(estimator, X[kept], y[kept], weight[kept])
    if np.abs(signed - expected).max() < 0.25 * np.abs(dropped - expected).max():  # False for NaN
        return None
    return "a trial fit gave wrong predictions, as if rows of negative weight were dropped or misread"


def _probe_rows() -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    counts = [600, 600, 500, 600, 600, 500]
    place = np.repeat([0, 0, 0, 1, 1, 1], counts)
    y = np.repeat([0, 1, 1, 1, 0, 0], counts)
    weight = np.repeat([1.0, 1.0, -1.0, 1.0, 1.0, -1.0], counts)
    return place, y, weight


def _probe(estimator: Any, X: Any, y: Array, weight: Vector) -> Vector:
    model = clone(estimator)
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in _TRIAL_PARAMETERS.items() if name in known})
    fit_weighted(model, X, y, weight)
    return np.asarray(model.predict_proba(np.array([[0.0, 1.0], [1.0, 0.0]])))[:, 1]


# Effective number of labelled rows below which the propensity-weighted risk is unreliable. With 8 to 26, it ranked rows
# worse than the naive model in 8 of 8 runs, by up to .13 in AUC. With 64 to 77, the loss was at most .02; with 270,
# there was none in 8 runs.
MIN_EFFECTIVE_ROWS = 50
_MIN_PROPENSITY = 1e-290  # smallest propensity whose inverse does not overflow in sums
_MAX_SHARE_TO_SQUARE = 1e50  # largest s/e whose square does not overflow in sums
_MIN_PRIOR_DIFFERENCE, _PRIOR_WARNING_Z = 0.1, 3.0  # difference of class priors, absolute and in standard errors
# A class prior above _IMPLAUSIBLE_PRIOR is implausible if the share of labelled rows is below _MAX_LABELLED_SHARE.
_IMPLAUSIBLE_PRIOR, _MAX_LABELLED_SHARE = 0.95, 0.6

#: Propensities count as probabilities of a label if their sum differs from the number of labels by at most the first
#: number, in standard errors, and if they imply a class prior above the second. Evidence: in 15 simulated tables of 400
#: to 20,000 rows, the sums of right propensities differed by 13 standard errors or more.
_LABEL_PROBABILITY_Z, _PRIOR_OF_LABEL_PROBABILITIES = 2.0, 0.8
#: Smallest difference between expected and actual number of labels, in standard errors and relative, for a warning.
#: Evidence: in the same tables, right propensities with noise of 30% gave differences of up to 0.12 of the labels.
_LABELS_WARNING_Z, _MIN_LABELS_DIFFERENCE = 4.0, 0.12
#: A negative risk is significant if it is more than this number of standard errors below 0. Evidence: with right
#: propensities and few columns it was never below -3.5 in 419 simulated tables of 100 to 5,000 rows, some of them
#: separable. With 0.7 times the right propensities and 5,000 rows, it was below -4 in 51% of the tables. With right
#: propensities but 100 to 500 columns, it often is too, because the classifier then fits single rows.
_NEGATIVE_RISK_Z = 4.0

ADVICE = {
    "memorised": (
        "Possible causes are an estimator that memorises labels, such as a fully grown tree, class weights, or wrong "
        "propensities. Limit max_depth or raise min_samples_leaf, leave class_weight out, or use "
        "PropensityWeightedClassifier(estimator, method='likelihood'), which cross-fits the estimator (cv=5)."
    ),
    "crossed": (
        "The estimator is cross-fitted, so memorised labels do not explain this. Check the propensities. If they are "
        "right, use an estimator that fits the labels better."
    ),
    "logistic": (
        "Possible causes are wrong propensities, a class that is not logistic in the columns of X, or a column that "
        "was filled in after the label was known. Check all three."
    ),
}


class ImpliedPrior(NamedTuple):
    r"""Weighted mean of :math:`s/e`, an unbiased estimate of the class prior if the propensities are right."""

    mean: float
    error: float  # standard error, if weights count rows
    labelled: float  # number of labelled rows
    effective: float  # number of labelled rows of equal weight that would give the same variance

    @property
    def possible(self) -> float:
        """The mean, but at most 1."""
        return min(self.mean, 1.0)


def shares(s: Vector, e: Vector) -> Vector:
    """Return ``s/e``; it is 0 for unlabelled rows, even if their estimated `e` is 0."""
    return s / at_least(e, _MIN_PROPENSITY)


def implied_prior(engine: Engine) -> ImpliedPrior:
    """Return the class prior that propensities and labels imply, from the row values ``s``, ``e`` and ``w``."""
    totals = row_totals(engine)
    weight = totals.weight
    mean, near = (float(each) for each in engine.total(_block_shares, weight))
    variance = float(engine.total(_block_variance, weight, near)[0])
    squares = variance + near**2
    effective = weight * near**2 / squares if squares > 0 else 0.0
    return ImpliedPrior(mean, float(np.sqrt(variance / weight)), float(totals.labelled), effective)


def _block_shares(X: Any, rows: Rows, weight: float) -> tuple[Any, Any]:
    share, part = shares(rows["s"], rows["e"]), rows["w"] / weight
    return part @ share, part @ at_most(share, _MAX_SHARE_TO_SQUARE)


def _block_variance(X: Any, rows: Rows, weight: float, mean: float) -> tuple[Any]:
    near = at_most(shares(rows["s"], rows["e"]), _MAX_SHARE_TO_SQUARE)
    return (rows["w"] / weight @ (near - mean) ** 2,)


def warn_if_priors_differ(found: float, implied: ImpliedPrior, labelled_share: float, name: str, *, model: str) -> None:
    """Warn if a fit and the propensities imply different class priors, or if the propensities are too low."""
    excess = implied.mean - 1.0
    implausible = found > _IMPLAUSIBLE_PRIOR and labelled_share < _MAX_LABELLED_SHARE
    if excess > _PRIOR_WARNING_Z * implied.error or (excess > 0 and implausible):
        warn_user(
            f"{name}: the propensities imply a class prior of {implied.mean:.3f} (the mean of s/e; standard error "
            f"{implied.error:.3f}), which is more positives than rows. The propensities are too low, and the estimated "
            f"class prior, {found:.3f}, is too high. Check the propensities, or use SAREMClassifier to estimate them.",
            UserWarning,
        )
    elif abs(found - implied.possible) > max(_MIN_PRIOR_DIFFERENCE, _PRIOR_WARNING_Z * implied.error):
        warn_user(
            f"{name}: the classifier gives a class prior of {found:.3f}, the mean probability of the training rows, "
            f"but the propensities imply {implied.possible:.3f}, the mean of s/e (standard error {implied.error:.3f}). "
            f"{ADVICE[model]}",
            UserWarning,
        )


def _has_few_effective(implied: ImpliedPrior) -> bool:
    return implied.effective < MIN_EFFECTIVE_ROWS and implied.effective < implied.labelled / 2


def warn_if_few_effective(implied: ImpliedPrior, name: str, *, remedy: str) -> None:
    """Warn if a few labelled rows with small propensities dominate the propensity-weighted risk."""
    if _has_few_effective(implied):
        warn_user(
            f"{name}: small propensities give a few labelled rows most of the weight. The {implied.labelled:g} "
            f"labelled rows are worth only {implied.effective:.0f} rows of equal weight. With fewer than "
            f"{MIN_EFFECTIVE_ROWS}, the class prior and the ranking are unreliable. {remedy}",
            UserWarning,
        )


class CrossedLearner:
    """Cross-fitted classifier with the interface of a learner."""

    def __init__(self, crossed: CrossedKnown) -> None:
        self.crossed = crossed
        self.model: Any = None

    def fit(self, X: Any, t: Vector, w: Vector) -> None:
        """Do nothing, because the classifier is fitted already."""

    def probability(self, X: Any) -> Vector:
        """Return the fitted probabilities."""
        return np.asarray(expit(self.crossed.logits(X)))


# --- the fit that all classifiers with known propensities share


def read_for_known(model: Any, X: Any, y: Any, sample_weight: Any) -> LabelledRows | Training:
    """Check the input of a fit; return rows in memory for an estimator of the user, otherwise rows of an engine."""
    if model.estimator is None:
        return cast(LabelledRows, model._check_rows(X, y, sample_weight))
    check_weighted_classifier(model.estimator, "estimator")
    return cast(Training, model._check_training(X, y, sample_weight))


def fit_known(
    model: Any,
    read: LabelledRows | Training,
    e: float | Vector,
    method: str,
    remedy: str = BY_LIKELIHOOD,
    *,
    is_given: bool = False,
) -> None:
    """Fit a model with known propensities: a vector, or one number for all rows.

    If the user gave the propensities, `is_given` is True, and they are compared with the labels.
    """
    if isinstance(read, Training) and model.estimator is None:
        read = labelled_rows(read, model._coding)
    if isinstance(read, LabelledRows):
        rows = read.engine.derive(_constant, e) if isinstance(e, float) else attach(read.engine, e=e)
        rows, risk = _fit_logistic(model, rows, read.totals.weight, method)
    else:
        vector = np.full(read.s.size, e) if isinstance(e, float) else e
        p = _fit_estimator(model, read, vector, method)
        rows, risk = engine_of(np.empty((p.size, 0)), s=read.s, w=read.weight, e=vector, f=p), None
    totals, implied = row_totals(rows), implied_prior(rows)
    found = ExpectedLabels(*rows.total(_block_expected_labels))
    model.label_frequency_ = float(found.by_fit / found.positives)
    model.class_prior_ = float(found.positives) / totals.weight
    if is_given and _are_label_probabilities(found, implied, totals):
        warn_user(
            f"{type(model).__name__}: the propensities add up to {found.by_propensity:.4g}, and {totals.labelled:.4g} "
            "rows are labelled. They seem to be probabilities Pr(s=1|x) that a row is labelled, often called "
            "propensity scores. A propensity is Pr(s=1|y=1,x), the probability that a positive row is labelled. The "
            f"estimated class prior, {model.class_prior_:.3f}, is right only if nearly all rows are positive. Pass "
            "propensities, or use SAREMClassifier to estimate them.",
            UserWarning,
        )
    elif model._corrects:
        # Cross-fitted probabilities are recalibrated, so class weights hardly change them.
        crossed = model.estimator is not None and isinstance(model._learner, CrossedLearner)
        if crossed or not warn_about_class_weights(model):
            _compare_priors(model, implied, totals.labelled_share, method)
        # The mean probability of this model always equals the mean of s/e, so it cannot show wrong propensities.
        if implied.mean < 1 and method == "risk" and model.estimator is None and not _has_few_effective(implied):
            if risk is not None and risk.is_negative:
                _warn_about_negative_risk(
                    type(model).__name__, float(risk.total) / totals.weight, constant=isinstance(e, float)
                )
            elif is_given:
                _compare_labels(model, found, float(totals.labelled))
    if method == "risk":
        warn_if_few_effective(implied, type(model).__name__, remedy=remedy)


def known_probability(model: Any, X: Any) -> Vector:
    """Return the class probability of each row, after a fit with known propensities."""
    check_is_fitted(model)
    if hasattr(model, "coef_"):
        return cast(Vector, model._linear_probability(X))
    table = check_foreign_table(model, X, inner=model._reader, reset=False)
    return cast(Vector, model._learner.probability(table))


def _compare_priors(model: Any, implied: ImpliedPrior, labelled_share: float, method: str) -> None:
    learner = None if model.estimator is None else model._learner
    if method == "risk" and implied.mean >= 1 and not isinstance(learner, TreeLearner):
        return  # _possible_part has warned already
    kind = "memorised"
    if learner is None or isinstance(learner, CrossedLearner):
        kind = "logistic" if learner is None else "crossed"
    warn_if_priors_differ(model.class_prior_, implied, labelled_share, type(model).__name__, model=kind)


class Risk(NamedTuple):
    """Propensity-weighted risk: the sum over rows, and its variance if model and propensities are right."""

    total: Any
    variance: Any

    @property
    def is_negative(self) -> bool:
        """Whether the risk is significantly below 0."""
        return bool(self.total < -_NEGATIVE_RISK_Z * np.sqrt(float(self.variance)))


def _block_risk_variance(X: Any, rows: Rows, design: Design, beta: Vector) -> tuple[Any]:
    z = logits(design.take(X), beta)
    f = sigmoid(z)
    with np.errstate(over="ignore", invalid="ignore"):  # With an infinite or missing variance, no risk is significant.
        variance = f / at_least(rows["e"], _MIN_PROPENSITY) - f * f  # of s/e
        return (rows["w"] @ (z * z * variance),)


def _fit_logistic(model: Any, rows: Engine, weight: float, method: str) -> tuple[Engine, Risk | None]:
    """Fit the logistic model; return the rows with their class probability ``f``, and the risk if it is negative."""
    design, tol = all_columns(rows), 1e-8 if model.tol is None else model.tol
    options: dict[str, Any] = {"C": model.C, "tol": tol, "max_iter": model.max_iter}
    risk = None
    if method == "risk":
        targets = with_shares(rows)
        solution = fit_targets(targets, design, **options)
        if solution.value < 0:
            value = targets.total(TargetLogistic(design).sums, solution.parameters, Curvature.NONE).value
            risk = Risk(value, *targets.total(_block_risk_variance, design, solution.parameters))
    else:
        solution = fit_known_propensity(rows, design, **options)
    warn_unless_converged(solution, type(model).__name__, total_weight=weight, tol=tol)
    model._store_linear(solution.parameters, design)
    model.n_iter_ = solution.n_iter
    return with_probability(rows, design, solution.parameters, "f"), risk


def _warn_about_negative_risk(name: str, value: float, *, constant: bool) -> None:
    what, pronoun = ("label frequency is", "it is") if constant else ("propensities are", "they are")
    warn_user(
        f"{name}: the estimate of the risk is negative ({value:.2g} per row), but no classifier has a negative risk. "
        f"Most of its probabilities are therefore close to 0 or 1. Either the {what} too low, or there are too few "
        f"labelled rows for so many columns. If {pronoun} right, use method='likelihood', a smaller C or fewer "
        "columns.",
        UserWarning,
    )


def _fit_estimator(model: Any, training: Training, e: Vector, method: str) -> Vector:
    """Fit the estimator of the user, and return class probabilities; out of fold if it is cross-fitted."""
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
                f"iterations gained {result.gain:.1e} in log-likelihood per row, and tol is {tol:.1e}. Raise max_iter "
                "or tol.",
                ConvergenceWarning,
            )
    model._learner, model.estimator_ = learner, learner.model
    return learner.probability(X)


def _fit_crossed(model: Any, everything: Training, e: Vector) -> Vector:
    """Cross-fit the estimator of the user, and return the out-of-fold probability of each row."""
    training = counted(everything)
    folds = check_folds(model.cv, training, everything, model.random_state, name="cv")
    tol = 1e-4 if model.tol is None else model.tol
    options = CrossOptions(
        C=model.C, propensity_C=1.0, pseudo_weight=0.0, tol=tol, window=4, max_iter=model.max_iter, n_jobs=model.n_jobs
    )
    counts = everything.weight > 0
    crossed = cross_fit_known(model.estimator, training, e[counts], folds, options, lambda _: None)
    model._learner = CrossedLearner(crossed)
    model.estimators_ = [model_of(each) for each in crossed.fit.models]
    model.n_iter_ = len(crossed.fit.log_likelihood)
    warn_unless_converged_in_folds(crossed.fit, type(model).__name__, max_iter=model.max_iter)
    # The class prior needs a value for every row: rows that no fold holds out get the mean out-of-fold probability.
    f, held = np.asarray(expit(crossed(crossed.fit.u))), crossed.fit.weight
    found = np.zeros(everything.s.size)
    found[counts] = np.where(held > 0, f, held @ f / held.sum())
    return found


def _constant(X: Any, rows: Rows, e: float) -> dict[str, Any]:
    return {"e": np.full(rows.size, e)}


class ExpectedLabels(NamedTuple):
    """Weighted sums of class probabilities, and of probabilities of a label, with the variances of the latter."""

    positives: Any
    by_fit: Any  # sum of f e
    by_propensity: Any  # sum of e, as if all rows were positive
    variance_by_fit: Any
    variance_by_propensity: Any


def _block_expected_labels(X: Any, rows: Rows) -> ExpectedLabels:
    w, f, e = rows["w"], rows["f"], rows["e"]
    p = f * e  # exactly f if all propensities are 1
    return ExpectedLabels(w @ f, w @ p, w @ e, w**2 @ (p * (1.0 - p)), w**2 @ (e * (1.0 - e)))


def _are_label_probabilities(found: ExpectedLabels, implied: ImpliedPrior, totals: RowTotals) -> bool:
    """Whether propensities predict the number of labels as if all rows were positive."""
    gap = abs(float(found.by_propensity) - float(totals.labelled))
    near = gap <= _LABEL_PROBABILITY_Z * np.sqrt(float(found.variance_by_propensity))
    in_range = _PRIOR_OF_LABEL_PROBABILITIES < implied.mean < 1  # Another warning is about a higher class prior.
    return bool(near and in_range and totals.labelled_share < _MAX_LABELLED_SHARE)


def _compare_labels(model: Any, found: ExpectedLabels, labelled: float) -> None:
    """Warn if class probabilities times propensities do not predict the number of labels."""
    by_fit, error = float(found.by_fit), np.sqrt(float(found.variance_by_fit))
    if abs(by_fit - labelled) > max(_LABELS_WARNING_Z * error, _MIN_LABELS_DIFFERENCE * labelled):
        warn_user(
            f"{type(model).__name__}: the classifier and the propensities predict {by_fit:.4g} labelled rows (the sum "
            f"of probability times propensity; standard error {error:.2g}), but {labelled:.4g} are labelled. "
            f"{ADVICE['logistic']}",
            UserWarning,
        )


class PropensityWeightedClassifier(PUClassifier):
    r"""Classifier for rows with known propensities.

    ``method="risk"`` minimises the paper's propensity-weighted risk, an unbiased estimate of the risk on fully
    labelled data,

    .. math:: \frac1n \sum_i \frac{s_i}{e_i}\,\delta_1(p_i) + \Bigl(1 - \frac{s_i}{e_i}\Bigr)\,\delta_0(p_i).

    For the logistic model this is convex: :math:`\sum_i \mathrm{softplus}(z_i) - (s_i/e_i)\,z_i`.
    ``method="likelihood"`` maximises the likelihood of the labels,
    :math:`\sum_i s_i \log f_i + (1-s_i)\log(1-f_i e_i)`. It assumes that the model is of the right form, but is far
    less sensitive to small propensities.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Class model; logistic regression by default. With ``method="risk"``, trees and forests with the Gini criterion,
        and LightGBM, are fitted as regressors to the targets :math:`s/e`. Other estimators must support negative
        weights, because each labelled row becomes a positive of weight :math:`1/e` and a negative of weight
        :math:`1-1/e \le 0`; a trial fit checks this. With ``method="likelihood"``, any classifier with
        ``sample_weight`` and ``predict_proba`` works.
    method : {"risk", "likelihood"}, default="risk"
        Whether to minimise the propensity-weighted risk, or to maximise the likelihood of the labels.
    max_weight : float, optional
        Largest weight :math:`1/e` of a labelled row, at least 1, for ``method="risk"``. Larger weights are reduced to
        this value, which lowers the variance but makes the class prior too low. The effective number of labelled rows
        is :math:`(\sum 1/e)^2 / \sum 1/e^2`. The fit warns if this number is below 50 and below half of the actual
        number of labelled rows.
    cv : int, splitter, list of pairs or None, default=5
        Number of folds, splitter, or list of pairs of row indices. Used only for an `estimator` with
        ``method="likelihood"``, which is then cross-fitted and recalibrated. None: plain EM, in which a flexible
        classifier may memorise the labels.
    C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`; the intercept is not penalised.
    tol : float, optional
        Stop if the log-likelihood per row (for the risk, the log loss) gains less than this: in one more Newton step
        (default 1e-8), or in three iterations of EM together (default 1e-4).
    max_iter : int, default=200
        Maximum number of iterations.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of the random numbers, for folds. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of folds computed in parallel, in threads. None: one fold at a time; for boosting on 10,000 to 200,000
        rows, one fold for each OpenMP thread.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic model. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The class model, if `estimator` is given; a cross-fit has ``estimators_``, one for each fold.
    class_prior_, label_frequency_ : float
        Estimated :math:`\Pr(y=1)` and :math:`\Pr(s=1|y=1)` of the training rows.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    Notes
    -----
    Tools of scikit-learn that compare predictions with `y` treat unlabelled rows as negative. Do not use
    ``CalibratedClassifierCV``: it turns class probabilities into probabilities of a label. Instead of
    ``scoring="roc_auc"``, leave `scoring` out, or use `scarless.metrics.make_pu_scorer`. See the guide, section
    Cross-validation and pipelines.

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

    _propensity_is_known = True
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
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        propensity : array of shape (n_rows,) or float
            Propensity of each row, in (0, 1]. Without it, all positives are assumed to be labelled, with a warning. For
            metadata routing use ``set_fit_request(propensity=True)``.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

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
                "propensity is not given: all positives are assumed to be labelled (propensity 1), so unlabelled rows "
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
            "Use method='likelihood', which is far less sensitive to small propensities, or limit weights: "
            "max_weight=20.",
            is_given=largest is None,
        )
        return self

    def _check_max_weight(self, method: str) -> float | None:
        if self.max_weight is None:
            return None
        if not real_number(self.max_weight) >= 1:
            raise ValueError(
                "max_weight, the largest weight 1/e of a labelled row, must be a number of at least 1, for example 20; "
                f"got {shown(self.max_weight)}."
            )
        if method != "risk":
            raise ValueError("max_weight needs method='risk'; the likelihood has no weights 1/e. Leave max_weight out.")
        return float(self.max_weight)

    def predict_posterior(self, X: Any, s: ArrayLike, propensity: ArrayLike | None = None) -> Vector:
        r"""Return the posterior :math:`\Pr(y=1|x,s)` of each row, given its label.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        s : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.
        propensity : array of shape (n_rows,) or float
            Propensity of each row, in (0, 1].

        Returns
        -------
        array of shape (n_rows,)
        """
        need_labels(s, "predict_posterior(X, s, propensity)")
        if propensity is None:
            raise TypeError(
                "propensity must be given, because this model does not estimate it. Call "
                "predict_posterior(X, s, propensity)."
            )
        rows = known_rows(X)
        refuse_lazy_query(rows, "X")
        e = check_propensity(named_values(rows, propensity), n_rows=count_rows(rows))
        warn_about_row_order(X, propensity=propensity)
        return as_given(X, self._posterior(rows, s, e, known=True))

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, propensity: ArrayLike | None = None
    ) -> float:
        r"""Return the mean log-likelihood of the observed labels; no true classes are needed.

        .. math:: \frac{1}{\sum w}\sum_i w_i [s_i \log(f_i e_i) + (1-s_i)\log(1 - f_i e_i)]

        Higher is better. Scores of different models are comparable only for the same propensities.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.
        propensity : array of shape (n_rows,) or float, optional
            Propensity of each row, in (0, 1]. Without it, all positives are assumed to be labelled. For metadata
            routing use ``set_score_request(propensity=True)``.

        Returns
        -------
        float
        """
        X = known_rows(X)
        e = self._assumed_propensity(X)
        if propensity is None:
            warn_user(
                "propensity is not given to score. The score then assumes that all positives are labelled, and prefers "
                "models that assume the same. Pass propensity=. In a search or cross-validation, use "
                "sklearn.set_config(enable_metadata_routing=True), and call "
                "set_fit_request(propensity=True).set_score_request(propensity=True) on the model.",
                UserWarning,
            )
        else:
            e = check_propensity(named_values(X, propensity), n_rows=e.size)
            warn_about_row_order(X, propensity=propensity)
        return self._mean_log_likelihood(X, y, e, sample_weight)
