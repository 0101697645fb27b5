"""The command line: `scarless reproduce` runs an experiment, a paper's or one's own, `scarless report` shows it."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scarless.experiments import read_spec, run_experiment
from scarless.outside.extras import REPRODUCE, install, need
from scarless.papers import METHODS, bekker2019, render_results
from scarless.report.numbers import duration

PACKAGES = ("jinja2", "pandas", "pooch", "rich", "scikit_posthocs")
TAKEN = 64  # columns of the screen
DONE, REFUSED, INCOMPLETE_INSTALLATION, STOPPED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    options = _parser().parse_args(arguments)
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return _fail(f"this needs {', '.join(missing)}: {install(REPRODUCE)}.", INCOMPLETE_INSTALLATION)
    try:
        return int(options.command(options))
    except KeyboardInterrupt:
        return _stopped("Stopped.")
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), REFUSED)
    except (ValueError, RuntimeError) as error:
        return _fail(str(error), REFUSED)


def reproduce(options: argparse.Namespace) -> int:
    """Run what is missing of an experiment, and write its page."""
    spec = read_spec(options.spec or bekker2019.PATH, quick=options.quick)
    chosen = tuple(name for text in options.datasets or () for name in text.split(",") if name)
    spec = spec.only(chosen) if chosen else spec
    folder = options.out or Path("results", "-".join([spec.name, *(["quick"] if options.quick else []), *chosen]))
    try:
        with Bars() as progress:
            run_experiment(
                spec,
                folder,
                methods=METHODS,
                jobs=options.jobs,
                data_home=options.data_home,
                download=not options.no_download,
                progress=progress,
            )
    except KeyboardInterrupt:
        return _stopped(
            f"Stopped. What was finished is stored in {folder}: the same command goes on from there, and "
            f"`scarless report {folder}` shows what there is."
        )
    return _write_page(folder)


def report(options: argparse.Namespace) -> int:
    """Write the page of results again."""
    return _write_page(options.folder)


def _write_page(folder: Path) -> int:
    try:
        print(f"The report: {render_results(folder)}")
    except KeyboardInterrupt:
        return _stopped(
            f"Stopped while the page was being written. All results are stored in {folder}: `scarless report {folder}` "
            "writes the page."
        )
    return DONE


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scarless", description="Learning from labels that are biased.")
    parser.add_argument("--version", action="version", version=f"scarless {version('scarless')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    run = commands.add_parser(
        "reproduce",
        help="run the paper's experiment, or another, and write a page with its results",
        description="Run the experiment of Bekker, Robberechts and Davis (2019), or with --spec one of your own, and "
        "write report.html. A run that was stopped goes on where it was.",
    )
    run.add_argument("--quick", action="store_true", help="small datasets, few runs: minutes, nothing to download")
    run.add_argument("--datasets", nargs="+", metavar="NAME", help="only these, with commas or spaces between them")
    run.add_argument("--out", type=Path, metavar="DIR", help="where results go (default: a folder in results/)")
    run.add_argument("--jobs", type=_jobs, default=_cores(), metavar="N", help="worker processes (default: one a core)")
    run.add_argument("--data-home", type=Path, metavar="DIR", help="folder with the raw datasets, to read them from")
    run.add_argument("--no-download", action="store_true", help="leave out datasets that are not there yet")
    run.add_argument("--spec", type=Path, metavar="FILE", help="specify another experiment (default: the paper's)")
    run.set_defaults(command=reproduce)
    again = commands.add_parser("report", help="write the page again, without running anything")
    again.add_argument("folder", type=Path, metavar="DIR", help="where the results are")
    again.set_defaults(command=report)
    return parser


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"the number of worker processes must be 1 or more, got {text!r}")
    return int(text)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _stopped(message: str) -> int:
    print(f"\n{message}", file=sys.stderr)
    return STOPPED


def _fail(message: str, code: int) -> int:
    print(f"scarless: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
