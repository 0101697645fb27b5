"""Which rows judge which fit: folds with like shares of labels, equal rows together."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from scarless.checks.options import check_whole, shown
from scarless.checks.order import equal_rows
from scarless.checks.tables import plain_array
from scarless.checks.vectors import check_random_stream
from scarless.numerics.arrays import Vector
from scarless.pair.rows import Training

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def folds_of(fold: NDArray[np.intp]) -> list[Fold]:
    """Return the rows to fit and the rows to score of each fold."""
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(int(fold.max()) + 1)]


def fold_of_rows(
    training: Training,
    n_folds: int,
    rng: np.random.Generator,
    audit: NDArray[np.int8] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]:
    """Return the fold of each row: alike in labelled rows, rows of equal attributes together, whatever their order.

    Copies of a row say nothing new of it, labelled or not: with some of them on each side of a fold, a model would be
    judged by what it has seen. (Parted by label they would be worse than that: the model would be taught the opposite
    of what it is asked.) With `groups`, rows of a group stay together in place of equal ones. Where the table has fewer
    different rows than folds need, there are fewer folds.
    """
    X, s, w = training
    return deal_groups(equal_rows(X, w, s) if groups is None else groups, s, w, n_folds, rng, audit)


def deal_groups(
    group: NDArray[np.intp],
    s: Vector,
    w: Vector,
    n_folds: int,
    rng: np.random.Generator,
    audit: NDArray[np.int8] | None = None,
) -> NDArray[np.intp]:
    """Return the fold of each row, where rows of one group stay together.

    With audits (1, 0, and -1 for rows that nobody checked) folds are alike in checked rows of each class too.
    """
    n_groups = int(group.max()) + 1
    labelled = np.bincount(group, weights=w * s, minlength=n_groups)
    unlabelled = np.bincount(group, weights=w * (1.0 - s), minlength=n_groups)
    fewest = int(min(np.count_nonzero(labelled), np.count_nonzero(unlabelled)))
    if fewest < 2:
        raise ValueError(
            "Cross-validation needs at least 2 different labelled and 2 different unlabelled rows; there are "
            f"{np.count_nonzero(labelled)} and {np.count_nonzero(unlabelled)}. Use SAREMClassifier without an "
            "estimator, which needs no folds."
        )
    n_folds = min(n_folds, fewest)
    if audit is not None and (audit >= 0).any():
        return deal_kinds(group, s, audit, w, n_folds, rng)
    fold = _deal(labelled.astype(np.float64), unlabelled.astype(np.float64), n_folds, rng)
    return fold[group]


def _kinds(s: Vector, audit: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return what is known of each row as a number, so that rows of one audit, and labelled ones, are neighbours.

    Checked and positive: 0 without a label, 1 with one; labelled: 1 to 3; checked and negative: 3 and 4; nothing: 5.
    """
    labelled = s == 1
    found, refuted = np.where(labelled, 1, 0), np.where(labelled, 3, 4)
    return np.where(audit == 1, found, np.where(audit == 0, refuted, np.where(labelled, 2, 5)))


def deal_kinds(
    group: NDArray[np.intp],
    s: Vector,
    audit: NDArray[np.int8],
    w: Vector,
    n_folds: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return the fold of each row: groups dealt kind after kind; one is of the rarest kind that it holds.

    Where all weigh the same, one round of dealing goes on where the last kind ended: then every run of kinds, as all
    labelled rows are, is spread as evenly as it can be.
    """
    kind = _kinds(s, audit)
    n_groups, n_kinds = int(group.max()) + 1, int(kind.max()) + 1
    weight = np.bincount(group * n_kinds + kind, weights=w, minlength=n_groups * n_kinds).reshape(n_groups, n_kinds)
    rarity = np.argsort(np.argsort(np.count_nonzero(weight, axis=0), kind="stable"))
    own = np.argmin(np.where(weight > 0, rarity, n_kinds), axis=1)
    fold, shuffled, dealt = np.empty(n_groups, dtype=np.intp), rng.permutation(n_groups), 0
    for number in range(n_kinds):
        members = shuffled[own[shuffled] == number]
        mine = weight[members, number]
        if not members.size or np.ptp(mine) == 0:
            fold[members] = (dealt + np.arange(members.size)) % n_folds
            dealt += members.size
            continue
        held = np.zeros(n_folds)
        for member in members[np.argsort(-mine, kind="stable")]:
            lightest = int(np.argmin(held))
            fold[member] = lightest
            held[lightest] += weight[member, number]
    return fold[group]


def _deal(labelled: Vector, unlabelled: Vector, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Deal groups of rows out to folds, the heaviest first, each to the fold that has least of its kind."""
    fold = np.empty(labelled.size, dtype=np.intp)
    shuffled = rng.permutation(labelled.size)
    for of_kind, weight in ((labelled > 0, labelled), (labelled == 0, unlabelled)):
        members = shuffled[of_kind[shuffled]]
        members = members[np.argsort(-weight[members], kind="stable")]
        held = np.zeros(n_folds)
        if np.ptp(weight[members]) == 0 if members.size else True:
            fold[members] = np.arange(members.size) % n_folds
            continue
        for member in members:
            lightest = int(np.argmin(held))
            fold[member] = lightest
            held[lightest] += weight[member]
    return fold


def check_folds(
    cv: Any,
    training: Training,
    everything: Training,
    random_state: Any,
    *,
    name: str,
    audit: NDArray[np.int8] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> list[Fold]:
    """Return the folds that a number, a splitter or a list stands for, by the numbers of the rows that count.

    `audit` is that of the rows that count, `groups` that of all rows.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        n_folds, rng = check_whole(cv, name, at_least=2), check_random_stream(random_state)
        counted = None if groups is None else _numbered(groups[everything.weight > 0])
        folds = folds_of(fold_of_rows(training, n_folds, rng, audit, counted))
        refuse_one_sided(folds, training.s)
        return folds
    refuse_odd_cv(cv, name)
    if cv is None or hasattr(cv, "split"):
        cv = check_cv(cv, everything.s, classifier=True).split(*everything[:2], *told_groups(groups))
    pairs = check_pairs(cv, everything.s.size, name)
    refuse_split_groups(pairs, groups, name)
    return counted_folds(pairs, everything, name)


def told_groups(groups: NDArray[np.intp] | None) -> tuple[Any, ...]:
    """Return what a splitter is told of groups: nothing where there are none, as it may not take them."""
    return () if groups is None else (groups,)


def _numbered(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.asarray(np.unique(groups, return_inverse=True)[1], dtype=np.intp)


def refuse_split_groups(folds: Iterable[Fold], groups: NDArray[np.intp] | None, name: str) -> None:
    """Raise where folds of the user's have rows of one group on both sides."""
    if groups is None:
        return
    for train, test in folds:
        if np.intersect1d(groups[train], groups[test]).size:
            raise ValueError(
                f"{name} has rows of one group among those to fit and those to score. Give a number of folds, or a "
                "splitter that keeps groups together: StratifiedGroupKFold(5)."
            )


def refuse_odd_cv(cv: Any, name: str) -> None:
    """Raise unless folds are None, a number, a splitter, or a list."""
    odd = isinstance(cv, bool | np.bool_ | str | bytes | Mapping | type)
    known = cv is None or isinstance(cv, int | np.integer) or hasattr(cv, "split") or np.iterable(cv)
    if odd or not known:
        raise ValueError(
            f"{name} must be a number of folds, a splitter such as StratifiedKFold(5), or a list of pairs (rows to "
            f"fit, rows to score); got {shown(cv)}."
        )


def counted_folds(folds: Iterable[Any], training: Training, name: str) -> list[Fold]:
    """Return folds of all rows, as indices or masks, as folds of those that have weight, by their numbers there."""
    s, counts = training.s, training.weight > 0
    number = np.cumsum(counts) - 1
    kept = [tuple(rows[counts[rows]] for rows in pair) for pair in check_pairs(folds, counts.size, name)]
    checked = [(number[train], number[test]) for train, test in kept]
    refuse_one_sided(checked, s[counts])
    return checked


def check_pairs(folds: Iterable[Any], n_rows: int, name: str) -> list[Fold]:
    """Return pairs of rows to fit and to score, as indices or masks, by their numbers."""
    pairs = [_check_pair(fold, i, n_rows, name) for i, fold in enumerate(folds)]
    if not pairs:
        raise ValueError("cv gives no folds. A generator is used up after one fit: hand over a list of its folds.")
    return pairs


def _check_pair(fold: Any, i: int, n_rows: int, name: str) -> Fold:
    """Return the numbers of the rows to fit and of those to score."""
    parts = list(fold) if np.iterable(fold) else []
    if len(parts) != 2 or isinstance(fold, str | bytes):
        raise ValueError(f"{name} must hold pairs (rows to fit, rows to score); its entry {i} is {shown(fold)}.")
    return _check_rows(parts[0], i, n_rows, name), _check_rows(parts[1], i, n_rows, name)


def _check_rows(part: Any, i: int, n_rows: int, name: str) -> NDArray[np.intp]:
    rows = plain_array(part, f"entry {i} of {name}")
    if rows.size == 0:
        return np.zeros(0, dtype=np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "iub" or (rows.dtype.kind == "b" and rows.size != n_rows):
        raise ValueError(
            f"{name} must name rows by their numbers, or by a mask of {n_rows} truth values; its entry {i} holds "
            f"{shown(part)}."
        )
    if rows.dtype.kind != "b" and not ((rows >= -n_rows) & (rows < n_rows)).all():
        raise ValueError(f"{name} names row {rows[np.argmax(np.abs(rows))]}, but there are {n_rows} rows from 0 on.")
    return np.arange(n_rows)[rows]


def refuse_one_sided(folds: list[Fold], s: Vector) -> None:
    """Raise where a fold leaves nothing to fit, or nothing to score."""
    for train, test in folds:
        if np.unique(s[train]).size < 2 or not test.size:
            raise ValueError(
                "A fold of cv leaves rows of one label only to fit, or none to score: use stratified folds, or fewer."
            )
