"""Rows in partitions that need not fit into memory, walked by threads, by a Dask cluster or by Ray."""

import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scarless.engines.base import Sums
from scarless.engines.blocks import Preparation, add_up
from scarless.engines.memory import InMemoryEngine
from scarless.engines.units import Reading, Units
from scarless.scale.chains import Keep, Link, Program, Select, token_of
from scarless.scale.checkpoints import Passes
from scarless.scale.executors import Executor
from scarless.scale.plan import Plan
from scarless.scale.store import Cache
from scarless.scale.tasks import rows_of, total_of, values_of

_HOME = 2**27  # bytes of X that a part of the rows may have to be brought into this process


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

    def __init__(self, plan: Plan, executor: Executor, cache: Cache, passes: Passes | None = None) -> None:
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
        if len(rows) * self.n_columns * 8 > _HOME:
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
