"""Progress bars on the error stream, and durations in words."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite

from scarless.outside.extras import REPRODUCE, need

Advance = Callable[[], None]


def duration(seconds: float) -> str:
    """Return a duration with a suitable unit.

    Examples
    --------
    >>> duration(0.0042), duration(0.34), duration(12.3), duration(600.0), duration(9000.0)
    ('4 ms', '0.34 s', '12 s', '10 min', '2.5 h')
    """
    if not isfinite(seconds):
        return "–"
    if seconds < 0.1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@contextmanager
def progress_bar(what: str, total: int, show: bool | None = None) -> Iterator[Advance]:
    """Show a progress bar, and yield a function that advances it by one step.

    A total of 0 means that the number of steps is unknown. By default, the bar is shown in a terminal or a notebook if
    ``rich`` is installed.
    """
    if show is None:
        show = find_spec("rich") is not None and (sys.stderr.isatty() or _in_notebook())
    if not show:
        yield lambda: None
        return
    console = need("rich.console", "The progress bar", REPRODUCE).Console(stderr=True)
    progress = need("rich.progress", "The progress bar", REPRODUCE)
    columns = (*progress.Progress.get_default_columns(), progress.TimeElapsedColumn())
    # In a terminal, the bar is removed at the end; in a file, it is one line, written at the end.
    with progress.Progress(*columns, console=console, transient=console.is_terminal) as bars:
        task = bars.add_task(what, total=total or None)
        yield lambda: bars.advance(task)


def _in_notebook() -> bool:
    """Return whether ``rich`` can draw in this notebook. Without ``ipywidgets``, ``rich`` only prints a warning."""
    is_notebook: bool = need("rich.console", "The progress bar", REPRODUCE).Console().is_jupyter
    return is_notebook and find_spec("ipywidgets") is not None
