r"""Histories of labels at several looks, and a test for differences between positives that no attribute explains.

Suppose that the logits of a row's propensities at all its looks are shifted by the same :math:`b \sim N(0, \tau^2)`.
The likelihood of the row is then :math:`f\,E_b A(v+b) + (1-f) B`. At :math:`\tau = 0` its derivative by :math:`\tau^2`
is :math:`\tfrac12 q\,[(\sum_k r_k)^2 - \sum_k e_k(1-e_k)]` times the likelihood, with :math:`r_k = s_k - e_k`. The
derivative is large if the labels of positive rows are positively correlated between looks.

Without false positives, a labelled row is positive. The histories of labelled rows alone therefore determine the
propensities, whatever the class depends on (`LabelledHistories`).
"""

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.numerics import linear
from scarless.numerics.arrays import Matrix, Rows, Vector
from scarless.numerics.linear import Design
from scarless.numerics.looks import LookTerms, look_scores
from scarless.numerics.looks_objective import LooksLikelihood, sum_of_squares
from scarless.numerics.objectives import Curvature, PairObjective, Sums

# If a smaller share of an added score's variance remains, the scores of the fitted parameters explain all of it.
MIN_UNEXPLAINED_SHARE = 1e-12
MAX_LOOKS_FOR_HISTORIES = 6  # With more looks, rows are counted by their number of labels, not by their history.


class HeterogeneitySums(NamedTuple):
    """Sums over rows of the derivative by the variance, `c`, and of the scores of all parameters, `t`."""

    total: Vector  # sum of w c
    squares: Vector  # sum of w c^2
    scores: Vector  # sum of w t
    with_scores: Vector  # sum of w c t
    of_scores: Matrix  # sum of w t t'


def heterogeneity_sums(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> HeterogeneitySums:
    """Return the sums over one block of rows."""
    terms, w = objective.terms(X, rows, beta), rows["w"]
    away = np.sum(terms.score, axis=1)
    c = 0.5 * terms.q * (away**2 - np.sum(terms.information, axis=1))
    scores = look_scores(terms)[:, [logit.column for logit in objective.logits]]
    first, second = np.zeros((2, objective.n_parameters))
    for j, logit in enumerate(objective.logits):
        seen = logit.design.take(X)
        first[logit.place] += linear.transposed_product(seen, w * scores[:, j])
        second[logit.place] += linear.transposed_product(seen, w * c * scores[:, j])
    of_scores = sum_of_squares(X, objective, w, scores)
    return HeterogeneitySums(np.asarray(w @ c), np.asarray(w @ c**2), first, second, of_scores)


class ScoreSums(NamedTuple):
    """Sums over rows of added scores `g`, of the scores `t` of the fitted parameters, and of their products.

    The last three sums are for variances. Their weight `v` is `w` if weights are counts of rows, otherwise the square
    of `w`.
    """

    added: Vector  # sum of w g
    mixed: Matrix  # sum of w t g'
    own: Vector  # sum of w t
    matrix: Matrix  # sum of w t t'
    squares_spread: Vector  # sum of v g^2
    mixed_spread: Matrix  # sum of v t g'
    matrix_spread: Matrix  # sum of v t t'


def score_sums(
    X: Any, w: Vector, objective: PairObjective, scores: Matrix, further: Matrix, *, counts: bool
) -> ScoreSums:
    """Return sums of scores over a block; in variances, weights that are not `counts` of rows are squared.

    `scores` are derivatives of the log-likelihood by the logits, as returned by `row_scores`. `further` has one column
    for each added score.
    """

    def products(weight: Vector) -> tuple[Matrix, Matrix]:
        mixed = np.zeros((objective.n_parameters, 1 + further.shape[1]))
        for j, logit in enumerate(objective.logits):
            own = weight * scores[:, j]
            columns = np.stack([own, *(own * further[:, k] for k in range(further.shape[1]))])
            mixed[logit.place] += linear.transposed_products(logit.design.take(X), columns)
        return mixed, sum_of_squares(X, objective, weight, scores)

    mixed, matrix = products(w)
    spread, (mixed_spread, matrix_spread) = (w, (mixed, matrix)) if counts else (w**2, products(w**2))
    own = mixed[:, 0]
    return ScoreSums(w @ further, mixed[:, 1:], own, matrix, spread @ further**2, mixed_spread[:, 1:], matrix_spread)


def score_tests(sums: ScoreSums) -> list[float]:
    """Return the z-statistic of each added score, adjusted for the fitted parameters.

    With `b` the least-squares coefficients of the score `g` on the scores `t` of the parameters, the statistic is the
    sum of :math:`w (g - b't)` over rows divided by its standard error. It is 0 if `t` explains all of `g`.
    """
    explained = np.linalg.lstsq(sums.matrix, sums.mixed, rcond=1e-10)[0]
    variance = sums.squares_spread - np.sum(explained * (2.0 * sums.mixed_spread - sums.matrix_spread @ explained), 0)
    left = sums.added - sums.own @ explained
    known = variance > MIN_UNEXPLAINED_SHARE * np.maximum(sums.squares_spread, MIN_UNEXPLAINED_SHARE)
    return [float(each) for each in np.where(known, left / np.sqrt(np.where(known, variance, 1.0)), 0.0)]


def false_positive_scores(X: Any, rows: Rows, objective: PairObjective, beta: Vector, counts: bool) -> ScoreSums:
    r"""Return sums of the score of the false positive rate `h` at :math:`h = 0`, and of the scores of all parameters.

    The likelihood of a row with `t` labels at `m` looks is :math:`fA + (1-f) h^t (1-h)^{m-t}`. The derivative of its
    logarithm by `h` is :math:`-m(1-q)` without a label, :math:`(1-f)/(fA)` with one label, and 0 with more.
    """
    terms = objective.terms(X, rows, beta)
    labels, looks = np.sum(terms.labels, axis=1), np.sum(terms.looks, axis=1)
    further, one = np.where(labels == 0, -looks * terms.not_q, 0.0), (labels == 1) & ~terms.audited
    further[one] = terms.not_f[one] * np.exp(-terms.value[one])
    scores = look_scores(terms)[:, [logit.column for logit in objective.logits]]
    return score_sums(X, rows["w"], objective, scores, further[:, None], counts=counts)


def heterogeneity(sums: HeterogeneitySums) -> float:
    r"""Return the z-statistic of :math:`\tau^2 = 0`; it is large if positives differ in their propensities.

    The statistic sums the residuals of a least-squares regression of the derivative `c` on the scores `t`, because the
    parameters were fitted to the same labels.
    """
    slopes = np.linalg.pinv(sums.of_scores, hermitian=True) @ sums.with_scores
    variance = float(sums.squares - slopes @ sums.with_scores)
    effective = float(sums.total - slopes @ sums.scores)
    return effective / np.sqrt(variance) if variance > 0 else 0.0


class Histories(NamedTuple):
    """Observed and expected numbers of rows for each history."""

    names: tuple[str, ...]
    observed: Vector
    expected: Vector


def count_histories(labels: Any, f: Vector, e: Matrix, h: Matrix | None) -> Histories:
    """Return observed and expected numbers of rows by history.

    `labels` are 1 or 0, and -1 for looks that did not take place. Rows with different sets of looks are counted
    separately. `f` is the class probability, and 0 or 1 for audited rows.

    Examples
    --------
    >>> found = count_histories(np.array([[1, 0], [0, 0]]), np.ones(2), np.full((2, 2), 0.5), None)
    >>> found.names, found.expected
    (('0 0', '0 1', '1 0', '1 1'), array([0.5, 0.5, 0.5, 0.5]))
    """
    names, observed, expected = [], [], []
    seen = labels >= 0
    patterns, group = np.unique(seen, axis=0, return_inverse=True)
    group = np.reshape(group, -1)
    for number in np.argsort(-patterns.sum(axis=1), kind="stable"):  # rows with the most looks first
        pattern = patterns[number]
        rows, places = group == number, np.flatnonzero(pattern)
        if not places.size:
            continue
        own, e_own = labels[rows][:, places], e[rows][:, places]
        h_own = np.zeros_like(e_own) if h is None else h[rows][:, places]
        for cell in product((0, 1), repeat=places.size):
            s = np.array(cell)
            names.append(_history_name(pattern, s))
            observed.append(float(np.count_nonzero((own == s).all(axis=1))))
            A, B = (np.prod(np.where(s == 1, rate, 1.0 - rate), axis=1) for rate in (e_own, h_own))
            expected.append(float(f[rows] @ A + (1.0 - f[rows]) @ B))
    return Histories(tuple(names), np.array(observed), np.array(expected))


def count_labels(labels: Any, f: Vector, e: Matrix, h: Matrix | None) -> Histories:
    """Return observed and expected numbers of rows by their number of looks and their number of labels."""
    n_looks, n_labels = (labels >= 0).sum(axis=1), (labels == 1).sum(axis=1)
    seen = labels >= 0
    shares = f[:, None] * _number_of_labels(e, seen)
    shares = shares + (1.0 - f[:, None]) * _number_of_labels(np.zeros_like(e) if h is None else h, seen)
    names, observed, expected = [], [], []
    for looked in np.unique(n_looks[n_looks > 0]):
        rows = n_looks == looked
        for found in range(int(looked) + 1):
            names.append(f"{found} of {looked}")
            observed.append(float((n_labels[rows] == found).sum()))
            expected.append(float(shares[rows, found].sum()))
    return Histories(tuple(names), np.array(observed), np.array(expected))


def pooled(histories: Histories, least: float) -> Histories:
    """Return the histories; if several have an expected number below `least`, these are merged into one."""
    rare = histories.expected < least
    if rare.sum() < 2:
        return histories
    names = tuple(name for name, out in zip(histories.names, rare, strict=True) if not out)
    kept = (np.append(part[~rare], part[rare].sum()) for part in (histories.observed, histories.expected))
    return Histories((*names, "all others"), *kept)


def chi_square(histories: Histories) -> float:
    """Return Pearson's chi-squared statistic."""
    known = histories.expected > 0
    away = histories.observed[known] - histories.expected[known]
    return float(np.sum(away**2 / histories.expected[known]))


def _number_of_labels(rate: Matrix, seen: Any) -> Matrix:
    """Return the distribution of the number of labels of each row, a Poisson binomial distribution."""
    found = np.zeros((rate.shape[0], rate.shape[1] + 1))
    found[:, 0] = 1.0
    for k in range(rate.shape[1]):
        p = np.where(seen[:, k], rate[:, k], 0.0)[:, None]
        found[:, 1:] = found[:, 1:] * (1.0 - p) + found[:, :-1] * p
        found[:, :1] *= 1.0 - p
    return found


def _history_name(pattern: Any, s: Any) -> str:
    """Return the name of a history, such as ``0 1 -``; a dash marks a look that did not take place."""
    left = iter(s.tolist())
    return " ".join(str(next(left)) if there else "-" for there in pattern)


@dataclass(frozen=True)
class LabelledHistories:
    r"""Minus the log-likelihood of the histories of labelled rows, given that they have at least one label (Huggins).

    .. math:: \sum_{i:\, s_i > 0} w_i \Bigl[\log p_i - \log \prod_j e_{ij}^{t_{ij}} (1 - e_{ij})^{m_{ij} - t_{ij}}
        \Bigr], \qquad p_i = 1 - \prod_j (1 - e_{ij})^{m_{ij}}

    The parameters are those of the propensity models. No class model is needed. There must be no false positives.

    References
    ----------
    Huggins, "On the statistical analysis of capture experiments", Biometrika 76 (1989).
    """

    convex: ClassVar[bool] = False  # The objective is convex only if the propensities have no bounds.
    looks: LooksLikelihood

    @property
    def designs(self) -> tuple[Design, ...]:
        """Columns of the propensity models."""
        return self.looks.designs[1:]

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return self.looks.n_parameters - self.looks.f.n_parameters

    def terms(self, X: Any, rows: Rows, beta: Vector) -> tuple[LookTerms, Vector, Vector]:
        """Return the terms of each row, its weight (0 if unlabelled), and the odds of no label if it is positive."""
        terms = self.looks.terms(X, rows, np.append(np.zeros(self.looks.f.n_parameters), beta))
        labelled = (terms.labels.sum(axis=1) > 0) & (rows["w"] > 0)
        return terms, rows["w"] * labelled, _odds_of_no_label(terms, labelled)

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature. The curvature is always the observed one."""
        terms, w, odds = self.terms(X, rows, beta)
        # With a class logit of 0, the likelihood of a labelled row is A / 2, and log p = -log(1 + odds).
        value = -(w @ (np.where(w > 0, terms.value, 0.0) + np.log(2.0) + np.log1p(odds)))
        logits, gradient = self.looks.logits[1:], np.zeros(self.looks.n_parameters)
        scores = terms.score + terms.unlabelled_score * odds[:, None]
        for j, logit in enumerate(logits):
            gradient[logit.place] -= linear.transposed_product(logit.design.take(X), w * scores[:, j])
        own = slice(self.looks.f.n_parameters, None)
        if curvature is Curvature.NONE:
            return Sums(np.asarray(value), gradient[own], np.zeros(0))
        # Second derivative, for each look, of the log-probability of no label. For log A, it is `-information`.
        unlabelled = -terms.looks * (terms.e_curvature / terms.not_e + (terms.e_slope / terms.not_e) ** 2)
        matrix = np.zeros((gradient.size, gradient.size))
        for j, one in enumerate(logits):
            seen = one.design.take(X)
            for k, other in enumerate(logits):
                weight = -odds * (1.0 + odds) * terms.unlabelled_score[:, j] * terms.unlabelled_score[:, k]
                if j == k:
                    weight = weight + terms.information[:, j] - odds * unlabelled[:, j]
                matrix[one.place, other.place] += linear.cross_product(seen, w * weight, other.design.take(X))
        found = matrix[own, own]
        return Sums(np.asarray(value), gradient[own], np.diag(found) if curvature is Curvature.DIAGONAL else found)

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Not implemented: only the solver for very many parameters calls this method."""
        raise NotImplementedError

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Not implemented: only the solver for very many parameters calls this method."""
        raise NotImplementedError

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return, for each model, the weighted sum of the squared changes of its logits, averaged over its looks."""
        (found,) = self.looks.reach(X, rows, np.append(np.zeros(self.looks.f.n_parameters), direction))
        return (found[1:],)

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return, for each model, the matrix of the quadratic form `reach`."""
        return self.looks.grams(X, rows)[1:]


class NumberSums(NamedTuple):
    """The number of positives among rows with at least one look, and the sums that its variance needs."""

    number: Any  # sum of w / p over labelled rows, or sum of w f over rows with at least one look
    variance: Any  # from random classes and labels: sum of w f (1 - f), plus w (1 - p) / p^2 over labelled rows
    gradient: Vector  # derivative of `number` by the parameters of the propensities
    looked_at: Any  # weight of the rows with at least one look
    again: Any  # weighted number of labels after the first label of each row


def number_by_histories(
    X: Any, rows: Rows, histories: LabelledHistories, beta: Vector, models: Vector, counts: bool
) -> NumberSums:
    """Return the number of positives, estimated from the labelled rows alone.

    `models` are the parameters of the pair, which are used only for the variance of the classes. In the variance,
    weights that are not `counts` of rows are squared.
    """
    terms, w, odds = histories.terms(X, rows, beta)
    f = histories.looks.terms(X, rows, models).f
    return _number_sums(X, rows, histories, terms, w * (1.0 + odds), odds, f, counts)


def number_by_models(X: Any, rows: Rows, histories: LabelledHistories, models: Vector, counts: bool) -> NumberSums:
    """Return the number of positives by the pair, and the variance of `number_by_histories` if the pair is right."""
    terms = histories.looks.terms(X, rows, models)
    w = rows["w"] * (terms.looks.sum(axis=1) > 0)
    return _number_sums(X, rows, histories, terms, w * terms.f, _odds_of_no_label(terms, w > 0), terms.f, counts)


def _number_sums(
    X: Any,
    rows: Rows,
    histories: LabelledHistories,
    terms: LookTerms,
    number: Vector,
    odds: Vector,
    f: Vector,
    counts: bool,
) -> NumberSums:
    looks, w = histories.looks, rows["w"] * (terms.looks.sum(axis=1) > 0)
    gradient = np.zeros(looks.n_parameters)
    for j, logit in enumerate(looks.logits[1:]):
        slope = number * odds * terms.unlabelled_score[:, j]  # because 1 / p = 1 + odds of no label
        gradient[logit.place] += linear.transposed_product(logit.design.take(X), slope)
    drawn = w * f * (1.0 - f) + number * odds
    again = w @ np.maximum(terms.labels.sum(axis=1) - 1.0, 0.0)
    variance = drawn.sum() if counts else rows["w"] @ drawn
    sums = (number.sum(), variance, gradient[looks.f.n_parameters :], w.sum(), again)
    return NumberSums(*(np.asarray(each) for each in sums))


def _odds_of_no_label(terms: LookTerms, needed: Any) -> Vector:
    """Return the odds that a positive row gets no label at its looks; 0 for rows that are not `needed`."""
    return np.where(needed, 1.0 / np.maximum(np.expm1(np.where(needed, -terms.log_missed, 1.0)), 1e-300), 0.0)
