"""Grouping of records into results, and comparisons of methods."""

import numpy as np
import pytest

from scarless.report.results import Condition, Row, group


@pytest.fixture
def small(make):
    return make(
        datasets=("adult", "splice"), settings=("all",), n_propensity_attributes=(4,), n_splits=2, n_labellings=2,
        methods=("naive", "sar-em"),
    )  # fmt: skip


ROW = Row("adult", "all", 4, "sar-em")


def test_counts_of_a_complete_experiment(small):
    results = group(*small.everything)
    assert (results.n_expected, results.n_finished, results.n_failed) == (16, 16, 0)
    assert results.datasets == ("adult", "splice")
    assert results.missing_datasets == ()
    assert results.conditions == (Condition("all", 4),)


def test_mean_is_over_the_runs_of_a_row(small):
    results = group(*small.everything)
    values = [r["mse_f"] for r in small.records if (r["dataset"], r["method"]) == ("adult", "sar-em")]
    assert results.interval(ROW, "mse_f").mean == pytest.approx(np.mean(values))
    assert results.interval(ROW, "mse_f").n == 4
    assert results.interval(ROW, "no such score").n == 0


def test_failed_runs_are_counted_and_left_out_of_means_and_times(small):
    bad = next(r for r in small.records if (r["dataset"], r["method"]) == ("adult", "sar-em"))
    for name in ("mse_f", "auc_f", "mse_e"):
        del bad[name]
    bad["error"] = "ValueError: no"
    results = group(*small.everything)
    assert (results.n_finished, results.n_failed) == (15, 1)
    assert results.interval(ROW, "mse_f").n == 3
    assert len(results.seconds[ROW]) == 3
    assert results.failed[ROW] == [bad]


def test_missing_runs_and_datasets_are_detected(small):
    small.records = [record for record in small.records if record["dataset"] == "splice"][1:]
    results = group(*small.everything)
    assert results.datasets == ("splice",)
    assert results.missing_datasets == ("adult",)
    assert (results.n_expected, results.n_finished) == (16, 7)
    assert results.interval(ROW, "mse_f").n == 0


def test_a_dataset_with_only_failed_runs_is_not_missing(small):
    small.records = [{**record, "error": "no"} if record["dataset"] == "adult" else record for record in small.records]
    results = group(*small.everything)
    assert results.missing_datasets == ()
    assert results.datasets == ("splice",)


def test_gain_is_paired_by_run_and_positive_if_the_first_method_is_better(small):
    naive, splits = Row("adult", "all", 4, "naive"), {0: 0.3, 1: 0.1}
    for record in small.records:
        record["mse_f"] = splits[record["split"]] + (0.05 if record["method"] == "naive" else 0.0)
        record["auc_f"] = 1 - record["mse_f"]
    results = group(*small.everything)
    for score in ("mse_f", "auc_f"):
        found = results.gain(ROW, naive, score)
        assert found.mean == pytest.approx(0.05)
        assert found.half < 1e-12  # The differences between splits cancel.
        assert results.gain(naive, ROW, score).mean == pytest.approx(-0.05)
    assert results.interval(ROW, "mse_f").half > 0.1


def test_gain_uses_only_runs_that_both_have(small):
    small.records = [r for r in small.records if r["method"] == "naive" or (r["split"], r["labelling"]) == (0, 1)]
    assert group(*small.everything).gain(ROW, Row("adult", "all", 4, "naive"), "mse_f").n == 1


def test_comparison_ranks_methods_of_the_specification_only(full):
    results = group(*full.everything)
    found = results.compare(Condition("all", 2), "mse_f", ("naive", "no such method", "sar-em", "scar-tice"))
    assert found.methods == ("naive", "sar-em", "scar-tice")
    assert found.average_ranks.tolist() == [3, 1, 2]
    by_area = results.compare(Condition("all", 2), "auc_f", ("naive", "sar-em", "scar-tice"))
    assert by_area.average_ranks.tolist() == [3, 1, 2]
