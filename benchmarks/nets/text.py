"""Posts of 20 Newsgroups whose labels are biased, by an embedding-bag network of their words.

Posts of the ``comp`` groups are positive, those of the ``rec`` groups are not. A post is the sequence of its words as
numbers, filled up with 0; nothing but words is seen. Labels are given at random, by the length of the post, by an
attribute beside it, and by how clear a case it is.
"""

import gzip
import lzma
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from benchmarks.nets.common import Setting, methods, parted, print_table, standard

KINDS = ("scar", "attribute", "length", "class probability")
LONGEST, VOCABULARY, WIDTH = 120, 5000, 32
WORD = re.compile(r"[a-z][a-z]+")


def posts(folder: str | Path | None) -> tuple[list[str], Any]:
    """Return texts without headers, footers and quotes, and whether each is of a ``comp`` group."""
    from scarless.datasets import parsers as news

    place = Path(folder) if folder is not None else _shared()
    archives = sorted(place.glob("20news-bydate*.tar.?z")) if place is not None and place.is_dir() else []
    if not archives:
        raise FileNotFoundError(
            f"No archive of 20 Newsgroups in {place}: put 20news-bydate.tar.gz (or .xz) there, and name that folder "
            "with --folder."
        )
    unpack = gzip.decompress if archives[0].suffix == ".gz" else lzma.decompress
    found = news.read_posts(news.list_posts(unpack(archives[0].read_bytes())))
    names = news.sklearn_order(found)
    texts = [_stripped(news, found[name].decode("latin1")).lower() for name in names]
    return texts, np.array([name.split("/")[1].startswith("comp.") for name in names]).astype(int)


def token_ids(texts: list[str]) -> Any:
    """Return words as numbers, 0 where a post has ended: the most frequent words from 2 on, every other is 1."""
    words = [WORD.findall(text)[:LONGEST] for text in texts]
    counts = Counter(word for each in words for word in each)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 2]
    number = {word: i + 2 for i, word in enumerate(frequent)}
    ids = np.zeros((len(words), LONGEST), dtype=np.int64)
    for row, each in enumerate(words):
        ids[row, : len(each)] = [number.get(word, 1) for word in each]
    return ids


def bag() -> Any:
    """Return an embedding-bag network: mean of the words' vectors, then one hidden layer."""
    import torch

    nn = torch.nn
    embedding = nn.EmbeddingBag(VOCABULARY, WIDTH, mode="mean", padding_idx=0)
    return nn.Sequential(embedding, nn.Dropout(0.3), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))


def log_length(ids: Any) -> Any:
    """Return the logarithm of how many words a post has."""
    return np.log1p(np.asarray(ids > 0).sum(axis=1))


def mechanism(kind: str, ids: Any, y: Any, rng: Any) -> tuple[Any, Any, Any]:
    """Return what the propensity sees, propensities, and the function of ids that it sees, if it is one."""
    if kind == "scar":
        return np.empty((len(ids), 0)), np.full(len(ids), 0.4), None
    if kind == "attribute":
        site = rng.normal(size=len(ids))
        return site[:, None], expit(2 * site - 0.5), None
    if kind == "length":
        mean, unit = log_length(ids).mean(), log_length(ids).std()

        def length(ids: Any) -> Any:
            return (log_length(ids) - mean) / unit

        return length(ids)[:, None], expit(1.5 * length(ids) - 0.5), length
    # Clear cases are found first; whoever labels reads twenty words, and the propensity sees whether they are there.
    counts = np.stack([np.bincount(row, minlength=VOCABULARY)[2:502] > 0 for row in ids]).astype(float)
    logit = cross_val_predict(LogisticRegression(C=0.1), counts, y, cv=5, method="decision_function")
    telling = np.abs(LogisticRegression(C=0.1).fit(counts, logit > np.median(logit)).coef_[0])
    return counts[:, np.argsort(-telling)[:20]], expit(1.4 * standard(logit) - 1.0), None


def run(
    *,
    folder: str | None,
    seeds: range,
    rows: int,
    kinds: tuple[str, ...] = KINDS,
    device: str = "cpu",
    n_mean: int = 5,
) -> None:
    """Print a table for each mechanism."""
    texts, y = posts(folder)
    ids = token_ids(texts)
    enough = (ids > 0).sum(axis=1) >= 5
    ids, y = ids[enough], y[enough]
    setting = Setting(bag, epochs=60, patience=8, integers=True, device=device, n_mean=n_mean)
    for kind in kinds:
        found = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            some = rng.permutation(len(y))[: round(rows / 0.7)] if rows else np.arange(len(y))
            Z, e, features = mechanism(kind, ids[some], y[some], rng)
            data = parted(ids[some], Z, y[some], e, seed=seed, rng=rng)
            found.append(methods(setting, data, seed, features))
        print_table(f"newsgroups, labels by {kind}, {len(data.y):,} training rows", found)


def _stripped(news: Any, post: str) -> str:
    return str(news.strip_quotes(news.strip_footer(news.strip_header(post))))


def _shared() -> Path | None:
    """Return the folder of the archive beside the checkout, if there is one."""
    for up in Path(__file__).resolve().parents:
        if (up / "shared" / "data" / "20newsgroups").is_dir():
            return up / "shared" / "data" / "20newsgroups"
    return None
