"""Draws of the class probability and of the probability of a label of new rows, from the uncertainty of a fit."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from scarless.engines import Engine, Rows
from scarless.numerics.arrays import Matrix, Vector, in_numpy
from scarless.numerics.objectives import LogisticPair, PairObjective
from scarless.pair.fitted import FittedPair, LogitSource, in_double
from scarless.pair.inference import rows_in_numpy
from scarless.pair.recalibrated import Recalibration, draw_class_priors

_STEP = 1e-3  # length of the steps of numerical derivatives, in standard errors of the parameters


class ProbabilityDraws(NamedTuple):
    """Draws for each row, one column each: class probability, and probability of any label if the row is positive."""

    f: Matrix
    e: Matrix


def draw_probabilities(
    pair: FittedPair, rows: Engine, n_draws: int, rng: np.random.Generator
) -> ProbabilityDraws | None:
    """Draw probabilities from the distribution of the parameters; None if the fit has no uncertainty for rows.

    The class priors of a recalibrated fit are drawn from its grids, as for posteriors. Rows of a fit to several looks
    need their labels, which show the looks that took place.
    """
    priors = draw_class_priors(pair.grids, n_draws, rng) if pair.grids and pair.looks is None else None
    inference = pair.inference
    if inference is not None and inference.information is None:
        return None
    if inference is not None and (priors is None or pair.recalibration is None):
        draws = pair.parameters + inference.parameter_draws(n_draws, rng)
        return _split(rows.collect(_block_draws, pair.objective, draws))
    if inference is not None:
        noise = inference.at_given_shares(inference.parameter_draws(n_draws, rng))
        given = (pair.objective, pair.parameters, noise, pair.recalibration, priors)
        return _split(rows.collect(_block_recalibrated_draws, *given))
    if pair.source is None or priors is None:
        return None
    place = (pair.source, pair.objective, pair.parameters)
    return _split(rows.collect(_block_member_draws, *place, priors, rng.random(n_draws)))


def label_probability_errors(
    pair: FittedPair, rows: Engine, n_draws: int, rng: np.random.Generator
) -> tuple[Matrix, Matrix] | None:
    """Draw estimation errors of `f` and of the probability of a label if positive, to first order.

    First order matters: the class prior may be very uncertain although the product of both probabilities is not. The
    errors of both then cancel in the derivative of the product, but not in draws of both. None without standard errors.
    """
    inference = pair.inference
    if inference is None or inference.information is None:
        return None
    noise = _STEP * inference.parameter_draws(n_draws, rng)
    ahead, behind = (
        _split(rows.collect(_block_draws, pair.objective, pair.parameters + sign * noise)) for sign in (1.0, -1.0)
    )
    return (ahead.f - behind.f) / (2.0 * _STEP), (ahead.e - behind.e) / (2.0 * _STEP)


def _split(drawn: Any) -> ProbabilityDraws:
    both = np.asarray(drawn)
    half = both.shape[1] // 2
    return ProbabilityDraws(both[:, :half], both[:, half:])


def _block_draws(X: Any, rows: Rows, objective: PairObjective, draws: Matrix) -> Matrix:
    X, rows = in_double(X), rows_in_numpy(rows)
    found = [_probabilities(X, rows, objective, beta) for beta in draws]
    return np.column_stack([*(f for f, _ in found), *(e for _, e in found)])


def _probabilities(X: Any, rows: Any, objective: PairObjective, beta: Vector) -> tuple[Vector, Vector]:
    if isinstance(objective, LogisticPair):
        u, v = objective.logit_values(X, beta)[:2]
        return np.asarray(expit(in_numpy(u))), np.asarray(in_numpy(objective.propensity(v)))
    if "labels" in rows:
        _, f, e = objective.row_probabilities(X, rows, beta)
        return np.asarray(f), np.asarray(e)
    f = np.asarray(expit(in_numpy(objective.logit_values(X, beta)[0])))
    return f, np.full(f.size, np.nan)  # Without labels, the looks that took place are unknown.


def _block_recalibrated_draws(
    X: Any,
    rows: Rows,
    objective: PairObjective,
    beta: Vector,
    noise: Matrix,
    recalibration: Recalibration,
    priors: Vector,
) -> Matrix:
    X = in_double(X)
    u, v = (np.asarray(in_numpy(each)) for each in objective.logit_values(X, beta)[:2])
    u_noise, v_noise = (
        np.asarray(at.design.take(X) @ noise[:, at.place][:, :-1].T) + noise[:, at.place][:, -1]
        for at in objective.logits[:2]
    )
    at, moved = recalibration.at_priors(recalibration.invert(u), priors)
    return np.asarray(expit(np.column_stack([at + u_noise, v[:, None] + moved + v_noise])))


def _block_member_draws(
    X: Any, rows: Rows, source: LogitSource, objective: PairObjective, beta: Vector, priors: Vector, pick: Vector
) -> Matrix:
    logits, recalibrations = zip(*source.members(np.asarray(X)), strict=True)
    v = np.asarray(objective.logit_values(in_double(X), beta)[1])
    u, e, model = np.empty((v.size, priors.size)), np.empty((v.size, priors.size)), (pick * len(logits)).astype(np.intp)
    for j, (own, recalibration) in enumerate(zip(logits, recalibrations, strict=True)):
        chosen = model == j
        u[:, chosen], moved = recalibration.at_priors(np.asarray(own), priors[chosen])
        e[:, chosen] = v[:, None] + moved
    return np.asarray(expit(np.column_stack([u, e])))
