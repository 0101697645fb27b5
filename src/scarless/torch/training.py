"""Training of two networks: initialisation as in the paper, batches, early stopping by held-out rows, several starts.

The state of a fit can be stored in a file, so that an interrupted fit can be resumed.
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
from scarless.torch.networks import Batches, PairNet, RowData, TensorRows

torch: Any = need("torch", "scarless.torch.training", "torch")

MIN_GAIN = 1e-6  # smallest gain in the held-out log-likelihood per row that counts as an improvement
PHASES = ("balanced", "propensity", "pair")
OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lbfgs": "LBFGS"}
DTYPES = ("float32", "float64", "bfloat16")
CHECKPOINT_FILE = "network.pt"
CHECKSUM = "checksum"  # key of the checksum; states of older versions have no checksum
_ENTRIES = (b"under_way", b"finished", b"history")  # a damaged checkpoint usually still contains one of these keys

Report = Callable[[str], None]


class NetTraining(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """Options for the training of two networks: batches, optimiser, held-out rows and stopping.

    Pass an object of this class as `training` of `SARNetClassifier`. A grid search can set its parameters:
    ``training__lr``.

    Parameters
    ----------
    max_epochs : int, default=500
        Largest number of epochs of each start.
    warm_up : int, default=10
        Number of epochs for which each network is trained alone, before both are trained together.
    batch_size : int or None, default=128
        Rows in a batch; None for all rows.
    lr, propensity_lr : float, default=1e-3 and 1e-2
        Learning rates of the two networks; "lbfgs" uses `lr` for both.
    optimizer : {"adamw", "adam", "sgd", "lbfgs"} or class, default="adamw"
        Name of an optimiser, or a class of ``torch.optim``.
    optimizer_options : dict, optional
        Further options of the optimiser, such as ``{"weight_decay": 0.1}``.
    validation_share : float, default=0.2
        Share of rows that are held out. If there are several folds, their number is 1 / `validation_share`. With 0, all
        rows are used for training and for stopping, and the logits are not recalibrated.
    patience : int or None, default=20
        Number of epochs without a better held-out likelihood after which training ends. None: train for `max_epochs`.
    dtype : {"float32", "float64", "bfloat16"}, default="float32"
        Precision of the networks. With "bfloat16", layers run in mixed precision; weights and loss stay in float32.

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
    """Return the checked training options; None means the defaults."""
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
    """Return the class of an optimiser."""
    if isinstance(given, str):
        return getattr(torch.optim, OPTIMIZERS[check_choice(given, "optimizer", tuple(OPTIMIZERS))])
    if not callable(given):
        raise ValueError(
            f"optimizer must be one of {', '.join(OPTIMIZERS)}, or a class of torch.optim; got {shown(given)}."
        )
    return given


@dataclass(frozen=True)
class TrainingOptions:
    """Options of `NetTraining` for given rows, with a device and a seed."""

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
        """Return the options of a fit to `n_rows` rows."""
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
        """Return the largest number of epochs of a phase."""
        return self.max_epochs if phase == "pair" else self.warm_up


class Trained(NamedTuple):
    """Result of one start."""

    weights: dict[str, Any]
    log_likelihood: float  # held-out log-likelihood per row
    stopped: bool  # whether training ended early, because the held-out likelihood no longer improved


class TrainingProgress(NamedTuple):
    """State of a fit, shared by all folds."""

    checkpoint: "Checkpoint"
    state: dict[str, Any]
    n_starts: int
    report: Report

    @classmethod
    def of(cls, checkpoint: "Checkpoint", n_starts: int, report: Report) -> "TrainingProgress":
        """Return the state of a new fit, or of an interrupted fit."""
        state = checkpoint.read() or {"finished": [], "history": [], "under_way": None}
        return cls(checkpoint, state, n_starts, report)

    def finished(self, fold: int) -> list[Trained]:
        """Return the results of the starts of a fold."""
        return [Trained(*each) for each in self.state["finished"][fold * self.n_starts : (fold + 1) * self.n_starts]]


class Trainer:
    """Training on one fold, with its rows and options."""

    def __init__(
        self, train: TensorRows, held: TensorRows, options: TrainingOptions, make: Callable[[int], Any]
    ) -> None:
        self.train, self.held = RowData(train.at(options.device)), held.at(options.device)
        self.s, self.w = (each.double().cpu().numpy() for each in (held.s, held.w))
        total = train.w.double().sum()
        self.share = float((train.w * train.s).double().sum() / total)
        self.options, self.make = options, make

    def run(self, fold: int, progress: TrainingProgress) -> PairNet:
        """Train from every start, and return the networks of the best start."""
        while len(progress.state["finished"]) < (fold + 1) * progress.n_starts:
            self._one_start(progress)
        finished = progress.finished(fold)
        best = max(range(progress.n_starts), key=lambda i: finished[i].log_likelihood)
        net = self._net(fold * progress.n_starts + best, progress)
        net.module_.load_state_dict(finished[best].weights)
        return net

    def _one_start(self, progress: TrainingProgress) -> None:
        state = progress.state
        number = len(state["finished"])
        net = self._net(number, progress)
        at = state["under_way"] or {"phase": 0, "epoch": 0, "best": None, "value": -np.inf, "waited": 0}
        if "weights" in at:
            net.module_.load_state_dict(at["weights"])
        for phase in range(at["phase"], len(PHASES)):
            net.phase = PHASES[phase]
            net.initialize_optimizer()  # Each phase minimises a different loss.
            if phase != at["phase"]:
                at.update(phase=phase, epoch=0)
            elif "optimizer" in at:
                net.optimizer_.load_state_dict(at["optimizer"])
            self._one_phase(net, number, at, progress)
        stopped = at["waited"] >= (self.options.patience or np.inf)
        state["finished"].append((at["best"], at["value"], bool(stopped)))
        state["under_way"] = None
        progress.checkpoint.write(state)

    def _one_phase(self, net: PairNet, number: int, at: dict[str, Any], progress: TrainingProgress) -> None:
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
                progress.report(f"{where}, held-out log-likelihood per row {value:.6f}")
                if at["best"] is None or value > at["value"] + MIN_GAIN:
                    at.update(best=_weights(net), value=value, waited=0)
                else:
                    at["waited"] += 1
            if checkpoint.path is not None:
                at.update(weights=_weights(net), optimizer=net.optimizer_.state_dict())
                checkpoint.write({**state, "under_way": at})

    def _one_epoch(self, net: PairNet, place: tuple[int, ...]) -> float:
        """Train for one epoch. Each epoch has its own seed, so that a resumed fit gives the same result."""
        with _seeded(self.options, *place):
            net.fit_loop(self.train, None, epochs=1)
        loss = float(net.history[-1, "train_loss"])
        net.history.clear()
        if not np.isfinite(loss):
            raise ValueError(
                f"The training loss is {loss} in phase {net.phase!r}, because logits of the networks are not finite. "
                "Lower lr, or scale the inputs."
            )
        return loss

    def _held_out(self, net: PairNet) -> float:
        u, v = net.class_logits(self.held.x), net.propensity_logits(self.held.z)
        return mean_log_likelihood(u, v, self.s, self.w)

    def _net(self, number: int, progress: TrainingProgress) -> PairNet:
        with _seeded(self.options, number):
            pair = self.make(number % progress.n_starts)
        return make_net(pair, self.options, self.share)


def make_net(pair: Any, options: TrainingOptions, share: float) -> PairNet:
    """Return the skorch network for a pair of modules."""
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
    """Return the mean log-likelihood of the observed labels."""
    return float(w @ log_likelihood(u, v, s, pair_terms(u, v))) / float(w.sum())


def _weights(net: PairNet) -> dict[str, Any]:
    return {name: value.detach().cpu().clone() for name, value in net.module_.state_dict().items()}


class _seeded:
    """Context manager that seeds torch, and restores its random state afterwards."""

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


# --- checkpoints


class Checkpoint:
    """File with the state of a fit; without a folder, nothing is stored."""

    def __init__(self, folder: Any, mark: str) -> None:
        self.path = None if folder is None else Path(folder) / CHECKPOINT_FILE
        self.mark = mark
        self._seeds: list[int] = []
        self._damaged = False

    def seeds(self, drawn: list[int], *, fixed: bool) -> list[int]:
        """Return the seeds of an interrupted fit.

        If there is no such fit, or if the user has `fixed` the seed, return the `drawn` seeds.
        """
        state = None if fixed else self.read()
        self._seeds = drawn if state is None else state["seeds"]
        return self._seeds

    def read(self) -> dict[str, Any] | None:
        """Return the stored state, or None; raise an error if the state belongs to another fit."""
        if self.path is None or self._damaged or not self.path.exists():
            return None
        data = self.path.read_bytes()
        try:
            state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            mark, checksum = state["mark"], state.pop(CHECKSUM, None)
            intact = checksum is None or checksum == checksum_of(state)
        except Exception as error:
            if not any(entry in data for entry in _ENTRIES):
                raise ValueError(
                    f"{self.path} is not a checkpoint of SARNetClassifier ({type(error).__name__}). Choose another "
                    "folder, or remove the file."
                ) from error
            intact = False
        if not intact:
            self._damaged = True
            warn_user(f"The checkpoint {self.path} is damaged. The fit starts again from the beginning.", UserWarning)
            return None
        if mark != self.mark:
            raise ValueError(
                f"{self.path} is from a fit of other rows or with other parameters. To resume it, use the same rows "
                "and parameters. To start a new fit, choose another folder, or remove the file."
            )
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write the state; it replaces the previous state."""
        if self.path is None:
            return
        buffer = io.BytesIO()
        whole = {**state, "mark": self.mark, "seeds": self._seeds}
        torch.save({**whole, CHECKSUM: checksum_of(whole)}, buffer)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, buffer.getvalue())


def checksum_of(state: Any) -> str:
    """Return a hash of the keys, numbers, texts and tensors of a state, in their order."""
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
    """Return an identifier of rows and parameters."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(f"{values.dtype} {values.shape}".encode())
        digest.update(values.tobytes())
    digest.update("\n".join(words).encode())
    return digest.hexdigest()
