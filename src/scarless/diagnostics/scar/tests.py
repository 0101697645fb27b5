"""Is the propensity constant? Tests of SCAR."""

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import chi2

from scarless.checks.options import check_choice, check_random_stream, check_whole
from scarless.diagnostics.scar._learned import LOGISTIC, check_learning, class_columns, standardised
from scarless.diagnostics.scar._pair_tests import SIGNIFICANT, Comparison, compare, fit_null, p_text, wald_statistic
from scarless.diagnostics.scar._roles import NAMED, Roles, check_roles, proviso
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
MOST_THRESHOLDS = 20  # per attribute, for the Kolmogorov-Smirnov distance
CELLS_PER_BATCH = 2**20  # 8 MB of simulated labels at a time


@dataclass(frozen=True, repr=False)
class SCARTest:
    """What a test of SCAR found; ``print`` it for a sentence of advice.

    Attributes
    ----------
    statistic : float
        The larger, the less the labels look like a constant propensity.
    degrees_of_freedom : int or None
        Of the chi-squared distribution that the statistic has under SCAR; None where that distribution was simulated,
        0 where nothing was left to test.
    p_value : float
        Chance of a statistic at least this large under SCAR.
    method : str
        Which test.
    attributes : tuple of str
        The propensity attributes that were tested, together.
    hypothesis : str
        What was tested, in words.
    label_frequency : float
        The constant propensity that fits best, a by-product; right if SCAR is.
    n_rows, n_labelled : int or float
        How many rows there were, and how many of them labelled: sums of weights, where there were any.
    shared : tuple of str
        Those of the attributes that the class may depend on too, as the call said.

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
        names = listed(self.attributes, NAMED)
        how = f"{self.method} test, {self._statistic_in_words()}, p = {p_text(self.p_value)}"
        if np.isnan(self.p_value):
            return (
                f"No verdict on SCAR ({how}): the likelihood is flat, so that the effects of {names} have no standard "
                "errors. Use method='score'."
            )
        if self.degrees_of_freedom == 0:
            return (
                f"No verdict on SCAR ({how}): whatever {names} could tell of the labelling, the model of the class "
                "explains as well. Name other propensity_attributes, or fewer classification_attributes."
            )
        if self.p_value < SIGNIFICANT:
            one = "depends on" if len(self.attributes) == 1 else "depends on at least one of"
            return (
                f"SCAR is not plausible ({how}): whether a positive gets its label {one} {names}, "
                f"{proviso(self.attributes, self.shared)} To learn from such labels, use SAREMClassifier with these "
                "propensity_attributes; labelling_attributes shows which of them matter, and how much."
            )
        return (
            f"No evidence against SCAR ({how}) from {self.n_labelled:.0f} labelled of {self.n_rows:.0f} rows: methods "
            f"that assume it, e.g. SCARClassifier, are defensible as far as {names} can tell. Attributes that were "
            "not tested may still matter, and effects too weak for this many labels."
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
    r"""Test whether labels are selected completely at random: a constant propensity against one that varies.

    SCAR says :math:`e(x) = \Pr(s=1|y=1,x) = c`. Labels alone cannot refute it: :math:`\Pr(s=1|x)` is all that they
    show, and a constant :math:`c \ge \max_x \Pr(s=1|x)` with :math:`f(x) = \Pr(s=1|x)/c` explains it whatever it is. It
    takes knowledge from outside: *propensity attributes* :math:`x_e` that may affect the labelling but say nothing of
    the class once the classification attributes :math:`x_f` are known. Under SCAR, then, :math:`s` does not depend on
    :math:`x_e` given :math:`x_f`, and that is what is tested, inside the likelihood of

    .. math:: \Pr(s=1|x) = f(x_f)\,e(x_e), \quad \mathrm{logit} f = \beta_0 + \beta' g(x_f), \quad
              \mathrm{logit}\, e = \gamma_0 + \gamma' x_e.

    :math:`g` is what models that have not seen a row's fold say of it: how likely it is labelled, by gradient boosting
    and by a forest; how likely it is positive, by a logistic model with constant propensity; and which :math:`x_e` to
    expect, by a forest, so that :math:`x_e` cannot stand in for what the others miss of :math:`x_f`. So `f` need not be
    logistic in :math:`x_f`; a wrong `f` would pass for a varying propensity. With ``estimator="logistic"`` :math:`g`
    is :math:`x_f` itself: the textbook test, right only if the class follows a logistic model.

    ``"score"``
        Rao's: how steeply the likelihood rises from :math:`\gamma = 0`, against how steeply it would by chance.
        Chi-squared with as many degrees of freedom as attributes, less those that the model of the class explains
        altogether. It needs the fit with a constant propensity only.
    ``"likelihood-ratio"``
        :math:`2(\ell_1 - \ell_0)`, twice the gain in log-likelihood of :math:`\gamma` over :math:`\gamma = 0`, on the
        same scale. Rejects too often where few labels leave the level of the propensity open.
    ``"wald"``
        :math:`\hat\gamma' V^{-1} \hat\gamma` with `V` the inverse of the observed information; what
        `labelling_attributes` shows for single attributes.
    ``"kolmogorov-smirnov"``
        The distance, largest over thresholds (values, or 20 quantiles), between the distributions of an attribute
        among labelled positives and among positives left unlabelled (unlabelled rows, each with weight
        :math:`\Pr(y=1|s=0,x)` under SCAR); added up over attributes. Its distribution under SCAR comes from labels
        drawn from the fitted constant propensity. It sees dependence of any shape, where the others see a trend.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        A data frame with columns of text, categories or dates is prepared as by `TableClassifier`, without labels and
        without scaling; selections of columns are those of the raw table.
    s : array of shape (n_rows,)
        Observed labels: 1 for labelled positives, 0 for unlabelled rows.
    propensity_attributes : column selector, optional
        What the labelling may depend on, tested together. Columns by name, position, slice, mask, callable or polars
        selector; the name of an encoded attribute stands for all of its columns. None: those that are not
        classification attributes.
    classification_attributes : column selector, optional
        What the class may depend on, selected as `propensity_attributes` are. None: those that are not propensity
        attributes. A column of both gets a logistic effect in `f` and in `e`; then only that form tells the two apart,
        and a warning says so.
    sample_weight : array of shape (n_rows,), optional
        How often each row counts: 2 is the row twice, 0 no such row, so that weights of mean 2 are twice the evidence.
        All copies of a row lie in one fold; labels are drawn for each copy, and for a weight of 2.5 for two rows and
        for one that counts half.
    method : {"score", "likelihood-ratio", "wald", "kolmogorov-smirnov"}, default="score"
        See above.
    estimator : scikit-learn classifier or "logistic", optional
        What learns from the classification attributes who is labelled, by `predict_proba`. None: two of them,
        ``ExtraTreesClassifier`` and, for a dense table, ``HistGradientBoostingClassifier``
        (``learning_rate=0.05, max_leaf_nodes=8`` up to 10,000 rows, ``early_stopping=True`` beyond), for a sparse one
        ``LogisticRegression``, so that a sparse table and a dense copy of it get different p-values. "logistic": `f` is
        a logistic model of the classification attributes themselves.
    cv : int, default=5
        Folds of what is learned out of fold; at most as many as labelled, and as unlabelled, rows.
    n_simulations : int, default=999
        Labellings drawn under SCAR; for "kolmogorov-smirnov" only.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seeds folds, classifiers, forests and simulations.
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Returns
    -------
    SCARTest

    See Also
    --------
    labelling_attributes : Which attributes, and how much.

    References
    ----------
    P. Teisseyre, K. Furmanczyk and J. Mielniczuk, "Verifying the selected completely at random assumption in
    positive-unlabeled learning", ECAI 2024: artificial SCAR labels and Kolmogorov-Smirnov distances. There the
    positives are the labelled rows and the unlabelled ones of highest score, as many as the class prior says, which
    is right for separable classes; here unlabelled rows count with the chance that they are positive, and neither
    separable classes nor a class prior are needed. A. Wald, "Tests of statistical hypotheses concerning several
    parameters", Transactions of the AMS 1943.

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
    SCAR is not plausible (score test, chi-squared ... on 1 df, p = ...): whether a positive gets its label
    depends on x2, provided that x2 says nothing of the class once the classification attributes are known. ...
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
        hypothesis=_in_words(roles, estimator),
        label_frequency=found.label_frequency,
        n_rows=roles.n_rows,
        n_labelled=roles.n_labelled,
        shared=roles.shared_names,
    )


class Found(NamedTuple):
    """What a test comes to."""

    statistic: float
    degrees_of_freedom: int | None
    p_value: float
    label_frequency: float


def by_score(D: Matrix, Z: Matrix, s: Vector, w: Vector) -> Found:
    """Ask how steeply the likelihood rises from a constant propensity."""
    null = fit_null(D, s, w)
    statistic, k = score_statistic(constant_propensity(D, s, w, null.beta_f, null.v), Z)
    return Found(statistic, k, float(chi2.sf(statistic, k)) if k else 1.0, float(expit(null.v)))


def by_likelihood(fit: Comparison, n_slopes: int, method: str) -> Found:
    """Read the likelihood ratio, or Wald's statistic, off the two fits."""
    slopes = slice(-n_slopes - 1, -1)
    statistic = fit.statistic
    if method == "wald":
        statistic = wald_statistic(fit.alternative[slopes], fit.covariance[slopes, slopes])
    return Found(statistic, n_slopes, float(chi2.sf(statistic, n_slopes)), float(expit(fit.null.v)))


def by_simulation(D: Matrix, Z: Matrix, s: Vector, w: Vector, n_simulations: int, rng: np.random.Generator) -> Found:
    """Compare the distance between labelled and unlabelled positives with that of labels drawn under SCAR.

    The models are not fitted anew to drawn labels: distances are taken of what fits cannot explain, to first order.
    """
    null = fit_null(D, s, w)
    rows = constant_propensity(D, s, w, null.beta_f, null.v)
    below = [below_thresholds(z, w, MOST_THRESHOLDS) for z in Z.T]
    A = efficient_part(rows, np.column_stack(below))
    sizes = [part.shape[1] for part in below]
    statistic = float(largest_distances(((w * rows.residual) @ A)[None], sizes)[0])
    larger, batch = 0, max(1, CELLS_PER_BATCH // s.size)
    for start in range(0, n_simulations, batch):
        drawn = drawn_labels(rows.p, w, min(batch, n_simulations - start), rng)
        sums = (drawn - (w - drawn) * rows.odds) @ A
        larger += int(np.count_nonzero(largest_distances(sums, sizes) >= statistic))
    return Found(statistic / float(w @ s), None, (1 + larger) / (1 + n_simulations), float(expit(null.v)))


def drawn_labels(p: Vector, w: Vector, n_draws: int, rng: np.random.Generator) -> Matrix:
    """Return how much of each row's weight gets a label, by chance `p` for each copy; a part of a copy is one too."""
    whole = np.floor(w)
    part = w - whole
    drawn = part * (rng.random((n_draws, w.size)) < p) if part.any() else np.zeros((n_draws, w.size))
    if (whole <= 1.0).all():
        return np.asarray(drawn + whole * (rng.random((n_draws, w.size)) < p))
    return np.asarray(drawn + rng.binomial(whole.astype(np.int64), p, size=drawn.shape))


def _in_words(roles: Roles, estimator: Any) -> str:
    alone = [name for name in roles.names if name not in roles.shared_names]
    forms = []
    if roles.X_class.shape[1]:
        forms.append("logistic in the classification attributes" if estimator == LOGISTIC else "learned out of fold")
    if roles.shared_names:
        forms.append(f"logistic in {listed(roles.shared_names, NAMED)}")
    return (
        f"Pr(labelled | positive) is the same whatever the values of {listed(roles.names, NAMED)}; Pr(positive | x) "
        f"is {' and '.join(forms)}{f', and does not depend on {listed(alone, NAMED)}' if alone else ''}"
    )
