"""What methods know: bold scores, contests and columns; groups of scores in tables."""

import csv
from io import StringIO

import pytest
from tests.helpers import cells_of

from scarless.report.names import KNOWS, KNOWS_EXPLAINED, SCORE_GROUPS, SCORES, SUMMARY_LABELS
from scarless.report.page import build_report, records_csv, render_page, results_csv
from scarless.report.results import Condition, Row, group
from scarless.report.tables import MAX_SCORES_PER_TABLE, best_methods, method_table, score_tables

METHODS = ("supervised", "known-e", "naive", "pglin", "sar-em", "upu")
ACCURACY = {"supervised": 0.9, "known-e": 0.6, "naive": 0.7, "pglin": 0.65, "sar-em": 0.68, "upu": 0.8}
S1 = Condition("S1", 0)


def scores(dataset, setting, method, run):
    return {"balanced_accuracy": ACCURACY[method] + 0.001 * run, "share_positive": 0.3}


@pytest.fixture
def made(told):
    return told(scores, datasets=("a", "b", "c"), mechanisms=("S1",), methods=METHODS)


def test_every_score_is_in_exactly_one_group_and_every_level_is_explained():
    assert sorted(name for names in SCORE_GROUPS.values() for name in names) == sorted(SCORES)
    assert set(SUMMARY_LABELS) <= set(SCORES)
    assert tuple(KNOWS_EXPLAINED) == KNOWS


def test_a_method_is_bold_if_no_method_that_knows_the_same_or_less_is_better(made):
    results = group(*made.everything)
    # sar-em knows names, but naive, which knows nothing, is better; known-e is worse than methods that know less.
    assert best_methods(results, "a", S1, "balanced_accuracy") == {"naive", "upu"}
    assert best_methods(results, "a", S1, "share_positive") == set()
    (table,) = score_tables(results, "a")
    assert [row[0].text for row in table.sections[0].rows if row[1].strong] == ["naive", "upu"]
    assert table.caption.endswith("methods that know the classes are not marked.")
    assert [row[2] for row in cells_of(table)][:1] == ["0.300 ± 0.000"]  # A share is not a signed error.


def test_there_is_a_contest_for_each_level_that_adds_methods(made):
    assert group(*made.everything).contests == {
        "methods that know nothing": ("naive", "pglin"),
        "methods that know names or less": ("naive", "pglin", "sar-em"),
        "methods that know the prior or less": ("naive", "pglin", "sar-em", "upu"),
        "methods that know the propensity or less": ("known-e", "naive", "pglin", "sar-em", "upu"),
    }
    report = build_report(*made.everything)
    assert [panel.title for panel in report.rank_figures[0].panels][:2] == [
        "Methods that know nothing",
        "Methods that know names or less",
    ]
    assert "Each contest compares the methods that know as much as it says, or less" in report.ranks_note


def test_records_that_do_not_say_what_methods_know_have_no_new_parts(told):
    made = told(scores, datasets=("a", "b", "c"), mechanisms=("S1",), methods=METHODS, knows=None)
    results = group(*made.everything)
    assert list(results.contests) == ["methods that use labels only"]
    assert best_methods(results, "a", S1, "balanced_accuracy") == {"upu"}
    assert method_table(results).head == ("method", "description", "name in the files")
    report = build_report(*made.everything)
    assert report.chapters == ()
    assert report.ranks_note.endswith("The ranking compares the methods that use labels only.")
    assert results_csv(*made.everything).startswith("dataset,setting,k,method,n_runs,")


def test_the_method_table_has_a_column_and_is_sorted_by_it(made):
    table = method_table(group(*made.everything))
    assert table.head[:2] == ("method", "knows")
    assert [row[1] for row in cells_of(table)] == ["nothing", "nothing", "names", "prior", "propensity", "classes"]
    assert "Nothing: labels and attributes only; names: also which attributes drive the labelling" in table.caption


def test_knowledge_may_differ_between_conditions(told):
    made = told(scores, datasets=("a",), mechanisms=("S1", "S2"), methods=METHODS)
    for record in made.records:
        if record["method"] == "sar-em" and record["setting"] == "S1":
            record["knows"] = "nothing"
    results = group(*made.everything)
    assert results.knows("sar-em") == "nothing or names"
    assert (results.level("sar-em", S1), results.level("sar-em", Condition("S2", 0)), results.level("sar-em")) == (
        0,
        1,
        1,
    )
    assert results.level("supervised") is None


def test_a_method_whose_records_do_not_say_it_is_shown_but_not_compared(made):
    for record in made.records:
        if record["method"] == "pglin":
            del record["knows"]
    results = group(*made.everything)
    assert ["pglin", "–"] in [row[:2] for row in cells_of(method_table(results))]
    assert all("pglin" not in methods for methods in results.contests.values())
    assert results.level("pglin") is None


def test_unknown_knowledge_is_an_error(made):
    made.records[0]["knows"] = "everything"
    with pytest.raises(
        ValueError,
        match=r"The record of supervised on a has knows = 'everything', but it must be one of nothing, names, prior, "
        r"propensity and classes. Correct what the method says that it knows",
    ):
        group(*made.everything)


def test_many_scores_are_split_into_a_table_for_each_group(told):
    names = [name for name in SCORES if name != "mae_e"]
    made = told(
        lambda d, s, method, run: {name: 0.5 for name in names if method != "naive" or not name.startswith("mse")},
        datasets=("a",), mechanisms=("S1",), methods=METHODS,
    )  # fmt: skip
    tables = score_tables(group(*made.everything), "a")
    assert len(names) > MAX_SCORES_PER_TABLE
    assert [len(table.head) - 2 for table in tables] == [4, 2, 3, 3, 5]
    assert [table.caption.partition(":")[0] for table in tables] == [f"a, {title}" for title in SCORE_GROUPS]
    (probabilities,) = [table for table in tables if "MSE of f" in table.head]
    column = probabilities.head.index("MSE of f")
    assert {row[0]: row[column] for row in cells_of(probabilities)}["naive"] == "–"
    assert all(max(map(len, (table.head for table in tables))) <= MAX_SCORES_PER_TABLE for table in tables)


def test_csv_files_have_what_methods_know_and_the_number_of_labels(made):
    made.records[0]["n_labels"] = 17
    rows = list(csv.DictReader(StringIO(results_csv(*made.everything))))
    assert {row["method"]: row["knows"] for row in rows}["upu"] == "prior"
    first = next(csv.DictReader(StringIO(records_csv(made.records, made.timings))))
    assert (first["n_labels"], first["knows"], first["share_positive"]) == ("17", "classes", "0.3")


def test_a_mechanism_with_several_label_frequencies_has_a_condition_for_each(told):
    settings = ("SCAR", "S4-c0.5", "S4-c0.1")
    made = told(scores, datasets=("a",), mechanisms=("SCAR", "S4"), settings=settings, methods=METHODS)
    made.spec["own_mechanisms"] = {"S4": {"by": "class probability", "label_frequency": [0.1, 0.5]}}
    results = group(*made.everything)
    assert [condition.setting for condition in results.conditions] == ["SCAR", "S4-c0.1", "S4-c0.5"]
    assert results.n_expected == results.n_finished
    assert results.interval(Row("a", "S4-c0.1", 0, "naive"), "balanced_accuracy").n == 4
    described = dict(build_report(*made.everything).facts)["labelling"]
    assert described.endswith("; S4: by class probability, label_frequency [0.1, 0.5]")


def test_a_setting_that_only_looks_like_a_label_frequency_is_not_expanded(told):
    made = told(scores, datasets=("a",), mechanisms=("S4", "S4-cold"), methods=METHODS)
    assert [condition.setting for condition in group(*made.everything).conditions] == ["S4", "S4-cold"]


def test_the_page_shows_its_new_parts_in_order(made):
    page = render_page(build_report(*made.everything))
    found = [page.index(f'<section id="{name}"') for name in ("summary", "effects", "figures", "ranks", "tables")]
    assert found == sorted(found)


def test_runs_of_an_earlier_version_are_counted_on_the_page(made):
    early = "runs are from an earlier version of scarless and lack some scores"
    assert early not in render_page(build_report(*made.everything))
    for record in made.records[:2]:
        del record["knows"], record["balanced_accuracy"]
    assert f"2 {early}" in render_page(build_report(*made.everything))


def test_a_mechanism_whose_name_ends_like_a_label_frequency_is_one_condition(told):
    made = told(scores, datasets=("a",), mechanisms=("S1", "S1-c0"), methods=METHODS)
    made.records = [record for record in made.records if record["setting"] == "S1-c0"]
    assert group(*made.everything).conditions == (S1, Condition("S1-c0", 0))
