"""Unusual and invalid vectors with one value for each row: labels, probabilities, propensities and weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from benchmarks.fuzz.base import Base, Pool, mapped, read_only, replaced

Values = Callable[[Base], np.ndarray]


def forms(of: Values) -> Pool:
    """Return a valid vector in many forms, some of which are not accepted."""
    return {**_shapes(of), **_types(of), **_frames(of)}


def _shapes(of: Values) -> Pool:
    return {
        "(n, 1)": lambda b: of(b)[:, None],
        "(1, n)": lambda b: of(b)[None],
        "(n, 2)": lambda b: np.column_stack([of(b), of(b)]),
        "(n, 1, 1)": lambda b: of(b)[:, None, None],
        "0-d": lambda b: np.array(of(b)[0]),
        "scalar": lambda b: of(b)[0].item(),
        "empty": lambda b: of(b)[:0],
        "empty list": lambda b: [],
        "one value": lambda b: of(b)[:1],
        "one too few": lambda b: of(b)[:-1],
        "one too many": lambda b: np.append(of(b), of(b)[0]),
        "ragged": lambda b: [*of(b)[:-1].tolist(), [1]],
    }


def _types(of: Values) -> Pool:
    return {
        "list": lambda b: of(b).tolist(),
        "tuple": lambda b: tuple(of(b).tolist()),
        "None": lambda b: None,
        "text": lambda b: "abc",
        "dict": lambda b: dict(enumerate(of(b))),
        "set": lambda b: set(of(b).tolist()),
        "generator": lambda b: iter(of(b)),
        "function": lambda b: len,
        "objects": lambda b: of(b).astype(object),
        "objects, one None": lambda b: replaced(of(b), 1, None, object),
        "objects, one text": lambda b: replaced(of(b), 1, "a", object),
        "objects, a list": lambda b: [*of(b)[:-1].tolist(), {}],
        "strings": lambda b: of(b).astype(str),
        "bytes": lambda b: of(b).astype(bytes),
        "NaN": lambda b: replaced(of(b), 1, np.nan, float),
        "inf": lambda b: replaced(of(b), 1, np.inf, float),
        "-inf": lambda b: replaced(of(b), 1, -np.inf, float),
        "negative": lambda b: -of(b).astype(float),
        "one of 2.5": lambda b: replaced(of(b), 1, 2.5, float),
        "times 1e300": lambda b: of(b) * 1e300,
        "times 1e-300": lambda b: of(b) * 1e-300,
        "float16": lambda b: of(b).astype(np.float16),
        "float32": lambda b: of(b).astype(np.float32),
        "longdouble": lambda b: of(b).astype(np.longdouble),
        "int8": lambda b: of(b).astype(np.int8),
        "uint8": lambda b: of(b).astype(np.uint8),
        "bool": lambda b: of(b).astype(bool),
        "complex": lambda b: of(b) + 1j,
        "complex, no imaginary part": lambda b: of(b).astype(complex),
        "dates": lambda b: np.full(b.s.size, np.datetime64("2020-01-01")),
        "durations": lambda b: np.full(b.s.size, np.timedelta64(1, "D")),
        "masked": lambda b: np.ma.masked_array(of(b), mask=b.X[:, 0] > 0),
        "masked, nothing": lambda b: np.ma.masked_array(of(b)),
        "read-only": lambda b: read_only(of(b)),
        "memory map": lambda b: mapped(of(b)),
        "other byte order": lambda b: of(b).astype(of(b).dtype.newbyteorder()),
        "every other": lambda b: np.repeat(of(b), 2)[::2],
        "reversed": lambda b: of(b)[::-1],
        "sparse column": lambda b: sparse.csr_matrix(of(b)[:, None]),
        "sparse row": lambda b: sparse.coo_matrix(of(b)[None]),
        "matrix": lambda b: sparse.csr_matrix(of(b)[:, None]).todense(),
    }


def _frames(of: Values) -> Pool:
    return {
        "pandas": lambda b: pd.Series(of(b)),
        "pandas, odd index": lambda b: pd.Series(of(b), index=np.arange(b.s.size)[::-1] % 3),
        "pandas, nullable": lambda b: pd.Series(of(b)).convert_dtypes(),
        "pandas, nullable with NA": lambda b: pd.Series(of(b)).mask(b.X[:, 0] > 0).convert_dtypes(),
        "pandas, boolean with NA": lambda b: pd.Series(of(b) > 0).mask(b.X[:, 0] > 0).astype("boolean"),
        "pandas, string with NA": lambda b: pd.Series(of(b).astype(str)).mask(b.X[:, 0] > 0).astype("string"),
        "pandas, objects with NA": lambda b: pd.Series(of(b)).astype(object).mask(b.X[:, 0] > 0, pd.NA),
        "pandas, categories": lambda b: pd.Series(of(b)).astype("category"),
        "pandas, ordered categories": lambda b: pd.Series(pd.Categorical(of(b), ordered=True)),
        "pandas, sparse": lambda b: pd.Series(pd.arrays.SparseArray(of(b))),
        "pandas frame": lambda b: pd.DataFrame({"s": of(b)}),
        "pandas frame of two": lambda b: pd.DataFrame({"s": of(b), "t": of(b)}),
        "pandas array": lambda b: pd.array(of(b)),
        "pandas index": lambda b: pd.Index(of(b)),
        "polars": lambda b: pl.Series("s", of(b)),
        "polars with nulls": lambda b: pl.Series("s", [None, *of(b)[1:].tolist()]),
        "polars frame": lambda b: pl.DataFrame({"s": of(b)}),
        "polars, bool": lambda b: pl.Series("s", of(b) > 0),
        "polars, lazy": lambda b: pl.DataFrame({"s": of(b)}).lazy(),
    }


LABELS: Pool = {
    **forms(lambda b: b.s),
    "-1/+1": lambda b: 2 * b.s - 1,
    "booleans": lambda b: b.s == 1,
    "words": lambda b: np.where(b.s == 1, "yes", "no"),
    "words as objects": lambda b: np.where(b.s == 1, "yes", "no").astype(object),
    "words with NA": lambda b: replaced(np.where(b.s == 1, "yes", "no"), 0, None, object),
    "1/2": lambda b: b.s + 1,
    "0/2": lambda b: 2 * b.s,
    "0/-1": lambda b: -b.s,
    "0/0.5": lambda b: b.s / 2,
    "three values": lambda b: b.s + b.y,
    "many values": lambda b: np.arange(b.s.size),
    "real values": lambda b: b.f,
    "all 0": lambda b: np.zeros(b.s.size, int),
    "all 1": lambda b: np.ones(b.s.size, int),
    "all 7": lambda b: np.full(b.s.size, 7),
    "one labelled": lambda b: (np.arange(b.s.size) == 3).astype(int),
    "two labelled": lambda b: (np.arange(b.s.size) < 2).astype(int),
    "one unlabelled": lambda b: (np.arange(b.s.size) != 3).astype(int),
    "mixed types": lambda b: [0 if i % 3 else "1" for i in range(b.s.size)],
    "0 and True": lambda b: replaced(b.s, b.s == 1, True, object),
    "large integers": lambda b: replaced(b.s, b.s == 1, 10**30, object),
    "0/1e300": lambda b: b.s * 1e300,
    "the other rows": lambda b: 1 - b.s,
}
WEIGHTS: Pool = {
    **forms(lambda b: b.w),
    **{f"all {value:g}": lambda b, value=value: np.full(b.s.size, value) for value in (0, 1, 5e-324, 1e-310, 1e-200)},
    **{f"all {value:g}": lambda b, value=value: np.full(b.s.size, value) for value in (1e150, 1e200, 1e300, 1.7e308)},
    "one above 0": lambda b: (np.arange(b.s.size) == 3).astype(float),
    "0 where labelled": lambda b: 1.0 - b.s,
    "0 where unlabelled": lambda b: b.s.astype(float),
    "one of -1": lambda b: replaced(b.w, 1, -1.0),
    "one of 1e300": lambda b: replaced(b.w, 1, 1e300),
    "one of 1e18": lambda b: replaced(b.w, 1, 1e18),
    "one of 5e-324": lambda b: replaced(b.w, 1, 5e-324),
    "1e-150 to 1e150": lambda b: np.logspace(-150, 150, b.s.size),
    "half 0": lambda b: (np.arange(b.s.size) % 2).astype(float),
}
PROPENSITIES: Pool = {
    **forms(lambda b: b.e),
    "0.5": lambda b: 0.5,
    "1": lambda b: 1,
    "all 1": lambda b: np.ones(b.s.size),
    **{f"all {value:g}": lambda b, value=value: np.full(b.s.size, value) for value in (0, 5e-324, 1e-300, 1e-12)},
    "one of 0": lambda b: replaced(b.e, 1, 0.0),
    "one of 1e-300": lambda b: replaced(b.e, 1, 1e-300),
    "one of 5e-324": lambda b: replaced(b.e, 1, 5e-324),
    "just above 1": lambda b: np.full(b.s.size, np.nextafter(1, 2)),
    "1e-300 to 1": lambda b: np.logspace(-300, 0, b.s.size),
    "1 where labelled": lambda b: np.where(b.s == 1, 1.0, 0.5),
}
PROBABILITIES: Pool = {
    **forms(lambda b: b.f),
    "0/1": lambda b: b.y,
    "all 0": lambda b: np.zeros(b.s.size),
    "all 1": lambda b: np.ones(b.s.size),
    "all 0.5": lambda b: np.full(b.s.size, 0.5),
    "wrong and sure": lambda b: 1.0 - b.s,
    "all 1e-300": lambda b: np.full(b.s.size, 1e-300),
    "all 5e-324": lambda b: np.full(b.s.size, 5e-324),
    "1e-300 to 1": lambda b: np.logspace(-300, 0, b.s.size),
    "two columns": lambda b: np.column_stack([1 - b.f, b.f]),
}
