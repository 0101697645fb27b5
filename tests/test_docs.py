"""The documentation contains every public name, every page and every example. These tests do not need Sphinx."""

import importlib
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from tests.golden.record import made_here

from scarless.cli import make_parser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
ROOMS = ("", ".models", ".metrics", ".diagnostics", ".labelling", ".label_frequency", ".datasets", ".experiments")
ROOMS = (*ROOMS, ".field", ".report", ".analysis", ".engines", ".raw", ".saved")


def listed_names(text: str) -> list[str]:
    """Return the full names of all entries of all autosummaries of a page."""
    names, module, inside = [], "", False
    for line in text.splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif line and not line.startswith(" "):
            inside = line == ".. autosummary::"
        elif inside and re.fullmatch(r"   \w+", line):
            names.append(f"{module}.{line.strip()}")
    return names


def object_of(name: str) -> object:
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(module), own)


LISTED = listed_names((DOCS / "api.rst").read_text(encoding="utf-8"))


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_in_the_reference(room):
    module = importlib.import_module(f"scarless{room}")
    known = {id(object_of(name)) for name in LISTED}
    names = [name for name in module.__all__ if name != "__version__"]
    assert [name for name in names if id(getattr(module, name)) not in known] == []


@pytest.mark.parametrize("name", LISTED)
def test_the_reference_lists_public_names_only(name):
    module, _, own = name.rpartition(".")
    assert own in importlib.import_module(module).__all__


def test_no_object_is_listed_twice():
    assert len({id(object_of(name)) for name in LISTED}) == len(LISTED)


def test_listed_names_reads_the_entries_of_autosummaries():
    page = ".. currentmodule:: a.b\n\n.. autosummary::\n   :toctree: generated/\n\n   One\n   two\n\nWords\n\n   no\n"
    assert listed_names(page) == ["a.b.One", "a.b.two"]


def test_every_box_of_the_chart_leads_to_a_page_of_the_reference():
    chart = (DOCS / "_static" / "which-method.svg").read_text(encoding="utf-8")
    links = re.findall(r'<a href="generated/(\S+)\.html">.*?class="name"[^>]*>(\w+)<', chart)
    assert len(links) == chart.count("<a ") == 8
    assert [link for link, shown in links if link not in LISTED or not link.endswith(f".{shown}")] == []


def pages_in_toctrees(text: str) -> set[str]:
    blocks = re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.DOTALL)
    return {line for block in blocks for line in block.splitlines() if line and not line.startswith(":")}


def test_every_page_is_in_the_table_of_contents():
    pages = {path.stem for path in DOCS.glob("*.md")} | {path.stem for path in DOCS.glob("*.rst")}
    found = [page for path in DOCS.glob("*.md") for page in pages_in_toctrees(path.read_text(encoding="utf-8"))]
    assert sorted(found) == sorted(pages - {"index"} | {"auto_gallery/index"})


def test_every_example_that_a_page_links_to_exists():
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    named = set(re.findall(r"auto_gallery/(?:images/sphx_glr_)?(plot_\w+?)(?:_\d{3})?[>.`]", text))
    assert len(named) > 2
    assert {name for name in named if not (DOCS / "gallery" / f"{name}.py").exists()} == set()


@pytest.mark.parametrize("path", sorted((DOCS / "gallery").glob("plot_*.py")), ids=lambda path: path.stem)
def test_an_example_has_a_title_a_lesson_and_a_picture(path):
    text = path.read_text(encoding="utf-8")
    title, underline = text.splitlines()[1:3]
    assert underline == "=" * len(title)
    assert "**Lesson.**" in text.split('"""')[1]
    assert re.search(r"(?i)simulated|scikit-learn", text.split('"""')[1]), "say where the data are from"
    assert "plt.subplots" in text or "Display" in text


# Words of a paragraph that reports a measurement, and words that say where its numbers are stored.
MEASURED = (
    r"\b[Ii]n (?:our|a|the same) (?:tests?|simulations?|experiments?)\b|\bby hand\b|\bin the last run\b"
    r"|\bmeasured once\b|\d tests\b"
    r"|\b\d+ (?:of \d+|simulated|small random) (?:simulated )?(?:runs|fits|tables|histories|problems)\b"
)
STORED = r"\{\{\w+|benchmarks|\bpapers/|examples/peers"


def unsupported(text: str) -> list[str]:
    """Return the paragraphs that report a measurement, and do not say where its numbers are stored."""
    blocks = ["", *text.split("\n\n")]
    found = [(block, before if before.startswith("<!--") else "") for before, block in pairwise(blocks)]
    return [
        block
        for block, comment in found
        if re.search(MEASURED, block) and not re.search(STORED, block + comment) and not block.startswith("```")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_measurement_has_a_record(page):
    assert unsupported(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "In our tests, this mean was 90% when 70% of the rows were positive.",
        "The warning appeared in 41 of 50 simulated fits.",
        "In 100 simulated tables, intervals covered in 93 to 100%.",
        "CuPy was tried by hand.",
        "the fast tests (about 5,000 tests)",
    ],
)
def test_a_measurement_without_a_record_is_found(text):
    assert unsupported(text) == [text]
    assert unsupported(f"{text} See [results](benchmarks.md).") == []
    assert unsupported(f"<!-- {{{{starts.missed[n_starts=1].below}}}} -->\n\n{text}") == []


# Pictures in the repository that pages may show: a test compares their words with the code. The build draws all others.
DRAWINGS = {"_static/which-method.svg", "_static/was-it-right.svg"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_picture_that_can_become_outdated_is_not_shown(page):
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]*\]\(([^)]+)\)|^```\{image\} (\S+)|^:file: (\S+)", text, flags=re.MULTILINE)
    pictures = {"".join(names).removeprefix("docs/") for names in shown}
    assert {name for name in pictures if not name.startswith("auto_gallery/")} <= DRAWINGS


def headings(text: str) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_link_that_asks_a_question_leads_to_this_question(page):
    """A renamed page keeps its old name in links otherwise."""
    text = " ".join(page.read_text(encoding="utf-8").split())
    links = re.findall(r"\[([A-Z][^\]]*\?)\]\(([\w/.-]+\.md)", text)
    targets = {path: headings((page.parent / path).read_text(encoding="utf-8")) for _, path in links}
    assert [question for question, path in links if question not in targets[path]] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_a_page_of_the_site_does_not_refer_to_the_readme(page):
    """The build shows the landing page in its place, which lacks the tables of the README."""
    assert "](../README.md" not in page.read_text(encoding="utf-8")


def code_blocks(text: str) -> list[str]:
    """Return the blocks of code of a page, in any language."""
    return [block.partition("\n")[2] for block in re.split(r"^```", text, flags=re.MULTILINE)[1::2]]


def outputs(text: str) -> list[str]:
    """Return the lines that examples print, without error messages."""
    blocks = [block for block in code_blocks(text) if ">>> " in block and "Traceback" not in block]
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if not line.startswith((">>>", "...", "<BLANKLINE>"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_an_example_shows_what_it_prints(page):
    """Doctest accepts three dots for any text, and the reader would see them."""
    assert [line for line in outputs(page.read_text(encoding="utf-8")) if "..." in line] == []


def test_the_start_page_lists_the_sections_of_a_report():
    """Only the section about checks is missing, because the fit of the page has none."""
    template = (DOCS.parent / "src/scarless/report/fit/templates/fit.html.jinja").read_text(encoding="utf-8")
    sections = re.findall("<h2>(.*?)</h2>", template)
    text = (DOCS / "start.md").read_text(encoding="utf-8").partition("## Read the report")[2].partition("\n## ")[0]
    listed = re.findall(r"^\d\. \*\*(.*?)\*\*", text, flags=re.MULTILINE)
    assert listed == [name for name in sections if name != "What did the checks change?"]


def commands(text: str) -> list[list[str]]:
    """Return the words of each command `scarless` in the code of a page."""
    lines = [line for block in code_blocks(text) for line in block.replace("\\\n", " ").splitlines()]
    lines = [line.removeprefix("$ ") for line in lines]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("scarless ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_command_has_options_that_exist(page):
    for words in commands(page.read_text(encoding="utf-8")):
        if "--help" not in words:
            make_parser().parse_args(words)


# --- commands and their output, and the picture of the first screen


def program(path: str) -> ModuleType:
    """Return a program of this repository as a module; it may import programs of its own folder."""
    place = ROOT / path
    sys.path.insert(0, str(place.parent))
    try:
        return importlib.import_module(place.stem)
    finally:
        sys.path.remove(str(place.parent))


console = program("tools/console.py")


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """Return a folder in which each command of the pages runs once."""
    return console.Console(tmp_path_factory.mktemp("console"))


@pytest.mark.parametrize("page", console.PAGES)
def test_a_command_prints_what_the_page_shows(page, shell):
    """``python tools/console.py`` writes the output into the pages; other versions give other numbers."""
    shown = console.commands_of((ROOT / page).read_text(encoding="utf-8"))
    assert len(shown) > 0
    for command, output in shown:
        printed = shell.run(command)
        same = console.is_same(output, printed, compare_numbers=made_here())
        assert same, f"{command}\n{output}\n{printed}"


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_every_command_of_the_first_pages_is_run(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    run = [command for command, _ in console.commands_of(text) if command.startswith("scarless ")]
    assert len(run) == len(commands(text)) > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_no_page_shows_a_directive_instead_of_output(page):
    """A repository host does not run directives, and shows their source."""
    assert "{literalinclude}" not in page.read_text(encoding="utf-8")


def test_outputs_are_the_same_if_their_words_are_and_their_numbers_are_about_the_same():
    assert console.is_same("1,030 rows\n(17%)", "1,040  rows (18%)")
    assert not console.is_same("1,030 rows", "1,030 patients")
    assert not console.is_same("1,030 rows", "1,254 rows")
    assert not console.is_same("1,030 rows", "1,030 rows, 5 of them new")


def test_the_output_of_a_page_is_written_below_its_commands(tmp_path):
    run = console.Console(tmp_path)
    run.printed = {"scarless fit a.csv": "first\n", "scarless audit a": "second\n"}
    page = "Words\n\n```console\n$ scarless fit \\\n    a.csv\nold\n$ scarless audit a\n```\n\n```\n$ other\n```\n"
    new = page.replace("old\n", "first\n").replace("audit a\n", "audit a\nsecond\n")
    assert console.with_output(page, run) == new
    assert console.with_output(new, run) == new


PATIENTS = program("examples/make_patients.py").MADE


@pytest.mark.parametrize("name", PATIENTS)
def test_a_shipped_table_is_the_one_that_its_program_writes(name):
    table, _ = PATIENTS[name]()
    assert table.to_csv(index=False) == (ROOT / "examples" / name).read_text(encoding="utf-8")


def words_of_drawing(path: Path) -> str:
    """Return the texts of a picture by matplotlib, which are comments beside their outlines."""
    return "\n".join(re.findall("<!-- (.*?) -->", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start.md"])
def test_the_text_in_place_of_the_picture_has_its_numbers(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    alternative = re.search(r"!\[([^\]]*)\]\(\S*was-it-right\.svg\)", text)[1]
    shown = console.NUMBER.findall(words_of_drawing(DOCS / "_static/was-it-right.svg"))
    assert set(console.NUMBER.findall(alternative)) <= set(shown)


def test_the_picture_of_the_first_screen_has_the_numbers_of_the_fit(shell):
    """``python examples/was_it_right.py demo docs/_static/was-it-right.svg`` draws it."""
    fit = next(command for command, _ in console.commands_of((ROOT / "README.md").read_text(encoding="utf-8")))
    shell.run(fit)
    shell.run("python examples/was_it_right.py demo drawn.svg")
    shown, drawn = (words_of_drawing(path) for path in (DOCS / "_static/was-it-right.svg", shell.folder / "drawn.svg"))
    assert "scarless" in shown
    assert console.is_same(shown, drawn), f"{shown}\n{drawn}"
