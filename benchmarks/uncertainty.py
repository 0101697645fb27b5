"""Coverage of 95% confidence intervals when the models are correct and identified.

Data: simulated tables of 5,000 rows.
Time: about 40 minutes on one core. Results that are already stored are not measured again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, roots_hermitenorm

from benchmarks.runner import Row, read_rows, run_parts
from scarless import SAREMClassifier
from scarless.diagnostics.uncertainty.bootstrap import bootstrap_intervals
from scarless.diagnostics.uncertainty.profile import profile_class_prior

N_ROWS = 5000
REPETITIONS = {"coverage": 1000, "covariance": 300, "profile": 500, "bootstrap": 150}
N_RESAMPLES = 200
NORMAL_QUANTILE = 1.959964  # the 0.975 quantile of the standard normal distribution


@dataclass(frozen=True)
class Design:
    """True parameters for independent normal attributes, and the attributes of each model."""

    f: tuple[float, ...]
    e: tuple[float, ...]
    f_intercept: float
    e_intercept: float
    f_columns: tuple[int, ...]
    e_columns: tuple[int, ...]
    units: tuple[float, ...] = ()  # standard deviations of the attributes; all 1 if empty

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return attributes and labels."""
        rng = np.random.default_rng([seed, 5])
        X = rng.normal(size=(N_ROWS, len(self.f))) * self.spread()
        return X, (rng.random(N_ROWS) < self.class_probability(X) * self.propensity(X)).astype(int)

    def spread(self) -> np.ndarray:
        """Return the standard deviations of the attributes."""
        return np.array(self.units or [1.0] * len(self.f))

    def class_probability(self, X: np.ndarray) -> np.ndarray:
        """Return the true Pr(y=1|x)."""
        return np.asarray(expit(X @ np.array(self.f) + self.f_intercept))

    def propensity(self, X: np.ndarray) -> np.ndarray:
        """Return the true Pr(s=1|y=1,x)."""
        return np.asarray(expit(X @ np.array(self.e) + self.e_intercept))

    def model(self, C: float) -> SAREMClassifier:
        """Return an unfitted classifier with the correct attributes for both models."""
        return SAREMClassifier(
            propensity_attributes=list(self.e_columns) or None,
            classification_attributes=list(self.f_columns),
            C=C,
            propensity_C=C,
        )

    def parameters(self) -> np.ndarray:
        """Return the true parameters, in the order of a fit's parameters."""
        f, e = np.array(self.f)[list(self.f_columns)], np.array(self.e)[list(self.e_columns)]
        return np.concatenate([f, [self.f_intercept], e, [self.e_intercept]])

    def population(self) -> tuple[float, float]:
        """Return class prior and label frequency of the population, by Gauss-Hermite quadrature over both logits."""
        nodes, weights = roots_hermitenorm(80)
        weight = np.outer(weights, weights) / weights.sum() ** 2
        f, e = np.array(self.f) * self.spread(), np.array(self.e) * self.spread()
        covariance = np.array([[f @ f, f @ e], [f @ e, e @ e]])
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        u, v = np.tensordot(root, np.array(np.meshgrid(nodes, nodes, indexing="ij")), axes=1)
        p, q = expit(u + self.f_intercept), expit(v + self.e_intercept)
        return float((weight * p).sum()), float((weight * p * q).sum() / (weight * p).sum())


SMALL_EFFECTS = tuple(np.random.default_rng(1).normal(size=20) * 0.3)
DESIGNS = {
    "separate attributes": Design((1.5, -1.0, 0.0), (0.0, 0.0, 1.2), 0.0, 0.0, (0, 1), (2,)),
    "label frequency 0.24": Design((1.5, -1.0, 0.0), (0.0, 0.0, 1.2), 0.0, -1.5, (0, 1), (2,)),
    "label frequency 0.77": Design((1.5, -1.0, 0.0), (0.0, 0.0, 1.2), 0.0, 1.5, (0, 1), (2,)),
    "class prior 0.21": Design((1.5, -1.0, 0.0), (0.0, 0.0, 1.2), -2.0, 0.0, (0, 1), (2,)),
    "one shared attribute": Design((1.5, -1.0, 0.5), (0.0, 0.0, 1.2), 0.0, 0.0, (0, 1, 2), (2,)),
    "SCAR": Design((1.5, -1.0, 0.5), (0.0, 0.0, 0.0), 0.0, 0.0, (0, 1, 2), ()),
    "20 attributes": Design((0.0, *SMALL_EFFECTS), (1.0, *[0.0] * 20), 0.0, 0.0, tuple(range(1, 21)), (0,)),
}
PENALTIES = {"C = 1": 1.0, "no penalty": np.inf, "C = 0.1": 0.1, "C = 0.01": 0.01}


def coverage(names: tuple[str, ...] = tuple(DESIGNS)) -> Iterator[Row]:
    """Delta-method intervals of all estimates of a fit."""
    for name in names:
        for penalty in ("C = 1", "no penalty", *(["C = 0.1"] if name == "20 attributes" else [])):
            if not done("coverage", name, penalty):
                design = DESIGNS[name]
                parts = [covered(design, PENALTIES[penalty], seed) for seed in range(REPETITIONS["coverage"])]
                yield {"part": "coverage", "dataset": name, "method": penalty, **truth(design), **joined(parts)}


def covered(design: Design, C: float, seed: int) -> dict[str, np.ndarray]:
    """Return which intervals of one simulated fit cover."""
    X, s = design.draw(seed)
    model = design.model(C).fit(X, s)
    inference, beta = model.fitted_pair_.inference, design.parameters()
    n_f, off = len(design.f_columns) + 1, np.abs(inference.parameters - beta)
    inside = off < NORMAL_QUANTILE * inference.parameter_errors()
    V = inference.precision.root @ inference.precision.root.T
    sampling = off < NORMAL_QUANTILE * np.sqrt(np.diagonal(V @ inference.information @ V))
    alpha, c = design.population()
    rows = np.random.default_rng(99).normal(size=(20, X.shape[1]))
    return {
        "coef": inside[: n_f - 1],
        "intercept": inside[n_f - 1 : n_f],
        "propensity_coef": inside[n_f:-1],
        "propensity_intercept": inside[-1:],
        "sampling": sampling,
        "class_prior": np.array([between(alpha, model.class_prior_interval())]),
        "label_frequency": np.array([between(c, model.label_frequency_interval())]),
        "f": between(design.class_probability(rows), model.predict_proba_interval(rows).T),
        "e": between(design.propensity(rows), model.predict_propensity_interval(rows).T),
        "more_than_6_se_off": np.array([abs(model.class_prior_ - alpha) > 6 * model.standard_errors().class_prior]),
    }


def profile(
    names: tuple[str, ...] = ("separate attributes", "label frequency 0.24", "one shared attribute", "20 attributes"),
) -> Iterator[Row]:
    """Profile-likelihood intervals of the class prior."""
    for name in names:
        if not done("profile", name, "C = 1"):
            design = DESIGNS[name]
            parts = [profiled(design, seed) for seed in range(REPETITIONS["profile"])]
            yield {"part": "profile", "dataset": name, "method": "C = 1", **truth(design), **joined(parts)}


def profiled(design: Design, seed: int) -> dict[str, np.ndarray]:
    X, s = design.draw(seed)
    found = profile_class_prior(design.model(1.0).fit(X, s), X, s)
    alpha, _ = design.population()
    mean = design.class_probability(X).mean()
    return {
        "class_prior_of_the_rows": np.array([between(mean, found.interval)]),
        "class_prior": np.array([between(alpha, found.interval)]),
        "closed": np.array([all(found.closed)]),
    }


def bootstrap(names: tuple[str, ...] = ("separate attributes", "one shared attribute")) -> Iterator[Row]:
    """Percentile intervals of the bootstrap."""
    for name in names:
        if not done("bootstrap", name, "C = 1"):
            design = DESIGNS[name]
            parts = [resampled(design, seed) for seed in range(REPETITIONS["bootstrap"])]
            yield {"part": "bootstrap", "dataset": name, "method": "C = 1", **truth(design), **joined(parts)}


def resampled(design: Design, seed: int) -> dict[str, np.ndarray]:
    X, s = design.draw(seed)
    model = design.model(1.0).fit(X, s)
    rows = np.random.default_rng(99).normal(size=(20, X.shape[1]))
    found = bootstrap_intervals(model, X, s, n_resamples=N_RESAMPLES, random_state=seed, rows=rows)
    alpha, c = design.population()
    seen = {"coef": list(design.f_columns), "propensity_coef": list(design.e_columns)}
    true = {"coef": design.f, "propensity_coef": design.e}
    coefficients = {
        key: between(
            np.array(true[key])[columns], [found[f"{key}_"].low[0, columns], found[f"{key}_"].high[0, columns]]
        )
        for key, columns in seen.items()
    }
    return {
        **coefficients,
        "class_prior": np.array([between(alpha, found.class_prior[1:])]),
        "label_frequency": np.array([between(c, found.label_frequency[1:])]),
        "f": between(design.class_probability(rows), found["f"][1:]),
        "e": between(design.propensity(rows), found["e"][1:]),
        "failed": np.array([found.n_failed > 0]),
    }


def covariance(names: tuple[str, ...] = ("C = 0.1", "C = 0.01")) -> Iterator[Row]:
    """Intervals of small effects under a penalty, by two covariances.

    The small effects are drawn from the prior distribution that corresponds to the penalty. Three strong effects
    identify the models; their columns have large values, so that the penalty hardly affects them. The covariance in use
    is the inverse of the penalised information; `sampling` is the covariance that leaves out the bias of the penalty.
    """
    for penalty in names:
        if not done("covariance", "20 small effects", penalty):
            parts = []
            for seed in range(REPETITIONS["covariance"]):
                small = np.random.default_rng([seed, 6]).normal(size=20) * np.sqrt(PENALTIES[penalty])
                f, e = (0.0, 0.075, -0.05, *small.tolist()), (0.06, *[0.0] * 22)
                design = Design(f, e, 0.0, 0.0, tuple(range(1, 23)), (0,), units=(20.0, 20.0, 20.0, *[1.0] * 20))
                part = covered(design, PENALTIES[penalty], seed)
                parts.append({"coef": part["coef"][2:], "sampling": part["sampling"][2:22]})
            yield {"part": "covariance", "dataset": "20 small effects", "method": penalty, **joined(parts)}


def between(value: Any, ends: Any) -> Any:
    return (ends[0] < value) & (value < ends[1])


def truth(design: Design) -> Row:
    alpha, c = design.population()
    return {"true_class_prior": round(alpha, 3), "true_label_frequency": round(c, 3)}


def joined(parts: list[dict[str, np.ndarray]]) -> Row:
    """Return the coverage of each kind of estimate: the mean over its entries, and the lowest and highest entry.

    The coverage of one entry over 1,000 repetitions has a standard error of 0.007.
    """
    row: Row = {"repetitions": len(parts)}
    for key in parts[0]:
        shares = np.array([part[key] for part in parts], dtype=float).mean(axis=0)
        row[key] = round(float(shares.mean()), 4) if shares.size else None
        if shares.size > 1:
            row[f"{key}_range"] = [round(float(shares.min()), 4), round(float(shares.max()), 4)]
    return row


def done(part: str, name: str, penalty: str) -> bool:
    found = [
        row for row in read_rows("uncertainty") if (row["part"], row["dataset"], row["method"]) == (part, name, penalty)
    ]
    return bool(found)


PARTS = {"coverage": coverage, "covariance": covariance, "profile": profile, "bootstrap": bootstrap}


def main(arguments: list[str]) -> None:
    run_parts("uncertainty", __doc__, PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
