"""Names of studies and devices: one rule for all that is drafted, checked, approved, joined and served.

A name is one level of a broker's topic, the name of a folder, and a word of an access list.
"""

from __future__ import annotations

import re

from codedfl.errors import InvalidInput

MOST_BYTES = 64
SERVER_NAME = "codedfl-server"  # of whoever conducts runs, in certificates and kits; no device has it
_FORBIDDEN = re.compile(r"[/+#\\\s]+")


def checked_name(name: str, what: str) -> str:
    r"""The name as it is; one that does not do everywhere is refused, with one that does.

    >>> checked_name("b c", "a")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: a must be printable, without spaces, / \ + # and a dot in front, got 'b c': write 'b-c'
    """
    if not 1 <= len(name.encode(errors="replace")) <= MOST_BYTES:
        raise InvalidInput(f"{what} must have 1 to {MOST_BYTES} bytes, got {name[:80]!r}")
    if not name.isprintable() or name.startswith((".", "$")) or _FORBIDDEN.search(name):
        raise InvalidInput(
            f"{what} must be printable, without spaces, / \\ + # and a dot in front, got {name!r}: write"
            f" {plain_name(name)!r}"
        )
    return name


def checked_device(name: str, what: str) -> str:
    """As ``checked_name``; the server's is refused, too.

    >>> checked_device("codedfl-server", "the device's name")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the device's name must not be that of the server, got 'codedfl-server'
    """
    if name == SERVER_NAME:
        raise InvalidInput(f"{what} must not be that of the server, got {name!r}")
    return checked_name(name, what)


def plain_name(text: str, ending: str = "") -> str:
    """A name that does everywhere, the text itself where it does; ``ending`` is kept where the text is cut.

    >>> plain_name("length of stay", "-table-1"), plain_name(" ../x"), plain_name("")
    ('length-of-stay-table-1', 'x', 'unnamed')
    """
    words = "".join(one if one.isprintable() else " " for one in text)
    words = _FORBIDDEN.sub("-", words.strip()).lstrip("-.$") or "unnamed"
    return words.encode(errors="ignore")[: MOST_BYTES - len(ending)].decode(errors="ignore") + ending
