"""Rows that differ in how easily they are seen, in ways that no column measures: fits over their standard deviation.

The logits of a row's propensities are shifted by a random number, whose standard deviation is estimated. The data say
little about the form of its distribution, and the class prior depends on this form (Link, "Nonidentifiability of
population size from capture-recapture data with heterogeneous detection probabilities", Biometrics 59, 2003). The
models are therefore fitted for several standard deviations and forms. Intervals are quantiles of a mixture of all
these fits, with weights proportional to their likelihoods.
"""

from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr

from scarless.numerics.arrays import Vector
from scarless.numerics.looks_objective import MIXING_FORMS, NORMAL
from scarless.numerics.uncertainty import Functional, Interval, quantile
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.inference import PairInference, pair_inference, penalised_loss
from scarless.pair.problem import PairProblem, changed

#: Standard deviations of the logits of propensities that are compared. By judgement: with a larger standard deviation,
#: nearly all positives would be seen at every look or at none.
DEVIATIONS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
ESTIMATE = "estimate"
#: Fewer looks at each row do not determine the standard deviation: with two looks, any agreement of labels can also be
#: a higher propensity of all rows. By judgement: three looks have two degrees of freedom for one more parameter.
MIN_LOOKS_FOR_HETEROGENEITY = 3
#: Larger standard deviations are not tried once the log-likelihood is below the highest by this number. By judgement.
MAX_LOSS = 6.0
#: A grid of standard deviations is refined until the neighbours of the likeliest one are below it by at most the first
#: number, in log-likelihood, or as often as the second number says. By judgement.
MAX_LOSS_OF_NEIGHBOUR, MAX_REFINEMENTS = 1.0, 8
FINE_STEPS = 1001  # points of an interpolated likelihood
PROFILE_TOL = 1e-8  # tolerance per row of the fits


class SpreadFit(NamedTuple):
    """Estimates of a fit with a given form and standard deviation of the random shift."""

    form: str
    deviation: float
    log_likelihood: float  # penalised
    class_prior: tuple[float, float]  # logit and its standard error
    label_frequency: tuple[float, float]


def with_spread(problem: PairProblem, deviation: float, form: str = NORMAL) -> PairProblem:
    """Return the problem with another form and standard deviation of the random shift."""
    return problem.with_objective(changed(problem.objective, heterogeneity=deviation, mixing_form=form))


def profile_of_spread(problem: PairProblem, start: Vector, *, max_iter: int) -> tuple[SpreadFit, ...]:
    """Fit the models with each form and standard deviation; `start` is the optimum without a random shift.

    Near its likeliest standard deviation, each form has a finer grid.
    """
    found = []
    for form in MIXING_FORMS:
        own = _coarse_fits(problem, form, start, max_iter)
        for _ in range(MAX_REFINEMENTS):
            middles = _middles_to_add([fit for fit, _ in own])
            nearest = max(own, key=lambda each: each[0].log_likelihood)[1].parameters
            made = [_fit_with(problem, deviation, form, nearest, max_iter) for deviation in middles]
            own = sorted([*own, *(each for each in made if each is not None)], key=lambda each: each[0].deviation)
            if not any(made):
                break
        found += [fit for fit, _ in own]
    return tuple(found)


def _coarse_fits(problem: PairProblem, form: str, start: Vector, max_iter: int) -> list[tuple[SpreadFit, PairFit]]:
    """Fit the models with each standard deviation of the coarse grid, in order; each fit starts at the one before."""
    found: list[tuple[SpreadFit, PairFit]] = []
    at = start
    highest = -np.inf
    for deviation in DEVIATIONS:
        made = _fit_with(problem, deviation, form, at, max_iter)
        if made is None:
            break
        found.append(made)
        if made[0].log_likelihood < highest - MAX_LOSS:
            break
        at, highest = made[1].parameters, max(highest, made[0].log_likelihood)
    if not found:
        raise ValueError(
            "heterogeneity='estimate' needs a fit that converges, and none does. Raise max_iter, scale the columns, "
            "or use a stronger penalty (lower C)."
        )
    return found


def _middles_to_add(fits: list[SpreadFit]) -> list[float]:
    """Return the middles between the likeliest standard deviation and its neighbours that are much less likely."""
    top = max(range(len(fits)), key=lambda k: fits[k].log_likelihood)
    low = fits[top].log_likelihood - MAX_LOSS_OF_NEIGHBOUR
    beside = [fit for fit in fits[max(top - 1, 0) : top + 2] if fit.log_likelihood < low]
    return [0.5 * (fit.deviation + fits[top].deviation) for fit in beside]


def _fit_with(
    problem: PairProblem, deviation: float, form: str, start: Vector, max_iter: int
) -> tuple[SpreadFit, PairFit] | None:
    """Fit the models with a random shift of this form; None if the fit does not converge."""
    tried = with_spread(problem, deviation, form)
    fit = fit_pair(tried, start, FitOptions(PROFILE_TOL, max_iter))
    if not fit.converged:
        return None
    inference = pair_inference(tried, fit)
    shares = (_on_logit_scale(inference, each) for each in (inference.class_prior, inference.label_frequency))
    return SpreadFit(form, deviation, -penalised_loss(tried, fit.parameters), *shares), fit


def _on_logit_scale(inference: PairInference, functional: Functional) -> tuple[float, float]:
    slope = max(functional.value * (1.0 - functional.value), 1e-300)
    return float(logit(functional.value)), inference.error_of(functional) / slope


def likeliest_deviation(fits: tuple[SpreadFit, ...], form: str = NORMAL) -> float:
    """Return the standard deviation with the highest likelihood for a form, by a parabola through three."""
    deviations, values = _profile(fits, form)
    top = int(np.argmax(values))
    if not 0 < top < deviations.size - 1:
        return float(deviations[top])
    around = slice(top - 1, top + 2)
    curvature, slope, _ = np.polyfit(deviations[around], values[around], 2)
    return float(-slope / (2.0 * curvature))


def deviation_interval(fits: tuple[SpreadFit, ...], level: float) -> Interval:
    """Return the standard deviations that the likelihood of the normal form does not reject."""
    deviations, values = _profile(fits, NORMAL)
    fine = np.linspace(deviations[0], deviations[-1], FINE_STEPS)
    along = np.asarray(PchipInterpolator(deviations, values)(fine))
    inside = fine[along >= along.max() - 0.5 * quantile(level) ** 2]
    return Interval(float(inside[0]), float(inside[-1]))


def _profile(fits: tuple[SpreadFit, ...], form: str) -> tuple[Vector, Vector]:
    own = [fit for fit in fits if fit.form == form]
    return np.array([fit.deviation for fit in own]), np.array([fit.log_likelihood for fit in own])


class FormOfSpread(NamedTuple):
    """A form of the random shift at its likeliest standard deviation."""

    form: str
    class_prior: float
    behind: float  # log-likelihood below that of the likeliest form


def compare_forms(fits: tuple[SpreadFit, ...]) -> list[FormOfSpread]:
    """Return the class prior of each form, and how much less likely than the likeliest form it is."""
    tops = {form: _profile(fits, form)[1].max() for form in MIXING_FORMS}
    found = []
    for form in MIXING_FORMS:
        centres = np.array([fit.class_prior[0] for fit in fits if fit.form == form])
        at = np.interp(likeliest_deviation(fits, form), _profile(fits, form)[0], centres)
        found.append(FormOfSpread(form, float(expit(at)), float(max(tops.values()) - tops[form])))
    return found


def share_interval(fits: tuple[SpreadFit, ...], share: str, level: float) -> Interval:
    """Return the interval of "class_prior" or "label_frequency", from the quantiles of the mixture of all fits."""
    weights = mixture_weights(fits)
    centres, errors = np.array([getattr(fit, share) for fit in fits]).T
    errors = np.maximum(errors, 1e-12)

    def share_at(p: float) -> float:
        def excess(x: float) -> float:
            return float(weights @ ndtr((x - centres) / errors)) - p

        return float(expit(brentq(excess, float((centres - 40 * errors).min()), float((centres + 40 * errors).max()))))

    tail = 0.5 * (1.0 - level)
    return Interval(share_at(tail), share_at(1.0 - tail))


def mixture_weights(fits: tuple[SpreadFit, ...]) -> Vector:
    """Return the weight of each fit: its likelihood, times the range of standard deviations that it represents."""
    values = np.array([fit.log_likelihood for fit in fits])
    steps = [step for form in MIXING_FORMS for step in _steps([fit.deviation for fit in fits if fit.form == form])]
    weights = np.array(steps) * np.exp(values - values.max())
    return np.asarray(weights / weights.sum())


def _steps(deviations: list[float]) -> list[float]:
    """Return the length of the range of standard deviations that each of them represents."""
    ends = np.array([deviations[0], *deviations, deviations[-1]])
    return [float(step) for step in 0.5 * (ends[2:] - ends[:-2])]
