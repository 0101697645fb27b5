"""`scarless inspect`, `fit`, `predict` and `export`: a thin shell over `scarless.analysis`."""

import argparse
import shlex
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Timer
from typing import Any

from scarless import analysis
from scarless.analysis.settings import (
    MODEL,
    OLD_FLAGS,
    REPORT,
    RUN,
    SCORED,
    check_folder,
    check_name,
    declarations,
    read_run,
    renamed,
)
from scarless.analysis.values import NO_LABEL
from scarless.cli.screen import DONE, shell, stopped
from scarless.outside.files import check_place
from scarless.outside.plain_words import plain
from scarless.outside.progress import duration

PACKAGES = ("pandas", "pyarrow", "skrub", "skops", "jinja2")
EXTRA = "tool"
INSPECTED = ("label", "audit", "pos_label", "exclude", "number", "text")  # settings that `inspect` takes
_WAYS = {"propensity_attributes", "scar", "known_propensity"}
_OF_LABELS = {"label_frequency", "label_frequency_se"}  # by the columns of labels
_OF_LOOKS = {"visit_attributes", "shared"}
SECONDS_OF_SILENCE = 2.0  # after which a stage is named


class Stages:
    """Lines on the screen that say what is being done, and how long it took.

    A stage that takes more than two seconds is named while it runs, so that nobody looks at an empty screen.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.what, self.since = "", time.monotonic()
        self._timer: Timer | None = None

    def __call__(self, what: str) -> None:
        """Begin another stage."""
        self.end()
        self.what, self.since = what[:1].upper() + what[1:], time.monotonic()
        if not self.quiet:
            self._timer = Timer(SECONDS_OF_SILENCE, partial(print, f"{self.what} ...", file=sys.stderr, flush=True))
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Say how long the stage took."""
        if self._timer is not None:
            self._timer.cancel()
        if self.what and not self.quiet:
            print(f"{self.what} ({duration(time.monotonic() - self.since)})", file=sys.stderr, flush=True)
        self.what = ""

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """Name a stage that ends with the block."""
        self(what)
        yield
        self.end()


def inspect(options: argparse.Namespace) -> int:
    """Show columns, gaps, leaks, and what labels depend on."""
    from scarless.analysis.files import inspect_files, with_advice  # noqa: PLC0415 (imports the models)

    said, file = _said(options, INSPECTED), options.file
    roles = {name: said.pop(name) for name in ("exclude", "number", "text") if name in said}
    if not said.get("label"):
        raise ValueError(NO_LABEL)
    if file.is_dir():
        from scarless.scale import ParquetRows  # noqa: PLC0415 (an optional package)

        print(inspect_files(ParquetRows(file), columns=analysis.ColumnRoles(**roles), **said))
    else:
        table, told = _read(options)
        found = analysis.inspect_table(table, columns=analysis.ColumnRoles(**roles), **said)
        found = replace(found, notes=(*told, *found.notes))
        print(with_advice(found, [str(file)]) if file.suffix == ".parquet" else found)
    return DONE


def fit(options: argparse.Namespace) -> int:
    """Fit both models to a file, and write model, report and ranked rows."""
    config = read_run(options.config) if options.config else {}
    values = _settings(options, config)
    source = config.pop("source", {}) if isinstance(config.get("source"), dict) else {}
    options.file = options.file or (Path(source["file"]) if "file" in source else None)
    options.sheet = options.sheet or source.get("sheet")
    if options.file is None:
        raise ValueError("Which file? Name one: scarless fit patients.csv --label diagnosed --propensity visits.")
    folder = options.out or Path(_stem(options.file))
    ranked = options.ranked or values.pop("ranked", None) or "ranked.csv"
    values.pop("ranked", None)
    check_folder(folder, force=options.force)
    _check_table(Path(check_name(ranked)))
    settings = analysis.Settings.from_dict(values, source="the command line")
    screen = Stages(quiet=options.quiet)
    if _is_many(options):
        return _fit_files(options, settings, folder, screen)
    try:
        with screen.stage(f"reading {options.file.name}"):
            table, told = _read(options)
            facts = {"file": str(options.file), "sha256": _hash(options.file), "rows": len(table)}
            facts |= {"sheet": options.sheet} if options.sheet else {}
        found = analysis.analyse_table(table, settings, source=facts, progress=screen)
        found.notes[:0] = told
        found.save(folder, force=options.force, ranked=ranked, progress=screen)
    except KeyboardInterrupt:
        return stopped("Stopped. Nothing was written.")
    screen.end()
    _say(found, folder, ranked)
    return DONE


def _fit_files(options: argparse.Namespace, settings: "analysis.Settings", folder: Path, screen: Stages) -> int:
    """Fit both models to all rows of a folder of Parquet files; report on a sample, and write predictions."""
    rows = _rows(options)
    try:
        plan = rows.plan(raw=True)
        facts = {"file": str(options.file), "files": len(rows.files), "rows": plan.n_rows, "plan": plan.key}
        found = analysis.analyse_files(rows, settings, source=facts, progress=screen)
        found.save(folder, force=options.force, progress=screen)
        screen("writing predictions of all rows")
        found.score(folder / SCORED)
    except KeyboardInterrupt:
        return stopped(f"Stopped. Once {folder / MODEL} is there, the rest: {_to_go_on(options, folder)}")
    screen.end()
    _say(found, folder, SCORED)
    return DONE


def _to_go_on(options: argparse.Namespace, folder: Path) -> str:
    return shell("predict", folder, options.file, "--out", folder / SCORED)


def _is_many(options: argparse.Namespace) -> bool:
    """Whether rows are to stay in their files: those of a folder, or those that a scheduler walks."""
    return options.scheduler is not None or (options.file.is_dir() and any(options.file.rglob("*.parquet")))


def _rows(options: argparse.Namespace) -> Any:
    from scarless.scale import ParquetRows  # noqa: PLC0415 (an optional package)

    return ParquetRows(options.file, scheduler=options.scheduler)


def predict(options: argparse.Namespace) -> int:
    """Rank the rows of another file by a stored model."""
    from scarless.outside.table_files import write_table  # noqa: PLC0415 (an optional package)
    from scarless.saved import load  # noqa: PLC0415 (an optional package)

    if _is_many(options):
        check_place(options.out)
        model = load(_model_file(options.model))
        done = analysis.predict_files(model, _rows(options), options.out, force=options.force)
        print(f"{done.n_rows:,} rows in {len(done.files):,} files, {done.n_new:,} of them new: {options.out}")
        return DONE
    _refuse_existing(options, "The ranked rows of one table are", "ranked.csv")
    _check_table(options.out)
    table, told = _read(options)
    ranked, notes = analysis.predict_table(load(_model_file(options.model)), table)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(ranked, options.out)
    for note in (*told, *notes):
        print(f"Note: {note}")
    print(f"{len(ranked):,} rows, ranked: {options.out}")
    return DONE


def export(options: argparse.Namespace) -> int:
    """Write a stored model as an ONNX graph."""
    from scarless.saved import load, save_onnx  # noqa: PLC0415 (optional packages)

    _refuse_existing(options, "An ONNX graph is", "model.onnx")
    model = load(_model_file(options.model))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save_onnx(model, options.out)
    print(f"The graph: {options.out}. What to feed is said at each of its inputs, and in its metadata.")
    return DONE


def _check_table(path: Path) -> None:
    """Raise where no table is written to a file of that name: before the work."""
    from scarless.outside.table_columns import file_of  # noqa: PLC0415 (with the rest of reading and writing)

    file_of(path)


def _refuse_existing(options: argparse.Namespace, what: str, name: str) -> None:
    """Raise where something is in the way of a file, or no file can be written; its folder is made later."""
    check_place(options.out)
    if options.out.is_dir():
        raise IsADirectoryError(
            f"{options.out} is a folder. {what} written to a file: name one, as in --out "
            f"{shlex.quote(str(options.out / name))}."
        )
    if options.out.exists() and not options.force:
        raise FileExistsError(
            f"{options.out} is there already. Choose another name (--out), or replace it with --force."
        )


def _model_file(path: Path) -> Path:
    """Return the file of a model, which may be named by the folder it lies in."""
    return path / MODEL if path.is_dir() else path


def _said(options: argparse.Namespace, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return what the command line says, by the names of settings."""
    asked = [name for name, _ in declarations()] if names is None else names
    said = {name: getattr(options, name) for name in asked if getattr(options, name) is not None}
    if options.looks:
        if "label" in said:
            raise ValueError("--label and --looks contradict each other: name all columns of labels by --looks.")
        said["label"] = tuple(options.looks)
    return said


def _settings(options: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    """Return what the command line says, and where it says nothing what the file of an earlier run does."""
    said = _said(options)
    file = {key: value for key, value in config.items() if key not in ("source", "versions")}
    values = renamed(file, source=str(options.config))
    instead = _WAYS if _WAYS & said.keys() else set()  # of the file, which the command line takes the place of
    if "label" in said:
        instead = instead | _OF_LABELS | (_OF_LOOKS if isinstance(said["label"], str) else set())
    if "label_frequency" in said:
        instead = instead | _OF_LABELS
    values = {key: value for key, value in values.items() if key not in instead} | said
    unknown = [key for key in values if key not in {*(name for name, _ in declarations()), "ranked"}]
    if unknown:
        raise ValueError(f"{options.config}: there is no setting {unknown[0]!r}.")
    if not values.get("label"):
        raise ValueError(NO_LABEL)
    return values


def _read(options: argparse.Namespace) -> tuple[Any, list[str]]:
    """Return the table of a file, and what reading it has to say."""
    from scarless.outside.table_files import read_table  # noqa: PLC0415 (an optional package)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        table = read_table(options.file, separator=options.separator, encoding=options.encoding, sheet=options.sheet)
    return table, list(dict.fromkeys(plain(each.message) for each in caught if issubclass(each.category, UserWarning)))


def _hash(path: Path) -> str:
    if not path.is_file():
        return ""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _stem(path: Path) -> str:
    """Return what a folder of results is called by default: after the file."""
    return f"{path.name.split('.')[0]}-run"


def _say(found: "analysis.Analysis", folder: Path, ranked: str) -> None:
    """Print the answer, what to know of it, and where it all is."""
    from scarless.report.words import share  # noqa: PLC0415 (models; --help does not need them)

    facts = found.summary()
    print(f"{facts['labelled']:,} of {facts['rows']:,} rows are labelled{_weighted(facts)}.")
    if "looks" in facts:
        took = ", ".join(f"{each['column']} {each['label_frequency']:.0%}" for each in facts["looks"])
        print(f"Of the positives a look finds: {took}; all looks that took place {facts['label_frequency']:.0%}.")
    if found.silent:
        print(f"{facts['doubt'][:1].upper()}{facts['doubt'][1:]}. The chances of ranked rows do not tell it either.")
    elif facts["class_prior"] is not None:
        missing, doubt = facts["missing_positives"], f", {facts['doubt']}" if facts["doubt"] else ""
        answer = f"Estimated positives: {facts['positives']:,.0f}, {share(facts['class_prior'])} of the rows"
        rest = f"{missing:,.0f} of them {'has' if round(missing) == 1 else 'have'} no label"
        print(f"{answer}{_between(facts)}{doubt}; {rest}.")
    if "first_rows" in facts:
        print(facts["first_rows"]["sentence"])
    for note in found.notes:
        print(f"Note: {note}")
    again = shell("fit", "--config", folder / RUN)
    print(f"Ranked rows: {folder / ranked}; model: {folder / MODEL}; to repeat: {again}")
    print(f"The report: {folder / REPORT}")


def _weighted(facts: dict[str, Any]) -> str:
    """Return what labelled rows and all rows weigh, and that positives are counted so; nothing without weights."""
    if "weight" not in facts:
        return ""
    sums = f"{facts['weight_labelled']:,.0f} of {facts['weight']:,.0f}"
    column = facts["settings"]["sample_weight"]
    return f"; with the weights of {column!r} they count as {sums}, and positives are counted so"


def _between(facts: dict[str, Any]) -> str:
    """Return the interval of the share of positives; nothing where there is none."""
    from scarless.report.words import share_range  # noqa: PLC0415 (models; --help does not need them)

    ends = facts["class_prior_interval"]
    return "" if not ends or None in ends else f" ({share_range(*ends)})"


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add `inspect`, `fit`, `predict` and `export` to the command line."""
    look = commands.add_parser("inspect", help="look at a file: columns, gaps, leaks, what labels depend on")
    look.add_argument(
        "file", type=Path, metavar="FILE", help="CSV, TSV, Parquet, Arrow or Excel; or a folder of Parquet"
    )
    _add_settings(look, INSPECTED)
    _add_reading(look)
    look.set_defaults(command=inspect, packages=PACKAGES, extra=EXTRA)
    _add_fit(commands.add_parser("fit", help="learn from a file who is positive and who gets labelled; write a report"))
    again = commands.add_parser("predict", help="rank the rows of another file by a stored model")
    again.add_argument("model", type=Path, metavar="MODEL", help=f"{MODEL} of a fit, or the folder it lies in")
    again.add_argument("file", type=Path, metavar="FILE", help="rows to rank; or a folder of Parquet files")
    again.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="where they go: CSV or Parquet by suffix; or a folder"
    )
    again.add_argument("--scheduler", metavar="ADDRESS", help="who walks a folder's files: as for `fit`")
    again.add_argument("--force", action="store_true", help="replace a file of that name")
    _add_reading(again)
    again.set_defaults(command=predict, packages=PACKAGES, extra=EXTRA)
    graph = commands.add_parser("export", help="write a stored model as an ONNX graph, preparation included")
    graph.add_argument("model", type=Path, metavar="MODEL", help=f"{MODEL} of a logistic fit, or its folder")
    graph.add_argument("--out", type=Path, required=True, metavar="FILE", help="where it goes, a name in .onnx")
    graph.add_argument("--force", action="store_true", help="replace a file of that name")
    graph.set_defaults(command=export, packages=(*PACKAGES, "onnx"), extra=f"{EXTRA},onnx")


def _add_fit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, nargs="?", metavar="FILE", help="CSV, TSV, Parquet, Arrow or Excel; or a folder of Parquet")
    _add_settings(parser)
    add(
        "--scheduler",
        metavar="ADDRESS",
        help="for a folder: `threads` (default), `ray`, or a Dask scheduler, tcp://...",
    )
    add("--out", type=Path, metavar="DIR", help="folder for the results (default: FILE-run)")
    add("--ranked", metavar="NAME", help="file of ranked rows in it, .csv or .parquet (default: ranked.csv)")
    add("--config", type=Path, metavar="FILE", help="run.toml of an earlier fit, to repeat it; options go before it")
    add("--force", action="store_true", help="replace results of an earlier fit in that folder")
    add("--quiet", action="store_true", help="say nothing on the way")
    _add_reading(parser)
    parser.set_defaults(command=fit, packages=PACKAGES, extra=EXTRA)


def _add_settings(parser: argparse.ArgumentParser, names: Iterable[str] | None = None) -> None:
    """Add the flags of settings, as they are declared; those of earlier versions say what they are called now."""
    for name, declared in declarations():
        if names is None or name in names:
            parser.add_argument(*declared.flags, dest=name, help=declared.help, **declared.options)
        if name == "label":
            parser.add_argument(
                "--looks",
                nargs="+",
                metavar="COLUMN",
                help="in place of --label: columns of several looks, yes or no; an empty cell is no look at all",
            )
    for old, new in OLD_FLAGS.items():
        parser.add_argument(old, nargs="*", action=_Renamed, const=new, help=argparse.SUPPRESS)


class _Renamed(argparse.Action):
    """A flag of an earlier version: an error that says what it is called now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.error(f"{self.option_strings[0]} is now called {self.const}")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--separator", metavar="CHARACTER", help="between the cells of a CSV file (default: found)")
    add("--encoding", default="utf-8", metavar="NAME", help="of a CSV file (default: utf-8)")
    add("--sheet", metavar="NAME", help="of an Excel workbook (default: the first)")
