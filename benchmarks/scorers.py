"""Coverage, bias and computing time of the scores that need no negatives.

Data: simulated tables of 2,000 and 5,000 rows.
Time: a few minutes on one core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score

from benchmarks import records
from benchmarks.runner import Row, best_of, newest, print_rows, print_table, run_parts
from scarless.diagnostics.calibration.curves import class_calibration, label_calibration
from scarless.metrics.score import Score
from scarless.metrics.scores import (
    observed_log_likelihood,
    propensity_weighted_accuracy,
    propensity_weighted_average_precision,
    propensity_weighted_brier_score,
    propensity_weighted_f1,
    propensity_weighted_log_loss,
    propensity_weighted_precision,
    propensity_weighted_recall,
    propensity_weighted_roc_auc,
)

N_DRAWS = 1000
N_POPULATION = 1_000_000
SCORES: dict[str, Callable[..., Score]] = {
    "log loss": propensity_weighted_log_loss,
    "Brier": propensity_weighted_brier_score,
    "accuracy": propensity_weighted_accuracy,
    "precision": propensity_weighted_precision,
    "recall": propensity_weighted_recall,
    "F1": propensity_weighted_f1,
    "ROC-AUC": propensity_weighted_roc_auc,
    "average precision": propensity_weighted_average_precision,
}


@dataclass(frozen=True)
class Setting:
    """A population in which classes and labels depend on one attribute, and a classifier with some error."""

    slope: float
    shift: float
    low: float
    high: float

    def draw(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return rows: predictions p, class probabilities f, classes y, propensities e and labels s."""
        x, v = rng.normal(size=(2, n))
        f = expit(self.slope * x + self.shift)
        e = self.low + (self.high - self.low) * expit(2.0 * v + 0.5 * x)
        y = rng.random(n) < f
        return {
            "p": expit(0.8 * self.slope * x + self.shift + 0.3),
            "f": f,
            "y": y.astype(float),
            "e": e,
            "s": (y & (rng.random(n) < e)).astype(float),
        }


SETTINGS = {
    "e from 0.2 to 0.8": Setting(2.0, -1.0, 0.2, 0.8),
    "8.5% positives": Setting(4.0, -6.0, 0.2, 0.8),
    "e from 0.05 to 0.5": Setting(2.0, -1.0, 0.05, 0.5),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalised, known prior": {"normalised": True},
    "clipped at 4": {"max_weight": 4.0},
    "clipped at 4, normalised": {"max_weight": 4.0, "normalised": True},
}


def options_of(variant: str, score: str, class_prior: float) -> dict[str, Any]:
    options = dict(VARIANTS[variant])
    if variant == "normalised, known prior":
        options["class_prior"] = class_prior
    if score == "recall":  # Recall is always normalised.
        options = {key: value for key, value in options.items() if key == "max_weight"}
    return options


@cache
def truth_of(setting: Setting) -> tuple[dict[str, float], float]:
    """Return the scores in the population, computed from class probabilities, and the class prior."""
    data = setting.draw(N_POPULATION, np.random.default_rng(12345))
    p, f = data["p"], data["f"]
    d = p > 0.5
    found, positives, decided = float((f * d).sum()), float(f.sum()), float(d.sum())
    both = np.concatenate([p, p])
    label, weight = np.repeat([1, 0], p.size), np.concatenate([f, 1.0 - f])
    truth = {
        "log loss": float(log_loss(label, both, sample_weight=weight)),
        "Brier": float(np.mean(f * (1 - p) ** 2 + (1 - f) * p**2)),
        "accuracy": float(np.mean(np.where(d, f, 1 - f))),
        "precision": found / decided,
        "recall": found / positives,
        "F1": 2 * found / (positives + decided),
        "ROC-AUC": float(roc_auc_score(label, both, sample_weight=weight)),
        "average precision": float(average_precision_score(label, both, sample_weight=weight)),
    }
    return truth, positives / p.size


def coverage(variants: tuple[str, ...] = tuple(VARIANTS)) -> Iterator[Row]:
    """Coverage of 95% intervals of all scores; bias and standard error in units of the standard deviation."""
    for variant in variants:
        for name, setting in SETTINGS.items():
            truth, prior = truth_of(setting)
            options = {score: options_of(variant, score, prior) for score in SCORES}
            for n in (2000, 5000):
                found: dict[str, list[Score]] = {score: [] for score in SCORES}
                rng = np.random.default_rng(n)  # All variants get the same draws.
                for _ in range(N_DRAWS):
                    data = setting.draw(n, rng)
                    for score, results in found.items():
                        results.append(SCORES[score](data["s"], data["p"], propensity=data["e"], **options[score]))
                summaries = {score: summary(found[score], truth[score]) for score in SCORES}
                yield {"part": "coverage", "dataset": name, "rows": n, "method": variant, "draws": N_DRAWS, **summaries}


def summary(scores: list[Score], truth: float) -> dict[str, float]:
    values = np.array([score.value for score in scores])
    inside = [score.interval[0] <= truth <= score.interval[1] for score in scores]
    spread = float(values.std(ddof=1))
    return {
        "coverage": float(np.mean(inside)),
        "bias": float(values.mean() - truth) / spread,
        "error": float(np.mean([score.standard_error for score in scores])) / spread,
        "sd": spread,
    }


def likelihood(names: tuple[str, ...] = tuple(SETTINGS)) -> Iterator[Row]:
    """Coverage of 95% intervals of the observed log-likelihood."""
    for name in names:
        setting = SETTINGS[name]
        data = setting.draw(N_POPULATION, np.random.default_rng(12345))
        true, predicted = data["f"] * data["e"], data["p"] * data["e"]
        truth = float(np.mean(true * np.log(predicted) + (1 - true) * np.log1p(-predicted)))
        for n in (2000, 5000):
            rng = np.random.default_rng(n + 1)
            draws = (setting.draw(n, rng) for _ in range(N_DRAWS))
            found = summary([observed_log_likelihood(d["s"], d["p"], propensity=d["e"]) for d in draws], truth)
            yield {"part": "likelihood", "dataset": name, "rows": n, "draws": N_DRAWS, **found}


def calibration(names: tuple[str, ...] = tuple(SETTINGS)) -> Iterator[Row]:
    """Rejections of the true and of a wrong classifier by the calibration test, and coverage of the bins."""
    for name in names:
        for n in (2000, 5000):
            rng = np.random.default_rng(n + 2)
            rejected: dict[str, list[bool]] = {}
            covered: dict[str, list[np.ndarray]] = {"label": [], "class": []}
            for _ in range(N_DRAWS):
                data = SETTINGS[name].draw(n, rng)
                for kind, calibrate in (("label", label_calibration), ("class", class_calibration)):
                    right = calibrate(data["s"], data["f"], propensity=data["e"])
                    wrong = calibrate(data["s"], data["p"], propensity=data["e"])
                    rejected.setdefault(f"{kind} size", []).append(right.p_value < 0.05)
                    rejected.setdefault(f"{kind} power", []).append(wrong.p_value < 0.05)
                    covered[kind].append((right.low <= right.predicted) & (right.predicted <= right.high))
            yield {
                "part": "calibration",
                "dataset": name,
                "rows": n,
                "draws": N_DRAWS,
                **{key: float(np.mean(values)) for key, values in rejected.items()},
                **{f"{kind} bins": float(np.mean(values)) for kind, values in covered.items()},
            }


def speed() -> Iterator[Row]:
    """Time of two scores with standard errors on a million rows, compared with scikit-learn's plain scores."""
    data = SETTINGS["e from 0.2 to 0.8"].draw(1_000_000, np.random.default_rng(0))
    for name, theirs in (("ROC-AUC", roc_auc_score), ("average precision", average_precision_score)):
        ours_seconds, _ = best_of(3, lambda name=name: SCORES[name](data["s"], data["p"], propensity=data["e"]))
        theirs_seconds, _ = best_of(3, lambda theirs=theirs: theirs(data["y"], data["p"]))
        yield {
            "part": "speed",
            "method": name,
            "rows": 1_000_000,
            "ours_seconds": ours_seconds,
            "scikit_learn_seconds": theirs_seconds,
            "ratio": ours_seconds / theirs_seconds,
        }


PARTS = {"coverage": coverage, "likelihood": likelihood, "calibration": calibration, "speed": speed}


def table(record: bool) -> None:
    """Print coverage, with bias and standard error in brackets, and the other rows; record all if asked to."""
    rows = newest("scorers")
    lines = []
    for row in (row for row in rows if row["part"] == "coverage"):
        cells = [
            f"{100 * row[name]['coverage']:.1f} ({row[name]['bias']:+.2f}, {row[name]['error']:.2f})" for name in SCORES
        ]
        lines.append([row["dataset"], f"{row['rows']:,}", row["method"], *cells])
    print_table(["setting", "rows", "variant", *SCORES], lines)
    print_rows([row for row in rows if row["part"] != "coverage"])
    for row in rows if record else ():
        records.append_row("scorers", row)


def main(arguments: list[str]) -> None:
    run_parts("scorers", __doc__, PARTS, arguments, table=table)


if __name__ == "__main__":
    main(sys.argv[1:])
