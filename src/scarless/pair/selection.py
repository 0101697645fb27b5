"""Which of several candidates was chosen, and why."""

from dataclasses import dataclass

from scarless.numerics.interval import Interval

_WIDE = 0.25  # span of class priors among the chosen that deserves a warning


@dataclass(frozen=True)
class Selection:
    """Which candidates were chosen, and why; prints as the reason.

    Candidates are the optima in ``basins_``, or the rows of ``cv_results_``; all numbers below are places there.

    Attributes
    ----------
    index : int
        The chosen candidate; of several, the best.
    members : tuple of int
        All that were chosen: several where a search takes their mean.
    possible : tuple of int
        What intervals look at: all that labels leave possible.
    n_tied : int
        How many candidates the labels cannot tell from the best.
    class_priors : Interval
        Lowest and highest class prior of the chosen; where one was chosen, of those tied with it.
    reason : str
    behind : tuple of float
        How far each candidate is behind the best: in penalised log-likelihood, or in held-out log-likelihood per row.
    standard_error : tuple of float
        Of that difference.
    """

    index: int
    members: tuple[int, ...]
    possible: tuple[int, ...]
    n_tied: int
    class_priors: Interval
    reason: str
    behind: tuple[float, ...]
    standard_error: tuple[float, ...]

    @property
    def wide(self) -> bool:
        """Whether what the labels cannot tell apart differs in what it says of the population."""
        return self.class_priors.high - self.class_priors.low > _WIDE

    def __str__(self) -> str:
        return self.reason
