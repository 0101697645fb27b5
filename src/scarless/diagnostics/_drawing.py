"""What every picture here shares: where it is drawn, and in which colours."""

from typing import Any, Self

from scarless.outside.extras import need

# Told apart by eyes that see few colours, and in print.
BLUE, ORANGE, GREY, GREEN = "#1f6fb4", "#d9730d", "#8a8a8a", "#2a9d72"
_LABEL_ROOM = 3.6  # sizes of the font, for ticks and their label under the Axes
_MARGIN = 4.0  # pixels under a legend
_WIDEST = 1.5  # legend, in widths of the Axes


def axes_for(ax: Any, user: str) -> Any:
    """Return the matplotlib Axes to draw in: the caller's, or those of a new figure."""
    pyplot = need("matplotlib.pyplot", user, extra="plot")
    if ax is None:
        return pyplot.subplots(layout="constrained")[1]
    if not hasattr(ax, "plot") or not hasattr(ax, "figure"):
        raise TypeError(
            f"ax must be a matplotlib Axes, for example plt.subplots()[1]; got {type(ax).__name__}. "
            "Of an array of Axes, pass one."
        )
    return ax


def as_text(name: Any) -> str:
    r"""Return a user's name of a row or column as text to draw; matplotlib takes what is between two $ for maths.

    Examples
    --------
    >>> print(as_text("income_$"))
    income_\$
    """
    return str(name).replace("$", r"\$")


def legend_below(ax: Any) -> Any:
    """Put the legend under the Axes, where it covers nothing; in two columns where the figure is wide enough.

    A figure that lays itself out, as `axes_for` makes it, finds the room. In any other the Axes are made lower by what
    would stick out of the figure.
    """
    shift = need("matplotlib.transforms", "The legend", extra="plot").ScaledTranslation
    figure, size = ax.figure, ax.xaxis.label.get_size()
    below = ax.transAxes + shift(0.0, -_LABEL_ROOM * size / 72.0, figure.dpi_scale_trans)
    for columns in (2, 1):
        legend = ax.legend(
            fontsize="small",
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=below,
            ncols=columns,
            borderaxespad=0.0,
        )
        extent = legend.get_window_extent()
        if extent.width <= _WIDEST * ax.bbox.width:
            break
    if figure.get_layout_engine() is None and extent.y0 < 0:
        box, missing = ax.get_position(), (_MARGIN - extent.y0) / figure.bbox.height
        ax.set_position((box.x0, box.y0 + missing, box.width, max(box.height - missing, 0.1 * box.height)))
    return legend


class Display:
    """Base class of pictures: a display holds data, and `plot` draws them into matplotlib Axes.

    For a display of your own write `draw`, which gets the Axes; `plot` finds them, keeps them and returns the display.
    The page "Extend it" has a complete example.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

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
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        The display itself; ``ax_`` has the Axes and ``figure_`` the figure.
        """
        self.ax_ = axes_for(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        self.draw(self.ax_)
        return self

    def draw(self, ax: Any) -> None:
        """Draw into the Axes; every display says how."""
        raise NotImplementedError(f"{type(self).__name__} must define draw(ax).")
