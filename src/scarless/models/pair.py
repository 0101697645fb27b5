r"""Base class of classifiers that fit a model of the class and a model of the labelling.

Intervals of two logistic models use the delta method. The parameters :math:`\theta` have the covariance
:math:`(H + R)^{-1}`, where `H` is the observed information of the likelihood at the optimum and `R` the penalty. The
variance of other quantities follows from their gradients, and intervals of probabilities are symmetric on the logit
scale. These intervals are valid if both models are of the right form, the fit is in the right optimum (see
`identifiability_report`) and there are many rows. They are not valid near a boundary, such as a label frequency of 1;
use `profile_class_prior` or `bootstrap_intervals` there. Weights are counts of rows. Intervals are centred on the
penalised estimates, which are shrunk towards 0.
"""

from collections.abc import Callable
from copy import copy
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
    warn_about_heavy_rows,
)
from scarless.checks.rows import check_rows, named_values, row_totals, warn_about_row_order
from scarless.checks.tables import check_foreign_table, check_table
from scarless.engines import Engine, attach
from scarless.engines.base import known_rows
from scarless.models.base import PUClassifier, as_given, check_attribute_sets, need_labels
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
    message_about_logistic,
    message_about_ranking,
    message_about_rivals,
    message_about_swapped,
    misfits,
    ranking_is_doubtful,
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
from scarless.numerics.scores import LikelihoodGap, RankingGap
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.pair.constraints import check_known, labelling_of
from scarless.pair.crossed import SLOPE_C, CrossOptions
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.fitted import FittedPair, GroupSums, GroupTotals, LookModels, NoRowIntervals, StandardErrors
from scarless.pair.folds import Fold
from scarless.pair.form import SUSPICION_P_VALUE, FormTest, check_form, unnamed_driver
from scarless.pair.inference import PairInference, pair_inference
from scarless.pair.logistic import Training
from scarless.pair.look_checks import audit_gap, compare_audit_selection, entered_findings, fit_labels_alone
from scarless.pair.optima import (
    MAX_GAP_OF_POSSIBLE_OPTIMUM,
    Optimum,
    OptimumFit,
    Progress,
    choose,
    find_higher_optimum,
    find_optima,
    warn_about_higher_optimum,
)
from scarless.pair.problem import PairProblem
from scarless.pair.stack import MAX_COLUMNS_SEARCHED, gap_to_naive, held_out_gap_to_naive
from scarless.pair.starts import is_paper_start_alone


def means_all(attributes: Any) -> bool:
    """Return whether `attributes` is the string "all", which selects every column; ``["all"]`` is a column name."""
    return isinstance(attributes, str) and attributes == "all"


class PairClassifier(PUClassifier):
    """Base class of classifiers that fit a model of the class and a model of the labelling."""

    propensity_attributes: Any
    max_iter: int
    converged_: bool
    label_frequency_: float
    _pair: FittedPair | None = None
    _looks_warnings: tuple[str, ...] = ()  # warnings of a fit to looks, audits or known values
    _choice_remark: str = ""  # remark on the assumption that audit_labels makes
    _known: tuple[Any, Engine] | None = None  # a table and its rows for the likelihood, see `with_known_rows`
    # Column outside propensity_attributes that seems to drive the labelling, and its gain in log-likelihood.
    _driver: tuple[int, float] | None = None
    # By how much logistic models raise the log-likelihood of held-out labels, and its standard error; minus infinity if
    # they rank rows alike or were not fitted.
    _gain_of_logistic: tuple[float, float] = (-np.inf, 0.0)
    _none_is_scar = True  # whether propensity_attributes=None means one propensity for all positives
    _has_coefficients = True  # whether both models can be logistic, with coefficients
    _standard_errors_need = "two logistic models (estimator=None, propensity_estimator=None)"

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return scikit-learn's text, with a comment if one propensity for all positives is assumed (SCAR)."""
        # Scikit-learn breaks lines only if a class does not override __repr__. We therefore print a temporary class
        # that has the same name and parameters, but no __repr__ of its own.

        def get_params(_: Any, deep: bool = True) -> dict[str, Any]:
            return self.get_params(deep)

        of_class = {"__init__": type(self).__init__, "get_params": get_params}
        twin: Any = type(type(self).__name__, (BaseEstimator,), of_class)
        text = BaseEstimator.__repr__(twin.__new__(twin), N_CHAR_MAX)
        is_scar = self._none_is_scar and self.propensity_attributes is None
        return f"{text}  # SCAR: no propensity_attributes" if is_scar else text

    # --- predictions and intervals

    @property
    def fitted_pair_(self) -> FittedPair:
        """The fitted class model and propensity model, with their uncertainty."""
        check_is_fitted(self)
        if self._pair is None:
            raise AttributeError(
                f"fitted_pair_: this {type(self).__name__} has no fitted pair, because its class model and its "
                "propensity model were not fitted together as logistic models. Use SAREMClassifier."
            )
        return self._pair

    def predict_propensity(self, X: Any, look: int | None = None) -> Vector:
        r"""Return the labelling propensity :math:`e(x) = \Pr(s=1|y=1,x)` of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        look : int, optional
            Number of the look, counted from 0. Needed if the looks have different propensities.

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
        r"""Return the posterior :math:`\Pr(y=1|x,s)` of each row, given its labels and its audit if it has one.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.
        audit : array of shape (n_rows,), optional
            True class of audited rows, 1 or 0; NaN, None or -1 for rows that were not audited. Only for models that
            were fitted with audits.

        Returns
        -------
        array of shape (n_rows,)
            Without false positives, 1 for labelled rows and :math:`f(1-e)/(1-fe)` for unlabelled rows, where
            :math:`1-e` is the probability that a positive gets no label at any look.
        """
        need_labels(s, "predict_posterior(X, s)")
        check_is_fitted(self)
        rows, pair = known_rows(X), self._pair
        if audit is not None and (pair is None or pair.looks is None):
            raise ValueError("audit: this model was fitted without audits. Leave audit out.")
        if pair is None:
            e = self._own_propensity(rows)
            return as_given(X, self._posterior(rows, s, e, known=self._propensity_is_known))
        return as_given(X, pair.posterior(self._observed(rows, s, audit)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        r"""Return the mean log-likelihood of the observed labels; no true classes are needed.

        .. math:: \frac{1}{\sum w}\sum_i w_i [s_i \log(f_i e_i) + (1-s_i)\log(1 - f_i e_i)]

        Higher is better. The score is not the accuracy, because accuracy against observed labels rewards a classifier
        that predicts every unlabelled row to be negative. Audits are ignored. If findings of audits were entered as
        labels (see `Labelling`), leave the audited rows out, or give them a weight of 0.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

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
        r"""Return the expected share of positives with a label after one look, after two looks, and so on.

        .. math:: \frac{\sum_i f_i \bigl[1 - \prod_{k \le K} (1 - e_{ik})\bigr]}{\sum_i f_i}

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        n_looks : int, optional
            Number of looks; by default, the number of looks of the fit. A larger number is possible only if all looks
            share one propensity.

        Returns
        -------
        array of shape (n_looks,)
            Shares; 0 if no row is expected to be positive.
        """
        looks = self._need_looks("detection_curve")
        wanted = looks.n_looks if n_looks is None else n_looks
        if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool) or wanted < 1:
            raise ValueError(f"n_looks must be a whole number of at least 1; got {shown(n_looks)}.")
        if wanted > looks.n_looks and looks.objective.n_kinds > 1:
            raise ValueError(
                f"n_looks={wanted} is more than the {looks.n_looks} looks of the fit. The propensities of looks "
                f"differ, so the propensity of a further look is unknown. Use n_looks={looks.n_looks} or fewer."
            )
        return self.fitted_pair_.detection(self._rows(X), np.resize(looks.kinds, wanted))

    def summary(self, *, level: float = 0.95) -> Any:
        """Return a table of the estimates, with intervals.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Confidence level.

        Returns
        -------
        Summary or StackSummary
            Prints as text, and as HTML in a notebook; ``to_frame()`` returns a pandas DataFrame.

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
        """Return the remarks that the summary prints."""
        return remarks_on_fit(self, self.fitted_pair_)

    @available_if(lambda model: model._has_coefficients)
    def standard_errors(self) -> StandardErrors:
        """Return the standard errors of all estimates.

        Returns
        -------
        StandardErrors
            Fields `coef`, `intercept`, `propensity_coef`, `propensity_intercept`, `class_prior` and `label_frequency`;
            with several looks also `visit_coef` and `false_positive_rate`. Each has the shape of the attribute of the
            same name. Values are infinite for parameters that the data do not determine.
        """
        self._known_inference()
        return self.fitted_pair_.standard_errors(self.n_features_in_)

    def class_prior_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Confidence level.
        kind : {"auto", "grid", "model"}, default="auto"
            "model": delta method. It assumes that both models are of the right form. Real tables often violate this:
            nominal 95% intervals contained the true class prior in 64 to 77% of cases
            (``benchmarks.other_tables``). "grid", for recalibrated fits only: the interval is computed from the
            likelihood on the grid of class priors. It combines the grids of all classifiers and attribute sets that the
            fit considered. Differences of log-likelihood between class priors are divided by 3, which widens the
            interval, because models are never exactly right. "auto": "grid" if the fit is recalibrated, else "model".

        Returns
        -------
        Interval
            ``low, high``. With "model", symmetric on the logit scale. If the fit estimates that all positives are
            labelled, `high` is 1; use `scarless.diagnostics.profile_class_prior` then.
        """
        return self._share_interval("class_prior", level, kind)

    def label_frequency_interval(self, *, level: float = 0.95, kind: str = "auto") -> Interval:
        r"""Return an interval for :math:`\Pr(s=1|y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float in (0, 1), default=0.95
            Confidence level.
        kind : {"auto", "grid", "model"}, default="auto"
            As in `class_prior_interval`.

        Returns
        -------
        Interval
            ``low, high``. With several looks, the interval is for the probability that a positive gets a label at any
            look.
        """
        return self._share_interval("label_frequency", level, kind)

    def predict_proba_interval(self, X: Any, *, level: float = 0.95) -> Matrix:
        r"""Return a pointwise interval for the class probability :math:`f(x) = \Pr(y=1|x)` of each row.

        For cross-fitted classifiers and stacks, the interval covers the uncertainty of the class prior and the
        differences between the members of a stack. It does not cover the sampling error of each classifier's ranking.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        level : float in (0, 1), default=0.95
            Confidence level.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end.
        """
        level = check_share(level, "level")
        return self._row_intervals(self._known_rows(X), level, of="class")

    def predict_propensity_interval(self, X: Any, *, look: int | None = None, level: float = 0.95) -> Matrix:
        r"""Return a pointwise interval for the propensity :math:`e(x) = \Pr(s=1|y=1,x)` of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        look : int, optional
            Number of the look, counted from 0. Needed if the looks have different propensities.
        level : float in (0, 1), default=0.95
            Confidence level.

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
    ) -> Matrix:
        r"""Return a pointwise interval for the posterior :math:`\Pr(y=1|x,s)` of each row.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.
        audit : array of shape (n_rows,), optional
            True class of audited rows, 1 or 0; NaN, None or -1 for rows that were not audited. Only for models that
            were fitted with audits.
        level : float in (0, 1), default=0.95
            Confidence level.

        Returns
        -------
        array of shape (n_rows, 2)
            Lower and upper end. Both are equal for rows whose class is known: audited rows and, without false
            positives, labelled rows.
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
        r"""Draw parameters from their estimated distribution; return the posteriors of all rows for each draw.

        Use them for quantities of many rows, such as the expected number of positives among the 50 rows that rank
        highest: compute the quantity for each draw, and take quantiles. For the number itself, also draw the class of
        each row, or use `yield_curve`.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        s : array of shape (n_rows,) or (n_rows, n_looks)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.
        audit : array of shape (n_rows,), optional
            True class of audited rows, 1 or 0; NaN, None or -1 for rows that were not audited. Only for models that
            were fitted with audits.
        n_draws : int, default=200
            Number of draws.
        random_state : int, numpy generator or RandomState, default=0
            Seed of the random numbers. Pass an int for reproducible results.

        Returns
        -------
        array of shape (n_draws, n_rows)
            1 or 0 for rows whose class is known: audited rows and, without false positives, labelled rows.
        """
        need_labels(s, "draw_posteriors(X, s)")
        n_draws, rng = check_whole(n_draws, "n_draws", at_least=1), check_random_stream(random_state)
        rows = self._observed(self._known_rows(X), s, audit)
        try:
            return self.fitted_pair_.draw_posteriors(rows, n_draws, rng).T
        except NoRowIntervals:
            raise self._no_row_intervals("draw_posteriors") from None

    def _draw_group_sums(
        self, X: Any, s: Any, audit: Any, codes: Integers, count: Vector, n_draws: int, rng: np.random.Generator
    ) -> GroupSums:
        """Draw the numbers of positives in groups; `codes` has a column for each division of the rows into groups."""
        rows = attach(self._observed(known_rows(X), s, audit), group=codes, count=count)
        return self.fitted_pair_.draw_group_sums(rows, int(codes.max()) + 1, n_draws, rng)

    def _group_totals(self, X: Any, s: Any, audit: Any, codes: Integers, count: Vector) -> GroupTotals:
        """Return counts and expected numbers of positives in groups, without an array of posteriors in memory."""
        rows = attach(self._observed(known_rows(X), s, audit), group=codes, count=count)
        return self.fitted_pair_.group_totals(rows, int(codes.max()) + 1)

    def out_of_fold_logits(
        self, X: Any, s: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> tuple[Vector, Vector]:
        """Return out-of-fold logits of class and propensity for the rows of the fit.

        Use them for checks in which a row's own label must play no role, such as whether the rows that rank highest are
        labelled as often as predicted. For two logistic models, the effect of leaving out each row is approximated to
        first order. For cross-fitted models, the logits come from the folds.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows of the fit.
        s : array of shape (n_rows,)
            Observed labels of the fit.
        sample_weight : array of shape (n_rows,), optional
            Weights of the fit. A row of weight 3 is left out with all its copies.

        Returns
        -------
        array of shape (n_rows,), array of shape (n_rows,)
            Logits of the class, and logits of the propensity.
        """
        if self._pair is None or self._pair.source is None:
            self._known_inference()
        pair, checked, rows = self.fitted_pair_, self._checked(X), self._rows(X)
        if pair.looks is not None:
            return pair.out_of_fold_logits(rows, X, np.empty(0))
        labels = one_label(X, s, self._coding, rows.n_rows)
        if pair.source is None:
            rows = attach(rows, s=labels, w=check_counts(sample_weight, n_rows=labels.size))
        return pair.out_of_fold_logits(rows, checked, labels)

    # --- rows for predictions

    def _class_probability(self, X: Any) -> Vector:
        check_is_fitted(self)
        return self.fitted_pair_.probability(self._rows(X))

    def _own_propensity(self, X: Any) -> Vector:
        """Return the propensity of each row, for models that do not hold a fitted pair."""
        raise NotImplementedError

    def _checked(self, X: Any) -> Any:
        """Return checked rows: an engine for two logistic models, otherwise the table that the estimator reads."""
        if self.fitted_pair_.source is None:
            return check_rows(self, X)
        if self._reader is None:
            return check_table(self, X, reset=False)
        return check_foreign_table(self, X, inner=self._reader, reset=False)

    def _rows(self, X: Any) -> Engine:
        if self._known is not None and X is self._known[0]:
            return self._known[1]
        return self.fitted_pair_.rows(self._checked(X))

    def _known_rows(self, X: Any) -> Any:
        """Return the table of rows, or raise if the model has no standard errors."""
        if self._pair is None or self._pair.source is None:
            self._known_inference()
        return known_rows(X)

    def _observed(self, X: Any, s: Any, audit: Any, name: str = "s") -> Engine:
        """Return rows with their labels and audits, in the form that the likelihood needs."""
        pair = self.fitted_pair_
        if audit is not None and pair.looks is None:
            raise ValueError("audit: this model was fitted without audits. Leave audit out.")
        if pair.source is None:
            return open_observed(self, X, s, audit, pair.looks, name)
        return with_observed(self._rows(X), X, s, audit, coding=self._coding, looks=pair.looks, name=name)

    def _row_intervals(
        self, X: Any, level: float, *, of: str, kind: int = 0, observed: tuple[Any, Any] | None = None
    ) -> Matrix:
        rows = self._rows(X) if observed is None else self._observed(X, *observed)
        try:
            return self.fitted_pair_.row_intervals(rows, level, of=of, kind=kind)
        except NoRowIntervals:
            raise self._no_row_intervals(f"The interval of each row's {of}") from None

    def _no_row_intervals(self, what: str) -> ValueError:
        return ValueError(
            f"{what} is not available for this {type(self).__name__}. With several looks, audits or known values, it "
            "is available only if the class model and the propensity model are both logistic: fit SAREMClassifier "
            "without an estimator, or SAREMClassifierCV. For intervals of the class probability, which ignores the "
            "labels of the row, use predict_proba_interval."
        )

    def _share_interval(self, share: str, level: float, kind: str) -> Interval:
        check_is_fitted(self)
        level = check_share(level, "level")
        check_choice(kind, "kind", ("auto", "grid", "model"))
        grids = () if self._pair is None else self._pair.grids
        if kind == "grid" and not grids:
            raise ValueError(
                "kind='grid' needs a recalibrated fit, such as a fit of SAREMClassifierCV. This fit is not "
                "recalibrated. Use kind='auto'."
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
                f"{what} needs a fit to several looks, but this model was fitted to one label for each row. Fit it to "
                "a table of labels with one column for each look."
            )
        return looks

    def _kind_of_look(self, look: int | None) -> int:
        """Return the index of the propensity that belongs to a look."""
        looks = None if self._pair is None else self._pair.looks
        if looks is None:
            if look is not None and not (isinstance(look, int | np.integer) and look == 0):
                raise ValueError(
                    f"look={shown(look)}: this model was fitted to one label for each row. Leave look out."
                )
            return 0
        if look is None and looks.objective.n_kinds > 1:
            raise ValueError(
                f"look: the {looks.n_looks} looks of this model have different propensities. Choose a look, from "
                f"look=0 to look={looks.n_looks - 1}. detection_curve(X) gives the share of positives with a label "
                "after each look."
            )
        k = 0 if look is None else look
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 0 <= k < looks.n_looks:
            raise ValueError(f"look must be a whole number from 0 to {looks.n_looks - 1}; got {shown(look)}.")
        return int(looks.kinds[k])

    # --- fits

    def _columns(self, X: Any, attributes: Any, parameter: str) -> NDArray[np.intp]:
        """Return the columns that a parameter selects.

        None selects all columns for the classifier, and no column for the propensity.
        """
        if means_all(attributes):
            return np.arange(self.n_features_in_)
        if attributes is None:
            return np.arange(0 if parameter == "propensity_attributes" else self.n_features_in_)
        names = getattr(self, "feature_names_in_", None)
        return check_attributes(attributes, X, n_columns=self.n_features_in_, names=names, parameter=parameter)

    def _attribute_sets(self, X: Any, given: Given, e_columns: Columns) -> dict[str, Columns]:
        """Return the columns of each set in the parameter `attribute_sets`, without columns of single looks."""
        taken = np.arange(0) if given.looks is None else given.looks.taken

        def columns_of(chosen: Any) -> Columns:
            columns = self._columns(X, chosen, "attribute_sets")
            if chosen is not None and not isinstance(chosen, str) and np.isin(columns, taken).any():
                raise ValueError(
                    "attribute_sets has columns that are also visit_attributes or offset of the labelling. Only the "
                    "propensity of their look can use these columns. Remove them from attribute_sets."
                )
            return columns

        sets = check_attribute_sets(self.attribute_sets, e_columns, self.n_features_in_, columns_of)
        return {name: np.setdiff1d(columns, taken) if taken.size else columns for name, columns in sets.items()}

    def _fit_from_starts(
        self, problem: PairProblem, asked: Any, tol: float, *, rng: Any = None, progress: Progress | None = None
    ) -> OptimumFit:
        """Optimise by Newton's method from the requested starts, and return the selected optimum.

        If the only start is that of Bekker et al. (2019), check whether another start leads to a higher optimum.
        """
        fits = find_optima(problem, asked, rng, tol=tol, max_iter=self.max_iter, progress=progress)
        self.optima_ = [fit.optimum for fit in fits]
        self.selection_ = choose(problem, fits)
        found = fits[self.selection_.index]
        warn_unless_converged(found.fit.solution, type(self).__name__, total_weight=problem.weight, tol=tol)
        compare = is_paper_start_alone(asked) and not problem.has_extra_information and self._checks_fit
        self.higher_optimum_: Optimum | None = find_higher_optimum(problem, found.optimum) if compare else None
        self._warn_if_higher_optimum(found.optimum)
        return found

    def _warn_if_higher_optimum(self, found: Optimum) -> None:
        if self.higher_optimum_ is not None:
            warn_about_higher_optimum(self.higher_optimum_, found, type(self).__name__)
            self.selection_ = replace(self.selection_, reason=message_about_higher(self))

    def _store_fit(self, given: Given, problem: PairProblem, found: OptimumFit | PairFit) -> None:
        """Store two logistic models that were fitted by Newton's method, and emit the warnings of the fit."""
        fit = found.fit if isinstance(found, OptimumFit) else found
        self._store_history(fit)
        sums = found.sums if isinstance(found, OptimumFit) else None
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
            audited = self._runs_checks and bool(given.looks.n_audited)
            gap = gap_to_naive(problem, fit.f, by_audits=True) if audited else None
            self._store_looks(given, problem, fit, inference, gap)
            return
        warn_if_all_labelled(self)
        self._check_pair(problem, fit.f, fit.e)

    def _hold(self, pair: FittedPair) -> None:
        """Store a fitted pair, and its coefficients as attributes."""
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

    def _check_pair(self, problem: PairProblem, beta_f: Vector, beta_e: Vector) -> None:
        """Check two logistic models that were fitted to one label for each row, and warn if they are doubtful."""
        if self._checks_fit:
            warn_if_ranked_worse(problem, beta_f, beta_e, type(self).__name__)
        self._test_form(problem, beta_f, beta_e)
        self._warn_if_class_prior_is_uncertain()

    def _store_looks(
        self, given: Given, problem: PairProblem, fit: PairFit, inference: PairInference, gap: RankingGap | None
    ) -> None:
        """Store the estimates of a fit to looks, audits or known values, and emit the warnings of the fit.

        `gap` compares its ranking of audited rows with that of the naive model.
        """
        looks = given.looks
        assert looks is not None
        self.n_looks_, self.n_audited_ = looks.n_looks, looks.n_audited
        self.false_positive_rate_ = rates_of_looks(problem.objective, inference.parameters, looks.kinds)
        self.label_frequencies_ = np.array([inference.label_frequency_of(int(kind)).value for kind in looks.kinds])
        ranking = message_about_ranking(gap, named=self.propensity_attributes is not None)
        self._looks_warnings = (*self._messages_about_looks(given, problem, fit, inference), *ranking)
        if looks.n_looks == 1 and not looks.n_audited:
            warn_if_all_labelled(self)
        warn_if_all_positive(self.class_prior_, problem.labelled_share, type(self).__name__)
        for message in self._looks_warnings:
            warn_user(f"{type(self).__name__}: {message}", ClassPriorWarning)

    def _store_recalibrated_looks(
        self, given: Given, problem: PairProblem, parameters: Vector, gap: RankingGap | None
    ) -> None:
        """Store and check a recalibrated fit to looks. `parameters` are the estimates for `problem`.

        `gap` is that of `_gap_in_audits`.
        """
        problem = problem._replace(C=SLOPE_C)
        top = fit_pair(problem, parameters, FitOptions(1e-10, 200))  # the checks need an exact optimum
        inference = pair_inference(problem, top.at(parameters))
        self._pair = replace(self.fitted_pair_, shares=inference)
        self._store_looks(given, problem, top, inference, gap)

    def _gap_in_audits(
        self, u: Vector, training: Training, given: Given, folds: list[Fold], options: CrossOptions
    ) -> RankingGap | None:
        """Compare how out-of-fold logits `u` and the naive model rank audited rows; None if that cannot be compared."""
        if given.looks is None or not given.looks.n_audited or not self._runs_checks or not training.is_numeric:
            return None
        return held_out_gap_to_naive(u, training, folds, options, audit=given.audit)

    def _messages_about_looks(
        self, given: Given, problem: PairProblem, fit: PairFit, inference: PairInference
    ) -> list[str]:
        """Return messages about disagreement between rows, audits and known values, and about swapped models."""
        messages = list(given.doubts)
        wrong = misfits(problem, fit, given, shared=bool(labelling_of(self).shared), max_iter=self.max_iter)
        if problem.swappable and self.fitted_pair_.source is None:
            messages.append(
                "both models use the same attributes, so one label for each row does not show which one is the class "
                "model. A known class prior or label frequency does not show it either. Name the attributes that drive "
                "the labelling, or add a second look or 50 to 100 audits."
            )
        claims = message_about_claims(problem, fit, max_iter=self.max_iter)
        messages += claims
        if not fit.constraints_met:
            messages.append(
                "no models of this form agree with all known values within their standard errors. Check the known "
                "values, or give them a larger se."
            )
        if fit.constraints_met and not claims:
            messages += [*wrong, *self._messages_about_audits(problem, fit)]
            messages += message_about_rivals(self._rivals(), inference.class_prior_interval(0.95))
        rates = np.ravel(np.asarray(self.false_positive_rate_, dtype=np.float64))
        return messages + message_about_swapped(rates, self.label_frequencies_)

    def _rivals(self) -> list[tuple[float, float]]:
        """Return the class prior of each optimum nearly as high as the highest, and how much lower its objective is.

        The list is empty for searches and cross-fits, because they do not store their optima.
        """
        optima = getattr(self, "optima_", [])
        lower = [(optimum.class_prior, optimum.objective - optima[0].objective) for optimum in optima[1:]]
        return [each for each in lower if each[1] < MAX_GAP_OF_POSSIBLE_OPTIMUM]

    def _messages_about_audits(self, problem: PairProblem, fit: PairFit) -> list[str]:
        """Return messages about disagreement between audits and labels."""
        audit_labels = labelling_of(self).audit_labels
        alone = fit_labels_alone(problem, fit, max_iter=self.max_iter)
        gap = audit_gap(problem, fit, alone)
        other = compare_audit_selection(problem, fit, audit_labels, max_iter=self.max_iter)
        if audit_labels != "keep":
            self._choice_remark = choice_remark(other, audit_labels)
        if messages := message_about_choice(other, audit_labels):
            return messages
        return message_about_findings(entered_findings(problem, alone), gap) or message_about_audits(gap)

    def _store_history(self, fit: PairFit) -> None:
        """Store the history of a fit by Newton's method."""
        self.n_iter_, self.converged_ = fit.solution.n_iter, fit.converged
        self.history_ = {
            "log_likelihood": np.array(fit.log_likelihoods),
            "gain": np.array([at.gain for at in fit.solution.history]),
            "step": np.array([at.step for at in fit.solution.history]),
        }

    def _test_form(self, problem: PairProblem, beta_f: Vector, beta_e: Vector) -> None:
        """Test the form of two logistic models, and warn if the labels contradict it.

        A local optimum can also fail the test, so other starts are tried if only one was used.
        """
        self.form_test_: FormTest | None = check_form(problem, beta_f, beta_e) if self._checks_fit else None
        doubtful = self.form_test_ is not None and self.form_test_.p_value < SUSPICION_P_VALUE
        optima = getattr(self, "optima_", [])
        if doubtful and len(optima) == 1 and optima[0].starts == ("paper",) and self.higher_optimum_ is None:
            self.higher_optimum_ = find_higher_optimum(problem, optima[0], thoroughly=True)
            self._warn_if_higher_optimum(optima[0])
        self._warn_about_class_prior(message_about_form(self))

    def _warn_about_driver(self, training: Training, logits: list[Vector], held: Vector, named: Columns) -> None:
        """Warn if a column outside the propensity attributes seems to drive the labelling; `logits` are out-of-fold."""
        self._driver = None
        n_columns = training.X.shape[1]
        if not self._checks_fit or not 0 < named.size < n_columns <= MAX_COLUMNS_SEARCHED or not training.is_numeric:
            return
        found = unnamed_driver(training, logits, held, tuple(int(column) for column in named))
        self._driver = None if found is None else (found.column, found.gain)
        self._warn_about_class_prior(message_about_drivers(self))

    def _warn_if_logistic_explains_more(self, compare: Callable[[], LikelihoodGap | None], training: Training) -> None:
        """Warn if logistic models explain held-out labels better than the classifiers of the user."""
        self._gain_of_logistic = (-np.inf, 0.0)
        if self._checks_fit and training.is_numeric and training.X.shape[1] <= MAX_COLUMNS_SEARCHED:
            gap = compare()
            self._gain_of_logistic = self._gain_of_logistic if gap is None else (-gap.difference, gap.standard_error)
        self._warn_about_class_prior(message_about_logistic(self))

    def _warn_about_class_prior(self, message: str) -> None:
        if message:
            warn_user(f"{type(self).__name__}: {message[0].lower()}{message[1:]}", ClassPriorWarning)

    def _warn_if_class_prior_is_uncertain(self) -> None:
        """Warn if there are few labels and no audits, or if the interval of the class prior is wide."""
        self._uncertain_class_prior: tuple[float, float] | None = None
        if not self._checks_fit:
            return
        pair = self.fitted_pair_
        labelled = np.inf if pair.looks is not None and pair.looks.n_audited else pair.labelled
        try:
            interval = self.class_prior_interval()
        except ValueError:  # there are too many columns for standard errors
            interval = None
        named = getattr(self, "propensity_attributes", None)
        shares = check_known(getattr(self, "known", None)).shares
        if shares and interval is not None and interval.high - interval.low <= WIDE_INTERVAL:
            return
        uncertain = warn_if_class_prior_is_uncertain(
            type(self).__name__,
            labelled,
            self.class_prior_,
            interval,
            nameless=named is None or means_all(named),
            swappable=means_all(named) and self._none_is_scar,
            doubtful=ranking_is_doubtful(self),
        )
        if uncertain and interval is not None:
            self._uncertain_class_prior = (interval.low, interval.high)

    def _account_for(self, groups: Integers | None, rows: Engine) -> None:
        """Make intervals and standard errors account for groups of rows."""
        if groups is None:
            totals = row_totals(rows)
            warn_about_heavy_rows(float(totals.n_rows), float(totals.weight), type(self).__name__)
            return
        self._pair = self.fitted_pair_.with_groups(groups, rows)
        if self._pair.grids and self._pair.recalibration is not None:
            self.recalibration_ = self._pair.recalibration


def rates_of_looks(objective: Any, beta: Vector, kinds: NDArray[np.intp]) -> Any:
    """Return the false-positive rate of each look, or one number if all are equal."""
    if objective.false_positives is None:
        return 0.0
    own = [beta[place.start] for place in objective.places[1 + len(objective.models) :]]
    known = objective.false_positives
    logits = [known[kind] if rate is None else own[rate] for kind, rate in enumerate(objective.rates)]
    rates = np.asarray(expit(logits))[kinds]
    return float(rates[0]) if np.ptp(rates) == 0 else rates


def with_known_rows(model: Any, X: Any) -> Any:
    """Return a copy of a fitted classifier that predicts the class logits of `X` once; `X` must not change.

    A report asks a model ten times or more for predictions of the same rows, and those of a stack take long. Models
    whose logits are linear are returned unchanged.
    """
    pair = getattr(model, "_pair", None)
    if pair is None or pair.source is None:
        return model
    twin = copy(model)
    twin._known = X, model._rows(X)
    return twin


def known_inference(model: Any) -> PairInference:
    """Return the covariance of a fitted model's estimates, or raise if it has none."""
    check_is_fitted(model)
    refuse_wrapped(model)
    inference = getattr(getattr(model, "_pair", None), "inference", None)
    if inference is None:
        need = getattr(model, "_standard_errors_need", "SAREMClassifier, SAREMClassifierCV or SCARClassifier")
        raise ValueError(
            f"This {type(model).__name__} has no standard errors: they need {need}. For intervals of this model use "
            "scarless.diagnostics.bootstrap_intervals."
        )
    inference.needed_information()
    return inference


def refuse_wrapped(model: Any) -> None:
    """Raise for a search of scikit-learn: its `best_estimator_` must be passed instead."""
    name = type(model).__name__
    if hasattr(model, "best_estimator_"):
        raise TypeError(f"A search is not accepted; got a {name}. Pass its best_estimator_.")
