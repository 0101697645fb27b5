"""Model files without code: `save` writes a fitted model, and `load` reads it back if all its types are trusted.

The file is a zip in skops' format with an additional member, ``scarless.json``, which holds the versions of packages.
`load` first reads that member, then checks the description of the model without creating any object. It refuses types
that are neither in `scarless.saved.trusted` nor in skops' own list (plain data and scikit-learn's estimators).
`scarless.saved.trusted` explains what an attacker could do with each listed type.
"""

import hashlib
import io
import json
import os
import platform
import re
import warnings
import zipfile
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from scarless.outside.extras import install, need
from scarless.outside.files import write_whole
from scarless.outside.notices import warn_user
from scarless.saved.description import (
    MAX_UNPACKED_BYTES,
    DescriptionCheck,
    ModelTooLarge,
    checked_once,
    described_once,
    parts_of,
    rename_moved,
    shrink,
)
from scarless.saved.earlier import NoLongerFitted, renew
from scarless.saved.trusted import TRUSTED
from scarless.saved.values import check_values, objects_in

__all__ = ["ModelFileError", "load", "save"]

SCHEMA_NUMBER = 1  # version of our additions to skops' format: stamp, names of members, references
SUFFIX = ".skops"
_VERSION_TEXT = re.compile(r"\d+(\.\d+)*[0-9A-Za-z.+!-]{0,30}")
_CLASS_NAME = re.compile(r"\w{1,100}")
_EXTRAS = {"polars": "frames"}  # extra that installs a package of a model file; all others are in "tool"
_PACKAGES = ("numpy", "scikit-learn", "skops", "skrub", "pandas", "polars")
STAMP, SCHEMA = "scarless.json", "schema.json"
MAX_STAMP_BYTES = 2**16
MAX_DESCRIPTION_BYTES = 2**30
MAX_COMPRESSION_RATIO = 300  # unpacked bytes for each byte of the zip; models have 4 to 50
MIN_BOMB_BYTES = 2**26  # smaller files are harmless, and zeros may be compressed by a factor of 1,000
_MEMBER_NAME = re.compile(r"(scarless|schema)\.json|[0-9a-f]{64}\.(npy|bin)")
_OTHER_WAY = (
    "Remove your own functions and classes from the model, for example by naming columns instead of passing a "
    "function. Or store the model with joblib or cloudpickle. Such files can run code when they are loaded, so load "
    "only your own."
)

_TOO_LARGE_ADVICE = (
    "If this is your own model, fit a smaller one, for example with fewer trees, or store it with joblib."
)


class ModelFileError(ValueError):
    """A model cannot be stored, or a file cannot be loaded."""


class ZipContents(NamedTuple):
    """Bytes of a model file, and the names and sizes of its members."""

    data: bytes
    sizes: dict[str, int]  # unpacked bytes of each member

    def read(self, name: str) -> bytes:
        """Return the content of a member."""
        with zipfile.ZipFile(io.BytesIO(self.data)) as file:
            return file.read(name)


class FileStamp(NamedTuple):
    """Metadata of a model file: its class, and the versions that wrote it."""

    scarless: str
    schema: int
    model: str
    versions: dict[str, str]
    description: str | None = None  # hash of the description; None in files of scarless 0.1
    not_finite: tuple[str, ...] | None = None  # arrays that hold NaN or infinity


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that contains no code.

    Equal models give equal files. The file is written completely before it replaces an existing one.

    Parameters
    ----------
    estimator : fitted estimator
        Estimator of scarless, a `sklearn.pipeline.Pipeline` of steps of scikit-learn or skrub that ends in one, or any
        other object of types that `load` accepts. Classes and functions of your own are not accepted.
    path : path of a file that ends in ``.skops``
        An existing file is overwritten.

    Raises
    ------
    ModelFileError
        If the path has another suffix, its folder does not exist, or the model holds an object that `load` refuses.
    sklearn.exceptions.NotFittedError
        If the model is not fitted.

    See Also
    --------
    load : Read a model file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import scarless
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> s = ((X[:, 0] > 0) & (rng.random(500) < 1 / (1 + np.exp(-X[:, 2])))).astype(int)
    >>> model = scarless.SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> with TemporaryDirectory() as folder:
    ...     scarless.save(model, Path(folder, "model.skops"))
    ...     again = scarless.load(Path(folder, "model.skops"))
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    target = check_target(path, SUFFIX)
    refuse_unfitted(estimator)
    write_whole(target, _packed(estimator))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model file that `save` wrote.

    The whole file is checked before any object is created. A file from an untrusted source may hold wrong numbers, but
    it cannot run code.

    Parameters
    ----------
    path : path of a file
        Model file.

    Returns
    -------
    estimator : fitted estimator
        The saved model. Its predictions are identical to the bit if the versions of packages are the same.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ModelFileError
        If the file was not written by `save`, is damaged, is of a newer version, or names a type that is not trusted.

    Warns
    -----
    UserWarning
        If the file was written with another version of scikit-learn.

    See Also
    --------
    save : Write a model file, with an example.
    """
    source = check_path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no model file {str(source)!r}. Check the path.")
    if not source.is_file() or source.stat().st_size > MAX_UNPACKED_BYTES:
        raise ModelFileError(
            f"{str(source)!r} is not a model file: it is a folder, a device, or larger than {MAX_UNPACKED_BYTES:,} "
            "bytes."
        )
    called = repr(str(source))
    contents = unpack(source.read_bytes(), called)
    stamp = _stamp_of(contents, called)
    _verify(contents, stamp, called)
    contents = _with_current_names(contents)
    refused = _refused(contents, stamp, called)
    if refused:
        raise ModelFileError(
            f"{called} contains types that scarless does not load: {_named(refused)}. No object was created. "
            "scarless.save does not write such files. Ask the author of the file how it was written."
        )
    model = _built(contents.data, stamp, called)
    here = version("scikit-learn")
    if stamp.versions["scikit-learn"] != here:
        warn_user(
            f"{called} was written with scikit-learn {stamp.versions['scikit-learn']}, but {here} is installed. Parts "
            "of the model may predict different values, or fail. Fit and save the model again, or install "
            f"scikit-learn {stamp.versions['scikit-learn']}.",
            UserWarning,
        )
    return model


# --- writing


def _packed(estimator: Any) -> bytes:
    """Return the bytes of the file; raise if `load` would refuse them."""
    skops = need("skops.io", "Saving a model", "tool")
    try:
        with described_once(), zipfile.ZipFile(io.BytesIO(skops.dumps(estimator))) as file:
            members = {name: file.read(name) for name in file.namelist()}
    except Exception as error:  # skops, json and the classes of the model raise different exceptions
        raise ModelFileError(f"This model cannot be stored as data: {_line(error)}. {_OTHER_WAY}") from error
    schema = json.loads(members.pop(SCHEMA))
    renamed = {name: content_name(name, data) for name, data in members.items()}
    stamp = _new_stamp(estimator, schema)
    arrays = {renamed[name]: members[name] for name in sorted(members, key=renamed.__getitem__)}
    description = _json(shrink(schema, renamed))
    metadata = {"scarless": stamp.scarless, "schema": stamp.schema, "model": stamp.model, **stamp.versions}
    metadata["description"] = content_name(SCHEMA, description)
    metadata["not_finite"] = [name for name, data in arrays.items() if not is_finite(data)]
    data = pack({STAMP: _json(metadata), SCHEMA: description, **arrays})
    refused = _refused(unpack(data, "This model"), stamp, "This model")
    if refused:
        raise ModelFileError(f"This model contains types that scarless.load refuses: {_named(refused)}. {_OTHER_WAY}")
    return data


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _new_stamp(estimator: Any, schema: Any) -> FileStamp:
    """Return the stamp; it lists optional packages only if the file uses them."""
    used = {str(part["__module__"]).partition(".")[0] for part in parts_of(schema)}
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        if package in used or package in ("numpy", "scikit-learn", "skops"):
            versions[package] = version(package)
    return FileStamp(version("scarless"), SCHEMA_NUMBER, type(estimator).__name__, versions)


# --- reading


def _stamp_of(contents: ZipContents, called: str) -> FileStamp:
    """Return the stamp; raise if it is damaged, or of a newer version."""
    try:
        read = json.loads(contents.read(STAMP))
        others = {name: text for name, text in read.items() if name in ("python", *_PACKAGES)}
        listed = read.get("not_finite")
        not_finite = None if listed is None else tuple(str(name) for name in listed)
        stamp = FileStamp(read["scarless"], read["schema"], read["model"], others, read.get("description"), not_finite)
        good = type(stamp.schema) is int and stamp.schema > 0 and _CLASS_NAME.fullmatch(stamp.model) is not None
        good &= all(_VERSION_TEXT.fullmatch(text) is not None for text in (stamp.scarless, *others.values()))
        good &= {"python", "numpy", "scikit-learn", "skops"} <= set(others)
    except Exception as error:  # a damaged member can raise any exception
        raise ModelFileError(damaged(called, f"its {STAMP} cannot be read")) from error
    if not good:
        raise ModelFileError(damaged(called, f"its {STAMP} holds values that scarless.save does not write"))
    here = version("scarless")
    if stamp.schema > SCHEMA_NUMBER or _release(stamp.scarless) > _release(here):
        raise ModelFileError(
            f"{called} was written by scarless {stamp.scarless} (schema {stamp.schema}), but scarless {here} (schema "
            f"{SCHEMA_NUMBER}) is installed. Run pip install --upgrade scarless, or save the model again with "
            f"scarless {here}."
        )
    return stamp


def _release(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, without trailing zeros, so that 1.0 equals 1."""
    numbers = [int(number) for number in re.match(r"\d+(?:\.\d+)*", text)[0].split(".")]  # type: ignore[index]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _verify(contents: ZipContents, stamp: FileStamp, called: str) -> None:
    """Raise if the description or the arrays are not those that were saved."""
    try:
        found = content_name(SCHEMA, contents.read(SCHEMA))
    except Exception as error:  # zipfile and zlib raise many kinds of exceptions
        raise ModelFileError(damaged(called, f"its {SCHEMA} cannot be unpacked")) from error
    if stamp.description not in (None, found):
        raise ModelFileError(damaged(called, f"its {SCHEMA} was changed"))
    verify_arrays(contents, stamp.not_finite, called)


def _with_current_names(contents: ZipContents) -> ZipContents:
    """Return contents with the current names of classes; a damaged description is returned unchanged."""
    try:
        schema = json.loads(contents.read(SCHEMA))
        moved = rename_moved(schema)
    except Exception:  # `_refused` reports the damage
        return contents
    if not moved:
        return contents
    members = {name: contents.read(name) for name in contents.sizes}
    members[SCHEMA] = _json(schema)
    return ZipContents(pack(members), {name: len(data) for name, data in members.items()})


def _refused(contents: ZipContents, stamp: FileStamp, called: str) -> list[str]:
    """Return the types in the description that are not trusted, without creating or importing anything."""
    skops = need("skops.io", "A model file", "tool")
    try:
        schema = json.loads(contents.read(SCHEMA))
        check = DescriptionCheck(schema, contents.sizes)
        with checked_once():
            refused = check.refused or set(skops.get_untrusted_types(data=contents.data)) - set(TRUSTED)
        if not refused and stamp.model not in (schema["__class__"], _plain_name(schema)):
            raise ValueError(f"the stamp names another class, {stamp.model}")
        return sorted(refused)
    except ModelTooLarge as error:
        raise ModelFileError(f"{called} {error}. {_TOO_LARGE_ADVICE}") from error
    except Exception as error:
        raise ModelFileError(damaged(called, f"its description is invalid ({_line(error)})")) from error


def _plain_name(schema: Any) -> str:
    """Return the class of a value that is stored as JSON, such as a number; "" for other values."""
    return type(json.loads(schema["content"])).__name__ if schema["__loader__"] == "JsonNode" else ""


def _built(data: bytes, stamp: FileStamp, called: str) -> Any:
    skops = need("skops.io", "Loading a model", "tool")
    try:
        with warnings.catch_warnings(), checked_once():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # `load` warns once
            model = skops.loads(data, trusted=sorted(TRUSTED))
        for value in list(objects_in(model)):
            renew(value)
        check_values(model)
    except NoLongerFitted as error:
        raise ModelFileError(f"{called} {error}") from error
    except ImportError as error:
        package = (error.name or "a package that is not installed").partition(".")[0]
        raise ImportError(f"{called} needs {package}: {install(_EXTRAS.get(package, 'tool'))}.") from error
    except Exception as error:
        why = f"the model cannot be created ({_line(error)}){_other_versions(stamp)}"
        raise ModelFileError(damaged(called, why)) from error
    return model


def _other_versions(stamp: FileStamp) -> str:
    """Return text that lists the packages whose installed version differs from the version in the file."""
    found = {name: _version_here(name) for name in stamp.versions}
    other = [f"{name} {text} (here {found[name]})" for name, text in stamp.versions.items() if text != found[name]]
    return f"; perhaps because it was written with {', '.join(other)}" if other else ""


def _version_here(name: str) -> str:
    try:
        return platform.python_version() if name == "python" else version(name)
    except PackageNotFoundError:
        return "none"


def _named(names: list[str]) -> str:
    """Return a list of a few names, shortened and quoted, because the file may be malicious."""
    shown = ", ".join(ascii(name[:120]) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _line(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
    return ascii(text[:200])[1:-1]


# --- the zip file: deterministic when written, and checked when read


def check_target(path: Any, suffix: str) -> Path:
    """Return the path of a file to write; raise if its suffix is wrong or its folder does not exist."""
    target = check_path(path)
    if target.suffix != suffix:
        raise ModelFileError(
            f"path must end in {suffix}; got {str(target)!r}. For example: "
            f"{str(target.with_suffix(suffix)) if target.name else 'model' + suffix!r}."
        )
    if not target.parent.is_dir():
        raise ModelFileError(f"The folder {str(target.parent)!r} for {target.name} does not exist. Create it first.")
    return target


def check_path(path: Any) -> Path:
    """Return a path; raise if the argument is not one."""
    try:
        return Path(path)
    except TypeError:
        raise ModelFileError(f"path must be the path of a file, as text or pathlib.Path; got {path!r}.") from None


def refuse_unfitted(estimator: Any) -> None:
    """Raise if the estimator is a class or is not fitted."""
    if isinstance(estimator, type):
        raise ModelFileError(
            f"estimator must be a fitted model; got the class {estimator.__name__}. Pass a fitted instance."
        )
    if isinstance(estimator, BaseEstimator):
        try:
            check_is_fitted(estimator)
        except NotFittedError:
            raise NotFittedError(
                f"This {type(estimator).__name__} is not fitted, so there is nothing to save. Call fit first."
            ) from None


def content_name(name: str, data: bytes) -> str:
    """Return a name with the hash of the content: equal arrays are stored once, and equal models give equal files."""
    return hashlib.sha256(data).hexdigest() + PurePath(name).suffix


def pack(members: dict[str, bytes]) -> bytes:
    """Return a zip of members in this order, with a fixed date."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, 0o600 << 16
            file.writestr(info, data)
    return buffer.getvalue()


def unpack(data: bytes, called: str) -> ZipContents:
    """Return the contents of a file; raise if it is not a zip, is too large, or has members of other programs."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = file.infolist()
    except Exception as error:  # zipfile raises many kinds of exceptions on malicious bytes
        raise ModelFileError(
            f"{called} is not a model file, or is truncated: it cannot be read as a zip. Save the model again with "
            "scarless.save(model, path), or download the file again."
        ) from error
    if STAMP not in {member.filename for member in members}:
        raise ModelFileError(
            f"{called} was not written by scarless.save: it has no {STAMP}. If it is a skops file that you trust, use "
            "skops.io.load."
        )
    sizes = {member.filename: member.file_size for member in members}
    if len(sizes) < len(members) or SCHEMA not in sizes or not all(map(_is_plain, members)):
        strange = [member.filename for member in members if not _is_plain(member)]
        what = f"a member {strange[0][:80]!r}" if strange else f"two members of the same name, or no {SCHEMA}"
        raise ModelFileError(damaged(called, f"it has {what}, which scarless.save does not write"))
    _refuse_bombs(sizes, sum(member.compress_size for member in members), called)
    return ZipContents(data, sizes)


def verify_arrays(contents: ZipContents, not_finite: Collection[str] | None, called: str) -> None:
    """Raise if a member is not what `save` wrote: its name must be the hash of its content, and its numbers finite.

    Parameters
    ----------
    contents : ZipContents
        Contents of the file.
    not_finite : names of members, or None
        Arrays that held NaN or infinity when they were saved. None for files of versions that did not list them.
    called : str
        Name of the file in errors.
    """
    with zipfile.ZipFile(io.BytesIO(contents.data)) as file:
        for name in contents.sizes:
            if name in (STAMP, SCHEMA):
                continue
            try:
                data = file.read(name)
            except Exception as error:  # zipfile and zlib raise many kinds of exceptions
                raise ModelFileError(damaged(called, f"its member {name} cannot be unpacked")) from error
            if content_name(name, data) != name:
                raise ModelFileError(damaged(called, f"its member {name} was changed"))
            if not_finite is not None and name not in not_finite and not is_finite(data):
                why = f"its member {name} holds NaN or infinity, but had only finite numbers when it was saved"
                raise ModelFileError(damaged(called, why))


def is_finite(data: bytes) -> bool:
    """Return whether the bytes of an array hold neither NaN nor infinity; True for other bytes."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # raw bytes, or an array that skops will refuse
        return True
    fields = [array[name] for name in array.dtype.names] if array.dtype.names else [array]
    return all(bool(np.isfinite(field).all()) for field in fields if field.dtype.kind in "fc")


def damaged(called: str, why: str) -> str:
    """Return the error text for a damaged file."""
    return f"{called} is damaged or was tampered with: {why}. Save the model again, or download the file again."


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """Return whether a member has a name that `save` writes, no password, and a usual compression."""
    usual = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return usual and not member.flag_bits & 1 and _MEMBER_NAME.fullmatch(member.filename) is not None


def _refuse_bombs(sizes: dict[str, int], packed: int, called: str) -> None:
    """Raise if a file would fill the memory.

    The declared sizes are sufficient, because zipfile never returns more bytes than a member declares.
    """
    total = sum(sizes.values())
    for what, size, limit in (
        ("all members", total, MAX_UNPACKED_BYTES),
        (STAMP, sizes[STAMP], MAX_STAMP_BYTES),
        (SCHEMA, sizes[SCHEMA], MAX_DESCRIPTION_BYTES),
    ):
        if size > limit:
            raise ModelFileError(
                f"{called} would unpack to {size:,} bytes ({what}); a model file may have at most {limit:,}. "
                f"{_TOO_LARGE_ADVICE}"
            )
    if total > MIN_BOMB_BYTES and total > MAX_COMPRESSION_RATIO * packed:
        raise ModelFileError(
            f"{called} would unpack from {packed:,} to {total:,} bytes, more than {MAX_COMPRESSION_RATIO} times as "
            "much. Real models rarely compress that well, but malicious files made to exhaust memory do. "
            f"{_TOO_LARGE_ADVICE}"
        )
