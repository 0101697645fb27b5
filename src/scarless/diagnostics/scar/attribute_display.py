"""Plot of the attributes that drive the labelling."""

from typing import Any, Self

import numpy as np

from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, as_text
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, p_text
from scarless.diagnostics.scar.attribute_tests import UNIT_NAMES, LabellingAttributes, labelling_attributes
from scarless.numerics.arrays import ArrayLike


class LabellingAttributesDisplay(Display):
    """Plot of the effects of attributes on the labelling, with intervals; the strongest evidence is at the top.

    Parameters
    ----------
    result : LabellingAttributes
        The effects to draw.

    Attributes
    ----------
    result : LabellingAttributes
        The effects.
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    labelling_attributes : Computes the effects.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.diagnostics import LabellingAttributesDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> s = (X[:, 0] > 0) & (rng.random(300) < 0.5)
    >>> display = LabellingAttributesDisplay.from_data(X, s, propensity_attributes=[1, 2], random_state=0)
    >>> display.ax_.get_xlabel()
    'log odds of being labelled, per standard deviation of the attribute'
    """

    def __init__(self, result: LabellingAttributes) -> None:
        self.result = result

    @classmethod
    def from_result(cls, result: LabellingAttributes, *, ax: Any = None) -> Self:
        """Draw the result of `labelling_attributes`, preferably computed with ``per="deviation"``.

        Parameters
        ----------
        result : LabellingAttributes
            The effects to draw. Effects per standard deviation are comparable between attributes.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        LabellingAttributesDisplay
        """
        if not isinstance(result, LabellingAttributes):
            raise TypeError(
                f"result must be a LabellingAttributes, as returned by labelling_attributes; got "
                f"{type(result).__name__}. For a table and its labels, use LabellingAttributesDisplay.from_data."
            )
        return cls(result).plot(ax)

    @classmethod
    def from_data(
        cls,
        X: Any,
        s: ArrayLike,
        *,
        propensity_attributes: Any = None,
        classification_attributes: Any = None,
        per: str = "deviation",
        sample_weight: ArrayLike | None = None,
        estimator: Any = None,
        cv: int = 5,
        level: float = 0.95,
        random_state: Any = None,
        pos_label: Any = None,
        ax: Any = None,
    ) -> Self:
        """Estimate the effects and draw them, by default for one standard deviation of each attribute.

        Effects per unit do not fit on one axis if the attributes have different scales, such as euros and years.

        Parameters
        ----------
        X, s, sample_weight, estimator, cv, level, random_state, pos_label
            See `labelling_attributes`.
        propensity_attributes, classification_attributes : column selectors, optional
            See `labelling_attributes`.
        per : {"unit", "deviation"}, default="deviation"
            Effects of one unit of an attribute, or of one standard deviation.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        LabellingAttributesDisplay
        """
        result = labelling_attributes(
            X,
            s,
            propensity_attributes=propensity_attributes,
            classification_attributes=classification_attributes,
            per=per,
            sample_weight=sample_weight,
            estimator=estimator,
            cv=cv,
            level=level,
            random_state=random_state,
            pos_label=pos_label,
        )
        return cls.from_result(result, ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the effects.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure; its height depends on the number of attributes.

        Returns
        -------
        The display itself; ``ax_`` is the Axes and ``figure_`` the figure.
        """
        super().plot(ax)
        if ax is None:
            self.figure_.set_figheight(max(4.8, 1.8 + 0.3 * len(self.result.attributes)))
        return self

    def draw(self, ax: Any) -> None:
        """Draw the effects on the Axes."""
        result = self.result
        places = np.arange(len(result.attributes))[::-1]
        ax.axvline(0.0, color=GREY, linewidth=1, linestyle="--", zorder=0)
        for kind, label, colour, marker in (
            (result.p_adjusted < SIGNIFICANT, f"adjusted p below {SIGNIFICANT}", ORANGE, "o"),
            (result.p_adjusted >= SIGNIFICANT, "no evidence of an effect", BLUE, "D"),
        ):
            if kind.any():
                ax.errorbar(
                    result.effect[kind],
                    places[kind],
                    xerr=np.array([result.effect - result.low, result.high - result.effect])[:, kind],
                    fmt=marker,
                    color=colour,
                    capsize=3,
                    label=label,
                )
        for place, p in zip(places, result.p_adjusted, strict=True):
            ax.annotate(_p_label(p), (1.02, place), xycoords=("axes fraction", "data"), va="center", color=GREY)
        ax.set_yticks(places, [as_text(name) for name in result.attributes])
        ax.set_ylim(-0.6, len(result.attributes) - 0.4)
        ax.set_xlabel(f"log odds of being labelled, per {UNIT_NAMES[result.per]}")
        ax.set_title(self._title())
        if np.isfinite(result.effect).any():
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)

    def _title(self) -> str:
        result = self.result
        found = int(np.count_nonzero(result.p_adjusted < SIGNIFICANT))
        tested = int(np.count_nonzero(~np.isnan(result.p_adjusted)))
        if tested == 0:
            return "No attribute could be tested"
        drive = "drives" if found == 1 else "drive"
        title = f"{found} of {tested} attributes {drive} the labelling ({100 * result.level:g}% intervals)"
        if found == 0:
            return title
        unrelated = (
            f"if {'it is' if found == 1 else 'they are'} unrelated to the class given the classification attributes"
        )
        logistic = "if the class and the labelling are logistic in these attributes"
        return f"{title}\n{logistic if result.shared else unrelated}"


def _p_label(p: float) -> str:
    if np.isnan(p):
        return "not tested"
    return f"p = {p_text(p)}" if p >= 0.001 else "p < 0.001"
