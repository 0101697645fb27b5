"""What labels at looks, and audits, show to be odd before any model sees them."""

from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from scarless.checks.looks import Codes
from scarless.engines import Engine, Rows

_FEWEST = 5  # labels, or audits, from which on an odd column is told of
_MANY = 12  # looks
_NEARLY_ALL = 0.9  # of rows without a label: audits of so many are hardly meant
_FEWEST_OF_ALL = 20  # audits, from which on such a share of them is told of
_COPIED = 20  # labels: two looks that miss one positive in ten agree on all of so many in 1 of 50 cases


def doubts_of_looks(labels: Codes, names: tuple[str, ...]) -> list[str]:
    """Return, in words, which looks are copies of each other, and which seem to be written down only if they found.

    Examples
    --------
    >>> import numpy as np
    >>> seen = np.array([[1, 1], [0, 0]] * 20, dtype=np.int8)
    >>> doubts_of_looks(seen, ("Ann", "Bob"))[0].split(". ")[0]
    'Ann and Bob are the same in all 40 rows that have both'
    """
    told = []
    for k, name in enumerate(names):
        column = labels[:, k]
        found, gaps = int((column == 1).sum()), int((column < 0).sum())
        if found >= _FEWEST and gaps and not (column == 0).any():
            told.append(
                f"each of the {found} looks of {name} that took place found a label, and {gaps} did not take place. If "
                "only findings were written down, the class prior is wrong: code looks without a label as 0."
            )
    for i, j in _pairs(labels):
        both = (labels[:, i] >= 0) & (labels[:, j] >= 0)
        first, second = labels[both, i], labels[both, j]
        if (first == 1).sum() >= _COPIED and (first == 0).any() and np.array_equal(first, second):
            told.append(
                f"{names[i]} and {names[j]} are the same in all {first.size} rows that have both. If one is a "
                "copy of the other it is no second look, and the class prior is too low with it: leave it out."
            )
    return told


def _pairs(labels: Codes) -> list[tuple[int, int]]:
    """Return looks to compare: all pairs, or, of very many looks, those next to each other."""
    n_looks = labels.shape[1]
    return list(combinations(range(n_looks), 2)) if n_looks <= _MANY else [(k, k + 1) for k in range(n_looks - 1)]


def doubts_of_audits(labels: Codes, audit: Codes) -> list[str]:
    """Return, in words, that no audit of a row without a label found a negative, or that nearly all rows have one.

    Examples
    --------
    >>> import numpy as np
    >>> s, a = np.array([[1], [0]] * 20, dtype=np.int8), np.array([-1, 0] * 20, dtype=np.int8)
    >>> doubts_of_audits(s, a)[0].split(". ")[0]
    'all 20 rows without a label have an audit (0 positive, 20 negative)'
    """
    unlabelled = ~(labels == 1).any(axis=1)
    found = audit[(audit >= 0) & unlabelled]
    if found.size < _FEWEST:
        return []
    if found.all():
        return [
            f"all {found.size} audits of rows without a label are positive. If negative findings were not written "
            "down, the class prior is far too high: code them as 0 (-1 and NaN mean that nobody checked)."
        ]
    n = int(unlabelled.sum())
    if found.size < max(_NEARLY_ALL * n, _FEWEST_OF_ALL):
        return []
    share = f"all {n:,}" if found.size == n else f"{found.size:,} of the {n:,}"
    positive = int(found.sum())
    return [
        f"{share} rows without a label have an audit ({positive:,} positive, {found.size - positive:,} negative). If 0 "
        "stands where nobody checked (np.nan_to_num, an empty cell that was read as 0), the class prior is far too "
        "low: leave NaN, or an empty cell, there. If all of them were checked, their class is known, and a plain "
        "classifier of it needs no model of the labelling."
    ]


def audit_columns(engine: Engine, audit: Codes, names: Any) -> list[str]:
    """Return, in words, which columns of a dense table are the audit itself: in all rows that were checked."""
    if min(int((audit == value).sum()) for value in (0, 1)) < _FEWEST or int((audit >= 0).sum()) < _COPIED:
        return []
    (differs,) = engine.total(_block_differs)
    called = [str(j) if names is None else repr(names[j]) for j in np.flatnonzero(differs == 0)]
    return [
        f"column {name} of X is the audit itself in all rows that were checked: the classifier will only repeat "
        "it. Leave it out of X."
        for name in called
    ]


def _block_differs(X: Any, rows: Rows) -> tuple[Any]:
    """Return in how many checked rows each column is not the audit."""
    if sparse.issparse(X):
        return (np.ones(X.shape[1]),)
    checked = np.asarray(rows["audit"]) >= 0
    found = np.asarray(rows["audit"])[checked].astype(X.dtype)[:, None]
    return (np.count_nonzero(np.asarray(X)[checked] != found, axis=0).astype(np.float64),)
