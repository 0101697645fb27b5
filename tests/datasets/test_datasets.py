"""The loaded datasets."""

import csv
import gzip
import inspect
import io
import os
import re
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression

import scarless.datasets
from scarless.datasets import (
    Provenance,
    PUData,
    dataset_names,
    fetch,
    load_bundled_breast_cancer,
    load_bundled_digits,
    load_dataset,
    load_simulated,
)
from scarless.datasets.fetch import unpack
from scarless.datasets.parsers import list_posts, read_posts, sklearn_order
from scarless.datasets.registry import DATASETS

# rows, attributes, Pr(y=1), positive rows
FACTS = {
    "newsgroups": (8870, 200, 0.551, 4891),
    "adult": (48_842, 107, 0.239, 11_687),
    "breastcancer": (683, 9, 0.350, 239),
    "covtype": (581_012, 54, 0.488, 283_301),
    "diabetes": (99_492, 127, 0.112, 11_169),
    "imagesegmentation": (2310, 18, 0.429, 990),
    "mushroom": (8124, 111, 0.482, 3916),
    "splice": (3175, 60, 0.519, 1648),
}
LOADERS = {
    "newsgroups": "load_newsgroups",
    "adult": "load_adult",
    "breastcancer": "load_breast_cancer",
    "covtype": "load_covtype",
    "diabetes": "load_diabetes",
    "imagesegmentation": "load_image_segmentation",
    "mushroom": "load_mushroom",
    "splice": "load_splice",
}
EIGHT = pytest.mark.parametrize("name", FACTS)


@pytest.fixture(scope="session")
def raw_files():
    """The directory of raw files: the environment variable, else the place beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    home = Path(os.environ.get("SCARLESS_DATA") or beside)
    if not home.is_dir():
        pytest.skip("the raw files are not here: set SCARLESS_DATA to a directory that has them")
    return home


@cache
def loaded(name, home):
    return getattr(scarless.datasets, LOADERS[name])(data_home=home, download=False)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch, tmp_path):
    """An empty cache, and nowhere to download from."""
    monkeypatch.setenv("SCARLESS_CACHE", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")


# The eight datasets of the paper


@EIGHT
def test_rows_attributes_and_class_prior(name, raw_files):
    data = loaded(name, raw_files)
    n_rows, n_attributes, prior, n_positive = FACTS[name]
    assert data.X.shape == (n_rows, n_attributes)
    assert len(data) == n_rows
    assert data.y.sum() == n_positive
    assert round(data.class_prior, 3) == prior
    assert repr(data) == f"PUData({name!r}, {n_rows:,} rows x {n_attributes} attributes, Pr(y=1) = {prior:.3f})"


@EIGHT
def test_every_attribute_is_scaled_and_no_two_have_one_name(name, raw_files):
    data = loaded(name, raw_files)
    assert data.X.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.y.dtype == np.int64
    np.testing.assert_array_equal(data.X.min(axis=0), -1)
    np.testing.assert_array_equal(data.X.max(axis=0), 1)
    assert len(set(data.attribute_names)) == data.X.shape[1]


@EIGHT
def test_provenance_names_files_hashes_and_terms(name, raw_files):
    data = loaded(name, raw_files)
    assert data.name == name
    assert data.provenance.sha256 == {file.name: file.sha256 for file in DATASETS[name].files}
    assert len(data.provenance.files) == len(DATASETS[name].files)
    assert all(Path(file).is_file() for file in data.provenance.files)
    assert data.provenance.source.startswith("http")
    assert data.provenance.citation
    assert data.provenance.licence in {"CC BY 4.0", "not stated"}


@EIGHT
def test_the_docstring_states_the_facts(name):
    n_rows, n_attributes, prior, _ = FACTS[name]
    said = inspect.getdoc(getattr(scarless.datasets, LOADERS[name]))
    assert re.search(rf"{n_rows:,} (rows|posts), {n_attributes} (attributes|words), Pr\(y=1\) = {prior:.3f}", said)


def test_hashes_and_sizes_agree_with_the_manifest(raw_files):
    manifest = raw_files / "MANIFEST.tsv"
    if not manifest.is_file():
        pytest.skip("this directory of raw files has no MANIFEST.tsv")
    with manifest.open() as file:
        rows = {row["file"].rpartition(".")[0]: row for row in csv.DictReader(file, delimiter="\t")}
    for name, dataset in DATASETS.items():
        for file in dataset.files if name != "newsgroups" else ():
            row = rows[f"{dataset.folder}/{file.name}"]
            assert (file.sha256, file.n_bytes) == (row["uncompressed_sha256"], int(row["uncompressed_bytes"]))


def test_some_names(raw_files):
    names = {name: loaded(name, raw_files).attribute_names for name in FACTS}
    assert {"age", "workclass=?", "sex=Male", "native-country=?"} <= set(names["adult"])
    assert names["breastcancer"][5] == "bare-nuclei"
    assert names["covtype"][:2] == ("elevation", "aspect")
    assert {"age", "A1Cresult=None", "diag_1=other", "medical_specialty=Missing"} <= set(names["diabetes"])
    assert "region-pixel-count" not in names["imagesegmentation"]
    assert {"stalk-root=?", "odor=n"} <= set(names["mushroom"])
    assert not any(name.startswith("veil-type") for name in names["mushroom"])
    assert names["splice"][::59] == ("base-1", "base-60")
    assert "add" in names["newsgroups"]
    assert not {"board", "write"} & set(names["newsgroups"])
    assert list(names["newsgroups"]) == sorted(names["newsgroups"])


def test_newsgroups_come_in_the_order_of_the_authors(raw_files):
    file, order = DATASETS["newsgroups"].files[0], raw_files / "20newsgroups" / "sklearn_order_comp_rec.txt.gz"
    archive = raw_files / "20newsgroups" / f"{file.name}.xz"
    if not order.is_file() or not archive.is_file():
        pytest.skip("this directory of raw files does not have the authors' order")
    expected = gzip.decompress(order.read_bytes()).decode().split()
    posts = read_posts(list_posts(unpack(archive.read_bytes(), file.name, largest=file.largest)))
    assert sklearn_order(posts) == expected
    from_comp = ["/comp." in name for name in expected]
    np.testing.assert_array_equal(loaded("newsgroups", raw_files).y, from_comp)


def test_the_whole_archive_of_newsgroups_is_accepted(raw_files, tmp_path):
    whole = raw_files / "20newsgroups" / "20news-bydate.tar.xz"
    if not whole.is_file():
        pytest.skip("this directory of raw files does not have the whole archive")
    (tmp_path / "20newsgroups").mkdir()
    (tmp_path / "20newsgroups" / whole.name).symlink_to(whole)
    data = load_dataset("newsgroups", data_home=tmp_path, download=False)
    np.testing.assert_array_equal(data.X, loaded("newsgroups", raw_files).X)


@pytest.mark.parametrize("name", ["breastcancer", "imagesegmentation", "mushroom", "splice"])
def test_downloaded_files_give_the_same_table(name, raw_files, monkeypatch, tmp_path):
    dataset = DATASETS[name]
    pages = {}
    for file in dataset.files:
        content = gzip.decompress((raw_files / dataset.folder / f"{file.name}.gz").read_bytes())
        pages.setdefault(file.archive, {})[file.name] = content
    served = {archive.urls[0]: _as_served(archive, members) for archive, members in pages.items()}
    asked = []

    def download(url, out, _):
        asked.append(url)
        out.write(served[url])

    monkeypatch.setattr(fetch, "_downloader", lambda archive: download)
    monkeypatch.delenv("SCARLESS_DATA", raising=False)
    data = load_dataset(name)
    np.testing.assert_array_equal(data.X, loaded(name, raw_files).X)
    assert sorted(asked) == sorted(served)
    kept = {str(tmp_path / dataset.folder / archive.name) for archive in pages}
    assert set(data.provenance.files) == kept


def _as_served(archive, members):
    if not archive.name.endswith(".zip"):
        (content,) = members.values()
        return content
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("Index", "what else there is")
        for name, content in members.items():
            packed.writestr(name, content)
    return buffer.getvalue()


def test_without_scaling_the_numbers_are_those_of_the_file(raw_files):
    data = load_dataset("breastcancer", data_home=raw_files, download=False, scale=False)
    assert (data.X.min(), data.X.max()) == (1, 10)
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    scaled = loaded("breastcancer", raw_files).X
    np.testing.assert_allclose(scaled, 2 * (data.X - low) / (high - low) - 1, rtol=0, atol=1e-15)


def test_loading_twice_gives_two_arrays(raw_files):
    first, second = (load_dataset("splice", data_home=raw_files, download=False) for _ in range(2))
    assert not np.shares_memory(first.X, second.X)
    np.testing.assert_array_equal(first.X, second.X)


# By name


def test_names():
    assert dataset_names() == tuple(FACTS)
    assert dataset_names(bundled=True) == (*FACTS, "bundled_breast_cancer", "bundled_digits", "simulated")
    assert set(scarless.datasets.__all__) >= {*LOADERS.values(), "load_dataset", "PUData"}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("adlut", "adult"), ("Breast-Cancer", "breastcancer"), ("image_segmentation", "imagesegmentation")],
)
def test_a_misspelt_name_gets_a_suggestion(name, nearest):
    with pytest.raises(ValueError, match=rf"There is no dataset '{name}'. Did you mean '{nearest}'\? The datasets are"):
        load_dataset(name)


def test_an_unknown_name_lists_the_datasets():
    with pytest.raises(ValueError, match=r"There is no dataset 'zzz'. The datasets are 'newsgroups', 'adult', "):
        load_dataset("zzz")


# Bundled datasets


def test_bundled_breast_cancer_is_scikit_learns_table():
    data, bunch = load_bundled_breast_cancer(), load_breast_cancer()
    assert data.X.shape == (569, 30)
    assert data.y.sum() == 212  # malignant, which scikit-learn codes 0
    np.testing.assert_array_equal(data.y, 1 - bunch.target)
    assert data.attribute_names == tuple(bunch.feature_names)
    span = np.ptp(bunch.data, axis=0)
    np.testing.assert_allclose((data.X + 1) / 2 * span, bunch.data - bunch.data.min(axis=0), rtol=1e-9, atol=1e-9)


def test_bundled_digits_are_positive_where_even():
    data, bunch = load_bundled_digits(), load_digits()
    assert data.X.shape == (1797, 61)
    np.testing.assert_array_equal(data.y, [digit in (0, 2, 4, 6, 8) for digit in bunch.target])
    assert "pixel_0_0" not in data.attribute_names  # always blank
    column = bunch.feature_names.index(data.attribute_names[10])
    np.testing.assert_array_equal(np.argsort(data.X[:, 10]), np.argsort(bunch.data[:, column]))


@pytest.mark.parametrize("name", ["bundled_breast_cancer", "bundled_digits", "simulated"])
def test_bundled_datasets_load_by_name_scaled_with_their_source(name):
    data = load_dataset(name, download=False)
    assert data.name == name
    np.testing.assert_array_equal(data.X.min(axis=0), -1)
    np.testing.assert_array_equal(data.X.max(axis=0), 1)
    assert 0.3 < data.class_prior < 0.6
    assert data.provenance.files == ()
    assert re.search("comes with scikit-learn|drawn by scarless", data.provenance.source)


def test_simulated_classes_follow_the_formula():
    data = load_simulated(50_000, 3, random_state=1)
    truth = np.array([6.0, -3.0, 2.0])
    fit = LogisticRegression(C=np.inf).fit(data.X, data.y)
    p = fit.predict_proba(data.X)[:, 1]
    Z = np.column_stack([data.X, np.ones(len(data))])
    error = np.sqrt(np.diag(np.linalg.inv(Z.T @ (Z * (p * (1 - p))[:, None]))))
    assert (np.abs([*(fit.coef_[0] - truth), fit.intercept_[0]]) < 4 * error).all()
    assert (error < 0.1).all()


def test_simulated_seeds():
    first, again, other = load_simulated(50), load_simulated(50, random_state=0), load_simulated(50, random_state=1)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    assert np.abs(np.corrcoef(first.X[:, 0], np.random.default_rng(0).random((50, 10))[:, 0])[0, 1]) < 0.9
    generator = load_simulated(50, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(generator.X, load_simulated(50, random_state=np.random.default_rng(3)).X)
    assert first.attribute_names == tuple(f"x{j}" for j in range(10))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((1, 3), "n_rows must be a whole number of at least 2; got 1"),
        ((9, 0), "n_attributes must be a whole number of at least 1; got 0"),
    ],
)
def test_simulated_sizes(arguments, said):
    with pytest.raises(ValueError, match=said):
        load_simulated(*arguments)


def test_the_smallest_simulated_dataset():
    data = load_simulated(2, 1)
    assert sorted(data.X[:, 0].tolist()) == [-1, 1]


# PUData

X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
ORIGIN = Provenance("toy", "made here")


def test_a_frame_has_the_names_and_is_a_copy():
    data = PUData(X.copy(), np.array([0, 1, 1]), ("a", "b"), "toy", ORIGIN)
    frame = data.frame
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, columns=["a", "b"]))
    frame.iloc[0, 0] = 99
    assert data.X[0, 0] == 0


def test_a_dataset_without_the_true_class():
    data = PUData(X, None, ("a", "b"), "toy", ORIGIN)
    assert repr(data) == "PUData('toy', 3 rows x 2 attributes, y unknown)"
    with pytest.raises(ValueError, match="The true classes of 'toy' are not known, so its class prior"):
        _ = data.class_prior


def test_fields_cannot_be_set():
    data = PUData(X, None, ("a", "b"), "toy", ORIGIN)
    with pytest.raises(AttributeError):
        data.name = "other"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"X": X.tolist()}, "X must be a two-dimensional array of floats; got a list"),
        ({"X": X[0]}, r"two-dimensional array of floats; got an array of shape \(2,\) and type float64"),
        ({"X": X.astype(int)}, r"two-dimensional array of floats; got an array of shape \(3, 2\) and type int"),
        ({"attribute_names": ("a",)}, ("of the 2 columns of X; it has 1 different names, and 1 entries")),
        (
            {"attribute_names": ("a", "a")},
            ("of the 2 columns of X; it has 1 different names, and 2 entries"),
        ),
        (
            {"y": np.array([0, 1])},
            r"y must be None or hold 0 or 1 for each of the 3 rows of X; got an array of shape \(2,",
        ),
        ({"y": [0, 1, 1]}, "for each of the 3 rows of X; got a list"),
        ({"y": np.array([0, 1, -1])}, r"got an array of shape \(3,\) and type int64 with the value -1"),
        ({"y": np.array([0, 1, np.nan])}, "with the value nan"),
    ],
)
def test_inconsistent_fields_are_refused(fields, said):
    given = {"X": X, "y": np.array([0, 1, 1]), "attribute_names": ("a", "b"), "name": "toy", "provenance": ORIGIN}
    with pytest.raises(ValueError, match=said):
        PUData(**(given | fields))


def test_a_frame_needs_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'PUData.frame needs pandas: pip install "scarless\[data\]"'):
        _ = PUData(X, None, ("a", "b"), "toy", ORIGIN).frame


def test_bundled_must_be_a_flag():
    with pytest.raises(ValueError, match="bundled must be True or False"):
        dataset_names(bundled=np.array([0.5, 0.5]))


def test_a_seed_below_zero():
    with pytest.raises(ValueError, match="random_state must be None, a whole number of at least 0"):
        load_simulated(random_state=-1)
