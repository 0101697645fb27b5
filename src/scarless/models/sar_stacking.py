"""Stacking of cross-fitted classifiers for positive and unlabelled data with biased labels."""

from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import check_flag, check_jobs, check_positive, check_share, check_whole, shown
from scarless.engines import attach
from scarless.models.base import check_attribute_sets
from scarless.models.messages import (
    CLAIM_DISAGREES,
    message_about_drivers,
    remarks_on_looks,
    warn_if_all_labelled,
    warn_if_all_positive,
)
from scarless.models.pair import PairClassifier
from scarless.models.reading import Given, read_table, tells_more, without_columns
from scarless.models.summary import (
    MemberSummary,
    StackSummary,
    attribute_names,
    few_labels_remarks,
    message_about_shares,
    propensity_parameters,
)
from scarless.numerics.arrays import ArrayLike, Columns, Vector
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.constraints import check_known
from scarless.pair.cross_fit import held_out
from scarless.pair.crossed import CrossOptions, counted, dense, numeric_columns, on_rows, row_values
from scarless.pair.fitted import FittedPair, StackSource, digest_of
from scarless.pair.folds import Fold, check_folds
from scarless.pair.groups import (
    as_shares,
    check_groups,
    design_effect,
    means_rows,
    warn_about_heavy_rows,
    widened,
    widened_recalibration,
)
from scarless.pair.learners import check_weighted_classifier
from scarless.pair.logistic import Training, engine_of
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import FOLLOW, ClassPriorGrid, Recalibration, grid_beside, grid_interval
from scarless.pair.stack import (
    MOST_COLUMNS,
    NAIVE,
    Member,
    cross_fit_member,
    find_columns,
    judge_by_naive,
    logistic_member,
    mean_logits,
    naive_member,
    nameless_logistic_member,
    needs_dense,
    recalibrated_logits,
    refuse_sparse,
    weighted_variance,
)

MIN_LABELLED_FOR_BOOSTING = 20  # with fewer, boosting puts more rankings below naive (benchmarks/README.md)
# Where nobody named a propensity attribute (benchmarks/README.md, "Few labels, nothing named"):
NAMELESS_PSEUDO_OBSERVATIONS = (
    1.0  # pseudo-observations; with more, few labels leave the class prior near the share of labelled rows
)
NAMED_PSEUDO_OBSERVATIONS = 4.0
LEAST_GAIN = 7.0  # of held-out log-likelihood, for each column that was found to drive the labelling


class SARStackingClassifier(PairClassifier):
    r"""Stacking of cross-fitted classifiers for positive and unlabelled data with biased labels.

    Recommended where the best probabilities are wanted, not coefficients, and where nobody can name the attributes that
    drive the labelling. Each member, a classifier on a set of attributes, is fitted in folds together with a
    propensity. Scale and level of its held-out logits are then estimated anew (recalibrated) by the likelihood of the
    labels. The members' probabilities are averaged with equal weight, and the mean is recalibrated once more:

    .. math:: f(x) = \sigma\bigl(m + a + b\,(\mathrm{logit}\,\bar p(x) - m)\bigr), \qquad
        \bar p(x) = \tfrac1J\textstyle\sum_j f_j(x).

    With named attributes the propensity is logistic in them, :math:`e(x) = \sigma(\gamma_0 + \gamma' x_e)`. Without
    names the labels alone cannot tell whether the class or the labelling differs between rows. The propensity then
    follows the class, :math:`e(x) = \sigma(\gamma_0 + \tfrac12\,\mathrm{logit} f(x))`: surer positives are labelled
    more often. No member's ranking of rows depends on this assumption; the class prior and the propensities do. Columns
    that the labels say drive the labelling are searched for (`find_attributes`).

    Held-out likelihood prefers boosting nearly everywhere, also where it is worse: it measures the product of `f` and
    `e`, not `f`. So no member is chosen. Without names, a member that ranks held-out labels worse than the naive model,
    beyond chance, has no weight.

    Parameters
    ----------
    estimators : list of (name, classifier), optional
        Members; None as a classifier stands for the logistic model. Default: the logistic model and scikit-learn's
        histogram boosting, which needs a dense `X` and, without names, at least 20 labelled rows; without names also
        the naive model. Boosting by scikit-learn, LightGBM and XGBoost maximises the observed likelihood itself and
        stops early; other classifiers, which need ``sample_weight`` and ``predict_proba``, are fitted by cross-fitted
        EM.
    propensity_attributes : column selector or "all", optional
        What the labelling depends on. Columns by name, position, slice, mask, callable or polars selector; the name of
        an encoded attribute stands for all of its columns. None, "all", or every column: nobody can name any. Class
        prior and propensities are then less sure; `scarless.diagnostics.labelling_attributes` and an audit of some
        unlabelled rows help.
    attribute_sets : "auto", sequence or dict, default="auto"
        Sets of columns that the classifiers may see, each selected as `propensity_attributes` are; each classifier is
        fitted on each set. "auto": all columns, and all but the propensity attributes. See `SAREMClassifierCV`.
    cv : int, splitter or list of pairs, default=5
        Folds, as in `SAREMClassifierCV`.
    C, propensity_C : float, default=1.0
        Inverse penalties of logistic models; the logistic member's own is chosen among 0.01, 0.1, 1, 10, 100: of those
        that held-out labels cannot tell from the best, the nearest to 1.
    find_attributes : bool, default=True
        Without names, and with at most 100 columns: whether up to three columns that the labels say drive the labelling
        are taken for propensity attributes, with a warning. Each must raise the likelihood of the labels, all together
        that of held-out labels by 7 nats each, and the class must still tell rows further apart than the propensity.
    labelling : Labelling, optional
        What is said of the labelling beyond its attributes, as in `SAREMClassifier`: attributes of single looks, an
        offset, bounds, looks with coefficients of their own, false positives, what labels of audited rows mean.
    known : list, optional
        What is known from elsewhere: `ClassPrior` and `LabelFrequency`, each with a standard error. There
        is a warning where it and the labels disagree. Unless it says otherwise there are ``PseudoObservations(4)`` with
        named attributes, and 1 without: before labels are seen, the label frequency has a Beta distribution around one
        half. Unlike what is known, pseudo-observations do not count for intervals.
    tol : float, default=1e-4
        A fit by EM ends when it gains less than this in log-likelihood per row: where ten steps together did, on
        held-out rows. Logistic members are fitted by Newton's method, to 1e-7.
    max_iter : int, default=200
        Limit on the iterations of each logistic fit, and on the steps of EM.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of the folds where `cv` is a number.
    n_jobs : int, optional
        Folds that boosting or EM grow at the same time, in threads.
        None: one fold at a time; boosting of 10,000 to 200,000 rows fits as many as OpenMP has threads.
    verbose : bool, default=False
        Print what is being fitted.

    Attributes
    ----------
    classes_ : array of shape (2,)
    members_ : list of Member
        Each with `name`, `attributes`, `recalibration` (what its held-out labels say of scale and level), `model` and
        `weight`: 1, or 0 where it ranks held-out labels worse than the naive model.
    recalibration_ : Recalibration
        Of the mean.
    propensity_coef_, propensity_intercept_ : arrays of shape (1, n_features) and (1,)
        Without names, and where no column was found, the coefficients are 0: ``recalibration_.follow`` is the slope in the
        class logit.
    class_prior_, label_frequency_ : float
        Estimated :math:`\Pr(y=1)` and :math:`\Pr(s=1|y=1)` of the training rows, from held-out logits.
    log_likelihood_ : float
        Observed log-likelihood of the training rows, each by models that had not seen its label.
    n_iter_ : int
        Most steps or stages that a member took.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    Notes
    -----
    ``CalibratedClassifierCV``, ``TunedThresholdClassifierCV`` and ``scoring="roc_auc"`` take labels for classes and
    undo the correction; `scarless.metrics.make_pu_scorer` gives scores that do not. The recalibrated step is the
    calibration.

    References
    ----------
    Bekker, Robberechts and Davis (2019), for the likelihood. Wolpert, "Stacked Generalization", Neural Networks 1992.
    Meinshausen, "Recalibrated Lasso", Computational Statistics and Data Analysis 2007, for recalibrating.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SARStackingClassifier
    >>> from scarless.labelling import LogisticSAR, simulate_labels
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = rng.random(1000) < 1 / (1 + np.exp(-6 * X[:, 0] * X[:, 1]))  # not linear
    >>> s = simulate_labels(y, LogisticSAR([2], [1.5]).propensity(X), random_state=1)
    >>> model = SARStackingClassifier(propensity_attributes=[2], random_state=0).fit(X, s)
    >>> print(f"positives: {y.mean():.1f} true, {model.class_prior_:.1f} estimated, {s.mean():.2f} labelled")
    positives: 0.5 true, 0.5 estimated, 0.24 labelled
    """

    def __init__(
        self,
        estimators: Any = None,
        *,
        propensity_attributes: Any = None,
        attribute_sets: Any = "auto",
        cv: Any = 5,
        C: float = 1.0,
        propensity_C: float = 1.0,
        find_attributes: bool = True,
        labelling: Any = None,
        known: Any = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.estimators = estimators
        self.propensity_attributes = propensity_attributes
        self.attribute_sets = attribute_sets
        self.cv = cv
        self.C = C
        self.propensity_C = propensity_C
        self.find_attributes = find_attributes
        self.labelling = labelling
        self.known = known
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _none_is_scar = False
    _has_coefficients = False

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        audit: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit every member in folds, recalibrate each, and recalibrate their mean.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows; several looks as in `SAREMClassifier`.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts.
        audit : array of shape (n_rows,), optional
            The true class, 1 or 0, of rows that someone checked, as in `SAREMClassifier`.
        groups : array of shape (n_rows,) or "rows", optional
            What each row belongs to, where several rows are of one patient or thing. Folds then never split a group,
            and intervals of class prior and label frequency account for rows of a group that depend on each other.
            "rows": each row is a group, for weights that say for how many others a row stands, as in a survey.

        Returns
        -------
        self
        """
        estimators = self._check_parameters()
        sample_weight = as_shares(sample_weight, groups)
        more = tells_more(self, X, y, audit, by_levels=True)
        if more:
            everything, training, given = read_table(self, X, y, sample_weight, audit)
            more = not given.is_one_label
        else:
            everything = self._check_training(X, y, sample_weight)
            training = counted(everything)
            named = self._columns(X, self.propensity_attributes, "propensity_attributes")
            given = Given(without_columns(training, self._coding), np.arange(self.n_features_in_), named)
        if not more:
            given = given.of_one_label()
            _check_facts(check_known(self.known).shares, training)
        # With one label a propensity that sees every column could take the classifier's place: all is none.
        self._nameless = not given.e_columns.size or (not more and given.e_columns.size == self.n_features_in_)
        named = np.arange(0) if self._nameless else given.e_columns
        estimators = self._suited(estimators, training)
        group = None if groups is None else check_groups(groups, X)
        split, audited = None if means_rows(groups) else group, given.audit if given.audit.size else None
        folds = check_folds(self.cv, training, everything, self.random_state, name="cv", groups=split, audit=audited)
        rows = _Rows(training, given, given.problem(self.C, self.propensity_C), folds)
        stack = self._fit_stack(estimators, self._sets(X, given, named), rows, named)
        self._found, self._gain = np.arange(0), 0.0
        if self._nameless and (columns := self._search(stack, rows)).size:
            found = self._fit_stack(estimators, self._sets(X, given, columns), rows, columns)
            stack = self._better(stack, found, rows)
        if not more:
            logits = [each.u for each in stack.members if each.weight]
            self._warn_about_driver(training, logits, rows.held, named)
        self._store(stack, rows)
        if group is None:
            warn_about_heavy_rows(training.s.size, float(training.weight.sum()), type(self).__name__)
            return self
        of_rows = group[everything.weight > 0]
        f, e = self.fitted_pair_.chances(attach(self.fitted_pair_.rows(training.X), **row_values(rows.problem)))
        grown = design_effect(f, e, training.s, training.weight, of_rows)
        self._widen(grown, int(np.unique(of_rows).size))
        return self

    def _sets(self, X: Any, given: Given, e_columns: Columns) -> dict[str, Columns]:
        """Return the columns of each set of attributes; what belongs to single looks is in none of them."""
        taken = np.arange(0) if given.looks is None else given.looks.taken
        sets = check_attribute_sets(
            self.attribute_sets,
            e_columns,
            self.n_features_in_,
            lambda chosen: self._columns(X, chosen, "attribute_sets"),
        )
        return {name: np.setdiff1d(columns, taken) if taken.size else columns for name, columns in sets.items()}

    def _widen(self, times: float, n_groups: int) -> None:
        """Have intervals of shares and of rows account for groups, which raise variances so many times."""
        pair, self.recalibration_ = self.fitted_pair_, widened_recalibration(self.recalibration_, times)
        for place, each in enumerate(self.members_):
            self.members_[place] = replace(each, recalibration=widened_recalibration(each.recalibration, times))
        self._pair = replace(
            pair,
            source=replace(self._source, stacked=tuple(self.members_), recalibration=self.recalibration_),
            recalibration=self.recalibration_,
            grids=widened(pair.grids, times),
            n_groups=n_groups,
        )

    def _suited(self, estimators: list[tuple[str, Any]], training: Training) -> list[tuple[str, Any]]:
        """Return the members for this kind of table and so many labels; raise where one of the user's cannot read X."""
        self._left_out: str | None = None
        if self.estimators is None:
            labelled = float(training.weight @ training.s)
            if sparse.issparse(training.X):
                self._left_out = (
                    "X is sparse, and gradient boosting needs dense input, so only logistic models were fitted. "
                    "X.toarray() brings boosting in, where memory allows."
                )
            elif self._nameless and labelled < MIN_LABELLED_FOR_BOOSTING:
                self._left_out = (
                    f"Gradient boosting was left out: it needs at least {MIN_LABELLED_FOR_BOOSTING} labelled rows for "
                    f"its leaves, and there are {labelled:g}."
                )
            if self._left_out is not None:
                estimators = [(name, classifier) for name, classifier in estimators if classifier is None]
        self._dense = [name for name, classifier in estimators if needs_dense(classifier)]
        refuse_sparse(training.X, self._dense)
        return estimators

    def _check_parameters(self) -> list[tuple[str, Any]]:
        check_positive(self.C, "C")
        check_positive(self.propensity_C, "propensity_C")
        check_positive(self.tol, "tol")
        check_whole(self.max_iter, "max_iter", at_least=1)
        check_jobs(self.n_jobs)
        check_flag(self.find_attributes, "find_attributes")
        check_known(self.known)
        return _check_estimators(self.estimators)

    def _inner(self) -> Any:
        """Return the first classifier of the user's, where no logistic member needs numbers."""
        given = self.estimators
        if not isinstance(given, list | tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in given):
            return None
        return None if not given or any(each is None for _, each in given) else given[0][1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False  # not in the propensity attributes, which a logistic model reads
        return tags

    def _options(self, rows: "_Rows", *, nameless: bool) -> CrossOptions:
        known = check_known(self.known, audits=NAMELESS_PSEUDO_OBSERVATIONS if nameless else NAMED_PSEUDO_OBSERVATIONS)
        return CrossOptions(
            C=self.C,
            propensity_C=self.propensity_C,
            audits=known.audits,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            follow=FOLLOW if nameless else 0.0,
            known=() if rows.problem.told_by_height else known.shares,  # else they are facts of the problem
        )

    def _fit_stack(
        self, estimators: list[tuple[str, Any]], sets: dict[str, Columns], rows: "_Rows", e_columns: Columns
    ) -> "_Stack":
        """Fit every member with a propensity of these columns, of the class logit where there are none; recalibrate all."""
        nameless, training, folds = not e_columns.size, rows.training, rows.folds
        problem, options, members = rows.labelled_by(e_columns), self._options(rows, nameless=nameless), []
        with progress_bar("stacking", len(estimators) * len(sets), False if self.verbose else None) as advance:
            for name, classifier in estimators:
                for attributes, columns in sets.items():
                    self._tell(f"{name}, {attributes}")
                    place = (training, problem, columns, folds, options)
                    if classifier is not None:
                        members.append(cross_fit_member(name, attributes, classifier, *place, self._tell))
                    elif nameless:
                        members.append(nameless_logistic_member(name, attributes, *place))
                    else:
                        members.append(logistic_member(name, attributes, *place))
                    advance()
        if nameless:
            members = self._judged_by_naive(members, problem, rows, options)
        return _Stack(members, self._recalibrated_mean(members, rows, e_columns), e_columns)

    def _recalibrated_mean(
        self, members: list[Member], rows: "_Rows", e_columns: Columns, follow: float | None = None
    ) -> Recalibration:
        """Return scale and level of the members' mean, with a propensity of these columns."""
        options = self._options(rows, nameless=not e_columns.size)
        options = options if follow is None else replace(options, follow=follow)
        problem = rows.labelled_by(e_columns)
        return recalibrated_logits(rows.training, problem, mean_logits(members), rows.folds, options)

    def _beside(self, stack: "_Stack", rows: "_Rows") -> tuple[ClassPriorGrid, ...]:
        """Return the levels of a propensity that follows the class too, as where an attribute was not named."""
        self._missing = 0.0
        if not stack.e_columns.size or rows.problem.class_prior_is_identified:
            return ()
        other = self._recalibrated_mean(stack.members, rows, stack.e_columns, FOLLOW)
        self._missing = other.log_likelihood - stack.recalibration.log_likelihood
        return (grid_beside(stack.recalibration, other, 1 + len(stack.members)),)

    def _search(self, stack: "_Stack", rows: "_Rows") -> Columns:
        """Return the columns that the labels say drive the labelling."""
        training, looks = rows.training, rows.given.looks
        if not self.find_attributes or self._reader is not None or training.X.shape[1] > MOST_COLUMNS:
            return np.arange(0)
        self._tell("which columns drive the labelling")
        logits = [each.u for each in stack.members if each.weight and each.name != NAIVE]
        tried = None if looks is None else np.setdiff1d(np.arange(self.n_features_in_), looks.taken)
        found = find_columns(training, logits or [stack.members[-1].u], rows.held, tried=tried)
        return np.array([each.column for each in found], dtype=np.intp)

    def _better(self, nameless: "_Stack", found: "_Stack", rows: "_Rows") -> "_Stack":
        """Return the stack whose propensity has the columns that were found, if held-out labels like it better.

        And if its class tells rows further apart than its propensity: else the two may have changed places. What labels
        gain must be due to the columns: it must beat the members of both stacks with a propensity that is constant or
        follows the class.
        """
        without = [
            self._recalibrated_mean(stack.members, rows, nameless.e_columns, follow).log_likelihood
            for stack in (nameless, found)
            for follow in (0.0, FOLLOW)
        ]
        gain, held, n = found.recalibration.log_likelihood - max(without), rows.held, found.e_columns.size
        u = found.recalibration(mean_logits(found.members))
        v = np.asarray(numeric_columns(rows.training.X, found.e_columns) @ found.recalibration.e[:n])
        if gain < LEAST_GAIN * found.e_columns.size or weighted_variance(v, held) > weighted_variance(u, held):
            return nameless
        self._found, self._gain = found.e_columns, gain
        names = _listed([str(name) for name in attribute_names(self)[self._found]])
        warn_user(
            f"{type(self).__name__}: nobody named a propensity attribute, and by the labels {names} "
            f"{'drive' if self._found.size > 1 else 'drives'} the labelling (held-out log-likelihood higher by "
            f"{gain:.1f}). The labels do not say whether it is the labelling or the class that depends on "
            f"{'them' if self._found.size > 1 else 'it'}: judge for yourself, then name propensity_attributes, or set "
            "find_attributes=False.",
            UserWarning,
        )
        return found

    def _judged_by_naive(
        self, members: list[Member], problem: PairProblem, rows: "_Rows", options: CrossOptions
    ) -> list[Member]:
        """Return the members with their weights; the naive model is one of them by default."""
        if self._reader is not None:
            return members  # the table is for the user's classifiers alone, and may not be one of numbers
        naive = naive_member(rows.training, problem, rows.folds, options)
        judged = judge_by_naive(members, naive, rows.training, rows.folds)
        return judged if self.estimators is not None or judged[-1] is naive else [*judged, naive]

    def _store(self, stack: "_Stack", rows: "_Rows") -> None:
        training, looks = rows.training, rows.given.looks
        self.members_, self.recalibration_, e_columns = stack
        found, problem = self.recalibration_, rows.labelled_by(e_columns)
        source = StackSource.of(self.members_, found, problem.objective)
        own = [member.recalibration.grid for member in self.members_ if member.weight]
        pair = FittedPair(
            objective=source.objective,
            parameters=source.parameters,
            e_columns=e_columns,
            weight=problem.weight,
            labelled=float(problem.totals.labelled),
            looks=None if looks is None else looks._replace(objective=problem.objective),
            source=source,
            recalibration=found,
            grids=(found.grid, *own, *self._beside(stack, rows)),
            judged=float(rows.held.sum()),
            digest=digest_of(training.X, training.s),
        )
        self._hold(pair)
        # Beside a slope in the recalibrated logit of the class; the pair's own is in the logit before that.
        self.propensity_intercept_ -= found.follow * found(np.zeros(1))
        self.log_likelihood_, self.label_frequency_ = found.log_likelihood, found.label_frequency
        self.n_iter_ = max(member.n_iter for member in self.members_)
        self.converged_ = all(each.converged for each in (found, *(member.recalibration for member in self.members_)))
        self.class_prior_ = found.class_prior
        if looks is None:
            warn_if_all_labelled(self.label_frequency_, type(self).__name__)
            warn_if_all_positive(found.class_prior, problem.labelled_share, type(self).__name__)
            self._warn_about_facts()
        else:
            seen = dense(numeric_columns(training.X, source.e_columns))
            table = np.column_stack([mean_logits(self.members_), seen])
            engine = engine_of(table, **row_values(problem), w=rows.held)
            self._doubt_looks_of(rows.given, on_rows(problem, engine, source.objective), source.parameters)
        self._warn_if_level_is_unknown()

    @property
    def _source(self) -> StackSource:
        return cast(StackSource, self.fitted_pair_.source)

    def summary(self, *, level: float = 0.95) -> StackSummary:
        """Return what each member thinks, and what they say together.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that an interval covers.

        Returns
        -------
        StackSummary
            Prints as text, shows as HTML in a notebook; ``to_frame()`` gives a pandas DataFrame.
        """
        check_is_fitted(self)
        level = check_share(level, "level")
        rows = [
            self._row(member.name, member.attributes, member.recalibration, _interval(member.recalibration, level))
            for member in self.members_
        ]
        together = self._row("all together", "", self.recalibration_, self.class_prior_interval(level=level))
        follow = [("class logit", self.recalibration_.follow)] if self.recalibration_.follow else []
        return StackSummary(
            title=type(self).__name__,
            level=level,
            n_rows=self.fitted_pair_.weight,
            labelled=self.fitted_pair_.labelled,
            members=(*rows, together),
            propensity=(*follow, *propensity_parameters(self)),
            remarks=tuple(self._remarks()),
        )

    def _row(self, name: str, attributes: str, found: Recalibration, interval: Interval) -> MemberSummary:
        value = found.log_likelihood / self.fitted_pair_.judged
        return MemberSummary(name, attributes, value, found.slope, found.class_prior, interval, found.label_frequency)

    def _warn_about_facts(self) -> None:
        """Warn where labels and what is known from elsewhere disagree."""
        apart = self.recalibration_.grid.apart
        if apart > CLAIM_DISAGREES:
            told = " and the ".join(claim.told for claim in check_known(self.known).shares)
            warn_user(
                f"{type(self).__name__}: what is known of the {told} and the labels disagree: they are {apart:.1f} "
                "standard errors apart. One of them is wrong: the claim, its standard error, or the form of the "
                "models.",
                UserWarning,
            )

    def _remarks(self) -> list[str]:
        pair = self.fitted_pair_
        remarks = [*self.recalibration_.grid.remarks(), *few_labels_remarks(pair.labelled)]
        if pair.n_groups:
            remarks.append(
                f"Rows belong to {pair.n_groups:,} groups: intervals of shares and of rows are wider, by the factor "
                "by which groups raise a variance."
            )
        if pair.looks is not None:
            remarks = [message_about_shares(self, pair.looks), *remarks_on_looks(self, pair, pair.looks)]
        if self._left_out is not None:
            remarks.append(self._left_out)
        worse = [f"{member.name}, {member.attributes}" for member in self.members_ if not member.weight]
        if worse:
            remarks.append(
                f"No weight for {', '.join(map(repr, worse))}: it ranks held-out labels worse than the naive model, "
                "beyond chance."
            )
        remarks += self._attribute_remarks()
        priors = [member.recalibration.class_prior for member in self.members_ if member.weight]
        if max(priors) - min(priors) > 0.25:
            remarks.append(
                f"The members' class priors go from {min(priors):.2f} to {max(priors):.2f}. What would help: fewer "
                "attributes where you know better, more labelled rows, or an audit of some unlabelled rows."
            )
        return remarks

    def _attribute_remarks(self) -> list[str]:
        """Say what drives the labelling where nobody named it, and what may have been forgotten."""
        found, several = _listed([str(name) for name in attribute_names(self)[self._found]]), self._found.size > 1
        if self._nameless and found:
            return [
                f"No propensity attributes are named. By the labels, {found} {'drive' if several else 'drives'} the "
                f"labelling: with {'them' if several else 'it'} in the propensity, the log-likelihood of held-out "
                f"labels rises by {self._gain:.1f}. Judge whether that can be, and name what you know of."
            ]
        if self._nameless:
            untried = "" if not self.find_attributes else " No column earned a place in the propensity."
            if self.n_features_in_ > MOST_COLUMNS:
                untried = (
                    f" None of the columns was tried as a propensity attribute: there are more than {MOST_COLUMNS}."
                )
            return [
                "No propensity attributes are named. Labels alone cannot tell whether the class or the labelling "
                f"differs between rows: the propensity's logit is assumed to rise by {FOLLOW:g} for each unit of the "
                "class logit. No member's ranking of rows depends on this assumption; that of their mean hardly does. "
                f"The class prior and the propensities do.{untried}"
            ]
        if told := message_about_drivers(self):
            return [told]
        if self._missing > LEAST_GAIN:
            return [
                "A propensity attribute may be missing: the log-likelihood of held-out labels rises by "
                f"{self._missing:.1f} if the propensity also rises with the class logit. The class prior is probably "
                "too low then; its interval allows for that."
            ]
        return []

    def _checked(self, X: Any) -> Any:
        refuse_sparse(X, self._dense)
        table = super()._checked(X)
        if self._reader is not None:
            numeric_columns(table, self.fitted_pair_.e_columns)  # gaps there are refused, as in the fit
        return table

    def _tell(self, what: str) -> None:
        if self.verbose:
            print(f"SARStackingClassifier: {what}", flush=True)


class _Rows(NamedTuple):
    """Rows that count, all that was observed of them, and the folds."""

    training: Training
    given: Given
    problem: PairProblem
    folds: list[Fold]

    @property
    def held(self) -> Vector:
        """The weight of rows that some fold holds out."""
        return held_out(self.training.weight, self.folds)

    def labelled_by(self, e_columns: Columns) -> PairProblem:
        """Return the problem whose propensities see these attributes of rows."""
        return self.problem.labelled_by(self.given.e_columns, e_columns)


class _Stack(NamedTuple):
    """Members, their mean recalibrated, and the columns of their propensity."""

    members: list[Member]
    recalibration: Recalibration
    e_columns: Columns


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(map(repr, names[:-1])), *map(repr, names[-1:])]))


def _interval(found: Recalibration, level: float) -> Interval:
    return grid_interval([found.grid], "class_prior", level)


def _check_facts(known: Any, training: Training) -> None:
    """Raise where fewer rows are said to be positive than are labelled."""
    share = float(training.weight @ training.s) / float(training.weight.sum())
    for claim in known:
        if claim.share == "class_prior" and claim.value + 3.0 * claim.se < share:
            raise ValueError(
                f"known says that the class prior is {claim.value:g}, and {share:.2g} of the rows are labelled, each "
                "of them positive. If the table is a sample with more labelled rows than elsewhere, leave known out, "
                "or give the class prior of this table."
            )


def default_boosting() -> HistGradientBoostingClassifier:
    """Return the boosting that is a member by default."""
    return HistGradientBoostingClassifier(max_iter=200, max_leaf_nodes=6)


def _check_estimators(given: Any) -> list[tuple[str, Any]]:
    """Return the members, by default the logistic model and boosting."""
    if given is None:
        return [("logistic", None), ("boosting", default_boosting())]
    pairs = given if isinstance(given, list | tuple) else []
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError(
            "estimators must be a list of pairs (name, classifier), with None for the logistic model, for example "
            f"[('logistic', None), ('forest', RandomForestClassifier())]; got {shown(given)}."
        )
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"Each of estimators needs its own name; got {', '.join(map(repr, names))}.")
    for name, classifier in pairs:
        if classifier is not None:
            check_weighted_classifier(classifier, name)
    return list(pairs)
