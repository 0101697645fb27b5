"""Files that are written as a whole, and errors that say which file they are about."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a file as a whole or not at all, also where the disk is full or the process is stopped."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with naming(path):
            temporary.write_bytes(text.encode() if isinstance(text, str) else text)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
