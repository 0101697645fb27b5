"""What was observed of rows whose class a model of the user's judges: one label each, or looks and audits.

A cross-fit asks the same of both: how likely is what was seen, which class does it make likely, and where should the
class's logit go. Propensities come as logits ``v``, whatever their number.
"""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.special import expit

from scarless.numerics import likelihood
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.looks import LookTerms, detected, look_terms


class Evidence(Protocol):
    """What was observed of each row; all answers are per row."""

    @property
    def s(self) -> Vector:
        """Whether there was any label."""
        ...

    def of(self, rows: Any) -> Self:
        """Return what was observed of some rows."""
        ...

    def first(self, w: Vector) -> tuple[Vector, Vector]:
        """Return targets and weights of a first classifier: unlabelled rows as negatives, both kinds alike in sum."""
        ...

    def value(self, u: Vector, v: Any) -> Vector:
        """Return the log-likelihood."""
        ...

    def posterior(self, u: Vector, v: Any) -> Vector:
        """Return the probability of the positive class, given all that was observed."""
        ...

    def climb(self, u: Vector, v: Any, w: Vector) -> tuple[Vector, Vector]:
        """Return the weighted derivative of the log-likelihood by the class's logit, and complete data's curvature."""
        ...

    def found(self, v: Any) -> Vector:
        """Return the probability that a positive row has a label."""
        ...


class OneLabel(NamedTuple):
    """One label of each row."""

    s: Vector

    def of(self, rows: Any) -> "OneLabel":
        """Return what was observed of some rows."""
        return OneLabel(self.s[rows])

    def first(self, w: Vector) -> tuple[Vector, Vector]:
        """Return targets and weights of a first classifier."""
        return self.s, _balanced(self.s, w)

    def value(self, u: Vector, v: Any) -> Vector:
        """Return the log-likelihood."""
        return likelihood.log_likelihood(u, v, self.s, likelihood.pair_terms(u, v))

    def posterior(self, u: Vector, v: Any) -> Vector:
        """Return the probability of the positive class."""
        return likelihood.posterior(np.asarray(expit(u)), np.asarray(expit(v)), self.s)

    def climb(self, u: Vector, v: Any, w: Vector) -> tuple[Vector, Vector]:
        """Return the derivative by the class's logit, and a curvature."""
        terms = likelihood.pair_terms(u, v)
        du, _ = likelihood.score(self.s, terms)
        return w * du, w * terms.f * terms.not_f

    def found(self, v: Any) -> Vector:
        """Return the propensity."""
        return np.asarray(expit(v))


class Observed(NamedTuple):
    """Labels at looks, and audits. The logits ``v`` have a column for each kind of look, then those of false positives
    where there are any.
    """

    s: Vector
    labels: Matrix  # how many of each kind
    looks: Matrix
    audit: Vector  # 1, 0, and -1 for rows that nobody checked

    def of(self, rows: Any) -> "Observed":
        """Return what was observed of some rows."""
        return Observed(self.s[rows], self.labels[rows], self.looks[rows], self.audit[rows])

    def first(self, w: Vector) -> tuple[Vector, Vector]:
        """Return targets and weights of a first classifier; whose class was checked, its class is known."""
        targets = np.where(self.audit >= 0, self.audit, self.s)
        return targets, _balanced(targets, w)

    def terms(self, u: Vector, v: Any) -> LookTerms:
        """Return what each row says."""
        n_kinds = self.looks.shape[1]
        rates = v[:, n_kinds:] if v.shape[1] > n_kinds else None
        return look_terms(u, v[:, :n_kinds], rates, self.labels, self.looks, self.audit)

    def value(self, u: Vector, v: Any) -> Vector:
        """Return the log-likelihood."""
        return self.terms(u, v).value

    def posterior(self, u: Vector, v: Any) -> Vector:
        """Return the probability of the positive class: 1 or 0 where that was checked."""
        return self.terms(u, v).q

    def climb(self, u: Vector, v: Any, w: Vector) -> tuple[Vector, Vector]:
        """Return the derivative by the class's logit, and a curvature."""
        terms = self.terms(u, v)
        return w * (terms.q * terms.not_f - terms.not_q * terms.f), w * terms.f * terms.not_f

    def found(self, v: Any) -> Vector:
        """Return the probability that a positive row has a label at any of its looks."""
        return detected(self.terms(np.zeros(len(v)), v))[0]


def _balanced(targets: Vector, w: Vector) -> Vector:
    share = float(w @ targets) / float(w.sum())
    return w * np.where(targets == 1, 1.0 - share, share)
