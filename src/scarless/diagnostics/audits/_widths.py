"""How wide the interval of the class prior will be after so many audits."""

from typing import Any, NamedTuple

import numpy as np

from scarless.checks.rows import check_rows
from scarless.diagnostics.audits._designs import Drawn
from scarless.diagnostics.audits._reading import Judged
from scarless.engines import Engine, attach
from scarless.models.pair import known_inference
from scarless.numerics import uncertainty
from scarless.numerics.arrays import Matrix, Vector
from scarless.numerics.audits import lost_information
from scarless.numerics.interval import quantile
from scarless.numerics.looks_objective import LooksLikelihood
from scarless.numerics.objectives import PairObjective
from scarless.numerics.uncertainty import logit_interval
from scarless.pair.inference import PairInference

_MODELS_WORD = 20.0  # audits that the model's own idea of its differences is worth, beside those of a pilot


class ModelWidths(NamedTuple):
    """A fit, its rows, and what audits would add to its information."""

    inference: PairInference
    objective: PairObjective
    engine: Engine
    drawn: Drawn
    level: float

    @classmethod
    def of(cls, judged: Judged, drawn: Drawn, level: float) -> "ModelWidths | None":
        """Return what the model's own interval needs; None for a fit that has no information matrix."""
        model = judged.estimator
        if getattr(getattr(model, "fitted_pair_", None), "inference", None) is None or hasattr(model, "relaxation_"):
            return None
        inference = known_inference(model)
        if inference.told_by_height:
            objective, shape = inference.objective, model.fitted_pair_.looks.counts(judged.labels)
        else:
            objective = LooksLikelihood(inference.f, ((inference.e,),))
            shape = (judged.labels == 1).astype(np.int8), np.ones_like(judged.labels)
        rows = check_rows(model, judged.X)
        engine = attach(rows, labels=shape[0], looks=shape[1], audit=judged.audit, w=np.ones(rows.n_rows))
        return cls(inference, objective, engine, drawn, level)

    def gain(self, chance: Vector) -> Matrix:
        """Return what checks with these probabilities add to the information."""
        rows = attach(self.engine, chance=chance)
        (found,) = rows.total(lost_information, self.objective, self.inference.parameters)
        return np.asarray(found)

    def now(self) -> float:
        """Return the width of the fit's own interval."""
        low, high = self.inference.class_prior_interval(self.level)
        return high - low

    def expected(self, sizes: Any) -> Vector:
        """Return the expected widths after so many new audits."""
        inference = self.inference
        base = inference.penalised_information()
        equal = bool(np.ptp(self.drawn.size[self.drawn.free]) == 0)
        of_one = self.gain(self.drawn.chances(1)) if equal else None
        gains = [size * of_one if of_one is not None else self.gain(self.drawn.chances(int(size))) for size in sizes]
        return np.array([self._width(base + gain) for gain in gains])

    def _width(self, information: Matrix) -> float:
        prior = self.inference.class_prior
        (error,) = uncertainty.precision(information, noise=self.inference.noise).errors(prior.gradient[None])
        slope = prior.value * (1.0 - prior.value)
        error = float(np.hypot(error, np.sqrt(prior.row_variance))) / slope if slope > 0 else np.inf
        centre = np.log(prior.value) - np.log1p(-prior.value) if slope > 0 else np.inf
        low, high = logit_interval(np.asarray(centre), np.asarray(error), quantile(self.level))
        return float(high - low)


def difference_widths(judged: Judged, drawn: Drawn, sizes: Any, level: float) -> Vector:
    r"""Return the expected widths of `audited_class_prior` after so many new audits, together with the pilot's.

    A row's difference has the variance :math:`q(1-q)` if the model is right. The mean of that over rows and what pilot
    audits show are averaged, the first as if it were 20 audits; rows keep their proportions.
    """
    q, n = judged.q[drawn.open_], judged.q.size
    own = q * (1.0 - q)
    checked = judged.audited[drawn.open_]
    m = int(checked.sum())
    spread = float(own.mean())
    if m > 1:
        differences = (judged.audit[drawn.open_][checked] == 1) - q[checked]
        spread = (_MODELS_WORD * spread + m * float(differences.var(ddof=1))) / (_MODELS_WORD + m)
    each = own * (spread / own.mean()) if own.any() else np.full(q.size, spread)
    alpha = float(judged.q.mean())
    rows = alpha * (1.0 - alpha) / n
    equal = bool(np.ptp(drawn.size[drawn.free]) == 0)
    widths = []
    for size in sizes:
        total = m + int(size)
        if total < 2:  # without audits this estimator knows nothing
            widths.append(1.0)
            continue
        if equal:
            design = spread * (1.0 - total / q.size) / total
        else:
            p = drawn.with_pilot(int(size), judged)[drawn.open_]
            design = float(((1.0 - p) / p) @ each) / q.size**2
        variance = (q.size / n) ** 2 * design + rows
        widths.append(min(1.0, 2.0 * quantile(level) * float(np.sqrt(variance))))
    return np.array(widths)
