"""Networks on images whose labels are biased: ``python -m benchmarks.nets``. Needs ``pip install "scarless[torch]"``.

Scikit-learn's digits, so that nothing is downloaded; even digits are positive. Every method has the same network, the
same optimiser and the same share of held-out rows, by whose loss it is stopped. Labels are given to positives by four
mechanisms; nnPU is told the true class prior, "known e" the true propensities, ours neither. ``--overhead`` measures
what a training step costs beside a supervised one of the same network.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict, train_test_split

EPOCHS, PATIENCE, BATCH, LR = 150, 15, 128, 3e-3
WIDTHS = (("mse_e", 8), ("class_prior", 11))  # of columns that only some methods have


class Labelled(NamedTuple):
    """Training rows with labels by some mechanism, and test rows with classes."""

    X: Any
    Z: Any  # what the propensity may see
    s: Any
    e: Any
    y: Any
    X_test: Any
    Z_test: Any
    e_test: Any
    y_test: Any


def mechanisms(X: Any, y: Any, rng: Any) -> dict[str, tuple[Any, Any]]:
    """Return, by name, what the propensity sees, and propensities."""
    site = rng.normal(size=len(X))
    brightness = _standard(X.mean(axis=1))
    logit = cross_val_predict(LogisticRegression(C=0.01), X, y, cv=5, method="decision_function")
    return {
        "scar": (np.empty((len(X), 0)), np.full(len(X), 0.4)),
        "attribute": (site[:, None], expit(2 * site - 0.5)),
        "brightness": (brightness[:, None], expit(2 * brightness - 0.5)),
        # Whoever labels finds clear cases first; all pixels may tell the propensity which these are.
        "class probability": (X, expit(0.7 * _standard(logit) * 2 - 1.0)),
    }


def labelled(kind: str, seed: int) -> Labelled:
    rng = np.random.default_rng(seed)
    X, digit = load_digits(return_X_y=True)
    X, y = _scaled(X), (digit % 2 == 0).astype(int)
    Z, e = mechanisms(X, y, rng)[kind]
    s = (y * (rng.random(len(y)) < e)).astype(int)
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
    return Labelled(X[train], Z[train], s[train], e[train], y[train], X[test], Z[test], e[test], y[test])


def train(data: Labelled, risk: Callable[[Any, Any], Any], seed: int) -> Any:
    """Train the network by a risk of logits and rows, stopped by the same risk of held-out rows; return test logits."""
    import torch
    from scarless.torch.modules import default_classifier

    torch.manual_seed(seed)
    net = default_classifier(data.X.shape[1:])
    optimizer = torch.optim.AdamW(net.parameters(), lr=LR)
    fit, held = train_test_split(np.arange(len(data.s)), test_size=0.2, random_state=seed, stratify=data.s)
    X = torch.tensor(data.X, dtype=torch.float32)
    best, weights, waited = np.inf, None, 0
    for epoch in range(EPOCHS):
        order = np.random.default_rng([seed, epoch]).permutation(fit)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            optimizer.zero_grad()
            risk(net(X[rows])[:, 0], rows).backward()
            optimizer.step()
        with torch.no_grad():
            value = float(risk(net(X[held])[:, 0], held))
        if value < best - 1e-6:
            best, weights, waited = value, {k: v.clone() for k, v in net.state_dict().items()}, 0
        else:
            waited += 1
            if waited >= PATIENCE:
                break
    net.load_state_dict(weights)
    with torch.no_grad():
        return net(torch.tensor(data.X_test, dtype=torch.float32))[:, 0].numpy()


def scores(data: Labelled, logits: Any, e: Any = None) -> dict[str, float]:
    out = {"error": float(np.mean((logits > 0) != data.y_test)), "auc": float(roc_auc_score(data.y_test, logits))}
    return out if e is None else {**out, "mse_e": float(np.mean((e - data.e_test) ** 2))}


def ours(data: Labelled, kind: str, seed: int, **options: Any) -> dict[str, float]:
    from scarless.torch import SARNetClassifier

    model = SARNetClassifier(
        max_epochs=EPOCHS, patience=PATIENCE, batch_size=BATCH, lr=LR, random_state=seed, standardise=False, **options
    )
    Z = data.Z if data.Z.shape[1] else None
    if kind == "brightness":
        mean, unit = data.X.mean(axis=1).mean(), data.X.mean(axis=1).std()
        model.set_params(propensity_features=lambda X: (X.mean(axis=1) - mean) / unit)
        Z = None
    model.fit(data.X, data.s, propensity_features=Z)
    f = model.predict_proba(data.X_test)[:, 1]
    e = model.predict_propensity(data.X_test, propensity_features=None if Z is None else data.Z_test)
    found = scores(data, np.log(f) - np.log1p(-f), e)
    return {**found, "class_prior": model.class_prior_ - float(np.mean(data.y))}


def methods(data: Labelled, kind: str, seed: int) -> dict[str, dict[str, float]]:
    import torch
    from scarless.torch import NNPULoss, PropensityWeightedLoss

    s, e, y = (torch.tensor(np.asarray(each), dtype=torch.float32) for each in (data.s, data.e, data.y))
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    nnpu, known = NNPULoss(float(np.mean(data.y))), PropensityWeightedLoss()
    return {
        "supervised": scores(data, train(data, lambda u, rows: cross_entropy(u, y[rows]), seed)),
        "naive": scores(data, train(data, lambda u, rows: cross_entropy(u, s[rows]), seed)),
        "nnPU, true prior": scores(data, train(data, lambda u, rows: nnpu(u, s[rows]), seed)),
        "known e": scores(data, train(data, lambda u, rows: known(u, s[rows], e[rows]), seed)),
        "ours": ours(data, kind, seed),
        "ours, not relaxed": ours(data, kind, seed, relax=False),
    }


def table(seeds: int, first: int) -> None:
    """Print means over seeds, and standard errors of the error."""
    for kind in ("scar", "attribute", "brightness", "class probability"):
        found = [methods(labelled(kind, seed), kind, seed) for seed in range(first, first + seeds)]
        print(f"\nlabels by {kind}, {seeds} seeds")
        print(f"{'':<20}{'error':>8}{'+-':>7}{'AUC':>8}{'MSE e':>8}{'prior off':>11}")
        for name in found[0]:
            values = {key: np.array([run[name][key] for run in found]) for key in found[0][name]}
            error = values["error"]
            spread = error.std(ddof=1) / np.sqrt(seeds)
            line = f"{name:<20}{error.mean():>8.3f}{spread:>7.3f}{values['auc'].mean():>8.3f}"
            more = [f"{values[key].mean():>{width}.3f}" for key, width in WIDTHS if key in values]
            print(line + "".join(more), flush=True)


def tables(seeds: int) -> None:
    """Print errors on tables, beside logistic models and boosting; labels depend on two of the columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    import torch
    from scarless import SAREMClassifier
    from scarless.datasets import load_dataset
    from scarless.torch import SARNetClassifier

    def large(n_columns: int) -> Any:
        nn = torch.nn
        hidden = [
            nn.Linear(n_columns, 256),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(256, 256),
            nn.ReLU(),
            nn.Dropout(0.3),
        ]
        return nn.Sequential(*hidden, nn.Linear(256, 1))

    for name in ("breastcancer", "imagesegmentation", "splice", "mushroom"):
        data = load_dataset(name)
        X, y = np.asarray(data.X, dtype=float), np.asarray(data.y).astype(int)
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            columns = np.sort(rng.choice(X.shape[1], 2, replace=False))
            z = _standard(X[:, columns].sum(axis=1) + 0.1 * rng.normal(size=len(X)))
            e = expit(1.5 * z)
            s = (y * (rng.random(len(y)) < e)).astype(int)
            train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
            nets = {"max_epochs": EPOCHS, "patience": PATIENCE, "propensity_attributes": columns, "random_state": seed}
            models = {
                "logistic": SAREMClassifier(propensity_attributes=columns),
                "boosting": SAREMClassifier(
                    HistGradientBoostingClassifier(random_state=seed), propensity_attributes=columns, random_state=seed
                ),
                "network": SARNetClassifier(**nets),
                "large network": SARNetClassifier(large, **nets),
            }
            for kind, model in models.items():
                model.fit(X[train], s[train])
                wrong = float(np.mean(model.predict(X[test]) != y[test]))
                off = float(np.mean((model.predict_propensity(X[test]) - e[test]) ** 2))
                found.setdefault(kind, []).append((wrong, off))
        print(f"\n{name}, {seeds} seeds\n{'':<20}{'error':>8}{'MSE e':>8}")
        for kind, values in found.items():
            wrong, off = np.mean(values, axis=0)
            print(f"{kind:<20}{wrong:>8.3f}{off:>8.3f}", flush=True)


def overhead(repeats: int = 15) -> None:
    """Print what an epoch of two networks costs beside a supervised one: medians of runs that take turns."""
    import torch
    from scarless.torch.modules import Constant, Pair, default_propensity
    from scarless.torch.pair_net import Batches, PairNet, RowData, tensor_rows

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x, z, s = rng.normal(size=(4096, 784)), rng.normal(size=(4096, 1)), (rng.random(4096) < 0.3).astype(float)
    rows = RowData(tensor_rows(x, z, s, np.ones(4096), torch.float32))

    class Supervised(PairNet):
        """The same under skorch, by cross-entropy."""

        def infer(self, x: Any, **fit_params: Any) -> Any:
            return self.module_.f(x["x"])[:, 0]

        def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
            return torch.nn.functional.binary_cross_entropy_with_logits(y_pred, y_true)

    def net(kind: Any, e: Any) -> Any:
        nn = torch.nn
        f = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
        options = {"optimizer": torch.optim.AdamW, "iterator_train": Batches, "train_split": None, "verbose": 0}
        return kind(Pair(f, e), torch.nn.Identity, lr=1e-3, batch_size=256, **options).initialize()

    nets = {"supervised": net(Supervised, Constant()), "two networks": net(PairNet, default_propensity((1,)))}
    seconds: dict[str, list[float]] = {name: [] for name in nets}
    for _ in range(repeats + 1):
        for name, each in nets.items():
            start = time.perf_counter()
            each.fit_loop(rows, None, epochs=1)
            seconds[name].append(time.perf_counter() - start)
    quickest = {name: 1e3 * min(each[1:]) / 16 for name, each in seconds.items()}
    ratio = quickest["two networks"] / quickest["supervised"]
    middle = np.median(np.array(seconds["two networks"][1:]) / np.array(seconds["supervised"][1:]))
    print("a step of 256 rows, 784-512-512-1: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in quickest.items()))
    print(f"ratio {ratio:.3f} of the quickest epochs, {middle:.3f} in the middle of {repeats} pairs")


def _scaled(X: Any) -> Any:
    return (X - X.mean()) / X.std()


def _standard(x: Any) -> Any:
    return (x - x.mean()) / x.std()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--tables", action="store_true", help="beside logistic models and boosting")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if given.overhead:
        overhead()
    elif given.tables:
        tables(given.seeds)
    else:
        table(given.seeds, given.first)


if __name__ == "__main__":
    main()
