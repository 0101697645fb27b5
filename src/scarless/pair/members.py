"""The members of a stack: classifiers that have not seen the labels that they are judged by, each relaxed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from scarless.engines import Rows
from scarless.numerics.arrays import Columns, Vector
from scarless.numerics.linear import Design
from scarless.pair.cross_fit import Tell
from scarless.pair.cross_validation import results_of, select
from scarless.pair.crossed import CrossOptions, cross_fit, numeric_columns
from scarless.pair.folded import FoldedRows
from scarless.pair.folds import Fold
from scarless.pair.penalty_path import Grid, Path, fits_without, held_out_sums, walk_to
from scarless.pair.problem import PairProblem, imagine_audits
from scarless.pair.relaxed import Relaxation, relax
from scarless.pair.relaxed_search import held_out_rows, relax_candidates
from scarless.pair.rows import Training, engine_of

_CS = np.array([0.01, 0.1, 1.0, 10.0, 100.0])
_PATH_TOL = 1e-7


@dataclass(frozen=True)
class Member:
    """One classifier on one set of attributes."""

    name: str
    attributes: str
    u: Vector  # logits of the training rows, by fits that have not seen them
    relaxation: Relaxation
    logits: Callable[[Any], Vector]  # of other rows, not relaxed
    model: Any
    n_iter: int

    @property
    def f(self) -> Vector:
        """Relaxed probabilities of the training rows."""
        return np.asarray(expit(self.relaxation(self.u)))


@dataclass(frozen=True)
class Linear:
    """A logistic model of some columns."""

    columns: Columns
    beta: Vector
    C: float

    def __call__(self, X: Any) -> Vector:
        """Return the logits of rows."""
        return np.asarray(numeric_columns(X, self.columns) @ self.beta[:-1], dtype=np.float64) + self.beta[-1]


def needs_dense(classifier: Any) -> bool:
    """Whether a member is known to refuse sparse rows, by scikit-learn's tags.

    A pipeline may make its rows dense on the way, which its tags do not say; None is the logistic model.
    """
    return not (classifier is None or isinstance(classifier, Pipeline) or get_tags(classifier).input_tags.sparse)


def refuse_sparse(X: Any, dense: list[str]) -> None:
    """Raise where rows are sparse and members of these names need dense ones."""
    if dense and sparse.issparse(X):
        named = ", ".join(map(repr, dense))
        raise ValueError(
            f"X is sparse, and {named} of the members cannot read sparse rows. Pass X.toarray(), or only members that "
            "can: None, the logistic model, is one."
        )


def without_dense(estimators: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return those of the default members that read sparse rows, or raise where there are none."""
    kept = [(name, classifier) for name, classifier in estimators if not needs_dense(classifier)]
    if not kept:
        raise ValueError(
            "X is sparse, and where every attribute may drive the labelling boosting is the only default member, which "
            "cannot read sparse rows. Name the attributes that drive it in propensity_attributes, or pass X.toarray()."
        )
    return kept


def logistic_member(
    name: str,
    attributes: str,
    training: Training,
    f_columns: Columns,
    e_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
) -> Member:
    """Fit two logistic models with the penalty nearest to 1 of those that held-out labels cannot tell from the best."""
    engine = engine_of(training.X, s=training.s, w=training.weight)
    folded, grid = FoldedRows.of(engine, folds), Grid(_CS, np.array([options.propensity_C]))
    exchangeable = bool(np.isin(f_columns, e_columns).all())
    audits = imagine_audits(engine, Design.of(e_columns), options.audits, exchangeable=exchangeable)
    problem = PairProblem.of(engine, Design.of(f_columns), Design.of(e_columns))._replace(audits=audits)
    path = Path(0, problem)
    settings: dict[str, Any] = {"tol": _PATH_TOL, "max_iter": options.max_iter}
    fits = fits_without([path], grid, [folded.to_fit(fold) for fold in range(folded.n_folds)], **settings)
    sums = held_out_sums(relax_candidates(fits, folded, problem, options.audits), folded)
    results = results_of([path], grid, sums, [attributes], tested=problem.weight, n_standard_errors=2.0)
    chosen = select(results, combine=True).index
    C, propensity_C = grid.pairs()[chosen]
    fit = walk_to(path, grid, C, propensity_C, **settings)
    judged = held_out_rows(fits, folded, chosen)
    relaxation = relax(judged, problem.e, audits=options.audits, hold=fit.e if exchangeable else None)
    linear, u = Linear(f_columns, fit.f, C), judged.collect(_logits)
    return Member(name, attributes, u, relaxation, linear, linear, max(fit.solution.n_iter, 1))


def _logits(X: Any, rows: Rows) -> Vector:
    return np.asarray(rows["u"])


def cross_fit_member(
    name: str,
    attributes: str,
    classifier: Any,
    training: Training,
    f_columns: Columns,
    e_columns: Columns,
    folds: list[Fold],
    options: CrossOptions,
    tell: Tell,
) -> Member:
    """Cross-fit any classifier together with a logistic propensity."""
    crossed = cross_fit(classifier, None, training, f_columns, e_columns, folds, options, tell)
    fit, steps = crossed.fit, len(crossed.fit.log_likelihood)
    return Member(name, attributes, fit.u, crossed.relaxation, crossed.plain_logits, crossed, steps)
