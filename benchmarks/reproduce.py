"""Time and memory of the paper's experiment, from one of its 25 repetitions (Linux).

Data: the paper's eight datasets, from ../shared/data or the folder in the environment variable SCARLESS_DATA.
Time: about two minutes with two workers.

All datasets, settings, numbers of propensity attributes and methods run with one split and one labelling. The program
prints the seconds of each method on each dataset, and the peak memory of all processes together.
"""

import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import records
from benchmarks.datasets import find_data_home
from benchmarks.runner import add_record_option, command_parser, print_table
from scarless.experiments import Store, run_experiment
from scarless.papers import METHODS
from scarless.papers.bekker2019 import specification

PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
REPETITIONS = 25  # number of repetitions in the whole experiment


def tree_memory() -> float:
    """Return the resident memory of this process and its descendants, in MB."""
    parent, resident = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                resident[int(entry.name)] = int((entry / "statm").read_text().split()[1]) * PAGE_MB
            except (FileNotFoundError, ProcessLookupError):
                continue
            parent[int(entry.name)] = int(stat[1])
    return sum(size for pid, size in resident.items() if os.getpid() in ancestry(pid, parent))


def ancestry(pid: int, parent: dict[int, int]) -> list[int]:
    """Return a process and its ancestors."""
    line = [pid]
    while (above := parent.get(line[-1])) and above not in line:
        line.append(above)
    return line


def watched_run(folder: str) -> tuple[float, float]:
    """Run one repetition; return its seconds and the peak memory."""
    spec = replace(specification(), n_splits=1, n_labellings=1)
    sizes, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            sizes.append(tree_memory())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    run_experiment(spec, folder, methods=METHODS, jobs=2, data_home=find_data_home(), download=False)
    seconds = time.perf_counter() - start
    over.set()
    watcher.join()
    return seconds, max(sizes)


def main(arguments: list[str]) -> None:
    """Run one repetition and print its table."""
    parser = command_parser("reproduce", __doc__)
    add_record_option(parser)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        seconds, peak = watched_run(folder)
        rows = Store(folder).timings()
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for method in methods:
        cells = [
            np.mean([row["seconds"] for row in rows if (row["method"], row["dataset"]) == (method, name)])
            for name in datasets
        ]
        lines.append([method, *(f"{cell:.2f}" for cell in cells)])
    print_table(["seconds per run", *datasets], lines)
    print(f"One of {REPETITIONS} repetitions: {seconds:.0f} s; all: about {REPETITIONS * seconds / 60:.0f} minutes.")
    print(f"Peak of the resident memory of all processes: {peak:,.0f} MB.")
    if options.record:
        records.append("reproduce", "memory", f"one of {REPETITIONS} runs", {"peak_gb": peak / 1e3})


if __name__ == "__main__":
    main(sys.argv[1:])
