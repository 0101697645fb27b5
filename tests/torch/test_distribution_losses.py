"""VPU and Dist-PU: values by hand, minima, gradients, extreme logits, batches without labels, errors."""

import numpy as np
import pytest

import torch
from scarless.torch import DistPULoss, VPULoss

BOTH = [VPULoss(), VPULoss(scenario="case-control"), DistPULoss(0.3, entropy_weight=0.1)]
NAMES = ["VPU", "VPU case-control", "Dist-PU"]
EACH = pytest.mark.parametrize("loss", BOTH, ids=NAMES)


def logits(*f):
    """Return the logits of probabilities."""
    return torch.logit(torch.tensor(f, dtype=torch.float64)).requires_grad_()


U = logits(0.8, 0.4, 0.5, 0.1)
S = torch.tensor([1.0, 1.0, 0.0, 0.0])


# --- VPU


def test_the_variational_loss_by_hand():
    labelled = (np.log(0.8) + np.log(0.4)) / 2
    assert VPULoss()(U, S).item() == pytest.approx(np.log(1.8 / 4) - labelled, rel=1e-12)
    case_control = VPULoss(scenario="case-control")
    assert case_control(U, S).item() == pytest.approx(np.log(0.6 / 2) - labelled, rel=1e-12)
    w = torch.tensor([1.0, 3.0, 0.0, 2.0])
    weighted = np.log((0.8 + 1.2 + 0.2) / 6) - (np.log(0.8) + 3 * np.log(0.4)) / 4
    assert VPULoss()(U, S, w).item() == pytest.approx(weighted, rel=1e-12)


def test_multiples_of_the_probability_have_the_same_loss_and_the_same_scaled_probability():
    half = logits(0.4, 0.2, 0.25, 0.05)
    assert VPULoss()(half, S).item() == pytest.approx(VPULoss()(U, S).item(), rel=1e-12)
    np.testing.assert_allclose(VPULoss.scaled(half).detach(), [1.0, 0.5, 0.625, 0.125], rtol=1e-12)
    np.testing.assert_allclose(VPULoss.scaled(U[:, None]).detach(), [1.0, 0.5, 0.625, 0.125], rtol=1e-12)


def test_the_minimum_is_at_a_multiple_of_the_class_probability():
    """In a population with cells, the gradient is 0 at every multiple of f, and only there."""
    f, share, c = np.array([0.9, 0.5, 0.2]), np.array([0.3, 0.3, 0.4]), 0.4
    s = torch.tensor([1.0, 0, 1, 0, 1, 0])
    w = torch.tensor(np.stack([share * f * c, share * (1 - f * c)], axis=1).ravel())
    for factor in (1.0, 0.5):
        u = logits(*np.repeat(factor * f, 2))
        (slope,) = torch.autograd.grad(VPULoss()(u, s, w), u)
        np.testing.assert_allclose(slope.reshape(3, 2).sum(dim=1), 0.0, atol=1e-15)
    other = logits(*np.repeat(f**2, 2))
    (slope,) = torch.autograd.grad(VPULoss()(other, s, w), other)
    assert slope.reshape(3, 2).sum(dim=1).abs().max() > 0.01
    assert VPULoss()(other, s, w) > VPULoss()(u, s, w)


def test_mixed_rows_by_hand():
    z, target = logits(0.5, 0.3), torch.tensor([0.6, 0.9], dtype=torch.float64)
    squares = (np.log([0.6, 0.9]) - np.log([0.5, 0.3])) ** 2
    found = VPULoss(mixup_weight=0.2)(U, S, mixed=(z, target)).item()
    assert found == pytest.approx(VPULoss()(U, S).item() + 0.2 * squares.mean(), rel=1e-12)
    (slope,) = torch.autograd.grad(VPULoss(mixup_weight=0.2)(U, S, mixed=(z, target)), z)
    assert (slope < 0).all()  # Both predictions are too low.


def test_mix_combines_each_row_with_a_labelled_row():
    torch.manual_seed(0)
    loss, x = VPULoss(mixup_weight=0.1), torch.tensor([[0.0, 0.0], [0.0, 10.0], [5.0, 1.0], [5.0, 2.0]]).double()
    mixed, target = loss.mix(x, U, S)
    share = float((5.0 - mixed[2, 0]) / 5.0)  # Labelled rows have 0 in the first column.
    assert 0 <= share <= 1
    np.testing.assert_allclose(mixed[3, 0], 5.0 * (1 - share), rtol=1e-6)
    np.testing.assert_allclose(target.detach(), share + (1 - share) * torch.sigmoid(U).detach(), rtol=1e-6)
    for row, old in zip(mixed, x, strict=True):
        assert min(float((row - share * x[k] - (1 - share) * old).abs().max()) for k in (0, 1)) < 1e-6
    none, empty = loss.mix(x, U, torch.zeros(4))
    assert none.shape == (0, 2)
    assert empty.shape == (0,)
    assert loss(U, S, mixed=(torch.zeros(0), empty)).item() == pytest.approx(VPULoss()(U, S).item())


# --- Dist-PU


def test_the_difference_of_means_by_hand():
    assert DistPULoss(0.3)(U, S).item() == pytest.approx(0.6 * (1 - 0.6) + abs(0.45 - 0.3), rel=1e-12)
    case_control = DistPULoss(0.35, scenario="case-control")
    assert case_control(U, S).item() == pytest.approx(0.7 * 0.4 + abs(0.3 - 0.35), rel=1e-12)
    f = np.array([0.8, 0.4, 0.5, 0.1])
    entropy = -(f * np.log(f) + (1 - f) * np.log(1 - f)).mean()
    found = DistPULoss(0.3, entropy_weight=0.5)(U, S).item()
    assert found == pytest.approx(0.24 + 0.15 + 0.5 * entropy, rel=1e-12)


def test_gradients_move_means_to_the_class_shares():
    for prior, direction in ((0.3, 1.0), (0.6, -1.0)):  # The mean of all rows is 0.45.
        (slope,) = torch.autograd.grad(DistPULoss(prior)(U, S), U)
        assert (torch.sign(slope[2:]) == direction).all()  # unlabelled rows go down or up
        assert (slope[:2] < 0).all()  # labelled rows go up
    (slope,) = torch.autograd.grad(DistPULoss(0.45, entropy_weight=100.0)(U, S), U)
    assert slope[3] > 0  # 0.1 moves towards 0


# --- both


@EACH
def test_losses_pass_gradcheck(loss):
    rng = np.random.default_rng(0)
    u = torch.tensor(2 * rng.normal(size=10), requires_grad=True)
    s, w = torch.tensor(np.arange(10) < 4).double(), torch.tensor(rng.uniform(0.5, 2, 10))
    assert torch.autograd.gradcheck(lambda u: loss(u, s, w), (u,))


@EACH
def test_weights_are_repeated_rows(loss):
    often = torch.tensor([2, 0, 1, 3])
    again = loss(torch.repeat_interleave(U, often), torch.repeat_interleave(S, often))
    assert loss(U, S, often).item() == pytest.approx(again.item(), rel=1e-12)
    assert loss(U, S, 5.0).item() == pytest.approx(loss(U, S).item(), rel=1e-12)


@EACH
def test_extreme_logits_in_half_precision_are_finite(loss):
    u = torch.tensor([-200.0, 90.0, -150.0, 200.0], dtype=torch.bfloat16, requires_grad=True)
    found = loss(u, S)
    found.backward()
    assert found.dtype == torch.float32
    assert torch.isfinite(found)
    assert torch.isfinite(u.grad).all()


@EACH
@pytest.mark.parametrize("label", [0.0, 1.0], ids=["no labels", "only labels"])
def test_a_batch_of_one_kind_has_a_loss(loss, label):
    u = torch.zeros(4, requires_grad=True)
    found = loss(u, torch.full((4,), label))
    found.backward()
    assert torch.isfinite(found)
    assert torch.isfinite(u.grad).all()


def test_a_term_without_rows_is_zero():
    zero, labels = torch.zeros(3), torch.zeros(3)
    assert VPULoss()(zero, labels).item() == pytest.approx(np.log(0.5))
    assert VPULoss(scenario="case-control")(zero, labels + 1).item() == pytest.approx(-np.log(0.5))
    assert DistPULoss(0.3)(zero, labels).item() == pytest.approx(0.2)
    assert DistPULoss(0.3, scenario="case-control")(zero, labels + 1).item() == pytest.approx(0.3)


def test_errors_say_what_was_expected_and_what_came():
    with pytest.raises(ValueError, match="mixed must be given if mixup_weight is above 0, and only then"):
        VPULoss(mixup_weight=0.1)(U, S)
    with pytest.raises(ValueError, match=r"mixup_weight is 0. Use x, target = loss.mix\(x, u, s\)"):
        VPULoss()(U, S, mixed=(U, S))
    with pytest.raises(ValueError, match=r"targets of mixed must have one value for each logit, of shape \(4,\)"):
        VPULoss(mixup_weight=0.1)(U, S, mixed=(U, S[:2]))
    with pytest.raises(ValueError, match=r"u must hold one logit per row; its shape is \(3, 2\)"):
        DistPULoss(0.3)(torch.zeros(3, 2), torch.zeros(3))
    with pytest.raises(ValueError, match=r"s must have one value for each logit, of shape \(4,\)"):
        VPULoss()(U, S[:2])
    with pytest.raises(ValueError, match="class_prior must lie strictly between 0 and 1; got 0"):
        DistPULoss(0)
    with pytest.raises(ValueError, match="entropy_weight must be a number of at least 0; got -1"):
        DistPULoss(0.3, entropy_weight=-1)
    with pytest.raises(ValueError, match="mixup_weight must be a number of at least 0"):
        VPULoss(mixup_weight="a")
    with pytest.raises(ValueError, match="mixup_alpha must be a number above 0; got 0"):
        VPULoss(mixup_alpha=0)
    for kind in (lambda **o: DistPULoss(0.3, **o), VPULoss):
        with pytest.raises(ValueError, match="scenario must be one of 'single-training-set', 'case-control'"):
            kind(scenario="both")
