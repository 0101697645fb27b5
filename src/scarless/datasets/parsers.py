"""Parsers of raw files, which return attributes, classes and attribute names.

Each parser takes the unpacked contents of the files of its dataset, in the order of the registry. Columns have the
order of the raw file. Numbers are not scaled. 20 Newsgroups is an archive of posts; its attributes are the presence of
200 words.
"""

import io
import re
import tarfile
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from scarless.datasets.pu_data import binarise
from scarless.numerics.arrays import Vector
from scarless.outside.extras import need

Parsed = tuple[Vector, NDArray[np.int64], list[str]]
_ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
]
_ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_BREAST_CANCER_COLUMNS = [
    "clump-thickness",
    "uniformity-of-cell-size",
    "uniformity-of-cell-shape",
    "marginal-adhesion",
    "single-epithelial-cell-size",
    "bare-nuclei",
    "bland-chromatin",
    "normal-nucleoli",
    "mitoses",
]
_COVTYPE_COLUMNS = [
    "elevation",
    "aspect",
    "slope",
    "horizontal-distance-to-hydrology",
    "vertical-distance-to-hydrology",
    "horizontal-distance-to-roadways",
    "hillshade-9am",
    "hillshade-noon",
    "hillshade-3pm",
    "horizontal-distance-to-fire-points",
    *(f"wilderness-area-{i}" for i in range(1, 5)),
    *(f"soil-type-{i}" for i in range(1, 41)),
]
_DIABETES_DROPPED = ["encounter_id", "patient_nbr", "weight", "payer_code"]
_DIABETES_MANY_VALUES = [
    "diag_1",
    "diag_2",
    "diag_3",
    "discharge_disposition_id",
    "admission_source_id",
    "medical_specialty",
]
_DIABETES_NUMBERS = [
    "age",
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_outpatient",
    "number_emergency",
    "number_inpatient",
    "number_diagnoses",
]
_MUSHROOM_COLUMNS = [
    "cap-shape",
    "cap-surface",
    "cap-color",
    "bruises",
    "odor",
    "gill-attachment",
    "gill-spacing",
    "gill-size",
    "gill-color",
    "stalk-shape",
    "stalk-root",
    "stalk-surface-above-ring",
    "stalk-surface-below-ring",
    "stalk-color-above-ring",
    "stalk-color-below-ring",
    "veil-type",
    "veil-color",
    "ring-number",
    "ring-type",
    "spore-print-color",
    "population",
    "habitat",
]
Item = TypeVar("Item")
#: Number of attributes of 20 Newsgroups, its most frequent words. Evidence: Bekker, Robberechts and Davis (2019).
N_WORDS = 200
_POST = re.compile(r"(?:\./)?(20news-bydate-(?:train|test)/(?:comp|rec)\.[a-z.-]+/[0-9]+)")
# Numbers of posts in the eleven groups that are not used: those sorted before comp.*, between comp.* and rec.*, and
# after rec.*.
_OTHER_POSTS = {"train": (480, 585, 4924), "test": (319, 390, 3278)}
_QUOTE_ANYWHERE = ("writes in", "writes:", "wrote:", "says:", "said:")
_QUOTE_AT_START = ("In article", "Quoted from", "|", ">")


def _read_csv(content: bytes, **options: Any) -> Any:
    return need("pandas", "Reading this dataset").read_csv(io.BytesIO(content), **options)


def _stacked(tables: list[Any]) -> Any:
    return need("pandas", "Reading this dataset").concat(tables, ignore_index=True)


def _indicator(positive: Any) -> NDArray[np.int64]:
    return np.asarray(positive, dtype=np.int64)


def parse_adult(train: bytes, test: bytes) -> Parsed:
    """Parse UCI Adult, both files; ``?`` is a category; positive: income above 50K.

    The test file begins with a line that is not a row, and its classes end in a full stop.
    """

    def read(content: bytes, n_header_lines: int) -> Any:
        return _read_csv(
            content,
            names=[*_ADULT_COLUMNS, "class"],
            skiprows=n_header_lines,
            skipinitialspace=True,
            keep_default_na=False,
        )

    table = _stacked([read(train, 0), read(test, 1)])
    y = _indicator(table.pop("class").str.rstrip(".") == ">50K")
    X, names = binarise(table, _ADULT_NUMBERS)
    return X, y, names


def parse_breast_cancer(content: bytes) -> Parsed:
    """Parse Breast Cancer Wisconsin (Original), without rows with a missing value; positive: malignant, coded 4."""
    table = _read_csv(content, names=["id", *_BREAST_CANCER_COLUMNS, "class"], na_values="?").dropna()
    X = table[_BREAST_CANCER_COLUMNS].to_numpy(dtype=np.float64)
    return X, _indicator(table["class"] == 4), list(_BREAST_CANCER_COLUMNS)


def parse_covtype(content: bytes) -> Parsed:
    """Parse UCI Cover Type; positive: class 2, Lodgepole Pine."""
    table = _read_csv(content, header=None, dtype=np.int32).to_numpy()
    return table[:, :-1].astype(np.float64, order="C"), _indicator(table[:, -1] == 2), list(_COVTYPE_COLUMNS)


def parse_diabetes(content: bytes) -> Parsed:
    """Parse Diabetes 130 US hospitals; positive: readmitted within 30 days.

    The order of the steps matters: rare values are pooled before rows with ``?`` are dropped. A rare ``?`` in the
    diagnoses therefore becomes ``other``, and its row is kept.
    """
    # "None" is a category of max_glu_serum and A1Cresult, not a missing value.
    table = _read_csv(content, keep_default_na=False, dtype=str).drop(columns=_DIABETES_DROPPED)
    readmitted = table.pop("readmitted")
    table["medical_specialty"] = table["medical_specialty"].replace("?", "Missing")
    for column in _DIABETES_MANY_VALUES:
        table[column] = _pool_rare(table[column], n_kept=10)
    shares = {column: table[column].value_counts(normalize=True).max() for column in table.columns}
    table = table[[column for column, share in shares.items() if share <= 0.95]]
    kept = ~table.isin(["?", "Unknown/Invalid"]).any(axis=1)
    table, readmitted = table[kept], readmitted[kept]
    table = table.assign(age=table["age"].str.extract(r"\[(\d+)-", expand=False))  # [40-50) becomes 40
    X, names = binarise(table, _DIABETES_NUMBERS)
    return X, _indicator(readmitted == "<30"), names


def _pool_rare(values: Any, *, n_kept: int) -> Any:
    """Replace all but the `n_kept` most frequent values by ``other``; ties are broken alphabetically."""
    counts = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return values.where(values.isin(counts.index[:n_kept]), "other")


def parse_image_segmentation(train: bytes, test: bytes) -> Parsed:
    """Parse UCI Image Segmentation, both files, with five header lines each; positive: sky, grass and foliage."""
    columns = train.decode("ascii").splitlines()[3].lower().split(",")
    table = _stacked([_read_csv(content, names=["class", *columns], skiprows=5) for content in (train, test)])
    y = _indicator(table.pop("class").isin(["SKY", "GRASS", "FOLIAGE"]))
    table = table.drop(columns="region-pixel-count")  # always 9
    return table.to_numpy(dtype=np.float64), y, list(table.columns)


def parse_mushroom(content: bytes) -> Parsed:
    """Parse UCI Mushroom; ``?`` is a category; positive: poisonous."""
    table = _read_csv(content, names=["class", *_MUSHROOM_COLUMNS], keep_default_na=False, dtype=str)
    y = _indicator(table.pop("class") == "p")
    X, names = binarise(table.drop(columns="veil-type"))  # a constant column
    return X, y, names


def parse_splice(train: bytes, test: bytes) -> Parsed:
    """Parse LIBSVM's splice, both files; bases are coded 1 to 4; positive: class +1."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

    parts = [load_svmlight_file(io.BytesIO(content), n_features=60) for content in (train, test)]
    X = np.vstack([rows.toarray() for rows, _ in parts])
    return X, _indicator(np.concatenate([y for _, y in parts]) == 1), [f"base-{i}" for i in range(1, 61)]


def list_posts(archive: bytes) -> bytes:
    """Return the posts of the ``comp`` and ``rec`` groups in a tar archive, joined in one listing.

    Archives with the same posts give the same bytes, however they were packed. Posts are sorted by name. Each
    post follows a line with its name and its length in bytes. Members with other names, links and sparse files are
    ignored, so a name that leads out of the folder has no effect.
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
        raise ValueError(f"is not a complete tar archive ({error})") from error
    return b"".join(b"%s %d\n%s" % (name.encode(), len(posts[name]), posts[name]) for name in sorted(posts))


def read_posts(listing: bytes) -> dict[str, bytes]:
    """Return the name and content of each post in the output of `list_posts`."""
    posts, start = {}, 0
    while start < len(listing):
        end = listing.index(b"\n", start)
        name, length = listing[start:end].decode().split(" ")
        start = end + 1 + int(length)
        posts[name] = listing[end + 1 : start]
    return posts


def parse_newsgroups(listing: bytes) -> tuple[Vector, NDArray[np.int64], list[str]]:
    """Parse 20 Newsgroups, both parts of the version "by date"; positive: ``comp`` groups.

    The attributes are the presence of the 200 most frequent words. Words that occur in equally many posts are
    ranked alphabetically. Of the three words at rank 200 (``add``, ``board``, ``write``) this selects ``add``, as in
    the table of Bekker, Robberechts and Davis (2019).
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
    """Return the posts in the order of scikit-learn's ``fetch_20newsgroups(subset="all")``.

    The table of Bekker, Robberechts and Davis (2019) has the same order. scikit-learn's function sorts each part with
    all twenty groups, shuffles it with seed 0, and then selects the groups. It concatenates training and test parts,
    and shuffles them with seed 42.
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
    np.random.RandomState(seed).shuffle(positions)  # NumPy guarantees the same result in every version
    return [items[position] for position in positions]


def strip_header(post: str) -> str:
    """Return the text after the first blank line."""
    return post.partition("\n\n")[2]


def strip_footer(post: str) -> str:
    """Return the post without the block after its last separator, a line that is blank or consists of hyphens."""
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


def parse_teisseyre(data: bytes) -> Parsed:
    """Return a table of Teisseyre et al. (2025); with several classes, the most frequent one is positive.

    The last column but `BinClass`, which is dropped, is the class. Numbers are used as they are.
    """
    header, *lines = data.decode("utf-8").splitlines()
    names = header.split(",")
    keep = [j for j, name in enumerate(names) if name != "BinClass"]
    values = np.array([line.split(",") for line in lines if line], dtype=np.float64)[:, keep]
    y = values[:, -1]
    classes, counts = np.unique(y, return_counts=True)
    positive = 1.0 if classes.size == 2 else classes[counts.argmax()]
    return values[:, :-1], (y == positive).astype(np.int64), [names[j] for j in keep[:-1]]
