"""What a user says beside the rows: of the labelling, and what is known from elsewhere, as parts of a fit.

Known are a prevalence from a survey, or a sensitivity from a paper.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from scarless.checks.options import check_at_least_zero, check_share, check_whole, shown
from scarless.engines import Engine, Rows
from scarless.numerics import linear
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.objectives import Curvature, PairObjective, Sums
from scarless.numerics.recalibrated import RecalibratedPair
from scarless.pair.solving import ChangeOfUnits

#: Standard error in the place of one of 0, where it has to be divided by. By judgement.
SE_OF_EXACT_VALUE = 1e-5


class KnownShare:
    """A share that is known from elsewhere, give or take a standard error."""

    share: ClassVar[str]  # its name where a model holds it
    value: float
    se: float

    @property
    def told(self) -> str:
        """The share in words."""
        raise NotImplementedError

    def log_density(self, values: Vector) -> Vector:
        """Return how likely values are, up to a constant."""
        return np.asarray(-0.5 * ((values - self.value) / max(self.se, SE_OF_EXACT_VALUE)) ** 2)

    def around(self) -> Vector:
        """Return values near to it, close enough together to be summed over."""
        return np.asarray(self.value + max(self.se, SE_OF_EXACT_VALUE) * np.linspace(-4.0, 4.0, 33))


@dataclass(frozen=True)
class ClassPrior(KnownShare):
    r"""The share of positives, known from elsewhere: :math:`\Pr(y=1)` is `value`, give or take `se`.

    Parameters
    ----------
    value : float
        Between 0 and 1.
    se : float, default=0.0
        Its standard error; 0: it is a fact, and the fit keeps to it.
    where : dict, optional
        The group that it is true of: columns of `X`, by name or position, and the value that they have there. None: all
        rows.

    Examples
    --------
    >>> from scarless import ClassPrior, SAREMClassifier
    >>> SAREMClassifier(propensity_attributes=["age"], known=[ClassPrior(0.35, se=0.02)])  # doctest: +SKIP
    """

    share: ClassVar[str] = "class_prior"
    value: float
    se: float = 0.0
    where: Any = None

    def __post_init__(self) -> None:
        check_share(self.value, "ClassPrior's value")
        check_at_least_zero(self.se, "ClassPrior's se")
        if self.where is not None and not (isinstance(self.where, dict) and self.where):
            raise ValueError(
                f"ClassPrior's where must be a dict of columns and the values that they have in the group, as "
                f"{{'region': 2}}; got {self.where!r}."
            )

    @property
    def told(self) -> str:
        """The share in words."""
        group = "" if self.where is None else f" where {', '.join(f'{k} = {v}' for k, v in self.where.items())}"
        return f"class prior{group}"


@dataclass(frozen=True)
class LabelFrequency(KnownShare):
    r"""The share of positives that a look labels, known from elsewhere: :math:`\Pr(s_k=1|y=1)`, a sensitivity.

    Parameters
    ----------
    value : float
        Between 0 and 1.
    se : float, default=0.0
        Its standard error; 0: it is a fact, and the fit keeps to it.
    look : int, default=0
        Which look; the first is 0.
    """

    share: ClassVar[str] = "label_frequency"
    value: float
    se: float = 0.0
    look: int = 0

    def __post_init__(self) -> None:
        check_share(self.value, "LabelFrequency's value")
        check_at_least_zero(self.se, "LabelFrequency's se")
        check_whole(self.look, "LabelFrequency's look", at_least=0)

    @property
    def told(self) -> str:
        """The share in words."""
        return f"label frequency of look {self.look}"


@dataclass(frozen=True)
class PseudoObservations:
    """Positives that nobody checked, half of them labelled: they keep the label frequency off 0 and 1.

    Where labels hardly tell a label frequency of 1, or of next to nothing, from one between, the likelihood often has
    its top there. A few pseudo-observations at the mean of the propensity attributes settle it, as Laplace's rule of
    succession does for a share.

    Parameters
    ----------
    weight : float
        How many; 0 for none.
    """

    weight: float

    def __post_init__(self) -> None:
        check_at_least_zero(self.weight, "PseudoObservations' weight")


class Known(NamedTuple):
    """What is known from elsewhere, or believed before labels are seen."""

    shares: tuple[KnownShare, ...]
    audits: float  # imaginary ones


def check_known(known: Any, *, audits: float = 0.0) -> Known:
    """Return shares and pseudo-observations; `audits` is how many of these there are where nobody says.

    Examples
    --------
    >>> check_known([ClassPrior(0.3), PseudoObservations(4)]).audits
    4.0
    """
    if known is not None and not isinstance(known, list | tuple):
        raise ValueError(f"known must be a list, as [ClassPrior(0.35, se=0.02)]; got {shown(known)}.")
    for claim in known or ():
        if not isinstance(claim, KnownShare | PseudoObservations):
            raise ValueError(
                f"known must hold ClassPrior(...), LabelFrequency(...) and PseudoObservations(...) only; got "
                f"{shown(claim)}."
            )
    pseudo = [float(claim.weight) for claim in known or () if isinstance(claim, PseudoObservations)]
    if len(pseudo) > 1:
        raise ValueError(f"known holds PseudoObservations {len(pseudo)} times; give one.")
    shares = tuple(claim for claim in known or () if isinstance(claim, KnownShare))
    return Known(shares, pseudo[0] if pseudo else audits)


class Share(NamedTuple):
    """A share of rows, or of positives, with its first and second derivatives by the parameters."""

    value: float
    gradient: Vector
    bend: Matrix


class _ShareSums(NamedTuple):
    above: Any
    below: Any
    above_gradient: Any
    below_gradient: Any
    above_bend: Any
    below_bend: Any


@dataclass(frozen=True)
class Fact:
    r"""A share :math:`g` of the rows of an engine, held at a target: :math:`(g - g_0)^2 / 2\sigma^2`.

    A small :math:`\sigma` makes a valley that is too narrow for Newton's method; `fit` then widens it and moves the
    target instead until the share is where it should be (the method of multipliers).
    """

    engine: Engine
    objective: PairObjective | RecalibratedPair
    kind: int | None  # of look; None: the class prior
    group: str | None  # the name of the rows' values that say who belongs to it
    value: float
    variance: float
    told: str
    multiplier: float = 0.0
    widened: float = 0.0  # variance that is added, and undone by the multiplier

    def share(self, beta: Vector, *, bend: bool = True) -> Share:
        """Return the share and its derivatives, in one pass."""
        sums = self.engine.total(_share_sums, self.objective, beta, self.kind, self.group, bend)
        below = float(sums.below)
        value = float(sums.above) / below
        gradient = (sums.above_gradient - value * sums.below_gradient) / below
        if not bend:
            return Share(value, gradient, np.zeros((0, 0)))
        mixed = np.outer(gradient, sums.below_gradient)
        return Share(value, gradient, (sums.above_bend - value * sums.below_bend - mixed - mixed.T) / below)

    def sums(self, beta: Vector, curvature: Curvature = Curvature.OBSERVED) -> Sums:
        """Return value, gradient and curvature; of the expected kind, without what bends the share itself."""
        exact = curvature is Curvature.OBSERVED
        share, variance = self.share(beta, bend=exact), self.variance + self.widened
        away = (share.value - self.target) / variance
        matrix = np.outer(share.gradient, share.gradient) / variance
        value = np.asarray(0.5 * away * away * variance)
        return Sums(value, away * share.gradient, matrix + away * share.bend if exact else matrix)

    def product(self, beta: Vector, direction: Vector) -> Vector:
        """Return the curvature, without what bends the share itself, times a direction."""
        gradient = self.share(beta, bend=False).gradient
        return gradient * float(gradient @ direction) / (self.variance + self.widened)

    def in_units(self, change: ChangeOfUnits) -> "Fact":
        """Return the same for parameters in other units."""
        return replace(self, engine=self.engine.in_units())

    @property
    def target(self) -> float:
        """Where the share is held, moved by the multiplier."""
        return self.value - self.multiplier * self.widened

    def moved(self, share: float) -> "Fact":
        """Return the fact with the multiplier that a share asks for."""
        return replace(self, multiplier=(share - self.target) / (self.variance + self.widened))

    def softened(self) -> "Fact":
        """Return the fact without multipliers, with a standard error where it has none: what can be followed."""
        return replace(self, variance=max(self.variance, SE_OF_EXACT_VALUE**2), multiplier=0.0, widened=0.0)

    def information(self, beta: Vector) -> Matrix:
        """Return what the fact adds to the information; what is sure is as good as that."""
        gradient = self.share(beta, bend=False).gradient
        return np.outer(gradient, gradient) / max(self.variance, SE_OF_EXACT_VALUE**2)


def in_group(X: Any, rows: Rows, name: str, columns: tuple[int, ...], values: tuple[float, ...]) -> dict[str, Any]:
    """Return who belongs to a group, as values of rows."""
    belongs = np.ones(X.shape[0], dtype=bool)
    for column, value in zip(columns, values, strict=True):
        seen = X[:, [column]]
        belongs &= (seen.toarray() if hasattr(seen, "toarray") else np.asarray(seen)).ravel() == value
    return {name: belongs.astype(np.float64)}


def _share_sums(
    X: Any,
    rows: Rows,
    objective: PairObjective | RecalibratedPair,
    beta: Vector,
    kind: int | None,
    group: str | None,
    bend: bool,
) -> _ShareSums:
    if isinstance(objective, RecalibratedPair):
        table, at = objective.table(X, rows, beta), objective.inside(beta)
        found = _share_sums(table, rows, objective.inner, at, kind, group, bend)
        shown_as = Curvature.OBSERVED if bend else Curvature.NONE
        both = [objective.chained(Sums(*part), shown_as, own=0.0) for part in (found[::2], found[1::2])]
        return _ShareSums(*(each for pair in zip(*both, strict=True) for each in pair))
    terms, w = objective.terms(X, rows, beta), rows["w"]
    if group is not None:
        w = w * rows[group]
    n, of_f = objective.n_parameters, objective.logits[0]
    X_f = of_f.design.take(X)
    slope, swing = w * terms.f * terms.not_f, terms.not_f - terms.f
    gradient, matrix = np.zeros(n), np.zeros((n, n) if bend else (0, 0))
    if kind is None:
        gradient[of_f.place] = linear.transposed_product(X_f, slope)
        if bend:
            matrix[of_f.place, of_f.place] = linear.cross_product(X_f, slope * swing, X_f)
        return _ShareSums(np.asarray(w @ terms.f), np.asarray(w.sum()), gradient, np.zeros(n), matrix, 0.0 * matrix)
    of_e, e = objective.logits[1 + kind], terms.e[:, kind]
    turn, curve = terms.turn[:, kind], terms.curve[:, kind]
    X_e, below_gradient, below_matrix = of_e.design.take(X), np.zeros(n), 0.0 * matrix
    below_gradient[of_f.place] = linear.transposed_product(X_f, slope)
    gradient[of_f.place] = linear.transposed_product(X_f, slope * e)
    gradient[of_e.place] = linear.transposed_product(X_e, w * terms.f * turn)
    if bend:
        below_matrix[of_f.place, of_f.place] = linear.cross_product(X_f, slope * swing, X_f)
        matrix[of_f.place, of_f.place] = linear.cross_product(X_f, slope * swing * e, X_f)
        matrix[of_f.place, of_e.place] = linear.cross_product(X_f, slope * turn, X_e)
        matrix[of_e.place, of_f.place] = matrix[of_f.place, of_e.place].T
        matrix[of_e.place, of_e.place] = linear.cross_product(X_e, w * terms.f * curve, X_e)
    labelled, positives = np.asarray(w @ (terms.f * e)), np.asarray(w @ terms.f)
    return _ShareSums(labelled, positives, gradient, below_gradient, matrix, below_matrix)


class Labelling(BaseEstimator):
    r"""What is said of the labelling beyond the attributes that it depends on.

    A row may be looked at several times, and each look may label it. Give an object of this class as the `labelling` of
    an estimator. A grid search reaches inside: ``labelling__bounds``.

    Parameters
    ----------
    visit_attributes : dict, optional
        Attributes that differ between the looks of a row: a name, and one column of `X` for each look, as
        ``{"effort": ["effort_1", "effort_2"]}``. The propensity of a look sees its own column, with one coefficient for
        all of them; the classifier sees none of them.
    offset : column, or list of columns, optional
        What is known of the logit of the propensity and added to it as it is, with a coefficient of 1, such as the
        logarithm of an effort: one column of `X`, or one for each look. The classifier does not see it.
    bounds : (float, float), optional
        The least and the largest propensity there may be, where that is known: (0.2, 1) if every positive is found at
        least one time in five.
    shared : bool, default=True
        With several looks: whether one propensity model holds for all of them. False: each look, an annotator say, has
        coefficients of its own.
    false_positive_rate : float, sequence or "estimate", default=0.0
        How often a look labels a negative row. A number, or one for each look, is taken for granted. "estimate" needs
        several looks, or audits of labelled rows.
    audit_labels : {"keep", "drop", "undo"}, default="keep"
        What labels of audited rows mean. "keep": they were given by the labelling, whatever the audit found. If
        findings of the audit were entered as labels, these say nothing of the labelling, and the class prior comes out
        too low.
        "drop" is then right where rows were audited whether or not they had a label: of an audited row only the class
        counts. "undo" is right where only rows without a label were audited: they count as rows without a label. Either
        is wrong where the other is right, "undo" too high and "drop" too low. There is a warning where the rows
        contradict the one that is given; where they cannot, `summary` gives the class prior of the other.

    Examples
    --------
    >>> from scarless import Labelling, SAREMClassifier
    >>> SAREMClassifier(propensity_attributes=["age"], labelling=Labelling(bounds=(0.2, 1)))
    SAREMClassifier(labelling=Labelling(bounds=(0.2, 1)),
                    propensity_attributes=['age'])
    """

    def __init__(
        self,
        *,
        visit_attributes: Any = None,
        offset: Any = None,
        bounds: Any = None,
        shared: bool = True,
        false_positive_rate: Any = 0.0,
        audit_labels: str = "keep",
    ) -> None:
        self.visit_attributes = visit_attributes
        self.offset = offset
        self.bounds = bounds
        self.shared = shared
        self.false_positive_rate = false_positive_rate
        self.audit_labels = audit_labels


def labelling_of(model: Any) -> Labelling:
    """Return what a model of any kind is told of the labelling."""
    return check_labelling(getattr(model, "labelling", None))


def check_labelling(labelling: Any) -> Labelling:
    """Return what is said of the labelling; None says nothing beyond its attributes."""
    if labelling is None:
        return Labelling()
    if not isinstance(labelling, Labelling):
        raise ValueError(f"labelling must be a Labelling(...), or None; got {shown(labelling)}.")
    return labelling
