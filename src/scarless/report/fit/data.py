"""The parts of a report of a fit as plain data: numbers, strings and tuples; None stands for a missing number."""

from dataclasses import dataclass
from typing import Any

from scarless.raw.origins import Origin


@dataclass(frozen=True)
class IntervalEstimate:
    """An estimate with its confidence interval; None stands for a missing number."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class FitAnswer:
    """The estimated number of positives; `cautions` are shown before it."""

    n_rows: int
    weight: float  # sum of the weights of all rows; without weights, the number of rows
    labelled: float  # labelled rows, counted by weight
    share: IntervalEstimate  # share of positives among all rows
    positives: IntervalEstimate
    missing: IntervalEstimate  # positives without a label
    label_frequency: IntervalEstimate
    cautions: tuple[str, ...]
    sentence: str
    notes: tuple[str, ...]
    wrong: float = 0.0  # estimated number of labelled negatives

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight != self.n_rows


@dataclass(frozen=True)
class RankReason:
    """Contribution of a raw column's value to a row's class logit, relative to the average row."""

    column: str
    value: str
    contribution: float


@dataclass(frozen=True)
class RankedRow:
    """An unlabelled row; `position` counts from 0 (the page from 1), `name` is its index or the given name."""

    rank: int
    position: int
    name: str | None
    probability: IntervalEstimate
    propensity: float | None
    reasons: tuple[RankReason, ...]


@dataclass(frozen=True)
class Yield:
    """Positives to expect among the first `n` ranked rows, with their interval, and in other orders of the rows."""

    n: tuple[int, ...]
    expected: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    random: tuple[float, ...]
    naive: tuple[float, ...] = ()  # ranked by the probability of a label; empty if not computed
    naive_low: tuple[float, ...] = ()
    naive_high: tuple[float, ...] = ()
    informative: bool = True
    comparison: str = ""  # the other orders, as a sentence
    assumption: str = ""  # what the numbers rest on, as a sentence


@dataclass(frozen=True)
class PriorStep:
    """A class prior, and the shifts of the log-odds of class and label with which the models have that class prior."""

    share: float
    class_shift: float
    label_shift: float


@dataclass(frozen=True)
class Ranked:
    """The unlabelled rows with the highest probability of being positive.

    `rows` are shown on the page. `more` are the rows after them, which the page lists if its reader asks for them.
    """

    measure: str  # quantity that the rows are ranked by, in words
    n_unlabelled: int
    rows: tuple[RankedRow, ...]
    notes: tuple[str, ...]
    positives: IntervalEstimate | None = None  # expected number of positives among these rows
    expected: str = ""  # the same as a sentence
    more: tuple[RankedRow, ...] = ()
    curve: Yield | None = None  # None if the model cannot estimate it
    priors: tuple[PriorStep, ...] = ()  # class priors within their interval; empty if not available


@dataclass(frozen=True)
class Effect:
    """Odds ratios of a column, per unit and per standard deviation (`sd`) of the raw column."""

    column: str
    piece: str
    coef: float
    per_unit: IntervalEstimate
    per_sd: IntervalEstimate
    sd: float | None
    words: bool = False  # whether `piece` lists words of a free-text column
    date: bool = False  # whether `piece` is a part of a date, such as "year"

    @property
    def label(self) -> str:
        """The raw column, with its category or other piece."""
        return Origin(self.column, self.piece, words=self.words, date=self.date).label


@dataclass(frozen=True)
class Strength:
    """Mean change of the class logit due to a raw column, for models without coefficients."""

    column: str
    mean_change: float


@dataclass(frozen=True)
class Effects:
    """The effects of columns on the class or on the labelling, the strongest first."""

    key: str
    title: str
    verdict: str
    effects: tuple[Effect, ...]
    strengths: tuple[Strength, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class GroupShare:
    """Rows, labelled rows and estimated positives of a group, and the share of these positives without a label."""

    name: str
    rows: int
    labelled: int
    positives: IntervalEstimate
    missed: IntervalEstimate
    differs: bool  # whether the share differs from that of the other rows by more than chance


@dataclass(frozen=True)
class GroupedShares:
    """The groups that a column defines, in the order of the column, with a finding in words."""

    key: str
    column: str
    finding: str
    groups: tuple[GroupShare, ...]


@dataclass(frozen=True)
class Overlooked:
    """Positives without a label in groups of rows; `total` is their share among all positives."""

    total: IntervalEstimate
    columns: tuple[GroupedShares, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Mark:
    """A labelled value on the horizontal axis of a picture."""

    x: float
    label: str


@dataclass(frozen=True)
class Picture:
    """A curve with a band, or points with bars, depending on `kind`; `description` is the text alternative."""

    kind: str
    title: str
    description: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class NumberTable:
    """Rows of numbers and words; `kinds` is the format of each column: text, count, share or number."""

    caption: str
    head: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]


@dataclass(frozen=True)
class Check:
    """The result of one diagnostic; `status` is "good", "open", "bad", or "none" if it could not be computed."""

    key: str
    title: str
    status: str
    verdict: str
    details: tuple[str, ...] = ()
    picture: Picture | None = None
    tables: tuple[NumberTable, ...] = ()


@dataclass(frozen=True)
class Checked:
    """What the answers of worksheets changed, in sentences, pictures and a table."""

    sentences: tuple[str, ...]
    pictures: tuple[Picture, ...]
    table: NumberTable


@dataclass(frozen=True)
class ReportColumn:
    """A raw column: its kind, how it was encoded, and which models use it."""

    name: str
    kind: str
    n_missing: int | None
    became: str
    n_made: int
    left_out: str
    used_for: str


@dataclass(frozen=True)
class NamedValue:
    """A name and a value."""

    name: str
    value: str


def find(parts: tuple[Any, ...], key: str) -> Any:
    """Return the part of a report that has a key."""
    return next(part for part in parts if part.key == key)
