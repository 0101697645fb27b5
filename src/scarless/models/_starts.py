"""Where the climb of the two-model likelihood begins: it has several summits, and the start decides which is reached.

Each start is a vector of both models' parameters.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from scarless.data.options import check_choice, check_share, check_whole
from scarless.engines import Engine
from scarless.models._logistic import Audits, balanced_start, fit_pair, paper_start, propensity_start
from scarless.numerics.linear import Design, logits, squared_sums
from scarless.numerics.roots import find_root

Vector = NDArray[np.float64]
Columns = NDArray[np.intp]

KINDS = ("auto", "paper", "exclusion", "class_prior", "random")
SEVERAL = ("auto", "class_prior", "random")
# A start is left at once: it need not be exact.
_ROUGH = 1e-6


class Start(NamedTuple):
    """A point to climb from, and what to call it."""

    name: str
    parameters: Vector


class PairProblem(NamedTuple):
    """The rows, the columns that each model sees, and the penalties."""

    engine: Engine
    s: Vector
    w: Vector
    f_columns: Columns
    e_columns: Columns
    C: float
    propensity_C: float
    audits: Audits | None = None

    @property
    def f(self) -> Design:
        """What the classifier sees."""
        return Design.of(self.f_columns)

    @property
    def e(self) -> Design:
        """What the propensity model sees."""
        return Design.of(self.e_columns)

    @property
    def labelled_share(self) -> float:
        """Share of rows that are labelled: no class prior is below it."""
        return float(self.w @ self.s) / float(self.w.sum())


def make_starts(problem: PairProblem, kind: Any, n_starts: int, rng: np.random.Generator) -> list[Start]:
    """Return `n_starts` starts of a kind; fewer where the kind has fewer.

    `kind` is "auto", "paper", "exclusion", "class_prior", "random", or a class prior between 0 and 1.
    """
    if not isinstance(kind, str):
        return [class_prior_start(problem, float(kind))]
    if kind == "class_prior":
        steps = np.arange(1, n_starts + 1) / (n_starts + 1)
        return [class_prior_start(problem, prior) for prior in _between(problem, steps)]
    if kind == "random":
        return [random_start(problem, i, rng) for i in range(n_starts)]
    if kind == "paper":
        return [the_papers_start(problem)]
    if kind == "exclusion":
        return [exclusion_start(problem)]
    return [start for _, start in zip(range(n_starts), _one_after_the_other(problem, rng), strict=False)]


def check_starts(estimator: Any, solver: str) -> None:
    """Check the parameters that say where to begin."""
    n_starts, start = check_whole(estimator.n_starts, "n_starts", at_least=1), estimator.start
    if isinstance(start, str):
        check_choice(start, "start", KINDS)
    else:
        check_share(start, "start (a class prior, or a name)")
    if n_starts > 1 and start not in SEVERAL:
        raise ValueError(
            f"start={start!r} is one start, and n_starts={n_starts}. Use start='auto', 'class_prior' or 'random' for "
            "several, or n_starts=1."
        )
    if solver == "em" and (n_starts > 1 or start not in ("auto", "paper")):
        raise ValueError(
            f"EM begins at the paper's start; got n_starts={n_starts}, start={start!r}. Several starts need "
            "solver='newton', that is two logistic models."
        )


def the_papers_start(problem: PairProblem) -> Start:
    """Return the balanced classifier of labelled against unlabelled rows, and the propensity that it implies."""
    engine, s, w, C, propensity_C = problem.engine, problem.s, problem.w, problem.C, problem.propensity_C
    return Start("paper", paper_start(engine, problem.f, problem.e, s, w, C=C, propensity_C=propensity_C))


def exclusion_start(problem: PairProblem) -> Start:
    """Return the pair that was fitted while the classifier could not see the propensity attributes.

    What these attributes do to the labels is then the propensity's work first; in the climb that follows the classifier
    sees them too, and takes of it what raises the likelihood.
    """
    own = ~np.isin(problem.f_columns, problem.e_columns)
    fit = fit_pair(
        problem.engine,
        Design.of(problem.f_columns[own]),
        problem.e,
        problem.s,
        problem.w,
        C=problem.C,
        propensity_C=problem.propensity_C,
        tol=_ROUGH,
        max_iter=200,
        audits=problem.audits,
    )
    beta = np.zeros(problem.f.n_parameters)
    beta[np.append(np.flatnonzero(own), beta.size - 1)] = fit.f
    return Start("exclusion", np.concatenate([beta, fit.e]))


def class_prior_start(problem: PairProblem, class_prior: float) -> Start:
    """Return the paper's start with the classifier's intercept moved until its mean is the class prior."""
    engine, s, w, *_ = problem
    beta = balanced_start(engine, problem.f, s, w, C=problem.C)
    z = engine.collect(_block_logits, problem.f, beta)

    def excess(shift: float) -> float:
        return float(w @ expit(z + shift)) / float(w.sum()) - class_prior

    far = float(np.abs(z).max()) + 50.0
    shift = find_root(excess, -far, far)
    beta[-1] += shift
    e = propensity_start(engine, problem.e, s, w, np.asarray(expit(z + shift)), C=problem.propensity_C)
    return Start(f"class prior {class_prior:.2g}", np.concatenate([beta, e]))


def random_start(problem: PairProblem, number: int, rng: np.random.Generator) -> Start:
    """Return random coefficients that give logits of size 1, at a random class prior."""
    prior = float(_between(problem, rng.random(1))[0])
    f = _random_model(problem, problem.f, prior, rng)
    e = _random_model(problem, problem.e, problem.labelled_share / prior, rng)
    return Start(f"random {number + 1}", np.concatenate([f, e]))


def _one_after_the_other(problem: PairProblem, rng: np.random.Generator) -> Iterator[Start]:
    """Yield the paper's start, the one by exclusion where it is another, three class priors, then random ones."""
    yield the_papers_start(problem)
    if np.isin(problem.f_columns, problem.e_columns).any():
        yield exclusion_start(problem)
    for prior in _between(problem, np.array([0.5, 0.25, 0.75])):
        yield class_prior_start(problem, prior)
    number = 0
    while True:
        yield random_start(problem, number, rng)
        number += 1


def _between(problem: PairProblem, share: Vector) -> Vector:
    """Return class priors that far from the share of labelled rows, the least possible, to 1."""
    least = problem.labelled_share
    return np.clip(least + (1.0 - least) * share, 1e-6, 1.0 - 1e-6)


def _random_model(problem: PairProblem, design: Design, mean: float, rng: np.random.Generator) -> Vector:
    (squares,) = problem.engine.with_rows(w=problem.w).total(_block_squares, design)
    size = np.sqrt(np.maximum(squares[:-1], 0.0) / problem.w.sum())
    unit = np.where(size > 0, size, 1.0) * np.sqrt(max(1, design.n_columns))
    return np.append(rng.normal(size=design.n_columns) / unit, logit(np.clip(mean, 1e-6, 1.0 - 1e-6)))


def _block_logits(X: Any, rows: Any, design: Design, beta: Vector) -> Vector:
    return logits(design.take(X), beta)


def _block_squares(X: Any, rows: Any, design: Design) -> tuple[Vector]:
    return (squared_sums(design.take(X), rows["w"]),)
