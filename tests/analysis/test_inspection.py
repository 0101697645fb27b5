"""A first look: facts of columns, and a guess at the labelling that says what it hangs on."""

import numpy as np
import pandas as pd
import pytest
from tests.analysis.conftest import make_patients

from scarless.analysis import inspect_table
from scarless.analysis.inspection import Driver, _verdict


@pytest.fixture(scope="module")
def seen():
    table = make_patients(4000).drop(columns=["known", "weight"])
    return table, inspect_table(table.assign(same=1, nothing=np.nan, number=np.arange(4000)), "diagnosed")


def test_kinds_gaps_and_examples(seen):
    table, found = seen
    kinds = {facts.name: facts.kind for facts in found.columns}
    assert kinds == {
        "patient": "id", "age": "number", "visits": "number", "insurance": "category", "smoker": "category",
        "last_visit": "date", "diagnosed": "label", "same": "constant", "nothing": "empty", "number": "id",
    }  # fmt: skip
    age = next(facts for facts in found.columns if facts.name == "age")
    assert (age.missing, age.distinct) == (int(table["age"].isna().sum()), table["age"].nunique())
    assert found.n_labelled == table["diagnosed"].notna().sum()


def test_the_two_things_that_make_a_label_are_told_apart_and_not_named(seen):
    _, found = seen
    columns = [{driver.name.split(" = ")[0] for driver in part} for part in found.parts]
    assert {"age", "smoker"} in columns
    assert {"visits", "insurance"} in columns
    assert "Labels cannot say which is which; you can" in found.verdict
    assert "--propensity visits insurance" in found.verdict
    assert "--propensity age smoker" in found.verdict


def test_where_one_thing_or_nothing_is_to_be_seen_that_is_said():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=1500), "noise": rng.normal(size=1500)})
    table["seen"] = np.where(rng.random(1500) < 0.5 / (1 + np.exp(-3 * table["age"])), "yes", None)
    assert inspect_table(table, "seen").verdict.startswith("Only one thing is to be seen, which depends on: age.")
    one = (Driver("age", 1.0, 0.001),)
    both = _verdict(one, (Driver("visits", 1.0, 0.0), *one), ["age", "visits"])
    assert "Labels depend on: age visits. Which of these" in both
    table["seen"] = np.where(rng.random(1500) < 0.3, "yes", None)
    assert inspect_table(table, "seen").verdict.startswith("Nothing stands out")


def test_it_prints_as_a_table(seen):
    _, found = seen
    lines = str(found).splitlines()
    assert lines[0].startswith("4,000 rows, 10 columns;")
    assert len({line.index("number") for line in lines if line.startswith(("age", "visits"))}) == 1
    assert any("a name of rows (--id)" in line for line in lines)


def test_leaks_are_shown_and_left_out_of_the_guess():
    table = make_patients(600).drop(columns=["known", "weight", "patient"])
    found = inspect_table(table.assign(code=table["last_visit"].where(table["diagnosed"].notna())), "diagnosed")
    leak = next(facts for facts in found.columns if facts.name == "code")
    assert leak.remark == "gives the label away: it is filled in in all labelled rows and in no others"
    assert not any(driver.name.startswith("code") for part in found.parts for driver in part)


def test_large_tables_are_looked_at_with_a_sample(monkeypatch):
    monkeypatch.setattr("scarless.analysis.inspection._MOST_ROWS", 500)
    found = inspect_table(make_patients(900).drop(columns="known"), "diagnosed", exclude=["patient"])
    assert found.notes == ("What labels depend on is looked at with 500 rows, drawn at random.",)
    assert found.n_rows == 900


def test_names_that_are_not_there_and_nothing_to_look_at():
    table = pd.DataFrame({"diagnosed": ["yes", None, None], "same": 1})
    with pytest.raises(ValueError, match=r"There is no column 'diagnosis'. Did you mean 'diagnosed'"):
        inspect_table(table, "diagnosis")
    assert inspect_table(table, "diagnosed").verdict == "There is no column to look at."


def test_hostile_names_are_one_line():
    table = make_patients(200)[["age", "visits", "diagnosed"]].rename(columns={"age": "a\nb\x1b[31m" + "c" * 60})
    line = str(inspect_table(table, "diagnosed")).splitlines()[3]
    assert "\x1b" not in line
    assert "…" in line
