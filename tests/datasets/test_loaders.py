"""The eight loaders from raw file to table, without a download: made-up rows in each dataset's own format.

The rows are invented here; only the formats are those of the real files. The registry's sizes and hashes are replaced
by those of the made-up content, and everything else (finding, unpacking, checking, parsing, scaling) is as it is.
"""

import gzip
import hashlib
import io
import lzma
import tarfile
import zipfile
from dataclasses import dataclass, replace

import numpy as np
import pytest

import scarless.datasets
from scarless.datasets import DatasetFileError, fetch, load_dataset
from scarless.datasets.parsers import sklearn_order
from scarless.datasets.registry import DATASETS


@dataclass(frozen=True)
class MadeUp:
    """Raw files of a dataset by name, and the expected result."""

    loader: str
    files: dict[str, bytes]
    y: tuple[int, ...]
    n_attributes: int
    columns: dict[str, list[float]]  # some columns, unscaled


def lines(*rows, end="\n"):
    return "".join(f"{row}{end}" for row in rows).encode()


def adult():
    row = "{}, {}, {}, {}, {}, {}, Sales, Wife, Other, {}, {}, {}, {}, Peru, {}".format
    train = lines(
        row(30, "Private", 1001, "Masters", 14, "Divorced", "Female", 0, 0, 40, "<=50K"),
        row(41, "?", 1002, "Masters", 14, "Separated", "Male", 500, 0, 35, ">50K"),
        "",  # the real file ends with an empty line
    )
    test = lines(
        "|1x3 Cross validator",
        row(52, "Self-emp", 1003, "11th", 7, "Divorced", "Male", 0, 90, 60, ">50K."),
        row(23, "Private", 1004, "11th", 7, "Divorced", "Female", 0, 0, 20, "<=50K."),
    )
    columns = {"age": [30, 41, 52, 23], "workclass=?": [-1, 1, -1, -1], "sex=Male": [-1, 1, 1, -1]}
    return MadeUp("load_adult", {"adult.data": train, "adult.test": test}, (0, 1, 1, 0), 12, columns)


def breast_cancer():
    raw = lines("9001,1,2,3,4,5,6,7,8,9,2", "9002,2,3,4,5,6,?,8,9,10,2", "9003,10,9,8,7,6,5,4,3,2,4")
    columns = {"clump-thickness": [1, 10], "bare-nuclei": [6, 5], "mitoses": [9, 2]}
    return MadeUp("load_breast_cancer", {"breast-cancer-wisconsin.data": raw}, (0, 1), 9, columns)


def covtype():
    """Forty rows, one for each soil type, because otherwise its column would be constant."""
    areas, soils = np.eye(4, dtype=int), np.eye(40, dtype=int)
    rows = [[*range(i, i + 10), *areas[i % 4], *soils[i], 1 + i % 7] for i in range(40)]
    raw = lines(*(",".join(map(str, row)) for row in rows))
    columns = {"aspect": [i + 1 for i in range(40)], "soil-type-3": [float(i == 2) for i in range(40)]}
    return MadeUp("load_covtype", {"covtype.data": raw}, tuple(int(i % 7 == 1) for i in range(40)), 54, columns)


def diabetes():
    head = (
        "encounter_id,patient_nbr,race,gender,age,weight,admission_type_id,discharge_disposition_id,"
        "admission_source_id,time_in_hospital,payer_code,medical_specialty,num_lab_procedures,num_procedures,"
        "num_medications,number_outpatient,number_emergency,number_inpatient,diag_1,diag_2,diag_3,number_diagnoses,"
        "max_glu_serum,A1Cresult,insulin,examide,change,diabetesMed,readmitted"
    )
    row = (
        "7{i},8{i},{0},{1},[{2}-{3}),?,{4},{5},7,{6},?,{7},{6},{i},{i},{i},{i},{i},{8},250,{8},{i},"
        "None,{9},No,No,Ch,Yes,{10}"
    )
    raw = lines(
        head,
        row.format("Asian", "Female", 40, 50, 1, 1, 3, "?", "V57", ">7", "NO", i=1),
        row.format("Other", "Male", 50, 60, 2, 3, 5, "Surgery", "428", "None", "<30", i=2),
        row.format("?", "Male", 60, 70, 2, 3, 5, "Surgery", "428", "None", "<30", i=3),  # a gap: dropped
        row.format("Asian", "Female", 90, 100, 1, 1, 8, "?", "428", "Norm", ">30", i=4),
        end="\r\n",
    )
    columns = {
        "age": [40, 50, 90],
        "time_in_hospital": [3, 5, 8],
        "medical_specialty=Surgery": [-1, 1, -1],
        "A1Cresult=None": [-1, 1, -1],
    }
    return MadeUp("load_diabetes", {"diabetic_data.csv": raw}, (0, 1, 0), 19, columns)


def image_segmentation():
    names = (
        "REGION-CENTROID-COL,REGION-CENTROID-ROW,REGION-PIXEL-COUNT,SHORT-LINE-DENSITY-5,SHORT-LINE-DENSITY-2,"
        "VEDGE-MEAN,VEDGE-SD,HEDGE-MEAN,HEDGE-SD,INTENSITY-MEAN,RAWRED-MEAN,RAWBLUE-MEAN,RAWGREEN-MEAN,EXRED-MEAN,"
        "EXBLUE-MEAN,EXGREEN-MEAN,VALUE-MEAN,SATURATION-MEAN,HUE-MEAN"
    )
    head = ("; made up", "", "; attributes", names, "")

    def row(kind, at):
        return ",".join([kind, str(at), str(at + 1), "9", *(f"{at + j / 8}" for j in range(16))])

    files = {
        "segmentation.data": lines(*head, row("SKY", 1), row("CEMENT", 4)),
        "segmentation.test": lines(*head, row("FOLIAGE", 2), row("GRASS", 0.5), row("PATH", 8)),
    }
    columns = {"region-centroid-col": [1, 4, 2, 0.5, 8], "hue-mean": [2.875, 5.875, 3.875, 2.375, 9.875]}
    return MadeUp("load_image_segmentation", files, (1, 0, 1, 1, 0), 18, columns)


def mushroom():
    raw = lines(
        "p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u",
        "e,b,s,w,t,l,f,c,b,n,e,?,s,s,w,w,p,w,o,p,n,n,m",
        "e,f,y,n,f,n,f,w,b,n,t,c,s,k,w,w,p,w,o,e,n,s,u",
    )
    columns = {
        "bruises=t": [1, 1, -1],
        "stalk-root=?": [-1, 1, -1],
        "stalk-root=c": [-1, -1, 1],
        "cap-shape=x": [1, -1, -1],
    }
    return MadeUp("load_mushroom", {"agaricus-lepiota.data": raw}, (1, 0, 0), 21, columns)


def splice():
    def row(kind, base):
        return f"{kind} " + " ".join(f"{j}:{(base + j) % 4 + 1}" for j in range(1, 61)) + " "

    files = {"splice": lines(row("+1", 0), row("-1", 1)), "splice.t": lines(row("-1", 2), row("+1", 3))}
    return MadeUp("load_splice", files, (1, 0, 0, 1), 60, {"base-1": [2, 3, 4, 1], "base-60": [1, 2, 3, 4]})


def newsgroups():
    posts = {
        "20news-bydate-train/comp.graphics/101": "Subject: nothing\n\nDraw a picture, draw a line.\n--\nMs Nobody",
        "20news-bydate-train/rec.autos/102": "Subject: nothing\n\nMs Nobody writes:\n> picture\nThe brake squeals.",
        "20news-bydate-test/rec.motorcycles/103": "Subject: nothing\n\nA picture of my brake",
        "20news-bydate-test/sci.space/104": "Subject: nothing\n\nof another group",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, post in posts.items():
            info = tarfile.TarInfo(name)
            info.size = len(post)
            tar.addfile(info, io.BytesIO(post.encode()))
    # Words in headers, footers and quotes do not count; all other words do.
    words = {"101": {"draw", "line", "picture"}, "102": {"brake", "squeals"}, "103": {"brake", "picture"}}
    order = [name.rpartition("/")[2] for name in sklearn_order(list(posts)[:3])]
    columns = {word: [float(word in words[post]) for post in order] for word in sorted(set().union(*words.values()))}
    y = tuple(int(post == "101") for post in order)
    return MadeUp("load_newsgroups", {"20news-bydate-comp-rec.tar": buffer.getvalue()}, y, 5, columns)


MADE_UP = {
    "newsgroups": newsgroups(),
    "adult": adult(),
    "breastcancer": breast_cancer(),
    "covtype": covtype(),
    "diabetes": diabetes(),
    "imagesegmentation": image_segmentation(),
    "mushroom": mushroom(),
    "splice": splice(),
}
EIGHT = pytest.mark.parametrize("name", MADE_UP)


@pytest.fixture(autouse=True)
def _registry_of_the_made_up(monkeypatch, tmp_path):
    """The registry with the hashes of the made-up files; an empty cache, and nowhere to download from."""
    monkeypatch.setenv("SCARLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCARLESS_DATA", raising=False)
    monkeypatch.setattr(fetch, "_downloader", lambda archive: pytest.fail(f"{archive.name} was asked for"))
    for name, made in MADE_UP.items():
        known = []
        for file in DATASETS[name].files:
            content = made.files[file.name]
            checked = content if file.normalise is None else file.normalise(content)
            known.append(replace(file, n_bytes=len(content), sha256=hashlib.sha256(checked).hexdigest()))
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], files=tuple(known)))


def as_served(archive, members):
    """Return the file that is downloaded for a dataset: a zip archive, a gzipped tar archive, or the plain file."""
    if archive.name.endswith(".zip"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("Index", "what else there is")
            for name, content in members.items():
                packed.writestr(name, content)
        return buffer.getvalue()
    (content,) = members.values()
    return gzip.compress(content) if archive.name.endswith(".gz") else content


def archives_of(name):
    members = {}
    for file in DATASETS[name].files:
        members.setdefault(file.archive, {})[file.name] = MADE_UP[name].files[file.name]
    return {archive: as_served(archive, files) for archive, files in members.items()}


def stored(name, home, packing="plain"):
    """Write a dataset's raw files under a data home."""
    suffix, pack = {"plain": ("", bytes), "gz": (".gz", gzip.compress), "xz": (".xz", lzma.compress)}.get(
        packing, (None, None)
    )
    folder = home / DATASETS[name].folder
    folder.mkdir(parents=True, exist_ok=True)
    if suffix is None:
        for archive, content in archives_of(name).items():
            (folder / archive.name).write_bytes(content)
    else:
        for file, content in MADE_UP[name].files.items():
            (folder / f"{file}{suffix}").write_bytes(pack(content))
    return home


def columns_of(data):
    return dict(zip(data.attribute_names, data.X.T.tolist(), strict=True))


def test_every_dataset_of_the_registry_is_made_up_here():
    assert list(MADE_UP) == list(DATASETS)
    assert sum(len(content) for made in MADE_UP.values() for content in made.files.values()) < 30_000


@EIGHT
@pytest.mark.parametrize("packing", ["plain", "gz", "xz", "as downloaded"])
def test_rows_classes_and_columns_whatever_the_packing(name, packing, tmp_path):
    made = MADE_UP[name]
    load = getattr(scarless.datasets, made.loader)
    data = load(data_home=stored(name, tmp_path, packing), download=False, scale=False)
    assert data.X.shape == (len(made.y), made.n_attributes)
    assert data.X.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.y.dtype == np.int64
    assert tuple(data.y) == made.y
    assert len(set(data.attribute_names)) == made.n_attributes
    columns = columns_of(data)
    assert {column: columns[column] for column in made.columns} == made.columns


@EIGHT
def test_scaled_columns_reach_both_ends_and_keep_their_order(name, tmp_path):
    stored(name, tmp_path)
    raw = load_dataset(name, data_home=tmp_path, download=False, scale=False)
    data, again = (load_dataset(name, data_home=tmp_path, download=False) for _ in range(2))
    low, high = raw.X.min(axis=0), raw.X.max(axis=0)
    np.testing.assert_allclose(data.X, 2 * (raw.X - low) / (high - low) - 1, rtol=0, atol=1e-15)
    assert (data.X.min(axis=0) == -1).all()
    assert (data.X.max(axis=0) == 1).all()
    assert not np.shares_memory(data.X, again.X)
    np.testing.assert_array_equal(data.X, again.X)


@EIGHT
def test_provenance_names_what_was_read(name, tmp_path):
    data = load_dataset(name, data_home=stored(name, tmp_path), download=False)
    folder = tmp_path / DATASETS[name].folder
    assert data.name == name
    assert data.provenance.files == tuple(str(folder / file) for file in MADE_UP[name].files)
    assert data.provenance.sha256 == {file.name: file.sha256 for file in DATASETS[name].files}
    assert data.provenance.source == DATASETS[name].page


@EIGHT
def test_downloads_are_cached_and_read_again(name, monkeypatch, tmp_path):
    served = {archive.urls[0]: content for archive, content in archives_of(name).items()}
    asked = []

    def download(url, out, _):
        asked.append(url)
        out.write(served[url])

    monkeypatch.setattr(fetch, "_downloader", lambda archive: download)
    data = load_dataset(name)
    assert tuple(data.y) == MADE_UP[name].y
    assert sorted(asked) == sorted(served)
    folder = tmp_path / "cache" / DATASETS[name].folder
    kept = {archive.name for archive in archives_of(name)}
    assert {path.name for path in folder.iterdir()} == kept
    np.testing.assert_array_equal(load_dataset(name, download=False).X, data.X)
    assert len(asked) == len(served)


@EIGHT
def test_a_file_with_one_other_letter_is_refused(name, tmp_path):
    stored(name, tmp_path)
    file, content = next(iter(MADE_UP[name].files.items()))
    changed = content.replace(b"n", b"m", 1) if b"n" in content else content.replace(b"1", b"2", 1)
    if name == "newsgroups":
        changed = content.replace(b"squeals", b"squeaks")
    assert changed != content
    (tmp_path / DATASETS[name].folder / file).write_bytes(changed)
    with pytest.raises(DatasetFileError, match=rf"is not the expected {file}: .* and SHA-256 [0-9a-f]{{64}}, but has"):
        load_dataset(name, data_home=tmp_path, download=False)


@EIGHT
def test_a_file_that_is_not_found_is_named(name, tmp_path):
    first = next(iter(MADE_UP[name].files))
    with pytest.raises(DatasetFileError, match=f"{first} is not on this machine"):
        load_dataset(name, data_home=tmp_path, download=False)
