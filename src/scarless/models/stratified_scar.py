"""Labels selected completely at random inside strata: the paper's reduction of SAR to SCAR."""

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
from scarless.checks.options import check_choice, check_whole
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
from scarless.pair.form import MIN_LABELLED, REJECTED, check_form
from scarless.pair.learners import check_weighted_classifier
from scarless.pair.logistic import Training, engine_of, fit_known_propensity
from scarless.pair.problem import PairProblem

# The comparison with a fit of the likelihood: strata at most, and a difference of class priors that is worth a warning.
MOST_COMPARED, PRIORS_APART = 30, 0.05
FREE = 100.0  # inverse penalty of the strata's label frequencies there


Codes = NDArray[np.int64]
_NOT_A_VALUE = ("None", "nan", "NaT", "<NA>")  # how missing values look as text


def comparable(values: Array, name: str) -> Array:
    """Return one attribute as floats or, where it holds other things than numbers, as text; nothing may be missing."""
    held = np.asarray(values.tolist()) if values.dtype.kind == "O" else values
    if held.dtype.kind in "fiub":
        clean = held if held.dtype.kind == "f" else held.astype(np.float64)
        missing = np.flatnonzero(np.isnan(clean))
    else:
        clean = held.astype(str)
        suspects = np.flatnonzero(np.isin(clean, _NOT_A_VALUE))
        missing = suspects[[not isinstance(values[row], str) for row in suspects]]
    if missing.size:
        raise ValueError(
            f"propensity attribute {name} has {missing.size} missing values of {values.size} (first: row "
            f"{missing[0]}). Give missing values a value of their own, or drop these rows."
        )
    return clean


class Combinations(NamedTuple):
    """The combinations of values that occur in some columns, numbered in sorted order."""

    levels: list[Array]  # per column, its values, sorted
    keys: list[Codes]  # per column, number of the combination so far and place among the levels, as one number

    def find(self, columns: list[Array], n_rows: int) -> Codes:
        """Return the number of each row's combination, -1 where it is not among them."""
        code, known = np.zeros(n_rows, dtype=np.int64), np.ones(n_rows, dtype=bool)
        for levels, keys, column in zip(self.levels, self.keys, columns, strict=True):
            if levels.dtype != column.dtype and levels.dtype.kind == "f":  # 0.1 of float32 is 0.1 of float64
                with np.errstate(over="ignore"):
                    levels, column = levels.astype(np.float32), column.astype(np.float32)  # noqa: PLW2901
            place, is_level = _place(levels, column)
            code, is_key = _place(keys, code * levels.size + place)
            known &= is_level & is_key
        return np.where(known, code, -1)


def combine(columns: list[Array], n_rows: int) -> tuple[Combinations, Codes]:
    """Return the combinations that occur, and the number of each row's."""
    code, found = np.zeros(n_rows, dtype=np.int64), Combinations([], [])
    for column in columns:
        levels, place = np.unique(column, return_inverse=True)
        keys, code = np.unique(code * levels.size + place, return_inverse=True)
        found.levels.append(levels)
        found.keys.append(keys)
    return found, code


class Estimates(NamedTuple):
    """What an estimator found for all rows and within strata, and what it said meanwhile."""

    estimator: Any  # fitted to all rows
    pooled: float
    within: Vector  # NaN where there is no estimate
    failures: dict[int, str]  # by stratum
    notices: dict[type[Warning], dict[int | None, str]]  # by kind and stratum; None: all rows


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
    """Return where each value stands in an ordered array, and whether it is there at all."""
    place = np.minimum(np.searchsorted(ordered, values), ordered.size - 1)
    return place, ordered[place] == values


class Stratum(NamedTuple):
    """One combination of values of the propensity attributes, and the label frequency used for its rows."""

    values: tuple[Any, ...]
    n_rows: float  # sums of weights; whole numbers where the weights are
    n_labelled: float
    label_frequency: float
    fell_back: bool


class StratifiedSCARClassifier(PUClassifier):
    r"""Learn the true class when labels are completely at random inside strata of known attributes.

    The propensity attributes :math:`x_e` cut the table into strata, one for each combination of values that occurs.
    Inside a stratum the propensity is one number, :math:`e(x) = c_{x_e}`, so that the labels there are SCAR and any
    estimator of the label frequency can be used, stratum by stratum, on the other attributes. One classifier is then
    fitted to all rows and attributes with these propensities, as in `PropensityWeightedClassifier`.

    It is right when the propensity depends on nothing but the stratum, each stratum has rows enough for the estimator,
    and some kind of row is surely positive: estimators of the label frequency look for the largest share of labelled
    rows among rows that are alike, and where even the surest rows are positive only with probability m, the class prior
    comes out too high by a factor of up to 1/m. `SAREMClassifier` needs no such rows if the class is logistic. With the
    logistic model the labels are therefore compared with a fit that also estimates the label frequencies, by
    likelihood, and there is a warning where that fit is clearly better and finds another class prior, or where the
    labelling depends on other attributes inside strata.

    A stratum with fewer than `min_rows` rows or `min_labelled` labelled ones, or in which the estimate fails, gets the
    pooled label frequency: the same estimator on all rows, again without the propensity attributes.
    That one is right when labelled or not has nothing to do with the other attributes of a positive row. Where at
    least `min_rows` rows show a larger share of labelled ones than that, the share is used: labelled rows are positive,
    so no label frequency is below it. Where they are all labelled that is 1, and no fallback.

    Parameters
    ----------
    propensity_attributes : column selector or None
        What the labelling depends on. Columns by name, position, slice, mask, callable or polars selector; the name of
        an encoded attribute stands for all of its columns. Few, with few values each: bin numbers first. None: one
        stratum, which is SCAR.
    label_frequency : str or estimator, default="best-bin"
        "tice", "km1", "km2", "elkan-noto", "dedpul" or "best-bin" (each with ``random_state=0``, so that the answer is
        the same each time), or an object whose ``fit(X, s)`` leaves ``label_frequency_``, such as those of
        `scarless.label_frequency`. It is cloned for each stratum, and gets the table without the propensity attributes.
        The default errs least in strata of a hundred rows or so; from about 250 rows on "dedpul" is level with it.
    min_rows, min_labelled : int, default=50 and 10
        A stratum with less gets the pooled label frequency.
    estimator : scikit-learn classifier, optional
        None: logistic regression. See `PropensityWeightedClassifier` for which others work. With one that reads data
        frames the propensity attributes may hold text.
    method : {"risk", "likelihood"}, default="risk"
        How to fit for given propensities; see `PropensityWeightedClassifier`.
    C : float, default=1.0
        Inverse penalty of the logistic model, as in ``LogisticRegression``.
    tol : float, optional
        A fit ends when it gains less than this in log-likelihood per row, as in `PropensityWeightedClassifier`: by
        Newton's method one more step (default 1e-8), by EM three iterations (default 1e-4).
    max_iter : int, default=200
    pos_label : object, optional
        The value that marks a labelled positive. Not needed for 0/1, -1/+1 or booleans.

    Attributes
    ----------
    strata_ : list of named tuples
        In sorted order of values: ``values`` (in the order of `propensity_attributes`), ``n_rows``, ``n_labelled``,
        ``label_frequency``, ``fell_back``. ``pandas.DataFrame(model.strata_)`` is a table of them.
    pooled_label_frequency_ : float
        Used where `fell_back`, and by `predict_propensity` for combinations never seen.
    label_frequency_estimator_ : fitted estimator
        The one that gave the pooled label frequency. It got the labels as 0 and 1.
    classes_ : array of shape (2,)
    coef_, intercept_ : arrays of shape (1, n_features) and (1,)
        Where `estimator` is None.
    estimator_ : fitted estimator
        Where `estimator` is given.
    class_prior_, label_frequency_ : float
        Estimated :math:`\Pr(y=1)` and :math:`\Pr(s=1|y=1)` of the training rows.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array of str
        Where `X` has names.

    See Also
    --------
    SAREMClassifier : Models the propensity, and so shares strength between strata.
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

    _propensity_is_fact = True
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
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts, also towards `min_rows` and `min_labelled`. The estimator of the label
            frequency must take weights too.

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
        # Estimators that read a frame by its names get one; a row of weight 0 is not there.
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
        # Many rows, all labelled, leave nothing to estimate: their share of labels, 1, is the label frequency.
        all_labelled = (n_rows >= self.min_rows) & (n_labelled == n_rows)
        fell_back = np.isnan(estimates.within) & ~all_labelled
        c = np.where(fell_back | all_labelled, fallback, estimates.within)
        self._frequencies = np.append(c, estimates.pooled)  # the last one is for combinations never seen
        first = np.unique(code, return_index=True)[1]
        combinations = list(zip(*(column[first].tolist() for column in values), strict=True)) or [()]
        if (w == np.rint(w)).all():
            n_rows, n_labelled = n_rows.astype(np.int64), n_labelled.astype(np.int64)
        columns = (n_rows.tolist(), n_labelled.tolist(), c.tolist(), fell_back.tolist())
        self.strata_ = [Stratum(*row) for row in zip(combinations, *columns, strict=True)]
        self._warn_about_estimates(estimates, chosen.size)
        self._warn_about_fallback(n_rows, fell_back)
        self._warn_about_no_labels(n_rows, n_labelled)

    def _compare_with_likelihood(self, training: Training, code: NDArray[np.int64]) -> None:
        """Warn where the likelihood of the labels contradicts the strata's label frequencies, or that they are SCAR."""
        n_strata = len(self.strata_)
        if n_strata > MOST_COMPARED or training.weight @ training.s < MIN_LABELLED:
            return
        X = check_numeric(training.X)
        dense = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        table = np.column_stack([dense, code[:, None] == np.arange(1, n_strata)])
        f = Design.of(np.arange(self.n_features_in_))
        e = Design.of(np.arange(self.n_features_in_, table.shape[1]))
        engine = engine_of(table, s=training.s, w=training.weight)
        problem = PairProblem.of(engine, f, e, self.C, FREE)
        c = np.clip(self._frequencies[:-1], 1e-3, 1.0 - 1e-3)
        given = attach(engine, e=c[code])
        known = fit_known_propensity(given, f, C=self.C, tol=1e-8, max_iter=self.max_iter).parameters
        start = np.concatenate([known, logit(c[1:]) - logit(c[0]), logit(c[:1])])
        fit = fit_pair(problem, start, FitOptions(1e-8, self.max_iter))
        begin, end = (problem.sums(at) for at in (start, fit.parameters))
        self._tell_of_likelihood(problem, fit, float(end.log_likelihood - begin.log_likelihood), n_strata)

    def _tell_of_likelihood(self, problem: PairProblem, fit: PairFit, gain: float, n_strata: int) -> None:
        prior = float(problem.sums(fit.parameters).positives) / problem.weight
        form = check_form(problem, fit.f, fit.e)
        better = "SAREMClassifier(propensity_attributes=...), which fits both models to the labels, needs neither."
        if abs(prior - self.class_prior_) > PRIORS_APART and chi2.sf(2.0 * gain, n_strata) < REJECTED:
            warn_user(
                f"{type(self).__name__}: the labels contradict the label frequencies of the strata. With a logistic "
                f"class they fit clearly better (log-likelihood higher by {gain:.1f}) at a class prior of {prior:.2f}; "
                f"the strata give {self.class_prior_:.2f}. Label frequencies are estimated under the assumption that "
                f"some rows of each stratum are surely positive, and that labels depend on nothing else. {better}",
                ClassPriorWarning,
            )
        elif form is not None and form.rejected:
            names = [*map(self._name, range(self.n_features_in_)), *[f"stratum {k}" for k in range(1, n_strata)]]
            told = f"{names[form.driver]} in the propensity" if form.driver >= 0 else form.direction.told(names)
            warn_user(
                f"{type(self).__name__}: the labels contradict the assumption that labels are completely at random "
                f"inside strata, or that the class is linear: they fit clearly better with {told}. Name more "
                "propensity_attributes, or use SAREMClassifier or SARStackingClassifier.",
                ClassPriorWarning,
            )

    def predict_propensity(self, X: Any) -> Vector:
        """Return the label frequency of each row's stratum, the pooled one for combinations never seen.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)

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
        r"""Return :math:`\Pr(y=1|x,s)` of each row: its class given that it was, or was not, labelled.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        s : array of shape (n_rows,)
            Observed labels, coded as in `fit`.

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
                f"label_frequency={given!r} is not estimated in each stratum: that is SCARClassifier({given!r}). Give "
                f"an estimator, or the name of one: {', '.join(map(repr, NAMES))}. For propensities that are known use "
                "PropensityWeightedClassifier."
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
                f"propensity_attributes selects every column of X (n_features = {n}): none is left to tell positives "
                "from negatives inside a stratum, and the label frequency cannot be estimated there. Name fewer, or "
                "use SAREMClassifier, which models the propensity."
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
                    f"propensity attribute {self._name(j)} held {was} in fit and holds {is_now} now; give {was}."
                )
        return self._frequencies[self._combinations.find(values, n_rows)]

    def _place_of(self, stratum: int | None) -> str:
        if stratum is None:
            return "all rows"
        pairs = zip(self._columns, self.strata_[stratum].values, strict=True)
        return "the rows where " + ", ".join(f"{self._name(j)} = {value!r}" for j, value in pairs)

    def _warn_about_estimates(self, estimates: Estimates, n_strata: int) -> None:
        """Tell in a line or two what the estimator said in all of its fits."""
        kind = type(final_step(estimates.estimator)).__name__
        if estimates.failures:
            stratum, message = next(iter(estimates.failures.items()))
            warn_user(
                f"{kind} failed in {len(estimates.failures):,} of {n_strata:,} strata, which use the pooled label "
                f"frequency {estimates.pooled:.3g}; first, for {self._place_of(stratum)}: {message}",
                UserWarning,
            )
        for category, messages in estimates.notices.items():
            fit, message = next(iter(messages.items()))
            warn_user(
                f"{kind}, fitted to the other attributes, warned in {len(messages):,} of {n_strata + 1:,} fits; first, "
                f"for {self._place_of(fit)}: {message}",
                category,
            )

    def _warn_about_fallback(self, n_rows: Array, fell_back: NDArray[np.bool_]) -> None:
        share = n_rows[fell_back].sum() / n_rows.sum()
        if share > 0.5:
            warn_user(
                f"propensity_attributes make {fell_back.size:,} strata of {n_rows.sum():,.0f} rows; "
                f"{fell_back.sum():,} of them ({share:.0%} of the rows) have too few rows or labels "
                f"(min_rows={self.min_rows}, min_labelled={self.min_labelled}) and use the pooled label frequency "
                f"{self.pooled_label_frequency_:.2g}. Use fewer or binned attributes, or SAREMClassifier, which models "
                "the propensity.",
                UserWarning,
            )

    def _warn_about_no_labels(self, n_rows: Array, n_labelled: Array) -> None:
        bare = np.flatnonzero((n_rows >= self.min_rows) & (n_labelled == 0))
        if bare.size:
            warn_user(
                f"{bare.size:,} of {n_rows.size:,} strata have at least min_rows={self.min_rows} rows and no labelled "
                f"one: {n_rows[bare].sum():,.0f} rows in all; first, {self._place_of(int(bare[0]))}. Either there are "
                "no positives there, or positives there are never labelled, which breaks the method: their rows count "
                "as negatives. Drop these rows, or use other propensity attributes.",
                UserWarning,
            )
