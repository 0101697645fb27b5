"""Observations of rows: one label, several looks and audits, with likelihoods, posteriors and derivatives."""

import numpy as np
import pytest
from scipy.special import expit

from scarless.pair.cross_fit import OneLabel, SeveralLooks


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    n = 60
    looks = rng.integers(0, 3, size=(n, 2)).astype(float)
    labels = np.minimum(looks, rng.integers(0, 2, size=(n, 2)))
    audit = rng.choice([-1.0, 0.0, 1.0], size=n)
    u, v = rng.normal(size=n), rng.normal(size=(n, 4))
    s = (labels.sum(axis=1) > 0).astype(float)
    return SeveralLooks(s, labels, looks, audit), u, v


def test_one_look_without_audits_is_one_label():
    rng = np.random.default_rng(1)
    u, v, s, w = rng.normal(size=50), rng.normal(size=50), rng.integers(0, 2, 50).astype(float), rng.random(50)
    one, same = OneLabel(s), SeveralLooks(s, s[:, None], np.ones((50, 1)), np.full(50, -1.0))
    np.testing.assert_allclose(same.value(u, v[:, None]), one.value(u, v), atol=1e-13)
    np.testing.assert_allclose(same.posterior(u, v[:, None]), one.posterior(u, v), atol=1e-13)
    np.testing.assert_allclose(same.gradient(u, v[:, None], w), one.gradient(u, v, w), atol=1e-13)
    np.testing.assert_allclose(same.label_probability(v[:, None]), one.label_probability(v), atol=1e-13)
    np.testing.assert_allclose(same.first_targets(w), one.first_targets(w))


def test_the_gradient_is_the_derivative_of_the_log_likelihood(rows):
    observed, u, v = rows
    w, step = np.linspace(0.5, 2.0, u.size), 1e-6
    slope = (observed.value(u + step, v) - observed.value(u - step, v)) / (2 * step)
    gradient, curvature = observed.gradient(u, v, w)
    np.testing.assert_allclose(gradient, w * slope, atol=1e-7)
    np.testing.assert_allclose(curvature, w * expit(u) * expit(-u))


def test_posteriors_follow_bayes_rule_and_audits_determine_the_class(rows):
    observed, u, v = rows
    e, h = expit(v[:, :2]), expit(v[:, 2:])
    t, m = observed.labels, observed.looks
    positive = expit(u) * np.prod(e**t * (1 - e) ** (m - t), axis=1)
    negative = expit(-u) * np.prod(h**t * (1 - h) ** (m - t), axis=1)
    q = np.where(observed.audit >= 0, observed.audit, positive / (positive + negative))
    np.testing.assert_allclose(observed.posterior(u, v), q, atol=1e-12)
    value = np.select([observed.audit == 1, observed.audit == 0], [positive, negative], positive + negative)
    np.testing.assert_allclose(observed.value(u, v), np.log(value), atol=1e-12)
    np.testing.assert_allclose(observed.label_probability(v), 1 - np.prod((1 - e) ** m, axis=1), atol=1e-12)


def test_first_targets_are_audited_classes_or_labels_with_equal_total_weights(rows):
    observed, _, _ = rows
    targets, weight = observed.first_targets(np.ones(60))
    audited = observed.audit >= 0
    np.testing.assert_array_equal(targets[audited], observed.audit[audited])
    np.testing.assert_array_equal(targets[~audited], observed.s[~audited])
    assert weight[targets == 1].sum() == pytest.approx(weight[targets == 0].sum())


def test_a_selection_of_rows_keeps_their_values(rows):
    observed, u, v = rows
    some = np.array([5, 3, 40])
    np.testing.assert_array_equal(observed.of(some).value(u[some], v[some]), observed.value(u, v)[some])
    np.testing.assert_array_equal(OneLabel(observed.s).of(some).s, observed.s[some])
