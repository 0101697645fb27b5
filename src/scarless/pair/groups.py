r"""Rows that belong together, as the visits of one patient: folds never split them, and intervals count groups.

Labels of the rows of a group may depend on each other. Estimates stay consistent, but rows tell less than as many
independent ones. With the penalised information :math:`A = H + R` and the score :math:`g_i` of each row, the
covariance of the parameters becomes

.. math:: A^{-1} \Bigl(R + \frac{G}{G - 1} \sum_{j=1}^G S_j S_j'\Bigr) A^{-1}, \qquad S_j = \sum_{i \in j} w_i g_i

in place of :math:`A^{-1}`; it is right for many groups `G`, whatever the dependence within them. Of few groups each has
pulled the fit towards itself, so that the scores are too small. For up to `MAX_JACKKNIFED_GROUPS` groups the sum
is therefore

.. math:: \frac{G - 1}{G} \sum_{j=1}^G \tilde S_j \tilde S_j', \qquad \tilde S_j = A (A - H_j)^{-1} S_j

with :math:`H_j` the information of a group: :math:`A^{-1} \tilde S_j` is by how much the parameters change where group
`j` is left out (jackknife, CR3). Intervals have the quantiles of Student's distribution with :math:`G - 1` degrees of
freedom. In 40 simulated fits to 30 groups of 15 rows that nearly share class and label, nominal 95% intervals covered
90% without both and 100% with them; in 60 fits to 40 groups of 5 rows 83% with smaller adjusted scores (CR2) and 92%
with these, as often as fits to 40 independent rows.

References
----------
Liang and Zeger (1986), "Longitudinal data analysis using generalized linear models", Biometrika 73. Cameron and Miller
(2015), "A practitioner's guide to cluster-robust inference", Journal of Human Resources 50. MacKinnon, Nielsen and Webb
(2023), "Cluster-robust inference: a guide to empirical practice", Journal of Econometrics 232.
"""

from dataclasses import replace
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from scarless.checks.labels import is_missing
from scarless.checks.options import check_weight
from scarless.checks.tables import refuse_odd_vector
from scarless.engines import Engine, Rows, has_own_engine
from scarless.numerics import likelihood
from scarless.numerics.arrays import Integers, Matrix, Vector, in_numpy
from scarless.numerics.objectives import Curvature, PairObjective
from scarless.numerics.uncertainty import quantile
from scarless.outside.notices import warn_user
from scarless.pair.inference import PairInference, with_ones
from scarless.pair.logistic import in_memory
from scarless.pair.recalibrated import ClassPriorGrid, Recalibration

GROUPS_NEED = (
    "groups go with two logistic models or a stack: SAREMClassifierCV, SARStackingClassifier, or SAREMClassifier "
    "without an estimator of your own. For other fits, bootstrap_intervals(model, X, s, groups=groups) resamples whole "
    "groups."
)
#: Mean weight of a row above which weights are taken not to count rows. By judgement.
HEAVY = 10.0
LEVEL_COMPARED = 0.95  # of intervals, at which quantiles are compared
#: Groups up to which each is left out in turn (jackknife); of more, each has pulled the fit too little to matter. By
#: judgement.
MAX_JACKKNIFED_GROUPS = 500
MAX_JACKKNIFE_WORK = 3e8  # groups times the cube of the number of parameters: a few seconds
#: Largest share of what is known of a parameter that a group is taken to tell: a share of 1 would leave nothing of its
#: score. By judgement.
MAX_LEVERAGE_OF_GROUP = 0.9
#: Groups below which a fit warns that intervals by groups are too short. Evidence: Cameron and Miller (2015), section
#: VI.
FEW_GROUPS = 30


def means_rows(groups: Any) -> bool:
    """Whether the word "rows" says that each row is a group: standard errors then count rows, whatever they weigh."""
    return isinstance(groups, str) and groups == "rows"


def as_shares(sample_weight: Any, groups: Any) -> Any:
    """Return weights whose sum is the number of rows, where each row is a group of its own; else as they are."""
    if sample_weight is None or not means_rows(groups):
        return sample_weight
    if np.ndim(sample_weight) == 0:
        return None  # the same for all rows
    weight = check_weight(sample_weight, n_rows=len(sample_weight))
    return weight * (np.count_nonzero(weight) / weight.sum()) if weight.sum() > 0 else weight


BY_GROUPS = "pass groups='rows': standard errors (robust, by the sandwich formula) then count the rows."
BY_MEAN = "divide the weights by their mean: standard errors then count about as many rows as there are."


def warn_about_heavy_rows(n_rows: float, weight: float, name: str, remedy: str = BY_GROUPS) -> None:
    """Warn where weights make intervals as narrow as those of many more rows than there are."""
    if weight > HEAVY * n_rows:
        warn_user(
            f"{name}: sample_weight counts rows. The {n_rows:,.0f} rows count as {weight:,.0f}, and standard errors "
            "and intervals are as short as with so many. If a weight says for how many others a row stands, as in a "
            f"survey, {remedy}",
            UserWarning,
        )


def check_groups(groups: Any, X: Any) -> Integers:
    """Return the number of each row's group, or say what is wrong.

    Examples
    --------
    >>> check_groups([f"{i // 2:02d}" for i in range(60)], np.eye(60))[:6]
    array([0, 0, 1, 1, 2, 2])
    """
    if has_own_engine(X):
        raise ValueError(
            f"groups need all rows in memory, and X is a {type(X).__name__}. Leave groups out, or take a sample of "
            "whole groups as a data frame."
        )
    if means_rows(groups):
        return np.arange(int(np.shape(X)[0]))
    refuse_odd_vector(groups, "groups")
    # NumPy would make text of the numbers in a list that has both.
    values = np.asarray(groups, dtype=object if isinstance(groups, list | tuple) else None)
    n_rows = int(np.shape(X)[0])
    if values.ndim != 1 or values.size != n_rows:
        raise ValueError(f"groups must hold one value for each of {n_rows} rows; got an array of shape {values.shape}.")
    missing = np.flatnonzero(is_missing(values))
    if missing.size:
        raise ValueError(
            f"groups has {missing.size} missing values, the first in row {missing[0] + 1} (counted from 1). Give such "
            "rows a group of their own, or drop them."
        )
    if values.dtype == object:
        values = _of_one_kind(values.tolist())
    found = np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.intp)
    number = int(found.max()) + 1
    if number < 2:
        raise ValueError("groups puts all rows into one group; there must be at least 2.")
    if number < FEW_GROUPS:
        warn_user(
            f"There are {number} groups only: below about {FEW_GROUPS}, intervals that account for groups are too "
            "narrow.",
            UserWarning,
        )
    return found


def _of_one_kind(values: list[Any]) -> Any:
    """Return names of groups that can be compared; raise where some are numbers and others text: 1 is not "1"."""
    kinds: dict[type, int] = {}
    for row, value in enumerate(values):
        kinds.setdefault(Number if isinstance(value, Number) else type(value), row)
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        said = [
            f"{'a number' if kind is Number else kind.__name__} in row {row + 1} ({values[row]!r})"
            for kind, row in ((first, one), (second, other))
        ]
        raise ValueError(
            f"groups must be of one kind; found {said[0]} and {said[1]}, counted from 1. Is 1 the same group as '1'? "
            "Say so: groups.astype(str) of a pandas Series makes text of all, pd.to_numeric(groups) numbers."
        )
    if Number in kinds:
        return np.unique(np.array(values, dtype=object), return_inverse=True)[1]  # 1 and 1.0 are one group
    return np.array([str(value) for value in values])


def sums_by_group(values: Matrix, group: Integers) -> Matrix:
    """Return the sum of each column over each group's rows.

    Examples
    --------
    >>> sums_by_group(np.array([[1.0], [2.0], [4.0]]), np.array([0, 1, 0]))
    array([[5.],
           [2.]])
    """
    found = np.zeros((int(group.max()) + 1, values.shape[1]))
    np.add.at(found, group, values)
    return found


def clustered(inference: PairInference, engine: Engine, group: Integers) -> PairInference:
    """Return what a fitted pair knows of its uncertainty, with rows of a group counted as dependent."""
    if inference.information is None:
        return inference
    scores = np.asarray(engine.collect(_block_scores, inference.objective, inference.parameters))
    scores, w, f, fd = scores[:, :-3], scores[:, -3], scores[:, -2], scores[:, -1]
    n_groups = int(np.unique(group[w > 0]).size)
    many = n_groups / max(n_groups - 1, 1)
    scores -= np.outer(w, scores.sum(axis=0) / w.sum())  # at the optimum of recalibrated fits it is not 0
    by_group = sums_by_group(scores, group)
    if n_groups <= MAX_JACKKNIFED_GROUPS and n_groups * by_group.shape[1] ** 3 <= MAX_JACKKNIFE_WORK:
        by_group = _adjusted(by_group, inference, engine, group) / np.sqrt(many)
    else:
        by_group *= np.sqrt(many)
    prior, c = inference.class_prior.value, inference.label_frequency.value
    drawn = sums_by_group(np.column_stack([w * (f - prior), w * (fd - c * f)]), group)
    variances = many * np.square(drawn).sum(axis=0) / np.array([w.sum(), w @ f]) ** 2
    row_variances = tuple(map(float, variances))
    return replace(inference, meat=by_group.T @ by_group, row_variances=row_variances, n_groups=n_groups)


def _adjusted(by_group: Matrix, inference: PairInference, engine: Engine, group: Integers) -> Matrix:
    """Return the groups' scores without the pull of each on the fit; as they are where there is no information."""
    try:
        half = np.linalg.cholesky(inference.penalised_information())
    except np.linalg.LinAlgError:
        return by_group
    X, out = engine.collect(_table), by_group.copy()
    rows = {name: in_memory(engine, name) for name in (*inference.objective.observed, "w")}
    kind = Curvature.EXPECTED if inference.expected else Curvature.OBSERVED
    order = np.argsort(group, kind="stable")
    for number, part in enumerate(np.split(order, np.cumsum(np.bincount(group))[:-1])):
        here = {name: values[part] for name, values in rows.items()}
        information = inference.objective.sums(X[part], here, inference.parameters, kind).curvature
        pull = np.linalg.solve(half, np.linalg.solve(half, information).T)
        shares, directions = np.linalg.eigh(0.5 * (pull + pull.T))
        left = (directions / (1.0 - np.clip(shares, 0.0, MAX_LEVERAGE_OF_GROUP))) @ directions.T
        out[number] = half @ (left @ np.linalg.solve(half, by_group[number]))
    return out


def _table(X: Any, rows: Rows) -> Matrix:
    return np.asarray(X.toarray() if sparse.issparse(X) else in_numpy(X), dtype=np.float64)


def _block_scores(X: Any, rows: Rows, objective: PairObjective, beta: Vector) -> Matrix:
    """Return of each row its score by all parameters, its weight, ``f``, and ``f`` times the chance of a label."""
    X = _table(X, rows)
    here = {name: in_numpy(values) for name, values in rows.items()}
    w, by_logit = here["w"], np.asarray(objective.row_scores(X, here, beta))
    _, f, d = objective.row_answers(X, here, beta)
    scores = np.zeros((w.size, beta.size))
    for j, at in enumerate(objective.logits):
        scores[:, at.place] += (w * by_logit[:, j])[:, None] * with_ones(at.design.take(X))
    return np.column_stack([scores, w, f, f * d])


def _more(group: Integers) -> float:
    number = np.unique(group).size
    return number / max(number - 1, 1)


def variance_ratio(plain: PairInference, by_groups: PairInference) -> float:
    """Return how many times the variance of the class prior grows where groups are counted; at least 1."""
    before, after = (each.error_of(each.class_prior) * each.quantile(LEVEL_COMPARED) for each in (plain, by_groups))
    return max(float((after / before) ** 2), 1.0) if np.isfinite(before) and before > 0 else 1.0


def design_effect(f: Vector, e: Vector, s: Vector, w: Vector, group: Integers) -> float:
    r"""Return how many times a variance grows by groups, for models of any kind; at least 1.

    The largest of :math:`\sum_j (\sum_{i \in j} w_i r_i)^2 / \sum_i w_i r_i^2` over the rows' scores by the two logits,
    and over :math:`f - \bar f`.
    """
    with np.errstate(divide="ignore"):
        u, v = (np.log(p) - np.log1p(-p) for p in np.clip([f, e], 1e-9, 1.0 - 1e-9))
    du, dv = likelihood.score(s, likelihood.pair_terms(u, v))
    parts = np.column_stack([w * du, w * dv, w * (f - (w @ f) / w.sum())])
    parts -= np.outer(w, parts.sum(axis=0) / w.sum())
    squares = (np.square(parts) / w[:, None]).sum(axis=0)  # as if each unit of weight were a row of its own
    grown = np.square(sums_by_group(parts, group)).sum(axis=0) * _more(group[w > 0])
    # Levels know of normal distributions only: what Student's has longer tails by is in the factor.
    grown *= (quantile(LEVEL_COMPARED, max(np.unique(group[w > 0]).size - 1, 1)) / quantile(LEVEL_COMPARED)) ** 2
    return float(np.max(grown[squares > 0] / squares[squares > 0], initial=1.0))


def widened_recalibration(recalibration: Recalibration, times: float) -> Recalibration:
    """Return a recalibration whose grids count less, by how many times variances grow."""
    return replace(recalibration, grid=widened((recalibration.grid,), times)[0])


def widened(grids: tuple[ClassPriorGrid, ...], times: float) -> tuple[ClassPriorGrid, ...]:
    """Return grids whose likelihood counts less, by how many times variances grow."""
    return tuple(each._replace(inflation=each.inflation * times) for each in grids)


def times_too_sure(weight: float, squares: float, n_rows: float, *, counts: bool) -> float:
    r"""Return how many times too sure a likelihood is where weights are not counts of rows, as in a survey; else 1.

    By Kish's effective number of rows, :math:`\sum w^2 / \sum w`. Whole numbers (`counts`) whose mean is small count
    rows.

    Examples
    --------
    >>> times_too_sure(100 * 50.0, 100 * 50.0**2, 100, counts=True), times_too_sure(200.0, 400.0, 100, counts=True)
    (50.0, 1.0)
    """
    return 1.0 if counts and weight <= HEAVY * n_rows else max(squares / weight, 1.0)
