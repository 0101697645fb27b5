"""SAR-EM: joint fit of a class model and a propensity model."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import numpy as np

from scarless.checks.options import (
    BY_MEAN,
    check_jobs,
    check_positive,
    check_random_stream,
    check_share,
    warn_about_heavy_rows,
)
from scarless.checks.rows import LabelledRows
from scarless.checks.tables import refuse_device
from scarless.models.base import check_solver_options
from scarless.models.messages import warn_if_all_labelled, warn_if_all_positive
from scarless.models.pair import PairClassifier, means_all
from scarless.models.published_em import check_two_estimators
from scarless.models.reading import Given, has_more_than_labels, read_rows, read_table, without_columns
from scarless.models.summary import crossed_summary
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.linear import Design
from scarless.numerics.scores import RankingGap
from scarless.outside.progress import progress_bar
from scarless.pair.constraints import check_known
from scarless.pair.cross_fit import CrossFit, ProgressText
from scarless.pair.crossed import (
    Crossed,
    CrossOptions,
    counted,
    cross_fit,
    importances_of,
    model_of,
    problem_on_table,
    warn_about_collapse,
    warn_unless_converged_in_folds,
)
from scarless.pair.draws import check_member
from scarless.pair.fitted import FittedPair, digest_of
from scarless.pair.folds import check_folds, refuse_odd_cv
from scarless.pair.groups import GROUPS_NOT_SUPPORTED, check_groups, weights_for_groups
from scarless.pair.logistic import Training
from scarless.pair.optima import IterationReport, warn_if_swappable
from scarless.pair.problem import PairProblem
from scarless.pair.solving import one_thread_if_narrow
from scarless.pair.stack import gap_to_logistic
from scarless.pair.starts import check_starts

#: Default number of pseudo-observations of a cross-fit. By judgement.
CROSS_FIT_PSEUDO_OBSERVATIONS = 4.0


class SAREMClassifier(PairClassifier):
    r"""SAR-EM: joint fit of the class and of the labelling propensity to positive and unlabelled data.

    Labels are *selected at random* (SAR): a positive row is labelled with a probability :math:`e(x_e)` that depends on
    *propensity attributes* :math:`x_e`. With :math:`f(x) = \Pr(y=1|x)`, the fit maximises the log-likelihood of the
    observed labels,

    .. math:: \sum_i w_i \bigl[s_i(\log f_i + \log e_i) + (1-s_i)\log(1 - f_i e_i)\bigr],

    minus an L2 penalty on the coefficients of each model. The estimates are consistent only if `f` and `e` have the
    assumed form, and if `propensity_attributes` names the attributes that drive the labelling. If both models use the
    same attributes in the same way, the labels cannot separate `f` and `e`. Name only the attributes that really drive
    the labelling.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Class model with ``predict_proba``; logistic regression by default. An estimator is cross-fitted (see `cv`).
        Gradient boosting by scikit-learn (``HistGradientBoostingClassifier``), LightGBM or XGBoost maximises the
        likelihood of the labels directly, with early stopping. Other estimators with ``sample_weight`` are fitted by
        expectation maximisation (EM), and estimators without it by `BalancedDraws`. With a few hundred labelled rows,
        boosting with default settings ranks rows worse than logistic models in many tables, because its trees learn
        single labels by heart. `fit` compares both by held-out labels, in tables of up to 100 columns of numbers, and
        warns. `SARStackingClassifier` weights both.
    propensity_estimator : scikit-learn classifier, optional
        Propensity model; logistic regression by default. Not available with several looks, audits, false positives or
        known values.
    propensity_attributes : column selector or "all", optional
        Columns that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns. None: the propensity is constant, as in `SCARClassifier()`.
        "all": use every column, which needs several looks. If you do not know what drives the labelling and there is
        one look, use `SARStackingClassifier` without names, with audits if possible. ``["all"]`` selects a column of
        that name.
    classification_attributes : column selector, optional
        Columns that the class depends on, selected like `propensity_attributes`; all columns by default.
    labelling : Labelling, optional
        Further properties of the labelling: attributes of single looks, an offset, bounds, looks with different
        propensities, false positives, and how labels of audited rows are used.
    known : list, optional
        Known values from another source: `ClassPrior` and `LabelFrequency`, each with a standard error. The fit warns
        if they and the rows disagree. The list can also contain `PseudoObservations`, which keep the label frequency
        away from 0 and 1. The default is ``PseudoObservations(4)`` for a cross-fitted `estimator`, and none for two
        logistic models.
    C, propensity_C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`, of each logistic model; ``np.inf`` for no penalty.
    cv : int, splitter or list of pairs, default=5
        Number of folds, splitter, or list of pairs of row indices. Used only for an `estimator`. If it is a number, all
        folds have equal shares of labelled rows, and identical rows are in the same fold. A classifier reproduces the
        labels that it was trained on, so the class of each row is predicted out-of-fold. The fit is then recalibrated.
        For groups, pass ``list(GroupKFold().split(X, s, groups))``.
    n_starts : int or list, default=1
        Number of starts, or a list of starts. Used only for two logistic models. The likelihood can have several
        optima, and the best one is selected (see `selection_`). A list can contain "paper" (the start of Bekker and
        others), "exclusion" (a fit whose class model does not use the propensity attributes), a class prior between 0
        and 1, and "random". With a single start, `fit` tries another start on about 1,000 rows, and warns if it leads
        to a clearly higher optimum. In 200 small random problems, one start missed the best optimum in 19, and five
        starts in none.
    tol : float, optional
        Stop if the log-likelihood per row gains less than this: in one more Newton step (default 1e-10), or in the last
        10 steps of EM together (default 1e-4).
    max_iter : int, default=500
        Maximum number of iterations.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of the random numbers, for random starts and folds. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of folds computed in parallel, in threads. None: one fold at a time; for boosting on 10,000 to 200,000
        rows, one fold for each OpenMP thread.
    verbose : bool, default=False
        Whether to print a line for each iteration. Newton: start, penalised objective per row (lower is better),
        predicted gain and length of the step. EM: log-likelihood per row and slope.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic class model; 0 for columns that it does not use. Absent if `estimator` is given.
    propensity_coef_, propensity_intercept_ : arrays of shape (n_models, n_features) and (n_models,)
        Logistic propensity model, or one for each look. Absent if `propensity_estimator` is given.
    visit_coef_ : array of shape (n_models, n_visit_attributes)
        Coefficients of visit attributes. This and the next four attributes exist only for fits to several looks,
        audits, false positives or known values.
    n_looks_, n_audited_ : int
        Number of looks, and number of audited rows.
    label_frequencies_ : array of shape (n_looks,)
        Estimated :math:`\Pr(s_k=1|y=1)` of each look, as if the look had taken place in all rows.
    false_positive_rate_ : float or array
        Estimated or given false-positive rate.
    estimators_ : list
        Cross-fit only: one fitted model for each fold.
    recalibration_ : Recalibration
        Cross-fit only: `slope` and `shift` of the classifier's logit, and `grid`, the likelihood of each class prior.
    feature_importances_ : array
        Cross-fit only, for models that have them: mean importances over folds, with sum 1.
    class_prior_ : float
        Estimated :math:`\Pr(y=1)` of the training rows: the mean of `f`.
    label_frequency_ : float
        Estimated :math:`\Pr(s=1|y=1)`: the mean of `e` over positives, :math:`\sum f e / \sum f`. With several looks,
        the probability that a positive gets a label at any look that took place.
    log_likelihood_ : float
        Log-likelihood of the observed labels under the final models, without penalties.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the stopping rule was met.
    history_ : dict of arrays
        One entry for each iteration: "log_likelihood"; for Newton's method also "gain" (predicted) and "step" (share of
        the full step); for a cross-fit also "mean_propensity".
    optima_ : list of Optimum
        Two logistic models only: the distinct optima, best penalised objective first. Each has `objective`,
        `log_likelihood`, `class_prior`, `mean_propensity`, `label_frequency`, `starts` and `converged`. Optima with
        swapped models have `swapped` True and are never selected.
    selection_ : Selection
        Two logistic models only: position of the selected optimum (`index`), and the `reason`. The best optimum is
        selected. With one label for each row, optima within one standard error of the best are tied with it, and of
        tied optima the one with the lowest label frequency is selected.
    higher_optimum_ : Optimum or None
        Two logistic models only: a clearly higher optimum that another start found. `fit` searches for it only if there
        is one label for each row and "paper" is the only start.
    form_test_ : FormTest or None
        Two logistic models and one label for each row only: score test of the form of both models, on up to 5,000 rows.
        `rejected`: whether the labels contradict the form; the fit then warns. `direction` is the most significant
        missing term, with `statistic` and `p_value`, adjusted for the `n_directions` tried. `driver` is a column
        outside the propensity attributes that seems to drive the labelling, or -1, and `gain` its gain in
        log-likelihood. `form_test_` is None if the rows are not in memory, the models have very many columns, or fewer
        than 20 of these rows are labelled (or unlabelled). It is also None for fits in a cross-validation, whose models
        are not kept: a search of scikit-learn tests the form when it fits the best candidate to all rows.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    See Also
    --------
    SAREMClassifierCV : Chooses the penalties and the attributes of the class model.
    PropensityWeightedClassifier : For known propensities.
    scarless.diagnostics : Checks of a fit.

    Notes
    -----
    Tools of scikit-learn that compare predictions with `y` treat unlabelled rows as negative. Do not use
    ``CalibratedClassifierCV``: it turns class probabilities into probabilities of a label. Instead of
    ``scoring="roc_auc"``, leave `scoring` out, or use `scarless.metrics.make_pu_scorer`. See the guide, section
    Cross-validation and pipelines.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from Positive
    and Unlabeled Data", ECML-PKDD 2019.
    Vuong, "Likelihood Ratio Tests for Model Selection and Non-Nested Hypotheses", Econometrica 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.labelling import LogisticSAR, simulate_labels
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
    >>> e = LogisticSAR(attributes=[2], coefficients=[1.5]).propensity(X)
    >>> s = simulate_labels(y, e, random_state=1)
    >>> model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> print(f"positives: {y.mean():.2f} true, {model.class_prior_:.2f} estimated, {s.mean():.2f} labelled")
    positives: 0.50 true, 0.53 estimated, 0.25 labelled
    >>> round(float(np.abs(model.predict_propensity(X) - e).mean()), 2)
    0.02
    """

    def __init__(
        self,
        estimator: Any = None,
        propensity_estimator: Any = None,
        *,
        propensity_attributes: Any = None,
        classification_attributes: Any = None,
        labelling: Any = None,
        known: Any = None,
        C: float = 1.0,
        propensity_C: float = 1.0,
        cv: Any = 5,
        n_starts: Any = 1,
        tol: Any = None,
        max_iter: int = 500,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.propensity_estimator = propensity_estimator
        self.propensity_attributes = propensity_attributes
        self.classification_attributes = classification_attributes
        self.labelling = labelling
        self.known = known
        self.C = C
        self.propensity_C = propensity_C
        self.cv = cv
        self.n_starts = n_starts
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        audit: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit both models.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each. PyTorch tensors and other arrays on a device also work, if both models
            are logistic, there is one label for each row, and scikit-learn's ``array_api_dispatch`` is enabled.
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows. With several looks, one column for each look;
            NaN, None or -1 marks a look that did not take place. For rows in files, the name of the label column, or a
            list of names. See the guide, section Cross-validation and pipelines.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.
        audit : array of shape (n_rows,), optional
            True class of audited rows, 1 or 0; NaN, None or -1 for rows that were not audited. Rows may be chosen for
            audits by attributes, by labels or at random, but not because they were expected to be positive: otherwise
            the class prior is too high. If findings of audits were entered as labels, see `Labelling`.
        groups : array of shape (n_rows,) or "rows", optional
            Group of each row, for example the patient. Standard errors and intervals then account for dependence within
            groups (sandwich formula). "rows": each row is a group, for survey weights. Needs two logistic models.

        Returns
        -------
        self
        """
        logistic = self._check_parameters()
        group = None if groups is None else check_groups(groups, X)
        sample_weight = weights_for_groups(sample_weight, groups)
        more = has_more_than_labels(self, X, y, audit)
        if group is not None and not logistic:
            raise ValueError(GROUPS_NOT_SUPPORTED)
        if more:
            refuse_device(X, "Several looks, audits, false positives and known values")
            self._refuse_with_looks()
        if not logistic:
            self._fit_crossed(X, y, sample_weight, audit, more=more)
            return self
        given = read_rows(self, X, y, sample_weight, audit) if more else self._one_label(X, y, sample_weight)
        self._fit_given(given)
        self._account_for(group, given.rows.engine)
        if more:
            self._warn_if_class_prior_is_uncertain()
        return self

    def _one_label(self, X: Any, y: Any, sample_weight: Any) -> Given:
        return self._seen(self._check_rows(X, y, sample_weight), X)

    def _seen(self, rows: LabelledRows, X: Any) -> Given:
        """Return checked rows with one label each, and the columns of each model."""
        f_columns = self._columns(X, self.classification_attributes, "classification_attributes")
        e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        if type(self.estimator) is type(self.propensity_estimator) and not means_all(self.propensity_attributes):
            f, e, penalties = Design.of(f_columns), Design.of(e_columns), (self.C, self.propensity_C)
            warn_if_swappable(f, e, type(self).__name__, penalties=penalties)
        return Given(rows, f_columns, e_columns)

    def _can_fit_from_engine(self) -> bool:
        return self.fitted_pair_.looks is None and self._check_parameters()

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        self._fit_given(self._seen(rows, X))

    def _fit_given(self, given: Given) -> None:
        """Fit two logistic models by Newton's method."""
        problem = given.problem(self.C, self.propensity_C)
        tol, rng = 1e-10 if self.tol is None else self.tol, check_random_stream(self.random_state)
        with one_thread_if_narrow(problem.n_parameters):  # once for all passes
            problem = problem.with_pseudo_observations(max(check_known(self.known).pseudo_weight, 0.0))
            progress = _print_iteration if self.verbose else None
            found = self._fit_from_starts(problem, self.n_starts, tol, rng=rng, progress=progress)
        self._store_fit(given, problem, found)

    def _refuse_with_looks(self) -> None:
        """Raise if a parameter does not work with several looks, audits, false positives or known values."""
        if self.propensity_estimator is not None:
            raise ValueError(
                "propensity_estimator needs one label for each row, without audits, false positives, offset, bounds or "
                "known values. Leave propensity_estimator out: the propensity model is then logistic. estimator can "
                "still be any classifier."
            )
        if not isinstance(self.n_starts, int):
            raise ValueError(
                "n_starts must be a whole number if there are several looks, audits, false positives, offset, bounds "
                f"or known values; got {self.n_starts!r}."
            )
        if check_known(self.known, pseudo_weight=-1.0).pseudo_weight >= 0:
            raise ValueError(
                "known: PseudoObservations cannot be combined with several looks, audits, false positives, an offset, "
                "bounds, ClassPrior or LabelFrequency. Leave PseudoObservations out."
            )

    # --- cross-fitted estimators

    def _fit_crossed(self, X: Any, y: Any, sample_weight: Any, audit: Any, *, more: bool) -> None:
        """Cross-fit the user's classifier together with the propensity model, and recalibrate both."""
        if more:
            everything, training, given = read_table(self, X, y, sample_weight, audit)
        else:
            everything = self._check_training(X, y, sample_weight)
            training = counted(everything)
            given = self._seen(without_columns(training, self._coding), X)
        audited = given.audit if given.audit.size else None
        folds = check_folds(self.cv, training, everything, self.random_state, name="cv", audit=audited)
        problem = given.problem(self.C, self.propensity_C)
        place = (training, problem, given.f_columns, folds, self._cross_options())
        with self._step_callback() as report:
            crossed = cross_fit(
                self.estimator,
                *place,
                report,
                propensity_model=self.propensity_estimator if given.e_columns.size else None,
            )
        gap = self._gap_in_audits(crossed.fit.u, training, given, folds, self._cross_options())
        if self.estimator is not None and crossed.learned is None and given.looks is None:
            compare = partial(gap_to_logistic, crossed.fit.u, crossed.recalibration, *place)
            self._warn_if_logistic_explains_more(compare, training)
        self._store_crossed(crossed, training, given, problem, gap)

    def _store_crossed(
        self, crossed: Crossed, training: Training, given: Given, problem: PairProblem, gap: RankingGap | None
    ) -> None:
        fit, recalibration, name = crossed.fit, crossed.recalibration, type(self).__name__
        self._store_folds(fit)
        warn_about_collapse(fit, name)
        warn_unless_converged_in_folds(fit, name, max_iter=self.max_iter)
        pair = FittedPair(
            objective=crossed.objective,
            parameters=crossed.parameters,
            e_columns=given.e_columns,
            weight=problem.weight,
            labelled=float(problem.totals.labelled),
            looks=given.looks,
            source=crossed,
            recalibration=recalibration,
            grids=crossed.grids,
            held_out_weight=float(fit.weight.sum()),
            digest=digest_of(training.X, training.s),
        )
        self._hold(pair)
        if crossed.learned is not None:
            del self.propensity_coef_, self.propensity_intercept_
        self.recalibration_ = recalibration
        self.log_likelihood_, self.label_frequency_ = recalibration.log_likelihood, recalibration.label_frequency
        self.class_prior_ = recalibration.class_prior
        if given.looks is None:
            warn_if_all_labelled(self)
            warn_if_all_positive(self.class_prior_, problem.labelled_share, name)
            self._warn_about_driver(training, [fit.u], fit.weight, given.e_columns)
        else:
            recalibrated, parameters = problem_on_table(crossed, training, problem)
            self._store_recalibrated_looks(given, recalibrated, parameters, gap)
            warn_about_heavy_rows(float(recalibrated.totals.n_rows), recalibrated.weight, name, BY_MEAN)
        self._warn_if_class_prior_is_uncertain()

    def _store_folds(self, fit: CrossFit) -> None:
        """Store the models of the folds and the history of the fit."""
        self.estimators_ = [model_of(model) for model in fit.models]
        self.n_iter_, self.converged_ = len(fit.log_likelihood), fit.converged
        self.history_ = {
            "log_likelihood": np.array(fit.log_likelihood) * float(fit.weight.sum()),
            "mean_propensity": np.array(fit.mean_propensity),
        }

    def _cross_options(self) -> CrossOptions:
        return CrossOptions(
            C=self.C,
            propensity_C=self.propensity_C,
            pseudo_weight=check_known(self.known, pseudo_weight=CROSS_FIT_PSEUDO_OBSERVATIONS).pseudo_weight,
            tol=1e-4 if self.tol is None else self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            seed=int(check_random_stream(self.random_state).integers(2**31)),
        )

    @contextmanager
    def _step_callback(self) -> Iterator[ProgressText]:
        """Yield the function that a cross-fit calls after each step."""
        with progress_bar("cross-fitting", 0, False if self.verbose else None) as advance:

            def report(what: str) -> None:
                advance()
                if self.verbose:
                    print(f"SAREMClassifier: {what}", flush=True)

            yield report

    @property
    def feature_importances_(self) -> Vector:
        """Mean importances over folds; LightGBM and XGBoost measure them by gain."""
        source: Any = None if self._pair is None else self._pair.source
        found = [] if source is None else [each for each in map(importances_of, source.fit.models) if each is not None]
        if not found:
            raise AttributeError(
                "feature_importances_ needs a cross-fitted estimator that has importances, such as LightGBM, XGBoost "
                "or a forest. For other models use sklearn.inspection.permutation_importance with "
                "scoring=scarless.metrics.make_pu_scorer(...)."
            )
        mean = np.mean([each / max(float(each.sum()), 1e-300) for each in found], axis=0)
        return np.asarray(mean)

    def summary(self, *, level: float = 0.95) -> Any:
        """Return a table of the estimates, with intervals.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Confidence level.

        Returns
        -------
        Summary or StackSummary
            Prints as text, and as HTML in a notebook; ``to_frame()`` returns a pandas DataFrame.
        """
        if self.fitted_pair_.source is None:
            return super().summary(level=level)
        return crossed_summary(self, check_share(level, "level"), self._remarks())

    def _inner(self) -> Any:
        """Return the estimator of the user that the table is passed to, or None."""
        return self.propensity_estimator if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.propensity_attributes is not None and self.propensity_estimator is None:
            tags.input_tags.allow_nan = False  # the logistic propensity model cannot read NaN
        return tags

    def _check_parameters(self) -> bool:
        """Check the parameters, and return whether both models are logistic and so fitted by Newton's method."""
        check_solver_options(self)
        check_positive(self.propensity_C, "propensity_C")
        check_two_estimators(self, check_estimator=check_member)
        refuse_odd_cv(self.cv, "cv")
        check_jobs(self.n_jobs)
        logistic = self.estimator is None and self.propensity_estimator is None
        if self.cv is None and not logistic:
            raise ValueError(
                "cv must not be None if an estimator is given. Estimators are cross-fitted, because a classifier "
                "reproduces the labels that it was trained on. Use cv=5. To fit without folds, as in the paper, use "
                "PublishedEMClassifier."
            )
        check_known(self.known)
        check_starts(self.n_starts, logistic=logistic)
        return logistic


def _print_iteration(step: IterationReport) -> None:
    print(
        f"{step.start}, iteration {step.number}: objective per row {step.objective:.6f}, predicted gain "
        f"{step.gain:.1e}, step {step.share:.2g}",
        flush=True,
    )
