"""Ranked rows and their reasons, compared with values computed from the model."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from scarless import NaiveClassifier, SAREMClassifier, SCARClassifier
from scarless.diagnostics import yield_curve
from scarless.diagnostics.fit import rows as module
from scarless.diagnostics.fit.subject import Subject
from scarless.models.explaining import by_replacement
from scarless.report import model_report


def subject_of(model, X, s):
    return Subject.of(model, X, s, sample_weight=None, propensity=None, level=0.95)


@pytest.mark.parametrize("kind", ["SAREMClassifier", "SAREMClassifierCV", "SARStackingClassifier"])
def test_ranked_rows_have_the_highest_posteriors(kind, patients, fitted, reported):
    (table, s), model, found = patients, fitted(kind), reported(kind).ranked
    posterior = model.predict_posterior(table, s)
    open_ = np.flatnonzero(s == 0)
    expected = open_[np.argsort(-posterior[open_], kind="stable")][:30]
    ends = model.predict_posterior_interval(table, s)
    assert [row.position for row in found.rows] == expected.tolist()
    assert [row.rank for row in found.rows] == list(range(1, 31))
    assert [row.name for row in found.rows] == table.index[expected].tolist()
    np.testing.assert_allclose([row.probability.value for row in found.rows], posterior[expected], rtol=1e-12)
    np.testing.assert_allclose([row.probability.low for row in found.rows], ends[expected, 0], rtol=1e-9)
    np.testing.assert_allclose([row.probability.high for row in found.rows], ends[expected, 1], rtol=1e-9)
    propensity = model.predict_propensity(table)[expected]
    np.testing.assert_allclose([row.propensity for row in found.rows], propensity, rtol=1e-12)
    assert found.n_unlabelled == open_.size


def test_reasons_of_two_columns_by_hand():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(3, 2, 400), "b": rng.normal(0, 5, 400)})
    s = (rng.random(400) < 0.6 / (1 + np.exp(3 - X["a"] - 0.2 * X["b"]))).astype(int)
    model = make_pipeline(StandardScaler(), SCARClassifier(0.6)).fit(X, s)
    report = model_report(model, X, s, n_ranked=5)
    assert (np.ravel(model[-1].coef_) > 0).all()
    for row in report.ranked.rows:
        raw = X.iloc[row.position]
        parts = np.ravel(model[-1].coef_) * ((raw - X.mean()) / X.std(ddof=0)).to_numpy()
        order = [j for j in np.argsort(-parts) if parts[j] >= module.SMALLEST_REASON]
        assert [reason.column for reason in row.reasons] == [X.columns[j] for j in order]
        assert [reason.contribution for reason in row.reasons] == pytest.approx(parts[order])
        assert [reason.value for reason in row.reasons] == [f"{raw.iloc[j]:.4g}" for j in order]


def test_reasons_of_an_encoded_column_are_added_up():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"kind": rng.choice(["p", "q", "r"], 500), "a": rng.normal(size=500)})
    f = 1 / (1 + np.exp(0.5 - X["a"] - X["kind"].map({"p": -1.0, "q": 0.0, "r": 2.0})))
    s = (rng.random(500) < 0.5 * f).astype(int)
    encode = make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough")
    model = make_pipeline(encode, SCARClassifier(0.5)).fit(X, s)
    coef = dict(zip(["p", "q", "r", "a"], np.ravel(model[-1].coef_), strict=True))
    mean = sum(coef[level] * (X["kind"] == level).mean() for level in "pqr")
    rows = [row for row in model_report(model, X, s).ranked.rows if row.reasons and row.reasons[0].column == "kind"]
    assert rows
    for row in rows:
        assert row.reasons[0].value == X["kind"].iloc[row.position]
        assert row.reasons[0].contribution == pytest.approx(coef[row.reasons[0].value] - mean)


def test_both_ways_to_compute_reasons_agree(small):
    model, X, s = small
    subject = subject_of(model, X, s)
    top = subject.part(np.arange(40))
    groups = list(subject.groups.values())
    replaced = by_replacement(subject.inner, top.prepared, subject.moments.mean, groups)
    np.testing.assert_allclose(replaced, module.contributions_of(subject, top), atol=1e-6)


def test_reasons_of_a_model_without_coefficients(reported, fitted, patients):
    (table, _), report, model = patients, reported("boosted"), fitted("boosted")
    prepared = model.prepare(table)
    for row in report.ranked.rows[:5]:
        this = prepared.iloc[[row.position]]
        for reason in row.reasons:
            columns = prepared.columns[model.columns_of(reason.column)]
            other = this.assign(**{name: prepared[name].mean() for name in columns})
            before, after = (logit(model.estimator_.predict_proba(each)[0, 1]) for each in (this, other))
            assert reason.contribution == pytest.approx(before - after, abs=1e-6)
    assert "replaced by the mean of the column" in report.ranked.notes[-1]
    assert any(row.reasons for row in report.ranked.rows)


def test_reasons_are_not_computed_for_too_many_columns(fitted, patients, monkeypatch):
    monkeypatch.setattr(module, "MAX_PREDICTED_CELLS", 10)
    report = model_report(fitted("boosted"), *patients, n_ranked=3)
    assert "the model has no coefficients and 4 columns" in report.ranked.notes[-1]
    assert all(row.reasons == () for row in report.ranked.rows)
    assert report.effects[0].verdict.endswith("too many columns to compute the effect of each.")


def test_names_of_rows(small):
    model, X, s = small
    plain = model_report(model, X, s, n_ranked=2).ranked
    assert [row.name for row in plain.rows] == [None, None]
    names = [f"n{i}" for i in range(700)]
    for given in (names, np.array(names), pd.Series(names, index=range(700, 0, -1)), tuple(names)):
        named = model_report(model, X, s, n_ranked=2, row_names=given).ranked
        assert [row.name for row in named.rows] == [f"n{row.position}" for row in plain.rows]
    levels = X.set_index(pd.MultiIndex.from_arrays([names, range(700)]))
    found = model_report(model, levels, s, n_ranked=1).ranked.rows[0]
    assert found.name == f"n{found.position} / {found.position}"


def test_missing_values_and_dates_are_shown_as_text(reported, patients):
    table, _ = patients
    shown = {(row.position, r.column): r.value for row in reported("SAREMClassifier").ranked.rows for r in row.reasons}
    for (position, column), value in shown.items():
        raw = table[column].iloc[position]
        if column == "seen":
            assert value == raw.date().isoformat()
        elif pd.isna(raw):
            assert value == "missing"
    assert any(column == "age" for _, column in shown)


def test_rows_of_weight_zero_are_not_ranked(small):
    model, X, s = small
    first = model_report(model, X, s, n_ranked=1).ranked.rows[0].position
    w = np.ones(700)
    w[first] = 0
    again = model_report(model, X, s, sample_weight=w, n_ranked=5).ranked
    assert first not in [row.position for row in again.rows]
    assert again.n_unlabelled == (s == 0).sum() - 1


def test_models_without_posteriors_state_what_they_rank_by(reported, fitted, patients):
    (table, s) = patients
    naive = reported("NaiveClassifier").ranked
    assert naive.measure == "probability of a label"
    assert "which is not their probability of being positive" in naive.notes[0]
    model = fitted("PropensityWeightedClassifier")
    blind = reported("PropensityWeightedClassifier").ranked
    assert "pass propensity=" in blind.notes[0]
    e = np.linspace(0.2, 0.9, len(s))
    found = model_report(model, table, s, propensity=e, n_ranked=5).ranked
    posterior = model.estimator_.predict_posterior(model.prepare(table), s, e)
    expected = sorted(np.flatnonzero(s == 0), key=lambda i: -posterior[i])[:5]
    assert [row.position for row in found.rows] == expected
    assert [row.propensity for row in found.rows] == pytest.approx(e[expected])


def test_a_report_without_ranked_rows(small):
    report = model_report(*small, n_ranked=0)
    assert report.ranked.rows == ()
    assert "No rows are listed." in report.to_html()


def test_the_report_of_a_grid_search_is_that_of_its_best_estimator(small):
    from sklearn.model_selection import GridSearchCV

    _, X, s = small
    search = GridSearchCV(SCARClassifier(0.5), {"C": [1.0]}, cv=2).fit(X, s)
    assert model_report(search, X, s, n_ranked=1).kind == "SCARClassifier"
    with pytest.raises(TypeError, match="got LogisticRegression"):
        model_report(LogisticRegression().fit(X, s), X, s)


def test_how_many_of_the_ranked_rows_are_positive():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 3)), columns=list("abz"))
    y = rng.random(1500) < expit(2 * X["a"] - 1)
    s = (y & (rng.random(1500) < expit(X["z"]))).astype(int).to_numpy()
    model = SAREMClassifier(propensity_attributes=["z"]).fit(X, s)
    report = model_report(model, X, s, n_ranked=40)
    found = yield_curve(model, X, s, n=40)
    positives = report.ranked.positives
    assert (positives.value, positives.low, positives.high) == (found.expected[0], found.low[0], found.high[0])
    assert positives.low <= y.to_numpy()[[row.position for row in report.ranked.rows]].sum() <= positives.high
    assert report.ranked.expected == found.sentence()
    assert report.ranked.expected in report.to_html()
    naive = model_report(NaiveClassifier().fit(X, s), X, s)
    assert (naive.ranked.positives, naive.ranked.expected) == (None, "")
    model.label_frequency_ = 1.0
    told = model_report(model, X, s, n_ranked=40).ranked
    assert told.positives is None
    assert told.expected == "This fit cannot estimate how many of the 40 rows that rank highest are positive."
