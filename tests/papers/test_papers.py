"""Whose an experiment is: a paper's with its story, or anybody's, with none."""

from dataclasses import replace

import pytest

from scarless.experiments import read_spec, run_experiment
from scarless.papers import METHODS, PLAIN, bekker2019, render_results, story_of

OWN = """
name = "ours"
title = "Trees in a row"
seed = 31
datasets = ["simulated", "bundled_breast_cancer"]
settings = ["original"]
n_propensity_attributes = [1, 3]
n_splits = 2
n_labellings = 1
test_share = 0.3
methods = ["naive", "scar-tice", "sar-em"]
labelling = {added_attributes = 3, clusters = 2, low = 0.1, high = 0.9}
options = {C = 2.0, km_max_rows = 50}
"""


def test_an_experiment_without_a_paper_runs_and_its_page_says_nothing_of_any(tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    store = run_experiment(read_spec(tmp_path / "own.toml"), tmp_path / "found")
    assert len(store.records()) == 2 * 2 * 2 * 3
    assert not any("error" in record for record in store.records())
    page = render_results(tmp_path / "found").read_text(encoding="utf-8")
    for text in (
        "Trees in a row", "An experiment, ours, run with scarless", "24 finished of 24",
        "Simulated and Bundled Breast Cancer", "k = 1 and 3 binary attributes, propensity from 0.1 to 0.9",
        "k = 3, methods that use labels only", "The ranking compares the methods that use labels only.", "SCAR-TIcE",
    ):  # fmt: skip
        assert text in page, text
    for word in ("paper", "publ", "bekker", "correct", "deviation", "q1.", 'verdict"', "friedman p"):
        assert word not in page.lower(), word


def test_an_experiment_of_ones_own_may_use_a_papers_methods(tmp_path):
    (tmp_path / "own.toml").write_text(OWN.replace('"scar-tice"', '"published-known-e"'))
    run_experiment(read_spec(tmp_path / "own.toml").only(("simulated",)), tmp_path / "found", methods=METHODS)
    page = render_results(tmp_path / "found").read_text(encoding="utf-8")
    assert "publ. known propensity" in page
    assert "The experiment of the paper" not in page
    assert '<section id="answers"' not in page


@pytest.mark.parametrize("quick", [False, True])
def test_a_part_of_the_papers_experiment_is_the_papers(quick):
    spec = bekker2019.specification(quick=quick)
    assert story_of(spec.digest) is bekker2019.STORY
    assert story_of(spec.only(spec.datasets[:1]).digest) is bekker2019.STORY


@pytest.mark.parametrize("change", [{"seed": 1}, {"C": 2.0}, {"n_splits": 4}, {"methods": ("naive",)}, {"title": "x"}])
def test_whatever_else_is_changed_makes_it_another_experiment(change):
    assert story_of(replace(bekker2019.specification(), **change).digest) is PLAIN
