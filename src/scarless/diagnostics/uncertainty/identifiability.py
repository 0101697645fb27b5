"""Report on which parts of a fit the data determine, and which parts the penalty determines."""

from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
from scipy.special import logit

from scarless.checks.estimators import opened
from scarless.checks.options import check_share
from scarless.diagnostics.uncertainty.directions import (
    CLASSIFIER,
    MAX_ATTRIBUTES_NAMED,
    MAX_DIRECTIONS_SHOWN,
    PROPENSITY,
    Direction,
    FitInformation,
    Parameter,
    effects_of,
    entering,
    name_parameters,
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

_CONFIDENCE_LEVEL = 0.95
# Half the width, in logits, of the confidence interval of the class prior without the penalty. By judgement: a class
# prior of 0.3 is identified up to an interval of 0.21 to 0.41, and weakly identified up to one of 0.06 to 0.76.
_MAX_HALF_WIDTH_IDENTIFIED, _MAX_HALF_WIDTH_WEAK = 0.5, 2.0
# The functional form identifies the class prior, and the labels reject this form.
CONTRADICTED = "identified by a form that the labels contradict"
MIN_LABELLED_PER_PARAMETER = 5.0  # with fewer labelled rows, intervals from the information matrix are too short
REPORTED_CORRELATION = -0.8  # correlation of an attribute's two coefficients below which a sentence reports it


@dataclass(frozen=True, eq=False, repr=False)
class IdentifiabilityReport:
    """Report on which parts of a fit the data determine, and which parts the penalty determines; prints as text.

    Attributes
    ----------
    verdict : str
        Whether the data alone determine the class prior: "identified", "weakly identified", "identified by a form that
        the labels contradict" or "not identified".

        - "identified by a form that the labels contradict": `form_test_` rejects that both models are linear in their
          attributes. The class prior may be far outside its interval.
        - "not identified": `data_interval` is very wide, or swapping the models gives a class prior outside this
          interval, or another start leads to a higher likelihood (`higher_optimum_`).
        - "weakly identified": `data_interval` is wide, or all positives are labelled according to the fit, or the fit
          did not converge, or there are fewer than 5 labelled rows for each parameter, or tied candidates have class
          priors outside of `data_interval`.
    class_prior : float
        Class prior of the fit.
    level : float
        Confidence level of both intervals.
    class_prior_interval : Interval
        Interval of the fit, including the penalty: ``estimator.class_prior_interval(level=level)``.
    data_interval : Interval
        Interval without the penalty, from a quadratic approximation around the fit.
    swapped : float or None
        Class prior with both models swapped, if they use the same attributes.
    higher : float or None
        Class prior of an optimum with a clearly higher penalised likelihood, if `fit` found one.
    condition, penalised_condition : float
        Condition number of the information without and with the penalty, with centred columns and parameters scaled to
        a unit diagonal. Infinite if a direction has no information.
    directions : list of Direction
        Directions with little information that change the class prior, the worst first.
    harmless : list of Direction
        Directions without information that do not change the class prior: collinear or constant columns.
    parameters : list of Parameter
        The parameters that `coef` and `penalty_share` refer to.
    correlations : dict of str to float
        For each attribute of both models, the correlation of its two coefficients without the penalty. Near -1, the
        data determine the sum of the coefficients but not their difference. An attribute is left out if the data do not
        determine both coefficients.
    coef, penalty_share : arrays
        Estimate of each parameter, and the share of its information that comes from the penalty, from 0 (data only)
        to 1 (penalty only).
    notes : list of str
        Remarks on the fit and on the limits of this report.
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
    level: float = _CONFIDENCE_LEVEL

    def to_frame(self) -> Any:
        """Return estimates and penalty shares as a pandas DataFrame, indexed by model and attribute."""
        pandas = need("pandas", "IdentifiabilityReport.to_frame", extra="frames")
        index = pandas.MultiIndex.from_tuples(
            [parameter[:2] for parameter in self.parameters], names=["model", "attribute"]
        )
        return pandas.DataFrame({"coef": self.coef, "penalty_share": self.penalty_share}, index=index)

    def sentences(self) -> list[str]:
        """Return the report as sentences: the verdict, then the reasons."""
        lines = [_verdict_sentence(self)]
        lines += [str(direction) for direction in self.directions]
        lines += _correlation_sentences(self)
        lines += [str(direction) for direction in self.harmless[:MAX_DIRECTIONS_SHOWN]]
        if len(self.harmless) > MAX_DIRECTIONS_SHOWN:
            more = len(self.harmless) - MAX_DIRECTIONS_SHOWN
            sets = "set" if more == 1 else "sets"
            lines.append(f"{more} more {sets} of collinear or constant columns, which do not affect predictions.")
        most = np.flatnonzero(self.penalty_share > 0.5)
        if most.size:
            ordered = [self.parameters[j] for j in most[np.argsort(-self.penalty_share[most], kind="stable")]]
            lines.append(f"The penalty has more influence than the data on {name_parameters(ordered)}.")
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


def identifiability_report(estimator: Any, *, level: float = _CONFIDENCE_LEVEL) -> IdentifiabilityReport:
    r"""Report which parts of a fit the data determine, and which parts the penalty determines.

    The report analyses the information matrix `H` of the likelihood at the fit, for centred columns and parameters
    scaled to a unit diagonal. An eigenvector :math:`d_k` with a small eigenvalue :math:`\lambda_k` is a combination of
    parameters that the data hardly determine. Directions are ranked by their effect on the class prior
    :math:`\alpha = \mathrm{mean}(f)`:

    .. math:: \mathrm{se}_k = |\nabla\alpha' d_k| / \sqrt{\lambda_k}, \qquad
        \sum_k \mathrm{se}_k^2 = \nabla\alpha' H^{-1} \nabla\alpha.

    Collinear columns, for example, leave coefficients undetermined, but do not affect predictions. The share of a
    parameter's information that comes from the penalty is :math:`[(H+R)^{-1}R]_{jj}`.

    The analysis is local: it uses a quadratic approximation of the likelihood around the fit. It does not find other
    optima, except those that `fit` found (`higher_optimum_`). `profile_class_prior` evaluates the likelihood itself. A
    recalibrated `SAREMClassifierCV` evaluates it in `fit`, on a grid of class priors.

    Parameters
    ----------
    estimator : fitted SAREMClassifier, SAREMClassifierCV or SCARClassifier
        Fitted classifier whose class model and propensity model are logistic.
    level : float in (0, 1), default=0.95
        Confidence level of both intervals. The verdict always refers to 95% intervals.

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
    without the penalty [0.426, 0.756].
    - A larger class prior with a lower label frequency fits slightly worse after adjusting the
      intercepts of both models and x0 of the classifier (changing these coefficients together by one
      standard error changes the class prior by 0.086).
    - Condition number of the information: 49.6; with the penalty 45.8.
    - ...
    - This analysis is local; profile_class_prior covers a wider range.
    """
    level, (estimator, _) = check_share(level, "level"), opened(estimator)
    inference = known_inference(estimator)
    fit = FitInformation.at(inference, _parameters(estimator, inference))
    logit_slope = fit.prior * (1.0 - fit.prior)
    error = fit.data_error / logit_slope if logit_slope > 0 else np.inf
    half = quantile(_CONFIDENCE_LEVEL) * error
    usual = _logit_interval(fit.prior, half)
    swapped = inference.mean_propensity if inference.swappable else None
    higher = getattr(estimator, "higher_optimum_", None)
    moving, harmless = fit.directions()
    verdict = _verdict(half, usual, swapped, reliable=_is_reliable(estimator, inference, usual))
    form = getattr(estimator, "form_test_", None)
    if form is not None and form.rejected and verdict != "not identified":
        verdict = CONTRADICTED
    return IdentifiabilityReport(
        verdict="not identified" if higher is not None else verdict,
        class_prior=estimator.class_prior_,
        class_prior_interval=estimator.class_prior_interval(level=level),
        data_interval=_logit_interval(fit.prior, quantile(level) * error),
        level=level,
        swapped=swapped,
        condition=fit.data.condition,
        penalised_condition=fit.penalised.condition,
        directions=moving,
        harmless=harmless,
        correlations=fit.correlations(),
        parameters=fit.parameters,
        coef=inference.parameters,
        penalty_share=_penalty_share(inference),
        notes=_notes(estimator, inference),
        higher=None if higher is None else higher.class_prior,
    )


def _verdict(half: float, data_interval: Interval, swapped: float | None, *, reliable: bool) -> str:
    low, high = data_interval
    if half > _MAX_HALF_WIDTH_WEAK or (swapped is not None and not low <= swapped <= high):
        return "not identified"
    return "identified" if half <= _MAX_HALF_WIDTH_IDENTIFIED and reliable else "weakly identified"


def _is_reliable(model: Any, inference: PairInference, data_interval: Interval) -> bool:
    """Return whether the fit converged with enough labels, and tied candidates have class priors in the interval."""
    low, high = model.selection_.class_priors
    return bool(
        model.converged_
        and not all_labelled(inference.label_frequency.value)
        and not _few_labels(inference)
        and data_interval.low <= low <= high <= data_interval.high
    )


def _few_labels(inference: PairInference) -> bool:
    return float(inference.sums.labelled) < MIN_LABELLED_PER_PARAMETER * inference.parameters.size


def _correlation_sentences(report: IdentifiabilityReport) -> list[str]:
    """Return a sentence on attributes whose two effects the data hardly separate, unless a direction reports them."""
    reported = {name for direction in report.directions for name in direction.shared}
    strong = {name: r for name, r in report.correlations.items() if r < REPORTED_CORRELATION and name not in reported}
    names = sorted(strong, key=lambda name: strong[name])
    if not names:
        return []
    numbers = ", ".join(f"{strong[name]:.2f}" for name in names[:MAX_ATTRIBUTES_NAMED])
    return [
        f"{entering(names)}; the data can hardly separate {effects_of(names)} (correlation of the two coefficients: "
        f"{numbers})."
    ]


def _condition_words(condition: float) -> str:
    """Return a condition number, or the meaning of an infinite one."""
    infinite = "infinite, because the data have no information on some combination of coefficients"
    return f"{condition:.3g}" if np.isfinite(condition) else infinite


def _verdict_sentence(report: IdentifiabilityReport) -> str:
    low, high = report.class_prior_interval
    own, alone = f"{report.class_prior:.3f} [{low:.3f}, {high:.3f}]", "[{:.3f}, {:.3f}]".format(*report.data_interval)
    if report.higher is not None:
        return (
            f"The fit is in a local optimum with a class prior of {own}. Another start gives a higher penalised "
            f"likelihood and a class prior of {report.higher:.3f}. Fit again with n_starts=5; the other results here "
            "are for the lower optimum."
        )
    if report.swapped is not None:
        return (
            "Both models use the same attributes: swapping classifier and propensity model gives the same "
            f"likelihood and a class prior of {report.swapped:.3f} instead of {own}. To separate the models, give them "
            "different attributes."
        )
    if report.verdict == "not identified":
        return (
            f"The data do not identify the class prior: the estimate {own} depends on the penalty and on the form of "
            f"the models. Without the penalty, the interval is {alone}."
        )
    if report.verdict == CONTRADICTED:
        return (
            "The data identify the class prior only if the log-odds of the class are linear in the attributes and the "
            "labelling depends only on the propensity attributes. The labels contradict this assumption: the estimate "
            f"{own} may be far off."
        )
    how = " only weakly" if report.verdict == "weakly identified" else ""
    return f"Given the form of both models, the data identify the class prior{how}: {own}; without the penalty {alone}."


def _notes(model: Any, inference: PairInference) -> list[str]:
    notes = [*remarks_of(model), *([] if inference.has_extra_information else [REACHES_ONE])]
    if _few_labels(inference):
        notes.append(
            f"There are {inference.sums.labelled:g} labelled rows for {inference.parameters.size} parameters. With "
            f"fewer than {MIN_LABELLED_PER_PARAMETER:g} labelled rows for each parameter, the intervals tend to be "
            "too short."
        )
    if inference.expected:
        notes.append(
            "The fit is not at a maximum of the penalised likelihood, so the expected information is used instead of "
            "the observed information."
        )
    wider = (
        "class_prior_interval() uses a grid of all class priors."
        if hasattr(model, "recalibration_")
        else "profile_class_prior covers a wider range."
    )
    notes.append(f"This analysis is local; {wider}")
    return notes


def _penalty_share(inference: PairInference) -> Vector:
    variance = np.minimum(inference.parameter_errors() ** 2, np.finfo(float).max)  # may be infinite
    return np.minimum(variance * inference.ridge, 1.0)


def _parameters(model: Any, inference: PairInference) -> list[Parameter]:
    of_f, *of_others = parameter_names(model)
    found = [Parameter(CLASSIFIER, name, name == INTERCEPT) for name in of_f]
    others = [name for names in of_others for name in names]
    return found + [Parameter(PROPENSITY, name, name.split(" (")[0] == INTERCEPT) for name in others]


def _logit_interval(value: float, half: float) -> Interval:
    return Interval(*map(float, uncertainty.logit_interval(np.asarray(logit(value)), np.asarray(half), 1.0)))
