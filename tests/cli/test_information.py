"""`scarless fit` with audits, looks and known values: from a table of a hospital to a report."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from tests.analysis.conftest import HOURS, LOOKS, make_hospital

from scarless.cli import main
from scarless.outside.table_files import read_table

AUDITED = ["fit", "patients.csv", "--label", "diagnosed", "--propensity", "visits", "insurance", "--audit", "checked"]
AUDITED += ["--prevalence", "0.35", "--prevalence-se", "0.02", "--exclude", *LOOKS, *HOURS, "--id", "patient"]
LOOKED = [
    "fit",
    "patients.csv",
    "--looks",
    *LOOKS,
    "--visit-attributes",
    f"hours={','.join(HOURS)}",
    "--propensity",
    "visits",
]
LOOKED += ["insurance", "--audit", "checked", "--exclude", "diagnosed", "--id", "patient", "--model", "logistic"]


@pytest.fixture
def folder(empty_folder):
    return empty_folder


@pytest.fixture
def patients(folder):
    table, ill = make_hospital(1500)
    table.to_csv("patients.csv", index=False)
    return table, ill


@pytest.mark.usefixtures("reports")
def test_two_hundred_audits_and_a_known_prevalence(patients, folder, capsys):
    assert main([*AUDITED, "--out", "run", "--quiet"]) == 0
    told, facts = capsys.readouterr().out, json.loads((folder / "run" / "summary.json").read_text())
    low, high = facts["class_prior_interval"]
    assert low < patients[1].mean() < high
    assert high - low < 0.1
    assert "Note: Audits: 200 rows were audited" in told
    assert facts["audits"]["rows"] == 200
    assert facts["settings"]["prevalence"] == 0.35
    assert facts["settings"]["prevalence_se"] == 0.02
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "Do the audits agree with the model?" in page
    assert "Do the rows agree with the known values?" in page


@pytest.mark.usefixtures("reports")
def test_findings_entered_as_labels_and_audits_of_0_in_unaudited_rows(folder, capsys):
    table, ill = make_hospital(1500)
    checked = table["checked"]
    table["diagnosed"] = np.where(checked == "yes", "yes", table["diagnosed"])
    table["empty as no"] = np.where(table["diagnosed"] == "yes", checked, checked.fillna("no"))
    table.to_csv("patients.csv", index=False)
    plain = ["fit", "patients.csv", "--label", "diagnosed", "--propensity", "visits", "insurance", "--id", "patient"]
    plain += ["--model", "logistic", "--quiet"]
    options = [*plain, "--audit", "checked", "--exclude", *LOOKS, *HOURS, "empty as no"]
    assert main([*options, "--out", "keep"]) == 0
    assert "audited positives have a label" in capsys.readouterr().out
    assert "--audit-labels drop" in (folder / "keep" / "report.html").read_text(encoding="utf-8")
    assert main([*options, "--audit-labels", "drop", "--out", "drop"]) == 0
    assert "audited positives have a label" not in capsys.readouterr().out
    assert 'audit_labels = "drop"' in (folder / "drop" / "run.toml").read_text()
    priors = [json.loads((folder / name / "summary.json").read_text()) for name in ("keep", "drop")]
    assert priors[0]["class_prior_interval"][1] < ill.mean()
    assert priors[1]["class_prior_interval"][0] < ill.mean() < priors[1]["class_prior_interval"][1]
    assert main([*plain, "--audit", "empty as no", "--exclude", *LOOKS, *HOURS, "checked", "--out", "zeros"]) == 0
    assert "unlabelled rows have an audit" in capsys.readouterr().out
    assert "If 0 was filled in" in (folder / "zeros" / "report.html").read_text(encoding="utf-8")


def test_a_fit_to_three_looks_is_repeated_and_predicts(patients, folder, capsys):
    table, ill = patients
    assert main([*LOOKED, "--out", "run", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "Share of positives that got a label at each look: visit_1 " in told
    assert "take place, not that it gave no label." in told
    facts = json.loads((folder / "run" / "summary.json").read_text())
    low, high = facts["class_prior_interval"]
    assert low < ill.mean() < high
    assert main(["fit", "--config", "run/run.toml", "--out", "again", "--quiet"]) == 0
    for name in ("ranked.csv", "run.toml"):
        assert (folder / "run" / name).read_bytes() == (folder / "again" / name).read_bytes()
    assert main(["predict", "run", "patients.csv", "--out", "next.csv"]) == 0
    assert (folder / "next.csv").read_bytes() == (folder / "run" / "ranked.csv").read_bytes()
    ranked = read_table("next.csv").set_index("patient").loc[table["patient"]]
    checked = table["checked"].notna().to_numpy()
    np.testing.assert_array_equal(ranked["posterior"].to_numpy()[checked], ill[checked].astype(float))


def test_label_and_looks_replace_each_other_in_a_config(patients, folder, capsys):
    assert main([*LOOKED, "--out", "run", "--quiet"]) == 0
    options = ["--label", "diagnosed", "--exclude", *LOOKS, *HOURS, "--out", "one", "--quiet"]
    assert main(["fit", "--config", "run/run.toml", *options]) == 0
    settings = json.loads((folder / "one" / "summary.json").read_text())["settings"]
    assert "visit_attributes" not in settings
    assert settings["label"] == "diagnosed"
    assert settings["audit"] == "checked"
    options = ["--looks", *LOOKS, "--exclude", *HOURS, "diagnosed", "--out", "two", "--quiet"]
    assert main(["fit", "--config", "one/run.toml", *options]) == 0
    assert json.loads((folder / "two" / "summary.json").read_text())["settings"]["label"] == LOOKS


def test_a_seed_of_0_takes_precedence_over_the_config(folder, capsys):
    make_hospital(400)[0].to_csv("patients.csv", index=False)
    assert main([*LOOKED, "--out", "run", "--seed", "7", "--quiet"]) == 0
    assert main(["fit", "--config", "run/run.toml", "--seed", "0", "--out", "again", "--quiet"]) == 0
    assert json.loads((folder / "again" / "summary.json").read_text())["settings"]["seed"] == 0


def test_inspect_says_which_model_is_the_class(patients, capsys):
    assert (
        main(["inspect", "patients.csv", "--looks", *LOOKS, "--audit", "checked", "--exclude", *HOURS, "diagnosed"])
        == 0
    )
    told = capsys.readouterr().out
    last = told.splitlines()[-1]
    assert "which model is the class model. The class (model 1) depends on: 'age', " in last
    assert "--propensity" in last
    labelling = last.split("The labelling (model 2) depends on: ")[1].split(".")[0].split(", ")
    assert {"'visits'", "'insurance'"} <= set(labelling)
    assert any(line.split()[:2] == ["checked", "audit"] for line in told.splitlines())
    assert main(["inspect", "patients.csv"]) == 1
    assert "No label column is given." in capsys.readouterr().err


REFUSED = {
    "positive findings only": (
        lambda table: table.assign(checked=table["checked"].where(table["checked"] == "yes")), AUDITED,
        "no audited negative",
    ),
    "a label that a check refutes": (
        lambda table: table.assign(checked=table["checked"].where(table["diagnosed"].isna(), "no")), AUDITED,
        "--false-positive-rate estimate",
    ),
    "looks without a no": (
        lambda table: table.assign(**{name: table[name].where(table[name] == "yes") for name in LOOKS}), LOOKED,
        "It is not clear whether an empty cell means a look without a label",
    ),
    "a visit without hours": (
        lambda table: table.assign(hours_2=np.nan), LOOKED,
        "Column 'hours_2' (visit attribute 'hours') must have a value if its look took place. Rows without a value:",
    ),
    "hours in words": (
        lambda table: table.assign(hours_2="long"), LOOKED,
        "Column 'hours_2' (visit attribute 'hours') must hold numbers",
    ),
    "no such column": (lambda table: table, [*AUDITED, "--audit", "chequed"], "There is no column 'chequed' (--audit)"),
    "percent": (lambda table: table, [*AUDITED, "--prevalence", "35"], "must lie between 0 and 1; got 35"),
    "nothing": (lambda table: table, [*AUDITED, "--prevalence", "0"], "must lie between 0 and 1; got 0"),
    "often": (lambda table: table, [*AUDITED, "--false-positive-rate", "often"], "or 'estimate'; got 'often'"),
    "no visit": (lambda table: table, [*LOOKED, "--visit-attributes", "effort"], "effort_2,effort_3; got 'effort'"),
    "too many rates": (lambda table: table, [*LOOKED, "--false-positive-rate", "0", "0.1"], "has 2 rates, but"),
    "one propensity": (
        lambda table: table,
        ["fit", "patients.csv", "--looks", *LOOKS, "--scar", "--false-positive-rate", "0", "0.1", "0"],
        "--false-positive-rate differs between looks, but the looks share one propensity",
    ),
    "whose frequency": (
        lambda table: table, [*LOOKED, "--label-frequency", "0.8"],
        "--label-frequency visit_1=0.8 visit_2=0.8. Got 0.8",
    ),
    "no such look": (
        lambda table: table, [*LOOKED, "--label-frequency", "visit_9=0.8"],
        "--label-frequency names 'visit_9', which is not a label column",
    ),
    "words": (lambda table: table, [*AUDITED, "--label-frequency", "much"], "must be numbers, for example diagnosed=0"),
    "percents": (
        lambda table: table, [*AUDITED, "--label-frequency", "80"],
        "--label-frequency of 'diagnosed' is a share of positives and must lie between 0 and 1; got 80",
    ),
    "error alone": (
        lambda table: table, [*AUDITED, "--label-frequency-se", "0.1"],
        "--label-frequency-se of 'diagnosed' needs the label frequency. Add --label-frequency diagnosed=",
    ),
    "a wide error": (
        lambda table: table, [*AUDITED, "--label-frequency", "0.5", "--label-frequency-se", "0.5"],
        "must be at least 0 and below 0.5; got 0.5",
    ),
    "bounds": (
        lambda table: table, [*LOOKED, "--bounds", "0.9", "0.2"],
        "--bounds must be the lower and the upper bound of the propensity, for example 0.2 1; got 0.9 0.2",
    ),
    "bounds of a search": (
        lambda table: table, [*AUDITED, "--model", "search", "--bounds", "0.2", "1"],
        "--bounds needs --model logistic; got --model search",
    ),
    "seen twice": (lambda table: table, [*LOOKED, "--label", "diagnosed"], "--label and --looks cannot be combined"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_one_line(folder, capsys, name):
    change, arguments, message = REFUSED[name]
    change(make_hospital(400)[0]).to_csv("patients.csv", index=False)
    assert main([*arguments, "--out", "run", "--quiet"]) == 1
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert not (folder / "run").exists()


def _as_folder(folder, table, n_files=3):
    (folder / "claims").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(table)), n_files)):
        table.iloc[rows].to_parquet(f"claims/{number}.parquet", index=False, row_group_size=200)


def test_a_folder_of_files_gives_the_results_of_one_file(patients, folder, capsys):
    table, ill = patients
    _as_folder(folder, table)
    options = ["--looks", *LOOKS, "--audit", "checked", "--propensity", "visits", "insurance", "--model", "logistic"]
    options += ["--prevalence", "0.35", "--prevalence-se", "0.02", "--exclude", "diagnosed", *HOURS, "--id", "patient"]
    assert main(["fit", "claims", *options, "--out", "run", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert main(["fit", "patients.csv", *options, "--out", "one", "--quiet"]) == 0
    got, want = (json.loads((folder / name / "summary.json").read_text()) for name in ("run", "one"))
    # Columns with missing values are prepared differently in files, and in float32, so results differ slightly.
    for key in ("class_prior", "label_frequency"):
        np.testing.assert_allclose(got[key], want[key], atol=2e-3)
        np.testing.assert_allclose(got[f"{key}_interval"], want[f"{key}_interval"], atol=4e-3)
    assert got["missing_positives"] == pytest.approx(want["missing_positives"], rel=0.02)
    assert got["audits"] == want["audits"]
    for one, other in zip(got["looks"], want["looks"], strict=True):
        assert [one[key] for key in ("column", "took_place", "labels")] == [
            other[key] for key in ("column", "took_place", "labels")
        ]
        assert one["label_frequency"] == pytest.approx(other["label_frequency"], abs=5e-3)
    assert [note for note in got["notes"] if "Rows examined at each look" in note] == [
        note for note in want["notes"] if "Rows examined at each look" in note
    ]
    assert "Note: Audits: 200 rows were audited" in told
    scored = pd.read_parquet(folder / "run" / "scored").set_index("patient")
    ranked = read_table("one/ranked.csv").set_index("patient").loc[scored.index]
    for name in ("probability", "propensity", "posterior"):
        np.testing.assert_allclose(scored[name], ranked[name], atol=0.03)
    checked = table["checked"].notna().to_numpy()
    np.testing.assert_array_equal(scored.loc[table["patient"], "posterior"].to_numpy()[checked], ill[checked])
    assert main(["predict", "run", "claims", "--out", "run/scored"]) == 0
    assert "0 written by this command" in capsys.readouterr().out
    assert main(["fit", "--config", "run/run.toml", "--out", "again", "--quiet"]) == 0
    assert pd.read_parquet(folder / "again" / "scored").set_index("patient")["posterior"].equals(scored["posterior"])


def test_options_that_a_folder_of_files_does_not_support_are_refused(folder, capsys):
    table = make_hospital(300)[0]
    _as_folder(folder, table.assign(**{name: table[name].fillna("") for name in LOOKS}))
    arguments = ["claims" if each == "patients.csv" else each for each in LOOKED]
    assert main([*arguments, "--out", "run", "--quiet"]) == 1
    assert "--visit-attributes needs all rows in memory" in capsys.readouterr().err
    options = ["--propensity", "visits", "--model", "logistic", "--exclude", "diagnosed", *HOURS]
    assert main(["fit", "claims", "--looks", *LOOKS, *options, "--out", "run", "--quiet"]) == 1
    assert (
        "must have two values, and missing values for looks that did not take place. These columns have 3 values"
        in capsys.readouterr().err
    )
    bits = [(table[name] == "yes").astype(int) for name in LOOKS]
    for name, values in zip(LOOKS, bits, strict=True):
        table[name] = values
    (folder / "bits").mkdir()
    table.to_parquet("bits/a.parquet", index=False)
    arguments = ["fit", "bits", "--looks", *LOOKS, *options, "--audit", "checked", "--out", "run", "--quiet"]
    assert main(arguments) == 1
    assert "audits must be 1 and 0, or have the values of the labels (0, 1); 'checked' has" in capsys.readouterr().err


def test_inspect_reads_the_looks_of_a_folder(folder, capsys):
    _as_folder(folder, make_hospital(600)[0])
    assert main(["inspect", "claims", "--looks", *LOOKS, "--audit", "checked"]) == 0
    assert "Rows examined at each look, of 600 rows: 'visit_1'" in capsys.readouterr().out


def _facts(folder, name):
    return json.loads((folder / name / "summary.json").read_text())


def test_a_known_label_frequency_of_a_look_is_used_and_repeated(patients, folder, capsys):
    options = ["--label-frequency", "visit_2=0.6", "visit_1=0.3", "--label-frequency-se", "visit_1=0.05"]
    assert main([*LOOKED, *options, "--out", "run", "--quiet"]) == 0
    assert "The label frequency of 'visit_2' is treated as exact" in capsys.readouterr().out
    facts = _facts(folder, "run")
    assert facts["settings"]["label_frequency"] == {"visit_2": 0.6, "visit_1": 0.3}
    assert facts["settings"]["label_frequency_se"] == {"visit_1": 0.05}
    assert facts["looks"][1]["label_frequency"] == pytest.approx(0.6, abs=1e-6)
    assert main(["fit", "--config", "run/run.toml", "--out", "again", "--quiet"]) == 0
    assert (folder / "run" / "ranked.csv").read_bytes() == (folder / "again" / "ranked.csv").read_bytes()
    both = ["--label-frequency", "visit_2=0.6", "visit_1=0.3", "--label-frequency-se", "0.04"]
    assert main(["fit", "--config", "run/run.toml", *both, "--out", "both", "--quiet"]) == 0
    assert _facts(folder, "both")["settings"]["label_frequency_se"] == {"visit_2": 0.04, "visit_1": 0.04}


def test_a_known_label_frequency_of_the_only_look_is_used(patients, folder, capsys):
    options = ["--model", "logistic", "--label-frequency", "0.45", "--label-frequency-se", "0.02"]
    assert main([*AUDITED, *options, "--out", "run", "--quiet"]) == 0
    facts = _facts(folder, "run")
    assert facts["settings"]["label_frequency"] == {"diagnosed": 0.45}
    assert facts["label_frequency"] == pytest.approx(0.45, abs=0.06)
    other = ["--label", "smoker", "--exclude", "diagnosed", *LOOKS, *HOURS, "--out", "other", "--quiet"]
    run = (folder / "run" / "run.toml").read_text(encoding="utf-8")
    (folder / "run" / "no-audit.toml").write_text(re.sub("(?m)^audit = .*\n", "", run), encoding="utf-8")
    assert main(["fit", "--config", "run/no-audit.toml", *other]) == 0
    assert "label_frequency" not in _facts(folder, "other")["settings"]


@pytest.mark.usefixtures("reports")
def test_false_positive_rates_can_differ_between_looks(patients, folder, capsys):
    rates = ["--not-shared", "--false-positive-rate", "0.01", "estimate", "0"]
    assert main([*LOOKED, *rates, "--out", "run", "--quiet"]) == 0
    facts = _facts(folder, "run")
    assert facts["settings"]["false_positive_rate"] == [0.01, "estimate", 0.0]
    assert [each["is"] for each in facts["false_positive_rates"]] == ["given", "estimated", "given"]
    values = [each["value"] for each in facts["false_positive_rates"]]
    assert values[0] == pytest.approx(0.01)
    assert values[2] < 1e-6
    low, high = facts["false_positive_rates"][1]["interval"]
    assert low < values[1] < high
    assert "rates with an interval are estimated, the others were given" in (folder / "run" / "report.html").read_text(
        encoding="utf-8"
    )
    assert main(["fit", "--config", "run/run.toml", "--out", "again", "--quiet"]) == 0
    assert (folder / "run" / "ranked.csv").read_bytes() == (folder / "again" / "ranked.csv").read_bytes()


def test_propensities_respect_their_bounds(patients, folder, capsys):
    assert main([*AUDITED, "--model", "logistic", "--bounds", "0.2", "0.6", "--out", "run", "--quiet"]) == 0
    ranked = read_table("run/ranked.csv")
    assert 0.2 <= ranked["propensity"].min() <= ranked["propensity"].max() <= 0.6
    assert _facts(folder, "run")["settings"]["bounds"] == [0.2, 0.6]
    assert main(["fit", "--config", "run/run.toml", "--out", "again", "--quiet"]) == 0
    assert (folder / "run" / "ranked.csv").read_bytes() == (folder / "again" / "ranked.csv").read_bytes()
