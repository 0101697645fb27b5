"""Time of a training step of SARNetClassifier's two networks against a supervised step of one network.

Both run under skorch in the same process. Epochs of the two take turns, and the CPU time of each epoch is measured. The
ratio is that of the fastest epochs, and the median over pairs of neighbouring epochs.
"""

import time
from itertools import pairwise
from typing import Any

import numpy as np

ROWS, BATCH = 4096, 256
SIZES = {"784-512-512-1": (784, 512, 512), "784-256-1": (784, 256), "784-64-1": (784, 64)}


def dense(widths: tuple[int, ...]) -> Any:
    """Return a network of dense layers."""
    import torch

    nn = torch.nn
    parts = [each for a, b in pairwise(widths) for each in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(widths[-1], 1))


def nets(widths: tuple[int, ...], device: str) -> dict[str, Any]:
    """Return the supervised network and the pair of networks under skorch."""
    import skorch

    import torch
    from scarless.torch.networks import Batches, PairModule, PairNet, default_propensity

    class Supervised(skorch.NeuralNet):  # type: ignore[misc, unused-ignore]
        """The network alone, by cross-entropy."""

        def infer(self, x: Any, **fit_params: Any) -> Any:
            return self.module_(x)[:, 0]

        def get_loss(self, y_pred: Any, y_true: Any, X: Any = None, training: bool = False) -> Any:
            return torch.nn.functional.binary_cross_entropy_with_logits(y_pred, y_true)

    def net(kind: Any, module: Any) -> Any:
        options = {"optimizer": torch.optim.AdamW, "iterator_train": Batches, "train_split": None, "verbose": 0}
        made = kind(module, torch.nn.Identity, lr=1e-3, batch_size=BATCH, device=device, **options)
        return made.initialize()

    pair = PairModule(dense(widths), default_propensity((1,)))
    return {"supervised": net(Supervised, dense(widths)), "two networks": net(PairNet, pair)}


def rows(n_columns: int, device: str) -> Any:
    """Return random rows."""
    import torch
    from scarless.torch.networks import tensor_rows

    rng = np.random.default_rng(0)
    x, z, s = rng.normal(size=(ROWS, n_columns)), rng.normal(size=(ROWS, 1)), (rng.random(ROWS) < 0.3).astype(float)
    return tensor_rows(x, z, s, np.ones(ROWS), torch.float32).at(device)


def run(repeats: int, device: str = "cpu") -> None:
    """Print the ratio for each size of network."""
    import torch
    from scarless.torch.networks import RowData

    class SupervisedRows(RowData):
        """Rows with the inputs of a supervised network only."""

        def __getitem__(self, i: Any) -> Any:
            return self.rows.x[i], self.rows.s[i]

    torch.set_num_threads(1)
    clock = time.process_time if device == "cpu" else time.perf_counter  # On a GPU the CPU time says nothing.
    for name, widths in SIZES.items():
        table, both = rows(widths[0], device), nets(widths, device)
        data = {"supervised": SupervisedRows(table), "two networks": RowData(table)}
        seconds: dict[str, list[float]] = {kind: [] for kind in both}
        for _ in range(repeats + 2):
            for kind, each in both.items():
                start = clock()
                each.fit_loop(data[kind], None, epochs=1)
                if device != "cpu":
                    torch.cuda.synchronize()
                seconds[kind].append(clock() - start)
                each.history.clear()
        times = {kind: np.array(each[2:]) for kind, each in seconds.items()}
        fastest = {kind: 1e3 * each.min() * BATCH / ROWS for kind, each in times.items()}
        median_ratio = np.median(times["two networks"] / times["supervised"])
        times_text = ", ".join(f"{kind} {ms:.2f} ms" for kind, ms in fastest.items())
        ratio = fastest["two networks"] / fastest["supervised"]
        print(
            f"{name}, a step of {BATCH} rows: {times_text}; ratio {ratio:.3f} of the fastest of {repeats} epochs, ",
            end="",
        )
        print(f"{median_ratio:.3f} median over pairs", flush=True)
