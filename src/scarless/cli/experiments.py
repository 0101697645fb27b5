"""`scarless compare` runs an experiment of one's own, `scarless reproduce` a paper's; `scarless report` shows it."""

import argparse
import os
from pathlib import Path

from scarless.cli.screen import DONE, INCOMPLETE_INSTALLATION, Bars, fail, shell, stopped
from scarless.outside.extras import REPRODUCE

PACKAGES = ("jinja2", "pandas", "pooch", "rich", "scikit_posthocs")


def compare(options: argparse.Namespace) -> int:
    """Run what is missing of an experiment, and write its page."""
    # Imported here, as these modules import scikit-learn and SciPy, which `--help` can do without.
    from scarless.experiments import read_spec, run_experiment  # noqa: PLC0415
    from scarless.experiments.own import check_datasets  # noqa: PLC0415
    from scarless.papers import METHODS, bekker2019  # noqa: PLC0415

    spec = read_spec(options.spec or bekker2019.PATH, quick=options.quick)
    check_datasets(spec)
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
    except ImportError as error:
        return fail(str(error), INCOMPLETE_INSTALLATION)
    except KeyboardInterrupt:
        return stopped(
            f"Stopped. What was finished is stored in {folder}: the same command goes on from there, and "
            f"`{shell('report', folder)}` shows what there is."
        )
    return _write_page(folder)


def report(options: argparse.Namespace) -> int:
    """Write the page of results again."""
    return _write_page(options.folder)


def _write_page(folder: Path) -> int:
    from scarless.papers import render_results  # noqa: PLC0415 (imports scikit-learn and SciPy)

    try:
        print(f"The report: {render_results(folder)}")
    except KeyboardInterrupt:
        return stopped(
            f"Stopped while the page was being written. All results are stored in {folder}: "
            f"`{shell('report', folder)}` writes the page."
        )
    return DONE


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add `compare`, `reproduce` and `report` to the command line."""
    own = commands.add_parser(
        "compare",
        help="compare methods on datasets, as a specification of your own says, and write a page with the results",
        description="Run the experiment that a TOML file specifies, with datasets, methods and labelling mechanisms of "
        "yours or of ours, and write report.html. A run that was stopped goes on where it was.",
    )
    own.add_argument("spec", type=Path, metavar="SPEC", help="the specification, a TOML file")
    _add_running(own, quick="what the specification's [quick] says; without it, few runs")
    run = commands.add_parser(
        "reproduce",
        help="run the paper's experiment and write a page with its results",
        description="Run the experiment of Bekker, Robberechts and Davis (2019) and write report.html. A run that was "
        "stopped goes on where it was.",
    )
    _add_running(run, quick="small datasets, few runs: minutes, nothing to download")
    run.set_defaults(spec=None)  # the paper's
    again = commands.add_parser("report", help="write the page again, without running anything")
    again.add_argument("folder", type=Path, metavar="DIR", help="where the results are")
    again.set_defaults(command=report, packages=PACKAGES, extra=REPRODUCE)


def _add_running(run: argparse.ArgumentParser, *, quick: str) -> None:
    run.add_argument("--quick", action="store_true", help=quick)
    run.add_argument("--datasets", nargs="+", metavar="NAME", help="only these, with commas or spaces between them")
    run.add_argument("--out", type=Path, metavar="DIR", help="where results go (default: a folder in results/)")
    run.add_argument("--jobs", type=_jobs, default=_cores(), metavar="N", help="worker processes (default: one a core)")
    run.add_argument("--data-home", type=Path, metavar="DIR", help="folder with the raw datasets, to read them from")
    run.add_argument("--no-download", action="store_true", help="leave out datasets that are not there yet")
    run.set_defaults(command=compare, packages=PACKAGES, extra=REPRODUCE)


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"the number of worker processes must be 1 or more, got {text!r}")
    return int(text)


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
