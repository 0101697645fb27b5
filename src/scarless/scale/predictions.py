"""Predictions for a table in files, written to files, one file for each partition.

A file is written under a hidden name in its folder, and renamed when it is complete. Its metadata identify the model,
the input file and the options. If an interrupted call is repeated, it therefore writes only the missing files.
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
from scarless.scale.partitions import Batch, Plan, Program

STAMP_KEY = b"scarless.predictions"  # key in the metadata of a file
UNFINISHED = ".part"  # suffix of files that are being written
LOCK_NAME = ".predict_to.lock"
GROUP_ROWS = 2**20  # rows in a row group of the output


class WrittenPredictions(NamedTuple):
    """Files with predictions, returned by `predict_to`."""

    folder: Path
    files: list[Path]  # all files, in the order of the rows
    n_rows: int
    n_new: int  # number of files that this call has written


@dataclass(frozen=True)
class PredictionRequest:
    """Description of the predictions for every row.

    `predict(source, table)` returns columns of numbers, by name, for a partition that was read as an Arrow table. The
    function is sent to workers. `model` and `options` identify the predictions: all files in a folder have the same
    model and options.
    """

    predict: Callable[[Any, Any], dict[str, Vector]]
    model: str
    options: str
    outputs: tuple[str, ...] = ()  # names that `predict` may return
    label: str | None = None  # column of labels in the input
    others: tuple[str, ...] = ()  # further columns that `predict` reads
    keep: tuple[str, ...] = ()  # columns that are copied
    dtype: str = "float64"


@dataclass(frozen=True)
class _Job:
    """The predictions to write, and the folders of output and input."""

    request: PredictionRequest
    folder: str
    root: str

    def target(self, source: Any) -> Path:
        """Return the output path of a partition: `folder` has the same subfolders as the input folder `root`."""
        inside = Path(os.path.relpath(absolute(source.path), self.root))
        name = f"{inside.stem}.{source.groups[0]:05d}-{source.groups[-1]:05d}.parquet"
        return Path(self.folder) / inside.with_name(name)

    def stamp(self, source: Any) -> dict[str, Any]:
        """Return the metadata that identify the predictions of a partition."""
        return {
            "model": self.request.model,
            "options": self.request.options,
            "path": absolute(source.path),
            "file": list(source.stamp),
            "groups": list(source.groups),
        }


def write_predictions(
    table: Any, folder: str | Path, request: PredictionRequest, *, force: bool = False
) -> WrittenPredictions:
    """Write predictions for all rows of a table in files.

    Parameters
    ----------
    table : ParquetRows or PreparedRows
        Rows with the columns that the model reads.
    folder : path
        Output folder; created if necessary.
    request : PredictionRequest
        Predictions to write.
    force : bool, default=False
        Whether to replace predictions of another model, or with other columns.

    Returns
    -------
    WrittenPredictions
    """
    plan = table.plan(request.label, raw=True)
    sources = [each.source for each in plan.partitions]
    _check_columns(sources[0], request)
    folder = check_target(folder)
    refuse_inputs(folder, [source.path for source in sources])
    folder.mkdir(parents=True, exist_ok=True)
    job = _Job(request, os.path.abspath(folder), _root([source.path for source in sources]))
    targets = {job.target(source): source for source in sources}
    with _locked(folder):
        missing = _missing(job, targets, force=force)
        if missing:
            with progress_bar("writing predictions", len(missing)) as advance, _watched(list(missing), advance):
                _run(table, plan, list(missing.values()), job)
    return WrittenPredictions(
        folder, [folder / path.relative_to(job.folder) for path in targets], plan.n_rows, len(missing)
    )


def _run(table: Any, plan: Plan, sources: list[Any], job: _Job) -> None:
    batches = Plan.of(sources, list(plan.names), plan.dtype).batches
    program = Program((), Preparation(Reading(plan.dtype, None)), table.cache)
    find_executor(table.scheduler).map(write_batch, program, batches, (job,))


def write_batch(program: Program, batch: Batch, job: _Job) -> int:
    """Write the predictions for a batch of partitions; decoded rows are not cached."""
    with BLAS.on_one_thread():
        for partition in batch:
            source = partition.source
            _write(job.target(source), predicted(source, job.request), job.stamp(source))
    return len(batch)


def predicted(source: Any, request: PredictionRequest) -> Any:
    """Return the predictions of a partition as an Arrow table."""
    arrow = need("pyarrow", "predict_to", SCALE)
    table = source.read((*request.keep, *request.others))
    found = request.predict(source, table)
    numbers = {name: arrow.array(values.astype(request.dtype, copy=False)) for name, values in found.items()}
    return arrow.table({**{name: table.column(name) for name in request.keep}, **numbers})


def _has_fixed_width(kind: Any) -> bool:
    """Return whether all values of an Arrow type have the same width, such as numbers and dates."""
    try:
        return kind.bit_width > 0 and not hasattr(kind, "value_type")
    except ValueError:  # text, and other types of variable width
        return False


def _write(target: Path, table: Any, stamp: dict[str, Any]) -> None:
    """Write a file under a temporary name, and rename it when it is complete."""
    parquet = need("pyarrow.parquet", "predict_to", SCALE)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), STAMP_KEY: json.dumps(stamp).encode()})
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{uuid.uuid4().hex}{UNFINISHED}")
    texts = [field.name for field in table.schema if not _has_fixed_width(field.type)]
    try:
        with naming(target):
            # Numbers that all differ do not compress. A dictionary of them would be slow, and larger than the numbers.
            parquet.write_table(
                table,
                unfinished,
                row_group_size=GROUP_ROWS,
                use_dictionary=texts,
                compression={name: "snappy" if name in texts else "none" for name in table.column_names},
            )
            unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


# --- existing files


def _missing(job: _Job, targets: dict[Path, Any], *, force: bool) -> dict[Path, Any]:
    """Remove outdated files, and return the files to write; raise an error if files are from another request."""
    for path in Path(job.folder).rglob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)  # The folder is locked, so this file is from an interrupted call.
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
        replaced = "this file" if len(others) == 1 else f"all {len(others)} such files in the folder"
        raise ValueError(
            f"{path} contains predictions {why}. Choose another folder, or pass force=True to replace {replaced}."
        )
    for path in [*stale, *(path for path, _ in others)]:
        path.unlink()
    return {path: source for path, source in targets.items() if path not in done}


def _why_other(there: dict[str, Any], job: _Job, here: dict[str, Any] | None) -> str:
    """Return how the predictions of a file differ from the requested ones; empty if only the rows differ."""
    if there["model"] != job.request.model:
        return "of another model"
    if there["options"] != job.request.options:
        return "with other columns or of other rows (keep, label, propensity, dtype or the filter differs)"
    return f"of another table ({there['path']})" if here is not None and here["path"] != there["path"] else ""


def _stamp_of(path: Path, *, damaged: bool) -> dict[str, Any]:
    """Return the metadata of a file of predictions; raise an error for other files.

    If `damaged`, a file that cannot be read may be replaced, and its metadata are empty.
    """
    parquet = need("pyarrow.parquet", "predict_to", SCALE)
    try:
        found = (parquet.read_metadata(path).metadata or {}).get(STAMP_KEY)
    except need("pyarrow", "predict_to", SCALE).ArrowException:
        if damaged:
            return {}
        found = None
    if found is None:
        raise ValueError(
            f"{path} was not written by predict_to, and the output folder must have no other Parquet files. Choose "
            "another folder."
        )
    stamp: dict[str, Any] = json.loads(found)
    return stamp


def _check_columns(source: Any, request: PredictionRequest) -> None:
    there = source.columns_there()
    for name in (*request.keep, *request.others):
        if name not in there:
            shown = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
            raise ValueError(f"{source.path} has no column {name!r}; its columns are {shown}.")
    taken = [name for name in request.keep if name in request.outputs]
    if taken:
        raise ValueError(
            f"keep: {taken[0]!r} is also the name of a prediction. Rename the column in the input, or do not keep it."
        )


def check_target(folder: Any) -> Path:
    """Return the output folder; raise an error if it is an address."""
    if is_address(folder):
        raise ValueError(
            f"folder must be a local folder that every worker can write to; {folder} is a remote address. Write to a "
            "local folder, and copy it: pyarrow.fs.copy_files(folder, address)."
        )
    return Path(folder)


def refuse_inputs(folder: Path, paths: Sequence[str]) -> None:
    """Raise an error if an input file is in the output folder."""
    here = [path for path in paths if not is_address(path)]
    inside = [path for path in here if Path(path).resolve().is_relative_to(folder.resolve())]
    if inside:
        raise ValueError(f"The input file {inside[0]} is in the output folder {folder}. Choose another output folder.")


def _root(paths: Sequence[str]) -> str:
    """Return the common folder of all files, up to the first folder that contains a value, such as ``year=2020``."""
    folders = [os.path.dirname(absolute(path)) for path in paths]
    parts = Path(os.path.commonpath(folders)).parts
    plain = next((i for i, part in enumerate(parts) if "=" in part), len(parts))
    return str(Path(*parts[:plain]))


# --- lock and progress


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder, so that only one process at a time writes to it."""
    folder_lock = lock(folder / LOCK_NAME)
    try:
        folder_lock.__enter__()
    except OSError as error:
        if error.filename is not None:  # The folder cannot be written to.
            raise
        raise RuntimeError(f"Another process is writing predictions into {folder}. Wait until it ends.") from error
    try:
        yield
    finally:
        folder_lock.__exit__(None, None, None)


@contextmanager
def _watched(paths: list[Path], advance: Advance) -> Iterator[None]:
    """Advance a progress bar when files appear. Other processes may write them, so the folder is checked regularly."""
    over, waiting = Event(), set(paths)

    def count_new() -> None:
        for path in [path for path in waiting if path.exists()]:
            waiting.discard(path)
            advance()

    def watch() -> None:
        while not over.wait(0.5):
            count_new()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        count_new()
