"""The server's cache of replies: what was learned of devices, in one SQLite file. Deleted, it is asked for again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from codedfl.sum.keys import pack

Key = tuple[str | int | bytes, ...]


class Store:
    """Bytes under keys, by kind.

    Examples
    --------
    >>> from codedfl.sum.store import Store
    >>> store = Store()
    >>> store.put(("upload", "clinic-1"), b"..."); store.get(("upload", "clinic-1"))
    b'...'
    """

    def __init__(self, path: Path | None = None) -> None:
        """``path``: the file; None keeps everything in memory."""
        if path is not None:
            path.touch(mode=0o600)  # the key that opens replies is in it
        self._base = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
        # A cache that loses its last entries in a power cut asks for them again; it must only never be torn.
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self._base.execute("PRAGMA secure_delete = ON")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS replies (kind TEXT, key BLOB, value BLOB, PRIMARY KEY (kind, key))"
        )

    def get(self, key: Key) -> bytes | None:
        found = self._base.execute("SELECT value FROM replies WHERE kind = ? AND key = ?", _split(key)).fetchone()
        return None if found is None else bytes(found[0])

    def put(self, key: Key, value: bytes) -> None:
        self._base.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (*_split(key), value))

    def drop(self, *keys: Key) -> None:
        # All or none: a list without its matrix, or the other way round, would be asked for again for nothing.
        self._base.execute("BEGIN")
        for key in keys:
            self._base.execute("DELETE FROM replies WHERE kind = ? AND key = ?", _split(key))
        self._base.execute("COMMIT")

    def values(self, kind: str) -> Iterator[bytes]:
        """All of one kind."""
        for (value,) in self._base.execute("SELECT value FROM replies WHERE kind = ? ORDER BY key", (kind,)).fetchall():
            yield bytes(value)

    def clear(self, *kinds: str) -> None:
        """Everything of these kinds."""
        for kind in kinds:
            self._base.execute("DELETE FROM replies WHERE kind = ?", (kind,))

    def close(self) -> None:
        self._base.close()


def _split(key: Key) -> tuple[str, bytes]:
    return str(key[0]), pack(*key[1:])
