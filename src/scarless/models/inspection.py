"""Functions with which other parts of the package read a fitted model: its problem, its remarks and its looks."""

from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.estimators import innermost
from scarless.checks.looks import check_looks, looks_of
from scarless.checks.rows import check_rows_again, row_totals
from scarless.engines.base import known_rows
from scarless.models.pair import known_inference
from scarless.models.reading import each_rate, fitted_rows
from scarless.numerics.arrays import Integers, Matrix, Vector
from scarless.numerics.likelihood import at_least_one
from scarless.numerics.uncertainty import Interval
from scarless.pair.constraints import check_known, check_labelling
from scarless.pair.fitted import FittedPair, GroupSums, GroupTotals, NoRowIntervals
from scarless.pair.heterogeneity import deviation_interval
from scarless.pair.inference import PairInference
from scarless.pair.predictive import ProbabilityDraws, draw_probabilities, label_probability_errors
from scarless.pair.problem import PairProblem, summarise_observations

_LARGEST_BELOW_ONE = float(np.nextafter(1.0, 0.0))


def problem_again(model: Any, X: Any, s: Any, *, sample_weight: Any = None, audit: Any = None) -> PairProblem:
    """Rebuild the problem that two logistic models were fitted to, from the rows, labels and audits of the fit."""
    inference, looks = known_inference(model), model.fitted_pair_.looks
    penalties = inference.C, inference.propensity_C
    if looks is None:
        if audit is not None:
            raise ValueError("audit: this model was fitted without audits. Leave audit out.")
        engine = inference.with_weights_of_fit(check_rows_again(model, X, s, sample_weight).engine)
        return PairProblem(engine, row_totals(engine), inference.objective, *penalties, inference.pseudo_observations)
    engine, constraints = fitted_rows(model, X, s, sample_weight, audit, looks)
    engine = inference.with_weights_of_fit(engine)
    seen = summarise_observations(engine, inference.objective)
    return PairProblem(engine, row_totals(engine), inference.objective, *penalties, None, constraints, seen)


def remarks_of(model: Any) -> list[str]:
    """Return the remarks on a fit of two logistic models."""
    return list(model._remarks())


class LooksSummary(NamedTuple):
    """Estimates of a fit to several looks, with intervals if it has standard errors."""

    names: tuple[str, ...]  # names of the looks
    n_audited: int
    plain: bool  # whether there is one look without false positives, offset, bounds or visit attributes
    same_propensity: bool  # whether all looks have the same propensity
    frequencies: tuple[tuple[float, Interval | None], ...]  # label frequency of each look
    rates: tuple[tuple[float, Interval | None], ...]  # one false-positive rate, or one for each look
    heterogeneity: tuple[float, Interval | None]  # standard deviation between rows; the interval if it is estimated
    rate_is: str  # source of the rates: "none", "given", "estimated" or "estimated in part"
    known_values: tuple[Any, ...]  # known values
    warnings: tuple[str, ...]  # warnings of the fit


def looks_summary(model: Any, level: float = 0.95) -> LooksSummary | None:
    """Return the estimates of a fit to several looks; None for a fit to one label for each row.

    Parameters
    ----------
    model : fitted classifier, TableClassifier or pipeline
    level : float in (0, 1), default=0.95
        Confidence level.

    Returns
    -------
    LooksSummary or None
    """
    looks, inner = looks_of(model), innermost(model)
    if looks is None:
        return None
    known = inner.fitted_pair_.inference
    known = None if known is None or known.information is None else known
    each = each_rate(check_labelling(inner.labelling).false_positive_rate)
    is_estimated = [isinstance(rate, str) for rate in each]
    estimated = any(is_estimated)
    return LooksSummary(
        names=tuple(map(str, looks.names)),
        n_audited=int(looks.n_audited),
        plain=bool(looks.plain),
        same_propensity=int(looks.objective.n_kinds) == 1,
        frequencies=tuple(_frequency(inner, looks, known, k, level) for k in range(looks.n_looks)),
        rates=_rates(inner, looks, known=estimated and known is not None, level=level),
        heterogeneity=_spread(inner.fitted_pair_, level),
        rate_is="estimated in part" if estimated and not all(is_estimated) else _rate_is(estimated, each),
        known_values=check_known(inner.known).shares,
        warnings=tuple(getattr(inner, "_looks_warnings", ())),
    )


def _frequency(inner: Any, looks: Any, known: PairInference | None, k: int, level: float) -> Any:
    value = float(inner.label_frequencies_[k])
    if known is None:
        return value, None
    return value, known.interval_of(known.label_frequency_of(int(looks.kinds[k])), level)


def _rates(inner: Any, looks: Any, *, known: bool, level: float) -> tuple[tuple[float, Interval | None], ...]:
    values = [float(each) for each in np.ravel(inner.false_positive_rate_)]
    if not known:
        return tuple((value, None) for value in values)
    objective, found = looks.objective, inner.fitted_pair_.rate_intervals(level)
    if all(rate is not None for rate in objective.rates):
        return tuple(found)
    own, values = [objective.rates[kind] for kind in looks.kinds], np.resize(values, len(looks.kinds)).tolist()
    return tuple((value, None) if rate is None else found[rate] for value, rate in zip(values, own, strict=True))


def _spread(pair: FittedPair, level: float) -> tuple[float, Interval | None]:
    found = deviation_interval(pair.spreads, level) if pair.spreads else None
    return float(pair.objective.heterogeneity), found


def _rate_is(estimated: bool, rates: list[Any]) -> str:
    return "estimated" if estimated else "given" if np.any(rates) else "none"


def any_label_probability(model: Any, X: Any, labels: Any) -> Vector:
    r"""Return the probability that a positive gets a label at any look that took place.

    .. math:: 1 - \prod_k (1 - e_k)

    Parameters
    ----------
    model : fitted classifier
        Model that was fitted to looks, audits or known values.
    X : table
        Table that the model can read.
    labels : array of shape (n_rows,) or (n_rows, n_looks)
        Labels. Only missing values matter: they mark looks that did not take place.

    Returns
    -------
    array of shape (n_rows,)
        0 for rows without any look.
    """
    return np.asarray(
        sum(weight * _any_look(X, labels, twin, twin.predict_propensity) for weight, twin in at_each_node(model))
    )


def at_each_node(model: Any) -> list[tuple[float, Any]]:
    """Return copies of a model, each with one value of the random shift of propensities, and their weights.

    Given the shift, the looks of a row are independent. Without a shift, the list has the model itself.

    Parameters
    ----------
    model : fitted classifier
        Model that was fitted to looks, audits or known values.

    Returns
    -------
    list of (float, model)
    """
    pair = model.fitted_pair_
    if not pair.objective.heterogeneity:
        return [(1.0, model)]
    intercepts = [place.stop - 1 for place in pair.objective.places[1 : 1 + len(pair.objective.models)]]
    found = []
    for weight, shift, alone in pair.objective.at_nodes:
        twin, parameters = copy(model), pair.parameters.copy()
        parameters[intercepts] += shift
        twin._pair = replace(pair, objective=alone, parameters=parameters)
        found.append((weight, twin))
    return found


def false_label_probability(model: Any, X: Any, labels: Any) -> Vector:
    """Return the probability that a negative gets a label at any look that took place."""
    looks = looks_of(model)
    rates = np.resize(np.ravel(np.asarray(model.false_positive_rate_, dtype=np.float64)), looks.n_looks)
    return _any_look(X, labels, model, lambda X, look: rates[look])


def _any_look(X: Any, labels: Any, model: Any, probability: Any) -> Vector:
    seen = check_looks(labels, coding=model.label_coding_, name="s").labels >= 0
    p = [
        np.where(seen[:, k], np.minimum(probability(X, look=k), _LARGEST_BELOW_ONE), 0.0)
        for k in range(looks_of(model).n_looks)
    ]
    return at_least_one(np.column_stack(p))


def draw_group_sums(
    model: Any, X: Any, s: Any, audit: Any, codes: Integers, count: Vector, n_draws: int, rng: np.random.Generator
) -> GroupSums | None:
    """Draw the numbers of positives with and without a label in groups of rows; None if the model has no draws.

    Parameters
    ----------
    model : fitted classifier
    X, s, audit
        Rows, labels and audits, as for `draw_posteriors`.
    codes : array of shape (n_rows, n_divisions)
        Number of each row's group, in each division of the rows into groups. Groups are numbered across divisions.
    count : array of shape (n_rows,)
        Weight of each row.
    n_draws : int
        Number of draws.
    rng : numpy generator

    Returns
    -------
    GroupSums or None
        Sums of shape (n_draws, n_groups).
    """
    if not is_pair(model):
        return None
    inference = model.fitted_pair_.inference
    if inference is not None and inference.information is None:  # too many columns for standard errors
        return None
    try:
        return model._draw_group_sums(X, s, audit, codes, count, n_draws, rng)
    except NoRowIntervals:
        return None


def is_pair(model: Any) -> bool:
    """Return whether the class model and the propensity model were fitted together."""
    return getattr(model, "_pair", None) is not None


def group_totals(model: Any, X: Any, s: Any, audit: Any, codes: Integers, count: Vector) -> GroupTotals:
    """Return counts and expected numbers of positives in groups; for the parameters see `draw_group_sums`."""
    return model._group_totals(X, s, audit, codes, count)


def size_of_fit(model: Any) -> tuple[float, float] | None:
    """Return the weight of all rows and of labelled rows of a fit; None if the models were not fitted together."""
    pair = getattr(model, "_pair", None)
    return None if pair is None else (float(pair.weight), float(pair.labelled))


class PredictionErrors(NamedTuple):
    """Draws of the probabilities of new rows, and errors of both probabilities to first order."""

    draws: ProbabilityDraws | None
    errors: tuple[Matrix, Matrix] | None


def draw_predictions(model: Any, X: Any, s: Any, n_draws: int, rng: np.random.Generator) -> PredictionErrors:
    """Draw the class and label probabilities of rows; fields are None if the model has no such uncertainty.

    Parameters
    ----------
    model : fitted classifier
    X : table
        Table that the model can read.
    s : array of shape (n_rows,) or (n_rows, n_looks), or None
        Labels, which a model of several looks needs: they show the looks that took place.
    n_draws : int
        Number of draws.
    rng : numpy generator

    Returns
    -------
    PredictionErrors
    """
    pair = getattr(model, "_pair", None)
    if pair is None:
        return PredictionErrors(None, None)
    rows = model._rows(X) if pair.looks is None or s is None else model._observed(known_rows(X), s, None)
    return PredictionErrors(
        draw_probabilities(pair, rows, n_draws, rng), label_probability_errors(pair, rows, n_draws, rng)
    )
