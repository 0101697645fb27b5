"""A bar for long work: shown where somebody is looking, and gone at the end."""

import builtins

import pytest

from scarless.data import progress
from scarless.data.progress import progress_bar


def test_a_bar_is_shown_when_asked_for_and_else_where_somebody_looks(capsys):
    for show, told in ((True, True), (False, False), (None, False)):  # no terminal here
        with progress_bar("counting sheep", 3, show) as advance:
            for _ in range(3):
                advance()
        assert ("counting sheep" in capsys.readouterr().err) is told


def test_a_total_need_not_be_known(capsys):
    with progress_bar("counting stars", 0, True) as advance:
        advance()
    assert "counting stars" in capsys.readouterr().err


def test_a_notebook_shows_a_bar_where_it_can(monkeypatch):
    class ZMQInteractiveShell:
        """What IPython calls itself in a notebook."""

    assert not progress._in_notebook()
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    for there in (True, False):
        monkeypatch.setattr(progress, "find_spec", lambda package, there=there: package == "rich" or there or None)
        assert progress._in_notebook() is there


def test_a_bar_that_is_asked_for_needs_rich_and_another_does_without(monkeypatch):
    def missing(package, *_):
        raise ImportError(package)

    monkeypatch.setattr(progress, "need", missing)
    monkeypatch.setattr(progress, "find_spec", lambda package: None)
    with pytest.raises(ImportError, match="rich"), progress_bar("bar", 1, True):
        pass
    with progress_bar("bar", 1) as advance:
        advance()
