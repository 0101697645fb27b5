"""What changed between two fits: class prior, label frequency, coefficients and ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logit, ndtr
from scipy.stats import rankdata
from sklearn.utils.validation import check_is_fitted

from scarless.checks.estimators import innermost, is_prepared
from scarless.checks.options import check_random_stream, check_share, check_whole, shown
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, as_text, legend_below
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, p_text
from scarless.diagnostics.scar.attribute_tests import aligned
from scarless.metrics.scorers import class_probability, coding_of
from scarless.models import PUClassifier
from scarless.models.inspection import size_of_fit
from scarless.models.pair import refuse_wrapped
from scarless.models.summary import INTERCEPT, Summary
from scarless.numerics.arrays import Vector
from scarless.numerics.label_tests import holm
from scarless.numerics.uncertainty import quantile
from scarless.outside.extras import need
from scarless.outside.notices import listed

SHARES = {"class prior": "class_prior", "label frequency": "label_frequency"}
_N_RESAMPLES = 200
_COEFFICIENTS_SHOWN = 15
_NAMES_SHOWN = 5
_INDEPENDENT = (
    "Intervals and p-values assume that the two fits used different rows. If they share rows, the intervals of the "
    "differences are too wide."
)


class FitDifference(NamedTuple):
    """An estimate in two fits, and its difference; intervals and p-values are NaN if a fit has none."""

    what: str  # class prior, label frequency, or the model of a coefficient
    name: str  # column of a coefficient; "" for shares
    old: float
    new: float
    difference: float
    low: float
    high: float
    p_value: float
    p_adjusted: float  # adjusted by Holm's method for all differences

    @property
    def clear(self) -> bool:
        """Whether the difference is significant after the adjustment."""
        return self.p_adjusted < SIGNIFICANT

    def shown(self, number: float, sign: str = "") -> str:
        """Return a number with three digits after the point, or with more that show a clear difference."""
        digits = 3 if not self.clear else int(np.clip(1 - np.floor(np.log10(abs(self.difference))), 3, 12))
        return f"{number:{sign}.{digits}f}"


class RankingAgreement(NamedTuple):
    """Agreement of two rankings of the same rows, each with its interval."""

    n_rows: int
    correlation: tuple[float, float, float]  # Spearman's
    n_top: int
    overlap: tuple[float, float, float]  # share of the highest-ranked rows that both rankings have in common
    by_chance: float  # expected overlap of unrelated rankings


@dataclass(frozen=True, eq=False, repr=False)
class FitComparison:
    """What changed between two fits; prints as text.

    Attributes
    ----------
    shares : tuple of FitDifference
        Differences of class prior and label frequency.
    coefficients : tuple of FitDifference
        Differences of the coefficients that both fits have; empty if a fit has no coefficients.
    only_old, only_new : tuple of str
        Coefficients that only one of the fits has.
    ranking : RankingAgreement or None
        Agreement of the rankings of the rows `X`; None without `X`.
    level : float
        Confidence level.
    notes : tuple of str
        What to keep in mind.
    """

    shares: tuple[FitDifference, ...]
    coefficients: tuple[FitDifference, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    ranking: RankingAgreement | None
    level: float
    notes: tuple[str, ...]

    @property
    def differences(self) -> tuple[FitDifference, ...]:
        """All differences: of shares, then of coefficients."""
        return (*self.shares, *self.coefficients)

    def sentences(self) -> list[str]:
        """Return the findings and notes as sentences."""
        lines = []
        for each in self.shares:
            before, after = each.shown(each.old), each.shown(each.new)
            if before == after:
                lines.append(f"The {each.what} is {after} in both fits ({_interval(each)}{_p(each)}).")
                continue
            how = "rose" if each.difference > 0 else "fell"
            sure = "clearly " if each.clear else ""
            tail = "" if each.clear else ", which may be chance" if np.isfinite(each.p_value) else ""
            lines.append(f"The {each.what} {sure}{how} from {before} to {after} ({_interval(each)}{_p(each)}){tail}.")
        clear = [f"{each.name} ({each.what})" for each in self.coefficients if each.clear]
        if self.coefficients:
            lines.append(
                f"Of {len(self.coefficients)} coefficients, these changed clearly: {listed(clear, _NAMES_SHOWN)}."
                if clear
                else f"None of {len(self.coefficients)} coefficients changed clearly."
            )
        for names, which in ((self.only_old, "old"), (self.only_new, "new")):
            if names:
                lines.append(f"Only the {which} fit has coefficients of {listed(list(names), _NAMES_SHOWN)}.")
        if self.ranking is not None:
            found = self.ranking
            lines.append(
                f"The rankings of {found.n_rows:,} rows have a rank correlation of {_three(found.correlation)}. Of the "
                f"{found.n_top:,} rows that rank highest, {_three(found.overlap)} are the same ({found.by_chance:.2f} "
                "by chance)."
            )
        return [*lines, *self.notes]

    def to_frame(self) -> Any:
        """Return the differences as a pandas DataFrame, one row each.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = need("pandas", "FitComparison.to_frame", extra="frames")
        fields = [name for name in FitDifference._fields if name not in ("what", "name")]
        keys = [(each.what, each.name) for each in self.differences]
        index = pandas.MultiIndex.from_tuples(keys, names=["what", "name"])
        return pandas.DataFrame([[getattr(each, name) for name in fields] for each in self.differences], index, fields)

    def plot(self, ax: Any = None) -> "FitComparisonDisplay":
        """Draw the differences and return the `FitComparisonDisplay`; its ``ax_`` is the Axes."""
        return FitComparisonDisplay(self).plot(ax)

    def _cells(self) -> list[list[str]]:
        rows = [["estimate", "old", "new", "difference", f"{100 * self.level:.6g}% interval", "adjusted p"]]
        first = sorted(self.coefficients, key=lambda each: np.nan_to_num(each.p_value, nan=2.0))[:_COEFFICIENTS_SHOWN]
        for each in (*self.shares, *first):
            ends = f"{each.shown(each.low)} to {each.shown(each.high)}" if np.isfinite(each.low) else "unknown"
            p = p_text(each.p_adjusted) if np.isfinite(each.p_adjusted) else ""
            name = f"{each.what}: {each.name}" if each.name else each.what
            rows.append([name, each.shown(each.old), each.shown(each.new), each.shown(each.difference, "+"), ends, p])
        return rows

    def __str__(self) -> str:
        left = len(self.coefficients) - _COEFFICIENTS_SHOWN
        more = [f"... and {left} more coefficients, in to_frame()"] if left > 0 else []
        return "\n".join([*self.sentences(), "", *aligned(self._cells()), *more])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        body = [_line(head, "th"), *(_line(row, "td") for row in rows)]
        return "".join([*(f"<p>{escape(each)}</p>" for each in self.sentences()), f"<table>{''.join(body)}</table>"])


def compare_fits(
    old: Any,
    new: Any,
    X: Any = None,
    *,
    n_top: int = 50,
    level: float = 0.95,
    random_state: Any = 0,
) -> FitComparison:
    r"""Compare two fits: class prior, label frequency, coefficients and, for given rows, the rankings.

    The fits should be to different rows, such as two months. The interval of a difference of shares combines the
    intervals of both fits (MOVER): with estimates :math:`a, b` and intervals :math:`[l, u]`,

    .. math:: b - a - \sqrt{(b - l_b)^2 + (u_a - a)^2} \quad\text{to}\quad b - a + \sqrt{(u_b - b)^2 + (a - l_a)^2}.

    Its p-value compares the logits. Coefficients are compared by z-tests. All p-values are adjusted by Holm's method.

    Parameters
    ----------
    old, new : fitted classifiers
        Classifiers of this package, also as `TableClassifier` or at the end of a pipeline. Coefficients are matched by
        name, and compared in the units of the raw table for a `TableClassifier`.
    X : data frame or array, optional
        Rows that both fits rank by class probability.
    n_top : int, default=50
        Number of highest-ranked rows that are compared.
    level : float in (0, 1), default=0.95
        Confidence level.
    random_state : int, numpy generator or RandomState, default=0
        Seed of the random numbers, for the intervals of the ranking agreement (bootstrap of the rows `X`).

    Returns
    -------
    FitComparison

    See Also
    --------
    detect_drift : Checks whether a fit is still right for new rows, without a new fit.

    References
    ----------
    Zou and Donner (2008), "Construction of confidence limits about effect measures", Statistics in Medicine 27.
    Newcombe (1998), Statistics in Medicine 17.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.diagnostics import compare_fits
    >>> def fit(seed, labelling):
    ...     rng = np.random.default_rng(seed)
    ...     X = np.column_stack([rng.normal(size=(4000, 2)), rng.integers(2, size=4000)])
    ...     y = rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    ...     s = y & (rng.random(4000) < np.where(X[:, 2] == 1, labelling, 0.3))
    ...     return SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> found = compare_fits(fit(0, 0.8), fit(1, 0.3))
    >>> [each.what for each in found.differences if each.clear]
    ['label frequency', 'propensity']
    """
    level, n_top = check_share(level, "level"), check_whole(n_top, "n_top", at_least=1)
    rng = check_random_stream(random_state)
    for name, estimator in (("old", old), ("new", new)):
        _check_fitted(name, estimator)
    notes = [_INDEPENDENT, *_notes_on_fits(old, new)]
    shares = [_share(what, attribute, old, new, level) for what, attribute in SHARES.items()]
    known = [each for each in shares if each is not None]
    coefficients, only_old, only_new = _coefficients(old, new, level, notes)
    adjusted = holm(np.array([each.p_value for each in (*known, *coefficients)]))
    every = [each._replace(p_adjusted=float(p)) for each, p in zip((*known, *coefficients), adjusted, strict=True)]
    return FitComparison(
        shares=tuple(every[: len(known)]),
        coefficients=tuple(every[len(known) :]),
        only_old=only_old,
        only_new=only_new,
        ranking=None if X is None else _ranking(old, new, X, n_top, level, rng),
        level=level,
        notes=tuple(notes),
    )


# --- input


def _check_fitted(name: str, estimator: Any) -> None:
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise TypeError(f"{name} must be a fitted classifier of this package; got {shown(estimator)}.")
    check_is_fitted(estimator)
    refuse_wrapped(estimator)
    if not isinstance(innermost(estimator), PUClassifier):
        raise TypeError(
            f"{name} must be a classifier of this package; got {type(innermost(estimator)).__name__}. Fit, for "
            "example, SAREMClassifierCV."
        )


def _notes_on_fits(old: Any, new: Any) -> list[str]:
    notes = []
    kinds = [type(innermost(each)).__name__ for each in (old, new)]
    if kinds[0] != kinds[1]:
        notes.append(f"The fits are of different classes ({kinds[0]} and {kinds[1]}), which may cause differences.")
    sizes = [size_of_fit(innermost(each)) for each in (old, new)]
    if sizes[0] is not None and sizes[0] == sizes[1]:
        notes.append(
            "Both fits have the same number of rows and of labels. They seem to share their rows, so the intervals of "
            "the differences are too wide."
        )
    return notes


# --- differences


def _share(what: str, attribute: str, old: Any, new: Any, level: float) -> FitDifference | None:
    """Return the difference of a share; None if a fit does not have it."""
    values, ends = [], []
    for each in (innermost(old), innermost(new)):
        value = getattr(each, f"{attribute}_", None)
        if value is None or not np.isfinite(value):
            return None
        values.append(float(value))
        ends.append(_ends(each, attribute, level))
    (a, b), difference = values, values[1] - values[0]
    if any(each is None for each in ends):
        return FitDifference(what, "", a, b, difference, np.nan, np.nan, np.nan, np.nan)
    (a_low, a_high), (b_low, b_high) = ends  # type: ignore[misc]
    low = difference - np.hypot(b - b_low, a_high - a)
    high = difference + np.hypot(b_high - b, a - a_low)
    errors = [_logit_error(innermost(each), attribute) for each in (old, new)]
    before, after = (float(logit(np.clip(value, 1e-12, 1.0 - 1e-12))) for value in values)
    p = float(2.0 * ndtr(-abs(after - before) / max(float(np.linalg.norm(errors)), 1e-12)))
    return FitDifference(what, "", a, b, difference, float(low), float(high), p, p)


def _ends(model: Any, attribute: str, level: float) -> tuple[float, float] | None:
    try:
        low, high = getattr(model, f"{attribute}_interval")(level=level)
    except (AttributeError, TypeError, ValueError):
        return None
    return (float(low), float(high)) if np.isfinite([low, high]).all() else None


def _logit_error(model: Any, attribute: str) -> float:
    """Return the standard error of the logit of a share, from the width of its 95% interval."""
    ends = _ends(model, attribute, 0.95) or (0.0, 1.0)
    low, high = (float(logit(np.clip(end, 1e-12, 1.0 - 1e-12))) for end in ends)
    return (high - low) / (2.0 * quantile(0.95))


class _Coefficient(NamedTuple):
    value: float
    error: float


def _table(estimator: Any, level: float) -> dict[tuple[str, str], _Coefficient] | None:
    """Return the coefficients of both models by name; None if the fit has none.

    A raw table is standardised by its own means and standard deviations. Intercepts, and columns without a known unit,
    therefore cannot be compared between two fits.
    """
    raw = is_prepared(estimator)
    try:
        summary = (estimator if raw else innermost(estimator)).summary(level=level)
    except (AttributeError, TypeError, ValueError):
        return None
    if not isinstance(summary, Summary):
        return None
    several = len(summary.blocks) > 2
    models = ["classifier", *(f"propensity {k}" if several else "propensity" for k in range(len(summary.blocks) - 1))]
    return {
        (model, str(name)): _Coefficient(float(value), float(error))
        for model, block in zip(models, summary.blocks, strict=True)
        for name, value, error in zip(block.names, block.coef, block.std_err, strict=True)
        if not raw or not (name == INTERCEPT or str(name).endswith("(prepared)"))
    }


def _coefficients(
    old: Any, new: Any, level: float, notes: list[str]
) -> tuple[list[FitDifference], tuple[str, ...], tuple[str, ...]]:
    before, after = _table(old, level), _table(new, level)
    for name, found in (("old", before), ("new", after)):
        if found is None:
            notes.append(f"The {name} fit has no coefficients with standard errors, so coefficients are not compared.")
    if before is None or after is None or not (before or after):
        return [], (), ()
    z, differences = quantile(level), []
    for key, a in before.items():
        if key in after:
            b = after[key]
            difference, error = b.value - a.value, float(np.hypot(a.error, b.error))
            known = np.isfinite(error) and error > 0
            p = float(2.0 * ndtr(-abs(difference) / error)) if known else np.nan
            ends = (difference - z * error, difference + z * error) if known else (np.nan, np.nan)
            differences.append(FitDifference(*key, a.value, b.value, difference, *ends, p, p))
    only = [
        tuple(f"{name} ({model})" for model, name in one if (model, name) not in other)
        for one, other in ((before, after), (after, before))
    ]
    if not differences:
        raise ValueError(
            f"The fits have no coefficient in common: the old fit has {listed(list(only[0]), _NAMES_SHOWN)}, the new "
            f"fit {listed(list(only[1]), _NAMES_SHOWN)}. Rename the columns, so that equal columns have equal names."
        )
    return differences, only[0], only[1]


# --- ranking


def _ranking(old: Any, new: Any, X: Any, n_top: int, level: float, rng: np.random.Generator) -> RankingAgreement:
    a, b = (np.asarray(class_probability(each, X, coding_of(each)), dtype=np.float64) for each in (old, new))
    n_rows = a.size
    if n_rows < 3:
        raise ValueError(f"X has {n_rows} rows, but a comparison of rankings needs at least 3. Pass more rows.")
    n_top = min(n_top, n_rows)
    point = _agreement(a, b, n_top)
    drawn = np.array([
        _agreement(a[rows], b[rows], n_top) for rows in rng.integers(n_rows, size=(_N_RESAMPLES, n_rows))
    ])  # fmt: skip
    low, high = np.nanquantile(drawn, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    ends = [(float(p), float(min(a, p)), float(max(b, p))) for p, a, b in zip(point, low, high, strict=True)]
    return RankingAgreement(n_rows, ends[0], n_top, ends[1], n_top / n_rows)


def _agreement(a: Vector, b: Vector, n_top: int) -> tuple[float, float]:
    """Return Spearman's correlation, and the share of the highest-ranked rows that both rankings have in common."""
    ranks = rankdata(a), rankdata(b)
    same = np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0
    correlation = 0.0 if same else float(np.corrcoef(*ranks)[0, 1])
    top = [set(np.argsort(-each, kind="stable")[:n_top].tolist()) for each in (a, b)]
    return correlation, len(top[0] & top[1]) / n_top


# --- text and plot


def _interval(each: FitDifference) -> str:
    if not np.isfinite(each.low):
        return "no interval"
    difference, low, high = (each.shown(number, "+") for number in (each.difference, each.low, each.high))
    return f"difference {difference}, interval {low} to {high}"


def _p(each: FitDifference) -> str:
    return f", adjusted p = {p_text(each.p_adjusted)}" if np.isfinite(each.p_adjusted) else ""


def _three(found: tuple[float, float, float]) -> str:
    return f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})"


def _line(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


class FitComparisonDisplay(Display):
    """Plot of the differences between two fits, with intervals.

    Parameters
    ----------
    result : FitComparison
        Result of `compare_fits`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    compare_fits : Computes the differences.

    Examples
    --------
    >>> from scarless.diagnostics import FitComparisonDisplay
    >>> FitComparisonDisplay.from_estimators(old, new)  # doctest: +SKIP
    """

    def __init__(self, result: FitComparison) -> None:
        if not isinstance(result, FitComparison):
            raise TypeError(
                f"result must be a FitComparison, as returned by compare_fits; got {type(result).__name__}."
            )
        self.result = result

    @classmethod
    def from_estimators(cls, old: Any, new: Any, *, ax: Any = None, **options: Any) -> Self:
        """Compare two fits, and draw the differences.

        Parameters
        ----------
        old, new
            See `compare_fits`.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.
        **options
            Options of `compare_fits`.

        Returns
        -------
        FitComparisonDisplay
        """
        return cls(compare_fits(old, new, **options)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the differences.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure; its height depends on the number of differences.

        Returns
        -------
        The display itself; ``ax_`` is the Axes and ``figure_`` the figure.
        """
        super().plot(ax)
        if ax is None:
            self.figure_.set_figheight(max(3.2, 1.8 + 0.3 * len(self._shown())))
        return self

    def _shown(self) -> list[FitDifference]:
        """Return the differences to draw: shares, and the coefficients with the smallest p-values."""
        first = sorted(self.result.coefficients, key=lambda each: np.nan_to_num(each.p_value, nan=2.0))
        return [*self.result.shares, *first[:_COEFFICIENTS_SHOWN]]

    def draw(self, ax: Any) -> None:
        """Draw the differences in standard errors, because shares and coefficients have different units."""
        every, z = self._shown(), max(quantile(self.result.level), 1e-6)
        height = np.arange(len(every))[::-1]
        for clear, colour, marker, label in (
            (True, ORANGE, "o", f"clear difference (adjusted p < {SIGNIFICANT})"),
            (False, BLUE, "D", "no clear difference"),
        ):
            chosen = [j for j, each in enumerate(every) if each.clear is clear and np.isfinite(each.low)]
            if chosen:
                unit = np.array([max(every[j].high - every[j].low, 1e-12) / (2.0 * z) for j in chosen])
                value = np.array([every[j].difference for j in chosen]) / unit
                low = value - np.array([every[j].low for j in chosen]) / unit
                high = np.array([every[j].high for j in chosen]) / unit - value
                ends = np.array([low, high])
                ax.errorbar(value, height[chosen], xerr=ends, fmt=marker, color=colour, capsize=3, label=label)
        ax.axvline(0.0, color=GREY, lw=1, ls="--", zorder=0)
        words = [f"{each.what}: {each.name}" if each.name else each.what for each in every]
        ax.set_yticks(height, [as_text(word) for word in words])
        ax.set(xlabel="New minus old fit, in standard errors", ylim=(-0.6, len(every) - 0.4))
        ax.set_title("What changed between the fits")
        if ax.get_legend_handles_labels()[0]:
            legend_below(ax)
