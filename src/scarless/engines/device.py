"""Engine for rows in an array of a library other than NumPy, such as a PyTorch tensor, usually on a GPU.

Blocks are large, because a device is efficient with large arrays. Derived values of the rows are computed once and
stored on the device. Sums over blocks are copied to NumPy in float64. A float32 table is stored as float32, but its
blocks are converted to float64 in each pass: the seven digits of float32 are too few for sums over half a million rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.engines.base import Engine, Rows, Sums, open_rows
from scarless.engines.blocks import Reading, Units, add_up
from scarless.engines.fused import fused_version, has_kernels
from scarless.engines.memory import InMemoryEngine
from scarless.numerics.arrays import in_float64, in_numpy, namespace_of

_BLOCK_NUMBERS = 1 << 30  # numbers in a block of X; values derived from larger blocks take too much device memory
_CONSTANT_TIME_ROWS = 2_000_000  # up to this number of rows, launching kernels takes longer than the computation
_MAX_NUMBERS_ON_CPU = 1 << 17  # samples of rows up to this size are copied to the CPU, which is faster for them


@dataclass(frozen=True)
class DeviceRows:
    """A table in an array of a library other than NumPy that supports the array API, such as PyTorch."""

    X: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return int(self.X.shape[0]), int(self.X.shape[1])


def device_rows(X: Any) -> DeviceRows:
    """Return an array of a library other than NumPy as `DeviceRows`; raise an error if it is not a table of numbers.

    Integers and booleans are converted to float64.
    """
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead. Reshape X to (n_rows, n_columns).")
    kind = _kind(X)
    if kind not in ("float32", "float64"):
        xp = namespace_of(X)
        if not (kind.startswith(("int", "uint")) or kind == "bool"):
            raise ValueError(
                f"X must have the type float64, float32, an integer type or bool; its type is {kind}. Convert it to "
                "float64 or float32."
            )
        X = xp.astype(X, xp.float64)
    return DeviceRows(X.detach() if hasattr(X, "detach") else X)  # Without `detach`, PyTorch would record gradients.


@dataclass(frozen=True)
class DeviceEngine:
    """Engine over large blocks of an array that stays on its device."""

    X: Any
    rows: dict[str, Any]
    reading: Reading | None = None
    first: int = 0
    step: int = 1

    @property
    def names(self) -> list[str] | None:
        """None: arrays have no column names."""
        return None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of products: always float64, because blocks of a float32 table are converted."""
        return np.dtype(np.float64)

    @property
    def flat_rows(self) -> int:
        """Number of rows up to which the time of a pass is constant, because launching kernels takes most of it."""
        return _CONSTANT_TIME_ROWS if has_kernels(self.X) else 0

    @property
    def units(self) -> Units | None:
        """Shift and scale of the columns for the solver; None if no column has to be shifted or scaled."""
        return None if self.reading is None else self.reading.units

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field."""
        function = fused_version(block_function, self.X)
        if function is not None and _kind(self.X) == "float64":  # Kernels need little memory, so one block is enough.
            return add_up([function(self.X, self._whole(), *parameters)])
        return add_up((function or block_function)(X, rows, *parameters) for X, rows in self._blocks())

    def derive(
        self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False
    ) -> "DeviceEngine":
        """Return an engine whose rows also have the values that ``row_function(X, rows, *parameters)`` returns."""
        found = [row_function(X, rows, *parameters) for X, rows in self._blocks()]
        joined = {name: self._joined([each[name] for each in found]) for name in found[0]}
        return replace(self, rows={**self.rows, **joined})

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Apply ``row_function(X, rows, *parameters)`` to every block, and return the values of all rows in order."""
        values = [in_numpy(row_function(X, rows, *parameters)) for X, rows in self._blocks()]
        if into is None:
            return np.concatenate(values)
        np.concatenate(values, out=into)
        return into

    def every(self, step: int, first: int = 0) -> Engine:
        """Return an engine over every `step`-th row, starting at row `first`, with the values of these rows.

        A small sample of rows is copied to the CPU, where a pass over it takes less time than a call on the device.
        """
        rows = {name: values[first::step] for name, values in self.rows.items()}
        start, apart, X = self.first + first * self.step, self.step * step, self.X[first::step, :]
        if step > 1 and X.shape[0] * X.shape[1] <= _MAX_NUMBERS_ON_CPU:
            home = {name: in_numpy(values) for name, values in rows.items()}
            reading = self.reading or Reading(self.dtype, None)
            return InMemoryEngine(in_numpy(X), home, reading=reading, first=start, step=apart)
        return replace(self, X=X, rows=rows, first=start, step=apart)

    def read_as(self, reading: Reading) -> "DeviceEngine":
        """Return an engine that reads the same rows with the units of `reading`; the precision is always float64."""
        return replace(self, reading=reading)

    def in_units(self) -> "DeviceEngine":
        """Return an engine over the same rows with the columns shifted and scaled by `units`."""
        units = self.units
        if units is None:
            return self
        X = (in_float64(self.X) - self._to_device(units.shift)) * self._to_device(units.scale)
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
        """Return the values of all rows on the device; values that are not numbers stay in NumPy arrays."""
        if not isinstance(parts[0], np.ndarray):
            return parts[0] if len(parts) == 1 else namespace_of(parts[0]).concat(parts)
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return self._to_device(whole) if whole.dtype.kind in "fiub" else whole

    def _to_device(self, values: NDArray[Any]) -> Any:
        xp = namespace_of(self.X)
        numbers = np.ascontiguousarray(values, dtype=np.float64 if values.dtype.kind == "f" else None)
        return xp.asarray(numbers, device=self.X.device)


@open_rows.register
def _open_device_rows(X: DeviceRows, y: Any = None, sample_weight: Any = None) -> DeviceEngine:
    values = {name: in_numpy(value) for name, value in (("y", y), ("w", sample_weight)) if value is not None}
    for name, value in values.items():
        if value.shape[:1] != X.shape[:1]:
            raise ValueError(
                f"{'y' if name == 'y' else 'sample_weight'} has {len(value)} values for {X.shape[0]} rows of X. "
                "Pass one value for each row."
            )
    return DeviceEngine(X.X, values)


def _kind(X: Any) -> str:
    """Return the type of an array without the name of its library, such as "float32" for torch.float32."""
    return str(X.dtype).rpartition(".")[2]
