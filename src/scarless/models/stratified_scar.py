"""Classifier for labels that are selected completely at random within strata, as in the paper."""

import warnings
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from scarless.checks.attributes import select_columns
from scarless.checks.estimators import final_step
from scarless.checks.options import check_choice, check_whole, shown
from scarless.checks.tables import check_foreign_table, check_numeric, check_table, take_columns, take_rows
from scarless.engines import attach
from scarless.label_frequency.names import (
    NAMES,
    as_label_frequency_estimator,
    fit_label_frequency,
    narrow_tags,
)
from scarless.labelling.base import columns_at
from scarless.models.base import PUClassifier, check_solver_options, need_labels
from scarless.models.propensity_weighted import fit_known, known_probability
from scarless.numerics.arrays import Array, ArrayLike, Vector
from scarless.numerics.linear import Design
from scarless.outside.notices import ClassPriorWarning, warn_user
from scarless.pair.fit import FitOptions, PairFit, fit_pair
from scarless.pair.form import MIN_LABELLED, REJECTION_P_VALUE, check_form
from scarless.pair.learners import check_weighted_classifier
from scarless.pair.logistic import Training, engine_of, fit_known_propensity
from scarless.pair.problem import PairProblem

# Limits of the comparison with a maximum-likelihood fit, chosen by judgement.
MAX_STRATA_COMPARED = 30
PRIOR_WARNING_GAP = 0.05  # difference of class priors above which the fit warns
COMPARISON_C = 100.0  # inverse regularisation strength of the label frequencies of strata in that fit


Codes = NDArray[np.int64]
_MISSING_AS_TEXT = ("None", "nan", "NaT", "<NA>")


def comparable(values: Array, name: str) -> Array:
    """Return the values of an attribute as floats, or as text if they are not numeric; raise if any is missing."""
    held = np.asarray(values.tolist()) if values.dtype.kind == "O" else values
    if held.dtype.kind in "fiub":
        clean = held if held.dtype.kind == "f" else held.astype(np.float64)
        missing = np.flatnonzero(np.isnan(clean))
    else:
        clean = held.astype(str)
        suspects = np.flatnonzero(np.isin(clean, _MISSING_AS_TEXT))
        missing = suspects[[not isinstance(values[row], str) for row in suspects]]
    if missing.size:
        raise ValueError(
            f"propensity_attributes: {name} has {missing.size} missing value{'' if missing.size == 1 else 's'} in "
            f"{values.size} rows (first: row {missing[0]}). Code missing values as a separate category, or drop these "
            "rows."
        )
    return clean


class Combinations(NamedTuple):
    """Combinations of values that occur in some columns, numbered in sorted order."""

    levels: list[Array]  # sorted values of each column
    keys: list[Codes]  # for each column, sorted codes of the combinations of its values with those of earlier columns

    def find(self, columns: list[Array], n_rows: int) -> Codes:
        """Return the number of each row's combination, or -1 if it did not occur."""
        code, known = np.zeros(n_rows, dtype=np.int64), np.ones(n_rows, dtype=bool)
        for levels, keys, column in zip(self.levels, self.keys, columns, strict=True):
            if levels.dtype != column.dtype and levels.dtype.kind == "f":  # 0.1 in float32 must match 0.1 in float64
                with np.errstate(over="ignore"):
                    levels, column = levels.astype(np.float32), column.astype(np.float32)  # noqa: PLW2901
            place, is_level = _place(levels, column)
            code, is_key = _place(keys, code * levels.size + place)
            known &= is_level & is_key
        return np.where(known, code, -1)


def combine(columns: list[Array], n_rows: int) -> tuple[Combinations, Codes]:
    """Return the combinations that occur, and the number of each row's combination."""
    code, found = np.zeros(n_rows, dtype=np.int64), Combinations([], [])
    for column in columns:
        levels, place = np.unique(column, return_inverse=True)
        keys, code = np.unique(code * levels.size + place, return_inverse=True)
        found.levels.append(levels)
        found.keys.append(keys)
    return found, code


class Estimates(NamedTuple):
    """Label frequencies of all rows and of each stratum, with the errors and warnings of their estimator."""

    estimator: Any  # fitted to all rows
    pooled: float  # label frequency of all rows
    within: Vector  # label frequency of each stratum; NaN if there is none
    failures: dict[int, str]  # error of each stratum whose estimate failed
    notices: dict[type[Warning], dict[int | None, str]]  # warnings by category and stratum; None is all rows


def estimate_within(prototype: Any, X: Any, s: Vector, w: Vector | None, code: Codes, chosen: Codes) -> Estimates:
    """Estimate the label frequency of all rows together and of each chosen stratum."""
    estimator = clone(prototype, safe=False)
    notices: dict[type[Warning], dict[int | None, str]] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pooled = fit_label_frequency(estimator, X, s, w)
    _collect(notices, None, caught)
    estimates = Estimates(estimator, pooled, np.full(code.max() + 1, np.nan), {}, notices)
    order = np.argsort(code, kind="stable")
    starts, stops = (np.searchsorted(code[order], chosen, side=side) for side in ("left", "right"))
    for stratum, start, stop in zip(chosen.tolist(), starts, stops, strict=True):
        rows = order[start:stop]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                weight = None if w is None else w[rows]
                c = fit_label_frequency(clone(prototype, safe=False), take_rows(X, rows), s[rows], weight)
                estimates.within[stratum] = c
            except ValueError as error:
                estimates.failures[stratum] = str(error)
        _collect(notices, stratum, caught)
    return estimates


def _collect(notices: dict[type[Warning], dict[int | None, str]], stratum: int | None, caught: Any) -> None:
    for notice in caught:
        notices.setdefault(notice.category, {}).setdefault(stratum, str(notice.message))


def _place(ordered: Array, values: Array) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the position of each value in a sorted array, and whether it occurs there."""
    place = np.minimum(np.searchsorted(ordered, values), ordered.size - 1)
    return place, ordered[place] == values


class Stratum(NamedTuple):
    """A combination of values of the propensity attributes, with its label frequency."""

    values: tuple[Any, ...]
    n_rows: float  # sum of the weights, an int if all weights are whole numbers
    n_labelled: float
    label_frequency: float
    pooled: bool  # whether the pooled label frequency was used


class StratifiedSCARClassifier(PUClassifier):
    r"""Classifier for labels that are selected completely at random within strata.

    The propensity attributes :math:`x_e` divide the table into strata, one for each combination of values that occurs.
    Within a stratum the propensity is constant, :math:`e(x) = c_{x_e}`. The labels there are SCAR, and any estimator of
    the label frequency can be applied to the other attributes. One classifier is then fitted to all rows with these
    propensities, as in `PropensityWeightedClassifier`.

    The method assumes that the propensity depends only on the stratum, that each stratum has enough rows, and that some
    rows are almost certainly positive. If the most certain rows are positive only with probability m, the class prior
    is too high by a factor of up to 1/m. `SAREMClassifier` needs no such rows if the class is logistic. If the
    class model is logistic, `fit` therefore compares it with a maximum-likelihood fit, and warns if they disagree.

    Strata with fewer than `min_rows` rows or `min_labelled` labelled rows, or whose estimate fails, use the pooled
    label frequency of all rows. If such a stratum has at least `min_rows` rows, and its share of labelled rows is
    higher than the pooled label frequency, it uses this share instead.

    Parameters
    ----------
    propensity_attributes : column selector or None
        Columns that the propensity depends on: names, positions, slice, mask, callable or polars selector. The name of
        an encoded attribute selects all of its columns. Choose few columns with few values, and bin numbers first.
        None: one stratum, which is SCAR.
    label_frequency : str or estimator, default="best-bin"
        Estimator of the label frequency: "tice", "km1", "km2", "elkan-noto", "dedpul", "best-bin", or an object whose
        ``fit(X, s)`` stores ``label_frequency_``, such as those of `scarless.label_frequency`. It is cloned for each
        stratum. "best-bin" has the smallest errors in strata of about 100 rows; "dedpul" is as good in strata of
        about 250 rows or more.
    min_rows, min_labelled : int, default=50 and 10
        Strata with fewer rows, or fewer labelled rows, use the pooled label frequency.
    estimator : scikit-learn classifier, optional
        Class model; logistic regression by default. See `PropensityWeightedClassifier` for the classifiers that work.
        With a classifier that reads data frames, propensity attributes may be text.
    method : {"risk", "likelihood"}, default="risk"
        How to fit for given propensities; see `PropensityWeightedClassifier`.
    C : float, default=1.0
        Inverse regularisation strength, as in `LogisticRegression`.
    tol : float, optional
        Stop if the log-likelihood per row gains less than this: in one more Newton step (default 1e-8), or in three
        iterations of EM together (default 1e-4).
    max_iter : int, default=200
        Maximum number of iterations.
    pos_label : object, optional
        Value that marks a labelled row. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    strata_ : list of named tuples
        Strata in sorted order, each with ``values`` (in the order of `propensity_attributes`), ``n_rows``,
        ``n_labelled``, ``label_frequency`` and ``pooled``. ``pandas.DataFrame(model.strata_)`` makes a table.
    pooled_label_frequency_ : float
        Label frequency of all rows together. It is used for strata whose ``pooled`` is True, and for combinations of
        values that did not occur in `fit`.
    label_frequency_estimator_ : fitted estimator
        The estimator of the pooled label frequency.
    classes_ : array of shape (2,)
        The two label values, sorted.
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Logistic model. Absent if `estimator` is given.
    estimator_ : fitted estimator
        The class model, if `estimator` is given.
    class_prior_, label_frequency_ : float
        Estimated :math:`\Pr(y=1)` and :math:`\Pr(s=1|y=1)` of the training rows.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of columns in `fit`.
    feature_names_in_ : array of str
        Names of the columns, if `X` has them.

    See Also
    --------
    SAREMClassifier : Models the propensity, and so combines information from all strata.
    SCARClassifier : One label frequency for all rows.

    References
    ----------
    Bekker, Robberechts and Davis, "Beyond the Selected Completely At Random Assumption for Learning from Positive
    and Unlabeled Data", ECML-PKDD 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from scarless.models import StratifiedSCARClassifier
    >>> rng = np.random.default_rng(0)
    >>> y, region = rng.random(6000) < 0.4, rng.integers(0, 2, size=6000)
    >>> x = rng.normal(size=(6000, 2)) + 3 * y[:, None]
    >>> s = y & (rng.random(6000) < np.where(region == 1, 0.8, 0.3))
    >>> X = np.column_stack([x, region])
    >>> model = StratifiedSCARClassifier(propensity_attributes=[2], label_frequency="best-bin").fit(X, s)
    >>> for stratum in model.strata_:
    ...     print(stratum.values, stratum.n_rows, f"{stratum.label_frequency:.1f}")
    (0.0,) 3021 0.3
    (1.0,) 2979 0.8
    >>> print(f"{y.mean():.1f} true, {model.class_prior_:.1f} estimated, {s.mean():.1f} labelled")
    0.4 true, 0.4 estimated, 0.2 labelled
    """

    _propensity_is_known = True
    _class_probability = known_probability

    def __init__(
        self,
        propensity_attributes: Any,
        *,
        label_frequency: Any = "best-bin",
        min_rows: int = 50,
        min_labelled: int = 10,
        estimator: Any = None,
        method: str = "risk",
        C: float = 1.0,
        tol: float | None = None,
        max_iter: int = 200,
        pos_label: Any = None,
    ) -> None:
        self.propensity_attributes = propensity_attributes
        self.label_frequency = label_frequency
        self.min_rows = min_rows
        self.min_labelled = min_labelled
        self.estimator = estimator
        self.method = method
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.pos_label = pos_label

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the label frequencies and fit the classifier.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default. Weights also count towards `min_rows` and `min_labelled`. The estimator of
            the label frequency must accept weights too.

        Returns
        -------
        self
        """
        method = check_choice(self.method, "method", ("risk", "likelihood"))
        check_solver_options(self)
        check_whole(self.min_rows, "min_rows", at_least=1)
        check_whole(self.min_labelled, "min_labelled", at_least=1)
        prototype = self._check_label_frequency()
        if self.estimator is not None:
            check_weighted_classifier(self.estimator, "estimator")
        training = self._check_training(X, y, sample_weight)
        self._columns = self._check_columns(X)
        values = self._stratum_values(training.X)
        # Estimators may select columns of a data frame by name, so they get the user's table. Rows of weight 0 are left
        # out.
        rows = np.flatnonzero(training.weight)
        counted = Training(X if hasattr(X, "columns") else training.X, training.s, training.weight)
        if rows.size < training.s.size:
            counted = Training(*(take_rows(part, rows) for part in counted))
        self._fit_strata(counted, [column[rows] for column in values], prototype, weighted=sample_weight is not None)
        propensity = self._propensity_of(values, training.s.size)
        fit_known(self, training, propensity, method)
        if self.estimator is None:
            self._compare_with_likelihood(counted, self._combinations.find([c[rows] for c in values], rows.size))
        return self

    def _fit_strata(self, training: Training, values: list[Array], prototype: Any, *, weighted: bool) -> None:
        table, s, w = training
        self._combinations, code = combine(values, s.size)
        n_rows, n_labelled = np.bincount(code, w), np.bincount(code, w * s)
        large = (n_rows >= self.min_rows) & (n_labelled >= self.min_labelled)
        chosen = np.flatnonzero(large & (n_labelled < n_rows))
        others = np.setdiff1d(np.arange(self.n_features_in_), self._columns)
        table = table if others.size == self.n_features_in_ else take_columns(table, others)
        estimates = estimate_within(prototype, table, s, w if weighted else None, code, chosen)
        self.label_frequency_estimator_ = estimates.estimator
        self.pooled_label_frequency_ = estimates.pooled

        share = n_labelled / n_rows
        fallback = np.where(n_rows >= self.min_rows, np.maximum(estimates.pooled, share), estimates.pooled)
        # If all rows of a large stratum are labelled, its label frequency is 1, and there is nothing to estimate.
        all_labelled = (n_rows >= self.min_rows) & (n_labelled == n_rows)
        pooled = np.isnan(estimates.within) & ~all_labelled
        c = np.where(pooled | all_labelled, fallback, estimates.within)
        self._frequencies = np.append(c, estimates.pooled)  # the last one is for new combinations, which have code -1
        first = np.unique(code, return_index=True)[1]
        combinations = list(zip(*(column[first].tolist() for column in values), strict=True)) or [()]
        if (w == np.rint(w)).all():
            n_rows, n_labelled = n_rows.astype(np.int64), n_labelled.astype(np.int64)
        columns = (n_rows.tolist(), n_labelled.tolist(), c.tolist(), pooled.tolist())
        self.strata_ = [Stratum(*row) for row in zip(combinations, *columns, strict=True)]
        self._warn_about_estimates(estimates, chosen.size)
        self._warn_about_fallback(n_rows, pooled)
        self._warn_about_no_labels(n_rows, n_labelled)

    def _compare_with_likelihood(self, training: Training, code: NDArray[np.int64]) -> None:
        """Warn if a maximum-likelihood fit contradicts the label frequencies of strata, or SCAR within them."""
        n_strata = len(self.strata_)
        if n_strata > MAX_STRATA_COMPARED or training.weight @ training.s < MIN_LABELLED:
            return
        X = check_numeric(training.X)
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        table = np.column_stack([dense, code[:, None] == np.arange(1, n_strata)])
        f = Design.of(np.arange(self.n_features_in_))
        e = Design.of(np.arange(self.n_features_in_, table.shape[1]))
        engine = engine_of(table, s=training.s, w=training.weight)
        problem = PairProblem.of(engine, f, e, self.C, COMPARISON_C)
        c = np.clip(self._frequencies[:-1], 1e-3, 1.0 - 1e-3)
        given = attach(engine, e=c[code])
        known = fit_known_propensity(given, f, C=self.C, tol=1e-8, max_iter=self.max_iter).parameters
        start = np.concatenate([known, logit(c[1:]) - logit(c[0]), logit(c[:1])])
        fit = fit_pair(problem, start, FitOptions(1e-8, self.max_iter))
        begin, end = (problem.sums(at) for at in (start, fit.parameters))
        self._warn_if_contradicted(problem, fit, float(end.log_likelihood - begin.log_likelihood), n_strata)

    def _warn_if_contradicted(self, problem: PairProblem, fit: PairFit, gain: float, n_strata: int) -> None:
        prior = float(problem.sums(fit.parameters).positives) / problem.weight
        form = check_form(problem, fit.f, fit.e)
        if abs(prior - self.class_prior_) > PRIOR_WARNING_GAP and chi2.sf(2.0 * gain, n_strata) < REJECTION_P_VALUE:
            warn_user(
                f"{type(self).__name__}: the labels contradict the label frequencies of the strata. A logistic class "
                f"model fits clearly better (log-likelihood higher by {gain:.1f}) with a class prior of {prior:.2f}; "
                f"the strata give {self.class_prior_:.2f}. The estimates of label frequencies assume that some rows of "
                "each stratum are almost certainly positive, and that the propensity depends only on the stratum. "
                "SAREMClassifier(propensity_attributes=...) does not need almost certain positives.",
                ClassPriorWarning,
            )
        elif form is not None and form.rejected:
            names = [*map(self._name, range(self.n_features_in_)), *[f"stratum {k}" for k in range(1, n_strata)]]
            missing = f"{names[form.driver]} in the propensity" if form.driver >= 0 else form.direction.describe(names)
            warn_user(
                f"{type(self).__name__}: either labels are not completely at random within strata, or the class is not "
                f"linear in the columns. The models fit the labels clearly better with {missing}. Name more "
                "propensity_attributes, or use SAREMClassifier or SARStackingClassifier.",
                ClassPriorWarning,
            )

    def predict_propensity(self, X: Any) -> Vector:
        """Return the label frequency of each row's stratum.

        Rows with a combination of values that did not occur in `fit` get the pooled label frequency.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.

        Returns
        -------
        array of shape (n_rows,)
        """
        check_is_fitted(self)
        if hasattr(self, "coef_"):
            X = check_table(self, X, reset=False)
        else:
            X = check_foreign_table(self, X, inner=self._reader, reset=False)
        return self._propensity_of(self._stratum_values(X), X.shape[0])

    def predict_posterior(self, X: Any, s: ArrayLike) -> Vector:
        r"""Return the posterior :math:`\Pr(y=1|x,s)` of each row, given its label.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each.
        s : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows, or coded as in `fit`.

        Returns
        -------
        array of shape (n_rows,)
        """
        need_labels(s, "predict_posterior(X, s)")
        return self._posterior(X, s, self.predict_propensity(X), known=True)

    def _assumed_propensity(self, X: Any) -> Vector:
        return self.predict_propensity(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        narrow_tags(tags, self.label_frequency)
        return tags

    def _check_label_frequency(self) -> Any:
        given = self.label_frequency
        if given is None or isinstance(given, Real):
            raise ValueError(
                f"label_frequency must be an estimator, or the name of one: {', '.join(map(repr, NAMES))}; got "
                f"{shown(given)}. For one label frequency use SCARClassifier({shown(given)}); for known propensities "
                "use PropensityWeightedClassifier."
            )
        return as_label_frequency_estimator(given, "label_frequency")

    def _check_columns(self, X: Any) -> NDArray[np.intp]:
        if self.propensity_attributes is None:
            return np.arange(0)
        n, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        columns = select_columns(  # in the order given, which `strata_` keeps
            self.propensity_attributes, X, n_columns=n, names=names, parameter="propensity_attributes"
        )
        if columns.size == n:
            raise ValueError(
                f"propensity_attributes selects every column of X (n_features = {n}), but the label frequency of a "
                "stratum is estimated from the other columns. Name fewer columns, or use SAREMClassifier, which models "
                "the propensity."
            )
        return columns

    def _name(self, column: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return f"column {column}" if names is None else str(names[column])

    def _stratum_values(self, X: Any) -> list[Array]:
        columns = columns_at(X, self._columns.tolist())
        return [comparable(values, self._name(j)) for values, j in zip(columns, self._columns, strict=True)]

    def _propensity_of(self, values: list[Array], n_rows: int) -> Vector:
        for column, levels, j in zip(values, self._combinations.levels, self._columns, strict=True):
            if (column.dtype.kind == "U") != (levels.dtype.kind == "U"):
                was, is_now = ("numbers", "text") if column.dtype.kind == "U" else ("text", "numbers")
                raise ValueError(
                    f"propensity_attributes: {self._name(j)} was {was} in fit and is {is_now} now. Convert it to {was}."
                )
        return self._frequencies[self._combinations.find(values, n_rows)]

    def _place_of(self, stratum: int | None) -> str:
        if stratum is None:
            return "all rows"
        pairs = zip(self._columns, self.strata_[stratum].values, strict=True)
        return "the rows where " + ", ".join(f"{self._name(j)} = {value!r}" for j, value in pairs)

    def _warn_about_estimates(self, estimates: Estimates, n_strata: int) -> None:
        """Emit one warning for the errors of the estimator in all strata, and one for each category of its warnings."""
        kind = type(final_step(estimates.estimator)).__name__
        if estimates.failures:
            stratum, message = next(iter(estimates.failures.items()))
            warn_user(
                f"{kind} failed in {len(estimates.failures):,} of {n_strata:,} strata. These strata use the pooled "
                f"label frequency, {estimates.pooled:.3g}. First error, for {self._place_of(stratum)}: {message}",
                UserWarning,
            )
        for category, messages in estimates.notices.items():
            fit, message = next(iter(messages.items()))
            warn_user(
                f"{kind} warned in {len(messages):,} of {n_strata + 1:,} fits (there is one fit for all rows together, "
                f"and one for each stratum). First warning, for {self._place_of(fit)}: {message}",
                category,
            )

    def _warn_about_fallback(self, n_rows: Array, pooled: NDArray[np.bool_]) -> None:
        share = n_rows[pooled].sum() / n_rows.sum()
        if share > 0.5:
            warn_user(
                f"propensity_attributes divide {n_rows.sum():,.0f} rows into {pooled.size:,} strata. {pooled.sum():,} "
                f"strata ({share:.0%} of the rows) have too few rows or labels (min_rows={self.min_rows}, "
                f"min_labelled={self.min_labelled}), or a failed estimate. They use the pooled label frequency, "
                f"{self.pooled_label_frequency_:.2g}. Use fewer or binned attributes, or SAREMClassifier, which models "
                "the propensity.",
                UserWarning,
            )

    def _warn_about_no_labels(self, n_rows: Array, n_labelled: Array) -> None:
        bare = np.flatnonzero((n_rows >= self.min_rows) & (n_labelled == 0))
        if bare.size:
            warn_user(
                f"{bare.size:,} of {n_rows.size:,} strata have at least min_rows={self.min_rows} rows and no labelled "
                f"row ({n_rows[bare].sum():,.0f} rows in total; the first stratum is {self._place_of(int(bare[0]))}). "
                "If positives in these strata are never labelled, the method fails, and all rows of these strata "
                "count as negatives. Drop these rows, or use other propensity attributes.",
                UserWarning,
            )
