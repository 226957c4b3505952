"""One file over HTTP, resumed where an earlier attempt broke off."""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

# Short, so that a machine without network goes on to the next way within seconds.
TIMEOUT_S = 10.0
ATTEMPTS = 3
_BLOCK = 1 << 16


class MirrorError(Exception):
    """The file could not be had whole; the message is the reason, in one line."""


class _BrokenOffError(Exception):
    """The connection ended early: what came is kept, and the next attempt goes on from there."""


def download(url: str, part: Path, limit: int, progress: Callable[[int, int | None], None]) -> None:
    """Bring the file part up to the whole of url. What it holds already is taken for the file's beginning.

    A connection that breaks off is resumed, at most three attempts in all; after that the part stays, for
    the next run. A server that ignores ranges is read from the start. More than limit bytes are refused.
    Whether the result is the right file is for the caller to check: a part left by another file cannot be
    told here.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _go_on(url, part, limit, progress)
        except urllib.error.HTTPError as error:
            with error:
                raise MirrorError(f"HTTP {error.code} {error.reason}") from error
        except urllib.error.URLError as error:
            raise MirrorError(f"no connection ({error.reason})") from error
        except (_BrokenOffError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            if attempt == ATTEMPTS:
                raise MirrorError(f"broke off {ATTEMPTS} times ({error})") from error
    raise AssertionError("the last attempt returns or raises")


def _go_on(url: str, part: Path, limit: int, progress: Callable[[int, int | None], None]) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "codedfl"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            # Nothing lies beyond what is here: it is whole, or the hash will show that it is not this file.
            error.close()
            return
        raise
    with response:
        if not _starts_at(response, have):
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        with part.open("ab" if have else "wb") as target:
            while block := response.read(_BLOCK):
                target.write(block)
                have += len(block)
                progress(have, total)
                if have > limit:
                    break
    if have > limit:
        part.unlink()
        raise MirrorError(f"at most {limit} bytes were expected, got more")
    if total is not None and have < total:
        raise _BrokenOffError(f"{have} of {total} bytes")


def _starts_at(response: http.client.HTTPResponse, have: int) -> bool:
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return False
    start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return start is not None and int(start[1]) == have
