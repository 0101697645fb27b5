"""Several starts: where they begin, which optima they reach, and which of these is believed."""

import numpy as np
import pytest
from scipy.special import expit

from scarless import SAREMClassifier
from scarless.models._base import engine_of
from scarless.models._basins import climb_all
from scarless.models._starts import PairProblem, Start, class_prior_start, exclusion_start, make_starts, random_start

MIRROR = "can be exchanged without changing the fit"


TIED, APART = (7, 30.0), (8, 1.0)  # seed and C


@pytest.fixture
def fit(two_optima):
    return lambda case: fit_table(case, *two_optima(case[0]))


def fit_table(case, X, s):
    model = SAREMClassifier(propensity_attributes=[5, 6], C=case[1], n_starts=8, random_state=0)
    return model.fit(X, s), X, s


def problem_of(pu, f_columns, e_columns):
    X, s = np.asarray(pu.X), pu.s.astype(float)
    return PairProblem(engine_of(X), s, np.ones(s.size), np.array(f_columns), np.array(e_columns), 1.0, 1.0)


@pytest.mark.parametrize("prior", [0.3, 0.5, 0.97])
def test_a_start_at_a_class_prior_has_it(pu, prior):
    start = class_prior_start(problem_of(pu, [0, 1, 2], [2]), prior)
    f = expit(pu.X[:, :3] @ start.parameters[:3] + start.parameters[3])
    assert f.mean() == pytest.approx(prior, abs=1e-9)


def test_the_exclusion_start_is_the_fit_of_a_classifier_that_does_not_see_the_propensity_attributes(pu):
    start = exclusion_start(problem_of(pu, [2, 0, 1], [2, 3])).parameters
    model = SAREMClassifier(propensity_attributes=[2, 3], classification_attributes=[0, 1], tol=1e-6)
    model.fit(pu.X, pu.s)
    assert start[0] == 0  # column 2, which the propensity model sees
    np.testing.assert_allclose(start[1:3], model.coef_[0, :2], rtol=1e-9)
    np.testing.assert_allclose(start[4:6], model.propensity_coef_[0, 2:], rtol=1e-9)


def test_a_random_start_has_logits_of_size_one_whatever_the_units(pu):
    rng, sizes = np.random.default_rng(0), []
    pu = pu._replace(X=pu.X * np.array([1e-6, 1.0, 1e6, 1.0]))
    for i in range(200):
        start = random_start(problem_of(pu, [0, 1, 2, 3], [2]), i, rng).parameters
        sizes.append(np.mean((pu.X @ start[:4]) ** 2))
    assert np.sqrt(np.mean(sizes)) == pytest.approx(1.0, rel=0.1)


def test_auto_begins_with_the_paper_and_adds_the_others_in_turn(pu):
    problem = problem_of(pu, [0, 1, 2], [2, 3])
    names = [start.name for start in make_starts(problem, "auto", 7, np.random.default_rng(0))]
    share = pu.s.mean()
    priors = [f"class prior {share + (1 - share) * step:.2g}" for step in (0.5, 0.25, 0.75)]
    assert names == ["paper", "exclusion", *priors, "random 1", "random 2"]
    apart = make_starts(problem_of(pu, [0, 1], [2, 3]), "auto", 2, np.random.default_rng(0))
    assert apart[1].name.startswith("class prior")  # nothing to exclude


def test_one_start_is_the_papers_and_says_so(pu):
    model = SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    (basin,) = model.basins_
    assert basin.starts == ("paper",)
    assert basin.class_prior == pytest.approx(model.class_prior_, rel=1e-9)
    assert basin.label_frequency == pytest.approx(model.label_frequency_, rel=1e-9)
    assert basin.mean_propensity == pytest.approx(model.predict_propensity(pu.X).mean(), rel=1e-9)
    assert "One start (paper)" in str(model.selection_)


def test_starts_that_lead_to_one_optimum_are_one_basin(pu):
    model = SAREMClassifier(propensity_attributes=[2], n_starts=5, random_state=0).fit(pu.X, pu.s)
    (basin,) = model.basins_
    assert len(basin.starts) == 5
    assert model.selection_.reason == "All 5 starts led to the same optimum."


@pytest.mark.parametrize("case", [TIED, APART])
def test_each_basin_is_an_optimum_of_the_penalised_likelihood_and_the_best_comes_first(fit, case):
    model, X, s = fit(case)
    assert len(model.basins_) == 2
    assert model.basins_[0].objective < model.basins_[1].objective
    chosen = model.basins_[model.selection_.basin]
    f, e = model.predict_proba(X)[:, 1], model.predict_propensity(X)
    likelihood = np.where(s == 1, np.log(f * e), np.log1p(-f * e)).sum()
    penalty = (model.coef_**2).sum() / (2 * case[1]) + (model.propensity_coef_**2).sum() / 2
    assert chosen.log_likelihood == pytest.approx(likelihood, rel=1e-9)
    assert chosen.objective == pytest.approx(penalty - likelihood, rel=1e-9)
    assert chosen.class_prior == pytest.approx(f.mean(), rel=1e-9)


def test_optima_that_labels_cannot_tell_apart_are_decided_by_the_lower_label_frequency(fit):
    model, X, s = fit(TIED)
    best, chosen = model.basins_[0], model.basins_[model.selection_.basin]
    assert model.selection_.basin == 1
    assert chosen.label_frequency < best.label_frequency
    behind, error = model.selection_.behind[1], model.selection_.standard_error[1]
    assert behind == pytest.approx(chosen.objective - best.objective)
    assert 0 < behind <= error
    assert "cannot tell them apart" in model.selection_.reason
    # The error is Vuong's, from the rows' differences between both optima.
    other = SAREMClassifier(propensity_attributes=[5, 6], C=TIED[1]).fit(X, s)
    difference = _rows(other, X, s) - _rows(model, X, s)
    assert error == pytest.approx(np.sqrt(s.size) * difference.std(), rel=1e-6)


def _rows(model, X, s):
    p = model.predict_proba(X)[:, 1] * model.predict_propensity(X)
    return np.where(s == 1, np.log(p), np.log1p(-p))


def test_an_optimum_that_is_clearly_better_is_taken(fit):
    model, *_ = fit(APART)
    assert model.selection_.basin == 0
    assert model.selection_.behind[1] > model.selection_.standard_error[1]
    assert "ahead of the rest by more than the difference's standard error" in model.selection_.reason


def test_the_best_of_tied_optima_may_have_the_lowest_label_frequency_itself(fit):
    model, *_ = fit((3, 1.0))
    assert model.selection_.basin == 0
    assert "also has the lowest label frequency" in model.selection_.reason


def test_repeated_rows_count_as_weights_in_the_choice(two_optima):
    X, s = two_optima(TIED[0])
    model = SAREMClassifier(propensity_attributes=[5, 6], C=TIED[1], n_starts=2)
    weight = np.random.default_rng(1).integers(1, 3, s.size)
    weighted = model.fit(X, s, sample_weight=weight).selection_
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(s, weight)).selection_
    assert weighted.basin == repeated.basin
    np.testing.assert_allclose(weighted.standard_error, repeated.standard_error, rtol=1e-6)


@pytest.mark.parametrize(("C", "propensity_C"), [(1.0, 1.0), (1.0, 10.0), (30.0, 0.3)])
@pytest.mark.parametrize("start", ["auto", "class_prior", "random"])
def test_exchangeable_models_stay_the_way_round_that_the_papers_start_leads_to(pu, C, propensity_C, start):
    # Every optimum has a mirror image, of the same height if both penalties are the same.
    options = {
        "propensity_attributes": [0, 2],
        "classification_attributes": [2, 0],
        "C": C,
        "propensity_C": propensity_C,
    }
    with pytest.warns(UserWarning, match=MIRROR):
        plain = SAREMClassifier(**options).fit(pu.X, pu.s)
    with pytest.warns(UserWarning, match=MIRROR):
        model = SAREMClassifier(n_starts=6, start=start, random_state=0, **options).fit(pu.X, pu.s)
    pair = [np.array([m.predict_proba(pu.X)[:, 1], m.predict_propensity(pu.X)]) for m in (plain, model)]
    assert np.square(pair[1] - pair[0]).sum() < np.square(pair[1] - pair[0][::-1]).sum()


def test_penalties_do_not_decide_which_model_is_the_classifier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    s = (rng.random(3000) < expit(2 * X[:, 0] + X[:, 1]) * expit(X[:, 2] - 0.5)).astype(int)
    with pytest.warns(UserWarning, match=MIRROR):
        model = SAREMClassifier(propensity_attributes=slice(None), n_starts=2, C=1, propensity_C=10).fit(X, s)
    np.testing.assert_allclose(model.coef_, [[2, 1, 0]], atol=0.35)
    np.testing.assert_allclose(model.propensity_coef_, [[0, 0, 1]], atol=0.35)


def test_a_mirrored_optimum_is_turned_round(pu):
    options = {"propensity_attributes": [0, 2], "classification_attributes": [2, 0], "tol": 1e-13}
    with pytest.warns(UserWarning, match=MIRROR):
        plain = SAREMClassifier(**options).fit(pu.X, pu.s)
    turned = Start("turned", plain._inference.exchanged)
    (climb,) = climb_all(problem_of(pu, [2, 0], [0, 2]), [turned], tol=1e-13, max_iter=100)
    assert climb.basin.starts == ("turned",)
    np.testing.assert_allclose(climb.fit.solution.parameters, plain._inference.parameters, atol=1e-4)


def test_exchanging_is_no_danger_where_the_models_see_other_columns(pu):
    SAREMClassifier(propensity_attributes=[0], classification_attributes=[0, 1]).fit(pu.X, pu.s)  # warnings are errors


@pytest.mark.parametrize("start", ["paper", "exclusion", "class_prior", "random", 0.6])
def test_every_start_leads_to_an_optimum(pu, start):
    model = SAREMClassifier(propensity_attributes=[2], start=start, random_state=0).fit(pu.X, pu.s)
    paper = SAREMClassifier(propensity_attributes=[2]).fit(pu.X, pu.s)
    assert model.converged_
    np.testing.assert_allclose(model.coef_, paper.coef_, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_starts": 0}, "n_starts must be a whole number of at least 1"),
        ({"start": "middle"}, "start must be one of 'auto', 'paper', 'exclusion', 'class_prior', 'random'"),
        ({"start": 1.5}, "start .a class prior, or a name. must lie strictly between 0 and 1"),
        ({"start": "paper", "n_starts": 3}, "start='paper' is one start, and n_starts=3"),
        ({"start": 0.5, "n_starts": 2}, "start=0.5 is one start"),
        ({"solver": "em", "n_starts": 2}, "Several starts need solver='newton'"),
        ({"solver": "em", "start": "random"}, "EM begins at the paper's start"),
        ({"random_state": "seed"}, "random_state must be None, a whole number"),
    ],
)
def test_what_is_no_start_is_refused(pu, options, message):
    with pytest.raises(ValueError, match=message):
        SAREMClassifier(propensity_attributes=[2], **options).fit(pu.X, pu.s)
