"""The report of a fit with several looks, audits or known values."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from scarless import ClassPrior, Labelling, SAREMClassifier, TableClassifier
from scarless.diagnostics.fit.examination import MORE_LOOKS, Examination
from scarless.diagnostics.fit.subject import Subject
from scarless.labelling import simulate_looks
from scarless.report import model_report
from scarless.report.fit.data import find
from scarless.report.fit.page import answer_bar

EFFORT = ["effort_1", "effort_2", "effort_3"]


def make_table(n=1500, seed=0, rate=0.0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"age": rng.normal(55, 10, n), "visits": rng.normal(3, 1, n), "ward": rng.choice(["A", "B"], n)}
    )
    effort = rng.gamma(4, 0.5, (n, 3))
    y = (rng.random(n) < 1 / (1 + np.exp(-(table["age"] - 58) / 5))).to_numpy()
    e = 1 / (1 + np.exp(-(table["visits"].to_numpy()[:, None] - 3 + 0.7 * (effort - 2))))
    seen = rng.random((n, 3)) < 0.8
    S = simulate_looks(y, e, false_positive_rate=rate, observed=seen, random_state=seed)
    table[EFFORT] = effort
    audit = np.full(n, np.nan)
    rows = rng.choice(n, 150, replace=False)
    audit[rows] = y[rows]
    return table, np.asarray(S, dtype=float), audit, y


def fit(table, S, audit=None, **options):
    labelling = clone(options.pop("labelling", Labelling())).set_params(visit_attributes={"effort": EFFORT})
    model = SAREMClassifier(propensity_attributes=["visits"], labelling=labelling, **options)
    return TableClassifier(model).fit(table, S, **({} if audit is None else {"audit": audit}))


@pytest.fixture(scope="module")
def rows():
    return make_table()


@pytest.fixture(scope="module")
def model(rows):
    return fit(*rows[:3])


@pytest.fixture(scope="module")
def report(model, rows):
    table, S, audit, _ = rows
    return model_report(model, table, S, audit=audit, n_ranked=30)


def subject_of(model, table, S, audit=None):
    return Subject.of(model, table, S, sample_weight=None, propensity=None, level=0.95, audit=audit)


@pytest.mark.parametrize("rate", [0.0, 0.05])
def test_expected_numbers_of_labels_equal_an_enumeration(rate):
    table, S, audit, _ = make_table(400, rate=rate)
    model = fit(table, S, audit, labelling=Labelling(false_positive_rate=rate))
    subject = subject_of(model, table, S, audit)
    found = Examination.of(subject, np.random.default_rng(0)).repeats().counted
    f, seen = subject.f, np.isfinite(S)
    e = np.column_stack([model.predict_propensity(table, look=k) for k in range(3)])
    expected = np.zeros((len(S), 4))
    for pattern in product((0, 1), repeat=3):
        chance = np.ones((2, len(S)))
        for k, label in enumerate(pattern):
            for row, p in enumerate((e[:, k], np.full(len(S), rate))):
                there = p if label else 1.0 - p
                chance[row] *= np.where(seen[:, k], there, 1.0 - label)
        expected[:, sum(pattern)] += f * chance[0] + (1.0 - f) * chance[1]
    np.testing.assert_allclose(found.expected, expected.sum(axis=0), atol=1e-9)
    np.testing.assert_array_equal(found.observed, np.bincount((S == 1).sum(axis=1), minlength=4))
    np.testing.assert_allclose(1.0 - expected[:, 0], subject.label_probability, atol=1e-12)


def test_further_information_is_shown(report, rows, model):
    _, S, audit, _ = rows
    given = {fact.name: fact.value for fact in report.given}
    checked = np.isfinite(audit)
    without = (checked & ~(S == 1).any(axis=1)).sum()
    assert given["Audits"] == (
        f"150 rows audited, {int(np.nansum(audit))} of them positive; {without} of the audited rows have no label"
    )
    assert given["Looks"].endswith(f"{np.isfinite(S).sum():,} of 4,500 took place")
    assert given["Negatives that get a label"] == "none, by assumption"
    low, high = model.class_prior_interval()
    assert given["Share of positives"] == f"{model.class_prior_:.0%} ({100 * low:.0f} to {100 * high:.0f}%)"
    assert "Positives that get a label at look 2" in given


def test_the_answer_covers_the_truth_and_counts_what_audits_found(report, rows):
    _, S, audit, y = rows
    assert report.answer.share.low < y.mean() < report.answer.share.high
    found = int(((audit == 1) & ~(S == 1).any(axis=1)).sum())
    assert f"Audits found {found} of the positives without a label." in report.answer.notes
    assert report.answer.cautions == ()


def test_audited_rows_are_not_ranked(report, rows):
    audit = rows[2]
    assert all(np.isnan(audit[row.position]) for row in report.ranked.rows)
    assert "Audited rows are not listed: their class is known." in report.ranked.notes


def test_audits_are_compared_with_posteriors(report, model, rows):
    table, S, audit, _ = rows
    check = find(report.checks, "audits")
    assert check.status == "good"
    open_ = np.isfinite(audit) & ~(S == 1).any(axis=1)
    q = model.predict_posterior(table, S)[open_]
    (groups,) = check.tables
    assert sum(row[1] for row in groups.rows) == open_.sum()
    assert sum(row[1] * row[2] for row in groups.rows) == pytest.approx(q.sum())
    assert sum(row[1] * row[3] for row in groups.rows) == pytest.approx(audit[open_].sum())
    assert all(row[4] <= row[3] <= row[5] for row in groups.rows)
    assert check.picture.x == tuple(row[2] for row in groups.rows)


def test_looks_are_counted_and_the_curve_is_the_detection_curve_of_the_model(report, model, rows):
    table, S, _, _ = rows
    check = find(report.checks, "looks")
    by_look, repeats = check.tables
    assert [row[1] for row in by_look.rows] == np.isfinite(S).sum(axis=0).tolist()
    assert [row[2] for row in by_look.rows] == (S == 1).sum(axis=0).tolist()
    assert all(row[4] < row[3] < row[5] for row in by_look.rows)
    assert sum(row[1] for row in repeats.rows) == len(S)
    np.testing.assert_allclose(check.picture.y, model.detection_curve(table))
    assert check.status == "good"
    assert any("goodness_of_fit" in line for line in check.details)


def test_checks_for_one_label_per_row_state_why_they_are_not_available(report):
    told = {check.key: check for check in report.checks}
    for key, words in (
        ("scar", "visit attributes, because the test would mistake any of these for an effect of a column"),
        ("profile", "This check is for one label for each row"),
        ("sensitivity", "This check is for one label for each row"),
    ):
        assert told[key].status == "none"
        assert words in told[key].details[0]
    assert told["identifiability"].verdict.startswith("Yes: 37 to 43% of rows are positive, given")
    assert told["calibration"].status == "good"


def test_a_visit_attribute_has_one_odds_ratio_in_its_unit(report, model):
    labelling = find(report.effects, "labelling")
    effort = next(each for each in labelling.effects if each.column == "effort")
    coef = model.summary().to_frame().loc[("propensity", "effort"), ["coef", "low", "high"]]
    np.testing.assert_allclose([effort.per_unit.value, effort.per_unit.low, effort.per_unit.high], np.exp(coef))
    assert not any(each.column.startswith("effort_") for each in labelling.effects)
    used = {column.name: column.used_for for column in report.columns}
    assert used == {
        "age": "class",
        "visits": "class and labelling",
        "ward": "class",
        **dict.fromkeys(EFFORT, "labelling"),
    }


def test_looks_with_separate_coefficients_have_separate_effects(rows):
    table, S, audit, _ = rows
    model = fit(table, S, audit, labelling=Labelling(shared=False))
    found = model_report(model, table, S, audit=audit)
    assert [part.key for part in found.effects] == ["class", "labelling", "labelling-1", "labelling-2"]
    frame = model.summary()
    for block, part in zip(frame.blocks[1:], found.effects[1:], strict=True):
        ratios = {each.column: each.per_unit.value for each in part.effects}
        for name, coef in zip(block.names[:-1], block.coef[:-1], strict=True):
            assert ratios[name] == pytest.approx(np.exp(coef))
    assert found.to_html().count('id="labelling-1-title"') == 1


# These warnings are right: the audits depend on the class.
@pytest.mark.filterwarnings("ignore:SAREMClassifier.*(audits found|labels do not fit):UserWarning")
def test_audits_that_depend_on_the_class_give_a_caution():
    table, S, _, y = make_table(3000, 1)
    rng = np.random.default_rng(0)
    chosen = rng.random(len(y)) < np.where(y, 0.4, 0.02)  # odds of about 33
    audit = np.where(chosen, y, np.nan).astype(float)
    audit[np.flatnonzero(~y)[:3]] = 0.0
    told = r"or rows were chosen for audits because of their expected result\. Try another classifier"
    with pytest.warns(UserWarning, match=f"labelled again implies .* {told}"):
        model = fit(table, S, audit)
    found = model_report(model, table, S, audit=audit)
    assert any("positive more often than the model expects" in each for each in found.answer.cautions)
    assert find(found.checks, "audits").status == "bad"


def test_a_known_value_that_the_rows_contradict_gives_a_caution(rows):
    table, S, audit, y = rows
    with pytest.warns(UserWarning, match="disagree"):
        model = fit(table, S, audit, known=[ClassPrior(y.mean() + 0.2, se=0.01)])
    found = model_report(model, table, S, audit=audit)
    assert found.answer.cautions[0].startswith("The known class prior and the rows disagree")
    assert find(found.checks, "facts").status == "bad"
    good = model_report(fit(table, S, known=[ClassPrior(y.mean(), se=0.02)]), table, S)
    assert find(good.checks, "facts").status == "good"
    assert "audits" not in {check.key for check in good.checks}


def test_false_positives_are_not_counted_in_the_answer():
    table, S, audit, y = make_table(3000, 2, rate=0.05)
    model = fit(table, S, audit, labelling=Labelling(false_positive_rate="estimate"))
    found = model_report(model, table, S, audit=audit)
    labelled = (S == 1).any(axis=1)
    q = model.predict_posterior(table, S, audit=audit)
    assert found.answer.missing.value == pytest.approx(found.answer.positives.value - q[labelled].sum())
    assert found.answer.share.low < y.mean() < found.answer.share.high
    assert found.answer.wrong == pytest.approx((1.0 - q[labelled]).sum())
    assert " of them by mistake. We estimate that about " in found.answer.sentence
    bar = answer_bar(found.answer)
    ends = [part.start + part.length for part in bar.parts]
    assert ends[1] == pytest.approx(100.0 * found.answer.share.value / bar.end, abs=0.01)
    assert bar.parts[0].length == pytest.approx(100.0 * q[labelled].sum() / len(S) / bar.end, abs=0.01)
    given = {fact.name: fact.value for fact in found.given}
    assert given["Negatives that get a label"].endswith("(estimated)")
    assert find(found.checks, "calibration").status == "good"


# These warnings are right: rows differ in ways that no attribute explains.
@pytest.mark.filterwarnings("ignore:SAREMClassifier.*(audits found|labels do not fit|agree more often):UserWarning")
def test_unexplained_differences_between_rows_are_detected():
    rng = np.random.default_rng(5)
    n = 6000
    table = pd.DataFrame({"age": rng.normal(0, 1, n), "visits": rng.normal(0, 1, n)})
    y = rng.random(n) < 1 / (1 + np.exp(-table["age"]))
    hidden = rng.normal(0, 2.0, n)
    e = 1 / (1 + np.exp(-(table["visits"] + hidden)))
    S = (y.to_numpy()[:, None] & (rng.random((n, 5)) < e.to_numpy()[:, None])).astype(float)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["visits"])).fit(table, S)
    check = find(model_report(model, table, S).checks, "looks")
    assert check.status == "bad"
    assert "differ in ways that no column shows" in check.verdict
    assert len(check.picture.x) == MORE_LOOKS  # Looks with the same propensity are extrapolated.


def test_checks_of_one_label_with_audits(rows):
    table, S, audit, y = rows
    one = np.nan_to_num(S[:, 0])
    model = TableClassifier(SAREMClassifier(propensity_attributes=["visits"])).fit(table, one, audit=audit)
    found = model_report(model, table, one, audit=audit)
    told = {check.key: check for check in found.checks}
    assert list(told) == ["identifiability", "audits", "selection", "scar", "profile", "calibration", "sensitivity"]
    assert told["scar"].status != "none"
    assert found.answer.share.low < y.mean() < found.answer.share.high


def test_the_page_and_the_data_have_the_further_information(report):
    page, data = report.to_html(), json.loads(report.to_json())
    assert "Audits, looks and known values, and the estimates from them" in page
    assert "Do the audits agree with the model?" in page
    assert "Share of positives with a label, by the number of looks" in page
    assert [fact["name"] for fact in data["given"]] == [fact.name for fact in report.given]


def test_invalid_arguments_are_refused(rows, model):
    table, S, audit, _ = rows
    plain = TableClassifier(SAREMClassifier(propensity_attributes=["visits"])).fit(table, np.nan_to_num(S[:, 0]))
    with pytest.raises(ValueError, match="audit was passed, but this SAREMClassifier was fitted without audits"):
        model_report(plain, table, np.nan_to_num(S[:, 0]), audit=audit)
    with pytest.raises(
        ValueError,
        match=r"s must have the shape \(1500, 3\): .* one column for each look of the fit; got the shape \(1500, 1\)",
    ):
        model_report(model, table, np.nan_to_num(S[:, 0]))
    with pytest.raises(ValueError, match="propensity was passed, but SAREMClassifier predicts its own"):
        model_report(model, table, S, propensity=np.full(len(S), 0.5))
