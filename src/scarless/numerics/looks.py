r"""The likelihood of a row that was looked at several times, or whose class was checked.

With the logit ``u`` of :math:`f = \Pr(y=1|x)`, ``v_j`` of the propensities :math:`e_j`, and ``g_j`` of the rates
:math:`h_j` at which negatives are labelled, a row with :math:`m_j` looks of kind `j`, :math:`t_j` of them with a label,
has

.. math:: A = \prod_j e_j^{t_j}(1-e_j)^{m_j-t_j}, \quad B = \prod_j h_j^{t_j}(1-h_j)^{m_j-t_j}, \quad
    L = f A + (1-f) B.

A look that did not take place is in no product. A row whose class was checked has :math:`fA` or :math:`(1-f)B`. Without
false positives `B` is 1 for rows without any label, and 0 for the others. Propensities may have bounds,
:math:`e = l + (b - l)\,\sigma(v)`. One look of every row, no audit and
:math:`h = 0` is `scarless.numerics.likelihood`, which has more digits and more speed.

All is per row. The information of a row's logits is a diagonal minus a square, :math:`D - \omega c c'`: complete
information minus what is lost because the class is not seen.
"""

from typing import Any, NamedTuple

from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.namespace import at_least, concat, namespace_of
from scarless.numerics.sigmoid import sigmoid_pair, softplus

_LEAST = 1e-300  # a probability that can be divided by


class LookTerms(NamedTuple):
    """What one row says under all models. Fields of looks have one column for each kind of look."""

    f: Vector
    not_f: Vector
    e: Matrix
    not_e: Matrix
    h: Matrix | None  # None: no false positives
    q: Vector  # Pr(y=1 | labels, audit, x)
    not_q: Vector
    odds: Vector  # log-odds of q, as if the class had not been checked
    value: Vector  # log-likelihood
    labels: Matrix  # t
    looks: Matrix  # m
    audited: Any  # which rows
    turn: Matrix  # first derivative of e by its logit
    curve: Matrix  # second derivative
    slope: Matrix  # first derivative of log A by the logits
    bend: Matrix  # minus its second derivatives
    mean_bend: Matrix  # what a positive row's looks have of it on average


class RowInformation(NamedTuple):
    r"""The information of a row's logits, :math:`D - \omega c c'`: columns are u, then v, then g."""

    diagonal: Matrix
    omega: Vector
    along: Matrix  # c


class _Propensities(NamedTuple):
    """Propensities with their derivatives, and the logarithm of `A` with its own."""

    e: Matrix
    not_e: Matrix
    log_a: Vector
    turn: Matrix
    curve: Matrix
    slope: Matrix
    bend: Matrix
    mean_bend: Matrix


def _propensities(v: Matrix, labels: Matrix, looks: Matrix) -> _Propensities:
    xp = namespace_of(v)
    e, not_e = sigmoid_pair(v)
    log_a = -xp.sum(labels * softplus(-v) + (looks - labels) * softplus(v), axis=1)
    turn = e * not_e
    bend = looks * turn
    return _Propensities(e, not_e, log_a, turn, turn * (not_e - e), labels - looks * e, bend, bend)


def _bounded_propensities(v: Matrix, labels: Matrix, looks: Matrix, bounds: tuple[float, float]) -> _Propensities:
    xp, missed = namespace_of(v), looks - labels
    low, high = bounds
    p, not_p = sigmoid_pair(v)
    e, not_e = at_least(low + (high - low) * p, _LEAST), at_least((1.0 - high) + (high - low) * not_p, _LEAST)
    log_a = xp.sum(labels * xp.log(e) + missed * xp.log(not_e), axis=1)
    turn = (high - low) * p * not_p
    curve = turn * (not_p - p)
    slope = turn * (labels / e - missed / not_e)
    bend = labels * (turn**2 / e - curve) / e + missed * (turn**2 / not_e + curve) / not_e
    return _Propensities(e, not_e, log_a, turn, curve, slope, bend, looks * turn**2 / (e * not_e))


def look_terms(
    u: Vector,
    v: Matrix,
    g: Matrix | None,
    labels: Matrix,
    looks: Matrix,
    audit: Vector,
    bounds: tuple[float, float] | None = None,
) -> LookTerms:
    """Return posterior and log-likelihood of each row from its logits.

    `audit` is 1 or 0 for rows whose class was checked, and -1 for the others. `bounds` are those of propensities.

    Examples
    --------
    >>> import numpy as np
    >>> half = np.zeros((1, 1))
    >>> terms = look_terms(np.zeros(1), half, None, np.zeros((1, 1)), np.array([[2.0]]), np.array([-1.0]))
    >>> terms.q  # f = e = 1/2, two looks and no label: (1/8) / (5/8)
    array([0.2])
    """
    xp = namespace_of(u)
    f, not_f = sigmoid_pair(u)
    of_e = _propensities(v, labels, looks) if bounds is None else _bounded_propensities(v, labels, looks, bounds)
    missed = looks - labels
    positive = -softplus(-u) + of_e.log_a  # log f A
    if g is None:
        h, none = None, xp.sum(labels, axis=1) == 0
        negative = xp.where(none, -softplus(u), -xp.inf)  # log (1 - f) B
    else:
        h = sigmoid_pair(g)[0]
        negative = -softplus(u) - xp.sum(labels * softplus(-g) + missed * softplus(g), axis=1)
    odds = positive - negative
    q, not_q = sigmoid_pair(odds)
    value = xp.logaddexp(positive, negative)
    audited, found = audit >= 0, audit == 1
    return LookTerms(
        f,
        not_f,
        of_e.e,
        of_e.not_e,
        h,
        q=xp.where(audited, xp.where(found, 1.0, 0.0), q),
        not_q=xp.where(audited, xp.where(found, 0.0, 1.0), not_q),
        odds=odds,
        value=xp.where(audited, xp.where(found, positive, negative), value),
        labels=labels,
        looks=looks,
        audited=audited,
        turn=of_e.turn,
        curve=of_e.curve,
        slope=of_e.slope,
        bend=of_e.bend,
        mean_bend=of_e.mean_bend,
    )


def look_scores(terms: LookTerms) -> Matrix:
    r"""Return the derivatives of the log-likelihood by u, v and g: a column for each logit.

    :math:`q - f`, :math:`q(t - m e)` and :math:`(1-q)(t - m h)`.
    """
    # q - f, where a row's class is open, as a difference of products: both may be next to 0, or to 1.
    of_u = terms.q * terms.not_f - terms.not_q * terms.f
    columns = [of_u[:, None], terms.q[:, None] * terms.slope]
    if terms.h is not None:
        columns.append(terms.not_q[:, None] * (terms.labels - terms.looks * terms.h))
    return concat(columns, axis=1)


def observed_look_information(terms: LookTerms) -> RowInformation:
    r"""Return minus the second derivatives of the log-likelihood by the logits, as a diagonal minus a square.

    :math:`D = [f(1-f),\; q\,m\,e(1-e),\; (1-q)\,m\,h(1-h)]`, :math:`\omega = q(1-q)`,
    :math:`c = [1,\; t - m e,\; -(t - m h)]`.
    """
    return _information(terms, terms.q, terms.not_q, terms.q * terms.not_q, (terms.bend, terms.slope), terms.labels)


def expected_look_information(terms: LookTerms) -> RowInformation:
    r"""Return the expected information of the logits, or a matrix that is never smaller.

    Without false positives, and of a class that was not checked, only the row without any label leaves the class open:
    :math:`\omega = P_0 q_0 (1-q_0)`, :math:`P_0 = 1-f+f\prod(1-e)^m`, :math:`q_0 = f\prod(1-e)^m/P_0`,
    :math:`c = [1, -m e]`. With false positives the sum over all labels is left out: complete information, as in EM.
    """
    xp = namespace_of(terms.f)
    if terms.h is not None:
        complete = (terms.mean_bend, terms.slope)
        return _information(terms, terms.f, terms.not_f, xp.zeros_like(terms.f), complete, terms.labels)
    none = xp.prod(terms.not_e**terms.looks, axis=1)
    unlabelled = terms.not_f + terms.f * none
    lost = terms.f * none * terms.not_f / xp.where(unlabelled > 0, unlabelled, 1.0)
    omega = xp.where(terms.audited, 0.0, lost)
    unseen = -terms.looks * terms.turn / at_least(terms.not_e, _LEAST)  # the slope of a row without any label
    return _information(terms, terms.f, terms.not_f, omega, (terms.mean_bend, unseen), terms.labels)


def _information(
    terms: LookTerms, q: Vector, not_q: Vector, omega: Vector, of_e: tuple[Matrix, Matrix], labels: Matrix
) -> RowInformation:
    xp = namespace_of(terms.f)
    bend, slope = of_e
    diagonal = [(terms.f * terms.not_f)[:, None], q[:, None] * bend]
    along = [xp.ones_like(terms.f)[:, None], slope]
    if terms.h is not None:
        diagonal.append(not_q[:, None] * terms.looks * terms.h * (1.0 - terms.h))
        along.append(terms.looks * terms.h - labels)
    return RowInformation(concat(diagonal, axis=1), omega, concat(along, axis=1))


def detected(terms: LookTerms) -> tuple[Vector, Vector]:
    r"""Return the probability that a positive row gets any label at its looks, and that it gets none."""
    xp = namespace_of(terms.f)
    none = xp.prod(terms.not_e**terms.looks, axis=1)
    return -xp.expm1(xp.sum(terms.looks * xp.log(at_least(terms.not_e, _LEAST)), axis=1)), none
