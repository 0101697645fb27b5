"""Model files that hold no code: a fitted model stored and read back, with nothing made that is not on a list of ours.

The file is a zip in skops' format, with one member more, ``scarless.json``, that says who wrote it. `load` reads that
first, then looks through the description of the model without making anything, and refuses whatever is not on the list
of `scarless.saved.trusted` (or skops' own, of plain data and scikit-learn's estimators). What each name on the list
could be used for by a stranger is written there.
"""

import io
import json
import os
import platform
import re
import warnings
import zipfile
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from sklearn.exceptions import InconsistentVersionWarning

from scarless.outside.extras import install, need
from scarless.outside.files import write_whole
from scarless.outside.notices import warn_user
from scarless.saved.model_file import (
    LIMIT,
    SCHEMA,
    STAMP,
    Contents,
    ModelFileError,
    check_path,
    check_target,
    content_name,
    damaged,
    is_finite,
    pack,
    refuse_unfitted,
    unpack,
    verify_arrays,
)
from scarless.saved.model_schema import Audit, audited_once, described_once, parts_of, rename_moved, shrink
from scarless.saved.model_values import check_values
from scarless.saved.trusted import TRUSTED

__all__ = ["ModelFileError", "load", "save"]

SCHEMA_NUMBER = 1  # of what is beside skops' own format: the stamp, names of members, references
SUFFIX = ".skops"
_VERSION = re.compile(r"\d+(\.\d+)*[0-9A-Za-z.+!-]{0,30}")
_CLASS = re.compile(r"\w{1,100}")
_PACKAGES = ("numpy", "scikit-learn", "skops", "skrub", "pandas", "polars")


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
    if not source.is_file() or source.stat().st_size > LIMIT:
        raise ModelFileError(f"{str(source)!r} is no model file: it is a folder, a device, or over {LIMIT:,} bytes.")
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


_OTHER_WAY = (
    "Leave it out, e.g. by naming columns in place of a function; or store the model with joblib or cloudpickle, whose "
    "files run code when they are loaded: load only your own."
)


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
        good = type(stamp.schema) is int and stamp.schema > 0 and _CLASS.fullmatch(stamp.model) is not None
        good &= all(_VERSION.fullmatch(text) is not None for text in (stamp.scarless, *others.values()))
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
        check_values(model)
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
