r"""The likelihood of rows with several looks, audits or false positives.

The logits are ``u`` of :math:`f = \Pr(y=1|x)`, ``v_j`` of the propensities :math:`e_j`, and ``g_j`` of the false
positive rates :math:`h_j`. A row with :math:`m_j` looks of kind `j`, of which :math:`t_j` gave a label, has the
likelihood

.. math:: L = f A + (1-f) B, \quad A = \prod_j e_j^{t_j}(1-e_j)^{m_j-t_j}, \quad B = \prod_j h_j^{t_j}(1-h_j)^{m_j-t_j}.

Looks that did not take place are left out of the products. An audited row has :math:`L = fA` or :math:`(1-f)B`. Without
false positives, `B` is 1 for unlabelled rows and 0 for labelled rows. Propensities may have bounds,
:math:`e = l + (b - l)\,\sigma(v)`. For one look at every row, no audit and :math:`h = 0`, the functions of
`scarless.numerics.likelihood` are more precise and faster.

If rows differ in ways that no column measures, the logits of a row's propensities are all shifted by the same random
:math:`b`, and `A` is its mean over the distribution of `b`, which is given by nodes with weights (`Mixing`).

All functions work row by row. The information of a row's logits is :math:`D - \omega c c'`: the complete information,
a diagonal matrix, minus a matrix of rank one that is lost because the class is not observed.
"""

from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Matrix, Vector, at_least, at_most, concat, in_float64, namespace_of
from scarless.numerics.likelihood import logistic_terms, sigmoid_pair

_MIN_DIVISOR = 1e-300  # lower bound of probabilities that are divided by
_NO_CROSS = np.zeros((0, 0, 0))
_LOG_IMPOSSIBLE = -1e300  # log-probability of an impossible class; finite, so that 0 times this number is 0


class Mixing(NamedTuple):
    """Distribution of the random shift of the logits of a row's propensities."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]


class LookTerms(NamedTuple):
    """Probabilities and derivatives of each row under all models. Matrices have one column for each kind of look."""

    f: Vector
    not_f: Vector
    e: Matrix
    not_e: Matrix
    h: Matrix | None  # false positive rates; None if there are no false positives
    q: Vector  # posterior Pr(y=1 | labels, audit, x)
    not_q: Vector
    odds: Vector  # log-odds of q if the class were unknown
    value: Vector  # log-likelihood
    labels: Matrix  # numbers of labels, t
    looks: Matrix  # numbers of looks, m
    audited: Any  # mask of audited rows
    known: Any  # mask of rows with a known class: audited rows, and labelled rows if there are no false positives
    e_slope: Matrix  # first derivative of e by its logit
    e_curvature: Matrix  # second derivative of e by its logit
    score: Matrix  # first derivatives of log A by the logits
    information: Matrix  # minus the second derivatives of log A
    expected_information: Matrix  # expectation of `information` for a positive row
    unlabelled_score: Matrix  # `score` of a row without any label
    log_missed: Vector  # log-probability that a positive row gets no label at its looks
    cross: Any = _NO_CROSS  # minus the second derivatives of log A, (rows, kinds, kinds); empty without random shifts


class RowInformation(NamedTuple):
    r"""The information of each row's logits, :math:`D - \omega c c'`; the columns are u, v and g."""

    diagonal: Matrix
    omega: Vector
    along: Matrix  # c
    cross: Any = _NO_CROSS  # with random shifts: D of the logits v, which is then not diagonal; (rows, kinds, kinds)


class _Propensities(NamedTuple):
    """Propensities and log A, with their derivatives."""

    e: Matrix
    not_e: Matrix
    log_a: Vector
    e_slope: Matrix
    e_curvature: Matrix
    score: Matrix
    information: Matrix
    expected_information: Matrix
    unlabelled_score: Matrix
    log_missed: Vector
    cross: Any = _NO_CROSS


def _propensities(v: Matrix, labels: Matrix, looks: Matrix) -> _Propensities:
    e, not_e, log_e, log_not_e = logistic_terms(v)
    e_slope, expected = e * not_e, looks * e
    information = looks * e_slope
    log_a = _over_looks(labels * log_e + (looks - labels) * log_not_e)
    log_missed = _over_looks(looks * log_not_e)
    return _Propensities(
        e,
        not_e,
        log_a,
        e_slope,
        e_slope * (not_e - e),
        labels - expected,
        information,
        information,
        -expected,
        log_missed,
    )


def _propensities_of(v: Matrix, labels: Matrix, looks: Matrix, bounds: tuple[float, float] | None) -> _Propensities:
    return _propensities(v, labels, looks) if bounds is None else _bounded_propensities(v, labels, looks, bounds)


def _bounded_propensities(v: Matrix, labels: Matrix, looks: Matrix, bounds: tuple[float, float]) -> _Propensities:
    xp, missed = namespace_of(v), looks - labels
    low, high = bounds
    p, not_p = sigmoid_pair(v)
    e, not_e = (
        at_least(low + (high - low) * p, _MIN_DIVISOR),
        at_least((1.0 - high) + (high - low) * not_p, _MIN_DIVISOR),
    )
    log_not_e = xp.log(not_e)
    log_a, log_missed = _over_looks(labels * xp.log(e) + missed * log_not_e), _over_looks(looks * log_not_e)
    e_slope = (high - low) * p * not_p
    e_curvature = e_slope * (not_p - p)
    score = e_slope * (labels / e - missed / not_e)
    information = labels * (e_slope**2 / e - e_curvature) / e + missed * (e_slope**2 / not_e + e_curvature) / not_e
    expected_information, unlabelled_score = looks * e_slope**2 / (e * not_e), -looks * e_slope / not_e
    return _Propensities(
        e, not_e, log_a, e_slope, e_curvature, score, information, expected_information, unlabelled_score, log_missed
    )


def _mixed_propensities(
    v: Matrix, labels: Matrix, looks: Matrix, bounds: tuple[float, float] | None, mixing: Mixing
) -> _Propensities:
    r"""Return the propensities and log A of rows with a random shift; all fields are means over its nodes.

    With :math:`p_n \propto w_n A_n`, the derivative of log A is :math:`E_p[\text{score}]`, and its second derivative
    is :math:`-E_p[\text{information}] + \mathrm{Cov}_p(\text{score})`.
    """
    parts = [_propensities_of(v + shift, labels, looks, bounds) for shift in mixing.shifts]
    w = np.array(mixing.weights)
    log_a, p = _mixed(w, [part.log_a for part in parts])
    log_missed, p_missed = _mixed(w, [part.log_missed for part in parts])
    scores = np.stack([part.score for part in parts])
    score = _mean(p, scores)
    cross = np.einsum("jk,ik->ijk", np.eye(v.shape[1]), _mean(p, [part.information for part in parts]))
    cross = cross + score[:, :, None] * score[:, None, :] - np.einsum("ni,nij,nik->ijk", p, scores, scores)
    same = np.broadcast_to(w[:, None], p.shape)
    return _Propensities(
        e=_mean(same, [part.e for part in parts]),
        not_e=_mean(same, [part.not_e for part in parts]),
        log_a=log_a,
        e_slope=_mean(same, [part.e_slope for part in parts]),
        e_curvature=_mean(same, [part.e_curvature for part in parts]),
        score=score,
        information=np.einsum("ijj->ij", cross),
        expected_information=_mean(same, [part.expected_information for part in parts]),
        unlabelled_score=_mean(p_missed, [part.unlabelled_score for part in parts]),
        log_missed=log_missed,
        cross=cross,
    )


def _mixed(weights: Vector, logs: list[Vector]) -> tuple[Vector, Matrix]:
    """Return the logarithm of the weighted mean of exponentials, and the share of each of them in this mean."""
    terms = np.log(weights)[:, None] + np.stack(logs)
    total = np.logaddexp.reduce(terms, axis=0)
    return total, np.exp(terms - total)


def _mean(shares: Matrix, parts: Any) -> Matrix:
    """Return the mean of matrices over nodes; each node has a share in each row."""
    return np.asfortranarray(np.einsum("ni,nij->ij", shares, np.stack(parts)))


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
    mixing: Mixing | None = None,
) -> LookTerms:
    """Return posterior, log-likelihood and derivatives of each row from its logits.

    `g` is None if there are no false positives. `audit` is the true class of audited rows, 1 or 0, and -1 for other
    rows. `bounds` are the lowest and the highest possible propensity. `mixing` is the distribution of a random shift.

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
    if mixing is None:
        of_e = _propensities_of(v, labels, looks, bounds)
    else:
        of_e = _mixed_propensities(v, labels, looks, bounds, mixing)
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
    # The likelihood of both classes relative to the likelier one; 0 for an impossible class. Only rows of unknown class
    # enter the exponential, because exponentials of infinity take eight times as long.
    of_unknown = odds * (may_p * may_n)
    below = at_most(of_unknown, 0.0)
    of_p, of_n = xp.exp(below) * may_p, xp.exp(below - of_unknown) * may_n
    both = at_least(of_p + of_n, _MIN_DIVISOR)
    likelier = xp.maximum(positive + _LOG_IMPOSSIBLE * (1.0 - may_p), negative + _LOG_IMPOSSIBLE * (1.0 - may_n))
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
        e_slope=of_e.e_slope,
        e_curvature=of_e.e_curvature,
        score=of_e.score,
        information=of_e.information,
        expected_information=of_e.expected_information,
        unlabelled_score=of_e.unlabelled_score,
        log_missed=of_e.log_missed,
        cross=of_e.cross,
    )


def look_scores(terms: LookTerms) -> Matrix:
    r"""Return the derivatives of the log-likelihood by u, v and g, one column for each logit.

    They are :math:`q - f`, :math:`q(t - m e)` and :math:`(1-q)(t - m h)`.
    """
    # q - f is computed as a difference of products, because q and f can both be close to 0 or to 1.
    of_u = terms.q * terms.not_f - terms.not_q * terms.f
    columns = [of_u[:, None], terms.q[:, None] * terms.score]
    if terms.h is not None:
        columns.append(terms.not_q[:, None] * (terms.labels - terms.looks * terms.h))
    return _side_by_side(columns)


def observed_look_information(terms: LookTerms) -> RowInformation:
    r"""Return minus the second derivatives of the log-likelihood by the logits, as :math:`D - \omega c c'`.

    :math:`D = [f(1-f),\; q\,m\,e(1-e),\; (1-q)\,m\,h(1-h)]`, :math:`\omega = q(1-q)`,
    :math:`c = [1,\; t - m e,\; -(t - m h)]`.
    """
    found = _information(
        terms, terms.q, terms.not_q, terms.q * terms.not_q, (terms.information, terms.score), terms.labels
    )
    return found if not terms.cross.size else found._replace(cross=terms.q[:, None, None] * terms.cross)


def expected_look_information(terms: LookTerms) -> RowInformation:
    r"""Return the expected information of the logits; with false positives, the larger complete information.

    Without false positives, the class of a row that is not audited is unknown only if the row is unlabelled. Then
    :math:`\omega = P_0 q_0 (1-q_0)`, :math:`P_0 = 1-f+f\prod(1-e)^m`, :math:`q_0 = f\prod(1-e)^m/P_0` and
    :math:`c = [1, -m e]`. With false positives, the expectation would be a sum over all possible labels. The complete
    information (:math:`\omega = 0`), which is larger, is used instead, as in EM. The same applies to random shifts.
    """
    xp = namespace_of(terms.f)
    if terms.h is not None or terms.cross.size:
        complete = (terms.expected_information, terms.score)
        return _information(terms, terms.f, terms.not_f, xp.zeros_like(terms.f), complete, terms.labels)
    unseen = terms.f * xp.exp(terms.log_missed)
    omega = unseen * terms.not_f / at_least(terms.not_f + unseen, _MIN_DIVISOR) * (1.0 - in_float64(terms.audited))
    return _information(
        terms, terms.f, terms.not_f, omega, (terms.expected_information, terms.unlabelled_score), terms.labels
    )


def _information(
    terms: LookTerms, q: Vector, not_q: Vector, omega: Vector, of_e: tuple[Matrix, Matrix], labels: Matrix
) -> RowInformation:
    xp = namespace_of(terms.f)
    information, score = of_e
    diagonal = [(terms.f * terms.not_f)[:, None], q[:, None] * information]
    along = [xp.ones_like(terms.f)[:, None], score]
    if terms.h is not None:
        diagonal.append(not_q[:, None] * terms.looks * terms.h * (1.0 - terms.h))
        along.append(terms.looks * terms.h - labels)
    return RowInformation(_side_by_side(diagonal), omega, _side_by_side(along))


def _side_by_side(columns: list[Matrix]) -> Matrix:
    """Return the columns in one matrix; a NumPy matrix has Fortran order, because columns are used one by one."""
    if namespace_of(columns[0]) is np:
        return np.concatenate([each.T for each in columns]).T
    return concat(columns, axis=1)


def detected(terms: LookTerms) -> tuple[Vector, Vector]:
    """Return the probability that a positive row gets at least one label at its looks, and that it gets none."""
    xp = namespace_of(terms.f)
    return -xp.expm1(terms.log_missed), xp.exp(terms.log_missed)
