"""Audits, looks, a prevalence and false positives in the analysis of a raw table."""

import tomllib
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.analysis.conftest import HOURS, LOOKS

import scarless
from scarless import ClassPrior, Labelling, SAREMClassifier, SAREMClassifierCV, analyse
from scarless.analysis import ColumnRoles, predict_table
from scarless.analysis.choice import make_estimator
from scarless.analysis.ranking import rank_rows
from scarless.analysis.settings import Settings, write_toml
from scarless.analysis.values import as_visits
from scarless.raw.preparation import KeepNone

ONE = {"propensity_attributes": ["visits", "insurance"], "model": "logistic"}
VISITS = Labelling(visit_attributes={"hours": HOURS})
THREE = {**ONE, "label": LOOKS, "labelling": VISITS, "columns": ColumnRoles(id="patient", exclude=["diagnosed"])}
GIVEN = {"label": ("a", "b"), "scar": True}


def leaving_out(*names):
    return ColumnRoles(id="patient", exclude=list(names))


@pytest.fixture(scope="module")
def looked(hospital):
    return analyse(hospital[0], audit="checked", **THREE)


@pytest.fixture(scope="module")
def audited(hospital):
    return analyse(hospital[0], "diagnosed", audit="checked", columns=leaving_out(*LOOKS, *HOURS), **ONE)


def test_settings_survive_writing_and_reading():
    settings = Settings(
        label=("a b", "c"), propensity_attributes=("x",), audit="checked", prevalence=0.35, prevalence_se=0.02,
        visit_attributes={'ho"urs': ("h 1", "h2"), "effort": ("e1", "e2")}, shared=False,
        false_positive_rate="estimate",
    )  # fmt: skip
    values = tomllib.loads(write_toml({**settings.to_dict(), "source": {"file": "x.csv"}}))
    del values["source"]
    assert Settings.from_dict(values) == settings
    assert Settings.from_dict(Settings("s", scar=True, false_positive_rate=0.02).to_dict()).false_positive_rate == 0.02
    assert Settings("s", scar=True).to_dict().keys() == {"label", "scar", "model", "seed", "level"}


REFUSED = {
    "both": ({"label": "s", "looks": ["a", "b"], "scar": True}, "--label and --looks cannot be combined"),
    "share": ({**GIVEN, "prevalence": 35.0}, "--prevalence is a share of rows and must lie between 0 and 1; got 35"),
    "no share": ({**GIVEN, "prevalence": 0.0}, "must lie between 0 and 1; got 0"),
    "error alone": ({**GIVEN, "prevalence_se": 0.1}, "--prevalence-se is the standard error of --prevalence, which is"),
    "error": ({**GIVEN, "prevalence": 0.3, "prevalence_se": -1.0}, "at least 0 and below 0.5; got -1"),
    "error of words": ({**GIVEN, "prevalence": "much"}, "prevalence must be a number, got 'much'"),
    "rate": ({**GIVEN, "false_positive_rate": 0.7}, "get a label, must be at least 0 and below .*got 0.7"),
    "rate of words": ({**GIVEN, "false_positive_rate": "some"}, "or 'estimate'; got 'some'"),
    "known": ({"label": "s", "audit": "a", "known_propensity": "e"}, "treats the labelling as known, so it cannot"),
    "own": ({"label": "s", "scar": True, "shared": False}, "--not-shared needs several looks"),
    "visits": ({**GIVEN, "visit_attributes": {"h": ["h1"]}}, "-attributes h has 1 column, but there are 2 looks"),
    "visits of a label": ({"label": "s", "scar": True, "visit_attributes": {"h": ["h1"]}}, "there are no looks"),
    "visits of words": ({**GIVEN, "visit_attributes": "h"}, "a table with a list of columns for each attribute, got"),
    "visit of words": ({**GIVEN, "visit_attributes": {"h": "h1"}}, "h must be a list of column names, got 'h1'"),
    "audit of labels": ({**GIVEN, "audit": "a"}, "Column 'a' cannot be both the label and the audit"),
    "nothing": ({"scar": True}, "no label column is given"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions_and_invalid_values_are_refused(name):
    values, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        Settings.from_dict(values)


def test_visit_attributes_are_read_from_text():
    assert as_visits(["h=a,b", "e = c , d"], "visit_attributes", "here") == {"h": ("a", "b"), "e": ("c", "d")}
    for line in ("h", "=a", "h="):
        with pytest.raises(ValueError, match="--visit-attributes must name an attribute and one column for each look"):
            as_visits([line], "visit_attributes", "here")
    with pytest.raises(ValueError, match="--visit-attributes names 'h' twice"):
        as_visits(["h=a", "h=b"], "visit_attributes", "here")


def test_columns_have_one_role():
    settings = Settings(label=("a", "b"), scar=True, visit_attributes={"h": ("h1", "h2")}, audit="checked")
    assert settings.features(["a", "b", "h1", "h2", "checked", "x"]) == ["h1", "h2", "x"]
    columns = ["a", "b", "h1", "h2", "checked", "x"]
    settings.check_columns(columns)
    for changes, message in (
        ({"propensity_attributes": ("h1",), "scar": False}, "is also a visit attribute of one look"),
        ({"classification_attributes": ("a",)}, r"is also the label column of a look \(--looks\)"),
        ({"classification_attributes": ("checked",), "audit": "checked"}, r"is also the audit column \(--audit\)"),
        ({"audit": "cheked"}, r"no column 'cheked' \(--audit\). Did you mean 'checked'"),
    ):
        with pytest.raises(ValueError, match=message):
            Settings(
                **({"label": ("a", "b"), "scar": True, "visit_attributes": {"h": ("h1", "h2")}} | changes)
            ).check_columns(columns)


def test_settings_reach_the_estimators():
    model = make_estimator(
        Settings(("a", "b"), ("x",), model="logistic", visit_attributes={"h": ("h1", "h2")}, prevalence=0.3,
                 prevalence_se=0.02, false_positive_rate=0.01, shared=False)
    )  # fmt: skip
    assert isinstance(model, SAREMClassifier)
    assert (model.labelling.visit_attributes, model.labelling.shared) == ({"h": ["h1", "h2"]}, False)
    assert (model.labelling.false_positive_rate, model.known) == (0.01, [ClassPrior(0.3, se=0.02)])
    search = make_estimator(
        Settings(("a", "b"), ("x",), classification_attributes=("y",), model="search", prevalence=0.3)
    )
    assert isinstance(search, SAREMClassifierCV)
    assert (search.known, search.attribute_sets) == ([ClassPrior(0.3)], {"chosen": ["y"]})
    scar = make_estimator(Settings("s", scar=True, audit="checked", model="logistic"))
    assert isinstance(scar, SAREMClassifier)
    assert scar.propensity_attributes is None


def test_looks_and_audits_shorten_the_interval(hospital, looked, audited):
    _, ill = hospital
    plain = analyse(hospital[0], "diagnosed", columns=leaving_out(*LOOKS, *HOURS, "checked"), **ONE)
    widths = []
    for found in (plain, audited, looked):
        low, high = found.model.class_prior_interval()
        assert low < ill.mean() < high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


def test_audited_rows_have_their_class_and_no_rank(hospital, looked):
    table, ill = hospital
    ranked = looked.ranked().set_index("patient").loc[table["patient"]]
    checked = table["checked"].notna().to_numpy()
    np.testing.assert_array_equal(ranked["posterior"].to_numpy()[checked], ill[checked].astype(float))
    np.testing.assert_array_equal(ranked["checked"].to_numpy()[checked], np.where(ill[checked], "yes", "no"))
    assert ranked["rank"].notna().sum() == ((ranked["labelled"] == 0) & ~checked).sum()
    np.testing.assert_array_equal(ranked["looks"], table[LOOKS].notna().sum(axis=1))
    never = (table[LOOKS].isna().all(axis=1) & ~checked).to_numpy()
    assert (ranked["propensity"].to_numpy()[never] == 0.0).all()
    np.testing.assert_allclose(ranked["posterior"][never], ranked["probability"][never], atol=1e-12)


def test_the_propensity_is_that_of_any_label_at_the_looks_that_took_place(hospital, looked):
    table, _ = hospital
    ranked = looked.ranked().set_index("patient").loc[table["patient"]]
    features = table[list(looked.model.feature_names_in_)]
    missed = np.ones(len(table))
    for k, name in enumerate(LOOKS):
        missed *= np.where(table[name].notna(), 1.0 - looked.model.predict_propensity(features, look=k), 1.0)
    np.testing.assert_allclose(ranked["propensity"], 1.0 - missed, atol=1e-12)


def test_a_summary_counts_audits_and_looks(hospital, looked, audited):
    table, ill = hospital
    facts = looked.summary()
    assert facts["audits"] == {"rows": 200, "positive": int(ill[table["checked"].notna()].sum())}
    assert [each["took_place"] for each in facts["looks"]] == table[LOOKS].notna().sum().tolist()
    for each in facts["looks"]:
        low, high = each["label_frequency_interval"]
        assert low < each["label_frequency"] < high
    assert facts["settings"]["visit_attributes"] == {"hours": HOURS}
    assert facts["missing_positives"] == pytest.approx(facts["positives"] - facts["labelled"])
    assert "looks" not in audited.summary()
    assert any(note.startswith("Audits: 200 rows were audited") for note in audited.notes)


def test_false_positives_are_not_counted_as_positives(hospital):
    table, ill = hospital
    rng, wrong = np.random.default_rng(3), table.copy()
    for name in LOOKS:
        wrong.loc[(wrong[name] == "no") & (rng.random(len(wrong)) < 0.03), name] = "yes"
    with pytest.raises(ValueError, match="--false-positive-rate estimate"):
        analyse(wrong, audit="checked", **THREE)
    estimated = Labelling(visit_attributes={"hours": HOURS}, false_positive_rate="estimate")
    found = analyse(wrong, audit="checked", **{**THREE, "labelling": estimated})
    facts = found.summary()
    (rate,) = (each["value"] for each in facts["false_positive_rates"])
    low, high = found.model.class_prior_interval()
    assert low < ill.mean() < high
    assert 0.015 < rate < 0.045
    observed = (wrong[LOOKS] == "yes").any(axis=1).to_numpy()
    assert facts["missing_positives"] > facts["positives"] - facts["labelled"] + 50
    assert abs(facts["missing_positives"] - (ill & ~observed).sum()) < 120


def test_a_note_reports_a_prevalence_that_is_treated_as_exact(hospital):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = leaving_out(*LOOKS, *HOURS, "checked")
        found = analyse(hospital[0], "diagnosed", known=[ClassPrior(0.4)], columns=columns, **ONE)
    assert found.model.class_prior_ == pytest.approx(0.4, abs=1e-4)
    assert any("is treated as exact. If it is wrong" in note for note in found.notes)


def test_new_rows_may_lack_labels_looks_and_audits(hospital, looked):
    table, _ = hospital
    again, notes = predict_table(looked.model, table)
    assert notes == []
    np.testing.assert_array_equal(again["posterior"], looked.ranked()["posterior"])
    bare, notes = predict_table(looked.model, table.drop(columns=[*LOOKS, "checked"]))
    assert "posterior" not in bare
    assert notes[0].startswith("There are no labels in columns 'visit_1', 'visit_2', 'visit_3', so the rows are ranked")
    two, notes = predict_table(looked.model, table.drop(columns=["visit_3"]))
    assert notes == ["This table has no column 'visit_3', so this look is treated as not having taken place."]
    assert two["looks"].max() == 2
    with pytest.raises(ValueError, match=r"Column 'hours_1' \(visit attribute 'hours'\) must have a value"):
        predict_table(looked.model, table.assign(hours_1=np.nan))


def test_several_looks_give_no_note_on_swapped_models(hospital):
    every = {"propensity_attributes": "all", "model": "logistic", "columns": leaving_out(*HOURS, "diagnosed")}
    found = analyse(hospital[0].drop(columns="checked"), LOOKS, **every)
    assert not any("labels alone cannot determine which" in note for note in found.notes)


def test_penalties_of_a_search_are_chosen_with_all_audited_rows(hospital, monkeypatch):
    monkeypatch.setattr("scarless.analysis.fitting.SAMPLE_ROWS", 800)
    monkeypatch.setattr("scarless.analysis.fitting.MANY_ROWS", 1000)
    fits, fit = [], SAREMClassifierCV.fit

    def spy(self, X, y, sample_weight=None, audit=None):
        fits.append((len(X), np.shape(y), int(np.isfinite(audit).sum())))
        return fit(self, X, y, sample_weight, audit)

    monkeypatch.setattr(SAREMClassifierCV, "fit", spy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = analyse(hospital[0], audit="checked", **{**THREE, "model": "search"})
    (drawn, shape, checked), (every, _, _) = fits
    assert 800 <= drawn <= 1000
    assert shape == (drawn, 3)
    assert (checked, every) == (200, 3000)
    assert isinstance(found.model.estimator_, SAREMClassifierCV)


@pytest.mark.parametrize("given", ["one label", "looks and audits"])
def test_a_table_is_prepared_once_for_fit_ranking_summary_report_and_files(hospital, tmp_path, monkeypatch, given):
    one = {"columns": leaving_out(*LOOKS, *HOURS), "label": "diagnosed"}
    known = one if given == "one label" else {"audit": "checked"}
    done, transform = [], KeepNone.transform
    monkeypatch.setattr(KeepNone, "transform", lambda self, X: done.append(len(X)) or transform(self, X))
    found = analyse(hospital[0], **{**(ONE if given == "one label" else THREE), **known})
    found.save(tmp_path / "out")
    ranked = found.ranked()
    assert done == [len(hospital[0])]
    by_model = rank_rows(found.model, found.table, found.settings, found.label)
    assert len(done) > 1
    pd.testing.assert_frame_equal(ranked, by_model)
    assert scarless.load(tmp_path / "out" / "model.skops")._known is None
