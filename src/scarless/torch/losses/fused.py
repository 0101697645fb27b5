r"""The observed likelihood of a batch with its derivatives in closed form: fewer and smaller steps than by autograd.

With :math:`t = \log\frac{fe}{1-fe} = -\log(e^{-v} + e^{-u}/e)`, the logit of a label,

.. math:: \frac{\partial\log f e}{\partial u} = 1-f, \qquad
    \frac{\partial\log(1-fe)}{\partial u} = -\frac{fe(1-f)}{1-fe} = -e^{t + \log(1-f)},

and the same for `v` with `e` in the place of `f`. Every exponent is at most 0, so nothing overflows.
"""

from typing import Any

from scarless.outside.extras import need

torch: Any = need("torch", "scarless.torch.losses", "torch")
Function: Any = torch.autograd.Function


class _MeanLoss(Function):  # type: ignore[misc, unused-ignore]
    """The weighted mean of minus the log-likelihood; its gradient is made at once, and cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, u: Any, v: Any, s: Any, w: Any) -> Any:
        """Return the loss, and keep its gradient."""
        log_sigmoid = torch.nn.functional.logsigmoid
        both = torch.stack([u, v])
        logs = log_sigmoid(both)
        t = torch.logaddexp(-v, -logs[1] - u).neg_()
        labelled, share = s == 1, w / w.sum()
        value = torch.where(labelled, logs[0] + logs[1], log_sigmoid(-t))
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            slope = (logs - both).add_(t.masked_fill_(labelled, 0.0)).exp_()
            ctx.save_for_backward(slope.mul_(torch.where(labelled, -share, share)))
        return -torch.dot(share, value)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[misc, unused-ignore]
    def backward(ctx: Any, outer: Any) -> Any:
        """Return derivatives by both logits."""
        (slope,) = ctx.saved_tensors
        slope = slope * outer
        return slope[0], slope[1], None, None


def mean_sar_loss(u: Any, v: Any, s: Any, w: Any) -> Any:
    """Return the weighted mean of minus the observed log-likelihood, for training: it has first derivatives only.

    Examples
    --------
    >>> import torch
    >>> mean_sar_loss(torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 0.0]), torch.ones(2))
    tensor(0.8370)
    """
    return _MeanLoss.apply(u, v, s, w)
