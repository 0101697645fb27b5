"""Time of fits to tables on a GPU, compared with the processor cores of the same machine.

Data: simulated tables, as torch tensors that scikit-learn's array API dispatch passes to scarless.
Time: about two minutes with a GPU. Needs: pip install "scarless[torch]", and SCIPY_ARRAY_API=1 in the environment.

The device is `cuda` or `cpu`; with `cpu` the same code runs on small tables, without a GPU. Each measurement is printed
as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from typing import Any

import numpy as np
import sklearn

from benchmarks import records
from benchmarks.runner import add_record_option, command_parser
from scarless import SAREMClassifier, SAREMClassifierCV
from scarless.diagnostics import bootstrap_intervals
from scarless.engines.base import known_rows, open_rows
from scarless.engines.memory import InMemoryEngine
from scarless.numerics.linear import Design
from scarless.numerics.objectives import Curvature, LogisticPair


def draw(n: int, d: int, seed: int = 0, n_binary: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return attributes and labels. The last `n_binary` columns are 0 or 1, mostly 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if n_binary:
        X[:, -n_binary:] = rng.random((n, n_binary)) < rng.uniform(0.01, 0.3, size=n_binary)
    f = 1 / (1 + np.exp(-X[:, :10] @ rng.normal(size=10) * 0.7))
    e = 1 / (1 + np.exp(0.3 - X[:, 10:14] @ rng.normal(size=4) * 0.7))
    return X, (rng.random(n) < f * e).astype(np.float64)


def best(function: Any, torch: Any, device: str, repeats: int = 5) -> float:
    """Return the shortest of several times, including the work on the device."""
    times = []
    for _ in range(repeats):
        since = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - since)
    return min(times)


def one_fit(torch: Any, device: str, n: int, d: int, n_binary: int = 0) -> dict[str, Any]:
    """Return the times of a fit on the device and on the cores, and the differences of the results."""
    X, s = draw(n, d, n_binary=n_binary)
    A, b = torch.asarray(X, device=device), torch.asarray(s, device=device)
    options = {"propensity_attributes": list(range(10, 14))}
    with sklearn.config_context(array_api_dispatch=True):
        seconds = best(lambda: SAREMClassifier(**options).fit(A, b), torch, device)
        there = SAREMClassifier(**options).fit(A, b)
    cores = best(lambda: SAREMClassifier(**options).fit(X, s), torch, "cpu", 3)
    here = SAREMClassifier(**options).fit(X, s)
    apart = abs(there.log_likelihood_ - here.log_likelihood_) / n
    return {
        "part": "fit", "dataset": f"{n_binary} columns of 0 and 1" if n_binary else None,
        "rows": n, "columns": d, "device_seconds": seconds, "cores_seconds": cores,
        "ratio": cores / seconds, "apart_per_row": apart, "coef_apart": float(np.abs(there.coef_ - here.coef_).max()),
    }  # fmt: skip


def one_pass(torch: Any, device: str, n: int, d: int) -> dict[str, Any]:
    """Return the time of a pass for value, gradient and expected information."""
    generator = torch.Generator(device=device).manual_seed(0)
    A = torch.randn((n, d), dtype=torch.float64, device=device, generator=generator)
    s = (torch.rand(n, dtype=torch.float64, device=device, generator=generator) < 0.3).to(torch.float64)
    with sklearn.config_context(array_api_dispatch=True):
        engine = open_rows(known_rows(A))
        engine.rows.update({"s": s, "w": torch.ones_like(s)})
        pair = LogisticPair(Design.of(np.arange(d)), Design.of(np.arange(4)))
        beta = np.full(pair.n_parameters, 0.01)
        seconds = best(lambda: engine.total(pair.sums, beta, Curvature.EXPECTED), torch, device)
    row = {"part": "pass", "rows": n, "columns": d, "device_seconds": seconds}
    if n <= 1_000_000:
        memory = InMemoryEngine(A.cpu().numpy(), {"s": s.cpu().numpy(), "w": np.ones(n)})
        row["cores_seconds"] = best(lambda: memory.total(pair.sums, beta, Curvature.EXPECTED), torch, "cpu")
    return row


def search(torch: Any, device: str, n: int, d: int) -> dict[str, Any]:
    """Return the time of a search over 60 candidates in 5 folds."""
    X, s = draw(n, d)
    A, b = torch.asarray(X, device=device), torch.asarray(s, device=device)
    options = {"propensity_attributes": list(range(10, 14)), "Cs": 10, "propensity_Cs": (0.1, 1.0, 10.0)}
    with sklearn.config_context(array_api_dispatch=True):
        seconds = best(lambda: SAREMClassifierCV(**options, random_state=0).fit(A, b), torch, device, 2)
        model = SAREMClassifierCV(**options, random_state=0).fit(A, b)
    return {
        "part": "search", "rows": n, "columns": d, "candidates": len(model.cv_results_["params"]),
        "device_seconds": seconds, "class_prior": model.class_prior_,
    }  # fmt: skip


def bootstrap(torch: Any, device: str, n: int, d: int, n_resamples: int) -> dict[str, Any]:
    """Return the times of resampled fits on the device and on the cores."""
    X, s = draw(n, d)
    A, b = torch.asarray(X, device=device), torch.asarray(s, device=device)
    options = {"propensity_attributes": list(range(10, 14))}
    with sklearn.config_context(array_api_dispatch=True):
        model = SAREMClassifier(**options).fit(A, b)
        bootstrap_intervals(model, A, b, n_resamples=20, random_state=1)
        since = time.perf_counter()
        there = bootstrap_intervals(model, A, b, n_resamples=n_resamples, random_state=0)
        seconds = time.perf_counter() - since
    here = SAREMClassifier(**options).fit(X, s)
    since = time.perf_counter()
    few = bootstrap_intervals(here, X, s, n_resamples=20, random_state=0)
    cores = time.perf_counter() - since
    apart = np.abs(there.samples["class_prior_"][:20] - few.samples["class_prior_"]).max()
    return {
        "part": "bootstrap", "rows": n, "columns": d, "resamples": n_resamples, "device_seconds": seconds,
        "cores_seconds_each": cores / 20, "ratio": cores / 20 / (seconds / n_resamples), "priors_apart": float(apart),
    }  # fmt: skip


def single(torch: Any, device: str, n: int, d: int) -> dict[str, Any]:
    """Return the time of a fit in float32, and its distance from float64 in standard errors."""
    X, s = draw(n, d)
    A, b = torch.asarray(X.astype(np.float32), device=device), torch.asarray(s, device=device)
    options = {"propensity_attributes": list(range(10, 14))}
    with sklearn.config_context(array_api_dispatch=True):
        seconds = best(lambda: SAREMClassifier(**options).fit(A, b), torch, device)
        there = SAREMClassifier(**options).fit(A, b)
    here = SAREMClassifier(**options).fit(X.astype(np.float32).astype(np.float64), s)
    apart = np.abs(there.coef_ - here.coef_) / here.standard_errors().coef
    return {"part": "float32", "rows": n, "columns": d, "device_seconds": seconds, "errors_apart": float(apart.max())}


SIZES = {
    "cuda": {
        "fit": [(464_809, 58), (464_809, 58, 38)], "float32": [(464_809, 58)],
        "pass": [(464_809, 58), (20_000_000, 54)], "search": [(464_809, 58)], "bootstrap": [(48_842, 111, 1000)],
    },
    "cpu": {
        "fit": [(20_000, 58), (20_000, 58, 38)], "float32": [(20_000, 58)], "pass": [(20_000, 58)],
        "search": [(5_000, 20)], "bootstrap": [(2_000, 20, 100)],
    },
}  # fmt: skip
PARTS = {"fit": one_fit, "float32": single, "pass": one_pass, "search": search, "bootstrap": bootstrap}


def main(arguments: list[str]) -> None:
    """Print the measurements."""
    parser = command_parser("device", __doc__)
    parser.add_argument("device", nargs="?", choices=tuple(SIZES), default="cuda", help="device (default: cuda)")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"parts to run: {', '.join(PARTS)} (default: all)")
    add_record_option(parser)
    options = parser.parse_args(arguments)
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; expected {', '.join(PARTS)}")
    import torch

    warnings.simplefilter("ignore")
    name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(json.dumps({"device": name, "torch": torch.__version__, "sklearn": sklearn.__version__}), flush=True)
    for part in options.parts or PARTS:
        for size in SIZES[options.device][part]:
            row = PARTS[part](torch, options.device, *size)
            print(json.dumps(row), flush=True)
            if options.record:
                records.append_row("device", row, machine=f"{name}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main(sys.argv[1:])
