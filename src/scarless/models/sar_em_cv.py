"""SAR-EM with penalties and attributes chosen by what the labels themselves can tell."""

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
from scarless.models.base import check_attribute_sets
from scarless.models.messages import (
    warn_about_units,
    warn_if_all_labelled,
    warn_if_all_positive,
    warn_unless_converged,
)
from scarless.models.pair import PairClassifier, means_all
from scarless.models.reading import Given, read_rows, tells_more
from scarless.models.summary import attribute_names
from scarless.numerics.arrays import ArrayLike, Columns, Integers, Vector
from scarless.numerics.linear import Design
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.constraints import check_known
from scarless.pair.fit import PairFit
from scarless.pair.fitted import FittedPair
from scarless.pair.folds import FoldedRows, fold_rows, refuse_folds_in_memory
from scarless.pair.groups import as_shares, check_groups, means_rows
from scarless.pair.inference import pair_inference
from scarless.pair.optima import warn_if_swappable
from scarless.pair.problem import add_pseudo_observations
from scarless.pair.search import (
    FoldFits,
    Grid,
    Path,
    RecalibratedPairFit,
    combine,
    fits_without,
    held_out_sums,
    recalibrate_candidates,
    recalibrate_choice,
    results_of,
    select,
    walk_to,
)

# Along the path a fit need not be exact: its held-out log-likelihood has a standard error of about 1e-3 per row.
_PATH_TOL = 1e-8
SEARCH_PSEUDO_OBSERVATIONS = 8.0  # imaginary, where nobody says how many


class SAREMClassifierCV(PairClassifier):
    r"""SAR-EM with two logistic models; their penalties and the classifier's attributes by cross-validation.

    Each candidate is a pair of penalties together with a set of attributes that the classifier may see. Three things
    stand between such fits and a good answer, and each has its remedy:

    * A penalty that finds the *direction* of the classifier shrinks the *scale* of its logit, and what `f` does not
      reach goes into `e`. So scale and level of each candidate's held-out logits are estimated anew, together with the
      propensity: the fit is *recalibrated*. Candidates are scored by the observed log-likelihood of held-out labels after
      that, which needs no true class.
    * Labels tell little of the level: often a lower class prior with a higher propensity does as well. So all levels
      are walked through, and the mean class prior, weighted by likelihood, is believed; the spread is the class prior's
      interval.
    * Labels often cannot tell whether the classifier should see the propensity attributes. Of each set that is tied
      with the best, the penalty nearest to 1 among the tied ones is taken, and the mean of these models' logits,
      recalibrated once more, is the answer: again a pair of logistic models.

    With several looks of a row, audits, false positives or known facts, the level is no matter of belief any more.
    Candidates are then the penalised fits themselves, scored by the likelihood of *all* that held-out rows showed:
    labels at looks, and audits, the only truth there is; folds are alike in audited rows of each class too. Of tied
    sets the one with the best score is taken, at the penalty nearest to 1 among its tied ones. With several looks,
    scale and level of the choice, and the propensity, are estimated anew from its held-out logits: with 2,000 rows, 30
    attributes and two looks that lowers the class prior's error from .0238 to .0196 (difference .0042, standard error
    .0015, 24 runs). With one look and 200 audits it does not pay (.0010, .0024), and facts hold for the fit to all
    rows: there `recalibrate` has no effect.

    ``selection_`` says what was tied and which class priors it has; there is a warning where they differ by more than
    0.25. If you know which attributes bear on the class, give them to `SAREMClassifier`, or give sets of which each
    could be right.

    Parameters
    ----------
    propensity_attributes : column selector or "all", optional
        What the labelling depends on. Columns by name, position, slice, mask, callable or polars selector; the name of
        an encoded attribute stands for all of its columns. None: the propensity is one constant. The word "all": every
        column, for who cannot name any; which model an attribute belongs to is then a matter of form, the propensity is
        much less sure, and `SARStackingClassifier` finds the class better.
    attribute_sets : "auto", sequence or dict, default="auto"
        Sets of columns that the classifier may see, each selected as `propensity_attributes` are, None for all; a dict
        also names them. "auto": all columns, and all but the propensity attributes.
    labelling : Labelling, optional
        What is said of the labelling beyond its attributes, as in `SAREMClassifier`. Visit attributes are in none of
        the sets.
    known : list, optional
        What is known from elsewhere, as in `SAREMClassifier`. Shares hold in every training part. Unless it says
        otherwise there are ``PseudoObservations(8)``; with several looks or audits none.
    Cs : int or sequence of float, default=10
        Inverse penalties of the classifier; a number: that many, two for each factor of 10, from 0.01 upwards; 10
        of them end at 316 and have the 1 of `SAREMClassifier` among them.
    propensity_Cs : int or sequence of float, default=(1.0,)
        Inverse penalties of the propensity model, which the recalibrated step fits anew.
    cv : int, splitter or list of pairs, default=5
        Folds. A number: each fold has the same share of labelled rows, and equal rows are in one fold. Pairs are rows
        to fit and rows to score; for groups, ``list(GroupKFold().split(X, s, groups))``.
    n_standard_errors : float, default=2.0
        How far behind the best a set of attributes counts as tied, in standard errors of the difference, paired over
        rows; penalties, half of that. 0: the best score is taken.
    recalibrate : bool, default=True
        Whether scale, level and propensity are estimated anew from held-out logits. Without that the candidates are the
        penalised fits themselves, and of tied sets the one with the lowest label frequency is taken, by the paper's
        principle.
    tol : float, optional
        The final fit ends when it gains less than this in log-likelihood per row: where one more step of Newton's
        method is predicted to (penalised; default 1e-10). Fits along the path end at 1e-8.
    max_iter : int, default=500
        Limit on the iterations of each fit.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.
    random_state : int, numpy generator or RandomState, optional
        Seed of the folds where `cv` is a number.
    n_jobs : int, optional
        Folds that are fitted at the same time, in processes. Each fit uses all cores by itself already: worth it for
        small tables.
    verbose : bool, default=False
        Print what is being fitted.

    Attributes
    ----------
    C_, propensity_C_ : float
        Inverse penalties of the best chosen candidate.
    classification_attributes_ : array of int
        Columns that the classifier sees.
    recalibration_ : Recalibration
        Where `recalibrate`, with one label of each row: `slope` and `shift` of the classifier's logit, and `grid`, how
        likely each class prior is.
    cv_results_ : dict of arrays
        One entry per candidate, with the keys of scikit-learn's searches (``params``, ``param_C``,
        ``param_propensity_C``, ``param_attributes``, ``split0_test_score``, ``mean_test_score``,
        ``std_test_score``, ``rank_test_score``: mean log-likelihood per row), and ``behind_best`` with its
        ``standard_error``, ``tied``, ``path`` (which set), ``class_prior`` and ``label_frequency`` (of held-out rows),
        ``converged``.
    best_index_ : int
        The best row of ``cv_results_`` among the chosen; ``selection_.members`` has all of them.
    best_params_ : dict
        Its parameters.
    best_score_ : float
        Its mean held-out log-likelihood.
    selection_ : Selection
        Which rows of ``cv_results_`` were chosen, and why: ``selection_.reason``; ``selection_.class_priors`` are the
        lowest and highest of what was chosen.
    class_prior_, label_frequency_ : float
        Where `recalibrate`: from logits of rows that the models had not seen, and the mean over all levels.
    coef_, intercept_, propensity_coef_, propensity_intercept_, log_likelihood_, n_iter_, converged_, history_
        Of the choice fitted to all rows, as in `SAREMClassifier`.
    n_looks_, n_audited_, label_frequencies_, false_positive_rate_, visit_coef_
        With several looks or audits, as in `SAREMClassifier`.
    form_test_, classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    See Also
    --------
    SAREMClassifier : One pair of penalties.
    scarless.diagnostics.SelectionPathDisplay : A picture of the candidates.

    Notes
    -----
    ``class_prior_interval()`` knows of the choice and of the level; measured coverage is in its docstring.
    Standard errors of coefficients do not know of the choice: they are those of two logistic models at the recalibrated
    coefficients, with the penalty that these bear (`C` times the square of the slope), direction included.
    `scarless.diagnostics.bootstrap_intervals` repeats everything on every resample, which takes as many searches.

    What scikit-learn fits or chooses by `y` takes the observed labels for classes and undoes the correction:
    ``CalibratedClassifierCV`` and ``StackingClassifier`` around this classifier, ``scoring="roc_auc"`` or
    ``"accuracy"``, ``TunedThresholdClassifierCV``. There is a warning where that can be noticed. Leave `scoring` out,
    which is the likelihood of held-out labels, or use `scarless.metrics.make_pu_scorer`, which also says how to tune a
    threshold. How far probabilities are right is shown by `scarless.diagnostics.ClassCalibrationDisplay`.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from Positive
    and Unlabeled Data", ECML-PKDD 2019, for the likelihood. Meinshausen, "Recalibrated Lasso", Computational Statistics and
    Data Analysis 2007, for recalibrating.

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
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
            Also a tensor of torch, or another array on a device of its own, with one label of each row and
            scikit-learn's ``array_api_dispatch``: the search then runs there, its folds and penalties side by side.
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows; several looks as in `SAREMClassifier`.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts.
        audit : array of shape (n_rows,), optional
            The true class, 1 or 0, of rows that someone checked, as in `SAREMClassifier`. Audits of held-out rows help
            to choose.
        groups : array of shape (n_rows,) or "rows", optional
            What each row belongs to, where several rows are of one patient or thing. Folds then never split a group,
            and intervals account for rows of a group that depend on each other. "rows": each row is a group, for
            weights that say for how many others a row stands, as in a survey.

        Returns
        -------
        self
        """
        grid = self._check_parameters()
        if has_own_engine(X) and not on_device(X):
            refuse_folds_in_memory(self.cv, "cv")
        group, sample_weight = None if groups is None else check_groups(groups, X), as_shares(sample_weight, groups)
        split = None if means_rows(groups) else group
        if tells_more(self, X, y, audit):
            refuse_device(X, "Several looks, audits, false positives and known facts")
            given = read_rows(self, X, y, sample_weight, audit)
        else:
            given = self._one_label(self._check_rows(X, y, sample_weight), X)
        self._fit_grid(given, X, grid, split)
        self._account_for(group, given.rows.engine)
        return self

    def _one_label(self, rows: LabelledRows, X: Any) -> Given:
        e_columns = self._columns(X, self.propensity_attributes, "propensity_attributes")
        return Given(rows, np.arange(self.n_features_in_), e_columns)

    def _lives_in_engine(self) -> bool:
        return True

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        self._fit_grid(self._one_label(rows, X), X, self._check_parameters())

    def _fit_grid(self, given: Given, X: Any, grid: Grid, groups: Integers | None = None) -> None:
        """Fit in folds, judge by all that held-out rows showed, choose, and fit the choice to all rows."""
        looks, sets = given.looks, self._sets(X, given)
        if looks is None and not means_all(self.propensity_attributes):
            for columns in sets.values():
                warn_if_swappable(Design.of(columns), Design.of(given.e_columns), type(self).__name__)
        audited = given.audit if looks is not None and looks.n_audited else None
        folded = fold_rows(self.cv, given.rows, self.random_state, name="cv", groups=groups, audit=audited)
        whole = given.problem(1.0, 1.0)
        if looks is None:
            swappable = given.e_columns.size == given.rows.engine.n_columns
            audits = add_pseudo_observations(given.rows.engine, whole.e, self._audits, swappable=swappable)
            whole = whole._replace(audits=audits)
        paths = [Path(i, whole.seeing(Design.of(columns))) for i, columns in enumerate(sets.values())]
        with BLAS.on_one_thread():  # once for all fits: setting it takes as long as a pass over few rows
            self._search(paths, grid, list(sets), folded, given)

    def _sets(self, X: Any, given: Given) -> dict[str, Columns]:
        """Return the columns of each set; what belongs to single looks is in none of them."""
        taken = np.arange(0) if given.looks is None else given.looks.taken

        def columns_of(chosen: Any) -> Columns:
            columns = self._columns(X, chosen, "attribute_sets")
            if chosen is not None and not isinstance(chosen, str) and np.isin(columns, taken).any():
                raise ValueError(
                    "attribute_sets names columns that are visit_attributes too; these belong to single looks, and are "
                    "seen by the propensity of their look only."
                )
            return columns

        sets = check_attribute_sets(self.attribute_sets, given.e_columns, self.n_features_in_, columns_of)
        return {name: np.setdiff1d(columns, taken) if taken.size else columns for name, columns in sets.items()}

    def _search(self, paths: list[Path], grid: Grid, sets: list[str], folded: FoldedRows, given: Given) -> None:
        """Fit in folds, judge, choose, and fit the choice.

        What tells optima apart by height tells candidates apart as well: the best score then decides among those tied.
        """
        fits = judged = self._fold_fits(paths, grid, folded)
        by_score = paths[0].problem.told_by_height
        if self.recalibrate and not by_score:
            self._tell("recalibrating the candidates")
            judged = recalibrate_candidates(fits, folded, paths[0].problem, self._audits)
        sums, tested = held_out_sums(judged, folded), folded.tested_weight()
        self.cv_results_ = results_of(paths, grid, sums, sets, tested=tested, n_standard_errors=self.n_standard_errors)
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
    def _audits(self) -> float:
        return check_known(self.known, audits=SEARCH_PSEUDO_OBSERVATIONS).audits

    def _fold_fits(self, paths: list[Path], grid: Grid, folded: FoldedRows) -> list[FoldFits]:
        """Walk every path in every fold, from nothing: the rows held out are not known there."""
        n_candidates, n_folds = len(paths) * len(grid.pairs()), folded.n_folds
        engines, options = [folded.to_fit(fold) for fold in range(n_folds)], {"tol": _PATH_TOL}
        if go_in_lockstep(engines):
            self._tell(f"{n_folds} folds in lockstep, {n_candidates} candidates")
            return fits_without(paths, grid, engines, max_iter=self.max_iter, **options)
        jobs = (delayed(fits_without)(paths, grid, [each], max_iter=self.max_iter, **options) for each in engines)
        with progress_bar("cross-validation", n_folds, False if self.verbose else None) as advance:
            fits = []
            for i, (fit,) in enumerate(Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)):
                self._tell(f"fold {i + 1} of {n_folds}, {n_candidates} candidates")
                fits.append(fit)
                advance()
        return fits

    def _store_chosen(
        self, paths: list[Path], grid: Grid, fits: list[FoldFits], folded: FoldedRows, given: Given
    ) -> None:
        tol = 1e-10 if self.tol is None else self.tol
        members = []
        for candidate in self.selection_.members:
            number, place = divmod(candidate, len(grid.pairs()))
            C, propensity_C = grid.pairs()[place]
            fit = walk_to(paths[number], grid, C, propensity_C, tol=tol, max_iter=self.max_iter)
            warn_unless_converged(fit.solution, type(self).__name__, total_weight=paths[number].problem.weight, tol=tol)
            members.append((paths[number].problem._replace(C=C, propensity_C=propensity_C), fit, candidate))
        self.best_index_ = self.selection_.index
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.C_, self.propensity_C_ = self.best_params_["C"], self.best_params_["propensity_C"]
        if self.recalibrate and given.looks is None:
            chosen = combine(members, fits, folded, self._audits, self.selection_.possible)
            self.classification_attributes_ = chosen.problem.f.indices
            self._store_recalibrated(given, chosen, [fit for _, fit, _ in members])
            self._warn_if_wide()
            return
        ((problem, fit, _),) = members
        # With one look and audits it does not pay; what is known holds for the fit to all rows.
        if self.recalibrate and given.looks is not None and given.looks.n_looks > 1 and not problem.facts:
            models = [each.models[self.best_index_] for each in fits]
            problem, fit = recalibrate_choice(problem, fit, models, folded)
        self.classification_attributes_ = problem.f.indices
        if given.looks is not None:
            given = given._replace(looks=given.looks._replace(objective=problem.objective))
        self._store_fit(given, problem, fit)
        self._warn_if_wide()

    def _store_recalibrated(self, given: Given, chosen: RecalibratedPairFit, fits: list[PairFit]) -> None:
        """Store a recalibrated pair, found from fits by Newton."""
        problem, recalibration, name = chosen.problem, chosen.recalibration, type(self).__name__
        self._store_history(fits[0])
        self.n_iter_ = max(fit.solution.n_iter for fit in fits)
        self.converged_ = all(fit.converged for fit in fits) and recalibration.converged
        parameters = np.concatenate([chosen.f, chosen.e])
        inference = pair_inference(problem._replace(audits=None), parameters)
        self._hold(
            FittedPair(
                objective=problem.objective,
                parameters=parameters,
                e_columns=given.e_columns,
                weight=problem.weight,
                labelled=float(problem.totals.labelled),
                inference=inference,
                recalibration=recalibration,
                grids=(recalibration.grid, *(each.grid for each in chosen.possible)),
            )
        )
        warn_about_units(problem.engine.units, attribute_names(self), name)
        self.recalibration_, self.log_likelihood_ = recalibration, inference.log_likelihood
        self.label_frequency_, self.class_prior_ = recalibration.label_frequency, recalibration.class_prior
        warn_if_all_labelled(self.label_frequency_, name)
        warn_if_all_positive(self.class_prior_, problem.labelled_share, name)
        self._doubt_pair(problem, chosen.f, chosen.e)

    def _warn_if_wide(self) -> None:
        if self.selection_.wide:
            low, high = self.selection_.class_priors
            warn_user(
                f"{type(self).__name__}: the labels cannot tell apart candidates whose class priors go from {low:.2f} "
                f"to {high:.2f}. What would help: fewer attributes in either model where you know better, more "
                "labelled rows, or an audit, that is the true class of some unlabelled rows. See "
                "class_prior_interval().",
                UserWarning,
            )

    def _tell(self, what: str) -> None:
        if self.verbose:
            print(f"SAREMClassifierCV: {what}", flush=True)


def _penalties(values: Any, name: str) -> Vector:
    """Return the distinct inverse penalties, sorted."""
    if isinstance(values, int | np.integer) and not isinstance(values, bool):
        return np.asarray(10.0 ** (-2.0 + 0.5 * np.arange(check_whole(values, name, at_least=1))), dtype=np.float64)
    given = list(values) if np.iterable(values) and not isinstance(values, str) else []
    if not given:
        raise ValueError(f"{name} must be a whole number or a sequence of numbers above 0; got {values!r}.")
    numbers = np.unique([check_positive(value, f"each of {name}") for value in given])
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be finite: without a penalty a path has no end. Use SAREMClassifier(C=np.inf).")
    return numbers
