"""The likelihood of one label and that of several looks with one look give the same results in every method."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from scarless.numerics.audits import information_from_audits
from scarless.numerics.histories import heterogeneity_sums, score_sums
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood, detection_curve, sum_of_squares
from scarless.numerics.objectives import Curvature, LogisticPair
from scarless.numerics.uncertainty import PairSums

N, D = 12, 5
F, E = Design.of(np.array([0, 1, 3])), Design.of(np.array([2, 3]))
ONE, LOOKS = LogisticPair(F, E), LooksLikelihood(F, ((E,),))
VISITS = LooksLikelihood(F, ((E, Design.of(np.array([2, 4]))),))
OBJECTIVES = {
    "one label": ONE,
    "one look": LOOKS,
    "visits": VISITS,
    "own rates": LooksLikelihood(F, ((E,), (E,)), "own"),
    "known rates": LooksLikelihood(F, ((E,),), np.array([-2.0])),
    "bounds": LooksLikelihood(F, ((E,),), None, None, (0.1, 0.8)),
    "offset": LooksLikelihood(F, ((E,),), None, (4,)),
}
ALL = pytest.mark.parametrize("name", list(OBJECTIVES))
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


class Case(NamedTuple):
    X: np.ndarray
    rows: dict
    beta: np.ndarray


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.1, 1.0, 5.0, 30.0]))
    s, w = (rng.random(N) < 0.4).astype(float), rng.integers(0, 3, N).astype(float)
    rows = {"s": s, "labels": s[:, None], "looks": np.ones((N, 1)), "audit": np.full(N, -1.0), "w": w}
    return Case(rng.normal(size=(N, D)), rows, scale * rng.normal(size=ONE.n_parameters))


def case_of(name, seed=0):
    rng, objective = np.random.default_rng(seed), OBJECTIVES[name]
    looks = (
        rng.integers(0, 2, size=(N, objective.n_kinds)) if name not in ("one label", "one look") else np.ones((N, 1))
    )
    labels = rng.binomial(looks.astype(int), 0.4).astype(float)
    audit = rng.choice([-1.0, 0.0, 1.0], p=[0.6, 0.2, 0.2], size=N)
    audit[(audit == 0) & (labels.sum(axis=1) > 0)] = -1.0
    audit = np.full(N, -1.0) if name == "one label" else audit
    rows = {"s": labels[:, 0], "labels": labels, "looks": looks, "audit": audit, "w": rng.random(N) + 0.1}
    return Case(rng.normal(size=(N, D)), rows, 0.7 * rng.normal(size=objective.n_parameters))


@pytest.mark.parametrize("member", ["f", "e", "models", "false_positives", "offsets", "bounds", "n_kinds"])
def test_both_have_the_same_models(member):
    assert getattr(ONE, member) == getattr(LOOKS, member)


@pytest.mark.parametrize("member", ["rates", "n_rates", "designs", "n_parameters", "places", "logits", "convex"])
def test_both_have_their_parameters_in_the_same_places(member):
    assert getattr(ONE, member) == getattr(LOOKS, member)


ROWS = [
    "row_log_likelihood",
    "row_posterior",
    "row_posterior_logit",
    "row_scores",
    "posterior_slopes",
    "row_probabilities",
]


@pytest.mark.parametrize("method", [*ROWS, "totals", "terms"])
@given(case=cases())
def test_one_label_is_one_look(method, case):
    one, looks = (getattr(each, method)(*case) for each in (ONE, LOOKS))
    for got, want in zip(looks, one, strict=True) if isinstance(one, tuple) else [(looks, one)]:
        if want is not None:
            assert_allclose(got, want, **CLOSE)


@pytest.mark.parametrize("curvature", [Curvature.NONE, Curvature.EXPECTED, Curvature.OBSERVED])
@given(case=cases())
def test_one_label_is_one_look_to_the_solver(curvature, case):
    X, rows, beta = case
    for got, want in zip(*(each.sums(X, rows, beta, curvature) for each in (LOOKS, ONE)), strict=True):
        assert_allclose(got, want, **CLOSE)
    assert_allclose(LOOKS.reach(X, rows, beta), ONE.reach(X, rows, beta), rtol=1e-12)
    for got, want in zip(LOOKS.grams(X, rows), ONE.grams(X, rows), strict=True):
        assert_allclose(got, want, **CLOSE)
    if curvature is not Curvature.NONE:
        found = []
        for each in (LOOKS, ONE):
            kept = rows | {"curvature": each.row_curvature(X, rows, beta, curvature)}
            found.append(each.product(X, kept, beta / np.abs(beta).max())[0])
        assert_allclose(*found, **CLOSE)


@given(case=cases())
def test_one_label_is_one_look_outside_the_solver(case):
    X, rows, beta = case
    for got, want in zip(LOOKS.split(beta), ONE.split(beta), strict=True):
        assert_allclose(got, want)
    (u, v), others = LOOKS.logit_values(X, beta), ONE.logit_values(X, beta)
    assert_allclose([u, v], others)
    assert_allclose(LOOKS.propensity(v), ONE.propensity(v))
    assert_allclose(LOOKS.log_missed(v), ONE.log_missed(v))
    asked = rows | {"audit_probability": np.linspace(0, 1, N)}
    assert_allclose(
        information_from_audits(X, asked, LOOKS, beta), information_from_audits(X, asked, ONE, beta), **CLOSE
    )
    for got, want in zip(*(detection_curve(X, rows, each, beta, [0, 0]) for each in (LOOKS, ONE)), strict=True):
        assert_allclose(got, want)
    for got, want in zip(*(heterogeneity_sums(X, rows, each, beta) for each in (LOOKS, ONE)), strict=True):
        assert_allclose(got, want, **CLOSE)


@ALL
def test_scores_of_rows_are_derivatives_of_their_log_likelihood(name):
    objective, case = OBJECTIVES[name], case_of(name)
    got = _by_parameters(objective, case, objective.row_scores(*case))
    assert_allclose(got, _slopes(objective, case, "likelihood"), atol=1e-8)


@ALL
def test_posterior_slopes_are_derivatives_of_the_posterior(name):
    objective, case = OBJECTIVES[name], case_of(name)
    slopes, q = objective.posterior_slopes(*case), objective.row_posterior(*case)
    known = (q == 0) | (q == 1)
    assert known.any() == (name != "known rates" or (case.rows["audit"] >= 0).any())
    assert not slopes[known].any()
    got = (q * (1 - q))[:, None] * _by_parameters(objective, case, slopes)
    assert_allclose(got, _slopes(objective, case, "posterior"), atol=1e-8)
    logit = objective.row_posterior_logit(*case)
    assert_allclose(np.log(q[~known] / (1 - q[~known])), logit[~known])
    np.testing.assert_array_equal(logit[known], np.where(q[known] == 1, np.inf, -np.inf))


def _by_parameters(objective, case, by_logits):
    out = np.zeros((N, case.beta.size))
    for j, logit in enumerate(objective.logits):
        out[:, logit.place] += by_logits[:, [j]] * np.column_stack([logit.design.take(case.X), np.ones(N)])
    return out


def _slopes(objective, case, of, step=1e-6):
    method = objective.row_log_likelihood if of == "likelihood" else objective.row_posterior
    X, rows, beta = case
    steps = step * np.eye(beta.size)
    return np.column_stack([(method(X, rows, beta + h) - method(X, rows, beta - h)) / (2 * step) for h in steps])


@ALL
def test_sums_of_squares_are_those_of_rows(name):
    objective, case = OBJECTIVES[name], case_of(name)
    scores, w = objective.row_scores(*case), case.rows["w"]
    of_rows = _by_parameters(objective, case, scores)
    for X in (case.X, sparse.csr_array(case.X)):
        assert_allclose(sum_of_squares(X, objective, w, scores), (of_rows.T * w) @ of_rows, atol=1e-12)


@ALL
def test_answers_of_rows_add_up_to_totals(name):
    objective, case = OBJECTIVES[name], case_of(name)
    w, totals = case.rows["w"], objective.totals(*case)
    value, f, d = objective.row_probabilities(*case)
    assert_allclose(value, objective.row_log_likelihood(*case))
    assert_allclose(totals.log_likelihood, w @ value)
    assert_allclose(totals.squares, [w @ f**2, w @ (f**2 * d), w @ (f * d) ** 2])
    assert_allclose([totals.positives, totals.labelled_positives, totals.propensities], [w @ f, w @ (f * d), w @ d])


@ALL
def test_methods_can_be_pickled(name):
    objective, case = OBJECTIVES[name], case_of(name)
    there = pickle.loads(pickle.dumps(objective.totals))
    for got, want in zip(there(*case), objective.totals(*case), strict=True):
        np.testing.assert_array_equal(got, want)


def test_sums_of_model_files_without_looks_are_those_of_one_look():
    case = case_of("one label")
    whole = ONE.totals(*case)
    for got, want in zip(PairSums(*whole[:10]).of_one_look(), whole, strict=True):
        np.testing.assert_array_equal(got, want)


def test_early_model_files_name_the_models_e():
    old = {"f": F, "e": ((E,),), "false_positives": None, "offsets": None, "bounds": None}
    read = LooksLikelihood.__new__(LooksLikelihood)
    read.__setstate__(old)
    assert read == LOOKS


@ALL
@pytest.mark.parametrize("counts", [True, False])
def test_sums_of_scores_are_those_of_dense_rows(name, counts):
    objective, case = OBJECTIVES[name], case_of(name)
    w, scores = case.rows["w"], objective.row_scores(*case)
    further = np.random.default_rng(4).normal(size=(N, 2))
    own, spread = _by_parameters(objective, case, scores), w if counts else w**2
    want = [w @ further, (own.T * w) @ further, w @ own, (own.T * w) @ own]
    want += [spread @ further**2, (own.T * spread) @ further, (own.T * spread) @ own]
    got = score_sums(case.X, w, objective, scores, further, counts=counts)
    for one, other in zip(got, want, strict=True):
        assert_allclose(one, other, atol=1e-12)
