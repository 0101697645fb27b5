"""Where rows live, and who sums them up."""

from scarless.engines.base import Engine, Rows, attach, has_own_engine, open_rows
from scarless.engines.blocks import Preparation, add_up
from scarless.engines.memory import InMemoryEngine
from scarless.engines.units import Reading, Units

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
