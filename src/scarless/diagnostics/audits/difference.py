"""Class prior by the difference estimator: the model's mean posterior, corrected by audits."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.checks.looks import Codes, warnings_about_audits
from scarless.checks.options import check_share, check_vector, check_weight, real_number, shown
from scarless.checks.rows import named_values, warn_about_row_order
from scarless.diagnostics.audits._reading import AuditRows, read_audit_rows
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.audits import Differences, difference_interval
from scarless.numerics.uncertainty import Interval, quantile
from scarless.outside.notices import warn_user

MIN_AUDITS_PER_STRATUM = 5  # with fewer audits in a stratum, all rows are one stratum
_MIN_EFFECTIVE_SHARE = 0.5  # effective number of audits, as a share of all audits, below which a warning is given
# A warning is given if the number of rows that the audits represent is more than 5 standard errors below the number of
# rows in the table. The standard error is set to at least 2% of the rows.
_WARN_STANDARD_ERRORS, _MIN_STANDARD_ERROR_SHARE = 5.0, 0.02
_MIN_AUDITS_PER_CLASS = 5  # with fewer audited positives or negatives, the interval is approximate


@dataclass(frozen=True, eq=False, repr=False)
class AuditedClassPrior:
    """Class prior estimated from a model and audits; prints as text.

    Attributes
    ----------
    value : float
        The estimate.
    interval : Interval
        Confidence interval for the class prior of the population that the rows are drawn from.
    std_err : float
        Standard error, from the sampling of audits and of rows.
    model_value : float
        Estimate of the model alone: the mean of its posterior without audits.
    difference : float
        Correction by the audits: `value` minus `model_value`.
    n_audited, n_positive : int
        Number of audited rows that the estimate uses, and of positives among them. If labelled rows count as positive,
        only unlabelled rows are used.
    n_effective : float
        Number of audits with equal probabilities that would have the same information.
    level : float
        Confidence level.
    labels_are_certain : bool
        Whether labelled rows count as positive without an audit.
    """

    value: float
    interval: Interval
    std_err: float
    model_value: float
    difference: float
    n_audited: int
    n_positive: int
    n_effective: float
    level: float
    labels_are_certain: bool

    def sentences(self) -> list[str]:
        """Return the results as sentences."""
        low, high = self.interval
        kind = " unlabelled" if self.labels_are_certain else ""
        lines = [
            f"Class prior {self.value:.3f}, {100 * self.level:.4g}% interval {low:.3f} to {high:.3f}, from "
            f"{self.n_audited:,} audited{kind} rows ({self.n_positive:,} positive)."
        ]
        z = abs(self.difference) / self.std_err if self.std_err > 0 else 0.0
        if abs(self.difference) < 5e-4:
            lines.append(f"The model alone estimates {self.model_value:.3f}, and the audits agree.")
        else:
            way = "low" if self.difference > 0 else "high"
            chance = "" if z > 2 else ", which may be due to chance"
            lines.append(
                f"The model alone estimates {self.model_value:.3f}; according to the audits this is too {way} by "
                f"{abs(self.difference):.3f}{chance}."
            )
        if self.labels_are_certain:
            lines.append("Labelled rows count as positive, audited or not.")
        if self.n_effective < _MIN_EFFECTIVE_SHARE * self.n_audited:
            lines.append(
                "The rows had very different probabilities of being audited. The audits therefore have only as much "
                f"information as {_audits(self.n_effective)} of rows with equal probabilities."
            )
        if min(self.n_positive, self.n_audited - self.n_positive) < _MIN_AUDITS_PER_CLASS:
            lines.append(
                "Few audited rows are positive, or few are negative. Audit more rows before you rely on the interval."
            )
        lines.append(
            "The estimate is valid for any model if the audited rows were chosen at random. It is too high if "
            "positives were more likely to be audited, or if their audits were more likely to be reported."
        )
        return lines

    def __str__(self) -> str:
        return " ".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


def audited_class_prior(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    audit: ArrayLike,
    probability: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> AuditedClassPrior:
    r"""Estimate the class prior by the difference estimator, which is valid even if the model is wrong.

    Let :math:`q_i` be the model's posterior without audits, :math:`a_i` the class of audited rows, and :math:`p_i` the
    probability with which a row was chosen for the audit:

    .. math:: \hat\alpha = \frac{\sum_i w_i q_i}{\sum_i w_i} +
        \frac{\sum_{\text{audited}} (w_i/p_i)\,(a_i - q_i)}{\sum_{\text{audited}} w_i/p_i}.

    The second term corrects the mean error of the model. A bad model makes the interval wider, but not invalid. The
    estimate is valid if the probabilities are correct: the audited rows were chosen at random, or with known
    probabilities that depend on attributes, labels and earlier audits. It is too high if positives were more likely to
    be audited, or if their audits were more likely to be reported; the data cannot show this.

    Labelled and unlabelled rows are separate strata, unless one of them has fewer than 5 audits. Without false
    positives, labelled rows are positive; the second term is then computed from unlabelled rows only and multiplied by
    their share.

    The variance has two parts: one from the choice of the audited rows, one from the sampling of the rows of the table.
    For a given table, the mean of :math:`\hat\alpha` is the share of positives :math:`\bar y`. With
    :math:`\omega = w/p`, the variance of :math:`\hat\alpha` for a given table is

    .. math:: v = \frac{n}{n-1} \frac{\sum_{\text{audited}} (1-p_i)\,\omega_i^2 (d_i - \bar d)^2}{(\sum \omega_i)^2},
        \qquad d_i = a_i - q_i,

    which is :math:`(1 - n/N)\,s_d^2/n` for `n` of `N` rows drawn at random. The sampling of the rows
    of the table adds the variance of :math:`\bar y`, :math:`\alpha(1-\alpha)\sum w^2/(\sum w)^2`.

    The interval contains the class priors that differ from the estimate by at most `z` standard errors, where the
    standard error is computed *at that class prior*. If `q` is the same for all rows, this is Wilson's interval.

    In simulations with 25 to 200 audits, class priors from 0.03 to 0.84, and right and wrong models, 95% intervals
    covered the class prior in 93 to 100% of runs. Intervals that are symmetric in the logit covered it in as few as 52%
    of runs if there were few positives. On 5,000 rows each of Adult, Cover Type and Diabetes, with 200 audits, the
    class priors of the models were wrong by 0.05, 0.12 and 0.17. The intervals covered the true class prior in 98, 94
    and 96% of 50 runs (``python -m benchmarks audits coverage``).

    Parameters
    ----------
    estimator : fitted classifier
        Classifier of this package, also as the last step of a pipeline or in a `TableClassifier`. Fit it without these
        audits: if `n` audits are used in the fit too, the correction is too small, by a share of about `1/n` for each
        parameter.
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
        Attributes of all rows that the class prior is estimated for.
    s : array of shape (n_rows,) or (n_rows, n_looks)
        Observed labels of these rows, coded as in `fit`.
    audit : array of shape (n_rows,)
        True class of audited rows, 1 or 0; NaN, None or -1 for rows that were not audited.
    probability : float, array of shape (n_rows,) or (n_audited,), or "equal", optional
        Probability with which each row was chosen, for example ``plan_audit(...).probability``. The default
        and "equal" assume one probability for all unlabelled rows, and one probability for all labelled rows.
    sample_weight : array of shape (n_rows,), optional
        Weight of each row; 1 by default. Only ratios of weights matter.
    level : float in (0, 1), default=0.95
        Confidence level.

    Returns
    -------
    AuditedClassPrior

    See Also
    --------
    plan_audit : Chooses rows to audit.

    References
    ----------
    Saerndal, Swensson and Wretman (1992), "Model Assisted Survey Sampling", chapters 5, 6 and 9. Angelopoulos et al.
    (2023), "Prediction-powered inference", Science 382. Wilson (1927), JASA 22.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier, audited_class_prior
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> s = y & (rng.random(5000) < 1 / (1 + np.exp(1 - X[:, 0])))  # labels depend on a column that the model omits
    >>> model = SAREMClassifier(propensity_attributes=[1]).fit(X, s)
    >>> audit = np.full(5000, np.nan)
    >>> rows = rng.choice(5000, size=200, replace=False)
    >>> audit[rows] = y[rows]
    >>> found = audited_class_prior(model, X, s, audit)
    >>> print(f"model {found.model_value:.2f}, with audits {found.value:.2f}, truth {y.mean():.2f}")
    model 0.26, with audits 0.47, truth 0.50
    """
    level = check_share(level, "level")
    data = read_audit_rows(estimator, X, s, audit)
    w = check_weight(named_values(X, sample_weight), n_rows=data.q.size)
    p = _check_inclusion(probability, data.audited)
    if p is not None and np.shape(probability) == p.shape:
        warn_about_row_order(X, probability=probability)
    found, strata = estimate_from_differences(data, w, p, level)
    _warn_about_audits(found, data)
    if p is not None:
        _warn_about_large_probabilities(strata, data, w)
    return found


def class_prior_from_posteriors(
    q: Vector, labels: Codes, audit: Codes, *, probability: Vector, weight: Vector, level: float
) -> AuditedClassPrior:
    """Return the class prior from audits, like `audited_class_prior`, with posteriors that were computed before.

    `audit` is -1, and `probability` is ignored, for rows that were not audited.
    """
    data = AuditRows(None, None, q, labels, audit)
    return estimate_from_differences(data, weight, np.where(audit >= 0, probability, 1.0), level)[0]


def estimate_from_differences(
    data: AuditRows, w: Vector, p: Vector | None, level: float
) -> tuple[AuditedClassPrior, list[Differences]]:
    """Return the class prior from audits of rows with the probabilities `p`, and the strata that it was computed from.

    `p` is None if all probabilities are equal, as in `make_strata`.
    """
    strata = make_strata(data, w, p)
    kish = float(w @ w) / float(w.sum()) ** 2
    model_value = float(w @ data.q) / float(w.sum())
    difference = sum(each.share * each.mean for each in strata)
    low, high = _known_bounds(data, w)
    value = min(max(model_value + difference, low), high)
    rest = sum(each.factor * each.spread for each in strata[1:])
    variance = strata[0].factor * strata[0].spread + rest + value * (1.0 - value) * kish
    found = AuditedClassPrior(
        value=value,
        interval=difference_interval(value, strata[0], rest, z=quantile(level), kish=kish),
        std_err=float(np.sqrt(variance)),
        model_value=model_value,
        difference=value - model_value,
        n_audited=sum(each.a.size for each in strata),
        n_positive=int(sum(each.a.sum() for each in strata)),
        n_effective=sum(each.effective for each in strata),
        level=level,
        labels_are_certain=data.labels_are_certain,
    )
    return found, strata


def make_strata(data: AuditRows, w: Vector, p: Vector | None) -> list[Differences]:
    """Return the audited rows of each stratum, unlabelled rows first. `p` is None if probabilities are equal.

    If all labelled rows are known to be positive, they are left out. Otherwise labelled rows are the second stratum; if
    either stratum has too few audits, all rows are one stratum.
    """
    labelled, counted = data.labelled, w > 0
    masks = [~labelled & counted] if data.labels_are_certain else [~labelled & counted, labelled & counted]
    if len(masks) > 1 and min(int((data.audited & mask).sum()) for mask in masks) < MIN_AUDITS_PER_STRATUM:
        masks = [counted]
    return [_stratum(data, w, p, mask) for mask in masks]


def _stratum(data: AuditRows, w: Vector, p: Vector | None, kind: NDArray[np.bool_]) -> Differences:
    checked = data.audited & kind
    n = int(checked.sum())
    if n < 2:
        what, unused = "rows", ""
        if data.labels_are_certain:
            what, unused = "unlabelled rows", " Audits of labelled rows are not used, because these rows are positive."
        raise ValueError(
            f"audit must contain the class of at least 2 {what} with a positive weight; got {n}. Audit more rows, "
            f"preferably at least 100.{unused}"
        )
    inclusion = np.full(n, n / kind.sum()) if p is None else p[checked]
    share = float(w[kind].sum() / w.sum())
    # Only ratios of these weights matter. They are scaled, because 1/p may overflow.
    omega = w[checked] / w[checked].max() * (inclusion.min() / inclusion)
    return Differences((data.audit[checked] == 1) * 1.0, data.q[checked], omega, inclusion, share)


def _check_inclusion(probability: Any, audited: NDArray[np.bool_]) -> Vector | None:
    """Return the inclusion probabilities of all rows (1 for rows without an audit), or None if they are equal."""
    if probability is None or (isinstance(probability, str) and probability == "equal"):
        return None
    if isinstance(probability, str):
        raise ValueError(f"probability must be a number, one number for each row, or 'equal'; got {probability!r}.")
    if np.ndim(probability) == 0 and not 0 < real_number(probability) <= 1:
        raise ValueError(f"probability must lie in (0, 1]; got {shown(probability)}.")
    given = check_vector(probability, "probability", n_rows=None if np.ndim(probability) else audited.size)
    n, places = int(audited.sum()), np.flatnonzero(audited)
    if given.size not in (audited.size, n):
        raise ValueError(
            f"probability has {given.size} values; pass a single number, one number for each of the {audited.size} "
            f"rows, or one number for each of the {n} audited rows."
        )
    of_audited = given[audited] if given.size == audited.size else given
    bad = np.flatnonzero(~((of_audited > 0) & (of_audited <= 1)))  # also true for NaN
    if bad.size:
        raise ValueError(
            f"probability must lie in (0, 1] for every audited row; it does not for {bad.size} of {n} (first: row "
            f"{places[bad[0]]} has {of_audited[bad[0]]:g}). Pass the probability with which each of these rows was "
            "chosen, or leave their audits out."
        )
    every = np.ones(audited.size)
    every[audited] = of_audited
    return every


def _warn_about_large_probabilities(strata: list[Differences], data: AuditRows, w: Vector) -> None:
    r"""Warn if audited rows, each weighted by :math:`1/p`, represent far fewer rows than the table has.

    Probabilities that are too large make intervals too short, because a row with probability 1 adds no variance.
    """
    counted = w > 0
    n_open = int((counted & ~data.labelled).sum() if data.labels_are_certain else counted.sum())
    p = np.concatenate([each.p for each in strata])
    p = np.maximum(p, 1.0 / n_open)  # smaller probabilities make the interval wider, so they need no warning
    total, spread = float((1.0 / p).sum()), float(np.sqrt(((1.0 - p) / p**2).sum()))
    if n_open - total > _WARN_STANDARD_ERRORS * max(spread, _MIN_STANDARD_ERROR_SHARE * n_open):
        kind = " unlabelled" if data.labels_are_certain else ""
        warn_user(
            f"audited_class_prior: according to probability=, the {p.size} audits represent {total:,.0f}{kind} rows, "
            f"but the table has {n_open:,}. The probabilities are too large, so the interval is too short. Correct the "
            "probabilities, or leave probability= out if all rows had the same probability.",
            UserWarning,
        )


def _audits(n: float) -> str:
    return "1 audit" if round(n) == 1 else f"{n:.0f} audits"


def _known_bounds(data: AuditRows, w: Vector) -> tuple[float, float]:
    """Return the share of rows that are known to be positive, and the share of rows that may be positive."""
    certain = data.labelled & (data.audit < 0) if data.labels_are_certain else np.zeros(w.size, dtype=bool)
    positive = certain | (data.audit == 1)
    return float(w[positive].sum() / w.sum()), 1.0 - float(w[data.audit == 0].sum() / w.sum())


def _warn_about_audits(found: AuditedClassPrior, data: AuditRows) -> None:
    if found.n_effective < _MIN_EFFECTIVE_SHARE * found.n_audited:
        warn_user(
            f"audited_class_prior: the values of probability= differ so much that {found.n_audited} audits have only "
            f"as much information as {_audits(found.n_effective)} with equal probabilities. A few rows with tiny "
            "probabilities dominate the estimate, and the interval may be too short. Audit more rows, drawn with equal "
            "probabilities.",
            UserWarning,
        )
    labelled = data.labelled
    for doubt in warnings_about_audits(data.labels, data.audit):
        warn_user(f"audited_class_prior: {doubt}", UserWarning)
    false = int(((data.audit == 0) & labelled).sum())
    if false and bool((data.q[labelled] == 1).all()):
        warn_user(
            f"audited_class_prior: {false} audited {'row is' if false == 1 else 'rows are'} labelled but negative, and "
            "the model assumes that all labelled rows are positive. This estimate uses the audits of labelled rows. To "
            "allow for false positives in the model too, fit it with Labelling(false_positive_rate='estimate').",
            UserWarning,
        )
