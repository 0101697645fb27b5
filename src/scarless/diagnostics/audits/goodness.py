"""Do several looks fit the models? Labels are drawn from the fit, and compared."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import ndtr

from scarless.checks.looks import looks_of
from scarless.checks.options import check_choice, check_jobs, check_whole
from scarless.checks.rows import check_rows, row_totals
from scarless.checks.vectors import check_random_stream
from scarless.diagnostics.audits._reading import Judged, read_judged
from scarless.diagnostics.audits._resampling import Refits, Statistics, counted_pooled, with_labels
from scarless.models.pair import known_inference
from scarless.models.reading import facts_of
from scarless.numerics import histories
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.histories import Histories
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.problem import PairProblem, what_is_seen

if TYPE_CHECKING:
    from scarless.diagnostics.audits.goodness_display import GoodnessOfFitDisplay

STATISTICS = ("heterogeneity", "histories")
_FEWEST = 19  # resamples that can reach a p-value of .05
_LEVEL = 0.05
_SHOWN = 16  # histories in the printed table


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
        return self.p_value <= _LEVEL

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
        from scarless.diagnostics.audits.goodness_display import GoodnessOfFitDisplay  # noqa: PLC0415

        return GoodnessOfFitDisplay(self).plot(ax)

    def __str__(self) -> str:
        width = max(7, *(len(name) for name in self.histories.names))
        lines = [" ".join(self.sentences()), f"{'history':{width}}{'observed':>12}{'expected':>12}"]
        rows = list(zip(*self.histories, strict=True))
        lines += [f"{name:{width}}{seen:>12,.0f}{hoped:>12,.1f}" for name, seen, hoped in rows[:_SHOWN]]
        if len(rows) > _SHOWN:
            lines.append(f"... and {len(rows) - _SHOWN} more, in to_frame()")
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
    refits = _refits(read_judged(estimator, X, s, audit))
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
    if 0 < n_resamples < _FEWEST:
        raise ValueError(
            f"n_resamples must be 0, for the normal p-value, or at least {_FEWEST}: fewer cannot reach a p-value of "
            f"{_LEVEL}; got {n_resamples}."
        )
    if not n_resamples and statistic == "histories":
        raise ValueError("statistic='histories' has no p-value without resamples: give n_resamples=199.")


def _refits(judged: Judged) -> Refits:
    model = judged.estimator
    looks = looks_of(model)
    if looks is None or looks.n_looks < 2:
        raise ValueError(
            f"goodness_of_fit needs a SAREMClassifier fitted to at least two looks of each row; this "
            f"{type(model).__name__} saw one label, which fits any propensity: there is nothing to test. Make a second "
            "look, or audit rows."
        )
    _check_same_audits(model, judged)
    engine = with_labels(check_rows(model, judged.X), looks, judged.labels, judged.audit)
    engine, facts = facts_of(model, engine, judged.X, looks)
    inference = known_inference(model)
    _check_same_rows(float(inference.sums.weight), engine.n_rows)
    penalties, seen = (inference.C, inference.propensity_C), what_is_seen(engine, looks.objective)
    problem = PairProblem(engine, row_totals(engine), looks.objective, *penalties, None, facts, seen)
    tol = 1e-10 if model.tol is None else model.tol
    return Refits(problem, looks, inference.parameters, judged.labels, judged.audit, tol, model.max_iter)


def _check_same_audits(model: Any, judged: Judged) -> None:
    seen, given = int(model.n_audited_), int(judged.audited.sum())
    if seen != given:
        raise ValueError(
            f"audit has {given} classes, and the model was fitted with {seen}: give the audits of fit as audit=."
        )


def _check_same_rows(weight: float, n_rows: int) -> None:
    if abs(weight - n_rows) > 1e-6 * n_rows:
        raise ValueError(
            f"X and s must be the rows that the model was fitted on, without weights; there are {n_rows} rows, and the "
            f"fit counted {weight:g}."
        )


def _result(statistic: str, score: float, counted: Histories, outcomes: list[Statistics]) -> GoodnessOfFit:
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
