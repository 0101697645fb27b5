"""Passes that are remembered: a fit that was interrupted asks for the same sums again, and finds them."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scarless.outside.files import write_whole


class Passes:
    """A folder with the result of every pass over the rows, by what was asked.

    A fit is the same sequence of passes whenever it is started: each asks for sums at parameters that follow from the
    sums before. So what was computed is found again, to the bit, and the fit goes on where it ended. The files are
    pickles: keep the folder as you would keep code.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.recalled = self.computed = 0

    def recall(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return what a pass gave before, or compute and keep it."""
        path = self.folder / f"{key}.pass"
        if path.exists():
            self.recalled += 1
            return pickle.loads(path.read_bytes())
        found = compute()
        write_whole(path, pickle.dumps(found))
        self.computed += 1
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "recalled": 0, "computed": 0}
