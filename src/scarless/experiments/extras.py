"""Packages that only the reproduction of the paper needs."""

from importlib import import_module
from typing import Any

INSTALL = 'pip install "scarless[reproduce]"'


def need(package: str, user: str) -> Any:
    """Import an optional package, or say how to get it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{user} needs {package}: {INSTALL}.") from error
