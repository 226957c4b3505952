"""Links out of the site. That inner ones lead somewhere ``make docs`` sees to, which takes warnings for errors."""

from __future__ import annotations

import re
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in ("README.md", "DESIGN.md", "THREAT_MODEL.md"))]
GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)  # others say: there it is, but not for programs


def links() -> dict[str, str]:
    """Address -> the page it is on; those of examples are nobody's."""
    found = {}
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for one in re.findall(r"\]\((https?://[^)\s]*)\)|^\[[^]]+\]: (\S+)|<(https?://[^>\s]*)>", text, re.MULTILINE):
            found["".join(one)] = page.name
    return found


def test_external_links_are_whole_addresses():
    assert len(links()) > 5
    for address, page in links().items():
        parts = urlsplit(address)
        assert parts.scheme == "https" and "." in parts.netloc, f"{address} on {page}"


@pytest.mark.nightly
def test_external_links_lead_somewhere():
    lost, unreached = [], []
    for address, page in links().items():
        try:
            with urlopen(Request(address, headers={"User-Agent": "codedfl-docs"}), timeout=20):
                pass
        except HTTPError as error:
            if error.code in GONE:
                lost.append(f"{address} on {page}: {error}")
        except (URLError, OSError) as error:
            unreached.append(f"{address}: {error}")
    assert lost == []
    if unreached:
        pytest.skip(f"no network, or not to {len(unreached)} of {len(links())} addresses: {unreached[0]}")
