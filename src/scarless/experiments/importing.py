"""Things of the user's by import path, `module:name`: from the folder of the specification, or from this one."""

import importlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from scarless.experiments.spec import did_you_mean

FORM = "write module:name, for example my_module:MyClassifier"
_INSTALLED = {"site-packages", "dist-packages"}


@contextmanager
def importable(folder: str, paths: Iterable[str]) -> Iterator[None]:
    """Let import paths be found in a folder and in the current one; forget their modules afterwards.

    Worker processes that are started within find them too: they get the search path of their parent.
    """
    before = sys.path[:]
    names = {path.partition(":")[0].partition(".")[0] for path in paths}
    known = names & set(sys.modules)
    if names:
        sys.path[:0] = [os.path.abspath(folder or "."), os.getcwd()]
        importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
        for name in [name for name in sys.modules if name.partition(".")[0] in names - known]:
            del sys.modules[name]


def import_object(path: str) -> Any:
    """Return what an import path names, or say what was tried and why it failed."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"{path!r} is no import path: {FORM}.")
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # whatever a user's module does
        looked = ", ".join(dict.fromkeys(sys.path[:2]))
        raise ValueError(
            f"{path!r} cannot be imported: `import {module}` ended in {type(error).__name__}: {error} (looked in "
            f"{looked} and among installed packages)."
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{path!r} cannot be imported: {module} has no {part!r}. {did_you_mean(part, dir(found))}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{path!r} must be a class or a function; it is {type(found).__name__}.")
    return found


def source_of(path: str) -> dict[str, str]:
    """Return the hash of the file that an import path leads to, where that is the user's own and not installed."""
    file = getattr(sys.modules.get(path.partition(":")[0]), "__file__", None)
    if file is None or not Path(file).is_file():
        return {}
    real = Path(file).resolve()
    if _INSTALLED & set(real.parts) or real.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve()):
        return {}
    return {"source": sha256(real.read_bytes()).hexdigest()}
