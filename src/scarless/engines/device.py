"""Rows that are an array of another library, on its own device: a GPU, as a rule.

Blocks are large, since a device is quick with much at once; values per row are derived once, and stay on the device.
Sums come home in float64. A table in float32 stays so, and takes half the room, but its blocks are walked in float64: a
device has time for that, and half a million rows ask for more digits than seven.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.engines.base import Engine, Rows, Sums, open_rows
from scarless.engines.blocks import Reading, Units, add_up
from scarless.engines.fused import has_kernels, quicker
from scarless.engines.memory import InMemoryEngine
from scarless.numerics.arrays import in_float64, in_numpy, namespace_of

_BLOCK_NUMBERS = 1 << 30  # of a block of X: beyond, what is derived of it takes too much of a device's memory
_FLAT_ROWS = 2_000_000
_FEW_NUMBERS = 1 << 17  # a part of the rows that small is taken home: here a call takes longer than a pass


@dataclass(frozen=True)
class DeviceRows:
    """A table that is an array of some array API namespace other than numpy's."""

    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.X.shape[0]), int(self.X.shape[1])


def device_rows(X: Any) -> DeviceRows:
    """Return an array of another library as rows of ours."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead. Reshape your data.")
    kind = _kind(X)
    if kind not in ("float32", "float64"):
        xp = namespace_of(X)
        if not (kind.startswith(("int", "uint")) or kind == "bool"):
            raise ValueError(f"X is an array of {kind}; float64 or float32 is needed.")
        X = xp.astype(X, xp.float64)
    return DeviceRows(X.detach() if hasattr(X, "detach") else X)  # torch would remember how each sum came about


@dataclass(frozen=True)
class DeviceEngine:
    """Walks large blocks of an array that stays where it is."""

    X: Any
    rows: dict[str, Any]
    reading: Reading | None = None
    first: int = 0
    step: int = 1

    @property
    def names(self) -> list[str] | None:
        """Arrays have no names of columns."""
        return None

    @property
    def n_rows(self) -> int:
        """Number of rows held."""
        return int(self.X.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of products: that of X does not matter."""
        return np.dtype(np.float64)

    @property
    def flat_rows(self) -> int:
        """Up to so many rows a pass takes as long as one over a few of them: calls take longer than the device."""
        return _FLAT_ROWS if has_kernels(self.X) else 0

    @property
    def units(self) -> Units | None:
        """How a solver should see the columns; None where they are fit for products as they are."""
        return None if self.reading is None else self.reading.units

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field."""
        function = quicker(block_function, self.X)
        if function is not None and _kind(self.X) == "float64":  # keeps little of each row
            return function(self.X, self._whole(), *parameters)
        return add_up((function or block_function)(X, rows, *parameters) for X, rows in self._blocks())

    def derive(
        self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False
    ) -> "DeviceEngine":
        """Return an engine whose blocks also have the values of ``row_function(X, rows, *parameters)``, by name."""
        found = [row_function(X, rows, *parameters) for X, rows in self._blocks()]
        joined = {name: self._joined([each[name] for each in found]) for name in found[0]}
        return replace(self, rows={**self.rows, **joined})

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Return ``row_function(X, rows, *parameters)`` of every block, joined in row order, in numpy's memory."""
        values = [in_numpy(row_function(X, rows, *parameters)) for X, rows in self._blocks()]
        if into is None:
            return np.concatenate(values)
        np.concatenate(values, out=into)
        return into

    def every(self, step: int, first: int = 0) -> Engine:
        """Return an engine over every `step`-th row from the `first` on, with the values of these rows.

        Few rows of many are taken home: each call on a device takes as long as a pass over them.
        """
        rows = {name: values[first::step] for name, values in self.rows.items()}
        start, apart, X = self.first + first * self.step, self.step * step, self.X[first::step, :]
        if step > 1 and X.shape[0] * X.shape[1] <= _FEW_NUMBERS:
            home = {name: in_numpy(values) for name, values in rows.items()}
            reading = self.reading or Reading(self.dtype, None)
            return InMemoryEngine(in_numpy(X), home, reading=reading, first=start, step=apart)
        return replace(self, X=X, rows=rows, first=start, step=apart)

    def read_as(self, reading: Reading) -> "DeviceEngine":
        """Return an engine over the same rows that knows the columns' units; its precision is the same."""
        return replace(self, reading=reading)

    def in_units(self) -> "DeviceEngine":
        """Return an engine over the same rows whose columns are in their units."""
        units = self.units
        if units is None:
            return self
        X = (in_float64(self.X) - self._there(units.shift)) * self._there(units.scale)
        return replace(self, X=X, reading=Reading(self.dtype, None))

    def _whole(self) -> Rows:
        return Rows(self.rows, slice(self.first, self.first + self.n_rows * self.step, self.step))

    def _blocks(self) -> Iterator[tuple[Any, Rows]]:
        single = _kind(self.X) != "float64"
        size = max(1, (_BLOCK_NUMBERS // 8 if single else _BLOCK_NUMBERS) // max(1, self.n_columns))
        for start in range(0, max(1, self.n_rows), size):
            stop = min(start + size, self.n_rows)
            part, whole = slice(start, stop), stop - start == self.n_rows
            rows = self.rows if whole else {name: values[part] for name, values in self.rows.items()}
            where = slice(self.first + start * self.step, self.first + stop * self.step, self.step)
            yield in_float64(self.X if whole else self.X[part, :]), Rows(rows, where)

    def _joined(self, parts: list[Any]) -> Any:
        """Return values of all rows, on the device; text and other things that are no numbers stay with numpy."""
        if not isinstance(parts[0], np.ndarray):
            return parts[0] if len(parts) == 1 else namespace_of(parts[0]).concat(parts)
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._there(whole) if whole.dtype.kind in "fiub" else whole

    def _there(self, values: NDArray[Any]) -> Any:
        xp = namespace_of(self.X)
        numbers = np.ascontiguousarray(values, dtype=np.float64 if values.dtype.kind == "f" else None)
        return xp.asarray(numbers, device=self.X.device)


@open_rows.register
def _open_device_rows(X: DeviceRows, y: Any = None, sample_weight: Any = None) -> DeviceEngine:
    values = {name: in_numpy(value) for name, value in (("y", y), ("w", sample_weight)) if value is not None}
    for name, value in values.items():
        if value.shape[:1] != X.shape[:1]:
            raise ValueError(
                f"{'y' if name == 'y' else 'sample_weight'} has {len(value)} values for {X.shape[0]} rows."
            )
    return DeviceEngine(X.X, values)


def _kind(X: Any) -> str:
    """Return the name of an array's type, as numpy has it."""
    return str(X.dtype).rpartition(".")[2]
