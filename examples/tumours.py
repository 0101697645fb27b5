"""Compare methods on real tumour data with biased labels.

The cell measurements and classes are scikit-learn's breast cancer table (569 tumours). The labels are simulated: the
propensity of a malignant tumour depends on two simulated attributes, "insured" and "near a clinic", from 0.1 (neither)
to 0.9 (both). Both attributes are correlated with the cell measurements, so labelled and unlabelled malignant tumours
differ. Everything is repeated for ten train-test splits and labellings.

``python examples/tumours.py`` prints a table and writes the figure ``tumours.png``. An argument names another file for
the figure.
"""

import sys
from collections import defaultdict

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from scarless import NaiveClassifier, PropensityWeightedClassifier, SAREMClassifier, SCARClassifier
from scarless.labelling import GeometricMeanSAR, simulate_labels

N_RUNS = 10
METHODS = [
    "supervised (sees all diagnoses)",
    "naive (no label = healthy)",
    "SCAR (true c given)",
    "SAR, true propensity given",
    "SAR-EM (propensity learned)",
]
GROUPS = {"neither": (-1, -1), "insured": (1, -1), "near a clinic": (-1, 1), "both": (1, 1)}


def labelling_attributes(Z, rng, n_attributes=2):
    """Return -1/+1 columns that are correlated with the measurements through clusters, as in the paper."""
    columns = []
    for _ in range(n_attributes):
        cluster = KMeans(5, n_init=1, random_state=int(rng.integers(2**31))).fit_predict(Z)
        columns.append(np.where(rng.random(len(Z)) < rng.random(5)[cluster], 1.0, -1.0))
    return np.column_stack(columns)


def one_run(seed):
    """Return each method's scores, the propensity of each group by SAR-EM, and the share of malignant tumours."""
    measurements, benign = load_breast_cancer(return_X_y=True)
    y = 1 - benign
    Z = StandardScaler().fit_transform(measurements)
    rng = np.random.default_rng(seed)
    X = np.hstack([Z, labelling_attributes(Z, rng)])
    cells, access = slice(0, 30), slice(30, 32)
    e = GeometricMeanSAR([30, 31], low=0.1, high=0.9).propensity(X)

    train, test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=seed)
    s = simulate_labels(y[train], e[train], random_state=seed)
    fits = [
        LogisticRegression().fit(X[train], y[train]),
        NaiveClassifier().fit(X[train], s),
        SCARClassifier(label_frequency=s.sum() / y[train].sum()).fit(X[train], s),
        PropensityWeightedClassifier(method="likelihood").fit(X[train], s, propensity=e[train]),
        SAREMClassifier(propensity_attributes=access, classification_attributes=cells).fit(X[train], s),
    ]
    scores = {}
    for method, model in zip(METHODS, fits, strict=True):
        p = model.predict_proba(X[test])[:, 1]
        scores[method] = (np.mean((p - y[test]) ** 2), roc_auc_score(y[test], p), p.mean())
    corners = np.hstack([np.zeros((4, 30)), np.array(list(GROUPS.values()))])
    return scores, fits[-1].predict_propensity(corners), y[test].mean()


def interval(values):
    """Return the mean over runs and half the width of its 95% interval."""
    values = np.asarray(values)
    return values.mean(axis=0), 1.96 * values.std(axis=0, ddof=1) / np.sqrt(len(values))


def draw(results, propensities, path):
    """Plot the error of every method, and the propensities estimated by SAR-EM."""
    import matplotlib  # noqa: PLC0415  (an optional dependency)

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), width_ratios=[1.25, 1], layout="constrained")
    for row, method in enumerate(METHODS):
        mean, half = interval([mse for mse, _, _ in results[method]])
        ours = method.startswith("SAR-EM")
        left.errorbar(mean, row, xerr=half, fmt="o", capsize=3, color="#1f6fb4" if ours else "#777777")
        left.annotate(
            f"{mean:.3f}", (mean + half, row), (8, 0), textcoords="offset points", va="center",
            fontweight="bold" if ours else "normal",
        )  # fmt: skip
    left.set(yticks=range(len(METHODS)), yticklabels=METHODS, xlabel="mean squared error of Pr(malignant), test rows")
    left.set_title("Who has the disease?", loc="left")
    left.set_xlim(0, 0.26)
    left.set_ylim(4.5, -0.5)

    truth = [0.1, 0.3, 0.3, 0.9]
    right.plot(truth, range(4), "d", color="#c8500a", markersize=9, label="true", zorder=3)
    for row in range(4):
        found = np.asarray(propensities)[:, row]
        right.plot(
            found, np.full(len(found), row), "o", color="#1f6fb4", alpha=0.45, label="estimated" if row == 0 else None
        )
    right.set(yticks=range(4), yticklabels=list(GROUPS), xlim=(0, 1), xlabel="Pr(labelled | malignant)")
    right.set_title("Who gets a diagnosis?", loc="left")
    right.set_ylim(3.5, -0.5)
    right.legend(loc="upper right", frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x", alpha=0.3)
    figure.savefig(path, dpi=100)


def main(path="tumours.png"):
    results, propensities, truth = defaultdict(list), [], []
    for seed in range(N_RUNS):
        scores, found, share = one_run(seed)
        for method, score in scores.items():
            results[method].append(score)
        propensities.append(found)
        truth.append(share)
    print(f"Breast cancer, 569 tumours, {N_RUNS} splits and labellings; mean and 95% interval over them")
    print(f"True share of malignant tumours: {np.mean(truth):.3f}\n")
    print(f"{'method':34}{'MSE of Pr(malignant)':>22}{'ROC AUC':>18}{'estimated share':>20}")
    for method in METHODS:
        mean, half = interval(results[method])
        cells = [f"{m:.3f} ± {h:.3f}" for m, h in zip(mean, half, strict=True)]
        print(f"{method:34}{cells[0]:>22}{cells[1]:>18}{cells[2]:>20}")
    draw(results, propensities, path)
    print("\nSCAR estimates the share well because it was given the true label frequency; its probabilities are wrong.")
    print(f"\nFigure: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
