"""Sensitivity to a wrong propensity: valid and sharp bounds, and tipping points."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scarless import (
    NaiveClassifier,
    PropensityWeightedClassifier,
    PublishedEMClassifier,
    SAREMClassifier,
    SCARClassifier,
    StratifiedSCARClassifier,
    TableClassifier,
)
from scarless.diagnostics.sensitivity.analysis import Sensitivity
from scarless.diagnostics.sensitivity.display import SensitivityDisplay
from scarless.numerics.likelihood import posterior


def draw(seed=0, n=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 2] = np.sign(X[:, 2])
    y = rng.random(n) < expit(1.5 * X[:, 0] - X[:, 1])
    return X, (y & (rng.random(n) < 0.55 + 0.25 * X[:, 2])).astype(int)


X, S = draw()
MODEL = SAREMClassifier(propensity_attributes=[2]).fit(X, S)
D, SCORES = MODEL.predict(X), MODEL.predict_proba(X)[:, 1]
F, E = SCORES, MODEL.predict_propensity(X)
OF_MODEL = Sensitivity.from_estimator(MODEL, X)
OF_THESE_ROWS = Sensitivity.from_estimator(MODEL, X, S)
BOTH = pytest.mark.parametrize("sensitivity", [OF_MODEL, OF_THESE_ROWS], ids=["population", "these rows"])
OPTIONS = {
    "class_prior": {},
    "label_frequency": {},
    "precision": {"decisions": D},
    "recall": {"decisions": D},
    "f1": {"decisions": D},
    "accuracy": {"decisions": D},
    "roc_auc": {"scores": SCORES},
    "probability": {"row": 3},
    "rank": {"row": 3},
    "difference": {"row": 3, "rival": 4},
}
EVERY = pytest.mark.parametrize("quantity", OPTIONS)


def plain(p, labelled, w, decisions, scores):
    """Return all quantities for given probabilities, computed directly from their definitions."""
    higher = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
    wp, wn, d = w * p, w * (1 - p), decisions == 1
    return {
        "class_prior": wp.sum() / w.sum(),
        "label_frequency": labelled / wp.sum(),
        "precision": wp[d].sum() / w[d].sum(),
        "recall": wp[d].sum() / wp.sum(),
        "f1": 2 * wp[d].sum() / (w[d].sum() + wp.sum()),
        "accuracy": (wp[d].sum() + wn[~d].sum()) / w.sum(),
        "roc_auc": wp @ higher @ wn / (wp.sum() * wn.sum()),
    }


def all_bounds(bounds, decisions=D, scores=SCORES):
    return {
        "class_prior": bounds.class_prior,
        "label_frequency": bounds.label_frequency,
        "precision": bounds.precision(decisions),
        "recall": bounds.recall(decisions),
        "f1": bounds.f1(decisions),
        "accuracy": bounds.accuracy(decisions),
        "roc_auc": bounds.roc_auc(scores),
    }


# --- at the fitted propensity


def test_a_factor_of_1_gives_the_fitted_model():
    bounds = OF_MODEL.at(1)
    np.testing.assert_array_equal(bounds.probability.low, bounds.probability.high)
    np.testing.assert_allclose(bounds.probability.low, F, rtol=1e-14)
    np.testing.assert_allclose(bounds.propensity, [E, E], rtol=1e-14)
    assert bounds.class_prior == pytest.approx((MODEL.class_prior_,) * 2)
    assert bounds.label_frequency == pytest.approx((MODEL.label_frequency_,) * 2)
    for name, value in plain(F, (F * E).sum(), np.ones(F.size), D, SCORES).items():
        assert all_bounds(bounds)[name] == pytest.approx((value, value), rel=1e-12), name


def test_a_factor_of_1_with_labels_gives_the_posterior():
    bounds, q = OF_THESE_ROWS.at(1), MODEL.predict_posterior(X, S)
    np.testing.assert_allclose(bounds.probability, [q, q], atol=1e-12)
    for name, value in plain(q, S.sum(), np.ones(F.size), D, SCORES).items():
        assert all_bounds(bounds)[name] == pytest.approx((value, value), rel=1e-9), name


@pytest.mark.parametrize(
    "model",
    [
        SCARClassifier(0.5),
        SCARClassifier(),
        StratifiedSCARClassifier([2], label_frequency="dedpul"),
        PublishedEMClassifier(propensity_attributes=[2], tol=1e-3, slope_tol=1e-2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_model_with_a_propensity(model):
    model.fit(X, S)
    found = Sensitivity.from_estimator(model, X, S).at(1)
    np.testing.assert_allclose(found.probability.low, model.predict_posterior(X, S), atol=1e-12)
    np.testing.assert_allclose(found.propensity.high, model.predict_propensity(X))


def test_known_propensities_must_be_passed_again():
    model = PropensityWeightedClassifier().fit(X, S, propensity=E)
    found = Sensitivity.from_estimator(model, X, propensity=E).at(1)
    np.testing.assert_allclose(found.probability.low, model.predict_proba(X)[:, 1])
    with pytest.raises(ValueError, match=r"does not predict propensities\. Pass propensity="):
        Sensitivity.from_estimator(model, X)


# --- bounds are valid, nested and attained


@BOTH
@given(gamma=st.floats(1, 50), seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_bounds_hold_for_every_admissible_propensity(sensitivity, gamma, seed):
    rng = np.random.default_rng(seed)
    bounds = sensitivity.at(gamma)
    odds = E / (1 - E) * gamma ** rng.choice([-1, 1, rng.uniform(-1, 1)], size=E.size)
    e = np.maximum(odds / (1 + odds), F * E)  # for smaller propensities, f would exceed 1
    assert (bounds.propensity.low <= e * (1 + 1e-12)).all()
    assert (e <= bounds.propensity.high * (1 + 1e-12)).all()
    f = np.minimum(F * E / e, 1)
    p = f if sensitivity is OF_MODEL else posterior(f, e, S.astype(float))
    labelled = (F * E).sum() if sensitivity is OF_MODEL else S.sum()
    assert (bounds.probability.low <= p + 1e-9).all()
    assert (p <= bounds.probability.high + 1e-9).all()
    for name, value in plain(p, labelled, np.ones(E.size), D, SCORES).items():
        low, high = all_bounds(bounds)[name]
        assert low - 1e-9 <= value <= high + 1e-9, name
    ranks = bounds.ranks()
    certainly_above, maybe_above = (
        np.array([np.count_nonzero(p > own + slack) for own in p]) for slack in (1e-9, -1e-9)
    )
    assert (ranks.best <= 1 + maybe_above).all()
    assert (1 + certainly_above <= ranks.worst).all()


@BOTH
@EVERY
def test_bounds_for_larger_factors_contain_those_for_smaller_factors(sensitivity, quantity):
    curve = sensitivity.curve(quantity, gammas=[1, 1.01, 1.5, 2, 10, 1e3, 1e9], **OPTIONS[quantity])
    assert (np.diff(curve.low) <= 1e-12).all()
    assert (np.diff(curve.high) >= -1e-12).all()
    assert curve.low[0] == pytest.approx(curve.high[0], abs=1e-12)
    assert curve.estimate == pytest.approx(curve.low[0])
    assert curve.low[-1] < curve.high[-1]


@EVERY
def test_curves_contain_the_bounds_of_each_factor(quantity):
    curve = OF_MODEL.curve(quantity, gammas=[2.0], **OPTIONS[quantity])
    bounds = OF_MODEL.at(2.0)
    if quantity in all_bounds(bounds):
        expected = all_bounds(bounds)[quantity]
    else:
        ranks = bounds.ranks()
        low, high = bounds.probability
        expected = {
            "probability": (low[3], high[3]),
            "rank": (ranks.best[3], ranks.worst[3]),
            "difference": (low[3] - high[4], high[3] - low[4]),
        }[quantity]
    assert (curve.low[0], curve.high[0]) == pytest.approx(expected)


def test_given_limits():
    lower, upper = np.maximum(E - 0.1, 0.05), np.minimum(E + 0.1, 1)
    bounds = OF_MODEL.within(lower, upper)
    np.testing.assert_allclose(bounds.probability.low, F * E / upper)
    np.testing.assert_allclose(bounds.probability.high, np.minimum(1, F * E / lower))
    np.testing.assert_allclose(bounds.propensity.low, np.maximum(lower, F * E))
    assert bounds.gamma is None
    # The admissible propensities of a factor, passed as limits, give the same bounds as the factor.
    factor = OF_MODEL.at(3.0)
    np.testing.assert_allclose(OF_MODEL.within(*factor.propensity).probability, factor.probability)
    # Without limits, the propensity is between Pr(s=1|x) and 1.
    np.testing.assert_allclose(OF_MODEL.within(0, 1).probability, OF_MODEL.at(np.inf).probability)


@BOTH
def test_order_and_repetition_of_rows_do_not_matter(sensitivity):
    rng = np.random.default_rng(1)
    w = rng.integers(0, 3, S.size)
    labels = None if sensitivity is OF_MODEL else S
    weighted = Sensitivity.from_estimator(MODEL, X, labels, sample_weight=w)
    for rows in (rng.permutation(np.repeat(np.arange(S.size), w)),):
        repeated = Sensitivity.from_estimator(MODEL, X[rows], None if labels is None else S[rows])
        for name, bounds in all_bounds(weighted.at(2)).items():
            assert all_bounds(repeated.at(2), D[rows], SCORES[rows])[name] == pytest.approx(bounds, rel=1e-9), name
            assert all_bounds(sensitivity.at(2))[name] != pytest.approx(bounds, rel=1e-9), name


@settings(max_examples=50)
@given(
    rows=st.lists(st.tuples(st.floats(0, 1), st.floats(1e-3, 0.999), st.booleans()), min_size=1, max_size=6),
    gamma=st.floats(1, 1e12),
)
def test_bounds_of_any_rows_are_between_0_and_1(rows, gamma):
    f, e, s = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    for labels in (None, s):
        bounds = Sensitivity(f * e, e, s=labels).at(gamma)
        values = [*bounds.probability, *bounds.propensity, bounds.class_prior, bounds.accuracy(s)]
        for value in values:
            assert (np.asarray(value) >= 0).all()
            assert (np.asarray(value) <= 1).all()
        for low, high in (bounds.probability, bounds.propensity):
            assert (low <= high + 1e-15).all()
        assert str(bounds).count("\n") == 3


def test_small_and_large_scales():
    f, e = np.array([1e-300, 1.0, 0.5]), np.array([1e-300, 1e-16, 1 - 1e-16])
    sensitivity = Sensitivity(f * e, e)
    with pytest.warns(UserWarning, match="above 0.999"):
        assert np.isfinite(sensitivity.at(1e15).probability).all()
    with pytest.warns(UserWarning, match="above 0.999"):
        np.testing.assert_allclose(sensitivity.decision_gammas(), [np.inf, 2, 1])  # the first product underflows


# --- kinds of tables


def test_rows_are_named_by_the_index_of_a_data_frame():
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"patient {i}" for i in range(S.size)])
    model = SAREMClassifier(propensity_attributes=["c"]).fit(frame, S)
    sensitivity = Sensitivity.from_estimator(model, frame)
    ranks = sensitivity.at(1.5).ranks(["patient 7", "patient 3"])
    assert ranks.rows == ["patient 7", "patient 3"]
    np.testing.assert_array_equal(ranks.low, sensitivity.at(1.5).probability.low[[7, 3]])
    assert list(ranks.to_frame().index) == ranks.rows
    assert "patient 7" in str(ranks)
    assert list(sensitivity.at(2).to_frame().index[:2]) == ["patient 0", "patient 1"]
    curve = sensitivity.curve("difference", row="patient 7", rival="patient 3")
    assert curve.quantity == "difference between patient 7 and patient 3"
    with pytest.raises(ValueError, match="'Anna' is not the name of a row"):
        sensitivity.curve("rank", row="Anna")
    with pytest.raises(ValueError, match="is not the name of a row"):
        sensitivity.curve("rank", row=["patient 7"])


def test_integers_in_an_index_are_names_and_not_positions():
    frame = pd.DataFrame(X, index=np.arange(S.size)[::-1])
    sensitivity = (
        Sensitivity.from_estimator(MODEL, frame.to_numpy()),
        Sensitivity.from_estimator(
            SAREMClassifier(propensity_attributes=[2]).fit(frame.rename(columns=str), S), frame.rename(columns=str)
        ),
    )
    by_position, by_name = (each.curve("probability", row=0, gammas=[1]).estimate for each in sensitivity)
    assert by_position == pytest.approx(F[0])
    assert by_name == pytest.approx(F[-1], rel=1e-6)


def test_duplicate_names_are_refused():
    with pytest.raises(ValueError, match="'a' is the name of 2 rows"):
        Sensitivity([0.1, 0.2, 0.3], 0.5, row_names=["a", "a", "b"]).at(2).ranks(["a"])


@pytest.mark.parametrize("index", [[f"patient {i}" for i in range(400)], None], ids=["names", "numbers"])
def test_a_series_in_another_order_is_refused(index):
    """Values are matched by position, so an index in another order must not be ignored."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=index)
    model = SAREMClassifier(propensity_attributes=["c"]).fit(frame, S)
    asked = Sensitivity.from_estimator(model, frame)
    names = frame.index
    decisions, e = pd.Series(D, index=names), pd.Series(E, index=names)
    assert asked.at(1).precision(decisions) == asked.at(1).precision(D)
    assert asked.at(1).precision(decisions[::-1].to_numpy()) != asked.at(1).precision(D)
    assert asked.at(1).precision(pd.Series(D, index=names + names[0])) == asked.at(1).precision(D)  # other names
    first, last = names[0], names[-1]
    told = rf"row names of X in another order \(first difference: position 0 is {first!r} in X and {last!r} in "
    for ask in (
        lambda: asked.at(1).precision(decisions[::-1]),
        lambda: asked.curve("roc_auc", scores=e[::-1]),
        lambda: asked.within(0.5 * e[::-1]),
        lambda: asked.within(0.0, e[::-1]),
        lambda: asked.decision_gammas(e[::-1]),
        lambda: Sensitivity.from_estimator(model, frame, decisions[::-1]),
        lambda: Sensitivity.from_estimator(model, frame, sample_weight=e[::-1]),
        lambda: Sensitivity(F * E, e[::-1], row_names=names),
        lambda: Sensitivity(F * E, E, s=decisions[::-1], row_names=names),
    ):
        with pytest.raises(ValueError, match=told):
            ask()
    known = PropensityWeightedClassifier().fit(frame, S, propensity=E)
    with pytest.raises(
        ValueError, match=r"If the index is right, pass propensity\.loc.* pass propensity\.to_numpy\(\)"
    ):
        Sensitivity.from_estimator(known, frame, propensity=e[::-1])


def test_names_from_a_multi_index():
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    sensitivity = Sensitivity([0.1, 0.2, 0.3], 0.5, row_names=index)
    assert sensitivity.curve("probability", row=("a", 2)).estimate == pytest.approx(0.4)


def test_tables_of_other_kinds():
    expected = OF_MODEL.at(2).class_prior
    for table in (sparse.csr_array(X), X.tolist()):
        assert Sensitivity.from_estimator(MODEL, table).at(2).class_prior == pytest.approx(expected)
    assert Sensitivity.from_estimator(MODEL, X.astype(np.float32)).at(2).class_prior == pytest.approx(
        expected, rel=1e-5
    )
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    model = SAREMClassifier(propensity_attributes=["c"]).fit(frame, S)
    found = Sensitivity.from_estimator(model, frame)
    assert found.at(2).class_prior == pytest.approx(expected)
    assert found.at(2).ranks([5, 1]).rows == [5, 1]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])  # numbered from 0, so names are positions
    assert Sensitivity.from_estimator(model, frame).at(2).ranks([5, 1]).rows == [5, 1]


def test_labels_and_decisions_coded_as_in_the_fit():
    words = np.where(S == 1, "case", "unknown")
    model = SAREMClassifier(propensity_attributes=[2], pos_label="case").fit(X, words)
    assert model.classes_.tolist() == ["case", "unknown"]  # the positive class comes first
    found = Sensitivity.from_estimator(model, X, words)
    for name, bounds in all_bounds(found.at(2), model.predict(X)).items():
        assert bounds == pytest.approx(all_bounds(OF_THESE_ROWS.at(2))[name]), name
        assert all_bounds(found.at(2), D == 1)[name] == pytest.approx(bounds), name
    zero = SAREMClassifier(propensity_attributes=[2], pos_label=0).fit(X, 1 - S)
    found = Sensitivity.from_estimator(zero, X).at(2)
    assert found.precision(zero.predict(X)) == pytest.approx(OF_MODEL.at(2).precision(D))
    assert found.precision(D == 1) == pytest.approx(OF_MODEL.at(2).precision(D))
    with pytest.raises(ValueError, match="The labels contain 'other'"):
        Sensitivity.from_estimator(model, X, np.where(S == 1, "case", "other"))


# --- tipping points


def test_tipping_point_of_the_class_prior_in_closed_form():
    """The lower bound of the prior is mean(f e) + mean(f (1 - e)) / gamma."""
    prior, t = MODEL.class_prior_, 0.8 * MODEL.class_prior_
    expected = (F * (1 - E)).mean() / (t - (F * E).mean())
    found = OF_MODEL.tipping_point("class_prior", at_least=t)
    assert found.gamma == pytest.approx(expected, rel=1e-6)
    assert found.estimate == pytest.approx(prior)
    assert found.limit == pytest.approx((F * E).mean())
    assert str(found) == (
        f"class prior is at least {t:g} (fitted: {prior:.3g}) if the odds of the propensity are wrong by less than "
        f"a factor of {expected:.3g}."
    )
    exact = OF_MODEL.tipping_point("class_prior", at_least=t, rtol=1e-12)
    assert exact.gamma == pytest.approx(expected, rel=1e-11)


@BOTH
@EVERY
@pytest.mark.parametrize("side", ["at_least", "at_most"])
def test_up_to_the_tipping_point_the_conclusion_holds(sensitivity, quantity, side):
    options = OPTIONS[quantity]
    curve = sensitivity.curve(quantity, gammas=[1.7], **options)
    threshold = float((curve.low if side == "at_least" else curve.high)[0])
    found = sensitivity.tipping_point(quantity, **{side: threshold}, **options)
    assert 1 < found.gamma < np.inf

    def holds(gamma):
        at = sensitivity.curve(quantity, gammas=[gamma], **options)
        return at.low[0] >= threshold if side == "at_least" else at.high[0] <= threshold

    assert not holds(found.gamma)
    assert holds(found.gamma / (1 + 1e-5))
    if quantity != "rank":  # the rank is a step function
        assert found.gamma == pytest.approx(1.7, rel=1e-5)


def test_conclusions_that_do_not_hold_or_always_hold():
    wrong = OF_MODEL.tipping_point("class_prior", at_least=0.99)
    assert wrong.gamma == 1.0
    assert str(wrong) == f"The fitted class prior, {MODEL.class_prior_:.3g}, is already below 0.99."
    wrong = OF_MODEL.tipping_point("class_prior", at_most=0.01)
    assert str(wrong) == f"The fitted class prior, {MODEL.class_prior_:.3g}, is already above 0.01."
    sure = OF_MODEL.tipping_point("class_prior", at_least=0.9 * float((F * E).mean()))
    assert sure.gamma == np.inf
    assert str(sure).endswith(f") for every factor on the odds of the propensity (in the limit: {(F * E).mean():.3g}).")
    assert OF_MODEL.tipping_point("class_prior", at_most=1.0).gamma == np.inf


def test_factors_do_not_change_propensities_of_one_or_rows_with_label_probability_0():
    """A conclusion that holds for every factor need not hold for every propensity."""
    never = Sensitivity([0.0, 0.0, 0.1], 0.5)
    assert never.tipping_point("class_prior", at_most=0.6).gamma == np.inf
    np.testing.assert_array_equal(never.at(np.inf).probability, [[0, 0, 0.1], [0, 0, 1]])
    np.testing.assert_array_equal(never.within(0).probability, [[0, 0, 0.1], [1, 1, 1]])
    with pytest.warns(UserWarning, match="above 0.999"):
        np.testing.assert_array_equal(Sensitivity([0.4], 1.0).at(np.inf).probability, [[0.4], [0.4]])


def test_factors_may_be_huge():
    sensitivity = Sensitivity([1e-9], [0.5])
    found = sensitivity.tipping_point("class_prior", at_most=0.5)
    assert found.gamma == pytest.approx((0.5 - 1e-9) / 1e-9, rel=1e-5)
    assert Sensitivity([1e-305], [0.5]).tipping_point("class_prior", at_most=0.5).gamma == np.inf


def test_the_tipping_point_of_the_order_of_two_rows():
    high, low = int(np.argsort(F)[-20]), int(np.argsort(F)[40])
    found = OF_MODEL.tipping_point("difference", row=high, rival=low, at_least=0)
    before, after = (OF_MODEL.at(found.gamma * (1 + sign * 1e-5)).ranks([high, low]) for sign in (-1, 1))
    assert before.statements() == [f"{high} above {low}"]
    assert before.above.tolist() == [[False, True], [False, False]]
    assert (before.best.tolist(), before.worst.tolist()) == ([1, 2], [1, 2])
    assert after.statements() == []
    assert (after.best.tolist(), after.worst.tolist()) == ([1, 1], [2, 2])


def test_statements_are_for_a_few_rows():
    ranks = OF_MODEL.at(1.05).ranks(range(60))
    assert len(ranks.statements()) == np.count_nonzero(ranks.above) > 100
    surest = np.argsort(-ranks.low)
    assert ranks.statements()[0].startswith(f"{surest[0]} above ")
    many = OF_MODEL.at(1.05).ranks()
    pairs = np.count_nonzero(many.above)
    with pytest.raises(
        ValueError, match=rf"at most 10,000 pairs, but {pairs:,} pairs of these 400 rows.*Rank fewer rows"
    ):
        many.statements()


@BOTH
def test_factors_of_single_decisions(sensitivity):
    gammas = sensitivity.decision_gammas(0.4)
    p = sensitivity.at(1).probability.low
    for row in range(25):
        side = {"at_least": 0.4} if p[row] > 0.4 else {"at_most": 0.4}
        found = sensitivity.tipping_point("probability", row=row, **side)
        assert gammas[row] == pytest.approx(found.gamma, rel=1e-5)
    if sensitivity is OF_THESE_ROWS:
        assert np.isinf(gammas[S == 1]).all()


# --- plots


def test_the_plot_shows_bounds_conclusion_and_factor():
    figure, ax = plt.subplots()
    t = 0.8 * MODEL.class_prior_
    display = SensitivityDisplay.from_sensitivity(OF_MODEL, "class_prior", at_least=t, ax=ax)
    assert display.ax_ is ax
    assert ax.get_xscale() == "log"
    tipping = OF_MODEL.tipping_point("class_prior", at_least=t)
    assert display.tipping_point == tipping
    assert ax.get_title(loc="left") == f"Class prior is at least {t:g} up to Γ = {tipping.gamma:.3g}"
    assert ax.get_ylabel() == "class prior"
    assert ax.get_xlim() == pytest.approx((1, max(2, tipping.gamma**2)))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [
        "possible values",
        "fitted propensity (Γ = 1)",
        f"at least {t:g}",
        f"overturned from Γ = {tipping.gamma:.3g}",
    ]
    lower = next(line for line in ax.lines if line.get_xdata().size > 2)
    np.testing.assert_array_equal(lower.get_ydata(), display.curve.low)
    plt.close(figure)


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ({}, "Class prior if the propensity is wrong"),
        ({"at_least": 0.999}, "Not true for the fitted propensity: class prior is at least 0.999"),
        ({"at_most": 1.0}, "Class prior is at most 1 for every Γ"),
    ],
)
def test_titles(options, title):
    display = SensitivityDisplay.from_sensitivity(OF_MODEL, "class_prior", **options)
    assert display.ax_.get_title(loc="left") == title
    assert display.ax_.get_xlim() == pytest.approx((1, 10))
    plt.close(display.figure_)


def test_rank_1_is_at_the_top_of_the_axis():
    display = SensitivityDisplay.from_sensitivity(OF_MODEL, "rank", row=3, gammas=[1, 2, 1e5])
    bottom, top = display.ax_.get_ylim()
    assert bottom > top
    assert len(display.ax_.get_xticks()) <= 8
    assert min(display.ax_.get_yticks()) == 1
    plt.close(display.figure_)


@pytest.mark.parametrize(
    ("quantity", "options"),
    [("rank", {"row": 132, "at_most": 60}), ("rank", {"row": 117, "at_most": 10}), ("class_prior", {"at_least": 0.4})],
)
def test_the_line_from_the_tipping_point_to_the_axis_does_not_overlap_the_legend(quantity, options):
    display = SensitivityDisplay.from_sensitivity(OF_MODEL, quantity, **options)
    gamma, ax = display.tipping_point.gamma, display.ax_
    display.figure_.canvas.draw()
    (lead,) = (line for line in ax.lines if line.get_xdata()[0] == gamma and len(line.get_xdata()) == 2)
    assert lead.get_ydata()[0] == ax.get_ylim()[0]
    assert not lead.get_tightbbox().overlaps(ax.get_legend().get_window_extent())
    plt.close(display.figure_)


def test_from_estimator_equals_from_sensitivity():
    options = {"at_least": 0.6, "decisions": D, "gammas": [1, 2]}
    drawn = SensitivityDisplay.from_estimator(MODEL, X, "precision", s=S, sample_weight=1 + S, **options)
    weighted = Sensitivity.from_estimator(MODEL, X, S, sample_weight=1 + S)
    same = SensitivityDisplay.from_sensitivity(weighted, "precision", **options)
    np.testing.assert_array_equal(drawn.curve.low, same.curve.low)
    assert drawn.tipping_point == same.tipping_point
    known = PropensityWeightedClassifier().fit(X, S, propensity=E)
    assert SensitivityDisplay.from_estimator(known, X, "class_prior", propensity=E).curve.low.size == 61
    with pytest.raises(
        TypeError, match=r"must be a Sensitivity; got SAREMClassifier.*from_estimator\(estimator, X, qua"
    ):
        SensitivityDisplay.from_sensitivity(MODEL, "class_prior")
    plt.close("all")


def test_dollar_signs_in_row_names_are_escaped():
    rows = Sensitivity([0.4, 0.1], 0.5, row_names=["loan_$1_$2", "b"])
    display = SensitivityDisplay.from_sensitivity(rows, "difference", row="loan_$1_$2", rival="b", at_least=0)
    display.figure_.canvas.draw()
    assert display.ax_.get_ylabel() == r"difference between loan_\$1_\$2 and b"
    plt.close(display.figure_)


def test_a_plot_with_a_very_small_range():
    display = SensitivityDisplay(OF_MODEL.curve("class_prior", gammas=[1.02, 1.0]))
    ax = display.plot().ax_
    assert ax.get_xticks().tolist() == [1, 1.02]
    plt.close(display.figure_)


def test_frames_of_curves():
    frame = OF_MODEL.curve("class_prior").to_frame()
    assert list(frame.columns) == ["gamma", "low", "high"]
    assert frame["gamma"].iloc[[0, -1]].tolist() == pytest.approx([1, 10])


def test_long_rankings_are_printed_in_part():
    assert str(OF_MODEL.at(2).ranks()).endswith("... and 380 more rows")


def test_printed_bounds():
    text = repr(OF_MODEL.at(1.5))
    assert text.startswith("If the odds of the propensity are wrong by a factor of at most 1.5 (400 rows):")
    assert f"{MODEL.class_prior_:.3f}" in text
    assert "share of positives" in str(OF_THESE_ROWS.within(0.1, 1.0))
    assert str(OF_MODEL.within(0.1)).startswith("If the propensity is within the given limits (400 rows)")


def test_the_repr_lists_the_methods():
    assert repr(OF_MODEL).startswith("Sensitivity to a wrong propensity, 400 rows. Use at(gamma) or within(lower")
    assert "400 rows with their labels" in repr(OF_THESE_ROWS)


# --- bad input


def test_propensities_that_cannot_explain_the_labels():
    with pytest.raises(
        ValueError, match=r"propensity must be at least Pr\(s=1\|x\).*1 of 2 rows.*row 1, propensity 0.2 <"
    ):
        Sensitivity([0.1, 0.3], [0.5, 0.2])
    with pytest.raises(ValueError, match=r"upper must be at least .*np.maximum\(upper, label_probability\)"):
        Sensitivity([0.1, 0.3], 0.5).within(0.1, 0.2)
    assert Sensitivity([0.3 * (1 + 1e-14)], [0.3]).at(1).class_prior == (1, 1)  # rounding


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_probability": [1.2]}, "label_probability must contain probabilities"),
        ({"label_probability": []}, "label_probability has no rows"),
        ({"propensity": [0.0, 0.5]}, "propensity must lie in"),
        ({"propensity": [0.5]}, "propensity has 1 values for 2 rows"),
        ({"s": [0, 2]}, "s must be binary"),
        ({"sample_weight": [0, 0]}, "sample_weight is zero for every row"),
        ({"row_names": ["a"]}, "row_names has 1 names for 2 rows"),
    ],
)
def test_bad_rows(options, message):
    with pytest.raises(ValueError, match=message):
        Sensitivity(**{"label_probability": [0.1, 0.2], "propensity": 0.5} | options)


@pytest.mark.parametrize("gamma", [0.5, np.nan, "two", [2.0], None])
def test_bad_factors(gamma):
    with pytest.raises(
        ValueError, match="gamma must be one number of at least 1 \\(a factor on the odds of the propensity\\)"
    ):
        OF_MODEL.at(gamma)


@pytest.mark.parametrize("gammas", [[], 2.0, [0.5, 2]])
def test_bad_lists_of_factors(gammas):
    with pytest.raises(ValueError, match="a list of numbers of at least 1"):
        OF_MODEL.curve("class_prior", gammas=gammas)
    with pytest.raises(ValueError, match="must be finite"):
        OF_MODEL.curve("class_prior", gammas=[1, np.inf])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantity": "auc"}, "quantity must be one of 'class_prior'"),
        ({"quantity": "precision"}, "quantity='precision' needs decisions="),
        ({"quantity": "difference", "row": 1}, "quantity='difference' needs rival="),
        ({"quantity": "class_prior", "row": 1}, "row is not used by quantity='class_prior', which accepts no options"),
        ({"quantity": "rank", "row": 1, "rival": 2}, "rival is not used by quantity='rank', which accepts row"),
        ({"quantity": "difference", "row": 1, "rival": 1}, "row and rival must be two different rows"),
        (
            {"quantity": "rank", "row": 400},
            "a row must be a position from 0 to 399, because the rows have no names; got 400",
        ),
        ({"quantity": "rank", "row": -1}, "a row must be a position from 0"),
        ({"quantity": "rank", "row": "Anna"}, "To use names, pass row_names="),
        (
            {"quantity": "precision", "decisions": np.zeros(400)},
            "decisions: no row with a positive weight is predicted positive",
        ),
        ({"quantity": "recall", "decisions": np.full(400, 3)}, "decisions must be binary"),
        ({"quantity": "recall", "decisions": [1]}, "decisions has 1 values for 400 rows"),
        ({"quantity": "roc_auc", "scores": np.full(400, np.nan)}, "scores must not contain NaN; 400 of 400 values"),
        ({"quantity": "roc_auc", "scores": MODEL.predict_proba(X)}, "scores must have one value per row"),
    ],
)
def test_bad_quantities(options, message):
    with pytest.raises(ValueError, match=message):
        OF_MODEL.curve(**options)


def test_bad_conclusions():
    for wrong in ({}, {"at_least": 0.1, "at_most": 0.2}):
        with pytest.raises(
            ValueError,
            match=r"Exactly one of at_least and at_most must be passed, .*; got (neither|both)\.",
        ):
            OF_MODEL.tipping_point("class_prior", **wrong)
    with pytest.raises(ValueError, match="at_most must be a finite number; got nan"):
        OF_MODEL.tipping_point("class_prior", at_most=np.nan)
    with pytest.raises(ValueError, match="rtol must be at least 1e-12 and below 1"):
        OF_MODEL.tipping_point("class_prior", at_most=1, rtol=0)


def test_quantities_that_are_undefined():
    nobody = Sensitivity([0.0, 0.0], 0.5)
    everybody = Sensitivity([0.2, 0.2], 0.5, s=[1, 1])
    for rows, quantity, options in (
        (nobody, "recall", {"decisions": [1, 0]}),
        (nobody, "f1", {"decisions": [0, 0]}),
        (nobody, "label_frequency", {}),
        (nobody, "roc_auc", {"scores": [1, 2]}),
        (everybody, "roc_auc", {"scores": [1, 2]}),
    ):
        named, why = {
            "recall": ("recall", "it is a share of the positives, and no row can be positive"),
            "f1": ("F1", "no row is predicted positive, and no row can be positive"),
            "label_frequency": ("label frequency", "it is a share of the positives, and no row can be positive"),
            "roc_auc": ("ROC-AUC", "of one class"),
        }[quantity]
        bounds = rows.at(2)
        for ask in (
            lambda: rows.tipping_point(quantity, at_least=0.5, **options),  # noqa: B023
            lambda: rows.curve(quantity, **options),  # noqa: B023
            lambda: getattr(bounds, quantity)(*options.values()) if options else bounds.label_frequency,  # noqa: B023
        ):
            with pytest.raises(ValueError, match=f"{named} is undefined for these rows: .*{why}"):
                ask()
    assert "nan" in str(nobody.at(2))  # printing does not raise an error


def test_bad_limits():
    with pytest.raises(
        ValueError, match=r"lower must not exceed upper; it does in 400 of 400 rows \(first: row 0, 0.9 > 0.8"
    ):
        OF_MODEL.within(0.9, 0.8)
    with pytest.raises(ValueError, match="lower must contain probabilities"):
        OF_MODEL.within(-0.1)
    with pytest.raises(ValueError, match="threshold must lie strictly between 0 and 1"):
        OF_MODEL.decision_gammas(1.0)


def test_bad_rankings():
    with pytest.raises(ValueError, match="rows is empty"):
        OF_MODEL.at(2).ranks([])
    with pytest.raises(ValueError, match="rows contains a row twice"):
        OF_MODEL.at(2).ranks([1, 1])
    for one, words in ((0, "0"), ("Anna", "'Anna'"), (np.array(0), r"array\(0\)")):
        with pytest.raises(TypeError, match=rf"names or positions of rows; got {words}\. Put a single row"):
            OF_MODEL.at(2).ranks(one)


def test_models_without_a_propensity_are_refused():
    naive = NaiveClassifier().fit(X, S)
    with pytest.raises(TypeError, match=r"NaiveClassifier has no predict_propensity.*Sensitivity\(label_probability"):
        Sensitivity.from_estimator(naive, X)
    pipeline = make_pipeline(StandardScaler(), SAREMClassifier(propensity_attributes=[2])).fit(X, S)
    search = GridSearchCV(MODEL, {"C": [1.0]}, cv=2).fit(X, S)
    with pytest.raises(TypeError, match=r"A search is not accepted; got a GridSearchCV\. Pass its best_estimator_"):
        Sensitivity.from_estimator(search, X)
    table = TableClassifier(pipeline[-1], preparation=StandardScaler()).fit(X, S)
    for found in (Sensitivity.from_estimator(pipeline, X), Sensitivity.from_estimator(table, X)):
        assert found.at(1).class_prior == pytest.approx((pipeline[-1].class_prior_,) * 2)
    with pytest.raises(ValueError, match="SAREMClassifier predicts its own"):
        Sensitivity.from_estimator(MODEL, X, propensity=0.5)
    with pytest.raises(NotFittedError):
        Sensitivity.from_estimator(SAREMClassifier(), X)


def test_propensities_near_one_give_a_warning():
    for e in ([1.0, 0.5], [0.9995, 0.5]):
        sensitivity = Sensitivity([0.2, 0.2], e)
        for ask in (
            lambda sensitivity=sensitivity: sensitivity.at(2),
            lambda sensitivity=sensitivity: sensitivity.curve("class_prior"),
            lambda sensitivity=sensitivity: sensitivity.tipping_point("class_prior", at_least=0.1),
            sensitivity.decision_gammas,
        ):
            with pytest.warns(UserWarning, match=r"1 of 2 propensities are above 0.999.*use within\(lower") as seen:
                ask()
            assert seen[0].filename == __file__
        np.testing.assert_allclose(sensitivity.within(0.4).probability, [[0.2, 0.2], [0.5, 0.5]])
        assert sensitivity.at(1).class_prior[0] > 0  # a factor of 1 gives no warning
    Sensitivity([0.01, 0.2], [1.0, 0.5]).at(2)  # a few such rows do not matter


def test_labels_are_coded_as_in_the_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    s = np.where(rng.random(300) < expit(2 * X[:, 0]) * expit(X[:, 2]), "a", "b")
    model = SAREMClassifier(propensity_attributes=[2], pos_label="a").fit(X, s)
    before = Sensitivity.from_estimator(model, X).at(1).class_prior
    assert Sensitivity.from_estimator(model.set_params(pos_label=None), X).at(1).class_prior == before


@pytest.mark.parametrize("names", [5, "abcde", 2.5, sparse.coo_matrix(np.ones((1, 5)))])
def test_row_names_that_are_no_sequence(names):
    with pytest.raises(TypeError, match=r"row_names must be a sequence with a name for each row; got "):
        Sensitivity(np.full(5, 0.2), np.full(5, 0.5), row_names=names)
    assert Sensitivity([0.2, 0.3], 0.5, row_names=iter("ab")).at(1.0) is not None


@pytest.mark.parametrize("rtol", ["a", None, np.nan, 0, 10**400])
def test_invalid_tolerances_are_refused(rtol):
    with pytest.raises(ValueError, match="rtol must be at least 1e-12 and below 1; got "):
        OF_MODEL.tipping_point("class_prior", at_least=0.2, rtol=rtol)
    with pytest.raises(ValueError, match="at_least must be a finite number; got "):
        OF_MODEL.tipping_point("class_prior", at_least=10**400)


def test_labels_in_the_place_of_a_quantity():
    message = r"quantity must be a name such as 'class_prior'; got a .* Pass labels by keyword: .*'class_prior', s=s\)"
    with pytest.raises(TypeError, match=message):
        SensitivityDisplay.from_estimator(MODEL, X, S)
    with pytest.raises(ValueError, match=r"quantity must be one of 'class_prior', .*; got a ndarray of shape"):
        OF_MODEL.curve(S)


def test_names_decisions_and_ranks_of_odd_types_are_refused():
    P, e = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.5, 0.5])
    with pytest.raises(TypeError, match=r"row_names must contain text or numbers; found .* of type ndarray"):
        Sensitivity(P, e, row_names=np.ones((3, 1, 1)))
    bounds = Sensitivity(P, e).at(1.5)
    with pytest.raises(
        ValueError, match="decisions must contain one value per row, but NumPy cannot convert it to an array"
    ):
        bounds.accuracy([[1], [0, 1], 1])
    with pytest.raises(TypeError, match="rows must be a list of names or positions of rows; got "):
        bounds.ranks(sparse.dia_array(np.eye(3)))


@pytest.mark.parametrize("gamma", [10**400, -(10**400), "a", None, [1.5]])
def test_a_factor_that_is_not_a_number_is_refused(gamma):
    with pytest.raises(ValueError, match=r"gamma must be one number of at least 1 .*; got"):
        Sensitivity([0.1, 0.2], [0.5, 0.5]).at(gamma)


def test_names_in_files_are_refused():
    with pytest.raises(TypeError, match="row_names is a LazyFrame, a query that has not been run yet"):
        Sensitivity([0.1, 0.2], 0.5, row_names=pl.LazyFrame({"name": ["a", "b"]}))
