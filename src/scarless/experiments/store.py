"""Records on disk: lines of JSON that are only ever added, so that a run can be killed at any moment.

Two files: `records.jsonl` has what the experiment finds, the same bytes for the same specification; `timings.jsonl` has
what differs from run to run: seconds, versions, the machine. A record counts as done when its line is complete.

Each line has a checksum: of its content, and for timings also of the specification and of the user's own data. Damaged
lines are removed by `Store.open_for`, which says so, and their records are computed again.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scarless.outside.files import check_place, lock, naming, write_whole
from scarless.outside.notices import listed

Record = dict[str, Any]

KEY = ("dataset", "setting", "k", "split", "labelling", "method")
KEY_TYPES = (str, str, int, int, int, str)
TEXTS = ("error", "versions", "machine")  # entries of rows that are no numbers, beside the list of warnings
RECORDS, TIMINGS, MANIFEST, LOCK = "records.jsonl", "timings.jsonl", "spec.json", ".lock"
REMOVED = "damaged.jsonl"  # lines that were taken out of the others
SCRATCH = ".scratch-"
CHECKSUM = "sha256"  # the entry of a line that has it; lines of older versions have none


def key_of(record: Record) -> tuple[Any, ...]:
    """Return what tells records apart."""
    return tuple(record[name] for name in KEY)


class Store:
    """The folder of one experiment."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def open_for(self, name: str, digest: str, spec: Record) -> list[str]:
        """Make the folder ready for an experiment, or refuse if it holds another one; datasets may be added to it.

        Returns what was damaged, in sentences: it was removed, and is to be computed again.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest, told = self.folder / MANIFEST, list[str]()
        found = _manifest_in(manifest) if manifest.exists() else None
        if manifest.exists() and found is None:
            told.append(
                f"{manifest} is damaged. It was written again; records that may be of another specification are "
                "computed again."
            )
        if found is not None:
            if found["digest"] != digest:
                raise ValueError(
                    f"{self.folder} holds results of another specification ({found['name']}, {found['digest']}; this "
                    f"one is {name}, {digest}). Use another folder, or delete that one."
                )
            self._refuse_other_data(found["spec"], spec)
            both = (*found["spec"].get("datasets", ()), *spec.get("datasets", ()))
            own = {**found["spec"].get("own_datasets", {}), **spec.get("own_datasets", {})}
            spec = {**spec, "datasets": list(dict.fromkeys(both)), **({"own_datasets": own} if own else {})}
        said = {"name": name, "digest": digest, "spec": spec}
        write_whole(manifest, json.dumps({**said, CHECKSUM: _checksum(said, "")}, indent=1) + "\n")
        return told + self._drop_damaged(must_have_checksums=bool(told))

    def _drop_damaged(self, *, must_have_checksums: bool) -> list[str]:
        """Remove lines that are damaged, and records whose timing was; return a sentence for each file."""
        told, incomplete = list[str](), must_have_checksums
        for file, is_sound in ((TIMINGS, _is_timing), (RECORDS, _is_row)):
            path = self.folder / file
            lines = _complete_lines(path)
            seal = self._seal(file)
            rows = [_row_of(line, is_sound, seal, must_have_checksum=must_have_checksums) for line in lines]
            bad = [number for number, row in enumerate(rows, start=1) if row is None]
            if file == TIMINGS:
                incomplete, timed = incomplete or bool(bad), {key_of(row) for row in rows if row is not None}
            elif incomplete:
                bad = [number for number, row in enumerate(rows, start=1) if row is None or key_of(row) not in timed]
            if bad:
                with (self.folder / REMOVED).open("ab") as removed:
                    removed.writelines(lines[number - 1] for number in bad)
                write_whole(
                    path, b"".join(line for number, line in enumerate(lines, start=1) if number not in set(bad))
                )
                why = "damaged" if file == TIMINGS else "damaged or without a timing"
                told.append(
                    f"{path}: {_few_lines(bad)} {why}, and moved to {REMOVED}. What is missing is computed again."
                )
        return told

    def _seal(self, file: str) -> Callable[[Record], str]:
        """Return what gives the checksum of a line.

        That of a timing tells of which specification and data its record is, so that records are the same bytes in
        every specification that has them.
        """
        if file == RECORDS:
            return partial(_checksum, salt="")
        manifest = _manifest_in(self.folder / MANIFEST) or {"digest": "", "spec": {}}
        own = manifest["spec"].get("own_datasets", {})
        return lambda row: _checksum(row, f"{manifest['digest']} {_same_data(own.get(row['dataset']))}")

    def _refuse_other_data(self, found: Record, spec: Record) -> None:
        """Refuse datasets of the user's that are not what the records here are of; where their file lies is no matter.

        Their names are compared with those of all others too: what was ours before must not be replaced.
        """
        before, now = found.get("own_datasets", {}), spec.get("own_datasets", {})
        for name in (name for name in spec.get("datasets", ()) if name in found.get("datasets", ())):
            if _same_data(before.get(name)) != _same_data(now.get(name)):
                raise ValueError(
                    f"{self.folder} holds results of another dataset {name!r}: the data have changed since, or what is "
                    "said of them. Use another folder, or delete that one."
                )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing to the folder; the lock goes with the process, however it ends."""
        check_place(self.folder)
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
        found = _manifest_in(path)
        if found is None:
            raise ValueError(
                f"{path} is damaged: it must hold the name, the digest and the specification of an experiment. Run the "
                "same command again: it writes the file anew, and keeps the records that are of its specification."
            )
        return found

    def records(self) -> list[Record]:
        """Return all complete records, in the order of their keys."""
        return sorted(self._read(RECORDS, _is_row), key=key_of)

    def timings(self) -> list[Record]:
        """Return the last timing of each record."""
        return sorted({key_of(row): row for row in self._read(TIMINGS, _is_timing)}.values(), key=key_of)

    def add(self, record: Record, timing: Record) -> None:
        """Add a record, after its timing: a timing without a record does no harm."""
        for file, row in ((TIMINGS, {**timing, **environment()}), (RECORDS, record)):
            _append(self.folder / file, {**row, CHECKSUM: self._seal(file)(row)})

    def _read(self, file: str, is_sound: Callable[[Any], bool]) -> Iterator[Record]:
        path, seal = self.folder / file, self._seal(file)
        if not path.exists():
            return
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                row = _row_of(line, is_sound, seal)
                if row is None:
                    raise ValueError(
                        f"Line {number} of {path} is damaged. Run the experiment once more: it makes that line again."
                    )
                yield row


@cache
def environment() -> dict[str, str]:
    """Return what results may depend on, or take their time from."""
    return {
        "versions": ", ".join(f"{name} {version(name)}" for name in ("scarless", "numpy", "scipy", "scikit-learn")),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def _append(path: Path, row: Record) -> None:
    line = _line(row)
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


def _line(row: Record) -> bytes:
    return (json.dumps(row, sort_keys=True) + "\n").encode()


def _row_of(
    line: bytes, is_sound: Callable[[Any], bool], seal: Callable[[Record], str], *, must_have_checksum: bool = False
) -> Record | None:
    """Return what a line holds, without its checksum; None where it is damaged or incomplete."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict) or not line.endswith(b"\n"):
            return None
        has_checksum = CHECKSUM in row
        exact = not has_checksum or _line(row) == line
        said = row.pop(CHECKSUM, None)
    except (ValueError, RecursionError):
        return None
    if not is_sound(row) or not exact or (must_have_checksum and not has_checksum):
        return None
    return row if not has_checksum or said == seal(row) else None


def _checksum(row: Record, salt: str) -> str:
    return hashlib.sha256(f"{salt}\n{json.dumps(row, sort_keys=True)}".encode()).hexdigest()[:32]


def _same_data(identity: Record | None) -> str:
    """Return what identifies a dataset of the user's, wherever its file lies; "" for ours."""
    return "" if identity is None else json.dumps({**identity, "file": ""}, sort_keys=True)


def _few_lines(numbers: list[int]) -> str:
    """Name lines: "line 3 was", "lines 3, 4 and 7 more were"."""
    shown = listed(list(map(str, numbers)), most=5)
    return f"line {shown} was" if len(numbers) == 1 else f"lines {shown} were"


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


def _complete_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, without the beginning of a line that a killed process left, which is cut off."""
    lines = BytesIO(path.read_bytes()).readlines() if path.exists() else []
    if lines and not lines[-1].endswith(b"\n") and not lines[-1][:-1].endswith(b"}"):
        write_whole(path, b"".join(lines[:-1]))
        return lines[:-1]
    return lines


def _manifest_in(path: Path) -> Record | None:
    """Return a manifest without its checksum; None where it is damaged, or not there."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):  # a ValueError also where bytes are no text
        return None
    kinds = {"name": str, "digest": str, "spec": dict}
    if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in kinds.items()):
        return None
    said = found.pop(CHECKSUM, None)
    sealed = set(found) == set(kinds) and said in (None, _checksum(found, ""))  # older versions wrote no checksum
    return found if sealed else None
