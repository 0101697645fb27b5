"""The parts of a report of a fit, as plain data: numbers, strings and tuples of them; None where there is no number."""

from dataclasses import dataclass
from typing import Any

from scarless.raw.origins import Origin


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its interval, None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Answer:
    """How many positives there are; `cautions` come before the number wherever it is shown."""

    n_rows: int
    weight: float  # of all rows: their number, where rows have no weights
    labelled: float
    share: Estimate  # of positives among rows
    positives: Estimate
    missing: Estimate
    label_frequency: Estimate
    cautions: tuple[str, ...]
    sentence: str
    notes: tuple[str, ...]
    wrong: float = 0.0  # labelled rows that are estimated not to be positive

    @property
    def weighted(self) -> bool:
        """Whether rows count other than once each."""
        return self.weight != self.n_rows


@dataclass(frozen=True)
class Reason:
    """By how much a raw column's value moves a row's logit of the class from where the average row is."""

    column: str
    value: str
    contribution: float


@dataclass(frozen=True)
class RankedRow:
    """An unlabelled row; `position` counts from 0 in the table (the page from 1), `name` is its index or given name."""

    rank: int
    position: int
    name: str | None
    probability: Estimate
    propensity: float | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Ranked:
    """The unlabelled rows that are most probably positive."""

    measure: str  # what they are ranked by, in words
    n_unlabelled: int
    rows: tuple[RankedRow, ...]
    notes: tuple[str, ...]
    positives: Estimate | None = None  # how many of these rows are
    expected: str = ""  # the same in words


@dataclass(frozen=True)
class Effect:
    """A column's odds ratios: per unit of the raw column, and per standard deviation, `sd`, of it."""

    column: str
    piece: str
    coef: float
    per_unit: Estimate
    per_sd: Estimate
    sd: float | None
    words: bool = False  # whether `piece` is the words of a direction that was made of free text

    @property
    def label(self) -> str:
        """Raw column and piece in words."""
        return Origin(self.column, self.piece, words=self.words).label


@dataclass(frozen=True)
class Strength:
    """By how much a raw column moves the logit of the class, on average over rows; of models without coefficients."""

    column: str
    mean_change: float


@dataclass(frozen=True)
class Effects:
    """What drives the class, or the labelling: the strongest first."""

    key: str
    title: str
    verdict: str
    effects: tuple[Effect, ...]
    strengths: tuple[Strength, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Mark:
    """A place on a picture's horizontal axis that has a name."""

    x: float
    label: str


@dataclass(frozen=True)
class Picture:
    """A curve with a band, or points with bars (`kind` says which), and what to tell who cannot see it."""

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
    """Rows of numbers and words; `kinds` says of each column how to show it: text, count, share, number."""

    caption: str
    head: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]


@dataclass(frozen=True)
class Check:
    """One way to ask whether a fit can be believed: "good", "open", "bad", or "none" where it could not be asked."""

    key: str
    title: str
    status: str
    verdict: str
    details: tuple[str, ...] = ()
    picture: Picture | None = None
    tables: tuple[NumberTable, ...] = ()


@dataclass(frozen=True)
class Column:
    """A raw column: of what kind it is, what was made of it, and which models see that."""

    name: str
    kind: str
    n_missing: int | None
    became: str
    n_made: int
    left_out: str
    used_for: str


@dataclass(frozen=True)
class Fact:
    """A name and a value."""

    name: str
    value: str


def find(parts: tuple[Any, ...], key: str) -> Any:
    """Return the part of a report that has a key."""
    return next(part for part in parts if part.key == key)
