"""A root, and nothing left behind."""

import gc
import weakref

import pytest

from scarless.numerics.interval import find_root


class Cubic:
    def __call__(self, x):
        return x**3 - 8.0


def test_the_root_is_found():
    assert find_root(Cubic(), 0.0, 5.0) == pytest.approx(2.0, abs=1e-10)


@pytest.mark.parametrize("high", [5.0, 1.0])
def test_the_function_is_let_go_without_the_garbage_collector(high):
    function = Cubic()
    watched = weakref.ref(function)
    gc.disable()
    try:
        if high == 1.0:
            with pytest.raises(ValueError, match="different signs"):
                find_root(function, 0.0, high)
        else:
            find_root(function, 0.0, high)
        del function
        assert watched() is None
    finally:
        gc.enable()
