"""Two networks fitted to checked rows: folds, networks made and trained, and how their logits are read afterwards."""

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
from scarless.torch.inputs import Scale, held_out_rows
from scarless.torch.networks import (
    Pair,
    PairNet,
    Rows,
    Shape,
    default_classifier,
    default_propensity,
    make_module,
    mean_of,
    refuse_embedding,
    renew,
    tensor_rows,
)
from scarless.torch.recalibrating import HeldOut, Recalibrated, as_they_are, recalibrate_networks
from scarless.torch.training import (
    Checkpoint,
    NetTraining,
    Progress,
    Tell,
    Trained,
    Trainer,
    TrainingOptions,
    make_net,
    mark_of,
)

torch: Any = need("torch", "scarless.torch.fitting", "torch")

# Labels among held-out rows that are enough for scale and level: with fewer, every row is held out once.
ENOUGH_LABELS = 500
_WAYS = ("held-out", "out-of-fold")


@dataclass(frozen=True)
class NetworkFit:
    """What two networks are made of and how they are trained, all of it checked; `train` does it.

    `audits` are imaginary ones. `of_x` says that what the propensity sees follows from what the classifier sees, and
    `sees_all` that it is all of it. `words` tell a fit with other parameters from this one, for its checkpoint.
    """

    module: Any
    propensity_module: Any
    training: NetTraining
    n_starts: int
    recalibrate: bool | str
    audits: float
    standardise: bool
    integers: bool
    device: str
    checkpoint: Any
    random_state: Any
    verbose: bool
    of_x: bool
    sees_all: bool
    words: tuple[str, ...]

    def train(self, x: Array, z: Array, s: Vector, w: Vector) -> "TrainedPair":
        """Train on all folds, and recalibrate what comes of it; `z` is what the propensity sees."""
        drawn = [int(seed) for seed in check_random_stream(self.random_state).integers(2**31, size=2)]
        checkpoint = Checkpoint(self.checkpoint, self._mark([x, z, s, w]))
        seeds = checkpoint.seeds(drawn, fixed=self.random_state is not None)
        share = float(self.training.validation_share)
        folds, unseen = plan_folds(s, share=share, recalibrate=self.recalibrate, seed=seeds[0])
        seen_all = np.unique(np.concatenate([fold.train for fold in folds]))
        scales = (
            Scale.of(x[seen_all], self.standardise and not self.integers),
            Scale.of(z[seen_all], self.standardise),
        )
        rows = tensor_rows(scales[0](x), scales[1](z), s, w, self._dtype, integers=self.integers)
        options = TrainingOptions.of(self.training, n_rows=s.size, device=_device(self.device), seed=seeds[1])
        nets, parts = [], []
        with self._message_about_epochs() as tell:
            progress = Progress.of(checkpoint, self.n_starts, tell)
            for number, fold in enumerate(folds):
                judges = rows.take(torch.as_tensor(fold.judge))
                trained_on = rows.take(torch.as_tensor(fold.train))
                trainer = Trainer(trained_on, judges, options, lambda i: self._make_pair(i, x.shape[1:], z.shape[1:]))
                nets.append(trainer.run(number, progress))
                parts.append(_judged(nets[-1], judges))
        judged = HeldOut(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        recalibrated = self._recalibrate(nets[0], judged) if self.recalibrate and unseen else as_they_are()
        starts = [progress.finished(number) for number in range(len(folds))]
        net = _mean_net(nets, options)
        return TrainedPair(
            net, *scales, recalibrated, self._dtype, self.integers, starts, progress.state["history"], judged
        )

    @property
    def _dtype(self) -> Any:
        return torch.float64 if self.training.dtype == "float64" else torch.float32

    def _recalibrate(self, net: PairNet, judged: HeldOut) -> Recalibrated:
        linear = self.propensity_module is None and isinstance(net.module_.e, torch.nn.Linear)
        return recalibrate_networks(judged, audits=self.audits, linear=linear, swappable=self.sees_all, of_x=self.of_x)

    def _make_pair(self, number: int, x_shape: Shape, z_shape: Shape) -> Any:
        f = make_module(self.module, x_shape, default_classifier, "module")
        if not self.integers:
            refuse_embedding(f)
        if self.propensity_module is None and len(z_shape) > 1:
            raise ValueError(
                f"propensity_features have rows of shape {z_shape}; the logistic propensity needs columns. Give a "
                "propensity_module that takes them, or one value or vector a row."
            )
        e = make_module(self.propensity_module, z_shape, default_propensity, "propensity_module")
        if number > 0:
            renew(f)
            renew(e)
        return Pair(f, e).to(self._dtype)

    def _mark(self, arrays: list[Any]) -> str:
        """Return what tells this fit from others, for its checkpoint."""
        if self.checkpoint is None:
            return ""
        words = list(self.words)
        words += [repr(each) for each in (self.module, self.propensity_module) if isinstance(each, torch.nn.Module)]
        words.append(shown(self.random_state) if isinstance(self.random_state, int) else "any seed")
        return mark_of(arrays, words)

    @contextmanager
    def _message_about_epochs(self) -> Iterator[Tell]:
        with progress_bar("training", 0, False if self.verbose else None) as advance:

            def tell(what: str) -> None:
                advance()
                if self.verbose:
                    print(f"SARNetClassifier: {what}", flush=True)

            yield tell


@dataclass(frozen=True)
class TrainedPair:
    """Two trained networks, what they see of rows, and how their logits are recalibrated."""

    net: PairNet
    scale_f: Scale
    scale_e: Scale
    recalibrated: Recalibrated
    dtype: Any  # of torch
    integers: bool
    starts: list[list[Trained]]  # of each fold
    history: list[dict[str, float]]
    judged: HeldOut

    @property
    def class_sees_more(self) -> bool:
        """Whether the class's logit needs what the propensity sees, too."""
        return self.recalibrated.tilt is not None

    def class_logits(self, rows: Array, seen: Array | None) -> Vector:
        """Return the class's logits of rows; `seen` is what the propensity sees, where `class_sees_more`."""
        given = np.ascontiguousarray(rows if self.integers else self.scale_f(rows))
        u = self.net.class_logits(torch.as_tensor(given, dtype=torch.int64 if self.integers else self.dtype))
        return self.recalibrated.classify(u, None if seen is None else self.scale_e(seen))

    def propensity_logits(self, seen: Array) -> Vector:
        """Return the propensity's logits, by what it sees of rows."""
        scaled = self.scale_e(seen)
        v = self.net.propensity_logits(torch.as_tensor(np.ascontiguousarray(scaled), dtype=self.dtype))
        return self.recalibrated.propensity(v, scaled)


def _judged(net: PairNet, rows: Rows) -> HeldOut:
    seen, s, w = (each.double().numpy() for each in (rows.z, rows.s, rows.w))
    return HeldOut(net.class_logits(rows.x), net.propensity_logits(rows.z), seen, s, w)


def _mean_net(nets: list[PairNet], options: TrainingOptions) -> PairNet:
    """Return the networks of all folds as one pair, whose logits are their means."""
    if len(nets) == 1:
        return nets[0]
    pairs = [net.module_ for net in nets]
    return make_net(Pair(mean_of([each.f for each in pairs]), mean_of([each.e for each in pairs])), options, 0.5)


def _device(given: Any) -> str:
    if given == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or another of torch's; got {shown(given)}.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={given!r} is not there: torch sees no GPU. Use device='auto' or 'cpu'.")
    return str(device)


# --- which rows train a network, and which judge it


class Fold(NamedTuple):
    """Rows to train on, and rows to stop and recalibrate by."""

    train: NDArray[np.intp]
    judge: NDArray[np.intp]


def check_recalibrate(given: Any) -> str | bool:
    """Return how logits are recalibrated: a way by name, True for the one that the number of labels asks for, or False."""
    if isinstance(given, bool | np.bool_):
        return bool(given)
    if isinstance(given, str) and given in _WAYS:
        return given
    raise ValueError(f"recalibrate must be True, False, 'held-out' or 'out-of-fold'; got {shown(given)}.")


def plan_folds(s: Vector, *, share: float, recalibrate: str | bool, seed: int) -> tuple[list[Fold], bool]:
    """Return the folds, and whether judges are rows that were not trained on.

    One fold whose judges are a `share` of the rows; or, "out-of-fold", as many folds as there are such shares, so that
    every row judges a network that has not seen it. `recalibrate` True takes these where the held-out rows of one fold would
    have fewer than 500 labels: the level is then a matter of few labels, and networks of few rows are quick.
    """
    n_folds = max(2, round(1.0 / share)) if share else 1
    labelled = float(s.sum())
    wanted = recalibrate == "out-of-fold" or (recalibrate is True and share * labelled < ENOUGH_LABELS)
    if share and wanted and min(labelled, s.size - labelled) >= n_folds:
        place = _places(s, n_folds, np.random.default_rng(seed))
        return [Fold(np.flatnonzero(place != k), np.flatnonzero(place == k)) for k in range(n_folds)], True
    held = held_out_rows(s, share, np.random.default_rng(seed))
    judges = held if held.any() else ~held
    return [Fold(np.flatnonzero(~held), np.flatnonzero(judges))], bool(held.any())


def _places(s: Vector, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the fold that each row judges in: labelled and other rows spread evenly."""
    place = np.empty(s.size, dtype=np.intp)
    for label in (0.0, 1.0):
        rows = rng.permutation(np.flatnonzero(s == label))
        place[rows] = np.arange(rows.size) % n_folds
    return place
