"""The paper's eight datasets and its labelling protocol, read from raw files.

Each dataset has one parser that turns the bytes of its raw files into ``(X, y, names)``; `load` finds and
unpacks the files, calls the parser and scales. Nothing is extracted to disk.

Run ``python -m benchmarks.datasets`` for the table of rows, attributes and class priors.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

from scarless.labelling import GeometricMeanSAR, simulate_labels

Parsed = tuple[np.ndarray, np.ndarray, list[str]]

ADULT_COLUMNS = [
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
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")

BREASTCANCER_COLUMNS = [
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

COVTYPE_COLUMNS = [
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

DIABETES_DROPPED = ["encounter_id", "patient_nbr", "weight", "payer_code"]
DIABETES_MANY_VALUES = [
    "diag_1",
    "diag_2",
    "diag_3",
    "discharge_disposition_id",
    "admission_source_id",
    "medical_specialty",
]
DIABETES_NUMBERS = [
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

MUSHROOM_COLUMNS = [
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

QUOTE_ANYWHERE = ("writes in", "writes:", "wrote:", "says:", "said:")
QUOTE_AT_START = ("In article", "Quoted from", "|", ">")


def binarise(table: pd.DataFrame, numbers: tuple[str, ...] | list[str] = ()) -> tuple[np.ndarray, list[str]]:
    """Turn each column that is not in ``numbers`` into -1/+1 columns, in place and in sorted order of values.

    More than two values give one column per value; two give one column, +1 for the later value; one value
    gives none.
    """
    blocks, names = [], []
    for column in table.columns:
        values = table[column]
        if column in numbers:
            blocks.append(values.to_numpy(dtype=np.float64)[:, None])
            names.append(column)
            continue
        codes, levels = pd.factorize(values, sort=True)
        kept = range(len(levels)) if len(levels) > 2 else range(1, len(levels))
        for level in kept:
            blocks.append(np.where(codes == level, 1.0, -1.0)[:, None])
            names.append(f"{column}={levels[level]}")
    return np.hstack(blocks), names


def scale(X: np.ndarray, names: list[str]) -> np.ndarray:
    """Scale every column to [-1, 1] by its minimum and maximum over the whole dataset."""
    low, high = X.min(axis=0), X.max(axis=0)
    constant = np.flatnonzero(low == high)
    if constant.size:
        raise ValueError(
            f"every attribute must take at least two values; {constant.size} of {X.shape[1]} are constant "
            f"(first: {names[constant[0]]!r}). Drop them in the parser."
        )
    scaled = np.ascontiguousarray(X, dtype=np.float64)
    return 2.0 * (scaled - low) / (high - low) - 1.0


def parse_adult(train: bytes, test: bytes) -> Parsed:
    """UCI Adult, both files; ``?`` is a value like any other; positive: income above 50K."""

    def read(raw: bytes, n_header_lines: int) -> pd.DataFrame:
        return pd.read_csv(
            io.BytesIO(raw),
            names=[*ADULT_COLUMNS, "class"],
            skiprows=n_header_lines,
            skipinitialspace=True,
            keep_default_na=False,
        )

    table = pd.concat([read(train, 0), read(test, 1)], ignore_index=True)
    y = table.pop("class").str.rstrip(".").eq(">50K").to_numpy(dtype=np.int64)
    X, names = binarise(table, ADULT_NUMBERS)
    return X, y, names


def parse_breastcancer(data: bytes) -> Parsed:
    """Breast Cancer Wisconsin (Original); rows with a missing value dropped; positive: malignant."""
    table = pd.read_csv(io.BytesIO(data), names=["id", *BREASTCANCER_COLUMNS, "class"], na_values="?").dropna()
    y = table["class"].eq(4).to_numpy(dtype=np.int64)
    return table[BREASTCANCER_COLUMNS].to_numpy(dtype=np.float64), y, list(BREASTCANCER_COLUMNS)


def parse_covtype(data: bytes) -> Parsed:
    """UCI Cover Type; positive: class 2, Lodgepole Pine."""
    table = pd.read_csv(io.BytesIO(data), header=None, dtype=np.int32).to_numpy()
    return table[:, :-1].astype(np.float64), (table[:, -1] == 2).astype(np.int64), list(COVTYPE_COLUMNS)


def parse_diabetes(data: bytes) -> Parsed:
    """Diabetes 130 US hospitals; positive: readmitted within 30 days.

    The order of the steps matters: rare values are pooled before rows with ``?`` are dropped, so a rare ``?``
    (in the diagnoses) becomes ``other`` and its row stays.
    """
    # "None" is a value of max_glu_serum and A1Cresult, not a gap.
    table = pd.read_csv(io.BytesIO(data), keep_default_na=False, dtype=str).drop(columns=DIABETES_DROPPED)
    readmitted = table.pop("readmitted")
    table["medical_specialty"] = table["medical_specialty"].replace("?", "Missing")
    for column in DIABETES_MANY_VALUES:
        table[column] = _pool_rare(table[column], n_kept=10)
    shares = {column: table[column].value_counts(normalize=True).max() for column in table.columns}
    table = table[[column for column, share in shares.items() if share <= 0.95]]
    keep = ~table.isin(["?", "Unknown/Invalid"]).any(axis=1)
    table, readmitted = table[keep], readmitted[keep]
    table = table.assign(age=table["age"].str.extract(r"\[(\d+)-", expand=False))
    X, names = binarise(table, DIABETES_NUMBERS)
    return X, readmitted.eq("<30").to_numpy(dtype=np.int64), names


def _pool_rare(values: pd.Series, *, n_kept: int) -> pd.Series:
    """Replace all but the ``n_kept`` commonest values by ``other``; ties go to the earlier name."""
    counts = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return values.where(values.isin(counts.index[:n_kept]), "other")


def parse_imagesegmentation(train: bytes, test: bytes) -> Parsed:
    """UCI Image Segmentation, both files; positive: sky, grass and foliage."""
    columns = train.decode("ascii").splitlines()[3].lower().split(",")
    tables = [pd.read_csv(io.BytesIO(raw), names=["class", *columns], skiprows=5) for raw in (train, test)]
    table = pd.concat(tables, ignore_index=True)
    y = table.pop("class").isin(["SKY", "GRASS", "FOLIAGE"]).to_numpy(dtype=np.int64)
    table = table.drop(columns="region-pixel-count")  # always 9
    return table.to_numpy(dtype=np.float64), y, list(table.columns)


def parse_mushroom(data: bytes) -> Parsed:
    """UCI Mushroom; ``?`` is a value like any other; positive: poisonous."""
    table = pd.read_csv(io.BytesIO(data), names=["class", *MUSHROOM_COLUMNS], keep_default_na=False, dtype=str)
    y = table.pop("class").eq("p").to_numpy(dtype=np.int64)
    X, names = binarise(table.drop(columns="veil-type"))  # one value only
    return X, y, names


def parse_splice(train: bytes, test: bytes) -> Parsed:
    """LIBSVM's splice, both files; bases are coded 1 to 4; positive: class +1."""
    parts = [load_svmlight_file(io.BytesIO(raw), n_features=60) for raw in (train, test)]
    X = np.vstack([part[0].toarray() for part in parts])
    y = np.concatenate([part[1] for part in parts])
    return X, (y == 1).astype(np.int64), [f"base-{i}" for i in range(1, 61)]


def parse_newsgroups(archive: bytes, order: bytes) -> Parsed:
    """20 Newsgroups by date, both parts: presence of the 200 most frequent words; positive: comp groups.

    Words with equally many documents are ranked by the alphabet, which settles the tie at the 200th place
    (``add``, ``board``, ``write``) for ``add``, as in the authors' table.
    """
    paths = order.decode("ascii").split()
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        raw = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    posts = [strip_quotes(strip_footer(strip_header(raw[path].decode("latin1")))) for path in paths]
    vectoriser = CountVectorizer(
        binary=True,
        stop_words="english",
        strip_accents="ascii",
        token_pattern=r"(?u)\b[A-Za-z][A-Za-z]+\b",
    )
    presence = vectoriser.fit_transform(posts).tocsc()
    words = vectoriser.get_feature_names_out()  # in alphabetical order
    n_posts_with = np.diff(presence.indptr)
    chosen = np.sort(np.argsort(-n_posts_with, kind="stable")[:200])
    y = np.array([path.split("/")[1].startswith("comp.") for path in paths], dtype=np.int64)
    return presence[:, chosen].toarray().astype(np.float64), y, words[chosen].tolist()


def strip_header(post: str) -> str:
    """Everything after the first blank line."""
    return post.partition("\n\n")[2]


def strip_footer(post: str) -> str:
    """The post without the block after its last separator, a line that is blank or made of hyphens."""
    lines = post.strip().split("\n")
    separators = [i for i, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: separators[-1]]) if separators and separators[-1] > 0 else post


def strip_quotes(post: str) -> str:
    """The post without quoted lines and the lines that introduce them."""
    return "\n".join(
        line
        for line in post.split("\n")
        if not line.startswith(QUOTE_AT_START) and not any(mark in line for mark in QUOTE_ANYWHERE)
    )


@dataclass(frozen=True)
class Source:
    """The raw files of a dataset, and the parser that takes their unpacked bytes in that order."""

    files: tuple[str, ...]
    parse: Callable[..., Parsed]


SOURCES = {
    "newsgroups": Source(
        ("20newsgroups/20news-bydate-comp-rec.tar.xz", "20newsgroups/sklearn_order_comp_rec.txt.gz"),
        parse_newsgroups,
    ),
    "adult": Source(("adult/adult.data.gz", "adult/adult.test.gz"), parse_adult),
    "breastcancer": Source(("breastcancer/breast-cancer-wisconsin.data.gz",), parse_breastcancer),
    "covtype": Source(("covtype/covtype.data.gz",), parse_covtype),
    "diabetes": Source(("diabetes/diabetic_data.csv.gz",), parse_diabetes),
    "imagesegmentation": Source(
        ("imagesegmentation/segmentation.data.gz", "imagesegmentation/segmentation.test.gz"),
        parse_imagesegmentation,
    ),
    "mushroom": Source(("mushroom/agaricus-lepiota.data.gz",), parse_mushroom),
    "splice": Source(("splice/splice.gz", "splice/splice.t.gz"), parse_splice),
}


def find_data_home(data_home: str | Path | None = None) -> Path:
    """Directory of the raw files: the argument, else ``SCARLESS_DATA``, else ``../shared/data``."""
    if data_home is None:
        data_home = os.environ.get("SCARLESS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(data_home)


def read_unpacked(path: Path) -> bytes:
    """Contents of a ``.gz`` or ``.xz`` file."""
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}[path.suffix]
    return unpack(path.read_bytes())


def load(name: str, data_home: str | Path | None = None) -> Parsed:
    """Attributes scaled to [-1, 1] (float64, C-contiguous), class (0/1) and attribute names of a dataset."""
    if name not in SOURCES:
        raise ValueError(f"name must be one of {sorted(SOURCES)}; got {name!r}.")
    home = find_data_home(data_home)
    source = SOURCES[name]
    missing = [file for file in source.files if not (home / file).is_file()]
    if missing:
        raise FileNotFoundError(f"dataset {name!r} needs {missing} under {home}. Set SCARLESS_DATA or pass data_home.")
    X, y, names = source.parse(*(read_unpacked(home / file) for file in source.files))
    return scale(X, names), y, names


def propensity_attributes(X: np.ndarray, rng: np.random.Generator, n_attributes: int = 4) -> np.ndarray:
    """Binary attributes (-1/+1) that depend on the others through clusters, as in the paper.

    For each: k-means with 5 clusters, a uniform random probability per cluster, a Bernoulli draw per row. The
    clusters are fitted on at most 20,000 rows, drawn anew for each attribute.
    """
    n = X.shape[0]
    columns = []
    for _ in range(n_attributes):
        rows = rng.choice(n, size=20_000, replace=False) if n > 20_000 else slice(None)
        k_means = KMeans(n_clusters=5, random_state=int(rng.integers(2**31))).fit(X[rows])
        chance = rng.random(5)[k_means.predict(X)]
        columns.append(np.where(rng.random(n) < chance, 1.0, -1.0))
    return np.column_stack(columns)


@dataclass(frozen=True)
class PaperSetting:
    """One labelled train/test split; X holds the dataset's attributes, then the four propensity ones.

    ``propensity_columns`` are those that drive e: the first k of the four.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    s_train: np.ndarray
    e_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    s_test: np.ndarray
    e_test: np.ndarray
    names: list[str]
    original_columns: np.ndarray
    propensity_columns: np.ndarray


def paper_setting(name: str, k: int = 4, seed: int = 0, data_home: str | Path | None = None) -> PaperSetting:
    """Stratified 80/20 split, with four propensity attributes added, the first ``k`` of which drive e."""
    if k not in (1, 2, 3, 4):
        raise ValueError(f"k must be 1, 2, 3 or 4, as four propensity attributes are made; got {k!r}.")
    rng = np.random.default_rng(seed)
    X, y, names = load(name, data_home)
    n, d = X.shape
    extra = propensity_attributes(X, rng, n_attributes=4)
    X = np.hstack([X, extra])
    e = GeometricMeanSAR(range(k), low=0.2, high=0.8, ranges=[(-1, 1)] * k).propensity(extra)
    s = simulate_labels(y, e, random_state=seed)
    train, test = train_test_split(np.arange(n), test_size=0.2, stratify=y, random_state=int(rng.integers(2**31)))
    return PaperSetting(
        X_train=X[train],
        y_train=y[train],
        s_train=s[train],
        e_train=e[train],
        X_test=X[test],
        y_test=y[test],
        s_test=s[test],
        e_test=e[test],
        names=[*names, *(f"propensity-{i}" for i in range(1, 5))],
        original_columns=np.arange(d),
        propensity_columns=np.arange(d, d + k),
    )


def main() -> None:
    print(f"{'dataset':<18}{'rows':>8}{'attributes':>12}{'Pr(y=1)':>9}")
    for name in SOURCES:
        X, y, _ = load(name)
        print(f"{name:<18}{X.shape[0]:>8}{X.shape[1]:>12}{y.mean():>9.3f}", flush=True)


if __name__ == "__main__":
    main()
