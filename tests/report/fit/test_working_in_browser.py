"""The controls of a page in a real browser: what a reader does, compared with what Python computes."""

import csv
import io
import re
import shutil
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import expit, logit
from tests.helpers import fit_quietly
from tests.report.test_browser import BROWSER, BROWSERS

from scarless import NaiveClassifier, SAREMClassifier, TableClassifier
from scarless.diagnostics import yield_curve
from scarless.outside.table_writing import harmless
from scarless.report import model_report
from scarless.report.words import chance, share

pytest.importorskip("selenium", reason="selenium is not installed")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason=f"there is no browser: none of {', '.join(BROWSERS)} is found"),
    pytest.mark.skipif(DRIVER is None, reason="there is no chromedriver, which lets Selenium control the browser"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
WIDE = """
const right = document.documentElement.clientWidth;
return [...document.querySelectorAll("main *")].filter(item => item.getClientRects().length &&
  !item.closest(".scroll") && !item.closest("svg") && item.getBoundingClientRect().right > right + 0.5)
  .map(item => item.outerHTML.slice(0, 80));
"""
NAMES = ["P{}", "=2+{}", "-1{}", 'the "{}"', "a,b {}", "</script>{}", "+4{}e2", "@SUM({})", "Zoë {}", " =x{}"]


@pytest.fixture(scope="module")
def logistic():
    rng = np.random.default_rng(0)
    n = 1500
    table = pd.DataFrame({"age": rng.normal(60, 9, n).round(), "sugar": rng.normal(size=n), "z": rng.normal(size=n)})
    table["note"] = rng.choice(["=1+1", "<b>bold</b>", 'say "yes"', "plain"], n)
    y = rng.random(n) < expit((table["age"] - 65) / 4 + table["sugar"])
    s = (y & (rng.random(n) < expit(table["z"]))).astype(int).to_numpy()
    model = fit_quietly(TableClassifier(SAREMClassifier(propensity_attributes=["z"])), table, s)
    names = [NAMES[i % len(NAMES)].format(i) for i in range(n)]
    return model, table, s, model_report(model, table, s, row_names=names, n_ranked=40, n_listed=300)


def start(folder, *, scripts=True):
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = BROWSER
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,1000"):
        options.add_argument(option)
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    preferences = {"download.default_directory": str(folder)}
    if not scripts:
        preferences["profile.managed_default_content_settings.javascript"] = 2
    options.add_experimental_option("prefs", preferences)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    driver = start(folder)
    driver.folder = folder
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, logistic):
    yield opened(browser, logistic[3])
    assert browser.get_log("browser") == []  # no errors and no warnings


def opened(browser, report, width=1200):
    file = browser.folder / "report.html"
    file.write_text(report.to_html(), encoding="utf-8")
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(file.as_uri())
    return browser


def at(page, id_):
    return page.find_element("id", id_)


def write(page, id_, words):
    box = at(page, id_)
    box.clear()
    box.send_keys(words)


def slide(page, id_, value):
    page.execute_script(
        "const box = document.getElementById(arguments[0]); box.value = arguments[1];"
        "box.dispatchEvent(new Event('input', { bubbles: true }));",
        id_,
        value,
    )


def listed(page):
    """Return the texts of the listed rows: rank, row, probability, main reasons, probability of a label."""
    return page.execute_script(
        "return [...document.querySelectorAll('#list tr')].map(row => [...row.cells].map(cell => {"
        " const below = cell.querySelector('small'), all = cell.textContent;"
        " return below ? all.slice(0, all.length - below.textContent.length) : all; }))"
    )


def ranks(page):
    return [int(row[0]) for row in listed(page)]


def sort_by(page, column):
    page.find_element("css selector", f"[data-sort={column}]").click()


def heads(page):
    found = page.find_elements("css selector", ".list thead th")
    return [each.get_attribute("aria-sort") for each in found]


def all_rows(report):
    return [*report.ranked.rows, *report.ranked.more]


def test_the_list_replaces_the_plain_tables(page, logistic):
    rows = all_rows(logistic[3])[:40]
    assert at(page, "tools").is_displayed()
    assert not at(page, "first-rows").is_displayed()
    for shown, row in zip(listed(page), rows, strict=True):
        assert (shown[0], shown[1]) == (str(row.rank), row.name)
        assert (shown[2], shown[4]) == (chance(row.probability.value), chance(row.propensity))
        assert all(f"{each.column} {each.value}" in shown[3] for each in row.reasons)
    below = page.find_elements("css selector", "#list td small")[0].text
    first = rows[0].probability
    assert below == f"{chance(first.low)} to {chance(first.high)}"
    assert at(page, "listed").text.startswith("40 rows listed, of the 40 that rank highest.")


def test_the_names_of_columns_sort_the_list(page, logistic):
    rows = all_rows(logistic[3])[:40]
    assert heads(page) == ["ascending", None, None, None, None]
    sort_by(page, "label")
    expected = sorted(rows, key=lambda row: (-row.propensity, row.rank))
    assert ranks(page) == [row.rank for row in expected]
    assert heads(page) == [None, None, None, None, "descending"]
    sort_by(page, "label")
    expected = sorted(rows, key=lambda row: (row.propensity, row.rank))
    assert ranks(page) == [row.rank for row in expected]
    assert heads(page) == [None, None, None, None, "ascending"]
    sort_by(page, "name")
    assert sorted(ranks(page)) == list(range(1, 41))
    numbers = [int(row[1][1:]) for row in listed(page) if re.fullmatch(r"P\d+", row[1])]
    assert numbers == sorted(numbers)  # P9 comes before P10
    sort_by(page, "reasons")
    first = [row[3] for row in listed(page)]
    assert [text.split()[0] for text in first] == sorted(text.split()[0] for text in first)
    sort_by(page, "rank")
    assert ranks(page) == list(range(1, 41))


def test_the_keyboard_sorts_and_moves_the_slider(page):
    from selenium.webdriver.common.keys import Keys

    page.execute_script("document.querySelector('[data-sort=chance]').focus()")
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert heads(page)[2] == "descending"
    page.switch_to.active_element.send_keys(Keys.SPACE)
    assert heads(page)[2] == "ascending"
    budget = at(page, "budget")
    budget.send_keys(Keys.ARROW_RIGHT)
    assert at(page, "budget-number").get_attribute("value") == "41"
    assert len(ranks(page)) == 41
    page.execute_script("document.getElementById('budget').focus()")
    visited = []
    for _ in range(12):
        page.switch_to.active_element.send_keys(Keys.TAB)
        visited.append(page.switch_to.active_element.get_attribute("id"))
    assert visited[:10] == ["budget-number", "prior", "prior-back", "find", "reason", "chance-from", "chance-to",
                            "label-from", "label-to", "download"]  # fmt: skip


def test_filters_of_every_column(page, logistic):
    rows = all_rows(logistic[3])[:40]
    write(page, "reason", "SUGAR")
    assert ranks(page) == [row.rank for row in rows if any(each.column == "sugar" for each in row.reasons)]
    at(page, "reset").click()
    assert ranks(page) == list(range(1, 41))
    middle = float(np.median([row.probability.value for row in rows]))
    write(page, "chance-from", f"{100 * middle:.6f}")
    assert ranks(page) == [row.rank for row in rows if 100 * row.probability.value >= float(f"{100 * middle:.6f}")]
    write(page, "label-to", "40")
    kept = [row for row in rows if row.probability.value >= middle and row.propensity <= 0.4]
    assert ranks(page) == [row.rank for row in kept]
    write(page, "label-from", "99.99")
    assert ranks(page) == []
    assert at(page, "listed").text.startswith("0 rows listed")


def test_an_id_is_found_in_all_rows_of_the_page(page, logistic):
    last = all_rows(logistic[3])[-1]
    write(page, "find", last.name.upper())
    assert [row[:2] for row in listed(page)] == [["300", last.name]]
    assert at(page, "listed").text == "1 row found among the 300 rows that rank highest."
    write(page, "find", str(last.position + 1))
    assert 300 in ranks(page)
    write(page, "find", "nobody has this id")
    assert at(page, "listed").text.startswith("0 rows found")


@pytest.mark.parametrize("n", [1, 2, 20, 100, 300])
def test_the_number_of_rows_moves_sentence_picture_and_list(page, logistic, n):
    model, table, s, _ = logistic
    found = yield_curve(model, table, s, n=n)
    slide(page, "budget", n)
    assert at(page, "yield").text == found.sentence()
    assert at(page, "comparison").text == found.comparison()
    assert ranks(page) == list(range(1, n + 1))
    assert at(page, "budget-number").get_attribute("value") == str(n)
    mark = page.find_element("css selector", "circle.budget")
    assert float(mark.get_attribute("cx")) == pytest.approx(46 + 300 * n / 300, abs=0.01)


def test_the_number_can_be_typed_and_stays_within_its_limits(page):
    from selenium.webdriver.common.keys import Keys

    for typed, expected in (("77", 77), ("99999", 300), ("-3", 300), ("", 300), ("12.4", 12)):
        at(page, "budget-number").send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.DELETE, typed, Keys.ENTER)
        assert len(ranks(page)) == expected
        assert at(page, "budget-number").get_attribute("value") == str(expected)
        assert at(page, "budget").get_attribute("value") == str(expected)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_the_class_prior_changes_the_probabilities_to_those_of_shifted_models(page, logistic, place):
    model, table, _, report = logistic
    steps = report.ranked.priors
    chosen = {"first": 0, "middle": len(steps) // 2 + 4, "last": len(steps) - 1}[place]
    step, rows = steps[chosen], all_rows(report)[:40]
    at_rows = [row.position for row in rows]
    f = expit(logit(model.predict_proba(table)[at_rows, 1]) + step.class_shift)
    e = expit(logit(model.predict_propensity(table)[at_rows]) + step.label_shift)
    slide(page, "prior", chosen)
    found = listed(page)
    assert [row[2] for row in found] == [chance(value) for value in f * (1 - e) / (1 - f * e)]
    assert [row[4] for row in found] == [chance(value) for value in e]
    words = f"The probabilities are those at a share of positives of {share(step.share)}, not the estimates."
    assert at(page, "listed").text.endswith(words)
    assert at(page, "prior-share").text == at(page, "prior").get_attribute("aria-valuetext") == share(step.share)
    below = page.find_elements("css selector", "#list tr:first-child small")
    assert [each.text for each in below][1:] == [
        f"estimate {chance(rows[0].probability.value)}",
        f"estimate {chance(rows[0].propensity)}",
    ]
    sort_by(page, "chance")
    assert ranks(page) == [rows[i].rank for i in np.argsort(-f * (1 - e) / (1 - f * e), kind="stable")]
    at(page, "prior-back").click()
    sort_by(page, "rank")
    assert [row[2] for row in listed(page)] == [chance(row.probability.value) for row in rows]
    assert "share of positives" not in at(page, "listed").text


def downloaded(page):
    target = page.folder / "rows-to-check.csv"
    target.unlink(missing_ok=True)
    at(page, "download").click()
    for _ in range(100):
        if target.exists() and target.stat().st_size:
            return target.read_bytes().decode("utf-8")
        time.sleep(0.1)
    raise AssertionError("nothing was downloaded")


def test_the_download_has_the_listed_rows(page, logistic):
    report = logistic[3]
    slide(page, "budget", 200)
    write(page, "label-to", "50")
    sort_by(page, "chance")
    rows = [row for row in all_rows(report)[:200] if row.propensity <= 0.5]
    text = downloaded(page)
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [int(row["rank"]) for row in found] == [row.rank for row in rows] == ranks(page)
    assert [row["id"] for row in found] == harmless(pa.chunked_array([[row.name for row in rows]])).to_pylist()
    assert [int(row["row"]) for row in found] == [row.position + 1 for row in rows]
    probabilities = [float(row["probability of being positive"]) for row in found]
    np.testing.assert_allclose(probabilities, [row.probability.value for row in rows], rtol=1e-7)
    np.testing.assert_allclose([float(row["low"]) for row in found], [row.probability.low for row in rows], rtol=1e-7)
    labels = [float(row["probability of a label, if positive"]) for row in found]
    np.testing.assert_allclose(labels, [row.propensity for row in rows], rtol=1e-7)
    assert all(each.value in row["main reasons"] for row, known in zip(found, rows, strict=True)
               for each in known.reasons)  # fmt: skip
    slide(page, "prior", 0)
    head = next(csv.reader(io.StringIO(downloaded(page))))
    given = f"at a share of positives of {share(report.ranked.priors[0].share)}"
    assert head[-2:] == [f"probability of being positive, {given}", f"probability of a label, if positive, {given}"]


def test_formulas_are_recognised_as_in_the_other_files(page):
    texts = [
        "=cmd",
        "-3",
        "-a",
        "+1e5",
        "a=b",
        "\t1",
        "\u00a0@x",
        "\u200b=1",
        "\uff1dx",
        "+.5",
        "+1,5",
        "--",
        " -7",
        "",
    ]
    script = page.execute_script(
        "const text = [...document.scripts].at(-1).textContent;"
        "const body = text.match(/const FORMULA[^]*?\\n  }\\n/)[0];"
        "return arguments[0].map(Function(body + 'return csvCell')());",
        texts,
    )
    expected = harmless(pa.chunked_array([texts])).to_pylist()
    assert script == [f'"{each}"' for each in expected]


@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_overflows(browser, logistic, width):
    opened(browser, logistic[3], width)
    slide(browser, "budget", 300)
    slide(browser, "prior", 0)
    assert browser.execute_script(WIDE) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    cut = "return [...document.querySelectorAll('.scroll')].filter(item => item.scrollWidth > item.clientWidth).length"
    assert browser.execute_script(cut) == 0


def test_the_printed_page_has_the_listed_rows_and_no_controls(page):
    slide(page, "budget", 60)
    write(page, "label-to", "50")
    shown = ranks(page)
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not at(page, "budget").is_displayed()
        assert not at(page, "download").is_displayed()
        assert at(page, "yield").is_displayed()
        assert ranks(page) == shown
        box = page.find_element("css selector", ".list")
        assert page.execute_script("return arguments[0].scrollHeight <= arguments[0].clientHeight + 1", box)
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_without_javascript_the_first_rows_are_listed_and_there_are_no_controls(tmp_path, logistic):
    driver = start(tmp_path, scripts=False)
    try:
        driver.folder = tmp_path
        opened(driver, logistic[3])
        assert not at(driver, "tools").is_displayed()
        assert at(driver, "first-rows").is_displayed()
        assert at(driver, "yield").text == logistic[3].ranked.expected
        assert len(driver.find_elements("css selector", "#first-rows tbody tr")) == 40
        assert driver.find_elements("css selector", "#list tr") == []
    finally:
        driver.quit()


def test_the_page_of_a_model_without_propensity_works(browser, logistic):
    _, table, s, _ = logistic
    report = model_report(fit_quietly(TableClassifier(NaiveClassifier()), table, s), table, s, n_ranked=10)
    opened(browser, report)
    assert browser.find_elements("id", "prior") == []
    assert browser.find_elements("id", "label-to") == []
    slide(browser, "budget", 25)
    assert ranks(browser) == list(range(1, 26))
    assert {row[4] for row in listed(browser)} == {"–"}
    sort_by(browser, "label")
    assert len(ranks(browser)) == 25
    assert browser.get_log("browser") == []


def test_hostile_texts_are_shown_as_text(page):
    write(page, "find", "</script>")
    assert all(row[1].startswith("</script>") for row in listed(page))
    assert listed(page)
    write(page, "find", "")
    write(page, "reason", "<b>bold</b>")
    assert page.find_elements("css selector", "#list b b") == []
