"""Neural networks: losses as torch modules, and a classifier based on skorch. Needs ``pip install "scarless[torch]"``.

``import scarless`` does not import torch.
"""

from scarless.outside.extras import need

need("torch", "scarless.torch", "torch")
need("skorch", "scarless.torch", "torch")

from scarless.torch.distribution_losses import DistPULoss, VPULoss  # noqa: E402
from scarless.torch.losses import (  # noqa: E402
    LooksLikelihoodLoss,
    NNPULoss,
    PropensityWeightedLoss,
    SARLikelihoodLoss,
    UPULoss,
)
from scarless.torch.net import SARNetClassifier  # noqa: E402
from scarless.torch.training import NetTraining  # noqa: E402

__all__ = [
    "DistPULoss",
    "LooksLikelihoodLoss",
    "NNPULoss",
    "NetTraining",
    "PropensityWeightedLoss",
    "SARLikelihoodLoss",
    "SARNetClassifier",
    "UPULoss",
    "VPULoss",
]
