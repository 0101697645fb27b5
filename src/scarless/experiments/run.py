"""Run an experiment: run cells in worker processes, score each method, and store each record when it is finished."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from threadpoolctl import threadpool_limits

from scarless.datasets import load_dataset
from scarless.experiments.entries import did_you_mean
from scarless.experiments.methods import (
    METHODS,
    Bench,
    EstimatorMethod,
    Fit,
    KeptFits,
    Method,
    estimator_methods,
    knows_of,
    nested_estimators,
)
from scarless.experiments.own import (
    OwnData,
    check_mechanisms,
    check_size,
    importable,
    load_own,
    propensities_of,
    source_of,
)
from scarless.experiments.protocol import Prepared, Split, Task, label, prepare, sampled_rows, split_rows
from scarless.experiments.spec import Cell, Spec
from scarless.experiments.store import KEY, Record, Store, key_of
from scarless.numerics.arrays import Vector
from scarless.numerics.weighted_scores import BinnedRows, binned, calibration_error
from scarless.outside.files import naming, peak_memory
from scarless.outside.notices import warn_user

#: Number of bins of equal width for the calibration error of a method. By judgement: the usual number.
CALIBRATION_BINS = 10
STORED_DECIMALS = 10  # The last bits may differ between processors.


def scores_of(fit: Fit, task: Task) -> dict[str, float]:
    """Return all scores of a fit.

    Scores are computed on the test rows, and errors of the propensity on their positives. Errors of the class prior and
    the label frequency are differences from the true shares of the training rows. A method without a propensity has no
    scores of the propensity or the label frequency. If `f` are not probabilities, only their ranking is scored.
    """
    y = task.split.y_test
    found = {
        "auc_f": float(roc_auc_score(y, fit.f)),
        "average_precision": float(average_precision_score(y, fit.f)),
        **_at_true_prior(fit.f, y),
    }
    if fit.decision is not None:
        found |= _decision_scores(fit.decision, y)
    if fit.is_probability:
        found |= {
            "mse_f": float(np.mean((fit.f - y) ** 2)),
            "log_loss": float(log_loss(y, np.clip(fit.f, 1e-15, 1 - 1e-15))),
            "calibration_error": calibration_error(in_ten_bins(fit.f, y))[0],
        }
    if np.isfinite(fit.class_prior):
        found["class_prior_error"] = float(fit.class_prior - task.split.y_train.mean())
    if fit.interval is not None:
        low, high = fit.interval
        found["class_prior_covered"] = float(low <= task.class_prior <= high)
        found["class_prior_width"] = high - low
    if fit.e is None:
        return found
    error = (fit.e - task.e_test)[y == 1]
    true_c = task.s_train.sum() / task.split.y_train.sum()
    return {
        **found,
        "mse_e": float(np.mean(error**2)),
        "mae_e": float(np.mean(np.abs(error))),
        "label_frequency_error": float(fit.label_frequency - true_c),
    }


def _decision_scores(positive: Vector, y: Vector) -> dict[str, float]:
    """Return the scores of a method's own decision, and the share of rows that it calls positive."""
    tp, called, n_positive, n = positive @ y, positive.sum(), y.sum(), y.size
    return _scores_of_counts(float(tp), float(called), float(n_positive), n) | {"share_positive": float(called / n)}


def _at_true_prior(f: Vector, y: Vector) -> dict[str, float]:
    """Return the scores of a decision that calls as many rows positive as there are: the ranking without a cut-off.

    If rows at the cut-off are tied, the scores are expected values over a random choice among them.

    Examples
    --------
    >>> _at_true_prior(np.array([0.9, 0.5, 0.5, 0.1]), np.array([1.0, 1.0, 0.0, 0.0]))["f1_at_prior"]
    0.75
    """
    k = int(y.sum())
    cut = np.sort(f)[-k]
    above, tied = f > cut, f == cut
    tp = y[above].sum() + (k - above.sum()) * y[tied].mean()
    return {f"{name}_at_prior": value for name, value in _scores_of_counts(float(tp), k, k, y.size).items()}


def _scores_of_counts(tp: float, called: float, n_positive: float, n: int) -> dict[str, float]:
    """Return accuracy, balanced accuracy and F1, given the counts of true positives, called and positive rows."""
    fp = called - tp
    true_negatives = n - n_positive - fp
    return {
        "accuracy": (tp + true_negatives) / n,
        "balanced_accuracy": (tp / n_positive + true_negatives / (n - n_positive)) / 2.0,
        "f1": 2.0 * tp / (called + n_positive),
    }


def in_ten_bins(p: Vector, y: Vector) -> BinnedRows:
    """Return predicted and observed shares in ten bins of equal width between 0 and 1, without empty bins.

    Examples
    --------
    >>> rows = in_ten_bins(np.array([0.2, 0.2, 0.9, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]))
    >>> round(calibration_error(rows)[0], 12)
    0.15
    """
    bins = np.minimum((p * CALIBRATION_BINS).astype(np.intp), CALIBRATION_BINS - 1)
    return binned(p, np.ones_like(p), y, np.unique(bins, return_inverse=True)[1].reshape(-1))


class RunProgress(Protocol):
    """A display of the progress of a running experiment."""

    def start(self, what: str, total: float) -> None:
        """Begin a stage."""

    def advance(self, amount: float, what: str) -> None:
        """Advance within the stage."""

    def say(self, message: str) -> None:
        """Show a message."""


class Silence:
    """A progress display that shows nothing."""

    def start(self, what: str, total: float) -> None:
        """Do nothing."""

    def advance(self, amount: float, what: str) -> None:
        """Do nothing."""

    def say(self, message: str) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Work:
    """The methods that are still to be run on a cell, and the path of the prepared data."""

    spec: Spec
    cell: Cell
    methods: dict[str, Method]
    data: str


def run_experiment(
    spec: Spec,
    folder: str | Path,
    *,
    methods: dict[str, Any] | None = None,
    jobs: int = 1,
    data_home: str | Path | None = None,
    download: bool = True,
    progress: RunProgress | None = None,
) -> Store:
    """Run the missing runs of an experiment, and return the store of its records.

    Parameters
    ----------
    spec : Spec
        Specification of the experiment.
    folder : path
        Folder for the records. If an earlier run was stopped, only its missing records are computed.
    methods : mapping of names to functions, optional
        Methods by name; by default, those of `scarless.experiments.methods`. Estimators of this package and those of
        the specification are always available. With several jobs, methods must be functions of a module that worker
        processes can import.
    jobs : int, default=1
        Number of worker processes, each on one core.
    data_home : path, optional
        Folder with the raw datasets; see `scarless.datasets.load_dataset`.
    download : bool, default=True
        Whether missing datasets may be downloaded.
    progress : RunProgress, optional
        Display of the progress.

    Returns
    -------
    Store
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1; got {jobs}.")
    # Sums by several threads differ in their last bits, so this process uses one thread, as the workers do.
    with importable(spec.folder, _import_paths(spec)), threadpool_limits(1):
        known = {**(given := METHODS if methods is None else methods), **estimator_methods(spec, taken=given)}
        spec, own = _identified(spec, known)
        load = partial(load_dataset, data_home=data_home, download=download)
        return _run(spec, Store(folder), known, own, load, jobs, progress or Silence())


def _run(
    spec: Spec,
    store: Store,
    methods: Mapping[str, Method],
    own: Mapping[str, OwnData],
    load: Callable[[str], Any],
    jobs: int,
    progress: RunProgress,
) -> Store:
    with store.locked(), store.scratch() as scratch:
        for sentence in store.open_for(spec.name, spec.digest, spec.entries()):
            if isinstance(progress, Silence):
                warn_user(sentence, UserWarning)
            progress.say(sentence)
        work = list(_missing(spec, methods, store, scratch))
        sizes = _prepare_all(spec, work, Path(scratch), own, load, progress)
        work = [item for item in work if item.cell.dataset in sizes]
        progress.start("running", sum(len(item.methods) * sizes[item.cell.dataset] for item in work))
        for rows in _results(work, jobs):
            for record, timing in rows:
                store.add(record, timing)
                progress.advance(sizes[record["dataset"]], f"{record['dataset']}, {record['method']}")
                if "error" in record:
                    progress.say(f"{'/'.join(map(str, key_of(record)))}: {record['error']}")
    return store


def _import_paths(spec: Spec) -> list[str]:
    tables = [*spec.own_methods.values(), *spec.own_datasets.values(), *spec.own_mechanisms.values()]
    paths = [table.get(key, "") for table in tables for key in ("estimator", "callable", "mechanism")]
    paths += [path for table in tables for path in nested_estimators(table.get("parameters", {}))]
    return [path for path in paths if ":" in path]


def _identified(spec: Spec, methods: Mapping[str, Method]) -> tuple[Spec, dict[str, OwnData]]:
    """Check the names of a specification, and add the hashes of data and modules that its records depend on."""
    for name in spec.methods:
        if name not in methods:
            known = ", ".join(methods)
            hint = did_you_mean(name, methods)
            raise ValueError(f"There is no method {name!r}. The methods are {known}. {hint}".rstrip())
        method = methods[name]
        if isinstance(method, EstimatorMethod):
            method.check()
    check_mechanisms(spec)
    own = {name: load_own(spec, name) for name in spec.datasets if name in spec.own_datasets}
    for name, data in own.items():
        propensities_of(spec, name, data.table, data.prepared, data.columns)  # Raises before anything is written.
    identified = replace(
        spec,
        own_datasets={name: data.identity for name, data in own.items()},
        own_methods={name: {**entry, **_sources(entry)} for name, entry in spec.own_methods.items()},
        own_mechanisms={
            name: {**entry, **source_of(entry.get("callable", entry.get("mechanism", "")))}
            for name, entry in spec.own_mechanisms.items()
        },
    )
    return identified, own


def _sources(method: dict[str, Any]) -> dict[str, Any]:
    """Return the hashes of the user's modules that a method uses."""
    nested = {path: source_of(path) for path in nested_estimators(method.get("parameters", {}))}
    inside = {path: found["source"] for path, found in nested.items() if found}
    return {**source_of(method["estimator"]), **({"sources": inside} if inside else {})}


def _missing(spec: Spec, methods: Mapping[str, Method], store: Store, scratch: str) -> Iterator[Work]:
    done = {key_of(record) for record in store.records()}
    for cell in spec.cells():
        keys = {method: (*asdict(cell).values(), method) for method in spec.methods}
        missing = {method: methods[method] for method, key in keys.items() if key not in done}
        if missing:
            yield Work(spec, cell, missing, str(Path(scratch) / cell.dataset))


def _prepare_all(
    spec: Spec,
    work: list[Work],
    scratch: Path,
    own: Mapping[str, OwnData],
    load: Callable[[str], Any],
    progress: RunProgress,
) -> dict[str, float]:
    """Write all datasets with their added attributes as files for the workers, and return the cost of a run on each.

    A dataset that is not available is left out, with a message.
    """
    names = list(dict.fromkeys(item.cell.dataset for item in work))
    progress.start("preparing", len(names))
    sizes: dict[str, float] = {}
    for name in names:
        try:
            data = own[name] if name in own else load(name)
        except (OSError, ValueError, ImportError) as error:
            progress.say(f"{name} is left out: {error}")
        else:
            rows = sampled_rows(spec, name, len(data.y))
            if rows.size < len(data.y):
                _check_sample(spec, name, data.y[rows])
            prepared = prepare(spec, name, data.X[rows], data.y[rows])
            for path, values in ((scratch / f"{name}.npy", prepared.X), (scratch / f"{name}.y.npy", prepared.y)):
                with naming(path):
                    np.save(path, values)
            if spec.other_mechanisms:
                _save_own(spec, scratch, name, data, rows)
            sizes[name] = float(prepared.X.size + 10**6)
        progress.advance(1, name)
    return sizes


def _check_sample(spec: Spec, name: str, y: Vector) -> None:
    """Raise if a sample of the rows of a dataset has too few rows of a class."""
    try:
        check_size(np.asarray(y), spec.test_share)
    except ValueError as error:
        raise ValueError(f"{name}, a sample of max_rows = {spec.max_rows} rows: {error} Raise max_rows.") from error


def _save_own(spec: Spec, scratch: Path, name: str, data: Any, rows: Any) -> None:
    """Write the propensity attributes and propensities of a dataset for mechanisms that need no added attributes."""
    is_own = isinstance(data, OwnData)
    columns = data.columns if is_own else ()
    tables = (data.table, data.prepared) if is_own else (data.X, data.X)
    e = [values[rows] for values in propensities_of(spec, name, *tables, columns).values()]
    for path, values in ((scratch / f"{name}.columns.npy", columns), (scratch / f"{name}.e.npy", e)):
        with naming(path):
            np.save(path, np.asarray(values, dtype=np.intp if values is columns else np.float64))


def _results(work: list[Work], jobs: int) -> Iterator[list[tuple[Record, Record]]]:
    if jobs == 1:
        yield from map(run_cell, work)
        return
    with _pool(jobs) as pool:
        try:
            for future in _in_flight(pool, work, 2 * jobs):
                yield future.result()
        except BrokenProcessPool as error:
            raise RuntimeError(
                "A worker process was killed, perhaps because memory ran out. All finished runs are stored. Run the "
                "same command again, with fewer --jobs if memory is short."
            ) from error


def _in_flight(pool: ProcessPoolExecutor, work: Iterable[Work], n: int) -> Iterator[Future[Any]]:
    """Submit work in order, slightly ahead of the workers, and return results when they are finished."""
    rest, waiting = iter(work), set[Future[Any]]()
    while True:
        for item in rest:
            waiting.add(pool.submit(run_cell, item))
            if len(waiting) >= n:
                break
        if not waiting:
            return
        done = next(as_completed(waiting))
        waiting.remove(done)
        yield done


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(parent: int) -> None:
    """Limit a worker to one thread, and end it when its parent process has ended."""
    threadpool_limits(1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run_cell(work: Work) -> list[tuple[Record, Record]]:
    """Run methods on one cell, and return a record and a timing for each.

    If the rows cannot be split or labelled, all methods have failed there, and the experiment goes on.
    """
    try:
        split, kept = _split(work.spec, work.cell.dataset, work.cell.split, work.data)
        bench = Bench(work.spec, label(work.spec, work.cell, split), kept)
    except ValueError as error:
        keys = [{**asdict(work.cell), "method": name} for name in work.methods]
        return [({**key, "error": f"ValueError: {error}"}, {**key, "seconds": 0.0}) for key in keys]
    return [_run_method(bench, name, method) for name, method in work.methods.items()]


@lru_cache(maxsize=1)
def _split(spec: Spec, dataset: str, split: int, data: str) -> tuple[Split, KeptFits]:
    X = np.load(f"{data}.npy", mmap_mode="r")
    prepared = Prepared(X, np.load(f"{data}.y.npy"), X.shape[1] - spec.n_added)
    if spec.other_mechanisms:
        e = dict(zip(spec.table_mechanisms, np.load(f"{data}.e.npy"), strict=True))
        columns = tuple(np.load(f"{data}.columns.npy").tolist())
        prepared = replace(prepared, columns=columns, propensities=e)
    return split_rows(spec, dataset, split, prepared), KeptFits()


def _run_method(bench: Bench, name: str, method: Method) -> tuple[Record, Record]:
    key = {**asdict(bench.task.cell), "method": name}
    assert tuple(key) == KEY
    borrowed, start = bench.borrowed_seconds, time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit = method(bench)
            found: Record = {
                **{name: _round(value) for name, value in scores_of(fit, bench.task).items()},
                **({"class_prior": _round(fit.class_prior)} if np.isfinite(fit.class_prior) else {}),
                **({} if fit.e is None else {"label_frequency": _round(fit.label_frequency)}),
                "n_labels": int(bench.task.s_train.sum()),
                "knows": knows_of(method, bench.task),
                "n_iter": fit.n_iter,
                "converged": not any(issubclass(warning.category, ConvergenceWarning) for warning in caught),
            }
        except Exception as error:  # A failed method is a result too; the other methods are still run.
            found = {"error": f"{type(error).__name__}: {error}"}
    seconds = time.process_time() - start + bench.borrowed_seconds - borrowed
    peak = peak_memory()
    notes = sorted({str(warning.message).split(". ")[0] for warning in caught})
    record = {**key, **found, **({"warnings": notes} if notes else {})}
    memory = {} if peak is None else {"peak_mb": round(peak)}
    return record, {**key, "seconds": round(seconds, 4), **memory}


def _round(value: float) -> float:
    return round(float(value), STORED_DECIMALS) + 0.0  # Adding 0.0 turns -0.0 into 0.0.
