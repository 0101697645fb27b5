"""Memory of worker processes during a fit from files, beside their caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event, Thread
from typing import Any

from benchmarks.runner import Row, resident
from benchmarks.scale.setup import NAMES, PROPENSITY, executor, files, has
from scarless import SAREMClassifier
from scarless.engines import Engine, open_rows
from scarless.scale import ParquetRows
from scarless.scale.partitions import STORE

_WATCHES: list[MemoryWatch] = []  # watches that run in this process


class MemoryWatch:
    """Peaks of the memory of this process, in MB.

    The kernel counts the peak of resident memory. Anonymous memory and the cache are sampled.
    """

    def __init__(self) -> None:
        self.stop = Event()
        self.peaks = {"before": resident("VmRSS"), "anonymous": 0.0, "cached": 0.0}
        self.thread = Thread(target=self._sample, daemon=True)
        self.thread.start()

    def end(self) -> dict[str, float]:
        """Stop and return the peaks."""
        self.stop.set()
        self.thread.join()
        return {**self.peaks, "resident": resident("VmHWM")}

    def _sample(self) -> None:
        while not self.stop.wait(0.02):
            self.peaks["anonymous"] = max(self.peaks["anonymous"], resident("RssAnon"))
            self.peaks["cached"] = max(self.peaks["cached"], STORE.held / 1e6)


def begin_watch(_: Any = None) -> None:
    _WATCHES.append(MemoryWatch())


def end_watch(_: Any = None) -> dict[str, float]:
    return _WATCHES.pop().end()


class OpenedRows:
    """Rows with an open engine, so that its workers can be watched before the first row is read."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


@open_rows.register
def _(X: OpenedRows, y: Any = None, sample_weight: Any = None) -> Engine:
    return X.engine


def everywhere(engine: Any, function: Callable[..., Any]) -> list[Any]:
    """Call a function in each worker process of the engine, and return the results."""
    if hasattr(engine.executor, "client"):
        return list(engine.executor.client.run(function).values())
    return list(engine.executor.ray.get([actor.__ray_call__.remote(function) for actor in engine.executor.actors]))


def memory(kinds: Sequence[str] = ("dask", "dask, in files", "ray", "ray, in files")) -> Iterator[Row]:
    """Peak memory of the worker that needs most beside its cache, during a whole fit."""
    for kind in kinds:
        if not has(kind.split(",")[0]):
            continue
        with executor(kind.split(",")[0]) as (scheduler, _):
            options = {"memory": 0} if "files" in kind else {}
            rows = ParquetRows(files(), columns=[*NAMES, "s"], scheduler=scheduler, **options).select(NAMES)
            engine = open_rows(rows, "s")
            everywhere(engine, begin_watch)
            SAREMClassifier(propensity_attributes=PROPENSITY).fit(OpenedRows(engine), "s")
            peaks = everywhere(engine, end_watch)
            del engine
        worst = max(peaks, key=lambda peak: peak["resident"] - peak["cached"])
        worst["beyond"] = worst["resident"] - worst["cached"]
        yield {"part": "memory", "method": kind, **{f"{name}_mb": value for name, value in worst.items()}}
