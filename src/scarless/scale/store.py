"""Decoded partitions, and values kept for their rows: in memory up to a budget, then in memory-mapped files."""

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Cache:
    """How much of what is decoded may stay in memory, in bytes for each process, and where the rest goes.

    `folder` is None for the system's place for temporary files, "" to decode anew in every pass.
    """

    memory: int
    folder: str | None = None


class Store:
    """What one process has decoded and computed, by key. Each is made once, whoever asks first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._making: dict[str, Lock] = {}
        self._entries: dict[str, Arrays] = {}
        self._sizes: dict[str, int] = {}  # of those in memory
        self._files: dict[str, Path] = {}  # folders of what is not in memory, by key
        self._folders: dict[str | None, Path] = {}  # of this process, by where they were asked for
        self.loads = 0

    @property
    def held(self) -> int:
        """Bytes of what is in memory; what is in mapped files is not."""
        return sum(list(self._sizes.values()))  # of a copy: others may be at it

    def get(self, key: str, cache: Cache, make: Callable[[], Arrays]) -> Arrays:
        """Return arrays by name, made now where they are not there."""
        if (found := self._entries.get(key)) is not None:
            return found
        with self._lock:
            alone = self._making.setdefault(key, Lock())
        with alone:
            if (found := self._entries.get(key)) is not None:
                return found
            arrays = make()
            self.loads += 1
            size = sum(array.nbytes for array in arrays.values())
            with self._lock:
                fits = self.held + size <= cache.memory
                if fits:
                    self._sizes[key], self._entries[key] = size, arrays
            if not fits and cache.folder != "":
                arrays = self._mapped(key, arrays, cache)
                self._entries[key] = arrays
            return arrays

    def rest(self, key: str) -> None:
        """Take what is mapped from files out of this process's memory; the system keeps it while it has room.

        Else pages that were once read would count as this process's own, and whoever watches it would end it for them.
        """
        for array in self._entries.get(key, {}).values() if key in self._files else ():
            pages = getattr(array if isinstance(array, np.memmap) else array.base, "_mmap", None)
            if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
                pages.madvise(mmap.MADV_DONTNEED)

    def forget(self, prefix: str) -> None:
        """Let go of everything whose key begins so."""
        with self._lock:
            for key in [key for key in self._entries if key.startswith(prefix)]:
                del self._entries[key]
                self._sizes.pop(key, None)
                self._making.pop(key, None)
                if (folder := self._files.pop(key, None)) is not None:
                    shutil.rmtree(folder, ignore_errors=True)

    def _mapped(self, key: str, arrays: Arrays, cache: Cache) -> Arrays:
        """Write arrays to files, and return maps of them; text cannot be mapped, and stays."""
        folder = self._folder(cache.folder) / key.replace("/", "-")
        folder.mkdir(exist_ok=True)
        self._files[key] = folder
        found = {}
        for name, array in arrays.items():
            if array.dtype.hasobject:
                found[name] = array
                continue
            path = folder / f"{name}.npy"
            turned = array.flags.f_contiguous and not array.flags.c_contiguous
            np.save(path, array.T if turned else array)
            mapped = np.load(path, mmap_mode="r")
            found[name] = mapped.T if turned else mapped
        return found

    def _folder(self, wanted: str | None) -> Path:
        with self._lock:
            if wanted not in self._folders:
                made = self._folders[wanted] = Path(tempfile.mkdtemp(prefix="scarless-", dir=wanted))
                weakref.finalize(self, _remove, made, os.getpid())
            return self._folders[wanted]


def _remove(folder: Path, owner: int) -> None:
    """Remove the folder of a process; a child that was forked from it leaves it alone."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


STORE = Store()  # of this process
