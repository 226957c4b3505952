"""A device in a process that stays: its machine lives in memory, and on the disk lies what it takes to go on.

The same as ``DeviceHost`` in every reply; only that a call does not read the state back, and saving it costs what has
changed (``StateJournal``). One run at a time lives in memory, from when its list of owners is fixed: whatever else is
on the disk is taken up when called. Between runs it makes the pads of the next upload, which are in memory only.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from codedfl.engine.calls import Step
from codedfl.engine.device_host import DeviceHost, HostedRun
from codedfl.engine.letters import Parcel
from codedfl.engine.state_folder import StateFolder
from codedfl.engine.state_journal import StateJournal
from codedfl.protocol.prepared_pad import PreparedPads

log = logging.getLogger("codedfl.engine.device")


@dataclass
class _Memory:
    run: HostedRun | None = None  # the one that lives here
    pads: PreparedPads = field(default_factory=PreparedPads)  # never on the disk: see there
    in_run: bool = False


@dataclass(frozen=True)
class ResidentHost(DeviceHost):
    """A ``DeviceHost`` for a daemon. Nobody else may use its folder meanwhile (``sole_user``)."""

    _memory: _Memory = field(default_factory=_Memory, repr=False, compare=False)

    def _step(self, call: Step) -> Parcel:
        here, self._memory.run = self._memory.run, None
        # If the state cannot be saved, nobody is at home any more, and the next call finds what was saved.
        if here is None or here.run != call.run or call.name != self.name:
            return super()._step(call)
        return self._serve(here, call)

    def expire(self, but: Container[Path] = ()) -> None:
        """See ``DeviceHost``; what is gone from the disk is gone from memory."""
        super().expire(but)
        here = self._memory.run
        if here is not None and not here.home.path.exists():
            self._memory.run = None

    def prepare(self) -> None:
        """Make the pads of the next large upload, unless a run is going on; for whoever has nothing else to do."""
        layout = None if self._memory.in_run else self.party.pad_layout()
        if layout is not None and self._memory.pads.prepare(layout):
            log.info("%s: the pads of the next upload are made", self.name)

    @property
    def _pads(self) -> PreparedPads:
        return self._memory.pads

    def _home(self, path: Path) -> StateFolder:
        return StateJournal(path)

    def _keep(self, hosted: HostedRun, *, forgot: bool) -> None:
        super()._keep(hosted, forgot=forgot)
        self._memory.in_run = hosted.device.invited and not hosted.device.finished
        if hosted.device.owner_names and not hosted.device.finished:
            self._memory.run = hosted
