"""The SAR-EM algorithm of the paper as published, timed on one dataset.

Data: one of the paper's eight datasets, from ../shared/data or the folder in the environment variable SCARLESS_DATA.
Time: seconds to hours; the algorithm is slow on large datasets.

The benchmark `core speed` compares SAREMClassifier with this implementation of Bekker, Robberechts and Davis,
ECML-PKDD 2019. Two logistic regressions, f on the classification attributes and e on the propensity attributes, are
fitted anew by liblinear in every M-step.

As published: every fit starts from zero, the M-step for f doubles the rows, and liblinear penalises the intercept like
a coefficient. EM therefore converges to the optimum of `penalised_objective` plus b_f^2 / (2 C_f) + b_e^2 / (2 C_e). At
that point `penalised_objective` itself is slightly higher than its minimum (with C = 1: breastcancer 140.67 instead of
139.88, imagesegmentation 614.08 instead of 612.88). Not as published: there is no propensity-weighted refit after the
last iteration, because it does not maximise the likelihood.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression

N_ROWS_PER_BLOCK = 8192

Callback = Callable[[int, np.ndarray, float, np.ndarray, float, float], None]


@dataclass
class PaperEMResult:
    """Parameters, log-likelihoods and times of a run of EM.

    ``log_likelihood[t]`` is the mean observed log-likelihood after iteration t; entry 0 is that of the initial models.
    ``iteration_seconds[t]`` is the time of iteration t without callbacks; entry 0 is that of the initialisation.
    """

    f_coef: np.ndarray
    f_intercept: float
    e_coef: np.ndarray
    e_intercept: float
    n_iter: int = 0
    converged: bool = False
    iteration_seconds: list[float] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time of the initialisation and all iterations."""
        return sum(self.iteration_seconds)


def observed_log_likelihood(u: np.ndarray, v: np.ndarray, s: np.ndarray) -> float:
    r"""Return the log-likelihood of the labels, summed over rows, for logits ``u`` of f and ``v`` of e.

    .. math:: \sum_i s_i (\log f_i + \log e_i) + (1 - s_i) \log(1 - f_i e_i)

    ``log(1 - f e)`` is computed as ``log1p(-f e)`` if ``f e < 1/2``. Otherwise ``1 - f e = (1-f) + f (1-e)`` is summed
    on the log scale, which avoids cancellation and underflow.
    """
    labelled = s == 1
    total = log_expit(u[labelled]).sum() + log_expit(v[labelled]).sum()
    u, v = u[~labelled], v[~labelled]
    product = expit(u) * expit(v)
    small = product < 0.5
    total += np.log1p(-product[small]).sum()
    u, v = u[~small], v[~small]
    return float(total + np.logaddexp(log_expit(-u), log_expit(u) + log_expit(-v)).sum())


def penalised_objective(
    X_f: np.ndarray,
    X_e: np.ndarray,
    s: np.ndarray,
    beta_f: np.ndarray,
    b_f: float,
    beta_e: np.ndarray,
    b_e: float,
    C_f: float,
    C_e: float,
) -> float:
    r"""Return minus the observed log-likelihood, with L2 penalties on the coefficients but not on the intercepts.

    .. math:: -\ell(\beta_f, b_f, \beta_e, b_e)
        + \frac{\lVert\beta_f\rVert^2}{2 C_f} + \frac{\lVert\beta_e\rVert^2}{2 C_e}
    """
    total = 0.0
    for start in range(0, s.shape[0], N_ROWS_PER_BLOCK):
        rows = slice(start, start + N_ROWS_PER_BLOCK)
        total += observed_log_likelihood(X_f[rows] @ beta_f + b_f, X_e[rows] @ beta_e + b_e, s[rows])
    return float(-total + beta_f @ beta_f / (2.0 * C_f) + beta_e @ beta_e / (2.0 * C_e))


def posterior(u: np.ndarray, v: np.ndarray, s: np.ndarray) -> np.ndarray:
    r"""Return the posterior of each row (the E-step), for logits ``u`` of f and ``v`` of e.

    .. math:: q = s + (1 - s) \frac{f (1 - e)}{1 - f e}, \qquad 1 - f e = (1 - f) + f (1 - e)
    """
    missed = expit(u) * expit(-v)
    return np.where(s == 1, 1.0, missed / (expit(-u) + missed))


def fit_liblinear(X: np.ndarray, label: np.ndarray, weight: np.ndarray, C: float) -> tuple[np.ndarray, float]:
    """Return coefficients and intercept of a liblinear fit that starts from zero."""
    model = LogisticRegression(solver="liblinear", C=C).fit(X, label, sample_weight=weight)
    return model.coef_[0], float(model.intercept_[0])


def mean_absolute_slope(history: deque[np.ndarray]) -> float:
    """Return the mean over rows of the absolute least-squares slope of the propensity over the iterations."""
    t = np.arange(len(history), dtype=np.float64)
    t -= t.mean()
    slope = sum(t_i * e for t_i, e in zip(t, history, strict=True)) / (t @ t)
    return float(np.abs(slope).mean())


def paper_em(
    X_f: np.ndarray,
    X_e: np.ndarray,
    s: np.ndarray,
    *,
    C_f: float = 1.0,
    C_e: float = 1.0,
    max_iter: int = 500,
    ll_tol: float = 1e-4,
    slope_tol: float = 1e-4,
    window: int = 10,
    stop: bool = True,
    callback: Callback | None = None,
) -> PaperEMResult:
    """Fit f on ``X_f`` and e on ``X_e`` to labels ``s`` (0/1) by the paper's EM.

    Parameters
    ----------
    C_f, C_e
        Inverse strengths of the L2 penalties.
    max_iter
        Largest number of EM iterations.
    ll_tol, slope_tol, window
        The published stopping rule: over the last ``window`` iterations the mean observed log-likelihood rose
        by less than ``ll_tol``, and the mean absolute slope of the propensities is below ``slope_tol``.
    stop
        False runs all ``max_iter`` iterations; the rule is then not evaluated.
    callback
        Called as ``callback(iteration, f_coef, f_intercept, e_coef, e_intercept, seconds_so_far)`` after the
        initialisation (iteration 0) and after every iteration, outside the timed part.
    """
    if window < 2:
        raise ValueError(f"window must be at least 2, because a slope needs two points; got {window!r}.")
    clock = time.perf_counter
    start = clock()
    n = s.shape[0]
    X_doubled = np.vstack([X_f, X_f])
    label_doubled = np.repeat([1, 0], n)

    # The initial class model treats unlabelled rows as negatives and gives both classes the same total weight.
    labelled_share = s.mean()
    f_coef, f_intercept = fit_liblinear(X_f, s, np.where(s == 1, 1.0 - labelled_share, labelled_share), C_f)
    u = X_f @ f_coef + f_intercept
    e_coef, e_intercept = fit_liblinear(X_e, s, np.where(s == 1, 1.0, expit(u)), C_e)
    v = X_e @ e_coef + e_intercept

    result = PaperEMResult(f_coef, f_intercept, e_coef, e_intercept)
    propensities: deque[np.ndarray] = deque(maxlen=window)
    result.log_likelihood.append(observed_log_likelihood(u, v, s) / n)
    result.iteration_seconds.append(clock() - start)
    if callback is not None:
        callback(0, f_coef, f_intercept, e_coef, e_intercept, result.seconds)

    for iteration in range(1, max_iter + 1):
        start = clock()
        q = posterior(u, v, s)
        f_coef, f_intercept = fit_liblinear(X_doubled, label_doubled, np.concatenate([q, 1.0 - q]), C_f)
        e_coef, e_intercept = fit_liblinear(X_e, s, q, C_e)
        u = X_f @ f_coef + f_intercept
        v = X_e @ e_coef + e_intercept
        result.log_likelihood.append(observed_log_likelihood(u, v, s) / n)
        if stop:
            propensities.append(expit(v))
            if len(propensities) == window:
                gain = result.log_likelihood[-1] - result.log_likelihood[-window]
                result.converged = gain < ll_tol and mean_absolute_slope(propensities) < slope_tol
        result.iteration_seconds.append(clock() - start)
        result.n_iter = iteration
        result.f_coef, result.f_intercept = f_coef, f_intercept
        result.e_coef, result.e_intercept = e_coef, e_intercept
        if callback is not None:
            callback(iteration, f_coef, f_intercept, e_coef, e_intercept, result.seconds)
        if result.converged:
            break
    return result


def main(arguments: list[str]) -> None:
    from benchmarks.datasets import SOURCES, paper_setting
    from benchmarks.runner import command_parser

    parser = command_parser("paper_em", __doc__)
    parser.add_argument("dataset", nargs="?", default="breastcancer", choices=SOURCES, metavar="DATASET",
                        help=f"one of {', '.join(SOURCES)} (default: %(default)s)")  # fmt: skip
    parser.add_argument(
        "max_iter", nargs="?", type=int, default=500, help="largest number of iterations (default: 500)"
    )
    options = parser.parse_args(arguments)
    name, max_iter = options.dataset, options.max_iter
    data = paper_setting(name)
    X_e = np.ascontiguousarray(data.X_train[:, data.propensity_columns])
    result = paper_em(data.X_train, X_e, data.s_train, max_iter=max_iter)
    f_test = expit(data.X_test @ result.f_coef + result.f_intercept)
    e_test = expit(data.X_test[:, data.propensity_columns] @ result.e_coef + result.e_intercept)
    positive = data.y_test == 1
    objective = penalised_objective(
        data.X_train,
        X_e,
        data.s_train,
        result.f_coef,
        result.f_intercept,
        result.e_coef,
        result.e_intercept,
        1.0,
        1.0,
    )
    per_iteration = result.iteration_seconds[1:]
    print(
        f"{name}: {data.X_train.shape[0]} x {data.X_train.shape[1]}, {result.n_iter} iterations, "
        f"converged {result.converged}, {result.seconds:.2f} s (start {result.iteration_seconds[0]:.2f} s, "
        f"median iteration {np.median(per_iteration):.4f} s)\n"
        f"  mean log-likelihood {result.log_likelihood[0]:.6f} -> {result.log_likelihood[-1]:.6f}, "
        f"objective {objective:.4f}\n"
        f"  test MSE_f {np.mean((f_test - data.y_test) ** 2):.4f}, "
        f"MSE_e on positives {np.mean((e_test - data.e_test)[positive] ** 2):.4f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
