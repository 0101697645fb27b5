"""KernelMean: known mixtures, invariances, edge cases and warnings."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.utils.estimator_checks import parametrize_with_checks

from scarless import SCARClassifier
from scarless.label_frequency import KernelMean, kernel_mean
from scarless.label_frequency.kernel_mean import (
    DistanceCurve,
    Hull,
    draw_rows,
    embedding_distance,
    gaussian_kernel,
    hull_of,
    low_rank_factor,
    median_distance,
    merge_equal_rows,
    ridge,
    scale_by_range,
    squared_distances,
)


def clusters(n, prior, c, seed=0, apart=6.0):
    """Return rows of two separate clusters, and labels that are SCAR."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) < round(prior * n)
    X = rng.normal(size=(n, 2)) + apart * y[:, None]
    s = np.zeros(n)
    s[: round(c * y.sum())] = 1
    return X, s, y


@pytest.mark.parametrize(
    ("variant", "prior", "c"),
    [("km1", 0.2, 0.2), ("km1", 0.5, 0.6), ("km1", 0.8, 0.2), ("km2", 0.2, 0.6), ("km2", 0.5, 0.2), ("km2", 0.8, 0.6)],
)
def test_separate_clusters_give_the_class_prior(variant, prior, c):
    X, s, y = clusters(600, prior, c)
    found = KernelMean(variant, random_state=0).fit(X, s)
    assert found.class_prior_ == pytest.approx(y.mean(), abs=0.05)
    assert found.label_frequency_ * found.class_prior_ == pytest.approx(s.mean())


def test_two_atoms_have_a_closed_form():
    """All positives are at one point and all negatives at another: the estimate is the share of the first point."""
    X = np.repeat([[0.0], [1.0]], [600, 400], axis=0)
    s = np.zeros(1000)
    s[600:700] = 1  # 400 positives, 100 labelled
    found = KernelMean().fit(X, s)
    assert found.class_prior_ == pytest.approx(0.4, abs=1e-3)
    assert found.label_frequency_ == pytest.approx(0.25, abs=1e-3)
    assert not found.bound_reached_


@settings(max_examples=40, deadline=None)
@given(st.tuples(*[st.integers(1, 60)] * 4), st.sampled_from(["km1", "km2"]))
def test_one_binary_column_has_a_closed_form(counts, variant):
    """With rows of both kinds at both points, the share is the largest that leaves no negative weight."""
    u0, u1, l0, l1 = counts
    X = np.repeat([0.0, 1.0, 0.0, 1.0], [u0, u1, l0, l1])[:, None]
    s = np.repeat([0, 0, 1, 1], [u0, u1, l0, l1])
    share = min(u0 / (u0 + u1) / (l0 / (l0 + l1)), u1 / (u0 + u1) / (l1 / (l0 + l1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = KernelMean(variant).fit(X, s)
    most = 1.0 - 1.0 / s.size  # one row is left negative
    wanted = min(s.mean() + (1 - s.mean()) * min(share, 0.99), most)
    assert found.class_prior_ == pytest.approx(wanted, abs=2e-3)


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("n", [4, 20, 150])
def test_tables_of_few_distinct_rows_have_an_estimate(n_columns, n):
    """All points may be labelled; every estimate is at least the largest share that leaves no negative weight."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = (rng.random((n, n_columns)) < rng.uniform(0.2, 0.8, size=n_columns)).astype(float)
        s = (rng.random(n) < 0.1 + 0.5 * X[:, 0]).astype(int)
        s[:2] = 0, 1
        _, unlabelled, labelled = merge_equal_rows(X, s.astype(float), np.ones(s.size))
        least = (unlabelled[labelled > 0] / labelled[labelled > 0]).min()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = KernelMean().fit(X, s)
            model = SCARClassifier("km2").fit(X, s)
        assert np.isfinite(found.slopes_).all()
        assert s.mean() < found.class_prior_ + 1e-9 <= 1.0
        assert found.class_prior_ > s.mean() + (1 - s.mean()) * min(least, 0.99) - 1.0 / n - 1e-9
        assert model.label_frequency_ == found.label_frequency_


def test_all_positives_labelled():
    X, s, y = clusters(800, 0.3, 1.0)
    found = KernelMean(random_state=0).fit(X, s)
    assert found.label_frequency_ > 0.9
    assert found.class_prior_ == pytest.approx(y.mean(), abs=0.03)


def test_very_few_labels():
    X, s, _ = clusters(1000, 0.5, 0.02)
    assert s.sum() == 10
    found = KernelMean(random_state=0).fit(X, s)
    assert 0.2 < found.class_prior_ <= 0.6
    assert found.label_frequency_ < 0.06


def test_row_order_makes_no_difference_at_all():
    X, s, _ = clusters(300, 0.4, 0.5, apart=1.0)
    shuffled = np.random.default_rng(1).permutation(300)
    one, other = (KernelMean(max_rows=200, random_state=3).fit(X[rows], s[rows]) for rows in (slice(None), shuffled))
    assert one.label_frequency_ == other.label_frequency_


def test_data_given_twice_make_no_difference():
    X, s, _ = clusters(300, 0.4, 0.5, apart=1.0)
    once = KernelMean(random_state=0).fit(X, s)
    twice = KernelMean(random_state=0).fit(np.tile(X, (2, 1)), np.tile(s, 2))
    assert twice.class_prior_ == pytest.approx(once.class_prior_, abs=1e-9)
    assert twice.kernel_width_ == pytest.approx(once.kernel_width_)


@pytest.mark.parametrize("scale", [1e-8, 1e6])
def test_units_and_constant_columns_make_no_difference(scale):
    X, s, _ = clusters(300, 0.4, 0.5, apart=1.5)
    plain = KernelMean(random_state=0).fit(X, s)
    other = np.column_stack([X * [1.0, scale] + [0.0, 7 * scale], np.full(300, 5.0)])
    assert KernelMean(random_state=0).fit(other, s).class_prior_ == pytest.approx(plain.class_prior_, abs=2e-3)


def test_sparse_float32_and_memory_maps(tmp_path):
    X, s, _ = clusters(300, 0.4, 0.5, apart=1.5)
    X[np.abs(X) < 0.5] = 0.0
    dense = KernelMean(random_state=0).fit(X, s).class_prior_
    np.save(tmp_path / "X.npy", X)
    for table in (sparse.csr_array(X), X.astype(np.float32), np.load(tmp_path / "X.npy", mmap_mode="r")):
        assert KernelMean(random_state=0).fit(table, s).class_prior_ == pytest.approx(dense, abs=2e-3)


def test_labels_without_relation_to_the_rows_raise_a_warning():
    X = np.zeros((40, 2))
    s = np.arange(40) < 10
    same = "max_share=0.99, because labelled and unlabelled rows have the same distribution"
    with pytest.warns(UserWarning, match="every row would be positive"), pytest.warns(UserWarning, match=same):
        found = KernelMean().fit(X, s)
    assert found.bound_reached_


def test_a_reached_bound_is_reported():
    X, s, _ = clusters(600, 0.8, 0.2)
    with pytest.warns(
        UserWarning, match="to max_share=0.3, because the slope of the distance stayed below its threshold"
    ):
        found = KernelMean(max_share=0.3, random_state=0).fit(X, s)
    assert found.bound_reached_
    assert found.class_prior_ == pytest.approx(s.mean() + (1 - s.mean()) * 0.3)


def test_slopes_rise_from_0_towards_1_and_pass_the_threshold_at_the_estimate():
    X, s, _ = clusters(500, 0.5, 0.3, apart=1.5)
    found = KernelMean(random_state=0).fit(X, s)
    shares, slopes = found.slopes_.T
    assert (np.diff(slopes) > -1e-3).all()  # the distance is convex
    assert slopes[0] < found.threshold_ < slopes[-1] <= 1.0
    share = (found.class_prior_ - s.mean()) / (1 - s.mean())
    assert np.interp(share, shares, slopes) == pytest.approx(found.threshold_, abs=0.02)


def test_km1_uses_the_threshold_of_the_paper_unless_it_is_above_0_9():
    X, s, _ = clusters(300, 0.5, 0.5)
    one, two = KernelMean("km1", random_state=0).fit(X, s), KernelMean("km2", random_state=0).fit(X, s)
    assert one.threshold_ != two.threshold_
    few = np.zeros(300)
    few[0] = 1
    with pytest.warns(UserWarning, match="the number of labelled rows is only 1"):
        one, two = (KernelMean(variant, random_state=0).fit(X, few) for variant in ("km1", "km2"))
    assert one.threshold_ == two.threshold_


def test_interval_holds_the_estimate_and_narrows_with_the_level():
    X, s, _ = clusters(200, 0.4, 0.5, apart=2.0)
    model = KernelMean(n_resamples=40, random_state=0).fit(X, s)
    wide, narrow = model.class_prior_interval(), model.class_prior_interval(level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert wide.low < model.class_prior_ < wide.high
    assert s.mean() <= model.label_frequency_interval().low < model.label_frequency_interval().high <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "km3"}, "variant must be one of 'km1', 'km2'; got 'km3'"),
        ({"max_rows": 5}, "max_rows must be a whole number of at least 10; got 5"),
        ({"max_share": 1.0}, "max_share must lie strictly between 0 and 1; got 1.0"),
        ({"n_resamples": -1}, "n_resamples must be a whole number of at least 0; got -1"),
        ({"n_resamples": 19}, "n_resamples must be 0 .no interval. or at least 20; got 19"),
    ],
)
def test_bad_parameters(options, message):
    X, s, _ = clusters(50, 0.5, 0.5)
    with pytest.raises(ValueError, match=message):
        KernelMean(**options).fit(X, s)


def test_too_few_rows_for_an_interval():
    X, s, _ = clusters(50, 0.5, 0.5)
    with pytest.raises(ValueError, match=r"at least 20 labelled and 20 unlabelled rows; 12 and 38 are used"):
        KernelMean(n_resamples=20).fit(X, s)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 400), st.integers(1, 399), st.integers(10, 60))
def test_subsample_is_without_replacement_seeded_and_keeps_the_rarer_kind(n, n_labelled, max_rows):
    s = (np.arange(n) < min(n_labelled, n - 1)).astype(float)
    rows = draw_rows(s, max_rows, np.random.default_rng(0))
    assert rows.size == min(n, max_rows)
    assert np.unique(rows).size == rows.size
    np.testing.assert_array_equal(rows, draw_rows(s, max_rows, np.random.default_rng(0)))
    rarer, kept = min(s.sum(), n - s.sum()), min(s[rows].sum(), rows.size - s[rows].sum())
    assert kept == min(rarer, max_rows // 2) or n <= max_rows


def test_rare_labels_are_kept_and_the_prior_is_still_of_the_whole_table():
    X, s, y = clusters(6000, 0.4, 0.05)
    found = KernelMean(max_rows=400, random_state=0).fit(X, s)
    assert s.sum() == 120
    assert found.class_prior_ == pytest.approx(y.mean(), abs=0.06)
    assert found.label_frequency_ == pytest.approx(0.05, abs=0.01)


def test_equal_rows_are_merged_with_their_counts():
    X = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [-0.0, 0.0]])
    points, unlabelled, labelled = merge_equal_rows(X, np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4))
    order = np.argsort(points[:, 0])
    np.testing.assert_array_equal(points[order], [[0, 0], [1, 2]])
    np.testing.assert_allclose(unlabelled[order], [2 / 3, 1 / 3])
    np.testing.assert_allclose(labelled[order], [0, 1])


def test_merging_equal_rows_does_not_change_the_problem():
    rng = np.random.default_rng(0)
    X, s = rng.integers(0, 3, size=(60, 2)).astype(float), (rng.random(60) < 0.4).astype(float)
    points, unlabelled, labelled = merge_equal_rows(X, s, np.ones(s.size))
    assert len(points) == 9
    slopes = []
    for table, mixture, component in ((points, unlabelled, labelled), (X, (1 - s) / (1 - s).sum(), s / s.sum())):
        curve = DistanceCurve(Hull(np.exp(-squared_distances(table))), mixture, component, 1.0)
        slopes.append(curve.slope(0.8))
    assert slopes[0] == pytest.approx(slopes[1], rel=2e-3)  # apart from the ridge


def test_median_distance_counts_rows():
    squared = squared_distances(np.array([[0.0], [1.0], [5.0]]))
    rng = np.random.default_rng(0)
    # 91 of 169 pairs are equal, so the median is that of the other pairs.
    assert median_distance(squared, np.array([1.0, 3.0, 9.0]), rng) == 4.0
    assert median_distance(squared, np.ones(3), rng) == 1.0
    assert median_distance(np.zeros((1, 1)), np.ones(1), rng) == 0.0


def test_columns_are_divided_by_their_ranges_in_the_whole_table():
    X, rows = np.array([[1.0, 10.0, 3.0], [3.0, 30.0, 3.0], [1.0, 20.0, 3.0]]), np.array([0, 2])
    np.testing.assert_allclose(np.diff(scale_by_range(X, rows), axis=0), [[0, 0.5, 0]])
    np.testing.assert_allclose(np.diff(scale_by_range(sparse.csr_array(X), rows).toarray(), axis=0), [[0, 0.5, 0]])


@pytest.mark.parametrize("outlier", [-1e6, 1e6, -1e10])
def test_one_outlier_does_not_raise_an_error(outlier):
    X, s, y = clusters(400, 0.4, 0.5)
    X[-1, 0] = outlier  # an unlabelled row; the other column still separates the classes
    assert KernelMean(random_state=0).fit(X, s).class_prior_ == pytest.approx(y.mean(), abs=0.06)


def test_distances_smaller_than_rounding_errors_are_refused():
    with pytest.raises(
        ValueError, match=r"rounding errors are larger than the distances between rows, because.*Centre the columns"
    ):
        hull_of(np.array([[0.0, -5.0], [-5.0, 0.0]]), 1.0)


def test_few_labelled_rows_raise_a_warning():
    X, s, _ = clusters(200, 0.5, 0.05)
    with pytest.warns(UserWarning, match="the number of labelled rows is only 5"):
        KernelMean(random_state=0).fit(X, s)


@pytest.mark.filterwarnings("ignore:pos_label is not given, and the labels are:UserWarning")
@pytest.mark.filterwarnings("ignore:KernelMean:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([KernelMean(), KernelMean("km1", max_rows=50)])
def test_estimator_passes_scikit_learns_checks(estimator, check):
    check(estimator)


# --- The nearest distribution: against enumeration of all faces, the optimality conditions, and finite differences.


def kernel_of(points):
    return np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=2))


def by_enumeration(kernel, u):
    """Return the least squared distance over all faces of the simplex whose solution is a distribution."""
    kernel = kernel + ridge(u.size) * np.eye(u.size)
    best = np.inf
    for chosen in product([False, True], repeat=u.size):
        b = np.flatnonzero(chosen)
        if b.size == 0:
            continue
        system = np.block([[kernel[np.ix_(b, b)], np.ones((b.size, 1))], [np.ones((1, b.size)), np.zeros((1, 1))]])
        w = np.zeros(u.size)
        w[b] = np.linalg.solve(system, np.append(kernel[b] @ u, 1.0))[:-1]
        if (w >= -1e-12).all():
            best = min(best, (u - w) @ kernel @ (u - w))
    return best


def signed_weighting(rng, n, stretch):
    mixture, component = rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 0.3))
    return stretch * mixture + (1 - stretch) * component


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 7), st.floats(1.0, 20.0), st.sampled_from([0.1, 1.0, 10.0]))
def test_distance_is_the_least_over_all_faces(seed, n, stretch, spread):
    rng = np.random.default_rng(seed)
    kernel = kernel_of(rng.normal(size=(n, 2)) * spread)
    u = signed_weighting(rng, n, stretch)
    found = Hull(kernel.copy()).nearest(u, u < 0)
    assert found.converged
    assert found.squared_distance == pytest.approx(by_enumeration(kernel, u), rel=5e-3, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.floats(1.0, 20.0))
def test_a_start_with_every_weight_at_zero(seed, n, stretch):
    """Not all weights can be 0, so such a start is replaced."""
    rng = np.random.default_rng(seed)
    kernel, u = kernel_of(rng.normal(size=(n, 2))), signed_weighting(rng, n, stretch)
    found = Hull(kernel.copy()).nearest(u, np.ones(n, dtype=bool))
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.squared_distance == pytest.approx(by_enumeration(kernel, u), rel=5e-3, abs=1e-12)


@pytest.mark.parametrize("start", ["none", "labelled", "all but one", "wrong"])
@pytest.mark.parametrize("stretch", [1.2, 2.0, 8.0])
def test_optimality_conditions_hold_from_any_start(start, stretch):
    rng = np.random.default_rng(1)
    n = 120
    kernel = kernel_of(rng.normal(size=(n, 6)))
    u = signed_weighting(rng, n, stretch)
    zero = {
        "none": np.zeros(n, dtype=bool),
        "labelled": u < 0,
        "all but one": np.arange(n) > 0,
        "wrong": u > 0,
    }[start]
    points = Hull(kernel.copy())
    found = points.nearest(u, zero)
    w, mu = found.weights, found.multipliers
    assert not points._is_smooth
    gradient = (kernel + ridge(n) * np.eye(n)) @ (w - u)
    assert found.converged
    assert w.sum() == pytest.approx(1.0)
    assert w.min() > -2e-3 / n
    assert (w[found.zero] == 0).all()
    assert (mu[~found.zero] == 0).all()
    assert mu.min() > -2e-3 * found.squared_distance
    np.testing.assert_allclose(gradient - mu, (gradient - mu)[0], atol=1e-9)  # one constant for all points
    assert found.squared_distance == pytest.approx((u - w) @ gradient * -1, rel=1e-6)


def test_a_distribution_is_its_own_nearest():
    rng = np.random.default_rng(2)
    u = rng.dirichlet(np.ones(30))
    found = Hull(kernel_of(rng.normal(size=(30, 2)))).nearest(u, np.zeros(30, dtype=bool))
    assert found.squared_distance == 0.0
    assert found.slope(u - 1 / 30) == 0.0
    np.testing.assert_allclose(found.weights, u, atol=1e-12)


def test_slope_is_the_derivative_of_the_distance():
    rng = np.random.default_rng(3)
    n, step = 60, 1e-5
    hull_of_points = Hull(kernel_of(rng.normal(size=(n, 6))))
    mixture, component = rng.dirichlet(np.ones(n)), rng.dirichlet(np.full(n, 0.2))

    def nearest(stretch):
        return hull_of_points.nearest(stretch * mixture + (1 - stretch) * component, component > mixture)

    rise = np.sqrt(nearest(3 + step).squared_distance) - np.sqrt(nearest(3 - step).squared_distance)
    assert nearest(3).slope(mixture - component) == pytest.approx(rise / (2 * step), rel=1e-3)


def test_both_solutions_on_a_face_agree():
    rng = np.random.default_rng(4)
    n = 50
    points = Hull(kernel_of(rng.normal(size=(n, 4))))
    u, zero = signed_weighting(rng, n, 3.0), rng.random(n) < 0.5
    for one, other in zip(points._by_zero_points(u, zero), points._by_other_points(u, zero), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.floats(1.01, 50.0), st.sampled_from([0.1, 1.0, 10.0]))
def test_interior_point_method_and_pivoting_agree(seed, n, stretch, spread):
    rng = np.random.default_rng(seed)
    kernel = kernel_of(rng.normal(size=(n, 2)) * spread)
    u = signed_weighting(rng, n, stretch)
    points = Hull(kernel)
    inside, exchanged = points._by_interior_point(u), points._by_pivoting(u, u < 0)
    assert inside.converged
    if exchanged is not None:
        assert inside.squared_distance == pytest.approx(exchanged.squared_distance, rel=5e-3, abs=1e-10)


def test_if_pivoting_cycles_the_interior_point_method_is_used(monkeypatch):
    """Smooth kernel, few columns: the kernel matrix has low rank."""
    n = 600
    points = Hull(kernel_of(np.random.default_rng(0).normal(size=(n, 2)) * 3.0))
    u = 3.0 / n - 2.0 * np.where(np.arange(n) < n / 10, 10 / n, 0.0)
    monkeypatch.setattr(kernel_mean, "MAX_EXCHANGES_WITHOUT_PROGRESS", 1)
    assert points._by_pivoting(u, u < 0) is None
    found = points.nearest(u, u < 0)
    assert found.converged
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(points._factor @ points._factor.T, points._kernel - ridge(n) * np.eye(n), atol=1e-6)


def test_a_solver_that_runs_out_of_iterations_reports_it(monkeypatch):
    rng = np.random.default_rng(6)
    u = signed_weighting(rng, 40, 4.0)
    monkeypatch.setattr(kernel_mean, "MAX_INTERIOR_STEPS", 2)
    assert not Hull(kernel_of(rng.normal(size=(40, 2))))._by_interior_point(u).converged


def test_low_rank_factor_misses_no_entry_by_more_than_allowed():
    kernel = kernel_of(np.random.default_rng(7).normal(size=(80, 1)))
    factor = low_rank_factor(kernel, 1e-5)
    assert factor.shape[1] < 30
    assert np.abs(factor @ factor.T - kernel).max() <= 1e-5


def test_a_matrix_that_is_no_kernel_is_refused():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        Hull(np.array([[1.0, 2.0], [2.0, 1.0]]))


# --- Distances and kernels against their formulas.


TABLES = arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 4)), elements=st.floats(-1e3, 1e3))


@settings(max_examples=50, deadline=None)
@given(TABLES)
def test_squared_distances(X):
    found = squared_distances(X)
    np.testing.assert_allclose(found, cdist(X, X, "sqeuclidean"), atol=1e-8 * max(1.0, np.abs(X).max() ** 2))
    assert (found >= 0).all()
    assert (found.diagonal() == 0).all()
    np.testing.assert_allclose(squared_distances(sparse.csr_array(X)), found, atol=1e-8)


def test_blocks_make_no_difference():
    X = np.random.default_rng(0).normal(size=(600, 3))  # more than two blocks
    np.testing.assert_allclose(squared_distances(X), cdist(X, X, "sqeuclidean"), atol=1e-12)
    difference = np.random.default_rng(1).normal(size=600)
    kernel = np.exp(-0.5 * cdist(X, X, "sqeuclidean") / 0.7**2)
    assert embedding_distance(squared_distances(X), 0.7, difference) == pytest.approx(
        np.sqrt(difference @ kernel @ difference)
    )


def test_the_kernel_can_overwrite_the_distances():
    squared = squared_distances(np.array([[0.0], [3.0]]))
    kernel = gaussian_kernel(squared, 1.5, out=squared)
    assert kernel is squared
    np.testing.assert_allclose(kernel, [[1, np.exp(-2)], [np.exp(-2), 1]])
