"""Names of arrays, and whose functions a block of rows wants: numpy's, or those of its own array API namespace.

Block functions call what the array API standard (2024.12) has through the namespace of their block, so that an engine
may keep its rows on another device. Parameters come as numpy vectors and are brought to the block; what is returned
stays there. What numpy spells otherwise, or could not yet spell in 1.25, is here.
"""

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    Array = NDArray[Any]
    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Columns = NDArray[np.intp]
    Integers = NDArray[np.intp]
    Mask = NDArray[np.bool_]
    Rows = Mapping[str, Any]
else:

    class ShortName:
        """A type by the name that `help()` is to show: written out, NumPy's `ArrayLike` alone takes 300 characters.

        Examples
        --------
        >>> ShortName("Vector") | None, float | ShortName("Vector")
        (Vector | None, float | Vector)
        """

        def __init__(self, name: str) -> None:
            self.name = name

        def __repr__(self) -> str:
            return self.name

        def __or__(self, other: Any) -> "ShortName":
            return ShortName(f"{self.name} | {_shown(other)}")

        def __ror__(self, other: Any) -> "ShortName":
            return ShortName(f"{_shown(other)} | {self.name}")

    def _shown(other: Any) -> str:
        return getattr(other, "__name__", repr(other))

    ArrayLike = ShortName("ArrayLike")  # what NumPy can make an array of
    Array = ShortName("Array")
    Vector = ShortName("Vector")  # a number for each row, or for each parameter
    Matrix = ShortName("Matrix")
    Columns = ShortName("Columns")  # positions of columns
    Integers = ShortName("Integers")  # a whole number for each row: its place, its bin, its fold
    Mask = ShortName("Mask")  # yes or no for each row
    Rows = ShortName("Rows")  # values per row of a block, by name

__all__ = ["Array", "ArrayLike", "Columns", "Integers", "Mask", "Matrix", "Rows", "Vector"]


def namespace_of(X: Any) -> Any:
    """Return numpy for its own arrays, sparse ones and plain numbers, else the namespace that an array names.

    Examples
    --------
    >>> namespace_of(np.zeros(3)).__name__
    'numpy'
    """
    if isinstance(X, np.ndarray):
        return np
    if (brought := _brought(type(X))) is not None:  # type: ignore[arg-type]
        return brought
    return X.__array_namespace__() if hasattr(X, "__array_namespace__") else np


@lru_cache(100)
def _brought(kind: type) -> Any:
    """Return the namespace that scikit-learn brings for arrays whose own is none, or not quite; None for others."""
    libraries = (base.__module__.partition(".")[0] for base in kind.__mro__)
    known = next((name for name in libraries if name in ("torch", "cupy")), None)
    return None if known is None else import_module(f"sklearn.externals.array_api_compat.{known}")


def like(X: Any, values: Any) -> Any:
    """Return values as an array of the namespace, device and precision of `X`; always a copy if both are numpy's."""
    if isinstance(X, np.ndarray):
        return values.astype(X.dtype)
    xp = namespace_of(X)
    return values.astype(X.dtype) if xp is np else xp.asarray(values, dtype=X.dtype, device=X.device)


def in_float64(values: Any) -> Any:
    """Return a dense array in float64, as it is where it is so already."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64, copy=False)
    xp = namespace_of(values)
    return np.asarray(values, dtype=np.float64) if xp is np else xp.astype(values, xp.float64, copy=False)


def in_numpy(values: Any) -> Any:
    """Return an array as numpy's, from whatever device it is on."""
    if namespace_of(values) is np:
        return values if isinstance(values, np.ndarray) or issparse(values) else np.asarray(values)
    if hasattr(values, "detach"):  # torch: only what is on the CPU lets itself be looked at
        home = values.detach().cpu()
        return (home.float() if str(home.dtype) == "torch.bfloat16" else home).numpy()  # numpy has no such type
    if hasattr(values, "get"):  # CuPy
        return values.get()
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError, BufferError):  # arrays of a device let themselves be fetched by this protocol only
        return np.from_dlpack(values, device="cpu")


def at_least(values: Any, number: float) -> Any:
    """Return values, and a number where they are below it; torch compares arrays with arrays only."""
    xp = namespace_of(values)
    return np.maximum(values, number) if xp is np else xp.clip(values, min=number)


def at_most(values: Any, number: float) -> Any:
    """Return values, and a number where they are above it."""
    xp = namespace_of(values)
    return np.minimum(values, number) if xp is np else xp.clip(values, max=number)


def zeros(X: Any, *shape: int) -> Any:
    """Return zeros in float64, where `X` is."""
    xp = namespace_of(X)
    return np.zeros(shape) if xp is np else xp.zeros(shape, dtype=xp.float64, device=X.device)


def concat(parts: list[Any], axis: int = 0) -> Any:
    """Return arrays one behind the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=axis)
    xp = namespace_of(parts[0])
    return np.concatenate(parts, axis=axis) if xp is np else xp.concat(parts, axis=axis)


def block(parts: list[list[Any]]) -> Any:
    """Return one matrix made of rows of matrices.

    Examples
    --------
    >>> block([[np.ones((1, 1)), np.zeros((1, 2))]])
    array([[1., 0., 0.]])
    """
    if namespace_of(parts[0][0]) is np:
        return np.block(parts)
    return concat([concat(row, axis=1) for row in parts])
