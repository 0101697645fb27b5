"""Standard errors and intervals of a fitted pair, compared with numeric derivatives, enumeration and invariances."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from tests.helpers import simulate_pair

from scarless import Labelling, PublishedEMClassifier, SAREMClassifier, SAREMClassifierCV
from scarless.checks.rows import check_rows
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.pair import inference as _inference
from scarless.pair import solving
from scarless.pair.inference import pair_inference
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem

FREE = {"C": np.inf, "propensity_C": np.inf}


@pytest.fixture(scope="module")
def data():
    return simulate_pair(1200, seed=5, class_intercept=-0.2, propensity_intercept=0.3)


@pytest.fixture(scope="module")
def model(data):
    return SAREMClassifier(propensity_attributes=[2], tol=1e-14).fit(*data)


def numeric_covariance(model, X, s):
    """Return the inverse of the numeric second derivatives of the penalised objective, with public methods only."""
    f_columns, e_columns = range(X.shape[1]), [2]
    beta = np.concatenate([model.coef_[0], model.intercept_, model.propensity_coef_[0, e_columns]])
    beta = np.append(beta, model.propensity_intercept_)
    k = len(f_columns) + 1

    def objective(b):
        f, e = expit(X @ b[: k - 1] + b[k - 1]), expit(X[:, e_columns] @ b[k:-1] + b[-1])
        value = np.where(s == 1, np.log(f * e), np.log1p(-f * e)).sum()
        return 0.5 * (b[: k - 1] @ b[: k - 1]) / model.C + 0.5 * (b[k:-1] @ b[k:-1]) / model.propensity_C - value

    h, p = 1e-3, beta.size
    steps = h * np.eye(p)
    hessian = [
        [
            (objective(beta + a + b) - objective(beta + a - b) - objective(beta - a + b) + objective(beta - a - b))
            for b in steps
        ]
        for a in steps
    ]
    return np.linalg.inv(np.array(hessian) / (4 * h * h))


@pytest.mark.parametrize("options", [{}, {"C": 0.05, "propensity_C": 3.0}, FREE], ids=["default", "strong", "free"])
def test_standard_errors_follow_from_numeric_second_derivatives(data, options):
    model = SAREMClassifier(propensity_attributes=[2], tol=1e-14, **options).fit(*data)
    errors = np.sqrt(np.diagonal(numeric_covariance(model, *data)))
    found = model.standard_errors()
    np.testing.assert_allclose(found.coef[0], errors[:3], rtol=1e-4)
    assert found.intercept[0] == pytest.approx(errors[3], rel=1e-4)
    np.testing.assert_array_equal(np.isnan(found.propensity_coef[0]), [True, True, False])
    assert found.propensity_coef[0, 2] == pytest.approx(errors[4], rel=1e-4)
    assert found.propensity_intercept[0] == pytest.approx(errors[5], rel=1e-4)


def test_row_intervals_follow_from_the_standard_errors_of_logits(data, model):
    X, s = data
    V = numeric_covariance(model, X, s)
    rows = np.column_stack([X, np.ones(len(X))])
    error = np.sqrt(np.einsum("ij,jk,ik->i", rows, V[:4, :4], rows))
    u = rows @ np.append(model.coef_[0], model.intercept_)
    expected = expit(u[:, None] + 1.959964 * np.outer(error, [-1, 1]))
    np.testing.assert_allclose(model.predict_proba_interval(X), expected, atol=1e-5)
    rows = rows[:, 2:]
    error = np.sqrt(np.einsum("ij,jk,ik->i", rows, V[4:, 4:], rows))
    v = rows @ np.append(model.propensity_coef_[0, 2], model.propensity_intercept_)
    expected = expit(v[:, None] + 1.644854 * np.outer(error, [-1, 1]))
    np.testing.assert_allclose(model.predict_propensity_interval(X, level=0.9), expected, atol=1e-5)


def posterior_logits(parameters, X):
    f, e = expit(X @ parameters[:3] + parameters[3]), expit(X[:, 2] * parameters[4] + parameters[5])
    return logit(f * (1 - e) / (1 - f * e))


def test_posterior_intervals_follow_from_the_gradient_of_their_logit(data, model):
    X, s = data
    V = numeric_covariance(model, X, s)
    at = np.concatenate([model.coef_[0], model.intercept_, model.propensity_coef_[0, 2:], model.propensity_intercept_])
    steps = 1e-5 * np.eye(6)
    gradient = np.stack([posterior_logits(at + d, X) - posterior_logits(at - d, X) for d in steps], axis=1) / 2e-5
    error = np.sqrt(np.einsum("ij,jk,ik->i", gradient, V, gradient))
    expected = expit(posterior_logits(at, X)[:, None] + 1.959964 * np.outer(error, [-1, 1]))
    expected[s == 1] = 1.0
    found = model.predict_posterior_interval(X, s)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(model.predict_posterior_interval(sparse.csr_array(X), s), found, atol=1e-12)
    with pytest.raises(TypeError, match=r"s must be the observed labels.*predict_posterior_interval"):
        model.predict_posterior_interval(X, None)


def test_intervals_of_a_fit_with_visit_attributes_follow_from_numeric_derivatives():
    """Both looks share the parameters of the propensity, so a parameter changes the posterior by both propensities."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 4))  # columns 2 and 3 are the efforts of the two looks
    S = (rng.random((900, 1)) < expit(2 * X[:, [0]])) & (rng.random((900, 2)) < expit(X[:, [1]] + X[:, 2:] - 0.5))
    unlabelled = ~S.any(axis=1)

    def propensities(b):
        return expit(X[:, [1]] * b[3] + X[:, 2:] * b[4] + b[5])

    def objective(b):
        f, e = expit(X[:, :2] @ b[:2] + b[2]), propensities(b)
        value = np.log(f * np.where(S, e, 1 - e).prod(axis=1) + (1 - f) * unlabelled).sum()
        return 0.5 * (b[:2] @ b[:2] + b[3:5] @ b[3:5]) - value

    def posterior(b):
        f, missed = expit(X[:, :2] @ b[:2] + b[2]), (1 - propensities(b)).prod(axis=1)
        return logit(f * missed / (1 - f + f * missed))[unlabelled]

    labelling = Labelling(visit_attributes={"effort": [2, 3]})
    model = SAREMClassifier(propensity_attributes=[1], labelling=labelling, tol=1e-14).fit(X, S.astype(int))
    of_e = [model.propensity_coef_[0, 1], model.visit_coef_[0, 0], model.propensity_intercept_[0]]
    at, steps = np.array([*model.coef_[0, :2], *model.intercept_, *of_e]), 1e-3 * np.eye(6)
    V = np.linalg.inv(
        [
            [(objective(at + a + b) - objective(at + a - b) - objective(at - a + b) + objective(at - a - b)) / 4e-6
             for b in steps]
            for a in steps
        ]
    )  # fmt: skip
    errors, found = np.sqrt(np.diagonal(V)), model.standard_errors()
    by_model = [*found.coef[0, :2], *found.intercept, found.propensity_coef[0, 1], found.visit_coef[0, 0]]
    np.testing.assert_allclose([*by_model, *found.propensity_intercept], errors, rtol=1e-4)
    gradient = np.stack([posterior(at + d) - posterior(at - d) for d in steps], axis=1) / 2e-3
    error = np.sqrt(np.einsum("ij,jk,ik->i", gradient, V, gradient))
    expected = expit(posterior(at)[:, None] + 1.959964 * np.outer(error, [-1, 1]))
    intervals = model.predict_posterior_interval(X, S.astype(int))
    np.testing.assert_allclose(intervals[unlabelled], expected, atol=1e-5)
    assert (intervals[~unlabelled] == 1.0).all()


def test_a_recalibrated_fit_adds_the_uncertainty_of_the_class_prior(data):
    X, s = data
    model = SAREMClassifierCV(propensity_attributes=[2], Cs=[1.0], cv=3, random_state=0).fit(X, s)
    u = logit(model.predict_proba(X)[:, 1])
    levels, recalibration = model.recalibration_.grid, model.recalibration_
    by_hand = np.array(
        [
            recalibration.centre
            + shift
            + slope / recalibration.slope * (u - recalibration.centre - recalibration.shift)
            for shift, slope in zip(levels.shift, levels.slope, strict=True)
        ]
    )
    mean = levels.interval_weight @ by_hand
    spread = np.sqrt(levels.interval_weight @ (by_hand - mean) ** 2)
    alone = model.fitted_pair_.inference.row_intervals(check_rows(model, X), 0.95, of="class")
    half, half_alone = (np.diff(logit(ends), axis=1)[:, 0] / 2 for ends in (model.predict_proba_interval(X), alone))
    np.testing.assert_allclose(half**2, half_alone**2 + (1.959964 * spread) ** 2, rtol=1e-4)
    for ends in (model.predict_propensity_interval(X), model.predict_posterior_interval(X, s)):
        assert ((ends[:, 0] <= ends[:, 1]) & (ends >= 0).all(axis=1) & (ends <= 1).all(axis=1)).all()
    q, ends = model.predict_posterior(X, s), model.predict_posterior_interval(X, s)
    assert ((ends[:, 0] <= q + 1e-12) & (q <= ends[:, 1] + 1e-12)).all()


def expected_inference(data, model):
    """Return the fit's inference with the expected information, for which enumeration is exact."""
    X, s = data
    f, e = Design.of(np.arange(3)), Design.of(np.array([2]))
    beta_f, beta_e = np.append(model.coef_[0], model.intercept_), np.append(model.propensity_coef_[0, 2], -0.1)
    w = np.ones(len(s))
    engine = engine_of(X, s=s.astype(float), w=w)
    sums = engine.total(LogisticPair(f, e).sums, np.append(beta_f, beta_e), Curvature.EXPECTED)
    problem = PairProblem.of(engine, f, e, np.inf, np.inf)
    inference = pair_inference(problem, np.append(beta_f, beta_e), information=sums.curvature)
    return inference, sums.curvature


@pytest.mark.parametrize("name", ["class_prior", "label_frequency"])
def test_population_variances_equal_enumeration_over_labels_and_rows(data, model, name):
    """With rows drawn anew and both labels of each row enumerated, influence functions have exactly this variance."""
    X, _ = data
    inference, information = expected_inference(data, model)
    f = expit(X @ inference.beta_f[:-1] + inference.beta_f[-1])
    e = expit(X[:, [2]] @ inference.beta_e[:-1] + inference.beta_e[-1])
    functional = getattr(inference, name)
    by_row = (f - f.mean()) / f.size if name == "class_prior" else f * (e - (f @ e) / f.sum()) / f.sum()
    rows_f, rows_e = np.column_stack([X, np.ones(f.size)]), np.column_stack([X[:, 2], np.ones(f.size)])
    variance = 0.0
    for label, chance in ((1, f * e), (0, 1 - f * e)):
        r = np.ones(f.size) if label else -f * e / (1 - f * e)
        score = np.column_stack([rows_f * (r * (1 - f))[:, None], rows_e * (r * (1 - e))[:, None]])
        influence = by_row + score @ np.linalg.solve(information, functional.gradient)
        variance += chance @ influence**2
    assert inference.error_of(functional) == pytest.approx(np.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_intervals_are_symmetric_on_the_logit_scale_and_widen_with_the_level(model, level):
    z = {0.5: 0.6744898, 0.95: 1.959964, 0.999: 3.290527}[level]
    errors = model.standard_errors()
    for name in ("class_prior", "label_frequency"):
        value = getattr(model, f"{name}_")
        low, high = getattr(model, f"{name}_interval")(level=level)
        assert 0 < low < value < high < 1
        centre, half = np.log(value / (1 - value)), z * getattr(errors, name) / (value * (1 - value))
        assert (low, high) == pytest.approx((expit(centre - half), expit(centre + half)), rel=1e-6)


# --- invariances


def same_inference(one, other, X, Y, rtol=1e-5):
    for a, b in zip(one.standard_errors(), other.standard_errors(), strict=True):
        assert (a is None) == (b is None)  # fields that fits to one label for each row do not have
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=rtol)
    np.testing.assert_allclose(one.predict_proba_interval(X), other.predict_proba_interval(Y), rtol=10 * rtol)
    np.testing.assert_allclose(one.predict_propensity_interval(X), other.predict_propensity_interval(Y), rtol=10 * rtol)


def test_weights_equal_repeated_rows(data):
    X, s = data
    w = np.random.default_rng(0).integers(0, 3, len(s))
    options = {"propensity_attributes": [2], "tol": 1e-14}
    weighted = SAREMClassifier(**options).fit(X, s, sample_weight=w)
    copied = SAREMClassifier(**options).fit(np.repeat(X, w, axis=0), np.repeat(s, w))
    same_inference(weighted, copied, X, X)
    assert weighted.summary().weight == copied.summary().n_rows == w.sum()
    assert weighted.summary().n_rows == np.count_nonzero(w)


@pytest.mark.parametrize(
    ("make", "rtol"),
    [
        (sparse.csr_array, 1e-5),
        (np.asfortranarray, 1e-5),
        (lambda X: pd.DataFrame(X, columns=list("abc")), 1e-5),
        (lambda X: pl.DataFrame(X, schema=list("abc")), 1e-5),
        (lambda X: X.astype(np.float32), 1e-2),
    ],
    ids=["csr", "fortran", "pandas", "polars", "float32"],
)
def test_every_kind_of_table_gives_the_same_inference(data, model, make, rtol):
    X, s = data
    table = make(X)
    same_inference(model, SAREMClassifier(propensity_attributes=[2], tol=1e-14).fit(table, s), X, table, rtol)


def test_units_of_columns_change_only_coefficients(data):
    X, s = data
    plain = SAREMClassifier(propensity_attributes=[2], tol=1e-15, **FREE).fit(X, s)
    Z = X * [1e-3, 1e4, 50.0] + [0.0, 3e4, -7.0]
    scaled = SAREMClassifier(propensity_attributes=[2], tol=1e-15, **FREE).fit(Z, s)
    np.testing.assert_allclose(
        scaled.standard_errors().coef * [1e-3, 1e4, 50.0], plain.standard_errors().coef, rtol=1e-4
    )
    assert scaled.standard_errors().class_prior == pytest.approx(plain.standard_errors().class_prior, rel=1e-4)
    np.testing.assert_allclose(scaled.predict_proba_interval(Z), plain.predict_proba_interval(X), atol=1e-4)


def test_collinear_columns_have_infinite_coefficient_errors_but_finite_prediction_errors(data):
    X, s = data
    group = np.digitize(X[:, 0], [-0.5, 0.5])
    dummies = np.eye(3)[group]
    full = SAREMClassifier(propensity_attributes=[3], tol=1e-14, **FREE).fit(np.column_stack([dummies, X[:, 2]]), s)
    dropped = SAREMClassifier(propensity_attributes=[2], tol=1e-14, **FREE).fit(
        np.column_stack([dummies[:, 1:], X[:, 2]]), s
    )
    errors = full.standard_errors()
    assert np.isinf(errors.coef[0, :3]).all()
    assert np.isinf(errors.intercept).all()
    assert np.isfinite(errors.propensity_coef[0, 3])
    assert errors.class_prior == pytest.approx(dropped.standard_errors().class_prior, rel=1e-4)
    one, other = np.column_stack([dummies, X[:, 2]]), np.column_stack([dummies[:, 1:], X[:, 2]])
    np.testing.assert_allclose(full.predict_proba_interval(one), dropped.predict_proba_interval(other), atol=1e-5)
    never_seen = np.array([[1.0, 1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(full.predict_proba_interval(never_seen), [[0.0, 1.0]])
    assert "std err inf" in str(full.summary())
    assert full.summary().to_frame().loc[("classifier", "x0"), "p_value"] == 1


def test_a_coefficient_without_information_has_the_variance_of_the_ridge_prior(data):
    """A constant column has no information, so the variance of its coefficient is that of the ridge prior, C."""
    X, s = data
    table = np.column_stack([X, np.zeros(len(s))])
    model = SAREMClassifier(propensity_attributes=[2], C=0.25).fit(table, s)
    assert model.standard_errors().coef[0, 3] == pytest.approx(0.5)


def test_intervals_do_not_depend_on_the_size_of_blocks(data, model, monkeypatch):
    """Only rounding may differ, because matrix products may add up in another order."""
    whole = model.predict_proba_interval(data[0])
    monkeypatch.setattr("scarless.engines.memory._default_block_rows", lambda X: 7)
    np.testing.assert_allclose(model.predict_proba_interval(data[0]), whole, rtol=1e-13)


# --- the information matrix


def test_the_solvers_information_equals_a_new_computation(data, model):
    X, s = data
    given = model.fitted_pair_.inference
    problem = PairProblem.of(engine_of(X, s=s.astype(float), w=np.ones(len(s))), given.f, given.e)
    again = pair_inference(problem, given.parameters)
    np.testing.assert_allclose(given.information, again.information, rtol=1e-6, atol=1e-6)
    assert not again.expected


def test_away_from_an_optimum_the_expected_information_is_used(data):
    X, s = data
    design = Design.of(np.arange(3))
    beta = np.array([3.0, -3.0, 3.0, 2.0])
    problem = PairProblem.of(engine_of(X, s=s.astype(float), w=np.ones(len(s))), design, design, np.inf, np.inf)
    inference = pair_inference(problem, np.append(beta, beta))
    assert inference.expected
    assert (inference.precision.values > -1e-10).all()


def test_a_pickle_does_not_contain_cached_properties(model):
    fresh = len(pickle.dumps(model.fitted_pair_.inference))
    model.summary()
    assert len(pickle.dumps(model.fitted_pair_.inference)) == fresh < 5000
    copy = pickle.loads(pickle.dumps(model))
    assert copy.class_prior_interval() == model.class_prior_interval()


# --- the summary


def test_the_summary_contains_the_estimates(data):
    X, s = data
    names = ["age", "blood <b>pressure</b>", "visits"]
    model = SAREMClassifier(propensity_attributes=["visits"]).fit(pd.DataFrame(X, columns=names), s)
    summary = model.summary(level=0.9)
    frame, errors = summary.to_frame(), model.standard_errors()
    assert list(frame.index) == [("classifier", name) for name in [*names, "intercept"]] + [
        ("propensity", "visits"),
        ("propensity", "intercept"),
    ]
    np.testing.assert_allclose(frame["coef"].iloc[:3], model.coef_[0])
    np.testing.assert_allclose(frame["std_err"].iloc[:3], errors.coef[0])
    np.testing.assert_allclose(frame["z"], frame["coef"] / frame["std_err"])
    np.testing.assert_allclose(frame["high"] - frame["coef"], 1.644854 * frame["std_err"], rtol=1e-6)
    np.testing.assert_allclose(frame["coef"] - frame["low"], 1.644854 * frame["std_err"], rtol=1e-6)
    assert summary.class_prior_interval == model.class_prior_interval(level=0.9)
    assert summary.label_frequency == pytest.approx(model.label_frequency_)
    text = str(summary)
    for piece in ("SAREMClassifier", "1,200", f"{s.sum()} ({s.mean():.1%})", "[0.05", "0.95]", "P>|z|", "visits"):
        assert piece in text
    assert f"{model.class_prior_:.3f} [" in text
    assert "shrunk towards 0" in text
    width = text.splitlines()[1].count("=")
    assert all(len(line) <= width for line in text.splitlines())
    html = summary._repr_html_()
    assert "blood &lt;b&gt;pressure&lt;/b&gt;" in html
    assert "<b>pressure" not in html


def test_p_values_are_two_sided(model):
    block = model.summary().blocks[0]
    np.testing.assert_allclose(block.p_value, 2 * norm.sf(np.abs(block.coef / block.std_err)))
    np.testing.assert_array_equal((block.low < 0) & (block.high > 0), block.p_value > 0.05)


def test_the_summary_of_an_unpenalised_fit_mentions_no_penalty(data):
    text = str(SAREMClassifier(propensity_attributes=[2], **FREE).fit(*data).summary())
    assert "shrunk towards 0" not in text


def test_the_summary_mentions_that_the_solver_did_not_converge(data):
    with pytest.warns(ConvergenceWarning):
        model = SAREMClassifier(propensity_attributes=[2], max_iter=2).fit(*data)
    assert "did not converge" in str(model.summary())


def test_long_names_are_shortened(data):
    X, s = data
    name = "a" * 60
    model = SAREMClassifier().fit(pd.DataFrame(X, columns=[name, "b", "c"]), s)
    assert "a" * 37 + "..." in str(model.summary())
    assert name not in str(model.summary())


# --- errors


@pytest.mark.parametrize(
    "fit",
    [
        PublishedEMClassifier(refit=True),
        PublishedEMClassifier(LogisticRegression(), tol=1e-2),
    ],
    ids=["refit", "own classifier"],
)
def test_fits_without_standard_errors_raise_and_recommend_the_bootstrap(data, fit):
    fit.fit(*data)
    for method in (fit.summary, fit.standard_errors, fit.class_prior_interval, fit.label_frequency_interval):
        with pytest.raises(ValueError, match=r"no standard errors: they need .* use scarless\.diagnostics\.bootstrap"):
            method()
    with pytest.raises(ValueError, match="no standard errors"):
        fit.predict_proba_interval(data[0])


def test_models_that_are_too_wide_for_standard_errors_raise(data, monkeypatch):
    monkeypatch.setattr(_inference, "MAX_MATRIX_PARAMETERS", 5)
    monkeypatch.setattr(solving, "MAX_MATRIX_PARAMETERS", 5)
    model = SAREMClassifier(propensity_attributes=[2]).fit(*data)
    with pytest.raises(
        ValueError,
        match=r"at most 5 parameters together, but these models have 6\. .*bootstrap_intervals",
    ):
        model.summary()
    assert model.class_prior_ > 0


def test_a_model_must_be_fitted_first():
    with pytest.raises(NotFittedError):
        SAREMClassifier().summary()


@pytest.mark.parametrize("level", [0, 1, 95, "high"])
def test_confidence_levels_outside_0_and_1_raise(data, model, level):
    for method in (model.summary, model.class_prior_interval, model.label_frequency_interval):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            method(level=level)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        model.predict_propensity_interval(data[0], level=level)


def test_rows_with_a_wrong_number_of_columns_raise(model):
    with pytest.raises(ValueError, match="features"):
        model.predict_proba_interval(np.zeros((2, 5)))


def test_an_optimum_at_infinity_has_very_large_standard_errors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    s = (X[:, 0] > 0).astype(int)
    with pytest.warns(Warning):  # noqa: PT030
        model = SAREMClassifier(**FREE).fit(X, s)
    low, high = model.label_frequency_interval()
    assert 0 <= low <= high <= 1
    assert np.isfinite([low, high]).all()
    assert "inf" in str(model.summary()) or model.standard_errors().coef[0, 0] > 10


# --- extreme tables


@st.composite
def small_tables(draw):
    """Draw a few rows of columns that are constant, binary, normal or extreme in scale, with both labels."""
    n, seed = draw(st.integers(2, 30)), draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    kinds = {
        "constant": np.full(n, 3.0),
        "binary": rng.integers(0, 2, n).astype(float),
        "normal": rng.normal(size=n),
        "huge": 1e10 * rng.normal(size=n),
        "tiny": 1e-10 * rng.normal(size=n),
        "far": 1e5 + rng.normal(size=n),
    }
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=4))
    s = rng.integers(0, 2, n)
    s[:2] = [0, 1]
    return np.column_stack([kinds[name] for name in names]), s


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=12)
@given(
    table=small_tables(),
    attributes=st.sampled_from([None, [0]]),
    C=st.sampled_from([1e-3, 1.0, np.inf]),
    dtype=st.sampled_from([np.float32, np.float64]),
    make=st.sampled_from([np.asarray, sparse.csr_array]),
)
def test_intervals_are_valid_for_any_table(table, attributes, C, dtype, make):
    X, s = make(table[0].astype(dtype)), table[1]
    model = SAREMClassifier(propensity_attributes=attributes, C=C, propensity_C=C, max_iter=50).fit(X, s)
    for low, high in (model.class_prior_interval(), model.label_frequency_interval()):
        assert 0 <= low <= high <= 1
    for ends in (model.predict_proba_interval(X), model.predict_propensity_interval(X)):
        assert ((ends[:, 0] >= 0) & (ends[:, 0] <= ends[:, 1]) & (ends[:, 1] <= 1)).all()
    errors = np.concatenate([block.std_err for block in model.summary().blocks])
    assert (errors >= 0).all()  # may be infinite, but not NaN
    assert "intercept" in str(model.summary())
