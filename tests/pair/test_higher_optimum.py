"""Warnings about a higher optimum than that of the paper's start."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.naive_bayes import GaussianNB
from tests.helpers import quick_first, slowly

from scarless import SAREMClassifier, SAREMClassifierCV
from scarless.diagnostics import bootstrap_intervals, identifiability_report, profile_class_prior
from scarless.engines import InMemoryEngine
from scarless.models import pair
from scarless.pair import optima
from scarless.pair.problem import PairProblem

LOWER = "SAREMClassifier: the paper's start led to a local optimum.* leads to a higher optimum"


def trap(n=1500, seed=0, step=False):
    """Return a table on which the paper's start leads to half of the true class prior of 0.83."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = rng.random(n) < expit(1.5 * X[:, 0] - X[:, 1] + 2.5)
    e = np.where(X[:, 4] > 0, 0.9, 0.05) if step else expit(4.0 * X[:, 4])
    return X, (y & (rng.random(n) < e)).astype(int)


def plain(n):
    """Return a table on which the paper's start leads to the highest optimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    y = rng.random(n) < expit(2.0 * X[:, 0])
    return X, (y & (rng.random(n) < expit(X[:, 4]))).astype(int)


def model(**options):
    return SAREMClassifier(propensity_attributes=[4], **options)


def fit_and_hear(*data, weight=None, **options):
    with pytest.warns(UserWarning, match=LOWER) as told:
        fitted = model(**options).fit(*data, sample_weight=weight)
    return fitted, str(told[0].message)


@pytest.mark.parametrize("step", quick_first(False, True))
@pytest.mark.parametrize("n", [1500, 6000])  # the search uses all rows, or a part of them
def test_a_higher_optimum_is_reported_and_several_starts_find_it(n, step):
    X, s = trap(n, step=step)
    fitted, told = fit_and_hear(X, s)
    best = model(n_starts=4, random_state=0).fit(X, s)
    own, higher, true = fitted.optima_[0], fitted.higher_optimum_, best.optima_[best.selection_.index]
    assert own.objective - higher.objective > 15
    assert higher.objective == pytest.approx(true.objective, rel=1e-4)
    assert higher.class_prior == pytest.approx(true.class_prior, abs=0.02)
    for number in (-own.objective, -higher.objective):
        assert f"{number:.2f}" in told
    for prior in (own.class_prior, higher.class_prior):
        assert f"{prior:.3f}" in told
    assert "Use SAREMClassifier with n_starts=5, or SAREMClassifierCV" in told
    assert best.higher_optimum_ is None


def test_an_engine_that_is_fast_with_all_rows_searches_on_all_rows(monkeypatch):
    """A trap is found without a part of the rows, and a table without a trap needs one fit from one other start."""
    (X, s), used = trap(6000), []
    by_part = fit_and_hear(X, s)[0].higher_optimum_
    monkeypatch.setattr(InMemoryEngine, "flat_rows", 10_000, raising=False)
    monkeypatch.setattr(PairProblem, "part", lambda self, n_rows: pytest.fail("a part of the rows was used"))
    on_all_rows = fit_and_hear(X, s)[0].higher_optimum_
    assert on_all_rows.objective == pytest.approx(by_part.objective, rel=1e-4)
    before = optima._fit_start
    monkeypatch.setattr(
        optima, "_fit_start", lambda problem, start, rules: used.append(start.name) or before(problem, start, rules)
    )
    X, s = plain(6000)
    assert model().fit(X, s).higher_optimum_ is None
    assert used == ["paper", "all positive"]


def test_the_fit_is_still_that_of_the_papers_start(monkeypatch):
    X, s = trap()
    fitted, told = fit_and_hear(X, s)
    again, told_again = fit_and_hear(X, s, n_starts=["paper"], random_state=3)
    monkeypatch.setattr(SAREMClassifier, "_runs_checks", False)
    alone = model().fit(X, s)
    assert alone.higher_optimum_ is None
    assert told == told_again
    for other in (again, alone):
        np.testing.assert_array_equal(fitted.coef_, other.coef_)
        assert fitted.optima_ == other.optima_


def test_summary_selection_report_and_profile_mention_the_higher_optimum():
    X, s = trap()
    fitted, _ = fit_and_hear(X, s)
    report = identifiability_report(fitted)
    assert report.verdict == "not identified"
    assert report.higher == fitted.higher_optimum_.class_prior
    assert "The fit is in a local optimum" in str(report)
    assert "n_starts=5" in report.sentences()[0]
    (remark,) = [note for note in fitted.summary().remarks if "local optimum" in note]
    assert remark == fitted.selection_.reason
    assert identifiability_report(model(n_starts=3, random_state=0).fit(X, s)).higher is None
    profile = profile_class_prior(fitted, X, s, grid=[0.4, 0.45])
    assert any("another optimum at 0.8" in told for told in profile.sentences())


def test_weights_equal_repeated_rows():
    X, s = trap(1000)
    times = np.random.default_rng(1).integers(0, 3, 1000)
    weighted, _ = fit_and_hear(X, s, weight=times.astype(float))
    repeated, _ = fit_and_hear(np.repeat(X, times, axis=0), np.repeat(s, times))
    assert weighted.higher_optimum_.objective == pytest.approx(repeated.higher_optimum_.objective, rel=1e-4)
    # Added rows of weight 0 change nothing.
    other = np.random.default_rng(2).random(1000) < 0.5
    both = np.vstack([X, X]), np.concatenate([s, other])
    beside, _ = fit_and_hear(*both, weight=np.concatenate([times, np.zeros(1000)]).astype(float))
    assert beside.higher_optimum_.objective == pytest.approx(weighted.higher_optimum_.objective, rel=1e-4)


def test_a_sparse_table_gives_the_same_warning():
    X, s = trap()
    assert fit_and_hear(sparse.csr_array(X), s)[1] == fit_and_hear(X, s)[1]


@pytest.mark.filterwarnings("ignore:SAREMClassifier finds that all positives")
@pytest.mark.parametrize("seed", [*range(3), *slowly(*range(3, 8))])
@pytest.mark.parametrize("n", [400, 5000])
def test_no_warning_if_the_papers_start_finds_the_best(simulated, seed, n):
    pu = simulated(n=n, seed=seed)
    assert SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s).higher_optimum_ is None


@pytest.mark.filterwarnings("ignore:SAREMClassifier finds that all positives")
@pytest.mark.parametrize("seed", [*range(2), *slowly(*range(2, 6))])
def test_a_swapped_optimum_is_not_reported_as_higher(simulated, seed):
    pu = simulated(n=300, seed=seed)
    fitted = SAREMClassifier(propensity_attributes="all", propensity_C=0.1).fit(pu.X, pu.s)
    assert fitted.higher_optimum_ is None


@pytest.mark.parametrize(
    "options",
    [{"n_starts": 2}, {"n_starts": ["exclusion"]}, {"n_starts": [0.5]}, {"estimator": GaussianNB(), "max_iter": 20}],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_there_is_no_search_with_other_starts_or_with_an_estimator(options, monkeypatch):
    monkeypatch.setattr(pair, "find_higher_optimum", refuse)
    fitted = model(**options).fit(*trap(400))
    assert getattr(fitted, "higher_optimum_", None) is None


def test_there_is_no_search_for_higher_optima_in_searches_and_resamples(monkeypatch):
    X, s = trap()
    fitted, _ = fit_and_hear(X, s)
    monkeypatch.setattr(pair, "find_higher_optimum", refuse)
    SAREMClassifierCV(propensity_attributes=[4], Cs=[1.0], cv=3, random_state=0).fit(X, s)
    assert bootstrap_intervals(fitted, X, s, n_resamples=20, random_state=0).n_failed == 0


def test_there_is_no_search_for_wide_models_or_fits_that_did_not_converge(monkeypatch):
    X, s = trap()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unfinished = model(max_iter=2).fit(X, s)
    assert not unfinished.converged_
    assert unfinished.higher_optimum_ is None
    monkeypatch.setattr(optima, "MAX_MATRIX_PARAMETERS", 7)  # the models have 8 parameters
    assert model().fit(X, s).higher_optimum_ is None


def refuse(*_):
    raise AssertionError("the search for a higher optimum was called")
