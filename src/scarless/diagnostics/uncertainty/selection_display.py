"""A picture of how `SAREMClassifierCV` chose."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import opened
from scarless.diagnostics._drawing import BLUE, GREEN, GREY, ORANGE, Display, as_text, legend_below

_COLOURS = (BLUE, ORANGE, GREEN, GREY)
_LINES = ("-", "--", ":", "-.")


class SelectionPathDisplay(Display):
    """Held-out log-likelihood of every candidate against the classifier's penalty.

    Colour says which attributes the classifier may see, line style the propensity model's penalty. Filled dots are
    within the noise of the best. Of each set of attributes that has any, the one with the penalty nearest to 1 is
    taken; rings are around what was chosen of these: all, whose mean is the answer, or, where the search does not
    recalibrate, the one with the lowest label frequency.

    Parameters
    ----------
    cv_results : dict of arrays
        As in ``SAREMClassifierCV.cv_results_``.
    best_index : int
        The best of the chosen rows.
    members : sequence of int, optional
        All chosen rows, as in ``selection_.members``. None: `best_index` alone.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifierCV
    >>> from scarless.diagnostics import SelectionPathDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> s = (X[:, 0] + rng.normal(size=300) > 0) & (rng.random(300) < 0.5)
    >>> model = SAREMClassifierCV(Cs=[0.1, 1.0], propensity_Cs=[1.0], random_state=0).fit(X, s)
    >>> SelectionPathDisplay.from_estimator(model).ax_.get_xscale()
    'log'
    """

    def __init__(self, cv_results: dict[str, Any], best_index: int, *, members: Sequence[int] | None = None) -> None:
        self.cv_results = cv_results
        self.best_index = best_index
        self.members = members

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the path of a fitted `SAREMClassifierCV`.

        Parameters
        ----------
        estimator : SAREMClassifierCV
            Fitted.
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        SelectionPathDisplay
        """
        estimator, _ = opened(estimator)
        if not hasattr(estimator, "fit") or not hasattr(estimator, "propensity_Cs"):
            raise TypeError(f"The path is that of a SAREMClassifierCV; got {type(estimator).__name__}.")
        check_is_fitted(estimator)
        return cls(estimator.cv_results_, estimator.best_index_, members=estimator.selection_.members).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw into the Axes."""
        results = self.cv_results
        C, score, tied = results["param_C"], results["mean_test_score"], results["tied"]
        sets = list(dict.fromkeys(results["param_attributes"]))
        penalties = sorted(set(results["param_propensity_C"]))
        for i, name in enumerate(sets):
            colour = _COLOURS[i % len(_COLOURS)]
            for j, penalty in enumerate(penalties):
                rows = np.flatnonzero(
                    (results["param_attributes"] == name) & (results["param_propensity_C"] == penalty)
                )
                rows = rows[np.argsort(C[rows])]
                ax.plot(C[rows], score[rows], color=colour, linestyle=_LINES[j % len(_LINES)], linewidth=1.2)
                open_, filled = rows[~tied[rows]], rows[tied[rows]]
                ax.plot(C[open_], score[open_], "o", color=colour, markerfacecolor="white", markersize=5)
                ax.plot(C[filled], score[filled], "o", color=colour, markersize=5)
            ax.plot([], [], color=colour, label=f"classifier sees {as_text(name)}")
        for j, penalty in enumerate(penalties):
            ax.plot([], [], color=GREY, linestyle=_LINES[j % len(_LINES)], label=f"propensity C = {penalty:g}")
        ax.plot([], [], "o", color=GREY, label="cannot be told from the best")
        self._ring(ax)
        ax.set(
            xscale="log",
            xlabel="C of the classifier (inverse penalty)",
            ylabel="log-likelihood of\nheld-out labels, per row",
            title="Of each set of attributes that labels cannot tell\nfrom the best, the penalty nearest to 1",
        )
        self._look_at_the_top(ax)
        legend_below(ax)

    def _ring(self, ax: Any) -> None:
        """Draw a ring around each chosen candidate, and say their label frequencies."""
        results = self.cv_results
        chosen = [self.best_index] if self.members is None else list(self.members)
        ring = {"color": "black", "markerfacecolor": "none"}
        at = results["param_C"][chosen], results["mean_test_score"][chosen]
        ax.plot(*at, "o", markersize=13, markeredgewidth=1.8, **ring)
        frequencies = [f"{value:.2f}" for value in np.sort(results["label_frequency"][chosen])]
        told = " to ".join(dict.fromkeys([frequencies[0], frequencies[-1]]))
        ax.plot([], [], "o", label=f"chosen: label frequency {told}", **ring)

    def _look_at_the_top(self, ax: Any) -> None:
        """Cut off the far end of candidates that are hopeless, so that the others can be told apart."""
        score, tied = self.cv_results["mean_test_score"], self.cv_results["tied"]
        best = score.max()
        lowest = min(max(score.min(), best - 4.0 * (best - np.median(score))), score[tied].min())
        margin = 0.08 * (best - lowest) + 1e-12
        ax.set_ylim(lowest - margin, best + 2 * margin)
