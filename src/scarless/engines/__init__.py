"""Who sums the row blocks."""

from scarless.engines.base import Engine
from scarless.engines.memory import InMemoryEngine

__all__ = ["Engine", "InMemoryEngine"]
