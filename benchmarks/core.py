"""Speed, memory and accuracy, mostly of SAREMClassifier, and the growth of its time with the number of rows.

Data: the eight datasets of the paper by Bekker, Robberechts and Davis (2019), from ../shared/data or the folder in the
environment variable SCARLESS_DATA, with the paper's labelling protocol; and simulated tables.
Time: about 40 minutes on 2 cores; the part `speed` takes most of it, because it runs the paper's slow algorithm.

Compare ratios rather than seconds, because both sides of a ratio are measured in the same run.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from benchmarks.datasets import SOURCES, PaperSetting, paper_setting
from benchmarks.paper_em import fit_liblinear, paper_em, penalised_objective
from benchmarks.runner import Row, best_of, extra_memory, read_rows, resident, run_parts, timed
from scarless import PropensityWeightedClassifier, SAREMClassifier, SAREMClassifierCV
from scarless.diagnostics import bootstrap_intervals
from scarless.engines import InMemoryEngine
from scarless.labelling import LogisticSAR, simulate_labels
from scarless.numerics.linear import Design
from scarless.pair.learners import LogisticLearner, em

# Two fits have reached the same optimum if their penalised log-likelihoods per row differ by less than this.
SAME_OPTIMUM_GAP = 1e-6


def objective(data: PaperSetting, f: np.ndarray, e: np.ndarray) -> float:
    """Return the penalised objective at C = 1; the parameters are the coefficients, then the intercept."""
    X_e = data.X_train[:, data.propensity_columns]
    return penalised_objective(data.X_train, X_e, data.s_train, f[:-1], f[-1], e[:-1], e[-1], 1.0, 1.0)


def fit_ours(data: PaperSetting) -> SAREMClassifier:
    return SAREMClassifier(propensity_attributes=data.propensity_columns).fit(data.X_train, data.s_train)


def parameters(model: SAREMClassifier, data: PaperSetting) -> tuple[np.ndarray, np.ndarray]:
    f = np.append(model.coef_[0], model.intercept_)
    return f, np.append(model.propensity_coef_[0, data.propensity_columns], model.propensity_intercept_)


def exact_em(data: PaperSetting, optimum: float, *, gap: float, max_iter: int) -> tuple[int, float]:
    """Return how many EM iterations bring the objective within `gap` per row of the optimum, and the last gap.

    The M-steps are solved exactly, from warm starts and without a penalty on the intercept. liblinear's M-steps, which
    penalise the intercept, would converge to a slightly different optimum.
    """
    f, e = LogisticLearner(C=1.0), LogisticLearner(C=1.0)
    n = data.s_train.size
    gaps: list[float] = []

    class Reached(Exception):
        pass

    def check_gap(step: Any) -> None:
        gaps.append((objective(data, f.beta, e.beta) - optimum) / n)
        if gaps[-1] < gap:
            raise Reached

    X_e = np.ascontiguousarray(data.X_train[:, data.propensity_columns])
    s = data.s_train.astype(float)
    no_stopping_rule = {"tol": -np.inf, "slope_tol": -np.inf, "window": 10, "max_iter": max_iter}
    with contextlib.suppress(Reached):
        em(data.X_train, X_e, s, np.ones(n), f, e, progress=check_gap, **no_stopping_rule)
    return len(gaps), gaps[-1]


def speed(names: tuple[str, ...] = ("splice", "adult", "covtype")) -> Iterator[Row]:
    """Time of the paper's EM and of `SAREMClassifier` until both reach the same penalised log-likelihood."""
    for name in names:
        for coding in ("-1/+1", "0/1"):
            data = recoded(paper_setting(name), coding)
            seconds, model = best_of(3, lambda data=data: fit_ours(data))
            optimum = objective(data, *parameters(model, data))
            needed, gap = iterations_of_earlier_run(name, coding) or exact_em(
                data, optimum, gap=SAME_OPTIMUM_GAP, max_iter=3000
            )
            X_e = np.ascontiguousarray(data.X_train[:, data.propensity_columns])
            timed_iterations = needed if name == "splice" else 10
            slow = paper_em(data.X_train, X_e, data.s_train, max_iter=timed_iterations, stop=False)
            per_iteration = float(np.mean(slow.iteration_seconds[1:]))
            total = slow.iteration_seconds[0] + needed * per_iteration
            yield {
                "part": "speed",
                "dataset": name,
                "coding": coding,
                "shape": list(data.X_train.shape),
                "ours_seconds": seconds,
                "em_iterations_needed": needed,
                "em_gap_reached": gap,
                "em_iterations_timed": timed_iterations,
                "em_seconds_per_iteration": per_iteration,
                "em_seconds": total,
                "ratio": total / seconds,
            }


def iterations_of_earlier_run(name: str, coding: str) -> tuple[int, float] | None:
    """Return the number of EM iterations that an earlier run counted. The number does not depend on the machine."""
    found = [
        row
        for row in read_rows("core")
        if (row["part"], row.get("dataset"), row.get("coding")) == ("speed", name, coding)
    ]
    return (found[-1]["em_iterations_needed"], found[-1]["em_gap_reached"]) if found else None


def recoded(data: PaperSetting, coding: str) -> PaperSetting:
    """Return the data with attributes in [0, 1] instead of the paper's [-1, 1] if the coding is "0/1"."""
    if coding == "0/1":
        data.X_train[...] = (data.X_train + 1.0) / 2.0
    return data


def supervised() -> Iterator[Row]:
    """Time of `SAREMClassifier`, divided by that of supervised logistic regression on the same X (faster solver)."""
    for name, X, y, s, columns in supervised_tables():
        models: dict[str, tuple[Any, Any]] = {
            "ours": (SAREMClassifier(propensity_attributes=columns), s),
            "newton-cholesky": (LogisticRegression(solver="newton-cholesky", max_iter=1000), y),
            "lbfgs": (LogisticRegression(solver="lbfgs", max_iter=1000), y),
        }
        seconds = dict.fromkeys(models, np.inf)
        # Each repetition fits all models, so that other work on the machine affects all of them equally.
        for _ in range(3):
            for label, (model, labels) in models.items():
                once, _ = timed(lambda model=model, X=X, labels=labels: model.fit(X, labels))
                seconds[label] = min(seconds[label], once)
        ours = seconds.pop("ours")
        fastest = min(seconds, key=lambda solver: seconds[solver])
        yield {
            "part": "supervised",
            "dataset": name,
            "shape": list(X.shape),
            "ours_seconds": ours,
            "n_iter": models["ours"][0].n_iter_,
            "passes": passes(SAREMClassifier(propensity_attributes=columns), X, s),
            "logistic_seconds": seconds,
            "fastest": fastest,
            "ratio": ours / seconds[fastest],
        }


def supervised_tables() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray, Any]]:
    """Yield name, X, true classes, labels and propensity attributes of Cover Type and of two simulated tables."""
    data = paper_setting("covtype")
    halves = ((data.X_train, data.X_test), (data.y_train, data.y_test), (data.s_train, data.s_test))
    yield ("covtype", *(np.concatenate(half) for half in halves), data.propensity_columns)
    for n, d in ((400_000, 50), (1_000_000, 30)):
        X, s, truth = simulated(n, d=d, seed=0)
        yield f"simulated {n:,} x {d}", X, truth["y"], s, [0, 1]


def passes(model: SAREMClassifier, X: np.ndarray, s: np.ndarray) -> float:
    """Return the number of passes of a fit: how often it multiplies the whole table by vectors of coefficients.

    A pass over some of the rows counts by its share of rows. Checks of the values, and sums over labels and weights
    alone, do not count.
    """
    rows, multiplied = [], Event()
    map_blocks, take = InMemoryEngine._map, Design.take

    def count_rows(self: InMemoryEngine, *arguments: Any) -> Iterator[Any]:
        multiplied.clear()
        yield from map_blocks(self, *arguments)
        if multiplied.is_set():
            rows.append(self.n_rows)

    def note_product(self: Design, block: Any) -> Any:
        multiplied.set()
        return take(self, block)

    with patch.object(InMemoryEngine, "_map", count_rows), patch.object(Design, "take", note_product):
        model.fit(X, s)
    return sum(rows) / X.shape[0]


def memory() -> Iterator[Row]:
    """Peak memory of a fit in addition to X, measured in a separate process."""
    data = paper_setting("covtype")
    with TemporaryDirectory() as folder:
        for dtype in ("float64", "float32"):
            path = Path(folder) / f"{dtype}.npz"
            np.savez(path, X=data.X_train.astype(dtype), s=data.s_train, columns=data.propensity_columns)
            command = [sys.executable, "-m", "benchmarks.core", "memory-of-one-fit", str(path)]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            yield {"part": "memory", "dataset": "covtype", "dtype": dtype, **json.loads(out)}


def memory_of_one_fit(path: str) -> None:
    """Print by how much one fit raises the peak of resident memory (Linux)."""
    stored = np.load(path)
    X, s, columns = stored["X"], stored["s"], stored["columns"]
    # A first fit loads all modules, so that their memory does not count.
    SAREMClassifier(propensity_attributes=columns).fit(X[:5000], s[:5000])
    extra, model = extra_memory(lambda: SAREMClassifier(propensity_attributes=columns).fit(X, s))
    print(json.dumps({"X_mb": X.nbytes / 1e6, "extra_mb": extra, "n_iter": model.n_iter_}))


def memory_map() -> Iterator[Row]:
    """Peak memory of a fit, a search and a bootstrap, in addition to a memory map of 32 MB."""
    for what in MAPPED:
        command = [sys.executable, "-m", "benchmarks.core", "memory-beside-map", what]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        yield {"part": "memory_map", "what": what, **json.loads(out)}


MAPPED: dict[str, Callable[..., Any]] = {
    "fit": lambda X, s: SAREMClassifier(propensity_attributes=[1]).fit(X, s),
    "search": lambda X, s: SAREMClassifierCV(propensity_attributes=[1], Cs=[0.1, 1.0, 10.0], random_state=0).fit(X, s),
    "bootstrap": lambda X, s: bootstrap_intervals(
        SAREMClassifier(propensity_attributes=[1]).fit(X, s), X, s, n_resamples=20, random_state=0
    ),
}


def memory_beside_map(what: str) -> None:
    """Print by how much one call on a memory map raises the peak of anonymous memory (Linux)."""
    n, d = 200_000, 20
    with TemporaryDirectory() as folder:
        path = Path(folder) / "X"
        np.memmap(path, dtype=float, mode="w+", shape=(n, d))[:] = np.random.default_rng(0).normal(size=(n, d))
        X = np.memmap(path, dtype=float, mode="r", shape=(n, d))
        label_probability = expit(2 * np.asarray(X[:, 0])) * expit(1 + np.asarray(X[:, 1]))
        s = (np.random.default_rng(1).random(n) < label_probability).astype(np.int8)
        del label_probability
        # A first call loads all modules, so that their memory does not count.
        MAPPED[what](np.asarray(X[:2000]), s[:2000])
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        before, peak, done = resident("RssAnon"), [0.0], Event()

        def watch() -> None:
            while not done.wait(0.001):
                peak[0] = max(peak[0], resident("RssAnon"))

        watcher = Thread(target=watch)
        watcher.start()
        MAPPED[what](X, s)
        done.set()
        watcher.join()
    print(json.dumps({"X_mb": X.nbytes / 1e6, "extra_mb": peak[0] - before}))


def growth() -> Iterator[Row]:
    """Time of a fit for 10,000 to 1,000,000 rows with 54 attributes."""
    sizes = [10_000, 31_623, 100_000, 316_228, 1_000_000]
    X, s, _ = simulated(max(sizes), d=54, seed=0)
    seconds = []
    for n in sizes:
        model = SAREMClassifier(propensity_attributes=[0, 1])
        best, fitted = best_of(5 if n < 200_000 else 3, lambda n=n, model=model: model.fit(X[:n], s[:n]))
        seconds.append(best)
        yield {"part": "growth", "rows": n, "seconds": best, "n_iter": fitted.n_iter_}
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    yield {"part": "growth", "exponent": slope}


def simulated(n: int, *, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return attributes, labels, and the true class probabilities, classes and propensities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    coefficients = rng.normal(size=d) * np.sqrt(4.0 / d)
    f = expit(X @ coefficients - 0.5)
    y = rng.random(n) < f
    e = LogisticSAR([0, 1], [2.0, -2.0], low=0.2, high=0.8).propensity(X)
    return X, simulate_labels(y, e, random_state=seed), {"f": f, "y": y, "e": e}


def known_propensity(n_seeds: int = 10) -> Iterator[Row]:
    """Error with known propensities: convex risk, likelihood, and weighted copies, some of which liblinear drops."""
    errors = {"convex": [], "likelihood": [], "dropped": []}
    for seed in range(n_seeds):
        X, s, truth = simulated(20_000, d=10, seed=seed)
        for name, method in (("convex", "risk"), ("likelihood", "likelihood")):
            model = PropensityWeightedClassifier(method=method).fit(X, s, propensity=truth["e"])
            errors[name].append(np.mean((model.predict_proba(X)[:, 1] - truth["f"]) ** 2))
        errors["dropped"].append(np.mean((dropped_rows(X, s, truth["e"], X) - truth["f"]) ** 2))
    means = {name: float(np.mean(values)) for name, values in errors.items()}
    yield {"part": "known_propensity", "seeds": n_seeds, **means, "ratio": means["dropped"] / means["convex"]}


def dropped_rows(X: np.ndarray, s: np.ndarray, e: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """Fit the paper's weighted copies with liblinear, which drops rows of negative weight, and predict."""
    X2, label = np.vstack([X, X]), np.repeat([1, 0], s.size)
    coef, intercept = fit_liblinear(X2, label, np.concatenate([s / e, 1.0 - s / e]), 1.0)
    return np.asarray(expit(X_test @ coef + intercept))


def refit(names: tuple[str, ...] = ("breastcancer", "imagesegmentation", "splice", "mushroom")) -> Iterator[Row]:
    """Test error without a final refit, with a convex refit, and with a refit that drops rows of negative weight."""
    for name in names:
        errors: dict[str, list[float]] = {"without": [], "convex": [], "dropped": []}
        for seed in range(10):
            data = paper_setting(name, seed=seed)
            pair = SAREMClassifier(propensity_attributes=data.propensity_columns).fit(data.X_train, data.s_train)
            e = pair.predict_propensity(data.X_train)
            again = PropensityWeightedClassifier().fit(data.X_train, data.s_train, propensity=e)
            for key, model in (("without", pair), ("convex", again)):
                p = model.predict_proba(data.X_test)[:, 1]
                errors[key].append(np.mean((p - data.y_test) ** 2))
            errors["dropped"].append(
                np.mean((dropped_rows(data.X_train, data.s_train, e, data.X_test) - data.y_test) ** 2)
            )
        yield {"part": "refit", "dataset": name, "seeds": 10, **{key: float(np.mean(v)) for key, v in errors.items()}}


def agreement() -> Iterator[Row]:
    """Iterations of Newton's method and of EM until both reach the same optimum, on all eight datasets."""
    for name in SOURCES:
        data = paper_setting(name)
        seconds, model = timed(lambda data=data: fit_ours(data))
        optimum = objective(data, *parameters(model, data))
        iterations, gap = exact_em(data, optimum, gap=1e-8, max_iter=6000)
        yield {
            "part": "agreement",
            "dataset": name,
            "newton_passes": model.n_iter_,
            "newton_seconds": seconds,
            "em_iterations": iterations,
            "gap_per_row": gap,
        }


def wide_sparse() -> Iterator[Row]:
    """CPU seconds and objective of a fit to 100,000 sparse rows with 50,000 columns, for two tolerances."""
    X, s = sparse_table(100_000, d=50_000, per_row=50, propensity_columns=20)
    objectives = {}
    for tol in (1e-10, 1e-13):
        model = SAREMClassifier(propensity_attributes=range(20), tol=tol)
        cpu = time.process_time()
        seconds, _ = timed(lambda model=model: model.fit(X, s))
        cpu = time.process_time() - cpu
        objectives[tol] = model.optima_[0].objective
        yield {
            "part": "sparse",
            "method": f"tol={tol:g}",
            "shape": list(X.shape),
            "cpu_seconds": cpu,
            "seconds": seconds,
            "n_iter": model.n_iter_,
            "converged": model.converged_,
            "objective": objectives[tol],
            "relative_to_first": objectives[tol] / objectives[1e-10] - 1.0,
        }


def sparse_table(
    n: int, *, d: int, per_row: int, propensity_columns: int, seed: int = 0
) -> tuple[sparse.csr_array, np.ndarray]:
    """Return a sparse table, and labels whose propensity depends on the first columns."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, d, size=n * per_row)
    X = sparse.csr_array(
        (rng.normal(size=columns.size), columns, np.arange(0, columns.size + 1, per_row)), shape=(n, d)
    )
    X.sum_duplicates()
    f = expit(X @ rng.normal(size=d) * 0.4 - 0.3)
    e = expit(X[:, :propensity_columns] @ rng.normal(size=propensity_columns) + 0.3)
    return X, ((rng.random(n) < f) & (rng.random(n) < e)).astype(int)


PARTS = {
    "known_propensity": known_propensity,
    "memory": memory,
    "memory_map": memory_map,
    "supervised": supervised,
    "growth": growth,
    "refit": refit,
    "speed": speed,
    "agreement": agreement,
    "sparse": wide_sparse,
}


def main(arguments: list[str]) -> None:
    # The parts `memory` and `memory_map` start these in separate processes.
    if arguments[:1] == ["memory-of-one-fit"]:
        memory_of_one_fit(arguments[1])
    elif arguments[:1] == ["memory-beside-map"]:
        memory_beside_map(arguments[1])
    else:
        run_parts("core", __doc__, PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
