"""Names of a package that are imported on first use."""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def late_names(
    package: str, names: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported on first use.

    Parameters
    ----------
    package : str
        Name of the package.
    names : mapping of str to str
        Public names, with the module of each.
    modules : iterable of str
        Submodules of the package that are also imported on first use.

    Examples
    --------
    >>> get, names_of = late_names("scarless", {"load": "scarless.models"})
    >>> get("load").__name__, "load" in names_of()
    ('load', True)
    >>> get("lode")
    Traceback (most recent call last):
    ...
    AttributeError: module 'scarless' has no attribute 'lode'
    """
    modules = tuple(modules)

    def get(name: str) -> Any:
        if name in names:
            value = getattr(import_module(names[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names, *modules})

    return get, listed
