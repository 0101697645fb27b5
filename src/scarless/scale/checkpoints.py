"""Passes that are remembered: a fit that was interrupted asks for the same sums again, and finds them."""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from scarless.outside.files import write_whole
from scarless.outside.notices import warn_user

_DIGEST = hashlib.sha256().digest_size  # bytes at the beginning of each file
_PACKAGE = "scarless."


class Passes:
    """A folder with the result of every pass over the rows, by what was asked.

    A fit is the same sequence of passes whenever it is started: each asks for sums at parameters that follow from the
    sums before. So what was computed is found again, to the bit, and the fit goes on where it ended. A file holds a
    checksum, then plain arrays and their description: reading one runs no code, and a damaged one is computed again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recalled = self.computed = 0

    def recall(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return what a pass gave before, or compute and keep it."""
        path = self.folder / f"{key}.pass"
        if path.exists():
            try:
                found = unpacked(path.read_bytes(), key)
            except ValueError as error:
                warn_user(f"The checkpoint {path} {error}. This pass over the rows is computed again.", UserWarning)
            else:
                self.recalled += 1
                return found
        found = compute()
        data = packed(found, key)
        if data is not None:
            write_whole(path, data)
        self.computed += 1
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "recalled": 0, "computed": 0}


def packed(value: Any, key: str) -> bytes | None:
    """Return a value as bytes, with a checksum of it and its key; None where it is no plain data.

    Examples
    --------
    >>> unpacked(packed((1.5, np.array([1, 2])), "key"), "key")
    (1.5, array([1, 2]))
    """
    arrays: list[Any] = []
    try:
        described = json.dumps(_described(value, arrays)).encode()
        buffer = io.BytesIO()
        if any(array.dtype.hasobject for array in arrays):
            return None
        np.savez(buffer, np.frombuffer(described, dtype=np.uint8), *arrays)
    except (TypeError, ValueError):  # of what holds objects
        return None
    content = buffer.getvalue()
    return _digest(content, key) + content


def unpacked(data: bytes, key: str) -> Any:
    """Return what was packed under a key; raise ValueError where the bytes are not these."""
    content = data[_DIGEST:]
    if data[:_DIGEST] != _digest(content, key):
        raise ValueError("is damaged, or was written by an older version of scarless")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            described, *arrays = (file[f"arr_{number}"] for number in range(len(file.files)))
        return _made(json.loads(described.tobytes()), arrays)
    except Exception as error:  # e.g. a class that this version no longer has
        raise ValueError(f"cannot be read by this version of scarless ({type(error).__name__})") from error


def _digest(content: bytes, key: str) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + content).digest()


def _described(value: Any, arrays: list[Any]) -> Any:
    """Return a value as JSON that refers to arrays by number; raise TypeError where that cannot be."""
    if value is None or type(value) in (bool, int, float, str):
        return {"plain": value}
    if isinstance(value, np.ndarray) and value.dtype == object:  # e.g. labels that are texts
        return {"objects": [list(value.shape), [_described(each, arrays) for each in value.flat]]}
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "number": len(arrays) - 1}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_described(each, arrays) for each in value]}
    kind = type(value)
    if _is_ours(kind):
        held = value if isinstance(value, tuple) else [getattr(value, field.name) for field in fields(value)]
        return {"class": [kind.__module__, kind.__qualname__], "held": [_described(each, arrays) for each in held]}
    raise TypeError(f"{kind} is no plain data")


def _made(said: dict[str, Any], arrays: list[Any]) -> Any:
    """Return the value that was described."""
    if "class" in said:
        module, name = said["class"]
        kind: Any = getattr(import_module(module), name) if module.startswith(_PACKAGE) else None
        if not _is_ours(kind):
            raise ValueError("names a class that no pass returns")
        return kind(*(_made(each, arrays) for each in said["held"]))
    ((kind, held),) = said.items()
    if kind in ("array", "number"):
        return arrays[held] if kind == "array" else arrays[held][()]
    if kind == "objects":
        objects = np.empty(held[0], dtype=object)
        for number, each in enumerate(held[1]):
            objects.flat[number] = _made(each, arrays)
        return objects
    if kind in ("tuple", "list"):
        made = [_made(each, arrays) for each in held]
        return tuple(made) if kind == "tuple" else made
    return held


def _is_ours(kind: Any) -> bool:
    """Whether a class is a named tuple or a dataclass of this package."""
    if not isinstance(kind, type) or not kind.__module__.startswith(_PACKAGE):
        return False
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
