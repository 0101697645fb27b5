"""Settings: checks, declarations, `run.toml`, the command line and Python objects."""

import inspect
import re
import tomllib
from dataclasses import MISSING, fields

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scarless import ClassPrior, LabelFrequency, Labelling, cli
from scarless.analysis import ColumnRoles, analyse, inspect_table
from scarless.analysis.settings import OLD_FLAGS, OLD_KEYS, Settings, declarations, read_run, write_toml
from scarless.cli import main, tables

COLUMNS = ["age", "visits", "insurance", "diagnosed", "patient", "weight"]
NAMES = st.text(min_size=1, max_size=12)


@given(
    label=NAMES, propensity=st.lists(NAMES, min_size=1, max_size=3, unique=True), seed=st.integers(0, 2**31), id=NAMES
)
def test_settings_survive_writing_and_reading(label, propensity, seed, id):
    settings = Settings(
        label, tuple(propensity), seed=seed, id=id, exclude=("a\tb", '"quoted"', "new\nline"), level=0.9
    )
    text = write_toml({**settings.to_dict(), "source": {"file": label}})
    values = tomllib.loads(text)
    assert values.pop("source") == {"file": label}
    assert Settings.from_dict(values) == settings


def test_columns_that_models_may_use():
    settings = Settings("diagnosed", ("visits",), id="patient", sample_weight="weight", exclude=("age",))
    assert settings.features(COLUMNS) == ["visits", "insurance"]
    assert Settings("diagnosed", ("visits",), classification_attributes=("age",)).features(COLUMNS) == ["age", "visits"]
    with pytest.raises(ValueError, match="No column is left for the models"):
        Settings("diagnosed", scar=True).features(["diagnosed"])


REFUSED = {
    "nothing said": (
        {},
        r"No columns are named that drive the labelling. Name them, for example --propensity visits insurance",
    ),
    "nothing to name": (
        {},
        r"audit about 50 rows drawn at random, and use --audit COLUMN --model stack, because labels alone",
    ),
    "two ways": (
        {"propensity_attributes": ["age"], "scar": True},
        "--propensity and --scar cannot be combined. Use only one",
    ),
    "three ways": (
        {"propensity_attributes": ["age"], "scar": True, "known_propensity": "e"},
        "--scar and --known-propensity",
    ),
    "stack without": (
        {"scar": True, "model": "stack"},
        "--model stack estimates how the labelling depends on columns, so it cannot be combined with",
    ),
    "model": ({"scar": True, "model": "forest"}, "must be one of auto, stack, search, logistic, boosted; got 'forest'"),
    "level": ({"scar": True, "level": 1.0}, "--level must lie between 0 and 1; got 1"),
    "key": ({"scar": True, "sede": 1}, "there is no setting 'sede'. Did you mean 'seed'"),
    "negative seed": ({"scar": True, "seed": -1}, r"--seed must be at least 0; got -1\."),
    "empty name": ({"exclude": ["a", ""]}, r"exclude has an empty name\. Name columns, or leave it out\."),
    "names": ({"propensity_attributes": [1]}, r"propensity_attributes must be a list of column names, got \[1\]"),
    "seed": ({"scar": True, "seed": "a"}, "seed must be a whole number, got 'a'"),
    "truth": ({"scar": "yes"}, "scar must be true or false, got 'yes'"),
    "bool seed": ({"scar": True, "seed": True}, "seed must be a whole number, got True"),
    "text": ({"scar": True, "id": 3}, "id must be text, got 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions_and_invalid_values_are_refused(name):
    values, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        Settings.from_dict({"label": "diagnosed", **values})


@pytest.mark.parametrize("label", [pd.Series([0, 1]), np.array([0, 1]), 0], ids=["series", "array", "number"])
@pytest.mark.parametrize("function", [analyse, inspect_table])
def test_labels_as_values_get_an_error_that_asks_for_a_name(function, label):
    with pytest.raises(TypeError, match=r"label must be the name of a column, such as 'diagnosed', .* add them to the"):
        function(pd.DataFrame({"a": [1.0, 2.0]}), label=label)


def test_a_label_is_needed():
    with pytest.raises(ValueError, match="no label column is given"):
        Settings.from_dict({"scar": True})


COLUMNS_REFUSED = {
    "label": (
        {"label": "diagnosd", "scar": True},
        r"There is no column 'diagnosd' \(the label column\). Did you mean 'diagnosed'",
    ),
    "case": ({"label": "Diagnosed", "scar": True}, "Did you mean 'diagnosed'"),
    "far": ({"label": "zzz", "scar": True}, "Available names: 'age', 'visits'"),
    "propensity": (
        {"label": "diagnosed", "propensity_attributes": ["visit"]},
        r"no column 'visit' \(--propensity\). Did you mean 'visits'",
    ),
    "two roles": (
        {"label": "diagnosed", "propensity_attributes": ["diagnosed"]},
        "\\(--propensity\\) is also the label column \\(--label\\). The models must not use it",
    ),
    "id seen": (
        {"label": "diagnosed", "scar": True, "id": "patient", "classification_attributes": ["patient"]},
        "\\(--classification-attributes\\) is also the id column",
    ),
}


@pytest.mark.parametrize("name", COLUMNS_REFUSED)
def test_unknown_columns_and_columns_with_two_roles_are_refused(name):
    values, message = COLUMNS_REFUSED[name]
    with pytest.raises(ValueError, match=message):
        Settings.from_dict(values).check_columns(COLUMNS)


def test_an_invalid_run_toml_is_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("label = ")
    with pytest.raises(ValueError, match=r"run.toml is not a TOML file"):
        read_run(path)


# --- each setting is declared once


def defaults(call):
    return {name: each.default for name, each in inspect.signature(call).parameters.items()}


def usual():
    return {each.name: {} if each.default is MISSING else each.default for each in fields(Settings)}


def test_every_setting_is_a_parameter_of_analyse():
    parameters = set(defaults(analyse))
    assert len(parameters) <= 16
    said = {"": set(), "labelling": set(), "columns": set(), "known": set(), "random_state": set()}
    for name, each in declarations():
        said[each.of].add(name)
    assert said[""] | {"table", "labelling", "columns", "known", "random_state", "source", "progress"} == parameters
    assert said["labelling"] | {"offset"} == set(defaults(Labelling))
    assert said["columns"] == set(defaults(ColumnRoles))
    assert said["random_state"] == {"seed"}
    assert said["known"] == {"prevalence", "prevalence_se", "label_frequency", "label_frequency_se"}


@pytest.mark.parametrize("call", [analyse, Labelling, ColumnRoles])
def test_docstrings_list_all_parameters_and_defaults_match_the_declarations(call):
    listed = inspect.getdoc(call).split("Parameters\n----------\n")[1].split("\n\n")[0]
    names = [name for line in re.findall(r"^(\S[^:]*) : ", listed, re.MULTILINE) for name in line.split(", ")]
    assert names == [name for name in defaults(call) if name != "self"]
    known = usual()
    for name, default in defaults(call).items():
        if name in known:
            assert (default or None) == (known[name] or None), name


def test_every_setting_has_its_own_flag_and_is_documented():
    flags = [flag for _, each in declarations() for flag in each.flags]
    assert len(set(flags)) == len(flags)
    for name, each in declarations():
        assert name.replace("_", "-") in " ".join(each.flags) or name == "shared"
        assert each.help
        assert f"    {name}\n" in Settings.__doc__
    assert not set(flags) & OLD_FLAGS.keys()
    assert set(OLD_FLAGS.values()) <= set(flags)


@pytest.mark.parametrize("flag", OLD_FLAGS)
@pytest.mark.parametrize("command", ["fit", "inspect"])
def test_a_flag_of_an_earlier_version_raises_an_error_with_its_new_name(flag, command, capsys):
    with pytest.raises(SystemExit):
        main([command, "patients.csv", flag, "x"])
    assert f"{flag} is now called {OLD_FLAGS[flag]}" in capsys.readouterr().err


def test_a_file_of_an_earlier_version_is_read():
    old = {
        "looks": ["a", "b"], "propensity": ["x"], "class_attributes": ["y"], "visits": {"h": ["h1", "h2"]},
        "false_positives": 0.1, "own_propensities": True, "propensity_bounds": [0.1, 0.9], "positive": ["yes"],
        "model": "logistic", "weights": "w",
    }  # fmt: skip
    now = Settings(
        ("a", "b"), ("x",), ("y",), visit_attributes={"h": ("h1", "h2")}, false_positive_rate=0.1, shared=False,
        bounds=(0.1, 0.9), pos_label=("yes",), model="logistic", sample_weight="w",
    )  # fmt: skip
    assert Settings.from_dict(old) == now
    assert old.keys() - {"own_propensities", "model"} == OLD_KEYS.keys() - {"group"}
    assert Settings.from_dict({"label": "s", "propensity": ["x"], "group": "g"}).groups == "g"


ON_THE_COMMAND_LINE = {
    "columns": {"label": "s", "propensity_attributes": ("a b", "c"), "id": "i", "exclude": ("x", "y"), "level": 0.9},
    "looks": {
        "label": ("a", "b"), "scar": True, "shared": False, "false_positive_rate": (0.01, "estimate"), "audit": "c",
        "visit_attributes": {"h": ("h1", "h2"), "k": ("k1", "k2")}, "label_frequency": {"b": 0.8},
        "label_frequency_se": {"b": 0.05},
    },
    "values": {
        "label": "s", "scar": True, "pos_label": ("yes", "maybe"), "prevalence": 0.3, "prevalence_se": 0.02, "seed": 3,
        "bounds": (0.2, 1.0), "model": "logistic", "label_frequency": {"s": 0.5},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ON_THE_COMMAND_LINE)
def test_flags_of_settings_give_the_same_settings(name):
    settings = Settings(**ON_THE_COMMAND_LINE[name])
    options = cli.make_parser().parse_args(["fit", "patients.csv", *settings.to_flags()])
    assert Settings.from_dict(tables._given_settings(options)) == settings


# --- settings from Python objects


def test_python_objects_give_the_same_settings_as_plain_values():
    labelling = Labelling(visit_attributes={"h": ["h1", "h2"]}, shared=False, false_positive_rate=[0.0, 0.1])
    known = [ClassPrior(0.3, se=0.02), LabelFrequency(0.8, look=1), LabelFrequency(0.7, se=0.1)]
    columns = ColumnRoles(id="patient", sample_weight="w", exclude=["x"], number=["n"])
    made = Settings.of_call(
        label=["a", "b"], propensity_attributes=["v"], labelling=labelling, known=known, columns=columns, random_state=3
    )
    assert made == Settings(
        ("a", "b"), ("v",), visit_attributes={"h": ("h1", "h2")}, shared=False, false_positive_rate=(0.0, 0.1),
        prevalence=0.3, prevalence_se=0.02, label_frequency={"a": 0.7, "b": 0.8}, label_frequency_se={"a": 0.1},
        id="patient", sample_weight="w", exclude=("x",), number=("n",), seed=3,
    )  # fmt: skip


SLIPS = {
    "columns": (
        {"columns": {"id": "a"}},
        TypeError,
        r"columns must be a ColumnRoles object, for example ColumnRoles\(id='patient'\)",
    ),
    "labelling": (
        {"labelling": "keep"},
        TypeError,
        r"labelling must be a Labelling object, for example Labelling\(shared=False\)",
    ),
    "known": ({"known": 0.3}, TypeError, r"known must be a list, for example \[ClassPrior\(0.35, se=0.02\)\]; got 0.3"),
    "a group": (
        {"known": [ClassPrior(0.3, where={"x": 1})]},
        ValueError,
        "known may contain one ClassPrior of all rows",
    ),
    "another look": (
        {"known": [LabelFrequency(0.3, look=1)]},
        ValueError,
        "known may contain one ClassPrior of all rows",
    ),
    "offset": (
        {"labelling": Labelling(offset="x")},
        ValueError,
        "the offset of Labelling is not supported for raw tables",
    ),
    "seed": ({"random_state": "a"}, ValueError, "analyse: seed must be a whole number, got 'a'"),
}


@pytest.mark.parametrize("name", SLIPS)
def test_invalid_python_arguments_are_refused(name):
    options, kind, message = SLIPS[name]
    with pytest.raises(kind, match=message):
        analyse(pd.DataFrame({"s": [0, 1]}), "s", scar=True, **options)
