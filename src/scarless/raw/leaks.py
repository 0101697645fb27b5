"""Search for columns that leak the label, and for values that no labelled row has.

A column that is recorded because of the label (a treatment, a code or date of the diagnosis) separates labelled from
unlabelled rows much better than other columns. A model that uses this column only repeats the labels, and finds no
unlabelled positives.

If positives with some value of a column are never labelled, the labels cannot show how many there are.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import BernoulliNB

from scarless.numerics.arrays import Vector
from scarless.outside.notices import counted, warn_user
from scarless.outside.shell_words import quoted
from scarless.raw.cells import MAX_CODED_CATEGORIES
from scarless.raw.dates import is_of_arrow
from scarless.scale.raw_columns import MAX_CATEGORIES

CERTAIN = "certain"  # the column determines the label
ONLY_LABELLED = "only labelled"  # nearly all rows with a value, or with an unusual value, are labelled
STRONG = "strong"  # the column, or one of its values, predicts labels very well: a leak, or a very good attribute

# By judgement. With fewer labelled or unlabelled rows, a column can separate labelled from unlabelled rows by chance.
MIN_ROWS_PER_LABEL = 10
STRONG_AUC = 0.95
MIN_LABELLED_SHARE = 0.95  # among the rows in which the column is filled, or has an unusual value
# The share of labelled rows must also be significantly above a null share: FILLED_NULL_SHARE for filled cells and
# VALUE_NULL_SHARE for unusual values, or the share of labelled rows in the whole table if that is larger.
# VALUE_NULL_SHARE is higher, because some values of genuine attributes occur almost only in positive rows.
FILLED_NULL_SHARE, VALUE_NULL_SHARE, MAX_P_VALUE = 0.5, 0.8, 0.001
#: The odds of a label are higher by more than this factor (lower end of its 90% interval) in rows with one value of a
#: column, which at most half of the rows have. Evidence: with labels drawn from the classes of 19 public tables, 20% or
#: 50% of the positives, this was true of none of 623 columns. It is true of a treatment that 60% of the labelled and 5%
#: of the other rows have, among 2,000 rows with 10% labels.
TIED_ODDS = 8.0
# Values that no labelled row has are reported if so many rows would have no label with a smaller probability, at the
# label rate of the other rows.
MAX_CHANCE_OF_NO_LABEL = 1e-4
MAX_CHANCE_OF_NO_LABEL_AT_END = 1e-8  # smaller, because the share of labels may fall gradually to the ends
MIN_AUDITED_PER_VALUE = 10  # audited rows with such a value that show how many of its rows are positive
N_BINS = 50  # bins of a numeric column; they detect effects that are not monotone
MAX_ROWS_FOR_WARNINGS = 20_000
N_FOLDS = 5
_MAX_VALUES_SHOWN = 4  # values without labels in a note
MAX_TEXT_ROWS = 2_000  # largest number of labelled rows, and of unlabelled rows, for the model of a text column


class ColumnWarning(UserWarning):
    """A column may leak the label, or has values that no labelled row has."""


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


def warn_about_columns(X: Any, s: Any, *, audited: Any = None, named: Iterable[str] = ()) -> None:
    """Warn about columns of a pandas data frame that leak the label, and about values that no labelled row has.

    `audited` are the audited rows, and `named` the columns that drive the labelling. At most 20,000 rows are used.
    """
    rows = np.unique(np.linspace(0, len(X) - 1, MAX_ROWS_FOR_WARNINGS).astype(np.intp))
    X, s, audited = X.iloc[rows], np.asarray(s)[rows], None if audited is None else np.asarray(audited)[rows]
    leaks = find_leaks(X, s)
    others = X.drop(columns=[leak.column for leak in leaks])
    notes = [f"Column {leak.column!r} {leak.remark}. {advice()}" for leak in leaks]
    found = find_never_labelled(others, s, audited=audited, named=named)
    for note in [*notes, *notes_on_never_labelled(found, named)]:
        warn_user(note, ColumnWarning)


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
    if how := _tied_value(values, missing, labelled, numbers):
        return Leak(name, STRONG, how)
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


def _tied_value(values: Any, missing: Any, labelled: Any, numbers: Vector | None) -> str:
    """Describe a value, or filled cells, that labelled rows have much more often than others; empty if there is none.

    Values are considered if the column has few of them, and only if some rows with other values are labelled too.
    """
    groups = [("", ~missing)] if missing.any() else []
    if values[~missing].nunique() <= (MAX_CATEGORIES if numbers is None else MAX_CODED_CATEGORIES):
        groups += _rows_by_value(values, missing)
    most, found = np.log(TIED_ODDS), ""
    for value, rows in groups:
        inside, outside = labelled[rows], labelled[~rows]
        if inside.sum() < MIN_ROWS_PER_LABEL or inside.size > outside.size or (value and not outside.any()):
            continue
        cells = np.array([inside.sum(), (~inside).sum(), outside.sum(), (~outside).sum()]) + 0.5
        least = float(np.log(cells) @ [1.0, -1.0, -1.0, 1.0] - 1.645 * np.sqrt((1.0 / cells).sum()))
        if least > most:
            which = f"with the value {value!r}" if value else "in which it is filled"
            others = f"{outside.mean():.1%} of the others" if outside.any() else "none of the others"
            most = least
            found = f"{inside.mean():.0%} of the {inside.size:,} rows {which} are labelled, but {others}"
    return found


def _rows_by_value(values: Any, missing: Any) -> list[tuple[str, Any]]:
    """Return each value of a column as text, with a mask of its rows."""
    filled = values[~missing]
    return [(_shown(value), (values == value).fillna(False).to_numpy(dtype=bool)) for value in filled.unique()]


class NeverLabelled(NamedTuple):
    """Rows without any label, although a similar number of other rows would have one."""

    column: str
    rows: str  # description, such as "with the value 'B' in 'site'"
    n: int
    others: float  # share of labelled rows among the other rows, or among rows with a neighbouring value

    @property
    def remark(self) -> str:
        """One sentence that describes the rows."""
        compared = "rows with the next numbers" if self.rows.startswith("in which") else "other rows"
        return f"No row {self.rows} has a label ({self.n:,} rows), but {self.others:.1%} of the {compared} have one."


def notes_on_never_labelled(found: Iterable[NeverLabelled], named: Iterable[str]) -> list[str]:
    """Return notes on values without labels: one for each value of the columns `named`, and one for all others."""
    danger = (
        "If positives among these rows are never labelled, the labels cannot show how many there are, and the "
        "estimated share of positives and its interval are too low. Then leave these rows out, or audit some of them. "
        "If none of these rows can be positive"
    )
    drivers, others = set(named), []
    notes = []
    for each in found:
        if each.column in drivers:
            notes.append(f"{each.remark} {danger}, remove {each.column!r} from propensity_attributes.")
        else:
            others.append(each.remark)
    if others:
        left = len(others) - _MAX_VALUES_SHOWN
        more = f" The same is true of {counted(left, 'more value')}." if left > 0 else ""
        notes.append(f"{' '.join(others[:_MAX_VALUES_SHOWN])}{more} {danger}, the estimate is not affected.")
    return notes


def find_never_labelled(X: Any, s: Any, *, audited: Any = None, named: Iterable[str] = ()) -> list[NeverLabelled]:
    """Return rows with a value that no labelled row has, for each column of a pandas data frame.

    Considered are categories, yes/no columns, numbers with two different values, and empty cells. In the columns
    `named`, which drive the labelling, the smallest and the largest numbers are considered too. Values with several
    audited rows are left out.
    """
    labelled, ends = np.asarray(s) == 1, set(named)
    checked = np.zeros(labelled.size, dtype=bool) if audited is None else np.asarray(audited)
    found = []
    for j, name in enumerate(map(str, X.columns)):
        values, missing = X.iloc[:, j], X.iloc[:, j].isna().to_numpy()
        numbers = _numbers(values, missing)
        n_values = values[~missing].nunique()
        few = n_values + missing.any() > 1 and n_values <= (MAX_CATEGORIES if numbers is None else 2)
        groups = _rows_by_value(values, missing) if few and values.dtype.kind not in "mM" else []
        groups = [(f"with the value {value!r} in {name!r}", rows) for value, rows in groups]
        groups += [(f"with an empty cell in {name!r}", missing)] if missing.any() else []
        for words, rows in groups:
            n, others = int(rows.sum()), labelled[~rows]
            known = labelled[rows].any() or checked[rows].sum() >= MIN_AUDITED_PER_VALUE
            if not known and others.any() and (1.0 - others.mean()) ** n < MAX_CHANCE_OF_NO_LABEL:
                found.append(NeverLabelled(name, words, n, float(others.mean())))
        if name in ends and not few and numbers is not None and values.dtype.kind in "fiu":
            kept = ~missing
            found += _ends_without_labels(name, numbers[kept], labelled[kept], checked[kept])
    return found


def _ends_without_labels(name: str, numbers: Vector, labelled: Any, checked: Any) -> list[NeverLabelled]:
    """Return the rows with the smallest, and with the largest, numbers if none is labelled and the next ones often are.

    The next rows are a quarter as many, because the share of labels may rise gradually.
    """
    found = []
    for sign, words in ((1.0, "at most"), (-1.0, "at least")):
        order = np.argsort(sign * numbers, kind="stable")
        ranked, hits = sign * numbers[order], labelled[order]
        if not hits.any():
            continue
        n = int(np.searchsorted(ranked, ranked[hits.argmax()]))  # rows before the first number with a label
        if n < MIN_ROWS_PER_LABEL or checked[order[:n]].sum() >= MIN_AUDITED_PER_VALUE:
            continue
        following = hits[n + 1 : n + 1 + max(n // 4, 20)]  # without row n, which is labelled by construction
        others = float(following.mean()) if following.size else 0.0
        if (1.0 - others) ** n < MAX_CHANCE_OF_NO_LABEL_AT_END:
            found.append(NeverLabelled(name, f"in which {name!r} is {words} {sign * ranked[n - 1]:g}", n, others))
    return found


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
    """Return numbers and dates as floats, missing values as NaN; None for other columns, and for dates of Arrow."""
    if values.dtype.kind in "fiub":
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if values.dtype.kind not in "mM" or is_of_arrow(values):
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
