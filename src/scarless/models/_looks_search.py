"""What `SAREMClassifierCV` does with several looks, audits, false positives and facts from elsewhere."""

from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from scarless.engines.blas import BLAS
from scarless.models._attribute_sets import check_attribute_sets
from scarless.models._base import warn_unless_converged
from scarless.models._looks_answers import LooksAnswers
from scarless.models._looks_design import LooksRows, by_name
from scarless.numerics.arrays import Columns
from scarless.numerics.linear import Design
from scarless.outside.progress import progress_bar
from scarless.pair.cross_validation import results_of, select
from scarless.pair.fit import FitOptions
from scarless.pair.folded import FoldedRows, fold_rows
from scarless.pair.looks_search import (
    LooksFoldFits,
    LooksPath,
    Models,
    held_out_looks,
    looks_fits_without,
    relax_choice,
    walk_looks_to,
)
from scarless.pair.penalty_path import Grid
from scarless.pair.selection import Selection

_PATH_TOL = 1e-8


class LooksSearch(LooksAnswers):
    """The half of `SAREMClassifierCV` that takes more than one label column; its parameters are that class's."""

    attribute_sets: Any
    cv: Any
    n_standard_errors: float
    relax: bool
    random_state: Any
    n_jobs: int | None
    verbose: bool
    selection_: Selection

    def _tell(self, what: str) -> None:
        """Say what is being done, to who wants to know."""
        raise NotImplementedError

    def _warn_if_wide(self) -> None:
        """Warn where what was tied has class priors that differ."""
        raise NotImplementedError

    def _search_looks(self, X: Any, y: Any, sample_weight: Any, audit: Any, grid: Grid) -> None:
        """Check, fit in folds, judge by all that held-out rows showed, choose, and fit the choice to all rows."""
        X, y, audit = by_name(X, y, audit)
        given = self._check_looks_rows(X, y, sample_weight, audit)
        sets = self._looks_sets(X, given)
        rows = given.rows
        audited = given.audit if given.looks.n_audited else None
        folded = fold_rows(self.cv, rows, self.random_state, name="cv", audit=audited)
        paths = [_path(i, given, columns) for i, columns in enumerate(sets.values())]
        with BLAS.on_one_thread():
            fits = self._looks_fold_fits(paths, grid, folded)
            sums, tested = held_out_looks([fit.models for fit in fits], folded), folded.tested_weight()
        self.cv_results_ = results_of(
            paths, grid, sums, list(sets), tested=tested, n_standard_errors=self.n_standard_errors
        )
        self.cv_results_["converged"] = np.all([fit.converged for fit in fits], axis=0)
        self.selection_ = select(self.cv_results_, combine=False, by_score=True)
        self._store_best(paths, grid, given, [fit.models for fit in fits], folded)
        self._warn_if_wide()

    def _looks_sets(self, X: Any, given: LooksRows) -> dict[str, Columns]:
        """Return the columns of each set; what belongs to single looks is in none of them."""
        taken = np.concatenate([np.arange(0), *given.looks.visits.values()]).astype(np.intp)

        def columns_of(chosen: Any) -> Columns:
            columns = self._columns(X, chosen, "attribute_sets")
            if chosen is not None and not isinstance(chosen, str) and np.isin(columns, taken).any():
                raise ValueError(
                    "attribute_sets names columns that are visit_attributes too; these belong to single looks, and are "
                    "seen by the propensity of their look only."
                )
            return columns

        sets = check_attribute_sets(self.attribute_sets, self._e_columns, self.n_features_in_, columns_of)
        return {name: np.setdiff1d(columns, taken) if taken.size else columns for name, columns in sets.items()}

    def _looks_fold_fits(self, paths: list[LooksPath], grid: Grid, folded: FoldedRows) -> list[LooksFoldFits]:
        """Walk every path in every fold, from nothing: the rows held out are not known there."""
        options, n_folds = FitOptions(_PATH_TOL, self.max_iter), folded.n_folds
        jobs = (delayed(looks_fits_without)(paths, grid, folded.to_fit(fold), options) for fold in range(n_folds))
        with progress_bar("cross-validation", n_folds, False if self.verbose else None) as advance:
            fits = []
            for i, fit in enumerate(Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)):
                self._tell(f"fold {i + 1} of {n_folds}, {len(paths) * len(grid.pairs())} candidates")
                fits.append(fit)
                advance()
        return fits

    def _store_best(
        self, paths: list[LooksPath], grid: Grid, given: LooksRows, fits: list[Models], folded: FoldedRows
    ) -> None:
        tol = 1e-10 if self.tol is None else self.tol
        self.best_index_ = self.selection_.index
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.C_, self.propensity_C_ = self.best_params_["C"], self.best_params_["propensity_C"]
        path = paths[self.best_index_ // len(grid.pairs())]
        fit = walk_looks_to(path, grid, self.C_, self.propensity_C_, FitOptions(tol, self.max_iter))
        problem = path.problem._replace(C=self.C_, propensity_C=self.propensity_C_)
        warn_unless_converged(fit.solution, type(self).__name__, total_weight=problem.weight, tol=tol)
        # With one look and audits it does not pay; what is known holds for the fit to all rows.
        if self.relax and given.looks.n_looks > 1 and not problem.facts:
            problem, fit = relax_choice(problem, fit, [models[self.best_index_] for models in fits], folded)
        self.classification_attributes_ = self._f_columns = problem.objective.f.indices
        self._looks = given.looks._replace(objective=problem.objective)
        self._doubt_looks(problem, fit, given.labels, given.looks)
        self._store_looks(problem, fit, self._looks)

    def _looks_remarks(self) -> list[str]:
        remarks = super()._looks_remarks()
        if self.selection_.n_tied > 1:
            remarks.append(f"{self.selection_.reason} Standard errors of coefficients do not know of this choice.")
        return remarks


def _path(number: int, given: LooksRows, columns: Columns) -> LooksPath:
    """Return the problem whose classifier sees some columns."""
    problem = given.problem(1.0, 1.0)
    objective = replace(problem.objective, f=Design.of(columns))
    facts = tuple(replace(fact, objective=objective) for fact in problem.facts)
    return LooksPath(number, problem._replace(objective=objective, facts=facts))
