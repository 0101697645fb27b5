"""After one climb from the paper's start: does another start lead higher? A cheap look, that tells where it does.

The look begins where all rows are positive, so that the labelling alone explains the labels: of all starts but scouted
ones, only this led to a clearly higher optimum in each of the 15 random problems of 257 that had one.
"""

import numpy as np

from scarless.engines.blas import BLAS
from scarless.numerics.newton import WIDEST_MATRIX
from scarless.outside.notices import warn_user
from scarless.pair.basins import Basin, Climb, choose, climb_all
from scarless.pair.problem import PairProblem
from scarless.pair.starts import PAPER, Start, all_positive_start, make_starts

# The look is on about so many rows, or on more where labels are rare: on those that hold so many of them.
_ROWS, _LABELS = 1000, 50
_ROWS_IN_DOUBT, _STARTS_IN_DOUBT = 5000, 6  # where a score test rejects the form of what was found
_ROUGH = 1e-5
_STEPS, _STEPS_ON_ALL = 30, 6
# What is worth telling: higher by more than this, in penalised log-likelihood, and at a class prior that far away.
_HIGHER, _APART = 2.0, 0.02


def seen_higher(problem: PairProblem, found: Basin, *, thoroughly: bool = False) -> Basin | None:
    """Return what another start leads to where that is clearly higher than what was found from the paper's; else None.

    Where there is reason to doubt what was found, look `thoroughly`: from five starts, on more rows.

    Looks at a part of the rows first; what seems to be another optimum there, and not a worse one, is climbed on from
    for a few steps on all rows. It is told only if a fit from several starts would have taken it (see `choose`).
    Models wider than a matrix are not looked at, nor is a climb that did not end.
    """
    part = problem.part(max(_ROWS_IN_DOUBT if thoroughly else _ROWS, int(_LABELS / problem.labelled_share)))
    if problem.n_parameters > WIDEST_MATRIX or not found.converged or not 0.0 < part.labelled_share < 1.0:
        return None
    paper = Start(PAPER, found.parameters)
    with BLAS.on_one_thread():  # once for all: setting it takes as long as a pass over so few rows
        others = [all_positive_start(part)]
        if thoroughly:
            others = make_starts(part, _STARTS_IN_DOUBT, np.random.default_rng(0))[1:]
        climbs = climb_all(part, [paper, *others], tol=_ROUGH, max_iter=_STEPS)
    times = problem.engine.n_rows / part.engine.n_rows
    if times > 1.0:
        rival = _rival(part, climbs, times)
        if rival is None:
            return None
        climbs = climb_all(problem, [paper, rival], tol=_ROUGH, max_iter=_STEPS_ON_ALL)
    taken = climbs[choose(problem, climbs).index].basin
    return taken if taken.objective < found.objective - _HIGHER and _are_apart(taken, found) else None


def _rival(part: PairProblem, climbs: list[Climb], times: float) -> Start | None:
    """Return where to climb on from with all rows: another optimum that may be the better one there.

    Each row of the part stands for `times` rows, so sums over it are less sure than the standard error of
    as many single rows.
    """
    own = next((climb.basin for climb in climbs if PAPER in climb.basin.starts), None)
    selection = choose(part, climbs)
    for i, climb in enumerate(climbs):
        other = climb.basin
        if other.exchanged or other is own or (own is not None and not _are_apart(other, own)):
            continue
        if selection.behind[i] <= np.sqrt(times) * selection.standard_error[i]:
            return Start(other.starts[0], other.parameters)
    return None


def _are_apart(basin: Basin, other: Basin) -> bool:
    return abs(basin.class_prior - other.class_prior) > _APART


def told_of(higher: Basin, own: Basin) -> str:
    """Say what was seen, and what to do."""
    farther = "" if higher.converged else ", and on from there"
    return (
        f"the paper's start led to a local optimum, with a penalised log-likelihood of {-own.objective:.2f} and a "
        f"class prior of {own.class_prior:.3f}. Another start ({higher.starts[0]}) leads higher: to "
        f"{-higher.objective:.2f} and {higher.class_prior:.3f}{farther}. Use n_starts=5 (or SAREMClassifierCV) to look "
        "for the highest."
    )


def warn_of_higher(higher: Basin, own: Basin, name: str) -> None:
    """Warn that the fit that was asked for is not the best one."""
    warn_user(f"{name}: {told_of(higher, own)} This fit is still that of the paper's start.", UserWarning)
