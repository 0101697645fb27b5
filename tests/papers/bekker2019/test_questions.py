"""Answers to the paper's questions, for made-up results."""

import re

import pytest

from scarless.papers.bekker2019 import STORY
from scarless.papers.bekker2019.questions import (
    answers,
    does_sar_beat_scar,
    does_the_number_matter,
    explained,
    is_the_propensity_recovered,
)
from scarless.report import build_report
from scarless.report.results import Condition


def of(made):
    return made.results


def words(answer):
    return " ".join((answer.verdict, *answer.paragraphs)).replace("\xa0", " ")


def with_error(make, hero, **changes):
    """Return results in which `hero` gives the error of SAR-EM, and all other methods have their usual error."""
    return make(error=lambda d, s, k, m: hero(d, s, k) if m == "sar-em" else make.usual_error[m], **changes)


def test_q1_first_on_every_dataset_but_not_significantly(full):
    answer = does_sar_beat_scar(of(full))
    assert answer.verdict == "Yes on every dataset, but the rank test is not significant"
    assert (
        "in 0 of 4 conditions (Friedman, then Nemenyi at 5%). For significance, average ranks must differ by 1.66."
        in words(answer)
    )
    assert "has the same direction as in the paper" in words(answer)


def test_q1_first_on_most_datasets_is_not_significant(make):
    answer = does_sar_beat_scar(of(with_error(make, lambda d, s, k: 0.3 if d == "mushroom" else 0.05)))
    assert answer.verdict == "By average rank, but not significantly"
    assert "clearly higher in 8: Mushroom (all, k = 2, SCAR-KM2)" in words(answer)


def test_q1_yes_needs_significance_against_every_scar_method(make):
    # Naive is second, and each SCAR method is third on half of the datasets: the mean ranks are 1, 2, 3.5 and 3.5.
    def error(dataset, setting, k, method):
        turn = dataset in ("newsgroups", "adult", "breastcancer", "covtype")
        return {"sar-em": 0.05, "naive": 0.1, "scar-km2": 0.2 + 0.1 * turn, "scar-tice": 0.25}.get(method, 0.3)

    answer = does_sar_beat_scar(of(make(error=error)))
    assert answer.verdict == "Yes"
    assert "each time significantly (Friedman, then Nemenyi at 5%). This agrees with the paper." in words(answer)
    assert "lower in 64 of 64 cases, in 64 of them clearly" in words(answer)
    assert "clearly higher in none" in words(answer)


def test_q1_no_if_sar_em_is_worse_on_every_dataset(make):
    answer = does_sar_beat_scar(of(with_error(make, lambda *_: 0.3)))
    assert answer.verdict == "No"
    assert "worse average rank than SCAR-KM2 and SCAR-TIcE in all 4 conditions" in words(answer)
    assert "This contradicts the paper." in words(answer)
    assert "lower in 0 of 64 cases" in words(answer)
    assert re.search(r"clearly higher in 64: 20 Newsgroups \(all, k = 2, SCAR-KM2\);.*; and 58 more", words(answer))


def test_q1_depends_on_the_condition(make):
    answer = does_sar_beat_scar(of(with_error(make, lambda d, s, k: 0.05 if s == "original" else 0.3)))
    assert answer.verdict == "It depends"
    assert "in 2 of 4 conditions (original, k = 2; original, k = 4), significantly in 0 of these" in words(answer)
    assert "confirms the paper in part" in words(answer)


def test_q1_between_the_two_scar_methods_is_not_better(make):
    answer = does_sar_beat_scar(of(with_error(make, lambda *_: 0.115)))
    assert answer.verdict == "Not in this run"
    assert "This does not confirm the paper." in words(answer)


def test_q1_ties_are_no_wins(make):
    answer = does_sar_beat_scar(of(make(noise=0.0, error=lambda *_: 0.1)))
    assert answer.verdict == "Not in this run"
    assert "all methods have the same score on every dataset" in words(answer)
    assert "lower in 0 of 64 cases, in 0 of them" in words(answer)


def test_q1_no_clear_difference_if_the_noise_is_larger(make):
    made = with_error(make, lambda *_: 0.1099, noise=0.1, n_splits=1, n_labellings=2, datasets=("adult",))
    item = does_sar_beat_scar(of(made))
    (clear,) = re.findall(r"SCAR method\).*?in (\d+) of them clearly", words(item))
    assert int(clear) <= 1
    assert "needs at least 3 datasets with results of all methods; there is 1" in words(item)
    assert "differs significantly" not in words(item)


def test_q1_reports_how_many_datasets_of_the_paper_it_uses(make, full):
    some = does_sar_beat_scar(of(make(datasets=("adult", "splice", "mushroom"))))
    assert "This is based on 3 of the paper's 8 datasets." in words(some)
    others = does_sar_beat_scar(of(make(datasets=("simulated", "adult", "splice"))))
    assert "The paper used other datasets, so this cannot be compared with it." in words(others)
    assert "rests on" not in words(does_sar_beat_scar(of(full)))


def test_q1_closeness_to_supervised_by_hand(make):
    answer = does_sar_beat_scar(of(make(noise=0.0)))
    share = (0.20 - 0.07) / (0.20 - 0.04)  # 81%
    assert f"SAR-EM closes {share:.0%} of the gap in error between naive and supervised" in words(answer)
    assert "in the median of 32 cases (from 81% to 81%)" in words(answer)
    assert "at least 90% in 0 of them" in words(answer)


def test_q1_table_by_hand(make):
    answer = does_sar_beat_scar(of(make(noise=0.0)))
    row = [cell.text for cell in answer.tables[0].sections[0].rows[0]]
    assert row == ["SCAR-KM2", "8 of 8", "8", "0", "+0.0500", "1.00 / 3.00", "0.010"]
    assert answer.tables[0].sections[0].rows[0][-1].strong


def test_q1_without_the_methods_cannot_be_answered(make):
    answer = does_sar_beat_scar(of(make(methods=("naive", "sar-em"))))
    assert answer.verdict == "Cannot be answered"
    assert "there are no results for both SAR-EM and a SCAR method" in words(answer)


@pytest.mark.parametrize(
    ("error", "verdict", "claim"),
    [
        (lambda d, s, k: 0.004, "Yes", "agrees with the paper"),
        (lambda d, s, k: 0.03 if d == "adult" else 0.004, "Mostly", "in most cases but not in all"),
        (lambda d, s, k: 0.02, "In part", "for some cases only"),
        (lambda d, s, k: 0.08, "No", "does not confirm the finding"),
    ],
)
def test_q2_verdicts(make, error, verdict, claim):
    usual = {"naive": 0.33, "known-c": 0.04, "known-e": 0.0}
    made = make(noise=0.0, propensity_error=lambda d, s, k, m: error(d, s, k) if m == "sar-em" else usual.get(m, 0.05))
    answer = is_the_propensity_recovered(of(made))
    assert answer.verdict == verdict
    assert claim in words(answer)


def test_q2_numbers_by_hand(make):
    made = make(noise=0.0)
    results = of(made)
    assert explained(results, "adult", Condition("all", 2)) == pytest.approx(1 - 0.005 / 0.04)
    text = words(is_the_propensity_recovered(results))
    assert "explains 88% of the variance of propensities" in text
    assert "between 0.2 and 0.8, is 0.071 in the median case" in text
    assert "it is closer to the truth in none." in text
    assert "lower in 64 of 64 cases" in text


def test_q2_names_cases_in_which_a_constant_is_better(make):
    made = make(propensity_error=lambda d, s, k, m: 0.09 if (d, m) == ("mushroom", "sar-em") else 0.01)
    assert "Mushroom (all, k = 2)" in words(is_the_propensity_recovered(of(made)))


def test_q2_without_the_constant_or_without_propensities(make):
    answer = is_the_propensity_recovered(of(make(methods=("naive", "sar-em"))))
    assert answer.verdict == "Judge by the errors"
    assert is_the_propensity_recovered(of(make(methods=("naive",)))).verdict == "Cannot be answered"


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (lambda d, s, k: 0.07 + 0.02 * (k == 4), "More attributes are harder on most datasets"),
        (lambda d, s, k: 0.07 - 0.02 * (k == 4), "More attributes are easier on most datasets"),
        (
            lambda d, s, k: 0.07 + 0.02 * (k == 4) * {"adult": 1, "splice": -1}.get(d, 0),
            "It differs between datasets, in both directions",
        ),
        (
            lambda d, s, k: 0.07 + 0.02 * (k == 4) * (d == "adult"),
            "No clear effect on most datasets; on the others, more attributes are harder",
        ),
        (lambda d, s, k: 0.07, "No clear effect"),
        (
            lambda d, s, k: 0.07 + 0.02 * (k == 4) * (1 if s == "all" else -1),
            "It depends on the attributes of the classifier",
        ),
    ],
)
def test_q3_verdicts(make, error, verdict):
    # Without noise, every difference is either exactly 0 or clear.
    answer = does_the_number_matter(of(with_error(make, error, noise=0.0)))
    assert answer.verdict == verdict


def test_q3_numbers_by_hand(make):
    answer = does_the_number_matter(of(with_error(make, lambda d, s, k: 0.01 * k, noise=0.0)))
    assert "from 2 to 4 propensity attributes, the MSE of f of SAR-EM changes by +0.0200 on average over 8" in words(
        answer
    )
    rows = [[cell.text for cell in row] for row in answer.tables[0].sections[0].rows]
    assert rows == [
        ["MSE of f, SAR-EM", "0.0200", "0.0400"],
        ["MSE of e, SAR-EM", "0.0050", "0.0050"],
        ["propensity explained, median", "88%", "88%"],
        ["lead over SCAR-KM2 in MSE of f", "+0.1000", "+0.0800"],
        ["lead over SCAR-TIcE in MSE of f", "+0.0900", "+0.0700"],
    ]


def test_q3_needs_two_numbers_of_attributes(make):
    answer = does_the_number_matter(of(make(n_propensity_attributes=(4,))))
    assert answer.verdict == "Cannot be answered"
    assert "all runs have the same number, 4" in words(answer)


def test_q3_needs_results_of_both(make):
    made = make(datasets=("adult",))
    made.records = [record for record in made.records if record["k"] == 2]
    answer = does_the_number_matter(of(made))
    assert "there are no results for SAR-EM with both 2 and 4" in words(answer)


def test_incomplete_results_give_preliminary_answers(full, make):
    assert not any("so far" in answer.verdict for answer in build_report(*full.everything, story=STORY).answers)
    made = make(datasets=("adult", "splice", "mushroom"))
    made.records = made.records[:-1]
    report = build_report(*made.everything, story=STORY)
    assert all(answer.verdict.endswith(", so far") for answer in report.answers)
    assert any("not complete: 575 of 576 runs are finished" in notice for notice in report.notices)


def test_answers_from_one_run_or_only_failures(make):
    made = make(datasets=("adult", "splice"))
    made.records = made.records[:1]
    assert len(answers(of(made))) == 3
    made.records = [{**record, "error": "no"} for record in made.records]
    assert [answer.verdict for answer in answers(of(made))] == ["Cannot be answered"] * 3


def test_differences_within_the_noise_are_not_clear(make):
    made = make(noise=0.0, error=lambda *_: 0.1, datasets=("adult", "splice", "mushroom", "covtype"))
    for record in made.records:
        if (
            record["method"] == "sar-em"
        ):  # worse by 0.001 on two datasets, better by 0.001 on the others; half-width 0.018
            shift = 0.001 if record["dataset"] in ("adult", "splice") else -0.001
            record["mse_f"] += shift + 0.01 * (2 * record["labelling"] - 1)
    text = words(does_sar_beat_scar(of(made)))
    assert "lower in 16 of 32 cases, in 0 of them clearly. It is clearly higher in none" in text
