"""Columns that give the label away, graded: without fail, filled only where there is a label, or nearly.

A column that is recorded because of the label (a treatment, a code of the diagnosis, a date of it) ranks labelled
before unlabelled rows almost without fail. A model that sees it repeats the labels and finds that nothing is missing.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import BernoulliNB

from scarless.numerics.arrays import Vector
from scarless.scale.raw_columns import MOST_LEVELS

CERTAIN = "certain"  # the label can be read off the column
ELSEWHERE = "elsewhere"  # one value, or none, in rows without a label: the column says nothing of them
STRONG = "strong"  # ranks labels nearly without fail; may be a leak, or a very good attribute

FEWEST = 10  # labelled rows, and unlabelled ones, below which chance might tell them apart
STRONG_AUC = 0.95
PURE = 0.95  # share of labelled among the rows whose value is not the usual one of unlabelled rows
# The same as a test: chance of so pure a group, where the true share is this (or that of all rows, if larger). A value
# is held against a larger share than a filled cell: rows of a very likely kind do exist.
GAP_PURITY, VALUE_PURITY, CHANCE = 0.5, 0.8, 0.001
N_BINS = 50  # of numbers, for effects that are no straight line
N_FOLDS = 5
TEXT_ROWS = 2_000  # labelled, and unlabelled, that words are looked at with


@dataclass(frozen=True)
class Leak:
    """A column that gives the label away: how surely (`grade`), and how, in words."""

    column: str
    grade: str
    how: str

    @property
    def remark(self) -> str:
        """What there is to say in one line."""
        surely = {CERTAIN: "gives", ELSEWHERE: "all but gives", STRONG: "nearly gives"}[self.grade]
        return f"{surely} the label away: {self.how}"


def find_leaks(X: Any, s: Any) -> list[Leak]:
    """Return the columns of a pandas data frame that give the label away."""
    graded = (grade_leak(X.iloc[:, j], s) for j in range(X.shape[1]))
    return [leak for leak in graded if leak is not None]


def settle_leaks(leaks: list[Leak], named: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the columns to leave out, and what to say of all of them; raise where the label can be read off one.

    A column that is filled only where there is a label says nothing of the others, so leaving it out costs nothing.
    One that is `named` by the user stays. What is only strong stays as well, since it may be a very good attribute.
    """
    out, notes, kept = [], [], set(named)
    for leak in leaks:
        name = leak.column
        exclude = f"--exclude {shlex.quote(name)} (exclude=[{name!r}])"
        if leak.grade == CERTAIN:
            raise ValueError(
                f"Column {name!r} gives the label away: {leak.how}. A model would only repeat it. Leave it out: "
                f"{exclude}."
            )
        if leak.grade == ELSEWHERE and name not in kept:
            out.append(name)
            notes.append(
                f"Column {name!r} {leak.remark}. It says nothing of rows without a label, and was left out. To keep "
                "it, name it in --propensity or --class-attributes."
            )
        else:
            notes.append(f"Column {name!r} {leak.remark}. {advice(f', {exclude}')}")
    return out, notes


def advice(how: str = "") -> str:
    """Return how to settle whether a column is a leak; `how` says how to leave it out."""
    return (
        "If it is recorded because of the label, as a treatment is, the model only repeats the labels, and finds too "
        f"few missing positives: leave it out{how}. If it is known before anybody looks, keep it."
    )


def grade_leak(values: Any, s: Any) -> Leak | None:
    """Return how a column of pandas gives the label away; None where it does not.

    Examples
    --------
    >>> import pandas as pd
    >>> s = np.repeat([1, 0], [40, 400])
    >>> treated = pd.Series(np.where(np.arange(440) < 38, "insulin", None), name="treatment")
    >>> print(grade_leak(treated, s).remark)
    all but gives the label away: it is filled in in 38 of 40 labelled rows and in no others
    """
    labelled = np.asarray(s) == 1
    if min(labelled.sum(), (~labelled).sum()) < FEWEST:
        return None
    name, missing = str(values.name), values.isna().to_numpy()
    numbers = _numbers(values, missing)
    if how := _certainly(values, missing, labelled, numbers):
        return Leak(name, CERTAIN, how)
    if how := _only_elsewhere(values, missing, labelled, numbers):
        return Leak(name, ELSEWHERE, how)
    auc = _auc_of(values, missing, labelled, numbers)
    if auc > STRONG_AUC:
        return Leak(name, STRONG, f"alone, it ranks labelled before unlabelled rows with an AUC of {auc:.3f}")
    return None


def _certainly(values: Any, missing: Any, labelled: Any, numbers: Vector | None) -> str:
    """Return how a column tells labelled from unlabelled rows without fail, in words; nothing where it does not."""
    for gone, words in ((missing, "empty"), (~missing, "filled in")):
        if not (gone != labelled).any():
            return f"it is {words} in all labelled rows and in no others"
    if missing.any():
        return ""
    if numbers is not None:
        inside, outside = numbers[labelled], numbers[~labelled]
        apart = inside.min() > outside.max() or inside.max() < outside.min()
        return "its values in labelled rows lie all on one side of those in the others" if apart else ""
    text = values.astype(str)
    if text.nunique() > MOST_LEVELS:
        return ""
    both = set(text[labelled]) & set(text[~labelled])
    return "" if both else "no value of it occurs in labelled and unlabelled rows alike"


def _only_elsewhere(values: Any, missing: Any, labelled: Any, numbers: Vector | None) -> str:
    """Return how unlabelled rows all have one value, or none, while nearly all rows with another are labelled."""
    if _is_pure(~missing, labelled, GAP_PURITY):
        return f"it is filled in in {_among(~missing, labelled)}"
    left = ~labelled & ~missing
    if not left.any():
        return ""
    if numbers is None:
        usual = values[left].mode().iloc[0]
        others = ~missing & (values != usual).to_numpy(dtype=bool, na_value=False)
    else:
        found, counts = np.unique(numbers[left], return_counts=True)
        most = found[counts.argmax()]
        others = ~missing & (numbers != most)
        usual = values.iloc[int(np.flatnonzero(numbers == most)[0])]
    if not _is_pure(others, labelled, VALUE_PURITY):
        return ""
    return f"its value is not {_shown(usual)} in {_among(others, labelled)}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)[:40]


def _among(rows: Any, labelled: Any) -> str:
    inside, outside = int((rows & labelled).sum()), int((rows & ~labelled).sum())
    others = f"in {outside:,} of the {int((~labelled).sum()):,} others" if outside else "in no others"
    return f"{inside:,} of {int(labelled.sum()):,} labelled rows and {others}"


def _is_pure(rows: Any, labelled: Any, purity: float) -> bool:
    """Whether nearly all of some rows are labelled, and more than chance could make of a share `purity`."""
    n, k = int(rows.sum()), int((rows & labelled).sum())
    if k < FEWEST or k < PURE * n:
        return False
    return bool(binom.sf(k - 1, n, max(purity, float(labelled.mean()))) < CHANCE)


def label_auc(values: Any, labelled: Any) -> float:
    """Return the area under the ROC curve with which a single column ranks the labels, either way round.

    Numbers and dates rank as they are, and out of fold by the share of labels in ranges of them; categories by the
    share of labels of each, out of fold; other text by its words, out of fold. A gap is a value of its own.
    """
    missing = values.isna().to_numpy()
    return _auc_of(values, missing, labelled, _numbers(values, missing))


def _auc_of(values: Any, missing: Any, labelled: Any, numbers: Vector | None) -> float:
    if numbers is None:
        text = values.astype(str).where(~missing, "")
        codes = np.unique(text.to_numpy(dtype=str), return_inverse=True)[1]
        return (
            _auc(_out_of_fold(codes, labelled), labelled) if codes.max() <= MOST_LEVELS else _by_words(text, labelled)
        )
    found = _auc(_out_of_fold(_bins(numbers, missing), labelled), labelled)
    if missing.any():
        return found
    plain = _auc(numbers, labelled)
    return max(found, plain, 1.0 - plain)


def _numbers(values: Any, missing: Any) -> Vector | None:
    """Return numbers and dates as numbers, gaps as NaN; None for what is neither."""
    if values.dtype.kind in "fiub":
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if values.dtype.kind not in "mM":
        return None
    found = np.full(len(values), np.nan)
    found[~missing] = values[~missing].astype("int64").to_numpy(dtype=np.float64)
    return found


def _bins(numbers: Vector, missing: Any) -> Any:
    """Return the range that each number is in, gaps in one of their own."""
    filled = numbers[~missing]
    edges = np.unique(filled)
    if edges.size > N_BINS:
        edges = np.unique(np.quantile(filled, np.linspace(0.0, 1.0, N_BINS + 1)[1:-1], method="inverted_cdf"))
    return np.where(missing, edges.size + 1, np.searchsorted(edges, numbers, side="right"))


def _folds() -> StratifiedKFold:
    return StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)


def _out_of_fold(codes: Any, labelled: Any) -> Vector:
    """Return the share of labels of each row's code, as the other folds have it."""
    fold, share, n = _fold_of_rows(labelled.tobytes()), float(labelled.mean()), int(codes.max()) + 1
    cells = codes * N_FOLDS + fold
    rows = np.bincount(cells, minlength=n * N_FOLDS).reshape(n, N_FOLDS)
    hits = np.bincount(cells, weights=labelled, minlength=n * N_FOLDS).reshape(n, N_FOLDS)
    rows, hits = rows.sum(axis=1, keepdims=True) - rows, hits.sum(axis=1, keepdims=True) - hits
    return np.asarray(((hits + share) / (rows + 1.0))[codes, fold])


@lru_cache(maxsize=1)
def _fold_of_rows(labelled: bytes) -> NDArray[np.intp]:
    """Return the fold of each row; one that all columns of a table share, so it is remembered."""
    labels = np.frombuffer(labelled, dtype=bool)
    found = np.empty(labels.size, dtype=np.intp)
    for number, (_, rows) in enumerate(_folds().split(labels, labels)):
        found[rows] = number
    return found


def _by_words(text: Any, labelled: Any) -> float:
    """Return the AUC of naive Bayes by words and whole cells, out of fold, on some rows of each kind."""
    rng = np.random.default_rng(0)
    kinds = (np.flatnonzero(labelled), np.flatnonzero(~labelled))
    drawn = (each if each.size <= TEXT_ROWS else rng.choice(each, TEXT_ROWS, replace=False) for each in kinds)
    rows = np.concatenate(list(drawn))
    words = CountVectorizer(analyzer=_words, binary=True, min_df=2)
    try:
        counts = words.fit_transform(text.iloc[rows])
    except ValueError:  # no word occurs twice
        return 0.5
    chance = cross_val_predict(BernoulliNB(), counts, labelled[rows], cv=_folds(), method="predict_log_proba")
    return _auc(chance[:, 1] - chance[:, 0], labelled[rows])


def _words(cell: str) -> list[str]:
    whole = cell.strip().lower()
    return [*whole.split(), f"={whole}"]


def _auc(scores: Any, labelled: Any) -> float:
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks, n = (np.cumsum(counts) - (counts - 1) / 2)[place], int(labelled.sum())  # equal scores share their mean rank
    return float((ranks[labelled].sum() - n * (n + 1) / 2) / (n * (labelled.size - n)))
