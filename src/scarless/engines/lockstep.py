"""Several fits on the same rows of a device in lockstep: their passes over the rows are combined into one.

Each fit runs in its own thread. When a fit requests sums over its rows, it waits until all other fits have requested
sums or ended. Requests of the same kind are then computed in one pass (`scarless.numerics.batched`), and all others one
by one.

Each fit has its own damping, line search and stopping rule. Any fit that uses an engine can therefore run in lockstep:
folds, penalties, starts, resamples. Only one thread runs at a time, so the results are deterministic.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Thread, get_ident
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn import config_context, get_config

from scarless.engines.base import Engine
from scarless.engines.blas import BLAS
from scarless.engines.blocks import Reading, Units
from scarless.engines.device import DeviceEngine
from scarless.engines.fused import terms_for
from scarless.numerics.arrays import namespace_of
from scarless.numerics.batched import BatchObjective, with_ones
from scarless.numerics.objectives import Curvature, LogisticPair, TargetLogistic

Result = TypeVar("Result")

MAX_FITS_AT_ONCE = 256  # largest number of fits that run in lockstep; more fits are run in groups
# Products of columns up to this size are cached; larger ones are recomputed in every pass.
_MAX_CACHED_NUMBERS = 1 << 30
_MAX_CACHED_NUMBERS_ON_CPU = 1 << 25  # the same for tables in main memory
_MAX_PRODUCT_NUMBERS = 1 << 26  # largest size of the products of columns that are recomputed at a time
_MAX_ROWS_TIMES_PROBLEMS = 1 << 26  # largest number of rows, times problems, that are processed at a time


def in_lockstep(engines: Sequence[Engine], task: Callable[[int, Engine], Result]) -> list[Result]:
    """Return ``task(number, engine)`` for every engine; in lockstep if all are on a device, otherwise one by one.

    If tasks fail, the error of the first failed task is raised after all tasks have ended.
    """
    if len(engines) < 2 or not all(isinstance(engine, DeviceEngine) for engine in engines):
        return [task(number, engine) for number, engine in enumerate(engines)]
    results: list[Result] = []
    passes = _BatchedPasses(engines)
    for start in range(0, len(engines), MAX_FITS_AT_ONCE):
        run = _LockstepRun(passes)
        results += run.run_all(
            [(start + i, engine) for i, engine in enumerate(engines[start : start + MAX_FITS_AT_ONCE])], task
        )
    return results


def go_in_lockstep(engines: Sequence[Engine]) -> bool:
    """Return whether fits on these engines run in lockstep; such fits must not be sent to other processes."""
    return all(isinstance(engine, DeviceEngine | _LockstepEngine) for engine in engines)


class _SumRequest(NamedTuple):
    """A request of a fit for sums over its rows."""

    engine: DeviceEngine
    block_function: Callable[..., Any]
    parameters: tuple[Any, ...]

    @property
    def kind(self) -> tuple[Any, ...] | None:
        """Key that is equal for requests that one pass can compute; None for requests that cannot be combined."""
        objective, rows = getattr(self.block_function, "__self__", None), self.engine.rows
        if not isinstance(objective, LogisticPair | TargetLogistic) or self.block_function.__name__ != "sums":
            return None
        _, curvature = self.parameters
        designs = tuple(design.indices.tobytes() for design in objective.designs)
        targets = rows["s" if isinstance(objective, LogisticPair) else "t"]
        return id(self.engine.X), type(objective), designs, id(targets), curvature


class _RunCancelled(BaseException):
    """Raised in waiting threads if the run was cancelled; a `BaseException`, so that tasks do not catch it."""


class _LockstepRun:
    """Tasks that take turns: each runs until it requests sums or ends, and then the next one runs.

    If all threads ran at once, they would mostly wait for Python's global interpreter lock.
    """

    def __init__(self, passes: "_BatchedPasses") -> None:
        self.passes = passes
        self.turn_ended: SimpleQueue[None] = SimpleQueue()
        self.requests: dict[int, _SumRequest] = {}
        self.inboxes: dict[int, SimpleQueue[Any]] = {}
        self.thread_ids: dict[int, int] = {}  # thread of each task
        self.finished = False  # After the run, objects that outlive their task compute their sums themselves.
        self.cancelled = False

    def run_all(self, engines: list[tuple[int, Engine]], task: Callable[[int, Engine], Result]) -> list[Result]:
        """Run all tasks and return their results in order."""
        results: dict[int, Any] = {}
        config = get_config()

        def run_task(number: int, engine: Engine) -> None:
            self.thread_ids[number] = get_ident()
            try:
                with config_context(**config):  # scikit-learn's configuration is local to a thread.
                    results[number] = (True, task(number, _LockstepEngine(engine, self, number)))  # type: ignore[arg-type]
            except BaseException as error:  # It is raised again below.
                results[number] = (False, error)
            finally:
                self.turn_ended.put(None)

        self.inboxes = {number: SimpleQueue() for number, _ in engines}
        threads = [Thread(target=copy_context().run, args=(run_task, *each), daemon=True) for each in engines]
        with BLAS.on_one_thread():
            try:
                for thread in threads:
                    thread.start()
                    self.turn_ended.get()
                while self.requests:
                    self._serve_requests()
                self.finished = True
            finally:  # After an error or an interrupt, tasks may still wait, and one may run until its next request.
                self.cancelled = not self.finished
                for box in self.inboxes.values():
                    box.put(_RunCancelled())
                for thread in threads:
                    if thread.ident is not None:
                        thread.join()
        for number, _ in engines:
            if not results[number][0]:
                raise results[number][1]
        return [results[number][1] for number, _ in engines]

    def request(self, number: int, request: _SumRequest) -> Any:
        """Return the requested sums; wait until all tasks have made a request or ended."""
        if self.cancelled:
            raise _RunCancelled
        if self.finished or self.thread_ids[number] != get_ident():  # Threads started by a task do not take turns.
            return request.engine.total(request.block_function, *request.parameters)
        self.requests[number] = request
        self.turn_ended.put(None)
        return _value_or_raise(self.inboxes[number].get())

    def _serve_requests(self) -> None:
        """Compute the sums of all requests, and let the waiting tasks continue one after the other."""
        requests, self.requests = dict(sorted(self.requests.items())), {}
        for number, result in sorted(self.passes.sums(requests).items()):
            self.inboxes[number].put(result)
            self.turn_ended.get()


def _value_or_raise(result: Any) -> Any:
    if isinstance(result, BaseException):
        raise result
    return result


class _BatchedPasses:
    """Passes over the rows, each for several requests, with a cache for arrays that the requests share."""

    def __init__(self, engines: Sequence[Any]) -> None:
        self._cache: dict[Any, Any] = {}
        self._tables = {id(engine.X): engine.X for engine in engines}  # tables that the fits share

    def sums(self, requests: dict[int, _SumRequest]) -> dict[int, Any]:
        """Return the sums of each request, or the error that it raised."""
        by_kind: dict[Any, list[int]] = {}
        for number, request in requests.items():
            kind = request.kind
            by_kind.setdefault(("alone", number) if kind is None else kind, []).append(number)
        found: dict[int, Any] = {}
        for numbers in by_kind.values():
            same_kind = [requests[number] for number in numbers]
            found |= zip(numbers, self._sums_of(same_kind), strict=True)
        return found

    def _sums_of(self, requests: list[_SumRequest]) -> list[Any]:
        if len(requests) > 1:
            return self._batched(requests)
        engine, block_function, parameters = requests[0]
        try:
            return [engine.total(block_function, *parameters)]
        except Exception as error:  # It is raised in the thread of the request.
            return [error]

    def _batched(self, requests: list[_SumRequest]) -> list[Any]:
        engine, block_function, (_, curvature) = requests[0]
        objective: Any = getattr(block_function, "__self__", None)
        batch = BatchObjective.of(objective, engine.n_columns)
        X, xp = self._cached(("rows", id(engine.X)), engine.X, with_ones, engine.X), namespace_of(engine.X)
        with_products = curvature in (Curvature.EXPECTED, Curvature.OBSERVED)
        products = tuple(self._products(engine.X, X, pairs) for pairs in batch.pairs) if with_products else ()
        weights = [request.engine.rows["w"] for request in requests]
        lines = self._cached(("weights", *map(id, weights)), weights, lambda: xp.stack(weights))
        targets = engine.rows["s" if isinstance(objective, LogisticPair) else "t"]
        betas, terms = np.stack([request.parameters[0] for request in requests]), terms_for(engine.X)
        formed = sum(len(pairs.first) for pairs, own in products if own is None)
        size = max(1, min(_MAX_ROWS_TIMES_PROBLEMS // len(requests), _MAX_PRODUCT_NUMBERS // max(1, formed)))
        totals = None
        for start in range(0, engine.n_rows, size):
            part = slice(start, min(start + size, engine.n_rows))
            given = tuple(each.columns(X[part, :]) if own is None else own[part, :] for each, own in products)
            sums = batch.sums(X[part, :], given, (targets[part], lines[:, part]), betas, curvature, terms)
            totals = sums if totals is None else tuple(a + b for a, b in zip(totals, sums, strict=True))
        return batch.split_by_problem(totals or (), curvature)

    def in_units(self, engine: DeviceEngine) -> DeviceEngine:
        """Return an engine whose columns are converted to their units; a table that fits share is converted once.

        A sample of the rows belongs to one fit and is not cached.
        """
        if engine.units is None or id(engine.X) not in self._tables:
            return engine.in_units()
        key = ("units", id(engine.X), id(engine.units))
        X = self._cached(key, (engine.X, engine.units), lambda: engine.in_units().X)
        return replace(engine, X=X, reading=Reading(engine.dtype, None))

    def _products(self, table: Any, X: Any, pairs: Any) -> tuple[Any, Any]:
        """Return pairs of columns with their products; the products are None if they are too large for the cache."""
        on_cpu = "cpu" in str(X.device).lower()
        if len(pairs.first) * X.shape[0] > (_MAX_CACHED_NUMBERS_ON_CPU if on_cpu else _MAX_CACHED_NUMBERS):
            return pairs, None
        return pairs, self._cached(("products", id(table), id(pairs)), (table, pairs), pairs.columns, X)

    def _cached(self, key: Any, of: Any, function: Callable[..., Any], *parameters: Any) -> Any:
        """Return the cached value of a function. The cache keeps `of` alive, because the key contains its `id`."""
        if key[0] == "weights" and key not in self._cache:  # Weights of earlier passes are no longer needed.
            self._cache = {other: kept for other, kept in self._cache.items() if other[0] != "weights"}
        if key not in self._cache:
            self._cache[key] = (of, function(*parameters))
        return self._cache[key][1]


@dataclass(frozen=True)
class _LockstepEngine:
    """An engine on a device that requests its sums from a lockstep run."""

    engine: DeviceEngine
    run: _LockstepRun
    number: int

    @property
    def n_rows(self) -> int:
        return self.engine.n_rows

    @property
    def n_columns(self) -> int:
        return self.engine.n_columns

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.engine.dtype

    @property
    def units(self) -> Units | None:
        return self.engine.units

    @property
    def flat_rows(self) -> int:
        return self.engine.flat_rows

    @property
    def X(self) -> Any:
        return self.engine.X

    def total(self, block_function: Callable[..., Any], *parameters: Any) -> Any:
        return self.run.request(self.number, _SumRequest(self.engine, block_function, parameters))

    def derive(self, row_function: Callable[..., dict[str, Any]], *parameters: Any, keep: bool = False) -> Any:
        return self._with(self.engine.derive(row_function, *parameters, keep=keep))

    def collect(self, row_function: Callable[..., Any], *parameters: Any, into: Any = None) -> Any:
        return self.engine.collect(row_function, *parameters, into=into)

    def every(self, step: int, first: int = 0) -> Any:
        return self._with(self.engine.every(step, first))

    def read_as(self, reading: Reading) -> Any:
        return self._with(self.engine.read_as(reading))

    def in_units(self) -> Any:
        return self._with(self.run.passes.in_units(self.engine))

    def _with(self, engine: Engine) -> Any:
        return replace(self, engine=engine) if isinstance(engine, DeviceEngine) else engine
