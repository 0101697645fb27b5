"""Build wheel and sdist, and test both as users would install them: ``make test-dist``.

The wheel is built from the sdist, installed in a new environment, and tested in an empty folder: an import, a fit, the
command line, and the work of three users (``tools/three_users.py``). The sdist is unpacked in another folder. It must
contain every file of the repository except the folder .ci. Pytest must be able to collect all its tests, and some tests
that read files outside the package must pass.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
NOT_IN_SDIST = (".ci/",)
FIT = """
from importlib.resources import files
import numpy as np, scarless
assert "site-packages" in scarless.__file__, scarless.__file__
assert files("scarless").joinpath("py.typed").is_file()
for name in ("spec.toml", "DEVIATIONS.md"):
    assert files("scarless.papers.bekker2019").joinpath(name).is_file(), name
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 2))
y = rng.random(5000) < 1 / (1 + np.exp(1 - 3 * X[:, 0]))
s = y & (rng.random(5000) < 1 / (1 + np.exp(-X[:, 1])))
model = scarless.SAREMClassifier(propensity_attributes=[1], classification_attributes=[0]).fit(X, s)
low, high = model.class_prior_interval()
print(f"class prior {model.class_prior_:.3f}, {low:.3f} to {high:.3f}; true share {y.mean():.3f}")
assert low < y.mean() < high
"""
SPEC = """
name = "tiny"
title = "A tiny experiment"
seed = 1
datasets = ["simulated"]
settings = ["all"]
n_propensity_attributes = [2]
n_splits = 1
n_labellings = 1
test_share = 0.2
methods = ["naive", "sar-em"]
[labelling]
added_attributes = 2
clusters = 2
low = 0.2
high = 0.8
[options]
C = 1.0
km_max_rows = 100
[quick]
"""
# Tests that read files outside the package, such as benchmarks and documentation.
TESTS_TO_RUN = (
    *("README.md", "docs", "tests/test_house.py", "tests/cli/test_experiments.py", "tests/datasets/test_loaders.py"),
    *("tests/experiments/test_spec.py", "tests/papers", "tests/label_frequency/test_tice_numerics.py"),
    "tests/test_fuzz.py::test_every_public_name_is_called_or_is_known_to_be_a_result",
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for wheel and sdist (default: dist)")
    out = options.parse_args().out.resolve()
    with TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        wheel, sdist = build(home, out)
        python = environment(home / "used")
        try_wheel(wheel, python, home)
        try_sdist(sdist, python, home)
    print(f"Both passed: {wheel.name}, {sdist.name}")


def environment(folder: Path) -> str:
    """Create a virtual environment; return the path of its Python."""
    venv.create(folder, with_pip=True)
    return str(folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def run(*command: str | Path, within: Path) -> None:
    """Run a command without PYTHONPATH, so that it cannot import from the repository; exit if it fails."""
    print("$", *(str(part).strip().splitlines()[0] for part in command[:6]), flush=True)
    environment_variables = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MAKEFLAGS")
    }
    done = subprocess.run([str(part) for part in command], cwd=within, env=environment_variables, check=False)
    if done.returncode:
        sys.exit(f"The command failed with exit code {done.returncode}.")


def install(python: str, *what: str | Path, within: Path) -> None:
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what, within=within)


def build(home: Path, out: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return wheel and sdist."""
    builder = environment(home / "builder")
    install(builder, "build", within=home)
    made = home / "made"
    run(builder, "-m", "build", "--outdir", made, ROOT, within=home)
    out.mkdir(parents=True, exist_ok=True)
    (wheel,), (sdist,) = ([path.replace(out / path.name) for path in made.glob(kind)] for kind in ("*.whl", "*.tar.gz"))
    return wheel, sdist


def try_wheel(wheel: Path, python: str, home: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    others = sorted({name.split("/")[0] for name in names if not name.startswith("scarless")})
    if others:
        sys.exit(f"The wheel would also install {', '.join(others)}.")
    empty = home / "empty"
    empty.mkdir()
    install(python, "-c", ROOT / "constraints.txt", wheel, within=empty)
    run(python, "-W", "error", "-c", FIT, within=empty)
    install(python, "-c", ROOT / "constraints.txt", f"{wheel}[reproduce]", within=empty)
    (empty / "tiny.toml").write_text(SPEC)
    scarless = Path(python).with_name("scarless")
    run(scarless, "--version", within=empty)
    run(scarless, "compare", "tiny.toml", "--out", "found", "--jobs", "1", within=empty)
    if not (empty / "found" / "report.html").is_file():
        sys.exit("`scarless compare` did not write its page.")
    install(python, "-c", ROOT / "constraints.txt", f"{wheel}[tool,reproduce]", within=empty)
    users = home / "users"
    users.mkdir()
    run(python, "-W", "error", ROOT / "tools" / "three_users.py", within=users)


def try_sdist(sdist: Path, python: str, home: Path) -> None:
    with tarfile.open(sdist) as packed:
        packed.extractall(home / "unpacked", filter="data")
    (folder,) = (home / "unpacked").iterdir()
    missing = [name for name in tracked() if not (folder / name).exists()]
    if missing:
        sys.exit(f"{len(missing)} files are missing from the sdist; the first is {missing[0]}.")
    install(python, "-c", folder / "constraints.txt", "-e", f"{folder}[test]", within=folder)
    run(python, "-m", "pytest", "--collect-only", "-qq", within=folder)
    run(python, "-m", "pytest", "-q", *TESTS_TO_RUN, within=folder)


def tracked() -> list[str]:
    """Return the files that git tracks, which the sdist must contain; an empty list outside a git repository."""
    if not (ROOT / ".git").exists():
        return []
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if not name.startswith(NOT_IN_SDIST)]


if __name__ == "__main__":
    main()
