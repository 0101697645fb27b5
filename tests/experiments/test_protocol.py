"""The protocol: attributes from clusters, stratified splits, labels, and the columns that each model sees."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from scarless.experiments import Cell, protocol
from scarless.experiments.methods import METHODS, Bench, KeptFits
from scarless.experiments.protocol import Prepared, Split, label, prepare, split_rows
from scarless.papers.bekker2019 import specification

SPEC = replace(specification(), datasets=("blobs",), clusters=5)
CELL = Cell("blobs", "all", 4, 0, 0)


@pytest.fixture(autouse=True)
def one_thread():
    """Small clusterings by several threads are slow on a busy machine."""
    with threadpool_limits(1):
        yield


def blobs(rows_each=40):
    """Five well-separated clusters of rows, and classes that are unrelated to the clusters."""
    rng = np.random.default_rng(0)
    heap = np.repeat(np.arange(5), rows_each)
    X = np.column_stack([10.0 * heap, rng.normal(size=heap.size)])
    return X, rng.integers(2, size=heap.size).astype(float), heap


class Rigged:
    """A random generator with given probabilities for each cluster, and draws that are all one half."""

    def __init__(self, chances):
        self.chances = np.array(chances)

    def random(self, size):
        return self.chances if size == 5 else np.full(size, 0.5)

    def integers(self, high):
        return 0

    def choice(self, n, size, replace):
        return np.arange(n)[:: n // size][:size]


@pytest.mark.parametrize("chances", [[0, 1, 0.4, 0.6, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
@pytest.mark.parametrize("rows_for_clusters", [20_000, 25])
def test_an_added_attribute_depends_on_the_cluster_alone(monkeypatch, chances, rows_for_clusters):
    monkeypatch.setattr(protocol, "ROWS_FOR_CLUSTERS", rows_for_clusters)
    X, _, heap = blobs()
    attribute = protocol._attribute(X, 5, Rigged(chances))
    per_heap = [set(attribute[heap == h]) for h in range(5)]
    assert all(len(values) == 1 for values in per_heap)
    assert sorted(values.pop() for values in per_heap) == sorted(1.0 if c > 0.5 else -1.0 for c in chances)


def test_probabilities_differ_between_clusters_and_attributes():
    X, y, heap = blobs(rows_each=2000)
    data = prepare(SPEC, "blobs", X, y)
    shares = np.array([(data.X[heap == h, 2:] == 1).mean(axis=0) for h in range(5)])
    assert shares.shape == (5, 4)
    assert np.ptp(shares, axis=0).min() > 0.1
    assert np.ptp(shares, axis=1).min() > 0.1
    for h in range(5):  # within a cluster, the draws are independent of the attributes and the class
        rows = heap == h
        for column in range(2, 6):
            if 0 < (data.X[rows, column] == 1).mean() < 1:
                for other in (X[rows, 1], y[rows]):
                    assert abs(np.corrcoef(data.X[rows, column], other)[0, 1]) < 5 / np.sqrt(2000)


def test_added_attributes_are_plus_and_minus_one_after_the_datasets_own():
    X, y, _ = blobs()
    data = prepare(SPEC, "blobs", X, y)
    assert_array_equal(data.X[:, :2], X)
    assert data.X.shape[1] == 2 + SPEC.added_attributes
    assert set(np.unique(data.X[:, 2:])) == {-1.0, 1.0}
    assert (data.n_original, data.y.dtype) == (2, np.float64)


def test_added_attributes_are_independent_of_the_class():
    X, y, _ = blobs()
    assert_array_equal(prepare(SPEC, "blobs", X, y).X, prepare(SPEC, "blobs", X, 1 - y).X)


def test_added_attributes_depend_on_seed_and_name_and_on_nothing_else():
    X, y, _ = blobs()
    data = prepare(SPEC, "blobs", X, y)
    assert_array_equal(prepare(replace(SPEC, n_splits=1, C=3.0, datasets=("a", "b")), "blobs", X, y).X, data.X)
    assert (prepare(SPEC, "heaps", X, y).X != data.X).any()
    assert (prepare(replace(SPEC, seed=1), "blobs", X, y).X != data.X).any()


def test_fewer_added_attributes_are_the_first_of_more():
    X, y, _ = blobs()
    few = prepare(replace(SPEC, added_attributes=2), "blobs", X, y)
    assert_array_equal(few.X, prepare(SPEC, "blobs", X, y).X[:, :4])


def numbered(n=103, positives=31):
    """Rows that contain their own number."""
    y = np.zeros(n)
    y[np.random.default_rng(1).permutation(n)[:positives]] = 1.0
    X = np.column_stack([np.arange(n, dtype=float), np.where(np.arange(n) % 2, 1.0, -1.0)])
    return Prepared(X, y, 1)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_splits_are_disjoint_complete_and_stratified(share):
    data = numbered()
    for number in range(5):
        split = split_rows(replace(SPEC, test_share=share), "blobs", number, data)
        train, test = (X[:, 0].astype(int) for X in (split.X_train, split.X_test))
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(103))
        assert_array_equal(split.y_train, data.y[train])
        assert_array_equal(split.y_test, data.y[test])
        assert test.size == np.ceil(103 * share)
        assert abs(split.y_test.sum() - test.size * 31 / 103) < 1
        assert split.n_original == 1


def test_splits_differ_by_number_and_dataset_and_repeat():
    data = numbered()
    tests = [
        tuple(split_rows(SPEC, dataset, number, data).X_test[:, 0])
        for dataset, number in product(("blobs", "heaps"), range(5))
    ]
    assert len(set(tests)) == 10
    assert tuple(split_rows(replace(SPEC, n_splits=9), "blobs", 3, data).X_test[:, 0]) == tests[3]


def all_patterns(repeats=1, n_original=2):
    """A split whose rows have every pattern of four added attributes, all positive."""
    patterns = np.array(list(product((-1.0, 1.0), repeat=4)) * repeats)
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=(len(patterns), n_original)), patterns])
    y = np.ones(len(patterns))
    return Split(X, y, X[::-1], y, n_original)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.8), (0.01, 1.0)])
def test_propensities_are_the_papers_product_over_the_first_k_attributes(k, low, high):
    split = all_patterns()
    task = label(replace(SPEC, low=low, high=high), replace(CELL, k=k), split)
    for X, found in ((split.X_train, task.e_train), (split.X_test, task.e_test)):
        coded = (X[:, 2 : 2 + k] + 1) / 2
        expected = [np.prod([(low ** (1 - x) * high**x) ** (1 / k) for x in row]) for row in coded]
        assert_allclose(found, expected, rtol=1e-12)
        assert len(np.unique(found.round(10))) == k + 1


def test_propensities_do_not_depend_on_which_patterns_a_part_has():
    split = all_patterns()
    one_pattern = replace(split, X_test=split.X_train[:1], y_test=np.ones(1))
    assert_allclose(label(SPEC, CELL, one_pattern).e_test, [0.2])


def half_positive(repeats=20):
    split = all_patterns(repeats)
    y = (np.arange(16 * repeats) % 3 == 0).astype(float)
    return replace(split, y_train=y, y_test=y[::-1])


def test_only_positives_are_labelled():
    for labelling in range(5):
        task = label(SPEC, replace(CELL, labelling=labelling), half_positive())
        assert set(np.unique(task.s_train)) == {0.0, 1.0}
        assert not task.s_train[task.split.y_train == 0].any()


def test_labels_come_as_often_as_the_propensity_says():
    split = half_positive()
    drawn = np.mean([label(SPEC, replace(CELL, labelling=i), split).s_train for i in range(300)], axis=0)
    e = label(SPEC, CELL, split).e_train
    positive = split.y_train == 1
    z = (drawn - e)[positive] / np.sqrt(e * (1 - e) / 300)[positive]
    assert abs(z.mean()) < 4 / np.sqrt(positive.sum())
    assert 0.7 < z.std() < 1.3


def test_both_settings_of_a_cell_share_labels_but_not_the_methods_seed():
    seen, hidden = (label(SPEC, replace(CELL, setting=setting), half_positive()) for setting in ("all", "original"))
    assert_array_equal(seen.s_train, hidden.s_train)
    assert_array_equal(seen.e_train, hidden.e_train)
    assert seen.seed != hidden.seed


def test_labels_differ_by_labelling_split_number_of_attributes_and_dataset():
    cells = [
        replace(CELL, labelling=labelling, split=split, k=k, dataset=dataset)
        for labelling, split, k, dataset in product(range(3), range(2), (2, 4), ("blobs", "heaps"))
    ]
    labels = {label(SPEC, cell, half_positive()).s_train.tobytes() for cell in cells}
    assert len(labels) == len(cells)
    repeated = label(replace(SPEC, n_labellings=1, methods=("naive",)), cells[3], half_positive())
    assert_array_equal(repeated.s_train, label(SPEC, cells[3], half_positive()).s_train)


@pytest.mark.parametrize("k", [2, 4])
def test_original_hides_all_added_attributes_from_the_classifier(k):
    split = half_positive()
    task = label(SPEC, replace(CELL, setting="original", k=k), split)
    assert_array_equal(task.class_columns, [0, 1])
    assert_array_equal(task.propensity_columns, range(2, 2 + k))
    assert_array_equal(task.seen_train, split.X_train[:, :2])
    assert_array_equal(task.seen_test, split.X_test[:, :2])


def test_all_shows_every_added_attribute_to_the_classifier():
    split = half_positive()
    task = label(SPEC, replace(CELL, setting="all", k=2), split)
    assert_array_equal(task.class_columns, range(6))
    assert_array_equal(task.propensity_columns, [2, 3])
    assert_array_equal(task.seen_train, split.X_train)
    assert_array_equal(task.seen_test, split.X_test)


@pytest.mark.parametrize(("setting", "seen"), [("all", range(6)), ("original", range(2))])
@pytest.mark.parametrize("k", [2, 4])
def test_the_propensity_model_sees_what_drives_the_labelling_in_both_settings(setting, seen, k):
    bench = Bench(SPEC, label(SPEC, replace(CELL, setting=setting, k=k), half_positive()), KeptFits())
    METHODS["sar-em"](bench)
    pair = bench.of_cell.made["pair"].result
    assert_array_equal(np.flatnonzero(pair.coef_[0]), seen)
    assert_array_equal(np.flatnonzero(pair.propensity_coef_[0]), range(2, 2 + k))


def test_hidden_attributes_change_no_prediction_of_the_class():
    """In the setting `original` the class probabilities of test rows do not change with their added attributes."""
    split = half_positive()
    flipped = replace(split, X_test=split.X_test * np.array([1, 1, -1, -1, -1, -1]))
    spec = replace(SPEC, km_max_rows=60)
    for method in METHODS:
        tasks = [label(spec, replace(CELL, setting="original"), part) for part in (split, flipped)]
        here, there = (METHODS[method](Bench(spec, task, KeptFits())).f for task in tasks)
        assert_allclose(here, there, rtol=1e-12)
