"""Known values, assumptions about the labelling, and the constraints that known values add to the likelihood.

Examples of known values are a prevalence from a survey and a sensitivity from a publication.
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

#: Smallest standard error of a known value in computations, to avoid a division by 0. By judgement.
SE_OF_EXACT_VALUE = 1e-5


class KnownShare:
    """A share that is known from another source, with a standard error."""

    share: ClassVar[str]  # "class_prior" or "label_frequency"
    value: float
    se: float

    @property
    def description(self) -> str:
        """Name of the share in messages."""
        raise NotImplementedError

    def log_density(self, values: Vector) -> Vector:
        """Return the log-density of values under a normal distribution around the known value, up to a constant."""
        return np.asarray(-0.5 * ((values - self.value) / max(self.se, SE_OF_EXACT_VALUE)) ** 2)

    def nearby_values(self) -> Vector:
        """Return 49 evenly spaced values within 6 standard errors of the known value.

        The last ones have a negligible density, although the next point of a grid may be far away.
        """
        return np.asarray(self.value + max(self.se, SE_OF_EXACT_VALUE) * np.linspace(-6.0, 6.0, 49))


@dataclass(frozen=True)
class ClassPrior(KnownShare):
    r"""A class prior :math:`\Pr(y=1)` that is known from another source.

    Parameters
    ----------
    value : float
        The class prior, between 0 and 1.
    se : float, default=0.0
        Standard error of the class prior. With 0, the fit has exactly this class prior.
    where : dict, optional
        The rows whose class prior is known: a dict from columns of `X`, by name or position, to the value that each
        column has in these rows. All rows by default.

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
                f"ClassPrior's where must be a dict of columns and their values, such as {{'region': 2}} for the rows "
                f"with region 2; got {self.where!r}. For the class prior of all rows, leave where out."
            )

    @property
    def description(self) -> str:
        """Name of the share in messages."""
        group = "" if self.where is None else f" where {', '.join(f'{k} = {v}' for k, v in self.where.items())}"
        return f"class prior{group}"


@dataclass(frozen=True)
class LabelFrequency(KnownShare):
    r"""The label frequency (sensitivity) :math:`\Pr(s_k=1|y=1)` of one look, known from another source.

    Parameters
    ----------
    value : float
        The label frequency, between 0 and 1.
    se : float, default=0.0
        Standard error of the label frequency. With 0, the fit has exactly this label frequency.
    look : int, default=0
        Index of the look, counted from 0.
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
    def description(self) -> str:
        """Name of the share in messages."""
        return f"label frequency of look {self.look}"


@dataclass(frozen=True)
class PseudoObservations:
    """Invented positives, half of them labelled, that keep the label frequency away from 0 and 1.

    If the labels say little about the label frequency, the likelihood is often highest at a label frequency of 0 or 1.
    A few pseudo-observations at the mean of the propensity attributes prevent that. Laplace's rule of succession does
    the same for a share.

    Parameters
    ----------
    weight : float
        Number of pseudo-observations, labelled and unlabelled together; 0 for none.
    """

    weight: float

    def __post_init__(self) -> None:
        check_at_least_zero(self.weight, "PseudoObservations' weight")


class Known(NamedTuple):
    """Known shares, and the number of pseudo-observations."""

    shares: tuple[KnownShare, ...]
    pseudo_weight: float


def check_known(known: Any, *, pseudo_weight: float = 0.0) -> Known:
    """Check the parameter `known` and return its contents.

    `pseudo_weight` is the number of pseudo-observations if `known` does not contain it.

    Examples
    --------
    >>> check_known([ClassPrior(0.3), PseudoObservations(4)]).pseudo_weight
    4.0
    """
    if known is not None and not isinstance(known, list | tuple):
        raise ValueError(f"known must be a list, such as [ClassPrior(0.35, se=0.02)]; got {shown(known)}.")
    for claim in known or ():
        if not isinstance(claim, KnownShare | PseudoObservations):
            raise ValueError(
                f"known must contain only ClassPrior(...), LabelFrequency(...) and PseudoObservations(...); got "
                f"{shown(claim)}."
            )
    pseudo = [float(claim.weight) for claim in known or () if isinstance(claim, PseudoObservations)]
    if len(pseudo) > 1:
        raise ValueError(
            f"known must contain PseudoObservations(...) at most once; got it {len(pseudo)} times. Keep one of them."
        )
    shares = tuple(claim for claim in known or () if isinstance(claim, KnownShare))
    return Known(shares, pseudo[0] if pseudo else pseudo_weight)


class Share(NamedTuple):
    """A share of rows or of positives, with its first and second derivatives with respect to the parameters."""

    value: float
    gradient: Vector
    hessian: Matrix


class _ShareSums(NamedTuple):
    """Numerator and denominator of a share, with their derivatives."""

    above: Any
    below: Any
    above_gradient: Any
    below_gradient: Any
    above_hessian: Any
    below_hessian: Any


@dataclass(frozen=True)
class Constraint:
    r"""Penalty :math:`(g - g_0)^2 / 2\sigma^2` that constrains a share :math:`g` to a known value :math:`g_0`.

    Newton's method stalls if :math:`\sigma` is small. `scarless.pair.fit` then uses a larger :math:`\sigma`, and a
    target instead of :math:`g_0`. It moves the target until the share has the known value (the method of multipliers).
    """

    engine: Engine
    objective: PairObjective | RecalibratedPair
    kind: int | None  # kind of look, for a label frequency; None for a class prior
    group: str | None  # name of the row value that is 1 for rows of the group; None for all rows
    value: float
    variance: float
    description: str
    multiplier: float = 0.0
    widened: float = 0.0  # variance that the method of multipliers adds

    def share(self, beta: Vector, *, hessian: bool = True) -> Share:
        """Return the share and its derivatives, in one pass."""
        sums = self.engine.total(_share_sums, self.objective, beta, self.kind, self.group, hessian)
        below = float(sums.below)
        value = float(sums.above) / below
        gradient = (sums.above_gradient - value * sums.below_gradient) / below
        if not hessian:
            return Share(value, gradient, np.zeros((0, 0)))
        mixed = np.outer(gradient, sums.below_gradient)
        return Share(value, gradient, (sums.above_hessian - value * sums.below_hessian - mixed - mixed.T) / below)

    def sums(self, beta: Vector, curvature: Curvature = Curvature.OBSERVED) -> Sums:
        """Return value, gradient and curvature of the penalty.

        The expected curvature omits the second derivatives of the share.
        """
        exact = curvature is Curvature.OBSERVED
        share, variance = self.share(beta, hessian=exact), self.variance + self.widened
        away = (share.value - self.target) / variance
        matrix = np.outer(share.gradient, share.gradient) / variance
        value = np.asarray(0.5 * away * away * variance)
        return Sums(value, away * share.gradient, matrix + away * share.hessian if exact else matrix)

    def product(self, beta: Vector, direction: Vector) -> Vector:
        """Return the product of the expected curvature and a direction."""
        gradient = self.share(beta, hessian=False).gradient
        return gradient * float(gradient @ direction) / (self.variance + self.widened)

    def in_units(self, change: ChangeOfUnits) -> "Constraint":
        """Return the constraint for parameters in other units."""
        return replace(self, engine=self.engine.in_units())

    @property
    def target(self) -> float:
        """The known value, moved by the multiplier."""
        return self.value - self.multiplier * self.widened

    def moved(self, share: float) -> "Constraint":
        """Return the constraint with the multiplier updated for the current share."""
        return replace(self, multiplier=(share - self.target) / (self.variance + self.widened))

    def softened(self) -> "Constraint":
        """Return the constraint without a multiplier and with a positive standard error."""
        return replace(self, variance=max(self.variance, SE_OF_EXACT_VALUE**2), multiplier=0.0, widened=0.0)

    def information(self, beta: Vector) -> Matrix:
        """Return the constraint's contribution to the information matrix."""
        gradient = self.share(beta, hessian=False).gradient
        return np.outer(gradient, gradient) / max(self.variance, SE_OF_EXACT_VALUE**2)


def in_group(X: Any, rows: Rows, name: str, columns: tuple[int, ...], values: tuple[float, ...]) -> dict[str, Any]:
    """Return a row value that is 1 for rows that have the given values in the given columns, and 0 for other rows."""
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
    hessian: bool,
) -> _ShareSums:
    if isinstance(objective, RecalibratedPair):
        table, at = objective.table(X, rows, beta), objective.inside(beta)
        found = _share_sums(table, rows, objective.inner, at, kind, group, hessian)
        shown_as = Curvature.OBSERVED if hessian else Curvature.NONE
        both = [objective.chained(Sums(*part), shown_as, own=0.0) for part in (found[::2], found[1::2])]
        return _ShareSums(*(each for pair in zip(*both, strict=True) for each in pair))
    terms, w = objective.terms(X, rows, beta), rows["w"]
    if group is not None:
        w = w * rows[group]
    n, of_f = objective.n_parameters, objective.logits[0]
    X_f = of_f.design.take(X)
    slope, swing = w * terms.f * terms.not_f, terms.not_f - terms.f
    gradient, matrix = np.zeros(n), np.zeros((n, n) if hessian else (0, 0))
    if kind is None:
        gradient[of_f.place] = linear.transposed_product(X_f, slope)
        if hessian:
            matrix[of_f.place, of_f.place] = linear.cross_product(X_f, slope * swing, X_f)
        return _ShareSums(np.asarray(w @ terms.f), np.asarray(w.sum()), gradient, np.zeros(n), matrix, 0.0 * matrix)
    of_e, e = objective.logits[1 + kind], terms.e[:, kind]
    turn, curve = terms.e_slope[:, kind], terms.e_curvature[:, kind]
    X_e, below_gradient, below_matrix = of_e.design.take(X), np.zeros(n), 0.0 * matrix
    below_gradient[of_f.place] = linear.transposed_product(X_f, slope)
    gradient[of_f.place] = linear.transposed_product(X_f, slope * e)
    gradient[of_e.place] = linear.transposed_product(X_e, w * terms.f * turn)
    if hessian:
        below_matrix[of_f.place, of_f.place] = linear.cross_product(X_f, slope * swing, X_f)
        matrix[of_f.place, of_f.place] = linear.cross_product(X_f, slope * swing * e, X_f)
        matrix[of_f.place, of_e.place] = linear.cross_product(X_f, slope * turn, X_e)
        matrix[of_e.place, of_f.place] = matrix[of_f.place, of_e.place].T
        matrix[of_e.place, of_e.place] = linear.cross_product(X_e, w * terms.f * curve, X_e)
    labelled, positives = np.asarray(w @ (terms.f * e)), np.asarray(w @ terms.f)
    return _ShareSums(labelled, positives, gradient, below_gradient, matrix, below_matrix)


class Labelling(BaseEstimator):
    r"""Assumptions about the labelling, in addition to the propensity attributes.

    Pass an object of this class as the parameter `labelling` of an estimator. A grid search can set the parameters of
    this object, for example ``labelling__bounds``.

    Parameters
    ----------
    visit_attributes : dict, optional
        Attributes that differ between the looks of a row. Each attribute has a name and one column of `X` for each
        look, such as ``{"effort": ["effort_1", "effort_2"]}``. The propensity of a look uses the column of that look,
        with one coefficient for all looks. The classifier does not use these columns.
    offset : column, or list of columns, optional
        A known term of the propensity's logit, such as the logarithm of an effort. Its coefficient is 1. Give one
        column of `X`, or one column for each look. The classifier does not use these columns.
    bounds : (float, float), optional
        Lowest and highest possible propensity, for example (0.2, 1) if every positive is labelled with a probability
        of at least 0.2.
    shared : bool, default=True
        Whether all looks share one propensity model. With False, each look has its own coefficients, for example if
        each look is a different annotator.
    false_positive_rate : float, sequence or "estimate", default=0.0
        Probability that a look labels a negative row: one number for all looks, or one for each look. "estimate"
        requires several looks, or audits of labelled rows.
    heterogeneity : float or "estimate", default=0.0
        Whether rows differ in how easily they are seen, in ways that no column measures. The logits of all propensities
        of a row are shifted by the same random number; this is its standard deviation. "estimate" requires three looks
        at some rows. The class prior depends on the form of the distribution, which the labels hardly show (Link 2003).
        The estimate uses a normal distribution. The intervals of class prior and label frequency also cover two
        skewed distributions, and the uncertainty of the standard deviation. Needs `SAREMClassifier` with two logistic
        models.
    audit_labels : {"keep", "drop", "undo"}, default="keep"
        How labels of audited rows are used. "keep" uses these labels unchanged. It is right if the labels do not depend
        on the audits. If the findings of audits were entered as labels, choose "drop" or "undo". "drop" ignores the
        labels of audited rows and uses only their class. It is right if rows were audited whether or not they had a
        label. "undo" treats audited rows as unlabelled. It is right if only unlabelled rows were audited. The wrong
        choice biases the class prior; see "Adding information" in the user guide. The fit warns if the rows contradict
        the choice.

    References
    ----------
    Link, "Nonidentifiability of population size from capture-recapture data with heterogeneous detection
    probabilities", Biometrics 59 (2003).

    Examples
    --------
    >>> from scarless import Labelling, SAREMClassifier
    >>> SAREMClassifier(propensity_attributes=["age"], labelling=Labelling(bounds=(0.2, 1)))
    SAREMClassifier(labelling=Labelling(bounds=(0.2, 1)),
                    propensity_attributes=['age'])
    """

    heterogeneity: Any = 0.0  # files of earlier versions lack this parameter

    def __init__(
        self,
        *,
        visit_attributes: Any = None,
        offset: Any = None,
        bounds: Any = None,
        shared: bool = True,
        false_positive_rate: Any = 0.0,
        heterogeneity: Any = 0.0,
        audit_labels: str = "keep",
    ) -> None:
        self.visit_attributes = visit_attributes
        self.offset = offset
        self.bounds = bounds
        self.shared = shared
        self.false_positive_rate = false_positive_rate
        self.heterogeneity = heterogeneity
        self.audit_labels = audit_labels


def labelling_of(model: Any) -> Labelling:
    """Return the parameter `labelling` of a model, or a default `Labelling` if the model has none."""
    return check_labelling(getattr(model, "labelling", None))


def check_labelling(labelling: Any) -> Labelling:
    """Check the parameter `labelling` and return it; for None, return a default `Labelling`."""
    if labelling is None:
        return Labelling()
    if not isinstance(labelling, Labelling):
        raise ValueError(f"labelling must be a Labelling(...), or None; got {shown(labelling)}.")
    return labelling
