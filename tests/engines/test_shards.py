"""Every model and diagnostic that uses an engine gives the same results for another engine as in memory."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from tests.engines.shards import Shards

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    PseudoObservations,
    PublishedEMClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
)
from scarless.diagnostics import bootstrap_intervals, identifiability_report, profile_class_prior, scar_test
from scarless.engines import InMemoryEngine, attach, open_rows
from scarless.numerics.resampling import poisson_counts

CUTS = [150, 151, 400]


def cut(X, names=None):
    edges = [0, *CUTS, X.shape[0]]
    return Shards([X[a:b] for a, b in pairwise(edges)], names)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    e = expit(1.0 + 1.5 * X[:, 2])
    s = (rng.random(900) < expit(2 * X[:, 0] - X[:, 1]) * e).astype(int)
    return X, s, e, rng.integers(0, 4, 900).astype(float)


MODELS = {
    "pair": SAREMClassifier(propensity_attributes=[2]),
    "pair, several starts": SAREMClassifier(propensity_attributes=[2], n_starts=4, random_state=0),
    "pair, class prior": SAREMClassifier(propensity_attributes=[2], n_starts=[0.6]),
    "pair, audits": SAREMClassifier(propensity_attributes=[2], known=[PseudoObservations(5.0)]),
    "pair, swappable": SAREMClassifier(propensity_attributes="all"),
    "pair, no penalty": SAREMClassifier(propensity_attributes=[2], C=np.inf, propensity_C=np.inf),
    "search": SAREMClassifierCV(propensity_attributes=[2], Cs=[0.1, 1.0], cv=3, random_state=0),
    "search, plain": SAREMClassifierCV(
        propensity_attributes=[2], Cs=[0.1, 1.0], cv=3, recalibrate=False, random_state=0
    ),
    "search, all": SAREMClassifierCV(propensity_attributes="all", Cs=[1.0], cv=3, random_state=0),
    "one propensity": SCARClassifier(),
    "known frequency": SCARClassifier(0.7),
    "known frequency, likelihood": SCARClassifier(0.7, method="likelihood"),
    "naive": NaiveClassifier(),
}
NUMBERS = ("coef_", "intercept_", "propensity_coef_", "propensity_intercept_", "class_prior_", "label_frequency_")


def assert_same_fit(model, other, X, rtol=1e-7):
    for name in NUMBERS:
        if hasattr(other, name):
            np.testing.assert_allclose(getattr(model, name), getattr(other, name), rtol=rtol, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(model.predict_proba(cut(X)), other.predict_proba(X), rtol=rtol, atol=1e-9)
    np.testing.assert_array_equal(model.predict(cut(X)), other.predict(X))


@pytest.mark.parametrize(
    ("name", "weighted"),
    [(name, True) for name in MODELS] + [("pair", False), ("one propensity", False)],  # without weights, all are 1
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_to_shards_is_the_fit_in_memory(table, name, weighted):
    X, s, _, w = table
    weight = w if weighted else None
    model = MODELS[name].__class__(**MODELS[name].get_params()).fit(cut(X), s, sample_weight=weight)
    other = MODELS[name].__class__(**MODELS[name].get_params()).fit(X, s, sample_weight=weight)
    assert_same_fit(model, other, X)
    assert model.n_features_in_ == 4


@pytest.mark.parametrize("kind", [lambda X: X.astype(np.float32), sparse.csr_array], ids=["float32", "csr"])
@pytest.mark.parametrize("name", ["pair", "search", "naive"])
def test_other_kinds_of_pieces(table, name, kind):
    X, s, *_ = table
    X = kind(X)
    cls, parameters = MODELS[name].__class__, MODELS[name].get_params()
    assert_same_fit(cls(**parameters).fit(cut(X), s), cls(**parameters).fit(X, s), X, rtol=1e-3)


@pytest.mark.parametrize("method", ["risk", "likelihood"])
def test_known_propensities_give_the_fit_in_memory(table, method):
    X, s, e, w = table
    model = PropensityWeightedClassifier(method=method).fit(cut(X), s, propensity=e, sample_weight=w)
    assert_same_fit(model, PropensityWeightedClassifier(method=method).fit(X, s, propensity=e, sample_weight=w), X)


def test_badly_scaled_columns_are_read_in_their_units(table):
    X, s, *_ = table
    far = X + np.array([0.0, 1e8, 0.0, 0.0])
    with pytest.warns(UserWarning, match="standard deviations from 0"):
        model = SAREMClassifier(propensity_attributes=[2]).fit(cut(far), s)
    near = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    np.testing.assert_allclose(model.coef_, near.coef_, rtol=1e-4)


def test_summary_intervals_and_score_are_the_same(table):
    X, s, *_ = table
    for name in ("pair", "search"):
        model, other = (MODELS[name].__class__(**MODELS[name].get_params()) for _ in range(2))
        model.fit(cut(X), s)
        other.fit(X, s)
        assert str(model.summary()) == str(other.summary())
        assert model.class_prior_interval() == pytest.approx(other.class_prior_interval())
        for call in ("predict_proba_interval", "predict_propensity_interval", "predict_propensity"):
            np.testing.assert_allclose(getattr(model, call)(cut(X)), getattr(other, call)(X), rtol=1e-6)
        np.testing.assert_allclose(model.predict_posterior(cut(X), s), other.predict_posterior(X, s), rtol=1e-6)
        assert model.score(cut(X), s) == pytest.approx(other.score(X, s), rel=1e-9)


def test_names_of_the_table_are_those_of_the_model(table):
    X, s, *_ = table
    names = ["age", "income", "visits", "region"]
    model = SAREMClassifier(propensity_attributes=["visits"]).fit(cut(X, names), s)
    assert model.feature_names_in_.tolist() == names
    np.testing.assert_allclose(model.coef_, SAREMClassifier(propensity_attributes=[2]).fit(X, s).coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="should have the same names and order"):
        model.predict_proba(cut(X, names[::-1]))


def test_labels_of_any_coding(table):
    X, s, *_ = table
    words = np.where(s == 1, "found", "none")
    model = SAREMClassifier(propensity_attributes=[2], pos_label="found").fit(cut(X), words)
    assert model.classes_.tolist() == ["found", "none"]
    assert model.class_prior_ == pytest.approx(SAREMClassifier(propensity_attributes=[2]).fit(X, s).class_prior_)


def test_profile_and_report_are_the_same(table):
    X, s, _, w = table
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s, sample_weight=w)
    found = profile_class_prior(model, cut(X), s, sample_weight=w)
    expected = profile_class_prior(model, X, s, sample_weight=w)
    np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-5)
    np.testing.assert_allclose(found.difference, expected.difference, atol=1e-5)
    there = SAREMClassifier(propensity_attributes=[2]).fit(cut(X), s, sample_weight=w)
    assert str(identifiability_report(there)) == str(identifiability_report(model))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_bootstrap_draws_the_same_rows_in_any_pieces(table, weighted):
    X, s, _, w = table
    weight = w if weighted else None
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s, sample_weight=weight)
    options = {"sample_weight": weight, "n_resamples": 20, "random_state": 0}
    there, here = (bootstrap_intervals(model, each, s, **options) for each in (cut(X), X))
    np.testing.assert_allclose(there.samples["class_prior_"], here.samples["class_prior_"], rtol=1e-5)
    counts = poisson_counts(np.arange(900), np.ones(900) if weight is None else w, 5)
    again = open_rows(cut(X)).derive(lambda X, rows: {"w": poisson_counts(rows.number, weights[rows.where], 5)})
    weights = np.ones(900) if weight is None else w
    np.testing.assert_array_equal(again.collect(lambda X, rows: rows["w"]), counts)


def test_folds_of_many_rows_depend_on_their_content_only(table, monkeypatch):
    X, s, *_ = table
    monkeypatch.setattr("scarless.pair.folds.MIN_ROWS_TO_HASH", 500)
    monkeypatch.setattr("scarless.pair.folds.MIN_LABELS_TO_HASH", 50)
    search = SAREMClassifierCV(propensity_attributes=[2], Cs=[0.1, 1.0], propensity_Cs=[1.0], cv=2, random_state=0)
    there = search.fit(cut(X), s).cv_results_
    here = SAREMClassifierCV(**search.get_params()).fit(X, s).cv_results_
    order = np.random.default_rng(1).permutation(900)
    shuffled = SAREMClassifierCV(**search.get_params()).fit(X[order], s[order]).cv_results_
    for other in (here, shuffled):
        np.testing.assert_allclose(there["mean_test_score"], other["mean_test_score"], rtol=1e-7)


# --- errors name the number of the row in the table


def _with(X, row, value):
    changed = X.copy()
    changed[row, 1] = value
    return changed


@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, "infinity"), (-1e120, "has the value -1e")])
def test_a_bad_value_is_found_in_its_row(table, value, words):
    X, s, *_ = table
    for make in (lambda X: X, sparse.csr_array):
        with pytest.raises(ValueError, match=f"Input X (contains )?{words}.* at row 423, column 1"):
            SAREMClassifier().fit(cut(make(_with(_with(X, 423, value), 800, value))), s)
    model = NaiveClassifier().fit(X, s)
    with pytest.raises(ValueError, match="row 423, column 1"):
        model.predict_proba(cut(_with(X, 423, value)))


def test_bad_labels_and_weights_are_found_in_their_rows(table):
    X, s, _, w = table
    missing = s.astype(float)
    missing[[423, 500]] = np.nan
    with pytest.raises(ValueError, match=r"y contains NaN: 2 of 900 labels are missing \(first: row 423\)"):
        SAREMClassifier().fit(cut(X), missing)
    with pytest.raises(ValueError, match=r"two values.*there are 3: 0, 1, 2"):
        SAREMClassifier().fit(cut(X), np.where(np.arange(900) == 423, 2, s))
    with pytest.raises(ValueError, match="one class only"):
        SAREMClassifier().fit(cut(X), np.zeros(900))
    bad = w.copy()
    bad[423] = -1
    with pytest.raises(ValueError, match=r"Invalid values: 1 of 900 \(first: sample_weight\[423\] = -1\)"):
        SAREMClassifier().fit(cut(X), s, sample_weight=bad)
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        SAREMClassifier().fit(cut(X), s, sample_weight=np.zeros(900))
    with pytest.raises(ValueError, match="0 for every labelled row"):
        SAREMClassifier().fit(cut(X), s, sample_weight=1.0 - s)
    with pytest.raises(ValueError, match="so that sums are accurate; got 1e"):
        SAREMClassifier().fit(cut(X), s, sample_weight=np.full(900, 1e150))


def test_the_label_column_among_the_attributes_is_reported(table):
    X, s, *_ = table
    with pytest.warns(UserWarning, match="Column 4 of X equals the label column"):
        NaiveClassifier().fit(cut(np.column_stack([X, s])), s)


def test_other_columns_than_in_the_fit_are_refused(table):
    X, s, *_ = table
    model = SAREMClassifier().fit(cut(X), s)
    with pytest.raises(ValueError, match="X has 3 features, but SAREMClassifier is expecting 4"):
        model.predict_proba(cut(X[:, :3]))


# --- methods that need rows in memory


def test_what_needs_rows_in_memory_says_so(table):
    X, s, *_ = table
    for model in (
        SAREMClassifier(LogisticRegression()),
        PublishedEMClassifier(),
        NaiveClassifier(LogisticRegression()),
        SARStackingClassifier(),
    ):
        with pytest.raises(ValueError, match="needs all rows in memory, but X is a Shards"):
            model.fit(cut(X), s)
    with pytest.raises(ValueError, match="cv must be a number of folds if the rows of X are not in memory"):
        SAREMClassifierCV(cv=StratifiedKFold(3)).fit(cut(X), s)
    naive = NaiveClassifier().fit(X, s)
    with pytest.raises(ValueError, match="bootstrap_intervals of this NaiveClassifier needs all rows in memory"):
        bootstrap_intervals(naive, cut(X), s)
    with pytest.raises(ValueError, match="scar_test needs all rows in memory"):
        scar_test(cut(X), s)


def test_an_unregistered_type_is_refused():
    with pytest.raises(TypeError, match="no engine can read its rows"):
        open_rows(object())


# --- the protocol, on both engines


@pytest.mark.parametrize("make", [lambda X: InMemoryEngine(X, {}, block_rows=70), lambda X: open_rows(cut(X))])
def test_derived_values_follow_from_those_before(table, make):
    X, s, *_ = table
    engine = attach(make(X), s=s.astype(float))
    once = engine.derive(lambda X, rows, c: {"t": rows["s"] + c * X[:, 0]}, 2.0)
    twice = once.derive(lambda X, rows: {"t": 2.0 * rows["t"], "n": rows.number})
    expected = 2.0 * (s + 2.0 * X[:, 0])
    for each in (twice, twice.derive(lambda X, rows: {}, keep=True)):
        np.testing.assert_allclose(each.collect(lambda X, rows: rows["t"]), expected)
        np.testing.assert_array_equal(each.collect(lambda X, rows: rows["n"]), np.arange(900))
        for step, first in ((7, 0), (7, 3), (200, 160)):
            thin = each.every(step, first)
            assert thin.n_rows == len(expected[first::step])
            np.testing.assert_allclose(thin.collect(lambda X, rows: rows["t"]), expected[first::step])
            np.testing.assert_array_equal(
                thin.every(2, 1).collect(lambda X, rows: rows["n"]), np.arange(900)[first::step][1::2]
            )
    out = np.zeros(900)
    assert twice.collect(lambda X, rows: rows["t"], into=out) is out
    np.testing.assert_allclose(out, expected)


def test_kept_values_are_computed_once(table):
    X, *_ = table
    calls = []

    def count(X, rows):
        calls.append(rows.size)
        return {"t": X[:, 0]}

    for engine in (InMemoryEngine(X, {}, block_rows=70, n_threads=1), open_rows(cut(X))):
        kept = engine.derive(count, keep=True)
        del calls[:]
        np.testing.assert_array_equal(kept.collect(lambda X, rows: rows["t"]), X[:, 0])
        assert calls == []
