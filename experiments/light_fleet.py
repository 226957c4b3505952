"""A fleet whose devices share few processes: broker and server as of ``LocalFleet``, devices of ``light_devices``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.light_devices import Job, LightDevice
from experiments.local_fleet import LocalFleet

_END_SECONDS = 60.0


class LightFleet(LocalFleet):
    """``with LightFleet(...) as fleet: fleet.start_devices("coded", port)``: not before a measurement needs them.

    states: where the devices keep theirs.
    a_process: how many devices share one.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        parts: Sequence[tuple[Any, Any]],
        program: str,
        states: Path,
        a_process: int,
    ) -> None:
        super().__init__(folder, config, parts, program=program, pinned=False)
        self._states = states
        self._a_process = a_process

    def start_device(self, index: int) -> None:
        """All of them start together."""

    def start_devices(
        self, way: str, port: int, delays: Sequence[Mapping[str, Any]] = (), steps: int = 1, size: float = 1.0
    ) -> None:
        """delays: by device, as ``LightDevice`` has them. Empty delays nobody."""
        for first in range(0, len(self.names), self._a_process):
            devices = []
            for index in range(first, min(first + self._a_process, len(self.names))):
                name = self.names[index]
                party = self.broker.party(name)
                files = (str(self.folder / f"{name}.npz"), str(party.certificate), str(party.key))
                devices.append(LightDevice(name, *files, **(delays[index] if delays else {})))
            states = str(self._states / way)
            authority = str(self.broker.path / "ca.pem")
            job = Job(way, str(self.study), states, port, authority, tuple(devices), steps, size)
            path = job.save(self.folder / f"job-{first}.json")
            self.programs.start(f"light-{first}", [sys.executable, "-m", "experiments.light_devices", str(path)])

    def wait_for_devices(self) -> None:
        """Until they have ended by themselves."""
        self.programs.wait_for("light-", _END_SECONDS)
