"""``python -m benchmarks.kill [kills]``: kill a running experiment at random moments, let it go on, compare (Linux).

A small experiment runs in a process of its own with two workers. Its main process is killed without warning: while it
starts, while it computes, or among the records that it is writing. The same command is then given again, at once.
After the last kill it may finish. Its records must be the ones of a run that nobody disturbed, byte for byte, and no
process of the killed runs may be left.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scarless.experiments import Spec, Store, run_experiment
from scarless.experiments.methods import METHODS
from scarless.experiments.store import RECORDS

ROOT = Path(__file__).parents[1]
START = 6.0  # seconds within which a run that is killed by the clock dies
BYTES = 6000  # within which a run that is killed by what it wrote dies: a cell's records, more or less
PATIENCE = 30.0  # seconds that orphans have to notice


def spec_of(n_splits: int) -> Spec:
    """Return an experiment with eight cells for each split, and all methods."""
    return Spec(
        name="kill",
        title="An experiment to kill",
        seed=1,
        datasets=("simulated",),
        settings=("all", "original"),
        n_propensity_attributes=(2, 4),
        n_splits=n_splits,
        n_labellings=2,
        test_share=0.2,
        methods=tuple(METHODS),
        added_attributes=4,
        clusters=5,
        low=0.2,
        high=0.8,
        C=1.0,
        km_max_rows=100,
    )


def lines(folder: Path) -> list[bytes]:
    """Return the records as they are on disk, sorted."""
    path = folder / RECORDS
    return sorted(path.read_bytes().splitlines()) if path.exists() else []


def kill_once(folder: Path, n_splits: int, rng: np.random.Generator) -> tuple[int, bool]:
    """Start the experiment and kill it; return its process group, and whether it was still running."""
    command = [sys.executable, "-m", "benchmarks.kill", "run", str(folder), str(n_splits)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **quiet)
    by_clock = rng.random() < 0.3
    seconds, written = (rng.uniform(0, START), np.inf) if by_clock else (np.inf, _size(folder) + rng.integers(BYTES))
    start = time.monotonic()
    while child.poll() is None and time.monotonic() - start < seconds and _size(folder) <= written:
        time.sleep(0.0002)
    alive = child.poll() is None
    child.kill()
    child.wait()
    return child.pid, alive


def _size(folder: Path) -> int:
    path = folder / RECORDS
    return path.stat().st_size if path.exists() else 0


def left_of(groups: list[int]) -> list[int]:
    """Return the living processes of some process groups."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it ended in the meantime
            continue
        if int(group) in groups and state != "Z":
            found.append(int(path.parent.name))
    return found


def orphans(groups: list[int]) -> list[int]:
    """Return the processes that outlive their killed parents for long, and end them."""
    end = time.monotonic() + PATIENCE
    while (left := left_of(groups)) and time.monotonic() < end:
        time.sleep(0.1)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return left


def main(arguments: list[str]) -> None:
    """Run an experiment twice, the second time with many kills, and print whether it made a difference."""
    if arguments[:1] == ["run"]:
        run_experiment(spec_of(int(arguments[2])), arguments[1], jobs=2)
        return
    kills, rng = int((arguments or ["10"])[0]), np.random.default_rng(10)
    with TemporaryDirectory() as home:
        whole, broken = Path(home) / "whole", Path(home) / "broken"
        n_splits = max(1, kills // 4)
        run_experiment(spec_of(n_splits), whole, jobs=2)
        killed, after = [], []
        for _ in range(kills):
            killed.append(kill_once(broken, n_splits, rng))
            after.append(len(lines(broken)))
        run_experiment(spec_of(n_splits), broken, jobs=2)
        same, left = lines(whole) == lines(broken), orphans([group for group, _ in killed])
        n = len(Store(broken).records())
        hit = sum(alive for _, alive in killed)
    print(
        f"{hit} of {kills} kills hit a running experiment, with {after} records on disk; then it finished. Its {n} "
        f"records are {'the same bytes' if same else 'NOT the same'} as without kills; {len(left)} orphans."
    )
    if not same or left:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
