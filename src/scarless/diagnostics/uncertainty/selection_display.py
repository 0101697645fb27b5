"""Plot of the selection in `SAREMClassifierCV`."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import opened
from scarless.diagnostics._drawing import BLUE, GREEN, GREY, ORANGE, Display, as_text, legend_below

_COLOURS = (BLUE, ORANGE, GREEN, GREY)
_LINES = ("-", "--", ":", "-.")


class SelectionPathDisplay(Display):
    """Plot of the held-out log-likelihood of all candidates against `C`, the inverse penalty of the classifier.

    Colours show which attributes the classifier uses, and line styles show `propensity_C`. Filled dots mark candidates
    that are tied with the best: their held-out log-likelihood differs from the best by no more than noise. Of the tied
    candidates with the same attributes, the search prefers the one whose `C` is nearest to 1. A recalibrated search
    averages these preferred candidates, one for each set of attributes. Otherwise it selects one of them: the candidate
    with the lowest label frequency or, with several looks, audits or known values, with the highest log-likelihood.
    Rings mark the candidates that were averaged or selected.

    Parameters
    ----------
    cv_results : dict of arrays
        The attribute ``cv_results_`` of a `SAREMClassifierCV`.
    best_index : int
        Index of the selected candidate with the highest held-out log-likelihood.
    members : sequence of int, optional
        Indices of all selected candidates, ``selection_.members``. By default, only `best_index`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

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
        """Draw the candidates of a fitted `SAREMClassifierCV`.

        Parameters
        ----------
        estimator : SAREMClassifierCV
            Fitted search.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        SelectionPathDisplay
        """
        estimator, _ = opened(estimator)
        if not hasattr(estimator, "fit") or not hasattr(estimator, "propensity_Cs"):
            raise TypeError(f"estimator must be a fitted SAREMClassifierCV; got {type(estimator).__name__}.")
        check_is_fitted(estimator)
        return cls(estimator.cv_results_, estimator.best_index_, members=estimator.selection_.members).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw the candidates on the Axes."""
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
            ax.plot([], [], color=colour, label=f"classifier uses {as_text(name)}")
        for j, penalty in enumerate(penalties):
            ax.plot([], [], color=GREY, linestyle=_LINES[j % len(_LINES)], label=f"propensity C = {penalty:g}")
        ax.plot([], [], "o", color=GREY, label="tied with the best")
        self._mark_selected(ax)
        ax.set(
            xscale="log",
            xlabel="C of the classifier (inverse penalty)",
            ylabel="mean log-likelihood of\nheld-out labels",
            title="Rings: selected candidates\n(tied with the best, with the C nearest to 1)",
        )
        self._cut_low_scores(ax)
        legend_below(ax)

    def _mark_selected(self, ax: Any) -> None:
        """Draw a ring around each selected candidate, and show the label frequencies in the legend."""
        results = self.cv_results
        chosen = [self.best_index] if self.members is None else list(self.members)
        ring = {"color": "black", "markerfacecolor": "none"}
        at = results["param_C"][chosen], results["mean_test_score"][chosen]
        ax.plot(*at, "o", markersize=13, markeredgewidth=1.8, **ring)
        frequencies = [f"{value:.2f}" for value in np.sort(results["label_frequency"][chosen])]
        shown = " to ".join(dict.fromkeys([frequencies[0], frequencies[-1]]))
        ax.plot([], [], "o", label=f"selected: label frequency {shown}", **ring)

    def _cut_low_scores(self, ax: Any) -> None:
        """Cut very poor candidates off the axis, so that differences between good candidates are visible."""
        score, tied = self.cv_results["mean_test_score"], self.cv_results["tied"]
        best = score.max()
        lowest = min(max(score.min(), best - 4.0 * (best - np.median(score))), score[tied].min())
        margin = 0.08 * (best - lowest) + 1e-12
        ax.set_ylim(lowest - margin, best + 2 * margin)
