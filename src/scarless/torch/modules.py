"""Networks as users give them: a class, an instance, a function that makes one, or nothing at all."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from scarless.checks.options import shown
from scarless.outside.extras import need

torch: Any = need("torch", "scarless.torch.modules", "torch")
Module: Any = torch.nn.Module

_HIDDEN = 64

Shape = tuple[int, ...]


class Constant(Module):  # type: ignore[misc, unused-ignore]
    """One logit for all rows: a propensity without attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, z: Any) -> Any:
        """Return the logit once for each row."""
        return self.bias.expand(z.shape[0])


class Pair(Module):  # type: ignore[misc, unused-ignore]
    """A classifier and a propensity network side by side: rows in, two logits a row out."""

    def __init__(self, f: Any, e: Any) -> None:
        super().__init__()
        self.f, self.e = f, e

    def forward(self, x: Any, z: Any) -> Any:
        """Return logits of the class, and of the propensity."""
        return one_logit(self.f(x), x, "module"), one_logit(self.e(z), z, "propensity_module")


class Mean(Module):  # type: ignore[misc, unused-ignore]
    """The mean logit of several networks."""

    def __init__(self, members: list[Any]) -> None:
        super().__init__()
        self.members = torch.nn.ModuleList(members)

    def forward(self, rows: Any) -> Any:
        """Return the mean of one logit each."""
        return torch.stack([one_logit(each(rows), rows, "module") for each in self.members]).mean(dim=0)


def mean_of(members: list[Any]) -> Any:
    """Return one network in the place of several: of logistic models one of their kind, whose logit is the mean."""
    if len(members) == 1:
        return members[0]
    if all(type(each) in (torch.nn.Linear, Constant) for each in members):
        one = deepcopy(members[0])
        states = [each.state_dict() for each in members]
        one.load_state_dict({name: torch.stack([each[name] for each in states]).mean(dim=0) for name in states[0]})
        return one
    return Mean(members)


def one_logit(logits: Any, rows: Any, parameter: str) -> Any:
    """Return a network's answer as a vector, or say what is wrong with it."""
    n_rows = rows.shape[0]
    if not hasattr(logits, "shape") or tuple(logits.shape) not in {(n_rows,), (n_rows, 1)}:
        found = f"of shape {tuple(logits.shape)}" if hasattr(logits, "shape") else f"a {type(logits).__name__}"
        raise ValueError(
            f"{parameter} must return one logit for each row, of shape (n_rows,) or (n_rows, 1); for {n_rows} rows it "
            f"returned a value {found}. End it with torch.nn.Linear(..., 1), and without a sigmoid."
        )
    return logits.reshape(n_rows)


def default_classifier(shape: Shape) -> Any:
    """Return a small network with one hidden layer; of images, one of their pixels."""
    nn, n_columns = torch.nn, _size(shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(n_columns, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 1))


def default_propensity(shape: Shape) -> Any:
    """Return a logistic model; without attributes, one logit for all rows."""
    return torch.nn.Linear(shape[0], 1) if _size(shape) else Constant()


def make_module(given: Any, shape: Shape, default: Callable[[Shape], Any], parameter: str) -> Any:
    """Return a fresh network for rows of a shape.

    An instance is copied, with its weights; a class or function gets the number of columns (the shape, where rows are
    images), or nothing where it takes nothing.
    """
    if given is None:
        return default(shape)
    if isinstance(given, Module):
        return deepcopy(given)
    if not callable(given):
        raise ValueError(
            f"{parameter} must be a torch.nn.Module, a class of modules, or a function that makes one from the number "
            f"of columns; got {shown(given)}."
        )
    made = given(shape[0] if len(shape) == 1 else shape) if _wants_shape(given) else given()
    if not isinstance(made, Module):
        raise ValueError(f"{parameter} must make a torch.nn.Module; it returned {shown(made)}.")
    return made


def refuse_embedding(module: Any) -> None:
    """Refuse a network that begins with an embedding, where rows come as numbers that were scaled."""
    first = next((part for part in module.modules() if not list(part.children())), module)
    if isinstance(first, torch.nn.Embedding | torch.nn.EmbeddingBag):
        raise ValueError(
            f"module begins with {type(first).__name__}, which takes integers, and X is handed over as numbers with "
            "mean 0 and variance 1. Use integers=True, which leaves X as it is."
        )


def renew(module: Any) -> None:
    """Draw all weights anew that know how to be drawn: for a second start of a network that came as an instance."""
    for part in module.modules():
        if callable(getattr(part, "reset_parameters", None)):
            part.reset_parameters()


def _wants_shape(maker: Any) -> bool:
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
