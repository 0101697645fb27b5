r"""The recalibrated pair: held-out class logits, shifted and scaled, together with the propensities, as one likelihood.

Regularisation that finds the direction of a classifier also shrinks the scale of its logits, and the propensity must
then explain what the classifier does not reach. Given logits :math:`u_i` of models that have not seen row `i`, with
centre `m`,

.. math:: f_i = \sigma(t_i), \quad t_i = m + a + e^g (u_i - m), \qquad
    \mathrm{logit}\, e_i = v_i + z_i'\gamma + \gamma_0 + \kappa t_i,

where `z` are the propensity attributes, standardised, and `v` are logits that a learner gave. With :math:`\kappa > 0`
surer positives are labelled more often. Nothing here depends on what was observed: the likelihood is that of any
`PairObjective` on the table :math:`[e^g(u - m), v, z]`, and its derivatives follow by the chain rule.
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

_MAX_COLUMNS_MADE_DENSE = 32  # sparse columns of a block that are quicker dense
_MAX_LOG_SCALE = 50.0  # a logarithm that no ridge lets pass, and that does not overflow on the way
_LARGEST_GIVEN_LOGIT = 1e6  # a propensity of 1; an infinite column would have no products
SLOPE, LEVEL = 0, 1  # places of ``g`` and ``a`` among the parameters


@dataclass(frozen=True)
class RecalibratedPair:
    """Minus the observed log-likelihood of the recalibrated pair, from that of an ordinary one.

    Parameters: ``g``, ``a``, then all but the classifier's parameters of the likelihood, coefficients per `unit`.
    Parameters that are `held` have derivatives of 0, so that a solver leaves them where they are. Rows: ``u`` (minus
    the centre), ``v`` where it is `given`, ``w`` and what was observed.
    """

    convex: ClassVar[bool] = False
    inner: PairObjective  # of the table that `table` makes
    seen: Design  # the columns that propensities see
    centre: float
    shift: Vector  # mean of these columns; 0 where they are sparse
    unit: Vector  # their standard deviation
    follow: float = 0.0  # the slope of the propensity's logit in the class logit, kappa above
    given: bool = False  # whether a learner gave the propensity's logit
    hold: Vector | None = None  # what all but the first two parameters are counted from
    held: tuple[int, ...] = ()
    pivot: float = 0.0  # the logit, minus the centre, at which ``a`` is the level: a change of slope turns around it

    @classmethod
    def of(
        cls, template: PairObjective, centre: float, shift: Vector, unit: Vector, *, given: bool = False, **options: Any
    ) -> "RecalibratedPair":
        """Build it from a likelihood of a table's own columns; its class model is replaced.

        `shift` and `unit` belong to the columns of `columns_of_propensities`, in their order.
        """
        columns = columns_of_propensities(template)
        before = [0] * (options.get("follow", 0.0) != 0) + [1] * given
        inner = moved_to_logits(template, columns, 1 + given, before)
        return cls(inner, Design.of(columns), centre, shift, unit, given=given, **options)

    @property
    def designs(self) -> tuple[Design, ...]:
        """None: the attributes are standardised here, whatever their units."""
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
        """Return derivatives by these parameters from those by the inner ones, at the same place.

        The stretched logits are a column whose coefficient is 1, so that the derivative by ``g`` is that by this
        coefficient. The table depends on ``g`` too, which bends the value by the gradient. A parameter that is held has
        `own` in the diagonal of the curvature.
        """
        gradient, matrix = self._back(sums.gradient), sums.curvature
        if matrix.ndim == 2:
            matrix = self._back(self._back(matrix).T)
            if curvature is Curvature.OBSERVED:
                at_slope = np.zeros(matrix.shape)
                at_slope[SLOPE, SLOPE] = 1.0
                matrix = matrix + like(matrix, at_slope) * gradient[SLOPE]
        elif matrix.shape[0]:
            matrix = concat([matrix[:2], *(matrix[part] for part in self._free)])
        for i in self.held:
            gradient, matrix = _isolated(gradient, i, 0.0), _isolated(matrix, i, own)
        return Sums(sums.value, gradient, matrix)

    def row_curvature(self, X: Any, rows: Rows, beta: Vector, curvature: Curvature) -> Matrix:
        """Return each row's expected information of its logits, and its stretched logit."""
        stretched = self._stretched(rows, beta)
        found = self.inner.row_curvature(self._beside(X, stretched, rows), rows, self.inside(beta), Curvature.EXPECTED)
        return concat([found, stretched[:, None]], axis=1)

    def product(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return the expected information times a direction."""
        curvature = rows["curvature"]
        table, inner_rows = self._beside(X, curvature[:, -1], rows), {**rows, "curvature": curvature[:, :-1]}
        (out,) = self.inner.product(table, inner_rows, self._forth(direction * self._moves()))
        found = self._back(out)
        return (found * like(found, self._moves()),)

    def reach(self, X: Any, rows: Rows, direction: Vector) -> tuple[Vector]:
        """Return, for each model, the weighted sum of the squared changes of its logits, from a slope of 1.

        Steps are limited by these. What the propensity changes by following the class is left out: it is at most
        `follow` times the change of the class, which is limited as well.
        """
        along = self._forth(direction * self._moves(), follow=0.0)
        return self.inner.reach(self._beside(X, rows["u"] - self.pivot, rows), rows, along)

    def grams(self, X: Any, rows: Rows) -> tuple[Matrix, ...]:
        """Return the matrices whose quadratic forms `reach` is."""
        of_f, *others = self.inner.grams(self._beside(X, rows["u"] - self.pivot, rows), rows)
        moves, n_models = like(of_f, self._moves()[:2]), len(self.inner.models)
        of_models = [each[self._n_before :, self._n_before :] for each in others[:n_models]]
        return of_f * moves[:, None] * moves, *of_models, *others[n_models:]

    def table(self, X: Any, rows: Rows, beta: Vector) -> Any:
        """Return the block that the inner likelihood sees: stretched logits, given ones, standardised attributes."""
        return self._beside(X, self._stretched(rows, beta), rows)

    def inside(self, beta: Vector) -> Vector:
        """Return the inner likelihood's parameters."""
        others = beta[2:] if self.hold is None else beta[2:] + self.hold
        at = self._forth(np.concatenate([[1.0, self.centre + beta[LEVEL]], others]))
        if self.given:
            at[[place.start + self._n_before - 1 for place in self._places]] = 1.0
        return at

    def turned(self, beta: Vector, pivot: float) -> Vector:
        """Return the parameters of the same models for another pivot."""
        new = beta.copy()
        new[LEVEL] += float(np.exp(min(float(beta[SLOPE]), _MAX_LOG_SCALE))) * (pivot - self.pivot)
        return new

    def standardised(self, others: Vector) -> Vector:
        """Return parameters of propensities and rates per unit, from those in the units of the table."""
        return self._in_units(others, self.unit, self.shift)

    def in_table_units(self, others: Vector) -> Vector:
        """Return parameters of propensities and rates in the units of the table, from those per unit."""
        return self._in_units(others, 1.0 / self.unit, -self.shift / self.unit)

    @property
    def parameter_units(self) -> Vector:
        """By how much each parameter of propensities and rates is larger than in the units of the table."""
        units = np.ones(self.n_parameters - 2)
        for part, columns in self._coefficients():
            units[part] = self.unit[columns]
        return units

    @property
    def intercepts(self) -> list[int]:
        """Where the propensities' intercepts are among the parameters."""
        return [2 + part.stop for part, _ in self._coefficients()]

    def _in_units(self, others: Vector, unit: Vector, shift: Vector) -> Vector:
        new = others.copy()
        for part, columns in self._coefficients():
            new[part] = others[part] * unit[columns]
            new[part.stop] += others[part] @ shift[columns]
        return new

    def _coefficients(self) -> list[tuple[slice, Columns]]:
        """Return where each propensity's coefficients are among the parameters after the first two, and their columns.

        Columns of the first kind of look stand for those of all kinds: they share shift and unit.
        """
        found, start, n_given = [], 0, 1 + self.given
        for model in self.inner.models:
            columns = model[0].indices[self._n_before :] - n_given
            found.append((slice(start, start + columns.size), columns))
            start += columns.size + 1
        return found

    @property
    def _n_before(self) -> int:
        """How many coefficients of each propensity are constants here."""
        return int(self.follow != 0) + int(self.given)

    @property
    def _places(self) -> list[slice]:
        return self.inner.places[1 : 1 + len(self.inner.models)]

    @property
    def _free(self) -> list[slice]:
        """Where the inner parameters are that are parameters here, but for the class model's."""
        places = self._places
        last = slice(places[-1].stop, self.inner.n_parameters)
        return [*(slice(place.start + self._n_before, place.stop) for place in places), last]

    def _forth(self, direction: Vector, follow: float | None = None) -> Vector:
        """Return the change of the inner parameters along a direction."""
        out, start, follow = np.zeros(self.inner.n_parameters), 2, self.follow if follow is None else follow
        out[:2] = direction[:2]
        for part in self._free:
            out[part] = direction[start : start + part.stop - part.start]
            start += part.stop - part.start
        if follow:
            for place in self._places:
                out[place.start] += follow * direction[SLOPE]
                out[place.stop - 1] += follow * direction[LEVEL]
        return out

    def _back(self, derivatives: Any) -> Any:
        """Return derivatives by these parameters from those by the inner ones, along the first axis."""
        of_slope, of_level = derivatives[0:1, ...], derivatives[1:2, ...]
        if self.follow:
            for place in self._places:
                of_slope = of_slope + self.follow * derivatives[place.start : place.start + 1, ...]
                of_level = of_level + self.follow * derivatives[place.stop - 1 : place.stop, ...]
        return concat([of_slope, of_level, *(derivatives[part, ...] for part in self._free)])

    def _diagonal(self, table: Any, rows: Rows, at: Vector, diagonal: Any) -> Any:
        """Return the diagonal of the expected information where the class's parameters move the propensities too."""
        curvature = self.inner.row_curvature(table, rows, at, Curvature.EXPECTED)
        of_class = []
        for i in (SLOPE, LEVEL):
            along = self._forth(np.eye(self.n_parameters)[i])
            (product,) = self.inner.product(table, {**rows, "curvature": curvature}, along)
            of_class.append((like(product, along) @ product)[None])
        found = concat([*of_class, diagonal[2:]])
        for i in self.held:
            found = _isolated(found, i, 1.0)
        return found

    def _moves(self) -> Vector:
        moves = np.ones(self.n_parameters)
        moves[list(self.held)] = 0.0
        return moves

    def _stretched(self, rows: Rows, beta: Vector) -> Any:
        return float(np.exp(min(float(beta[SLOPE]), _MAX_LOG_SCALE))) * (rows["u"] - self.pivot)

    def _beside(self, X: Any, u: Any, rows: Rows) -> Any:
        first = [u[:, None]]
        if self.given:
            first.append(at_most(at_least(rows["v"], -_LARGEST_GIVEN_LOGIT), _LARGEST_GIVEN_LOGIT)[:, None])
        Z = self.seen.take(X)
        if sparse.issparse(Z):
            if Z.shape[1] > _MAX_COLUMNS_MADE_DENSE:
                Z = Z.multiply(1.0 / self.unit).tocsr()
                return sparse.hstack([*first, Z], format="csr") if self._n_before else _Beside(first[0], Z)
            Z = Z.toarray()
        Z = in_float64(Z)
        return concat([*first, (Z - like(Z, self.shift)) / like(Z, self.unit)], axis=1)


class _Beside:
    """A dense column in front of sparse ones: what sees either of them alone gets it as it is."""

    def __init__(self, first: Matrix, rest: Any) -> None:
        self.first, self.rest = first, rest
        self.shape = (first.shape[0], 1 + rest.shape[1])

    def __getitem__(self, key: tuple[Any, Any]) -> Any:
        columns = np.arange(self.shape[1])[key[1]]
        if not columns.size or columns[0] == 0:
            return self.first[:, columns]
        return self.rest if columns.size == self.rest.shape[1] else self.rest[:, columns - 1]


def columns_of_propensities(objective: PairObjective) -> Columns:
    """Return the columns that some propensity sees at some look, as attributes or as an offset."""
    seen = [design.indices for model in objective.models for design in model]
    return np.unique(np.concatenate([*seen, np.asarray(objective.offsets or (), dtype=np.intp)])).astype(np.intp)


def moved_to_logits(
    objective: PairObjective, columns: Columns, n_first: int, before: Sequence[int] = ()
) -> PairObjective:
    """Return a likelihood for a table that has the old `columns` behind `n_first` others, class logits first.

    The class model sees the first column, or nothing where nothing is put before the old ones. Propensities see those
    of the old columns that they saw, and the columns `before` in addition.
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
