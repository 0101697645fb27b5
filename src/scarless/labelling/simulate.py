"""Drawing labels from classes and propensities.

A seed for the labels is a seed of their own stream: it goes through a spawn key that only this module uses,
so that ``random_state=0`` here and ``default_rng(0)`` where the attributes were drawn share no random
numbers.
"""

from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, RandomState, SeedSequence
from numpy.typing import NDArray

from scarless.checks.vectors import bad_seed, check_indicator, check_propensity, check_random_stream
from scarless.labelling.base import LabellingMechanism
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
    u = _label_generator(random_state).random(positive.size)
    return (positive & (u < e)).astype(np.int64)


def _label_generator(random_state: Any) -> Generator:
    if isinstance(random_state, Generator | BitGenerator | RandomState):
        return check_random_stream(random_state)
    seed = _as_seed(random_state)
    return Generator(np.random.PCG64(_with_key(seed, (*seed.spawn_key, _LABEL_STREAM))))


def _as_seed(random_state: Any) -> SeedSequence:
    if isinstance(random_state, SeedSequence):
        return random_state
    if isinstance(random_state, bool):
        raise ValueError(bad_seed(random_state))
    try:
        return SeedSequence(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(bad_seed(random_state)) from error


def _with_key(seed: SeedSequence, spawn_key: tuple[int, ...]) -> SeedSequence:
    """Return a new sequence, so that the user's own one is left as it was."""
    return SeedSequence(seed.entropy, spawn_key=spawn_key, pool_size=seed.pool_size)
