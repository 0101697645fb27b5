"""The story of a page: that of a paper for its experiment, and a plain story for any other experiment."""

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


def test_the_page_of_an_own_experiment_does_not_mention_a_paper(tmp_path):
    (tmp_path / "own.toml").write_text(OWN)
    store = run_experiment(read_spec(tmp_path / "own.toml"), tmp_path / "found")
    assert len(store.records()) == 2 * 2 * 2 * 3
    assert not any("error" in record for record in store.records())
    page = render_results(tmp_path / "found").read_text(encoding="utf-8")
    for text in (
        "Trees in a row", "An experiment, ours, run with scarless", "24 finished of 24",
        "Simulated and Bundled Breast Cancer", "k = 1 and 3 binary attributes, propensity from 0.1 to 0.9",
        "k = 3, methods that know names or less", "methods that know nothing", "SCAR-TIcE",
    ):  # fmt: skip
        assert text in page, text
    for word in ("paper", "publ", "bekker", "correct", "deviation", "q1.", 'verdict"', "friedman p"):
        assert word not in page.lower(), word


def test_an_own_experiment_may_use_the_methods_of_a_paper(tmp_path):
    (tmp_path / "own.toml").write_text(OWN.replace('"scar-tice"', '"published-known-e"'))
    run_experiment(read_spec(tmp_path / "own.toml").only(("simulated",)), tmp_path / "found", methods=METHODS)
    page = render_results(tmp_path / "found").read_text(encoding="utf-8")
    assert "publ. known propensity" in page
    assert "The experiment of the paper" not in page
    assert '<section id="answers"' not in page


@pytest.mark.parametrize("quick", [False, True])
def test_the_experiment_on_some_datasets_has_the_story_of_the_paper(quick):
    spec = bekker2019.specification(quick=quick)
    assert story_of(spec.digest) is bekker2019.STORY
    assert story_of(spec.only(spec.datasets[:1]).digest) is bekker2019.STORY


@pytest.mark.parametrize("change", [{"seed": 1}, {"C": 2.0}, {"n_splits": 4}, {"methods": ("naive",)}, {"title": "x"}])
def test_any_other_change_gives_the_plain_story(change):
    assert story_of(replace(bekker2019.specification(), **change).digest) is PLAIN
