"""The work of one user of ``tools/three_users.py``; ``make test-dist`` runs all three users."""

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


def test_the_scientist_gets_posteriors_a_report_and_a_model_file_from_a_pipeline(users):
    users.scientist(users.EXAMPLES)


def test_a_condition_that_does_not_hold_ends_the_script(users):
    users.expect(True, "the sky is up")
    with pytest.raises(SystemExit, match="Failed: the sky is down"):
        users.expect(False, "the sky is down")


def test_a_module_that_does_not_exist_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'scarless' has no attribute 'reports'"):
        __import__("scarless").reports  # noqa: B018
