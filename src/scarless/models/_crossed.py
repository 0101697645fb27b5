"""A pair whose classifier is the user's: fitted in folds, relaxed, stored, and what it can say of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from scarless.checks.looks import Codes
from scarless.checks.options import check_share
from scarless.checks.rows import warn_of_row_order
from scarless.checks.tables import check_foreign_table, take_rows
from scarless.checks.vectors import check_vector, check_weight
from scarless.engines import Engine, attach
from scarless.models._answers import LooksAnswers
from scarless.models._observed import Looks, any_label
from scarless.models._pair import PairClassifier
from scarless.models.base import warn_if_all_labelled, warn_if_all_positive
from scarless.models.summary import MemberSummary, StackSummary, attribute_names, crossed_summary, few_labels_remarks
from scarless.models.uncertainty import digest_of, held_out_of_fit
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.interval import Interval
from scarless.numerics.linear import Design
from scarless.numerics.looks import LookTerms
from scarless.outside.progress import progress_bar
from scarless.pair.cross_fit import Observed, Tell, logit_of
from scarless.pair.crossed import (
    Crossed,
    CrossOptions,
    counted,
    cross_fit,
    importances_of,
    model_of,
    numeric_columns,
    one_label_problem,
    problem_on_table,
    warn_of_collapse,
    warn_unless_settled,
)
from scarless.pair.facts import check_known, in_group
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.folds import check_folds
from scarless.pair.groups import BY_MEAN, warn_of_heavy_rows
from scarless.pair.inference import PairInference, pair_inference
from scarless.pair.logistic import Training, engine_of, labelled_rows
from scarless.pair.problem import PairProblem, what_is_seen
from scarless.pair.relaxed import draw_class_priors
from scarless.pair.stack import draw_posteriors

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
    _crossed: Any  # Crossed, or None
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
            options = self._cross_options()
            crossed = cross_fit(
                self.estimator,
                training,
                one_label_problem(training, self._e_columns, options),
                self._f_columns,
                folds,
                options,
                tell,
                propensity_model=self.propensity_estimator if self._e_columns.size else None,
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
        self.relaxation_, self._levels = relaxation, crossed.levels
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
        if getattr(self, "_crossed", None) is None or self._looks is not None:
            return super().left_out_logits(X, s, sample_weight=sample_weight)
        v, table = logit_of(self.predict_propensity(X)), check_foreign_table(self, X, inner=self._reader, reset=False)
        labels = check_vector(self._coding.encode(s, "s"), "s", n_rows=v.size)
        return held_out_of_fit(self._crossed.relaxed_logits, self._digest, table, labels), v

    def _draws(self, X: Any, s: Any, n_draws: int, rng: np.random.Generator) -> Matrix:
        """Return draws of the level; the noise of the classifier's direction is not in them."""
        if getattr(self, "_crossed", None) is None or self._looks is not None or not self._levels:
            return super()._draws(X, s, n_draws, rng)
        u, v = logit_of(self._class_probability(X)), logit_of(self.predict_propensity(X))
        priors = draw_class_priors(self._levels, n_draws, rng)
        drawn = draw_posteriors([self.relaxation_.undone(u)], [self.relaxation_], v, priors, rng)
        drawn[self._labelled_rows(X, s, len(drawn))] = 1.0
        return drawn


class LooksCrossedClassifier(CrossedClassifier, LooksAnswers):
    """The half of `SAREMClassifier` that cross-fits a classifier to more than one label column."""

    _looks_found: PairInference | None = None  # of the relaxed logits: slope, shift and propensities

    def _fit_looks_crossed(self, X: Any, y: Any, sample_weight: Any, audit: Any) -> None:
        """Check, compute, store."""
        checked, codes = self._read_looks(X, y, audit)
        everything = self._check_training(X, any_label(checked, self.pos_label), sample_weight)
        self._coding, self.classes_ = checked.coding, checked.coding.classes
        self._looks = looks = self._design_looks(X, checked, codes)
        counts = np.flatnonzero(everything.weight)
        training = Training(take_rows(everything.X, counts), everything.s[counts], everything.weight[counts])
        folds = check_folds(self.cv, training, everything, self.random_state, name="cv", audit=codes[counts])
        labels, seen = looks.counts(checked.labels[counts])
        rows: dict[str, Any] = {"s": training.s, "labels": labels, "looks": seen, "audit": codes[counts]}
        problem = self._looks_template(X, training, looks, rows)
        with self._told_of_steps() as tell:
            options = self._cross_options()
            crossed = cross_fit(self.estimator, training, problem, self._f_columns, folds, options, tell)
        relaxed, parameters = problem_on_table(crossed, training, problem)
        taken = fit_pair(relaxed, parameters, FitOptions(1e-10, 200))  # doubts compare with an optimum
        self._doubt_looks(relaxed, taken, checked.labels[counts], looks)
        self._store_looks_crossed(crossed, relaxed, taken.at(parameters), training, looks)

    def _looks_template(self, X: Any, training: Training, looks: Looks, rows: dict[str, Any]) -> PairProblem:
        """Return what looks are like, in the table's own columns, with facts; groups are added to the rows' values."""

        def with_group(engine: Engine, name: str, columns: tuple[int, ...], values: tuple[Any, ...]) -> Engine:
            numbers = numeric_columns(training.X, np.array(columns, dtype=np.intp))
            rows.update(in_group(numbers, rows, name, tuple(range(len(columns))), values))  # type: ignore[arg-type]
            return attach(engine, **{name: rows[name]})

        engine = engine_of(np.empty((training.s.size, 0)), w=training.weight, **rows)
        engine, facts = self._facts(engine, X, looks, with_group)
        totals = labelled_rows(training._replace(X=np.empty((training.s.size, 0))), self._coding).totals
        seen = what_is_seen(engine, looks.objective)
        return PairProblem(engine, totals, looks.objective, self.C, self.propensity_C, None, facts, seen)

    def _store_looks_crossed(
        self, crossed: Crossed, problem: PairProblem, taken: PairFit, training: Training, looks: Looks
    ) -> None:
        fit = crossed.fit
        self._crossed, self._inference = crossed, None
        w = training.weight
        self._weight, self._labelled, self._judged = float(w.sum()), float(w @ training.s), float(fit.weight.sum())
        self.estimators_ = [model_of(model) for model in fit.models]
        self.n_iter_, self.converged_ = len(fit.log_likelihood), fit.converged
        self.history_ = {
            "log_likelihood": np.array(fit.log_likelihood) * self._judged,
            "mean_propensity": np.array(fit.mean_propensity),
        }
        self._looks_found = inference = pair_inference(problem, taken)
        warn_unless_settled(fit, type(self).__name__, max_iter=self.max_iter)
        self._store_looks_found(problem, taken, looks, inference)
        self.relaxation_, self._levels = crossed.relaxation, crossed.levels
        warn_of_heavy_rows(float(problem.totals.n_rows), problem.weight, type(self).__name__, BY_MEAN)

    def _looks_crossed(self) -> Crossed | None:
        """Return a cross-fit to several looks, where there is one."""
        return None if self._looks is None else getattr(self, "_crossed", None)

    def _probability_of(self, X: Any, coef: Vector, intercept: float) -> Vector:
        if self._looks_crossed() is None:
            return super()._probability_of(X, coef, intercept)
        table = check_foreign_table(self, X, inner=self._reader, reset=False)
        columns = np.flatnonzero(coef)
        seen = numeric_columns(table, columns)
        return np.asarray(expit(np.asarray(seen @ coef[columns], dtype=np.float64) + intercept))

    def _crossed_terms(self, X: Any, y: Any, audit: Any, name: str) -> LookTerms:
        """Return what rows say under a cross-fit to several looks."""
        crossed = self._looks_crossed()
        assert crossed is not None
        table = check_foreign_table(self, X, inner=self._reader, reset=False)
        given: tuple[Codes, ...] = self._looks_again(X, y, audit, table.shape[0], name)
        labels, seen, codes = (each.astype(np.float64) for each in given)
        u = crossed.logits(table)
        found = (labels.sum(axis=1) > 0).astype(np.float64)
        return Observed(found, labels, seen, codes, crossed.objective.bounds).terms(u, crossed.look_logits(table))

    def _looks_posterior(self, X: Any, y: Any, audit: Any) -> Vector:
        if self._looks_crossed() is None:
            return super()._looks_posterior(X, y, audit)
        return np.asarray(self._crossed_terms(X, y, audit, "s").q)

    def _looks_score(self, X: Any, y: Any, sample_weight: Any) -> float:
        if self._looks_crossed() is None:
            return super()._looks_score(X, y, sample_weight)
        value = np.asarray(self._crossed_terms(X, y, None, "y").value)
        w = check_weight(sample_weight, n_rows=value.size)
        warn_of_row_order(X, sample_weight=sample_weight)
        counted = w > 0
        return float(w[counted] @ value[counted]) / float(w.sum())

    def _detection(self, X: Any, order: NDArray[np.intp]) -> Vector:
        if self._looks_crossed() is None:
            return super()._detection(X, order)
        f = self._class_probability(X)
        crossed: Any = self._crossed
        table = check_foreign_table(self, X, inner=self._reader, reset=False)
        missed = np.cumprod(1.0 - crossed.objective.propensity(crossed.look_logits(table)[:, order]), axis=1)
        return np.asarray(f @ (1.0 - missed) / f.sum())

    def class_prior_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.
        kind : {"auto", "levels", "model"}, default="auto"
            "model": by the delta method, as if both models were of the right form and not chosen. "levels", for
            relaxed fits: from the likelihood of every class prior, a nat of log-likelihood counting for a third.
            "auto": "levels" where there are any, else "model". After a cross-fit to several looks or audits, "model" is
            by slope and shift of the held-out logits and the propensities.

        Returns
        -------
        Interval
            ``low, high``.
        """
        found = self._shares_of_looks(kind)
        if found is None:
            return super().class_prior_interval(level=level, kind=kind)
        return found.class_prior_interval(check_share(level, "level"))

    def label_frequency_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(s=1|y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.
        kind : {"auto", "levels", "model"}, default="auto"
            As in `class_prior_interval`.

        Returns
        -------
        Interval
            ``low, high``. Of several looks: for the probability that any of them finds a label.
        """
        found = self._shares_of_looks(kind)
        if found is None:
            return super().label_frequency_interval(level=level, kind=kind)
        return found.interval_of(found.label_frequency, check_share(level, "level"))

    def _shares_of_looks(self, kind: str) -> PairInference | None:
        """Return what the delta method knows of the shares after a cross-fit to several looks; None elsewhere."""
        return self._looks_found if self._kind(kind) == "model" and self._looks_crossed() is not None else None

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
        check_is_fitted(self)
        crossed = self._looks_crossed()
        if crossed is None:
            return super().summary(level=level)
        looks, level = self._need_looks("summary"), check_share(level, "level")
        row = MemberSummary(
            type(self.estimator).__name__,
            "",
            self.log_likelihood_ / self._judged,
            crossed.relaxation.slope,
            self.class_prior_,
            self.class_prior_interval(level=level),
            self.label_frequency_,
        )
        return StackSummary(
            title=type(self).__name__,
            level=level,
            n_rows=self._weight,
            labelled=self._labelled,
            members=(row,),
            propensity=tuple(self._propensity_parameters(looks)),
            remarks=(self._told_of_shares(looks), *few_labels_remarks(self._labelled), *self._looks_remarks()),
        )

    def _propensity_parameters(self, looks: Looks) -> list[tuple[str, float]]:
        names = [*attribute_names(self)[self._e_columns], *looks.visits, "intercept"]
        found = []
        for k, intercept in enumerate(self.propensity_intercept_):
            values = [*self.propensity_coef_[k, self._e_columns], *self.visit_coef_[k], intercept]
            where = "" if len(self.propensity_intercept_) == 1 else f" ({looks.names[k]})"
            found += [(f"{name}{where}", float(value)) for name, value in zip(names, values, strict=True)]
        return found

    def _told_of_shares(self, looks: Looks) -> str:
        """Return the numbers of looks and audits, label frequencies and rates in a sentence."""
        frequencies = ", ".join(f"{share:.3f}" for share in np.unique(self.label_frequencies_.round(3)))
        rates = ", ".join(f"{rate:.3f}" for rate in np.ravel(np.asarray(self.false_positive_rate_, dtype=np.float64)))
        return (
            f"Looks: {looks.n_looks}; audited rows: {looks.n_audited}; label frequency of a look: {frequencies}; "
            f"false-positive rate: {rates}. Intervals do not know what the classifier itself may be wrong by; "
            "bootstrap_intervals refits it on resamples."
        )
