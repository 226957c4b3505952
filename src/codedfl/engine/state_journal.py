"""A state on disk that changes often and little: a ``StateFolder`` with a journal of what changed since its index.

Between two epochs a party's matrices stay as they are; an answer, some numbers and small arrays change. Those are
appended to one file, as the new values of the entries that differ. A record is on the disk (fdatasync) before ``save``
returns, so before anything that follows from it leaves the machine: after a power cut a device still knows which update
it has answered. One that was cut short has no valid checksum; nothing had left yet, and it is dropped.

The journal carries the digest of its index in its name. A new index, and with it an empty journal, is written when an
entry or a file is gone, when the journal has grown beyond ``MOST_BYTES``, at the first save of a process, and whenever
a party has forgotten a secret: what is gone from memory must be gone from the disk, and a journal only appends.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgpack
from numpy.typing import NDArray

from codedfl.engine.state_folder import StateFolder
from codedfl.private_files import make_private_folder, sync_folder
from codedfl.state import State

MOST_BYTES = 64 << 20
_CHECK_BYTES = 16
_LENGTH_BYTES = 8
_LARGE = 1 << 22
_EMPTY = msgpack.packb({})  # a table without entries, which is none when it has some

_Entries = dict[tuple[str, ...], bytes]  # keys down to a value -> the value, packed


class StateJournal(StateFolder):
    """A ``StateFolder`` for a process that stays: saving costs what has changed."""

    _large: ClassVar[int] = _LARGE  # what is smaller can be written anew a few times

    def __init__(self, path: Path, large_bytes: int = _LARGE) -> None:
        super().__init__(path, large_bytes)
        self._entries: _Entries = {}
        self._files: set[str] = set()
        self._journal: int | None = None
        self._size = 0
        self._check = b""  # of the last record, or the digest of the index: each record is bound to the one before

    def __del__(self) -> None:
        self._close()

    def save(self, state: State, unchanging: Sequence[NDArray[Any]] = (), *, anew: bool = False) -> None:
        if self._journal is None:
            make_private_folder(self.path)
        names: set[str] = set()
        split = self._split_all(state, unchanging, names)
        entries = _entries(split)
        changed = [[list(key), value] for key, value in entries.items() if self._entries.get(key) != value]
        gone = any(key not in entries and value != _EMPTY for key, value in self._entries.items())
        fits = self._journal is not None and not gone and self._files <= names
        if anew or not fits or self._size > MOST_BYTES:
            self._begin(split, names)
        elif changed:
            if names != self._files:
                sync_folder(self.path)  # a file is there before a record names it
            self._append(msgpack.packb(changed))
        self._entries, self._files = entries, names

    def wipe(self) -> None:
        self._close()
        super().wipe()

    def _begin(self, split: Any, names: set[str]) -> None:
        self._close()
        self._check = self._replace_index(split, names)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._journal = os.open(self.path / _journal_name(self._check), flags, 0o600)
        sync_folder(self.path)

    def _append(self, packed: bytes) -> None:
        assert self._journal is not None
        check = _check(self._check, packed)
        record = b"".join([len(packed).to_bytes(_LENGTH_BYTES, "little"), check, packed])
        if os.write(self._journal, record) != len(record):
            self._close()  # the next save begins anew: what lies behind a torn record is never read
            raise OSError(f"{self.path} must have room for the journal, got a full disk")
        os.fdatasync(self._journal)
        self._check, self._size = check, self._size + len(record)

    def _close(self) -> None:
        if self._journal is not None:
            with suppress(OSError):
                os.close(self._journal)
        self._journal, self._size = None, 0

    def _up_to_date(self, split: Any, digest: bytes) -> Any:
        try:
            data = memoryview((self.path / _journal_name(digest)).read_bytes())
        except FileNotFoundError:  # the process ended between index and journal
            return split
        check, start = digest, 0
        while start < len(data):
            head = start + _LENGTH_BYTES
            body = head + _CHECK_BYTES
            end = body + int.from_bytes(data[start:head], "little")
            packed = bytes(data[body:end])
            if end > len(data) or _check(check, packed) != data[head:body]:
                break
            check, start = bytes(data[head:body]), end
            for key, value in msgpack.unpackb(packed, strict_map_key=True):
                place = split
                for one in key[:-1]:
                    place = place.setdefault(one, {})
                place[key[-1]] = msgpack.unpackb(value, strict_map_key=True)
        return split


def _journal_name(digest: bytes) -> str:
    return f"journal-{digest.hex()[:32]}"


def _check(before: bytes, packed: bytes) -> bytes:
    return hashlib.sha256(before + packed).digest()[:_CHECK_BYTES]


def _entries(split: Any, above: tuple[str, ...] = ()) -> _Entries:
    found: _Entries = {}
    for key, value in split.items():
        if isinstance(value, dict) and value and not any(name.startswith("$") for name in value):
            found |= _entries(value, (*above, key))
        else:
            found[(*above, key)] = msgpack.packb(value)
    return found
