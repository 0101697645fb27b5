"""Scores, by hand."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scarless.experiments import Cell
from scarless.experiments.methods import Fit
from scarless.experiments.protocol import Split, Task
from scarless.experiments.run import in_ten_bins, scores_of
from scarless.numerics.weighted_scores import calibration_error

SPLIT = Split(
    X_train=np.zeros((8, 1)),
    y_train=np.array([1.0, 1, 1, 1, 0, 0, 0, 0]),
    X_test=np.zeros((4, 1)),
    y_test=np.array([1.0, 1, 0, 0]),
    n_original=1,
)
TASK = Task(
    cell=Cell("by hand", "all", 2, 0, 0),
    split=SPLIT,
    s_train=np.array([1.0, 0, 0, 0, 0, 0, 0, 0]),
    e_train=np.full(8, 0.3),
    e_test=np.array([0.4, 0.7, 0.2, 0.2]),
    seed=0,
)
FIT = Fit(
    f=np.array([0.9, 0.4, 0.6, 0.1]),
    e=np.array([0.5, 0.3, 1.0, 0.0]),
    class_prior=0.75,
    label_frequency=0.2,
    n_iter=3,
)


def test_all_scores_of_four_rows():
    assert scores_of(FIT, TASK) == pytest.approx(
        {
            "mse_f": (0.1**2 + 0.6**2 + 0.6**2 + 0.1**2) / 4,
            "auc_f": 3 / 4,  # of four pairs, 0.4 < 0.6 is wrong
            "average_precision": (1 + 2 / 3) / 2,  # positives are first and third
            "log_loss": -(2 * log(0.9) + 2 * log(0.4)) / 4,
            "calibration_error": (0.1 + 0.6 + 0.6 + 0.1) / 4,  # each row has a bin for itself
            "class_prior_error": 0.75 - 0.5,  # against the training rows
            "mse_e": (0.1**2 + 0.4**2) / 2,  # the positives only
            "mae_e": (0.1 + 0.4) / 2,
            "label_frequency_error": 0.2 - 0.25,  # one of four positives is labelled
        }
    )


def test_a_method_without_a_propensity_has_no_scores_of_it():
    without = scores_of(replace(FIT, e=None, label_frequency=float("nan")), TASK)
    full = scores_of(FIT, TASK)
    assert without == {name: full[name] for name in without}
    assert set(full) - set(without) == {"mse_e", "mae_e", "label_frequency_error"}


def test_propensities_of_negatives_do_not_count():
    other = replace(FIT, e=np.array([0.5, 0.3, 0.77, 0.88]))
    assert scores_of(other, TASK) == scores_of(FIT, TASK)


def test_a_perfect_fit_has_no_error():
    fit = Fit(f=SPLIT.y_test, e=TASK.e_test, class_prior=0.5, label_frequency=0.25, n_iter=1)
    found = scores_of(fit, TASK)
    assert found.pop("auc_f") == found.pop("average_precision") == 1.0
    assert found.pop("log_loss") == pytest.approx(0.0, abs=1e-12)
    assert set(found.values()) == {0.0}


def test_certain_and_wrong_is_a_finite_loss():
    fit = replace(FIT, f=1.0 - SPLIT.y_test)
    assert scores_of(fit, TASK)["log_loss"] == pytest.approx(-log(1e-15), rel=1e-2)


def test_scores_are_plain_numbers():
    assert {type(value) for value in scores_of(FIT, TASK).values()} == {float}


def error_in_bins(p, y):
    return calibration_error(in_ten_bins(p, y))[0]


def test_calibration_error_by_hand():
    p = np.array([0.12, 0.18, 0.15, 0.95, 1.0])
    y = np.array([0.0, 1, 0, 1, 0])
    # Bin [0.1, 0.2): mean 0.15, observed 1/3, three rows. Bin [0.9, 1]: mean 0.975, observed 1/2, two rows.
    expected = 3 / 5 * abs(0.15 - 1 / 3) + 2 / 5 * abs(0.975 - 0.5)
    assert error_in_bins(p, y) == pytest.approx(expected, abs=1e-12)


def test_errors_of_different_bins_do_not_cancel_but_those_of_one_bin_do():
    assert error_in_bins(np.array([0.05, 0.55]), np.array([0.0, 1.0])) == pytest.approx((0.05 + 0.45) / 2)
    assert error_in_bins(np.array([0.5, 0.5]), np.array([0.0, 1.0])) == 0.0


ROWS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30)


@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_calibration_error_is_a_share_and_ignores_the_order_of_rows(rows, order):
    p, y = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    shuffled = list(rows)
    order.shuffle(shuffled)
    q, z = (np.array(column, dtype=float) for column in zip(*shuffled, strict=True))
    assert 0.0 <= error_in_bins(p, y) <= 1.0
    assert error_in_bins(q, z) == pytest.approx(error_in_bins(p, y), abs=1e-11)
    assert error_in_bins(p, y) >= abs(p.mean() - y.mean()) - 1e-11  # bins only add to the total error
