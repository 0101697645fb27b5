"""Effects of columns on the class and on the labelling: odds ratios in the units of the raw table, and joint tests.

If every category of a column has its own prepared column, the prepared columns add up to a constant. The data then do
not determine the single coefficients, and their standard errors depend on the penalty. The data do determine the
difference between one category and the others. This difference is reported instead.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.stats import chi2, norm

from scarless.diagnostics.fit.rows import contributions_of, takes_long
from scarless.diagnostics.fit.subject import Subject
from scarless.models import SCARClassifier
from scarless.models.base import fit_quietly
from scarless.models.explaining import dense, has_coefficients
from scarless.models.pair import known_inference
from scarless.numerics.arrays import Columns, Vector
from scarless.numerics.label_tests import ROWS_PER_COLUMN, holm, second_factor_test
from scarless.numerics.uncertainty import quantile
from scarless.outside.plain_words import plain
from scarless.pair.inference import PairInference
from scarless.raw.origins import Origin

STRENGTH_ROWS = 200  # rows on which the contributions of a model without coefficients are computed
# Share of the significance level that the likelihood ratio test gets; the score test gets the rest. In 150 simulated
# tables without an effect on the labelling (1,000 rows, ten columns, five of them in both models), the p-value of the
# likelihood ratio was below .05 in 15%, and the smaller of both adjusted p-values in 6% (9% if RATIO_SHARE is .2). In
# 50 tables with an effect, the smaller adjusted p-value was below .05 in 40%, and that of the score test alone in 8%.
RATIO_SHARE = 0.05
MAX_JOINT_CELLS = 20_000_000  # larger tables are sampled for the joint test
_MIN_PROBABILITY = 1e-12  # smallest probability of a label, and of no label
_MAX_LOG_RATIO = 700.0  # logarithm of an odds ratio; exp overflows above it
_ROUNDING_ERROR = 1e-4  # tolerance for 0, 1 and sums of shares in single precision


class OddsRatio(NamedTuple):
    """An odds ratio with the ends of its interval; None for values that are unknown or too large."""

    value: float | None
    low: float | None = None
    high: float | None = None


class ColumnEffect(NamedTuple):
    """Odds ratios of a column, for one unit and for one standard deviation (`sd`) of the raw column."""

    origin: Origin
    coef: float
    per_unit: OddsRatio
    per_sd: OddsRatio
    sd: float

    @property
    def clear(self) -> bool:
        """Whether the interval does not contain 1."""
        low, high = self.per_sd.low, self.per_sd.high
        return low is not None and high is not None and (low > 1.0 or high < 1.0)


class ModelEffects(NamedTuple):
    """Effects of the columns of one model, the strongest first."""

    columns: list[ColumnEffect]
    p_single: float  # smallest p-value of single columns, adjusted by Holm's method; 1 without p-values
    p_joint: float | None  # p-value of all columns together; None if it is not tested
    rival: bool  # whether the other model has columns, which may explain the labels instead
    why: str  # reason why there are no intervals; empty if there are intervals


def class_effects(subject: Subject, rng: np.random.Generator) -> ModelEffects | None:
    """Return the effects of columns on the class; None for a model without coefficients."""
    if not has_coefficients(subject.inner):
        return None
    inference, why = _inference(subject.inner)
    slopes = Slopes.of_class(subject, inference)
    others = [] if subject.is_uninformative else subject.labelling_columns
    joint = None if inference is None else _joint(subject, slopes.columns, others, rng)
    return _effects(subject, slopes, why, joint, rival=bool(others))


def labelling_effects(subject: Subject, rng: np.random.Generator) -> list[ModelEffects]:
    """Return the effects of columns on the labelling, with one entry for each propensity model."""
    inner, (inference, why) = subject.inner, _inference(subject.inner)
    if subject.looks is not None:
        slopes = [Slopes.of_look(subject, inference, k) for k in range(len(inner.propensity_intercept_))]
        return [_effects(subject, each, why, None) for each in slopes]
    if not subject.labelling_columns or getattr(inner, "propensity_coef_", None) is None:
        return []
    one = Slopes.of_labelling(subject, inference)
    others = np.flatnonzero(np.ravel(inner.coef_)).tolist() if has_coefficients(inner) else []
    joint = None if inference is None else _joint(subject, one.columns, others, rng)
    return [_effects(subject, one, why, joint, rival=bool(others))]


def class_strengths(subject: Subject, rng: np.random.Generator) -> tuple[dict[str, float], int] | None:
    """Return the mean absolute contribution of each raw column to the class logit, and the number of rows used.

    The strongest column is first. For models without coefficients. None if the computation would take too long.
    """
    if takes_long(subject, STRENGTH_ROWS):
        return None
    sample = subject.sample(STRENGTH_ROWS, rng)
    means = np.abs(contributions_of(subject, sample)).mean(axis=0)
    names = list(subject.groups)
    return {names[j]: float(means[j]) for j in np.argsort(-means, kind="stable")}, sample.n_rows


def _inference(inner: Any) -> tuple[Any, str]:
    """Return the inference of a fit, or the reason why there is none."""
    if not hasattr(inner, "standard_errors"):
        return None, f"{type(inner).__name__} has no standard errors, so there are no intervals of odds ratios."
    try:
        return known_inference(inner), ""
    except (ValueError, TypeError) as error:
        return None, f"No intervals: {plain(error)}"


# --- slopes and odds ratios


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes of the columns of a model, their standard errors, and factors that convert them to raw units.

    A slope is the change of the logit for one unit of a prepared column. For a category, it is the change from the mean
    of the other categories to this category.
    """

    coef: Vector
    columns: Columns
    value: Vector
    error: Vector  # NaN if unknown
    unit: Vector  # factor that converts a slope to one unit of the raw column
    deviation: Vector  # factor that converts a slope to one standard deviation
    visits: dict[int, Origin] = field(default_factory=dict)  # visit attributes, by their column at this look

    @classmethod
    def of_class(cls, subject: Subject, inference: Any) -> Self:
        """Return the slopes of the class model."""
        coef = np.ravel(subject.inner.coef_)
        return cls._of(subject, coef, inference, None if inference is None else inference.f, 0)

    @classmethod
    def of_labelling(cls, subject: Subject, inference: Any) -> Self:
        """Return the slopes of the propensity model."""
        coef, n_f = np.ravel(subject.inner.propensity_coef_), 0 if inference is None else inference.f.n_parameters
        return cls._of(subject, coef, inference, None if inference is None else inference.e, n_f)

    @classmethod
    def of_look(cls, subject: Subject, inference: Any, k: int) -> Self:
        """Return the slopes of the propensity model of one look; a visit attribute has one slope for all looks."""
        inner, own = subject.inner, subject.model.visit_units
        coef, visits = np.array(inner.propensity_coef_[k], dtype=np.float64), {}
        for j, (name, columns) in enumerate(subject.visit_columns.items()):
            look = columns[k if len(inner.propensity_intercept_) > 1 else 0]
            coef[look] = inner.visit_coef_[k, j]
            visits[look] = Origin(name, unit=own.get(name, 1.0))
        if not isinstance(inference, PairInference) or not inference.has_extra_information:
            return replace(cls._of(subject, coef, None, None, 0), visits=visits)
        design, place = inference.objective.models[k][0], inference.objective.places[1 + k]
        return replace(cls._of(subject, coef, inference, design, place.start), visits=visits)

    @classmethod
    def _of(cls, subject: Subject, coef: Vector, inference: Any, design: Any, first: int) -> Self:
        seen = np.flatnonzero(coef) if design is None else design.indices
        contrasts, is_category = _contrasts(subject, seen)
        errors = np.full(seen.size, np.nan)
        if design is not None and seen.size:
            gradients = np.zeros((seen.size, inference.parameters.size))
            gradients[:, first : first + seen.size] = contrasts.toarray()
            errors = inference.precision.errors(gradients)
        units = np.array([subject.origins[j].unit for j in seen])
        deviations = subject.moments.deviation[seen]
        return cls(
            coef=coef,
            columns=seen,
            value=contrasts @ coef[seen],
            error=errors,
            unit=np.where(is_category, 1.0, np.divide(1.0, units, out=np.full(seen.size, np.nan), where=units != 0)),
            deviation=np.where(is_category, deviations * units, deviations),
        )


def _contrasts(subject: Subject, seen: Columns) -> tuple[Any, Any]:
    """Return the weights of the coefficients in each slope, and which slopes are those of categories."""
    place = {int(j): i for i, j in enumerate(seen)}
    weights, is_category = sparse.eye_array(seen.size, format="lil"), np.zeros(seen.size, dtype=bool)
    for group in subject.groups.values():
        members = [j for j in group if subject.origins[j].piece]
        shares = _shares(subject, members)
        if shares is None or not all(j in place for j in members):
            continue
        at = [place[j] for j in members]
        units = np.array([subject.origins[j].unit for j in members])
        against = -shares[None] / (1.0 - shares[:, None])  # the mean of the other categories, weighted by their shares
        np.fill_diagonal(against, 1.0)
        weights[np.ix_(at, at)] = against / units
        is_category[at] = True
    return weights.tocsr(), is_category


def _shares(subject: Subject, members: list[int]) -> Vector | None:
    """Return the share of rows of each category, if the columns are all categories of a raw column; otherwise None."""
    if len(members) < 2:
        return None
    units = np.array([subject.origins[j].unit for j in members])
    mean, _, low, high = (each[members] for each in subject.moments)
    shares = (mean - low) * units
    indicators = np.abs((high - low) * units - 1.0) < _ROUNDING_ERROR
    complete = indicators.all() and abs(float(shares.sum()) - 1.0) < _ROUNDING_ERROR
    return np.asarray(shares) if complete and (shares < 1.0).all() and (shares > 0.0).all() else None


def _effects(subject: Subject, slopes: Slopes, why: str, joint: float | None, *, rival: bool = False) -> ModelEffects:
    """Return the odds ratios of all columns of a model, the strongest for one standard deviation first."""
    z, made = quantile(subject.level), []
    rows = zip(slopes.columns, slopes.value, slopes.error, slopes.unit, slopes.deviation, strict=True)
    for j, value, error, unit, deviation in rows:
        origin = slopes.visits.get(int(j), subject.origins[j])
        per_unit, per_sd = (_ratio(value, z * error, factor) for factor in (unit, deviation))
        sd = float(deviation / unit) if unit else np.nan
        made.append(ColumnEffect(origin, float(np.ravel(slopes.coef)[j]), per_unit, per_sd, sd))
    order = np.argsort(-np.abs(slopes.value * slopes.deviation), kind="stable")
    p_single = _smallest_p_value(slopes.value, slopes.error)
    return ModelEffects([made[i] for i in order], p_single, joint, rival, why)


def _ratio(value: float, half: float, factor: float) -> OddsRatio:
    """Return the odds ratio, with its interval, of a slope multiplied by a factor."""
    if not np.isfinite(factor):
        return OddsRatio(None)
    return OddsRatio(_exp(value * factor), _exp((value - half) * factor), _exp((value + half) * factor))


def _exp(value: float) -> float | None:
    """Return the exponential; None if it would overflow or is NaN."""
    return None if not abs(value) < _MAX_LOG_RATIO else float(np.exp(value))


# --- tests


def _smallest_p_value(value: Vector, error: Vector) -> float:
    """Return the smallest p-value of single columns, adjusted by Holm's method."""
    known = np.isfinite(error) & (error > 0)
    return float(np.min(holm(2.0 * norm.sf(np.abs(value[known] / error[known]))))) if known.any() else 1.0


def _joint(subject: Subject, tested: Any, others: list[int], rng: np.random.Generator) -> float | None:
    """Return the p-value of the hypothesis that no column of one model has an effect, given the other model.

    The p-value is the smaller of two adjusted p-values. The score test keeps its significance level, but has little
    power if the other model uses the same columns; the likelihood ratio test then has more power. If the models may be
    swapped, the hypothesis is that the labels depend on no column at all.

    None for a fit with several looks, false positives or other information than one label for each row, for rows in
    groups, and if there are too few labelled or unlabelled rows for the number of columns.
    """
    others = [] if subject.may_be_swapped else others
    columns = len(tested) + len(others)
    fewest = min(float(subject.row_weight @ subject.s), float(subject.row_weight @ (1.0 - subject.s)))
    if subject.looks is not None or subject.grouped or not len(tested) or columns * ROWS_PER_COLUMN > fewest:
        return None
    some = subject.sample(max(MAX_JOINT_CELLS // subject.prepared.shape[1], 1), rng)
    table = dense(some.prepared)
    Z, s, f, c = table[:, others], some.s, np.ones(some.n_rows), float(np.average(some.s, weights=some.weight))
    if others:
        alone = fit_quietly(SCARClassifier(), Z, s.astype(np.int64), sample_weight=some.row_weight)
        f, c = alone.predict_proba(Z)[:, 1], float(alone.label_frequency_)
    place = {int(j): i for i, j in enumerate(tested)}
    groups = [[place[j] for j in group if j in place] for group in subject.groups.values()]
    score = second_factor_test(Z, table[:, tested], s, some.row_weight, f, c, [group for group in groups if group])
    if some.e is None or not others:  # without other columns, the likelihood ratio is not chi-squared under the null
        return score
    gain = _log_likelihood(some, some.f * some.e) - _log_likelihood(some, f * c)
    ratio = float(chi2.sf(2.0 * gain, len(tested)))
    return float(min(score / (1.0 - RATIO_SHARE), ratio / RATIO_SHARE, 1.0))


def _log_likelihood(subject: Subject, probability: Vector) -> float:
    """Return the log-likelihood of the labels for given probabilities of a label."""
    p = np.clip(probability, _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)
    return float(subject.row_weight @ np.where(subject.s == 1, np.log(p), np.log1p(-p)))
