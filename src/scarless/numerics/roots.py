"""The root of a function of one number."""

from collections.abc import Callable

from scipy.optimize import brentq


def find_root(function: Callable[[float], float], low: float, high: float, *, xtol: float = 2e-12) -> float:
    """Return where `function`, of opposite signs at both ends, is 0 (Brent's method).

    SciPy leaves a reference cycle around its function, and with it everything that the function can reach, until the
    garbage collector comes by: kernel matrices of a hundred megabytes, one for each call. Here the function is let go.

    Examples
    --------
    >>> round(find_root(lambda x: x**2 - 2.0, 0.0, 2.0), 6)
    1.414214
    """
    held = [function]
    try:
        return float(brentq(lambda x: held[0](x), low, high, xtol=xtol))  # noqa: PLW0108 (it would hold the function)
    finally:
        held.clear()
