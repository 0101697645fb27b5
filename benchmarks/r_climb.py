"""Where R's ``optim(method = "BFGS")`` stops, without R.

``unmarked`` maximises its likelihoods with it, and it stops early: a gain below 1e-8 of the value is enough, and the
slopes are differences over a step of 1e-3. What is printed is therefore not the maximum, but with the same rules from
the same start one arrives at the same digits, all of them. The method is the variable metric of Nash (1990),
*Compact Numerical Methods for Computers*, algorithm 21.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SLOPE_STEP = 1e-3
SHRINK = 0.2
ENOUGH_GAIN = 1e-4
STANDSTILL = 10.0  # a coordinate stands still if adding ten to it hides the step
LEAST_GAIN = 1e-8

Function = Callable[[np.ndarray], float]


@dataclass
class _State:
    """Point, value and slope; the metric, and how many slopes ago it was the identity."""

    point: np.ndarray
    value: float
    slope: np.ndarray
    metric: np.ndarray
    age: int = 0

    def restart(self) -> None:
        self.metric = np.eye(self.point.size)
        self.age = 0


def slope(cost: Function, point: np.ndarray) -> np.ndarray:
    """Central differences over R's default step."""
    steps = SLOPE_STEP * np.eye(point.size)
    return np.array([(cost(point + step) - cost(point - step)) / (2.0 * SLOPE_STEP) for step in steps])


def climb(cost: Function, start: np.ndarray) -> np.ndarray:
    """The point where R stops minimising ``cost``: no step helps from a fresh metric."""
    start = np.asarray(start, dtype=float)
    state = _State(start, cost(start), slope(cost, start), np.eye(start.size))
    while True:
        fresh = state.age == 0
        moved = _step(cost, state)
        if not moved and fresh:
            return state.point
        if not moved or state.age > 2 * start.size:
            state.restart()


def _step(cost: Function, state: _State) -> bool:
    """One line search and update of the metric; False if nothing was gained."""
    direction = -state.metric @ state.slope
    decrease = float(direction @ state.slope)
    if decrease >= 0.0:
        return False
    length, point, value = _search(cost, state, direction, decrease)
    gained = abs(value - state.value) > LEAST_GAIN * (abs(state.value) + LEAST_GAIN)
    state.point, state.value = point, value
    if not gained:
        return False
    before, state.slope = state.slope, slope(cost, point)
    _update(state, length * direction, state.slope - before)
    return True


def _search(cost: Function, state: _State, direction: np.ndarray, decrease: float) -> tuple[float, np.ndarray, float]:
    """Shorten the step until it gains enough or no coordinate moves any more."""
    length = 1.0
    while True:
        point = state.point + length * direction
        if np.all(STANDSTILL + state.point == STANDSTILL + point):
            return length, point, state.value
        value = cost(point)
        if np.isfinite(value) and value <= state.value + ENOUGH_GAIN * length * decrease:
            return length, point, value
        length *= SHRINK


def _update(state: _State, step: np.ndarray, change: np.ndarray) -> None:
    """BFGS for the inverse; a fresh start where the curvature along the step is not positive."""
    curvature = float(step @ change)
    if curvature <= 0.0:
        state.restart()
        return
    turned = state.metric @ change
    scale = 1.0 + float(turned @ change) / curvature
    cross = np.outer(step, turned)
    state.metric = state.metric + (scale * np.outer(step, step) - cross - cross.T) / curvature
    state.age += 1


def standard_errors(cost: Function, point: np.ndarray) -> np.ndarray:
    """From the Hessian that ``optim`` returns: differences of `slope` over the same step."""
    steps = SLOPE_STEP * np.eye(point.size)
    rows = np.array([(slope(cost, point + step) - slope(cost, point - step)) / (2.0 * SLOPE_STEP) for step in steps])
    return np.sqrt(np.diag(np.linalg.inv((rows + rows.T) / 2.0)))
