"""Files that are written as a whole, errors that say which file they are about, locks on files, and memory taken.

Operating systems lock files and count memory in ways of their own. The modules for it are not in every Python (no
`fcntl` and `resource` on Windows, `msvcrt` nowhere else), so each is imported when it is needed, and there is an
answer for where it is missing.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from scarless.outside.notices import warn_user


def check_place(path: str | Path) -> Path:
    """Return a path that can be written to, its folders made where they are not there; or say why not.

    Nothing stays: the check comes before the work, and the folders come with the results. A folder that is there
    already is checked, and the one above it, where results are made before they are moved.
    """
    path = Path(path)
    above = path.absolute().parent
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {above} is a file, not a folder. Choose another place.")
    _refuse_closed(path, above)
    _try_to_write(path, above)
    if path.is_dir():
        _refuse_closed(path, path)
    return path


def _refuse_closed(path: Path, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(
            f"{path} cannot be written: you may not write to the folder {folder}. Choose another place (--out), or "
            "change the permissions of that folder."
        )


def _try_to_write(path: Path, above: Path) -> None:
    """Make an empty folder where results will be made, and remove it: permissions do not tell of every place.

    They do not tell of file systems such as /proc, nor of one that is read-only, nor of names that are too long.
    """
    first = (path.absolute().relative_to(above).parts or ("scarless",))[0]
    try:
        (above / first).exists()  # a name that is too long, or has a zero byte
        Path(tempfile.mkdtemp(prefix=f".{first[:200]}-", dir=above)).rmdir()
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        why = getattr(error, "strerror", None) or str(error)
        raise OSError(f"{path} cannot be written: {why} in {above}. Choose another place (--out).") from error


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Give errors of the operating system the name of the file; those of writing, as on a full disk, come without.

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
        if error.errno is None:  # as from NumPy, when fewer bytes were written than it asked for
            raise OSError(f"{path}: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Give a file to write to that takes the place of `path` at the end, or goes where that is not reached."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with naming(path):
            yield temporary
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file as a whole or not at all, also where the disk is full or the process is stopped."""
    with aside(path) as temporary:
        temporary.write_bytes(text.encode() if isinstance(text, str) else text)


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
