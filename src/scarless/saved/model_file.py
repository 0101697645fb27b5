"""The zip that a model file is: written the same each time, and looked through before anything in it is believed."""

import hashlib
import io
import re
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

STAMP, SCHEMA = "scarless.json", "schema.json"
LIMIT = 4 * 2**30  # bytes, unpacked: far more than a model, less than many a machine has
STAMP_LIMIT = 2**16
SCHEMA_LIMIT = 2**30
RATIO = 300  # unpacked to packed; models come to 4 to 50
RATIO_FROM = 2**26  # bytes: what is smaller does no harm, and a small file of zeros packs to a thousandth
_NAME = re.compile(r"(scarless|schema)\.json|[0-9a-f]{64}\.(npy|bin)")


class ModelFileError(ValueError):
    """A model cannot be stored, or a file is not one that can be loaded."""


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


class Contents(NamedTuple):
    """A model file, of which nothing but sizes and names has been read."""

    data: bytes
    sizes: dict[str, int]  # of members, unpacked

    def read(self, name: str) -> bytes:
        """Return a member."""
        with zipfile.ZipFile(io.BytesIO(self.data)) as file:
            return file.read(name)


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
    return usual and not member.flag_bits & 1 and _NAME.fullmatch(member.filename) is not None


def _refuse_bombs(sizes: dict[str, int], packed: int, called: str) -> None:
    """Refuse what would fill the memory; a member never yields more than the size it declares."""
    total = sum(sizes.values())
    for what, size, limit in (
        ("all", total, LIMIT),
        (STAMP, sizes[STAMP], STAMP_LIMIT),
        (SCHEMA, sizes[SCHEMA], SCHEMA_LIMIT),
    ):
        if size > limit:
            raise ModelFileError(
                f"{called} would unpack to {size:,} bytes ({what}), more than the {limit:,} that a model file may have."
            )
    if total > RATIO_FROM and total > RATIO * packed:
        raise ModelFileError(
            f"{called} would unpack from {packed:,} to {total:,} bytes, over {RATIO} times as much: that is no model "
            "but a file made to fill the memory."
        )
