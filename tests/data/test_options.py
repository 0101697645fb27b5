import numpy as np
import pytest

from scarless.data.options import check_choice, check_positive, check_share, check_whole


def test_choices():
    assert check_choice("risk", "method", ("risk", "likelihood")) == "risk"
    for value in ("Risk", "", None, 1, ["risk"]):
        with pytest.raises(ValueError, match=r"method must be one of 'risk', 'likelihood'; got "):
            check_choice(value, "method", ("risk", "likelihood"))


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2.5), np.int64(3), np.inf, 1e-300])
def test_positive_numbers(value):
    checked = check_positive(value, "C")
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize("value", [0, -1, -0.0, np.nan, -np.inf, "1", None, [1.0]])
def test_numbers_that_are_not_positive(value):
    with pytest.raises(ValueError, match="C must be a number above 0; got "):
        check_positive(value, "C")


@pytest.mark.parametrize("value", [2, 7, np.int32(2), np.uint8(200)])
def test_whole_numbers(value):
    checked = check_whole(value, "max_iter", at_least=2)
    assert type(checked) is int
    assert checked == value


@pytest.mark.parametrize("value", [1, -5, 2.0, 2.5, np.float64(3.0), np.inf, np.nan, True, "2", None])
def test_numbers_that_are_not_whole_or_too_small(value):
    with pytest.raises(ValueError, match="max_iter must be a whole number of at least 2; got "):
        check_whole(value, "max_iter", at_least=2)


@pytest.mark.parametrize("value", [0.5, 1e-9, 1 - 1e-9, np.float32(0.95)])
def test_shares(value):
    checked = check_share(value, "level")
    assert type(checked) is float
    assert checked == value


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 95, np.nan, np.inf, True, "0.5", None])
def test_numbers_that_are_no_shares(value):
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1; got "):
        check_share(value, "level")
