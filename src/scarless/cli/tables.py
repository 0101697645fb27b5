"""The commands `scarless inspect`, `fit`, `audit`, `predict` and `export`, which call `scarless.analysis`."""

import argparse
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
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
from scarless.analysis.values import NO_LABEL, column_name
from scarless.cli.screen import DONE, shell, stopped
from scarless.outside.files import check_place
from scarless.outside.plain_words import plain
from scarless.outside.progress import duration
from scarless.outside.shell_words import quoted

INPUT_FILE = "CSV, TSV, Parquet, Arrow or Excel file, or a folder of Parquet files"
PACKAGES = ("pandas", "pyarrow", "skrub", "skops", "jinja2")
EXTRA = "tool"
INSPECT_SETTINGS = ("label", "audit", "pos_label", "exclude", "number", "text")
# Settings of --config that are ignored if a related setting is given on the command line.
_LABELLING_SETTINGS = {"propensity_attributes", "scar", "known_propensity"}
_FREQUENCY_SETTINGS = {"label_frequency", "label_frequency_se"}
_LOOK_SETTINGS = {"visit_attributes", "shared"}
_READING = ("separator", "encoding", "sheet")  # how the file is read
SECONDS_BEFORE_NOTICE = 2.0  # of a stage; a slower stage is announced while it still runs


class Stages:
    """Progress lines: one line at the end of each stage, with the time that the stage took.

    A stage that takes more than two seconds has another line, which is printed while the stage runs.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.what, self.since = "", time.monotonic()
        self._timer: Timer | None = None

    def __call__(self, what: str) -> None:
        """End the current stage and begin the stage `what`."""
        self.end()
        self.what, self.since = what[:1].upper() + what[1:], time.monotonic()
        if not self.quiet:
            self._timer = Timer(SECONDS_BEFORE_NOTICE, partial(print, f"{self.what} ...", file=sys.stderr, flush=True))
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Print the stage with the time that it took."""
        if self._timer is not None:
            self._timer.cancel()
        if self.what and not self.quiet:
            print(f"{self.what} ({duration(time.monotonic() - self.since)})", file=sys.stderr, flush=True)
        self.what = ""

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """Return a context manager that runs its body as one stage."""
        self(what)
        yield
        self.end()


def inspect(options: argparse.Namespace) -> int:
    """Print the columns of a file, which of them leak the label, and which of them the labels depend on."""
    from scarless.analysis.files import inspect_files, with_advice  # noqa: PLC0415 (imports the models)

    given, file = _given_settings(options, INSPECT_SETTINGS), options.file
    roles = {name: given.pop(name) for name in ("exclude", "number", "text") if name in given}
    if not given.get("label"):
        raise ValueError(NO_LABEL)
    if file.is_dir():
        from scarless.scale import ParquetRows  # noqa: PLC0415 (an optional package)

        print(inspect_files(ParquetRows(file), columns=analysis.ColumnRoles(**roles), **given))
    else:
        table, notes = _read(options)
        found = analysis.inspect_table(table, columns=analysis.ColumnRoles(**roles), **given)
        found = replace(found, notes=(*notes, *found.notes))
        print(with_advice(found, [str(file)]) if file.suffix == ".parquet" else found)
    return DONE


def fit(options: argparse.Namespace) -> int:
    """Fit both models to a file, and write the model, the report and the ranked rows."""
    from scarless.analysis.audit_history import file_hash, refuse_lost_worksheets, with_answers  # noqa: PLC0415

    if options.config and options.config.is_dir():
        options.config = options.config / RUN
    config = read_run(options.config) if options.config else {}
    history, answer_notes = _history(options)
    values = _settings(options, config)
    source = config.pop("source", {}) if isinstance(config.get("source"), dict) else {}
    options.file = options.file or (Path(source["file"]) if "file" in source else None)
    for name in _READING:
        setattr(options, name, getattr(options, name) or source.get(name))
    _refuse_swallowed_file(options)
    if options.file is None:
        raise ValueError(
            "No input file is given. Example: scarless fit patients.csv --label diagnosed --propensity visits."
        )
    if options.file == Path(source.get("file", "")) and not options.file.exists():
        raise FileNotFoundError(
            f"{options.file}, the file of {options.config}, does not exist. Run this command in the folder of the "
            f"earlier fit, or name the file: scarless fit FILE --config {quoted(str(options.config))}."
        )
    folder = options.out or Path(_stem(options.file))
    ranked = options.ranked or values.pop("ranked", None) or "ranked.csv"
    values.pop("ranked", None)
    refuse_lost_worksheets(check_folder(folder, force=options.force), history)
    _check_table(Path(check_name(ranked)))
    settings = analysis.Settings.from_dict(values, source="the command line")
    screen = Stages(quiet=options.quiet)
    if _stays_in_files(options):
        return _fit_files(options, settings, folder, screen)
    try:
        with screen.stage(f"reading {options.file.name}"):
            table, notes = _read(options)
            source = {"file": str(options.file), "sha256": file_hash(options.file), "rows": len(table)}
            source |= {name: getattr(options, name) for name in _READING if getattr(options, name)}
        notes = [*notes, *answer_notes]
        if history is not None and history.is_for_another_file(source["sha256"]):
            history = None
            notes.append(f"The worksheets of {options.config.parent} are for another file, and are not used.")
        if history is not None:
            joined, history, join_notes = history.join(table, source["sha256"])
            notes += join_notes
            if history.answered.any():
                table, settings = joined, with_answers(settings)
        found = analysis.analyse_table(table, settings, source=source, history=history, progress=screen)
        found.notes[:0] = notes
        found.save(folder, force=options.force, ranked=ranked, progress=screen)
    except KeyboardInterrupt:
        return stopped("Stopped. Nothing was written.")
    screen.end()
    _print_answer(found, folder, ranked)
    return DONE


def _refuse_swallowed_file(options: argparse.Namespace) -> None:
    """Raise if the input file follows an option that takes several names, and was read as one of these names."""
    from scarless.outside.table_files import table_suffixes  # noqa: PLC0415 (--help does not need it)

    lists = {"--looks": options.looks}
    lists |= {
        each.flags[0]: getattr(options, name) for name, each in declarations() if each.options.get("nargs") == "+"
    }
    for flag, values in lists.items():
        for word in map(str, values or ()):
            if word.lower().endswith(table_suffixes()) and Path(word).exists():
                raise ValueError(
                    f"{word} is a file, but it was read as a value of {flag}, which takes several. Write the file "
                    f"before the options: scarless fit {quoted(word)} {flag} ..."
                )


def _history(options: argparse.Namespace) -> tuple[Any, list[str]]:
    """Return the worksheets of the results that --config names, with the answers of a worksheet in --audit, and notes.

    --audit names a worksheet if it has the suffix of a table; otherwise it names a column.
    """
    from scarless.analysis.audit_history import read_history  # noqa: PLC0415 (imports checks)
    from scarless.outside.table_files import table_suffixes  # noqa: PLC0415 (--help does not need it)

    history = read_history(options.config.parent) if options.config else None
    given = options.audit and Path(options.audit)
    if not given or not str(options.audit).lower().endswith(table_suffixes()):
        if given and history is not None and history.answered.any():
            raise ValueError(
                f"--audit {given} names a column, but the results in {options.config.parent} have answers of "
                "worksheets. Remove --audit, or name a worksheet."
            )
        return history, []
    if not given.exists():
        raise FileNotFoundError(f"{given} (--audit) does not exist. Name a worksheet, or a column of the table.")
    if options.config is None:
        raise ValueError(
            f"--audit {given} is a file. The answers of a worksheet need the results that it was drawn from: "
            f"scarless fit --config FOLDER/{RUN} --audit {quoted(str(given))}."
        )
    if history is None:
        raise ValueError(f"No worksheet was drawn from {options.config.parent}, so {given} belongs to other results.")
    options.audit = None
    filled, notes = _read_worksheet(given)
    found, answer_notes = history.with_answers(filled, given.name)
    return found, [*notes, *answer_notes]


def _read_worksheet(path: Path) -> tuple[Any, list[str]]:
    """Return a worksheet that was filled in and saved by a spreadsheet program, and warnings.

    Excel saves text files in another encoding than UTF-8. A wrong guess is harmless, because ids would not be found.
    """
    from scarless.analysis.audit_history import SHEET  # noqa: PLC0415 (imports checks)

    how = argparse.Namespace(file=path, separator=None, encoding=None, sheet=None)
    if path.suffix.lower() == ".xlsx":
        try:
            return _read(argparse.Namespace(**{**vars(how), "sheet": SHEET}))
        except ValueError:  # There is no such sheet: read the first.
            return _read(how)
    if path.suffix.lower() in (".csv", ".tsv", ".txt") and path.is_file():
        content = path.read_bytes()
        how.encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else None
        try:
            content.decode(how.encoding or "utf-8")
        except UnicodeDecodeError:
            how.encoding = "cp1252"
    return _read(how)


def audit(options: argparse.Namespace) -> int:
    """Write a worksheet of rows to check."""
    from scarless.analysis.worksheet import draw_worksheet  # noqa: PLC0415 (imports the models)

    _check_table(options.out)
    check_place(options.out)
    drawn = draw_worksheet(
        options.run, options.n, purpose=options.purpose, strata=options.strata or "", random_state=options.seed
    )
    drawn.save(options.out)
    for note in drawn.notes:
        print(note)
    again = shell("fit", "--config", options.run / RUN, "--audit", options.out, "--out", f"{options.run}-checked")
    print(f"Fill in the column 'checked': yes, no or unsure. Then run: {again}")
    print(f"Worksheet: {options.out}")
    return DONE


def _fit_files(options: argparse.Namespace, settings: "analysis.Settings", folder: Path, screen: Stages) -> int:
    """Fit both models to Parquet files, write a report on a sample of the rows, and write predictions of all rows."""
    rows = _rows(options)
    try:
        plan = rows.plan(raw=True)
        source = {"file": str(options.file), "files": len(rows.files), "rows": plan.n_rows, "plan": plan.key}
        found = analysis.analyse_files(rows, settings, source=source, progress=screen)
        found.save(folder, force=options.force, progress=screen)
        screen("writing predictions for all rows")
        found.score(folder / SCORED)
    except KeyboardInterrupt:
        command = shell("predict", folder, options.file, "--out", folder / SCORED)
        return stopped(f"Stopped. If {folder / MODEL} exists, use this command to write the predictions: {command}")
    screen.end()
    _print_answer(found, folder, SCORED)
    return DONE


def _stays_in_files(options: argparse.Namespace) -> bool:
    """Return whether rows are read from files in parts: for a folder of Parquet files, and with --scheduler."""
    return options.scheduler is not None or (options.file.is_dir() and any(options.file.rglob("*.parquet")))


def _rows(options: argparse.Namespace) -> Any:
    from scarless.scale import ParquetRows  # noqa: PLC0415 (an optional package)
    from scarless.scale.executors import start_ray  # noqa: PLC0415 (an optional package)

    if options.scheduler == "ray":
        start_ray()
    return ParquetRows(options.file, scheduler=options.scheduler)


def predict(options: argparse.Namespace) -> int:
    """Rank the rows of another file with a stored model, and check whether the model is still right for them."""
    from scarless.analysis.drift import drift_files, write_drift  # noqa: PLC0415 (imports the models)
    from scarless.outside.table_files import write_table  # noqa: PLC0415 (an optional package)
    from scarless.saved import load  # noqa: PLC0415 (an optional package)

    if _stays_in_files(options):
        return _predict_files(options)
    _refuse_existing(options, "The ranked rows of one table are", "ranked.csv")
    _check_table(options.out)
    for path in drift_files(options.out):
        _refuse_existing(argparse.Namespace(**{**vars(options), "out": path}), "The check for drift is", path.name)
    table, read_notes = _read(options)
    model = load(_model_file(options.model))
    ranked, notes = analysis.predict_table(model, table, label=options.label, pos_label=options.pos_label)
    drift = analysis.table_drift(model, table, label=options.label, pos_label=options.pos_label)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(ranked, options.out)
    page, _ = write_drift(drift, options.out, _facts(options))
    for note in (*read_notes, *notes):
        print(f"Note: {note}")
    print(f"Ranked {len(ranked):,} rows: {options.out}")
    _print_drift(drift, page)
    return DONE


def _predict_files(options: argparse.Namespace) -> int:
    """Write predictions for Parquet files, and check a sample of the rows for drift."""
    if options.pos_label:
        raise ValueError(
            "--pos-label is not available for a folder of files. Store the labels in the files as in the fit, or rank "
            "the rows of a single file."
        )
    from scarless.analysis.drift import drift_files, write_drift  # noqa: PLC0415 (imports the models)
    from scarless.saved import load  # noqa: PLC0415 (an optional package)

    check_place(options.out)
    model, rows = load(_model_file(options.model)), _rows(options)
    done = analysis.predict_files(model, rows, options.out, force=options.force, label=options.label)
    n = len(done.files)
    files = f"{n:,} files" if n != 1 else "1 file"
    print(f"Predictions of {done.n_rows:,} rows: {files} in {options.out}, {done.n_new:,} written by this command")
    there = [path for path in drift_files(options.out) if path.exists()]
    if there and not options.force:
        print(f"{there[0]} exists, so the rows are not checked for drift again. To replace it, use --force.")
        return DONE
    drift = analysis.files_drift(model, rows, label=options.label)
    _print_drift(drift, write_drift(drift, options.out, _facts(options))[0])
    return DONE


def _facts(options: argparse.Namespace) -> dict[str, str]:
    """Return what the page about drift says about its origin."""
    return {"new rows": str(options.file), "model": str(_model_file(options.model)), "ranked rows": str(options.out)}


def _print_drift(drift: Any, page: Path) -> None:
    for line in drift.sentences():
        print(plain(line))
    print(f"Drift: {page}")


def export(options: argparse.Namespace) -> int:
    """Write a stored model as an ONNX graph."""
    from scarless.saved import load, save_onnx  # noqa: PLC0415 (optional packages)

    _refuse_existing(options, "An ONNX graph is", "model.onnx")
    model = load(_model_file(options.model))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    save_onnx(model, options.out)
    print(f"ONNX graph: {options.out}. The metadata `scarless`, and the doc string of each input, describe the inputs.")
    return DONE


def _check_table(path: Path) -> None:
    """Raise if a file name has no suffix of a table that can be written; called before any work is done."""
    from scarless.outside.table_columns import file_of  # noqa: PLC0415 (--help does not need it)

    file_of(path)


def _refuse_existing(options: argparse.Namespace, what: str, name: str) -> None:
    """Raise if the output file exists or cannot be written."""
    check_place(options.out)
    if options.out.is_dir():
        raise IsADirectoryError(
            f"{options.out} is a folder. {what} written to a file. Name this file, for example --out "
            f"{quoted(str(options.out / name))}."
        )
    if options.out.exists():
        inputs = [getattr(options, "file", None), _model_file(options.model)]
        if any(each is not None and each.exists() and each.samefile(options.out) for each in inputs):
            raise ValueError(f"{options.out} is an input of this command. Choose another name (--out).")
        if not options.force:
            raise FileExistsError(f"{options.out} exists. Choose another name (--out), or replace it with --force.")


def _model_file(path: Path) -> Path:
    """Return the path of the model file; `path` is this file or its folder."""
    return path / MODEL if path.is_dir() else path


def _given_settings(options: argparse.Namespace, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return the settings that are given on the command line."""
    wanted = [name for name, _ in declarations()] if names is None else names
    given = {name: getattr(options, name) for name in wanted if getattr(options, name) is not None}
    if options.looks:
        if "label" in given:
            raise ValueError("--label and --looks cannot be combined. Name all label columns with --looks.")
        given["label"] = tuple(options.looks)
    return given


def _settings(options: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the command line and of --config; the command line takes precedence."""
    given = _given_settings(options)
    file = {key: value for key, value in config.items() if key not in ("source", "versions")}
    values = renamed(file, source=str(options.config))
    replaced = _LABELLING_SETTINGS if _LABELLING_SETTINGS & given.keys() else set()
    if "label" in given:
        replaced = replaced | _FREQUENCY_SETTINGS | (_LOOK_SETTINGS if isinstance(given["label"], str) else set())
    if "label_frequency" in given:
        replaced = replaced | _FREQUENCY_SETTINGS
    values = {key: value for key, value in values.items() if key not in replaced} | given
    unknown = [key for key in values if key not in {*(name for name, _ in declarations()), "ranked"}]
    if unknown:
        raise ValueError(f"{options.config}: there is no setting {unknown[0]!r}. Remove it, or correct its name.")
    if not values.get("label"):
        raise ValueError(NO_LABEL)
    return values


def _read(options: argparse.Namespace) -> tuple[Any, list[str]]:
    """Return the table of a file, and the warnings that were raised while it was read."""
    from scarless.outside.table_files import read_table  # noqa: PLC0415 (an optional package)

    given = {name: getattr(options, name) for name in _READING if getattr(options, name)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        table = read_table(options.file, **given)
    return table, list(dict.fromkeys(plain(each.message) for each in caught if issubclass(each.category, UserWarning)))


def _stem(path: Path) -> str:
    """Return the default name of the folder of results."""
    return f"{path.name.split('.')[0]}-run"


def _print_answer(found: "analysis.Analysis", folder: Path, ranked: str) -> None:
    """Print the estimates, the notes and the paths of the results."""
    # Imported here, because these modules import the models, which --help does not need.
    from scarless.report.fit.answer import estimate_sentences  # noqa: PLC0415
    from scarless.report.fit.data import IntervalEstimate  # noqa: PLC0415

    summary = found.summary()
    have = "has" if summary["labelled"] == 1 else "have"
    print(f"{summary['labelled']:,} of {summary['rows']:,} rows {have} a label{_weighted(summary)}.")
    if "looks" in summary:
        shares = ", ".join(f"{each['column']} {each['label_frequency']:.0%}" for each in summary["looks"])
        total = f"{summary['label_frequency']:.0%}"
        print(f"Share of positives that got a label at each look: {shares}; at any look: {total}.")
    if found.is_uninformative:
        doubt = f"{summary['doubt'][:1].upper()}{summary['doubt'][1:]}"
        print(f"{doubt}. The probabilities in the file of ranked rows do not show this number either.")
    elif summary["class_prior"] is not None:
        share = IntervalEstimate(summary["class_prior"], *(summary["class_prior_interval"] or (None, None)))
        missing = IntervalEstimate(summary["missing_positives"])
        print(estimate_sentences(share, summary["positives"], missing, summary["level"], summary["doubt"]))
    if "first_rows" in summary:
        print(summary["first_rows"]["sentence"])
    for sentence in [] if found.changes is None else found.changes.sentences():
        print(sentence)
    print(f"Model: {summary['used']}")
    for remark in summary.get("heterogeneity", {}).get("remarks", []):
        print(f"Note: {remark}")
    for note in found.notes:
        print(f"Note: {note}")
    again = shell("fit", "--config", folder / RUN)
    print(f"Ranked rows: {folder / ranked}")
    print(f"Model file: {folder / MODEL}")
    print(f"To repeat this analysis: {again}")
    print(f"Report: {folder / REPORT}")


def _weighted(summary: dict[str, Any]) -> str:
    """Return a clause with the weight of the labelled rows and of all rows, or "" if rows have no weights."""
    if "weight" not in summary:
        return ""
    sums = f"{summary['weight_labelled']:,.0f} of {summary['weight']:,.0f}"
    column = summary["settings"]["sample_weight"]
    return f". Weighted by {column!r}, these are {sums}. Estimated numbers of positives are weighted too"


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add `inspect`, `fit`, `audit`, `predict` and `export` to the command line."""
    overview = "show the columns of a file, which of them leak the label, and which of them the labels depend on"
    look = commands.add_parser(
        "inspect",
        help=overview,
        description=f"{overview[0].upper()}{overview[1:]}.",
        usage="scarless inspect FILE --label COLUMN [options]",
    )
    look.add_argument("file", type=Path, metavar="FILE", help=INPUT_FILE)
    _add_settings(look, INSPECT_SETTINGS)
    _add_reading(look)
    look.set_defaults(command=inspect, packages=PACKAGES, extra=EXTRA)
    _add_fit(
        commands.add_parser(
            "fit",
            help="fit the class model and the labelling model to a file, and write a report",
            description="Fit the class model and the labelling model to a file. Write the model, a report and the "
            "ranked rows into a folder.",
            usage="scarless fit FILE --label COLUMN --propensity COLUMN [COLUMN ...] [options]",
        )
    )
    _add_audit(
        commands.add_parser(
            "audit",
            help="write a worksheet of rows to check",
            description="Choose rows to check from the results of a fit, and write them as a worksheet. Fill in its "
            "column `checked`, and fit again with --audit WORKSHEET.",
        )
    )
    again = commands.add_parser(
        "predict",
        help="rank the rows of another file with a stored model, and check whether the model is still right",
        description="Rank the rows of another file with a stored model, and check whether the model is still right for "
        "them. Beside the ranked rows, write a page and a JSON file about this check, such as drift.html.",
    )
    again.add_argument("model", type=Path, metavar="MODEL", help=f"{MODEL} of an earlier fit, or its folder")
    again.add_argument("file", type=Path, metavar="FILE", help="rows to rank: a file, or a folder of Parquet files")
    again.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="output file, .csv or .parquet; if the input is a folder, or with --scheduler: an output folder",
    )
    again.add_argument(
        "--label",
        type=column_name,
        metavar="COLUMN",
        help="column that marks the labelled rows, if its name differs from the fit",
    )
    again.add_argument(
        "--pos-label",
        action="append",
        metavar="VALUE",
        help="value of the label column that marks a labelled row, if it differs from the fit; can be repeated",
    )
    again.add_argument("--scheduler", metavar="ADDRESS", help="scheduler for Parquet files, as in `fit`")
    again.add_argument("--force", action="store_true", help="replace the output if it exists")
    _add_reading(again)
    again.set_defaults(command=predict, packages=PACKAGES, extra=EXTRA)
    graph = commands.add_parser(
        "export",
        help="write a stored model, with its preprocessing, as an ONNX graph",
        description="Write a stored logistic model, with its preprocessing, as an ONNX graph.",
    )
    graph.add_argument("model", type=Path, metavar="MODEL", help=f"{MODEL} of an earlier logistic fit, or its folder")
    graph.add_argument("--out", type=Path, required=True, metavar="FILE", help="output file, .onnx")
    graph.add_argument("--force", action="store_true", help="replace the output if it exists")
    graph.set_defaults(command=export, packages=(*PACKAGES, "onnx", "skl2onnx"), extra=f"{EXTRA},onnx")


def _add_audit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="FOLDER", help="folder of results of `scarless fit`")
    add("--n", type=int, default=50, metavar="N", help="number of rows (default: 50)")
    add(
        "--purpose",
        choices=("prior", "find", "both"),
        default="prior",
        help="prior (default): rows that shorten the interval of the share of positives; find: the unlabelled rows "
        "that rank highest; both: half of the rows each",
    )
    add("--strata", type=column_name, metavar="COLUMN", help="column whose groups get at least 5 rows each")
    add("--seed", type=int, metavar="N", help="seed of the random numbers (default: depends on the fit)")
    add("--out", type=Path, required=True, metavar="FILE", help="output file: .xlsx, or .csv")
    parser.set_defaults(command=audit, packages=PACKAGES, extra=EXTRA)


def _add_fit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, nargs="?", metavar="FILE", help=INPUT_FILE)
    _add_settings(parser)
    add(
        "--scheduler",
        metavar="ADDRESS",
        help="scheduler that reads Parquet files in parts: `threads` (on this machine; default for a folder), `ray`, "
        "or the address of a Dask scheduler (tcp://...)",
    )
    add("--out", type=Path, metavar="DIR", help="folder for the results (default: patients-run for patients.csv)")
    add("--ranked", metavar="NAME", help="file name for the ranked rows, .csv or .parquet (default: ranked.csv)")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="run.toml of an earlier fit, to repeat this fit; options on the command line replace its settings",
    )
    add("--force", action="store_true", help="replace the folder of results if it exists")
    add("--quiet", action="store_true", help="do not show progress")
    _add_reading(parser)
    parser.set_defaults(command=fit, packages=PACKAGES, extra=EXTRA)


def _add_settings(parser: argparse.ArgumentParser, names: Iterable[str] | None = None) -> None:
    """Add the flags of settings, and flags of earlier versions, which raise an error that gives the new name."""
    for name, declared in declarations():
        if names is None or name in names:
            parser.add_argument(*declared.flags, dest=name, help=declared.help, **declared.options)
        if name == "label":
            parser.add_argument(
                "--looks",
                nargs="+",
                type=column_name,
                metavar="COLUMN",
                help="instead of --label: one label column for each look, with yes or no; a cell is empty if the row "
                "was not examined at this look",
            )
    for old, new in OLD_FLAGS.items():
        parser.add_argument(old, nargs="*", action=_Renamed, const=new, help=argparse.SUPPRESS)


class _Renamed(argparse.Action):
    """A flag of an earlier version; its use raises an error that gives the new name."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        parser.error(f"{self.option_strings[0]} is now called {self.const}")


def _add_reading(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--separator", metavar="CHARACTER", help="separator of a CSV file (default: detected)")
    add("--encoding", metavar="NAME", help="encoding of a CSV file (default: utf-8)")
    add("--sheet", metavar="NAME", help="sheet of an Excel workbook (default: the first)")
