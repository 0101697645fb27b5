"""The inner side of `SARNetClassifier`: parameters checked, networks made and trained, results stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from scarless.checks.labels import LabelCoding
from scarless.checks.options import (
    check_at_least_zero,
    check_choice,
    check_flag,
    check_positive,
    check_share,
    check_whole,
    shown,
)
from scarless.checks.vectors import check_random_stream
from scarless.numerics.arrays import Array, Vector
from scarless.outside.extras import need
from scarless.outside.notices import warn_user
from scarless.outside.progress import progress_bar
from scarless.pair.logistic import all_labelled
from scarless.torch.checkpoints import Checkpoint, mark_of
from scarless.torch.folds import check_relax, plan_folds
from scarless.torch.inputs import Scale, attribute_columns, check_features, check_integers, plain, read_rows
from scarless.torch.modules import (
    Pair,
    default_classifier,
    default_propensity,
    make_module,
    mean_of,
    refuse_embedding,
    renew,
)
from scarless.torch.pair_net import PairNet, Rows, tensor_rows
from scarless.torch.relaxing import HeldOut, Relaxed, as_they_are, relax_networks
from scarless.torch.training import Progress, Tell, Trained, Trainer, TrainingOptions, make_net

torch: Any = need("torch", "scarless.torch.fitting", "torch")

_OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD", "lbfgs": "LBFGS"}
_TYPES = ("float32", "float64", "bfloat16")
_NOT_IN_MARK = ("checkpoint", "verbose", "device", "module", "propensity_module", "random_state")


class _Outcome(NamedTuple):
    net: PairNet
    starts: list[list[Trained]]  # of each fold
    history: list[dict[str, float]]
    relaxed: Relaxed
    judged: HeldOut


class NetworkFitting(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """The half of `SARNetClassifier` that is not called by users; its parameters are that class's."""

    module: Any
    propensity_module: Any
    propensity_attributes: Any
    propensity_features: Any
    max_epochs: int
    warm_up: int
    batch_size: int | None
    lr: float
    propensity_lr: float
    optimizer: Any
    optimizer_options: Any
    validation_share: float
    patience: int | None
    n_starts: int
    relax: bool | str
    imaginary_audits: float
    standardise: bool
    integers: bool
    dtype: str
    device: str
    checkpoint: Any
    random_state: Any
    verbose: bool
    _coding: LabelCoding
    _shape: tuple[int, ...]
    _columns: NDArray[np.intp]
    _given: bool
    _relaxed: Relaxed

    @property
    def label_coding_(self) -> LabelCoding:
        """The two values of labels in the fit, and which of them is the positive one."""
        return self._coding

    def _check_options(self) -> None:
        for name in ("max_epochs", "n_starts"):
            check_whole(getattr(self, name), name, at_least=1)
        check_whole(self.warm_up, "warm_up", at_least=0)
        for name in ("patience", "batch_size"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), name, at_least=1)
        for name in ("lr", "propensity_lr"):
            check_positive(getattr(self, name), name)
        if self.validation_share != 0:
            check_share(self.validation_share, "validation_share (or 0)")
        check_at_least_zero(self.imaginary_audits, "imaginary_audits")
        check_relax(self.relax)
        for name in ("standardise", "integers"):
            check_flag(getattr(self, name), name)
        check_choice(self.dtype, "dtype", _TYPES)
        if self.propensity_features is not None and not callable(self.propensity_features):
            raise ValueError(
                "propensity_features must be a function of X here, so that predictions can use it; got "
                f"{shown(self.propensity_features)}. An array goes into fit(X, y, propensity_features=Z)."
            )

    def _check_columns(self, X: Any, rows: Array) -> NDArray[np.intp]:
        ways = (self.propensity_attributes is not None, self.propensity_features is not None, self._given)
        if sum(ways) > 1:
            raise ValueError(
                "What labelling depends on was said more than once: give one of propensity_attributes, the function "
                "propensity_features, and fit(X, y, propensity_features=Z)."
            )
        return attribute_columns(self, X, rows)

    def _propensity_rows(self, X: Any, rows: Array, given: Any) -> Array:
        """Return what the propensity sees of rows."""
        if (given is not None) != self._given:
            raise ValueError(
                "propensity_features were given as an array to fit, and are needed here too: propensity_features=Z."
                if self._given
                else "propensity_features were not given as an array to fit, and cannot be given here."
            )
        if self._given:
            return check_features(given, rows.shape[0])
        if self.propensity_features is not None:
            return check_features(self.propensity_features(plain(X)), rows.shape[0])
        if rows.ndim == 2:
            return rows[:, self._columns]
        return np.empty((rows.shape[0], 0))

    def _training_options(self, seed: int, n_rows: int) -> TrainingOptions:
        kind = self.optimizer
        if isinstance(kind, str):
            kind = getattr(torch.optim, _OPTIMIZERS[check_choice(kind, "optimizer", tuple(_OPTIMIZERS))])
        elif not callable(kind):
            raise ValueError(
                f"optimizer must be one of {', '.join(_OPTIMIZERS)}, or a class of torch; got {shown(kind)}."
            )
        return TrainingOptions(
            max_epochs=self.max_epochs,
            warm_up=self.warm_up,
            patience=self.patience,
            batch_size=n_rows if self.batch_size is None else self.batch_size,
            lr=self.lr,
            propensity_lr=self.propensity_lr,
            optimizer=kind,
            optimizer_options=dict(self.optimizer_options or {}),
            device=_device(self.device),
            half=self.dtype == "bfloat16",
            seed=seed,
        )

    def _train(self, x: Array, z: Array, s: Vector, w: Vector) -> _Outcome:
        drawn = [int(seed) for seed in check_random_stream(self.random_state).integers(2**31, size=2)]
        checkpoint = Checkpoint(self.checkpoint, self._mark([x, z, s, w]))
        seeds = checkpoint.seeds(drawn, fixed=self.random_state is not None)
        folds, unseen = plan_folds(s, share=float(self.validation_share), relax=check_relax(self.relax), seed=seeds[0])
        seen_all = np.unique(np.concatenate([fold.train for fold in folds]))
        self._scale_f = Scale.of(x[seen_all], self.standardise and not self.integers)
        self._scale_e = Scale.of(z[seen_all], self.standardise)
        rows = tensor_rows(self._scale_f(x), self._scale_e(z), s, w, self._torch_type(), integers=self.integers)
        self._spread = x.shape[1:], z.shape[1:]
        options = self._training_options(seeds[1], s.size)
        with self._told_of_epochs() as tell:
            progress = Progress.of(checkpoint, self.n_starts, tell)
            nets, parts = [], []
            for number, fold in enumerate(folds):
                judges = rows.take(torch.as_tensor(fold.judge))
                trainer = Trainer(rows.take(torch.as_tensor(fold.train)), judges, options, self._make_pair)
                nets.append(trainer.run(number, progress))
                parts.append(self._judged(nets[-1], judges))
        judged = HeldOut(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        relaxed = self._relax(nets[0], judged) if self.relax and unseen else as_they_are()
        starts = [progress.finished(number) for number in range(len(folds))]
        return _Outcome(_mean_net(nets, options), starts, progress.state["history"], relaxed, judged)

    def _judged(self, net: PairNet, rows: Rows) -> HeldOut:
        seen, s, w = (each.double().numpy() for each in (rows.z, rows.s, rows.w))
        return HeldOut(net.class_logits(rows.x), net.propensity_logits(rows.z), seen, s, w)

    def _relax(self, net: PairNet, judged: HeldOut) -> Relaxed:
        linear = self.propensity_module is None and isinstance(net.module_.e, torch.nn.Linear)
        sees_all = len(self._shape) == 1 and self._columns.size == self._shape[0]
        return relax_networks(
            judged, audits=float(self.imaginary_audits), linear=linear, exchangeable=sees_all, of_x=not self._given
        )

    def _make_pair(self, number: int) -> Any:
        x_shape, z_shape = self._spread
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
        return Pair(f, e).to(self._torch_type())

    def _mark(self, arrays: list[Any]) -> str:
        """Return what tells this fit from others, for its checkpoint."""
        if self.checkpoint is None:
            return ""
        words = [
            f"{name}={shown(value)}"
            for name, value in sorted(self.get_params(deep=False).items())
            if name not in _NOT_IN_MARK
        ]
        words += [repr(each) for each in (self.module, self.propensity_module) if isinstance(each, torch.nn.Module)]
        words.append(shown(self.random_state) if isinstance(self.random_state, int) else "any seed")
        return mark_of(arrays, words)

    @contextmanager
    def _told_of_epochs(self) -> Iterator[Tell]:
        with progress_bar("training", 0, False if self.verbose else None) as advance:

            def tell(what: str) -> None:
                advance()
                if self.verbose:
                    print(f"SARNetClassifier: {what}", flush=True)

            yield tell

    def _torch_type(self) -> Any:
        return torch.float64 if self.dtype == "float64" else torch.float32

    def _tensor(self, values: Array) -> Any:
        return torch.as_tensor(np.ascontiguousarray(values), dtype=self._torch_type())

    def _class_rows(self, rows: Array) -> Any:
        """Return rows as the classifier takes them."""
        if self.integers:
            check_integers(rows)
            return torch.as_tensor(np.ascontiguousarray(rows), dtype=torch.int64)
        return self._tensor(self._scale_f(rows))

    def _class_probability(self, X: Any) -> Vector:
        rows = read_rows(self, X, self._shape)
        u = self.net_.class_logits(self._class_rows(rows))
        tilted = self._relaxed.tilt is not None
        seen = self._scale_e(self._propensity_rows(X, rows, None)) if tilted else None
        return np.asarray(expit(self._relaxed.classify(u, seen)))

    def _store(self, outcome: _Outcome) -> None:
        self.net_, self._relaxed = outcome.net, outcome.relaxed
        self.module_, self.propensity_module_ = outcome.net.module_.f, outcome.net.module_.e
        values = np.array([[start.log_likelihood for start in fold] for fold in outcome.starts])
        best = np.argmax(values, axis=1)
        self.starts_ = values
        self.converged_ = all(fold[i].stopped for fold, i in zip(outcome.starts, best, strict=True))
        self.history_ = {name: np.array([each[name] for each in outcome.history]) for name in outcome.history[0]}
        taken = self.history_["start"] == best[self.history_["fold"]]
        self.n_iter_ = int(np.bincount(self.history_["fold"][taken]).max())
        if outcome.relaxed.relaxation is not None:
            self.relaxation_ = outcome.relaxed.relaxation
        prior, self.label_frequency_, self.log_likelihood_ = outcome.relaxed.shares(outcome.judged)
        self._warn(prior)
        doubts = outcome.relaxed.doubts(outcome.judged)
        if doubts:
            warn_user(f"{type(self).__name__} is in doubt. {' '.join(doubts)}", UserWarning)
        self.class_prior_ = prior

    def _warn(self, prior: float) -> None:
        name = type(self).__name__
        if not self.converged_ and self.patience is not None:
            warn_user(
                f"{name} did not stop in max_epochs={self.max_epochs} epochs: the held-out log-likelihood per row is "
                f"{self.history_['log_likelihood'][-1]:.4f} and may still rise. Raise max_epochs or lr.",
                ConvergenceWarning,
            )
        if all_labelled(self.label_frequency_):
            warn_user(
                f"{name} finds that all positives are labelled (label frequency {self.label_frequency_:.6f}): its "
                "classifier is then the naive one. If that cannot be: does X tell the label? Otherwise use a simpler "
                "module, or relax=True.",
                UserWarning,
            )
        if prior > 0.95:
            warn_user(
                f"{name} finds that nearly every row is positive (class prior {prior:.3f}): the propensity explains "
                "the labels by itself. If that cannot be, let it see less: fewer propensity_attributes, a simpler "
                "propensity_module.",
                UserWarning,
            )


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
