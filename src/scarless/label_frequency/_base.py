"""Base class of the label frequency estimators: checks of the rows, resampling and intervals."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, get_tags
from sklearn.utils.validation import check_is_fitted

from scarless.checks.options import check_counts, check_random_stream, check_share, check_whole
from scarless.checks.rows import (
    check_label_weights,
    check_labelled_rows,
    check_labelled_table,
    forget_fit,
    warn_about_row_order,
)
from scarless.checks.tables import take_rows
from scarless.engines import has_own_engine
from scarless.engines.blas import BLAS
from scarless.label_frequency.samples import as_named, draw_sample
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.order import canonical_order
from scarless.numerics.uncertainty import Interval
from scarless.outside.notices import warn_user

MAX_COPIES_FOR_HALVES = 10**9  # limit of NumPy's multivariate hypergeometric distribution with method "marginals"
#: Minimum number of labelled rows, and of unlabelled rows, for an interval of a label frequency. A half-sample has half
#: of them. By judgement.
MIN_LABELLED_FOR_INTERVAL = 20
#: Minimum number of half-samples for an interval of a label frequency; with fewer, the tails are unknown. By judgement.
MIN_RESAMPLES = 20


class FrequencyEstimate(NamedTuple):
    """An estimate of the class prior, before it is checked: it can be an impossible value such as 0 or infinity.

    Methods that compare a sample of labelled rows with a sample of unlabelled rows set `share_of_unlabelled` instead of
    `class_prior`. The class prior then also depends on the share of labelled rows.
    """

    class_prior: float | None = None
    attributes: Mapping[str, Any] = MappingProxyType({})  # other results; the estimator stores them as `name_`
    warnings: tuple[tuple[str, type[Warning]], ...] = ()  # warnings that `fit` shows once, not for every resample
    share_of_unlabelled: float = 0.0  # share of positives among unlabelled rows

    def prior(self, labelled: float) -> float:
        """Return the class prior if the share `labelled` of the rows is labelled."""
        return labelled + (1.0 - labelled) * self.share_of_unlabelled if self.class_prior is None else self.class_prior


class LabelFrequencyEstimator(BaseEstimator, ABC):
    r"""Base class of the estimators of the label frequency :math:`c = \Pr(s=1|y=1)` under SCAR.

    The rows are one sample of the population, and some of them are labelled (the single-training-set scenario). The
    class prior :math:`\alpha = \Pr(y=1)` is that of *all* rows, not of the unlabelled rows, and
    :math:`c\,\alpha = \Pr(s=1)`.

    A subclass has two steps. `_prepare` does the costly work that all resamples share, such as scores, codes or a
    subsample. `_estimate` returns the class prior for the prepared rows.
    """

    n_resamples: int
    random_state: Any
    pos_label: Any

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the label frequency.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_columns)
            Attributes of the rows, one row each. If the rows are not in memory (`scarless.scale.ParquetRows` and
            others), a random sample of at most 200,000 rows is used, the same in every fit. `y` and `sample_weight` are
            then names of columns.
        y : array of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row; 1 by default. Weights are counts: a row of weight 2 is equivalent to two rows.

        Returns
        -------
        self
        """
        if check_whole(self.n_resamples, "n_resamples", at_least=0) in range(1, MIN_RESAMPLES):
            raise ValueError(
                f"n_resamples must be 0 (no interval) or at least {MIN_RESAMPLES}; got {self.n_resamples}. Use 100 or "
                "more for a 95% interval."
            )
        self._check_options()
        forget_fit(self)
        table, s, w = self._check_rows(X, y, sample_weight)
        rng = check_random_stream(self.random_state)
        order = canonical_order(table, s, w)
        labelled = float(w @ s / w.sum())
        self.label_frequency_rows_ = s.size
        sample = self._prepare(take_rows(table, order), s[order], w[order], rng)
        with BLAS.on_one_thread():  # With small matrices, several threads mostly wait for each other.
            estimate = self._estimate(*sample, rng)
            self._halves = self._resample(*sample, rng, labelled) if self.n_resamples else None
        for message, category in estimate.warnings:
            warn_user(message, category)
        for name, value in estimate.attributes.items():
            setattr(self, f"{name}_", value)
        c = _ratio(labelled, estimate.prior(labelled))
        self.label_frequency_ = possible_label_frequency(c, labelled, n_copies(w), type(self).__name__)
        self.class_prior_ = labelled / self.label_frequency_
        return self

    def class_prior_interval(self, *, level: float = 0.95) -> Interval:
        r"""Return a confidence interval of the class prior :math:`\Pr(y=1)` in the population of the training rows.

        The interval comes from `n_resamples` random half-samples. It reflects sampling variance, not the bias of the
        method.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        Interval
            ``low, high``.
        """
        return self._interval(self._stored_halves().class_prior, level, "class_prior_")

    def label_frequency_interval(self, *, level: float = 0.95) -> Interval:
        r"""Return a confidence interval of the label frequency :math:`\Pr(s=1|y=1)` in the population.

        The interval comes from `n_resamples` random half-samples, like `class_prior_interval`.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level.

        Returns
        -------
        Interval
            ``low, high``.
        """
        return self._interval(self._stored_halves().label_frequency, level, "label_frequency_")

    def _stored_halves(self) -> "Halves":
        check_is_fitted(self)
        if self._halves is None:
            raise ValueError(
                f"This {type(self).__name__} has no interval, because it was fitted with n_resamples=0. "
                "Set n_resamples=100 or more and fit again."
            )
        return self._halves

    def _interval(self, halves: Vector, level: float, name: str) -> Interval:
        low, high = half_sample_interval(getattr(self, name), halves, check_share(level, "level"))
        labelled = self.label_frequency_ * self.class_prior_  # Pr(s=1), a lower bound of both
        return Interval(max(low, labelled), min(high, 1.0))

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Vector, Vector]:
        """Return rows, labels and weights, without rows of weight 0; a sample if the rows are not in memory."""
        if has_own_engine(X):
            rows = check_labelled_rows(self, X, y, sample_weight, pos_label=self.pos_label)
            sample = draw_sample(rows)
            names = None if self._inner() is None else getattr(self, "feature_names_in_", None)
            return sample._replace(X=as_named(sample.X, names))
        table, s, _ = check_labelled_table(self, X, y, inner=self._inner(), pos_label=self.pos_label)
        w = check_counts(sample_weight, n_rows=s.size, name=type(self).__name__ if self.n_resamples else None)
        warn_about_row_order(X, sample_weight=sample_weight)
        check_label_weights(s, w)
        kept = np.flatnonzero(w)
        return (table, s, w) if kept.size == w.size else (take_rows(table, kept), s[kept], w[kept])

    def _inner(self) -> Any:
        """Return the user's classifier that reads the table, or None."""
        return None

    @abstractmethod
    def _check_options(self) -> None:
        """Check the parameters of the subclass."""

    @abstractmethod
    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        """Return the prepared rows for `_estimate`, with their labels and weights."""

    @abstractmethod
    def _estimate(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator) -> FrequencyEstimate:
        """Return the estimate of the class prior for prepared rows."""

    def _resample(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator, labelled: float) -> "Halves":
        """Return the estimates of label frequency and class prior on random halves of the sample."""
        if min(w @ s, w @ (1 - s)) < MIN_LABELLED_FOR_INTERVAL:
            more = "a larger max_rows or more rows" if hasattr(self, "max_rows") else "more rows"
            raise ValueError(
                f"n_resamples={self.n_resamples}: an interval needs at least "
                f"{MIN_LABELLED_FOR_INTERVAL} labelled and {MIN_LABELLED_FOR_INTERVAL} unlabelled rows; "
                f"{w @ s:.0f} and {w @ (1 - s):.0f} are used. Use {more}, or set n_resamples=0 for no interval."
            )
        halves = [random_half(w, rng) for _ in range(self.n_resamples)]
        shares, raw = np.empty(self.n_resamples), np.empty(self.n_resamples)
        for i, half in enumerate(halves):
            rows = np.flatnonzero(half)
            found = self._estimate(take_rows(sample, rows), s[rows], half[rows], rng)
            shares[i] = labelled if found.class_prior is None else half @ s / half.sum()
            raw[i] = found.prior(float(shares[i]))
        priors = np.clip(raw, shares, 1.0)
        return Halves(shares / priors, priors)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)  # With this tag, scikit-learn expects a binary y.
        tags.target_tags.required = True
        inner = self._inner()
        readable = hasattr(inner, "__sklearn_tags__") and not isinstance(inner, type)
        inner_tags = get_tags(inner).input_tags if readable else None
        tags.input_tags.sparse = inner_tags is None or inner_tags.sparse
        tags.input_tags.allow_nan = inner_tags is not None and inner_tags.allow_nan
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "class_prior_")  # `fit` stores this attribute last.


class Halves(NamedTuple):
    """Estimates on random halves of the rows, one for each half-sample."""

    label_frequency: Vector
    class_prior: Vector


def random_half(w: Vector, rng: np.random.Generator) -> Vector:
    """Return the weights of the rows in a random half-sample.

    A row of weight 2.5 counts as two pieces of weight 1 and one of weight 0.5. Half of all pieces are drawn without
    replacement.
    """
    if (w == 1.0).all():
        half = np.zeros(w.size)
        half[rng.permutation(w.size)[: w.size // 2]] = 1.0
        return half
    whole = np.floor(w)
    part = w - whole
    n_pieces = float(whole.sum()) + np.count_nonzero(part)
    if n_pieces >= MAX_COPIES_FOR_HALVES:
        raise ValueError(
            f"sample_weight: the weights represent {n_pieces:.2g} rows. An interval can be computed for fewer than "
            f"{MAX_COPIES_FOR_HALVES:.0e} rows. Set n_resamples=0 for no interval, or divide all weights by a "
            "constant, which makes the interval wider."
        )
    pieces = np.concatenate([whole, part > 0]).astype(np.int64)
    drawn = rng.multivariate_hypergeometric(pieces, int(n_pieces) // 2, method="marginals")
    return np.asarray(drawn[: w.size] + part * drawn[w.size :])


def n_copies(w: Vector) -> float:
    """Return the number of rows that the weights represent: their sum, but at least the number of weights."""
    return max(float(w.sum()), float(w.size))


def half_sample_interval(estimate: float, halves: Vector, level: float) -> Interval:
    r"""Return a confidence interval from an estimate and its values on random halves of the rows.

    The mean of a random half, drawn without replacement, has the variance
    :math:`\frac{\sigma^2}{n/2}(1 - \frac{n/2}{n}) = \frac{\sigma^2}{n}` around the mean of all rows. This is the
    variance of the mean of all rows itself. A bootstrap is not used, because it would put copies of a row into training
    and test folds. The interval reflects sampling variance, not the bias of a method.
    """
    tail = (1.0 - level) / 2.0
    below, above = np.quantile(halves - halves.mean(), [tail, 1.0 - tail])
    # The interval always contains the estimate.
    return Interval(float(estimate - max(above, 0.0)), float(estimate - min(below, 0.0)))


def possible_label_frequency(c: float, share: float, n_rows: float, name: str) -> float:
    r"""Return the label frequency `c`, or the nearest possible value with a warning.

    Labelled rows are positive, so :math:`\Pr(s=1) \le \alpha \le 1` and :math:`\Pr(s=1) \le c \le 1`. With
    :math:`c = \Pr(s=1)` every row would be positive; the smallest value returned leaves one row negative. `share` is
    the share of labelled rows among `n_rows`.
    """
    least = share / (1.0 - 1.0 / n_rows)
    if np.isnan(c):
        raise ValueError(
            f"{name} estimated a label frequency of NaN from {n_rows:.0f} rows. Use another estimator, or more rows."
        )
    if c > 1.0:
        warn_user(
            f"{name} estimates a class prior of {share / c:.3g}, but the share of labelled rows is {share:.3g}, and "
            "labelled rows are positive. The label frequency is set to 1, which means that every positive is labelled. "
            "If this is not plausible, use more rows. If labelled rows differ from other positives (labels are not "
            "SCAR), use a model with propensity attributes, such as SAREMClassifier.",
            UserWarning,
        )
        return 1.0
    if c < least:
        warn_user(
            f"{name} estimates a label frequency of {c:.3g}. With this value, every row would be positive, because the "
            f"share of labelled rows is {share:.3g}. The label frequency is set to {least:.3g}, so that one row is "
            "negative. Use more rows, or attributes that separate positives from negatives better.",
            UserWarning,
        )
        return least
    return float(c)


def _ratio(share: float, prior: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.divide(share, prior))
