"""Tables, compared with numbers computed by hand."""

import pytest
from tests.helpers import cells_of

from scarless.report import build_report
from scarless.report.names import LABELS, METHOD_NAMES, TRUTH, MethodName
from scarless.report.results import Condition, group
from scarless.report.tables import best_methods, failure_table, method_table, score_table, time_table, warning_table

ALL2 = Condition("all", 2)


def strong(table, column):
    index = table.head.index(column)
    return [row[0].text for row in table.sections[0].rows if row[index].strong]


@pytest.fixture
def small(make):
    """Return two runs per row, without noise: 0.1 +- 0.1 gives a half-width of 12.706 * 0.1."""
    made = make(
        noise=0.0, datasets=("adult",), settings=("all",), n_propensity_attributes=(2,), n_splits=1, n_labellings=2,
        methods=("supervised", "naive", "sar-em"),
    )  # fmt: skip
    for record in made.records:
        record["mse_f"] += 0.01 * (2 * record["labelling"] - 1)
    return made


def test_score_table_by_hand(small):
    table = score_table(group(*small.everything), "adult")
    assert table.head == ("method", "MSE of f", "ROC-AUC of f", "MSE of e", "class prior error", "runs")
    assert [section.heading.replace("\xa0", " ") for section in table.sections] == ["all, k = 2"]
    assert cells_of(table) == [
        ["supervised", "0.0400 ± 0.1271", "0.960 ± 0.000", "–", "−0.010 ± 0.000", "2"],
        ["naive", "0.2000 ± 0.1271", "0.800 ± 0.000", "0.3300 ± 0.0000", "−0.010 ± 0.000", "2"],
        ["SAR-EM", "0.0700 ± 0.1271", "0.930 ± 0.000", "0.0050 ± 0.0000", "−0.010 ± 0.000", "2"],
    ]


def test_with_too_few_runs_nothing_is_bold_and_the_caption_says_why(small, make):
    table = score_table(group(*small.everything), "adult")
    assert [strong(table, name) for name in table.head[1:-1]] == [[], [], [], []]
    assert table.caption == "Adult: mean ± half-width of the 95% interval (2 runs: too few to mark the best)"
    enough = score_table(group(*make(datasets=("adult",)).everything), "adult")
    assert enough.caption == "Adult: mean ± half-width of the 95% interval"


def test_the_best_method_without_true_classes_is_bold(make, full):
    table = score_table(
        group(*make(datasets=("adult",), methods=("supervised", "naive", "sar-em")).everything), "adult"
    )
    assert strong(table, "MSE of f") == ["SAR-EM"]
    assert strong(table, "ROC-AUC of f") == ["SAR-EM"]
    assert strong(table, "class prior error") == []
    results = group(*full.everything)
    assert best_methods(results, "adult", ALL2, "mse_f") == {"sar-em"}
    assert best_methods(results, "adult", ALL2, "class_prior_error") == set()


def test_tied_best_methods_are_all_marked(make):
    made = make(noise=0.0, error=lambda *_: 0.1)
    found = best_methods(group(*made.everything), "adult", ALL2, "mse_f")
    assert found == {"naive", "scar-km2", "scar-tice", "sar-em", "sar-em-refit"}


def test_failed_runs_are_grouped_by_message(small):
    for record in small.records:
        if record["method"] == "naive":
            record["error"] = "ValueError: too few rows"
    results = group(*small.everything)
    table = failure_table(results)
    assert [section.heading for section in table.sections] == ["ValueError: too few rows"]
    assert cells_of(table) == [["Adult", "all, k\xa0=\xa02", "naive", "2"]]
    assert cells_of(score_table(results, "adult"))[1] == ["naive", "–", "–", "–", "–", "0 (2 failed)"]


def test_warnings_are_counted(small):
    for record in small.records[:2]:
        record["warnings"] = ["stopped early"]
    table = warning_table(group(*small.everything))
    assert table.sections[0].heading == "stopped early"
    assert sorted(row[2] for row in cells_of(table)) == ["naive", "supervised"]


def test_no_tables_without_failures_and_warnings(small):
    results = group(*small.everything)
    assert failure_table(results) is None
    assert warning_table(results) is None


def test_time_table_has_means_per_run_and_sums(small):
    table = time_table(group(*small.everything))
    assert table.head == ("dataset", "supervised", "naive", "SAR-EM", "all runs")
    assert cells_of(table) == [
        ["Adult", "0.25 s", "0.25 s", "0.25 s", "1.50 s"],
        ["all runs together", "0.50 s", "0.50 s", "0.50 s", "1.50 s"],
    ]


def test_only_processor_times_count_if_there_are_any(small):
    records, timings, manifest = small.everything
    assert build_report(records, timings, manifest).time_note.startswith("Times are wall-clock times on one core;")
    timings = [{**timings[0], "seconds": 7.0, "clock": "processor"}, *timings[1:]]
    assert list(group(records, timings, manifest).seconds.values()) == [[7.0]]
    report = build_report(records, timings, manifest)
    expected = "Times are processor times. The processor times of 5 runs are not known, and these runs are left out. "
    assert report.time_note.startswith(expected)
    assert dict(report.facts)["time"].endswith("computed alone; 1 of 6 runs have a time")


def test_method_table_explains_every_method_of_the_specification(full):
    table = method_table(group(*full.everything))
    assert {row[2] for row in cells_of(table)} == set(full.spec.methods)
    assert all(len(row[1]) > 20 for row in cells_of(table))
    assert [section.heading for section in table.sections] == ["uses true classes or propensities", "uses labels only"]


def test_methods_are_grouped_by_their_role(small):
    names = {"naive": MethodName("simple", "as in 1970", "By hand.", knows_truth=True)}
    results = group(*small.everything, method_names={**METHOD_NAMES, **names})
    assert results.methods == ("supervised", "sar-em", "naive")
    table = method_table(results)
    assert [section.heading for section in table.sections] == [TRUTH, LABELS, "as in 1970"]
    assert cells_of(table)[-1] == ["simple", "By hand.", "naive"]


def test_a_method_without_a_display_name_has_its_name_in_the_specification(small):
    results = group(*small.everything, method_names={})
    assert cells_of(method_table(results)) == [[name, "", name] for name in ("supervised", "naive", "sar-em")]
