"""Who walks the partitions: threads here, or a cluster that is there already."""

import ctypes
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from scarless.engines.blas import BLAS
from scarless.scale.chains import Part, Program
from scarless.scale.store import STORE

Task = Callable[..., Any]
Lane = tuple[Part, ...]
_AS_GLIBC_LEARNS = {-1: 2**26, -3: 2**25}  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, in bytes


class ClusterError(ConnectionError):
    """The cluster is gone, or nobody is left in it to do the work."""


class Executor(Protocol):
    """Applies a task to every run of partitions."""

    def map(self, task: Task, program: Program, lanes: list[Lane], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, lane, *arguments)`` of every lane, in their order."""
        ...

    def forget(self, prefix: str) -> None:
        """Let go, wherever it is, of what is stored under keys that begin so: nobody will ask for it again."""
        ...


class Threads:
    """Threads of this process; by default as many as BLAS may use at this moment, so limits of the caller are kept."""

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or BLAS.threads()

    def map(self, task: Task, program: Program, lanes: list[Lane], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, lane, *arguments)`` of every lane, in their order."""
        if self.n_threads == 1 or len(lanes) == 1:
            return [task(program, lane, *arguments) for lane in lanes]
        with BLAS.on_one_thread(), ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(lambda lane: task(program, lane, *arguments), lanes))

    def forget(self, prefix: str) -> None:
        """Let go of what is stored under keys that begin so."""
        STORE.forget(prefix)


def find_executor(scheduler: Any = None) -> Executor:
    """Return who walks the partitions.

    None: the Dask client or the Ray session that this process already has, else threads. "threads"; a Dask client, the
    address of a Dask scheduler, or `scarless.scale.dask.DaskWorkers` with other times to wait; "ray".
    """
    if scheduler is None:
        scheduler = _present()
    if isinstance(scheduler, str) and scheduler == "threads":
        return Threads()
    if isinstance(scheduler, str) and scheduler == "ray":
        found: Executor = import_module("scarless.scale.ray").RayActors()
    else:
        found = import_module("scarless.scale.dask").DaskWorkers.of(scheduler)
    return found


def _present() -> Any:
    """Return the Dask client of this process, "ray" where a session is open, or "threads"."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            return distributed.get_client()
        except ValueError:
            pass
    ray = sys.modules.get("ray")
    return "ray" if ray is not None and ray.is_initialized() else "threads"


@cache
def use_memory_again() -> None:
    """Let freed memory stay with a worker's process, up to 64 MB, as it would without MALLOC_TRIM_THRESHOLD_.

    With it every block's arrays go back to the system and come again page by page. Dask sets it for its workers, and a
    Dask cluster in one process leaves it in the environment of everything that is started from there: Ray's actors too.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        for option, value in _AS_GLIBC_LEARNS.items():
            _ask_glibc("mallopt", option, value)


def give_memory_back() -> None:
    """Give what is free back to the system."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    _ask_glibc("malloc_trim", 0)


def _ask_glibc(function: str, *arguments: int) -> None:
    with suppress(OSError, AttributeError, TypeError):  # of a system without it
        getattr(ctypes.CDLL(None), function)(*arguments)
