"""What a run is asked to do: checked, kept, written down, and the same when read back."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scarless.analysis.folders import read_run, write_toml
from scarless.analysis.settings import Settings

COLUMNS = ["age", "visits", "insurance", "diagnosed", "patient", "weight"]
NAMES = st.text(min_size=1, max_size=12)


@given(
    label=NAMES, propensity=st.lists(NAMES, min_size=1, max_size=3, unique=True), seed=st.integers(0, 2**31), id=NAMES
)
def test_what_is_written_is_read_back(label, propensity, seed, id):
    settings = Settings(
        label, tuple(propensity), seed=seed, id=id, exclude=("a\tb", '"quoted"', "new\nline"), level=0.9
    )
    text = write_toml({**settings.to_dict(), "source": {"file": label}})
    values = tomllib.loads(text)
    assert values.pop("source") == {"file": label}
    assert Settings.from_dict(values) == settings


def test_columns_that_models_may_see():
    settings = Settings("diagnosed", ("visits",), id="patient", sample_weight="weight", exclude=("age",))
    assert settings.features(COLUMNS) == ["visits", "insurance"]
    assert Settings("diagnosed", ("visits",), classification_attributes=("age",)).features(COLUMNS) == ["age", "visits"]
    with pytest.raises(ValueError, match="No column is left for the models to see"):
        Settings("diagnosed", scar=True).features(["diagnosed"])


REFUSED = {
    "nothing said": ({}, r"What does the labelling depend on\? Name the columns \(--propensity visits insurance\)"),
    "nothing to name": (
        {},
        r"look up the class of some 50 rows drawn at random \(--audit COLUMN --propensity all\): without",
    ),
    "two ways": (
        {"propensity_attributes": ["age"], "scar": True},
        "--propensity and --scar contradict each other: take one",
    ),
    "three ways": (
        {"propensity_attributes": ["age"], "scar": True, "known_propensity": "e"},
        "--scar and --known-propensity",
    ),
    "stack without": (
        {"scar": True, "model": "stack"},
        "--model stack learns what the labelling depends on; it cannot go",
    ),
    "model": ({"scar": True, "model": "forest"}, "must be one of search, stack, logistic, boosted; got 'forest'"),
    "level": ({"scar": True, "level": 1.0}, "The level must lie between 0 and 1; got 1"),
    "key": ({"scar": True, "sede": 1}, "there is no setting 'sede'. Did you mean 'seed'"),
    "names": ({"propensity_attributes": [1]}, r"propensity_attributes must be a list of column names, got \[1\]"),
    "seed": ({"scar": True, "seed": "a"}, "seed must be a whole number, got 'a'"),
    "truth": ({"scar": "yes"}, "scar must be true or false, got 'yes'"),
    "bool seed": ({"scar": True, "seed": True}, "seed must be a whole number, got True"),
    "text": ({"scar": True, "id": 3}, "id must be text, got 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions_and_slips_are_refused(name):
    values, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        Settings.from_dict({"label": "diagnosed", **values})


def test_a_label_is_needed():
    with pytest.raises(ValueError, match="which column is the label"):
        Settings.from_dict({"scar": True})


COLUMNS_REFUSED = {
    "label": (
        {"label": "diagnosd", "scar": True},
        r"There is no column 'diagnosd' \(the label column\). Did you mean 'diagnosed'",
    ),
    "case": ({"label": "Diagnosed", "scar": True}, "Did you mean 'diagnosed'"),
    "far": ({"label": "zzz", "scar": True}, "There are: 'age', 'visits'"),
    "propensity": (
        {"label": "diagnosed", "propensity_attributes": ["visit"]},
        r"no column 'visit' \(--propensity\). Did you mean 'visits'",
    ),
    "two roles": (
        {"label": "diagnosed", "propensity_attributes": ["diagnosed"]},
        "named by --propensity.*it is the label column",
    ),
    "id seen": (
        {"label": "diagnosed", "scar": True, "id": "patient", "classification_attributes": ["patient"]},
        "it is the id",
    ),
}


@pytest.mark.parametrize("name", COLUMNS_REFUSED)
def test_columns_that_are_not_there_or_have_two_roles(name):
    values, message = COLUMNS_REFUSED[name]
    with pytest.raises(ValueError, match=message):
        Settings.from_dict(values).check_columns(COLUMNS)


def test_a_run_that_is_no_toml(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("label = ")
    with pytest.raises(ValueError, match=r"run.toml is not a TOML file"):
        read_run(path)
