"""The users of ``tools/three_users.py``: one plays here, all three in ``make test-dist``."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "three_users.py"


@pytest.fixture
def users(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("three_users", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_scientist_gets_posteriors_a_report_and_a_file_out_of_a_pipeline(users):
    users.scientist(users.EXAMPLES)


def test_what_is_not_as_it_should_be_ends_the_play(users):
    users.expect(True, "the sky is up")
    with pytest.raises(SystemExit, match="not so: the sky is down"):
        users.expect(False, "the sky is down")


def test_rooms_that_are_not_there_are_said():
    with pytest.raises(AttributeError, match="module 'scarless' has no attribute 'reports'"):
        __import__("scarless").reports  # noqa: B018
