"""Risk estimates from biased labels: the estimates, their bias, variance, bounds and intervals."""

from scarless.metrics.bounds import corrected_bound, paper_bound
from scarless.metrics.intervals import RiskInterval, risk_interval
from scarless.metrics.risk import (
    effective_sample_size,
    expected_risk,
    propensity_weighted_risk,
    risk_bias,
    risk_variance,
    true_risk,
)
from scarless.numerics.costs import Cost, get_cost

__all__ = [
    "Cost",
    "RiskInterval",
    "corrected_bound",
    "effective_sample_size",
    "expected_risk",
    "get_cost",
    "paper_bound",
    "propensity_weighted_risk",
    "risk_bias",
    "risk_interval",
    "risk_variance",
    "true_risk",
]
