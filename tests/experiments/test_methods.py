"""Each method agrees with a direct computation, and does not use the truth."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from tests.helpers import simulated_split

from scarless import PropensityWeightedClassifier, SAREMClassifier, SCARClassifier
from scarless.experiments import Cell, methods
from scarless.experiments.methods import METHODS, Bench, KeptFits
from scarless.experiments.protocol import label
from scarless.label_frequency import KernelMean, TIcE
from scarless.papers.bekker2019 import specification

SPEC = replace(
    specification(),
    methods=tuple(METHODS),
    datasets=("simulated",),
    km_max_rows=100,
    C=0.7,
)
SEE_THE_TRUTH = {"supervised", "known-e", "known-c"}
SETTINGS = pytest.mark.parametrize("setting", ["all", "original"])


def task_of(setting="all", k=2):
    return label(SPEC, Cell("simulated", setting, k, 0, 0), simulated_split(SPEC))


def run(method, task):
    return METHODS[method](Bench(SPEC, task, KeptFits()))


def minimiser(task, t, weight=1.0):
    r"""The logistic model on targets `t`, by a general-purpose optimiser:
    :math:`\sum w (softplus(z) - t z) + |b|^2 / 2C`, the intercept free. Returns f of test and of training rows.
    """
    X = np.column_stack([task.seen_train, np.ones(len(task.seen_train))])
    ridge = np.append(np.full(X.shape[1] - 1, 1 / SPEC.C), 0.0)

    def objective(b):
        z = X @ b
        value = np.sum(weight * (np.logaddexp(0, z) - t * z)) + 0.5 * ridge @ b**2
        return value, X.T @ (weight * (expit(z) - t)) + ridge * b

    found = minimize(objective, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    b = found.x
    return expit(task.seen_test @ b[:-1] + b[-1]), expit(X @ b)


def assert_fit(fit, task, expected, *, e, c):
    """Compare a fit with (test, training) probabilities, a propensity for the test rows and a label frequency."""
    on_test, on_train = expected
    assert_allclose(fit.f, on_test, atol=2e-4)
    assert fit.class_prior == pytest.approx(on_train.mean(), abs=1e-4)
    assert fit.label_frequency == pytest.approx(c, abs=1e-4, nan_ok=True)
    assert fit.n_iter >= 1
    if e is None:
        assert fit.e is None
    else:
        assert_allclose(fit.e, np.broadcast_to(e, on_test.shape), atol=1e-9)


@SETTINGS
def test_supervised_is_logistic_regression_on_the_classes(setting):
    task = task_of(setting)
    assert_fit(run("supervised", task), task, minimiser(task, task.split.y_train), e=None, c=np.nan)
    model = LogisticRegression(C=SPEC.C, tol=1e-10, max_iter=10_000).fit(task.seen_train, task.split.y_train)
    assert_allclose(run("supervised", task).f, model.predict_proba(task.seen_test)[:, 1], atol=2e-4)


@SETTINGS
def test_naive_is_logistic_regression_on_the_labels(setting):
    task = task_of(setting)
    assert_fit(run("naive", task), task, minimiser(task, task.s_train), e=1.0, c=1.0)


@SETTINGS
def test_known_e_minimises_the_propensity_weighted_risk(setting):
    task = task_of(setting)
    expected = minimiser(task, task.s_train / task.e_train)
    c = expected[1] @ task.e_train / expected[1].sum()
    assert_fit(run("known-e", task), task, expected, e=task.e_test, c=c)
    model = PropensityWeightedClassifier(C=SPEC.C).fit(task.seen_train, task.s_train, propensity=task.e_train)
    assert_array_equal(run("known-e", task).f, model.predict_proba(task.seen_test)[:, 1])


@SETTINGS
def test_known_c_has_the_share_of_positives_that_are_labelled(setting):
    task = task_of(setting)
    c = task.s_train[task.split.y_train == 1].mean()
    assert_fit(run("known-c", task), task, minimiser(task, task.s_train / c), e=c, c=c)


@SETTINGS
@pytest.mark.parametrize(
    ("method", "estimator"),
    [
        ("scar-km2", lambda seed: KernelMean("km2", max_rows=SPEC.km_max_rows, random_state=seed)),
        ("scar-tice", lambda seed: TIcE(random_state=seed)),
    ],
)
def test_scar_methods_use_their_estimate_as_the_propensity(setting, method, estimator):
    task = task_of(setting)
    c = estimator(task.seed).fit(task.seen_train, task.s_train).label_frequency_
    assert 0 < c < 1
    assert_fit(run(method, task), task, minimiser(task, task.s_train / c), e=c, c=c)
    whole = SCARClassifier(estimator(task.seed), C=SPEC.C).fit(task.seen_train, task.s_train)
    assert_array_equal(run(method, task).f, whole.predict_proba(task.seen_test)[:, 1])


@SETTINGS
@pytest.mark.parametrize("k", [2, 4])
def test_sar_em_is_the_librarys_classifier(setting, k):
    task = task_of(setting, k)
    n = task.split.n_original
    model = SAREMClassifier(
        propensity_attributes=list(range(n, n + k)),
        classification_attributes=slice(None) if setting == "all" else list(range(n)),
        C=SPEC.C,
        propensity_C=SPEC.C,
    ).fit(task.split.X_train, task.s_train)
    fit = run("sar-em", task)
    assert_allclose(fit.f, model.predict_proba(task.split.X_test)[:, 1], atol=1e-4)
    assert_allclose(fit.e, model.predict_propensity(task.split.X_test), atol=1e-9)
    assert fit.class_prior == pytest.approx(model.class_prior_, abs=1e-4)
    assert fit.label_frequency == pytest.approx(model.label_frequency_, abs=1e-4)


@SETTINGS
def test_the_refit_minimises_the_risk_with_the_propensities_that_were_found(setting):
    task = task_of(setting)
    bench = Bench(SPEC, task, KeptFits())
    fit = METHODS["sar-em-refit"](bench)
    pair = bench.of_cell.made["pair"].result
    e = pair.predict_propensity(task.split.X_train)
    expected = minimiser(task, task.s_train / e)
    c = expected[1] @ e / expected[1].sum()
    assert_fit(fit, task, expected, e=pair.predict_propensity(task.split.X_test), c=c)


class Poison:
    """An object that raises on every use."""

    def _looked(self, *_args, **_options):
        raise AssertionError("a method looked at the truth")

    __getattr__ = __array__ = __len__ = __iter__ = __getitem__ = __eq__ = __bool__ = __float__ = _looked
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _looked
    __hash__ = None


def poisoned(task, poison):
    split = replace(task.split, y_train=poison, y_test=poison)
    return replace(task, split=split, e_train=poison, e_test=poison)


@SETTINGS
@pytest.mark.parametrize("method", sorted(set(METHODS) - SEE_THE_TRUTH))
def test_methods_without_the_truth_never_use_it(setting, method):
    task = task_of(setting)
    fit = run(method, task)
    n = task.s_train.size
    for poison in (Poison(), np.full(n, np.nan)):
        found = run(method, poisoned(task, poison))
        assert_array_equal(found.f, fit.f)
        assert_array_equal(found.e, fit.e)
        same = ("class_prior", "label_frequency", "n_iter")
        assert [getattr(found, name) for name in same] == [getattr(fit, name) for name in same]


@pytest.mark.parametrize("method", sorted(SEE_THE_TRUTH))
def test_methods_with_the_truth_use_it(method):
    with pytest.raises(AssertionError, match="looked at the truth"):
        run(method, poisoned(task_of(), Poison()))


@pytest.mark.parametrize("method", METHODS)
def test_no_method_uses_the_class_of_test_rows(method):
    task = task_of()
    blind = replace(task, split=replace(task.split, y_test=Poison()))
    assert_array_equal(run(method, blind).f, run(method, task).f)


@pytest.mark.parametrize("order", [1, -1])
def test_what_methods_share_is_made_once_and_in_any_order_the_same(monkeypatch, order):
    alone = {method: run(method, task_of()) for method in METHODS}
    fits = []

    def counting(maker):
        def made(*args, **options):
            model = maker(*args, **options)
            fits.append(type(model).__name__)
            return model

        return made

    for name in ("SAREMClassifier", "KernelMean"):
        monkeypatch.setattr(methods, name, counting(getattr(methods, name)))
    bench = Bench(SPEC, task_of(), KeptFits())
    together = {method: METHODS[method](bench) for method in list(METHODS)[::order]}
    assert fits.count("SAREMClassifier") == 1
    assert set(bench.of_cell.made) == {"pair", "km2"}
    for method, fit in alone.items():
        assert_array_equal(together[method].f, fit.f)
        assert fit.n_iter == together[method].n_iter
        assert fit.class_prior == together[method].class_prior


def test_the_supervised_fit_is_shared_within_a_setting_only():
    kept = KeptFits()
    fits = [
        METHODS["supervised"](Bench(SPEC, task_of(setting, k), kept)) for setting in ("all", "original") for k in (2, 4)
    ]
    assert fits[0] is fits[1]
    assert fits[2] is fits[3]
    assert (fits[0].f != fits[2].f).any()


def collected(action):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        action()
    return [(warning.category, str(warning.message)) for warning in told]


def test_warnings_are_repeated_for_every_method_that_shares_a_result():
    kept, calls = KeptFits(), []

    def make():
        calls.append(1)
        warnings.warn("no end in sight", ConvergenceWarning, stacklevel=2)
        return 3

    def ask():
        assert kept.get("answer", make) == 3

    assert collected(ask) == collected(ask) == collected(ask) == [(ConvergenceWarning, "no end in sight")]
    assert len(calls) == 1


def test_the_time_of_a_shared_result_counts_for_later_methods():
    kept = KeptFits()
    kept.get("answer", lambda: sum(range(10_000)))
    assert kept.borrowed_seconds == 0.0
    kept.get("answer", lambda: 0)
    kept.get("answer", lambda: 0)
    assert kept.borrowed_seconds == 2 * kept.made["answer"].seconds > 0


def test_a_failure_is_not_kept():
    kept = KeptFits()
    with pytest.raises(ZeroDivisionError):
        kept.get("answer", lambda: 1 / 0)
    assert kept.get("answer", lambda: 4) == 4
