"""The commands `scarless compare`, `scarless reproduce` and `scarless report`, which run and report experiments."""

import argparse
import os
from pathlib import Path

from scarless.cli.screen import DONE, INCOMPLETE_INSTALLATION, Bars, fail, shell, stopped
from scarless.outside.extras import REPRODUCE

REPRODUCIBLE = ("bekker2019", "teisseyre2025", "field")
PACKAGES = ("jinja2", "pandas", "pooch", "rich")


def compare(options: argparse.Namespace) -> int:
    """Make the runs of an experiment whose results are not stored yet, and write its page."""
    # These modules import scikit-learn and SciPy, which `--help` does not need.
    from scarless.experiments import read_spec, run_experiment  # noqa: PLC0415
    from scarless.experiments.own import check_datasets  # noqa: PLC0415
    from scarless.papers import EXPERIMENTS, METHODS  # noqa: PLC0415
    from scarless.report.anchors import check_anchors  # noqa: PLC0415

    spec = read_spec(options.spec or EXPERIMENTS[options.experiment].PATH, quick=options.quick)
    check_datasets(spec)
    if spec.anchors:
        check_anchors(spec.anchors, f"The file of published numbers of {spec.name}")
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
            f"Stopped. All finished runs are stored in {folder}. Repeat the command to continue, or use "
            f"`{shell('report', folder)}` to write a page of the finished runs."
        )
    return _write_page(folder)


def report(options: argparse.Namespace) -> int:
    """Write the page of an experiment from its stored results."""
    return _write_page(options.folder)


def _write_page(folder: Path) -> int:
    from scarless.papers import render_results  # noqa: PLC0415 (imports scikit-learn and SciPy)

    try:
        print(f"Report: {render_results(folder)}")
    except KeyboardInterrupt:
        return stopped(
            f"Stopped while the page was being written. All results are stored in {folder}. Use "
            f"`{shell('report', folder)}` to write the page."
        )
    return DONE


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add `compare`, `reproduce` and `report` to the command line."""
    own = commands.add_parser(
        "compare",
        help="compare methods on datasets and write a page with the results; a TOML file specifies the experiment",
        description="Run the experiment that a TOML file specifies, and write report.html. Datasets, methods and "
        "labelling mechanisms can be built-in or your own. If the command is stopped, repeat it to continue.",
    )
    own.add_argument("spec", type=Path, metavar="SPEC", help="specification of the experiment, a TOML file")
    _add_running(
        own,
        quick="make only the few runs of the [quick] table of SPEC (without this table: 2 splits, 1 labelling)",
    )
    run = commands.add_parser(
        "reproduce",
        help="run an experiment of a publication, or our comparison of the field, and write a page with the results",
        description="Run an experiment and write report.html: bekker2019 is the experiment of Bekker, Robberechts and "
        "Davis (2019); teisseyre2025 has the tables, splits and labels of Teisseyre et al. (2025), with their numbers "
        "beside ours; field compares the methods of the field with ours. If the command is stopped, repeat it "
        "to continue.",
    )
    run.add_argument(
        "experiment", nargs="?", choices=REPRODUCIBLE, default=REPRODUCIBLE[0], metavar="EXPERIMENT",
        help=f"{', '.join(REPRODUCIBLE[:-1])} or {REPRODUCIBLE[-1]} (default: {REPRODUCIBLE[0]})",
    )  # fmt: skip
    _add_running(run, quick="use small datasets and few runs, which takes minutes")
    run.set_defaults(spec=None)  # None selects the specification of the named experiment.
    again = commands.add_parser(
        "report",
        help="write the page of an experiment from its stored results, without new runs",
        description="Write the page of an experiment from its stored results, without new runs.",
    )
    again.add_argument("folder", type=Path, metavar="DIR", help="folder with the results")
    again.set_defaults(command=report, packages=PACKAGES, extra=REPRODUCE)


def _add_running(run: argparse.ArgumentParser, *, quick: str) -> None:
    run.add_argument("--quick", action="store_true", help=quick)
    run.add_argument(
        "--datasets", nargs="+", metavar="NAME", help="use only these datasets; separate the names by commas or spaces"
    )
    run.add_argument("--out", type=Path, metavar="DIR", help="folder for the results (default: a folder in results/)")
    jobs = "number of worker processes (default: one for each core)"
    run.add_argument("--jobs", type=_jobs, default=_cores(), metavar="N", help=jobs)
    home = "folder to search for datasets before downloading them (default: the environment variable SCARLESS_DATA)"
    run.add_argument("--data-home", type=Path, metavar="DIR", help=home)
    run.add_argument(
        "--no-download", action="store_true", help="leave out datasets that have not been downloaded before"
    )
    run.set_defaults(command=compare, packages=PACKAGES, extra=REPRODUCE)


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"the number of worker processes must be a whole number of at least 1; got {text!r}"
        )
    return int(text)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
