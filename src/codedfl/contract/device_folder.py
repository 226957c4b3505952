"""A device's contract on disk: its ledger, the tags of its rows and its snapshots, in one private folder.

Everything is on the disk before anything that follows from it leaves. What a device contributed to is never wiped: one
that forgets can be asked again.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codedfl.contract.ledger import Approval, Ledger
from codedfl.contract.ledger_base import LedgerBase
from codedfl.contract.names import checked_name
from codedfl.crypto.sealed import KEY_BYTES
from codedfl.errors import InvalidInput
from codedfl.private_files import check_private, make_private_folder, sync_folder, write_private

if TYPE_CHECKING:  # a device that joins loads its rows with the first request
    from codedfl.contract.snapshot import Snapshot


class DeviceFolder:
    """The folder of one device, mode 0700, with files of mode 0600.

    >>> import tempfile
    >>> folder = DeviceFolder(Path(tempfile.mkdtemp()) / "clinic-1")
    >>> with folder.ledger() as ledger: print(ledger)
    <Ledger of 0 approvals, 0 contributions>
    """

    def __init__(self, path: Path, rows_key: bytes = b"") -> None:
        """``rows_key`` keys the hashes of rows. Rehearsals give one, to be repeatable; a device draws its own."""
        self.path = path
        self.base = LedgerBase(path)
        self._rows_key = rows_key

    @classmethod
    def of(cls, state: Path, name: str) -> DeviceFolder:
        """The folder of the device of this name below a folder of states."""
        return cls(state / checked_name(name, "the device's name") / "contract")

    @contextmanager
    def ledger(self, with_rows: bool = False) -> Iterator[Ledger]:
        """The ledger, saved at the end if it changed; nobody else reads or writes it meanwhile.

        with_rows: with the tags of all rows, which only an approval needs. Where an exception ends the block, nothing
        is saved.
        """
        self._take_former()
        with self.base.ledger() as ledger:
            if with_rows:
                self._load_rows(ledger)
            known = set(ledger.rows)
            yield ledger
            for digest in ledger.rows.keys() - known:  # before the entry that needs them
                self._write("rows", digest, ledger.rows[digest].encode())

    def _take_former(self) -> None:
        """The ledger of 0.3 keeps counting: it is read into the new one, once."""
        oldest, former = self.path.with_name("ledger"), self.path / "ledger"
        if oldest.is_file():  # where 0.2 had it
            raise InvalidInput(
                f"the device's folder must have no ledger of codedfl 0.2, got {str(oldest)!r}: what it counted cannot"
                " be compared with studies; move it away once only rows that are not in it, or studies with noise, are"
                " approved here"
            )
        data = self._read(former)
        if data is None:
            return
        from codedfl.contract.former_ledger import former_ledger

        old = former_ledger(data)
        with self.base.ledger() as ledger:
            for approval in old.approvals:
                if ledger.approval(approval.digest) is None:
                    ledger.approvals.append(approval)
            ledger.contributions += [one for one in old.contributions if one not in ledger.contributions]
            ledger.questions += [one for one in old.questions if one not in ledger.questions]
        os.replace(former, self.path / "ledger-of-0.3")
        sync_folder(self.path)

    def _load_rows(self, ledger: Ledger) -> None:
        for one in ledger.approvals:
            saved = self._read(self._place("rows", one.digest))
            if saved is None and not one.rows:  # of a key-only participant
                continue
            if saved is None:
                raise InvalidInput(f"the hashes of the rows of every approval must be there, got none of {one.name!r}")
            from codedfl.contract.seen import SeenRows  # where rows are judged, which is at approval

            if SeenRows.wrote(saved):
                ledger.rows[one.digest] = SeenRows.decode(saved)
            else:
                from codedfl.contract.former import FormerRows  # of 0.3, which few devices have

                ledger.former[one.digest] = FormerRows.decode(saved)

    def rows_key(self) -> bytes:
        """The key of the hashes of rows: random, made once, and kept when the device's own key is renewed."""
        if self._rows_key:
            return self._rows_key
        place = self.path / "rows.key"
        if self._read(place) is None:
            make_private_folder(self.path)
            write_private(place, [secrets.token_bytes(KEY_BYTES)])
            sync_folder(self.path)
        key = place.read_bytes()
        self.base.check_rows_key(hashlib.sha256(b"codedfl rows.key|" + key).digest())
        return key

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Freeze the rows of an approval; one that is there already stays."""
        if self.snapshot(snapshot.study) is None:
            self._write("snapshots", snapshot.study, snapshot.encode())

    def withdraw(self, start: str) -> Approval:
        """Take back an approval to which nothing was contributed (``Ledger.withdraw``), with its frozen rows."""
        with self.ledger() as ledger:
            gone = ledger.withdraw(start)
            frozen = self._place("snapshots", gone.digest)
            if frozen.exists():  # Before the entry: killed here, the same approval again freezes the rows.
                frozen.unlink()
                sync_folder(frozen.parent)
        self._place("rows", gone.digest).unlink(missing_ok=True)
        return gone

    def snapshot(self, digest: bytes) -> Snapshot | None:
        """The frozen rows for the study of this digest, if there are any."""
        from codedfl.contract.snapshot import Snapshot

        data = self._read(self._place("snapshots", digest))
        return None if data is None else Snapshot.decode(data)

    def frozen(self, digest: bytes) -> Snapshot:
        """The frozen rows for the study of this digest; refused if there are none."""
        found = self.snapshot(digest)
        if found is None:
            raise InvalidInput(
                f"the rows approved for the study {digest.hex()[:16]} must be frozen on this device, got none:"
                " codedfl site approve completes an approval that was interrupted"
            )
        return found

    def _place(self, kind: str, digest: bytes) -> Path:
        return self.path / kind / digest.hex()

    def _write(self, kind: str, digest: bytes, data: bytes) -> None:
        place = self._place(kind, digest)
        make_private_folder(place.parent)
        write_private(place, [data])
        sync_folder(place.parent)

    def _read(self, path: Path) -> bytes | None:
        if not path.exists():
            return None
        check_private(path, "a file of the device's folder")
        return path.read_bytes()
