"""Configuration of the Sphinx build (`make docs`). Neither the build nor the pages download anything."""

import inspect
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl

import scarless

mpl.use("Agg")
HERE = Path(__file__).parent
ROOT = HERE.parent

project = "scarless"
author = "The scarless developers"
copyright = author
release = version = scarless.__version__
language = "en-GB"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "gallery"]
templates_path = ["_templates"]
default_role = "code"
highlight_language = "none"
toc_object_entries_show_parents = "hide"  # The sidebar is narrow: it lists methods without the name of their class.

# --- Markdown

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
# Pages are also read in the repository, where they link to files that have another name in this build.
PAGES = {
    "../README.md": "index.md",
    "../benchmarks/README.md": "benchmarks.md",
    "../papers/bekker2019/README.md": "reproduced.md",
    "../CHANGELOG.md": "changelog.md",
    "../CONTRIBUTING.md": "contributing.md",
}
LINK = re.compile(r"\]\((\.\./[^)#\s]+)")
SPREAD = re.compile(r"(?<=\d) ± (?=[\d.])")

# --- API reference

autosummary_generate = True
autodoc_mock_imports = ["torch", "skorch"]  # not installed for the build, because the wheels are large
autodoc_typehints = "none"  # the numpydoc sections describe the types
autodoc_default_options = {"members": True, "inherited-members": True}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# --- Gallery

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 0,
    "download_all_examples": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
    "write_computation_times": False,
    "capture_repr": (),
}

# --- Pages

html_theme = "pydata_sphinx_theme"
html_title = f"scarless {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "start": []}
html_show_sourcelink = False
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"


RUNS = HERE / "_build" / "runs"
TABLE = ["examples/patients.csv", "--label", "diagnosed", "--propensity", "visits", "insurance", "--id", "patient"]


def run_examples(app):
    """Write the reports that pages link to, and draw the picture of the landing page from the first of them."""
    run("-m", "scarless.cli", "fit", *TABLE, "--out", RUNS / "demo", "--force")
    run("-m", "scarless.cli", "reproduce", "field", "--quick", "--no-download", "--out", RUNS / "field")
    run("examples/was_it_right.py", RUNS / "demo", HERE / "_static" / "was-it-right.svg")


def run(*words):
    """Run Python in the root folder of the repository."""
    subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, check=True, capture_output=True)


def translate_page(app, docname, source):
    """Point links to files of the repository at their pages, and keep a number and its standard error on one line."""
    text = LINK.sub(lambda match: f"]({PAGES.get(match[1], match[1])}", source[0])
    source[0] = SPREAD.sub("\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", text)


def translate_included_page(app, path, docname, source):
    """Do the same for included files, whose links are relative to their own folder."""
    source[0] = re.sub(r"\]\((?=[A-Z]+\.md)", "](../", source[0]).replace("](docs/", "](")
    translate_page(app, docname, source)


def skip_inherited_members(app, what, name, member, skip, options):
    """Skip members that are inherited from scikit-learn, enums and exceptions."""
    module = getattr(getattr(member, "fget", member), "__module__", None) or ""
    routing = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if routing or (callable(member) and not module.startswith("scarless")) else None


def show_own_signature(app, what, name, obj, options, signature, returned):
    """Return the signature of a class whose base class is mocked, because the mock hides it."""
    if what == "class" and signature == "(*args, **kwargs)":
        own = inspect.signature(obj.__init__)
        plain = [each.replace(annotation=inspect.Parameter.empty) for each in list(own.parameters.values())[1:]]
        signature = str(inspect.Signature(plain))
    return signature, returned


def copy_reports(app, error):
    """Copy the reports that pages link to. Each report is a single file."""
    if error is None and app.builder.format == "html":
        folders = {
            "demo": RUNS / "demo",
            "field-quick": RUNS / "field",
            "paper": ROOT / "papers" / "bekker2019",
            "field": ROOT / "papers" / "field",
            "teisseyre2025": ROOT / "papers" / "teisseyre2025",
        }
        for name, path in folders.items():
            target = Path(app.outdir, "reports", f"{name}.html")
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path / "report.html", target)


def setup(app):
    """Register the functions of this file with Sphinx."""
    warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
    app.connect("builder-inited", run_examples, priority=100)
    app.connect("source-read", translate_page)
    app.connect("include-read", translate_included_page)
    app.connect("autodoc-skip-member", skip_inherited_members)
    app.connect("autodoc-process-signature", show_own_signature)
    app.connect("build-finished", copy_reports)
