"""Figures: positions of marks, texts and axes."""

from itertools import pairwise
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scarless.experiments.statistics import MeanInterval
from scarless.report.figures import (
    PLOT_LEFT,
    PLOT_RIGHT,
    RANKS_LEFT,
    RANKS_RIGHT,
    WIDTH,
    _axis,
    rank_figures,
    score_figures,
)
from scarless.report.names import LABELS, METHOD_NAMES, MethodName
from scarless.report.results import group

FOUR = ("naive", "scar-km2", "scar-tice", "sar-em")


@pytest.fixture(scope="module")
def results(full):
    return group(*full.everything, contests={"four of them": FOUR})


@pytest.fixture(scope="module")
def scores(results):
    return {figure.name: figure for figure in score_figures(results)}


@pytest.fixture(scope="module")
def ranks(results):
    return {figure.name: figure for figure in rank_figures(results)}


def test_there_is_a_figure_per_score_and_setting_and_a_panel_per_dataset(scores, ranks, full):
    names = {f"{score}-{setting}" for score in ("mse_f", "auc_f", "mse_e") for setting in ("all", "original")}
    assert set(scores) == names
    assert set(ranks) == {f"ranks-{name}" for name in names}
    assert all(len(figure.panels) == len(full.spec.datasets) for figure in scores.values())
    assert scores["mse_f-all"].legend == (("k0", "k = 2"), ("k1", "k = 4"))


def test_every_method_has_a_row_with_a_dot_and_a_value_per_k(scores, full):
    panel = scores["mse_f-all"].panels[0]
    assert len(panel.dots) == 2 * len(full.spec.methods)
    assert len([text for text in panel.texts if text.kind.startswith("value")]) == 2 * len(full.spec.methods)
    without_supervised = scores["mse_e-all"].panels[0]
    assert "supervised" not in [text.text for text in without_supervised.texts]


def test_dots_lie_at_their_values_within_their_intervals(scores, full, results):
    panel = scores["mse_f-all"].panels[0]
    intervals = [line for line in panel.lines if line.kind.startswith("interval")]
    values = [float(text.text) for text in panel.texts if text.kind.startswith("value")]
    assert [dot.kind for dot in panel.dots[:2]] == ["k0", "k1"]
    order = sorted(range(len(values)), key=values.__getitem__)
    assert all(panel.dots[a].x <= panel.dots[b].x for a, b in pairwise(order))
    for dot, line in zip(panel.dots, intervals, strict=True):
        (left, y), (right, _) = line.points
        assert left <= dot.x <= right
        assert y == dot.y


def test_the_best_method_that_uses_labels_only_is_bold(scores):
    for name in ("mse_f-all", "auc_f-original"):
        for panel in scores[name].panels:
            best = [text for text in panel.texts if text.kind == "value best"]
            rows = [text.text for text in panel.texts if text.kind == "label" and text.y in {item.y for item in best}]
            assert rows == ["SAR-EM"]
            assert len(best) == 2


def test_nothing_lies_outside_its_panel(scores, ranks):
    for figure in (*scores.values(), *ranks.values()):
        for panel in figure.panels:
            points = [point for line in panel.lines for point in line.points]
            points += [(item.x, item.y) for item in (*panel.dots, *panel.texts)]
            assert all(0 <= x <= WIDTH and 0 <= y <= panel.height for x, y in points)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 2)), min_size=1, max_size=20))
def test_axis_holds_all_values_and_has_two_to_five_ticks(pairs):
    intervals = [MeanInterval(mean, half, 5) for mean, half in pairs]
    axis = _axis(intervals)
    assert all(axis.low <= item.mean <= axis.high for item in intervals)
    assert all(PLOT_LEFT <= axis.x(item.mean - item.half) <= PLOT_RIGHT for item in intervals)
    assert 2 <= len(axis.ticks) <= 5
    assert axis.decimals <= 3
    labels = [f"{tick:.{axis.decimals}f}" for tick in axis.ticks]
    assert len(set(labels)) == len(labels)
    assert all(float(label) == pytest.approx(tick, abs=1e-12) for label, tick in zip(labels, axis.ticks, strict=True))


def test_axis_without_values():
    axis = _axis([MeanInterval(float("nan"), float("nan"), 0)])
    assert (axis.low, axis.high) == (0.0, 1.0)


def test_rank_panel_by_hand(ranks):
    panel = ranks["ranks-mse_f-all"].panels[0]
    assert panel.title == "k = 2, four of them"
    texts = [text.text for text in panel.texts]
    assert texts[1] == "Friedman p < 0.001; 8 datasets; CD 1.66"
    assert {"SAR-EM 1.00", "SCAR-TIcE 2.00", "SCAR-KM2 3.00", "naive 4.00"} <= set(texts)
    step = (RANKS_RIGHT - RANKS_LEFT) / 3
    assert sorted(dot.x for dot in panel.dots) == pytest.approx([RANKS_LEFT + i * step for i in range(4)])
    bars = [line.points for line in panel.lines if line.kind == "bar"]
    ends = [(left[0] + 3, right[0] - 3) for left, right in bars]
    assert ends == [pytest.approx((RANKS_LEFT + i * step, RANKS_LEFT + (i + 1) * step)) for i in range(3)]
    assert len({left[1] for left, _ in bars}) == 3


def test_rank_panel_without_a_test_says_so_and_has_no_bars(make):
    made = make(datasets=("adult", "splice"))
    panel = rank_figures(group(*made.everything))[0].panels[0]
    assert panel.texts[1].text == "No test over 2 datasets."
    assert not [line for line in panel.lines if line.kind == "bar"]


def test_a_method_without_a_score_is_not_ranked_and_the_caption_names_it(make):
    made = make(datasets=("adult", "splice"))
    for record in made.records:
        if record["method"] == "naive":
            record["mse_e"] = None
    (figure,) = [each for each in rank_figures(group(*made.everything)) if each.name == "ranks-mse_e-all"]
    assert all(panel.dots for panel in figure.panels)
    assert not [text.text for panel in figure.panels for text in panel.texts if text.text.startswith("naive")]
    assert figure.caption.endswith("Not ranked, because they do not have this score: naive.")


def test_no_rank_figure_if_no_dataset_has_all_scores(make):
    made = make(datasets=("adult", "splice"))
    gaps = {("adult", "naive"), ("splice", "sar-em")}
    for record in made.records:
        if (record["dataset"], record["method"]) in gaps:
            record["mse_e"] = None
    figures = rank_figures(group(*made.everything))
    assert figures
    assert all(panel.dots for figure in figures for panel in figure.panels)
    assert "ranks-mse_e-all" not in [figure.name for figure in figures]


def test_missing_values_leave_no_dot_and_no_number(make):
    made = make(datasets=("adult", "splice"))
    made.records = [r for r in made.records if (r["dataset"], r["k"], r["method"]) != ("adult", 4, "sar-em")]
    adult, splice = score_figures(group(*made.everything))[0].panels
    assert len(adult.dots) == len(splice.dots) - 1
    assert [text.text for text in adult.texts].count("–") == 1


def test_a_single_run_has_a_dot_and_a_line_of_length_zero(make):
    made = make(n_splits=1, n_labellings=1, datasets=("adult",))
    panel = score_figures(group(*made.everything))[0].panels[0]
    lines = [line for line in panel.lines if line.kind.startswith("interval")]
    assert all(left == right for left, right in (line.points for line in lines))
    assert all(isfinite(dot.x) for dot in panel.dots)


def test_specification_with_one_method_has_no_rank_figures(make):
    assert rank_figures(group(*make(methods=("naive",), datasets=("adult",)).everything)) == []


def test_by_default_all_methods_that_use_labels_only_are_ranked(full):
    (panel, _) = rank_figures(group(*full.everything))[0].panels
    assert panel.title == "k = 2, methods that use labels only"
    named = {text.text.rpartition(" ")[0] for text in panel.texts if text.kind == "label"}
    assert named == {"naive", "SCAR-KM2", "SCAR-TIcE", "SAR-EM", "SAR-EM refitted"}


def test_only_the_given_scores_are_drawn(results):
    for draw, prefix in ((score_figures, ""), (rank_figures, "ranks-")):
        found = [figure.name for figure in draw(results, ("class_prior_error", "no such score"))]
        assert found == [f"{prefix}class_prior_error-{setting}" for setting in ("all", "original")]


def test_rank_panels_use_short_names(full):
    names = {**METHOD_NAMES, "sar-em": MethodName("SAR-EM of somebody", LABELS, "", short="SAR-EM")}
    (panel, _) = rank_figures(group(*full.everything, method_names=names))[0].panels
    assert "SAR-EM 1.00" in [text.text for text in panel.texts]
