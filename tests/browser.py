"""A real browser for tests: headless Chromium by chromedriver's own protocol (W3C WebDriver).

Both are of the system's packages (apt-get install chromium chromium-driver).

Loopback only; whoever has no browser skips, with the reason.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

WIDE, NARROW = 1280, 400
_START_SECONDS = 20.0

# Every element that has text of its own, its colour and the nearest background behind it: WCAG's contrast.
_LOW_CONTRAST = """
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
const behind = (e) => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > 0.8) return c; } return [255, 255, 255]; };
const found = [];
for (const e of document.querySelectorAll("body *")) {
  if (e.closest("svg, noscript, script, style, .hidden")) continue;
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  if (!own || !box.width || style.visibility === "hidden" || style.opacity === "0" || box.right < 0) continue;
  const a = light(numbers(style.color)), b = light(behind(e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.6 && style.fontWeight >= 700);
  const words = e.textContent.trim().slice(0, 40);
  if (ratio < (large ? 3 : 4.5)) found.push(e.tagName + " " + words + " " + ratio.toFixed(2)); }
return found;
"""
# What sticks out on the right without a scroll of its own around it.
_STICKS_OUT = """
const wide = document.documentElement.clientWidth, found = [];
if (document.documentElement.scrollWidth > wide) found.push("the page is " + document.documentElement.scrollWidth);
for (const e of document.querySelectorAll("body *")) {
  const box = e.getBoundingClientRect();
  if (box.right <= wide + 1 || !box.width || box.left < 0) continue;
  let inside = false;
  for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX)) inside = true;
  if (!inside && !e.closest("svg")) found.push(e.tagName + "." + e.className + " to " + Math.round(box.right)); }
return found.slice(0, 5);
"""


class Browser:
    """One tab."""

    def __init__(self, driver: str, session: str) -> None:
        self._base = f"{driver}/session/{session}"

    def open(self, url: str, width: int = WIDE, *, dark: bool = False) -> None:
        """Show a page in a window of this width."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", screen)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [feature]})
        self.errors()  # those of the page before
        call(f"{self._base}/url", {"url": url})

    def run(self, script: str) -> Any:
        """What a script returns."""
        return call(f"{self._base}/execute/sync", {"script": script, "args": []})

    def press(self, key: str, code: int) -> None:
        """A key of the keyboard: its name ("Tab", " ") and its code."""
        text = {"Enter": "\r", " ": " "}.get(key)
        down = {"type": "keyDown" if text else "rawKeyDown", "key": key, "windowsVirtualKeyCode": code}
        self._devtools("Input.dispatchKeyEvent", {**down, **({"text": text} if text else {})})
        self._devtools("Input.dispatchKeyEvent", {**down, "type": "keyUp"})

    def heard(self) -> list[tuple[str, str]]:
        """What a screen reader is told, in its order: role and name of everything that has both."""
        nodes = self._devtools("Accessibility.getFullAXTree", {})["nodes"]
        told = ((node.get("role", {}).get("value", ""), node.get("name", {}).get("value", "")) for node in nodes)
        return [(role, name.strip()) for role, name in told if role and name]

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.run(f"return document.querySelector({json.dumps(selector)}).textContent"))

    def wait_for(self, script: str, seconds: float = 10.0) -> Any:
        """The first result of a script that is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := self.run(script):
                return found
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds:g} s: {script}")

    def errors(self) -> list[str]:
        """What the console has complained of since the last call."""
        entries = call(f"{self._base}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def faults(self) -> list[str]:
        """All that a page must not have: errors, overflow, text that cannot be read."""
        return [*self.errors(), *self.run(_STICKS_OUT), *self.run(_LOW_CONTRAST)]

    def picture(self, path: Path) -> None:
        """The whole page as PNG, for people."""
        found = self._devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(found["data"]))

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return call(f"{self._base}/goog/cdp/execute", {"cmd": command, "params": parameters})


def call(url: str, body: dict[str, Any] | None = None, method: str = "") -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"}, method=method or ("POST" if data else "GET"))
    with urlopen(request, timeout=60) as reply:
        return json.load(reply)["value"]


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Start one, and end it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not chromium or not chromedriver:
        pytest.skip("no browser: install chromium and chromium-driver from the system's packages")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    with (
        tempfile.TemporaryDirectory() as profile,
        subprocess.Popen([chromedriver, f"--port={port}"], stdout=quiet, stderr=quiet) as process,
    ):
        driver = f"http://127.0.0.1:{port}"
        try:
            _wait_until_ready(driver)
            session = call(f"{driver}/session", {"capabilities": {"alwaysMatch": _wishes(chromium, profile)}})
            try:
                yield Browser(driver, session["sessionId"])
            finally:
                call(f"{driver}/session/{session['sessionId']}", method="DELETE")
        finally:
            process.terminate()


def _wait_until_ready(driver: str) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            if call(f"{driver}/status")["ready"]:
                return
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.05)


def _wishes(chromium: str, profile: str) -> dict[str, Any]:
    switches = [
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
        *("--disable-background-networking", "--disable-component-update", "--no-first-run", "--no-proxy-server"),
        # Only this machine: a page that asks for anything else is told that it does not exist, and complains.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        f"--user-data-dir={profile}",
    ]
    options = {"binary": chromium, "args": switches}
    return {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
