"""Pages in a real browser, at the width of a desk and of a phone: nothing sticks out, nothing fails, all can be read.

One test is in ``make test``; the others are nightly. Without Chromium they are skipped.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from growing_run import GrowingRun, NewRun

from browser import NARROW, WIDE, Browser, a_browser
from codedfl.report.event_log import EVENTS_FILE, EpochScored, EventLog, Finished
from codedfl.report.run_page import write_run_page
from codedfl.report.watch_server import WatchServer

# The share of a lane's canvas that has ink.
INK = """
const canvas = document.querySelector("#rows canvas"), pixels = canvas.getContext("2d")
  .getImageData(0, 0, canvas.width, canvas.height).data;
let inked = 0; for (let i = 3; i < pixels.length; i += 4) inked += pixels[i] > 0; return inked;
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture
def run(new_run: NewRun) -> GrowingRun:
    return new_run()


@pytest.fixture
def url(tmp_path: Path, run: GrowingRun) -> Iterator[str]:
    with WatchServer(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


@pytest.mark.xdist_group("browser")
def test_the_lanes_move_while_a_run_goes_on(browser: Browser, url: str, run: GrowingRun):
    run.share()
    run.train(1)
    browser.open(url)
    browser.wait_for("return document.querySelectorAll('#rows tr').length === 5")
    before = browser.run(INK)
    widths = browser.run("return [...document.querySelectorAll('#rows canvas')].map((c) => c.width)")
    assert len(set(widths)) == 1, "the same epoch stands at the same place in every lane"
    assert browser.text("#status-text") == "training, epoch 1 of at most 6"
    run.train(3)
    browser.wait_for("return document.getElementById('status-text').textContent === 'training, epoch 4 of at most 6'")
    assert browser.run(INK) > 2 * before
    assert browser.text("h1") == "days in hospital"
    assert browser.run("return document.querySelectorAll('#chart polyline')[0].points.length") == 4
    assert "clinic-5: 1 used, 0 spare, 1 not needed, lied in epoch 2" in browser.run(
        "return [...document.querySelectorAll('#rows canvas')].map((c) => c.getAttribute('aria-label'))"
    )
    assert "At most 6 of 40 directions" in browser.text("#knows")
    assert "at most" in browser.text("#cards") and browser.faults() == []
    browser.open(url, NARROW, dark=True)
    browser.wait_for("return document.querySelectorAll('#rows tr').length === 5")
    assert browser.faults() == []
    run.finish("a device is missing")
    browser.wait_for("return document.getElementById('status-text').textContent.startsWith('ended')")
    assert browser.text("#status-text") == "ended after 4 epochs: a device is missing"


@pytest.mark.hospitals
@pytest.mark.nightly
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_linear_study_has_no_words_about_epochs(browser: Browser, url: str, run: GrowingRun, width: int):
    run.exchange("gram", ("clinic-1", "clinic-2", "clinic-3"))
    run.finish()
    browser.open(url, width)
    browser.wait_for("return document.querySelectorAll('#rows tr').length === 5")
    seen = browser.run("return document.body.innerText")
    for word in ("late", "missing", "waiting", "epoch", "spare", "not needed"):
        assert word not in seen, word
    assert seen.count("in the sum") == 4 and seen.count("left out with its disclosure group") == 2
    assert browser.faults() == []


@pytest.mark.hospitals
@pytest.mark.nightly
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_axis_is_that_of_the_score_and_not_of_the_first_epoch(
    browser: Browser, tmp_path: Path, new_run: NewRun, width: int
):
    run = new_run(score_name="R^2")
    run.share()
    for epoch, score in enumerate((-83.0, -2.0, 0.1, 0.19), start=1):
        run.tell(EpochScored(epoch, 2, score, 0, 0))
    run.finish()
    browser.open(write_run_page(tmp_path).as_uri(), width)
    browser.wait_for("return document.querySelectorAll('#chart polyline').length === 1")
    ticks = browser.run(
        "return [...document.querySelectorAll('#chart text[text-anchor=end]')].map((t) => +t.textContent)"
        ".filter((v) => !isNaN(v))"
    )
    assert -0.25 <= min(ticks) <= 0 and max(ticks) <= 0.3
    assert "Scores below -0.250 are drawn at the lower edge" in browser.text("#chart")
    assert browser.faults() == []


@pytest.mark.hospitals
@pytest.mark.nightly
def test_a_rehearsal_without_a_fleet_promises_no_time(browser: Browser, tmp_path: Path):
    log = EventLog(tmp_path / EVENTS_FILE, "order", 0.0, empty=True)
    for epoch in range(1, 4):
        log.note(2.5 * epoch, EpochScored(epoch, 2, 0.1 * epoch, 0, 0))
    log.note(9.0, Finished("complete"))
    log.close()
    browser.open(write_run_page(tmp_path).as_uri())
    browser.wait_for("return document.querySelectorAll('#chart polyline').length === 1")
    assert browser.text("#status-text") == "finished after 3 epochs"
    seen = browser.run("return document.body.innerText + document.getElementById('chart').textContent")
    assert not re.search(r"\d (ms|s|min)\b|seconds", seen), seen
    assert browser.faults() == []


@pytest.mark.nightly
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_filter_and_the_keyboard(browser: Browser, url: str, run: GrowingRun, width: int, dark: bool):
    run.share()
    run.train(6)
    run.finish()
    browser.open(url, width, dark=dark)
    browser.wait_for("return document.querySelectorAll('#rows tr').length === 5")
    browser.run("document.getElementById('only').click()")
    assert browser.run("return document.querySelectorAll('#rows tr').length") == 3
    focusable = browser.run(
        "return [...document.querySelectorAll('a, input, summary, [tabindex=\"0\"]')].map((e) => e.tagName)"
    )
    assert focusable[0] == "A" and {"INPUT", "SUMMARY"} <= set(focusable)
    browser.run("document.querySelector('summary').click()")
    assert browser.run("return document.querySelectorAll('#scores tr').length") == 6
    assert browser.faults() == []


@pytest.mark.nightly
def test_without_a_mouse_and_without_eyes(browser: Browser, url: str, run: GrowingRun):
    run.share()
    run.train(3)
    browser.open(url)
    browser.wait_for("return document.querySelectorAll('#rows tr').length === 5")
    focus = "return document.activeElement.textContent.trim() || document.activeElement.id"
    browser.press("Tab", 9)
    assert browser.run(focus) == "Skip to the devices"
    browser.press("Enter", 13)
    browser.wait_for("return document.activeElement.id === 'devices' || location.hash === '#devices'")
    browser.press("Tab", 9)
    assert browser.run(focus) == "only"
    browser.press(" ", 32)
    assert browser.run("return document.getElementById('only').checked")
    heard = browser.heard()
    assert ("heading", "days in hospital") in heard and ("progressbar", "epochs done") in heard
    assert ("checkbox", "only those with spare, unneeded or wrong answers") in heard
    images = [name for role, name in heard if role in ("img", "image")]
    assert "clinic-4: 0 used, 0 spare, 3 not needed" in images
    assert any(name.startswith("accuracy from 50.0 % to 80.0 %") for name in images), images
    assert ("rowheader", "the server alone") in heard and ("columnheader", "spare") in heard


@pytest.mark.nightly
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_pages_of_compare_and_train(browser: Browser, commands: Path, width: int, dark: bool):
    for name in ("compare", "train"):
        browser.open(f"file://{commands / name / 'report.html'}", width, dark=dark)
        browser.wait_for("return document.querySelectorAll('svg').length > 0")
        assert browser.faults() == [], name
        for table in browser.run("return [...document.querySelectorAll('.scroll')].map((e) => [e.tabIndex, e.role])"):
            assert table == [0, "region"]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two commands write, each in a folder of its name."""
    folder = tmp_path_factory.mktemp("pages")
    for name, more in (("compare", ("--seeds", "1", "--draws", "20")), ("train", ())):
        arguments = ["lab", name, "digits", "--devices", "10", *more, "--out", str(folder / name)]
        subprocess.run([sys.executable, "-m", "codedfl", *arguments], check=True, capture_output=True)
    return folder
