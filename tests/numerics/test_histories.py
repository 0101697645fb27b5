"""Histories of labels, and the test for differences between positives that no attribute explains."""

from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, logit

from scarless.numerics import histories
from scarless.numerics.histories import (
    HeterogeneitySums,
    Histories,
    LabelledHistories,
    chi_square,
    count_histories,
    count_labels,
    false_positive_scores,
    number_by_histories,
    number_by_models,
    pooled,
    score_tests,
)
from scarless.numerics.linear import Design
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import Curvature


def drawn(n=60, n_looks=3, missing=0.3, seed=0):
    rng = np.random.default_rng(seed)
    f, e, h = rng.random(n), rng.random((n, n_looks)), 0.1 * rng.random((n, n_looks))
    labels = (rng.random((n, n_looks)) < e).astype(np.int8)
    labels[rng.random((n, n_looks)) < missing] = -1
    return labels, f, e, h


@pytest.mark.parametrize("false_positives", [False, True])
def test_expected_numbers_are_sums_of_the_likelihood_of_each_history(false_positives):
    labels, f, e, h = drawn()
    found = count_histories(labels, f, e, h if false_positives else None)
    rates = h if false_positives else np.zeros_like(h)
    expected, observed = dict.fromkeys(found.names, 0.0), dict.fromkeys(found.names, 0)
    for i in range(len(f)):
        seen = labels[i] >= 0
        if not seen.any():
            continue
        for cell in product((0, 1), repeat=3):
            if any(s and not there for s, there in zip(cell, seen, strict=True)):
                continue  # A look that did not take place has no label.
            name = " ".join(str(s) if there else "-" for s, there in zip(cell, seen, strict=True))
            A = np.prod([e[i, k] if cell[k] else 1 - e[i, k] for k in range(3) if seen[k]])
            B = np.prod([rates[i, k] if cell[k] else 1 - rates[i, k] for k in range(3) if seen[k]])
            expected[name] += f[i] * A + (1 - f[i]) * B
        observed[" ".join("-" if s < 0 else str(s) for s in labels[i])] += 1
    np.testing.assert_allclose(found.expected, [expected[name] for name in found.names], atol=1e-12)
    np.testing.assert_array_equal(found.observed, [observed[name] for name in found.names])


@pytest.mark.parametrize("count", [count_histories, count_labels])
def test_observed_and_expected_numbers_sum_to_the_rows_with_a_look(count):
    labels, f, e, h = drawn()
    found = count(labels, f, e, h)
    looked = (labels >= 0).any(axis=1).sum()
    assert found.observed.sum() == looked
    assert found.expected.sum() == pytest.approx(looked)


def test_numbers_of_labels_are_merged_histories():
    labels, f, e, h = drawn()
    long, short = count_histories(labels, f, e, h), count_labels(labels, f, e, h)
    for name, observed, expected in zip(*short, strict=True):
        mine = [f"{each.count('1')} of {3 - each.count('-')}" == name for each in long.names]
        assert observed == long.observed[mine].sum()
        assert expected == pytest.approx(long.expected[mine].sum())


def test_all_looks_come_first():
    labels, f, e, _ = drawn()
    assert count_histories(labels, f, e, None).names[:2] == ("0 0 0", "0 0 1")


def test_rare_histories_are_merged():
    table = Histories(("a", "b", "c", "d"), np.array([9.0, 1, 2, 8]), np.array([10.0, 2, 1, 7]))
    found = pooled(table, 5.0)
    assert found.names == ("a", "d", "all others")
    np.testing.assert_array_equal(found.observed, [9, 8, 3])
    np.testing.assert_array_equal(found.expected, [10, 7, 3])
    assert chi_square(found) == pytest.approx(1 / 10 + 1 / 7)
    assert pooled(table, 2.0) is table  # A single rare history is not merged.


def problem(n=300, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    objective = LooksLikelihood(Design.of(np.array([0, 1])), ((Design.of(np.array([1])),),))
    beta = np.array([1.0, 0.3, -0.2, 0.5, -0.4])
    y = rng.random(n) < expit(X @ beta[:2] + beta[2])
    labels = (y * rng.binomial(3, expit(X[:, 1] * beta[3] + beta[4])))[:, None]
    rows = {"labels": labels, "looks": np.full((n, 1), 3), "audit": np.full(n, -1), "w": np.ones(n)}
    return X, rows, objective, beta


def test_the_score_is_the_derivative_by_the_variance_of_a_common_shift():
    """Compare with the likelihood with a normal shift of the logit, by quadrature, differentiated at variance 0."""
    X, rows, objective, beta = problem()
    nodes, weights = hermegauss(30)
    weights = weights / weights.sum()
    t, u, v = rows["labels"][:, 0], X @ beta[:2] + beta[2], X[:, 1] * beta[3] + beta[4]

    def log_likelihood(variance):
        e = expit(v[:, None] + np.sqrt(variance) * nodes)
        A = (e ** t[:, None] * (1 - e) ** (3 - t[:, None])) @ weights
        return np.log(expit(u) * A + (1 - expit(u)) * (t == 0)).sum()

    step = 1e-4
    slope = (-3 * log_likelihood(0) + 4 * log_likelihood(step) - log_likelihood(2 * step)) / (2 * step)
    found = histories.heterogeneity_sums(X, rows, objective, beta)
    assert float(found.total) == pytest.approx(slope, rel=1e-4)


def test_the_sums_of_scores_are_those_of_the_objective():
    X, rows, objective, beta = problem()
    found = histories.heterogeneity_sums(X, rows, objective, beta)
    np.testing.assert_allclose(-found.scores, objective.sums(X, rows, beta, Curvature.NONE).gradient, atol=1e-10)
    singles = [
        histories.heterogeneity_sums(X[[i]], {name: value[[i]] for name, value in rows.items()}, objective, beta)
        for i in range(len(X))
    ]
    np.testing.assert_allclose(found.of_scores, sum(np.outer(s.scores, s.scores) for s in singles), atol=1e-9)
    np.testing.assert_allclose(found.with_scores, sum(float(s.total) * s.scores for s in singles), atol=1e-10)
    assert float(found.squares) == pytest.approx(sum(float(s.total) ** 2 for s in singles))


def test_the_statistic_is_a_residual_over_its_standard_error():
    """The residual of c after a least-squares regression on the scores of the rows."""
    X, rows, objective, beta = problem()
    singles = [
        histories.heterogeneity_sums(X[[i]], {name: value[[i]] for name, value in rows.items()}, objective, beta)
        for i in range(len(X))
    ]
    c, t = np.array([float(s.total) for s in singles]), np.array([s.scores for s in singles])
    left = c - t @ np.linalg.lstsq(t, c, rcond=None)[0]
    z = histories.heterogeneity(histories.heterogeneity_sums(X, rows, objective, beta))
    assert z == pytest.approx(left.sum() / np.sqrt(left @ left))


def test_without_information_the_statistic_is_zero():
    none = HeterogeneitySums(np.array(0.0), np.array(0.0), np.zeros(2), np.zeros(2), np.zeros((2, 2)))
    assert histories.heterogeneity(none) == 0.0


# --- the score test of false positives


@pytest.mark.parametrize("counts", [False, True])
def test_the_score_of_false_positives_is_the_derivative_by_their_rate(counts):
    """Compare with differences of the likelihood, and the statistic with a regression on the scores of all rows."""
    labelled, X, rows, of_e = labelled_case()
    objective, beta = labelled.looks, np.append([0.5, -0.4, 0.2], of_e)
    w, n_labels = rows["w"], rows["labels"].sum(axis=1)
    assert {0, 1, 2} <= set(n_labels)

    def value(objective, beta):
        return objective.terms(X, rows, beta).value

    h = 1e-7
    with_rate = LooksLikelihood(objective.f, objective.models, logit(np.full(2, h)), None, None)
    g = (value(with_rate, beta) - value(objective, beta)) / h
    sums = false_positive_scores(X, rows, objective, beta, counts)
    np.testing.assert_allclose(sums.added, w @ g, rtol=1e-4)
    steps = 1e-5 * np.eye(beta.size)
    t = np.stack([(value(objective, beta + d) - value(objective, beta - d)) / 2e-5 for d in steps], axis=1)
    b = np.linalg.solve((w[:, None] * t).T @ t, t.T @ (w * g))
    left = g - t @ b
    expected = w @ left / np.sqrt((w if counts else w**2) @ left**2)
    np.testing.assert_allclose(score_tests(sums), [expected], rtol=1e-3)


# --- the histories of labelled rows alone


def labelled_case(bounds=None, offsets=None):
    rng = np.random.default_rng(4)
    n = 50
    looks = rng.integers(1, 3, size=(n, 2)).astype(float)
    labels = np.minimum(looks, rng.integers(0, 2, size=(n, 2)))
    rows = {"labels": labels, "looks": looks, "audit": np.full(n, -1.0), "w": rng.random(n) + 0.5}
    models = ((Design.of(np.array([0, 1])),), (Design.of(np.array([0, 2])),))
    objective = LooksLikelihood(Design.of(np.arange(2)), models, None, offsets, bounds)
    return LabelledHistories(objective), rng.normal(size=(n, 4)), rows, 0.5 * rng.normal(size=6)


@pytest.mark.parametrize("given", [{}, {"bounds": (0.1, 0.8)}, {"offsets": (3, 3)}])
def test_derivatives_of_labelled_histories_match_finite_differences(given):
    histories, X, rows, beta = labelled_case(**given)
    steps = 1e-5 * np.eye(beta.size)
    sums = histories.sums(X, rows, beta, Curvature.OBSERVED)
    around = [[histories.sums(X, rows, beta + sign * step, Curvature.NONE) for sign in (1.0, -1.0)] for step in steps]
    np.testing.assert_allclose(sums.gradient, [float(a.value - b.value) / 2e-5 for a, b in around], atol=1e-7)
    np.testing.assert_allclose(sums.curvature, [(a.gradient - b.gradient) / 2e-5 for a, b in around], atol=1e-7)
    diagonal = histories.sums(X, rows, beta, Curvature.DIAGONAL).curvature
    np.testing.assert_allclose(diagonal, np.diag(sums.curvature), atol=1e-12)


def test_labelled_histories_have_the_probability_given_at_least_one_label():
    histories, X, rows, beta = labelled_case()
    e = expit(np.column_stack([X[:, [0, 1]] @ beta[:2] + beta[2], X[:, [0, 2]] @ beta[3:5] + beta[5]]))
    t, m = rows["labels"], rows["looks"]
    p = 1 - np.prod((1 - e) ** m, axis=1)
    value = np.log(np.prod(e**t * (1 - e) ** (m - t), axis=1) / p)
    labelled = t.sum(axis=1) > 0
    found = float(histories.sums(X, rows, beta, Curvature.NONE).value)
    assert found == pytest.approx(-rows["w"][labelled] @ value[labelled], rel=1e-12)
    models = np.concatenate([[0.4, -0.2, 0.1], beta])
    number = number_by_histories(X, rows, histories, beta, models, counts=True)
    assert float(number.number) == pytest.approx((rows["w"] * labelled) @ (1 / p), rel=1e-12)
    moved = [number_by_histories(X, rows, histories, beta + d, models, counts=True).number for d in (1e-6, -1e-6)]
    assert float(number.gradient.sum()) == pytest.approx(float(moved[0] - moved[1]) / 2e-6, rel=1e-6)


def test_the_number_by_models_counts_rows_with_a_look():
    labelled, X, rows, of_e = labelled_case()
    beta, looked = np.append([0.5, -0.4, 0.2], of_e), np.arange(50) >= 10
    rows = rows | {"looks": rows["looks"] * looked[:, None], "labels": rows["labels"] * looked[:, None]}
    f, w = expit(X[:, :2] @ beta[:2] + beta[2]), rows["w"] * looked
    found = number_by_models(X, rows, labelled, beta, counts=True)
    assert (found.number, found.looked_at) == pytest.approx((w @ f, w.sum()))
    with_looks = {name: values[looked] for name, values in rows.items()}
    alone = number_by_models(X[looked], with_looks, labelled, beta, counts=True)
    for got, want in zip(found, alone, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_the_number_by_histories_is_unbiased():
    """Enumerate all histories of a positive row: the mean number is 1, and its variance is the expected one."""
    histories, X, _, beta = labelled_case()
    X, e = X[:1], expit(np.array([X[0, [0, 1]] @ beta[:2] + beta[2], X[0, [0, 2]] @ beta[3:5] + beta[5]]))
    sure = np.concatenate([[0.0, 0.0, 40.0], beta])  # the row is positive
    mean = square = 0.0
    for labels in product([0.0, 1.0], repeat=2):
        row = {"labels": np.array([labels]), "looks": np.ones((1, 2)), "audit": -np.ones(1), "w": np.ones(1)}
        chance = np.prod(np.where(labels, e, 1 - e))
        number = float(number_by_histories(X, row, histories, beta, sure, counts=True).number)
        mean, square = mean + chance * number, square + chance * number**2
    expected = number_by_models(X, row, histories, sure, counts=True)
    assert mean == pytest.approx(1.0, rel=1e-12)
    assert square - mean**2 == pytest.approx(float(expected.variance), rel=1e-9)
    assert float(expected.number) == pytest.approx(1.0, rel=1e-12)
