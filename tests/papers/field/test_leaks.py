"""No method of the comparison sees a class, a prior, a name or a propensity that its column "knows" does not say.

Each method is fitted twice to the same rows and labels. The second time, everything that it does not know is replaced.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.special import expit

from scarless.experiments import Cell
from scarless.experiments.methods import Bench, KeptFits, estimator_methods, knows_of
from scarless.experiments.protocol import label, prepare, split_rows
from scarless.papers import METHODS
from scarless.papers.field import specification

QUICK = (
    "naive", "known-e", "known-c", "sar-em", "sarem-nameless", "ntc-tmi", "ntc-prior", "pglin", "lbe", "two-step",
    "upu", "upu-prior", "pue",
)  # fmt: skip
FOUND = {**METHODS, **estimator_methods(specification(), taken=METHODS)}


def made_task(setting):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    y = (rng.random(240) < expit(2.0 * X[:, 0] - X[:, 1])).astype(float)
    spec = specification()
    split = split_rows(spec, "blobs", 0, prepare(spec, "blobs", X, y))
    return label(spec, Cell("blobs", setting, 0, 0, 0), split)


TASKS = {setting: made_task(setting) for setting in ("strong-c0.3", "S4-c0.3", "added-2-c0.3")}


def without(task, knows):
    """Replace all that is not known, but not what follows from it: the labels, and the share of positives."""
    y = task.split.y_train.copy()
    unlabelled = np.flatnonzero(task.s_train == 0)
    if knows == "prior":
        y[unlabelled] = np.roll(y[unlabelled], 7)
    else:
        y[unlabelled] = 1.0 - y[unlabelled]
    assert (y != task.split.y_train).any()
    f = 1.0 - task.split.f_train
    split = replace(task.split, y_train=y, y_test=1.0 - task.split.y_test, f_train=f, f_test=1.0 - task.split.f_test)
    e = task.e_train if knows == "propensity" else np.full(y.size, 0.123)
    e_test = task.e_test if knows == "propensity" else np.full(task.e_test.size, 0.123)
    others = tuple(i for i in range(task.n_seen) if i not in task.named)[: len(task.named)]
    named = task.named if knows == "names" else others
    return replace(task, split=split, e_train=e, e_test=e_test, named=named)


def check(name, setting):
    task, method = TASKS[setting], FOUND[name]
    knows = knows_of(method, task)
    one, other = (method(Bench(specification(), each, KeptFits())) for each in (task, without(task, knows)))
    assert_array_equal(one.f, other.f)
    assert_array_equal(one.decision, other.decision)
    assert (one.e is None) == (other.e is None)
    if one.e is not None:
        assert_array_equal(one.e, other.e)
    assert_array_equal(one.class_prior, other.class_prior)


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.filterwarnings("ignore")
def test_quick_methods_see_only_what_they_say_that_they_know(name):
    check(name, "strong-c0.3")


@pytest.mark.parametrize("setting", TASKS)
@pytest.mark.parametrize("name", [name for name in specification().methods if knows_of(FOUND[name]) != "classes"])
@pytest.mark.filterwarnings("ignore")
def test_every_method_sees_only_what_it_says_that_it_knows(name, setting):
    check(name, setting)


@pytest.mark.parametrize("name", ["supervised", "known-e", "known-c", "ntc-prior", "sar-em"])
@pytest.mark.filterwarnings("ignore")
def test_what_a_method_knows_is_used(name):
    """The check would find a method that knows more than it says."""
    task, method = TASKS["strong-c0.3"], FOUND[name]
    one, other = (method(Bench(specification(), each, KeptFits())) for each in (task, without(task, "nothing")))
    assert (one.f != other.f).any()
