"""The page and the JSON file about drift."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.diagnostics.drift.test_drift import month

from scarless import SAREMClassifier
from scarless.diagnostics import detect_drift
from scarless.report.drift import column_panel, drift_json, drift_page, group_panel


@pytest.fixture(scope="module")
def found():
    X, s, _ = month(0, 1500)
    model = SAREMClassifier(propensity_attributes=[2, 3]).fit(X, s)
    X_new, s_new, _ = month(2, 800, halved=True)
    return detect_drift(
        model, X_new, s_new, reference=X[:400], time=np.where(X_new[:, 0] > 0, "2024-01-01", "2024-05-01")
    )


class Texts(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_page_is_self_contained_and_says_the_verdict_first(found):
    page = Texts(drift_page(found, {"new rows": "may <b>.csv", "model": "run/model.skops"}))
    assert not [each for each in page.tags if each[0] == "script" or "src" in each[1]]
    assert [each[1]["href"] for each in page.tags if "href" in each[1]] == ["data:,"]
    assert page.text.index("look at the labelling") < page.text.index("Do labels arrive as often as predicted?")
    for sentence in (found.reason, found.finding_on_columns(), found.finding_on_positives(), "may <b>.csv"):
        assert sentence in page.text
    assert sum(tag == "svg" for tag, _ in page.tags) == 1 + len(found.shown_groups()) - 1


def test_the_page_without_labels_reference_and_positives(found):
    bare = replace(found, labels=None, columns=None, positives=None, positives_if_prior_changed=None)
    page = Texts(drift_page(bare))
    assert "Labels: there are none" in page.text
    assert "Columns: not compared." in page.text
    assert not any(tag == "svg" for tag, _ in page.tags)
    assert column_panel(bare) is None


def test_no_predictions_are_drawn_if_a_column_must_be_corrected(found):
    wrong = replace(found, columns=replace(found.columns, wrong_types=("x0",)))
    page = Texts(drift_page(wrong))
    assert "Labels: their predicted number rests on columns that must be corrected first." in page.text
    assert "Labels by" not in page.text
    assert sum(tag == "svg" for tag, _ in page.tags) == 1  # of the columns


def test_json_has_all_numbers(found):
    read = json.loads(drift_json(found, {"model": "m"}))
    assert read["schema"] == 2
    assert read["verdict"] == "look at the labelling"
    assert read["labels"]["groups"][0]["observed"] == [float(found.n_labelled)]
    assert len(read["columns"]) == 4
    assert read["positives"][1] < read["positives"][0] < read["positives"][2]
    assert read["run"] == {"model": "m"}
    assert json.loads(drift_json(replace(found, labels=None)))["labelled"] is None


def test_drawings_show_every_group(found):
    groups = found.labels.time
    panel = group_panel(groups)
    assert [each.text for each in panel.texts if each.kind == "label"] == list(groups.names)
    assert len(panel.dots) == len(groups.names)
    assert f"{groups.names[0]}: {groups.observed[0]:.0f} observed" in panel.description
    assert len(column_panel(found).dots) == 4
