"""A run's event log, folded as it grows. What the run page shows.

Reads only what is new in the file each time, so looking on costs a long run nothing and the reader little.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from codedfl.errors import InvalidInput
from codedfl.report.event_log import EVENTS_FILE, read_event
from codedfl.report.run_fold import RunFold, RunView
from codedfl.sum.events import Event


class RunState:
    """Follows the event log of one run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / EVENTS_FILE
        if not self.path.is_file():
            raise InvalidInput(f"the folder must hold the event log of a run ({EVENTS_FILE}), got {str(folder)!r}")
        self.version = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._offset, self._first_line = 0, b""
        self._fold = RunFold()

    def look(self) -> RunView:
        """Take in what is new; ``version`` grows when anything is."""
        before = self._offset
        for time, event in self._new_events():
            self._fold.take(time, event)
        if self._offset != before or not self.version:
            self.version += 1
            self._fold.look()
        return self._fold.view

    def _new_events(self) -> Iterator[tuple[float, Event]]:
        with self.path.open("rb") as stream:
            first = stream.readline()
            if self._offset and first != self._first_line:  # another run has begun in this folder
                self._begin_anew()
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):  # being written
                    return
                self._first_line = self._first_line or line
                self._offset += len(line)
                yield read_event(self.path, line)
