"""Summary tables of fitted models, which print as text or HTML and convert to data frames."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap
from typing import Any

import numpy as np
from scipy.special import ndtr

from scarless.numerics.arrays import Array, Vector
from scarless.numerics.looks_objective import HIGH_TAIL, LOW_TAIL, NORMAL
from scarless.numerics.uncertainty import Interval
from scarless.outside.extras import need
from scarless.pair.constraints import labelling_of
from scarless.pair.heterogeneity import compare_forms, deviation_interval

_MAX_NAME_WIDTH = 40
_MAX_SETS_SHOWN, _MAX_NAMES_SHOWN = 5, 12  # sets of collinear columns, and names of columns, in one remark

_STYLE = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:1.5rem;max-width:60rem;color-scheme:light dark}"
    "table{border-collapse:collapse;margin:.8rem 0}td,th{padding:.15rem .7rem;text-align:right}"
    "tbody tr{border-top:1px solid #8884}th{text-align:left}"
)

# With fewer labelled rows the class prior has a root mean squared error of 0.12 to 0.19 (benchmarks, "Few labels").
FEW_LABELS = 50

REACHES_ONE = (
    "The estimates of class prior and label frequency assume that the class probability is close to 1 in some rows. If "
    "the most certain rows are positive only with probability m, the class prior is too high by a factor of up to 1/m. "
    "Labels cannot show this: audit some of the rows with the highest class probability."
)
_FORMS = {
    NORMAL: "normal",
    LOW_TAIL: "skewed towards rows that are hardly ever seen",
    HIGH_TAIL: "skewed towards rows that are always seen",
}
INTERCEPT = "intercept"
NOT_CONVERGED = "The solver did not converge: estimates and standard errors are not those of the optimum."
SWAPPABLE = (
    "Both models use the same attributes. The labels alone do not show which one is the class model, and they may not "
    "show whether an attribute affects the class or the labelling. Name the attributes that drive the labelling, or "
    "audit some rows."
)
ONE_PROPENSITY = (
    "All positives are assumed to have the same propensity: this is SCAR, by maximum likelihood. If the labelling "
    "depends on attributes, name them: SAREMClassifier(propensity_attributes=[...])."
)


@dataclass(frozen=True, eq=False)
class Block:
    """Parameters of one model in a summary table."""

    title: str
    names: tuple[str, ...]
    coef: Vector
    std_err: Vector
    z: Vector
    p_value: Vector
    low: Vector
    high: Vector

    @classmethod
    def of(cls, title: str, names: list[str], coef: Vector, std_err: Vector, quantile: float) -> "Block":
        """Return parameters with a test against 0 and an interval each, both by the normal approximation."""
        z = np.divide(coef, std_err, out=np.zeros_like(coef), where=(std_err > 0) & (std_err < np.inf))
        half = quantile * std_err
        return cls(title, tuple(names), coef, std_err, z, 2.0 * ndtr(-np.abs(z)), coef - half, coef + half)

    def renamed(self, names: list[str], units: Vector) -> "Block":
        """Return the parameters with other names, and with coefficients for other units of the columns."""
        numbers = {name: getattr(self, name) / units for name in ("coef", "std_err", "low", "high")}
        return replace(self, names=tuple(names), **numbers)

    def cells(self) -> list[list[str]]:
        """Return the numbers as text, one row for each parameter."""
        numbers = zip(self.coef, self.std_err, self.z, self.p_value, self.low, self.high, strict=True)
        return [
            [_number(coef), _number(error), f"{z:.2f}", f"{p:.3f}", _number(low), _number(high)]
            for coef, error, z, p, low, high in numbers
        ]


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Estimates of a fit with their standard errors and intervals; prints as a table.

    Attributes
    ----------
    title : str
        Name of the classifier.
    level : float
        Confidence level.
    n_rows : int
        Number of rows with a positive weight.
    weight, labelled : float
        Sum of the weights of all rows, and of the labelled rows.
    log_likelihood : float
        Log-likelihood of the observed labels, without penalties.
    converged : bool
        Whether the solver met its stopping rule.
    C, propensity_C : float
        Inverse regularisation strengths of the two models.
    class_prior, label_frequency : float
        Estimates of Pr(y=1) and of Pr(s=1|y=1).
    class_prior_interval, label_frequency_interval : Interval
        Intervals of `class_prior` and `label_frequency`.
    blocks : tuple of Block
        Parameters of the classifier and of the propensity model; one block for each look that has its own propensity
        model.
    remarks : tuple of str
        Remarks on this fit.
    recalibrated : bool
        Whether the fit was recalibrated.
    extra : tuple of pairs of str
        Names and values of further lines above the table: looks, audits and false positives.
    """

    title: str
    level: float
    n_rows: int
    weight: float
    labelled: float
    log_likelihood: float
    converged: bool
    C: float
    propensity_C: float
    class_prior: float
    class_prior_interval: Interval
    label_frequency: float
    label_frequency_interval: Interval
    blocks: tuple[Block, ...]
    remarks: tuple[str, ...] = ()
    recalibrated: bool = False
    extra: tuple[tuple[str, str], ...] = ()

    def to_frame(self) -> Any:
        """Return the parameters of both models as a pandas DataFrame, indexed by model and attribute."""
        pandas = need("pandas", "Summary.to_frame", extra="frames")
        several = len(self.blocks) > 2
        models = ["classifier", *(f"propensity {k}" if several else "propensity" for k in range(len(self.blocks) - 1))]
        labels = [(model, name) for model, block in zip(models, self.blocks, strict=True) for name in block.names]
        columns = ("coef", "std_err", "z", "p_value", "low", "high")
        data = {name: np.concatenate([getattr(block, name) for block in self.blocks]) for name in columns}
        return pandas.DataFrame(data, index=pandas.MultiIndex.from_tuples(labels, names=["model", "attribute"]))

    def odds_ratios(self) -> Any:
        """Return odds ratios with intervals as a pandas DataFrame, without intercepts.

        An odds ratio is the factor by which the odds change if the column rises by one: the odds of being positive for
        the classifier, and the odds of a positive being labelled for the propensity model.
        """
        frame = self.to_frame()[["coef", "low", "high"]]
        frame = frame[frame.index.get_level_values("attribute") != "intercept"]
        with np.errstate(over="ignore"):
            return np.exp(frame).rename(columns={"coef": "odds_ratio"})

    def to_html(self) -> str:
        """Return the table as a complete HTML page, for use outside a notebook."""
        return (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>'
            f"<style>{_STYLE}</style></head><body>{self._repr_html_()}</body></html>"
        )

    def header(self) -> list[tuple[str, str]]:
        """Return names and values of the lines above the table."""
        rows = f"{self.n_rows:,}" + ("" if self.weight == self.n_rows else f" (weight {_count(self.weight)})")
        return [
            ("Rows", rows),
            ("Labelled", f"{_count(self.labelled)} ({self.labelled / self.weight:.1%})"),
            ("Log-likelihood", f"{self.log_likelihood:,.2f}"),
            ("Converged", "yes" if self.converged else "no"),
            ("Class prior", _estimate(self.class_prior, self.class_prior_interval)),
            ("Label frequency", _estimate(self.label_frequency, self.label_frequency_interval)),
            ("C", f"{self.C:g}"),
            ("Propensity C", f"{self.propensity_C:g}"),
            *self.extra,
        ]

    def notes(self) -> list[str]:
        """Return the notes below the table."""
        by_model = (
            f"{_percent(self.level)} intervals by the delta method, which assumes that both models are of the right "
            "form"
        )
        population = "for the population from which the rows were drawn, not for these rows only"
        notes = [f"Brackets: {by_model}. The intervals of class prior and label frequency are {population}."]
        if self.recalibrated:
            notes = [
                "Recalibrated: slope and shift of the classifier, and the propensity, are estimated from out-of-fold "
                f"logits. Brackets of class prior and label frequency: {_percent(self.level)} intervals from the "
                f"likelihood on the grid of class priors, {population}. Brackets of coefficients: {by_model}."
            ]
        if np.isfinite([self.C, self.propensity_C]).any():
            notes.append(
                "Penalised coefficients are shrunk towards 0, and so are their intervals: the true values tend to lie "
                "farther from 0."
            )
        if not np.isfinite(np.concatenate([block.std_err for block in self.blocks])).all():
            notes.append(
                "std err inf: the data do not determine this coefficient, only a combination of it with others. "
                "identifiability_report shows which combinations are not identified."
            )
        if not self.extra:  # looks and audits identify the class prior without this assumption
            notes.append(REACHES_ONE)
        return [*notes, *self.remarks]

    def heads(self) -> list[str]:
        """Return the column headings of the table."""
        tail = (1.0 - self.level) / 2.0
        return ["coef", "std err", "z", "P>|z|", f"[{tail:.4g}", f"{1.0 - tail:.4g}]"]

    def __str__(self) -> str:
        longest = max(len(name) for block in self.blocks for name in block.names)
        name_width = min(max(longest, 16), _MAX_NAME_WIDTH)
        heads = _line("", self.heads(), name_width)
        width = len(heads)
        lines = [
            self.title.center(width).rstrip(),
            "=" * width,
            *_side_by_side(self.header(), width),
            "=" * width,
            heads,
        ]
        for block in self.blocks:
            lines += ["-" * width, block.title]
            lines += [_line(name, cells, name_width) for name, cells in zip(block.names, block.cells(), strict=True)]
        notes = [line for note in self.notes() for line in wrap(note, width)]
        return "\n".join([*lines, "=" * width, *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.header())
        heads = "".join(f"<th>{escape(head)}</th>" for head in ["", *self.heads()])
        body = ""
        for block in self.blocks:
            body += f'<tr><th colspan="7" style="text-align:left">{escape(block.title)}</th></tr>'
            for name, cells in zip(block.names, block.cells(), strict=True):
                numbers = "".join(f"<td>{cell}</td>" for cell in cells)
                body += f'<tr><th style="text-align:left;font-weight:normal">{escape(name)}</th>{numbers}</tr>'
        notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in self.notes())
        return (
            f"<div><h4>{escape(self.title)}</h4><table>{facts}</table>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
        )


def few_labels_remarks(labelled: float) -> list[str]:
    """Return a remark on what can be relied on if there are few labels; empty if there are enough.

    Examples
    --------
    >>> few_labels_remarks(4.0)[0][:23], few_labels_remarks(60.0)
    ('Only 4 labelled rows: t', [])
    """
    if labelled >= FEW_LABELS:
        return []
    return [
        f"Only {_count(labelled)} labelled row{'' if labelled == 1 else 's'}: the ranking of rows is rough. Do not "
        "rely on the class prior and the label frequency: the intervals of both may be too short."
    ]


def collinear_remarks(of_models: dict[tuple[str, ...], list[str]], *, penalised: bool) -> list[str]:
    """Return remarks on sets of collinear columns; the dict gives the models in which each set is collinear.

    Examples
    --------
    >>> (remark,) = collinear_remarks({("sex_f", "sex_m"): ["classifier"]}, penalised=True)
    >>> print(remark[:90])
    These columns are collinear, like all categories of a one-hot encoding: sex_f and sex_m of
    """
    constant = [names[0] for names in of_models if len(names) == 1]
    sets = {names: models for names, models in of_models.items() if len(names) > 1}
    remarks = []
    if sets:
        named = [f"{_listed(names, _MAX_NAMES_SHOWN)} of the {' and the '.join(of)}" for names, of in sets.items()]
        rest = [f"{len(named) - _MAX_SETS_SHOWN} more"] if len(named) > _MAX_SETS_SHOWN else []
        remarks.append(
            "These columns are collinear, like all categories of a one-hot encoding: "
            f"{'; '.join(named[:_MAX_SETS_SHOWN] + rest)}. {'Only the penalty' if penalised else 'Nothing'} determines "
            "their individual coefficients, so p-values and intervals mean little. To interpret the coefficients, drop "
            "one column of each set, for example by OneHotEncoder(drop='first'); predictions hardly change."
        )
    if constant:
        remarks.append(
            f"Constant or almost constant columns: {_listed(constant, _MAX_NAMES_SHOWN)}. The data do not determine "
            "their coefficients."
        )
    return remarks


def _listed(names: Sequence[str], most: int) -> str:
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]


def _number(value: float) -> str:
    """Return a number with four decimals, or with three significant digits if it is very small or large."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


def _percent(level: float) -> str:
    return f"{100.0 * level:.6g}%"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _estimate(value: float, interval: Interval) -> str:
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _line(name: str, cells: list[str], name_width: int) -> str:
    short = name if len(name) <= name_width else name[: name_width - 3] + "..."
    return short.ljust(name_width) + "".join(cell.rjust(11) for cell in cells)


def _side_by_side(facts: list[tuple[str, str]], width: int) -> list[str]:
    """Return lines with names and values in two columns, the first half on the left."""
    facts = facts if len(facts) % 2 == 0 else [*facts, ("", "")]
    half, gap = len(facts) // 2, 4
    right_width = 19 + max(len(value) for _, value in facts[half:])
    left_width = width - gap - right_width
    return [
        f"{left:<18}{value:>{left_width - 18}}{' ' * gap}{right:<19}{other:>{right_width - 19}}"
        for (left, value), (right, other) in zip(facts[:half], facts[half:], strict=True)
    ]


@dataclass(frozen=True)
class MemberSummary:
    """One line of the table of a stack: a classifier on a set of attributes."""

    name: str
    attributes: str
    log_likelihood: float  # out-of-fold, per row
    slope: float
    class_prior: float
    class_prior_interval: Interval
    label_frequency: float

    def cells(self) -> tuple[str, ...]:
        """Return the numbers as text."""
        low, high = self.class_prior_interval
        return (
            f"{self.log_likelihood:.5f}",
            f"{self.slope:.2f}",
            f"{self.class_prior:.3f}",
            f"[{low:.3f}, {high:.3f}]",
            f"{self.label_frequency:.3f}",
        )


@dataclass(frozen=True, repr=False)
class StackSummary:
    """Estimates of a stack or of a cross-fitted classifier; prints as a table.

    Attributes
    ----------
    title : str
        Name of the classifier.
    level : float
        Confidence level.
    n_rows, labelled : float
        Sum of the weights of all rows, and of the labelled rows.
    members : tuple of MemberSummary
        Each classifier alone, and last the stack.
    propensity : tuple of pairs
        Names and coefficients of the propensity model, the intercept last.
    remarks : tuple of str
        Remarks on this fit.
    intervals : str
        How the intervals were computed.
    """

    title: str
    level: float
    n_rows: float
    labelled: float
    members: tuple[MemberSummary, ...]
    propensity: tuple[tuple[str, float], ...]
    remarks: tuple[str, ...] = ()
    intervals: str = "from the likelihood on the grid of class priors; the last interval combines all members"

    def to_frame(self) -> Any:
        """Return the members as a pandas DataFrame."""
        pandas = need("pandas", "StackSummary.to_frame", extra="frames")
        rows = [
            {
                "member": member.name,
                "attributes": member.attributes,
                "log_likelihood": member.log_likelihood,
                "slope": member.slope,
                "class_prior": member.class_prior,
                "low": member.class_prior_interval.low,
                "high": member.class_prior_interval.high,
                "label_frequency": member.label_frequency,
            }
            for member in self.members
        ]
        return pandas.DataFrame(rows).set_index(["member", "attributes"])

    def header(self) -> str:
        """Return the line above the table."""
        return f"{self.n_rows:,.6g} rows, {self.labelled:,.6g} labelled ({self.labelled / self.n_rows:.1%})"

    def notes(self) -> list[str]:
        """Return the notes below the table."""
        return [
            "held-out: log-likelihood per row of labels that the member was not trained on. slope: factor by which "
            "recalibration multiplied the member's logits; above 1, they were too flat; below 1, too steep.",
            f"Brackets: {_percent(self.level)} intervals {self.intervals}.",
            *self.remarks,
        ]

    def __str__(self) -> str:
        names = [_label(member) for member in self.members]
        width = max(len(name) for name in names) + 2
        heads = ("held-out", "slope", "class prior", f"{_percent(self.level)} interval", "label freq.")
        sizes = (11, 8, 13, 18, 13)
        top = "".ljust(width) + "".join(head.rjust(size) for head, size in zip(heads, sizes, strict=True))
        lines = [self.title.center(len(top)).rstrip(), "=" * len(top), self.header(), "-" * len(top), top]
        for name, member in zip(names, self.members, strict=True):
            if member is self.members[-1]:
                lines.append("-" * len(top))
            cells = zip(member.cells(), sizes, strict=True)
            lines.append(name.ljust(width) + "".join(cell.rjust(size) for cell, size in cells))
        shown = ", ".join(f"{name} {value:.3g}" for name, value in self.propensity[:12])
        more = f", and {len(self.propensity) - 12} more" if len(self.propensity) > 12 else ""
        notes = [f"Propensity, logit: {shown}{more}.", *self.notes()]
        return "\n".join([*lines, "=" * len(top), *(line for note in notes for line in wrap(note, len(top)))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = "".join(
            f"<th>{head}</th>" for head in ("", "held-out", "slope", "class prior", "interval", "label frequency")
        )
        body = "".join(
            f'<tr><th style="text-align:left;font-weight:normal">{escape(_label(member))}</th>'
            + "".join(f"<td>{cell}</td>" for cell in member.cells())
            + "</tr>"
            for member in self.members
        )
        notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in self.notes())
        return (
            f"<div><h4>{escape(self.title)}</h4><p>{escape(self.header())}</p>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
        )


def pair_summary(model: Any, level: float, remarks: Sequence[str]) -> Summary:
    """Return the summary of two logistic models that were fitted to one look or to several."""
    pair = model.fitted_pair_
    inference, looks, names = pair.inference, pair.looks, parameter_names(model)
    objective, beta, errors = inference.objective, inference.parameters, inference.parameter_errors()
    z, own = inference.quantile(level), len(objective.models)
    titles = ["Classifier: Pr(y=1|x)"]
    titles += [f"Propensity: Pr(s=1|y=1,x){'' if own == 1 else f', {looks.names[k]}'}" for k in range(own)]
    blocks = [
        Block.of(title, _bare(names_of, looks, k), beta[place], errors[place], z)
        for k, (title, names_of, place) in enumerate(zip(titles, names, objective.places, strict=False))
    ]
    return Summary(
        title=type(model).__name__,
        level=level,
        n_rows=inference.n_rows,
        weight=pair.weight,
        labelled=pair.labelled,
        log_likelihood=inference.log_likelihood,
        converged=bool(model.converged_),
        C=inference.C,
        propensity_C=inference.propensity_C,
        class_prior=model.class_prior_,
        class_prior_interval=model.class_prior_interval(level=level),
        label_frequency=model.label_frequency_,
        label_frequency_interval=model.label_frequency_interval(level=level),
        blocks=tuple(blocks),
        remarks=(*_remarks_on_columns(inference, names), *remarks),
        recalibrated=bool(pair.grids),
        extra=() if looks is None else tuple(_lines_on_looks(model, pair, looks, level)),
    )


def parameter_names(model: Any) -> list[list[str]]:
    """Return the names of the parameters of the classifier, of each propensity model and of each false-positive rate.

    If there are several propensity models, the names include the look.
    """
    pair, names = model.fitted_pair_, attribute_names(model)
    objective, looks = pair.inference.objective, pair.looks
    of_f = [*map(str, names[objective.f.indices]), INTERCEPT]
    own = [*map(str, names[pair.e_columns]), *(() if looks is None else looks.visits), INTERCEPT]
    shared = len(objective.models) == 1
    of_e = [own if shared else [f"{name} ({looks.names[k]})" for name in own] for k in range(len(objective.models))]
    numbers = [""] if objective.n_rates == 1 else [f" {k + 1}" for k in range(objective.n_rates)]
    return [of_f, *of_e, *([f"rate of false positives{number}"] for number in numbers[: objective.n_rates])]


def _bare(names: list[str], looks: Any, k: int) -> list[str]:
    """Return names of parameters without the look, which the title of the block contains."""
    suffix = "" if k == 0 or looks is None else f" ({looks.names[k - 1]})"
    return [name.removesuffix(suffix) for name in names]


def _remarks_on_columns(inference: Any, names: list[list[str]]) -> list[str]:
    """Return remarks on collinear and constant columns, whose individual coefficients are not identified."""
    of_models = dict[tuple[str, ...], list[str]]()
    for model, own, sets in zip(("classifier", "propensity model"), names, inference.collinear(), strict=False):
        for members in sets:
            of_models.setdefault(tuple(own[j] for j in members), []).append(model)
    return collinear_remarks(of_models, penalised=max(inference.C, inference.propensity_C) < np.inf)


def _lines_on_looks(model: Any, pair: Any, looks: Any, level: float) -> list[tuple[str, str]]:
    """Return further lines above the table of a fit to several looks, audits or known values."""
    inference, labelling = pair.inference, labelling_of(model)
    objective, sums = inference.objective, inference.sums
    audited = f"{float(sums.audits.sum()):,.0f} ({float(sums.audits[0]):,.0f} positive)"
    lines = [
        ("Naive class prior", f"{float(sums.labelled / sums.weight):.3f}"),
        ("Looks", f"{looks.n_looks} ({float(sums.looks.sum()):,.0f} took place)"),
        ("Audited rows", audited if sums.audits.sum() else "none"),
    ]
    if labelling.audit_labels != "keep":
        lines.append(("Audit labels", "dropped" if labelling.audit_labels == "drop" else "undone"))
    for kind in range(objective.n_kinds):
        name = "Every look" if objective.n_kinds == 1 else _titled(looks.names[kind])
        frequency = inference.label_frequency_of(kind)
        lines.append((name, _share(frequency.value, inference.interval_of(frequency, level))))
    if objective.false_positives is None:
        lines.append(("False positives", "none, by assumption"))
    elif not objective.n_rates:
        lines.append(("False positives", f"{labelling.false_positive_rate} (given)"))
    lines += [("False positives", _share(*found)) for found in pair.rate_intervals(level)]
    if objective.heterogeneity:
        lines.append(("Heterogeneity", _heterogeneity(pair, level)))
    if objective.bounds is not None:
        lines.append(("Propensity bounds", f"{objective.bounds[0]:g} to {objective.bounds[1]:g} (given)"))
    return lines


def _heterogeneity(pair: Any, level: float) -> str:
    """Return the standard deviation of the logits of propensities between rows, with its interval if estimated."""
    value = f"standard deviation {pair.objective.heterogeneity:.2f}"
    if not pair.spreads:
        return f"{value} (given)"
    low, high = deviation_interval(pair.spreads, level)
    return f"{value} [{low:.2f}, {high:.2f}]"


def remark_on_heterogeneity(pair: Any) -> list[str]:
    """Return the remark that the class prior depends on the assumed form of differences between rows."""
    if not pair.objective.heterogeneity and not pair.spreads:
        return []
    if not pair.spreads:
        return [
            "The standard deviation of the differences between rows, and their normal form, are taken as given. The "
            "class prior depends on both, and no interval covers this."
        ]
    forms = ", ".join(
        f"{each.class_prior:.2f} if they are {_FORMS[each.form]} (log-likelihood {each.behind:.1f} below the highest)"
        for each in compare_forms(pair.spreads)
    )
    return [
        "Labels hardly show how the differences between rows are distributed, and the class prior depends on it: "
        f"{forms}. The estimate is for the normal form. The intervals of the class prior and of the label frequency "
        "cover all these forms and standard deviations, but other forms are possible. Intervals of coefficients and "
        "of rows are for the estimated standard deviation. The class prior by audited_class_prior needs no such form."
    ]


def _share(value: float, interval: Interval) -> str:
    return f"{value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _titled(name: str) -> str:
    return name[0].upper() + name[1:] if name.startswith("look ") else f"Look {name}"


def crossed_summary(model: Any, level: float, remarks: Sequence[str]) -> StackSummary:
    """Return the summary of a cross-fitted classifier."""
    pair = model.fitted_pair_
    row = MemberSummary(
        type(model.estimator).__name__,
        "",
        model.log_likelihood_ / pair.held_out_weight,
        pair.recalibration.slope,
        model.class_prior_,
        model.class_prior_interval(level=level),
        model.label_frequency_,
    )
    first = (
        "The classifier's own parameters have no standard errors. bootstrap_intervals computes intervals by refitting "
        "the classifier on resamples."
    )
    return StackSummary(
        title=type(model).__name__,
        level=level,
        n_rows=pair.weight,
        labelled=pair.labelled,
        members=(row,),
        propensity=tuple(propensity_parameters(model)),
        intervals="from the likelihood on the grid of class priors",
        remarks=(first, *(() if pair.looks is None else [message_about_shares(model, pair.looks)]), *remarks),
    )


def propensity_parameters(model: Any) -> list[tuple[str, float]]:
    """Return names and values of the parameters of a logistic propensity model.

    If each look has its own propensity model, the names include the look.
    """
    pair = model.fitted_pair_
    if not hasattr(model, "propensity_coef_"):  # recalibration only shifts the logits of the user's propensity model
        return [(INTERCEPT, float(pair.parameters[-1]))]
    looks, names = pair.looks, [*map(str, attribute_names(model)[pair.e_columns])]
    names, shared = [*names, *(() if looks is None else looks.visits), INTERCEPT], len(model.propensity_intercept_) == 1
    found = []
    for k, intercept in enumerate(model.propensity_intercept_):
        visits = () if looks is None else model.visit_coef_[k]
        values = [*model.propensity_coef_[k, pair.e_columns], *visits, intercept]
        where = "" if shared else f" ({looks.names[k]})"
        found += [(f"{name}{where}", float(value)) for name, value in zip(names, values, strict=True)]
    return found


def message_about_shares(model: Any, looks: Any) -> str:
    """Return a sentence with the numbers of looks and audits, label frequencies and false-positive rates."""
    frequencies = ", ".join(f"{share:.3f}" for share in np.unique(model.label_frequencies_.round(3)))
    rates = ", ".join(f"{rate:.3f}" for rate in np.ravel(np.asarray(model.false_positive_rate_, dtype=np.float64)))
    return (
        f"Looks: {looks.n_looks}; audited rows: {looks.n_audited}; label frequency of a look: {frequencies}; "
        f"false-positive rate: {rates}."
    )


def _label(member: MemberSummary) -> str:
    return f"{member.name}, {member.attributes}" if member.attributes else member.name


def attribute_names(model: Any) -> Array:
    """Return the names of the columns of the fit: those of the data frame, or x0, x1, ..."""
    names = getattr(model, "feature_names_in_", None)
    return np.array([f"x{j}" for j in range(model.n_features_in_)] if names is None else names, dtype=object)
