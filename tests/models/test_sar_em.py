"""SAR-EM by Newton's method: optimum, parameters, attributes, labels, tables."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import parameters_of

from scarless import PublishedEMClassifier, SAREMClassifier
from scarless.labelling import simulate_labels
from scarless.pair import solving


def objective(model, X, s):
    """Return the penalised observed log-likelihood of a fitted pair, from its public attributes only."""
    f, e = (model.predict_proba(X)[:, 1], model.predict_propensity(X))
    value = np.where(s == 1, np.log(f * e), np.log1p(-f * e)).sum()
    return value - (model.coef_**2).sum() / (2 * model.C) - (model.propensity_coef_**2).sum() / (2 * model.propensity_C)


@pytest.mark.parametrize(("attributes", "C"), [(None, 5.0), ([2], 0.5), ([2, 3], 5.0)])
def test_newton_reaches_the_optimum_of_slow_em(pu, attributes, C):
    options = {"propensity_attributes": attributes, "C": C}
    newton = SAREMClassifier(**options).fit(pu.X, pu.s)
    em = PublishedEMClassifier(tol=1e-12, slope_tol=1e-9, max_iter=20_000, **options).fit(pu.X, pu.s)
    gap = objective(newton, pu.X, pu.s) - objective(em, pu.X, pu.s)
    assert abs(gap) / pu.s.size < 1e-6
    np.testing.assert_allclose(newton.predict_proba(pu.X), em.predict_proba(pu.X), atol=1e-3)


@pytest.mark.parametrize("attributes", [None, [2]])
def test_gradient_vanishes_at_the_optimum(pu, attributes):
    model = SAREMClassifier(propensity_attributes=attributes, tol=1e-14).fit(pu.X, pu.s)
    f, e = model.predict_proba(pu.X)[:, 1], model.predict_propensity(pu.X)
    r = np.where(pu.s == 1, 1.0, -f * e / (1 - f * e))
    np.testing.assert_allclose(pu.X.T @ (r * (1 - f)) - model.coef_[0] / model.C, 0, atol=1e-4)
    assert abs((r * (1 - f)).sum()) < 1e-4
    assert abs((r * (1 - e)).sum()) < 1e-4


def test_without_attributes_the_propensity_is_one_constant_that_solves_its_equation(pu):
    model = SAREMClassifier().fit(pu.X, pu.s)
    e = model.predict_propensity(pu.X)
    assert np.ptp(e) == 0
    q = model.predict_posterior(pu.X, pu.s)
    assert e[0] == pytest.approx((q @ pu.s) / q.sum(), abs=1e-5)
    assert model.label_frequency_ == pytest.approx(e[0])
    assert (model.propensity_coef_ == 0).all()
    assert expit(model.propensity_intercept_[0]) == pytest.approx(e[0])


def test_parameters_are_recovered_from_many_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60_000, 3))
    f, e = expit(1.5 * X[:, 0] - X[:, 1] + 0.3), expit(1.2 * X[:, 2] - 0.4)
    s = (rng.random(60_000) < f * e).astype(int)
    model = SAREMClassifier(propensity_attributes=[2], C=np.inf, propensity_C=np.inf).fit(X, s)
    np.testing.assert_allclose(model.coef_[0], [1.5, -1.0, 0.0], atol=0.15)
    np.testing.assert_allclose(model.propensity_coef_[0], [0, 0, 1.2], atol=0.15)
    assert model.class_prior_ == pytest.approx(f.mean(), abs=0.02)
    assert model.label_frequency_ == pytest.approx((f @ e) / f.sum(), abs=0.02)


# --- attributes


def test_classifier_sees_its_attributes_only(pu):
    model = SAREMClassifier(propensity_attributes=[3, 2], classification_attributes=[1, 0]).fit(pu.X, pu.s)
    assert (model.coef_[0, 2:] == 0).all()
    assert (model.propensity_coef_[0, :2] == 0).all()
    changed = pu.X.copy()
    changed[:, 2:] = 7.0
    np.testing.assert_array_equal(model.predict_proba(changed), model.predict_proba(pu.X))
    ordered = SAREMClassifier(propensity_attributes=[2, 3], classification_attributes=slice(0, 2))
    np.testing.assert_allclose(parameters_of(ordered.fit(pu.X, pu.s)), parameters_of(model), atol=1e-6)


# --- penalty


def test_without_penalty_units_do_not_matter(pu):
    scale = np.array([10.0, 0.1, 3.0, 100.0])
    options = {"propensity_attributes": [2], "C": np.inf, "propensity_C": np.inf}
    one, other = SAREMClassifier(**options).fit(pu.X, pu.s), SAREMClassifier(**options).fit(pu.X * scale, pu.s)
    np.testing.assert_allclose(other.coef_ * scale, one.coef_, atol=1e-3)
    np.testing.assert_allclose(other.predict_proba(pu.X * scale), one.predict_proba(pu.X), atol=1e-4)


# --- tables


@pytest.mark.parametrize(
    ("convert", "tolerance"),
    [
        (np.asfortranarray, 1e-7),
        (sparse.csr_matrix, 1e-7),
        (sparse.csr_array, 1e-7),
        (sparse.csc_array, 1e-7),
        (lambda X: X.astype(np.float32), 2e-2),
        (lambda X: X.tolist(), 1e-7),
        (lambda X: np.repeat(X, 2, axis=1)[:, ::2], 1e-7),
    ],
    ids=["fortran", "csr_matrix", "csr_array", "csc_array", "float32", "list", "strided"],
)
def test_kinds_of_tables_give_the_same_model(pu, convert, tolerance):
    X = convert(pu.X)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, pu.s)
    reference = SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(pu.X), atol=tolerance)
    np.testing.assert_allclose(model.predict_propensity(X), reference.predict_propensity(pu.X), atol=tolerance)


def test_memory_map_gives_the_same_model(pu, tmp_path):
    np.save(tmp_path / "X.npy", pu.X)
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, pu.s)
    np.testing.assert_array_equal(model.coef_, SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s).coef_)


def test_order_of_rows_does_not_matter(pu):
    order = np.random.default_rng(0).permutation(pu.s.size)
    model = SAREMClassifier(propensity_attributes=[2])
    one, other = clone(model).fit(pu.X, pu.s), clone(model).fit(pu.X[order], pu.s[order])
    np.testing.assert_allclose(parameters_of(one), parameters_of(other), atol=1e-6)


def wide_table(data, n_columns):
    noise = sparse.random(data.s.size, n_columns - 4, density=0.01, random_state=0)
    return sparse.csr_array(sparse.hstack([data.X, 0.1 * noise]))


def test_wide_sparse_problem_has_no_gradient_left(simulated):
    data = simulated(n=500, seed=1)
    X = wide_table(data, 3000)
    assert X.shape[1] > solving.MAX_MATRIX_PARAMETERS
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, data.s)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    r = np.where(data.s == 1, 1.0, -f * e / (1 - f * e))
    np.testing.assert_allclose(X.T @ (r * (1 - f)) - model.coef_[0], 0, atol=5e-3)
    assert model.converged_


def test_hessian_products_find_the_same_optimum_as_the_matrix(simulated, monkeypatch):
    data = simulated(n=500, seed=1)
    X = wide_table(data, 200)
    matrix = SAREMClassifier(propensity_attributes=[2]).fit(X.toarray(), data.s)
    monkeypatch.setattr(solving, "MAX_MATRIX_PARAMETERS", 100)
    products = SAREMClassifier(propensity_attributes=[2]).fit(X, data.s)
    assert objective(products, X, data.s) == pytest.approx(objective(matrix, X.toarray(), data.s), abs=500 * 1e-6)
    np.testing.assert_allclose(products.predict_proba(X), matrix.predict_proba(X.toarray()), atol=1e-3)


@pytest.mark.parametrize(
    ("seed", "options"),
    [(11, {}), (11, {"propensity_attributes": [2]}), (6, {}), (5, {"propensity_attributes": [2], "C": 0.05})],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* finds that all positives are labelled:UserWarning")
def test_newton_is_no_worse_than_em_on_few_rows(simulated, seed, options):
    data = simulated(n=200, seed=seed)
    newton = SAREMClassifier(**options).fit(data.X, data.s)
    em = PublishedEMClassifier(max_iter=2000, **options).fit(data.X, data.s)
    assert newton.converged_
    assert objective(newton, data.X, data.s) > objective(em, data.X, data.s) - 200 * 1e-6


# --- predictions, labels, protocol


def test_posterior_and_probabilities(pu):
    model = SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    proba = model.predict_proba(pu.X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(pu.X), (proba[:, 1] > 0.5).astype(int))
    f, e = proba[:, 1], model.predict_propensity(pu.X)
    expected = np.where(pu.s == 1, 1.0, f * (1 - e) / (1 - f * e))
    np.testing.assert_allclose(model.predict_posterior(pu.X, pu.s), expected)
    value = np.where(pu.s == 1, np.log(f * e), np.log1p(-f * e)).sum()
    assert model.log_likelihood_ == pytest.approx(value)
    assert model.class_prior_ == pytest.approx(f.mean())
    assert model.label_frequency_ == pytest.approx((f @ e) / f.sum())


@pytest.mark.parametrize(
    ("code", "pos_label", "column"),
    [
        (lambda s: 2 * s - 1, None, 1),
        (lambda s: s == 1, None, 1),
        (lambda s: s.astype(float), None, 1),
        (lambda s: np.where(s == 1, "positive", "unlabelled"), "positive", 0),
        (lambda s: np.where(s == 1, "yes", "no"), "yes", 1),
        (lambda s: 1 - s, 0, 0),
        (pd.Series, None, 1),
        (pl.Series, None, 1),
    ],
    ids=["-1/1", "bool", "float", "first", "last", "reversed", "pandas", "polars"],
)
def test_codings_of_the_labels_give_the_same_model(pu, code, pos_label, column):
    reference = SAREMClassifier().fit(pu.X, pu.s)
    labels = code(pu.s)
    model = SAREMClassifier(pos_label=pos_label).fit(pu.X, labels)
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    np.testing.assert_array_equal(model.predict_proba(pu.X)[:, column], reference.predict_proba(pu.X)[:, 1])
    np.testing.assert_array_equal(model.predict(pu.X) == model.classes_[column], reference.predict(pu.X) == 1)
    np.testing.assert_array_equal(model.predict_posterior(pu.X, labels), reference.predict_posterior(pu.X, pu.s))


@pytest.mark.parametrize(
    "model",
    [
        SAREMClassifier(propensity_attributes=[2]),
        SAREMClassifier(LogisticRegression(), propensity_attributes=[2], tol=1e-2),
    ],
    ids=str,
)
def test_pickles_clones_and_parameters(pu, model):
    model = clone(model).fit(pu.X, pu.s)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(pu.X), model.predict_proba(pu.X))
    np.testing.assert_array_equal(copy.predict_propensity(pu.X), model.predict_propensity(pu.X))
    twin = SAREMClassifier().set_params(**model.get_params(deep=False))
    assert str(twin) == str(clone(model)) == str(model)


def test_a_second_fit_forgets_the_first(pu):
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    options = {"propensity_attributes": [2], "cv": 2, "random_state": 0}
    model = SAREMClassifier(**options).fit(pu.X, pu.s)
    model.set_params(estimator=tree).fit(pu.X, pu.s)
    fresh = SAREMClassifier(tree, **options).fit(pu.X, pu.s)
    np.testing.assert_array_equal(model.predict_proba(pu.X), fresh.predict_proba(pu.X))
    model.set_params(estimator=None).fit(pu.X, pu.s)
    assert not hasattr(model, "estimator_")
    assert not hasattr(model, "estimators_")
    assert not hasattr(model, "recalibration_")
    reference = SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    np.testing.assert_array_equal(model.predict_proba(pu.X), reference.predict_proba(pu.X))


def test_history_of_newton_rises_without_a_penalty(pu):
    model = SAREMClassifier(propensity_attributes=[2], C=np.inf, propensity_C=np.inf).fit(pu.X, pu.s)
    history = model.history_
    assert len(history["log_likelihood"]) == len(history["gain"]) == len(history["step"]) == model.n_iter_
    assert (np.diff(history["log_likelihood"]) > -1e-9).all()
    assert history["log_likelihood"][-1] == pytest.approx(model.log_likelihood_)
    assert history["gain"][-1] <= 1e-10 * pu.s.size
    assert model.converged_


@pytest.mark.parametrize("seed", [1, 10, 44])
def test_newton_finds_the_optimum_of_em(seed):
    """Skewed propensity attributes cause two optima. With steps limited to three logits, Newton found the worse one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 5))
    X[:, 3] = (rng.poisson(3, 3000) - 3) / np.sqrt(3)
    X[:, 4] = rng.lognormal(0, 0.5, 3000)
    X[:, 4] = (X[:, 4] - X[:, 4].mean()) / X[:, 4].std()
    f = expit(1.2 * X[:, 0] + 0.8 * X[:, 1] + 0.5 * X[:, 2] - 1.0)
    y = rng.random(3000) < f
    s = simulate_labels(y, expit(X[:, 3] + 0.8 * X[:, 4] - 0.8), random_state=seed)
    newton = SAREMClassifier(propensity_attributes=[3, 4]).fit(X, s)
    em = PublishedEMClassifier(propensity_attributes=[3, 4], tol=1e-8, slope_tol=1e-6, max_iter=5000).fit(X, s)
    assert objective(newton, X, s) > objective(em, X, s) - 3000 * 1e-6
    assert newton.class_prior_ == pytest.approx(f.mean(), abs=0.1)


UNITS = "has a mean more than 1e5 standard deviations from 0, or only values below 1e-100"


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("mean", [1e3, 1e6])
def test_a_single_precision_column_far_from_zero_is_fitted_as_its_centred_double(simulated, mean, C):
    pu = simulated(n=2000)
    X = (pu.X + np.array([mean, 0, mean, 0])).astype(np.float32)
    centred = X.astype(np.float64) - [mean, 0, mean, 0]  # exact in float64
    options = {"propensity_attributes": [2], "C": C, "propensity_C": C, "tol": 1e-13}
    want = SAREMClassifier(**options).fit(centred, pu.s)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore" if mean > 1e5 else "error", f".*{UNITS}")
        got = SAREMClassifier(**options).fit(X, pu.s)
    assert got.converged_
    np.testing.assert_allclose(got.coef_, want.coef_, atol=1e-5)
    np.testing.assert_allclose(got.propensity_coef_, want.propensity_coef_, atol=1e-5)
    np.testing.assert_allclose(got.predict_proba(X), want.predict_proba(centred), atol=1e-6)
    np.testing.assert_allclose(got.predict_propensity(X), want.predict_propensity(centred), atol=1e-6)
    assert got.class_prior_ == pytest.approx(want.class_prior_, abs=1e-6)
    assert got.log_likelihood_ == pytest.approx(want.log_likelihood_, rel=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("size", "dtype"), [(1e-25, np.float32), (1e-170, np.float64)])
@pytest.mark.filterwarnings(f"ignore:.*{UNITS}")
def test_columns_whose_squares_vanish_are_not_ignored(pu, kind, size, dtype):
    X = pu.X.astype(dtype) * np.array([size, 1, size, 1], dtype=dtype)
    options = {"propensity_attributes": [2], "C": np.inf, "propensity_C": np.inf, "tol": 1e-13}
    want = SAREMClassifier(**options).fit(pu.X, pu.s)
    got = SAREMClassifier(**options).fit(kind(X), pu.s)
    np.testing.assert_allclose(got.coef_ * [size, 1, size, 1], want.coef_, atol=1e-4)
    np.testing.assert_allclose(got.predict_proba(kind(X)), want.predict_proba(pu.X), atol=1e-5)
    np.testing.assert_allclose(got.predict_propensity(kind(X)), want.predict_propensity(pu.X), atol=1e-5)


def test_badly_scaled_columns_get_a_warning(pu):
    with pytest.warns(UserWarning, match=rf"column 'x1' \(and 1 more\) {UNITS}"):
        SAREMClassifier(propensity_attributes=[2]).fit(pu.X + np.array([0, 1e8, 1e8, 0]), pu.s)


def test_huge_coefficients_predict_for_single_precision_rows(pu):
    X = pu.X * [1e-45, 1, 1, 1]
    model = SAREMClassifier(propensity_attributes=[2], C=np.inf).fit(X, pu.s)
    assert np.abs(model.coef_[0, 0]) > np.finfo(np.float32).max
    p = model.predict_proba(X.astype(np.float32))
    assert np.isfinite(p).all()
    far = SAREMClassifier(propensity_attributes=[2]).fit(pu.X + np.array([1e4, 0, 0, 0]), pu.s)
    single = (pu.X + np.array([1e4, 0, 0, 0])).astype(np.float32)
    np.testing.assert_allclose(far.predict_proba(single), far.predict_proba(single.astype(np.float64)), rtol=1e-12)


def test_column_names_that_are_other_numbers_than_positions_get_a_warning(pu):
    X = pd.DataFrame(pu.X)[[3, 0, 1, 2]]
    with pytest.warns(UserWarning, match="propensity_attributes: the number 3 is a position"):
        model = SAREMClassifier(propensity_attributes=[3]).fit(X, pu.s)
    assert np.flatnonzero(model.propensity_coef_).tolist() == [3]
    SAREMClassifier(propensity_attributes=["3"]).fit(X.rename(columns=str), pu.s)


def test_verbose_prints_each_iteration_of_newton(pu, capsys):
    model = SAREMClassifier(propensity_attributes=[2], n_starts=2, verbose=True).fit(pu.X, pu.s)
    lines = capsys.readouterr().out.splitlines()
    paper = [line for line in lines if line.startswith("paper, iteration ")]
    assert len(paper) < len(lines)
    history, objective = model.history_, model.optima_[0].objective / pu.s.size
    assert len(paper) == model.n_iter_ == history["gain"].size
    assert paper[-1] == (
        f"paper, iteration {model.n_iter_}: objective per row {objective:.6f}, predicted gain "
        f"{history['gain'][-1] / pu.s.size:.1e}, step 0"
    )
    SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    assert not capsys.readouterr().out
