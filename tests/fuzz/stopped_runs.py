"""Runs stopped at any of their messages, and parties that meet every input in the same state."""

from __future__ import annotations

import copy
from typing import Any

from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from scenario import Network, Scenario, descent, wire


def scenario_of(padded: bool) -> Scenario:
    types = CODED_PADDED if padded else CODED_KEYS
    return Scenario(public_samples=False, scheme=types)


def stopped_at(padded: bool, kind: Kind) -> Network:
    """A run of coded-padded or coded-keys with the messages of one kind on the links, undelivered."""
    network = Network.of(scenario_of(padded), descent(2))
    network.run_until(kind)
    return network


class Frozen:
    """A party that forgets each input: the next one meets the same state."""

    def __init__(self, party: Server | Device) -> None:
        self.party = party

    def __call__(self, data: bytes) -> Any:
        # What is not part of the state (the data of a device) is put back by hand.
        party, state = self.party, copy.deepcopy(self.party.state())
        contribution = party._own.contribution if isinstance(party, Device) else None
        try:
            return wire(party.receive(data))
        finally:
            if isinstance(party, Device):
                party._own.contribution = contribution
            party.restore(state)
