"""What every picture here shares: where it is drawn, and in which colours."""

from typing import Any

from scarless.data.extras import need

# Told apart by eyes that see few colours, and in print.
BLUE, ORANGE, GREY, GREEN = "#1f6fb4", "#d9730d", "#8a8a8a", "#2a9d72"


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


class Display:
    """Data of a picture; `plot` draws it into Axes and returns them, kept as ``ax_`` and ``figure_``."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Any:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        matplotlib Axes
        """
        self.ax_ = axes_for(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self.ax_

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError
