"""What the paper ran, what it is judged by, and its methods as the published code computes them.

In the published code copies of negative weight are dropped by the solver, TIcE returns the share of labelled rows,
and KM2's class prior is taken for the label frequency. Of these methods, `published-known-e` looks at the truth.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from scarless.experiments import Spec, read_spec
from scarless.experiments.methods import Bench, Fit, Method, fit_of, km2_of
from scarless.models import NaiveClassifier, PublishedEMClassifier
from scarless.numerics.arrays import Vector
from scarless.report.names import MethodName

PATH = Path(__file__).with_name("spec.toml")
FIGURES = ("mse_f", "auc_f", "mse_e")  # the scores that the paper draws
# Its four methods that see labels only, ranked as they should be and as they were published.
CONTESTS = {
    "corrected": ("naive", "scar-km2", "scar-tice", "sar-em"),
    "as published": ("naive", "published-scar-km2", "published-scar-tice", "published-sar-em"),
}
PUBLISHED = "as in the published code"  # their role
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
        "As published: KM2's class prior in the place of the label frequency, rows of negative weight dropped.",
        short="SCAR-KM2",
    ),
    "published-scar-tice": MethodName(
        "publ. SCAR-TIcE",
        PUBLISHED,
        "As published: the share of labelled rows in the place of TIcE's estimate, rows of negative weight dropped.",
        short="SCAR-TIcE",
    ),
    "published-sar-em": MethodName(
        "publ. SAR-EM",
        PUBLISHED,
        "As published: EM with its stopping rule, and a refit from which rows of negative weight are dropped.",
        short="SAR-EM",
    ),
}


@cache
def specification(*, quick: bool = False) -> Spec:
    """Return the experiment of the paper, or a quick one in its manner on data that need no download."""
    return read_spec(PATH, quick=quick)


def published_known_e(bench: Bench) -> Fit:
    """Known propensities as the published code uses them: rows of negative weight dropped."""
    return _dropping(bench, bench.task.e_train, bench.task.e_test)


def published_scar_km2(bench: Bench) -> Fit:
    """SCAR as published: KM2's class prior in the place of the label frequency, rows of negative weight dropped."""
    return _dropping(bench, *_everywhere(bench, km2_of(bench).class_prior_))


def published_scar_tice(bench: Bench) -> Fit:
    """SCAR as published: the share of labelled rows in the place of TIcE's estimate, negative weights dropped."""
    return _dropping(bench, *_everywhere(bench, float(bench.task.s_train.mean())))


def published_sar_em(bench: Bench) -> Fit:
    """SAR-EM as published: EM with its stopping rule, and a refit from which rows of negative weight are dropped."""
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
    """Fit labelled rows as positive with weight 1/e and unlabelled ones as negative: no weight is negative.

    The paper gives a labelled row 1/e as a positive and 1 - 1/e as a negative; the latter is what the solver drops.
    """
    task = bench.task
    s = task.s_train
    model = NaiveClassifier(C=bench.spec.C).fit(task.seen_train, s, sample_weight=s / e_train + (1.0 - s))
    fit = fit_of(bench, model, e_test, float(s.sum() / (s / e_train).sum()))
    # The model's own class prior counts rows by their weights; what is wanted is the mean over the rows as they are.
    return replace(fit, class_prior=float(model.predict_proba(task.seen_train)[:, 1].mean()))


def _everywhere(bench: Bench, c: float) -> tuple[Vector, Vector]:
    split = bench.task.split
    return np.full(split.X_train.shape[0], c), np.full(split.X_test.shape[0], c)
