"""``python -m benchmarks.reproduce``: time and memory of the paper's experiment, from one run of each 25 (Linux).

All datasets, settings, numbers of attributes and methods, one split and one labelling, with two workers. Prints the
seconds of each method on each dataset, and the peak of the resident memory of all processes together.
"""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.datasets import find_data_home
from scarless.experiments import Store, run_experiment
from scarless.papers import METHODS
from scarless.papers.bekker2019 import specification

PAGE = os.sysconf("SC_PAGE_SIZE") / 1e6
RUNS = 25  # in the experiment, for each of these


def tree_memory() -> float:
    """Return the resident memory of this process and its descendants, in MB."""
    parent, resident = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                resident[int(entry.name)] = int((entry / "statm").read_text().split()[1]) * PAGE
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
    """Run the sample; return seconds and peak memory."""
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


def main() -> None:
    """Run the sample and print its table."""
    with TemporaryDirectory() as folder:
        seconds, peak = watched_run(folder)
        rows = Store(folder).timings()
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    print("| seconds a run | " + " | ".join(datasets) + " |")
    print("|---" * (len(datasets) + 1) + "|")
    for method in methods:
        cells = [
            np.mean([row["seconds"] for row in rows if (row["method"], row["dataset"]) == (method, name)])
            for name in datasets
        ]
        print(f"| {method} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    print(f"\nOne run of each {RUNS}: {seconds:.0f} s, so about {RUNS * seconds / 60:.0f} minutes for all.")
    print(f"Peak of the resident memory of all processes: {peak:,.0f} MB.")


if __name__ == "__main__":
    main()
