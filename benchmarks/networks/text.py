"""Posts of 20 Newsgroups with biased labels, classified by an embedding-bag network.

Posts of the ``comp`` groups are positive, posts of the ``rec`` groups are negative. A post is the sequence of its words
as numbers, padded with 0. Positives are labelled at random, by the length of the post, by an attribute beside it, or by
the class probability.
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

from benchmarks.networks.common import Setting, label_and_split, methods, print_table, standard

KINDS = ("scar", "attribute", "length", "class probability")
MAX_WORDS, VOCABULARY_SIZE, EMBEDDING_WIDTH = 120, 5000, 32
WORD = re.compile(r"[a-z][a-z]+")


def posts(folder: str | Path | None) -> tuple[list[str], Any]:
    """Return texts without headers, footers and quotes, and 1 for posts of ``comp`` groups, 0 for others."""
    from scarless.datasets import parsers as news

    place = Path(folder) if folder is not None else _shared()
    archives = sorted(place.glob("20news-bydate*.tar.?z")) if place is not None and place.is_dir() else []
    if not archives:
        raise FileNotFoundError(
            f"No archive of 20 Newsgroups in {place}: put 20news-bydate.tar.gz (or .xz) there, and pass that folder "
            "with --folder."
        )
    unpack = gzip.decompress if archives[0].suffix == ".gz" else lzma.decompress
    found = news.read_posts(news.list_posts(unpack(archives[0].read_bytes())))
    names = news.sklearn_order(found)
    texts = [_stripped(news, found[name].decode("latin1")).lower() for name in names]
    return texts, np.array([name.split("/")[1].startswith("comp.") for name in names]).astype(int)


def token_ids(texts: list[str]) -> Any:
    """Return words as numbers: from 2 on for the most frequent words, 1 for all others, 0 after the end."""
    words = [WORD.findall(text)[:MAX_WORDS] for text in texts]
    counts = Counter(word for each in words for word in each)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY_SIZE - 2]
    number = {word: i + 2 for i, word in enumerate(frequent)}
    ids = np.zeros((len(words), MAX_WORDS), dtype=np.int64)
    for row, each in enumerate(words):
        ids[row, : len(each)] = [number.get(word, 1) for word in each]
    return ids


def bag() -> Any:
    """Return a network that averages the embeddings of the words, with one hidden layer."""
    import torch

    nn = torch.nn
    embedding = nn.EmbeddingBag(VOCABULARY_SIZE, EMBEDDING_WIDTH, mode="mean", padding_idx=0)
    return nn.Sequential(
        embedding,
        nn.Dropout(0.3),
        nn.Linear(EMBEDDING_WIDTH, EMBEDDING_WIDTH),
        nn.ReLU(),
        nn.Linear(EMBEDDING_WIDTH, 1),
    )


def log_length(ids: Any) -> Any:
    """Return the logarithm of one plus the number of words of each post."""
    return np.log1p(np.asarray(ids > 0).sum(axis=1))


def mechanism(kind: str, ids: Any, y: Any, rng: Any) -> tuple[Any, Any, Any]:
    """Return attributes of the propensity, propensities, and the function that computes the attributes or None."""
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
    # Clear cases are labelled first. The propensity model sees which of twenty words occur in the post.
    counts = np.stack([np.bincount(row, minlength=VOCABULARY_SIZE)[2:502] > 0 for row in ids]).astype(float)
    logit = cross_val_predict(LogisticRegression(C=0.1), counts, y, cv=5, method="decision_function")
    importance = np.abs(LogisticRegression(C=0.1).fit(counts, logit > np.median(logit)).coef_[0])
    return counts[:, np.argsort(-importance)[:20]], expit(1.4 * standard(logit) - 1.0), None


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
            data = label_and_split(ids[some], Z, y[some], e, seed=seed, rng=rng)
            found.append(methods(setting, data, seed, features))
        print_table(f"newsgroups, labels by {kind}, {len(data.y):,} training rows", found)


def _stripped(news: Any, post: str) -> str:
    return str(news.strip_quotes(news.strip_footer(news.strip_header(post))))


def _shared() -> Path | None:
    """Return the folder of the archive beside the repository, or None."""
    for up in Path(__file__).resolve().parents:
        if (up / "shared" / "data" / "20newsgroups").is_dir():
            return up / "shared" / "data" / "20newsgroups"
    return None
