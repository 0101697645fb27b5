"""Executors, which process batches of partitions: threads of this process, or an existing cluster of Dask or Ray.

Dask sends pickles, and reading a pickle can run code. Anyone who can reach a scheduler or a worker can therefore run
code there, and a scheduler can run code in this process. Use Dask only in a network that you trust, or use TLS with
certificates for the scheduler, the workers and the client. To use TLS, pass a client made with
``security=distributed.Security(require_encryption=True, tls_ca_file=..., tls_client_cert=..., tls_client_key=...)``. If
you pass an address, set the same options in Dask's configuration (``distributed.comm``). Ray sends pickles, too: use it
only in a network that you trust, or turn on its TLS (``RAY_USE_TLS=1``, with certificates).
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
from scarless.scale.partitions import STORE, Batch, Program

MAX_ACTORS_PER_BATCH = 5  # a pass fails if this many actors in a row end during the same batch

DASK = "dask"
SECONDS_BETWEEN_CHECKS = 0.5  # time between two checks for workers that have ended
MAX_PAUSED_SECONDS = 10.0  # Dask pauses workers near their memory limit; then other workers get their tasks
TASKS_PER_THREAD = 4  # enough tasks to balance the load, but few, because each costs milliseconds
MAX_WORKERS_PER_BATCH = 5  # a pass fails if this many workers in a row end during the same batch
MIN_SCATTERED_BYTES = 2**20  # parameters larger than this are sent once to each worker, not with every task
CACHE_SHARE_OF_LIMIT = 0.7  # share of a worker's memory limit for decoded rows, before OTHER_BYTES are subtracted
OTHER_BYTES = 4 * 10**8  # memory that a worker needs for everything but rows
RELEASE_SHARE_OF_LIMIT = 0.6  # share of a worker's memory limit above which it returns free memory to the system
_HOW_TO_RESUME = "A fit with ParquetRows(..., checkpoint=folder) resumes after its last finished pass."
Task = Callable[..., Any]
_GLIBC_DEFAULTS = {-1: 2**26, -3: 2**25}  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, in bytes


class ClusterError(ConnectionError):
    """The cluster cannot be reached, or has no workers."""


class Executor(Protocol):
    """Interface of objects that apply a task to every batch of partitions."""

    def map(self, task: Task, program: Program, batches: list[Batch], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, batch, *arguments)`` of all batches, in their order."""
        ...

    def forget(self, prefix: str) -> None:
        """Remove all stored entries whose keys begin with `prefix`, in all processes."""
        ...


class Threads:
    """Executor with threads of this process; by default, as many as BLAS may use now."""

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or BLAS.threads()

    def map(self, task: Task, program: Program, batches: list[Batch], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, batch, *arguments)`` of all batches, in their order."""
        if self.n_threads == 1 or len(batches) == 1:
            return [task(program, batch, *arguments) for batch in batches]
        with BLAS.on_one_thread(), ThreadPoolExecutor(self.n_threads) as pool:
            return list(pool.map(lambda batch: task(program, batch, *arguments), batches))

    def forget(self, prefix: str) -> None:
        """Remove all stored entries whose keys begin with `prefix`."""
        STORE.forget(prefix)


def find_executor(scheduler: Any = None) -> Executor:
    """Return the executor for a scheduler.

    `scheduler` is "threads", "ray", a Dask client, the address of a Dask scheduler, or `DaskWorkers` with other waiting
    times. None means the Dask client or the Ray session of this process if there is one, else threads.
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
    """Return the Dask client of this process, "ray" if a session is open, or "threads"."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            return distributed.get_client()
        except ValueError:
            pass
    ray = sys.modules.get("ray")
    return "ray" if ray is not None and ray.is_initialized() else "threads"


@cache
def reuse_memory() -> None:
    """Keep up to 64 MB of freed memory in a worker's process, even if MALLOC_TRIM_THRESHOLD_ is set.

    With this environment variable, the memory of every block would be returned to the system and allocated again page
    by page. Dask sets the variable for its workers. If a Dask cluster runs in this process, child processes such as
    Ray's actors inherit the variable.
    """
    if "MALLOC_TRIM_THRESHOLD_" in os.environ:
        for option, value in _GLIBC_DEFAULTS.items():
            _call_glibc("mallopt", option, value)


def release_memory() -> None:
    """Return free memory to the system."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    _call_glibc("malloc_trim", 0)


def _call_glibc(function: str, *arguments: int) -> None:
    with suppress(OSError, AttributeError, TypeError):  # a system without glibc
        getattr(ctypes.CDLL(None), function)(*arguments)


# --- actors of a Ray session


class _RayWorker:
    """Ray actor. It holds the current task; decoded rows are in the store of its process."""

    def begin(self, payload: bytes) -> None:
        reuse_memory()
        self.task, self.program, self.arguments = pickle.loads(payload)

    def process(self, batch: Batch) -> Any:
        return self.task(self.program, batch, *self.arguments)

    def forget(self, prefix: str) -> None:
        STORE.forget(prefix)


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise ImportError('scheduler="ray" needs the package ray: pip install ray.') from error


def start_ray() -> None:
    """Connect to the Ray cluster of the environment (RAY_ADDRESS), or start a session on this machine.

    A session that exists already is kept. The command line uses this function; in Python, call ``ray.init``.
    """
    ray = _ray()
    if not ray.is_initialized():
        ray.init(log_to_driver=False)


class RayActors:
    """Executor with one Ray actor for each CPU of the session. An actor gets the same batches in every pass.

    The actors end when this object is deleted. They do not reserve CPUs, because two fits at the same time could then
    wait for each other forever.
    """

    def __init__(self) -> None:
        ray = _ray()
        if not ray.is_initialized():
            raise ClusterError('scheduler="ray" needs a Ray session. Call ray.init(...) first.')
        self.ray = ray
        self._kind: Any = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(_RayWorker)
        self.actors = [self._kind.remote() for _ in range(max(1, int(ray.cluster_resources().get("CPU", 1))))]

    def map(self, task: Task, program: Program, batches: list[Batch], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, batch, *arguments)`` of all batches, in their order."""
        payload = self.ray.put(self.ray.cloudpickle.dumps((task, program, arguments)))
        found: dict[int, Any] = {}
        for _ in range(MAX_ACTORS_PER_BATCH):
            self._process(payload, {number: each for number, each in enumerate(batches) if number not in found}, found)
            if len(found) == len(batches):
                return [found[number] for number in sorted(found)]
        raise ClusterError(
            f"{MAX_ACTORS_PER_BATCH} Ray actors in a row ended while they processed the same partitions. Most likely "
            "they ran out of memory. Give the session more memory, or pass a smaller memory= to ParquetRows."
        )

    def forget(self, prefix: str) -> None:
        """Remove all stored entries whose keys begin with `prefix` in all actors, without waiting for them."""
        for actor in self.actors if self.ray.is_initialized() else ():
            actor.forget.remote(prefix)

    def _process(self, payload: Any, waiting: dict[int, Batch], found: dict[int, Any]) -> None:
        """Process the waiting batches, add their results to `found`, and replace actors that have ended."""
        actor_of = {number: number % len(self.actors) for number in waiting}
        for actor in set(actor_of.values()):
            self.actors[actor].begin.remote(payload)  # An actor processes its calls in this order.
        sent = {number: self.actors[actor_of[number]].process.remote(batch) for number, batch in waiting.items()}
        errors, ended = self.ray.exceptions, set()
        for number, future in sent.items():
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
    """Executor with the workers of a Dask cluster. A worker gets the same batches of partitions in every pass.

    A worker stores the rows that it has decoded, and sends only its results. Workers may join and end at any time. If a
    worker ends, other workers process its batches, with identical results.

    Parameters
    ----------
    client : distributed.Client
        A client that is not asynchronous. Dask sends pickles: use it only in a network that you trust, or with TLS.
    worker_timeout : float, default=300
        Seconds to wait for a worker if no worker accepts tasks.
    scheduler_timeout : float, default=15
        Seconds to wait for an answer from the scheduler.
    """

    def __init__(self, client: Any, *, worker_timeout: float = 300.0, scheduler_timeout: float = 15.0) -> None:
        if client.asynchronous:
            raise ValueError("The Dask client must not be asynchronous. Pass Client(..., asynchronous=False).")
        self.client, self.worker_timeout, self.scheduler_timeout = client, worker_timeout, scheduler_timeout
        self.assigned: dict[str, str] = {}  # worker of each batch, by the key of its first partition
        self.paused: dict[str, float] = {}  # paused workers, with the time at which each was first found paused

    @classmethod
    def of(cls, scheduler: Any) -> "DaskWorkers":
        """Return the executor for a client, or for the address of a scheduler."""
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
                f"No Dask scheduler answers at {scheduler!r} ({_first_line(error)}). Start one with `dask scheduler` "
                'and pass its address, such as "tcp://host:8786", or use scheduler="threads".'
            ) from error
        workers = cls(client)
        weakref.finalize(workers, _close, client).atexit = False  # The client ends with the process anyway.
        return workers

    def map(self, task: Task, program: Program, batches: list[Batch], arguments: tuple[Any, ...]) -> list[Any]:
        """Return ``task(program, batch, *arguments)`` of all batches, in their order."""
        payload = pickle.dumps(_SentPass(need("cloudpickle", "Dask", DASK).dumps((task, program, arguments))))
        dask_pass = _DaskPass(self, f"scarless-{task.__name__}", payload, batches)
        if self.client.status in ("closing", "closed"):
            raise ClusterError("The Dask client is closed. Open a new client, and keep it open for the whole call.")
        return [pickle.loads(each) for each in self.client.sync(dask_pass.results)]

    def forget(self, prefix: str) -> None:
        """Remove all stored entries whose keys begin with `prefix` in all workers, without waiting for them."""
        with suppress(RuntimeError):  # The event loop, and so the client, has ended.
            self.client.loop.add_callback(_forget_in_workers, self.client, prefix)

    async def available_workers(self) -> dict[str, int]:
        """Return the workers that accept tasks, with their numbers of threads."""
        deadline = monotonic() + self.scheduler_timeout
        while (left := deadline - monotonic()) > 0 and self.client.scheduler is not None:
            with suppress(OSError, TimeoutError, asyncio.TimeoutError):
                return await asyncio.wait_for(self._query_scheduler(), left)
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
        raise ClusterError(
            f"The Dask scheduler has not answered for {self.scheduler_timeout:g} seconds: it has ended, or cannot be "
            f"reached. Start it, or check the network, and repeat the call. {_HOW_TO_RESUME}"
        )

    async def _query_scheduler(self) -> dict[str, int]:
        cores = await self.client.scheduler.ncores()
        running = await self.client.scheduler.ncores_running()
        now = monotonic()
        self.paused = {worker: self.paused.get(worker, now) for worker in cores if worker not in running}
        given_up = {worker for worker, since in self.paused.items() if now - since > MAX_PAUSED_SECONDS}
        return {worker: cores[worker] for worker in sorted(cores) if cores[worker] and worker not in given_up}

    async def wait_for_workers(self) -> dict[str, int]:
        """Return the workers that accept tasks; wait if there is none."""
        deadline = monotonic() + self.worker_timeout
        while not (workers := await self.available_workers()):
            if monotonic() > deadline:
                raise ClusterError(
                    f"No Dask worker accepted tasks for {self.worker_timeout:g} seconds: there are no workers, or all "
                    "are paused because their memory is full. Start workers, or give them more memory, and repeat the "
                    f"call. {_HOW_TO_RESUME}"
                )
            await asyncio.sleep(SECONDS_BETWEEN_CHECKS)
        return workers


class _SentTask(NamedTuple):
    """One task: the numbers of its batches, and the worker that it was sent to."""

    numbers: list[int]
    worker: str
    future: Any


class _DaskPass:
    """One pass over all batches. If a worker ends, its batches are sent to other workers."""

    def __init__(self, cluster: DaskWorkers, name: str, payload: bytes, batches: list[Batch]) -> None:
        self.cluster, self.client, self.name, self.payload = cluster, cluster.client, name, payload
        self.batches = batches
        self.sent: list[_SentTask] = []
        self.tries: Counter[int] = Counter()

    async def results(self) -> list[bytes]:
        """Return the results of all batches as pickles, in their order."""
        while True:
            await self._send_waiting()
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
        """Return the results, or None if some are not available."""
        found = await self.client.gather([each.future for each in self.sent], errors="skip", asynchronous=True)
        numbers = [number for each in self.sent for number in each.numbers]
        if len(found) < len(self.sent) or len(numbers) < len(self.batches):
            return None
        by_number = dict(zip(numbers, (one for some in found for one in some), strict=True))
        return [by_number[number] for number in range(len(self.batches))]

    async def _send_waiting(self) -> None:
        """Send every batch that is not being processed to a worker, if possible to the worker of earlier passes."""
        workers = await self.cluster.wait_for_workers()
        keys = [batch[0].key for batch in self.batches]
        self.cluster.assigned.update(assign_batches(keys, self.cluster.assigned, workers))
        under_way = {number for each in self.sent for number in each.numbers}
        waiting: dict[str, list[int]] = {}
        for number in sorted(set(range(len(keys))) - under_way):
            waiting.setdefault(self.cluster.assigned[keys[number]], []).append(number)
        for worker, numbers in waiting.items():
            self.tries.update(numbers)
            self.sent += await self._sent_to(worker, numbers, TASKS_PER_THREAD * workers[worker])

    async def _sent_to(self, worker: str, numbers: list[int], n_tasks: int) -> list[_SentTask]:
        only = {"workers": [worker], "allow_other_workers": False, "pure": False}  # Dask does not move such tasks.
        name = f"{self.name}-{uuid.uuid4().hex}"
        payload = self.payload if len(self.payload) <= MIN_SCATTERED_BYTES else await self._scattered(worker)
        if payload is None:
            self._check_tries(numbers)
            return []
        opened = self.client.submit(pickle.loads, payload, key=f"{name}-opened", **only)
        shares = [numbers[first::n_tasks] for first in range(min(n_tasks, len(numbers)))]
        batches = [pickle.dumps([self.batches[number] for number in share]) for share in shares]
        names = [f"{name}-{first}" for first in range(len(shares))]
        futures = self.client.map(operator.call, [opened] * len(batches), batches, key=names, **only)
        return [_SentTask(share, worker, future) for share, future in zip(shares, futures, strict=True)]

    async def _scattered(self, worker: str) -> Any:
        """Return a future of the payload in a worker; None if the worker has ended."""
        sending = asyncio.ensure_future(
            self.client.scatter(self.payload, workers=[worker], hash=False, asynchronous=True)
        )
        while not sending.done():
            await asyncio.wait({sending}, timeout=SECONDS_BETWEEN_CHECKS)
            if not sending.done() and worker not in await self.cluster.available_workers():
                sending.cancel()
                return None
        return None if sending.cancelled() or sending.exception() else sending.result()

    async def _watch(self, gathering: Any) -> None:
        """Wait until all results are there, or until some of them are lost."""
        while not gathering.done():
            await asyncio.wait({gathering}, timeout=SECONDS_BETWEEN_CHECKS)
            available = None if gathering.done() else await self.cluster.available_workers()
            if await self._drop_lost(available):
                return

    async def _drop_lost(self, available: dict[str, int] | None) -> bool:
        """Forget tasks whose worker or connection was lost, and return whether there are any.

        If a task has raised an error, raise it here.
        """
        killed = need("distributed", "Dask", DASK).KilledWorker
        for each in self.sent:
            if each.future.status == "error" and not isinstance(error := await each.future.exception(), killed):
                raise error
        lost = [
            each
            for each in self.sent
            if each.future.status in ("error", "cancelled", "lost")
            or (available is not None and each.worker not in available)
        ]
        self.sent = [each for each in self.sent if each not in lost]
        self._check_tries([number for each in lost for number in each.numbers])
        return bool(lost)

    def _check_tries(self, lost: list[int]) -> None:
        failed = [number for number in lost if self.tries[number] >= MAX_WORKERS_PER_BATCH]
        if failed:
            source = self.batches[failed[0]][0].source
            raise ClusterError(
                f"{MAX_WORKERS_PER_BATCH} Dask workers in a row ended or were paused while they processed the same "
                f"partitions of {getattr(source, 'path', 'X')}. Most likely they ran out of memory. Give the workers "
                "more memory, pass a smaller memory= to ParquetRows, or write files with smaller row groups."
            )


def assign_batches(batches: list[str], assigned: dict[str, str], workers: dict[str, int]) -> dict[str, str]:
    """Return a worker for each batch: the same worker as in earlier passes, if it is available and has room.

    `workers` maps each worker to its number of threads. A worker gets batches in proportion to its threads.
    """
    total = sum(workers.values())
    room = {worker: -(-len(batches) * threads // total) for worker, threads in workers.items()}
    found = {}
    for batch in batches:
        if room.get(former := assigned.get(batch, ""), 0) > 0:
            found[batch] = former
            room[former] -= 1
    for batch in batches:
        if batch not in found:
            found[batch] = max(room, key=lambda worker: room[worker] / workers[worker])
            room[found[batch]] -= 1
    return found


class _ReceivedPass:
    """Task, program and arguments of a pass. A worker unpickles them once for each pass."""

    def __init__(self, payload: bytes) -> None:
        reuse_memory()
        self.worker = need("distributed", "Dask", DASK).get_worker()
        self.limit = self.worker.memory_manager.memory_limit or 0
        self.task, program, self.arguments = pickle.loads(payload)
        if self.limit:  # Dask pauses a worker at 80% of the limit, and ends it at 95%.
            memory = min(program.cache.memory, max(0, int(CACHE_SHARE_OF_LIMIT * self.limit) - OTHER_BYTES))
            program = program._replace(cache=replace(program.cache, memory=memory))
        self.program: Program = program

    def __call__(self, batches: bytes) -> list[bytes]:
        """Return the results of some batches as pickles, because arrays that Dask sends itself arrive misaligned."""
        dumps = need("cloudpickle", "Dask", DASK).dumps
        found = [dumps(self.task(self.program, batch, *self.arguments)) for batch in pickle.loads(batches)]
        if self.limit and self.worker.monitor.get_process_memory() > RELEASE_SHARE_OF_LIMIT * self.limit:
            release_memory()  # Otherwise a worker that was paused because of its memory would stay paused.
        return found


class _SentPass(NamedTuple):
    """A pass that is sent to a worker. Unpickling turns it into a `_ReceivedPass`.

    Tasks therefore refer only to functions of Python's standard library. The scheduler imports the functions of tasks,
    and importing this package would block it for seconds.
    """

    payload: bytes

    def __reduce__(self) -> Any:
        return _ReceivedPass, (self.payload,)


def _forget(prefix: str) -> None:
    STORE.forget(prefix)


async def _forget_in_workers(client: Any, prefix: str) -> None:
    with suppress(Exception):  # Workers that have ended have no entries.
        await client.run(_forget, prefix, on_error="ignore")


def _close(client: Any) -> None:
    """Close a client without waiting for it, because this may run in the client's own thread."""
    with suppress(RuntimeError):  # The process is about to end.
        Thread(target=client.close, name="scarless-close-dask-client").start()


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", maxsplit=1)[0][:200]
