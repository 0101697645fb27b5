"""R's ``optim(method = "BFGS")`` in Python.

``unmarked`` maximises its likelihoods with ``optim``. It computes slopes as differences over a step of 1e-3, and stops
when the relative gain is below 1e-8. Printed estimates are therefore not exactly those of the maximum.
The same rules from the same start give the same digits. The method is the variable metric algorithm 21 of Nash (1990),
*Compact Numerical Methods for Computers*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SLOPE_STEP = 1e-3
STEP_REDUCTION = 0.2
SUFFICIENT_DECREASE = 1e-4
UNCHANGED_OFFSET = 10.0  # A coordinate counts as unchanged if the step vanishes in rounding after adding this number.
MIN_RELATIVE_GAIN = 1e-8

Function = Callable[[np.ndarray], float]


@dataclass
class _State:
    """Current point, value, slope and metric; ``age`` counts the updates since the metric was the identity."""

    point: np.ndarray
    value: float
    slope: np.ndarray
    metric: np.ndarray
    age: int = 0

    def restart(self) -> None:
        self.metric = np.eye(self.point.size)
        self.age = 0


def slope(cost: Function, point: np.ndarray) -> np.ndarray:
    """Return central differences over R's default step."""
    steps = SLOPE_STEP * np.eye(point.size)
    return np.array([(cost(point + step) - cost(point - step)) / (2.0 * SLOPE_STEP) for step in steps])


def minimise(cost: Function, start: np.ndarray) -> np.ndarray:
    """Return the point at which R stops minimising ``cost``: no step from a fresh metric lowers the cost."""
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
    """Do one line search and update the metric; return False if the value did not decrease enough."""
    direction = -state.metric @ state.slope
    decrease = float(direction @ state.slope)
    if decrease >= 0.0:
        return False
    length, point, value = _search(cost, state, direction, decrease)
    gained = abs(value - state.value) > MIN_RELATIVE_GAIN * (abs(state.value) + MIN_RELATIVE_GAIN)
    state.point, state.value = point, value
    if not gained:
        return False
    before, state.slope = state.slope, slope(cost, point)
    _update(state, length * direction, state.slope - before)
    return True


def _search(cost: Function, state: _State, direction: np.ndarray, decrease: float) -> tuple[float, np.ndarray, float]:
    """Shorten the step until the decrease is sufficient or no coordinate changes; return step, point and value."""
    length = 1.0
    while True:
        point = state.point + length * direction
        if np.all(UNCHANGED_OFFSET + state.point == UNCHANGED_OFFSET + point):
            return length, point, state.value
        value = cost(point)
        if np.isfinite(value) and value <= state.value + SUFFICIENT_DECREASE * length * decrease:
            return length, point, value
        length *= STEP_REDUCTION


def _update(state: _State, step: np.ndarray, change: np.ndarray) -> None:
    """Update the metric by BFGS; reset it if the curvature along the step is not positive."""
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
    """Return standard errors from the Hessian that ``optim`` returns: differences of `slope` over the same step."""
    steps = SLOPE_STEP * np.eye(point.size)
    rows = np.array([(slope(cost, point + step) - slope(cost, point - step)) / (2.0 * SLOPE_STEP) for step in steps])
    return np.sqrt(np.diag(np.linalg.inv((rows + rows.T) / 2.0)))
