"""Specification, methods and questions of the comparison of the field's methods with ours."""

from scarless.papers.field.methods import METHOD_NAMES, METHODS, PATH, specification
from scarless.papers.field.story import STORY

__all__ = ["METHODS", "METHOD_NAMES", "PATH", "STORY", "specification"]
