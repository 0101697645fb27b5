"""Losses compared with `scarless.numerics`: values, derivatives, extreme logits, half precision."""

import numpy as np
import pytest

import torch
from scarless.numerics import likelihood, looks
from scarless.numerics.risk import LOG, weighted_cost
from scarless.torch import LooksLikelihoodLoss, NNPULoss, PropensityWeightedLoss, SARLikelihoodLoss, UPULoss
from scarless.torch.losses import loss_and_slopes, sar_log_likelihood
from scarless.torch.networks import PairModule, PairNet

FAR = [-80.0, -30.0, -5.0, -1e-3, 0.0, 2.0, 17.0, 80.0]


def grid(dtype=torch.float64):
    """Return all pairs of logits, with and without a label, as leaves."""
    u, v, s = (each.ravel() for each in np.meshgrid(FAR, FAR, [0.0, 1.0], indexing="ij"))
    leaf = [torch.tensor(each, dtype=dtype, requires_grad=True) for each in (u, v)]
    return *leaf, torch.tensor(s, dtype=dtype)


def exact(u, v, s):
    """Return the negative log-likelihood and its derivatives, computed by `scarless.numerics`."""
    u, v, s = (each.detach().double().numpy() for each in (u, v, s))
    terms = likelihood.pair_terms(u, v)
    du, dv = likelihood.score(s, terms)
    return -likelihood.log_likelihood(u, v, s, terms), -du, -dv


# --- two logits


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_likelihood_is_precise_for_any_logit(dtype):
    digits = 200 * torch.finfo(dtype).eps  # rounding of logits up to 160
    u, v, s = grid(dtype)
    loss = SARLikelihoodLoss(reduction="none")(u, v, s)
    loss.sum().backward()
    for found, expected in zip((loss.detach(), u.grad, v.grad), exact(u, v, s), strict=True):
        # Only below the smallest number of the type are all digits lost.
        np.testing.assert_allclose(found.numpy(), expected, rtol=digits, atol=2 * torch.finfo(dtype).tiny)


def test_derivatives_pass_gradcheck_to_second_order():
    rng = np.random.default_rng(0)
    u, v = (torch.tensor(3 * rng.normal(size=20), requires_grad=True) for _ in range(2))
    s = torch.tensor((rng.random(20) < 0.4).astype(float))
    assert torch.autograd.gradcheck(lambda u, v: SARLikelihoodLoss()(u, v, s), (u, v))
    assert torch.autograd.gradgradcheck(lambda u, v: SARLikelihoodLoss()(u, v, s), (u, v))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_loss_of_training_is_the_weighted_mean_with_its_derivatives(dtype):
    digits = 200 * torch.finfo(dtype).eps
    u, v, s = grid(dtype)
    w = 0.5 + torch.arange(s.numel(), dtype=dtype) % 3
    loss, slopes = loss_and_slopes(u, v, s, w)
    value, *expected = exact(u, v, s)
    share = (w.double() / w.double().sum()).numpy()
    assert loss.item() == pytest.approx(share @ value, rel=digits)
    for found, slope in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(found.numpy(), share * slope, rtol=digits, atol=2 * torch.finfo(dtype).tiny)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("frozen", ["nothing", "f", "e"])
def test_a_training_step_has_the_gradients_of_the_loss(half, frozen):
    torch.manual_seed(0)
    pair = PairModule(torch.nn.Linear(3, 1), torch.nn.Linear(2, 1))
    if frozen != "nothing":
        getattr(pair, frozen).requires_grad_(False)
    net = PairNet(pair, torch.nn.Identity, optimizer=torch.optim.SGD, train_split=None, verbose=0).initialize()
    net.half = half
    x, s = {"x": torch.randn(50, 3), "z": torch.randn(50, 2), "w": torch.rand(50)}, (torch.rand(50) < 0.4).float()
    found = net.train_step_single((x, s))
    slopes = [None if p.grad is None else p.grad.clone() for p in net.module_.parameters()]
    net.module_.zero_grad()
    expected = SARLikelihoodLoss()(*net.infer(x), s, x["w"])
    expected.backward()
    assert found["loss"].item() == pytest.approx(expected.item(), rel=1e-5)
    for slope, p in zip(slopes, net.module_.parameters(), strict=True):
        assert (slope is None) == (p.grad is None)
        if slope is not None:
            torch.testing.assert_close(slope, p.grad, rtol=1e-2 if half else 1e-5, atol=1e-3 if half else 1e-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    u, v, s = grid(dtype)
    loss = SARLikelihoodLoss(reduction="none")(u, v, s)
    assert loss.dtype == torch.float32
    loss.sum().backward()
    value, du, _ = exact(u, v, s)
    np.testing.assert_allclose(loss.detach().numpy(), value, rtol=3e-5, atol=1e-37)
    assert u.grad.dtype == dtype
    np.testing.assert_allclose(u.grad.double().numpy(), du, rtol=1e-2, atol=1e-7)


def test_a_network_under_autocast_gets_finite_gradients():
    net = torch.nn.Linear(4, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = 40 * net(torch.randn(64, 4, generator=torch.Generator().manual_seed(0)))
        loss = SARLikelihoodLoss()(logits[:, 0], logits[:, 1], torch.arange(64) % 2)
    assert logits.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters())


def test_weights_are_repeated_rows_in_every_reduction():
    u, v, s = grid()
    often = torch.arange(s.numel()) % 3
    again = [torch.repeat_interleave(each, often) for each in (u, v, s)]
    for reduction in ("mean", "sum"):
        loss = SARLikelihoodLoss(reduction=reduction)
        assert loss(u, v, s, often).item() == pytest.approx(loss(*again).item(), rel=1e-12)
    each = SARLikelihoodLoss(reduction="none")(u, v, s, often)
    assert each.sum().item() == pytest.approx(SARLikelihoodLoss(reduction="sum")(u, v, s, often).item(), rel=1e-12)


def test_columns_of_one_logit_are_vectors():
    u, v, s = grid()
    assert SARLikelihoodLoss()(u[:, None], v[:, None], s).item() == SARLikelihoodLoss()(u, v, s).item()


def test_with_propensity_one_the_loss_is_the_log_loss():
    u, _, s = grid()
    certain = torch.full_like(u, torch.inf)
    z = u.detach().numpy()
    plain = np.where(s == 1, LOG.logit.positive(z), LOG.logit.negative(z))
    np.testing.assert_allclose(-sar_log_likelihood(u, certain, s).detach(), plain, rtol=1e-12)


# --- several looks


def looked(seed=0, n=60, kinds=3):
    rng = np.random.default_rng(seed)
    m = rng.integers(0, 3, size=(n, kinds)).astype(float)
    t = rng.binomial(m.astype(int), 0.3).astype(float)
    audit = rng.choice([-1.0, 0.0, 1.0], size=n, p=[0.6, 0.2, 0.2])
    return 2 * rng.normal(size=n), 2 * rng.normal(size=(n, kinds)), rng.normal(size=(n, kinds)) - 2, t, m, audit


@pytest.mark.parametrize("false_positives", [False, True])
@pytest.mark.parametrize("bounds", [None, (0.1, 0.8)])
def test_looks_and_audits_agree_with_the_numerics(false_positives, bounds):
    u, v, g, t, m, audit = looked()
    if not false_positives:
        audit = np.where((t.sum(axis=1) > 0) & (audit == 0), -1.0, audit)  # no labelled row is found negative
    leaves = [torch.tensor(each, requires_grad=True) for each in (u, v, g)]
    given = leaves[2] if false_positives else None
    loss = LooksLikelihoodLoss(bounds=bounds, reduction="none")(*leaves[:2], t, m, audit, g=given)
    loss.sum().backward()
    terms = looks.look_terms(u, v, g if false_positives else None, t, m, audit, bounds)
    scores = looks.look_scores(terms)
    np.testing.assert_allclose(loss.detach(), -terms.value, rtol=1e-9, atol=1e-15)
    found = [leaves[0].grad[:, None], leaves[1].grad, *([leaves[2].grad] if false_positives else [])]
    np.testing.assert_allclose(torch.cat(found, dim=1), -scores, rtol=1e-6, atol=1e-9)


def test_one_look_of_every_row_is_the_observed_likelihood():
    u, v, s = grid()
    once = LooksLikelihoodLoss(reduction="none")(u, v, s)
    np.testing.assert_allclose(
        once.detach(), SARLikelihoodLoss(reduction="none")(u, v, s).detach(), rtol=1e-9, atol=1e-15
    )


def test_looks_stay_finite_in_half_precision():
    u, v, s = grid(torch.bfloat16)
    loss = LooksLikelihoodLoss(bounds=(0.0, 1.0))(u, v, s)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(u.grad).all()
    assert torch.isfinite(v.grad).all()


def test_looks_pass_gradcheck():
    u, v, g, t, m, audit = looked(n=8)
    leaves = tuple(torch.tensor(each, requires_grad=True) for each in (u, v, g))
    assert torch.autograd.gradcheck(lambda u, v, g: LooksLikelihoodLoss()(u, v, t, m, audit, g=g), leaves)


# --- risks


def risk_rows(seed=0, n=50):
    rng = np.random.default_rng(seed)
    s = (rng.random(n) < 0.4).astype(float)
    return (
        torch.tensor(2 * rng.normal(size=n), requires_grad=True),
        torch.tensor(s),
        torch.tensor(rng.uniform(0.2, 0.9, n)),
    )


def test_unbiased_risk_is_the_mean_of_weighted_costs():
    u, s, e = risk_rows()
    z = u.detach().numpy()
    costs = weighted_cost(LOG.logit.positive(z), LOG.logit.negative(z), s.numpy(), e.numpy())
    assert PropensityWeightedLoss(correction="unbiased")(u, s, e).item() == pytest.approx(costs.mean(), rel=1e-12)
    w = np.arange(s.numel()) % 4 + 0.5
    found = PropensityWeightedLoss(correction="unbiased")(u, s, e, w).item()
    assert found == pytest.approx(np.average(costs, weights=w), rel=1e-12)


@pytest.mark.parametrize("cost", ["log", "sigmoid"])
def test_corrections_change_nothing_while_the_negatives_part_is_positive(cost):
    u, s, e = risk_rows()
    unbiased = PropensityWeightedLoss(correction="unbiased", cost=cost)(u, s, e)
    for correction in ("non-negative", "absolute"):
        assert PropensityWeightedLoss(correction=correction, cost=cost)(u, s, e).item() == unbiased.item()


def overfitted():
    """Return logits that separate labelled rows so well that the unbiased risk is negative."""
    _, s, e = risk_rows()
    return torch.where(s == 1, 6.0, -6.0).double().requires_grad_(), s, e


def test_a_step_increases_a_negative_part_below_zero():
    u, s, e = overfitted()
    cost_neg = torch.nn.functional.softplus(u)
    negative = ((1 - s / e) * cost_neg).mean()
    assert negative < -0.1
    (slope,) = torch.autograd.grad(negative, u)
    for gamma in (1.0, 0.5):
        loss = PropensityWeightedLoss(beta=0.1, gamma=gamma)(u, s, e)
        (found,) = torch.autograd.grad(loss, u)
        np.testing.assert_allclose(found, -gamma * slope, rtol=1e-10)
        positive = (s / e * torch.nn.functional.softplus(-u)).mean()
        assert loss.item() == pytest.approx(positive.item() - 0.1, rel=1e-12)
    unbiased = PropensityWeightedLoss(correction="unbiased")(u, s, e)
    absolute = PropensityWeightedLoss(correction="absolute")(u, s, e)
    assert absolute.item() == pytest.approx(unbiased.item() - 2 * negative.item(), rel=1e-12)


@pytest.mark.parametrize("correction", ["unbiased", "non-negative", "absolute"])
def test_risks_pass_gradcheck(correction):
    u, s, e = risk_rows(n=12)
    assert torch.autograd.gradcheck(lambda u: PropensityWeightedLoss(correction=correction)(u, s, e), (u,))


def test_under_scar_a_class_prior_is_a_propensity():
    u, s, _ = risk_rows()
    prior = 0.7
    constant = s.mean() / prior
    found = UPULoss(prior)(u, s).item()
    assert found == pytest.approx(PropensityWeightedLoss(correction="unbiased")(u, s, constant).item(), rel=1e-12)
    found = NNPULoss(prior)(u, s).item()
    assert found == pytest.approx(PropensityWeightedLoss(cost="sigmoid")(u, s, constant).item(), rel=1e-12)


def test_case_control_takes_the_mean_over_unlabelled_rows():
    u, s, _ = risk_rows()
    z, labelled = u.detach().numpy(), s.numpy() == 1
    d1, d0 = LOG.logit.positive(z), LOG.logit.negative(z)
    expected = 0.4 * d1[labelled].mean() + d0[~labelled].mean() - 0.4 * d0[labelled].mean()
    assert UPULoss(0.4, scenario="case-control")(u, s).item() == pytest.approx(expected, rel=1e-12)


def test_nnpu_increases_a_negative_risk():
    u, s, _ = overfitted()
    loss = NNPULoss(0.9, cost="log")
    cost_neg = torch.nn.functional.softplus(u)
    negative = cost_neg.mean() - 0.9 * cost_neg[s == 1].mean()
    assert negative < 0
    found, slope = torch.autograd.grad(loss(u, s), u)[0], torch.autograd.grad(negative, u)[0]
    np.testing.assert_allclose(found, -slope, rtol=1e-10, atol=1e-18)


def test_a_target_prior_weights_both_errors_as_in_another_population():
    u, s, _ = risk_rows()
    z, labelled = u.detach().numpy(), s.numpy() == 1
    d1, d0 = LOG.logit.positive(z), LOG.logit.negative(z)
    negatives = (d0.mean() - 0.4 * d0[labelled].mean()) / 0.6  # estimated mean cost of a negative row
    assert negatives > 0
    for target in (0.5, 0.2):
        found = NNPULoss(0.4, cost="log", target_prior=target)(u, s).item()
        assert found == pytest.approx(target * d1[labelled].mean() + (1 - target) * negatives, rel=1e-12)
    same = NNPULoss(0.4, target_prior=0.4)(u, s).item()
    assert same == pytest.approx(NNPULoss(0.4)(u, s).item(), rel=1e-12)


def test_a_target_prior_scales_the_step_back():
    u, s, _ = overfitted()
    found, plain = (torch.autograd.grad(NNPULoss(0.9, target_prior=t)(u, s), u)[0] for t in (0.5, None))
    np.testing.assert_allclose(found, plain * (1 - 0.5) / (1 - 0.9), rtol=1e-10)


@pytest.mark.parametrize("loss", [UPULoss(0.3), NNPULoss(0.3), NNPULoss(0.3, target_prior=0.5)])
def test_a_batch_without_labels_has_a_loss(loss):
    u = torch.zeros(4, dtype=torch.bfloat16, requires_grad=True)
    found = loss(u, torch.zeros(4))
    found.backward()
    assert found.dtype == torch.float32
    assert torch.isfinite(found)
    assert torch.isfinite(u.grad).all()


# --- errors


def test_errors_say_what_was_expected_and_what_came():
    zero = torch.zeros(3)
    with pytest.raises(ValueError, match=r"u must hold one logit per row; its shape is \(3, 2\)"):
        SARLikelihoodLoss()(torch.zeros(3, 2), zero, zero)
    with pytest.raises(ValueError, match=r"their shapes are \(3,\) and \(2,\)"):
        SARLikelihoodLoss()(zero, torch.zeros(2), zero)
    with pytest.raises(ValueError, match=r"s must have one value for each logit, of shape \(3,\); its shape is \(2,\)"):
        SARLikelihoodLoss()(zero, zero, torch.zeros(2))
    with pytest.raises(ValueError, match="reduction must be one of 'mean', 'sum', 'none'; got 'max'"):
        SARLikelihoodLoss(reduction="max")
    with pytest.raises(ValueError, match="correction must be one of 'unbiased'"):
        PropensityWeightedLoss(correction="none")
    with pytest.raises(ValueError, match="correction must be one of 'non-negative', 'absolute'; got 'unbiased'"):
        NNPULoss(0.5, correction="unbiased")
    with pytest.raises(ValueError, match="class_prior must lie strictly between 0 and 1; got 1"):
        UPULoss(1)
    with pytest.raises(ValueError, match="target_prior must lie strictly between 0 and 1; got 0"):
        NNPULoss(0.5, target_prior=0)
    with pytest.raises(ValueError, match="scenario must be one of 'single-training-set', 'case-control'; got 'both'"):
        UPULoss(0.5, scenario="both")
    with pytest.raises(ValueError, match=r"bounds must be two numbers with 0 <= low < high <= 1; got \(0.5, 0.2\)"):
        LooksLikelihoodLoss(bounds=(0.5, 0.2))
    with pytest.raises(ValueError, match=r"audit is 0 \(negative\) for 2 labelled rows, but without false positives"):
        LooksLikelihoodLoss()(zero, zero, torch.tensor([1, 1, 0]), audit=torch.zeros(3))
