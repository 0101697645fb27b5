"""Networks relaxed: scale and level of held-out logits anew, together with what is added to the propensity's."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.numerics.linear import Design
from scarless.pair.relaxed import Relaxation, relax
from scarless.pair.rows import engine_of


class HeldOut(NamedTuple):
    """Held-out rows: both networks' logits, what the propensity sees, labels and weights."""

    u: Vector
    v: Vector
    seen: Any
    s: Vector
    w: Vector


class Relaxed(NamedTuple):
    """How logits of networks become those that are believed; as they are, where there is no relaxation."""

    relaxation: Relaxation | None
    added: Vector  # to the propensity's logit: coefficients of what it sees, then an intercept

    def classify(self, u: Vector) -> Vector:
        """Return the class's logits."""
        return u if self.relaxation is None else self.relaxation(u)

    def propensity(self, v: Vector, seen: Any) -> Vector:
        """Return the propensity's logits."""
        if self.relaxation is None:
            return v
        slopes = np.asarray(seen) @ self.added[:-1] if self.added.size > 1 else 0.0
        return np.asarray(v + slopes + self.added[-1])

    def shares(self, held: HeldOut) -> tuple[float, float, float]:
        """Return class prior, label frequency and log-likelihood of held-out rows together."""
        u, v = self.classify(held.u), self.propensity(held.v, held.seen)
        f, e = np.asarray(expit(u)), np.asarray(expit(v))
        positives = float(held.w @ f)
        value = float(held.w @ log_likelihood(u, v, held.s, pair_terms(u, v)))
        if self.relaxation is not None:
            return self.relaxation.class_prior, self.relaxation.label_frequency, value
        return positives / float(held.w.sum()), float(held.w @ (f * e)) / positives, value


def as_they_are() -> Relaxed:
    """Return what leaves logits alone."""
    return Relaxed(None, np.zeros(1))


def relax_networks(held: HeldOut, *, audits: float, linear: Vector | None, exchangeable: bool) -> Relaxed:
    """Estimate scale and level of held-out logits, and what is added to the propensity's logit.

    `linear` are the parameters of a logistic propensity: its coefficients may then change too, and not only its level.
    They are held near where training left them if it is `exchangeable`, that is, sees all that the classifier sees.
    """
    if linear is None:
        nothing = np.empty((held.s.size, 0))
        engine = engine_of(nothing, s=held.s, w=held.w, u=held.u, v=held.v)
        found = relax(engine, Design.of(np.arange(0)), audits=audits)
        return Relaxed(found, found.e)
    columns = Design.of(np.arange(linear.size - 1))
    if exchangeable:
        engine = engine_of(held.seen, s=held.s, w=held.w, u=held.u)
        found = relax(engine, columns, audits=audits, hold=linear)
        return Relaxed(found, found.e - linear)
    engine = engine_of(held.seen, s=held.s, w=held.w, u=held.u, v=held.v)
    found = relax(engine, columns, audits=audits)
    return Relaxed(found, found.e)
