"""Atomic writing of files, errors that name their file, file locks, and the memory of this process.

File locks and memory counts differ between operating systems. Windows has no modules `fcntl` and `resource`, and other
systems have no module `msvcrt`. Each is therefore imported when it is needed, with a fallback.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from scarless.outside.notices import warn_user


def check_place(path: str | Path) -> Path:
    """Return the path if it can be written to; otherwise raise an error with the reason.

    Call this function before a long computation. It leaves no files behind. If the path is an existing folder, the
    folder and its parent are checked, because results are written to the parent before they are moved.
    """
    path = Path(path)
    above = path.absolute().parent
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {above} is a file, not a folder. Choose another path.")
    _refuse_closed(path, above)
    _try_to_write(path, above)
    if path.is_dir():
        _refuse_closed(path, path)
    return path


def _refuse_closed(path: Path, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(
            f"{path} cannot be written: you have no permission to write to the folder {folder}. Choose another path "
            "(--out), or change the permissions of that folder."
        )


def _try_to_write(path: Path, above: Path) -> None:
    """Create an empty folder in the place where results will be written, and remove it; raise an error if this fails.

    Permissions do not show whether a file system is read-only or special, such as /proc, or whether a name is too long.
    """
    first = (path.absolute().relative_to(above).parts or ("scarless",))[0]
    try:
        with suppress(FileNotFoundError):
            (above / first).lstat()  # Raises if the name is too long or has a zero byte; `exists` does not since 3.14.
        Path(tempfile.mkdtemp(prefix=f".{first[:200]}-", dir=above)).rmdir()
    except (OSError, ValueError) as error:  # A zero byte in a name raises a ValueError.
        why = getattr(error, "strerror", None) or str(error)
        raise OSError(f"{path} cannot be written: {why} in {above}. Choose another path (--out).") from error


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add the name of the file to errors of the operating system that lack it, such as the error of a full disk.

    Examples
    --------
    >>> import errno
    >>> with naming("records.jsonl"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    ...
    OSError: [Errno 28] No space left on device: 'records.jsonl'
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno is None:  # NumPy raises such an error if fewer bytes were written than requested.
            raise OSError(f"{path}: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def replacing(path: Path) -> Iterator[None]:
    """Explain why a file or folder cannot be replaced. Windows refuses this while another program has it open."""
    try:
        yield
    except PermissionError as error:
        why = "it cannot be replaced. Close the program that has it open, such as Excel, or choose another name (--out)"
        raise PermissionError(error.errno, why, str(path)) from error


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path. At the end, its file replaces `path`; if an error occurs, its file is deleted."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with naming(path):
            yield temporary
            with replacing(path):
                temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file completely or not at all, even if the disk is full or the process is stopped."""
    with aside(path) as temporary:
        temporary.write_bytes(text.encode() if isinstance(text, str) else text)


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Lock a file; raise OSError immediately if another process holds the lock.

    The lock ends with the process. On a system without file locks, there is a warning and no lock.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, lock(Path(folder, ".lock")):
    ...     print("locked")
    locked
    """
    with path.open("w", encoding="utf-8") as file:
        fcntl, msvcrt = _module("fcntl"), _module("msvcrt")
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        elif msvcrt is not None:
            with _locked_byte(file, msvcrt):
                yield
        else:
            warn_user(
                f"This system has no file locks, so a second process could write to {path.parent} at the same time. "
                "Run only one process at a time.",
                RuntimeWarning,
            )
            yield


@contextmanager
def _locked_byte(file: IO[str], msvcrt: Any) -> Iterator[None]:
    """Lock the first byte of a file, which may be empty."""
    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    try:
        yield
    finally:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)


def peak_memory() -> float | None:
    """Return the peak memory of this process in MiB, or None if the system does not provide it.

    Examples
    --------
    >>> peak = peak_memory()
    >>> peak is None or peak > 1
    True
    """
    resource = _module("resource")
    if resource is None:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10  # macOS counts bytes, other systems kibibytes.
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / unit


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None
