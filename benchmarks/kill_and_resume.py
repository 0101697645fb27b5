"""Whether an experiment that is killed and started again gives the same records (Linux).

Data: a simulated table.
Time: a few minutes.

A small experiment runs in a separate process with two workers. Its main process is killed without warning, at random
moments: while it starts, while it computes, or while it writes records. The same command is then started again, and
after the last kill it may finish. Its records must equal those of an undisturbed run byte for byte, and no process of
the killed runs may be left over.
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
MAX_SECONDS_TO_KILL = 6.0  # Some runs are killed after a random time, at most this many seconds.
# Other runs are killed after they have written a random number of bytes, at most about the records of a cell.
MAX_BYTES_TO_KILL = 6000
ORPHAN_SECONDS = 30.0  # Time for workers to notice that their parent was killed.


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
    """Return the stored records, sorted."""
    path = folder / RECORDS
    return sorted(path.read_bytes().splitlines()) if path.exists() else []


def kill_once(folder: Path, n_splits: int, rng: np.random.Generator) -> tuple[int, bool]:
    """Start the experiment and kill it; return its process group, and whether it was still running."""
    command = [sys.executable, "-m", "benchmarks.kill_and_resume", "run", str(folder), str(n_splits)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **quiet)
    by_clock = rng.random() < 0.3
    seconds, written = (
        (rng.uniform(0, MAX_SECONDS_TO_KILL), np.inf)
        if by_clock
        else (np.inf, _size(folder) + rng.integers(MAX_BYTES_TO_KILL))
    )
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


def running_in(groups: list[int]) -> list[int]:
    """Return the running processes of some process groups."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # The process has just ended.
            continue
        if int(group) in groups and state != "Z":
            found.append(int(path.parent.name))
    return found


def orphans(groups: list[int]) -> list[int]:
    """End the processes that outlive their killed parents for too long, and return their ids."""
    end = time.monotonic() + ORPHAN_SECONDS
    while (left := running_in(groups)) and time.monotonic() < end:
        time.sleep(0.1)
    for process in left:
        os.kill(process, signal.SIGKILL)
    return left


def main(arguments: list[str]) -> None:
    """Run an experiment twice, the second time with kills, and print whether the records differ."""
    from benchmarks import records
    from benchmarks.runner import add_record_option, command_parser

    if arguments[:1] == ["run"]:  # `kill_once` starts this in a separate process.
        run_experiment(spec_of(int(arguments[2])), arguments[1], jobs=2)
        return
    parser = command_parser("kill_and_resume", __doc__)
    parser.add_argument("kills", nargs="?", type=int, default=10, help="number of kills (default: 10)")
    add_record_option(parser)
    options = parser.parse_args(arguments)
    kills, rng = options.kills, np.random.default_rng(10)
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
        f"{hit} of {kills} kills hit a running experiment, with {after} records on disk. At the end its {n} records "
        f"are {'the same bytes' if same else 'NOT the same'} as those of an undisturbed run. Processes left over: "
        f"{len(left)}."
    )
    if options.record:
        values = {"kills": kills, "hit": hit, "fewest_records_on_disk": min(after), "most_records_on_disk": max(after)}
        values |= {"records": n, "same_bytes": same, "orphans": len(left)}
        records.append("kill_and_resume", "kills", "all", values)
    if not same or left:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
