"""Engines: objects that store the rows of a table and compute sums over them."""

from scarless.engines.base import Engine, Rows, attach, has_own_engine, open_rows
from scarless.engines.blocks import Preparation, Reading, Units, add_up
from scarless.engines.memory import InMemoryEngine

__all__ = [
    "Engine",
    "InMemoryEngine",
    "Preparation",
    "Reading",
    "Rows",
    "Units",
    "add_up",
    "attach",
    "has_own_engine",
    "open_rows",
]
