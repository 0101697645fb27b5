"""Which rows train a network, and which judge it: a part that is held out, or every row once."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.options import shown
from scarless.numerics.arrays import Vector
from scarless.torch.inputs import held_out_rows

# Labels among held-out rows that are enough for scale and level: with fewer, every row is held out once.
ENOUGH_LABELS = 500
_WAYS = ("held-out", "out-of-fold")


class Fold(NamedTuple):
    """Rows to train on, and rows to stop and relax by."""

    train: NDArray[np.intp]
    judge: NDArray[np.intp]


def check_relax(given: Any) -> str | bool:
    """Return how logits are relaxed: a way by name, True for the one that the number of labels asks for, or False."""
    if isinstance(given, bool | np.bool_):
        return bool(given)
    if isinstance(given, str) and given in _WAYS:
        return given
    raise ValueError(f"relax must be True, False, 'held-out' or 'out-of-fold'; got {shown(given)}.")


def plan_folds(s: Vector, *, share: float, relax: str | bool, seed: int) -> tuple[list[Fold], bool]:
    """Return the folds, and whether judges are rows that were not trained on.

    One fold whose judges are a `share` of the rows; or, "out-of-fold", as many folds as there are such shares, so that
    every row judges a network that has not seen it. `relax` True takes these where the held-out rows of one fold would
    have fewer than 500 labels: the level is then a matter of few labels, and networks of few rows are quick.
    """
    n_folds = max(2, round(1.0 / share)) if share else 1
    labelled = float(s.sum())
    wanted = relax == "out-of-fold" or (relax is True and share * labelled < ENOUGH_LABELS)
    if share and wanted and min(labelled, s.size - labelled) >= n_folds:
        place = _places(s, n_folds, np.random.default_rng(seed))
        return [Fold(np.flatnonzero(place != k), np.flatnonzero(place == k)) for k in range(n_folds)], True
    held = held_out_rows(s, share, np.random.default_rng(seed))
    judges = held if held.any() else ~held
    return [Fold(np.flatnonzero(~held), np.flatnonzero(judges))], bool(held.any())


def _places(s: Vector, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the fold that each row judges in: labelled and other rows spread evenly."""
    place = np.empty(s.size, dtype=np.intp)
    for label in (0.0, 1.0):
        rows = rng.permutation(np.flatnonzero(s == label))
        place[rows] = np.arange(rows.size) % n_folds
    return place
