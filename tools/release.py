"""Check what a release needs: ``make release-check``, or ``python tools/release.py --check``.

Each item of the list is a function of the root folder that returns complaints; no complaint means that the item is
done. The program prints one line for each item, and exits with status 1 if an item has complaints. ``--list`` prints
the items, ``--only NAME`` checks one item and prints all its complaints. ``--fast`` leaves out the items that take
minutes. ``--online`` also opens the links to other sites. CONTRIBUTING.md, "Releasing", describes the other steps.
"""

import argparse
import ast
import gzip
import importlib.metadata
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
SHOWN = 2  # complaints of an item that its line shows
NOTICES = "THIRD_PARTY_NOTICES.md"
# Folders of single machines and users. Examples in the documentation use other names, such as "results" or "data".
MACHINE_PATH = re.compile(
    r"(?<![\w.~:/-])/(?:home|Users|root|tmp|work|mnt|srv|opt)/[\w.-]+|\b[A-Z]:\\{1,2}Users\\{1,2}\w+"
)
INVENTED_PATHS = ("/home/somebody", "/home/user", "/tmp/scarless")  # of nobody; used in tests and examples
# Files with these suffixes are source code or text of this project. All other files are data, and must be listed.
OWN_SUFFIXES = {".py", ".md", ".rst", ".toml", ".cff", ".jinja", ".css", ".js", ".typed", ".yaml", ".bib"}
OWN_NAMES = {"LICENSE", "Makefile", ".gitignore", ".gitattributes", "run", "constraints.txt", "constraints-oldest.txt"}
PACKED = {".gz", ".png", ".skops"}
GONE = (404, 410)
SECONDS_PER_LINK = 20


class Item(NamedTuple):
    """One item of the checklist."""

    name: str
    what: str
    complaints: Callable[[Path], list[str]]
    slow: bool = False
    online: bool = False


def tracked(root: Path) -> list[Path]:
    """Return the files that git tracks."""
    return [root / name for name in git(root, "ls-files").splitlines() if (root / name).is_file()]


def git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout


def read(path: Path) -> str:
    """Return the text of a file; of a compressed file, its content."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode("utf-8", errors="replace")


def project(root: Path) -> dict[str, str]:
    """Return the table `project` of pyproject.toml."""
    return tomllib.loads(read(root / "pyproject.toml"))["project"]


# --- versions


def installed_version() -> str:
    return importlib.metadata.version("scarless")


def check_versions(root: Path) -> list[str]:
    """Compare the version of pyproject.toml with all other places that have it."""
    version, found = project(root)["version"], {}
    patterns = {
        "CITATION.cff": r"^version: *(\S+)",
        "CHANGELOG.md": r"^## (\S+)",
        "conda/recipe/meta.yaml": r'set version = "([^"]+)"',
    }
    for name, pattern in patterns.items():
        match = re.search(pattern, read(root / name), re.MULTILINE) if (root / name).is_file() else None
        found[name] = match[1] if match else "no version"
    wrong = [
        f"{name} has {other}, pyproject.toml has {version}: make them equal"
        for name, other in found.items()
        if other != version
    ]
    if (installed := installed_version()) != version:
        wrong.append(f"scarless.__version__ is {installed}, pyproject.toml has {version}: run pip install -e .")
    if "scarless.__version__" not in read(root / "docs" / "conf.py"):
        wrong.append("docs/conf.py does not take its version from scarless.__version__: write it so")
    if re.search(r"dev|a|b|rc", version):
        wrong.append(f"{version} is no version of a release: remove what follows the three numbers")
    return wrong


def check_changelog(root: Path) -> list[str]:
    """The first section of the changelog has the version, a date and content."""
    head, _, rest = read(root / "CHANGELOG.md").partition("\n## ")[2].partition("\n")
    wrong = []
    if not re.fullmatch(r"\S+ \(\d{4}-\d{2}-\d{2}\)", head):
        wrong.append(f"the first heading of CHANGELOG.md is {head!r}: write the date of the release, as (2026-01-31)")
    if not re.search(r"^- ", rest.partition("\n## ")[0], re.MULTILINE):
        wrong.append("the first section of CHANGELOG.md is empty: list what changed")
    return wrong


# --- links


def check_links(root: Path) -> list[str]:
    """Every file, page and heading that a document links to exists, and every file that a docstring names."""
    wrong = []
    for path in (each for each in tracked(root) if each.suffix == ".md"):
        shown = path.relative_to(root).as_posix()
        for link in links_of(read(path)):
            if "://" not in link and not link.startswith(("mailto:", "reports/")) and not _resolves(path, link, root):
                wrong.append(f"{shown} links to {link}, which does not exist")
        for page in re.findall(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", read(path)):
            if not _is_page(path.parent, page):
                wrong.append(f"{shown} names the page {page}, which does not exist")
    for path, text in docstrings(root):
        for name in re.findall(r"(?<![\w/.])((?:docs|benchmarks|tools|examples|papers)/[\w/-]+\.\w+)", text):
            if not (root / name).exists():
                wrong.append(f"a docstring of {path.relative_to(root).as_posix()} names {name}, which does not exist")
    return wrong


def links_of(text: str) -> list[str]:
    """Return the targets of the links and pictures of a Markdown text, without those in blocks of code."""
    text = re.sub(r"^(`{3,}|~{3,}).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]+`", "", text)
    return re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)


def _resolves(path: Path, link: str, root: Path) -> bool:
    name, _, anchor = link.partition("#")
    target = path if not name else path.parent / name
    if not target.exists():
        return False
    return not anchor or target.suffix != ".md" or anchor in anchors(target)


def anchors(path: Path) -> set[str]:
    """Return the anchors of a Markdown file: of its headings, and explicit ones. Included files belong to it."""
    text = read(path)
    for name in re.findall(r"^```\{include\} (\S+)", text, re.MULTILINE):
        text += "\n" + read(path.parent / name)
    found = set(re.findall(r"^\(([\w-]+)\)=", text, re.MULTILINE)) | set(re.findall(r'\bid="([^"]+)"', text))
    seen: dict[str, int] = {}
    for title in re.findall(r"^#{1,6} +(.+?) *#*$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = seen[slug] = seen.get(slug, -1) + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


def _is_page(folder: Path, page: str) -> bool:
    page = page.removeprefix("/")
    if page.startswith("auto_gallery/"):
        name = page.removeprefix("auto_gallery/")
        return name == "index" or (folder / "gallery" / f"{name}.py").exists()
    return any((folder / f"{page}{suffix}").exists() for suffix in (".md", ".rst")) or page.startswith("generated/")


def docstrings(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the docstrings of the package, with their files."""
    for path in sorted((root / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
                yield path, text


def check_outside_links(root: Path) -> list[str]:
    """Open every link to another site."""
    texts = [(path, read(path)) for path in tracked(root) if path.suffix in {".md", ".rst", ".cff", ".toml"}]
    found: dict[str, Path] = {}
    for path, text in [*texts, *docstrings(root)]:
        for link in re.findall(r"https?://[^\s)>\]\"'`,]+", text):
            found.setdefault(link.rstrip(".;:"), path)
    return [
        f"{path.relative_to(root).as_posix()}: {link} {why}" for link, path in found.items() if (why := failure(link))
    ]


def failure(link: str) -> str | None:
    """Return why a link cannot be opened; None if it can. Sites that refuse programs count as opened."""
    try:
        with urlopen(Request(link, headers={"User-Agent": "Mozilla/5.0"}), timeout=SECONDS_PER_LINK):
            return None
    except HTTPError as error:
        return f"answers {error.code}" if error.code in GONE else None
    except (OSError, ValueError) as error:
        return f"cannot be opened ({getattr(error, 'reason', error)})"


# --- files


def machine_paths(text: str) -> list[str]:
    """Return the paths of a single machine or user that a text contains."""
    return sorted({path for path in MACHINE_PATH.findall(text) if not path.startswith(INVENTED_PATHS)})


def check_paths(root: Path) -> list[str]:
    """No tracked file contains the path of a machine."""
    return [
        f"{path.relative_to(root).as_posix()} contains {found}: write a relative path"
        for path in tracked(root)
        if path.suffix not in PACKED - {".gz"} and path.name not in {"release.py", "test_release.py"}
        for found in machine_paths(read(path))
    ]


def listed_files(text: str) -> list[str]:
    """Return the files and patterns in the first columns of the tables of the notices."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def check_notices(root: Path) -> list[str]:
    """Every data file is listed in the notices with source and licence, and every listed file exists."""
    if not (root / NOTICES).is_file():
        return [f"{NOTICES} does not exist: list the files that are not ours, with source and licence"]
    text = read(root / NOTICES)
    names = [path.relative_to(root).as_posix() for path in tracked(root)]
    data = [name for name in names if Path(name).suffix not in OWN_SUFFIXES and Path(name).name not in OWN_NAMES]
    listed = listed_files(text)
    wrong = [
        f"{name} is not in {NOTICES}: list it with source and licence"
        for name in data
        if not any(fnmatch(name, pattern) for pattern in listed)
    ]
    wrong += [
        f"{NOTICES} lists {name}, which does not exist: remove the line"
        for name in listed
        if "*" not in name and name not in names
    ]
    others = text.partition("## Files with data of other people")[2].partition("\n## ")[0]
    for line in re.findall(r"^\| `.*$", others, re.MULTILINE):
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if len(cells) < 4 or not all(cells):
            wrong.append(f"{NOTICES}: the line of {cells[0]} needs content, source and licence")
    return wrong


def check_licences(root: Path) -> list[str]:
    """The package contains the licence and the notices."""
    given = project(root).get("license-files", [])
    wrong = [f"pyproject.toml: add {name} to license-files" for name in ("LICENSE", NOTICES) if name not in given]
    return wrong + [f"{name} does not exist: write it" for name in given if not (root / name).is_file()]


def check_api(root: Path) -> list[str]:
    """docs/api.txt is current."""
    made = python(root, "-c", "import sys; sys.path.insert(0, 'tools'); import public_api; print(public_api.text())")
    if made.returncode:
        return [f"tools/public_api.py failed: {_last_line(made.stderr)}"]
    if made.stdout.split("\n")[:-2] == read(root / "docs" / "api.txt").split("\n")[:-1]:
        return []
    return ["docs/api.txt is not current: run python tools/public_api.py, and name the change in the CHANGELOG"]


# --- git


def check_tree(root: Path) -> list[str]:
    """Nothing is uncommitted."""
    changed = git(root, "status", "--porcelain").splitlines()
    return (
        [f"{len(changed)} files are not committed, such as {changed[0][3:]}: commit or remove them"] if changed else []
    )


def check_tag(root: Path) -> list[str]:
    """The tag of this version does not exist yet."""
    tag = f"v{project(root)['version']}"
    return [f"the tag {tag} exists: choose the next version"] if tag in git(root, "tag").split() else []


# --- what takes minutes


def python(root: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=root, check=False, capture_output=True, text=True, encoding="utf-8")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def check_examples(root: Path) -> list[str]:
    """The examples of the README and of the documentation run, and the data of the examples can be made again."""
    ran = python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", "README.md", "docs", "tests/test_three_users.py")
    wrong = [f"an example failed ({_last_line(ran.stdout)}): run pytest README.md docs"] if ran.returncode else []
    program = "examples/make_patients.py"
    with TemporaryDirectory() as folder:
        done = python(root, program, folder)
        for name in ("patients.csv", "next-month.csv"):
            if done.returncode or Path(folder, name).read_bytes() != (root / "examples" / name).read_bytes():
                wrong.append(f"{program} does not write examples/{name} as it is: run it, or mend it")
    return wrong


def check_dist(root: Path) -> list[str]:
    """Wheel and sdist can be built, installed and used, and contain no path of a machine."""
    with TemporaryDirectory() as folder:
        done = python(root, "tools/try_dist.py", "--out", folder)
        if done.returncode:
            return [f"make test-dist failed: {_last_line(done.stderr or done.stdout)}"]
        return [
            f"{path.name}: {name} contains {found}: write a relative path"
            for path in sorted(Path(folder).iterdir())
            for name, text in packed_texts(path)
            for found in machine_paths(text)
        ]


def packed_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of every file in a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                yield name, wheel.read(name).decode("utf-8", errors="replace")
        return
    with tarfile.open(path) as packed:
        for member in packed.getmembers():
            if (file := packed.extractfile(member)) and Path(member.name).name not in {"release.py", "test_release.py"}:
                yield member.name, file.read().decode("utf-8", errors="replace")


ITEMS = (
    Item("versions", "the version is the same everywhere", check_versions),
    Item("changelog", "the changelog has a dated section for this version", check_changelog),
    Item("links", "links to files, pages and headings resolve", check_links),
    Item("outside-links", "links to other sites can be opened", check_outside_links, online=True),
    Item("paths", "no tracked file contains the path of a machine", check_paths),
    Item("notices", "data of other people are listed with source and licence", check_notices),
    Item("licences", "the package contains its licence and the notices", check_licences),
    Item("api", "docs/api.txt agrees with the source", check_api),
    Item("tree", "everything is committed", check_tree),
    Item("tag", "the tag of this version does not exist yet", check_tag),
    Item("examples", "examples run", check_examples, slow=True),
    Item("dist", "wheel and sdist can be built, installed and used", check_dist, slow=True),
)


def line_of(item: Item, complaints: list[str], *, everything: bool = False) -> str:
    """Return the line of an item: ok, or what to do."""
    if not complaints:
        return f"ok      {item.name}: {item.what}"
    shown = complaints if everything else complaints[:SHOWN]
    more = len(complaints) - len(shown)
    rest = f"; {more} more, see --only {item.name}" if more else ""
    return f"not ok  {item.name}: " + ("\n        " if everything else "; ").join(shown) + rest


def chosen(items: Iterable[Item], *, fast: bool, online: bool, only: str | None) -> list[Item]:
    """Return the items to check."""
    if only:
        return [item for item in items if item.name == only]
    return [item for item in items if not (fast and item.slow) and (online or not item.online)]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check or list the items, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="check all items")
    what.add_argument("--only", choices=[item.name for item in ITEMS], help="check one item and print all complaints")
    what.add_argument("--list", action="store_true", help="print the items")
    parser.add_argument("--fast", action="store_true", help="leave out the items that take minutes")
    parser.add_argument("--online", action="store_true", help="also open the links to other sites")
    options = parser.parse_args(arguments)
    if options.list:
        for item in ITEMS:
            notes = [note for note, applies in (("slow", item.slow), ("with --online", item.online)) if applies]
            print(f"{item.name}: {item.what}{f' ({notes[0]})' if notes else ''}")
        return 0
    items = chosen(ITEMS, fast=options.fast, online=options.online, only=options.only)
    failed = 0
    for item in items:
        complaints = item.complaints(root)
        failed += bool(complaints)
        print(line_of(item, complaints, everything=bool(options.only)), flush=True)
    if left_out := [item.name for item in ITEMS if item not in items and not options.only]:
        print(f"Not checked: {', '.join(left_out)}.")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
