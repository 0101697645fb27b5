"""The page of an experiment in a real browser: it fits phones and desktop screens, without errors in the console."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest

from scarless.papers.bekker2019 import STORY
from scarless.report import build_report, render_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"there is no browser: none of {', '.join(BROWSERS)} is found")
# A page that shows the report in a frame of a given width, opens all details, and writes the measurements as JSON.
FRAME = """<!DOCTYPE html><body><pre id="found"></pre>
<iframe id="frame" width="{width}" height="900" srcdoc="{page}"></iframe>
<script>
document.getElementById("frame").onload = event => {{
  const page = event.target.contentDocument, root = page.documentElement;
  page.querySelectorAll("details").forEach(item => item.open = true);
  const wide = [...page.querySelectorAll("main *")].filter(item =>
    !item.closest(".scroll") && item.getBoundingClientRect().right > {width} + 0.5);
  const texts = [...page.querySelectorAll("svg")].slice(0, 60).flatMap(svg => {{
    const edge = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter(text => {{
      const box = text.getBoundingClientRect();
      return box.left < edge.left - 1 || box.right > edge.right + 1 || box.bottom > edge.bottom + 1;
    }}).map(text => text.textContent);
  }});
  const overlaps = [...page.querySelectorAll("svg")].slice(0, 60).flatMap(svg => {{
    const boxes = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) =>
      Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
      Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3).map(([other]) => one + " / " + other));
  }});
  const cut = [...page.querySelectorAll(".scroll, pre")].filter(item => item.scrollWidth > item.clientWidth)
    .map(item => item.ariaLabel || item.textContent.slice(0, 80));
  document.getElementById("found").textContent = JSON.stringify({{
    width: root.clientWidth, needed: root.scrollWidth, height: root.scrollHeight, texts, overlaps, cut,
    wide: wide.map(item => item.outerHTML.slice(0, 80)),
  }});
}};
</script></body>"""


@pytest.fixture(scope="module")
def page(full):
    for record in full.records[:4]:
        record["warnings"] = ["a_very_long_word_without_any_place_to_break_it_" * 4]
    text = render_page(build_report(*full.everything, story=STORY))
    for record in full.records[:4]:
        del record["warnings"]
    return text


@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_its_window_and_the_console_stays_empty(page, tmp_path, width):
    found, console = look(page, tmp_path, width)
    assert found["width"] == width
    assert found["needed"] == width
    assert found["wide"] == []
    assert found["texts"] == []
    assert found["overlaps"] == []
    assert found["height"] > 5000
    assert console == []


def test_the_check_detects_content_that_does_not_fit(tmp_path):
    drawing = '<svg width="50" height="40"><text y="20">too long for it</text><text y="20">one</text></svg>'
    broken = f'<main><p style="width:600px">x</p>{drawing}</main><script>console.error("alas")</script>'
    found, console = look(f"<!DOCTYPE html><body>{broken}</body>", tmp_path, 390)
    assert found["needed"] > 390
    assert found["wide"]
    assert found["texts"] == ["too long for it"]
    assert found["overlaps"] == ["too long for it / one"]
    assert len(console) == 1


@pytest.mark.parametrize("width", [400, 800, 1200])
def test_code_and_reference_of_the_documentation_are_not_cut_off(tmp_path, width):
    """Our style sheet must override the theme, in which code and names of the reference do not wrap."""
    theme = "pre { overflow-x: auto } .pre, .autosummary td:first-child p { white-space: nowrap } table { width: 100% }"
    ours = (Path(__file__).parents[2] / "docs" / "_static" / "site.css").read_text(encoding="utf-8")
    name = "<code><span class='pre'>PropensityWeightedClassifier</span></code>"
    rows = f"<tr><td><p>{name}</p></td><td><p>{'What it does, in a sentence. ' * 4}</p></td></tr>"
    body = (
        f"<div class='highlight'><pre>{'model.fit(table, labels) ' * 12}</pre></div><p>{'x' * 20} <code>"
        f"<span class='pre'>{'a_long_name.' * 12}</span></code></p><table class='autosummary'>{rows}</table>"
    )
    page = f"<!DOCTYPE html><style>{theme}{ours}</style><body style='margin:0'><main class='bd-article'>{body}</main>"
    found, _ = look(page, tmp_path, width)
    assert found["needed"] == width
    assert found["wide"] == []
    assert found["cut"] == []
    without, _ = look(page.replace(ours, ""), tmp_path, width)
    assert without["cut"]  # Without our style sheet, the check detects that the text is cut off.


def look(page, folder, width):
    file = folder / "frame.html"
    file.write_text(FRAME.format(width=width, page=escape(page)), encoding="utf-8")
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000", "--virtual-time-budget=10000", "--dump-dom",
    ]  # fmt: skip
    done = subprocess.run([BROWSER, *options, file.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    (found,) = re.findall(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(unescape(found)), re.findall(r".*CONSOLE.*", done.stderr)
