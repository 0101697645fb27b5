"""Stacking of cross-fitted classifiers for positive and unlabelled data with biased labels."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self, cast

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import (
    check_flag,
    check_jobs,
    check_positive,
    check_random_stream,
    check_share,
    check_whole,
    shown,
    warn_about_heavy_rows,
)
from scarless.engines import attach
from scarless.models.messages import (
    CLAIM_WARNING_Z,
    message_about_drivers,
    message_about_logistic,
    remarks_on_looks,
    warn_if_all_labelled,
    warn_if_all_positive,
    warn_if_members_rank_worse,
    warn_if_perhaps_reversed,
)
from scarless.models.pair import PairClassifier
from scarless.models.reading import Given, has_more_than_labels, read_table, without_columns
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
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.boosting import booster_kind
from scarless.pair.constraints import check_known
from scarless.pair.cross_fit import held_out
from scarless.pair.crossed import CrossOptions, counted, dense, numeric_columns, on_rows, row_values
from scarless.pair.draws import check_member, default_forest
from scarless.pair.fitted import FittedPair, StackSource, digest_of
from scarless.pair.folds import Fold, check_folds
from scarless.pair.groups import (
    check_groups,
    design_effect,
    is_rows_keyword,
    weights_for_groups,
    widened,
    widened_recalibration,
)
from scarless.pair.logistic import Training, engine_of
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import (
    ASSUMED_FOLLOW_SLOPE,
    ClassPriorGrid,
    Recalibration,
    as_odds_against,
    grid_if_propensity_follows,
    grid_interval,
)
from scarless.pair.stack import (
    MAX_COLUMNS_SEARCHED,
    Member,
    cross_fit_member,
    find_columns,
    gap_to_logistic,
    held_out_gap_to_naive,
    logistic_member,
    logistic_member_without_attributes,
    mean_logits,
    needs_dense,
    recalibrated_logits,
    refuse_sparse,
    weighed,
    weighted_variance,
)

#: Smallest number of labelled rows for boosting as a default member, if no propensity attributes are named. Evidence:
#: on 67 development tasks with 3 to 19 labels, boosting lowers the area under the ROC curve by .004 +- .002.
MIN_LABELLED_FOR_BOOSTING = 20
#: With at least this number of labelled rows, the first propensity of boosting and of balanced draws comes from the
#: members before them, which saves time. Evidence: on 20 development tasks with at most 90 labels, this raises the mean
#: squared error by .005 +- .0035; on 14 tasks with more it does not.
MIN_LABELLED_TO_BEGIN_AT_MEMBERS = 100
#: Default number of pseudo-observations of a stack. Evidence: with 4, the class prior is too low if few positives are
#: labelled, and so are the probabilities (``benchmarks.class_prior_weights``).
PSEUDO_OBSERVATIONS = 1.0
#: Gain in held-out log-likelihood that each column found to drive the labelling needs. Evidence: a gain of 7 in all,
#: instead of 7 for each column, raised the error in three times as many tasks (``benchmarks.few_labels``).
MIN_GAIN_PER_COLUMN = 7.0


class SARStackingClassifier(PairClassifier):
    r"""Stacking of cross-fitted classifiers for positive and unlabelled data with biased labels.

    Recommended if you need good probabilities rather than coefficients, or cannot name the attributes that drive the
    labelling. Each member, a classifier on a set of attributes, is cross-fitted together with a propensity and
    recalibrated. The members' probabilities are averaged with weights :math:`w_j`, and the mean is recalibrated once
    more:

    .. math:: f(x) = \sigma\bigl(m + a + b\,(\mathrm{logit}\,\bar p(x) - m)\bigr), \qquad
        \bar p(x) = \textstyle\sum_j w_j f_j(x).

    With named propensity attributes, the propensity is logistic in them, :math:`e(x) = \sigma(\gamma_0 + \gamma' x_e)`.
    Without them, the labels alone cannot show whether the class or the labelling differs between rows. The propensity
    is then assumed to rise with the class probability, :math:`e(x) = \sigma(\gamma_0 + \tfrac12\,\mathrm{logit} f(x))`.
    The class prior and the propensities depend on this assumption; the members' rankings of rows do not. `fit` also
    searches for columns that seem to drive the labelling (see `find_attributes`).

    Members are weighted by the likelihood of held-out labels: if its logarithm is lower by 10, the weight is 1/e of
    that of the best member, and members with less than 5% of it are left out. The likelihood measures the product of
    `f` and `e`, and not `f` alone, so small differences hardly change the weights.

    Parameters
    ----------
    estimators : list of (name, classifier), optional
        Members; None as a classifier is the logistic model. By default, the logistic model, scikit-learn's histogram
        gradient boosting, and a forest of extremely randomised trees. Boosting needs a dense `X` and, without named
        propensity attributes, at least 20 labelled rows. Gradient boosting by scikit-learn, LightGBM or XGBoost
        maximises the likelihood of the labels directly. Other classifiers with ``sample_weight`` are fitted by EM.
        Classifiers without it, and the forest, are fitted by `BalancedDraws`.
    propensity_attributes : column selector or "all", optional
        Columns that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns. Use None if you do not know what drives the labelling. Class
        prior and propensities are then less certain; an audit of about 150 random rows (`audit` of `fit`) helps most.
        With one look, "all" is the same as None.
    attribute_sets : "auto", sequence or dict, default="auto"
        Sets of columns for the classifiers, each selected like `propensity_attributes`; each classifier is fitted on
        each set. "auto": two sets, which are all columns, and all columns except the propensity attributes. If the
        logistic model is a member and there is one label for each row, only the logistic model uses both sets; all
        other classifiers use the second one. A single set, such as ``[["age", "sex"]]``, is the same as
        `classification_attributes` of `SAREMClassifier`.
    cv : int, splitter or list of pairs, default=5
        Number of folds, splitter, or list of pairs of row indices.
    propensity_C : float, default=1.0
        Inverse regularisation strength of the propensity models, as in `LogisticRegression`. The logistic member
        chooses its own: with named attributes, of 0.01, 0.1, 1, 10 and 100 the value nearest to 1 that is not clearly
        worse on held-out labels than the best. Without names, it averages fits with 0.01, 0.1, 1 and 10.
    find_attributes : bool, default=True
        Whether to search for propensity attributes if none are named and there are at most 100 columns. Up to three
        columns are used, with a warning. Together they must raise the log-likelihood of held-out labels by 7 for each
        column, and the class logits must still vary more than the propensity logits.
    labelling : Labelling, optional
        Further properties of the labelling, as in `SAREMClassifier`: attributes of single looks, an offset, bounds,
        looks with different propensities, false positives, and how labels of audited rows are used.
    known : list, optional
        Known values from another source: `ClassPrior` and `LabelFrequency`, each with a standard error. The fit warns
        if they and the labels disagree. The default is ``PseudoObservations(4)`` with named attributes, and
        ``PseudoObservations(1)`` without names. Pseudo-observations do not make intervals shorter.
    tol : float, default=1e-4
        Stop EM if ten steps together gain less than this in held-out log-likelihood per row. Logistic members are
        fitted by Newton's method, with a fixed tolerance of 1e-6, or 1e-5 without named attributes.
    max_iter : int, default=200
        Maximum number of iterations of each logistic fit, and of EM steps.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of the random numbers, for folds. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of folds computed in parallel, in threads. None: one fold at a time; for boosting on 10,000 to 200,000
        rows, one fold for each OpenMP thread.
    verbose : bool, default=False
        Whether to print the current step.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two label values, sorted.
    members_ : list of Member
        Each with `name`, `attributes`, `recalibration`, `model`, and `weight`, relative to the best member; 0 if the
        member was left out.
    recalibration_ : Recalibration
        Recalibration of the mean.
    propensity_coef_, propensity_intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic propensity model. If no attributes were named or found, the coefficients are 0, and
        ``recalibration_.follow`` is the slope in the class logit.
    class_prior_, label_frequency_ : float
        Estimated :math:`\Pr(y=1)` and :math:`\Pr(s=1|y=1)` of the training rows, from out-of-fold logits.
    log_likelihood_ : float
        Log-likelihood of the observed labels, from out-of-fold logits.
    n_iter_ : int
        Largest number of steps or boosting stages of any member.
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
    Bekker, Robberechts and Davis (2019), for the likelihood. Wolpert, "Stacked Generalization", Neural Networks 1992.
    Meinshausen, "Relaxed Lasso", Computational Statistics and Data Analysis 2007, for the idea of recalibration.

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
    positives: 0.5 true, 0.6 estimated, 0.24 labelled
    """

    def __init__(
        self,
        estimators: Any = None,
        *,
        propensity_attributes: Any = None,
        attribute_sets: Any = "auto",
        cv: Any = 5,
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
    _standard_errors_need = "a single pair of logistic models, and a stack has several classifiers"

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        audit: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Cross-fit and recalibrate each member, then recalibrate their mean.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows. Several looks as in `SAREMClassifier`.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.
        audit : array of shape (n_rows,), optional
            True class of audited rows, 1 or 0; NaN, None or -1 for rows that were not audited. See `SAREMClassifier`.
        groups : array of shape (n_rows,) or "rows", optional
            Group of each row, for example the patient. All rows of a group are in the same fold, and intervals allow
            for dependence within groups. "rows": each row is a group, for survey weights.

        Returns
        -------
        self
        """
        estimators = self._check_parameters()
        sample_weight = weights_for_groups(sample_weight, groups)
        more = has_more_than_labels(self, X, y, audit, on_grid=True)
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
            _check_known_prior(check_known(self.known).shares, training)
        # With one look, a propensity model that uses every column can be swapped with the class model, or with audits
        # explain most of what the labels say about the class. Naming every column is therefore like naming none.
        has_one_look = given.looks is None or given.looks.n_looks == 1
        self._nameless = not given.e_columns.size or (has_one_look and given.e_columns.size == self.n_features_in_)
        named = np.arange(0) if self._nameless else given.e_columns
        estimators = self._suited(estimators, training)
        group = None if groups is None else check_groups(groups, X)
        split, audited = None if is_rows_keyword(groups) else group, given.audit if given.audit.size else None
        folds = check_folds(self.cv, training, everything, self.random_state, name="cv", groups=split, audit=audited)
        seed = int(check_random_stream(self.random_state).integers(2**31))
        rows = _StackRows(training, given, given.problem(1.0, self.propensity_C), folds, seed)
        late = self._fitted_last(estimators, training)
        stack = self._fit_stack(estimators, self._attribute_sets(X, given, named), rows, named, without=late)
        self._found, self._gain = np.arange(0), 0.0
        if self._nameless and (columns := self._search(stack, rows)).size:
            sets = self._attribute_sets(X, given, columns)
            stack = self._better(stack, self._fit_stack(estimators, sets, rows, columns, without=late), rows)
        if late:
            sets = self._attribute_sets(X, given, stack.e_columns)
            stack = self._fit_stack(estimators, sets, rows, stack.e_columns, begun=stack.members)
        self._warn_about_ranking(stack, rows, only_others=not more and all(each is not None for _, each in estimators))
        if not more:
            logits = [each.u for each in stack.members if each.weight]
            self._warn_about_driver(training, logits, rows.held, named)
        self._store(stack, rows)
        if group is None:
            warn_about_heavy_rows(training.s.size, float(training.weight.sum()), type(self).__name__)
            return self
        of_rows = group[everything.weight > 0]
        f, e = self.fitted_pair_.class_and_label_probabilities(
            attach(self.fitted_pair_.rows(training.X), **row_values(rows.problem))
        )
        grown = design_effect(f, e, training.s, training.weight, of_rows)
        self._widen(grown, int(np.unique(of_rows).size))
        return self

    def _warn_about_ranking(self, stack: "_Stack", rows: "_StackRows", *, only_others: bool) -> None:
        """Warn if the stack is worse than logistic models; `only_others`: no member is logistic."""
        training, folds, options = rows.training, rows.folds, self._options(rows, nameless=not stack.e_columns.size)
        if self._nameless and not stack.e_columns.size and training.is_numeric:
            gap = held_out_gap_to_naive(mean_logits(stack.members), training, folds, options)
            warn_if_members_rank_worse(gap, type(self).__name__)
        if only_others and stack.e_columns.size:
            place = (training, rows.with_propensity_columns(stack.e_columns), np.arange(self.n_features_in_))
            compare = partial(gap_to_logistic, mean_logits(stack.members), stack.recalibration)
            self._warn_if_logistic_explains_more(partial(compare, *place, folds, options), training)

    def _widen(self, times: float, n_groups: int) -> None:
        """Widen all intervals for groups, which raise variances by the factor `times`."""
        pair, self.recalibration_ = self.fitted_pair_, widened_recalibration(self.recalibration_, times)
        for place, each in enumerate(self.members_):
            self.members_[place] = replace(each, recalibration=widened_recalibration(each.recalibration, times))
        self._pair = replace(
            pair,
            source=replace(self._source, stacked=tuple(self.members_), recalibration=self.recalibration_),
            recalibration=self.recalibration_,
            grids=widened(pair.grids, times),
            n_groups=n_groups,
            shares=None if pair.shares is None else pair.shares.widened(times, n_groups),
        )

    def _suited(self, estimators: list[tuple[str, Any]], training: Training) -> list[tuple[str, Any]]:
        """Return the members that suit the table and the number of labels; raise if one cannot read a sparse `X`."""
        self._left_out: str | None = None
        if self.estimators is None:
            labelled = float(training.weight @ training.s)
            if sparse.issparse(training.X):
                self._left_out = (
                    "X is sparse, and gradient boosting needs dense input, so it was left out. If memory allows, pass "
                    "X.toarray()."
                )
            elif self._nameless and labelled < MIN_LABELLED_FOR_BOOSTING:
                self._left_out = (
                    f"Gradient boosting was left out: it needs at least {MIN_LABELLED_FOR_BOOSTING} labelled rows, and "
                    f"there are {labelled:g}."
                )
            if self._left_out is not None:
                estimators = [(name, classifier) for name, classifier in estimators if name != "boosting"]
        self._dense = [name for name, classifier in estimators if needs_dense(classifier)]
        refuse_sparse(training.X, self._dense)
        return estimators

    def _check_parameters(self) -> list[tuple[str, Any]]:
        check_positive(self.propensity_C, "propensity_C")
        check_positive(self.tol, "tol")
        check_whole(self.max_iter, "max_iter", at_least=1)
        check_jobs(self.n_jobs)
        check_flag(self.find_attributes, "find_attributes")
        check_known(self.known)
        return _check_estimators(self.estimators)

    def _inner(self) -> Any:
        """Return the first classifier of the user, or None if a logistic member needs numeric columns."""
        given = self.estimators
        if not isinstance(given, list | tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in given):
            return None
        return None if not given or any(each is None for _, each in given) else given[0][1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False  # the logistic propensity model cannot read NaN
        return tags

    def _options(self, rows: "_StackRows", *, nameless: bool) -> CrossOptions:
        known = check_known(self.known, pseudo_weight=PSEUDO_OBSERVATIONS)
        return CrossOptions(
            C=1.0,
            propensity_C=self.propensity_C,
            pseudo_weight=known.pseudo_weight,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            follow=ASSUMED_FOLLOW_SLOPE if nameless else 0.0,
            # With extra information, known values are constraints of the problem already.
            known=() if rows.problem.has_extra_information else known.shares,
            seed=rows.seed,
            in_stack=True,
        )

    def _fitted_last(self, estimators: list[tuple[str, Any]], training: Training) -> list[str]:
        """Return the members that are fitted after the search for propensity attributes: boosting, the slowest."""
        boosted = [name for name, each in estimators if each is not None and booster_kind(each) is not None]
        is_searched = self._nameless and self._can_search(training)
        return boosted if is_searched and len(boosted) < len(estimators) else []

    def _fit_stack(
        self,
        estimators: list[tuple[str, Any]],
        sets: dict[str, Columns],
        rows: "_StackRows",
        e_columns: Columns,
        *,
        begun: Sequence[Member] = (),
        without: Sequence[str] = (),
    ) -> "_Stack":
        """Fit and recalibrate all members; without `e_columns`, the propensity depends on the class logit.

        Members that have `begun` the stack are not fitted again. Estimators with a name in `without` are left out.
        """
        nameless, training, folds = not e_columns.size, rows.training, rows.folds
        problem = rows.with_propensity_columns(e_columns)
        options = self._options(rows, nameless=nameless)
        has_many_labels = float(training.weight @ training.s) >= MIN_LABELLED_TO_BEGIN_AT_MEMBERS
        members = list(begun)
        left_out = {*without, *(member.name for member in begun)}
        planned = [each for each in self._planned(estimators, sets, problem) if each[0] not in left_out]
        with progress_bar("stacking", len(planned), False if self.verbose else None) as advance:
            for name, classifier, attributes in planned:
                self._print(f"{name}, {attributes}")
                place = (training, problem, sets[attributes], folds, options)
                if classifier is not None:
                    first = mean_logits(weighed(members)) if members and has_many_labels else None
                    members.append(cross_fit_member(name, attributes, classifier, *place, self._print, first))
                elif nameless:
                    members.append(logistic_member_without_attributes(name, attributes, *place))
                else:
                    members.append(logistic_member(name, attributes, *place))
                advance()
        order = [name for name, _ in estimators]
        members = weighed(sorted(members, key=lambda member: order.index(member.name)))
        beside = self._if_attribute_is_missing(members, rows, e_columns)
        recalibration = self._recalibrated_mean(members, rows, e_columns, beside=beside)
        return _Stack(members, recalibration, e_columns, beside)

    def _planned(
        self, estimators: list[tuple[str, Any]], sets: dict[str, Columns], problem: PairProblem
    ) -> list[tuple[str, Any, str]]:
        """Return the name, the classifier and the set of columns of each member.

        By default, if there is one label for each row and the logistic model is a member, the other classifiers do not
        use the propensity attributes: they would take effects of the labelling for effects on the class.
        """
        is_auto = isinstance(self.attribute_sets, str) and self.attribute_sets == "auto"
        has_logistic = any(classifier is None for _, classifier in estimators)
        only_others = is_auto and has_logistic and not problem.has_extra_information
        return [
            (name, classifier, attributes)
            for name, classifier in estimators
            for attributes in (list(sets)[-1:] if only_others and classifier is not None else sets)
        ]

    def _recalibrated_mean(
        self,
        members: list[Member],
        rows: "_StackRows",
        e_columns: Columns,
        follow: float | None = None,
        *,
        roughly: bool = False,
        beside: ClassPriorGrid | None = None,
    ) -> Recalibration:
        """Return the recalibration of the members' mean, with a propensity that depends on these columns.

        See `recalibrated_logits` for `roughly` and `beside`.
        """
        options = self._options(rows, nameless=not e_columns.size)
        options = options if follow is None else replace(options, follow=follow)
        problem = rows.with_propensity_columns(e_columns)
        u = mean_logits(members)
        return recalibrated_logits(rows.training, problem, u, rows.folds, options, roughly=roughly, beside=beside)

    def _if_attribute_is_missing(
        self, members: list[Member], rows: "_StackRows", e_columns: Columns
    ) -> ClassPriorGrid | None:
        """Return the grid of class priors for a propensity that also rises with the class logit, with its odds.

        A propensity attribute may be missing, so the class prior and its interval are averaged over this model too. It
        uses the mean of all members with equal weights: the member with the highest likelihood may be the one whose
        classifier has taken the effect of the missing attribute for an effect on the class.
        """
        self._missing = 0.0
        if not e_columns.size or rows.problem.class_prior_is_identified or check_known(self.known).shares:
            return None
        members = [replace(member, weight=1.0) for member in members]
        named = self._recalibrated_mean(members, rows, e_columns, roughly=True)
        following = self._recalibrated_mean(members, rows, e_columns, ASSUMED_FOLLOW_SLOPE)
        self._missing = following.log_likelihood - named.log_likelihood
        return grid_if_propensity_follows(named, following)

    def _can_search(self, training: Training) -> bool:
        """Whether columns are searched for propensity attributes if none are named."""
        return self.find_attributes and self._reader is None and training.X.shape[1] <= MAX_COLUMNS_SEARCHED

    def _search(self, stack: "_Stack", rows: "_StackRows") -> Columns:
        """Return the columns that seem to drive the labelling."""
        training, looks = rows.training, rows.given.looks
        if not self._can_search(training):
            return np.arange(0)
        self._print("searching for columns that drive the labelling")
        logits = [each.u for each in stack.members if each.weight]
        tried = None if looks is None else np.setdiff1d(np.arange(self.n_features_in_), looks.taken)
        found = find_columns(training, logits, rows.held, tried=tried)
        return np.array([each.column for each in found], dtype=np.intp)

    def _better(self, nameless: "_Stack", found: "_Stack", rows: "_StackRows") -> "_Stack":
        """Return the stack whose propensity uses the found columns, if it fits held-out labels clearly better.

        Its class logits must vary more than the logits of its propensity, since the models may otherwise be swapped.
        The gain must come from the columns. The stack must therefore beat the members of both stacks, recalibrated with
        a propensity that is constant or that rises with the class logit.
        """
        without = [
            self._recalibrated_mean(stack.members, rows, nameless.e_columns, follow, roughly=True).log_likelihood
            for stack in (nameless, found)
            for follow in (0.0, ASSUMED_FOLLOW_SLOPE)
        ]
        best = self._recalibrated_mean(found.members, rows, found.e_columns, roughly=True).log_likelihood
        gain, held, n = best - max(without), rows.held, found.e_columns.size
        u = found.recalibration(mean_logits(found.members))
        v = np.asarray(numeric_columns(rows.training.X, found.e_columns) @ found.recalibration.e[:n])
        if gain < MIN_GAIN_PER_COLUMN * found.e_columns.size or weighted_variance(v, held) > weighted_variance(u, held):
            return nameless
        self._found, self._gain = found.e_columns, gain
        names = _listed([str(name) for name in attribute_names(self)[self._found]])
        warn_user(
            f"{type(self).__name__}: no propensity attributes are named, and {names} "
            f"{'seem' if self._found.size > 1 else 'seems'} to drive the labelling (held-out log-likelihood higher by "
            f"{gain:.1f}). The labels cannot show whether the labelling or the class depends on "
            f"{'them' if self._found.size > 1 else 'it'}. If the labelling does, name the attributes that drive the "
            "labelling (propensity_attributes). If the class does, set find_attributes=False.",
            UserWarning,
        )
        return found

    def _store(self, stack: "_Stack", rows: "_StackRows") -> None:
        training, looks = rows.training, rows.given.looks
        self.members_ = stack.members
        self.recalibration_ = stack.recalibration
        e_columns = stack.e_columns
        found, problem = self.recalibration_, rows.with_propensity_columns(e_columns)
        source = StackSource.of(self.members_, found, problem.objective)
        own = [member.recalibration.grid for member in self.members_ if member.weight]
        beside = [] if stack.beside is None else [as_odds_against(stack.beside, 1 + len(own))]
        pair = FittedPair(
            objective=source.objective,
            parameters=source.parameters,
            e_columns=e_columns,
            weight=problem.weight,
            labelled=float(problem.totals.labelled),
            looks=None if looks is None else looks._replace(objective=problem.objective),
            source=source,
            recalibration=found,
            grids=(found.grid, *own, *beside),
            held_out_weight=float(rows.held.sum()),
            digest=digest_of(training.X, training.s),
        )
        self._hold(pair)
        # Publicly, the propensity depends on the recalibrated class logit. Within the pair, it depends on the class
        # logit before recalibration, so the intercept is converted.
        self.propensity_intercept_ -= found.follow * found(np.zeros(1))
        self.log_likelihood_, self.label_frequency_ = found.log_likelihood, found.label_frequency
        self.n_iter_ = max(member.n_iter for member in self.members_)
        self.converged_ = all(each.converged for each in (found, *(member.recalibration for member in self.members_)))
        self.class_prior_ = found.class_prior
        if looks is None:
            warn_if_all_labelled(self)
            warn_if_all_positive(found.class_prior, problem.labelled_share, type(self).__name__)
            self._warn_if_known_values_disagree()
            if not check_known(self.known).shares:
                warn_if_perhaps_reversed(found.class_prior, problem.labelled_share, type(self).__name__)
        else:
            seen = dense(numeric_columns(training.X, source.e_columns))
            u, options = mean_logits(self.members_), self._options(rows, nameless=not e_columns.size)
            engine = engine_of(np.column_stack([u, seen]), **row_values(problem), w=rows.held)
            gap = self._gap_in_audits(u, training, rows.given, rows.folds, options)
            recalibrated = on_rows(problem, engine, source.objective)
            self._store_recalibrated_looks(rows.given, recalibrated, source.parameters, gap)
        self._warn_if_class_prior_is_uncertain()

    @property
    def _source(self) -> StackSource:
        return cast(StackSource, self.fitted_pair_.source)

    def summary(self, *, level: float = 0.95) -> StackSummary:
        """Return a table of the estimates of each member and of the stack, with intervals.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Confidence level.

        Returns
        -------
        StackSummary
            Prints as text, and as HTML in a notebook; ``to_frame()`` returns a pandas DataFrame.
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
        value = found.log_likelihood / self.fitted_pair_.held_out_weight
        return MemberSummary(name, attributes, value, found.slope, found.class_prior, interval, found.label_frequency)

    def _warn_if_known_values_disagree(self) -> None:
        apart = self.recalibration_.grid.disagreement
        if apart > CLAIM_WARNING_Z:
            names = " and the ".join(claim.description for claim in check_known(self.known).shares)
            warn_user(
                f"{type(self).__name__}: the known {names} and the labels disagree: they are {apart:.1f} standard "
                "errors apart. Either the known value, its standard error or the form of the models is wrong. Check "
                "them.",
                ClassPriorWarning,
            )

    def _remarks(self) -> list[str]:
        pair = self.fitted_pair_
        remarks = [*self.recalibration_.grid.remarks(), *few_labels_remarks(pair.labelled)]
        if pair.n_groups:
            remarks.append(
                f"Rows belong to {pair.n_groups:,} groups. Intervals are widened, because the dependence within groups "
                "raises the variance of the estimates."
            )
        if pair.looks is not None:
            remarks = [message_about_shares(self, pair.looks), *remarks_on_looks(self, pair, pair.looks)]
        if self._left_out is not None:
            remarks.append(self._left_out)
        worse = [f"{member.name}, {member.attributes}" for member in self.members_ if not member.weight]
        if worse:
            remarks.append(
                "Members that were left out, because held-out labels are much less likely with them: "
                f"{', '.join(map(repr, worse))}."
            )
        remarks += self._attribute_remarks()
        priors = [member.recalibration.class_prior for member in self.members_ if member.weight]
        if max(priors) - min(priors) > 0.25:
            remarks.append(
                f"The members' class priors range from {min(priors):.2f} to {max(priors):.2f}. Use fewer "
                "attributes, add labelled rows, or audit some unlabelled rows."
            )
        return remarks

    def _attribute_remarks(self) -> list[str]:
        """Return remarks on propensity attributes that were found or may be missing."""
        found, several = _listed([str(name) for name in attribute_names(self)[self._found]]), self._found.size > 1
        if self._nameless and found:
            return [
                f"No propensity attributes are named, and {found} {'seem' if several else 'seems'} to drive the "
                f"labelling: with {'them' if several else 'it'} in the propensity model, the log-likelihood of "
                f"held-out labels rises by {self._gain:.1f}. Check whether this is plausible, and name the attributes "
                "that you know to drive the labelling."
            ]
        if self._nameless:
            searched = self.find_attributes and self._reader is None
            search = " The search found no propensity attribute." if searched else ""
            if searched and self.n_features_in_ > MAX_COLUMNS_SEARCHED:
                search = (
                    " Columns were not searched for propensity attributes, because there are more than "
                    f"{MAX_COLUMNS_SEARCHED}."
                )
            return [
                "No propensity attributes are named. Labels alone cannot show whether the class or the labelling "
                f"differs between rows, so the logit of the propensity is assumed to rise by {ASSUMED_FOLLOW_SLOPE:g} "
                "for each unit of the class logit. The class prior and the propensities depend on this assumption; the "
                f"ranking of rows hardly does.{search}"
            ]
        if messages := [*filter(None, [message_about_drivers(self), message_about_logistic(self)])]:
            return messages
        if self._missing > MIN_GAIN_PER_COLUMN:
            return [
                "A propensity attribute may be missing: the log-likelihood of held-out labels rises by "
                f"{self._missing:.1f} if the propensity also rises with the class logit. The class prior is then "
                "probably too low; its interval accounts for this."
            ]
        return []

    def _checked(self, X: Any) -> Any:
        refuse_sparse(X, self._dense)
        table = super()._checked(X)
        if self._reader is not None:
            numeric_columns(table, self.fitted_pair_.e_columns)  # raises for missing values, as the fit does
        return table

    def _print(self, what: str) -> None:
        if self.verbose:
            print(f"SARStackingClassifier: {what}", flush=True)


class _StackRows(NamedTuple):
    """Rows with positive weight, their labels and audits, and the folds."""

    training: Training
    given: Given
    problem: PairProblem
    folds: list[Fold]
    seed: int  # of balanced draws

    @property
    def held(self) -> Vector:
        """Weight of each row that some fold holds out, and 0 for other rows."""
        return held_out(self.training.weight, self.folds)

    def with_propensity_columns(self, e_columns: Columns) -> PairProblem:
        """Return the problem whose propensities depend on these columns."""
        return self.problem.with_propensity_columns(self.given.e_columns, e_columns)


class _Stack(NamedTuple):
    """Members, the recalibration of their mean, and the columns of their propensity."""

    members: list[Member]
    recalibration: Recalibration
    e_columns: Columns
    beside: ClassPriorGrid | None  # the grid of a model with a missing propensity attribute


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(map(repr, names[:-1])), *map(repr, names[-1:])]))


def _interval(found: Recalibration, level: float) -> Interval:
    return grid_interval([found.grid], "class_prior", level)


def _check_known_prior(known: Any, training: Training) -> None:
    """Raise if a known class prior is below the share of labelled rows."""
    share = float(training.weight @ training.s) / float(training.weight.sum())
    for claim in known:
        if claim.share == "class_prior" and claim.value + 3.0 * claim.se < share:
            raise ValueError(
                f"known has a class prior of {claim.value:g}, but {share:.2g} of the rows are labelled, and labelled "
                "rows are positive. If labelled rows are over-represented in this table, leave known out, or give the "
                "class prior of this table."
            )


def default_boosting() -> HistGradientBoostingClassifier:
    """Return the boosting classifier that is a member by default."""
    return HistGradientBoostingClassifier(max_iter=200, max_leaf_nodes=6)


def _check_estimators(given: Any) -> list[tuple[str, Any]]:
    """Return the members, by default the logistic model, boosting and a forest."""
    if given is None:
        return [("logistic", None), ("boosting", default_boosting()), ("forest", default_forest())]
    pairs = given if isinstance(given, list | tuple) else []
    if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
        raise ValueError(
            "estimators must be a list of pairs (name, classifier), with None for the logistic model, for example "
            f"[('logistic', None), ('forest', RandomForestClassifier())]; got {shown(given)}."
        )
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(
            f"estimators: each classifier needs a different name; got {', '.join(map(repr, names))}. Rename them."
        )
    for name, classifier in pairs:
        if classifier is not None:
            check_member(classifier, name)
    return list(pairs)
