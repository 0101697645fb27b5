"""20 Newsgroups: from an archive of posts to the presence of 200 words."""

import io
import re
import tarfile
import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scarless.numerics.arrays import Vector

Item = TypeVar("Item")

N_WORDS = 200
_POST = re.compile(r"(?:\./)?(20news-bydate-(?:train|test)/(?:comp|rec)\.[a-z.-]+/[0-9]+)")
# Posts of the other eleven groups that come before comp.*, between comp.* and rec.*, and after rec.*
_OTHER_POSTS = {"train": (480, 585, 4924), "test": (319, 390, 3278)}

_QUOTE_ANYWHERE = ("writes in", "writes:", "wrote:", "says:", "said:")
_QUOTE_AT_START = ("In article", "Quoted from", "|", ">")


def list_posts(archive: bytes) -> bytes:
    """Return the posts of the ``comp`` and ``rec`` groups in a tar archive, in one form whatever the archive.

    Sorted by name, each post is a line with its name and its length in bytes, followed by the post. Members with any
    other name, links and sparse files are passed over, so that a name that climbs out of its folder means nothing.
    """
    posts = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                found = _POST.fullmatch(member.name)
                if found and member.isreg() and not member.issparse():
                    file = tar.extractfile(member)
                    posts[found[1]] = file.read() if file is not None else b""
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"is not a whole tar archive ({error})") from error
    return b"".join(b"%s %d\n%s" % (name.encode(), len(posts[name]), posts[name]) for name in sorted(posts))


def read_posts(listing: bytes) -> dict[str, bytes]:
    """Return name and content of each post that `list_posts` listed."""
    posts, at = {}, 0
    while at < len(listing):
        end = listing.index(b"\n", at)
        name, length = listing[at:end].decode().split(" ")
        at = end + 1 + int(length)
        posts[name] = listing[end + 1 : at]
    return posts


def parse_newsgroups(listing: bytes) -> tuple[Vector, NDArray[np.int64], list[str]]:
    """20 Newsgroups by date, both parts: presence of the 200 most frequent words; positive: ``comp`` groups.

    Words that occur in equally many posts are ranked by the alphabet, which settles the tie at the 200th place
    (``add``, ``board``, ``write``) for ``add``, as in the authors' table.
    """
    from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415

    posts = read_posts(listing)
    names = sklearn_order(posts)
    texts = [strip_quotes(strip_footer(strip_header(posts[name].decode("latin1")))) for name in names]
    vectoriser = CountVectorizer(
        binary=True,
        stop_words="english",
        strip_accents="ascii",
        token_pattern=r"(?u)\b[A-Za-z][A-Za-z]+\b",
    )
    presence = vectoriser.fit_transform(texts).tocsc()
    words = vectoriser.get_feature_names_out()  # in alphabetical order
    n_posts_with = np.diff(presence.indptr)
    chosen = np.sort(np.argsort(-n_posts_with, kind="stable")[:N_WORDS])
    y = np.array([name.split("/")[1].startswith("comp.") for name in names], dtype=np.int64)
    return presence[:, chosen].toarray().astype(np.float64), y, words[chosen].tolist()


def sklearn_order(names: Sequence[str] | dict[str, bytes]) -> list[str]:
    """Return the posts in the authors' order, that of scikit-learn's ``fetch_20newsgroups(subset="all")``.

    There, each part is sorted, shuffled with seed 0 while all twenty groups are in it, then cut down to the groups
    wanted; train and test are joined and shuffled with seed 42.
    """
    order: list[str] = []
    for part, (before, between, after) in _OTHER_POSTS.items():
        comp, rec = (
            sorted(name for name in names if name.startswith(f"20news-bydate-{part}/{topic}."))
            for topic in ("comp", "rec")
        )
        everything = [*[""] * before, *comp, *[""] * between, *rec, *[""] * after]
        order += [name for name in _shuffled(everything, seed=0) if name]
    return _shuffled(order, seed=42)


def _shuffled(items: list[Item], *, seed: int) -> list[Item]:
    positions = np.arange(len(items))
    np.random.RandomState(seed).shuffle(positions)  # frozen by NumPy: the same in every version
    return [items[position] for position in positions]


def strip_header(post: str) -> str:
    """Return everything after the first blank line."""
    return post.partition("\n\n")[2]


def strip_footer(post: str) -> str:
    """Return the post without the block after its last separator, a line that is blank or made of hyphens."""
    lines = post.strip().split("\n")
    separators = [i for i, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: separators[-1]]) if separators and separators[-1] > 0 else post


def strip_quotes(post: str) -> str:
    """Return the post without quoted lines and the lines that introduce them."""
    return "\n".join(
        line
        for line in post.split("\n")
        if not line.startswith(_QUOTE_AT_START) and not any(mark in line for mark in _QUOTE_ANYWHERE)
    )
