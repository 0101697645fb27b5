"""Random numbers as R draws them after ``set.seed``: uniform numbers and coin tosses.

Books print estimates from data that they simulate in R. With R's random numbers the same data are drawn here. Only
two parts are implemented, because these examples need no others: the Mersenne Twister, which is R's default, and
``rbinom`` with one trial.
"""

from __future__ import annotations

import numpy as np

N_SCRAMBLES = 50  # steps by which R scrambles the seed before it fills the state
N_WORDS = 624


class RStream:
    """R's default generator after ``set.seed(seed)``.

    R fills the state with the congruential generator ``x -> 69069 x + 1`` (mod 2^32). The first word after the
    scrambling is the position in the state, which R then sets to the end.

    Examples
    --------
    >>> [round(RStream(1).uniform(), 7), RStream(1).coins(4, 0.6).tolist()]
    [0.2655087, [1, 1, 1, 0]]
    """

    def __init__(self, seed: int) -> None:
        words = []
        for _ in range(N_SCRAMBLES + 1 + N_WORDS):
            seed = (69069 * seed + 1) % 2**32
            words.append(seed)
        key = np.array(words[N_SCRAMBLES + 1 :], dtype=np.uint32)
        self._twister = np.random.MT19937()
        self._twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": N_WORDS}}

    def uniform(self) -> float:
        """Return ``runif(1)``, with 32 bits. An exact 0, one draw in 2^32, is not moved into the interval as in R."""
        return int(self._twister.random_raw()) / 2**32

    def coins(self, n: int, probability: float) -> np.ndarray:
        """Return ``rbinom(n, 1, probability)``, which draws no random number for a probability of 0 or 1."""
        if probability in (0.0, 1.0):
            return np.full(n, int(probability))
        u = np.array([self.uniform() for _ in range(n)])
        return (u < probability if probability > 0.5 else u >= 1.0 - probability).astype(int)
