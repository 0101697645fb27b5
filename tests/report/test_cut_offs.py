"""Methods that share a ranking, and what their cut-offs change."""

import pytest
from tests.helpers import cells_of

from scarless.report.cut_offs import cut_offs_chapter, equal_rankings
from scarless.report.results import group

METHODS = ("supervised", "naive", "pglin", "ntc-tmi", "sar-em")
OWN = {"supervised": 0.9, "naive": 0.5, "pglin": 0.6, "ntc-tmi": 0.7, "sar-em": 0.8}
SHARED = ("naive", "pglin", "ntc-tmi")


def scores(dataset, setting, method, run):
    ranking = {"supervised": 0.95, "sar-em": 0.85}.get(method, 0.8) + 0.01 * run
    return {
        "auc_f": ranking, "average_precision": ranking - 0.1, "balanced_accuracy": OWN[method],
        "balanced_accuracy_at_prior": 0.75 if method in SHARED else 0.83, "share_positive": 0.25,
    }  # fmt: skip


def make(told, change=lambda record: None, score=scores):
    made = told(score, datasets=("a", "b"), mechanisms=("S1",), methods=METHODS)
    for record in made.records:
        change(record)
    return group(*made.everything)


def test_methods_with_equal_scores_in_every_run_share_a_ranking(told):
    assert equal_rankings(make(told)) == [SHARED]


@pytest.mark.parametrize("score", ["auc_f", "average_precision"])
@pytest.mark.parametrize(("step", "same"), [(0.019, True), (0.021, False)], ids=["swapped rows", "difference"])
def test_one_run_with_another_score_separates_methods(told, score, step, same):
    def change(record):
        if (record["method"], record["dataset"], record["split"], record["labelling"]) == ("pglin", "b", 1, 1):
            record[score] += step

    assert equal_rankings(make(told, change)) == [SHARED if same else ("naive", "ntc-tmi")]


def test_rankings_must_be_equal_in_half_of_the_runs(told):
    def change(record):
        if record["method"] == "pglin" and (record["dataset"], record["split"]) != ("a", 0):
            record["auc_f"] += 2e-9

    assert equal_rankings(make(told, change)) == [("naive", "ntc-tmi")]


def test_only_common_runs_count(told):
    made = told(scores, datasets=("a", "b"), mechanisms=("S1",), methods=METHODS)
    made.fail(method="pglin", dataset="b")
    assert equal_rankings(group(*made.everything)) == [SHARED]
    made.fail(method="pglin")
    assert equal_rankings(group(*made.everything)) == [("naive", "ntc-tmi")]


def test_perfect_rankings_are_not_evidence_of_one_ranking(told):
    def perfect(*key):
        return {**scores(*key), "auc_f": 1.0, "average_precision": 1.0}

    assert equal_rankings(make(told, score=perfect)) == []


def test_the_chapter_has_the_decisions_beside_each_other_and_says_what_the_cut_off_explains(told):
    chapter = cut_offs_chapter(make(told))
    assert chapter.title == "One ranking, several cut-offs"
    (table,) = chapter.tables
    assert cells_of(table) == [
        ["ntc-tmi", "nothing", "0.250", "0.700", "0.750", "−0.050"],
        ["pglin", "nothing", "0.250", "0.600", "0.750", "−0.150"],
        ["naive", "nothing", "0.250", "0.500", "0.750", "−0.250"],
    ]
    group_sentence, overall = (point.text for point in chapter.lists[0].points)
    assert group_sentence == (
        "naive, pglin and ntc-tmi share one ranking. Their balanced accuracy by own decision lies between 0.500 "
        "(naive) and 0.700 (ntc-tmi): the cut-off alone explains a difference of 0.200. With the cut-off at the true "
        "prior, all have 0.750."
    )
    # Own decisions 0.5, 0.6, 0.7, 0.8: variance 0.0125. At the prior 0.75 three times and 0.83: 0.08 * sqrt(3) / 4.
    assert "Over all 4 methods that do not know the classes" in overall
    assert "is 0.112 by own decision and 0.035 with the cut-off at the true prior" in overall
    assert "their means are 0.650 and 0.770" in overall


def test_decisions_at_the_prior_that_differ_are_shown_as_a_range(told):
    def change(record):
        if record["method"] == "pglin":
            record["balanced_accuracy_at_prior"] = 0.74

    sentence = cut_offs_chapter(make(told, change)).lists[0].points[0].text
    assert sentence.endswith("With the cut-off at the true prior, all have between 0.740 and 0.750.")


def test_decisions_that_are_equal_are_called_equal(told):
    def change(record):
        record["balanced_accuracy"] = 0.6

    sentence = cut_offs_chapter(make(told, change)).lists[0].points[0].text
    assert "share one ranking. Their own decisions have the same balanced accuracy, 0.600. With the" in sentence


def test_without_common_decisions_the_sentence_says_so(told):
    def change(record):
        if record["method"] == "pglin":
            del record["balanced_accuracy"]

    sentence = cut_offs_chapter(make(told, change)).lists[0].points[0].text
    assert sentence.endswith("share one ranking, but no run has the own decisions of all of them.")


@pytest.mark.parametrize("lacking", ["balanced_accuracy", "auc_f", "average_precision"])
def test_without_decisions_or_rankings_there_is_no_chapter(told, lacking):
    assert cut_offs_chapter(make(told, lambda record: record.pop(lacking))) is None


def test_without_scores_at_the_prior_there_is_no_sentence_about_all_methods(told):
    chapter = cut_offs_chapter(make(told, lambda record: record.pop("balanced_accuracy_at_prior")))
    assert len(chapter.lists[0].points) == 1
    assert cells_of(chapter.tables[0])[0][4:] == ["–", "–"]


def test_without_methods_that_share_a_ranking_there_is_no_chapter(told):
    def apart(dataset, setting, method, run):
        return {**scores(dataset, setting, method, run), "auc_f": 0.5 + OWN[method] / 10}

    assert cut_offs_chapter(make(told, score=apart)) is None
