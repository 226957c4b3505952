"""Who takes part, filled into a study file: the roster's digest and the server's key; the rest stays as it was."""

from __future__ import annotations

import re

from codedfl.contract.toml_file import parse_study
from codedfl.errors import InvalidInput

_SECTION = re.compile(r"(?m)^\[protection\][^\n]*\n")


def bound_text(text: str, roster: str, server_key: str) -> str:
    """The text of a study file that names this roster and this server (hex); one that names others is refused.

    A line that is there as a comment, as drafts have them, is replaced; else one is put into [protection].

    >>> bound_text('format = "codedfl-study-2"', "ab", "cd")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the study: name must be said, got nothing
    """
    wanted = {"roster": roster, "server_key": server_key}
    for key, value in wanted.items():
        said = getattr(parse_study(text), key)
        if said and said != value:
            raise InvalidInput(f"{key} of the study must be {value} or left out, got {said}")
        if not said:
            text = _filled_in(text, key, f'{key} = "{value}"')
    return text


def _filled_in(text: str, key: str, line: str) -> str:
    commented = re.compile(rf"(?m)^#[ \t]*{key}[ \t]*=[^\n]*$")
    if commented.search(text):
        return commented.sub(line, text, count=1)
    if not _SECTION.search(text):
        raise InvalidInput(f"the study must have a line [protection], which {key} goes below, got none")
    return _SECTION.sub(lambda found: f"{found[0]}{line}\n", text, count=1)
