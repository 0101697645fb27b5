"""Plot of the bounds of a sensitivity analysis."""

import math
from typing import Any, Self

import numpy as np

from scarless.checks.options import shown
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, as_text
from scarless.diagnostics.sensitivity.analysis import Sensitivity
from scarless.diagnostics.sensitivity.results import SensitivityCurve, TippingPoint
from scarless.numerics.arrays import ArrayLike

N_GAMMAS = 61
DEFAULT_MAX_GAMMA = 10.0  # end of the axis if there is no tipping point
TICKS = (1, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 1e4, 1e5, 1e6)
MAX_TICKS = 7


class SensitivityDisplay(Display):
    r"""Plot of bounds on one quantity against the factor by which the odds of the propensity may be wrong.

    Parameters
    ----------
    curve : SensitivityCurve
        Bounds to draw.
    tipping_point : TippingPoint, optional
        Conclusion to draw, with the factor that overturns it.

    Attributes
    ----------
    curve, tipping_point
        The parameters.
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    Sensitivity : Computes the bounds.

    Examples
    --------
    >>> from scarless.diagnostics.sensitivity.analysis import Sensitivity
    >>> from scarless.diagnostics.sensitivity.display import SensitivityDisplay
    >>> sensitivity = Sensitivity([0.4, 0.3, 0.1, 0.05], [0.5, 0.5, 0.25, 0.25])
    >>> display = SensitivityDisplay.from_sensitivity(sensitivity, "class_prior", at_least=0.3)
    >>> display.ax_.get_title(loc="left")
    'Class prior is at least 0.3 up to Γ = 3.29'
    """

    def __init__(self, curve: SensitivityCurve, tipping_point: TippingPoint | None = None) -> None:
        self.curve = curve
        self.tipping_point = tipping_point

    @classmethod
    def from_sensitivity(
        cls,
        sensitivity: Sensitivity,
        quantity: str,
        *,
        gammas: ArrayLike | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        decisions: ArrayLike | None = None,
        scores: ArrayLike | None = None,
        row: Any = None,
        rival: Any = None,
        ax: Any = None,
    ) -> Self:
        """Compute the bounds and draw them.

        Parameters
        ----------
        sensitivity : Sensitivity
            The analysis.
        quantity : str
            Name of the quantity; see `Sensitivity.curve`.
        gammas : array, optional
            Factors of at least 1. By default, from 1 to 10, or to a value beyond the tipping point.
        at_least, at_most : float, optional
            Threshold of a conclusion, which is drawn with the factor that overturns it. Pass at most one of the two.
        decisions, scores : arrays of shape (n_rows,), optional
            Predicted classes or scores, if the quantity needs them.
        row, rival : names of rows, optional
            Rows, if the quantity needs them.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        SensitivityDisplay
        """
        if not isinstance(sensitivity, Sensitivity):
            raise TypeError(
                f"sensitivity must be a Sensitivity; got {type(sensitivity).__name__}. For a fitted model and rows, "
                "use SensitivityDisplay.from_estimator(estimator, X, quantity)."
            )
        options: dict[str, Any] = {"decisions": decisions, "scores": scores, "row": row, "rival": rival}
        tipping = None
        if at_least is not None or at_most is not None:
            tipping = sensitivity.tipping_point(quantity, at_least=at_least, at_most=at_most, **options)
        if gammas is None:
            gammas = np.geomspace(1.0, _top(tipping), N_GAMMAS)
        return cls(sensitivity.curve(quantity, gammas=gammas, **options), tipping).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        quantity: str,
        *,
        s: ArrayLike | None = None,
        propensity: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        gammas: ArrayLike | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        decisions: ArrayLike | None = None,
        scores: ArrayLike | None = None,
        row: Any = None,
        rival: Any = None,
        ax: Any = None,
    ) -> Self:
        """Compute the bounds for a fitted model and draw them.

        Parameters
        ----------
        estimator, X, s, propensity, sample_weight
            See `Sensitivity.from_estimator`.
        quantity, gammas, at_least, at_most, decisions, scores, row, rival
            See `from_sensitivity`.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        SensitivityDisplay
        """
        if not isinstance(quantity, str):
            raise TypeError(
                f"quantity must be a name such as 'class_prior'; got {shown(quantity)}. Pass labels by keyword: "
                "SensitivityDisplay.from_estimator(estimator, X, 'class_prior', s=s)."
            )
        return cls.from_sensitivity(
            Sensitivity.from_estimator(estimator, X, s, propensity=propensity, sample_weight=sample_weight),
            quantity,
            gammas=gammas,
            at_least=at_least,
            at_most=at_most,
            decisions=decisions,
            scores=scores,
            row=row,
            rival=rival,
            ax=ax,
        )

    def draw(self, ax: Any) -> None:
        """Draw the bounds on the Axes."""
        order = np.argsort(self.curve.gammas)
        gammas, low, high = (part[order] for part in (self.curve.gammas, self.curve.low, self.curve.high))
        # Ranks are whole numbers; a sloping line would show values between them.
        step = "post" if self.curve.quantity.startswith("rank") else None
        drawstyle = "default" if step is None else "steps-post"
        ax.fill_between(gammas, low, high, step=step, color=BLUE, alpha=0.2, linewidth=0, label="possible values")
        for bound in (low, high):
            ax.plot(gammas, bound, color=BLUE, linewidth=1, drawstyle=drawstyle)
        ax.axhline(self.curve.estimate, color=GREY, linewidth=1, linestyle=":", zorder=1)
        ax.plot(1.0, self.curve.estimate, "o", color=BLUE, label="fitted propensity (Γ = 1)", clip_on=False, zorder=3)
        _scale(ax, float(gammas[-1]))
        if self.tipping_point is not None:
            _draw_threshold(ax, self.tipping_point)
        if step is not None:
            _format_rank_axis(ax)
        if self.tipping_point is not None:
            _draw_tipping_point(ax, self.tipping_point)
        ax.set_xlabel(
            "Γ: factor by which the odds of the propensity may be wrong\n"
            "(Γ = 2: a fitted propensity of 0.5 may be 0.33 to 0.67)"
        )
        ax.set_ylabel(as_text(self.curve.quantity))
        ax.set_title(as_text(self._title()), loc="left", wrap=True)
        ax.legend(frameon=False, loc="best")

    def _title(self) -> str:
        tipping = self.tipping_point
        if tipping is None:
            return _capital(f"{self.curve.quantity} if the propensity is wrong")
        conclusion = _capital(tipping.conclusion)
        if tipping.gamma == 1.0:
            return f"Not true for the fitted propensity: {tipping.conclusion}"
        if math.isinf(tipping.gamma):
            return f"{conclusion} for every Γ"
        return f"{conclusion} up to Γ = {tipping.gamma:.3g}"


def _draw_threshold(ax: Any, tipping: TippingPoint) -> None:
    label = f"{tipping.side} {tipping.threshold:g}"
    ax.axhline(tipping.threshold, color=ORANGE, linewidth=1.2, linestyle="--", label=label)


def _draw_tipping_point(ax: Any, tipping: TippingPoint) -> None:
    """Mark the tipping point, with a line down to its factor on the axis."""
    if not 1.0 < tipping.gamma < math.inf:
        return
    bottom = ax.get_ylim()[0]
    ax.set_ylim(bottom=bottom)  # fixed, so that the line does not extend the axis
    # A line instead of an arrow, because matplotlib's legend avoids only lines.
    ax.plot([tipping.gamma] * 2, [bottom, tipping.threshold], color=ORANGE, linewidth=1.2)
    label = f"overturned from Γ = {tipping.gamma:.3g}"
    ax.plot(tipping.gamma, tipping.threshold, "D", color=ORANGE, label=label, zorder=3)


def _format_rank_axis(ax: Any) -> None:
    """Format the axis for ranks: whole numbers, with rank 1 at the top."""
    ax.yaxis.get_major_locator().set_params(integer=True)
    low, high = ax.get_ylim()
    ax.set_yticks(sorted({max(1, round(tick)) for tick in ax.get_yticks() if low <= tick <= high}))
    ax.set_ylim(high, low)


def _top(tipping: TippingPoint | None) -> float:
    """Return the end of the axis. It puts the tipping point in the middle, unless its factor is very large."""
    if tipping is None or tipping.gamma == 1.0 or math.isinf(tipping.gamma):
        return DEFAULT_MAX_GAMMA
    return max(2.0, min(tipping.gamma**2, 10.0 * tipping.gamma))


def _scale(ax: Any, top: float) -> None:
    """Make the axis of factors logarithmic, with round factors as ticks."""
    ax.set_xscale("log")
    ax.set_xlim(1.0, max(top, 1.05))
    ticks = [tick for tick in TICKS if tick <= top * 1.001]
    while len(ticks) > MAX_TICKS:  # drop the ticks near 1 first, which overlap on a long axis
        ticks = [1, *ticks[2:]] if ticks[1] < 2 else [1, *ticks[2::2]]
    if len(ticks) == 1:
        ticks.append(top)
    ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    ax.minorticks_off()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
