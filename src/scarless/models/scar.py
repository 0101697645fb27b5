"""SCARClassifier, for labels that are selected completely at random, and NaiveClassifier, the baseline."""

from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import BY_MEAN, check_choice, warn_about_heavy_rows
from scarless.checks.rows import LabelledRows
from scarless.engines import has_own_engine
from scarless.label_frequency.names import (
    as_label_frequency_estimator,
    fit_label_frequency,
    narrow_tags,
    possible_frequency_of,
)
from scarless.label_frequency.samples import as_named, draw_sample
from scarless.labelling.base import check_one_propensity
from scarless.models.base import PUClassifier, check_solver_options
from scarless.models.pair import PairClassifier
from scarless.models.propensity_weighted import fit_known, known_probability, read_for_known
from scarless.models.reading import Given
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.pair.logistic import Training, in_memory


class SCARClassifier(PairClassifier):
    r"""Classifier for labels that are *selected completely at random* (SCAR).

    Every positive is labelled with the same probability: :math:`e(x) = c` for every `x`.

    Parameters
    ----------
    label_frequency : float, str or estimator, optional
        The label frequency :math:`c = \Pr(s=1|y=1)`, in (0, 1], or its estimator: "tice", "km1", "km2", "elkan-noto",
        "dedpul", "best-bin", or an object whose ``fit(X, s)`` stores ``label_frequency_``, such as those of
        `scarless.label_frequency`. The estimator is fitted to `X` (to at most 200,000 random rows of a table in files).
        None: `c` and a logistic classifier are estimated together by maximum likelihood, which assumes that the class
        is logistic in the attributes. Only this fit has standard errors and a `summary`.
    estimator : scikit-learn classifier, optional
        Class model; logistic regression by default. See `PropensityWeightedClassifier` for the classifiers that work.
    method : {"risk", "likelihood"}, default="risk"
        How to fit for a given `c`; see `PropensityWeightedClassifier`.
    C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`.
    tol : float, optional
        Stop if the log-likelihood per row gains less than this: in one more Newton step (default 1e-8, or 1e-10 if
        `label_frequency` is None), or in three iterations of EM together (default 1e-4).
    max_iter : int, default=200
        Maximum number of iterations.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic class model. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The class model, if `estimator` is given.
    propensity_coef_, propensity_intercept_, log_likelihood_, converged_, history_, optima_, selection_, higher_optimum_
        As in `SAREMClassifier`, if `label_frequency` is None; the coefficients of the propensity are 0.
    label_frequency_ : float
        The label frequency `c`.
    label_frequency_estimator_ : fitted estimator
        The estimator of the label frequency, if `label_frequency` is a name or an estimator.
    label_frequency_rows_ : int
        Number of rows that the estimator of the label frequency was fitted to.
    class_prior_ : float
        Mean predicted probability of the training rows.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    See Also
    --------
    SAREMClassifier : For labelling that depends on attributes.
    scarless.diagnostics.scar_test : Test of the SCAR assumption.

    Notes
    -----
    Tools of scikit-learn that compare predictions with `y` treat unlabelled rows as negative. Do not use
    ``CalibratedClassifierCV``: it turns class probabilities into probabilities of a label. Instead of
    ``scoring="roc_auc"``, leave `scoring` out, or use `scarless.metrics.make_pu_scorer`. See the guide, section
    Cross-validation and pipelines.

    References
    ----------
    Elkan and Noto, "Learning classifiers from only positive and unlabeled data", KDD 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import SCARClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> s = y & (rng.random(4000) < 0.3)
    >>> model = SCARClassifier(label_frequency=0.3).fit(X, s)
    >>> print(f"{y.mean():.2f} true, {model.class_prior_:.2f} estimated, {s.mean():.2f} labelled")
    0.50 true, 0.47 estimated, 0.14 labelled

    If `c` is unknown, it is estimated by maximum likelihood, with an interval of the class prior:

    >>> low, high = SCARClassifier().fit(X, s).class_prior_interval()
    >>> bool(low < y.mean() < high)
    True

    Estimators of the label frequency need some rows that are almost certainly positive:

    >>> round(SCARClassifier("dedpul").fit(X + 2 * y[:, None], s).label_frequency_, 1)
    0.3
    """

    _none_is_scar = False  # the name of the class says so already
    _one_propensity = True
    _propensity_is_known = True
    _standard_errors_need = (
        "a logistic model that is fitted by maximum likelihood (label_frequency=None, estimator=None)"
    )

    def __init__(
        self,
        label_frequency: Any = None,
        *,
        estimator: Any = None,
        method: str = "risk",
        C: float = 1.0,
        tol: float | None = None,
        max_iter: int = 200,
        pos_label: Any = None,
    ) -> None:
        self.label_frequency = label_frequency
        self.estimator = estimator
        self.method = method
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default. An estimator of the label frequency must accept weights too.

        Returns
        -------
        self
        """
        method = check_choice(self.method, "method", ("risk", "likelihood"))
        check_solver_options(self)
        if self.label_frequency is None and self.estimator is not None:
            raise ValueError(
                "label_frequency must be given if estimator is given, because only the logistic classifier is fitted "
                "together with its label frequency. To estimate both for another classifier, use "
                "SAREMClassifier(estimator)."
            )
        frequency = self._check_label_frequency()
        read = read_for_known(self, X, y, sample_weight)
        if isinstance(read, LabelledRows) and frequency is None:
            self._fit_jointly(read)
            return self
        self._pair = None
        if not isinstance(frequency, float):
            self.label_frequency_estimator_ = frequency
            if isinstance(read, LabelledRows) and has_own_engine(X):
                frequency = self._fit_frequency_on_sample(read, weighted=sample_weight is not None)
            else:
                s, w = read[1:] if isinstance(read, Training) else (in_memory(read.engine, name) for name in ("s", "w"))
                self.label_frequency_rows_ = int(np.count_nonzero(w))
                frequency = fit_label_frequency(frequency, X, s, None if sample_weight is None else w)
        fit_known(self, read, frequency, method)
        self.label_frequency_ = frequency
        return self

    def _fit_frequency_on_sample(self, rows: LabelledRows, *, weighted: bool) -> float:
        """Fit the estimator of the label frequency to a sample of rows that are not in memory."""
        sample, estimator = draw_sample(rows), self.label_frequency_estimator_
        self.label_frequency_rows_ = sample.s.size
        table = as_named(sample.X, getattr(self, "feature_names_in_", None))
        c = fit_label_frequency(estimator, table, sample.s, sample.w if weighted else None)
        return possible_frequency_of(estimator, c, rows.totals)

    def _check_label_frequency(self) -> Any:
        """Return the label frequency as None, a number in (0, 1] or an estimator to fit."""
        given = self.label_frequency
        if given is None or isinstance(given, Real):
            return None if given is None else check_one_propensity(given, "label_frequency")
        return as_label_frequency_estimator(given, "label_frequency")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        narrow_tags(tags, self.label_frequency)
        return tags

    def _can_fit_from_engine(self) -> bool:
        return self.label_frequency is None and self.estimator is None

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        self._fit_jointly(rows)

    def _fit_jointly(self, rows: LabelledRows) -> None:
        """Fit like `SAREMClassifier` without propensity attributes: `e` has only an intercept."""
        given = Given(rows, np.arange(self.n_features_in_), np.arange(0))
        problem = given.problem(self.C, 1.0)
        self._store_fit(given, problem, self._fit_from_starts(problem, 1, 1e-10 if self.tol is None else self.tol))
        warn_about_heavy_rows(float(rows.totals.n_rows), float(rows.totals.weight), type(self).__name__, BY_MEAN)

    def _class_probability(self, X: Any) -> Vector:
        check_is_fitted(self)
        return known_probability(self, X) if self._pair is None else super()._class_probability(X)

    def _own_propensity(self, X: Any) -> Vector:
        return np.full(self._class_probability(X).size, self.label_frequency_)


class NaiveClassifier(PUClassifier):
    r"""Baseline classifier that treats every unlabelled row as negative.

    It estimates :math:`\Pr(s=1|x) = f(x)\,e(x)`, which equals :math:`\Pr(y=1|x)` only if every positive is labelled.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        Classifier; logistic regression by default.
    C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`.
    tol : float, optional
        Stop if one more Newton step gains less than this in log-likelihood per row (default 1e-8). For logistic
        regression only.
    max_iter : int, default=200
        Maximum number of iterations.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic model. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The classifier, if `estimator` is given.
    class_prior_ : float
        Mean predicted probability of the training rows.
    label_frequency_ : float
        1, by assumption.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import NaiveClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> NaiveClassifier().fit(X, [0, 0, 1, 1]).predict([[3.0]])
    array([1])
    """

    _corrects = False
    _propensity_is_known = True
    _class_probability = known_probability

    def __init__(
        self,
        estimator: Any = None,
        *,
        C: float = 1.0,
        tol: float | None = None,
        max_iter: int = 200,
        pos_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        self
        """
        check_solver_options(self)
        fit_known(self, read_for_known(self, X, y, sample_weight), 1.0, "risk")
        return self
