"""What drives the class, and what the labelling: odds ratios in the units of the raw table."""

from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from scarless.models import NaiveClassifier, SCARClassifier
from scarless.models.base import fit_quietly
from scarless.models.explaining import dense, has_coefficients
from scarless.models.uncertainty import known_inference
from scarless.numerics.arrays import Vector
from scarless.numerics.interval import quantile
from scarless.numerics.label_tests import ROWS_PER_COLUMN, holm, second_factor_test
from scarless.outside.plain_words import plain
from scarless.report.fit.answer import either_way, is_silent
from scarless.report.fit.data import Effect, Effects, Estimate, Strength
from scarless.report.fit.ranked import contributions_of, is_too_much, sample_of
from scarless.report.fit.slopes import Slopes
from scarless.report.fit.subject import Subject
from scarless.report.fit.words import listed, number, text
from scarless.report.numbers import p_sentence

STRENGTH_ROWS = 200
NAMED = 3  # in a verdict
SIGNIFICANT = 0.05
# Share of errors that the likelihood ratio may make, the score test the others. Five of ten columns in both models,
# 1,000 rows, 150 tables without an effect on the labelling: the ratio's p-value is below .05 in 15%, the smaller of
# both below .05 in 6% (in 9% with .2). Of 50 tables with an effect it is below .05 in 40%, the score test's in 8%.
RATIO_SHARE = 0.05
JOINT_CELLS = 20_000_000  # of a table that the joint test looks at; of a larger one at some rows
_SMALLEST = 1e-12  # chance of a label, and of none
_LARGEST = 700.0  # logarithm of an odds ratio


def make_effects(subject: Subject, rng: np.random.Generator) -> tuple[Effects, ...]:
    """Return both models' effects."""
    inference, why = _inference(subject.inner)
    of_class = _of_class(subject, inference, why, rng)
    if subject.looks is None:
        return of_class, _of_labelling(subject, inference, why, rng)
    return of_class, *_of_looks(subject, inference, why)


def _of_looks(subject: Subject, inference: Any, why: str) -> list[Effects]:
    """Return the effects of each propensity model: one for all looks, or one for each."""
    made, names = [], subject.looks.names  # type: ignore[union-attr]
    n_models = len(subject.inner.propensity_intercept_)
    for k in range(n_models):
        key = "labelling" if k == 0 else f"labelling-{k}"
        of = "" if n_models == 1 else f" at {text(names[k])}"
        slopes = Slopes.of_look(subject, inference, k)
        found = _effects(subject, slopes)
        nothing = "Nothing, by assumption: every positive is as likely to be labelled as any other."
        verdict = _verdict(found, f"Whether a positive gets its label{of}", slopes, None) if found else nothing
        notes = _notes(found, why) if found else ()
        made.append(Effects(key, f"What drives the labelling{of}", verdict, tuple(found), (), notes))
    return made


def _inference(inner: Any) -> tuple[Any, str]:
    """Return what a fit knows of its uncertainty, or why it knows nothing."""
    if not hasattr(inner, "standard_errors"):
        return None, f"{type(inner).__name__} has no standard errors, and so no intervals of odds ratios."
    try:
        return known_inference(inner), ""
    except (ValueError, TypeError) as error:
        return None, f"No intervals: {plain(error)}"


def _of_class(subject: Subject, inference: Any, why: str, rng: np.random.Generator) -> Effects:
    naive = isinstance(subject.inner, NaiveClassifier)
    what, title = ("Having a label", "What drives the label") if naive else ("The class", "What drives the class")
    if has_coefficients(subject.inner):
        slopes = Slopes.of_class(subject, inference)
        found = _effects(subject, slopes)
        others = [] if is_silent(subject) else subject.labelling_columns
        joint = None if inference is None else _joint(subject, slopes.columns, others, rng)
        told = _verdict(found, what, slopes, joint, rival=bool(others))
        if is_silent(subject):
            told += " In this fit the class is the same as having a label."
        elif either_way(subject):
            told = _exchanged(told, found, joint)
        return Effects("class", title, told, tuple(found), (), _notes(found, why))
    if is_too_much(subject, STRENGTH_ROWS):
        return Effects("class", title, "This model has no coefficients, and too many columns to try one by one.",
                       (), (), ())  # fmt: skip
    sample = sample_of(subject, STRENGTH_ROWS, rng)
    means = np.abs(contributions_of(subject, sample)).mean(axis=0)
    names = list(subject.groups)
    order = np.argsort(-means, kind="stable")
    found_strengths = tuple(Strength(text(names[j]), float(means[j])) for j in order)
    note = (
        "This model has no coefficients, and so no odds ratios. Shown is by how much the log-odds of the class change, "
        f"on average over {sample.n_rows} rows, if what was made of a column is put to its mean."
    )
    strongest = [each.column for each in found_strengths[:NAMED] if each.mean_change > 0]
    verdict = f"{what} depends most on {listed(strongest)}." if strongest else f"{what} depends on no column."
    return Effects("class", title, verdict, (), found_strengths, (note,))


def _of_labelling(subject: Subject, inference: Any, why: str, rng: np.random.Generator) -> Effects:
    title, inner = "What drives the labelling", subject.inner
    coef = getattr(inner, "propensity_coef_", None)
    if subject.labelling_columns and coef is not None:
        slopes = Slopes.of_labelling(subject, inference)
        found = _effects(subject, slopes)
        others = np.flatnonzero(np.ravel(inner.coef_)).tolist() if has_coefficients(inner) else []
        joint = _joint(subject, slopes.columns, others, rng) if inference is not None else None
        verdict = _verdict(found, "Whether a positive gets its label", slopes, joint, rival=bool(others))
        if is_silent(subject):
            verdict = "Not to be said: this fit takes every positive to have a label, whatever its columns hold."
        elif either_way(subject):
            verdict = _exchanged(verdict, found, joint)
        return Effects("labelling", title, verdict, tuple(found), (), _notes(found, why))
    if isinstance(inner, NaiveClassifier):
        verdict = "This model has no labelling: it takes every row without a label for negative."
    elif isinstance(inner, SCARClassifier) or (coef is not None and not subject.labelling_columns):
        verdict = "Nothing, by assumption: every positive is as likely to be labelled as any other."
    elif subject.propensity is not None:
        verdict = "The propensity of each row was given, not estimated."
    else:
        verdict = "This model does not tell what the labelling depends on."
    return Effects("labelling", title, verdict, (), (), ())


def _effects(subject: Subject, slopes: Slopes) -> list[Effect]:
    """Return the odds ratios of all columns that a model sees, the strongest per standard deviation first."""
    z, made = quantile(subject.level), []
    rows = zip(slopes.columns, slopes.value, slopes.error, slopes.unit, slopes.deviation, strict=True)
    for j, value, error, unit, deviation in rows:
        origin = slopes.visits.get(int(j), subject.origins[j])
        made.append(
            Effect(
                column=text(origin.column),
                piece=text(origin.piece),
                coef=float(np.ravel(slopes.coef)[j]),
                per_unit=_ratio(value, z * error, unit),
                per_sd=_ratio(value, z * error, deviation),
                sd=number(deviation / unit if unit else np.nan),
                words=origin.words,
            )
        )
    order = np.argsort(-np.abs(slopes.value * slopes.deviation), kind="stable")
    return [made[i] for i in order]


def _ratio(value: float, half: float, factor: float) -> Estimate:
    """Return the odds ratio of a change by a factor, with its interval."""
    if not np.isfinite(factor):
        return Estimate(None)
    return Estimate(_exp(value * factor), _exp((value - half) * factor), _exp((value + half) * factor))


def _exp(value: float) -> float | None:
    """Return an exponential; None where there is no number, or it is beyond all numbers."""
    return None if not abs(value) < _LARGEST else float(np.exp(value))


def _joint(subject: Subject, tested: Any, others: list[int], rng: np.random.Generator) -> float | None:
    """Return the p-value of no column of one model at all, the other model as it would be without them.

    The smaller of two p-values, adjusted for their number. The score test needs no fit of two models and keeps its
    level, but loses power where the other model sees the same columns; there the likelihood ratio of the fit is better.
    None where labels are too few for so many columns, may be wrong, come from several looks, or belong to groups. Where
    nothing says which model is the class, it is the p-value of labels that depend on no column: of either model labels
    say no more.
    """
    others = [] if either_way(subject) else others
    columns = len(tested) + len(others)
    fewest = min(float(subject.row_weight @ subject.s), float(subject.row_weight @ (1.0 - subject.s)))
    if subject.looks is not None or subject.grouped or not len(tested) or columns * ROWS_PER_COLUMN > fewest:
        return None
    some = sample_of(subject, max(JOINT_CELLS // subject.prepared.shape[1], 1), rng)
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
    p = np.clip(chance, _SMALLEST, 1.0 - _SMALLEST)
    return float(subject.row_weight @ np.where(subject.s == 1, np.log(p), np.log1p(-p)))


def _verdict(found: list[Effect], what: str, slopes: Slopes, joint: float | None, *, rival: bool = False) -> str:
    """Say what a model depends on: whether on anything, by a test of all columns together, and then on which.

    Without such a test (`joint` is None) by the clearest single column, adjusted for their number. A `rival` is another
    model with columns, which may explain the labels instead.
    """
    if not found:
        return f"{what} depends on no column."
    strongest = list(dict.fromkeys(each.column for each in found))
    sure = list(dict.fromkeys(each.column for each in found if _sure(each)))
    alone = _smallest(slopes.value, slopes.error)
    clear = (alone if joint is None else joint) < SIGNIFICANT
    if found[0].per_sd.low is None or (sure and clear):
        return f"{what} depends most on {listed((sure or strongest)[:NAMED])}."
    how = "" if joint is None else f" (all columns together: {p_sentence(joint)})"
    if clear:
        return f"{what} {_unclear(strongest, how)}"
    if not sure:
        return f"{what} depends on no column beyond what chance could make{how}."
    chance = f"{'among so many columns ' if len(strongest) > 1 else ''}chance could make that"
    but = "labels are explained about as well without" if rival and alone < SIGNIFICANT else chance
    return f"{what} may depend on {listed(sure[:NAMED])}, but {but}{how}."


def _unclear(strongest: list[str], how: str) -> str:
    """Say that a model depends on columns of which none is clear by itself."""
    if len(strongest) == 1:
        return f"depends on {strongest[0]}{how.replace('all columns together: ', '')}, but how strongly is not clear."
    return (
        f"depends on the columns{how}, but it is not clear on which of them. The strongest are "
        f"{listed(strongest[:NAMED])}."
    )


def _exchanged(verdict: str, found: list[Effect], joint: float | None) -> str:
    """Return a verdict on one of two models that see the same columns: labels do not say which of them it is."""
    if joint is not None and joint >= SIGNIFICANT:
        return f"Labels depend on no column beyond what chance could make (all columns together: {p_sentence(joint)})."
    if not found:
        return verdict
    how = "" if joint is None else f" ({p_sentence(joint)})"
    strongest = list(dict.fromkeys(each.column for each in found))
    return (
        f"Labels depend on the columns{how}, but whether by the class or by the labelling they cannot say. In this "
        f"model the strongest are {listed(strongest[:NAMED])}."
    )


def _smallest(value: Vector, error: Vector) -> float:
    """Return the smallest p-value of single columns, adjusted for their number by Holm's rule."""
    told = np.isfinite(error) & (error > 0)
    return float(np.min(holm(2.0 * norm.sf(np.abs(value[told] / error[told]))))) if told.any() else 1.0


def _sure(effect: Effect) -> bool:
    """Whether an odds ratio's interval leaves out 1."""
    low, high = effect.per_sd.low, effect.per_sd.high
    return low is not None and high is not None and (low > 1.0 or high < 1.0)


def _notes(found: list[Effect], why: str) -> tuple[str, ...]:
    notes = [
        "An odds ratio of 2 says that the odds double when the column grows by one unit, or by one standard deviation, "
        "with all other columns as they are; of a level, that they are twice those of the column's other levels. 1 is "
        "no effect."
    ]
    if any(each.per_unit.value is None for each in found):
        notes.append("Where there is no ratio per unit, the column was made in a way that has no unit of its own.")
    if why:
        notes.append(why)
    return tuple(notes)
