"""Block functions: rows and parameters in, sums over the rows out.

Each objective is minus a log-likelihood, or a convex risk. `sums` gives value, gradient and the curvature asked for;
`row_curvature` and `product` multiply the information with a direction, for models too wide to hold its matrix.
Blocks return sums, never means, so any partition of the rows adds up to the same totals. Rows are numpy's,
sparse, or of any array API namespace, where the sums are then too; parameters are numpy's.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scarless.numerics import likelihood, linear
from scarless.numerics.arrays import Rows, Vector
from scarless.numerics.linear import Design
from scarless.numerics.namespace import concat, namespace_of, zeros
from scarless.numerics.sigmoid import sigmoid_pair


class Curvature(Enum):
    """Which second-order information a pass over the rows collects."""

    NONE = "none"
    EXPECTED = "expected"  # Fisher information: positive semi-definite
    OBSERVED = "observed"  # minus the exact Hessian of the log-likelihood: may be indefinite
    DIAGONAL = "diagonal"  # of the expected information, to precondition products


class Sums(NamedTuple):
    """What a block tells the solver. Added up field by field."""

    value: NDArray[np.float64]
    gradient: NDArray[np.float64]
    curvature: NDArray[np.float64]


class Objective(Protocol):
    """A block function with derivatives."""

    convex: ClassVar[bool]  # one basin only: a solver may take steps of any length

    @property
    def designs(self) -> tuple[Design, ...]:
        """What its linear models see, in the order of their parameters."""
        ...

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        ...

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature, summed over the rows of one block."""
        ...

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Return what each row adds to the expected or observed information of its logits: a line of numbers."""
        ...

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the information times a direction, summed over one block whose rows have their ``curvature``."""
        ...

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return, for each model, the weighted sum of the squared changes of its logits along a direction."""
        ...

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return, for each model, the matrix whose quadratic form `reach` is."""
        ...


@dataclass(frozen=True)
class TargetLogistic:
    r"""Logistic regression on real-valued targets :math:`t \ge 0`.

    .. math:: \sum_i w_i \bigl(\mathrm{softplus}(z_i) - t_i z_i\bigr)

    Convex for every `t`. Plain labels (:math:`t=s`), posteriors (:math:`t=q`) and the propensity-weighted
    log loss (:math:`t=s/e`) are one problem. Rows: ``t``, ``w``.
    """

    convex: ClassVar[bool] = True
    design: Design

    @property
    def designs(self) -> tuple[Design, ...]:
        """What its linear models see."""
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
        # softplus(z) - t z with max(z, 0) merged into the linear part: nothing large is subtracted.
        value = xp.log1p(xp.exp(-xp.abs(z))) + xp.where(z > 0, (1.0 - t) * z, -t * z)
        residual = xp.where(z > 0, (1.0 - t) - not_p, p - t)
        gradient = linear.transposed_product(X, w * residual)
        weight = w * p * not_p
        return Sums(xp.asarray(w @ value), gradient, _single_curvature(X, weight, curvature))

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> NDArray[np.float64]:
        """Return each row's weight in the information; expected and observed coincide."""
        p, not_p = sigmoid_pair(linear.logits(self.design.take(X), beta))
        return rows["w"] * p * not_p

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the information times a direction."""
        return (_information_product(self.design.take(X), rows["curvature"], direction),)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the weighted sum of the squared changes of the logits along a direction."""
        return (_squared_change(self.design.take(X), rows["w"], direction),)

    def grams(self, X: Any, rows: Rows) -> tuple[NDArray[np.float64], ...]:
        """Return the matrix whose quadratic form `reach` is."""
        return (linear.exact_gram(self.design.take(X), rows["w"]),)


@dataclass(frozen=True)
class KnownPropensity:
    r"""Likelihood of the labels under a logistic ``f`` and propensities that are given.

    Rows: ``s``, ``w`` and ``v``, the logit of the propensity (``+inf`` where it is 1).
    """

    convex: ClassVar[bool] = False
    design: Design

    @property
    def designs(self) -> tuple[Design, ...]:
        """What its linear models see."""
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
        """Return the matrix whose quadratic form `reach` is."""
        return (linear.exact_gram(self.design.take(X), rows["w"]),)


@dataclass(frozen=True)
class LogisticPair:
    r"""Likelihood of the labels under two logistic models: ``f`` of the class, ``e`` of the labelling.

    Parameters are those of ``f``, then those of ``e``. Rows: ``s``, ``w``.
    """

    convex: ClassVar[bool] = False
    f: Design
    e: Design

    @property
    def designs(self) -> tuple[Design, ...]:
        """What its linear models see."""
        return self.f, self.e

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return self.f.n_parameters + self.e.n_parameters

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
        """Return, for each model, the matrix whose quadratic form `reach` is."""
        return linear.exact_gram(self.f.take(X), rows["w"]), linear.exact_gram(self.e.take(X), rows["w"])

    def _logits(self, X: Any, beta: Vector) -> tuple[Any, Any, Vector, Vector]:
        X_f, X_e = self.f.take(X), self.e.take(X)
        beta_f, beta_e = self.split(beta)
        return X_f, X_e, linear.logits(X_f, beta_f), linear.logits(X_e, beta_e)


def _single_curvature(X: Any, weight: Vector, curvature: Curvature) -> NDArray[np.float64]:
    """Return the information of one model with non-negative row weights, in the shape asked for."""
    if curvature is Curvature.NONE:
        return zeros(X, 0)
    if curvature is Curvature.DIAGONAL:
        return linear.squared_sums(X, weight)
    return linear.gram([(X, namespace_of(X).sqrt(weight))])


def _squared_change(X: Any, w: Vector, direction: Vector) -> Vector:
    return namespace_of(X).stack([w @ linear.logits(X, direction) ** 2])


def _information_product(X: Any, weight: Vector, direction: Vector) -> Vector:
    return linear.transposed_product(X, weight * linear.logits(X, direction))
