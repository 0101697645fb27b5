"""Progress bars, messages and exit codes of the command line."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scarless.outside.extras import REPRODUCE, need
from scarless.outside.progress import duration
from scarless.outside.shell_words import quoted_words

BAR_WIDTH = 64  # characters of a line that the progress bar and its times need
DONE, REFUSED, INCOMPLETE_INSTALLATION, STOPPED = 0, 1, 2, 130


class Bars:
    """A progress bar with the remaining time; implements `scarless.experiments.run.RunProgress`."""

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
        """Begin a stage; its bar replaces the bar of the previous stage."""
        if self.stage is not None:
            self.bars.remove_task(self.stage)
        completed = 0.0 if total else 1.0
        self.stage = self.bars.add_task(what, total=total or 1.0, completed=completed, left="", what="")

    def advance(self, amount: float, what: str) -> None:
        """Advance the bar, and show the remaining time, estimated from the mean speed since the stage began.

        Results arrive in bursts, so the speed of the last seconds would give a wrong estimate.
        """
        self.bars.update(self.stage, advance=amount)
        task = next(task for task in self.bars.tasks if task.id == self.stage)
        left = f"{duration(task.elapsed * task.remaining / task.completed)} left"
        room = max(self.bars.console.width - BAR_WIDTH, 0)  # The bar and the times must not be cut off.
        self.bars.update(self.stage, left=left, what=what[:room])

    def say(self, message: str) -> None:
        """Print a message above the bar."""
        self.bars.console.print(message, markup=False, highlight=False)


@contextmanager
def every_character() -> Iterator[None]:
    r"""Print characters that the encoding of the output lacks as escapes, such as ``\u65e5``, instead of failing.

    On Windows, output to a file or a pipe has the encoding of the system, which lacks most characters.
    """
    strict = [
        stream
        for stream in (sys.stdout, sys.stderr)
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict"
    ]
    for stream in strict:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream in strict:
            stream.reconfigure(errors="strict")


def shell(command: str, *words: object) -> str:
    """Return a `scarless` command, quoted for a shell.

    Examples
    --------
    >>> shell("report", "results of May; ls")
    "scarless report 'results of May; ls'"
    """
    return quoted_words(["scarless", command, *map(str, words)])


def stopped(message: str) -> int:
    """Print a message for a user who stopped the command, and return the exit code."""
    print(f"\n{message}", file=sys.stderr)
    return STOPPED


def fail(message: str, code: int) -> int:
    """Print an error message, and return the exit code."""
    print(f"scarless: {message}", file=sys.stderr)
    return code
