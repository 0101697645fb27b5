"""The summary of an experiment and differences from a reference, compared with numbers computed by hand."""

import numpy as np
import pytest
from tests.helpers import cells_of

from scarless.experiments.statistics import mean_interval
from scarless.report.results import group
from scarless.report.summary import effects, effects_chapter, summary_chapter

METHODS = ("supervised", "naive", "pglin", "sar-em")
BASE = {"supervised": 0.9, "naive": 0.6, "pglin": 0.7, "sar-em": 0.65}


def scores(dataset, setting, method, run):
    """Return scores that depend on everything: pglin is best of its level on datasets a and b, naive on c."""
    value = BASE[method] + {"a": 0.0, "b": 0.02, "c": 0.04}[dataset] + {"S1": 0.0, "S2": 0.01}[setting]
    if dataset == "c" and method == "pglin":
        value -= 0.2
    found = {"balanced_accuracy": value, "auc_f": value, "class_prior_error": 0.1 * (-1) ** run}
    return found if method == "pglin" else {**found, "mse_f": 1 - value}


@pytest.fixture
def made(told):
    return told(scores, datasets=("a", "b", "c"), mechanisms=("S1", "S2"), methods=METHODS)


def rows(table, section=0):
    return {
        row[0].text: dict(zip(table.head, (cell.text for cell in row), strict=True))
        for row in table.sections[section].rows
    }


def test_summary_by_hand(made):
    made.records[0]["warnings"] = ["stopped"]
    chapter = summary_chapter(group(*made.everything))
    (table,) = chapter.tables
    assert table.head == (
        "method", "knows", "bal. acc.", "AUC", "MSE f", "prior error", "wins", "failed", "warned", "a run",
    )  # fmt: skip
    # Sorted by knowledge and by balanced accuracy: 0.7 + 0.02 - 0.2 / 3 + 0.005 = 0.658 and 0.6 + 0.02 + 0.005.
    assert cells_of(table) == [
        ["pglin", "nothing", "0.658", "0.658", "–", "0.100", "4", "0", "0", "0.50 s"],
        ["naive", "nothing", "0.625", "0.625", "0.3750", "0.100", "2", "0", "0", "0.50 s"],
        ["SAR-EM", "names", "0.675", "0.675", "0.3250", "0.100", "2", "0", "0", "0.50 s"],
        ["supervised", "classes", "0.925", "0.925", "0.0750", "0.100", "–", "0", "1", "0.50 s"],
    ]
    strong = {row[0].text for row in table.sections[0].rows if row[2].strong}
    assert strong == {"pglin", "SAR-EM"}  # The best of its level, and better than all that know less.
    assert {row[0].text for row in table.sections[0].rows if row[5].strong} == set()  # An error without a direction.


def test_the_same_table_for_each_condition(made):
    ((title, table),) = summary_chapter(group(*made.everything)).details
    assert title == "The same for each of the 2 conditions"
    assert [section.heading for section in table.sections] == ["S1", "S2"]
    assert rows(table, 0)["naive"]["bal. acc."] == "0.620"
    assert rows(table, 1)["naive"]["bal. acc."] == "0.630"
    assert rows(table, 0)["pglin"]["wins"] == "2"


def test_one_condition_is_not_repeated(told):
    made = told(scores, datasets=("a", "b"), mechanisms=("S1",), methods=METHODS)
    assert summary_chapter(group(*made.everything)).details == ()


def test_methods_without_all_cases_are_counted_and_not_bold(made):
    made.fail(dataset="a", setting="S1", method="pglin")
    made.fail(dataset="b", setting="S1", method="naive", split=0, labelling=0)
    (table,) = summary_chapter(group(*made.everything)).tables
    assert rows(table)["pglin"]["failed"] == "4 (1 cases)"
    assert rows(table)["naive"]["failed"] == "1"
    assert {row[0].text for row in table.sections[0].rows if row[2].strong} == {"naive", "SAR-EM"}


def test_with_few_cases_nothing_is_bold(told):
    made = told(scores, datasets=("a",), mechanisms=("S1", "S2"), methods=METHODS)
    (table,) = summary_chapter(group(*made.everything)).tables
    assert not any(cell.strong for row in table.sections[0].rows for cell in row)


def test_equal_methods_share_a_win(told):
    made = told(lambda *_: {"balanced_accuracy": 0.7}, datasets=("a", "b"), mechanisms=("S1",), methods=METHODS)
    (table,) = summary_chapter(group(*made.everything)).tables
    assert [row["wins"] for row in rows(table).values()] == ["2", "2", "2", "–"]


def test_effects_are_means_over_datasets_of_paired_differences(made):
    found = {each.method: each for each in effects(group(*made.everything), "naive", "balanced_accuracy")}
    assert list(found) == ["supervised", "sar-em", "pglin"]
    expected = mean_interval([0.1, 0.1, -0.1])
    assert found["pglin"].difference.mean == pytest.approx(expected.mean)
    assert found["pglin"].difference.half == pytest.approx(expected.half)
    assert (found["pglin"].difference.n, found["pglin"].better_on) == (3, 2)


def test_effects_are_positive_if_the_method_is_better_whatever_the_direction(made):
    results = group(*made.everything)
    by_error = {each.method: each.difference.mean for each in effects(results, "naive", "mse_f")}
    assert by_error == {"supervised": pytest.approx(0.3), "sar-em": pytest.approx(0.05)}  # pglin has no probabilities


def test_differences_by_rounding_are_not_better(made):
    for record in made.records:
        if record["method"] == "pglin":
            record["balanced_accuracy"] = scores(record["dataset"], record["setting"], "naive", 0)["balanced_accuracy"]
            record["balanced_accuracy"] += 1e-10
    found = {each.method: each for each in effects(group(*made.everything), "naive", "balanced_accuracy")}
    assert (found["pglin"].better_on, found["pglin"].difference.mean, found["pglin"].difference.clear) == (0, 0, False)


def test_effects_use_only_runs_that_both_methods_have(made):
    for record in made.records:  # In the failed run, naive would have been very different.
        if (record["dataset"], record["method"], record["split"]) == ("a", "naive", 0):
            record["balanced_accuracy"] = 0.0
    made.fail(dataset="a", method="pglin", split=0)
    found = {each.method: each for each in effects(group(*made.everything), "naive", "balanced_accuracy")}
    assert found["pglin"].difference.mean == pytest.approx((0.1 + 0.1 - 0.1) / 3)


def test_the_chapter_shows_effects_as_a_table_a_figure_and_numbers(made):
    chapter = effects_chapter(group(*made.everything), "naive", ("balanced_accuracy", "class_prior_error", "mse_f"))
    (table,) = chapter.tables
    assert table.head == ("method", "knows", "balanced accuracy", "better on", "MSE of f", "better on")
    assert rows(table)["pglin"]["balanced accuracy"] == "+0.033 ± 0.287"
    assert [cell.strong for cell in table.sections[0].rows[0]] == [False] * 6
    (figure,) = chapter.figures
    assert [panel.title for panel in figure.panels] == ["balanced accuracy", "MSE of f"]
    assert [len(panel.dots) for panel in figure.panels] == [3, 2]
    assert len(figure.values) == 5
    assert figure.values[0][:4] == ("balanced_accuracy", "supervised", "naive", pytest.approx(0.3))
    zero = next(line.points[0][0] for line in figure.panels[0].lines if line.kind == "axis")
    assert all(dot.x > zero for dot in figure.panels[0].dots)
    assert all(line.points[0][0] <= line.points[1][0] for line in figure.panels[0].lines if "interval" in line.kind)


@pytest.mark.parametrize(
    ("reference", "datasets"), [("nobody", ("a", "b")), ("naive", ("a",))], ids=["no reference", "one dataset"]
)
def test_without_a_reference_or_with_one_dataset_there_is_no_chapter(told, reference, datasets):
    made = told(scores, datasets=datasets, mechanisms=("S1",), methods=METHODS)
    assert effects_chapter(group(*made.everything), reference, ("balanced_accuracy",)) is None


def test_no_chapter_if_no_method_shares_a_score_with_the_reference(made):
    assert effects_chapter(group(*made.everything), "pglin", ("mse_f",)) is None


def test_ranks_over_all_conditions_use_conditions_that_all_methods_have(made):
    for record in made.records:  # Without S1, naive would win on dataset a.
        if (record["dataset"], record["setting"], record["method"]) == ("a", "S2", "naive"):
            record["balanced_accuracy"] = 0.99
    made.fail(dataset="a", setting="S2", method="sar-em")
    found = group(*made.everything).compare(None, "balanced_accuracy", ("naive", "pglin", "sar-em"))
    assert found.n_datasets == 3
    # On a and b, pglin, sar-em, naive; on c, sar-em, naive, pglin.
    assert found.average_ranks == pytest.approx(np.array([3 + 3 + 2, 1 + 1 + 3, 2 + 2 + 1]) / 3)
