"""Predictions of a table in files, into files: one for each partition, whole or not there, and only what is missing.

A file is written aside, under a hidden name in its folder, and then gets its own. What it was made from (the model, the
input file as it was, what was asked for) stands in its metadata, so that a call that was stopped can be repeated.
"""

import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from scarless.engines.blas import BLAS
from scarless.engines.blocks import Preparation, Reading
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.outside.files import lock, naming
from scarless.outside.progress import Advance, progress_bar
from scarless.scale.columns import SCALE
from scarless.scale.executors import find_executor
from scarless.scale.files import absolute, is_address
from scarless.scale.partitions import Part, Plan, Program

STAMP_KEY = b"scarless.predictions"  # in a file's metadata
UNFINISHED = ".part"  # how names of files end that are being written
LOCK_NAME = ".predict_to.lock"
GROUP_ROWS = 2**20


class Written(NamedTuple):
    """Files with predictions: all of the table, in the order of its rows, and how many of them are new."""

    folder: Path
    files: list[Path]
    n_rows: int
    n_new: int


@dataclass(frozen=True)
class Asked:
    """What is written of every row.

    `predict(source, table)` returns columns of numbers, by name, for a partition that was read as an Arrow table; it is
    sent to where partitions are. `model` and `options` say what its numbers follow from: files with another `model` or
    other `options` are not mixed with these.
    """

    predict: Callable[[Any, Any], dict[str, Vector]]
    model: str
    options: str
    outputs: tuple[str, ...] = ()  # names that `predict` may return
    label: str | None = None  # column of the input with one label of each row
    others: tuple[str, ...] = ()  # columns that `predict` reads beside attributes and label
    keep: tuple[str, ...] = ()  # columns that are copied
    dtype: str = "float64"


@dataclass(frozen=True)
class _Job:
    """What a worker needs to know: what to write, and where."""

    asked: Asked
    folder: str
    root: str

    def target(self, source: Any) -> Path:
        """Return where the predictions of a partition go: below the folder as the input lies below its root."""
        inside = Path(os.path.relpath(absolute(source.path), self.root))
        name = f"{inside.stem}.{source.groups[0]:05d}-{source.groups[-1]:05d}.parquet"
        return Path(self.folder) / inside.with_name(name)

    def stamp(self, source: Any) -> dict[str, Any]:
        """Return what the predictions of a partition follow from."""
        return {
            "model": self.asked.model,
            "options": self.asked.options,
            "path": absolute(source.path),
            "file": list(source.stamp),
            "groups": list(source.groups),
        }


def write_predictions(table: Any, folder: str | Path, asked: Asked, *, force: bool = False) -> Written:
    """Write predictions of all rows of a table in files.

    Parameters
    ----------
    table : ParquetRows or PreparedRows
        With the columns that the model reads.
    folder : path
        Made where it is not there.
    asked : Asked
    force : bool, default=False
        Whether predictions of another model, or with other columns, are replaced.

    Returns
    -------
    Written
    """
    plan = table.plan(asked.label, raw=True)
    sources = [part.source for part in plan.parts]
    _check_columns(sources[0], asked)
    folder = check_target(folder)
    refuse_inputs(folder, [source.path for source in sources])
    folder.mkdir(parents=True, exist_ok=True)
    job = _Job(asked, os.path.abspath(folder), _root([source.path for source in sources]))
    targets = {job.target(source): source for source in sources}
    with _alone(folder):
        missing = _missing(job, targets, force=force)
        if missing:
            with progress_bar("writing predictions", len(missing)) as advance, _watched(list(missing), advance):
                _run(table, plan, list(missing.values()), job)
    return Written(folder, [folder / path.relative_to(job.folder) for path in targets], plan.n_rows, len(missing))


def _run(table: Any, plan: Plan, sources: list[Any], job: _Job) -> None:
    lanes = Plan.of(sources, list(plan.names), plan.dtype).lanes
    program = Program((), Preparation(Reading(plan.dtype, None)), table.cache)
    find_executor(table.scheduler).map(write_lane, program, lanes, (job,))


def write_lane(program: Program, lane: tuple[Part, ...], job: _Job) -> int:
    """Write the predictions of a run of partitions, each decoded once, and kept nowhere."""
    with BLAS.on_one_thread():
        for part in lane:
            _write(job.target(part.source), predicted(part.source, job.asked), job.stamp(part.source))
    return len(lane)


def predicted(source: Any, asked: Asked) -> Any:
    """Return the predictions of a partition as an Arrow table."""
    arrow = need("pyarrow", "predict_to", SCALE)
    table = source.read((*asked.keep, *asked.others))
    found = asked.predict(source, table)
    numbers = {name: arrow.array(values.astype(asked.dtype, copy=False)) for name, values in found.items()}
    return arrow.table({**{name: table.column(name) for name in asked.keep}, **numbers})


def _is_plain(kind: Any) -> bool:
    """Whether values are numbers or dates, of one width."""
    try:
        return kind.bit_width > 0 and not hasattr(kind, "value_type")
    except ValueError:  # of text, and all else whose values differ in length
        return False


def _write(target: Path, table: Any, stamp: dict[str, Any]) -> None:
    """Write a file aside, and give it its name when it is whole."""
    parquet = need("pyarrow.parquet", "predict_to", SCALE)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), STAMP_KEY: json.dumps(stamp).encode()})
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}{UNFINISHED}")
    texts = [field.name for field in table.schema if not _is_plain(field.type)]
    try:
        with naming(target):
            # Dictionaries of numbers that all differ are larger than the numbers, and slow; nor do they compress.
            parquet.write_table(
                table,
                aside,
                row_group_size=GROUP_ROWS,
                use_dictionary=texts,
                compression={name: "snappy" if name in texts else "none" for name in table.column_names},
            )
            aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


# --- what is there already


def _missing(job: _Job, targets: dict[Path, Any], *, force: bool) -> dict[Path, Any]:
    """Return what is still to be written, and remove what is no longer true; raise rather than mix."""
    for path in Path(job.folder).rglob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)  # nobody else writes here: of a run that died
    wanted = {path: job.stamp(source) for path, source in targets.items()}
    inputs = {stamp["path"] for stamp in wanted.values()}
    stale, others, done = [], [], set()
    for path in sorted(Path(job.folder).rglob("*.parquet")):
        there, here = _stamp_of(path, damaged=path in wanted), wanted.get(path)
        if there == here and here is not None:
            done.add(path)
        elif not there:
            stale.append(path)
        elif why := _why_other(there, job, here):
            others.append((path, why))
        elif here is not None or there["path"] in inputs:
            stale.append(path)
    if others and not force:
        path, why = others[0]
        raise ValueError(
            f"{path} holds predictions {why}, as {len(others)} of the files there do: mixed, nobody could tell them "
            "apart. Give another folder, or replace them: force=True."
        )
    for path in [*stale, *(path for path, _ in others)]:
        path.unlink()
    return {path: source for path, source in targets.items() if path not in done}


def _why_other(there: dict[str, Any], job: _Job, here: dict[str, Any] | None) -> str:
    """Return how predictions differ from those asked for, other than by their rows; empty where they do not."""
    if there["model"] != job.asked.model:
        return "of another model"
    if there["options"] != job.asked.options:
        return "with other columns or of other rows (keep, label, propensity, dtype or a filter are not the same)"
    return f"of another table ({there['path']})" if here is not None and here["path"] != there["path"] else ""


def _stamp_of(path: Path, *, damaged: bool) -> dict[str, Any]:
    """Return a file's stamp, empty for a damaged one where that may be replaced; raise if it is somebody else's."""
    parquet = need("pyarrow.parquet", "predict_to", SCALE)
    try:
        found = (parquet.read_metadata(path).metadata or {}).get(STAMP_KEY)
    except need("pyarrow", "predict_to", SCALE).ArrowException:
        if damaged:
            return {}
        found = None
    if found is None:
        raise ValueError(
            f"{path} was not written by predict_to, whose folder should hold nothing else: give another folder."
        )
    stamp: dict[str, Any] = json.loads(found)
    return stamp


def _check_columns(source: Any, asked: Asked) -> None:
    there = source.columns_there()
    for name in (*asked.keep, *asked.others):
        if name not in there:
            raise ValueError(f"{source.path} has no column {name!r}; it has {', '.join(there[:8])}.")
    taken = [name for name in asked.keep if name in asked.outputs]
    if taken:
        raise ValueError(f"keep has {taken[0]!r}, which is the name of a prediction; rename that column of the input.")


def check_target(folder: Any) -> Path:
    """Return the folder that is written; raise where it is an address."""
    if is_address(folder):
        raise ValueError(
            f"Predictions go into a folder that this machine, and every worker, can write to; {folder} is an address. "
            "Write to a folder, and copy it: pyarrow.fs.copy_files(folder, address)."
        )
    return Path(folder)


def refuse_inputs(folder: Path, paths: Sequence[str]) -> None:
    """Raise where a file that is read lies in the folder that is written."""
    here = [path for path in paths if not is_address(path)]
    inside = [path for path in here if Path(path).resolve().is_relative_to(folder.resolve())]
    if inside:
        raise ValueError(
            f"{inside[0]} is a file of the input, and lies in {folder}, where predictions are to go. Give a folder of "
            "its own, outside of what the input reads."
        )


def _root(paths: Sequence[str]) -> str:
    """Return the folder that all files are in; folders that say a value, as ``year=2020``, are below it."""
    folders = [os.path.dirname(absolute(path)) for path in paths]
    parts = Path(os.path.commonpath(folders)).parts
    plain = next((i for i, part in enumerate(parts) if "=" in part), len(parts))
    return str(Path(*parts[:plain]))


# --- one process at a time, and somebody who looks on


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder: what is written aside there is then of a run that died."""
    holding = lock(folder / LOCK_NAME)
    try:
        holding.__enter__()
    except OSError as error:
        if error.filename is not None:  # the folder cannot be written to
            raise
        raise RuntimeError(f"Another process is writing predictions into {folder}; wait for its end.") from error
    try:
        yield
    finally:
        holding.__exit__(None, None, None)


@contextmanager
def _watched(paths: list[Path], advance: Advance) -> Iterator[None]:
    """Advance a bar by each file that appears, whoever writes it."""
    over, waiting = Event(), set(paths)

    def look() -> None:
        for path in [path for path in waiting if path.exists()]:
            waiting.discard(path)
            advance()

    def watch() -> None:
        while not over.wait(0.5):
            look()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        look()
