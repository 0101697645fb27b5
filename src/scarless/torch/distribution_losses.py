r"""Losses that compare mean predictions of labelled rows and of all rows: VPU and Dist-PU.

Both take the logits ``u`` of the class, like the losses of `scarless.torch.losses`, and assume that labelled rows are a
random sample of the positives.
"""

from typing import Any

from scarless.checks.options import check_at_least_zero, check_choice, check_positive, check_share
from scarless.outside.extras import need
from scarless.torch.losses import SCENARIOS, column, like_logits, log_not, mean_over

torch: Any = need("torch", "scarless.torch.distribution_losses", "torch")
Module: Any = torch.nn.Module


class VPULoss(Module):  # type: ignore[misc, unused-ignore]
    r"""Variational loss under SCAR, which needs no class prior (VPU).

    .. math:: \log\overline{f} - \overline{\log f}^{\,P} + \lambda\,\overline{(\log\tilde f - \log f(\tilde x))^2}

    The mean with `P` is over the labelled rows. The mean without `P` is over all rows if they are one sample
    ("single-training-set"), and over the unlabelled rows if these are a separate sample of the population
    ("case-control"). The third mean is over mixed rows :math:`\tilde x = \gamma x' + (1-\gamma)x''` of a labelled row
    and another row, with the target :math:`\tilde f = \gamma + (1-\gamma)f(x'')`. Assumption: labelled rows are a
    random sample of the positives, and some rows are certainly positive.

    The first two terms do not change if `f` is multiplied by a constant. Their minimum is at every multiple of the
    class probability, so predictions must be scaled to the maximum 1: use `scaled`.

    Parameters
    ----------
    mixup_weight : float, default=0
        Weight :math:`\lambda` of the mixed rows. The paper uses 0.03 to 0.3 for images. If it is above 0, pass `mixed`.
    mixup_alpha : float, default=0.3
        Parameter of the Beta distribution of :math:`\gamma`, for `mix`.
    scenario : {"single-training-set", "case-control"}, default="single-training-set"
        Whether all rows are one sample, or unlabelled rows are a separate sample.

    References
    ----------
    Chen, Liu, Wang, Zhao and Wu (2020), "A variational approach for learning from positive and unlabeled data",
    NeurIPS.

    Examples
    --------
    >>> import torch
    >>> u, s = torch.tensor([0.0, 0.0, -1.0986]), torch.tensor([1.0, 0.0, 0.0])  # f is 1/2, 1/2 and 1/4
    >>> VPULoss()(u, s)  # log(5/12) - log(1/2)
    tensor(-0.1823)
    >>> VPULoss.scaled(u)
    tensor([1.0000, 1.0000, 0.5000])
    """

    def __init__(
        self, *, mixup_weight: float = 0.0, mixup_alpha: float = 0.3, scenario: str = "single-training-set"
    ) -> None:
        super().__init__()
        self.mixup_weight = check_at_least_zero(mixup_weight, "mixup_weight")
        self.mixup_alpha = check_positive(mixup_alpha, "mixup_alpha")
        self.scenario = check_choice(scenario, "scenario", SCENARIOS)

    def forward(self, u: Any, s: Any, weight: Any = None, *, mixed: tuple[Any, Any] | None = None) -> Any:
        """Return the loss.

        Parameters
        ----------
        u : tensor of shape (n_rows,) or (n_rows, 1)
            Logits of the class.
        s : tensor of shape (n_rows,)
            Observed labels: 1 for labelled rows, 0 for unlabelled rows.
        weight : tensor of shape (n_rows,), optional
            Weight of each row; 1 by default.
        mixed : (tensor, tensor), optional
            Logits of mixed rows, and their targets; both from `mix`. Needed if `mixup_weight` is above 0.

        Returns
        -------
        tensor
            A term without rows, as in a batch without labels, is 0.
        """
        if (mixed is not None) != (self.mixup_weight > 0):
            raise ValueError(
                "mixed must be given if mixup_weight is above 0, and only then; mixup_weight is "
                f"{self.mixup_weight:g}. Use x, target = loss.mix(x, u, s), and loss(u, s, mixed=(net(x), target))."
            )
        u, labelled, every = _rows(u, s, weight, self.scenario)
        log_f = torch.nn.functional.logsigmoid(u)
        loss = _log_mean_exp(log_f, every) - mean_over(log_f, labelled)
        if mixed is None:
            return loss
        z = column(mixed[0], "mixed")
        target = like_logits(mixed[1], z, "targets of mixed")
        squares = (target.log() - torch.nn.functional.logsigmoid(z)) ** 2
        return loss + self.mixup_weight * mean_over(squares, torch.ones_like(squares))

    def mix(self, x: Any, u: Any, s: Any) -> tuple[Any, Any]:
        r"""Mix each row with a random labelled row; return the mixed rows and their targets.

        One :math:`\gamma` is drawn for the whole batch, as in the authors' program. The random numbers are those of
        torch. A batch without labels gives no rows.

        Parameters
        ----------
        x : tensor of shape (n_rows, ...)
            Input of the network.
        u : tensor of shape (n_rows,)
            Logits of these rows.
        s : tensor of shape (n_rows,)
            Observed labels.

        Returns
        -------
        (tensor, tensor)
        """
        u = column(u, "u")
        positive = torch.nonzero(like_logits(s, u, "s") == 1)[:, 0]
        if not positive.numel():
            return x[:0], u[:0]
        share = float(torch.distributions.Beta(self.mixup_alpha, self.mixup_alpha).sample())
        partner = positive[torch.randint(positive.numel(), (u.shape[0],), device=positive.device)]
        return share * x[partner] + (1.0 - share) * x, share + (1.0 - share) * torch.sigmoid(u)

    @staticmethod
    def scaled(u: Any) -> Any:
        r"""Return class probabilities: :math:`\sigma(u)` over its maximum. Pass the logits of all rows at once.

        Parameters
        ----------
        u : tensor of shape (n_rows,) or (n_rows, 1)
            Logits of the class.

        Returns
        -------
        tensor of shape (n_rows,)
        """
        log_f = torch.nn.functional.logsigmoid(column(u, "u"))
        return (log_f - log_f.max()).exp()


class DistPULoss(Module):  # type: ignore[misc, unused-ignore]
    r"""Difference of mean predictions and class shares under SCAR, for a known class prior (Dist-PU).

    .. math:: 2\pi\,\bigl|\overline{f}^{\,P} - 1\bigr| + \bigl|\overline{f} - \pi\bigr|
        + \mu\,\overline{-f\log f - (1-f)\log(1-f)}

    Means with `P` are over the labelled rows, others as in `VPULoss`. Assumption: labelled rows are a random sample of
    the positives, and the class prior :math:`\pi` is right. The loss is 0 for every network whose predictions have the
    right means; the entropy term prefers predictions near 0 and 1. The paper also mixes rows in a second stage, which
    is left out here.

    Parameters
    ----------
    class_prior : float
        Share of positives.
    entropy_weight : float, default=0
        Weight :math:`\mu` of the entropy.
    scenario : {"single-training-set", "case-control"}, default="single-training-set"
        Whether all rows are one sample, or unlabelled rows are a separate sample.

    References
    ----------
    Zhao, Xu, Jiang, Wen and Huang (2022), "Dist-PU: Positive-unlabeled learning from a label distribution perspective",
    CVPR.

    Examples
    --------
    >>> import torch
    >>> DistPULoss(0.4)(torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]))  # 0.8 * 0.5 + 0.1
    tensor(0.5000)
    """

    def __init__(
        self, class_prior: float, *, entropy_weight: float = 0.0, scenario: str = "single-training-set"
    ) -> None:
        super().__init__()
        self.class_prior = check_share(class_prior, "class_prior")
        self.entropy_weight = check_at_least_zero(entropy_weight, "entropy_weight")
        self.scenario = check_choice(scenario, "scenario", SCENARIOS)

    def forward(self, u: Any, s: Any, weight: Any = None) -> Any:
        """Return the loss.

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
            A term without rows, as in a batch without labels, is 0.
        """
        u, labelled, every = _rows(u, s, weight, self.scenario)
        f = torch.sigmoid(u)
        missed = mean_over(torch.sigmoid(-u), labelled)  # 1 - f, which is never negative
        excess = (mean_over(f, every) - self.class_prior).abs()
        loss = 2.0 * self.class_prior * missed + torch.where(every.sum() > 0, excess, torch.zeros_like(excess))
        entropy = -f * torch.nn.functional.logsigmoid(u) - torch.sigmoid(-u) * log_not(u)
        return loss + self.entropy_weight * mean_over(entropy, every)


def _rows(u: Any, s: Any, weight: Any, scenario: str) -> tuple[Any, Any, Any]:
    """Return logits, the weights of labelled rows, and the weights of the rows that represent the population."""
    u = column(u, "u")
    s = like_logits(s, u, "s")
    weight = torch.ones_like(u) if weight is None else like_logits(weight, u, "weight").expand(u.shape)
    return u, weight * s, weight if scenario == "single-training-set" else weight * (1.0 - s)


def _log_mean_exp(values: Any, weight: Any) -> Any:
    """Return the logarithm of the weighted mean of exp(values); 0 if all weights are 0."""
    if not bool((weight > 0).any()):
        return values.sum() * 0.0
    log_weight = weight.log()  # -inf for rows that do not count
    return torch.logsumexp(values + log_weight, dim=0) - torch.logsumexp(log_weight, dim=0)
