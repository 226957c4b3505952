"""Who is who on real machines: long-term keys in files.

A party's key file holds 32 random bytes in hex; it is made on first use and never leaves the machine. Which public keys
count is said by the roster (``contract.roster``); ``sealed.fingerprint`` is what operators read to each other.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.errors import InvalidInput
from codedfl.private_files import check_private, make_private_folder, sync_folder, write_private

DEVICE_KEY = "device.key"  # in the folder of a device
SERVER_KEY = "server.key"  # in the folder of all states


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
    """Make a key file. The first of two processes wins: the other's key must not replace what is in use."""
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
