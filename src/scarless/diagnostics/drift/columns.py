"""Which columns moved: new rows compared with the rows of the fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

from scarless.diagnostics.scar._pair_tests import SIGNIFICANT
from scarless.numerics import two_samples
from scarless.numerics.arrays import Vector
from scarless.numerics.label_tests import holm
from scarless.numerics.uncertainty import quantile
from scarless.raw.reference import (
    CATEGORY,
    DATE,
    TEXT,
    ReferenceColumn,
    ReferenceRows,
    code_matrix,
    is_of_kind,
)

#: A column moved if its distribution changed by more than chance and its distance (Kolmogorov-Smirnov for numbers,
#: total variation for categories) is at least 0.1. A normal column has this distance if its mean changes by a quarter
#: of a standard deviation. With a million rows, much smaller changes are significant, but hardly change predictions.
#: By judgement.
MOVED_DISTANCE = 0.1
#: AUC of new against old rows from which the rows count as different. A shift of one normal column by 0.36 standard
#: deviations gives this AUC. By judgement.
MOVED_AUC = 0.6
MIN_ROWS_FOR_AUC = 50  # of each kind; each of the five folds then has at least 10 rows
N_TREES = 40  # of the classifier of new against old rows
_N_FOLDS = 5
_MAX_AUC_ROWS = 3_000


class ColumnShift(NamedTuple):
    """Change of the distribution of one column."""

    name: str
    kind: str  # number, category or text
    distance: float  # between the distributions of old and new rows, from 0 to 1
    p_value: float
    p_adjusted: float  # adjusted by Holm's method for the number of columns
    missing_old: float  # share of missing values
    missing_new: float
    change: str  # largest change in words

    @property
    def moved(self) -> bool:
        """Whether the column moved: by more than chance, and by a distance that matters."""
        return self.p_adjusted < SIGNIFICANT and self.distance >= MOVED_DISTANCE


@dataclass(frozen=True, eq=False)
class ColumnShifts:
    """Changes of all columns, and how well a classifier distinguishes new from old rows."""

    columns: tuple[ColumnShift, ...]  # the largest distance first
    auc: float  # cross-fitted AUC of a classifier of new against old rows; NaN if there are too few rows
    auc_low: float
    auc_high: float
    auc_p_value: float
    n_old: int
    n_new: int
    wrong_types: tuple[str, ...]  # columns whose values have another type than in the fit
    notes: tuple[str, ...]

    @property
    def moved(self) -> list[ColumnShift]:
        """The columns that moved."""
        return [each for each in self.columns if each.moved]

    @property
    def auc_moved(self) -> bool:
        """Whether the classifier distinguishes new from old rows: by more than chance, and enough to matter."""
        return self.auc_p_value < SIGNIFICANT and self.auc >= MOVED_AUC


def compare_columns(
    reference: ReferenceRows,
    X: Any,
    names: Sequence[str],
    prepared: Any,
    w: Vector,
    level: float,
    rng: np.random.Generator,
) -> ColumnShifts:
    """Compare the columns of new rows with the reference rows of a fit."""
    described, codes = reference.named(names), code_matrix(reference, X, prepared)
    n_new = float(w.sum() ** 2 / (w @ w))
    found = [
        (column, _shift(column, codes[:, j], w, reference.n_effective, n_new))
        for j, column in enumerate(described)
        if column.kind != DATE
    ]
    merged = _one_for_each_name([each for _, each in found])
    adjusted = holm(np.array([each.p_value for each in merged]))
    columns = sorted(
        (each._replace(p_adjusted=float(p)) for each, p in zip(merged, adjusted, strict=True)),
        key=lambda each: (not each.moved, -each.distance),
    )
    compared = [j for j, column in enumerate(described) if column.kind != DATE]
    auc = _auc(reference.codes[:, compared], codes[:, compared], w, level, rng)
    places = reference.places.tolist()
    wrong = [each.name for each, place in zip(described, places, strict=True) if not is_of_kind(each, X, place)]
    notes = _notes(reference, described, wrong, codes, auc is None, len(w))
    if auc is not None and auc[2] < 0.5:  # Equal rows among both kinds mislead the classifier.
        notes = (
            "Some of these rows seem to be rows of the fit. The comparison is then too favourable: pass new rows only.",
            *notes,
        )
    value, low, high, p = auc or (np.nan, np.nan, np.nan, np.nan)
    return ColumnShifts(tuple(columns), value, low, high, p, reference.n_rows, len(w), tuple(wrong), notes)


def _shift(column: ReferenceColumn, codes: NDArray[np.uint8], w: Vector, n_old: float, n_new: float) -> ColumnShift:
    """Compare the bins of old and new rows; the last bin is for missing values."""
    old, new = column.counts, two_samples.bin_sums(codes, w, column.n_bins)
    missing = old[-1] / old.sum(), new[-1] / new.sum()
    scaled = old * n_old / old.sum(), new * n_new / new.sum()
    if column.kind == CATEGORY:
        distance, p = two_samples.total_variation(old, new), two_samples.homogeneity_p_value(*scaled)
    else:
        distance = two_samples.ks_distance(old[:-1], new[:-1])
        p_values = two_samples.ks_p_value(distance, scaled[0][:-1].sum(), scaled[1][:-1].sum())
        gaps = [np.array([each[-1], each[:-1].sum()]) for each in scaled]
        p = min(2.0 * min(p_values, two_samples.homogeneity_p_value(*gaps)), 1.0)
        distance = max(distance, abs(missing[1] - missing[0]))
    change = _change(column, old, new, missing)
    return ColumnShift(column.name, column.kind, distance, p, p, float(missing[0]), float(missing[1]), change)


def _change(column: ReferenceColumn, old: Vector, new: Vector, missing: tuple[float, float]) -> str:
    """Return the largest change in words."""
    gap = missing[1] - missing[0]
    before, after = old / old.sum(), new / new.sum()
    if column.kind == CATEGORY or column.edges.size < 2:
        j = int(np.argmax(np.abs(after - before)))
        return f"{column.names()[j]}: {before[j]:.0%} then, {after[j]:.0%} now"
    if abs(gap) >= two_samples.ks_distance(old[:-1], new[:-1]):
        return f"missing: {missing[0]:.0%} then, {missing[1]:.0%} now"
    if column.kind == TEXT:
        return "the texts differ"
    return f"median {_median(column, old)} then, {_median(column, new)} now"


def _median(column: ReferenceColumn, counts: Vector) -> str:
    """Return the median, interpolated between the edges of its bin; the outermost bins have only one edge."""
    share = np.cumsum(counts[:-1])[:-1] / max(counts[:-1].sum(), 1e-300)  # of the rows below each edge
    if share[0] > 0.5:
        return f"below {column.edges[0]:.4g}"
    if share[-1] < 0.5:
        return f"above {column.edges[-1]:.4g}"
    return f"about {np.interp(0.5, share, column.edges):.4g}"


def _one_for_each_name(found: list[ColumnShift]) -> list[ColumnShift]:
    """Return one entry for each raw column: of several prepared columns of a text, the one that moved most."""
    names = list(dict.fromkeys(each.name for each in found))
    merged = []
    for name in names:
        own = [each for each in found if each.name == name]
        p = min(len(own) * min(each.p_value for each in own), 1.0)
        merged.append(max(own, key=lambda each: each.distance)._replace(p_value=p, p_adjusted=p))
    return merged


def _auc(
    old: NDArray[np.uint8], new: NDArray[np.uint8], w: Vector, level: float, rng: np.random.Generator
) -> tuple[float, float, float, float] | None:
    """Return the cross-fitted AUC of a classifier of new against old rows, its interval and its one-sided p-value.

    The AUC is the mean over the test folds, which are disjoint, so their variances add up.
    """
    if min(len(old), len(new)) < MIN_ROWS_FOR_AUC or not old.shape[1]:
        return None
    n = min(len(new), max(len(old), MIN_ROWS_FOR_AUC), _MAX_AUC_ROWS)
    chosen = rng.choice(len(new), n, replace=bool(np.ptp(w)), p=w / w.sum())
    X = np.concatenate([old, new[chosen]]).astype(np.float64)
    y = np.repeat([0, 1], [len(old), n])
    seed = int(rng.integers(2**31 - 1))
    folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
    found = []
    for train, test in folds.split(X, y):
        classifier = HistGradientBoostingClassifier(
            max_iter=N_TREES, max_leaf_nodes=8, min_samples_leaf=10, early_stopping=False, random_state=seed
        )
        score = classifier.fit(X[train], y[train]).decision_function(X[test])
        found.append(two_samples.area_under_curve(score[y[test] == 0], score[y[test] == 1]))
    value = float(np.mean([each.value for each in found]))
    error, null = (
        float(np.sqrt(sum(variances))) / _N_FOLDS
        for variances in ([each.variance for each in found], [each.null_variance for each in found])
    )
    z = quantile(level)
    return value, max(value - z * error, 0.0), min(value + z * error, 1.0), float(ndtr(-(value - 0.5) / null))


def _notes(
    reference: ReferenceRows,
    columns: list[ReferenceColumn],
    wrong: list[str],
    codes: NDArray[np.uint8],
    too_few: bool,
    n_new: int,
) -> tuple[str, ...]:
    notes = []
    for j, column in enumerate(columns):
        if column.name in wrong:
            was = {CATEGORY: "categories", DATE: "dates", TEXT: "texts"}.get(column.kind, "numbers")
            notes.append(
                f"Column {column.name!r} held {was} in the fit, but these rows have values of another type. The model "
                "treats these values as unknown. Correct the column, or fit a new model."
            )
        elif (codes[:, j] == column.n_bins - 1).all() and column.counts[-1] < 0.99 * column.counts.sum():
            notes.append(f"Column {column.name!r} has no values in these rows.")
    dates = [column.name for column in columns if column.kind == DATE]
    if dates:
        notes.append(
            f"Dates are not compared, because new rows usually have new dates: {', '.join(dict.fromkeys(dates))}. The "
            "model extrapolates the effect of dates that are later than those of the fit."
        )
    if reference.n_left_out:
        notes.append(
            f"{reference.n_left_out:,} columns are not compared: the model file describes at most "
            f"{reference.places.size:,} columns."
        )
    if too_few:
        notes.append(
            f"There are too few rows for the classifier of new against old rows: it needs {MIN_ROWS_FOR_AUC} new rows "
            f"and {MIN_ROWS_FOR_AUC} rows of the fit; there are {n_new:,} and {len(reference.codes):,}."
        )
    return tuple(notes)
