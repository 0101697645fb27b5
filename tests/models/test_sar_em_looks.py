"""Several looks, audits, false positives and known values: special cases with known results, and errors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scarless
from scarless import ClassPrior, ClassPriorWarning, LabelFrequency, Labelling, SAREMClassifier
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.scale import ParquetRows

N = 800
COLUMNS = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, 4))
    y = rng.random(N) < expit(2 * X[:, 0] - X[:, 1])
    S = (y[:, None] & (rng.random((N, 2)) < expit(X[:, [2]]))).astype(float)
    S[rng.random((N, 2)) < 0.2] = np.nan
    audit = np.where(np.arange(N) < 100, y, np.nan)
    full = (y[:, None] & (rng.random((N, 2)) < expit(X[:, [2]]))).astype(int)
    return {"X": X, "S": S, "audit": audit, "y": y.astype(int), "s": full[:, 0], "full": full}


def _model(**parameters):
    return SAREMClassifier(**{"propensity_attributes": [2], "tol": 1e-17, **parameters})


def _parameters(model):
    names = ("coef_", "intercept_", "propensity_coef_", "propensity_intercept_", "class_prior_", "label_frequency_")
    return np.concatenate([np.ravel(getattr(model, name)) for name in names])


def _assert_same(got, want, atol=1e-8):
    np.testing.assert_allclose(_parameters(got), _parameters(want), atol=atol)
    np.testing.assert_allclose(got.log_likelihood_, want.log_likelihood_, rtol=1e-9)


# One look equals one label for each row


def test_one_look_as_a_column_equals_one_label(data):
    want = _model().fit(data["X"], data["s"])
    with pytest.warns(sklearn.exceptions.DataConversionWarning):
        got = _model().fit(data["X"], data["s"][:, None])
    np.testing.assert_array_equal(_parameters(got), _parameters(want))
    assert got.selection_ == want.selection_


@pytest.mark.parametrize("shape", [(N,), (N, 1)])
def test_one_look_without_audits_has_the_optimum_of_one_label(data, shape):
    X, s = data["X"], data["s"]
    want = _model().fit(X, s)
    got = _model().fit(X, s.reshape(shape), audit=np.full(N, np.nan))
    _assert_same(
        got, want, atol=1e-6
    )  # The objective resolves no more digits. One more Newton step from `got` gives the optimum:
    at, pair, rows = (
        got.fitted_pair_.inference.parameters,
        LogisticPair(Design.of(np.arange(4)), Design.of(np.array([2]))),
        {"s": s, "w": s**0},
    )
    sums, ridge = pair.sums(X, rows, at, Curvature.OBSERVED), np.array([1, 1, 1, 1, 0, 1, 0])
    step = np.linalg.solve(sums.curvature + np.diag(ridge), sums.gradient + ridge * at)
    np.testing.assert_allclose(at - step, want.fitted_pair_.inference.parameters, atol=1e-8)
    np.testing.assert_allclose(got.standard_errors().class_prior, want.standard_errors().class_prior, rtol=1e-5)
    np.testing.assert_allclose(got.predict_posterior(X, s), want.predict_posterior(X, s), atol=1e-7)
    np.testing.assert_allclose(got.score(X, s), want.score(X, s), rtol=1e-9)
    for of in ("predict_proba_interval", "predict_propensity_interval"):
        np.testing.assert_allclose(getattr(got, of)(X), getattr(want, of)(X), atol=1e-5)
    posterior = [each.predict_posterior_interval(X, s) for each in (got, want)]
    np.testing.assert_allclose(*posterior, atol=1e-5)


def test_models_with_the_same_columns_get_a_warning_and_are_ordered_as_in_the_paper(data):
    X, s = data["X"], data["s"]
    with pytest.warns(UserWarning, match="the two models can be swapped"):
        want = _model(propensity_attributes=slice(None)).fit(X, s)
    with pytest.warns(UserWarning, match="one label for each row does not show which one is the class model"):
        got = _model(propensity_attributes=slice(None)).fit(X, s, audit=np.full(N, np.nan))
    _assert_same(got, want, atol=1e-5)
    assert "does not show which one is the class model" in str(got.summary()).replace("\n", " ").replace("  ", " ")


@pytest.mark.filterwarnings("ignore:.*unlabelled rows have an audit:UserWarning")  # all rows are audited here
def test_audits_of_all_rows_give_two_logistic_regressions(data):
    X, y, s = data["X"], data["y"], data["s"]
    model = _model(C=0.5, propensity_C=2.0).fit(X, s, audit=y)
    f = LogisticRegression(C=0.5, tol=1e-12, solver="newton-cholesky").fit(X, y)
    e = LogisticRegression(C=2.0, tol=1e-12, solver="newton-cholesky").fit(X[y == 1][:, [2]], s[y == 1])
    np.testing.assert_allclose(model.coef_, f.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, f.intercept_, atol=1e-6)
    np.testing.assert_allclose(model.propensity_coef_[:, 2], e.coef_[0], atol=1e-6)
    np.testing.assert_allclose(model.propensity_intercept_, e.intercept_, atol=1e-6)
    np.testing.assert_array_equal(model.predict_posterior(X, s, audit=y), y)


# Rows and columns


@pytest.mark.usefixtures("one_start")
def test_weights_count_rows(data):
    X, S, audit = data["X"], data["S"], data["audit"]
    weight = np.where(np.arange(N) % 3 == 0, 2, 1)
    index = np.repeat(np.arange(N), weight)
    known = [ClassPrior(0.5, se=0.02), LabelFrequency(0.5, se=0.05, look=1)]
    got = _model(known=known).fit(X, S, sample_weight=weight, audit=audit)
    want = _model(known=known).fit(X[index], S[index], audit=audit[index])
    _assert_same(got, want)
    for a, b in zip(got.standard_errors(), want.standard_errors(), strict=True):
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(got.score(X, S, weight), want.score(X[index], S[index]), rtol=1e-10)


def test_rows_of_weight_0_have_no_influence(data):
    X, S, audit = data["X"], data["S"], data["audit"]
    got = _model().fit(X, S, sample_weight=(np.arange(N) >= 50).astype(float), audit=audit)
    _assert_same(got, _model().fit(X[50:], S[50:], audit=audit[50:]))


@pytest.mark.usefixtures("one_start")
@pytest.mark.parametrize("rate", [0.0, 0.01, "estimate"])
def test_the_order_of_rows_and_looks_changes_nothing(data, rate):
    X, S, audit = data["X"], data["S"], data["audit"]
    want = _model(labelling=Labelling(false_positive_rate=rate)).fit(X, S, audit=audit)
    order = np.random.default_rng(0).permutation(N)
    _assert_same(
        _model(labelling=Labelling(false_positive_rate=rate)).fit(X[order], S[order], audit=audit[order]),
        want,
        atol=1e-6,
    )
    _assert_same(_model(labelling=Labelling(false_positive_rate=rate)).fit(X, S[:, ::-1], audit=audit), want, atol=1e-6)


def test_a_look_that_never_took_place_has_no_influence(data):
    X, S, audit = data["X"], data["S"], data["audit"]
    more = np.column_stack([S, np.full(N, np.nan)])
    _assert_same(_model().fit(X, more, audit=audit), _model().fit(X, S, audit=audit))


@pytest.mark.usefixtures("one_start")
def test_swapping_two_looks_swaps_their_propensities(data):
    X, S, audit = data["X"], data["S"], data["audit"]
    one = _model(labelling=Labelling(shared=False)).fit(X, S, audit=audit)
    two = _model(labelling=Labelling(shared=False)).fit(X, S[:, ::-1], audit=audit)
    np.testing.assert_allclose(one.propensity_coef_, two.propensity_coef_[::-1], atol=1e-6)
    np.testing.assert_allclose(one.label_frequencies_, two.label_frequencies_[::-1], atol=1e-6)
    np.testing.assert_allclose(one.predict_propensity(X, look=0), two.predict_propensity(X, look=1), atol=1e-6)
    errors = one.standard_errors()
    np.testing.assert_allclose(errors.propensity_coef, two.standard_errors().propensity_coef[::-1], rtol=1e-5)
    assert errors.propensity_coef.shape == one.propensity_coef_.shape == (2, 4)
    assert errors.propensity_intercept.shape == one.propensity_intercept_.shape == (2,)


def test_visit_attributes_are_own_columns_with_one_coefficient(data):
    X, S = data["X"], data["S"]
    model = _model(labelling=Labelling(visit_attributes={"effort": [1, 3]})).fit(X, S)
    assert model.visit_coef_.shape == model.standard_errors().visit_coef.shape == (1, 1)
    assert (model.coef_[0, [1, 3]] == 0).all()
    for look, column in enumerate([1, 3]):
        logit = X[:, 2] * model.propensity_coef_[0, 2] + X[:, column] * model.visit_coef_[0, 0]
        want = expit(logit + model.propensity_intercept_[0])
        np.testing.assert_allclose(model.predict_propensity(X, look=look), want)
        ends = model.predict_propensity_interval(X, look=look)
        assert ((ends[:, 0] < want) & (want < ends[:, 1])).all()


KINDS = {
    "pandas": lambda X, S, a: (pd.DataFrame(X, columns=COLUMNS), pd.DataFrame(S), pd.Series(a)),
    "polars": lambda X, S, a: (
        pl.DataFrame(X, schema=COLUMNS),
        pl.DataFrame(S).fill_nan(None),
        pl.Series(a).fill_nan(None).cast(pl.Boolean),
    ),
    "sparse": lambda X, S, a: (sparse.csr_array(X), S, a),
    "codes": lambda X, S, a: (X, np.where(np.isnan(S), -1, S).astype(int), np.where(np.isnan(a), -1, a).astype(int)),
    "masked": lambda X, S, a: (X, np.ma.masked_invalid(S), np.ma.masked_invalid(a)),
    "Fortran": lambda X, S, a: (np.asfortranarray(X), np.asfortranarray(S), a),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_of_table_gives_the_same(data, kind):
    X, S, audit = KINDS[kind](data["X"], data["S"], data["audit"])
    got = _model().fit(X, S, audit=audit)
    _assert_same(got, _model().fit(data["X"], data["S"], audit=data["audit"]))
    want = got.predict_posterior(X if kind in ("pandas", "polars") else data["X"], data["S"], data["audit"])
    np.testing.assert_allclose(got.predict_posterior(X, S, audit), want)


def test_memory_maps_and_float32(data, tmp_path):
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(N, 4))
    X[:] = data["X"]
    S = np.memmap(tmp_path / "S", dtype=np.float64, mode="w+", shape=(N, 2))
    S[:] = data["S"]
    got = SAREMClassifier(propensity_attributes=[2]).fit(X, S)
    want = _model().fit(data["X"], data["S"])
    np.testing.assert_allclose(_parameters(got), _parameters(want), atol=1e-3)


@pytest.mark.usefixtures("one_start")
def test_words_and_truth_values(data):
    X, S, audit = data["X"], data["S"], data["audit"]
    want = _model().fit(X, S, audit=audit)
    words = np.where(np.isnan(S), None, np.where(S == 1, "seen", "not seen"))
    checked = np.where(np.isnan(audit), None, np.where(audit == 1, "seen", "not seen"))
    got = _model(pos_label="seen").fit(X, words, audit=checked)
    _assert_same(got, want)
    assert got.classes_.tolist() == ["not seen", "seen"]
    assert set(got.predict(X)) == {"not seen", "seen"}
    with pytest.warns(UserWarning, match="pos_label is not given") as told:
        _model().fit(X, words)
    assert sum("pos_label" in str(each.message) for each in told) == 1
    _assert_same(_model().fit(X, np.where(np.isnan(S), None, S == 1), audit=audit), want)


@pytest.mark.usefixtures("one_start")
@pytest.mark.filterwarnings(
    "ignore:.*agree more often than independent looks:UserWarning"
)  # because the rows get the labels of other rows
def test_labels_in_another_row_order_get_a_warning(data):
    frame, S = pd.DataFrame(data["X"]), pd.DataFrame(data["S"])
    with pytest.warns(UserWarning, match="matched to the rows by position"):
        _model().fit(frame, S[::-1])
    with pytest.warns(UserWarning, match="audit is matched to the rows by position"):
        _model(labelling=Labelling(false_positive_rate=0.1)).fit(frame, S, audit=pd.Series(data["audit"])[::-1])


@pytest.mark.usefixtures("one_start")
@pytest.mark.parametrize("coding", ["nulls", "Int64", "boolean", "-1", "words"])
def test_tables_in_files(data, tmp_path, coding):
    X, S, audit = data["X"], data["S"], data["audit"]
    frame = pd.DataFrame(X, columns=COLUMNS).assign(seen_1=S[:, 0], seen_2=S[:, 1], audited=audit)
    named, pos_label = ["seen_1", "seen_2", "audited"], None
    if coding == "-1":
        frame = frame.fillna(-1).astype(dict.fromkeys(named, int))
    elif coding == "words":
        frame, pos_label = frame.assign(**{name: frame[name].map({0: "no", 1: "yes"}) for name in named}), "yes"
    elif coding != "nulls":
        frame = frame.astype(dict.fromkeys(named, coding))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    rows = ParquetRows(tmp_path)
    model = _model(propensity_attributes=["c"], pos_label=pos_label)
    got = model.fit(rows, ["seen_1", "seen_2"], audit="audited")
    assert got.feature_names_in_.tolist() == COLUMNS
    want = _model(propensity_attributes=["c"]).fit(pd.DataFrame(X, columns=COLUMNS), S, audit=audit)
    _assert_same(got, want)
    assert got.n_audited_ == 100
    posterior = got.predict_posterior(rows, ["seen_1", "seen_2"], audit="audited")
    np.testing.assert_allclose(posterior, want.predict_posterior(pd.DataFrame(X, columns=COLUMNS), S, audit), atol=1e-6)


# Known values


def _shares(model, data):
    f = model.predict_proba(data["X"])[:, 1]
    return f.mean(), [f @ model.predict_propensity(data["X"], look=k) / f.sum() for k in range(model.n_looks_)]


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_known_values_hold_exactly(data, weighted):
    weight = np.random.default_rng(0).integers(1, 4, N) if weighted else None
    known = [ClassPrior(0.47), LabelFrequency(0.52, look=1)]
    model = _model(known=known, tol=None).fit(data["X"], data["S"], sample_weight=weight)
    assert model.converged_
    assert abs(model.class_prior_ - 0.47) < 1e-6
    assert abs(model.label_frequencies_[1] - 0.52) < 1e-6
    if not weighted:
        prior, frequencies = _shares(model, data)
        assert abs(prior - 0.47) < 1e-6
        assert abs(frequencies[1] - 0.52) < 1e-6
    low, high = model.class_prior_interval()
    assert low < 0.47 < high  # an interval for the population, of which the rows are a sample


def test_exact_known_values_hold_in_float32(data):
    model = _model(known=[ClassPrior(0.47)], tol=None).fit(data["X"].astype(np.float32), data["S"])
    assert model.converged_
    assert abs(model.class_prior_ - 0.47) < 1e-6


@pytest.mark.usefixtures("one_start")
def test_a_known_value_of_a_group_holds_in_the_group(data):
    X = data["X"].copy()
    X[:, 3] = X[:, 3] > 0
    model = _model(known=[ClassPrior(0.5, where={3: 1})], tol=None).fit(X, data["S"])
    assert abs(model.predict_proba(X[X[:, 3] == 1])[:, 1].mean() - 0.5) < 1e-6
    frame = pd.DataFrame(X, columns=COLUMNS)
    by_name = _model(known=[ClassPrior(0.5, where={"d": 1})], tol=None).fit(frame, data["S"])
    _assert_same(by_name, model)


def test_a_known_value_with_a_huge_standard_error_changes_nothing(data):
    known = [ClassPrior(0.2, se=1e6), LabelFrequency(0.9, se=1e6)]
    _assert_same(_model(known=known).fit(data["X"], data["S"]), _model().fit(data["X"], data["S"]), atol=1e-7)


@pytest.mark.usefixtures("one_start")
@pytest.mark.parametrize("claim", [ClassPrior(0.9, se=0.01), ClassPrior(0.9), LabelFrequency(0.95, se=0.01)])
def test_a_known_value_that_rows_contradict_gets_a_warning(data, claim):
    with pytest.warns(UserWarning, match="and the rows disagree: they are .* standard errors apart"):
        model = _model(known=[claim], tol=None).fit(data["X"], data["S"])
    assert "disagree" in str(model.summary())


def test_audits_that_found_only_positives_get_a_warning(data):
    checked = np.where(np.flatnonzero(data["y"])[:12, None] == np.arange(N), 1.0, np.nan)
    audit = np.nanmax(np.vstack([checked, np.full(N, -1.0)]), axis=0)
    with pytest.warns(UserWarning, match="audits of unlabelled rows are positive. If negative results"):
        model = _model().fit(data["X"], data["s"], audit=audit)
    assert "audits of unlabelled rows are positive" in " ".join(str(model.summary()).split())


@pytest.mark.parametrize("gap", [-1.0, 0.0])
def test_an_audit_among_the_attributes_gets_a_warning(data, gap):
    audit = np.where(np.arange(N) % 4 == 0, data["y"], np.nan)
    leak = np.column_stack([data["X"], np.where(np.isnan(audit), gap, audit)])
    with pytest.warns(UserWarning, match="column 4 of X equals the audit in all audited rows"):
        _model().fit(leak, data["s"], audit=audit)


def test_a_known_value_that_rows_agree_with_gets_no_warning(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _model(known=[ClassPrior(data["y"].mean(), se=0.02)]).fit(data["X"], data["S"])


@pytest.mark.usefixtures("one_start")
def test_a_known_class_prior_below_the_labelled_share_is_refused(data):
    with pytest.raises(
        ValueError, match=r"the class prior, 0\.05, but 0\.31 of the rows are labelled.* false_positive_rate"
    ):
        _model(known=[ClassPrior(0.05)]).fit(data["X"], data["S"])
    _model(known=[ClassPrior(0.3, se=0.05)]).fit(data["X"], data["S"])  # within three standard errors


def test_a_known_class_prior_that_the_rows_contradict_gets_a_warning(data):
    with pytest.warns(ClassPriorWarning, match=r"rows disagree|agree with all known values") as told:
        model = _model(known=[ClassPrior(0.9)], tol=None).fit(data["X"], data["S"])
    assert any("the rows disagree" in str(each.message) for each in told)
    unmet = "no models of this form agree with all known values within their standard errors"
    assert any(unmet in str(each.message) for each in told) == (not model.converged_)
    assert abs(model.class_prior_ - 0.9) < 1e-6 or not model.converged_


# Conventions of scikit-learn


def test_intervals_of_false_positive_rates_are_symmetric_on_the_logit_scale(data):
    X, audit, rng = data["X"], np.where(np.arange(N) < 400, data["y"], np.nan), np.random.default_rng(4)
    S = np.where(rng.random((N, 2)) < 0.1, 1, data["full"])
    model = _model(labelling=Labelling(false_positive_rate="estimate")).fit(X, S, audit=audit)
    ((rate, (low, high)),) = model.fitted_pair_.rate_intervals(0.95)
    assert rate == pytest.approx(float(np.ravel(model.false_positive_rate_)[0]))
    error = float(np.ravel(model.standard_errors().false_positive_rate)[0])
    half = 1.959964 * error / (rate * (1 - rate))
    np.testing.assert_allclose(logit([low, rate, high]), logit(rate) + half * np.arange(-1, 2), rtol=1e-5)


@pytest.mark.usefixtures("one_start")
def test_state_goes_with_clones_and_copies(data, tmp_path):
    X, S, audit = data["X"], data["S"], data["audit"]
    known = [ClassPrior(0.5, se=0.1, where={3: 1.0}), LabelFrequency(0.5, se=0.1)]
    model = _model(
        labelling=Labelling(visit_attributes={"effort": [0, 1]}, false_positive_rate="estimate"), known=known[1:]
    )
    assert clone(model).get_params()["known"] == known[1:]
    assert clone(model).set_params(known=known).known == known
    model.fit(X, S, audit=audit)
    scarless.save(model, tmp_path / "model.skops")
    for other in (pickle.loads(pickle.dumps(model)), scarless.load(tmp_path / "model.skops")):
        np.testing.assert_array_equal(other.predict_posterior(X, S, audit), model.predict_posterior(X, S, audit))
        np.testing.assert_array_equal(other.predict_propensity(X, look=1), model.predict_propensity(X, look=1))
        np.testing.assert_allclose(other.predict_posterior_interval(X, S), model.predict_posterior_interval(X, S))
        assert str(other.summary()) == str(model.summary())
        assert other.known == model.known


@pytest.mark.usefixtures("one_start")
def test_a_second_fit_forgets_the_first(data):
    X, S, audit, s = data["X"], data["S"], data["audit"], data["s"]
    plain, looked = _model().fit(X, s), _model().fit(X, S, audit=audit)
    for first, second in ((plain, looked), (looked, plain)):
        again = clone(first).fit(X, s) if first is plain else clone(first).fit(X, S, audit=audit)
        again = again.fit(X, S, audit=audit) if second is looked else again.fit(X, s)
        assert {name for name in vars(again) if name.endswith("_")} == {
            name for name in vars(second) if name.endswith("_")
        }
        np.testing.assert_array_equal(_parameters(again), _parameters(second))
        assert str(again.summary()) == str(second.summary())
    assert looked.optima_[looked.selection_.index].class_prior == pytest.approx(looked.class_prior_)


@pytest.mark.usefixtures("one_start")
def test_audits_are_metadata(data):
    X, s, audit = data["X"], data["s"], data["audit"]
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), _model().set_fit_request(audit=True))
        assert pipeline.fit(X, s, audit=audit)[-1].n_audited_ == 100
        found = cross_validate(pipeline, X, s, cv=2, params={"audit": audit}, return_estimator=True)
    assert [fold[-1].n_audited_ for fold in found["estimator"]] == [0, 100]
    pipeline = make_pipeline(StandardScaler(), _model())
    assert pipeline.fit(X, s, saremclassifier__audit=audit)[-1].n_audited_ == 100


@pytest.mark.usefixtures("one_start")
def test_cv_as_a_number_needs_coded_gaps_and_a_splitter_accepts_nan(data):
    X, S = data["X"], data["S"]
    want = cross_validate(_model(), X, S, cv=KFold(3))["test_score"]
    codes = np.where(np.isnan(S), -1, S).astype(int)
    for coded in (codes, np.ma.masked_equal(codes, -1), pd.DataFrame(codes)):
        np.testing.assert_allclose(cross_validate(_model(), X, coded, cv=3)["test_score"], want)
    search = GridSearchCV(_model(), {"C": [1e-4, 1.0]}, cv=3).fit(X, codes)
    assert search.best_params_ == {"C": 1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning of scikit-learn about NaN as an integer
        with pytest.raises(ValueError, match="Input y contains NaN"):
            cross_validate(_model(), X, S, cv=3)


# Edge cases


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 12),
    n_looks=st.integers(1, 4),
    scale=st.sampled_from([1e-30, 1.0, 1e8]),
    constant=st.booleans(),
    rate=st.sampled_from([0.0, 0.05, "estimate"]),
    own=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_small_and_odd_tables_are_fitted_or_refused_in_words(seed, n, n_looks, scale, constant, rate, own):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, 2))
    if constant:
        X[:, 1] = 7.0
    S = rng.choice([0.0, 1.0, np.nan], size=(n, n_looks), p=[0.5, 0.3, 0.2])
    audit = rng.choice([np.nan, 1.0, 0.0], size=n)
    model = SAREMClassifier(propensity_attributes=[1], labelling=Labelling(false_positive_rate=rate, shared=not own))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, S, audit=audit)
        except ValueError as error:
            told = str(error)
            known = (
                "were audited negative",
                "has only missing values",
                "one class only",
                "contains 1 and missing values",
                "at some look",
                "and there are",
            )
            assert any(each in told for each in known), told
            return
        q = model.predict_posterior(X, S, audit=audit)
        ends = model.predict_posterior_interval(X, S, audit=audit)
        model.summary()
    assert np.isfinite(_parameters(model)).all()
    assert ((q >= 0) & (q <= 1)).all()
    np.testing.assert_array_equal(q[audit >= 0], audit[audit >= 0])
    assert ((ends[:, 0] <= q + 1e-9) & (q <= ends[:, 1] + 1e-9)).all()


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # the fit warns about copies of looks
def test_more_than_127_looks_are_counted(data):
    X, S = data["X"], data["S"]
    many = np.tile(S, (1, 100))
    model = _model(tol=None).fit(X, many)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    looks, labels = (~np.isnan(many)).sum(axis=1), np.nansum(many, axis=1)
    odds = f / (1 - f) * (1 - e) ** looks
    want = np.where(labels > 0, 1.0, odds / (1 + odds))
    np.testing.assert_allclose(model.predict_posterior(X, many), want, rtol=1e-9)


@pytest.mark.usefixtures("one_start")
def test_badly_scaled_columns(data):
    X, S = data["X"], data["S"]
    far = X.copy()
    far[:, 3] = 1e6 + 1e-3 * X[:, 3]
    known = [ClassPrior(0.5, se=0.01)]
    want = _model(C=1e6, known=known, tol=None).fit(X, S)
    with pytest.warns(UserWarning, match="more than 1e5 standard deviations from 0"):
        got = _model(C=1e12, known=known, tol=None).fit(far, S)
    np.testing.assert_allclose(got.class_prior_, want.class_prior_, atol=1e-5)
    with pytest.raises(ValueError, match=r"visit_attributes\['v'\] has a column with a mean more than 1e5"):
        _model(labelling=Labelling(visit_attributes={"v": [1, 3]})).fit(far, S)
    # With own coefficients for each look, columns may be scaled differently.
    with pytest.warns(UserWarning, match="more than 1e5 standard deviations from 0"):
        _model(tol=None, labelling=Labelling(visit_attributes={"v": [1, 3]}, shared=False)).fit(far, S)


def test_audits_of_labelled_rows_identify_false_positives_with_one_look():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    y = rng.random(6000) < expit(2 * X[:, 0])
    s = np.where(y, rng.random(6000) < expit(X[:, 1]), rng.random(6000) < 0.1)
    audit = np.where(rng.random(6000) < 0.3, y, np.nan)
    model = SAREMClassifier(propensity_attributes=[1], labelling=Labelling(false_positive_rate="estimate")).fit(
        X, s, audit=audit
    )
    assert abs(model.false_positive_rate_ - 0.1) < 3 * model.standard_errors().false_positive_rate < 0.05
    assert abs(model.class_prior_ - y.mean()) < 0.02
