"""The scores without negatives: do their intervals cover, are their standard errors right, what do they cost?

``python -m benchmarks.scorers`` runs all parts (a few minutes on one core); ``python -m benchmarks.scorers
coverage:plain`` runs one variant of one, ``python -m benchmarks.scorers table`` prints the rows as Markdown. Rows go to
``benchmarks/results/scorers.jsonl`` as soon as they are there.
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

from benchmarks.runner import Row, best_of, newest, print_rows, run
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

DRAWS = 1000
POPULATION = 1_000_000
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
    """A population: how classes and labels depend on one attribute, and a classifier that is not quite right."""

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
    "moderate": Setting(2.0, -1.0, 0.2, 0.8),
    "few positives": Setting(4.0, -6.0, 0.2, 0.8),
    "small propensities": Setting(2.0, -1.0, 0.05, 0.5),
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
    if score == "recall":  # normalised as it stands
        options = {key: value for key, value in options.items() if key == "max_weight"}
    return options


@cache
def truth_of(setting: Setting) -> tuple[dict[str, float], float]:
    """Scores in the population, with class probabilities for classes, and the class prior."""
    data = setting.draw(POPULATION, np.random.default_rng(12345))
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
    """Share of 95% intervals that cover the population's score; bias and standard error in standard deviations."""
    for variant in variants:
        for name, setting in SETTINGS.items():
            truth, prior = truth_of(setting)
            options = {score: options_of(variant, score, prior) for score in SCORES}
            for n in (2000, 5000):
                found: dict[str, list[Score]] = {score: [] for score in SCORES}
                rng = np.random.default_rng(n)  # the same draws for every variant
                for _ in range(DRAWS):
                    data = setting.draw(n, rng)
                    for score, results in found.items():
                        results.append(SCORES[score](data["s"], data["p"], propensity=data["e"], **options[score]))
                summaries = {score: summary(found[score], truth[score]) for score in SCORES}
                yield {"part": "coverage", "dataset": name, "rows": n, "method": variant, "draws": DRAWS, **summaries}


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
    """Coverage of the observed log-likelihood's interval."""
    for name in names:
        setting = SETTINGS[name]
        data = setting.draw(POPULATION, np.random.default_rng(12345))
        chance, predicted = data["f"] * data["e"], data["p"] * data["e"]
        truth = float(np.mean(chance * np.log(predicted) + (1 - chance) * np.log1p(-predicted)))
        for n in (2000, 5000):
            rng = np.random.default_rng(n + 1)
            draws = (setting.draw(n, rng) for _ in range(DRAWS))
            found = summary([observed_log_likelihood(d["s"], d["p"], propensity=d["e"]) for d in draws], truth)
            yield {"part": "likelihood", "dataset": name, "rows": n, "draws": DRAWS, **found}


def calibration(names: tuple[str, ...] = tuple(SETTINGS)) -> Iterator[Row]:
    """How often the calibration test rejects the truth and the wrong classifier; how often a bin's interval covers."""
    for name in names:
        for n in (2000, 5000):
            rng = np.random.default_rng(n + 2)
            rejected: dict[str, list[bool]] = {}
            covered: dict[str, list[np.ndarray]] = {"label": [], "class": []}
            for _ in range(DRAWS):
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
                "draws": DRAWS,
                **{key: float(np.mean(values)) for key, values in rejected.items()},
                **{f"{kind} bins": float(np.mean(values)) for kind, values in covered.items()},
            }


def speed() -> Iterator[Row]:
    """A million rows, with the standard error, against scikit-learn's score without one."""
    data = SETTINGS["moderate"].draw(1_000_000, np.random.default_rng(0))
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


def print_coverage(rows: list[Row]) -> None:
    """Print coverage as a Markdown table: one line per setting, size and variant, one column per score."""
    print(f"| setting | rows | variant | {' | '.join(SCORES)} |")
    print("|---" * (3 + len(SCORES)) + "|")
    for row in rows:
        cells = [
            f"{100 * row[name]['coverage']:.1f} ({row[name]['bias']:+.2f}, {row[name]['error']:.2f})" for name in SCORES
        ]
        print(f"| {row['dataset']} | {row['rows']:,} | {row['method']} | {' | '.join(cells)} |")


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        rows = newest("scorers")
        print_coverage([row for row in rows if row["part"] == "coverage"])
        print_rows([row for row in rows if row["part"] != "coverage"])
        return
    run("scorers", PARTS, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
