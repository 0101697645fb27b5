"""Model files that hold no code: a fitted model stored and read back, with nothing made that is not on a list of ours.

The file is a zip in skops' format, with one member more, ``scarless.json``, that says who wrote it. `load` reads that
first, then looks through the description of the model without making anything, and refuses whatever is not on the list
of `scarless.saved.trusted` (or skops' own, of plain data and scikit-learn's estimators). What each name on the list
could be used for by a stranger is written there.
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
    Audit,
    audited_once,
    described_once,
    parts_of,
    rename_moved,
    shrink,
)
from scarless.saved.earlier import NoLongerFitted, renew
from scarless.saved.trusted import TRUSTED
from scarless.saved.values import check_values, objects_in

__all__ = ["ModelFileError", "load", "save"]

SCHEMA_NUMBER = 1  # of what is beside skops' own format: the stamp, names of members, references
SUFFIX = ".skops"
_VERSION_TEXT = re.compile(r"\d+(\.\d+)*[0-9A-Za-z.+!-]{0,30}")
_CLASS_NAME = re.compile(r"\w{1,100}")
_PACKAGES = ("numpy", "scikit-learn", "skops", "skrub", "pandas", "polars")
STAMP, SCHEMA = "scarless.json", "schema.json"
MAX_STAMP_BYTES = 2**16
MAX_DESCRIPTION_BYTES = 2**30
MAX_UNPACKED_TO_PACKED = 300  # bytes for each byte of the zip; models come to 4 to 50
MIN_BYTES_OF_A_BOMB = 2**26  # bytes: what is smaller does no harm, and a small file of zeros packs to a thousandth
_MEMBER_NAME = re.compile(r"(scarless|schema)\.json|[0-9a-f]{64}\.(npy|bin)")
_OTHER_WAY = (
    "Leave it out, e.g. by naming columns in place of a function; or store the model with joblib or cloudpickle, whose "
    "files run code when they are loaded: load only your own."
)


class ModelFileError(ValueError):
    """A model cannot be stored, or a file is not one that can be loaded."""


class Contents(NamedTuple):
    """A model file, of which nothing but sizes and names has been read."""

    data: bytes
    sizes: dict[str, int]  # of members, unpacked

    def read(self, name: str) -> bytes:
        """Return a member."""
        with zipfile.ZipFile(io.BytesIO(self.data)) as file:
            return file.read(name)


class Stamp(NamedTuple):
    """Who wrote a file, and what is in it."""

    scarless: str
    schema: int
    model: str
    versions: dict[str, str]
    description: str | None = None  # the hash of the description; None in files of scarless 0.1
    not_finite: tuple[str, ...] | None = None  # arrays that hold NaN or infinity


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file without code in it.

    The same model makes the same bytes. The file is written aside and then moved into place.

    Parameters
    ----------
    estimator : fitted estimator
        One of scarless, a `sklearn.pipeline.Pipeline` that ends in one, with steps of scikit-learn or skrub, or
        anything else made of types that `load` knows. A class or function of your own is refused by name.
    path : path of a file that ends in ``.skops``
        Overwritten if it is there.

    Raises
    ------
    ModelFileError
        Where the path has another suffix or no folder, or the model holds what `load` would refuse.
    sklearn.exceptions.NotFittedError
        Where the model is not fitted.

    See Also
    --------
    load : Read it back.

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
    """Read a model that `save` wrote, and nothing else.

    Nothing is made before all is known: a file of a stranger may hold wrong numbers, but it cannot run code.

    Parameters
    ----------
    path : path of a file

    Returns
    -------
    estimator : fitted estimator
        As it was saved; its predictions are the same to the last bit where the versions of packages are.

    Raises
    ------
    FileNotFoundError
        Where there is no such file.
    ModelFileError
        Where the file is not one of ours, is damaged, of a newer version, or names a type that is not on our list.

    Warns
    -----
    UserWarning
        Where it was written with another version of scikit-learn.

    See Also
    --------
    save : Write one, with an example.
    """
    source = check_path(path)
    if not source.exists():
        raise FileNotFoundError(f"There is no model file {str(source)!r}.")
    if not source.is_file() or source.stat().st_size > MAX_UNPACKED_BYTES:
        raise ModelFileError(
            f"{str(source)!r} is no model file: it is a folder, a device, or over {MAX_UNPACKED_BYTES:,} bytes."
        )
    called = repr(str(source))
    contents = unpack(source.read_bytes(), called)
    stamp = _stamp_of(contents, called)
    _verify(contents, stamp, called)
    contents = _with_names_of_today(contents)
    refused = _refused(contents, stamp, called)
    if refused:
        raise ModelFileError(
            f"{called} names what scarless does not load: {_named(refused)}. Nothing of it was made. Ask who made the "
            "file; scarless.save never writes such a one."
        )
    model = _built(contents.data, stamp, called)
    here = version("scikit-learn")
    if stamp.versions["scikit-learn"] != here:
        warn_user(
            f"{called} was written with scikit-learn {stamp.versions['scikit-learn']}, and this is {here}: parts of "
            "scikit-learn in it may predict something else, or fail. Fit anew and save, or install that version.",
            UserWarning,
        )
    return model


# --- writing


def _packed(estimator: Any) -> bytes:
    """Return the bytes of the file, tried as `load` will try them."""
    skops = need("skops.io", "Saving a model", "tool")
    try:
        with described_once(), zipfile.ZipFile(io.BytesIO(skops.dumps(estimator))) as file:
            members = {name: file.read(name) for name in file.namelist()}
    except Exception as error:  # of skops, of json, of whatever a class does when it is asked for its state
        raise ModelFileError(f"This model cannot be stored as data: {_line(error)}. {_OTHER_WAY}") from error
    schema = json.loads(members.pop(SCHEMA))
    renamed = {name: content_name(name, data) for name, data in members.items()}
    stamp = _new_stamp(estimator, schema)
    arrays = {renamed[name]: members[name] for name in sorted(members, key=renamed.__getitem__)}
    description = _json(shrink(schema, renamed))
    said = {"scarless": stamp.scarless, "schema": stamp.schema, "model": stamp.model, **stamp.versions}
    said["description"] = content_name(SCHEMA, description)
    said["not_finite"] = [name for name, data in arrays.items() if not is_finite(data)]
    data = pack({STAMP: _json(said), SCHEMA: description, **arrays})
    refused = _refused(unpack(data, "This model"), stamp, "This model")
    if refused:
        raise ModelFileError(f"This model holds what scarless.load would refuse: {_named(refused)}. {_OTHER_WAY}")
    return data


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _new_stamp(estimator: Any, schema: Any) -> Stamp:
    """Return the stamp: of optional packages, only those that the file names."""
    used = {str(part["__module__"]).partition(".")[0] for part in parts_of(schema)}
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        if package in used or package in ("numpy", "scikit-learn", "skops"):
            versions[package] = version(package)
    return Stamp(version("scarless"), SCHEMA_NUMBER, type(estimator).__name__, versions)


# --- reading


def _stamp_of(contents: Contents, called: str) -> Stamp:
    """Return the stamp, or refuse one that is none, or that is of a time to come."""
    try:
        read = json.loads(contents.read(STAMP))
        others = {name: text for name, text in read.items() if name in ("python", *_PACKAGES)}
        listed = read.get("not_finite")
        not_finite = None if listed is None else tuple(str(name) for name in listed)
        stamp = Stamp(read["scarless"], read["schema"], read["model"], others, read.get("description"), not_finite)
        good = type(stamp.schema) is int and stamp.schema > 0 and _CLASS_NAME.fullmatch(stamp.model) is not None
        good &= all(_VERSION_TEXT.fullmatch(text) is not None for text in (stamp.scarless, *others.values()))
        good &= {"python", "numpy", "scikit-learn", "skops"} <= set(others)
    except Exception as error:  # not JSON, not a dict, not text, not what the zip says it is
        raise ModelFileError(damaged(called, f"its {STAMP} cannot be read")) from error
    if not good:
        raise ModelFileError(damaged(called, f"its {STAMP} says what scarless.save never writes"))
    here = version("scarless")
    if stamp.schema > SCHEMA_NUMBER or _release(stamp.scarless) > _release(here):
        raise ModelFileError(
            f"{called} was written by scarless {stamp.scarless} (schema {stamp.schema}), and this is scarless {here} "
            f"(schema {SCHEMA_NUMBER}): pip install --upgrade scarless, or save the model with scarless {here}."
        )
    return stamp


def _release(text: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, without zeros at the end: 1.0 is 1."""
    numbers = [int(number) for number in re.match(r"\d+(?:\.\d+)*", text)[0].split(".")]  # type: ignore[index]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _verify(contents: Contents, stamp: Stamp, called: str) -> None:
    """Refuse a file whose description or arrays are not those that were saved."""
    try:
        found = content_name(SCHEMA, contents.read(SCHEMA))
    except Exception as error:  # zipfile and zlib raise of all kinds
        raise ModelFileError(damaged(called, f"its {SCHEMA} cannot be unpacked")) from error
    if stamp.description not in (None, found):
        raise ModelFileError(damaged(called, f"its {SCHEMA} is not the one that was saved"))
    verify_arrays(contents, stamp.not_finite, called)


def _with_names_of_today(contents: Contents) -> Contents:
    """Return contents that call every class by the name it has now; a description that makes no sense stays."""
    try:
        schema = json.loads(contents.read(SCHEMA))
        moved = rename_moved(schema)
    except Exception:  # of any kind: `_refused` says it
        return contents
    if not moved:
        return contents
    members = {name: contents.read(name) for name in contents.sizes}
    members[SCHEMA] = _json(schema)
    return Contents(pack(members), {name: len(data) for name, data in members.items()})


def _refused(contents: Contents, stamp: Stamp, called: str) -> list[str]:
    """Return what the description of a model names that is not on the lists; nothing is made or imported for it."""
    skops = need("skops.io", "A model file", "tool")
    try:
        schema = json.loads(contents.read(SCHEMA))
        audit = Audit(schema, contents.sizes)
        with audited_once():
            refused = audit.refused or set(skops.get_untrusted_types(data=contents.data)) - set(TRUSTED)
        if not refused and stamp.model not in (schema["__class__"], _plain_name(schema)):
            raise ValueError(f"the stamp says {stamp.model}")
        return sorted(refused)
    except Exception as error:
        raise ModelFileError(damaged(called, f"its description makes no sense ({_line(error)})")) from error


def _plain_name(schema: Any) -> str:
    """Return the class of a value that is kept as JSON, such as a number."""
    return type(json.loads(schema["content"])).__name__ if schema["__loader__"] == "JsonNode" else ""


def _built(data: bytes, stamp: Stamp, called: str) -> Any:
    skops = need("skops.io", "Loading a model", "tool")
    try:
        with warnings.catch_warnings(), audited_once():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # `load` says it once
            model = skops.loads(data, trusted=sorted(TRUSTED))
        for value in list(objects_in(model)):
            renew(value)
        check_values(model)
    except NoLongerFitted as error:
        raise ModelFileError(f"{called} {error}") from error
    except ImportError as error:
        raise ImportError(f"{called} needs {error.name}: {install('tool')}.") from error
    except Exception as error:
        raise ModelFileError(damaged(called, f"no model can be made of it ({_line(error)}){_others(stamp)}")) from error
    return model


def _others(stamp: Stamp) -> str:
    """Say which packages have another version here than where a file was written."""
    found = {name: _version_here(name) for name in stamp.versions}
    other = [f"{name} {text} (here {found[name]})" for name, text in stamp.versions.items() if text != found[name]]
    return f"; it was written with {', '.join(other)}" if other else ""


def _version_here(name: str) -> str:
    try:
        return platform.python_version() if name == "python" else version(name)
    except PackageNotFoundError:
        return "none"


def _named(names: list[str]) -> str:
    """Name a few, shortened and quoted: they may come from a stranger."""
    shown = ", ".join(ascii(name[:120]) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _line(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".split("\n", maxsplit=1)[0]
    return ascii(text[:200])[1:-1]


# --- the zip: written the same each time, and looked through before anything in it is believed


def check_target(path: Any, suffix: str) -> Path:
    """Return the path of a file to be written, or say what is wrong with it."""
    target = check_path(path)
    if target.suffix != suffix:
        raise ModelFileError(
            f"The path of a model file must end in {suffix}; got {str(target)!r}. For example: "
            f"{str(target.with_suffix(suffix)) if target.name else 'model' + suffix!r}."
        )
    if not target.parent.is_dir():
        raise ModelFileError(f"There is no folder {str(target.parent)!r} to write {target.name} to. Make it first.")
    return target


def check_path(path: Any) -> Path:
    """Return a path, or say that it is none."""
    try:
        return Path(path)
    except TypeError:
        raise ModelFileError(f"path must be the path of a file, as text or pathlib.Path; got {path!r}.") from None


def refuse_unfitted(estimator: Any) -> None:
    """Raise where there is nothing to save."""
    if isinstance(estimator, type):
        raise ModelFileError(f"estimator must be a fitted model; got the class {estimator.__name__}.")
    if isinstance(estimator, BaseEstimator):
        try:
            check_is_fitted(estimator)
        except NotFittedError:
            raise NotFittedError(
                f"This {type(estimator).__name__} is not fitted, so there is nothing to save. Call fit first."
            ) from None


def content_name(name: str, data: bytes) -> str:
    """Return a name that says what is inside, so that equal arrays are kept once and equal models make equal files."""
    return hashlib.sha256(data).hexdigest() + PurePath(name).suffix


def pack(members: dict[str, bytes]) -> bytes:
    """Return a zip of members in this order, with one date for all."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, 0o600 << 16
            file.writestr(info, data)
    return buffer.getvalue()


def unpack(data: bytes, called: str) -> Contents:
    """Return the contents of a file, or refuse what is no zip, or would be too large, or hides something."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = file.infolist()
    except Exception as error:  # zipfile raises of all kinds on bytes that were made to confuse it
        raise ModelFileError(
            f"{called} is no model file, or was cut short: it cannot be read as a zip. Save the model once more with "
            "scarless.save(model, path), or fetch the file again."
        ) from error
    if STAMP not in {member.filename for member in members}:
        raise ModelFileError(
            f"{called} was not written by scarless.save: it has no {STAMP}. If it is a skops file that you trust, use "
            "skops.io.load."
        )
    sizes = {member.filename: member.file_size for member in members}
    if len(sizes) < len(members) or SCHEMA not in sizes or not all(map(_is_plain, members)):
        strange = [member.filename for member in members if not _is_plain(member)]
        what = f"a member {strange[0][:80]!r}" if strange else "members of one name, or none that describes a model"
        raise ModelFileError(
            damaged(called, f"it holds {what}, as scarless.save never writes"),
        )
    _refuse_bombs(sizes, sum(member.compress_size for member in members), called)
    return Contents(data, sizes)


def verify_arrays(contents: Contents, not_finite: Collection[str] | None, called: str) -> None:
    """Refuse a member that is not what `save` wrote: its name is the hash of its content, and its numbers are finite.

    Parameters
    ----------
    not_finite : names of members, or None
        Arrays that held NaN or infinity when they were saved. None for files of versions that did not list them.
    """
    with zipfile.ZipFile(io.BytesIO(contents.data)) as file:
        for name in contents.sizes:
            if name in (STAMP, SCHEMA):
                continue
            try:
                data = file.read(name)
            except Exception as error:  # zipfile and zlib raise of all kinds
                raise ModelFileError(damaged(called, f"its member {name} cannot be unpacked")) from error
            if content_name(name, data) != name:
                raise ModelFileError(damaged(called, f"its member {name} holds other data than were saved"))
            if not_finite is not None and name not in not_finite and not is_finite(data):
                raise ModelFileError(damaged(called, f"its member {name} holds NaN or infinity, and was saved without"))


def is_finite(data: bytes) -> bool:
    """Whether the bytes of an array hold neither NaN nor infinity; also what is no array of numbers is finite."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # raw bytes, or an array that skops will refuse in words of its own
        return True
    fields = [array[name] for name in array.dtype.names] if array.dtype.names else [array]
    return all(bool(np.isfinite(field).all()) for field in fields if field.dtype.kind in "fc")


def damaged(called: str, why: str) -> str:
    """Return the sentence that refuses a file."""
    return f"{called} is damaged or was tampered with: {why}. Save the model once more, or fetch the file again."


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """Whether a member has a name that `save` would give, no password, and is packed in one of the two usual ways."""
    usual = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return usual and not member.flag_bits & 1 and _MEMBER_NAME.fullmatch(member.filename) is not None


def _refuse_bombs(sizes: dict[str, int], packed: int, called: str) -> None:
    """Refuse what would fill the memory; a member never yields more than the size it declares."""
    total = sum(sizes.values())
    for what, size, limit in (
        ("all", total, MAX_UNPACKED_BYTES),
        (STAMP, sizes[STAMP], MAX_STAMP_BYTES),
        (SCHEMA, sizes[SCHEMA], MAX_DESCRIPTION_BYTES),
    ):
        if size > limit:
            raise ModelFileError(
                f"{called} would unpack to {size:,} bytes ({what}), more than the {limit:,} that a model file may have."
            )
    if total > MIN_BYTES_OF_A_BOMB and total > MAX_UNPACKED_TO_PACKED * packed:
        raise ModelFileError(
            f"{called} would unpack from {packed:,} to {total:,} bytes, over {MAX_UNPACKED_TO_PACKED} times as much: "
            "that is no model but a file made to fill the memory."
        )
