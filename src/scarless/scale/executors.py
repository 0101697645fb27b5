"""Who walks the partitions: threads here, or a cluster that is there already.

Ray executes pickles, as Dask does: trust the network, or turn on its TLS (``RAY_USE_TLS=1``, with certificates). What
is known of Dask's clusters is in `scarless.scale.dask`.
"""

import ctypes
import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from scarless.engines.blas import BLAS
from scarless.scale.partitions import STORE, Part, Program

ACTORS_TRIED = 5  # actors that may end over the same partitions in one pass

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
        found: Executor = import_module("scarless.scale.executors").RayActors()
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


# --- actors of a Ray session


class _Walker:
    """What lives in an actor: what a pass is about. What was decoded lives in the actor's process."""

    def begin(self, payload: bytes) -> None:
        use_memory_again()
        self.task, self.program, self.arguments = pickle.loads(payload)

    def walk(self, lane: Lane) -> Any:
        return self.task(self.program, lane, *self.arguments)

    def forget(self, prefix: str) -> None:
        STORE.forget(prefix)


class RayActors:
    """One actor for each CPU of the session; runs of partitions are dealt to them in turn, the same in every pass.

    They end with this object. They do not reserve CPUs, so that two fits at once do not wait for each other for ever.
    """

    def __init__(self) -> None:
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise ImportError('scheduler="ray" needs ray: pip install ray.') from error
        if not ray.is_initialized():
            raise ClusterError('scheduler="ray" needs a Ray session, and there is none: call ray.init(...) first.')
        self.ray = ray
        self._kind: Any = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(_Walker)
        self.actors = [self._kind.remote() for _ in range(max(1, int(ray.cluster_resources().get("CPU", 1))))]

    def map(self, task: Task, program: Program, lanes: list[Lane], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, lane, *arguments)`` of every lane, in their order."""
        payload = self.ray.put(self.ray.cloudpickle.dumps((task, program, arguments)))
        found: dict[int, Any] = {}
        for _ in range(ACTORS_TRIED):
            self._walk(payload, {number: lane for number, lane in enumerate(lanes) if number not in found}, found)
            if len(found) == len(lanes):
                return [found[number] for number in sorted(found)]
        raise ClusterError(
            f"{ACTORS_TRIED} Ray actors, one after the other, ended while they walked the same partitions. Most likely "
            "they ran out of memory: give the session more of it, or let them have less at once, by a smaller memory=."
        )

    def forget(self, prefix: str) -> None:
        """Let all actors let go of what is stored under keys that begin so; nobody waits for it."""
        for actor in self.actors if self.ray.is_initialized() else ():
            actor.forget.remote(prefix)

    def _walk(self, payload: Any, waiting: dict[int, Lane], found: dict[int, Any]) -> None:
        """Add what can be had of the lanes that wait; put new actors in the place of those that have ended."""
        actor_of = {number: number % len(self.actors) for number in waiting}
        for actor in set(actor_of.values()):
            self.actors[actor].begin.remote(payload)  # an actor does what it is told in this order
        asked = {number: self.actors[actor_of[number]].walk.remote(lane) for number, lane in waiting.items()}
        errors, ended = self.ray.exceptions, set()
        for number, future in asked.items():
            try:
                found[number] = self.ray.get(future)
            except errors.RayTaskError as error:
                raise error.cause from None
            except (errors.RayActorError, errors.ObjectLostError):
                ended.add(actor_of[number])
        for actor in ended:
            self.actors[actor] = self._kind.remote()
