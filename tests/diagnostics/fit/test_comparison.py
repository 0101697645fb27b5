"""What changed between two fits: shares, coefficients and rankings, with intervals."""

import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from scarless import (
    PropensityWeightedClassifier,
    SAREMClassifier,
    SAREMClassifierCV,
    SARStackingClassifier,
    TableClassifier,
)
from scarless.diagnostics import FitComparisonDisplay, compare_fits
from scarless.diagnostics.fit.comparison import FitComparison, FitDifference


def table(seed, n=1500, intercept=0.0, labelling=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = rng.random(n) < expit(intercept + 2 * X[:, 0])
    return X, (y & (rng.random(n) < expit(labelling * X[:, 2]))).astype(int)


def fit(seed, **options):
    return SAREMClassifier(propensity_attributes=[2]).fit(*table(seed, **options))


@pytest.fixture(scope="module")
def old():
    return fit(0)


@pytest.fixture(scope="module")
def new():
    return fit(1, labelling=-1.0)


def test_coefficients_are_compared_by_z_tests(old, new):
    found = compare_fits(old, new)
    [visits] = [each for each in found.coefficients if (each.what, each.name) == ("propensity", "x2")]
    errors = [model.standard_errors().propensity_coef[0, 2] for model in (old, new)]
    assert visits.old == old.propensity_coef_[0, 2]
    assert visits.difference == new.propensity_coef_[0, 2] - old.propensity_coef_[0, 2]
    assert (visits.high - visits.low) / 2 == pytest.approx(1.959964 * np.hypot(*errors), rel=1e-5)
    assert visits.clear
    assert "these changed clearly: x2 (propensity)." in str(found)
    assert [each.what for each in found.shares] == ["class prior", "label frequency"]


def test_the_interval_of_a_share_combines_both_intervals(old, new):
    prior = compare_fits(old, new, level=0.9).shares[0]
    (a_low, a_high), (b_low, b_high) = (each.class_prior_interval(level=0.9) for each in (old, new))
    a, b = old.class_prior_, new.class_prior_
    assert prior.difference == pytest.approx(b - a)
    assert prior.low == pytest.approx(b - a - np.hypot(b - b_low, a_high - a))
    assert prior.high == pytest.approx(b - a + np.hypot(b_high - b, a - a_low))


def test_exchanged_fits_change_the_sign(old, new):
    one, other = compare_fits(old, new), compare_fits(new, old)
    for a, b in zip(one.differences, other.differences, strict=True):
        assert a.difference == pytest.approx(-b.difference)
        assert a.low == pytest.approx(-b.high)
        assert a.p_adjusted == pytest.approx(b.p_adjusted)


def test_a_fit_and_itself_do_not_differ_and_seem_to_share_rows(old):
    found = compare_fits(old, old)
    assert all(each.difference == 0 and each.p_value == 1 for each in found.differences)
    assert any(each.startswith("Both fits have the same number of rows and of labels.") for each in found.notes)
    assert found.notes[0].startswith("Intervals and p-values assume that the two fits used different rows.")
    assert f"The class prior is {old.class_prior_:.3f} in both fits (" in str(found)


def test_a_clear_difference_of_small_shares_is_visible():
    found = FitDifference("class prior", "", 0.00061, 0.00139, 0.00078, 0.0007, 0.00086, 1e-15, 1e-15)
    shown = FitComparison((found,), (), (), (), None, 0.95, ())
    assert "clearly rose from 0.00061 to 0.00139 (difference +0.00078, interval +0.00070 to +0.00086," in str(shown)
    unclear = FitComparison((found._replace(p_adjusted=0.5),), (), (), (), None, 0.95, ())
    assert "is 0.001 in both" not in str(shown)
    assert "is 0.001 in both fits" in str(unclear)


def test_rankings(old, new):
    X, _ = table(5, 200)
    found = compare_fits(old, new, X, n_top=20).ranking
    a, b = (each.predict_proba(X)[:, 1] for each in (old, new))
    assert found.correlation[0] == pytest.approx(spearmanr(a, b).statistic)
    assert found.overlap[0] == len(set(np.argsort(-a)[:20]) & set(np.argsort(-b)[:20])) / 20
    assert found.correlation[1] <= found.correlation[0] <= found.correlation[2]
    assert found.by_chance == 0.1
    same = compare_fits(old, old, X, n_top=500).ranking
    assert same.correlation == (pytest.approx(1.0),) * 3
    assert (same.n_top, same.overlap) == (200, (1.0, 1.0, 1.0))
    assert "The rankings of 200 rows have a rank correlation of 1.00 (1.00 to 1.00)." in str(compare_fits(old, old, X))


def test_coverage_of_the_difference_if_nothing_changed():
    """Of 40 pairs of fits to the same population, at most a few have an adjusted p-value below 0.05."""
    fits = [fit(seed, n=700) for seed in range(41)]
    alarms = sum(any(each.clear for each in compare_fits(a, b).differences) for a, b in pairwise(fits))
    assert alarms <= 5


def raw(X):
    frame = pd.DataFrame(X, columns=["age", "bmi", "visits"])
    return frame.assign(age=50 + 10 * frame["age"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_raw_tables_are_compared_in_raw_units_and_other_columns_are_named():
    models = []
    for seed, extra in ((0, {}), (1, {"smoker": np.random.default_rng(0).choice(["yes", "no"], 1500)})):
        X, s = table(seed)
        inner = SAREMClassifier(propensity_attributes=["visits"])
        models.append(TableClassifier(inner).fit(raw(X).assign(**extra), s))
    found = compare_fits(*models)
    assert {each.name for each in found.coefficients} == {"age", "bmi", "visits"}
    [age] = [each for each in found.coefficients if each.name == "age"]
    assert age.old == pytest.approx(0.2, abs=0.06)
    assert found.only_old == ()
    assert all(name.startswith("smoker = ") for name in found.only_new)
    assert "Only the new fit has coefficients of smoker = " in str(found)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_classes(old):
    X, s = table(1, 400)
    search = SAREMClassifierCV(propensity_attributes=[2], Cs=[1.0], propensity_Cs=[1.0], random_state=0).fit(X, s)
    found = compare_fits(old, search)
    assert any(each.startswith("The fits are of different classes (SAREMClassifier and SAREMC") for each in found.notes)
    assert len(found.coefficients) == 6
    stack = SARStackingClassifier([("naive Bayes", GaussianNB())], propensity_attributes=[2], random_state=0).fit(X, s)
    found = compare_fits(search, stack)
    assert found.coefficients == ()
    assert "The new fit has no coefficients with standard errors, so coefficients are not compared." in found.notes
    assert np.isfinite(found.shares[0].p_value)
    known = PropensityWeightedClassifier().fit(X, s, propensity=expit(X[:, 2]))
    bare = compare_fits(old, known)
    assert np.isnan(bare.shares[0].low)
    assert "(no interval)" in str(bare)
    FitComparisonDisplay(bare).plot()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ((1, None), TypeError, "old must be a fitted classifier of this package; got 1"),
        (("fit", LogisticRegression().fit([[0], [1]], [0, 1])), TypeError, "new must be a classifier of this package"),
        (("fit", "fit", np.zeros((2, 3))), ValueError, "X has 2 rows, but a comparison of rankings needs at least 3"),
    ],
    ids=["number", "foreign", "rows"],
)
def test_input_errors(old, given, error, words):
    given = [old if isinstance(each, str) else each for each in given]
    with pytest.raises(error, match=re.escape(words)):
        compare_fits(*given)


def test_fits_without_a_common_column_are_refused():
    X, s = table(0, 600)
    names = pd.DataFrame(X, columns=["a", "b", "c"]), pd.DataFrame(X, columns=["d", "e", "f"])
    one, other = (
        TableClassifier(SAREMClassifier(propensity_attributes=[each.columns[2]])).fit(each, s) for each in names
    )
    with pytest.raises(ValueError, match=r"The fits have no coefficient in common: the old fit has a \(classifier\)"):
        compare_fits(one, other)


def test_frame_html_and_display(old, new):
    found = compare_fits(old, new)
    frame = found.to_frame()
    assert frame.loc[("propensity", "x2"), "p_adjusted"] < 0.001
    assert found._repr_html_().count("<tr>") == 1 + len(found.differences)
    axes = found.plot().ax_
    assert next(each.get_text() for each in axes.get_yticklabels()) == "class prior"
    assert axes.get_title() == "What changed between the fits"
    again = FitComparisonDisplay.from_estimators(old, new, level=0.9)
    assert again.result.level == 0.9
    with pytest.raises(TypeError, match="result must be a FitComparison, as returned by compare_fits; got str"):
        FitComparisonDisplay("a")
