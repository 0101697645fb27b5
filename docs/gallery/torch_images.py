"""
Images with biased labels, by networks
======================================

Even digits are what we look for, and bright images are labelled more often than dark ones: dark positives are hardly
ever labelled. The images are real, those of scikit-learn; the labels are simulated.

.. image:: /_static/digits.png
   :alt: Even digits from dark to bright, most of the bright ones with a label; odd digits, none with a label.
   :width: 560

From dark to bright; those with a label have a frame.

**Lesson.** Say what labelling depends on, here the brightness, and bring any network. Two networks are trained together
by the observed likelihood; how many positives there are is then estimated from rows that they have not seen.

This page needs ``pip install "scarless[torch]"``. The build of these pages does not have PyTorch, so the code is shown
and not run. What it printed, on one core in under a minute, stands below each part; ``make test-torch`` runs it.
Parameters, texts and comparisons: :doc:`/networks`.
"""

# %%
# PU images with biased labels in 40 lines
# ----------------------------------------
import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import torch
from scarless.torch import NetTraining, SARLikelihoodLoss, SARNetClassifier
from torch import nn

rng = np.random.default_rng(0)
pixels, digit = load_digits(return_X_y=True)
X, y = pixels.reshape(-1, 1, 8, 8) / 16, digit % 2 == 0


def brightness(X):
    """Return what labelling depends on, one value for each image."""
    return X.mean(axis=(1, 2, 3))


z = (brightness(X) - brightness(X).mean()) / brightness(X).std()
e = expit(2 * z - 0.5)
s = y & (rng.random(len(y)) < e)


def convolutions():
    """Return a network with one logit for each image."""
    seen = nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return nn.Sequential(*seen, nn.Linear(288, 1))


train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=0)
training = NetTraining(lr=0.01, max_epochs=150, patience=15)
options = {"training": training, "random_state": 0}
model = SARNetClassifier(convolutions, propensity_features=brightness, **options)
model.fit(X[train], s[train])
scar = SARNetClassifier(convolutions, **options)
scar.fit(X[train], s[train])

labelled, positive = np.mean(s[train]), np.mean(y[train])
found = model.class_prior_
print(f"labelled {labelled:.2f}, positive {positive:.2f}, estimated {found:.2f}")
names = {"as if labels were unbiased": scar, "with biased labels": model}
for name, each in names.items():
    wrong = np.mean(each.predict(X[test]) != y[test])
    print(f"{name}: {wrong:.3f} of the test images are wrong")
off = model.predict_propensity(X[test]) - e[test]
print(f"mean squared error of the propensity {np.mean(off**2):.4f}")
# sphinx_gallery_thumbnail_path = '_static/digits.png'

# %%
# .. code-block:: none
#
#     labelled 0.22, positive 0.50, estimated 0.47
#     as if labels were unbiased: 0.252 of the test images are wrong
#     with biased labels: 0.039 of the test images are wrong
#     mean squared error of the propensity 0.0002
#
# Your own module
# ---------------
# The first argument is a class, a function that makes a network, or an instance, which is copied with its weights: a
# pretrained network whose last layer returns one logit is a start like any other. `propensity_module` is given
# likewise; keep it small, since two networks that can express the same can change places. With ``recalibrate="held-out"``
# one network is trained and not five: that is quicker, and with so few labels less sure of the class prior.


class Residual(nn.Module):
    """One logit for each image, by way of a sum of two paths."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.out = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 1))

    def forward(self, x):
        """Return the logits."""
        hidden = self.first(x).relu()
        return self.out(hidden + self.second(hidden).relu())


few = {**options, "recalibrate": "held-out"}  # one network and not five
own = SARNetClassifier(Residual, propensity_features=brightness, **few)
own.fit(X[train], s[train])
print(f"own module: class prior {own.class_prior_:.2f}")

# %%
# .. code-block:: none
#
#     own module: class prior 0.49
#
# Mixed precision
# ---------------
# With ``NetTraining(dtype="bfloat16")`` layers run in half precision; weights, loss and the last estimate of
# scale and level do not. A GPU is taken where there is one; ``device="cpu"`` leaves it alone.
few["training"] = NetTraining(lr=0.01, max_epochs=150, patience=15, dtype="bfloat16")
half = SARNetClassifier(convolutions, propensity_features=brightness, **few)
half.fit(X[train], s[train])
kept = next(half.module_.parameters()).dtype
print(f"bfloat16: class prior {half.class_prior_:.2f}, weights in {kept}")

# %%
# .. code-block:: none
#
#     bfloat16: class prior 0.51, weights in torch.float32
#
# Your own loop and DataLoader
# ----------------------------
# Where images do not fit into memory, or training is a program of its own, take the loss alone: it needs the logits of
# two networks and the labels, and reads those of half precision in float32.
torch.manual_seed(0)
arrays = (X[train], z[train, None], s[train])
tensors = [torch.tensor(each, dtype=torch.float32) for each in arrays]
rows = torch.utils.data.TensorDataset(*tensors)
network, propensity, loss = convolutions(), nn.Linear(1, 1), SARLikelihoodLoss()
both = [*network.parameters(), *propensity.parameters()]
optimizer = torch.optim.AdamW(both, lr=0.01)
batches = torch.utils.data.DataLoader(rows, batch_size=128, shuffle=True)
for _ in range(10):
    for x, seen, label in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            u, v = network(x), propensity(seen)
        value = loss(u, v, label)
        value.backward()
        optimizer.step()
print(f"own loop: loss of the last batch {value.item():.2f}, in {value.dtype}")

# %%
# .. code-block:: none
#
#     own loop: loss of the last batch 0.24, in torch.float32
