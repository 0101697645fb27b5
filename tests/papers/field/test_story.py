"""The sentences of the comparison of the field follow from its records, also if some are missing or failed."""

import re

import pytest
from tests.report.conftest import Told

from scarless.papers.field.story import STORY, answers, leaders
from scarless.report.page import build_report
from scarless.report.results import group

KNOWS = {
    "supervised": "classes", "known-e": "propensity", "upu-prior": "prior", "stack": "names", "stack-balanced": "names",
}  # fmt: skip
METHODS = (
    "supervised", "known-e", "naive", "pglin", "upu-prior", "stack", "stack-balanced", "stack-nameless",
    "stack-nameless-balanced", "sarem-nameless",
)  # fmt: skip
QUESTIONS = (
    "Where does ours lose?",
    "Who wins when nothing is known, and labels are biased?",
    "Who wins when the propensity attributes are known?",
    "Who wins when the class prior is known, and labels are biased?",
    "Who wins when nothing is known, and labels are SCAR?",
    "How much does the cut-off explain, and how much the ranking?",
)
VALUES = {
    "supervised": 0.95, "known-e": 0.9, "naive": 0.6, "pglin": 0.65, "upu-prior": 0.7, "stack": 0.85,
    "stack-nameless": 0.75, "sarem-nameless": 0.8,
}  # fmt: skip


BETTER_BY_BALANCED_DECISION = 0.01


def scores(dataset, setting, method, run):
    fit = method.removesuffix("-balanced")
    value = VALUES[fit] + 0.001 * run + 0.0001 * len(dataset)
    own = value + BETTER_BY_BALANCED_DECISION * (method != fit)
    found = {"balanced_accuracy": own, "balanced_accuracy_at_prior": value + 0.1 * (method == "naive")}
    return found if method in ("pglin",) else {**found, "mse_f": 1.0 - value}


def invented(values=scores, **changes):
    options = {"datasets": ("a", "bb", "ccc"), "mechanisms": ("step-c0.1", "step-c0.5", "S1-c0.1"), "methods": METHODS}
    return Told(values, **{**options, "knows": KNOWS, **changes})


def answered(made):
    results = group(*made.everything, method_names=STORY.method_names)
    return {each.question: each for each in answers(results)}


def test_every_question_is_answered():
    assert tuple(answered(invented())) == QUESTIONS


def test_a_method_that_is_told_names_does_not_answer_the_question_about_the_prior():
    """Who knows the class prior does not know the names of the propensity attributes."""
    found = answered(invented())
    assert found[QUESTIONS[2]].verdict == "stack, balanced and stack"
    assert "stack (0.8" not in "".join(found[QUESTIONS[3]].paragraphs)
    assert found[QUESTIONS[3]].verdict == "SAREM, no names"
    assert found[QUESTIONS[1]].verdict == "SAREM, no names"


def test_ours_is_compared_with_methods_of_the_field_only():
    (sentence, *_) = answered(invented())[QUESTIONS[0]].paragraphs
    assert sentence == (
        "balanced accuracy by the balanced decision: no method of the field has a better mean than stack, no names, "
        "balanced in any of 3 conditions."
    ), "SAREM, no names is better, but is ours"


def test_own_decisions_of_ours_are_balanced_and_share_the_ranking_with_predict():
    def lost_by_predict_only(dataset, setting, method, run):
        at = VALUES["stack-nameless"] + BETTER_BY_BALANCED_DECISION / 2
        return scores(dataset, setting, method, run) | ({"balanced_accuracy": at} if method == "pglin" else {})

    found = answered(invented(lost_by_predict_only, methods=[each for each in METHODS if each != "sarem-nameless"]))
    assert found[QUESTIONS[0]].verdict == "In 0 of 18 comparisons"
    own, ranking, _ = found[QUESTIONS[1]].paragraphs
    assert own.startswith("balanced accuracy: stack, no names, balanced (0.762), before PGlin (0.755)")
    assert ranking.startswith("bal. acc. at prior: stack, no names (0.752), before naive")


def test_conditions_in_which_ours_has_no_result_are_not_counted_as_won():
    made = invented()
    for method in ("stack-nameless", "stack-nameless-balanced"):
        made.fail(method=method, setting="step-c0.5", dataset="a")
        made.fail(method=method, setting="S1-c0.1")
    first, second, third, *_ = answered(made)[QUESTIONS[0]].paragraphs
    assert first == (
        "balanced accuracy by the balanced decision: stack, no names, balanced lacks results that other methods have "
        "in step-c0.5 and S1-c0.1, so it is not judged there."
    )
    assert second == (
        "balanced accuracy by the balanced decision: no method of the field has a better mean than stack, no names, "
        "balanced in the one condition with results."
    )
    assert third.startswith("bal. acc. at prior: stack, no names lacks results")


def test_ours_that_always_failed_is_not_called_the_best():
    made = invented()
    for method in (name for name in METHODS if name.startswith("stack")):
        made.fail(method=method)
    found = answered(made)[QUESTIONS[0]]
    assert found.verdict == "Cannot be answered"
    assert not re.search("no method of the field", "".join(found.paragraphs))


def test_methods_that_lack_a_case_are_named_and_not_ranked():
    made = invented()
    made.fail(method="sarem-nameless", setting="step-c0.5", dataset="a")
    found = answered(made)[QUESTIONS[1]]
    assert found.verdict == "stack, no names, balanced and stack, no names"
    assert found.paragraphs[0].endswith("Not ranked, because cases lack results: SAREM, no names (1 of 6).")


def test_methods_that_lack_different_cases_are_not_compared():
    """Both have five of six cases, but not the same ones."""
    made = invented(methods=("naive", "pglin"))
    made.fail(method="naive", setting="step-c0.5", dataset="a")
    made.fail(method="pglin", setting="step-c0.5", dataset="bb")
    results = group(*made.everything, method_names=STORY.method_names)
    assert leaders(results, "nothing", results.conditions[:2], "balanced_accuracy") == []
    assert QUESTIONS[1] not in answered(made)


def test_cases_that_have_not_been_run_leave_the_other_cases():
    made = invented()
    made.records = [each for each in made.records if (each["dataset"], each["setting"]) != ("ccc", "S1-c0.1")]
    assert tuple(answered(made)) == QUESTIONS
    report = build_report(*made.everything, story=STORY)
    assert all(each.verdict.endswith(", so far") for each in report.answers)


def test_a_condition_without_any_record_is_not_counted():
    made = invented()
    made.records = [each for each in made.records if each["setting"] != "step-c0.5"]
    found = answered(made)
    assert tuple(found) == QUESTIONS
    assert "in any of 2 conditions" in found[QUESTIONS[0]].paragraphs[0]
    assert "lacks results" not in "".join(found[QUESTIONS[0]].paragraphs)


def test_one_ranking_has_no_correlation_with_its_cut_offs():
    def one_ranking(dataset, setting, method, run):
        return {"balanced_accuracy": VALUES[method.removesuffix("-balanced")], "balanced_accuracy_at_prior": 0.9}

    found = answered(invented(one_ranking))[QUESTIONS[5]]
    assert found.verdict == "Mostly the cut-off"
    assert "nan" not in "".join(found.paragraphs)
    assert found.paragraphs[1] == (
        "Compared with a cut at the true prior, the own cut-off is worst for naive (-0.300) and best for known "
        "propensity (+0.000)."
    )


@pytest.mark.parametrize("datasets", [("a",), ("a", "bb")], ids=["one dataset", "two datasets"])
def test_one_dataset_has_no_interval_and_no_clear_difference(datasets):
    found = answered(invented(datasets=datasets))
    text = " ".join(each for answer in found.values() for each in answer.paragraphs)
    assert "nan" not in text
    assert ("±" in text) == (len(datasets) > 1)
    if len(datasets) == 1:
        assert "a clear difference" not in text.replace("not a clear difference", "")


def test_all_failed_or_one_method():
    made = invented()
    made.fail()
    assert answered(made) == {}
    assert build_report(*made.everything, story=STORY).answers == ()
    assert answered(invented(methods=("naive",))) == {}
