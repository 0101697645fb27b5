"""Starts of the optimisation. The likelihood of a pair has several optima, and the start decides which one is found.

Each start is a vector of the parameters of both models.
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
NAMES = (PAPER, "exclusion", "random")  # names that the parameter `n_starts` accepts, in addition to class priors
MIN_START_PRIOR = 1e-12  # the class prior of a start must be at least this far from 0 and 1
START_TOL = 1e-6  # tolerance per row of fits that make a start: these need not be exact
#: Trial fits that search for starts: number of fits of each kind, and smallest numbers of rows and of labels that they
#: use. Evidence: in ``benchmarks.starts`` with five starts, these numbers were chosen on 200 fits, of which none ended
#: below the best known optimum. Of 200 other fits, 1 did. Without trial fits and extreme starts, 8 of the first 200
#: did.
TRIAL_FITS, ROWS_OF_TRIAL_FITS, LABELS_OF_TRIAL_FITS = 16, 1000, 50
MAX_PARAMETERS_OF_TRIAL_FIT = 300  # models with more parameters have no trial fits, because these would be slow
MAX_PARAMETERS_OF_ALL_TRIAL_FITS = 800  # largest number of trial fits of one kind times number of parameters
#: Number of trial fits whose optima are used as starts. Evidence: as for `TRIAL_FITS`.
TRIAL_FITS_KEPT = 3
#: Class priors of starts. 0 would be the labelled share, and 1 a class prior of 1. Evidence: as for `TRIAL_FITS`.
CLASS_PRIORS_OF_STARTS = np.array([0.5, 0.25, 0.75])
#: In tables with at least the first number of rows, the paper's start is first optimised on two parts of the rows. The
#: second number is the number of rows in each part. By judgement.
MIN_ROWS_FOR_PARTS, ROWS_OF_A_PART = 100_000, 20_000
ROWS_OF_LARGER_PARTS = (100_000, 500_000, 2_500_000)
#: Tolerance of the fits to parts, as a multiple of the sampling error of a part. This is the mean log-likelihood per
#: row that its optimum loses on other rows: half the number of parameters, divided by its number of rows. By judgement.
PRECISION_OF_PARTS = 0.1
#: The two fits are the same optimum if their label frequencies differ by at most this number. By judgement.
SAME_LABEL_FREQUENCY = 0.05
#: Propensity in the start "all labelled", and class probability in the start "all positive". The number is below 1,
#: because gradients vanish at 1. Evidence: as for `TRIAL_FITS`.
PROBABILITY_OF_EXTREME_STARTS = 0.9
#: A start is made from audits if at least this many rows of each class were audited. By judgement.
MIN_AUDITS_TO_BEGIN = 10
RANGE_OF_FIRST_RATES = (0.01, 0.4)  # range of false positive rates of starts
MIN_LOOKS = 1e-12  # smallest mean number of looks that is used, to avoid a division by 0


class Start(NamedTuple):
    """Parameters at which an optimisation starts, with a name, and the Hessian at these parameters if it is known."""

    name: str
    parameters: Vector
    curvature: Matrix | None = None


def make_starts(problem: PairProblem, n_starts: Any, rng: np.random.Generator) -> list[Start]:
    """Return the requested starts. `n_starts` is a number, or a list of names and class priors.

    If both models use the same columns with different penalties, there is a second problem with the same optima: both
    the penalties and the models are swapped. The starts of the second problem are added, with the models swapped, so
    that fits to the two problems find the same optima.
    """
    if not problem.swappable or problem.propensity_C == problem.C:
        return _requested_starts(problem, n_starts, rng)
    others = _requested_starts(problem.with_swapped_penalties, n_starts, deepcopy(rng))
    return _requested_starts(problem, n_starts, rng) + [swapped_start(problem, start) for start in others]


def starts_for_extra_information(problem: PairProblem, n_starts: int) -> list[Start]:
    """Return the starts of a problem with extra information, such as looks, audits or constraints.

    These are the paper's start, "all labelled", "all positive" and, if there are enough audits, a start from audits.
    With `n_starts` above 1, starts at several class priors are added. All starts are made as if each row had one look,
    which labels the row if any of its looks did. For swappable models, only the paper's start is used, because the
    likelihood might otherwise choose a swapped optimum. If false positive rates are estimated, further starts assume
    that all labels are false.
    """
    one, named = problem.one_look, [make_paper_start, all_labelled_start, all_positive_start]
    starts = [make(one) for make in (named[:1] if problem.swappable else named)]
    if problem.observations.n_audited > 0 and (audited := _audited_start(one)) is not None:
        starts.insert(0, audited)
    if not problem.swappable and n_starts > 1:
        alone = all_positive_start(one).parameters[one.f.n_parameters :]
        for share in _between(one, np.arange(1, n_starts) / n_starts):
            parameters = np.concatenate([constant_model(one.f, float(share)), alone])
            starts.append(Start(f"class prior {share:.2g}", parameters))
    of_all_looks = [Start(start.name, problem.to_all_looks(start.parameters)) for start in starts]
    if not problem.objective.n_rates:
        return of_all_looks
    # Further starts assume that all labels are false. Without them, 6 of 49 fits to small problems ended below the best
    # optimum.
    (labels,) = problem.engine.total(_block_labels)
    label_rate = float(
        np.clip(
            float(labels) / (problem.weight * max(problem.observations.mean_looks, MIN_LOOKS)), *RANGE_OF_FIRST_RATES
        )
    )
    false = [start for start in starts if start.name in (PAPER, "all positive")]
    return of_all_looks + [
        Start(f"{start.name}, all false", problem.to_all_looks(start.parameters, rate=label_rate)) for start in false
    ]


def _audited_start(problem: PairProblem) -> Start | None:
    """Return a classifier of the audited rows and the propensity that it implies; None if there are too few audits."""
    (counts,) = problem.engine.total(_block_audits)
    if min(counts) < MIN_AUDITS_TO_BEGIN:
        return None
    checked = problem.engine.derive(_audit_targets)
    f = fit_targets(checked, problem.f, C=problem.C, tol=START_TOL, max_iter=50).parameters
    engine = with_probability(problem.engine, problem.f, f, "f")
    return Start("audits", np.concatenate([f, propensity_start(engine, problem.e, C=problem.propensity_C)]))


def swapped_start(problem: PairProblem, start: Start) -> Start:
    """Return a start with the two models swapped."""
    return Start(f"{start.name}, swapped", problem.swapped(start.parameters))


def _requested_starts(problem: PairProblem, n_starts: Any, rng: np.random.Generator) -> list[Start]:
    if isinstance(n_starts, int | np.integer):
        return [start for _, start in zip(range(n_starts), _start_sequence(problem, rng), strict=False)]
    return [_named(problem, each, number, rng) for number, each in enumerate(n_starts)]


def _named(problem: PairProblem, name: Any, number: int, rng: np.random.Generator) -> Start:
    if name == PAPER:
        return make_paper_start(problem)
    if name == "exclusion":
        return exclusion_start(problem)
    return random_start(problem, number, rng) if name == "random" else class_prior_start(problem, float(name))


def check_starts(n_starts: Any, *, logistic: bool) -> None:
    """Check the parameter `n_starts`."""
    several = isinstance(n_starts, list | tuple)
    if not several:
        check_whole(n_starts, "n_starts", at_least=1)
    elif not n_starts:
        raise ValueError("n_starts is an empty list. Give a list with at least one start, or a number of starts.")
    for each in n_starts if several else ():
        if isinstance(each, str):
            check_choice(each, "each of n_starts", NAMES)
        elif (
            not MIN_START_PRIOR
            <= check_share(each, "each of n_starts (a class prior, or a name)")
            <= 1 - MIN_START_PRIOR
        ):
            raise ValueError(
                f"n_starts has the class prior {each!r}, which is too close to {each:.0f}. Give a class prior between "
                f"{MIN_START_PRIOR:g} and 1 - {MIN_START_PRIOR:g}."
            )
    if not logistic and (several or n_starts > 1):
        raise ValueError(
            f"n_starts must be 1 with an estimator or propensity_estimator; got {n_starts!r}. Only a fit of two "
            "logistic models can have several starts. Leave n_starts out, or leave the estimators out."
        )


def is_paper_start_alone(n_starts: Any) -> bool:
    """Whether the paper's start is the only one."""
    return n_starts == 1 or (isinstance(n_starts, list | tuple) and list(n_starts) == [PAPER])


def make_paper_start(problem: PairProblem) -> Start:
    """Return the paper's start: a balanced classifier of the labels, and the propensity that it implies.

    For large tables, the start is the optimum of a part of the rows, which is near the optimum of all rows. This saves
    time. On a device that processes up to `flat_rows` rows as fast as a few rows, only larger tables have such a start.
    """
    many = max(MIN_ROWS_FOR_PARTS, getattr(problem.engine, "flat_rows", 0))
    ahead = _fit_parts_first(problem) if problem.engine.n_rows >= many else None
    return Start("paper", paper_start(problem)) if ahead is None else Start("paper", *ahead)


def _fit_parts_first(problem: PairProblem) -> tuple[Vector, Matrix | None] | None:
    """Return the optimum of a part of the rows from the paper's start; None unless the optimum of another part agrees.

    Two optima agree if their label frequencies are nearly the same. The fit is then repeated on larger and larger
    parts. Each of these fits starts at the optimum, and with the Hessian, of the part before.
    """
    parts = [problem.part(ROWS_OF_A_PART, first=first) for first in (0, 1)]
    if not all(0.0 < part.labelled_share < 1.0 for part in parts):
        return None

    def options(part: PairProblem) -> FitOptions:
        sampling_error = 0.5 * problem.n_parameters / part.engine.n_rows
        return FitOptions(max(START_TOL, PRECISION_OF_PARTS * sampling_error), max_iter=100)

    fits = [fit_pair(part, None, options(part)) for part in parts]
    sums = [parts[0].sums(fit.parameters) for fit in fits]
    frequencies = [float(each.labelled_positives / each.positives) for each in sums]
    agree = abs(frequencies[0] - frequencies[1]) <= SAME_LABEL_FREQUENCY and all(fit.converged for fit in fits)
    if not agree:
        return None
    ahead = fits[0].solution
    for n_rows in ROWS_OF_LARGER_PARTS:
        if n_rows * 3 > problem.engine.n_rows:
            break
        part = problem.part(n_rows)
        larger = fit_pair(part, ahead.parameters, options(part), curvature=ahead.curvature)
        if not larger.converged:
            break
        ahead = larger.solution
    return ahead.parameters, ahead.curvature


def exclusion_start(problem: PairProblem) -> Start:
    """Return a start from a fit whose classifier does not use the propensity attributes.

    At this start, the propensity model explains the whole effect of these attributes. The fit from this start may then
    attribute part of the effect to the class.
    """
    columns = problem.f.indices
    classifier_only = ~np.isin(columns, problem.e.indices)
    fit = fit_pair(problem.with_class_design(Design.of(columns[classifier_only])), None, FitOptions(START_TOL))
    beta = np.zeros(problem.f.n_parameters)
    beta[np.append(np.flatnonzero(classifier_only), beta.size - 1)] = fit.f
    return Start("exclusion", np.concatenate([beta, fit.e]))


def class_prior_start(problem: PairProblem, class_prior: float) -> Start:
    """Return the paper's start with the intercept of the classifier adjusted to the class prior."""
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
    """Return the start "all labelled": the naive model and a constant, high propensity."""
    labels = problem.engine.derive(as_targets)
    f = fit_targets(labels, problem.f, C=problem.C, tol=START_TOL, max_iter=50).parameters
    return Start("all labelled", np.concatenate([f, constant_model(problem.e, PROBABILITY_OF_EXTREME_STARTS)]))


def all_positive_start(problem: PairProblem) -> Start:
    """Return the start "all positive": a constant, high class probability, and a propensity model of the labels."""
    labels = problem.engine.derive(as_targets)
    e = fit_targets(labels, problem.e, C=problem.propensity_C, tol=START_TOL, max_iter=50).parameters
    return Start("all positive", np.concatenate([constant_model(problem.f, PROBABILITY_OF_EXTREME_STARTS), e]))


def random_start(problem: PairProblem, number: int, rng: np.random.Generator, *, sizes: Vector | None = None) -> Start:
    """Return a start with random coefficients and a random class prior.

    The logits have a size of about 1. If `sizes` is given, the coefficients of the two models are multiplied by it.
    """
    prior = float(_between(problem, rng.random(1))[0])
    f = _random_model(problem, problem.f, prior, rng)
    e = _random_model(problem, problem.e, problem.labelled_share / prior, rng)
    if sizes is not None:
        f[:-1] *= sizes[0]
        e[:-1] *= sizes[1]
    return Start(f"random {number + 1}", np.concatenate([f, e]))


def trial_starts(problem: PairProblem) -> list[Start]:
    """Return the distinct optima of rough fits to a part of the rows, best first.

    There are three kinds of fits. The first kind starts at random coefficients, small and large. The second kind starts
    at the optimum of the paper's start, after some parameters are doubled, set to 0 or multiplied by -1. It finds
    optima that only one in forty random starts finds. The third kind, three fits, starts at other class priors. The
    seed of the random numbers is fixed, so that a repeated fit gives the same result.
    """
    if problem.n_parameters > MAX_PARAMETERS_OF_TRIAL_FIT:
        return []
    n_fits = min(TRIAL_FITS, MAX_PARAMETERS_OF_ALL_TRIAL_FITS // problem.n_parameters)
    part = problem.thinned(max(ROWS_OF_TRIAL_FITS, int(LABELS_OF_TRIAL_FITS / problem.labelled_share)))
    if not 0.0 < part.labelled_share < 1.0:
        return []
    rng = np.random.default_rng(0)
    first = _rough_fit(part, make_paper_start(part).parameters)[1]
    sizes = np.exp(rng.uniform(np.log(0.3), np.log(4.0), size=(n_fits, 2)))
    points = [random_start(part, i, rng, sizes=sizes[i]).parameters for i in range(n_fits)]
    points += [first * rng.choice([-1.0, 0.0, 1.0, 2.0], size=first.size) for _ in range(n_fits)]
    points += [class_prior_start(part, prior).parameters for prior in _between(part, CLASS_PRIORS_OF_STARTS)]
    with BLAS.on_one_thread():  # set once for all fits, because setting it takes as long as a pass over these few rows
        ends = sorted((_rough_fit(part, point) for point in points), key=lambda end: end[0])
    distinct = [end for i, end in enumerate(ends) if i == 0 or end[0] - ends[i - 1][0] > 1e-5 * (1.0 + abs(end[0]))]
    return [Start(f"trial fit {i + 1}", parameters) for i, (_, parameters) in enumerate(distinct)]


def _rough_fit(problem: PairProblem, start: Vector) -> tuple[float, Vector]:
    solution = fit_pair(problem, start, FitOptions(START_TOL, max_iter=100)).solution
    return solution.value, solution.parameters


def _start_sequence(problem: PairProblem, rng: np.random.Generator) -> Iterator[Start]:
    """Yield starts: the paper's, "exclusion", "all labelled", "all positive", trial fits, class priors, random starts.

    "exclusion" is left out if the classifier uses no propensity attribute. It would then lead to the optimum of the
    paper's start.
    """
    yield make_paper_start(problem)
    if np.isin(problem.f.indices, problem.e.indices).any():
        yield exclusion_start(problem)
    yield all_labelled_start(problem)
    yield all_positive_start(problem)
    yield from trial_starts(problem)[:TRIAL_FITS_KEPT]
    for prior in _between(problem, CLASS_PRIORS_OF_STARTS):
        yield class_prior_start(problem, prior)
    number = 0
    while True:
        yield random_start(problem, number, rng)
        number += 1


def _between(problem: PairProblem, share: Vector) -> Vector:
    """Convert fractions to class priors: 0 to the labelled share, the lowest possible class prior, and 1 to 1."""
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
