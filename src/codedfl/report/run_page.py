"""The page of one run: the same file live (``watch_server`` feeds it) and kept (what it shows is written into it).

It needs nothing else: its own style and script, no font and no request but for the state of the run.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from codedfl.files import write_text
from codedfl.report.run_fold import RunView
from codedfl.report.run_state import RunState

PAGE_FILE = "report.html"
_STATE = '<script type="application/json" id="state">null</script>'
_TITLE = "<title>A run of codedfl</title>"


@cache
def live_page() -> str:
    """The page that asks for the state of its run once a second."""
    return files("codedfl.report").joinpath("run_page.html").read_text(encoding="utf-8")


def kept_page(view: RunView) -> str:
    """The page of a run as it stands, for keeps."""
    state = view.json().replace("<", "\\u003c")  # names may hold anything, and must not end the script
    page = live_page().replace(_STATE, _STATE.replace("null", state))
    return page.replace(_TITLE, f"<title>{escape(view.title or view.scheme)}</title>")


def write_run_page(folder: Path) -> Path:
    """Write the page of the run whose journal is in this folder, beside it."""
    path = folder / PAGE_FILE
    write_text(path, kept_page(RunState(folder).look()))
    return path
