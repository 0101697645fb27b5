"""What other rooms ask of a fitted model: the problem of its fit again, its remarks, and its shares look by look."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.estimators import innermost
from scarless.checks.looks import check_looks, looks_of
from scarless.checks.rows import check_rows_again, row_totals
from scarless.models.pair import known_inference
from scarless.models.reading import each_rate, fitted_rows
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import at_least_one
from scarless.numerics.uncertainty import Interval
from scarless.pair.constraints import check_known, check_labelling
from scarless.pair.inference import PairInference
from scarless.pair.problem import PairProblem, what_is_seen

_ALMOST_SURE = float(np.nextafter(1.0, 0.0))


def problem_again(model: Any, X: Any, s: Any, *, sample_weight: Any = None, audit: Any = None) -> PairProblem:
    """Return what a model of two logistic models was fitted to, from its rows and all that was observed of them."""
    inference, looks = known_inference(model), model.fitted_pair_.looks
    penalties = inference.C, inference.propensity_C
    if looks is None:
        if audit is not None:
            raise ValueError("audit goes with a model that was fitted with audits; this one was not.")
        engine, _, totals = check_rows_again(model, X, s, sample_weight)
        return PairProblem(engine, totals, inference.objective, *penalties, inference.audits)
    engine, facts = fitted_rows(model, X, s, sample_weight, audit, looks)
    seen = what_is_seen(engine, inference.objective)
    return PairProblem(engine, row_totals(engine), inference.objective, *penalties, None, facts, seen)


def remarks_of(model: Any) -> list[str]:
    """Return what a fit of two logistic models has to say beside its numbers."""
    return list(model._remarks())


class LooksSummary(NamedTuple):
    """Shares of a fit, with intervals where it knows them."""

    names: tuple[str, ...]  # of looks
    n_audited: int
    plain: bool  # whether a label means what it does with one label of each row
    alike: bool  # whether one propensity holds for all looks
    frequencies: tuple[tuple[float, Interval | None], ...]  # share of positives that each look labels
    rates: tuple[tuple[float, Interval | None], ...]  # share of negatives; one, or one for each look
    rate_is: str  # "none", "given", "estimated", or "estimated in part": where there is an interval
    claims: tuple[Any, ...]  # what is known from elsewhere
    told: tuple[str, ...]  # what the fit warned of


def looks_summary(model: Any, level: float = 0.95) -> LooksSummary | None:
    """Return what a fitted model knows of its looks; None where it was fitted to one label of each row.

    Parameters
    ----------
    model : fitted classifier, TableClassifier or pipeline
    level : float, default=0.95
        Nominal probability that intervals cover.

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
    open_ones = [isinstance(rate, str) for rate in each]
    estimated = any(open_ones)
    return LooksSummary(
        names=tuple(map(str, looks.names)),
        n_audited=int(looks.n_audited),
        plain=bool(looks.plain),
        alike=int(looks.objective.n_kinds) == 1,
        frequencies=tuple(_frequency(inner, looks, known, k, level) for k in range(looks.n_looks)),
        rates=_rates(inner, looks, known=estimated and known is not None, level=level),
        rate_is="estimated in part" if estimated and not all(open_ones) else _rate_is(estimated, each),
        claims=check_known(inner.known).shares,
        told=tuple(getattr(inner, "_told", ())),
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


def _rate_is(estimated: bool, rates: list[Any]) -> str:
    return "estimated" if estimated else "given" if np.any(rates) else "none"


def any_label(model: Any, X: Any, labels: Any) -> Vector:
    r"""Return the probability that a positive gets a label at any of the looks that took place.

    .. math:: 1 - \prod_k (1 - e_k)

    Parameters
    ----------
    model : fitted classifier
        That was fitted to looks, audits or facts.
    X : table
        As the model sees it.
    labels : array of shape (n_rows,) or (n_rows, n_looks)
        Which looks took place: what they found is of no matter.

    Returns
    -------
    array of shape (n_rows,)
        0 where nobody looked.
    """
    return _any_look(X, labels, model, model.predict_propensity)


def any_false_label(model: Any, X: Any, labels: Any) -> Vector:
    """Return the probability that a negative gets a label at any of the looks that took place."""
    looks = looks_of(model)
    rates = np.resize(np.ravel(np.asarray(model.false_positive_rate_, dtype=np.float64)), looks.n_looks)
    return _any_look(X, labels, model, lambda X, look: rates[look])


def _any_look(X: Any, labels: Any, model: Any, probability: Any) -> Vector:
    seen = check_looks(labels, coding=model.label_coding_, name="s").labels >= 0
    p = [
        np.where(seen[:, k], np.minimum(probability(X, look=k), _ALMOST_SURE), 0.0)
        for k in range(looks_of(model).n_looks)
    ]
    return at_least_one(np.column_stack(p))
