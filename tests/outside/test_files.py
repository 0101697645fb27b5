"""Files are written as a whole, and errors name them."""

import errno
import os

import pytest

from scarless.outside.files import check_place, naming, write_whole


def test_errors_get_the_name_of_the_file():
    with pytest.raises(OSError, match=r"No space left on device: 'a\.txt'") as caught, naming("a.txt"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == "a.txt"


def test_errors_that_have_a_name_keep_it():
    with pytest.raises(FileNotFoundError, match=r"'b\.txt'"), naming("a.txt"):
        raise FileNotFoundError(errno.ENOENT, "No such file", "b.txt")


def test_errors_without_an_errno_get_the_name_of_the_file():
    with pytest.raises(OSError, match=r"^a\.txt: 100 requested and 8 written$"), naming("a.txt"):
        raise OSError("100 requested and 8 written")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["full", "stopped"])
def test_a_file_is_old_or_new_and_nothing_else_is_left(tmp_path, monkeypatch, error):
    path = tmp_path / "page.html"
    write_whole(path, "old\r\n")

    def fails(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", fails)
        with pytest.raises(type(error)):
            write_whole(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert path.read_bytes() == b"old\r\n"
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_a_folder_without_write_permission_raises_before_the_work(tmp_path, monkeypatch):
    check_place(tmp_path / "new" / "deeper")
    check_place(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=r"run cannot be written: .*file is a file, not a folder"):
        check_place(tmp_path / "file" / "run")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(
        PermissionError, match=r"new cannot be written: you have no permission to write to the folder .*\(--out\)"
    ):
        check_place(tmp_path / "new")
