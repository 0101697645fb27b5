"""scikit-learn and dask-ml on the files of `benchmarks.scale`, beside scarless."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression, SGDClassifier

from benchmarks.runner import Row
from benchmarks.scale.setup import COLUMNS, NAMES, PROPENSITY, Clock, files, has
from scarless import SAREMClassifier
from scarless.scale import ParquetRows


def peers() -> Iterator[Row]:
    """CPU time of scikit-learn, dask-ml and scarless on the same files; the others see the true classes."""
    folder = files()
    tables = [pq.read_table(path, columns=[*NAMES, "y"], use_threads=False) for path in sorted(folder.iterdir())]
    table = pa.concat_tables(tables)
    X = np.ascontiguousarray(np.stack([table.column(name).to_numpy() for name in NAMES]).T)
    y = table.column("y").to_numpy()
    del tables, table
    seconds, exact = Clock()(LogisticRegression(solver="newton-cholesky", tol=1e-8).fit, X, y)
    yield {"part": "peers", "method": "scikit-learn newton-cholesky, in memory", "seconds": seconds, "distance": 0.0}
    seconds, model = Clock()(LogisticRegression(max_iter=1000).fit, X, y)
    name = "scikit-learn lbfgs, in memory"
    yield {"part": "peers", "method": name, "seconds": seconds, "distance": _distance(model, exact)}

    def in_parts(passes: int) -> Any:
        model = SGDClassifier(loss="log_loss", alpha=1.0 / len(y), random_state=0)
        for _ in range(passes):
            for path in sorted(folder.iterdir()):
                model.partial_fit(*_part(path), classes=[0, 1])
        return model

    for n_passes in (1, 10):
        seconds, model = Clock()(in_parts, n_passes)
        name = f"scikit-learn SGDClassifier.partial_fit, {n_passes} pass{'es' if n_passes > 1 else ''} over the files"
        yield {"part": "peers", "method": name, "seconds": seconds, "distance": _distance(model, exact)}
    del X
    yield from _dask_ml(folder, exact)
    rows = ParquetRows(folder, columns=NAMES, scheduler="threads")
    seconds, model = Clock()(SAREMClassifier(propensity_attributes=PROPENSITY).fit, rows, "s")
    yield {
        "part": "peers",
        "method": "scarless, both models, from labels alone, from the files",
        "seconds": seconds,
        "distance": _distance(model, exact),
    }


def _dask_ml(folder: Path, exact: Any) -> Iterator[Row]:
    """Yield the rows of dask-ml's logistic regression, which keeps the files in memory; a failure is a row, too."""
    if not has("dask_ml"):
        return
    from dask_ml.linear_model import LogisticRegression as DaskLogisticRegression

    for solver in ("lbfgs", "newton", "admm"):
        row: Row = {"part": "peers", "method": f"dask-ml LogisticRegression ({solver}), Dask on threads"}

        def fit(solver: str = solver) -> Any:
            return DaskLogisticRegression(solver=solver, C=1.0).fit(*_dask_arrays(folder))

        try:
            seconds, model = Clock()(fit)
        except Exception as error:  # Any library that is involved may fail.
            yield {**row, "failed": f"{type(error).__name__}: {error}"[:200]}
        else:
            yield {**row, "seconds": seconds, "distance": _distance(model, exact)}


def _dask_arrays(folder: Path) -> Any:
    """Return the rows as Dask arrays in memory, with one chunk for each file.

    ``dd.read_parquet(folder)[NAMES].to_dask_array(lengths=True)`` does not work: Dask 2026.8 joins partitions after it
    has counted them, and fails with "The number of items in 'lengths' does not match".
    """
    import dask
    import dask.array as da

    chunks = []
    for path in sorted(folder.iterdir()):
        X, y = dask.delayed(_part, nout=2)(path)
        n = pq.read_metadata(path).num_rows
        chunks.append((da.from_delayed(X, (n, COLUMNS), np.float32), da.from_delayed(y, (n,), np.int8)))
    return dask.persist(*map(da.concatenate, zip(*chunks, strict=True)))


def _part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of one file and their true classes."""
    part = pq.read_table(path, columns=[*NAMES, "y"], use_threads=False)
    return np.stack([part.column(name).to_numpy() for name in NAMES]).T, part.column("y").to_numpy()


def _distance(model: Any, exact: Any) -> float:
    """Return the largest absolute difference of the coefficients."""
    return float(np.abs(np.asarray(model.coef_) - exact.coef_).max())
