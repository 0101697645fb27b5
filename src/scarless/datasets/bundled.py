"""Datasets that need no download: two that come with scikit-learn, and one that is drawn."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.checks.options import check_whole
from scarless.checks.vectors import check_random_stream
from scarless.datasets.encoding import scale_to_range
from scarless.datasets.pu_data import Provenance, PUData
from scarless.numerics.arrays import Vector

_SIMULATED_STREAM = 0x73696D75  # "simu": so that seed 0 here and default_rng(0) elsewhere share no random numbers


def load_bundled_breast_cancer() -> PUData:
    """Load the breast cancer table that comes with scikit-learn: 569 rows, 30 attributes; positive: malignant.

    This is Wisconsin *Diagnostic*, measured on images of cell nuclei: a different dataset from the paper's Wisconsin
    *Original*, which `load_breast_cancer` loads. Every attribute is scaled to [-1, 1].

    References
    ----------
    Wolberg, W., Mangasarian, O., Street, N. and Street, W. (1993). Breast Cancer Wisconsin (Diagnostic). UCI Machine
    Learning Repository. doi:10.24432/C5DW2B

    Examples
    --------
    >>> load_bundled_breast_cancer()
    PUData('bundled_breast_cancer', 569 rows x 30 attributes, Pr(y=1) = 0.373)
    """
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415

    bunch = load_breast_cancer()
    provenance = Provenance(
        title="Breast Cancer Wisconsin (Diagnostic)",
        source="comes with scikit-learn: sklearn.datasets.load_breast_cancer",
        licence="CC BY 4.0",
        citation="Wolberg, W., Mangasarian, O., Street, N. and Street, W. (1993). Breast Cancer Wisconsin "
        "(Diagnostic). UCI Machine Learning Repository. doi:10.24432/C5DW2B",
    )
    malignant = bunch.target == list(bunch.target_names).index("malignant")
    return _scaled(bunch.data, malignant, bunch.feature_names, "bundled_breast_cancer", provenance)


def load_bundled_digits() -> PUData:
    """Load the handwritten digits that come with scikit-learn: 1,797 rows, 61 attributes; positive: even digits.

    Pixels that are blank in every image are dropped. Every attribute is scaled to [-1, 1].

    References
    ----------
    Alpaydin, E. and Kaynak, C. (1998). Optical Recognition of Handwritten Digits. UCI Machine Learning Repository.
    doi:10.24432/C50P49

    Examples
    --------
    >>> load_bundled_digits()
    PUData('bundled_digits', 1,797 rows x 61 attributes, Pr(y=1) = 0.496)
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415

    bunch = load_digits()
    varies = np.ptp(bunch.data, axis=0) > 0
    provenance = Provenance(
        title="Optical Recognition of Handwritten Digits, test part",
        source="comes with scikit-learn: sklearn.datasets.load_digits",
        licence="CC BY 4.0",
        citation="Alpaydin, E. and Kaynak, C. (1998). Optical Recognition of Handwritten Digits. UCI Machine Learning "
        "Repository. doi:10.24432/C50P49",
    )
    names = np.asarray(bunch.feature_names)[varies]
    return _scaled(bunch.data[:, varies], bunch.target % 2 == 0, names, "bundled_digits", provenance)


def load_simulated(n_rows: int = 2000, n_attributes: int = 10, *, random_state: Any = 0) -> PUData:
    r"""Draw a dataset whose true class is logistic in its attributes.

    .. math:: \Pr(y=1 \mid x) = \frac{1}{1 + \exp\bigl(-\sum_{j=0}^{d-1} b_j x_j\bigr)}, \qquad
              b_j = \frac{6 (-1)^j}{1 + j}

    Attributes are drawn uniformly and scaled to [-1, 1] before the class is drawn, so the formula holds for `X` as it
    is returned.

    Parameters
    ----------
    n_rows : int, default=2000
        Number of rows, at least 2.
    n_attributes : int, default=10
        Number of attributes, at least 1.
    random_state : int, Generator, RandomState or None, default=0
        Seed or stream of random numbers.

    Returns
    -------
    PUData
        Attributes named ``x0``, ``x1``, ..., and the class.

    Examples
    --------
    >>> load_simulated(100, 3)
    PUData('simulated', 100 rows x 3 attributes, Pr(y=1) = 0.560)
    """
    n = check_whole(n_rows, "n_rows", at_least=2)
    d = check_whole(n_attributes, "n_attributes", at_least=1)
    rng = _stream(random_state)
    names = [f"x{j}" for j in range(d)]
    X = scale_to_range(rng.uniform(-1.0, 1.0, size=(n, d)), names)
    j = np.arange(d)
    logit = X @ (6.0 * (-1.0) ** j / (1.0 + j))
    y = rng.logistic(size=n) < logit
    provenance = Provenance(
        title="Simulated logistic classes",
        source=f"drawn by scarless.datasets.load_simulated({n}, {d}, random_state={random_state!r})",
        licence="none needed",
    )
    return PUData(X, y.astype(np.int64), tuple(names), "simulated", provenance)


def _stream(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return np.random.default_rng(np.random.SeedSequence(int(random_state), spawn_key=(_SIMULATED_STREAM,)))
    return check_random_stream(random_state)


def _scaled(X: Vector, positive: NDArray[np.bool_], names: Sequence[str], name: str, provenance: Provenance) -> PUData:
    names = tuple(str(attribute) for attribute in names)
    return PUData(scale_to_range(X, names), positive.astype(np.int64), names, name, provenance)


BUNDLED: dict[str, Callable[[], PUData]] = {
    "bundled_breast_cancer": load_bundled_breast_cancer,
    "bundled_digits": load_bundled_digits,
    "simulated": load_simulated,
}
