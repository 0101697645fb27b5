"""The ranked rows as data for the script of the page, with which its reader sorts, filters and downloads them."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from scarless.diagnostics.audits.yields import NAIVE, NO_ESTIMATE, NO_ESTIMATE_OF_ONE, RANDOM, SENTENCE
from scarless.report.fit.data import PriorStep, Ranked, RankedRow, Yield
from scarless.report.words import share, signed, text

MAX_CHARACTERS = 1_000_000  # of all rows; the last rows are left out if they need more
DIGITS = 8  # significant digits of probabilities


def page_data(ranked: Ranked, level: float, frame: Any = None) -> dict[str, Any]:
    """Return the data of the script: rows, positives to expect, class priors, and the words of its sentences.

    `frame` has the axes of the drawing of the yield curve, in which the script marks a point.
    """
    names: dict[str, int] = {}
    rows: list[list[Any]] = []
    room = MAX_CHARACTERS
    for row in (*ranked.rows, *ranked.more):
        line = _line(row, names)
        room -= len(json.dumps(line, ensure_ascii=False))
        if room < 0 and len(rows) >= len(ranked.rows):
            break
        rows.append(line)
    return {
        "rows": rows,
        "columns": list(names),
        "shown": len(ranked.rows),
        "unlabelled": ranked.n_unlabelled,
        "measure": ranked.measure,
        "yield": None if ranked.curve is None else yield_by_row(ranked.curve, len(rows)),
        "frame": frame,
        "priors": [[each.class_shift, each.label_shift, share(each.share)] for each in ranked.priors],
        "estimate": place_of_estimate(ranked.priors),
        "words": {
            "level": f"{100 * level:.6g}",
            "sentence": SENTENCE if ranked.curve is None else f"{SENTENCE} {ranked.curve.assumption}".strip(),
            "noEstimate": NO_ESTIMATE,
            "noEstimateOfOne": NO_ESTIMATE_OF_ONE,
            "random": RANDOM,
            "naive": NAIVE,
        },
    }


def in_script(data: dict[str, Any]) -> str:
    r"""Return data as JSON that can stand in a script element of a page.

    No text of the user's table can end the element or begin a comment, because the characters <, > and & are escaped.

    Examples
    --------
    >>> print(in_script({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    found = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        found = found.replace(character, f"\\u{ord(character):04x}")
    return found


def place_of_estimate(priors: Sequence[PriorStep]) -> int:
    """Return the place of the estimate among class priors; 0 without class priors."""
    return next((j for j, each in enumerate(priors) if each.class_shift == each.label_shift == 0.0), 0)


def yield_by_row(curve: Yield, n_rows: int) -> dict[str, Any]:
    """Return the rounded numbers of positives for each number of rows, from 1 to `n_rows`.

    They are interpolated between the numbers of the curve.
    """
    if not curve.informative:
        return {"informative": False}
    counts, n = np.arange(1, n_rows + 1), [0, *curve.n]

    def between(values: Sequence[float]) -> Any:
        return np.interp(counts, n, [0.0, *values])

    parts = {name: between(getattr(curve, name)) for name in ("expected", "low", "high", "random")}
    if curve.naive:
        parts |= {name: between(getattr(curve, name)) for name in ("naive", "naive_low", "naive_high")}
    return {"informative": True, **{name: [int(f"{each:.0f}") for each in found] for name, found in parts.items()}}


def _line(row: RankedRow, names: dict[str, int]) -> list[Any]:
    """Return a row as a list; columns are named once for all rows, by their place in `names`."""
    reasons = [
        [names.setdefault(text(each.column, 40), len(names)), each.value, signed(each.contribution, 1)]
        for each in row.reasons
    ]
    numbers = (row.probability.value, row.probability.low, row.probability.high, row.propensity)
    return [row.name, row.position + 1, *map(_rounded, numbers), reasons]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
