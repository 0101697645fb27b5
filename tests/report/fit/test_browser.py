"""The page of a fit in a real browser: it fits phones and desktop screens, also with very long names."""

import pytest
from tests.report.fit.test_page import hostile as hostile  # noqa: PLC0414 (a fixture)
from tests.report.test_browser import BROWSER, BROWSERS, look

pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"there is no browser: none of {', '.join(BROWSERS)} is found")


def check(page, folder, width):
    found, console = look(page, folder, width)
    assert found["width"] == width
    assert found["needed"] == width
    assert found["wide"] == []
    assert found["texts"] == []
    assert found["overlaps"] == []
    assert found["height"] > 3000
    assert console == []


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_a_page_fits_its_window_and_the_console_stays_empty(reported, tmp_path, width):
    check(reported("SAREMClassifier").to_html(), tmp_path, width)


@pytest.mark.parametrize("kind", ["SARStackingClassifier", "NaiveClassifier", "swappable"])
def test_pages_of_other_models_fit_a_phone(reported, tmp_path, kind):
    check(reported(kind).to_html(), tmp_path, 390)


@pytest.mark.parametrize("width", [400, 800, 1200])
def test_no_table_and_no_code_is_cut_off(narrated, tmp_path, width):
    """Text columns, long names and a long command need no horizontal scrolling."""
    page = narrated.to_html()
    check(page, tmp_path, width)
    assert look(page, tmp_path, width)[0]["cut"] == []


@pytest.mark.parametrize("kind", ["SAREMClassifierCV", "SARStackingClassifier"])
@pytest.mark.parametrize("width", [400, 1200])
def test_no_table_of_other_models_is_cut_off(reported, tmp_path, kind, width):
    assert look(reported(kind).to_html(), tmp_path, width)[0]["cut"] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_very_long_names_wrap(hostile, tmp_path, width):
    check(hostile.to_html(), tmp_path, width)
