"""Visit attributes of raw tables: all columns of an attribute share one shift and one scale."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from scarless import ClassPrior, Labelling, SAREMClassifier, TableClassifier, load, save
from scarless.scale import ParquetRows

EFFORT = ["effort_1", "effort_2", "effort_3"]


def make_sites(n=900, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"area": rng.normal(3, 1, n), "road": rng.normal(0, 2, n)})
    effort = rng.gamma(4, 1.0, (n, 3)) * [1.0, 3.0, 0.5]
    y = rng.random(n) < 1 / (1 + np.exp(-1.5 * (table["area"] - 3)))
    e = 1 / (1 + np.exp(-(0.4 * table["road"].to_numpy()[:, None] + 0.4 * (effort - 4))))
    S = (y.to_numpy()[:, None] & (rng.random((n, 3)) < e)).astype(float)
    S[rng.random((n, 3)) < 0.2] = np.nan
    for k, name in enumerate(EFFORT):
        table[name] = effort[:, k]
    return table, S


@pytest.fixture(scope="module")
def sites():
    return make_sites()


def classifier(**said):
    labelling = Labelling(**{"visit_attributes": {"effort": EFFORT}, **said})
    return TableClassifier(SAREMClassifier(propensity_attributes=["road"], labelling=labelling))


@pytest.fixture(scope="module")
def fitted(sites):
    return classifier().fit(*sites)


def test_it_is_the_fit_to_columns_that_were_standardised_together_by_hand(sites, fitted):
    table, S = sites
    effort, seen = table[EFFORT].to_numpy(), np.isfinite(S)
    mean, deviation = effort[seen].mean(), effort[seen].std()
    by_hand = table.astype("float32").astype(float)  # the preparation reads numbers in single precision
    for name in ("area", "road"):
        by_hand[name] = (by_hand[name] - by_hand[name].mean()) / by_hand[name].std(ddof=0)
    by_hand[EFFORT] = (effort - mean) / deviation
    same = SAREMClassifier(
        propensity_attributes=["road"], labelling=Labelling(visit_attributes={"effort": EFFORT})
    ).fit(by_hand, S)
    assert fitted.class_prior_ == pytest.approx(same.class_prior_, abs=1e-6)
    np.testing.assert_allclose(fitted.estimator_.visit_coef_, same.visit_coef_, atol=1e-5)
    np.testing.assert_allclose(fitted.predict_posterior(table, S), same.predict_posterior(by_hand, S), atol=1e-5)
    shown = fitted.summary().to_frame()
    assert shown.loc[("propensity", "effort"), "coef"] == pytest.approx(float(same.visit_coef_[0, 0]) / deviation, 1e-4)


def test_a_unit_change_of_all_looks_does_not_matter_but_of_one_look_does(sites, fitted):
    table, S = sites
    minutes, one = table.copy(), table.copy()
    minutes[EFFORT] = minutes[EFFORT] * 60.0 + 5.0
    one["effort_2"] = one["effort_2"] * 60.0
    again = classifier().fit(minutes, S)
    np.testing.assert_allclose(again.predict_posterior(minutes, S), fitted.predict_posterior(table, S), atol=1e-9)
    coef = [model.summary().to_frame().loc[("propensity", "effort"), "coef"] for model in (fitted, again)]
    assert coef[0] == pytest.approx(60.0 * coef[1], rel=1e-8)
    wrong = classifier().fit(one, S)
    assert np.abs(wrong.predict_posterior(one, S) - fitted.predict_posterior(table, S)).max() > 0.05


def test_looks_may_change_places_with_their_columns(sites, fitted):
    table, S = sites
    order = [2, 0, 1]
    moved = classifier(visit_attributes={"effort": [EFFORT[k] for k in order]}).fit(table, S[:, order])
    assert moved.class_prior_ == pytest.approx(fitted.class_prior_, abs=1e-9)
    np.testing.assert_allclose(
        moved.predict_propensity(table, look=1), fitted.predict_propensity(table, look=0), atol=1e-9
    )


def test_values_at_missing_looks_do_not_matter(sites, fitted):
    table, S = sites
    gaps, odd = table.copy(), table.copy()
    gaps[EFFORT] = gaps[EFFORT].where(np.isfinite(S))
    odd[EFFORT] = odd[EFFORT].where(np.isfinite(S), 1234.5)
    for other in (gaps, odd):
        again = classifier().fit(other, S)
        np.testing.assert_allclose(again.estimator_.visit_coef_, fitted.estimator_.visit_coef_, rtol=1e-6)
        np.testing.assert_allclose(again.predict_posterior(other, S), fitted.predict_posterior(table, S), atol=1e-6)


def test_visit_attributes_are_not_in_the_class_model(sites, fitted):
    table, _ = sites
    other = table.assign(**{name: table[name].to_numpy()[::-1] for name in EFFORT})
    np.testing.assert_array_equal(fitted.predict_proba(other), fitted.predict_proba(table))
    assert not np.allclose(fitted.predict_propensity(other, look=0), fitted.predict_propensity(table, look=0))
    without = table.drop(columns=EFFORT)
    with pytest.warns(UserWarning, match="'effort_1', 'effort_2', 'effort_3' of the fit are not in this table"):
        np.testing.assert_array_equal(fitted.predict_proba(without), fitted.predict_proba(table))


def test_polars_frames_and_model_files_give_the_same_predictions(sites, fitted, tmp_path):
    table, S = sites
    here = fitted.predict_posterior(table, S)
    other = pl.from_pandas(table)
    np.testing.assert_allclose(classifier().fit(other, S).predict_posterior(other, S), here, atol=1e-9)
    save(fitted, tmp_path / "model.skops")
    again = load(tmp_path / "model.skops")
    np.testing.assert_array_equal(again.predict_posterior(table, S), here)
    np.testing.assert_array_equal(again.detection_curve(table), fitted.detection_curve(table))
    assert str(again.summary()) == str(fitted.summary())


def test_a_summary_has_a_block_for_each_propensity_in_raw_units(sites):
    table, S = sites
    audit = np.where(np.arange(len(S)) % 9 == 0, (S == 1).any(axis=1), np.nan)
    model = classifier(shared=False).fit(table, S, audit=np.where((S == 1).any(axis=1), audit, np.nan))
    blocks, inner = model.summary().blocks, model.estimator_
    assert [block.names for block in blocks] == [("area", "road", "intercept")] + [("road", "effort", "intercept")] * 3
    unit = {origin.column: origin.unit for origin in model.origins_}
    assert len({unit[name] for name in EFFORT}) == 1
    for k, block in enumerate(blocks[1:]):
        raw = [inner.propensity_coef_[k, 1] / unit["road"], inner.visit_coef_[k, 0] / unit["effort_1"]]
        np.testing.assert_allclose(block.coef[:2], raw)


def test_a_visit_attribute_may_have_the_name_of_a_column(sites, fitted):
    table, S = sites
    twin = classifier(visit_attributes={"road": EFFORT}).fit(table, S)
    assert list(twin.summary().blocks[1].names) == ["road", "road", "intercept"]
    np.testing.assert_allclose(twin.summary().blocks[1].coef, fitted.summary().blocks[1].coef, atol=1e-9)


REFUSED = {
    "a gap": (
        lambda table: table.assign(effort_2=table["effort_2"].where(table.index != 7)), {},
        r"Column 'effort_2' \(visit attribute 'effort'\) must have a value if its look took place\. Rows without a "
        r"value: 1 \(first: row 7, counted from 0\)",
    ),
    "words": (
        lambda table: table.assign(effort_1="long"), {},
        r"Column 'effort_1' \(visit attribute 'effort'\) must hold numbers",
    ),
    "too few": (lambda t: t, {"effort": EFFORT[:2]}, r"\['effort'\] has 2 columns, but the labels have 3 looks"),
    "no list": (lambda table: table, {"effort": "effort_1"}, "must be a list of columns, one for each look"),
    "no dict": (lambda table: table, [EFFORT], "visit_attributes must be a dict of names and columns"),
    "no column": (lambda table: table, {"effort": ["effort_1", "effort_2", "efort"]}, "efort"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_visit_attributes_are_refused(sites, name):
    table, S = sites
    changed, visits, message = REFUSED[name]
    seen = np.nan_to_num(S)  # all looks took place
    with pytest.raises(ValueError, match=message):
        classifier(**({"visit_attributes": visits} if visits else {})).fit(changed(table), seen)


def test_a_gap_of_new_rows_is_refused_where_the_look_took_place(sites, fitted):
    table, S = sites
    gone, seen = table.assign(effort_3=np.nan), S.copy()
    with pytest.raises(ValueError, match=r"Column 'effort_3' .* must have a value"):
        fitted.predict_posterior(gone, S)
    with pytest.raises(ValueError, match=r"Column 'effort_3' .* must have a value"):
        fitted.predict_posterior_interval(gone, S)
    seen[:, 2] = np.nan
    np.testing.assert_array_equal(fitted.predict_posterior(gone, seen), fitted.predict_posterior(table, seen))


def test_visit_attributes_are_refused_by_other_models(sites):
    table, S = sites
    with pytest.raises(ValueError, match="propensity_attributes has columns that are also visit_attributes or offset"):
        classifier().set_params(estimator__propensity_attributes=["road", "effort_1"]).fit(table, S)


def test_unsupported_options_of_raw_tables_are_refused(sites, tmp_path):
    table, S = sites
    with pytest.raises(ValueError, match=r"does not support ClassPrior.* because a preparation may change"):
        TableClassifier(SAREMClassifier(known=[ClassPrior(0.3, se=0.1, where={"area": 1.0})])).fit(table, S)
    with pytest.raises(ValueError, match="X must be a data frame with named columns"):
        TableClassifier(
            SAREMClassifier(labelling=Labelling(visit_attributes={"effort": [2, 3, 4]})),
            preparation=classifier().fit(table, S).preparation_,
        ).fit(table.to_numpy(), S)
    table.assign(label=0).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="visit_attributes need a table in memory"):
        classifier().fit(ParquetRows(tmp_path), ["label", "label"])
