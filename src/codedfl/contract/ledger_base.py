"""A device's ledger on the disk: one SQLite file. What a transaction has written is on the disk when it ends.

Approvals, what was uploaded for them and which directions were answered are never deleted, but for an approval that is
withdrawn before anything was uploaded. The root of a generation is deleted when the generation is closed, and its bytes
are overwritten.

SQLite writes ahead (``ledger.sqlite-wal``): a transaction waits for the disk once and not three times, and every upload
waits for a transaction. That file is written back and emptied whenever a root goes, and when the ledger is opened or
closed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec

from codedfl.contract.ledger import AcceptedGroups, Approval, Contribution, Ledger
from codedfl.errors import InvalidInput
from codedfl.private_files import check_private, make_private_folder, sync_folder

LEDGER_FILE = "ledger.sqlite"
_FORMAT = 5  # SQLite's user_version

_TABLES = """
CREATE TABLE IF NOT EXISTS approvals (study BLOB PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS contributions (study BLOB, argument BLOB, statistic TEXT NOT NULL, pinned BLOB NOT NULL,
    time TEXT NOT NULL, groups BLOB NOT NULL, PRIMARY KEY (study, argument));
CREATE TABLE IF NOT EXISTS accepted (body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS withdrawn (body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS rows_key (digest BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS questions (study BLOB, question BLOB, PRIMARY KEY (study, question));
CREATE TABLE IF NOT EXISTS generations (study BLOB PRIMARY KEY, number INTEGER, root BLOB, not_after INTEGER);
CREATE TABLE IF NOT EXISTS closed (study BLOB, number INTEGER, argument BLOB, owners BLOB,
    PRIMARY KEY (study, number, argument));
CREATE TABLE IF NOT EXISTS contents (place INTEGER PRIMARY KEY, study BLOB, digest BLOB, body BLOB,
    UNIQUE (study, digest));
"""


class LedgerBase:
    """The file of one device; made when it is first opened.

    Examples
    --------
    >>> import tempfile
    >>> from codedfl.contract.ledger_base import LedgerBase
    >>> base = LedgerBase(Path(tempfile.mkdtemp()) / "clinic-1")
    >>> with base.ledger() as ledger: print(ledger)
    <Ledger of 0 approvals, 0 contributions>
    """

    def __init__(self, folder: Path | None = None) -> None:
        """``folder``: where the file is; None keeps it in memory, for rehearsals."""
        self._folder = folder
        self._open: sqlite3.Connection | None = None
        self._lock = RLock()

    def _base(self) -> sqlite3.Connection:
        if self._open is None:
            path = self._made()
            base = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
            written = self._check_format(base)
            # Invariant: a reply leaves after its transaction is on the disk, and a deleted root is overwritten.
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON"):
                base.execute(f"PRAGMA {pragma}")
            if not written:
                base.executescript(_TABLES)
                base.execute(f"PRAGMA user_version = {_FORMAT}")
            _write_back(base)  # of a process that was killed while a root went
            self._open = base
        return self._open

    def _made(self) -> Path | str:
        if self._folder is None:
            return ":memory:"
        path = make_private_folder(self._folder) / LEDGER_FILE
        if not path.exists():
            path.touch(mode=0o600)
            sync_folder(self._folder)
        check_private(path, "a device's ledger")
        return path

    def _check_format(self, base: sqlite3.Connection) -> bool:
        """Whether the tables are there."""
        try:
            (found,) = base.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError:
            raise InvalidInput(
                f"the ledger must be readable, got a damaged {LEDGER_FILE}: restore it from a backup"
            ) from None
        if found not in (0, _FORMAT):
            raise InvalidInput(f"the ledger must be of format {_FORMAT}, got {found}: install that version")
        return bool(found)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; nobody else writes the ledger meanwhile."""
        with self._lock:
            base = self._base()
            base.execute("BEGIN IMMEDIATE")
            try:
                yield base
            except BaseException:
                base.execute("ROLLBACK")
                raise
            base.execute("COMMIT")

    @contextmanager
    def _no_hurry(self) -> Iterator[sqlite3.Connection]:
        """A transaction that waits for no disk: it is there when the next one is, which cannot be there without it."""
        with self._lock:
            self._base().execute("PRAGMA synchronous = NORMAL")
            try:
                with self.transaction() as base:
                    yield base
            finally:
                self._base().execute("PRAGMA synchronous = FULL")

    def _row(self, query: str, values: tuple[object, ...]) -> Any:
        """One row, or None. What a single query reads is of one moment, and waits for nobody who writes."""
        with self._lock:
            return self._base().execute(query, values).fetchone()

    # -- approvals, uploads and directions

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """What is in the file, saved at the end as far as it changed. Where an exception ends the block, nothing is."""
        with self.transaction() as base:
            ledger = Ledger(
                [msgspec.msgpack.decode(body, type=Approval) for (body,) in _all(base, "SELECT body FROM approvals")],
                [_contribution(*row) for row in _all(base, f"SELECT {_CONTRIBUTION} FROM contributions")],
                [(study, question) for study, question in _all(base, "SELECT study, question FROM questions")],
                accepted=(
                    msgspec.msgpack.decode(body, type=AcceptedGroups)
                    for (body,) in _all(base, "SELECT body FROM accepted")
                ),
            )
            accepted = len(ledger.accepted)
            approvals, contributions = list(ledger.approvals), len(ledger.contributions)
            questions = len(ledger.questions)
            yield ledger
            for gone in approvals:
                if gone not in ledger.approvals:  # on record, for whoever asks what became of it
                    base.execute("INSERT INTO withdrawn VALUES (?)", (msgspec.msgpack.encode(gone),))
                    base.execute("DELETE FROM approvals WHERE study = ?", (gone.digest,))
            for new in ledger.approvals:
                if new not in approvals:
                    base.execute("INSERT INTO approvals VALUES (?, ?)", (new.digest, msgspec.msgpack.encode(new)))
            for one in ledger.contributions[contributions:]:
                base.execute(
                    f"INSERT INTO contributions ({_CONTRIBUTION}) VALUES (?, ?, ?, ?, ?, ?)",
                    (one.digest, one.statistic, one.argument, one.pinned, one.when, msgspec.msgpack.encode(one.groups)),
                )
            for allowed in ledger.accepted[accepted:]:
                base.execute("INSERT INTO accepted VALUES (?)", (msgspec.msgpack.encode(allowed),))
            base.executemany("INSERT INTO questions VALUES (?, ?)", ledger.questions[questions:])

    def withdrawn(self) -> list[Approval]:
        """Approvals that were taken back, oldest first."""
        with self.transaction() as base:
            return [msgspec.msgpack.decode(body, type=Approval) for (body,) in _all(base, "SELECT body FROM withdrawn")]

    def check_rows_key(self, digest: bytes) -> None:
        """Keep the digest of the key of the hashes of rows; refuse another one: hashes under it recognise no row."""
        with self.transaction() as base:
            known = _all(base, "SELECT digest FROM rows_key")
            if not known:
                base.execute("INSERT INTO rows_key VALUES (?)", (digest,))
            elif known[0][0] != digest:
                raise InvalidInput(
                    "rows.key must be the one that this ledger began with, got another: earlier rows would not be"
                    " recognised; restore it from a backup"
                )

    # -- generations

    def generation(self, study: bytes) -> tuple[int, bytes, int] | None:
        """Number, root and end of the newest generation of a study."""
        found: tuple[int, bytes, int] | None = self._row(_GENERATION, (study,))
        return found

    def keep(self, study: bytes, number: int, root: bytes, not_after: int) -> None:
        """Instead of the one before, whose root is gone then."""
        with self._lock:
            before = self.generation(study)
            with self.transaction() as base:
                base.execute("INSERT OR REPLACE INTO generations VALUES (?, ?, ?, ?)", (study, number, root, not_after))
            # Invariant: a root that is gone is gone from both files when this returns.
            if before is not None and before[1]:
                _write_back(base)

    def closed(self, study: bytes, number: int, record: Sequence[tuple[bytes, Sequence[str]]]) -> None:
        """Whose rows were in which sum, as the server signed it; what is known already stays.

        On the disk with the next transaction: ``keep``, which lets the root go, so a device whose record was lost still
        has its keys and closes again.
        """
        with self._no_hurry() as base:
            rows = [(study, number, argument, msgspec.msgpack.encode(list(names))) for argument, names in record]
            base.executemany("INSERT OR IGNORE INTO closed VALUES (?, ?, ?, ?)", rows)

    def sums(self, study: bytes) -> list[tuple[bytes, tuple[str, ...]]]:
        """What ``closed`` has kept of a study: the digest of each request, and whose rows were in its sum."""
        with self.transaction() as base:
            found = _all(base, "SELECT argument, owners FROM closed WHERE study = ? ORDER BY number", (study,))
        return [(argument, tuple(msgspec.msgpack.decode(owners))) for argument, owners in found]

    # -- contents that a server has put: a cache

    def put(self, study: bytes, digest: bytes, content: bytes, most: int) -> None:
        """Keep a content of a study, and of those before it the newest.

        It may be lost in a power cut: it is put again.
        """
        with self._no_hurry() as base:
            base.execute(
                "INSERT OR IGNORE INTO contents (study, digest, body) VALUES (?, ?, ?)", (study, digest, content)
            )
            newest = "SELECT place FROM contents WHERE study = ? ORDER BY place DESC LIMIT ?"
            base.execute(f"DELETE FROM contents WHERE study = ? AND place NOT IN ({newest})", (study, study, most))

    def content(self, study: bytes, digest: bytes) -> bytes | None:
        """What ``put`` has kept, if it is still there."""
        found = self._row("SELECT body FROM contents WHERE study = ? AND digest = ?", (study, digest))
        return None if found is None else bytes(found[0])

    def close(self) -> None:
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None


_CONTRIBUTION = "study, statistic, argument, pinned, time, groups"
_GENERATION = "SELECT number, root, not_after FROM generations WHERE study = ?"


def _write_back(base: sqlite3.Connection) -> None:
    """Bring what was written ahead into the ledger's own file, and empty the other one."""
    base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _contribution(study: bytes, name: str, argument: bytes, pinned: bytes, when: str, groups: bytes) -> Contribution:
    return Contribution(study, name, argument, pinned, when, msgspec.msgpack.decode(groups, type=tuple[int, ...]))


def _all(base: sqlite3.Connection, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    return base.execute(query + ("" if "ORDER" in query else " ORDER BY rowid"), values).fetchall()
