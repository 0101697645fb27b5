r"""The relaxed pair: a classifier's held-out logits, moved and stretched, together with a logistic propensity.

A penalty that finds the direction of a classifier also shrinks the scale of its logits, and what the classifier then
fails to reach the propensity must explain. Given logits :math:`u_i` that have not seen row `i`'s label, with centre
`m`,

.. math:: f_i = \sigma(t_i), \quad t_i = m + a + e^g (u_i - m), \qquad
    e_i = \sigma(v_i + z_i'\gamma + \gamma_0 + \kappa t_i),

where `z` are the propensity attributes, standardised, and `v` is what else is known of the propensity's logit. With
:math:`\kappa > 0` surer positives are labelled more often; 0 leaves the propensity to its attributes.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from scarless.numerics import likelihood, linear
from scarless.numerics.arrays import Matrix, Rows, Vector
from scarless.numerics.linear import Design
from scarless.numerics.namespace import block, concat, in_float64, like, namespace_of, zeros
from scarless.numerics.objectives import Curvature, Sums

_MAX_COLUMNS_MADE_DENSE = 32  # sparse columns of a block that are quicker dense
_MAX_LOG_SCALE = 50.0  # a logarithm that no ridge lets pass, and that does not overflow on the way


@dataclass(frozen=True)
class RelaxedPair:
    """Minus the observed log-likelihood of the relaxed pair.

    Parameters: ``g``, ``a``, then the propensity's coefficients (per `unit`), then its intercept. With `hold_level` the
    derivatives along ``a`` are 0, so that a solver leaves it where it is. Rows: ``u`` (minus the centre), ``s``, ``w``,
    and ``v`` where something is known.
    """

    convex: ClassVar[bool] = False
    e: Design
    centre: float
    shift: Vector  # mean of the propensity attributes; 0 where they are sparse
    unit: Vector  # their standard deviation
    hold_level: bool = False
    follow: float = 0.0  # the slope of the propensity's logit in the class logit, kappa above

    @property
    def designs(self) -> tuple[Design, ...]:
        """None: the attributes are standardised here, whatever their units."""
        return ()

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return 2 + self.e.n_parameters

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature."""
        s, w = rows["s"], rows["w"]
        stretched, Z, u, v = self.logits(X, rows, beta)
        terms = likelihood.pair_terms(u, v)
        value = -(w @ likelihood.log_likelihood(u, v, s, terms))
        du, dv = likelihood.score(s, terms)
        du = du + self.follow * dv  # a change of the class logit changes both
        gradient = concat([linear.transposed_product(stretched, -w * du), linear.transposed_product(Z, -w * dv)])
        matrix = self._curvature(stretched, Z, rows, (du, terms), curvature)
        if self.hold_level:
            gradient, matrix = _isolated(gradient, 1, 0.0), _isolated(matrix, 1, 1.0)
        return Sums(namespace_of(w).asarray(value), gradient, matrix)

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Matrix:
        """Return each row's expected information of its two logits, ``uu, uv, vv``, and its stretched logit."""
        stretched, _, u, v = self.logits(X, rows, beta)
        a, b = self._fisher_roots(likelihood.pair_terms(u, v))
        information = namespace_of(a).stack([a * a, a * b, b * b], axis=1) * rows["w"][:, None]
        return concat([information, stretched], axis=1)

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the expected information times a direction."""
        uu, uv, vv, stretched = (rows["curvature"][:, j] for j in range(4))
        Z, direction = self._standardised(X), direction * self._moves()
        along_f, along_e = linear.logits(stretched[:, None], direction[:2]), linear.logits(Z, direction[2:])
        of_f = linear.transposed_product(stretched[:, None], uu * along_f + uv * along_e)
        both = concat([of_f, linear.transposed_product(Z, uv * along_f + vv * along_e)])
        return (both * like(both, self._moves()),)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the weighted sums of the squared changes of both logits along a direction, from a slope of 1.

        Steps are limited by these. What the propensity changes by following the class is left out: it is at most
        `follow` times the change of the class, which is limited as well.
        """
        w, direction = rows["w"], direction * self._moves()
        change_f = linear.logits(rows["u"][:, None], direction[:2])
        change_e = linear.logits(self._standardised(X), direction[2:])
        return (namespace_of(w).stack([w @ change_f**2, w @ change_e**2]),)

    def grams(self, X: Any, rows: Rows) -> tuple[Matrix, ...]:
        """Return the matrices whose quadratic forms `reach` is."""
        of_f, of_e = (
            linear.exact_gram(rows["u"][:, None], rows["w"]),
            linear.exact_gram(self._standardised(X), rows["w"]),
        )
        moves = like(of_f, self._moves()[:2])
        return of_f * moves[:, None] * moves, of_e

    def _curvature(self, stretched: Any, Z: Any, rows: Rows, at: Any, curvature: Curvature) -> Matrix:
        (du, terms), w = at, rows["w"]
        if curvature is Curvature.NONE:
            return zeros(w, 0)
        if curvature is Curvature.OBSERVED:
            uu, uv, vv = likelihood.observed_information(rows["s"], terms)
            uu, uv = uu + self.follow * (2.0 * uv + self.follow * vv), uv + self.follow * vv
            ff = linear.cross_product(stretched, w * uu, stretched)
            bend = (w * du) @ stretched[:, 0]  # the logit is not linear in g
            ff = namespace_of(w).where(like(ff, np.diag([1.0, 0.0])) == 1.0, ff - bend, ff)
            fe = linear.cross_product(stretched, w * uv, Z)
            return block([[ff, fe], [fe.T, linear.cross_product(Z, w * vv, Z)]])
        a, b = self._fisher_roots(terms)
        if curvature is Curvature.DIAGONAL:
            return concat([linear.squared_sums(stretched, w * a**2), linear.squared_sums(Z, w * b**2)])
        root = namespace_of(w).sqrt(w)
        return linear.gram([(stretched, root * a), (Z, root * b)])

    def _fisher_roots(self, terms: Any) -> tuple[Any, Any]:
        """Return the roots of the expected information for the class logit, followed by the propensity, and for e."""
        a, b = likelihood.fisher_roots(terms)
        return a + self.follow * b, b

    def _moves(self) -> Vector:
        moves = np.ones(self.n_parameters)
        moves[1] = 0.0 if self.hold_level else 1.0
        return moves

    def logits(self, X: Any, rows: Rows, beta: Vector) -> tuple[Any, Any, Vector, Vector]:
        """Return the stretched logits as a column, the standardised attributes, and both models' logits."""
        stretched = float(np.exp(min(float(beta[0]), _MAX_LOG_SCALE))) * rows["u"]
        Z = self._standardised(X)
        u = float(self.centre + beta[1]) + stretched
        return stretched[:, None], Z, u, rows.get("v", 0.0) + linear.logits(Z, beta[2:]) + self.follow * u

    def _standardised(self, X: Any) -> Any:
        Z = self.e.take(X)
        if sparse.issparse(Z):
            if Z.shape[1] > _MAX_COLUMNS_MADE_DENSE:
                return Z.multiply(1.0 / self.unit).tocsr()
            Z = Z.toarray()
        Z = in_float64(Z)
        return (Z - like(Z, self.shift)) / like(Z, self.unit)


class CentreSums(NamedTuple):
    """Sums over rows for the centre of held-out logits."""

    products: Any
    weight: Any
    total: Any
    everything: Any

    @property
    def centre(self) -> float:
        """The mean of logits weighted by :math:`f(1-f)`: where a change of slope changes probabilities least."""
        return float(self.products / self.weight if self.weight > 0 else self.total / self.everything)


def centre_sums(X: Any, rows: Rows) -> CentreSums:
    """Return the sums for the centre of the logits ``u``.

    Examples
    --------
    >>> round(centre_sums(None, {"u": np.array([-1.0, 1.0, 600.0]), "w": np.ones(3)}).centre, 12)
    0.0
    """
    u, w = rows["u"], rows["w"]
    xp = namespace_of(u)
    half = xp.exp(-0.5 * xp.abs(u))
    weight = w * (half / (1.0 + half**2)) ** 2
    return CentreSums(weight @ u, xp.sum(weight), w @ u, xp.sum(w))


def _isolated(derivatives: Any, i: int, own: float) -> Any:
    """Return derivatives as of a parameter that nothing depends on, and `own` by itself; nothing stays nothing."""
    if derivatives.shape[0] == 0:
        return derivatives
    concerned, instead = np.zeros(derivatives.shape), np.zeros(derivatives.shape)
    concerned[i, ...] = concerned[..., i] = 1.0
    instead[(i,) * instead.ndim] = own
    return namespace_of(derivatives).where(like(derivatives, concerned) == 1.0, like(derivatives, instead), derivatives)
