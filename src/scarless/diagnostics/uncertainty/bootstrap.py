"""Bootstrap confidence intervals, for any classifier of this package."""

import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from scarless.checks.estimators import opened
from scarless.checks.looks import refuse_other_looks
from scarless.checks.options import (
    BY_MEAN,
    check_choice,
    check_counts,
    check_random_stream,
    check_share,
    check_whole,
    warn_about_heavy_rows,
)
from scarless.checks.rows import (
    LabelledRows,
    check_rows_again,
    index_of,
    refuse_lost_class,
    row_totals,
    warn_about_row_order,
)
from scarless.checks.tables import refuse_lazy_query, refuse_own_engine
from scarless.diagnostics.sensitivity.rows import row_label
from scarless.engines import Rows, has_own_engine
from scarless.engines.base import known_rows
from scarless.engines.lockstep import go_in_lockstep, in_lockstep
from scarless.models.base import can_fit_from_engine, class_probability, clone_without_checks, fit_again
from scarless.models.pair import refuse_wrapped
from scarless.models.summary import attribute_names
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.resampling import poisson_counts
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.groups import check_groups

_NAME = "bootstrap_intervals"
_ATTRIBUTES = ("class_prior_", "label_frequency_", "coef_", "intercept_", "propensity_coef_", "propensity_intercept_")
_MIN_RESAMPLES = 20  # with fewer, the ends of intervals are too uncertain
_SHOWN_ROWS = 20
_RESAMPLES_IN_LOCKSTEP = 256  # largest number of resamples that a device fits at the same time
_MIN_MEAN_WEIGHT = 0.1  # if the mean of the positive weights is smaller, they are relative weights, not counts


class BootstrapInterval(NamedTuple):
    """Estimate of the original fit and the ends of its interval; arrays for a quantity with several entries."""

    estimate: Any
    low: Any
    high: Any


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapIntervals:
    """Bootstrap intervals of the fitted attributes of a classifier; prints as a table.

    Attributes
    ----------
    level : float
        Confidence level.
    method : str
        "percentile" or "basic".
    n_resamples, n_failed, n_not_converged : int
        Number of resamples, of fits that raised an error, and of other fits that did not converge. If resamples are
        fitted in threads, convergence is known only for models with the attribute ``converged_``.
    errors : dict of str to int
        Error messages of the failed fits, and how often each occurred.
    intervals : dict of str to BootstrapInterval
        Intervals by attribute of the classifier, such as ``"class_prior_"`` and ``"coef_"``, and by ``"f"`` and
        ``"e"`` for the class probability and propensity of `rows`.
    samples : dict of str to array
        Values in the resamples; the first axis is the resample.
    attributes : tuple of str
        Names of the columns, in the order of ``coef_``.
    rows : tuple of str
        Names of the requested rows: "row 0" and so on, or the names in the index of a pandas data frame.
    """

    level: float
    method: str
    n_resamples: int
    n_failed: int
    n_not_converged: int
    errors: dict[str, int]
    intervals: dict[str, BootstrapInterval]
    samples: dict[str, Vector]
    attributes: tuple[str, ...]
    rows: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> BootstrapInterval:
        return self.intervals[name]

    @property
    def class_prior(self) -> BootstrapInterval:
        """The interval of the class prior."""
        return self.intervals["class_prior_"]

    @property
    def label_frequency(self) -> BootstrapInterval:
        """The interval of the label frequency."""
        return self.intervals["label_frequency_"]

    def to_frame(self) -> Any:
        """Return all intervals as a pandas DataFrame, indexed by quantity, and by attribute or row."""
        pandas = need("pandas", "BootstrapIntervals.to_frame", extra="frames")
        index = pandas.MultiIndex.from_tuples([row[:2] for row in self._rows()], names=["quantity", "of"])
        return pandas.DataFrame([row[2:] for row in self._rows()], index=index, columns=["estimate", "low", "high"])

    def _rows(self, most: int | None = None) -> Iterator[tuple[str, str, float, float, float]]:
        """Yield all intervals; for the requested rows, only the first `most`."""
        for name, found in self.intervals.items():
            numbers = zip(
                *(np.ravel(part)[: most if name in ("f", "e") else None].tolist() for part in found), strict=True
            )
            for j, (estimate, low, high) in enumerate(numbers):
                if name.endswith("coef_") and estimate == low == high == 0:
                    continue  # a column that the model does not use
                yield name, self._entry(name, j), estimate, low, high

    def _entry(self, name: str, j: int) -> str:
        if name in ("f", "e"):
            return self.rows[j]
        return self.attributes[j % len(self.attributes)] if name.endswith("coef_") else ""

    def __str__(self) -> str:
        shown = list(self._rows(_SHOWN_ROWS))
        width = max((len(f"{name} {of}") for name, of, *_ in shown), default=10) + 2
        lines = [
            f"{100 * self.level:.6g}% bootstrap intervals ({self.method}), {self.n_resamples} resamples"
            f"{self._failures()}"
        ]
        lines += [f"{'':{width}}{'estimate':>12}{'low':>12}{'high':>12}"]
        lines += [
            f"{f'{name} {of}':{width}}{value:>12.4f}{low:>12.4f}{high:>12.4f}" for name, of, value, low, high in shown
        ]
        if len(self.rows) > _SHOWN_ROWS:
            lines.append(f"... and {len(self.rows) - _SHOWN_ROWS:,} more rows, in to_frame()")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _failures(self) -> str:
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        return failed + (f", {self.n_not_converged} not converged" if self.n_not_converged else "")


def bootstrap_intervals(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    fit_params: Mapping[str, Any] | None = None,
    groups: ArrayLike | None = None,
    rows: Any = None,
    n_resamples: int = 200,
    level: float = 0.95,
    method: str = "percentile",
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | None = None,
) -> BootstrapIntervals:
    r"""Compute confidence intervals by fitting a classifier to resampled rows.

    Each resample draws every row a Poisson number of times, once on average, and passes these counts to `fit` as
    weights, so the table is not copied. Let :math:`q_p` be the `p` quantile of the resampled values,
    :math:`\hat\theta` the estimate of the original fit, and :math:`t = (1 - \text{level})/2`. The intervals are

    - ``"percentile"``: :math:`q_t` to :math:`q_{1-t}`. Intervals of probabilities stay between 0 and 1.
    - ``"basic"``: :math:`2\hat\theta - q_{1-t}` to :math:`2\hat\theta - q_t`. Corrects a bias that the resampled fits
      have relative to the original fit. Does not correct the bias that a penalty causes.

    The bootstrap needs no information matrix, so it works for any model. It is valid for many independent rows, if the
    resampled fits stay in the optimum of the original fit; check that `samples` do not have two modes. It takes about
    `n_resamples` times as long as one fit. For a `SAREMClassifierCV`, each resample repeats the whole search.

    Parameters
    ----------
    estimator : fitted classifier
        Classifier of this package whose `fit` accepts ``sample_weight``. It is cloned, not changed. It may be the last
        step of a pipeline or inside a `TableClassifier`; the steps before the classifier are not refitted.
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
        Attributes of the rows that the estimator was fitted on. For a tensor on a device, with scikit-learn's
        ``array_api_dispatch``, up to 256 resamples are fitted there at the same time.
    s : array of shape (n_rows,)
        Observed labels of these rows, coded as in `fit`.
    sample_weight : array of shape (n_rows,), optional
        Weight of each row, if `fit` had weights. Weights are counts: a row is drawn that many times on average.
    fit_params : dict, optional
        Other arguments of `fit`, such as ``{"propensity": e}``, with one value for each row of `X`.
    groups : array of shape (n_rows,), optional
        Group of each row, for example the patient. Whole groups are drawn. Also passed to `fit`, if it accepts groups.
    rows : array, sparse matrix or data frame, optional
        Rows for which to compute intervals of `f` and, if the classifier predicts it, of `e`. The index of a pandas
        data frame holds their names.
    n_resamples : int, default=200
        Number of resamples. Use 1000 or more for intervals that are published.
    level : float in (0, 1), default=0.95
        Confidence level.
    method : {"percentile", "basic"}, default="percentile"
        Type of the intervals; see above.
    n_jobs : int, optional
        Number of resamples computed in parallel, as in joblib. Not used on a device.
    random_state : int, Generator or None
        Seed of the random numbers. Pass an int for reproducible results.
    progress : bool, optional
        Whether to show a progress bar. By default, in a terminal if ``rich`` is installed, and in a notebook if
        ``ipywidgets`` is installed too.

    Returns
    -------
    BootstrapIntervals

    References
    ----------
    Chamandy, Muralidharan, Najmi and Naidu (2012), "Estimating Uncertainty for Massive Data Streams", for Poisson
    counts. Efron and Tibshirani (1993), "An Introduction to the Bootstrap", chapters 12 and 13. Davison and Hinkley
    (1997), "Bootstrap Methods and their Application", chapter 5.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier
    >>> from scarless.diagnostics.uncertainty.bootstrap import bootstrap_intervals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 2))
    >>> f, e = 1 / (1 + np.exp(-2 * X[:, 0])), 1 / (1 + np.exp(-X[:, 1]))
    >>> s = rng.random(3000) < f * e
    >>> model = SAREMClassifier(propensity_attributes=[1], classification_attributes=[0])
    >>> model = model.fit(X, s)
    >>> found = bootstrap_intervals(model, X, s, n_resamples=50, random_state=0)
    >>> [round(end, 1) for end in found.class_prior]  # the true class prior is 0.5
    [0.5, 0.4, 0.5]
    """
    check_is_fitted(estimator)
    check_whole(n_resamples, "n_resamples", at_least=_MIN_RESAMPLES)
    check_choice(method, "method", ("percentile", "basic"))
    level = check_share(level, "level")
    refuse_wrapped(estimator)
    warn_about_row_order(X, s=s, sample_weight=sample_weight)
    estimator, prepare = opened(estimator)
    X, rows = prepare(X), None if rows is None else known_rows(prepare(rows))
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            "estimator must accept sample_weight in fit, because bootstrap_intervals passes resamples as weights; "
            f"{type(estimator).__name__}.fit has no such parameter. Pass another classifier."
        )
    group = None if groups is None else check_groups(groups, X)
    if group is not None and has_fit_parameter(estimator, "groups"):
        fit_params = {**(fit_params or {}), "groups": group}
    job = _job(estimator, X, s, sample_weight, fit_params, group)
    estimates = _fitted_values(estimator, rows)
    seeds = check_random_stream(random_state).integers(2**63, size=n_resamples)
    with progress_bar("bootstrap", n_resamples, progress) as advance, _silence():
        outcomes = []
        for outcome in _refitted(job, rows, seeds, n_jobs):
            outcomes.append(outcome)
            advance()
    _check_enough(outcomes)
    good = [outcome for outcome in outcomes if outcome.values is not None]
    samples = {name: np.array([(outcome.values or {})[name] for outcome in good]) for name in estimates}
    return BootstrapIntervals(
        level=level,
        method=method,
        n_resamples=n_resamples,
        n_failed=n_resamples - len(good),
        n_not_converged=sum(not outcome.converged for outcome in good),
        errors=dict(Counter(outcome.error for outcome in outcomes if outcome.error)),
        intervals={name: _interval(value, samples[name], level, method) for name, value in estimates.items()},
        samples=samples,
        attributes=tuple(attribute_names(estimator)),
        rows=_row_names(rows, len(np.atleast_1d(estimates.get("f", [])))),
    )


class _InEngine(NamedTuple):
    """A classifier and rows in an engine, which draws counts block by block."""

    model: Any
    X: Any  # as passed by the user, for column names
    rows: LabelledRows

    def fitted(self, seed: int) -> Any:
        """Return a clone fitted to one resample."""
        engine = self.rows.engine.derive(_drawn, seed, keep=True)
        totals = row_totals(engine)
        refuse_lost_class(totals.labelled, totals.unlabelled)
        return fit_again(self.model, self.rows._replace(engine=engine, totals=totals), self.X)


class _InMemory(NamedTuple):
    """A classifier and rows in memory; counts are passed to `fit` as weights."""

    model: Any
    X: Any
    s: Any
    weight: Vector
    fit_params: dict[str, Any]
    group: Any = None  # of each row; None if each row is its own group

    def fitted(self, seed: int) -> Any:
        """Return a clone fitted to one resample."""
        drawn = np.arange(self.weight.size) if self.group is None else self.group
        mean = self.weight if self.group is None else np.ones(self.weight.size)
        counts = poisson_counts(drawn, mean, seed) * (1.0 if self.group is None else self.weight)
        return clone_without_checks(self.model).fit(self.X, self.s, sample_weight=counts, **self.fit_params)


def _drawn(X: Any, rows: Rows, seed: int) -> dict[str, Any]:
    return {"w": poisson_counts(rows.number, rows["w"], seed)}


def _job(
    model: Any, X: Any, s: Any, sample_weight: Any, fit_params: Mapping[str, Any] | None, group: Any = None
) -> "_InEngine | _InMemory":
    """Return the classifier with its checked rows."""
    params = dict(fit_params or {})
    if "sample_weight" in params:
        raise ValueError(
            "fit_params must not contain sample_weight, because resamples are passed to fit as weights. Pass "
            "sample_weight= to bootstrap_intervals itself."
        )
    if not has_own_engine(X):
        refuse_lazy_query(X, "X")
        n = np.shape(X)[0]
        for name, values in {"s": s, **params}.items():
            if np.ndim(values) > 0 and np.shape(values)[0] != n:
                raise ValueError(
                    f"{name} has {np.shape(values)[0]} values for {n} rows; pass one value for each row of X."
                )
    refuse_other_looks(model, s, params)
    if not params and group is None and can_fit_from_engine(model):
        X = known_rows(X)
        rows = check_rows_again(model, X, s, sample_weight)
        _refuse_shares(rows.totals.weight, int(rows.totals.n_rows))
        warn_about_heavy_rows(float(rows.totals.n_rows), rows.totals.weight, _NAME, BY_MEAN)
        return _InEngine(model, X, rows)
    refuse_own_engine(X, f"{_NAME} of this {type(model).__name__}")
    weight = check_counts(sample_weight, n_rows=n, name=None if group is not None else _NAME)
    _refuse_shares(float(weight.sum()), int(np.count_nonzero(weight)))
    return _InMemory(model, X, s, weight, params, group)


def _refuse_shares(total: float, counted: int) -> None:
    """Refuse weights that are relative instead of counts."""
    if total < _MIN_MEAN_WEIGHT * counted:
        raise ValueError(
            "sample_weight must be counts of rows, because a resample has as many rows as the sum of the weights. The "
            f"sum is {total:.3g} for {counted} rows. If the weights are relative, scale them to a mean of 1, here "
            "and in fit: sample_weight / sample_weight.mean()."
        )


def _row_names(rows: Any, n_rows: int) -> tuple[str, ...]:
    index = index_of(rows)
    return tuple(row_label(name) for name in (range(n_rows) if index is None else index))


class _Outcome(NamedTuple):
    values: dict[str, Any] | None
    converged: bool
    error: str


def _refitted(job: "_InEngine | _InMemory", rows: Any, seeds: Any, n_jobs: int | None) -> Iterator[_Outcome]:
    """Yield the outcomes in order: in lockstep on a device, otherwise one by one or in processes."""
    if not (isinstance(job, _InEngine) and go_in_lockstep([job.rows.engine])):
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_refit)(job, rows, int(seed)) for seed in seeds
        )
        return
    for start in range(0, len(seeds), _RESAMPLES_IN_LOCKSTEP):
        some = [int(seed) for seed in seeds[start : start + _RESAMPLES_IN_LOCKSTEP]]
        yield from in_lockstep([job.rows.engine] * len(some), partial(_refit_on, job, rows, some))


def _refit_on(job: "_InEngine", rows: Any, seeds: list[int], number: int, engine: Any) -> _Outcome:
    return _refit(job._replace(rows=job.rows._replace(engine=engine)), rows, seeds[number])


def _refit(job: "_InEngine | _InMemory", rows: Any, seed: int) -> _Outcome:
    """Fit a clone to one resample. A fit that raises an error is an outcome too."""
    with _silence() as caught:
        try:
            again = job.fitted(seed)
            values = _fitted_values(again, rows)
        except Exception as error:  # counted and reported; the other resamples continue
            return _Outcome(None, converged=False, error=f"{type(error).__name__}: {error}")
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return _Outcome(values, bool(getattr(again, "converged_", not warned)), "")


@contextmanager
def _silence() -> Iterator[list[Any]]:
    """Collect warnings in a list instead of showing them; in the main thread only, because filters are global."""
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def _fitted_values(model: Any, rows: Any) -> dict[str, Any]:
    """Return the fitted attributes of a classifier and its predictions for `rows`."""
    values = {name: np.asarray(getattr(model, name), dtype=np.float64) for name in _ATTRIBUTES if hasattr(model, name)}
    if rows is not None:
        values["f"] = class_probability(model, rows)
        if hasattr(model, "predict_propensity"):
            values["e"] = model.predict_propensity(rows)
    return values


def _interval(estimate: Any, samples: Vector, level: float, method: str) -> BootstrapInterval:
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(samples, [tail, 1.0 - tail], axis=0)
    if method == "basic":
        low, high = 2.0 * estimate - high, 2.0 * estimate - low
    whole = (estimate, low, high)
    return BootstrapInterval(*(float(part) if np.ndim(part) == 0 else part for part in whole))


def _check_enough(outcomes: list[_Outcome]) -> None:
    """Raise an error if most fits failed, and warn if some failed."""
    failed = [outcome.error for outcome in outcomes if outcome.values is None]
    if not failed:
        return
    (error, times), *_ = Counter(failed).most_common(1)
    text, error = f"{len(failed)} of {len(outcomes)} resamples could not be fitted.", error.rstrip(".")
    if times == len(outcomes):
        raise ValueError(f"{text} All failed with the same error: {error}. Check X, s and fit_params.")
    text += f" The most frequent error ({'once' if times == 1 else f'{times} times'}): {error}."
    if 2 * len(failed) > len(outcomes):
        raise ValueError(f"{text} Too few resamples remain for an interval. Check that enough rows are labelled.")
    warn_user(
        f"{text} The intervals are computed from the other resamples, and may be too narrow.",
        UserWarning,
    )
