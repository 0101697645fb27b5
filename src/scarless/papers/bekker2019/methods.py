"""The specification of the paper's experiment, and its methods as the published code computes them.

In the published code, the solver drops rows of negative weight, TIcE returns the share of labelled rows, and KM2's
class prior is used as the label frequency. Only `published-known-e` uses the true propensities.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from scarless.experiments import Spec, read_spec
from scarless.experiments.methods import NAMES, PROPENSITY, Bench, Fit, Method, fit_of, km2_of, knowing
from scarless.models import NaiveClassifier, PublishedEMClassifier
from scarless.numerics.arrays import Vector
from scarless.report.names import MethodName

PATH = Path(__file__).with_name("spec.toml")
FIGURES = ("mse_f", "auc_f", "mse_e")  # scores of the paper's figures
# The paper's four methods that use labels only, as corrected and as published.
CONTESTS = {
    "corrected": ("naive", "scar-km2", "scar-tice", "sar-em"),
    "as published": ("naive", "published-scar-km2", "published-scar-tice", "published-sar-em"),
}
PUBLISHED = "as in the published code"  # role of these methods
METHOD_NAMES = {
    "published-known-e": MethodName(
        "publ. known propensity",
        PUBLISHED,
        "Known propensity as the published code computes it: rows of negative weight are dropped.",
        knows_truth=True,
        short="known propensity",
    ),
    "published-scar-km2": MethodName(
        "publ. SCAR-KM2",
        PUBLISHED,
        "As published: KM2's class prior used as the label frequency, rows of negative weight dropped.",
        short="SCAR-KM2",
    ),
    "published-scar-tice": MethodName(
        "publ. SCAR-TIcE",
        PUBLISHED,
        "As published: the share of labelled rows instead of TIcE's estimate, rows of negative weight dropped.",
        short="SCAR-TIcE",
    ),
    "published-sar-em": MethodName(
        "publ. SAR-EM",
        PUBLISHED,
        "As published: EM with its stopping rule, then a refit without rows of negative weight.",
        short="SAR-EM",
    ),
}


@cache
def specification(*, quick: bool = False) -> Spec:
    """Return the specification of the paper's experiment, or of a quick version on data that need no download."""
    return read_spec(PATH, quick=quick)


@knowing(PROPENSITY)
def published_known_e(bench: Bench) -> Fit:
    """Known propensities as in the published code: rows of negative weight are dropped."""
    return _dropping(bench, bench.task.e_train, bench.task.e_test)


def published_scar_km2(bench: Bench) -> Fit:
    """SCAR as published: KM2's class prior is used as the label frequency, rows of negative weight are dropped."""
    return _dropping(bench, *_everywhere(bench, km2_of(bench).class_prior_))


def published_scar_tice(bench: Bench) -> Fit:
    """SCAR as published: the share of labelled rows replaces TIcE's estimate, rows of negative weight are dropped."""
    return _dropping(bench, *_everywhere(bench, float(bench.task.s_train.mean())))


@knowing(NAMES)
def published_sar_em(bench: Bench) -> Fit:
    """SAR-EM as published: EM with its stopping rule, then a refit without rows of negative weight."""
    task, C, split = bench.task, bench.spec.C, bench.task.split
    pair = PublishedEMClassifier(
        propensity_attributes=task.propensity_columns,
        classification_attributes=task.class_columns,
        C=C,
        propensity_C=C,
    ).fit(split.X_train, task.s_train)
    return _dropping(bench, pair.predict_propensity(split.X_train), pair.predict_propensity(split.X_test))


METHODS: dict[str, Method] = {
    "published-known-e": published_known_e,
    "published-scar-km2": published_scar_km2,
    "published-scar-tice": published_scar_tice,
    "published-sar-em": published_sar_em,
}


def _dropping(bench: Bench, e_train: Vector, e_test: Vector) -> Fit:
    """Fit labelled rows as positives with weight 1/e and unlabelled rows as negatives.

    In the paper, a labelled row has weight 1/e as a positive and 1 - 1/e as a negative; the solver drops the latter.
    """
    task = bench.task
    s = task.s_train
    model = NaiveClassifier(C=bench.spec.C).fit(task.seen_train, s, sample_weight=s / e_train + (1.0 - s))
    fit = fit_of(bench, model, e_test, float(s.sum() / (s / e_train).sum()))
    # The class prior of the model is a weighted mean; the score needs the unweighted mean.
    return replace(fit, class_prior=float(model.predict_proba(task.seen_train)[:, 1].mean()))


def _everywhere(bench: Bench, c: float) -> tuple[Vector, Vector]:
    split = bench.task.split
    return np.full(split.X_train.shape[0], c), np.full(split.X_test.shape[0], c)
