"""Packages that only the datasets need."""

from importlib import import_module
from typing import Any


def need(package: str, user: str) -> Any:
    """Import an optional package, or say how to get it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{user} needs {package}: pip install 'scarless[data]'.") from error
