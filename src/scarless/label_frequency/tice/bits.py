"""Subsets of rows as bits, laid out so that one count of bits per segment gives all sizes.

Rows are ordered by fold, labelled before unlabelled; each such segment fills whole 64-bit words, and all folds have
equally many. The part of a subset in one fold is then a slice of its words.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scarless.label_frequency.tice.codes import Integers

Words = NDArray[np.uint64]

WORD = 64
_BITS_OF_16 = np.array([i.bit_count() for i in range(1 << 16)], dtype=np.uint8)


@dataclass(frozen=True)
class RowBits:
    """Where every row has its bit.

    Examples
    --------
    >>> layout = RowBits.of(np.array([True, False, False, True]), np.array([0, 0, 1, 1]), 2)
    >>> layout.n_words, layout.position  # two folds, each with one word for labelled and one for unlabelled rows
    (4, array([  0,  64, 192, 128]))
    >>> layout.sizes(layout.bits(np.array([0, 1, 3]))[None])  # fold by fold: labelled, unlabelled rows
    array([[[1, 1],
            [1, 0]]])
    """

    position: Integers  # per row: which bit
    row: Integers  # per bit: which row; 0 where there is none
    segments: Integers  # first word of fold 0's labelled rows, of its unlabelled ones, of fold 1's labelled ones, ...
    fold_words: int

    @classmethod
    def of(cls, labelled: NDArray[np.bool_], folds: Integers, n_folds: int) -> "RowBits":
        """Lay out rows by fold and label."""
        kind = 2 * folds + ~labelled
        sizes = np.bincount(kind, minlength=2 * n_folds)
        words = np.maximum(1, -(-sizes.reshape(n_folds, 2).max(axis=0) // WORD))
        fold_words = int(words.sum())
        segments = (fold_words * np.arange(n_folds)[:, None] + [0, words[0]]).ravel()
        order = np.argsort(kind, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(order.size) + np.repeat(segments * WORD - np.cumsum(sizes) + sizes, sizes)
        row = np.zeros(n_folds * fold_words * WORD, dtype=np.intp)
        row[position] = np.arange(order.size)
        return cls(position, row, segments, fold_words)

    @property
    def n_words(self) -> int:
        """Number of words of one subset."""
        return self.row.size // WORD

    def bits(self, rows: Integers) -> Words:
        """Return the bits of a subset."""
        mask = np.zeros(self.row.size, dtype=np.bool_)
        mask[self.position[rows]] = True
        return np.packbits(mask, bitorder="little").view(np.uint64)

    def sizes(self, bits: Words) -> Integers:
        """Return labelled and unlabelled rows of subsets, fold by fold: subsets x folds x 2."""
        by_segment = np.add.reduceat(count_bits(bits), self.segments, axis=1, dtype=np.intp)
        return by_segment.reshape(bits.shape[0], -1, 2)

    def positions(self, bits: Words, folds: Integers, sizes: Integers) -> Integers:
        """Return the bits that are set in one fold of each subset, where `sizes` says how many there are.

        Most words and bytes of a small subset are empty, so the others are looked up first.
        """
        subsets = np.arange(folds.size)
        words = bits.reshape(folds.size, -1, self.fold_words)[subsets, folds].ravel()
        full_words = np.flatnonzero(words != 0)
        octets = words[full_words].view(np.uint8)
        full = np.flatnonzero(octets != 0)
        at = np.flatnonzero(np.unpackbits(octets[full], bitorder="little").view(np.bool_))
        octet = full[at >> 3]
        in_words = full_words[octet >> 3] * WORD + ((octet & 7) << 3) + (at & 7)
        return in_words + np.repeat((folds - subsets) * (WORD * self.fold_words), sizes)


def count_bits(words: Words) -> NDArray[np.uint8]:
    """Return the number of ones in every word.

    Examples
    --------
    >>> count_bits(np.array([0, 1, 7, 2**64 - 1], dtype=np.uint64))
    array([ 0,  1,  3, 64], dtype=uint8)
    """
    if hasattr(np, "bitwise_count"):  # NumPy 2
        return np.asarray(np.bitwise_count(words))
    return count_bits_by_table(words)


def count_bits_by_table(words: Words) -> NDArray[np.uint8]:
    """Count ones as :func:`count_bits` does, sixteen bits at a time.

    Examples
    --------
    >>> count_bits_by_table(np.array([0, 1, 7, 2**64 - 1], dtype=np.uint64))
    array([ 0,  1,  3, 64], dtype=uint8)
    """
    quarters = _BITS_OF_16.take(np.ascontiguousarray(words).view(np.uint16))
    return np.asarray(quarters.reshape(*words.shape, 4).sum(axis=-1, dtype=np.uint8))
