"""KM2 in its original formulation, solved by a general interior-point solver.

`benchmarks.label_frequency` compares `scarless.label_frequency.KernelMean` with it. Lambda is found by bisection to a
precision of 0.04, and slopes are difference quotients, as in the code of Ramaswamy, Scott and Tewari (ICML 2016).
"""

from dataclasses import dataclass, field

import numpy as np

KERNEL_WIDTHS = np.logspace(-1, 1, 5)
LARGEST_LAMBDA = 8.0
LAMBDA_PRECISION = 0.04


@dataclass
class InteriorPointKM2:
    """The KM2 estimator for the share of a component in a mixture."""

    mixture: np.ndarray
    component: np.ndarray
    precision: float = LAMBDA_PRECISION
    n_solves: int = field(default=0, init=False)

    def share(self) -> float:
        """Return the estimate kappa of KM2."""
        self._choose_kernel()
        start = (self._distance(1.05) - self._distance(1.0)) / 0.05
        threshold = 0.8 * start + 0.2 * self._apart
        low, high = 1.0, LARGEST_LAMBDA
        while high - low > self.precision:
            middle, step = (low + high) / 2, self.precision / 2
            slope = (self._distance(middle + step) - self._distance(middle)) / step
            low, high = (low, middle) if slope > threshold else (middle, high)
        return 1.0 - 2.0 / (low + high)

    def _choose_kernel(self) -> None:
        points = np.concatenate([self.mixture, self.component])
        norms = (points**2).sum(axis=1)
        squared = np.maximum(norms[:, None] + norms - 2 * points @ points.T, 0.0)
        n, m = len(self.mixture), len(self.component)
        self._of_mixture = np.concatenate([np.full(n, 1 / n), np.zeros(m)])
        self._of_component = np.concatenate([np.zeros(n), np.full(m, 1 / m)])
        difference = self._of_mixture - self._of_component
        kernels = [np.exp(-squared / (2 * width**2)) for width in KERNEL_WIDTHS * np.sqrt(np.median(squared))]
        distances = [np.sqrt(max(difference @ kernel @ difference, 0.0)) for kernel in kernels]
        best = int(np.argmax(distances))
        self._kernel, self._apart = kernels[best], distances[best]

    def _distance(self, stretch: float) -> float:
        """Return the distance from the signed mixture to the nearest distribution on all points."""
        from cvxopt import matrix, solvers, spmatrix

        self.n_solves += 1
        u = stretch * self._of_mixture + (1 - stretch) * self._of_component
        n = u.size
        solution = solvers.qp(
            matrix(self._kernel),
            matrix(-self._kernel @ u),
            spmatrix(-1.0, range(n), range(n)),
            matrix(np.zeros(n)),
            matrix(np.ones((1, n))),
            matrix(1.0),
            options={"show_progress": False},
        )
        return float(np.sqrt(max(2 * solution["primal objective"] + u @ self._kernel @ u, 0.0)))
