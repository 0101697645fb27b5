"""Who walks the partitions: threads here, or a cluster of Dask's or Ray's that is there already.

Dask's protocol executes pickles: whoever can reach a scheduler or a worker can run code there, and a scheduler can run
code here. Keep it inside a network that you trust, or use TLS with certificates on all sides: hand over a client that
was made with ``security=distributed.Security(require_encryption=True, tls_ca_file=..., tls_client_cert=...,
tls_client_key=...)``, or say the same in Dask's configuration (``distributed.comm``), which a mere address follows. Ray
executes pickles, too: trust the network, or turn on its TLS (``RAY_USE_TLS=1``, with certificates).
"""

import asyncio
import ctypes
import operator
import os
import pickle
import sys
import uuid
import weakref
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, Protocol

from scarless.engines.blas import BLAS
from scarless.outside.extras import need
from scarless.scale.partitions import STORE, Part, Program

ACTORS_TRIED = 5  # actors that may end over the same partitions in one pass

DASK = "dask"
SECONDS_BETWEEN_LOOKS = 0.5  # seconds between two looks at who is alive
PAUSED_SECONDS = 10.0  # seconds after which a worker that Dask has paused, near its memory limit, is not waited for
TASKS_PER_THREAD = 4  # in a pass, for each thread of a worker: enough to even out, and each costs milliseconds
WORKERS_TRIED = 5  # workers that may end over the same partitions in one pass
LARGE_BYTES = 2**20  # bytes of parameters that are sent beside the tasks, and not in them
CACHED_SHARE_OF_LIMIT = 0.7  # of a worker's memory limit, less what it needs beside rows
BYTES_BESIDE_ROWS = 4 * 10**8
TIGHT_SHARE_OF_LIMIT = 0.6  # of a worker's memory limit
_HOW_TO_GO_ON = "with checkpoint=folder that goes on after the last pass that was finished"
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
    address of a Dask scheduler, or `DaskWorkers` with other times to wait; "ray".
    """
    if scheduler is None:
        scheduler = _present()
    if isinstance(scheduler, str) and scheduler == "threads":
        return Threads()
    if isinstance(scheduler, str) and scheduler == "ray":
        found: Executor = import_module("scarless.scale.executors").RayActors()
    else:
        found = DaskWorkers.of(scheduler)
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


# --- workers of a Dask cluster


class DaskWorkers:
    """The workers of a Dask cluster; each run of partitions is walked by the same one in every pass.

    So what a worker has decoded stays there and is used again; partitions are never shipped. Workers may end and join
    at any time: what one had is done again by another, with the same bits.

    Parameters
    ----------
    client : distributed.Client
        A client that is not asynchronous. Its protocol executes pickles: trust the network, or use TLS.
    patience : float, default=300
        Seconds to wait for a worker where there is none, before giving up.
    silence : float, default=15
        Seconds after which a scheduler that does not answer is taken for gone.
    """

    def __init__(self, client: Any, *, patience: float = 300.0, silence: float = 15.0) -> None:
        if client.asynchronous:
            raise ValueError("The Dask client is asynchronous, and fits are not: pass Client(..., asynchronous=False).")
        self.client, self.patience, self.silence = client, patience, silence
        self.homes: dict[str, str] = {}  # workers by the runs of partitions that they walk
        self.paused: dict[str, float] = {}  # workers that take no tasks for now, and since when

    @classmethod
    def of(cls, scheduler: Any) -> "DaskWorkers":
        """Return the workers of a client, or those of the scheduler at some address."""
        distributed = need("distributed", "A Dask scheduler", DASK)
        if isinstance(scheduler, cls):
            return scheduler
        if isinstance(scheduler, distributed.Client):
            return cls(scheduler)
        if not isinstance(scheduler, str):
            raise TypeError(
                'scheduler must be "threads", "ray", a Dask client or the address of a Dask scheduler such as '
                f'"tcp://host:8786"; got {type(scheduler).__name__}.'
            )
        try:
            client = distributed.Client(scheduler, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(
                f"No Dask scheduler answers at {scheduler!r} ({_line(error)}). Expected an address such as "
                '"tcp://host:8786", where `dask scheduler` is running.'
            ) from error
        made = cls(client)
        weakref.finalize(made, _close, client).atexit = False  # with the process it ends by itself
        return made

    def map(self, task: Task, program: Program, lanes: list[Lane], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, lane, *arguments)`` of every lane, in their order."""
        payload = pickle.dumps(_Closed(need("cloudpickle", "Dask", DASK).dumps((task, program, arguments))))
        walk = _Pass(self, f"scarless-{task.__name__}", payload, lanes)
        if self.client.status in ("closing", "closed"):
            raise ClusterError(
                "The Dask client was closed before the rows were walked; keep it open for the whole fit."
            )
        return [pickle.loads(each) for each in self.client.sync(walk.results)]

    def forget(self, prefix: str) -> None:
        """Let all workers let go of what is stored under keys that begin so; sent at once, and nobody waits for it."""
        with suppress(RuntimeError):  # a loop that has ended: then so has the client
            self.client.loop.add_callback(_let_go, self.client, prefix)

    async def living(self) -> dict[str, int]:
        """Return the workers that take tasks, each with its number of threads."""
        deadline = monotonic() + self.silence
        while (left := deadline - monotonic()) > 0 and self.client.scheduler is not None:
            with suppress(OSError, TimeoutError, asyncio.TimeoutError):
                return await asyncio.wait_for(self._asked(), left)
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        raise ClusterError(
            f"The Dask scheduler has not answered for {self.silence:g} seconds: it has ended, or cannot be reached. "
            f"Start it again and fit once more; {_HOW_TO_GO_ON}."
        )

    async def _asked(self) -> dict[str, int]:
        there = await self.client.scheduler.ncores()
        running = await self.client.scheduler.ncores_running()
        now = monotonic()
        self.paused = {worker: self.paused.get(worker, now) for worker in there if worker not in running}
        weary = {worker for worker, since in self.paused.items() if now - since > PAUSED_SECONDS}
        return {worker: there[worker] for worker in sorted(there) if there[worker] and worker not in weary}

    async def some_living(self) -> dict[str, int]:
        """Return the workers that take tasks; wait for one where there is none."""
        deadline = monotonic() + self.patience
        while not (workers := await self.living()):
            if monotonic() > deadline:
                raise ClusterError(
                    f"No Dask worker took tasks for {self.patience:g} seconds: all have ended, or are paused for want "
                    f"of memory. Start workers, or give them more memory, and fit once more; {_HOW_TO_GO_ON}."
                )
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        return workers


class _Sent(NamedTuple):
    """Some lanes, by number, that a worker has to walk in one task."""

    numbers: list[int]
    worker: str
    future: Any


class _Pass:
    """One pass over all lanes, watched until each has its result."""

    def __init__(self, cluster: DaskWorkers, name: str, payload: bytes, lanes: list[Lane]) -> None:
        self.cluster, self.client, self.name, self.payload, self.lanes = cluster, cluster.client, name, payload, lanes
        self.sent: list[_Sent] = []
        self.tries: Counter[int] = Counter()

    async def results(self) -> list[bytes]:
        """Return the results of all lanes as pickles, in their order."""
        while True:
            await self._send_the_rest()
            gathering = asyncio.ensure_future(self._gathered())
            try:
                await self._watch(gathering)
                error = gathering.exception() if gathering.done() and not gathering.cancelled() else None
                if error is None and gathering.done() and (found := gathering.result()) is not None:
                    return found
            finally:
                gathering.cancel()
            if error is not None and not isinstance(error, OSError):
                raise error

    async def _gathered(self) -> list[bytes] | None:
        """Return the results, or None where some are not to be had."""
        found = await self.client.gather([each.future for each in self.sent], errors="skip", asynchronous=True)
        numbers = [number for each in self.sent for number in each.numbers]
        if len(found) < len(self.sent) or len(numbers) < len(self.lanes):
            return None
        by_number = dict(zip(numbers, (one for some in found for one in some), strict=True))
        return [by_number[number] for number in range(len(self.lanes))]

    async def _send_the_rest(self) -> None:
        """Send every lane that nobody has to the worker that had it before, or to one with room for it."""
        workers = await self.cluster.some_living()
        keys = [lane[0].key for lane in self.lanes]
        self.cluster.homes.update(deal(keys, self.cluster.homes, workers))
        under_way = {number for each in self.sent for number in each.numbers}
        waiting: dict[str, list[int]] = {}
        for number in sorted(set(range(len(keys))) - under_way):
            waiting.setdefault(self.cluster.homes[keys[number]], []).append(number)
        for worker, numbers in waiting.items():
            self.tries.update(numbers)
            self.sent += await self._sent_to(worker, numbers, TASKS_PER_THREAD * workers[worker])

    async def _sent_to(self, worker: str, numbers: list[int], n_tasks: int) -> list[_Sent]:
        only = {"workers": [worker], "allow_other_workers": False, "pure": False}  # such tasks are never stolen
        name = f"{self.name}-{uuid.uuid4().hex}"
        payload = self.payload if len(self.payload) <= LARGE_BYTES else await self._scattered(worker)
        if payload is None:
            self._check_tries(numbers)
            return []
        opened = self.client.submit(pickle.loads, payload, key=f"{name}-opened", **only)
        shares = [numbers[first::n_tasks] for first in range(min(n_tasks, len(numbers)))]
        lanes = [pickle.dumps([self.lanes[number] for number in share]) for share in shares]
        names = [f"{name}-{first}" for first in range(len(shares))]
        futures = self.client.map(operator.call, [opened] * len(lanes), lanes, key=names, **only)
        return [_Sent(share, worker, future) for share, future in zip(shares, futures, strict=True)]

    async def _scattered(self, worker: str) -> Any:
        """Return a future of the payload in some worker; None where that is gone."""
        sending = asyncio.ensure_future(
            self.client.scatter(self.payload, workers=[worker], hash=False, asynchronous=True)
        )
        while not sending.done():
            await asyncio.wait({sending}, timeout=SECONDS_BETWEEN_LOOKS)
            if not sending.done() and worker not in await self.cluster.living():
                sending.cancel()
                return None
        return None if sending.cancelled() or sending.exception() else sending.result()

    async def _watch(self, gathering: Any) -> None:
        """Wait for the results, or until some of them are known not to come."""
        while not gathering.done():
            await asyncio.wait({gathering}, timeout=SECONDS_BETWEEN_LOOKS)
            living = None if gathering.done() else await self.cluster.living()
            if await self._lose(living):
                return

    async def _lose(self, living: dict[str, int] | None) -> bool:
        """Raise what a task raised; else give up the tasks that ended with their worker or with the connection."""
        killed = need("distributed", "Dask", DASK).KilledWorker
        for each in self.sent:
            if each.future.status == "error" and not isinstance(error := await each.future.exception(), killed):
                raise error
        lost = [
            each
            for each in self.sent
            if each.future.status in ("error", "cancelled", "lost")
            or (living is not None and each.worker not in living)
        ]
        self.sent = [each for each in self.sent if each not in lost]
        self._check_tries([number for each in lost for number in each.numbers])
        return bool(lost)

    def _check_tries(self, lost: list[int]) -> None:
        tired = [number for number in lost if self.tries[number] >= WORKERS_TRIED]
        if tired:
            source = self.lanes[tired[0]][0].source
            raise ClusterError(
                f"{WORKERS_TRIED} Dask workers, one after the other, ended or were paused while they walked partitions "
                f"such as those of {getattr(source, 'path', source)}. Most likely they ran out of memory: give workers "
                "more of it, or let them have less at once, with a smaller memory= and files with smaller row groups."
            )


def deal(lanes: list[str], homes: dict[str, str], workers: dict[str, int]) -> dict[str, str]:
    """Return a worker for each lane: the one that it had, as long as that lives and has no more than its share.

    `workers` have so many threads each, and get lanes in proportion.
    """
    total = sum(workers.values())
    room = {worker: -(-len(lanes) * threads // total) for worker, threads in workers.items()}
    found = {}
    for lane in lanes:
        if room.get(home := homes.get(lane, ""), 0) > 0:
            found[lane] = home
            room[home] -= 1
    for lane in lanes:
        if lane not in found:
            found[lane] = max(room, key=lambda worker: room[worker] / workers[worker])
            room[found[lane]] -= 1
    return found


class _Opened:
    """What a pass is about, where it is walked: once for each worker and pass."""

    def __init__(self, payload: bytes) -> None:
        use_memory_again()
        self.worker = need("distributed", "Dask", DASK).get_worker()
        self.limit = self.worker.memory_manager.memory_limit or 0
        self.task, program, self.arguments = pickle.loads(payload)
        if self.limit:  # Dask pauses a worker at 0.8 of it, and ends it at 0.95
            memory = min(program.cache.memory, max(0, int(CACHED_SHARE_OF_LIMIT * self.limit) - BYTES_BESIDE_ROWS))
            program = program._replace(cache=replace(program.cache, memory=memory))
        self.program: Program = program

    def __call__(self, lanes: bytes) -> list[bytes]:
        """Return the results of some lanes as pickles: arrays that Dask itself moves arrive misaligned."""
        dumps = need("cloudpickle", "Dask", DASK).dumps
        found = [dumps(self.task(self.program, lane, *self.arguments)) for lane in pickle.loads(lanes)]
        if self.limit and self.worker.monitor.get_process_memory() > TIGHT_SHARE_OF_LIMIT * self.limit:
            give_memory_back()  # else a worker that is paused for want of it would stay so
        return found


class _Closed(NamedTuple):
    """What a pass is about on its way: its pickle is opened by loading it.

    So tasks name functions of Python's own library alone, and the scheduler, which reads them, imports nothing of
    ours: that takes seconds, in which it would not answer.
    """

    payload: bytes

    def __reduce__(self) -> Any:
        return _Opened, (self.payload,)


def _forget(prefix: str) -> None:
    STORE.forget(prefix)


async def _let_go(client: Any, prefix: str) -> None:
    with suppress(Exception):  # workers that are gone have let go
        await client.run(_forget, prefix, on_error="ignore")


def _close(client: Any) -> None:
    """Close a client without waiting for it: this may be called anywhere, also in its own thread."""
    with suppress(RuntimeError):  # the process is about to end
        Thread(target=client.close, name="scarless-close-dask-client").start()


def _line(error: BaseException) -> str:
    return str(error).split("\n", maxsplit=1)[0][:200]
