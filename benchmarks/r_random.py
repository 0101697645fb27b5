"""The random numbers that R draws after ``set.seed``: uniform ones and coin tosses, without R.

Books print estimates from data that they simulate in R; with R's own stream the data come out again. Only what
those examples need: the Mersenne Twister, which is R's default, and ``rbinom`` with one trial.
"""

from __future__ import annotations

import numpy as np

N_SCRAMBLES = 50  # before R fills the state of a generator, it turns the seed this often
N_WORDS = 624


class RStream:
    """R's default generator after ``set.seed(seed)``.

    R spreads the seed over the state with the congruential generator ``x -> 69069 x + 1`` (mod 2^32). The first
    word after the scrambling is the place in the state, which R then sets to its end.

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
        """``runif(1)``: 32 bits. (R moves an exact 0 into the interval, which one draw in 2^32 would need.)"""
        return int(self._twister.random_raw()) / 2**32

    def coins(self, n: int, chance: float) -> np.ndarray:
        """``rbinom(n, 1, chance)``, by inversion of the rarer side; a sure thing costs no random number."""
        if chance in (0.0, 1.0):
            return np.full(n, int(chance))
        u = np.array([self.uniform() for _ in range(n)])
        return (u < chance if chance > 0.5 else u >= 1.0 - chance).astype(int)
