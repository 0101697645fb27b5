"""Plot of the drift of new rows."""

from typing import Any, Self

import numpy as np

from scarless.checks.options import check_choice
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, as_text, legend_below
from scarless.diagnostics.drift.columns import MOVED_DISTANCE
from scarless.diagnostics.drift.detect import detect_drift
from scarless.diagnostics.drift.result import Drift

PARTS = ("auto", "labels", "columns")
MAX_COLUMNS_DRAWN = 20


class DriftDisplay(Display):
    """Plot of observed and predicted labels in groups of new rows, or of the change of each column.

    Parameters
    ----------
    result : Drift
        Result of `detect_drift`.
    part : {"auto", "labels", "columns"}, default="auto"
        "labels": observed labels divided by predicted labels, in groups of rows. "columns": distance between the
        distributions of old and new rows, for each column. "auto": "labels" if there are labels.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    detect_drift : Computes the result.

    Examples
    --------
    >>> from scarless.diagnostics import DriftDisplay
    >>> DriftDisplay.from_estimator(model, X_new, s_new)  # doctest: +SKIP
    """

    def __init__(self, result: Drift, *, part: str = "auto") -> None:
        if not isinstance(result, Drift):
            raise TypeError(
                f"result must be a Drift, as returned by detect_drift; got {type(result).__name__}. For a model, use "
                "DriftDisplay.from_estimator(estimator, X, s)."
            )
        chosen = check_choice(part, "part", PARTS)
        if chosen == "labels" and result.labels is None:
            raise ValueError("part='labels' needs labels, but detect_drift was called without s. Use part='columns'.")
        self.result = result
        self.part = ("columns" if result.labels is None else "labels") if chosen == "auto" else chosen

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, s: Any = None, *, part: str = "auto", ax: Any = None, **options: Any
    ) -> Self:
        """Check for drift, and draw the result.

        Parameters
        ----------
        estimator, X, s
            See `detect_drift`.
        part : {"auto", "labels", "columns"}, default="auto"
            What to draw.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.
        **options
            Options of `detect_drift`.

        Returns
        -------
        DriftDisplay
        """
        return cls(detect_drift(estimator, X, s, **options), part=part).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the result.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure; its height depends on the number of lines.

        Returns
        -------
        The display itself; ``ax_`` is the Axes and ``figure_`` the figure.
        """
        super().plot(ax)
        if ax is None:
            self.figure_.set_figheight(max(3.2, 1.8 + 0.3 * len(self.ax_.get_yticks())))
        return self

    def draw(self, ax: Any) -> None:
        """Draw the result on the Axes."""
        (self._draw_labels if self.part == "labels" else self._draw_columns)(ax)
        ax.set_title(f"Verdict: {self.result.verdict}")
        if ax.get_legend_handles_labels()[0]:
            legend_below(ax)

    def _draw_labels(self, ax: Any) -> None:
        groups = self.result.shown_groups()
        names = [name if each.by == name else f"{each.by}: {name}" for each in groups for name in each.names]
        observed, predicted, low, high = (
            np.concatenate([getattr(each, name) for each in groups])
            for name in ("observed", "predicted", "low", "high")
        )
        scale, height = np.maximum(predicted, 1e-9), np.arange(len(names))[::-1]
        outside = (observed < low) | (observed > high)
        ax.barh(
            height, (high - low) / scale, left=low / scale, color=GREY, alpha=0.35, label="range if nothing changed"
        )
        for kind, colour, marker, label in (
            (outside, ORANGE, "o", "observed, outside the range"),
            (~outside, BLUE, "D", "observed, inside the range"),
        ):
            if kind.any():
                ax.plot(observed[kind] / scale[kind], height[kind], marker, color=colour, label=label)
        ax.axvline(1.0, color=GREY, lw=1, ls="--", zorder=0)
        ax.set_yticks(height, [as_text(name) for name in names])
        ax.set(xlabel="Labels, divided by their predicted number", ylim=(-0.6, len(names) - 0.4))

    def _draw_columns(self, ax: Any) -> None:
        found = self.result.columns
        shown = () if found is None else found.columns[:MAX_COLUMNS_DRAWN]
        height = np.arange(len(shown))[::-1]
        for moved, colour, label in ((True, ORANGE, "moved"), (False, BLUE, "did not move")):
            chosen = [j for j, each in enumerate(shown) if each.moved is moved]
            if chosen:
                ax.barh(height[chosen], [shown[j].distance for j in chosen], color=colour, label=label)
        ax.axvline(MOVED_DISTANCE, color=GREY, lw=1, ls="--", label=f"distance of {MOVED_DISTANCE:g}")
        ax.set_yticks(height, [as_text(each.name) for each in shown])
        ax.set(xlabel="Distance between old and new rows")
