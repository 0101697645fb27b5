r"""The likelihood of a recalibrated pair: out-of-fold class logits, shifted and scaled, and a propensity model.

Regularisation shrinks the logits of a classifier. The class model then explains too little of the labels, and the
propensity model too much. The logits :math:`u_i` come from models that were not trained on row `i`. With their centre
`m`, the recalibrated pair is

.. math:: f_i = \sigma(t_i), \quad t_i = m + a + e^g (u_i - m), \qquad
    \mathrm{logit}\, e_i = v_i + z_i'\gamma + \gamma_0 + \kappa t_i,

where `z` are the standardised propensity attributes, and `v` are logits of a propensity estimator (optional). With
:math:`\kappa > 0`, rows with a higher class probability are labelled more often. The likelihood is that of any
`PairObjective` on the table :math:`[e^g(u - m), v, z]`. Its derivatives follow by the chain rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from scarless.numerics.arrays import (
    Columns,
    Matrix,
    Rows,
    Vector,
    at_least,
    at_most,
    concat,
    in_float64,
    like,
    namespace_of,
)
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, PairObjective, Sums

_MAX_COLUMNS_MADE_DENSE = 32  # up to this number, sparse columns of a block are faster as a dense array
_MAX_LOG_SCALE = 50.0  # upper bound of g, which avoids overflow; the penalty keeps the optimum far below this bound
_MAX_GIVEN_LOGIT = 1e6  # finite stand-in for the infinite logit of a propensity of 1
SLOPE, SHIFT = 0, 1  # positions of ``g`` (logarithm of the slope) and ``a`` (shift) among the parameters


@dataclass(frozen=True)
class RecalibratedPair:
    """Minus the log-likelihood of the recalibrated pair, computed by the likelihood of an ordinary pair.

    The parameters are ``g``, ``a``, then the parameters of the propensity models for standardised columns, then those
    of the false positive rates. Parameters that are `held` have derivatives of 0, so the solver does not change them.
    `rows` has ``u`` (minus the centre), ``v`` if it is `given`, ``w`` and the observed values of the pair.
    """

    convex: ClassVar[bool] = False
    inner: PairObjective  # likelihood on the table that the method `table` returns
    seen: Design  # columns of the propensity models
    centre: float  # m in the formula
    shift: Vector  # means of the columns; 0 if they are sparse
    unit: Vector  # standard deviations of the columns
    follow: float = 0.0  # slope of the propensity's logit in the class logit, kappa in the formula
    given: bool = False  # whether a propensity estimator gives the logits v
    hold: Vector | None = None  # added to the parameters after `a`, which are then differences from `hold`
    held: tuple[int, ...] = ()  # positions of parameters that are not fitted
    pivot: float = 0.0  # logit, minus the centre, at which a change of the slope does not change the class logit

    @classmethod
    def of(
        cls, template: PairObjective, centre: float, shift: Vector, unit: Vector, *, given: bool = False, **options: Any
    ) -> "RecalibratedPair":
        """Build the objective from the likelihood of a pair on the table; its class model is replaced.

        `shift` and `unit` belong to the columns that `columns_of_propensities` returns, in the same order.
        """
        columns = columns_of_propensities(template)
        before = [0] * (options.get("follow", 0.0) != 0) + [1] * given
        inner = moved_to_logits(template, columns, 1 + given, before)
        return cls(inner, Design.of(columns), centre, shift, unit, given=given, **options)

    @property
    def designs(self) -> tuple[Design, ...]:
        """Empty, because this class standardises the attributes itself."""
        return ()

    @property
    def n_parameters(self) -> int:
        """Length of the parameter vector."""
        return 2 + sum(part.stop - part.start for part in self._free)

    def sums(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Sums:
        """Return value, gradient and curvature."""
        table, at = self.table(X, rows, beta), self.inside(beta)
        found = self.chained(self.inner.sums(table, rows, at, curvature), curvature)
        if curvature is Curvature.DIAGONAL and self.follow:
            return found._replace(curvature=self._diagonal(table, rows, at, found.curvature))
        return found

    def chained(self, sums: Sums, curvature: Curvature, *, own: float = 1.0) -> Sums:
        """Return derivatives by the parameters of this pair, from derivatives by those of the inner likelihood.

        The scaled logits are a column with coefficient 1. The derivative by ``g`` equals the derivative by this
        coefficient. The column itself depends on ``g``, which adds the gradient to the second derivative by ``g``. For
        parameters that are held, the diagonal of the curvature is `own`.
        """
        gradient, matrix = self._from_inner(sums.gradient), sums.curvature
        if matrix.ndim == 2:
            matrix = self._from_inner(self._from_inner(matrix).T)
            if curvature is Curvature.OBSERVED:
                at_slope = np.zeros(matrix.shape)
                at_slope[SLOPE, SLOPE] = 1.0
                matrix = matrix + like(matrix, at_slope) * gradient[SLOPE]
        elif matrix.shape[0]:
            matrix = concat([matrix[:2], *(matrix[part] for part in self._free)])
        for i in self.held:
            gradient, matrix = _decoupled(gradient, i, 0.0), _decoupled(matrix, i, own)
        return Sums(sums.value, gradient, matrix)

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Matrix:
        """Return each row's expected information of its logits, and its scaled logit."""
        scaled = self._scaled_logits(rows, beta)
        found = self.inner.row_curvature(self._assembled(X, scaled, rows), rows, self.inside(beta), Curvature.EXPECTED)
        return concat([found, scaled[:, None]], axis=1)

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the expected information times a direction."""
        curvature = rows["curvature"]
        table, inner_rows = self._assembled(X, curvature[:, -1], rows), {**rows, "curvature": curvature[:, :-1]}
        (out,) = self.inner.product(table, inner_rows, self._to_inner(direction * self._free_mask()))
        found = self._from_inner(out)
        return (found * like(found, self._free_mask()),)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return, for each model, the weighted sum of the squared changes of its logits, at a slope of 1.

        The solver limits its steps by these sums. The change of the propensity by `follow` is left out: it is at most
        `follow` times the change of the class logits, which is limited too.
        """
        along = self._to_inner(direction * self._free_mask(), follow=0.0)
        return self.inner.reach(self._assembled(X, rows["u"] - self.pivot, rows), rows, along)

    def grams(self, X: Any, rows: Rows) -> tuple[Matrix, ...]:
        """Return the matrices of the quadratic forms `reach`."""
        of_f, *others = self.inner.grams(self._assembled(X, rows["u"] - self.pivot, rows), rows)
        free, n_models = like(of_f, self._free_mask()[:2]), len(self.inner.models)
        of_models = [each[self._n_before :, self._n_before :] for each in others[:n_models]]
        return of_f * free[:, None] * free, *of_models, *others[n_models:]

    def table(self, X: Any, rows: Rows, beta: Vector) -> Any:
        """Return the block for the inner likelihood: scaled logits, given logits, standardised attributes."""
        return self._assembled(X, self._scaled_logits(rows, beta), rows)

    def inside(self, beta: Vector) -> Vector:
        """Return the parameters of the inner likelihood."""
        others = beta[2:] if self.hold is None else beta[2:] + self.hold
        at = self._to_inner(np.concatenate([[1.0, self.centre + beta[SHIFT]], others]))
        if self.given:
            at[[place.start + self._n_before - 1 for place in self._places]] = 1.0
        return at

    def turned(self, beta: Vector, pivot: float) -> Vector:
        """Return the parameters of the same models for another pivot."""
        new = beta.copy()
        new[SHIFT] += float(np.exp(min(float(beta[SLOPE]), _MAX_LOG_SCALE))) * (pivot - self.pivot)
        return new

    def standardised(self, others: Vector) -> Vector:
        """Return the parameters for standardised attributes from those in the units of the table."""
        return self._in_units(others, self.unit, self.shift)

    def in_table_units(self, others: Vector) -> Vector:
        """Return the parameters in the units of the table from those for standardised attributes."""
        return self._in_units(others, 1.0 / self.unit, -self.shift / self.unit)

    @property
    def parameter_units(self) -> Vector:
        """Ratio of each parameter for standardised attributes to the same parameter in the units of the table."""
        units = np.ones(self.n_parameters - 2)
        for part, columns in self._coefficients():
            units[part] = self.unit[columns]
        return units

    @property
    def intercepts(self) -> list[int]:
        """Positions of the propensities' intercepts among the parameters."""
        return [2 + part.stop for part, _ in self._coefficients()]

    def _in_units(self, others: Vector, unit: Vector, shift: Vector) -> Vector:
        new = others.copy()
        for part, columns in self._coefficients():
            new[part] = others[part] * unit[columns]
            new[part.stop] += others[part] @ shift[columns]
        return new

    def _coefficients(self) -> list[tuple[slice, Columns]]:
        """Return, for each propensity model, the positions of its coefficients and their columns.

        Positions are counted from the third parameter. Columns are those of the first kind of look; the columns of all
        kinds of looks have the same shift and unit.
        """
        found, start, n_given = [], 0, 1 + self.given
        for model in self.inner.models:
            columns = model[0].indices[self._n_before :] - n_given
            found.append((slice(start, start + columns.size), columns))
            start += columns.size + 1
        return found

    @property
    def _n_before(self) -> int:
        """Number of leading coefficients of each propensity model that are constant."""
        return int(self.follow != 0) + int(self.given)

    @property
    def _places(self) -> list[slice]:
        return self.inner.places[1 : 1 + len(self.inner.models)]

    @property
    def _free(self) -> list[slice]:
        """Positions of the inner parameters that are fitted, without those of the class model."""
        places = self._places
        last = slice(places[-1].stop, self.inner.n_parameters)
        return [*(slice(place.start + self._n_before, place.stop) for place in places), last]

    def _to_inner(self, direction: Vector, follow: float | None = None) -> Vector:
        """Return the change of the inner parameters along a direction."""
        out, start, follow = np.zeros(self.inner.n_parameters), 2, self.follow if follow is None else follow
        out[:2] = direction[:2]
        for part in self._free:
            out[part] = direction[start : start + part.stop - part.start]
            start += part.stop - part.start
        if follow:
            for place in self._places:
                out[place.start] += follow * direction[SLOPE]
                out[place.stop - 1] += follow * direction[SHIFT]
        return out

    def _from_inner(self, derivatives: Any) -> Any:
        """Return derivatives by the parameters from derivatives by the inner parameters, along the first axis."""
        of_slope, of_shift = derivatives[0:1, ...], derivatives[1:2, ...]
        if self.follow:
            for place in self._places:
                of_slope = of_slope + self.follow * derivatives[place.start : place.start + 1, ...]
                of_shift = of_shift + self.follow * derivatives[place.stop - 1 : place.stop, ...]
        return concat([of_slope, of_shift, *(derivatives[part, ...] for part in self._free)])

    def _diagonal(self, table: Any, rows: Rows, at: Vector, diagonal: Any) -> Any:
        """Return the diagonal of the expected information if class parameters change the propensities too."""
        curvature = self.inner.row_curvature(table, rows, at, Curvature.EXPECTED)
        of_class = []
        for i in (SLOPE, SHIFT):
            along = self._to_inner(np.eye(self.n_parameters)[i])
            (product,) = self.inner.product(table, {**rows, "curvature": curvature}, along)
            of_class.append((like(product, along) @ product)[None])
        found = concat([*of_class, diagonal[2:]])
        for i in self.held:
            found = _decoupled(found, i, 1.0)
        return found

    def _free_mask(self) -> Vector:
        free = np.ones(self.n_parameters)
        free[list(self.held)] = 0.0
        return free

    def _scaled_logits(self, rows: Rows, beta: Vector) -> Any:
        return float(np.exp(min(float(beta[SLOPE]), _MAX_LOG_SCALE))) * (rows["u"] - self.pivot)

    def _assembled(self, X: Any, u: Any, rows: Rows) -> Any:
        first = [u[:, None]]
        if self.given:
            first.append(at_most(at_least(rows["v"], -_MAX_GIVEN_LOGIT), _MAX_GIVEN_LOGIT)[:, None])
        Z = self.seen.take(X)
        if sparse.issparse(Z):
            if Z.shape[1] > _MAX_COLUMNS_MADE_DENSE:
                Z = Z.multiply(1.0 / self.unit).tocsr()
                return sparse.hstack([*first, Z], format="csr") if self._n_before else _ColumnAndSparse(first[0], Z)
            Z = Z.toarray()
        Z = in_float64(Z)
        return concat([*first, (Z - like(Z, self.shift)) / like(Z, self.unit)], axis=1)


class _ColumnAndSparse:
    """A dense column next to sparse columns, kept as two parts because each model uses only one of them."""

    def __init__(self, first: Matrix, rest: Any) -> None:
        self.first, self.rest = first, rest
        self.shape = (first.shape[0], 1 + rest.shape[1])

    def __getitem__(self, key: tuple[Any, Any]) -> Any:
        columns = np.arange(self.shape[1])[key[1]]
        if not columns.size or columns[0] == 0:
            return self.first[:, columns]
        return self.rest if columns.size == self.rest.shape[1] else self.rest[:, columns - 1]


def columns_of_propensities(objective: PairObjective) -> Columns:
    """Return the columns that any propensity model uses at any look, as attributes or as offset."""
    seen = [design.indices for model in objective.models for design in model]
    return np.unique(np.concatenate([*seen, np.asarray(objective.offsets or (), dtype=np.intp)])).astype(np.intp)


def moved_to_logits(
    objective: PairObjective, columns: Columns, n_first: int, before: Sequence[int] = ()
) -> PairObjective:
    """Return the likelihood for a table that consists of `n_first` new columns, followed by `columns`.

    The first new column has the class logits. The class model uses only this column, or none if `n_first` is 0.
    Propensity models use the columns `before`, and those of `columns` that they used already.
    """

    def moved(design: Design) -> Design:
        kept = design.indices[np.isin(design.indices, columns)]
        return Design.of(np.append(before, n_first + np.searchsorted(columns, kept)).astype(np.intp))

    changed: dict[str, Any] = {"f": Design.of(np.arange(min(n_first, 1)))}
    if objective.offsets is not None:
        changed["offsets"] = tuple(int(n_first + np.searchsorted(columns, column)) for column in objective.offsets)
    made: Any = objective
    if "models" in made.__dataclass_fields__:
        changed["models"] = tuple(tuple(moved(design) for design in model) for model in objective.models)
    else:
        changed["e"] = moved(objective.e)
    return replace(made, **changed)


class CentreSums(NamedTuple):
    """Sums over rows for the centre of out-of-fold logits."""

    products: Any  # sum of w f (1-f) u
    weight: Any  # sum of w f (1-f)
    total: Any  # sum of w u
    total_weight: Any  # sum of w

    @property
    def centre(self) -> float:
        """The mean of the logits weighted by :math:`f(1-f)`; if all these weights are 0, the plain mean.

        To first order, a change of the slope around this centre does not change the class prior.
        """
        return float(self.products / self.weight if self.weight > 0 else self.total / self.total_weight)


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


def _decoupled(derivatives: Any, i: int, own: float) -> Any:
    """Return derivatives with those by parameter `i` set to 0, and to `own` on the diagonal."""
    if derivatives.shape[0] == 0:
        return derivatives
    concerned, instead = np.zeros(derivatives.shape), np.zeros(derivatives.shape)
    concerned[i, ...] = concerned[..., i] = 1.0
    instead[(i,) * instead.ndim] = own
    return namespace_of(derivatives).where(like(derivatives, concerned) == 1.0, like(derivatives, instead), derivatives)
