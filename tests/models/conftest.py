"""Cheaper fits for the tests of this folder."""

from tests.short_fits import one_start, short_fits

__all__ = ["one_start", "short_fits"]
