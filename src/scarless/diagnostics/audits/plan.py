"""Which rows to audit, and how sure one will be after so many."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from scarless.checks.options import check_choice, check_share, check_whole, real_number, shown
from scarless.checks.rows import index_of
from scarless.checks.tables import refuse_device
from scarless.checks.vectors import check_random_stream
from scarless.diagnostics.audits._designs import DESIGNS, Drawn
from scarless.diagnostics.audits._reading import Judged, read_judged
from scarless.diagnostics.audits._widths import ModelWidths, difference_widths
from scarless.numerics.arrays import Array, ArrayLike, Integers, Vector
from scarless.outside.extras import need
from scarless.outside.notices import warn_user

if TYPE_CHECKING:
    from scarless.diagnostics.audits.plan_display import AuditPlanDisplay

_SMALLEST, _LARGEST, _POINTS = 25, 2000, 24
_WANTED = 0.05  # the width whose price is told
_PILOT = 50
_HOPELESS = 0.5  # width from which on a model without audits says nothing of its own future


@dataclass(frozen=True, eq=False, repr=False)
class AuditPlan:
    """Rows to audit, and what they will be worth; prints in words.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        Which rows to audit: their names in the index of a pandas data frame, else their positions.
    positions : array of int of shape (n_rows,)
        Their positions.
    probability : array of shape (n,)
        Of all rows, with which probability each is audited, by a random pilot or by this plan: what
        `audited_class_prior` asks for.
    sizes : array of int
        Numbers of new audits; 0 is what there is now.
    expected_width : array
        Expected width of ``class_prior_interval()`` of a fit with so many more audits; NaN for a fit without an
        information matrix.
    expected_width_difference : array
        Expected width of the interval of `audited_class_prior`.
    design : str
    level : float
    n_open : int
        Rows that might have been drawn.
    n_pilot : int
        Rows that were audited before.
    labels_are_sure : bool
        Whether labelled rows are left out, as known positives.
    remarks : tuple of str
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
    labels_are_sure: bool
    remarks: tuple[str, ...] = ()

    def width_at(self, n_rows: int, *, difference: bool = False) -> float:
        """Return the expected width after `n_rows` new audits, of the model's interval or of the difference estimator.

        Between the sizes it is read off a line in logarithms.
        """
        wanted = check_whole(n_rows, "n_rows", at_least=0)
        widths = self.expected_width_difference if difference else self.expected_width
        if wanted > self.sizes[-1]:
            raise ValueError(f"n_rows must be at most {self.sizes[-1]}, the largest of sizes; got {wanted}.")
        if wanted in self.sizes:
            return float(widths[np.flatnonzero(self.sizes == wanted)[0]])
        return float(np.exp(np.interp(np.log1p(wanted), np.log1p(self.sizes), np.log(widths))))

    def rows_needed(self, width: float, *, difference: bool = False) -> int | None:
        """Return about how many new audits make the interval as narrow as `width`; None: more than the largest size."""
        if not 0 < real_number(width) <= 1:
            raise ValueError(f"width must lie in (0, 1], as that of an interval of a share; got {shown(width)}.")
        widths = self.expected_width_difference if difference else self.expected_width
        if not widths[-1] <= width:  # NaN too
            return None
        first = int(np.argmax(widths <= width))
        if first == 0:
            return 0
        at = np.log(widths[[first, first - 1]])
        sizes = np.log1p(self.sizes[[first, first - 1]])
        return int(np.ceil(np.expm1(np.interp(np.log(width), at, sizes))))

    def sentences(self) -> list[str]:
        """Return the plan, in words."""
        n, kind = self.rows.size, " without a label" if self.labels_are_sure else ""
        how = "drawn at random" if self.design == "random" else "drawn more often where the model is unsure"
        told = [f"Audit {n:,} of {self.n_open:,} rows{kind}, {how}."]
        if self.labels_are_sure:
            told.append("Labelled rows count as positive, and are left out.")
        told += [self._width_words(n), self._price_words()]
        return [*told, *self.remarks]

    def _width_words(self, n: int) -> str:
        by_difference = f"{self.width_at(n, difference=True):.3f} wide by audited_class_prior, whatever the model"
        more = "more " if self.n_pilot else ""
        if np.isnan(self.expected_width[0]):
            return f"After {n:,} {more}audits the {self.level:.4g} interval of the class prior will be {by_difference}."
        return (
            f"The {self.level:.4g} interval of the class prior is {self.expected_width[0]:.3f} wide now. After {n:,} "
            f"{more}audits expect {self.width_at(n):.3f} from a fit with audits, if the models are of the right form, "
            f"and {by_difference}."
        )

    def _price_words(self) -> str:
        def price(difference: bool) -> str:
            found = self.rows_needed(_WANTED, difference=difference)
            return f"more than {self.sizes[-1]:,}" if found is None else f"about {found:,}"

        if np.isnan(self.expected_width[0]):
            return f"A width of {_WANTED} takes {price(True)} audits."
        return f"A width of {_WANTED} takes {price(False)} audits by the model, {price(True)} by audited_class_prior."

    def to_frame(self) -> Any:
        """Return the expected widths as a pandas DataFrame, indexed by the number of new audits."""
        pandas = need("pandas", "AuditPlan.to_frame", extra="frames")
        columns = {name: getattr(self, name) for name in ("expected_width", "expected_width_difference")}
        return pandas.DataFrame(columns, index=pandas.Index(self.sizes, name="audits"))

    def plot(self, ax: Any = None) -> "AuditPlanDisplay":
        """Draw the plan as an `AuditPlanDisplay` and return that; its ``ax_`` has the Axes."""
        from scarless.diagnostics.audits.plan_display import AuditPlanDisplay  # noqa: PLC0415 (it knows this module)

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
    r"""Choose rows to audit, and say how wide the interval of the class prior will be after them.

    A row whose class is open tells the models :math:`D - q(1-q)\,cc'`, and :math:`D` once it was checked, so that
    audits with probabilities :math:`p_i` make the information

    .. math:: H + \sum_i p_i\, q_i (1 - q_i)\, c_i c_i', \qquad c = [x,\; \textstyle\sum_k (s_k - e_k) z_k, \ldots],

    with `H` that of the fit, penalties and facts included. The expected width of ``class_prior_interval()`` follows
    from its inverse. It is as good as the fit's `q`: a model with one label column that has seen no audits may be far
    off, and is told so; audit a pilot of 50 random rows first, fit with them, and plan the rest. After such a pilot
    (5,000 rows, ten attributes that both models see) the width after 200 more audits was within 13% of what was
    expected in 40 of 40 runs. The width of
    `audited_class_prior` needs no form of the models: it follows from the spread of class minus `q`.

    Without false positives a labelled row is positive, and checking it tells nothing: rows are drawn from the others.

    Parameters
    ----------
    estimator : fitted classifier
        Any of this package, also at the end of a pipeline. Widths of its own interval are for two logistic models.
    X : array, sparse matrix or data frame of shape (n, n_attributes)
        The rows that it was fitted on.
    s : array of shape (n,) or (n, n_looks)
        Their labels, coded as in `fit`.
    n_rows : int, default=200
        How many rows to audit, beside those of the pilot.
    design : {"random", "neyman", "two-stage"}, default="random"
        With equal probabilities; or in proportion to :math:`\sqrt{q(1-q)}`, at once or after a random pilot. The last
        two lean on the model: in simulations, where it is right, intervals after two stages were 5 to 30% shorter; on
        real tables errors were 15 to 75% larger, and rows chosen where the model is unsure covered in 22 to 89% of
        runs instead of 95%. There is a warning.
    pilot : array of shape (n,), optional
        Audits so far, as given to `fit`: 1, 0, and NaN, None or -1 elsewhere. Those rows are not drawn again. Taken to
        be random.
    level : float, default=0.95
        Nominal level of the intervals.
    random_state : int, Generator or None
        Seed of the draw.

    Returns
    -------
    AuditPlan

    See Also
    --------
    audited_class_prior : The class prior from audits, right even if the model is wrong.

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
    judged = read_judged(estimator, X, s, pilot)
    _check_pilot(judged, design)
    drawn = Drawn.of(judged, design)
    n_free = int(drawn.free.sum())
    if n_rows > n_free:
        raise ValueError(f"n_rows is {n_rows}, and {n_free} rows are open: fewer must do.")
    sizes = _sizes(n_rows, n_free)
    widths = ModelWidths.of(judged, drawn, level)
    expected = np.full(sizes.size, np.nan) if widths is None else np.r_[widths.now(), widths.expected(sizes[1:])]
    positions = drawn.draw(n_rows, rng)
    plan = AuditPlan(
        rows=_names(X, positions),
        positions=positions,
        probability=drawn.with_pilot(n_rows, judged),
        sizes=sizes,
        expected_width=expected,
        expected_width_difference=difference_widths(judged, drawn, sizes, level),
        design=design,
        level=level,
        n_open=n_free,
        n_pilot=int(judged.audited.sum()),
        labels_are_sure=judged.labels_are_sure,
        remarks=_remarks(judged, widths, design),
    )
    if design != "random":
        warn_user(f"plan_audit: {_DESIGN_REMARK}", UserWarning)
    return plan


_DESIGN_REMARK = (
    "rows drawn by what the model thinks make short intervals where it is right, and too short ones where it is not: "
    "on real tables 200 such rows covered in 22 to 89% of runs, and after two stages errors were 15 to 75% larger than "
    "with 200 random rows. Random is the safe design."
)


def _check_pilot(judged: Judged, design: str) -> None:
    """Raise where audits that the fit has seen, and those given here, differ."""
    model, given = judged.estimator, int(judged.audited.sum())
    seen = int(getattr(model, "n_audited_", 0))
    if seen and not given:
        raise ValueError(
            f"The model was fitted with {seen} audits: give them as pilot=, so that nobody checks these rows again."
        )
    if given and hasattr(model, "known") and seen != given:
        raise ValueError(
            f"pilot has {given} audits, and the model was fitted with {seen or 'none'}: fit(X, s, audit=pilot) first, "
            "so that expected widths begin where the pilot ended."
        )
    if design == "two-stage" and not given:
        raise ValueError(
            f"design='two-stage' needs the first stage: audit about {_PILOT} to 100 rows at random, fit with them, and "
            "give them as pilot=."
        )


def _sizes(n_rows: int, n_free: int) -> Integers:
    """Return the sizes of the curve: none, then from 25 in equal ratios, and what is asked for."""
    largest = min(max(_LARGEST, n_rows), n_free)
    curve = np.geomspace(min(_SMALLEST, largest), largest, _POINTS).round().astype(np.intp)
    return np.unique(np.r_[0, curve, n_rows].astype(np.intp))


def _names(X: Any, positions: Integers) -> Array:
    index = index_of(X)
    return np.array(positions) if index is None or isinstance(index, range) else np.asarray(index[positions])


def _remarks(judged: Judged, widths: ModelWidths | None, design: str) -> tuple[str, ...]:
    found = []
    if design != "random":
        found.append(_DESIGN_REMARK[0].upper() + _DESIGN_REMARK[1:])
    few = not judged.audited.any() and judged.labels.shape[1] == 1
    if widths is not None and few and (widths.inference.exchangeable or widths.now() > _HOPELESS):
        why = (
            "Both models see the same attributes and nothing but the likelihood's form tells them apart"
            if widths.inference.exchangeable
            else "One label column tells next to nothing of the class prior here"
        )
        found.append(
            f"{why}: what the model expects of audits may be far off. Make a pilot of {_PILOT} random rows first, fit "
            "with audit=, and plan again with pilot=."
        )
    if widths is None:
        found.append("This fit has no information matrix: its own interval cannot be foreseen.")
    return tuple(found)
