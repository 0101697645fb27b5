"""Shifts of both intercepts to a given class prior."""

import numpy as np
import pytest
from scipy.special import expit, logit

from scarless.numerics.uncertainty import LARGEST_SHIFT, prior_shifts


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return expit(rng.normal(-1, 2, 400)), expit(rng.normal(0, 1, 400)), rng.integers(1, 4, 400).astype(float)


def test_the_class_prior_is_the_chosen_one_and_the_number_of_labels_stays_the_same(rows):
    f, e, w = rows
    estimate = w @ f / w.sum()
    priors = np.array([0.22, 0.3, estimate, 0.4, 0.6])
    for prior, (delta, epsilon) in zip(priors, prior_shifts(f, e, w, priors, estimate), strict=True):
        f_now, e_now = expit(logit(f) + delta), expit(logit(e) + epsilon)
        assert w @ f_now / w.sum() == pytest.approx(prior, abs=1e-9)
        assert w @ (f_now * e_now) == pytest.approx(w @ (f * e), rel=1e-9)


def test_nothing_is_shifted_at_the_estimate(rows):
    f, e, w = rows
    estimate = 0.9 * (w @ f) / w.sum()  # the estimate of a recalibrated fit need not be the mean of f
    below, there, above = prior_shifts(f, e, w, np.array([0.9, 1.0, 1.1]) * estimate, estimate)
    assert there.tolist() == [0.0, 0.0]
    assert below[0] < 0 < above[0]
    assert above[1] < 0 < below[1]  # More positives, and as many labels: a positive is labelled less often.


def test_a_class_prior_below_the_share_of_labels_has_the_largest_label_shift(rows):
    f, e, w = rows
    share = w @ (f * e) / w.sum()
    delta, epsilon = prior_shifts(f, e, w, np.array([0.9 * share]), w @ f / w.sum())[0]
    assert np.isfinite(delta)
    assert LARGEST_SHIFT - 1e-6 < epsilon <= LARGEST_SHIFT


def test_propensities_of_0_and_1_stay_as_they_are(rows):
    f, _, w = rows
    e = np.where(np.arange(f.size) % 3 == 0, 1.0, np.where(np.arange(f.size) % 3 == 1, 0.0, 0.5))
    delta, epsilon = prior_shifts(f, e, w, np.array([0.5]), w @ f / w.sum())[0]
    f_now = expit(logit(f) + delta)
    e_now = np.where(e == 0.5, expit(epsilon), e)
    assert w @ (f_now * e_now) == pytest.approx(w @ (f * e), rel=1e-9)
