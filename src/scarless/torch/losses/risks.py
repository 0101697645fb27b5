"""Risks of one network, where propensities or the class prior are known."""

from typing import Any

from scarless.checks.options import check_at_least_zero, check_choice, check_share
from scarless.outside.extras import need
from scarless.torch.losses.logits import Module, beside, column, log_not

torch: Any = need("torch", "scarless.torch.losses", "torch")

_CORRECTIONS = ("unbiased", "non-negative", "absolute")
_COSTS = ("log", "sigmoid")
_SCENARIOS = ("single-training-set", "case-control")


class _RiskLoss(Module):  # type: ignore[misc, unused-ignore]
    """A risk that is put together of two means, whose second estimates the negatives' part and may come out below 0."""

    def __init__(self, *, correction: str, cost: str, beta: float, gamma: float) -> None:
        super().__init__()
        self.correction = check_choice(correction, "correction", _CORRECTIONS)
        self.cost = check_choice(cost, "cost", _COSTS)
        self.beta, self.gamma = check_at_least_zero(beta, "beta"), check_at_least_zero(gamma, "gamma")

    def _costs(self, u: Any) -> tuple[Any, Any]:
        """Return what a logit costs on a positive, and on a negative row."""
        if self.cost == "sigmoid":
            return torch.sigmoid(-u), torch.sigmoid(u)
        return -torch.nn.functional.logsigmoid(u), -log_not(u)

    def _corrected(self, positive: Any, negative: Any) -> Any:
        if self.correction == "unbiased":
            return positive + negative
        if self.correction == "absolute":
            return positive + negative.abs()
        # The value is that of the published risk; where the negatives' part is below -beta, its gradient leads back up.
        back = -self.gamma * negative
        value = (positive - self.beta).detach() + (back - back.detach())
        return torch.where(negative < -self.beta, value, positive + negative)


class PropensityWeightedLoss(_RiskLoss):
    r"""The propensity-weighted risk, where propensities are known.

    .. math:: \underbrace{\overline{\tfrac{s}{e}\delta_1(u)}}_{R_+} +
        \underbrace{\overline{\bigl(1 - \tfrac{s}{e}\bigr)\delta_0(u)}}_{R_-}

    Unbiased for the supervised risk when :math:`e = \Pr(s=1|y=1,x) > 0` (Bekker et al. 2019). A flexible network
    makes :math:`R_-` negative, which no risk is: "non-negative" then takes a step that raises it again, as Kiryo et al.
    (2017) do, and "absolute" takes :math:`|R_-|`.

    Parameters
    ----------
    correction : {"unbiased", "non-negative", "absolute"}, default="non-negative"
        What is done about a negative :math:`R_-`.
    cost : {"log", "sigmoid"}, default="log"
        :math:`\delta_1(u) = \log(1 + e^{-u})`, or :math:`\sigma(-u)`; :math:`\delta_0(u) = \delta_1(-u)`.
    beta, gamma : float, default=0 and 1
        Of "non-negative": below ``-beta`` steps lead back, and are ``gamma`` times as long.

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD. Kiryo, Niu, du Plessis and Sugiyama (2017), "Positive-unlabeled learning
    with non-negative risk estimator", NeurIPS.

    Examples
    --------
    >>> import torch
    >>> loss = PropensityWeightedLoss(correction="unbiased")
    >>> loss(torch.zeros(2), torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]))  # log 2: both costs are the same
    tensor(0.6931)
    """

    def __init__(
        self, *, correction: str = "non-negative", cost: str = "log", beta: float = 0.0, gamma: float = 1.0
    ) -> None:
        super().__init__(correction=correction, cost=cost, beta=beta, gamma=gamma)

    def forward(self, u: Any, s: Any, propensity: Any, weight: Any = None) -> Any:
        """Return the risk.

        Parameters
        ----------
        u : tensor of shape (n_rows,) or (n_rows, 1)
            Logits of the class.
        s : tensor of shape (n_rows,)
            1 for labelled rows, 0 for the others.
        propensity : float or tensor of shape (n_rows,)
            In (0, 1].
        weight : tensor of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        tensor
        """
        u = column(u, "u")
        share = beside(s, u, "s") / beside(propensity, u, "propensity")
        cost_pos, cost_neg = self._costs(u)
        weight = torch.ones_like(u) if weight is None else beside(weight, u, "weight")
        total = weight.sum()
        return self._corrected(
            (weight * share * cost_pos).sum() / total, (weight * (1.0 - share) * cost_neg).sum() / total
        )


class UPULoss(_RiskLoss):
    r"""The unbiased risk under SCAR with a known class prior :math:`\alpha`.

    .. math:: \alpha\,\overline{\delta_1(u)}^{\,P} + \overline{\delta_0(u)} - \alpha\,\overline{\delta_0(u)}^{\,P}

    with means over labelled rows `P`, and over all rows: labels are missing from rows of one sample
    ("single-training-set"). Where unlabelled rows are a sample of the population by themselves ("case-control"), the
    second mean is over these. Right when labelled rows are a random sample of the positives; for labels that are biased
    it is not.

    Parameters
    ----------
    class_prior : float
        Share of positives.
    scenario : {"single-training-set", "case-control"}, default="single-training-set"
        Whether labels are missing from rows of one sample, or unlabelled rows are a sample of their own.
    cost : {"log", "sigmoid"}, default="log"
        :math:`\delta_1(u) = \log(1 + e^{-u})`, or :math:`\sigma(-u)`; :math:`\delta_0(u) = \delta_1(-u)`.

    References
    ----------
    du Plessis, Niu and Sugiyama (2015), "Convex formulation for learning from positive and unlabeled data", ICML.

    Examples
    --------
    >>> import torch
    >>> UPULoss(0.4)(torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]))
    tensor(0.6931)
    """

    def __init__(self, class_prior: float, *, scenario: str = "single-training-set", cost: str = "log") -> None:
        super().__init__(correction="unbiased", cost=cost, beta=0.0, gamma=1.0)
        self.class_prior = check_share(class_prior, "class_prior")
        self.scenario = check_choice(scenario, "scenario", _SCENARIOS)

    def forward(self, u: Any, s: Any, weight: Any = None) -> Any:
        """Return the risk.

        Parameters
        ----------
        u : tensor of shape (n_rows,) or (n_rows, 1)
            Logits of the class.
        s : tensor of shape (n_rows,)
            1 for labelled rows, 0 for the others.
        weight : tensor of shape (n_rows,), optional
            How often each row counts.

        Returns
        -------
        tensor
            Means over no rows, as in a batch without labels, count as 0.
        """
        u = column(u, "u")
        s = beside(s, u, "s")
        cost_pos, cost_neg = self._costs(u)
        weight = torch.ones_like(u) if weight is None else beside(weight, u, "weight")
        labelled, every = weight * s, weight if self.scenario == "single-training-set" else weight * (1.0 - s)
        positive = self.class_prior * _mean(cost_pos, labelled)
        return self._corrected(positive, _mean(cost_neg, every) - self.class_prior * _mean(cost_neg, labelled))


def _mean(values: Any, weight: Any) -> Any:
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, torch.ones_like(total))


class NNPULoss(UPULoss):
    r"""The non-negative risk under SCAR with a known class prior: `UPULoss` whose negatives' part is kept from below 0.

    .. math:: \alpha\,\overline{\delta_1(u)}^{\,P} +
        \max\Bigl(0,\; \overline{\delta_0(u)} - \alpha\,\overline{\delta_0(u)}^{\,P}\Bigr)

    Where the second part is negative, "non-negative" takes a step that raises it again, and "absolute" takes its
    absolute value. Right where `UPULoss` is; a flexible network overfits less by it.

    Parameters
    ----------
    class_prior : float
        Share of positives.
    scenario : {"single-training-set", "case-control"}, default="single-training-set"
        As in `UPULoss`.
    cost : {"log", "sigmoid"}, default="sigmoid"
        As in `UPULoss`; "sigmoid" is what was published.
    correction : {"non-negative", "absolute"}, default="non-negative"
        See above.
    beta, gamma : float, default=0 and 1
        Below ``-beta`` steps lead back, and are ``gamma`` times as long.

    References
    ----------
    Kiryo, Niu, du Plessis and Sugiyama (2017), "Positive-unlabeled learning with non-negative risk estimator", NeurIPS.

    Examples
    --------
    >>> import torch
    >>> NNPULoss(0.4)(torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]))
    tensor(0.5000)
    """

    def __init__(
        self,
        class_prior: float,
        *,
        scenario: str = "single-training-set",
        cost: str = "sigmoid",
        correction: str = "non-negative",
        beta: float = 0.0,
        gamma: float = 1.0,
    ) -> None:
        super().__init__(class_prior, scenario=scenario, cost=cost)
        self.correction = check_choice(correction, "correction", _CORRECTIONS[1:])
        self.beta, self.gamma = check_at_least_zero(beta, "beta"), check_at_least_zero(gamma, "gamma")
