"""Tests of labels against groups of columns: closed forms, other ways to the same number, and their size."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2, chi2_contingency, kstest
from sklearn.linear_model import LogisticRegression

from scarless.numerics.label_tests import label_tests, score_test, second_factor_test, wald_test


def test_the_score_test_of_levels_is_pearsons_test_of_the_table():
    rng = np.random.default_rng(0)
    levels, s = rng.integers(0, 4, 300), (rng.random(300) < 0.3).astype(float)
    table = np.array([[np.sum((levels == k) & (s == j)) for k in range(4)] for j in (0, 1)])
    expected = chi2_contingency(table, correction=False).pvalue
    assert score_test(np.eye(4)[levels], s) == pytest.approx(expected)
    assert score_test(np.eye(4)[levels][:, 1:], s) == pytest.approx(expected)


def test_without_a_first_factor_it_is_the_score_test():
    rng = np.random.default_rng(1)
    Z, s = rng.normal(size=(400, 3)), (rng.random(400) < 0.2).astype(float)
    found = second_factor_test(Z[:, :0], Z, s, np.ones(400), np.ones(400), float(s.mean()))
    assert found == pytest.approx(score_test(Z, s))


def test_weights_count_rows():
    rng = np.random.default_rng(2)
    Z, w = rng.normal(size=(200, 3)), rng.integers(1, 4, 200).astype(float)
    f = expit(Z[:, 0])
    s = (rng.random(200) < 0.6 * f).astype(float)
    twice = np.repeat(np.arange(200), w.astype(int))
    one = second_factor_test(Z[:, :1], Z[:, 1:], s, w, f, 0.6)
    many = second_factor_test(Z[twice, :1], Z[twice, 1:], s[twice], np.ones(twice.size), f[twice], 0.6)
    assert one == pytest.approx(many)


def test_columns_that_repeat_each_other_count_once():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(300, 2))
    f = expit(Z[:, 0])
    s = (rng.random(300) < 0.5 * f).astype(float)
    one = second_factor_test(Z[:, :1], Z[:, 1:], s, np.ones(300), f, 0.5)
    assert second_factor_test(Z[:, :1], Z[:, [1, 1]], s, np.ones(300), f, 0.5) == pytest.approx(one, rel=1e-6)
    assert wald_test(np.zeros(2), np.zeros((2, 2))) == 1.0


def test_p_values_of_what_does_not_matter_are_uniform():
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(800, 5))
        f = expit(1.5 * Z[:, 0])
        s = (rng.random(800) < 0.6 * f).astype(float)
        found.append((second_factor_test(Z[:, :1], Z[:, 1:], s, np.ones(800), f, 0.6),
                      label_tests(Z, s, [[0], [1], [2, 3], [4]])[2]))  # fmt: skip
    for p in np.array(found).T:
        assert kstest(p, "uniform").pvalue > 0.01


def test_groups_are_tested_given_the_others_as_a_likelihood_ratio_does():
    """A column that only follows another one is associated with the labels, and does not matter."""
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(4000, 4))
    Z[:, 1] = 0.9 * Z[:, 0] + 0.3 * Z[:, 1]
    s = (rng.random(4000) < expit(0.8 * Z[:, 0] + 0.1 * Z[:, 2] - 1)).astype(float)
    found = label_tests(Z, s, [[0], [1], [2, 3]])

    def log_likelihood(columns):
        model = LogisticRegression(C=1e6, tol=1e-8).fit(Z[:, columns], s)
        p = model.predict_proba(Z[:, columns])[:, 1]
        return float(np.sum(s * np.log(p) + (1 - s) * np.log1p(-p)))

    assert score_test(Z[:, [1]], s) < 1e-10
    assert found[1] > 0.01
    ratio = 2 * (log_likelihood([0, 1, 2, 3]) - log_likelihood([0, 1]))
    assert found[2] == pytest.approx(chi2.sf(ratio, 2), rel=0.05)


def test_more_columns_than_labels_are_for_come_by_their_own_association():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(300, 60))
    s = (rng.random(300) < expit(2 * Z[:, 7] - 2.5)).astype(float)
    found = label_tests(Z, s, [[j] for j in range(60)])
    assert np.argmin(found) == 7
    assert found[7] < 1e-4
    assert np.isfinite(found).all()
