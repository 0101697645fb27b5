"""Combinations of parameters that the data hardly determine, and sentences that describe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scarless.numerics import uncertainty
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.uncertainty import Precision
from scarless.outside.notices import listed
from scarless.pair.inference import PairInference

CLASSIFIER, PROPENSITY = "classifier", "propensity model"
MAX_DIRECTIONS_SHOWN = 5  # largest number of directions of one kind that are shown
MAX_ATTRIBUTES_NAMED = 5  # largest number of attributes in one sentence
# Thresholds of eigenvalues of the information, by judgement.
_WEAK_EIGENVALUE = 0.1  # directions with larger eigenvalues are not reported
ZERO_EIGENVALUE = 1e-6  # below it there is no information; above 0, because optimisers stop a little early
SMALL_EIGENVALUE = 0.01  # below it, the data can hardly separate the parameters
_MIN_VARIANCE_SHARE = 0.05  # smallest share of the variance of the class prior for which a direction is reported
_MIN_RELATIVE_WEIGHT = 0.25  # smallest weight, relative to the largest, for which a parameter is named


class Parameter(NamedTuple):
    """Model and attribute of a parameter; the attribute of an intercept is "intercept"."""

    model: str
    attribute: str
    is_intercept: bool = False


@dataclass(frozen=True, eq=False)
class Direction:
    """A combination of parameters on which the data have little information; prints as a sentence.

    Attributes
    ----------
    information : float
        Information of the data along the direction: the eigenvalue for centred columns, scaled to a unit diagonal. 0
        if it is negative or rounding noise.
    class_prior_error : float
        Change of the class prior for one standard error along the direction, without the penalty. Infinite if only the
        penalty determines the direction, 0 if no prediction depends on the direction.
    penalised_error : float
        The same change with the penalty.
    weights : tuple of (Parameter, float)
        Weights of the parameters in units of their standard errors, the largest first; the squares add up to 1. The
        sign is such that the class prior increases along the direction.
    lowers_label_frequency : bool
        Whether the label frequency decreases while the class prior increases.
    """

    information: float
    class_prior_error: float
    penalised_error: float
    weights: tuple[tuple[Parameter, float], ...]
    lowers_label_frequency: bool

    @property
    def parts(self) -> list[Parameter]:
        """Parameters with a large weight."""
        largest = abs(self.weights[0][1])
        return [parameter for parameter, weight in self.weights if abs(weight) >= _MIN_RELATIVE_WEIGHT * largest]

    @property
    def shared(self) -> list[str]:
        """Attributes with a large weight in both models."""
        f, e = (
            [p.attribute for p in self.parts if p.model == m and not p.is_intercept] for m in (CLASSIFIER, PROPENSITY)
        )
        return [name for name in f if name in e]

    def __str__(self) -> str:
        if not self.class_prior_error:
            return _harmless_sentence(self.parts)
        effect = (
            "only the penalty determines the class prior"
            if self.class_prior_error >= 1  # the class prior could take any value
            else "changing these coefficients together by one standard error changes the class prior by "
            f"{self.class_prior_error:.2g}"
        )
        return f"{self._description()} ({effect})."

    def _description(self) -> str:
        none, hardly = self.information < ZERO_EIGENVALUE, self.information < SMALL_EIGENVALUE
        separate = "cannot separate" if none else "can hardly separate" if hardly else "can only roughly separate"
        sides = [[p for p in self.parts if p.model == model] for model in (CLASSIFIER, PROPENSITY)]
        if self.shared:
            return f"{entering(self.shared)}; the data {separate} {effects_of(self.shared)}"
        if all(any(p.is_intercept for p in side) for side in sides):
            lower = " with a lower label frequency" if self.lowers_label_frequency else ""
            fits = "as well" if none else "almost as well" if hardly else "slightly worse"
            others = name_parameters([p for p in self.parts if not p.is_intercept])
            adjusted = f" and {others}" if others else ""
            return f"A larger class prior{lower} fits {fits} after adjusting the intercepts of both models{adjusted}"
        if all(sides):
            return f"The data {separate} {name_parameters(sides[0])} from {name_parameters(sides[1])}"
        return f"The data have {'no' if none else 'little'} information on {name_parameters(self.parts)}"


@dataclass(frozen=True, eq=False)
class FitInformation:
    """Information matrix for centred columns, without and with the penalty, and gradients of the class prior."""

    parameters: list[Parameter]
    information: Matrix
    ridge: Vector
    data: Precision
    penalised: Precision
    prior: float
    gradient: Vector  # of the class prior
    frequency_gradient: Vector  # of the label frequency
    data_error: float  # standard error of the class prior without the penalty

    @classmethod
    def at(cls, inference: PairInference, parameters: list[Parameter]) -> "FitInformation":
        """Return the information at a fit."""
        columns, ridge = inference.sums.columns, np.diag(inference.ridge)
        T = uncertainty.centring([columns[place] for place in inference.objective.places])
        unpenalised = inference.penalised_information() - ridge  # from the rows and from known values
        information, noise = uncertainty.centred(unpenalised, T, noise=inference.noise)
        data = uncertainty.precision(information, noise=noise)
        prior = inference.class_prior
        gradient = T.T @ prior.gradient
        (error,) = data.errors(gradient[None])
        return cls(
            parameters=parameters,
            information=information,
            ridge=inference.ridge,
            data=data,
            penalised=uncertainty.precision(information + np.diag(inference.ridge), noise=noise),
            prior=prior.value,
            gradient=gradient,
            frequency_gradient=T.T @ inference.label_frequency.gradient,
            data_error=float(np.hypot(error, np.sqrt(prior.row_variance))),
        )

    def directions(self) -> tuple[list[Direction], list[Direction]]:
        """Return the directions that change the class prior, the worst first, and the directions that do not."""
        values, vectors, noise = self.data.values, self.data.vectors, self.data.noise
        gradient = self.data.scale * self.gradient
        along, harmless = _split_null(vectors[:, np.abs(values) <= noise], gradient, noise)
        # At a penalised optimum the likelihood can be convex along a direction. Only the penalty then determines this
        # direction.
        along += list(vectors[:, values < -noise].T)
        moving = [self._direction(vector, 0.0, np.inf) for vector in along]
        values, vectors = values[values > noise], vectors[:, values > noise]
        errors = np.abs(gradient @ vectors) / np.sqrt(values)
        shares = errors**2 / max(float(errors @ errors), np.finfo(float).tiny)
        for k in np.argsort(-errors):
            if values[k] < _WEAK_EIGENVALUE and shares[k] > _MIN_VARIANCE_SHARE:
                moving.append(self._direction(vectors[:, k], float(values[k]), float(errors[k])))
        rest = [self._direction(vector, 0.0, 0.0) for vector in harmless]
        return moving[:MAX_DIRECTIONS_SHOWN], sorted(rest, key=lambda direction: len(direction.parts))

    def correlations(self) -> dict[str, float]:
        """Return, for each attribute of both models, the correlation of its two coefficients without the penalty."""
        places = {parameter: j for j, parameter in enumerate(self.parameters)}
        known = np.isfinite(self.data.errors(np.eye(len(self.parameters))))
        root, found = self.data.root, {}
        for name in (p.attribute for p in self.parameters if p.model == PROPENSITY and not p.is_intercept):
            i, j = places.get(Parameter(CLASSIFIER, name)), places[Parameter(PROPENSITY, name)]
            if i is not None and known[i] and known[j]:
                found[name] = float(root[i] @ root[j] / np.sqrt((root[i] @ root[i]) * (root[j] @ root[j])))
        return found

    def _direction(self, vector: Vector, information: float, error: float) -> Direction:
        step = self.data.scale * vector
        move = float(self.gradient @ step)
        squared = float(step @ self.information @ step) + float(self.ridge @ step**2)
        sign = np.sign(move if error else vector[np.argmax(np.abs(vector))])
        order = np.argsort(-np.abs(vector), kind="stable")
        return Direction(
            information=information,
            class_prior_error=error,
            penalised_error=abs(move) / squared**0.5 if error and squared > 0 else error,
            weights=tuple((self.parameters[j], float(sign * vector[j])) for j in order if abs(vector[j]) > 1e-6),
            lowers_label_frequency=float(self.frequency_gradient @ step) * move < 0,
        )


def _split_null(null: Matrix, gradient: Vector, noise: float) -> tuple[list[Vector], list[Vector]]:
    """Split directions without information into at most one that changes the class prior, and others that do not.

    Every basis of the others is equivalent. Elimination gives a basis with few nonzero entries.
    """
    slope = null.T @ gradient
    moves = float(slope @ slope) > noise * float(gradient @ gradient)
    along = [null @ slope / np.linalg.norm(slope)] if moves else []
    if moves:
        null = null @ np.linalg.svd(slope[None])[2][1:].T
    return along, list(uncertainty.with_few_entries(null).T)


def _harmless_sentence(parts: list[Parameter]) -> str:
    if len(parts) == 1:
        return (
            f"The data have no information on {name_parameters(parts)}. The column is probably constant, and no "
            "prediction depends on this coefficient."
        )
    return (
        f"{name_parameters(parts)} are collinear: the data determine only a combination of their coefficients. "
        "Predictions do not depend on how this combination is divided between the columns."
    )


def name_parameters(parameters: Sequence[Parameter]) -> str:
    """Return the names of parameters, grouped by model.

    Examples
    --------
    >>> name_parameters([Parameter("classifier", "age"), Parameter("classifier", "intercept", True)])
    'age and the intercept of the classifier'
    """
    named = []
    for model in (CLASSIFIER, PROPENSITY):
        of_model = [p for p in parameters if p.model == model]
        names = [f"the {p.attribute}" if p.is_intercept else p.attribute for p in of_model]
        named += [f"{listed(names, MAX_ATTRIBUTES_NAMED)} of the {model}"] if names else []
    return listed(named, MAX_ATTRIBUTES_NAMED)


def entering(names: list[str]) -> str:
    """Return a clause that attributes enter both models."""
    return f"{listed(names, MAX_ATTRIBUTES_NAMED)} enter{'s' if len(names) == 1 else ''} both models"


def effects_of(names: list[str]) -> str:
    """Return "its two effects" for one attribute, "their two effects" for several."""
    return f"{'its' if len(names) == 1 else 'their'} two effects"
