"""Contributions of columns to the log-odds of single rows, as in the report."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import scarless
from scarless import SAREMClassifier, SCARClassifier, TableClassifier
from scarless.diagnostics.fit.rows import N_REASONS, SMALLEST_REASON
from scarless.models.explaining import average_row
from scarless.report import model_report

RNG = np.random.default_rng(0)
N = 600
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50, 10, N),
        "kind": RNG.choice(["a", "b", "c"], N),
        "visits": RNG.poisson(3, N).astype(float),
    },
    index=[f"p{k}" for k in range(N)],
)
F = 1 / (1 + np.exp(-((TABLE["age"] - 50) / 5 + 2.0 * (TABLE["kind"] == "a") - 1)))
S = ((RNG.random(N) < F) & (RNG.random(N) < 1 / (1 + np.exp(3 - TABLE["visits"])))).astype(int)
LINEAR = SAREMClassifier(propensity_attributes=["visits"])
FOREST = SCARClassifier(0.5, estimator=RandomForestClassifier(20, min_samples_leaf=5, random_state=0))


@pytest.fixture(scope="module", params=["linear", "forest"])
def model(request):
    return TableClassifier({"linear": LINEAR, "forest": FOREST}[request.param]).fit(TABLE, S)


def test_explanations_equal_the_reasons_of_the_report(model):
    shown = model_report(model, TABLE, S, n_ranked=20).ranked.rows
    found = model.explain(TABLE.iloc[[row.position for row in shown]], n_reasons=None)
    assert any(row.reasons for row in shown)
    for row in shown:
        own = found[(found["row"] == TABLE.index[row.position]) & (found["contribution"] >= SMALLEST_REASON)]
        own = own.sort_values("contribution", ascending=False)[:N_REASONS]
        assert [reason.column for reason in row.reasons] == own["column"].tolist()
        assert [reason.contribution for reason in row.reasons] == pytest.approx(own["contribution"].tolist(), abs=1e-6)


def test_contributions_of_a_linear_model_add_up_to_the_distance_from_the_average_row():
    model = TableClassifier(LINEAR).fit(TABLE, S)
    found = model.explain(TABLE, n_reasons=None)
    total = found.groupby("row", sort=False)["contribution"].sum()
    logits = logit(model.predict_proba(TABLE)[:, 1])
    np.testing.assert_allclose(total - total.mean(), logits - logits.mean(), atol=1e-5)
    assert total.mean() == pytest.approx(0.0, abs=1e-5)
    assert set(found["column"]) == {*TABLE.columns}


def test_the_largest_absolute_contributions_come_first(model):
    some = TABLE.iloc[[5, 3]]
    found = model.explain(some, n_reasons=2)
    assert list(found.columns) == ["row", "column", "value", "contribution"]
    assert found["row"].tolist() == ["p5", "p5", "p3", "p3"]
    for _, line in found.iterrows():
        assert line["value"] == some.loc[line["row"], line["column"]]
    everything = model.explain(some, n_reasons=None)
    for name, part in everything.groupby("row"):
        sizes = part["contribution"].abs().to_numpy()
        assert (np.diff(sizes) <= 0).all()
        np.testing.assert_array_equal(found[found["row"] == name]["contribution"], part["contribution"][:2])


def test_one_row_is_compared_with_the_rows_of_the_fit(model, tmp_path):
    whole = model.explain(TABLE, n_reasons=1)
    one = model.explain(TABLE.iloc[[9]], n_reasons=1)
    assert one["contribution"].tolist() == pytest.approx([whole["contribution"][9]])
    given = model.explain(TABLE.iloc[[9]], TABLE, n_reasons=1)
    assert given["contribution"].tolist() == pytest.approx(one["contribution"].tolist(), abs=1e-6)
    scarless.save(model, tmp_path / "model.skops")
    again = scarless.load(tmp_path / "model.skops").explain(TABLE.iloc[[9]], n_reasons=1)
    pd.testing.assert_frame_equal(again, one)


def test_weights_count_in_the_average_row():
    weight = np.repeat([2, 1], N // 2)
    weighted = TableClassifier(LINEAR, preparation="passthrough").fit(TABLE[["age", "visits"]], S, weight)
    twice = TABLE.iloc[np.repeat(np.arange(N), weight)][["age", "visits"]].reset_index(drop=True)
    repeated = TableClassifier(LINEAR, preparation="passthrough").fit(twice, np.repeat(S, weight))
    new = pd.DataFrame({"age": [61.0], "visits": [4.0]})
    pd.testing.assert_frame_equal(weighted.explain(new), repeated.explain(new), rtol=1e-4)


def test_classifiers_without_preparation_need_a_background():
    X = TABLE[["age", "visits"]].to_numpy()
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, S)
    found = model.explain(X[:4], X, n_reasons=None)
    expected = (X[:4] - X.mean(axis=0)) * model.coef_
    for i in range(4):
        part = found[found["row"] == i].set_index("column")["contribution"]
        np.testing.assert_allclose(part.loc[["x0", "x1"]], expected[i], rtol=1e-9)
    assert model.explain(X[:4].tolist(), X.tolist())["value"].tolist() == found["value"].tolist()


def test_polars_frames_can_be_explained():
    frame = pl.DataFrame({name: TABLE[name].tolist() for name in ("age", "visits")})
    model = SAREMClassifier(propensity_attributes=["visits"]).fit(frame, S)
    found = model.explain(frame[:2], frame)
    assert found["row"].tolist() == [0, 0, 1, 1]
    assert set(found["column"]) == {"age", "visits"}


def test_unsupported_tables_are_refused():
    X = TABLE[["age", "visits"]]
    pipeline = make_pipeline(StandardScaler(), SAREMClassifier(propensity_attributes=[1])).fit(X, S)
    made = TableClassifier.from_pipeline(pipeline)
    with pytest.raises(
        ValueError, match=r"does not have: it was made from a pipeline.*Pass the rows of the fit as back"
    ):
        made.explain(X)
    assert len(made.explain(X[:1], X)) == 2
    model = TableClassifier(LINEAR).fit(TABLE, S)
    with pytest.raises(ValueError, match="n_reasons must be"):
        model.explain(TABLE, n_reasons=0)
    by_words = SCARClassifier(0.5, estimator=make_pipeline(OneHotEncoder(), LogisticRegression()))
    words = TABLE[["kind"]]
    with pytest.raises(ValueError, match=r"explain needs numeric columns, .*or wrap the estimator in TableClassifier"):
        by_words.fit(words, S).explain(words, words)
    with pytest.raises(ValueError, match=r"explain needs numeric columns after the preparation\. Use the default"):
        TableClassifier(by_words, preparation="passthrough").fit(words, S).explain(words, words)


def test_blocks_of_large_tables_give_the_same_result(model, monkeypatch):
    whole = model.explain(TABLE[:60], TABLE)
    monkeypatch.setattr("scarless.models.explaining._CELLS_PER_BLOCK", 300)
    pd.testing.assert_frame_equal(model.explain(TABLE[:60], TABLE), whole, rtol=1e-9)


def test_the_average_row_ignores_missing_values_and_exists_for_sparse_tables():
    values = np.array([[1.0, np.nan], [3.0, 4.0]])
    np.testing.assert_array_equal(average_row(values), [2.0, 4.0])
    np.testing.assert_array_equal(average_row(values, [3, 1]), [1.5, 4.0])
    np.testing.assert_array_equal(average_row(values, [[3], [1]]), [1.5, 4.0])  # as in a fit, weights may be a column
    np.testing.assert_array_equal(average_row(sparse.coo_array([[1.0, 0.0], [3.0, 4.0]])), [2.0, 2.0])
    X = sparse.coo_array(np.round(TABLE[["age", "visits"]].to_numpy()))
    model = SAREMClassifier(propensity_attributes=[1]).fit(X, S)
    assert model.explain(X, X, n_reasons=None).query("row == 3 and column == 'x0'")["value"].item() == X.toarray()[3, 0]
