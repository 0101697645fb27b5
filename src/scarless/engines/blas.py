"""The threads of the linear algebra library, for work that has better use of the cores or is too small for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


class BlasThreads:
    """The process's BLAS threads, which users in several threads at once hold down to one together.

    The limit is one for the whole process: the first to come sets it, the last to leave takes it back.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before = 1

    def threads(self) -> int:
        """Return how many threads BLAS may use when nobody holds it down."""
        with self._lock:
            return self._before if self._inside else self._now()

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """Hold BLAS down to one thread."""
        with self._lock:
            if self._inside == 0:
                self._before = self._now()
                self._limit = self._controller().limit(limits=1, user_api="blas")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._limit.restore_original_limits()

    def _now(self) -> int:
        pools = [pool["num_threads"] for pool in self._controller().info() if pool["user_api"] == "blas"]
        return max(pools, default=1)

    @staticmethod
    @cache
    def _controller() -> ThreadpoolController:
        """Return the handle on the libraries' pools; finding them takes milliseconds, so once."""
        return ThreadpoolController()


BLAS = BlasThreads()
