"""Drift of new rows: what moved, whether labels arrive as predicted, how many positives there are, and the verdict."""

import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    SAREMClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.diagnostics import Drift, DriftDisplay, detect_drift
from scarless.diagnostics.drift import detect
from scarless.diagnostics.drift.columns import ColumnShifts, _median
from scarless.diagnostics.drift.labels import (
    NewRows,
    check_labels,
    count_positives,
    count_positives_after_shift,
    joined,
)
from scarless.raw.reference import ReferenceColumn
from scarless.scale import ParquetRows


def month(seed=1, n=2000, *, moved=0.0, odds=1.0, halved=False, frame=False):
    """Return rows, labels and classes: illness depends on columns 0 and 1, labels on columns 2 and 3 (0 or 1)."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(4 * n, 3)), rng.integers(2, size=4 * n)])
    X[:, 0] += moved
    y = rng.random(4 * n) < expit(-0.5 + 2 * X[:, 0] + X[:, 1])
    weight = np.where(y, odds, 1.0)
    rows = rng.choice(4 * n, n, replace=False, p=weight / weight.sum())
    X, y = X[rows], y[rows]
    e = expit(X[:, 2] + X[:, 3]) * np.where((X[:, 3] == 1) & halved, 0.5, 1.0)
    s = (y & (rng.random(n) < e)).astype(int)
    if frame:
        X = pd.DataFrame(X, columns=["marker", "pressure", "visits", "clinic"])
        X["clinic"] = np.where(X["clinic"] == 1, "city", "rural")
    return X, s, y


@pytest.fixture(scope="module")
def old():
    return month(0, 3000)


@pytest.fixture(scope="module")
def model(old):
    return SAREMClassifier(propensity_attributes=[2, 3]).fit(old[0], old[1])


@pytest.fixture(scope="module")
def same(model, old):
    X, s, _ = month(1)
    return detect_drift(model, X, s, reference=old[0][:800])


@pytest.fixture(scope="module")
def labelling(model, old):
    X, s, _ = month(2, halved=True)
    return detect_drift(model, X, s, reference=old[0][:800])


def test_nothing_changed(same):
    assert same.verdict == "fine"
    assert same.columns.moved == []
    assert same.labels.p_value > 0.05
    assert str(same).startswith("Is the model still right? No sign against it. Labels arrive as often as predicted (")


def test_moved_covariates_are_named_and_labels_still_fit(model, old):
    X, s, y = month(3, moved=0.5)
    found = detect_drift(model, X, s, reference=old[0][:800])
    assert [each.name for each in found.columns.moved] == ["x0"]
    assert found.verdict == "fine"
    assert "although the rows changed (x0)" in found.reason
    assert found.positives.low < y.sum() < found.positives.high
    without = detect_drift(model, X, reference=old[0][:800])
    assert not without.positives.low < without.positives_in_fit < without.positives.high
    assert without.verdict == "unknown"
    assert without.reason == (
        f"The rows changed (x0), so that {without.positives.value:,.0f} positives are expected instead of "
        f"{without.positives_in_fit:,.0f}, and there are no labels to check this. Enter labels, or audit some rows."
    )


def test_the_median_of_rows_outside_the_range_of_the_fit_is_not_made_up():
    column = ReferenceColumn("sugar", "number", np.array([60.0, 100.0, 140.0]), (), np.ones(5))
    inside, low, high = (np.array(counts) for counts in ([5.0, 50, 40, 5, 0], [90.0, 5, 3, 2, 0], [1.0, 1, 2, 96, 0]))
    assert _median(column, inside) == "about 96"
    assert _median(column, low) == "below 60"
    assert _median(column, high) == "above 140"


def test_rows_that_can_be_told_apart_are_fine_if_their_labels_are_as_predicted(model, old):
    X, s, y = month(3, moved=2.0)
    found = detect_drift(model, X, s, reference=old[0][:800])
    assert found.columns.columns[0].distance > 0.6
    assert (found.verdict, found.positives.low < y.sum() < found.positives.high) == ("fine", True)


def test_a_changed_class_prior_is_found_and_the_positives_are_counted_again(model, old):
    X, s, y = month(4, odds=4.0)
    found = detect_drift(model, X, s, reference=old[0][:800])
    assert found.verdict == "refit"
    assert found.labels.preferred == "class"
    assert found.reason.endswith("in the way that a change of the class prior would cause.")
    shifted = found.positives_if_prior_changed
    assert shifted.low < y.sum() < shifted.high
    assert not found.positives.low < y.sum() < found.positives.high
    assert "The labels fit the first explanation better" in str(found)


def test_halved_labelling_in_one_group_is_found_and_the_group_named(labelling):
    assert labelling.verdict == "look at the labelling"
    assert labelling.reason.startswith("Labels are rarer than predicted where x3 is 1: ")
    assert labelling.labels.columns[0].by == "x3"
    assert labelling.labels.columns[0].differs
    assert labelling.labels.of_labelling.by == "x3"
    assert labelling.labels.of_labelling.names == ("1",)
    assert labelling.reason.endswith(
        ". This points to the labelling there, not to the class prior, because x3 is an attribute of the labelling."
    )
    assert "Two changes would explain this: the odds of being positive changed by a factor of" in str(labelling)


def test_labels_that_cannot_tell_two_changes_apart_are_said_to_be_so(labelling):
    undecided = replace(labelling, labels=replace(labelling.labels, preferred=""))
    assert "The labels cannot tell these apart, because they show only the product of both probabilities." in str(
        undecided
    )
    assert (undecided.verdict, undecided.reason.split(", and ")[1]) == (
        "look at the labelling", "the labels cannot tell whether the positives or the labelling changed."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("40 or less", "41 to 50", "50 or less"),
        ("41 to 50", "51 or more", "41 or more"),
        ("above -0.7 to 1e-05", "above 1e-05 to 2", "above -0.7 to 2"),
        ("2024-01-01 or earlier", "after 2024-01-01 to 2024-05-01", "2024-05-01 or earlier"),
        ("after 2024-01-01 to 2024-05-01", "after 2024-05-01", "after 2024-01-01"),
        ("0.1 to 0.2", "0.2 to 0.3", "0.1 to 0.3"),
        ("north to south", "west to east", "north to south, west to east"),
        ("1", "2", "1 to 2"),
    ],
    ids=["lowest", "highest", "above", "earliest", "latest", "bins", "words", "numbers"],
)
def test_names_of_merged_groups(first, last, expected):
    assert joined([first, last]) == expected


def test_merged_categories_are_all_named():
    assert joined(["A", "B", "C"]) == "A, B, C"
    assert joined(["10", "7"]) == "10, 7"  # sorted as text: not a range
    assert joined(list("ABCDEFGH")) == "A, B, C, D, E and 3 more"


def test_the_page_names_all_categories_of_a_merged_group():
    ward = np.repeat(["A", "B", "C", "D", "E"], [40, 40, 40, 390, 390])
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=900), "ward": ward})
    s = np.concatenate([*[np.arange(40) < 2] * 3, *[np.arange(390) % 2 == 0] * 2]).astype(int)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["x"])).fit(table, s)
    [ward] = [each for each in detect_drift(model, table, s, reference=table).labels.columns if each.by == "ward"]
    assert ward.names == ("A, B, C", "D", "E")


def rows_of(f, e, s, errors=None):
    n = len(f)
    errors = np.zeros((n, 1)) if errors is None else errors
    return NewRows(np.asarray(f), np.asarray(e), np.zeros(n), np.asarray(s, dtype=float), np.ones(n), None, errors)


def test_common_factors_in_f_and_e_are_the_same_to_labels_if_f_is_small():
    """If all f are tiny, odds and probabilities agree, and both explanations have the same likelihood."""
    rng = np.random.default_rng(0)
    f, e = np.full(5000, 0.02), np.full(5000, 0.02)
    s = rng.random(5000) < 0.05
    check, _ = check_labels(rows_of(f, e, s), np.zeros((5000, 1)), [], None, 0.95)
    assert check.total.differs
    assert check.preferred == ""
    assert check.of_class.gain == pytest.approx(check.of_labelling.gain, abs=0.01)


def test_errors_of_the_fit_widen_the_range_and_raise_the_p_value():
    f, e, s = np.full(1000, 0.5), np.full(1000, 0.5), np.arange(1000) < 300
    exact, _ = check_labels(rows_of(f, e, s), np.zeros((1000, 1)), [], None, 0.95)
    draws = 0.05 * np.random.default_rng(0).standard_normal((1, 200)) * np.ones((1000, 1))
    wide, _ = check_labels(rows_of(f, e, s, draws), np.zeros((1000, 1)), [], None, 0.95)
    assert exact.total.differs
    assert not wide.total.differs
    assert exact.total.p_value < 0.001
    assert wide.total.p_value > 0.1
    assert exact.total.predicted == wide.total.predicted == 250
    spread = 1.959964 * np.sqrt(1000 * 0.25 * 0.75 + (1000**2 * draws[0] ** 2).mean())
    assert wide.total.high[0] == pytest.approx(250 + spread, rel=1e-4)


def test_a_small_but_significant_difference_is_not_a_change():
    """With a million labels, a difference of 2% is certain, but too small to matter."""
    f, e, s = np.full(200_000, 0.5), np.full(200_000, 0.5), np.arange(200_000) < 51_000
    check, _ = check_labels(rows_of(f, e, s), np.zeros((200_000, 1)), [], None, 0.95)
    assert check.total.p_adjusted < 1e-4
    assert check.differing == []


def test_positives_without_draws_have_no_interval():
    rows = rows_of(np.full(100, 0.3), np.full(100, 0.5), np.arange(100) < 15)
    rng = np.random.default_rng(0)
    assert count_positives(rows, 0.95, rng)[:1] == (pytest.approx(30.0),)
    assert np.isnan(count_positives(rows, 0.95, rng).low)
    after = count_positives_after_shift(rows, 0.95, rng)
    assert after.value == pytest.approx(30.0)  # 15 labels at a propensity of 0.5
    assert np.isnan(after.high)


@pytest.mark.filterwarnings("ignore:.*not in the fit .'abroad':UserWarning")
def test_a_stored_reference_and_the_rows_themselves_give_the_same(old):
    X, s, _ = month(0, 1500, frame=True)
    model = TableClassifier(SAREMClassifier(propensity_attributes=["visits", "clinic"])).fit(X, s)
    X_new, s_new, _ = month(1, 500, frame=True)
    passed = detect_drift(model, X_new, s_new, reference=X)
    model.reference_ = detect.describe_rows(X, prepared=model.prepare(X), origins=model.origins_)
    stored = detect_drift(model, X_new, s_new)
    assert stored.to_dict() == passed.to_dict()
    assert stored.to_frame().index.tolist() == [each.name for each in stored.columns.columns]
    moved = detect_drift(model, X_new.assign(clinic="abroad"), s_new)
    [clinic] = moved.columns.moved
    assert clinic.change == "other or new: 0% then, 100% now"


def test_without_reference_rows_labels_are_still_compared(model):
    X, s, _ = month(1)
    found = detect_drift(model, X, s)
    assert found.columns is None
    assert found.verdict == "fine"
    assert found.reason.endswith("; the columns were not compared.")
    assert detect.NO_REFERENCE in found.notes
    assert "Columns: not compared." in str(found)
    assert found.to_frame().empty
    nothing = detect_drift(model, X)
    assert nothing.verdict == "unknown"
    assert nothing.reason == (
        "No change was found, but the labels and columns of these rows are not enough to find one."
    )


def test_one_row_cannot_show_a_change(model, old):
    X, s, _ = month(1)
    found = detect_drift(model, X[:1], s[:1], reference=old[0][:800])
    assert found.verdict == "unknown"
    assert found.reason == "No change was found, but 1 new row is not enough to find one."
    assert "of 1 row" in found.finding_on_positives()
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_detectable_change_does_not_depend_on_the_level_of_intervals(model):
    X, s, _ = month(1)
    found = [detect_drift(model, X[:40], s[:40], level=level).labels for level in (5e-324, 0.5, 1 - 1e-15)]
    assert found[0].total.low == found[0].total.high == found[0].total.predicted
    assert found[2].total.low == 0
    assert 0 < found[0].detectable == found[1].detectable == found[2].detectable


def test_all_or_no_rows_labelled(model, old):
    X, _, _ = month(1, 400)
    every, none = (detect_drift(model, X, np.full(400, label), reference=old[0][:800]) for label in (1, 0))
    assert (every.verdict, every.reason[:21]) == ("look at the labelling", "All rows have a label")
    assert (none.verdict, none.reason[:18]) == ("look at the labelling", "No row has a label")
    assert any(
        each.startswith("All 400 rows have a label. If the file holds labelled rows only") for each in every.notes
    )
    assert any(each.startswith("No row has a label. If labels are entered later") for each in none.notes)
    assert every.positives_if_prior_changed is None


def test_labels_by_time(model, old):
    X, s, _ = month(5)
    late = np.arange(2000) >= 1000
    days = pd.Series(np.where(late, "2024-06-01", "2024-01-01"), name="visit")
    found = detect_drift(model, X, np.where(late, 0, s), reference=old[0][:800], time=days)
    assert found.labels.time.by == "visit"
    assert found.labels.time.names == ("2024-01-01", "2024-06-01")
    assert found.labels.time.differs
    assert found.labels.time.observed.tolist() == [s[:1000].sum(), 0]
    X, s = X[:300], s[:300]
    one = detect_drift(model, X, s, reference=old[0][:800], time=np.full(300, "2024-01-01"))
    assert one.labels.time is None
    assert any(
        each.startswith("Labels are not compared by time: all dates in 'time' are the same") for each in one.notes
    )
    none = detect_drift(model, X, s, reference=old[0][:800], time=np.full(300, "soon"))
    assert "Column 'time' has no dates that can be read, so labels are not compared by time." in none.notes


def test_weights_of_new_rows_are_counts_of_columns(model, old):
    X, s, _ = month(1, 300)
    w = np.random.default_rng(0).integers(1, 4, 300)
    weighted = detect_drift(model, X, s, reference=old[0][:800], sample_weight=w)
    copies = detect_drift(model, np.repeat(X, w, axis=0), np.repeat(s, w), reference=old[0][:800])
    assert weighted.labels.total.observed == copies.labels.total.observed
    assert weighted.labels.total.predicted == pytest.approx(copies.labels.total.predicted)
    distances = [{each.name: each.distance for each in found.columns.columns} for found in (weighted, copies)]
    assert distances[0] == pytest.approx(distances[1])
    assert weighted.positives.value == pytest.approx(copies.positives.value)


def test_large_tables_are_sampled(model, old, monkeypatch):
    X, s, _ = month(1)
    monkeypatch.setattr(detect, "MAX_LABEL_ROWS", 500)
    found = detect_drift(model, X, s, reference=old[0][:800])
    assert found.labels.total.n_rows.tolist() == [500]
    assert found.positives.value == pytest.approx(
        detect_drift(model, X, reference=old[0][:800]).positives.value, rel=0.1
    )
    said = "Labels and positives are computed for a random sample of 500 of the 2,000 rows"
    assert any(each.startswith(said) for each in found.notes)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_models(old):
    X, s, _ = month(1, 400)
    e = expit(old[0][:, 2] + old[0][:, 3])
    known = PropensityWeightedClassifier().fit(old[0], old[1], propensity=e)
    found = detect_drift(known, X, s, propensity=expit(X[:, 2] + X[:, 3]), reference=old[0][:800])
    assert any("treat its predictions as exact" in each for each in found.notes)
    assert np.isnan(found.positives.low)
    with pytest.raises(ValueError, match="propensity: PropensityWeightedClassifier does not estimate it"):
        detect_drift(known, X, s)
    assert detect_drift(known, X, reference=old[0][:800]).labels is None
    for estimator in (SCARClassifier(), StratifiedSCARClassifier([3])):
        assert detect_drift(estimator.fit(old[0], old[1]), X, s, reference=old[0][:800]).labels is not None


def test_several_looks(old):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 2))
    y = rng.random((1500, 1)) < expit(X[:, [0]])
    looks = np.where(rng.random((1500, 2)) < 0.8, (y & (rng.random((1500, 2)) < expit(X[:, [1]]))) * 1.0, np.nan)
    model = SAREMClassifier(propensity_attributes=[1]).fit(X[:1000], looks[:1000])
    found = detect_drift(model, X[1000:], looks[1000:], reference=X[:1000])
    assert found.labels.total.observed == (looks[1000:] == 1).any(axis=1).sum()
    assert found.labels.total.low < found.labels.total.observed < found.labels.total.high
    assert detect_drift(model, X[1000:], reference=X[:1000]).positives.value > 0
    with pytest.raises(ValueError, match="s has 1 looks, but the model was fitted to 2"):
        detect_drift(model, X[1000:], looks[1000:, 0])


def test_a_fit_that_finds_no_unlabelled_positives_does_not_count_them(model, old):
    X, s, _ = month(1, 300)
    certain = SAREMClassifier(propensity_attributes=[2, 3]).fit(old[0], old[1])
    certain.label_frequency_ = 1.0
    found = detect_drift(certain, X, s, reference=old[0][:800])
    assert found.positives is None
    assert "Positives: this fit cannot estimate their number." in str(found)
    certain = SAREMClassifier(propensity_attributes=[2, 3]).fit(old[0], old[1])
    certain.naive_ = object()
    assert "The two models may be swapped, so the number of positives is not estimated." in detect_drift(
        certain, X, s, reference=old[0][:800]
    ).notes  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"estimator": SAREMClassifier}, TypeError, "estimator must be a fitted classifier of this package"),
        ({"estimator": LogisticRegression().fit([[0], [1]], [0, 1])}, TypeError, "LogisticRegression does not predict"),
        ({"estimator": NaiveClassifier().fit(np.eye(4)[:, :2], [0, 1, 0, 1])}, TypeError, "NaiveClassifier does not"),
        ({"X": np.empty((0, 4))}, ValueError, "X has no rows, so there is nothing to compare"),
        ({"X": [[1.0, 2.0, 3.0, 4.0], [1.0]]}, ValueError, "X must be a table with rows of equal length"),
        ({"X": np.zeros(4)}, ValueError, "X must be a table with rows and columns; got the shape (4,)"),
        ({"s": np.zeros(3)}, ValueError, "s has 3 rows, but X has 200"),
        ({"reference": np.zeros((5, 3))}, ValueError, "reference must have the 4 columns of X; got the shape (5, 3)"),
        ({"reference": np.zeros((0, 4))}, ValueError, "reference has no rows"),
        ({"time": "when"}, ValueError, "time: there is no column 'when' in X"),
        ({"time": [[1], [1, 2]]}, ValueError, "time must contain one value per row"),
        ({"time": np.zeros(3)}, ValueError, "time must have one date for each of the 200 rows"),
        ({"time": np.zeros(200)}, ValueError, "time must hold dates"),
        ({"propensity": 0.5}, ValueError, "propensity: SAREMClassifier estimates its own"),
    ],
    ids=[
        "class",
        "foreign",
        "naive",
        "empty",
        "ragged",
        "one row",
        "labels",
        "width",
        "no rows",
        "name",
        "ragged dates",
        "shape",
        "numbers",
        "propensity",
    ],
)
def test_input_errors(model, change, error, words):
    X, s, _ = month(1, 200)
    given = {"estimator": model, "X": X, "s": s} | change
    with pytest.raises(error, match=re.escape(words)):
        detect_drift(given.pop("estimator"), given.pop("X"), given.pop("s"), **given)


def test_a_search_of_scikit_learn_is_refused(old):
    search = GridSearchCV(SAREMClassifier(propensity_attributes=[2]), {"C": [1.0]}, cv=2, scoring=lambda m, X, y: 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(old[0][:300], old[1][:300])
    with pytest.raises(TypeError, match="Pass its best_estimator_"):
        detect_drift(search, old[0][:300])


def test_rows_in_files_are_refused(model, tmp_path):
    pd.DataFrame(month(1, 50)[0]).rename(columns=str).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(TypeError, match="X must be a table in memory; got rows in files"):
        detect_drift(model, ParquetRows(tmp_path))


def test_a_column_of_another_type_makes_the_verdict_unknown(same):
    found = replace(same, columns=ColumnShifts((), 10, 10, ("clinic",), ()))
    assert (found.verdict, found.reason) == (
        "unknown", "The values of 'clinic' have another type than in the fit: correct them, and check again."
    )  # fmt: skip


def test_too_few_labels_do_not_excuse_moved_columns(model, old):
    X, s, _ = month(3, moved=0.5)
    found = detect_drift(model, X, s, reference=old[0][:800])
    few = replace(found, labels=replace(found.labels, detectable=0.9))
    assert (found.verdict, few.verdict) == ("fine", "unknown")
    assert "there are too few labels to check this" in few.reason
    uncounted = replace(few, positives=None)
    assert "there are too few labels to check whether the model still holds" in uncounted.reason


def test_frames_and_html(same, labelling):
    frame = labelling.to_frame("labels")
    assert frame.loc[("all rows", "all rows"), "observed"] == labelling.n_labelled
    assert frame.loc["x3", "differs"].all()
    assert same.to_frame("columns").loc["x0", "kind"] == "number"
    with pytest.raises(ValueError, match="part must be one of 'columns', 'labels'; got 'rows'"):
        same.to_frame("rows")
    html = same._repr_html_()
    assert html.count("<table>") == 2
    assert "No sign against it" in html
    assert replace(same, labels=None).to_frame("labels").empty


def test_displays(same, labelling):
    assert DriftDisplay(labelling).plot().ax_.get_title() == "Verdict: look at the labelling"
    shown = DriftDisplay(same, part="columns").plot()
    assert shown.ax_.get_xlabel() == "Distance between old and new rows"
    assert len(shown.ax_.get_yticks()) == 4
    with pytest.raises(TypeError, match="result must be a Drift, as returned by detect_drift; got int"):
        DriftDisplay(3)
    with pytest.raises(ValueError, match="part='labels' needs labels"):
        DriftDisplay(replace(same, labels=None), part="labels")
    assert DriftDisplay(replace(same, labels=None)).part == "columns"
    assert isinstance(same, Drift)


def test_display_from_an_estimator(model, old):
    X, s, _ = month(1, 200)
    assert (
        DriftDisplay.from_estimator(model, X, s, reference=old[0][:800])
        .ax_.get_xlabel()
        .startswith("Labels, divided by")
    )


def test_sparse_rows_are_compared_like_dense_rows(model, old):
    X, s, _ = month(1, 300)
    dense = detect_drift(model, X, s, reference=old[0][:200])
    thin = detect_drift(model, sparse.coo_array(X), s, reference=sparse.csr_array(old[0][:200]))
    assert thin.to_frame().equals(dense.to_frame())
    assert thin.verdict == dense.verdict


# --- what matters: months, places, units, and rows far outside


AIRPORTS = [f"A{j:02d}" for j in range(12)]


def flights(seed, n=1500, warm=0.0, quiet="", late=""):
    """Return flights of a month and their labels.

    The delay depends on traffic and distance, the labels on the airport. A warm month has another weather.
    """
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "traffic": rng.normal(size=n),
        "distance": rng.lognormal(6.5, 0.7, n),
        "season": rng.choice(["a", "b", "c", "d"], n),
        "airport": rng.choice(AIRPORTS, n),
        "temperature": warm + rng.normal(scale=3.0, size=24)[rng.integers(24, size=n)],
    })  # fmt: skip
    u = -0.8 + 1.5 * table["traffic"] + 0.5 * (np.log(table["distance"]) - 6.5) + 2.5 * (table["season"] == late)
    e = expit(0.8 * np.cos(1.7 * table["airport"].str[1:].astype(int)))
    e = np.where(table["airport"] == quiet, 0.15 * e, e)
    return table, ((rng.random(n) < expit(u)) & (rng.random(n) < e)).astype(int)


@pytest.fixture(scope="module")
def flight_model():
    parts = [flights(seed, 1500, warm) for seed, warm in ((100, 0.0), (101, 2.0), (102, 5.0))]
    table, labels = pd.concat([each for each, _ in parts], ignore_index=True), np.concatenate([s for _, s in parts])
    model = TableClassifier(SAREMClassifier(propensity_attributes=["airport"])).fit(table, labels)
    model.reference_ = detect.describe_rows(table, prepared=model.prepare(table), origins=model.origins_)
    return model


@pytest.mark.filterwarnings("ignore:.*outside the range of:UserWarning")
def test_months_that_their_weather_identifies_raise_no_alarm(flight_model):
    months = [flights(seed, warm=warm) for seed, warm in enumerate((9.0, 14.0, 18.0, 21.0, 19.0))]
    with_labels = [detect_drift(flight_model, *each) for each in months]
    without = [detect_drift(flight_model, each) for each, _ in months]
    assert all([each.name for each in found.columns.moved] == ["temperature"] for found in with_labels)
    assert [found.verdict for found in with_labels].count("fine") >= 4
    assert {found.verdict for found in without} <= {"fine", "unknown"}
    assert "although the rows changed (temperature)" in with_labels[0].reason


def test_changed_labelling_at_one_airport_is_named_and_is_no_change_of_the_class(flight_model):
    found = detect_drift(flight_model, *flights(7, quiet="A03"))
    assert found.verdict == "look at the labelling"
    assert re.fullmatch(
        r"Labels are rarer than predicted where airport is A03: \d+ instead of \d+\. This points to the labelling "
        r"there, not to the class prior, because airport is an attribute of the labelling\.",
        found.reason,
    )
    assert "of 0." in str(found)
    assert "The second is more plausible, because airport is an attribute of the labelling." in str(found)


def test_changed_labels_at_a_value_of_a_column_of_the_class_point_to_the_class(flight_model):
    found = detect_drift(flight_model, *flights(8, late="b"))
    assert found.verdict == "refit"
    assert found.reason.startswith("Labels are more frequent than predicted where season is b: ")
    assert found.reason.endswith("points to the class there, not to the labelling, because only the class model "
        "uses season (or the class model was wrong there from the start).")  # fmt: skip


def test_without_named_attributes_the_place_is_named_but_not_the_cause():
    table, labels = flights(100, 4000)
    model = TableClassifier(SAREMClassifier(propensity_attributes="all")).fit(table, labels)
    found = detect_drift(model, *flights(7, quiet="A03"), reference=table)
    assert found.verdict == "look at the labelling"
    assert found.reason.startswith("Labels are rarer than predicted where airport is A03: ")
    assert found.reason.endswith("the labels cannot tell whether the positives or the labelling changed.")


@pytest.mark.filterwarnings("ignore:.*Check the values and their unit:UserWarning")
@pytest.mark.parametrize(
    ("factor", "words"),
    [(1000.0, "1,000 times larger"), (3.2808, "3.28 times larger"), (1 / 60, "60 times smaller")],
    ids=["grams", "feet", "hours"],
)
def test_a_changed_unit_is_the_first_thing_said(flight_model, factor, words):
    table, labels = flights(3)
    found = detect_drift(flight_model, table.assign(distance=factor * table["distance"]), labels)
    assert found.verdict == "unknown"
    assert found.sentences()[0] == (
        f"Is the model still right? This cannot be said. Column 'distance' is about {words} than in the fit: was its "
        "unit changed? If so, correct it, and check again."
    )
    assert [each.name for each in found.columns.other_units] == ["distance"]
    assert "Labels: their predicted number rests on columns that must be corrected first." in found.sentences()
    assert "would explain" not in str(found)


@pytest.mark.filterwarnings("ignore:.*outside the range of:UserWarning")
def test_longer_distances_are_no_other_unit(flight_model):
    table, labels = flights(3)
    for changed in (1.5 * table["distance"], table["distance"] + 1000.0, 10.0 * table["distance"] ** 0.5):
        found = detect_drift(flight_model, table.assign(distance=changed), labels)
        assert "distance" in [each.name for each in found.columns.moved]
        assert found.columns.other_units == []


def far_month(seed, shift, n=1500):
    """Return rows and labels; a column that matters lies `shift` standard deviations from that of the fit."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=n) + shift, rng.normal(size=n), rng.integers(2, size=n)])
    y = rng.random(n) < expit(-1.0 - 0.8 * X[:, 0] + X[:, 1])
    return X, (y & (rng.random(n) < np.where(X[:, 2] == 1, 0.7, 0.3))).astype(int)


def test_extrapolation_on_which_the_positives_depend_needs_labels():
    X, s = far_month(0, 0.0, 4000)
    model = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    X_new, s_new = far_month(1, -6.0)
    without, with_labels = detect_drift(model, X_new, reference=X), detect_drift(model, X_new, s_new, reference=X)
    assert without.verdict == "unknown"
    assert without.reason.startswith(
        "Many rows are far outside the range of x0 in the fit, and the expected number of "
    )
    assert without.reason.endswith("there are no labels to check this.")
    assert without.extrapolation.columns == ("x0",)
    assert without.extrapolation.positives < without.positives.low
    assert without.extrapolation.labels != without.extrapolation.labels  # NaN without labels
    assert with_labels.extrapolation.labels < with_labels.labels.total.low
    assert with_labels.verdict == "fine"
    assert "far outside the range of x0 in the fit" in with_labels.finding_on_columns()
    assert with_labels.to_dict()["extrapolation"]["columns"] == ["x0"]


def test_rows_far_outside_a_column_that_does_not_matter_are_fine():
    X, s = far_month(0, 0.0, 4000)
    model = SAREMClassifier(propensity_attributes=[2], classification_attributes=[0, 1]).fit(X[:, [0, 1, 2]], s)
    wide, wide_new = np.column_stack([X, X[:, 0]]), np.column_stack([far_month(1, 0.0)[0], np.full(1500, 50.0)])
    model = SAREMClassifier(propensity_attributes=[2], classification_attributes=[0, 1]).fit(wide, s)
    found = detect_drift(model, wide_new, reference=wide)
    assert [each.name for each in found.columns.far] == ["x3"]
    assert found.extrapolation.positives == pytest.approx(found.positives.value)
    assert (found.verdict, found.reason[:24]) == ("fine", "The rows changed (x3), b")
