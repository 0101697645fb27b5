"""Emulations of the published code, compared with fits of scikit-learn that minimise the same risk."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from tests.helpers import simulated_split

from scarless.experiments import Cell
from scarless.experiments.methods import Bench, KeptFits
from scarless.experiments.protocol import label
from scarless.label_frequency import KernelMean
from scarless.models import PublishedEMClassifier
from scarless.papers.bekker2019 import METHOD_NAMES, METHODS, specification

SPEC = replace(specification(), datasets=("simulated",), km_max_rows=100, C=0.7)
SETTINGS = pytest.mark.parametrize("setting", ["all", "original"])
OPTIONS = {"C": SPEC.C, "tol": 1e-10, "max_iter": 10_000}


def task_of(setting="all"):
    return label(SPEC, Cell("simulated", setting, 2, 0, 0), simulated_split(SPEC))


def bench_of(task):
    return Bench(SPEC, task, KeptFits())


def known_e(task):
    return task.e_train, task.e_test


def scar_km2(task):
    km2 = KernelMean("km2", max_rows=SPEC.km_max_rows, random_state=task.seed).fit(task.seen_train, task.s_train)
    return (km2.class_prior_,) * 2


def scar_tice(task):
    return (task.s_train.mean(),) * 2


def sar_em(task):
    pair = PublishedEMClassifier(
        propensity_attributes=task.propensity_columns,
        classification_attributes=task.class_columns,
        C=SPEC.C,
        propensity_C=SPEC.C,
    ).fit(task.split.X_train, task.s_train)
    return [pair.predict_propensity(X) for X in (task.split.X_train, task.split.X_test)]


@SETTINGS
@pytest.mark.parametrize("propensity", [known_e, scar_km2, scar_tice, sar_em], ids=lambda method: method.__name__)
def test_published_methods_drop_negative_weights(setting, propensity):
    """Labelled rows are positives of weight 1/e, and unlabelled rows are negatives of weight 1."""
    task = task_of(setting)
    e_train, e_test = propensity(task)
    s = task.s_train
    model = LogisticRegression(**OPTIONS).fit(task.seen_train, s, np.where(s == 1, 1 / e_train, 1.0))
    fit = METHODS[f"published-{propensity.__name__.replace('_', '-')}"](bench_of(task))
    assert_allclose(fit.f, model.predict_proba(task.seen_test)[:, 1], atol=2e-4)
    assert_allclose(fit.e, np.broadcast_to(e_test, fit.f.shape), atol=1e-9)
    assert fit.class_prior == pytest.approx(model.predict_proba(task.seen_train)[:, 1].mean(), abs=1e-4)
    assert fit.label_frequency == pytest.approx(s.sum() / (s / e_train).sum(), abs=1e-4)
    assert fit.n_iter >= 1


@SETTINGS
def test_published_known_e_equals_scikit_learn_on_doubled_rows_without_negative_weights(setting):
    task = task_of(setting)
    copies, classes, weights = doubled(task)
    kept = weights > 0
    assert not kept.all()
    model = LogisticRegression(**OPTIONS).fit(copies[kept], classes[kept], weights[kept])
    fit = METHODS["published-known-e"](bench_of(task))
    assert_allclose(fit.f, model.predict_proba(task.seen_test)[:, 1], atol=2e-4)


def doubled(task):
    """Return each row twice, as in the paper: as a positive of weight s/e and as a negative of weight 1 - s/e."""
    share = task.s_train / task.e_train
    copies, classes = np.vstack([task.seen_train] * 2), np.repeat([1.0, 0.0], share.size)
    return copies, classes, np.concatenate([share, 1 - share])


def test_the_published_solver_drops_rows_of_negative_weight():
    copies, classes, weights = doubled(task_of())
    fits = [
        LogisticRegression(solver="liblinear", random_state=0).fit(copies[rows], classes[rows], weights[rows])
        for rows in (slice(None), weights > 0)
    ]
    assert_allclose(fits[0].coef_, fits[1].coef_, atol=1e-3)


@SETTINGS
@pytest.mark.parametrize("method", METHODS)
def test_only_published_known_e_uses_the_truth(setting, method):
    task = task_of(setting)
    unknown = np.full(task.s_train.size, np.nan)
    blind = replace(task, e_train=unknown, e_test=unknown, split=replace(task.split, y_train=unknown, y_test=unknown))
    if METHOD_NAMES[method].knows_truth:
        with pytest.raises(ValueError, match="sample_weight"):
            METHODS[method](bench_of(blind))
    else:
        there, here = (METHODS[method](bench_of(which)) for which in (task, blind))
        assert_array_equal(there.f, here.f)
        assert_array_equal(there.e, here.e)
    assert METHOD_NAMES[method].knows_truth == (method == "published-known-e")


def test_every_method_has_a_name():
    assert set(METHOD_NAMES) == set(METHODS)
