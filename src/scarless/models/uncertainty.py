"""Standard errors, intervals and a summary, for classifiers made of two logistic models."""

import zlib
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import check_choice, check_share, check_whole
from scarless.checks.rows import check_rows, check_rows_again, row_totals, warn_of_row_order
from scarless.checks.vectors import check_counts, check_random_stream, check_vector
from scarless.engines import Engine, attach
from scarless.models.base import need_labels
from scarless.models.summary import (
    INTERCEPT,
    ONE_PROPENSITY,
    Block,
    Summary,
    attribute_names,
    collinear_remarks,
    few_labels_remarks,
)
from scarless.numerics.arrays import ArrayLike, Mask, Matrix, Vector
from scarless.numerics.interval import Interval
from scarless.numerics.linear import Design
from scarless.numerics.order import exact_keys
from scarless.pair.groups import clustered, variance_ratio, warn_of_heavy_rows, widened, widened_relaxation
from scarless.pair.inference import PairInference
from scarless.pair.logistic import all_labelled
from scarless.pair.problem import PairProblem, what_is_seen
from scarless.pair.relaxed import Levels, draw_class_priors, levels_interval

EXCHANGEABLE = (
    "Both models see the same attributes: the labels alone do not say which model is the classifier, and an "
    "attribute's place in one or the other is a matter of form. Name what drives the labelling, or audit."
)
NOT_CONVERGED = "The solver did not converge: neither estimates nor standard errors are those of the optimum."


class StandardErrors(NamedTuple):
    """Standard errors in the shapes of what they belong to; NaN for columns that a model does not see."""

    coef: Vector
    intercept: Vector
    propensity_coef: Vector
    propensity_intercept: Vector
    class_prior: float
    label_frequency: float
    visit_coef: Vector | None = None  # of fits to several looks
    false_positive_rate: Any = None  # where it is estimated


class InferenceMixin:
    r"""Uncertainty of a fitted pair by the delta method.

    Parameters :math:`\theta` of both models have the covariance :math:`(H + R)^{-1}`, with `H` the observed information
    of the likelihood at the optimum and `R` the penalty. Other quantities follow by their gradients; probabilities get
    intervals that are symmetric in the logit. Right when both models are of the right form, the fit is in the right
    basin (see `identifiability_report`) and rows are many: `profile_class_prior` and `bootstrap_intervals` do not
    lean on the last. Near a boundary, as a label frequency of 1, only they say something. Weights count rows.
    Intervals centre on the penalised estimates, which are shrunk towards 0.
    """

    _inference: PairInference | None
    relaxation_: Any
    _levels: tuple[Levels, ...] = ()  # of relaxed fits: how likely each class prior is
    _has_coefficients = True  # of both models
    _n_groups = 0  # of rows that belong together, where the fit was told
    _looks: Any = None  # what looks are like; None: one label of each row
    _known_where = "estimator=None, propensity_estimator=None"

    def summary(self, *, level: float = 0.95) -> Summary:
        """Return a table of both models: estimates, standard errors, tests against 0, intervals.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that an interval covers.

        Returns
        -------
        Summary
            Prints as text, shows as HTML in a notebook; ``to_frame()`` gives a pandas DataFrame.

        Examples
        --------
        >>> from scarless import SCARClassifier
        >>> from scarless.datasets import load_simulated
        >>> from scarless.labelling import SCAR, simulate_labels
        >>> data = load_simulated(5000, 3)
        >>> s = simulate_labels(data.y, SCAR(0.5).propensity(data.X), random_state=0)
        >>> model = SCARClassifier().fit(data.frame, s)
        >>> print(model.summary())  # doctest: +SKIP
        >>> model.summary().to_frame().round(2)
                              coef  std_err      z  p_value   low  high
        model      attribute
        classifier x0         4.96     0.31  16.09     0.00  4.36  5.56
                   x1        -2.34     0.19 -12.28     0.00 -2.72 -1.97
                   x2         1.80     0.18  10.24     0.00  1.45  2.14
                   intercept -0.23     0.11  -2.01     0.04 -0.45 -0.01
        propensity intercept  0.03     0.06   0.46     0.65 -0.09  0.15
        """
        inference = self._known_inference()
        z = inference.quantile(check_share(level, "level"))
        errors = inference.parameter_errors()
        n_f = inference.f.n_parameters
        return Summary(
            title=type(self).__name__,
            level=level,
            n_rows=inference.n_rows,
            weight=float(inference.sums.weight),
            labelled=float(inference.sums.labelled),
            log_likelihood=inference.log_likelihood,
            converged=bool(self.converged_),  # type: ignore[attr-defined]
            C=inference.C,
            propensity_C=inference.propensity_C,
            class_prior=self.class_prior_,  # type: ignore[attr-defined]
            class_prior_interval=self.class_prior_interval(level=level),
            label_frequency=self.label_frequency_,  # type: ignore[attr-defined]
            label_frequency_interval=self.label_frequency_interval(level=level),
            blocks=(
                Block.of("Classifier: Pr(y=1|x)", self._names(inference.f), inference.beta_f, errors[:n_f], z),
                Block.of("Propensity: Pr(s=1|y=1,x)", self._names(inference.e), inference.beta_e, errors[n_f:], z),
            ),
            remarks=(*self._collinear_remarks(), *self._remarks()),
            relaxed=bool(self._levels),
        )

    @available_if(lambda model: model._has_coefficients)
    def standard_errors(self) -> StandardErrors:
        """Return the standard errors of everything that the fit estimates.

        Returns
        -------
        StandardErrors
            Named fields `coef`, `intercept`, `propensity_coef`, `propensity_intercept`, shaped like the attributes of
            those names, and `class_prior`, `label_frequency`. Infinite where the data tell nothing.
        """
        inference = self._known_inference()
        errors, n_f = inference.parameter_errors(), inference.f.n_parameters
        return StandardErrors(
            *self._spread(errors[:n_f], inference.f),
            *self._spread(errors[n_f:], inference.e),
            class_prior=inference.error_of(inference.class_prior),
            label_frequency=inference.error_of(inference.label_frequency),
        )

    def class_prior_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.
        kind : {"auto", "levels", "model"}, default="auto"
            "model": by the delta method, as if both models were of the right form and not chosen: on tables where that
            is not so it covers far less often than it says (nominal 95%: 64 to 77% on the tables of
            ``benchmarks.elsewhere``). "levels", for relaxed fits: from the likelihood of every class prior, with all
            else as the labels like it best, over all sets of attributes and classifiers that the labels leave possible,
            a nat of log-likelihood counting for a third. "auto": "levels" where the fit is relaxed, else "model".

        Returns
        -------
        Interval
            ``low, high``. By "model" symmetric in the logit; where such a fit has all positives labelled, `high` is 1:
            `scarless.diagnostics.profile_class_prior` says more.
        """
        level = check_share(level, "level")
        if self._kind(kind) == "levels":
            return self._levels_interval("class_prior", level)
        return self._known_inference().class_prior_interval(level)

    def label_frequency_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(s=1|y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.
        kind : {"auto", "levels", "model"}, default="auto"
            As in `class_prior_interval`.

        Returns
        -------
        Interval
            ``low, high``.
        """
        level = check_share(level, "level")
        if self._kind(kind) == "levels":
            return self._levels_interval("label_frequency", level)
        inference = self._known_inference()
        return inference.interval_of(inference.label_frequency, level)

    def _kind(self, kind: str) -> str:
        """Return how an interval of a share is to be had."""
        check_is_fitted(self)
        check_choice(kind, "kind", ("auto", "levels", "model"))
        if kind == "levels" and not self._levels:
            raise ValueError("kind='levels' is for relaxed fits, as SAREMClassifierCV's are; this fit is not relaxed.")
        return ("levels" if self._levels else "model") if kind == "auto" else kind

    def _levels_interval(self, share: str, level: float) -> Interval:
        return levels_interval(self._levels, share, level)

    def predict_proba_interval(self, X: Any, *, level: float = 0.95) -> Vector:
        r"""Return an interval for each row's :math:`f(x) = \Pr(y=1|x)`, one row at a time.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        level : float, default=0.95
            Nominal probability that each interval covers.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end.
        """
        return self._row_intervals(X, level, of="class")

    def predict_propensity_interval(self, X: Any, *, level: float = 0.95) -> Vector:
        r"""Return an interval for each row's propensity :math:`e(x) = \Pr(s=1|y=1,x)`, one row at a time.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        level : float, default=0.95
            Nominal probability that each interval covers.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end.
        """
        return self._row_intervals(X, level, of="propensity")

    def predict_posterior_interval(self, X: Any, s: ArrayLike, *, level: float = 0.95) -> Vector:
        r"""Return an interval for each row's :math:`\Pr(y=1|x,s)`, one row at a time.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        level : float, default=0.95
            Nominal probability that each interval covers.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end; both 1 for labelled rows.
        """
        need_labels(s, "predict_posterior_interval(X, s)")
        return self._row_intervals(X, level, of="posterior", s=s)

    def draw_posteriors(self, X: Any, s: ArrayLike, *, n_draws: int = 200, random_state: Any = 0) -> Matrix:
        r"""Draw each row's :math:`\Pr(y=1|x,s)` from what the labels leave possible, all rows of a draw together.

        For numbers about many rows at once, such as how many of the 50 that rank highest are positive: compute the
        number for each draw, and take quantiles.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,)
            Observed labels, coded as in `fit`.
        n_draws : int, default=200
            How many.
        random_state : int, numpy generator or RandomState, default=0
            Of the draws.

        Returns
        -------
        array of shape (n_draws, n_rows)
            1 for labelled rows.
        """
        need_labels(s, "draw_posteriors(X, s)")
        n_draws, rng = check_whole(n_draws, "n_draws", at_least=1), check_random_stream(random_state)
        return self._draws(X, s, n_draws, rng).T

    def left_out_logits(self, X: Any, s: ArrayLike, *, sample_weight: ArrayLike | None = None) -> tuple[Vector, Vector]:
        """Return the logits of class and propensity of the rows of the fit, as models without each row have them.

        For questions that a row must not answer for itself, such as whether the rows that rank highest are labelled as
        often as they should be. Of two logistic models to first order; of models that were fitted in folds by those
        folds.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
            The rows of the fit.
        s : array of shape (n_rows,)
            Their labels.
        sample_weight : array of shape (n_rows,), optional
            Their weights: a row of weight 3 is left out with its copies.

        Returns
        -------
        array of shape (n_rows,), array of shape (n_rows,)
        """
        inference, engine = self._known_inference(), check_rows(self, X)
        if inference.told_by_height:
            raise NoLeftOutLogits("left_out_logits is for fits to one label of each row, without audits and facts.")
        labels = check_vector(self._coding.encode(s, "s"), "s", n_rows=engine.n_rows)  # type: ignore[attr-defined]
        w = check_counts(sample_weight, n_rows=labels.size)
        u, v = inference.left_out_logits(attach(engine, s=labels, w=w)).T
        return u, v

    def _with_labels(self, X: Any, s: Any) -> Engine:
        """Return checked rows with their labels."""
        engine = check_rows(self, X)
        return attach(engine, s=self._labelled_rows(X, s, engine.n_rows).astype(np.float64))

    def _labelled_rows(self, X: Any, s: Any, n_rows: int) -> Mask:
        """Return which rows are labelled."""
        labels = check_vector(self._coding.encode(s, "s"), "s", n_rows=n_rows)  # type: ignore[attr-defined]
        warn_of_row_order(X, s=s)
        return np.asarray(labels == 1)

    def _draws(self, X: Any, s: Any, n_draws: int, rng: np.random.Generator) -> Matrix:
        inference, relaxation = self._known_inference(), getattr(self, "relaxation_", None)
        priors = draw_class_priors(self._levels, n_draws, rng) if self._levels else None
        return inference.draw_posteriors(self._with_labels(X, s), n_draws, rng, relaxation, priors)

    def _row_intervals(self, X: Any, level: float, *, of: str, s: Any = None) -> Vector:
        inference, relaxation = self._known_inference(), getattr(self, "relaxation_", None)
        level = check_share(level, "level")
        rows = check_rows(self, X) if s is None else self._with_labels(X, s)
        return inference.row_intervals(rows, level, of=of, relaxation=relaxation)

    def _account_for(self, groups: Any, engine: Any) -> None:
        """Have intervals and standard errors count the groups that rows belong to."""
        self._n_groups = 0
        if groups is None:
            totals = row_totals(engine)
            warn_of_heavy_rows(float(totals.n_rows), float(totals.weight), type(self).__name__)
        if groups is None or self._inference is None:
            return
        plain, self._n_groups = self._inference, int(groups.max()) + 1
        self._inference = clustered(plain, engine, groups)
        if self._levels:
            grown = variance_ratio(plain, self._inference)
            self._levels = widened(self._levels, grown)
            self.relaxation_ = widened_relaxation(self.relaxation_, grown)  # of which rows' intervals are made

    def _group_remarks(self) -> list[str]:
        """Say that rows belong to groups, where the fit was told."""
        if not self._n_groups:
            return []
        return [
            f"Rows belong to {self._n_groups:,} groups, for which standard errors and intervals account (sandwich "
            "formula)."
        ]

    def _remarks(self) -> list[str]:
        """Return what standard errors leave out."""
        remarks = self._group_remarks()
        remarks += [remark for levels in self._levels[:1] for remark in levels.remarks()]
        remarks += few_labels_remarks(float(self._known_inference().sums.labelled))
        if self._known_inference().e.n_columns == 0:
            remarks.append(ONE_PROPENSITY)
        if self._known_inference().exchangeable:
            remarks.append(EXCHANGEABLE)
        if all_labelled(self._known_inference().label_frequency.value):
            remarks.append(
                "All positives are labelled in this fit. How many more the data would allow is not for standard errors "
                "to say: profile_class_prior follows the likelihood."
            )
        if not self.converged_:  # type: ignore[attr-defined]
            remarks.append(NOT_CONVERGED)
        return remarks

    def _collinear_remarks(self) -> list[str]:
        """Name columns whose single coefficients mean nothing: those that a linear combination makes constant."""
        inference, models = self._known_inference(), ("classifier", "propensity model")
        of_models = dict[tuple[str, ...], list[str]]()
        for model, design, sets in zip(models, (inference.f, inference.e), inference.collinear(), strict=True):
            names = self._names(design)
            for members in sets:
                of_models.setdefault(tuple(names[j] for j in members), []).append(model)
        return collinear_remarks(of_models, penalised=max(inference.C, inference.propensity_C) < np.inf)

    def _known_inference(self) -> PairInference:
        return known_inference(self)

    def _names(self, design: Design) -> list[str]:
        """Return the names of a model's parameters."""
        columns = np.arange(self.n_features_in_)[design.columns]  # type: ignore[attr-defined]
        return [*attribute_names(self)[columns], "intercept"]

    def _spread(self, errors: Vector, design: Design) -> tuple[Vector, Vector]:
        coef = np.full((1, self.n_features_in_), np.nan)  # type: ignore[attr-defined]
        coef[0, design.columns] = errors[:-1]
        return coef, errors[-1:]


class NoLeftOutLogits(ValueError):
    """There are no logits of rows by models that have not seen their labels."""


def digest_of(X: Any, s: Vector) -> int:
    """Return a number that rows with their labels have in common with the same rows in the same order."""
    labels = np.ascontiguousarray(s, dtype=np.float64)
    return zlib.crc32(exact_keys(X).tobytes(), zlib.crc32(labels.tobytes()))


def held_out_of_fit(u: Vector, digest: int, X: Any, s: Vector) -> Vector:
    """Return the logits of the rows of a fit by its folds, or say that these are other rows."""
    if u.size != s.size or digest != digest_of(X, s):
        raise NoLeftOutLogits(
            f"X has {s.size} rows, and the fit has held-out logits of {u.size} rows of its own: give the rows of the "
            "fit with their labels, in their order."
        )
    return u


def problem_again(model: Any, X: Any, s: Any, *, sample_weight: Any = None, audit: Any = None) -> PairProblem:
    """Return what a model of two logistic models was fitted to, from its rows and all that was observed of them."""
    inference = known_inference(model)
    if model._looks is None:
        if audit is not None:
            raise ValueError("audit goes with a model that was fitted with audits; this one was not.")
        engine, _, totals = check_rows_again(model, X, s, sample_weight)
        return PairProblem(engine, totals, inference.objective, inference.C, inference.propensity_C, inference.audits)
    engine, facts = model._observed_again(X, s, sample_weight, audit)
    seen = what_is_seen(engine, inference.objective)
    penalties = (inference.C, inference.propensity_C)
    return PairProblem(engine, row_totals(engine), inference.objective, *penalties, None, facts, seen)


def parameter_names(model: Any) -> list[list[str]]:
    """Return the names of the parameters of a model of two logistic models: of the classifier, then of each other.

    Of several propensity models each name says which look it is of.
    """
    objective, names = known_inference(model).objective, attribute_names(model)
    of_f = [*map(str, names[objective.f.indices]), INTERCEPT]
    looks, n_rates = model._looks, objective.n_rates
    if looks is None:
        return [of_f, [*map(str, names[objective.e.indices]), INTERCEPT]]
    own = [*map(str, names[model._e_columns]), *looks.visits, INTERCEPT]
    shared = len(objective.models) == 1
    told = [own if shared else [f"{name} ({looks.names[k]})" for name in own] for k in range(len(objective.models))]
    numbers = [""] if n_rates == 1 else [f" {k + 1}" for k in range(n_rates)]
    return [of_f, *told, *([f"rate of false positives{number}"] for number in numbers)]


def remarks_of(model: Any) -> list[str]:
    """Return what a fit of two logistic models has to say beside its numbers."""
    return list(model._remarks() if model._looks is None else model._looks_remarks())


def known_inference(model: Any) -> PairInference:
    """Return what a fitted model knows of its uncertainty, or say why it knows nothing."""
    check_is_fitted(model)
    refuse_wrapped(model)
    inference = getattr(model, "_inference", None)
    if inference is None:
        raise ValueError(
            f"This {type(model).__name__} has no standard errors: they come from the likelihood of two logistic "
            f"models at its maximum ({getattr(model, '_known_where', InferenceMixin._known_where)}). For other fits "
            "use scarless.diagnostics.bootstrap_intervals."
        )
    inference.needed_information()
    return inference


def refuse_wrapped(model: Any) -> None:
    """Raise for a search: which of its fits is meant is for the user to say."""
    name = type(model).__name__
    if hasattr(model, "best_estimator_"):
        raise TypeError(f"A fitted classifier is needed, and this {name} holds one. Pass its best_estimator_.")
