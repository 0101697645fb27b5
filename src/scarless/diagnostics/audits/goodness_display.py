"""A picture of what looks found, beside what the models expect."""

from typing import Any, Self

import numpy as np

from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, legend_below
from scarless.diagnostics.audits.goodness import GoodnessOfFit, goodness_of_fit
from scarless.numerics.arrays import ArrayLike

_MOST = 16  # histories that are drawn: those farthest from what is expected


class GoodnessOfFitDisplay(Display):
    """How many more, or fewer, rows have each history than the models expect, in standard deviations.

    Parameters
    ----------
    fit : GoodnessOfFit

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    See Also
    --------
    goodness_of_fit : Computes what is drawn.

    Examples
    --------
    >>> from scarless.diagnostics import GoodnessOfFitDisplay
    >>> GoodnessOfFitDisplay.from_estimator(model, X, s)  # doctest: +SKIP
    """

    def __init__(self, fit: GoodnessOfFit) -> None:
        if not isinstance(fit, GoodnessOfFit):
            raise TypeError(
                f"fit must be what goodness_of_fit returns, a GoodnessOfFit; got {type(fit).__name__}. Of a model, "
                "draw GoodnessOfFitDisplay.from_estimator(estimator, X, s)."
            )
        self.fit = fit

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        *,
        audit: ArrayLike | None = None,
        n_resamples: int = 199,
        random_state: Any = None,
        n_jobs: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Test a fit and draw its histories.

        Parameters
        ----------
        estimator, X, s, audit, n_resamples, random_state, n_jobs
            As in `goodness_of_fit`.
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        GoodnessOfFitDisplay
        """
        options = {"audit": audit, "n_resamples": n_resamples, "random_state": random_state, "n_jobs": n_jobs}
        return cls(goodness_of_fit(estimator, X, s, **options)).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw into the Axes."""
        names, observed, expected = self.fit.histories
        away = (observed - expected) / np.sqrt(np.maximum(expected, 1e-12))
        kept = np.sort(np.argsort(-np.abs(away), kind="stable")[:_MOST])
        places = np.arange(kept.size)
        ax.axvspan(-2, 2, color=GREY, alpha=0.12, lw=0, label="within 2 standard deviations (sd)")
        ax.axvline(0, color=GREY, lw=1)
        for more, colour, label in ((True, ORANGE, "more rows than expected"), (False, BLUE, "fewer")):
            mine = (away[kept] > 0) == more
            if mine.any():
                ax.barh(places[mine], away[kept][mine], color=colour, height=0.7, label=label)
        told = [f"{names[j]}   ({observed[j]:,.0f}; {expected[j]:,.0f} expected)" for j in kept]
        ax.set_yticks(places, told, fontsize="small")
        ax.invert_yaxis()
        reach = max(3.0, 1.1 * float(np.abs(away).max(initial=0.0)))
        ax.set_xlim(-reach, reach)
        verdict = "do not fit" if self.fit.found else "may be right"
        dropped = len(names) - kept.size
        ax.set(
            xlabel="Rows: observed minus expected, in sd",
            ylabel="Labels at looks" + (f" ({dropped} nearer ones left out)" if dropped else ""),
            title=f"The models {verdict}:\n{self.fit.name}, p = {self.fit.p_value:.2g}",
        )
        legend_below(ax)
