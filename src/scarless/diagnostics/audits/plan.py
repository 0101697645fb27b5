"""Plan of an audit: which rows to audit, and the expected width of the interval afterwards."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple, Self

import numpy as np

from scarless.checks.looks import looks_of
from scarless.checks.options import check_choice, check_random_stream, check_share, check_whole, real_number, shown
from scarless.checks.rows import check_rows, index_of
from scarless.checks.tables import refuse_device
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, legend_below
from scarless.diagnostics.audits._reading import AuditRows, read_audit_rows
from scarless.engines import Engine, attach
from scarless.models.pair import known_inference
from scarless.numerics import uncertainty
from scarless.numerics.arrays import Array, ArrayLike, Integers, Mask, Matrix, Vector
from scarless.numerics.audits import inclusion_scale, information_from_audits
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import logit_interval, quantile
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.pair.inference import PairInference

DESIGNS = ("random", "neyman", "two-stage")
MIN_CURVE_AUDITS, MAX_CURVE_AUDITS, CURVE_POINTS = 25, 2000, 24  # numbers of audits for which widths are computed
REPORTED_WIDTH = 0.05  # the plan reports the number of audits for this width
PILOT_AUDITS = 50  # advised size of a pilot
#: Width of the interval of the class prior above which the expected widths of a model without audits are not trusted.
#: By judgement.
MAX_WIDTH_TO_PLAN_BY = 0.5
#: Designs that depend on the model draw rows with probabilities proportional to a size. This is the smallest size,
#: relative to the mean size. It is not 0, because the model may be wrong about rows about which it is certain.
#: By judgement.
MIN_RELATIVE_SIZE = 0.1
#: The variance that the model expects is averaged with the variance in a pilot. In this average, the expected variance
#: counts as much as this number of audits. By judgement.
PRIOR_AUDITS = 20.0


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
        return float(np.exp(np.interp(np.log1p(wanted), np.log1p(self.sizes), np.log(widths))))

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
        at = np.log(widths[[first, first - 1]])
        sizes = np.log1p(self.sizes[[first, first - 1]])
        return int(np.ceil(np.expm1(np.interp(np.log(width), at, sizes))))

    def sentences(self) -> list[str]:
        """Return the plan as sentences."""
        n, kind = self.rows.size, " unlabelled" if self.labels_are_certain else ""
        how = "drawn at random" if self.design == "random" else "preferably rows about which the model is uncertain"
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


def plan_audit(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    n_rows: int = 200,
    *,
    design: str = "random",
    pilot: ArrayLike | None = None,
    level: float = 0.95,
    random_state: Any = None,
) -> AuditPlan:
    r"""Choose rows to audit, and compute the expected width of the interval of the class prior afterwards.

    An audited row has the information :math:`D` of a row of known class. A row that was not audited has the information
    :math:`D - q(1-q)\,cc'`, where `q` is its posterior. Audits with probabilities :math:`p_i` therefore give the
    information

    .. math:: H + \sum_i p_i\, q_i (1 - q_i)\, c_i c_i', \qquad c = [x,\; \textstyle\sum_k (s_k - e_k) z_k, \ldots],

    where `H` is the information of the fit, including penalties and known values. The inverse of the sum gives the
    expected width of ``class_prior_interval()``. This width is only as accurate as the posteriors of the fit. The
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
        available only if both models are logistic.
    X : array, sparse matrix or data frame of shape (n, n_columns)
        Attributes of the rows that the estimator was fitted on.
    s : array of shape (n,) or (n, n_looks)
        Observed labels of these rows, coded as in `fit`.
    n_rows : int, default=200
        Number of rows to audit, in addition to the pilot.
    design : {"random", "neyman", "two-stage"}, default="random"
        "random": equal probabilities. "neyman": probabilities proportional to :math:`\sqrt{q(1-q)}`. "two-stage": as
        "neyman", but after a random pilot. The last two depend on the model, and give a warning. In simulations with a
        correct model, two-stage intervals were 5 to 30% shorter than intervals from random rows. On real tables, errors
        of the class prior after two stages were 15 to 75% larger than with random rows, and 95% intervals from rows
        about which the model is uncertain covered the class prior in 22 to 89% of runs.
    pilot : array of shape (n,), optional
        True class of rows audited so far, as passed to `fit`: 1 or 0; NaN, None or -1 for rows that were not audited.
        These rows are assumed to be a random sample, and are not drawn again.
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
    sampling = AuditDesign.of(data, design)
    n_free = int(sampling.free.sum())
    if n_rows > n_free:
        raise ValueError(f"n_rows must be at most {n_free}, the number of rows that can be audited; got {n_rows}.")
    sizes = _sizes(n_rows, n_free)
    widths = ModelWidths.of(data, sampling, level)
    expected = np.full(sizes.size, np.nan) if widths is None else np.r_[widths.now(), widths.expected(sizes[1:])]
    positions = sampling.draw(n_rows, rng)
    plan = AuditPlan(
        rows=_names(X, positions),
        positions=positions,
        probability=sampling.with_pilot(n_rows, data),
        sizes=sizes,
        expected_width=expected,
        expected_width_difference=difference_widths(data, sampling, sizes, level),
        design=design,
        level=level,
        n_open=n_free,
        n_pilot=int(data.audited.sum()),
        labels_are_certain=data.labels_are_certain,
        remarks=_remarks(data, widths, design),
    )
    if design != "random":
        warn_user(f"plan_audit: {_DESIGN_REMARK}", UserWarning)
    return plan


_DESIGN_REMARK = (
    "this design prefers rows about which the model is uncertain. Intervals are then shorter if the model is right, "
    "but too short if it is wrong. On real tables, 95% intervals from 200 such rows covered the class prior in 22 to "
    "89% of runs, and errors of the class prior after two stages were 15 to 75% larger than with 200 random rows. "
    "design='random' is safe."
)


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


def _remarks(data: AuditRows, widths: "ModelWidths | None", design: str) -> tuple[str, ...]:
    found = []
    if design != "random":
        found.append(_DESIGN_REMARK[0].upper() + _DESIGN_REMARK[1:])
    few = not data.audited.any() and data.labels.shape[1] == 1
    if widths is not None and few and (widths.inference.swappable or widths.now() > MAX_WIDTH_TO_PLAN_BY):
        why = (
            "Both models use the same attributes, so only their functional form separates them"
            if widths.inference.swappable
            else "One label column has almost no information on the class prior here"
        )
        found.append(
            f"{why}: expected widths may be far off. Audit a pilot of {PILOT_AUDITS} random rows first, fit the model "
            "with audit=, and call plan_audit again with pilot=."
        )
    if widths is None:
        found.append("This fit has no information matrix, so the width of its own interval cannot be predicted.")
    return tuple(found)


# --- sampling


class AuditDesign(NamedTuple):
    """Rows that can be drawn, and the sizes that their probabilities are proportional to."""

    open_: Mask  # rows whose class is unknown without an audit
    free: Mask  # open rows that were not audited yet
    size: Vector

    @classmethod
    def of(cls, data: AuditRows, design: str) -> "AuditDesign":
        """Return the design. Labelled rows are left out if they are certain to be positive."""
        open_ = ~data.labelled if data.labels_are_certain else np.ones(data.q.size, dtype=bool)
        free = open_ & ~data.audited
        size = np.ones(data.q.size)
        if design != "random":
            size = np.sqrt(data.q * (1.0 - data.q))
            mean = float(size[free].mean()) if free.any() else 1.0
            size = np.maximum(size, MIN_RELATIVE_SIZE * mean) if mean > 0 else np.ones(size.size)
        return cls(open_, free, size)

    def inclusion(self, n_rows: int) -> Vector:
        """Return the probability that each row is among `n_rows` new rows; 0 for rows that cannot be drawn."""
        k = inclusion_scale(self.size[self.free], n_rows)
        return np.where(self.free, np.minimum(1.0, k * self.size), 0.0)

    def with_pilot(self, n_rows: int, data: AuditRows) -> Vector:
        """Return the probability that each row is audited, by a random pilot or among `n_rows` new rows."""
        k = inclusion_scale(self.size[self.free], n_rows)
        new = np.where(self.open_, np.minimum(1.0, k * self.size), 0.0)
        before = np.zeros(new.size)
        for kind in (self.open_, ~self.open_):
            if kind.any():
                before[kind] = data.audited[kind].mean()
        return before + (1.0 - before) * new

    def draw(self, n_rows: int, rng: np.random.Generator) -> Any:
        """Return the positions of `n_rows` distinct rows, drawn with the given probabilities.

        Systematic sampling of rows in random order (Madow): each row is a segment of a line, as long as its
        probability, and points at a distance of 1 from each other select the segments on which they fall.
        """
        places = rng.permutation(np.flatnonzero(self.free))
        ends = np.cumsum(self.inclusion(n_rows)[places])
        points = rng.random() + np.arange(n_rows)
        return np.sort(places[np.minimum(np.searchsorted(ends, points, side="right"), places.size - 1)])


# --- expected widths


class ModelWidths(NamedTuple):
    """A fit and its rows, and the information that audits would add."""

    inference: PairInference
    objective: PairObjective
    engine: Engine
    sampling: AuditDesign
    level: float

    @classmethod
    def of(cls, data: AuditRows, sampling: AuditDesign, level: float) -> "ModelWidths | None":
        """Return the fit and its rows; None for a fit without an information matrix."""
        model = data.estimator
        if hasattr(model, "recalibration_"):
            return None
        try:
            inference = known_inference(model)
        except ValueError:
            return None
        if inference.has_extra_information:
            objective, shape = inference.objective, looks_of(model).counts(data.labels)
        else:
            objective = LooksLikelihood(inference.f, ((inference.e,),))
            shape = (data.labels == 1).astype(np.int8), np.ones_like(data.labels)
        rows = check_rows(model, data.X)
        engine = attach(rows, labels=shape[0], looks=shape[1], audit=data.audit, w=np.ones(rows.n_rows))
        return cls(inference, objective, engine, sampling, level)

    def gain(self, probability: Vector) -> Matrix:
        """Return the information that audits with these probabilities add."""
        rows = attach(self.engine, audit_probability=probability)
        (found,) = rows.total(information_from_audits, self.objective, self.inference.parameters)
        return np.asarray(found)

    def now(self) -> float:
        """Return the width of the interval of the fit."""
        low, high = self.inference.class_prior_interval(self.level)
        return high - low

    def expected(self, sizes: Any) -> Vector:
        """Return the expected widths after these numbers of new audits."""
        inference = self.inference
        base = inference.penalised_information()
        equal = bool(np.ptp(self.sampling.size[self.sampling.free]) == 0)
        of_one = self.gain(self.sampling.inclusion(1)) if equal else None
        gains = [
            size * of_one if of_one is not None else self.gain(self.sampling.inclusion(int(size))) for size in sizes
        ]
        return np.array([self._width(base + gain) for gain in gains])

    def _width(self, information: Matrix) -> float:
        prior = self.inference.class_prior
        (error,) = uncertainty.precision(information, noise=self.inference.noise).errors(prior.gradient[None])
        slope = prior.value * (1.0 - prior.value)
        error = float(np.hypot(error, np.sqrt(prior.row_variance))) / slope if slope > 0 else np.inf
        centre = np.log(prior.value) - np.log1p(-prior.value) if slope > 0 else np.inf
        low, high = logit_interval(np.asarray(centre), np.asarray(error), quantile(self.level))
        return float(high - low)


def difference_widths(data: AuditRows, sampling: AuditDesign, sizes: Any, level: float) -> Vector:
    r"""Return the expected widths of `audited_class_prior` after these numbers of new audits, including the pilot.

    If the model is right, the difference between class and `q` has the variance :math:`q(1-q)`. The mean of this
    variance over the rows counts as 20 audits, and is averaged with the variance in the pilot. The variances of single
    rows are then scaled so that their mean is this average.
    """
    q, n = data.q[sampling.open_], data.q.size
    own = q * (1.0 - q)
    checked = data.audited[sampling.open_]
    m = int(checked.sum())
    spread = float(own.mean())
    if m > 1:
        differences = (data.audit[sampling.open_][checked] == 1) - q[checked]
        spread = (PRIOR_AUDITS * spread + m * float(differences.var(ddof=1))) / (PRIOR_AUDITS + m)
    each = own * (spread / own.mean()) if own.any() else np.full(q.size, spread)
    alpha = float(data.q.mean())
    rows = alpha * (1.0 - alpha) / n
    equal = bool(np.ptp(sampling.size[sampling.free]) == 0)
    widths = []
    for size in sizes:
        total = m + int(size)
        if total < 2:  # the estimator is undefined with fewer than two audits
            widths.append(1.0)
            continue
        if equal:
            design = spread * (1.0 - total / q.size) / total
        else:
            p = sampling.with_pilot(int(size), data)[sampling.open_]
            design = float(((1.0 - p) / p) @ each) / q.size**2
        variance = (q.size / n) ** 2 * design + rows
        widths.append(min(1.0, 2.0 * quantile(level) * float(np.sqrt(variance))))
    return np.array(widths)


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
