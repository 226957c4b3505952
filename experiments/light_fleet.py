"""A fleet whose devices share few processes: broker and server as of ``LocalFleet``, devices of ``light_devices``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from codedfl.contract.merging import Merged
from experiments.light_devices import Job, LightDevice
from experiments.local_fleet import LocalFleet
from experiments.local_study import LocalStudy

_END_SECONDS = 60.0


class LightFleet(LocalFleet):
    """``with LightFleet(...) as fleet: fleet.start_devices("ours", port)``: not before a measurement needs them.

    per_process: how many devices share one.
    """

    def __init__(
        self, made: LocalStudy, program: str, per_process: int, patience: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(made, program=program, patience=patience)
        self._per_process = per_process

    def start_device(self, index: int) -> None:
        """All of them start together."""

    def start_devices(
        self,
        way: str,
        port: int,
        delays: Sequence[Mapping[str, Any]] = (),
        steps: int = 1,
        size: float = 1.0,
        merged: Merged = (),
    ) -> None:
        """delays: by device, as ``LightDevice`` has them. Empty delays nobody.

        Neighbours are in different processes: those who hold keys are the first.
        """
        authority = str(self.broker.path / "ca.pem")
        processes = -(-len(self.names) // self._per_process)
        for first in range(processes):
            devices = []
            for index in range(first, len(self.names), processes):
                name = self.names[index]
                party = self.address(name)
                files = (str(party.certificate), str(party.key))
                devices.append(LightDevice(name, *files, **(delays[index] if delays else {})))
            job = Job(way, str(self.folder), port, authority, tuple(devices), steps, size, merged)
            path = job.save(self.folder / f"job-{first}.json")
            self.programs.start(f"light-{first}", [sys.executable, "-m", "experiments.light_devices", str(path)])

    def wait_for_devices(self) -> None:
        """Until they have ended by themselves."""
        self.programs.wait_for("light-", _END_SECONDS)
