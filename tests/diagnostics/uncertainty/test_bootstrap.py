"""Bootstrap intervals: resamples, intervals, and failures."""

import warnings

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import simulate_pair

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier, TableClassifier
from scarless.diagnostics import identifiability_report, profile_class_prior
from scarless.diagnostics.uncertainty.bootstrap import bootstrap_intervals
from scarless.numerics.resampling import poisson_counts
from scarless.outside import progress


@pytest.fixture(scope="module")
def data():
    return simulate_pair(500)


@pytest.fixture(scope="module")
def naive(data):
    return NaiveClassifier().fit(*data)


def _seeds(n):
    return np.random.default_rng(0).integers(2**63, size=n)


class ShareOfLabels(BaseEstimator):
    """A classifier whose class prior is the weighted share of labels, so that its bootstrap has a closed form."""

    def __init__(self, fewest=1):
        self.fewest = fewest

    def fit(self, X, s, sample_weight=None):
        w = np.ones(len(s)) if sample_weight is None else sample_weight
        if w @ s < self.fewest:
            raise ValueError("no labelled row is left")
        self.n_features_in_ = X.shape[1]
        self.class_prior_ = float(w @ s / w.sum())
        self.drawn_ = w
        return self


def test_resamples_of_a_share_use_poisson_counts():
    s = np.repeat([1, 0], [30, 70])
    model = ShareOfLabels().fit(np.zeros((100, 1)), s)
    found = bootstrap_intervals(model, np.zeros((100, 1)), s, n_resamples=2000, random_state=0)
    draws = found.samples["class_prior_"]
    counts = [poisson_counts(np.arange(100), np.ones(100), int(seed)) for seed in _seeds(2000)]
    np.testing.assert_allclose(draws, [each[:30].sum() / each.sum() for each in counts], rtol=1e-12)
    assert draws.mean() == pytest.approx(0.3, abs=4 * np.sqrt(0.21 / 100 / 4000))
    assert draws.std() == pytest.approx(np.sqrt(0.21 / 100), rel=0.05)


def test_percentile_and_basic_intervals():
    s = np.repeat([1, 0], [30, 70])
    model = ShareOfLabels().fit(np.zeros((100, 1)), s)
    options = {"n_resamples": 100, "random_state": 3, "level": 0.9}
    percentile = bootstrap_intervals(model, np.zeros((100, 1)), s, **options)
    basic = bootstrap_intervals(model, np.zeros((100, 1)), s, method="basic", **options)
    low, high = np.quantile(percentile.samples["class_prior_"], [0.05, 0.95])
    assert percentile.class_prior == pytest.approx((0.3, low, high))
    assert basic.class_prior == pytest.approx((0.3, 0.6 - high, 0.6 - low))


def test_rows_are_drawn_in_proportion_to_their_weights():
    s = np.repeat([1, 0], [10, 40])
    w = np.where(s == 1, 3.0, 0.5)
    model = ShareOfLabels().fit(np.zeros((50, 1)), s, sample_weight=w)
    found = bootstrap_intervals(model, np.zeros((50, 1)), s, sample_weight=w, n_resamples=1000, random_state=0)
    assert found.class_prior.estimate == pytest.approx(0.6)
    assert found.samples["class_prior_"].mean() == pytest.approx(0.6, abs=4 * np.sqrt(0.24 / 50 / 1000))


def test_the_spread_of_resamples_agrees_with_the_standard_errors():
    X, s = simulate_pair(2500, seed=1)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    found = bootstrap_intervals(model, X, s, n_resamples=150, random_state=0)
    errors = model.standard_errors()
    for name in ("class_prior", "label_frequency", "coef", "intercept", "propensity_intercept"):
        # Quantiles are used because one resample in a hundred ends in another optimum.
        low, high = np.quantile(found.samples[f"{name}_"], [0.16, 0.84], axis=0)
        np.testing.assert_allclose((high - low) / 2, getattr(errors, name), rtol=0.35)


def test_the_result_depends_on_the_seed_but_not_on_n_jobs(data, naive):
    X, s = data
    options = {"n_resamples": 20, "random_state": 7}
    one = bootstrap_intervals(naive, X, s, **options)
    with parallel_config(backend="threading"):
        two = bootstrap_intervals(naive, X, s, n_jobs=2, **options)
    other = bootstrap_intervals(naive, X, s, **{**options, "random_state": 8})
    np.testing.assert_array_equal(one.samples["coef_"], two.samples["coef_"])
    assert not np.array_equal(one.samples["coef_"], other.samples["coef_"])
    assert naive.coef_.shape == (1, 3)  # the model itself is not changed


@pytest.mark.parametrize(
    "make", [sparse.csr_array, lambda X: pd.DataFrame(X, columns=list("abc"))], ids=["csr", "frame"]
)
def test_tables_of_other_kinds(data, naive, make):
    X, s = data
    plain = bootstrap_intervals(naive, X, s, n_resamples=20, random_state=1)
    other = bootstrap_intervals(NaiveClassifier().fit(make(X), s), make(X), s, n_resamples=20, random_state=1)
    np.testing.assert_allclose(other.samples["coef_"], plain.samples["coef_"], atol=1e-4)


@pytest.mark.parametrize(
    ("model", "params"),
    [
        (SCARClassifier(0.5), {}),
        (PropensityWeightedClassifier(), {"propensity": 0.5}),
        (SAREMClassifier(DecisionTreeClassifier(max_depth=2, random_state=0), cv=2, tol=1e-2, max_iter=5), {}),
    ],
    ids=["scar", "known propensity", "tree"],
)
@pytest.mark.filterwarnings("ignore")
def test_any_classifier_of_the_package(data, model, params):
    X, s = data
    params = {name: np.full(len(s), value) for name, value in params.items()}
    model.fit(X, s, **params)
    found = bootstrap_intervals(model, X, s, n_resamples=20, random_state=0, fit_params=params, rows=X[:4])
    assert found.class_prior.low <= found.class_prior.high
    assert found["f"].estimate.shape == found["f"].low.shape == (4,)
    np.testing.assert_allclose(found["f"].estimate, model.predict_proba(X[:4])[:, 1])
    assert ("e" in found.intervals) == hasattr(model, "predict_propensity")


def test_rows_get_intervals(data):
    X, s = data
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    found = bootstrap_intervals(model, X, s, n_resamples=30, random_state=0, rows=X[:5])
    np.testing.assert_allclose(found["e"].estimate, model.predict_propensity(X[:5]))
    assert (found["f"].low < found["f"].high).all()
    assert ((found["e"].low > 0) & (found["e"].high < 1)).all()


def test_frame_and_text_name_the_columns(data):
    X, s = data
    table = pd.DataFrame(X, columns=["age", "pressure", "visits"])
    model = SAREMClassifier(propensity_attributes=["visits"]).fit(table, s)
    found = bootstrap_intervals(model, table, s, n_resamples=20, random_state=0, rows=table[:2])
    frame = found.to_frame()
    assert frame.loc[("coef_", "age"), "estimate"] == model.coef_[0, 0]
    assert ("propensity_coef_", "age") not in frame.index  # not used by this model
    assert ("f", "row 1") in frame.index
    assert (frame["low"] <= frame["high"]).all()
    text = str(found)
    assert "95% bootstrap intervals (percentile), 20 resamples\n" in text
    assert "coef_ pressure" in text
    assert "f row 1" in text
    assert found._repr_html_() == f"<pre>{text}</pre>"


def test_rows_are_named_by_their_index(data, naive):
    X, s = data
    table = pd.DataFrame(X, columns=list("abc"))
    model = NaiveClassifier().fit(table, s)
    for index, names in ((["Anna", "Bert"], ["Anna", "Bert"]), ([1017, 5], ["row 1017", "row 5"])):
        rows = pd.DataFrame(X[:2], columns=list("abc"), index=index)
        found = bootstrap_intervals(model, table, s, n_resamples=20, rows=rows)
        assert found.to_frame().loc["f"].index.tolist() == list(found.rows) == names
        assert all(f"f {name}" in str(found) for name in names)
    many = bootstrap_intervals(naive, X, s, n_resamples=20, rows=X[:30])
    assert "f row 19" in str(many)
    assert "f row 20" not in str(many)
    assert str(many).endswith("... and 10 more rows, in to_frame()")
    assert ("f", "row 29") in many.to_frame().index


# --- failures and errors


def test_failures_are_counted_with_a_warning():
    s = np.zeros(60, dtype=int)
    s[:2] = 1
    model = ShareOfLabels().fit(np.zeros((60, 1)), s)
    with pytest.warns(
        UserWarning,
        match=r"of 100 resamples could not be fitted\. The most frequent error \(.* times\): .*no labelled row is left",
    ):
        found = bootstrap_intervals(model, np.zeros((60, 1)), s, n_resamples=100, random_state=0)
    assert 0 < found.n_failed < 40
    assert found.errors == {"ValueError: no labelled row is left": found.n_failed}
    assert found.samples["class_prior_"].size == 100 - found.n_failed
    assert f"{found.n_failed} failed" in str(found)


def test_too_many_failures_are_an_error(monkeypatch):
    s = np.repeat([1, 0], [5, 5])
    model = ShareOfLabels().fit(np.zeros((10, 1)), s)
    monkeypatch.setattr(ShareOfLabels, "fit", lambda self, X, s, sample_weight=None: 1 / 0)
    with pytest.raises(
        ValueError,
        match=r"20 of 20 resamples could not be fitted\. All failed with the same error: ZeroDiv.*Check X, s and fit_p",
    ):
        bootstrap_intervals(model, np.zeros((10, 1)), s, n_resamples=20)


def test_if_most_resamples_fail_the_error_mentions_few_labels():
    s = np.repeat([1, 0], [1, 59])
    model = ShareOfLabels().fit(np.zeros((60, 1)), s)
    model.fewest = 2
    with pytest.raises(ValueError, match=r"of 20 resamples .*Too few resamples remain .*enough rows are labelled"):
        bootstrap_intervals(model, np.zeros((60, 1)), s, n_resamples=20, random_state=0)


def test_fits_that_do_not_converge_are_counted(data):
    X, s = data
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    found = bootstrap_intervals(model.set_params(max_iter=1), X, s, n_resamples=20, random_state=0)
    assert found.n_not_converged == 20
    assert "20 not converged" in str(found)


class WithoutWeights(BaseEstimator):
    """A classifier whose fit does not accept weights."""

    def fit(self, X, s):
        self.class_prior_ = 0.5
        return self


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 5}, "n_resamples must be a whole number of at least 20"),
        ({"level": 95}, "level must lie strictly between 0 and 1"),
        ({"method": "bca"}, "method must be one of 'percentile', 'basic'"),
        ({"random_state": "x"}, "random_state must be"),
        ({"sample_weight": [1.0]}, "sample_weight has 1 values"),
        (
            {"sample_weight": np.full(500, 1 / 500)},
            r"as many rows as the sum of the weights. The sum is 1 for 500 rows",
        ),
        ({"fit_params": {"sample_weight": np.ones(500)}}, "Pass sample_weight= to bootstrap_intervals itself"),
        (
            {"fit_params": {"propensity": [0.5, 0.5]}},
            "propensity has 2 values for 500 rows; pass one value for each row",
        ),
    ],
)
def test_bad_options(data, naive, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_intervals(naive, *data, **options)


def test_labels_of_other_length_are_refused_before_any_fit(data, naive):
    with pytest.raises(ValueError, match="s has 499 values for 500 rows; pass one value for each row of X"):
        bootstrap_intervals(naive, data[0], data[1][1:])


def test_pipelines_and_table_classifiers_accept_raw_rows(data):
    model = SAREMClassifier(propensity_attributes=[2])
    pipeline = make_pipeline(StandardScaler(), model).fit(*data)
    table = TableClassifier(model, preparation=StandardScaler()).fit(*data)
    inside = pipeline[-1], pipeline[:-1].transform(data[0]), data[1]
    options = {"n_resamples": 20, "random_state": 0}
    expected = bootstrap_intervals(*inside, rows=inside[1][:3], **options).intervals
    profile, report = profile_class_prior(*inside), str(identifiability_report(pipeline[-1]))
    for wrapped in (pipeline, make_pipeline("passthrough", pipeline), table):
        found = bootstrap_intervals(wrapped, *data, rows=data[0][:3], **options).intervals
        assert found.keys() == expected.keys()
        for name, ends in expected.items():
            np.testing.assert_array_equal(np.array(found[name]), np.array(ends))
        np.testing.assert_array_equal(profile_class_prior(wrapped, *data).difference, profile.difference)
        assert str(identifiability_report(wrapped)) == report
    search = GridSearchCV(model, {"C": [1.0]}, cv=2).fit(*data)
    for ask in (bootstrap_intervals, profile_class_prior, lambda wrapped, *_: identifiability_report(wrapped)):
        with pytest.raises(TypeError, match=r"A search is not accepted; got a GridSearchCV\. Pass its best_estimator_"):
            ask(search, *data)


def test_a_classifier_must_be_fitted_and_accept_weights(data):
    with pytest.raises(NotFittedError):
        bootstrap_intervals(NaiveClassifier(), *data)
    with pytest.raises(ValueError, match=r"as weights; WithoutWeights\.fit has no such parameter"):
        bootstrap_intervals(WithoutWeights().fit(*data), *data)


def test_a_progress_bar_is_shown_on_request(data, naive, capsys):
    bootstrap_intervals(naive, *data, n_resamples=20, random_state=0, progress=True)
    assert "bootstrap" in capsys.readouterr().err
    bootstrap_intervals(naive, *data, n_resamples=20, random_state=0)  # no progress bar outside a terminal
    assert capsys.readouterr().err == ""


def test_a_progress_bar_needs_rich(data, naive, monkeypatch):
    monkeypatch.setattr(progress, "need", _missing)
    with pytest.raises(ImportError, match="rich"):
        bootstrap_intervals(naive, *data, n_resamples=20, progress=True)


def _missing(package, *_):
    raise ImportError(package)


def test_with_threads_failed_convergence_is_counted_and_warning_filters_do_not_change(data):
    X, s = data
    with pytest.warns(ConvergenceWarning):
        model = SAREMClassifier(max_iter=1).fit(X, s)
    before = warnings.filters[:]
    with parallel_config(backend="threading"):
        found = bootstrap_intervals(model, X, s, n_resamples=40, n_jobs=4, random_state=0)
    assert found.n_not_converged == 40
    assert warnings.filters == before
