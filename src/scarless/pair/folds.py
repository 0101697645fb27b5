"""Stratified cross-validation folds. Rows with equal attributes, or of one group, are in the same fold.

Folds of rows in memory are lists of indices. Rows of an engine are never copied: a row that is not used gets weight 0.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from scarless.checks.options import check_random_stream, check_whole, shown
from scarless.checks.rows import LabelledRows, RowTotals, row_totals
from scarless.checks.tables import plain_array
from scarless.engines import Engine, Rows, attach
from scarless.engines.blocks import Wrapped
from scarless.numerics.arrays import Matrix, Vector, at_least, in_float64, in_numpy, like, namespace_of
from scarless.numerics.linear import Design
from scarless.numerics.order import (
    column_salts,
    equal_rows,
    exact_keys,
    fold_of_keys,
    numbered,
    refined_salts,
    row_keys,
    salts_by_rows,
)
from scarless.pair.logistic import Training

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]


def folds_of(fold: NDArray[np.intp]) -> list[Fold]:
    """Return the indices of the training rows and of the test rows of each fold."""
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(int(fold.max()) + 1)]


def fold_of_rows(
    training: Training,
    n_folds: int,
    rng: np.random.Generator,
    audit: NDArray[np.int8] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]:
    """Return the index of each row's fold. Folds are stratified by label, and do not depend on the order of rows.

    Rows with equal attributes are in one fold, because otherwise a model would be scored on rows that it was trained
    on. With `groups`, the rows of a group are in one fold instead. There are fewer than `n_folds` folds if there are
    fewer different labelled or unlabelled rows (or groups).
    """
    X, s, w = training
    group = equal_rows(X, w, s) if groups is None else groups
    return assign_groups(group, s, w, n_folds, rng, audit, named=groups is not None)


def assign_groups(
    group: NDArray[np.intp],
    s: Vector,
    w: Vector,
    n_folds: int,
    rng: np.random.Generator,
    audit: NDArray[np.int8] | None = None,
    *,
    named: bool = False,
) -> NDArray[np.intp]:
    """Return the index of each row's fold. All rows of a group are in one fold.

    `audit` is 1 for audited positives, 0 for audited negatives and -1 for other rows. Folds are then stratified by
    audited class too. `named` states whether the user passed the groups. Otherwise each group is a set of equal rows.
    """
    n_groups = int(group.max()) + 1
    labelled = np.bincount(group, weights=w * s, minlength=n_groups)
    unlabelled = np.bincount(group, weights=w * (1.0 - s), minlength=n_groups)
    fewest = int(min(np.count_nonzero(labelled), np.count_nonzero(unlabelled)))
    if fewest < 2:
        kinds = ("groups with labelled rows", "groups with unlabelled rows")
        first, second = kinds if named else ("different labelled rows", "different unlabelled rows")
        raise ValueError(
            f"Cross-validation needs at least 2 {first} and 2 {second}; got {np.count_nonzero(labelled)} and "
            f"{np.count_nonzero(unlabelled)}. Use SAREMClassifier without an estimator, which needs no folds."
        )
    n_folds = min(n_folds, fewest)
    if audit is not None and (audit >= 0).any():
        return assign_strata(group, s, audit, w, n_folds, rng)
    fold = _assign_by_weight(labelled.astype(np.float64), unlabelled.astype(np.float64), n_folds, rng)
    return fold[group]


def _strata(s: Vector, audit: NDArray[np.int8]) -> NDArray[np.intp]:
    """Return the stratum of each row.

    The strata of audited positives (0 and 1), of labelled rows (1 to 3), and of audited negatives (3 and 4) have
    consecutive numbers; see `assign_strata`. Rows with neither a label nor an audit have number 5.
    """
    labelled = s == 1
    found, refuted = np.where(labelled, 1, 0), np.where(labelled, 3, 4)
    return np.where(audit == 1, found, np.where(audit == 0, refuted, np.where(labelled, 2, 5)))


def assign_strata(
    group: NDArray[np.intp],
    s: Vector,
    audit: NDArray[np.int8],
    w: Vector,
    n_folds: int,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return the index of each row's fold. Groups are assigned to folds stratum by stratum.

    A group with rows of several strata belongs to the rarest of these strata. If all groups of a stratum have the same
    weight, they are assigned to the folds in turn, starting after the last fold that the previous stratum used.
    Consecutive strata, such as all labelled rows, are then spread over the folds as evenly as possible. Groups of
    different weights are assigned as in `_assign_by_weight`.
    """
    kind = _strata(s, audit)
    n_groups, n_kinds = int(group.max()) + 1, int(kind.max()) + 1
    weight = np.bincount(group * n_kinds + kind, weights=w, minlength=n_groups * n_kinds).reshape(n_groups, n_kinds)
    rarity = np.argsort(np.argsort(np.count_nonzero(weight, axis=0), kind="stable"))
    rarest = np.argmin(np.where(weight > 0, rarity, n_kinds), axis=1)
    fold, shuffled, dealt = np.empty(n_groups, dtype=np.intp), rng.permutation(n_groups), 0
    for number in range(n_kinds):
        members = shuffled[rarest[shuffled] == number]
        weights = weight[members, number]
        if not members.size or np.ptp(weights) == 0:
            fold[members] = (dealt + np.arange(members.size)) % n_folds
            dealt += members.size
            continue
        held = np.zeros(n_folds)
        for member in members[np.argsort(-weights, kind="stable")]:
            lightest = int(np.argmin(held))
            fold[member] = lightest
            held[lightest] += weight[member, number]
    return fold[group]


def _assign_by_weight(labelled: Vector, unlabelled: Vector, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the fold of each group. The heaviest group is assigned first, always to the fold with the least weight.

    Groups with labelled rows are assigned separately from all other groups.
    """
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
    """Check `cv` (a number, a splitter or a list) and return its folds.

    `training` and `audit` contain only rows with a positive weight; `everything` and `groups` contain all rows. The
    returned folds are indices of rows of `training`.
    """
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        n_folds, rng = check_whole(cv, name, at_least=2), check_random_stream(random_state)
        counted = None if groups is None else _numbered(groups[everything.weight > 0])
        folds = folds_of(fold_of_rows(training, n_folds, rng, audit, counted))
        refuse_one_sided(folds, training.s)
        return folds
    refuse_odd_cv(cv, name)
    if cv is None or hasattr(cv, "split"):
        cv = check_cv(cv, everything.s, classifier=True).split(*everything[:2], *splitter_groups(groups))
    pairs = check_pairs(cv, everything.s.size, name)
    refuse_split_groups(pairs, groups, name)
    return counted_folds(pairs, everything, name)


def splitter_groups(groups: NDArray[np.intp] | None) -> tuple[Any, ...]:
    """Return the arguments that pass `groups` to a splitter.

    Without groups there are no arguments, because not every splitter accepts groups.
    """
    return () if groups is None else (groups,)


def _numbered(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.asarray(np.unique(groups, return_inverse=True)[1], dtype=np.intp)


def refuse_split_groups(folds: Iterable[Fold], groups: NDArray[np.intp] | None, name: str) -> None:
    """Raise an error if the training rows and the test rows of a fold share a group."""
    if groups is None:
        return
    for train, test in folds:
        if np.intersect1d(groups[train], groups[test]).size:
            raise ValueError(
                f"{name} has a fold whose training rows and test rows share a group. Give a number of folds, or a "
                "splitter that keeps groups together, such as StratifiedGroupKFold(5)."
            )


def refuse_odd_cv(cv: Any, name: str) -> None:
    """Raise an error unless `cv` is None, a number, a splitter, or a list."""
    odd = isinstance(cv, bool | np.bool_ | str | bytes | Mapping | type)
    known = cv is None or isinstance(cv, int | np.integer) or hasattr(cv, "split") or np.iterable(cv)
    if odd or not known:
        raise ValueError(
            f"{name} must be a number of folds, a splitter such as StratifiedKFold(5), or a list of pairs (training "
            f"rows, test rows); got {shown(cv)}."
        )


def counted_folds(folds: Iterable[Any], training: Training, name: str) -> list[Fold]:
    """Convert folds of all rows, given as indices or masks, to indices that count only rows with a positive weight."""
    s, counts = training.s, training.weight > 0
    number = np.cumsum(counts) - 1
    kept = [tuple(rows[counts[rows]] for rows in pair) for pair in check_pairs(folds, counts.size, name)]
    checked = [(number[train], number[test]) for train, test in kept]
    refuse_one_sided(checked, s[counts])
    return checked


def check_pairs(folds: Iterable[Any], n_rows: int, name: str) -> list[Fold]:
    """Check pairs of training rows and test rows, given as indices or masks, and convert them to indices."""
    pairs = [_check_pair(fold, i, n_rows, name) for i, fold in enumerate(folds)]
    if not pairs:
        raise ValueError(
            f"{name} has no folds. If it is a generator, it is empty after one fit: make it again, as a list. "
            f"Otherwise, give a number of folds, such as {name}=5."
        )
    return pairs


def _check_pair(fold: Any, i: int, n_rows: int, name: str) -> Fold:
    """Return the indices of the training rows and of the test rows."""
    parts = list(fold) if np.iterable(fold) else []
    if len(parts) != 2 or isinstance(fold, str | bytes):
        raise ValueError(
            f"{name} must contain pairs (training rows, test rows); its entry {i} (counted from 0) is {shown(fold)}."
        )
    return _check_rows(parts[0], i, n_rows, name), _check_rows(parts[1], i, n_rows, name)


def _check_rows(part: Any, i: int, n_rows: int, name: str) -> NDArray[np.intp]:
    rows = plain_array(part, f"entry {i} of {name}")
    if rows.size == 0:
        return np.zeros(0, dtype=np.intp)
    if rows.ndim != 1 or rows.dtype.kind not in "iub" or (rows.dtype.kind == "b" and rows.size != n_rows):
        raise ValueError(
            f"{name} must select rows by index, or by a boolean mask of length {n_rows}; its entry {i} (counted from "
            f"0) contains {shown(part)}."
        )
    outside = (rows < -n_rows) | (rows >= n_rows) if rows.dtype.kind != "b" else np.zeros(1, dtype=bool)
    if outside.any():
        raise ValueError(
            f"{name} has the row index {rows[outside][0]}, but there are {n_rows} rows. Use indices from 0 to "
            f"{n_rows - 1}."
        )
    return np.arange(n_rows)[rows]


def refuse_one_sided(folds: list[Fold], s: Vector) -> None:
    """Raise an error if a fold has no test rows, or if its training rows are all labelled or all unlabelled."""
    for train, test in folds:
        if np.unique(s[train]).size < 2 or not test.size:
            raise ValueError(_ONE_SIDED)


_ONE_SIDED = (
    "cv has a fold without test rows, or a fold whose training rows are all labelled or all unlabelled. Give a smaller "
    "number of folds, such as cv=2. For rows in memory, a stratified splitter also helps: StratifiedKFold(2), or "
    "StratifiedGroupKFold(2) with groups."
)
#: In tables with at least these numbers of rows and of labels, a hash of each row determines its fold. In such large
#: tables, random folds are nearly stratified. By judgement.
MIN_ROWS_TO_HASH, MIN_LABELS_TO_HASH = 100_000, 1000


class FoldedRows(NamedTuple):
    """Rows of an engine, with folds.

    The row values are either the index of the row's fold, or, for each fold, the number of times that the row is a
    training row and the number of times that it is a test row.
    """

    engine: Engine
    n_folds: int

    @classmethod
    def of(cls, engine: Engine, folds: list[Fold]) -> "FoldedRows":
        """Attach folds, given as indices of training rows and test rows, to the rows of an engine."""
        fits, scores = np.zeros((2, engine.n_rows, len(folds)), dtype=np.int16)
        for i, (train, test) in enumerate(folds):
            np.add.at(fits[:, i], train, 1)
            np.add.at(scores[:, i], test, 1)
        return cls(attach(engine, fits=fits, scores=scores), len(folds))

    def to_fit(self, fold: int) -> Engine:
        """Return the training rows of a fold."""
        return self.engine.derive(_fitted, fold)

    def with_out_of_fold_logits(self, models: list[Vector]) -> Engine:
        """Return the rows with the out-of-fold logit ``u``, given one linear model for each fold.

        A row that is a test row of several folds gets the mean of their logits. A row that is never a test row gets
        weight 0.
        """
        return self.engine.derive(held_out_logits, models, keep=True)

    def scored_totals(self) -> list[RowTotals]:
        """Return the totals of the test rows of each fold."""
        return [row_totals(self.engine.derive(_scored, fold)) for fold in range(self.n_folds)]

    def tested_weight(self) -> float:
        """Return the weight of all test rows. A row that is a test row of several folds counts once."""
        return float(self.engine.total(_block_tested, self.n_folds)[0])


def require_number_of_folds(cv: Any, name: str) -> None:
    """Raise an error unless `cv` is a number of folds, as required for rows that are not in memory."""
    if not isinstance(cv, int | np.integer) or isinstance(cv, bool):
        refuse_odd_cv(cv, name)
        raise ValueError(
            f"{name} must be a number of folds if the rows of X are not in memory; got {cv!r}. Use, for example, "
            f"{name}=5."
        )


def fold_rows(
    cv: Any,
    labelled: LabelledRows,
    random_state: Any,
    *,
    name: str,
    audit: NDArray[np.int8] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> FoldedRows:
    """Check `cv` (a number, a splitter or a list) and attach its folds to the rows.

    If `cv` is a number, the folds are also stratified by `audit`, and the rows of a group are in one fold.
    """
    engine = labelled.engine
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        n_folds, rng = check_whole(cv, name, at_least=2), check_random_stream(random_state)
        folded = _with_stratified_folds(engine, labelled.totals, n_folds, rng, audit, groups)
    else:
        refuse_odd_cv(cv, name)
        table = getattr(engine, "X", None)
        if table is None:
            require_number_of_folds(cv, name)
        if cv is None or hasattr(cv, "split"):
            s = engine.collect(_labels)
            cv = check_cv(cv, s, classifier=True).split(table, s, *splitter_groups(groups))
        pairs = check_pairs(cv, engine.n_rows, name)
        refuse_split_groups(pairs, groups, name)
        folded = FoldedRows.of(engine, pairs)
    for fold, scored in enumerate(folded.scored_totals()):
        fitted = row_totals(folded.to_fit(fold))
        if not (fitted.labelled > 0 and fitted.unlabelled > 0 and scored.n_rows > 0):
            raise ValueError(_ONE_SIDED)
    return folded


def _with_stratified_folds(
    engine: Engine,
    totals: RowTotals,
    n_folds: int,
    rng: np.random.Generator,
    audit: NDArray[np.int8] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> FoldedRows:
    """Attach stratified folds to the rows; the folds do not depend on the order of rows.

    Equal rows, or the rows of a group, are in one fold. In large tables without groups, a hash of a row's attributes
    determines its fold.
    """
    many = totals.n_rows >= MIN_ROWS_TO_HASH and totals.labelled >= MIN_LABELS_TO_HASH and groups is None
    salts = refined_salts(engine.total(_block_salts)[0].values, lambda at: engine.total(_block_refined, at)[0].values)
    if many and audit is None:
        return FoldedRows(engine.derive(_hashed, int(rng.integers(2**63)), n_folds, salts, keep=True), n_folds)
    if many:
        return FoldedRows(_stratify_audited_rows(engine, n_folds, rng, salts), n_folds)
    s, w = engine.collect(_labels), engine.collect(_weights)
    fold, counts = np.zeros(s.size, dtype=np.int16), w > 0
    if groups is None:
        group = numbered(engine.collect(_keys, salts)[counts], engine.collect(_exact_keys)[counts])
    else:
        group = np.unique(groups[counts], return_inverse=True)[1]
    among = None if audit is None else audit[counts]
    fold[counts] = assign_groups(group, s[counts], w[counts], n_folds, rng, among, named=groups is not None)
    return FoldedRows(attach(engine, fold=fold), int(fold.max()) + 1)


def _stratify_audited_rows(engine: Engine, n_folds: int, rng: np.random.Generator, salts: NDArray[np.uint64]) -> Engine:
    """Attach folds to the rows of a large table with audits.

    Audited rows, and rows equal to an audited row, are collected from the engine and stratified. A hash determines the
    folds of all other rows.
    """
    seed, checked = int(rng.integers(2**63)), np.unique(engine.collect(_keys_of_audited_rows, salts))
    if not checked.size:  # there are no audits of rows with a positive weight
        return engine.derive(_hashed, seed, n_folds, salts, keep=True)
    key = engine.collect(_keys_among, checked, salts)
    s, w, audit = (
        engine.collect(_values_of_rows_with_keys, each, checked, salts) for each in (_labels, _weights, _audits)
    )
    known, first, group = np.unique(key, return_index=True, return_inverse=True)
    fold = np.asarray(assign_strata(group, s, audit, w, n_folds, rng))
    return engine.derive(_hashed_except, seed, n_folds, salts, known, fold[first].astype(np.int16), keep=True)


def times_scored(rows: Rows, fold: int) -> Any:
    """Return the number of times that each row of a block is a test row of a fold."""
    return in_float64(rows["scores"][:, fold] if "scores" in rows else rows["fold"] == fold)


def _times_fitted(rows: Rows, fold: int) -> Any:
    return in_float64(rows["fits"][:, fold] if "fits" in rows else rows["fold"] != fold)


def _fitted(X: Any, rows: Rows, fold: int) -> dict[str, Any]:
    return {"w": rows["w"] * _times_fitted(rows, fold)}


def _scored(X: Any, rows: Rows, fold: int) -> dict[str, Any]:
    return {"w": rows["w"] * times_scored(rows, fold)}


def held_out_logits(X: Any, rows: Rows, models: list[Vector]) -> dict[str, Any]:
    """Return the out-of-fold logit ``u`` and the weight of each row of a block.

    A row that is never a test row has weight 0.
    """
    if (xp := namespace_of(X)) is not np:  # on a device, it is faster to apply every model to all rows
        scores = [in_float64(times_scored(rows, fold) > 0) for fold in range(len(models))]
        lines = [block_products(X, beta[:, None])[:, 0] * each for beta, each in zip(models, scores, strict=True)]
        total = sum(scores[1:], scores[0])
        u = sum(lines[1:], lines[0]) / at_least(total, 1.0)
        return {"u": u, "w": xp.where(total > 0, rows["w"], 0.0)}
    u, times = np.zeros(rows.size), np.zeros(rows.size)
    for fold, beta in enumerate(models):
        scored = times_scored(rows, fold) > 0
        u[scored] += block_products(X[scored], beta[:, None])[:, 0]
        times += scored
    return {"u": u / np.maximum(times, 1.0), "w": np.where(times > 0, rows["w"], 0.0)}


def block_products(X: Any, models: Matrix) -> Matrix:
    """Return the logits that several linear models give to rows, one column for each model.

    The last row of `models` contains the intercepts.
    """
    used = np.flatnonzero(models[:-1].any(axis=1))
    seen = X if used.size == X.shape[1] else Design.of(used).take(X)
    products = in_float64(seen @ like(X, models[used]))
    return products + like(products, models[-1])


def _block_tested(X: Any, rows: Rows, n_folds: int) -> tuple[Any]:
    times = sum(times_scored(rows, fold) for fold in range(1, n_folds)) + times_scored(rows, 0)
    return (rows["w"] @ in_float64(times > 0),)


def _hashed(X: Any, rows: Rows, seed: int, n_folds: int, salts: NDArray[np.uint64]) -> dict[str, Any]:
    return {"fold": fold_of_keys(row_keys(in_numpy(X), salts), seed, n_folds).astype(np.int16)}


def _hashed_except(
    X: Any,
    rows: Rows,
    seed: int,
    n_folds: int,
    salts: NDArray[np.uint64],
    known: NDArray[np.uint64],
    folds: NDArray[np.int16],
) -> dict[str, Any]:
    """Return the fold of each row: from `folds` if the row's key is in `known`, and by hash otherwise."""
    key = row_keys(X, salts)
    place = np.minimum(np.searchsorted(known, key), known.size - 1)
    chance = fold_of_keys(key, seed, n_folds).astype(np.int16)
    return {"fold": np.where(known[place] == key, folds[place], chance)}


def _keys_of_audited_rows(X: Any, rows: Rows, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return row_keys(X, salts)[(rows["audit"] >= 0) & (rows["w"] > 0)]


def _values_of_rows_with_keys(
    X: Any, rows: Rows, values: Any, keys: NDArray[np.uint64], salts: NDArray[np.uint64]
) -> NDArray[Any]:
    """Return values of the rows with one of these keys."""
    return np.asarray(values(X, rows)[np.isin(row_keys(X, salts), keys) & (rows["w"] > 0)])


def _keys_among(X: Any, rows: Rows, keys: NDArray[np.uint64], salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    key = row_keys(X, salts)
    return key[np.isin(key, keys) & (rows["w"] > 0)]


def _audits(X: Any, rows: Rows) -> NDArray[np.int8]:
    return np.asarray(rows["audit"])


def _block_salts(X: Any, rows: Rows) -> tuple[Wrapped]:
    return (Wrapped(column_salts(in_numpy(X), in_numpy(rows["w"]))),)


def _block_refined(X: Any, rows: Rows, salts: NDArray[np.uint64]) -> tuple[Wrapped]:
    return (Wrapped(salts_by_rows(in_numpy(X), salts, in_numpy(rows["s"]), in_numpy(rows["w"]))),)


def _keys(X: Any, rows: Rows, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return row_keys(in_numpy(X), salts)


def _exact_keys(X: Any, rows: Rows) -> NDArray[np.uint64]:
    return exact_keys(in_numpy(X))


def _labels(X: Any, rows: Rows) -> Vector:
    return np.asarray(in_numpy(rows["s"]))


def _weights(X: Any, rows: Rows) -> Vector:
    return np.asarray(in_numpy(rows["w"]))
