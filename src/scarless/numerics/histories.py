r"""Labels at several looks as histories, and whether positives differ in ways that no attribute explains.

If the logit of a row's propensities is moved by :math:`b \sim N(0, \tau^2)`, the same at all of its looks, its
likelihood is :math:`f\,E_b A(v+b) + (1-f) B`. At :math:`\tau = 0` its derivative by :math:`\tau^2` is
:math:`\tfrac12 q\,[(\sum_k r_k)^2 - \sum_k e_k(1-e_k)]` times the likelihood, with :math:`r_k = s_k - e_k`: positive
rows whose labels stick together more than independent ones would.

Without false positives a row with a label is positive. The histories of such rows alone say how the labelling works,
whatever the class depends on (`LabelledHistories`).
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

NO_VARIANCE = 1e-12  # of a further score: what the parameters' own scores explain of it is all, to rounding
MOST_LOOKS = 6  # from more on, histories are told apart by their number of labels only


class HeterogeneitySums(NamedTuple):
    """Sums over rows of the derivative by the variance, `c`, and of the scores of all parameters, `t`."""

    total: Vector  # of w c
    squares: Vector  # of w c^2
    scores: Vector  # of w t
    with_scores: Vector  # of w c t
    of_scores: Matrix  # of w t t'


def heterogeneity_sums(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> HeterogeneitySums:
    """Return the sums over one block of rows."""
    terms, w = objective.terms(X, rows, beta), rows["w"]
    away = np.sum(terms.slope, axis=1)
    c = 0.5 * terms.q * (away**2 - np.sum(terms.bend, axis=1))
    scores = look_scores(terms)[:, [logit.column for logit in objective.logits]]
    first, second = np.zeros((2, objective.n_parameters))
    for j, logit in enumerate(objective.logits):
        seen = logit.design.take(X)
        first[logit.place] += linear.transposed_product(seen, w * scores[:, j])
        second[logit.place] += linear.transposed_product(seen, w * c * scores[:, j])
    of_scores = sum_of_squares(X, objective, w, scores)
    return HeterogeneitySums(np.asarray(w @ c), np.asarray(w @ c**2), first, second, of_scores)


class ScoreSums(NamedTuple):
    """Sums over rows of further scores `g`, of their products with the scores `t` of all parameters, and of these.

    The last three are the same with the variance of a row's weighted score in place of its weight.
    """

    further: Vector  # of w g
    mixed: Matrix  # of w t g'
    own: Vector  # of w t
    matrix: Matrix  # of w t t'
    squares_spread: Vector
    mixed_spread: Matrix
    matrix_spread: Matrix


def score_sums(
    X: Any, w: Vector, objective: PairObjective, scores: Matrix, further: Matrix, *, counts: bool
) -> ScoreSums:
    """Return sums of scores over a block; weights that are not `counts` of rows have squares in the variance.

    `scores` are derivatives of the log-likelihood by the logits, as `row_scores` has them.
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
    """Return each further score in standard errors, without what the scores of all parameters explain of it.

    With `b` what explains it, its variance is the sum of that of :math:`w (g - b't)` over rows.
    """
    explained = np.linalg.lstsq(sums.matrix, sums.mixed, rcond=1e-10)[0]
    variance = sums.squares_spread - np.sum(explained * (2.0 * sums.mixed_spread - sums.matrix_spread @ explained), 0)
    left = sums.further - sums.own @ explained
    known = variance > NO_VARIANCE * np.maximum(sums.squares_spread, NO_VARIANCE)
    return [float(each) for each in np.where(known, left / np.sqrt(np.where(known, variance, 1.0)), 0.0)]


def false_positive_scores(X: Any, rows: Rows, objective: PairObjective, beta: Vector, counts: bool) -> ScoreSums:
    r"""Return sums of the score of a rate of false positives, at a rate of 0, with those of all parameters.

    A row's likelihood is :math:`fA + (1-f) h^t (1-h)^{m-t}` with `t` labels at `m` looks. By `h`, its logarithm has the
    derivative :math:`-m(1-q)` without a label, :math:`(1-f)/(fA)` with one, and 0 with more.
    """
    terms = objective.terms(X, rows, beta)
    labels, looks = np.sum(terms.labels, axis=1), np.sum(terms.looks, axis=1)
    further, one = np.where(labels == 0, -looks * terms.not_q, 0.0), (labels == 1) & ~terms.audited
    further[one] = terms.not_f[one] * np.exp(-terms.value[one])
    scores = look_scores(terms)[:, [logit.column for logit in objective.logits]]
    return score_sums(X, rows["w"], objective, scores, further[:, None], counts=counts)


def heterogeneity(sums: HeterogeneitySums) -> float:
    r"""Return the score statistic of :math:`\tau^2 = 0` in its standard errors; large where positives differ.

    What the fitted parameters could have taken up is taken off by least squares: the derivative `c` minus its
    regression on the scores `t`.
    """
    slopes = np.linalg.pinv(sums.of_scores, hermitian=True) @ sums.with_scores
    variance = float(sums.squares - slopes @ sums.with_scores)
    effective = float(sums.total - slopes @ sums.scores)
    return effective / np.sqrt(variance) if variance > 0 else 0.0


class Histories(NamedTuple):
    """Rows with the same looks and the same labels: how often, and how often the models expect them."""

    names: tuple[str, ...]
    observed: Vector
    expected: Vector


def count_histories(labels: Any, f: Vector, e: Matrix, h: Matrix | None) -> Histories:
    """Return observed and expected numbers of rows by history; `labels` are 1, 0, and -1 for looks that were not taken.

    Rows are compared with others that were looked at on the same occasions. `f` is the probability of the class, 0 or 1
    where it was checked.

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
    for number in np.argsort(-patterns.sum(axis=1), kind="stable"):  # all looks first
        pattern = patterns[number]
        rows, places = group == number, np.flatnonzero(pattern)
        if not places.size:
            continue
        own, e_own = labels[rows][:, places], e[rows][:, places]
        h_own = np.zeros_like(e_own) if h is None else h[rows][:, places]
        for cell in product((0, 1), repeat=places.size):
            s = np.array(cell)
            names.append(_name(pattern, s))
            observed.append(float(np.count_nonzero((own == s).all(axis=1))))
            A, B = (np.prod(np.where(s == 1, rate, 1.0 - rate), axis=1) for rate in (e_own, h_own))
            expected.append(float(f[rows] @ A + (1.0 - f[rows]) @ B))
    return Histories(tuple(names), np.array(observed), np.array(expected))


def count_labels(labels: Any, f: Vector, e: Matrix, h: Matrix | None) -> Histories:
    """Return observed and expected numbers of rows by how many looks they had, and how many labels."""
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
    """Return histories with those that are expected less than `least` times put together."""
    rare = histories.expected < least
    if rare.sum() < 2:
        return histories
    names = tuple(name for name, out in zip(histories.names, rare, strict=True) if not out)
    kept = (np.append(part[~rare], part[rare].sum()) for part in (histories.observed, histories.expected))
    return Histories((*names, "all others"), *kept)


def chi_square(histories: Histories) -> float:
    """Return Pearson's statistic."""
    known = histories.expected > 0
    away = histories.observed[known] - histories.expected[known]
    return float(np.sum(away**2 / histories.expected[known]))


def _number_of_labels(rate: Matrix, seen: Any) -> Matrix:
    """Return the distribution of the number of labels of each row, whose looks differ in their rates."""
    found = np.zeros((rate.shape[0], rate.shape[1] + 1))
    found[:, 0] = 1.0
    for k in range(rate.shape[1]):
        p = np.where(seen[:, k], rate[:, k], 0.0)[:, None]
        found[:, 1:] = found[:, 1:] * (1.0 - p) + found[:, :-1] * p
        found[:, :1] *= 1.0 - p
    return found


def _name(pattern: Any, s: Any) -> str:
    left = iter(s.tolist())
    return " ".join(str(next(left)) if there else "-" for there in pattern)


@dataclass(frozen=True)
class LabelledHistories:
    r"""Minus the log-likelihood of the labels of rows that have one, given that they have one (Huggins).

    .. math:: \sum_{i:\, s_i > 0} w_i \Bigl[\log p_i - \log \prod_j e_{ij}^{t_{ij}} (1 - e_{ij})^{m_{ij} - t_{ij}}
        \Bigr], \qquad p_i = 1 - \prod_j (1 - e_{ij})^{m_{ij}}

    Parameters are those of the propensities. It needs no class model, and no false positives.

    References
    ----------
    Huggins, "On the statistical analysis of capture experiments", Biometrika 76 (1989).
    """

    convex: ClassVar[bool] = False  # without bounds it is
    looks: LooksLikelihood

    @property
    def designs(self) -> tuple[Design, ...]:
        """What the propensities see."""
        return self.looks.designs[1:]

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return self.looks.n_parameters - self.looks.f.n_parameters

    def terms(self, X: Any, rows: Rows, beta: Vector) -> tuple[LookTerms, Vector, Vector]:
        """Return what each row says, its weight where it has a label, and the odds of none of its looks giving one."""
        terms = self.looks.terms(X, rows, np.append(np.zeros(self.looks.f.n_parameters), beta))
        labelled = (terms.labels.sum(axis=1) > 0) & (rows["w"] > 0)
        return terms, rows["w"] * labelled, _odds_of_none(terms, labelled)

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature; without bounds the expected and the observed one are the same."""
        terms, w, odds = self.terms(X, rows, beta)
        # With a class logit of 0 a labelled row's likelihood is A / 2; log(1 - P) = -log(1 + odds).
        value = -(w @ (np.where(w > 0, terms.value, 0.0) + np.log(2.0) + np.log1p(odds)))
        logits, gradient = self.looks.logits[1:], np.zeros(self.looks.n_parameters)
        scores = terms.slope + terms.silent * odds[:, None]
        for j, logit in enumerate(logits):
            gradient[logit.place] -= linear.transposed_product(logit.design.take(X), w * scores[:, j])
        own = slice(self.looks.f.n_parameters, None)
        if curvature is Curvature.NONE:
            return Sums(np.asarray(value), gradient[own], np.zeros(0))
        # Of log A the second derivative is -bend; of log P, per look, that of a row without any label.
        unlabelled = -terms.looks * (terms.curve / terms.not_e + (terms.turn / terms.not_e) ** 2)
        matrix = np.zeros((gradient.size, gradient.size))
        for j, one in enumerate(logits):
            seen = one.design.take(X)
            for k, other in enumerate(logits):
                weight = -odds * (1.0 + odds) * terms.silent[:, j] * terms.silent[:, k]
                if j == k:
                    weight = weight + terms.bend[:, j] - odds * unlabelled[:, j]
                matrix[one.place, other.place] += linear.cross_product(seen, w * weight, other.design.take(X))
        found = matrix[own, own]
        return Sums(np.asarray(value), gradient[own], np.diag(found) if curvature is Curvature.DIAGONAL else found)

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Refuse models that are too wide for a matrix: nobody asks about them."""
        raise NotImplementedError

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Refuse models that are too wide for a matrix: nobody asks about them."""
        raise NotImplementedError

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return, for each model, the weighted sum of the squared changes of its logits, in the mean over its looks."""
        (found,) = self.looks.reach(X, rows, np.append(np.zeros(self.looks.f.n_parameters), direction))
        return (found[1:],)

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return, for each model, the matrix whose quadratic form `reach` is."""
        return self.looks.grams(X, rows)[1:]


class NumberSums(NamedTuple):
    """The number of positives among rows that were looked at, with what its variance needs."""

    number: Any  # sum of w / p over labelled rows, or of w f
    variance: Any  # because classes and labels are drawn: sum of w f (1 - f), and of w (1 - p) / p^2 over labelled rows
    gradient: Vector  # of the first, by the parameters of the propensities
    looked_at: Any
    again: Any  # labels after the first of each row


def number_by_histories(
    X: Any, rows: Rows, histories: LabelledHistories, beta: Vector, models: Vector, counts: bool
) -> NumberSums:
    """Return the number by the labelled rows alone; the variance of classes is that of both `models`.

    Weights that are not `counts` of rows are squared in the variance.
    """
    terms, w, odds = histories.terms(X, rows, beta)
    f = histories.looks.terms(X, rows, models).f
    return _number_sums(X, rows, histories, terms, w * (1.0 + odds), odds, f, counts)


def number_by_models(X: Any, rows: Rows, histories: LabelledHistories, models: Vector, counts: bool) -> NumberSums:
    """Return the number by both models, and the variance that they expect of the number by histories."""
    terms = histories.looks.terms(X, rows, models)
    w = rows["w"] * (terms.looks.sum(axis=1) > 0)
    return _number_sums(X, rows, histories, terms, w * terms.f, _odds_of_none(terms, w > 0), terms.f, counts)


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
        slope = number * odds * terms.silent[:, j]  # 1 / p is 1 plus the odds of no label
        gradient[logit.place] += linear.transposed_product(logit.design.take(X), slope)
    drawn = w * f * (1.0 - f) + number * odds
    again = w @ np.maximum(terms.labels.sum(axis=1) - 1.0, 0.0)
    variance = drawn.sum() if counts else rows["w"] @ drawn
    sums = (number.sum(), variance, gradient[looks.f.n_parameters :], w.sum(), again)
    return NumberSums(*(np.asarray(each) for each in sums))


def _odds_of_none(terms: LookTerms, asked: Any) -> Vector:
    """Return the odds of a positive row getting no label at its looks; 0 for rows that nobody asks about."""
    return np.where(asked, 1.0 / np.maximum(np.expm1(np.where(asked, -terms.log_missed, 1.0)), 1e-300), 0.0)
