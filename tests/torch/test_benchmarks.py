"""Data of the benchmarks of networks: images in torchvision's layout, posts as token ids, and missing files."""

import gzip
import io
import pickle
import tarfile
from importlib.util import find_spec

import numpy as np
import pytest
from benchmarks.networks import images, overhead, text

torchvision = pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not there")


def idx_file(path, values):
    """Write a file in the format of MNIST: a magic number, the shape, the values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = b"".join(int(n).to_bytes(4, "big") for n in values.shape)
    path.write_bytes(bytes([0, 0, 8, values.ndim]) + shape + values.astype(np.uint8).tobytes())


@torchvision
@pytest.mark.parametrize(
    ("name", "place", "positive"),
    [("mnist", "MNIST", (0, 2, 4, 6, 8)), ("fashion-mnist", "FashionMNIST", (0, 2, 3, 4, 6))],
)
def test_images_are_read_in_the_layout_of_torchvision(tmp_path, name, place, positive):
    rng = np.random.default_rng(0)
    pixels, kinds = rng.integers(256, size=(20, 28, 28)), np.arange(20) % 10
    for part in ("train", "t10k"):
        idx_file(tmp_path / place / "raw" / f"{part}-images-idx3-ubyte", pixels)
        idx_file(tmp_path / place / "raw" / f"{part}-labels-idx1-ubyte", kinds)
    X, y = images.load_images(name, tmp_path)
    assert X.shape == (20, 1, 28, 28)
    np.testing.assert_allclose(X[:, 0], pixels / 255, atol=1e-7)
    assert y.tolist() == [int(kind in positive) for kind in kinds]


@torchvision
def test_cifar_is_read_with_vehicles_positive(tmp_path, monkeypatch):
    from torchvision import datasets

    pixels, folder = np.random.default_rng(0).integers(256, size=(10, 3072)).astype(np.uint8), "cifar-10-batches-py"
    (tmp_path / folder).mkdir()
    for batch in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (tmp_path / folder / batch).write_bytes(pickle.dumps({"data": pixels, "labels": list(range(10))}))
    (tmp_path / folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [str(i) for i in range(10)]}))
    monkeypatch.setattr(datasets.CIFAR10, "_check_integrity", lambda self: True)  # These are not the real files.
    monkeypatch.setattr(datasets.cifar, "check_integrity", lambda *_: True)
    X, y = images.load_images("cifar10", tmp_path)
    assert X.shape == (50, 3, 32, 32)
    np.testing.assert_allclose(X[0].ravel(), pixels[0] / 255, atol=1e-7)
    assert y[:10].tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 1, 1]


@torchvision
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_missing_files_raise_an_error_and_are_not_downloaded(tmp_path, name, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("a download was tried"))
    place = {"mnist": "MNIST/raw", "fashion-mnist": "FashionMNIST/raw", "cifar10": "cifar-10-batches-py"}[name]
    with pytest.raises(FileNotFoundError, match=f"The files of {name} are not in .* They are not downloaded: put"):
        images.load_images(name, tmp_path)
    with pytest.raises(FileNotFoundError, match=f"put the folder {place} with .* there, and pass .* with --folder"):
        images.load_images(name, tmp_path)


def test_other_images_are_refused():
    with pytest.raises(ValueError, match="images must be one of digits, mnist, fashion-mnist, cifar10; got 'svhn'"):
        images.load_images("svhn", ".")


def test_convolutions_return_one_logit():
    import torch

    for shape in ((1, 28, 28), (3, 32, 32)):
        assert images.convolutions(shape)(torch.zeros(2, *shape)).shape == (2, 1)


def test_words_are_numbered_by_how_often_they_occur():
    ids = text.token_ids(["red red blue", "red sun", ""])
    assert ids.shape == (3, text.MAX_WORDS)
    assert ids[:, :4].tolist() == [[2, 2, 3, 0], [2, 4, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(text.log_length(ids), np.log([4, 3, 1]))


def test_posts_are_read_from_an_archive(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for group in ("comp.graphics", "rec.autos"):
            for part in ("train", "test"):
                post = f"From: me\n\nAbout {group}\n".encode()
                member = tarfile.TarInfo(f"20news-bydate-{part}/{group}/1")
                member.size = len(post)
                tar.addfile(member, io.BytesIO(post))
    (tmp_path / "20news-bydate.tar.gz").write_bytes(gzip.compress(buffer.getvalue()))
    texts, y = text.posts(tmp_path)
    assert sorted(zip(texts, y, strict=True)) == sorted(2 * [("about comp.graphics\n", 1), ("about rec.autos\n", 0)])


def test_a_missing_archive_raises_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No archive of 20 Newsgroups in .*: put 20news-bydate\.tar\.gz"):
        text.posts(tmp_path)


def test_the_overhead_is_printed_for_each_size(capsys, monkeypatch):
    monkeypatch.setattr(overhead, "ROWS", 512)
    overhead.run(1)
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == list(overhead.SIZES)
