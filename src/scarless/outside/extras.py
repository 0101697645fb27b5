"""Optional packages, and how to install them."""

from importlib import import_module
from typing import Any

REPRODUCE = "reproduce"


def install(extra: str) -> str:
    """Return the command that installs an extra, which is a set of optional packages."""
    return f'pip install "scarless[{extra}]"'


def need(package: str, user: str, extra: str = "data") -> Any:
    """Import an optional package; raise an error with the install command if it is missing."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{user} needs {package.partition('.')[0]}: {install(extra)}.") from error
