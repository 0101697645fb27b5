"""What every propensity-weighted score shares: checks, targets, standard error, interval, the result."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from scarless.checks.vectors import check_propensity, check_weight
from scarless.metrics._proportions import Equation, decided_rows, proportion_interval
from scarless.metrics._weighting import Weighting, check_options, targets
from scarless.metrics.risk import effective_sample_size
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.interval import Interval, quantile
from scarless.numerics.weighted_scores import Ratio
from scarless.outside.notices import warn_user

Formula = Callable[[Vector, Vector, Vector], Ratio]  # predictions, targets, weights


@dataclass(frozen=True)
class Score:
    """A score estimated without the true class, and how far it can be trusted. ``float()`` of it is the value.

    Attributes
    ----------
    name : str
        Which score.
    value : float
        The estimate. It may leave the range of the score by chance: a labelled row counts as several positives.
    standard_error : float
        Standard deviation of the estimate over samples of rows and their labels, from each row's influence on it. The
        propensity is taken as known: where it was estimated, the error of that comes on top. NaN where the value is
        not finite, where no row is labelled, and where the rows at hand show no variation.
    interval : Interval
        ``low, high = score.interval``.
        Accuracy, precision, recall and F1: the values that the labels do not speak against, by a test that takes the
        variance at each value and not at the estimate (Wilson's for a plain proportion); it has a length with one label
        too, and need not be symmetric. In simulations 95% intervals covered 93 to 99% with 3, 16 and 54 labels; with
        5 labels and a known class prior, 89%. The others, and scores of clipped weights that are normalised without a
        class prior: the value plus and minus a quantile of Student's t times the standard error, whose degrees of
        freedom come from how unequally the rows influence the value, and are at most `effective_sample_size` minus 1;
        for average precision on the scale of logarithms. Not cut at 0 or 1, for a value may lie beyond (but that of
        average precision is, at 1). NaN where `no_interval` says why.
    level : float
        Nominal probability that the interval covers the score in the population the rows come from.
    effective_sample_size : float
        How many equally weighted positives the labelled rows are worth (Kish).
    n_labelled : int
        Labelled rows that count.
    n_clipped : int
        Labelled rows whose weight was cut at `max_weight`.
    no_interval : str
        Why there is no interval; empty where there is one.

    Examples
    --------
    >>> found = Score("ROC-AUC", 0.91, 0.01, Interval(0.89, 0.93), 0.95, 120.0, 200)
    >>> float(found)
    0.91
    >>> print(found)
    ROC-AUC 0.9100 (standard error 0.0100, 95% interval 0.8900 to 0.9300; 200 labelled rows, worth 120)
    """

    name: str
    value: float
    standard_error: float
    interval: Interval
    level: float
    effective_sample_size: float
    n_labelled: int
    n_clipped: int = 0
    no_interval: str = ""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        clipped = f" ({self.n_clipped} clipped)" if self.n_clipped else ""
        labels = f"{self.n_labelled} labelled rows{clipped}, worth {self.effective_sample_size:.0f}"
        return f"{self.name} {self.value:.4f} (standard error {self._error()}, {self._interval()}; {labels})"

    def _error(self) -> str:
        return "unknown" if math.isnan(self.standard_error) else f"{self.standard_error:.4f}"

    def _interval(self) -> str:
        if self.no_interval:
            return f"no interval: {self.no_interval}"
        low, high = self.interval
        return f"{100 * self.level:.4g}% interval {low:.4f} to {high:.4f}"


class Measure(NamedTuple):
    """A score: its name, its formula, and the scale or the equation that its interval comes from."""

    name: str
    formula: Formula
    equation: Callable[[float], Equation] | None = None
    logarithmic: bool = False


class Answer(NamedTuple):
    """An interval, or why there is none."""

    interval: Interval
    why_not: str = ""


class Rows(NamedTuple):
    """Rows that count: their predictions, labels, propensities and weights."""

    prediction: Vector
    s: Vector
    e: Vector
    weight: Vector


def evaluate(measure: Measure, s: Vector, prediction: Vector, propensity: ArrayLike, options: Weighting) -> Score:
    """Return a score of checked labels and predictions: rows of weight 0 are left out, labels become targets."""
    check_options(options)
    rows = check_rows(s, prediction, propensity, options.sample_weight)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # what overflows is undefined, and said so
        found_targets = targets(rows.s / rows.e, rows.weight, options)
        found = measure.formula(rows.prediction, found_targets.t, rows.weight)
        if not found.bottom > 0 or not math.isfinite(found.top):
            _warn_undefined(measure.name, rows)
            return summary(measure.name, math.nan, math.nan, no_interval("the score is undefined"), rows, options)
        influence = found.influence() + found.slope * found_targets.log_scale_rows
        if not rows.s.any():
            return summary(measure.name, found.value, math.nan, no_interval("no row is labelled"), rows, options)
        error, freedom = spread(influence, rounding=1e-12 * abs(found.value) / rows.s.size)
        answer = _proportion_interval(measure, found.value, rows, options)
        if answer is None:
            answer = _labels_interval(measure, found.value, error, freedom, rows, options)
    return summary(measure.name, found.value, error, answer, rows, options)


def check_rows(s: Vector, prediction: Vector, propensity: ArrayLike, sample_weight: ArrayLike | None) -> Rows:
    """Return the rows that count; the largest weight is 1, so that sums of weights neither overflow nor vanish."""
    n = prediction.size
    if n == 0:
        raise ValueError("there are no rows to score; give at least one prediction.")
    e = check_propensity(propensity, n_rows=n)
    weight = check_weight(sample_weight, n_rows=n)
    weight = weight / weight.max()
    counted = weight > 0
    return Rows(prediction[counted], s[counted], e[counted], weight[counted])


def summary(name: str, value: float, error: float, answer: Answer, rows: Rows, options: Weighting) -> Score:
    """Return the result."""
    return Score(
        name=name,
        value=value,
        standard_error=error,
        interval=answer.interval,
        level=float(options.level),
        effective_sample_size=_worth(rows, options),
        n_labelled=int(rows.s.sum()),
        n_clipped=int(np.count_nonzero(_clipped(rows, options))),
        no_interval=answer.why_not,
    )


def no_interval(why_not: str) -> Answer:
    """Return an interval of NaN, with the reason."""
    return Answer(Interval(math.nan, math.nan), why_not)


def spread(influence: Vector, rounding: float = 0.0) -> tuple[float, float]:
    r"""Return the standard error and its degrees of freedom from :math:`\psi_i = w_i\,\partial/\partial w_i`.

    The variance :math:`\frac{n}{n-1}\sum\psi_i^2` is the infinitesimal jackknife's. It is itself uncertain, by the
    fourth moment; the degrees of freedom
    :math:`2(\sum\psi^2)^2 / (\sum\psi^4 - (\sum\psi^2)^2/n)` match its variance, as Satterthwaite's do: about ``n``
    where influences are normal, about twice the number of rows that matter where few do. The error is NaN where it
    cannot be seen: with one row, and where no influence is above rounding.
    """
    n = influence.size
    scale = float(np.abs(influence).max())
    if n < 2 or not rounding < scale < math.inf:  # a NaN too
        return math.nan, 0.0
    squares = (influence / scale) ** 2  # so that fourth powers neither overflow nor vanish
    return scale * math.sqrt(squares.sum() * n / (n - 1)), _freedom(squares)


def _freedom(squares: Vector) -> float:
    total = float(squares.sum())
    uncertainty = float((squares**2).sum()) - total**2 / squares.size
    return 2.0 * total**2 / uncertainty if uncertainty > 1e-12 * total**2 else math.inf


def student_interval(value: float, error: float, freedom: float, level: float, *, logarithmic: bool = False) -> Answer:
    """Return the value, or its logarithm, plus and minus a quantile of Student's t times the error."""
    if math.isnan(error):
        return no_interval("the rows at hand do not vary")
    half = error * quantile(float(level), freedom)
    if not logarithmic:
        return Answer(Interval(value - half, value + half))
    factor = float(np.exp(half / value))
    return Answer(Interval(value / factor, min(value * factor, max(1.0, value))))


def _labels_interval(
    measure: Measure, value: float, error: float, freedom: float, rows: Rows, options: Weighting
) -> Answer:
    """Return Student's interval with no more degrees of freedom than labels are worth, less one."""
    worth = _worth(rows, options)
    if worth < 2.0 - 1e-9:
        return no_interval("the labelled rows are worth fewer than two, which do not show how labels vary")
    return student_interval(value, error, min(freedom, worth - 1.0), options.level, logarithmic=measure.logarithmic)


def _proportion_interval(measure: Measure, value: float, rows: Rows, options: Weighting) -> Answer | None:
    """Return the interval of a score of decisions; None for others, and where it has no answer."""
    if measure.equation is None:
        return None
    prior = None
    if options.normalised:
        positives = float((rows.weight * rows.s / rows.e).sum() / rows.weight.sum())
        prior = options.class_prior or (1.0 if positives >= 1.0 else None)
        if prior is None and _clipped(rows, options).any():
            return None
    sides = decided_rows(rows.prediction, rows.s, rows.e, rows.weight, options.cap)
    if prior is not None and 0.0 in (sides.positive.weight, sides.negative.weight):
        return no_interval("all rows are decided alike, so that the class prior fixes the score")
    targets = (rows.weight * np.minimum(1.0 / rows.e, options.cap))[rows.s == 1]
    z = quantile(float(options.level), _freedom((targets / targets.max()) ** 2))  # under SCAR a normal one
    found = proportion_interval(measure.equation, value, sides, z, prior)
    if math.isnan(found.low):
        return no_interval("the weights s/e are too large to be squared")
    return Answer(found) if found.low < found.high else None


def _clipped(rows: Rows, options: Weighting) -> NDArray[np.bool_]:
    return (rows.s == 1) & (rows.e < 1.0 / options.cap)


def _worth(rows: Rows, options: Weighting) -> float:
    return effective_sample_size(rows.s, propensity=np.maximum(rows.e, 1.0 / options.cap), sample_weight=rows.weight)


def _warn_undefined(name: str, rows: Rows) -> None:
    positives = float((rows.weight * rows.s / rows.e).sum() / rows.weight.sum())
    warn_user(
        f"{name} is undefined here and set to NaN: of {rows.s.size} rows {int(rows.s.sum())} are labelled, which "
        f"with these propensities stands for a share of {positives:.3g} positives, and the score needs positives "
        "(precision: rows predicted positive; ROC-AUC: negatives too). Score more rows; if the share is near 1 or "
        "above, the propensities are too small: see max_weight= and class_prior=.",
        UndefinedMetricWarning,
    )
