"""What operating systems do in ways of their own: locks on files, and how much memory a process took.

The modules for it are not in every Python (no `fcntl` and `resource` on Windows, `msvcrt` nowhere else), so each
is imported when it is needed, and there is an answer for where it is missing.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from scarless.outside.notices import warn_user


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold a file for oneself; raise OSError at once where another process holds it.

    The lock goes with the process, however it ends. Where a system has no locks on files, a warning says that nobody
    keeps watch, and the work goes on.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, lock(Path(folder, ".lock")):
    ...     print("nobody else is here")
    nobody else is here
    """
    with path.open("w") as file:
        fcntl, msvcrt = _module("fcntl"), _module("msvcrt")
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        elif msvcrt is not None:
            with _locked_byte(file, msvcrt):
                yield
        else:
            warn_user(
                f"This system has no locks on files, so nothing keeps a second process from writing to {path.parent} "
                "at the same time. Run one at a time.",
                RuntimeWarning,
            )
            yield


@contextmanager
def _locked_byte(file: IO[str], msvcrt: Any) -> Iterator[None]:
    """Hold the first byte of a file, which need not be there."""
    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    try:
        yield
    finally:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)


def peak_memory() -> float | None:
    """Return the most memory that this process ever took, in MiB; None where the system does not tell.

    Examples
    --------
    >>> peak = peak_memory()
    >>> peak is None or peak > 1
    True
    """
    resource = _module("resource")
    if resource is None:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, others kibibytes
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / unit


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
