"""Drawing labels from classes and propensities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scarless.checks.vectors import check_indicator, check_propensity
from scarless.labelling.base import LabellingMechanism
from scarless.labelling.streams import own_streams
from scarless.numerics.arrays import ArrayLike

_LABEL_STREAM = 0x6C61626C  # "labl": the spawn key of the label stream; a change changes every simulated label


def simulate_labels(y: ArrayLike, propensity: ArrayLike, *, random_state: Any = None) -> NDArray[np.int64]:
    r"""Draw one label per row: a positive is labelled with its propensity, a negative never.

    .. math:: s_i = y_i \, [u_i < e_i], \qquad u_i \sim U[0, 1)

    Right when labels are drawn independently, row by row, given class and propensity. Every row uses one
    random number whatever its class, so that a row's luck depends on the seed and its place only. With one
    seed, no label is lost as propensities grow.

    Parameters
    ----------
    y : array of shape (n_rows,)
        The true classes, coded 0/1, -1/+1 or boolean.
    propensity : float or array of shape (n_rows,)
        ``Pr(s=1|y=1,x)`` of each row, in (0, 1]; from a mechanism, ``mechanism.propensity(X)``.
    random_state : int, SeedSequence, Generator, RandomState or None
        An integer or a ``SeedSequence`` seeds a stream of the labels' own, and gives the same labels on every
        platform. A ``Generator`` is used, and moved on, as it is.

    Returns
    -------
    s : array of int, shape (n_rows,)
        1 for labelled rows, 0 for the others.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> simulate_labels([1, 1, 0, 0], 1.0, random_state=0)
    array([1, 1, 0, 0])
    """
    positive = check_indicator(y, "y") == 1.0
    if isinstance(propensity, LabellingMechanism):
        raise ValueError(
            f"propensity is the mechanism {type(propensity).__name__}; give its values, mechanism.propensity(X)."
        )
    e = check_propensity(propensity, n_rows=positive.size)
    u = own_streams(random_state, [(_LABEL_STREAM,)])[0].random(positive.size)
    return (positive & (u < e)).astype(np.int64)
