"""Combinations of parameters that the data hardly tell, and how to say so in words."""

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
SHOWN = 5  # directions of a kind
NAMED = 5  # attributes in one sentence
_WEAK = 0.1  # eigenvalue below which a direction is told of
_NONE = 1e-6  # eigenvalue below which there is no information: solvers stop a little before the optimum
_NEARLY_NONE = 0.01  # eigenvalue below which it has next to no information
_NOTEWORTHY = 0.05  # share of the class prior's variance from which a direction is told of
_TAKES_PART = 0.25  # weight, relative to the largest, from which a parameter is named


class Parameter(NamedTuple):
    """Where a parameter belongs: its model, and its attribute, which is "intercept" for an intercept."""

    model: str
    attribute: str
    is_intercept: bool = False


@dataclass(frozen=True, eq=False)
class Direction:
    """A combination of parameters about which the data say little; prints as a sentence.

    Attributes
    ----------
    information : float
        What the data tell along it: the eigenvalue of their information about centred columns, scaled to a unit
        diagonal. 0 where it is rounding noise or negative.
    class_prior_error : float
        How far one standard error along it moves the class prior, by the data alone; infinite where nothing but the
        penalty holds it, 0 where no prediction depends on it.
    penalised_error : float
        The same with the penalty's help.
    weights : tuple of (Parameter, float)
        What it is made of, in units of the parameters' own standard errors, the largest first; the squares add up
        to 1. Points to where the class prior grows.
    lowers_label_frequency : bool
        Whether the label frequency falls while the class prior grows.
    """

    information: float
    class_prior_error: float
    penalised_error: float
    weights: tuple[tuple[Parameter, float], ...]
    lowers_label_frequency: bool

    @property
    def parts(self) -> list[Parameter]:
        """The parameters that make most of it."""
        largest = abs(self.weights[0][1])
        return [parameter for parameter, weight in self.weights if abs(weight) >= _TAKES_PART * largest]

    @property
    def shared(self) -> list[str]:
        """Attributes that take part in both models."""
        f, e = (
            [p.attribute for p in self.parts if p.model == m and not p.is_intercept] for m in (CLASSIFIER, PROPENSITY)
        )
        return [name for name in f if name in e]

    def __str__(self) -> str:
        if not self.class_prior_error:
            return _harmless_words(self.parts)
        effect = (
            "nothing but the penalty holds the class prior along this direction"
            if self.class_prior_error >= 1  # its whole range
            else f"one standard error along this direction moves the class prior by {self.class_prior_error:.2g}"
        )
        return f"{self._confusion()} ({effect})."

    def _confusion(self) -> str:
        none = self.information < _NONE
        can = "cannot" if none else "can hardly" if self.information < _NEARLY_NONE else "only roughly"
        sides = [[p for p in self.parts if p.model == model] for model in (CLASSIFIER, PROPENSITY)]
        if self.shared:
            return f"{entering(self.shared)}; the data {can} tell {two_effects(self.shared)} apart"
        if all(any(p.is_intercept for p in side) for side in sides):
            lower = " with a lower label frequency" if self.lowers_label_frequency else ""
            fits = {"cannot": "as well", "can hardly": "almost as well"}.get(can, "little worse")
            others = of_all([p for p in self.parts if not p.is_intercept])
            adjusted = f", with {others} adjusted" if others else ""
            return f"The intercepts of both models: a larger class prior{lower} fits {fits}{adjusted}"
        if all(sides):
            return f"The data {can} tell {of_all(sides[0])} from {of_all(sides[1])}"
        return f"The data say {'nothing' if none else 'little'} about {of_all(self.parts)}"


@dataclass(frozen=True, eq=False)
class Look:
    """The information about centred columns, without and with the penalty, and how the class prior hangs on it."""

    parameters: list[Parameter]
    information: Matrix
    ridge: Vector
    data: Precision
    penalised: Precision
    prior: float
    gradient: Vector  # of the class prior
    frequency_gradient: Vector  # of the label frequency
    data_error: float  # of the class prior, by the data alone

    @classmethod
    def at(cls, inference: PairInference, parameters: list[Parameter]) -> "Look":
        """Look at a fit."""
        columns, ridge = inference.sums.columns, np.diag(inference.ridge)
        T = uncertainty.centring([columns[place] for place in inference.objective.places])
        told = inference.penalised_information() - ridge  # by the rows, and by what is known from elsewhere
        information, noise = uncertainty.centred(told, T, noise=inference.noise)
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
        """Return the weak directions that move the class prior, the worst first, and those that move nothing."""
        values, vectors, noise = self.data.values, self.data.vectors, self.data.noise
        gradient = self.data.scale * self.gradient
        along, harmless = _split_null(vectors[:, np.abs(values) <= noise], gradient, noise)
        # Where the likelihood bends upwards, as it may at a penalised optimum, the penalty alone holds the fit.
        along += list(vectors[:, values < -noise].T)
        moving = [self._direction(vector, 0.0, np.inf) for vector in along]
        values, vectors = values[values > noise], vectors[:, values > noise]
        errors = np.abs(gradient @ vectors) / np.sqrt(values)
        shares = errors**2 / max(float(errors @ errors), np.finfo(float).tiny)
        for k in np.argsort(-errors):
            if values[k] < _WEAK and shares[k] > _NOTEWORTHY:
                moving.append(self._direction(vectors[:, k], float(values[k]), float(errors[k])))
        rest = [self._direction(vector, 0.0, 0.0) for vector in harmless]
        return moving[:SHOWN], sorted(rest, key=lambda direction: len(direction.parts))

    def correlations(self) -> dict[str, float]:
        """Return the correlation of each shared attribute's two coefficients, by the data alone."""
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
    """Split directions without information into one that moves the class prior, if any does, and a rest that does not.

    The rest is brought to as few entries a direction as elimination finds, since any mixture of them is as good.
    """
    lean = null.T @ gradient
    moves = float(lean @ lean) > noise * float(gradient @ gradient)
    along = [null @ lean / np.linalg.norm(lean)] if moves else []
    if moves:
        null = null @ np.linalg.svd(lean[None])[2][1:].T
    return along, list(uncertainty.with_few_entries(null).T)


def _harmless_words(parts: list[Parameter]) -> str:
    if len(parts) == 1:
        return f"The data say nothing about {of_all(parts)}: a constant column, perhaps. No prediction depends on it."
    return (
        f"{of_all(parts)} determine each other, or add up to a constant: the data tell only a combination of their "
        "coefficients. Predictions do not depend on how it is shared out."
    )


def of_all(parameters: Sequence[Parameter]) -> str:
    """Name parameters, those of one model together.

    Examples
    --------
    >>> of_all([Parameter("classifier", "age"), Parameter("classifier", "intercept", True)])
    'age and the intercept of the classifier'
    """
    told = []
    for model in (CLASSIFIER, PROPENSITY):
        of_model = [p for p in parameters if p.model == model]
        names = [f"the {p.attribute}" if p.is_intercept else p.attribute for p in of_model]
        told += [f"{listed(names, NAMED)} of the {model}"] if names else []
    return listed(told, NAMED)


def entering(names: list[str]) -> str:
    """Say that attributes enter both models."""
    return f"{listed(names, NAMED)} enter{'s' if len(names) == 1 else ''} both models"


def two_effects(names: list[str]) -> str:
    """Name what attributes do in both models."""
    return f"{'its' if len(names) == 1 else 'their'} two effects"
