"""Makes calls with unusual arguments; nothing is printed, and figures are closed."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable

from benchmarks.fuzz.judge import Ended, Trial
from benchmarks.fuzz.targets import pick

os.environ.setdefault("MPLBACKEND", "Agg")


def begin() -> None:
    """Prepare a worker: leave Ctrl-C to the parent process, and print a traceback if it crashes."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def try_call(seed: int, number: int) -> Trial:
    """Make the call with this number and judge it."""
    target, caller = pick(seed, number)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Ended):
        target.chain(caller, target.name, target.what)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    return caller.trial


def try_calls(seed: int, numbers: Iterable[int]) -> tuple[Counter[str], list[tuple[int, Trial]]]:
    """Make several calls; return the number of calls by verdict, and the unclear calls."""
    counts: Counter[str] = Counter()
    unclear = []
    for number in numbers:
        trial = try_call(seed, number)
        counts[trial.verdict] += 1
        if trial.verdict == "unclear":
            unclear.append((number, trial))
    return counts, unclear
