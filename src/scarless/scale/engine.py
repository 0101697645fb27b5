"""Engine over partitions that need not fit into memory. Threads, a Dask cluster or Ray process the partitions.

The results of passes can be stored, so that an interrupted fit can be resumed.
"""

import hashlib
import io
import json
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scarless.engines.base import Sums
from scarless.engines.blocks import Preparation, Reading, Units, add_up
from scarless.engines.memory import InMemoryEngine
from scarless.outside.files import write_whole
from scarless.outside.notices import warn_user
from scarless.scale.executors import Executor
from scarless.scale.partitions import (
    Cache,
    KeepValues,
    Plan,
    Program,
    SelectRows,
    Step,
    rows_of,
    token_of,
    total_of,
    values_of,
)

DIGEST_BYTES = hashlib.sha256().digest_size  # length of the checksum at the beginning of each checkpoint file
_PACKAGE = "scarless."

MAX_BYTES_IN_PROCESS = 2**27  # A selection of rows is copied into this process if its X has at most this size.


class _StoredEntries:
    """A reference to stored entries, which are removed when the last engine that needs them is deleted."""

    _owners: ClassVar[Counter[str]] = Counter()

    def __init__(self, prefix: str, executor: Executor) -> None:
        self._owners[prefix] += 1
        weakref.finalize(self, self._disown, prefix, executor)

    @classmethod
    def _disown(cls, prefix: str, executor: Executor) -> None:
        cls._owners[prefix] -= 1
        if cls._owners[prefix] == 0:
            del cls._owners[prefix]
            executor.forget(f"{prefix}/")


class PartitionedEngine:
    """Engine over partitions. Each worker reads the partitions that it processes, and sends only its results.

    Sums are added in the order of the plan, so threads and clusters, with and without a cache, give identical results.
    """

    def __init__(self, plan: Plan, executor: Executor, cache: Cache, passes: "Passes | None" = None) -> None:
        self.plan, self.executor, self.cache, self.passes = plan, executor, cache, passes
        self.names: list[str] | None = list(plan.names)
        self.preparation = Preparation(Reading(plan.dtype, None))
        self._chain: tuple[Step, ...] = ()
        self._token = plan.key
        self._rows = range(plan.n_rows)
        self._stored: tuple[_StoredEntries, ...] = (_StoredEntries(plan.key, executor),)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    @property
    def n_columns(self) -> int:
        """Number of columns of X."""
        return len(self.plan.names)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the blocks."""
        return self.preparation.reading.dtype

    @property
    def units(self) -> Units | None:
        """Shift and scale of the columns for the solver; None if no column has to be shifted or scaled."""
        return self.preparation.reading.units

    def place_of(self, row: int) -> str:
        """Return the file and row group of a row, for error messages; "" if they are not known."""
        starts = [each.start for each in self.plan.partitions]
        partition = self.plan.partitions[bisect_right(starts, row) - 1]
        find = getattr(partition.source, "place_of", None)
        return "" if find is None else str(find(row - partition.start))

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field."""

        def compute() -> Any:
            return add_up(each for each in self._map(total_of, block_function, parameters) if each is not None)

        if self.passes is None:
            return compute()
        key = token_of(self._token, self.preparation, block_function, parameters)
        return self.passes.recall(key, compute)

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Apply ``row_function(X, rows, *parameters)`` to every block, and return the values of all rows in order."""
        found = [each for each in self._map(values_of, row_function, parameters) if each is not None]
        if into is None:
            return np.concatenate(found)
        start = 0
        for values in found:
            into[start : start + len(values)] = values
            start += len(values)
        return into

    def derive(
        self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False
    ) -> "PartitionedEngine":
        """Return an engine whose rows also have the values that ``row_function(X, rows, *parameters)`` returns."""
        preparation = self.preparation.and_derive(row_function, parameters)
        if not keep:
            return self._with_changes(preparation=preparation)
        token = token_of(self._token, preparation)
        return self._with_changes(
            preparation=Preparation(self.preparation.reading, self.preparation.converted),
            _chain=(*self._chain, KeepValues(preparation, token)),
            _token=token,
            _stored=(*self._stored, _StoredEntries(token, self.executor)),
        )

    def every(self, step: int, first: int = 0) -> Any:
        """Return an engine over every `step`-th row, starting at row `first`.

        A small selection is copied into this process, so that passes over it are fast.
        """
        rows = self._rows[first::step]
        token = token_of(self._token, step, first)
        chosen = SelectRows(rows.start, rows.step, token)
        selected = self._with_changes(_chain=(*self._chain, chosen), _token=token, _rows=rows)
        if len(rows) * self.n_columns * 8 > MAX_BYTES_IN_PROCESS:
            return selected
        return selected._in_memory()

    def read_as(self, reading: Reading) -> "PartitionedEngine":
        """Return an engine over the same rows, read with another precision and other units (shift and scale)."""
        return self._with_changes(preparation=Preparation(reading, derived=self.preparation.derived))

    def in_units(self) -> "PartitionedEngine":
        """Return an engine over the same rows whose columns are shifted and scaled by their units."""
        return self._with_changes(preparation=self.preparation.in_units())

    def _in_memory(self) -> InMemoryEngine:
        plain = self._with_changes(preparation=Preparation(Reading(self.plan.dtype, None)))
        found = [each for each in plain._map(rows_of) if each is not None]
        rows = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        engine = InMemoryEngine(rows.pop("X"), rows)
        return engine._with_changes(preparation=self.preparation, _first=self._rows.start, _step=self._rows.step)

    def _map(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        program = Program(self._chain, self.preparation, self.cache)
        return self.executor.map(task, program, self.plan.batches, arguments)

    def _with_changes(self, **changes: Any) -> "PartitionedEngine":
        engine = object.__new__(PartitionedEngine)
        vars(engine).update({**vars(self), **changes})
        return engine


# --- checkpoints: stored results of passes


class Passes:
    """Folder that stores the result of every pass over the rows, under a key that identifies the computation.

    A fit is a deterministic sequence of passes: the parameters of each pass follow from the results of earlier passes.
    A fit that is started again therefore finds the stored results and continues where it was interrupted. A file
    contains a checksum, arrays and a description of the arrays. Reading a file runs no code from it. If a file is
    damaged, its pass is computed again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recalled = self.computed = 0

    def recall(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return the stored result of a pass, or compute and store it."""
        path = self.folder / f"{key}.pass"
        if path.exists():
            try:
                found = unpacked(path.read_bytes(), key)
            except ValueError as error:
                warn_user(f"The checkpoint {path} {error}. This pass will be computed again.", UserWarning)
            else:
                self.recalled += 1
                return found
        found = compute()
        data = packed(found, key)
        if data is not None:
            write_whole(path, data)
        self.computed += 1
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "recalled": 0, "computed": 0}


def packed(value: Any, key: str) -> bytes | None:
    """Return a value as bytes, with a checksum of the value and its key; None if it cannot be stored.

    Values that can be stored consist of numbers, text, arrays, tuples, lists, and named tuples and dataclasses of this
    package.

    Examples
    --------
    >>> unpacked(packed((1.5, np.array([1, 2])), "key"), "key")
    (1.5, array([1, 2]))
    """
    arrays: list[Any] = []
    try:
        described = json.dumps(_described(value, arrays)).encode()
        buffer = io.BytesIO()
        if any(array.dtype.hasobject for array in arrays):
            return None
        np.savez(buffer, np.frombuffer(described, dtype=np.uint8), *arrays)
    except (TypeError, ValueError):  # The value contains other objects.
        return None
    content = buffer.getvalue()
    return _digest(content, key) + content


def unpacked(data: bytes, key: str) -> Any:
    """Return the value that was packed with a key; raise ValueError if the bytes are damaged."""
    content = data[DIGEST_BYTES:]
    if data[:DIGEST_BYTES] != _digest(content, key):
        raise ValueError("is damaged or was written by an older version of scarless")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            described, *arrays = (file[f"arr_{number}"] for number in range(len(file.files)))
        return _restored(json.loads(described.tobytes()), arrays)
    except Exception as error:  # For example, a class was renamed.
        raise ValueError(f"cannot be read by this version of scarless ({type(error).__name__})") from error


def _digest(content: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).digest()


def _described(value: Any, arrays: list[Any]) -> Any:
    """Return a value as JSON that refers to arrays by number; raise TypeError if it cannot be stored."""
    if value is None or type(value) in (bool, int, float, str):
        return {"plain": value}
    if isinstance(value, np.ndarray) and value.dtype == object:  # For example, labels that are text.
        return {"objects": [list(value.shape), [_described(each, arrays) for each in value.flat]]}
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "number": len(arrays) - 1}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_described(each, arrays) for each in value]}
    kind = type(value)
    if _is_ours(kind):
        held = value if isinstance(value, tuple) else [getattr(value, field.name) for field in fields(value)]
        return {"class": [kind.__module__, kind.__qualname__], "held": [_described(each, arrays) for each in held]}
    raise TypeError(f"{kind} cannot be stored")


def _restored(described: dict[str, Any], arrays: list[Any]) -> Any:
    """Return the value that `_described` has described."""
    if "class" in described:
        module, name = described["class"]
        kind: Any = getattr(import_module(module), name) if module.startswith(_PACKAGE) else None
        if not _is_ours(kind):
            raise ValueError("names a class that no pass returns")
        return kind(*(_restored(each, arrays) for each in described["held"]))
    ((kind, held),) = described.items()
    if kind in ("array", "number"):
        return arrays[held] if kind == "array" else arrays[held][()]
    if kind == "objects":
        objects = np.empty(held[0], dtype=object)
        for number, each in enumerate(held[1]):
            objects.flat[number] = _restored(each, arrays)
        return objects
    if kind in ("tuple", "list"):
        restored = [_restored(each, arrays) for each in held]
        return tuple(restored) if kind == "tuple" else restored
    return held


def _is_ours(kind: Any) -> bool:
    """Return whether a class is a named tuple or a dataclass of this package."""
    if not isinstance(kind, type) or not kind.__module__.startswith(_PACKAGE):
        return False
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
