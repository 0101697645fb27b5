r"""What every propensity-weighted score shares: targets, standard error, interval, the result.

Scores of decisions (accuracy, precision, recall, F1) get an interval that holds with few labels. Few labels show too
little of their own variance: where all labelled rows are decided alike, recall seems to have none. So every value of
the score is asked in turn whether the labels speak against it, with the variance that they have *if that value is
true*. With :math:`N_1` and :math:`N_0` the sums of :math:`w t` over rows decided positive and negative, and :math:`U
= \alpha N_1 - \beta N_0 - g_1 W_1 - g_0 W_0` the score's equation (0 on average at the true value), the interval
holds the values with

.. math:: U^2 \le z^2 V, \qquad V = \alpha^2 B_1 n_1 + \beta^2 B_0 n_0 - 2\alpha g_1 C_1 n_1 + 2\beta g_0 C_0 n_0
          + g_1^2 \sum_{d=1} w^2 + g_0^2 \sum_{d=0} w^2

where :math:`B` and :math:`C` are means of :math:`w t` and of :math:`w` over positives, and :math:`n_1, n_0` the
likeliest sums that fulfil the equation, :math:`N/B` being taken as Poisson counts. At the estimate :math:`n = N`, and
:math:`V` is the infinitesimal jackknife's variance: with many labels the interval is the usual one. With :math:`e = 1`
and equal weights it is Wilson's (1927, JASA 22), but for F1. The idea is that of Miettinen and Nurminen (1985),
"Comparative analysis of two rates", Statistics in Medicine 4.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from scarless.checks.options import check_propensity, check_weight
from scarless.metrics._rows import Weighting, check_options, targets
from scarless.metrics.risk import effective_sample_size
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.uncertainty import Interval, quantile
from scarless.numerics.weighted_scores import Ratio
from scarless.outside.notices import warn_user

Formula = Callable[[Vector, Vector, Vector], Ratio]  # predictions, targets, weights
END_BISECTIONS = 60  # of a step that is at most twice as long as the interval


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


class Equation(NamedTuple):
    r"""What a score says of shares of rows: :math:`a\pi_1 - b\pi_0 - mD - k = 0`.

    Shares of positives that are decided positive, of positives that are not, and of rows decided positive.
    """

    found: float
    missed: float
    decided: float
    constant: float


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


class Side(NamedTuple):
    """Sums over rows that are decided alike."""

    weight: float  # sum of w
    squares: float  # sum of w^2
    positives: float  # N
    inflation: float  # B
    mean_weight: float  # C


class Decided(NamedTuple):
    """Both sides of a decision, and the largest target that a row can have."""

    positive: Side
    negative: Side
    largest: float

    @property
    def weight(self) -> float:
        """Sum of all weights."""
        return self.positive.weight + self.negative.weight

    @property
    def positives(self) -> float:
        """Sum of all targets times weights."""
        return self.positive.positives + self.negative.positives


class _Test(NamedTuple):
    """Coefficients of U at one value of the score: alpha, beta, g_1, g_0."""

    found: float
    missed: float
    positive: float
    negative: float


def accuracy_equation(value: float) -> Equation:
    r"""Return :math:`\pi_1 - \pi_0 + 1 - D = \theta`."""
    return Equation(1.0, 1.0, 1.0, value - 1.0)


def precision_equation(value: float) -> Equation:
    r"""Return :math:`\pi_1 = \theta D`."""
    return Equation(1.0, 0.0, value, 0.0)


def recall_equation(value: float) -> Equation:
    r"""Return :math:`\pi_1 = \theta(\pi_1 + \pi_0)`."""
    return Equation(1.0 - value, value, 0.0, 0.0)


def f1_equation(value: float) -> Equation:
    r"""Return :math:`2\pi_1 = \theta(\pi_1 + \pi_0 + D)`."""
    return Equation(2.0 - value, value, value, 0.0)


def decided_rows(decision: Vector, s: Vector, e: Vector, weight: Vector, max_weight: float = math.inf) -> Decided:
    r"""Sum up both sides of a decision, for targets :math:`t = \min(s/e, M)`.

    Few labels say little of how :math:`1/e` varies over positives, and they are those of large :math:`e`. So two more
    labels count in :math:`B` and :math:`C`: what a label is on average if all rows of that side are positive alike.

    Examples
    --------
    >>> sides = decided_rows(np.array([1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0]), np.full(3, 0.5), np.ones(3))
    >>> sides.positive.positives, sides.positive.inflation
    (2.0, 2.0)
    """
    t = np.minimum(1.0 / e, max_weight)
    return Decided(_side(decision == 1, s, e, t, weight), _side(decision == 0, s, e, t, weight), float(t.max()))


def _side(rows: NDArray[np.bool_], s: Vector, e: Vector, t: Vector, weight: Vector) -> Side:
    seen = rows if rows.any() else ~rows  # where no row is decided so, the others stand in
    labels = s[seen] + 2.0 * e[seen] / e[seen].sum()
    w = weight[seen]
    target = w * t[seen]
    total = (labels * target).sum()
    return Side(
        weight=float(weight[rows].sum()),
        squares=float((weight[rows] ** 2).sum()),
        positives=float((weight * s * t)[rows].sum()),
        inflation=float((labels * target**2).sum() / total),
        mean_weight=float((labels * w * target).sum() / total),
    )


def proportion_interval(
    equation: Callable[[float], Equation], value: float, rows: Decided, z: float, class_prior: float | None = None
) -> Interval:
    """Return the values of a score that the labels do not speak against; NaN where the sums are not finite.

    With a class prior the targets are scaled to add up to it, and only the ratio of both sides' positives is random.

    Examples
    --------
    >>> sides = decided_rows(np.ones(10), np.repeat([1.0, 0.0], 5), np.ones(10), np.ones(10))
    >>> low, high = proportion_interval(precision_equation, 0.5, sides, z=1.96)
    >>> round(low, 3), round(high, 3)
    (0.237, 0.763)
    """
    inflations = (rows.positive.inflation, rows.negative.inflation)
    if not all(0.0 < b < math.inf for b in inflations) or not math.isfinite(rows.positives):
        return Interval(math.nan, math.nan)

    def excess(at: float) -> float:
        asked = equation(at)
        if class_prior is None:
            return _excess(_plain_test(asked), rows, z)
        return _prior_excess(asked, rows, z, class_prior)

    farthest = rows.largest if class_prior is None else rows.largest * class_prior * rows.weight / rows.positives
    return Interval(_end(excess, value, -farthest - 1.0), _end(excess, value, farthest + 1.0))


def _plain_test(asked: Equation) -> _Test:
    return _Test(asked.found, asked.missed, asked.decided + asked.constant, asked.constant)


def _prior_excess(asked: Equation, rows: Decided, z: float, prior: float) -> float:
    """Return U^2 - z^2 V of what is asked of recall, given the share of positives.

    The share of decided rows varies with it. So a value may ask for a recall above 1 or below 0 and still be right:
    such a recall counts in U as it is, and in V as the nearest that there can be.
    """
    decided = rows.positive.weight / rows.weight
    scale = (asked.found + asked.missed) * prior
    recall = (asked.missed * prior + asked.decided * decided + asked.constant) / scale
    slope = asked.decided * rows.positives / (scale * rows.weight)
    possible = min(max(recall, 0.0), 1.0)
    test = _Test(1.0 - possible, possible, slope * (1.0 - decided), -slope * decided)
    inside = 0.0 < possible < 1.0
    sums = _likeliest(test, rows, 0.0) if inside else (possible * rows.positives, (1.0 - possible) * rows.positives)
    u = rows.positive.positives - recall * rows.positives
    return u * u - z * z * _variance(test, rows, *sums)


def _excess(test: _Test, rows: Decided, z: float) -> float:
    """Return U^2 - z^2 V, which is at most 0 inside of the interval; infinity where the value cannot be."""
    one, zero = rows.positive, rows.negative
    constant = test.positive * one.weight + test.negative * zero.weight
    if test.found < 0.0 or test.missed < 0.0 or (test.missed == 0.0 and constant < 0.0):
        return math.inf  # positives cannot be fewer than none
    u = test.found * one.positives - test.missed * zero.positives - constant
    return u * u - z * z * _variance(test, rows, *_likeliest(test, rows, constant))


def _variance(test: _Test, rows: Decided, n1: float, n0: float) -> float:
    """Return V, with `n1` and `n0` positives on both sides."""
    one, zero = rows.positive, rows.negative
    return (
        test.found * n1 * (test.found * one.inflation - 2.0 * test.positive * one.mean_weight)
        + test.missed * n0 * (test.missed * zero.inflation + 2.0 * test.negative * zero.mean_weight)
        + test.positive**2 * one.squares
        + test.negative**2 * zero.squares
    )


def _likeliest(test: _Test, rows: Decided, constant: float) -> tuple[float, float]:
    r"""Maximise :math:`\sum (N/B)\log n - n/B` over both sides, where :math:`\alpha n_1 = \beta n_0 + \gamma`."""
    one, zero = rows.positive, rows.negative
    if test.found == 0.0:
        return 0.0, 0.0  # a recall of 1: nothing is missed, and what is found does not matter
    if test.missed == 0.0:
        return constant / test.found, 0.0
    found, missed = one.positives / one.inflation, zero.positives / zero.inflation
    rate = test.missed / (test.found * one.inflation) + 1.0 / zero.inflation
    a, b = rate * test.missed, rate * constant - (found + missed) * test.missed
    root = math.sqrt(max(b * b + 4.0 * a * missed * constant, 0.0))
    n0 = (root - b) / (2.0 * a) if b <= 0.0 else 2.0 * missed * constant / (root + b)
    return max(test.missed * n0 + constant, 0.0) / test.found, n0


def _end(excess: Callable[[float], float], inside: float, limit: float) -> float:
    """Return where the excess, at most 0 at `inside`, becomes positive on the way to `limit`."""
    step = math.copysign(2.0**-10, limit)
    while excess(inside + step) <= 0.0:
        inside, step = inside + step, 2.0 * step
        if (inside - limit) * step > 0.0:
            return limit
    for _ in range(END_BISECTIONS):
        step *= 0.5
        if excess(inside + step) <= 0.0:
            inside += step
    return inside
