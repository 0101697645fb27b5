"""Simulated surveys in the form of published occupancy data, with the parameters that made them.

Data: simulated by this program; `--out FOLDER` writes them as CSV files.
Time: a second.

The published tables of `occupancy_examples` are not part of scarless, because their licences are not free or not known.
These surveys have the same forms: visits without attributes, visits by several observers of which some did not take
place, and visits with two attributes. The random numbers are those of R after ``set.seed`` (`r_random`), so the tables
do not depend on the version of NumPy. `tests/test_occupancy_examples.py` compares our fits with an independent exact
maximum of the likelihood of each survey. In S and in the columns of a visit attribute, visits that did not take place
are NaN.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

from benchmarks.printed_numbers import Example, estimates
from benchmarks.r_random import RStream
from benchmarks.runner import command_parser

PRINTED_IN = "nowhere: simulated by benchmarks/occupancy_simulated.py"
SIMULATED = "simulation"


def _uniform(stream: RStream, *shape: int) -> np.ndarray:
    return np.array([stream.uniform() for _ in range(int(np.prod(shape)))]).reshape(shape)


def _normal(stream: RStream, *shape: int) -> np.ndarray:
    return ndtri((_uniform(stream, *shape) * 2**32 + 0.5) / 2**32)


def _seen(stream: RStream, f_logit: np.ndarray, e_logit: np.ndarray) -> np.ndarray:
    """Draw which sites are occupied, and at which visits the species is seen there."""
    occupied = _uniform(stream, len(f_logit)) < expit(f_logit)
    return (occupied[:, None] & (_uniform(stream, *e_logit.shape) < expit(e_logit))).astype(float)


def _visit_columns(visits: dict[str, np.ndarray]) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return one column for each look of every visit attribute, and the names of these columns."""
    names = {name: [f"{name}_{k}" for k in range(1, values.shape[1] + 1)] for name, values in visits.items()}
    parts = [pd.DataFrame(values, columns=names[name]) for name, values in visits.items()]
    return pd.concat(parts, axis=1), names


def streams(*, by_visit: bool = False) -> Example:
    """Return 39 streams with 5 visits and no attribute; `by_visit` gives every visit its own propensity."""
    S = _seen(RStream(39), np.full(39, 0.4), np.tile([-1.5, -1.8, -0.4, -0.6, -1.0], (39, 1)))
    e_lines = [f"e intercept@{k} {value}" for k, value in enumerate((-1.5, -1.8, -0.4, -0.6, -1.0))]
    return Example(
        name="streams-by-visit" if by_visit else "streams",
        printed_in=PRINTED_IN,
        printed_by=SIMULATED,
        formula="psi(.) p(t)" if by_visit else "~1 ~1",
        X=pd.DataFrame(index=range(39)),
        S=S,
        estimates=estimates("f intercept 0.4", *(e_lines if by_visit else ["e intercept -1.0"])),
        intercept_per_look=by_visit,
    )


def bushes(model: str) -> Example:
    """Return 72 bushes with 5 days; of three observers one comes or none, and browsed bushes are more often occupied.

    `model` is "constant", "browsed" (the attribute is in f), "browsed-twice" (in f and in e) or "observer-day".
    """
    stream = RStream(72)
    browsed = (_uniform(stream, 72) < 0.5).astype(float)
    observer = np.floor(3 * _uniform(stream, 72, 5)) + 1
    came = _uniform(stream, 72, 5) < 0.73
    came[:, 0] = True
    day = np.array([0.0, -0.2, -0.9, -0.1, 1.0])
    e_logit = -1.2 + 0.7 * (observer == 2) + 1.0 * (observer == 3) + day
    S = np.where(came, _seen(stream, 1.2 * browsed, e_logit), np.nan)
    visits = {f"observer_{j}": np.where(came, observer == j, np.nan) for j in (2, 3)}
    visits |= {f"day_{k}": np.where(came, np.arange(1, 6) == k, np.nan) for k in range(2, 6)}
    effects = {"observer_2": 0.7, "observer_3": 1.0, "day_2": -0.2, "day_3": -0.9, "day_4": -0.1, "day_5": 1.0}
    X, names = pd.DataFrame({"browsed": browsed}), None
    lines = ["f intercept 0", "e intercept -1.2"]
    if model != "constant":
        lines.insert(1, "f browsed 1.2")
    if model == "browsed-twice":
        lines.append("e browsed 0")
    if model == "observer-day":
        columns, names = _visit_columns(visits)
        X = pd.concat([X, columns], axis=1)
        lines += [f"e {name} {value}" for name, value in effects.items()]
    return Example(
        name=f"bushes-{model}",
        printed_in=PRINTED_IN,
        printed_by=SIMULATED,
        formula=model,
        X=X,
        S=S,
        estimates=estimates(*lines),
        class_attributes=() if model == "constant" else ("browsed",),
        propensity_attributes=("browsed",) if model == "browsed-twice" else (),
        visit_attributes=names,
    )


def ponds(*, attributes: bool = True) -> Example:
    """Return 130 ponds with up to 3 visits; the minutes after sunset and the temperature change from visit to visit."""
    stream = RStream(130)
    minutes, temperature = _normal(stream, 130, 3), _normal(stream, 130, 3)
    came = _uniform(stream, 130, 3) < 0.87
    came[:, 0] = True
    e_logit = 0.2 - 0.1 * minutes - 1.9 * temperature
    S = np.where(came, _seen(stream, np.full(130, 1.5), e_logit), np.nan)
    X, names, lines = pd.DataFrame(index=range(130)), None, ["f intercept 1.5", "e intercept 0.2"]
    if attributes:
        visits = {"minutes": minutes, "temperature": temperature}
        X, names = _visit_columns({name: np.where(came, values, np.nan) for name, values in visits.items()})
        lines += ["e minutes -0.1", "e temperature -1.9"]
    return Example(
        name="ponds" if attributes else "ponds-constant",
        printed_in=PRINTED_IN,
        printed_by=SIMULATED,
        formula="~minutes + temperature ~1" if attributes else "~1 ~1",
        X=X,
        S=S,
        estimates=estimates(*lines),
        visit_attributes=names,
    )


SURVEYS: dict[str, Callable[[], Example]] = {
    "streams": streams,
    "streams-by-visit": lambda: streams(by_visit=True),
    "bushes-constant": lambda: bushes("constant"),
    "bushes-browsed": lambda: bushes("browsed"),
    "bushes-browsed-twice": lambda: bushes("browsed-twice"),
    "bushes-observer-day": lambda: bushes("observer-day"),
    "ponds-constant": lambda: ponds(attributes=False),
    "ponds": ponds,
}


def main(arguments: list[str]) -> None:
    """Print the size of every survey; with ``--out``, write its table as a CSV file."""
    parser = command_parser("occupancy_simulated", __doc__)
    parser.add_argument("--out", type=Path, help="folder for the CSV files; nothing is written without it")
    options = parser.parse_args(arguments)
    for name, make in SURVEYS.items():
        survey = make()
        missing = int(np.isnan(survey.S).sum())
        print(f"{name}: {survey.S.shape[0]} x {survey.S.shape[1]}, {missing} visits missing; {survey.formula}")
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            looks = pd.DataFrame(survey.S, columns=[f"seen_{k}" for k in range(1, survey.S.shape[1] + 1)])
            pd.concat([looks, survey.X], axis=1).to_csv(options.out / f"{name}.csv", index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
