r"""What networks are trained by, as modules of torch.

All take logits, never probabilities: ``u`` of :math:`f = \Pr(y=1|x)`, ``v`` of :math:`e = \Pr(s=1|y=1,x)`. Logits of
half precision (float16, bfloat16) are read in float32, so that a mixed-precision network needs nothing else.
"""

from scarless.torch.losses.fused import loss_and_slopes
from scarless.torch.losses.likelihood import LooksLikelihoodLoss, SARLikelihoodLoss, sar_log_likelihood
from scarless.torch.losses.risks import NNPULoss, PropensityWeightedLoss, UPULoss

__all__ = [
    "LooksLikelihoodLoss",
    "NNPULoss",
    "PropensityWeightedLoss",
    "SARLikelihoodLoss",
    "UPULoss",
    "loss_and_slopes",
    "sar_log_likelihood",
]
