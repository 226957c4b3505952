"""Who is who on real machines: long-term keys in files, and the operator's roster of pinned public keys.

A party's key file holds 32 random bytes in hex; it is made on first use and never leaves the machine. The roster is a
TOML file of ``name = "public key in hex"``, the same for the server and for all devices; ``sealed.fingerprint``
is what operators read to each other. Without a roster the first key seen under a name counts for the run.
"""

from __future__ import annotations

import os
import secrets
import tomllib
from contextlib import suppress
from pathlib import Path

import tomli_w

from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.engine.private_files import check_private, make_private_folder, sync_folder, write_private
from codedfl.errors import InvalidInput
from codedfl.files import write_text
from codedfl.protocol.messages import MAX_NAME, name_length

DEVICE_KEY = "device.key"  # in the folder of a device


def load_identity(path: Path) -> Identity:
    """The identity in a key file of mode 0600; a new one if there is no such file."""
    if not path.exists():
        _make_key_file(path)
    check_private(path, "the key file")
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii"))
    except ValueError:
        secret = b""
    if len(secret) != KEY_BYTES:
        raise InvalidInput(f"the key file must hold {KEY_BYTES} bytes in hex, got something else in {str(path)!r}")
    return Identity(secret)


def _make_key_file(path: Path) -> None:
    """Of two processes that make the same one, the first wins: the other's key must not replace what is in use."""
    make_private_folder(path.parent)
    candidate = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    write_private(candidate, [secrets.token_bytes(KEY_BYTES).hex().encode() + b"\n"])
    with suppress(FileExistsError):
        os.link(candidate, path)
    candidate.unlink()
    sync_folder(path.parent)


def parse_public(text: object, what: str) -> bytes:
    """A public key from its hex form."""
    try:
        public = bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        public = b""
    if len(public) != KEY_BYTES:
        raise InvalidInput(f"{what} must be a public key of {KEY_BYTES} bytes in hex, got {str(text)[:40]!r}")
    return public


def load_roster(path: Path) -> dict[str, bytes]:
    """Public keys by device name, in the file's order."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"the roster must be a readable TOML file, got {str(path)!r} ({error})") from None
    for name in entries:
        if not 1 <= name_length(name) <= MAX_NAME:
            raise InvalidInput(f"a name on the roster must have 1 to {MAX_NAME} bytes, got {name[:80]!r}")
    return {name: parse_public(text, f"{name!r} on the roster") for name, text in entries.items()}


def save_roster(roster: dict[str, bytes], path: Path) -> None:
    """Write a roster, in this order; any text can be a name."""
    write_text(path, roster_text(roster))


def roster_text(roster: dict[str, bytes]) -> str:
    """What the file holds: a line a device."""
    return tomli_w.dumps({name: public.hex() for name, public in roster.items()})
