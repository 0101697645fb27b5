"""``python -m benchmarks.elsewhere run | table | tables``: twenty tables, thirteen mechanisms, none the paper's.

``run --jobs 2 --seeds 0,1 --methods search,naive --tables heart --mechanisms step`` scores methods on tasks and adds
the scores to ``results/elsewhere.jsonl`` (another folder: ``SCARLESS_BENCHMARK_RESULTS``). What is there already is
skipped, so a run may be stopped at any time and started again; ``--fresh`` measures anew, and the newest score counts.
``table`` prints Markdown over the tasks that all listed methods have; ``tables`` describes the twenty tables.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from tqdm import tqdm

from benchmarks.elsewhere_methods import METHODS, Answer
from benchmarks.elsewhere_report import NAME, Key, key_of, newest_rows, print_report
from benchmarks.elsewhere_tasks import MECHANISMS, TABLES, Task, make_task, print_tables
from benchmarks.runner import Row, append_row, timed

Job = tuple[str, str, int, list[str]]  # table, mechanism, seed, methods: one task is made once for all of them


def scores_of(answer: Answer, task: Task) -> Row:
    """Return how far an answer is from the truth of a task."""
    f, positive = np.asarray(answer.f_test), task.y_test == 1
    if f.shape != task.y_test.shape or not ((f >= 0) & (f <= 1)).all():
        raise ValueError("f_test is not a probability for each test row.")
    row: Row = {
        "mse_f": float(np.mean((f - task.y_test) ** 2)),
        "mse_e": None,
        "prior": float(answer.class_prior),
        "prior_error": abs(float(answer.class_prior) - float(task.y_train.mean())),
        "covered": None,
        "width": None,
    }
    if answer.e_test is not None:
        row["mse_e"] = float(np.mean((np.asarray(answer.e_test) - task.e_test)[positive] ** 2))
    if answer.interval is not None:
        low, high = answer.interval
        row["covered"], row["width"] = bool(low <= task.class_prior <= high), float(high - low)
    return row


def score(task: Task, method: str) -> Row:
    """Return the scores of one method on one task, or why it failed."""
    row: Row = {"table": task.table, "mechanism": task.mechanism, "seed": task.seed, "method": method}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of shows in the scores
            seconds, answer = timed(lambda: METHODS[method](task))
        return {**row, **scores_of(answer, task), "seconds": seconds, "failed": None}
    except Exception as error:  # whatever goes wrong is a result
        return {**row, "failed": f"{type(error).__name__}: {error}"}


def score_task(job: Job) -> list[Row]:
    """Return the scores of several methods on one task."""
    table, mechanism, seed, methods = job
    task = make_task(table, mechanism, seed)
    return [score(task, method) for method in methods]


def jobs_of(
    tables: Sequence[str],
    mechanisms: Sequence[str],
    seeds: Sequence[int],
    methods: Sequence[str],
    done: Iterable[Key],
) -> list[Job]:
    """Return what is to be measured, the tasks that are common to all tables first."""
    known = set(done)
    jobs = [
        (table, mechanism, seed, [m for m in methods if (table, mechanism, seed, m) not in known])
        for seed in seeds
        for mechanism in mechanisms
        for table in tables
    ]
    return [job for job in jobs if job[3]]


def one_thread_each() -> None:
    """Let every worker that is started from here use one thread; numpy reads this when it is imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent, which ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def measured(jobs: list[Job], n_workers: int, limit: float | None) -> Iterator[list[Row]]:
    """Yield the scores of each task as they come, until all are there or the time is up."""
    one_thread_each()
    end = time.monotonic() + limit if limit else np.inf
    with multiprocessing.get_context("spawn").Pool(n_workers, initializer=ignore_interrupts) as pool:
        for rows in pool.imap_unordered(score_task, jobs):  # leaving the block ends the workers
            yield rows
            if time.monotonic() > end:
                return


def run(options: argparse.Namespace) -> int:
    done = () if options.fresh else (key_of(row) for row in newest_rows())
    jobs = jobs_of(options.tables, options.mechanisms, options.seeds, options.methods, done)
    counts = {"failed": 0}
    try:
        with tqdm(total=len(jobs), unit="task", file=sys.stderr) as bar:
            for rows in measured(jobs, options.jobs, options.minutes and 60 * options.minutes):
                for row in rows:
                    append_row(NAME, row)
                    counts["failed"] += row["failed"] is not None
                bar.set_postfix(counts, refresh=False)
                bar.update()
            left = int(bar.total - bar.n)
    except KeyboardInterrupt:
        print("Stopped. What was measured is kept; the same command goes on from there.", file=sys.stderr)
        return 130
    if left:
        print(f"Time is up with {left} tasks left; the same command goes on from there.", file=sys.stderr)
    return 0


def several(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a reader of names with semicolons or commas between them; names may themselves have commas."""
    names = list(known)

    def read(text: str) -> list[str]:
        left, found = text.replace(";", ","), []
        while left := left.strip(" ,"):
            name = max((n for n in names if left == n or left.startswith(f"{n},")), key=len, default=None)
            if name is None:
                raise argparse.ArgumentTypeError(f"{left!r} does not begin with one of: {'; '.join(names)}")
            found.append(name)
            left = left[len(name) :]
        return found

    return read


def parser() -> argparse.ArgumentParser:
    main_parser = argparse.ArgumentParser(prog="python -m benchmarks.elsewhere", description=__doc__.splitlines()[0])
    commands = main_parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tables", help="describe the tables")
    for name in ("run", "table"):
        command = commands.add_parser(name)
        for option, known in (("methods", METHODS), ("tables", TABLES), ("mechanisms", MECHANISMS)):
            command.add_argument(f"--{option}", type=several(known), default=list(known) if name == "run" else None)
        command.add_argument("--seeds", type=lambda text: [int(part) for part in text.split(",")])
        if name == "run":
            command.set_defaults(seeds=[0])
            command.add_argument("--jobs", type=int, default=2, help="processes, of one thread each")
            command.add_argument("--fresh", action="store_true", help="measure anew what is there already")
            command.add_argument("--minutes", type=float, help="stop after so many minutes")
    return main_parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.command == "tables":
        print_tables()
    elif options.command == "table":
        print_report(options.methods, options.tables, options.mechanisms, options.seeds)
    else:
        return run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
