"""Files that are written as a whole, and errors that say which file they are about."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def check_place(path: str | Path) -> Path:
    """Return a path that can be written to, its folders made where they are not there; or say why not.

    Nothing is made yet: the check comes before the work, and the folders with the results. A folder that is there
    already is checked, and the one above it, where results are made before they are moved.
    """
    path = Path(path)
    above = path.absolute().parent
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        raise NotADirectoryError(f"{path} cannot be written: {above} is a file, not a folder. Choose another place.")
    for folder in (above, path) if path.is_dir() else (above,):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(
                f"{path} cannot be written: you may not write to the folder {folder}. Choose another place (--out), or "
                "change the permissions of that folder."
            )
    return path


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
