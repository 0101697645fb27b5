"""Recalibration of networks by held-out logits: slope and shift of the class logit, coefficients of the propensity.

Held-out rows are rows that a network was not trained on. With several folds, the held-out logits of all folds are
concatenated.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.numerics.linear import Design
from scarless.numerics.uncertainty import Interval
from scarless.pair.logistic import engine_of
from scarless.pair.optima import OptimumFit, choose, fit_from_starts
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import Recalibration, grid_interval, recalibrate
from scarless.pair.starts import make_starts

# A tilt is a linear function of the inputs of the propensity that is added to the class logit; see `_tilt`. TILT_C is
# the inverse regularisation strength of the fit that estimates the tilt. The penalty is small, and keeps the optimum
# finite if the held-out labels are separable.
TILT_C = 10.0
MIN_LABELS_PER_COEFFICIENT = 10  # fewest held-out labels for each coefficient
# Several starts, because the starting values of Bekker et al. (2019) may lead to the worse of two optima.
N_TILT_STARTS = 8
# Differences of class priors that cause a warning: the length of the interval; the distance of two optima that the
# labels cannot distinguish; the distance of the fit from the mean of the grid.
WIDE_INTERVAL, OPTIMA_GAP, GRID_MEAN_GAP = 0.3, 0.1, 0.05
# Propensity below which a positive is hardly ever labelled, and the share of such positives that causes a warning.
LOW_PROPENSITY, MAX_LOW_PROPENSITY_SHARE = 0.01, 0.1


class HeldOutLogits(NamedTuple):
    """Logits of both networks for held-out rows, with inputs of the propensity, labels and weights."""

    u: Vector
    v: Vector
    seen: Any  # inputs of the propensity
    s: Vector
    w: Vector


class Recalibrated(NamedTuple):
    """Recalibration of the logits of two networks. If `recalibration` is None, the logits are not changed."""

    recalibration: Recalibration | None
    added: Vector  # coefficients of the inputs of the propensity and an intercept, added to the propensity logit
    tilt: Vector | None = None  # coefficients of the same inputs, added to the logit of the class before recalibration
    tied: Interval | None = None  # class priors of the optima that the labels cannot distinguish; None without a tilt

    def classify(self, u: Vector, seen: Any) -> Vector:
        """Return the logits of the class; `seen` are the inputs of the propensity, needed only if there is a tilt."""
        if self.recalibration is None:
            return u
        return self.recalibration(u if self.tilt is None else u + np.asarray(seen) @ self.tilt)

    def propensity(self, v: Vector, seen: Any) -> Vector:
        """Return the logits of the propensity."""
        if self.recalibration is None:
            return v
        slopes = np.asarray(seen) @ self.added[:-1] if self.added.size > 1 else 0.0
        return np.asarray(v + slopes + self.added[-1])

    def shares(self, held: HeldOutLogits) -> tuple[float, float, float]:
        """Return class prior, label frequency and total log-likelihood of held-out rows."""
        u, v = self.classify(held.u, held.seen), self.propensity(held.v, held.seen)
        f, e = np.asarray(expit(u)), np.asarray(expit(v))
        positives = float(held.w @ f)
        value = float(held.w @ log_likelihood(u, v, held.s, pair_terms(u, v)))
        if self.recalibration is not None:
            return self.recalibration.class_prior, self.recalibration.label_frequency, value
        return positives / float(held.w.sum()), float(held.w @ (f * e)) / positives, value

    def doubts(self, held: HeldOutLogits) -> list[str]:
        """Return warnings about quantities that the held-out labels do not determine."""
        if self.recalibration is None:
            return []
        few, labels = [], float(held.s.sum())
        if self.added.size > 1 and labels < MIN_LABELS_PER_COEFFICIENT * self.added.size:
            few.append(
                f"The propensity has {self.added.size} coefficients, on which the class prior depends, but only "
                f"{labels:.0f} held-out rows are labelled, fewer than {MIN_LABELS_PER_COEFFICIENT} for each "
                "coefficient. Use fewer propensity attributes, or more rows."
            )
        return [*few, *self._prior_doubts(self.recalibration), *self._propensity_doubts(held)]

    def _prior_doubts(self, found: Recalibration) -> list[str]:
        doubts = found.grid.remarks()
        low, high = grid_interval([found.grid], "class_prior", 0.95)
        if high - low > WIDE_INTERVAL:
            doubts.append(
                f"The labels allow class priors between {low:.2f} and {high:.2f}; the estimate is "
                f"{found.class_prior:.2f}. Use more rows, fewer propensity attributes, or audit a few rows."
            )
        if self.tied is not None and self.tied.high - self.tied.low > OPTIMA_GAP:
            doubts.append(
                "The labels cannot distinguish between optima with class priors from "
                f"{self.tied.low:.2f} to {self.tied.high:.2f}. The optimum with the lowest label frequency was chosen. "
                "Audit a few rows to decide between the optima."
            )
        if not found.converged or abs(found.class_prior - found.grid.mean) > GRID_MEAN_GAP:
            doubts.append(
                f"The recalibration did not converge: its target was a class prior of {found.grid.mean:.2f}, and it "
                f"ended at {found.class_prior:.2f}. Use fewer propensity attributes, or compare with recalibrate=False."
            )
        return doubts

    def _propensity_doubts(self, held: HeldOutLogits) -> list[str]:
        f, e = expit(self.classify(held.u, held.seen)), expit(self.propensity(held.v, held.seen))
        share = float(held.w @ (f * (e < LOW_PROPENSITY))) / float(held.w @ f)
        if share <= MAX_LOW_PROPENSITY_SHARE:
            return []
        return [
            f"{share:.0%} of the estimated positives have a propensity below {LOW_PROPENSITY:.0%}. The labels "
            "say little about these rows; their estimates depend on the functional form. Audit a few such rows."
        ]


def not_recalibrated() -> Recalibrated:
    """Return a `Recalibrated` that does not change logits."""
    return Recalibrated(None, np.zeros(1))


def recalibrate_networks(
    held: HeldOutLogits, *, pseudo_weight: float, linear: bool, swappable: bool, of_x: bool
) -> Recalibrated:
    """Estimate slope and shift of the held-out class logits, and coefficients that are added to the propensity logit.

    Parameters
    ----------
    held : HeldOutLogits
        Held-out rows.
    pseudo_weight : float
        Number of pseudo-observations.
    linear : bool
        Whether the propensity is a logistic model. All its coefficients are then estimated, and not only the intercept.
    swappable : bool
        Whether the propensity depends on all columns of X. Its coefficients are then kept near their values after
        training, because the two models could be swapped.
    of_x : bool
        Whether the inputs of the propensity are a function of X. They may then be added to the logit of the class.
    """
    seen = held.seen if linear else np.empty((held.s.size, 0))
    n_columns = seen.shape[1]
    columns = Design.of(np.arange(n_columns))
    tilt, tied = _tilt(held) if linear and of_x and not swappable else (None, None)
    u = held.u if tilt is None else held.u + seen @ tilt
    engine = engine_of(seen, s=held.s, w=held.w, u=u, v=held.v)
    hold = np.zeros(n_columns + 1) if linear and swappable else None
    found = recalibrate(PairProblem.of(engine, columns, columns), pseudo_weight=pseudo_weight, hold=hold, given=True)
    return Recalibrated(found, found.e, tilt, tied)


def _tilt(held: HeldOutLogits) -> tuple[Vector | None, Interval | None]:
    """Return the tilt of the class logit, and the range of class priors of the tied optima.

    The tilt is an array of coefficients. The inputs of the propensity are multiplied by them and added to the class
    logit.

    A network learns little about positives that are hardly ever labelled. Its error then depends on the propensity
    attributes, and the propensity would compensate for this error. We therefore fit a pair of logistic models to these
    attributes; the class model also uses the held-out class logit. The likelihood has several optima. If the labels
    cannot distinguish some of them, the optimum with the lowest label frequency is chosen, as elsewhere in this
    package.

    Both results are None in these cases:

    - There are fewer than `MIN_LABELS_PER_COEFFICIENT` labels for each coefficient.
    - No fit converges to a positive slope of the network's logit and to added terms that vary less than this logit.
    - The added terms increase the penalised log-likelihood by less than ``0.5 * k * log(number of labels)``, where k is
      the number of coefficients (Schwarz 1978).
    """
    n_columns, labels = held.seen.shape[1], float(held.s.sum())
    if labels < MIN_LABELS_PER_COEFFICIENT * (n_columns + 1):
        return None, None
    engine = engine_of(np.column_stack([held.u, held.seen]), s=held.s, w=held.w)
    every, seen = Design.of(np.arange(n_columns + 1)), Design.of(np.arange(1, n_columns + 1))
    problem = PairProblem.of(engine, every, seen, TILT_C, TILT_C)
    kept = [fit for fit in _fits(problem) if fit.fit.converged and _network_dominates(held, fit.fit.f)]
    least = min(fit.optimum.objective for fit in _fits(problem.with_class_design(Design.of(np.arange(1)))))
    if not kept or least - kept[0].optimum.objective < 0.5 * n_columns * np.log(labels):
        return None, None
    chosen = choose(problem, kept)
    f = kept[chosen.index].fit.f
    return f[1:-1] / f[0], chosen.class_priors


def _fits(problem: PairProblem) -> list[OptimumFit]:
    """Return the optima found from several starts, best first."""
    starts = make_starts(problem, N_TILT_STARTS, np.random.default_rng(0))
    return fit_from_starts(problem, starts, tol=1e-9, max_iter=200)


def _network_dominates(held: HeldOutLogits, f: Vector) -> bool:
    """Return whether the network's logit has a positive slope, and more variance than the added terms.

    Otherwise the fitted class model would consist mostly of the propensity attributes, and could be the propensity
    model (a swap).
    """
    added = held.seen @ f[1:-1]
    return bool(f[0] > 0 and np.cov(f[0] * held.u, aweights=held.w) > np.cov(added, aweights=held.w))
