"""What a fit needs to go on after its process was killed, in one file that is written as a whole."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from scarless.outside.extras import need
from scarless.outside.files import write_whole
from scarless.outside.notices import warn_user

torch: Any = need("torch", "scarless.torch.checkpoints", "torch")

FILE = "network.pt"
CHECKSUM = "checksum"  # the entry of a state that has it; states of older versions have none
_ENTRIES = (b"under_way", b"finished", b"history")  # one of them is left where a checkpoint was damaged


class Checkpoint:
    """A folder with the state of one fit, or nowhere at all."""

    def __init__(self, folder: Any, mark: str) -> None:
        self.path = None if folder is None else Path(folder) / FILE
        self.mark = mark
        self._seeds: list[int] = []
        self._damaged = False

    def seeds(self, drawn: list[int], *, fixed: bool) -> list[int]:
        """Return the seeds of the fit that is gone on with, unless they are `fixed` by the user; else those drawn."""
        state = None if fixed else self.read()
        self._seeds = drawn if state is None else state["seeds"]
        return self._seeds

    def read(self) -> dict[str, Any] | None:
        """Return the state that was left, if any; refuse that of another fit."""
        if self.path is None or self._damaged or not self.path.exists():
            return None
        data = self.path.read_bytes()
        try:
            state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            mark, said = state["mark"], state.pop(CHECKSUM, None)
            sound = said is None or said == checksum_of(state)
        except Exception as error:
            if not any(entry in data for entry in _ENTRIES):
                raise ValueError(
                    f"{self.path} is no checkpoint of SARNetClassifier ({type(error).__name__}). Name another folder, "
                    "or remove the file."
                ) from error
            sound = False
        if not sound:
            self._damaged = True
            warn_user(f"The checkpoint {self.path} is damaged. The fit starts again from the beginning.", UserWarning)
            return None
        if mark != self.mark:
            raise ValueError(
                f"{self.path} is from a fit of other rows or with other parameters. To go on with it, fit the same; to "
                "begin anew, name another folder or remove the file."
            )
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write the state in the place of the last one."""
        if self.path is None:
            return
        buffer = io.BytesIO()
        whole = {**state, "mark": self.mark, "seeds": self._seeds}
        torch.save({**whole, CHECKSUM: checksum_of(whole)}, buffer)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, buffer.getvalue())


def checksum_of(state: Any) -> str:
    """Return a hash of a state: of its keys, numbers, texts and tensors, in their order."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, dict):
            for key, held in value.items():
                digest.update(f"{key!r}:".encode())
                add(held)
        elif isinstance(value, list | tuple):
            digest.update(f"{len(value)} entries".encode())
            for held in value:
                add(held)
        elif isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, bool | int | float | str | None):
            digest.update(f"{value if isinstance(value, str) else repr(value)};".encode())
        else:
            digest.update(type(value).__name__.encode())

    add(state)
    return digest.hexdigest()


def mark_of(arrays: list[Any], words: list[str]) -> str:
    """Return a short text that is the same for the same rows and parameters only."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(f"{values.dtype} {values.shape}".encode())
        digest.update(values.tobytes())
    digest.update("\n".join(words).encode())
    return digest.hexdigest()
