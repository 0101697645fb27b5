"""Positives without a label in groups of rows: sums, intervals, comparisons, texts and errors."""

import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from scipy import sparse
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.helpers import fit_quietly

from scarless import (
    ClassPrior,
    Labelling,
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.diagnostics import MissedPositivesDisplay, missed_positives
from scarless.diagnostics.group_sums import GroupLayout
from scarless.diagnostics.missed import _compared
from scarless.models.inspection import draw_group_sums
from scarless.scale import ParquetRows


def made(n=1000, seed=0, groups=3):
    """Return a table with a column of group numbers, which drives the labelling, and class and labels."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(groups, size=n)])
    y = (rng.random(n) < expit(2 * X[:, 0] - X[:, 1])).astype(int)
    s = y * (rng.random(n) < expit(X[:, 2] - 1))
    return X, y, s


@pytest.fixture(scope="module")
def data():
    return made()


@pytest.fixture(scope="module")
def model(data):
    X, _, s = data
    return fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)


def test_estimates_are_sums_of_posteriors(data, model):
    X, _, s = data
    found, q = missed_positives(model, X, s, by=2), model.predict_posterior(X, s)
    for j, group in enumerate((0, 1, 2)):
        here = X[:, 2] == group
        assert found.groups[j] == str(group)
        assert found.n_rows[j] == here.sum()
        assert found.n_labelled[j] == s[here].sum()
        assert found.positives.value[j] == pytest.approx(q[here].sum())
        assert found.missed_share.value[j] == pytest.approx(1 - s[here].sum() / q[here].sum())
        assert found.class_prior.value[j] == pytest.approx(q[here].mean())
    assert found.label_frequency.value == pytest.approx(1 - found.missed_share.value)
    assert found.total["positives"][0] == pytest.approx(q.sum())


def test_intervals_contain_the_estimate_and_shrink_with_the_level(data, model):
    X, _, s = data
    wide, narrow = (missed_positives(model, X, s, by=2, level=level) for level in (0.95, 0.5))
    for name in ("positives", "missed_share", "class_prior", "label_frequency", "difference", "ratio"):
        of_wide, of_narrow = getattr(wide, name), getattr(narrow, name)
        assert (of_wide.low <= of_wide.value).all()
        assert (of_wide.value <= of_wide.high).all()
        assert (of_narrow.high - of_narrow.low < of_wide.high - of_wide.low).all()
    assert (wide.positives.low >= wide.n_labelled).all()


def test_sums_of_groups_are_the_sums_of_drawn_posteriors(data, model):
    X, _, s = data
    codes, w = X[:, [2]].astype(int), np.random.default_rng(1).integers(1, 4, size=s.size) * 1.0
    sums = draw_group_sums(model, X, s, None, codes, w, 30, np.random.default_rng(5))
    drawn = model.draw_posteriors(X, s, n_draws=30, random_state=np.random.default_rng(5))
    member = np.eye(3)[codes[:, 0]] * w[:, None]
    np.testing.assert_allclose(sums.unlabelled, drawn[:, s == 0] @ member[s == 0])
    np.testing.assert_allclose(sums.labelled, drawn[:, s == 1] @ member[s == 1])
    np.testing.assert_allclose(sums.unlabelled_variance, (drawn * (1 - drawn))[:, s == 0] @ member[s == 0])
    assert (sums.labelled_variance == 0).all()


def search(**options):
    return SAREMClassifierCV(propensity_attributes=[2], Cs=3, cv=2, random_state=0, **options)


@pytest.mark.parametrize("make", ["search", "small_stack"])
def test_searches_and_stacks_have_intervals(data, make):
    X, y, s = data
    found = missed_positives(fit_quietly(globals()[make](), X, s), X, s, by=2)
    truth = np.array([1 - s[X[:, 2] == g].sum() / y[X[:, 2] == g].sum() for g in range(3)])
    assert (found.missed_share.low <= truth).all()
    assert (truth <= found.missed_share.high).all()


def bayes(**options):
    return SAREMClassifier(GaussianNB(), propensity_attributes=[2], cv=2, random_state=0, **options)


def small_stack(**options):
    members = [("logistic", None), ("bayes", GaussianNB())]
    given = {"propensity_attributes": [2], "attribute_sets": [None], "cv": 2, "random_state": 0}
    return SARStackingClassifier(members, **given, **options)


@pytest.mark.parametrize("make", [bayes, small_stack], ids=["cross-fit", "stack"])
def test_cross_fits_and_stacks_have_intervals_with_looks_and_with_audits(data, make):
    X, y, s = data
    two = y[:, None] * (np.random.default_rng(1).random((y.size, 2)) < expit(X[:, [2]] - 1))
    here, audit = X[:, 2] == 1, np.where(X[:, 2] == 1, y, np.where(np.arange(y.size) % 10 == 0, y, -1.0))
    for labels, given in ((two, {}), (s, {"audit": audit})):
        found = missed_positives(fit_quietly(make(), X, labels, **given), X, labels, by=2, **given)
        labelled = labels.any(axis=1) if labels.ndim == 2 else labels == 1
        truth = np.array([1 - labelled[X[:, 2] == g].sum() / y[X[:, 2] == g].sum() for g in range(3)])
        assert (found.missed_share.low - 1e-12 <= truth).all()
        assert (truth <= found.missed_share.high + 1e-12).all()
        assert np.isfinite(found.p_adjusted).all()
        if given:  # All rows of group 1 are audited.
            assert found.positives.at(1) == pytest.approx((y[here].sum(),) * 3)


def test_intervals_of_correct_models_cover_the_share_in_the_table():
    covered = []
    for seed in range(12):
        X, y, s = made(2000, seed=seed, groups=8)  # With 1,000 rows, halved standard errors would pass.
        found = missed_positives(fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s), X, s, by=2)
        truth = np.array([1 - s[X[:, 2] == g].sum() / y[X[:, 2] == g].sum() for g in range(8)])
        covered.append((found.missed_share.low <= truth) & (truth <= found.missed_share.high))
    assert np.mean(covered) >= 0.88


def test_equal_labelling_is_rarely_called_different():
    rejected = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X, y, _ = made(2000, seed=seed)
        s = y * (rng.random(y.size) < 0.5)
        model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
        rejected.append((missed_positives(model, X, s, by=2).p_adjusted < 0.05).any())
    assert np.mean(rejected) <= 0.2


def test_groups_are_compared_with_the_other_rows_or_with_a_reference(data, model):
    X, _, s = data
    found = missed_positives(model, X, s, by=2)
    q = model.predict_posterior(X, s)
    others = X[:, 2] != 0
    expected = found.missed_share.value[0] - (1 - s[others].sum() / q[others].sum())
    assert found.difference.value[0] == pytest.approx(expected)
    assert found.p_adjusted[0] < 0.05
    against = missed_positives(model, X, s, by=2, reference="2")
    share = found.missed_share.value
    assert against.difference.value[:2] == pytest.approx(share[:2] - share[2])
    assert against.ratio.value[:2] == pytest.approx(share[:2] / share[2])
    assert np.isnan(against.difference.value[2])
    assert np.isnan(against.p_value[2])
    assert against.reference == "2"


def test_audited_rows_count_by_their_class(data):
    X, y, s = data
    audit = np.where(X[:, 2] == 1, y, -1.0)
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s, audit=audit)
    found = missed_positives(model, X, s, by=2, audit=audit)
    here = X[:, 2] == 1
    truth = 1 - s[here].sum() / y[here].sum()
    assert found.missed_share.at(1) == pytest.approx((truth, truth, truth))
    assert found.positives.at(1) == pytest.approx((y[here].sum(),) * 3)


def test_weights_are_copies_of_rows(data, model):
    X, _, s = data
    w = np.where(X[:, 1] > 0, 2.0, 1.0)
    rows = np.repeat(np.arange(s.size), w.astype(int))
    weighted = missed_positives(model, X, s, by=2, sample_weight=w)
    copied = missed_positives(model, X[rows], s[rows], by=2)
    np.testing.assert_allclose(weighted.missed_share.value, copied.missed_share.value)
    np.testing.assert_allclose(weighted.missed_share.low, copied.missed_share.low, atol=0.01)
    without = missed_positives(model, X, s, by=2, sample_weight=(X[:, 2] > 0) * 1.0)
    assert without.n_rows[0] == 0
    assert np.isnan(without.missed_share.value[0])


def test_looks(data):
    X, y, _ = data
    rng = np.random.default_rng(3)
    s = y[:, None] * (rng.random((y.size, 2)) < expit(X[:, [2]] - 1))
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
    found = missed_positives(model, X, s, by=2)
    any_label = s.any(axis=1)
    assert found.n_labelled.tolist() == [any_label[X[:, 2] == g].sum() for g in range(3)]
    truth = np.array([1 - any_label[X[:, 2] == g].sum() / y[X[:, 2] == g].sum() for g in range(3)])
    assert (found.missed_share.low <= truth).all()
    assert (truth <= found.missed_share.high).all()


def test_looks_can_be_coded_as_words_with_gaps(data):
    X, y, _ = data
    rng = np.random.default_rng(3)
    s = y[:, None] * (rng.random((y.size, 2)) < expit(X[:, [2]] - 1))
    gaps = rng.random(s.shape) < 0.1
    words = np.where(gaps, None, np.where(s == 1, "yes", "no"))
    numbers = np.where(gaps, np.nan, s)
    by_words = missed_positives(
        fit_quietly(SAREMClassifier(propensity_attributes=[2], pos_label="yes"), X, words), X, words, by=2
    )
    by_numbers = missed_positives(fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, numbers), X, numbers, by=2)
    np.testing.assert_allclose(by_words.missed_share.low, by_numbers.missed_share.low)
    np.testing.assert_allclose(by_words.p_value, by_numbers.p_value)


def test_raw_columns_of_a_table_classifier_define_groups(data):
    X, _, s = data
    table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "region": np.array(["a", "b", "c"])[X[:, 2].astype(int)]})
    model = fit_quietly(TableClassifier(SAREMClassifier(propensity_attributes=["region"])), table, s)
    found = missed_positives(model, table, s, ["region", ("region", "z")])
    assert found.groups[:3] == ("a", "b", "c")
    assert len(found.groups) == 3 + 12
    assert found.to_frame().index.names == ["by", "group"]
    assert found.to_frame().loc[("region", "a"), "missed_share"] == found.missed_share.value[0]
    with pytest.raises(KeyError, match="'z' is not one of the columns: region and region and z"):
        found.of("z")


def test_files_give_the_results_of_memory(data, tmp_path):
    X, _, s = data
    table = pd.DataFrame(X, columns=["x", "z", "visits"]).assign(s=s)
    table.to_parquet(tmp_path / "part-0.parquet", index=False, row_group_size=300)
    model = fit_quietly(SAREMClassifier(propensity_attributes=["visits"]), table[["x", "z", "visits"]], s)
    expected = missed_positives(model, table[["x", "z", "visits"]], s, by="visits")
    found = missed_positives(model, ParquetRows(tmp_path, columns=["x", "z", "visits"]), "s", by="visits")
    np.testing.assert_allclose(found.missed_share.low, expected.missed_share.low, rtol=1e-6)
    np.testing.assert_allclose(found.positives.value, expected.positives.value, rtol=1e-6)


@pytest.mark.parametrize("how", ["one label", "looks and audits"])
def test_raw_tables_in_files_give_the_results_of_memory(data, tmp_path, how):
    X, y, s = data
    rng = np.random.default_rng(2)
    table = pd.DataFrame(X, columns=["x", "z", "visits"]).assign(
        s=s,
        again=np.where(rng.random(s.size) < 0.9, y * (rng.random(s.size) < 0.5), np.nan),
        audit=np.where(rng.random(s.size) < 0.1, y, np.nan),
        weight=rng.integers(1, 4, size=s.size),
        region=rng.choice(["west", "east", None], size=s.size),
        day=pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(300, size=s.size), unit="D"),
    )
    for k, rows in enumerate(np.array_split(np.arange(s.size), 3)):
        table.iloc[rows].to_parquet(tmp_path / f"{k}.parquet", index=False, row_group_size=300)
    columns, given, named, labels = ["x", "z", "visits", "region"], {}, {}, "s"
    if how == "looks and audits":
        labels, named = ["s", "again"], {"audit": "audit", "sample_weight": "weight"}
        given = {name: table[column] for name, column in named.items()}
    rows = ParquetRows(tmp_path, columns=columns)
    model = fit_quietly(TableClassifier(SAREMClassifier(propensity_attributes=["visits"])), rows, labels, **named)
    by = ["region", "visits", "day", ("region", "visits"), "x"]
    own = [table[each] if isinstance(each, str) else tuple(table[name] for name in each) for each in by]
    expected = missed_positives(model, table[columns], table[labels], own, n_draws=30, **given)
    found = missed_positives(model, rows, labels, by, n_draws=30, **named)
    assert (found.by, found.groups, found.notes) == (expected.by, expected.groups, expected.notes)
    np.testing.assert_array_equal(found.n_labelled, expected.n_labelled)
    np.testing.assert_allclose(found.p_value, expected.p_value, rtol=1e-4)
    for name in ("positives", "missed_share", "difference", "ratio"):
        for one, other in zip(getattr(found, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="'hospital'"):
        missed_positives(model, rows, labels, by="hospital", **named)


def test_files_with_numbered_columns_and_with_scores(data, model, tmp_path):
    X, _, s = data
    pd.DataFrame(X, columns=["x", "z", "visits"]).assign(s=s).to_parquet(tmp_path / "a.parquet", index=False)
    named = fit_quietly(SAREMClassifier(propensity_attributes=["visits"]), ParquetRows(tmp_path), "s")
    rows = ParquetRows(tmp_path, columns=["x", "z", "visits"])
    found, expected = (missed_positives(named, rows, "s", by=by, scores=True) for by in (2, "visits"))
    np.testing.assert_allclose(found.missed_share.low, expected.missed_share.low)
    np.testing.assert_allclose(found.scores["recall"].value, expected.scores["recall"].value)
    np.testing.assert_allclose(found.positives.value, missed_positives(model, X, s, by=2).positives.value, rtol=1e-4)


@pytest.mark.parametrize(
    "convert",
    [sparse.csr_array, sparse.csc_matrix, lambda X: X.astype(np.float32), np.asfortranarray],
    ids=["csr", "csc", "float32", "fortran"],
)
def test_every_kind_of_array_gives_the_same_shares(data, model, convert):
    X, _, s = data
    found, expected = missed_positives(model, convert(X), s, by=2), missed_positives(model, X, s, by=2)
    assert found.groups == expected.groups
    for one, other in zip(found.missed_share, expected.missed_share, strict=True):
        np.testing.assert_allclose(one, other, atol=0.01)


def test_a_memory_map_gives_the_same_shares(data, model, tmp_path):
    X, _, s = data
    mapped = np.memmap(tmp_path / "X.bin", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    found = missed_positives(model, mapped, s, by=2)
    np.testing.assert_array_equal(found.missed_share.low, missed_positives(model, X, s, by=2).missed_share.low)


@pytest.mark.parametrize("code", [lambda s: s, lambda s: np.where(s == 1, "yes", "no")], ids=["numbers", "words"])
def test_groups_that_are_the_labels_are_refused(data, model, code):
    X, _, s = data
    with pytest.raises(ValueError, match="by: 'group' separates labelled from unlabelled rows: no group has both"):
        missed_positives(model, X, s, by=code(s))
    dated = pd.Series(np.where(s == 1, X[:, 0], np.nan), name="date of label")
    with pytest.raises(ValueError, match="by: 'date of label' separates labelled from unlabelled rows"):
        missed_positives(model, X, s, by=[2, dated])


def test_a_group_whose_rows_are_all_labelled_misses_nothing(data, model):
    X, _, s = data
    found = missed_positives(model, X, s, by=np.where((s == 1) & (X[:, 0] > 1), "all labelled", "others"))
    assert found.missed_share.at(0) == (0.0, 0.0, 0.0)
    assert found.positives.at(0) == pytest.approx((found.n_rows[0],) * 3)
    assert found.missed_share.value[1] > 0


def test_findings_of_audits_that_were_entered_as_labels_are_no_labels(data):
    X, y, s = data
    audited = np.random.default_rng(5).random(s.size) < 0.2
    audit = np.where(audited, y, np.nan)
    entered = np.where(audited & (y == 1), 1, s)
    found, models = {}, {}
    for how in ("drop", "undo"):
        model = SAREMClassifier(propensity_attributes=[2], labelling=Labelling(audit_labels=how))
        models[how] = fit_quietly(model, X, entered, audit=audit)
        found[how] = missed_positives(models[how], X, entered, by=2, audit=audit)
    drop, undo = found["drop"], found["undo"]
    assert undo.n_rows.tolist() == [np.sum(X[:, 2] == g) for g in range(3)]
    assert undo.n_labelled.tolist() == [np.sum((X[:, 2] == g) & ~audited & (s == 1)) for g in range(3)]
    assert any("Audited rows are left out, because audit_labels='drop'" in note for note in drop.notes)
    assert any("Labels of audited rows do not count as labels" in note for note in undo.notes)
    without = missed_positives(models["drop"], X[~audited], s[~audited], by=2)  # a table of the other rows only
    assert drop.n_rows.tolist() == without.n_rows.tolist()
    for name in ("positives", "missed_share", "difference"):
        for one, other in zip(getattr(drop, name), getattr(without, name), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)


def test_rows_without_a_look_have_no_scores(data):
    X, y, _ = data
    S = y[:, None] * (np.random.default_rng(3).random((y.size, 2)) < 0.5) * 1.0
    S[:7] = np.nan
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, S)
    with pytest.raises(ValueError, match="scores: 7 rows had no look, so they could not get a label"):
        missed_positives(model, X, S, by=2, scores=True)


def test_scores_of_the_classifier_are_propensity_weighted(data, model):
    X, y, s = data
    found = missed_positives(model, X, s, by=2, scores=True)
    chosen = model.predict(X)
    for j in range(3):
        here = X[:, 2] == j
        assert found.scores["selection_rate"].at(j) == pytest.approx((chosen[here].mean(),) * 3)
        recall = chosen[here & (y == 1)].mean()
        precision = y[here & (chosen == 1)].mean()
        assert found.scores["recall"].low[j] <= recall <= found.scores["recall"].high[j]
        assert abs(found.scores["precision"].value[j] - precision) < 0.25  # The classifier was fitted on these rows.
    assert "selection rate" in str(found)
    assert {"recall", "precision_low", "selection_rate_high"} <= set(found.to_frame().columns)
    assert missed_positives(model, X, s, by=2).scores == {}


def test_a_fit_without_standard_errors_has_estimates_but_no_intervals(data):
    X, _, s = data
    forest = RandomForestClassifier(max_depth=3, n_estimators=5, random_state=0)
    model = fit_quietly(StratifiedSCARClassifier([2], label_frequency="elkan-noto", estimator=forest), X, s)
    found = missed_positives(model, X, s, by=2)
    assert np.isfinite(found.missed_share.value).all()
    assert np.isnan(found.missed_share.low).all()
    assert np.isnan(found.p_adjusted).all()
    assert "has no standard errors, so there are no intervals" in found.notes[-1]
    assert "may be due to chance" in found.finding("x2")


def test_a_known_propensity_is_used(data):
    X, _, s = data
    e = expit(X[:, 2] - 1)
    model = fit_quietly(PropensityWeightedClassifier(), X, s, propensity=e)
    found = missed_positives(model, X, s, by=2, propensity=e)
    q = model.predict_posterior(X, s, propensity=e)
    assert found.positives.value.sum() == pytest.approx(q.sum())


def test_a_fit_that_finds_all_positives_labelled_gives_no_share():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    s = (X[:, 0] > 0.5).astype(int)
    model = fit_quietly(SAREMClassifier(propensity_attributes=[1]), X, s)
    assert model.label_frequency_ > 0.99
    found = missed_positives(model, X, s, by=np.arange(400) % 2)
    assert not found.informative
    assert np.isnan(found.missed_share.value).all()
    assert np.isnan(found.p_adjusted).all()
    assert found.finding("group") == "This fit cannot estimate how many positives have no label."
    assert "every positive is labelled" in found.notes[0]
    known = fit_quietly(SAREMClassifier(propensity_attributes=[1], known=[ClassPrior(0.5)]), X, s)
    assert missed_positives(known, X, s, by=np.arange(400) % 2).informative


def test_notes_name_groups_with_few_labels_and_columns_outside_the_propensity_model(data, model):
    X, _, s = data
    rare = pd.Series(np.where(np.arange(s.size) < 12, "rare", "usual"), name="kind")
    notes = missed_positives(model, X, s, by=[rare, 1]).notes
    assert any("fewer than 10 labelled rows: kind = rare (" in note for note in notes)
    assert any("The propensity model does not use x1." in note for note in notes)
    assert not any("does not use" in note for note in missed_positives(model, X, s, by=2).notes)
    pooled = pd.Series(np.where(np.arange(s.size) < 3, "few", "usual"), name="kind")
    pooled[3:9] = "more"
    notes = missed_positives(model, X, s, by=pooled).notes
    assert any("kind: 2 groups of fewer than 5 rows are pooled as 'other'." in note for note in notes)


def test_few_labels_in_all_groups_together_are_noted(data, model):
    X, _, s = data
    rows = np.flatnonzero(np.cumsum(s) <= 30)
    notes = missed_positives(model, X[rows], s[rows], by=2).notes
    assert notes[0].startswith("There are only 30 labelled rows, so the intervals may be too short.")
    assert not any("There are only" in note for note in missed_positives(model, X, s, by=2).notes)


def test_findings_name_the_groups_with_the_largest_and_the_smallest_share(data, model):
    X, _, s = data
    found = missed_positives(model, X, s, by=2)
    share = 100 * found.missed_share.value
    assert found.finding("x2").startswith(f"An estimated {share[0]:.0f}% (")
    assert "of positives have no label where x2 is 0; " in found.finding("x2")
    assert found.finding("x2").endswith(" where x2 is 2.")
    assert str(found).startswith("x2: An estimated")
    assert "<table>" in found._repr_html_()
    same = missed_positives(model, X, s, by=np.arange(s.size) % 3)
    assert same.finding("group").startswith("No clear difference between groups.")
    with pytest.warns(UserWarning, match="only one group"):
        single = missed_positives(model, X, s, by=np.zeros(s.size))
    assert single.finding("group").startswith("All rows are in one group.")


def test_a_group_without_positives_or_labels_is_shown(data):
    X, _, s = data
    s = np.where(X[:, 2] == 0, 0, s)
    model = fit_quietly(SAREMClassifier(propensity_attributes=[2]), X, s)
    found = missed_positives(model, X, s, by=2)
    assert found.n_labelled[0] == 0
    assert found.missed_share.value[0] == pytest.approx(1.0)
    assert found.notes[0].startswith("Groups without any label: x2 = 0. All positives of these groups have no label")
    assert "x2 is 0" not in found.finding("x2")  # The finding compares groups with enough labels.
    assert np.isfinite(found.to_frame()["p_adjusted"]).all()


def test_plots_sort_groups_and_draw_a_line_for_all_rows(data, model):
    X, _, s = data
    display = MissedPositivesDisplay.from_estimator(model, X, s, by=2)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == ["0", "1", "2"]
    assert display.ax_.get_title() == "Positives without a label, by x2"
    both = MissedPositivesDisplay(missed_positives(model, X, s, by=[2, np.arange(s.size) % 2])).plot()
    assert both.ax_.get_yticklabels()[0].get_text() == "x2: 0"
    with pytest.raises(TypeError, match="result must be a MissedPositives, as returned by missed_positives; got dict"):
        MissedPositivesDisplay({})


@pytest.mark.parametrize("n_groups", [2, 40], ids=["two", "forty"])
@pytest.mark.parametrize("length", [1, 90], ids=["short", "long"])
def test_names_of_any_length_fit_into_the_figure(data, model, n_groups, length):
    X, _, s = data
    names = np.array(
        [f"{'Hospital of the Holy Ghost, ward and street, ' * 3}"[:length] + f" {k}" for k in range(n_groups)]
    )
    by = pd.Series(names[np.arange(s.size) % n_groups], name="the department in which the patient was seen first")
    for reference in ("", names[0]):
        display = MissedPositivesDisplay(missed_positives(model, X, s, by, reference=reference)).plot()
        display.figure_.draw_without_rendering()
        whole = display.figure_.bbox
        drawn = [display.ax_.get_legend(), display.ax_.title, *display.ax_.get_yticklabels()]
        for box in (each.get_window_extent() for each in drawn):
            assert whole.x0 <= box.x0 < box.x1 <= whole.x1
            assert whole.y0 <= box.y0 < box.y1 <= whole.y1
        labels = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert len(set(labels)) == len(labels)
        assert display.ax_.get_position().width > 0.35
        pyplot.close(display.figure_)


def test_wrong_arguments_are_refused(data, model):
    X, _, s = data
    with pytest.raises(TypeError, match="NaiveClassifier treats every unlabelled row as negative"):
        missed_positives(fit_quietly(NaiveClassifier(), X, s), X, s, by=2)
    with pytest.raises(ValueError, match="propensity: PropensityWeightedClassifier does not estimate it"):
        missed_positives(fit_quietly(PropensityWeightedClassifier(), X, s, propensity=0.5), X, s, by=2)
    with pytest.raises(ValueError, match="propensity: SAREMClassifier estimates its own"):
        missed_positives(model, X, s, by=2, propensity=0.5)
    with pytest.raises(ValueError, match=r"reference: 'x2' has no group 'west'\. Its groups are 0, 1 and 2"):
        missed_positives(model, X, s, by=2, reference="west")
    with pytest.raises(TypeError, match="reference must be the name of a group as text; got 2"):
        missed_positives(model, X, s, by=2, reference=2)
    with pytest.raises(ValueError, match="n_draws must be a whole number of at least 20"):
        missed_positives(model, X, s, by=2, n_draws=3)
    with pytest.raises(ValueError, match="fitted without audits"):
        missed_positives(model, X, s, by=2, audit=np.where(s == 1, 1.0, np.nan))


def test_a_classifier_without_a_propensity_has_no_propensity_weighted_scores(data):
    X, y, s = data
    model = GaussianNB().fit(X, y)
    assert not missed_positives(model, X, s, by=2).scores
    with pytest.raises(TypeError, match=r"scores need a classifier of this package.*; got GaussianNB\. Use scores=F"):
        missed_positives(model, X, s, by=2, scores=True)


def test_false_positives_have_no_propensity_weighted_scores(data):
    X, y, s = data
    audit = np.where(np.arange(s.size) % 10 == 0, y, -1.0)
    model = fit_quietly(
        SAREMClassifier(propensity_attributes=[2], labelling=Labelling(false_positive_rate=0.02)), X, s, audit=audit
    )
    assert np.isfinite(missed_positives(model, X, s, by=2, audit=audit).missed_share.low).all()
    with pytest.raises(ValueError, match="scores: propensity-weighted scores need labels without false positives"):
        missed_positives(model, X, s, by=2, audit=audit, scores=True)


def test_a_pipeline_is_accepted(data):
    X, _, s = data
    model = make_pipeline(StandardScaler(), SAREMClassifier(propensity_attributes=[2]))
    model.fit(X, s)
    assert len(missed_positives(model, X, s, by=2).groups) == 3


def test_the_ratio_to_a_group_with_almost_no_missed_positives_is_infinite():
    groups = np.repeat([0, 1], 50)
    layout = GroupLayout(("x",), ("a", "b"), groups[:, None], np.zeros(2, dtype=int), np.array([-1, -1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = _compared(np.array([[10.0, 10.0]]), np.array([[5.0, 1e-320]]), layout)
    np.testing.assert_array_equal(found["ratio"] > 1e300, [[True, False]])
    np.testing.assert_allclose(found["difference"], [[1 / 3, -1 / 3]])


def contracts(seed, *, causes_class):
    """Return a table in which the contract drives the labelling, and perhaps the class, with labels and classes."""
    rng = np.random.default_rng(seed)
    contract = rng.choice(3, 4000, p=[0.55, 0.21, 0.24])
    Z = rng.normal(size=(4000, 3))
    effect = 0.0
    if causes_class:
        effect = np.array([0.3, -1.1, -2.2])[contract]
        Z[:, 0] += np.array([-0.6, 0.3, 1.1])[contract]
    y = rng.random(4000) < expit(effect + Z @ [-0.5, 0.5, 0.3])
    s = (y & (rng.random(4000) < np.array([0.3, 0.8, 0.77])[contract])).astype(int)
    frame = {
        "one_year": contract == 1,
        "two_years": contract == 2,
        "tenure": Z[:, 0],
        "charge": Z[:, 1],
        "use": Z[:, 2],
    }
    return pd.DataFrame(frame).astype(float), s, pd.Series(contract, name="contract").astype(str)


def searched(X, s, **options):
    search = SAREMClassifierCV(
        propensity_attributes=["one_year", "two_years"], Cs=[1.0], cv=3, random_state=0, **options
    )
    return fit_quietly(search, X, s)


def test_a_finding_that_rests_on_leaving_its_column_out_of_the_class_model_is_not_determined():
    X, s, contract = contracts(3, causes_class=True)
    found = missed_positives(searched(X, s), X, s, by=contract)
    assert found.undetermined == ("contract",)
    assert found.finding("contract").startswith("Not determined. ")
    assert (found.p_adjusted > 0.05).all()


def test_a_finding_that_holds_wherever_its_column_acts_stays():
    X, s, contract = contracts(0, causes_class=False)
    found = missed_positives(searched(X, s), X, s, by=contract)
    assert found.if_class_too is not None
    assert found.undetermined == ()
    assert found.finding("contract").startswith("An estimated ")
    assert found.p_adjusted[0] < 0.001
    assert any("Audit some rows of each group" in note for note in found.notes)


def test_who_says_which_columns_the_class_depends_on_is_not_asked_again():
    X, s, contract = contracts(0, causes_class=False)
    found = missed_positives(searched(X, s, attribute_sets={"said": ["tenure", "charge", "use"]}), X, s, by=contract)
    assert found.if_class_too is None
