"""One method against another: on how many datasets it is better, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

from scarless.experiments.statistics import Comparison, MeanInterval
from scarless.report.names import SCORES
from scarless.report.numbers import p_value, plain, signed
from scarless.report.results import Condition, Results, Row
from scarless.report.tables import Cell, Table, section


@dataclass(frozen=True)
class Duel:
    """By how much one method scores better than another in a condition, per dataset; positive is better."""

    one: str
    other: str
    score: str
    condition: Condition
    gains: dict[str, MeanInterval]
    comparison: Comparison

    @property
    def better(self) -> list[str]:
        """Datasets on which the mean is better."""
        return [dataset for dataset, gain in self.gains.items() if gain.mean > 0]

    @property
    def clearly_better(self) -> list[str]:
        """Datasets on which the mean is better, beyond the noise of the runs."""
        return [dataset for dataset in self.better if self.gains[dataset].clear]

    @property
    def clearly_worse(self) -> list[str]:
        """Datasets on which the mean is worse, beyond the noise of the runs."""
        return [dataset for dataset, gain in self.gains.items() if gain.mean < 0 and gain.clear]

    @property
    def mean_gain(self) -> float:
        """The mean over the datasets."""
        return sum(gain.mean for gain in self.gains.values()) / len(self.gains) if self.gains else nan

    @property
    def ranks_better(self) -> bool:
        """Whether the average rank is better."""
        return self.comparison.rank(self.one) < self.comparison.rank(self.other)

    @property
    def ranks_worse(self) -> bool:
        """Whether the average rank is worse."""
        return self.comparison.rank(self.one) > self.comparison.rank(self.other)

    @property
    def significant(self) -> bool:
        """Whether the tests tell the two apart."""
        return self.comparison.significant(self.one, self.other)


def duel(results: Results, one: str, other: str, score: str, condition: Condition) -> Duel:
    """Set two methods against each other; they are ranked among the methods of a contest that has both."""
    gains = {
        dataset: results.gain(Row(dataset, *condition, one), Row(dataset, *condition, other), score)
        for dataset in results.datasets
    }
    gains = {dataset: gain for dataset, gain in gains.items() if isfinite(gain.mean)}
    contest = next((methods for methods in results.contests.values() if {one, other} <= set(methods)), (one, other))
    return Duel(one, other, score, condition, gains, results.compare(condition, score, contest))


def duels(results: Results, one: str, others: Sequence[str], score: str) -> list[Duel]:
    """Set a method against others in all conditions; against those only that there are results of."""
    found = [
        duel(results, one, other, score, condition)
        for condition in results.conditions
        for other in others
        if results.has(one, other)
    ]
    return [item for item in found if item.gains]


def fewest_runs(found: Sequence[Duel]) -> int:
    """Return the number of runs that both methods have, on the dataset where it is smallest."""
    return min(gain.n for item in found for gain in item.gains.values())


def duel_table(results: Results, found: Sequence[Duel]) -> Table:
    """Return duels of one method by one score as a table."""
    one, score = found[0].one, SCORES[found[0].score]
    sections = [
        section(condition.label, [_duel_row(results, item) for item in found if item.condition == condition])
        for condition in dict.fromkeys(item.condition for item in found)
    ]
    head = ("against", "better on", "clearly better", "clearly worse", "mean gain", "average ranks", "Nemenyi p")
    return Table(f"{results.label(one)} against others, by {score.label}", head, tuple(sections))


def _duel_row(results: Results, item: Duel) -> list[str | Cell]:
    ranks = [plain(item.comparison.rank(method), 2) for method in (item.one, item.other)]
    return [
        results.label(item.other),
        f"{len(item.better)} of {len(item.gains)}",
        str(len(item.clearly_better)),
        str(len(item.clearly_worse)),
        signed(item.mean_gain, SCORES[item.score].decimals),
        " / ".join(ranks),
        Cell(p_value(item.comparison.p_value(item.one, item.other)), strong=item.significant),
    ]
