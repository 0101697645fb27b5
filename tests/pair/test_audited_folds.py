"""Folds with audits: stratified by audited class and by label, with equal rows in one fold."""

import numpy as np
import pytest

from scarless.checks.labels import check_labels
from scarless.engines import attach
from scarless.pair import folds as folded
from scarless.pair.folds import assign_groups, fold_rows, folds_of
from scarless.pair.logistic import Training, in_memory, labelled_rows


def made(n=403, seed=0):
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.3).astype(float)
    audit = np.where(rng.random(n) < 0.2, np.maximum(rng.integers(0, 2, n), s), -1).astype(np.int8)
    audit[rng.permutation(np.flatnonzero(s))[:7]] = 0  # false positives that an audit found
    return s, audit


def spread(mask, fold, n_folds=5):
    counts = np.bincount(fold[mask], minlength=n_folds)
    return counts.max() - counts.min()


@pytest.mark.parametrize("seed", range(5))
def test_every_stratum_is_spread_evenly_over_folds(seed):
    s, audit = made(seed=seed)
    fold = assign_groups(np.arange(s.size), s, np.ones(s.size), 5, np.random.default_rng(seed), audit)
    for mask in (audit == 1, audit == 0, s == 1, (audit == -1) & (s == 1), (audit == 1) & (s == 0), s >= 0):
        assert spread(mask, fold) <= 1


def test_without_audits_folds_are_stratified_by_labels_only():
    s, _ = made()
    none = np.full(s.size, -1, dtype=np.int8)
    alone, beside = (
        assign_groups(np.arange(s.size), s, np.ones(s.size), 5, np.random.default_rng(0), audit)
        for audit in (None, none)
    )
    np.testing.assert_array_equal(alone, beside)


def test_rows_are_assigned_by_weight_and_groups_stay_together():
    s, audit = made()
    rng = np.random.default_rng(1)
    group = rng.integers(0, 150, s.size)
    group = np.unique(group, return_inverse=True)[1]
    w = rng.integers(1, 4, s.size).astype(float)
    fold = assign_groups(group, s, w, 5, rng, audit)
    assert all(np.unique(fold[group == each]).size == 1 for each in range(group.max() + 1))
    single = assign_groups(np.arange(s.size), s, w, 5, rng, audit)
    for value in (0, 1):
        weights = np.bincount(single[audit == value], weights=w[audit == value], minlength=5)
        assert np.ptp(weights) <= 2 * w.max()


@pytest.mark.parametrize("many", [False, True])
def test_folds_of_an_engine_are_stratified_and_contain_each_row_once(monkeypatch, many):
    if many:
        monkeypatch.setattr(folded, "MIN_ROWS_TO_HASH", 100)
        monkeypatch.setattr(folded, "MIN_LABELS_TO_HASH", 10)
    s, audit = made()
    X = np.random.default_rng(2).normal(size=(s.size, 3))
    X[1] = X[0] if audit[0] < 0 else X[1]
    rows = labelled_rows(Training(X, s, np.ones(s.size)), check_labels(s))
    rows = rows._replace(engine=attach(rows.engine, audit=audit))
    found = fold_rows(5, rows, 0, name="cv", audit=audit)
    fold = in_memory(found.engine, "fold")
    assert spread(audit == 1, fold) <= 1
    assert spread(audit == 0, fold) <= 1
    tests = np.sort(np.concatenate([test for _, test in folds_of(fold.astype(np.intp))]))
    np.testing.assert_array_equal(tests, np.arange(s.size))
