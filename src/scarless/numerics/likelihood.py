r"""The likelihood of labels if positive rows are labelled with probability `e`, and negative rows never.

With logits ``u`` of :math:`f = \Pr(y=1|x)` and ``v`` of :math:`e = \Pr(s=1|y=1,x)`,

.. math:: s \sim \mathrm{Bernoulli}(f e), \qquad
    \ell = s(\log f + \log e) + (1-s)\log(1 - f e).

All functions work row by row in float64. They use the posterior :math:`q = \Pr(y=1 | s=0, x) = f(1-e)/(1-fe)`. First
derivatives and expected information are products of probabilities and their complements, all computed without
subtraction. Their relative error is about 1e-13 for any finite logit. The observed information can change sign, so only
its absolute error is that small.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from scarless.numerics.arrays import Matrix, Vector, at_least, at_most, namespace_of

# Probabilities of labels below this value have lost digits to underflow, and logits are used instead.
_MIN_PROBABILITY = 1e-290


class PairTerms(NamedTuple):
    """Probabilities of each row under both models, with their complements."""

    f: Vector
    not_f: Vector
    e: Vector
    not_e: Vector
    q: Vector  # Pr(y=1 | s=0, x)
    not_q: Vector
    unlabelled: Vector  # Pr(s=0 | x) = 1 - f e; may underflow to 0 for very large logits


def pair_terms(u: Vector, v: Vector) -> PairTerms:
    r"""Return :math:`f, e` and the posterior :math:`q` of an unlabelled row from the two logits.

    ``v`` may be ``+inf`` (a propensity of exactly 1); ``u`` must be finite.

    Examples
    --------
    >>> terms = pair_terms(np.array([0.0]), np.array([0.0]))
    >>> terms.q  # f = e = 1/2: (1/4) / (3/4)
    array([0.33333333])
    """
    xp = namespace_of(u)
    f, not_f = sigmoid_pair(u)
    e, not_e = sigmoid_pair(v)
    unlabelled = at_most(not_f + f * not_e, 1.0)  # Rounding can leave the sum slightly above 1.
    underflow = unlabelled < _MIN_PROBABILITY
    if xp is np and not underflow.any():
        q, not_q = f * not_e / unlabelled, not_f / unlabelled
    else:
        safe = xp.where(underflow, 1.0, unlabelled)
        q, not_q = _posterior_from_logits(u, v, underflow, (f * not_e / safe, not_f / safe))
    return PairTerms(f, not_f, e, not_e, q, not_q, unlabelled)


def _posterior_from_logits(
    u: Vector, v: Vector, underflow: Any, direct: tuple[Vector, Vector]
) -> tuple[Vector, Vector]:
    """Return ``q`` and ``1 - q``; for rows with `underflow` from the log-odds ``u + log(1 - e)``."""
    q, not_q = direct
    xp = namespace_of(u)
    if xp is not np:
        by_odds = sigmoid_pair(u - softplus(v))
        return xp.where(underflow, by_odds[0], q), xp.where(underflow, by_odds[1], not_q)
    log_odds = u[underflow] - softplus(v[underflow])
    q[underflow], not_q[underflow] = expit(log_odds), expit(-log_odds)
    return q, not_q


def log_likelihood(u: Vector, v: Vector, s: Vector, terms: PairTerms) -> Vector:
    r"""Return :math:`s(\log f + \log e) + (1-s)\log(1-fe)` per row; ``s`` is 0 or 1.

    Let `p` be the probability of the other label: ``f e`` for an unlabelled row, ``(1-f) + f(1-e)`` for a labelled one.
    If ``p < 1/2``, the result is ``log1p(-p)``. Otherwise it is the logarithm of the probability of the row's own
    label. If this probability underflows, the result is computed from the logits.

    Examples
    --------
    >>> u, v = np.array([40.0, 700.0]), np.array([-40.0, 700.0])
    >>> log_likelihood(u, v, np.zeros(2), pair_terms(u, v))
    array([-4.24835426e-18, -6.99306853e+02])
    """
    if namespace_of(u) is not np:
        return _log_likelihood_of_any_array(u, v, s, terms)
    labelled, product = s == 1, terms.f * terms.e
    other = np.where(labelled, terms.unlabelled, product)  # probability of the other label
    value = np.log1p(-np.minimum(other, 0.5))
    large = np.flatnonzero(other >= 0.5)
    own = np.where(labelled[large], product[large], terms.unlabelled[large])
    value[large] = np.log(np.maximum(own, _MIN_PROBABILITY))
    underflow = large[own < _MIN_PROBABILITY]
    if underflow.size:
        value[underflow] = _log_likelihood_from_logits(u[underflow], v[underflow], s[underflow])
    return value


def _log_likelihood_from_logits(u: Vector, v: Vector, s: Vector) -> Vector:
    """Return `log_likelihood` for probabilities that underflow."""
    return np.where(s == 1, log_expit(u) + log_expit(v), np.logaddexp(-softplus(u), -softplus(-u) - softplus(v)))


def _log_likelihood_of_any_array(u: Any, v: Any, s: Any, terms: PairTerms) -> Any:
    """Return `log_likelihood` for arrays without assignment by mask: every case is computed for all rows."""
    xp = namespace_of(u)
    product = terms.f * terms.e
    small = xp.log1p(-at_most(product, 0.5))
    large = xp.log(at_least(terms.unlabelled, _MIN_PROBABILITY))
    by_logits = xp.logaddexp(-softplus(u), -softplus(-u) - softplus(v))
    underflow = terms.unlabelled < _MIN_PROBABILITY
    unlabelled = xp.where(product < 0.5, small, xp.where(underflow, by_logits, large))
    return xp.where(s == 0, unlabelled, -softplus(-u) - softplus(-v))


def score(s: Vector, terms: PairTerms) -> tuple[Vector, Vector]:
    r"""Return :math:`\partial\ell/\partial u` and :math:`\partial\ell/\partial v` per row.

    Labelled: :math:`1-f` and :math:`1-e`. Unlabelled: :math:`-(1-q) f e` and :math:`-q e`.

    Examples
    --------
    >>> score(np.array([1.0, 0.0]), pair_terms(np.zeros(2), np.zeros(2)))
    (array([ 0.5       , -0.16666667]), array([ 0.5       , -0.16666667]))
    """
    xp = namespace_of(s)
    du = xp.where(s == 1, terms.not_f, -terms.not_q * terms.f * terms.e)
    dv = xp.where(s == 1, terms.not_e, -terms.q * terms.e)
    return du, dv


def fisher_roots(terms: PairTerms) -> tuple[Vector, Vector]:
    r"""Return ``a, b`` such that the expected information of a row is ``[a, b]' [a, b]``.

    :math:`a^2 = fe(1-f)(1-q)` and :math:`b^2 = e(1-e)q`. A row has one binary observation, so its information has rank
    one and is never indefinite. The square roots are taken before the factors are multiplied, because ``a^2`` can
    underflow even if ``a b`` does not.

    Examples
    --------
    >>> fisher_roots(pair_terms(np.zeros(1), np.zeros(1)))
    (array([0.28867513]), array([0.28867513]))
    """
    xp = namespace_of(terms.f)
    a = xp.sqrt(terms.not_f) * xp.sqrt(terms.f * terms.e * terms.not_q)
    b = xp.sqrt(terms.not_e) * xp.sqrt(terms.e * terms.q)
    return a, b


def observed_information(s: Vector, terms: PairTerms) -> tuple[Vector, Vector, Vector]:
    r"""Return minus the second derivatives of :math:`\ell`: ``uu``, ``uv``, ``vv`` per row.

    Labelled rows: :math:`f(1-f)`, 0, :math:`e(1-e)`. Unlabelled rows: complete minus missing information,
    :math:`f(1-f) - q(1-q)`, :math:`e q(1-q)` and :math:`q e (1-e) - q(1-q) e^2`, rearranged to avoid cancellation. The
    matrix can be indefinite.

    Examples
    --------
    >>> observed_information(np.array([0.0]), pair_terms(np.zeros(1), np.zeros(1)))
    (array([0.02777778]), array([0.11111111]), array([0.02777778]))
    """
    f, not_f, e, not_e, q, not_q, _ = terms
    xp = namespace_of(s)
    labelled = s == 1
    uu = xp.where(labelled, f * not_f, not_q * f * e * (not_f - q))
    uv = xp.where(labelled, 0.0, e * q * not_q)
    vv = xp.where(labelled, e * not_e, q * e * (not_e - not_q * e))
    return uu, uv, vv


def posterior(f: Vector, e: Vector, s: Vector) -> Vector:
    r"""Return the posterior :math:`\Pr(y=1|x,s) = s + (1-s)\,f(1-e)/(1-fe)` from probabilities (the E-step of EM).

    An unlabelled row with ``f = e = 1`` is impossible under the models. Its posterior is 1, as it is for ``f = 1`` and
    every ``e < 1``.

    Examples
    --------
    >>> posterior(np.array([0.5, 0.5, 1.0]), np.array([0.5, 0.5, 1.0]), np.array([1.0, 0.0, 0.0]))
    array([1.        , 0.33333333, 1.        ])
    """
    missed = f * (1.0 - e)
    unlabelled = (1.0 - f) + missed
    xp = namespace_of(f)
    possible = unlabelled > 0
    q = xp.where(possible, missed / xp.where(possible, unlabelled, 1.0), 1.0)
    return xp.where(s == 1, 1.0, q)


def posterior_known(f: Vector, e: Vector, s: Vector) -> Vector:
    """Return the posterior for known propensities: if ``e = 1``, an unlabelled row is certainly negative.

    Examples
    --------
    >>> posterior_known(np.array([1.0, 0.5]), np.array([1.0, 0.5]), np.zeros(2))
    array([0.        , 0.33333333])
    """
    return namespace_of(e).where(e == 1, s, posterior(f, e, s))


def log_likelihood_of_probabilities(f: Vector, e: Vector, s: Vector) -> Vector:
    r"""Return :math:`\ell` per row from probabilities; ``-inf`` for rows that are impossible under the models.

    Examples
    --------
    >>> log_likelihood_of_probabilities(np.array([0.5, 0.0]), np.array([0.5, 1.0]), np.array([0.0, 1.0]))
    array([-0.28768207,        -inf])
    """
    xp = namespace_of(f)
    with np.errstate(divide="ignore"):
        labelled = xp.log(f) + xp.log(e)
        unlabelled = xp.where(f * e < 0.5, xp.log1p(-f * e), xp.log((1.0 - f) + f * (1.0 - e)))
    return xp.where(s == 1, labelled, unlabelled)


def sigmoid_pair(z: Vector) -> tuple[Vector, Vector]:
    r"""Return :math:`\sigma(z)` and :math:`1 - \sigma(z)`, both to full relative precision.

    Neither is computed as ``1 - p``, which would lose digits.

    Examples
    --------
    >>> import numpy as np
    >>> p, not_p = sigmoid_pair(np.array([0.0, 40.0]))
    >>> p, not_p
    (array([0.5, 1. ]), array([5.00000000e-01, 4.24835426e-18]))
    """
    xp = namespace_of(z)
    t = xp.exp(-xp.abs(z))
    larger = 1.0 / (1.0 + t)
    smaller = t * larger
    above = z >= 0
    return xp.where(above, larger, smaller), xp.where(above, smaller, larger)


class LogisticTerms(NamedTuple):
    """Values of the logistic function, their complements, and the logarithms of both."""

    p: Vector
    not_p: Vector
    log_p: Vector
    log_not_p: Vector


def logistic_terms(z: Vector) -> LogisticTerms:
    r"""Return :math:`\sigma(z)`, :math:`1 - \sigma(z)` and their logarithms, each to full relative precision.

    `z` must be finite.

    Examples
    --------
    >>> import numpy as np
    >>> logistic_terms(np.array([-700.0])).log_not_p
    array([-9.85967654e-305])
    """
    xp = namespace_of(z)
    below = at_most(z, 0.0)
    beyond = below - z  # = -max(z, 0)
    a, b = xp.exp(below), xp.exp(beyond)
    t = a * b
    larger, tail = 1.0 / (1.0 + t), xp.log1p(t)
    return LogisticTerms(a * larger, b * larger, below - tail, beyond - tail)


def sigmoid(z: Vector) -> Vector:
    r"""Return :math:`\sigma(z)`; NumPy arrays use SciPy's `expit`, which is faster.

    Examples
    --------
    >>> import numpy as np
    >>> sigmoid(np.array([0.0, 40.0]))
    array([0.5, 1. ])
    """
    return np.asarray(expit(z)) if namespace_of(z) is np else sigmoid_pair(z)[0]


def softplus(z: Vector) -> Vector:
    r"""Return :math:`\log(1 + e^z)`, finite for every finite `z`.

    Examples
    --------
    >>> import numpy as np
    >>> softplus(np.array([-700.0, 0.0, 700.0]))
    array([9.85967654e-305, 6.93147181e-001, 7.00000000e+002])
    """
    xp = namespace_of(z)
    return at_least(z, 0.0) + xp.log1p(xp.exp(-xp.abs(z)))


def at_least_one(p: Matrix) -> Vector:
    r"""Return :math:`1 - \prod_k (1 - p_k)` over the columns: the probability of at least one of independent events.

    It is computed by logarithms, which keep the digits of small probabilities. Set the probability of an impossible
    event to 0, for example a label at a look that did not take place.

    Examples
    --------
    >>> import numpy as np
    >>> at_least_one(np.array([[0.5, 0.5], [1e-20, 0.0], [1.0, 0.3]]))
    array([7.5e-01, 1.0e-20, 1.0e+00])
    """
    with np.errstate(divide="ignore"):  # log(0) = -inf is correct for an event of probability 1.
        return np.asarray(0.0 - np.expm1(np.log1p(-p).sum(axis=1)))
