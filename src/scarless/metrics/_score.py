"""What every propensity-weighted score shares: checks, targets, standard error, interval, the result."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit
from sklearn.exceptions import UndefinedMetricWarning

from scarless.data.notices import warn_user
from scarless.data.vectors import FloatVector, check_indicator, check_propensity, check_weight
from scarless.metrics._rows import check_fraction
from scarless.metrics.risk import effective_sample_size
from scarless.numerics.weighted_scores import Ratio, Targets, normalised_targets, plain_targets

Formula = Callable[[FloatVector, FloatVector, FloatVector], Ratio]  # predictions, targets, weights


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
        not finite, and where no row is labelled.
    interval : (float, float)
        The value plus and minus a quantile of Student's t times the standard error, whose degrees of freedom come from
        how unequally the rows influence the value. Not cut at 0 or 1.
    level : float
        Nominal probability that the interval covers the score in the population the rows come from.
    effective_sample_size : float
        How many equally weighted positives the labelled rows are worth (Kish).
    n_labelled : int
        Labelled rows that count.
    n_clipped : int
        Labelled rows whose weight was cut at `max_weight`.

    Examples
    --------
    >>> found = Score("ROC-AUC", 0.91, 0.01, (0.89, 0.93), 0.95, 120.0, 200)
    >>> float(found)
    0.91
    >>> print(found)
    ROC-AUC 0.9100 (standard error 0.0100, 95% interval 0.8900 to 0.9300; 200 labelled rows, worth 120)
    """

    name: str
    value: float
    standard_error: float
    interval: tuple[float, float]
    level: float
    effective_sample_size: float
    n_labelled: int
    n_clipped: int = 0

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        worth = f"worth {self.effective_sample_size:.0f}"
        clipped = f" ({self.n_clipped} clipped)" if self.n_clipped else ""
        return (
            f"{self.name} {self.value:.4f} (standard error {self.standard_error:.4f}, {100 * self.level:.4g}% interval "
            f"{low:.4f} to {high:.4f}; {self.n_labelled} labelled rows{clipped}, {worth})"
        )


class Weighting(NamedTuple):
    """How labels become targets, and how sure the interval is to be: options as the user gave them."""

    sample_weight: ArrayLike | None
    normalised: bool
    max_weight: float | None
    class_prior: float | None
    level: float


class Rows(NamedTuple):
    """Rows that count: their predictions, labels, propensities and weights."""

    prediction: FloatVector
    s: FloatVector
    e: FloatVector
    weight: FloatVector


def evaluate(
    name: str, formula: Formula, prediction: FloatVector, s: ArrayLike, propensity: ArrayLike, options: Weighting
) -> Score:
    """Return a score of checked predictions: rows of weight 0 are left out, labels become targets."""
    _check_options(options)
    rows = check_rows(prediction, s, propensity, options.sample_weight)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # what overflows is undefined, and said so
        targets = _targets(rows, options)
        found = formula(rows.prediction, targets.t, rows.weight)
        if not found.bottom > 0 or not math.isfinite(found.top):
            _warn_undefined(name, rows)
            return summary(name, math.nan, None, rows, options)
        influence = found.influence() + found.slope * targets.log_scale_rows
    return summary(name, found.value, influence if rows.s.any() else None, rows, options)


def check_rows(prediction: FloatVector, s: ArrayLike, propensity: ArrayLike, sample_weight: ArrayLike | None) -> Rows:
    """Return the rows that count."""
    n = prediction.size
    if n == 0:
        raise ValueError("there are no rows to score; give at least one prediction.")
    labels = check_indicator(s, "s", n_rows=n)
    e = check_propensity(propensity, n_rows=n)
    weight = check_weight(sample_weight, n_rows=n)
    counted = weight > 0
    return Rows(prediction[counted], labels[counted], e[counted], weight[counted])


def summary(name: str, value: float, influence: FloatVector | None, rows: Rows, options: Weighting) -> Score:
    """Return the result; the interval is NaN where the rows' influence is unknown."""
    error, half = spread(influence, options.level) if influence is not None else (math.nan, math.nan)
    cap = math.inf if options.max_weight is None else options.max_weight
    return Score(
        name=name,
        value=value,
        standard_error=error,
        interval=(value - half, value + half),
        level=float(options.level),
        effective_sample_size=effective_sample_size(rows.s, np.maximum(rows.e, 1.0 / cap), sample_weight=rows.weight),
        n_labelled=int(rows.s.sum()),
        n_clipped=int(np.count_nonzero((rows.s == 1) & (rows.e < 1.0 / cap))),
    )


def spread(influence: FloatVector, level: float) -> tuple[float, float]:
    r"""Return the standard error and half the length of the interval from :math:`\psi_i = w_i\,\partial/\partial w_i`.

    The variance :math:`\frac{n}{n-1}\sum\psi_i^2` is the infinitesimal jackknife's. It is itself uncertain, by the
    fourth moment; the degrees of freedom
    :math:`2(\sum\psi^2)^2 / (\sum\psi^4 - (\sum\psi^2)^2/n)` match its variance, as Satterthwaite's do: about ``n``
    where influences are normal, about twice the number of rows that matter where few do.
    """
    n = influence.size
    if n < 2 or not np.isfinite(influence).all():
        return math.nan, math.nan
    scale = float(np.abs(influence).max())
    if scale == 0.0:
        return 0.0, 0.0
    squares = (influence / scale) ** 2  # so that fourth powers neither overflow nor vanish
    total = float(squares.sum())
    uncertainty = float((squares**2).sum()) - total**2 / n
    freedom = 2.0 * total**2 / uncertainty if uncertainty > 0 else math.inf
    error = scale * math.sqrt(total * n / (n - 1))
    return error, error * float(stdtrit(min(freedom, 1e6), (1 + level) / 2))


def _check_options(options: Weighting) -> None:
    check_fraction(options.level, "level")
    if options.max_weight is not None and not options.max_weight >= 1:
        raise ValueError(
            f"max_weight, the largest weight s/e, must be at least 1, e.g. 10; got {options.max_weight!r}."
        )
    if options.class_prior is None:
        return
    if not options.normalised:
        raise ValueError(
            "class_prior is what normalised weights add up to; pass normalised=True with it, or leave it out."
        )
    if not 0.0 < options.class_prior <= 1.0:
        raise ValueError(f"class_prior must lie in (0, 1]; got {options.class_prior!r}.")


def _targets(rows: Rows, options: Weighting) -> Targets:
    share = rows.s / rows.e
    max_weight = math.inf if options.max_weight is None else float(options.max_weight)
    if not options.normalised:
        return plain_targets(share, max_weight)
    if rows.s.any():
        return normalised_targets(share, rows.weight, max_weight, options.class_prior)
    if options.class_prior is None:
        return plain_targets(share)
    raise ValueError(
        "normalised=True with a class_prior needs at least one labelled row that counts; there is none, so nothing is "
        "known of the positives."
    )


def _warn_undefined(name: str, rows: Rows) -> None:
    positives = float((rows.weight * rows.s / rows.e).sum() / rows.weight.sum())
    warn_user(
        f"{name} is undefined here and set to NaN: of {rows.s.size} rows {int(rows.s.sum())} are labelled, which "
        f"with these propensities stands for a share of {positives:.3g} positives, and the score needs positives "
        "(precision: rows predicted positive; ROC-AUC: negatives too). Score more rows; if the share is near 1 or "
        "above, the propensities are too small: see max_weight= and class_prior=.",
        UndefinedMetricWarning,
    )
