"""Plot of the number of positives to expect among the rows that rank highest."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, legend_below
from scarless.diagnostics.audits.yields import YieldCurve, yield_curve
from scarless.numerics.arrays import ArrayLike

NUMBERS = (10, 20, 50, 100, 200, 500)  # numbers of rows that are drawn by default


class YieldCurveDisplay(Display):
    """Plot of the number of positives to expect, by the number of rows that are checked.

    The line of the classifier has a band, its interval. The other lines show how many positives the order of the label
    probability (the naive model) and a random order would find.

    Parameters
    ----------
    result : YieldCurve
        The numbers to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    yield_curve : Computes the numbers.

    Examples
    --------
    >>> from scarless.diagnostics import YieldCurveDisplay
    >>> YieldCurveDisplay.from_estimator(model, X, s, n=[10, 50, 100, 200])  # doctest: +SKIP
    """

    def __init__(self, result: YieldCurve) -> None:
        if not isinstance(result, YieldCurve):
            raise TypeError(
                f"result must be a YieldCurve, as returned by yield_curve; got {type(result).__name__}. For a model, "
                "use YieldCurveDisplay.from_estimator(estimator, X, s)."
            )
        self.result = result

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, s: ArrayLike, *, n: int | Sequence[int] = NUMBERS, ax: Any = None, **options: Any
    ) -> Self:
        """Compute the numbers and draw them.

        Parameters
        ----------
        estimator, X, s
            See `yield_curve`.
        n : list of int, default=(10, 20, 50, 100, 200, 500)
            Numbers of rows to check.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.
        **options
            Options of `yield_curve`.

        Returns
        -------
        YieldCurveDisplay
        """
        return cls(yield_curve(estimator, X, s, n=n, **options)).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw the numbers on the Axes. The curves begin at 0 rows."""
        found = self.result
        ax.set(xlabel="Unlabelled rows checked", ylabel="Positives among them")
        if not found.informative:
            ax.set_title("This fit cannot estimate how many of the rows are positive")
            return
        order = np.unique(found.n, return_index=True)[1]

        def from_zero(values: Any) -> Any:
            return np.concatenate([[0.0], np.asarray(values, dtype=np.float64)[order]])

        n = from_zero(found.n)
        level = f"{100 * found.level:.6g}% interval"
        ax.fill_between(n, from_zero(found.low), from_zero(found.high), color=BLUE, alpha=0.2, lw=0, label=level)
        ax.plot(n, from_zero(found.expected), color=BLUE, marker="o", ms=4, label="ranked by this model")
        if found.naive is not None:
            ax.plot(n, from_zero(found.naive), color=ORANGE, ls="--", label="ranked by probability of a label (naive)")
        ax.plot(n, from_zero(found.random), color=GREY, ls=":", label="random order")
        ax.set(xlim=(0, None), ylim=(0, None), title="Positives to expect among the rows that rank highest")
        legend_below(ax)
