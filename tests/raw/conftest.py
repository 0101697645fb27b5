"""Cheaper fits for the tests of this folder."""

from tests.short_fits import few_trees_in_scores, short_fits

__all__ = ["few_trees_in_scores", "short_fits"]
