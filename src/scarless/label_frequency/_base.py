"""What all estimators of the label frequency share: checked rows in, one number and its interval out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, get_tags

from scarless.checks.options import check_share, check_whole
from scarless.checks.order import canonical_order
from scarless.checks.tables import take_rows
from scarless.checks.training import check_labelled_table, forget_fit
from scarless.checks.vectors import check_random_stream
from scarless.engines.blas import BLAS
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.interval import Interval
from scarless.outside.notices import warn_user

FEWEST_LABELLED = 20  # for an interval: half of them are left in every half-sample
FEWEST_RESAMPLES = 20  # fewer say nothing of the tails


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
    level: float
    random_state: Any
    pos_label: Any

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Estimate the label frequency.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_attributes)
        y : array of shape (n_rows,)
            Observed labels `s`: 1 for labelled positives, 0 for unlabelled rows.

        Returns
        -------
        self
        """
        if check_whole(self.n_resamples, "n_resamples", at_least=0) in range(1, FEWEST_RESAMPLES):
            raise ValueError(
                f"n_resamples must be 0, for no interval, or at least {FEWEST_RESAMPLES}; got {self.n_resamples}."
            )
        check_share(self.level, "level")
        self._check_options()
        forget_fit(self)
        X, s, _ = check_labelled_table(self, X, y, inner=self._inner(), pos_label=self.pos_label)
        rng = check_random_stream(self.random_state)
        order = canonical_order(X, s)
        sample, sample_s = self._prepare(take_rows(X, order), s[order], rng)
        with BLAS.on_one_thread():  # small matrices: more threads wait for each other, most of all on busy machines
            estimate = self._estimate(sample, sample_s, rng)
            resampled = self._resample(sample, sample_s, rng, float(s.mean())) if self.n_resamples else None
        for message, category in estimate.warnings:
            warn_user(message, category)
        for name, value in estimate.attributes.items():
            setattr(self, f"{name}_", value)
        labelled = float(s.mean())
        c = possible_label_frequency(_ratio(labelled, estimate.prior(labelled)), s, type(self).__name__)
        self._store(labelled, c, resampled)
        return self

    def _inner(self) -> Any:
        """Return the user's estimator that reads the table, if there is one."""
        return None

    @abstractmethod
    def _check_options(self) -> None:
        """Check the parameters of the subclass."""

    @abstractmethod
    def _prepare(self, X: Any, s: Vector, rng: np.random.Generator) -> tuple[Any, Vector]:
        """Return what `_estimate` needs, one row per row of a sample, and the labels of that sample."""

    @abstractmethod
    def _estimate(self, sample: Any, s: Vector, rng: np.random.Generator) -> Estimate:
        """Return the class prior that the sample gives."""

    def _resample(self, sample: Any, s: Vector, rng: np.random.Generator, labelled: float) -> tuple[Vector, Vector]:
        """Return label frequencies and class priors of random halves of the sample."""
        if min(s.sum(), (1 - s).sum()) < FEWEST_LABELLED:
            raise ValueError(
                f"n_resamples={self.n_resamples} asks for an interval, which needs at least {FEWEST_LABELLED} labelled "
                f"and {FEWEST_LABELLED} unlabelled rows; there are {s.sum():.0f} and {(1 - s).sum():.0f}. "
                "Set n_resamples=0."
            )
        halves = [np.sort(rng.permutation(s.size)[: s.size // 2]) for _ in range(self.n_resamples)]
        found = [self._estimate(take_rows(sample, rows), s[rows], rng) for rows in halves]
        shares = np.array(
            [labelled if e.class_prior is None else s[rows].mean() for e, rows in zip(found, halves, strict=True)]
        )
        raw = [estimate.prior(float(share)) for estimate, share in zip(found, shares, strict=True)]
        priors = np.clip(raw, shares, 1.0)
        return shares / priors, priors

    def _store(self, share: float, c: float, resampled: tuple[Vector, Vector] | None) -> None:
        self.label_frequency_ = c
        if resampled is not None:
            of_c, of_prior = (
                half_sample_interval(estimate, halves, self.level)
                for estimate, halves in zip((c, share / c), resampled, strict=True)
            )
            self.label_frequency_interval_ = Interval(max(of_c.low, share), min(of_c.high, 1.0))
            self.class_prior_interval_ = Interval(max(of_prior.low, share), min(of_prior.high, 1.0))
        self.class_prior_ = share / c

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


def possible_label_frequency(c: float, s: Vector, name: str) -> float:
    r"""Return `c`, or the nearest possible label frequency with a warning that says what it means.

    Labelled rows are positive, so :math:`\Pr(s=1) \le \alpha \le 1` and :math:`\Pr(s=1) \le c \le 1`. At
    :math:`c = \Pr(s=1)` every row would be positive; the least value given back leaves one row negative.
    """
    share = float(s.mean())
    least = share / (1.0 - 1.0 / s.size)
    if np.isnan(c):
        raise ValueError(f"{name} gives no label frequency (NaN) for these {s.size} rows.")
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
