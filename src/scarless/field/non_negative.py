"""nnPU for tables: gradient boosting on the non-negative risk of labelled and unlabelled rows."""

from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from scarless.checks.estimators import final_step, seeded_clone
from scarless.checks.options import check_at_least_zero, check_choice, check_random_stream
from scarless.field._base import FieldClassifier, check_inner
from scarless.field.weighted_risk import check_class_prior, find_class_prior, risk_targets, told, used_estimator
from scarless.label_frequency.names import narrow_tags
from scarless.numerics.arrays import ArrayLike, Matrix, Vector
from scarless.numerics.risk import ABSOLUTE, LOG, Cost, mixed_cost
from scarless.outside.notices import warn_user
from scarless.pair.boosting import HistogramBooster, booster_kind, max_rounds

COSTS: dict[str, Cost] = {"sigmoid": ABSOLUTE, "log": LOG}  # The sigmoid cost of a logit is 1 - p.
MAX_LOG_CURVATURE = 0.25  # largest second derivative of the log cost of a logit


class NNPUBoostingClassifier(FieldClassifier):
    r"""Gradient boosting on the non-negative risk, if labels are selected completely at random (nnPU).

    **Assumption.** Labels are selected completely at random (SCAR), and the class prior :math:`\pi` is right. All rows
    are one sample of the population.

    **Formula.** The risk of `UPUClassifier` has two parts,

    .. math:: R_+ = \pi\,\overline{\delta_1(z)}^{\,P}, \qquad
        R_- = \overline{\delta_0(z)} - \pi\,\overline{\delta_0(z)}^{\,P}.

    :math:`R_-` estimates the risk of the negatives, which is never negative. A flexible model makes the estimate
    negative, because it learns which rows are labelled. The steps are these: while :math:`R_- \ge -\beta`, a tree is
    fitted to minus the gradient of :math:`R_+ + R_-`. If :math:`R_- < -\beta`, the round *steps back*: a tree is fitted
    to *plus* :math:`\gamma` times the gradient of :math:`R_-`, so that :math:`R_-` rises. Minimising
    :math:`R_+ + \max(0, R_-)` instead is not the method: below 0 the gradient of this maximum is 0, so that boosting
    would go on with :math:`R_+` alone, and call more and more rows positive.

    **If the assumption fails.** Under biased labels the ranking is close to the ranking by :math:`\Pr(s=1|x)`. If
    the class prior is too high, too many rows are called positive, and steps back come early. If it is far too low or
    the trees are small, there are no steps back, and the method is uPU.

    Parameters
    ----------
    estimator : HistGradientBoostingClassifier, LGBMClassifier or XGBClassifier, optional
        Its trees, learning rate and number of rounds are used, its loss is replaced. It can be the last step of a
        pipeline. By default scikit-learn's `HistGradientBoostingClassifier` with 100 rounds. Pass one for tables with
        missing values or categories.
    class_prior : float, str or estimator, optional
        Class prior :math:`\pi = \Pr(y=1)` of all rows, or its estimator, as in `UPUClassifier`. None means "km2".
    cost : {"sigmoid", "log"}, default="sigmoid"
        :math:`\delta_1(z) = \sigma(-z)` as in the paper, or :math:`\log(1 + e^{-z})`.
    beta, gamma : float, default=0 and 1
        Parameters of the steps back.
    random_state : int, SeedSequence, Generator, RandomState or None
        Seed of the random numbers for every `random_state` of the estimator that is None.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    cut_ : float
        0: a row is positive if its score `z` is above this.
    class_prior_, label_frequency_ : float
        The class prior of the risk, given or estimated, and the share of positives that are labelled.
    class_prior_estimator_ : fitted estimator
        The estimator of the class prior. Absent if `class_prior` is a number.
    history_ : dict of arrays
        "positive" and "negative", the parts :math:`R_+` and :math:`R_-` before each round, and "stepped_back".
    n_iter_, n_steps_back_ : int
        Number of rounds, and number of rounds that stepped back.
    classes_, n_features_in_, feature_names_in_
        As in `SAREMClassifier`.

    Notes
    -----
    The paper takes steps by random batches; here every round uses all rows. After the first step back, steps back and
    other steps take turns, and :math:`R_-` stays near 0. With the log cost or few labels this begins after a few
    rounds, and the share of rows that are called positive can depend on the last round. The first score is
    :math:`\mathrm{logit}\,\pi` for the log cost and 0 for the sigmoid cost. Each tree is fitted to four times the
    gradient of each row: a quarter is the largest curvature of the log cost. Newton steps would not stay bounded,
    because the risk of a leaf with many labelled rows has no minimum.

    `predict_proba` exists for ``cost="log"`` only. The sigmoid cost has its minimum at a decision, not at a
    probability. `fit` has no `sample_weight`, because limits on the rows of a leaf count rows.

    References
    ----------
    Kiryo, Niu, du Plessis and Sugiyama, "Positive-unlabeled learning with non-negative risk estimator", NeurIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.field import NNPUBoostingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(4 - 4 * (X**2).sum(axis=1)))
    >>> s = y & (rng.random(2000) < 0.3)
    >>> model = NNPUBoostingClassifier(class_prior=y.mean(), random_state=0).fit(X, s)
    >>> print(f"accuracy {(model.predict(X) == y).mean():.2f}, {model.n_steps_back_} of {model.n_iter_} steps back")
    accuracy 0.83, 16 of 100 steps back

    With a large `beta` there are no steps back, and the method is uPU by boosting:

    >>> model.set_params(beta=1e6).fit(X, s).n_steps_back_
    0
    >>> print(f"accuracy {(model.predict(X) == y).mean():.2f}, risk of negatives {model.history_['negative'][-1]:.2f}")
    accuracy 0.82, risk of negatives -0.03
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        class_prior: Any = None,
        cost: str = "sigmoid",
        beta: float = 0.0,
        gamma: float = 1.0,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.class_prior = class_prior
        self.cost = cost
        self.beta = beta
        self.gamma = gamma
        self.random_state = random_state
        self.pos_label = pos_label

    @property
    def knows(self) -> str:  # type: ignore[override]
        """What the method is told besides the rows: "prior" or "nothing"."""
        return told(self.class_prior)

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Estimate the class prior if it is not given, and boost on the non-negative risk.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.

        Returns
        -------
        self
        """
        given = check_class_prior(self.class_prior)
        cost = COSTS[check_choice(self.cost, "cost", tuple(COSTS))]
        beta, gamma = check_at_least_zero(self.beta, "beta"), check_at_least_zero(self.gamma, "gamma")
        estimator = seeded_clone(self._boosting(), check_random_stream(self.random_state))
        kind = booster_kind(estimator)
        if kind is None:
            raise ValueError(
                "estimator must be None or gradient boosting that accepts gradients: HistGradientBoostingClassifier, "
                f"LGBMClassifier or XGBClassifier, without class weights; got {type(final_step(estimator)).__name__}."
            )
        training = self._read(X, y)
        table, s, _ = training
        self._refuse_sparse(table)
        prior = find_class_prior(self, given, training, weighted=False)
        targets = risk_targets(training, np.zeros(s.size), prior)
        self._start = float(logit(prior)) if self.cost == "log" else 0.0
        self._booster, rounds = kind(estimator, table, s), max_rounds(estimator)
        # Each round of scikit-learn's boosting also adds the mean step to all scores, without the learning rate. Part
        # of the mean is taken out, so that the mean step is shrunk like the tree. Other libraries add a tree only.
        excess = 1.0 - final_step(estimator).learning_rate if kind is HistogramBooster else 0.0
        steps: list[RiskStep] = []

        def gradient(z: Vector) -> tuple[Vector, Vector]:
            steps.append(non_negative_step(self._start + z, targets, cost, beta=beta, gamma=gamma))
            slope = steps[-1].slope
            return slope - excess * slope.mean(), np.full(s.size, MAX_LOG_CURVATURE)

        for _ in range(rounds):
            self._booster.advance(gradient, 1)
        self._booster.keep(rounds)
        if np.ptp(steps[-1].slope[s == 0]) == 0 and np.ptp(self._score_rows(table)) == 0:
            warn_user(
                "NNPUBoostingClassifier gives all rows the same score, because no tree divides the rows: they have the "
                f"same attributes, or {s.size} rows are too few for the smallest leaf of a tree. Use more rows, or an "
                "estimator with smaller leaves, such as HistGradientBoostingClassifier(min_samples_leaf=5).",
                UserWarning,
            )
        self.history_ = {
            name: np.array([getattr(step, name) for step in steps]) for name in ("positive", "negative", "stepped_back")
        }
        self.n_iter_, self.n_steps_back_ = len(steps), int(self.history_["stepped_back"].sum())
        self.cut_ = 0.0
        return self

    @available_if(lambda self: self.cost == "log")
    def predict_proba(self, X: Any) -> Matrix:
        """Return the probability of each class, in the order of ``classes_``; only for ``cost="log"``.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.

        Returns
        -------
        array of shape (n_rows, 2)
        """
        f = np.asarray(expit(self._score_rows(self._check_new(X))))
        return self._coding.columns(f)

    def _score_rows(self, table: Any) -> Vector:
        self._refuse_sparse(table)
        return self._start + np.asarray(self._booster.logits(table))

    def _refuse_sparse(self, table: Any) -> None:
        kind = final_step(self._boosting())
        if sparse.issparse(table) and not get_tags(kind).input_tags.sparse:
            raise TypeError(
                f"X is sparse, and the trees of {type(kind).__name__} need a dense table. Pass X.toarray(), or an "
                "estimator that accepts sparse tables, such as LGBMClassifier."
            )

    def _boosting(self) -> Any:
        """Return the estimator whose trees are used."""
        if self.estimator is None:
            return HistGradientBoostingClassifier()
        check_inner(self.estimator)
        return self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.sparse = get_tags(HistGradientBoostingClassifier()).input_tags.sparse
        narrow_tags(tags, used_estimator(self.class_prior))
        return tags


class RiskStep(NamedTuple):
    """The two parts of the risk at some scores, and the direction of the next step."""

    positive: float
    negative: float
    stepped_back: bool
    slope: Vector  # direction of each score, times the number of rows


def non_negative_step(z: Vector, targets: Vector, cost: Cost, *, beta: float, gamma: float) -> RiskStep:
    r"""Return the parts of the risk and the step of nnPU.

    The parts are :math:`R_+ = \overline{t\,\delta_1(z)}` and :math:`R_- = \overline{(1-t)\,\delta_0(z)}`. The step is
    minus the gradient of their sum, or plus `gamma` times the gradient of :math:`R_-` if this is below ``-beta``.

    Examples
    --------
    >>> t = np.array([4.0, 0.0])  # a labelled row and an unlabelled row, label frequency 1/4
    >>> step = non_negative_step(np.array([3.0, -3.0]), t, LOG, beta=0.0, gamma=1.0)
    >>> step.stepped_back, step.slope.round(2)  # the labelled row moves down again
    (True, array([-2.86,  0.05]))
    """
    curves = cost.logit
    assert curves is not None
    nothing = np.zeros(z.size)
    positive = float(mixed_cost(targets, curves.positive(z), nothing).mean())
    negative = float(mixed_cost(targets, nothing, curves.negative(z)).mean())
    falling = (1.0 - targets) * curves.negative_slope(z)
    back = negative < -beta
    slope = gamma * falling if back else -(targets * curves.positive_slope(z) + falling)
    return RiskStep(positive, negative, back, slope)
