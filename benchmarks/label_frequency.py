"""Accuracy of the label-frequency estimators under SCAR, and their speed compared with simple implementations.

Data: the paper's eight datasets, from ../shared/data or the folder in the environment variable SCARLESS_DATA. Labels
are drawn completely at random. The methods see attributes and labels; the classes are used to measure the error only.
Time: about an hour on 2 cores. The part `accuracy` skips what was measured before.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks import records
from benchmarks.datasets import SOURCES, load
from benchmarks.interior_point import InteriorPointKM2
from benchmarks.plain_tice import plain_tice, range_codes
from benchmarks.runner import (
    Row,
    best_of,
    extra_memory,
    newest,
    print_rows,
    print_table,
    read_rows,
    record_table,
    run_parts,
    timed,
)
from scarless.label_frequency import DEDPUL, BestBinEstimator, ElkanNoto, KernelMean, TIcE
from scarless.label_frequency.held_out_scores import default_classifier, out_of_fold_scores
from scarless.label_frequency.kernel_mean import scale_by_range
from scarless.label_frequency.tice import cut_into_ranges
from scarless.numerics.order import canonical_order

NAME = "label_frequency"
FREQUENCIES = (0.3, 0.5, 0.7)
SEEDS = range(5)
MAX_ROWS = 4000
METHODS = ("Elkan-Noto e1", "Elkan-Noto e2", "Elkan-Noto e3", "DEDPUL", "best bin", "TIcE", "KM1", "KM2")


def estimators(seed: int, classifier: Any = None) -> dict[str, Any]:
    """Return all methods with their defaults; methods that use scores take another classifier if one is given."""
    made = (
        *(ElkanNoto(classifier, variant=variant, random_state=seed) for variant in ("e1", "e2", "e3")),
        DEDPUL(classifier, random_state=seed),
        BestBinEstimator(classifier, random_state=seed),
        TIcE(random_state=seed),
        *(KernelMean(variant, random_state=seed) for variant in ("km1", "km2")),
    )
    return dict(zip(METHODS, made, strict=True))


def scar_sample(name: str, c: float, seed: int, max_rows: int | None = MAX_ROWS) -> tuple[np.ndarray, ...]:
    """Return attributes, classes, and labels of positives that are drawn completely at random."""
    X, y, _ = load(name)
    rng = np.random.default_rng([seed, round(100 * c)])
    rows = rng.permutation(len(y))[: max_rows or len(y)]
    X, y = np.asarray(X[rows], dtype=np.float64), y[rows].astype(np.float64)
    return X, y, y * (rng.random(y.size) < c)


def accuracy(names: tuple[str, ...] = tuple(SOURCES)) -> Iterator[Row]:
    """Error of the class prior of every method under SCAR, on samples of the eight datasets.

    The five methods that use scores get the same out-of-fold scores of the default gradient boosting.
    """
    done = {(r["dataset"], r["method"], r["c"], r["seed"]) for r in read_rows(NAME) if r["part"] == "accuracy"}
    for name, c, seed in product(names, FREQUENCIES, SEEDS):
        missing = [method for method in METHODS if (name, method, c, seed) not in done]
        if not missing:
            continue
        X, y, s = scar_sample(name, c, seed)
        rng, w = np.random.default_rng(seed), np.ones(s.size)
        scores = out_of_fold_scores(default_classifier(X), "predict_proba", X, s, w, 5, rng)
        methods = estimators(seed, "precomputed")
        for method in missing:
            table = scores[:, None] if hasattr(methods[method], "estimator") else X
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Estimates at the edge of the possible range cause warnings.
                seconds, found = timed(lambda e=methods[method], table=table, s=s: e.fit(table, s))
            yield {
                "part": "accuracy",
                "dataset": name,
                "method": method,
                "c": c,
                "seed": seed,
                "true": float(y.mean()),
                "estimate": found.class_prior_,
                "seconds": seconds,
            }


def kernel_mean(names: tuple[str, ...] = ("mushroom",)) -> Iterator[Row]:
    """Time of KM2 compared with an interior-point solver of the original formulation, with 2,000 unlabelled rows."""
    for name in names:
        X, _, s = scar_sample(name, 0.5, 0, max_rows=None)
        n = int(np.searchsorted(np.cumsum(1 - s), 2000)) + 1
        X, s = X[:n], s[:n]
        share_and_seconds = partial(best_of, 3, lambda X=X, s=s: KernelMean(max_rows=len(s), random_state=0).fit(X, s))
        seconds, ours = share_and_seconds()
        scaled = scale_by_range(X, np.arange(len(s)))
        # The published precision of lambda is 0.04; 0.01 is fine enough to compare the estimates.
        for precision in (0.04, 0.01):
            slow = InteriorPointKM2(scaled[s == 0], scaled[s == 1], precision)
            slow_seconds, slow_share = timed(slow.share)
            # Our time is measured before and after the other solver's, in case other work slows the machine down.
            seconds = min(seconds, share_and_seconds()[0])
            yield {
                "part": "kernel_mean",
                "dataset": name,
                "rows": f"{int((s == 0).sum())}+{int(s.sum())}, lambda to {precision:g}",
                "ours": (ours.class_prior_ - s.mean()) / (1 - s.mean()),
                "interior_point": slow_share,
                "ours_seconds": seconds,
                "interior_point_seconds": slow_seconds,
                "solves": slow.n_solves,
                "ratio": slow_seconds / seconds,
            }


def kernel_mean_size() -> Iterator[Row]:
    """Time and memory of KM2 with 4,000 rows and 100 attributes, in a separate process."""
    command = [sys.executable, "-m", "benchmarks.label_frequency", "size-of-one-fit"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    yield {"part": "kernel_mean_size", "rows": "4000 x 100", "seconds": float(out[0]), "extra_mb": float(out[1])}


def size_of_one_fit() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.4
    X = rng.normal(size=(4000, 100))
    X[:, :10] += 1.2 * y[:, None]
    s = y & (rng.random(4000) < 0.5)
    # A first fit loads all modules, so that their memory does not count.
    KernelMean(random_state=0).fit(X[:200], s[:200])
    extra, (seconds, _) = extra_memory(lambda: timed(lambda: KernelMean(max_rows=4000, random_state=0).fit(X, s)))
    print(seconds, extra)


def tice(names: tuple[str, ...] = ("adult",)) -> Iterator[Row]:
    """Time of TIcE compared with a plain Python version with the same folds."""
    for name in names:
        X, y, s = scar_sample(name, 0.5, 0, max_rows=None)
        order = canonical_order(X, s)
        X, s = X[order], s[order]  # `TIcE.fit` also sorts the rows before it draws folds.
        seconds, ours = best_of(3, lambda X=X, s=s: TIcE(random_state=0).fit(X, s))
        folds = np.random.default_rng(0).permutation(s.size) % 5
        alone, _ = best_of(5, lambda X=X, s=s, f=folds: TIcE()._bounds(cut_into_ranges(X, 4), s, f))
        row = {
            "part": "tice",
            "dataset": name,
            "shape": list(X.shape),
            "true": float(s.sum() / y.sum()),
            "ours": ours.label_frequency_,
            "ours_seconds": seconds,
            "ours_seconds_without_checks_and_sorting": alone,
        }
        for kind, options in (("plain", {"forget_idle": False}), ("plain, tuned", {})):
            slow_seconds, slow = best_of(3, lambda o=options, X=X, s=s, f=folds: plain_tice(range_codes(X), s, f, **o))
            row |= {
                kind: float(np.mean(slow.bounds[-1])),
                f"{kind}, seconds": slow_seconds,
                f"{kind}, ratio": slow_seconds / seconds,
                f"{kind}, ratio without checks and sorting": slow_seconds / alone,
            }
        yield row


def together(names: tuple[str, ...] = ("adult",)) -> Iterator[Row]:
    """Time and class prior of every method on all rows of a dataset."""
    for name in names:
        X, y, s = scar_sample(name, 0.5, 0, max_rows=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times = {method: timed(lambda e=e, X=X, s=s: e.fit(X, s)) for method, e in estimators(0).items()}
        row: Row = {"part": "together", "dataset": name, "shape": list(X.shape)}
        for method, (seconds, found) in times.items():
            yield {**row, "method": method, "seconds": seconds, "estimate": found.class_prior_, "true": float(y.mean())}
        yield {**row, "method": "all methods", "seconds": sum(seconds for seconds, _ in times.values())}


PARTS = {
    "kernel_mean_size": kernel_mean_size,
    "together": together,
    "tice": tice,
    "kernel_mean": kernel_mean,
    "accuracy": accuracy,
}


def accuracy_lines(rows: list[Row]) -> Iterator[list[str]]:
    """Yield the mean absolute error of the class prior by dataset and by label frequency, and summaries."""
    error = {(r["dataset"], r["method"], r["c"], r["seed"]): r["estimate"] - r["true"] for r in rows}

    def errors(method: str, dataset: str | None = None, c: float | None = None) -> np.ndarray:
        return np.array(
            [v for k, v in error.items() if k[1] == method and dataset in (None, k[0]) and c in (None, k[2])]
        )

    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        prior = np.mean([r["true"] for r in rows if r["dataset"] == dataset])
        yield [dataset, f"{prior:.2f}", *(f"{np.abs(errors(method, dataset)).mean():.3f}" for method in METHODS)]
    for c in FREQUENCIES:
        yield [f"all, c = {c}", "", *(f"{np.abs(errors(method, c=c)).mean():.3f}" for method in METHODS)]
    summaries = {
        "all": lambda e: f"{np.abs(e).mean():.3f}",
        "standard deviation of the error": lambda e: f"{e.std():.3f}",
        "mean signed error": lambda e: f"{e.mean():+.3f}",
        "worst": lambda e: f"{np.abs(e).max():.3f}",
    }
    for head, text in summaries.items():
        yield [head, "", *(text(errors(method)) for method in METHODS)]


def table(record: bool) -> None:
    """Print what was measured so far, and record it if asked to."""
    rows = newest(NAME)
    others = [row for row in rows if row["part"] != "accuracy"]
    print_rows(others)
    heads = ["data", "Pr(y=1)", *METHODS]
    lines = list(accuracy_lines([row for row in rows if row["part"] == "accuracy"]))
    print_table(heads, lines)
    if record:
        record_table(NAME, "accuracy", heads, lines)
        for row in others:
            records.append_row(NAME, row)


def main(arguments: list[str]) -> None:
    if arguments == ["size-of-one-fit"]:  # The part `kernel_mean_size` starts this in a separate process.
        size_of_one_fit()
    else:
        run_parts(NAME, __doc__, PARTS, arguments, table=table)


if __name__ == "__main__":
    main(sys.argv[1:])
