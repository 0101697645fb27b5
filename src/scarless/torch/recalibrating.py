"""Networks recalibrated: scale and level of held-out logits anew, together with what is added to the propensity's.

Held-out rows are those that a network was not trained on; where every row is, for the network of another fold, logits
of all folds stand side by side.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.numerics.linear import Design
from scarless.numerics.uncertainty import Interval
from scarless.pair.logistic import engine_of
from scarless.pair.optima import Climb, choose, climb_all
from scarless.pair.problem import PairProblem
from scarless.pair.recalibrated import Recalibration, grid_interval, recalibrate
from scarless.pair.starts import make_starts

TILT_C = 10.0  # nearly no penalty, but finite where held-out labels are separable
LABELS_PER_COEFFICIENT = 10  # held-out labels that each added coefficient needs
TILT_STARTS = 8  # the paper's, both extremes and scouts: the paper's alone may end in the lower of two optima
# Class priors about which a fit is in doubt: the length of an interval, the distance of two optima that labels cannot
# tell apart, and of a fit from the level that it stands for.
WIDE_INTERVAL, OPTIMA_APART, OFF_ITS_LEVEL = 0.3, 0.1, 0.05
# A propensity below which a positive is hardly ever labelled, and a share of such positives that is told of.
HARDLY_EVER, MANY_HARDLY_EVER = 0.01, 0.1


class HeldOut(NamedTuple):
    """Held-out rows: both networks' logits, what the propensity sees, labels and weights."""

    u: Vector
    v: Vector
    seen: Any
    s: Vector
    w: Vector


class Recalibrated(NamedTuple):
    """How logits of networks become those that are believed; as they are, where there is no recalibration."""

    recalibration: Recalibration | None
    added: Vector  # to the propensity's logit: coefficients of what it sees, then an intercept
    tilt: Vector | None = None  # coefficients of the same attributes for the class, before its logit is recalibrated
    tied: Interval | None = (
        None  # class priors of the optima that labels cannot tell apart, where a tilt was looked for
    )

    def classify(self, u: Vector, seen: Any) -> Vector:
        """Return the class's logits; `seen` is what the propensity sees, and only needed where there is a tilt."""
        if self.recalibration is None:
            return u
        return self.recalibration(u if self.tilt is None else u + np.asarray(seen) @ self.tilt)

    def propensity(self, v: Vector, seen: Any) -> Vector:
        """Return the propensity's logits."""
        if self.recalibration is None:
            return v
        slopes = np.asarray(seen) @ self.added[:-1] if self.added.size > 1 else 0.0
        return np.asarray(v + slopes + self.added[-1])

    def shares(self, held: HeldOut) -> tuple[float, float, float]:
        """Return class prior, label frequency and log-likelihood of held-out rows together."""
        u, v = self.classify(held.u, held.seen), self.propensity(held.v, held.seen)
        f, e = np.asarray(expit(u)), np.asarray(expit(v))
        positives = float(held.w @ f)
        value = float(held.w @ log_likelihood(u, v, held.s, pair_terms(u, v)))
        if self.recalibration is not None:
            return self.recalibration.class_prior, self.recalibration.label_frequency, value
        return positives / float(held.w.sum()), float(held.w @ (f * e)) / positives, value

    def doubts(self, held: HeldOut) -> list[str]:
        """Say what the labels of held-out rows leave open."""
        if self.recalibration is None:
            return []
        few, labels = [], float(held.s.sum())
        if self.added.size > 1 and labels < LABELS_PER_COEFFICIENT * self.added.size:
            few.append(
                f"The propensity's {self.added.size} coefficients rest on {labels:.0f} labels that were held out, less "
                f"than {LABELS_PER_COEFFICIENT} each, and the class prior with them. Let the propensity see less, or "
                "give more rows."
            )
        return [*few, *self._level_doubts(self.recalibration), *self._propensity_doubts(held)]

    def _level_doubts(self, found: Recalibration) -> list[str]:
        found_doubts = found.grid.remarks()
        low, high = grid_interval([found.grid], "class_prior", 0.95)
        if high - low > WIDE_INTERVAL:
            found_doubts.append(
                f"The labels leave the class prior between {low:.2f} and {high:.2f}; {found.class_prior:.2f} is taken. "
                "Give more rows, let the propensity see less, or look up the class of a few rows."
            )
        if self.tied is not None and self.tied.high - self.tied.low > OPTIMA_APART:
            found_doubts.append(
                "Two explanations of the labels cannot be told apart, with class priors of "
                f"{self.tied.low:.2f} and {self.tied.high:.2f}; the one with the lower label frequency is taken."
            )
        if not found.converged or abs(found.class_prior - found.grid.mean) > OFF_ITS_LEVEL:
            found_doubts.append(
                f"The recalibrated step did not settle: it wanted a class prior of {found.grid.mean:.2f} and ended at "
                f"{found.class_prior:.2f}. Let the propensity see less, or compare with recalibrate=False."
            )
        return found_doubts

    def _propensity_doubts(self, held: HeldOut) -> list[str]:
        f, e = expit(self.classify(held.u, held.seen)), expit(self.propensity(held.v, held.seen))
        share = float(held.w @ (f * (e < HARDLY_EVER))) / float(held.w @ f)
        if share <= MANY_HARDLY_EVER:
            return []
        return [
            f"{share:.0%} of the positives that it finds are labelled less than once in {1 / HARDLY_EVER:.0f} times: "
            "no label speaks for them, only the models' form. Look up the class of a few such rows."
        ]


def as_they_are() -> Recalibrated:
    """Return what leaves logits alone."""
    return Recalibrated(None, np.zeros(1))


def recalibrate_networks(held: HeldOut, *, audits: float, linear: bool, swappable: bool, of_x: bool) -> Recalibrated:
    """Estimate scale and level of held-out logits, and what is added to the propensity's logit.

    Of a `linear` propensity the coefficients may change too, and not only its level. They are held near where training
    left them if it is `swappable`, that is, sees all that the classifier sees. `of_x` says that what it sees follows
    from what the classifier sees, whose logit may then be tilted by it.
    """
    seen = held.seen if linear else np.empty((held.s.size, 0))
    n_columns = seen.shape[1]
    columns = Design.of(np.arange(n_columns))
    tilt, tied = _tilt(held) if linear and of_x and not swappable else (None, None)
    u = held.u if tilt is None else held.u + seen @ tilt
    engine = engine_of(seen, s=held.s, w=held.w, u=u, v=held.v)
    hold = np.zeros(n_columns + 1) if linear and swappable else None
    found = recalibrate(PairProblem.of(engine, columns, columns), audits=audits, hold=hold, given=True)
    return Recalibrated(found, found.e, tilt, tied)


def _tilt(held: HeldOut) -> tuple[Vector | None, Interval | None]:
    """Return by how much the class's logit follows each propensity attribute, beyond what the network has of it.

    Where positives are hardly ever labelled a network learns little of them: what it misses depends on what labelling
    depends on, and the propensity would make up for it. So both models see these attributes, beside held-out logits.
    Their likelihood has several optima; of those that labels cannot tell apart the one with the lowest label frequency
    is taken, as everywhere. None where labels are too few to tell, where little of the network would be left, or where
    the likelihood does not gain what so many coefficients must (Schwarz 1978): half the logarithm of the labels each.
    Also the class priors of the optima that cannot be told apart.
    """
    n_columns, labels = held.seen.shape[1], float(held.s.sum())
    if labels < LABELS_PER_COEFFICIENT * (n_columns + 1):
        return None, None
    engine = engine_of(np.column_stack([held.u, held.seen]), s=held.s, w=held.w)
    every, seen = Design.of(np.arange(n_columns + 1)), Design.of(np.arange(1, n_columns + 1))
    problem = PairProblem.of(engine, every, seen, TILT_C, TILT_C)
    kept = [climb for climb in _climbs(problem) if climb.fit.converged and _still_the_network(held, climb.fit.f)]
    least = min(climb.optimum.objective for climb in _climbs(problem.seeing(Design.of(np.arange(1)))))
    if not kept or least - kept[0].optimum.objective < 0.5 * n_columns * np.log(labels):
        return None, None
    chosen = choose(problem, kept)
    f = kept[chosen.index].fit.f
    return f[1:-1] / f[0], chosen.class_priors


def _climbs(problem: PairProblem) -> list[Climb]:
    """Return the optima that several starts lead to, best first."""
    starts = make_starts(problem, TILT_STARTS, np.random.default_rng(0))
    return climb_all(problem, starts, tol=1e-9, max_iter=200)


def _still_the_network(held: HeldOut, f: Vector) -> bool:
    """Whether the network's logit leads the right way, and tells rows further apart than what is added to it.

    Where attributes tell the class by themselves, both models see enough to change places, and the network with them.
    """
    added = held.seen @ f[1:-1]
    return bool(f[0] > 0 and np.cov(f[0] * held.u, aweights=held.w) > np.cov(added, aweights=held.w))
