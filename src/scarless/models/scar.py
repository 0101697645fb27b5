"""Classifiers under stronger assumptions: labels completely at random, or no missing labels at all."""

from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import check_choice
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
    r"""Learn the true class when every positive is labelled with the same probability `c`.

    Labels *selected completely at random* (SCAR): :math:`e(x) = c` for every `x`.

    Parameters
    ----------
    label_frequency : float, str or estimator, optional
        :math:`c = \Pr(s=1|y=1)`, in (0, 1], or what estimates it first: "tice", "km1", "km2", "elkan-noto", "dedpul" or
        "best-bin" (each with ``random_state=0``, so that the answer is the same each time), or an object whose
        ``fit(X, s)`` leaves ``label_frequency_``, such as those of `scarless.label_frequency`. It gets `X` as it is,
        not as `estimator` prepares it: for text, give a pipeline that ends in one. None: estimated together with a
        logistic classifier by maximum likelihood, which is right only as far as the true class is logistic in the
        attributes; standard errors, intervals and `summary` are of this fit. Where rows are not in memory
        (`scarless.scale.ParquetRows` and others), an estimator gets a random sample of at most 200,000 of them, the
        same each time, with their weights; the classifier is then fitted to all rows.
    estimator : scikit-learn classifier, optional
        None: logistic regression. See `PropensityWeightedClassifier` for which others work.
    method : {"risk", "likelihood"}, default="risk"
        How to fit for a given `c`; see `PropensityWeightedClassifier`.
    C : float, default=1.0
        Inverse penalty of the logistic model, as in ``LogisticRegression``.
    tol : float, optional
        A fit ends when it gains less than this in log-likelihood per row: by Newton's method, where one more step is
        predicted to (default 1e-8, and 1e-10 where `label_frequency` is None); by EM (an `estimator` with
        ``method="likelihood"``), where three iterations together did (default 1e-4).
    max_iter : int, default=200
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    classes_ : array of shape (2,)
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Where `estimator` is None.
    estimator_ : fitted estimator
        Where `estimator` is given.
    propensity_coef_, propensity_intercept_, log_likelihood_, converged_, history_, optima_, selection_, higher_optimum_
        Where `label_frequency` is None: as in `SAREMClassifier`; the coefficients of the propensity are 0.
    label_frequency_ : float
        The `c` used.
    label_frequency_estimator_ : fitted estimator
        Where `label_frequency` is a name or an estimator. It got the labels as 0 and 1.
    label_frequency_rows_ : int
        How many rows that estimator was fitted to: all with a weight above 0, or the sample.
    class_prior_ : float
        The mean of the predicted probabilities over the training rows.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    See Also
    --------
    SAREMClassifier : When the labelling depends on attributes.
    scarless.diagnostics.scar_test : Does it?

    Notes
    -----
    What scikit-learn fits or chooses by `y` takes the observed labels for classes and undoes the correction:
    ``CalibratedClassifierCV`` and ``StackingClassifier`` around this classifier, ``scoring="roc_auc"`` or
    ``"accuracy"``, ``TunedThresholdClassifierCV``. There is a warning where that can be noticed. Leave `scoring` out,
    which is the likelihood of held-out labels, or use `scarless.metrics.make_pu_scorer`, which also says how to tune a
    threshold. How far probabilities are right is shown by `scarless.diagnostics.ClassCalibrationDisplay`.

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

    With `c` unknown, both are estimated by maximum likelihood, and one sees how sure that is:

    >>> low, high = SCARClassifier().fit(X, s).class_prior_interval()
    >>> bool(low < y.mean() < high)
    True

    An estimator of the label frequency needs some rows that are almost surely positive:

    >>> round(SCARClassifier("dedpul").fit(X + 2 * y[:, None], s).label_frequency_, 1)
    0.3
    """

    _none_is_scar = False  # it always is
    _one_propensity = True
    _propensity_is_fact = True
    _known_where = "label_frequency=None, estimator=None"

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
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts. An estimator of the label frequency must take weights too.

        Returns
        -------
        self
        """
        method = check_choice(self.method, "method", ("risk", "likelihood"))
        check_solver_options(self)
        if self.label_frequency is None and self.estimator is not None:
            raise ValueError(
                "label_frequency must be given with an estimator of your own; maximum likelihood estimates it for the "
                "logistic classifier only. SAREMClassifier(estimator) estimates both by EM."
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
        """Fit the estimator of the label frequency to some of the rows, which are elsewhere."""
        sample, estimator = draw_sample(rows), self.label_frequency_estimator_
        self.label_frequency_rows_ = sample.s.size
        table = as_named(sample.X, getattr(self, "feature_names_in_", None))
        c = fit_label_frequency(estimator, table, sample.s, sample.w if weighted else None)
        return possible_frequency_of(estimator, c, rows.totals)

    def _check_label_frequency(self) -> Any:
        """Return None, a number in (0, 1] or an estimator to fit."""
        given = self.label_frequency
        if given is None or isinstance(given, Real):
            return None if given is None else check_one_propensity(given, "label_frequency")
        return as_label_frequency_estimator(given, "label_frequency")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        narrow_tags(tags, self.label_frequency)
        return tags

    def _lives_in_engine(self) -> bool:
        return self.label_frequency is None and self.estimator is None

    def _fit_on(self, rows: LabelledRows, X: Any) -> None:
        self._fit_jointly(rows)

    def _fit_jointly(self, rows: LabelledRows) -> None:
        """Fit as `SAREMClassifier` does where no propensity attributes are named: `e` is an intercept."""
        given = Given(rows, np.arange(self.n_features_in_), np.arange(0))
        problem = given.problem(self.C, 1.0)
        self._store_fit(given, problem, self._climb(problem, 1, 1e-10 if self.tol is None else self.tol))

    def _class_probability(self, X: Any) -> Vector:
        check_is_fitted(self)
        return known_probability(self, X) if self._pair is None else super()._class_probability(X)

    def _own_propensity(self, X: Any) -> Vector:
        return np.full(self._class_probability(X).size, self.label_frequency_)


class NaiveClassifier(PUClassifier):
    r"""Take every unlabelled row as negative: the baseline that all others must beat.

    It estimates :math:`\Pr(s=1|x) = f(x)\,e(x)`, not :math:`\Pr(y=1|x)`: right only when every positive is labelled.

    Parameters
    ----------
    estimator : scikit-learn classifier, optional
        None: logistic regression.
    C : float, default=1.0
        Inverse penalty of the logistic model, as in ``LogisticRegression``.
    tol : float, optional
        A fit ends when it gains less than this in log-likelihood per row: where one more step of Newton's method is
        predicted to (default 1e-8). For the logistic model only.
    max_iter : int, default=200
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    classes_ : array of shape (2,)
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Where `estimator` is None.
    estimator_ : fitted estimator
        Where `estimator` is given.
    class_prior_ : float
        The mean of the predicted probabilities over the training rows.
    label_frequency_ : float
        1, by assumption.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless import NaiveClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> NaiveClassifier().fit(X, [0, 0, 1, 1]).predict([[3.0]])
    array([1])
    """

    _corrects = False
    _propensity_is_fact = True
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
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        self
        """
        check_solver_options(self)
        fit_known(self, read_for_known(self, X, y, sample_weight), 1.0, "risk")
        return self
