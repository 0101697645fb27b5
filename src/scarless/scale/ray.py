"""Rows walked by actors of the Ray session that is there already.

Ray executes pickles, as Dask does: trust the network, or turn on its TLS (``RAY_USE_TLS=1``, with certificates).
"""

import pickle
from importlib import import_module
from typing import Any

from scarless.scale.chains import Program
from scarless.scale.executors import ClusterError, Lane, Task, use_memory_again
from scarless.scale.store import STORE

_TRIES = 5  # actors that may end over the same partitions in one pass


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
        for _ in range(_TRIES):
            self._walk(payload, {number: lane for number, lane in enumerate(lanes) if number not in found}, found)
            if len(found) == len(lanes):
                return [found[number] for number in sorted(found)]
        raise ClusterError(
            f"{_TRIES} Ray actors, one after the other, ended while they walked the same partitions. Most likely they "
            "ran out of memory: give the session more of it, or let them have less at once, with a smaller memory=."
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
