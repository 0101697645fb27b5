"""Results of a sensitivity analysis: bounds, ranks, curves and tipping points."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scarless.checks.options import shown
from scarless.diagnostics.sensitivity.rows import SensitivityRows, make_quantity
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.sharp_bounds import Box, rank_bounds
from scarless.numerics.uncertainty import Interval
from scarless.outside.extras import need

SHOWN_ROWS = 20
MAX_STATEMENTS = 10_000


@dataclass(frozen=True, repr=False, eq=False)
class SensitivityBounds:
    r"""Sharp bounds over all propensities within given limits; created by `Sensitivity.at` and `Sensitivity.within`.

    A bound is sharp if an admissible propensity attains it or comes arbitrarily close: no method can give narrower
    bounds from the same labels and limits. Each bound is sharp by itself; two bounds need not be attained by the same
    propensity. Metrics are those of the population: a row counts as :math:`f` of a positive and :math:`1-f` of a
    negative, or :math:`q` and :math:`1-q` if `Sensitivity` has labels.

    Attributes
    ----------
    gamma : float or None
        Largest factor by which the odds of the propensity may be wrong; None for limits passed to `within`.
    propensity : Box
        ``low`` and ``high`` of each row: limits of the admissible propensities, which are at least :math:`\Pr(s=1|x)`.
    probability : Box
        ``low`` and ``high`` of each row: bounds on the class probability :math:`f(x)`, or on the posterior
        :math:`\Pr(y=1|x,s)` if `Sensitivity` has labels.
    rows : SensitivityRows
        Fitted values of the rows.

    Examples
    --------
    >>> from scarless.diagnostics.sensitivity.analysis import Sensitivity
    >>> bounds = Sensitivity([0.4, 0.3, 0.1, 0.0], [0.5, 0.5, 0.25, 0.25]).at(2.0)
    >>> bounds
    If the odds of the propensity are wrong by a factor of at most 2 (4 rows):
                           low  fitted    high
    class prior          0.325   0.450   0.650
    label frequency      0.308   0.444   0.615
    >>> bounds.precision([1, 1, 0, 0])
    Interval(low=0.525, high=0.95)
    >>> low, high = bounds.roc_auc([0.9, 0.7, 0.2, 0.1])
    >>> print(f"{low:.3f} to {high:.3f}")
    0.697 to 0.959
    """

    gamma: float | None
    propensity: Box
    probability: Box
    rows: SensitivityRows = field(repr=False)

    @property
    def class_prior(self) -> Interval:
        r"""Bounds on :math:`\Pr(y=1)` in the population; with labels, on the share of positives in these rows."""
        return self._bounds("class_prior")

    @property
    def label_frequency(self) -> Interval:
        r"""Bounds on :math:`\Pr(s=1|y=1)`, the share of positives that are labelled."""
        return self._bounds("label_frequency")

    def precision(self, decisions: ArrayLike) -> Interval:
        r"""Return bounds on the share of positives among rows predicted positive, :math:`\sum d f / \sum d`.

        Parameters
        ----------
        decisions : array of shape (n_rows,)
            Predicted classes: booleans, 0/1, -1/+1, or the class values of the estimator.

        Returns
        -------
        Interval
        """
        return self._bounds("precision", decisions=decisions)

    def recall(self, decisions: ArrayLike) -> Interval:
        r"""Return bounds on the share of positives that are predicted positive, :math:`\sum d f / \sum f`.

        Parameters
        ----------
        decisions : array of shape (n_rows,)
            Predicted classes; see `precision`.

        Returns
        -------
        Interval
        """
        return self._bounds("recall", decisions=decisions)

    def f1(self, decisions: ArrayLike) -> Interval:
        r"""Return bounds on the harmonic mean of precision and recall, :math:`2\sum d f / (\sum d + \sum f)`.

        Parameters
        ----------
        decisions : array of shape (n_rows,)
            Predicted classes; see `precision`.

        Returns
        -------
        Interval
        """
        return self._bounds("f1", decisions=decisions)

    def accuracy(self, decisions: ArrayLike) -> Interval:
        r"""Return bounds on the share of correct predictions, :math:`\sum (d f + (1-d)(1-f)) / n`.

        Parameters
        ----------
        decisions : array of shape (n_rows,)
            Predicted classes; see `precision`.

        Returns
        -------
        Interval
        """
        return self._bounds("accuracy", decisions=decisions)

    def roc_auc(self, scores: ArrayLike) -> Interval:
        r"""Return bounds on the probability that a positive scores higher than a negative, counting ties as 1/2.

        The bounds are exact. At the upper bound, rows that score above some threshold have the largest admissible
        probability, and rows below it the smallest. See `scarless.numerics.sharp_bounds.roc_auc_bounds`.

        Parameters
        ----------
        scores : array of shape (n_rows,)
            Scores of a classifier, higher for rows that are more likely positive.

        Returns
        -------
        Interval
        """
        return self._bounds("roc_auc", scores=scores)

    def ranks(self, rows: Sequence[Any] | None = None) -> "RankBounds":
        """Return bounds on the ranks of rows by their probability of being positive.

        Parameters
        ----------
        rows : sequence, optional
            Names in the index of the pandas data frame, or positions, of the rows to rank among each other. By
            default, all rows.

        Returns
        -------
        RankBounds
        """
        single = isinstance(rows, str) or not np.iterable(rows)
        if rows is not None and (single or sparse.issparse(rows)):
            raise TypeError(
                f"rows must be a list of names or positions of rows; got {shown(rows)}. Put a single row in a list."
            )
        places = np.arange(self.rows.n) if rows is None else np.array([self.rows.position(row) for row in rows])
        if places.size == 0:
            raise ValueError("rows is empty. Name at least one row.")
        if np.unique(places).size < places.size:
            raise ValueError("rows contains a row twice. Name each row once.")
        box = Box(self.probability.low[places], self.probability.high[places])
        best, worst = rank_bounds(box)
        names = [self.rows.name(int(place)) for place in places]
        return RankBounds(names, box.low, box.high, best, worst)

    def to_frame(self) -> Any:
        """Return fitted values and bounds of the propensity and the probability of each row as a data frame.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = need("pandas", "SensitivityBounds.to_frame", extra="frames")
        fitted = self.rows.probability_within_odds(1.0).low
        columns = {
            "propensity": self.rows.e,
            "propensity_low": self.propensity.low,
            "propensity_high": self.propensity.high,
            "probability": fitted,
            "probability_low": self.probability.low,
            "probability_high": self.probability.high,
        }
        return pandas.DataFrame(columns, index=self.rows.names)

    def _bounds(self, name: str, **options: Any) -> Interval:
        return make_quantity(name, self.rows, **options).bounds(self.probability)

    def __str__(self) -> str:
        within = "If the propensity is within the given limits"
        if self.gamma is not None:
            within = f"If the odds of the propensity are wrong by a factor of at most {self.gamma:g}"
        lines = [f"{within} ({self.rows.n:,} rows):", f"{'':18}{'low':>8}{'fitted':>8}{'high':>8}"]
        fitted = self.rows.probability_within_odds(1.0)
        for name in ("class_prior", "label_frequency"):
            quantity = make_quantity(name, self.rows)
            low, high = quantity.values(self.probability)
            lines.append(f"{quantity.label:18}{low:8.3f}{quantity.values(fitted).low:8.3f}{high:8.3f}")
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, repr=False, eq=False)
class RankBounds:
    """Best and worst possible ranks of rows; the row most likely to be positive has rank 1.

    The rank is one plus the number of rows with a larger probability. Best and worst rank are sharp for each row.

    Attributes
    ----------
    rows : list
        Names of the rows.
    low, high : arrays of shape (n_rows,)
        Bounds on the probabilities of the rows.
    best, worst : int arrays of shape (n_rows,)
        Best and worst rank of each row.

    Examples
    --------
    >>> from scarless.diagnostics.sensitivity.analysis import Sensitivity
    >>> rows = Sensitivity([0.45, 0.2, 0.1], [0.5, 0.5, 0.25], row_names=["Anna", "Bert", "Cleo"])
    >>> ranks = rows.at(1.5).ranks()
    >>> ranks
          probability    ranks
    Anna  0.750 to 1.000  1
    Bert  0.333 to 0.500  2 to 3
    Cleo  0.300 to 0.550  2 to 3
    >>> ranks.statements()
    ['Anna above Bert', 'Anna above Cleo']
    """

    rows: list[Any]
    low: Vector
    high: Vector
    best: NDArray[np.intp]
    worst: NDArray[np.intp]

    @property
    def above(self) -> NDArray[np.bool_]:
        """Matrix that is True at `i`, `j` if row `i` ranks above row `j` for all admissible propensities.

        This is the case if the lower bound of row `i` is above the upper bound of row `j`.
        """
        return self.low[:, None] > self.high[None, :]

    def statements(self) -> list[str]:
        """Return the pairs of rows whose order holds for all admissible propensities, as text.

        More than 10,000 pairs raise an error; use `best`, `worst` or the matrix `above` instead.

        Returns
        -------
        list of str
        """
        pairs = int(np.searchsorted(np.sort(self.high), self.low).sum())
        if pairs > MAX_STATEMENTS:
            raise ValueError(
                f"statements lists at most {MAX_STATEMENTS:,} pairs, but {pairs:,} pairs of these {len(self.rows):,} "
                "rows have a certain order. Rank fewer rows with ranks([...]), or use the attributes best, worst or "
                "above."
            )
        order = np.argsort(-self.low, kind="stable")
        certain = (order[self.high[order] < self.low[i]] for i in order)
        return [f"{self.rows[i]} above {self.rows[j]}" for i, below in zip(order, certain, strict=True) for j in below]

    def to_frame(self) -> Any:
        """Return bounds and ranks as a data frame, with the names of the rows as index.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = need("pandas", "RankBounds.to_frame", extra="frames")
        columns = {"low": self.low, "high": self.high, "best": self.best, "worst": self.worst}
        return pandas.DataFrame(columns, index=self.rows)

    def __str__(self) -> str:
        shown = [str(name) for name in self.rows[:SHOWN_ROWS]]
        width = max(len(name) for name in shown)
        lines = [f"{'':{width}}  {'probability':14}  ranks"]
        for k, name in enumerate(shown):
            best, worst = self.best[k], self.worst[k]
            ranks = f"{best}" if best == worst else f"{best} to {worst}"
            lines.append(f"{name:{width}}  {self.low[k]:.3f} to {self.high[k]:.3f}  {ranks}")
        if len(self.rows) > SHOWN_ROWS:
            lines.append(f"... and {len(self.rows) - SHOWN_ROWS:,} more rows")
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class SensitivityCurve:
    """Bounds on one quantity for several factors `gamma`.

    Attributes
    ----------
    quantity : str
        Name of the quantity.
    gammas, low, high : arrays of shape (n_gammas,)
        Factors, and the bounds for each.
    estimate : float
        Value for the fitted propensity, ``gamma = 1``.

    Examples
    --------
    >>> from scarless.diagnostics.sensitivity.analysis import Sensitivity
    >>> curve = Sensitivity([0.4, 0.1], [0.5, 0.5]).curve("class_prior", gammas=[1, 2])
    >>> curve.low, curve.high
    (array([0.5  , 0.375]), array([0.5 , 0.65]))
    """

    quantity: str
    gammas: Vector
    low: Vector
    high: Vector
    estimate: float

    def to_frame(self) -> Any:
        """Return a data frame with columns gamma, low and high.

        Returns
        -------
        pandas.DataFrame
        """
        pandas = need("pandas", "SensitivityCurve.to_frame", extra="frames")
        return pandas.DataFrame({"gamma": self.gammas, "low": self.low, "high": self.high})


@dataclass(frozen=True)
class TippingPoint:
    """The smallest factor on the odds of the propensity that overturns a conclusion.

    Attributes
    ----------
    gamma : float
        The factor. Infinite if no factor overturns the conclusion; 1 if the conclusion does not hold for the fitted
        propensity.
    quantity, side : str
        Name of the quantity, and "at least" or "at most".
    threshold : float
        Threshold of the conclusion.
    estimate : float
        Value of the quantity for the fitted propensity.
    limit : float
        The bound in the limit of large factors: the lower bound for "at least", the upper bound for "at most".

    Examples
    --------
    >>> from scarless.diagnostics.sensitivity.analysis import Sensitivity
    >>> print(Sensitivity([0.4, 0.1], [0.5, 0.5]).tipping_point("class_prior", at_least=0.2))
    class prior is at least 0.2 (fitted: 0.5) for every factor on the odds of the propensity (in the limit: 0.25).
    """

    gamma: float
    quantity: str
    side: str
    threshold: float
    estimate: float
    limit: float

    @property
    def conclusion(self) -> str:
        """The conclusion as a sentence."""
        return f"{self.quantity} is {self.side} {self.threshold:g}"

    def __str__(self) -> str:
        if self.gamma == 1.0:
            beyond = "below" if self.side == "at least" else "above"
            return f"The fitted {self.quantity}, {self.estimate:.3g}, is already {beyond} {self.threshold:g}."
        conclusion = f"{self.conclusion} (fitted: {self.estimate:.3g})"
        if math.isinf(self.gamma):
            return f"{conclusion} for every factor on the odds of the propensity (in the limit: {self.limit:.3g})."
        return f"{conclusion} if the odds of the propensity are wrong by less than a factor of {self.gamma:.3g}."
