"""Logits as losses take them: one a row, in at least float32; and a loss that is a value per row."""

from typing import Any

from scarless.checks.options import check_choice
from scarless.outside.extras import need

torch: Any = need("torch", "scarless.torch.losses", "torch")
Module: Any = torch.nn.Module

_REDUCTIONS = ("mean", "sum", "none")


def wide(values: Any) -> Any:
    """Return logits in at least float32."""
    values = torch.as_tensor(values)
    return values if values.dtype in (torch.float32, torch.float64) else values.to(torch.float32)


def column(values: Any, name: str) -> Any:
    """Return one logit a row as a vector."""
    values = wide(values)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{name} must hold one logit per row; its shape is {tuple(values.shape)}.")
    return values


def beside(values: Any, logits: Any, name: str) -> Any:
    """Return values per row in the type of the logits, and where these are."""
    values = torch.as_tensor(values, dtype=logits.dtype, device=logits.device)
    if values.ndim == logits.ndim + 1 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim and values.shape != logits.shape:
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}, the logits {tuple(logits.shape)}; give one value for each logit."
        )
    return values


def log_not(z: Any) -> Any:
    r"""Return :math:`\log(1 - \sigma(z))`."""
    return torch.nn.functional.logsigmoid(-z)


class RowLoss(Module):  # type: ignore[misc, unused-ignore]
    """A loss that is a value per row, and a reduction."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = check_choice(reduction, "reduction", _REDUCTIONS)

    def _reduced(self, loss: Any, weight: Any) -> Any:
        if weight is not None:
            weight = beside(weight, loss, "weight")
            loss = loss * weight
        if self.reduction == "none":
            return loss
        if self.reduction == "sum":
            return loss.sum()
        return loss.mean() if weight is None else loss.sum() / weight.expand(loss.shape).sum()
