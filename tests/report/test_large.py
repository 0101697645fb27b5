"""Large experiments: the page has means over datasets, and stays small and readable."""

import csv
from io import StringIO

import pytest
from tests.helpers import cells_of

from scarless.report import build_report, render_figure, render_page
from scarless.report.figures import MAX_METHODS_ON_A_LINE, WIDTH, rank_figures
from scarless.report.page import figure_csv
from scarless.report.results import MAX_ROWS_ON_PAGE, group
from scarless.report.tables import MAX_MESSAGES, failure_table, time_table, warning_table

METHODS = tuple(f"m{i:02d}" for i in range(15))
DATASETS = tuple(f"d{i:02d}" for i in range(14))
CONDITIONS = tuple(f"S{i}" for i in range(5))


def scores(dataset, setting, method, run):
    number = int(method[1:])
    value = 0.9 - 0.02 * number - 0.01 * int(dataset[1:]) + 0.001 * run * (number % 3)
    return {"balanced_accuracy": value, "balanced_accuracy_at_prior": value, "auc_f": value, "average_precision": value}


@pytest.fixture(scope="module")
def made(told):
    knows = {"m03": "names", "m04": "prior", "m05": "propensity", "m06": "classes"}
    return told(
        scores, datasets=DATASETS, mechanisms=CONDITIONS, methods=METHODS, knows=knows, n_splits=1, n_labellings=2
    )


@pytest.fixture(scope="module")
def report(made):
    return build_report(*made.everything)


def test_a_large_experiment_has_means_over_datasets_and_says_where_the_rest_is(made, report):
    assert len(DATASETS) * len(CONDITIONS) * len(METHODS) > MAX_ROWS_ON_PAGE
    assert report.score_tables == ()
    page = render_page(report)
    assert (
        "With 14 datasets, 5 conditions and 15 methods, the scores of single datasets are not on this page. The file "
        "results.csv has them" in page
    )
    assert "Intervals are t intervals of the mean over datasets" in page
    assert [figure.name for figure in report.figures] == [
        "balanced_accuracy-by-condition", "auc_f-by-condition", "ranks-balanced_accuracy", "ranks-auc_f",
    ]  # fmt: skip
    assert len(page.encode()) < 300_000
    assert "d13" in page
    assert page.count("d13") < 5


def test_an_experiment_below_the_limit_shows_every_dataset(made, told):
    small = told(scores, datasets=DATASETS[:3], mechanisms=CONDITIONS, methods=METHODS)
    report = build_report(*small.everything)
    assert [title for title, _ in report.score_tables] == list(DATASETS[:3])
    assert report.tables_note == ""
    assert not any(figure.folded for figure in report.score_figures)


def test_many_panels_are_folded(told):
    made = told(scores, datasets=DATASETS, mechanisms=CONDITIONS, methods=METHODS[:2])
    report = build_report(*made.everything)
    assert report.score_tables
    assert all(figure.folded for figure in report.score_figures)
    assert '<details class="card"><summary>balanced accuracy, labelled by S0</summary><figure' in render_page(report)


def test_a_panel_of_a_condition_has_a_row_for_each_method_sorted_by_its_mean(report):
    figure = report.score_figures[0]
    assert [panel.title for panel in figure.panels] == list(CONDITIONS)
    assert figure.folded
    panel = figure.panels[0]
    assert [text.text for text in panel.texts if text.kind == "label"] == sorted(METHODS)
    assert {dot.kind for dot in panel.dots} == {"k0", "k1", "k2", "k3"}
    # m00 knows nothing and is best; methods that know more are worse, so they are not marked.
    assert len([text for text in panel.texts if text.kind == "value best"]) == 1
    rows = list(csv.DictReader(StringIO(figure_csv(figure))))
    assert len(rows) == len(CONDITIONS) * len(METHODS)
    assert (rows[0]["method"], float(rows[0]["mean"]), rows[0]["n_datasets"]) == ("m00", pytest.approx(0.835), "14")


def test_ranks_of_many_methods_are_a_list_whose_lines_overlap_unless_ranks_differ(made, report):
    results = group(*made.everything)
    (figure,) = rank_figures(results, ("balanced_accuracy",))
    assert "With more than 10 methods" in figure.caption
    assert figure.panels[0].title == "Methods that know nothing"
    for panel, methods in zip(figure.panels, results.contests.values(), strict=True):
        found = results.compare(None, "balanced_accuracy", methods)
        assert len(methods) > MAX_METHODS_ON_A_LINE
        ends = [tuple(x for x, _ in line.points) for line in panel.lines if line.kind.startswith("interval")]
        order = sorted(methods, key=found.rank)
        for i, one in enumerate(order):
            for j, other in enumerate(order[:i]):
                overlap = ends[i][0] <= ends[j][1]
                assert overlap == (abs(found.rank(one) - found.rank(other)) <= found.critical_difference)


def test_few_methods_still_have_a_diagram_with_bars(told):
    made = told(scores, datasets=DATASETS[:4], mechanisms=("S1",), methods=METHODS[:3], knows={})
    (figure,) = rank_figures(group(*made.everything), ("balanced_accuracy",))
    assert "A thick bar joins methods" in figure.caption
    assert "With more than" not in figure.caption


def test_nothing_lies_outside_its_panel(report):
    for figure in report.figures:
        for panel in figure.panels:
            points = [point for line in panel.lines for point in line.points]
            points += [(item.x, item.y) for item in (*panel.dots, *panel.texts)]
            assert all(0 <= x <= WIDTH and 0 <= y <= panel.height for x, y in points)


def test_the_entries_of_a_legend_do_not_overlap_in_the_file(report):
    text = render_figure(report.score_figures[0])
    assert 'cx="28"' in text
    assert f'cx="{24 + 4 + 6 * len("knows propensity or classes") + 20:g}"' in text


def test_times_of_a_large_experiment_have_a_row_for_each_method(made):
    table = time_table(group(*made.everything))
    assert table.head == ("method", "slowest dataset", "a run there", "mean run", "all runs")
    assert cells_of(table)[0] == ["m00", "d00", "0.50 s", "0.50 s", "70 s"]
    assert len(cells_of(table)) == len(METHODS)
    without = time_table(group(made.records, [], made.manifest))
    assert cells_of(without)[0][1:4] == ["–", "–", "–"]


def test_many_messages_that_differ_in_numbers_count_as_one(told):
    made = told(scores, datasets=DATASETS, mechanisms=CONDITIONS, methods=METHODS, knows={}, n_splits=1, n_labellings=1)
    for i, record in enumerate(made.records):
        record["warnings"] = [f"stopped after n_iter={i}: it changed by {i / 7:.1g} and 1e-06"]
    table = warning_table(group(*made.everything))
    assert [section.heading for section in table.sections] == ["stopped after n_iter=…: it changed by … and …"]


def test_messages_are_counted_by_method_and_the_most_frequent_are_shown(told):
    made = told(scores, datasets=DATASETS, mechanisms=CONDITIONS, methods=METHODS, knows={}, n_splits=1, n_labellings=1)
    for i, record in enumerate(made.records):
        word = "a" * (i + 1)  # Messages that differ only in numbers would count as one.
        record["warnings"] = [f"stopped at {word}"] if i < MAX_MESSAGES + 2 else ["slow"]
    made.records[-1]["error"] = "ValueError: no"
    results = group(*made.everything)
    table = warning_table(results)
    assert table.head == ("method", "runs", "datasets", "conditions")
    assert len(table.sections) == MAX_MESSAGES
    assert table.sections[0].heading == "slow"
    assert table.caption == "Warnings of methods; the 40 most frequent messages, 3 more are in records.csv"
    assert cells_of(failure_table(results)) == [["m14", "1", "1", "1"]]
    assert failure_table(results).caption == "Failed runs, left out of all means"
