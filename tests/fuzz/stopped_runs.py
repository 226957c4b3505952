"""Runs stopped at any of their messages, and parties that meet every input in the same state."""

from __future__ import annotations

import copy
from typing import Any

from codedfl.protocol import Device, Server
from codedfl.protocol.messages import Kind
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from scenario import Network, Scenario, descent


def scenario_of(padded: bool) -> Scenario:
    types = (PaddedServer, PaddedDevice) if padded else (KeysServer, KeysDevice)
    return Scenario(public_samples=False, server_type=types[0], device_type=types[1])


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
        # What is not part of the state (the data of a device) is replaced, never changed in place.
        before, state = dict(self.party.__dict__), copy.deepcopy(self.party.state())
        try:
            return self.party.receive(data)
        finally:
            restored = type(self.party).__new__(type(self.party))
            restored.__dict__.update(before)
            restored.restore(state)
            self.party = restored
