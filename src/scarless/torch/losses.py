r"""Losses for networks, as torch modules.

All losses take logits, not probabilities: ``u`` of :math:`f = \Pr(y=1|x)`, and ``v`` of :math:`e = \Pr(s=1|y=1,x)`.
Logits in half precision (float16, bfloat16) are converted to float32, so mixed-precision networks need no further code.
"""

from typing import Any

from scarless.checks.options import check_at_least_zero, check_choice, check_share, real_number
from scarless.outside.extras import need

torch: Any = need("torch", "scarless.torch.losses", "torch")
Module: Any = torch.nn.Module

_REDUCTIONS = ("mean", "sum", "none")
_CORRECTIONS = ("unbiased", "non-negative", "absolute")
_COSTS = ("log", "sigmoid")
SCENARIOS = ("single-training-set", "case-control")


def at_least_float32(values: Any) -> Any:
    """Return logits in float32 or float64."""
    values = torch.as_tensor(values)
    return values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)


def column(values: Any, name: str) -> Any:
    """Return one logit for each row as a vector."""
    values = at_least_float32(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must hold one logit per row; its shape is {tuple(values.shape)}.")
    return values


def like_logits(values: Any, logits: Any, name: str) -> Any:
    """Return values of the rows with the type and device of the logits; raise an error if the shapes differ."""
    values = torch.as_tensor(values, dtype=logits.dtype, device=logits.device)
    if values.ndim == logits.ndim + 1 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim and values.shape != logits.shape:
        raise ValueError(
            f"{name} must have one value for each logit, of shape {tuple(logits.shape)}; its shape is "
            f"{tuple(values.shape)}."
        )
    return values


def log_not(z: Any) -> Any:
    r"""Return :math:`\log(1 - \sigma(z))`."""
    return torch.nn.functional.logsigmoid(-z)


class RowLoss(Module):  # type: ignore[misc, unused-ignore]
    """Loss with one value for each row, and a reduction."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = check_choice(reduction, "reduction", _REDUCTIONS)

    def _reduced(self, loss: Any, weight: Any) -> Any:
        if weight is not None:
            weight = like_logits(weight, loss, "weight")
            loss = loss * weight
        if self.reduction == "none":
            return loss
        if self.reduction == "sum":
            return loss.sum()
        return loss.mean() if weight is None else loss.sum() / weight.expand(loss.shape).sum()


# --- the observed likelihood


def sar_log_likelihood(u: Any, v: Any, s: Any) -> Any:
    r"""Return :math:`s(\log f + \log e) + (1-s)\log(1 - fe)` of each row, to full precision for any finite logit.

    .. math:: -\log(1 - fe) = \log(1 + e^t), \qquad t = -\log(e^{-u-v} + e^{-u} + e^{-v}).

    No digits cancel: probabilities are not subtracted, and the derivatives are sums of terms of the same sign.

    Examples
    --------
    >>> import torch
    >>> sar_log_likelihood(torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 0.0]))
    tensor([-1.3863, -0.2877])
    """
    unlabelled = log_not(-torch.logsumexp(torch.stack([-u - v, -u, -v]), dim=0))
    labelled = torch.nn.functional.logsigmoid(u) + torch.nn.functional.logsigmoid(v)
    return torch.where(s == 1, labelled, unlabelled)


class SARLikelihoodLoss(RowLoss):
    r"""Negative observed log-likelihood of labels, given the logits of two networks.

    .. math:: -s(\log f + \log e) - (1-s)\log(1 - fe), \qquad s \sim \mathrm{Bernoulli}(fe).

    Assumption: only positives are labelled, with a probability that depends on the inputs of the second network. The
    two networks can be distinguished only if their inputs or their functional forms differ.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"
        Reduction over rows. The mean is weighted if weights are passed.

    References
    ----------
    Bekker, Robberechts and Davis (2019), "Beyond the Selected Completely At Random Assumption for Learning from
    Positive and Unlabeled Data", ECML-PKDD.

    Examples
    --------
    >>> import torch
    >>> loss = SARLikelihoodLoss()
    >>> loss(torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 0.0]))
    tensor(0.8370)
    """

    def forward(self, u: Any, v: Any, s: Any, weight: Any = None) -> Any:
        """Return the loss.

        Parameters
        ----------
        u, v : tensor of shape (n_rows,) or (n_rows, 1)
            Logits of the class and of the propensity.
        s : tensor of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        weight : tensor of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        tensor
        """
        u, v = column(u, "u"), column(v, "v")
        if u.shape != v.shape:
            raise ValueError(
                f"u and v must each hold one logit per row; their shapes are {tuple(u.shape)} and {tuple(v.shape)}."
            )
        return self._reduced(-sar_log_likelihood(u, v, like_logits(s, u, "s")), weight)


class LooksLikelihoodLoss(RowLoss):
    r"""Negative log-likelihood of rows with several looks or with audits.

    .. math:: A = \prod_j e_j^{t_j}(1-e_j)^{m_j-t_j}, \quad B = \prod_j h_j^{t_j}(1-h_j)^{m_j-t_j}, \quad
        -\log\{f A + (1-f) B\}

    with :math:`m_j` looks of kind `j`, of which :math:`t_j` gave a label, and false positive rates :math:`h_j`. The
    loss of an audited row is :math:`-\log fA` or :math:`-\log (1-f)B`. Assumption: looks are independent, given class
    and attributes.

    Parameters
    ----------
    bounds : (float, float), optional
        Bounds of the propensities: :math:`e = l + (b - l)\,\sigma(v)`.
    reduction : {"mean", "sum", "none"}, default="mean"
        Reduction over rows. The mean is weighted if weights are passed.

    References
    ----------
    MacKenzie, Nichols, Lachman, Droege, Royle and Langtimm (2002), "Estimating site occupancy rates when detection
    probabilities are less than one", Ecology. Royle and Link (2006), "Generalized site occupancy models allowing for
    false positive and false negative errors", Ecology.

    Examples
    --------
    >>> import torch
    >>> loss = LooksLikelihoodLoss()
    >>> nothing, twice = torch.zeros(1, 1), torch.tensor([[2.0]])  # two looks, no label, f = e = 1/2
    >>> round(loss(torch.zeros(1), torch.zeros(1, 1), nothing, twice).exp().item(), 3)  # 1 / (5/8)
    1.6
    """

    def __init__(self, *, bounds: tuple[float, float] | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.bounds = _check_bounds(bounds)

    def forward(
        self, u: Any, v: Any, labels: Any, looks: Any = None, audit: Any = None, *, g: Any = None, weight: Any = None
    ) -> Any:
        """Return the loss.

        Parameters
        ----------
        u : tensor of shape (n_rows,)
            Logits of the class.
        v : tensor of shape (n_rows, n_looks)
            Logits of the propensity of each look.
        labels : tensor of shape (n_rows, n_looks)
            Number of labels of each kind of look.
        looks : tensor of shape (n_rows, n_looks), optional
            Number of looks of each kind; 1 by default.
        audit : tensor of shape (n_rows,), optional
            True class of audited rows, 1 or 0; -1 for rows that were not audited.
        g : tensor of shape (n_rows, n_looks), optional
            Logits of the false positive rates. By default the rates are 0.
        weight : tensor of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        tensor
        """
        u, v = column(u, "u"), at_least_float32(v)
        v = v[:, None] if v.ndim == 1 else v
        labels = _table(labels, v, "labels")
        looks = torch.ones_like(v) if looks is None else _table(looks, v, "looks")
        positive = torch.nn.functional.logsigmoid(u) + self._log_positive(v, labels, looks - labels)
        negative = log_not(u)
        if g is not None:
            negative = negative + _log_bernoulli(_table(g, v, "g"), labels, looks - labels)
        impossible = (labels.sum(dim=1) > 0) if g is None else torch.zeros_like(u, dtype=torch.bool)
        value = torch.where(impossible, positive, torch.logaddexp(positive, negative))
        if audit is not None:
            audit = like_logits(audit, u, "audit")
            _refuse_labelled_negatives(impossible & (audit == 0))
            value = torch.where(audit >= 0, torch.where(audit == 1, positive, negative), value)
        return self._reduced(-value, weight)

    def _log_positive(self, v: Any, labels: Any, missed: Any) -> Any:
        if self.bounds is None:
            return _log_bernoulli(v, labels, missed)
        low, high = self.bounds
        least = torch.finfo(v.dtype).tiny
        e = (low + (high - low) * torch.sigmoid(v)).clamp_min(least)
        not_e = ((1.0 - high) + (high - low) * torch.sigmoid(-v)).clamp_min(least)
        return (labels * e.log() + missed * not_e.log()).sum(dim=1)


def _log_bernoulli(z: Any, labels: Any, missed: Any) -> Any:
    return (labels * torch.nn.functional.logsigmoid(z) + missed * log_not(z)).sum(dim=1)


def _table(values: Any, v: Any, name: str) -> Any:
    """Return one value for each row and look; with one kind of look, values may be a vector."""
    values = torch.as_tensor(values)
    return like_logits(values[:, None] if values.ndim == 1 else values, v, name)


def _refuse_labelled_negatives(rows: Any) -> None:
    if bool(rows.any()):
        n_rows = int(rows.sum())
        raise ValueError(
            f"audit is 0 (negative) for {n_rows} labelled row{'s' * (n_rows > 1)}, but without false positives every "
            "labelled row is positive. Pass g, the logits of the false positive rates, or correct the labels or audits."
        )


def _check_bounds(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = (real_number(end) for end in bounds)
    if not 0.0 <= low < high <= 1.0:
        raise ValueError(f"bounds must be two numbers with 0 <= low < high <= 1; got {bounds!r}.")
    return low, high


# --- the likelihood and its derivatives in closed form


def loss_and_slopes(u: Any, v: Any, s: Any, w: Any) -> tuple[Any, Any]:
    r"""Return the weighted mean of the negative observed log-likelihood, and its derivatives by `u` and `v`.

    The closed forms need fewer operations than autograd. With
    :math:`t = \log\frac{fe}{1-fe} = -\log(e^{-v} + e^{-u}/e)`, the logit of a label,

    .. math:: \frac{\partial\log f e}{\partial u} = 1-f, \qquad
        \frac{\partial\log(1-fe)}{\partial u} = -\frac{fe(1-f)}{1-fe} = -e^{t + \log(1-f)},

    and the same for `v`, with `e` instead of `f`. Every exponent is at most 0, so nothing overflows.

    Examples
    --------
    >>> import torch
    >>> loss_and_slopes(torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 0.0]), torch.ones(2))[0]
    tensor(0.8370)
    """
    with torch.no_grad():
        log_sigmoid, both = torch.nn.functional.logsigmoid, torch.stack([u, v])
        logs, turned = log_sigmoid(both), both.neg_()
        minus_t = torch.logaddexp(turned[1], turned[0] - logs[1])
        share, unlabelled = w / w.sum(), 1.0 - s
        value = torch.lerp(log_sigmoid(minus_t), logs[0] + logs[1], s)
        slopes = turned.add_(logs).addcmul_(minus_t, unlabelled, value=-1.0).exp_()
        return torch.dot(share, value).neg_(), slopes.mul_((unlabelled - s).mul_(share))


# --- risks of one network, with known propensities or a known class prior


class _RiskLoss(Module):  # type: ignore[misc, unused-ignore]
    """Risk that is a sum of two means. The second mean estimates the risk of negatives, and may be negative."""

    def __init__(self, *, correction: str, cost: str, beta: float, gamma: float) -> None:
        super().__init__()
        self.correction = check_choice(correction, "correction", _CORRECTIONS)
        self.cost = check_choice(cost, "cost", _COSTS)
        self.beta, self.gamma = check_at_least_zero(beta, "beta"), check_at_least_zero(gamma, "gamma")

    def _costs(self, u: Any) -> tuple[Any, Any]:
        """Return the cost of a logit for a positive and for a negative row."""
        if self.cost == "sigmoid":
            return torch.sigmoid(-u), torch.sigmoid(u)
        return -torch.nn.functional.logsigmoid(u), -log_not(u)

    def _corrected(self, positive: Any, negative: Any) -> Any:
        if self.correction == "unbiased":
            return positive + negative
        if self.correction == "absolute":
            return positive + negative.abs()
        # The value is the published risk. If the risk of negatives is below -beta, the gradient increases it.
        back = -self.gamma * negative
        value = (positive - self.beta).detach() + (back - back.detach())
        return torch.where(negative < -self.beta, value, positive + negative)


class PropensityWeightedLoss(_RiskLoss):
    r"""Propensity-weighted risk, for known propensities.

    .. math:: \underbrace{\overline{\tfrac{s}{e}\delta_1(u)}}_{R_+} +
        \underbrace{\overline{\bigl(1 - \tfrac{s}{e}\bigr)\delta_0(u)}}_{R_-}

    It is unbiased for the supervised risk if :math:`e = \Pr(s=1|y=1,x) > 0` (Bekker et al. 2019). A flexible network
    can make the estimate :math:`R_-` negative, although a risk is never negative. "non-negative" then takes a step that
    increases it, as in Kiryo et al. (2017), and "absolute" uses :math:`|R_-|`.

    Parameters
    ----------
    correction : {"unbiased", "non-negative", "absolute"}, default="non-negative"
        Correction of a negative :math:`R_-`.
    cost : {"log", "sigmoid"}, default="log"
        :math:`\delta_1(u) = \log(1 + e^{-u})`, or :math:`\sigma(-u)`; :math:`\delta_0(u) = \delta_1(-u)`.
    beta, gamma : float, default=0 and 1
        Parameters of "non-negative": if :math:`R_-` is below ``-beta``, the gradient of the loss is ``-gamma`` times
        the gradient of :math:`R_-`.

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
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        propensity : float or tensor of shape (n_rows,)
            Propensity of each row, in (0, 1].
        weight : tensor of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        tensor
        """
        u = column(u, "u")
        share = like_logits(s, u, "s") / like_logits(propensity, u, "propensity")
        cost_pos, cost_neg = self._costs(u)
        weight = torch.ones_like(u) if weight is None else like_logits(weight, u, "weight")
        total = weight.sum()
        return self._corrected(
            (weight * share * cost_pos).sum() / total, (weight * (1.0 - share) * cost_neg).sum() / total
        )


class UPULoss(_RiskLoss):
    r"""Unbiased risk under SCAR, for a known class prior :math:`\alpha`.

    .. math:: \alpha\,\overline{\delta_1(u)}^{\,P} + \overline{\delta_0(u)} - \alpha\,\overline{\delta_0(u)}^{\,P}

    Means with `P` are over the labelled rows. The mean without `P` is over all rows if they are one sample
    ("single-training-set"), and over the unlabelled rows if these are a separate sample of the population
    ("case-control"). Assumption: labelled rows are a random sample of the positives. This does not hold for biased
    labels.

    Parameters
    ----------
    class_prior : float
        Share of positives.
    scenario : {"single-training-set", "case-control"}, default="single-training-set"
        Whether all rows are one sample, or unlabelled rows are a separate sample.
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
        self.scenario = check_choice(scenario, "scenario", SCENARIOS)
        self.positive_weight, self.negative_weight = self.class_prior, 1.0

    def forward(self, u: Any, s: Any, weight: Any = None) -> Any:
        """Return the risk.

        Parameters
        ----------
        u : tensor of shape (n_rows,) or (n_rows, 1)
            Logits of the class.
        s : tensor of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        weight : tensor of shape (n_rows,), optional
            Weight of each row; 1 by default.

        Returns
        -------
        tensor
            A mean over no rows, as in a batch without labels, is 0.
        """
        u = column(u, "u")
        s = like_logits(s, u, "s")
        cost_pos, cost_neg = self._costs(u)
        weight = torch.ones_like(u) if weight is None else like_logits(weight, u, "weight")
        labelled, every = weight * s, weight if self.scenario == "single-training-set" else weight * (1.0 - s)
        positive = self.positive_weight * mean_over(cost_pos, labelled)
        negative = mean_over(cost_neg, every) - self.class_prior * mean_over(cost_neg, labelled)
        return self._corrected(positive, self.negative_weight * negative)


def mean_over(values: Any, weight: Any) -> Any:
    """Return the weighted mean of some rows; 0 if all weights are 0."""
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, torch.ones_like(total))


class NNPULoss(UPULoss):
    r"""Non-negative risk under SCAR, for a known class prior: `UPULoss` with a correction of negative risks.

    .. math:: \alpha\,\overline{\delta_1(u)}^{\,P} +
        \max\Bigl(0,\; \overline{\delta_0(u)} - \alpha\,\overline{\delta_0(u)}^{\,P}\Bigr)

    If the second term is negative, "non-negative" takes a step that increases it, and "absolute" uses its absolute
    value. The assumption is that of `UPULoss`; a flexible network overfits less. With a `target_prior`
    :math:`\alpha'`, the first term has the factor :math:`\alpha'` instead of :math:`\alpha`, and the second term is
    multiplied by :math:`\frac{1-\alpha'}{1-\alpha}`. The risk is then that of a population with the class prior
    :math:`\alpha'` (imbalanced nnPU), so a decision at probability 1/2 is for this population.

    Parameters
    ----------
    class_prior : float
        Share of positives.
    scenario : {"single-training-set", "case-control"}, default="single-training-set"
        As in `UPULoss`.
    cost : {"log", "sigmoid"}, default="sigmoid"
        As in `UPULoss`; the paper uses "sigmoid".
    correction : {"non-negative", "absolute"}, default="non-negative"
        Correction of a negative second term.
    beta, gamma : float, default=0 and 1
        Parameters of "non-negative": if the second term is below ``-beta``, the gradient of the loss is ``-gamma``
        times the gradient of this term.
    target_prior : float, optional
        Class prior for which errors are weighted; 1/2 for the balanced error, as in Su et al. (2021). By default
        `class_prior`.

    References
    ----------
    Kiryo, Niu, du Plessis and Sugiyama (2017), "Positive-unlabeled learning with non-negative risk estimator", NeurIPS.
    Su, Chen and Xu (2021), "Positive-unlabeled learning from imbalanced data", IJCAI.

    Examples
    --------
    >>> import torch
    >>> NNPULoss(0.4)(torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]))
    tensor(0.5000)
    >>> rare = torch.tensor([-2.0, -2.0, -2.0])  # all rows are called negative
    >>> s = torch.tensor([1.0, 0.0, 0.0])
    >>> NNPULoss(0.1)(rare, s), NNPULoss(0.1, target_prior=0.5)(rare, s)
    (tensor(0.1954), tensor(0.5000))
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
        target_prior: float | None = None,
    ) -> None:
        super().__init__(class_prior, scenario=scenario, cost=cost)
        if target_prior is not None:
            self.positive_weight = check_share(target_prior, "target_prior")
            self.negative_weight = (1.0 - self.positive_weight) / (1.0 - self.class_prior)
        self.correction = check_choice(correction, "correction", _CORRECTIONS[1:])
        self.beta, self.gamma = check_at_least_zero(beta, "beta"), check_at_least_zero(gamma, "gamma")
