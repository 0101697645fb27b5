"""The folder of a run: made aside, put in its place when all is there; and `run.toml`, which repeats the run."""

import shutil
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from scarless.outside.files import check_place

MODEL, REPORT, SUMMARY, RUN = "model.skops", "report.html", "summary.json", "run.toml"
SCORED = "scored"  # folder of predictions


def check_name(name: str) -> str:
    """Return the name of a file in a folder of results, or say that it would lie elsewhere."""
    if Path(name).name != name:
        raise ValueError(f"Ranked rows go into the folder of results: give a name without a folder, not {name!r}.")
    return name


def check_folder(folder: str | Path, *, force: bool) -> Path:
    """Return where results go, or say that something is there already, or that nothing can be written there."""
    path = check_place(folder)
    if path.is_dir() and not any(path.iterdir()):
        return path
    if path.exists() and not force:
        raise FileExistsError(f"{folder} is there already. Choose another folder (--out), or replace it with --force.")
    if path.exists() and not (path.is_dir() and (path / RUN).exists()):
        raise FileExistsError(f"{folder} does not look like results of a fit (no {RUN} in it), so it is not replaced.")
    return path


def move_into_place(aside: Path, folder: Path) -> None:
    """Put a finished folder in its place."""
    aside.chmod(0o755)
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
        folder.rename(old / "before")
        aside.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        aside.rename(folder)


def read_run(path: str | Path) -> dict[str, Any]:
    """Read a ``run.toml``."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from error


def write_toml(values: dict[str, Any]) -> str:
    """Return plain values and tables of them as TOML."""
    lines = [f"{_key(key)} = {_toml(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, table in values.items():
        if isinstance(table, dict):
            lines += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_toml(value)}" for name, value in table.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _key(key: str) -> str:
    plain = key.replace("_", "").replace("-", "").isalnum() and key.isascii()
    return key if plain else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return '"' + "".join(_escaped(character) for character in str(value)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"
