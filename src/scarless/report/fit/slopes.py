"""Slopes of a linear model per column, with errors; those of all levels of one column against each other.

Where every level of a column has a column of its own, they add up to a constant: the data tell no single coefficient,
and its error is as large as the penalty allows. How one level differs from the others they do tell.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from scarless.numerics.arrays import Columns, Vector
from scarless.pair.inference import PairInference
from scarless.raw.origins import Origin
from scarless.report.fit.subject import Subject

_ROUNDING = 1e-4  # by which single precision may miss 0, 1, and sums of shares


@dataclass(frozen=True, eq=False)
class Slopes:
    """Of each column that a model sees: its slope, the error of that, and the factors per unit and per deviation.

    A slope is that of the logit, per prepared unit; of a level, per one of the level in place of the others.
    """

    coef: Vector
    columns: Columns
    value: Vector
    error: Vector  # NaN where errors are not known
    unit: Vector  # slope times this is per unit of the raw column
    deviation: Vector  # and per standard deviation
    visits: dict[int, Origin] = field(default_factory=dict)  # columns that stand for those of all looks

    @classmethod
    def of_class(cls, subject: Subject, inference: Any) -> Self:
        """Return the classifier's."""
        coef = np.ravel(subject.inner.coef_)
        return cls._of(subject, coef, inference, None if inference is None else inference.f, 0)

    @classmethod
    def of_labelling(cls, subject: Subject, inference: Any) -> Self:
        """Return the propensity model's."""
        coef, n_f = np.ravel(subject.inner.propensity_coef_), 0 if inference is None else inference.f.n_parameters
        return cls._of(subject, coef, inference, None if inference is None else inference.e, n_f)

    @classmethod
    def of_look(cls, subject: Subject, inference: Any, k: int) -> Self:
        """Return those of a propensity model among several; an attribute of looks has one slope for all of them."""
        inner, own = subject.inner, subject.model.visit_units
        coef, visits = np.array(inner.propensity_coef_[k], dtype=np.float64), {}
        for j, (name, columns) in enumerate(subject.visit_columns.items()):
            look = columns[k if len(inner.propensity_intercept_) > 1 else 0]
            coef[look] = inner.visit_coef_[k, j]
            visits[look] = Origin(name, unit=own.get(name, 1.0))
        if not isinstance(inference, PairInference) or not inference.told_by_height:
            return replace(cls._of(subject, coef, None, None, 0), visits=visits)
        design, place = inference.objective.models[k][0], inference.objective.places[1 + k]
        return replace(cls._of(subject, coef, inference, design, place.start), visits=visits)

    @classmethod
    def _of(cls, subject: Subject, coef: Vector, inference: Any, design: Any, first: int) -> Self:
        seen = np.flatnonzero(coef) if design is None else design.indices
        contrasts, levels = _contrasts(subject, seen)
        errors = np.full(seen.size, np.nan)
        if design is not None and seen.size:
            gradients = np.zeros((seen.size, inference.parameters.size))
            gradients[:, first : first + seen.size] = contrasts.toarray()
            errors = inference.precision.errors(gradients)
        units = np.array([subject.origins[j].unit for j in seen])
        deviations = subject.moments.deviation[seen]
        return cls(
            coef=coef,
            columns=seen,
            value=contrasts @ coef[seen],
            error=errors,
            unit=np.where(levels, 1.0, np.divide(1.0, units, out=np.full(seen.size, np.nan), where=units != 0)),
            deviation=np.where(levels, deviations * units, deviations),
        )


def _contrasts(subject: Subject, seen: Columns) -> tuple[Any, Any]:
    """Return what each slope is made of, as weights of the coefficients, and which are those of levels."""
    place = {int(j): i for i, j in enumerate(seen)}
    weights, levels = sparse.eye_array(seen.size, format="lil"), np.zeros(seen.size, dtype=bool)
    for group in subject.groups.values():
        members = [j for j in group if subject.origins[j].piece]
        shares = _shares(subject, members)
        if shares is None or not all(j in place for j in members):
            continue
        at = [place[j] for j in members]
        units = np.array([subject.origins[j].unit for j in members])
        against = -shares[None] / (1.0 - shares[:, None])  # the others in their shares
        np.fill_diagonal(against, 1.0)
        weights[np.ix_(at, at)] = against / units
        levels[at] = True
    return weights.tocsr(), levels


def _shares(subject: Subject, members: list[int]) -> Vector | None:
    """Return the share of rows with each level, if these are all levels of a column; else None."""
    if len(members) < 2:
        return None
    units = np.array([subject.origins[j].unit for j in members])
    mean, _, low, high = (each[members] for each in subject.moments)
    shares = (mean - low) * units
    indicators = np.abs((high - low) * units - 1.0) < _ROUNDING
    complete = indicators.all() and abs(float(shares.sum()) - 1.0) < _ROUNDING
    return np.asarray(shares) if complete and (shares < 1.0).all() and (shares > 0.0).all() else None
