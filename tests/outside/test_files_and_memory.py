"""File locks and memory, also on systems without the modules `fcntl` and `resource`."""

import importlib
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from scarless.experiments import Store
from scarless.experiments import run as experiment_run
from scarless.outside.files import lock, peak_memory


@pytest.fixture
def without_unix(monkeypatch):
    """Hide `fcntl` and `resource`, as on Windows."""
    for name in ("fcntl", "resource"):
        monkeypatch.setitem(sys.modules, name, None)


class Bytes:
    """A fake of the locks in `msvcrt` of Windows: only one holder can lock a byte of a file."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        self.held = []

    def locking(self, descriptor, mode, n_bytes):
        assert n_bytes == 1
        if mode == self.LK_UNLCK:
            self.held.remove(descriptor)
        elif self.held:
            raise PermissionError(13, "Permission denied")
        else:
            self.held.append(descriptor)


def test_unix_modules_and_extras_are_imported_only_when_needed():
    """Run in a new Python process without both modules of Unix; other modules are imported when they are used."""
    code = (
        "import sys; sys.modules.update(fcntl=None, resource=None);"
        "import scarless; extras = ('skops', 'skrub', 'onnx', 'skl2onnx', 'dask', 'distributed', 'duckdb');"
        "print([name for name in extras if name in sys.modules]);"
        "scarless.report.model_report, scarless.diagnostics.scar_test, scarless.metrics.true_risk;"
        "import scarless.cli, scarless.experiments, scarless.report, scarless.diagnostics, scarless.datasets"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_peak_memory_grows_and_is_in_mebibytes():
    before = peak_memory()
    block = bytearray(64 * 2**20)
    block[:: 2**10] = b"x" * len(block[:: 2**10])  # written to, so that the system allocates the memory
    assert before is not None
    assert 10 < before <= peak_memory() < 10**6


@pytest.mark.parametrize(("platform", "mebibytes"), [("linux", 2048.0), ("darwin", 2.0)])
def test_macos_counts_in_bytes(monkeypatch, platform, mebibytes):
    used = SimpleNamespace(ru_maxrss=2 * 2**20)
    monkeypatch.setitem(sys.modules, "resource", SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda who: used))
    monkeypatch.setattr(sys, "platform", platform)
    assert peak_memory() == mebibytes


@pytest.mark.usefixtures("without_unix")
def test_without_resource_there_is_no_peak():
    assert peak_memory() is None


@pytest.mark.usefixtures("without_unix")
def test_without_resource_a_timing_has_seconds_and_no_memory(monkeypatch):
    fit = SimpleNamespace(class_prior=0.5, e=None, n_iter=3)
    task = SimpleNamespace(cell=experiment_run.Cell("simulated", "all", 2, 0, 0), s_train=np.ones(2), named=())
    monkeypatch.setattr(experiment_run, "scores_of", lambda fit, task: {"mse_f": 0.25})
    record, timing = experiment_run._run_method(
        SimpleNamespace(task=task, borrowed_seconds=0.0), "made up", lambda _: fit
    )
    assert (record["mse_f"], record["n_iter"]) == (0.25, 3)
    assert "seconds" in timing
    assert "peak_mb" not in timing


def test_windows_locks_are_taken_and_given_back(without_unix, monkeypatch, tmp_path):
    windows = Bytes()
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    with Store(tmp_path).locked():
        assert len(windows.held) == 1
        with pytest.raises(ValueError, match="Another process is writing to"), Store(tmp_path).locked():
            pass
        assert len(windows.held) == 1
    assert windows.held == []
    with pytest.raises(ZeroDivisionError), lock(tmp_path / ".lock"):
        raise ZeroDivisionError
    assert windows.held == []


def test_without_file_locks_there_is_one_warning(without_unix, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with (
        pytest.warns(RuntimeWarning, match=r"no file locks, so a second process .* only one process at a time"),
        Store(tmp_path).locked(),
    ):
        Store(tmp_path).open_for("small", "abc", {})
    assert Store(tmp_path).records() == []


def test_the_warning_about_locks_points_at_the_callers_line(without_unix, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "msvcrt", None)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Store(tmp_path).locked():
            pass
    assert [warning.filename for warning in told] == [__file__]


def test_an_error_inside_the_lock_is_raised_unchanged(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"), Store(tmp_path).locked():
        raise FileNotFoundError("gone")


def test_line_ends_are_not_translated(monkeypatch, tmp_path):
    """Windows writes a line end as two bytes unless the file is opened in binary mode."""
    store = importlib.import_module("scarless.experiments.store")
    opened, flags = store.os.open, []

    def spy(path, flag, mode):
        flags.append(flag)
        return opened(path, flag & ~(1 << 30), mode)

    monkeypatch.setattr(store.os, "O_BINARY", 1 << 30, raising=False)
    monkeypatch.setattr(store.os, "open", spy)
    store._append(tmp_path / "records.jsonl", {"a": 1})
    assert flags[0] & (1 << 30)
    assert (tmp_path / "records.jsonl").read_bytes() == b'{"a": 1}\n'
