"""Program that fits a network and kills itself. Arguments: folder, epoch at which it is killed (or 0), output file."""

import os
import signal
import sys

import numpy as np

import torch
from scarless.torch import NetTraining, SARNetClassifier, fitting


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.abs(X[:, 0]) > 0.7
    return X, (y & (rng.random(300) < 1 / (1 + np.exp(-X[:, 2])))).astype(int)


def network(n_columns):
    return torch.nn.Sequential(
        torch.nn.Linear(n_columns, 8), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
    )


def make(folder, max_epochs=12):
    training = NetTraining(max_epochs=max_epochs, warm_up=3, batch_size=64, patience=None, lr=0.01)
    options = {"propensity_attributes": [2], "n_starts": 2, "random_state": 5, "checkpoint": folder}
    return SARNetClassifier(network, training=training, **options)


def kill_at(step):
    """Kill the process by SIGKILL after this many epochs were reported."""
    told = {"n": 0}
    trainer = fitting.Trainer

    class Dying(trainer):
        def _held_out(self, net):
            told["n"] += 1
            if told["n"] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return super()._held_out(net)

    fitting.Trainer = Dying


if __name__ == "__main__":
    folder, step, out = sys.argv[1:]
    torch.set_num_threads(1)
    if int(step):
        kill_at(int(step))
    X, s = rows()
    np.save(out, make(folder).fit(X, s).predict_proba(X))
