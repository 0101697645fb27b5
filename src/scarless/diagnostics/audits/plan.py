"""Plan of an audit: which rows to audit, and the expected width of the interval afterwards."""

from dataclasses import dataclass
from html import escape
from typing import Any, Self

import numpy as np

from scarless.checks.options import (
    check_choice,
    check_random_stream,
    check_share,
    check_vector,
    check_whole,
    real_number,
    shown,
)
from scarless.checks.rows import index_of, named_values
from scarless.checks.tables import refuse_device
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, legend_below
from scarless.diagnostics.audits._reading import AuditRows, read_audit_rows
from scarless.diagnostics.audits.design import AuditDesign, DrawnWidths, ModelWidths, PosteriorDraws, difference_widths
from scarless.diagnostics.grouping import group_rows
from scarless.numerics.arrays import Array, ArrayLike, Integers, Mask, Vector
from scarless.outside.extras import need
from scarless.outside.notices import warn_user

DESIGNS = ("random", "neyman", "two-stage", "optimal")
MIN_CURVE_AUDITS, MAX_CURVE_AUDITS, CURVE_POINTS = 25, 2000, 24  # numbers of audits for which widths are computed
REPORTED_WIDTH = 0.05  # the plan reports the number of audits for this width
PILOT_AUDITS = 50  # advised size of a pilot
#: Width of the interval of the class prior above which the expected widths of a model without audits are not trusted.
#: By judgement.
MAX_WIDTH_TO_PLAN_BY = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class AuditPlan:
    """Rows to audit and expected widths of intervals; prints as text.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        Rows to audit: their names in the index of a pandas data frame, or their positions.
    positions : array of int of shape (n_rows,)
        Positions of these rows.
    probability : array of shape (n,)
        Probability that each row of the table is audited, by a random pilot or by this plan. Pass it to
        `audited_class_prior`.
    sizes : array of int
        Numbers of new audits for which widths are computed; 0 is the current state.
    expected_width : array
        For each of `sizes`, the expected width of ``class_prior_interval()`` after a new fit that includes the new
        audits; NaN for a fit without an information matrix.
    expected_width_difference : array
        For each of `sizes`, the expected width of the interval of `audited_class_prior` with the new audits.
    design : str
        Design of the sample.
    level : float
        Confidence level.
    n_open : int
        Number of rows that could be drawn.
    n_pilot : int
        Number of rows that were audited before.
    labels_are_certain : bool
        Whether labelled rows are left out because they are known to be positive.
    remarks : tuple of str
        Warnings about the design or about the expected widths.
    far_off : bool
        Whether expected widths of the model's interval may be far off, because the labels say little about the class
        prior and there are no audits.
    """

    rows: Array
    positions: Integers
    probability: Vector
    sizes: Integers
    expected_width: Vector
    expected_width_difference: Vector
    design: str
    level: float
    n_open: int
    n_pilot: int
    labels_are_certain: bool
    remarks: tuple[str, ...] = ()
    far_off: bool = False

    def width_at(self, n_rows: int, *, difference: bool = False) -> float:
        """Return the expected width of the interval of the class prior after `n_rows` new audits.

        By default, of the model's own interval; with ``difference=True``, of the interval of `audited_class_prior`.
        Between the entries of `sizes`, widths are interpolated on a logarithmic scale.
        """
        wanted = check_whole(n_rows, "n_rows", at_least=0)
        widths = self.expected_width_difference if difference else self.expected_width
        if wanted > self.sizes[-1]:
            raise ValueError(f"n_rows must be at most {self.sizes[-1]}, the largest entry of sizes; got {wanted}.")
        if wanted in self.sizes:
            return float(widths[np.flatnonzero(self.sizes == wanted)[0]])
        return float(np.exp(np.interp(np.log1p(wanted), np.log1p(self.sizes), _log(widths))))

    def rows_needed(self, width: float, *, difference: bool = False) -> int | None:
        """Return the approximate number of new audits for this width.

        None if the width is unknown, or if the number exceeds the largest entry of `sizes`. See `width_at` for
        `difference`.
        """
        if not 0 < real_number(width) <= 1:
            raise ValueError(f"width must lie in (0, 1]; got {shown(width)}.")
        widths = self.expected_width_difference if difference else self.expected_width
        if not widths[-1] <= width:  # true also if the width is NaN
            return None
        first = int(np.argmax(widths <= width))
        if first == 0:
            return 0
        at = _log(widths[[first, first - 1]])
        sizes = np.log1p(self.sizes[[first, first - 1]])
        return int(np.ceil(np.expm1(np.interp(np.log(width), at, sizes))))

    def sentences(self) -> list[str]:
        """Return the plan as sentences."""
        n, kind = self.rows.size, " unlabelled" if self.labels_are_certain else ""
        how = _HOW.get(self.design, "preferably rows about which the model is uncertain")
        lines = [f"Audit {n:,} of {self.n_open:,}{kind} rows, {how}."]
        if self.labels_are_certain:
            lines.append("Labelled rows count as positive and are left out.")
        lines += [self._width_sentence(n), self._number_sentence()]
        return [*lines, *self.remarks]

    def _width_sentence(self, n: int) -> str:
        width = self.width_at(n, difference=True)
        by_difference = f"{width:.3f} with audited_class_prior, which is valid for any model"
        more = "more " if self.n_pilot else ""
        if np.isnan(self.expected_width[0]):
            return (
                f"Expected width of the {100 * self.level:.4g}% interval of the class prior after {n:,} {more}audits: "
                f"{by_difference}."
            )
        return (
            f"The {100 * self.level:.4g}% interval of the class prior has a width of {self.expected_width[0]:.3f} now. "
            f"Expected width after {n:,} {more}audits: {self.width_at(n):.3f} with a model fitted to the audits, if it "
            f"has the right form, and {by_difference}."
        )

    def _number_sentence(self) -> str:
        def number(difference: bool) -> str:
            found = self.rows_needed(REPORTED_WIDTH, difference=difference)
            return f"more than {self.sizes[-1]:,}" if found is None else f"about {found:,}" if found else "no"

        if np.isnan(self.expected_width[0]):
            return f"A width of {REPORTED_WIDTH} needs {number(True)} new audits."
        return (
            f"A width of {REPORTED_WIDTH} needs {number(False)} new audits with the model, or {number(True)} with "
            "audited_class_prior."
        )

    def to_frame(self) -> Any:
        """Return the expected widths as a pandas DataFrame, indexed by the number of new audits."""
        pandas = need("pandas", "AuditPlan.to_frame", extra="frames")
        columns = {name: getattr(self, name) for name in ("expected_width", "expected_width_difference")}
        return pandas.DataFrame(columns, index=pandas.Index(self.sizes, name="audits"))

    def plot(self, ax: Any = None) -> "AuditPlanDisplay":
        """Draw the expected widths and return the `AuditPlanDisplay`; its ``ax_`` is the Axes."""
        return AuditPlanDisplay(self).plot(ax)

    def __str__(self) -> str:
        return " ".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


_HOW = {
    "random": "drawn at random",
    "optimal": "preferably rows whose class says most about the class prior",
}


def plan_audit(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    n_rows: int = 200,
    *,
    design: str = "random",
    pilot: ArrayLike | None = None,
    pilot_probability: ArrayLike | None = None,
    eligible: ArrayLike | None = None,
    by: Any = None,
    level: float = 0.95,
    random_state: Any = None,
) -> AuditPlan:
    r"""Choose rows to audit, and compute the expected width of the interval of the class prior afterwards.

    An audited row has the information :math:`D` of a row of known class. A row that was not audited has the information
    :math:`D - q(1-q)\,cc'`, where `q` is its posterior. Audits with probabilities :math:`p_i` therefore give the
    information

    .. math:: H + \sum_i p_i\, q_i (1 - q_i)\, c_i c_i', \qquad c = [x,\; \textstyle\sum_k (s_k - e_k) z_k, \ldots],

    where `H` is the information of the fit, including penalties and known values. The inverse of the sum gives the
    expected width of ``class_prior_interval()``. For a fit without an information matrix, such as a search that
    averages several fits, `H` is computed from draws of the posteriors. The width is only as accurate as the fit. The
    posteriors may be far off if the model was fitted to one label column without audits; the plan then has a remark. In
    that case audit a pilot of 50 random rows, fit with these audits, and plan the other audits with ``pilot=``. In
    simulations with such a pilot (5,000 rows, ten attributes in both models), the width after 200 more audits was
    within 13% of the expected width in 40 of 40 runs. The expected width of `audited_class_prior` does not depend on
    the form of the models: it follows from the variance of the difference between the class and `q`.

    Without false positives a labelled row is positive, so only unlabelled rows are drawn.

    Parameters
    ----------
    estimator : fitted classifier
        Classifier of this package, also as the last step of a pipeline. Expected widths of its own interval are
        available only if both models are logistic, or if it has `draw_posteriors`.
    X : array, sparse matrix or data frame of shape (n, n_columns)
        Attributes of the rows that the estimator was fitted on.
    s : array of shape (n,) or (n, n_looks)
        Observed labels of these rows, coded as in `fit`.
    n_rows : int, default=200
        Number of rows to audit, in addition to the pilot.
    design : {"random", "neyman", "two-stage", "optimal"}, default="random"
        "random": equal probabilities. "neyman": probabilities proportional to :math:`\sqrt{q(1-q)}`. "two-stage": as
        "neyman", but after a random pilot. "optimal": probabilities proportional to :math:`\sqrt{q(1-q)}` times the
        covariance, over draws of the parameters, of the row's logit of `q` and the class prior. To first order, this
        shortens the model's interval of the class prior most. It needs a classifier with `draw_posteriors`. All but
        "random" depend on the model, and give a warning. In simulations with a
        correct model, two-stage intervals were 5 to 30% shorter than intervals from random rows. On real tables, errors
        of the class prior after two stages were 15 to 75% larger than with random rows, and 95% intervals from rows
        about which the model is uncertain covered the class prior in 22 to 89% of runs.
    pilot : array of shape (n,), optional
        True class of rows audited so far, as passed to `fit`: 1 or 0; NaN, None or -1 for rows that were not audited.
        These rows are assumed to be a random sample, unless `pilot_probability` is given, and are not drawn again.
    pilot_probability : array of shape (n,), optional
        Probability with which each row was audited so far, for example ``probability`` of an earlier plan.
    eligible : bool array of shape (n,), optional
        Which rows may be drawn. By default, all rows that were not audited.
    by : str, int, tuple of two columns or array of shape (n,), optional
        A column of `X`, a pair of columns, or the group of each row. Each group (a category, or a bin of numbers)
        gets about as many rows as the design expects, but at least 5, or all of its rows. If there are more than
        ``n_rows / 10`` groups, the minimum is ``n_rows / 2`` divided by their number.
    level : float in (0, 1), default=0.95
        Confidence level.
    random_state : int, Generator or None
        Seed of the random numbers. Pass an int for reproducible results.

    Returns
    -------
    AuditPlan

    See Also
    --------
    audited_class_prior : Class prior from audits, valid for any model.

    References
    ----------
    Louis (1982), "Finding the observed information matrix when using the EM algorithm", JRSS B 44. Neyman (1938),
    "Contribution to the theory of sampling human populations", JASA 33. Madow (1949), Annals of Mathematical
    Statistics 20, for draws with given probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier, plan_audit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 3))
    >>> y = rng.random(5000) < 1 / (1 + np.exp(-2 * X[:, 0] - X[:, 1]))
    >>> s = y & (rng.random(5000) < 1 / (1 + np.exp(1 - X[:, 2])))
    >>> model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    >>> plan = plan_audit(model, X, s, n_rows=200, random_state=0)
    >>> len(plan.rows), [round(plan.width_at(n), 2) for n in (0, 200, 2000)]
    (200, [0.11, 0.07, 0.03])
    """
    refuse_device(X, "Plans of audits", instead="")
    level = check_share(level, "level")
    check_choice(design, "design", DESIGNS)
    n_rows = check_whole(n_rows, "n_rows", at_least=1)
    rng = check_random_stream(random_state)
    data = read_audit_rows(estimator, X, s, pilot)
    _check_pilot(data, design)
    before = _check_pilot_probability(pilot_probability, data)
    labels = np.asarray(named_values(X, s, labels=True))
    draws = PosteriorDraws.of(data, labels) if design == "optimal" else None
    if draws is None and design == "optimal":
        raise TypeError(
            f"design='optimal' needs draws of the posteriors, which {type(data.estimator).__name__} does not have. Use "
            "design='random'."
        )
    sampling = AuditDesign.of(data, design, None if draws is None else draws.effects(), before)
    if eligible is not None:
        sampling = sampling._replace(free=sampling.free & _check_eligible(eligible, data.q.size))
    n_free = int(sampling.free.sum())
    if n_rows > n_free:
        raise ValueError(f"n_rows must be at most {n_free}, the number of rows that can be audited; got {n_rows}.")
    if by is not None:
        groups = group_rows(X, by)
        if len(groups) > 1:
            raise ValueError(
                "by must be one column, a tuple of two columns, or the group of each row; got a list of "
                f"{len(groups)}. A tuple of two columns makes a group of each combination of their values."
            )
        sampling = sampling.stratified(groups[0].codes, n_rows)
    sizes = _sizes(n_rows, n_free)
    widths: ModelWidths | DrawnWidths | None = ModelWidths.of(data, sampling, level)
    if widths is None:
        widths = DrawnWidths.of(data, draws or PosteriorDraws.of(data, labels), sampling, level)
    expected = np.full(sizes.size, np.nan) if widths is None else np.r_[widths.now(), widths.expected(sizes[1:])]
    positions = sampling.draw(n_rows, rng)
    plan = AuditPlan(
        rows=_names(X, positions),
        positions=positions,
        probability=sampling.with_pilot(n_rows),
        sizes=sizes,
        expected_width=expected,
        expected_width_difference=difference_widths(data, sampling, sizes, level),
        design=design,
        level=level,
        n_open=n_free,
        n_pilot=int(data.audited.sum()),
        labels_are_certain=data.labels_are_certain,
        remarks=_remarks(data, widths, design),
        far_off=_far_off(data, widths),
    )
    if design != "random":
        warn_user(f"plan_audit: {_remark_on(design)}", UserWarning)
    return plan


def _log(widths: Vector) -> Vector:
    """Return logarithms of widths; that of 0 is finite."""
    return np.asarray(np.log(np.maximum(widths, np.finfo(float).tiny)))


_DESIGN_REMARK = (
    "this design prefers rows about which the model is uncertain. Intervals are then shorter if the model is right, "
    "but too short if it is wrong. On real tables, 95% intervals from 200 such rows covered the class prior in 22 to "
    "89% of runs, and errors of the class prior after two stages were 15 to 75% larger than with 200 random rows. "
    "design='random' is safe."
)


_OPTIMAL_REMARK = (
    "this design prefers rows whose class says most about the class prior according to the model. If the model is "
    "wrong, its interval may be too short. audited_class_prior with the probabilities of the plan is valid for every "
    "model."
)


def _remark_on(design: str) -> str:
    return _OPTIMAL_REMARK if design == "optimal" else _DESIGN_REMARK


def _check_pilot(data: AuditRows, design: str) -> None:
    """Check that `pilot` contains the audits of the fit."""
    model, given = data.estimator, int(data.audited.sum())
    seen = int(getattr(model, "n_audited_", 0))
    if seen and not given:
        raise ValueError(
            f"pilot has no audits, but the model was fitted with {seen}. Pass the audits of the fit as pilot=, so that "
            "their rows are not drawn again."
        )
    if given and hasattr(model, "known") and seen != given:
        raise ValueError(
            f"pilot has {given} audit{'' if given == 1 else 's'}, but the model was fitted with {seen or 'none'}. Fit "
            "the model with audit=pilot first, so that expected widths include the pilot."
        )
    if design == "two-stage" and not given:
        raise ValueError(
            f"design='two-stage' needs the audits of the first stage. Audit about {PILOT_AUDITS} to 100 random rows, "
            "fit the model with audit=, and pass these audits as pilot=."
        )


def _sizes(n_rows: int, n_free: int) -> Integers:
    """Return the numbers of audits for the curve: 0, a geometric sequence from 25 on, and `n_rows`."""
    largest = min(max(MAX_CURVE_AUDITS, n_rows), n_free)
    curve = np.geomspace(min(MIN_CURVE_AUDITS, largest), largest, CURVE_POINTS).round().astype(np.intp)
    return np.unique(np.r_[0, curve, n_rows].astype(np.intp))


def _names(X: Any, positions: Integers) -> Array:
    index = index_of(X)
    return np.array(positions) if index is None or isinstance(index, range) else np.asarray(index[positions])


def _far_off(data: AuditRows, widths: ModelWidths | DrawnWidths | None) -> bool:
    few = not data.audited.any() and data.labels.shape[1] == 1
    return widths is not None and few and (widths.swappable or widths.now() > MAX_WIDTH_TO_PLAN_BY)


def _remarks(data: AuditRows, widths: ModelWidths | DrawnWidths | None, design: str) -> tuple[str, ...]:
    found = []
    if design != "random":
        found.append(_remark_on(design)[0].upper() + _remark_on(design)[1:])
    if widths is not None and _far_off(data, widths):
        why = (
            "Both models use the same attributes, so only their functional form separates them"
            if widths.swappable
            else "One label column has almost no information on the class prior here"
        )
        found.append(
            f"{why}: expected widths may be far off. Audit a pilot of {PILOT_AUDITS} random rows first, fit the model "
            "with audit=, and call plan_audit again with pilot=."
        )
    if not (data.q * (1.0 - data.q)).any():
        found.append(
            "According to the model, the class of every row is certain. Expected widths assume that the model is "
            "right, so they mean nothing here."
        )
    if widths is None:
        found.append("This fit has no information matrix, so the width of its own interval cannot be predicted.")
    return tuple(found)


# --- checks


def _check_eligible(eligible: Any, n_rows: int) -> Mask:
    found = np.asarray(eligible)
    if found.dtype != bool or found.shape != (n_rows,):
        raise ValueError(f"eligible must have True or False for each of the {n_rows} rows; got {shown(eligible)}.")
    return found


def _check_pilot_probability(given: Any, data: AuditRows) -> Vector | None:
    """Return the probabilities of earlier audits after a check; None if they are not given."""
    if given is None:
        return None
    found = check_vector(given, "pilot_probability", n_rows=data.q.size)
    bad = np.flatnonzero(~((found >= 0) & (found <= 1)) | (data.audited & ~(found > 0)))
    if bad.size:
        raise ValueError(
            "pilot_probability must lie in [0, 1], and must be positive for rows that were audited; it is "
            f"{found[bad[0]]:g} for row {bad[0]}."
        )
    return found


# --- plot


class AuditPlanDisplay(Display):
    """Plot of the expected width of the interval of the class prior against the number of audits.

    Parameters
    ----------
    plan : AuditPlan
        The plan to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    plan_audit : Computes the plan.

    Examples
    --------
    >>> from scarless.diagnostics import AuditPlanDisplay
    >>> AuditPlanDisplay.from_estimator(model, X, s)  # doctest: +SKIP
    """

    def __init__(self, plan: AuditPlan) -> None:
        if not isinstance(plan, AuditPlan):
            raise TypeError(
                f"plan must be an AuditPlan, as returned by plan_audit; got {type(plan).__name__}. For a model, use "
                "AuditPlanDisplay.from_estimator(estimator, X, s)."
            )
        self.plan = plan

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        n_rows: int = 200,
        *,
        pilot: ArrayLike | None = None,
        level: float = 0.95,
        ax: Any = None,
    ) -> Self:
        """Plan a random audit and draw the expected widths.

        Parameters
        ----------
        estimator, X, s, n_rows, pilot, level
            See `plan_audit`.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        AuditPlanDisplay
        """
        return cls(plan_audit(estimator, X, s, n_rows, pilot=pilot, level=level)).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw the expected widths on the Axes."""
        plan, n = self.plan, self.plan.rows.size
        later = plan.sizes > 0
        more = "more audits" if plan.n_pilot else "audits"
        lines = [(plan.expected_width, BLUE, "o", "-", "fit with audits, if the models are right", False)]
        lines.append((plan.expected_width_difference, ORANGE, "s", "--", "audited_class_prior, for any model", True))
        for widths, colour, marker, style, label, difference in lines:
            if np.isnan(widths).all():
                continue
            ax.plot(plan.sizes[later], widths[later], style, color=colour, label=label)
            at = plan.width_at(n, difference=difference)
            ax.plot([n], [at], marker, color=colour, ms=8, label=f"after {n:,} {more}: {at:.3f}")
        if np.isfinite(plan.expected_width[0]):
            ax.axhline(
                plan.expected_width[0], color=GREY, lw=1, ls=":", label=f"current fit: {plan.expected_width[0]:.3f}"
            )
        ax.set_xscale("log")
        ticks = [size for size in (25, 50, 100, 200, 500, 1000, 2000, 5000) if size <= plan.sizes[-1]]
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.minorticks_off()
        ax.set_ylim(bottom=0.0)
        ax.set(
            xlabel=f"Rows to audit{' in addition to the pilot' if plan.n_pilot else ''}",
            ylabel=f"Expected width of the {100 * plan.level:.4g}% interval",
            title=f"Expected uncertainty of the class prior\nafter {n:,} {more}",
        )
        legend_below(ax)
