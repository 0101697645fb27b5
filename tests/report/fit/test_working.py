"""The rows that the reader of a page can sort, filter and download: embedded data, escaping, size and markup."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from tests.helpers import fit_quietly
from tests.report.fit.test_page import HOSTILE, outline

from scarless import SAREMClassifier, SARStackingClassifier, TableClassifier
from scarless.diagnostics import yield_curve
from scarless.diagnostics.audits.yields import ASSUMES_FREQUENCY, SENTENCE
from scarless.diagnostics.fit import rows as ranked_rows
from scarless.diagnostics.fit.subject import Subject
from scarless.report import model_report
from scarless.report.fit import working
from scarless.report.fit.data import IntervalEstimate, PriorStep, Ranked, RankedRow, RankReason, Yield


def embedded(page):
    """Return the data in a page, as its script reads them."""
    (found,) = re.findall(r'<script type="application/json" id="row-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


@pytest.fixture(scope="module")
def logistic():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 3)), columns=list("abz"))
    y = rng.random(1500) < expit(2 * X["a"] - 1)
    s = (y & (rng.random(1500) < expit(X["z"]))).astype(int).to_numpy()
    model = SAREMClassifier(propensity_attributes=["z"]).fit(X, s)
    return model, X, s, model_report(model, X, s, n_ranked=40, n_listed=300)


def test_the_page_contains_the_ranked_rows(logistic):
    model, X, s, report = logistic
    data = embedded(report.to_html())
    posterior, propensity = model.predict_posterior(X, s), model.predict_propensity(X)
    order = np.flatnonzero(s == 0)[np.argsort(-posterior[s == 0], kind="stable")][:300]
    assert [row[1] - 1 for row in data["rows"]] == order.tolist()
    np.testing.assert_allclose([row[2] for row in data["rows"]], posterior[order], rtol=1e-7)
    np.testing.assert_allclose([row[3:5] for row in data["rows"]], model.predict_posterior_interval(X, s)[order], 1e-7)
    np.testing.assert_allclose([row[5] for row in data["rows"]], propensity[order], rtol=1e-7)
    assert data["shown"] == len(report.ranked.rows) == 40
    assert data["unlabelled"] == (s == 0).sum()
    reason = report.ranked.more[0].reasons[0]
    column, value, size = data["rows"][40][6][0]
    assert (data["columns"][column], value) == (reason.column, reason.value)
    assert size == f"+{reason.contribution:.1f}"


def test_the_yield_of_each_number_of_rows_agrees_with_the_curve(logistic):
    model, X, s, report = logistic
    data = embedded(report.to_html())["yield"]
    numbers = report.ranked.curve.n
    assert {1, 10, 40, 100, 300} <= set(numbers)
    found = yield_curve(model, X, s, n=numbers)
    for name in ("expected", "low", "high", "random", "naive", "naive_low", "naive_high"):
        assert len(data[name]) == 300
        assert [data[name][n - 1] for n in numbers] == [round(value) for value in getattr(found, name)]
    assert report.ranked.expected == found.sentence(numbers.index(40))
    assert report.ranked.curve.comparison == found.comparison(numbers.index(40))
    assert found.comparison(numbers.index(40)) in report.to_html()


def test_between_the_numbers_of_the_curve_the_yield_is_interpolated():
    curve = Yield((2, 4), (1.6, 2.4), (1.0, 2.0), (2.0, 2.4), (0.4, 0.8))
    assert working.yield_by_row(curve, 4) == {
        "informative": True, "expected": [1, 2, 2, 2], "low": [0, 1, 2, 2], "high": [1, 2, 2, 2],
        "random": [0, 0, 1, 1],
    }  # fmt: skip


def test_the_page_says_what_the_forecast_rests_on():
    """The script fills the sentence in again for another number of rows, so its words include the assumption."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 2)), columns=list("ab"))
    s = (rng.random(300) < 0.5 * expit(2 * X["a"])).astype(int).to_numpy()
    model = SARStackingClassifier([("logistic", None)], cv=3, find_attributes=False, random_state=0)
    report = model_report(fit_quietly(model, X, s), X, s, n_ranked=10)
    assert report.ranked.expected.endswith(ASSUMES_FREQUENCY)
    assert report.ranked.expected in report.to_html()
    assert embedded(report.to_html())["words"]["sentence"] == f"{SENTENCE} {ASSUMES_FREQUENCY}"


def test_the_class_priors_span_the_interval_and_contain_the_estimate(logistic):
    model, X, _, report = logistic
    priors = report.ranked.priors
    low, high = model.class_prior_interval()
    assert (priors[0].share, priors[-1].share) == pytest.approx((low, high))
    at = working.place_of_estimate(priors)
    assert priors[at] == PriorStep(model.class_prior_, 0.0, 0.0)
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    for step in priors[:: len(priors) // 4]:
        f_now, e_now = expit(logit(f) + step.class_shift), expit(logit(e) + step.label_shift)
        assert f_now.mean() == pytest.approx(step.share, rel=1e-6)
        assert (f_now * e_now).sum() == pytest.approx((f * e).sum(), rel=1e-6)
    data = embedded(report.to_html())
    assert (data["estimate"], len(data["priors"])) == (at, len(priors))


@pytest.mark.parametrize(
    ("kind", "has_slider"),
    [("SAREMClassifierCV", True), ("boosted", True), ("SCARClassifier, known", False), ("NaiveClassifier", False),
     ("PropensityWeightedClassifier", False), ("StratifiedSCARClassifier", False), ("swappable", False)],
    ids=["search", "boosted", "known", "naive", "weighted", "strata", "swappable"],
)  # fmt: skip
def test_the_slider_of_the_class_prior_is_only_there_with_an_interval(kind, has_slider, reported):
    report = reported(kind)
    page = report.to_html()
    assert bool(report.ranked.priors) == has_slider
    assert ('id="prior"' in page) == has_slider
    assert 'id="budget"' in page
    data = embedded(page)
    assert bool(data["priors"]) == has_slider
    assert len(data["rows"]) == report.ranked.n_unlabelled


def test_no_slider_if_the_posterior_has_another_formula(logistic, monkeypatch):
    model, X, s, _ = logistic
    subject = Subject.of(model, X, s)
    assert ranked_rows.shifted_priors(subject)
    subject.posterior[np.flatnonzero(s == 0)[0]] += 0.01
    assert ranked_rows.shifted_priors(subject) == []


def test_a_fit_without_information_has_no_picture_and_no_slider(logistic):
    _, X, s, _ = logistic
    model = SAREMClassifier(propensity_attributes=["z"]).fit(X, s)
    model.label_frequency_ = 1.0
    page = model_report(model, X, s, n_ranked=40).to_html()
    assert 'id="prior"' not in page
    assert 'id="yield-curve-title"' not in page
    assert embedded(page)["yield"] == {"informative": False}


def test_texts_of_the_table_cannot_leave_the_data():
    rng = np.random.default_rng(0)
    bad = [*HOSTILE, "</script><script>alert(1)</script>", "<!--<script>", "a\u2028b", "\\", '"', "\\u003c"]
    table = pd.DataFrame({"kind": rng.choice(bad, 600), "</script>": rng.normal(size=600)})
    s = (rng.random(600) < 0.5 * expit(table["</script>"])).astype(int)
    model = fit_quietly(TableClassifier(SAREMClassifier(propensity_attributes=["kind"])), table, s)
    names = [f"{bad[i % len(bad)]}{i}" for i in range(600)]
    report = model_report(model, table, s, row_names=names)
    page = report.to_html()
    found = outline(page)
    assert found.tags.count("script") == 2
    assert page.count("<script") == page.count("</script") == 2
    assert not re.search(r"<!--", page)
    data = embedded(page)
    assert [row[0] for row in data["rows"]] == [row.name for row in (*report.ranked.rows, *report.ranked.more)]
    assert "</script>" in data["columns"]
    values = {value for row in data["rows"] for _, value, _ in row[6]}
    assert values >= {each.value for row in report.ranked.more for each in row.reasons}
    assert "\u2028" not in page


def test_a_wide_table_has_a_small_page():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(1500, 40)), columns=[f"measurement number {j} of the day" for j in range(40)])
    s = (rng.random(1500) < 0.4 * expit(X.iloc[:, 0])).astype(int)
    model = fit_quietly(SAREMClassifier(propensity_attributes=[5], C=0.1), X, s)
    report = model_report(model, X, s, row_names=[f"patient with the long identifier {i:08d}" for i in range(1500)])
    page = report.to_html()
    assert len(embedded(page)["rows"]) == 1000
    assert len(page.encode()) < 500_000


def test_rows_that_need_too_much_room_are_left_out(monkeypatch):
    monkeypatch.setattr(working, "MAX_CHARACTERS", 3000)
    reasons = (RankReason("c" * 50, "v" * 60, 1.0),)
    rows = [RankedRow(i + 1, i, "n" * 200, IntervalEstimate(0.5, 0.4, 0.6), 0.3, reasons) for i in range(60)]
    data = working.page_data(Ranked("", 60, tuple(rows[:5]), (), more=tuple(rows[5:])), 0.95)
    assert 5 < len(data["rows"]) < 12
    assert len(json.dumps(data["rows"])) < 3100
    assert len(working.page_data(Ranked("", 60, tuple(rows), ()), 0.95)["rows"]) == 60  # The page shows them anyway.


def test_the_numbers_of_rows(logistic):
    model, X, s, _ = logistic
    with pytest.raises(ValueError, match="n_listed must be"):
        model_report(model, X, s, n_listed=-1)
    few = model_report(model, X, s, n_ranked=30, n_listed=10)
    assert (len(few.ranked.rows), few.ranked.more) == (30, ())
    none = model_report(model, X, s, n_ranked=0)
    assert (none.ranked.rows, none.ranked.more) == ((), ())
    assert "<script" not in none.to_html()


def test_reasons_of_more_rows_are_left_out_if_they_take_long(fitted, patients, monkeypatch):
    full = model_report(fitted("boosted"), *patients, n_ranked=3, n_listed=30)
    assert any(row.reasons for row in full.ranked.more)
    prepared = fitted("boosted").prepare(patients[0])
    monkeypatch.setattr(ranked_rows, "MAX_PREDICTED_CELLS", 3 * 4 * prepared.shape[1])
    report = model_report(fitted("boosted"), *patients, n_ranked=3, n_listed=30)
    assert [row.reasons for row in report.ranked.rows] == [row.reasons for row in full.ranked.rows]
    assert not any(row.reasons for row in report.ranked.more)
    assert report.ranked.notes[-1] == "Only the first 3 rows have main reasons: computing more would take too long."


def test_controls_are_hidden_until_the_script_runs_and_have_names(logistic):
    page = logistic[3].to_html()
    found = outline(page)
    by_id = {attributes["id"]: (tag, attributes) for tag, attributes in found.attributes if "id" in attributes}
    assert "hidden" in by_id["tools"][1]
    assert "hidden" not in by_id["first-rows"][1]
    assert by_id["yield"][1]["aria-live"] == "polite"
    assert by_id["listed"][1]["role"] == "status"
    targets = {attributes["for"] for tag, attributes in found.attributes if tag == "label" and "for" in attributes}
    inputs = [attributes for tag, attributes in found.attributes if tag == "input"]
    assert len(inputs) == 9
    for attributes in inputs:
        inside = re.search(rf'<label>[^<]*<input[^>]*id="{attributes["id"]}"', page)
        assert attributes["id"] in targets or "aria-label" in attributes or inside
    buttons = [attributes for tag, attributes in found.attributes if tag == "button"]
    assert all(attributes["type"] == "button" for attributes in buttons)
    assert [each["data-sort"] for each in buttons if "data-sort" in each] == [
        "rank",
        "name",
        "chance",
        "reasons",
        "label",
    ]
    assert len(re.findall(r"<th [^>]*><button", page)) == 5
    tools = page[page.index('id="tools"') : page.index('id="first-rows"')]
    assert "<fieldset" in tools
    assert tools.count("<legend>") == tools.count("<fieldset")
    assert re.search(r"@media print \{.*\.controls, caption \.hint \{ display: none; \}", page, re.DOTALL)


def test_the_report_as_json_has_the_curve_and_the_class_priors(logistic):
    report = logistic[3]
    found = json.loads(report.to_json())["ranked"]
    assert found["curve"]["n"] == list(report.ranked.curve.n)
    assert len(found["more"]) == 260
    assert found["priors"][0].keys() == {"share", "class_shift", "label_shift"}
