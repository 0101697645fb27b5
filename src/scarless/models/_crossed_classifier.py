"""A pair whose classifier is the user's: fitted in folds, relaxed, stored, and what it can say of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.checks.tables import check_foreign_table
from scarless.checks.vectors import check_vector
from scarless.models._base import warn_if_all_labelled, warn_if_all_positive
from scarless.models._pair import PairClassifier
from scarless.models.stack_summary import crossed_summary
from scarless.models.uncertainty import digest_of, held_out_of_fit
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.linear import Design
from scarless.outside.progress import progress_bar
from scarless.pair.cross_fit import Tell
from scarless.pair.crossed import (
    Crossed,
    CrossOptions,
    counted,
    cross_fit,
    importances_of,
    model_of,
    warn_of_collapse,
    warn_unless_settled,
)
from scarless.pair.facts import check_known
from scarless.pair.folds import check_folds
from scarless.pair.mixture import draw_posteriors
from scarless.pair.propensities import logit_of
from scarless.pair.relaxed import draw_class_priors
from scarless.pair.rows import Training

CROSS_FIT_AUDITS = 4.0  # imaginary, where nobody says how many


class CrossedClassifier(PairClassifier):
    """The cross-fitted half of `SAREMClassifier`; its parameters are that class's."""

    estimator: Any
    propensity_estimator: Any
    cv: Any
    C: float
    propensity_C: float
    known: Any
    tol: float | None
    max_iter: int
    random_state: Any
    n_jobs: int | None
    verbose: bool
    _crossed: Any  # Crossed, LooksCrossed, or None
    _f_columns: NDArray[np.intp]
    _e_columns: NDArray[np.intp]

    @property
    def feature_importances_(self) -> Vector:
        """Mean of the folds' importances; of LightGBM and XGBoost by gain."""
        crossed = getattr(self, "_crossed", None)
        every = [] if crossed is None else [importances_of(model) for model in crossed.fit.models]
        found = [each for each in every if each is not None]
        if not found:
            raise AttributeError(
                "feature_importances_ are those of a cross-fitted classifier that has them, such as LightGBM, XGBoost "
                "or a forest. For others: sklearn.inspection.permutation_importance with scoring=scarless.metrics."
                "make_pu_scorer(...)."
            )
        mean = np.mean([each / max(float(each.sum()), 1e-300) for each in found], axis=0)
        return np.asarray(mean)

    def _cross_options(self) -> CrossOptions:
        return CrossOptions(
            C=self.C,
            propensity_C=self.propensity_C,
            audits=check_known(self.known, audits=CROSS_FIT_AUDITS).audits,
            tol=1e-4 if self.tol is None else self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )

    @contextmanager
    def _told_of_steps(self) -> Iterator[Tell]:
        """Yield what a cross-fit tells its steps to."""
        with progress_bar("cross-fitting", 0, False if self.verbose else None) as advance:

            def tell(what: str) -> None:
                advance()
                if self.verbose:
                    print(f"SAREMClassifier: {what}", flush=True)

            yield tell

    def _fit_crossed(self, everything: Training) -> None:
        training = counted(everything)
        folds = check_folds(self.cv, training, everything, self.random_state, name="cv")
        with self._told_of_steps() as tell:
            crossed = cross_fit(
                self.estimator,
                self.propensity_estimator if self._e_columns.size else None,
                training,
                self._f_columns,
                self._e_columns,
                folds,
                self._cross_options(),
                tell,
            )
        self._store_crossed(crossed, training)
        self._warn_of_driver(training, [crossed.fit.u], crossed.fit.weight, self._e_columns)

    def _store_crossed(self, crossed: Crossed, training: Training) -> None:
        fit, relaxation, w = crossed.fit, crossed.relaxation, training.weight
        self._crossed, self._inference = crossed, None
        self._digest = digest_of(training.X, training.s)
        self._weight, self._labelled, self._judged = float(w.sum()), float(w @ training.s), float(fit.weight.sum())
        self.estimators_ = [model_of(model) for model in fit.models]
        self.n_iter_, self.converged_ = len(fit.log_likelihood), fit.converged
        self.history_ = {
            "log_likelihood": np.array(fit.log_likelihood) * self._judged,
            "mean_propensity": np.array(fit.mean_propensity),
        }
        if crossed.learned is None:
            self._store_linear(relaxation.e, Design.of(self._e_columns), "propensity_")
        beside = () if crossed.beside is None else (crossed.beside,)
        self.relaxation_, self._levels = relaxation, (relaxation.levels, *beside)
        prior, frequency = relaxation.class_prior, relaxation.label_frequency
        warn_of_collapse(fit, type(self).__name__)
        warn_unless_settled(fit, type(self).__name__, max_iter=self.max_iter)
        self.log_likelihood_, self.label_frequency_ = relaxation.log_likelihood, frequency
        warn_if_all_labelled(frequency, type(self).__name__)
        warn_if_all_positive(prior, self._labelled / self._weight, type(self).__name__)
        self.class_prior_ = prior
        self._warn_if_level_is_unknown(self._labelled)

    def summary(self, *, level: float = 0.95) -> Any:
        """Return a table of what was found: both models' parameters, or what a cross-fitted classifier can say.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that an interval covers.

        Returns
        -------
        Summary or StackSummary
            Prints as text, shows as HTML in a notebook; ``to_frame()`` gives a pandas DataFrame.
        """
        if getattr(self, "_crossed", None) is None:
            return super().summary(level=level)
        return crossed_summary(self, type(self.estimator).__name__, level)

    def left_out_logits(self, X: Any, s: Any, *, sample_weight: Any = None) -> tuple[Vector, Vector]:
        """Return the logits of class and propensity of the rows of the fit, as models without each row have them.

        See `InferenceMixin.left_out_logits`.
        """
        if not isinstance(getattr(self, "_crossed", None), Crossed):
            return super().left_out_logits(X, s, sample_weight=sample_weight)
        v, table = logit_of(self.predict_propensity(X)), check_foreign_table(self, X, inner=self._reader, reset=False)
        labels = check_vector(self._coding.encode(s, "s"), "s", n_rows=v.size)
        return held_out_of_fit(self._crossed.relaxed_logits, self._digest, table, labels), v

    def _draws(self, X: Any, s: Any, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Return draws of the level; the noise of the classifier's direction is not in them."""
        if not isinstance(getattr(self, "_crossed", None), Crossed) or not self._levels:
            return super()._draws(X, s, n_draws, rng)
        u, v = logit_of(self._class_probability(X)), logit_of(self.predict_propensity(X))
        priors = draw_class_priors(self._levels, n_draws, rng)
        drawn = draw_posteriors([self.relaxation_.undone(u)], [self.relaxation_], v, priors, rng)
        drawn[self._labelled_rows(X, s, len(drawn))] = 1.0
        return drawn
