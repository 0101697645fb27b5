"""Time of TIcE in plain Python, compared with the class TIcE, on Adult.

Data: Adult, from ../shared/data or the folder in the environment variable SCARLESS_DATA.
Time: about two minutes.

The tests also use this implementation, as an independent reference. A set of rows is an integer with one bit for each
row. Each node tries all its attributes and all their ranges, with an AND and a bit count for all rows and for the
labelled rows. Ranges without rows are dropped, and an attribute that can no longer split is not tried again.
"""

from __future__ import annotations

import heapq
import math
import sys
import time
from typing import NamedTuple

import numpy as np


class PlainResult(NamedTuple):
    """Best lower bounds and numbers of splits, by iteration and fold."""

    bounds: list[list[float]]
    n_splits: list[list[int]]


class PlainOptions(NamedTuple):
    """Options of ``TIcE``, and `forget_idle`, which `plain_tice` explains."""

    max_splits: int = 500
    min_rows: int = 10
    max_bepp: float = 5
    delta: float | None = None
    forget_idle: bool = True


def bit_set(mask: np.ndarray) -> int:
    """Return an integer whose bits mark the rows where the mask is true."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def range_codes(X: np.ndarray, n_ranges: int = 4) -> np.ndarray:
    """Return the number of the range in which each value lies; columns are scaled to [0, 1]."""
    low, high = X.min(axis=0), X.max(axis=0)
    scaled = (X - low) / np.where(high > low, high - low, 1.0)
    return np.minimum(np.floor(scaled * n_ranges), n_ranges - 1).astype(np.uint8)


def plain_tice(
    codes: np.ndarray, s: np.ndarray, folds: np.ndarray, *, n_iterations: int = 2, **options: float | bool | None
) -> PlainResult:
    """Return lower bounds on the label frequency, by iteration and fold; `options` are those of `PlainOptions`.

    If all rows of a node lie in one range of an attribute, this attribute cannot split any node below. It is then not
    tried again. With ``forget_idle=False`` it is tried again, as in the published description. The result is the
    same, and takes three times as long.
    """
    chosen = PlainOptions(**options)
    labelled = bit_set(s == 1)
    ranges = [[bit_set(column == k) for k in np.unique(column)] for column in codes.T]
    parts = [(bit_set(folds == fold), bit_set(folds != fold)) for fold in range(int(folds.max()) + 1)]
    bounds, n_splits, c_prior = [], [], 0.5
    for _ in range(n_iterations):
        found = [best_bound(ranges, labelled, tree, others, c_prior, chosen) for tree, others in parts]
        bounds.append([bound for bound, _ in found])
        n_splits.append([count for _, count in found])
        c_prior = float(np.mean(bounds[-1]))
    return PlainResult(bounds, n_splits)


def best_bound(
    ranges: list[list[int]], labelled: int, tree: int, others: int, c_prior: float, options: PlainOptions
) -> tuple[float, int]:
    """Grow a tree on one part of the rows; return its best bound on the other part, and its number of splits."""
    n_tree, n_others, n_labelled = tree.bit_count(), others.bit_count(), (tree & labelled).bit_count()
    delta = max(0.025, 1 / (1 + 0.004 * n_others)) if options.delta is None else options.delta
    odds = (1 - delta) / delta
    variance = c_prior * (1 - c_prior) * odds
    label_worth = (1 - n_labelled / n_tree) ** 2 * (n_others / n_tree)

    best = (others & labelled).bit_count() / n_others
    n_splits = n_queued = 0
    queue = []
    if options.min_rows < n_tree and 0 < n_labelled < n_tree and n_others >= options.min_rows:
        queue.append((0.0, 0, 0, tree, others, list(range(len(ranges)))))
    while queue and n_splits < options.max_splits:
        _, _, _, tree, others, attributes = heapq.heappop(queue)
        if not (others & labelled).bit_count() * (1 - best) ** 2 > variance:
            continue
        chosen, left = best_attribute(ranges, labelled, tree, attributes, (label_worth, 0.25 * odds), options)
        if chosen is None:
            continue
        n_splits += 1
        for members in ranges[chosen]:
            subset, held_out = tree & members, others & members
            T, L = subset.bit_count(), (subset & labelled).bit_count()
            T_out, L_out = held_out.bit_count(), (held_out & labelled).bit_count()
            if T_out >= options.min_rows:
                best = max(best, L_out / T_out - math.sqrt(variance / T_out))
            may_be_cut = 0 < L < T and options.min_rows < T and options.min_rows <= T_out
            if may_be_cut and L_out * (1 - best) ** 2 > variance:
                n_queued += 1
                heapq.heappush(queue, (math.sqrt(variance / T) - L / T, -L, n_queued, subset, held_out, left))
    return best, n_splits


def best_attribute(
    ranges: list[list[int]],
    labelled: int,
    tree: int,
    attributes: list[int],
    worth_and_need: tuple[float, float],
    options: PlainOptions,
) -> tuple[int | None, list[int]]:
    """Return the attribute with the highest max-bepp score, and the attributes that nodes below may still use."""
    worth, need = worth_and_need
    n_rows = tree.bit_count()
    top, chosen, left = -1.0, None, []
    for attribute in attributes:
        score, most_rows, most_labelled = 0.0, 0, 0
        for members in ranges[attribute]:
            subset = tree & members
            T = subset.bit_count()
            L = (subset & labelled).bit_count()
            score = max(score, L / (T + options.max_bepp))
            most_rows, most_labelled = max(most_rows, T), max(most_labelled, L)
        if most_labelled * worth <= need:
            continue
        if most_rows < n_rows or not options.forget_idle:
            left.append(attribute)
        if most_rows < n_rows and score > top:
            top, chosen = score, attribute
    return chosen, [attribute for attribute in left if attribute != chosen]


def main(arguments: list[str]) -> None:
    from benchmarks import records
    from benchmarks.datasets import load
    from benchmarks.runner import add_record_option, command_parser
    from scarless.label_frequency.tice import TIcE, cut_into_ranges

    parser = command_parser("plain_tice", __doc__)
    parser.add_argument(
        "repeats", nargs="?", type=int, default=3, help="number of runs; the shortest time is reported (default: 3)"
    )
    add_record_option(parser)
    options = parser.parse_args(arguments)
    X, y, _ = load("adult")
    rng = np.random.default_rng(0)
    s = (y * (rng.random(y.size) < 0.5)).astype(np.float64)
    folds = rng.permutation(y.size) % 5
    runs = {
        "plain": lambda: np.array(plain_tice(range_codes(X), s, folds).bounds),
        "plain, idle attributes tried again": lambda: np.array(
            plain_tice(range_codes(X), s, folds, forget_idle=False).bounds
        ),
        "scarless, algorithm only": lambda: np.array(
            [[fold.bound for fold in found] for found in TIcE()._bounds(cut_into_ranges(X, 4), s, folds)]
        ),
        "scarless, TIcE.fit": lambda: TIcE(random_state=0).fit(X, s).fold_estimates_,
    }
    for run in runs.values():
        run()
    print(
        f"Adult, {X.shape[0]} x {X.shape[1]}, {s.sum():.0f} labelled; best of {options.repeats}, wall and CPU seconds"
    )
    cpu_seconds = {}
    for name, run in runs.items():
        times = []
        for _ in range(options.repeats if name.startswith("plain") else 5 * options.repeats):
            start = time.perf_counter(), time.process_time()
            bounds = run()
            times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        wall, cpu_seconds[name] = np.min(times, axis=0)
        print(f"{name:36s} {wall:8.3f} {cpu_seconds[name]:8.3f}   estimate {bounds[-1].mean():.6f}")
    if options.record:
        plain, _, algorithm, fit = map(float, cpu_seconds.values())
        values = {"plain_seconds": plain, "fit_seconds": fit, "fit_ratio": plain / fit}
        values |= {"algorithm_seconds": algorithm, "algorithm_ratio": plain / algorithm}
        records.append("plain_tice", "tice", "adult", values)


if __name__ == "__main__":
    main(sys.argv[1:])
