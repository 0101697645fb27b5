"""Warnings of fits to looks and audits whose estimates are probably wrong."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from tests.helpers import fit_and_listen

from scarless import ClassPrior, Labelling, SAREMClassifier, SAREMClassifierCV, audited_class_prior
from scarless.labelling import simulate_audit, simulate_looks
from scarless.models.reading import read_rows
from scarless.pair.look_checks import prior_gap


class Seen:
    """Rows with three looks and 200 audits; class and labelling depend on the same attributes."""

    def __init__(self, n=3000, seed=3):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, 4))
        self.y = rng.random(n) < expit(self.X @ [2, -1, 0.5, 0] - 0.8)
        self.e = expit(self.X @ [0, 0.5, 0.5, -1] - 0.8)
        self.S = simulate_looks(self.y, [self.e] * 3, random_state=seed)
        self.audit = simulate_audit(self.y, 200, random_state=seed)


@pytest.fixture(scope="module")
def seen():
    return Seen()


def fit_pair(X, S, audit=None, weight=None, **params):
    model = SAREMClassifier(propensity_attributes="all", **params)
    return fit_and_listen(model, X, S, audit=audit, sample_weight=weight)


@pytest.mark.usefixtures("one_start")
def test_correct_fits_do_not_warn(seen):
    removal, labelled = seen.S[:, :2].copy(), seen.S[:, :2].copy()
    removal[removal[:, 0] == 1, 1] = np.nan  # no second look after a label
    labelled[labelled[:, 0] == 0, 1] = np.nan  # a second look of labelled rows only
    for S in (seen.S, removal, labelled):
        assert fit_pair(seen.X, S)[1] == []
    assert fit_pair(seen.X, seen.S[:, 0], seen.audit)[1] == []


def test_swappable_models_get_a_warning_for_every_layout_of_labels(seen):
    """One look per row in two columns, audits of labelled rows and audits of weight 0 do not identify the models."""
    first, rng = seen.S[:, 0], np.random.default_rng(0)
    either = seen.S[:, :2].copy()
    either[np.arange(len(either)), rng.integers(0, 2, len(either))] = np.nan
    of_labelled = np.where(first == 1, 1.0, np.nan)
    unweighted = np.where(np.isnan(seen.audit), 1.0, 0.0)
    for given in (
        (either,),
        (np.column_stack([first, np.full(first.size, np.nan)]),),
        (first, of_labelled),
        (first, seen.audit, unweighted),
    ):
        _, told = fit_pair(seen.X, *given)
        assert any("does not show which one is the class model" in each for each in told)


def test_looks_that_differ_but_share_a_propensity_get_a_warning(seen):
    S = seen.S.copy()
    S[:, 2] *= np.random.default_rng(0).random(len(S)) < 0.3
    model, told = fit_pair(seen.X, S)
    assert len(told) == 1
    assert told[0].startswith(f"SAREMClassifier: look 2 found {int(S[:, 2].sum())} labels, but ")
    assert int(told[0].split("but ")[1].split()[0]) == pytest.approx(S.sum() / 3, abs=3)  # the mean of the three looks
    assert "share one propensity" in str(model.summary())
    assert fit_pair(seen.X, S, labelling=Labelling(shared=False))[1] == []


@pytest.mark.usefixtures("one_start")
def test_a_boosted_classifier_and_a_search_warn_too(seen):
    S = np.column_stack([seen.S[:, 0], np.zeros(len(seen.S))])
    booster = HistGradientBoostingClassifier(max_iter=10)
    with pytest.warns(UserWarning, match=r"look [01] found \d+ labels"):
        SAREMClassifier(booster, propensity_attributes=[1, 2, 3], cv=2, max_iter=5, random_state=0).fit(seen.X, S)
    with pytest.warns(UserWarning, match=r"look [01] found \d+ labels"):
        SAREMClassifierCV(propensity_attributes=[3], Cs=[1.0], cv=2).fit(seen.X, S)


def curved(seed, n=2000):
    """Return rows with two looks whose class depends on the square of the propensity attribute."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = rng.random(n) < expit(2 * (X[:, 2] ** 2 - 1))
    return X, y, (y[:, None] & (rng.random((n, 2)) < expit(0.7 * X[:, [2]] + 0.3))).astype(float)


AGAIN = "the share of labelled rows that are labelled again implies"


def test_a_class_prior_that_histories_of_labelled_rows_contradict_gets_a_warning():
    X, y, S = curved(0)
    linear = SAREMClassifier(propensity_attributes=[2])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        linear.fit(X, S)
    found = [str(each.message) for each in told if AGAIN in str(each.message)]
    assert len(found) == 1
    assert re.search(
        rf"the class prior of the fit is 0.38., but {AGAIN} 0.46. \(3.1 standard errors apart\)\. The second estimate "
        "needs no class model",
        found[0],
    )
    assert linear.class_prior_ < y.mean() - 0.02
    right = SAREMClassifier(propensity_attributes=[2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right.fit(np.column_stack([X, X[:, 2] ** 2]), S)


def gap_of(S, X):
    model = SAREMClassifier(propensity_attributes=[2])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        given = read_rows(model, X, S, None, None)
        problem = given.problem(1.0, 1.0)
        fit = model._fit_from_starts(problem, 1, 1e-10).fit
    return prior_gap(problem, fit, given.labels, given.looks.kinds, max_iter=200)


@pytest.mark.usefixtures("one_start")
def test_no_comparison_with_histories_if_they_have_too_little_information():
    X, _, S = curved(0)
    assert abs(gap_of(S, X).z_score) > 2.5
    removal, one, few = S.copy(), S.copy(), S.copy()
    removal[removal[:, 0] == 1, 1] = np.nan  # no second look after a label
    one[np.arange(len(one)), np.arange(len(one)) % 2] = np.nan  # one look for each row
    few[np.flatnonzero((few == 1).all(axis=1))[10:], 1] = 0.0  # only ten rows have two labels
    for each in (removal, one, few):
        assert gap_of(each, X) is None


def test_histories_do_not_change_with_copies_of_rows_or_gaps_by_chance():
    X, _, S = curved(1, n=800)
    once, twice = gap_of(S, X), gap_of(np.tile(S, (2, 1)), np.tile(X, (2, 1)))
    assert twice.by_histories == pytest.approx(once.by_histories, abs=0.01)  # the penalty has half the relative weight
    assert twice.z_score == pytest.approx(np.sqrt(2) * once.z_score, rel=0.1)
    S[np.random.default_rng(0).random(S.shape) < 0.1] = np.nan
    assert gap_of(S, X).by_histories == pytest.approx(once.by_histories, rel=0.1)


def test_undeclared_false_positives_get_a_warning(seen):
    rng = np.random.default_rng(0)
    S = np.where(rng.random(seen.S.shape) < 0.02, 1.0, seen.S)
    _, told = fit_pair(seen.X, S)
    assert any("labels do not fit a model without false positives" in each for each in told)
    _, told = fit_pair(seen.X, S, labelling=Labelling(false_positive_rate=0.1))
    assert any("labels do not fit a model with a false-positive rate of 0.1" in each for each in told)
    for right in (0.02, "estimate"):
        assert fit_pair(seen.X, S, labelling=Labelling(false_positive_rate=right))[1] == []


def test_audits_that_favour_positives_get_a_warning(seen):
    audit = np.where(seen.y & (np.random.default_rng(0).random(seen.y.size) < 0.2), 1.0, np.nan)
    _, told = fit_pair(seen.X, seen.S[:, 0], audit)
    assert any("audits of unlabelled rows are positive" in each for each in told)
    audit[np.flatnonzero(~seen.y)[:3]] = 0.0
    _, told = fit_pair(seen.X, seen.S, audit)
    assert any("positives, but labels and models predict" in each for each in told)


@pytest.mark.usefixtures("one_start")
def test_a_wrong_known_value_gets_one_warning(seen):
    _, told = fit_pair(seen.X, seen.S, known=[ClassPrior(0.9)])
    assert any("disagree" in each for each in told)
    assert not any("share one propensity" in each or "without false positives" in each for each in told)


def test_another_optimum_that_fits_as_well_gets_a_warning():
    """If few rows have a second look, two models of the same attributes are hardly distinguishable."""
    seen = Seen(n=5000)
    told = []
    for size in (10, 20, 40, 5000):
        S = seen.S[:, :2].copy()
        S[size:, 1] = np.nan
        told.append(any("fits these rows about as well" in each for each in fit_pair(seen.X, S)[1]))
    assert any(told[:3])
    assert not told[3]


def test_a_visit_attribute_with_the_same_column_at_every_look_is_refused(seen):
    with pytest.raises(ValueError, match=r"visit_attributes\['v'\] has the same column for all 3 looks"):
        SAREMClassifier(propensity_attributes="all", labelling=Labelling(visit_attributes={"v": [1, 1, 1]})).fit(
            seen.X, seen.S
        )


def test_looks_in_another_order_are_refused(seen):
    S = pd.DataFrame(seen.S, columns=["a", "b", "c"])
    model = SAREMClassifier(propensity_attributes="all", labelling=Labelling(shared=False)).fit(seen.X, S)
    with pytest.raises(ValueError, match="has the looks b, a, c, but the fit had them in the order a, b, c"):
        model.predict_posterior(seen.X, S[["b", "a", "c"]])
    with pytest.raises(ValueError, match="Looks are matched by position"):
        model.score(seen.X, S[["c", "b", "a"]])


def test_labels_of_plus_and_minus_one_work_with_audits(seen):
    s = seen.S[:, 0]
    want = SAREMClassifier(propensity_attributes="all").fit(seen.X, s, audit=seen.audit)
    got = SAREMClassifier(propensity_attributes="all").fit(seen.X, 2 * s - 1, audit=seen.audit)
    assert got.class_prior_ == want.class_prior_
    np.testing.assert_array_equal(got.predict_posterior(seen.X, 2 * s - 1), want.predict_posterior(seen.X, s))


@pytest.mark.usefixtures("one_start")
def test_a_cross_fit_with_known_and_estimated_false_positive_rates(seen):
    model = SAREMClassifier(
        HistGradientBoostingClassifier(max_iter=10),
        propensity_attributes=[3],
        cv=2,
        max_iter=5,
        random_state=0,
        labelling=Labelling(false_positive_rate=[0.01, "estimate", 0.02], shared=False),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(seen.X, seen.S, audit=seen.audit)
    f, h = model.predict_proba(seen.X)[:, 1], model.false_positive_rate_
    np.testing.assert_allclose(h[[0, 2]], [0.01, 0.02])
    e = np.column_stack([model.predict_propensity(seen.X, look=k) for k in range(3)])
    a, b = (np.prod(np.where(seen.S == 1, p, 1 - p), axis=1) for p in (e, h))
    np.testing.assert_allclose(model.predict_posterior(seen.X, seen.S), f * a / (f * a + (1 - f) * b), rtol=1e-9)


def test_impossible_audit_probabilities_are_refused(seen):
    model = SAREMClassifier(propensity_attributes="all").fit(seen.X, seen.S)
    given = model, seen.X, seen.S, seen.audit
    with pytest.warns(UserWarning, match=r"audits represent \d+ unlabelled rows, but the table has"):
        short = audited_class_prior(*given, 0.9)
    right = audited_class_prior(*given, 200 / 3000)
    assert np.ptp(short.interval) < np.ptp(right.interval)
    with pytest.warns(UserWarning, match="audited_class_prior: all .* audits of unlabelled rows are positive"):
        audited_class_prior(*given[:3], np.where(seen.audit == 1, 1.0, np.nan))
