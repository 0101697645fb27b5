"""Recalibration of networks: the rows it uses, the terms it adds, the optimum it chooses, and its warnings."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from tests.torch.nets import make_net
from tests.torch.test_net import QUICK, rows

import torch
from scarless.checks.options import check_random_stream
from scarless.numerics.linear import Design
from scarless.numerics.uncertainty import Interval
from scarless.pair.fit import FitOptions, fit_pair
from scarless.pair.logistic import engine_of
from scarless.pair.problem import PairProblem
from scarless.torch.fitting import plan_folds
from scarless.torch.inputs import held_out_rows
from scarless.torch.recalibrating import HeldOutLogits, not_recalibrated, recalibrate_networks

pytestmark = pytest.mark.filterwarnings("ignore:The fit of SARNetClassifier is uncertain:UserWarning")


def test_out_of_fold_every_row_is_held_out_once():
    s = rows(n=300)[1]
    folds, unseen = plan_folds(s.astype(float), share=0.2, recalibrate="out-of-fold", seed=0)
    assert unseen
    assert len(folds) == 5
    assert sorted(np.concatenate([fold.held_out for fold in folds])) == list(range(300))
    for fold in folds:
        assert sorted(np.concatenate([fold.train, fold.held_out])) == list(range(300))
        assert abs(s[fold.held_out].sum() - s.sum() / 5) < 1


@pytest.mark.parametrize(
    ("n_labels", "recalibrate", "n_folds"),
    [(2490, True, 5), (2510, True, 1), (2510, "out-of-fold", 5), (50, "held-out", 1), (50, False, 1), (4, True, 1)],
)
def test_with_few_labels_folds_are_out_of_fold(n_labels, recalibrate, n_folds):
    s = (np.arange(6000) < n_labels).astype(float)
    assert len(plan_folds(s, share=0.2, recalibrate=recalibrate, seed=0)[0]) == n_folds


def test_out_of_fold_networks_are_their_mean_and_shares_those_of_unseen_rows():
    X, s, *_ = rows(n=400)
    options = {**QUICK, "recalibrate": "out-of-fold"}
    net = make_net(propensity_attributes=[2], **options).fit(X, s)
    assert net.starts_.shape == (5, 1)
    assert set(net.history_["fold"]) == set(range(5))
    z = torch.tensor((X - X.mean(axis=0)) / X.std(axis=0), dtype=torch.float32)
    with torch.no_grad():
        each = torch.stack([member(z)[:, 0] for member in net.module_.members])
        np.testing.assert_allclose(net.module_(z), each.mean(dim=0), atol=1e-6)
    assert isinstance(net.propensity_module_, torch.nn.Linear)
    seed = int(check_random_stream(0).integers(2**31, size=2)[0])
    folds, _ = plan_folds(s.astype(float), share=0.2, recalibrate="out-of-fold", seed=seed)
    u = np.empty(s.size)
    for member, fold in zip(each, folds, strict=True):
        u[fold.held_out] = member[fold.held_out]
    seen = z[:, [2]].double().numpy()
    f = expit(net._pair.recalibrated.classify(u, seen))
    assert net.class_prior_ == pytest.approx(f.mean(), abs=1e-5)


def few_held_out(seed, n=250):
    """Return held-out rows whose network has missed the propensity attribute, and their classes."""
    rng = np.random.default_rng(seed)
    z, true = rng.normal(size=n), rng.normal(size=n) * 3
    y = rng.random(n) < expit(true)
    s = (y & (rng.random(n) < expit(2 * z - 0.5))).astype(float)
    return HeldOutLogits(0.7 * true + 1.2 * z - 1.5, 1.5 * z, z[:, None], s, np.ones(n)), y


@pytest.mark.parametrize("seed", [61, 264])
def test_the_higher_of_two_optima_is_chosen(seed):
    held, y = few_held_out(seed)
    columns = np.column_stack([held.u, held.seen])
    engine = engine_of(columns, s=held.s, w=held.w)
    problem = PairProblem.of(engine, Design.of(np.arange(2)), Design.of(np.arange(1, 2)), 10.0, 10.0)
    by_paper = fit_pair(problem, None, FitOptions(1e-9))
    assert abs(expit(columns @ by_paper.f[:-1] + by_paper.f[-1]).mean() - y.mean()) > 0.2
    found = recalibrate_networks(held, pseudo_weight=4.0, linear=True, swappable=False, of_x=True)
    assert abs(found.recalibration.class_prior - y.mean()) < 0.03
    assert by_paper.f[1] / by_paper.f[0] > 1 > -1 > found.tilt[0]  # the truth is -1.2 / 0.7


@pytest.mark.parametrize(
    ("seed", "doubt"),
    [
        (33, "The labels allow class priors between 0.41 and 0.74; the estimate is 0.62"),
        (226, "16% of the estimated positives have a propensity below 1%"),
    ],
)
def test_doubts_name_what_labels_do_not_determine(seed, doubt):
    held, _ = few_held_out(seed)
    found = recalibrate_networks(held, pseudo_weight=4.0, linear=True, swappable=False, of_x=True)
    assert any(each.startswith(doubt) for each in found.doubts(held))


def test_a_recalibration_that_did_not_converge_is_in_doubt():
    held, _ = few_held_out(0, n=3000)
    found = recalibrate_networks(held, pseudo_weight=4.0, linear=True, swappable=False, of_x=True)
    assert found.doubts(held) == []
    off = found._replace(recalibration=replace(found.recalibration, class_prior=0.9))
    assert off.doubts(held) == [
        "The recalibration did not converge: its target was a class prior of "
        f"{found.recalibration.grid.mean:.2f}, and it ended at 0.90. Use fewer propensity attributes, or compare with "
        "recalibrate=False."
    ]
    apart = found._replace(tied=Interval(0.26, 0.4))
    assert apart.doubts(held) == [
        "The labels cannot distinguish between optima with class priors from 0.26 to 0.40. The optimum with the lowest "
        "label frequency was chosen. Audit a few rows to decide between the optima."
    ]
    assert not_recalibrated().doubts(held) == []


@pytest.mark.filterwarnings("default:The fit of SARNetClassifier is uncertain:UserWarning")
def test_too_few_labels_for_the_coefficients_are_in_doubt():
    X, s, *_ = rows(n=200)
    with pytest.warns(UserWarning, match=r"is uncertain\. The propensity has 5 coefficients, .* but only \d+ held-out"):
        make_net(propensity_attributes="all", **QUICK).fit(X, s)


def test_without_recalibration_probabilities_are_those_of_the_networks():
    X, s, *_ = rows(n=300)
    net = make_net(propensity_attributes=[2], standardise=False, **{**QUICK, "recalibrate": False}).fit(X, s)
    with torch.no_grad():
        u = net.module_(torch.tensor(X, dtype=torch.float32))[:, 0].numpy()
        v = net.propensity_module_(torch.tensor(X[:, [2]], dtype=torch.float32))[:, 0].numpy()
    np.testing.assert_allclose(net.predict_proba(X)[:, 1], expit(u), atol=1e-6)
    np.testing.assert_allclose(net.predict_propensity(X), expit(v), atol=1e-6)
    assert not hasattr(net, "recalibration_")


@pytest.mark.parametrize("options", [{"propensity_attributes": [2]}, {"propensity_attributes": "all"}, {}])
def test_recalibrated_shares_and_likelihood_are_those_of_held_out_predictions(options):
    X, s, *_ = rows(n=400)
    net = make_net(**options, **QUICK).fit(X, s)
    plain = make_net(**options, **{**QUICK, "recalibrate": False}).fit(X, s)
    u = expit_inverse(plain.predict_proba(X)[:, 1])
    assert net._pair.recalibrated.tilt is None
    np.testing.assert_allclose(expit_inverse(net.predict_proba(X)[:, 1]), net.recalibration_(u), atol=1e-5)
    f, e = net.predict_proba(X)[:, 1], net.predict_propensity(X)
    value = np.where(s == 1, np.log(f * e), np.log1p(-f * e))
    held = held_out(net, s)
    assert net.log_likelihood_ == pytest.approx(value[held].sum(), rel=1e-5)
    assert net.class_prior_ == pytest.approx(f[held].mean(), abs=1e-3)
    assert net.label_frequency_ == pytest.approx((f * e)[held].sum() / f[held].sum(), abs=1e-3)


class WithoutOne(torch.nn.Module):
    """A linear network without the column that the labelling depends on."""

    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.out(x[:, [0, 1, 3]])


def test_predictions_include_the_tilt_of_the_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = rng.random(2000) < expit(3 * X[:, 0] - 1.5 * X[:, 2])
    s = (y & (rng.random(2000) < expit(2 * X[:, 2]))).astype(int)
    options = {"propensity_attributes": [2], "lr": 0.05, **QUICK, "max_epochs": 20}
    net = make_net(WithoutOne, **{**options, "recalibrate": "out-of-fold"}).fit(X, s)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    u = net.net_.class_logits(torch.tensor(z, dtype=torch.float32))
    assert net._pair.recalibrated.tilt[0] < -0.2
    expected = net.recalibration_(u + z[:, [2]] @ net._pair.recalibrated.tilt)
    np.testing.assert_allclose(expit_inverse(net.predict_proba(X)[:, 1]), expected, atol=1e-5)
    assert net.class_prior_ == pytest.approx(y.mean(), abs=0.06)


def held_out(net, s):
    seed = int(check_random_stream(net.random_state).integers(2**31, size=2)[0])
    return held_out_rows(s.astype(float), net.training.validation_share, np.random.default_rng(seed))


def expit_inverse(p):
    return np.log(p) - np.log1p(-p)


def test_the_tilt_adds_propensity_attributes_that_a_network_missed():
    """The logits lack a propensity attribute. Both models together estimate its effect, and the class prior."""
    rng = np.random.default_rng(0)
    u, z = rng.normal(size=4000) * 2, rng.normal(size=4000)
    y, e = rng.random(4000) < expit(u - 1.5 * z), expit(2 * z)
    s = (y & (rng.random(4000) < e)).astype(float)
    held = HeldOutLogits(u, 2 * z, z[:, None], s, np.ones(4000))
    found = recalibrate_networks(held, pseudo_weight=4.0, linear=True, swappable=False, of_x=True)
    without = recalibrate_networks(held, pseudo_weight=4.0, linear=True, swappable=False, of_x=False)
    assert found.tilt == pytest.approx([-1.5], abs=0.25)
    assert abs(found.recalibration.class_prior - y.mean()) < 0.02
    assert abs(without.recalibration.class_prior - y.mean()) > 0.03
    few = HeldOutLogits(*(part[:30] for part in held))
    assert recalibrate_networks(few, pseudo_weight=4.0, linear=True, swappable=False, of_x=True).tilt is None


def test_only_the_intercept_of_a_users_propensity_network_is_recalibrated():
    X, s, *_ = rows(n=300)
    own = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    options = {"propensity_module": own, "propensity_attributes": [2], **QUICK}
    net, plain = make_net(**options).fit(X, s), make_net(**{**options, "recalibrate": False}).fit(X, s)
    moved = expit_inverse(net.predict_propensity(X)) - expit_inverse(plain.predict_propensity(X))
    np.testing.assert_allclose(moved, moved[0], atol=1e-5)
    assert all((a == b).all() for a, b in zip(own.parameters(), own.parameters(), strict=True))


def test_there_is_no_tilt_if_attributes_alone_determine_the_class():
    """The class and the labelling both depend on a noisy sum of attributes, so a tilt has nothing to add."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 8))
    true = z[:, :5].sum(axis=1) * 1.5 + rng.normal(size=600) * 2
    y = rng.random(600) < expit(true)
    s = (y & (rng.random(600) < expit(0.8 * z[:, 0] + 0.8 * z[:, 6] - 0.5))).astype(float)
    held = HeldOutLogits(0.8 * true - 1, 0.5 * z[:, 0] + 0.5 * z[:, 6], z, s, np.ones(600))
    assert s.sum() > 90  # enough labels to try a tilt
    assert recalibrate_networks(held, pseudo_weight=4.0, linear=True, swappable=False, of_x=True).tilt is None
