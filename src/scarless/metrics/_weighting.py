"""How labels become targets that stand in for the class: plain, clipped, normalised."""

import math
from typing import NamedTuple

from scarless.checks.options import check_flag, real_number, shown
from scarless.metrics._rows import check_fraction, is_number
from scarless.numerics.arrays import ArrayLike, Vector
from scarless.numerics.weighted_scores import Targets, normalised_targets, plain_targets


class Weighting(NamedTuple):
    """How labels become targets, and how sure an interval is to be: options as the user gave them."""

    sample_weight: ArrayLike | None
    normalised: bool
    max_weight: float | None
    class_prior: float | None
    level: float = 0.95

    @property
    def cap(self) -> float:
        """The largest weight s/e, infinite where nothing is clipped."""
        return math.inf if self.max_weight is None else float(self.max_weight)


def check_options(options: Weighting) -> None:
    """Check what risks and scores of any kind may be told."""
    check_fraction(options.level, "level")
    normalised = check_flag(options.normalised, "normalised")
    if options.max_weight is not None and not (is_number(options.max_weight) and real_number(options.max_weight) >= 1):
        raise ValueError(
            "max_weight, the largest weight s/e, must be a number of at least 1, e.g. 10; got "
            f"{shown(options.max_weight)}."
        )
    if options.class_prior is None:
        return
    if not normalised:
        raise ValueError(
            "class_prior is what normalised weights add up to; pass normalised=True with it, or leave it out."
        )
    if not is_number(options.class_prior) or not 0.0 < options.class_prior <= 1.0:
        raise ValueError(f"class_prior must be a number in (0, 1], e.g. 0.3; got {shown(options.class_prior)}.")


def targets(share: Vector, weight: Vector, options: Weighting) -> Targets:
    """Turn ``s/e`` of rows that count into targets."""
    if not options.normalised:
        return plain_targets(share, options.cap)
    if share.any():
        return normalised_targets(share, weight, options.cap, options.class_prior)
    if options.class_prior is None:
        return plain_targets(share)
    raise ValueError(
        "normalised=True with a class_prior needs at least one labelled row that counts; there is none, so nothing is "
        "known of the positives."
    )
