"""Answers to the questions of a specification."""

import pytest

from scarless.report import Story, build_report, render_page
from scarless.report.results import group
from scarless.report.story import answers, story_of_spec

QUESTION = {"better": "sar-em", "than": ["naive"], "by": "mse_f"}
ONE = {"settings": ("all",), "n_propensity_attributes": (2,), "methods": ("naive", "scar-km2", "scar-tice", "sar-em")}


def answer(made, **changes):
    results = group(made.records, made.timings, made.manifest)
    (found,) = answers({"Better?": {**QUESTION, **changes}}, results)
    return found


def by_dataset(**errors):
    """Return a function with the given errors of SAR-EM by dataset; by default, SAR-EM has the error of naive."""
    base = {"naive": 0.2, "scar-km2": 0.3, "scar-tice": 0.4}
    return lambda dataset, setting, k, method: base.get(method, errors.get(dataset, 0.2))


TWO = ("adult", "splice")


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ({"adult": 0.1, "splice": 0.1}, "Yes"),
        ({"adult": 0.3, "splice": 0.3}, "No, clearly worse in every case"),
        ({"adult": 0.1, "splice": 0.3}, "It depends"),
    ],
)
def test_the_verdict_follows_from_clear_differences(make, errors, verdict):
    found = answer(make(noise=1e-6, error=by_dataset(**errors), datasets=TWO, **ONE))
    assert found.verdict == verdict
    better = sum(error < 0.2 for error in errors.values())
    assert f"is better than naive in {better} of 2 cases, in {better} of them clearly" in found.paragraphs[0]
    assert f"it is clearly worse in {2 - better}." in found.paragraphs[0]
    assert found.paragraphs[1].startswith("There is no rank test: a rank test needs at least 3 datasets")


@pytest.mark.parametrize(
    ("errors", "verdict"), [({"adult": 0.1}, "In part"), ({"adult": 0.3}, "No"), ({}, "No clear difference")]
)
def test_equal_scores_are_no_clear_difference(make, errors, verdict):
    found = answer(make(noise=0.0, error=by_dataset(**errors), datasets=TWO, **ONE))
    assert found.verdict == verdict


def test_the_verdict_depends_on_the_rank_test_if_there_is_one(make):
    everywhere = dict.fromkeys(make().spec.datasets, 0.1)
    made = make(noise=1e-6, error=by_dataset(**everywhere), **ONE)
    found = answer(made)  # ranks 1 and 2 of 4, on 8 datasets: nearer than the critical difference of 1.66
    assert found.verdict == "Yes in every case, but the rank test is not significant"
    assert found.paragraphs[1].endswith("in 0 of 1 contests.")
    assert answer(made, than=["scar-tice"]).verdict == "Yes"  # ranks 1 and 4


@pytest.mark.parametrize(("n", "runs"), [(1, "1 run"), (2, "2 runs"), (3, "3 runs")])
def test_with_few_runs_there_is_no_verdict_but_the_number_of_runs(make, n, runs):
    fewer = {**ONE, "n_splits": 1, "n_labellings": n}
    found = answer(make(noise=1e-6, error=by_dataset(adult=0.1), datasets=("adult",), **fewer))
    assert found.verdict == "Too few runs for a verdict"
    assert found.paragraphs[1] == f"Each method has {runs}; a verdict needs at least 4 (n_splits)."


def test_enough_runs_have_a_verdict(make):
    found = answer(make(noise=1e-6, error=by_dataset(adult=0.1), datasets=("adult",), **ONE))
    assert found.verdict == "Yes"
    assert not any("a verdict needs" in sentence for sentence in found.paragraphs)


def test_a_question_about_methods_without_results_is_not_answered(make):
    assert answer(make(datasets=TWO, **ONE), than=["known-e"]).verdict == "Cannot be answered"


def test_questions_and_own_methods_are_on_the_page_and_escaped(make):
    made = make(datasets=TWO, **ONE)
    spec = {
        **made.manifest["spec"],
        "questions": {"Is <b>ours</b> better?": QUESTION},
        "own_methods": {"naive": {"estimator": "a:B", "parameters": {"C": "<i>"}}},
    }
    manifest = {**made.manifest, "spec": spec}
    story = story_of_spec(spec, Story(method_names={}))
    page = render_page(build_report(made.records, made.timings, manifest, story=story))
    assert "Is &lt;b&gt;ours&lt;/b&gt; better?" in page
    assert "a:B(C=&#39;&lt;i&gt;&#39;)" in page
    assert "<b>" not in page
    assert "<i>" not in page


def test_a_specification_without_questions_does_not_change_the_story():
    story = Story()
    assert story_of_spec({}, story) == story


def test_a_mechanism_is_a_separate_condition(make):
    made = make(datasets=TWO, **{**ONE, "settings": ("all",)})
    records = [{**record, "setting": "visits", "k": 0} for record in made.records]
    spec = {
        **made.manifest["spec"],
        "mechanisms": ["visits"],
        "own_mechanisms": {"visits": {"mechanism": "SCAR", "parameters": {"label_frequency": 0.4}}},
    }
    report = build_report(records, made.timings, {**made.manifest, "spec": spec})
    facts = dict(report.facts)
    assert facts["labelling"] == "visits: SCAR with {'label_frequency': 0.4}"
    assert facts["settings"] == "visits: labels come from the mechanism visits"
    assert [figure.name for figure in report.score_figures][:1] == ["mse_f-visits"]
    assert report.score_figures[0].title == "MSE of f, labelled by visits"
    assert report.score_figures[0].legend == ()
    assert "k = 0" not in render_page(report)
    assert len(report.notices) == 0
