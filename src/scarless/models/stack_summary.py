"""What each member of a stack thinks, and what they say together: data first, then text, HTML or a data frame."""

from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

from scarless.checks.options import check_share
from scarless.models.summary import few_labels_remarks
from scarless.models.uncertainty import ONE_PROPENSITY, attribute_names
from scarless.numerics.interval import Interval
from scarless.outside.extras import need


@dataclass(frozen=True)
class MemberSummary:
    """One classifier on one set of attributes."""

    name: str
    attributes: str
    log_likelihood: float  # of held-out labels, per row
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
    """What a stack found; prints as a table.

    Attributes
    ----------
    title : str
    level : float
        Nominal probability that an interval covers.
    n_rows, labelled : float
        Sums of the weights of all rows and of the labelled ones.
    members : tuple of MemberSummary
        Each classifier by itself, and last all together.
    propensity : tuple of pairs
        Names and coefficients of the propensity model, the intercept last.
    remarks : tuple of str
    intervals : str
        Where the intervals come from.
    """

    title: str
    level: float
    n_rows: float
    labelled: float
    members: tuple[MemberSummary, ...]
    propensity: tuple[tuple[str, float], ...]
    remarks: tuple[str, ...] = ()
    intervals: str = "from the likelihood of every class prior; the last one mixes those of all members"

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

    def facts(self) -> str:
        """Return what stands above the table."""
        return f"{self.n_rows:,.6g} rows, {self.labelled:,.6g} labelled ({self.labelled / self.n_rows:.1%})"

    def notes(self) -> list[str]:
        """Return what a reader of the table should know."""
        slopes = (
            "held-out: log-likelihood of labels that a member had not seen, per row. slope: by how much its logits "
        )
        return [
            slopes + "were too flat (above 1) or too steep before they were relaxed.",
            f"Brackets: {self.level:.6g} intervals {self.intervals}.",
            *self.remarks,
        ]

    def __str__(self) -> str:
        names = [_label(member) for member in self.members]
        width = max(len(name) for name in names) + 2
        heads = ("held-out", "slope", "class prior", f"{self.level:.6g} interval", "label freq.")
        sizes = (11, 8, 13, 18, 13)
        top = "".ljust(width) + "".join(head.rjust(size) for head, size in zip(heads, sizes, strict=True))
        lines = [self.title.center(len(top)).rstrip(), "=" * len(top), self.facts(), "-" * len(top), top]
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
            f"<div><h4>{escape(self.title)}</h4><p>{escape(self.facts())}</p>"
            f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
        )


def crossed_summary(model: Any, name: str, level: float) -> StackSummary:
    """Return what a cross-fitted classifier can say of itself."""
    found, level = model.relaxation_, check_share(level, "level")
    row = MemberSummary(
        name,
        "",
        found.log_likelihood / model._judged,
        found.slope,
        found.class_prior,
        model.class_prior_interval(level=level),
        found.label_frequency,
    )
    columns = model._e_columns
    names = [*attribute_names(model)[columns], "intercept"] if found.e.size == columns.size + 1 else ["intercept"]
    remarks = ["The classifier's own parameters have no standard errors; bootstrap_intervals refits it on resamples."]
    remarks += [*found.levels.remarks(), *few_labels_remarks(model._labelled)]
    remarks += filter(None, [model._told_of_driver()])
    if columns.size == 0:
        remarks.append(ONE_PROPENSITY)
    return StackSummary(
        title=type(model).__name__,
        level=level,
        n_rows=model._weight,
        labelled=model._labelled,
        members=(row,),
        propensity=tuple(zip(names, map(float, found.e), strict=True)),
        remarks=tuple(remarks),
    )


def _label(member: MemberSummary) -> str:
    return f"{member.name}, {member.attributes}" if member.attributes else member.name
