"""Files that go from hand to hand and hold nothing secret: TOML of texts, bounded, with every key known.

No private key is written to one, and none is read from one: whoever was sent one must know that it was.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

import tomli_w

from codedfl.errors import InvalidInput
from codedfl.files import write_text

_SECRET = "PRIVATE KEY"  # in the first line of every PEM that holds one


def write_texts(path: Path, said: str, texts: Mapping[str, str]) -> None:
    """Write texts by their keys; ``said`` is a comment on top.

    >>> write_texts(Path("never"), "a file", {"key": "-----BEGIN PRIVATE KEY-----"})
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: never must hold no private key, got one in key: it stays where it was made
    """
    plain = {key: text.replace("\r\n", "\n") for key, text in texts.items()}
    _refuse_secrets(path, plain)
    write_text(path, f"# {said}\n{tomli_w.dumps(plain, multiline_strings=True)}")


def read_texts(path: Path, what: str, format_: str, keys: Collection[str], largest: int) -> dict[str, str]:
    """The texts of a file that has these keys and no other; ``what`` it must be begins the error.

    >>> read_texts(Path("none"), "the kit", "codedfl-kit-1", ("name",), 1000)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the kit must be a readable file, got 'none'
    """
    if not path.is_file():
        raise InvalidInput(f"{what} must be a readable file, got {str(path)!r}")
    if (size := path.stat().st_size) > largest:
        raise InvalidInput(f"{what} must have at most {largest} bytes, got {size} in {str(path)!r}")
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} must be a TOML file, got {str(path)!r} ({error})") from None
    if found.get("format") != format_:
        raise InvalidInput(
            f"{what} must have format = {format_!r}, got {str(found.get('format'))[:40]!r} in {path.name}"
        )
    expected = {"format", *keys}
    if wrong := sorted(expected ^ set(found)):
        raise InvalidInput(f"{what} must have the keys {', '.join(keys)} and no other, got {wrong[0]!r} wrong")
    for key, text in found.items():
        if not isinstance(text, str):
            raise InvalidInput(f"{key} of {what} must be a text, got {str(text)[:40]!r}")
    _refuse_secrets(path, found)
    return found


def _refuse_secrets(path: Path, texts: Mapping[str, str]) -> None:
    for key, text in texts.items():
        if _SECRET in text:
            raise InvalidInput(f"{path.name} must hold no private key, got one in {key}: it stays where it was made")
