"""Who walks the partitions: threads here, or a cluster that is there already."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Protocol

from scarless.engines.blas import BLAS
from scarless.scale.chains import Part, Program
from scarless.scale.store import STORE

Task = Callable[..., Any]
Lane = tuple[Part, ...]


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
