"""A pair fitted by expectation maximisation, without cross-fit: any two models, as the paper has it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.tables import check_foreign_table, check_numeric, take_columns
from scarless.models._base import warn_unless_converged
from scarless.models._looks_crossed import LooksCrossedClassifier
from scarless.models._negative_weights import possible_shares, refuse_unless_negative_weights
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities
from scarless.numerics.linear import Design
from scarless.outside.notices import warn_user
from scarless.pair.em import EMStep, em
from scarless.pair.learners import ConstantLearner, Learner, LogisticLearner, as_learner
from scarless.pair.rows import Training


class EMClassifier(LooksCrossedClassifier):
    """The half of `SAREMClassifier` that alternates between two models; its parameters are that class's."""

    refit: bool
    slope_tol: float
    _f_learner: Learner | None
    _e_learner: Learner | None

    @staticmethod
    def _seen_by(learner: Learner, X: Any, columns: NDArray[np.intp]) -> Any:
        """Return the table that a learner reads, converted once where it wants numbers."""
        if isinstance(learner, ConstantLearner):
            return X
        seen = take_columns(X, columns)
        return check_numeric(seen) if isinstance(learner, LogisticLearner) else seen

    def _learner_probability(self, learner: Learner, X: Any, columns: NDArray[np.intp]) -> Vector:
        X = check_foreign_table(self, X, inner=self._reader, reset=False)
        return learner.probability(self._seen_by(learner, X, columns))

    def _fit_em(self, training: Training) -> None:
        X, s, w = training
        tol = 1e-4 if self.tol is None else self.tol
        f = as_learner(self.estimator, name="estimator", C=self.C)
        if self.refit:
            refuse_unless_negative_weights(f)
        e: Learner = ConstantLearner()
        if self._e_columns.size:
            e = as_learner(self.propensity_estimator, name="propensity_estimator", C=self.propensity_C)
        X_f, X_e = self._seen_by(f, X, self._f_columns), self._seen_by(e, X, self._e_columns)
        result = em(
            X_f,
            X_e,
            s,
            w,
            f,
            e,
            tol=tol,
            slope_tol=self.slope_tol,
            window=self.window,
            max_iter=self.max_iter,
            progress=_print_step if self.verbose else None,
        )
        if not result.converged:
            warn_user(
                f"SAREMClassifier (EM) did not converge in max_iter={self.max_iter} iterations: the last "
                f"{min(self.window, len(result.history)) - 1} gained {result.gain:.1e} in log-likelihood per row "
                f"(tol {tol:.1e}) and the propensities' slope is {result.history[-1].slope:.1e} "
                f"(slope_tol {self.slope_tol:.1e}). Raise max_iter or tol.",
                ConvergenceWarning,
            )
        for learner in (f, e):
            if isinstance(learner, LogisticLearner) and learner.solution is not None:
                warn_unless_converged(learner.solution, "SAREMClassifier (EM)", total_weight=w.sum(), tol=learner.tol)
        p_e = e.probability(X_e)
        if self.refit:
            f.fit(X_f, possible_shares(s, p_e, w, f), w)
        p_f = f.probability(X_f)
        # A table that a model of the user's reads may hold text: then only the learners know how to read it.
        self._f_learner, self._e_learner = (None, None) if self._inner() is None else (f, e)
        self._inference = None
        self._store_learner(f, self._f_columns, "", "estimator_")
        self._store_learner(e, self._e_columns, "propensity_", "propensity_estimator_")
        self.n_iter_ = len(result.history) - 1
        self.converged_ = result.converged
        self.history_ = {
            "log_likelihood": np.array([step.log_likelihood for step in result.history]) * w.sum(),
            "slope": np.array([step.slope for step in result.history]),
        }
        log_likelihood = float(w @ np.where(w > 0, log_likelihood_of_probabilities(p_f, p_e, s), 0.0))
        self._store_summary(log_likelihood, float(w @ p_f), float(w @ (p_f * p_e)), float(w.sum()))

    def _store_learner(self, learner: Learner, columns: NDArray[np.intp], prefix: str, name: str) -> None:
        if isinstance(learner, LogisticLearner) and learner.beta is not None:
            self._store_linear(learner.beta, Design.of(columns), prefix)
        elif isinstance(learner, ConstantLearner):
            self._store_linear(np.array([logit(learner.value)]), Design.of(columns), prefix)
        else:
            setattr(self, name, learner.model)


def _print_step(step: EMStep) -> None:
    print(f"log-likelihood per row {step.log_likelihood:.6f}, slope of the propensities {step.slope:.2e}")
