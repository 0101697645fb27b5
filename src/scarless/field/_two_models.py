"""What LBE and TM share: a class model and a propensity model that are fitted in turn, and their stored results."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.estimators import seeded_clone
from scarless.checks.options import check_at_least_zero, check_positive, check_whole
from scarless.models.messages import warn_unless_converged
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood_of_probabilities
from scarless.outside.notices import warn_user
from scarless.pair.learners import Learner, LogisticLearner, as_learner, check_weighted_classifier
from scarless.pair.logistic import Training
from scarless.pair.solving import one_thread_if_narrow

Probabilities = tuple[Vector, Vector]  # class probability and propensity of each training row


class Alternation(NamedTuple):
    """Result of fitting two models in turn, without the models, which are stored in their learners."""

    f: Vector  # class probability of each training row
    e: Vector  # propensity of each training row
    converged: bool
    log_likelihood: list[float]  # of the observed labels: at the start, and after each iteration
    change: float  # largest change of a class probability or propensity in the last iteration

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.log_likelihood) - 1


def largest_change(before: Probabilities, after: Probabilities, w: Vector) -> float:
    """Return the largest absolute change of a class probability or propensity among rows of positive weight.

    Examples
    --------
    >>> f, e = np.array([0.2, 0.9]), np.array([0.5, 0.5])
    >>> round(largest_change((f, e), (f + 0.01, e - 0.03), np.ones(2)), 6)
    0.03
    """
    counted = w > 0
    return float(max(np.abs(new - old)[counted].max() for old, new in zip(before, after, strict=True)))


def total_log_likelihood(f: Vector, e: Vector, s: Vector, w: Vector) -> float:
    """Return the log-likelihood of the observed labels, summed over rows of positive weight."""
    counted = w > 0
    return float(w[counted] @ log_likelihood_of_probabilities(f, e, s)[counted])


def check_alternation(model: Any, *, least: int) -> None:
    """Check the parameters that both methods share; `least` is the smallest number of iterations."""
    check_whole(model.n_iter, "n_iter", at_least=least)
    check_at_least_zero(model.change_tol, "change_tol")
    check_positive(model.propensity_C, "propensity_C")
    for name in ("estimator", "propensity_estimator"):
        if getattr(model, name) is not None:
            check_weighted_classifier(getattr(model, name), name)


def seeded_learner(model: Any, prefix: str, rng: np.random.Generator, *, plain_labels: bool = False) -> Learner:
    """Return the learner for the class model (prefix "") or the propensity model (prefix "propensity_") of a method.

    Missing seeds of an estimator are drawn from `rng`. None means the logistic model.
    """
    name, C = f"{prefix}estimator", getattr(model, f"{prefix}C")
    estimator = getattr(model, name)
    seeded = None if estimator is None else seeded_clone(estimator, rng)
    return as_learner(seeded, name=name, C=C, plain_labels=plain_labels)


def alternate(
    training: Training,
    learners: tuple[Learner, Learner],
    start: Probabilities,
    step: Callable[[Vector, Vector], Probabilities],
    *,
    n_iter: int,
    tol: float,
) -> Alternation:
    """Repeat a step, which fits both models once, until it changes no probability by more than `tol`."""
    X, s, w = training
    now, history, change = start, [total_log_likelihood(*start, s, w)], np.inf
    logistic = all(isinstance(learner, LogisticLearner) for learner in learners)
    with one_thread_if_narrow(X.shape[1] + 1) if logistic else nullcontext():  # once for all fits
        while len(history) <= n_iter and change > tol:
            before, now = now, step(*now)
            history.append(total_log_likelihood(*now, s, w))
            change = largest_change(before, now, w)
    return Alternation(*now, change <= tol, history, change)


def warn_if_stopped(model: Any, found: Alternation, *, meaning: str) -> None:
    """Warn in plain words if the iterations ended before the probabilities settled."""
    if found.converged:
        return
    warn_user(
        f"{type(model).__name__} stopped, not converged: after n_iter={found.n_iter} iterations, the last of them "
        f"changed a class probability or propensity by {found.change:.1g} (change_tol is {model.change_tol:.1g}). "
        f"{meaning}",
        ConvergenceWarning,
    )


def store_alternation(model: Any, found: Alternation, learners: tuple[Learner, Learner], training: Training) -> None:
    """Store the fitted models and the results of a fit; ``cut_``, which marks a fitted model, comes last."""
    _, s, w = training
    total = float(w.sum())
    for learner, prefix in zip(learners, ("", "propensity_"), strict=True):
        if not isinstance(learner, LogisticLearner):
            if learner.model is not None:
                setattr(model, f"{prefix}estimator_", learner.model)
            continue
        assert learner.beta is not None
        setattr(model, f"{prefix}coef_", learner.beta[None, :-1].copy())
        setattr(model, f"{prefix}intercept_", learner.beta[-1:].copy())
        if learner.solution is not None:
            warn_unless_converged(learner.solution, type(model).__name__, total_weight=total, tol=learner.tol)
    model.n_iter_, model.converged_ = found.n_iter, found.converged
    model.history_ = {"log_likelihood": np.array(found.log_likelihood)}
    model.log_likelihood_ = total_log_likelihood(found.f, found.e, s, w)
    model.class_prior_ = float(w @ found.f) / total
    model.label_frequency_ = float(w @ (found.f * found.e)) / float(w @ found.f)
    model.cut_ = 0.5
