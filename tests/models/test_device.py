"""Tables that are arrays of other libraries stay on their device, and give the results of numpy arrays.

Tests always use array-api-strict, and torch if it is installed (``make test-torch``).
"""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import KFold, RepeatedStratifiedKFold

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    plan_audit,
)
from scarless.diagnostics import bootstrap_intervals
from scarless.engines import device, lockstep
from scarless.numerics.arrays import in_float64, in_numpy, namespace_of
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.pair import starts

strict = pytest.importorskip("array_api_strict")
pytest.importorskip("scipy", minversion="1.14", reason="scikit-learn dispatches with SciPy from 1.14 on")


@pytest.fixture(params=["strict", "torch"])
def there(request):
    """Return a function that converts an array to another library."""
    if request.param == "torch":
        return pytest.importorskip("torch").asarray
    return strict.asarray


@pytest.fixture(autouse=True)
def dispatched():
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = rng.random(600) < 1 / (1 + np.exp(-2 * X[:, 0]))
    e = 1 / (1 + np.exp(0.3 - X[:, 2]))
    return X, (y & (rng.random(600) < e)).astype(np.float64), e


MODELS = {
    "pair": SAREMClassifier(propensity_attributes=[2]),
    "starts": SAREMClassifier(propensity_attributes=[2, 3], n_starts=3, random_state=0),
    "scar": SCARClassifier(),
    "scar, by name": SCARClassifier("tice"),
    "naive": NaiveClassifier(),
}


@pytest.mark.parametrize("name", MODELS)
def test_predictions_equal_those_of_numpy_and_are_on_the_device_of_the_table(data, there, name):
    X, s, _ = data
    weight = np.arange(len(s)) % 3 + 1.0
    want = sklearn.clone(MODELS[name]).fit(X, s, sample_weight=weight)
    A, b, w = there(X), there(s), there(weight)
    got = sklearn.clone(MODELS[name]).fit(A, b, sample_weight=w)
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-9, atol=1e-11)
    assert got.class_prior_ == pytest.approx(want.class_prior_, rel=1e-10)
    for method in ("predict_proba", "predict", "predict_propensity", "predict_posterior"):
        if not hasattr(want, method):
            continue
        labels = (s,) if method == "predict_posterior" else ()
        answer = getattr(got, method)(A, *(there(each) for each in labels))
        assert namespace_of(answer) is namespace_of(A)
        np.testing.assert_allclose(in_numpy(answer), getattr(want, method)(X, *labels), rtol=1e-9, atol=1e-12)
    assert got.score(A, b) == pytest.approx(want.score(X, s), rel=1e-12)


def test_intervals_and_summary(data, there):
    X, s, _ = data
    want, got = (MODELS["pair"].fit(*each) for each in ((X, s), (there(X), there(s))))
    want = sklearn.clone(MODELS["pair"]).fit(X, s)
    assert got.class_prior_interval() == pytest.approx(want.class_prior_interval(), rel=1e-9)
    np.testing.assert_allclose(got.summary().blocks[0].std_err, want.summary().blocks[0].std_err, rtol=1e-8)
    np.testing.assert_allclose(got.predict_proba_interval(there(X)), want.predict_proba_interval(X), rtol=1e-8)


def test_known_propensities(data, there):
    X, s, e = data
    want = PropensityWeightedClassifier().fit(X, s, propensity=e)
    got = PropensityWeightedClassifier().fit(there(X), there(s), propensity=there(e))
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-9)


def test_float32_and_whole_numbers(data, there):
    X, s, _ = data
    want = sklearn.clone(MODELS["pair"]).fit(X, s)
    got = sklearn.clone(MODELS["pair"]).fit(there(X.astype(np.float32)), there(s.astype(np.int64)))
    error = want.standard_errors().coef
    assert (np.abs(got.coef_ - want.coef_) < 1e-4 * error).all()
    exact = sklearn.clone(MODELS["pair"]).fit(X.astype(np.float32).astype(np.float64), s)
    np.testing.assert_allclose(
        got.coef_, exact.coef_, rtol=1e-9
    )  # The table is in float32, but the computation in float64.
    whole = np.round(3 * X).astype(np.int64)
    np.testing.assert_allclose(
        sklearn.clone(MODELS["pair"]).fit(there(whole), there(s)).coef_,
        sklearn.clone(MODELS["pair"]).fit(whole.astype(float), s).coef_,
        rtol=1e-9,
    )


def test_badly_scaled_columns_get_a_warning(data, there):
    X, s, _ = data
    far = X.copy()
    far[:, 1] = 1e9 + far[:, 1]
    with pytest.warns(UserWarning, match="more than 1e5 standard deviations from 0"):
        want = sklearn.clone(MODELS["pair"]).fit(far, s)
    with pytest.warns(UserWarning, match="more than 1e5 standard deviations from 0"):
        got = sklearn.clone(MODELS["pair"]).fit(there(far), there(s))
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-5)


def test_errors_name_the_problem(data, there):
    X, s, _ = data
    gap = X.copy()
    gap[17, 2] = np.nan
    with pytest.raises(ValueError, match="row 17"):
        SAREMClassifier().fit(there(gap), there(s))
    with pytest.raises(ValueError, match="y has 5 values for 600 rows"):
        SAREMClassifier().fit(there(X), there(s[:5]))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        SAREMClassifier().fit(there(X[:, 0]), there(s))
    with pytest.raises(
        ValueError, match="X must have the type float64, float32, an integer type or bool; its type is complex128"
    ):
        SAREMClassifier().fit(there(X.astype(complex)), there(s))
    with pytest.raises(ValueError, match="X has 3 features, but SAREMClassifier is expecting 4"):
        SAREMClassifier().fit(there(X), there(s)).predict(there(X[:, :3]))
    leak = np.column_stack([X, s])
    with pytest.warns(UserWarning, match="Column 4 of X equals the label column"):
        NaiveClassifier().fit(there(leak), there(s))


def test_labels_and_weights_are_checked_like_numpy_arrays(data, there):
    X, s, _ = data
    weight, model = np.arange(len(s)) % 3 + 1.0, MODELS["pair"]
    want = sklearn.clone(model).fit(X, s, sample_weight=weight).coef_
    for labels, counts in (
        (there(s), there(weight[:, None])),
        (there(s[:, None]), weight.tolist()),
        (s.astype(int).astype(object), there(weight)),
    ):
        got = sklearn.clone(model).fit(there(X), labels, sample_weight=counts).coef_
        np.testing.assert_allclose(got, want, rtol=1e-9)
    twice = sklearn.clone(model).fit(there(X), there(s), sample_weight=2.0)
    np.testing.assert_allclose(twice.coef_, sklearn.clone(model).fit(X, s, sample_weight=2.0).coef_, rtol=1e-9)
    with pytest.raises(ValueError, match=r"sample_weight must have one value per row; its shape is \(600, 2\)"):
        model.fit(there(X), there(s), sample_weight=there(np.column_stack([weight, weight])))
    with pytest.raises(ValueError, match="y has 1 values for 600 rows"):
        model.fit(there(X), there(np.asarray(1.0)))


@pytest.mark.parametrize("name", MODELS)
def test_tables_without_rows_or_columns_are_refused_in_scikit_learns_words(data, there, name):
    X, s, _ = data
    model = sklearn.clone(MODELS[name])
    for table, labels in ((X[:0], s[:0]), (X[:1], s[:1]), (X[:, :0], s)):
        with pytest.raises(ValueError, match="Found array with") as want:
            model.fit(table, labels)
        with pytest.raises(ValueError, match="Found array with") as got:
            model.fit(there(table), there(labels))
        assert str(got.value) == str(want.value)


def test_tensors_that_require_gradients(data):
    """No gradients are recorded, and torch does not warn."""
    torch = pytest.importorskip("torch")
    X, s, _ = data
    A, b = torch.asarray(X).requires_grad_(True), torch.asarray(s).requires_grad_(True)
    got = sklearn.clone(MODELS["starts"]).fit(A, b, sample_weight=b + 1.0)
    want = sklearn.clone(MODELS["starts"]).fit(X, s, sample_weight=s + 1.0)
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-9)
    assert not got.predict_proba(A).requires_grad


def test_subclasses_of_tensors(data):
    torch = pytest.importorskip("torch")
    X, s, _ = data
    mine = type("Mine", (torch.Tensor,), {"__module__": "mine"})
    got = sklearn.clone(MODELS["pair"]).fit(torch.asarray(X).as_subclass(mine), torch.asarray(s))
    np.testing.assert_allclose(got.coef_, sklearn.clone(MODELS["pair"]).fit(X, s).coef_, rtol=1e-9)
    assert isinstance(got.predict_proba(torch.asarray(X).as_subclass(mine)), torch.Tensor)


def test_labels_of_a_dtype_that_numpy_does_not_have(data):
    torch = pytest.importorskip("torch")
    X, s, _ = data
    A, b = torch.asarray(X), torch.asarray(s).to(torch.bfloat16)
    got, want = sklearn.clone(MODELS["pair"]).fit(A, b), sklearn.clone(MODELS["pair"]).fit(X, s)
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-9)
    np.testing.assert_allclose(in_numpy(got.predict_posterior(A, b)), want.predict_posterior(X, s), rtol=1e-9)


def test_arrays_of_two_devices_are_refused_in_scikit_learns_words(data):
    X, s, _ = data
    away = strict.asarray(s, device=strict.Device("device1"))
    with pytest.raises(ValueError, match=r"Input arrays use different devices: .*CPU_DEVICE.*device1"):
        SAREMClassifier().fit(strict.asarray(X), away)


def test_a_table_on_another_device_than_the_default(data):
    X, s, _ = data
    device = strict.Device("device1")
    A, b = (strict.asarray(each, device=device) for each in (X, s))
    got = sklearn.clone(MODELS["pair"]).fit(A, b)
    np.testing.assert_allclose(got.coef_, sklearn.clone(MODELS["pair"]).fit(X, s).coef_, rtol=1e-9)
    assert got.predict_proba(A).device == device


def test_methods_without_device_support_are_refused(data, there):
    X, s, _ = data
    A, b = there(X), there(s)
    for model in (SAREMClassifier(), SAREMClassifierCV()):
        with pytest.raises(
            ValueError, match="Several looks, audits, false positives and known values are not supported"
        ):
            model.fit(A, there(np.column_stack([s, s])))
    with pytest.raises(ValueError, match="needs all rows in memory"):
        SARStackingClassifier().fit(A, b)
    with pytest.raises(ValueError, match=r"Plans of audits are not supported for arrays of .* Pass numpy arrays\.$"):
        plan_audit(sklearn.clone(MODELS["pair"]).fit(A, b), A, b)


SEARCHES = {
    "penalties": SAREMClassifierCV(propensity_attributes=[2], Cs=[0.1, 1.0], cv=3, random_state=0),
    "both": SAREMClassifierCV(propensity_attributes=[2, 3], Cs=[1.0], propensity_Cs=[0.3, 1.0], cv=2, random_state=0),
    "penalised": SAREMClassifierCV(propensity_attributes=[2], Cs=[0.1, 1.0], cv=2, recalibrate=False, random_state=0),
    "swappable": SAREMClassifierCV(attribute_sets={"all": None}, Cs=[0.1, 1.0], cv=2, random_state=0),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_select_the_same_candidates_as_with_numpy_arrays(data, there, name):
    X, s, _ = data
    weight = np.arange(len(s)) % 3 + 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Both fits warn that the labels do not separate the candidates.
        want = sklearn.clone(SEARCHES[name]).fit(X, s, sample_weight=weight)
        got = sklearn.clone(SEARCHES[name]).fit(there(X), there(s), sample_weight=there(weight))
    assert got.selection_.members == want.selection_.members
    for key in ("mean_test_score", "standard_error", "class_prior", "label_frequency"):
        np.testing.assert_allclose(got.cv_results_[key], want.cv_results_[key], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-5, atol=1e-7)
    assert got.class_prior_ == pytest.approx(want.class_prior_, rel=1e-5)
    assert got.class_prior_interval() == pytest.approx(want.class_prior_interval(), rel=1e-4)
    A = there(X)
    assert namespace_of(got.predict_proba(A)) is namespace_of(A)
    np.testing.assert_allclose(in_numpy(got.predict_proba(A)), want.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize(
    "cv",
    [None, KFold(2), RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0), "list"],
    ids=["none", "splitter", "repeated", "list"],
)
def test_folds_can_come_from_a_splitter_or_a_list(data, there, cv):
    X, s, _ = data
    folds = [(np.r_[:400], np.r_[400:600]), (np.r_[200:600, 200:300], np.r_[:150])] if cv == "list" else cv
    model = SAREMClassifierCV(propensity_attributes=[2], Cs=[0.1, 1.0], cv=folds, recalibrate=False)
    want, got = sklearn.clone(model).fit(X, s), sklearn.clone(model).fit(there(X), there(s))
    for key in ("mean_test_score", "standard_error"):
        np.testing.assert_allclose(got.cv_results_[key], want.cv_results_[key], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(got.coef_, want.coef_, rtol=1e-5, atol=1e-7)


def test_passes_of_all_folds_are_combined(data, there, monkeypatch):
    """All folds share the passes over the rows for each group of penalties."""
    X, s, _ = data
    walked, before = [], lockstep._BatchedPasses._batched

    def noting(self, questions):
        walked.append(len(questions))
        return before(self, questions)

    monkeypatch.setattr(lockstep._BatchedPasses, "_batched", noting)
    sklearn.clone(SEARCHES["penalised"]).set_params(cv=3).fit(there(X), there(s))
    assert max(walked) == 3


def test_resamples_equal_those_of_numpy_arrays(data, there):
    X, s, _ = data
    options = {"n_resamples": 20, "random_state": 0}
    want = bootstrap_intervals(sklearn.clone(MODELS["pair"]).fit(X, s), X, s, rows=X[:3], **options)
    A, b = there(X), there(s)
    got = bootstrap_intervals(sklearn.clone(MODELS["pair"]).fit(A, b), A, b, rows=there(X[:3]), **options)
    assert got.n_failed == got.n_not_converged == 0
    for name, values in want.samples.items():
        np.testing.assert_allclose(in_numpy(got.samples[name]), values, rtol=1e-6, atol=1e-9, err_msg=name)


def test_resamples_of_a_search_do_not_go_to_other_processes(data, there):
    """Fits in lockstep stay in this process, whatever the `n_jobs` of the search."""
    X, s, _ = data
    search = SAREMClassifierCV(propensity_attributes=[2], Cs=[1.0], cv=2, recalibrate=False, random_state=0, n_jobs=2)
    A, b = there(X), there(s)
    got = bootstrap_intervals(sklearn.clone(search).fit(A, b), A, b, n_resamples=20, random_state=0)
    alone = sklearn.clone(search).set_params(n_jobs=None).fit(X, s)
    want = bootstrap_intervals(alone, X, s, n_resamples=20, random_state=0)
    assert got.n_failed == 0
    np.testing.assert_allclose(got.samples["coef_"], want.samples["coef_"], rtol=1e-5, atol=1e-7)


def test_large_tables_are_read_in_blocks(data, there, monkeypatch):
    X, s, _ = data
    whole = sklearn.clone(MODELS["pair"]).fit(there(X), there(s))
    monkeypatch.setattr("scarless.engines.device._BLOCK_NUMBERS", 4 * 128)
    blocks = sklearn.clone(MODELS["pair"]).fit(there(X), there(s))
    np.testing.assert_allclose(blocks.coef_, whole.coef_, rtol=1e-9)


def test_sums_of_a_faster_function_are_numpy_arrays(data, there, monkeypatch):
    """A fast function may leave a case to the ordinary one, whose sums are still on the device."""
    X, s, _ = data
    monkeypatch.setattr(device, "fused_version", lambda function, X: function)
    engine = device.DeviceEngine(in_float64(there(X)), {"s": there(s), "w": there(np.ones(len(s)))})
    pair = LogisticPair(Design.of(np.arange(2)), Design.of(np.arange(2, 3)))
    sums = engine.total(pair.sums, np.zeros(pair.n_parameters), Curvature.DIAGONAL)
    assert all(isinstance(field, np.ndarray) for field in sums)


def test_no_part_of_the_rows_is_fitted_first_if_a_pass_over_all_rows_is_fast(data, there, monkeypatch):
    """Both ways find the same optimum."""
    X, s, _ = data
    climbed = []
    before = starts._fit_parts_first
    monkeypatch.setattr(starts, "MIN_ROWS_FOR_PARTS", 100)
    monkeypatch.setattr(starts, "ROWS_OF_A_PART", 200)
    monkeypatch.setattr(starts, "_fit_parts_first", lambda problem: climbed.append(problem) or before(problem))
    parts = sklearn.clone(MODELS["pair"]).fit(there(X), there(s))
    assert len(climbed) == 1
    monkeypatch.setattr(device, "has_kernels", lambda X: True)
    whole = sklearn.clone(MODELS["pair"]).fit(there(X), there(s))
    assert len(climbed) == 1
    np.testing.assert_allclose(whole.coef_, parts.coef_, rtol=1e-5)


def test_a_fit_that_ranks_worse_than_the_naive_model_gets_the_same_warning(there):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    s = ((X[:, 0] > rng.normal(size=400)) & (rng.random(400) < 0.3)).astype(np.float64)
    model = SAREMClassifier(propensity_attributes="all", C=1e-6, propensity_C=1e3)
    for table, labels in ((X, s), (there(X), there(s))):
        with pytest.warns(UserWarning, match="ranks labelled rows worse than the naive model"):
            sklearn.clone(model).fit(table, labels)


def test_without_dispatch_torch_is_numpy(data):
    torch = pytest.importorskip("torch")
    X, s, _ = data
    with sklearn.config_context(array_api_dispatch=False):
        got = sklearn.clone(MODELS["pair"]).fit(torch.asarray(X), torch.asarray(s))
        assert isinstance(got.predict_proba(torch.asarray(X)), np.ndarray)
    np.testing.assert_allclose(got.coef_, sklearn.clone(MODELS["pair"]).fit(X, s).coef_)
