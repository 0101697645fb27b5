"""Axes, colours and legends of all displays."""

from typing import Any, Self

from scarless.outside.extras import need

# These colours are distinguishable in print and by people with colour blindness.
BLUE, ORANGE, GREY, GREEN = "#1f6fb4", "#d9730d", "#8a8a8a", "#2a9d72"
_LABEL_HEIGHT = 3.6  # height of tick labels and axis label below the Axes, in multiples of the font size
_MARGIN = 4.0  # pixels below a legend
_MAX_LEGEND_WIDTH = 1.5  # as a multiple of the width of the Axes


def axes_for(ax: Any, user: str) -> Any:
    """Return the matplotlib Axes to draw on: those passed by the user, or those of a new figure."""
    pyplot = need("matplotlib.pyplot", user, extra="plot")
    if ax is None:
        return pyplot.subplots(layout="constrained")[1]
    if not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise TypeError(
            f"ax must be a matplotlib Axes, for example plt.subplots()[1]; got {type(ax).__name__}. "
            "If ax is an array of Axes, pass one of its elements."
        )
    return ax


def as_text(name: Any) -> str:
    r"""Return a name with escaped dollar signs, because matplotlib reads text between two $ as mathematics.

    Examples
    --------
    >>> print(as_text("income_$"))
    income_\$
    """
    return str(name).replace("$", r"\$")


def legend_below(ax: Any, n_columns: int = 2) -> Any:
    """Put the legend below the Axes, in `n_columns` columns if the figure is wide enough.

    A figure that `axes_for` creates has a layout engine, which makes room for the legend. Without a layout engine, the
    legend may extend below the figure. The Axes are then made shorter by that height.
    """
    shift = need("matplotlib.transforms", "The legend", extra="plot").ScaledTranslation
    figure, size = ax.figure, ax.xaxis.label.get_size()
    below = ax.transAxes + shift(0.0, -_LABEL_HEIGHT * size / 72.0, figure.dpi_scale_trans)
    for columns in range(n_columns, 0, -1):
        legend = ax.legend(
            fontsize="small",
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=below,
            ncols=columns,
            borderaxespad=0.0,
        )
        extent = legend.get_window_extent()
        if extent.width <= _MAX_LEGEND_WIDTH * ax.bbox.width:
            break
    if figure.get_layout_engine() is None and extent.y0 < 0:
        box, missing = ax.get_position(), (_MARGIN - extent.y0) / figure.bbox.height
        ax.set_position((box.x0, box.y0 + missing, box.width, max(box.height - missing, 0.1 * box.height)))
    return legend


class Display:
    """Base class of plots: a display contains data, and `plot` draws them on matplotlib Axes.

    To write your own display, subclass `Display` and define ``draw(ax)``. `plot` creates the Axes if none are passed,
    calls `draw`, and returns the display. The page "Extending scarless" of the documentation has a complete
    example.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    Examples
    --------
    >>> from scarless.diagnostics import Display
    >>> class Line(Display):
    ...     def draw(self, ax):
    ...         ax.plot([0, 1])
    >>> Line().plot().ax_.lines[0].get_ydata()  # doctest: +SKIP
    array([0, 1])
    """

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw the data.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        The display itself; ``ax_`` is the Axes and ``figure_`` the figure.
        """
        self.ax_ = axes_for(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        self.draw(self.ax_)
        return self

    def draw(self, ax: Any) -> None:
        """Draw on the Axes. Every subclass must define this method."""
        raise NotImplementedError(f"{type(self).__name__} must define draw(ax), which draws on the Axes.")
