"""Plot of the positives without a label in groups of rows."""

import textwrap
from typing import Any, Self

import numpy as np

from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, as_text, legend_below
from scarless.diagnostics.missed import MissedPositives, missed_positives
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT
from scarless.numerics.arrays import ArrayLike

_LETTERS_PER_NAME_LINE, _LETTERS_PER_LINE = 32, 52  # of names of groups, and of the title and the legend
_SHORT_NAME = 12  # letters of a name beside which a legend in two columns has room
_WIDTH, _LETTERS_WITHOUT_EXTRA_WIDTH, _WIDTH_OF_LETTER = 6.4, 8, 0.075  # of a figure, in inches
_HEIGHT_OF_GROUP, _HEIGHT_OF_LINE = 0.32, 0.14  # of a group with one line, and of each further line, in inches


class MissedPositivesDisplay(Display):
    """Plot of the share of positives without a label in each group, with intervals.

    Parameters
    ----------
    result : MissedPositives
        The shares to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    missed_positives : Computes the shares.

    Examples
    --------
    >>> from scarless.diagnostics import MissedPositivesDisplay
    >>> MissedPositivesDisplay.from_estimator(model, X, s, by="region")  # doctest: +SKIP
    """

    def __init__(self, result: MissedPositives) -> None:
        if not isinstance(result, MissedPositives):
            raise TypeError(
                f"result must be a MissedPositives, as returned by missed_positives; got {type(result).__name__}. For "
                "a model, use MissedPositivesDisplay.from_estimator(estimator, X, s, by)."
            )
        self.result = result

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, s: ArrayLike, by: Any, *, ax: Any = None, **options: Any) -> Self:
        """Compute the shares and draw them.

        Parameters
        ----------
        estimator, X, s, by
            See `missed_positives`.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.
        **options
            Options of `missed_positives`.

        Returns
        -------
        MissedPositivesDisplay
        """
        return cls(missed_positives(estimator, X, s, by, **options)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the shares.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure; its height depends on the number of groups.

        Returns
        -------
        The display itself; ``ax_`` is the Axes and ``figure_`` the figure.
        """
        super().plot(ax)
        if ax is None:
            names = [label.get_text().split("\n") for label in self.ax_.get_yticklabels()]
            n_lines = sum(_HEIGHT_OF_GROUP + _HEIGHT_OF_LINE * (len(lines) - 1) for lines in names)
            longest = max((len(line) for lines in names for line in lines), default=0)
            width = _WIDTH + _WIDTH_OF_LETTER * max(longest - _LETTERS_WITHOUT_EXTRA_WIDTH, 0)
            self.figure_.set_size_inches(width, max(3.2, 1.8 + n_lines))
        return self

    def _order(self) -> list[int]:
        """Return the groups of each column, the largest share first; groups without an estimate are left out."""
        value = self.result.missed_share.value
        return [
            j
            for by in dict.fromkeys(self.result.by)
            for j in sorted(self.result.of(by), key=lambda j: -value[j])
            if np.isfinite(value[j])
        ]

    def draw(self, ax: Any) -> None:
        """Draw the shares on the Axes."""
        result, order = self.result, self._order()
        ax.set(xlim=(0, 100), xlabel="Positives without a label, in %")
        if not order:
            ax.set_title("This fit cannot estimate how many positives have no label")
            return
        one = len(set(result.by)) == 1
        words = _tick_labels([result.groups[j] if one else f"{result.by[j]}: {result.groups[j]}" for j in order])
        height = np.arange(len(order))[::-1]
        significant = result.p_adjusted[order] < SIGNIFICANT
        for kind, colour, marker, label in (
            (
                significant,
                ORANGE,
                "o",
                _wrapped(f"differs from {result.reference or 'the other rows'} (adjusted p < {SIGNIFICANT})"),
            ),
            (~significant, BLUE, "D", "no clear difference"),
        ):
            chosen = np.flatnonzero(kind)
            if chosen.size:
                at = [order[k] for k in chosen]
                value, low, high = (100 * each[at] for each in result.missed_share)
                ends = np.nan_to_num([value - low, high - value])
                ax.errorbar(value, height[chosen], xerr=ends, fmt=marker, color=colour, capsize=3, label=label)
        whole = 100 * result.total["missed_share"][0]
        ax.axvline(whole, color=GREY, lw=1, ls="--", zorder=0, label=f"all rows: {whole:.0f}%")
        ax.set_yticks(height, words)
        ax.set_ylim(-0.6, len(order) - 0.4)
        ax.set_title(_wrapped(f"Positives without a label{f', by {result.by[0]}' if one else ''}"))
        # Long names make the Axes narrow, and a legend in two columns would be wider than the figure.
        legend_below(ax, n_columns=1 if max(map(len, "\n".join(words).split("\n"))) > _SHORT_NAME else 2)


def _wrapped(words: str, width: int = _LETTERS_PER_LINE) -> str:
    return as_text("\n".join(textwrap.wrap(words, width)) or words)


def _tick_labels(names: list[str]) -> list[str]:
    """Return names in at most two lines. If these are not distinct, names keep all their lines."""
    lines = [textwrap.wrap(name, _LETTERS_PER_NAME_LINE) or [name] for name in names]
    short = ["\n".join(each if len(each) <= 2 else (each[0], f"{each[1]} ...")) for each in lines]
    distinct = len(set(short)) == len(set(names))
    return [as_text(each) for each in (short if distinct else ["\n".join(each) for each in lines])]
