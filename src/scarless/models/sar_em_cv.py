"""SAR-EM with cross-validation of the penalties and of the attributes of the class model."""

from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed

from scarless.checks.options import check_at_least_zero, check_flag, check_jobs, check_positive, check_whole
from scarless.checks.rows import LabelledRows
from scarless.checks.tables import refuse_device
from scarless.engines import has_own_engine
from scarless.engines.base import on_device
from scarless.engines.blas import BLAS
from scarless.engines.lockstep import go_in_lockstep
from scarless.models.messages import (
    warn_about_units,
    warn_if_all_labelled,
    warn_if_all_positive,
    warn_unless_converged,
)
from scarless.models.pair import PairClassifier, means_all
from scarless.models.reading import Given, has_more_than_labels, read_rows
from scarless.models.summary import attribute_names
from scarless.numerics.arrays import ArrayLike, Integers, Vector
from scarless.numerics.linear import Design
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.constraints import check_known
from scarless.pair.fit import PairFit
from scarless.pair.fitted import FittedPair
from scarless.pair.folds import FoldedRows, fold_rows, require_number_of_folds
from scarless.pair.groups import check_groups, is_rows_keyword, weights_for_groups
from scarless.pair.inference import pair_inference
from scarless.pair.optima import warn_if_swappable
from scarless.pair.problem import add_pseudo_observations
from scarless.pair.search import (
    FoldFits,
    Grid,
    PenaltyPath,
    RecalibratedPairFit,
    combine,
    fit_at_penalties,
    fit_folds,
    held_out_sums,
    recalibrate_candidates,
    recalibrate_choice,
    results_table,
    select,
)

# Fits in folds need not be exact: their held-out log-likelihood has a standard error of about 1e-3 per row.
_FOLD_TOL = 1e-8
#: Default number of pseudo-observations of a search. By judgement: a search averages fewer models than a stack, so its
#: class prior is less certain.
SEARCH_PSEUDO_OBSERVATIONS = 8.0


class SAREMClassifierCV(PairClassifier):
    r"""SAR-EM with two logistic models; cross-validation chooses the penalties and the attributes of the class model.

    A candidate is a pair of penalties and a set of attributes for the class model. The search handles three
    difficulties:

    * A penalty shrinks the logits of the class model, and the propensity compensates for it. Each candidate is
      therefore *recalibrated*: slope and shift of its out-of-fold logits are estimated together with the propensity.
      Candidates are then compared by the log-likelihood of held-out labels, which needs no true classes.
    * The labels say little about the class prior: a lower class prior with a higher propensity often fits almost as
      well. The likelihood is therefore evaluated on a grid of class priors. The weighted mean is the estimate, and the
      spread gives the interval.
    * The labels often cannot show whether the class model should use the propensity attributes. The logits of all sets
      of attributes that are tied with the best are therefore averaged and recalibrated once more. The result is again a
      pair of logistic models.

    Several looks, audits, false positives or known values identify the class prior. The candidates are then not
    recalibrated. They are compared by the likelihood of the labels and audits of held-out rows, and the best set of
    attributes is selected.

    ``selection_`` shows which candidates were tied, and the fit warns if their class priors differ by more than 0.25.
    If you know which attributes affect the class, pass them to `SAREMClassifier`, or as `attribute_sets`.

    Parameters
    ----------
    propensity_attributes : column selector or "all", optional
        Columns that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns. None: the propensity is constant. "all": use every column,
        which needs several looks. If you do not know what drives the labelling and there is one look, use
        `SARStackingClassifier` without names, with audits if possible.
    attribute_sets : "auto", sequence or dict, default="auto"
        Sets of columns for the class model, each selected like `propensity_attributes`, or None for all columns. A dict
        gives the sets names. "auto": two sets, which are all columns, and all columns except the propensity attributes.
        A single set, such as ``[["age", "sex"]]``, is the same as `classification_attributes` of `SAREMClassifier`.
    labelling : Labelling, optional
        Further properties of the labelling, as in `SAREMClassifier`. Visit attributes are removed from all sets.
    known : list, optional
        Known values from another source, as in `SAREMClassifier`. With one label for each row and no other known
        values, the default is ``PseudoObservations(8)``.
    Cs : int or sequence of float, default=10
        Inverse regularisation strengths of the class model. If it is a number, this many values from 0.01 upwards are
        tried, two for each factor of 10. The default of 10 values ends at 316.
    propensity_Cs : int or sequence of float, default=(1.0,)
        Inverse regularisation strengths of the propensity model.
    cv : int, splitter or list of pairs, default=5
        Number of folds, splitter, or list of pairs of row indices. If it is a number, all folds have equal shares of
        labelled rows, and identical rows are in the same fold. For groups, pass `groups` to `fit`.
    n_standard_errors : float, default=2.0
        A set of attributes is tied with the best set if its score is lower by at most this many standard errors of the
        difference, paired over rows. Within a set, a penalty is tied with the best penalty if its score is lower by at
        most half as many standard errors. 0: only the best candidate is selected.
    recalibrate : bool, default=True
        Whether to recalibrate the candidates. If False, the candidates are the penalised fits, and of tied sets the one
        with the lowest label frequency is selected, as in the paper.
    tol : float, optional
        Stop the final fit if one more Newton step gains less than this in log-likelihood per row (default 1e-10). Fits
        in folds use 1e-8.
    max_iter : int, default=500
        Maximum number of iterations of each fit.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of the random numbers, for folds. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of folds computed in parallel, in processes. It helps only for small tables, because each fit uses all
        cores.
    verbose : bool, default=False
        Whether to print the current step.

    Attributes
    ----------
    C_, propensity_C_ : float
        Inverse regularisation strengths of the best selected candidate.
    classification_attributes_ : array of int
        Columns of the class model.
    recalibration_ : Recalibration
        With `recalibrate` and one label for each row: `slope` and `shift` of the class logit, and `grid`, the
        likelihood of each class prior.
    cv_results_ : dict of arrays
        One entry for each candidate. Keys of scikit-learn's searches: ``params``, ``param_C``, ``param_propensity_C``,
        ``param_attributes``, ``split0_test_score``, ``mean_test_score``, ``std_test_score``, ``rank_test_score``;
        scores are log-likelihoods per row. Further keys: ``behind_best`` with its ``standard_error``, ``tied``,
        ``possible`` (tied if `n_standard_errors` were doubled), ``path`` (number of the set), out-of-fold
        ``class_prior`` and ``label_frequency``, ``converged``.
    best_index_ : int
        Row of ``cv_results_`` of the best selected candidate; ``selection_.members`` lists all selected candidates.
    best_params_ : dict
        Parameters of the best selected candidate.
    best_score_ : float
        Mean held-out log-likelihood of the best selected candidate.
    selection_ : Selection
        The selected rows of ``cv_results_``, the ``reason``, and ``class_priors``, the lowest and highest class prior
        of the selected candidates.
    class_prior_, label_frequency_ : float
        With `recalibrate`, weighted means over the grid of class priors, from out-of-fold logits.
    coef_, intercept_, propensity_coef_, propensity_intercept_, log_likelihood_, n_iter_, converged_, history_
        The selected candidates fitted to all rows, as in `SAREMClassifier`.
    n_looks_, n_audited_, label_frequencies_, false_positive_rate_, visit_coef_
        With several looks or audits, as in `SAREMClassifier`.
    form_test_, classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    See Also
    --------
    SAREMClassifier : One pair of penalties.
    scarless.diagnostics.SelectionPathDisplay : Plot of the candidates.

    Notes
    -----
    ``class_prior_interval()`` accounts for the selection and for the uncertainty of the class prior. Standard errors of
    coefficients ignore the selection: they are those of two logistic models at the recalibrated coefficients, with `C`
    multiplied by the square of the slope. `scarless.diagnostics.bootstrap_intervals` repeats the whole search on
    every resample.

    Tools of scikit-learn that compare predictions with `y` treat unlabelled rows as negative. Do not use
    ``CalibratedClassifierCV``: it turns class probabilities into probabilities of a label. Instead of
    ``scoring="roc_auc"``, leave `scoring` out, or use `scarless.metrics.make_pu_scorer`. See the guide, section
    Cross-validation and pipelines.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from Positive
    and Unlabeled Data", ECML-PKDD 2019, for the likelihood. Meinshausen, "Relaxed Lasso", Computational Statistics and
    Data Analysis 2007, for the idea of recalibration.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifierCV
    >>> from scarless.labelling import LogisticSAR, simulate_labels
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1500, 3))
    >>> y = rng.random(1500) < 1 / (1 + np.exp(-8 * X[:, 0]))
    >>> e = LogisticSAR(attributes=[2], coefficients=[1.5]).propensity(X)
    >>> s = simulate_labels(y, e, random_state=1)
    >>> model = SAREMClassifierCV(propensity_attributes=[2], Cs=[0.1, 1, 10], random_state=0).fit(X, s)
    >>> round(model.class_prior_, 2), round(float(y.mean()), 2)
    (0.46, 0.47)
    """

    def __init__(
        self,
        *,
        propensity_attributes: Any = None,
        attribute_sets: Any = "auto",
        labelling: Any = None,
        known: Any = None,
        Cs: Any = 10,
        propensity_Cs: Any = (1.0,),
        cv: Any = 5,
        n_standard_errors: float = 2.0,
        recalibrate: bool = True,
        tol: float | None = None,
        max_iter: int = 500,
        pos_label: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.propensity_attributes = propensity_attributes
        self.attribute_sets = attribute_sets
        self.labelling = labelling
        self.known = known
        self.Cs = Cs
        self.propensity_Cs = propensity_Cs
        self.cv = cv
        self.n_standard_errors = n_standard_errors
        self.recalibrate = recalibrate
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
        """Fit all candidates, choose among them, and fit the choice to all rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each. PyTorch tensors and other arrays on a device also work, if there is
            one label for each row and scikit-learn's ``array_api_dispatch`` is enabled.
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
        grid = self._check_parameters()
        if has_own_engine(X) and not on_device(X):
            require_number_of_folds(self.cv, "cv")
        group = None if groups is None else check_groups(groups, X)
        sample_weight = weights_for_groups(sample_weight, groups)
        split = None if is_rows_keyword(groups) else group
        if has_more_than_labels(self, X, y, audit):
            refuse_device(X, "Several looks, audits, false positives and known values")
            given = read_rows(self, X, y, sample_weight, audit)
        else:
            given = self._one_label(self._check_rows(X, y, sample_weight), X)
        self._fit_grid(given, X, grid, split)
        self._account_for(group, given.rows.engine)
        return self

    def _one_label(self, rows: LabelledRows, X: Any) -> Given:
        e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        return Given(rows, np.arange(self.n_features_in_), e_columns)

    def _can_fit_from_engine(self) -> bool:
        return True

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        self._fit_grid(self._one_label(rows, X), X, self._check_parameters())

    def _fit_grid(self, given: Given, X: Any, grid: Grid, groups: Integers | None = None) -> None:
        """Fit the candidates in folds, select by held-out rows, and fit the selection to all rows."""
        looks, sets = given.looks, self._attribute_sets(X, given, given.e_columns)
        if looks is None and not means_all(self.propensity_attributes):
            for columns in sets.values():
                warn_if_swappable(Design.of(columns), Design.of(given.e_columns), type(self).__name__)
        audited = given.audit if looks is not None and looks.n_audited else None
        folded = fold_rows(self.cv, given.rows, self.random_state, name="cv", groups=groups, audit=audited)
        whole = given.problem(1.0, 1.0)
        if looks is None:
            swappable = given.e_columns.size == given.rows.engine.n_columns
            pseudo = add_pseudo_observations(given.rows.engine, whole.e, self._pseudo_weight, swappable=swappable)
            whole = whole._replace(pseudo_observations=pseudo)
        paths = [PenaltyPath(i, whole.with_class_design(Design.of(columns))) for i, columns in enumerate(sets.values())]
        with BLAS.on_one_thread():  # set once for all fits, because setting it takes as long as a pass over few rows
            self._search(paths, grid, list(sets), folded, given)

    def _search(self, paths: list[PenaltyPath], grid: Grid, sets: list[str], folded: FoldedRows, given: Given) -> None:
        """Fit the candidates in folds, score and select them, and fit the selection to all rows.

        If looks, audits or known values identify the class prior, the best score decides among tied candidates.
        """
        fits = judged = self._fold_fits(paths, grid, folded)
        by_score = paths[0].problem.has_extra_information
        if self.recalibrate and not by_score:
            self._print("recalibrating the candidates")
            judged = recalibrate_candidates(fits, folded, paths[0].problem, self._pseudo_weight)
        sums, tested = held_out_sums(judged, folded), folded.tested_weight()
        self.cv_results_ = results_table(
            paths, grid, sums, sets, tested=tested, n_standard_errors=self.n_standard_errors
        )
        self.cv_results_["converged"] = np.all([fit.converged for fit in fits], axis=0)
        self.selection_ = select(self.cv_results_, combine=self.recalibrate and not by_score, by_score=by_score)
        self._store_chosen(paths, grid, fits, folded, given)

    def _check_parameters(self) -> Grid:
        check_whole(self.max_iter, "max_iter", at_least=1)
        check_flag(self.recalibrate, "recalibrate")
        check_jobs(self.n_jobs)
        if self.tol is not None:
            check_positive(self.tol, "tol")
        check_at_least_zero(self.n_standard_errors, "n_standard_errors")
        check_known(self.known)
        return Grid(_penalties(self.Cs, "Cs"), _penalties(self.propensity_Cs, "propensity_Cs"))

    @property
    def _pseudo_weight(self) -> float:
        return check_known(self.known, pseudo_weight=SEARCH_PSEUDO_OBSERVATIONS).pseudo_weight

    def _fold_fits(self, paths: list[PenaltyPath], grid: Grid, folded: FoldedRows) -> list[FoldFits]:
        """Fit every path in every fold.

        Fits of other folds are not used as starts, because they have seen the held-out rows.
        """
        n_candidates, n_folds = len(paths) * len(grid.pairs()), folded.n_folds
        engines, options = [folded.to_fit(fold) for fold in range(n_folds)], {"tol": _FOLD_TOL}
        if go_in_lockstep(engines):
            self._print(f"{n_folds} folds at the same time, {n_candidates} candidates")
            return fit_folds(paths, grid, engines, max_iter=self.max_iter, **options)
        jobs = (delayed(fit_folds)(paths, grid, [each], max_iter=self.max_iter, **options) for each in engines)
        with progress_bar("cross-validation", n_folds, False if self.verbose else None) as advance:
            fits = []
            for i, (fit,) in enumerate(Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)):
                self._print(f"fold {i + 1} of {n_folds}, {n_candidates} candidates")
                fits.append(fit)
                advance()
        return fits

    def _store_chosen(
        self, paths: list[PenaltyPath], grid: Grid, fits: list[FoldFits], folded: FoldedRows, given: Given
    ) -> None:
        tol = 1e-10 if self.tol is None else self.tol
        members = []
        for candidate in self.selection_.members:
            number, place = divmod(candidate, len(grid.pairs()))
            C, propensity_C = grid.pairs()[place]
            fit = fit_at_penalties(paths[number], grid, C, propensity_C, tol=tol, max_iter=self.max_iter)
            weight = paths[number].problem.weight
            warn_unless_converged(fit.solution, type(self).__name__, total_weight=weight, tol=tol, penalty="Cs")
            members.append((paths[number].problem._replace(C=C, propensity_C=propensity_C), fit, candidate))
        self.best_index_ = self.selection_.index
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.C_, self.propensity_C_ = self.best_params_["C"], self.best_params_["propensity_C"]
        if self.recalibrate and given.looks is None:
            chosen = combine(members, fits, folded, self._pseudo_weight, self.selection_.possible)
            self.classification_attributes_ = chosen.problem.f.indices
            self._store_recalibrated(given, chosen, [fit for _, fit, _ in members])
            self._warn_if_priors_differ()
            return
        ((problem, fit, _),) = members
        # With one look and audits recalibration does not lower the error (24 runs: gain .0010, standard error .0024).
        # Known values are constraints on the fit to all rows, which recalibration would break.
        if self.recalibrate and given.looks is not None and given.looks.n_looks > 1 and not problem.constraints:
            models = [each.models[self.best_index_] for each in fits]
            problem, fit = recalibrate_choice(problem, fit, models, folded)
        self.classification_attributes_ = problem.f.indices
        if given.looks is not None:
            given = given._replace(looks=given.looks._replace(objective=problem.objective))
        self._store_fit(given, problem, fit)
        self._warn_if_priors_differ()

    def _store_recalibrated(self, given: Given, chosen: RecalibratedPairFit, fits: list[PairFit]) -> None:
        """Store a recalibrated pair of logistic models."""
        problem, recalibration, name = chosen.problem, chosen.recalibration, type(self).__name__
        self._store_history(fits[0])
        self.n_iter_ = max(fit.solution.n_iter for fit in fits)
        self.converged_ = all(fit.converged for fit in fits) and recalibration.converged
        parameters = np.concatenate([chosen.f, chosen.e])
        inference = pair_inference(problem._replace(pseudo_observations=None), parameters)
        self._hold(
            FittedPair(
                objective=problem.objective,
                parameters=parameters,
                e_columns=given.e_columns,
                weight=problem.weight,
                labelled=float(problem.totals.labelled),
                inference=inference,
                recalibration=recalibration,
                grids=chosen.grids,
            )
        )
        warn_about_units(problem.engine.units, attribute_names(self), name)
        self.recalibration_, self.log_likelihood_ = recalibration, inference.log_likelihood
        self.label_frequency_, self.class_prior_ = recalibration.label_frequency, recalibration.class_prior
        warn_if_all_labelled(self)
        warn_if_all_positive(self.class_prior_, problem.labelled_share, name)
        self._check_pair(problem, chosen.f, chosen.e)

    def _warn_if_priors_differ(self) -> None:
        if self.selection_.wide:
            low, high = self.selection_.class_priors
            warn_user(
                f"{type(self).__name__}: candidates whose class priors range from {low:.2f} to {high:.2f} fit the "
                "labels about equally well. Use fewer attributes in either model, add labelled rows, or audit some "
                "unlabelled rows. See class_prior_interval().",
                UserWarning,
            )

    def _print(self, what: str) -> None:
        if self.verbose:
            print(f"SAREMClassifierCV: {what}", flush=True)


def _penalties(values: Any, name: str) -> Vector:
    """Return the distinct inverse regularisation strengths, sorted."""
    if isinstance(values, int | np.integer) and not isinstance(values, bool):
        return np.asarray(10.0 ** (-2.0 + 0.5 * np.arange(check_whole(values, name, at_least=1))), dtype=np.float64)
    given = list(values) if np.iterable(values) and not isinstance(values, str) else []
    if not given:
        raise ValueError(f"{name} must be a whole number or a sequence of numbers above 0; got {values!r}.")
    numbers = np.unique([check_positive(value, f"each of {name}") for value in given])
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite; got inf. For a fit without penalty use SAREMClassifier(C=np.inf).")
    return numbers
