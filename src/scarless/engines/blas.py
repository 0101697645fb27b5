"""The threads of libraries, for work that has better use of the cores or is too small for them."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock, get_ident
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

FEW_ROWS = 10_000  # to which trees are fitted on one thread
_LATE = ("lightgbm", "xgboost", "torch")  # libraries with threads of their own, imported when they are needed
MIN_ROWS_FOR_A_TREES_THREADS = 200_000  # from which on the threads of a single tree have enough to do


class BlasThreads:
    """The process's BLAS threads, which users in several threads at once hold down to one together.

    The limit is one for the whole process: the first to come sets it, the last to leave takes it back. A process may
    fork while other threads hold it: the child has the one thread that forked, and forgets what the others held.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders: dict[object, int] = {}  # who holds BLAS down, and in which thread
        self._limit: Any = None  # takes the limit back; kept by a child for those who are no longer there
        self._before = 1
        if hasattr(os, "register_at_fork"):
            # Held over the fork, so that the child finds it in a known state and not in a thread that it does not have.
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._forget_threads
            )

    def threads(self) -> int:
        """Return how many threads BLAS may use when nobody holds it down."""
        with self._lock:
            self._release_if_unused()
            return self._before if self._holders else self._now()

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """Hold BLAS down to one thread."""
        holder = object()
        with self._lock:
            self._release_if_unused()
            if not self._holders:
                self._before = self._now()
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._holders[holder] = get_ident()
        try:
            yield
        finally:
            with self._lock:
                del self._holders[holder]
                self._release_if_unused()

    def _release_if_unused(self) -> None:
        if self._limit is not None and not self._holders:
            self._limit.restore_original_limits()
            self._limit = None

    def _forget_threads(self) -> None:
        """Keep only what the thread that forked holds itself; BLAS is not called in here, where little is safe."""
        self._holders = {holder: thread for holder, thread in self._holders.items() if thread == get_ident()}
        self._lock.release()

    def _now(self) -> int:
        pools = [pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"]
        return max(pools, default=1)


def _controller() -> ThreadpoolController:
    """Return the handle on the libraries' pools; finding them takes milliseconds, so once, and after a new library."""
    return _controller_with(tuple(name for name in _LATE if name in sys.modules))


@cache
def _controller_with(late: tuple[str, ...]) -> ThreadpoolController:
    return ThreadpoolController()


def trees_alone(n_rows: int, n_at_once: int = 1) -> AbstractContextManager[Any]:
    """Hold the trees that this thread fits down to one thread of OpenMP where rows are few, or other threads fit too.

    Threads that share so little work wait for each other, on a busy machine for long (seen: 46 seconds in place of
    0.6). The limit is this thread's own, so each thread must ask for it. It begins with this call, not with the `with`.
    """
    alone = n_rows <= FEW_ROWS or n_at_once > 1
    return _controller().limit(limits=1, user_api="openmp") if alone else nullcontext()


def threads_for_folds(n_rows: int, n_folds: int, n_jobs: int | None) -> int:
    """Return how many threads boost folds at once: the user's `n_jobs`, or a number that suits the rows.

    With few rows it is one: such small trees spend most of their time in Python, where threads wait for each other.
    With many rows it is one too: a single tree keeps all threads of OpenMP busy. In between, each thread of OpenMP
    takes a fold.
    """
    if n_jobs is not None or not FEW_ROWS < n_rows <= MIN_ROWS_FOR_A_TREES_THREADS:
        return int(effective_n_jobs(n_jobs))
    allowed = [pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "openmp"]
    return min(n_folds, max(allowed, default=1))


BLAS = BlasThreads()
