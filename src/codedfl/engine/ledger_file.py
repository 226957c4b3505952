"""A device's ledger on disk: one private file beside its runs, replaced as a whole, kept after runs are wiped."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codedfl.engine.private_files import check_private, make_private_folder, sync_folder, write_private
from codedfl.protocol import Ledger


class LedgerFile:
    """Runs that go on at the same time share one ledger, hence the lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        """The ledger, saved at the end if a run was added; nobody else reads or writes it meanwhile."""
        make_private_folder(self.path.parent)
        handle = os.open(self.path.with_name(self.path.name + ".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            ledger = self._load()
            before = len(ledger.entries)
            yield ledger
            if len(ledger.entries) > before:
                write_private(self.path, [ledger.encode()])
                sync_folder(self.path.parent)
        finally:
            os.close(handle)

    def _load(self) -> Ledger:
        if not self.path.exists():
            return Ledger()
        check_private(self.path, "the ledger")
        return Ledger.decode(self.path.read_bytes())
