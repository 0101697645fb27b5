"""The command line starts a Ray session; the package ray is replaced, because it is large."""

import sys
from types import SimpleNamespace

import pandas as pd
import pytest

from scarless.cli import main
from scarless.scale.executors import start_ray


@pytest.fixture
def ray(monkeypatch):
    """Return a package ray whose session cannot be started; `calls` are the options of each attempt."""
    calls = []

    def init(**options):
        calls.append(options)
        raise ConnectionError("there is no cluster at RAY_ADDRESS")

    package = SimpleNamespace(is_initialized=lambda: False, init=init, calls=calls)
    monkeypatch.setitem(sys.modules, "ray", package)
    return package


def test_the_command_line_starts_a_session(ray, tmp_path, capsys):
    table = pd.DataFrame({"a": [0.0, 1.0] * 20, "visits": [1.0, 2.0, 3.0, 4.0] * 10, "label": [0, 1] * 20})
    (tmp_path / "rows").mkdir()
    table.to_parquet(tmp_path / "rows" / "a.parquet", index=False)
    fit = ["fit", str(tmp_path / "rows"), "--label", "label", "--propensity", "visits", "--model", "logistic"]
    assert main([*fit, "--scheduler", "ray", "--quiet", "--out", str(tmp_path / "run")]) != 0
    assert "there is no cluster at RAY_ADDRESS" in capsys.readouterr().err
    assert len(ray.calls) == 1


def test_a_session_that_exists_is_kept(ray, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    start_ray()
    assert ray.calls == []


def test_without_the_package_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match='scheduler="ray" needs the package ray: pip install ray'):
        start_ray()
