"""Cheaper fits for the tests of this folder that test neither the grid of class priors nor starts."""

from tests.short_fits import short_fits

__all__ = ["short_fits"]
