"""Labelled rows, methods and the table of results for the experiments with networks.

Every method has the same network, the same optimiser and the same share of held-out rows, whose loss stops the
training. nnPU knows the true class prior and "known e" the true propensities; SARNetClassifier knows neither.
SARNetClassifier averages the networks of five folds, so nnPU and "known e" are also shown with a mean of five networks.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

Risk = Callable[[Any, Any], Any]
OPTIONAL_COLUMN_WIDTHS = (("mse_e", 8), ("class_prior", 11), ("warned", 8))  # columns that only some methods have


class Labelled(NamedTuple):
    """Training rows with labels, and test rows with classes."""

    X: Any
    Z: Any  # attributes of the propensity
    s: Any
    e: Any
    y: Any
    X_test: Any
    Z_test: Any
    e_test: Any
    y_test: Any


@dataclass(frozen=True)
class Setting:
    """The network and its training parameters."""

    module: Callable[[], Any]
    epochs: int = 150
    patience: int = 15
    batch: int = 128
    lr: float = 3e-3
    device: str = "cpu"
    integers: bool = False  # whether the rows are token ids
    options: dict[str, Any] = field(default_factory=dict)  # options of the optimiser
    n_mean: int = 5  # number of networks whose mean is shown

    def tensor(self, X: Any) -> Any:
        """Return rows as a tensor for the network."""
        import torch

        return torch.as_tensor(np.asarray(X), dtype=torch.int64 if self.integers else torch.float32).to(self.device)


def label_and_split(X: Any, Z: Any, y: Any, e: Any, *, seed: int, rng: Any) -> Labelled:
    """Draw labels of positives, and split off 30% of the rows for testing."""
    s = (y * (rng.random(len(y)) < e)).astype(int)
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
    return Labelled(X[train], Z[train], s[train], e[train], y[train], X[test], Z[test], e[test], y[test])


def train(setting: Setting, data: Labelled, risk: Risk, seed: int) -> Any:
    """Train the network with a risk function, with early stopping on held-out rows; return the test logits."""
    import torch

    torch.manual_seed(seed)
    net = setting.module().to(setting.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=setting.lr, **setting.options)
    fit, held = train_test_split(np.arange(len(data.s)), test_size=0.2, random_state=seed, stratify=data.s)
    X = setting.tensor(data.X)
    best, weights, waited = np.inf, None, 0
    for epoch in range(setting.epochs):
        order = np.random.default_rng([seed, epoch]).permutation(fit)
        net.train()
        for start in range(0, len(order), setting.batch):
            rows = order[start : start + setting.batch]
            optimizer.zero_grad()
            risk(net(X[rows]).reshape(-1), rows).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            value = float(risk(_logits(net, X[held]), held))
        if value < best - 1e-6:
            best, weights, waited = value, {k: v.clone() for k, v in net.state_dict().items()}, 0
        else:
            waited += 1
            if waited >= setting.patience:
                break
    net.load_state_dict(weights)
    with torch.no_grad():
        return _logits(net, setting.tensor(data.X_test)).cpu().numpy()


def scores(data: Labelled, logits: Any, e: Any = None) -> dict[str, float]:
    """Return test error and AUC, and the MSE of the propensities if they are given."""
    out = {"error": float(np.mean((logits > 0) != data.y_test)), "auc": float(roc_auc_score(data.y_test, logits))}
    return out if e is None else {**out, "mse_e": float(np.mean((e - data.e_test) ** 2))}


def sar_net(setting: Setting, data: Labelled, seed: int, features: Any = None, **options: Any) -> dict[str, float]:
    """Return the scores of `SARNetClassifier`; `features` computes the propensity's attributes from X, if possible."""
    from scarless.torch import NetTraining, SARNetClassifier

    training = NetTraining(
        max_epochs=setting.epochs,
        patience=setting.patience,
        batch_size=setting.batch,
        lr=setting.lr,
        optimizer_options=setting.options,
    )
    model = SARNetClassifier(
        setting.module,
        training=training,
        device=setting.device,
        integers=setting.integers,
        standardise=False,
        propensity_features=features,
        random_state=seed,
        **options,
    )
    separate = data.Z if data.Z.shape[1] and features is None else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data.X, data.s, propensity_features=separate)
    f = np.clip(model.predict_proba(data.X_test)[:, 1], 1e-15, 1 - 1e-15)
    e = model.predict_propensity(data.X_test, propensity_features=None if separate is None else data.Z_test)
    found = scores(data, np.log(f) - np.log1p(-f), e)
    warned = any("is uncertain" in str(each.message) or "finds that" in str(each.message) for each in caught)
    return {**found, "class_prior": model.class_prior_ - float(np.mean(data.y)), "warned": float(warned)}


def methods(setting: Setting, data: Labelled, seed: int, features: Any = None) -> dict[str, dict[str, float]]:
    """Return the scores of every method."""
    import torch
    from scarless.torch import NNPULoss, PropensityWeightedLoss

    s, e, y = (
        torch.tensor(np.asarray(each), dtype=torch.float32).to(setting.device) for each in (data.s, data.e, data.y)
    )
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    nnpu, known = NNPULoss(float(np.mean(data.y))), PropensityWeightedLoss()
    risks: dict[str, Risk] = {
        "supervised": lambda u, rows: cross_entropy(u, y[rows]),
        "naive": lambda u, rows: cross_entropy(u, s[rows]),
        "nnPU, true prior": lambda u, rows: nnpu(u, s[rows]),
        "known e": lambda u, rows: known(u, s[rows], e[rows]),
    }
    found = {}
    for name, risk in risks.items():
        logits = train(setting, data, risk, seed)
        found[name] = scores(data, logits)
        if name not in ("supervised", "naive") and setting.n_mean > 1:
            more = [train(setting, data, risk, 1000 * (k + 1) + seed) for k in range(setting.n_mean - 1)]
            found[f"{name}, x{setting.n_mean}"] = scores(data, np.mean([logits, *more], axis=0))
    found["SARNet, out of fold"] = sar_net(setting, data, seed, features, recalibrate="out-of-fold")
    found["SARNet, held out"] = sar_net(setting, data, seed, features, recalibrate="held-out")
    found["SARNet, not recalibrated"] = sar_net(setting, data, seed, features, recalibrate=False)
    return found


def print_table(title: str, found: list[dict[str, dict[str, float]]]) -> None:
    """Print means over seeds, and the standard error and maximum of the error."""
    print(f"\n{title}, {len(found)} seeds")
    print(f"{'':<26}{'error':>8}{'+-':>7}{'worst':>7}{'AUC':>8}{'MSE e':>8}{'prior':>11}{'warned':>8}")
    for name in found[0]:
        values = {key: np.array([run[name][key] for run in found]) for key in found[0][name]}
        error = values["error"]
        spread = error.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
        line = f"{name:<26}{error.mean():>8.3f}{spread:>7.3f}{error.max():>7.3f}{values['auc'].mean():>8.3f}"
        more = [f"{values[key].mean():>{width}.3f}" for key, width in OPTIONAL_COLUMN_WIDTHS if key in values]
        print(line + "".join(more), flush=True)


def standard(x: Any) -> Any:
    """Return standardised values, with mean 0 and variance 1."""
    return (x - x.mean()) / x.std()


def _logits(net: Any, X: Any) -> Any:
    import torch

    return torch.cat([net(X[start : start + 4096]).reshape(-1) for start in range(0, len(X), 4096)])
