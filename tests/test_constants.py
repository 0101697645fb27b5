"""The page of constants agrees with the comments in the source, and each comment gives the reason for the value."""

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "constants.py"


@pytest.fixture(scope="module")
def constants():
    spec = importlib.util.spec_from_file_location("constants", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_agrees_with_the_source(constants):
    assert constants.PAGE.read_text(encoding="utf-8") == constants.page(), "run python tools/constants.py"


def test_the_comment_of_every_listed_constant_gives_a_reason(constants):
    found = constants.all_constants()
    assert len(found) > 20
    without_reason = [each.names for each in found if not re.search(r"Evidence: \w|By judgement", each.text)]
    assert without_reason == []
    assert [each.names for each in found if not re.search(r"[.)]$", each.text) or "|" in each.text] == []


def test_only_marked_comments_directly_above_a_constant_count(constants):
    source = (
        "#: One. By\n#: judgement.\nA, B = 1, 2\n# no\nC = 3\n#: Far. By judgement.\n\nD = 4\n#: X.\nE: int = f(1)\n"
    )
    assert constants.constants_of(source, "m") == [
        constants.Constant("m", ("A", "B"), "1, 2", "One. By judgement."),
        constants.Constant("m", ("E",), "f(1)", "X."),
    ]
