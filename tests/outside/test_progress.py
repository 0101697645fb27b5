"""A progress bar is shown in terminals only."""

import builtins

import pytest

from scarless.outside import progress
from scarless.outside.progress import progress_bar


def test_no_bar_is_shown_outside_a_terminal(capfd):
    with progress_bar("work", 3) as advance:
        for _ in range(3):
            advance()
    assert capfd.readouterr() == ("", "")


def test_no_bar_is_shown_in_a_terminal_if_show_is_false(capfd, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress_bar("work", 3, show=False) as advance:
        advance()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("total", [3, 0])  # 0 means that the number of steps is unknown.
def test_a_bar_is_drawn_on_the_error_stream_if_show_is_true(capsys, total):
    pytest.importorskip("rich")
    with progress_bar("stacking", total, show=True) as advance:
        for _ in range(3):
            advance()
    out, err = capsys.readouterr()
    assert out == ""
    assert "stacking" in err
    assert ("100%" in err) == (total == 3)


def test_a_terminal_gets_a_bar_by_default(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress_bar("cross-fitting", 1) as advance:
        advance()
    out, err = capsys.readouterr()
    assert out == ""
    assert "cross-fitting" in err


def test_an_error_inside_is_not_swallowed():
    with pytest.raises(ZeroDivisionError), progress_bar("work", 1, show=False):
        raise ZeroDivisionError


def test_without_rich_there_is_no_bar_and_show_raises(capfd, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "rich":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    with progress_bar("work", 1) as advance:
        advance()
    assert capfd.readouterr() == ("", "")
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"The progress bar.*rich"), progress_bar("work", 1, show=True):
        pass
