"""Objectives: functions of a block of rows and of parameters that return sums over the rows.

Each objective is minus a log-likelihood, or a convex risk. `sums` returns value, gradient and the requested curvature.
`row_curvature` and `product` multiply the information matrix with a direction, for models with too many parameters to
form the matrix. All results are sums, never means, so any division into blocks gives the same totals. Blocks are NumPy
arrays, sparse matrices, or arrays of any array API namespace; sums stay in the namespace of the block. Parameters are
NumPy vectors.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scarless.numerics import likelihood, linear
from scarless.numerics.arrays import Matrix, Rows, Vector, concat, namespace_of, zeros
from scarless.numerics.likelihood import sigmoid, sigmoid_pair, softplus
from scarless.numerics.linear import Design
from scarless.numerics.looks import LookTerms, look_terms
from scarless.numerics.uncertainty import PairSums


class Curvature(Enum):
    """Which second-order information a pass over the rows collects."""

    NONE = "none"
    EXPECTED = "expected"  # Fisher information: positive semi-definite
    OBSERVED = "observed"  # minus the exact Hessian of the log-likelihood: may be indefinite
    DIAGONAL = "diagonal"  # diagonal of the expected information, the preconditioner of conjugate gradients


class Sums(NamedTuple):
    """Sums over a block for the solver. Blocks are added field by field."""

    value: NDArray[np.float64]
    gradient: NDArray[np.float64]
    curvature: NDArray[np.float64]


class Objective(Protocol):
    """An objective over blocks of rows, with derivatives."""

    convex: ClassVar[bool]  # If True, there is only one optimum, and a solver may take steps of any length.

    @property
    def designs(self) -> tuple[Design, ...]:
        """Columns of the linear models, in the order of their parameters."""
        ...

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        ...

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature, summed over the rows of one block."""
        ...

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Return each row's expected or observed information of its logits, one line for each row."""
        ...

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the information times a direction, summed over one block.

        ``rows["curvature"]`` is the result of `row_curvature`.
        """
        ...

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return, for each model, the weighted sum of the squared changes of its logits along a direction."""
        ...

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return, for each model, the matrix of the quadratic form `reach`."""
        ...


class Logit(NamedTuple):
    """A linear function of columns, with the positions of its parameters and of its values."""

    design: Design
    place: slice  # positions of its parameters in the parameter vector
    column: int  # its column in matrices with one column for each logit of a row


class PairObjective(Objective, Protocol):
    """The likelihood of a class model ``f`` and one or more propensity models, for one or more looks.

    The parameters are those of ``f``, then those of each propensity model, then the logits of the false positive rates
    that are estimated. Methods named ``row_...`` return one number, or one line, for each row of a block.
    """

    observed: ClassVar[tuple[str, ...]]  # names of the observed values of the rows, besides the weight ``w``

    @property
    def f(self) -> Design:
        """Columns of the class model."""
        ...

    @property
    def e(self) -> Design:
        """Columns of the first propensity model at the first kind of look."""
        ...

    @property
    def models(self) -> tuple[tuple[Design, ...], ...]:
        """Columns of each propensity model at each kind of look."""
        ...

    @property
    def false_positives(self) -> Any:
        """Which false positive rates are known and which are estimated; None if there are no false positives."""
        ...

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The column that is added to the logit of the propensity, for each kind of look."""
        ...

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The bounds of all propensities."""
        ...

    @property
    def heterogeneity(self) -> float:
        """Standard deviation of the random shift of the logits of a row's propensities; 0 without a shift."""
        ...

    @property
    def n_kinds(self) -> int:
        """Number of kinds of looks."""
        ...

    @property
    def rates(self) -> list[int | None]:
        """Index of the estimated false positive rate of each kind of look; None if it is known or 0."""
        ...

    @property
    def n_rates(self) -> int:
        """Number of false positive rates that are estimated."""
        ...

    @property
    def places(self) -> list[slice]:
        """Positions of each model's parameters."""
        ...

    @property
    def logits(self) -> list[Logit]:
        """The logits of ``f``, of the propensities, and of the false positive rates that are estimated."""
        ...

    def split(self, beta: Vector) -> tuple[Vector, Vector]:
        """Return the parameters of ``f`` and all other parameters."""
        ...

    def propensity(self, v: Vector) -> Vector:
        """Return the propensities with the logits `v`."""
        ...

    def log_missed(self, v: Vector) -> Vector:
        """Return the logarithm of one minus the propensity."""
        ...

    def logit_values(self, X: Any, beta: Vector) -> list[Vector]:
        """Return the values of all logits, in the order of `logits`."""
        ...

    def terms(self, X: Any, rows: Rows, beta: Vector) -> LookTerms:
        """Return probabilities and derivatives of each row, with one column for each kind of look."""
        ...

    def row_log_likelihood(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the log-likelihood of each row."""
        ...

    def row_posterior(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the posterior of each row: the probability of the positive class given labels and audit."""
        ...

    def row_posterior_logit(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the logit of `row_posterior`; infinite for rows of known class."""
        ...

    def row_scores(self, X: Any, rows: Rows, beta: Vector) -> Matrix:
        """Return the derivatives of the log-likelihood by the logits, one column for each, in the order of `logits`."""
        ...

    def posterior_slopes(self, X: Any, rows: Rows, beta: Vector) -> Matrix:
        """Return the derivatives of `row_posterior_logit` by the logits; 0 for rows of known class."""
        ...

    def row_probabilities(self, X: Any, rows: Rows, beta: Vector) -> tuple[Vector, Vector, Vector]:
        """Return log-likelihood, class probability, and probability of at least one label if the row is positive."""
        ...

    def totals(self, X: Any, rows: Rows, beta: Vector) -> PairSums:
        """Return the sums over a block that class prior, label frequency and their intervals need."""
        ...


@dataclass(frozen=True)
class TargetLogistic:
    r"""Logistic regression on real-valued targets :math:`t \ge 0`.

    .. math:: \sum_i w_i \bigl(\mathrm{softplus}(z_i) - t_i z_i\bigr)

    The objective is convex for every `t`. Targets can be labels (:math:`t=s`), posteriors (:math:`t=q`), or
    :math:`t=s/e` for the propensity-weighted log loss. `rows` has ``t`` and ``w``.
    """

    convex: ClassVar[bool] = True
    design: Design

    @property
    def designs(self) -> tuple[Design, ...]:
        """Columns of the linear models."""
        return (self.design,)

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return self.design.n_parameters

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature; expected and observed information coincide."""
        X = self.design.take(X)
        xp, t, w = namespace_of(X), rows["t"], rows["w"]
        z = linear.logits(X, beta)
        p, not_p = sigmoid_pair(z)
        # softplus(z) - t z, with max(z, 0) moved into the linear part to avoid cancellation of large numbers.
        value = xp.log1p(xp.exp(-xp.abs(z))) + xp.where(z > 0, (1.0 - t) * z, -t * z)
        residual = xp.where(z > 0, (1.0 - t) - not_p, p - t)
        gradient = linear.transposed_product(X, w * residual)
        weight = w * p * not_p
        return Sums(xp.asarray(w @ value), gradient, _single_curvature(X, weight, curvature))

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Return each row's weight in the information; expected and observed information coincide."""
        p, not_p = sigmoid_pair(linear.logits(self.design.take(X), beta))
        return rows["w"] * p * not_p

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the information times a direction."""
        return (_information_product(self.design.take(X), rows["curvature"], direction),)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the weighted sum of the squared changes of the logits along a direction."""
        return (_squared_change(self.design.take(X), rows["w"], direction),)

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return the matrix of the quadratic form `reach`."""
        return (linear.exact_gram(self.design.take(X), rows["w"]),)


@dataclass(frozen=True)
class KnownPropensity:
    r"""Minus the log-likelihood of the labels under a logistic ``f`` and known propensities.

    .. math:: -\sum_i w_i \bigl[s_i \log(f_i e_i) + (1 - s_i) \log(1 - f_i e_i)\bigr]

    `rows` has ``s``, ``w`` and ``v``, the logit of the propensity (``+inf`` if the propensity is 1).
    """

    convex: ClassVar[bool] = False
    design: Design

    @property
    def designs(self) -> tuple[Design, ...]:
        """Columns of the linear models."""
        return (self.design,)

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return self.design.n_parameters

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature."""
        X = self.design.take(X)
        s, w, v = rows["s"], rows["w"], rows["v"]
        u = linear.logits(X, beta)
        terms = likelihood.pair_terms(u, v)
        value = -(w @ likelihood.log_likelihood(u, v, s, terms))
        du, _ = likelihood.score(s, terms)
        if curvature is Curvature.OBSERVED:
            weight = w * likelihood.observed_information(s, terms)[0]
            matrix = linear.cross_product(X, weight, X)
        else:
            matrix = _single_curvature(X, w * likelihood.fisher_roots(terms)[0] ** 2, curvature)
        return Sums(namespace_of(X).asarray(value), linear.transposed_product(X, -w * du), matrix)

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Return each row's weight in the information."""
        terms = likelihood.pair_terms(linear.logits(self.design.take(X), beta), rows["v"])
        if curvature is Curvature.OBSERVED:
            return rows["w"] * likelihood.observed_information(rows["s"], terms)[0]
        return rows["w"] * likelihood.fisher_roots(terms)[0] ** 2

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the information times a direction."""
        return (_information_product(self.design.take(X), rows["curvature"], direction),)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the weighted sum of the squared changes of the logits along a direction."""
        return (_squared_change(self.design.take(X), rows["w"], direction),)

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return the matrix of the quadratic form `reach`."""
        return (linear.exact_gram(self.design.take(X), rows["w"]),)


@dataclass(frozen=True)
class LogisticPair:
    r"""Minus the log-likelihood of the labels under two logistic models: ``f`` of the class, ``e`` of the labelling.

    .. math:: -\sum_i w_i \bigl[s_i \log(f_i e_i) + (1 - s_i) \log(1 - f_i e_i)\bigr]

    The parameters are those of ``f``, then those of ``e``. `rows` has ``s`` and ``w``. This is the fast special case of
    `scarless.numerics.looks_objective.LooksLikelihood` with one look at every row, no audit and no false positives.
    """

    convex: ClassVar[bool] = False
    observed: ClassVar[tuple[str, ...]] = ("s",)
    false_positives: ClassVar[None] = None
    offsets: ClassVar[None] = None
    bounds: ClassVar[None] = None
    heterogeneity: ClassVar[float] = 0.0
    n_kinds: ClassVar[int] = 1
    n_rates: ClassVar[int] = 0
    f: Design
    e: Design

    @property
    def models(self) -> tuple[tuple[Design, ...], ...]:
        """Columns of the only propensity model at the only look."""
        return ((self.e,),)

    @property
    def rates(self) -> list[int | None]:
        """No false positive rate is estimated."""
        return [None]

    @property
    def designs(self) -> tuple[Design, ...]:
        """Columns of the linear models."""
        return self.f, self.e

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return self.f.n_parameters + self.e.n_parameters

    @property
    def places(self) -> list[slice]:
        """Positions of each model's parameters."""
        return [slice(0, self.f.n_parameters), slice(self.f.n_parameters, self.n_parameters)]

    @property
    def logits(self) -> list[Logit]:
        """The logits of ``f`` and of ``e``."""
        of_f, of_e = self.places
        return [Logit(self.f, of_f, 0), Logit(self.e, of_e, 1)]

    def split(self, beta: Vector) -> tuple[Vector, Vector]:
        """Return the parameters of ``f`` and of ``e``."""
        return beta[: self.f.n_parameters], beta[self.f.n_parameters :]

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature."""
        s, w = rows["s"], rows["w"]
        X_f, X_e, u, v = self._logits(X, beta)
        terms = likelihood.pair_terms(u, v)
        value = -(w @ likelihood.log_likelihood(u, v, s, terms))
        du, dv = likelihood.score(s, terms)
        gradient = concat([linear.transposed_product(X_f, -w * du), linear.transposed_product(X_e, -w * dv)])
        if curvature is Curvature.OBSERVED:
            uu, uv, vv = likelihood.observed_information(s, terms)
            of_f = linear.cross_products(X_f, [(w * uu, X_f), (w * uv, X_e)])
            ee = linear.cross_product(X_e, w * vv, X_e)
            matrix = concat([of_f, concat([of_f[:, self.f.n_parameters :].T, ee], axis=1)])
        elif curvature is Curvature.NONE:
            matrix = zeros(X, 0)
        else:
            a, b = likelihood.fisher_roots(terms)
            if curvature is Curvature.DIAGONAL:
                matrix = concat([linear.squared_sums(X_f, w * a**2), linear.squared_sums(X_e, w * b**2)])
            else:
                root = namespace_of(X).sqrt(w)
                matrix = linear.gram([(X_f, root * a), (X_e, root * b)])
        return Sums(namespace_of(X).asarray(value), gradient, matrix)

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Return each row's information of its two logits: ``uu, uv, vv``."""
        s, w = rows["s"], rows["w"]
        _, _, u, v = self._logits(X, beta)
        terms = likelihood.pair_terms(u, v)
        if curvature is Curvature.OBSERVED:
            return namespace_of(X).stack(likelihood.observed_information(s, terms), axis=1) * w[:, None]
        a, b = likelihood.fisher_roots(terms)
        return namespace_of(X).stack([a * a, a * b, b * b], axis=1) * w[:, None]

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the information times a direction."""
        X_f, X_e, along_f, along_e = self._logits(X, direction)
        uu, uv, vv = (rows["curvature"][:, j] for j in range(3))
        of_f = linear.transposed_product(X_f, uu * along_f + uv * along_e)
        return (concat([of_f, linear.transposed_product(X_e, uv * along_f + vv * along_e)]),)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the weighted sums of the squared changes of both models' logits along a direction."""
        along_f, along_e = self.split(direction)
        change_f = _squared_change(self.f.take(X), rows["w"], along_f)
        return (concat([change_f, _squared_change(self.e.take(X), rows["w"], along_e)]),)

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return, for each model, the matrix of the quadratic form `reach`."""
        return linear.exact_gram(self.f.take(X), rows["w"]), linear.exact_gram(self.e.take(X), rows["w"])

    def propensity(self, v: Vector) -> Vector:
        """Return the propensities with the logits `v`."""
        return sigmoid(v)

    def log_missed(self, v: Vector) -> Vector:
        """Return the logarithm of one minus the propensity."""
        return -softplus(v)

    @property
    def at_nodes(self) -> "list[tuple[float, float, LogisticPair]]":
        """Return weight, shift and likelihood of the only node: without looks, rows have no random shift."""
        return [(1.0, 0.0, self)]

    def logit_values(self, X: Any, beta: Vector) -> list[Vector]:
        """Return the values of both logits."""
        return list(self._logits(X, beta)[2:])

    def terms(self, X: Any, rows: Rows, beta: Vector) -> LookTerms:
        """Return probabilities and derivatives of each row, with one column for the only look."""
        (u, v), s = self.logit_values(X, beta), rows["s"]
        one = namespace_of(s).ones_like(s)
        return look_terms(u, v[:, None], None, s[:, None], one[:, None], -one)

    def row_log_likelihood(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the log-likelihood of each row's label."""
        u, v = self.logit_values(X, beta)
        return likelihood.log_likelihood(u, v, rows["s"], likelihood.pair_terms(u, v))

    def row_posterior(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the posterior of each row: the probability of the positive class given the label."""
        q = likelihood.pair_terms(*self.logit_values(X, beta)).q
        return namespace_of(q).where(rows["s"] == 1, 1.0, q)

    def row_posterior_logit(self, X: Any, rows: Rows, beta: Vector) -> Vector:
        """Return the logit of `row_posterior`; infinite for labelled rows."""
        u, v = self.logit_values(X, beta)
        return namespace_of(u).where(rows["s"] == 1, float("inf"), u - softplus(v))

    def row_scores(self, X: Any, rows: Rows, beta: Vector) -> Matrix:
        """Return the derivatives of the log-likelihood by both logits."""
        terms = likelihood.pair_terms(*self.logit_values(X, beta))
        return namespace_of(terms.f).stack(likelihood.score(rows["s"], terms), axis=1)

    def posterior_slopes(self, X: Any, rows: Rows, beta: Vector) -> Matrix:
        """Return the derivatives of `row_posterior_logit` by both logits; 0 for labelled rows."""
        _, v = self.logit_values(X, beta)
        xp, unlabelled = namespace_of(v), rows["s"] == 0
        return xp.stack([xp.where(unlabelled, 1.0, xp.zeros_like(v)), xp.where(unlabelled, -sigmoid(v), 0.0)], axis=1)

    def row_probabilities(self, X: Any, rows: Rows, beta: Vector) -> tuple[Vector, Vector, Vector]:
        """Return log-likelihood, class probability and propensity."""
        u, v = self.logit_values(X, beta)
        terms = likelihood.pair_terms(u, v)
        return likelihood.log_likelihood(u, v, rows["s"], terms), terms.f, terms.e

    def totals(self, X: Any, rows: Rows, beta: Vector) -> PairSums:
        """Return the sums over a block that class prior, label frequency and their intervals need."""
        xp, s, w = namespace_of(X), rows["s"], rows["w"]
        X_f, X_e, u, v = self._logits(X, beta)
        terms = likelihood.pair_terms(u, v)
        labelled = terms.f * terms.e

        by_u = linear.transposed_products(X_f, xp.stack([w * terms.f * terms.not_f, w * labelled * terms.not_f, w]))
        by_v = linear.transposed_products(X_e, xp.stack([xp.zeros_like(w), w * labelled * terms.not_e, w]))
        positives, labelled_positives, columns = (concat([by_u[:, j], by_v[:, j]]) for j in range(3))
        return PairSums(
            log_likelihood=xp.asarray(w @ likelihood.log_likelihood(u, v, s, terms)),
            weight=xp.asarray(xp.sum(w)),
            labelled=xp.asarray(w @ s),
            positives=xp.asarray(w @ terms.f),
            labelled_positives=xp.asarray(w @ labelled),
            propensities=xp.asarray(w @ terms.e),
            squares=xp.stack([w @ terms.f**2, w @ (terms.f * labelled), w @ labelled**2]),
            positives_gradient=positives,
            labelled_positives_gradient=labelled_positives,
            columns=columns,
        ).of_one_look()

    def _logits(self, X: Any, beta: Vector) -> tuple[Any, Any, Vector, Vector]:
        X_f, X_e = self.f.take(X), self.e.take(X)
        beta_f, beta_e = self.split(beta)
        return X_f, X_e, linear.logits(X_f, beta_f), linear.logits(X_e, beta_e)


def _single_curvature(X: Any, weight: Vector, curvature: Curvature) -> NDArray[np.float64]:
    """Return the requested curvature of one model with non-negative row weights."""
    if curvature is Curvature.NONE:
        return zeros(X, 0)
    if curvature is Curvature.DIAGONAL:
        return linear.squared_sums(X, weight)
    return linear.gram([(X, namespace_of(X).sqrt(weight))])


def _squared_change(X: Any, w: Vector, direction: Vector) -> Vector:
    return namespace_of(X).stack([w @ linear.logits(X, direction) ** 2])


def _information_product(X: Any, weight: Vector, direction: Vector) -> Vector:
    return linear.transposed_product(X, weight * linear.logits(X, direction))
