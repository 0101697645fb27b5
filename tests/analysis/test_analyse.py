"""`analyse`: estimates, ranked rows, files, notes and leaks."""

import dataclasses
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.analysis.conftest import make_patients

import scarless
from scarless import (
    ClassPrior,
    NaiveClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    SCARClassifier,
    TableClassifier,
)
from scarless.analysis import ColumnRoles, analyse, predict_table
from scarless.analysis.answer import BY_LABELS, EITHER_WAY
from scarless.analysis.choice import make_estimator
from scarless.analysis.columns import notes_on_both_labels, notes_on_duplicates, notes_on_values_without_labels
from scarless.analysis.labels import ObservedLabels
from scarless.analysis.ranking import observed_again
from scarless.analysis.settings import Settings, read_run
from scarless.raw.leaks import find_leaks

ASIDE = ["patient", "weight", "known"]
WITHOUT = ColumnRoles(exclude=ASIDE)


def labels_of(s, audited=None):
    return ObservedLabels(s, s, None if audited is None else np.where(audited, 1.0, np.nan), (), ())


@pytest.fixture(scope="module")
def found(patients):
    return analyse(
        patients, "diagnosed", propensity_attributes=["visits", "insurance"], model="logistic",
        columns=ColumnRoles(id="patient", exclude=["weight", "known"]),
    )  # fmt: skip


def test_analyse_equals_a_classifier_fitted_by_hand(patients, found):
    features = patients.drop(columns=[*ASIDE, "diagnosed"])
    s = patients["diagnosed"].notna().astype(int)
    inner = SAREMClassifier(propensity_attributes=["visits", "insurance"], n_starts=5, random_state=0)
    by_hand = TableClassifier(inner).fit(features, s)
    assert found.model.class_prior_ == by_hand.class_prior_
    np.testing.assert_array_equal(found.model.predict_posterior(features, s), by_hand.predict_posterior(features, s))


def test_ranked_has_all_rows_with_the_best_candidates_first(patients, found):
    ranked = found.ranked()
    assert sorted(ranked["patient"]) == sorted(patients["patient"])
    unlabelled = ranked["labelled"] == 0
    n = int(unlabelled.sum())
    assert unlabelled[:n].all()
    assert ranked["rank"][:n].tolist() == list(range(1, n + 1))
    assert ranked["rank"][n:].isna().all()
    assert ranked["posterior"][:n].is_monotonic_decreasing
    np.testing.assert_array_equal(ranked["posterior"][n:], 1.0)
    for name in ("probability", "propensity", "posterior"):
        assert (ranked[f"{name}_low"] <= ranked[name] + 1e-12).all()
        assert (ranked[name] <= ranked[f"{name}_high"] + 1e-12).all()
    row = patients.set_index("patient").loc[[ranked["patient"][0]]]
    again = found.model.predict_posterior(row.drop(columns=["weight", "known", "diagnosed"]), [0])
    assert ranked["posterior"][0] == pytest.approx(again[0])


def test_numbers_of_the_summary_are_consistent(patients, found):
    facts = found.summary()
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["rows"], facts["labelled"]) == (1200, int(patients["diagnosed"].notna().sum()))
    assert facts["positives"] == pytest.approx(1200 * facts["class_prior"])
    assert facts["missing_positives"] == pytest.approx(facts["positives"] - facts["labelled"])
    assert facts["class_prior_interval"] == list(found.model.class_prior_interval())
    assert facts["versions"]["scarless"] == scarless.__version__
    first = found.ranked().head(50)
    assert facts["first_rows"]["rows"] == 50
    low, high = facts["first_rows"]["interval"]
    assert low <= facts["first_rows"]["positives"] <= high
    assert low < first["posterior"].sum() < high
    assert facts["first_rows"]["sentence"].startswith("If you can check 50 rows, expect ")


def test_save_writes_all_files_or_nothing(patients, found, tmp_path, monkeypatch):
    folder = found.save(tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == [
        "model.skops", "ranked.csv", "report.html", "run.toml", "summary.json"
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(FileExistsError, match=r"run exists. Choose another folder"):
        found.save(tmp_path / "run")
    found.save(tmp_path / "run", force=True, ranked="ranked.parquet")
    assert (folder / "ranked.parquet").exists()
    assert not (folder / "ranked.csv").exists()
    before = (folder / "summary.json").read_text()
    monkeypatch.setattr("scarless.analysis.answer.move_into_place", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        found.save(tmp_path / "run", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert (folder / "summary.json").read_text() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="it is not a folder of results"):
        found.save(tmp_path / "mine", force=True)


def test_a_stored_model_gives_the_same_ranking_and_run_toml_the_same_settings(patients, found, tmp_path):
    folder = found.save(tmp_path / "run")
    ranked, notes = predict_table(scarless.load(folder / "model.skops"), patients)
    pd.testing.assert_frame_equal(ranked, found.ranked())
    assert notes == []
    values = read_run(folder / "run.toml")
    settings = {key: value for key, value in values.items() if key not in ("source", "versions", "ranked")}
    assert Settings.from_dict(settings) == found.settings


def test_new_rows_without_labels_or_columns_and_with_new_categories(patients, found):
    new = patients.head(20).drop(columns=["diagnosed", "age"]).assign(insurance="gold", more=1)
    ranked, notes = predict_table(found.model, new)
    assert "posterior" not in ranked
    assert ranked["probability"].is_monotonic_decreasing
    assert [note.split(". ")[0].split(":")[0] for note in notes] == [
        "There are no labels in column 'diagnosed', so the rows are ranked by their class probability, and there is no "
        "posterior.",
        "Column 'age' of the fit is not in this table",
        "Column 'insurance' has 1 category that was not in the fit ('gold')",
    ]
    with pytest.raises(ValueError, match="no column 'patient'"):
        predict_table(found.model, new.drop(columns="patient"))
    all_seen, _ = predict_table(found.model, patients.head(5).assign(diagnosed="yes"))
    assert all_seen["rank"].isna().all()


ESTIMATORS = {
    "search": ({"propensity_attributes": ("visits",), "model": "search"}, SAREMClassifierCV),
    "logistic": ({"propensity_attributes": ("all",), "model": "logistic"}, SAREMClassifier),
    "boosted": ({"propensity_attributes": ("visits",), "model": "boosted"}, SARStackingClassifier),
    "stack": ({"propensity_attributes": ("visits",), "model": "stack"}, SARStackingClassifier),
    "scar": ({"scar": True}, SCARClassifier),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_each_model_is_the_estimator_of_its_name(name):
    options, kind = ESTIMATORS[name]
    made = make_estimator(Settings("diagnosed", seed=3, **options))
    assert type(made) is kind
    if name != "scar":
        assert made.random_state == 3
        wanted = options["propensity_attributes"]
        assert made.propensity_attributes == ("all" if wanted == ("all",) else list(wanted))
    if name == "boosted":
        assert [member for member, _ in made.estimators] == ["boosting"]


def test_known_propensities_weights_and_class_attributes_reach_the_fit(patients):
    columns, options = ColumnRoles(sample_weight="weight", exclude=["patient"]), {"known_propensity": "known"}
    known = analyse(patients, "diagnosed", classification_attributes=["age", "smoker"], columns=columns, **options)
    features = patients[["age", "smoker"]]
    s = patients["diagnosed"].notna().astype(int)
    by_hand = TableClassifier(scarless.PropensityWeightedClassifier(method="likelihood")).fit(
        features, s, sample_weight=patients["weight"], propensity=patients["known"]
    )
    np.testing.assert_array_equal(known.model.predict_proba(features), by_hand.predict_proba(features))
    ranked = known.ranked()
    assert ranked["propensity"].to_numpy() == pytest.approx(patients["known"].to_numpy()[ranked["row"] - 1])
    assert ranked["posterior"][0] > ranked["posterior"][10]


@pytest.mark.parametrize("sets", [{"all": "all"}, {"without": "all but the propensity attributes"}, {}])
def test_with_many_rows_penalties_are_chosen_with_a_sample(patients, monkeypatch, sets):
    monkeypatch.setattr("scarless.analysis.fitting.MANY_ROWS", 1000)
    monkeypatch.setattr("scarless.analysis.fitting.SAMPLE_ROWS", 600)
    if sets:  # the search on the sample selects one set of attributes
        (name,) = sets.values()
        fit = SAREMClassifierCV.fit

        def choose(self, *arguments, **options):
            fit(self, *arguments, **options)
            found = [i for i, each in enumerate(self.cv_results_["param_attributes"]) if each == name]
            if found:
                self.selection_ = dataclasses.replace(self.selection_, members=tuple(found[:1]))
            return self

        monkeypatch.setattr(SAREMClassifierCV, "fit", choose)
    found = analyse(patients, "diagnosed", propensity_attributes=["visits"], model="search", columns=WITHOUT)
    assert (
        found.notes[0]
        == "The penalties were chosen with 600 rows, drawn at random; the models were fitted to all rows."
    )
    used = found.model.estimator
    assert len(used.Cs) < 5 or not sets
    seen = {"all": ["age", "visits"], "without": ["age"]}
    for name in sets:
        (columns,) = used.attribute_sets
        assert [each for each in columns if each in ("age", "visits")] == seen[name]
    if not sets:
        assert used.attribute_sets == "auto" or len(used.attribute_sets) == 1
    assert found.model.estimator_.fitted_pair_.inference.n_rows == 1200


def test_polars_frames_are_accepted_and_arrays_are_refused(patients):
    found = analyse(pl.from_pandas(patients), "diagnosed", scar=True, columns=WITHOUT)
    assert len(found.table) == 1200
    with pytest.raises(TypeError, match="table must be a data frame with named columns; got ndarray"):
        analyse(patients.to_numpy(), "diagnosed", scar=True)


LEAKS = {
    "copy": (lambda t: t["diagnosed"].notna() * 2.0, "its values do not overlap"),
    "opposite": (lambda t: -1.0 * t["diagnosed"].notna(), "its values do not overlap"),
    "date of diagnosis": (lambda t: t["last_visit"].where(t["diagnosed"].notna()), "filled in all labelled rows"),
    "empty": (lambda t: t["visits"].where(t["diagnosed"].isna()), "it is empty in all labelled rows"),
    "words": (
        lambda t: np.where(t["diagnosed"].notna(), t["smoker"] + "!", t["smoker"]),
        "labelled and unlabelled rows have no value in common",
    ),
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_column_that_determines_the_label_is_refused(patients, name):
    make, how = LEAKS[name]
    with pytest.raises(ValueError, match=rf"Column 'leak' leaks the label: .*{how}.*--exclude leak"):
        analyse(patients.assign(leak=make(patients)), "diagnosed", scar=True, columns=WITHOUT)


def test_a_column_that_determines_all_labels_but_one_is_left_out(patients):
    near = patients["diagnosed"].notna().astype(float)
    near.iloc[int(np.flatnonzero(near)[0])] = 0.0
    found = analyse(patients.assign(near=near), "diagnosed", scar=True, columns=WITHOUT)
    assert "near" not in found.model.feature_names_in_
    assert "Column 'near' almost certainly leaks the label: its value is not 0 in" in found.notes[0]


def test_an_id_column_is_left_out_with_a_note(patients):
    patients = patients[:300]
    found = analyse(
        patients.assign(number=np.arange(300)), "diagnosed", scar=True, columns=ColumnRoles(exclude=["weight", "known"])
    )
    assert [note.split(". ")[0] for note in found.notes] == [
        "Column 'patient' has a different value in every row, like an ID, and was left out",
        "Column 'number' has a different value in every row, like an ID, and was left out",
    ]
    assert not {"patient", "number"} & set(found.model.feature_names_in_)
    kept = analyse(patients[:35], "diagnosed", scar=True, classification_attributes=["patient", "age"])
    assert "patient" in kept.model.feature_names_in_


def test_a_note_reports_long_tails(patients):
    income = np.random.default_rng(0).lognormal(10, 1, 1200)
    found = analyse(patients.assign(income=income), "diagnosed", scar=True, columns=WITHOUT)
    assert found.notes == ["The distribution of 'income' has a long tail, so the models also use its logarithm."]


def test_a_weight_column_must_be_numeric_without_missing_values(patients):
    with pytest.raises(
        ValueError, match=r"Column 'smoker' \(--sample-weight\) must hold numbers\. 1,200 of 1,200 cells are wrong"
    ):
        analyse(patients, "diagnosed", scar=True, columns=ColumnRoles(sample_weight="smoker"))
    with pytest.raises(
        ValueError, match=r"Column 'age' \(--sample-weight\) has 110 missing values, the first in row 1"
    ):
        analyse(patients, "diagnosed", scar=True, columns=ColumnRoles(sample_weight="age"))


@pytest.mark.parametrize("propensity", [["visits"], "all"])
def test_numbers_that_may_be_codes_are_reported_once(patients, propensity):
    """With "all", a naive model is fitted too; warnings are errors in these tests."""
    table = patients.assign(
        pressure=np.where(np.arange(len(patients)) % 30, np.arange(len(patients)) % 50 + 90.0, -999)
    )
    found = analyse(table, "diagnosed", propensity_attributes=propensity, model="logistic", columns=WITHOUT)
    assert sum("'pressure' has -999 in " in note for note in found.notes) == 1


def test_notes_report_possible_swaps_and_warnings_of_the_fit(patients):
    found = analyse(patients, "diagnosed", propensity_attributes="all", model="logistic", columns=WITHOUT)
    assert found.notes[0] == EITHER_WAY
    assert all("ranks labelled rows worse than the naive model" in note for note in found.notes[2:])
    seen = ["age", "visits"]
    options = {"classification_attributes": seen, "propensity_attributes": seen, "model": "logistic"}
    found = analyse(patients, "diagnosed", **options)
    assert any("can be swapped" in note for note in found.notes)
    assert found.summary()["notes"] == found.notes


@pytest.fixture(scope="module")
def treated():
    """Return patients and their true classes; 97% of the labelled rows, and no others, have a treatment."""
    rng = np.random.default_rng(0)
    n = 2500
    table = pd.DataFrame({"age": rng.normal(55, 12, n), "visits": rng.poisson(3, n), "bmi": rng.normal(27, 4, n)})
    ill = rng.random(n) < 1 / (1 + np.exp(-(0.15 * (table["age"] - 55) - 1.5)))
    labelled = ill & (rng.random(n) < 1 / (1 + np.exp(-0.9 * (table["visits"] - 3))))
    table["treatment"] = np.where(labelled & (rng.random(n) < 0.97), rng.choice(["a", "b"], n), None)
    table["diagnosed"] = np.where(labelled, "yes", None)
    return table, ill


def test_a_column_filled_only_in_labelled_rows_is_left_out_and_the_interval_covers(treated):
    """If the column is kept, the model finds that all positives are labelled."""
    table, ill = treated
    found = analyse(table, "diagnosed", propensity_attributes=["visits"], model="logistic")
    assert "treatment" not in found.model.feature_names_in_
    (told,) = [note for note in found.notes if "'treatment'" in note]
    assert "almost certainly leaks the label: it is filled in" in told
    assert "was left out" in told
    low, high = found.model.class_prior_interval()
    assert low < ill.mean() < high


def test_a_leaking_column_that_the_user_names_is_kept_with_a_caution(treated):
    table, _ = treated
    found = analyse(table, "diagnosed", propensity_attributes=["visits", "treatment"], model="logistic")
    assert "treatment" in found.model.feature_names_in_
    assert any("'treatment' almost certainly leaks the label" in note and "--exclude" in note for note in found.notes)
    assert any("Column treatment almost certainly leaks the label" in said for said in found.report().answer.cautions)


def test_leaks_are_searched_for_once(treated, monkeypatch, tmp_path):
    table, _ = treated
    asked = []
    for module in ("analysis.columns", "diagnostics.fit.subject"):
        monkeypatch.setattr(f"scarless.{module}.find_leaks", lambda X, s: asked.append(list(X)) or find_leaks(X, s))
    found = analyse(table, "diagnosed", propensity_attributes=["visits", "treatment"], model="logistic")
    found.save(tmp_path / "run")
    assert asked == [["age", "visits", "bmi", "treatment"]]
    assert [leak.column for leak in found.subject.leaks] == ["treatment"]


def test_a_table_with_only_leaking_columns_is_refused(treated):
    table, _ = treated
    with pytest.raises(ValueError, match=r"No column is left for the models\. Column 'treatment'"):
        analyse(table[["treatment", "diagnosed"]], "diagnosed", scar=True)


SEEN = ["age", "visits", "insurance", "smoker"]


def test_rows_are_ranked_by_labels_if_the_models_may_be_swapped(patients):
    """Class probabilities of swapped models rank unlabelled rows worse than chance: AUC .44."""
    table = patients[[*SEEN, "diagnosed"]][:500]
    found = analyse(table, "diagnosed", propensity_attributes="all", model="logistic")
    assert found.may_be_swapped
    assert found.notes[:2] == [EITHER_WAY, BY_LABELS]
    ranked = found.ranked()
    assert list(ranked.columns) == ["rank", "row", "labelled", "label_probability"]
    s = table["diagnosed"].notna().to_numpy()
    naive = TableClassifier(NaiveClassifier()).fit(table[SEEN], s).predict_proba(table[SEEN])[:, 1]
    assert ranked["label_probability"].to_numpy() == pytest.approx(naive[ranked["row"] - 1])
    assert ranked["label_probability"][: int((~s).sum())].is_monotonic_decreasing
    report = found.report()
    assert [row.position for row in report.ranked.rows] == (ranked["row"] - 1)[: len(report.ranked.rows)].tolist()
    assert report.ranked.measure == "probability of a label"
    assert report.answer.cautions
    assert not any(check.status == "good" for check in report.checks)


def test_audits_determine_which_model_is_the_class_model(hospital):
    table, _ = hospital
    table = table[["age", "bmi", "visits", "diagnosed", "checked"]][:1500]
    named = analyse(table, "diagnosed", audit="checked", propensity_attributes="all", model="logistic")
    assert not named.may_be_swapped
    assert "posterior" in named.ranked().columns
    same = {
        "classification_attributes": ["age", "visits"],
        "propensity_attributes": ["age", "visits"],
        "model": "logistic",
    }
    assert analyse(table.drop(columns="checked"), "diagnosed", **same).may_be_swapped


def test_intervals_with_survey_weights_are_based_on_the_number_of_rows():
    table = make_patients(600).drop(columns=["known"])
    options = {"propensity_attributes": ["visits"], "model": "logistic"}
    plain = analyse(table.drop(columns=["weight"]), "diagnosed", columns=ColumnRoles(id="patient"), **options)
    roles = ColumnRoles(id="patient", sample_weight="weight")
    heavy = analyse(table.assign(weight=333.0), "diagnosed", columns=roles, **options)
    assert any("they are treated as survey weights" in note for note in heavy.notes)
    (low, high), (lowest, highest) = (each.model.class_prior_interval() for each in (heavy, plain))
    assert high - low > 0.5 * (highest - lowest)


@pytest.mark.parametrize(
    ("site", "what"),
    [
        pytest.param({True: "B", False: "A"}, "the value 'B'", id="text"),
        pytest.param({True: 0, False: 1}, "the value '0'", id="two numbers"),
        pytest.param({True: False, False: True}, "the value 'False'", id="booleans"),
        pytest.param({True: None, False: "A"}, "an empty cell", id="one value and empty cells"),
        pytest.param({True: None}, "an empty cell", id="two values and empty cells"),
    ],
)
def test_a_value_of_a_propensity_attribute_without_any_label_is_reported(patients, site, what):
    """Where positives are never labelled, no method can count them from labels; the estimates were silently too low."""
    n = len(patients)
    never = np.random.default_rng(1).random(n) < 0.5
    values = [site.get(bool(each), "A" if k % 2 else "C") for k, each in enumerate(never)]
    table = patients.assign(site=pd.Series(values, dtype=object if None in values else None))
    s = patients["diagnosed"].notna().to_numpy() & ~never
    settings = Settings(label="diagnosed", propensity_attributes=("visits", "site", "insurance"))
    notes = notes_on_values_without_labels(table[list(settings.propensity_attributes)], settings, labels_of(s))
    (note,) = notes
    assert note.startswith(f"No row with {what} in 'site' has a label ({never.sum():,} rows), but ")
    assert "leave these rows out, or audit some of them. If none of these rows can be positive, remove 'site'" in note
    audited = never & (np.cumsum(never) <= 10)  # ten audits show how many of these rows are positive
    assert notes_on_values_without_labels(table, settings, labels_of(s, audited)) == []


@pytest.mark.parametrize("seed", range(6))
def test_rare_values_without_labels_are_not_reported(seed):
    table = make_patients(1200, seed=seed)
    table["rare"] = np.where(table["diagnosed"].isna() & (np.arange(1200) % 40 == 0), "rare", "usual")
    names = ("visits", "insurance", "rare", "smoker")
    settings = Settings(label="diagnosed", propensity_attributes=names)
    s = table["diagnosed"].notna()
    assert notes_on_values_without_labels(table[list(names)], settings, labels_of(s)) == []


@pytest.mark.parametrize("named", [["visits", "site"], ["visits"]], ids=["named", "not named"])
def test_analyse_reports_a_value_without_any_label(patients, named):
    """Nobody looked at site B, so the share of positives is too low, whether or not the column is named."""
    never = np.arange(len(patients)) % 2 == 0
    table = patients.assign(site=np.where(never, "B", "A"), diagnosed=patients["diagnosed"].where(~never, None))
    found = analyse(table, "diagnosed", propensity_attributes=named, model="logistic", columns=WITHOUT)
    assert sum("No row with the value 'B' in 'site' has a label" in note for note in found.notes) == 1
    doubt = "not reliable if positives among rows with the value 'B' in 'site' are never labelled"
    assert found.summary()["doubt"] == doubt
    assert found.report().answer.sentence.endswith(f" This estimate is {doubt}.")


@pytest.mark.parametrize("id", ["", "unit"])
def test_a_unit_with_a_label_in_one_row_and_none_in_another_is_reported(patients, id):
    """Rows 0 to 9 are labelled; copies of five of them have no label."""
    s = np.arange(len(patients)) < 10
    table = patients.assign(unit=np.arange(len(patients)))
    features = [name for name in patients.columns if name != "diagnosed"]
    assert notes_on_both_labels(table, s, features, id) == []
    twice = pd.concat([table, table.head(5)], ignore_index=True)
    (note,) = notes_on_both_labels(twice, np.append(s, np.zeros(5)), features, id)
    assert f"with a labelled row: 5 (the first is row {len(table) + 1}, counted from 1)" in note
    assert "keep one row for each unit" in note
    assert "--looks" in note
    assert notes_on_both_labels(twice, np.append(s, np.ones(5)), features, id) == []


def test_a_fit_says_that_units_have_both_labels(patients):
    labelled = patients[patients["diagnosed"].notna()].head(6).assign(diagnosed=None)
    table = pd.concat([patients, labelled], ignore_index=True)
    roles = ColumnRoles(id="patient", exclude=[name for name in ASIDE if name != "patient"])
    found = analyse(table, "diagnosed", propensity_attributes=["visits"], model="logistic", columns=roles)
    assert sum("share their id ('patient') with a labelled row: 6 (the first" in note for note in found.notes) == 1


def test_empty_rows_are_reported(patients):
    """Spreadsheets write empty rows at the end, and each counts as a patient without a label."""
    table = patients.reindex(range(len(patients) + 3))
    notes = notes_on_duplicates(table)
    assert notes == [
        f"3 rows have no value in any column (the first is row {len(patients) + 1}, counted from 1), but count as rows "
        "without a label. Remove empty rows from the file: they change the share of positives."
    ]
    assert notes_on_duplicates(patients) == []


def test_a_threshold_in_a_named_number_is_reported(patients):
    table = patients.assign(diagnosed=patients["diagnosed"].where(patients["visits"] > 1, None))
    found = analyse(table, "diagnosed", propensity_attributes=["visits"], model="logistic", columns=WITHOUT)
    n = int((patients["visits"] <= 1).sum())
    assert sum(f"No row in which 'visits' is at most 1 has a label ({n} rows)" in note for note in found.notes) == 1
    assert "in which 'visits' is at most 1 are never labelled" in found.summary()["doubt"]


def test_a_warning_about_the_class_prior_is_a_doubt(patients):
    """The headline must not look certain if a note says that the number of positives is not reliable."""
    few = patients["diagnosed"].where(patients["diagnosed"].isna() | (np.arange(len(patients)) < 100), None)
    found = analyse(
        patients.assign(diagnosed=few), "diagnosed", propensity_attributes=["visits"], model="logistic", columns=WITHOUT
    )
    assert any("Do not rely on the number of positives" in note for note in found.notes)
    assert found.summary()["doubt"] == "not reliable"
    assert found.report().answer.sentence.endswith(" This estimate is not reliable.")
    given = {"propensity_attributes": ["visits"], "model": "logistic", "columns": WITHOUT}
    found = analyse(patients.assign(diagnosed=few), "diagnosed", known=[ClassPrior(0.4, se=0.02)], **given)
    assert found.summary()["doubt"] == ""


def test_a_known_share_that_the_labels_contradict_is_refused_or_a_doubt(patients):
    given = {"propensity_attributes": ["visits", "insurance"], "model": "logistic", "columns": WITHOUT}
    with pytest.raises(ValueError, match=r"known has the class prior, 0\.02, but 0\.\d+ of the rows are labelled"):
        analyse(patients, "diagnosed", known=[ClassPrior(0.02)], **given)
    found = analyse(patients, "diagnosed", known=[ClassPrior(0.9, se=0.01)], **given)
    assert any("standard errors apart" in note for note in found.notes)
    assert found.summary()["doubt"] == "not reliable"


@pytest.mark.parametrize(
    ("marks", "values", "labelled", "note"),
    [
        (
            ("yes",),
            ["yes", "ja", "no", None],
            [1, 0, 0, 0],
            "'yes' marks a label, as in the fit, so 'ja' (1 row) is read as",
        ),
        (
            ("any",),
            ["2024-01-05", "no", None, "2023-05-01"],
            [1, 1, 0, 1],
            "every value marks a label, as in the fit, so",
        ),
        (("yes",), ["Yes", "no", "maybe", None], [1, 0, 0, 0], None),
        (("0",), ["0", "1", "1", "0"], [1, 0, 0, 1], None),
    ],
    ids=["another word for yes", "no among dates", "as in the fit", "chosen by the user"],
)
def test_labels_of_new_rows_that_are_read_against_their_meaning_are_reported(marks, values, labelled, note):
    """Mixed codings, such as two files that were joined, lost labels without a word."""
    settings = Settings(label="dx", scar=True, pos_label=marks)
    observed, notes = observed_again(pd.DataFrame({"dx": values}), settings)
    np.testing.assert_array_equal(observed.s, labelled)
    assert notes == [] if note is None else note in notes[0]


@pytest.mark.parametrize("cell", [None, "ja"], ids=["empty", "new"])
def test_notes_on_two_categories_say_how_new_cells_are_treated(patients, found, cell):
    """An empty cell in a yes/no column was read as the first category without a word."""
    new = patients.assign(smoker=patients["smoker"].astype(object))
    new.loc[:9, "smoker"] = cell
    ranked, notes = predict_table(found.model, new)
    kind = "has 10 empty cells, but had none in the fit." if cell is None else "has 1 category that was not in the fit"
    (note,) = [note for note in notes if "smoker" in note]
    assert note.startswith(f"Column 'smoker' {kind}")
    assert note.endswith("is treated like a row with 'no'.")
    new.loc[:9, "smoker"] = "no"
    pd.testing.assert_frame_equal(ranked, predict_table(found.model, new)[0])
    assert not any("smoker" in note for note in predict_table(found.model, patients)[1])


def test_codes_of_new_rows_may_be_numbers(patients):
    """With an empty cell, codes that are all numbers are read as 1.0, 2.0, ..., which were new categories."""
    ward = np.random.default_rng(0).choice(["1", "2", "A1"], len(patients))
    table = patients.assign(ward=ward)
    model = analyse(table, "diagnosed", propensity_attributes=["visits"], model="logistic", columns=WITHOUT).model
    as_text = table[(ward != "A1") & (np.arange(len(table)) < 100)].reset_index(drop=True)
    as_text.loc[0, "ward"] = None
    as_numbers = as_text.assign(ward=as_text["ward"].astype(float))
    expected, notes = predict_table(model, as_text)
    ranked, same_notes = predict_table(model, as_numbers)
    pd.testing.assert_frame_equal(ranked, expected)
    assert same_notes == notes
    assert not any("not in the fit (" in note for note in notes)
    for frame in (as_numbers, pl.from_pandas(as_numbers)):
        with pytest.warns(UserWarning, match="Column 'ward' has 1 empty cell, but had none in the fit"):
            read = model.predict_proba(frame)
        np.testing.assert_array_equal(np.sort(read[:, 1]), np.sort(expected["probability"]))
