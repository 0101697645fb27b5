"""Networks, logistic models and LightGBM on tables whose labels depend on two of the columns."""

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.model_selection import train_test_split

from benchmarks.networks.common import standard

NAMES = ("breastcancer", "imagesegmentation", "splice", "mushroom")
EPOCHS, PATIENCE = 150, 15


def large(n_columns: int) -> Any:
    """Return a network with two hidden layers of 256, and dropout."""
    import torch

    nn = torch.nn
    hidden = [nn.Linear(n_columns, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*hidden, nn.Linear(256, 1))


def models(columns: Any, seed: int) -> dict[str, Any]:
    """Return one model of each kind."""
    from lightgbm import LGBMClassifier

    from scarless import SAREMClassifier
    from scarless.torch import NetTraining, SARNetClassifier

    boosted = LGBMClassifier(n_estimators=100, random_state=seed, n_jobs=1, verbose=-1)
    training = NetTraining(max_epochs=EPOCHS, patience=PATIENCE)
    nets = {"training": training, "propensity_attributes": columns, "random_state": seed}
    return {
        "logistic": SAREMClassifier(propensity_attributes=columns),
        "LightGBM": SAREMClassifier(boosted, propensity_attributes=columns, random_state=seed),
        "network": SARNetClassifier(**nets),
        "large network": SARNetClassifier(large, **nets),
        "large network, held out": SARNetClassifier(large, recalibrate="held-out", **nets),
    }


def one(X: Any, y: Any, seed: int) -> dict[str, tuple[float, float]]:
    """Return the test error and the MSE of the propensity of every model."""
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.choice(X.shape[1], 2, replace=False))
    e = expit(1.5 * standard(X[:, columns].sum(axis=1) + 0.1 * rng.normal(size=len(X))))
    s = (y * (rng.random(len(y)) < e)).astype(int)
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
    found = {}
    for kind, model in models(columns, seed).items():
        model.fit(X[train], s[train])
        wrong = float(np.mean(model.predict(X[test]) != y[test]))
        found[kind] = (wrong, float(np.mean((model.predict_propensity(X[test]) - e[test]) ** 2)))
    return found


def run(seeds: range) -> None:
    """Print the errors on each table."""
    from scarless.datasets import load_dataset

    for name in NAMES:
        data = load_dataset(name)
        X, y = np.asarray(data.X, dtype=float), np.asarray(data.y).astype(int)
        found = [one(X, y, seed) for seed in seeds]
        print(f"\n{name}, {len(seeds)} seeds\n{'':<26}{'error':>8}{'+-':>7}{'MSE e':>8}")
        for kind in found[0]:
            values = np.array([each[kind] for each in found])
            spread = values[:, 0].std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
            print(f"{kind:<26}{values[:, 0].mean():>8.3f}{spread:>7.3f}{values[:, 1].mean():>8.3f}", flush=True)
