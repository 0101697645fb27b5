"""What drives the class, and what the labelling: odds ratios in the units of the raw table, and tests of all together.

Where every level of a column has a column of its own, they add up to a constant: the data tell no single coefficient,
and its error is as large as the penalty allows. How one level differs from the others they do tell.
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

STRENGTH_ROWS = 200  # that a model without coefficients is asked about
# Share of errors that the likelihood ratio may make, the score test the others. Five of ten columns in both models,
# 1,000 rows, 150 tables without an effect on the labelling: the ratio's p-value is below .05 in 15%, the smaller of
# both below .05 in 6% (in 9% with .2). Of 50 tables with an effect it is below .05 in 40%, the score test's in 8%.
RATIO_SHARE = 0.05
JOINT_CELLS = 20_000_000  # of a table that the joint test looks at; of a larger one at some rows
_SMALLEST_CHANCE = 1e-12  # of a label, and of none
_LARGEST_LOG_RATIO = 700.0  # logarithm of an odds ratio
_ROUNDING = 1e-4  # by which single precision may miss 0, 1, and sums of shares


class Ratio(NamedTuple):
    """An odds ratio with the ends of its interval; None where there is no number."""

    value: float | None
    low: float | None = None
    high: float | None = None


class ColumnEffect(NamedTuple):
    """A column's odds ratios: per unit of the raw column, and per standard deviation, `sd`, of it."""

    origin: Origin
    coef: float
    per_unit: Ratio
    per_sd: Ratio
    sd: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 1."""
        low, high = self.per_sd.low, self.per_sd.high
        return low is not None and high is not None and (low > 1.0 or high < 1.0)


class ModelEffects(NamedTuple):
    """The effects of one of two models, the strongest first."""

    columns: list[ColumnEffect]
    p_single: float  # the smallest p-value of single columns, adjusted for their number by Holm's rule; 1 without any
    p_joint: float | None  # of all columns together; None where it is not tested
    rival: bool  # whether the other model has columns, which may explain the labels instead
    why: str  # there are no intervals; empty where there are


def class_effects(subject: Subject, rng: np.random.Generator) -> ModelEffects | None:
    """Return the effects of columns on the class; None of a model without coefficients."""
    if not has_coefficients(subject.inner):
        return None
    inference, why = _inference(subject.inner)
    slopes = Slopes.of_class(subject, inference)
    others = [] if subject.silent else subject.labelling_columns
    joint = None if inference is None else _joint(subject, slopes.columns, others, rng)
    return _effects(subject, slopes, why, joint, rival=bool(others))


def labelling_effects(subject: Subject, rng: np.random.Generator) -> list[ModelEffects]:
    """Return the effects of columns on the labelling: of one model, or of one for each look."""
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
    """Return by how much each raw column moves the logit of the class on average over so many rows, strongest first.

    For models without coefficients. None where there are too many columns to try one by one.
    """
    if takes_long(subject, STRENGTH_ROWS):
        return None
    sample = subject.sample(STRENGTH_ROWS, rng)
    means = np.abs(contributions_of(subject, sample)).mean(axis=0)
    names = list(subject.groups)
    return {names[j]: float(means[j]) for j in np.argsort(-means, kind="stable")}, sample.n_rows


def _inference(inner: Any) -> tuple[Any, str]:
    """Return what a fit knows of its uncertainty, or why it knows nothing."""
    if not hasattr(inner, "standard_errors"):
        return None, f"{type(inner).__name__} has no standard errors, and so no intervals of odds ratios."
    try:
        return known_inference(inner), ""
    except (ValueError, TypeError) as error:
        return None, f"No intervals: {plain(error)}"


# --- slopes and odds ratios


@dataclass(frozen=True, eq=False)
class Slopes:
    """Of each column that a model sees: its slope, the error of that, and the factors per unit and per deviation.

    A slope is that of the logit, per prepared unit; of a level, per one of the level in place of the others.
    """

    coef: Vector
    columns: Columns
    value: Vector
    error: Vector  # NaN where errors are not known
    unit: Vector  # slope times this is per unit of the raw column
    deviation: Vector  # and per standard deviation
    visits: dict[int, Origin] = field(default_factory=dict)  # columns that stand for those of all looks

    @classmethod
    def of_class(cls, subject: Subject, inference: Any) -> Self:
        """Return the classifier's."""
        coef = np.ravel(subject.inner.coef_)
        return cls._of(subject, coef, inference, None if inference is None else inference.f, 0)

    @classmethod
    def of_labelling(cls, subject: Subject, inference: Any) -> Self:
        """Return the propensity model's."""
        coef, n_f = np.ravel(subject.inner.propensity_coef_), 0 if inference is None else inference.f.n_parameters
        return cls._of(subject, coef, inference, None if inference is None else inference.e, n_f)

    @classmethod
    def of_look(cls, subject: Subject, inference: Any, k: int) -> Self:
        """Return those of a propensity model among several; an attribute of looks has one slope for all of them."""
        inner, own = subject.inner, subject.model.visit_units
        coef, visits = np.array(inner.propensity_coef_[k], dtype=np.float64), {}
        for j, (name, columns) in enumerate(subject.visit_columns.items()):
            look = columns[k if len(inner.propensity_intercept_) > 1 else 0]
            coef[look] = inner.visit_coef_[k, j]
            visits[look] = Origin(name, unit=own.get(name, 1.0))
        if not isinstance(inference, PairInference) or not inference.told_by_height:
            return replace(cls._of(subject, coef, None, None, 0), visits=visits)
        design, place = inference.objective.models[k][0], inference.objective.places[1 + k]
        return replace(cls._of(subject, coef, inference, design, place.start), visits=visits)

    @classmethod
    def _of(cls, subject: Subject, coef: Vector, inference: Any, design: Any, first: int) -> Self:
        seen = np.flatnonzero(coef) if design is None else design.indices
        contrasts, levels = _contrasts(subject, seen)
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
            unit=np.where(levels, 1.0, np.divide(1.0, units, out=np.full(seen.size, np.nan), where=units != 0)),
            deviation=np.where(levels, deviations * units, deviations),
        )


def _contrasts(subject: Subject, seen: Columns) -> tuple[Any, Any]:
    """Return what each slope is made of, as weights of the coefficients, and which are those of levels."""
    place = {int(j): i for i, j in enumerate(seen)}
    weights, levels = sparse.eye_array(seen.size, format="lil"), np.zeros(seen.size, dtype=bool)
    for group in subject.groups.values():
        members = [j for j in group if subject.origins[j].piece]
        shares = _shares(subject, members)
        if shares is None or not all(j in place for j in members):
            continue
        at = [place[j] for j in members]
        units = np.array([subject.origins[j].unit for j in members])
        against = -shares[None] / (1.0 - shares[:, None])  # the others in their shares
        np.fill_diagonal(against, 1.0)
        weights[np.ix_(at, at)] = against / units
        levels[at] = True
    return weights.tocsr(), levels


def _shares(subject: Subject, members: list[int]) -> Vector | None:
    """Return the share of rows with each level, if these are all levels of a column; else None."""
    if len(members) < 2:
        return None
    units = np.array([subject.origins[j].unit for j in members])
    mean, _, low, high = (each[members] for each in subject.moments)
    shares = (mean - low) * units
    indicators = np.abs((high - low) * units - 1.0) < _ROUNDING
    complete = indicators.all() and abs(float(shares.sum()) - 1.0) < _ROUNDING
    return np.asarray(shares) if complete and (shares < 1.0).all() and (shares > 0.0).all() else None


def _effects(subject: Subject, slopes: Slopes, why: str, joint: float | None, *, rival: bool = False) -> ModelEffects:
    """Return the odds ratios of all columns that a model sees, the strongest per standard deviation first."""
    z, made = quantile(subject.level), []
    rows = zip(slopes.columns, slopes.value, slopes.error, slopes.unit, slopes.deviation, strict=True)
    for j, value, error, unit, deviation in rows:
        origin = slopes.visits.get(int(j), subject.origins[j])
        per_unit, per_sd = (_ratio(value, z * error, factor) for factor in (unit, deviation))
        sd = float(deviation / unit) if unit else np.nan
        made.append(ColumnEffect(origin, float(np.ravel(slopes.coef)[j]), per_unit, per_sd, sd))
    order = np.argsort(-np.abs(slopes.value * slopes.deviation), kind="stable")
    return ModelEffects([made[i] for i in order], _smallest(slopes.value, slopes.error), joint, rival, why)


def _ratio(value: float, half: float, factor: float) -> Ratio:
    """Return the odds ratio of a change by a factor, with its interval."""
    if not np.isfinite(factor):
        return Ratio(None)
    return Ratio(_exp(value * factor), _exp((value - half) * factor), _exp((value + half) * factor))


def _exp(value: float) -> float | None:
    """Return an exponential; None where there is no number, or it is beyond all numbers."""
    return None if not abs(value) < _LARGEST_LOG_RATIO else float(np.exp(value))


# --- tests


def _smallest(value: Vector, error: Vector) -> float:
    """Return the smallest p-value of single columns, adjusted for their number by Holm's rule."""
    told = np.isfinite(error) & (error > 0)
    return float(np.min(holm(2.0 * norm.sf(np.abs(value[told] / error[told]))))) if told.any() else 1.0


def _joint(subject: Subject, tested: Any, others: list[int], rng: np.random.Generator) -> float | None:
    """Return the p-value of no column of one model at all, the other model as it would be without them.

    The smaller of two p-values, adjusted for their number. The score test needs no fit of two models and keeps its
    level, but loses power where the other model sees the same columns; there the likelihood ratio of the fit is better.
    None where labels are too few for so many columns, may be wrong, come from several looks, or belong to groups. Where
    nothing says which model is the class, it is the p-value of labels that depend on no column: of either model labels
    say no more.
    """
    others = [] if subject.either_way else others
    columns = len(tested) + len(others)
    fewest = min(float(subject.row_weight @ subject.s), float(subject.row_weight @ (1.0 - subject.s)))
    if subject.looks is not None or subject.grouped or not len(tested) or columns * ROWS_PER_COLUMN > fewest:
        return None
    some = subject.sample(max(JOINT_CELLS // subject.prepared.shape[1], 1), rng)
    table = dense(some.prepared)
    Z, s, f, c = table[:, others], some.s, np.ones(some.n_rows), float(np.average(some.s, weights=some.weight))
    if others:
        alone = fit_quietly(SCARClassifier(), Z, s.astype(np.int64), sample_weight=some.row_weight)
        f, c = alone.predict_proba(Z)[:, 1], float(alone.label_frequency_)
    place = {int(j): i for i, j in enumerate(tested)}
    groups = [[place[j] for j in group if j in place] for group in subject.groups.values()]
    score = second_factor_test(Z, table[:, tested], s, some.row_weight, f, c, [group for group in groups if group])
    if some.e is None or not others:  # the ratio is no chi-squared where labels depend on nothing at all
        return score
    gain = _log_likelihood(some, some.f * some.e) - _log_likelihood(some, f * c)
    ratio = float(chi2.sf(2.0 * gain, len(tested)))
    return float(min(score / (1.0 - RATIO_SHARE), ratio / RATIO_SHARE, 1.0))


def _log_likelihood(subject: Subject, chance: Vector) -> float:
    """Return the log-likelihood of labels that rows get with given chances."""
    p = np.clip(chance, _SMALLEST_CHANCE, 1.0 - _SMALLEST_CHANCE)
    return float(subject.row_weight @ np.where(subject.s == 1, np.log(p), np.log1p(-p)))
