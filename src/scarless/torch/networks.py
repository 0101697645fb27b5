"""Creation of networks from the user's modules, and a pair of networks in skorch with the loss of each phase."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from scarless.checks.options import shown
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need
from scarless.torch.losses import loss_and_slopes, sar_log_likelihood

torch: Any = need("torch", "scarless.torch.networks", "torch")
skorch: Any = need("skorch", "scarless.torch.networks", "torch")
Module: Any = torch.nn.Module

HIDDEN_UNITS = 64  # units in the hidden layer of the default classifier
MAX_BYTES_ON_DEVICE = 2 * 2**30  # fewer bytes of rows are copied to the device once; more are copied batch by batch
LOGIT_BATCH_ROWS = 4096  # rows whose logits are computed together

Shape = tuple[int, ...]


class ConstantLogit(Module):  # type: ignore[misc, unused-ignore]
    """The same logit for all rows: a propensity without attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, z: Any) -> Any:
        """Return the logit for each row."""
        return self.bias.expand(z.shape[0])


class PairModule(Module):  # type: ignore[misc, unused-ignore]
    """Module with a classifier and a propensity network, which returns two logits for each row."""

    def __init__(self, f: Any, e: Any) -> None:
        super().__init__()
        self.f, self.e = f, e

    def forward(self, x: Any, z: Any) -> Any:
        """Return the logits of the class and of the propensity."""
        return one_logit(self.f(x), x, "module"), one_logit(self.e(z), z, "propensity_module")


class MeanLogit(Module):  # type: ignore[misc, unused-ignore]
    """The mean logit of several networks."""

    def __init__(self, members: list[Any]) -> None:
        super().__init__()
        self.members = torch.nn.ModuleList(members)

    def forward(self, rows: Any) -> Any:
        """Return the mean of the networks' logits."""
        return torch.stack([one_logit(each(rows), rows, "module") for each in self.members]).mean(dim=0)


def mean_of(members: list[Any]) -> Any:
    """Return a network whose logit is the mean over several networks; for logistic models, a logistic model."""
    if len(members) == 1:
        return members[0]
    if all(type(each) in (torch.nn.Linear, ConstantLogit) for each in members):
        one = deepcopy(members[0])
        states = [each.state_dict() for each in members]
        one.load_state_dict({name: torch.stack([each[name] for each in states]).mean(dim=0) for name in states[0]})
        return one
    return MeanLogit(members)


def one_logit(logits: Any, rows: Any, parameter: str) -> Any:
    """Return the output of a network as a vector; raise an error if it is not one logit for each row."""
    n_rows = rows.shape[0]
    if not hasattr(logits, "shape") or tuple(logits.shape) not in {(n_rows,), (n_rows, 1)}:
        found = f"shape {tuple(logits.shape)}" if hasattr(logits, "shape") else f"type {type(logits).__name__}"
        raise ValueError(
            f"{parameter} must return one logit for each row, of shape (n_rows,) or (n_rows, 1); for {n_rows} rows it "
            f"returned a value of {found}. Its last layer should be torch.nn.Linear(..., 1), without a sigmoid."
        )
    return logits.reshape(n_rows)


def default_classifier(shape: Shape) -> Any:
    """Return a small network with one hidden layer; images are flattened."""
    nn, n_columns = torch.nn, _size(shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(n_columns, HIDDEN_UNITS), nn.ReLU(), nn.Linear(HIDDEN_UNITS, 1))


def default_propensity(shape: Shape) -> Any:
    """Return a logistic model; without attributes, a constant logit."""
    return torch.nn.Linear(shape[0], 1) if _size(shape) else ConstantLogit()


def make_module(given: Any, shape: Shape, default: Callable[[Shape], Any], parameter: str) -> Any:
    """Return a new network for rows of a shape.

    An instance is copied with its weights. A class or function is called with the number of columns or, for images,
    with the shape; if it takes no arguments, it is called without any.
    """
    if given is None:
        return default(shape)
    if isinstance(given, Module):
        return deepcopy(given)
    if not callable(given):
        raise ValueError(
            f"{parameter} must be a torch.nn.Module, a class of modules, or a function that returns a module for a "
            f"number of columns; got {shown(given)}."
        )
    module = given(shape[0] if len(shape) == 1 else shape) if _takes_shape(given) else given()
    if not isinstance(module, Module):
        raise ValueError(f"{parameter} must return a torch.nn.Module; it returned {shown(module)}.")
    return module


def refuse_embedding(module: Any) -> None:
    """Raise an error if the first layer of a network is an embedding, which needs integers."""
    first = next((part for part in module.modules() if not list(part.children())), module)
    if isinstance(first, torch.nn.Embedding | torch.nn.EmbeddingBag):
        raise ValueError(
            f"module begins with {type(first).__name__}, which needs integers, but receives X as floats. Use "
            "integers=True, which passes X unchanged, as torch.int64."
        )


def reset_weights(module: Any) -> None:
    """Draw new weights for all layers that have `reset_parameters`, so that a copied network gets another start."""
    for part in module.modules():
        if callable(getattr(part, "reset_parameters", None)):
            part.reset_parameters()


def _takes_shape(maker: Any) -> bool:
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return True
    needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in needed and each.default is inspect.Parameter.empty for each in parameters)


def _size(shape: Shape) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


# --- two networks in skorch


class TensorRows(NamedTuple):
    """Rows as tensors: inputs of class and propensity, labels and weights."""

    x: Any
    z: Any
    s: Any
    w: Any

    def take(self, rows: Any) -> "TensorRows":
        """Return some of the rows."""
        return TensorRows(*(each[rows] for each in self))

    def at(self, device: Any) -> "TensorRows":
        """Return the rows on a device, unless they are too large."""
        size = sum(each.element_size() * each.nelement() for each in self)
        return TensorRows(*(each.to(device) for each in self)) if size <= MAX_BYTES_ON_DEVICE else self


def tensor_rows(x: Any, z: Any, s: Vector, w: Vector, dtype: Any, *, integers: bool = False) -> TensorRows:
    """Return rows as tensors of one type; the inputs of the class may be integers."""
    types = (torch.int64 if integers else dtype, dtype, dtype, dtype)
    parts = zip((x, z, s, w), types, strict=True)
    return TensorRows(*(torch.as_tensor(np.ascontiguousarray(each), dtype=kind) for each, kind in parts))


class RowData(torch.utils.data.Dataset):  # type: ignore[misc, unused-ignore]
    """Rows as a torch Dataset."""

    def __init__(self, rows: TensorRows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return int(self.rows.s.shape[0])

    def __getitem__(self, i: Any) -> Any:
        some = self.rows.take(i)
        return {"x": some.x, "z": some.z, "w": some.w}, some.s


class Batches:
    """Batches of rows in random order. Each batch is indexed at once, because a loader of single rows is far slower."""

    def __init__(self, dataset: RowData, batch_size: int) -> None:
        self.dataset, self.batch_size = dataset, batch_size

    def __iter__(self) -> Iterator[Any]:
        n_rows = len(self.dataset)
        if self.batch_size >= n_rows:
            yield self.dataset[:]
            return
        order = torch.randperm(n_rows).to(self.dataset.rows.s.device)
        for start in range(0, n_rows, self.batch_size):
            yield self.dataset[order[start : start + self.batch_size]]


def phase_loss(phase: str, u: Any, v: Any, s: Any, w: Any, share: float) -> Any:
    """Return the mean loss of a batch.

    "balanced": the classifier separates labelled from unlabelled rows, with equal total weights; `share` is the share
    of labelled rows. "propensity": the propensity is fitted to the labels, with unlabelled rows weighted by their class
    probability. "pair": the negative log-likelihood of the labels, given both networks.
    """
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    if phase == "balanced":
        w = w * torch.where(s == 1, 0.5 / share, 0.5 / (1.0 - share))
        return (w * cross_entropy(u, s, reduction="none")).sum() / w.sum()
    if phase == "propensity":
        w = w * torch.where(s == 1, torch.ones_like(u), torch.sigmoid(u.detach()))
        return (w * cross_entropy(v, s, reduction="none")).sum() / w.sum()
    return -(w * sar_log_likelihood(u, v, s)).sum() / w.sum()


class PairNet(skorch.NeuralNet):  # type: ignore[misc, unused-ignore]
    """skorch network of a `PairModule`."""

    phase = "pair"
    share = 0.5  # share of labelled rows
    propensity_lr: float | None = None
    half = False  # whether layers run in bfloat16

    def infer(self, x: Any, **fit_params: Any) -> Any:
        """Return the logits of class and propensity for a batch."""
        with self._precision():
            return self.module_(x["x"].to(self.device), x["z"].to(self.device))

    def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
        """Return the loss of a batch in the current phase."""
        u, v = (each if each.dtype == torch.float64 else each.float() for each in y_pred)
        return phase_loss(self.phase, u, v, y_true.to(self.device), X["w"].to(self.device), self.share)

    def train_step_single(self, batch: Any, **fit_params: Any) -> dict[str, Any]:
        """Compute the gradients for a batch, and return its loss. The likelihood has a gradient in closed form."""
        if self.phase != "pair":
            return dict(super().train_step_single(batch, **fit_params))
        self._set_training(True)
        x, s = batch
        u, v = (each if each.dtype == torch.float64 else each.float() for each in self.infer(x, **fit_params))
        loss, slopes = loss_and_slopes(u, v, s.to(self.device), x["w"].to(self.device))
        parts = [(logits, slope) for logits, slope in zip((u, v), slopes, strict=True) if logits.requires_grad]
        torch.autograd.backward(*zip(*parts, strict=True))
        return {"loss": loss, "y_pred": (u, v)}

    def initialize_optimizer(self, triggered_directly: Any = None) -> Any:
        """Create the optimiser, with a learning rate for each network if it supports groups of parameters."""
        pair = self.module_
        args, kwargs = self.get_params_for_optimizer("optimizer", pair.named_parameters())
        if self.propensity_lr is not None and not _takes_no_groups(self.optimizer):
            groups: list[dict[str, Any]] = [{"params": list(pair.f.parameters())}]
            groups.append({"params": list(pair.e.parameters()), "lr": self.propensity_lr})
            args = ([group for group in groups if group["params"]],)
        self.optimizer_ = self.optimizer(*args, **kwargs)
        return self

    def class_logits(self, x: Any) -> Vector:
        """Return the logits of the class as a float64 vector."""
        return self._logits(self.module_.f, x, "module")

    def propensity_logits(self, z: Any) -> Vector:
        """Return the logits of the propensity as a float64 vector."""
        return self._logits(self.module_.e, z, "propensity_module")

    def _logits(self, module: Any, rows: Any, name: str) -> Vector:
        module.eval()
        found = []
        with torch.no_grad(), self._precision():
            for start in range(0, rows.shape[0], LOGIT_BATCH_ROWS):
                part = rows[start : start + LOGIT_BATCH_ROWS].to(self.device)
                found.append(one_logit(module(part), part, name).double().cpu())
        return np.asarray(torch.cat(found).numpy())

    def _precision(self) -> AbstractContextManager[Any]:
        if not self.half:
            return nullcontext()
        kind = torch.device(self.device).type
        precision: AbstractContextManager[Any] = torch.autocast(kind, dtype=torch.bfloat16)
        return precision


def _takes_no_groups(optimizer: Any) -> bool:
    return isinstance(optimizer, type) and issubclass(optimizer, torch.optim.LBFGS)
