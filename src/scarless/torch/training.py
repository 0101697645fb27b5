"""From rows to two trained networks: the paper's start, batches, a stop by held-out rows, several starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scarless.numerics.arrays import Vector
from scarless.numerics.likelihood import log_likelihood, pair_terms
from scarless.outside.extras import need
from scarless.torch.checkpoints import Checkpoint
from scarless.torch.pair_net import Batches, PairNet, RowData, Rows

torch: Any = need("torch", "scarless.torch.training", "torch")

_BETTER = 1e-6  # in log-likelihood per row, to count as better
PHASES = ("balanced", "propensity", "pair")

Tell = Callable[[str], None]


@dataclass(frozen=True)
class TrainingOptions:
    """How to train."""

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

    checkpoint: Checkpoint
    state: dict[str, Any]
    n_starts: int
    tell: Tell

    @classmethod
    def of(cls, checkpoint: Checkpoint, n_starts: int, tell: Tell) -> "Progress":
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
                if at["best"] is None or value > at["value"] + _BETTER:
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
