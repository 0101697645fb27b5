"""Where the climb of the two-model likelihood begins: it has several summits, and the start decides which is reached.

Each start is a vector of both models' parameters.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from scarless.checks.options import check_choice, check_share, check_whole
from scarless.engines.blas import BLAS
from scarless.engines.blocks import Largest
from scarless.numerics.arrays import Matrix, Vector, namespace_of
from scarless.numerics.likelihood import sigmoid
from scarless.numerics.linear import Design, squared_sums
from scarless.numerics.uncertainty import find_root
from scarless.pair.fit import FitOptions, fit_pair, paper_start
from scarless.pair.logistic import (
    as_targets,
    balanced_start,
    constant_model,
    fit_targets,
    propensity_start,
    with_logits,
    with_probability,
)
from scarless.pair.problem import PairProblem

PAPER = "paper"
NAMES = (PAPER, "exclusion", "random")  # of starts that a user may ask for, beside class priors
NEAREST_PRIOR = 1e-12  # to 0 or 1 that a class prior may be, to be told from it in sums over rows
GAIN_OF_A_START = 1e-6  # predicted per row, where the fit of a start ends: it is left at once, and need not be exact
#: Rough fits that look for starts: how many of each kind, and on how many rows, of which so many are labelled.
#: Evidence: in ``benchmarks.starts``, with five starts, 0 of the 200 fits on which these numbers were chosen ended
#: below the best optimum known, and 1 of 200 others; without rough fits and extreme starts it was 8 of the first 200.
SCOUTS, ROWS_OF_SCOUTS, LABELS_OF_SCOUTS = 16, 1000, 50
MAX_PARAMETERS_OF_A_SCOUT = 300  # above which a rough fit is no longer quick
MAX_PARAMETERS_OF_ALL_SCOUTS = 800  # of one kind together: of wide models there are fewer
#: Rough fits from whose ends all rows are fitted. Evidence: as for `SCOUTS`.
BEST_SCOUTS = 3
#: Class priors of starts, as shares of the way from the share of labelled rows to 1. Evidence: as for `SCOUTS`.
PRIORS_OF_STARTS = np.array([0.5, 0.25, 0.75])
#: From so many rows on, two parts of so many rows are fitted first. By judgement.
MIN_ROWS_FOR_PARTS, ROWS_OF_A_PART = 100_000, 20_000
ROWS_OF_LARGER_PARTS = (100_000, 500_000, 2_500_000)
#: Label frequencies of these two parts closer than this count as those of one optimum. By judgement.
SAME_LABEL_FREQUENCY = 0.05
#: Propensity, or share of positives, of the two extreme starts: near its end, where an optimiser can still turn back.
#: Evidence: as for `SCOUTS`.
PROBABILITY_OF_EXTREME_STARTS = 0.9
#: Audits of each class from which on a start is made of them. By judgement.
MIN_AUDITS_TO_BEGIN = 10
RANGE_OF_FIRST_RATES = (0.01, 0.4)  # of false positives, where a fit may begin
MIN_LOOKS = 1e-12  # at a row, to divide by


class Start(NamedTuple):
    """A point to climb from, what to call it, and what the Hessian is like there, where that is known."""

    name: str
    parameters: Vector
    curvature: Matrix | None = None


def make_starts(problem: PairProblem, asked: Any, rng: np.random.Generator) -> list[Start]:
    """Return the starts that were asked for: a number of them, or a list of names and class priors.

    Models that see the same attributes under different penalties make one problem with that whose penalties are
    swapped: what is an optimum of one is, with both models swapped, one of the other. So that both problems find the
    same, the starts of the other, swapped, are added.
    """
    if not problem.swappable or problem.propensity_C == problem.C:
        return _asked_for(problem, asked, rng)
    others = _asked_for(problem.mirrored, asked, deepcopy(rng))
    return _asked_for(problem, asked, rng) + [swapped_start(problem, start) for start in others]


def starts_by_evidence(problem: PairProblem, asked: int) -> list[Start]:
    """Return where to begin where looks, audits or facts tell optima apart: from audits, the paper's, both extremes.

    Begins as if each row had one look, whether any label was found. More than one start that was asked for are class
    priors. Where nothing tells the models apart there is the paper's alone: of two images of one optimum either might
    be higher.
    """
    one, named = problem.one_look, [the_papers_start, all_labelled_start, all_positive_start]
    starts = [make(one) for make in (named[:1] if problem.swappable else named)]
    if problem.seen.n_audited > 0 and (audited := _audited_start(one)) is not None:
        starts.insert(0, audited)
    if not problem.swappable and asked > 1:
        alone = all_positive_start(one).parameters[one.f.n_parameters :]
        for share in _between(one, np.arange(1, asked) / asked):
            parameters = np.concatenate([constant_model(one.f, float(share)), alone])
            starts.append(Start(f"class prior {share:.2g}", parameters))
    spread = [Start(start.name, problem.spread(start.parameters)) for start in starts]
    if not problem.objective.n_rates:
        return spread
    # As if all labels were false: from a rate next to 0 alone, 6 climbs of 49 small problems ended in a lower optimum.
    (labels,) = problem.engine.total(_block_labels)
    often = float(np.clip(float(labels) / (problem.weight * max(problem.seen.looks, MIN_LOOKS)), *RANGE_OF_FIRST_RATES))
    false = [start for start in starts if start.name in (PAPER, "all positive")]
    return spread + [Start(f"{start.name}, all false", problem.spread(start.parameters, rate=often)) for start in false]


def _audited_start(problem: PairProblem) -> Start | None:
    """Return a classifier of the rows that were checked, and the propensity that it implies."""
    (counts,) = problem.engine.total(_block_audits)
    if min(counts) < MIN_AUDITS_TO_BEGIN:
        return None
    checked = problem.engine.derive(_audit_targets)
    f = fit_targets(checked, problem.f, C=problem.C, tol=GAIN_OF_A_START, max_iter=50).parameters
    engine = with_probability(problem.engine, problem.f, f, "f")
    return Start("audits", np.concatenate([f, propensity_start(engine, problem.e, C=problem.propensity_C)]))


def swapped_start(problem: PairProblem, start: Start) -> Start:
    """Return a start with each model in the other's place."""
    return Start(f"{start.name}, swapped", problem.swapped(start.parameters))


def _asked_for(problem: PairProblem, asked: Any, rng: np.random.Generator) -> list[Start]:
    if isinstance(asked, int | np.integer):
        return [start for _, start in zip(range(asked), _one_after_the_other(problem, rng), strict=False)]
    return [_named(problem, each, number, rng) for number, each in enumerate(asked)]


def _named(problem: PairProblem, asked: Any, number: int, rng: np.random.Generator) -> Start:
    if asked == PAPER:
        return the_papers_start(problem)
    if asked == "exclusion":
        return exclusion_start(problem)
    return random_start(problem, number, rng) if asked == "random" else class_prior_start(problem, float(asked))


def check_starts(asked: Any, *, logistic: bool) -> None:
    """Check how many starts there are to be, or which."""
    several = isinstance(asked, list | tuple)
    if not several:
        check_whole(asked, "n_starts", at_least=1)
    elif not asked:
        raise ValueError("n_starts is an empty list: name at least one start, or give their number.")
    for each in asked if several else ():
        if isinstance(each, str):
            check_choice(each, "each of n_starts", NAMES)
        elif not NEAREST_PRIOR <= check_share(each, "each of n_starts (a class prior, or a name)") <= 1 - NEAREST_PRIOR:
            raise ValueError(
                f"n_starts has the class prior {each!r}, which cannot be told from {each:.0f} in sums over rows; give "
                f"one between {NEAREST_PRIOR:g} and 1 - {NEAREST_PRIOR:g}."
            )
    if not logistic and (several or asked > 1):
        raise ValueError(
            f"n_starts={asked!r} is for two logistic models: a cross-fit begins with labelled against unlabelled rows. "
            "Leave n_starts out."
        )


def asks_for_papers_start(asked: Any) -> bool:
    """Whether a fit has one start, and that is the paper's."""
    return asked == 1 or (isinstance(asked, list | tuple) and list(asked) == [PAPER])


def the_papers_start(problem: PairProblem) -> Start:
    """Return the balanced classifier of labelled against unlabelled rows, and the propensity that it implies.

    Of many rows, where that leads to on a part of them: the rest of the way is short. On a device that takes no longer
    over many than over some, there is nothing to be saved.
    """
    many = max(MIN_ROWS_FOR_PARTS, getattr(problem.engine, "flat_rows", 0))
    ahead = _climbed_ahead(problem) if problem.engine.n_rows >= many else None
    return Start("paper", paper_start(problem)) if ahead is None else Start("paper", *ahead)


def _climbed_ahead(problem: PairProblem) -> tuple[Vector, Matrix | None] | None:
    """Return where the paper's start leads to on a part of the rows; None unless another part agrees.

    Optima are told apart by their label frequency: one optimum has, on two parts, nearly the same. Larger
    and larger parts follow, each from where the one before ended, with the Hessian found there.
    """
    parts = [problem.part(ROWS_OF_A_PART, first=first) for first in (0, 1)]
    if not all(0.0 < part.labelled_share < 1.0 for part in parts):
        return None
    options = FitOptions(GAIN_OF_A_START, max_iter=100)
    fits = [fit_pair(part, None, options) for part in parts]
    sums = [parts[0].sums(fit.parameters) for fit in fits]
    frequencies = [float(each.labelled_positives / each.positives) for each in sums]
    agree = abs(frequencies[0] - frequencies[1]) <= SAME_LABEL_FREQUENCY and all(fit.converged for fit in fits)
    if not agree:
        return None
    ahead = fits[0].solution
    for n_rows in ROWS_OF_LARGER_PARTS:
        if n_rows * 3 > problem.engine.n_rows:
            break
        larger = fit_pair(problem.part(n_rows), ahead.parameters, options, curvature=ahead.curvature)
        if not larger.converged:
            break
        ahead = larger.solution
    return ahead.parameters, ahead.curvature


def exclusion_start(problem: PairProblem) -> Start:
    """Return the pair that was fitted while the classifier could not see the propensity attributes.

    What these attributes do to the labels is then the propensity's work first; in the climb that follows the classifier
    sees them too, and takes of it what raises the likelihood.
    """
    columns = problem.f.indices
    own = ~np.isin(columns, problem.e.indices)
    fit = fit_pair(problem.seeing(Design.of(columns[own])), None, FitOptions(GAIN_OF_A_START))
    beta = np.zeros(problem.f.n_parameters)
    beta[np.append(np.flatnonzero(own), beta.size - 1)] = fit.f
    return Start("exclusion", np.concatenate([beta, fit.e]))


def class_prior_start(problem: PairProblem, class_prior: float) -> Start:
    """Return the paper's start with the classifier's intercept moved until its mean is the class prior."""
    beta = balanced_start(problem.engine, problem.f, problem.labelled_share, C=problem.C)
    engine = with_logits(problem.engine, problem.f, beta, "z")

    def excess(shift: float) -> float:
        return float(engine.total(_block_positives, shift)[0]) / problem.weight - class_prior

    far = float(engine.total(_block_farthest)[0].values) + 50.0
    shift = find_root(excess, -far, far)
    beta[-1] += shift
    e = propensity_start(engine.derive(_shifted_probability, shift), problem.e, C=problem.propensity_C)
    return Start(f"class prior {class_prior:.2g}", np.concatenate([beta, e]))


def all_labelled_start(problem: PairProblem) -> Start:
    """Return the naive classifier, and a propensity that is high everywhere."""
    labels = problem.engine.derive(as_targets)
    f = fit_targets(labels, problem.f, C=problem.C, tol=GAIN_OF_A_START, max_iter=50).parameters
    return Start("all labelled", np.concatenate([f, constant_model(problem.e, PROBABILITY_OF_EXTREME_STARTS)]))


def all_positive_start(problem: PairProblem) -> Start:
    """Return a classifier that is high everywhere, and the propensity that then explains the labels alone."""
    labels = problem.engine.derive(as_targets)
    e = fit_targets(labels, problem.e, C=problem.propensity_C, tol=GAIN_OF_A_START, max_iter=50).parameters
    return Start("all positive", np.concatenate([constant_model(problem.f, PROBABILITY_OF_EXTREME_STARTS), e]))


def random_start(problem: PairProblem, number: int, rng: np.random.Generator, *, sizes: Vector | None = None) -> Start:
    """Return random coefficients that give logits of size 1, or of each model's `sizes`, at a random class prior."""
    prior = float(_between(problem, rng.random(1))[0])
    f = _random_model(problem, problem.f, prior, rng)
    e = _random_model(problem, problem.e, problem.labelled_share / prior, rng)
    if sizes is not None:
        f[:-1] *= sizes[0]
        e[:-1] *= sizes[1]
    return Start(f"random {number + 1}", np.concatenate([f, e]))


def scouted_starts(problem: PairProblem) -> list[Start]:
    """Return where rough climbs on a part of the rows ended, best first, each end once.

    Half of the climbs begin anywhere, with small and large coefficients; half at the paper's optimum with some of its
    parameters doubled, left out or of the other sign, which finds optima that from anywhere are found in one climb of
    forty; three begin at other class priors. On a thousand rows that is quick. The starts are drawn with a seed of
    their own, so that two fits agree.
    """
    if problem.n_parameters > MAX_PARAMETERS_OF_A_SCOUT:
        return []
    n_scouts = min(SCOUTS, MAX_PARAMETERS_OF_ALL_SCOUTS // problem.n_parameters)
    part = problem.thinned(max(ROWS_OF_SCOUTS, int(LABELS_OF_SCOUTS / problem.labelled_share)))
    if not 0.0 < part.labelled_share < 1.0:
        return []
    rng = np.random.default_rng(0)
    first = _rough_climb(part, the_papers_start(part).parameters)[1]
    sizes = np.exp(rng.uniform(np.log(0.3), np.log(4.0), size=(n_scouts, 2)))
    begins = [random_start(part, i, rng, sizes=sizes[i]).parameters for i in range(n_scouts)]
    begins += [first * rng.choice([-1.0, 0.0, 1.0, 2.0], size=first.size) for _ in range(n_scouts)]
    begins += [class_prior_start(part, prior).parameters for prior in _between(part, PRIORS_OF_STARTS)]
    with BLAS.on_one_thread():  # once for all of them: setting it takes as long as a pass over so few rows
        ends = sorted((_rough_climb(part, begin) for begin in begins), key=lambda end: end[0])
    apart = [end for i, end in enumerate(ends) if i == 0 or end[0] - ends[i - 1][0] > 1e-5 * (1.0 + abs(end[0]))]
    return [Start(f"scout {i + 1}", parameters) for i, (_, parameters) in enumerate(apart)]


def _rough_climb(problem: PairProblem, start: Vector) -> tuple[float, Vector]:
    solution = fit_pair(problem, start, FitOptions(GAIN_OF_A_START, max_iter=100)).solution
    return solution.value, solution.parameters


def _one_after_the_other(problem: PairProblem, rng: np.random.Generator) -> Iterator[Start]:
    """Yield the paper's start, the one by exclusion where it is another, both extremes, scouted, and random ones."""
    yield the_papers_start(problem)
    if np.isin(problem.f.indices, problem.e.indices).any():
        yield exclusion_start(problem)
    yield all_labelled_start(problem)
    yield all_positive_start(problem)
    yield from scouted_starts(problem)[:BEST_SCOUTS]
    for prior in _between(problem, PRIORS_OF_STARTS):
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
    (squares,) = problem.engine.total(_block_squares, design)
    size = np.sqrt(np.maximum(squares[:-1], 0.0) / problem.weight)
    unit = np.where(size > 0, size, 1.0) * np.sqrt(max(1, design.n_columns))
    return np.append(rng.normal(size=design.n_columns) / unit, logit(np.clip(mean, 1e-6, 1.0 - 1e-6)))


def _block_positives(X: Any, rows: Any, shift: float) -> tuple[Any]:
    return (rows["w"] @ sigmoid(rows["z"] + shift),)


def _block_farthest(X: Any, rows: Any) -> tuple[Largest]:
    z = rows["z"]
    xp = namespace_of(z)
    return (Largest(np.asarray(float(xp.max(xp.abs(z))) if z.shape[0] else 0.0)),)


def _shifted_probability(X: Any, rows: Any, shift: float) -> dict[str, Any]:
    return {"f": sigmoid(rows["z"] + shift)}


def _block_squares(X: Any, rows: Any, design: Design) -> tuple[Vector]:
    return (squared_sums(design.take(X), rows["w"]),)


def _block_labels(X: Any, rows: Any) -> tuple[Any]:
    return (np.asarray(rows["w"] @ np.sum(rows["labels"], axis=1, dtype=np.float64)),)


def _block_audits(X: Any, rows: Any) -> tuple[Any]:
    return (np.array([np.count_nonzero((rows["audit"] == value) & (rows["w"] > 0)) for value in (0, 1)]) * 1.0,)


def _audit_targets(X: Any, rows: Any) -> dict[str, Any]:
    return {"t": (rows["audit"] == 1).astype(np.float64), "w": rows["w"] * (rows["audit"] >= 0)}
