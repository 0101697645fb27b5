"""Cheaper fits for the tests of this folder."""

from tests.short_fits import short_fits

__all__ = ["short_fits"]
