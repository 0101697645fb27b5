"""Limits on BLAS and OpenMP threads, for work that is too small for several threads or starts its own threads."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock, get_ident
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

MAX_ROWS_FOR_ONE_THREAD = 10_000  # up to this number of rows, trees are fitted on one thread
_THREADED_LIBRARIES = ("lightgbm", "xgboost", "torch")  # have thread pools; may be imported later
MIN_ROWS_FOR_TREE_THREADS = 200_000  # number of rows from which a single tree keeps all threads busy


class BlasThreads:
    """A limit of one BLAS thread that several threads of the process can request at the same time.

    The limit applies to the whole process: the first request sets it, and the end of the last request removes it. If
    the process forks, only the forking thread exists in the child, so the child forgets the requests of other threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders: dict[object, int] = {}  # current requests, with the thread of each
        self._limit: Any = None  # object that removes the limit
        self._before = 1  # number of BLAS threads before the limit
        if hasattr(os, "register_at_fork"):
            # The lock is held during the fork. Otherwise another thread could hold it, and in the child, where that
            # thread does not exist, the lock would never be released.
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._forget_threads
            )

    def threads(self) -> int:
        """Return the number of threads that BLAS uses without this limit."""
        with self._lock:
            self._release_if_unused()
            return self._before if self._holders else self._current_threads()

    def on_one_thread(self) -> AbstractContextManager[None]:
        """Limit BLAS to one thread inside a ``with`` block; the limit of an outer block of this thread is enough."""
        with self._lock:
            is_limited = get_ident() in self._holders.values()
        return nullcontext() if is_limited else self._limited()

    @contextmanager
    def _limited(self) -> Iterator[None]:
        holder = object()
        with self._lock:
            self._release_if_unused()
            if not self._holders:
                self._before = self._current_threads()
                if self._before > 1:  # setting a limit takes as long as a pass over few rows
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
        """Keep only the requests of the forking thread. Do not call BLAS, because this is not safe during a fork."""
        self._holders = {holder: thread for holder, thread in self._holders.items() if thread == get_ident()}
        self._lock.release()

    def _current_threads(self) -> int:
        pools = _controller().lib_controllers  # `info` would describe each pool, which takes much longer
        return max((pool.num_threads or 1 for pool in pools if pool.user_api == "blas"), default=1)


def _controller() -> ThreadpoolController:
    """Return the controller of the thread pools.

    It takes milliseconds to create, so it is cached until another library with threads is imported.
    """
    return _controller_with(tuple(name for name in _THREADED_LIBRARIES if name in sys.modules))


@cache
def _controller_with(late: tuple[str, ...]) -> ThreadpoolController:
    return ThreadpoolController()


def trees_on_one_thread(n_rows: int, n_at_once: int = 1) -> AbstractContextManager[Any]:
    """Limit OpenMP to one thread for fits of trees if there are few rows, or if several fits run at once.

    With little work, threads mostly wait for each other. On a busy machine, a fit took 46 seconds with several threads,
    and 0.6 seconds with one. The limit applies to the calling thread. It starts with this call, before the ``with``
    block is entered.
    """
    return _on_one_thread(n_rows <= MAX_ROWS_FOR_ONE_THREAD or n_at_once > 1)


def predictions_on_one_thread(n_rows: int) -> AbstractContextManager[Any]:
    """Limit OpenMP to one thread for predictions of trees, and for fits of a report, unless there are very many rows.

    Each tree is a separate parallel step, so threads mostly wait for each other. On a machine with two busy cores, the
    test of SCAR on 15,000 rows took 81 seconds of CPU time with two threads and 11 with one, and the reasons of ranked
    rows took 11 seconds and 2.
    """
    return _on_one_thread(n_rows <= MIN_ROWS_FOR_TREE_THREADS)


def _on_one_thread(use_one: bool) -> AbstractContextManager[Any]:
    return _controller().limit(limits=1, user_api="openmp") if use_one else nullcontext()


def threads_for_folds(n_rows: int, n_folds: int, n_jobs: int | None) -> int:
    """Return the number of threads that fit folds of boosted trees in parallel: `n_jobs`, if it is given.

    Otherwise the number depends on the number of rows. With few rows it is 1, because small trees spend most of their
    time in Python, where threads wait for each other. With many rows it is also 1, because a single tree keeps all
    OpenMP threads busy. In between, it is the number of OpenMP threads, but at most the number of folds.
    """
    if n_jobs is not None or not MAX_ROWS_FOR_ONE_THREAD < n_rows <= MIN_ROWS_FOR_TREE_THREADS:
        return int(effective_n_jobs(n_jobs))
    allowed = [pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "openmp"]
    return min(n_folds, max(allowed, default=1))


BLAS = BlasThreads()
