"""Records on disk: lines of JSON that are only ever added, so that a run can be killed at any moment.

Two files: `records.jsonl` has what the experiment finds, the same bytes for the same specification; `timings.jsonl` has
what differs from run to run: seconds, versions, the machine. A record counts as done when its line is complete.
"""

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scarless.outside.files import naming, write_whole
from scarless.outside.machine import lock

Record = dict[str, Any]

KEY = ("dataset", "setting", "k", "split", "labelling", "method")
KEY_TYPES = (str, str, int, int, int, str)
TEXTS = ("error", "versions", "machine")  # entries of rows that are no numbers, beside the list of warnings
RECORDS, TIMINGS, MANIFEST, LOCK = "records.jsonl", "timings.jsonl", "spec.json", ".lock"
SCRATCH = ".scratch-"


def key_of(record: Record) -> tuple[Any, ...]:
    """Return what tells records apart."""
    return tuple(record[name] for name in KEY)


class Store:
    """The folder of one experiment."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def open_for(self, name: str, digest: str, spec: Record) -> None:
        """Make the folder ready for an experiment, or refuse if it holds another one; datasets may be added to it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest = self.folder / MANIFEST
        if manifest.exists():
            found = self.manifest()
            if found["digest"] != digest:
                raise ValueError(
                    f"{self.folder} holds results of another specification ({found['name']}, {found['digest']}; this "
                    f"one is {name}, {digest}). Use another folder, or delete that one."
                )
            self._refuse_other_data(found["spec"], spec)
            both = (*found["spec"].get("datasets", ()), *spec.get("datasets", ()))
            own = {**found["spec"].get("own_datasets", {}), **spec.get("own_datasets", {})}
            spec = {**spec, "datasets": list(dict.fromkeys(both)), **({"own_datasets": own} if own else {})}
        write_whole(manifest, json.dumps({"name": name, "digest": digest, "spec": spec}, indent=1) + "\n")
        for file in (RECORDS, TIMINGS):
            _drop_incomplete_line(self.folder / file)

    def _refuse_other_data(self, found: Record, spec: Record) -> None:
        """Refuse datasets of the user's that are not what the records here are of; where their file lies is no matter.

        Their names are compared with those of all others too: what was ours before must not be replaced.
        """
        before, now = found.get("own_datasets", {}), spec.get("own_datasets", {})
        for name in (name for name in spec.get("datasets", ()) if name in found.get("datasets", ())):
            one, other = ({**each.get(name, {}), "file": ""} for each in (before, now))
            if one != other:
                raise ValueError(
                    f"{self.folder} holds results of another dataset {name!r}: the data have changed since, or what is "
                    "said of them. Use another folder, or delete that one."
                )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the folder; the lock goes with the process, however it ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            try:
                held.enter_context(lock(self.folder / LOCK))
            except OSError as error:
                raise ValueError(
                    f"Another process is writing to {self.folder}. Wait for it, or use another folder."
                ) from error
            yield

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Lend a folder for the time of a run, and remove those of killed runs. For the holder of the lock only."""
        for left in self.folder.glob(f"{SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(prefix=SCRATCH, dir=self.folder) as path:
            yield path

    def manifest(self) -> Record:
        """Return the specification that the results are of."""
        path = self.folder / MANIFEST
        if not path.exists():
            raise ValueError(
                f"{self.folder} holds no results: there is no {MANIFEST}. Run `scarless compare` or `scarless "
                "reproduce` first."
            )
        try:
            found = json.loads(path.read_bytes())
        except ValueError:  # also where bytes are no text
            found = None
        if not _is_manifest(found):
            raise ValueError(
                f"{path} is damaged: it must hold the name, the digest and the specification of an experiment. Delete "
                "it and run the same command again: it writes the file anew, and keeps the records."
            )
        return dict(found)

    def records(self) -> list[Record]:
        """Return all complete records, in the order of their keys."""
        return sorted(_read(self.folder / RECORDS, _is_row), key=key_of)

    def timings(self) -> list[Record]:
        """Return the last timing of each record."""
        return sorted({key_of(row): row for row in _read(self.folder / TIMINGS, _is_timing)}.values(), key=key_of)

    def add(self, record: Record, timing: Record) -> None:
        """Add a record, after its timing: a timing without a record does no harm."""
        _append(self.folder / TIMINGS, {**timing, **environment()})
        _append(self.folder / RECORDS, record)


@cache
def environment() -> dict[str, str]:
    """Return what results may depend on, or take their time from."""
    return {
        "versions": ", ".join(f"{name} {version(name)}" for name in ("scarless", "numpy", "scipy", "scikit-learn")),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def _append(path: Path, row: Record) -> None:
    line = (json.dumps(row, sort_keys=True) + "\n").encode()
    as_they_are = getattr(os, "O_BINARY", 0)  # Windows would put another byte before each end of a line
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | as_they_are, 0o644)
    try:
        # One call: a line is there as a whole, or as a beginning that is dropped later.
        with naming(path):
            written = os.write(descriptor, line)
        if written < len(line):
            raise OSError(f"The disk took only a part of a line of {path}. Make room and run the same command again.")
    finally:
        os.close(descriptor)


def _read(path: Path, is_sound: Callable[[Any], bool]) -> Iterator[Record]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not is_sound(row):
                raise ValueError(f"Line {number} of {path} is damaged. Delete it and run the same command again.")
            yield row


def _is_row(row: Any) -> bool:
    """Whether a line holds what tells records apart, and otherwise numbers, texts and a list of warnings."""
    if not isinstance(row, dict):
        return False
    if not all(type(row.get(name)) is kind for name, kind in zip(KEY, KEY_TYPES, strict=True)):
        return False
    rest = {name: value for name, value in row.items() if name not in KEY}
    told = rest.pop("warnings", [])
    return (
        isinstance(told, list)
        and all(isinstance(text, str) for text in told)
        and all(isinstance(value, str if name in TEXTS else int | float) for name, value in rest.items())
    )


def _is_timing(row: Any) -> bool:
    return _is_row(row) and "seconds" in row


def _is_manifest(found: Any) -> bool:
    kinds = {"name": str, "digest": str, "spec": dict}
    return isinstance(found, dict) and all(isinstance(found.get(name), kind) for name, kind in kinds.items())


def _drop_incomplete_line(path: Path) -> None:
    """Cut off the beginning of a line that a killed process left."""
    if path.exists():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            with path.open("rb+") as file:
                file.truncate(content.rfind(b"\n") + 1)
