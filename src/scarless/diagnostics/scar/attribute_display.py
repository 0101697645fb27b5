"""A picture of which attributes drive the labelling."""

from typing import Any, Self

import numpy as np

from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, as_text
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, p_text
from scarless.diagnostics.scar.attribute_tests import UNIT_WORDS, LabellingAttributes, labelling_attributes
from scarless.numerics.arrays import ArrayLike


class LabellingAttributesDisplay(Display):
    """Effects of attributes on the labelling: dots with intervals, the strongest evidence on top.

    Parameters
    ----------
    result : LabellingAttributes

    Attributes
    ----------
    result : LabellingAttributes
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn last.

    See Also
    --------
    labelling_attributes : The numbers.

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
        """Draw what `labelling_attributes` found; ``per="deviation"`` there makes attributes comparable.

        Parameters
        ----------
        result : LabellingAttributes
        ax : matplotlib Axes, optional

        Returns
        -------
        LabellingAttributesDisplay
        """
        if not isinstance(result, LabellingAttributes):
            raise TypeError(
                f"result must come from labelling_attributes; got {type(result).__name__}. From a table and its "
                "labels, use LabellingAttributesDisplay.from_data."
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
        """Compute the effects and draw them, per standard deviation unless `per` says otherwise.

        Effects per unit of attributes on different scales (euros, years) do not fit one axis.

        Parameters
        ----------
        X, s, sample_weight, estimator, cv, level, random_state, pos_label
            As in `labelling_attributes`.
        propensity_attributes, classification_attributes : column selectors, optional
            As in `labelling_attributes`. Columns by name, position, slice, mask, callable or polars selector; the name
            of an encoded attribute stands for all of its columns.
        per : {"unit", "deviation"}, default="deviation"
            As in `labelling_attributes`, where the default is "unit".
        ax : matplotlib Axes, optional

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
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure, higher the more attributes there are.

        Returns
        -------
        The display itself; ``ax_`` has the Axes and ``figure_`` the figure.
        """
        super().plot(ax)
        if ax is None:
            self.figure_.set_figheight(max(4.8, 1.8 + 0.3 * len(self.result.attributes)))
        return self

    def draw(self, ax: Any) -> None:
        """Draw into the Axes."""
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
            ax.annotate(_p_in_words(p), (1.02, place), xycoords=("axes fraction", "data"), va="center", color=GREY)
        ax.set_yticks(places, [as_text(name) for name in result.attributes])
        ax.set_ylim(-0.6, len(result.attributes) - 0.4)
        ax.set_xlabel(f"log odds of being labelled, per {UNIT_WORDS[result.per]}")
        ax.set_title(self._title())
        if np.isfinite(result.effect).any():
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False)

    def _title(self) -> str:
        result = self.result
        found = int(np.count_nonzero(result.p_adjusted < SIGNIFICANT))
        tested = int(np.count_nonzero(~np.isnan(result.p_adjusted)))
        if tested == 0:
            return "No attribute could be tested"
        many = "attribute drives" if found == 1 else "attributes drive"
        title = f"{found} of {tested} {many} the labelling ({100 * result.level:g}% intervals)"
        if found == 0:
            return title
        nothing = (
            f"if {'it says' if found == 1 else 'they say'} nothing of the class given the classification attributes"
        )
        return f"{title}\n{'if effects on the class are as assumed' if result.shared else nothing}"


def _p_in_words(p: float) -> str:
    if np.isnan(p):
        return "not tested"
    return f"p = {p_text(p)}" if p >= 0.001 else "p < 0.001"
