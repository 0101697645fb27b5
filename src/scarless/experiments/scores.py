"""How far predictions are from the truth: one number each."""

import numpy as np
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from scarless.experiments.methods import Fit
from scarless.experiments.protocol import Task
from scarless.numerics.arrays import Vector
from scarless.numerics.calibration import BinnedRows, binned, calibration_error

BINS = 10


def scores_of(fit: Fit, task: Task) -> dict[str, float]:
    """Return all scores of a fit, on the test rows; errors of class prior and label frequency on the training rows.

    Errors of the propensity are over the positives; a method without a propensity has none. Of scores that are no
    probabilities only the ranking is measured.
    """
    y = task.split.y_test
    found = {
        "auc_f": float(roc_auc_score(y, fit.f)),
        "average_precision": float(average_precision_score(y, fit.f)),
    }
    if fit.is_probability:
        found |= {
            "mse_f": float(np.mean((fit.f - y) ** 2)),
            "log_loss": float(log_loss(y, np.clip(fit.f, 1e-15, 1 - 1e-15))),
            "calibration_error": calibration_error(in_ten_bins(fit.f, y))[0],
        }
    if np.isfinite(fit.class_prior):
        found["class_prior_error"] = float(fit.class_prior - task.split.y_train.mean())
    if fit.e is None:
        return found
    error = (fit.e - task.e_test)[y == 1]
    true_c = task.s_train.sum() / task.split.y_train.sum()
    return {
        **found,
        "mse_e": float(np.mean(error**2)),
        "mae_e": float(np.mean(np.abs(error))),
        "label_frequency_error": float(fit.label_frequency - true_c),
    }


def in_ten_bins(p: Vector, y: Vector) -> BinnedRows:
    """Return predicted and observed shares over ten bins of equal width between 0 and 1, without empty ones.

    Examples
    --------
    >>> rows = in_ten_bins(np.array([0.2, 0.2, 0.9, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]))
    >>> round(calibration_error(rows)[0], 12)
    0.15
    """
    bins = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    return binned(p, np.ones_like(p), y, np.unique(bins, return_inverse=True)[1].reshape(-1))
