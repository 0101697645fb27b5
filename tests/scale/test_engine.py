"""The engine over partitions gives the results of the engine in memory, identical for every executor."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scale.files import NAMES, make_rows, write_files

from scarless.engines import InMemoryEngine, attach, open_rows
from scarless.engines.blocks import Reading, Units
from scarless.scale import ParquetRows
from scarless.scale import engine as module
from scarless.scale.engine import PartitionedEngine
from scarless.scale.executors import Threads
from scarless.scale.partitions import MAX_BATCHES, MIN_BATCHES, Cache, PartitionStore, Plan, token_of

MUCH = Cache(2**30)


class Piece:
    """A partition whose values are computed from the row numbers."""

    def __init__(self, start, n_rows):
        self.start, self.n_rows = start, n_rows

    def __repr__(self):
        return f"Piece({self.start}, {self.n_rows})"

    def load(self):
        number = np.arange(self.start, self.start + self.n_rows, dtype=float)
        return {"X": np.stack([number, np.sin(number), number % 7]).T, "y": (number % 3 == 0).astype(int)}


def pieces(sizes):
    starts = np.cumsum([0, *sizes[:-1]])
    return [Piece(int(start), int(size)) for start, size in zip(starts, sizes, strict=True)]


def partitioned(sizes, executor=None, cache=MUCH):
    plan = Plan.of(pieces(sizes), ["n", "sine", "rest"], np.dtype(float))
    return PartitionedEngine(plan, executor or Threads(1), cache)


def in_memory(n):
    whole = Piece(0, n).load()
    return InMemoryEngine(whole.pop("X"), whole)


def sums(X, rows, factor=1.0):
    return factor * X.sum(axis=0), float(rows["y"] @ X[:, 1]), float(rows.number.sum())


def doubled(X, rows, factor):
    return {"z": factor * X[:, 0] + rows["y"]}


def kept_sums(X, rows):
    return X.sum(axis=0), rows["z"].sum(), (rows["z"] * rows.number).sum()


def assert_close(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-9)


SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=9)


@given(sizes=SIZES, step=st.integers(1, 9), first=st.integers(0, 5), again=st.integers(1, 4), home=st.booleans())
@settings(max_examples=60, deadline=None)
def test_selections_and_kept_values_equal_those_in_memory(sizes, step, first, again, home):
    n = sum(sizes)
    first = min(first, n - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_BYTES_IN_PROCESS", 2**27 if home else 0)
        found = []
        for engine in (partitioned(sizes), in_memory(n)):
            part = engine.derive(doubled, 2.0, keep=True).every(step, first)
            smaller = part.derive(doubled, 3.0, keep=True).every(again)
            found.append((part, smaller))
    for ours, plain in zip(*found, strict=True):
        assert (ours.n_rows, ours.n_columns) == (plain.n_rows, plain.n_columns)
        assert_close(ours.total(kept_sums), plain.total(kept_sums))
        np.testing.assert_array_equal(
            ours.collect(lambda X, rows: rows.number), plain.collect(lambda X, rows: rows.number)
        )


def test_units_and_precision_are_those_in_memory():
    units = Units(np.array([3.0, 0.0, 1.0]), np.array([0.5, 1.0, 2.0]))
    found = []
    for engine in (partitioned([30, 1, 20]), in_memory(51)):
        read = engine.read_as(Reading(np.dtype(np.float64), units))
        assert read.units is units
        found.append((read.total(sums), read.in_units().derive(doubled, 1.0).total(kept_sums)))
    assert_close(found[0][0], found[1][0])
    assert_close(found[0][1], found[1][1])
    single = partitioned([30, 1, 20]).read_as(Reading(np.dtype(np.float32), None))
    assert single.dtype == np.float32
    assert single.collect(lambda X, rows: X[:, 1]).dtype == np.float32


def test_attached_values():
    engine = attach(partitioned([10, 15]), p=np.arange(25.0))
    assert engine.total(lambda X, rows: (float(rows["p"] @ X[:, 0]),)) == (float(np.arange(25.0) @ np.arange(25.0)),)


def test_values_are_collected_into_an_array():
    into = np.empty(25)
    assert partitioned([10, 15]).collect(lambda X, rows: X[:, 0], into=into) is into
    np.testing.assert_array_equal(into, np.arange(25.0))


def test_bits_depend_on_the_plan_alone(tmp_path):
    sizes = [100] * (2 * MIN_BATCHES + 5)
    plain = partitioned(sizes).total(sums, 0.1)
    for executor in (Threads(1), Threads(3)):
        for cache in (MUCH, Cache(0, ""), Cache(0, str(tmp_path)), Cache(10**6, str(tmp_path))):
            found = partitioned(sizes, executor, cache).derive(doubled, 0.3, keep=True).total(sums, 0.1)
            for a, b in zip(found, plain, strict=True):
                np.testing.assert_array_equal(a, b)


@given(sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=300))
def test_batches_are_few_complete_and_even(sizes):
    plan = Plan.of(pieces(sizes), ["n", "sine", "rest"], np.dtype(float))
    batches = plan.batches
    assert [part for batch in batches for part in batch] == list(plan.partitions)
    assert len(batches) <= MIN_BATCHES
    assert all(batches)
    heaviest = max(sum(part.source.n_rows for part in batch) for batch in batches)
    assert heaviest <= sum(sizes) / MIN_BATCHES + 2 * max(sizes)


def test_many_partitions_have_more_batches():
    for n, expected in ((1000, 125), (10_000, MAX_BATCHES)):
        plan = Plan.of(pieces([1] * n), ["n", "sine", "rest"], np.dtype(float))
        assert len(plan.batches) == expected


# --- the cache of decoded rows


@pytest.fixture
def store(monkeypatch):
    """Return an empty store, without entries of other tests."""
    store = PartitionStore()
    for holder in ("partitions", "executors"):
        monkeypatch.setattr(f"scarless.scale.{holder}.STORE", store)
    return store


def test_each_partition_is_loaded_once_in_memory_or_as_a_file(tmp_path, store):
    engine = partitioned([40, 50], cache=Cache(1500, str(tmp_path)))
    before = store.loads
    first = engine.total(sums)
    assert store.loads - before == 2
    assert len(list(tmp_path.rglob("X.bin"))) == 1  # The first partition fits into memory, the second does not.
    for _ in range(3):
        assert engine.total(sums)[1] == first[1]
    assert store.loads - before == 2
    again = partitioned([40, 50], cache=Cache(0, ""))
    again.total(sums)
    again.total(sums)
    assert store.loads - before == 2  # An equal engine uses the same rows.


def test_nothing_is_cached_without_memory_and_folder(store):
    engine = partitioned([41, 51], cache=Cache(0, ""))
    before = store.loads
    for _ in range(3):
        engine.total(sums)
    assert store.loads - before == 6


@pytest.mark.usefixtures("little_garbage")
def test_entries_are_removed_with_the_last_engine(tmp_path):
    engine = partitioned([43, 53], cache=Cache(0, str(tmp_path)))
    kept = engine.derive(doubled, 2.0, keep=True)
    kept.total(kept_sums)
    assert len(list(tmp_path.rglob("z.bin"))) == 2
    twin = partitioned([43, 53], cache=Cache(0, str(tmp_path))).derive(doubled, 2.0, keep=True)
    del kept
    gc.collect()
    assert len(list(tmp_path.rglob("z.bin"))) == 2  # entries that the other engine still needs
    del twin
    gc.collect()
    assert not list(tmp_path.rglob("z.bin"))
    assert len(list(tmp_path.rglob("X.bin"))) == 2
    del engine
    gc.collect()
    assert not list(tmp_path.rglob("X.bin"))


def test_text_stays_in_memory(tmp_path):
    store = PartitionStore()
    made = {"y": np.array(["a", "b"], dtype=object), "x": np.ones((2, 3)).T}
    found = store.get("k/1", Cache(0, str(tmp_path)), lambda: made)
    assert found["y"] is made["y"]
    assert isinstance(found["x"].base, np.memmap)
    np.testing.assert_array_equal(found["x"], made["x"])
    store.forget("k/")
    assert not list(tmp_path.rglob("*.bin"))


def test_equal_steps_have_equal_tokens():
    assert token_of("a", doubled, 1.0) == token_of("a", doubled, 1.0)
    assert len({token_of("a", doubled, 1.0), token_of("b", doubled, 1.0), token_of("a", doubled, 2.0)}) == 3
    closed = [lambda: 0]
    assert token_of("a", closed) != token_of("a", closed)


def test_rows_of_files_are_those_of_the_table(tmp_path):
    X, s = make_rows(1000)
    engine = open_rows(ParquetRows(write_files(tmp_path, X, [100, 700], s=s)), "s")
    np.testing.assert_array_equal(engine.collect(lambda X, rows: X), X)
    np.testing.assert_array_equal(engine.collect(lambda X, rows: rows["y"]), s)
    assert engine.names == NAMES
