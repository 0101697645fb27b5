"""Fit of two networks to rows that were checked: folds, training, recalibration, and logits of the trained networks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scarless.checks.options import check_random_stream, shown
from scarless.numerics.arrays import Array, Vector
from scarless.outside.extras import need
from scarless.outside.progress import progress_bar
from scarless.torch.inputs import InputScale, held_out_rows
from scarless.torch.networks import (
    PairModule,
    PairNet,
    Shape,
    TensorRows,
    default_classifier,
    default_propensity,
    make_module,
    mean_of,
    refuse_embedding,
    reset_weights,
    tensor_rows,
)
from scarless.torch.recalibrating import HeldOutLogits, Recalibrated, not_recalibrated, recalibrate_networks
from scarless.torch.training import (
    Checkpoint,
    NetTraining,
    Report,
    Trained,
    Trainer,
    TrainingOptions,
    TrainingProgress,
    make_net,
    mark_of,
)

torch: Any = need("torch", "scarless.torch.fitting", "torch")

# With at least this many held-out labels, one fold is enough to recalibrate. With fewer, every row is held out once.
MIN_HELD_OUT_LABELS = 500
_METHODS = ("held-out", "out-of-fold")


@dataclass(frozen=True)
class NetworkFit:
    """Checked parameters of a fit of two networks; `train` runs it."""

    module: Any
    propensity_module: Any
    training: NetTraining
    n_starts: int
    recalibrate: bool | str
    pseudo_weight: float  # number of pseudo-observations
    standardise: bool
    integers: bool
    device: str
    checkpoint: Any
    random_state: Any
    verbose: bool
    of_x: bool  # whether the inputs of the propensity are a function of X
    sees_all: bool  # whether the propensity depends on all columns of X
    words: tuple[str, ...]  # texts of the parameters, which identify the fit in its checkpoint

    def train(self, x: Array, z: Array, s: Vector, w: Vector) -> "TrainedPair":
        """Train on all folds, and recalibrate the logits; `x` and `z` are the inputs of the two networks."""
        drawn = [int(seed) for seed in check_random_stream(self.random_state).integers(2**31, size=2)]
        checkpoint = Checkpoint(self.checkpoint, self._mark([x, z, s, w]))
        seeds = checkpoint.seeds(drawn, fixed=self.random_state is not None)
        share = float(self.training.validation_share)
        folds, unseen = plan_folds(s, share=share, recalibrate=self.recalibrate, seed=seeds[0])
        trained = np.unique(np.concatenate([fold.train for fold in folds]))
        scales = (
            InputScale.of(x[trained], self.standardise and not self.integers),
            InputScale.of(z[trained], self.standardise),
        )
        rows = tensor_rows(scales[0](x), scales[1](z), s, w, self._dtype, integers=self.integers)
        options = TrainingOptions.of(self.training, n_rows=s.size, device=_device(self.device), seed=seeds[1])
        nets, parts = [], []
        with self._reported_epochs() as report:
            progress = TrainingProgress.of(checkpoint, self.n_starts, report)
            for number, fold in enumerate(folds):
                held_out = rows.take(torch.as_tensor(fold.held_out))
                train = rows.take(torch.as_tensor(fold.train))
                trainer = Trainer(train, held_out, options, lambda i: self._make_pair(i, x.shape[1:], z.shape[1:]))
                nets.append(trainer.run(number, progress))
                parts.append(_held_out_logits(nets[-1], held_out))
        logits = HeldOutLogits(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        recalibrated = self._recalibrate(nets[0], logits) if self.recalibrate and unseen else not_recalibrated()
        starts = [progress.finished(number) for number in range(len(folds))]
        net = _mean_net(nets, options)
        return TrainedPair(
            net, *scales, recalibrated, self._dtype, self.integers, starts, progress.state["history"], logits
        )

    @property
    def _dtype(self) -> Any:
        return torch.float64 if self.training.dtype == "float64" else torch.float32

    def _recalibrate(self, net: PairNet, logits: HeldOutLogits) -> Recalibrated:
        linear = self.propensity_module is None and isinstance(net.module_.e, torch.nn.Linear)
        return recalibrate_networks(
            logits, pseudo_weight=self.pseudo_weight, linear=linear, swappable=self.sees_all, of_x=self.of_x
        )

    def _make_pair(self, number: int, x_shape: Shape, z_shape: Shape) -> Any:
        f = make_module(self.module, x_shape, default_classifier, "module")
        if not self.integers:
            refuse_embedding(f)
        if self.propensity_module is None and len(z_shape) > 1:
            raise ValueError(
                "propensity_features must have one number or vector for each row, because the default "
                f"propensity_module is a logistic model; the shape of a row is {z_shape}. Pass a propensity_module for "
                "this shape, or other features."
            )
        e = make_module(self.propensity_module, z_shape, default_propensity, "propensity_module")
        if number > 0:
            reset_weights(f)
            reset_weights(e)
        return PairModule(f, e).to(self._dtype)

    def _mark(self, arrays: list[Any]) -> str:
        """Return the identifier of this fit in its checkpoint."""
        if self.checkpoint is None:
            return ""
        words = list(self.words)
        words += [repr(each) for each in (self.module, self.propensity_module) if isinstance(each, torch.nn.Module)]
        words.append(shown(self.random_state) if isinstance(self.random_state, int) else "any seed")
        return mark_of(arrays, words)

    @contextmanager
    def _reported_epochs(self) -> Iterator[Report]:
        with progress_bar("training", 0, False if self.verbose else None) as advance:

            def report(message: str) -> None:
                advance()
                if self.verbose:
                    print(f"SARNetClassifier: {message}", flush=True)

            yield report


@dataclass(frozen=True)
class TrainedPair:
    """Two trained networks, with the scales of their inputs and the recalibration of their logits."""

    net: PairNet
    scale_f: InputScale
    scale_e: InputScale
    recalibrated: Recalibrated
    dtype: Any  # torch dtype of the inputs
    integers: bool
    starts: list[list[Trained]]  # results of the starts of each fold
    history: list[dict[str, float]]
    held_out: HeldOutLogits

    @property
    def class_needs_propensity_inputs(self) -> bool:
        """Whether the logit of the class also depends on the inputs of the propensity."""
        return self.recalibrated.tilt is not None

    def class_logits(self, rows: Array, seen: Array | None) -> Vector:
        """Return the logits of the class; `seen` are the inputs of the propensity, if the class needs them."""
        given = np.ascontiguousarray(rows if self.integers else self.scale_f(rows))
        u = self.net.class_logits(torch.as_tensor(given, dtype=torch.int64 if self.integers else self.dtype))
        return self.recalibrated.classify(u, None if seen is None else self.scale_e(seen))

    def propensity_logits(self, seen: Array) -> Vector:
        """Return the logits of the propensity, given its inputs."""
        scaled = self.scale_e(seen)
        v = self.net.propensity_logits(torch.as_tensor(np.ascontiguousarray(scaled), dtype=self.dtype))
        return self.recalibrated.propensity(v, scaled)


def _held_out_logits(net: PairNet, rows: TensorRows) -> HeldOutLogits:
    seen, s, w = (each.double().numpy() for each in (rows.z, rows.s, rows.w))
    return HeldOutLogits(net.class_logits(rows.x), net.propensity_logits(rows.z), seen, s, w)


def _mean_net(nets: list[PairNet], options: TrainingOptions) -> PairNet:
    """Return one pair of networks whose logits are the means over all folds."""
    if len(nets) == 1:
        return nets[0]
    pairs = [net.module_ for net in nets]
    mean = PairModule(mean_of([each.f for each in pairs]), mean_of([each.e for each in pairs]))
    return make_net(mean, options, 0.5)


def _device(given: Any) -> str:
    if given == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device must be 'auto', 'cpu', 'cuda' or another device of torch; got {shown(given)}."
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={given!r} is not available: torch finds no GPU. Use device='auto' or 'cpu'.")
    return str(device)


# --- rows for training, and held-out rows


class NetFold(NamedTuple):
    """Rows to train on, and held-out rows, which are used to stop training and to recalibrate the logits."""

    train: NDArray[np.intp]
    held_out: NDArray[np.intp]


def check_recalibrate(given: Any) -> str | bool:
    """Return the method of recalibration: its name, True to choose by the number of labels, or False for none."""
    if isinstance(given, bool | np.bool_):
        return bool(given)
    if isinstance(given, str) and given in _METHODS:
        return given
    raise ValueError(f"recalibrate must be True, False, 'held-out' or 'out-of-fold'; got {shown(given)}.")


def plan_folds(s: Vector, *, share: float, recalibrate: str | bool, seed: int) -> tuple[list[NetFold], bool]:
    """Return the folds, and whether the held-out rows are not among the training rows.

    With "held-out" there is one fold, and a `share` of the rows is held out. With "out-of-fold" there are 1 / `share`
    folds, so that every row is held out once. `recalibrate=True` chooses "out-of-fold" if one fold would hold out fewer
    than 500 labels: these would be too few to determine the class prior. With few labels, several folds are fast.
    """
    n_folds = max(2, round(1.0 / share)) if share else 1
    labelled = float(s.sum())
    wanted = recalibrate == "out-of-fold" or (recalibrate is True and share * labelled < MIN_HELD_OUT_LABELS)
    if share and wanted and min(labelled, s.size - labelled) >= n_folds:
        fold = _fold_of_rows(s, n_folds, np.random.default_rng(seed))
        return [NetFold(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)], True
    held = held_out_rows(s, share, np.random.default_rng(seed))
    held_out = held if held.any() else ~held
    return [NetFold(np.flatnonzero(~held), np.flatnonzero(held_out))], bool(held.any())


def _fold_of_rows(s: Vector, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return, for each row, the fold that holds it out; labelled and unlabelled rows are distributed evenly."""
    fold = np.empty(s.size, dtype=np.intp)
    for label in (0.0, 1.0):
        rows = rng.permutation(np.flatnonzero(s == label))
        fold[rows] = np.arange(rows.size) % n_folds
    return fold
