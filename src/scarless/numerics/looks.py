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

import numpy as np

from scarless.numerics.arrays import Matrix, Vector, at_least, at_most, concat, in_float64, namespace_of
from scarless.numerics.likelihood import logistic_terms, sigmoid_pair

_LEAST = 1e-300  # a probability that can be divided by
_IMPOSSIBLE = -1e300  # log-probability of a class that was ruled out: finite, so that 0 times it is 0


class LookTerms(NamedTuple):
    """What one row says under all models. Fields of looks have one column for each kind of look."""

    f: Vector
    not_f: Vector
    e: Matrix
    not_e: Matrix
    h: Matrix | None  # None: no false positives
    q: Vector  # Pr(y=1 | labels, audit, x)
    not_q: Vector
    odds: Vector  # log-odds of q, as if the class were not known
    value: Vector  # log-likelihood
    labels: Matrix  # t
    looks: Matrix  # m
    audited: Any  # which rows
    known: Any  # which rows have a class that is known: it was checked, or has a label that no negative gets
    turn: Matrix  # first derivative of e by its logit
    curve: Matrix  # second derivative
    slope: Matrix  # first derivative of log A by the logits
    bend: Matrix  # minus its second derivatives
    mean_bend: Matrix  # what a positive row's looks have of it on average
    silent: Matrix  # slope of a row without any label
    log_missed: Vector  # log-probability that a positive row gets no label at its looks


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
    silent: Matrix
    log_missed: Vector


def _propensities(v: Matrix, labels: Matrix, looks: Matrix) -> _Propensities:
    e, not_e, log_e, log_not_e = logistic_terms(v)
    turn, expected = e * not_e, looks * e
    bend = looks * turn
    log_a = _over_looks(labels * log_e + (looks - labels) * log_not_e)
    log_missed = _over_looks(looks * log_not_e)
    return _Propensities(
        e, not_e, log_a, turn, turn * (not_e - e), labels - expected, bend, bend, -expected, log_missed
    )


def _bounded_propensities(v: Matrix, labels: Matrix, looks: Matrix, bounds: tuple[float, float]) -> _Propensities:
    xp, missed = namespace_of(v), looks - labels
    low, high = bounds
    p, not_p = sigmoid_pair(v)
    e, not_e = at_least(low + (high - low) * p, _LEAST), at_least((1.0 - high) + (high - low) * not_p, _LEAST)
    log_not_e = xp.log(not_e)
    log_a, log_missed = _over_looks(labels * xp.log(e) + missed * log_not_e), _over_looks(looks * log_not_e)
    turn = (high - low) * p * not_p
    curve = turn * (not_p - p)
    slope = turn * (labels / e - missed / not_e)
    bend = labels * (turn**2 / e - curve) / e + missed * (turn**2 / not_e + curve) / not_e
    mean_bend, silent = looks * turn**2 / (e * not_e), -looks * turn / not_e
    return _Propensities(e, not_e, log_a, turn, curve, slope, bend, mean_bend, silent, log_missed)


def _over_looks(values: Matrix) -> Vector:
    return values[:, 0] if values.shape[1] == 1 else namespace_of(values).sum(values, axis=1)


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
    f, not_f, log_f, log_not_f = logistic_terms(u)
    of_e = _propensities(v, labels, looks) if bounds is None else _bounded_propensities(v, labels, looks, bounds)
    positive, negative = log_f + of_e.log_a, log_not_f  # log f A, log (1 - f) B
    can_be_positive, can_be_negative = audit != 0, audit != 1
    if g is None:
        h = None
        can_be_negative = can_be_negative & (_over_looks(labels) == 0)
    else:
        h, _, log_h, log_not_h = logistic_terms(g)
        negative = negative + _over_looks(labels * log_h + (looks - labels) * log_not_h)
    may_p, may_n = in_float64(can_be_positive), in_float64(can_be_negative)
    odds = positive - negative
    # Both classes relative to the likelier one, and 0 for one that was ruled out. Only odds of open rows are raised:
    # exponentials of infinity take eight times as long.
    of_open = odds * (may_p * may_n)
    below = at_most(of_open, 0.0)
    of_p, of_n = xp.exp(below) * may_p, xp.exp(below - of_open) * may_n
    both = at_least(of_p + of_n, _LEAST)
    likelier = xp.maximum(positive + _IMPOSSIBLE * (1.0 - may_p), negative + _IMPOSSIBLE * (1.0 - may_n))
    return LookTerms(
        f,
        not_f,
        of_e.e,
        of_e.not_e,
        h,
        q=of_p / both,
        not_q=of_n / both,
        odds=odds,
        value=likelier + xp.log1p(of_p * of_n),
        labels=labels,
        looks=looks,
        audited=audit >= 0,
        known=xp.logical_not(can_be_positive & can_be_negative),
        turn=of_e.turn,
        curve=of_e.curve,
        slope=of_e.slope,
        bend=of_e.bend,
        mean_bend=of_e.mean_bend,
        silent=of_e.silent,
        log_missed=of_e.log_missed,
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
    return _side_by_side(columns)


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
    unseen = terms.f * xp.exp(terms.log_missed)
    omega = unseen * terms.not_f / at_least(terms.not_f + unseen, _LEAST) * (1.0 - in_float64(terms.audited))
    return _information(terms, terms.f, terms.not_f, omega, (terms.mean_bend, terms.silent), terms.labels)


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
    return RowInformation(_side_by_side(diagonal), omega, _side_by_side(along))


def _side_by_side(columns: list[Matrix]) -> Matrix:
    """Return columns in one matrix; numpy's with each column in one piece, since they are used one by one."""
    if namespace_of(columns[0]) is np:
        return np.concatenate([each.T for each in columns]).T
    return concat(columns, axis=1)


def detected(terms: LookTerms) -> tuple[Vector, Vector]:
    r"""Return the probability that a positive row gets any label at its looks, and that it gets none."""
    xp = namespace_of(terms.f)
    return -xp.expm1(terms.log_missed), xp.exp(terms.log_missed)
