"""What the command line says, and how it ends."""

import shlex
import sys
from typing import Any

from scarless.outside.extras import REPRODUCE, need
from scarless.outside.progress import duration

TAKEN = 64  # columns of the screen
DONE, REFUSED, INCOMPLETE_INSTALLATION, STOPPED = 0, 1, 2, 130


class Bars:
    """A bar on the screen with the time left, as a `scarless.experiments.run.Progress`."""

    def __init__(self) -> None:
        progress = need("rich.progress", "The progress bar", REPRODUCE)
        self.bars: Any = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[left]}  {task.fields[what]}", markup=False),
            console=need("rich.console", "The progress bar", REPRODUCE).Console(stderr=True),
        )
        self.stage: Any = None

    def __enter__(self) -> "Bars":
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def start(self, what: str, total: float) -> None:
        """Begin a stage, in the place of the one before."""
        if self.stage is not None:
            self.bars.remove_task(self.stage)
        completed = 0.0 if total else 1.0
        self.stage = self.bars.add_task(what, total=total or 1.0, completed=completed, left="", what="")

    def advance(self, amount: float, what: str) -> None:
        """Move on within the stage; the time left is reckoned from the whole stage, as results come in bursts."""
        self.bars.update(self.stage, advance=amount)
        task = next(task for task in self.bars.tasks if task.id == self.stage)
        left = f"{duration(task.elapsed * task.remaining / task.completed)} left"
        room = max(self.bars.console.width - TAKEN, 0)  # beside the bar and the times, which must not be cut
        self.bars.update(self.stage, left=left, what=what[:room])

    def say(self, message: str) -> None:
        """Tell something that stays on the screen."""
        self.bars.console.print(message, markup=False, highlight=False)


def shell(command: str, *words: object) -> str:
    """Return a command of ours that can be pasted into a shell, whatever its words hold.

    Examples
    --------
    >>> shell("report", "results of May; ls")
    "scarless report 'results of May; ls'"
    """
    return shlex.join(["scarless", command, *map(str, words)])


def stopped(message: str) -> int:
    """Say that the user stopped it; return the exit code."""
    print(f"\n{message}", file=sys.stderr)
    return STOPPED


def fail(message: str, code: int) -> int:
    """Say what is wrong; return the exit code."""
    print(f"scarless: {message}", file=sys.stderr)
    return code
