"""Type names of arrays, and array functions for NumPy and for other array API namespaces.

Block functions call the functions of the array API standard (2024.12) through the namespace of their block. An engine
can therefore keep its rows on another device. Model parameters are NumPy vectors and are copied to the device of the
block; results stay on that device. This module contains the functions that have another name in NumPy, or
that NumPy 1.25 lacks.
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
        """A type that `help()` shows by its short name; written out, NumPy's `ArrayLike` takes 300 characters.

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
            return ShortName(f"{self.name} | {_type_name(other)}")

        def __ror__(self, other: Any) -> "ShortName":
            return ShortName(f"{_type_name(other)} | {self.name}")

    def _type_name(other: Any) -> str:
        return getattr(other, "__name__", repr(other))

    ArrayLike = ShortName("ArrayLike")  # anything that `numpy.asarray` accepts
    Array = ShortName("Array")
    Vector = ShortName("Vector")  # one number for each row, or for each parameter
    Matrix = ShortName("Matrix")
    Columns = ShortName("Columns")  # positions of columns
    Integers = ShortName("Integers")  # one integer for each row: its position, bin or fold
    Mask = ShortName("Mask")  # one boolean for each row
    Rows = ShortName("Rows")  # arrays with one value for each row of a block, by name

__all__ = ["Array", "ArrayLike", "Columns", "Integers", "Mask", "Matrix", "Rows", "Vector"]


def namespace_of(X: Any) -> Any:
    """Return the array API namespace of an array; NumPy for NumPy arrays, sparse matrices and numbers.

    Examples
    --------
    >>> namespace_of(np.zeros(3)).__name__
    'numpy'
    """
    if isinstance(X, np.ndarray):
        return np
    if (wrapped := _compat_namespace(type(X))) is not None:  # type: ignore[arg-type]
        return wrapped
    return X.__array_namespace__() if hasattr(X, "__array_namespace__") else np


@lru_cache(100)
def _compat_namespace(kind: type) -> Any:
    """Return scikit-learn's wrapper of PyTorch or CuPy, which do not fully follow the standard; else None."""
    libraries = (base.__module__.partition(".")[0] for base in kind.__mro__)
    known = next((name for name in libraries if name in ("torch", "cupy")), None)
    return None if known is None else import_module(f"sklearn.externals.array_api_compat.{known}")


def like(X: Any, values: Any) -> Any:
    """Return values as an array with the namespace, device and precision of `X`; for a NumPy `X`, always a copy."""
    if isinstance(X, np.ndarray):
        return values.astype(X.dtype)
    xp = namespace_of(X)
    return values.astype(X.dtype) if xp is np else xp.asarray(values, dtype=X.dtype, device=X.device)


def in_float64(values: Any) -> Any:
    """Return a dense array in float64, without a copy if it is float64 already."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64, copy=False)
    xp = namespace_of(values)
    return np.asarray(values, dtype=np.float64) if xp is np else xp.astype(values, xp.float64, copy=False)


def in_numpy(values: Any) -> Any:
    """Return a NumPy array with the values of an array on any device."""
    if namespace_of(values) is np:
        return values if isinstance(values, np.ndarray) or issparse(values) else np.asarray(values)
    if hasattr(values, "detach"):  # PyTorch: only tensors on the CPU convert to NumPy.
        on_cpu = values.detach().cpu()
        return (on_cpu.float() if str(on_cpu.dtype) == "torch.bfloat16" else on_cpu).numpy()  # NumPy has no bfloat16.
    if hasattr(values, "get"):  # CuPy
        return values.get()
    try:
        return np.asarray(values)
    except (TypeError, RuntimeError, BufferError):  # Some libraries copy from a device only through DLPack.
        return np.from_dlpack(values, device="cpu")


def at_least(values: Any, number: float) -> Any:
    """Return the maximum of each value and a number; PyTorch's `maximum` does not accept a plain number."""
    xp = namespace_of(values)
    return np.maximum(values, number) if xp is np else xp.clip(values, min=number)


def at_most(values: Any, number: float) -> Any:
    """Return the minimum of each value and a number."""
    xp = namespace_of(values)
    return np.minimum(values, number) if xp is np else xp.clip(values, max=number)


def zeros(X: Any, *shape: int) -> Any:
    """Return zeros in float64, on the device of `X`."""
    xp = namespace_of(X)
    return np.zeros(shape) if xp is np else xp.zeros(shape, dtype=xp.float64, device=X.device)


def concat(parts: list[Any], axis: int = 0) -> Any:
    """Return the arrays joined along an axis."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=axis)
    xp = namespace_of(parts[0])
    return np.concatenate(parts, axis=axis) if xp is np else xp.concat(parts, axis=axis)


def block(parts: list[list[Any]]) -> Any:
    """Return the matrix that consists of the given rows of matrices, like `numpy.block`.

    Examples
    --------
    >>> block([[np.ones((1, 1)), np.zeros((1, 2))]])
    array([[1., 0., 0.]])
    """
    if namespace_of(parts[0][0]) is np:
        return np.block(parts)
    return concat([concat(row, axis=1) for row in parts])
