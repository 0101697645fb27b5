"""Rows in partitions that need not fit into memory, walked by threads, by a Dask cluster or by Ray.

Passes over the rows can be remembered: a fit that was interrupted asks for the same sums again, and finds them.
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
from scarless.scale.partitions import Cache, Keep, Link, Plan, Program, Select, rows_of, token_of, total_of, values_of

DIGEST_BYTES = hashlib.sha256().digest_size  # bytes at the beginning of each file
_PACKAGE = "scarless."

MOST_BYTES_AT_HOME = 2**27  # bytes of X that a part of the rows may have to be brought into this process


class _Owned:
    """What is stored because of some engine; when the last engine that needs it is gone, so is this."""

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
    """An engine over partitions, each of which is loaded where it is walked, and never shipped.

    Sums are added up in the plan's order, so that threads and clusters, with and without a cache, give the same bits.
    """

    def __init__(self, plan: Plan, executor: Executor, cache: Cache, passes: "Passes | None" = None) -> None:
        self.plan, self.executor, self.cache, self.passes = plan, executor, cache, passes
        self.names: list[str] | None = list(plan.names)
        self.preparation = Preparation(Reading(plan.dtype, None))
        self._chain: tuple[Link, ...] = ()
        self._token = plan.key
        self._rows = range(plan.n_rows)
        self._owned: tuple[_Owned, ...] = (_Owned(plan.key, executor),)

    @property
    def n_rows(self) -> int:
        """Number of rows held."""
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
        """How a solver should see the columns; None where they are fit for products as they are."""
        return self.preparation.reading.units

    def place_of(self, row: int) -> str:
        """Return where a row of the table lies, in words for an error: a file and its row group; "" if nobody knows."""
        starts = [part.start for part in self.plan.parts]
        part = self.plan.parts[bisect_right(starts, row) - 1]
        find = getattr(part.source, "place_of", None)
        return "" if find is None else str(find(row - part.start))

    def total(self, block_function: Callable[..., Sums], *parameters: Any) -> Sums:
        """Return the sum over blocks of ``block_function(X, rows, *parameters)``, field by field."""

        def walk() -> Any:
            return add_up(each for each in self._map(total_of, block_function, parameters) if each is not None)

        if self.passes is None:
            return walk()
        key = token_of(self._token, self.preparation, block_function, parameters)
        return self.passes.recall(key, walk)

    def collect(self, row_function: Callable[..., NDArray[Any]], *parameters: Any, into: Any = None) -> Any:
        """Return ``row_function(X, rows, *parameters)`` of every block, joined in row order."""
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
        """Return an engine whose blocks also have the values of ``row_function(X, rows, *parameters)``, by name."""
        preparation = self.preparation.and_derive(row_function, parameters)
        if not keep:
            return self._but(preparation=preparation)
        token = token_of(self._token, preparation)
        return self._but(
            preparation=Preparation(self.preparation.reading, self.preparation.converted),
            _chain=(*self._chain, Keep(preparation, token)),
            _token=token,
            _owned=(*self._owned, _Owned(token, self.executor)),
        )

    def every(self, step: int, first: int = 0) -> Any:
        """Return an engine over every `step`-th row from the `first` on, with the values of these rows.

        Where they are few they are brought into this process: a pass over them is then quick.
        """
        rows = self._rows[first::step]
        token = token_of(self._token, step, first)
        chosen = Select(rows.start, rows.step, token)
        part = self._but(_chain=(*self._chain, chosen), _token=token, _rows=rows)
        if len(rows) * self.n_columns * 8 > MOST_BYTES_AT_HOME:
            return part
        return part._brought_home()

    def read_as(self, reading: Reading) -> "PartitionedEngine":
        """Return an engine over the same rows that reads its blocks in some precision, and knows the columns' units."""
        return self._but(preparation=Preparation(reading, derived=self.preparation.derived))

    def in_units(self) -> "PartitionedEngine":
        """Return an engine over the same rows whose columns are in their units."""
        return self._but(preparation=self.preparation.in_units())

    def _brought_home(self) -> InMemoryEngine:
        plain = self._but(preparation=Preparation(Reading(self.plan.dtype, None)))
        found = [each for each in plain._map(rows_of) if each is not None]
        rows = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
        home = InMemoryEngine(rows.pop("X"), rows)
        return home._but(preparation=self.preparation, _first=self._rows.start, _step=self._rows.step)

    def _map(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        program = Program(self._chain, self.preparation, self.cache)
        return self.executor.map(task, program, self.plan.lanes, arguments)

    def _but(self, **changes: Any) -> "PartitionedEngine":
        engine = object.__new__(PartitionedEngine)
        vars(engine).update({**vars(self), **changes})
        return engine


# --- passes that are remembered


class Passes:
    """A folder with the result of every pass over the rows, by what was asked.

    A fit is the same sequence of passes whenever it is started: each asks for sums at parameters that follow from the
    sums before. So what was computed is found again, to the bit, and the fit goes on where it ended. A file holds a
    checksum, then plain arrays and their description: reading one runs no code, and a damaged one is computed again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recalled = self.computed = 0

    def recall(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return what a pass gave before, or compute and keep it."""
        path = self.folder / f"{key}.pass"
        if path.exists():
            try:
                found = unpacked(path.read_bytes(), key)
            except ValueError as error:
                warn_user(f"The checkpoint {path} {error}. This pass over the rows is computed again.", UserWarning)
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
    """Return a value as bytes, with a checksum of it and its key; None where it is no plain data.

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
    except (TypeError, ValueError):  # of what holds objects
        return None
    content = buffer.getvalue()
    return _digest(content, key) + content


def unpacked(data: bytes, key: str) -> Any:
    """Return what was packed under a key; raise ValueError where the bytes are not these."""
    content = data[DIGEST_BYTES:]
    if data[:DIGEST_BYTES] != _digest(content, key):
        raise ValueError("is damaged, or was written by an older version of scarless")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            described, *arrays = (file[f"arr_{number}"] for number in range(len(file.files)))
        return _made(json.loads(described.tobytes()), arrays)
    except Exception as error:  # e.g. a class that this version no longer has
        raise ValueError(f"cannot be read by this version of scarless ({type(error).__name__})") from error


def _digest(content: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).digest()


def _described(value: Any, arrays: list[Any]) -> Any:
    """Return a value as JSON that refers to arrays by number; raise TypeError where that cannot be."""
    if value is None or type(value) in (bool, int, float, str):
        return {"plain": value}
    if isinstance(value, np.ndarray) and value.dtype == object:  # e.g. labels that are texts
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
    raise TypeError(f"{kind} is no plain data")


def _made(said: dict[str, Any], arrays: list[Any]) -> Any:
    """Return the value that was described."""
    if "class" in said:
        module, name = said["class"]
        kind: Any = getattr(import_module(module), name) if module.startswith(_PACKAGE) else None
        if not _is_ours(kind):
            raise ValueError("names a class that no pass returns")
        return kind(*(_made(each, arrays) for each in said["held"]))
    ((kind, held),) = said.items()
    if kind in ("array", "number"):
        return arrays[held] if kind == "array" else arrays[held][()]
    if kind == "objects":
        objects = np.empty(held[0], dtype=object)
        for number, each in enumerate(held[1]):
            objects.flat[number] = _made(each, arrays)
        return objects
    if kind in ("tuple", "list"):
        made = [_made(each, arrays) for each in held]
        return tuple(made) if kind == "tuple" else made
    return held


def _is_ours(kind: Any) -> bool:
    """Whether a class is a named tuple or a dataclass of this package."""
    if not isinstance(kind, type) or not kind.__module__.startswith(_PACKAGE):
        return False
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
