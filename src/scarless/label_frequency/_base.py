"""What all estimators of the label frequency share: checked rows in, one number and its interval out."""

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
    check_labelled_rows,
    check_labelled_table,
    forget_fit,
    refuse_lost_class,
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

MAX_COPIES_FOR_HALVES = 10**9  # that NumPy draws from without replacement, by "marginals"
#: Labelled, and unlabelled, rows that an interval of a label frequency needs: half of them are left in every
#: half-sample. By judgement.
MIN_LABELLED_FOR_INTERVAL = 20
#: Half-samples that an interval of a label frequency needs: fewer say nothing of the tails. By judgement.
MIN_RESAMPLES = 20


class Estimate(NamedTuple):
    """A class prior of the whole population, as a method finds it: possibly impossible, as 0 or infinity.

    A method that compares a sample of labelled rows with one of unlabelled rows gives the share of positives among the
    latter instead; what that means for the population depends on how many rows are labelled there.
    """

    class_prior: float | None = None
    attributes: Mapping[str, Any] = MappingProxyType({})  # further results; the estimator stores them with a `_`
    warnings: tuple[tuple[str, type[Warning]], ...] = ()  # the estimator gives them once, not for every resample
    share_of_unlabelled: float = 0.0

    def prior(self, labelled: float) -> float:
        """Return the class prior where that share of the rows is labelled."""
        return labelled + (1.0 - labelled) * self.share_of_unlabelled if self.class_prior is None else self.class_prior


class LabelFrequencyEstimator(BaseEstimator, ABC):
    r"""Base of the estimators of :math:`c = \Pr(s=1|y=1)` under SCAR.

    Everything is about one table of rows drawn from the population, some of them labelled: the single-training-set
    scenario. :math:`\alpha = \Pr(y=1)` is the class prior among *all* rows, not among the unlabelled ones, and
    :math:`c\,\alpha = \Pr(s=1)`.

    A subclass has two steps: `_prepare` makes of the table what is costly and can be shared by all resamples
    (scores, codes, a subsample), `_estimate` makes of that one class prior.
    """

    n_resamples: int
    random_state: Any
    pos_label: Any

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Estimate the label frequency.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
            Of rows that are not in memory (`scarless.scale.ParquetRows` and others), with labels and weights named as
            their columns, a random sample of at most 200,000 is taken, the same each time; ``label_frequency_rows_``
            says how many.
        y : array of shape (n_rows,)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows.
        sample_weight : array of shape (n_rows,), optional
            How often each row counts: 2 is as good as the row twice, 0 as no such row. Where folds or rows are drawn,
            a row is drawn as a whole, in all its copies; half-samples for intervals are drawn from the copies.

        Returns
        -------
        self
        """
        if check_whole(self.n_resamples, "n_resamples", at_least=0) in range(1, MIN_RESAMPLES):
            raise ValueError(
                f"n_resamples must be 0, for no interval, or at least {MIN_RESAMPLES}; got {self.n_resamples}."
            )
        self._check_options()
        forget_fit(self)
        table, s, w = self._check_rows(X, y, sample_weight)
        rng = check_random_stream(self.random_state)
        order = canonical_order(table, s, w)
        labelled = float(w @ s / w.sum())
        self.label_frequency_rows_ = s.size
        sample = self._prepare(take_rows(table, order), s[order], w[order], rng)
        with BLAS.on_one_thread():  # small matrices: more threads wait for each other, most of all on busy machines
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
        r"""Return an interval for :math:`\Pr(y=1)` in the population that the training rows are drawn from.

        From random halves of the rows, `n_resamples` of them. It shows noise, not the bias of the method.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.

        Returns
        -------
        Interval
            ``low, high``.
        """
        return self._interval(self._known_halves().class_prior, level, "class_prior_")

    def label_frequency_interval(self, *, level: float = 0.95) -> Interval:
        r"""Return an interval for :math:`\Pr(s=1|y=1)` in the population that the training rows are drawn from.

        Parameters
        ----------
        level : float, default=0.95
            Nominal probability that the interval covers.

        Returns
        -------
        Interval
            ``low, high``. As in `class_prior_interval`.
        """
        return self._interval(self._known_halves().label_frequency, level, "label_frequency_")

    def _known_halves(self) -> "Halves":
        check_is_fitted(self)
        if self._halves is None:
            raise ValueError(
                f"This {type(self).__name__} has no interval: it was fitted with n_resamples=0. Set n_resamples, to "
                "100 or more for an interval of 95%, and fit again."
            )
        return self._halves

    def _interval(self, halves: Vector, level: float, name: str) -> Interval:
        low, high = half_sample_interval(getattr(self, name), halves, check_share(level, "level"))
        labelled = self.label_frequency_ * self.class_prior_  # neither share is below
        return Interval(max(low, labelled), min(high, 1.0))

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Vector, Vector]:
        """Return rows, labels and weights, without the rows that do not count; of rows elsewhere a sample."""
        if has_own_engine(X):
            rows = check_labelled_rows(self, X, y, sample_weight, pos_label=self.pos_label)
            sample = draw_sample(rows)
            names = None if self._inner() is None else getattr(self, "feature_names_in_", None)
            return sample._replace(X=as_named(sample.X, names))
        table, s, _ = check_labelled_table(self, X, y, inner=self._inner(), pos_label=self.pos_label)
        w = check_counts(sample_weight, n_rows=s.size)
        warn_about_row_order(X, sample_weight=sample_weight)
        refuse_lost_class(w @ s, w @ (1.0 - s))
        kept = np.flatnonzero(w)
        return (table, s, w) if kept.size == w.size else (take_rows(table, kept), s[kept], w[kept])

    def _inner(self) -> Any:
        """Return the user's estimator that reads the table, if there is one."""
        return None

    @abstractmethod
    def _check_options(self) -> None:
        """Check the parameters of the subclass."""

    @abstractmethod
    def _prepare(self, X: Any, s: Vector, w: Vector, rng: np.random.Generator) -> tuple[Any, Vector, Vector]:
        """Return what `_estimate` needs, one row per row of a sample, and labels and weights of that sample."""

    @abstractmethod
    def _estimate(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator) -> Estimate:
        """Return the class prior that the sample gives."""

    def _resample(self, sample: Any, s: Vector, w: Vector, rng: np.random.Generator, labelled: float) -> "Halves":
        """Return label frequencies and class priors of random halves of the sample."""
        if min(w @ s, w @ (1 - s)) < MIN_LABELLED_FOR_INTERVAL:
            raise ValueError(
                f"n_resamples={self.n_resamples} asks for an interval, which needs at least "
                f"{MIN_LABELLED_FOR_INTERVAL} labelled and {MIN_LABELLED_FOR_INTERVAL} unlabelled rows; there are "
                f"{w @ s:.0f} and {w @ (1 - s):.0f}. Set n_resamples=0."
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
        tags.classifier_tags = ClassifierTags(multi_class=False)  # y has two values, although nothing is predicted
        tags.target_tags.required = True
        inner = self._inner()
        readable = hasattr(inner, "__sklearn_tags__") and not isinstance(inner, type)
        inner_tags = get_tags(inner).input_tags if readable else None
        tags.input_tags.sparse = inner_tags is None or inner_tags.sparse
        tags.input_tags.allow_nan = inner_tags is not None and inner_tags.allow_nan
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "class_prior_")  # what every fit stores last


class Halves(NamedTuple):
    """What random halves of the rows say."""

    label_frequency: Vector
    class_prior: Vector


def random_half(w: Vector, rng: np.random.Generator) -> Vector:
    """Return how much of each row's weight is in a random half of all copies of rows.

    A row of weight 2.5 is two rows, and one that counts for half a row; half of all such pieces are drawn, without
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
            f"n_resamples asks for an interval, and sample_weight for {n_pieces:.2g} copies of rows, which are too "
            f"many to draw halves of (at most {MAX_COPIES_FOR_HALVES:.0e}). Set n_resamples=0, or divide the weights."
        )
    pieces = np.concatenate([whole, part > 0]).astype(np.int64)
    drawn = rng.multivariate_hypergeometric(pieces, int(n_pieces) // 2, method="marginals")
    return np.asarray(drawn[: w.size] + part * drawn[w.size :])


def n_copies(w: Vector) -> float:
    """Return how many rows these weights stand for: their sum, and no fewer than there are."""
    return max(float(w.sum()), float(w.size))


def half_sample_interval(estimate: float, halves: Vector, level: float) -> Interval:
    r"""Return an interval around an estimate from the estimates on random halves of the rows.

    The mean of a random half, drawn without replacement, varies around the mean of all rows as much as that one
    varies around the truth: :math:`\frac{\sigma^2}{n/2}(1 - \frac{n/2}{n}) = \frac{\sigma^2}{n}`. A bootstrap would
    put copies of one row into training and test folds. It measures noise, not the bias of a method.
    """
    tail = (1.0 - level) / 2.0
    below, above = np.quantile(halves - halves.mean(), [tail, 1.0 - tail])
    # the estimate is inside, always
    return Interval(float(estimate - max(above, 0.0)), float(estimate - min(below, 0.0)))


def possible_label_frequency(c: float, share: float, n_rows: float, name: str) -> float:
    r"""Return `c`, or the nearest possible label frequency with a warning that says what it means.

    Labelled rows are positive, so :math:`\Pr(s=1) \le \alpha \le 1` and :math:`\Pr(s=1) \le c \le 1`. At
    :math:`c = \Pr(s=1)` every row would be positive; the least value given back leaves one row negative. `share` of
    `n_rows` are labelled.
    """
    least = share / (1.0 - 1.0 / n_rows)
    if np.isnan(c):
        raise ValueError(f"{name} gives no label frequency (NaN) for these {n_rows:.0f} rows.")
    if c > 1.0:
        warn_user(
            f"{name} estimates a class prior of {share / c:.3g}, below the share of labelled rows, {share:.3g}, which "
            "are all positive. Taking 1 as the label frequency: no label is missing. Either that is so, or the rows "
            "are too few, or the labelled rows are not like the other positives (labels not completely at random).",
            UserWarning,
        )
        return 1.0
    if c < least:
        warn_user(
            f"{name} estimates a label frequency of {c:.3g}; the share of labelled rows is {share:.3g}, so that every "
            f"row would be positive. Taking {least:.3g}, which leaves one row negative. The rows are too few, or the "
            "attributes do not tell positives from negatives.",
            UserWarning,
        )
        return least
    return float(c)


def _ratio(share: float, prior: float) -> float:
    with np.errstate(divide="ignore"):
        return float(np.divide(share, prior))
