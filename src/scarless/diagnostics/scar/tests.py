"""Tests of SCAR, that is, of a constant propensity."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import chi2

from scarless.checks.options import check_choice, check_random_stream, check_whole
from scarless.diagnostics.scar._learned import LOGISTIC, check_learning, class_columns, standardised
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, PairComparison, compare, fit_null, p_text, wald_statistic
from scarless.diagnostics.scar._roles import MAX_NAMES, Roles, check_roles, proviso
from scarless.numerics.arrays import ArrayLike, Matrix, Vector
from scarless.numerics.label_tests import (
    below_thresholds,
    constant_propensity,
    efficient_part,
    largest_distances,
    score_statistic,
)
from scarless.outside.notices import listed

METHODS = ("score", "likelihood-ratio", "wald", "kolmogorov-smirnov")
MAX_THRESHOLDS = 20  # for each attribute, in the Kolmogorov-Smirnov distance
CELLS_PER_BATCH = 2**20  # simulated labels in memory at a time (8 MB)


@dataclass(frozen=True, repr=False)
class SCARTest:
    """Result of a test of SCAR; prints as a conclusion in words.

    Attributes
    ----------
    statistic : float
        Test statistic. A larger value is stronger evidence against a constant propensity.
    degrees_of_freedom : int or None
        Degrees of freedom of the chi-squared distribution under SCAR. None if the distribution was simulated, 0 if
        nothing could be tested.
    p_value : float
        Probability of a statistic at least this large under SCAR.
    method : str
        Name of the test.
    attributes : tuple of str
        Propensity attributes that were tested together.
    hypothesis : str
        The tested hypothesis in words.
    label_frequency : float
        Best-fitting constant propensity; the label frequency if SCAR holds.
    n_rows, n_labelled : int or float
        Number of rows and of labelled rows, or sums of weights.
    shared : tuple of str
        Attributes that were also named as classification attributes.

    Examples
    --------
    >>> SCARTest(9.2, 2, 0.01, "score", ("age", "visits"), "", 0.4, 2000, 300).p_value
    0.01
    """

    statistic: float
    degrees_of_freedom: int | None
    p_value: float
    method: str
    attributes: tuple[str, ...]
    hypothesis: str
    label_frequency: float
    n_rows: float
    n_labelled: float
    shared: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.p_value < SIGNIFICANT:
            return self.conclusion
        return (
            f"{self.conclusion} To learn from such labels, use SAREMClassifier with these propensity_attributes. "
            "labelling_attributes estimates the effect of each attribute."
        )

    @property
    def conclusion(self) -> str:
        """The result of the test in words, without advice on what to do next."""
        names = listed(self.attributes, MAX_NAMES)
        how = f"{self.method} test, {self._statistic_in_words()}, p = {p_text(self.p_value)}"
        if np.isnan(self.p_value):
            return (
                f"No conclusion on SCAR ({how}): the likelihood is flat, so the effects of {names} have no standard "
                "errors. Use method='score'."
            )
        if self.degrees_of_freedom == 0:
            return (
                f"No conclusion on SCAR ({how}): the class model explains every effect that {names} could have on the "
                "labelling. Name other propensity_attributes, or fewer classification_attributes."
            )
        if self.p_value < SIGNIFICANT:
            one = "depends on" if len(self.attributes) == 1 else "depends on at least one of"
            return (
                f"SCAR is not plausible ({how}): whether a positive is labelled {one} {names}, "
                f"{proviso(self.attributes, self.shared)}"
            )
        return (
            f"No evidence against SCAR ({how}) from {self.n_labelled:.0f} labelled of {self.n_rows:.0f} rows. With "
            f"respect to {names}, methods that assume SCAR, such as SCARClassifier, may be used. Attributes that were "
            "not tested may still affect the labelling, and effects that are too weak for this number of labels are "
            "not detected."
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"

    def _statistic_in_words(self) -> str:
        if self.degrees_of_freedom is None:
            return f"statistic {self.statistic:.3g}"
        return f"chi-squared {self.statistic:.1f} on {self.degrees_of_freedom} df"


def scar_test(
    X: Any,
    s: ArrayLike,
    *,
    propensity_attributes: Any = None,
    classification_attributes: Any = None,
    sample_weight: ArrayLike | None = None,
    method: str = "score",
    estimator: Any = None,
    cv: int = 5,
    n_simulations: int = 999,
    random_state: Any = None,
    pos_label: Any = None,
) -> SCARTest:
    r"""Test whether labels are selected completely at random, that is, whether the propensity is constant.

    SCAR means :math:`e(x) = \Pr(s=1|y=1,x) = c`. Labels alone cannot refute SCAR: for any :math:`\Pr(s=1|x)`, a
    constant :math:`c \ge \max_x \Pr(s=1|x)` with :math:`f(x) = \Pr(s=1|x)/c` explains them. The test needs outside
    knowledge: *propensity attributes* :math:`x_e` that may affect the labelling but are unrelated to the class given
    the classification attributes :math:`x_f`. Under SCAR, :math:`s` is then independent of :math:`x_e` given
    :math:`x_f`. This is tested in the likelihood of

    .. math:: \Pr(s=1|x) = f(x_f)\,e(x_e), \quad \mathrm{logit} f = \beta_0 + \beta' g(x_f), \quad
              \mathrm{logit}\, e = \gamma_0 + \gamma' x_e.

    :math:`g` consists of out-of-fold predictions: the probability of a label by gradient boosting and by a forest, the
    class probability by a logistic model with constant propensity, and the expected :math:`x_e` given :math:`x_f` by a
    forest. `f` therefore need not be logistic in :math:`x_f`; a wrong `f` would look like a varying propensity. With
    ``estimator="logistic"``, :math:`g` is :math:`x_f` itself, which is correct only if the class is logistic in
    :math:`x_f`.

    ``"score"``
        Rao's score test: the slope of the likelihood at :math:`\gamma = 0`. Chi-squared, with one degree of freedom for
        each attribute that the class model does not explain. Needs only the fit with a constant propensity.
    ``"likelihood-ratio"``
        :math:`2(\ell_1 - \ell_0)`, twice the gain in log-likelihood over :math:`\gamma = 0`. Chi-squared. Rejects too
        often if there are few labels and the label frequency is uncertain.
    ``"wald"``
        :math:`\hat\gamma' V^{-1} \hat\gamma`, where `V` is the inverse of the observed information. The test that
        `labelling_attributes` uses for single attributes.
    ``"kolmogorov-smirnov"``
        For each attribute, the largest distance between its distributions among labelled and among unlabelled
        positives, at all values or, if there are more than 21 values, at 20 quantiles. The statistic is the sum over
        attributes. Unlabelled rows have the weight :math:`\Pr(y=1|s=0,x)` under SCAR. The null distribution is
        simulated. Detects effects of any shape; the other tests detect trends.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
        Attributes of the rows, one row each. Text, categories and dates in a data frame are encoded as by
        `TableClassifier`, without scaling; select columns of the raw table.
    s : array of shape (n_rows,)
        Observed labels: 1 for labelled rows, 0 for unlabelled rows.
    propensity_attributes : column selector, optional
        Columns that the propensity may depend on, tested together: names, positions, slice, mask, callable or polars
        selector. The name of an encoded attribute selects all of its columns. By default, all columns that are not
        classification attributes.
    classification_attributes : column selector, optional
        Columns that the class may depend on, selected like `propensity_attributes`. By default, all columns that are
        not propensity attributes. A column that is named as both kinds gets a logistic effect in `f` and in `e`.
        Only this form separates the two effects, and a warning is issued.
    sample_weight : array of shape (n_rows,), optional
        Weight of each row; 1 by default. Weights are counts: a row of weight 2 counts as two rows. All copies of a row
        are in the same fold.
    method : {"score", "likelihood-ratio", "wald", "kolmogorov-smirnov"}, default="score"
        Type of test; see above.
    estimator : scikit-learn classifier or "logistic", optional
        Classifier with `predict_proba` that predicts the label from the classification attributes. By default, an
        ``ExtraTreesClassifier`` and, for dense input, a ``HistGradientBoostingClassifier``
        (``learning_rate=0.05, max_leaf_nodes=8`` up to 10,000 rows, ``early_stopping=True`` beyond) or, for sparse
        input, a ``LogisticRegression``. "logistic": `f` is logistic in the classification attributes.
    cv : int, default=5
        Number of folds; at most the number of labelled, and of unlabelled, rows.
    n_simulations : int, default=999
        Number of simulated labellings, for "kolmogorov-smirnov" only.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers. Pass an int for reproducible results. Folds, forests and simulations are random.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Returns
    -------
    SCARTest

    See Also
    --------
    labelling_attributes : The effect of each attribute.

    References
    ----------
    P. Teisseyre, K. Furmanczyk and J. Mielniczuk, "Verifying the selected completely at random assumption in
    positive-unlabeled learning", ECAI 2024: simulated SCAR labels and Kolmogorov-Smirnov distances. They take the
    unlabelled rows of highest score as positives, which is correct for separable classes and a known class prior. Here
    unlabelled rows are weighted by their probability of being positive, which needs neither. A. Wald, "Tests of
    statistical hypotheses concerning several parameters", Transactions of the AMS 1943.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.diagnostics import scar_test
    >>> from scarless.labelling import LogisticSAR, simulate_labels
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> y = rng.random(1000) < 1 / (1 + np.exp(-3 * X[:, 0] - X[:, 1]))
    >>> at_random = simulate_labels(y, 0.4, random_state=1)
    >>> scar_test(X, at_random, propensity_attributes=[2], random_state=0).p_value > 0.05
    True
    >>> biased = simulate_labels(y, LogisticSAR(attributes=[2], coefficients=[1.0]).propensity(X), random_state=1)
    >>> print(scar_test(X, biased, propensity_attributes=[2], random_state=0))
    SCAR is not plausible (score test, chi-squared ... on 1 df, p = ...): whether a positive is labelled
    depends on x2, provided that x2 is unrelated to the class given the classification attributes. ...
    """
    check_choice(method, "method", METHODS)
    check_learning(estimator, cv, "scar_test")
    check_whole(n_simulations, "n_simulations", at_least=19)
    rng = check_random_stream(random_state)
    roles = check_roles(
        X,
        s,
        propensity_attributes=propensity_attributes,
        classification_attributes=classification_attributes,
        sample_weight=sample_weight,
        pos_label=pos_label,
        user="scar_test",
    )
    D = class_columns(roles, estimator=estimator, cv=cv, rng=rng)
    if method == "kolmogorov-smirnov":
        found = by_simulation(D, roles.Z, roles.s, roles.w, n_simulations, rng)
    elif method == "score":
        found = by_score(D, standardised(roles.Z, roles.w), roles.s, roles.w)
    else:
        fits = compare(D, standardised(roles.Z, roles.w), roles.s, roles.w)
        found = by_likelihood(fits, roles.Z.shape[1], method)
    return SCARTest(
        *found[:3],
        method=method,
        attributes=roles.names,
        hypothesis=_hypothesis(roles, estimator),
        label_frequency=found.label_frequency,
        n_rows=roles.n_rows,
        n_labelled=roles.n_labelled,
        shared=roles.shared_names,
    )


class SCARTestStatistic(NamedTuple):
    """Statistic and p-value of a test of SCAR, and the best-fitting constant propensity."""

    statistic: float
    degrees_of_freedom: int | None
    p_value: float
    label_frequency: float


def by_score(D: Matrix, Z: Matrix, s: Vector, w: Vector) -> SCARTestStatistic:
    """Return the score test of a constant propensity."""
    null = fit_null(D, s, w)
    statistic, k = score_statistic(constant_propensity(D, s, w, null.beta_f, null.v), Z)
    p_value = float(chi2.sf(statistic, k)) if k else 1.0
    return SCARTestStatistic(statistic, k, p_value, float(expit(null.v)))


def by_likelihood(fit: PairComparison, n_slopes: int, method: str) -> SCARTestStatistic:
    """Return the likelihood ratio test, or Wald's test, from both fits."""
    slopes = slice(-n_slopes - 1, -1)
    statistic = fit.statistic
    if method == "wald":
        statistic = wald_statistic(fit.alternative[slopes], fit.covariance[slopes, slopes])
    return SCARTestStatistic(statistic, n_slopes, float(chi2.sf(statistic, n_slopes)), float(expit(fit.null.v)))


def by_simulation(
    D: Matrix, Z: Matrix, s: Vector, w: Vector, n_simulations: int, rng: np.random.Generator
) -> SCARTestStatistic:
    """Return the Kolmogorov-Smirnov test, with labels simulated under SCAR.

    The models are not refitted to simulated labels. Instead, distances are computed from the part of each column that
    refitting could not change, to first order.
    """
    null = fit_null(D, s, w)
    rows = constant_propensity(D, s, w, null.beta_f, null.v)
    below = [below_thresholds(z, w, MAX_THRESHOLDS) for z in Z.T]
    A = efficient_part(rows, np.column_stack(below))
    sizes = [part.shape[1] for part in below]
    statistic = float(largest_distances(((w * rows.residual) @ A)[None], sizes)[0])
    larger, batch = 0, max(1, CELLS_PER_BATCH // s.size)
    for start in range(0, n_simulations, batch):
        drawn = drawn_labels(rows.p, w, min(batch, n_simulations - start), rng)
        sums = (drawn - (w - drawn) * rows.odds) @ A
        larger += int(np.count_nonzero(largest_distances(sums, sizes) >= statistic))
    p_value = (1 + larger) / (1 + n_simulations)
    return SCARTestStatistic(statistic / float(w @ s), None, p_value, float(expit(null.v)))


def drawn_labels(p: Vector, w: Vector, n_draws: int, rng: np.random.Generator) -> Matrix:
    """Return the labelled part of each row's weight if each copy of the row is labelled with probability `p`.

    A row of weight 2.5 has two copies of weight 1 and one of weight 0.5.
    """
    whole = np.floor(w)
    part = w - whole
    drawn = part * (rng.random((n_draws, w.size)) < p) if part.any() else np.zeros((n_draws, w.size))
    if (whole <= 1.0).all():
        return np.asarray(drawn + whole * (rng.random((n_draws, w.size)) < p))
    return np.asarray(drawn + rng.binomial(whole.astype(np.int64), p, size=drawn.shape))


def _hypothesis(roles: Roles, estimator: Any) -> str:
    alone = [name for name in roles.names if name not in roles.shared_names]
    forms = []
    if roles.X_class.shape[1]:
        forms.append("logistic in the classification attributes" if estimator == LOGISTIC else "learned out of fold")
    if roles.shared_names:
        forms.append(f"logistic in {listed(roles.shared_names, MAX_NAMES)}")
    return (
        f"Pr(labelled | positive) does not depend on {listed(roles.names, MAX_NAMES)}; Pr(positive | x) "
        f"is {' and '.join(forms)}{f', and does not depend on {listed(alone, MAX_NAMES)}' if alone else ''}"
    )
