"""Goodness of fit of models to several looks, by a parametric bootstrap."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.special import ndtr

from scarless.checks.looks import Codes, looks_of
from scarless.checks.options import check_choice, check_jobs, check_random_stream, check_whole
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, legend_below
from scarless.diagnostics.audits._reading import AuditRows, read_audit_rows
from scarless.engines import Engine, attach
from scarless.models.inspection import problem_again
from scarless.models.pair import known_inference
from scarless.numerics import histories
from scarless.numerics.arrays import Array, ArrayLike, Matrix, Vector
from scarless.numerics.histories import MAX_LOOKS_FOR_HISTORIES, Histories
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.problem import PairProblem

STATISTICS = ("heterogeneity", "histories")
SIGNIFICANCE_LEVEL = 0.05
MIN_RESAMPLES = 19  # the smallest number that can give a p-value of 0.05
MIN_EXPECTED_ROWS = 5.0  # rarer histories are pooled; the usual rule for chi-squared tests
HISTORIES_SHOWN = 16  # the first histories in the printed table, and those with the largest deviations in the plot


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit:
    """Result of a test of whether the models fit the labels at several looks; prints as text.

    Attributes
    ----------
    p_value : float
        p-value of the requested statistic.
    statistic : float
        Value of the requested statistic.
    name : str
        Name of the requested statistic: "heterogeneity" or "histories".
    heterogeneity, p_heterogeneity : float
        Score statistic for differences between positives that no attribute explains, in standard errors, and its
        one-sided p-value.
    chi_square, p_chi_square : float
        Pearson's statistic for histories, and its p-value, which is NaN without resamples.
    c_hat : float
        Overdispersion: the chi-square divided by its mean over resamples. About 1 if the model fits; NaN without
        resamples.
    histories : Histories
        `names`, `observed` and `expected` numbers of rows of each history; "-" in a name means that there was no look.
    n_resamples, n_not_converged : int
        Number of resamples, and of those whose fit did not converge.
    samples : dict of str to array
        Statistics of the resamples.
    """

    p_value: float
    statistic: float
    name: str
    heterogeneity: float
    p_heterogeneity: float
    chi_square: float
    p_chi_square: float
    c_hat: float
    histories: Histories
    n_resamples: int
    n_not_converged: int
    samples: dict[str, Vector]

    @property
    def rejected(self) -> bool:
        """Whether the models are rejected at the significance level 0.05."""
        return self.p_value <= SIGNIFICANCE_LEVEL

    def sentences(self) -> list[str]:
        """Return the results as sentences."""
        numbers = f"{self.name} {self.statistic:.2f}, p = {self.p_value:.3g}"
        if self.rejected and self.name == "heterogeneity":
            lines = [
                f"The models do not fit ({numbers}): positives differ in how often they are labelled, and no attribute "
                "explains these differences. The class prior is then too low and its interval far too short. Audit "
                "rows and use audited_class_prior, or add the missing attribute to X."
            ]
        elif self.rejected:
            lines = [
                f"The models do not fit ({numbers}): check which histories are rarer or more common than expected."
            ]
        else:
            lines = [f"No evidence against the models ({numbers})."]
        if self.n_resamples:
            lines.append(f"Overdispersion of histories: {self.c_hat:.2f} (1 if the models fit).")
        else:
            lines.append("The p-value is a normal approximation; n_resamples=199 is more accurate.")
        return lines

    def to_frame(self) -> Any:
        """Return observed and expected numbers of rows for each history as a pandas DataFrame."""
        pandas = need("pandas", "GoodnessOfFit.to_frame", extra="frames")
        index = pandas.Index(self.histories.names, name="history")
        return pandas.DataFrame({"observed": self.histories.observed, "expected": self.histories.expected}, index=index)

    def plot(self, ax: Any = None) -> "GoodnessOfFitDisplay":
        """Draw the histories and return the `GoodnessOfFitDisplay`; its ``ax_`` is the Axes."""
        return GoodnessOfFitDisplay(self).plot(ax)

    def __str__(self) -> str:
        width = max(7, *(len(name) for name in self.histories.names))
        lines = [" ".join(self.sentences()), f"{'history':{width}}{'observed':>12}{'expected':>12}"]
        rows = list(zip(*self.histories, strict=True))
        lines += [f"{name:{width}}{seen:>12,.0f}{expected:>12,.1f}" for name, seen, expected in rows[:HISTORIES_SHOWN]]
        if len(rows) > HISTORIES_SHOWN:
            lines.append(f"... and {len(rows) - HISTORIES_SHOWN} more, in to_frame()")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def goodness_of_fit(
    estimator: Any,
    X: Any,
    s: ArrayLike,
    *,
    audit: ArrayLike | None = None,
    statistic: str = "heterogeneity",
    n_resamples: int = 199,
    random_state: Any = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> GoodnessOfFit:
    r"""Test whether the models fit the labels at several looks, by a parametric bootstrap.

    The models assume that looks are independent given the attributes. If positives differ in ways that no attribute
    explains, their labels are correlated: some rows are labelled at every look, others at none. The test uses the score
    statistic for such differences, with :math:`r_k = s_k - e_k`,

    .. math:: \sum_i q_i \Bigl[\bigl(\textstyle\sum_k r_{ik}\bigr)^2 - \sum_k e_{ik}(1 - e_{ik})\Bigr],

    corrected for the estimation of the parameters and divided by its standard error. It is the most powerful statistic
    against small differences. With three looks at 5,000 rows, the statistic was 5 when the logits of the propensities
    differed between positives with a standard deviation of 1. A chi-square statistic of the histories is computed as
    well; it also detects other kinds of misfit:

    .. math:: \sum_h \frac{(O_h - E_h)^2}{E_h}, \qquad E_h = \sum_i L_i(h),

    over histories `h` of rows with the same looks. Histories expected in fewer than 5 rows are pooled. From seven looks
    on, rows are counted by their number of labels instead of their history. In each resample, labels and the classes of
    audited rows are drawn from the fit, and the models are fitted again. The p-value is the share of statistics that
    are at least as large as the observed statistic; the observed statistic itself is counted too. With one look there
    is nothing to test.

    Parameters
    ----------
    estimator : fitted SAREMClassifier
        Classifier fitted to several looks without weights, also as the last step of a pipeline.
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
        Attributes of the rows that the estimator was fitted on.
    s : array of shape (n_rows, n_looks)
        Observed labels of these rows, as in `fit`.
    audit : array of shape (n_rows,), optional
        Audits of these rows, if `fit` had audits.
    statistic : {"heterogeneity", "histories"}, default="heterogeneity"
        Statistic for `p_value`.
    n_resamples : int, default=199
        Number of resamples. Each fit to a resample starts from the original optimum. With 0, the p-value of
        heterogeneity is a normal approximation, which was conservative in simulations.
    random_state : int, Generator or None
        Seed of the random numbers. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of resamples computed in parallel, as in joblib.
    progress : bool, optional
        Whether to show a progress bar. By default, in a terminal if ``rich`` is installed, and in a notebook if
        ``ipywidgets`` is installed too.

    Returns
    -------
    GoodnessOfFit

    References
    ----------
    MacKenzie and Bailey (2004), "Assessing the fit of site-occupancy models", JABES 9. Cox (1983), "Some remarks on
    overdispersion", Biometrika 70.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SAREMClassifier, goodness_of_fit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> hidden = 1.5 * rng.normal(size=2000)  # not a column of X
    >>> s = y[:, None] & (rng.random((2000, 3)) < 1 / (1 + np.exp(1 - X[:, [1]] - hidden[:, None])))
    >>> model = SAREMClassifier(propensity_attributes=[1]).fit(X, s)
    >>> goodness_of_fit(model, X, s, n_resamples=19, random_state=0).p_value
    0.05
    """
    check_choice(statistic, "statistic", STATISTICS)
    n_resamples = check_whole(n_resamples, "n_resamples", at_least=0)
    _check_resamples(n_resamples, statistic)
    check_jobs(n_jobs)
    rng = check_random_stream(random_state)
    refits = _refits(read_audit_rows(estimator, X, s, audit), s, audit)
    score, counted = refits.observed()
    shown = pool_rare(counted)
    seeds = rng.integers(2**63, size=n_resamples)
    outcomes: list[Statistics] = []
    with progress_bar("goodness of fit", n_resamples, progress if n_resamples else False) as advance:
        for outcome in Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(refits.drawn)(int(each)) for each in seeds
        ):
            outcomes.append(outcome)
            advance()
    found = _result(statistic, score, shown, outcomes)
    if 2 * found.n_not_converged > n_resamples > 0:
        warn_user(
            f"goodness_of_fit: {found.n_not_converged} of {n_resamples} fits to resampled labels did not converge, so "
            "p-values are approximate. Fit the estimator again with a larger max_iter or a smaller C.",
            UserWarning,
        )
    return found


def _check_resamples(n_resamples: int, statistic: str) -> None:
    if 0 < n_resamples < MIN_RESAMPLES:
        raise ValueError(
            f"n_resamples must be 0 (for the normal approximation) or at least {MIN_RESAMPLES}, because fewer "
            f"resamples cannot give a p-value of {SIGNIFICANCE_LEVEL}; got {n_resamples}."
        )
    if not n_resamples and statistic == "histories":
        raise ValueError("statistic='histories' has no p-value without resamples. Pass n_resamples=199.")


def _refits(data: AuditRows, s: ArrayLike, audit: ArrayLike | None) -> "Refits":
    model, looks = data.estimator, looks_of(data.estimator)
    if looks is None or looks.n_looks < 2:
        raise ValueError(
            f"estimator must be a SAREMClassifier fitted to at least two looks. This {type(model).__name__} was fitted "
            "to one label for each row, which leaves nothing to test. Fit a model to the labels of several looks, or "
            "check the class prior with audits (audited_class_prior)."
        )
    if looks.objective.heterogeneity:
        raise ValueError(
            "estimator was fitted with heterogeneity, but goodness_of_fit tests whether there is any heterogeneity. "
            "Fit without heterogeneity to test this. To test the fit itself, audit rows that are drawn at random and "
            "compare audited_class_prior with the class prior."
        )
    inference, problem = known_inference(model), problem_again(model, data.X, s, audit=audit)
    _check_same_rows(float(inference.sums.weight), problem.engine.n_rows)
    tol = 1e-10 if model.tol is None else model.tol
    return Refits(problem, looks, inference.parameters, data.labels, data.audit, tol, model.max_iter)


def _check_same_rows(weight: float, n_rows: int) -> None:
    if abs(weight - n_rows) > 1e-6 * n_rows:
        raise ValueError(
            "X and s must be the rows that the model was fitted on, and the fit must not have used sample_weight. X "
            f"has {n_rows} rows, but the sum of weights in fit was {weight:g}. Pass the rows of the fit, or fit again "
            "without weights."
        )


def _result(statistic: str, score: float, counted: Histories, outcomes: "list[Statistics]") -> GoodnessOfFit:
    chi_square = histories.chi_square(counted)
    samples = {
        "heterogeneity": np.array([each.heterogeneity for each in outcomes]),
        "histories": np.array([each.chi_square for each in outcomes]),
    }
    p_score, p_chi = float(ndtr(-score)), np.nan
    if outcomes:
        p_score = _bootstrap_p_value(samples["heterogeneity"], score)
        p_chi = _bootstrap_p_value(samples["histories"], chi_square)
    heterogeneous = statistic == "heterogeneity"
    return GoodnessOfFit(
        p_value=p_score if heterogeneous else p_chi,
        statistic=score if heterogeneous else chi_square,
        name=statistic,
        heterogeneity=score,
        p_heterogeneity=p_score,
        chi_square=chi_square,
        p_chi_square=p_chi,
        c_hat=chi_square / float(samples["histories"].mean()) if outcomes else np.nan,
        histories=counted,
        n_resamples=len(outcomes),
        n_not_converged=sum(not each.converged for each in outcomes),
        samples=samples,
    )


def _bootstrap_p_value(samples: Vector, value: float) -> float:
    """Return the share of statistics that are at least as large as `value`; `value` itself is counted too."""
    return (1.0 + float((samples >= value).sum())) / (1.0 + samples.size)


# --- resamples


class Probabilities(NamedTuple):
    """Probabilities of each row according to a fit."""

    f: Vector  # of being positive
    e: Matrix  # of a label at each look, for a positive row
    h: Matrix | None  # of a label at each look, for a negative row


class Statistics(NamedTuple):
    """Statistics of a fit to resampled labels."""

    heterogeneity: float
    chi_square: float
    converged: bool


@dataclass(frozen=True)
class Refits:
    """A fitted model and its rows, for fits to labels that are drawn from the model."""

    problem: PairProblem  # with the observed labels
    looks: Any  # of the model
    beta: Vector
    labels: Codes
    audit: Codes
    tol: float
    max_iter: int

    def statistics(self, engine: Engine, beta: Vector, labels: Codes, audit: Codes) -> tuple[float, Histories]:
        """Return the score statistic of heterogeneity, and the histories."""
        sums = engine.total(histories.heterogeneity_sums, self.problem.objective, beta)
        found = self.probabilities(engine, beta)
        f = np.where(audit >= 0, audit == 1, found.f)
        count = histories.count_histories if labels.shape[1] <= MAX_LOOKS_FOR_HISTORIES else histories.count_labels
        return histories.heterogeneity(sums), count(labels, f, found.e, found.h)

    def probabilities(self, engine: Engine, beta: Vector) -> Probabilities:
        """Return the probabilities of each row for given parameters."""
        objective = self.problem.objective
        columns = np.asarray(engine.collect(_block_probabilities, objective, beta))
        kinds, order = objective.n_kinds, self.looks.kinds
        has_h = columns.shape[1] > 1 + kinds
        return Probabilities(columns[:, 0], columns[:, 1 + order], columns[:, 1 + kinds + order] if has_h else None)

    def observed(self) -> tuple[float, Histories]:
        """Return the statistics of the observed labels."""
        return self.statistics(self.problem.engine, self.beta, self.labels, self.audit)

    def drawn(self, seed: int) -> Statistics:
        """Draw labels and audits, fit the models again from the original fit, and return the statistics."""
        rng = np.random.default_rng(seed)
        own = self.probabilities(self.problem.engine, self.beta)
        y = rng.random(own.f.size) < own.f
        negative = 0.0 if own.h is None else own.h
        probability = np.where(y[:, None], own.e, negative)
        labels = np.where(self.labels >= 0, rng.random(probability.shape) < probability, -1).astype(np.int8)
        audit = np.where(self.audit >= 0, y, -1).astype(np.int8)
        problem = self.problem.on(with_labels(self.problem.engine, self.looks, labels, audit))
        fit = fit_pair(problem, self.beta, FitOptions(self.tol, self.max_iter))
        score, counted = self.statistics(problem.engine, fit.parameters, labels, audit)
        return Statistics(score, histories.chi_square(pool_rare(counted)), fit.converged)


def pool_rare(counted: Histories) -> Histories:
    """Return the histories, with rare histories pooled."""
    return histories.pooled(counted, MIN_EXPECTED_ROWS)


def with_labels(engine: Engine, looks: Any, labels: Codes, audit: Codes) -> Engine:
    """Return the rows of an engine with other labels and audits."""
    found, seen = looks.counts(labels)
    s = (labels == 1).any(axis=1).astype(np.float64)
    return attach(engine, s=s, labels=found, looks=seen, audit=audit, w=np.ones(s.size))


def _block_probabilities(X: Any, rows: Any, objective: LooksLikelihood, beta: Vector) -> Array:
    terms = objective.terms(X, rows, beta)
    parts = [terms.f[:, None], terms.e, *([] if terms.h is None else [np.asarray(terms.h)])]
    return np.concatenate(parts, axis=1)


# --- plot


class GoodnessOfFitDisplay(Display):
    """Plot of the observed minus the expected number of rows of each history, in standard deviations.

    Parameters
    ----------
    fit : GoodnessOfFit
        The result to draw.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the last plot.

    See Also
    --------
    goodness_of_fit : Computes the result.

    Examples
    --------
    >>> from scarless.diagnostics import GoodnessOfFitDisplay
    >>> GoodnessOfFitDisplay.from_estimator(model, X, s)  # doctest: +SKIP
    """

    def __init__(self, fit: GoodnessOfFit) -> None:
        if not isinstance(fit, GoodnessOfFit):
            raise TypeError(
                f"fit must be a GoodnessOfFit, as returned by goodness_of_fit; got {type(fit).__name__}. For a model, "
                "use GoodnessOfFitDisplay.from_estimator(estimator, X, s)."
            )
        self.fit = fit

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        s: ArrayLike,
        *,
        audit: ArrayLike | None = None,
        n_resamples: int = 199,
        random_state: Any = None,
        n_jobs: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Test a fit and draw its histories.

        Parameters
        ----------
        estimator, X, s, audit, n_resamples, random_state, n_jobs
            See `goodness_of_fit`.
        ax : matplotlib Axes, optional
            Axes to draw on. By default, a new figure.

        Returns
        -------
        GoodnessOfFitDisplay
        """
        options = {"audit": audit, "n_resamples": n_resamples, "random_state": random_state, "n_jobs": n_jobs}
        return cls(goodness_of_fit(estimator, X, s, **options)).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw the deviations on the Axes."""
        names, observed, expected = self.fit.histories
        deviation = (observed - expected) / np.sqrt(np.maximum(expected, 1e-12))
        kept = np.sort(np.argsort(-np.abs(deviation), kind="stable")[:HISTORIES_SHOWN])
        places = np.arange(kept.size)
        ax.axvspan(-2, 2, color=GREY, alpha=0.12, lw=0, label="within 2 standard deviations (sd)")
        ax.axvline(0, color=GREY, lw=1)
        for more, colour, label in ((True, ORANGE, "more rows than expected"), (False, BLUE, "fewer than expected")):
            mine = (deviation[kept] > 0) == more
            if mine.any():
                ax.barh(places[mine], deviation[kept][mine], color=colour, height=0.7, label=label)
        ticks = [f"{names[j]}   ({observed[j]:,.0f}; {expected[j]:,.0f} expected)" for j in kept]
        ax.set_yticks(places, ticks, fontsize="small")
        ax.invert_yaxis()
        limit = max(3.0, 1.1 * float(np.abs(deviation).max(initial=0.0)))
        ax.set_xlim(-limit, limit)
        verdict = "The models do not fit" if self.fit.rejected else "No evidence against the models"
        dropped = len(names) - kept.size
        ax.set(
            xlabel="Number of rows: observed minus expected, in sd",
            ylabel="History of labels" + (f" ({dropped} with smaller deviations not shown)" if dropped else ""),
            title=f"{verdict}:\n{self.fit.name}, p = {self.fit.p_value:.2g}",
        )
        legend_below(ax)
