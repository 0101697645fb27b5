"""Shares and rows under several relaxed models at once: what each thinks, and the spread of it all."""

from typing import Any

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.sigmoid import softplus
from scarless.pair.relaxed import Relaxation

_ROWS = 1024  # whose mixtures are sorted at a time


def row_intervals(
    logits: list[Vector], relaxations: list[Relaxation], level: float, *, v: Vector | None = None
) -> Matrix:
    """Return the ends of each row's interval for `f`: models in equal shares, each at all its levels.

    With logits `v` of the propensity: for the class of a row without a label.

    What the labels cannot tell of the level, and what the models differ in, is in it; the noise of each model's
    direction is not.
    """
    weight = np.concatenate([each.levels.doubtful_weight for each in relaxations]) / len(relaxations)
    tails = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    out = np.empty((logits[0].size, 2))
    for start in range(0, out.shape[0], _ROWS):
        rows = slice(start, start + _ROWS)
        values = np.hstack([_at_levels(each, u, v, rows) for each, u in zip(relaxations, logits, strict=True)])
        out[rows] = expit(_weighted_quantiles(values, weight, tails))
    return out


def draw_posteriors(
    logits: list[Vector], relaxations: list[Relaxation], v: Vector, priors: Vector, rng: np.random.Generator
) -> Matrix:
    """Draw each row's chance to be positive without a label, at each of these class priors by one of the models."""
    model, out = rng.integers(len(relaxations), size=priors.size), np.empty((v.size, priors.size))
    for j, (u, relaxation) in enumerate(zip(logits, relaxations, strict=True)):
        mine = model == j
        out[:, mine] = expit(relaxation.posterior_logits(u, v, priors[mine]))
    return out


def _at_levels(relaxation: Relaxation, u: Vector, v: Vector | None, rows: slice) -> Matrix:
    at = relaxation.at_levels(u[rows])
    return at if v is None else at - softplus(relaxation.propensity_at_levels(v[rows]))


def _weighted_quantiles(values: Matrix, weight: Vector, shares: Vector) -> Matrix:
    """Return quantiles of each row's values, interpolated between the middles of their weights."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    below = np.cumsum(weight[order], axis=1) - 0.5 * weight[order]
    pairs: Any = zip(below, ordered, strict=True)
    return np.array([np.interp(shares, at, value) for at, value in pairs])
