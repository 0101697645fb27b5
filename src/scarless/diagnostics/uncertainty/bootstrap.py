"""Intervals by fitting again to rows drawn with replacement: slower than standard errors, and for any classifier."""

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
from scarless.checks.options import check_choice, check_counts, check_random_stream, check_share, check_whole
from scarless.checks.rows import LabelledRows, check_rows_again, index_of, refuse_lost_class, row_totals
from scarless.checks.tables import refuse_own_engine, refuse_unread
from scarless.diagnostics.sensitivity._row_names import called
from scarless.engines import Rows, has_own_engine
from scarless.engines.base import known_rows
from scarless.engines.lockstep import go_in_lockstep, in_lockstep
from scarless.models.base import class_probability, clone_unshown, fit_again, lives_in_engine
from scarless.models.pair import refuse_wrapped
from scarless.models.summary import attribute_names
from scarless.numerics.arrays import ArrayLike, Vector, in_numpy
from scarless.numerics.resampling import poisson_counts
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.groups import check_groups

_NAMES = ("class_prior_", "label_frequency_", "coef_", "intercept_", "propensity_coef_", "propensity_intercept_")
_FEWEST = 20  # resamples; below, tails are guesses
_SHOWN_ROWS = 20
_AT_ONCE = 256  # resamples that a device fits in lockstep
_LOWEST_MEAN_WEIGHT = 0.1  # of rows that count; below, weights are shares rather than counts


class BootstrapInterval(NamedTuple):
    """The fit's own value, and an interval around it; arrays where the value is one."""

    estimate: Any
    low: Any
    high: Any


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapIntervals:
    """What a classifier says again and again on resampled rows; prints as a table.

    Attributes
    ----------
    level : float
        Nominal probability that an interval covers.
    method : str
        "percentile" or "basic".
    n_resamples, n_failed, n_not_converged : int
        How many fits were tried, how many of them raised an error, and how many of the others did not converge. In
        threads the last is known only of models that have ``converged_``.
    errors : dict of str to int
        What the failed fits said, and how often.
    intervals : dict of str to BootstrapInterval
        Keyed by the classifier's attributes, such as ``"class_prior_"`` and ``"coef_"``; and by ``"f"`` and ``"e"``
        for the rows asked for.
    samples : dict of str to array
        The resampled values behind them, resamples first.
    attributes : tuple of str
        Names of the columns, in the order of ``coef_``.
    rows : tuple of str
        Names of the rows asked for: "row 0" and so on by position, or as in the index of a pandas data frame.
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
        """Return all intervals as a pandas DataFrame, indexed by quantity and attribute or row."""
        pandas = need("pandas", "BootstrapIntervals.to_frame", extra="frames")
        index = pandas.MultiIndex.from_tuples([row[:2] for row in self._rows()], names=["quantity", "of"])
        return pandas.DataFrame([row[2:] for row in self._rows()], index=index, columns=["estimate", "low", "high"])

    def _rows(self, most: int | None = None) -> Iterator[tuple[str, str, float, float, float]]:
        """Yield every interval; of the rows asked for only the first, where `most` says how many."""
        for name, found in self.intervals.items():
            numbers = zip(
                *(np.ravel(part)[: most if name in ("f", "e") else None].tolist() for part in found), strict=True
            )
            for j, (estimate, low, high) in enumerate(numbers):
                if name.endswith("coef_") and estimate == low == high == 0:
                    continue  # a column that the model does not see
                yield name, self._entry(name, j), estimate, low, high

    def _entry(self, name: str, j: int) -> str:
        if name in ("f", "e"):
            return self.rows[j]
        return self.attributes[j % len(self.attributes)] if name.endswith("coef_") else ""

    def __str__(self) -> str:
        shown = list(self._rows(_SHOWN_ROWS))
        width = max((len(f"{name} {of}") for name, of, *_ in shown), default=10) + 2
        lines = [f"{self.level:.6g} bootstrap intervals ({self.method}), {self.n_resamples} resamples{self._trouble()}"]
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

    def _trouble(self) -> str:
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
    r"""Fit a classifier again and again to resampled rows, and see how its answers spread.

    Each resample draws every row a Poisson number of times, once on average, and hands the counts to `fit` as weights:
    the table is never copied. With :math:`q_p` the quantile `p` of the resampled values and :math:`\hat\theta` the
    fit's own, the ends for a tail :math:`t = (1 - \text{level})/2` are

    - ``"percentile"``: :math:`q_t` and :math:`q_{1-t}`; stays within 0 and 1 for probabilities;
    - ``"basic"``: :math:`2\hat\theta - q_{1-t}` and :math:`2\hat\theta - q_t`; takes off a bias that fits to resamples
      have as well, as that of a penalty has not.

    Needs no information matrix, so it serves models of any kind and widths. Right for independent rows that are many,
    if resampled fits stay in the fit's optimum; a spread with two humps in `samples` says that they did not. A
    penalty's bias stays in. It takes `n_resamples` times as long as one fit; for a `SAREMClassifierCV`, as one whole
    search, since each resample chooses anew.

    Parameters
    ----------
    estimator : fitted classifier
        Any of this package whose `fit` takes ``sample_weight``; it is cloned, not changed. Also at the end of a
        pipeline or in a `TableClassifier`, whose preparation is kept as it is.
    X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        The rows that it was fitted on. Also a tensor of torch, or another array on a device of its own, with
        scikit-learn's ``array_api_dispatch``: resamples are then fitted there, up to 256 side by side.
    s : array of shape (n_rows,)
        Their labels, coded as in `fit`.
    sample_weight : array of shape (n_rows,), optional
        How often each row counts, if `fit` had weights; a row is drawn that many times on average.
    fit_params : dict, optional
        What else `fit` needs, such as ``{"propensity": e}``; one value per row of `X`.
    groups : array of shape (n_rows,), optional
        What each row belongs to, where several rows are of one patient or thing: whole groups are drawn. Handed to
        `fit` as well, where it takes them.
    rows : array, sparse matrix or data frame, optional
        Rows to give intervals of `f` and, where the classifier has one, `e` for; the index of a pandas data frame
        holds their names.
    n_resamples : int, default=200
        Fits. 200 are enough to see; take 1000 or more for ends to be quoted.
    level : float, default=0.95
        Nominal probability that an interval covers.
    method : {"percentile", "basic"}, default="percentile"
        See above.
    n_jobs : int, optional
        Processes, as in joblib; the result does not depend on it. Without effect on a device.
    random_state : int, Generator or None
        Seed.
    progress : bool, optional
        Whether to show a bar. None: in a terminal if the package ``rich`` is there, and in a notebook if
        ``ipywidgets`` is as well.

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
    >>> [round(end, 1) for end in found.class_prior]  # the true one is 0.5
    [0.5, 0.4, 0.5]
    """
    check_is_fitted(estimator)
    check_whole(n_resamples, "n_resamples", at_least=_FEWEST)
    check_choice(method, "method", ("percentile", "basic"))
    level = check_share(level, "level")
    refuse_wrapped(estimator)
    estimator, prepare = opened(estimator)
    X, rows = prepare(X), None if rows is None else known_rows(prepare(rows))
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            "bootstrap_intervals hands resamples to fit as sample_weight, which "
            f"{type(estimator).__name__}.fit does not take."
        )
    group = None if groups is None else check_groups(groups, X)
    if group is not None and has_fit_parameter(estimator, "groups"):
        fit_params = {**(fit_params or {}), "groups": group}
    job = _job(estimator, X, s, sample_weight, fit_params, group)
    estimates = _answers(estimator, rows)
    seeds = check_random_stream(random_state).integers(2**63, size=n_resamples)
    with progress_bar("bootstrap", n_resamples, progress) as advance, _silence():
        outcomes = []
        for outcome in _refitted(job, rows, seeds, n_jobs):
            outcomes.append(outcome)
            advance()
    _check_enough(outcomes)
    good = [outcome for outcome in outcomes if outcome.answers is not None]
    samples = {name: np.array([(outcome.answers or {})[name] for outcome in good]) for name in estimates}
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
    """What is fitted again where rows live in an engine: counts are drawn inside its blocks."""

    model: Any
    X: Any  # as the user gave it, for those who name columns
    rows: LabelledRows

    def fitted(self, seed: int) -> Any:
        """Return a clone fitted to one resample."""
        engine = self.rows.engine.derive(_drawn, seed, keep=True)
        totals = row_totals(engine)
        refuse_lost_class(totals.labelled, totals.unlabelled)
        return fit_again(self.model, self.rows._replace(engine=engine, totals=totals), self.X)


class _InMemory(NamedTuple):
    """What is fitted again where rows are in memory: counts are handed over as weights."""

    model: Any
    X: Any
    s: Any
    weight: Vector
    fit_params: dict[str, Any]
    group: Any = None  # of each row; None: each is one of its own

    def fitted(self, seed: int) -> Any:
        """Return a clone fitted to one resample."""
        drawn = np.arange(self.weight.size) if self.group is None else self.group
        mean = self.weight if self.group is None else np.ones(self.weight.size)
        counts = poisson_counts(drawn, mean, seed) * (1.0 if self.group is None else self.weight)
        return clone_unshown(self.model).fit(self.X, self.s, sample_weight=counts, **self.fit_params)


def _drawn(X: Any, rows: Rows, seed: int) -> dict[str, Any]:
    return {"w": poisson_counts(rows.number, in_numpy(rows["w"]), seed)}


def _job(
    model: Any, X: Any, s: Any, sample_weight: Any, fit_params: Mapping[str, Any] | None, group: Any = None
) -> "_InEngine | _InMemory":
    """Return what is to be fitted again, its rows checked."""
    params = dict(fit_params or {})
    if "sample_weight" in params:
        raise ValueError(
            "fit_params must not hold sample_weight: resamples are handed to fit as weights. Pass sample_weight= to "
            "bootstrap_intervals itself."
        )
    if not has_own_engine(X):
        refuse_unread(X, "X")
        n = np.shape(X)[0]
        for name, values in {"s": s, **params}.items():
            if np.ndim(values) > 0 and np.shape(values)[0] != n:
                raise ValueError(f"{name} has {np.shape(values)[0]} values for {n} rows; give one value per row of X.")
    refuse_other_looks(model, s, params)
    if not params and group is None and lives_in_engine(model):
        X = known_rows(X)
        rows = check_rows_again(model, X, s, sample_weight)
        _refuse_shares(rows.totals.weight, int(rows.totals.n_rows))
        return _InEngine(model, X, rows)
    refuse_own_engine(X, f"bootstrap_intervals of this {type(model).__name__}")
    weight = check_counts(sample_weight, n_rows=n)
    _refuse_shares(float(weight.sum()), int(np.count_nonzero(weight)))
    return _InMemory(model, X, s, weight, params, group)


def _refuse_shares(total: float, counted: int) -> None:
    """Refuse weights that compare rows and do not count them."""
    if total < _LOWEST_MEAN_WEIGHT * counted:
        raise ValueError(
            "sample_weight must say how often each row counts, and as many rows are drawn as it sums to: that is "
            f"{total:.3g}, for {counted} rows that count. If the weights only compare rows, make their mean 1, here "
            "and in fit: sample_weight / sample_weight.mean()."
        )


def _row_names(rows: Any, n_rows: int) -> tuple[str, ...]:
    index = index_of(rows)
    return tuple(called(name) for name in (range(n_rows) if index is None else index))


class _Outcome(NamedTuple):
    answers: dict[str, Any] | None
    converged: bool
    error: str


def _refitted(job: "_InEngine | _InMemory", rows: Any, seeds: Any, n_jobs: int | None) -> Iterator[_Outcome]:
    """Yield the outcomes in order: on a device many in lockstep, elsewhere one by one, or in processes."""
    if not (isinstance(job, _InEngine) and go_in_lockstep([job.rows.engine])):
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_refit)(job, rows, int(seed)) for seed in seeds
        )
        return
    for start in range(0, len(seeds), _AT_ONCE):
        some = [int(seed) for seed in seeds[start : start + _AT_ONCE]]
        yield from in_lockstep([job.rows.engine] * len(some), partial(_refit_on, job, rows, some))


def _refit_on(job: "_InEngine", rows: Any, seeds: list[int], number: int, engine: Any) -> _Outcome:
    return _refit(job._replace(rows=job.rows._replace(engine=engine)), rows, seeds[number])


def _refit(job: "_InEngine | _InMemory", rows: Any, seed: int) -> _Outcome:
    """Fit a clone to rows drawn in proportion to their weights; a fit that fails is an outcome too."""
    with _silence() as told:
        try:
            again = job.fitted(seed)
            answers = _answers(again, rows)
        except Exception as error:  # counted and reported, while the others go on
            return _Outcome(None, converged=False, error=f"{type(error).__name__}: {error}")
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in told)
    return _Outcome(answers, bool(getattr(again, "converged_", not warned)), "")


@contextmanager
def _silence() -> Iterator[list[Any]]:
    """Keep warnings from the screen, in a list. They belong to the process: a thread leaves them to its main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield told


def _answers(model: Any, rows: Any) -> dict[str, Any]:
    """Return what a fitted classifier says: its numbers, its coefficients, and the rows' probabilities."""
    answers = {name: np.asarray(getattr(model, name), dtype=np.float64) for name in _NAMES if hasattr(model, name)}
    if rows is not None:
        answers["f"] = class_probability(model, rows)
        if hasattr(model, "predict_propensity"):
            answers["e"] = model.predict_propensity(rows)
    return answers


def _interval(estimate: Any, samples: Vector, level: float, method: str) -> BootstrapInterval:
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(samples, [tail, 1.0 - tail], axis=0)
    if method == "basic":
        low, high = 2.0 * estimate - high, 2.0 * estimate - low
    whole = (estimate, low, high)
    return BootstrapInterval(*(float(part) if np.ndim(part) == 0 else part for part in whole))


def _check_enough(outcomes: list[_Outcome]) -> None:
    """Raise where most fits failed, warn where some did."""
    failed = [outcome.error for outcome in outcomes if outcome.answers is None]
    if not failed:
        return
    (error, times), *_ = Counter(failed).most_common(1)
    told = f"{len(failed)} of {len(outcomes)} resamples could not be fitted ({times} times: {error})"
    if times == len(outcomes):
        raise ValueError(f"{told}. That is no chance: look for the cause in X, s and fit_params.")
    if 2 * len(failed) > len(outcomes):
        raise ValueError(f"{told}. Too few are left for an interval; are there more than a few labelled rows?")
    warn_user(f"{told}. The intervals are of the others, and too narrow if failing depends on the rows.", UserWarning)
