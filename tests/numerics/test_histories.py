"""Histories of labels, and the score of differences that no attribute explains."""

from itertools import product

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit

from scarless.numerics import histories
from scarless.numerics.histories import HeterogeneitySums, Histories, chi_square, count_histories, count_labels, pooled
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
                continue  # one history of looks that were not taken
            name = " ".join(str(s) if there else "-" for s, there in zip(cell, seen, strict=True))
            A = np.prod([e[i, k] if cell[k] else 1 - e[i, k] for k in range(3) if seen[k]])
            B = np.prod([rates[i, k] if cell[k] else 1 - rates[i, k] for k in range(3) if seen[k]])
            expected[name] += f[i] * A + (1 - f[i]) * B
        observed[" ".join("-" if s < 0 else str(s) for s in labels[i])] += 1
    np.testing.assert_allclose(found.expected, [expected[name] for name in found.names], atol=1e-12)
    np.testing.assert_array_equal(found.observed, [observed[name] for name in found.names])


@pytest.mark.parametrize("count", [count_histories, count_labels])
def test_both_numbers_sum_to_the_rows_that_were_looked_at(count):
    labels, f, e, h = drawn()
    found = count(labels, f, e, h)
    looked = (labels >= 0).any(axis=1).sum()
    assert found.observed.sum() == looked
    assert found.expected.sum() == pytest.approx(looked)


def test_numbers_of_labels_are_histories_put_together():
    labels, f, e, h = drawn()
    long, short = count_histories(labels, f, e, h), count_labels(labels, f, e, h)
    for name, observed, expected in zip(*short, strict=True):
        mine = [f"{each.count('1')} of {3 - each.count('-')}" == name for each in long.names]
        assert observed == long.observed[mine].sum()
        assert expected == pytest.approx(long.expected[mine].sum())


def test_all_looks_come_first():
    labels, f, e, _ = drawn()
    assert count_histories(labels, f, e, None).names[:2] == ("0 0 0", "0 0 1")


def test_rare_histories_are_put_together():
    table = Histories(("a", "b", "c", "d"), np.array([9.0, 1, 2, 8]), np.array([10.0, 2, 1, 7]))
    found = pooled(table, 5.0)
    assert found.names == ("a", "d", "all others")
    np.testing.assert_array_equal(found.observed, [9, 8, 3])
    np.testing.assert_array_equal(found.expected, [10, 7, 3])
    assert chi_square(found) == pytest.approx(1 / 10 + 1 / 7)
    assert pooled(table, 2.0) is table  # one alone stays


def problem(n=300, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    objective = LooksLikelihood(Design.of(np.array([0, 1])), ((Design.of(np.array([1])),),))
    beta = np.array([1.0, 0.3, -0.2, 0.5, -0.4])
    y = rng.random(n) < expit(X @ beta[:2] + beta[2])
    labels = (y * rng.binomial(3, expit(X[:, 1] * beta[3] + beta[4])))[:, None]
    rows = {"labels": labels, "looks": np.full((n, 1), 3), "audit": np.full(n, -1), "w": np.ones(n)}
    return X, rows, objective, beta


def test_the_score_is_the_derivative_by_the_variance_of_what_no_attribute_explains():
    """The likelihood with a normal shift of the logit, by Gauss-Hermite quadrature, differentiated at 0."""
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


def test_the_statistic_is_a_residual_over_its_root_of_squares():
    """What is left of c after a regression on the scores, by least squares row by row."""
    X, rows, objective, beta = problem()
    singles = [
        histories.heterogeneity_sums(X[[i]], {name: value[[i]] for name, value in rows.items()}, objective, beta)
        for i in range(len(X))
    ]
    c, t = np.array([float(s.total) for s in singles]), np.array([s.scores for s in singles])
    left = c - t @ np.linalg.lstsq(t, c, rcond=None)[0]
    z = histories.heterogeneity(histories.heterogeneity_sums(X, rows, objective, beta))
    assert z == pytest.approx(left.sum() / np.sqrt(left @ left))


def test_nothing_to_see_is_no_difference():
    none = HeterogeneitySums(np.array(0.0), np.array(0.0), np.zeros(2), np.zeros(2), np.zeros((2, 2)))
    assert histories.heterogeneity(none) == 0.0
