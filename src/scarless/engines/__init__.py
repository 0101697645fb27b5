"""Where rows live, and who sums them up."""

from scarless.engines.base import Engine, Rows, attach, has_own_engine, open_rows
from scarless.engines.memory import InMemoryEngine

__all__ = ["Engine", "InMemoryEngine", "Rows", "attach", "has_own_engine", "open_rows"]
