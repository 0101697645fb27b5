"""Random streams of the labels' own.

A seed for labels goes through a spawn key that nobody else uses, so that ``random_state=0`` here and
``default_rng(0)`` where the attributes were drawn share no random numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import BitGenerator, Generator, RandomState, SeedSequence

from scarless.checks.vectors import bad_seed, check_random_stream


def own_streams(random_state: Any, keys: Sequence[tuple[int, ...]]) -> list[Generator]:
    """Return one generator for each spawn key.

    A seed gives streams that share nothing, so that none depends on how much was drawn from another. A generator of
    the user's is used, and moved on, as it is: the same one for every key.

    Examples
    --------
    >>> one, other = own_streams(0, [(1,), (2,)])
    >>> one is other, own_streams(0, [(1,)])[0].random() == one.random()
    (False, True)
    """
    if isinstance(random_state, Generator | BitGenerator | RandomState):
        return [check_random_stream(random_state)] * len(keys)
    seed = _as_seed(random_state)
    return [Generator(np.random.PCG64(_with_key(seed, (*seed.spawn_key, *key)))) for key in keys]


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
