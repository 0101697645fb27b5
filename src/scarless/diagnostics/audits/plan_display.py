"""A picture of what audits will be worth."""

from typing import Any, Self

import numpy as np

from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, legend_below
from scarless.diagnostics.audits.plan import AuditPlan, plan_audit
from scarless.numerics.arrays import ArrayLike


class AuditPlanDisplay(Display):
    """Expected width of the interval of the class prior against the number of audits.

    Parameters
    ----------
    plan : AuditPlan

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    See Also
    --------
    plan_audit : Makes the plan.

    Examples
    --------
    >>> from scarless.diagnostics import AuditPlanDisplay
    >>> AuditPlanDisplay.from_estimator(model, X, s)  # doctest: +SKIP
    """

    def __init__(self, plan: AuditPlan) -> None:
        if not isinstance(plan, AuditPlan):
            raise TypeError(
                f"plan must be what plan_audit returns, an AuditPlan; got {type(plan).__name__}. Of a model, draw "
                "AuditPlanDisplay.from_estimator(estimator, X, s)."
            )
        self.plan = plan

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        n_rows: int = 200,
        *,
        pilot: ArrayLike | None = None,
        level: float = 0.95,
        ax: Any = None,
    ) -> Self:
        """Plan an audit at random and draw what it will be worth.

        Parameters
        ----------
        estimator, X, s, n_rows, pilot, level
            As in `plan_audit`.
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        AuditPlanDisplay
        """
        return cls(plan_audit(estimator, X, s, n_rows, pilot=pilot, level=level)).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw into the Axes."""
        plan, n = self.plan, self.plan.rows.size
        later = plan.sizes > 0
        more = "more audits" if plan.n_pilot else "audits"
        lines = [(plan.expected_width, BLUE, "o", "-", "a fit with audits, if the models are right", False)]
        lines.append(
            (plan.expected_width_difference, ORANGE, "s", "--", "audited_class_prior, whatever the model", True)
        )
        for widths, colour, marker, style, label, difference in lines:
            if np.isnan(widths).all():
                continue
            ax.plot(plan.sizes[later], widths[later], style, color=colour, label=label)
            at = plan.width_at(n, difference=difference)
            ax.plot([n], [at], marker, color=colour, ms=8, label=f"after {n:,} {more}: {at:.3f}")
        if np.isfinite(plan.expected_width[0]):
            ax.axhline(
                plan.expected_width[0], color=GREY, lw=1, ls=":", label=f"the fit now: {plan.expected_width[0]:.3f}"
            )
        ax.set_xscale("log")
        ticks = [size for size in (25, 50, 100, 200, 500, 1000, 2000, 5000) if size <= plan.sizes[-1]]
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(bottom=0.0)
        ax.set(
            xlabel=f"Rows to audit{', beside those of the pilot' if plan.n_pilot else ''}",
            ylabel=f"Expected width of the {plan.level:.4g} interval",
            title=f"What {n:,} {more} will say of the class prior",
        )
        legend_below(ax)
