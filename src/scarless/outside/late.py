"""Names of a package that are imported when somebody asks for them."""

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
        The package, as ``__name__`` has it.
    names : mapping of str to str
        Public names, and the module that each is imported from.
    modules : iterable of str
        Modules of the package that are attributes of it as well.

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
