"""From rows to two trained networks: the paper's start, batches, a stop by held-out rows, several starts.

What a fit needs to go on after its process was killed is kept in one file that is written as a whole.
"""

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from scarless.checks.options import check_choice, check_positive, check_share, check_whole, shown
from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.outside.extras import need
from scarless.outside.files import write_whole
from scarless.outside.notices import warn_user
from scarless.torch.networks import Batches, PairNet, RowData, Rows

torch: Any = need("torch", "scarless.torch.training", "torch")

MIN_GAIN = 1e-6  # in held-out log-likelihood per row, to count as better
PHASES = ("balanced", "propensity", "pair")
OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lbfgs": "LBFGS"}
DTYPES = ("float32", "float64", "bfloat16")
CHECKPOINT_FILE = "network.pt"
CHECKSUM = "checksum"  # the entry of a state that has it; states of older versions have none
_ENTRIES = (b"under_way", b"finished", b"history")  # one of them is left where a checkpoint was damaged

Tell = Callable[[str], None]


class NetTraining(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """How two networks are trained: batches, steps, held-out rows, and when training ends.

    Give an object of this class as the `training` of `SARNetClassifier`. A grid search reaches inside:
    ``training__lr``.

    Parameters
    ----------
    max_epochs : int, default=500
        Limit on the epochs of each start.
    warm_up : int, default=10
        Epochs of each of the two models before they are trained together.
    batch_size : int or None, default=128
        None takes all rows at once.
    lr, propensity_lr : float, default=1e-3 and 1e-2
        Step lengths of the two networks; "lbfgs" uses `lr` for both.
    optimizer : {"adamw", "adam", "sgd", "lbfgs"} or class, default="adamw"
        By name, or a class of ``torch.optim``.
    optimizer_options : dict, optional
        Further options of the optimiser, such as ``{"weight_decay": 0.1}``.
    validation_share : float, default=0.2
        Share of rows that are held out; there are as many folds as such shares. With 0 all rows train, their own
        likelihood ends training, and nothing is recalibrated.
    patience : int or None, default=20
        Epochs without a better held-out likelihood after which training ends. None goes on to `max_epochs`.
    dtype : {"float32", "float64", "bfloat16"}, default="float32"
        What networks compute in. With "bfloat16" layers run in mixed precision; weights and loss stay in float32.

    Examples
    --------
    >>> from sklearn.model_selection import ParameterGrid
    >>> from scarless.torch import NetTraining, SARNetClassifier
    >>> model = SARNetClassifier(training=NetTraining(lr=0.01))
    >>> [model.set_params(**options).training.lr for options in ParameterGrid({"training__lr": [0.001, 0.1]})]
    [0.001, 0.1]
    """

    def __init__(
        self,
        *,
        max_epochs: int = 500,
        warm_up: int = 10,
        batch_size: int | None = 128,
        lr: float = 1e-3,
        propensity_lr: float = 1e-2,
        optimizer: Any = "adamw",
        optimizer_options: Any = None,
        validation_share: float = 0.2,
        patience: int | None = 20,
        dtype: str = "float32",
    ) -> None:
        self.max_epochs = max_epochs
        self.warm_up = warm_up
        self.batch_size = batch_size
        self.lr = lr
        self.propensity_lr = propensity_lr
        self.optimizer = optimizer
        self.optimizer_options = optimizer_options
        self.validation_share = validation_share
        self.patience = patience
        self.dtype = dtype


def check_training(training: Any) -> NetTraining:
    """Return how networks are trained; None is all defaults."""
    training = NetTraining() if training is None else training
    if not isinstance(training, NetTraining):
        raise ValueError(f"training must be a NetTraining(...), or None; got {shown(training)}.")
    check_whole(training.max_epochs, "max_epochs", at_least=1)
    check_whole(training.warm_up, "warm_up", at_least=0)
    for name in ("patience", "batch_size"):
        if getattr(training, name) is not None:
            check_whole(getattr(training, name), name, at_least=1)
    for name in ("lr", "propensity_lr"):
        check_positive(getattr(training, name), name)
    if training.validation_share != 0:
        check_share(training.validation_share, "validation_share (or 0)")
    check_choice(training.dtype, "dtype", DTYPES)
    _optimizer_of(training.optimizer)
    return training


def _optimizer_of(given: Any) -> Any:
    """Return a class of optimisers."""
    if isinstance(given, str):
        return getattr(torch.optim, OPTIMIZERS[check_choice(given, "optimizer", tuple(OPTIMIZERS))])
    if not callable(given):
        raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, or a class of torch; got {shown(given)}.")
    return given


@dataclass(frozen=True)
class TrainingOptions:
    """How to train on given rows: `NetTraining` with a device and a seed."""

    max_epochs: int
    warm_up: int
    patience: int | None
    batch_size: int
    lr: float
    propensity_lr: float | None
    optimizer: Any
    optimizer_options: dict[str, Any]
    device: str
    half: bool
    seed: int

    @classmethod
    def of(cls, training: NetTraining, *, n_rows: int, device: str, seed: int) -> "TrainingOptions":
        """Return the options of a fit to so many rows."""
        return cls(
            max_epochs=training.max_epochs,
            warm_up=training.warm_up,
            patience=training.patience,
            batch_size=n_rows if training.batch_size is None else training.batch_size,
            lr=training.lr,
            propensity_lr=training.propensity_lr,
            optimizer=_optimizer_of(training.optimizer),
            optimizer_options=dict(training.optimizer_options or {}),
            device=device,
            half=training.dtype == "bfloat16",
            seed=seed,
        )

    def epochs(self, phase: str) -> int:
        """Return how many epochs a phase has at most."""
        return self.max_epochs if phase == "pair" else self.warm_up


class Trained(NamedTuple):
    """What one start led to."""

    weights: dict[str, Any]
    log_likelihood: float  # held out, per row
    stopped: bool  # whether held-out rows ended it, and not the number of epochs


class Progress(NamedTuple):
    """What all folds of a fit share: where its state is kept, the state, how many starts, and who is told."""

    checkpoint: "Checkpoint"
    state: dict[str, Any]
    n_starts: int
    tell: Tell

    @classmethod
    def of(cls, checkpoint: "Checkpoint", n_starts: int, tell: Tell) -> "Progress":
        """Return that of a new fit, or of one that was stopped."""
        return cls(checkpoint, checkpoint.read() or {"finished": [], "history": [], "under_way": None}, n_starts, tell)

    def finished(self, fold: int) -> list[Trained]:
        """Return what the starts of a fold led to."""
        return [Trained(*each) for each in self.state["finished"][fold * self.n_starts : (fold + 1) * self.n_starts]]


class Trainer:
    """The fixed side of training on one fold: rows and options."""

    def __init__(self, train: Rows, held: Rows, options: TrainingOptions, make: Callable[[int], Any]) -> None:
        self.train, self.held = RowData(train.at(options.device)), held.at(options.device)
        self.s, self.w = (each.double().cpu().numpy() for each in (held.s, held.w))
        total = train.w.double().sum()
        self.share = float((train.w * train.s).double().sum() / total)
        self.options, self.make = options, make

    def run(self, fold: int, progress: Progress) -> PairNet:
        """Train from every start; return the networks of the best."""
        while len(progress.state["finished"]) < (fold + 1) * progress.n_starts:
            self._one_start(progress)
        finished = progress.finished(fold)
        best = max(range(progress.n_starts), key=lambda i: finished[i].log_likelihood)
        net = self._net(fold * progress.n_starts + best, progress)
        net.module_.load_state_dict(finished[best].weights)
        return net

    def _one_start(self, progress: Progress) -> None:
        state = progress.state
        number = len(state["finished"])
        net = self._net(number, progress)
        at = state["under_way"] or {"phase": 0, "epoch": 0, "best": None, "value": -np.inf, "waited": 0}
        if "weights" in at:
            net.module_.load_state_dict(at["weights"])
        for phase in range(at["phase"], len(PHASES)):
            net.phase = PHASES[phase]
            net.initialize_optimizer()  # the last phase minimised something else
            if phase != at["phase"]:
                at.update(phase=phase, epoch=0)
            elif "optimizer" in at:
                net.optimizer_.load_state_dict(at["optimizer"])
            self._one_phase(net, number, at, progress)
        stopped = at["waited"] >= (self.options.patience or np.inf)
        state["finished"].append((at["best"], at["value"], bool(stopped)))
        state["under_way"] = None  # the next one begins anew
        progress.checkpoint.write(state)

    def _one_phase(self, net: PairNet, number: int, at: dict[str, Any], progress: Progress) -> None:
        patience, (checkpoint, state) = self.options.patience or np.inf, progress[:2]
        fold, start = divmod(number, progress.n_starts)
        while at["epoch"] < self.options.epochs(net.phase) and at["waited"] < patience:
            loss = self._one_epoch(net, (number, at["phase"], at["epoch"]))
            at["epoch"] += 1
            if net.phase == "pair":
                value = self._held_out(net)
                place = {"fold": fold, "start": start, "epoch": at["epoch"]}
                state["history"].append({**place, "train_loss": loss, "log_likelihood": value})
                where = f"fold {fold + 1}, start {start + 1}, epoch {at['epoch']}"
                progress.tell(f"{where}, held-out log-likelihood per row {value:.6f}")
                if at["best"] is None or value > at["value"] + MIN_GAIN:
                    at.update(best=_weights(net), value=value, waited=0)
                else:
                    at["waited"] += 1
            if checkpoint.path is not None:
                at.update(weights=_weights(net), optimizer=net.optimizer_.state_dict())
                checkpoint.write({**state, "under_way": at})

    def _one_epoch(self, net: PairNet, place: tuple[int, ...]) -> float:
        """Train for one epoch, whose randomness is its own: so that a fit goes on from a file as if never stopped."""
        with _seeded(self.options, *place):
            net.fit_loop(self.train, None, epochs=1)
        loss = float(net.history[-1, "train_loss"])
        net.history.clear()
        if not np.isfinite(loss):
            raise ValueError(
                f"The training loss is {loss} in phase {net.phase!r}: the networks' logits are no numbers any more. "
                "Lower lr, or scale what the modules see."
            )
        return loss

    def _held_out(self, net: PairNet) -> float:
        u, v = net.class_logits(self.held.x), net.propensity_logits(self.held.z)
        return mean_log_likelihood(u, v, self.s, self.w)

    def _net(self, number: int, progress: Progress) -> PairNet:
        with _seeded(self.options, number):
            pair = self.make(number % progress.n_starts)
        return make_net(pair, self.options, self.share)


def make_net(pair: Any, options: TrainingOptions, share: float) -> PairNet:
    """Return two networks under skorch."""
    net = PairNet(
        module=pair,
        criterion=torch.nn.Identity,
        optimizer=options.optimizer,
        lr=options.lr,
        batch_size=options.batch_size,
        iterator_train=Batches,
        train_split=None,
        device=options.device,
        verbose=0,
        **{f"optimizer__{name}": value for name, value in options.optimizer_options.items()},
    )
    net.share, net.propensity_lr, net.half = share, options.propensity_lr, options.half
    net.initialize()
    return net


def mean_log_likelihood(u: Vector, v: Vector, s: Vector, w: Vector) -> float:
    """Return the observed log-likelihood per row."""
    return float(w @ log_likelihood(u, v, s, pair_terms(u, v))) / float(w.sum())


def _weights(net: PairNet) -> dict[str, Any]:
    return {name: value.detach().cpu().clone() for name, value in net.module_.state_dict().items()}


class _seeded:
    """Torch's randomness from a seed of its own, and as it was before afterwards."""

    def __init__(self, options: TrainingOptions, *place: int) -> None:
        self.seed = int(np.random.SeedSequence([options.seed, *place]).generate_state(1)[0])
        device = torch.device(options.device)
        devices = [device.index or 0] if device.type == "cuda" else []
        self.fork = torch.random.fork_rng(devices=devices)

    def __enter__(self) -> None:
        self.fork.__enter__()
        torch.manual_seed(self.seed)

    def __exit__(self, *error: Any) -> None:
        self.fork.__exit__(*error)


# --- what a fit needs to go on


class Checkpoint:
    """A folder with the state of one fit, or nowhere at all."""

    def __init__(self, folder: Any, mark: str) -> None:
        self.path = None if folder is None else Path(folder) / CHECKPOINT_FILE
        self.mark = mark
        self._seeds: list[int] = []
        self._damaged = False

    def seeds(self, drawn: list[int], *, fixed: bool) -> list[int]:
        """Return the seeds of the fit that is gone on with, unless they are `fixed` by the user; else those drawn."""
        state = None if fixed else self.read()
        self._seeds = drawn if state is None else state["seeds"]
        return self._seeds

    def read(self) -> dict[str, Any] | None:
        """Return the state that was left, if any; refuse that of another fit."""
        if self.path is None or self._damaged or not self.path.exists():
            return None
        data = self.path.read_bytes()
        try:
            state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            mark, said = state["mark"], state.pop(CHECKSUM, None)
            sound = said is None or said == checksum_of(state)
        except Exception as error:
            if not any(entry in data for entry in _ENTRIES):
                raise ValueError(
                    f"{self.path} is no checkpoint of SARNetClassifier ({type(error).__name__}). Name another folder, "
                    "or remove the file."
                ) from error
            sound = False
        if not sound:
            self._damaged = True
            warn_user(f"The checkpoint {self.path} is damaged. The fit starts again from the beginning.", UserWarning)
            return None
        if mark != self.mark:
            raise ValueError(
                f"{self.path} is from a fit of other rows or with other parameters. To go on with it, fit the same; to "
                "begin anew, name another folder or remove the file."
            )
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write the state in the place of the last one."""
        if self.path is None:
            return
        buffer = io.BytesIO()
        whole = {**state, "mark": self.mark, "seeds": self._seeds}
        torch.save({**whole, CHECKSUM: checksum_of(whole)}, buffer)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, buffer.getvalue())


def checksum_of(state: Any) -> str:
    """Return a hash of a state: of its keys, numbers, texts and tensors, in their order."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, dict):
            for key, held in value.items():
                digest.update(f"{key!r}:".encode())
                add(held)
        elif isinstance(value, list | tuple):
            digest.update(f"{len(value)} entries".encode())
            for held in value:
                add(held)
        elif isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, bool | int | float | str | None):
            digest.update(f"{value if isinstance(value, str) else repr(value)};".encode())
        else:
            digest.update(type(value).__name__.encode())

    add(state)
    return digest.hexdigest()


def mark_of(arrays: list[Any], words: list[str]) -> str:
    """Return a short text that is the same for the same rows and parameters only."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(f"{values.dtype} {values.shape}".encode())
        digest.update(values.tobytes())
    digest.update("\n".join(words).encode())
    return digest.hexdigest()
