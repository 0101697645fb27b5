"""Which parts of a fit the data decide, and which the penalty does: told in words."""

from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
from scipy.special import logit

from scarless.checks.estimators import opened
from scarless.diagnostics.uncertainty.directions import (
    CLASSIFIER,
    NAMED,
    PROPENSITY,
    SHOWN,
    Direction,
    Look,
    Parameter,
    entering,
    of_all,
    two_effects,
)
from scarless.models.inspection import remarks_of
from scarless.models.pair import known_inference
from scarless.models.summary import INTERCEPT, REACHES_ONE, parameter_names
from scarless.numerics import uncertainty
from scarless.numerics.arrays import Vector
from scarless.numerics.uncertainty import Interval, quantile
from scarless.outside.extras import need
from scarless.pair.inference import PairInference
from scarless.pair.logistic import all_labelled

_LEVEL = 0.95
# Half the width, in logits, of the data's own interval for the class prior: 0.3 then means 0.21 to 0.41 or less,
# and beyond the second number 0.06 to 0.76 or more.
_SURE, _VAGUE = 0.5, 2.0
# The labels contradict the form by which they identify the class prior.
CONTRADICTED = "identified by a form that the labels contradict"
_FEW = 5.0  # labelled rows per parameter below which an information matrix promises too much
_ENTANGLED = -0.8  # correlation of an attribute's two coefficients below which it is told of


@dataclass(frozen=True, eq=False, repr=False)
class IdentifiabilityReport:
    """What the data decide and what they leave to the penalty; prints as text.

    Attributes
    ----------
    verdict : str
        "identified", "weakly identified", "identified by a form that the labels contradict" or "not identified": of
        the class prior, by the data alone. The third is a fit whose `form_test_` rejects that both models are linear in
        the attributes that they see; the class prior may then be far outside its interval. Not identified
        is also what has another value with both models swapped, and a fit in a local optimum where another start was
        seen to lead higher (`higher_optimum_`). At best weakly identified is a fit in which all
        positives are labelled, one that did not converge, one with less than 5 labelled rows per parameter, and one
        that was chosen among others, tied with it, with class priors outside the interval.
    class_prior : float
        The fit's class prior.
    level : float
        Nominal level of both intervals.
    class_prior_interval : Interval
        Its interval as the fit has it, penalty included: ``estimator.class_prior_interval(level=level)``.
    data_interval : Interval
        Its interval by the data alone, to second order around the fit.
    swapped : float or None
        The class prior with both models swapped, where they see the same attributes.
    higher : float or None
        The class prior that another start was seen to lead to, where its penalised likelihood is clearly higher.
    condition, penalised_condition : float
        Ratio of largest to smallest eigenvalue of the information without and with the penalty, columns centred and
        parameters scaled to a unit diagonal. Infinite where a direction has no information.
    directions : list of Direction
        Weakly informed directions that move the class prior, the worst first.
    harmless : list of Direction
        Directions without information that move no class prior: columns that repeat each other, or that are constant.
    parameters : list of Parameter
        What the next two belong to.
    correlations : dict of str to float
        For each attribute that enters both models, the correlation of its two coefficients by the data alone: near -1
        the data know their sum and not their difference. Left out where they know neither.
    coef, penalty_share : arrays
        Each estimate, and the share of its information that comes from the penalty: 0 where the data speak alone,
        1 where they say nothing.
    notes : list of str
        What else to know.
    """

    verdict: str
    class_prior: float
    class_prior_interval: Interval
    data_interval: Interval
    swapped: float | None
    condition: float
    penalised_condition: float
    directions: list[Direction]
    harmless: list[Direction]
    correlations: dict[str, float]
    parameters: list[Parameter]
    coef: Vector
    penalty_share: Vector
    notes: list[str]
    higher: float | None = None
    level: float = _LEVEL

    def to_frame(self) -> Any:
        """Return estimates and penalty shares as a pandas DataFrame, indexed by model and attribute."""
        pandas = need("pandas", "IdentifiabilityReport.to_frame", extra="frames")
        index = pandas.MultiIndex.from_tuples(
            [parameter[:2] for parameter in self.parameters], names=["model", "attribute"]
        )
        return pandas.DataFrame({"coef": self.coef, "penalty_share": self.penalty_share}, index=index)

    def sentences(self) -> list[str]:
        """Return the report as sentences: the verdict, then what it rests on."""
        lines = [_verdict_sentence(self)]
        lines += [str(direction) for direction in self.directions]
        lines += _correlation_words(self)
        lines += [str(direction) for direction in self.harmless[:SHOWN]]
        if len(self.harmless) > SHOWN:
            lines.append(f"{len(self.harmless) - SHOWN} more such harmless sets of columns.")
        most = np.flatnonzero(self.penalty_share > 0.5)
        if most.size:
            named = of_all([self.parameters[j] for j in most[np.argsort(-self.penalty_share[most], kind="stable")]])
            lines.append(f"More from the penalty than from the data: {named}.")
        numbers = f"{_condition_words(self.condition)}; with the penalty {_condition_words(self.penalised_condition)}"
        return [*lines, f"Condition number of the information: {numbers}.", *self.notes]

    def __str__(self) -> str:
        first, *rest = self.sentences()
        lines = ["Identifiability", "===============", *wrap(first, 100)]
        for sentence in rest:
            lines += wrap(sentence, 100, initial_indent="- ", subsequent_indent="  ")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *rest = self.sentences()
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in rest)
        return f"<div><h4>Identifiability</h4><p><b>{escape(first)}</b></p><ul>{items}</ul></div>"


def identifiability_report(estimator: Any) -> IdentifiabilityReport:
    r"""Tell which parts of a fit the data decide, and which the penalty does.

    Looks at the information matrix `H` of the likelihood at the fit, for columns about their means and parameters
    scaled to a unit diagonal. An eigenvector with a small eigenvalue :math:`\lambda_k` is a combination
    :math:`d_k` of parameters that the data hardly tell. What it does to the class prior
    :math:`\alpha = \mathrm{mean}(f)` ranks it:

    .. math:: \mathrm{se}_k = |\nabla\alpha' d_k| / \sqrt{\lambda_k}, \qquad
        \sum_k \mathrm{se}_k^2 = \nabla\alpha' H^{-1} \nabla\alpha,

    so that the sentences point at what matters: columns that repeat each other leave coefficients open but no
    prediction. The share of a parameter's information that comes from the penalty is
    :math:`[(H+R)^{-1}R]_{jj}`.

    All this is local, a quadratic picture of the likelihood around the fit. Other optima are not seen, but for what
    `fit` itself saw (`higher_optimum_`), and a wide
    interval is only known to be wide: `profile_class_prior` follows the likelihood itself, and a recalibrated
    `SAREMClassifierCV` has walked through it in `fit`.

    Parameters
    ----------
    estimator : fitted SAREMClassifier, SAREMClassifierCV or SCARClassifier
        With two logistic models.

    Returns
    -------
    IdentifiabilityReport

    References
    ----------
    Rothenberg (1971), "Identification in Parametric Models", Econometrica 39. Belsley, Kuh and Welsch (1980),
    "Regression Diagnostics", chapter 3.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SCARClassifier
    >>> from scarless.diagnostics.uncertainty.identifiability import identifiability_report
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> s = rng.random(2000) < 0.3 / (1 + np.exp(-X[:, 0]))
    >>> report = identifiability_report(SCARClassifier().fit(X, s))
    >>> print(report)
    Identifiability
    ===============
    Given the form of both models, the data identify the class prior only weakly: 0.603 [0.432, 0.751];
    without the penalty's help [0.426, 0.756].
    - The intercepts of both models: a larger class prior with a lower label frequency fits little
      worse, with x0 of the classifier adjusted (one standard error along this direction moves the class
      prior by 0.086).
    - Condition number of the information: 49.6; with the penalty 45.8.
    - Every positive is taken to be as likely to be labelled as any other: this is SCAR, by maximum
      likelihood. If the labelling depends on attributes, name them:
      SAREMClassifier(propensity_attributes=[...]).
    - Class prior and label frequency rest on the form of the classifier, whose probability comes close
      to 1 in the surest rows. If even these are positive only with probability m, the class prior is
      too high by a factor of up to 1/m, and no label shows it: check the class of some of the surest
      rows.
    - This is a local picture; profile_class_prior follows the likelihood farther out.
    """
    estimator, _ = opened(estimator)
    inference = known_inference(estimator)
    look = Look.at(inference, _parameters(estimator, inference))
    logit_slope = look.prior * (1.0 - look.prior)
    half = quantile(_LEVEL) * look.data_error / logit_slope if logit_slope > 0 else np.inf
    data_interval = _logit_interval(look.prior, half)
    swapped = inference.mean_propensity if inference.swappable else None
    higher = getattr(estimator, "higher_optimum_", None)
    moving, harmless = look.directions()
    verdict = _verdict(half, data_interval, swapped, sure=_may_be_sure(estimator, inference, data_interval))
    form = getattr(estimator, "form_test_", None)
    if form is not None and form.rejected and verdict != "not identified":
        verdict = CONTRADICTED
    return IdentifiabilityReport(
        verdict="not identified" if higher is not None else verdict,
        class_prior=estimator.class_prior_,
        class_prior_interval=estimator.class_prior_interval(level=_LEVEL),
        data_interval=data_interval,
        swapped=swapped,
        condition=look.data.condition,
        penalised_condition=look.penalised.condition,
        directions=moving,
        harmless=harmless,
        correlations=look.correlations(),
        parameters=look.parameters,
        coef=inference.parameters,
        penalty_share=_penalty_share(inference),
        notes=_notes(estimator, inference),
        higher=None if higher is None else higher.class_prior,
    )


def _verdict(half: float, data_interval: Interval, swapped: float | None, *, sure: bool) -> str:
    low, high = data_interval
    if half > _VAGUE or (swapped is not None and not low <= swapped <= high):
        return "not identified"
    return "identified" if half <= _SURE and sure else "weakly identified"


def _may_be_sure(model: Any, inference: PairInference, data_interval: Interval) -> bool:
    """Whether the fit is a top of the likelihood, and what cannot be told from it is within its interval."""
    low, high = model.selection_.class_priors
    return bool(
        model.converged_
        and not all_labelled(inference.label_frequency.value)
        and not _few_labels(inference)
        and data_interval.low <= low <= high <= data_interval.high
    )


def _few_labels(inference: PairInference) -> bool:
    return float(inference.sums.labelled) < _FEW * inference.parameters.size


def _correlation_words(report: IdentifiabilityReport) -> list[str]:
    """Tell which attributes in both models have effects that the data know by their sum only, unless told already."""
    told = {name for direction in report.directions for name in direction.shared}
    entangled = {name: r for name, r in report.correlations.items() if r < _ENTANGLED and name not in told}
    names = sorted(entangled, key=lambda name: entangled[name])
    if not names:
        return []
    numbers = ", ".join(f"{entangled[name]:.2f}" for name in names[:NAMED])
    return [
        f"{entering(names)}; the data can hardly tell {two_effects(names)} apart (correlation of the two coefficients: "
        f"{numbers})."
    ]


def _condition_words(condition: float) -> str:
    """Return a condition number; where it is infinite, what that means."""
    told = "infinite, as the data say nothing of some combination of coefficients"
    return f"{condition:.3g}" if np.isfinite(condition) else told


def _verdict_sentence(report: IdentifiabilityReport) -> str:
    low, high = report.class_prior_interval
    own, alone = f"{report.class_prior:.3f} [{low:.3f}, {high:.3f}]", "[{:.3f}, {:.3f}]".format(*report.data_interval)
    if report.higher is not None:
        return (
            f"The fit is in a local optimum: its class prior {own} is not what the data say, since another start leads "
            f"to a higher penalised likelihood and a class prior of {report.higher:.3f}. Fit again with n_starts=5; "
            "all that follows is of the lower optimum."
        )
    if report.swapped is not None:
        return (
            "Both models see the same attributes: swapping classifier and propensity model gives the same "
            f"likelihood and a class prior of {report.swapped:.3f} instead of {own}. Which is which is "
            "for you to say, by giving them different attributes."
        )
    if report.verdict == "not identified":
        return (
            f"The data do not identify the class prior: {own} rests on the penalty and on the form of the models; the "
            f"data alone allow {alone}."
        )
    if report.verdict == CONTRADICTED:
        return (
            "The data identify the class prior only if the class is linear in the attributes and the labelling depends "
            f"on those named, which the labels contradict: {own} may be far off."
        )
    how = " only weakly" if report.verdict == "weakly identified" else ""
    return (
        f"Given the form of both models, the data identify the class prior{how}: {own}; without the penalty's help "
        f"{alone}."
    )


def _notes(model: Any, inference: PairInference) -> list[str]:
    notes = [*remarks_of(model), *([] if inference.told_by_height else [REACHES_ONE])]
    if _few_labels(inference):
        notes.append(
            f"Labelled rows: {inference.sums.labelled:g}, for {inference.parameters.size} parameters: with "
            f"less than {_FEW:g} for each, intervals from the information tend to be too short."
        )
    if inference.expected:
        notes.append(
            "The fit is not at a maximum of the penalised likelihood, so the expected information stands in for the "
            "observed one."
        )
    farther = (
        "class_prior_interval() rests on a walk through all levels."
        if hasattr(model, "recalibration_")
        else "profile_class_prior follows the likelihood farther out."
    )
    notes.append(f"This is a local picture; {farther}")
    return notes


def _penalty_share(inference: PairInference) -> Vector:
    variance = np.minimum(inference.parameter_errors() ** 2, np.finfo(float).max)  # infinite only without a penalty
    return np.minimum(variance * inference.ridge, 1.0)


def _parameters(model: Any, inference: PairInference) -> list[Parameter]:
    of_f, *of_others = parameter_names(model)
    found = [Parameter(CLASSIFIER, name, name == INTERCEPT) for name in of_f]
    others = [name for names in of_others for name in names]
    return found + [Parameter(PROPENSITY, name, name.split(" (")[0] == INTERCEPT) for name in others]


def _logit_interval(value: float, half: float) -> Interval:
    return Interval(*map(float, uncertainty.logit_interval(np.asarray(logit(value)), np.asarray(half), 1.0)))
