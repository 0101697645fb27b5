"""The records of an experiment on disk, as lines of JSON.

Lines are only appended, so a run can be killed at any moment. `records.jsonl` has the results, which are the same bytes
for the same specification. `timings.jsonl` has everything that differs from run to run: seconds, versions and the
machine. A record is complete when its line is complete.

Each line has a checksum of its content; the checksum of a timing also covers the specification and the user's own data.
`Store.open_for` removes damaged lines and reports them; their records are computed again.
"""

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scarless.outside.files import check_place, lock, naming, write_whole
from scarless.outside.notices import listed

Record = dict[str, Any]

KEY = ("dataset", "setting", "k", "split", "labelling", "method")
KEY_TYPES = (str, str, int, int, int, str)
# Entries that are texts; all others but the warnings are numbers.
TEXTS = ("error", "versions", "machine", "clock", "knows")
RECORDS, TIMINGS, MANIFEST, LOCK = "records.jsonl", "timings.jsonl", "spec.json", ".lock"
REMOVED = "damaged.jsonl"  # file for damaged lines that were removed from the other files
SCRATCH = ".scratch-"
PROCESSOR = "processor"  # clock of the times; timings of older versions have wall-clock times, and no entry `clock`
OUR_PACKAGES = ("scarless", "numpy", "scipy", "scikit-learn")  # packages whose versions every timing has
PATH_KEYS = ("estimator", "callable", "mechanism")  # keys of import paths in the user's own tables
PACKAGES_KEY = "packages"  # key that lists packages which the module of an import path uses
CHECKSUM = "sha256"  # key of the checksum of a line; lines of older versions have none


def key_of(record: Record) -> tuple[Any, ...]:
    """Return the key that identifies a record."""
    return tuple(record[name] for name in KEY)


class Store:
    """The folder with the records of one experiment."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def open_for(self, name: str, digest: str, spec: Record) -> list[str]:
        """Prepare the folder for an experiment; raise if it has results of another one. Datasets may be added.

        Returns sentences about damaged lines, which were removed. Their records will be computed again. Raises an
        ImportError if a method names a package that is not installed.
        """
        environment(packages_of(spec))
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest, damaged = self.folder / MANIFEST, list[str]()
        found = _manifest_in(manifest) if manifest.exists() else None
        if manifest.exists() and found is None:
            damaged.append(
                f"{manifest} was damaged and has been written again. Records that may belong to another specification "
                "are computed again."
            )
        if found is not None:
            if found["digest"] != digest:
                raise ValueError(
                    f"{self.folder} has results of another specification: its name is {found['name']} and its digest "
                    f"{found['digest']}, but here they are {name} and {digest}. Use another folder, or delete "
                    f"{self.folder}."
                )
            self._refuse_other_data(found["spec"], spec)
            both = (*found["spec"].get("datasets", ()), *spec.get("datasets", ()))
            own = {**found["spec"].get("own_datasets", {}), **spec.get("own_datasets", {})}
            spec = {**spec, "datasets": list(dict.fromkeys(both)), **({"own_datasets": own} if own else {})}
        content = {"name": name, "digest": digest, "spec": spec}
        write_whole(manifest, json.dumps({**content, CHECKSUM: _checksum(content, "")}, indent=1) + "\n")
        return damaged + self._drop_damaged(must_have_checksums=bool(damaged))

    def _drop_damaged(self, *, must_have_checksums: bool) -> list[str]:
        """Remove damaged lines, and records whose timings are damaged; return a sentence for each file."""
        damaged, incomplete = list[str](), must_have_checksums
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
                damaged.append(
                    f"{path}: {_few_lines(bad)} {why}, and moved to {REMOVED}. The missing records are computed again."
                )
        return damaged

    def _seal(self, file: str) -> Callable[[Record], str]:
        """Return the function that computes the checksum of a line.

        The checksum of a timing covers the specification and the data; the checksum of a record does not, so that
        records are the same bytes in every specification that has them.
        """
        if file == RECORDS:
            return partial(_checksum, salt="")
        manifest = _manifest_in(self.folder / MANIFEST) or {"digest": "", "spec": {}}
        own = manifest["spec"].get("own_datasets", {})
        return lambda row: _checksum(row, f"{manifest['digest']} {_same_data(own.get(row['dataset']))}")

    def _refuse_other_data(self, found: Record, spec: Record) -> None:
        """Raise if a dataset of the user has changed since its records were stored; its file may have moved.

        Built-in datasets are compared too, so that a dataset of the user cannot replace one.
        """
        before, now = found.get("own_datasets", {}), spec.get("own_datasets", {})
        for name in (name for name in spec.get("datasets", ()) if name in found.get("datasets", ())):
            if _same_data(before.get(name)) != _same_data(now.get(name)):
                raise ValueError(
                    f"{self.folder} has results of an earlier version of the dataset {name!r}: its data, or its entry "
                    f"in the specification, have changed. Use another folder, or delete {self.folder}."
                )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes; the lock ends with the process."""
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
        """Create a temporary folder for a run, and remove those of killed runs; the caller must hold the lock."""
        for left in self.folder.glob(f"{SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        with TemporaryDirectory(prefix=SCRATCH, dir=self.folder) as path:
            yield path

    def manifest(self) -> Record:
        """Return the name, digest and specification of the experiment."""
        path = self.folder / MANIFEST
        if not path.exists():
            raise ValueError(
                f"{self.folder} has no results: there is no {MANIFEST}. Run `scarless compare` or `scarless "
                "reproduce` first."
            )
        found = _manifest_in(path)
        if found is None:
            raise ValueError(
                f"{path} is damaged: it must have the name, the digest and the specification of an experiment. Run "
                "`scarless compare` or `scarless reproduce` again, as for the first time: the command writes the file "
                "again, and keeps the records of its specification."
            )
        return found

    def records(self) -> list[Record]:
        """Return all complete records, sorted by their keys."""
        return sorted(self._read(RECORDS, _is_row), key=key_of)

    def timings(self) -> list[Record]:
        """Return the last timing of each record."""
        return sorted({key_of(row): row for row in self._read(TIMINGS, _is_timing)}.values(), key=key_of)

    def add(self, record: Record, timing: Record) -> None:
        """Append a timing, then its record: if the process is killed in between, the record is computed again."""
        manifest = _manifest_in(self.folder / MANIFEST) or {"spec": {}}
        for file, row in ((TIMINGS, {**timing, **environment(packages_of(manifest["spec"]))}), (RECORDS, record)):
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
                        f"Line {number} of {path} is damaged. Run `scarless compare` or `scarless reproduce` again: it "
                        "computes the record of this line again."
                    )
                yield row


@cache
def environment(packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the versions, the machine and the clock, on which results and times may depend.

    Parameters
    ----------
    packages : tuple of str
        Further packages to name, by the name of their distribution or of their module.

    Examples
    --------
    >>> print(environment(("joblib",))["versions"])
    scarless ..., numpy ..., scipy ..., scikit-learn ..., joblib ...
    """
    return {
        "versions": ", ".join(dict.fromkeys(_version_of(name) for name in (*OUR_PACKAGES, *packages))),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "clock": PROCESSOR,
    }


def comparable_timings(timings: Sequence[Record]) -> list[Record]:
    """Return the timings in processor time if there are any, otherwise all timings, which are wall-clock times.

    Wall-clock times include pauses and the time of other programs, so the two kinds must not be mixed.

    Examples
    --------
    >>> comparable_timings([{"seconds": 60.0}, {"seconds": 2.0, "clock": "processor"}])
    [{'seconds': 2.0, 'clock': 'processor'}]
    """
    return [timing for timing in timings if timing.get("clock") == PROCESSOR] or list(timings)


def packages_of(spec: Record) -> tuple[str, ...]:
    """Return the packages that the methods, datasets and mechanisms of a specification use, apart from our own.

    These are the entries `packages`, and the installed packages of all import paths. A module that is not installed,
    such as a file beside the specification, has no version; its hash is part of the specification.

    Examples
    --------
    >>> packages_of({"own_methods": {"mine": {"estimator": "my_module:Mine", "packages": ["pandas"]}}})
    ('pandas',)
    >>> packages_of({"own_methods": {"tree": {"estimator": "joblib.parallel:Parallel"}}})
    ('joblib',)
    """
    groups = [spec.get(f"own_{group}", {}) for group in ("methods", "datasets", "mechanisms")]
    tables = [table for group in groups for table in group.values()]
    named = {name for table in tables for name in table.get(PACKAGES_KEY, ())}
    modules = {path.partition(":")[0].partition(".")[0] for table in tables for path in _installed_paths(table)}
    installed = _distributions() if modules else {}
    found = named | {name for module in modules for name in installed.get(module, ())}
    return tuple(sorted(found - set(OUR_PACKAGES)))


def _installed_paths(table: Record) -> set[str]:
    """Return the import paths of a table of the user, except those of files whose hashes the table has."""
    files = {table.get(key) for key in PATH_KEYS} if "source" in table else set()
    return set(_import_paths(table)) - files - set(table.get("sources", ()))


def _import_paths(value: Any) -> Iterator[str]:
    """Return the import paths in a value of a specification, at any depth."""
    if isinstance(value, dict):
        yield from (each for key in PATH_KEYS if isinstance(each := value.get(key), str) and ":" in each)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _import_paths(each)


@cache
def _distributions() -> dict[str, Sequence[str]]:
    """Return the distributions that have each module; scikit-learn has the module sklearn."""
    return dict(packages_distributions())


def _version_of(name: str) -> str:
    """Return a package with its version, and with its commit if it was installed from a repository."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        others = _distributions().get(name, ())  # `name` may be a module.
        if others and others[0] != name:
            return _version_of(others[0])
        if not name.isidentifier() or find_spec(name) is None:
            raise ImportError(
                f"The specification names the package {name!r}, which is not installed. Install it, or remove the "
                "methods that use it."
            ) from None
        return f"{name} (version unknown)"
    commit = json.loads(found.read_text("direct_url.json") or "{}").get("vcs_info", {}).get("commit_id", "")
    return f"{name} {found.version}" + (f" (commit {commit[:10]})" if commit else "")


def _append(path: Path, row: Record) -> None:
    line = _line(row)
    binary = getattr(os, "O_BINARY", 0)  # In text mode, Windows would change the line ends.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | binary, 0o644)
    try:
        # One call writes the whole line, or the beginning of a line, which is dropped later.
        with naming(path):
            written = os.write(descriptor, line)
        if written < len(line):
            raise OSError(f"A line of {path} was not written completely. Free disk space and run the command again.")
    finally:
        os.close(descriptor)


def _line(row: Record) -> bytes:
    return (json.dumps(row, sort_keys=True) + "\n").encode()


def _row_of(
    line: bytes, is_sound: Callable[[Any], bool], seal: Callable[[Record], str], *, must_have_checksum: bool = False
) -> Record | None:
    """Return the row of a line without its checksum, or None if it is damaged or incomplete."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict) or not line.endswith(b"\n"):
            return None
        has_checksum = CHECKSUM in row
        exact = not has_checksum or _line(row) == line
        checksum = row.pop(CHECKSUM, None)
    except (ValueError, RecursionError):
        return None
    if not is_sound(row) or not exact or (must_have_checksum and not has_checksum):
        return None
    return row if not has_checksum or checksum == seal(row) else None


def _checksum(row: Record, salt: str) -> str:
    return hashlib.sha256(f"{salt}\n{json.dumps(row, sort_keys=True)}".encode()).hexdigest()[:32]


def _same_data(identity: Record | None) -> str:
    """Return the identity of a dataset of the user, without its path; "" for a built-in dataset."""
    return "" if identity is None else json.dumps({**identity, "file": ""}, sort_keys=True)


def _few_lines(numbers: list[int]) -> str:
    """Return line numbers with a verb: "line 3 was", "lines 3, 4 and 7 more were"."""
    shown = listed(list(map(str, numbers)), most=5)
    return f"line {shown} was" if len(numbers) == 1 else f"lines {shown} were"


def _is_row(row: Any) -> bool:
    """Return whether a row has a complete key, and otherwise numbers, known texts and a list of warnings."""
    if not isinstance(row, dict):
        return False
    if not all(type(row.get(name)) is kind for name, kind in zip(KEY, KEY_TYPES, strict=True)):
        return False
    rest = {name: value for name, value in row.items() if name not in KEY}
    warned = rest.pop("warnings", [])
    return (
        isinstance(warned, list)
        and all(isinstance(text, str) for text in warned)
        and all(isinstance(value, str if name in TEXTS else int | float) for name, value in rest.items())
    )


def _is_timing(row: Any) -> bool:
    return _is_row(row) and "seconds" in row


def _complete_lines(path: Path) -> list[bytes]:
    """Return the lines of a file; an incomplete last line of a killed process is removed from the file."""
    lines = BytesIO(path.read_bytes()).readlines() if path.exists() else []
    if lines and not lines[-1].endswith(b"\n") and not lines[-1][:-1].endswith(b"}"):
        write_whole(path, b"".join(lines[:-1]))
        return lines[:-1]
    return lines


def _manifest_in(path: Path) -> Record | None:
    """Return a manifest without its checksum, or None if it is damaged or missing."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):  # Bytes that are not UTF-8 raise a ValueError too.
        return None
    kinds = {"name": str, "digest": str, "spec": dict}
    if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in kinds.items()):
        return None
    checksum = found.pop(CHECKSUM, None)
    intact = set(found) == set(kinds) and checksum in (None, _checksum(found, ""))  # Older versions wrote no checksum.
    return found if intact else None
