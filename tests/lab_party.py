"""A device of a scenario in the place of one with a study: engines are tested with whatever machines there are."""

from __future__ import annotations

from dataclasses import dataclass, field

from codedfl.crypto.sealed import Identity
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads
from scenario import Scenario


@dataclass(frozen=True)
class LabParty:
    """Takes part in every run that its machine takes part in; ``asked`` notes what was done in which order."""

    scenario: Scenario
    index: int
    identity: Identity
    asked: list[str] = field(default_factory=list, compare=False)

    def check_approved(self) -> None:
        self.asked.append("approved")

    def begin(self, ask: bytes, run: bytes) -> None:
        del ask, run
        self.asked.append("begin")

    def pad_layout(self) -> PadLayout | None:
        return PadLayout.expected(self.scenario.plan)

    def device(self, ask: bytes, *, used: bool, pads: PreparedPads | None = None) -> Device:
        """With the rows as they are now: tests change them."""
        del ask
        self.asked.append("used" if used else "rows")
        rows = None if used else Rows(*self.scenario.data[self.index])
        return Device(self.scenario.plan, self.scenario.names[self.index], rows, identity=self.identity, pads=pads)

    def keep(self, ask: bytes, device: Device) -> None:
        del ask, device
        self.asked.append("keep")
