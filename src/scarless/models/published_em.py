"""SAR-EM as its authors published it, for any two classifiers."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.special import logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import warn_about_class_weights
from scarless.checks.options import check_flag, check_positive
from scarless.checks.tables import check_foreign_table, check_numeric, take_columns
from scarless.models.base import check_solver_options
from scarless.models.messages import warn_if_all_labelled, warn_unless_converged
from scarless.models.pair import PairClassifier, means_all
from scarless.models.propensity_weighted import possible_shares, refuse_unless_negative_weights
from scarless.numerics.arrays import ArrayLike, Columns, Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities
from scarless.numerics.linear import Design
from scarless.numerics.objectives import LogisticPair
from scarless.outside.notices import warn_user
from scarless.pair.fitted import FittedPair
from scarless.pair.learners import (
    ConstantLearner,
    EMStep,
    Learner,
    LogisticLearner,
    as_learner,
    check_weighted_classifier,
    em,
)
from scarless.pair.optima import warn_if_swappable


class PublishedEMClassifier(PairClassifier):
    r"""SAR-EM as published: two classifiers that are fitted alternately by expectation maximisation (EM).

    The E step computes each row's posterior :math:`\Pr(y=1|x,s)`. The M step fits the classifier to these posteriors,
    and the propensity model to the labels, with the posteriors as weights. The fit stops by the authors' rule.

    Use this class for comparisons with the paper. For two logistic models, `SAREMClassifier` maximises the same
    likelihood faster and exactly, and has standard errors. It also cross-fits other classifiers. Without folds,
    a flexible classifier reproduces the labels that it was trained on, and EM concludes that every positive is
    labelled.

    Parameters
    ----------
    estimator, propensity_estimator : scikit-learn classifiers, optional
        Class model and propensity model, with ``sample_weight`` and ``predict_proba``; logistic regression by default.
    propensity_attributes : column selector or "all", optional
        Columns that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns. None: the propensity is constant.
    classification_attributes : column selector, optional
        Columns that the class depends on, selected like `propensity_attributes`; all columns by default.
    C, propensity_C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`, of each logistic model.
    refit : bool, default=False
        Whether to fit the classifier once more at the end, on the propensity-weighted risk, as the authors' code does.
        In our benchmarks this does not improve the classifier (``python -m benchmarks.core refit``).
    tol : float, default=1e-4
        Stop if the last `window` iterations together gain less than this in log-likelihood per row, and `slope_tol` is
        met.
    slope_tol : float, default=1e-4
        Stop only if the mean absolute slope of the propensities over the last `window` iterations is below this.
    window : int, default=10
        Number of iterations that both stopping rules consider.
    max_iter : int, default=500
        Maximum number of iterations.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.
    verbose : bool, default=False
        Whether to print the log-likelihood per row, and the slope of the propensities, after each iteration.

    Attributes
    ----------
    coef_, intercept_, propensity_coef_, propensity_intercept_ : arrays
        Logistic models, as in `SAREMClassifier`.
    estimator_, propensity_estimator_ : fitted estimators
        The models, if `estimator` and `propensity_estimator` are given. Trees, forests and LightGBM are fitted to the
        posteriors as regressors.
    class_prior_, label_frequency_, log_likelihood_ : float
        As in `SAREMClassifier`.
    n_iter_, converged_
        Number of iterations, and whether the stopping rule was met.
    history_ : dict of arrays
        "log_likelihood", and "slope" (of the propensities), at the start and after each iteration.
    classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from Positive
    and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.labelling import LogisticSAR, simulate_labels
    >>> from scarless.models import PublishedEMClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
    >>> s = simulate_labels(y, LogisticSAR(attributes=[2], coefficients=[1.5]).propensity(X), random_state=1)
    >>> model = PublishedEMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> print(f"positives: {y.mean():.2f} true, {model.class_prior_:.2f} estimated, {s.mean():.2f} labelled")
    positives: 0.50 true, 0.53 estimated, 0.26 labelled
    """

    _standard_errors_need = "the maximum of the likelihood, which SAREMClassifier finds"

    def __init__(
        self,
        estimator: Any = None,
        propensity_estimator: Any = None,
        *,
        propensity_attributes: Any = None,
        classification_attributes: Any = None,
        C: float = 1.0,
        propensity_C: float = 1.0,
        refit: bool = False,
        tol: float = 1e-4,
        slope_tol: float = 1e-4,
        window: int = 10,
        max_iter: int = 500,
        pos_label: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.propensity_estimator = propensity_estimator
        self.propensity_attributes = propensity_attributes
        self.classification_attributes = classification_attributes
        self.C = C
        self.propensity_C = propensity_C
        self.refit = refit
        self.tol = tol
        self.slope_tol = slope_tol
        self.window = window
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit both models alternately.

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
        self._check_parameters()
        X_seen, s, w = self._check_training(X, y, sample_weight)
        self._f_columns = self._columns(X, self.classification_attributes, "classification_attributes")
        self._e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        if type(self.estimator) is type(self.propensity_estimator) and not means_all(self.propensity_attributes):
            f_design, e_design = Design.of(self._f_columns), Design.of(self._e_columns)
            warn_if_swappable(f_design, e_design, type(self).__name__, penalties=(self.C, self.propensity_C))
        f, e = self._learners()
        X_f, X_e = _seen_by(f, X_seen, self._f_columns), _seen_by(e, X_seen, self._e_columns)
        result = em(
            X_f,
            X_e,
            s,
            w,
            f,
            e,
            tol=self.tol,
            slope_tol=self.slope_tol,
            window=int(self.window),
            max_iter=int(self.max_iter),
            progress=_print_step if self.verbose else None,
        )
        if not result.converged:
            warn_user(
                f"PublishedEMClassifier did not converge in max_iter={self.max_iter} iterations: the last "
                f"{min(self.window, len(result.history)) - 1} iterations gained {result.gain:.1e} in log-likelihood "
                f"per row (tol is {self.tol:.1e}), and the slope of the propensities is {result.history[-1].slope:.1e} "
                f"(slope_tol is {self.slope_tol:.1e}). Raise max_iter, tol or slope_tol.",
                ConvergenceWarning,
            )
        for learner in (f, e):
            if isinstance(learner, LogisticLearner) and learner.solution is not None:
                name, total = type(self).__name__, float(w.sum())
                warn_unless_converged(learner.solution, name, total_weight=total, tol=learner.tol)
        p_e = e.probability(X_e)
        if self.refit:
            f.fit(X_f, possible_shares(s, p_e, w, f), w)
        p_f = f.probability(X_f)
        # Only the user's estimators can read text columns, so there is no pair if the user gives an estimator.
        self._learned, self._pair = None if self._inner() is None else (f, e), None
        self._store_learner(f, self._f_columns, "", "estimator_")
        self._store_learner(e, self._e_columns, "propensity_", "propensity_estimator_")
        if self._learned is None:
            self._hold(
                FittedPair(
                    objective=LogisticPair(Design.of(self._f_columns), Design.of(self._e_columns)),
                    parameters=np.concatenate([_parameters(f), _parameters(e)]),
                    e_columns=self._e_columns,
                    weight=float(w.sum()),
                    labelled=float(w @ s),
                )
            )
        self.n_iter_, self.converged_ = len(result.history) - 1, result.converged
        self.history_ = {
            "log_likelihood": np.array([step.log_likelihood for step in result.history]) * w.sum(),
            "slope": np.array([step.slope for step in result.history]),
        }
        self.log_likelihood_ = float(w @ np.where(w > 0, log_likelihood_of_probabilities(p_f, p_e, s), 0.0))
        self.label_frequency_ = float(w @ (p_f * p_e)) / float(w @ p_f)
        warn_if_all_labelled(self)
        self.class_prior_ = float(w @ p_f) / float(w.sum())
        return self

    def _learners(self) -> tuple[Learner, Learner]:
        """Return the class model and the propensity model as learners, which accept real-valued targets."""
        f = as_learner(self.estimator, name="estimator", C=self.C)
        if self.refit:
            refuse_unless_negative_weights(f)
        if not self._e_columns.size:
            return f, ConstantLearner()
        return f, as_learner(self.propensity_estimator, name="propensity_estimator", C=self.propensity_C)

    def _check_parameters(self) -> None:
        check_solver_options(self)
        check_positive(self.propensity_C, "propensity_C")
        check_positive(self.tol, "tol")
        check_positive(self.slope_tol, "slope_tol")
        check_flag(self.refit, "refit")
        if not isinstance(self.window, int | np.integer) or self.window < 2:
            raise ValueError(
                f"window must be a whole number of at least 2: a slope needs two iterations. Got {self.window!r}."
            )
        check_two_estimators(self)
        warn_about_class_weights(self)

    def _own_propensity(self, X: Any) -> Vector:
        return self._model_probability(1, X)

    def _class_probability(self, X: Any) -> Vector:
        return super()._class_probability(X) if self._pair is not None else self._model_probability(0, X)

    def _model_probability(self, place: int, X: Any) -> Vector:
        """Return the probabilities of the classifier (0) or the propensity model (1)."""
        check_is_fitted(self)
        assert self._learned is not None
        learner, columns = self._learned[place], (self._f_columns, self._e_columns)[place]
        X = check_foreign_table(self, X, inner=self._reader, reset=False)
        return learner.probability(_seen_by(learner, X, columns))

    def _inner(self) -> Any:
        """Return the estimator of the user that the table is passed to, or None."""
        return self.propensity_estimator if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.propensity_attributes is not None and self.propensity_estimator is None:
            tags.input_tags.allow_nan = False  # the logistic propensity model cannot read NaN
        return tags

    def _store_learner(self, learner: Learner, columns: Columns, prefix: str, name: str) -> None:
        if isinstance(learner, LogisticLearner | ConstantLearner):
            self._store_linear(_parameters(learner), Design.of(columns), prefix)
        else:
            setattr(self, name, learner.model)


def _parameters(learner: Any) -> Vector:
    """Return the parameters of a logistic or constant learner."""
    constant = isinstance(learner, ConstantLearner)
    return np.array([logit(learner.value)]) if constant else np.asarray(learner.beta)


def check_two_estimators(
    model: Any, *, check_estimator: Callable[[Any, str], None] = check_weighted_classifier
) -> None:
    """Check a model's `estimator` and `propensity_estimator`."""
    if model.propensity_estimator is not None and model.propensity_attributes is None:
        raise ValueError(
            "propensity_estimator is given, but propensity_attributes is None, so the propensity would be constant. "
            "Name the attributes that drive the labelling, or use slice(None) for all columns."
        )
    for name, check in (("estimator", check_estimator), ("propensity_estimator", check_weighted_classifier)):
        if getattr(model, name) is not None:
            check(getattr(model, name), name)


def _seen_by(learner: Learner, X: Any, columns: Columns) -> Any:
    """Return the table that a learner reads; for a logistic learner, as numbers."""
    if isinstance(learner, ConstantLearner):
        return X
    seen = take_columns(X, columns)
    return check_numeric(seen) if isinstance(learner, LogisticLearner) else seen


def _print_step(step: EMStep) -> None:
    print(f"log-likelihood per row {step.log_likelihood:.6f}, slope of the propensities {step.slope:.2e}")
