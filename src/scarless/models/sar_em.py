"""SAR-EM: classifier and labelling propensity learned together."""

from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import (
    check_at_least_zero,
    check_choice,
    check_flag,
    check_jobs,
    check_positive,
)
from scarless.checks.rows import LabelledRows
from scarless.checks.tables import check_foreign_table, refuse_device
from scarless.checks.vectors import check_random_stream
from scarless.engines.problem import narrow_alone
from scarless.models._base import check_solver_options, warn_unless_converged
from scarless.models._em_classifier import EMClassifier
from scarless.models._negative_weights import with_shares
from scarless.models._pair import means_all
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.linear import Design
from scarless.pair.basins import Step, warn_if_exchangeable
from scarless.pair.elsewhere import asks_for_papers_start
from scarless.pair.fit import PairFit
from scarless.pair.folds import refuse_odd_cv
from scarless.pair.groups import GROUPS_NEED, as_shares, check_groups
from scarless.pair.learners import Learner, check_weighted_classifier
from scarless.pair.logistic import fit_targets, with_probability
from scarless.pair.problem import PairProblem
from scarless.pair.starts import check_starts, make_starts

_NEAREST_PRIOR = 1e-12  # that a start may be to 0 or 1


class SAREMClassifier(EMClassifier):
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
        cross-fitted (see `cross_fit`). Boosting by scikit-learn (``HistGradientBoostingClassifier``), LightGBM and
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
    visit_attributes : dict, optional
        Attributes that differ between the looks of a row: a name, and one column of `X` for each look, as
        ``{"effort": ["effort_1", "effort_2"]}``. The propensity of a look sees its own column, with one coefficient for
        all of them; the classifier sees none of them.
    propensity_offset : column, or list of columns, optional
        What is known of the logit of the propensity and added to it as it is, with a coefficient of 1, such as the
        logarithm of an effort: one column of `X`, or one for each look. The classifier does not see it.
    propensity_bounds : (float, float), optional
        The least and the largest propensity there may be, where that is known: (0.2, 1) if every positive is found at
        least one time in five.
    shared_propensity : bool, default=True
        With several looks: whether one propensity model holds for all of them. False: each look, an annotator say, has
        coefficients of its own.
    false_positive_rate : float, sequence or "estimate", default=0.0
        How often a look labels a negative row. A number, or one for each look, is taken for granted. "estimate" needs
        several looks, or audits of labelled rows.
    audit_labels : {"keep", "drop", "undo"}, default="keep"
        What labels of audited rows mean. "keep": they were given by the labelling, whatever the audit found. If
        findings of the audit were entered as labels, these say nothing of the labelling, and the class prior comes out
        too low.
        "drop" is then right where rows were audited whether or not they had a label: of an audited row only the class
        counts. "undo" is right where only rows without a label were audited: they count as rows without a label. Either
        is wrong where the other is right, "undo" too high and "drop" too low. There is a warning where the rows
        contradict the one that is given; where they cannot, `summary` gives the class prior of the other.
    known : list, optional
        What is known from elsewhere: `ClassPrior` and `LabelFrequency`, each with a standard error. There is a warning
        where it and the rows disagree.
    solver : {"auto", "newton", "em"}, default="auto"
        "newton" climbs the observed likelihood of two logistic models directly, by Fisher scoring and then
        Newton's method. "em" is the paper's expectation maximisation and works with any models. Both climb the
        same function. "auto" is "newton" where both models are left at None, else "em".
    refit : bool, default=False
        Fit the classifier once more at the end, on the propensity-weighted risk with the estimated propensity,
        as the authors' published code does. It does not pay: mean squared error of `f` on test rows, over ten runs of
        the paper's protocol with four propensity attributes (``python -m benchmarks.core refit``), without it, with
        it, and with the published code's version, which drops rows of negative weight: splice 0.123, 0.148, 0.183;
        breast cancer 0.045, 0.065, 0.103; image segmentation 0.074, 0.074, 0.125; mushroom 0.096, 0.095, 0.123.
    cross_fit : int, splitter, list of pairs or None, default=5
        With a `estimator` of your own: folds. A classifier that has seen a row's label reproduces it, EM then finds
        that every positive is labelled, and its start is its answer; so each row's class is judged by models that were
        fitted without its fold. A number: each fold has the same share of labelled rows, and equal rows are in one
        fold; for groups, ``list(GroupKFold().split(X, s, groups))``. Predictions are the mean of the folds' models.
        None: plain EM.
    relax : bool, default=True
        With `cross_fit`: estimate scale and level of the held-out logits anew, together with the propensity, by the
        observed likelihood. See `SAREMClassifierCV`.
    C, propensity_C : float, default=1.0
        Inverse strength of the L2 penalty on each logistic model, as in ``LogisticRegression``; ``np.inf`` for none.
        Intercepts are never penalised.
    imaginary_audits : float or "auto", default="auto"
        As many imaginary positives, half of them labelled, are added at the mean of the propensity attributes to keep
        the label frequency off 0 and 1 where the labels hardly care. "auto": 4 with `cross_fit`, and none for two
        logistic models, which is the paper's likelihood.
    n_starts : int, default=1
        How many starts to climb from; Newton only. The likelihood may have several optima. Of those found, the best
        penalised one is taken, unless others are behind it by less than the standard error of the difference: then,
        among these, the one with the lowest label frequency, which is the paper's principle. After a single start, the
        paper's, `fit` looks from another one on about 1,000 rows and warns where it leads clearly higher (by more than
        2 in penalised log-likelihood, at a class prior more than 0.02 away); models of more than 1,500 parameters are
        left out.
    start : {"auto", "paper", "exclusion", "class_prior", "random"} or float, default="auto"
        "paper": a classifier of labelled against unlabelled rows with equal weight, and the propensity that it
        implies. "exclusion": both models fitted while the classifier could not see the propensity attributes.
        "class_prior": the paper's start, moved to `n_starts` class priors between the share of labelled rows and 1; a
        number is one such class prior. "random": random coefficients. "auto": the paper's start first, then one by
        exclusion, one where all positives are labelled, one where all rows are positive, the best of up to 35 rough
        climbs on about 1,000 rows, class priors, and random ones, as many as `n_starts` says. Of 200 random small
        problems (``python -m benchmarks.starts``) one start ended below the best of twenty others in 19, five in none.
    tol : float, optional
        A fit ends when it gains less than this in log-likelihood per row: by Newton's method, where one more step is
        predicted to (penalised; default 1e-10); by EM, where the last `window` iterations together did (default 1e-4),
        and `slope_tol` is met.
    slope_tol : float, default=1e-4
        EM only: stop when the propensities' mean absolute slope over the last `window` iterations is below this.
    window : int, default=10
        EM only: how many iterations both rules look back.
    max_iter : int, default=500
        Limit on the iterations of either solver.
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
        The logistic propensity model; with ``shared_propensity=False`` one for each look. Absent where
        `propensity_estimator` is given.
    visit_coef_ : array of shape (n_models, n_visit_attributes)
        Coefficients of `visit_attributes`, in their order. Like the next four, of a fit to several looks, audits, false
        positives or known facts only.
    n_looks_, n_audited_ : int
        How many looks there are, and how many rows were checked.
    label_frequencies_ : array of shape (n_looks,)
        Estimated :math:`\Pr(s_k=1|y=1)` of each look, if it took place in all rows.
    false_positive_rate_ : float or array
        Estimated, or as it was given.
    estimators_ : list
        Of a cross-fit: one fitted model for each fold.
    relaxation_ : Relaxation
        Of a relaxed cross-fit: `slope` and `shift` of the classifier's logit, and `levels`, how likely each class prior
        is.
    feature_importances_ : array
        Of a cross-fit whose models have them: their mean over folds, with sum 1.
    estimator_, propensity_estimator_ : fitted estimators
        Without cross-fit, where `estimator` and `propensity_estimator` are given. Trees and forests by Gini's index and
        LightGBM fit posteriors as real-valued targets; these are then the regressors that do so.
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
    basins_ : list of Basin
        Newton only, and like the next two of one label of each row without more (several looks, audits and facts climb
        from a few starts, and the highest end is taken): the distinct optima found, best penalised objective first,
        each with `objective`, `log_likelihood`, `class_prior`, `mean_propensity`, `label_frequency`, the `starts` that
        led to it, `converged`. Where both models see the same attributes under different penalties, optima with
        classifier and propensity model exchanged are among them, with `exchanged` True, and are never taken.
    selection_ : Selection
        Newton only: which of them was taken (`index`) and why (`reason`).
    higher_basin_ : Basin or None
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
        visit_attributes: Any = None,
        propensity_offset: Any = None,
        propensity_bounds: Any = None,
        shared_propensity: bool = True,
        false_positive_rate: Any = 0.0,
        audit_labels: str = "keep",
        known: Any = None,
        solver: str = "auto",
        refit: bool = False,
        cross_fit: Any = 5,
        relax: bool = True,
        C: float = 1.0,
        propensity_C: float = 1.0,
        imaginary_audits: Any = "auto",
        n_starts: int = 1,
        start: Any = "auto",
        tol: Any = None,
        slope_tol: float = 1e-4,
        window: int = 10,
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
        self.visit_attributes = visit_attributes
        self.propensity_offset = propensity_offset
        self.propensity_bounds = propensity_bounds
        self.shared_propensity = shared_propensity
        self.false_positive_rate = false_positive_rate
        self.audit_labels = audit_labels
        self.known = known
        self.solver = solver
        self.refit = refit
        self.cross_fit = cross_fit
        self.relax = relax
        self.C = C
        self.propensity_C = propensity_C
        self.imaginary_audits = imaginary_audits
        self.n_starts = n_starts
        self.start = start
        self.tol = tol
        self.slope_tol = slope_tol
        self.window = window
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
            labels, see `audit_labels`.
        groups : array of shape (n_rows,) or "rows", optional
            What each row belongs to, where several rows are of one patient or thing. Standard errors and intervals then
            account for rows of a group that depend on each other, by the sandwich formula. "rows": each row is a group,
            for weights that say for how many others a row stands, as in a survey: robust standard errors. With two
            logistic models and one label of each row.

        Returns
        -------
        self
        """
        solver, self._n_groups = self._check_parameters(), 0
        group, sample_weight = None if groups is None else check_groups(groups, X), as_shares(sample_weight, groups)
        if group is not None and (solver != "newton" or self._wants_looks(X, y, audit)):
            raise ValueError(GROUPS_NEED)
        if self._wants_looks(X, y, audit):
            refuse_device(X, "Several looks, audits, false positives and known facts")
            self._check_looks_solver(solver)
            if solver == "newton":
                self._fit_looks(X, y, sample_weight, audit, _print_climb if self.verbose else None)
            else:
                self._fit_looks_crossed(X, y, sample_weight, audit)
            return self
        self._looks = None
        if solver == "newton":
            rows = self._check_rows(X, y, sample_weight)
            self._fit_on(rows, X)
            self._account_for(group, rows.engine)
            return self
        training = self._check_training(X, y, sample_weight)
        self._choose_columns(X)
        if solver == "cross-fit":
            self._fit_crossed(training)
        else:
            self._fit_em(training)
        return self

    def _choose_columns(self, X: Any) -> None:
        self._f_columns = self._columns(X, self.classification_attributes, "classification_attributes")
        self._e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        if type(self.estimator) is type(self.propensity_estimator) and not means_all(self.propensity_attributes):
            f, e, penalties = Design.of(self._f_columns), Design.of(self._e_columns), (self.C, self.propensity_C)
            warn_if_exchangeable(f, e, type(self).__name__, penalties=penalties)
        self._crossed = None

    def _lives_in_engine(self) -> bool:
        return self._looks is None and self._check_parameters() == "newton"

    def _forget_learners(self) -> None:
        self._crossed, self._f_learner, self._e_learner = None, None, None

    def _check_looks_solver(self, solver: str) -> None:
        """Refuse what several looks, audits and facts do not go with."""
        if self.propensity_estimator is not None:
            raise ValueError(
                "propensity_estimator is for one label of each row: with several looks, audits, false positives or "
                "known facts the propensity is a logistic model. Leave propensity_estimator out; an estimator of your "
                "own for the class is welcome."
            )
        if solver == "em":
            raise ValueError(
                "Several looks, audits, false positives and known facts go with two logistic models by Newton's "
                "method, or with an estimator that is cross-fitted: leave solver at 'auto', and cross_fit at a number "
                "of folds."
            )
        if solver == "cross-fit" and (self.propensity_offset is not None or self.propensity_bounds is not None):
            raise ValueError(
                "propensity_offset and propensity_bounds are for two logistic models; leave them out where an "
                "estimator is cross-fitted."
            )
        if solver == "cross-fit" and self.known and not self.relax:
            raise ValueError(
                "known needs relax=True where an estimator is cross-fitted: facts move scale and level of its logits."
            )
        if self.refit:
            raise ValueError("refit=True is for one label of each row; with several looks or audits leave it out.")
        for name in ("start", "imaginary_audits"):
            if getattr(self, name) != "auto":
                raise ValueError(
                    f"{name} is for one label of each row; with several looks, audits, false positives or known facts "
                    "leave it at 'auto'."
                )

    def _model_propensity(self, X: Any) -> Vector:
        if self._crossed is not None:
            X = check_foreign_table(self, X, inner=self._reader, reset=False)
            return np.asarray(expit(self._crossed.propensity_logits(X, relaxed=self.relax)))
        if self._e_learner is None:
            return self._linear_probability(X, "propensity_")
        return self._learner_probability(self._e_learner, X, self._e_columns)

    def _class_probability(self, X: Any) -> Vector:
        check_is_fitted(self)
        if self._crossed is not None:
            X = check_foreign_table(self, X, inner=self._reader, reset=False)
            return np.asarray(expit(self._crossed.logits(X) if self.relax else self._crossed.plain_logits(X)))
        if self._f_learner is None:
            return self._linear_probability(X)
        return self._learner_probability(self._f_learner, X, self._f_columns)

    def _inner(self) -> Any:
        """Return the user's estimator that reads the table, if there is one."""
        return self.propensity_estimator if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.propensity_attributes is not None and self.propensity_estimator is None:
            tags.input_tags.allow_nan = False  # not in the propensity attributes, which a logistic model reads
        return tags

    def _check_parameters(self) -> str:
        solver = check_choice(self.solver, "solver", ("auto", "newton", "em"))
        check_solver_options(self)
        check_positive(self.propensity_C, "propensity_C")
        check_positive(self.slope_tol, "slope_tol")
        if not isinstance(self.window, int | np.integer) or self.window < 2:
            raise ValueError(f"window must be a whole number of at least 2, to have a slope; got {self.window!r}.")
        if self.propensity_estimator is not None and self.propensity_attributes is None:
            raise ValueError(
                "propensity_estimator is given but propensity_attributes is not, which means a constant propensity. "
                "Name the attributes that the labelling depends on, or use slice(None) for all."
            )
        for name in ("estimator", "propensity_estimator"):
            if getattr(self, name) is not None:
                check_weighted_classifier(getattr(self, name), name)
        logistic = self.estimator is None and self.propensity_estimator is None
        if solver == "newton" and not logistic:
            raise ValueError(
                "solver='newton' is for two logistic models; with an estimator or propensity_estimator of your own "
                "use solver='em' or 'auto'."
            )
        self._check_cross_fit()
        if solver == "auto":
            solver = "newton" if logistic else "cross-fit" if self.cross_fit is not None and not self.refit else "em"
        check_starts(self, solver)
        self._check_start_class_prior()
        return solver

    def _check_cross_fit(self) -> None:
        refuse_odd_cv(self.cross_fit, "cross_fit")
        check_flag(self.relax, "relax")
        check_flag(self.refit, "refit")
        check_jobs(self.n_jobs)
        if not isinstance(self.imaginary_audits, str) or self.imaginary_audits != "auto":
            check_at_least_zero(self.imaginary_audits, "imaginary_audits")

    def _check_start_class_prior(self) -> None:
        """Refuse a class prior to begin at that is 0 or 1 for all that floating-point sums can tell."""
        if not isinstance(self.start, str) and not _NEAREST_PRIOR <= self.start <= 1.0 - _NEAREST_PRIOR:
            raise ValueError(
                f"start={self.start!r} is a class prior to begin at, and cannot be told from {self.start:.0f} in sums "
                f"over rows; give one between {_NEAREST_PRIOR:g} and 1 - {_NEAREST_PRIOR:g}."
            )

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        self._choose_columns(X)
        tol = 1e-10 if self.tol is None else self.tol
        f, e = Design.of(self._f_columns), Design.of(self._e_columns)
        problem = PairProblem(rows.engine, rows.totals, f, e, self.C, self.propensity_C)
        look = asks_for_papers_start(self.n_starts, self.start)
        with narrow_alone(problem.n_parameters):  # once for all passes
            problem = problem.with_audits(self._audits(0.0))
            starts = make_starts(problem, self.start, self.n_starts, check_random_stream(self.random_state))
            _, fit, sums = self._climb(problem, starts, tol, look=look, progress=_print_climb if self.verbose else None)
        self._f_learner: Learner | None = None
        self._e_learner: Learner | None = None
        self._store_pair(problem, fit, self._refit_classifier(problem, fit, tol) if self.refit else None, sums)

    def _refit_classifier(self, problem: PairProblem, fit: PairFit, tol: float) -> Vector:
        engine = with_shares(with_probability(problem.engine, problem.e, fit.e, "e"))
        solution = fit_targets(engine, problem.f, C=self.C, tol=tol, max_iter=self.max_iter, start=fit.f)
        warn_unless_converged(solution, "SAREMClassifier's refit", total_weight=problem.weight, tol=tol)
        return solution.parameters


def _print_climb(step: Step) -> None:
    print(
        f"{step.start}, iteration {step.number}: objective per row {step.objective:.6f}, predicted gain "
        f"{step.gain:.1e}, step {step.share:.2g}",
        flush=True,
    )
