"""Records on disk: only the line that is being written can be lost, no record is stored twice, one writer."""

import errno
import json
import os
import re
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scarless.experiments import Store, store
from scarless.experiments.store import KEY, RECORDS, TIMINGS, environment, key_of, packages_of

SPEC = {"name": "small", "datasets": ["é"]}


def record(method="naive", split=0, **more):
    key = dict(zip(KEY, ("simulated", "all", 2, split, 0, method), strict=True))
    return {**key, "mse_f": 0.25, **more}


def timing(of, seconds=0.5):
    return {**{name: of[name] for name in KEY}, "seconds": seconds}


RECORDS_OF_A_RUN = [record("naive"), record("sar-em", warnings=["ž\n"]), record("naive", split=1)]


@pytest.fixture
def opened(tmp_path):
    opened = Store(tmp_path / "deep" / "results")
    opened.open_for("small", "abc", SPEC)
    return opened


def test_added_records_are_read(opened):
    for row in RECORDS_OF_A_RUN:
        opened.add(row, timing(row))
    assert opened.records() == sorted(RECORDS_OF_A_RUN, key=key_of)
    assert [row["seconds"] for row in opened.timings()] == [0.5] * 3
    assert all(row.items() >= environment().items() for row in opened.timings())


def test_an_empty_store_has_no_records(opened):
    assert opened.records() == opened.timings() == []


def test_the_order_of_adding_does_not_matter(tmp_path):
    found = []
    for number, rows in enumerate(permutations(RECORDS_OF_A_RUN)):
        opened = Store(tmp_path / str(number))
        opened.open_for("small", "abc", SPEC)
        for row in rows:
            opened.add(row, timing(row))
        found.append((opened.records(), sorted((opened.folder / RECORDS).read_bytes().splitlines())))
    assert all(other == found[0] for other in found)


def test_the_key_of_a_record():
    assert key_of(record("naive", 3)) == ("simulated", "all", 2, 3, 0, "naive")


@pytest.mark.parametrize("file", [RECORDS, TIMINGS])
def test_killed_at_any_byte_the_whole_lines_are_kept_and_the_rest_is_done_again(opened, file):
    for row in RECORDS_OF_A_RUN:
        opened.add(row, timing(row))
    path = opened.folder / file
    whole, records = path.read_bytes(), opened.records()
    ends = [0] + [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    near_ends = {end + step for end in ends for step in (-2, -1, 0, 1, 2)}
    for length in sorted(near_ends.union(range(0, len(whole), 10)).intersection(range(len(whole) + 1))):
        path.write_bytes(whole[:length])
        n_read = len(list(opened._read(file, store._is_row)))
        opened.open_for("small", "abc", SPEC)
        kept = max(end for end in ends if end <= length)
        assert path.read_bytes() == whole[:kept]
        assert n_read == ends.index(kept)
        done = {key_of(row) for row in opened.records()}
        for row in RECORDS_OF_A_RUN:
            if key_of(row) not in done:
                opened.add(row, timing(row))
        assert opened.records() == records
        assert len(opened.timings()) <= len(RECORDS_OF_A_RUN)
        (opened.folder / RECORDS).unlink()
        (opened.folder / TIMINGS).unlink()
        for row in RECORDS_OF_A_RUN:
            opened.add(row, timing(row))


def test_killed_between_timing_and_record_the_last_timing_counts(opened):
    row = record()
    store._append(opened.folder / TIMINGS, timing(row, seconds=1.0))
    opened.open_for("small", "abc", SPEC)
    assert opened.records() == []
    opened.add(row, timing(row, seconds=2.0))
    assert [found["seconds"] for found in opened.timings()] == [2.0]
    assert opened.records() == [row]


def test_a_reader_does_not_see_the_line_that_is_being_written(opened):
    opened.add(record(), timing(record()))
    with (opened.folder / RECORDS).open("ab") as file:
        file.write(b'{"dataset": "sim')
    assert opened.records() == [record()]


def test_a_full_disk_raises_and_damages_nothing(opened, monkeypatch):
    write = os.write
    opened.add(record(), timing(record()))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, line: write(descriptor, line[: len(line) // 2]))
        with pytest.raises(OSError, match=r"timings\.jsonl was not written completely\. Free disk space and run"):
            opened.add(record("sar-em"), timing(record("sar-em")))
    opened.open_for("small", "abc", SPEC)
    opened.add(record("sar-em"), timing(record("sar-em")))
    assert len(opened.records()) == len(opened.timings()) == 2


def test_a_damaged_line_is_named(opened):
    opened.add(record(), timing(record()))
    with (opened.folder / RECORDS).open("ab") as file:
        file.write(b"\0\0\0\n")
    with pytest.raises(ValueError, match=r"Line 2 of .*records\.jsonl is damaged\. Run `scarless compare`"):
        opened.records()
    told = opened.open_for("small", "abc", SPEC)
    (sentence,) = told
    assert re.search(r"records\.jsonl: line 2 was damaged or without a timing, and moved to damaged\.jsonl", sentence)
    assert opened.records() == [record()]
    assert (opened.folder / store.REMOVED).read_bytes() == b"\0\0\0\n"
    assert opened.open_for("small", "abc", SPEC) == []


@pytest.mark.parametrize("file", [RECORDS, TIMINGS, store.MANIFEST])
def test_every_flipped_byte_is_found_and_its_record_computed_again(opened, file):
    for row in RECORDS_OF_A_RUN:
        opened.add(row, timing(row))
    path, rng = opened.folder / file, np.random.default_rng(0)
    whole = {each: (opened.folder / each).read_bytes() for each in (RECORDS, TIMINGS, store.MANIFEST)}
    for place in [*range(0, len(whole[file]), 5), len(whole[file]) - 1]:
        for each, content in whole.items():
            (opened.folder / each).write_bytes(content)
        damaged = bytearray(whole[file])
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            told = opened.open_for("small", "abc", SPEC)
        except ValueError as error:
            pytest.fail(f"byte {place}: {error}")
        for row in RECORDS_OF_A_RUN:
            if key_of(row) not in {key_of(each) for each in opened.records()}:
                opened.add(row, timing(row))
        assert opened.records() == sorted(RECORDS_OF_A_RUN, key=key_of), place
        assert len(opened.timings()) == len(RECORDS_OF_A_RUN), place
        assert opened.manifest() == {"name": "small", "digest": "abc", "spec": SPEC}
        assert told or json.loads(damaged) == json.loads(whole[file]), place


def test_lines_of_older_versions_have_no_checksum_and_are_read(opened):
    with (opened.folder / RECORDS).open("ab") as file:
        file.write(json.dumps(record()).encode() + b"\n")
    assert opened.open_for("small", "abc", SPEC) == []
    assert opened.records() == [record()]


def test_without_a_manifest_that_can_be_read_only_records_of_this_specification_count(opened):
    with (opened.folder / RECORDS).open("ab") as file:
        file.write(json.dumps(record()).encode() + b"\n")
    other = Store(opened.folder.parent / "other")
    other.open_for("other", "xyz", SPEC)
    other.add(record("sar-em"), timing(record("sar-em")))
    opened.add(record("known"), timing(record("known")))
    for name in (RECORDS, TIMINGS):
        with (opened.folder / name).open("ab") as file:
            file.write((other.folder / name).read_bytes())
    (opened.folder / store.MANIFEST).write_text("{")
    told = opened.open_for("small", "abc", SPEC)
    assert "was damaged and has been written again" in told[0]
    assert "timings.jsonl: line 2 was damaged" in told[1]
    assert "records.jsonl: lines 1 and 3 were damaged" in told[2]
    assert opened.records() == [record("known")]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(max_examples=30)
@given(texts=st.lists(TEXT, min_size=1, max_size=5))
def test_any_text_survives(texts, tmp_path_factory):
    opened = Store(tmp_path_factory.mktemp("text"))
    opened.open_for(texts[0], "abc", {"title": texts[0]})
    rows = [record(split=number, error=text, warnings=[text]) for number, text in enumerate(texts)]
    for row in rows:
        opened.add(row, timing(row))
    assert opened.records() == rows
    assert (opened.folder / RECORDS).read_bytes().count(b"\n") == len(rows)
    assert opened.manifest() == {"name": texts[0], "digest": "abc", "spec": {"title": texts[0]}}


def test_line_ends_of_other_alphabets_end_no_line(opened):
    row = record(error="a\u2028b\x85c\r\nd\x0be")
    opened.add(row, timing(row))
    assert opened.records() == [row]


def test_another_specification_is_refused_and_the_same_is_not(opened):
    opened.open_for("small", "abc", SPEC)
    with pytest.raises(
        ValueError,
        match=r"another specification: its name is small and its digest abc, but here they are other and abd\. Use",
    ):
        opened.open_for("other", "abd", SPEC)
    assert opened.manifest() == {"name": "small", "digest": "abc", "spec": SPEC}


def test_datasets_are_added_to_a_folder(tmp_path):
    store = Store(tmp_path)
    for datasets in (("one",), ("two", "one"), ("one",)):
        store.open_for("small", "abc", {"seed": 1, "datasets": datasets})
    assert store.manifest()["spec"] == {"seed": 1, "datasets": ["one", "two"]}


def test_a_folder_without_results_says_so(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"has no results: there is no spec\.json\. Run `scarless compare` or `scarless reproduce` first",
    ):
        Store(tmp_path).manifest()


def test_one_writer_at_a_time(tmp_path):
    first, second = Store(tmp_path / "new"), Store(tmp_path / "new")
    with first.locked():
        with (
            pytest.raises(ValueError, match=r"Another process is writing to .*new\. Wait for it, or use another"),
            second.locked(),
        ):
            pass
        assert second.records() == []  # reading needs no lock
    with second.locked():
        pass


def test_an_error_releases_the_lock(tmp_path):
    with pytest.raises(ZeroDivisionError), Store(tmp_path).locked():
        raise ZeroDivisionError
    with Store(tmp_path).locked():
        pass


def test_scratch_is_removed_and_so_is_what_killed_runs_left(tmp_path):
    left = tmp_path / ".scratch-killed"
    left.mkdir()
    (left / "adult.npy").write_bytes(b"0" * 1000)
    keep = tmp_path / "scratch-mine"
    keep.mkdir()
    with Store(tmp_path).scratch() as folder:
        assert not left.exists()
        assert os.listdir(folder) == []
        assert os.path.dirname(folder) == str(tmp_path)
    assert os.listdir(tmp_path) == ["scratch-mine"]


def test_a_manifest_is_there_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            Store(tmp_path).open_for("small", "abc", SPEC)
    Store(tmp_path).open_for("other", "abd", SPEC)
    assert Store(tmp_path).manifest()["digest"] == "abd"


def test_the_environment_names_versions_and_machine():
    found = environment()
    assert set(found) == {"versions", "machine", "clock"}
    assert "numpy " in found["versions"]
    assert json.loads(json.dumps(found)) == found


def install(folder, name, version, source=None):
    """Write the metadata of an installed distribution."""
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if source is not None:
        (metadata / "direct_url.json").write_text(json.dumps(source))


def test_versions_of_packages_behind_the_methods_are_stored_with_every_timing(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "a-peer", "1.2.3")
    commit = {"url": "https://example.org/peer", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef"}}
    install(tmp_path, "peer-of-a-commit", "0.0.1", commit)
    (tmp_path / "peer_in_a_folder.py").touch()
    methods = {
        "first": {"estimator": "mine:First", "packages": ["a-peer", "peer_in_a_folder"]},
        "second": {"estimator": "mine:Second", "packages": ["peer-of-a-commit", "sklearn"]},
    }
    opened = Store(tmp_path / "results")
    opened.open_for("small", "abc", {**SPEC, "own_methods": methods})
    opened.add(record(), timing(record()))
    (stored,) = opened.timings()
    assert stored["versions"] == (
        f"{environment()['versions']}, a-peer 1.2.3, peer-of-a-commit 0.0.1 (commit 0123456789), "
        "peer_in_a_folder (version unknown)"
    )


def test_packages_are_those_named_and_those_of_import_paths_at_any_depth():
    nested = {"estimator": "joblib.parallel:Parallel", "parameters": {"steps": [["a", {"estimator": "pytest:Item"}]]}}
    spec = {
        "own_methods": {"mine": {"estimator": "my_module:Mine", "packages": ["rich"], "parameters": {"base": nested}}},
        "own_datasets": {"table": {"callable": "hypothesis.strategies:lists"}, "file": {"file": "C:table.csv"}},
        "own_mechanisms": {"labels": {"mechanism": "numpy:Labels"}, "ours": {"mechanism": "SCAR"}},
    }
    assert packages_of(spec) == ("hypothesis", "joblib", "pytest", "rich")
    assert packages_of(SPEC) == ()


def test_a_file_of_the_user_is_not_mistaken_for_an_installed_package_of_the_same_name():
    inside = {"base": {"estimator": "pytest:Mine"}}
    method = {"estimator": "joblib:Mine", "source": "ab", "parameters": inside, "sources": {"pytest:Mine": "cd"}}
    assert packages_of({"own_methods": {"mine": method}}) == ()
    assert packages_of({"own_methods": {"mine": {**method, "sources": {}}}}) == ("pytest",)


@pytest.mark.parametrize("name", ["no-such-peer", "no_such_peer", "no.such.peer"])
def test_a_package_that_is_not_installed_is_reported_before_anything_is_written(tmp_path, name):
    spec = {**SPEC, "own_methods": {"mine": {"estimator": "mine:First", "packages": [name]}}}
    with pytest.raises(
        ImportError, match=rf"names the package '{re.escape(name)}', which is not installed\. Install it, or remove"
    ):
        Store(tmp_path / "results").open_for("small", "abc", spec)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "row",
    [
        [1, 2],
        "text",
        None,
        {},
        {**record(), "k": "2"},
        {**record(), "dataset": None},
        {name: value for name, value in record().items() if name != "split"},
        record(mse_f="0.25"),
        record(mse_f=[0.25]),
        record(warnings="slow"),
        record(warnings=[1]),
        record(error=5),
    ],
    ids=str,
)
@pytest.mark.parametrize("file", [RECORDS, TIMINGS])
def test_a_line_that_is_json_and_no_record_is_named(opened, row, file):
    opened.add(record(), timing(record()))
    with (opened.folder / file).open("a") as lines:
        lines.write(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=rf"Line 2 of .*{file} is damaged\. Run `scarless compare`"):
        opened.records() if file == RECORDS else opened.timings()


def test_a_timing_without_a_time_is_named(opened):
    (opened.folder / TIMINGS).write_text(json.dumps(record()) + "\n")
    with pytest.raises(ValueError, match=r"Line 1 of .*timings\.jsonl is damaged"):
        opened.timings()


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"name": "small", "digest": 5, "spec": {}}', "{", "\xff"])
def test_a_damaged_manifest_is_named_and_can_be_written_anew(opened, content):
    opened.add(record(), timing(record()))
    (opened.folder / "spec.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"spec\.json is damaged: it must have the name, the digest .* Run `scarless compare`"
    ):
        opened.manifest()
    (told,) = opened.open_for("small", "abc", SPEC)
    assert "spec.json was damaged and has been written again" in told
    assert opened.records() == [record()]


def test_a_full_disk_is_reported_with_the_file(opened, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*timings\.jsonl'"):
            opened.add(record(), timing(record()))
    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*spec\.json'"):
        opened.open_for("small", "abc", SPEC)
