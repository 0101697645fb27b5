"""Folders of results: made aside, put in their place when all is there."""

import shutil
import tempfile
from pathlib import Path

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
