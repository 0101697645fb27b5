"""Sums over rows with several looks: derivatives, the special case of one look, and any order of rows."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from scarless.numerics.audits import information_from_audits
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LOW_TAIL, LooksLikelihood, detection_curve
from scarless.numerics.objectives import Curvature, LogisticPair

N, D = 30, 6
F, E = Design.of(np.array([0, 1, 3])), Design.of(np.array([2, 3]))
VISITS = tuple(Design.of(np.array([2, column])) for column in (3, 4, 5))
OBJECTIVES = {
    "one kind": LooksLikelihood(F, ((E,),)),
    "visits": LooksLikelihood(F, (VISITS,)),
    "own models": LooksLikelihood(F, tuple((design,) for design in VISITS)),
    "shared rate": LooksLikelihood(F, (VISITS,), "shared"),
    "own rates": LooksLikelihood(F, tuple((design,) for design in VISITS), "own"),
    "known rates": LooksLikelihood(F, (VISITS,), np.array([-3.0, -2.0, -4.0])),
    "one kind, rate": LooksLikelihood(F, ((E,),), "shared"),
    "one kind, shift": LooksLikelihood(F, ((E,),), heterogeneity=1.5),
    "visits, shift": LooksLikelihood(F, (VISITS,), heterogeneity=1.5, mixing_form=LOW_TAIL),
    "own models, shift": LooksLikelihood(F, tuple((design,) for design in VISITS), heterogeneity=1.5),
    "shared rate, bounds, shift": LooksLikelihood(F, (VISITS,), "shared", None, (0.1, 0.9), heterogeneity=1.5),
}
ALL = pytest.mark.parametrize("name", list(OBJECTIVES))
CURVATURES = pytest.mark.parametrize("curvature", [Curvature.OBSERVED, Curvature.EXPECTED])


def _case(name, seed=0, n=N):
    rng, objective = np.random.default_rng(seed), OBJECTIVES[name]
    looks = rng.integers(0, 4 if objective.n_kinds == 1 else 2, size=(n, objective.n_kinds))
    labels = rng.binomial(looks, 0.3)
    audit = rng.choice([-1, 0, 1], p=[0.6, 0.2, 0.2], size=n)
    if objective.false_positives is None:
        audit[(audit == 0) & (labels.sum(axis=1) > 0)] = -1
    rows = {"labels": labels.astype(np.int8), "looks": looks.astype(np.int8), "audit": audit.astype(np.int8)}
    rows["w"] = rng.random(n) + 0.1
    return objective, rng.normal(size=(n, D)), rows, 0.7 * rng.normal(size=objective.n_parameters)


def _derivative(function, beta, step=1e-5):
    directions = np.eye(beta.size) * step
    return np.array([(function(beta + d) - function(beta - d)) / (2 * step) for d in directions])


def _part(X, rows, index):
    return X[index], {name: values[index] for name, values in rows.items()}


@ALL
def test_gradient_and_observed_curvature_are_derivatives(name):
    objective, X, rows, beta = _case(name)
    sums = objective.sums(X, rows, beta, Curvature.OBSERVED)
    slope = _derivative(lambda at: float(objective.sums(X, rows, at, Curvature.NONE).value), beta)
    np.testing.assert_allclose(sums.gradient, slope, atol=1e-7)
    bend = _derivative(lambda at: objective.sums(X, rows, at, Curvature.NONE).gradient, beta)
    np.testing.assert_allclose(sums.curvature, bend, atol=1e-7)
    np.testing.assert_allclose(sums.curvature, sums.curvature.T, atol=1e-12)


@ALL
def test_gradients_of_sums_are_derivatives(name):
    objective, X, rows, beta = _case(name)
    got = objective.totals(X, rows, beta)
    for field in ("positives", "labelled_positives", "by_look"):
        slope = _derivative(lambda at, field=field: getattr(objective.totals(X, rows, at), field), beta)
        np.testing.assert_allclose(getattr(got, f"{field}_gradient"), slope.T, atol=1e-8, err_msg=field)


@ALL
def test_sums_are_those_of_single_rows(name):
    objective, X, rows, beta = _case(name)
    whole = objective.totals(X, rows, beta)
    single = [objective.totals(*_part(X, rows, slice(i, i + 1)), beta) for i in range(N)]
    for field, values in zip(whole._fields, zip(*single, strict=True), strict=True):
        np.testing.assert_allclose(getattr(whole, field), np.sum(values, axis=0), atol=1e-11, err_msg=field)
    terms, w = objective.terms(X, rows, beta), rows["w"]
    np.testing.assert_allclose(whole.positives, w @ terms.f)
    np.testing.assert_allclose(whole.by_look, [w @ (terms.f * terms.e[:, j]) for j in range(objective.n_kinds)])
    np.testing.assert_allclose(whole.by_look_squares[0], w @ (terms.f[:, None] ** 2 * terms.e))
    np.testing.assert_allclose(whole.by_look_squares[1], w @ (terms.f[:, None] * terms.e) ** 2)
    v = np.stack(objective.logit_values(X, beta)[1 : 1 + objective.n_kinds]).T
    missed = [
        weight * np.prod((1 - alone.propensity(v + shift)) ** rows["looks"], axis=1)
        for weight, shift, alone in objective.at_nodes
    ]
    d = 1 - np.sum(missed, axis=0)
    np.testing.assert_allclose(whole.labelled_positives, w @ (terms.f * d))
    np.testing.assert_allclose(whole.squares, [w @ terms.f**2, w @ (terms.f**2 * d), w @ (terms.f * d) ** 2])
    np.testing.assert_allclose(whole.audits, [w @ (rows["audit"] == 1), w @ (rows["audit"] == 0)])
    np.testing.assert_allclose(whole.looks, w @ rows["looks"])
    np.testing.assert_allclose(whole.labels, w @ rows["labels"])


@pytest.mark.parametrize("name", ["one kind", "visits", "own models"])
def test_expected_curvature_is_the_mean_over_all_labels(name):
    objective, X, rows, beta = _case(name, n=4)
    rows["audit"][:] = -1
    mean = np.zeros((objective.n_parameters, objective.n_parameters))
    for i in range(4):
        one = _part(X, rows, slice(i, i + 1))
        for labels in itertools.product(*(range(m + 1) for m in rows["looks"][i])):
            at = one[1] | {"labels": np.array([labels], dtype=np.int8)}
            orders = np.prod([_binomial(m, t) for m, t in zip(rows["looks"][i], labels, strict=True)])
            probability = orders * np.exp(objective.terms(one[0], at, beta).value[0])
            mean += probability * objective.sums(one[0], at, beta, Curvature.OBSERVED).curvature
    got = objective.sums(X, rows, beta, Curvature.EXPECTED).curvature
    np.testing.assert_allclose(got, mean, atol=1e-12)


def _binomial(m, t):
    return np.prod([(m - i) / (i + 1) for i in range(t)])


@ALL
def test_expected_curvature_is_semi_definite(name):
    objective, X, rows, beta = _case(name)
    for scale in (1.0, 20.0, 300.0):
        curvature = objective.sums(X, rows, scale * beta, Curvature.EXPECTED).curvature
        assert np.linalg.eigvalsh(curvature).min() > -1e-10 * max(np.abs(curvature).max(), 1e-300)


@ALL
def test_the_diagonal_is_never_below_that_of_the_matrix(name):
    objective, X, rows, beta = _case(name)
    diagonal = objective.sums(X, rows, beta, Curvature.DIAGONAL).curvature
    matrix = objective.sums(X, rows, beta, Curvature.EXPECTED).curvature
    assert (diagonal >= np.diag(matrix) - 1e-12).all()
    assert (diagonal > 0).all()


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if "shift" not in name])
@CURVATURES
def test_products_are_those_of_the_matrix(name, curvature):
    objective, X, rows, beta = _case(name)
    direction = np.random.default_rng(3).normal(size=beta.size)
    kept = rows | {"curvature": objective.row_curvature(X, rows, beta, curvature)}
    (got,) = objective.product(X, kept, direction)
    want = objective.sums(X, rows, beta, curvature).curvature @ direction
    np.testing.assert_allclose(got, want, atol=1e-11)


@ALL
def test_reach_is_the_quadratic_form_of_grams(name):
    objective, X, rows, beta = _case(name)
    (reach,) = objective.reach(X, rows, beta)
    forms = [beta[p] @ gram @ beta[p] for p, gram in zip(objective.places, objective.grams(X, rows), strict=True)]
    np.testing.assert_allclose(reach, forms, rtol=1e-12)


@pytest.mark.parametrize("curvature", list(Curvature))
def test_one_look_is_the_pair(curvature):
    rng = np.random.default_rng(0)
    X, s, w = rng.normal(size=(N, D)), (rng.random(N) < 0.4).astype(float), rng.random(N)
    looks, pair = LooksLikelihood(F, ((E,),)), LogisticPair(F, E)
    rows = {"labels": s[:, None], "looks": np.ones((N, 1)), "audit": np.full(N, -1.0), "w": w, "s": s}
    beta = rng.normal(size=pair.n_parameters)
    got, want = looks.sums(X, rows, beta, curvature), pair.sums(X, rows, beta, curvature)
    np.testing.assert_allclose(got.value, want.value, rtol=1e-13)
    np.testing.assert_allclose(got.gradient, want.gradient, atol=1e-12)
    if curvature is Curvature.DIAGONAL:  # of the complete information, which is never less
        assert (got.curvature >= want.curvature - 1e-12).all()
    else:
        np.testing.assert_allclose(got.curvature, want.curvature, atol=1e-12)


@CURVATURES
@pytest.mark.parametrize("name", ["visits", "shared rate"])
def test_the_order_of_looks_changes_nothing(name, curvature):
    objective, X, rows, beta = _case(name)
    order = [2, 0, 1]
    turned = replace(objective, models=(tuple(VISITS[j] for j in order),))
    moved = rows | {"labels": rows["labels"][:, order], "looks": rows["looks"][:, order]}
    for got, want in zip(turned.sums(X, moved, beta, curvature), objective.sums(X, rows, beta, curvature), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-11)


@pytest.mark.parametrize("rate", [None, np.full(3, -2.0)], ids=["no rate", "known rate"])
def test_a_look_that_did_not_take_place_has_no_effect(rate):
    _, X, rows, beta = _case("visits")
    three = LooksLikelihood(F, (VISITS,), rate)
    two = LooksLikelihood(F, (VISITS[:2],), None if rate is None else rate[:2])
    rows["looks"][:, 2], rows["labels"][:, 2] = 0, 0
    fewer = rows | {"labels": rows["labels"][:, :2], "looks": rows["looks"][:, :2]}
    if rate is None:
        fewer["audit"] = rows["audit"] = np.where(fewer["labels"].any(axis=1), -1, rows["audit"])
    got, want = (each.sums(X, of, beta, Curvature.OBSERVED) for each, of in ((three, rows), (two, fewer)))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_several_looks_of_one_kind_equal_single_looks_of_equal_kinds():
    objective, X, rows, beta = _case("one kind")
    separate = LooksLikelihood(F, ((E, E, E),))
    looks = (np.arange(3) < rows["looks"]).astype(np.int8)
    labels = (np.arange(3) < rows["labels"]).astype(np.int8)
    other = rows | {"looks": looks, "labels": labels}
    for curvature in (Curvature.OBSERVED, Curvature.EXPECTED):
        got, want = separate.sums(X, other, beta, curvature), objective.sums(X, rows, beta, curvature)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-11)


@ALL
@pytest.mark.parametrize("curvature", list(Curvature))
def test_sparse_and_dense_blocks_agree(name, curvature):
    objective, X, rows, beta = _case(name)
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    thin = sparse.csr_array(X)
    for got, want in zip(
        objective.sums(thin, rows, beta, curvature), objective.sums(X, rows, beta, curvature), strict=True
    ):
        np.testing.assert_allclose(got, want, atol=1e-11)
    for got, want in zip(objective.totals(thin, rows, beta), objective.totals(X, rows, beta), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-11)


@ALL
@CURVATURES
def test_float32_columns_give_the_same_up_to_single_precision(name, curvature):
    objective, X, rows, beta = _case(name)
    single = X.astype(np.float32)
    got, want = (objective.sums(each, rows, beta, curvature) for each in (single, single.astype(np.float64)))
    np.testing.assert_allclose(got.value, want.value, rtol=1e-5)
    np.testing.assert_allclose(got.gradient, want.gradient, atol=1e-4)
    np.testing.assert_allclose(got.curvature, want.curvature, atol=1e-4)


@ALL
@pytest.mark.parametrize("curvature", list(Curvature))
def test_a_row_of_weight_two_is_two_rows(name, curvature):
    objective, X, rows, beta = _case(name)
    rows["w"] = np.ones(N)
    rows["w"][:7] = 2.0
    twice = np.concatenate([np.arange(N), np.arange(7)])
    more_X, more = _part(X, rows, twice)
    more["w"] = np.ones(twice.size)
    for got, want in zip(
        objective.sums(more_X, more, beta, curvature), objective.sums(X, rows, beta, curvature), strict=True
    ):
        np.testing.assert_allclose(got, want, atol=1e-11)
    for got, want in zip(objective.totals(more_X, more, beta), objective.totals(X, rows, beta), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-11)


def test_the_curve_of_detection_is_a_product_over_looks():
    objective, X, rows, beta = _case("visits")
    found, positives = detection_curve(X, rows, objective, beta, [0, 1, 2])
    terms = objective.terms(X, rows, beta)
    want = [terms.f @ (1 - np.prod(1 - terms.e[:, : k + 1], axis=1)) for k in range(3)]
    np.testing.assert_allclose(found, want, rtol=1e-12)
    np.testing.assert_allclose(positives, terms.f.sum())


def test_the_detection_curve_is_precise_for_tiny_propensities():
    objective = LooksLikelihood(F, ((Design.of(np.arange(0)),),))
    beta = np.append(np.zeros(F.n_parameters), -50.0)
    found, positives = detection_curve(np.zeros((2, D)), {}, objective, beta, [0, 0])
    np.testing.assert_allclose(found / positives, [np.exp(-50), 2 * np.exp(-50)], rtol=1e-9)


def test_an_audit_adds_the_information_that_the_class_of_a_row_adds_in_expectation():
    rng = np.random.default_rng(6)
    n, beta = 40, rng.normal(size=5)
    X, labels = rng.normal(size=(n, 3)), rng.integers(0, 2, size=(n, 1)).astype(float)
    objective = LooksLikelihood(Design.of(np.array([0, 1])), ((Design.of(np.array([2])),),))
    rows = {"labels": labels, "looks": np.ones((n, 1)), "audit": np.full(n, -1.0), "w": np.ones(n)}
    share = rng.random(n)
    q = objective.row_posterior(X, rows, beta)

    def information(audit, w):
        return objective.sums(X, rows | {"audit": audit, "w": w}, beta, Curvature.OBSERVED).curvature

    known = information(np.ones(n), share * q) + information(np.where(labels[:, 0] == 1, 1.0, 0.0), share * (1 - q))
    (added,) = information_from_audits(X, rows | {"audit_probability": share}, objective, beta)
    np.testing.assert_allclose(added, known - information(rows["audit"], share), atol=1e-10)
    assert np.diagonal(added).min() > 0.01
