"""Search for columns that leak the label.

A column that is recorded because of the label (a treatment, a code or date of the diagnosis) separates labelled from
unlabelled rows almost perfectly. A model that uses this column only repeats the labels, and finds no unlabelled
positives.
"""

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
from scarless.outside.shell_words import quoted
from scarless.scale.raw_columns import MAX_CATEGORIES

CERTAIN = "certain"  # the column determines the label
ONLY_LABELLED = "only labelled"  # nearly all rows with a value, or with an unusual value, are labelled
STRONG = "strong"  # the column ranks labels almost perfectly: a leak, or a very good attribute

# By judgement. With fewer labelled or unlabelled rows, a column can separate labelled from unlabelled rows by chance.
MIN_ROWS_PER_LABEL = 10
STRONG_AUC = 0.95
MIN_LABELLED_SHARE = 0.95  # among the rows in which the column is filled, or has an unusual value
# The share of labelled rows must also be significantly above a null share: FILLED_NULL_SHARE for filled cells and
# VALUE_NULL_SHARE for unusual values, or the share of labelled rows in the whole table if that is larger.
# VALUE_NULL_SHARE is higher, because some values of genuine attributes occur almost only in positive rows.
FILLED_NULL_SHARE, VALUE_NULL_SHARE, MAX_P_VALUE = 0.5, 0.8, 0.001
N_BINS = 50  # bins of a numeric column; they detect effects that are not monotone
N_FOLDS = 5
MAX_TEXT_ROWS = 2_000  # largest number of labelled rows, and of unlabelled rows, for the model of a text column


@dataclass(frozen=True)
class Leak:
    """A column that leaks the label, how certain the leak is (`grade`), and a description of the leak (`how`)."""

    column: str
    grade: str
    how: str

    @property
    def remark(self) -> str:
        """One line that describes the leak."""
        verb = {CERTAIN: "leaks", ONLY_LABELLED: "almost certainly leaks", STRONG: "may leak"}[self.grade]
        return f"{verb} the label: {self.how}"


def find_leaks(X: Any, s: Any) -> list[Leak]:
    """Return the columns of a pandas data frame that leak the label."""
    graded = (grade_leak(X.iloc[:, j], s) for j in range(X.shape[1]))
    return [leak for leak in graded if leak is not None]


def columns_to_leave_out(leaks: list[Leak], named: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the columns to leave out, and a note on each leak. Raise an error if a column determines the label.

    A column that is filled almost only in labelled rows has almost no information on unlabelled rows. It is left out,
    unless its name is in `named`. A column of grade `STRONG` is kept, because it may be a very good attribute.
    """
    out, notes, kept = [], [], set(named)
    for leak in leaks:
        name = leak.column
        exclude = f"--exclude {quoted(name)} (exclude=[{name!r}])"
        if leak.grade == CERTAIN:
            raise ValueError(
                f"Column {name!r} leaks the label: {leak.how}. A model with this column would only repeat the "
                f"labels. Leave the column out: {exclude}."
            )
        if leak.grade == ONLY_LABELLED and name not in kept:
            out.append(name)
            notes.append(
                f"Column {name!r} {leak.remark}. It has almost no information on unlabelled rows, so it was left "
                "out. To keep it, name it in --propensity or --classification-attributes."
            )
        else:
            notes.append(f"Column {name!r} {leak.remark}. {advice(f': {exclude}')}")
    return out, notes


def advice(how: str = "") -> str:
    """Return advice on a column that may leak the label; `how` is inserted after the advice to leave it out."""
    return (
        "If the column is recorded because of the label, like a treatment, the model only repeats the labels and finds "
        f"too few unlabelled positives. In that case, leave the column out{how}. If its values are known before "
        "labelling, keep it."
    )


def grade_leak(values: Any, s: Any) -> Leak | None:
    """Return how a pandas column leaks the label, or None if the column does not leak it.

    Examples
    --------
    >>> import pandas as pd
    >>> s = np.repeat([1, 0], [40, 400])
    >>> treated = pd.Series(np.where(np.arange(440) < 38, "insulin", None), name="treatment")
    >>> print(grade_leak(treated, s).remark)
    almost certainly leaks the label: it is filled in 38 of 40 labelled rows and in no unlabelled row
    """
    labelled = np.asarray(s) == 1
    if min(labelled.sum(), (~labelled).sum()) < MIN_ROWS_PER_LABEL:
        return None
    name, missing = str(values.name), values.isna().to_numpy()
    numbers = _numbers(values, missing)
    if how := _determines_label(values, missing, labelled, numbers):
        return Leak(name, CERTAIN, how)
    if how := _filled_if_labelled(values, missing, labelled, numbers):
        return Leak(name, ONLY_LABELLED, how)
    auc = _auc_of(values, missing, labelled, numbers)
    if auc > STRONG_AUC:
        return Leak(name, STRONG, f"this column alone ranks labelled before unlabelled rows with an AUC of {auc:.3f}")
    return None


def _determines_label(values: Any, missing: Any, labelled: Any, numbers: Vector | None) -> str:
    """Describe how a column separates labelled from unlabelled rows perfectly; empty if it does not."""
    for matches, words in ((missing, "empty"), (~missing, "filled")):
        if not (matches != labelled).any():
            return f"it is {words} in all labelled rows and in no unlabelled row"
    if missing.any():
        return ""
    if numbers is not None:
        inside, outside = numbers[labelled], numbers[~labelled]
        apart = inside.min() > outside.max() or inside.max() < outside.min()
        return "its values do not overlap between labelled and unlabelled rows" if apart else ""
    text = values.astype(str)
    if text.nunique() > MAX_CATEGORIES:
        return ""
    both = set(text[labelled]) & set(text[~labelled])
    return "" if both else "labelled and unlabelled rows have no value in common"


def _filled_if_labelled(values: Any, missing: Any, labelled: Any, numbers: Vector | None) -> str:
    """Describe a column that is filled, or has unusual values, almost only in labelled rows; empty if it is not."""
    if _mostly_labelled(~missing, labelled, FILLED_NULL_SHARE):
        return f"it is filled in {_counts(~missing, labelled)}"
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
    if not _mostly_labelled(others, labelled, VALUE_NULL_SHARE):
        return ""
    return f"its value is not {_shown(usual)} in {_counts(others, labelled)}"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)[:40]


def _counts(rows: Any, labelled: Any) -> str:
    inside, outside = int((rows & labelled).sum()), int((rows & ~labelled).sum())
    others = f"in {outside:,} of {int((~labelled).sum()):,} unlabelled rows" if outside else "in no unlabelled row"
    return f"{inside:,} of {int(labelled.sum()):,} labelled rows and {others}"


def _mostly_labelled(rows: Any, labelled: Any, null_share: float) -> bool:
    """Return whether nearly all of these rows are labelled, and their share is significantly above `null_share`."""
    n, k = int(rows.sum()), int((rows & labelled).sum())
    if k < MIN_ROWS_PER_LABEL or k < MIN_LABELLED_SHARE * n:
        return False
    return bool(binom.sf(k - 1, n, max(null_share, float(labelled.mean()))) < MAX_P_VALUE)


def label_auc(values: Any, labelled: Any) -> float:
    """Return the area under the ROC curve (AUC) of a single column as a predictor of the label.

    Categories are ranked by their out-of-fold share of labels, and other text by an out-of-fold model of its words.
    Numbers and dates are ranked by the out-of-fold share of labels in their bin and, without missing values, also by
    their value in ascending and in descending order; the largest AUC is returned. Missing values are a bin or category
    of their own.
    """
    missing = values.isna().to_numpy()
    return _auc_of(values, missing, labelled, _numbers(values, missing))


def _auc_of(values: Any, missing: Any, labelled: Any, numbers: Vector | None) -> float:
    if numbers is None:
        text = values.astype(str).where(~missing, "")
        codes = np.unique(text.to_numpy(dtype=str), return_inverse=True)[1]
        return (
            _auc(_out_of_fold(codes, labelled), labelled)
            if codes.max() <= MAX_CATEGORIES
            else _by_words(text, labelled)
        )
    found = _auc(_out_of_fold(_bins(numbers, missing), labelled), labelled)
    if missing.any():
        return found
    plain = _auc(numbers, labelled)
    return max(found, plain, 1.0 - plain)


def _numbers(values: Any, missing: Any) -> Vector | None:
    """Return numbers and dates as floats, missing values as NaN; None for other columns."""
    if values.dtype.kind in "fiub":
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if values.dtype.kind not in "mM":
        return None
    found = np.full(len(values), np.nan)
    found[~missing] = values[~missing].astype("int64").to_numpy(dtype=np.float64)
    return found


def _bins(numbers: Vector, missing: Any) -> Any:
    """Return the bin of each number. Missing values have their own bin."""
    filled = numbers[~missing]
    edges = np.unique(filled)
    if edges.size > N_BINS:
        edges = np.unique(np.quantile(filled, np.linspace(0.0, 1.0, N_BINS + 1)[1:-1], method="inverted_cdf"))
    return np.where(missing, edges.size + 1, np.searchsorted(edges, numbers, side="right"))


def _folds() -> StratifiedKFold:
    return StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)


def _out_of_fold(codes: Any, labelled: Any) -> Vector:
    """Return the share of labels among rows of the same code in the other folds."""
    fold, share, n = _fold_of_rows(labelled.tobytes()), float(labelled.mean()), int(codes.max()) + 1
    cells = codes * N_FOLDS + fold
    rows = np.bincount(cells, minlength=n * N_FOLDS).reshape(n, N_FOLDS)
    hits = np.bincount(cells, weights=labelled, minlength=n * N_FOLDS).reshape(n, N_FOLDS)
    rows, hits = rows.sum(axis=1, keepdims=True) - rows, hits.sum(axis=1, keepdims=True) - hits
    return np.asarray(((hits + share) / (rows + 1.0))[codes, fold])


@lru_cache(maxsize=1)
def _fold_of_rows(labelled: bytes) -> NDArray[np.intp]:
    """Return the fold of each row. The result is cached, because all columns of a table share it."""
    labels = np.frombuffer(labelled, dtype=bool)
    found = np.empty(labels.size, dtype=np.intp)
    for number, (_, rows) in enumerate(_folds().split(labels, labels)):
        found[rows] = number
    return found


def _by_words(text: Any, labelled: Any) -> float:
    """Return the out-of-fold AUC of naive Bayes on words and whole cells, on a sample of rows."""
    rng = np.random.default_rng(0)
    kinds = (np.flatnonzero(labelled), np.flatnonzero(~labelled))
    drawn = (each if each.size <= MAX_TEXT_ROWS else rng.choice(each, MAX_TEXT_ROWS, replace=False) for each in kinds)
    rows = np.concatenate(list(drawn))
    words = CountVectorizer(analyzer=_words, binary=True, min_df=2)
    try:
        counts = words.fit_transform(text.iloc[rows])
    except ValueError:  # no word occurs in two cells
        return 0.5
    log_proba = cross_val_predict(BernoulliNB(), counts, labelled[rows], cv=_folds(), method="predict_log_proba")
    return _auc(log_proba[:, 1] - log_proba[:, 0], labelled[rows])


def _words(cell: str) -> list[str]:
    whole = cell.strip().lower()
    return [*whole.split(), f"={whole}"]


def _auc(scores: Any, labelled: Any) -> float:
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks, n = (np.cumsum(counts) - (counts - 1) / 2)[place], int(labelled.sum())  # equal scores get their mean rank
    return float((ranks[labelled].sum() - n * (n + 1) / 2) / (n * (labelled.size - n)))
