"""Models and diagnostics give the same results for Parquet files, with columns given by name, as in memory."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from tests.scale.files import NAMES, make_rows, write_files

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
)
from scarless.checks.rows import RowTotals
from scarless.diagnostics import (
    ClassCalibrationDisplay,
    LabelCalibrationDisplay,
    bootstrap_intervals,
    identifiability_report,
    labelling_attributes,
    profile_class_prior,
    scar_test,
)
from scarless.engines import has_own_engine
from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE, samples
from scarless.label_frequency.names import possible_frequency_of
from scarless.label_frequency.samples import draw_sample
from scarless.metrics import PUScorer
from scarless.pair.logistic import Training, labelled_rows
from scarless.scale import ParquetRows
from scarless.scale.partitions import STORE

N = 900
PAIR = SAREMClassifier(propensity_attributes=["d"])
SEARCH = SAREMClassifierCV(propensity_attributes=["d"], Cs=[0.1, 1.0], cv=2, random_state=0)
MODELS = {
    "pair": PAIR,
    "pair, several starts": SAREMClassifier(propensity_attributes=["d"], n_starts=3, random_state=0),
    "pair, columns by number": SAREMClassifier(propensity_attributes=[-1], classification_attributes=slice("a", "c")),
    "search": SEARCH,
    "search, plain": SAREMClassifierCV(
        propensity_attributes=["d"], Cs=[0.1, 1.0], cv=2, recalibrate=False, random_state=0
    ),
    "one propensity": SCARClassifier(),
    "known frequency": SCARClassifier(0.7),
    "estimated frequency": SCARClassifier("tice"),
    "estimated frequency by columns' names": SCARClassifier(
        make_pipeline(ColumnTransformer([("keep", "passthrough", ["a", "b"])]), ElkanNoto(random_state=0))
    ),
    "naive": NaiveClassifier(),
}
NUMBERS = ("coef_", "intercept_", "propensity_coef_", "propensity_intercept_", "class_prior_", "label_frequency_")


@pytest.fixture(scope="module")
def here():
    """Return the table in memory; ``e`` are propensities."""
    X, s = make_rows(N)
    w = np.random.default_rng(1).integers(0, 4, N).astype(float)
    return pd.DataFrame(X, columns=NAMES).assign(s=s, w=w, e=1 / (1 + np.exp(-1.2 * X[:, 3])))


@pytest.fixture(scope="module")
def there(here, tmp_path_factory):
    others = {name: here[name].to_numpy() for name in ("s", "w", "e")}
    return write_files(tmp_path_factory.mktemp("claims"), here[NAMES].to_numpy(), [100, 101, 700], **others)


@pytest.fixture
def files(there):
    return ParquetRows(there, columns=NAMES, scheduler="threads")


@pytest.fixture(scope="module")
def fitted(here, there):
    """Return a pair and a search, each fitted to files and in memory."""
    files = ParquetRows(there, columns=NAMES, scheduler="threads")
    return {
        name: (clone(model).fit(files, "s", sample_weight="w"), in_memory(model, here))
        for name, model in (("pair", PAIR), ("search", SEARCH))
    }


def in_memory(model, here):
    return clone(model).fit(here[NAMES], here["s"], sample_weight=here["w"])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_is_the_fit_in_memory(here, files, fitted, name):
    if name in fitted:
        found, expected = fitted[name]
    else:
        found, expected = clone(MODELS[name]).fit(files, "s", sample_weight="w"), in_memory(MODELS[name], here)
    for number in NUMBERS:
        if hasattr(expected, number):
            np.testing.assert_allclose(
                getattr(found, number), getattr(expected, number), rtol=1e-7, atol=1e-9, err_msg=number
            )
    assert found.feature_names_in_.tolist() == NAMES
    assert found.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(found.predict_proba(files), expected.predict_proba(here[NAMES]), rtol=1e-7)
    np.testing.assert_array_equal(found.predict(files), expected.predict(here[NAMES]))
    assert found.score(files, "s", sample_weight="w") == pytest.approx(
        expected.score(here[NAMES], here["s"], sample_weight=here["w"]), rel=1e-9
    )
    if hasattr(found, "predict_posterior"):
        answers = found.predict_posterior(files, "s"), expected.predict_posterior(here[NAMES], here["s"])
        np.testing.assert_allclose(*answers, rtol=1e-7)


@pytest.mark.parametrize("method", ["risk", "likelihood"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_propensities_may_be_a_column(here, files, method):
    model = PropensityWeightedClassifier(method=method)
    found = clone(model).fit(files, "s", propensity="e", sample_weight="w")
    expected = clone(model).fit(here[NAMES], here["s"], propensity=here["e"], sample_weight=here["w"])
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7)
    given = clone(model).fit(files, "s", propensity=here["e"].to_numpy(), sample_weight="w")
    np.testing.assert_array_equal(given.coef_, found.coef_)
    np.testing.assert_allclose(
        found.predict_posterior(files, "s", "e"),
        expected.predict_posterior(here[NAMES], here["s"], here["e"]),
        rtol=1e-7,
    )
    assert found.score(files, "s", propensity="e") == pytest.approx(
        expected.score(here[NAMES], here["s"], propensity=here["e"])
    )


@pytest.mark.parametrize("name", ["pair", "search"])
def test_summary_and_intervals_are_the_same(here, files, fitted, name):
    found, expected = fitted[name]
    assert str(found.summary()) == str(expected.summary())
    assert found.class_prior_interval() == pytest.approx(expected.class_prior_interval())
    assert found.label_frequency_interval() == pytest.approx(expected.label_frequency_interval())
    for call in ("predict_proba_interval", "predict_propensity_interval", "predict_propensity"):
        np.testing.assert_allclose(getattr(found, call)(files), getattr(expected, call)(here[NAMES]), rtol=1e-6)


def test_diagnostics_are_the_same(here, files, fitted):
    found, expected = fitted["pair"]
    assert str(identifiability_report(found)) == str(identifiability_report(expected))
    profiles = (
        profile_class_prior(found, files, "s", sample_weight="w"),
        profile_class_prior(expected, here[NAMES], here["s"], sample_weight=here["w"]),
    )
    np.testing.assert_allclose(profiles[0].interval, profiles[1].interval, rtol=1e-5)
    np.testing.assert_allclose(profiles[0].difference, profiles[1].difference, atol=1e-6)


def test_a_bootstrap_draws_the_same_rows(here, files, fitted):
    found, expected = fitted["pair"]
    options = {"n_resamples": 20, "random_state": 0}
    drawn = bootstrap_intervals(found, files, "s", sample_weight="w", rows=files, **options)
    again = bootstrap_intervals(expected, here[NAMES], here["s"], sample_weight=here["w"], rows=here[NAMES], **options)
    for name in ("class_prior_", "coef_", "f", "e"):
        np.testing.assert_allclose(drawn.samples[name], again.samples[name], rtol=1e-5, atol=1e-8)
    assert drawn.rows[:2] == ("row 0", "row 1")


@pytest.mark.parametrize("display", [LabelCalibrationDisplay, ClassCalibrationDisplay])
def test_calibration_is_the_same(here, files, fitted, display):
    import matplotlib as mpl

    with mpl.rc_context({"backend": "agg"}):
        found = display.from_estimator(fitted["pair"][0], files, "s", sample_weight="w", propensity="e")
        expected = display.from_estimator(
            fitted["pair"][1], here[NAMES], here["s"], sample_weight=here["w"], propensity=here["e"]
        )
        own = display.from_estimator(fitted["pair"][0], files, "s")
        mpl.pyplot.close("all")
    for name in ("predicted", "observed"):
        np.testing.assert_allclose(getattr(found.calibration, name), getattr(expected.calibration, name), rtol=1e-6)
    assert own.calibration.n_rows.sum() == N


def test_scorers_accept_column_names(here, files, fitted):
    found = PUScorer("roc_auc").evaluate(fitted["pair"][0], files, "s", propensity="e", sample_weight="w")
    expected = PUScorer("roc_auc").evaluate(
        fitted["pair"][1], here[NAMES], here["s"], propensity=here["e"], sample_weight=here["w"]
    )
    assert found.value == pytest.approx(expected.value, rel=1e-9)


def test_predictions_select_the_columns_of_the_fit(here, there, tmp_path, fitted):
    model, expected = fitted["pair"]
    probabilities = expected.predict_proba(here[NAMES])
    np.testing.assert_allclose(model.predict_proba(ParquetRows(there)), probabilities, rtol=1e-9)  # with s, w, e
    turned = here[NAMES[::-1]].assign(text="t")
    turned.to_parquet(tmp_path / "turned.parquet")
    np.testing.assert_allclose(model.predict_proba(ParquetRows(tmp_path)), probabilities, rtol=1e-9)
    np.testing.assert_allclose(expected.predict_proba(ParquetRows(tmp_path)), probabilities, rtol=1e-9)
    here[["a", "b"]].to_parquet(tmp_path / "turned.parquet")
    with pytest.raises(ValueError, match=r"turned\.parquet has no column 'c'\."):
        model.predict_proba(ParquetRows(tmp_path))


def test_attributes_that_an_encoder_made_are_named_by_their_raw_name(here, tmp_path):
    coded = here.assign(site_x=(here["d"] > 0).astype(float), site_y=(here["d"] <= 0).astype(float))
    coded.drop(columns=["d", "w", "e"]).to_parquet(tmp_path / "x.parquet")
    with pytest.warns(UserWarning, match=r"propensity_attributes names 'site', .* selects all columns"):
        model = SAREMClassifier(propensity_attributes=["site"]).fit(ParquetRows(tmp_path), "s")
    assert np.flatnonzero(model.propensity_coef_[0]).tolist() == [3, 4]
    with pytest.raises(ValueError, match=r"names 'sight', which is not a column of X"):
        SAREMClassifier(propensity_attributes=["sight"]).fit(ParquetRows(tmp_path), "s")


NEED_MEMORY = {
    "an estimator": lambda X: SAREMClassifier(LogisticRegression()).fit(X, "s"),
    "expectation maximisation": lambda X: PublishedEMClassifier().fit(X, "s"),
    "naive with an estimator": lambda X: NaiveClassifier(LogisticRegression()).fit(X, "s"),
    "known propensities, an estimator": lambda X: PropensityWeightedClassifier(LogisticRegression()).fit(
        X, "s", propensity="e"
    ),
    "a stack": lambda X: SARStackingClassifier().fit(X, "s"),
    "strata": lambda X: StratifiedSCARClassifier("d").fit(X, "s"),
    "an estimated frequency, an estimator": lambda X: SCARClassifier("tice", estimator=LogisticRegression()).fit(
        X, "s"
    ),
    "a test of SCAR": lambda X: scar_test(X, "s"),
    "labelling attributes": lambda X: labelling_attributes(X, "s"),
}


@pytest.mark.parametrize("what", NEED_MEMORY)
def test_methods_that_need_memory_raise_before_rows_are_read(files, what):
    assert has_own_engine(files)
    loads = STORE.loads
    words = r"needs all rows in memory, but X is a ParquetRows.*sample .*fit into memory: pandas\.read_parquet\(path\)"
    with pytest.raises(ValueError, match=words):
        NEED_MEMORY[what](files)
    assert STORE.loads == loads


def test_bootstraps_that_need_memory_and_custom_folds_are_refused(here, files):
    naive = NaiveClassifier().fit(here[NAMES], here["s"])
    with pytest.raises(ValueError, match="bootstrap_intervals of this NaiveClassifier needs all rows in memory"):
        bootstrap_intervals(naive, files, "s")
    loads = STORE.loads
    with pytest.raises(ValueError, match="cv must be a number of folds if the rows of X are not in memory"):
        SAREMClassifierCV(propensity_attributes=["d"], cv=StratifiedKFold(3)).fit(files, "s")
    assert STORE.loads == loads


# --- label frequencies on a sample


FREQUENCIES = [TIcE, KernelMean, ElkanNoto, DEDPUL, BestBinEstimator]


@pytest.mark.parametrize("kind", FREQUENCIES, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_label_frequency_of_few_rows_is_that_in_memory(here, files, kind):
    found = kind(random_state=0).fit(files, "s", sample_weight="w")
    expected = kind(random_state=0).fit(here[NAMES], here["s"], sample_weight=here["w"])
    assert found.label_frequency_ == expected.label_frequency_
    assert found.class_prior_ == expected.class_prior_
    assert found.label_frequency_rows_ == expected.label_frequency_rows_ == np.count_nonzero(here["w"])
    assert found.feature_names_in_.tolist() == NAMES


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_classifier_stores_the_size_of_the_sample(here, files):
    for model in (
        SCARClassifier("elkan-noto").fit(files, "s", sample_weight="w"),
        in_memory(SCARClassifier("elkan-noto"), here),
    ):
        assert model.label_frequency_rows_ == np.count_nonzero(here["w"])
    assert not hasattr(SCARClassifier(0.7).fit(files, "s"), "label_frequency_rows_")


class Seen(BaseEstimator):
    """An estimator of the label frequency that stores its inputs."""

    def fit(self, X, y, sample_weight=None):
        self.X_, self.s_, self.w_, self.label_frequency_ = X, y, sample_weight, 0.7
        return self


@pytest.fixture
def of_300(monkeypatch):
    monkeypatch.setattr(samples, "MAX_SAMPLE_ROWS", 300)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_sample_has_rows_with_their_labels_and_weights(here, files, of_300):
    model = SCARClassifier(Seen()).fit(files, "s", sample_weight="w")
    seen = model.label_frequency_estimator_
    drawn = seen.X_.assign(s=seen.s_, w=seen.w_)
    assert len(drawn) == model.label_frequency_rows_ == 300
    assert (drawn["w"] > 0).all()
    merged = here.reset_index().merge(drawn, on=[*NAMES, "s", "w"])  # all numbers differ and identify the rows
    assert len(merged) == 300
    assert merged["index"].is_unique
    assert merged["index"].is_monotonic_increasing
    np.testing.assert_allclose(model.coef_, in_memory(SCARClassifier(0.7), here).coef_, rtol=1e-7)  # of all rows
    assert SCARClassifier(Seen()).fit(files, "s").label_frequency_estimator_.w_ is None


def test_a_sample_does_not_depend_on_the_files(here, files, tmp_path, of_300):
    others = write_files(tmp_path / "cut", here[NAMES].to_numpy(), [450], row_group_size=77, s=here["s"].to_numpy())
    seen = [
        SCARClassifier(Seen()).fit(X, "s").label_frequency_estimator_
        for X in (files, ParquetRows(others, columns=NAMES, scheduler="threads"))
    ]
    np.testing.assert_array_equal(*(each.X_ for each in seen))
    np.testing.assert_array_equal(*(each.s_ for each in seen))


def test_every_row_is_as_likely_to_be_drawn(monkeypatch):
    n, wanted = 400, 40
    times = np.zeros(n)
    rows = labelled_rows(Training(np.arange(n)[:, None] * 1.0, np.arange(n) % 2.0, np.ones(n)), None)
    monkeypatch.setattr(samples, "MAX_SAMPLE_ROWS", wanted)
    for seed in range(500):
        monkeypatch.setattr(samples, "_SEED", seed)
        X = draw_sample(rows).X[:, 0].astype(int)
        assert X.size == wanted
        times[X] += 1
    spread = (times - 50) ** 2 / (500 * 0.1 * 0.9)  # binomial counts: chi-squared with n - 1 degrees of freedom
    assert 300 < spread.sum() < 500


def test_a_sample_of_a_wide_table_has_fewer_rows(here, files, monkeypatch):
    monkeypatch.setattr(samples, "MAX_SAMPLE_NUMBERS", 4 * 150)
    assert SCARClassifier(Seen()).fit(files, "s").label_frequency_rows_ == 150


def test_a_sample_without_labelled_rows_is_refused(here, tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "MAX_SAMPLE_ROWS", 5)
    s = np.zeros(N, dtype=int)
    s[:2] = 1
    rows = ParquetRows(write_files(tmp_path / "rare", here[NAMES].to_numpy(), [450], s=s), scheduler="threads")
    words = r"from a random sample of 5 rows, and none of them is labelled\. .* is 0\.00222\. .*label_frequency=c"
    with pytest.raises(ValueError, match=words):
        SCARClassifier("tice").fit(rows, "s")
    with pytest.raises(ValueError, match=words):
        TIcE().fit(rows, "s")


def test_a_label_frequency_of_a_sample_is_possible_for_all_rows(here):
    s = here["s"].mean()
    totals = RowTotals(N, float(N), N * s, N * (1 - s))
    with pytest.warns(UserWarning, match="every row would be positive"):
        assert possible_frequency_of(Seen(), s / 2, totals) == pytest.approx(s / (1 - 1 / N))
    assert possible_frequency_of(Seen(), s + 0.1, totals) == s + 0.1
