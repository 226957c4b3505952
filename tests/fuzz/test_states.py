"""Saved states that are well-formed but wrong: restored, or refused with ``InvalidInput``, and nothing else.

A state comes back from a disk, where an older version, another run or a half-mended file may have left it.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
from mutation import VALUES, fuzz, rewritten
from stopped_runs import scenario_of, stopped_at

from codedfl.errors import MessageRefused
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind
from codedfl.protocol.server import Server
from codedfl.state import State
from scenario import Network, descent

BOTH = pytest.mark.parametrize("padded", [False, True], ids=["coded-keys", "coded-padded"])
STAGE = pytest.mark.parametrize("stage", [Kind.AGREEMENT, Kind.SHARE, Kind.UPDATE, Kind.ANSWER])
NAME = "device-0"


def wrong(state: State, rng: random.Random) -> State:
    """The state with one value replaced by another that msgpack or an array file could have brought."""
    changed = copy.deepcopy(state)
    name = rng.choice([name for name in changed if name != "owner"])
    changed[name] = _wrong_value(changed[name], rng)
    return changed


def _wrong_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.8:
        return wrong(value, rng)
    if isinstance(value, np.ndarray) and rng.random() < 0.8:
        return rng.choice([value[..., :-1], value.astype(np.int64), value * np.nan, value.tolist(), value[0]])
    return rng.choice(VALUES) if isinstance(value, (dict, np.ndarray)) else rewritten(value, rng)


def fresh_party(network: Network, padded: bool, name: str) -> Server | Device:
    scenario = scenario_of(padded)
    if not name:
        return scenario.server(descent(2), identity=network.server.identity)
    return scenario.device(0, identity=network.devices[name].identity)


@STAGE
@BOTH
@pytest.mark.parametrize("name", ["", NAME], ids=["server", "device"])
def test_a_wrong_state_is_restored_or_refused(padded: bool, stage: Kind, name: str):
    network = stopped_at(padded, stage)
    state = (network.devices[name] if name else network.server).state()

    def restore(seed: bytes) -> None:
        party = fresh_party(network, padded, name)
        try:
            party.restore(wrong(state, random.Random(seed)) if seed else state)
        except MessageRefused as error:  # which is about messages, and lets a driver go on
            raise TypeError(f"a wrong state must be InvalidInput, got {error!r}") from error

    counts = fuzz(restore, [b""], lambda _, rng: rng.randbytes(8))
    assert min(counts.values()) > 0
