"""Profile of the class prior: first-order conditions, maximum, ends of the interval."""

import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from tests.helpers import simulate_pair

from scarless import ClassPrior, NaiveClassifier, PseudoObservations, SAREMClassifier, SAREMClassifierCV
from scarless.diagnostics.uncertainty import _class_prior_path
from scarless.diagnostics.uncertainty.profile import ClassPriorProfile, ProfileDisplay, _check_grid, profile_class_prior
from scarless.models.inspection import problem_again
from scarless.numerics.objectives import Curvature
from scarless.numerics.uncertainty import Interval


@pytest.fixture(scope="module")
def data():
    return simulate_pair(1500, seed=2)


@pytest.fixture(scope="module")
def model(data):
    return SAREMClassifier(propensity_attributes=[2], tol=1e-13).fit(*data)


@pytest.fixture(scope="module")
def profile(model, data):
    return profile_class_prior(model, *data)


def test_the_profile_has_its_maximum_at_the_fit(profile, model):
    top = int(np.argmax(profile.difference))
    assert profile.class_prior[top] == profile.fit_class_prior == pytest.approx(model.class_prior_)
    assert profile.difference[top] == 0
    assert profile.log_likelihood[top] == pytest.approx(model.log_likelihood_)
    assert profile.label_frequency[top] == pytest.approx(model.label_frequency_)
    assert (np.diff(profile.class_prior) > 0).all()
    assert (np.diff(profile.difference[: top + 1]) > 0).all()
    assert (np.diff(profile.difference[top:]) < 0).all()


def test_the_interval_ends_at_the_cut(profile):
    assert profile.closed == (True, True)
    assert profile.cut == pytest.approx(chi2.ppf(0.95, 1) / 2)
    for end in profile.interval:
        at = int(np.argmin(np.abs(profile.class_prior - end)))
        assert profile.class_prior[at] == pytest.approx(end, abs=1e-8)
        assert -profile.difference[at] == pytest.approx(profile.cut, rel=1e-3)


def test_every_point_satisfies_the_first_order_conditions(model, data):
    X, s = data
    path = _class_prior_path.ProfilePath(model.fitted_pair_.inference, problem_again(model, X, s))
    path.follow(-1, 2.0)
    path.follow(1, 2.0)
    assert len(path.points) > 8
    for alpha, point in path.points.items():
        at = path.problem.evaluate(point.parameters, Curvature.EXPECTED)
        assert float(at.positives) / len(s) == pytest.approx(alpha, abs=1e-9)
        assert float(at.value) == pytest.approx(point.value, abs=1e-9)
        # Without its part along the constraint, the gradient is so small that a Newton step would gain almost nothing.
        left = at.gradient + point.multiplier * at.positives_gradient
        assert 0.5 * left @ np.linalg.solve(at.curvature, left) < 1e-6


def test_near_the_fit_the_profile_is_quadratic_with_the_standard_error(model, data):
    error = model.fitted_pair_.inference.precision.errors(model.fitted_pair_.inference.class_prior.gradient[None])[0]
    at = model.class_prior_ + 0.05 * error
    profile = profile_class_prior(model, *data, grid=[at])
    assert profile.difference[profile.class_prior > model.class_prior_][0] == pytest.approx(-(0.05**2) / 2, rel=0.02)


def test_only_the_grid_and_the_ends_are_evaluated(model, data):
    grid = [0.35, 0.6, model.class_prior_ + 0.01]
    profile = profile_class_prior(model, *data, grid=grid)
    for value in grid:
        assert np.abs(profile.class_prior - value).min() < 1e-8
    assert profile.class_prior.size <= len(grid) + 3
    wide = profile_class_prior(model, *data)
    assert profile.interval == pytest.approx(wide.interval, abs=1e-4)


def test_a_narrow_grid_gives_an_open_interval(model, data):
    profile = profile_class_prior(model, *data, grid=[model.class_prior_ - 0.01, model.class_prior_ + 0.01])
    assert profile.closed == (False, False)
    assert profile.flat
    assert "or less to" in str(profile)
    assert str(profile).startswith("The data allow any class prior from")


def test_a_wide_grid_is_evaluated_completely(model, data):
    profile = profile_class_prior(model, *data, grid=np.linspace(0.05, 0.95, 10))
    assert profile.class_prior.min() == pytest.approx(0.05, abs=1e-8)
    assert profile.class_prior.max() == pytest.approx(0.95, abs=1e-8)
    assert (profile.difference <= 1e-6).all()


def test_pseudo_observations_are_part_of_the_profile(data):
    """With many pseudo-observations, the likelihood without them has its maximum elsewhere."""
    options = {"propensity_attributes": [2], "tol": 1e-13}
    plain, audited = (SAREMClassifier(**options, known=[PseudoObservations(k)]).fit(*data) for k in (0, 400))
    assert abs(plain.class_prior_ - audited.class_prior_) > 0.003
    profile = profile_class_prior(audited, *data)
    test_the_profile_has_its_maximum_at_the_fit(profile, audited)
    test_the_interval_ends_at_the_cut(profile)


def test_a_recalibrated_fit_is_refused(data):
    options = {"propensity_attributes": [2], "Cs": [1.0], "cv": 3, "random_state": 0}
    recalibrated = SAREMClassifierCV(**options).fit(*data)
    with pytest.raises(ValueError, match=r"is recalibrated, so its fit .* recalibration_\.grid .*recalibrate=False"):
        profile_class_prior(recalibrated, *data)
    plain = SAREMClassifierCV(recalibrate=False, **options).fit(*data)
    test_the_interval_ends_at_the_cut(profile_class_prior(plain, *data))


def test_intervals_of_higher_levels_contain_those_of_lower_levels(model, data, profile):
    narrow = profile_class_prior(model, *data, level=0.5)
    assert profile.interval.low < narrow.interval.low < narrow.interval.high < profile.interval.high


def test_weights_equal_copies_of_rows(data):
    X, s = data
    w = np.random.default_rng(0).integers(0, 3, len(s))
    options = {"propensity_attributes": [2], "tol": 1e-13}
    weighted = SAREMClassifier(**options).fit(X, s, sample_weight=w)
    copied = SAREMClassifier(**options).fit(np.repeat(X, w, axis=0), np.repeat(s, w))
    one = profile_class_prior(weighted, X, s, sample_weight=w)
    other = profile_class_prior(copied, np.repeat(X, w, axis=0), np.repeat(s, w))
    assert one.interval == pytest.approx(other.interval, abs=1e-5)


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [
        (sparse.csr_array, 1e-5),
        (lambda X: pd.DataFrame(X, columns=list("abc")), 1e-5),
        (lambda X: X.astype(np.float32), 2e-3),
    ],
    ids=["csr", "pandas", "float32"],
)
def test_every_kind_of_table(data, profile, make, tolerance):
    X, s = data
    table = make(X)
    labels = np.where(s == 1, "found", "unknown")
    model = SAREMClassifier(propensity_attributes=[2], tol=1e-13, pos_label="found").fit(table, labels)
    found = profile_class_prior(model, table, labels)
    assert found.interval == pytest.approx(profile.interval, abs=tolerance)


def test_two_constant_models_give_a_flat_profile():
    s = np.repeat([1, 0], [100, 300])
    X = np.ones((400, 1))
    profile = profile_class_prior(SAREMClassifier().fit(X, s), X, s)
    assert profile.flat
    assert profile.interval.low < 0.27
    assert profile.interval.high > 0.95
    assert "The data allow any class prior from" in str(profile)


def test_a_better_optimum_on_the_path_is_reported():
    profile = ClassPriorProfile(
        class_prior=np.array([0.2, 0.3, 0.4]),
        difference=np.array([-1.0, 0.0, 0.8]),
        log_likelihood=np.zeros(3),
        label_frequency=np.array([0.9, 0.7, 0.5]),
        fit_class_prior=0.3,
        level=0.95,
        interval=Interval(0.1, 0.5),
        closed=(True, True),
    )
    assert "Models with a class prior of 0.400 have a higher penalised log-likelihood, by 0.8" in str(profile)
    assert str(profile) in profile._repr_html_()
    assert list(profile.to_frame().columns) == ["class_prior", "difference", "log_likelihood", "label_frequency"]


def test_the_profile_ends_where_the_optimisation_fails(model, data, monkeypatch):
    solve = _class_prior_path.minimise_at_class_prior

    def fails_above(problem, start, *, positives, multiplier, options):
        found = solve(problem, start, positives=positives, multiplier=multiplier, options=options)
        return (
            found
            if positives < 1500 * (model.class_prior_ + 0.01)
            else _class_prior_path.FixedPriorSolution(start, 0.0, 0.0, positives, converged=False, n_iter=1)
        )

    monkeypatch.setattr(_class_prior_path, "minimise_at_class_prior", fails_above)
    profile = profile_class_prior(model, *data)
    assert profile.closed == (True, False)
    assert profile.interval.high <= model.class_prior_ + 0.01


# --- plot


def test_the_plot_shows_the_profile(profile, model, data):
    figure, ax = plt.subplots()
    display = profile.plot(ax)
    assert isinstance(display, ProfileDisplay)
    assert (display.profile, display.ax_) == (profile, ax)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), profile.difference)
    assert ax.lines[0].get_ydata()[0] == -profile.cut
    low, high = profile.interval
    assert ax.get_title() == f"The data allow class priors from {low:.2f} to {high:.2f}"
    assert "Class prior" in ax.get_xlabel()
    assert "label frequency (right)" in [text.get_text() for text in ax.get_legend().get_texts()]
    plt.close(figure)
    display = ProfileDisplay.from_estimator(model, *data, level=0.9)
    assert display.profile.level == 0.9
    plt.close(display.figure_)


# --- errors


@pytest.mark.parametrize("grid", [[0.5, 1.0], [0.0], [-1.0], [np.nan]])
def test_a_grid_must_contain_probabilities(model, data, grid):
    with pytest.raises(ValueError, match="grid must contain class priors strictly between 0 and 1; got"):
        profile_class_prior(model, *data, grid=grid)


def test_an_empty_grid_is_refused(model, data):
    with pytest.raises(ValueError, match=r"grid must contain class priors .* got an empty list"):
        profile_class_prior(model, *data, grid=[])


def test_other_rows_are_refused(model, data):
    X, s = data
    with pytest.raises(ValueError, match="must be those that the model was fitted on; the sum of weights is 1499"):
        profile_class_prior(model, X[1:], s[1:])
    with pytest.raises(ValueError, match=r"must be those .* the log-likelihood is"):
        profile_class_prior(model, X[::-1], s)


def test_other_fits_have_no_profile(data):
    X, s = data
    model = SAREMClassifier(LogisticRegression(), tol=0.1).fit(X[:200], s[:200])
    with pytest.raises(ValueError, match="has no standard errors"):
        profile_class_prior(model, *data)


def test_the_level_must_be_between_0_and_1(model, data):
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        profile_class_prior(model, *data, level=95)


@pytest.fixture(scope="module")
def swappable():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    s = (rng.random(2000) < expit(2 * X[:, 0] - 1) * expit(1 + 1.5 * X[:, 1])).astype(int)
    with pytest.warns(UserWarning, match="can be swapped"):
        model = SAREMClassifier(propensity_attributes=slice(None), n_starts=8, random_state=0, tol=1e-13).fit(X, s)
    return model, X, s


def test_the_swapped_optimum_has_its_own_profile(swappable):
    model, X, s = swappable
    profile = profile_class_prior(model, X, s)
    (other,) = profile.other_optima
    assert other.fit_class_prior == pytest.approx(model.predict_propensity(X).mean(), abs=1e-5)
    assert other.difference.max() == pytest.approx(0.0, abs=1e-6)  # same penalty for both models
    for end in other.interval:
        at = int(np.argmin(np.abs(other.class_prior - end)))
        assert -other.difference[at] == pytest.approx(profile.cut, rel=1e-3)
    assert f"another optimum at {other.fit_class_prior:.3f}, around which the data allow values" in str(profile)
    ax = profile.plot().ax_
    assert f"or {other.range_words(2)}" in ax.get_title()
    assert "around another optimum" in [text.get_text() for text in ax.get_legend().get_texts()]
    plt.close(ax.figure)


def test_the_swapped_optimum_is_found_with_one_start(swappable):
    model, X, s = swappable
    with pytest.warns(UserWarning, match="can be swapped"):
        once = SAREMClassifier(propensity_attributes=[1, 0], classification_attributes=[0, 1], tol=1e-13).fit(X, s)
    a, b = once.fitted_pair_.inference, model.fitted_pair_.inference
    np.testing.assert_allclose(a.swapped, np.concatenate([b.beta_e, b.beta_f]), atol=1e-4)
    (one,), (other,) = (profile_class_prior(m, X, s).other_optima for m in (once, model))
    assert one.interval == pytest.approx(other.interval, abs=1e-4)


def test_a_known_better_optimum_refers_to_selection(model, data):
    profile = profile_class_prior(model, *data)
    better = replace(profile, difference=profile.difference + 0.5)
    assert "The attribute selection_ contains the reason why the fit is at another optimum" in str(
        replace(profile, other_optima=[better])
    )
    assert "fit again with more starts" in str(better)


@pytest.mark.parametrize("grid", [0.3, np.float16(0.3), np.array(0.5), "ab", False])
def test_a_grid_must_be_a_list(grid):
    with pytest.raises(ValueError, match=r"grid must be a list of class priors, for example \[0.2, 0.3, 0.4\]; got "):
        _check_grid(grid)


@pytest.mark.parametrize("other", [[], np.array([0.5]), NaiveClassifier(), None])
def test_profile_display_refuses_other_objects(other):
    message = f"profile must be a ClassPriorProfile, .*; got {type(other).__name__}.*from_estimator"
    with pytest.raises(TypeError, match=message):
        ProfileDisplay.from_profile(other)


@pytest.fixture(scope="module")
def looked():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 3))
    y = rng.random(900) < expit(1.5 * X[:, 0] + X[:, 1])
    labels = np.column_stack([y & (rng.random(900) < expit(X[:, 2])) for _ in range(2)]).astype(int)
    return X, labels, np.where(rng.random(900) < 0.2, y, np.nan)


def test_an_uninformative_known_value_does_not_change_the_profile(looked):
    X, labels, _ = looked
    s = labels[:, 0]
    plain = SAREMClassifier(propensity_attributes=[2]).fit(X, s)
    told = SAREMClassifier(propensity_attributes=[2], known=[ClassPrior(0.5, se=1e3)]).fit(X, s)
    one, other = (profile_class_prior(model, X, s, grid=[0.4, 0.5, 0.6]) for model in (plain, told))
    np.testing.assert_allclose(one.difference, other.difference, atol=1e-5)
    np.testing.assert_allclose(one.label_frequency, other.label_frequency, atol=1e-5)


def test_the_profile_of_looks_and_audits_is_the_best_likelihood_at_each_class_prior(looked):
    """Compare with fits in which an exact constraint fixes the class prior; both models have no penalty."""
    X, labels, audit = looked
    for given in ({}, {"audit": audit}):
        model = SAREMClassifier(propensity_attributes=[2], C=np.inf, propensity_C=np.inf).fit(X, labels, **given)
        profile = profile_class_prior(model, X, labels, grid=[0.45, 0.55], **given)
        for prior, drop in zip(profile.class_prior, profile.difference, strict=True):
            if min(abs(prior - 0.45), abs(prior - 0.55)) > 1e-6:
                continue
            held = clone(model).set_params(known=[ClassPrior(float(prior))])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a warning that the rows contradict the known class prior
                held.fit(X, labels, **given)
            assert drop == pytest.approx(held.log_likelihood_ - model.log_likelihood_, abs=1e-3)


def test_weights_of_looks_equal_copies_and_audits_must_be_those_of_the_fit(looked):
    X, labels, audit = looked
    twice = np.repeat(np.arange(900), 2)
    weighted = SAREMClassifier(propensity_attributes=[2]).fit(X, labels, np.full(900, 2.0), audit)
    repeated = SAREMClassifier(propensity_attributes=[2]).fit(X[twice], labels[twice], None, audit[twice])
    one = profile_class_prior(weighted, X, labels, sample_weight=np.full(900, 2.0), audit=audit)
    other = profile_class_prior(repeated, X[twice], labels[twice], audit=audit[twice])
    np.testing.assert_allclose(one.interval, other.interval, atol=1e-4)
    with pytest.raises(
        ValueError, match=r"audit has 0 audited rows, but the model was fitted with \d+ audited rows\. Pass the audits"
    ):
        profile_class_prior(weighted, X, labels, sample_weight=np.full(900, 2.0))
    plain = SAREMClassifier(propensity_attributes=[2]).fit(X, labels[:, 0])
    with pytest.raises(ValueError, match="audit: this model was fitted without audits"):
        profile_class_prior(plain, X, labels[:, 0], audit=audit)
