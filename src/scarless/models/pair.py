r"""The base of classifiers that learn a model of the labelling too. They hold a fitted pair, and ask it.

Intervals of two logistic models are by the delta method. Their parameters :math:`\theta` have the covariance
:math:`(H + R)^{-1}`, with `H` the observed information of the likelihood at the optimum and `R` the penalty; other
quantities follow by their gradients, and probabilities get intervals that are symmetric in the logit. That is right
when both models are of the right form, the fit is in the right optimum (see `identifiability_report`) and rows are many:
`profile_class_prior` and `bootstrap_intervals` do not lean on the last. Near a boundary, as a label frequency of 1,
only they say something. Weights count rows. Intervals centre on the penalised estimates, which are shrunk towards 0.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from scarless.checks.attributes import check_attributes
from scarless.checks.options import (
    check_choice,
    check_counts,
    check_random_stream,
    check_share,
    check_weight,
    check_whole,
    shown,
)
from scarless.checks.rows import check_rows, named_values, row_totals, warn_about_row_order
from scarless.checks.tables import check_foreign_table, check_table
from scarless.engines import Engine, attach
from scarless.engines.base import known_rows
from scarless.models.base import PUClassifier, as_given, need_labels
from scarless.models.messages import (
    WIDE_INTERVAL,
    choice_remark,
    message_about_audits,
    message_about_choice,
    message_about_claims,
    message_about_drivers,
    message_about_findings,
    message_about_form,
    message_about_higher,
    message_about_rivals,
    message_about_swapped,
    misfits,
    remarks_on_fit,
    warn_about_units,
    warn_if_all_labelled,
    warn_if_all_positive,
    warn_if_class_prior_is_uncertain,
    warn_if_ranked_worse,
    warn_unless_converged,
)
from scarless.models.reading import Given, one_label, open_observed, with_observed
from scarless.models.summary import attribute_names, pair_summary
from scarless.numerics.arrays import ArrayLike, Columns, Integers, Matrix, Vector
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.pair.constraints import check_known, labelling_of
from scarless.pair.crossed import SLOPE_C
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.fitted import FittedPair, LookModels, NoRowIntervals, StandardErrors
from scarless.pair.form import SUSPECT, FormTest, check_form, unnamed_driver
from scarless.pair.groups import warn_about_heavy_rows
from scarless.pair.inference import PairInference, pair_inference
from scarless.pair.logistic import Training
from scarless.pair.look_checks import audit_gap, entered_findings, labels_alone, other_choice
from scarless.pair.optima import (
    HARDLY_LOWER,
    Climb,
    Optimum,
    Progress,
    choose,
    find_optima,
    seen_higher,
    warn_about_higher,
)
from scarless.pair.problem import PairProblem
from scarless.pair.stack import MOST_COLUMNS
from scarless.pair.starts import asks_for_papers_start


def means_all(attributes: Any) -> bool:
    """Whether the word "all" stands for every column. A column of that name is meant by ``["all"]``."""
    return isinstance(attributes, str) and attributes == "all"


class PairClassifier(PUClassifier):
    """A classifier of the true class together with a model of the labelling."""

    propensity_attributes: Any
    max_iter: int
    converged_: bool
    label_frequency_: float
    _pair: FittedPair | None = None
    _told: tuple[str, ...] = ()  # what a fit to looks, audits and facts warned of
    _choice_remark: str = ""  # what audit_labels takes for granted
    _driver: tuple[int, float] | None = None  # a column that nobody named and that drives the labelling, and its gain
    _none_is_scar = True  # what it means that no propensity attributes are named
    _has_coefficients = True  # of both models
    _known_where = "estimator=None, propensity_estimator=None"

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return what scikit-learn shows, with a comment where one propensity for all rows is assumed: SCAR."""
        # Scikit-learn breaks the lines of classes with its own __repr__ only: it is shown one that has it.

        def get_params(_: Any, deep: bool = True) -> dict[str, Any]:
            return self.get_params(deep)

        of_class = {"__init__": type(self).__init__, "get_params": get_params}
        twin: Any = type(type(self).__name__, (BaseEstimator,), of_class)
        text = BaseEstimator.__repr__(twin.__new__(twin), N_CHAR_MAX)
        is_scar = self._none_is_scar and self.propensity_attributes is None
        return f"{text}  # SCAR: no propensity_attributes" if is_scar else text

    # --- answers

    @property
    def fitted_pair_(self) -> FittedPair:
        """The fitted pair: logits of class and propensities, and how sure they are."""
        check_is_fitted(self)
        if self._pair is None:
            raise AttributeError(f"This {type(self).__name__} was not fitted as a pair of models.")
        return self._pair

    def predict_propensity(self, X: Any, look: int | None = None) -> Vector:
        r"""Return the labelling propensity :math:`e(x) = \Pr(s=1|y=1,x)` of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        look : int, optional
            Of a fit to several looks: which one; the first is 0. Needed where their propensities differ.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        kind = self._kind_of_look(look)
        return as_given(
            X, self._own_propensity(X) if self._pair is None else self._pair.propensity(self._rows(X), kind)
        )

    def predict_posterior(self, X: Any, s: ArrayLike, audit: ArrayLike | None = None) -> Vector:
        r"""Return :math:`\Pr(y=1|x,s)` of each row: its class given its labels, and its audit where there is one.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        audit : array of shape (n_rows,), optional
            The class of rows that someone checked, for a model that was fitted with audits.

        Returns
        -------
        array of shape (n_rows,)
            Without false positives 1 for labelled rows; for the others :math:`f(1-e)/(1-fe)`, with :math:`1-e` the
            probability that no look of a positive finds a label.
        """
        need_labels(s, "predict_posterior(X, s)")
        check_is_fitted(self)
        rows, pair = known_rows(X), self._pair
        if audit is not None and (pair is None or pair.looks is None):
            raise ValueError("audit goes with a model that was fitted with audits; this one was not.")
        if pair is None:
            e = self._own_propensity(rows)
            return as_given(X, self._posterior(rows, s, e, known=self._propensity_is_fact))
        return as_given(X, pair.posterior(self._observed(rows, s, audit)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        r"""Return the mean observed log-likelihood of labels: what can be said of a fit without knowing the class.

        .. math:: \frac{1}{\sum w}\sum_i w_i [s_i \log(f_i e_i) + (1-s_i)\log(1 - f_i e_i)]

        Higher is better. Not accuracy: against the observed labels that rewards calling every unlabelled row negative.
        Audits are not taken: a model that was fitted with them is scored by labels alone. Labels that came from audits
        (see `Labelling`) count as labels here, so leave such rows out, or give them a weight of 0.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional

        Returns
        -------
        float
        """
        check_is_fitted(self)
        pair, X = self._pair, known_rows(X)
        if pair is None:
            return self._mean_log_likelihood(X, y, self._own_propensity(X), sample_weight)
        rows = self._observed(X, y, None, "y")
        w = check_weight(named_values(X, sample_weight), n_rows=rows.n_rows)
        warn_about_row_order(X, sample_weight=sample_weight)
        counted = w > 0
        return float(w[counted] @ pair.log_likelihood(rows)[counted]) / float(w.sum())

    def detection_curve(self, X: Any, n_looks: int | None = None) -> Vector:
        r"""Return the share of positives that have a label after one look, after two, and so on.

        .. math:: \frac{\sum_i f_i \bigl[1 - \prod_{k \le K} (1 - e_{ik})\bigr]}{\sum_i f_i}

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        n_looks : int, optional
            How many looks; more than there were only where all looks have one propensity. None: as many as in `fit`.

        Returns
        -------
        array of shape (n_looks,)
        """
        looks = self._need_looks("detection_curve")
        wanted = looks.n_looks if n_looks is None else n_looks
        if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool) or wanted < 1:
            raise ValueError(f"n_looks must be a whole number of at least 1; got {shown(n_looks)}.")
        if wanted > looks.n_looks and looks.objective.n_kinds > 1:
            raise ValueError(
                f"n_looks={wanted}, and the model was fitted to {looks.n_looks} looks whose propensities differ: "
                "nothing says what that of another would be."
            )
        return self.fitted_pair_.detection(self._rows(X), np.resize(looks.kinds, wanted))

    def summary(self, *, level: float = 0.95) -> Any:
        """Return a table of what was found: both models' parameters, or what classifiers of other kinds can say.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that an interval covers.

        Returns
        -------
        Summary or StackSummary
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
        self._known_inference()
        return pair_summary(self, check_share(level, "level"), self._remarks())

    def _remarks(self) -> list[str]:
        """Return what to know of this very fit."""
        return remarks_on_fit(self, self.fitted_pair_)

    @available_if(lambda model: model._has_coefficients)
    def standard_errors(self) -> StandardErrors:
        """Return the standard errors of everything that the fit estimates.

        Returns
        -------
        StandardErrors
            Named fields `coef`, `intercept`, `propensity_coef`, `propensity_intercept`, and of looks `visit_coef` and
            `false_positive_rate`, shaped like the attributes of those names; `class_prior`, `label_frequency`.
            Infinite where the data tell nothing.
        """
        self._known_inference()
        return self.fitted_pair_.standard_errors(self.n_features_in_)

    def class_prior_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.
        kind : {"auto", "grid", "model"}, default="auto"
            "model": by the delta method, as if both models were of the right form and not chosen: on tables where that
            is not so it covers far less often than it says (nominal 95%: 64 to 77% on the tables of
            ``benchmarks.elsewhere``). "grid", for recalibrated fits: from the likelihood of every class prior, with all
            else as the labels like it best, over all sets of attributes and classifiers that the labels leave possible,
            a nat of log-likelihood counting for a third. "auto": "grid" where the fit is recalibrated, else "model".

        Returns
        -------
        Interval
            ``low, high``. By "model" symmetric in the logit; where such a fit to one label of each row has all
            positives labelled, `high` is 1: `scarless.diagnostics.profile_class_prior` says more.
        """
        return self._share_interval("class_prior", level, kind)

    def label_frequency_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(s=1|y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.
        kind : {"auto", "grid", "model"}, default="auto"
            As in `class_prior_interval`.

        Returns
        -------
        Interval
            ``low, high``. Of several looks: for the probability that any of them finds a label.
        """
        return self._share_interval("label_frequency", level, kind)

    def predict_proba_interval(self, X: Any, *, level: float = 0.95) -> Vector:
        r"""Return an interval for each row's :math:`f(x) = \Pr(y=1|x)`, one row at a time.

        Of classifiers that were fitted in folds: each at every level that the labels allow it, members of a stack in
        equal shares. What they differ in and what labels cannot tell of the level is in it; the noise of each one's
        direction is not.

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
        level = check_share(level, "level")
        return self._row_intervals(self._known_rows(X), level, of="class")

    def predict_propensity_interval(self, X: Any, *, look: int | None = None, level: float = 0.95) -> Vector:
        r"""Return an interval for each row's propensity :math:`e(x) = \Pr(s=1|y=1,x)`, one row at a time.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        look : int, optional
            Of a fit to several looks: which one; the first is 0. Needed where their propensities differ.
        level : float, default=0.95
            Nominal probability that each interval covers.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end.
        """
        self._known_inference()
        level, kind = check_share(level, "level"), self._kind_of_look(look)
        return self._row_intervals(self._known_rows(X), level, of="propensity", kind=kind)

    def predict_posterior_interval(
        self, X: Any, s: ArrayLike, *, audit: ArrayLike | None = None, level: float = 0.95
    ) -> Vector:
        r"""Return an interval for each row's :math:`\Pr(y=1|x,s)`, one row at a time.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        audit : array of shape (n_rows,), optional
            The class of rows that someone checked, for a model that was fitted with audits.
        level : float, default=0.95
            Nominal probability that each interval covers.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end; both the same for rows whose class is known: without false positives labelled rows,
            and those that were checked.
        """
        need_labels(s, "predict_posterior_interval(X, s)")
        level, X = check_share(level, "level"), self._known_rows(X)
        return self._row_intervals(X, level, of="posterior", observed=(s, audit))

    def draw_posteriors(
        self,
        X: Any,
        s: ArrayLike,
        *,
        audit: ArrayLike | None = None,
        n_draws: int = 200,
        random_state: Any = 0,
    ) -> Matrix:
        r"""Draw each row's :math:`\Pr(y=1|x,s)` from what the labels leave possible, all rows of a draw together.

        For numbers about many rows at once, such as how many of the 50 that rank highest are positive: compute the
        number for each draw, and take quantiles.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels, coded as in `fit`.
        audit : array of shape (n_rows,), optional
            The class of rows that someone checked, for a model that was fitted with audits.
        n_draws : int, default=200
            How many.
        random_state : int, numpy generator or RandomState, default=0
            Of the draws.

        Returns
        -------
        array of shape (n_draws, n_rows)
            The class itself for rows whose class is known: without false positives labelled rows, and those that were
            checked.
        """
        need_labels(s, "draw_posteriors(X, s)")
        n_draws, rng = check_whole(n_draws, "n_draws", at_least=1), check_random_stream(random_state)
        rows = self._observed(self._known_rows(X), s, audit)
        try:
            return self.fitted_pair_.draw_posteriors(rows, n_draws, rng).T
        except NoRowIntervals:
            raise self._no_row_intervals("draw_posteriors") from None

    def out_of_fold_logits(
        self, X: Any, s: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> tuple[Vector, Vector]:
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
            Their weights: a row of weight 3 is left out with its copies. Folds leave out rows with all their weight.

        Returns
        -------
        array of shape (n_rows,), array of shape (n_rows,)
        """
        if self._pair is None or self._pair.source is None:
            self._known_inference()
        pair, checked = self.fitted_pair_, self._checked(X)
        rows = pair.rows(checked)
        if pair.looks is not None:
            return pair.out_of_fold_logits(rows, X, np.empty(0))
        labels = one_label(X, s, self._coding, rows.n_rows)
        if pair.source is None:
            rows = attach(rows, s=labels, w=check_counts(sample_weight, n_rows=labels.size))
        return pair.out_of_fold_logits(rows, checked, labels)

    # --- rows that a fitted model is asked about

    def _class_probability(self, X: Any) -> Vector:
        check_is_fitted(self)
        return self.fitted_pair_.probability(self._rows(X))

    def _own_propensity(self, X: Any) -> Vector:
        """Return the propensity of each row, where the models are not held as a pair."""
        raise NotImplementedError

    def _checked(self, X: Any) -> Any:
        """Return checked rows: an engine for two logistic models, else a table as the user's models read it."""
        if self.fitted_pair_.source is None:
            return check_rows(self, X)
        if self._reader is None:
            return check_table(self, X, reset=False)
        return check_foreign_table(self, X, inner=self._reader, reset=False)

    def _rows(self, X: Any) -> Engine:
        return self.fitted_pair_.rows(self._checked(X))

    def _known_rows(self, X: Any) -> Any:
        """Return the table of rows, for a model that can say how sure it is; or say that it cannot."""
        if self._pair is None or self._pair.source is None:
            self._known_inference()
        return known_rows(X)

    def _observed(self, X: Any, s: Any, audit: Any, name: str = "s") -> Engine:
        """Return rows with all that was observed of them, as the likelihood reads them."""
        pair = self.fitted_pair_
        if audit is not None and pair.looks is None:
            raise ValueError("audit goes with a model that was fitted with audits; this one was not.")
        if pair.source is None:
            return open_observed(self, X, s, audit, pair.looks, name)
        return with_observed(self._rows(X), X, s, audit, coding=self._coding, looks=pair.looks, name=name)

    def _row_intervals(
        self, X: Any, level: float, *, of: str, kind: int = 0, observed: tuple[Any, Any] | None = None
    ) -> Vector:
        rows = self._rows(X) if observed is None else self._observed(X, *observed)
        try:
            return self.fitted_pair_.row_intervals(rows, level, of=of, kind=kind)
        except NoRowIntervals:
            raise self._no_row_intervals(f"An interval of each row's {of}") from None

    def _no_row_intervals(self, what: str) -> ValueError:
        return ValueError(
            f"{what} is not to be had from this {type(self).__name__}: after several looks, audits or facts it takes "
            "two logistic models (SAREMClassifier without an estimator, SAREMClassifierCV). predict_proba_interval "
            "needs no labels; bootstrap_intervals fits the model again."
        )

    def _share_interval(self, share: str, level: float, kind: str) -> Interval:
        check_is_fitted(self)
        level = check_share(level, "level")
        check_choice(kind, "kind", ("auto", "grid", "model"))
        grids = () if self._pair is None else self._pair.grids
        if kind == "grid" and not grids:
            raise ValueError(
                "kind='grid' is for recalibrated fits, as SAREMClassifierCV's are; this fit is not recalibrated."
            )
        how = ("grid" if grids else "model") if kind == "auto" else kind
        if how == "model" and (self._pair is None or self._pair.shares is None):
            self._known_inference()
        return self.fitted_pair_.share_interval(share, level, how)

    def _known_inference(self) -> PairInference:
        return known_inference(self)

    def _need_looks(self, what: str) -> LookModels:
        check_is_fitted(self)
        looks = None if self._pair is None else self._pair.looks
        if looks is None:
            raise ValueError(
                f"{what} needs a fit to several looks: labels as a table, one column for each look. This model was "
                "fitted to one label of each row."
            )
        return looks

    def _kind_of_look(self, look: int | None) -> int:
        """Return of which kind a look is."""
        looks = None if self._pair is None else self._pair.looks
        if looks is None:
            if look is not None and not (isinstance(look, int | np.integer) and look == 0):
                raise ValueError(f"look={shown(look)}, and this model was fitted to one label of each row.")
            return 0
        if look is None and looks.objective.n_kinds > 1:
            raise ValueError(
                f"This model has {looks.n_looks} looks with propensities of their own: say which one, look=0 to "
                f"{looks.n_looks - 1}. detection_curve(X) is how many positives have a label after each."
            )
        k = 0 if look is None else look
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 0 <= k < looks.n_looks:
            raise ValueError(f"look must be a whole number from 0 to {looks.n_looks - 1}; got {shown(look)}.")
        return int(looks.kinds[k])

    # --- fits

    def _columns(self, X: Any, attributes: Any, parameter: str) -> NDArray[np.intp]:
        """Return the columns that a parameter selects; None is all for the classifier and none for the propensity."""
        if means_all(attributes):
            return np.arange(self.n_features_in_)
        if attributes is None:
            return np.arange(0 if parameter == "propensity_attributes" else self.n_features_in_)
        names = getattr(self, "feature_names_in_", None)
        return check_attributes(attributes, X, n_columns=self.n_features_in_, names=names, parameter=parameter)

    def _climb(
        self, problem: PairProblem, asked: Any, tol: float, *, rng: Any = None, progress: Progress | None = None
    ) -> Climb:
        """Climb by Newton from as many starts as were asked for, and return the optimum to believe.

        After the paper's start alone, see whether another leads higher.
        """
        climbs = find_optima(problem, asked, rng, tol=tol, max_iter=self.max_iter, progress=progress)
        self.optima_ = [climb.optimum for climb in climbs]
        self.selection_ = choose(problem, climbs)
        found = climbs[self.selection_.index]
        warn_unless_converged(found.fit.solution, type(self).__name__, total_weight=problem.weight, tol=tol)
        look = asks_for_papers_start(asked) and not problem.told_by_height and self._is_shown
        self.higher_optimum_: Optimum | None = seen_higher(problem, found.optimum) if look else None
        self._tell_of_higher(found.optimum)
        return found

    def _tell_of_higher(self, found: Optimum) -> None:
        if self.higher_optimum_ is not None:
            warn_about_higher(self.higher_optimum_, found, type(self).__name__)
            self.selection_ = replace(self.selection_, reason=message_about_higher(self))

    def _store_fit(self, given: Given, problem: PairProblem, found: Climb | PairFit) -> None:
        """Store two logistic models that Newton's method found, and warn of what the user has to know."""
        fit = found.fit if isinstance(found, Climb) else found
        self._store_history(fit)
        sums = found.sums if isinstance(found, Climb) else None
        inference = pair_inference(problem, fit, information=fit.information, sums=sums)
        self._hold(
            FittedPair(
                objective=problem.objective,
                parameters=fit.parameters,
                e_columns=given.e_columns,
                weight=problem.weight,
                labelled=float(problem.totals.labelled),
                looks=given.looks,
                inference=inference,
            )
        )
        warn_about_units(problem.engine.units, attribute_names(self), type(self).__name__)
        self.log_likelihood_ = inference.log_likelihood
        self.label_frequency_ = inference.labelled_positives / inference.positives
        self.class_prior_ = inference.positives / problem.weight
        if given.looks is not None:
            self._store_looks(given, problem, fit, inference)
            return
        warn_if_all_labelled(self.label_frequency_, type(self).__name__)
        self._doubt_pair(problem, fit.f, fit.e)

    def _hold(self, pair: FittedPair) -> None:
        """Keep a fitted pair, and its coefficients for who looks at them."""
        self._pair = pair
        places = pair.objective.places
        if pair.source is None:
            self._store_linear(pair.parameters[places[0]], pair.objective.f)
        n_visits = 0 if pair.looks is None else len(pair.looks.visits)
        own = [pair.parameters[place] for place in places[1 : 1 + len(pair.objective.models)]]
        coef, first = np.zeros((len(own), self.n_features_in_)), -1 - n_visits - pair.e_columns.size
        for line, beta in zip(coef, own, strict=True):
            line[pair.e_columns] = beta[first : beta.size - 1 - n_visits]
        self.propensity_coef_, self.propensity_intercept_ = coef, np.array([beta[-1] for beta in own])
        if pair.looks is not None:
            self.visit_coef_ = np.array([beta[beta.size - 1 - n_visits : -1] for beta in own])

    def _doubt_pair(self, problem: PairProblem, beta_f: Vector, beta_e: Vector) -> None:
        """Warn where one label of each row gives reasons to doubt two logistic models."""
        if self._is_shown:
            warn_if_ranked_worse(problem, beta_f, beta_e, type(self).__name__)
        self._test_form(problem, beta_f, beta_e)
        self._warn_if_level_is_unknown()

    def _store_looks(self, given: Given, problem: PairProblem, fit: PairFit, inference: PairInference) -> None:
        """Store what looks, audits and facts tell besides, and warn of what the user has to know."""
        looks = given.looks
        assert looks is not None
        self.n_looks_, self.n_audited_ = looks.n_looks, looks.n_audited
        self.false_positive_rate_ = rates_of_looks(problem.objective, inference.parameters, looks.kinds)
        self.label_frequencies_ = np.array([inference.label_frequency_of(int(kind)).value for kind in looks.kinds])
        self._told = tuple(self._doubts_of_looks(given, problem, fit, inference))
        if looks.n_looks == 1 and not looks.n_audited:
            warn_if_all_labelled(self.label_frequency_, type(self).__name__)
        warn_if_all_positive(self.class_prior_, problem.labelled_share, type(self).__name__)
        for told in self._told:
            warn_user(f"{type(self).__name__}: {told}", UserWarning)

    def _doubt_looks_of(self, given: Given, problem: PairProblem, parameters: Vector) -> None:
        """Store and doubt looks of a recalibrated fit: `problem` is that of its table, `parameters` are its own there."""
        problem = problem._replace(C=SLOPE_C)
        top = fit_pair(problem, parameters, FitOptions(1e-10, 200))  # doubts compare with an optimum
        inference = pair_inference(problem, top.at(parameters))
        self._pair = replace(self.fitted_pair_, shares=inference)
        self._store_looks(given, problem, top, inference)

    def _doubts_of_looks(self, given: Given, problem: PairProblem, fit: PairFit, inference: PairInference) -> list[str]:
        """Return what the user has to know of this fit: where rows and claims disagree, where models changed places."""
        told, said = list(given.doubts), labelling_of(self)
        wrong = misfits(problem, fit, given, shared=bool(said.shared), max_iter=self.max_iter)
        if problem.swappable and self.fitted_pair_.source is None:
            told.append(
                "both models see the same attributes, and one label of each row does not say which of them is the "
                "classifier; nor does a known share, which holds either way round. A second look does, or 50 to 100 "
                "audits, or naming what drives the labelling."
            )
        claims = message_about_claims(problem, fit, max_iter=self.max_iter)
        told += claims
        if not fit.met:
            told.append("no models of this form keep to what is known as closely as said; give it a larger se.")
        if fit.met and not claims:
            told += [*wrong, *self._doubts_of_audits(problem, fit)]
            told += message_about_rivals(self._rivals(), inference.class_prior_interval(0.95))
        rates = np.ravel(np.asarray(self.false_positive_rate_, dtype=np.float64))
        return told + message_about_swapped(rates, self.label_frequencies_)

    def _rivals(self) -> list[tuple[float, float]]:
        """Return class priors of optima that are nearly as high as the one that was taken, and how far they are behind.

        Of a search, and of a cross-fit, none are known.
        """
        optima = getattr(self, "optima_", [])
        lower = [(optimum.class_prior, optimum.objective - optima[0].objective) for optimum in optima[1:]]
        return [each for each in lower if each[1] < HARDLY_LOWER]

    def _doubts_of_audits(self, problem: PairProblem, fit: PairFit) -> list[str]:
        """Return what audits and labels say of each other."""
        audit_labels = labelling_of(self).audit_labels
        alone = labels_alone(problem, fit, max_iter=self.max_iter)
        gap = audit_gap(problem, fit, alone)
        other = other_choice(problem, fit, audit_labels, max_iter=self.max_iter)
        if audit_labels != "keep":
            self._choice_remark = choice_remark(other, audit_labels)
        if otherwise := message_about_choice(other, audit_labels):
            return otherwise
        return message_about_findings(entered_findings(problem, alone), gap) or message_about_audits(gap)

    def _store_history(self, fit: PairFit) -> None:
        """Store how a fit by Newton's method went."""
        self.n_iter_, self.converged_ = fit.solution.n_iter, fit.converged
        self.history_ = {
            "log_likelihood": np.array(fit.log_likelihoods),
            "gain": np.array([at.gain for at in fit.solution.history]),
            "step": np.array([at.step for at in fit.solution.history]),
        }

    def _test_form(self, problem: PairProblem, beta_f: Vector, beta_e: Vector) -> None:
        """Test the form of two logistic models, and warn where the labels contradict it.

        A local optimum fails the test too: after a single start others are tried where there is reason to doubt.
        """
        self.form_test_: FormTest | None = check_form(problem, beta_f, beta_e) if self._is_shown else None
        doubtful = self.form_test_ is not None and self.form_test_.p_value < SUSPECT
        optima = getattr(self, "optima_", [])
        if doubtful and len(optima) == 1 and optima[0].starts == ("paper",) and self.higher_optimum_ is None:
            self.higher_optimum_ = seen_higher(problem, optima[0], thoroughly=True)
            self._tell_of_higher(optima[0])
        self._warn_about_class_prior(message_about_form(self))

    def _warn_about_driver(self, training: Training, logits: list[Vector], held: Vector, named: Columns) -> None:
        """Warn where labels say that a column which nobody named drives the labelling; `logits` have not seen them."""
        self._driver = None
        n_columns = training.X.shape[1]
        if not self._is_shown or not 0 < named.size < n_columns <= MOST_COLUMNS or not training.is_numeric:
            return
        found = unnamed_driver(training, logits, held, tuple(int(column) for column in named))
        self._driver = None if found is None else (found.column, found.gain)
        self._warn_about_class_prior(message_about_drivers(self))

    def _warn_about_class_prior(self, told: str) -> None:
        if told:
            warn_user(f"{type(self).__name__}: {told[0].lower()}{told[1:]}", ClassPriorWarning)

    def _warn_if_level_is_unknown(self) -> None:
        """Warn where labels are few, and nobody audited, or the class prior's interval is wide.

        Not again for each resample of a fit.
        """
        if not self._is_shown:
            return
        pair = self.fitted_pair_
        labelled = np.inf if pair.looks is not None and pair.looks.n_audited else pair.labelled
        try:
            interval = self.class_prior_interval()
        except ValueError:  # too many columns for standard errors
            interval = None
        named = getattr(self, "propensity_attributes", None)
        shares = check_known(getattr(self, "known", None)).shares
        if shares and interval is not None and interval.high - interval.low <= WIDE_INTERVAL:
            return  # the level is known from elsewhere
        warn_if_class_prior_is_uncertain(
            type(self).__name__,
            labelled,
            self.class_prior_,
            interval,
            nameless=named is None or means_all(named),
            swappable=means_all(named) and self._none_is_scar,
        )

    def _account_for(self, groups: Integers | None, rows: Engine) -> None:
        """Have intervals and standard errors count the groups that rows belong to."""
        if groups is None:
            totals = row_totals(rows)
            warn_about_heavy_rows(float(totals.n_rows), float(totals.weight), type(self).__name__)
            return
        self._pair = self.fitted_pair_.with_groups(groups, rows)
        if self._pair.grids and self._pair.recalibration is not None:
            self.recalibration_ = self._pair.recalibration


def rates_of_looks(objective: Any, beta: Vector, kinds: NDArray[np.intp]) -> Any:
    """Return the rate of false positives of every look; one number where all are the same."""
    if objective.false_positives is None:
        return 0.0
    own = [beta[place.start] for place in objective.places[1 + len(objective.models) :]]
    known = objective.false_positives
    logits = [known[kind] if rate is None else own[rate] for kind, rate in enumerate(objective.rates)]
    rates = np.asarray(expit(logits))[kinds]
    return float(rates[0]) if np.ptp(rates) == 0 else rates


def known_inference(model: Any) -> PairInference:
    """Return what a fitted model knows of its uncertainty, or say why it knows nothing."""
    check_is_fitted(model)
    refuse_wrapped(model)
    inference = getattr(getattr(model, "_pair", None), "inference", None)
    if inference is None:
        raise ValueError(
            f"This {type(model).__name__} has no standard errors: they come from the likelihood of two logistic "
            f"models at its maximum ({getattr(model, '_known_where', PairClassifier._known_where)}). For other fits "
            "use scarless.diagnostics.bootstrap_intervals."
        )
    inference.needed_information()
    return inference


def refuse_wrapped(model: Any) -> None:
    """Raise for a search: which of its fits is meant is for the user to say."""
    name = type(model).__name__
    if hasattr(model, "best_estimator_"):
        raise TypeError(f"A fitted classifier is needed, and this {name} holds one. Pass its best_estimator_.")
