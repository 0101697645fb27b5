"""Reports take most of the time of a fit, so tests of the command line make them only if they read them."""

from types import SimpleNamespace

import pytest

from scarless.analysis import Analysis


def save_empty_page(path):
    path.write_text("")


@pytest.fixture
def reports():
    """Request this fixture in tests that read reports, or for which it matters that a report can be made."""


@pytest.fixture(autouse=True)
def empty_reports(request, monkeypatch):
    """Write empty reports, unless a test requests the fixture `reports`."""
    if "reports" not in request.fixturenames:
        monkeypatch.setattr(Analysis, "report", lambda *_, **__: SimpleNamespace(save=save_empty_page))
