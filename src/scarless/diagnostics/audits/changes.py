"""What audits changed: the estimate before and after, and whether the audits agree with the model that chose them."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from scarless.diagnostics.audits.difference import AuditedClassPrior
from scarless.numerics.arrays import Integers, Matrix, Vector
from scarless.outside.notices import counted

AUDIT_GROUPS = 5  # groups of audited rows by their posterior
MIN_ROWS_PER_GROUP = 12
SIGNIFICANT = 0.05
_SIMULATIONS = 4000
_CONTRADICTED = (
    "The models that were fitted with the checks contradict them. Do not rely on the estimate of the models."
)
_FAR_FROM_EXPECTED = 3.0  # standard errors between found and expected positives if posteriors were exact


class AuditComparison(NamedTuple):
    """Audited positives compared with their expected number, for rows whose class was unknown before the audit."""

    n: int
    found: int
    expected: float
    surplus: float | None  # found minus expected, in standard errors
    # For each group: lowest and highest posterior, number of rows, expected share, observed share and its interval.
    groups: tuple[tuple[float, ...], ...]
    p_value: float = np.nan


def compare_with_posteriors(
    a: Vector, q: Vector, *, draws: Matrix | None = None, level: float = 0.95
) -> AuditComparison:
    r"""Compare audited classes with the posteriors that the rows had before the audit.

    Parameters
    ----------
    a : array of shape (n,)
        Audited classes, 1 or 0.
    q : array of shape (n,)
        Posteriors.
    draws : array of shape (n, n_draws), optional
        Draws of the posteriors, which show how uncertain they are. Only with draws there is a p-value.
    level : float, default=0.95
        Confidence level of the intervals of the groups.

    Returns
    -------
    AuditComparison
        The p-value is for the statistic :math:`\sum_g (O_g - E_g)^2 / V_g` over groups of rows with similar posteriors.
        Its distribution is simulated: for each simulation, draw one set of posteriors, then the class of each row.
    """
    if not a.size:
        return AuditComparison(0, 0, 0.0, None, ())
    spread = float(np.sqrt(np.sum(q * (1.0 - q))))
    surplus = float(a.sum() - q.sum()) / spread if spread > 0 else None
    members = np.array_split(np.argsort(q, kind="stable"), max(1, min(AUDIT_GROUPS, q.size // MIN_ROWS_PER_GROUP)))
    groups = []
    for rows in members:
        k, n, posterior = int(a[rows].sum()), int(rows.size), q[rows]
        ends = binomtest(k, n).proportion_ci(confidence_level=level, method="wilson")
        groups.append((float(posterior.min()), float(posterior.max()), float(n), float(posterior.mean()), k / n,
                       float(ends.low), float(ends.high)))  # fmt: skip
    p_value = np.nan if draws is None else _simulated_p_value(a, draws, members)
    return AuditComparison(int(a.size), int(a.sum()), float(q.sum()), surplus, tuple(groups), p_value)


def _simulated_p_value(a: Vector, draws: Matrix, members: list[Integers]) -> float:
    """Return the share of simulations whose group counts are at least as far from their mean as the observed counts."""
    rng = np.random.default_rng(0)
    q = draws[:, rng.integers(draws.shape[1], size=_SIMULATIONS)]
    classes = rng.random(q.shape) < q
    counts = np.array([classes[rows].sum(axis=0) for rows in members])
    mean, variance = counts.mean(axis=1), np.maximum(counts.var(axis=1), 1e-9)
    observed = float((((np.array([a[rows].sum() for rows in members]) - mean) ** 2) / variance).sum())
    simulated = ((counts - mean[:, None]) ** 2 / variance[:, None]).sum(axis=0)
    return float((1.0 + (simulated >= observed - 1e-9).sum()) / (1.0 + _SIMULATIONS))


class Round(NamedTuple):
    """The estimate of the class prior after a number of audits."""

    n_audited: int
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False, repr=False)
class AuditChanges:
    """What the answers of worksheets changed; prints as text.

    Attributes
    ----------
    rounds : tuple of Round
        Estimates of the class prior: before the first worksheet, and after each fit with more answers.
    agreement : AuditComparison
        Answers compared with the posteriors that the rows had when they were chosen.
    difference : AuditedClassPrior or None
        Class prior from the answers and the probabilities of the rows, valid for any model; None if it does not exist.
    why_no_difference : str
        Reason why it does not exist.
    n_more, width_after : int, float or None
        A number of further audits, and the expected width of the interval after them.
    level : float
        Confidence level.
    fit_differs : bool
        Whether the models that were fitted with the answers still contradict them.
    fit_is_doubted : bool
        Whether the fit with the answers warns that its class prior is not reliable, for whatever reason.
    """

    rounds: tuple[Round, ...]
    agreement: AuditComparison
    difference: AuditedClassPrior | None
    why_no_difference: str
    n_more: int
    width_after: float | None
    level: float
    fit_differs: bool = False
    fit_is_doubted: bool = False

    @property
    def disagrees(self) -> bool:
        """Whether the answers contradict the model that chose the rows."""
        return bool(self.agreement.p_value < SIGNIFICANT)

    @property
    def contradicts_models(self) -> bool:
        """Whether the estimate of the models is outside the interval that is valid for any model."""
        last = self.rounds[-1]
        if self.difference is None or last.value is None:
            return False
        low, high = self.difference.interval
        return not low <= last.value <= high

    @property
    def leaves_doubt(self) -> bool:
        """Whether the answers or the labels contradict the models, so that more checks of other rows are worth it."""
        return self.disagrees or self.fit_differs or self.fit_is_doubted or self.contradicts_models

    @property
    def width(self) -> float | None:
        """The width of the interval of the class prior now."""
        last = self.rounds[-1]
        return None if last.low is None or last.high is None else last.high - last.low

    def sentences(self) -> list[str]:
        """Return the changes as sentences."""
        lines = [self._estimates(), self._agreement(), self._difference(), self._doubt(), self._worth()]
        return [line for line in lines if line]

    def _estimates(self) -> str:
        before, after = self.rounds[0], self.rounds[-1]
        level = f"{100 * self.level:.6g}% interval "
        return (
            f"Before the checks, the estimated share of positives was {_share(before, level)}. With "
            f"{counted(after.n_audited, 'checked row')}, it is {_share(after)}."
        )

    def _agreement(self) -> str:
        found, contradicted = self.agreement, _CONTRADICTED if self.fit_differs else ""
        if not found.n:
            return contradicted
        rows, are = counted(found.n, "checked row"), "is" if found.found == 1 else "are"
        numbers = f"{found.found} of {rows} {are} positive, and the model expected {found.expected:.1f}"
        if np.isnan(found.p_value):
            return f"{numbers[0].upper()}{numbers[1:]} before the checks. {contradicted}".rstrip()
        p = f"p = {found.p_value:.2g}"
        if not self.disagrees and self.fit_differs:
            return (
                f"The model that chose the rows was too uncertain for a comparison with the checks: {numbers} ({p}). "
                f"{contradicted}"
            )
        if not self.disagrees and found.surplus is not None and abs(found.surplus) > _FAR_FROM_EXPECTED:
            return f"The model that chose the rows was too uncertain for a comparison with the checks: {numbers} ({p})."
        if not self.disagrees:
            return f"The checks agree with the model that chose the rows: {numbers} ({p})."
        rely = "Rely on the estimate that does not need the models, and check more rows."
        if self.difference is None:
            rely = "Do not rely on the estimate of the models, and check rows that are drawn at random."
        return (
            f"The checks do not agree with the model that chose the rows: {numbers} ({p}). The models have the "
            f"wrong form, or answers are wrong. {rely}"
        )

    def _difference(self) -> str:
        if self.difference is None:
            return self.why_no_difference
        value, (low, high) = self.difference.value, self.difference.interval
        line = f"An estimate that is valid even if the models are wrong: {_percent(value)} ({_ends(low, high)})."
        if self.contradicts_models:
            line += " It contradicts the estimate of the models. Do not use the estimate of the models."
        return line

    def _doubt(self) -> str:
        if not self.fit_is_doubted or self.fit_differs:
            return ""
        return (
            "The fit with the checks still warns that its estimate is not reliable (see the notes), and the checks do "
            "not refute the reason."
        )

    def _worth(self) -> str:
        if self.width is None or self.width_after is None:
            return ""
        now, after = 100 * self.width, 100 * self.width_after
        if after > now:
            return ""
        gain = "" if after < 0.9 * now or self.leaves_doubt else " More checks are hardly worth it."
        return (
            f"{counted(self.n_more, 'more check')} would shorten the interval from {now:.1f} to about {after:.1f} "
            f"percentage points.{gain}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the changes as plain values."""
        found, difference = self.agreement, self.difference
        return {
            "rounds": [each._asdict() for each in self.rounds],
            "checked": found.n,
            "positive": found.found,
            "expected": found.expected,
            "p_value": None if np.isnan(found.p_value) else found.p_value,
            "class_prior_from_checks": None if difference is None else difference.value,
            "class_prior_from_checks_interval": None if difference is None else [float(e) for e in difference.interval],
            "more_checks": self.n_more,
            "width_after_more_checks": self.width_after,
            "sentences": self.sentences(),
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(line)}</p>" for line in self.sentences())


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _ends(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f}%"


def _share(estimate: Round, level: str = "") -> str:
    if estimate.value is None:
        return "unknown"
    if estimate.low is None or estimate.high is None:
        return _percent(estimate.value)
    return f"{_percent(estimate.value)} ({level}{_ends(estimate.low, estimate.high)})"
