"""Checkpoints of passes contain plain data with a checksum; damaged ones are computed again."""

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.scale.files import NAMES, make_rows, write_files

from scarless import SAREMClassifier, SCARClassifier
from scarless.engines.blocks import Distinct, First, Largest
from scarless.numerics.objectives import Sums
from scarless.scale import ParquetRows
from scarless.scale.engine import Passes, packed, unpacked

AGAIN = r"The checkpoint .*\.pass is damaged or was written by an older version of scarless\. This pass will be"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    X, s = make_rows(600)
    return write_files(tmp_path_factory.mktemp("rows"), X, [250], s=s, word=np.where(s, "yes", "no"))


def fitted_bits(files, folder, label="s"):
    rows = ParquetRows(files, columns=NAMES, checkpoint=folder)
    model = SAREMClassifier(propensity_attributes=["d"]).fit(rows, label)
    return model.coef_.tobytes() + model.propensity_coef_.tobytes() + np.float64(model.class_prior_).tobytes()


def test_a_damaged_checkpoint_warns_and_is_computed_again(files, tmp_path):
    whole = fitted_bits(files, tmp_path)
    rng = np.random.default_rng(0)
    kept = sorted(tmp_path.glob("*.pass"))
    for path in kept:
        data = path.read_bytes()
        for place in (0, len(data) - 1, *rng.integers(len(data), size=2)):
            damaged = bytearray(data)
            damaged[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(damaged)
            with pytest.warns(UserWarning, match=AGAIN) as caught:
                assert fitted_bits(files, tmp_path) == whole
            assert [path.name in str(each.message) for each in caught] == [True]
            assert path.read_bytes() == data, "the pass is kept again"


@pytest.mark.parametrize("left", [b"", b"PK", bytes(500)])
def test_an_invalid_checkpoint_is_computed_again(left, files, tmp_path):
    whole = fitted_bits(files, tmp_path)
    path = next(iter(tmp_path.glob("*.pass")))
    path.write_bytes(left)
    with pytest.warns(UserWarning, match=AGAIN):
        assert fitted_bits(files, tmp_path) == whole


def test_one_pass_is_not_taken_for_another(files, tmp_path):
    whole = fitted_bits(files, tmp_path)
    one, other, *_ = sorted(tmp_path.glob("*.pass"))
    other.write_bytes(one.read_bytes())
    with pytest.warns(UserWarning, match=AGAIN):
        assert fitted_bits(files, tmp_path) == whole


class Hostile:
    def __reduce__(self):
        return os._exit, (3,)


def test_a_checkpoint_runs_no_code(files, tmp_path):
    whole = fitted_bits(files, tmp_path)
    for path in tmp_path.glob("*.pass"):
        path.write_bytes(pickle.dumps(Hostile()))
    with pytest.warns(UserWarning, match=AGAIN):
        assert fitted_bits(files, tmp_path) == whole


@pytest.mark.parametrize("label", ["s", "word"])
def test_all_passes_of_a_fit_are_stored(label, files, tmp_path, monkeypatch):
    """This includes text labels, and rows that were drawn to estimate the label frequency."""

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return SCARClassifier(label_frequency="elkan-noto").fit(
                ParquetRows(files, columns=NAMES, checkpoint=tmp_path), label
            )

    first = fit()
    plain, computed = Passes.recall, []

    def recall(self, key, compute):
        return plain(self, key, lambda: computed.append(key) or compute())

    monkeypatch.setattr(Passes, "recall", recall)
    assert fit().coef_.tobytes() == first.coef_.tobytes()
    assert computed == []
    assert all(path.suffix == ".pass" for path in Path(tmp_path).iterdir())


def test_values_come_back_as_they_were():
    matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    value = (
        Sums(np.float64(0.1), np.array([np.nan, -0.0]), matrix),
        Largest(np.array([2.0, np.inf])),
        First(3, ("a", None, True, 2.5)),
        Distinct(np.array(["no", "yes"], dtype=object)),
        [np.int32(7), np.array(1.5), np.array(["x"])],
    )
    found = unpacked(packed(value, "key"), "key")
    assert pickle.dumps(found) == pickle.dumps(value)
    assert isinstance(found[0], Sums)
    assert found[2] == value[2]


def test_values_that_cannot_be_stored_are_not_packed(tmp_path):
    passes, value = Passes(tmp_path), Hostile()
    assert passes.recall("a", lambda: value) is value
    assert (packed(value, "a"), list(tmp_path.iterdir())) == (None, [])


def test_classes_of_other_packages_are_not_restored():
    from scarless.scale import engine

    content = packed(Sums(1.0, 2.0, 3.0), "key")[32:].replace(
        b"scarless.numerics.objectives", b"collections" + b" " * 17
    )
    with pytest.raises(ValueError, match=r"cannot be read by this version of scarless"):
        unpacked(engine._digest(content, "key") + content, "key")
