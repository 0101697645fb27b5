"""What diagnostics ask of a fitted pair: its problem again, and what it has to say beside its numbers."""

from typing import Any

from scarless.checks.rows import check_rows_again, row_totals
from scarless.models.pair import known_inference
from scarless.models.reading import fitted_rows
from scarless.pair.problem import PairProblem, what_is_seen


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
