"""SAR-EM: classifier and labelling propensity learned together."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from scarless.checks.options import check_jobs, check_positive, check_random_stream, check_share
from scarless.checks.rows import LabelledRows
from scarless.checks.tables import refuse_device
from scarless.models.base import check_solver_options
from scarless.models.messages import warn_if_all_labelled, warn_if_all_positive
from scarless.models.pair import PairClassifier, means_all
from scarless.models.published_em import check_two_estimators
from scarless.models.reading import Given, read_rows, read_table, tells_more, without_columns
from scarless.models.summary import crossed_summary
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.linear import Design
from scarless.outside.progress import progress_bar
from scarless.pair.constraints import check_known
from scarless.pair.cross_fit import CrossFit, Tell
from scarless.pair.crossed import (
    Crossed,
    CrossOptions,
    counted,
    cross_fit,
    importances_of,
    model_of,
    problem_on_table,
    warn_about_collapse,
    warn_unless_settled,
)
from scarless.pair.fitted import FittedPair, digest_of
from scarless.pair.folds import check_folds, refuse_odd_cv
from scarless.pair.groups import BY_MEAN, GROUPS_NEED, as_shares, check_groups, warn_about_heavy_rows
from scarless.pair.logistic import Training
from scarless.pair.optima import Step, warn_if_swappable
from scarless.pair.problem import PairProblem
from scarless.pair.solving import narrow_alone
from scarless.pair.starts import check_starts

CROSS_FIT_PSEUDO_OBSERVATIONS = 4.0  # imaginary, where nobody says how many


class SAREMClassifier(PairClassifier):
    r"""Learn the true class and the labelling propensity from positive and unlabelled rows.

    Labels are *selected at random given attributes* (SAR): a positive row is labelled with a probability
    :math:`e(x_e)` that depends on known *propensity attributes* :math:`x_e`. With
    :math:`f(x) = \Pr(y=1|x)`, the model maximises the observed log-likelihood

    .. math:: \sum_i w_i \bigl[s_i(\log f_i + \log e_i) + (1-s_i)\log(1 - f_i e_i)\bigr]

    minus an L2 penalty on the coefficients of each model. The answer is right when the true `f` and `e` are of
    the model's form and the propensity attributes are the right ones; `f` and `e` cannot be told apart when
    both see the same attributes in the same way, so name as few propensity attributes as are true.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Model of the class; anything with ``sample_weight`` and ``predict_proba``. None: logistic regression. It is
        cross-fitted (see `cv`). Boosting by scikit-learn (``HistGradientBoostingClassifier``), LightGBM and
        XGBoost climbs the observed likelihood itself, with early stopping on held-out labels, and the estimator's own
        number of rounds as a limit; all others are fitted by expectation maximisation. Several looks, audits, false
        positives and known facts go with either; the propensity is logistic then.
    propensity_estimator : scikit-learn classifier, optional
        Model of the labelling. None: logistic regression.
    propensity_attributes : column selector or "all", optional
        What the labelling depends on. Columns by name, position, slice, mask, callable or polars selector; the name of
        an encoded attribute stands for all of its columns. None: the propensity is one constant, the same fit as
        `SCARClassifier()`, which is the place to go for SCAR by maximum likelihood. The word "all": every column, for
        who cannot name any; the propensity is then much less sure, and `SARStackingClassifier` serves better.
        ``["all"]`` is a column of that name.
    classification_attributes : column selector, optional
        What the class may depend on, selected as `propensity_attributes` are. None: all columns.
    labelling : Labelling, optional
        What is said of the labelling beyond its attributes: attributes of single looks, an offset, bounds, looks with
        coefficients of their own, false positives, what labels of audited rows mean.
    known : list, optional
        What is known from elsewhere: `ClassPrior` and `LabelFrequency`, each with a standard error. There is a warning
        where it and the rows disagree. Also `PseudoObservations`, which keep the label frequency off 0 and 1 where the
        labels hardly care: 4 of them where an `estimator` is cross-fitted, and none for two logistic models, which is
        the paper's likelihood, unless you say otherwise.
    C, propensity_C : float, default=1.0
        Inverse strength of the L2 penalty on each logistic model, as in ``LogisticRegression``; ``np.inf`` for none.
        Intercepts are never penalised.
    cv : int, splitter or list of pairs, default=5
        With an `estimator` of your own: folds. A classifier that has seen a row's label reproduces it, EM then finds
        that every positive is labelled, and its start is its answer; so each row's class is judged by models that were
        fitted without its fold. A number: each fold has the same share of labelled rows, and equal rows are in one
        fold; for groups, ``list(GroupKFold().split(X, s, groups))``. Predictions are the mean of the folds' models,
        with scale and level estimated anew from held-out logits, together with the propensity, by the observed
        likelihood: see `SAREMClassifierCV`. `PublishedEMClassifier` fits without folds.
    n_starts : int or list, default=1
        How many starts to climb from, or which; for two logistic models. The likelihood may have several optima. Of
        those found, the best penalised one is taken, unless others are behind it by less than the standard error of the
        difference: then, among these, the one with the lowest label frequency, which is the paper's principle. After a
        single start, the paper's, `fit` looks from another one on about 1,000 rows and warns where it leads clearly
        higher (by more than 2 in penalised log-likelihood, at a class prior more than 0.02 away); models of more than
        1,500 parameters are left out.
        In a list, "paper" is a classifier of labelled against unlabelled rows with equal weight, and the propensity
        that it implies; "exclusion", both models fitted while the classifier could not see the propensity attributes;
        a number between 0 and 1, the paper's start moved to that class prior; "random", random coefficients. A number
        of starts takes the paper's first, then one by exclusion, one where all positives are labelled, one where all
        rows are positive, the best of up to 35 rough climbs on about 1,000 rows, class priors, and random ones. Of 200
        random small problems (``python -m benchmarks.starts``) one start ended below the best of twenty others in 19,
        five in none.
    tol : float, optional
        A fit ends when it gains less than this in log-likelihood per row: by Newton's method, where one more step is
        predicted to (penalised; default 1e-10); by cross-fitted EM, where the last 10 steps together did (1e-4).
    max_iter : int, default=500
        Limit on the iterations.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of random starts, and of folds.
    n_jobs : int, optional
        Folds of a cross-fit that are fitted at the same time, in threads.
        None: one fold at a time; boosting of 10,000 to 200,000 rows fits as many as OpenMP has threads.
    verbose : bool, default=False
        Print a line for each iteration. Newton: the start's name, the penalised objective per row (minus the
        log-likelihood, so lower is better), what the step is predicted to gain of it, and the share of the step that
        was taken. EM: log-likelihood per row and slope.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        The logistic classifier; 0 for columns that it does not see. Absent where `estimator` is given.
    propensity_coef_, propensity_intercept_ : arrays of shape (n_models, n_features) and (n_models,)
        The logistic propensity model; one for each look where they do not share it. Absent where
        `propensity_estimator` is given.
    visit_coef_ : array of shape (n_models, n_visit_attributes)
        Coefficients of visit attributes, in their order. Like the next four, of a fit to several looks, audits, false
        positives or known facts only.
    n_looks_, n_audited_ : int
        How many looks there are, and how many rows were checked.
    label_frequencies_ : array of shape (n_looks,)
        Estimated :math:`\Pr(s_k=1|y=1)` of each look, if it took place in all rows.
    false_positive_rate_ : float or array
        Estimated, or as it was given.
    estimators_ : list
        Of a cross-fit: one fitted model for each fold.
    recalibration_ : Recalibration
        Of a cross-fit: `slope` and `shift` of the classifier's logit, and `grid`, how likely each class prior
        is.
    feature_importances_ : array
        Of a cross-fit whose models have them: their mean over folds, with sum 1.
    class_prior_ : float
        Estimated :math:`\Pr(y=1)` of the training rows: the mean of `f`.
    label_frequency_ : float
        Estimated :math:`\Pr(s=1|y=1)`: the mean of `e` over positives, :math:`\sum f e / \sum f`. Of several looks:
        that any of those that took place finds a label.
    log_likelihood_ : float
        Observed log-likelihood of the training rows under the final models, penalties not included.
    n_iter_ : int
        Iterations used.
    converged_ : bool
        Whether the stopping rule was met.
    history_ : dict of arrays
        "log_likelihood" (total, observed) and, for EM, "slope" (of the propensities): one entry for the start and one
        per iteration. For Newton, "gain" (predicted by the step) and "step" (share of it taken): one per iteration. Of
        several looks, audits or facts: "objective" (minus the penalised log-likelihood).
    optima_ : list of Optimum
        Newton only, and like the next two of one label of each row without more (several looks, audits and facts climb
        from a few starts, and the highest end is taken): the distinct optima found, best penalised objective first,
        each with `objective`, `log_likelihood`, `class_prior`, `mean_propensity`, `label_frequency`, the `starts` that
        led to it, `converged`. Where both models see the same attributes under different penalties, optima with
        classifier and propensity model swapped are among them, with `swapped` True, and are never taken.
    selection_ : Selection
        Newton only: which of them was taken (`index`) and why (`reason`).
    higher_optimum_ : Optimum or None
        Newton only: what another start was seen to lead to, where the paper's is the only one and led clearly lower.
    form_test_ : FormTest or None
        Newton only: a score test of the form of both models, on up to 5,000 rows in memory with at least 20 labels:
        `direction`, what either model would have to see besides, with `statistic` and `p_value`, adjusted for the
        `n_directions` tried; `driver`, a column that is not named and by the labels drives the labelling, or -1, with
        its `gain`; `rejected`, whether the labels contradict the form: there is a warning then.
    n_features_in_ : int
        Number of columns seen in `fit`.
    feature_names_in_ : array of str
        Their names, where `X` has them.

    See Also
    --------
    SAREMClassifierCV : Chooses the penalties and the classifier's attributes.
    PropensityWeightedClassifier : When the propensity is known.
    scarless.diagnostics : How far a fit can be believed.

    Notes
    -----
    What scikit-learn fits or chooses by `y` takes the observed labels for classes and undoes the correction:
    ``CalibratedClassifierCV`` and ``StackingClassifier`` around this classifier, ``scoring="roc_auc"`` or
    ``"accuracy"``, ``TunedThresholdClassifierCV``. There is a warning where that can be noticed. Leave `scoring` out,
    which is the likelihood of held-out labels, or use `scarless.metrics.make_pu_scorer`, which also says how to tune a
    threshold. How far probabilities are right is shown by `scarless.diagnostics.ClassCalibrationDisplay`.

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
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
            Also a tensor of torch, or another array on a device of its own, with two logistic models, one label of
            each row and scikit-learn's ``array_api_dispatch``: the fit then runs there.
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows. With a column for each look, NaN,
            None, a mask or -1 says that a look did not take place, which is not the same as 0. scikit-learn's own
            splitting by a number, as in ``cross_validate(model, X, y, cv=5)``, takes 0, 1 and -1, also under a mask,
            but neither NaN nor None; with ``cv=KFold(5)`` or a list of folds all of them work. It does not stratify
            tables of looks: for that pass ``list(StratifiedKFold(5).split(X, (y == 1).any(axis=1)))``.
            ``cross_val_predict`` recodes the columns of such a table, and does not work. Of tables
            whose rows live elsewhere (`scarless.scale.ParquetRows`, pyarrow, Dask, polars, DuckDB): the name of a
            column, or a list of names, and so `audit`; gaps there are looks that did not take place.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts.
        audit : array of shape (n_rows,), optional
            The true class, 1 or 0, of rows that someone checked; NaN, None or -1 elsewhere. Rows may be chosen by their
            attributes, their labels or by chance, and not by what the check would find: if positives are more likely to
            be checked, or to be reported, the class prior comes out too high. If findings of audits were entered as
            labels, see `Labelling`.
        groups : array of shape (n_rows,) or "rows", optional
            What each row belongs to, where several rows are of one patient or thing. Standard errors and intervals then
            account for rows of a group that depend on each other, by the sandwich formula. "rows": each row is a group,
            for weights that say for how many others a row stands, as in a survey: robust standard errors. With two
            logistic models.

        Returns
        -------
        self
        """
        logistic = self._check_parameters()
        group, sample_weight = None if groups is None else check_groups(groups, X), as_shares(sample_weight, groups)
        more = tells_more(self, X, y, audit)
        if group is not None and not logistic:
            raise ValueError(GROUPS_NEED)
        if more:
            refuse_device(X, "Several looks, audits, false positives and known facts")
            self._refuse_with_looks()
        if not logistic:
            self._fit_crossed(X, y, sample_weight, audit, more=more)
            return self
        given = read_rows(self, X, y, sample_weight, audit) if more else self._one_label(X, y, sample_weight)
        self._fit_given(given)
        self._account_for(group, given.rows.engine)
        if more:
            self._warn_if_level_is_unknown()
        return self

    def _one_label(self, X: Any, y: Any, sample_weight: Any) -> Given:
        return self._seen(self._check_rows(X, y, sample_weight), X)

    def _seen(self, rows: LabelledRows, X: Any) -> Given:
        """Return checked rows with one label each, and what each model sees of them."""
        f_columns = self._columns(X, self.classification_attributes, "classification_attributes")
        e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        if type(self.estimator) is type(self.propensity_estimator) and not means_all(self.propensity_attributes):
            f, e, penalties = Design.of(f_columns), Design.of(e_columns), (self.C, self.propensity_C)
            warn_if_swappable(f, e, type(self).__name__, penalties=penalties)
        return Given(rows, f_columns, e_columns)

    def _lives_in_engine(self) -> bool:
        return self.fitted_pair_.looks is None and self._check_parameters()

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        self._fit_given(self._seen(rows, X))

    def _fit_given(self, given: Given) -> None:
        """Fit two logistic models by Newton's method."""
        problem = given.problem(self.C, self.propensity_C)
        tol, rng = 1e-10 if self.tol is None else self.tol, check_random_stream(self.random_state)
        with narrow_alone(problem.n_parameters):  # once for all passes
            problem = problem.with_audits(max(check_known(self.known).audits, 0.0))
            progress = _print_climb if self.verbose else None
            found = self._climb(problem, self.n_starts, tol, rng=rng, progress=progress)
        self._store_fit(given, problem, found)

    def _refuse_with_looks(self) -> None:
        """Refuse what several looks, audits and facts do not go with."""
        if self.propensity_estimator is not None:
            raise ValueError(
                "propensity_estimator is for one label of each row: with several looks, audits, false positives or "
                "known facts the propensity is a logistic model. Leave propensity_estimator out; an estimator of your "
                "own for the class is welcome."
            )
        if not isinstance(self.n_starts, int):
            raise ValueError(
                "A list of starts is for one label of each row; with several looks, audits, false positives or known "
                "facts give n_starts as a number."
            )
        if check_known(self.known, audits=-1.0).audits >= 0:
            raise ValueError(
                "PseudoObservations are for one label of each row; with several looks, audits, false positives or known "
                "shares leave them out."
            )

    # --- classifiers of the user's, fitted in folds

    def _fit_crossed(self, X: Any, y: Any, sample_weight: Any, audit: Any, *, more: bool) -> None:
        """Fit the user's classifier in folds, with propensities, and recalibrate both."""
        if more:
            everything, training, given = read_table(self, X, y, sample_weight, audit)
        else:
            everything = self._check_training(X, y, sample_weight)
            training = counted(everything)
            given = self._seen(without_columns(training, self._coding), X)
        audited = given.audit if given.audit.size else None
        folds = check_folds(self.cv, training, everything, self.random_state, name="cv", audit=audited)
        problem = given.problem(self.C, self.propensity_C)
        with self._message_about_steps() as tell:
            crossed = cross_fit(
                self.estimator,
                training,
                problem,
                given.f_columns,
                folds,
                self._cross_options(),
                tell,
                propensity_model=self.propensity_estimator if given.e_columns.size else None,
            )
        self._store_crossed(crossed, training, given, problem)

    def _store_crossed(self, crossed: Crossed, training: Training, given: Given, problem: PairProblem) -> None:
        fit, recalibration, name = crossed.fit, crossed.recalibration, type(self).__name__
        self._store_folds(fit)
        warn_about_collapse(fit, name)
        warn_unless_settled(fit, name, max_iter=self.max_iter)
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
            judged=float(fit.weight.sum()),
            digest=digest_of(training.X, training.s),
        )
        self._hold(pair)
        if crossed.learned is not None:
            del self.propensity_coef_, self.propensity_intercept_
        self.recalibration_ = recalibration
        self.log_likelihood_, self.label_frequency_ = recalibration.log_likelihood, recalibration.label_frequency
        self.class_prior_ = recalibration.class_prior
        if given.looks is None:
            warn_if_all_labelled(self.label_frequency_, name)
            warn_if_all_positive(self.class_prior_, problem.labelled_share, name)
            self._warn_about_driver(training, [fit.u], fit.weight, given.e_columns)
        else:
            recalibrated, parameters = problem_on_table(crossed, training, problem)
            self._doubt_looks_of(given, recalibrated, parameters)
            warn_about_heavy_rows(float(recalibrated.totals.n_rows), recalibrated.weight, name, BY_MEAN)
        self._warn_if_level_is_unknown()

    def _store_folds(self, fit: CrossFit) -> None:
        """Store the models of the folds, and how the steps went."""
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
            audits=check_known(self.known, audits=CROSS_FIT_PSEUDO_OBSERVATIONS).audits,
            tol=1e-4 if self.tol is None else self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
        )

    @contextmanager
    def _message_about_steps(self) -> Iterator[Tell]:
        """Yield what a cross-fit tells its steps to."""
        with progress_bar("cross-fitting", 0, False if self.verbose else None) as advance:

            def tell(what: str) -> None:
                advance()
                if self.verbose:
                    print(f"SAREMClassifier: {what}", flush=True)

            yield tell

    @property
    def feature_importances_(self) -> Vector:
        """Mean of the folds' importances; of LightGBM and XGBoost by gain."""
        source: Any = None if self._pair is None else self._pair.source
        found = [] if source is None else [each for each in map(importances_of, source.fit.models) if each is not None]
        if not found:
            raise AttributeError(
                "feature_importances_ are those of a cross-fitted classifier that has them, such as LightGBM, XGBoost "
                "or a forest. For others: sklearn.inspection.permutation_importance with scoring=scarless.metrics."
                "make_pu_scorer(...)."
            )
        mean = np.mean([each / max(float(each.sum()), 1e-300) for each in found], axis=0)
        return np.asarray(mean)

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
        if self.fitted_pair_.source is None:
            return super().summary(level=level)
        return crossed_summary(self, check_share(level, "level"), self._remarks())

    def _inner(self) -> Any:
        """Return the user's estimator that reads the table, if there is one."""
        return self.propensity_estimator if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.propensity_attributes is not None and self.propensity_estimator is None:
            tags.input_tags.allow_nan = False  # not in the propensity attributes, which a logistic model reads
        return tags

    def _check_parameters(self) -> bool:
        """Check, and return whether both models are logistic, and so fitted by Newton's method."""
        check_solver_options(self)
        check_positive(self.propensity_C, "propensity_C")
        check_two_estimators(self)
        refuse_odd_cv(self.cv, "cv")
        check_jobs(self.n_jobs)
        logistic = self.estimator is None and self.propensity_estimator is None
        if self.cv is None and not logistic:
            raise ValueError(
                "cv=None: a classifier that has seen a row's label reproduces it, so estimators are fitted in folds. "
                "Give a number of folds; PublishedEMClassifier fits without them, as the paper does."
            )
        check_known(self.known)
        check_starts(self.n_starts, logistic=logistic)
        return logistic


def _print_climb(step: Step) -> None:
    print(
        f"{step.start}, iteration {step.number}: objective per row {step.objective:.6f}, predicted gain "
        f"{step.gain:.1e}, step {step.share:.2g}",
        flush=True,
    )
