"""
Images with biased labels, by networks
======================================

The task is to recognise even digits, the positives. Bright positives are labelled often, and dark positives hardly
ever. The images are real, from scikit-learn; the labels are simulated.

.. image:: /_static/digits.png
   :alt: Even digits from dark to bright, most of the bright ones with a label; odd digits, none with a label.
   :width: 560

The images are sorted from dark to bright. Labelled images have a frame.

**Lesson.** Name what the labelling depends on, here the brightness, and use any network. Two networks, one for the
class and one for the propensity, are trained together: they maximise the likelihood of the labels. The class prior is
then estimated from held-out rows.

This page needs ``pip install "scarless[torch]"``. The documentation build does not have PyTorch, so the code is shown
but not run. The output of each part is printed below its code. Each part took less than a minute on one core. ``make
test-torch`` runs the code. See :doc:`/networks` for parameters, texts and comparisons.
"""

# %%
# Two networks in 40 lines
# ------------------------
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
    """Return the propensity feature, one value for each image."""
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
# The first argument is a class, a function that creates a network, or an instance, which is copied with its weights. It
# can be a pretrained network whose last layer returns one logit. `propensity_module` accepts the same kinds of values.
# Use a small network for the propensity, because two networks that can express the same functions can be swapped.
# ``recalibrate="held-out"`` trains one network instead of five. This is faster, but with so few labels the class prior
# is less certain.


class Residual(nn.Module):
    """A network with a residual connection and one logit for each image."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.out = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 1))

    def forward(self, x):
        """Return the logits."""
        hidden = self.first(x).relu()
        return self.out(hidden + self.second(hidden).relu())


few = {**options, "recalibrate": "held-out"}  # one network instead of five
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
# With ``NetTraining(dtype="bfloat16")`` the layers run in half precision; weights, loss and recalibration stay in full
# precision. A GPU is used if there is one, unless ``device="cpu"``.
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
# Your own training loop and DataLoader
# -------------------------------------
# If the images do not fit into memory, or you have your own training program, use the loss alone. It needs the logits
# of two networks and the labels, and converts logits of half precision to float32.
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
