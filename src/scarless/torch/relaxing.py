"""Networks relaxed: scale and level of held-out logits anew, together with what is added to the propensity's."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.numerics.linear import Design
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.problem import PairProblem
from scarless.pair.relaxed import Relaxation, relax
from scarless.pair.rows import engine_of

_TILT_C = 10.0  # nearly no penalty, but finite where held-out labels are separable
_LABELS_EACH = 10  # held-out labels that each added coefficient needs


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
    tilt: Vector | None = None  # coefficients of the same attributes for the class, before its logit is relaxed

    def classify(self, u: Vector, seen: Any) -> Vector:
        """Return the class's logits; `seen` is what the propensity sees, and only needed where there is a tilt."""
        if self.relaxation is None:
            return u
        return self.relaxation(u if self.tilt is None else u + np.asarray(seen) @ self.tilt)

    def propensity(self, v: Vector, seen: Any) -> Vector:
        """Return the propensity's logits."""
        if self.relaxation is None:
            return v
        slopes = np.asarray(seen) @ self.added[:-1] if self.added.size > 1 else 0.0
        return np.asarray(v + slopes + self.added[-1])

    def shares(self, held: HeldOut) -> tuple[float, float, float]:
        """Return class prior, label frequency and log-likelihood of held-out rows together."""
        u, v = self.classify(held.u, held.seen), self.propensity(held.v, held.seen)
        f, e = np.asarray(expit(u)), np.asarray(expit(v))
        positives = float(held.w @ f)
        value = float(held.w @ log_likelihood(u, v, held.s, pair_terms(u, v)))
        if self.relaxation is not None:
            return self.relaxation.class_prior, self.relaxation.label_frequency, value
        return positives / float(held.w.sum()), float(held.w @ (f * e)) / positives, value


def as_they_are() -> Relaxed:
    """Return what leaves logits alone."""
    return Relaxed(None, np.zeros(1))


def relax_networks(held: HeldOut, *, audits: float, linear: Vector | None, exchangeable: bool, of_x: bool) -> Relaxed:
    """Estimate scale and level of held-out logits, and what is added to the propensity's logit.

    `linear` are the parameters of a logistic propensity: its coefficients may then change too, and not only its level.
    They are held near where training left them if it is `exchangeable`, that is, sees all that the classifier sees.
    `of_x` says that what it sees follows from what the classifier sees, whose logit may then be tilted by it.
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
    tilt = _tilt(held) if of_x else None
    u = held.u if tilt is None else held.u + held.seen @ tilt
    engine = engine_of(held.seen, s=held.s, w=held.w, u=u, v=held.v)
    found = relax(engine, columns, audits=audits)
    return Relaxed(found, found.e, tilt)


def _tilt(held: HeldOut) -> Vector | None:
    """Return by how much the class's logit follows each propensity attribute, beyond what the network has of it.

    Where positives are hardly ever labelled a network learns little of them: what it misses depends on what labelling
    depends on, and the propensity would make up for it. So both models see these attributes, beside held-out logits.
    None where labels are too few to tell, or where logits then lead the wrong way.
    """
    n_columns = held.seen.shape[1]
    if held.s.sum() < _LABELS_EACH * (n_columns + 1):
        return None
    engine = engine_of(np.column_stack([held.u, held.seen]), s=held.s, w=held.w)
    every, seen = Design.of(np.arange(n_columns + 1)), Design.of(np.arange(1, n_columns + 1))
    fit = fit_pair(PairProblem.of(engine, every, seen, _TILT_C, _TILT_C), None, FitOptions(1e-9))
    slope = float(fit.f[0])
    return fit.f[1:-1] / slope if fit.converged and slope > 0 else None
