"""Integers, such as token ids, are passed to a network unchanged; nearly constant columns are not scaled."""

from typing import ClassVar

import numpy as np
import pytest
from scipy.special import expit
from tests.torch.nets import make_net

import torch
from scarless.torch.inputs import InputScale

pytestmark = pytest.mark.filterwarnings("ignore:The fit of SARNetClassifier is uncertain:UserWarning")
QUICK = {"max_epochs": 3, "warm_up": 1, "patience": None, "random_state": 0}


class Bag(torch.nn.Module):
    """An embedding-bag network that stores its inputs."""

    seen: ClassVar[list] = []

    def __init__(self):
        super().__init__()
        self.words, self.out = torch.nn.EmbeddingBag(50, 4, padding_idx=0), torch.nn.Linear(4, 1)

    def forward(self, ids):
        Bag.seen.append((ids.dtype, ids.shape[1:], int(ids.min()), int(ids.max())))
        return self.out(self.words(ids))


def texts(n=300):
    """Return token ids, padded with 0, and labels; longer positive texts are labelled more often."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.5
    length = rng.integers(3, 13, size=n)
    ids = np.where(y[:, None], rng.integers(1, 30, size=(n, 12)), rng.integers(20, 50, size=(n, 12)))
    ids[np.arange(12) >= length[:, None]] = 0
    return ids, (y & (rng.random(n) < expit((length - 7) / 2))).astype(int), y


def length(ids):
    return (ids > 0).sum(axis=1)


@pytest.mark.parametrize("recalibrate", [False, "held-out", "out-of-fold"])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint16, np.float64])
def test_token_ids_are_integers_for_the_network_and_neither_scaled_nor_rounded(kind, recalibrate):
    ids, s, _ = texts()
    Bag.seen.clear()
    net = make_net(Bag, integers=True, propensity_features=length, recalibrate=recalibrate, **QUICK)
    net.fit(ids.astype(kind), s).predict_proba(ids.astype(kind))
    assert {dtype for dtype, *_ in Bag.seen} == {torch.int64}
    assert {shape for _, shape, *_ in Bag.seen} == {(12,)}
    assert min(low for *_, low, _ in Bag.seen) == 0
    assert max(high for *_, high in Bag.seen) == ids.max()


def test_every_token_counts_for_itself():
    """The probability of a text of one word is that of the vector of this word."""
    ids, s, _ = texts()
    net = make_net(Bag, integers=True, recalibrate=False, **QUICK).fit(ids, s)
    words = np.zeros((49, 12), dtype=int)
    words[:, 0] = np.arange(1, 50)
    with torch.no_grad():
        u = net.module_.out(net.module_.words.weight[1:])[:, 0].numpy()
    np.testing.assert_allclose(net.predict_proba(words)[:, 1], expit(u), atol=1e-6)


def test_texts_with_biased_labels_are_classified():
    ids, s, y = texts(1500)
    net = make_net(Bag, integers=True, propensity_features=length, lr=0.02, patience=10, random_state=0)
    net.fit(ids, s)
    assert np.mean(net.predict(ids) != y) < 0.06
    assert net.class_prior_ == pytest.approx(y.mean(), abs=0.05)


def test_numbers_that_are_no_integers_are_refused():
    ids, s, _ = texts()
    halves = ids / 2
    with pytest.raises(
        ValueError, match=r"X must hold non-negative integers.* if integers=True.*first: X\[0, \d+\] = "
    ):
        make_net(Bag, integers=True, **QUICK).fit(halves, s)
    net = make_net(Bag, integers=True, **QUICK).fit(ids, s)
    ids[0, 0] = -1
    with pytest.raises(ValueError, match=r"1 of 3600 values are not \(first: X\[0, 0\] = -1\)"):
        net.predict_proba(ids)


@pytest.mark.parametrize("module", [Bag, lambda: torch.nn.Sequential(torch.nn.Embedding(50, 1), torch.nn.Flatten())])
def test_an_embedding_without_integers_is_refused(module):
    ids, s, _ = texts()
    with pytest.raises(ValueError, match=r"module begins with Embedding(Bag)?, which needs integers.* integers=True"):
        make_net(module, **QUICK).fit(ids, s)


def test_integers_is_a_flag():
    ids, s, _ = texts()
    with pytest.raises(ValueError, match="integers must be True or False; got 'yes'"):
        make_net(Bag, integers="yes", **QUICK).fit(ids, s)


@pytest.mark.parametrize("size", [0.0, 1.0, 1e6, -3e-8])
@pytest.mark.parametrize("wobble", [0.0, 1e-9, 1e-6])
def test_nearly_constant_columns_are_not_scaled(size, wobble):
    rng = np.random.default_rng(0)
    column = size * (1 + wobble * rng.normal(size=(500, 1)))
    scale = InputScale.of(column, True)
    assert np.abs(scale(column)).max() <= max(1e-5 * abs(size), 1e-12)
    assert np.abs(scale(column + 1.0)).max() == pytest.approx(1.0, rel=1e-4, abs=1e-4 * abs(size))


def test_a_column_with_small_or_rare_values_is_scaled():
    rng = np.random.default_rng(0)
    table = np.column_stack([1e-9 * rng.normal(size=5000), np.arange(5000) == 7, 1000 + rng.normal(size=5000)])
    scaled = InputScale.of(table, True)(table)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, atol=1e-12)


def test_new_rows_of_a_constant_column_change_little():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 2)), 1.0 + 1e-9 * rng.normal(size=300)])
    s = (rng.random(300) < 0.5 * expit(2 * X[:, 0])).astype(int)
    net = make_net(**QUICK).fit(X, s)
    other = X.copy()
    other[:, 2] += 0.01
    assert np.abs(net.predict_proba(other) - net.predict_proba(X)).max() < 0.01
