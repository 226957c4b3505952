"""A small web server for the page of one run: read-only, and by default for this machine alone.

It answers two addresses, the page and its state, and nothing that a request says is ever used as a path.
"""

from __future__ import annotations

import ipaddress
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.report.run_page import live_page
from codedfl.report.run_state import RunState

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class WatchServer(ThreadingHTTPServer):
    """Serves the run in ``folder``; ``port`` 0 takes any that is free (``url`` tells which).

    On a loopback address only requests that name such a host are answered: a page of another site cannot have its own
    name point here and read along.
    """

    daemon_threads = True

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        self.run = RunState(folder)
        self.run.look()  # what cannot be read is said before anything is served
        self._lock = threading.Lock()
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise InvalidInput(
                f"--listen and --port must be an address of this machine that is free, got {host}:{port}"
                f" ({error.strerror or error})"
            ) from None
        self.loopback = _is_loopback(host)

    @property
    def url(self) -> str:
        """Where to look."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}/"

    def state(self, seen: str) -> tuple[str, str] | None:
        """The version and the state as JSON; None if the reader has it already."""
        with self._lock:
            view = self.run.look()
            version = str(self.run.version)
            return None if version == seen else (version, view.json())


class _Handler(BaseHTTPRequestHandler):
    server: WatchServer
    server_version = "codedfl-watch"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30  # a connection that says nothing is closed

    def do_GET(self) -> None:
        """The page, or what it shows."""
        asked = urlsplit(self.path)
        if self.server.loopback and not _is_loopback(urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""):
            self._reply(HTTPStatus.FORBIDDEN, "text/plain", "this page is for this machine alone\n")
        elif asked.path == "/":
            self._reply(HTTPStatus.OK, "text/html", live_page())
        elif asked.path == "/state.json":
            self._state(parse_qs(asked.query).get("seen", [""])[0])
        else:
            self._reply(HTTPStatus.NOT_FOUND, "text/plain", "there is nothing here\n")

    do_HEAD = do_GET

    def _state(self, seen: str) -> None:
        try:
            found = self.server.state(seen)
        except (CodedFLError, OSError) as error:
            self._reply(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n")
            return
        if found is None:
            self._reply(HTTPStatus.NO_CONTENT, "", "")
        else:
            self._reply(HTTPStatus.OK, "application/json", found[1], {"X-Version": found[0]})

    def _reply(self, status: HTTPStatus, kind: str, text: str, more: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        headers = {
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            **(more or {}),
        }
        if kind:
            headers |= {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Who looks is nobody's business."""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
