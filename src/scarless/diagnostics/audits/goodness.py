"""Do several looks fit the models? Labels are drawn from the fit, and compared."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.special import ndtr

from scarless.checks.looks import Codes, looks_of
from scarless.checks.options import check_choice, check_jobs, check_random_stream, check_whole
from scarless.diagnostics._drawing import BLUE, GREY, ORANGE, Display, legend_below
from scarless.diagnostics.audits._reading import Judged, read_judged
from scarless.engines import Engine, attach
from scarless.models.inspection import problem_again
from scarless.models.pair import known_inference
from scarless.numerics import histories
from scarless.numerics.arrays import Array, ArrayLike, Matrix, Vector
from scarless.numerics.histories import MOST_LOOKS, Histories
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.problem import PairProblem

STATISTICS = ("heterogeneity", "histories")
MIN_RESAMPLES, LEVEL = 19, 0.05  # so many resamples can reach a p-value of this level
MIN_EXPECTED_ROWS = 5.0  # of a history that is looked at by itself; the usual rule for chi-squares
HISTORIES_SHOWN = 16  # in the printed table, and in the picture: there those farthest from what is expected


@dataclass(frozen=True, eq=False, repr=False)
class GoodnessOfFit:
    """How well labels at several looks fit the models; prints in words.

    Attributes
    ----------
    p_value : float
        Of the statistic that was asked for.
    statistic : float
        That statistic.
    name : str
        Its name: "heterogeneity" or "histories".
    heterogeneity, p_heterogeneity : float
        The score statistic of differences between positives that no attribute explains, in standard errors, one-sided.
    chi_square, p_chi_square : float
        Pearson's statistic of histories; its p-value is NaN without resamples.
    c_hat : float
        Overdispersion: the chi-square divided by its mean over resamples. About 1 for a model that fits; NaN without
        resamples.
    histories : Histories
        `names`, `observed` and `expected`: rows by what their looks found, "-" where there was no look.
    n_resamples, n_not_converged : int
    samples : dict of str to array
        The resampled statistics.
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
    def found(self) -> bool:
        """Whether the models do not fit, at the level .05."""
        return self.p_value <= LEVEL

    def sentences(self) -> list[str]:
        """Return what was found, in words."""
        numbers = f"{self.name} {self.statistic:.2f}, p = {self.p_value:.3g}"
        if self.found and self.name == "heterogeneity":
            told = [
                f"The models do not fit ({numbers}): positives differ in how often they are labelled in ways that no "
                "attribute explains. The class prior is then too low, and its interval far too short. Audit rows, "
                "which is safe from this, or find the attribute."
            ]
        elif self.found:
            told = [f"The models do not fit ({numbers}): see which histories are rarer or more frequent than expected."]
        else:
            told = [f"Nothing speaks against the models ({numbers})."]
        if self.n_resamples:
            told.append(f"Overdispersion of histories: {self.c_hat:.2f} (1 if the models fit).")
        else:
            told.append("The p-value is the normal one; n_resamples=199 is surer.")
        return told

    def to_frame(self) -> Any:
        """Return observed and expected numbers of rows by history as a pandas DataFrame."""
        pandas = need("pandas", "GoodnessOfFit.to_frame", extra="frames")
        index = pandas.Index(self.histories.names, name="history")
        return pandas.DataFrame({"observed": self.histories.observed, "expected": self.histories.expected}, index=index)

    def plot(self, ax: Any = None) -> "GoodnessOfFitDisplay":
        """Draw histories as a `GoodnessOfFitDisplay` and return that; its ``ax_`` has the Axes."""
        return GoodnessOfFitDisplay(self).plot(ax)

    def __str__(self) -> str:
        width = max(7, *(len(name) for name in self.histories.names))
        lines = [" ".join(self.sentences()), f"{'history':{width}}{'observed':>12}{'expected':>12}"]
        rows = list(zip(*self.histories, strict=True))
        lines += [f"{name:{width}}{seen:>12,.0f}{hoped:>12,.1f}" for name, seen, hoped in rows[:HISTORIES_SHOWN]]
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
    r"""Test whether labels at several looks fit the models, by a parametric bootstrap.

    Looks count as independent given the attributes. If positives differ in ways that no attribute explains, their
    labels stick together: some rows are found at every look, others at none. The score statistic of such a difference,
    with :math:`r_k = s_k - e_k`,

    .. math:: \sum_i q_i \Bigl[\bigl(\textstyle\sum_k r_{ik}\bigr)^2 - \sum_k e_{ik}(1 - e_{ik})\Bigr],

    less what the fitted parameters take up, in its standard errors, is the most powerful one against small differences.
    With three looks of 5,000 rows it stood at 5 where propensities differ with a standard deviation of 1 in the logit,
    and the chi-square of histories at twice its quantile. That chi-square is computed as well, for any other misfit:

    .. math:: \sum_h \frac{(O_h - E_h)^2}{E_h}, \qquad E_h = \sum_i L_i(h),

    over histories `h` of rows that were looked at on the same occasions; those expected fewer than 5 times are put
    together, and from seven looks on the number of labels takes the place of the history. Labels, and the classes of
    audited rows, are drawn from the fit, the models are fitted again, and the p-value is the share of statistics that
    are at least as large. One look of each row leaves nothing to test.

    Parameters
    ----------
    estimator : fitted SAREMClassifier
        To several looks, without weights; also at the end of a pipeline.
    X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        The rows that it was fitted on.
    s : array of shape (n_rows, n_looks)
        Their labels, as in `fit`.
    audit : array of shape (n_rows,), optional
        Their audits, if `fit` had any.
    statistic : {"heterogeneity", "histories"}, default="heterogeneity"
        Whose p-value is `p_value`.
    n_resamples : int, default=199
        Fits, each from the first one's optimum. 0: none, the p-value of heterogeneity is then the normal one, which in
        simulations was cautious.
    random_state : int, Generator or None
        Seed.
    n_jobs : int, optional
        Processes, as in joblib; the result does not depend on it.
    progress : bool, optional
        Whether to show a bar. None: in a terminal or notebook, if the package ``rich`` is there.

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
    >>> hidden = 1.5 * rng.normal(size=2000)  # that no column of X knows of
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
    refits = _refits(read_judged(estimator, X, s, audit), s, audit)
    score, counted = refits.own()
    shown = counted_pooled(counted)
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
            f"goodness_of_fit: {found.n_not_converged} of {n_resamples} fits to drawn labels did not converge; "
            "p-values are rough. Fit with a larger max_iter, or a smaller C.",
            UserWarning,
        )
    return found


def _check_resamples(n_resamples: int, statistic: str) -> None:
    if 0 < n_resamples < MIN_RESAMPLES:
        raise ValueError(
            f"n_resamples must be 0, for the normal p-value, or at least {MIN_RESAMPLES}: fewer cannot reach a p-value "
            f"of {LEVEL}; got {n_resamples}."
        )
    if not n_resamples and statistic == "histories":
        raise ValueError("statistic='histories' has no p-value without resamples: give n_resamples=199.")


def _refits(judged: Judged, s: ArrayLike, audit: ArrayLike | None) -> "Refits":
    model, looks = judged.estimator, looks_of(judged.estimator)
    if looks is None or looks.n_looks < 2:
        raise ValueError(
            f"goodness_of_fit needs a SAREMClassifier fitted to at least two looks of each row; this "
            f"{type(model).__name__} saw one label, which fits any propensity: there is nothing to test. Make a second "
            "look, or audit rows."
        )
    inference, problem = known_inference(model), problem_again(model, judged.X, s, audit=audit)
    _check_same_rows(float(inference.sums.weight), problem.engine.n_rows)
    tol = 1e-10 if model.tol is None else model.tol
    return Refits(problem, looks, inference.parameters, judged.labels, judged.audit, tol, model.max_iter)


def _check_same_rows(weight: float, n_rows: int) -> None:
    if abs(weight - n_rows) > 1e-6 * n_rows:
        raise ValueError(
            f"X and s must be the rows that the model was fitted on, without weights; there are {n_rows} rows, and the "
            f"fit counted {weight:g}."
        )


def _result(statistic: str, score: float, counted: Histories, outcomes: "list[Statistics]") -> GoodnessOfFit:
    chi_square = histories.chi_square(counted)
    samples = {
        "heterogeneity": np.array([each.heterogeneity for each in outcomes]),
        "histories": np.array([each.chi_square for each in outcomes]),
    }
    p_score, p_chi = float(ndtr(-score)), np.nan
    if outcomes:
        p_score = _share(samples["heterogeneity"], score)
        p_chi = _share(samples["histories"], chi_square)
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


def _share(samples: Vector, value: float) -> float:
    """Return the p-value: the share of statistics at least as large, the rows' own among them."""
    return (1.0 + float((samples >= value).sum())) / (1.0 + samples.size)


# --- labels drawn from the fit, and the model fitted to them again


class Probabilities(NamedTuple):
    """What a fit thinks of each row: of its class, and of each of its looks."""

    f: Vector
    e: Matrix
    h: Matrix | None


class Statistics(NamedTuple):
    """How far labels are from what a fit to them expects."""

    heterogeneity: float
    chi_square: float
    converged: bool


@dataclass(frozen=True)
class Refits:
    """A fitted model and its rows, for fits to labels that it draws itself."""

    problem: PairProblem  # with the rows' own labels
    looks: Any  # of the model
    beta: Vector
    labels: Codes
    audit: Codes
    tol: float
    max_iter: int

    def statistics(self, engine: Engine, beta: Vector, labels: Codes, audit: Codes) -> tuple[float, Histories]:
        """Return the score statistic of heterogeneity, and histories."""
        sums = engine.total(histories.heterogeneity_sums, self.problem.objective, beta)
        found = self.probabilities(engine, beta)
        f = np.where(audit >= 0, audit == 1, found.f)
        count = histories.count_histories if labels.shape[1] <= MOST_LOOKS else histories.count_labels
        return histories.heterogeneity(sums), count(labels, f, found.e, found.h)

    def probabilities(self, engine: Engine, beta: Vector) -> Probabilities:
        """Return what the models with these parameters think of each row."""
        objective = self.problem.objective
        columns = np.asarray(engine.collect(_block_probabilities, objective, beta))
        kinds, order = objective.n_kinds, self.looks.kinds
        has_h = columns.shape[1] > 1 + kinds
        return Probabilities(columns[:, 0], columns[:, 1 + order], columns[:, 1 + kinds + order] if has_h else None)

    def own(self) -> tuple[float, Histories]:
        """Return the statistics of the rows themselves."""
        return self.statistics(self.problem.engine, self.beta, self.labels, self.audit)

    def drawn(self, seed: int) -> Statistics:
        """Draw labels and audits where there are some, fit again from the fit itself, and return the statistics."""
        rng = np.random.default_rng(seed)
        own = self.probabilities(self.problem.engine, self.beta)
        y = rng.random(own.f.size) < own.f
        negative = 0.0 if own.h is None else own.h
        chance = np.where(y[:, None], own.e, negative)
        labels = np.where(self.labels >= 0, rng.random(chance.shape) < chance, -1).astype(np.int8)
        audit = np.where(self.audit >= 0, y, -1).astype(np.int8)
        problem = self.problem.on(with_labels(self.problem.engine, self.looks, labels, audit))
        fit = fit_pair(problem, self.beta, FitOptions(self.tol, self.max_iter))
        score, counted = self.statistics(problem.engine, fit.parameters, labels, audit)
        return Statistics(score, histories.chi_square(counted_pooled(counted)), fit.converged)


def counted_pooled(counted: Histories) -> Histories:
    """Return histories as the test sees them."""
    return histories.pooled(counted, MIN_EXPECTED_ROWS)


def with_labels(engine: Engine, looks: Any, labels: Codes, audit: Codes) -> Engine:
    """Return rows with these labels and audits."""
    found, seen = looks.counts(labels)
    s = (labels == 1).any(axis=1).astype(np.float64)
    return attach(engine, s=s, labels=found, looks=seen, audit=audit, w=np.ones(s.size))


def _block_probabilities(X: Any, rows: Any, objective: LooksLikelihood, beta: Vector) -> Array:
    terms = objective.terms(X, rows, beta)
    parts = [terms.f[:, None], terms.e, *([] if terms.h is None else [np.asarray(terms.h)])]
    return np.concatenate(parts, axis=1)


# --- a picture


class GoodnessOfFitDisplay(Display):
    """How many more, or fewer, rows have each history than the models expect, in standard deviations.

    Parameters
    ----------
    fit : GoodnessOfFit

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        After `plot`.

    See Also
    --------
    goodness_of_fit : Computes what is drawn.

    Examples
    --------
    >>> from scarless.diagnostics import GoodnessOfFitDisplay
    >>> GoodnessOfFitDisplay.from_estimator(model, X, s)  # doctest: +SKIP
    """

    def __init__(self, fit: GoodnessOfFit) -> None:
        if not isinstance(fit, GoodnessOfFit):
            raise TypeError(
                f"fit must be what goodness_of_fit returns, a GoodnessOfFit; got {type(fit).__name__}. Of a model, "
                "draw GoodnessOfFitDisplay.from_estimator(estimator, X, s)."
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
            As in `goodness_of_fit`.
        ax : matplotlib Axes, optional
            Where to draw. None: a new figure.

        Returns
        -------
        GoodnessOfFitDisplay
        """
        options = {"audit": audit, "n_resamples": n_resamples, "random_state": random_state, "n_jobs": n_jobs}
        return cls(goodness_of_fit(estimator, X, s, **options)).plot(ax)

    def draw(self, ax: Any) -> None:
        """Draw into the Axes."""
        names, observed, expected = self.fit.histories
        away = (observed - expected) / np.sqrt(np.maximum(expected, 1e-12))
        kept = np.sort(np.argsort(-np.abs(away), kind="stable")[:HISTORIES_SHOWN])
        places = np.arange(kept.size)
        ax.axvspan(-2, 2, color=GREY, alpha=0.12, lw=0, label="within 2 standard deviations (sd)")
        ax.axvline(0, color=GREY, lw=1)
        for more, colour, label in ((True, ORANGE, "more rows than expected"), (False, BLUE, "fewer")):
            mine = (away[kept] > 0) == more
            if mine.any():
                ax.barh(places[mine], away[kept][mine], color=colour, height=0.7, label=label)
        told = [f"{names[j]}   ({observed[j]:,.0f}; {expected[j]:,.0f} expected)" for j in kept]
        ax.set_yticks(places, told, fontsize="small")
        ax.invert_yaxis()
        reach = max(3.0, 1.1 * float(np.abs(away).max(initial=0.0)))
        ax.set_xlim(-reach, reach)
        verdict = "do not fit" if self.fit.found else "may be right"
        dropped = len(names) - kept.size
        ax.set(
            xlabel="Rows: observed minus expected, in sd",
            ylabel="Labels at looks" + (f" ({dropped} nearer ones left out)" if dropped else ""),
            title=f"The models {verdict}:\n{self.fit.name}, p = {self.fit.p_value:.2g}",
        )
        legend_below(ax)
