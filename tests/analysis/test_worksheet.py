"""Worksheets: rows to check, their answers, and what the answers change."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import openpyxl
import pandas as pd
import pytest
from benchmarks.worksheets import play
from pyarrow import parquet
from scipy.special import expit, logit
from tests.analysis.conftest import make_patients
from tests.models.test_heterogeneity import simulate

from scarless.analysis import Analysis, Settings, analyse_table, draw_worksheet
from scarless.analysis.audit_history import (
    ANSWERS,
    AUDITS,
    AuditHistory,
    DrawnSheet,
    read_history,
    refuse_lost_worksheets,
    row_names,
    with_answers,
)
from scarless.analysis.worksheet import StoredFit, _difference, _expectations, _rounds, worksheet_of
from scarless.cli import main
from scarless.cli.tables import _history
from scarless.diagnostics.audits.changes import AuditChanges, Round, compare_with_posteriors
from scarless.outside.table_files import read_table, write_table

FIT = ["--label", "diagnosed", "--propensity", "visits", "insurance", "--model", "logistic", "--quiet"]
FIT += ["--exclude", "known", "weight", "last_visit"]
N = 700
REPORT = Analysis.report


def no_report(*_, **__):
    """Replace `Analysis.report` in most tests, because the report takes most of the time of a fit."""
    return SimpleNamespace(save=lambda path: path.write_text(""))


def truth():
    """Return a made-up class of each patient: certain for labelled rows, by age for the others."""
    table = make_patients(N)
    return dict(zip(table["patient"], (table["diagnosed"] == "yes") | (table["age"] > 62), strict=True))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return a folder with a file and the results of a fit. Tests must not write into it."""
    place = tmp_path_factory.mktemp("worksheets")
    make_patients(N).to_csv(place / "patients.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Analysis, "report", no_report)
        assert main(["fit", str(place / "patients.csv"), *FIT, "--id", "patient", "--out", str(place / "run")]) == 0
    return place


@pytest.fixture
def folder(fitted, tmp_path, monkeypatch):
    """Return a copy of the results, which tests may change."""
    shutil.copytree(fitted / "run", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Analysis, "report", no_report)
    return tmp_path


def answered(path, out=None, **changes):
    """Fill in a worksheet, after `changes` of whole columns."""
    table, classes = read_table(path), truth()
    table["checked"] = ["yes" if classes[each] else "no" for each in table["patient"]]
    for name, values in changes.items():
        table[name] = values
    write_table(table, out or path)
    return table


@pytest.fixture(scope="module")
def first_sheet(fitted):
    """Return a worksheet of 30 rows that is not saved."""
    return draw_worksheet(fitted / "run", 30)


@pytest.fixture
def sheet(folder, first_sheet):
    """Return the file of a worksheet of 30 rows, with answers."""
    replace(first_sheet, folder=folder / "run").save("sheet.csv")
    answered("sheet.csv")
    return "sheet.csv"


@pytest.fixture(scope="module")
def checked_run(fitted, first_sheet, tmp_path_factory):
    """Return a folder with results of a fit with the answers of `first_sheet`, in next. Tests must not change it."""
    place = tmp_path_factory.mktemp("checked")
    shutil.copytree(fitted / "run", place / "run")
    replace(first_sheet, folder=place / "run").save(place / "sheet.csv")
    answered(place / "sheet.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Analysis, "report", no_report)
        patch.chdir(place)
        assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    return place


# --- the worksheet


def test_a_worksheet_has_the_columns_that_a_person_needs_and_only_answers_can_be_edited(folder, capsys):
    assert main(["audit", "run", "--n", "12", "--out", "sheet.xlsx"]) == 0
    told = capsys.readouterr().out
    assert "12 of 5" in told or "12 of 6" in told
    assert "After these checks, expect about" in told
    assert told.endswith(
        "Then run: scarless fit --config run/run.toml --audit sheet.xlsx --out run-checked\nWorksheet: sheet.xlsx\n"
    )
    sheet = openpyxl.load_workbook("sheet.xlsx").active
    names = [cell.value for cell in sheet[1]]
    assert names[:2] == ["patient", "checked"]
    assert names[-2:] == ["inclusion_probability", "worksheet"]
    assert {"age", "visits", "insurance", "smoker", "last_visit", "known"} <= set(names)
    assert not {"diagnosed", "posterior", "probability"} & set(names)
    assert sheet.protection.sheet
    locked = [[cell.protection.locked for cell in row] for row in sheet.iter_rows(min_row=2)]
    assert all(row == [name != "checked" for name in names] for row in locked)
    assert sheet.data_validations.dataValidation[0].formula1 == '"yes,no,unsure"'
    assert all(cell.value is None for cell in sheet["B"][1:])


def test_the_same_seed_draws_the_same_rows(folder):
    fit = StoredFit.of(folder / "run")
    first, again, other = (worksheet_of(fit, 20, folder, random_state=seed) for seed in (3, 3, 4))
    pd.testing.assert_frame_equal(first.table, again.table)
    assert set(first.table["patient"]) != set(other.table["patient"])
    assert first.key == again.key != other.key


def test_a_second_worksheet_never_repeats_a_row(folder):
    """Nor does the fourth. The probabilities of all rows add up to the number of rows that were asked for so far."""
    seen = set()
    for number, purpose in enumerate(("prior", "find", "both", "prior"), start=1):
        drawn = draw_worksheet("run", 30, purpose=purpose)
        drawn.save(f"{number}.csv")
        rows = set(drawn.table["patient"])
        assert len(rows) == 30
        assert not rows & seen
        seen |= rows
        if purpose != "find":  # Rows that rank at least as high as the chosen rows have the probability 1 too.
            assert read_history(folder / "run").probability.sum() == pytest.approx(30 * number, rel=0.02)
    assert read_history(folder / "run").asked.sum() == 120


def test_no_labelled_row_is_asked_for(first_sheet):
    table = make_patients(N).set_index("patient")
    assert table.loc[first_sheet.table["patient"], "diagnosed"].isna().all()


def test_find_takes_the_rows_that_rank_highest(folder):
    ranked = read_table("run/ranked.csv").sort_values("rank")
    drawn = draw_worksheet("run", 25, purpose="find")
    assert drawn.table["patient"].tolist() == ranked["patient"][:25].tolist()
    assert (drawn.table["inclusion_probability"] == 1).all()
    assert "not a random sample" in str(drawn)


def test_both_splits_the_rows(folder):
    drawn = draw_worksheet("run", 25, purpose="both")
    ranked = read_table("run/ranked.csv").sort_values("rank")
    assert set(ranked["patient"][:12]) <= set(drawn.table["patient"])
    assert (drawn.table["inclusion_probability"] == 1).sum() == 12
    assert str(drawn).startswith(
        "12 rows are the rows that rank highest. 13 rows are drawn for the share of positives."
    )


def test_each_stratum_gets_rows(folder):
    """With 30 rows and three groups, each group gets at least 5."""
    drawn = draw_worksheet("run", 30, strata="insurance")
    assert (drawn.table["insurance"].value_counts() >= 5).all()
    assert drawn.table["insurance"].nunique() == 3


def test_probabilities_add_up_to_the_number_of_rows(first_sheet):
    history = first_sheet.history
    assert history.probability.sum() == pytest.approx(30)
    assert (history.probability[history.asked] > 0).all()
    assert np.ptp(history.probability[history.asked]) > 0


def test_without_an_id_rows_are_named_by_their_number(folder, fitted):
    assert main(["fit", str(fitted / "patients.csv"), *FIT, "--exclude", "known", "weight", "last_visit", "patient",
                 "--out", "nameless"]) == 0  # fmt: skip
    draw_worksheet("nameless", 20).save("sheet.csv")
    sheet, table = read_table("sheet.csv"), make_patients(N)
    assert sheet["patient"].tolist() == table["patient"][sheet["row"] - 1].tolist()
    sheet["checked"] = ["no"] * 10 + ["yes"] * 10
    write_table(sheet, "sheet.csv")
    assert main(["fit", "--config", "nameless/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    audit = read_history(folder / "next").audit
    assert (audit[sheet["row"] - 1] == (sheet["checked"] == "yes")).all()


# --- back again


def test_answers_come_back_and_change_the_estimate(folder, capsys, monkeypatch):
    monkeypatch.setattr(Analysis, "report", REPORT)
    main(["audit", "run", "--n", "40", "--out", "sheet.xlsx"])
    answered("sheet.xlsx")
    capsys.readouterr()
    assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.xlsx", "--out", "next", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "Before the checks, the estimated share of positives was " in told
    assert "An estimate that is valid even if the models are wrong: " in told
    assert "40 more checks would shorten the interval from " in told
    assert "Note: Worksheet sheet.xlsx: " in told
    summary = json.loads((folder / "next" / "summary.json").read_text())
    before = json.loads((folder / "run" / "summary.json").read_text())
    first, last = summary["worksheets"]["rounds"]
    assert [first["value"], first["low"], first["high"]] == [before["class_prior"], *before["class_prior_interval"]]
    assert [last["value"], last["low"], last["high"]] == [summary["class_prior"], *summary["class_prior_interval"]]
    assert (first["n_audited"], last["n_audited"]) == (0, 40)
    page = (folder / "next" / "report.html").read_text()
    assert "<h2>What did the checks change?</h2>" in page
    # The fit is the fit to the same audits in a column.
    table, history = make_patients(N), read_history(folder / "next")
    by_hand = table.assign(seen=np.where(history.answered, history.answer, None))
    same = analyse_table(by_hand, Settings("diagnosed", ("visits", "insurance"), model="logistic", audit="seen",
                                           id="patient", exclude=("known", "weight", "last_visit")))  # fmt: skip
    assert summary["class_prior"] == pytest.approx(float(same.model.class_prior_), abs=1e-9)


def test_run_toml_repeats_a_fit_with_its_answers(folder, checked_run):
    assert main(["fit", "--config", str(checked_run / "next" / "run.toml"), "--out", "again", "--quiet"]) == 0
    for name in ("ranked.csv", "run.toml"):
        assert (checked_run / "next" / name).read_text() == (folder / "again" / name).read_text()
    assert (checked_run / "next" / AUDITS).read_bytes() == (folder / "again" / AUDITS).read_bytes()


def test_earlier_worksheets_are_kept(folder, checked_run):
    shutil.copytree(checked_run / "next", folder / "next")
    draw_worksheet("next", 30).save("two.csv")
    answered("two.csv")
    assert main(["fit", "--config", "next/run.toml", "--audit", "two.csv", "--out", "last", "--quiet"]) == 0
    history = read_history(folder / "last")
    assert history.answered.sum() == 60
    assert len(history.sheets) == 2
    rounds = json.loads((folder / "last" / "summary.json").read_text())["worksheets"]["rounds"]
    assert [each["n_audited"] for each in rounds] == [0, 30, 60]


def test_audits_of_a_column_are_kept(folder, fitted):
    """The audits of the table count as a random sample that was checked before the first worksheet."""
    table, classes = make_patients(N), truth()
    table["seen"] = np.where(np.arange(N) < 60, np.where(table["patient"].map(classes), "yes", "no"), None)
    table.to_csv("own.csv", index=False)
    assert main(["fit", "own.csv", *FIT, "--id", "patient", "--audit", "seen", "--out", "own"]) == 0
    draw_worksheet("own", 30).save("sheet.csv")
    assert not set(read_table("sheet.csv")["patient"]) & set(table["patient"][:60])
    answered("sheet.csv")
    assert main(["fit", "--config", "own/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    summary = json.loads((folder / "next" / "summary.json").read_text())
    assert summary["audits"]["rows"] == 90
    assert "seen" in summary["settings"]["exclude"]
    assert summary["worksheets"]["checked"] == 30


def test_unsure_rows_are_not_audited(folder, sheet, capsys):
    table = read_table(sheet)
    checked = table["checked"].tolist()
    checked[:4] = ["unsure", "?", "Not sure", None]
    write_table(table.assign(checked=checked), "sheet.csv")
    capsys.readouterr()
    assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "3 are unsure and 1 has no answer." in told
    assert "Rows without a clear answer are treated as not checked." in told
    assert read_history(folder / "next").answered.sum() == 26


def test_a_worksheet_may_come_back_twice(sheet, first_sheet):
    """First some of the answers, then all; changed answers are counted."""
    table = read_table(sheet)
    half = table.assign(checked=[*table["checked"][:10], *[None] * 20])
    half.loc[0, "checked"], half.loc[1, "checked"] = "no", "yes"
    history, _ = first_sheet.history.with_answers(half, "half.csv")
    assert history.answered.sum() == 10
    history, notes = history.with_answers(table, "all.csv")
    assert history.answered.sum() == 30
    changed = int(half.loc[0, "checked"] != table.loc[0, "checked"]) + int(
        half.loc[1, "checked"] != table["checked"][1]
    )
    assert any(note.startswith(f"{changed} answer") for note in notes) == bool(changed)


def test_rows_that_were_chosen_by_rank_give_no_estimate_without_the_models(folder, capsys):
    draw_worksheet("run", 30, purpose="find").save("sheet.csv")
    answered("sheet.csv")
    capsys.readouterr()
    assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    assert "Almost all checked rows were chosen by their rank" in capsys.readouterr().out


def test_all_checked_rows_may_be_positive(folder, sheet):
    answered("sheet.csv", checked="yes")
    assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    assert read_history(folder / "next").audit[read_history(folder / "next").asked].sum() == 30


def test_new_rows_are_matched_by_id(folder, sheet, capsys):
    table = make_patients(N)
    new = make_patients(40, seed=9).assign(patient=[f"N{i}" for i in range(40)])
    pd.concat([new, table.sample(frac=1, random_state=0)]).to_csv("later.csv", index=False)
    capsys.readouterr()
    command = ["fit", "later.csv", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "40 rows are new, and 0 are gone. The answers were matched by 'patient'." in told
    assert "so there is no estimate that is valid even if the models are wrong" in told
    history, classes = read_history(folder / "next"), truth()
    assert all((history.audit[i] == 1) == classes[history.names[i]] for i in np.flatnonzero(history.answered))


def test_find_takes_unlabelled_rows_even_if_labels_may_be_wrong(folder):
    fit = StoredFit.of(folder / "run")
    doubtful = replace(fit, settings=replace(fit.settings, false_positive_rate="0.1"))
    assert doubtful.settings.may_be_wrong
    rows = worksheet_of(doubtful, 20, folder, purpose="find").table["patient"]
    assert make_patients(N).set_index("patient").loc[rows, "diagnosed"].isna().all()
    with pytest.raises(ValueError, match="There are 546 unlabelled rows that can be asked for, but 600 are wanted"):
        worksheet_of(doubtful, 600, folder, purpose="find")
    asked = replace(fit.begin_history(), sheet=np.ones(N, dtype=int))
    with pytest.raises(ValueError, match="No rows are left to check"):
        worksheet_of(replace(fit, history=asked), 1, folder)


def test_a_worksheet_of_all_rows_says_so(folder):
    drawn = worksheet_of(StoredFit.of(folder / "run"), 546, folder)
    assert str(drawn).startswith("The worksheet has every row that can be checked.")


def test_new_rows_can_be_drawn_while_a_worksheet_is_open(folder, sheet, capsys):
    """The record of the open worksheet is matched to the new file, and new rows can be asked for."""
    new = make_patients(40, seed=9).assign(patient=[f"N{i}" for i in range(40)])
    pd.concat([new, make_patients(N)]).to_csv("later.csv", index=False)
    assert main(["fit", "later.csv", "--config", "run/run.toml", "--out", "next", "--quiet"]) == 0
    assert "40 rows are new, and 0 are gone." in capsys.readouterr().out
    drawn = draw_worksheet("next", 100)
    history = drawn.history
    assert np.isfinite(history.posterior).all()
    unlabelled = new["diagnosed"].isna().to_numpy()
    assert (history.probability[:40][unlabelled] > 0).all()
    assert not set(drawn.table["patient"]) & set(read_table(sheet)["patient"])
    # Only the open worksheet could ask for new rows, so the answers of the first say nothing about them.
    first = read_table(sheet)
    history, _ = history.with_answers(first, "sheet.csv")
    size = len(history.names)
    found = SimpleNamespace(
        subject=SimpleNamespace(codes=np.zeros((size, 1)), weight=np.ones(size)), settings=SimpleNamespace(level=0.95)
    )
    assert "Only a worksheet that has no answers yet" in _difference(found, history)[1]


def test_worksheets_without_ids_and_answers_do_not_block_another_file(first_sheet):
    nameless = replace(first_sheet.history, id="")
    assert nameless.is_for_another_file("other")
    assert not nameless.is_for_another_file(nameless.source)
    assert not first_sheet.history.is_for_another_file("other")


def test_all_answers_may_be_unsure(folder, sheet, capsys):
    answered("sheet.csv", checked="unsure")
    capsys.readouterr()
    assert main(["fit", "--config", "run", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    assert "Worksheet sheet.csv: 0 rows are positive and 0 negative, 30 are unsure" in capsys.readouterr().out
    assert (read_history(folder / "next").answer == "unsure").sum() == 30


def drawn_from(names, rows=None):
    """Return a history with one worksheet, which asked for some rows, and the worksheet."""
    rows = np.arange(len(names)) if rows is None else np.asarray(rows)
    began = AuditHistory.begin(np.array(names, dtype=object), "patient", "", np.full(len(names), 0.5))
    sheet = DrawnSheet(1, "key-1", len(rows), "prior", "random", "", 0, None, None, None)
    history = began.with_sheet(sheet, rows, np.full(len(names), 0.5), began.posterior)
    shown = pd.DataFrame({"patient": np.array(names, dtype=object)[rows], "checked": "no"})
    return history, shown.assign(inclusion_probability=0.5, worksheet="key-1")


IDS = [
    pytest.param(["=1+1", "-3a", "@x", "+49170", "'y", "z"], None, id="formulas"),
    pytest.param(["E11.9", "12.10", "7.0", "1E3"], [1, 2, 3], id="texts that look like numbers"),
    pytest.param(["007", "1", "0.50"], None, id="zeros"),
    pytest.param([" a b", "Müller–3", 'x"y,z;'], None, id="unusual letters"),
]


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
@pytest.mark.parametrize(("names", "rows"), IDS)
def test_ids_are_the_same_after_a_spreadsheet(tmp_path, names, rows, suffix):
    names = [each.strip() for each in names]
    history, shown = drawn_from(names, rows)
    write_table(shown, tmp_path / f"sheet.{suffix}")
    found, _ = history.with_answers(read_table(tmp_path / f"sheet.{suffix}"), "sheet")
    assert (found.answer == "no").tolist() == history.asked.tolist()


def test_the_name_of_the_id_column_may_look_like_a_formula(tmp_path):
    history, shown = drawn_from(["a", "b"])
    write_table(shown.rename(columns={"patient": "=id"}), tmp_path / "sheet.csv")
    found, _ = replace(history, id="=id").with_answers(read_table(tmp_path / "sheet.csv"), "sheet")
    assert found.answered.all()


def test_ids_that_are_numbers_keep_their_digits():
    names = row_names(pd.DataFrame({"id": [1234567.25, 1234567.5, 3.0]}), "id")
    assert names.tolist() == ["1234567.25", "1234567.5", "3"]


def test_a_worksheet_may_be_saved_by_excel_as_text(folder, sheet, capsys):
    """A German Excel writes semicolons, decimal commas and the encoding cp1252; another writes UTF-16 and tabs."""
    table = read_table(sheet).assign(note="für später")
    table.to_csv("german.csv", sep=";", decimal=",", index=False, encoding="cp1252")
    table.to_csv("tabs.txt", sep="\t", index=False, encoding="utf-16")
    with pd.ExcelWriter("second.xlsx") as book:
        pd.DataFrame({"remark": ["none"]}).to_excel(book, sheet_name="remarks", index=False)
        table.to_excel(book, sheet_name="worksheet", index=False)
    table.to_excel("renamed.xlsx", sheet_name="Tabelle1", index=False)
    for name in ("german.csv", "tabs.txt", "second.xlsx", "renamed.xlsx"):
        options = SimpleNamespace(config=folder / "run" / "run.toml", audit=name)
        history, notes = _history(options)
        assert history.answered.sum() == 30
        assert notes[0].startswith(f"Worksheet {name}")


# --- the probability of an answer


def two_sheets(first, second, answers):
    """Return a history with two worksheets, which have two rows each of six; row 5 has a label."""
    history = AuditHistory.begin(np.array(list("abcdef"), dtype=object), "id", "", np.full(6, 0.5))
    for number, chance in enumerate((first, second), start=1):
        sheet = DrawnSheet(number, f"k-{number}", 2, "prior", "random", "", 0, 0.5, 0.4, 0.6, n_answered=number)
        history = history.with_sheet(sheet, np.arange(2 * number - 2, 2 * number), np.array(chance), history.posterior)
    return replace(history, answer=np.array(answers, dtype=object))


def test_the_probability_of_an_answer_leaves_out_worksheets_without_answers():
    first, second = [0.2, 0.2, 0.4, 0.4, 0.8, 0.0], [0.5, 0.6, 0.7, 0.8, 0.9, 0.0]
    both = two_sheets(first, second, ["yes", "no", "yes", "no", "", ""])
    np.testing.assert_allclose(both.probability_of_answer, second)
    one = two_sheets(first, second, ["", "", "yes", "no", "", ""])
    np.testing.assert_allclose(one.probability_of_answer, np.subtract(second, first))
    half = two_sheets(first, second, ["yes", "unsure", "yes", "no", "", ""])
    np.testing.assert_allclose(half.probability_of_answer, np.subtract(second, np.multiply(0.5, first)))


def test_the_number_of_checked_rows_of_a_round_is_that_of_its_fit():
    """Answers that came after a worksheet was drawn do not belong to the fit that drew it."""
    history = two_sheets([0.2] * 6, [0.4] * 6, ["yes", "no", "yes", "no", "", ""])
    found = SimpleNamespace(_fitted=lambda: {"class_prior": 0.3, "class_prior_interval": (0.2, 0.4)})
    assert [each.n_audited for each in _rounds(found, history)] == [1, 4]


def test_no_estimate_without_the_models_if_rows_could_not_be_answered():
    n = 40
    found = SimpleNamespace(
        subject=SimpleNamespace(codes=np.zeros((n, 1)), weight=np.ones(n)), settings=SimpleNamespace(level=0.95)
    )
    began = AuditHistory.begin(np.arange(n).astype(str).astype(object), "id", "", np.full(n, 0.3))
    top, chance = np.arange(5), np.r_[np.ones(5), np.zeros(n - 5)]
    find = began.with_sheet(DrawnSheet(1, "a", 5, "find", "rank", "", 0, 0.3, 0.2, 0.4), top, chance, began.posterior)
    rest = np.r_[np.ones(5), np.full(n - 5, 20 / 35)]
    prior = DrawnSheet(2, "b", 20, "prior", "random", "", 0, 0.3, 0.2, 0.4)
    history = find.with_sheet(prior, np.arange(5, 25), rest, began.posterior)
    answer = np.array([""] * 5 + ["yes", "no"] * 10 + [""] * 15, dtype=object)
    value, why = _difference(found, replace(history, answer=answer))
    assert value is None
    assert "Only a worksheet that has no answers yet could ask for some rows" in why
    answer[:5] = "yes"
    value, _ = _difference(found, replace(history, answer=answer))
    # Exact: the five rows count 1 each, and the twenty rows 35/20 each.
    assert value.value == pytest.approx((5 + 35 * 0.5) / 40)
    # Rows of a random worksheet whose probability is 1 are not "chosen by rank".
    census = began.with_sheet(replace(prior, number=1), np.arange(n), np.ones(n), began.posterior)
    value, _ = _difference(found, replace(census, answer=np.array(["yes", "no"] * 20, dtype=object)))
    assert value.value == pytest.approx(0.5)
    few = replace(census, answer=np.array(["yes", "no"] * 4 + [""] * 32, dtype=object))
    assert _difference(found, few) == (None, "8 checked rows were drawn at random. An estimate that is valid even if "
                                             "the models are wrong needs at least 10.")  # fmt: skip


def test_the_width_without_the_models_is_not_promised_by_models_that_say_little():
    """If the posteriors are no guide, the class of a row has at most the variance 1/4."""
    n, rows = 400, 100
    plan = SimpleNamespace(labels_are_certain=True, design="random", n_open=n, level=0.95, far_off=True,
                           probability=np.full(n, rows / n), width_at=lambda *_, **__: 0.01)  # fmt: skip
    width = 2 * 1.959964 * 0.5 * np.sqrt((1 - rows / n) / rows)
    assert _expectations(plan, rows)[-1].endswith(f"expect an interval of up to {100 * width:.1f} percentage points.")


# --- sentences


def test_sentences_about_one_row_are_in_the_singular():
    history = two_sheets([0.2] * 6, [0.4] * 6, ["yes", "", "", "", "", ""])
    notes = history._notes(1, 1, "s.csv")
    assert notes[0] == "Worksheet s.csv: 1 row is positive and 0 negative, 0 are unsure and 1 has no answer."
    assert notes[2].startswith("1 answer differs from earlier answers")
    assert notes[3].startswith("Worksheet k-2 (2 rows) has no answers yet.")
    one = compare_with_posteriors(np.ones(1), np.array([0.5]))
    rounds = (Round(0, 0.4, 0.3, 0.5), Round(1, 0.4, 0.3, 0.5))
    lines = AuditChanges(rounds, one, None, "None.", 1, 0.19, 0.95).sentences()
    assert lines[0].endswith("With 1 checked row, it is 40.0% (30.0 to 50.0%).")
    assert lines[1] == "1 of 1 checked row is positive, and the model expected 0.5 before the checks."
    assert lines[3].startswith("1 more check would shorten the interval from 20.0 to about 19.0")


def test_advice_after_a_contradiction_can_be_followed():
    """If there is no estimate without the models, no sentence says to rely on it; and checks do not widen intervals."""
    rounds = (Round(0, 0.4, 0.3, 0.5), Round(60, 0.4, 0.35, 0.45))
    wrong = compare_with_posteriors(np.ones(60), np.full(60, 0.2))._replace(p_value=0.001)
    changes = AuditChanges(rounds, wrong, None, "None.", 50, 0.099, 0.95)
    assert "check rows that are drawn at random" in changes.sentences()[1]
    assert not any("hardly worth" in line or "Rely on the estimate" in line for line in changes.sentences())
    assert len(replace(changes, width_after=0.2).sentences()) == 3


def test_checks_leave_a_doubt_that_they_do_not_refute():
    """Agreeing checks neither end a doubt of the fit, nor an estimate without the models that excludes the fit."""
    rounds = (Round(0, 0.16, 0.15, 0.17), Round(50, 0.16, 0.15, 0.175))
    agreeing = compare_with_posteriors(np.ones(0), np.ones(0))
    worth = AuditChanges(rounds, agreeing, None, "None.", 50, 0.024, 0.95)
    assert "More checks are hardly worth it." in worth.sentences()[-1]
    doubted = replace(worth, fit_is_doubted=True)
    assert doubted.leaves_doubt
    assert "still warns that its estimate is not reliable" in " ".join(doubted.sentences())
    assert "hardly worth" not in " ".join(doubted.sentences())
    difference = SimpleNamespace(value=0.199, interval=(0.165, 0.29))  # overlaps the interval of the fit
    outside = replace(worth, difference=difference)
    assert outside.leaves_doubt
    assert "It contradicts the estimate of the models." in " ".join(outside.sentences())
    assert "hardly worth" not in " ".join(outside.sentences())
    assert not replace(worth, difference=SimpleNamespace(value=0.199, interval=(0.14, 0.29))).leaves_doubt


def test_checks_do_not_remove_the_doubt_about_rows_that_differ(tmp_path, monkeypatch, capsys):
    """Three looks at rows that differ in how easily they are seen: the doubt is there before and after 50 checks."""
    X, s, y = simulate(1, 3, n=3000)
    table = pd.DataFrame(X, columns=["wood", "height", "wind"]).assign(site=np.arange(3000).astype(str))
    looks = [f"visit{k}" for k in range(3)]
    table[looks] = s
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Analysis, "report", no_report)
    table.to_csv("birds.csv", index=False)
    options = ["--propensity", "wind", "--id", "site", "--model", "logistic", "--false-positive-rate", "estimate"]
    assert main(["fit", "birds.csv", "--looks", *looks, *options, "--quiet", "--out", "run"]) == 0
    assert "Rows differ in how easily they are seen" in capsys.readouterr().out
    assert main(["audit", "run", "--n", "50", "--purpose", "prior", "--out", "sheet.csv"]) == 0
    sheet = read_table("sheet.csv")
    sheet["checked"] = ["yes" if y[int(site)] else "no" for site in sheet["site"]]
    write_table(sheet, "sheet.csv")
    assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--quiet", "--out", "next"]) == 0
    told = capsys.readouterr().out
    assert "hardly worth" not in told
    assert "Rows differ in how easily they are seen" in told
    for folder in ("run", "next"):
        assert json.loads((tmp_path / folder / "summary.json").read_text())["doubt"] == "not reliable"
    options[-2:] = ["--heterogeneity", "estimate"]
    assert main(["fit", "birds.csv", "--looks", *looks, *options, "--quiet", "--out", "better"]) == 0
    assert "the class prior depends on it" in " ".join(capsys.readouterr().out.split())
    summary = json.loads((tmp_path / "better" / "summary.json").read_text())
    low, high = summary["class_prior_interval"]
    assert low < y.mean() < high
    assert summary["doubt"] == ""
    assert summary["heterogeneity"]["is"] == "estimated"
    assert "the class prior depends on it" in " ".join(summary["heterogeneity"]["remarks"])


@pytest.mark.parametrize(
    ("spread", "words"),
    [(0.01, "The checks do not agree with the model"), (3.0, "The model that chose the rows was too uncertain for a ")],
)
def test_checks_agree_only_with_a_model_that_says_something(spread, words):
    """14 of 30 positives do not agree with an expectation of 0.3, even if uncertain posteriors do not exclude them."""
    rng, rounds = np.random.default_rng(0), (Round(0, 0.4, 0.3, 0.5), Round(30, 0.4, 0.35, 0.45))
    q, a = np.full(30, 0.01), np.append(np.tile([1.0, 0.0], 14), [0.0, 0.0])
    draws = expit(logit(0.01) + spread * rng.normal(size=(1, 400))) * np.ones((30, 1))
    found = compare_with_posteriors(a, q, draws=draws)
    line = AuditChanges(rounds, found, None, "None.", 1, None, 0.95).sentences()[1]
    assert line.startswith(words)
    assert "14 of 30 checked rows are positive, and the model expected 0.3 (p = " in line
    agreeing = compare_with_posteriors(a, np.full(30, 0.5), draws=np.full((30, 400), 0.5))
    line = AuditChanges(rounds, agreeing, None, "None.", 1, None, 0.95).sentences()[1]
    assert line.startswith("The checks agree with the model that chose the rows")
    line = AuditChanges(rounds, agreeing, None, "None.", 1, None, 0.95, fit_differs=True).sentences()[1]
    assert line.startswith(
        "The model that chose the rows was too uncertain for a comparison with the checks: 14 of 30 "
    )
    assert line.endswith("contradict them. Do not rely on the estimate of the models.")
    nothing = compare_with_posteriors(np.ones(0), np.ones(0))
    assert "contradict" in AuditChanges(rounds, nothing, None, "None.", 1, None, 0.95, fit_differs=True).sentences()[1]


@pytest.mark.parametrize("answer", ["no", "yes"])
def test_one_worksheet_has_one_verdict_and_one_expectation(folder, first_sheet, answer, capsys):
    replace(first_sheet, folder=folder / "run").save("sheet.csv")
    sheet = answered("sheet.csv")
    sheet["checked"] = answer
    sheet.loc[0, "checked"] = "yes" if answer == "no" else "no"
    write_table(sheet, "sheet.csv")
    assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "next", "--quiet"]) == 0
    told = capsys.readouterr().out
    assert told.count("and the model expected") == 1
    assert "labels and models predict" not in told
    assert "The checks agree" not in told


# --- errors; after each of them, nothing is written


CHANGED = [
    pytest.param(lambda t: t.drop(columns="checked"), "has no column 'checked'", id="no answers column"),
    pytest.param(lambda t: t.drop(columns=["patient", "worksheet"]), "has no column 'patient' and 'worksheet'",
                 id="no id column"),
    pytest.param(lambda t: t.assign(checked=None), "no row has an answer in the column 'checked'", id="no answer"),
    pytest.param(lambda t: t.assign(checked="perhaps"), "the answer 'perhaps' for the patient 'P", id="odd answer"),
    pytest.param(lambda t: t.assign(patient=[None, *t["patient"][1:]]), "line 2 has an answer, but its cell in the "
                 "column 'patient' is empty", id="empty id"),
    pytest.param(lambda t: pd.concat([t, t[:1]]), "' is on 2 lines", id="doubled id"),
    pytest.param(lambda t: t.assign(patient=["P99999", *t["patient"][1:]]), "the table has no row with the patient "
                 "'P99999'", id="unknown id"),
    pytest.param(lambda t: t.assign(patient=["7", *t["patient"][1:]]), "removed zeros at the beginning",
                 id="id without zeros"),
    pytest.param(lambda t: t.assign(inclusion_probability=[1.0, *t["inclusion_probability"][1:]]),
                 "the column 'inclusion_probability' was changed in 1 line.", id="edited probability"),
    pytest.param(lambda t: t.assign(inclusion_probability=None), "was changed in 30 lines", id="emptied probability"),
    pytest.param(lambda t: t.assign(worksheet="abc-1"), "is the worksheet 'abc-1', which was drawn from other results",
                 id="other worksheet"),
    pytest.param(lambda t: t.assign(worksheet=["abc-1", *t["worksheet"][1:]]), "has several values", id="mixed"),
    pytest.param(lambda t: t.assign(worksheet=[None, *t["worksheet"][1:]]), "column 'worksheet' is empty in 1 line.",
                 id="no key"),
    pytest.param(lambda t: t.assign(checked=["yes"] * 29 + [None]), "all answers are 'yes', and 1 row has no answer",
                 id="only positives"),
    pytest.param(lambda t: t[:0], "has a header but no rows", id="empty"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), CHANGED)
def test_a_wrong_worksheet_is_refused(folder, sheet, capsys, change, message):
    write_table(change(read_table(sheet)), "wrong.csv")
    before = (folder / "run" / AUDITS).read_bytes()
    assert main(["fit", "--config", "run/run.toml", "--audit", "wrong.csv", "--out", "next", "--quiet"]) == 1
    assert message in capsys.readouterr().err
    assert not (folder / "next").exists()
    assert (folder / "run" / AUDITS).read_bytes() == before


def test_answers_for_rows_that_were_not_asked_for_are_refused(folder, sheet, capsys):
    table = read_table(sheet)
    other = next(each for each in make_patients(N)["patient"] if each not in set(table["patient"]))
    table.loc[3, "patient"] = other
    write_table(table, "wrong.csv")
    assert main(["fit", "--config", "run/run.toml", "--audit", "wrong.csv", "--out", "next"]) == 1
    assert "worksheet 1 did not ask for 1 of these rows" in capsys.readouterr().err


def test_wrong_commands_are_refused(folder, fitted, sheet, capsys):
    file = str(fitted / "patients.csv")
    commands = {
        "sheet.csv exists, and may contain answers": ["audit", "run", "--out", "sheet.csv"],
        "contains no run.toml": ["audit", ".", "--out", "new.csv"],
        "n must be at most": ["audit", "run", "--n", "5000", "--out", "new.csv"],
        "There is no column 'clinic' (--strata)": ["audit", "run", "--strata", "clinic", "--out", "new.csv"],
        "--strata has no effect with --purpose find": [
            "audit", "run", "--strata", "smoker", "--purpose", "find", "--out", "new.csv"
        ],
        "is a file. The answers of a worksheet need the results": ["fit", file, *FIT, "--audit", "sheet.csv"],
        "none.csv (--audit) does not exist": ["fit", "--config", "run/run.toml", "--audit", "none.csv"],
        "No worksheet was drawn from": [
            "fit", "--config", str(fitted / "run" / "run.toml"), "--audit", "sheet.csv", "--out", "new"
        ],
        "run has worksheets whose rows and probabilities would be lost": [
            "fit", file, *FIT, "--out", "run", "--force"
        ],
    }  # fmt: skip
    for message, command in commands.items():
        assert main(command) == 1, message
        assert message in capsys.readouterr().err
    assert not (folder / "new.csv").exists()


def test_a_changed_or_missing_file_is_refused(folder, fitted, capsys, monkeypatch):
    make_patients(N).to_csv("here.csv", index=False)
    shutil.move("run", "here")
    text = (folder / "here" / "run.toml").read_text()
    (folder / "here" / "run.toml").write_text(text.replace(str(fitted / "patients.csv"), "here.csv"))
    assert len(draw_worksheet("here", 10).table) == 10
    make_patients(N, seed=1).to_csv("here.csv", index=False)
    with pytest.raises(ValueError, match=r"here\.csv has changed since the fit"):
        draw_worksheet("here", 10)
    (folder / "here.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"here\.csv, the file of the fit, does not exist"):
        draw_worksheet("here", 10)
    drawn = draw_worksheet("here", 10, table=make_patients(N))
    assert len(drawn.table) == 10


def test_ids_must_be_unique(folder, capsys):
    table = make_patients(N)
    table.loc[:1, "patient"] = "P1"
    table.to_csv("twice.csv", index=False)
    assert main(["fit", "twice.csv", *FIT, "--id", "patient", "--out", "twice"]) == 0
    capsys.readouterr()
    assert main(["audit", "twice", "--out", "sheet.csv"]) == 1
    assert "has 'P1' in several rows" in capsys.readouterr().err
    with pytest.raises(ValueError, match="is empty in row 1"):
        row_names(pd.DataFrame({"patient": [None, "P2"]}), "patient")


def test_a_column_of_the_table_may_not_have_the_name_of_a_column_of_the_worksheet(folder, capsys):
    make_patients(N).assign(checked=1.0).to_csv("odd.csv", index=False)
    assert main(["fit", "odd.csv", *FIT, "--id", "patient", "--out", "odd"]) == 0
    assert main(["audit", "odd", "--out", "sheet.csv"]) == 1
    assert "The table has a column 'checked', which is also a column of every worksheet." in capsys.readouterr().err


def test_known_propensities_do_not_allow_audits(folder, fitted, capsys):
    file = str(fitted / "patients.csv")
    command = ["fit", file, "--label", "diagnosed", "--known-propensity", "known", "--id", "patient", "--quiet"]
    assert main([*command, "--out", "known"]) == 0
    capsys.readouterr()
    assert main(["audit", "known", "--out", "sheet.csv"]) == 1
    assert "--known-propensity" in capsys.readouterr().err


def test_two_worksheets_drawn_at_the_same_time_are_not_both_saved(folder):
    fit = StoredFit.of(folder / "run")
    one, two = (worksheet_of(fit, 10, folder / "run", random_state=seed) for seed in (1, 2))
    one.save("one.csv")
    with pytest.raises(RuntimeError, match=r"Another worksheet was drawn from .*run in the meantime"):
        two.save("two.csv")
    assert not (folder / "two.csv").exists()


def test_answers_are_not_lost(folder, sheet, first_sheet):
    """Results with answers cannot be replaced by results that were fitted without them."""
    history, _ = first_sheet.history.with_answers(read_table(sheet), "sheet.csv")
    (folder / "next").mkdir()
    history.save(folder / "next" / AUDITS)
    refuse_lost_worksheets(folder / "next", history)
    with pytest.raises(FileExistsError, match=r"next has answers to 30 rows that would be lost\. Choose another"):
        refuse_lost_worksheets(folder / "next", first_sheet.history)


def test_the_file_of_earlier_results_may_be_missing(folder, sheet, capsys):
    text = (folder / "run" / "run.toml").read_text()
    file = next(line.split('"')[1] for line in text.splitlines() if line.startswith("file = "))
    (folder / "run" / "run.toml").write_text(text.replace(file, "elsewhere.csv"))
    assert main(["fit", "--config", "run/run.toml", "--audit", "sheet.csv", "--out", "next"]) == 1
    assert "elsewhere.csv, the file of run/run.toml, does not exist. Run this command in" in capsys.readouterr().err


def test_a_history_of_a_later_version_is_named(folder, sheet):
    table = parquet.read_table(folder / "run" / AUDITS)
    about = json.loads(table.schema.metadata[b"scarless"]) | {"format": 2}
    parquet.write_table(table.replace_schema_metadata({b"scarless": json.dumps(about)}), folder / "run" / AUDITS)
    with pytest.raises(ValueError, match=r"A later version of scarless wrote .*audits\.parquet"):
        draw_worksheet("run", 10)


def test_a_damaged_history_is_named(folder):
    (folder / "run" / AUDITS).write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"audits\.parquet is damaged"):
        draw_worksheet("run", 10)


def test_a_table_with_the_column_of_answers_is_refused(first_sheet):
    with pytest.raises(ValueError, match=f"The table has a column '{ANSWERS}'"):
        first_sheet.history.join(make_patients(N).assign(**{ANSWERS: 1}), "")


# --- the history


def test_a_history_is_stored_without_loss(first_sheet, tmp_path):
    history = first_sheet.history
    history.save(tmp_path / "copy.parquet")
    again = AuditHistory.load(tmp_path / "copy.parquet")
    assert again.sheets == history.sheets
    for name in ("names", "posterior", "sheet", "expected", "draws", "answer", "chances"):
        np.testing.assert_array_equal(getattr(again, name), getattr(history, name))


def test_answers_do_not_change_the_settings_but_for_the_audit_column():
    settings = Settings("diagnosed", ("visits",), audit="seen", exclude=("ward",))
    found = with_answers(settings)
    assert found == replace(settings, audit=ANSWERS, exclude=("ward", "seen"))
    assert with_answers(found) == found


# --- agreement


def test_the_test_of_agreement_holds_its_level_and_finds_wrong_models():
    """Classes are drawn from uncertain posteriors: the p-value is uniform. Wrong posteriors are rejected."""
    rng = np.random.default_rng(0)
    p_values, wrong = [], []
    for _ in range(100):
        logit = rng.normal(-0.5, 1.2, size=50)
        draws = 1 / (1 + np.exp(-(logit[:, None] + rng.normal(0, 0.4, size=(1, 200)))))
        a = (rng.random(50) < draws[:, 0]) * 1.0
        p_values.append(compare_with_posteriors(a, draws.mean(axis=1), draws=draws).p_value)
        wrong.append(compare_with_posteriors(a, draws.mean(axis=1), draws=draws**3).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.1
    assert np.mean(np.array(p_values) < 0.5) >= 0.3
    assert np.mean(np.array(wrong) < 0.05) > 0.8


# --- three rounds


def test_three_rounds_of_checks_shorten_the_interval_of_the_patients():
    """Three rounds of 50 checks, in four histories; `python -m benchmarks worksheets` plays a hundred."""
    rounds = [list(play("patients", "optimal", seed)) for seed in range(4)]
    widths = np.array([[row["width"] for row in history] for history in rounds])
    assert (widths[:, 0] > 0.1).all()
    assert widths[:, 3].mean() < 0.06
    assert widths[:, 3].mean() < widths[:, 1].mean() < widths[:, 0].mean()
    assert np.mean([history[-1]["covered"] for history in rounds]) >= 0.75
