"""What a fit needs to go on after its process was killed, in one file that is written as a whole."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from scarless.outside.extras import need
from scarless.outside.files import write_whole

torch: Any = need("torch", "scarless.torch.checkpoints", "torch")

FILE = "network.pt"


class Checkpoint:
    """A folder with the state of one fit, or nowhere at all."""

    def __init__(self, folder: Any, mark: str) -> None:
        self.path = None if folder is None else Path(folder) / FILE
        self.mark = mark
        self._seeds: list[int] = []

    def seeds(self, drawn: list[int], *, fixed: bool) -> list[int]:
        """Return the seeds of the fit that is gone on with, unless they are `fixed` by the user; else those drawn."""
        state = None if fixed else self.read()
        self._seeds = drawn if state is None else state["seeds"]
        return self._seeds

    def read(self) -> dict[str, Any] | None:
        """Return the state that was left, if any; refuse that of another fit."""
        if self.path is None or not self.path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(self.path, map_location="cpu", weights_only=True)
            mark = state["mark"]
        except Exception as error:
            raise ValueError(
                f"{self.path} is no checkpoint of SARNetClassifier ({type(error).__name__}). Name another folder, or "
                "remove the file."
            ) from error
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
        torch.save({**state, "mark": self.mark, "seeds": self._seeds}, buffer)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, buffer.getvalue())


def mark_of(arrays: list[Any], words: list[str]) -> str:
    """Return a short text that is the same for the same rows and parameters only."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(f"{values.dtype} {values.shape}".encode())
        digest.update(values.tobytes())
    digest.update("\n".join(words).encode())
    return digest.hexdigest()
