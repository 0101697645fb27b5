"""Sources of raw files, and files that are refused."""

import gzip
import hashlib
import http.server
import io
import itertools
import lzma
import re
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pooch
import pytest

from scarless.datasets import DatasetFileError, fetch, load_dataset
from scarless.datasets.fetch import cache_home, read_files, unpack
from scarless.datasets.registry import DATASETS, Archive, RawFile

CONTENT = b"".join(b"%d,%d\n" % (i, i * i) for i in range(500))
OTHER = b"second file\n" * 9
REFUSED = "http://127.0.0.1:1/toy.zip"  # no server listens on port 1


def raw_file(content=CONTENT, name="toy.data", archive="toy.zip", urls=(REFUSED,)):
    return RawFile(name, len(content), hashlib.sha256(content).hexdigest(), Archive(archive, tuple(urls)))


def zipped(**members):
    return zipped_names({name.replace("_", "."): content for name, content in members.items()})


def zipped_names(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


PACKED = {
    "plain": CONTENT,
    "gz": gzip.compress(CONTENT),
    "two gz in a row": gzip.compress(CONTENT[:99]) + gzip.compress(CONTENT[99:]),
    "xz": lzma.compress(CONTENT),
    "zip": zipped(toy_data=CONTENT, other_data=OTHER),
    "zip, in folders": zipped_names({"a/": b"", "a/b/toy.data": CONTENT}),
    "gz in zip": zipped_names({"toy.data.gz": gzip.compress(CONTENT)}),
    "zip in zip": zipped_names({"readme": b"", "inner/toy.zip": zipped_names({"toy.data": CONTENT})}),
}


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    """An empty cache, and no proxy between the test and its server."""
    monkeypatch.setenv("SCARLESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCARLESS_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache" / "toy"


class Server:
    """A web server that serves files from a dictionary and counts requests."""

    def __init__(self):
        self.pages, self.asked, self.cut_at, self.together = {}, [], None, None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                if outer.together is not None:
                    outer.together.wait(timeout=20)
                page = outer.pages.get(self.path)
                if page is None:
                    self.send_error(404, "Not here")
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page[: outer.cut_at])

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def server():
    it = Server()
    thread = threading.Thread(target=it.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield it
    it.server.shutdown()
    thread.join()
    it.server.server_close()


def fetched(*files, **options):
    return [content.data for content in read_files("toy", files, **options)]


def listing(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# Unpacking


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_the_content_does_not_depend_on_the_packing(packed):
    assert unpack(packed, "toy.data", largest=len(CONTENT)) == CONTENT


# A zip in a zip is left out: if the outer zip is truncated, the inner zip may still be complete and readable.
@pytest.mark.parametrize("packed", list(PACKED.values())[:-1], ids=list(PACKED)[:-1])
def test_no_beginning_of_a_packed_file_passes_for_the_whole(packed, tmp_path):
    (tmp_path / "toy").mkdir()
    for cut in {*range(0, len(packed), 37), len(packed) - 1}:
        (tmp_path / "toy" / "toy.data").write_bytes(packed[:cut])
        with pytest.raises(DatasetFileError, match=r"damaged or truncated|is not the expected toy.data"):
            fetched(raw_file(), data_home=tmp_path)


@pytest.mark.parametrize("name", ["../toy.data", "/toy.data", "a/../../toy.data", "..\\toy.data", "a/toy.data/.."])
def test_names_that_lead_out_of_the_archive_are_ignored(name):
    with pytest.raises(ValueError, match=r"has no file 'toy.data'; it contains "):
        unpack(zipped_names({name: CONTENT}), "toy.data", largest=10_000)
    both = zipped_names({name: b"evil", "deep/down/toy.data": CONTENT})
    assert unpack(both, "toy.data", largest=10_000) == CONTENT


def test_of_two_members_with_this_name_the_outer_one_is_read():
    packed = zipped_names({"old/toy.data": b"old", "toy.data": CONTENT})
    assert unpack(packed, "toy.data", largest=10_000) == CONTENT


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (zipped(toy_data=bytes(10**6)), "unpacks to 1,000,000 bytes, more than the allowed 1,000"),
        (
            zipped_names({"a.zip": zipped(toy_data=bytes(10**5))}),
            "unpacks to 100,000 bytes, more than the allowed 1,000",
        ),
        (gzip.compress(bytes(10**6), mtime=0), "unpacks to more than the allowed 1,000 bytes"),
        (lzma.compress(bytes(10**6)), "unpacks to more than the allowed 1,000 bytes"),
        (
            zipped_names({"toy.data.gz": gzip.compress(bytes(10**5), mtime=0)}),
            "unpacks to more than the allowed 1,000 bytes",
        ),
    ],
    ids=["zip", "zip in zip", "gz", "xz", "gz in zip"],
)
def test_bombs_are_refused(packed, said):
    with pytest.raises(ValueError, match=said):
        unpack(packed, "toy.data", largest=1000)


def test_a_member_with_a_wrong_declared_size_is_damaged():
    packed = bytearray(zipped(toy_data=bytes(10**6)))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # the positions of the size in both headers
        at = packed.index(mark) + offset
        packed[at : at + 4] = (500).to_bytes(4, "little")
    with pytest.raises(ValueError, match="is damaged or truncated"):
        unpack(bytes(packed), "toy.data", largest=1000)


def test_too_many_levels_of_compression_are_refused():
    packed = CONTENT
    for _ in range(6):
        packed = gzip.compress(packed)
    with pytest.raises(ValueError, match="is compressed more than 4 times"):
        unpack(packed, "toy.data", largest=10_000)


# Local files


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("toy.data", CONTENT),
        ("toy.data.gz", PACKED["gz"]),
        ("toy.data.xz", PACKED["xz"]),
        ("toy.zip", PACKED["zip"]),
        ("nickname.gz", PACKED["gz"]),
        ("toy.data", PACKED["gz"]),  # renamed
    ],
    ids=["plain", "gz", "xz", "zip", "nickname", "renamed"],  # explicit ids, because packed bytes contain the time
)
def test_files_are_found_under_all_their_names(name, packed, tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / name).write_bytes(packed)
    file = replace(raw_file(), also_named=("nickname",))
    (content,) = read_files("toy", [file], data_home=tmp_path)
    assert content.data == CONTENT
    assert content.path == str(tmp_path / "toy" / name)


def test_the_order_is_data_home_then_variable_then_cache_then_network(tmp_path, monkeypatch, server):
    places = {name: tmp_path / name for name in ("given", "variable", "cache")}
    for place in places.values():
        (place / "toy").mkdir(parents=True)
        (place / "toy" / "toy.data").write_bytes(CONTENT)
    monkeypatch.setenv("SCARLESS_DATA", str(places["variable"]))
    server.pages["/toy.zip"] = PACKED["zip"]
    file = raw_file(urls=[f"{server.url}/toy.zip"])
    paths = [read_files("toy", [file], data_home=places["given"])[0].path]
    for place in ("given", "variable", "cache"):
        (places[place] / "toy" / "toy.data").unlink()
        paths.append(read_files("toy", [file], data_home=places["given"] if place != "given" else None)[0].path)
    expected = [places["given"], places["variable"], places["cache"]]
    assert paths == [*(str(place / "toy" / "toy.data") for place in expected), str(places["cache"] / "toy" / "toy.zip")]
    assert server.asked == ["/toy.zip"]


def test_a_missing_data_home_raises_and_downloads_nothing(tmp_path, monkeypatch):
    with pytest.raises(DatasetFileError, match=r"data_home must name a directory .* there is no directory '.*nowhere'"):
        fetched(raw_file(), data_home=tmp_path / "nowhere")
    monkeypatch.setenv("SCARLESS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetFileError, match="the environment variable SCARLESS_DATA must name a directory"):
        fetched(raw_file())


def test_wrong_content_says_which_file_what_was_expected_what_came_and_what_to_do(tmp_path):
    (tmp_path / "toy").mkdir()
    path = tmp_path / "toy" / "toy.data.gz"
    path.write_bytes(gzip.compress(OTHER, mtime=0))
    said = (
        f"{path} is not the expected toy.data: its content should have {len(CONTENT):,} bytes and SHA-256 "
        f"{hashlib.sha256(CONTENT).hexdigest()}, but has {len(OTHER)} bytes and SHA-256 "
        f"{hashlib.sha256(OTHER).hexdigest()} (it begins with b'second file"
    )
    with pytest.raises(DatasetFileError, match=re.escape(said)) as caught:
        fetched(raw_file(), data_home=tmp_path)
    assert f"Delete it, so that it is downloaded again, or replace it by {REFUSED}." in str(caught.value)


def test_without_download_the_error_says_where_it_looked_and_for_what(tmp_path):
    said = (
        r"toy.data is not on this machine \(searched .*toy and .*cache.toy for toy.data, toy.data.gz, toy.data.xz, toy"
    )
    with pytest.raises(DatasetFileError, match=said) as caught:
        fetched(raw_file(), data_home=tmp_path, download=False)
    assert f"download=False. Use download=True, or save {REFUSED} in one of these folders as toy.zip." in str(
        caught.value
    )


# Downloads


def test_a_download_is_cached(server, cache, capsys):
    server.pages["/toy.zip"] = PACKED["zip"]
    files = [raw_file(urls=[f"{server.url}/toy.zip"]), raw_file(OTHER, "other.data", urls=[f"{server.url}/toy.zip"])]
    assert fetched(*files) == [CONTENT, OTHER]
    assert "100%" in capsys.readouterr().err  # the progress bar
    assert fetched(*files) == [CONTENT, OTHER]
    assert fetched(*files, download=False) == [CONTENT, OTHER]
    assert server.asked == ["/toy.zip"]
    assert listing(cache) == ["toy.zip"]


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
def test_any_compression_is_accepted(packed, server):
    server.pages["/toy"] = packed
    assert fetched(raw_file(urls=[f"{server.url}/toy"])) == [CONTENT]


@pytest.mark.parametrize("first", [REFUSED, "/missing", "/wrong"])
def test_the_next_address_is_tried(first, server, cache):
    server.pages |= {"/toy.zip": PACKED["zip"], "/wrong": OTHER}
    first = first if first.startswith("http") else server.url + first
    assert fetched(raw_file(urls=[first, f"{server.url}/toy.zip"])) == [CONTENT]
    assert listing(cache) == ["toy.zip"]


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (None, r"HTTPError: 404 .*"),
        (
            b"<!DOCTYPE html><title>Log in to the network",
            r"the downloaded file is not the expected toy.data.* begins with b'<!DOCTYPE h",
        ),
        (b"", r"the downloaded file is not the expected toy.data: .* but has 0 bytes"),
        (gzip.compress(OTHER, mtime=0), r"the downloaded file is not the expected toy.data"),
        (zipped(other_data=OTHER), r"the downloaded file has no file 'toy.data'; it contains 'other.data'"),
        (zipped(), r"the downloaded file has no file 'toy.data'; it contains nothing"),
        (PACKED["zip"][:-30], r"the downloaded file is damaged or truncated \("),
        (PACKED["gz"][:-30], r"the downloaded file is damaged or truncated \("),
        (gzip.compress(bytes(10**6), mtime=0), r"the downloaded file unpacks to more than the allowed [0-9,]+ bytes"),
        (
            zipped_names({"../toy.data": CONTENT}),
            r"the downloaded file has no file 'toy.data'; it contains '../toy.data'",
        ),
    ],
    ids=["none", "web page", "empty", "other gz", "other zip", "empty zip", "cut zip", "cut gz", "bomb", "path"],
)
def test_wrong_content_is_never_cached(page, said, server, cache):
    if page is not None:
        server.pages["/toy.zip"] = page
    url = f"{server.url}/toy.zip"
    with pytest.raises(DatasetFileError, match=rf"toy.zip could not be downloaded.\n  {url}: {said}") as caught:
        fetched(raw_file(urls=[url]))
    by_hand = f"download {url} on another machine, and save it as {cache / 'toy.zip'}. Or set the environment variable "
    assert by_hand + "SCARLESS_DATA to a directory with toy/toy.zip or, unpacked, toy/toy.data." in str(caught.value)
    assert listing(cache) == []


def test_every_member_is_checked_before_an_archive_is_kept(server, cache):
    server.pages["/toy.zip"] = zipped(toy_data=CONTENT, other_data=b"wrong")
    files = [raw_file(urls=[f"{server.url}/toy.zip"]), raw_file(OTHER, "other.data", urls=[f"{server.url}/toy.zip"])]
    with pytest.raises(DatasetFileError, match=r"the downloaded file is not the expected other.data"):
        fetched(*files)
    assert listing(cache) == []


def test_an_incomplete_download_is_refused(server, cache):
    server.pages["/toy.zip"], server.cut_at = PACKED["zip"], 100
    with pytest.raises(DatasetFileError, match=r"toy.zip: (ChunkedEncodingError|ConnectionError): .*IncompleteRead"):
        fetched(raw_file(urls=[f"{server.url}/toy.zip"]))
    assert listing(cache) == []


def test_no_network(cache):
    with pytest.raises(
        DatasetFileError, match=r"toy.zip could not be downloaded.\n  http://127.0.0.1:1/toy.zip: Connection"
    ):
        fetched(raw_file())
    assert listing(cache) == []


def test_a_download_that_is_too_large_is_stopped(server, cache, monkeypatch):
    monkeypatch.setattr(fetch, "_MAX_DOWNLOAD_BYTES", 1000)
    server.pages["/toy.zip"] = PACKED["zip"]
    with pytest.raises(
        DatasetFileError, match=r"the downloaded file is larger than 1,000 bytes, more than any dataset of this package"
    ):
        fetched(raw_file(urls=[f"{server.url}/toy.zip"]))
    assert listing(cache) == []


def download_in_pieces(monkeypatch, packed, after_each):
    def download(url, out, _):
        for start in range(0, len(packed), 100):
            out.write(packed[start : start + 100])
            out.flush()
            after_each()

    monkeypatch.setattr(fetch, "_downloader", lambda archive: download)


def test_no_incomplete_file_has_the_final_name(monkeypatch, cache):
    seen = []
    download_in_pieces(monkeypatch, PACKED["zip"], lambda: seen.append((cache / "toy.zip").exists()))
    assert fetched(raw_file()) == [CONTENT]
    assert len(seen) > 5
    assert not any(seen)
    assert (cache / "toy.zip").read_bytes() == PACKED["zip"]


@pytest.mark.parametrize("pieces", [1, 4])
def test_an_interruption_leaves_nothing(pieces, monkeypatch, cache):
    count = itertools.count(1)

    def stop():
        if next(count) == pieces:
            raise KeyboardInterrupt

    download_in_pieces(monkeypatch, PACKED["zip"], stop)
    with pytest.raises(KeyboardInterrupt):
        fetched(raw_file())
    assert listing(cache) == []


def test_a_full_disk_leaves_nothing(monkeypatch, cache):
    def full():
        raise OSError(28, "No space left on device")

    download_in_pieces(monkeypatch, PACKED["zip"], full)
    with pytest.raises(DatasetFileError, match=r"OSError: \[Errno 28\] No space left on device"):
        fetched(raw_file())
    assert listing(cache) == []


def test_files_left_by_a_killed_process_are_not_read(monkeypatch, cache):
    cache.mkdir(parents=True)
    (cache / ".toy.zip.0123.part").write_bytes(PACKED["zip"][:100])
    download_in_pieces(monkeypatch, PACKED["zip"], lambda: None)
    assert fetched(raw_file()) == [CONTENT]


def test_two_simultaneous_downloads_both_succeed(server, cache):
    server.pages["/toy.zip"], server.together = PACKED["zip"], threading.Barrier(2)
    file = raw_file(urls=[f"{server.url}/toy.zip"])
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(fetched, [file, file])) == [[CONTENT], [CONTENT]]
    assert len(server.asked) == 2
    assert listing(cache) == ["toy.zip"]


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("SCARLESS_CACHE", str(tmp_path / "a file"))
    with pytest.raises(DatasetFileError, match=r"Cannot write to the cache .*toy .*SCARLESS_CACHE to a directory"):
        fetched(raw_file())


def test_the_cache_is_the_systems_unless_named(monkeypatch, tmp_path):
    assert cache_home() == tmp_path / "cache"
    monkeypatch.delenv("SCARLESS_CACHE")
    assert cache_home() == Path(pooch.os_cache("scarless"))


def test_without_pooch_local_files_still_load(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("SCARLESS_CACHE")
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.data").write_bytes(CONTENT)
    assert fetched(raw_file(), data_home=tmp_path) == [CONTENT]
    with pytest.raises(
        ImportError,
        match=r'cache of datasets, .* SCARLESS_CACHE is not set, needs pooch: pip install "scarless\[data\]"',
    ):
        fetched(raw_file())
    monkeypatch.setenv("SCARLESS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ImportError, match=r'Downloading toy.zip needs pooch: pip install "scarless\[data\]"'):
        fetched(raw_file())


# The table of datasets


def test_the_table_is_well_formed():
    assert len(DATASETS) == 8
    assert len({dataset.folder for dataset in DATASETS.values()}) == 8
    for dataset in DATASETS.values():
        for file in dataset.files:
            assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert file.archive.urls
            assert all(url.startswith(("https://", "http://qwone.com/")) for url in file.archive.urls)
            assert file.largest >= file.n_bytes


@pytest.mark.parametrize("home", [5, 0.5, True, False, b"/nowhere", []])
def test_a_data_home_of_a_wrong_type_is_refused(home):
    with pytest.raises(TypeError, match=r"data_home must be the path of a directory, as text or a pathlib\.Path; got "):
        load_dataset("adult", data_home=home, download=False)


def test_the_home_of_an_unknown_user_is_refused():
    with pytest.raises(DatasetFileError, match="there is no directory '~nobody-at-all/x'"):
        load_dataset("adult", data_home="~nobody-at-all/x", download=False)


@pytest.mark.parametrize("name", [None, slice(1), ["adult"], {}, 3])
def test_a_dataset_name_must_be_text(name):
    with pytest.raises(TypeError, match="name must be the name of a dataset, such as 'simulated'; got "):
        load_dataset(name)
