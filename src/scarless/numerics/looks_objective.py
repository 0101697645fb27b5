"""Block functions for rows with several looks, audits and false positives: sums for the solver and for inference.

A *logit* is a linear function of columns. Several logits can share their parameters: one propensity model can use a
different column at each look.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.numerics import linear, looks
from scarless.numerics.arrays import Matrix, Rows, Vector
from scarless.numerics.likelihood import sigmoid, softplus
from scarless.numerics.linear import Design
from scarless.numerics.looks import LookTerms, Mixing, RowInformation
from scarless.numerics.objectives import Curvature, Logit, PairObjective, Sums
from scarless.numerics.uncertainty import PairSums

_INTERCEPT_ONLY = Design.of(np.arange(0))
_MAX_LOGITS_IN_PAIRS = 4  # With more logits, one product of all columns is faster than products of pairs of logits.


#: Number of nodes of the distribution of a random shift, and of standard deviations on each side of 0 that they cover.
#: Evidence: with three and five looks and standard deviations of 1, 2, 3 and 5, the probability of each number of
#: labels differs from its integral by at most 3e-4, 1e-5, 5e-5 and 2e-2 of itself.
MIXING_NODES, MIXING_RANGE = 31, 5.0
NORMAL, LOW_TAIL, HIGH_TAIL = "normal", "low tail", "high tail"
MIXING_FORMS = (NORMAL, LOW_TAIL, HIGH_TAIL)


@cache
def mixing_of(deviation: float, form: str = NORMAL) -> Mixing:
    """Return the distribution of a random shift with mean 0 and this standard deviation.

    "normal": nodes at equal distances, by the trapezoidal rule, which converges faster here than Gauss-Hermite
    quadrature, because a logistic function of the shift is no polynomial. "low tail": the logarithm of an exponential
    variable, so that many rows are hardly ever labelled; "high tail": its mirror image. Both have nodes at the middle
    quantiles of equal parts.

    Examples
    --------
    >>> shifts, weights = mixing_of(2.0, "low tail")
    >>> round(min(shifts), 1), round(max(shifts), 1), len(weights)
    (-5.8, 3.2, 31)
    """
    if form == NORMAL:
        z = np.linspace(-MIXING_RANGE, MIXING_RANGE, MIXING_NODES)
        w = np.exp(-0.5 * z**2)
    else:
        middle = (np.arange(MIXING_NODES) + 0.5) / MIXING_NODES
        z, w = np.log(-np.log1p(-middle)) * (1.0 if form == LOW_TAIL else -1.0), np.ones(MIXING_NODES)
    w = w / w.sum()
    z = z - w @ z
    z = z * (deviation / np.sqrt(w @ z**2))
    return Mixing(tuple(map(float, z)), tuple(map(float, w)))


@dataclass(frozen=True)
class LooksLikelihood:
    r"""Minus the log-likelihood of labels at several looks, with audits and false positives.

    The parameters are those of ``f``, then those of each propensity model, then the logits of the false positive rates
    that are estimated. `rows` has the numbers of ``labels`` and of ``looks`` for each kind of look, ``audit`` (1, 0 or
    -1) and ``w``. `scarless.numerics.looks` has the formula.
    """

    convex: ClassVar[bool] = False
    observed: ClassVar[tuple[str, ...]] = ("labels", "looks", "audit")
    f: Design
    models: tuple[tuple[Design, ...], ...]  # columns of each propensity model at each kind of look
    # None: no false positives. "shared" or "own": one estimated rate for all kinds of looks, or one for each. A vector:
    # known logits of the rates; NaN for the kinds of looks that share one estimated rate.
    false_positives: Any = None
    offsets: tuple[int, ...] | None = None  # for each kind of look, the column that is added to the propensity's logit
    bounds: tuple[float, float] | None = None  # lower and upper bound of all propensities
    heterogeneity: float = 0.0  # standard deviation of a random shift of the logits of a row's propensities
    mixing_form: str = NORMAL  # form of the distribution of this shift: one of `MIXING_FORMS`

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the attributes; in early model files, `models` was named ``e``."""
        self.__dict__.update({"models" if name == "e" else name: value for name, value in state.items()})

    @property
    def e(self) -> Design:
        """Columns of the first propensity model at its first look."""
        return self.models[0][0]

    @property
    def n_kinds(self) -> int:
        """Number of kinds of looks."""
        return sum(len(model) for model in self.models)

    @property
    def rates(self) -> list[int | None]:
        """Index of the estimated false positive rate of each kind of look; None if it is known or 0."""
        kinds, given = self.n_kinds, self.false_positives
        if given is None:
            return [None] * kinds
        if isinstance(given, str):
            return [0 if given == "shared" else j for j in range(kinds)]
        return [0 if np.isnan(value) else None for value in np.asarray(given, dtype=np.float64)]

    @property
    def n_rates(self) -> int:
        """Number of false positive rates that are estimated."""
        return len({rate for rate in self.rates if rate is not None})

    @property
    def designs(self) -> tuple[Design, ...]:
        """Columns of each model, at the first of its looks."""
        return (self.f, *(model[0] for model in self.models), *[_INTERCEPT_ONLY] * self.n_rates)

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return sum(design.n_parameters for design in self.designs)

    @property
    def places(self) -> list[slice]:
        """Positions of each model's parameters."""
        ends = accumulate((design.n_parameters for design in self.designs), initial=0)
        return [slice(start, end) for start, end in pairwise(ends)]

    @property
    def logits(self) -> list[Logit]:
        """The logits of ``f``, of the propensities, and of the false positive rates that are estimated."""
        places, kinds = self.places, self.n_kinds
        designs = [(design, places[1 + i]) for i, model in enumerate(self.models) for design in model]
        found = [Logit(self.f, places[0], 0), *(Logit(*each, 1 + j) for j, each in enumerate(designs))]
        own = places[1 + len(self.models) :]
        found += [Logit(_INTERCEPT_ONLY, own[r], 1 + kinds + j) for j, r in enumerate(self.rates) if r is not None]
        return found

    def propensity(self, v: Vector) -> Vector:
        """Return the propensities with the logits `v`, within the bounds."""
        low, high = self.bounds or (0.0, 1.0)
        if self.mixing is None:
            return low + (high - low) * sigmoid(v)
        shifted = (w * sigmoid(v + shift) for shift, w in zip(*self.mixing, strict=True))
        return low + (high - low) * np.sum(list(shifted), axis=0)

    @property
    def mixing(self) -> Mixing | None:
        """The distribution of the random shift; None if rows do not differ beyond their columns."""
        return mixing_of(self.heterogeneity, self.mixing_form) if self.heterogeneity else None

    @property
    def at_nodes(self) -> "list[tuple[float, float, LooksLikelihood]]":
        """Return weight, shift and likelihood, without a random shift, for each node of its distribution."""
        alone = replace(self, heterogeneity=0.0)
        return [(w, shift, alone) for shift, w in zip(*(self.mixing or Mixing((0.0,), (1.0,))), strict=True)]

    def log_missed(self, v: Vector) -> Vector:
        """Return the logarithm of one minus the propensity."""
        usual = self.bounds is None and self.mixing is None
        return -softplus(v) if usual else np.log1p(-self.propensity(v))

    def split(self, beta: Vector) -> tuple[Vector, Vector]:
        """Return the parameters of ``f`` and all other parameters."""
        return beta[: self.f.n_parameters], beta[self.f.n_parameters :]

    def logit_values(self, X: Any, beta: Vector) -> list[Vector]:
        """Return the values of all logits, in the order of `logits`."""
        logits = self.logits
        columns: list[Any] = [None] * len(logits)
        for block, mine in self._blocks(X, logits):
            values = linear.logits_of_several(block, [beta[logits[j].place] for j in mine])
            for j, value in zip(mine, values, strict=True):
                columns[j] = value
        for kind, column in enumerate(self.offsets or ()):
            columns[1 + kind] = columns[1 + kind] + self.offset(X, column)
        return columns

    def offset(self, X: Any, column: int) -> Vector:
        """Return the values of a column that is added to the logit of a propensity."""
        return dense_column(X, column)

    def terms(self, X: Any, rows: Rows, beta: Vector) -> LookTerms:
        """Return probabilities and derivatives of each row of a block."""
        logits, kinds = self.logits, self.n_kinds
        columns = self.logit_values(X, beta)
        v, g = np.stack(columns[1 : 1 + kinds]).T, None  # Fortran order, as in all matrices below
        if self.false_positives is not None:
            known = np.nan if isinstance(self.false_positives, str) else self.false_positives
            g = np.empty(v.shape, order="F")
            g[:] = known
            for logit, values in zip(logits[1 + kinds :], columns[1 + kinds :], strict=True):
                g[:, logit.column - 1 - kinds] = values
        labels, seen = (np.asarray(rows[name], dtype=np.float64, order="F") for name in ("labels", "looks"))
        return looks.look_terms(columns[0], v, g, labels, seen, rows["audit"], self.bounds, self.mixing)

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature."""
        terms, w, logits = self.terms(X, rows, beta), rows["w"], self.logits
        scores, gradient = looks.look_scores(terms), np.zeros(self.n_parameters)
        for block, mine in self._blocks(X, logits):
            products = linear.transposed_products(block, np.stack([w * scores[:, logits[j].column] for j in mine]))
            for k, j in enumerate(mine):
                gradient[logits[j].place] -= products[:, k]
        value = -(w @ terms.value)
        if curvature is Curvature.NONE:
            return Sums(np.asarray(value), gradient, np.zeros(0))
        observed = curvature is Curvature.OBSERVED
        found = looks.observed_look_information(terms) if observed else looks.expected_look_information(terms)
        if curvature is Curvature.DIAGONAL:
            return Sums(np.asarray(value), gradient, self._diagonal(X, w, found))
        return Sums(np.asarray(value), gradient, self._matrix(X, w, found))

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        r"""Return :math:`D`, :math:`\omega` and :math:`c` of each row, side by side."""
        terms = self.terms(X, rows, beta)
        observed = curvature is Curvature.OBSERVED
        found = looks.observed_look_information(terms) if observed else looks.expected_look_information(terms)
        w, known = rows["w"][:, None], self._columns()
        return np.concatenate([w * found.diagonal[:, known], w * found.omega[:, None], found.along[:, known]], axis=1)

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the information times a direction."""
        logits = self.logits
        diagonal, omega, along = np.split(rows["curvature"], [len(logits), len(logits) + 1], axis=1)
        steps = self._steps(X, direction)
        weights = diagonal * steps - omega * along * np.sum(along * steps, axis=1, keepdims=True)
        out = np.zeros(self.n_parameters)
        for j, logit in enumerate(logits):
            out[logit.place] += linear.transposed_product(logit.design.take(X), weights[:, j])
        return (out,)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return, for each model, the weighted sum of the squared changes of its logits, averaged over its looks."""
        squares = rows["w"] @ self._steps(X, direction) ** 2
        return (np.array([squares[mine].mean() for mine in self._logits_of_models()]),)

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return, for each model, the matrix of the quadratic form `reach`."""
        grams = [linear.exact_gram(logit.design.take(X), rows["w"]) for logit in self.logits]
        return tuple(np.mean([grams[j] for j in mine], axis=0) for mine in self._logits_of_models())

    def row_log_likelihood(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the log-likelihood of each row."""
        return self.terms(X, rows, beta).value

    def row_posterior(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the posterior of each row: the probability of the positive class given labels and audit."""
        return self.terms(X, rows, beta).q

    def row_posterior_logit(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the logit of `row_posterior`; infinite for rows of known class."""
        terms = self.terms(X, rows, beta)
        return np.where(terms.known, np.where(terms.q == 1, np.inf, -np.inf), terms.odds)

    def row_scores(self, X: Any, rows: Rows, beta: Vector) -> Matrix:
        """Return the derivatives of the log-likelihood by the logits, one column for each, in the order of `logits`."""
        return looks.look_scores(self.terms(X, rows, beta))[:, self._columns()]

    def posterior_slopes(self, X: Any, rows: Rows, beta: Vector) -> Matrix:
        """Return the derivatives of `row_posterior_logit` by the logits; 0 for rows of known class."""
        terms = self.terms(X, rows, beta)
        slopes = looks.observed_look_information(terms).along[:, self._columns()]
        slopes[terms.known] = 0.0
        return slopes

    def row_probabilities(self, X: Any, rows: Rows, beta: Vector) -> tuple[Vector, Vector, Vector]:
        """Return log-likelihood, class probability, and probability of at least one label if the row is positive."""
        terms = self.terms(X, rows, beta)
        return terms.value, terms.f, looks.detected(terms)[0]

    def totals(self, X: Any, rows: Rows, beta: Vector) -> PairSums:
        """Return the sums over a block that class prior, label frequency and their intervals need."""
        terms, w, logits, kinds = self.terms(X, rows, beta), rows["w"], self.logits, self.n_kinds
        found, none = looks.detected(terms)
        fd, fe, of_f = terms.f * found, terms.f[:, None] * terms.e, w * terms.f * terms.not_f
        # The first columns are gradients of three kinds of expected numbers: of positives, of positives with any label,
        # and of positives with a label at each kind of look. The last column has the sums of the table's columns.
        gradients = np.zeros((self.n_parameters, 3 + kinds))
        weights = np.stack([of_f, of_f * found, *(of_f[:, None] * terms.e).T, w])
        gradients[logits[0].place] = linear.transposed_products(logits[0].design.take(X), weights)
        for j, logit in enumerate(logits[1 : 1 + kinds]):
            weights = np.stack(
                [-w * terms.f * none * terms.unlabelled_score[:, j], w * terms.f * terms.e_slope[:, j], w]
            )
            gradients[logit.place, [1, 2 + j, -1]] += linear.transposed_products(logit.design.take(X), weights)
        for logit in logits[1 + kinds :]:
            gradients[logit.place, -1] += w.sum()
        for place, mine in zip(self.places, self._logits_of_models(), strict=True):
            gradients[place, -1] /= len(mine)
        any_label = (terms.labels.sum(axis=1) > 0).astype(np.float64)
        return PairSums(
            log_likelihood=np.asarray(w @ terms.value),
            weight=np.asarray(w.sum()),
            labelled=np.asarray(w @ any_label),
            positives=np.asarray(w @ terms.f),
            labelled_positives=np.asarray(w @ fd),
            propensities=np.asarray(w @ found),
            squares=np.array([w @ terms.f**2, w @ (terms.f * fd), w @ fd**2]),
            positives_gradient=gradients[:, 0],
            labelled_positives_gradient=gradients[:, 1],
            columns=gradients[:, -1],
            by_look=w @ fe,
            by_look_gradient=gradients[:, 2:-1].T,
            by_look_squares=np.array([w @ (terms.f[:, None] * fe), w @ fe**2]),
            audits=np.array([w @ (terms.audited & (terms.q == 1)), w @ (terms.audited & (terms.q == 0))]),
            looks=w @ terms.looks,
            labels=w @ terms.labels,
        )

    @staticmethod
    def _blocks(X: Any, logits: list[Logit]) -> list[tuple[Any, list[int]]]:
        """Return the distinct blocks of columns, each with the logits that use it."""
        blocks = [logit.design.take(X) for logit in logits]
        return [
            (block, [j for j, other in enumerate(blocks) if other is block])
            for i, block in enumerate(blocks)
            if not any(block is other for other in blocks[:i])
        ]

    def _columns(self) -> list[int]:
        """Return the positions of the logits that have parameters; known false positive rates have none."""
        return [logit.column for logit in self.logits]

    def _logits_of_models(self) -> list[list[int]]:
        starts = [logit.place.start for logit in self.logits]
        return [[j for j, start in enumerate(starts) if start == place.start] for place in self.places]

    def _steps(self, X: Any, direction: Vector) -> Matrix:
        return np.stack([linear.logits(logit.design.take(X), direction[logit.place]) for logit in self.logits], axis=1)

    def _diagonal(self, X: Any, w: Vector, found: RowInformation) -> Vector:
        """Return the diagonal of the complete information, a positive upper bound of the expected information."""
        diagonal = np.zeros(self.n_parameters)
        for logit in self.logits:
            diagonal[logit.place] += linear.squared_sums(logit.design.take(X), w * found.diagonal[:, logit.column])
        return diagonal

    def _matrix(self, X: Any, w: Vector, found: RowInformation) -> Matrix:
        """Return the sum of ``[x, 1]' (D - omega c c') [x, 1]`` over rows, for all logits and their parameters."""
        logits = self.logits
        weights = {(j, j): w * found.diagonal[:, logit.column] for j, logit in enumerate(logits)}
        if found.cross.size:
            weights |= {
                (j, k): w * found.cross[:, j - 1, k - 1]
                for j in range(1, 1 + self.n_kinds)
                for k in range(j + 1, 1 + self.n_kinds)
            }
        if not _in_pairs(self):
            lost = sum_of_squares(X, self, w * found.omega, found.along[:, self._columns()])
            return _sum_of_pairs(X, self, weights) - lost
        for j, logit in enumerate(logits):
            lost = w * found.omega * found.along[:, logit.column]
            weights[j, j] -= lost * found.along[:, logit.column]
            for k, other in enumerate(logits[j + 1 :], start=j + 1):
                weights[j, k] = weights.get((j, k), 0.0) - lost * found.along[:, other.column]
        return _sum_of_pairs(X, self, weights)


def sum_of_squares(X: Any, objective: PairObjective, weight: Vector, along: Matrix) -> Matrix:
    r"""Return :math:`\sum_i w_i d_i d_i'` over a block, with :math:`d = \sum_j c_j [x, 1]_j` over a row's logits.

    `along` has one column :math:`c_j` for each logit. Weights must not be negative.
    """
    logits = objective.logits
    if _in_pairs(objective):
        weights: dict[tuple[int, int], Vector] = {}
        for j in range(len(logits)):
            own = weight * along[:, j]
            weights.update({(j, k): own * along[:, k] for k in range(j, len(logits))})
        return _sum_of_pairs(X, objective, weights)
    root = np.sqrt(weight)
    blocks: dict[int, Any] = {}
    for j, logit in enumerate(logits):
        scaled = _scaled_with_ones(logit.design.take(X), root * along[:, j])
        before = blocks.get(logit.place.start)
        blocks[logit.place.start] = scaled if before is None else before + scaled
    parts = [blocks[place.start] for place in objective.places]
    if any(sparse.issparse(part) for part in parts):
        every = sparse.hstack(parts, format="csr")
        return (every.T @ every).toarray()
    every = np.hstack(parts)
    return every.T @ every


def _in_pairs(objective: PairObjective) -> bool:
    return sum(logit.design.n_columns > 0 for logit in objective.logits) <= _MAX_LOGITS_IN_PAIRS


def _sum_of_pairs(X: Any, objective: PairObjective, weights: dict[tuple[int, int], Vector]) -> Matrix:
    """Return the sum of ``[x, 1]_j' w_jk [x, 1]_k`` over rows and over pairs of logits, in both orders."""
    logits, matrix = objective.logits, np.zeros((objective.n_parameters, objective.n_parameters))
    for (j, k), product in linear.products_of_pairs([each.design.take(X) for each in logits], weights).items():
        matrix[logits[j].place, logits[k].place] += product
        if j != k:
            matrix[logits[k].place, logits[j].place] += product.T
    return matrix


def dense_column(X: Any, column: int) -> Vector:
    """Return a column of a block as a dense vector."""
    taken = X[:, [column]]
    return np.asarray(taken.toarray() if sparse.issparse(taken) else taken, dtype=np.float64).ravel()


def _scaled_with_ones(X: Any, scale: Vector) -> Any:
    """Return ``diag(scale) [X, 1]``."""
    if sparse.issparse(X):
        return sparse.hstack([sparse.diags_array(scale) @ X, sparse.csr_array(scale[:, None])], format="csr")
    out = np.empty((X.shape[0], X.shape[1] + 1), dtype=X.dtype)
    np.multiply(X, scale.astype(X.dtype)[:, None], out=out[:, :-1])
    out[:, -1] = scale
    return out


def detection_curve(X: Any, rows: Rows, objective: LooksLikelihood, beta: Vector, order: Any) -> tuple[Vector, Vector]:
    r"""Return the expected numbers of positives with a label after each look in `order`, and of all positives.

    Both are sums over a block. The first numbers are :math:`\sum_i f_i (1 - \prod_{k \le K} (1 - e_{ik}))` for each
    number of looks `K`.
    """
    columns = objective.logit_values(X, beta)
    f, found = sigmoid(columns[0]), np.zeros(len(order))
    for weight, shift, alone in objective.at_nodes:
        missed = np.cumsum([-alone.log_missed(columns[1 + j] + shift) for j in order], axis=0)
        found += weight * (-np.expm1(-missed) @ f)
    return found, np.asarray(f.sum())
