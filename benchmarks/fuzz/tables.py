"""Unusual and invalid tables of attributes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from benchmarks.fuzz.base import Base, Pool, mapped, read_only, replaced


def frame(base: Base) -> pd.DataFrame:
    """Return the base table as a pandas data frame with column names."""
    return pd.DataFrame(base.X, columns=[f"a{i}" for i in range(base.X.shape[1])])


def polars(base: Base) -> pl.DataFrame:
    """Return the base table as a polars data frame."""
    return pl.DataFrame({f"a{i}": column for i, column in enumerate(base.X.T)})


def _explicit_zeros(base: Base) -> sparse.csr_matrix:
    table = sparse.csr_matrix(base.X)
    table.data[::2] = 0.0
    return table


def _long_indices(base: Base) -> sparse.csr_matrix:
    table = sparse.csr_matrix(base.X)
    table.indices, table.indptr = table.indices.astype(np.int64), table.indptr.astype(np.int64)
    return table


SHAPES: Pool = {
    "0 rows": lambda b: b.X[:0],
    "1 row": lambda b: b.X[:1],
    "2 rows": lambda b: b.X[:2],
    "0 columns": lambda b: b.X[:, :0],
    "0 rows and columns": lambda b: np.empty((0, 0)),
    "1-d": lambda b: b.X[:, 0],
    "3-d": lambda b: b.X[None],
    "0-d": lambda b: np.array(1.0),
    "a row too few": lambda b: b.X[:-1],
    "a row too many": lambda b: np.vstack([b.X, b.X[:1]]),
    "a column too many": lambda b: np.hstack([b.X, b.X[:, :1]]),
    "a column too few": lambda b: b.X[:, :-1],
    "one column": lambda b: b.X[:, :1],
    "wide": lambda b: b.rng.normal(size=(b.s.size, 3 * b.s.size)),
    "ragged list": lambda b: [*b.X[:-1].tolist(), [1.0]],
    "empty list": lambda b: [],
}
TYPES: Pool = {
    "list": lambda b: b.X.tolist(),
    "tuple": lambda b: tuple(map(tuple, b.X)),
    "None": lambda b: None,
    "text": lambda b: "a,b\n1,2",
    "number": lambda b: 5,
    "dict": lambda b: {"a": b.X[:, 0].tolist()},
    "set": lambda b: {1.0, 2.0},
    "generator": lambda b: (row for row in b.X),
    "function": lambda b: len,
    "objects": lambda b: b.X.astype(object),
    "objects, text": lambda b: replaced(b.X, (1, 0), "a", object),
    "objects, None": lambda b: replaced(b.X, (1, 0), None, object),
    "objects, dicts": lambda b: replaced(b.X, (1, 0), {}, object),
    "strings": lambda b: b.X.astype(str),
    "bytes": lambda b: np.full(b.X.shape, b"a"),
    "masked": lambda b: np.ma.masked_array(b.X, mask=b.X > 1),
    "masked, nothing": lambda b: np.ma.masked_array(b.X),
    "matrix": lambda b: sparse.csr_matrix(b.X).todense(),
    "records": lambda b: np.zeros(b.s.size, dtype=[("a", float), ("b", int)]),
    "dates": lambda b: np.full(b.X.shape, np.datetime64("2020-01-01")),
    "durations": lambda b: np.full(b.X.shape, np.timedelta64(1, "D")),
    "int8": lambda b: (10 * b.X).astype(np.int8),
    "uint64": lambda b: np.abs(100 * b.X).astype(np.uint64),
    "bool": lambda b: b.X > 0,
    "float16": lambda b: b.X.astype(np.float16),
    "float32": lambda b: b.X.astype(np.float32),
    "longdouble": lambda b: b.X.astype(np.longdouble),
    "complex": lambda b: b.X + 1j,
    "complex, no imaginary part": lambda b: b.X.astype(complex),
    "Fortran order": lambda b: np.asfortranarray(b.X),
    "other byte order": lambda b: b.X.astype(b.X.dtype.newbyteorder()),
    "read-only": lambda b: read_only(b.X),
    "memory map": lambda b: mapped(b.X),
    "memory map, float32": lambda b: mapped(b.X.astype(np.float32)),
    "negative strides": lambda b: b.X[::-1, ::-1][::-1, ::-1],
    "every other": lambda b: np.repeat(np.repeat(b.X, 2, axis=0), 2, axis=1)[::2, ::2],
}
SPARSE: Pool = {
    **{
        f"sparse {form}": lambda b, form=form: sparse.csr_matrix(b.X * (b.X > 0)).asformat(form)
        for form in ("csr", "csc", "coo", "dia", "bsr", "dok", "lil")
    },
    **{f"sparse array {form}": lambda b, form=form: sparse.coo_array(b.X).asformat(form) for form in ("csr", "dia")},
    "sparse, empty": lambda b: sparse.csr_matrix(b.X.shape),
    "sparse, 0 rows": lambda b: sparse.csr_matrix((0, 3)),
    "sparse, 0 columns": lambda b: sparse.csr_matrix((b.s.size, 0)),
    "sparse, float32": lambda b: sparse.csr_matrix(b.X.astype(np.float32)),
    "sparse, int8": lambda b: sparse.csr_matrix((10 * b.X).astype(np.int8)),
    "sparse, bool": lambda b: sparse.csr_matrix(b.X > 0),
    "sparse, complex": lambda b: sparse.csr_matrix(b.X + 1j),
    "sparse, NaN": lambda b: sparse.csr_matrix(replaced(b.X, (1, 0), np.nan)),
    "sparse, 1e200": lambda b: sparse.csr_matrix(b.X * 1e200),
    "sparse, explicit zeros": _explicit_zeros,
    "sparse, duplicates": lambda b: sparse.coo_matrix((np.ones(4), ([0, 0, 1, 1], [0, 0, 1, 1])), shape=b.X.shape),
    "sparse, long indices": _long_indices,
}
NUMBERS: Pool = {
    "NaN": lambda b: replaced(b.X, (1, 0), np.nan),
    "NaN everywhere": lambda b: np.full(b.X.shape, np.nan),
    "inf": lambda b: replaced(b.X, (1, 0), np.inf),
    **{f"times {size:g}": lambda b, size=size: b.X * size for size in (0, 1e-320, 1e-300, 1e-160, 1e-80, 1e-20, 1e-8)},
    **{f"times {size:g}": lambda b, size=size: b.X * size for size in (1e6, 1e15, 1e30, 1e99, 1e150, 1e300)},
    **{
        f"float32 times {size:g}": lambda b, size=size: (b.X * size).astype(np.float32)
        for size in (1e-40, 1e-25, 1e-10, 1e10, 1e14, 1e30)
    },
    **{f"plus {size:g}": lambda b, size=size: b.X + size for size in (1e4, 1e8, 1e12, 1e50)},
    "float32 plus 1e6": lambda b: (b.X + 1e6).astype(np.float32),
    "scales of 1e-90 to 1e90": lambda b: b.X * np.logspace(-90, 90, b.X.shape[1]),
    "one outlier of 1e90": lambda b: replaced(b.X, (0, 0), 1e90),
    "constant": lambda b: np.ones(b.X.shape),
    "one constant column": lambda b: replaced(b.X, (slice(None), 0), 3.0),
    "equal rows": lambda b: np.repeat(b.X[:1], b.s.size, axis=0),
    "few distinct rows": lambda b: b.X[np.arange(b.s.size) % 3],
    "equal columns": lambda b: np.repeat(b.X[:, :1], b.X.shape[1], axis=1),
    "nearly equal columns": lambda b: b.X[:, :1] + 1e-12 * b.X,
    "binary": lambda b: np.sign(b.X),
    "separable": lambda b: replaced(b.X, (slice(None), 0), 20.0 * b.s - 10.0),
    "separable, 1e80": lambda b: replaced(b.X, (slice(None), 0), 1e80 * (2 * b.s - 1)),
    "classes separable": lambda b: replaced(b.X, (slice(None), 0), 20.0 * b.y - 10.0),
    "the labels": lambda b: replaced(b.X, (slice(None), 0), b.s),
    "the other way round": lambda b: b.X[::-1].copy(),
}
FRAMES: Pool = {
    "pandas": frame,
    "pandas, Int64": lambda b: frame(b).round().astype("Int64"),
    "pandas, Float64 with NA": lambda b: frame(b).mask(b.X > 1).astype("Float64"),
    "pandas, boolean": lambda b: (frame(b) > 0).astype("boolean"),
    "pandas, boolean with NA": lambda b: (frame(b) > 0).astype("boolean").mask(b.X > 1),
    "pandas, text": lambda b: frame(b).astype(str),
    "pandas, string": lambda b: frame(b).astype("string"),
    "pandas, categories": lambda b: frame(b).round().astype("category"),
    "pandas, one text column": lambda b: frame(b).assign(a0="x"),
    "pandas, objects": lambda b: frame(b).astype(object),
    "pandas, dates": lambda b: frame(b).assign(a0=pd.Timestamp("2020-01-01")),
    "pandas, sparse": lambda b: frame(b).astype(pd.SparseDtype(float, 0.0)),
    "pandas, complex": lambda b: frame(b).astype(complex),
    "pandas, float32": lambda b: frame(b).astype(np.float32),
    "pandas, mixed types": lambda b: frame(b).assign(a0=lambda t: t["a0"].astype(np.float32), flag=True),
    "pandas, equal names": lambda b: frame(b).set_axis(["a"] * b.X.shape[1], axis=1),
    "pandas, no names": lambda b: pd.DataFrame(b.X),
    "pandas, mixed names": lambda b: frame(b).rename(columns={"a0": 0}),
    "pandas, names None": lambda b: frame(b).set_axis([None] * b.X.shape[1], axis=1),
    "pandas, names of two levels": lambda b: frame(b).set_axis(
        pd.MultiIndex.from_tuples([("a", i) for i in range(b.X.shape[1])]), axis=1
    ),
    "pandas, odd index": lambda b: frame(b).set_axis(np.arange(b.s.size)[::-1] % 3),
    "pandas, index of two levels": lambda b: frame(b).set_axis(
        pd.MultiIndex.from_tuples([("r", i) for i in range(b.s.size)]), axis=0
    ),
    "pandas, columns in another order": lambda b: frame(b).iloc[:, ::-1],
    "pandas, 0 rows": lambda b: frame(b).iloc[:0],
    "pandas, 0 columns": lambda b: frame(b).iloc[:, :0],
    "pandas, NaN": lambda b: frame(b).mask(b.X > 1),
    "pandas series": lambda b: frame(b)["a0"],
    "pandas index": lambda b: pd.Index(b.X[:, 0]),
    "polars": polars,
    "polars, nulls": lambda b: polars(b).with_columns(pl.when(pl.col("a0") < 1).then(pl.col("a0"))),
    "polars, text": lambda b: polars(b).with_columns(pl.lit("x").alias("a0")),
    "polars, bool": lambda b: polars(b).select(pl.all() > 0),
    "polars, integers": lambda b: polars(b).cast(pl.Int16),
    "polars, lists": lambda b: pl.DataFrame({"a": [[1.0, 2.0]] * b.s.size}),
    "polars, 0 rows": lambda b: polars(b).head(0),
    "polars, lazy": lambda b: polars(b).lazy(),
    "polars series": lambda b: pl.Series("a", b.X[:, 0]),
}
TABLES: Pool = {**SHAPES, **TYPES, **SPARSE, **NUMBERS, **FRAMES}
