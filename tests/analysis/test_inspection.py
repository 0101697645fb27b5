"""`inspect_table`: summaries of columns, and the columns that the labels depend on."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.analysis.conftest import make_patients
from tests.helpers import quick_first

from scarless.analysis import ColumnRoles, inspect_table
from scarless.analysis.columns import are_ids, column_kind
from scarless.analysis.inspection import Driver, _identified_verdict, _verdict
from scarless.labelling import simulate_audit


@pytest.fixture(scope="module")
def seen():
    table = make_patients(4000).drop(columns=["known", "weight"])
    return table, inspect_table(table.assign(same=1, nothing=np.nan, number=np.arange(4000)), "diagnosed")


def test_kinds_missing_values_and_examples_of_columns(seen):
    table, found = seen
    kinds = {facts.name: facts.kind for facts in found.columns}
    assert kinds == {
        "patient": "id", "age": "number", "visits": "number", "insurance": "category", "smoker": "category",
        "last_visit": "date", "diagnosed": "label", "same": "constant", "nothing": "empty", "number": "id",
    }  # fmt: skip
    age = next(facts for facts in found.columns if facts.name == "age")
    assert (age.missing, age.distinct) == (int(table["age"].isna().sum()), table["age"].nunique())
    assert found.n_labelled == table["diagnosed"].notna().sum()


def test_two_models_are_separated_without_saying_which_is_the_class_model(seen):
    _, found = seen
    columns = [{driver.name.split(" = ")[0] for driver in part} for part in found.parts]
    assert {"age", "smoker"} in columns
    assert {"visits", "insurance"} in columns
    assert "The labels cannot show which model describes the labelling, but you may know" in found.verdict
    assert "--propensity visits insurance" in found.verdict
    assert "--propensity age smoker" in found.verdict


def test_verdicts_if_one_model_or_no_column_explains_the_labels():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=1500), "noise": rng.normal(size=1500)})
    table["seen"] = np.where(rng.random(1500) < 0.5 / (1 + np.exp(-3 * table["age"])), "yes", None)
    assert inspect_table(table, "seen").verdict.startswith("A single model explains the labels. It depends on: 'age'.")
    one = (Driver("age", 1.0, 0.001),)
    both = _verdict(one, (Driver("visits", 1.0, 0.0), *one), ["age", "visits"])
    assert "The labels depend on: 'age', 'visits'. The labels do not show which of these" in both
    table["seen"] = np.where(rng.random(1500) < 0.3, "yes", None)
    assert inspect_table(table, "seen").verdict.startswith("No column stands out")


def test_suggested_commands_name_raw_columns():
    one = (Driver("remarks: 'engine', 'ingested'", 1.0, 0.001, "remarks"),)
    other = (Driver("log of income", 1.0, 0.0, "income"), Driver("insurance = full", 1.0, 0.0, "insurance"))
    assert "--propensity income insurance" in _verdict(one, other, ["remarks", "income", "insurance"])
    assert _identified_verdict(one, other).endswith("To fit with these columns: --propensity income insurance.")


def test_it_prints_as_a_table(seen):
    _, found = seen
    lines = str(found).splitlines()
    assert lines[0].startswith("4,000 rows, 10 columns;")
    assert len({line.index("number") for line in lines if line.startswith(("age", "visits"))}) == 1
    assert any("probably an identifier; use --id" in line for line in lines)


def test_leaks_are_shown_and_left_out_of_the_models():
    table = make_patients(600).drop(columns=["known", "weight", "patient"])
    found = inspect_table(table.assign(code=table["last_visit"].where(table["diagnosed"].notna())), "diagnosed")
    leak = next(facts for facts in found.columns if facts.name == "code")
    assert leak.remark == "leaks the label: it is filled in all labelled rows and in no unlabelled row"
    assert not any(driver.name.startswith("code") for part in found.parts for driver in part)


def test_large_tables_are_inspected_with_a_sample(monkeypatch):
    monkeypatch.setattr("scarless.analysis.inspection.MAX_ROWS", 500)
    found = inspect_table(
        make_patients(900).drop(columns="known"), "diagnosed", columns=ColumnRoles(exclude=["patient"])
    )
    assert found.notes == ("The columns that labels depend on are found with 500 rows, drawn at random.",)
    assert found.n_rows == 900


def test_unknown_columns_and_tables_without_columns_to_test():
    table = pd.DataFrame({"diagnosed": ["yes", None, None], "same": 1})
    with pytest.raises(ValueError, match=r"There is no column 'diagnosis'. Did you mean 'diagnosed'"):
        inspect_table(table, "diagnosis")
    assert inspect_table(table, "diagnosed").verdict == "There is no column left to test."


def test_column_names_with_control_characters_stay_on_one_line():
    table = make_patients(200)[["age", "visits", "diagnosed"]].rename(columns={"age": "a\nb\x1b[31m" + "c" * 60})
    line = str(inspect_table(table, "diagnosed")).splitlines()[3]
    assert "\x1b" not in line
    assert "…" in line


def staff(seed=0, n=1470):
    """Return a table of employees with an id that has gaps, labels that depend on age, and labels at random."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "EmployeeNumber": np.cumsum(rng.integers(1, 3, n)),
            "age": rng.integers(18, 60, n),
            "job": rng.choice([f"job {i}" for i in range(9)], n),
            "field": rng.choice(["life", "law", "art", "other"], n),
            **{f"rate{j}": rng.integers(30, 100, n) for j in range(8)},
        }
    )
    chance = 0.5 / (1 + np.exp(-(table["age"] - 40) / 5))
    return table, rng.random(n) < chance, rng.random(n) < 0.2


@pytest.mark.parametrize("seed", quick_first(*range(4)))
def test_columns_of_noise_are_not_named(seed):
    """An earlier version, which fitted two models to all columns, named columns of noise in this table."""
    table, by_age, by_chance = staff(seed)
    found = inspect_table(table.assign(marked=np.where(by_chance, "yes", None)), "marked")
    assert found.verdict.startswith("No column stands out")
    assert found.parts == ((), ())
    found = inspect_table(table.assign(marked=np.where(by_age, "yes", None)), "marked")
    assert found.verdict.startswith("A single model explains the labels. It depends on: 'age'.")
    kinds = {facts.name: facts.kind for facts in found.columns}
    assert (kinds["EmployeeNumber"], kinds["age"], kinds["rate0"]) == ("id", "number", "number")


def test_all_categories_of_a_column_are_tested_together():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"ward": rng.choice([f"w{i}" for i in range(12)], 2500), "x": rng.normal(size=2500)})
    effect = table["ward"].map({f"w{i}": value for i, value in enumerate(rng.normal(size=12))})
    table["seen"] = np.where(rng.random(2500) < 0.4 / (1 + np.exp(-effect)), "yes", None)
    found = inspect_table(table, "seen")
    assert "depends on: 'ward'" in found.verdict
    assert " x" not in found.verdict


@pytest.mark.parametrize(
    ("values", "is_id"),
    [
        (np.random.default_rng(0).permutation(np.cumsum(np.random.default_rng(1).integers(1, 4, 300))), True),
        (np.sort(np.random.default_rng(0).choice(10**7, 300, replace=False)), True),
        (np.sort(np.random.default_rng(0).choice(10**7, 300, replace=False))[::-1] * 1.0, True),
        (np.random.default_rng(0).choice(10**7, 300, replace=False), False),
        (np.sort(np.random.default_rng(0).lognormal(12, 1, 300).astype(np.int64)), False),
        (np.random.default_rng(0).normal(size=300), False),
        (np.array([3, 5, 9]), False),
    ],
    ids=["shuffled", "sorted", "falling", "measured", "incomes", "fractions", "few"],
)
def test_ids_are_distinguished_from_measurements(values, is_id):
    assert are_ids(values) is is_id


@pytest.mark.parametrize("name", ["patient_id", "PatientID", "MRN", "case no", "EmployeeNumber"])
def test_a_column_with_the_name_of_an_id_is_an_id(name):
    numbers = np.random.default_rng(0).choice(10**7, 300, replace=False)
    assert are_ids(numbers, name)
    assert not are_ids(numbers, "paid")


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d.%m.%y"])
def test_different_dates_in_all_rows_are_no_ids_however_they_are_written(form):
    dates = pd.Series(pd.date_range("1990-01-01", periods=300, freq="37D"))
    assert column_kind(dates.dt.strftime(form), 300, 0) == column_kind(dates, 300, 0) == "date"
    assert column_kind(dates.dt.strftime(form) + "-0017", 300, 0) == "id"


def test_infinite_cells_are_reported_with_column_and_row():
    table = make_patients(300).assign(age=lambda table: table["age"].astype(float))
    table.loc[4, "age"] = np.inf
    assert "Column 'age' holds inf in row 5" in str(inspect_table(table, "diagnosed"))


def test_advice_on_files_is_printed_last(patients):
    found = replace(inspect_table(patients.head(400), "diagnosed"), advice=("Files: 4 row groups.",))
    assert str(found).endswith(f"{found.verdict}\n\nFiles: 4 row groups.")


def test_numbers_of_versions_are_categories_until_the_user_says_otherwise():
    """Read as dates, 1.2.10 would give the driver "year of version"."""
    rng = np.random.default_rng(0)
    names = np.array(["1.2.10", "1.2.11", "1.3.12", "2.1.10"])
    table = pd.DataFrame({"version": names[rng.integers(4, size=1500)], "age": rng.normal(50, 9, 1500)})
    ill = rng.random(1500) < expit((table["age"] - 50) / 5)
    seen = rng.random(1500) < np.where(table["version"] == "1.2.10", 0.9, 0.2)
    found = inspect_table(table.assign(found=np.where(ill & seen, "yes", "no")), "found")
    assert next(each.kind for each in found.columns if each.name == "version") == "category"
    assert any("Does column 'version' hold dates?" in note for note in found.notes)
    drivers = [driver.name for part in found.parts for driver in part if driver.raw == "version"]
    assert drivers
    assert all(name.startswith("version = ") for name in drivers)


def test_a_column_that_may_act_in_both_models_is_not_assigned_to_one_of_them():
    """The contract drives class and labelling; audits place it in the class model, and do not exclude the labelling."""
    rng = np.random.default_rng(0)
    contract = rng.choice(3, 2000, p=[0.5, 0.25, 0.25])
    use = rng.normal(size=2000) + np.array([0.6, -0.3, -1.1])[contract]
    ill = rng.random(2000) < expit(use + np.array([0.3, -1.1, -2.2])[contract])
    found = rng.random(2000) < np.array([0.3, 0.8, 0.8])[contract]
    table = pd.DataFrame({"contract": np.array(["month", "year", "two years"])[contract], "use": use})
    table["found"] = np.where(ill & found, "yes", "no")
    checked = simulate_audit(ill, 80, random_state=0)
    table["checked"] = np.where(np.isnan(checked), None, np.where(checked == 1, "yes", "no"))
    told = inspect_table(table, "found", audit="checked")
    assert "may act in both models" in told.verdict
    assert "'contract'" in told.verdict


def test_columns_with_clear_places_are_assigned_to_one_model():
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(4000, 3)), columns=["sugar", "weight", "visits"])
    ill = rng.random(4000) < expit(2.0 * table["sugar"] + table["weight"])
    table["found"] = np.where(ill & (rng.random(4000) < expit(1.5 * table["visits"])), "yes", "no")
    told = inspect_table(table, "found")
    assert sorted(len(part) for part in told.parts) == [1, 2]
    assert not any(driver.is_elsewhere for part in told.parts for driver in part)
    assert "may act in both models" not in told.verdict
