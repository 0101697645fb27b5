"""`scarless inspect`, `fit`, `predict` and `export`: a thin shell over `scarless.analysis`."""

import argparse
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Timer
from typing import Any

from scarless import analysis
from scarless.analysis.folders import MODEL, REPORT, RUN, SCORED, check_folder, check_name
from scarless.analysis.settings import MODELS, read_run
from scarless.cli.screen import DONE, shell, stopped
from scarless.outside.files import check_place
from scarless.outside.plain_words import plain
from scarless.outside.progress import duration

PACKAGES = ("pandas", "pyarrow", "skrub", "skops", "jinja2")
EXTRA = "tool"
MODEL_HELP = (
    "search (default), stack for the best probabilities, boosted, or logistic: the fastest, whose interval is too short"
)
_OPTIONS = {  # of the command line, and what they are called in a run.toml
    "label": "label", "propensity": "propensity", "class_attributes": "class_attributes", "model": "model",
    "scar": "scar", "known_propensity": "known_propensity", "weights": "weights", "id": "id", "exclude": "exclude",
    "positive": "positive", "seed": "seed", "level": "level", "look": "looks", "visit": "visits", "audit": "audit",
    "audit_labels": "audit_labels",
    "prevalence": "prevalence", "prevalence_se": "prevalence_se", "false_positives": "false_positives",
    "own_propensities": "own_propensities", "label_frequency": "label_frequency",
    "label_frequency_se": "label_frequency_se", "propensity_bounds": "propensity_bounds",
    "number": "number", "text": "text", "group": "group",
}  # fmt: skip
_WAYS = {"propensity", "scar", "known_propensity"}
_FREQUENCIES = {"label_frequency", "label_frequency_se"}  # by the columns of labels
_INSTEAD = (
    (_WAYS, _WAYS),
    ({"label"}, {"looks", "visits", "own_propensities", *_FREQUENCIES}),
    ({"looks"}, {"label", *_FREQUENCIES}),
    ({"label_frequency"}, {"label_frequency_se"}),
)
_SHOWN = 5  # rows on the screen
_SILENCE = 2.0  # seconds after which a stage is named


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
        self.what, self.since = what, time.monotonic()
        if not self.quiet:
            self._timer = Timer(_SILENCE, partial(print, f"{what} ...", file=sys.stderr, flush=True))
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Say how long the stage took."""
        if self._timer is not None:
            self._timer.cancel()
        if self.what and not self.quiet:
            print(f"{self.what}: {duration(time.monotonic() - self.since)}", file=sys.stderr, flush=True)
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

    chosen = {"positive": options.positive, "exclude": options.exclude or ()}
    if options.label is None and not options.look:
        raise ValueError("Which column is the label? Say so: --label COLUMN; of several looks --look COLUMN COLUMN.")
    if options.file.is_dir():
        from scarless.scale import ParquetRows  # noqa: PLC0415 (an optional package)

        chosen |= {"looks": options.look or (), "audit": options.audit or ""}
        print(inspect_files(ParquetRows(options.file), options.label, **chosen))
    else:
        (table, told), looks = _read(options), options.look or ()
        chosen |= {"number": options.number or (), "text": options.text or ()}
        found = analysis.inspect_table(table, options.label, looks=looks, audit=options.audit or "", **chosen)
        found = replace(found, notes=(*told, *found.notes))
        print(with_advice(found, [str(options.file)]) if options.file.suffix == ".parquet" else found)
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
    screen = Stages(quiet=options.quiet)
    if _is_many(options):
        return _fit_files(options, values, folder, screen)
    try:
        with screen.stage(f"reading {options.file.name}"):
            table, told = _read(options)
            facts = {"file": str(options.file), "sha256": _hash(options.file), "rows": len(table)}
            facts |= {"sheet": options.sheet} if options.sheet else {}
        propensity = values.pop("propensity", ())
        found = analysis.analyse(
            table, values.pop("label", None), propensity_attributes=propensity, source=facts, progress=screen, **values
        )
        found.notes[:0] = told
        found.save(folder, force=options.force, ranked=ranked, progress=screen)
    except KeyboardInterrupt:
        return stopped("Stopped. Nothing was written.")
    screen.end()
    _say(found, folder, ranked)
    return DONE


def _fit_files(options: argparse.Namespace, values: dict[str, Any], folder: Path, screen: Stages) -> int:
    """Fit both models to all rows of a folder of Parquet files; report on a sample, and write predictions."""
    rows = _rows(options)
    settings = analysis.Settings.from_dict(values, source="the command line")
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


def _settings(options: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    """Return what the command line says, and where it says nothing what the file of an earlier run does."""
    given = {key: getattr(options, name) for name, key in _OPTIONS.items()}
    said = {key: value for key, value in given.items() if value is not None and value is not False}
    values = {key: value for key, value in config.items() if key not in ("source", "versions")} | said
    for ways, instead in _INSTEAD:
        if ways & said.keys():  # one way said on the command line takes the place of another in the file
            values = {key: value for key, value in values.items() if key not in instead or key in said}
    unknown = [key for key in values if key not in {*_OPTIONS.values(), "ranked"}]
    if unknown:
        raise ValueError(f"{options.config}: there is no setting {unknown[0]!r}.")
    if "label" not in values and "looks" not in values:
        raise ValueError("Which column is the label? Say so: --label COLUMN; of several looks --look COLUMN COLUMN.")
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
    from scarless.report.fit.words import share  # noqa: PLC0415 (models; --help does not need them)

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
    return f"; with the weights of {facts['settings']['weights']!r} they count as {sums}, and positives are counted so"


def _between(facts: dict[str, Any]) -> str:
    """Return the interval of the share of positives; nothing where there is none."""
    from scarless.report.fit.words import share_range  # noqa: PLC0415 (models; --help does not need them)

    ends = facts["class_prior_interval"]
    return "" if not ends or None in ends else f" ({share_range(*ends)})"


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add `inspect`, `fit`, `predict` and `export` to the command line."""
    look = commands.add_parser("inspect", help="look at a file: columns, gaps, leaks, what labels depend on")
    look.add_argument(
        "file", type=Path, metavar="FILE", help="CSV, TSV, Parquet, Arrow or Excel; or a folder of Parquet"
    )
    look.add_argument("--label", metavar="COLUMN", help="column that says which rows are labelled")
    _add_looks(look)
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
    again.add_argument("--separator", metavar="CHARACTER", help="between the cells of a CSV file (default: found)")
    again.add_argument("--encoding", default="utf-8", metavar="NAME", help="of a CSV file (default: utf-8)")
    again.add_argument("--sheet", metavar="NAME", help="of an Excel workbook (default: the first)")
    again.set_defaults(command=predict, packages=PACKAGES, extra=EXTRA)
    graph = commands.add_parser("export", help="write a stored model as an ONNX graph, preparation included")
    graph.add_argument("model", type=Path, metavar="MODEL", help=f"{MODEL} of a logistic fit, or its folder")
    graph.add_argument("--out", type=Path, required=True, metavar="FILE", help="where it goes, a name in .onnx")
    graph.add_argument("--force", action="store_true", help="replace a file of that name")
    graph.set_defaults(command=export, packages=(*PACKAGES, "onnx"), extra=f"{EXTRA},onnx")


def _add_fit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", type=Path, nargs="?", metavar="FILE", help="CSV, TSV, Parquet, Arrow or Excel; or a folder of Parquet")
    add("--label", metavar="COLUMN", help="column that says which rows are labelled")
    _add_looks(parser)
    _add_information(parser)
    add(
        "--scheduler",
        metavar="ADDRESS",
        help="for a folder: `threads` (default), `ray`, or a Dask scheduler, tcp://...",
    )
    add(
        "--propensity",
        nargs="+",
        metavar="COLUMN",
        help="what the labelling depends on; `all` with --audit or --look, if you cannot name any",
    )
    add("--scar", action="store_true", default=None, help="every positive is as likely to be labelled as any other")
    add("--known-propensity", metavar="COLUMN", help="column with known propensities")
    add("--class-attributes", nargs="+", metavar="COLUMN", help="what the class may depend on (default: all columns)")
    add("--model", choices=MODELS, help=MODEL_HELP)
    add("--weights", metavar="COLUMN", help="column with row weights")
    add("--id", metavar="COLUMN", help="column with names of rows")
    add("--group", metavar="COLUMN", help="column with what rows belong to: several rows of one patient, say")
    add("--seed", type=int, metavar="N", help="seed of everything that is drawn (default: 0)")
    add("--level", type=float, metavar="P", help="of intervals (default: 0.95)")
    add("--out", type=Path, metavar="DIR", help="folder for the results (default: FILE-run)")
    add("--ranked", metavar="NAME", help="file of ranked rows in it, .csv or .parquet (default: ranked.csv)")
    add("--config", type=Path, metavar="FILE", help="run.toml of an earlier fit, to repeat it; options go before it")
    add("--force", action="store_true", help="replace results of an earlier fit in that folder")
    add("--quiet", action="store_true", help="say nothing on the way")
    _add_reading(parser)
    parser.set_defaults(command=fit, packages=PACKAGES, extra=EXTRA)


def _add_looks(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--look",
        nargs="+",
        metavar="COLUMN",
        help="in place of --label: columns of several looks, yes or no; an empty cell is no look at all",
    )
    add("--audit", metavar="COLUMN", help="column with the class of rows that somebody checked, yes or no; else empty")


def _add_information(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--audit-labels",
        metavar="HOW",
        help="drop: findings of audits were entered as labels; undo: the same, and only rows without a label were "
        "audited (default: keep, they were not)",
    )
    add(
        "--visit",
        action="append",
        metavar="NAME=COLUMN,...",
        help="attribute of looks, a column of numbers for each: effort=effort_1,effort_2; may be repeated",
    )
    add("--own-propensities", action="store_true", default=None, help="each look has coefficients of its own")
    add("--prevalence", type=float, metavar="P", help="share of positives, where it is known from elsewhere")
    add("--prevalence-se", type=float, metavar="SE", help="its standard error (default: it is exact)")
    add(
        "--label-frequency",
        nargs="+",
        metavar="[LOOK=]P",
        help="share of positives that a look labels, where it is known: 0.8, or of several looks visit_1=0.8",
    )
    add(
        "--label-frequency-se",
        nargs="+",
        metavar="[LOOK=]SE",
        help="its standard error, or that of each (default: it is exact)",
    )
    add(
        "--propensity-bounds",
        nargs=2,
        type=float,
        metavar=("LEAST", "LARGEST"),
        help="between which propensities lie, with --model logistic: 0.2 1",
    )
    add(
        "--false-positives",
        nargs="+",
        metavar="RATE",
        help="share of negatives that a look labels, or `estimate` (default: 0); with --own-propensities one for each",
    )


def _add_reading(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--positive",
        action="append",
        metavar="VALUE",
        help="value of the label column that marks a labelled row, large or small letters alike; repeat it for "
        "several; `any` for every value",
    )
    add("--exclude", nargs="+", metavar="COLUMN", help="columns to leave out")
    add("--number", nargs="+", metavar="COLUMN", help="columns that are numbers; cells that are none are missing")
    add("--text", nargs="+", metavar="COLUMN", help="columns that are text, although most of their cells are numbers")
    add("--separator", metavar="CHARACTER", help="between the cells of a CSV file (default: found)")
    add("--encoding", default="utf-8", metavar="NAME", help="of a CSV file (default: utf-8)")
    add("--sheet", metavar="NAME", help="of an Excel workbook (default: the first)")
