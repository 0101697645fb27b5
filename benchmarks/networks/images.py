"""Images with biased labels: scikit-learn's digits, MNIST, Fashion-MNIST and CIFAR-10.

Nothing is downloaded. Positives are labelled by four mechanisms: at random, by an attribute beside the image, by the
brightness of the image, and by its class probability.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from benchmarks.networks.common import Labelled, Setting, label_and_split, methods, print_table, standard

KINDS = ("scar", "attribute", "brightness", "class probability")
# The labels are those of "class probability", but the propensity model sees every pixel, which is far too much.
PIXELS = "class probability, pixels"
FILES = {
    "mnist": "MNIST/raw with train-images-idx3-ubyte and train-labels-idx1-ubyte (or both with .gz)",
    "fashion-mnist": "FashionMNIST/raw with train-images-idx3-ubyte and train-labels-idx1-ubyte (or both with .gz)",
    "cifar10": "cifar-10-batches-py with batches.meta, data_batch_1 to data_batch_5 and test_batch",
}
# Positive classes, as usual in the literature: even digits; upper garments; vehicles.
POSITIVE = {"mnist": (0, 2, 4, 6, 8), "fashion-mnist": (0, 2, 3, 4, 6), "cifar10": (0, 1, 8, 9)}


def load_images(name: str, folder: str | Path) -> tuple[Any, Any]:
    """Return training images, with values from 0 to 1 and channels first, and whether each is positive.

    The files must be in `folder`, in torchvision's layout; they are never downloaded.
    """
    if name not in FILES:
        raise ValueError(f"images must be one of digits, {', '.join(FILES)}; got {name!r}.")
    try:
        from torchvision import datasets
    except ImportError as error:
        raise ImportError("Reading these images needs torchvision: pip install torchvision.") from error
    kinds = {"mnist": datasets.MNIST, "fashion-mnist": datasets.FashionMNIST, "cifar10": datasets.CIFAR10}
    try:
        found = kinds[name](str(folder), train=True, download=False)
    except (RuntimeError, OSError, ValueError, EOFError) as error:
        raise FileNotFoundError(
            f"The files of {name} are not in {folder}, or are not complete ({error}). They are not downloaded: put the "
            f"folder {FILES[name]} there, and pass {folder} with --folder."
        ) from error
    pixels = np.asarray(found.data, dtype=np.float32) / 255.0
    pixels = pixels[:, None] if pixels.ndim == 3 else np.moveaxis(pixels, 3, 1)
    return pixels, np.isin(np.asarray(found.targets), POSITIVE[name]).astype(int)


def digits() -> tuple[Any, Any]:
    """Return scikit-learn's digits, even ones positive."""
    X, digit = load_digits(return_X_y=True)
    return (X - X.mean()) / X.std(), (digit % 2 == 0).astype(int)


def mechanism(kind: str, X: Any, y: Any, rng: Any) -> tuple[Any, Any, Any]:
    """Return attributes of the propensity, propensities, and the function that computes the attributes or None."""
    flat = X.reshape(len(X), -1)
    if kind == "scar":
        return np.empty((len(X), 0)), np.full(len(X), 0.4), None
    if kind == "attribute":
        site = rng.normal(size=len(X))
        return site[:, None], expit(2 * site - 0.5), None
    if kind == "brightness":
        mean, unit = flat.mean(axis=1).mean(), flat.mean(axis=1).std()

        def brightness(X: Any) -> Any:
            return (X.reshape(len(X), -1).mean(axis=1) - mean) / unit

        return brightness(X)[:, None], expit(2 * brightness(X) - 0.5), brightness
    # Clear cases are labelled first. The propensity model sees ten principal components of the image.
    logit = cross_val_predict(LogisticRegression(C=0.01), flat, y, cv=5, method="decision_function")
    seen = flat if kind == PIXELS else PCA(10, whiten=True, random_state=0).fit_transform(flat)
    return seen, expit(1.4 * standard(logit) - 1.0), None


def labelled(kind: str, seed: int, X: Any, y: Any) -> tuple[Labelled, Any]:
    """Return labelled rows, and the function that computes the propensity's attributes from X or None."""
    rng = np.random.default_rng(seed)
    if kind != "attribute":
        rng.normal(size=len(X))  # All mechanisms use up the same random numbers, so that their labels are comparable.
    Z, e, features = mechanism(kind, X, y, rng)
    return label_and_split(X, Z, y, e, seed=seed, rng=rng), features


def dense(shape: tuple[int, ...] = (64,)) -> Any:
    """Return a network with one hidden layer, the default for digits."""
    from scarless.torch.networks import default_classifier

    return default_classifier(shape)


def convolutions(shape: tuple[int, ...]) -> Any:
    """Return a small convolutional network."""
    import torch

    nn, (channels, height, width) = torch.nn, shape
    left = (height // 4) * (width // 4) * 32
    parts = [nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    parts += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*parts, nn.Linear(left, 64), nn.ReLU(), nn.Linear(64, 1))


def run(
    name: str,
    *,
    folder: str,
    seeds: range,
    rows: int,
    device: str,
    kinds: tuple[str, ...] = KINDS,
    n_mean: int = 5,
    make: Any = convolutions,
) -> None:
    """Print a table for each mechanism; `make` returns a network for images of a given shape."""
    if name == "digits":
        X, y = digits()
        setting = Setting(dense, device=device, n_mean=n_mean)
    else:
        X, y = load_images(name, folder)
        shape = X.shape[1:]
        setting = Setting(lambda: make(shape), epochs=40, patience=5, lr=1e-3, device=device, n_mean=n_mean)
    for kind in kinds:
        found = []
        for seed in seeds:
            some = np.random.default_rng([seed, 7]).permutation(len(y))[: round(rows / 0.7)] if rows else slice(None)
            data, features = labelled(kind, seed, X[some], y[some])
            found.append(methods(setting, data, seed, features))
        print_table(f"{name}, labels by {kind}, {len(data.y):,} training rows", found)
