"""Designs of audits: the probability with which each row is drawn, and the expected width of intervals afterwards."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.looks import looks_of
from scarless.checks.rows import check_rows
from scarless.checks.tables import take_rows
from scarless.diagnostics.audits._reading import AuditRows
from scarless.engines import Engine, attach
from scarless.models.pair import known_inference
from scarless.numerics import uncertainty
from scarless.numerics.arrays import Integers, Mask, Matrix, Vector
from scarless.numerics.audits import inclusion_scale, information_from_audits
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import logit_interval, quantile
from scarless.pair.cross_fit import logit_of
from scarless.pair.inference import PairInference

#: Designs that depend on the model draw rows with probabilities proportional to a size. This is the smallest size,
#: relative to the mean size. It is not 0, because the model may be wrong about rows about which it is certain.
#: By judgement.
MIN_RELATIVE_SIZE = 0.1
#: The same for the design "optimal". By judgement: larger values were not better for simulated patients.
MIN_RELATIVE_EFFECT = 0.2
MIN_ROWS_PER_STRATUM = 5  # with strata: expected number of rows of each stratum, if there are enough
#: The variance that the model expects is averaged with the variance in a pilot. In this average, the expected variance
#: counts as much as this number of audits. By judgement.
PRIOR_AUDITS = 20.0
N_DRAWS = 400  # draws of the posteriors
MAX_ROWS_OF_DRAWS = 50_000  # rows whose posteriors are drawn at a time
# Draws of the logits are described by at most MAX_DIRECTIONS principal components, which are computed from at most
# ROWS_OF_DIRECTIONS rows and have at least the share KEPT_VARIANCE of their variance.
MAX_DIRECTIONS, ROWS_OF_DIRECTIONS, KEPT_VARIANCE = 40, 500, 0.995


# --- the design


class AuditDesign(NamedTuple):
    """Rows that can be drawn, and the sizes that their probabilities are proportional to."""

    open_: Mask  # rows whose class is unknown without an audit
    free: Mask  # open rows that were not audited yet
    size: Vector
    before: Vector  # probability that each row was audited before
    order: Integers | None = None  # number of each row's stratum; rows are drawn in the order of their strata

    @classmethod
    def of(
        cls, data: AuditRows, design: str, effect: Vector | None = None, before: Vector | None = None
    ) -> "AuditDesign":
        """Return the design. Labelled rows are left out if they are certain to be positive.

        `effect` is the covariance of each row's logit with the class prior, for the design "optimal". Without `before`,
        earlier audits are assumed to be random.
        """
        open_ = ~data.labelled if data.labels_are_certain else np.ones(data.q.size, dtype=bool)
        free = open_ & ~data.audited
        size = np.ones(data.q.size)
        if design != "random":
            size = np.sqrt(data.q * (1.0 - data.q)) * (1.0 if effect is None else np.abs(effect))
            mean = float(size[free].mean()) if free.any() else 1.0
            least = MIN_RELATIVE_SIZE if effect is None else MIN_RELATIVE_EFFECT
            size = np.maximum(size, least * mean) if mean > 0 else np.ones(size.size)
        if before is None:
            before = np.zeros(data.q.size)
            for kind in (open_, ~open_):
                if kind.any():
                    before[kind] = data.audited[kind].mean()
        return cls(open_, free, size, before)

    def stratified(self, groups: Integers, n_rows: int) -> "AuditDesign":
        """Return the design with larger sizes in strata that would otherwise get too few rows."""
        n_groups = int(groups.max()) + 1
        there = np.bincount(groups[self.free], minlength=n_groups)
        least = np.minimum(there, min(float(MIN_ROWS_PER_STRATUM), n_rows / (2.0 * max((there > 0).sum(), 1))))
        share = np.bincount(groups, weights=self.inclusion(n_rows), minlength=n_groups)
        small = np.zeros(n_groups, dtype=bool)
        while (short := (share < least * (1.0 - 1e-9)) & ~small).any():
            small |= short
            rest = share[~small].sum()
            share = np.where(small, least, share * ((n_rows - least[small].sum()) / rest if rest > 0 else 0.0))
        total = np.bincount(groups[self.free], weights=self.size[self.free], minlength=n_groups)
        size = self.size * (share / np.maximum(total, 1e-300))[groups]
        return self._replace(size=size, order=groups)

    def inclusion(self, n_rows: int) -> Vector:
        """Return the probability that each row is among `n_rows` new rows; 0 for rows that cannot be drawn."""
        k = inclusion_scale(self.size[self.free], n_rows)
        return np.where(self.free, np.minimum(1.0, k * self.size), 0.0)

    def with_pilot(self, n_rows: int) -> Vector:
        """Return the probability that each row is audited, before or among `n_rows` new rows."""
        k = inclusion_scale(self.size[self.free], n_rows)
        new = np.where(self.open_, np.minimum(1.0, k * self.size), 0.0)
        return self.before + (1.0 - self.before) * new

    def draw(self, n_rows: int, rng: np.random.Generator) -> Any:
        """Return the positions of `n_rows` distinct rows, drawn with the given probabilities.

        Systematic sampling of rows in random order (Madow): each row is a segment of a line, as long as its
        probability, and points at a distance of 1 from each other select the segments on which they fall. With strata,
        the rows of a stratum are neighbours, so the number of its rows differs from the expected number by less than 1.
        """
        places = rng.permutation(np.flatnonzero(self.free))
        if self.order is not None:
            places = places[np.argsort(self.order[places], kind="stable")]
        ends = np.cumsum(self.inclusion(n_rows)[places])
        points = rng.random() + np.arange(n_rows)
        return np.sort(places[np.minimum(np.searchsorted(ends, points, side="right"), places.size - 1)])


# --- draws of posteriors


class PosteriorDraws(NamedTuple):
    """Draws of the posteriors of rows, over the distribution of the parameters, and of the class prior."""

    model: Any
    X: Any
    labels: Any
    prior: Vector  # draws of the class prior, minus their mean
    drawn: Matrix | None = None  # draws of all rows, if these are few enough to be drawn at once

    @classmethod
    def of(cls, data: AuditRows, labels: Any) -> "PosteriorDraws | None":
        """Return the draws; None for a model that has none. Audits of rows do not fix their own posteriors."""
        if not hasattr(data.estimator, "draw_posteriors"):
            return None
        found = cls(data.estimator, data.X, labels, np.empty(0))
        parts = found._parts()
        try:
            found = found._replace(drawn=found._draw(parts[0])) if len(parts) == 1 else found
            prior = np.sum([found._draw(rows).sum(axis=1) for rows in parts], axis=0) / len(labels)
        except (TypeError, ValueError):  # for example, too many columns for standard errors
            return None
        return found._replace(prior=prior - prior.mean())

    def _parts(self) -> list[Integers]:
        n = len(self.labels)
        return np.array_split(np.arange(n), max(-(-n // MAX_ROWS_OF_DRAWS), 1))

    def _draw(self, rows: Integers) -> Matrix:
        if self.drawn is not None and len(rows) == len(self.labels):
            return self.drawn
        # The same seed gives the same parameters in every part of the rows.
        part, labels = take_rows(self.X, rows), self.labels[rows]
        return np.asarray(self.model.draw_posteriors(part, labels, n_draws=N_DRAWS, random_state=0))

    def logits(self, rows: Integers) -> Matrix:
        """Return draws of the logits of some rows, minus their means; one line for each draw."""
        found = logit_of(self._draw(rows))
        return np.asarray(found - found.mean(axis=0))

    def effects(self) -> Vector:
        """Return the covariance of each row's logit with the class prior."""
        return self.covariances(self.prior[:, None])[0]

    def covariances(self, scores: Matrix) -> Matrix:
        """Return the covariance of each row's logit with each column of `scores`; one column for each row."""
        found = [scores.T @ self.logits(rows) / len(scores) for rows in self._parts()]
        return np.concatenate(found, axis=1)


# --- expected widths


class ModelWidths(NamedTuple):
    """A fit and its rows, and the information that audits would add."""

    inference: PairInference
    objective: PairObjective
    engine: Engine
    sampling: AuditDesign
    level: float

    @classmethod
    def of(cls, data: AuditRows, sampling: AuditDesign, level: float) -> "ModelWidths | None":
        """Return the fit and its rows; None for a fit without an information matrix."""
        model = data.estimator
        if hasattr(model, "recalibration_"):
            return None
        try:
            inference = known_inference(model)
        except ValueError:
            return None
        if inference.has_extra_information:
            objective, shape = inference.objective, looks_of(model).counts(data.labels)
        else:
            objective = LooksLikelihood(inference.f, ((inference.e,),))
            shape = (data.labels == 1).astype(np.int8), np.ones_like(data.labels)
        rows = check_rows(model, data.X)
        engine = attach(rows, labels=shape[0], looks=shape[1], audit=data.audit, w=np.ones(rows.n_rows))
        return cls(inference, objective, engine, sampling, level)

    def gain(self, probability: Vector) -> Matrix:
        """Return the information that audits with these probabilities add."""
        rows = attach(self.engine, audit_probability=probability)
        (found,) = rows.total(information_from_audits, self.objective, self.inference.parameters)
        return np.asarray(found)

    @property
    def swappable(self) -> bool:
        """Whether both models use the same attributes."""
        return self.inference.swappable

    def now(self) -> float:
        """Return the width of the interval of the fit."""
        low, high = self.inference.class_prior_interval(self.level)
        return high - low

    def expected(self, sizes: Any) -> Vector:
        """Return the expected widths after these numbers of new audits."""
        inference = self.inference
        base = inference.penalised_information()
        equal = bool(np.ptp(self.sampling.size[self.sampling.free]) == 0)
        of_one = self.gain(self.sampling.inclusion(1)) if equal else None
        gains = [
            size * of_one if of_one is not None else self.gain(self.sampling.inclusion(int(size))) for size in sizes
        ]
        return np.array([self._width(base + gain) for gain in gains])

    def _width(self, information: Matrix) -> float:
        prior = self.inference.class_prior
        (error,) = uncertainty.precision(information, noise=self.inference.noise).errors(prior.gradient[None])
        slope = prior.value * (1.0 - prior.value)
        error = float(np.hypot(error, np.sqrt(prior.row_variance))) / slope if slope > 0 else np.inf
        centre = np.log(prior.value) - np.log1p(-prior.value) if slope > 0 else np.inf
        low, high = logit_interval(np.asarray(centre), np.asarray(error), quantile(self.level))
        return float(high - low)


class DrawnWidths(NamedTuple):
    r"""The same for a fit without an information matrix, from draws of its posteriors.

    The draws of the logits of all rows are described by a few standard normal variables. If a row has the covariance
    :math:`c` with them, its audit adds :math:`q(1-q)\,cc'` to their information, which is the identity
    before. The class prior has the covariance :math:`g` with them; the rest of its variance does not change.
    """

    gradient: Vector  # g
    rest: float  # variance of the class prior that these variables do not explain
    covariances: Matrix  # c, a column for each row
    spread: Vector  # q(1-q)
    sampling: AuditDesign
    width: float  # of the interval of the fit
    swappable: bool

    @classmethod
    def of(
        cls, data: AuditRows, draws: PosteriorDraws | None, sampling: AuditDesign, level: float
    ) -> "DrawnWidths | None":
        """Return the summary of the draws; None without draws or without an interval."""
        if draws is None or not hasattr(data.estimator, "class_prior_interval"):
            return None
        try:
            low, high = data.estimator.class_prior_interval(level=level)
        except (TypeError, ValueError):
            return None
        free = np.flatnonzero(sampling.free)
        rows = np.random.default_rng(0).permutation(free)[:ROWS_OF_DIRECTIONS]
        left, size, _ = np.linalg.svd(draws.logits(np.sort(rows)), full_matrices=False)
        share = np.cumsum(size**2) / max(float(size @ size), 1e-300)
        k = min(int(np.searchsorted(share, KEPT_VARIANCE)) + 1, MAX_DIRECTIONS)
        scores = left[:, :k] * np.sqrt(len(left))
        gradient = scores.T @ draws.prior / len(left)
        rest = max(float(draws.prior @ draws.prior) / len(left) - float(gradient @ gradient), 0.0)
        rest += float(data.q.var()) / data.q.size  # The rows are a sample.
        swappable = bool(getattr(known_inference_or_none(data.estimator), "swappable", False))
        spread = data.q * (1.0 - data.q)
        return cls(gradient, rest, draws.covariances(scores), spread, sampling, float(high - low), swappable)

    def now(self) -> float:
        """Return the width of the interval of the fit."""
        return self.width

    def expected(self, sizes: Any) -> Vector:
        """Return the expected widths after these numbers of new audits."""
        variance = self.rest + float(self.gradient @ self.gradient)
        if variance == 0.0:  # the class prior is the same in all draws, so that audits do not change it
            return np.full(len(sizes), self.width)
        return np.array([self.width * np.sqrt(self._variance(int(size)) / variance) for size in sizes])

    def _variance(self, size: int) -> float:
        gain = (self.covariances * (self.sampling.inclusion(size) * self.spread)) @ self.covariances.T
        return self.rest + float(self.gradient @ np.linalg.solve(np.eye(len(gain)) + gain, self.gradient))


def known_inference_or_none(model: Any) -> PairInference | None:
    """Return the inference of a fit; None if it has none."""
    try:
        return known_inference(model)
    except ValueError:
        return None


def difference_widths(data: AuditRows, sampling: AuditDesign, sizes: Any, level: float) -> Vector:
    r"""Return the expected widths of `audited_class_prior` after these numbers of new audits, including the pilot.

    If the model is right, the difference between class and `q` has the variance :math:`q(1-q)`. The mean of this
    variance over the rows counts as 20 audits, and is averaged with the variance in the pilot. The variances of single
    rows are then scaled so that their mean is this average.
    """
    q, n = data.q[sampling.open_], data.q.size
    own = q * (1.0 - q)
    checked = data.audited[sampling.open_]
    m = int(checked.sum())
    spread = float(own.mean())
    if m > 1:
        differences = (data.audit[sampling.open_][checked] == 1) - q[checked]
        spread = (PRIOR_AUDITS * spread + m * float(differences.var(ddof=1))) / (PRIOR_AUDITS + m)
    each = own * (spread / own.mean()) if own.any() else np.full(q.size, spread)
    alpha = float(data.q.mean())
    rows = alpha * (1.0 - alpha) / n
    equal = bool(np.ptp(sampling.size[sampling.free]) == 0)
    widths = []
    for size in sizes:
        total = m + int(size)
        if total < 2:  # the estimator is undefined with fewer than two audits
            widths.append(1.0)
            continue
        if equal:
            design = spread * (1.0 - total / q.size) / total
        else:
            p = sampling.with_pilot(int(size))[sampling.open_]
            design = float(((1.0 - p) / p) @ each) / q.size**2
        variance = (q.size / n) ** 2 * design + rows
        widths.append(min(1.0, 2.0 * quantile(level) * float(np.sqrt(variance))))
    return np.array(widths)
