"""Pages of the built site in a real browser, wide and narrow. Skipped where ``make docs`` has not built it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from browser import NARROW, WIDE, Browser, a_browser

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = sorted(str(page.relative_to(SITE).with_suffix("")) for page in SITE.rglob("*.html") if page.name != "404.html")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not SITE.is_dir(), reason="no site: make docs builds it"),
]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_site(browser: Browser, url: str, page: str, dark: bool, width: int):
    browser.open(f"{url}/{page}.html", width, dark=dark)
    browser.wait_for("return document.querySelector('h1') && document.readyState === 'complete'")
    assert browser.faults() == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_cut_off_on_a_phone(browser: Browser, url: str, page: str):
    """Pictures and text fit; tables and code that are wider scroll by themselves."""
    browser.open(f"{url}/{page}.html", NARROW)
    browser.wait_for("return document.readyState === 'complete'")
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    wide = "return [...document.querySelectorAll('img, math, p, li, dd')].filter((one) => one.offsetParent"
    wide += (
        " && !one.closest('table, pre, .md-nav, .md-header') && one.getBoundingClientRect().right > window.innerWidth)"
    )
    assert browser.run(f"{wide}.map((one) => one.outerHTML.slice(0, 80))") == []


def test_drawings_for_phones_are_shown_on_phones(browser: Browser, url: str):
    shown = "return getComputedStyle(document.querySelector('img[src$=\"/idea.svg\"]')).content"
    browser.open(f"{url}/index.html", NARROW)
    assert "idea-narrow.svg" in browser.run(shown)
    browser.open(f"{url}/index.html", WIDE)
    assert "narrow" not in browser.run(shown)


def test_formulas_are_typeset(browser: Browser, url: str):
    """As MathML, which the browser lays out itself: a sum's bounds stand above and below it."""
    browser.open(f"{url}/how-it-works.html", WIDE)
    heights = browser.run("return [...document.querySelectorAll('math[display=block]')].map((one) => one.clientHeight)")
    assert len(heights) >= 4 and max(heights) > 1.5 * min(heights)
    assert browser.run("return document.body.innerText.includes('\\\\top')") is False


def test_the_site_asks_for_nothing_from_elsewhere(browser: Browser, url: str):
    for page in PAGES:
        browser.open(f"{url}/{page}.html")
        asked = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)")
        assert all(one.startswith((url, "data:")) for one in asked), page
