"""TIcE: bounds compared with enumeration, and the search with a plain Python and with an exhaustive search."""

import importlib.util
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import binom

from scarless.label_frequency import tice
from scarless.label_frequency.tice import (
    FoundSubset,
    Subset,
    SubsetTree,
    TIcE,
    bound_variance,
    cut_into_ranges,
    error_probability,
    lower_bound,
)

OPTIONS = {"n_iterations": 2, "max_splits": 500, "min_rows": 10, "max_bepp": 5, "delta": None}


def load_plain():
    """Load the plain implementation of the benchmark from its file, without the repository on the path."""
    path = Path(__file__).parents[2] / "benchmarks" / "plain_tice.py"
    spec = importlib.util.spec_from_file_location("plain_tice", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = load_plain()


class Bounds(NamedTuple):
    """Results of the searches by iteration and fold, and the subsets of the last iteration."""

    bounds: np.ndarray
    n_splits: np.ndarray
    subsets: list


def bounds_of(codes, s, folds, w=None, **options):
    """Return the bounds for a table of codes; each column must have a row in its first and in its last range."""
    table = cut_into_ranges(np.asarray(codes, dtype=float), int(np.max(codes, initial=1)) + 1)
    found = TIcE(**(OPTIONS | options))._bounds(table, np.asarray(s, float), np.asarray(folds), w)
    bounds, n_splits = (np.array([[fold[i] for fold in folds] for folds in found]) for i in (0, 2))
    return Bounds(bounds, n_splits, [(best.path, best.n_rows, best.n_labelled) for _, best, _ in found[-1]])


def grow(codes, s, own, variance=1.0):
    """Return the tree that is grown on the rows `own`."""
    table = cut_into_ranges(np.asarray(codes, dtype=float), int(np.max(codes)) + 1)
    return SubsetTree(table, np.asarray(s) == 1, own, None, variance, 5.0)


def random_problem(seed, n, d, n_ranges, n_folds=5, c=0.5):
    """Return a table of codes, labels and folds; positives have low codes, and all columns have the full range."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.integers(0, n_ranges, (n, d)), rng.integers(0, n_ranges, (n, d)))
    for j in np.flatnonzero(rng.random(d) < 0.5):  # columns with an empty range, among them some with two ranges only
        codes[codes[:, j] == rng.integers(1, n_ranges), j] = 0
    codes[0], codes[1] = 0, n_ranges - 1
    y = rng.random(n) < 0.1 + 0.8 * (codes[:, : 1 + d // 3] == 0).mean(axis=1) ** 2
    return codes, (y & (rng.random(n) < c)).astype(float), rng.permutation(n) % n_folds


# --- the bound


@pytest.mark.parametrize("n_rows", [1, 2, 7, 40])
@pytest.mark.parametrize("delta", [0.025, 0.2, 0.5])
def test_a_bound_is_too_high_with_probability_delta_at_most(n_rows, delta):
    L = np.arange(n_rows + 1)
    for c in np.linspace(0.01, 0.99, 40):
        too_high = lower_bound(n_rows, L, bound_variance(c, delta)) > c
        for positive in (0.2, 0.6, 1.0):  # Negatives only lower the bound.
            assert binom.pmf(L, n_rows, c * positive)[too_high].sum() <= delta * (1 + 1e-12)


def test_no_higher_bound_is_valid():
    """One positive row, c just below delta: the bound is too high whenever the row is labelled, which is delta."""
    delta = 0.2
    for c, too_high in [(delta * (1 - 1e-6), True), (delta * (1 + 1e-6), False)]:
        assert (lower_bound(1, 1, bound_variance(c, delta)) > c) == too_high


def test_error_probability():
    assert error_probability(0) == 1.0
    assert error_probability(1000) == pytest.approx(0.2)
    assert error_probability(9750) == pytest.approx(0.025)
    assert error_probability(10**7) == 0.025


@given(st.integers(1, 60), st.integers(0, 200), st.floats(0.01, 0.99), st.floats(0.02, 0.98))
def test_no_subset_has_a_higher_bound_than_its_labelled_rows_alone(n_labelled, n_others, c, delta):
    variance = bound_variance(c, delta)
    alone = lower_bound(n_labelled, n_labelled, variance)
    assert lower_bound(n_labelled + n_others, n_labelled, variance) <= max(alone, 0.0) + 1e-12


# --- the search


@pytest.mark.parametrize(
    ("n", "d", "n_ranges", "c"), [(40, 3, 2, 0.9), (300, 6, 4, 0.5), (900, 10, 3, 0.3), (2500, 12, 4, 0.6)]
)
@pytest.mark.parametrize("seed", range(4))
def test_same_trees_and_same_bounds_as_plain_python(n, d, n_ranges, c, seed):
    codes, s, folds = random_problem(seed, n, d, n_ranges, c=c)
    expected = plain.plain_tice(codes, s, folds)
    found = bounds_of(codes, s, folds)
    assert found.bounds.tolist() == expected.bounds
    assert found.n_splits.tolist() == expected.n_splits


def test_the_comparison_is_of_large_trees():
    found = bounds_of(*random_problem(0, 2500, 12, 4, c=0.6))
    assert found.n_splits.min() > 20
    assert max(len(path) for path, _, _ in found.subsets) > 1


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 400),
    d=st.integers(1, 6),
    n_ranges=st.integers(2, 5),
    n_folds=st.integers(2, 6),
    options=st.fixed_dictionaries(
        {
            "n_iterations": st.integers(1, 3),
            "max_splits": st.integers(1, 12),
            "min_rows": st.integers(1, 12),
            "max_bepp": st.sampled_from([0.5, 5, 20.0]),
            "delta": st.sampled_from([None, 0.01, 0.3, 0.9]),
        }
    ),
)
def test_same_as_plain_python_with_any_options(seed, n, d, n_ranges, n_folds, options):
    codes, s, folds = random_problem(seed, n, d, n_ranges, n_folds)
    expected = plain.plain_tice(codes, s, folds, **options)
    found = bounds_of(codes, s, folds, **options)
    assert found.bounds.tolist() == expected.bounds
    assert found.n_splits.tolist() == expected.n_splits


def test_plain_python_gives_the_same_if_it_tries_idle_attributes_again():
    problem = random_problem(3, 600, 8, 3)
    assert plain.plain_tice(*problem, forget_idle=False) == plain.plain_tice(*problem)


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (tice, "_SUBSETS_CUT_AHEAD", 0),
        (tice, "_SUBSETS_CUT_AHEAD", 1),
        (tice, "_SUBSETS_CUT_AHEAD", 10**6),
        (tice, "_BLOCK_ROWS", 7),
    ],
)
def test_block_sizes_change_no_result(monkeypatch, module, name, value):
    problem = random_problem(5, 2500, 12, 4)
    expected = bounds_of(*problem, max_splits=40)
    monkeypatch.setattr(module, name, value)
    found = bounds_of(*problem, max_splits=40)
    assert found.bounds.tolist() == expected.bounds.tolist()
    assert found.n_splits.tolist() == expected.n_splits.tolist()
    assert found.subsets == expected.subsets


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_1_count_each_row_once(seed):
    """Sums of ones are whole numbers, to the last bit."""
    problem = random_problem(seed, 1500, 8, 4)
    found, expected = bounds_of(*problem, w=np.ones(1500)), bounds_of(*problem)
    assert found.bounds.tolist() == expected.bounds.tolist()
    assert found.n_splits.tolist() == expected.n_splits.tolist()
    assert found.subsets == expected.subsets


@pytest.mark.parametrize(
    ("tree", "best"),
    [
        ([(0, 1, 13, 6), (0, 0, 7, 4), (1, 1, 25, 13), (1, 0, 15, 7)], 1),  # the second child has twice as many rows
        ([(0, 1, 20, 10), (0, 0, 20, 10), (1, 1, 20, 10), (1, 0, 20, 10)], 0),
    ],
    ids=["the one with more labelled rows", "the one that was found first"],
)
def test_which_of_two_equal_subsets_is_cut_first(tree, best):
    """Half of the rows of both children of the root are labelled; without a variance their bounds are equal.

    The second of two splits cuts one child. Only the child that should be cut first has a part with labels only.
    """
    others = [(a, b, 10 if b else 30, (9 + (a == best)) * b) for a in (0, 1) for b in (0, 1)]
    rows = [((a, b), i < L, fold) for fold, part in enumerate((tree, others)) for a, b, T, L in part for i in range(T)]
    codes, labelled, folds = map(np.array, zip(*rows, strict=True))
    found = tice.search(grow(codes, labelled, folds == 0, 1e-9), variance=0.0, max_splits=2, min_rows=1)
    assert (found.bound, found.n_splits) == (1.0, 2)


def exhaustive(codes, s, folds, fold, c, *, min_rows=10, max_bepp=5):
    """Return the highest bound over the whole tree of a fold, with every possible node cut."""
    n_tree, n_others = np.sum(folds == fold), np.sum(folds != fold)
    delta = error_probability(n_others)
    share = s[folds == fold].mean()
    best = s[folds != fold].mean()
    stack = [np.ones(s.size, dtype=bool)]
    while stack:
        rows = stack.pop()
        tree, others = rows & (folds == fold), rows & (folds != fold)
        if tree.sum() <= min_rows or others.sum() < min_rows or s[tree].mean() in (0, 1):
            continue
        scores = []
        for column in codes.T:
            parts = [(column == k) for k in np.unique(column)]
            sizes = [((part & tree).sum(), s[part & tree].sum()) for part in parts]
            useful = max(L for _, L in sizes) * n_others / n_tree * (1 - share) ** 2 > bound_variance(0.5, delta)
            cuts = max(T for T, _ in sizes) < tree.sum()
            scores.append(max(L / (T + max_bepp) for T, L in sizes) if useful and cuts else -1.0)
        if max(scores) < 0:
            continue
        column = codes[:, int(np.argmax(scores))]
        for k in np.unique(column):
            part = rows & (column == k)
            T = np.sum(part & (folds != fold))
            if min_rows <= T:
                best = max(best, lower_bound(T, s[part & (folds != fold)].sum(), bound_variance(c, delta)))
            stack.append(part)
    return best


@pytest.mark.parametrize("seed", range(6))
def test_skipped_subsets_would_not_change_the_result(seed):
    codes, s, folds = random_problem(seed, 500, 5, 3)
    found = bounds_of(codes, s, folds, n_iterations=1, max_splits=10**6)
    assert found.bounds[0] == pytest.approx([exhaustive(codes, s, folds, fold, 0.5) for fold in range(5)], rel=1e-12)


# --- which rows do what


def two_parts(n_tree=200, n_others=800):
    """Fold 0 is the tree of interest; fold 1 holds all other rows."""
    return np.repeat([0, 1], [n_tree, n_others])


def test_the_bound_depends_on_the_other_rows_only():
    """In the tree's fold all rows of a region are labelled, elsewhere a third: a leak would push the bound up."""
    folds = two_parts()
    region = np.tile([1, 0], 500)
    others = folds == 1
    s = np.zeros(1000)
    s[(region == 1) & ~others] = 1
    s[np.flatnonzero((region == 1) & others)[: 400 // 3]] = 1
    found = bounds_of(region[:, None], s, folds, n_iterations=1)
    L, T = 400 // 3, 400
    delta = 1 / (1 + 0.004 * 800)
    assert found.bounds[0, 0] == L / T - np.sqrt(0.25 * ((1 - delta) / delta) / T)
    assert found.subsets[0] == (((0, 1),), T, L)


def test_the_tree_is_grown_on_its_own_rows_only():
    """The first attribute predicts labels in the tree's fold, the second in others; a leak would choose the second."""
    folds = two_parts()
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 1000))
    s = np.where(folds == 0, a, b) * (rng.random(1000) < 0.5)
    found = bounds_of(np.column_stack([a, b]), s, folds, n_iterations=1, max_splits=1)
    others = folds == 1
    variance = bound_variance(0.5, error_probability(800))
    bounds = [lower_bound(np.sum(others & (a == k)), s[others & (a == k)].sum(), variance) for k in (0, 1)]
    assert found.bounds[0, 0] == max(*bounds, s[others].mean())
    assert found.n_splits[0, 0] == 1
    leaked = lower_bound(np.sum(others & (b == 1)), s[others & (b == 1)].sum(), variance)
    assert leaked > found.bounds[0, 0] + 0.05


def test_labels_of_the_other_rows_do_not_affect_the_tree():
    codes, s, folds = random_problem(1, 1500, 8, 3)
    other = s.copy()
    others = folds != 0
    other[others] = np.random.default_rng(0).permutation(s[others])
    shapes = [[], []]
    for labels, shape in zip((s, other), shapes, strict=True):
        tree = grow(codes, labels, ~others)
        waiting = [tree.root]
        while waiting:
            subset = waiting.pop()
            shape.append((subset.path, subset.own_rows, subset.own_labelled))
            if 0 < subset.own_labelled < subset.own_rows:
                tree.cut([subset])
                waiting += subset.parts
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) > 20


def test_a_region_of_positives_gives_the_closed_form():
    """No row outside the region is labelled, so the bound of the region, or the share of all rows, is the best."""
    region = np.repeat([1, 0], [600, 1400])
    folds = np.tile(np.arange(5), 400)
    s = (region == 1) & (np.arange(2000) % 3 > 0)
    found = bounds_of(region[:, None], s, folds)
    delta = error_probability(1600)
    first = []
    for fold in range(5):
        inside = s[(folds != fold) & (region == 1)]
        first.append(lower_bound(inside.size, inside.sum(), bound_variance(0.5, delta)))
    assert found.bounds[0].tolist() == first
    second = bound_variance(float(np.mean(first)), delta)
    inside = s[(folds != 4) & (region == 1)]
    assert found.bounds[1, 4] == lower_bound(inside.size, inside.sum(), second)
    assert found.n_splits.tolist() == [[1] * 5] * 2


@pytest.mark.parametrize("seed", range(3))
def test_the_reported_subset_has_the_reported_bound(seed):
    codes, s, folds = random_problem(seed, 1500, 8, 4)
    found = bounds_of(codes, s, folds)
    c = found.bounds[0].mean()
    for fold, ((path, n_rows, n_labelled), bound) in enumerate(zip(found.subsets, found.bounds[1], strict=True)):
        rows = folds != fold
        for attribute, code in path:
            rows &= codes[:, attribute] == code
        assert (rows.sum(), s[rows].sum()) == (n_rows, n_labelled)
        variance = bound_variance(c, error_probability(np.sum(folds != fold)))
        assert bound == (lower_bound(n_rows, n_labelled, variance) if path else s[rows].mean())


@pytest.mark.parametrize("labelled", [0, 1])
def test_rows_of_one_kind_and_tables_without_attributes(labelled):
    folds = np.arange(40) % 5
    for codes in (np.zeros((40, 2)), np.arange(80).reshape(40, 2) % 3):
        found = bounds_of(codes.astype(int), np.full(40, labelled), folds)
        assert (found.bounds == labelled).all()
        assert (found.n_splits == 0).all()
    assert found.subsets[0][0] == ()


# --- ranges


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=2, max_size=40),
    st.integers(2, 7),
    st.booleans(),
)
def test_codes_by_exact_fractions(rows, n_ranges, stored_as_csr):
    X = np.array(rows, dtype=float)
    table = cut_into_ranges(sparse.csr_matrix(X) if stored_as_csr else X, n_ranges)
    codes = decode(table)
    varying = [j for j in range(3) if len(set(X[:, j])) > 1]
    assert list(codes) == varying
    for j in varying:
        low, span = min(row[j] for row in rows), max(row[j] for row in rows) - min(row[j] for row in rows)
        exact = [min(n_ranges - 1, int(Fraction(row[j] - low, span) * n_ranges)) for row in rows]
        assert codes[j].tolist() == exact


def decode(table):
    """Return codes by attribute, from the columns and the defaults of a table of ranges."""
    present = table.present.toarray()
    out = {}
    for attribute in np.unique(table.attribute).tolist():
        columns = np.flatnonzero(table.attribute == attribute)
        assert (present[:, columns].sum(axis=1) <= 1).all()
        in_column = present[:, columns] @ (table.code[columns] - int(table.default[attribute]))
        out[attribute] = table.default[attribute] + in_column
        assert table.codes(attribute).tolist() == out[attribute].tolist()
    return out


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_tables_are_cut_like_dense_ones(kind):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 5)) < 0.3, rng.normal(size=(60, 5)), 0.0)
    X[:, 3] = 5 + rng.random(60)  # no zero; all stored
    X[:, 4] = 0.0
    stored = kind(X)
    with_zeros = stored.copy()
    with_zeros.data[::7] = 0.0  # zeros that are stored
    for dense, table in ((X, stored), (with_zeros.toarray(), with_zeros)):
        expected, found = decode(cut_into_ranges(dense, 4)), decode(cut_into_ranges(table, 4))
        assert expected.keys() == found.keys() == {0, 1, 2, 3}
        assert all(np.array_equal(expected[j], found[j]) for j in expected)


def test_entries_stored_twice_are_added_up():
    twice = sparse.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([0, 0, 0]), np.array([0, 2, 3, 3])), shape=(3, 1))
    once = sparse.csr_matrix(np.array([[3.0], [4.0], [0.0]]))
    assert decode(cut_into_ranges(twice, 4))[0].tolist() == decode(cut_into_ranges(once, 4))[0].tolist() == [3, 3, 0]


@given(st.integers(-5, 5), st.sampled_from([1e-300, 2.0**-40, 3.0, 2.0**60, 1e90]))
def test_a_change_of_unit_and_origin_changes_no_code(shift, scale):
    x = np.array([0.0, 1, 2, 3, 5, 8, 13, 16])
    exact = scale in (2.0**-40, 3.0, 2.0**60)
    moved = (x + shift if exact else x) * scale
    assert decode(cut_into_ranges(moved[:, None], 4))[0].tolist() == [0, 0, 0, 0, 1, 2, 3, 3]


def test_as_many_ranges_as_a_byte_has():
    x = np.random.default_rng(0).permutation(512) // 2
    assert decode(cut_into_ranges(x[:, None].astype(float), 256))[0].tolist() == [v * 256 // 255 - v // 255 for v in x]


def test_limits_of_ranges():
    table = cut_into_ranges(np.array([[0.0, 10.0], [4.0, 30.0], [1.0, 10.0]]), 4)
    subset = Subset(((1, 1), (0, 3)), np.arange(0), [0, 0, 0], own_labelled=0, own_rows=0, n_labelled=2, n_rows=7)
    described = TIcE()._describe(table, FoundSubset(0.125, subset, 1))
    assert described == ({1: (15.0, 20.0), 0: (3.0, 4.0)}, 7, 2, 0.125)


def test_rows_of_a_table_of_ranges():
    X = np.random.default_rng(0).random((30, 3))
    table, rows = cut_into_ranges(X, 4), np.array([3, 5, 8, 13, 21])
    assert all(np.array_equal(decode(table[rows])[j], decode(table)[j][rows]) for j in range(3))
    assert table[rows].present.shape[0] == 5
