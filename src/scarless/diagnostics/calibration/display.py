"""Reliability diagrams of the probability of the label and of the class."""

from typing import Any, Self

import numpy as np

from scarless.checks.rows import named_values
from scarless.diagnostics._drawing import BLUE, GREY, Display
from scarless.diagnostics.calibration.curves import (
    Calibration,
    CalibrationRows,
    check_calibration_rows,
    class_calibration,
    label_calibration,
)
from scarless.metrics.scorers import scorer_input
from scarless.numerics.arrays import ArrayLike, Vector


class _ReliabilityDiagram(Display):
    """Plot of observed against predicted shares, above a histogram of the predictions."""

    _x_label: str
    _y_label: str
    _agree: str
    _differ: str
    _assumption: str = ""

    def __init__(
        self,
        calibration: Calibration,
        predictions: Vector,
        *,
        source: str = "given",
        sample_weight: Vector | None = None,
    ) -> None:
        self.calibration = calibration
        self.predictions = predictions
        self.sample_weight = sample_weight
        self.source = source  # origin of the propensity: "given" or "model's"

    @staticmethod
    def _calibration(rows: CalibrationRows, options: dict[str, Any]) -> Calibration:
        raise NotImplementedError

    @staticmethod
    def _predictions(rows: CalibrationRows) -> Vector:
        raise NotImplementedError

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        *,
        propensity: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 10,
        strategy: str = "quantile",
        level: float = 0.95,
        pos_label: Any = None,
        ax: Any = None,
    ) -> Self:
        """Draw the diagram of a fitted model, preferably for rows that it was not fitted on.

        Parameters
        ----------
        estimator : fitted classifier
            Classifier with ``predict_proba``, and with ``predict_propensity`` unless `propensity` is given.
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        s : array of shape (n_rows,)
            Observed labels, coded as in the model's `fit`.
        propensity : float or array of shape (n_rows,), optional
            Known propensity of each row, in (0, 1]. By default, the propensity that the model predicts.
        sample_weight, n_bins, strategy, level
            See `label_calibration`.
        pos_label : object, optional
            Value that marks a labelled row. Not needed for models of this library, nor for 0/1, -1/+1 or booleans.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        The display; ``calibration`` holds the results and ``ax_`` the Axes.
        """
        found = scorer_input(estimator, X, s, propensity, pos_label=pos_label, user=cls.__name__)
        rows = check_calibration_rows(found.s, found.f, found.e, named_values(X, sample_weight))
        source = "model's" if propensity is None else "given"
        return cls._drawn(rows, source, n_bins, strategy, level, ax)

    @classmethod
    def from_predictions(
        cls,
        s: ArrayLike,
        y_pred: ArrayLike,
        *,
        propensity: ArrayLike,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 10,
        strategy: str = "quantile",
        level: float = 0.95,
        ax: Any = None,
    ) -> Self:
        """Draw the diagram from labels and predictions.

        Parameters
        ----------
        s, y_pred, propensity, sample_weight, n_bins, strategy, level
            See `label_calibration`.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        The display; ``calibration`` holds the results and ``ax_`` the Axes.
        """
        return cls._drawn(
            check_calibration_rows(s, y_pred, propensity, sample_weight), "given", n_bins, strategy, level, ax
        )

    @classmethod
    def _drawn(cls, rows: CalibrationRows, source: str, n_bins: int, strategy: str, level: float, ax: Any) -> Self:
        options = {"n_bins": n_bins, "strategy": strategy, "level": level}
        return cls(cls._calibration(rows, options), cls._predictions(rows), source=source, sample_weight=rows.w).plot(
            ax
        )

    def draw(self, ax: Any) -> None:
        """Draw the diagram on the Axes."""
        found = self.calibration
        across = _with_margin(self.predictions)
        ax.plot(across, across, color=GREY, linestyle="--", linewidth=1, label="perfect calibration")
        ax.errorbar(
            found.predicted,
            found.observed,
            yerr=np.maximum([found.observed - found.low, found.high - found.observed], 0.0),
            color=BLUE,
            marker="o",
            markersize=5,
            linewidth=1.2,
            capsize=3,
            label=f"bins with {100 * found.level:.4g}% intervals",
        )
        up = _with_margin(np.concatenate([found.low, found.high, found.predicted]))
        ax.set(xlim=across, ylim=up, ylabel=self._y_label.format(source=self.source))
        ax.set_title(self._title(), fontsize="medium")
        ax.legend(loc="best", frameon=False)
        self._draw_rows(ax)

    def _draw_rows(self, ax: Any) -> None:
        """Draw a histogram of the predictions below the diagram, on the same scale."""
        ax.tick_params(labelbottom=False)
        strip = ax.inset_axes([0.0, -0.27, 1.0, 0.22], sharex=ax)
        left, right = ax.get_xlim()
        strip.hist(self.predictions, bins=np.linspace(left, right, 41), weights=self.sample_weight, color=GREY)
        strip.tick_params(labelbottom=True)
        strip.locator_params(axis="x", nbins=6)
        strip.set(xlabel=self._x_label, ylabel="rows")
        for side in ("top", "right"):
            strip.spines[side].set_visible(False)

    def _title(self) -> str:
        found = self.calibration
        seen = self._differ if found.p_value < 0.05 else self._agree
        p = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.2g}"
        assumption = self._assumption.format(source=self.source)
        error = f"calibration error {found.error:.3f}, {found.expected_error:.3f} expected by chance"
        return f"{seen}{assumption} ({p})\n{error}"


def _with_margin(values: Vector) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) or 0.05
    return low - margin, high + margin


class LabelCalibrationDisplay(_ReliabilityDiagram):
    r"""Reliability diagram of the probability of a label, :math:`\Pr(s=1|x) = f(x)\,e(x)`.

    See `label_calibration` for the errors that labels can detect. Create the display with `from_estimator` or
    `from_predictions`, preferably for rows that the model was not fitted on. Below the diagram is a histogram of the
    predictions.

    Attributes
    ----------
    calibration : Calibration
        The bins, the calibration error and the test.
    predictions : array of shape (n_rows,)
        :math:`f e` of each row.
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    References
    ----------
    Brocker and Smith (2007), "Increasing the reliability of reliability diagrams", Weather and Forecasting 22.

    Examples
    --------
    >>> from scarless import SAREMClassifier
    >>> from scarless.diagnostics.calibration.display import LabelCalibrationDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> s = y & (rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 1])))
    >>> model = SAREMClassifier(propensity_attributes=[1]).fit(X[:2000], s[:2000])
    >>> display = LabelCalibrationDisplay.from_estimator(model, X[2000:], s[2000:])
    >>> display.calibration.p_value > 0.05
    True
    """

    _x_label = r"Predicted $\Pr(s=1\,|\,x) = f(x)\,e(x)$"
    _y_label = "Share of labelled rows"
    _agree = "No evidence against the predicted probabilities of a label"
    _differ = "Labels are not as frequent as predicted"

    @staticmethod
    def _calibration(rows: CalibrationRows, options: dict[str, Any]) -> Calibration:
        return label_calibration(rows.s, rows.f, propensity=rows.e, sample_weight=rows.w, **options)

    @staticmethod
    def _predictions(rows: CalibrationRows) -> Vector:
        return rows.f * rows.e


class ClassCalibrationDisplay(_ReliabilityDiagram):
    r"""Reliability diagram of the class probability, :math:`f(x)`, for the model's propensity or a given propensity.

    The observed share is the mean of :math:`s/e`, which is valid if the propensity is right; see `class_calibration`.
    Create the display with `from_estimator` or `from_predictions`, preferably for rows that the model was not fitted
    on. Below the diagram is a histogram of the predictions.

    Attributes
    ----------
    calibration : Calibration
        The bins, the calibration error and the test.
    predictions : array of shape (n_rows,)
        `f` of each row.
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    References
    ----------
    Horvitz and Thompson (1952), JASA 47. Brocker and Smith (2007), Weather and Forecasting 22.

    Examples
    --------
    >>> from scarless.diagnostics.calibration.display import ClassCalibrationDisplay
    >>> rng = np.random.default_rng(0)
    >>> f, e = rng.uniform(size=(2, 5000))
    >>> s = rng.uniform(size=5000) < f * e
    >>> display = ClassCalibrationDisplay.from_predictions(s, f, propensity=e)
    >>> int(display.calibration.n_rows.sum())
    5000
    """

    _x_label = r"Predicted $\Pr(y=1\,|\,x) = f(x)$"
    _y_label = "Mean of $s/e(x)$ with the {source} propensity"
    _agree = "No evidence against the predicted probabilities of the class"
    _differ = "Positives are not as frequent as predicted"
    _assumption = ",\nif the {source} propensity is right"

    @staticmethod
    def _calibration(rows: CalibrationRows, options: dict[str, Any]) -> Calibration:
        return class_calibration(rows.s, rows.f, propensity=rows.e, sample_weight=rows.w, **options)

    @staticmethod
    def _predictions(rows: CalibrationRows) -> Vector:
        return rows.f
